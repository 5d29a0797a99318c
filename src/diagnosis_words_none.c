/* The sentences of a verdict without a finding: nothing stands out, it could not be told, or there is too little. */
#include <inttypes.h>
#include <math.h>

#include "diagnosis.h"

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
        if (isnan(its) || !tml_metric_usable(&window->metric[shown[i]].status))
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

static void sum_balanced(struct tml_text *text, const struct tml_window *window, const struct tml_verdict *verdict)
{
    tml_text_add(text, verdict->below_floor ? "no part of the step that could be saved costs 1 ms: "
                                            : "no part of the step stands out: ");
    say_shares(text, window);
    tml_text_add(text, " of step time (");
    tml_finding_say_steps(text, window);
    tml_text_add(text, ")");
}

static void advise_balanced(struct tml_text *text, const struct tml_window *window, const struct tml_run_facts *facts)
{
    if (tml_between_advise(text, window, facts))
        return;
    tml_text_printf(text, "nothing to repair here; for more speed profile %s",
                    facts->python ? "the model itself (torch.profiler)" : "the work itself");
}

/* ---- Could not tell ---- */

/* The observer that sees copies sees the host wait for the device too. */
static bool blind_to_synchronisation(const struct tml_abstention *abstention)
{
    return abstention->rule->form == TML_RULE_LAUNCH && abstention->reason == TML_REASON_OBSERVER_MISSING;
}

/* "forward: seen in 1 of 30 steps" */
static void say_reason(struct tml_text *text, const struct tml_abstention *abstention, const struct tml_window *window)
{
    static const int metric_of[TRACEML_PHASE_COUNT] = {
        [TRACEML_PHASE_FORWARD] = TML_METRIC_FORWARD, [TRACEML_PHASE_BACKWARD] = TML_METRIC_BACKWARD};
    if (abstention->launch_time)
        tml_text_printf(text, "the device's time is not known: %s", tml_reason_words(abstention->reason));
    else if (blind_to_synchronisation(abstention))
        tml_text_add(text, "host synchronisation is not observed in this version");
    else if (abstention->phase < 0 || abstention->reason == TML_REASON_OBSERVER_MISSING)
        tml_text_add(text, tml_reason_words(abstention->reason));
    else {
        tml_text_printf(text, "%s: ", tml_phase_words((unsigned)abstention->phase));
        const struct tml_metric_status *status = &window->metric[metric_of[abstention->phase]].status;
        if (abstention->reason == TML_REASON_NEVER_OBSERVED && metric_of[abstention->phase] && status->steps_observed)
            tml_text_printf(text, "seen in %" PRIu64 " of %" PRIu64 " steps", status->steps_observed,
                            status->steps_expected);
        else
            tml_text_add(text, tml_reason_words(abstention->reason));
    }
}

static bool same_cause(const struct tml_abstention *a, const struct tml_abstention *b)
{
    return a->reason == b->reason && a->phase == b->phase && a->launch_time == b->launch_time &&
           blind_to_synchronisation(a) == blind_to_synchronisation(b);
}

/* The rules that abstain for the cause of rule `first`; an earlier one has said it already. */
static void say_rules(struct tml_text *text, const struct tml_verdict *verdict, size_t first)
{
    const char *before = "";
    for (size_t i = first; i < verdict->abstentions; i++) {
        if (!same_cause(&verdict->abstained[i], &verdict->abstained[first]))
            continue;
        tml_text_printf(text, "%s%s", before, tml_finding_status(verdict->abstained[i].rule->kind));
        before = ", ";
    }
}

static bool said(const struct tml_verdict *verdict, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (same_cause(&verdict->abstained[i], &verdict->abstained[at]))
            return true;
    return false;
}

void tml_abstentions_say(struct tml_text *text, const struct tml_verdict *verdict, const struct tml_window *window)
{
    for (size_t i = 0; i < verdict->abstentions; i++) {
        if (said(verdict, i))
            continue;
        tml_text_add(text, i ? ", " : "");
        say_rules(text, verdict, i);
        tml_text_add(text, " (");
        say_reason(text, &verdict->abstained[i], window);
        tml_text_add(text, ")");
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
    tml_abstentions_say(text, verdict, window);
}

/* How much somebody can do about it: the first of the list is advised on. */
static unsigned use_of(const struct tml_abstention *abstention)
{
    switch (abstention->reason) {
    case TML_REASON_HOOK_NOT_INSTALLED:
    case TML_REASON_STRATEGY_UNKNOWN:
    case TML_REASON_RANKS_MISSING:
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
    const char *phase = abstention->phase < 0 ? "step" : tml_phase_words((unsigned)abstention->phase);
    bool seen_by_hook = abstention->reason != TML_REASON_HOOK_NOT_INSTALLED;
    if (abstention->reason == TML_REASON_OTHER_THREAD && abstention->phase == TRACEML_PHASE_DATALOADER_FETCH)
        tml_text_printf(text,
                        "time what the step's own thread takes its batches from%s: another thread reads the loader",
                        python ? ", wrap_dataloader_fetch(queue.get)" : "");
    else if (!python)
        tml_text_printf(text, "bracket the %s with traceml_begin() and traceml_end()", phase);
    else if (!seen_by_hook)
        tml_text_printf(text, "have the %s timed: traceml.init(mode=\"auto\")", phase);
    else if (abstention->phase == TRACEML_PHASE_FORWARD)
        tml_text_add(text, "give trace_step() the module that the loop really calls, and call it inside the block");
    else
        tml_text_printf(text, "run the %s inside the trace_step() block", phase);
}

static void advise_incomplete(struct tml_text *text, const struct tml_window *window, const struct tml_run_facts *facts,
                              const struct tml_verdict *verdict)
{
    const struct tml_abstention *abstention = most_useful(verdict);
    if (abstention->reason == TML_REASON_STRATEGY_UNKNOWN)
        tml_text_add(text, "give trace_step() the module that wraps the model for all ranks (DDP, FSDP), not the inner "
                           "one");
    else if (abstention->reason == TML_REASON_RANKS_MISSING)
        tml_text_add(text, "trace every rank: call init() and trace_step() on all of them, into one run directory");
    else if (use_of(abstention) >= 2)
        advise_phase(text, abstention, facts->python);
    else if (abstention->reason == TML_REASON_NO_CLOCK_TIE)
        tml_text_add(text, "let it run for longer: the two clocks are tied once a second while there are steps");
    else if (abstention->reason != TML_REASON_OBSERVER_MISSING)
        tml_text_add(text, "see what was lost below, and run again without its cause");
    else if (!tml_between_advise(text, window, facts))
        tml_text_add(text, "nothing to repair in the script: this version sees neither copies to the device nor where "
                           "the host waits for it");
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

static void sum_no_data(struct tml_text *text, const struct tml_window *window, const struct tml_run_facts *facts)
{
    if (window->rank_count > 1)
        tml_text_printf(text, "the %zu ranks share no completed step", window->rank_count);
    else if (facts->running)
        tml_text_add(text, "no completed step yet");
    else if (facts->ranks_unclosed > 0)
        tml_text_add(text, "no completed step was written before the process ended");
    else
        tml_text_add(text, "no completed step");
}

static void advise_no_data(struct tml_text *text, const struct tml_window *window, const struct tml_run_facts *facts)
{
    if (window->rank_count > 1)
        tml_text_add(text, "look at why the ranks did different steps");
    else if (facts->aborted > 0)
        tml_text_printf(text, "look at why every step was left by an exception (%" PRIu64 " were)", facts->aborted);
    else if (facts->running)
        tml_text_add(text, "wait for the first step to end");
    else if (facts->ranks_unclosed > 0)
        tml_text_add(text, "let it run until a step has completed: the process ended without closing");
    else if (facts->python || !facts->environment)
        tml_text_add(text, "put `with traceml.trace_step(model):` around the training step, and let it end once");
    else
        tml_text_add(text, "bracket the training step with traceml_step_begin() and traceml_step_end()");
}

void tml_finding_say_none(struct tml_text *summary, struct tml_text *action, const struct tml_finding *finding,
                          const struct tml_window *window, const struct tml_run_facts *facts,
                          const struct tml_verdict *verdict)
{
    switch (finding->kind) {
    case TML_FINDING_BALANCED:
        sum_balanced(summary, window, verdict);
        advise_balanced(action, window, facts);
        break;
    case TML_FINDING_INCOMPLETE_DATA:
        sum_incomplete(summary, window, verdict);
        advise_incomplete(action, window, facts, verdict);
        break;
    case TML_FINDING_WARMUP:
        sum_warmup(summary, window);
        tml_text_add(action, "let it run for more steps");
        break;
    default:
        sum_no_data(summary, window, facts);
        advise_no_data(action, window, facts);
    }
}
