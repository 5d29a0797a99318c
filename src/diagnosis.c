/* Which rules fire on a window, which abstain, and what the verdict is then. */
#include "diagnosis.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- What a rule stands on ---- */

void tml_rule_abstain(struct tml_verdict *verdict, const struct tml_rule *rule, enum tml_metric signal,
                      enum tml_reason reason, int phase, bool launch_time)
{
    verdict->abstained[verdict->abstentions++] = (struct tml_abstention){rule, signal, reason, phase, launch_time};
}

/* It lies before the step or on no device at all: here it is known to be none. */
static bool elsewhere(const struct tml_metric_status *status)
{
    return status->availability == TML_NOT_APPLICABLE ||
           (status->coverage == TML_COVERAGE_OUTSIDE_WINDOW && status->reason == TML_REASON_PRE_STEP);
}

bool tml_rule_sum_on(const struct tml_rule_sum *sum, const struct tml_rank_window *rank, int64_t *ns)
{
    *ns = 0;
    for (unsigned i = 0; i < sum->parts; i++) {
        const struct tml_metric_status *status = &rank->metric[sum->part[i]];
        if (tml_metric_usable(status))
            *ns = tml_ns_add(*ns, status->value_ns);
        else if (!elsewhere(status))
            return false;
    }
    return true;
}

static const struct tml_metric_status *missing_part(const struct tml_rule_sum *sum, const struct tml_window *window,
                                                    enum tml_metric *which)
{
    for (unsigned i = 0; i < sum->parts; i++) {
        const struct tml_metric_status *status = &window->metric[ *which = sum->part[i]].status;
        if (!tml_metric_usable(status) && !elsewhere(status))
            return status;
    }
    return NULL;
}

/* Copies that nobody saw lie in the same remainder as the residual: if all of it is too little, so is the residual. */
static bool ruled_out(const struct tml_rule *rule, const struct tml_window *window, enum tml_reason reason)
{
    if (rule->bound.parts == 0 || reason != TML_REASON_OBSERVER_MISSING || tml_window_is_launch_time(window))
        return false;
    const struct tml_over_ranks *bound = &window->metric[rule->bound.part[0]];
    return tml_metric_usable(&bound->status) && !isnan(bound->share) &&
           (bound->share < rule->warn || bound->median.value_ns < rule->floor_ns);
}

bool tml_rule_lacks(const struct tml_rule *rule, const struct tml_rule_sum *sum, const struct tml_window *window,
                    struct tml_verdict *verdict)
{
    enum tml_metric which;
    const struct tml_metric_status *missing = missing_part(sum, window, &which);
    if (missing) {
        if (!ruled_out(rule, window, missing->reason))
            tml_rule_abstain(verdict, rule, which, missing->reason, missing->phase, false);
        return true;
    }
    if (rule->launch_time != TML_LAUNCH_TIME_ABSTAIN || !tml_window_is_launch_time(window))
        return false;
    tml_rule_abstain(verdict, rule, sum->part[0], window->clock_reason, -1, true);
    return true;
}

enum tml_severity tml_rule_severity(const struct tml_rule *rule, const struct tml_window *window, double share)
{
    bool critical = rule->above ? share > rule->crit : share >= rule->crit;
    if (window->steps < TML_CRIT_STEPS || tml_window_is_launch_time(window))
        critical = false;
    enum tml_severity severity = critical ? TML_SEVERITY_CRIT : TML_SEVERITY_WARN;
    return severity < rule->most ? severity : rule->most;
}

/* ---- Shares ---- */

struct rank_cost {
    double share;
    int64_t cost_ns, whole_ns;
    int rank;
};

/* False when a signal is null on this rank: it does not take part. */
static bool cost_on(const struct tml_rule *rule, const struct tml_rank_window *rank, struct rank_cost *cost)
{
    cost->rank = (int)rank->run->rank;
    if (!tml_rule_sum_on(&rule->signal, rank, &cost->cost_ns) ||
        !tml_rule_sum_on(&rule->denominator, rank, &cost->whole_ns) || cost->whole_ns <= 0)
        return false;
    cost->share = (double)cost->cost_ns / (double)cost->whole_ns;
    return true;
}

static int largest_share_first(const void *a, const void *b)
{
    const struct rank_cost *first = a, *second = b;
    if (first->share != second->share)
        return first->share > second->share ? -1 : 1;
    return (first->rank > second->rank) - (first->rank < second->rank);
}

/* The rank in the middle of the order, of an even number the two there together: share, cost and whole are of the same
 * ranks, so that they agree with each other. */
static struct rank_cost middle_of(const struct rank_cost *costs, size_t count)
{
    const struct rank_cost *a = &costs[(count - 1) / 2], *b = &costs[count / 2];
    return (struct rank_cost){
        .share = (double)(a->cost_ns + b->cost_ns) / (double)(a->whole_ns + b->whole_ns),
        .cost_ns = (a->cost_ns + b->cost_ns) / 2,
        .whole_ns = (a->whole_ns + b->whole_ns) / 2,
        .rank = costs[0].rank,
    };
}

/* The window fell back to the host's clock, yet on some ranks the device's own wait is known: if those did not starve,
 * the host's wait is no evidence that others did. */
static bool device_did_not_wait(const struct tml_rule *rule, const struct tml_window *window)
{
    struct rank_cost *waits = malloc((window->rank_count + 1) * sizeof *waits);
    size_t count = 0;
    for (size_t i = 0; waits && i < window->rank_count; i++) {
        const struct tml_rank_window *rank = &window->ranks[i];
        if (tml_metric_enough(rank->gpu_steps, window->steps) && rank->gpu_step_ns > 0)
            waits[count++] = (struct rank_cost){.share = (double)rank->gpu_input_ns / (double)rank->gpu_step_ns,
                                                .rank = (int)rank->run->rank};
    }
    if (count > 0)
        qsort(waits, count, sizeof *waits, largest_share_first);
    bool idle = count > 0 && (waits[count / 2].share + waits[(count - 1) / 2].share) / 2 < rule->warn;
    free(waits);
    return idle;
}

/* Somebody bracketed copies by hand, others may have gone unseen: enough to fire on, too little to acquit. */
static void doubt(const struct tml_rule *rule, const struct tml_window *window, struct tml_verdict *verdict)
{
    for (unsigned i = 0; i < rule->signal.parts; i++) {
        const struct tml_metric_status *status = &window->metric[rule->signal.part[i]].status;
        if (!tml_metric_usable(status) || status->coverage != TML_COVERAGE_UNKNOWN)
            continue;
        tml_rule_abstain(verdict, rule, rule->signal.part[i], status->reason, status->phase, false);
        return;
    }
}

/* Every other term of the iteration is small beside the step, as far as it was measured. One that is not known lies
 * within those that are: copies and what was not observed in the remainders. */
static bool others_are_small(const struct tml_rule *rule, const struct tml_window *window)
{
    static const enum tml_metric others[] = {
        TML_METRIC_INPUT_WAIT, TML_METRIC_IN_STEP_INPUT_WAIT, TML_METRIC_PRE_STEP_H2D,   TML_METRIC_H2D,
        TML_METRIC_EVALUATION, TML_METRIC_CHECKPOINT,         TML_METRIC_USER_SPANS,     TML_METRIC_PRE_STEP_OTHER,
        TML_METRIC_RESIDUAL,   TML_METRIC_UNATTRIBUTED,       TML_METRIC_INSTRUMENTATION};
    for (size_t i = 0; rule->others > 0 && i < sizeof others / sizeof *others; i++)
        if (window->metric[others[i]].share > rule->others)
            return false;
    return true;
}

static void weigh(const struct tml_rule *rule, const struct tml_window *window, struct rank_cost *costs, size_t count,
                  struct tml_verdict *verdict)
{
    qsort(costs, count, sizeof *costs, largest_share_first);
    struct rank_cost middle = middle_of(costs, count);
    double share = middle.share;
    bool reaches = rule->above ? share > rule->warn : share >= rule->warn;
    if (!reaches || middle.cost_ns < rule->floor_ns || !others_are_small(rule, window)) {
        verdict->below_floor = verdict->below_floor || (reaches && middle.cost_ns < rule->floor_ns && rule->crit > 0);
        doubt(rule, window, verdict);
        return;
    }
    if (tml_window_is_launch_time(window) && device_did_not_wait(rule, window)) {
        tml_rule_abstain(verdict, rule, rule->signal.part[0], window->clock_reason, -1, true);
        return;
    }
    verdict->finding[verdict->findings++] = (struct tml_finding){
        .kind = rule->kind,
        .severity = tml_rule_severity(rule, window, share),
        .rule = rule,
        .share = share,
        .score = share,
        .skew = count > 1 ? (costs[0].share - share) / share : NAN,
        .cost_ns = middle.cost_ns,
        .denominator_ns = middle.whole_ns,
        .rank = middle.rank,
    };
}

static bool judge_share(const struct tml_rule *rule, const struct tml_window *window, struct tml_verdict *verdict)
{
    if (rule->device && !window->cuda)
        return true;
    if (tml_rule_lacks(rule, &rule->signal, window, verdict) ||
        tml_rule_lacks(rule, &rule->denominator, window, verdict))
        return true;
    struct rank_cost *costs = malloc((window->rank_count + 1) * sizeof *costs);
    size_t count = 0;
    bool ok = costs != NULL;
    for (size_t i = 0; ok && i < window->rank_count; i++)
        count += cost_on(rule, &window->ranks[i], &costs[count]);
    if (ok && count == 0) /* every rank lacks a part of it: nothing to stand on */
        tml_rule_abstain(verdict, rule, rule->signal.part[0], TML_REASON_NEVER_OBSERVED, -1, false);
    else if (ok)
        weigh(rule, window, costs, count, verdict);
    free(costs);
    return ok;
}

/* ---- The verdict ---- */

/* One without a score comes after those with one. */
static double sort_score(const struct tml_finding *finding)
{
    return isnan(finding->score) ? -1 : finding->score;
}

/* Severity, then score, then the order of the rules. */
static int worse_first(const void *a, const void *b)
{
    const struct tml_finding *first = a, *second = b;
    double first_score = sort_score(first), second_score = sort_score(second);
    if (first->severity != second->severity)
        return first->severity > second->severity ? -1 : 1;
    if (first_score != second_score)
        return first_score > second_score ? -1 : 1;
    return (first->rule > second->rule) - (first->rule < second->rule);
}

static void conclude(struct tml_verdict *verdict, enum tml_finding_kind kind)
{
    verdict->finding[verdict->findings++] = (struct tml_finding){
        .kind = kind,
        .severity = TML_SEVERITY_INFO,
        .share = NAN,
        .score = NAN,
        .skew = NAN,
        .cost_ns = TML_NS_NONE,
        .denominator_ns = TML_NS_NONE,
        .rank = -1,
    };
}

static bool judge(const struct tml_window *window, const struct tml_run_facts *facts, struct tml_verdict *verdict)
{
    for (unsigned i = 0; i < TML_RULE_COUNT; i++)
        if (tml_rules[i].form == TML_RULE_SHARE && !judge_share(&tml_rules[i], window, verdict))
            return false;
    if (!tml_judge_launches(window, verdict))
        return false;
    tml_judge_stragglers(window, facts, verdict);
    if (verdict->findings == 0)
        conclude(verdict, verdict->abstentions ? TML_FINDING_INCOMPLETE_DATA : TML_FINDING_BALANCED);
    qsort(verdict->finding, verdict->findings, sizeof *verdict->finding, worse_first);
    return true;
}

bool tml_diagnose(const struct tml_window *window, const struct tml_run_facts *facts, struct tml_verdict *verdict)
{
    *verdict = (struct tml_verdict){0};
    bool ok = true;
    if (window->steps + window->warmup_steps + window->left_out == 0)
        conclude(verdict, TML_FINDING_NO_DATA);
    else if (window->steps < TML_WARN_STEPS)
        conclude(verdict, TML_FINDING_WARMUP);
    else
        ok = judge(window, facts, verdict);
    for (size_t i = 0; ok && i < verdict->findings; i++)
        ok = tml_finding_say(&verdict->finding[i], window, facts, verdict);
    if (!ok)
        tml_verdict_free(verdict);
    return ok;
}

void tml_verdict_free(struct tml_verdict *verdict)
{
    for (size_t i = 0; i < verdict->findings; i++) {
        free(verdict->finding[i].summary);
        free(verdict->finding[i].action);
    }
    *verdict = (struct tml_verdict){0};
}
