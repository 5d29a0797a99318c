/* BASE.json: everything the text says, and every metric, with state (docs/compare.md). */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "compare.h"

#define COMPARISON_SCHEMA 1.0

static void write_copy(struct tml_json_writer *json, const char *key, const struct tml_json *value)
{
    char *text = value ? tml_json_print(value) : NULL;
    if (text)
        tml_json_write_raw(json, key, text);
    else
        tml_json_write_null(json, key);
    json->failed = json->failed || (value && !text);
    free(text);
}

static void write_clock(struct tml_json_writer *json, const char *key, int clock)
{
    tml_json_write_string(json, key, clock < 0 ? NULL : tml_clock_key((enum tml_clock)clock));
}

static void write_member(struct tml_json_writer *json, const char *key, const struct tml_json *object)
{
    write_copy(json, key, tml_json_get(object, key));
}

static void write_side(struct tml_json_writer *json, const char *key, const struct tml_compare_side *side)
{
    const struct tml_json *finding = tml_compare_at(side->root, "step_time/diagnosis");
    tml_json_begin_object(json, key);
    tml_json_write_string(json, "path", side->path);
    tml_json_write_string(json, "run_name", side->run_name);
    tml_json_write_number(json, "schema_version", side->schema / 10.0, 1);
    write_clock(json, "diagnosis_clock", side->clock);
    tml_json_write_uint(json, "steps_analyzed", side->steps);
    write_copy(json, "complete", tml_compare_at(side->root, "meta/complete"));
    tml_json_begin_object(json, "diagnosis");
    write_member(json, "kind", finding);
    write_member(json, "status", finding);
    write_member(json, "severity", finding);
    write_member(json, "summary", finding);
    tml_json_end_object(json);
    tml_json_end_object(json);
}

/* ---- Step time ---- */

static void write_change(struct tml_json_writer *json, const char *key, const struct tml_compare_change *change)
{
    tml_json_begin_object(json, key);
    tml_json_write_ns_as_ms(json, "old", change->old_ns);
    tml_json_write_ns_as_ms(json, "new", change->new_ns);
    tml_json_write_ns_as_ms(json, "delta", tml_compare_delta_ns(change->old_ns, change->new_ns));
    tml_json_write_number(json, "delta_pct", tml_compare_change_share(change) * 100, 6);
    tml_json_write_number(json, "noise", change->noise_ns / (double)TML_NS_PER_MS, 6);
    tml_json_write_string(json, "verdict", tml_compare_verdict_key(change->verdict));
    tml_json_end_object(json);
}

static void write_step_time(struct tml_json_writer *json, const struct tml_comparison *comparison)
{
    tml_json_begin_object(json, "step_time");
    write_clock(json, "clock", comparison->clock);
    tml_json_write_string(json, "unit", "ms");
    write_change(json, "mean", &comparison->mean);
    write_change(json, "median", &comparison->median);
    tml_json_end_object(json);
}

static void write_ratios(struct tml_json_writer *json, const struct tml_comparison *comparison)
{
    tml_json_begin_object(json, "ratios");
    for (unsigned i = 0; i < TML_COMPARE_RATIOS; i++) {
        const struct tml_compare_ratio *ratio = &comparison->ratio[i];
        tml_json_begin_object(json, tml_compare_ratios[i].key);
        tml_json_write_number(json, "old", ratio->old_value, 6);
        tml_json_write_number(json, "new", ratio->new_value, 6);
        tml_json_write_string(json, "unit", tml_compare_ratios[i].unit);
        tml_json_write_number(json, "ratio", ratio->ratio, 6);
        tml_json_write_string(json, "reason", ratio->reason);
        tml_json_end_object(json);
    }
    tml_json_end_object(json);
}

/* ---- Metrics ---- */

static void write_state(struct tml_json_writer *json, const char *key, const struct tml_compare_number *number)
{
    tml_json_begin_object(json, key);
    tml_json_write_string(json, "availability", number->availability);
    tml_json_write_string(json, "coverage", number->coverage);
    tml_json_write_string(json, "reason", number->reason);
    tml_json_end_object(json);
}

static int metric_clock(const struct tml_comparison *comparison, enum tml_metric metric)
{
    if (tml_metrics[metric].clock == TML_METRIC_SELECTED)
        return comparison->side[0].clock == comparison->side[1].clock ? comparison->side[0].clock : -1;
    return tml_metrics[metric].clock == TML_METRIC_GPU ? TML_CLOCK_GPU : TML_CLOCK_CPU;
}

static void write_metric(struct tml_json_writer *json, const struct tml_comparison *comparison, enum tml_metric metric)
{
    const struct tml_compare_number *old = &comparison->side[0].metric[metric];
    const struct tml_compare_number *new = &comparison->side[1].metric[metric];
    const char *reason = tml_compare_metric_reason(comparison, metric);
    struct tml_compare_change change = {.old_ns = reason ? TML_NS_NONE : old->ns, .new_ns = new->ns};
    tml_json_begin_object(json, tml_metrics[metric].key);
    write_clock(json, "clock", metric_clock(comparison, metric));
    tml_json_write_ns_as_ms(json, "old", old->ns);
    tml_json_write_ns_as_ms(json, "new", new->ns);
    tml_json_write_ns_as_ms(json, "delta", tml_compare_delta_ns(change.old_ns, change.new_ns));
    tml_json_write_number(json, "delta_pct", tml_compare_change_share(&change) * 100, 6);
    tml_json_write_string(json, "reason", reason);
    write_state(json, "old_status", old);
    write_state(json, "new_status", new);
    tml_json_end_object(json);
}

static void write_own(struct tml_json_writer *json, const struct tml_compare_own *own)
{
    struct tml_compare_change change = {.old_ns = own->reason ? TML_NS_NONE : own->old_ns, .new_ns = own->new_ns};
    tml_json_begin_object(json, own->name);
    tml_json_write_ns_as_ms(json, "old", own->old_ns);
    tml_json_write_ns_as_ms(json, "new", own->new_ns);
    tml_json_write_ns_as_ms(json, "delta", tml_compare_delta_ns(change.old_ns, change.new_ns));
    tml_json_write_number(json, "delta_pct", tml_compare_change_share(&change) * 100, 6);
    tml_json_write_string(json, "reason", own->reason);
    tml_json_end_object(json);
}

static void write_owns(struct tml_json_writer *json, const struct tml_comparison *comparison)
{
    tml_json_begin_object(json, "user_spans");
    for (size_t i = 0; i < comparison->owns; i++)
        write_own(json, &comparison->own[i]);
    tml_json_end_object(json);
}

/* ---- Besides ---- */

static void write_facts(struct tml_json_writer *json, const char *key, const struct tml_compare_facts *facts)
{
    tml_json_begin_array(json, key);
    for (size_t i = 0; i < facts->count; i++) {
        tml_json_begin_object(json, NULL);
        tml_json_write_string(json, "name", facts->fact[i].name);
        write_copy(json, "old", facts->fact[i].old_value);
        write_copy(json, "new", facts->fact[i].new_value);
        tml_json_end_object(json);
    }
    tml_json_end_array(json);
}

static void write_limit(struct tml_json_writer *json, const struct tml_comparison *comparison)
{
    tml_json_begin_object(json, "limit");
    tml_json_write_number(json, "max_step_time_regression_pct", comparison->limit_pct, TML_JSON_ALL_DECIMALS);
    tml_json_write_string(json, "outcome", tml_compare_limit_key(comparison->limit));
    tml_json_end_object(json);
}

static void write_notes(struct tml_json_writer *json, const struct tml_comparison *comparison)
{
    tml_json_begin_array(json, "notes");
    for (size_t i = 0; i < comparison->notes; i++)
        tml_json_write_string(json, NULL, tml_text_words(&comparison->note[i]));
    tml_json_end_array(json);
}

char *tml_compare_json(const struct tml_comparison *comparison, const char *text)
{
    struct tml_json_writer json;
    bool inconclusive = comparison->verdict == TRACEML_VERDICT_INCONCLUSIVE;
    tml_json_writer_heap(&json, 2);
    tml_json_begin_object(&json, NULL);
    tml_json_write_number(&json, "comparison_version", COMPARISON_SCHEMA, 1);
    tml_summary_write_generated_at(&json);
    write_side(&json, "old", &comparison->side[0]);
    write_side(&json, "new", &comparison->side[1]);
    tml_json_write_string(&json, "verdict", tml_compare_verdict_key(comparison->verdict));
    tml_json_write_string(&json, "reason", inconclusive ? tml_inconclusive_key(comparison->why) : NULL);
    tml_json_write_string(&json, "summary", tml_text_words(&comparison->summary));
    tml_json_write_string(&json, "action", tml_text_words(&comparison->action));
    write_limit(&json, comparison);
    write_step_time(&json, comparison);
    write_ratios(&json, comparison);
    tml_json_begin_object(&json, "metrics");
    for (unsigned i = 0; i < TML_METRIC_COUNT; i++)
        write_metric(&json, comparison, (enum tml_metric)i);
    tml_json_end_object(&json);
    write_owns(&json, comparison);
    write_facts(&json, "changed", &comparison->changes.changed);
    write_facts(&json, "unknown", &comparison->changes.unknown);
    tml_json_write_uint(&json, "facts_left_out",
                        comparison->changes.changed.left_out + comparison->changes.unknown.left_out);
    write_notes(&json, comparison);
    tml_json_write_string(&json, "text", text);
    tml_json_end_object(&json);
    return tml_json_writer_take(&json);
}
