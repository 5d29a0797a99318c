/* The sentences of a comparison: what happened, what to do next, and what must be known beside the numbers. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compare.h"

static const char *const verdict_keys[] = {
#define TML_X(name, key) key,
    TRACEML_VERDICT_LIST(TML_X)
#undef TML_X
};

static const char *const limit_keys[] = {
#define TML_X(name, key) key,
    TRACEML_LIMIT_LIST(TML_X)
#undef TML_X
};

static const char *const which[] = {"old", "new"};

const char *tml_compare_verdict_key(enum traceml_verdict verdict)
{
    return verdict_keys[verdict];
}

const char *tml_compare_limit_key(enum traceml_limit limit)
{
    return limit_keys[limit];
}

/* ---- Numbers, without the locale's decimal comma ---- */

static const char *print_fixed(double value, unsigned decimals, const char *sign, char out[TML_COMPARE_PERCENT_BYTES])
{
    int64_t scale = decimals == 2 ? 100 : 10, units = (int64_t)(fabs(value) * (double)scale + 0.5);
    snprintf(out, TML_COMPARE_PERCENT_BYTES, "%s%" PRId64 ".%0*" PRId64, units == 0 ? "" : sign, units / scale,
             (int)decimals, units % scale);
    return out;
}

const char *tml_compare_percent(double share, char out[TML_COMPARE_PERCENT_BYTES])
{
    char number[TML_COMPARE_PERCENT_BYTES];
    double percent = share * 100;
    *out = '\0';
    if (isnan(percent))
        return out;
    if (percent > 9999)
        return strcpy(out, ">+9999 %");
    snprintf(out, TML_COMPARE_PERCENT_BYTES, "%.20s %%", print_fixed(percent, 1, percent < 0 ? "-" : "+", number));
    return out;
}

const char *tml_compare_hundredths(double value, char out[TML_COMPARE_PERCENT_BYTES])
{
    *out = '\0';
    if (isnan(value))
        return out;
    return fabs(value) < 1e12 ? print_fixed(value, 2, value < 0 ? "-" : "", out) : strcpy(out, ">1e12");
}

static void add_ms(struct tml_text *text, int64_t ns, unsigned decimals)
{
    char ms[TML_TEXT_MS_BYTES];
    tml_text_format_ms(ms, ns, decimals);
    tml_text_add(text, ms);
}

static void add_change(struct tml_text *text, const struct tml_compare_change *change)
{
    unsigned decimals = tml_text_ms_decimals(change->old_ns > change->new_ns ? change->old_ns : change->new_ns);
    char percent[TML_COMPARE_PERCENT_BYTES];
    tml_text_add(text, "from ");
    add_ms(text, change->old_ns, decimals);
    tml_text_add(text, " to ");
    add_ms(text, change->new_ns, decimals);
    tml_text_printf(text, " ms (%s", tml_compare_percent(tml_compare_change_share(change), percent));
    if (!isnan(change->noise_ns)) {
        tml_text_add(text, ", noise ");
        add_ms(text, (int64_t)fmin(change->noise_ns + 0.5, 9e18), decimals);
        tml_text_add(text, " ms");
    }
    tml_text_add(text, ")");
}

static const char *clock_words(int clock)
{
    return clock < 0 ? "no stated clock" : clock == TML_CLOCK_GPU ? "the GPU clock" : "the CPU clock";
}

/* ---- Summary ---- */

static bool is_known(const struct tml_compare_change *change)
{
    return change->old_ns != TML_NS_NONE && change->new_ns != TML_NS_NONE;
}

static void say_changes(const struct tml_comparison *comparison, struct tml_text *text)
{
    bool median = is_known(&comparison->median);
    if (median) {
        tml_text_add(text, "the median step went ");
        add_change(text, &comparison->median);
    }
    if (is_known(&comparison->mean)) {
        tml_text_add(text, median ? ", the mean " : "the mean step went ");
        add_change(text, &comparison->mean);
    }
    tml_text_printf(text, "; %s clock, %" PRIu64 " and %" PRIu64 " steps",
                    comparison->clock == TML_CLOCK_GPU ? "GPU" : "CPU", comparison->side[0].steps,
                    comparison->side[1].steps);
}

static void say_no_step_time(const struct tml_comparison *comparison, struct tml_text *text)
{
    const char *joint = "";
    for (unsigned i = 0; i < 2; i++) {
        const struct tml_compare_number *step = &comparison->side[i].metric[TML_METRIC_STEP_TIME];
        if (comparison->side[i].metric[TML_METRIC_STEP_TIME_CPU].ns != TML_NS_NONE ||
            comparison->side[i].metric[TML_METRIC_STEP_TIME_GPU].ns != TML_NS_NONE)
            continue;
        tml_text_printf(text, "%sthe %s run has no step time%s%s", joint, which[i], step->reason ? ": " : "",
                        step->reason ? tml_compare_reason_words(step->reason) : "");
        joint = "; ";
    }
}

static void say_other_work(const struct tml_comparison *comparison, struct tml_text *text)
{
    static const char *const names[][2] = {{"loader.batch_size", "batch size"},
                                           {"gradient_accumulation", "gradient accumulation"}};
    const char *joint = "a step is not the same work in both: ";
    for (unsigned i = 0; i < 2; i++) {
        const struct tml_compare_fact *fact = tml_compare_changed(&comparison->changes, names[i][0]);
        if (!fact)
            continue;
        tml_text_printf(text, "%s%s ", joint, names[i][1]);
        tml_compare_add_values(text, fact);
        joint = ", ";
    }
}

static void say_no_spread(const struct tml_comparison *comparison, struct tml_text *text)
{
    const struct tml_compare_side *side = comparison->side;
    bool missing[2];
    for (unsigned i = 0; i < 2; i++)
        missing[i] = side[i].step[comparison->clock].p50_ns == TML_NS_NONE;
    say_changes(comparison, text);
    tml_text_add(text, "; whether that is more than noise is not known: ");
    if (missing[0] && missing[1])
        tml_text_add(text, "neither summary has the spread of its steps");
    else
        tml_text_printf(text, "the %s run's summary does not have the spread of its steps", which[missing[0] ? 0 : 1]);
}

static void say_inconclusive(const struct tml_comparison *comparison, struct tml_text *text)
{
    const struct tml_compare_side *side = comparison->side;
    switch (comparison->why) {
    case TML_INCONCLUSIVE_NO_STEP_TIME:
        say_no_step_time(comparison, text);
        break;
    case TML_INCONCLUSIVE_NO_COMMON_CLOCK:
        tml_text_printf(text,
                        "the old run's steps are measured on %s, the new run's on %s: one is no measure of the "
                        "other",
                        clock_words(side[0].clock), clock_words(side[1].clock));
        break;
    case TML_INCONCLUSIVE_OTHER_WORK:
        say_other_work(comparison, text);
        break;
    case TML_INCONCLUSIVE_FEW_STEPS:
        tml_text_printf(text,
                        "too few steps to tell a change from noise: %" PRIu64 " and %" PRIu64 ", and each run needs %d",
                        side[0].steps, side[1].steps, TML_COMPARE_FEWEST_STEPS);
        break;
    case TML_INCONCLUSIVE_NO_SPREAD:
        say_no_spread(comparison, text);
        break;
    default:
        say_changes(comparison, text);
        tml_text_add(text, ": the typical step and the mean of all moved against each other");
    }
}

/* ---- Next ---- */

/* How long it ran is no setting. */
static size_t settings_changed(const struct tml_comparison *comparison)
{
    const struct tml_compare_changes *changes = &comparison->changes;
    size_t lengths = (tml_compare_changed(changes, "steps") != NULL) + (tml_compare_changed(changes, "epochs") != NULL);
    return changes->changed.count + changes->changed.left_out - lengths;
}

static const char *inconclusive_action(enum tml_inconclusive why)
{
    static const char *const actions[] = {
        [TML_INCONCLUSIVE_NONE] = "",
        [TML_INCONCLUSIVE_NO_STEP_TIME] = "trace the steps of both runs (traceml run), then compare again",
        [TML_INCONCLUSIVE_NO_COMMON_CLOCK] = "run both on the same kind of device, then compare again",
        [TML_INCONCLUSIVE_OTHER_WORK] = "compare runs whose steps do the same work",
        [TML_INCONCLUSIVE_FEW_STEPS] = "let both run for more steps, then compare again",
        [TML_INCONCLUSIVE_NO_SPREAD] = "run both with this version, then compare again",
        [TML_INCONCLUSIVE_CONTRADICTION] = "look for the slow steps (spread in both reports), or let both run longer",
    };
    return actions[why];
}

static void say_action(struct tml_comparison *comparison)
{
    size_t changed = settings_changed(comparison);
    struct tml_text *text = &comparison->action;
    if (comparison->verdict == TRACEML_VERDICT_INCONCLUSIVE)
        tml_text_add(text, inconclusive_action(comparison->why));
    else if (comparison->verdict == TRACEML_VERDICT_WITHIN_NOISE)
        tml_text_add(text, "claim no difference; more steps, or several runs of each, would show a smaller one");
    else if (changed > 1)
        tml_text_printf(text,
                        "%zu things changed together (below), and which of them counts is not known: change one "
                        "at a time",
                        changed);
    else
        tml_text_add(text,
                     "run both once more to be sure: what differs from start to start is not in the spread of one "
                     "run");
}

static void say_limit(struct tml_comparison *comparison)
{
    static const char *const outcomes[] = {
        [TRACEML_LIMIT_NONE] = "",
        [TRACEML_LIMIT_WITHIN] = "kept",
        [TRACEML_LIMIT_SLOWER] = "exceeded",
        [TRACEML_LIMIT_INCONCLUSIVE] = "whether it is kept is not known",
    };
    char limit[TML_COMPARE_PERCENT_BYTES];
    if (comparison->limit == TRACEML_LIMIT_NONE)
        return;
    tml_text_printf(&comparison->limit_words, "the step may become slower by %s %%: %s",
                    tml_compare_hundredths(comparison->limit_pct, limit), outcomes[comparison->limit]);
    if (comparison->limit == TRACEML_LIMIT_INCONCLUSIVE && comparison->verdict != TRACEML_VERDICT_INCONCLUSIVE)
        tml_text_add(&comparison->limit_words, ", it is more than that but not beyond the noise");
}

/* ---- Notes ---- */

static struct tml_text *next_note(struct tml_comparison *comparison)
{
    if (comparison->notes < TML_COMPARE_MOST_NOTES)
        comparison->notes++;
    return &comparison->note[comparison->notes - 1];
}

static void note_side(struct tml_comparison *comparison, unsigned i)
{
    const struct tml_compare_side *side = &comparison->side[i];
    const char *end = tml_json_string(tml_compare_at(side->root, "meta/end_reason"));
    bool complete;
    uint64_t count;
    if (tml_compare_is_legacy(side) && !tml_compare_is_legacy(&comparison->side[1 - i]))
        tml_text_printf(next_note(comparison),
                        "the %s run is of traceml-ai (schema %u.%u): its means include the first "
                        "steps, ours leave warm-up out",
                        which[i], side->schema / 10, side->schema % 10);
    if (tml_json_bool(tml_compare_at(side->root, "meta/complete"), &complete) && !complete)
        tml_text_printf(next_note(comparison), "the %s run is incomplete (%s)", which[i], end ? end : "unknown");
    if (tml_json_uint(tml_compare_at(side->root, "meta/ranks_missing_count"), &count) && count > 0)
        tml_text_printf(next_note(comparison), "the %s run lacks %" PRIu64 " of its ranks", which[i], count);
    if (tml_json_uint(tml_compare_at(side->root, "losses/bad_lines/count"), &count) && count > 0)
        tml_text_printf(next_note(comparison), "of the %s run's step files %" PRIu64 " line%s could not be read",
                        which[i], count, count == 1 ? "" : "s");
    if (side->cuda && side->clock == TML_CLOCK_CPU)
        tml_text_printf(next_note(comparison),
                        "the %s run has a GPU and its phases are on the CPU clock: they are "
                        "launch times",
                        which[i]);
}

/* Workers that persist save something from the second epoch on. */
static void note_persistent(struct tml_comparison *comparison)
{
    uint64_t epochs[2];
    if (!tml_compare_changed(&comparison->changes, "loader.persistent_workers"))
        return;
    for (unsigned i = 0; i < 2; i++)
        if (!tml_json_uint(tml_compare_at(comparison->side[i].root, "run/epochs_begun"), &epochs[i]) || epochs[i] > 1)
            return;
    tml_text_add(next_note(comparison), "neither run began a second epoch: persistent workers have no part in this");
}

static void note_other_length(struct tml_comparison *comparison)
{
    const struct tml_compare_fact *steps = tml_compare_changed(&comparison->changes, "steps");
    if (!steps)
        return;
    struct tml_text *text = next_note(comparison);
    tml_text_add(text, "the runs are not of one length (");
    tml_compare_add_value(text, steps->old_value);
    tml_text_add(text, " and ");
    tml_compare_add_value(text, steps->new_value);
    tml_text_add(text, " steps): the ratios of whole process and training loop are not those of the same work");
}

static void say_notes(struct tml_comparison *comparison)
{
    const struct tml_compare_side *side = comparison->side;
    note_other_length(comparison);
    if (side[0].clock != side[1].clock && comparison->clock >= 0)
        tml_text_printf(next_note(comparison),
                        "phases are on %s in the old run and on %s in the new one: no "
                        "differences; the step totals are both on %s",
                        clock_words(side[0].clock), clock_words(side[1].clock), clock_words(comparison->clock));
    note_persistent(comparison);
    for (unsigned i = 0; i < 2; i++)
        note_side(comparison, i);
}

void tml_compare_say(struct tml_comparison *comparison)
{
    if (comparison->verdict == TRACEML_VERDICT_INCONCLUSIVE)
        say_inconclusive(comparison, &comparison->summary);
    else
        say_changes(comparison, &comparison->summary);
    say_action(comparison);
    say_limit(comparison);
    say_notes(comparison);
}
