/* The sentences about time between steps. It is no part of any step, so no rule weighs it; a verdict that nothing is to
 * be repaired must not pass over it. */
#include <inttypes.h>

#include "diagnosis.h"

#define LARGE 0.10 /* of the training loop, or of the iteration */
#define FLOOR_NS TML_NS_PER_MS

static void add_ms(struct tml_text *text, int64_t ns)
{
    char value[TML_TEXT_MS_BYTES];
    tml_text_format_ms(value, ns, tml_text_ms_decimals(ns));
    tml_text_printf(text, "%s ms", value);
}

/* Each epoch has an iterator of its own; where other iterators began too, they are not called epochs. */
static const char *beginning(const struct tml_run_facts *facts)
{
    return facts->epochs_begun == (int64_t)facts->between.count + 1 ? "epoch" : "iterator";
}

void tml_between_say(struct tml_text *text, const struct tml_run_facts *facts)
{
    const struct tml_between *between = &facts->between;
    char share[TML_PERCENT_BYTES], total[TML_TEXT_MS_BYTES];
    tml_text_format_s(total, (double)between->total_ns / TML_NS_PER_S);
    tml_text_printf(text, "between steps %s, %s of the loop: ", total, tml_percent(facts->between_share, share));
    add_ms(text, tml_ns_mean(between->total_ns, between->count));
    if (between->count == 1)
        tml_text_printf(text, " before the one new %s", beginning(facts));
    else
        tml_text_printf(text, " before each of %" PRIu64 " new %ss", between->count, beginning(facts));
    tml_text_add(text, ", of it ");
    add_ms(text, tml_ns_mean(between->fetch_ns, between->count));
    tml_text_add(text, " waiting for its first batch");
    if (between->spans_ns > 0) {
        tml_text_add(text, " and ");
        add_ms(text, tml_ns_mean(between->spans_ns, between->count));
        tml_text_add(text, " in evaluation, checkpoint and own spans");
    }
}

/* ---- Is it much? ---- */

static bool much_at_iterators(const struct tml_window *window, const struct tml_run_facts *facts)
{
    return facts->between.count > 0 && !window->first_fetches_kept && facts->between_share >= LARGE;
}

static bool much_before_each(const struct tml_window *window)
{
    int64_t other_ns = window->metric[TML_METRIC_PRE_STEP_OTHER].median.value_ns;
    int64_t iteration_ns = window->metric[TML_METRIC_ITERATION].median.value_ns;
    return other_ns != TML_NS_NONE && iteration_ns > 0 && other_ns >= FLOOR_NS &&
           (double)other_ns >= LARGE * (double)iteration_ns;
}

/* ---- Sentences of a verdict ---- */

void tml_between_add(struct tml_text *summary, const struct tml_window *window, const struct tml_run_facts *facts)
{
    char share[TML_PERCENT_BYTES];
    int64_t other_ns = window->metric[TML_METRIC_PRE_STEP_OTHER].median.value_ns;
    int64_t iteration_ns = window->metric[TML_METRIC_ITERATION].median.value_ns;
    if (much_at_iterators(window, facts))
        tml_text_printf(summary, "; %s of the loop passes between steps, where an iterator begins",
                        tml_percent(facts->between_share, share));
    if (much_before_each(window))
        tml_text_printf(summary, "; %s of the iteration passes before the step, outside of the loader",
                        tml_percent((double)other_ns / (double)iteration_ns, share));
}

bool tml_restarts_workers(const struct tml_run_facts *facts)
{
    return facts->epochs_begun > 1 && facts->loader.workers > 0 && facts->loader.persistent_workers == 0;
}

void tml_advise_persistent_workers(struct tml_text *action, const struct tml_run_facts *facts)
{
    tml_text_printf(action,
                    "set persistent_workers=True: the %" PRId64 " worker%s start%s anew in each of %" PRId64 " epochs",
                    facts->loader.workers, facts->loader.workers == 1 ? "" : "s", facts->loader.workers == 1 ? "s" : "",
                    facts->epochs_begun);
}

static void advise_at_iterators(struct tml_text *action, const struct tml_run_facts *facts)
{
    const struct tml_between *between = &facts->between;
    if (tml_restarts_workers(facts) && between->fetch_ns >= between->total_ns / 2) {
        tml_advise_persistent_workers(action, facts);
        return;
    }
    tml_text_add(action, "look at the ");
    add_ms(action, tml_ns_mean(between->total_ns, between->count));
    tml_text_printf(action, " between steps at each new %s, such as validation, saving or the start of the iterator",
                    beginning(facts));
}

bool tml_between_advise(struct tml_text *action, const struct tml_window *window, const struct tml_run_facts *facts)
{
    if (much_at_iterators(window, facts)) {
        advise_at_iterators(action, facts);
        return true;
    }
    if (!much_before_each(window))
        return false;
    tml_text_add(action, "look at what the loop does between one step and the next: ");
    add_ms(action, window->metric[TML_METRIC_PRE_STEP_OTHER].median.value_ns);
    tml_text_add(action, " each time, outside of the loader");
    return true;
}
