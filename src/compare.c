/* The comparison of two sides, and its way from two paths to two texts. */
#include "compare.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run_dir.h"

#define RESOLUTION_NS 1000 /* a difference below the step of an event's time is none */

const struct tml_compare_ratio_spec tml_compare_ratios[TML_COMPARE_RATIOS] = {
#define TML_X(name, key, words, unit) {key, words, unit},
    TML_COMPARE_RATIO_LIST(TML_X)
#undef TML_X
};

static const char *const inconclusive_keys[] = {
#define TML_X(name, key) key,
    TML_INCONCLUSIVE_LIST(TML_X)
#undef TML_X
};

const char *tml_inconclusive_key(enum tml_inconclusive why)
{
    return inconclusive_keys[why];
}

/* ---- The step time ---- */

static const enum tml_metric step_time[TML_CLOCKS] = {TML_METRIC_STEP_TIME_CPU, TML_METRIC_STEP_TIME_GPU};

static bool both_have(const struct tml_comparison *comparison, enum tml_clock clock)
{
    return comparison->side[0].metric[step_time[clock]].ns != TML_NS_NONE &&
           comparison->side[1].metric[step_time[clock]].ns != TML_NS_NONE;
}

/* The clock of both windows; where they differ, one that both have beside it. */
static int common_clock(const struct tml_comparison *comparison)
{
    int old_clock = comparison->side[0].clock, new_clock = comparison->side[1].clock;
    if (old_clock == new_clock && old_clock >= 0 && both_have(comparison, (enum tml_clock)old_clock))
        return old_clock;
    if (both_have(comparison, TML_CLOCK_GPU))
        return TML_CLOCK_GPU;
    return both_have(comparison, TML_CLOCK_CPU) ? TML_CLOCK_CPU : -1;
}

static bool has_step_time(const struct tml_compare_side *side)
{
    return side->metric[TML_METRIC_STEP_TIME_CPU].ns != TML_NS_NONE ||
           side->metric[TML_METRIC_STEP_TIME_GPU].ns != TML_NS_NONE;
}

static bool is_null(const struct tml_compare_change *change)
{
    return change->old_ns == TML_NS_NONE || change->new_ns == TML_NS_NONE;
}

static enum traceml_verdict verdict_of(const struct tml_compare_change *change)
{
    if (is_null(change) || isnan(change->noise_ns))
        return TRACEML_VERDICT_INCONCLUSIVE;
    double delta_ns = (double)change->new_ns - (double)change->old_ns;
    if (fabs(delta_ns) <= fmax(change->noise_ns, RESOLUTION_NS))
        return TRACEML_VERDICT_WITHIN_NOISE;
    return delta_ns < 0 ? TRACEML_VERDICT_IMPROVEMENT : TRACEML_VERDICT_REGRESSION;
}

double tml_compare_change_share(const struct tml_compare_change *change)
{
    if (is_null(change) || change->old_ns <= 0)
        return NAN;
    return ((double)change->new_ns - (double)change->old_ns) / (double)change->old_ns;
}

static void judge_steps(struct tml_comparison *comparison)
{
    const struct tml_compare_side *side = comparison->side;
    enum tml_clock clock = (enum tml_clock)comparison->clock;
    struct tml_compare_change *mean = &comparison->mean, *median = &comparison->median;
    mean->old_ns = side[0].metric[step_time[clock]].ns;
    mean->new_ns = side[1].metric[step_time[clock]].ns;
    mean->noise_ns = tml_compare_mean_noise(side, clock);
    median->old_ns = side[0].step[clock].p50_ns;
    median->new_ns = side[1].step[clock].p50_ns;
    median->noise_ns = tml_compare_median_noise(side, clock, median->new_ns > median->old_ns);
    mean->verdict = verdict_of(mean);
    median->verdict = verdict_of(median);
}

/* ---- The verdict ---- */

static bool is_other_work(const struct tml_compare_changes *changes)
{
    return tml_compare_changed(changes, "loader.batch_size") || tml_compare_changed(changes, "gradient_accumulation");
}

static enum tml_inconclusive why_not(const struct tml_comparison *comparison)
{
    const struct tml_compare_side *side = comparison->side;
    if (!has_step_time(&side[0]) || !has_step_time(&side[1]))
        return TML_INCONCLUSIVE_NO_STEP_TIME;
    if (comparison->clock < 0)
        return TML_INCONCLUSIVE_NO_COMMON_CLOCK;
    if (is_other_work(&comparison->changes))
        return TML_INCONCLUSIVE_OTHER_WORK;
    if (side[0].steps < TML_COMPARE_FEWEST_STEPS || side[1].steps < TML_COMPARE_FEWEST_STEPS)
        return TML_INCONCLUSIVE_FEW_STEPS;
    if (comparison->mean.verdict == TRACEML_VERDICT_INCONCLUSIVE &&
        comparison->median.verdict == TRACEML_VERDICT_INCONCLUSIVE)
        return TML_INCONCLUSIVE_NO_SPREAD;
    return TML_INCONCLUSIVE_NONE;
}

/* The typical step and the mean of all of them: either may move alone, against each other they say nothing. */
static void settle(struct tml_comparison *comparison)
{
    enum traceml_verdict mean = comparison->mean.verdict, median = comparison->median.verdict;
    bool better = mean == TRACEML_VERDICT_IMPROVEMENT || median == TRACEML_VERDICT_IMPROVEMENT;
    bool worse = mean == TRACEML_VERDICT_REGRESSION || median == TRACEML_VERDICT_REGRESSION;
    if (better && worse)
        comparison->why = TML_INCONCLUSIVE_CONTRADICTION;
    else
        comparison->verdict = better  ? TRACEML_VERDICT_IMPROVEMENT
                              : worse ? TRACEML_VERDICT_REGRESSION
                                      : TRACEML_VERDICT_WITHIN_NOISE;
}

/* Over the limit counts only beyond the noise; over it and within the noise is not known. */
static enum traceml_limit against_limit(const struct tml_comparison *comparison)
{
    const struct tml_compare_change *both[] = {&comparison->mean, &comparison->median};
    enum traceml_limit limit = TRACEML_LIMIT_WITHIN;
    if (isnan(comparison->limit_pct))
        return TRACEML_LIMIT_NONE;
    if (comparison->verdict == TRACEML_VERDICT_INCONCLUSIVE)
        return TRACEML_LIMIT_INCONCLUSIVE;
    for (unsigned i = 0; i < 2; i++) {
        if (both[i]->verdict == TRACEML_VERDICT_INCONCLUSIVE ||
            !(tml_compare_change_share(both[i]) * 100 > comparison->limit_pct))
            continue;
        if (both[i]->verdict == TRACEML_VERDICT_REGRESSION)
            return TRACEML_LIMIT_SLOWER;
        limit = TRACEML_LIMIT_INCONCLUSIVE;
    }
    return limit;
}

/* ---- Ratios ---- */

static void set_ratio(struct tml_comparison *comparison, enum tml_compare_ratio_kind kind, double old_value,
                      double new_value, const char *reason)
{
    struct tml_compare_ratio *ratio = &comparison->ratio[kind];
    *ratio = (struct tml_compare_ratio){.old_value = old_value, .new_value = new_value, .ratio = NAN, .reason = reason};
    if (isnan(old_value) || isnan(new_value))
        ratio->reason = isnan(old_value) && isnan(new_value) ? "not known of either run"
                        : isnan(old_value)                   ? "not known of the old run"
                                                             : "not known of the new run";
    else if (!(new_value > 0))
        ratio->reason = "the new one is zero";
    if (!ratio->reason)
        ratio->ratio = old_value / new_value;
}

static double as_ms(int64_t ns)
{
    return ns == TML_NS_NONE ? NAN : (double)ns / (double)TML_NS_PER_MS;
}

static void find_ratios(struct tml_comparison *comparison)
{
    const struct tml_compare_side *side = comparison->side;
    bool mixed = tml_compare_is_legacy(&side[0]) != tml_compare_is_legacy(&side[1]);
    set_ratio(comparison, TML_COMPARE_RATIO_WHOLE_PROCESS, side[0].process_s, side[1].process_s,
              mixed ? "traceml-ai measures another span than the process" : NULL);
    set_ratio(comparison, TML_COMPARE_RATIO_TRAINING_LOOP, side[0].training_loop_s, side[1].training_loop_s, NULL);
    set_ratio(comparison, TML_COMPARE_RATIO_FRAMEWORK, side[0].framework_s, side[1].framework_s, NULL);
    if (comparison->clock >= 0)
        set_ratio(comparison, TML_COMPARE_RATIO_STEP_TOTAL, as_ms(comparison->mean.old_ns),
                  as_ms(comparison->mean.new_ns), NULL);
    else
        set_ratio(comparison, TML_COMPARE_RATIO_STEP_TOTAL, as_ms(side[0].metric[TML_METRIC_STEP_TIME].ns),
                  as_ms(side[1].metric[TML_METRIC_STEP_TIME].ns), "no clock that both runs have");
}

/* ---- Phases ---- */

const char *tml_compare_metric_reason(const struct tml_comparison *comparison, enum tml_metric metric)
{
    const struct tml_compare_side *side = comparison->side;
    bool selected = tml_metrics[metric].clock == TML_METRIC_SELECTED;
    if (side[0].metric[metric].ns == TML_NS_NONE || side[1].metric[metric].ns == TML_NS_NONE)
        return side[0].metric[metric].ns != TML_NS_NONE   ? "no value in the new run"
               : side[1].metric[metric].ns != TML_NS_NONE ? "no value in the old run"
                                                          : "no value in either run";
    if (selected && side[0].clock != side[1].clock)
        return "on another clock";
    return selected && side[0].clock < 0 ? "on no stated clock" : NULL;
}

/* ---- Entry ---- */

void tml_compare_judge(struct tml_comparison *comparison)
{
    tml_compare_find_changes(comparison->side, &comparison->changes);
    comparison->clock = common_clock(comparison);
    comparison->mean = comparison->median =
        (struct tml_compare_change){TML_NS_NONE, TML_NS_NONE, NAN, TRACEML_VERDICT_INCONCLUSIVE};
    if (comparison->clock >= 0)
        judge_steps(comparison);
    comparison->verdict = TRACEML_VERDICT_INCONCLUSIVE;
    comparison->why = why_not(comparison);
    if (comparison->why == TML_INCONCLUSIVE_NONE)
        settle(comparison);
    comparison->limit = against_limit(comparison);
    find_ratios(comparison);
    tml_compare_find_own(comparison);
}

static void drop(struct tml_comparison *comparison)
{
    for (unsigned i = 0; i < 2; i++)
        tml_compare_side_free(&comparison->side[i]);
    tml_text_drop(&comparison->summary);
    tml_text_drop(&comparison->action);
    tml_text_drop(&comparison->limit_words);
    for (size_t i = 0; i < comparison->notes; i++)
        tml_text_drop(&comparison->note[i]);
    free(comparison);
}

/* The text inside the JSON has no colour. */
static bool render(const struct tml_comparison *comparison, const struct traceml_compare_options *options,
                   struct traceml_comparison *out)
{
    struct tml_text_style style = {.columns = options->columns, .ascii = options->ascii, .color = options->color};
    out->text = tml_compare_text(comparison, &style);
    char *plain = out->text ? tml_text_without_color(out->text) : NULL;
    out->json = plain ? tml_compare_json(comparison, plain) : NULL;
    free(plain);
    out->verdict = comparison->verdict;
    out->limit = comparison->limit;
    return out->json;
}

static struct traceml_compare_options with_defaults(const struct traceml_compare_options *options)
{
    struct traceml_compare_options full = {.size = sizeof full, .max_step_time_regression_pct = NAN};
    if (options) /* a caller built against an older header has a shorter struct */
        memcpy(&full, options, options->size && options->size < sizeof full ? options->size : sizeof full);
    return full;
}

enum traceml_status tml_compare(const char *old_path, const char *new_path,
                                const struct traceml_compare_options *options, struct traceml_comparison *out,
                                char *error, size_t error_bytes)
{
    const char *paths[] = {old_path, new_path};
    struct traceml_compare_options full = with_defaults(options);
    struct tml_comparison *comparison = calloc(1, sizeof *comparison);
    enum traceml_status status = comparison ? TRACEML_OK : TRACEML_OUT_OF_MEMORY;
    *out = (struct traceml_comparison){0};
    if (!comparison) {
        snprintf(error, error_bytes, "%s", traceml_status_text(status));
        return status;
    }
    comparison->limit_pct = full.max_step_time_regression_pct;
    for (unsigned i = 0; status == TRACEML_OK && i < 2; i++)
        status = tml_compare_read(paths[i], full.window_steps, &comparison->side[i], error, error_bytes);
    if (status == TRACEML_OK) {
        tml_compare_judge(comparison);
        tml_compare_say(comparison);
        if (!render(comparison, &full, out)) {
            status = TRACEML_OUT_OF_MEMORY;
            snprintf(error, error_bytes, "%s: %s", new_path, traceml_status_text(status));
            free(out->text);
            *out = (struct traceml_comparison){0};
        }
    }
    drop(comparison);
    return status;
}

/* ---- Writing ---- */

static enum traceml_status write_one(int directory, const char *name, const char *extension, const char *text)
{
    char file[NAME_MAX];
    int length = snprintf(file, sizeof file, "%s%s", name, extension);
    errno = ENAMETOOLONG;
    if (length < 0 || (size_t)length + 4 >= sizeof file) /* .tmp */
        return TRACEML_UNWRITABLE;
    return tml_run_dir_write(directory, file, text, strlen(text));
}

enum traceml_status tml_compare_write(const char *base, const struct traceml_comparison *comparison, char *error,
                                      size_t error_bytes)
{
    size_t length = strlen(base);
    if (!comparison->json || !comparison->text || length == 0 || base[length - 1] == '/') {
        snprintf(error, error_bytes, "cannot write to \"%s\": give the files' name without its extension", base);
        return TRACEML_INVALID_ARGUMENT;
    }
    char *text = tml_text_without_color(comparison->text), *parent = strdup(base);
    const char *slash = strrchr(base, '/');
    enum traceml_status status = text && parent ? TRACEML_UNWRITABLE : TRACEML_OUT_OF_MEMORY;
    int directory = status == TRACEML_UNWRITABLE ? open(dirname(parent), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (directory >= 0)
        status = write_one(directory, slash ? slash + 1 : base, ".json", comparison->json);
    if (status == TRACEML_OK)
        status = write_one(directory, slash ? slash + 1 : base, ".txt", text);
    if (status != TRACEML_OK)
        snprintf(error, error_bytes, "cannot write %s.json and %s.txt: %s", base, base, strerror(errno));
    if (directory >= 0)
        close(directory);
    free(text);
    free(parent);
    return status;
}
