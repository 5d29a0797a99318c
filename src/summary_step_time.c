/* The step_time section: every metric of the one table, over ranks and per rank, with its three properties. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "summary.h"

/* ---- Blocks over ranks ---- */

static void write_average(struct tml_json_writer *json, const struct tml_window *window)
{
    tml_json_begin_object(json, "average");
    for (unsigned i = 0; i < TML_METRIC_COUNT; i++)
        tml_json_write_ns_as_ms(json, tml_metrics[i].key, window->metric[i].status.value_ns);
    tml_json_end_object(json);
}

/* The rank is a text, as in traceml-ai: a key of groups.rows. */
static void write_point(struct tml_json_writer *json, const char *key, const struct tml_rank_value *point)
{
    char rank[16];
    tml_json_begin_object(json, key);
    tml_json_write_ns_as_ms(json, "value", point->value_ns);
    snprintf(rank, sizeof rank, "%d", point->rank);
    tml_json_write_string(json, "idx", point->rank < 0 ? NULL : rank);
    tml_json_end_object(json);
}

static void write_points(struct tml_json_writer *json, const char *key, const struct tml_window *window, bool worst)
{
    tml_json_begin_object(json, key);
    for (unsigned i = 0; i < TML_METRIC_COUNT; i++)
        write_point(json, tml_metrics[i].key, worst ? &window->metric[i].worst : &window->metric[i].median);
    tml_json_end_object(json);
}

static void write_shares(struct tml_json_writer *json, const struct tml_window *window)
{
    tml_json_begin_object(json, "share");
    for (unsigned i = 0; i < TML_METRIC_COUNT; i++)
        tml_json_write_number(json, tml_metrics[i].key, window->metric[i].share, 9);
    tml_json_end_object(json);
}

static void write_beside(struct tml_json_writer *json, const struct tml_beside_mean *beside)
{
    if (beside->count == 0) {
        tml_json_write_null(json, TML_BESIDE_KEY);
        return;
    }
    tml_json_begin_object(json, TML_BESIDE_KEY);
    tml_json_write_uint(json, "occurrences", beside->count);
    tml_json_write_ns_as_ms(json, TML_BESIDE_DEVICE_KEY, beside->device_ns);
    tml_json_write_ns_as_ms(json, TML_BESIDE_OVERLAP_KEY, beside->overlap_ns);
    tml_json_end_object(json);
}

static void write_status(struct tml_json_writer *json, const char *key, const struct tml_metric_status *status)
{
    tml_json_begin_object(json, key);
    tml_json_write_string(json, "availability", tml_availability_key(status->availability));
    tml_json_write_string(json, "coverage", tml_coverage_key(status->coverage));
    tml_json_write_string(json, "reason", status->reason ? tml_reason_key(status->reason) : NULL);
    tml_json_write_string(json, "reason_phase", status->phase < 0 ? NULL : tml_phase_key((unsigned)status->phase));
    tml_json_write_uint(json, "steps_observed", status->steps_observed);
    tml_json_write_uint(json, "steps_expected", status->steps_expected);
    tml_json_begin_object(json, "occurrences");
    tml_json_write_uint(json, "pre_step", status->occurrences[TML_REGION_PRE]);
    tml_json_write_uint(json, "in_step", status->occurrences[TML_REGION_IN]);
    tml_json_end_object(json);
    write_beside(json, &status->beside);
    tml_json_end_object(json);
}

/* ---- The user's own spans, by name ---- */

static void write_own_span(struct tml_json_writer *json, const struct tml_own_span *own)
{
    bool null = own->value_ns[TML_REGION_PRE] == TML_NS_NONE;
    tml_json_begin_object(json, own->name);
    tml_json_write_ns_as_ms(json, "exclusive_ms",
                            null ? TML_NS_NONE
                                 : tml_ns_add(own->value_ns[TML_REGION_PRE], own->value_ns[TML_REGION_IN]));
    tml_json_write_ns_as_ms(json, "pre_step_ms", own->value_ns[TML_REGION_PRE]);
    tml_json_write_ns_as_ms(json, "in_step_ms", own->value_ns[TML_REGION_IN]);
    tml_json_write_ns_as_ms(json, "inclusive_ms", own->inclusive_ns);
    tml_json_write_uint(json, "steps_observed", own->steps_observed);
    tml_json_write_uint(json, "steps_expected", own->steps);
    tml_json_begin_object(json, "occurrences");
    tml_json_write_uint(json, "pre_step", own->occurrences[TML_REGION_PRE]);
    tml_json_write_uint(json, "in_step", own->occurrences[TML_REGION_IN]);
    tml_json_write_uint(json, "other_thread", own->elsewhere);
    tml_json_end_object(json);
    tml_json_end_object(json);
}

static void write_own_spans(struct tml_json_writer *json, const struct tml_own_span *own)
{
    tml_json_begin_object(json, "user_spans");
    for (unsigned name = 0; name < TML_SPAN_NAMES; name++)
        if (own[name].name)
            write_own_span(json, &own[name]);
    tml_json_end_object(json);
}

/* ---- Window ---- */

static void write_step(struct tml_json_writer *json, const char *key, uint64_t step, bool known)
{
    if (known)
        tml_json_write_uint(json, key, step);
    else
        tml_json_write_null(json, key);
}

static const char *clock_reason(const struct tml_window *window)
{
    return window->clock == TML_CLOCK_GPU ? "gpu_complete" : tml_reason_key(window->clock_reason);
}

static void write_clock(struct tml_json_writer *json, const struct tml_window *window)
{
    struct tml_text words = {0};
    tml_json_write_string(json, "diagnosis_clock", tml_clock_key(window->clock));
    tml_json_write_string(json, "clock_reason", clock_reason(window));
    if (window->common_steps == 0 || !window->cuda)
        tml_text_add(&words, tml_reason_words(window->clock_reason));
    else
        tml_text_printf(&words, "%" PRIu64 " of %" PRIu64 " steps are complete on the GPU on every rank%s%s",
                        window->gpu_complete_steps, window->common_steps, window->clock_reason ? ": " : "",
                        tml_reason_words(window->clock_reason));
    tml_json_write_string(json, "clock_summary", tml_text_words(&words));
    tml_text_drop(&words);
    tml_json_write_uint(json, "gpu_complete_steps", window->gpu_complete_steps);
}

static void write_window(struct tml_json_writer *json, const struct tml_window *window)
{
    bool any = window->steps > 0;
    tml_json_begin_object(json, "window");
    tml_json_write_string(json, "kind", "step_window");
    tml_json_write_string(json, "alignment", any ? "common_steps" : "none");
    tml_json_write_null(json, "samples");
    tml_json_write_uint(json, "steps_analyzed", window->steps);
    write_step(json, "start_step", window->first_step, any);
    write_step(json, "end_step", window->last_step, any);
    write_step(json, "completed_step", window->last_step, any);
    tml_json_write_uint(json, "window_size", window->wanted_steps);
    write_clock(json, window);
    tml_json_write_uint(json, "steps_common", window->common_steps);
    tml_json_write_uint(json, "steps_left_out", window->left_out);
    tml_json_write_uint(json, "steps_not_shared", window->unshared_steps);
    tml_json_write_uint(json, "warmup_steps", window->warmup_steps);
    tml_json_write_bool(json, "first_fetches_kept", window->first_fetches_kept);
    tml_json_end_object(json);
}

/* ---- Warm-up and the whole run: apart from the window ---- */

static const struct tml_warmup *first_warmup(const struct tml_run *run)
{
    for (size_t i = 0; i < run->rank_count; i++)
        if (run->ranks[i].warmup.has_first)
            return &run->ranks[i].warmup;
    return NULL;
}

static void write_between(struct tml_json_writer *json, const struct tml_run_facts *facts)
{
    const struct tml_between *between = &facts->between;
    bool known = !isnan(facts->between_share), any = known && between->count > 0;
    tml_json_begin_object(json, "between_steps");
    tml_summary_write_count(json, "count", known ? (int64_t)between->count : -1);
    tml_json_write_ns_as_ms(json, "total_ms", known ? between->total_ns : TML_NS_NONE);
    tml_json_write_ns_as_ms(json, "mean_ms", any ? tml_ns_mean(between->total_ns, between->count) : TML_NS_NONE);
    tml_json_write_ns_as_ms(json, "fetch_ms", known ? between->fetch_ns : TML_NS_NONE);
    tml_json_write_ns_as_ms(json, "spans_ms", known ? between->spans_ns : TML_NS_NONE);
    tml_json_write_number(json, "share_of_loop", facts->between_share, 9);
    tml_json_end_object(json);
}

static void write_warmup(struct tml_json_writer *json, const struct tml_analysis *analysis)
{
    const struct tml_warmup *warmup = first_warmup(analysis->run);
    tml_json_begin_object(json, "warmup");
    tml_json_write_uint(json, "steps", analysis->facts.warmup_steps);
    for (unsigned clock = 0; clock < TML_CLOCKS; clock++) {
        const struct tml_step_row *row = warmup ? &warmup->first : NULL;
        const char *keys[TML_CLOCKS] = {"first_traced_step_time_cpu_ms", "first_traced_step_time_gpu_ms"};
        tml_json_write_ns_as_ms(json, keys[clock], row ? row->term_ns[clock][TML_TERM_TRACED_STEP] : TML_NS_NONE);
    }
    tml_json_write_ns_as_ms(
        json, "first_fetch_cpu_ms",
        warmup ? warmup->first.cell[TML_REGION_PRE][TRACEML_PHASE_DATALOADER_FETCH].exclusive_ns[TML_CLOCK_CPU]
               : TML_NS_NONE);
    write_between(json, &analysis->facts);
    tml_json_end_object(json);
}

static void write_sketch(struct tml_json_writer *json, const char *key, const struct tml_sketch *sketch)
{
    static const struct {
        const char *key;
        double q;
    } points[] = {{"min", 0}, {"p10", 0.1}, {"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"max", 1}};
    tml_json_begin_object(json, key);
    tml_json_write_uint(json, "count", sketch->count);
    tml_json_write_ns_as_ms(json, "total", sketch->count ? sketch->sum_ns : TML_NS_NONE);
    tml_json_write_ns_as_ms(json, "mean", tml_sketch_mean(sketch));
    for (size_t i = 0; i < sizeof points / sizeof *points; i++)
        tml_json_write_ns_as_ms(json, points[i].key, tml_sketch_quantile(sketch, points[i].q));
    tml_json_end_object(json);
}

static void write_term(struct tml_json_writer *json, const struct tml_run *run, enum tml_clock clock,
                       enum tml_term term)
{
    struct tml_sketch all = {0};
    char key[64];
    for (size_t i = 0; i < run->rank_count; i++)
        tml_sketch_merge(&all, tml_step_fold_term(run->ranks[i].totals.sums, clock, term));
    snprintf(key, sizeof key, "%s.%s", tml_clock_key(clock), tml_term_key(term));
    if (all.count > 0)
        write_sketch(json, key, &all);
}

static void write_phase(struct tml_json_writer *json, const struct tml_run *run, enum tml_region region,
                        enum traceml_phase phase)
{
    for (unsigned clock = 0; clock < TML_CLOCKS; clock++) {
        struct tml_sketch all = {0};
        char key[64];
        for (size_t i = 0; i < run->rank_count; i++)
            tml_sketch_merge(
                &all, tml_step_fold_cell(run->ranks[i].totals.sums, region, phase, (enum tml_clock)clock, false));
        snprintf(key, sizeof key, "%s.%s.%s", tml_region_key(region), tml_phase_key(phase),
                 tml_cell_key((enum tml_clock)clock, false));
        if (all.count > 0)
            write_sketch(json, key, &all);
    }
}

/* All completed steps of all ranks, warm-up and folded ones too; names as in the step file. Quantiles to 4.4 %. */
static void write_whole_run(struct tml_json_writer *json, const struct tml_analysis *analysis)
{
    tml_json_begin_object(json, "whole_run");
    tml_json_write_uint(json, "steps", analysis->facts.completed);
    tml_json_write_uint(json, "steps_folded", analysis->facts.folded);
    tml_json_begin_object(json, "times_ms");
    for (unsigned clock = 0; clock < TML_CLOCKS; clock++)
        for (unsigned term = 0; term < TML_TERM_COUNT; term++)
            write_term(json, analysis->run, (enum tml_clock)clock, (enum tml_term)term);
    for (unsigned region = 0; region < TML_REGIONS; region++)
        for (unsigned phase = 0; phase < TRACEML_PHASE_COUNT; phase++)
            write_phase(json, analysis->run, (enum tml_region)region, (enum traceml_phase)phase);
    tml_json_end_object(json);
    tml_json_end_object(json);
}

/* ---- Ranks ---- */

static void write_spread(struct tml_json_writer *json, const struct tml_rank_window *rank)
{
    tml_json_begin_object(json, "spread");
    for (unsigned i = 0; i < TML_METRIC_COUNT; i++) {
        if (rank->metric[i].value_ns == TML_NS_NONE)
            continue;
        tml_json_begin_object(json, tml_metrics[i].key);
        tml_json_write_ns_as_ms(json, "p10", rank->spread[i].p10_ns);
        tml_json_write_ns_as_ms(json, "p50", rank->spread[i].p50_ns);
        tml_json_write_ns_as_ms(json, "p90", rank->spread[i].p90_ns);
        tml_json_end_object(json);
    }
    tml_json_end_object(json);
}

/* What a comparison takes the noise of the step time from. */
static void write_block_list(struct tml_json_writer *json, const char *key, const int64_t *values_ns, unsigned count)
{
    tml_json_begin_array(json, key);
    for (unsigned i = 0; i < count; i++)
        tml_json_write_ns_as_ms(json, NULL, values_ns[i]);
    tml_json_end_array(json);
}

static void write_blocks(struct tml_json_writer *json, const struct tml_rank_window *rank)
{
    static const enum tml_metric step_time[TML_CLOCKS] = {TML_METRIC_STEP_TIME_CPU, TML_METRIC_STEP_TIME_GPU};
    tml_json_begin_object(json, "blocks");
    for (unsigned clock = 0; clock < TML_CLOCKS; clock++) {
        const struct tml_blocks *blocks = &rank->blocks[clock];
        if (blocks->count == 0 || rank->metric[step_time[clock]].value_ns == TML_NS_NONE)
            continue;
        tml_json_begin_object(json, tml_metrics[step_time[clock]].key);
        write_block_list(json, "mean", blocks->mean_ns, blocks->count);
        write_block_list(json, "median", blocks->median_ns, blocks->count);
        tml_json_end_object(json);
    }
    tml_json_end_object(json);
}

static void write_rank(struct tml_json_writer *json, const struct tml_analysis *analysis,
                       const struct tml_rank_window *rank)
{
    char key[16];
    snprintf(key, sizeof key, "%u", rank->run->rank);
    tml_json_begin_object(json, key);
    tml_summary_write_identity(json, analysis, rank->run);
    tml_json_begin_object(json, "metrics");
    for (unsigned i = 0; i < TML_METRIC_COUNT; i++)
        tml_json_write_ns_as_ms(json, tml_metrics[i].key, rank->metric[i].value_ns);
    tml_json_end_object(json);
    tml_json_begin_object(json, "status");
    for (unsigned i = 0; i < TML_METRIC_COUNT; i++)
        write_status(json, tml_metrics[i].key, &rank->metric[i]);
    tml_json_end_object(json);
    write_own_spans(json, rank->own);
    tml_summary_write_lead(json, &rank->lead, false);
    write_spread(json, rank);
    write_blocks(json, rank);
    tml_json_end_object(json);
}

static void write_groups(struct tml_json_writer *json, const struct tml_analysis *analysis)
{
    tml_json_begin_object(json, "groups");
    tml_json_write_string(json, "by", "global_rank");
    tml_json_begin_object(json, "rows");
    for (size_t i = 0; i < analysis->window.rank_count; i++)
        write_rank(json, analysis, &analysis->window.ranks[i]);
    tml_json_end_object(json);
    tml_json_end_object(json);
}

/* ---- The section ---- */

static void write_global(struct tml_json_writer *json, const struct tml_analysis *analysis)
{
    const struct tml_window *window = &analysis->window;
    tml_json_begin_object(json, "global");
    tml_json_write_string(json, "index_by", "global_rank");
    write_window(json, window);
    write_average(json, window);
    write_points(json, "median", window, false);
    write_points(json, "worst", window, true);
    write_shares(json, window);
    tml_json_begin_object(json, "status");
    for (unsigned i = 0; i < TML_METRIC_COUNT; i++)
        write_status(json, tml_metrics[i].key, &window->metric[i].status);
    tml_json_end_object(json);
    write_own_spans(json, window->own);
    tml_summary_write_lead(json, &window->lead, true);
    write_warmup(json, analysis);
    write_whole_run(json, analysis);
    tml_json_end_object(json);
}

static int64_t latest_step(const struct tml_run *run)
{
    int64_t latest = -1;
    for (size_t i = 0; i < run->rank_count; i++)
        if (run->ranks[i].totals.completed > 0 && (int64_t)run->ranks[i].totals.last_step > latest)
            latest = (int64_t)run->ranks[i].totals.last_step;
    return latest;
}

static void write_units(struct tml_json_writer *json)
{
    tml_json_begin_object(json, "units");
    tml_json_write_string(json, "time", "ms");
    tml_json_begin_object(json, "metrics");
    for (unsigned i = 0; i < TML_METRIC_COUNT; i++)
        tml_json_write_string(json, tml_metrics[i].key, tml_metrics[i].unit);
    tml_json_end_object(json);
    tml_json_end_object(json);
}

void tml_summary_write_step_time(struct tml_json_writer *json, const struct tml_analysis *analysis, const char *card)
{
    const char *names[TML_METRIC_COUNT];
    for (unsigned i = 0; i < TML_METRIC_COUNT; i++)
        names[i] = tml_metrics[i].key;
    struct tml_summary_metadata metadata = {
        .mode = tml_summary_mode(analysis),
        .ranks_seen = (int64_t)analysis->run->rank_count,
        .ranks_used = (int64_t)analysis->window.rank_count,
        .total_steps = (int64_t)analysis->facts.completed,
        .latest_step = latest_step(analysis->run),
    };
    tml_json_begin_object(json, "step_time");
    tml_summary_write_metadata(json, &metadata, names, TML_METRIC_COUNT);
    tml_summary_write_findings(json, analysis);
    write_global(json, analysis);
    write_groups(json, analysis);
    write_units(json);
    tml_json_write_string(json, "card", card);
    tml_json_end_object(json);
}
