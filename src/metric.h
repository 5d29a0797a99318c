/*
 * Purpose   what a number of the report is: the one table of step_time metrics, and the three properties of each
 *           (value, availability, coverage) with the reason.
 * Memory    plain data.
 * Threads   any.
 * Units     ns; TML_NS_NONE for null.
 * Depends   step_row, step_reader.
 */
#ifndef TML_METRIC_H
#define TML_METRIC_H

#include <stdbool.h>
#include <stdint.h>

#include "step_reader.h"

/* Sets of terms and phases in the table below. */
#define TML_BIT_ITERATION (1u << TML_TERM_ITERATION)
#define TML_BIT_TRACED (1u << TML_TERM_TRACED_STEP)
#define TML_BIT_OTHER (1u << TML_TERM_PRE_STEP_OTHER)
#define TML_BIT_RESIDUAL (1u << TML_TERM_RESIDUAL)
#define TML_BIT_OURS_PRE (1u << TML_TERM_INSTRUMENTATION_PRE)
#define TML_BIT_OURS (1u << TML_TERM_INSTRUMENTATION)
#define TML_BIT_FETCH (1u << TRACEML_PHASE_DATALOADER_FETCH)
#define TML_BIT_H2D (1u << TRACEML_PHASE_H2D)
#define TML_BIT_FORWARD (1u << TRACEML_PHASE_FORWARD)
#define TML_BIT_BACKWARD (1u << TRACEML_PHASE_BACKWARD)
#define TML_BIT_OPTIMIZER (1u << TRACEML_PHASE_OPTIMIZER)
#define TML_BIT_COMPUTE (TML_BIT_FORWARD | TML_BIT_BACKWARD | TML_BIT_OPTIMIZER)
#define TML_BIT_EVALUATION (1u << TRACEML_PHASE_EVALUATION)
#define TML_BIT_CHECKPOINT (1u << TRACEML_PHASE_CHECKPOINT)
#define TML_BIT_USER (1u << TRACEML_PHASE_USER)
/* Nobody can watch for these but who opens their spans: until the first one of a run, none is no zero. */
#define TML_OCCASIONAL_PHASES (TML_BIT_EVALUATION | TML_BIT_CHECKPOINT | TML_BIT_USER)
#define TML_BIT_INSIDE (TML_BIT_FETCH | TML_BIT_H2D | TML_BIT_COMPUTE)

/*
 * A metric is a sum of measured parts of one step on one clock:
 *   X(NAME, json_key, words, unit, clock, ledger terms, phases before the step, phases inside, phases it needs to be
 *     known inside, form)
 * clock: SELECTED is the window's. form: EXCLUSIVE or INCLUSIVE times; WHOLE says that the name stands for a phase as
 * such and not for a region, so that occurrences elsewhere make it outside_window or partial; LEAD is the device
 * lead at forward end, and of its steps the median and not the mean: a few steps that wait for the device say nothing
 * about the others. `unattributed` is the measured remainder whatever it holds: the residual and what was not observed.
 */
#define TML_METRIC_LIST(X)                                                                                             \
    X(INPUT_WAIT, "input_wait_ms", "input wait", "ms", SELECTED, 0, TML_BIT_FETCH, 0, 0, EXCLUSIVE)                    \
    X(STEP_TIME, "step_time_ms", "step time", "ms", SELECTED, TML_BIT_TRACED, TML_BIT_FETCH, 0, 0, EXCLUSIVE)          \
    X(TRACED_STEP_TIME, "traced_step_time_ms", "traced step", "ms", SELECTED, TML_BIT_TRACED, 0, 0, 0, EXCLUSIVE)      \
    X(STEP_TIME_CPU, "step_time_cpu_ms", "step time", "ms", CPU, TML_BIT_TRACED, TML_BIT_FETCH, 0, 0, EXCLUSIVE)       \
    X(STEP_TIME_GPU, "step_time_gpu_ms", "step time", "ms", GPU, TML_BIT_TRACED, TML_BIT_FETCH, 0, 0, EXCLUSIVE)       \
    X(TRACED_STEP_TIME_CPU, "traced_step_time_cpu_ms", "traced step", "ms", CPU, TML_BIT_TRACED, 0, 0, 0, EXCLUSIVE)   \
    X(TRACED_STEP_TIME_GPU, "traced_step_time_gpu_ms", "traced step", "ms", GPU, TML_BIT_TRACED, 0, 0, 0, EXCLUSIVE)   \
    X(DATALOADER_FETCH_CPU, "dataloader_fetch_cpu_ms", "fetch on the host", "ms", CPU, 0, TML_BIT_FETCH,               \
      TML_BIT_FETCH, 0, EXCLUSIVE)                                                                                     \
    X(IN_STEP_INPUT_WAIT, "in_step_input_wait_ms", "input wait in step", "ms", SELECTED, 0, 0, TML_BIT_FETCH, 0,       \
      EXCLUSIVE)                                                                                                       \
    X(H2D, "h2d_ms", "H2D", "ms", SELECTED, 0, 0, TML_BIT_H2D, 0, WHOLE)                                               \
    X(COMPUTE, "compute_ms", "compute", "ms", SELECTED, 0, 0, TML_BIT_COMPUTE, 0, WHOLE)                               \
    X(RESIDUAL, "residual_ms", "residual", "ms", SELECTED, TML_BIT_RESIDUAL, 0, 0, TML_BIT_INSIDE, EXCLUSIVE)          \
    X(UNATTRIBUTED, "unattributed_ms", "unattributed", "ms", SELECTED, TML_BIT_RESIDUAL, 0, 0, 0, EXCLUSIVE)           \
    X(FORWARD, "forward_ms", "forward", "ms", SELECTED, 0, 0, TML_BIT_FORWARD, 0, WHOLE)                               \
    X(FORWARD_INCLUSIVE, "forward_inclusive_ms", "forward inclusive", "ms", SELECTED, 0, 0, TML_BIT_FORWARD, 0,        \
      INCLUSIVE)                                                                                                       \
    X(BACKWARD, "backward_ms", "backward", "ms", SELECTED, 0, 0, TML_BIT_BACKWARD, 0, WHOLE)                           \
    X(OPTIMIZER, "optimizer_ms", "optimizer", "ms", SELECTED, 0, 0, TML_BIT_OPTIMIZER, 0, WHOLE)                       \
    X(ITERATION, "iteration_ms", "iteration", "ms", SELECTED, TML_BIT_ITERATION, 0, 0, 0, EXCLUSIVE)                   \
    X(PRE_STEP_H2D, "pre_step_h2d_ms", "H2D before step", "ms", SELECTED, 0, TML_BIT_H2D, 0, 0, EXCLUSIVE)             \
    X(EVALUATION, "evaluation_ms", "evaluation", "ms", SELECTED, 0, TML_BIT_EVALUATION, TML_BIT_EVALUATION, 0,         \
      EXCLUSIVE)                                                                                                       \
    X(CHECKPOINT, "checkpoint_ms", "checkpoint", "ms", SELECTED, 0, TML_BIT_CHECKPOINT, TML_BIT_CHECKPOINT, 0,         \
      EXCLUSIVE)                                                                                                       \
    X(USER_SPANS, "user_spans_ms", "own spans", "ms", SELECTED, 0, TML_BIT_USER, TML_BIT_USER, 0, EXCLUSIVE)           \
    X(PRE_STEP_OTHER, "pre_step_other_ms", "other before step", "ms", SELECTED, TML_BIT_OTHER, 0, 0, 0, EXCLUSIVE)     \
    X(INSTRUMENTATION, "instrumentation_ms", "TraceML", "ms", SELECTED, TML_BIT_OURS, 0, 0, 0, EXCLUSIVE)              \
    X(PRE_STEP_INSTRUMENTATION, "pre_step_instrumentation_ms", "TraceML", "ms", SELECTED, TML_BIT_OURS_PRE, 0, 0, 0,   \
      EXCLUSIVE)                                                                                                       \
    X(DEVICE_LEAD, "device_lead_ms", "device lead", "ms", GPU, 0, 0, 0, 0, LEAD)

enum tml_metric {
#define TML_X(name, key, words, unit, clock, terms, pre, in, needs, form) TML_METRIC_##name,
    TML_METRIC_LIST(TML_X)
#undef TML_X
        TML_METRIC_COUNT
};

enum tml_metric_clock { TML_METRIC_SELECTED, TML_METRIC_CPU, TML_METRIC_GPU };
enum tml_metric_form { TML_METRIC_EXCLUSIVE, TML_METRIC_INCLUSIVE, TML_METRIC_WHOLE, TML_METRIC_LEAD };

struct tml_metric_spec {
    const char *key, *words, *unit;
    enum tml_metric_clock clock;
    uint32_t terms, pre, in, needs;
    enum tml_metric_form form;
};

extern const struct tml_metric_spec tml_metrics[TML_METRIC_COUNT];

/*
 * ---- The three properties ----
 *
 * tests/unit/test_metric_states.c has a row for every combination. Where the contract (value, availability, coverage) left
 * a choice, it was made so:
 * - A metric of one region of a phase (input wait before and in the step, H2D before the step) is 0.0 where the phase
 *   occurs in the other region alone: the ledger adds them up. Only a metric that is named after the phase as such is
 *   `outside_window` then.
 * - H2D and optimizer: a step that has them before the step alone counts 0.0 in a window that has some inside, so that the
 *   parts add up; a window that has none inside is `outside_window`, with null.
 * - Copies that somebody bracketed by hand say where they are; of others nothing is known without the observer. So there
 *   is their time, with coverage unknown, and never a zero; and where they are before the step alone, H2D is null. The
 *   same holds for what they would be in: `pre_step_other` has coverage unknown, and the residual of a step that no copy
 *   was bracketed in is null.
 * - Spans on another stream than the step's are in no time of the GPU clock. Where all of a phase are (H2D, evaluation,
 *   checkpoint, own spans; the others make the step incomplete there), it is `outside_window` with `other_stream`; where
 *   some are, `partial`. How long they took stands beside the value.
 * - A step that lost records has no zeros; what was measured in it counts. With more than 5 % of such steps the metric is
 *   unavailable, whatever was measured.
 */

#define TML_AVAILABILITY_LIST(X)                                                                                       \
    X(AVAILABLE, "available")                                                                                          \
    X(UNAVAILABLE, "unavailable")                                                                                      \
    X(NOT_APPLICABLE, "not_applicable")

#define TML_COVERAGE_LIST(X)                                                                                           \
    X(IN_WINDOW, "in_window")                                                                                          \
    X(OUTSIDE_WINDOW, "outside_window")                                                                                \
    X(PARTIAL, "partial")                                                                                              \
    X(UNKNOWN, "unknown")

enum tml_availability {
#define TML_X(name, key) TML_##name,
    TML_AVAILABILITY_LIST(TML_X)
#undef TML_X
};

enum tml_coverage {
#define TML_X(name, key) TML_COVERAGE_##name,
    TML_COVERAGE_LIST(TML_X)
#undef TML_X
};

const char *tml_availability_key(enum tml_availability availability);
const char *tml_coverage_key(enum tml_coverage coverage);

/* Spans on other streams than the step's, where the metric looks: not in its value on the GPU clock. */
struct tml_beside_mean {
    uint64_t count;
    int64_t device_ns, overlap_ns; /* as in a row, a step of all; TML_NS_NONE where one of them has no device time */
};

struct tml_metric_status {
    int64_t value_ns; /* mean over the observed steps, of a lead the median; TML_NS_NONE: null */
    enum tml_availability availability;
    enum tml_coverage coverage;
    enum tml_reason reason;
    int phase; /* that the reason is about; -1: none in particular */
    uint64_t steps_observed, steps_expected;
    uint64_t occurrences[TML_REGIONS]; /* of the phases that the metric is about */
    struct tml_beside_mean beside;
};

/* True when a rule may stand on it: it has a value, seen in at least 95 % of the steps. */
bool tml_metric_usable(const struct tml_metric_status *status);

/* 95 % of `all`, in whole steps: the share of steps that must be whole. */
bool tml_metric_enough(uint64_t whole, uint64_t all);

/* ---- From rows to a status ---- */

/* Which instruments a rank had. */
struct tml_instruments {
    uint32_t armed, seen; /* sets of phases */
    uint32_t elsewhere;   /* that occur on other threads than the step's */
    bool cuda, observes_copies;
};

struct tml_instruments tml_instruments_of(const struct tml_rank_run *rank);

/* What one step says about one metric. */
enum tml_sample_state {
    TML_SAMPLE_VALUE,          /* it occurred here and was measured */
    TML_SAMPLE_ABSENT,         /* somebody watched and there was none: counts zero */
    TML_SAMPLE_OUTSIDE,        /* it occurred, but elsewhere, or was left out: 0 in a sum, and in no mean */
    TML_SAMPLE_NOT_APPLICABLE, /* it makes no sense here */
    TML_SAMPLE_MISSING,        /* not known */
};

struct tml_sample {
    enum tml_sample_state state;
    int64_t ns; /* of VALUE and ABSENT; else 0 */
    enum tml_reason reason;
    int phase;
    bool partial; /* a part of it lies elsewhere, or the step lost records */
};

struct tml_sample tml_metric_sample(enum tml_metric metric, const struct tml_step_row *row, enum tml_clock selected,
                                    const struct tml_instruments *instruments);

/* Samples of many steps, of one rank or of several. All sums are whole: no order of steps or ranks changes them. */
struct tml_tally {
    uint64_t steps, state[TML_SAMPLE_MISSING + 1], missing[TML_REASON_COUNT], partial_steps;
    uint64_t outside_zeros; /* of the OUTSIDE ones, those before the step, of phases that occur when they occur */
    uint64_t lossy_steps;   /* with a value that lost records may belong to: not whole */
    int64_t sum_ns;
    enum tml_reason outside_reason, partial_reason;
    int missing_phase[TML_REASON_COUNT]; /* + 1; the lowest */
    uint64_t occurrences[TML_REGIONS];
    uint64_t beside_count;
    int64_t beside_ns, beside_overlap_ns;
    uint64_t beside_untimed; /* cells with some that have no device time */
    bool by_hand;            /* known from copies that somebody bracketed, others unseen */
};

void tml_tally_add(struct tml_tally *tally, enum tml_metric metric, const struct tml_step_row *row,
                   const struct tml_instruments *instruments, const struct tml_sample *sample);
void tml_tally_merge(struct tml_tally *tally, const struct tml_tally *more);
struct tml_metric_status tml_tally_status(const struct tml_tally *tally);

/* One that must occur in every step; a step without it lost its instrumentation. */
bool tml_phase_is_required(int phase);

/* Both phases that must occur in every step were seen on the host clock. */
bool tml_row_cpu_complete(const struct tml_step_row *row);

#endif
