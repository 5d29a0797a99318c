/* Findings of step_time and the primary diagnosis that is promoted from them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "summary.h"

static void write_value(struct tml_json_writer *json, const struct tml_window *window, enum tml_metric metric)
{
    tml_json_write_ns_as_ms(json, tml_metrics[metric].key, window->metric[metric].median.value_ns);
}

/* ---- Evidence of a finding ---- */

static void write_rule_evidence(struct tml_json_writer *json, const struct tml_finding *finding,
                                const struct tml_analysis *analysis)
{
    const struct tml_rule *rule = finding->rule;
    const struct tml_window *window = &analysis->window;
    bool done[TML_METRIC_COUNT] = {false};
    for (unsigned i = 0; i < rule->signal.parts + 1 + rule->denominator.parts; i++) {
        unsigned after = rule->signal.parts;
        enum tml_metric metric = i < after    ? rule->signal.part[i]
                                 : i == after ? TML_METRIC_TRACED_STEP_TIME
                                              : rule->denominator.part[i - after - 1];
        if (!done[metric])
            write_value(json, window, metric);
        done[metric] = true;
    }
    if (rule->kind == TML_FINDING_INPUT_BOUND) {
        tml_json_write_number(json, "input_bound_share", finding->share, 9);
        write_value(json, window, TML_METRIC_DATALOADER_FETCH_CPU);
        tml_summary_write_count(json, "loader_workers", analysis->facts.loader.workers);
        tml_summary_write_count(json, "host_cores", analysis->facts.cores);
    }
}

static void write_thresholds(struct tml_json_writer *json, const struct tml_finding *finding)
{
    const struct tml_rule *rule = finding->rule;
    tml_json_write_ns_as_ms(json, "cost_ms", finding->cost_ns);
    tml_json_write_number(json, "warn_share", rule->warn, 3);
    tml_json_write_number(json, "crit_share", rule->crit > 0 ? rule->crit : NAN, 3);
    tml_json_write_ns_as_ms(json, "floor_ms", rule->floor_ns);
}

/* Names are those of traceml-ai, which has no more than its three causes. */
static const char *component_key(const struct tml_excess *excess)
{
    return excess->rule ? excess->rule->phase : tml_metrics[excess->metric].key;
}

static void write_straggler(struct tml_json_writer *json, const struct tml_straggler *straggler)
{
    const struct tml_excess *named = straggler->named < 0 ? NULL : &straggler->excess[straggler->named];
    tml_json_write_string(json, "component", named ? component_key(named) : NULL);
    tml_json_write_int(json, "culprit_rank", straggler->culprit);
    tml_json_write_int(json, "victim_rank", straggler->victim);
    tml_json_write_string(json, "visible_metric", straggler->visible.parts > 1 ? "forward_backward" : "backward");
}

static void write_straggler_evidence(struct tml_json_writer *json, const struct tml_finding *finding)
{
    const struct tml_straggler *straggler = &finding->straggler;
    write_straggler(json, straggler);
    tml_json_write_ns_as_ms(json, "visible_culprit_ms", straggler->culprit_ns);
    tml_json_write_ns_as_ms(json, "visible_victim_ms", straggler->victim_ns);
    tml_json_write_ns_as_ms(json, "visible_cost_ms", finding->cost_ns);
    tml_json_write_ns_as_ms(json, "step_time_ms", finding->denominator_ns);
    tml_json_begin_object(json, "component_excesses_ms");
    for (unsigned i = 0; i < straggler->excesses; i++)
        tml_json_write_ns_as_ms(json, component_key(&straggler->excess[i]), straggler->excess[i].ns);
    tml_json_end_object(json);
    tml_json_begin_object(json, "component_coverage");
    for (unsigned i = 0; i < straggler->excesses; i++) {
        int64_t ns = straggler->excess[i].ns;
        tml_json_write_number(json, component_key(&straggler->excess[i]),
                              ns == TML_NS_NONE ? NAN : (double)ns / (double)finding->cost_ns, 9);
    }
    tml_json_end_object(json);
}

static void write_launch_evidence(struct tml_json_writer *json, const struct tml_finding *finding)
{
    const struct tml_launch_steps *lead = &finding->launch;
    tml_json_write_uint(json, "steps_without_synchronisation", lead->undisturbed);
    tml_json_write_uint(json, "steps_near_zero", lead->undisturbed_near_zero);
    tml_json_write_ns_as_ms(json, "near_zero_ms", TML_LEAD_NEAR_ZERO_NS);
}

static void write_abstentions(struct tml_json_writer *json, const struct tml_verdict *verdict)
{
    tml_json_begin_array(json, "abstained");
    for (size_t i = 0; i < verdict->abstentions; i++) {
        const struct tml_abstention *abstention = &verdict->abstained[i];
        tml_json_begin_object(json, NULL);
        tml_json_write_string(json, "kind", tml_finding_key(abstention->rule->kind));
        tml_json_write_string(json, "metric", tml_metrics[abstention->signal].key);
        tml_json_write_string(json, "phase", abstention->phase < 0 ? NULL : tml_phase_key((unsigned)abstention->phase));
        tml_json_write_string(json, "reason", tml_reason_key(abstention->reason));
        tml_json_write_bool(json, "launch_time", abstention->launch_time);
        tml_json_end_object(json);
    }
    tml_json_end_array(json);
}

/* In the words of traceml-ai: which signals a verdict lacked, and on how many ranks each was there. */
static void write_missing_signals(struct tml_json_writer *json, const struct tml_analysis *analysis)
{
    static const enum tml_metric signals[] = {TML_METRIC_INPUT_WAIT,      TML_METRIC_FORWARD, TML_METRIC_BACKWARD,
                                              TML_METRIC_OPTIMIZER,       TML_METRIC_H2D,     TML_METRIC_RESIDUAL,
                                              TML_METRIC_TRACED_STEP_TIME};
    const struct tml_window *window = &analysis->window;
    size_t count = sizeof signals / sizeof *signals;
    tml_json_begin_array(json, "missing_signals");
    for (size_t i = 0; i < count; i++) {
        const struct tml_metric_status *status = &window->metric[signals[i]].status;
        if (status->availability == TML_UNAVAILABLE || (status->value_ns != TML_NS_NONE && !tml_metric_usable(status)))
            tml_json_write_string(json, NULL, tml_metrics[signals[i]].key);
    }
    tml_json_end_array(json);
    tml_json_begin_object(json, "signal_coverage");
    for (size_t i = 0; i < count; i++) {
        char text[32];
        size_t there = 0;
        for (size_t k = 0; k < window->rank_count; k++)
            there += window->ranks[k].metric[signals[i]].value_ns != TML_NS_NONE;
        snprintf(text, sizeof text, "%zu/%zu", there, window->rank_count);
        tml_json_write_string(json, tml_metrics[signals[i]].key, text);
    }
    tml_json_end_object(json);
}

static void write_evidence(struct tml_json_writer *json, const struct tml_finding *finding,
                           const struct tml_analysis *analysis)
{
    const struct tml_window *window = &analysis->window;
    tml_json_begin_object(json, "evidence");
    if (finding->rule && finding->rule->form == TML_RULE_STRAGGLER)
        write_straggler_evidence(json, finding);
    else if (finding->rule && finding->rule->form == TML_RULE_LAUNCH)
        write_launch_evidence(json, finding);
    else if (finding->rule)
        write_rule_evidence(json, finding, analysis);
    if (finding->rule)
        write_thresholds(json, finding);
    if (finding->kind == TML_FINDING_INCOMPLETE_DATA)
        write_missing_signals(json, analysis);
    if (finding->kind == TML_FINDING_INCOMPLETE_DATA || finding->kind == TML_FINDING_BALANCED)
        write_abstentions(json, &analysis->verdict);
    if (finding->kind <= TML_FINDING_WARMUP) {
        tml_json_write_uint(json, "steps_used", window->steps);
        tml_json_write_uint(json, "warmup_steps", window->warmup_steps);
    }
    tml_json_write_uint(json, "steps_analyzed", window->steps);
    tml_json_write_string(json, "diagnosis_clock", tml_clock_key(window->clock));
    tml_json_end_object(json);
}

/* ---- A finding ---- */

static void write_ranks(struct tml_json_writer *json, int rank)
{
    tml_json_begin_array(json, "ranks");
    if (rank >= 0)
        tml_json_write_int(json, NULL, rank);
    tml_json_end_array(json);
}

static void write_finding(struct tml_json_writer *json, const char *key, const struct tml_finding *finding,
                          const struct tml_analysis *analysis)
{
    tml_json_begin_object(json, key);
    tml_json_write_string(json, "kind", tml_finding_key(finding->kind));
    tml_json_write_string(json, "status", tml_finding_status(finding->kind));
    tml_json_write_string(json, "severity", tml_severity_key(finding->severity));
    tml_json_write_string(json, "summary", finding->summary);
    tml_json_write_string(json, "action", finding->action);
    tml_json_write_string(json, "metric", finding->rule ? finding->rule->metric : NULL);
    tml_json_write_string(json, "phase", finding->rule ? finding->rule->phase : NULL);
    tml_json_write_number(json, "score", finding->score, 9);
    tml_json_write_number(json, "share_pct", finding->share, 9);
    tml_json_write_number(json, "skew_pct", finding->skew, 9);
    write_ranks(json, finding->rank);
    write_evidence(json, finding, analysis);
    tml_json_end_object(json);
}

void tml_summary_write_findings(struct tml_json_writer *json, const struct tml_analysis *analysis)
{
    const struct tml_verdict *verdict = &analysis->verdict;
    write_finding(json, "diagnosis", &verdict->finding[0], analysis);
    tml_json_begin_array(json, "issues");
    for (size_t i = 0; i < verdict->findings; i++)
        write_finding(json, NULL, &verdict->finding[i], analysis);
    tml_json_end_array(json);
}

void tml_summary_write_plain_finding(struct tml_json_writer *json, const char *key, const char *kind,
                                     const char *status, const char *summary, const char *action, const char *reason)
{
    static const char *const nulls[] = {"metric", "phase", "score", "share_pct", "skew_pct"};
    tml_json_begin_object(json, key);
    tml_json_write_string(json, "kind", kind);
    tml_json_write_string(json, "status", status);
    tml_json_write_string(json, "severity", tml_severity_key(TML_SEVERITY_INFO));
    tml_json_write_string(json, "summary", summary);
    tml_json_write_string(json, "action", action);
    for (size_t i = 0; i < sizeof nulls / sizeof *nulls; i++)
        tml_json_write_null(json, nulls[i]);
    write_ranks(json, -1);
    tml_json_begin_object(json, "evidence");
    tml_json_write_string(json, "reason", reason);
    tml_json_write_uint(json, "samples_used", 0);
    tml_json_write_uint(json, "steps_used", 0);
    tml_json_end_object(json);
    tml_json_end_object(json);
}

/* ---- Primary ---- */

struct primary {
    const char *kind, *status, *type;
};

static struct primary primary_of(const struct tml_finding *finding)
{
    static const char *const types[] = {
        [TML_RULE_SHARE] = "phase_share", [TML_RULE_STRAGGLER] = "rank_comparison", [TML_RULE_LAUNCH] = "device_lead"};
    switch (finding->kind) {
    case TML_FINDING_NO_DATA:
    case TML_FINDING_WARMUP:
    case TML_FINDING_INCOMPLETE_DATA:
        return (struct primary){"INSUFFICIENT_STEP_TIME_DATA", "INSUFFICIENT STEP-TIME DATA", "insufficient_data"};
    case TML_FINDING_BALANCED:
        return (struct primary){"NO_CLEAR_PERFORMANCE_BOTTLENECK", "NO CLEAR PERFORMANCE BOTTLENECK",
                                "no_clear_bottleneck"};
    default:
        return (struct primary){tml_finding_key(finding->kind), tml_finding_status(finding->kind),
                                types[finding->rule->form]};
    }
}

static void write_primary_evidence(struct tml_json_writer *json, const struct tml_finding *finding, const char *type,
                                   const struct tml_window *window)
{
    static const enum tml_metric shown[] = {TML_METRIC_STEP_TIME,
                                            TML_METRIC_TRACED_STEP_TIME,
                                            TML_METRIC_DATALOADER_FETCH_CPU,
                                            TML_METRIC_INPUT_WAIT,
                                            TML_METRIC_IN_STEP_INPUT_WAIT,
                                            TML_METRIC_H2D,
                                            TML_METRIC_COMPUTE,
                                            TML_METRIC_RESIDUAL};
    tml_json_begin_object(json, "evidence");
    tml_json_write_string(json, "type", type);
    if (!finding->rule)
        tml_json_write_string(json, "step_time_status", tml_finding_status(finding->kind));
    tml_json_write_string(json, "basis", "average");
    tml_json_write_uint(json, "steps_analyzed", window->steps);
    tml_json_write_string(json, "diagnosis_clock", tml_clock_key(window->clock));
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
        tml_json_write_ns_as_ms(json, tml_metrics[shown[i]].key, window->metric[shown[i]].status.value_ns);
    tml_json_write_null(json, "gpu_util_avg_percent");
    if (finding->rule && finding->rule->form == TML_RULE_STRAGGLER) {
        tml_json_write_number(json, "score", finding->score, 9);
        tml_json_write_string(json, "score_basis", "visible_cost_ms / victim_step_time_ms");
        tml_json_write_ns_as_ms(json, "score_numerator_ms", finding->cost_ns);
        tml_json_write_ns_as_ms(json, "score_denominator_ms", finding->denominator_ns);
        write_straggler(json, &finding->straggler);
    } else if (!isnan(finding->score)) {
        tml_json_write_number(json, "score", finding->score, 9);
        tml_json_write_string(json, "score_basis", "median_per_rank_step_time_share");
        tml_json_write_string(json, "score_denominator", "selected-clock Step Time per rank");
    }
    tml_json_end_object(json);
}

void tml_summary_write_primary(struct tml_json_writer *json, const struct tml_analysis *analysis)
{
    const struct tml_finding *finding = &analysis->verdict.finding[0];
    struct primary primary = primary_of(finding);
    tml_json_begin_object(json, "primary_diagnosis");
    tml_json_write_string(json, "kind", primary.kind);
    tml_json_write_string(json, "status", primary.status);
    tml_json_write_string(json, "severity", tml_severity_key(finding->severity));
    tml_json_write_string(json, "section", "step_time");
    tml_json_write_string(json, "scope", "performance");
    tml_json_write_string(json, "summary", finding->summary);
    tml_json_write_string(json, "action", finding->action);
    write_primary_evidence(json, finding, primary.type, &analysis->window);
    tml_json_end_object(json);
}
