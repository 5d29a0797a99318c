#include "diagnosis.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *key, *status;
} kinds[] = {
#define TML_X(name, status) {#name, status},
    TML_FINDING_LIST(TML_X)
#undef TML_X
};

static const struct {
    const char *key, *word;
} severities[] = {
#define TML_X(name, key, word) {key, word},
    TML_SEVERITY_LIST(TML_X)
#undef TML_X
};

const char *tml_finding_key(enum tml_finding_kind kind)
{
    return kinds[kind].key;
}

const char *tml_finding_status(enum tml_finding_kind kind)
{
    return kinds[kind].status;
}

const char *tml_severity_key(enum tml_severity severity)
{
    return severities[severity].key;
}

const char *tml_severity_word(enum tml_severity severity)
{
    return severities[severity].word;
}

/* Thresholds are those of traceml-ai; the floor keeps a toy step from shouting. */
const struct tml_rule tml_rules[TML_RULE_COUNT] = {
    {
        .kind = TML_FINDING_INPUT_BOUND,
        .signal = {TML_METRIC_INPUT_WAIT, TML_METRIC_IN_STEP_INPUT_WAIT},
        .signals = 2,
        .denominator = TML_METRIC_STEP_TIME,
        .warn = 0.10,
        .crit = 0.20,
        .floor_ns = TML_NS_PER_MS,
        .launch_time = TML_LAUNCH_TIME_WARN_AT_MOST,
        .metric = "input_wait",
        .phase = "input",
        .bound = TML_METRIC_COUNT,
    },
    {
        .kind = TML_FINDING_RESIDUAL_HEAVY,
        .signal = {TML_METRIC_RESIDUAL},
        .signals = 1,
        .denominator = TML_METRIC_STEP_TIME,
        .warn = 0.10,
        .crit = 0.20,
        .floor_ns = TML_NS_PER_MS,
        .launch_time = TML_LAUNCH_TIME_ABSTAIN,
        .metric = "residual_proxy",
        .phase = "residual",
        .bound = TML_METRIC_UNATTRIBUTED,
    },
};

/* ---- One rule on one rank ---- */

struct rank_cost {
    double share;
    int64_t cost_ns, whole_ns;
    int rank;
};

/* False when a signal is null on this rank: it does not take part. */
static bool cost_on(const struct tml_rule *rule, const struct tml_rank_window *rank, struct rank_cost *cost)
{
    *cost = (struct rank_cost){.rank = (int)rank->run->rank, .whole_ns = rank->metric[rule->denominator].value_ns};
    for (unsigned i = 0; i < rule->signals; i++) {
        int64_t value_ns = rank->metric[rule->signal[i]].value_ns;
        if (value_ns == TML_NS_NONE)
            return false;
        cost->cost_ns = tml_ns_add(cost->cost_ns, value_ns);
    }
    if (cost->whole_ns == TML_NS_NONE || cost->whole_ns <= 0)
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

static int by_ns(const void *a, const void *b)
{
    int64_t first = *(const int64_t *)a, second = *(const int64_t *)b;
    return (first > second) - (first < second);
}

/* Of an even number the smaller of the two in the middle: a cost that a rank really has. */
static int64_t median_ns(const struct rank_cost *costs, size_t count, bool whole, int64_t *scratch)
{
    for (size_t i = 0; i < count; i++)
        scratch[i] = whole ? costs[i].whole_ns : costs[i].cost_ns;
    qsort(scratch, count, sizeof *scratch, by_ns);
    return scratch[(count - 1) / 2];
}

/* ---- One rule over ranks ---- */

static void abstain(struct tml_verdict *verdict, const struct tml_rule *rule, enum tml_metric signal,
                    enum tml_reason reason, int phase, bool launch_time)
{
    verdict->abstained[verdict->abstentions++] = (struct tml_abstention){rule, signal, reason, phase, launch_time};
}

/* Copies that nobody saw lie in the same remainder as the residual: if all of it is too little, so is the residual. */
static bool ruled_out(const struct tml_rule *rule, const struct tml_window *window, enum tml_reason reason)
{
    if (rule->bound == TML_METRIC_COUNT || reason != TML_REASON_OBSERVER_MISSING || tml_window_is_launch_time(window))
        return false;
    const struct tml_over_ranks *bound = &window->metric[rule->bound];
    return tml_metric_usable(&bound->status) && tml_metric_usable(&window->metric[rule->denominator].status) &&
           (bound->share < rule->warn || bound->median.value_ns < rule->floor_ns);
}

/* True when a signal is missing or not whole enough to stand on; the rule then abstains, unless it cannot fire. */
static bool lacks_signal(const struct tml_rule *rule, const struct tml_window *window, struct tml_verdict *verdict)
{
    for (unsigned i = 0; i <= rule->signals; i++) {
        enum tml_metric signal = i < rule->signals ? rule->signal[i] : rule->denominator;
        const struct tml_metric_status *status = &window->metric[signal].status;
        if (tml_metric_usable(status))
            continue;
        if (!ruled_out(rule, window, status->reason))
            abstain(verdict, rule, signal, status->reason, status->phase, false);
        return true;
    }
    if (rule->launch_time != TML_LAUNCH_TIME_ABSTAIN || !tml_window_is_launch_time(window))
        return false;
    abstain(verdict, rule, rule->signal[0], window->clock_reason, -1, true);
    return true;
}

static int by_share(const void *a, const void *b)
{
    double first = *(const double *)a, second = *(const double *)b;
    return (first > second) - (first < second);
}

/* The window fell back to the host's clock, yet on some ranks the device's own wait is known: if those did not starve,
 * the host's wait is no evidence that others did. */
static bool device_did_not_wait(const struct tml_rule *rule, const struct tml_window *window)
{
    double *shares = malloc((window->rank_count + 1) * sizeof *shares);
    size_t count = 0;
    for (size_t i = 0; shares && i < window->rank_count; i++) {
        const struct tml_rank_window *rank = &window->ranks[i];
        if (tml_metric_enough(rank->gpu_steps, window->steps) && rank->gpu_step_ns > 0)
            shares[count++] = (double)rank->gpu_input_ns / (double)rank->gpu_step_ns;
    }
    if (count > 0)
        qsort(shares, count, sizeof *shares, by_share);
    bool idle = count > 0 && (shares[count / 2] + shares[(count - 1) / 2]) / 2 < rule->warn;
    free(shares);
    return idle;
}

static enum tml_severity severity_of(const struct tml_rule *rule, const struct tml_window *window, double share)
{
    bool launch_time = tml_window_is_launch_time(window);
    return share >= rule->crit && window->steps >= TML_CRIT_STEPS && !launch_time ? TML_SEVERITY_CRIT
                                                                                  : TML_SEVERITY_WARN;
}

static void weigh(const struct tml_rule *rule, const struct tml_window *window, struct rank_cost *costs, size_t count,
                  int64_t *scratch, struct tml_verdict *verdict)
{
    qsort(costs, count, sizeof *costs, largest_share_first);
    double share = (costs[count / 2].share + costs[(count - 1) / 2].share) / 2;
    int64_t cost_ns = median_ns(costs, count, false, scratch);
    if (!(share >= rule->warn) || cost_ns < rule->floor_ns)
        return;
    if (tml_window_is_launch_time(window) && device_did_not_wait(rule, window)) {
        abstain(verdict, rule, rule->signal[0], window->clock_reason, -1, true);
        return;
    }
    verdict->finding[verdict->findings++] = (struct tml_finding){
        .kind = rule->kind,
        .severity = severity_of(rule, window, share),
        .rule = rule,
        .share = share,
        .score = share,
        .skew = count > 1 ? (costs[0].share - share) / share : NAN,
        .cost_ns = cost_ns,
        .denominator_ns = median_ns(costs, count, true, scratch),
        .rank = costs[0].rank,
    };
}

static bool apply(const struct tml_rule *rule, const struct tml_window *window, struct tml_verdict *verdict)
{
    if (lacks_signal(rule, window, verdict))
        return true;
    struct rank_cost *costs = malloc((window->rank_count + 1) * sizeof *costs);
    int64_t *scratch = malloc((window->rank_count + 1) * sizeof *scratch);
    size_t count = 0;
    bool ok = costs && scratch;
    for (size_t i = 0; ok && i < window->rank_count; i++)
        count += cost_on(rule, &window->ranks[i], &costs[count]);
    if (ok && count == 0) /* every rank lacks a part of it: nothing to stand on */
        abstain(verdict, rule, rule->signal[0], TML_REASON_NEVER_OBSERVED, -1, false);
    else if (ok)
        weigh(rule, window, costs, count, scratch, verdict);
    free(costs);
    free(scratch);
    return ok;
}

/* ---- The verdict ---- */

/* Severity, then score, then the order of the rules. */
static int worse_first(const void *a, const void *b)
{
    const struct tml_finding *first = a, *second = b;
    if (first->severity != second->severity)
        return first->severity > second->severity ? -1 : 1;
    if (first->score != second->score)
        return first->score > second->score ? -1 : 1;
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

static bool judge(const struct tml_window *window, struct tml_verdict *verdict)
{
    for (unsigned i = 0; i < TML_RULE_COUNT; i++)
        if (!apply(&tml_rules[i], window, verdict))
            return false;
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
        ok = judge(window, verdict);
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
