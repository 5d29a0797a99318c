/* The sentences of a finding: what it stands on, and one next action that the evidence carries. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "diagnosis.h"

static const char *const phase_words[TRACEML_PHASE_COUNT] = {
    [TRACEML_PHASE_STEP] = "step",
    [TRACEML_PHASE_DATALOADER_FETCH] = "data loader",
    [TRACEML_PHASE_H2D] = "H2D copies",
    [TRACEML_PHASE_FORWARD] = "forward",
    [TRACEML_PHASE_BACKWARD] = "backward",
    [TRACEML_PHASE_OPTIMIZER] = "optimizer",
    [TRACEML_PHASE_EVALUATION] = "evaluation",
    [TRACEML_PHASE_CHECKPOINT] = "checkpoint",
    [TRACEML_PHASE_USER] = "own spans",
};

const char *tml_phase_words(unsigned phase)
{
    return phase_words[phase];
}

/* ---- Numbers in a sentence ---- */

const char *tml_percent(double share, char out[TML_PERCENT_BYTES])
{
    double percent = share * 100 + (share < 0 ? -0.5 : 0.5);
    if (percent >= 1000 || percent <= -1000) /* of a whole that is next to nothing: wider than its column otherwise */
        snprintf(out, TML_PERCENT_BYTES, share > 0 ? ">999 %%" : "<-999 %%");
    else
        snprintf(out, TML_PERCENT_BYTES, share > 0 && (int)percent == 0 ? "<1 %%" : "%d %%", (int)percent);
    return out;
}

void tml_finding_say_of(struct tml_text *text, int64_t part_ns, int64_t whole_ns)
{
    char part[TML_TEXT_MS_BYTES], whole[TML_TEXT_MS_BYTES];
    unsigned decimals = tml_text_ms_decimals(whole_ns);
    tml_text_format_ms(part, part_ns, decimals);
    tml_text_format_ms(whole, whole_ns, decimals);
    tml_text_printf(text, "%s of %s ms", part, whole);
}

void tml_finding_say_steps(struct tml_text *text, const struct tml_window *window)
{
    tml_text_printf(text, "%s clock, %" PRIu64 " step%s", window->clock == TML_CLOCK_GPU ? "GPU" : "CPU", window->steps,
                    window->steps == 1 ? "" : "s");
}

/* "(128.0 of 200.4 ms, GPU clock, 275 steps)" */
static void say_basis(struct tml_text *text, const struct tml_finding *finding, const struct tml_window *window)
{
    tml_text_add(text, " (");
    tml_finding_say_of(text, finding->cost_ns, finding->denominator_ns);
    if (window->rank_count > 1)
        tml_text_printf(text, ", median of %zu ranks, worst r%d", window->rank_count, finding->rank);
    tml_text_add(text, ", ");
    tml_finding_say_steps(text, window);
    tml_text_add(text, ")");
}

/* ---- Input ---- */

static void sum_input(struct tml_text *text, const struct tml_finding *finding, const struct tml_window *window)
{
    char share[TML_PERCENT_BYTES];
    tml_text_printf(text, "%s of the step is ", tml_percent(finding->share, share));
    if (window->clock == TML_CLOCK_GPU)
        tml_text_add(text, "the device waiting for the next batch");
    else
        tml_text_add(text, "the training thread waiting for the next batch");
    say_basis(text, finding, window);
    if (tml_window_is_launch_time(window))
        tml_text_printf(text, "; how long the device waited was not measured: %s",
                        tml_reason_words(window->clock_reason));
}

static void say_more_workers(struct tml_text *text, const struct tml_run_facts *facts)
{
    int64_t workers = facts->loader.workers, cores = facts->cores;
    if (workers == 0)
        tml_text_add(text, "give the DataLoader workers (it has 0: the step waits while each batch is made)");
    else if (cores > 0 && workers + 1 >= cores)
        tml_text_printf(text,
                        "make a sample cheaper to load (decoding, storage, caching): %" PRId64
                        " workers have all %" PRId64 " cores already",
                        workers, cores);
    else if (cores > 0)
        tml_text_printf(text,
                        "raise num_workers above %" PRId64 " (the host has %" PRId64
                        " cores), or make a sample cheaper to load",
                        workers, cores);
    else
        tml_text_printf(text, "raise num_workers above %" PRId64 ", or make a sample cheaper to load", workers);
}

static void advise_input(struct tml_text *text, const struct tml_window *window, const struct tml_run_facts *facts)
{
    if (window->first_fetches_kept && tml_restarts_workers(facts))
        tml_advise_persistent_workers(text, facts);
    else if (window->first_fetches_kept)
        tml_text_add(text, "keep one iterator alive: nearly every step begins a new one");
    else if (facts->loader.workers >= 0)
        say_more_workers(text, facts);
    else if (facts->python)
        tml_text_add(text, "find out what the next batch waits for: its loader, decoding, storage");
    else
        tml_text_add(text, "make the next batch in another thread while the step runs");
}

/* ---- H2D ---- */

/* "; 12.0 ms before the step, 3.0 ms inside" */
static void say_where(struct tml_text *text, const struct tml_finding *finding, const struct tml_window *window)
{
    static const struct {
        enum tml_metric metric;
        const char *where;
    } places[] = {{TML_METRIC_PRE_STEP_H2D, "before the step"}, {TML_METRIC_H2D, "inside"}};
    const char *before = "; ";
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        int64_t ns = window->metric[places[i].metric].median.value_ns;
        char value[TML_TEXT_MS_BYTES];
        if (ns == TML_NS_NONE)
            continue;
        tml_text_format_ms(value, ns, tml_text_ms_decimals(finding->denominator_ns));
        tml_text_printf(text, "%s%s ms %s", before, value, places[i].where);
        before = ", ";
    }
}

static void sum_h2d(struct tml_text *text, const struct tml_finding *finding, const struct tml_window *window)
{
    char share[TML_PERCENT_BYTES];
    tml_text_printf(text, "%s of the step is copying to the device", tml_percent(finding->share, share));
    say_basis(text, finding, window);
    say_where(text, finding, window);
}

static void advise_h2d(struct tml_text *text, const struct tml_run_facts *facts)
{
    if (facts->loader.pin_memory == 0)
        tml_text_add(text, "set pin_memory=True on the DataLoader and copy with non_blocking=True");
    else
        tml_text_add(text, "copy the next batch on a stream of its own while the step runs, or make it smaller");
}

/* ---- Residual ---- */

static void sum_residual(struct tml_text *text, const struct tml_finding *finding, const struct tml_window *window)
{
    char share[TML_PERCENT_BYTES];
    tml_text_printf(text, "%s of the step lies in no measured phase", tml_percent(finding->share, share));
    say_basis(text, finding, window);
}

static void advise_residual(struct tml_text *text)
{
    tml_text_add(text, "look at what the step does beside forward, backward and optimizer (loss, metrics, logging, "
                       "reading values back); do it less often or outside of the step");
}

/* ---- Own cost ---- */

static void sum_instrumentation(struct tml_text *text, const struct tml_finding *finding,
                                const struct tml_window *window)
{
    char share[TML_PERCENT_BYTES];
    tml_text_printf(text, "TraceML itself costs %s of the step", tml_percent(finding->share, share));
    say_basis(text, finding, window);
}

static void advise_instrumentation(struct tml_text *text, const struct tml_run_facts *facts)
{
    if (facts->python)
        tml_text_add(text, "trace a part of the run alone: traceml run --trace-max-steps N");
    else
        tml_text_add(text, "bracket fewer spans a step");
}

/* ---- Compute ---- */

static void sum_compute(struct tml_text *text, const struct tml_finding *finding, const struct tml_window *window)
{
    char share[TML_PERCENT_BYTES];
    tml_text_printf(text, "%s of the step is forward, backward and optimizer", tml_percent(finding->share, share));
    say_basis(text, finding, window);
    if (window->rank_count > 1)
        tml_text_add(text, "; backward contains gradient synchronisation, which is not measured apart");
    if (window->metric[TML_METRIC_H2D].status.reason == TML_REASON_OBSERVER_MISSING)
        tml_text_add(text, "; copies inside them are not seen");
}

static void advise_compute(struct tml_text *text, const struct tml_window *window, const struct tml_run_facts *facts)
{
    const char *with = facts->python ? " (torch.profiler)" : "";
    if (window->rank_count > 1)
        tml_text_printf(text, "profile one step%s: how much of backward is waiting for other ranks", with);
    else if (!tml_between_advise(text, window, facts))
        tml_text_printf(text, "nothing to repair around the model; for more speed profile the model itself%s", with);
}

/* ---- Launches ---- */

static void sum_launch(struct tml_text *text, const struct tml_finding *finding)
{
    const struct tml_launch_steps *lead = &finding->launch;
    char share[TML_PERCENT_BYTES];
    tml_text_printf(text,
                    "the device waits for the host: at forward's end and at optimizer's begin it was less than 50 us "
                    "behind in %s of %" PRIu64 " steps without host synchronisation",
                    tml_percent((double)lead->undisturbed_near_zero / (double)lead->undisturbed, share),
                    lead->undisturbed);
}

static void advise_launch(struct tml_text *text, const struct tml_run_facts *facts)
{
    if (facts->python)
        tml_text_add(text, "give the device more work a launch: torch.compile(model), or a larger batch");
    else
        tml_text_add(text, "give the device more work a launch: fuse kernels, or record them into a CUDA graph");
}

/* ---- Any finding ---- */

static void say(struct tml_text *summary, struct tml_text *action, const struct tml_finding *finding,
                const struct tml_window *window, const struct tml_run_facts *facts, const struct tml_verdict *verdict)
{
    switch (finding->kind) {
    case TML_FINDING_INPUT_BOUND:
        sum_input(summary, finding, window);
        advise_input(action, window, facts);
        break;
    case TML_FINDING_H2D_BOUND:
        sum_h2d(summary, finding, window);
        advise_h2d(action, facts);
        break;
    case TML_FINDING_RESIDUAL_HEAVY:
        sum_residual(summary, finding, window);
        advise_residual(action);
        break;
    case TML_FINDING_INSTRUMENTATION_HEAVY:
        sum_instrumentation(summary, finding, window);
        advise_instrumentation(action, facts);
        break;
    case TML_FINDING_COMPUTE_BOUND:
        sum_compute(summary, finding, window);
        advise_compute(action, window, facts);
        break;
    case TML_FINDING_LAUNCH_BOUND:
        sum_launch(summary, finding);
        advise_launch(action, facts);
        break;
    default:
        if (finding->rule)
            tml_finding_say_straggler(summary, action, finding, window);
        else
            tml_finding_say_none(summary, action, finding, window, facts, verdict);
    }
}

bool tml_finding_say(struct tml_finding *finding, const struct tml_window *window, const struct tml_run_facts *facts,
                     const struct tml_verdict *verdict)
{
    struct tml_text summary = {0}, action = {0};
    say(&summary, &action, finding, window, facts, verdict);
    if (finding->severity == TML_SEVERITY_INFO && finding->kind >= TML_FINDING_INCOMPLETE_DATA)
        tml_between_add(&summary, window, facts);
    finding->summary = tml_text_take(&summary);
    finding->action = tml_text_take(&action);
    return finding->summary && finding->action;
}
