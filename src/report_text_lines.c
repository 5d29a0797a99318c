/* The lines below the tree: other findings, clocks, spread, what is apart, what was lost, where all of it stands. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report_text.h"

static void say(struct tml_text *text, const struct tml_text_style *style, const char *label, struct tml_text *words)
{
    if (words->length > 0)
        tml_report_line(text, style, label, tml_text_words(words));
    text->failed = text->failed || words->failed;
    tml_text_drop(words);
}

static void next_part(struct tml_text *words)
{
    if (words->length > 0)
        tml_text_add(words, "; ");
}

static const char *plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

/* ---- also ---- */

static void add_other_findings(struct tml_text *text, const struct tml_analysis *analysis,
                               const struct tml_text_style *style)
{
    const struct tml_verdict *verdict = &analysis->verdict;
    for (size_t i = 1; i < verdict->findings; i++) {
        struct tml_text words = {0};
        const struct tml_finding *finding = &verdict->finding[i];
        tml_text_printf(&words, "%s, %s: %s", tml_finding_status(finding->kind), tml_severity_word(finding->severity),
                        finding->summary);
        say(text, style, "also", &words);
    }
    bool told = verdict->finding[0].kind == TML_FINDING_INCOMPLETE_DATA;
    if (!told && verdict->abstentions > 0) {
        struct tml_text words = {0};
        tml_text_add(&words, "not judged: ");
        tml_abstentions_say(&words, verdict, &analysis->window);
        say(text, style, "also", &words);
    }
}

/* ---- clocks, spread ---- */

static void add_clocks(struct tml_text *text, const struct tml_analysis *analysis, const struct tml_text_style *style)
{
    const struct tml_window *window = &analysis->window;
    int64_t cpu_ns = window->metric[TML_METRIC_STEP_TIME_CPU].median.value_ns;
    int64_t gpu_ns = window->metric[TML_METRIC_STEP_TIME_GPU].median.value_ns;
    char cpu[TML_TEXT_MS_BYTES], gpu[TML_TEXT_MS_BYTES];
    struct tml_text words = {0};
    if (!window->cuda || window->steps == 0)
        return;
    if (window->clock == TML_CLOCK_CPU)
        tml_text_printf(&words, "CPU: only %" PRIu64 " of %" PRIu64 " steps %s whole on the GPU (%s)",
                        window->gpu_complete_steps, window->common_steps,
                        window->gpu_complete_steps == 1 ? "is" : "are", tml_reason_words(window->clock_reason));
    if (cpu_ns != TML_NS_NONE && gpu_ns != TML_NS_NONE) {
        tml_text_format_ms(cpu, cpu_ns, tml_report_decimals(analysis));
        tml_text_format_ms(gpu, gpu_ns, tml_report_decimals(analysis));
        next_part(&words);
        tml_text_printf(&words, "step time %s ms on the GPU clock, %s ms on the CPU clock", gpu, cpu);
    }
    say(text, style, "clock", &words);
}

/* ---- lead ---- */

static const char *lead_means(int64_t lead_ns)
{
    if (lead_ns < TML_LEAD_NEAR_ZERO_NS)
        return "the device waits for the host";
    return lead_ns > TML_LEAD_LARGE_NS ? "the host is well ahead of the device"
                                       : "the host is a little ahead of the device";
}

static void add_lead(struct tml_text *text, const struct tml_analysis *analysis, const struct tml_text_style *style)
{
    const struct tml_window *window = &analysis->window;
    const struct tml_over_ranks *lead = &window->metric[TML_METRIC_DEVICE_LEAD];
    char value[TML_TEXT_MS_BYTES], error[TML_TEXT_MS_BYTES];
    struct tml_text words = {0};
    if (!window->cuda || window->steps == 0)
        return;
    if (lead->median.value_ns == TML_NS_NONE) {
        tml_text_printf(&words, "n/a (%s)", tml_reason_words(lead->status.reason));
    } else {
        tml_text_format_ms(value, lead->median.value_ns, tml_text_ms_decimals(lead->median.value_ns));
        tml_text_format_ms(error, window->lead.error_ns, tml_text_ms_decimals(window->lead.error_ns));
        tml_text_printf(&words, "%s: the end of forward comes %s ms after the host asked for it (median, to %s ms)",
                        lead_means(lead->median.value_ns), value, error);
    }
    say(text, style, "lead", &words);
}

static const struct tml_rank_window *rank_window(const struct tml_window *window, int rank)
{
    for (size_t i = 0; i < window->rank_count; i++)
        if ((int)window->ranks[i].run->rank == rank)
            return &window->ranks[i];
    return NULL;
}

static void add_spread(struct tml_text *text, const struct tml_analysis *analysis, const struct tml_text_style *style)
{
    const struct tml_window *window = &analysis->window;
    const struct tml_rank_window *rank = rank_window(window, window->metric[TML_METRIC_STEP_TIME].median.rank);
    if (!rank || window->steps < TML_WARN_STEPS)
        return;
    const struct tml_spread *spread = &rank->spread[TML_METRIC_STEP_TIME];
    char low[TML_TEXT_MS_BYTES], middle[TML_TEXT_MS_BYTES], high[TML_TEXT_MS_BYTES];
    struct tml_text words = {0};
    tml_text_format_ms(low, spread->p10_ns, tml_report_decimals(analysis));
    tml_text_format_ms(middle, spread->p50_ns, tml_report_decimals(analysis));
    tml_text_format_ms(high, spread->p90_ns, tml_report_decimals(analysis));
    tml_text_printf(&words, "step time %s ms at the median step, %s to %s ms for 8 of 10 steps", middle, low, high);
    if (window->rank_count > 1)
        tml_text_printf(&words, " (rank %d)", window->metric[TML_METRIC_STEP_TIME].median.rank);
    say(text, style, "spread", &words);
}

/* ---- apart ---- */

static int64_t first_step_ns(const struct tml_run *run)
{
    for (size_t i = 0; i < run->rank_count; i++) {
        const struct tml_warmup *warmup = &run->ranks[i].warmup;
        if (!warmup->has_first || warmup->first.term_ns[TML_CLOCK_CPU][TML_TERM_TRACED_STEP] == TML_NS_NONE)
            continue;
        int64_t fetch_ns =
            warmup->first.cell[TML_REGION_PRE][TRACEML_PHASE_DATALOADER_FETCH].exclusive_ns[TML_CLOCK_CPU];
        return warmup->first.term_ns[TML_CLOCK_CPU][TML_TERM_TRACED_STEP] + (fetch_ns == TML_NS_NONE ? 0 : fetch_ns);
    }
    return TML_NS_NONE;
}

static void say_warmup(struct tml_text *words, const struct tml_analysis *analysis)
{
    uint64_t steps = analysis->facts.warmup_steps;
    int64_t first_ns = first_step_ns(analysis->run);
    char value[TML_TEXT_MS_BYTES];
    if (analysis->window.first_fetches_kept)
        tml_text_add(words, "first step as warm-up; nearly every step has a first fetch, so those stay");
    else if (first_ns != TML_NS_NONE && steps > 1)
        tml_text_printf(words, "first step, and %" PRIu64 " step%s with the first fetch of an iterator, as warm-up",
                        steps - 1, plural(steps - 1));
    else if (first_ns != TML_NS_NONE)
        tml_text_add(words, "first step as warm-up");
    else if (steps > 0)
        tml_text_printf(words, "%" PRIu64 " step%s with the first fetch of an iterator as warm-up", steps,
                        plural(steps));
    if (first_ns == TML_NS_NONE)
        return;
    tml_text_format_ms(value, first_ns, tml_text_ms_decimals(first_ns));
    tml_text_printf(words, " (first: %s ms%s)", value, analysis->window.cuda ? " on the CPU clock" : "");
}

static void add_apart(struct tml_text *text, const struct tml_analysis *analysis, const struct tml_text_style *style)
{
    const struct tml_run_facts *facts = &analysis->facts;
    struct tml_text words = {0};
    say_warmup(&words, analysis);
    if (facts->aborted > 0) {
        next_part(&words);
        tml_text_printf(&words, "%" PRIu64 " step%s ended by an exception, in no average", facts->aborted,
                        plural(facts->aborted));
    }
    if (facts->folded > 0) {
        next_part(&words);
        tml_text_printf(&words, "%" PRIu64 " older step%s, kept as totals", facts->folded, plural(facts->folded));
    }
    if (facts->restarts > 0) {
        next_part(&words);
        tml_text_printf(&words, "%u earlier attempt%s of this run", facts->restarts, plural(facts->restarts));
    }
    say(text, style, "apart", &words);
}

/* ---- loop ---- */

/* What no window holds: it lies before steps that are apart as warm-up. */
static void add_between(struct tml_text *text, const struct tml_analysis *analysis, const struct tml_text_style *style)
{
    const struct tml_run_facts *facts = &analysis->facts;
    const struct tml_between *between = &facts->between;
    struct tml_text words = {0};
    if (between->count > 0 && !analysis->window.first_fetches_kept)
        tml_between_say(&words, facts);
    say(text, style, "loop", &words);
}

/* ---- run ---- */

static void say_seconds(struct tml_text *words, const char *name, double s)
{
    char value[TML_TEXT_MS_BYTES];
    tml_text_format_s(value, s);
    if (*value)
        tml_text_printf(words, "%s%s %s", words->length ? ", " : "", name, value);
}

static void say_ns(struct tml_text *words, const char *name, int64_t ns, bool zero_too)
{
    if (ns != TML_NS_NONE && (zero_too || ns > 0))
        say_seconds(words, name, (double)ns / TML_NS_PER_S);
}

static void add_run(struct tml_text *text, const struct tml_analysis *analysis, const struct tml_text_style *style)
{
    const struct tml_run_facts *facts = &analysis->facts;
    struct tml_text words = {0};
    if (isnan(facts->process_s))
        tml_text_printf(&words, "process n/a (%s)", tml_reason_words(facts->end_gap));
    say_seconds(&words, "process", facts->process_s);
    say_ns(&words, "training loop", facts->training_loop_ns, true);
    say_ns(&words, "all steps", facts->step_total_ns[TML_CLOCK_CPU], true);
    say_ns(&words, "evaluation", facts->evaluation_ns, false);
    say_ns(&words, "checkpoints", facts->checkpoint_ns, false);
    say(text, style, "run", &words);
}

/* ---- lost ---- */

static void say_missing(struct tml_text *words, const struct tml_run_facts *facts)
{
    if (facts->missing_count == 0 || facts->world_size == 1 || facts->ranks_seen == 0)
        return;
    tml_text_printf(words, "no steps of rank%s", plural(facts->missing_count));
    for (size_t i = 0; i < facts->missing_count && i < 8; i++)
        tml_text_printf(words, "%s %u", i ? "," : "", facts->missing[i]);
    if (facts->missing_count > 8)
        tml_text_printf(words, " and %zu more", facts->missing_count - 8);
}

/* No end line: what was not written yet when the process ended is not counted anywhere. */
static void say_unclosed(struct tml_text *words, const struct tml_run_facts *facts)
{
    if (facts->ranks_unclosed == 0 || facts->running)
        return;
    next_part(words);
    if (facts->world_size == 1)
        tml_text_add(words, "the process");
    else if (facts->ranks_unclosed == 1)
        tml_text_printf(words, "rank %u", facts->unclosed_rank);
    else
        tml_text_printf(words, "%zu ranks", facts->ranks_unclosed);
    tml_text_printf(words, " ended without closing: steps that completed in the last %g s before that may be missing",
                    (double)facts->written_within_ms / 1e3);
}

static void say_left_out(struct tml_text *words, const struct tml_window *window)
{
    if (window->unshared_steps > 0) {
        next_part(words);
        tml_text_printf(words, "%" PRIu64 " step%s that not every rank has", window->unshared_steps,
                        plural(window->unshared_steps));
    }
    if (window->left_out == 0)
        return;
    next_part(words);
    tml_text_printf(words, "%" PRIu64 " of %" PRIu64 " steps left out, not whole on the %s clock", window->left_out,
                    window->common_steps, window->clock == TML_CLOCK_GPU ? "GPU" : "CPU");
    const char *before = " (";
    for (unsigned reason = 1; reason < TML_REASON_COUNT; reason++) {
        if (window->left_out_why[reason] == 0)
            continue;
        tml_text_printf(words, "%s%s", before, tml_reason_words((enum tml_reason)reason));
        before = ", ";
    }
    tml_text_add(words, ")");
}

static void add_lost(struct tml_text *text, const struct tml_analysis *analysis, const struct tml_text_style *style)
{
    const struct tml_run_facts *facts = &analysis->facts;
    const struct tml_run *run = analysis->run;
    struct tml_text words = {0};
    say_missing(&words, facts);
    for (unsigned loss = 0; loss < TML_LOSS_COUNT; loss++) {
        if (facts->losses[loss] == 0)
            continue;
        next_part(&words);
        tml_text_printf(&words, "%" PRIu64 " %s", facts->losses[loss],
                        tml_loss_words((enum tml_loss)loss, facts->losses[loss]));
    }
    if (run->bad_lines > 0) {
        next_part(&words);
        tml_text_printf(&words, "%" PRIu64 " line%s not readable, the first: %s", run->bad_lines,
                        plural(run->bad_lines), run->first_bad ? run->first_bad : "unknown");
    }
    say_left_out(&words, &analysis->window);
    say_unclosed(&words, facts);
    if (words.length == 0)
        tml_text_add(&words, facts->running ? "nothing so far" : "nothing");
    say(text, style, "lost", &words);
}

void tml_report_lines(struct tml_text *text, const struct tml_analysis *analysis, const struct tml_text_style *style)
{
    struct tml_text words = {0};
    add_other_findings(text, analysis, style);
    if (analysis->window.steps >= TML_WARN_STEPS) {
        add_clocks(text, analysis, style);
        add_lead(text, analysis, style);
        add_spread(text, analysis, style);
    }
    add_apart(text, analysis, style);
    add_between(text, analysis, style);
    add_run(text, analysis, style);
    add_lost(text, analysis, style);
    if (analysis->facts.running)
        tml_text_add(&words, "the run is still going: this is of its steps so far; the final summary comes at its end");
    else if (!style->unsaved)
        tml_text_printf(&words, "%s/final_summary.json", analysis->run->directory);
    say(text, style, "full", &words);
}
