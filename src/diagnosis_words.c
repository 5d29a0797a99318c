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

static void say_of(struct tml_text *text, int64_t part_ns, int64_t whole_ns)
{
    char part[TML_TEXT_MS_BYTES], whole[TML_TEXT_MS_BYTES];
    unsigned decimals = tml_text_ms_decimals(whole_ns);
    tml_text_format_ms(part, part_ns, decimals);
    tml_text_format_ms(whole, whole_ns, decimals);
    tml_text_printf(text, "%s of %s ms", part, whole);
}

static void say_steps(struct tml_text *text, uint64_t steps)
{
    tml_text_printf(text, "%" PRIu64 " step%s", steps, steps == 1 ? "" : "s");
}

/* "(128.0 of 200.4 ms, GPU clock, 275 steps)" */
static void say_basis(struct tml_text *text, const struct tml_finding *finding, const struct tml_window *window)
{
    tml_text_add(text, " (");
    say_of(text, finding->cost_ns, finding->denominator_ns);
    if (window->rank_count > 1)
        tml_text_printf(text, ", median of %zu ranks, worst r%d", window->rank_count, finding->rank);
    tml_text_printf(text, ", %s clock, ", window->clock == TML_CLOCK_GPU ? "GPU" : "CPU");
    say_steps(text, window->steps);
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

/* The workers start anew with every iterator: a remedy only where several epochs and workers were seen. */
static bool restarts_workers(const struct tml_window *window, const struct tml_run_facts *facts)
{
    return window->first_fetches_kept && facts->epochs_begun > 1 && facts->loader.workers > 0 &&
           facts->loader.persistent_workers == 0;
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
    if (restarts_workers(window, facts))
        tml_text_printf(text,
                        "set persistent_workers=True: the %" PRId64 " workers start anew in each of %" PRId64 " epochs",
                        facts->loader.workers, facts->epochs_begun);
    else if (window->first_fetches_kept)
        tml_text_add(text, "keep one iterator alive: nearly every step begins a new one");
    else if (facts->loader.workers >= 0)
        say_more_workers(text, facts);
    else if (facts->python)
        tml_text_add(text, "find out what the next batch waits for: its loader, decoding, storage");
    else
        tml_text_add(text, "make the next batch in another thread while the step runs");
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

/* ---- Nothing found ---- */

/* Where copies are not observed, the residual is known as a bound only. */
static void say_bound(struct tml_text *text, const struct tml_window *window, const char *before)
{
    char share[TML_PERCENT_BYTES];
    const struct tml_over_ranks *bound = &window->metric[TML_METRIC_UNATTRIBUTED];
    if (window->metric[TML_METRIC_RESIDUAL].status.reason == TML_REASON_OBSERVER_MISSING && !isnan(bound->share))
        tml_text_printf(text, "%sresidual and unobserved copies together %s", before, tml_percent(bound->share, share));
}

/* "input wait 3 %, residual 2 %" of what is known. */
static void say_shares(struct tml_text *text, const struct tml_window *window)
{
    static const enum tml_metric shown[] = {TML_METRIC_INPUT_WAIT, TML_METRIC_COMPUTE, TML_METRIC_RESIDUAL};
    const char *before = "";
    for (unsigned i = 0; i < sizeof shown / sizeof *shown; i++) {
        char share[TML_PERCENT_BYTES];
        double its = window->metric[shown[i]].share;
        if (isnan(its))
            continue;
        tml_text_printf(text, "%s%s %s", before, tml_metrics[shown[i]].words, tml_percent(its, share));
        before = ", ";
    }
    say_bound(text, window, before);
}

static bool any_share(const struct tml_window *window)
{
    return !isnan(window->metric[TML_METRIC_INPUT_WAIT].share) || !isnan(window->metric[TML_METRIC_COMPUTE].share) ||
           !isnan(window->metric[TML_METRIC_RESIDUAL].share);
}

/* A share that would have been a finding, had it cost enough. */
static bool held_back_by_floor(const struct tml_window *window)
{
    for (unsigned i = 0; i < TML_RULE_COUNT; i++) {
        const struct tml_over_ranks *signal = &window->metric[tml_rules[i].signal[0]];
        if (tml_metric_usable(&signal->status) && signal->share >= tml_rules[i].warn)
            return true;
    }
    return false;
}

static void sum_balanced(struct tml_text *text, const struct tml_window *window)
{
    tml_text_add(text, held_back_by_floor(window) ? "no part of the step that could be saved costs 1 ms: "
                                                  : "no part of the step stands out: ");
    say_shares(text, window);
    tml_text_printf(text, " of step time (%s clock, ", window->clock == TML_CLOCK_GPU ? "GPU" : "CPU");
    say_steps(text, window->steps);
    tml_text_add(text, ")");
}

static void advise_balanced(struct tml_text *text, const struct tml_run_facts *facts)
{
    tml_text_printf(text, "nothing to repair here; for more speed profile %s",
                    facts->python ? "the model itself (torch.profiler)" : "the work itself");
}

/* ---- Could not tell ---- */

void tml_abstention_say(struct tml_text *text, const struct tml_abstention *abstention, const struct tml_window *window)
{
    static const int metric_of[TRACEML_PHASE_COUNT] = {
        [TRACEML_PHASE_FORWARD] = TML_METRIC_FORWARD, [TRACEML_PHASE_BACKWARD] = TML_METRIC_BACKWARD};
    if (abstention->launch_time)
        tml_text_printf(text, "the device's time is not known: %s", tml_reason_words(abstention->reason));
    else if (abstention->phase < 0 || abstention->reason == TML_REASON_OBSERVER_MISSING)
        tml_text_add(text, tml_reason_words(abstention->reason));
    else {
        tml_text_printf(text, "%s: ", phase_words[abstention->phase]);
        const struct tml_metric_status *status = &window->metric[metric_of[abstention->phase]].status;
        if (abstention->reason == TML_REASON_NEVER_OBSERVED && metric_of[abstention->phase] && status->steps_observed)
            tml_text_printf(text, "seen in %" PRIu64 " of %" PRIu64 " steps", status->steps_observed,
                            status->steps_expected);
        else
            tml_text_add(text, tml_reason_words(abstention->reason));
    }
}

static void sum_incomplete(struct tml_text *text, const struct tml_window *window, const struct tml_verdict *verdict)
{
    if (any_share(window)) {
        tml_text_add(text, "nothing stands out in what was measured (");
        say_shares(text, window);
        tml_text_add(text, " of step time); ");
    }
    tml_text_add(text, "not judged: ");
    for (size_t i = 0; i < verdict->abstentions; i++) {
        const struct tml_abstention *abstention = &verdict->abstained[i];
        tml_text_printf(text, "%s%s (", i ? ", " : "", tml_finding_status(abstention->rule->kind));
        tml_abstention_say(text, abstention, window);
        tml_text_add(text, ")");
    }
}

/* How much somebody can do about it: the first of the list is advised on. */
static unsigned use_of(const struct tml_abstention *abstention)
{
    switch (abstention->reason) {
    case TML_REASON_HOOK_NOT_INSTALLED:
        return 3;
    case TML_REASON_NEVER_OBSERVED:
    case TML_REASON_OTHER_THREAD:
    case TML_REASON_PRE_STEP:
        return 2;
    case TML_REASON_OBSERVER_MISSING:
        return 0;
    default:
        return 1;
    }
}

static const struct tml_abstention *most_useful(const struct tml_verdict *verdict)
{
    const struct tml_abstention *best = &verdict->abstained[0];
    for (size_t i = 1; i < verdict->abstentions; i++)
        if (use_of(&verdict->abstained[i]) > use_of(best))
            best = &verdict->abstained[i];
    return best;
}

static void advise_phase(struct tml_text *text, const struct tml_abstention *abstention, bool python)
{
    const char *phase = abstention->phase < 0 ? "step" : phase_words[abstention->phase];
    bool seen_by_hook = abstention->reason != TML_REASON_HOOK_NOT_INSTALLED;
    if (abstention->reason == TML_REASON_OTHER_THREAD && abstention->phase == TRACEML_PHASE_DATALOADER_FETCH)
        tml_text_add(text, "time what the step's own thread takes its batches from: another thread reads the loader");
    else if (!python)
        tml_text_printf(text, "bracket the %s with traceml_begin() and traceml_end()", phase);
    else if (!seen_by_hook)
        tml_text_printf(text, "have the %s timed: traceml.init(mode=\"auto\")", phase);
    else if (abstention->phase == TRACEML_PHASE_FORWARD)
        tml_text_add(text, "give trace_step() the module that the loop really calls, and call it inside the block");
    else
        tml_text_printf(text, "run the %s inside the trace_step() block", phase);
}

static void advise_incomplete(struct tml_text *text, const struct tml_run_facts *facts,
                              const struct tml_verdict *verdict)
{
    const struct tml_abstention *abstention = most_useful(verdict);
    if (use_of(abstention) >= 2)
        advise_phase(text, abstention, facts->python);
    else if (abstention->reason == TML_REASON_OBSERVER_MISSING)
        tml_text_add(text, "nothing to repair in the script: this version cannot tell copies to the device from "
                           "residual time");
    else
        tml_text_add(text, "see what was lost below, and run again without its cause");
}

/* ---- Too little ---- */

static void sum_warmup(struct tml_text *text, const struct tml_window *window)
{
    if (window->steps == 0)
        tml_text_add(text, "no completed step");
    else
        tml_text_printf(text, "%" PRIu64 " completed step", window->steps);
    tml_text_printf(text, " beside warm-up; a verdict needs %d", TML_WARN_STEPS);
}

static void sum_no_data(struct tml_text *text, const struct tml_window *window)
{
    if (window->rank_count > 1)
        tml_text_printf(text, "the %zu ranks share no completed step", window->rank_count);
    else
        tml_text_add(text, "no completed step");
}

static void advise_no_data(struct tml_text *text, const struct tml_window *window, const struct tml_run_facts *facts)
{
    if (window->rank_count > 1)
        tml_text_add(text, "look at why the ranks did different steps");
    else if (facts->aborted > 0)
        tml_text_printf(text, "look at why every step was left by an exception (%" PRIu64 " were)", facts->aborted);
    else if (facts->python || !facts->environment)
        tml_text_add(text, "put `with traceml.trace_step(model):` around the training step, and let it end once");
    else
        tml_text_add(text, "bracket the training step with traceml_step_begin() and traceml_step_end()");
}

/* ---- Any finding ---- */

static void say_summary(struct tml_text *text, const struct tml_finding *finding, const struct tml_window *window,
                        const struct tml_verdict *verdict)
{
    switch (finding->kind) {
    case TML_FINDING_INPUT_BOUND:
        sum_input(text, finding, window);
        break;
    case TML_FINDING_RESIDUAL_HEAVY:
        sum_residual(text, finding, window);
        break;
    case TML_FINDING_BALANCED:
        sum_balanced(text, window);
        break;
    case TML_FINDING_INCOMPLETE_DATA:
        sum_incomplete(text, window, verdict);
        break;
    case TML_FINDING_WARMUP:
        sum_warmup(text, window);
        break;
    default:
        sum_no_data(text, window);
    }
}

static void say_action(struct tml_text *text, const struct tml_finding *finding, const struct tml_window *window,
                       const struct tml_run_facts *facts, const struct tml_verdict *verdict)
{
    switch (finding->kind) {
    case TML_FINDING_INPUT_BOUND:
        advise_input(text, window, facts);
        break;
    case TML_FINDING_RESIDUAL_HEAVY:
        advise_residual(text);
        break;
    case TML_FINDING_BALANCED:
        advise_balanced(text, facts);
        break;
    case TML_FINDING_INCOMPLETE_DATA:
        advise_incomplete(text, facts, verdict);
        break;
    case TML_FINDING_WARMUP:
        tml_text_add(text, "let it run for more steps");
        break;
    default:
        advise_no_data(text, window, facts);
    }
}

bool tml_finding_say(struct tml_finding *finding, const struct tml_window *window, const struct tml_run_facts *facts,
                     const struct tml_verdict *verdict)
{
    struct tml_text summary = {0}, action = {0};
    say_summary(&summary, finding, window, verdict);
    say_action(&action, finding, window, facts, verdict);
    finding->summary = tml_text_take(&summary);
    finding->action = tml_text_take(&action);
    return finding->summary && finding->action;
}
