/*
 * Purpose   two runs beside each other: what became of the step, of its phases and of the whole run, what changed
 *           besides, and whether the difference is more than the steps' own spread.
 * Memory    tml_compare() hands out texts, the caller's to free (traceml_comparison_free()); a side owns its document.
 * Threads   any; works on files alone.
 * Units     ns for steps and phases, s for whole runs; NAN, or TML_NS_NONE, for null.
 * Depends   summary (a run directory is analysed first), metric (the names), json, text_buffer, line_reader.
 */
#ifndef TML_COMPARE_H
#define TML_COMPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "summary.h"

/*
 * Errors: NOT_FOUND, BAD_DATA, OUT_OF_MEMORY, SYSTEM, with one line in `error` that names the file.
 * `options` may be NULL.
 */
enum traceml_status tml_compare(const char *old_path, const char *new_path,
                                const struct traceml_compare_options *options, struct traceml_comparison *comparison,
                                char *error, size_t error_bytes);

/* Writes BASE.json and BASE.txt, each whole or not at all. Errors: UNWRITABLE, OUT_OF_MEMORY, INVALID_ARGUMENT. */
enum traceml_status tml_compare_write(const char *base, const struct traceml_comparison *comparison, char *error,
                                      size_t error_bytes);

/* ---- One side: a summary of either tool, in one shape ---- */

/* A metric as its summary has it. The texts point into the document, or are static; NULL: not stated. */
struct tml_compare_number {
    int64_t ns;
    const char *availability, *coverage, *reason;
};

/* Steps of the rank nearest the median: what noise is taken from. TML_NS_NONE where the summary does not say. */
struct tml_compare_steps {
    int64_t p10_ns, p50_ns, p90_ns;
    bool has_blocks;
    int64_t block_mean_ns[TML_BLOCKS], block_median_ns[TML_BLOCKS];
};

struct tml_compare_side {
    const char *path;
    struct tml_json *root;
    const char *run_name; /* the path for a run without a name */
    unsigned schema;      /* in tenths: 14 to 17 of traceml-ai, 20 and more of ours */
    int clock;            /* of the phases: enum tml_clock, -1: not stated, or several in one table */
    bool cuda;
    uint64_t steps; /* in the window */
    struct tml_compare_number metric[TML_METRIC_COUNT];
    struct tml_compare_steps step[TML_CLOCKS];
    double process_s, training_loop_s, framework_s;
};

enum traceml_status tml_compare_read(const char *path, uint64_t window_steps, struct tml_compare_side *side,
                                     char *error, size_t error_bytes);
void tml_compare_side_free(struct tml_compare_side *side);

/* "a/b/c" of a document; NULL when something on the way is missing. */
const struct tml_json *tml_compare_at(const struct tml_json *root, const char *path);

static inline bool tml_compare_is_legacy(const struct tml_compare_side *side)
{
    return side->schema < 20;
}

/* Words for a reason key of either tool or of the reader; the key itself for an unknown one. */
const char *tml_compare_reason_words(const char *key);

/* ---- Shared by compare_read.c and compare_metric.c ---- */

struct tml_compare_reading {
    struct tml_compare_side *side;
    const char *file; /* that a failure is about */
    char *error;
    size_t error_bytes;
    enum traceml_status status; /* the first failure stays */
};

static inline bool tml_compare_is_ok(const struct tml_compare_reading *reading)
{
    return reading->status == TRACEML_OK;
}

void tml_compare_fail(struct tml_compare_reading *reading, enum traceml_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* What is missing or null is NULL, or TML_NS_NONE; what is of another type fails. */
const struct tml_json *tml_compare_object_at(struct tml_compare_reading *reading, const char *path, bool required);
const char *tml_compare_text_of(struct tml_compare_reading *reading, const struct tml_json *value, const char *where);
int64_t tml_compare_ms_of(struct tml_compare_reading *reading, const struct tml_json *value, const char *where,
                          const char *key);
void tml_compare_read_metrics(struct tml_compare_reading *reading);
void tml_compare_check_own(struct tml_compare_reading *reading);

/* ---- What changed besides ---- */

struct tml_compare_fact {
    char name[64];
    const struct tml_json *old_value, *new_value; /* NULL or JSON null: unknown */
};

#define TML_COMPARE_MOST_FACTS 64

struct tml_compare_facts {
    struct tml_compare_fact fact[TML_COMPARE_MOST_FACTS];
    size_t count, left_out;
};

struct tml_compare_changes {
    struct tml_compare_facts changed, unknown; /* unknown: known of one side alone */
};

void tml_compare_find_changes(const struct tml_compare_side side[2], struct tml_compare_changes *changes);
/* One of the changed, or NULL. */
const struct tml_compare_fact *tml_compare_changed(const struct tml_compare_changes *changes, const char *name);
/* A value for a person: a text without its quotes. */
void tml_compare_add_value(struct tml_text *text, const struct tml_json *value);
/* "4 (was 0)" */
void tml_compare_add_values(struct tml_text *text, const struct tml_compare_fact *fact);

/* ---- The comparison ---- */

/* Why there is no verdict: X(NAME, json_key). */
#define TML_INCONCLUSIVE_LIST(X)                                                                                       \
    X(NONE, "")                                                                                                        \
    X(NO_STEP_TIME, "no_step_time")                                                                                    \
    X(NO_COMMON_CLOCK, "no_common_clock")                                                                              \
    X(OTHER_WORK, "other_work")                                                                                        \
    X(FEW_STEPS, "too_few_steps")                                                                                      \
    X(NO_SPREAD, "noise_unknown")                                                                                      \
    X(CONTRADICTION, "mean_against_median")

enum tml_inconclusive {
#define TML_X(name, key) TML_INCONCLUSIVE_##name,
    TML_INCONCLUSIVE_LIST(TML_X)
#undef TML_X
};

const char *tml_inconclusive_key(enum tml_inconclusive why);

/* Fewer steps than this say nothing of their noise. */
#define TML_COMPARE_FEWEST_STEPS 20

/* One statistic of the step time before and after. */
struct tml_compare_change {
    int64_t old_ns, new_ns; /* TML_NS_NONE: null */
    double noise_ns;        /* a difference up to this may be chance; NAN: not known */
    enum traceml_verdict verdict;
};

/* Never one for another: X(NAME, json_key, words, unit). */
#define TML_COMPARE_RATIO_LIST(X)                                                                                      \
    X(WHOLE_PROCESS, "whole_process", "whole process", "s")                                                            \
    X(TRAINING_LOOP, "training_loop", "training loop", "s")                                                            \
    X(FRAMEWORK, "framework_runtime", "framework's runtime", "s")                                                      \
    X(STEP_TOTAL, "step_total", "step total", "ms")

enum tml_compare_ratio_kind {
#define TML_X(name, key, words, unit) TML_COMPARE_RATIO_##name,
    TML_COMPARE_RATIO_LIST(TML_X)
#undef TML_X
        TML_COMPARE_RATIOS
};

struct tml_compare_ratio {
    double old_value, new_value, ratio; /* old / new: above 1 is faster; NAN: null */
    const char *reason;                 /* why the ratio is null, in words; NULL with a ratio */
};

extern const struct tml_compare_ratio_spec {
    const char *key, *words, *unit;
} tml_compare_ratios[TML_COMPARE_RATIOS];

/* A phase of the user's by its name, on the selected clock. `reason` as of a metric. */
struct tml_compare_own {
    const char *name;
    int64_t old_ns, new_ns;
    const char *reason;
};

#define TML_COMPARE_MOST_OWN (2 * TML_SPAN_NAMES)
#define TML_COMPARE_MOST_NOTES 16

struct tml_comparison {
    struct tml_compare_side side[2];
    struct tml_compare_changes changes;
    int clock; /* of the step total: one that both have; -1: none */
    struct tml_compare_change mean, median;
    struct tml_compare_ratio ratio[TML_COMPARE_RATIOS];
    struct tml_compare_own own[TML_COMPARE_MOST_OWN];
    size_t owns;
    enum traceml_verdict verdict;
    enum tml_inconclusive why;
    double limit_pct; /* NAN: none was given */
    enum traceml_limit limit;
    struct tml_text summary, action, limit_words, note[TML_COMPARE_MOST_NOTES];
    size_t notes;
};

/* Both sides were read: everything but the words. */
void tml_compare_judge(struct tml_comparison *comparison);
void tml_compare_find_own(struct tml_comparison *comparison);
/* Noise of one statistic: what the two sides' may differ by and still be chance, in the direction of the change. */
double tml_compare_median_noise(const struct tml_compare_side side[2], enum tml_clock clock, bool slower);
double tml_compare_mean_noise(const struct tml_compare_side side[2], enum tml_clock clock);

/* A delta is given only where the metric is on one clock in both and neither is null. Why not, in words; NULL: the
 * two may be compared. */
const char *tml_compare_metric_reason(const struct tml_comparison *comparison, enum tml_metric metric);
/* New minus old; TML_NS_NONE for null, and for what is no duration any more. */
static inline int64_t tml_compare_delta_ns(int64_t old_ns, int64_t new_ns)
{
    int64_t delta_ns;
    if (old_ns == TML_NS_NONE || new_ns == TML_NS_NONE || __builtin_sub_overflow(new_ns, old_ns, &delta_ns))
        return TML_NS_NONE;
    return delta_ns;
}

/* The share by which it changed: +0.12 is 12 % more; NAN when there is none. */
double tml_compare_change_share(const struct tml_compare_change *change);

const char *tml_compare_verdict_key(enum traceml_verdict verdict);
const char *tml_compare_limit_key(enum traceml_limit limit);

/* ---- As words, text, JSON ---- */

/* Summary, next action, limit and notes: the same in text and JSON. */
void tml_compare_say(struct tml_comparison *comparison);
/* "+12.3 %", "-0.4 %", "" for NAN. */
#define TML_COMPARE_PERCENT_BYTES 24
const char *tml_compare_percent(double share, char out[TML_COMPARE_PERCENT_BYTES]);
/* "1.83"; "" for NAN. */
const char *tml_compare_hundredths(double value, char out[TML_COMPARE_PERCENT_BYTES]);
char *tml_compare_text(const struct tml_comparison *comparison, const struct tml_text_style *style);
/* What stands below its tables. */
void tml_compare_lines(struct tml_text *text, const struct tml_comparison *comparison,
                       const struct tml_text_style *style);
char *tml_compare_json(const struct tml_comparison *comparison, const char *text);

#endif
