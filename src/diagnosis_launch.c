/* Does the device wait for the host? By its lead at two boundaries of a step, where nothing else made it wait. */
#include <math.h>
#include <stdlib.h>

#include "diagnosis.h"

#define FEWEST_STEPS 20

struct rank_lead {
    double share; /* of the undisturbed steps, those near zero at both boundaries */
    const struct tml_rank_window *rank;
};

static int largest_share_first(const void *a, const void *b)
{
    const struct rank_lead *first = a, *second = b;
    if (first->share != second->share)
        return first->share > second->share ? -1 : 1;
    return (first->rank->run->rank > second->rank->run->rank) - (first->rank->run->rank < second->rank->run->rank);
}

/* Whatever the steps were that the host synchronised in, and those without a lead: too few can be near zero. */
static bool ruled_out(const struct tml_rule *rule, const struct tml_launch_steps *lead, uint64_t steps)
{
    return (double)(steps - lead->known + lead->near_zero) < rule->warn * FEWEST_STEPS;
}

/* Why the rule cannot be applied to this rank; NONE: it can. */
static enum tml_reason lacks(const struct tml_launch_steps *lead, uint64_t steps)
{
    if (!tml_metric_enough(lead->known, steps))
        return lead->reason ? lead->reason : TML_REASON_NO_CLOCK_TIE;
    return lead->watched ? TML_REASON_NONE : TML_REASON_OBSERVER_MISSING;
}

/* The ranks that it can be applied to, and what the others lack (of several reasons the first in the list). */
static size_t collect(const struct tml_rule *rule, const struct tml_window *window, struct rank_lead *found,
                      enum tml_reason *lacking)
{
    size_t count = 0;
    *lacking = TML_REASON_NONE;
    for (size_t i = 0; i < window->rank_count; i++) {
        const struct tml_launch_steps *lead = &window->ranks[i].launch;
        enum tml_reason reason = lacks(lead, window->steps);
        if (reason && !ruled_out(rule, lead, window->steps))
            *lacking = *lacking == TML_REASON_NONE || reason < *lacking ? reason : *lacking;
        if (!reason && lead->undisturbed >= FEWEST_STEPS)
            found[count++] =
                (struct rank_lead){(double)lead->undisturbed_near_zero / (double)lead->undisturbed, &window->ranks[i]};
    }
    if (count > 0)
        qsort(found, count, sizeof *found, largest_share_first);
    return count;
}

/* A rank that cannot be judged makes the rule abstain: what the others show is not the run's. */
bool tml_judge_launches(const struct tml_window *window, struct tml_verdict *verdict)
{
    const struct tml_rule *rule = tml_rule_of(TML_FINDING_LAUNCH_BOUND);
    if (!window->cuda)
        return true;
    struct rank_lead *found = malloc((window->rank_count + 1) * sizeof *found);
    if (!found)
        return false;
    enum tml_reason lacking;
    size_t count = collect(rule, window, found, &lacking);
    const struct rank_lead *middle = &found[count / 2]; /* of an even number the smaller share */
    if (lacking)
        tml_rule_abstain(verdict, rule, rule->signal.part[0], lacking, -1, false);
    else if (count > 0 && middle->share >= rule->warn)
        verdict->finding[verdict->findings++] = (struct tml_finding){
            .kind = rule->kind,
            .severity = TML_SEVERITY_WARN,
            .rule = rule,
            .share = NAN,
            .score = NAN,
            .skew = NAN,
            .cost_ns = TML_NS_NONE,
            .denominator_ns = TML_NS_NONE,
            .rank = (int)middle->rank->run->rank,
            .launch = middle->rank->launch,
        };
    free(found);
    return true;
}
