/* One rank against another: who comes late to where all ranks meet, and which part of its iteration explains it. */
#include <math.h>
#include <string.h>

#include "diagnosis.h"

/* Of the cost, what an excess must cover to be named as its cause. */
#define CAUSE_COVER 0.80

/* Where ranks wait for each other: there the late one waits least. */
static const struct strategy {
    const char *name; /* as the run facts say it */
    struct tml_rule_sum visible;
    enum tml_severity most;
} strategies[] = {
    {"DDP", {{TML_METRIC_BACKWARD}, 1}, TML_SEVERITY_CRIT},
    /* Gathering parameters is part of every phase here: less sure, so never critical. */
    {"FSDP", {{TML_METRIC_FORWARD, TML_METRIC_BACKWARD}, 2}, TML_SEVERITY_WARN},
};

/* Parts of the iteration beside those that a straggler rule names. */
static const enum tml_metric other_parts[] = {TML_METRIC_EVALUATION, TML_METRIC_CHECKPOINT, TML_METRIC_USER_SPANS,
                                              TML_METRIC_PRE_STEP_OTHER, TML_METRIC_UNATTRIBUTED};

_Static_assert(sizeof other_parts / sizeof *other_parts + 3 == TML_STRAGGLER_EXCESSES, "room for every part");

static const struct strategy *strategy_of(const char *name)
{
    for (size_t i = 0; name && i < sizeof strategies / sizeof *strategies; i++)
        if (strcmp(strategies[i].name, name) == 0)
            return &strategies[i];
    return NULL;
}

/* ---- Culprit and victim ---- */

struct rank_visible {
    const struct tml_rank_window *rank;
    int64_t visible_ns, step_ns;
};

static bool visible_on(const struct tml_rank_window *rank, const struct strategy *strategy, struct rank_visible *found)
{
    static const struct tml_rule_sum step = {{TML_METRIC_STEP_TIME}, 1};
    found->rank = rank;
    return tml_rule_sum_on(&strategy->visible, rank, &found->visible_ns) &&
           tml_rule_sum_on(&step, rank, &found->step_ns) && found->step_ns > 0;
}

/* Ranks ascend: of equal ones the lowest. False with fewer than two measured ranks. */
static bool find_pair(const struct tml_window *window, const struct strategy *strategy, struct rank_visible *culprit,
                      struct rank_visible *victim)
{
    size_t count = 0;
    for (size_t i = 0; i < window->rank_count; i++) {
        struct rank_visible its;
        if (!visible_on(&window->ranks[i], strategy, &its))
            continue;
        if (count == 0 || its.visible_ns < culprit->visible_ns)
            *culprit = its;
        if (count == 0 || its.visible_ns > victim->visible_ns)
            *victim = its;
        count++;
    }
    return count > 1;
}

/* ---- Cause ---- */

static bool has(const struct tml_rule_sum *sum, enum tml_metric metric)
{
    for (unsigned i = 0; i < sum->parts; i++)
        if (sum->part[i] == metric)
            return true;
    return false;
}

/* A phase in which ranks wait for each other shows no excess of its own. */
static struct tml_rule_sum without(const struct tml_rule_sum *sum, const struct tml_rule_sum *visible)
{
    struct tml_rule_sum rest = {.parts = 0};
    for (unsigned i = 0; i < sum->parts; i++)
        if (!has(visible, sum->part[i]))
            rest.part[rest.parts++] = sum->part[i];
    return rest;
}

static void add_excess(struct tml_straggler *straggler, const struct tml_rule *rule, const struct tml_rule_sum *sum,
                       const struct rank_visible *culprit, const struct rank_visible *victim)
{
    struct tml_excess *excess = &straggler->excess[straggler->excesses++];
    int64_t late_ns, other_ns;
    *excess = (struct tml_excess){.rule = rule, .metric = sum->part[0], .ns = TML_NS_NONE};
    if (tml_rule_sum_on(sum, culprit->rank, &late_ns) && tml_rule_sum_on(sum, victim->rank, &other_ns))
        excess->ns = tml_ns_add(late_ns, -other_ns);
}

/* The largest that covers the cost; one with a kind of its own before the others. */
static int cause_of(const struct tml_straggler *straggler, int64_t cost_ns)
{
    int named = -1;
    for (unsigned i = 0; i < straggler->excesses; i++) {
        const struct tml_excess *excess = &straggler->excess[i], *best = &straggler->excess[named < 0 ? 0 : named];
        if (excess->ns == TML_NS_NONE || (double)excess->ns < CAUSE_COVER * (double)cost_ns)
            continue;
        if (named < 0 || ((excess->rule || !best->rule) && excess->ns > best->ns))
            named = (int)i;
    }
    return named;
}

static void find_cause(struct tml_straggler *straggler, const struct tml_window *window,
                       const struct rank_visible *culprit, const struct rank_visible *victim)
{
    for (unsigned i = 0; i < TML_RULE_COUNT; i++) {
        const struct tml_rule *rule = &tml_rules[i];
        struct tml_rule_sum sum = without(&rule->signal, &straggler->visible);
        bool here = !rule->device || window->clock == TML_CLOCK_GPU;
        if (rule->form == TML_RULE_STRAGGLER && sum.parts > 0 && here)
            add_excess(straggler, rule, &sum, culprit, victim);
    }
    for (size_t i = 0; i < sizeof other_parts / sizeof *other_parts; i++)
        add_excess(straggler, NULL, &(struct tml_rule_sum){{other_parts[i]}, 1}, culprit, victim);
    straggler->named = cause_of(straggler, straggler->victim_ns - straggler->culprit_ns);
}

/* ---- The rule ---- */

static void weigh(const struct tml_rule *rule, const struct tml_window *window, const struct strategy *strategy,
                  const struct rank_visible *culprit, const struct rank_visible *victim, struct tml_verdict *verdict)
{
    int64_t cost_ns = victim->visible_ns - culprit->visible_ns;
    double score = (double)cost_ns / (double)victim->step_ns;
    if (score < rule->warn || cost_ns < rule->floor_ns) {
        verdict->below_floor = verdict->below_floor || score >= rule->warn;
        return;
    }
    struct tml_finding *finding = &verdict->finding[verdict->findings++];
    enum tml_severity severity = tml_rule_severity(rule, window, score);
    *finding = (struct tml_finding){
        .severity = severity < strategy->most ? severity : strategy->most,
        .share = score,
        .score = score,
        .skew = score,
        .cost_ns = cost_ns,
        .denominator_ns = victim->step_ns,
        .rank = (int)culprit->rank->run->rank,
        .straggler = {.culprit = (int)culprit->rank->run->rank,
                      .victim = (int)victim->rank->run->rank,
                      .visible = strategy->visible,
                      .culprit_ns = culprit->visible_ns,
                      .victim_ns = victim->visible_ns},
    };
    struct tml_straggler *straggler = &finding->straggler;
    find_cause(straggler, window, culprit, victim);
    finding->rule = straggler->named >= 0 && straggler->excess[straggler->named].rule
                        ? straggler->excess[straggler->named].rule
                        : rule;
    finding->kind = finding->rule->kind;
}

void tml_judge_stragglers(const struct tml_window *window, const struct tml_run_facts *facts,
                          struct tml_verdict *verdict)
{
    const struct tml_rule *rule = tml_rule_of(TML_FINDING_STRAGGLER);
    const struct strategy *strategy = strategy_of(facts->strategy);
    struct rank_visible culprit = {0}, victim = {0};
    if (facts->world_size < 2 || (facts->strategy && strcmp(facts->strategy, "none") == 0))
        return; /* nobody waits for anybody */
    if (!strategy)
        tml_rule_abstain(verdict, rule, TML_METRIC_BACKWARD, TML_REASON_STRATEGY_UNKNOWN, -1, false);
    else if (window->rank_count < 2)
        tml_rule_abstain(verdict, rule, TML_METRIC_BACKWARD, TML_REASON_RANKS_MISSING, -1, false);
    else if (tml_rule_lacks(rule, &strategy->visible, window, verdict) ||
             tml_rule_lacks(rule, &rule->denominator, window, verdict))
        return;
    else if (find_pair(window, strategy, &culprit, &victim))
        weigh(rule, window, strategy, &culprit, &victim, verdict);
    else
        tml_rule_abstain(verdict, rule, strategy->visible.part[0], TML_REASON_NEVER_OBSERVED, -1, false);
}
