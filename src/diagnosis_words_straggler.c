/* The sentences of a straggler: which rank, what it costs another one, and what explains it, if anything does. */
#include <string.h>

#include "diagnosis.h"

/* What a rank has more of: said as evidence, and what to do about it when it explains the cost. */
static const struct {
    enum tml_metric first; /* of the signals of its rule, or the one */
    const char *words, *detail;
    bool compare;
} parts[] = {
    {TML_METRIC_INPUT_WAIT, "input wait", "its storage, the cores its workers have, the size of its samples", true},
    {TML_METRIC_H2D, "copying to the device", "bytes a batch, pinned memory, the link of its GPU", true},
    {TML_METRIC_FORWARD, "compute before the ranks meet",
     "batch size, sequence lengths and padding, then the clock of its device", true},
    {TML_METRIC_OPTIMIZER, "compute before the ranks meet", "the parameters it updates", true},
    {TML_METRIC_EVALUATION, "evaluation", "in evaluation", false},
    {TML_METRIC_CHECKPOINT, "checkpoint time", "in checkpoints", false},
    {TML_METRIC_USER_SPANS, "time in own spans", "in its own spans", false},
    {TML_METRIC_PRE_STEP_OTHER, "time between steps in no measured phase", "between its steps", false},
    {TML_METRIC_UNATTRIBUTED, "time inside steps in no measured phase", "beside the measured phases", false},
};

static size_t part_of(const struct tml_excess *excess)
{
    size_t at = 0;
    while (at + 1 < sizeof parts / sizeof *parts && parts[at].first != excess->metric)
        at++;
    return at;
}

static const char *visible_words(const struct tml_straggler *straggler)
{
    return straggler->visible.parts > 1 ? "forward and backward" : "backward";
}

static void say_ms(struct tml_text *text, const struct tml_finding *finding, int64_t ns)
{
    char value[TML_TEXT_MS_BYTES];
    tml_text_format_ms(value, ns, tml_text_ms_decimals(finding->denominator_ns));
    tml_text_printf(text, "%s ms", value);
}

/* The largest that was measured, to point at where nothing is explained; NULL: none of them is more. */
static const struct tml_excess *largest(const struct tml_straggler *straggler)
{
    const struct tml_excess *most = NULL;
    for (unsigned i = 0; i < straggler->excesses; i++)
        if (straggler->excess[i].ns != TML_NS_NONE && straggler->excess[i].ns > (most ? most->ns : 0))
            most = &straggler->excess[i];
    return most;
}

static void say_cause(struct tml_text *text, const struct tml_finding *finding)
{
    const struct tml_straggler *straggler = &finding->straggler;
    const struct tml_excess *excess = straggler->named >= 0 ? &straggler->excess[straggler->named] : largest(straggler);
    if (straggler->named >= 0)
        tml_text_printf(text, "; rank %d has ", straggler->culprit);
    else
        tml_text_printf(text, "; no measured part of rank %d explains it", straggler->culprit);
    if (!excess)
        return;
    tml_text_add(text, straggler->named >= 0 ? "" : " (at most ");
    say_ms(text, finding, excess->ns);
    tml_text_printf(text, " more %s%s", parts[part_of(excess)].words, straggler->named >= 0 ? "" : ")");
}

static void sum_straggler(struct tml_text *text, const struct tml_finding *finding, const struct tml_window *window)
{
    const struct tml_straggler *straggler = &finding->straggler;
    char share[TML_PERCENT_BYTES];
    tml_text_printf(text, "rank %d holds rank %d up for %s of its step: rank %d spends ", straggler->culprit,
                    straggler->victim, tml_percent(finding->score, share), straggler->victim);
    say_ms(text, finding, finding->cost_ns);
    tml_text_printf(text, " more in %s, where ranks wait for each other (", visible_words(straggler));
    tml_finding_say_of(text, finding->cost_ns, finding->denominator_ns);
    tml_text_add(text, ", ");
    tml_finding_say_steps(text, window);
    tml_text_add(text, ")");
    say_cause(text, finding);
}

static void advise_straggler(struct tml_text *text, const struct tml_finding *finding)
{
    const struct tml_straggler *straggler = &finding->straggler;
    if (straggler->named < 0) {
        tml_text_printf(text, "put traceml.span() around what rank %d does outside of the measured phases",
                        straggler->culprit);
        return;
    }
    size_t part = part_of(&straggler->excess[straggler->named]);
    if (parts[part].compare)
        tml_text_printf(text, "compare rank %d with rank %d: %s", straggler->culprit, straggler->victim,
                        parts[part].detail);
    else
        tml_text_printf(text, "look at what rank %d does %s that rank %d does not", straggler->culprit,
                        parts[part].detail, straggler->victim);
}

void tml_finding_say_straggler(struct tml_text *summary, struct tml_text *action, const struct tml_finding *finding,
                               const struct tml_window *window)
{
    sum_straggler(summary, finding, window);
    advise_straggler(action, finding);
}
