/* The numbers of a summary of either tool: metrics with their state under one set of names, and the spread of the steps. */
#include <string.h>

#include "compare.h"

/* ---- Names of older schemas ---- */

/*
 * Schemas 1.4 and 1.5 have one table whose phases are each on the clock that was at hand, 1.6 one on its stated clock
 * with `total_step_ms` on the host's. `step_time_ms` of 1.6 is what 1.7 calls the traced step. `dataloader_ms` is the
 * host's fetch in all of them and never input wait. NULL: it has no such metric.
 */
static const char *legacy_key(const struct tml_compare_side *side, enum tml_metric metric)
{
    bool stated = side->schema >= 16;
    switch (metric) {
    case TML_METRIC_STEP_TIME:
        return !stated || side->clock == TML_CLOCK_CPU ? "total_step_ms" : NULL;
    case TML_METRIC_STEP_TIME_CPU:
        return "total_step_ms";
    case TML_METRIC_TRACED_STEP_TIME:
        return stated ? "step_time_ms" : NULL;
    case TML_METRIC_INPUT_WAIT:
        return stated ? "input_wait_ms" : NULL;
    case TML_METRIC_DATALOADER_FETCH_CPU:
        return "dataloader_ms";
    case TML_METRIC_RESIDUAL:
        return side->schema == 14 ? "wait_ms" : "residual_ms";
    case TML_METRIC_H2D:
    case TML_METRIC_COMPUTE:
    case TML_METRIC_FORWARD:
    case TML_METRIC_BACKWARD:
    case TML_METRIC_OPTIMIZER:
        return tml_metrics[metric].key;
    default:
        return NULL;
    }
}

static const char *key_of(const struct tml_compare_side *side, enum tml_metric metric)
{
    return side->schema < 17 ? legacy_key(side, metric) : tml_metrics[metric].key;
}

/* Reasons of our own, beside those of the library's list. */
static const struct {
    const char *key, *words;
} own_reasons[] = {
    {"not_in_schema", "its summary has no such number"},
    {"not_stated", "its summary does not say why"},
    {"zero_or_unmeasured", "its summary writes 0 for zero and for not measured"},
    {"clocks_mixed", "its summary does not say which clock"},
    {"not_in_this_version", "not in its version"},
};

const char *tml_compare_reason_words(const char *key)
{
    enum tml_reason reason = tml_reason_from_key(key);
    if (reason != TML_REASON_NONE)
        return tml_reason_words(reason);
    for (size_t i = 0; i < sizeof own_reasons / sizeof *own_reasons; i++)
        if (strcmp(own_reasons[i].key, key) == 0)
            return own_reasons[i].words;
    return key;
}

/* ---- Metrics ---- */

/* Before 1.7 a missing measurement was written as 0.0, and on a GPU host one table had two clocks. */
static void doubt_legacy(const struct tml_compare_side *side, struct tml_compare_number *number, bool host_only)
{
    if (side->schema >= 17 || number->ns == TML_NS_NONE)
        return;
    if (side->clock < 0 && !host_only)
        number->reason = "clocks_mixed";
    else if (number->ns == 0)
        number->reason = "zero_or_unmeasured";
    if (number->reason)
        number->ns = TML_NS_NONE;
}

static void read_status(struct tml_compare_reading *reading, const char *key, struct tml_compare_number *number)
{
    const struct tml_json *all = tml_compare_at(reading->side->root, "step_time/global/status");
    const struct tml_json *status = tml_json_get(all, key);
    if (!status)
        return;
    number->availability = tml_compare_text_of(reading, tml_json_get(status, "availability"), key);
    number->coverage = tml_compare_text_of(reading, tml_json_get(status, "coverage"), key);
    const char *reason = tml_compare_text_of(reading, tml_json_get(status, "reason"), key);
    if (reason && *reason)
        number->reason = reason;
}

static void read_metric(struct tml_compare_reading *reading, const struct tml_json *average, enum tml_metric metric)
{
    struct tml_compare_number *number = &reading->side->metric[metric];
    const char *key = key_of(reading->side, metric);
    const struct tml_json *value = key ? tml_json_get(average, key) : NULL;
    number->ns = tml_compare_ms_of(reading, value, "step_time.global.average", key);
    if (key && !tml_compare_is_legacy(reading->side))
        read_status(reading, key, number);
    doubt_legacy(reading->side, number,
                 metric == TML_METRIC_DATALOADER_FETCH_CPU ||
                     (metric == TML_METRIC_STEP_TIME_CPU && reading->side->schema >= 16));
    if (number->ns == TML_NS_NONE && !number->reason)
        number->reason = value ? "not_stated" : "not_in_schema";
    if (tml_metrics[metric].terms & TML_BIT_TRACED && number->ns != TML_NS_NONE && number->ns < 0)
        tml_compare_fail(reading, TRACEML_BAD_DATA, "not a summary: %s is below zero", key);
}

/* A summary that gives the selected clock alone. */
static void fill_in_clock(struct tml_compare_side *side)
{
    static const enum tml_metric of_clock[TML_CLOCKS] = {TML_METRIC_STEP_TIME_CPU, TML_METRIC_STEP_TIME_GPU};
    if (side->clock >= 0 && side->metric[of_clock[side->clock]].ns == TML_NS_NONE &&
        side->metric[TML_METRIC_STEP_TIME].ns != TML_NS_NONE)
        side->metric[of_clock[side->clock]] = side->metric[TML_METRIC_STEP_TIME];
}

/* ---- Steps: where noise is taken from ---- */

static void read_blocks(struct tml_compare_reading *reading, const struct tml_json *list, int64_t *values_ns, bool *has)
{
    size_t count = 0;
    for (const struct tml_json *child = tml_json_first(list); child; child = tml_json_next(child)) {
        int64_t ns = tml_compare_ms_of(reading, child, "blocks", NULL);
        if (count < TML_BLOCKS)
            values_ns[count] = ns;
        count++;
        *has = *has && ns != TML_NS_NONE;
    }
    *has = *has && count == TML_BLOCKS;
}

static void read_steps(struct tml_compare_reading *reading, enum tml_clock clock)
{
    struct tml_compare_side *side = reading->side;
    struct tml_compare_steps *steps = &side->step[clock];
    const char *key = tml_metrics[clock == TML_CLOCK_GPU ? TML_METRIC_STEP_TIME_GPU : TML_METRIC_STEP_TIME_CPU].key;
    const struct tml_json *median = tml_compare_at(side->root, "step_time/global/median");
    const char *rank =
        tml_compare_text_of(reading, tml_json_get(tml_json_get(median, key), "idx"), "step_time.global.median.idx");
    *steps = (struct tml_compare_steps){.p10_ns = TML_NS_NONE, .p50_ns = TML_NS_NONE, .p90_ns = TML_NS_NONE};
    if (!rank)
        return;
    const struct tml_json *row = tml_json_get(tml_compare_at(side->root, "step_time/groups/rows"), rank);
    const struct tml_json *spread = tml_json_get(tml_json_get(row, "spread"), key);
    steps->p10_ns = tml_compare_ms_of(reading, tml_json_get(spread, "p10"), "spread", key);
    steps->p50_ns = tml_compare_ms_of(reading, tml_json_get(spread, "p50"), "spread", key);
    steps->p90_ns = tml_compare_ms_of(reading, tml_json_get(spread, "p90"), "spread", key);
    const struct tml_json *blocks = tml_json_get(tml_json_get(row, "blocks"), key);
    steps->has_blocks = true;
    read_blocks(reading, tml_json_get(blocks, "mean"), steps->block_mean_ns, &steps->has_blocks);
    read_blocks(reading, tml_json_get(blocks, "median"), steps->block_median_ns, &steps->has_blocks);
}

/* ---- All of them ---- */

void tml_compare_read_metrics(struct tml_compare_reading *reading)
{
    const struct tml_json *average = tml_compare_object_at(reading, "step_time/global/average", true);
    for (unsigned i = 0; tml_compare_is_ok(reading) && i < TML_METRIC_COUNT; i++)
        read_metric(reading, average, (enum tml_metric)i);
    fill_in_clock(reading->side);
    for (unsigned clock = 0; tml_compare_is_ok(reading) && clock < TML_CLOCKS; clock++)
        read_steps(reading, (enum tml_clock)clock);
}
