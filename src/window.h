/*
 * Purpose   the third of the four shapes: the latest N steps that all ranks share, on one clock, and what every metric
 *           says about them, per rank and over ranks.
 * Memory    tml_window_build() fills the caller's struct, tml_window_free() gives it back; points into the run, which
 *           must outlive it.
 * Threads   any; one window by one thread.
 * Units     ns; shares are ratios of step time, NAN for null.
 * Depends   metric, step_reader.
 */
#ifndef TML_WINDOW_H
#define TML_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "metric.h"

/* Of the steps in which the metric has a value: 10, 50 and 90 % lie at or below. TML_NS_NONE for null. */
struct tml_spread {
    int64_t p10_ns, p50_ns, p90_ns;
};

/* The device lead at one boundary, over the steps that have one. */
struct tml_lead_at {
    struct tml_spread spread;
    uint64_t steps, near_zero, large; /* below TML_LEAD_NEAR_ZERO_NS, above TML_LEAD_LARGE_NS */
};

struct tml_window_lead {
    struct tml_lead_at at[TML_BOUNDARY_COUNT];
    int64_t error_ns; /* median of what the steps' leads may be off; TML_NS_NONE: no lead */
};

/* What the user's own spans of one name say about the window, or one rank of it. */
struct tml_own_span {
    const char *name;                  /* in the run; NULL: no such name */
    int64_t sum_ns[TML_REGIONS];       /* exclusive, of the observed steps */
    int64_t inclusive_sum_ns;          /* both regions */
    uint64_t steps, steps_observed;    /* a step that has such a span without a time on the window's clock is not */
    uint64_t occurrences[TML_REGIONS]; /* on the step's thread */
    uint64_t elsewhere;                /* on others: not in the times */
    int64_t value_ns[TML_REGIONS];     /* mean of a step, 0 where it did not occur; TML_NS_NONE: null, both */
    int64_t inclusive_ns;
};

/*
 * The step time of equal consecutive parts of the window, in order of the steps. How far the parts lie apart holds what
 * the quantiles of single steps do not: slow drift, and bursts that last many steps.
 */
#define TML_BLOCKS 10
#define TML_BLOCK_FEWEST_STEPS 2 /* a part; shorter windows have no parts */
struct tml_blocks {
    unsigned count; /* TML_BLOCKS, or 0 */
    int64_t mean_ns[TML_BLOCKS], median_ns[TML_BLOCKS];
};

/* Where the device stood at forward's end and at optimizer's begin. Undisturbed: the host had not synchronised since the
 * step's begin, which the observer of CUDA calls alone can tell; this version has none, so nothing sets `watched` yet. */
struct tml_launch_steps {
    uint64_t known, near_zero; /* steps with both leads; with both near zero: the device waits for the host */
    uint64_t undisturbed, undisturbed_near_zero;
    bool watched;
    enum tml_reason reason; /* of the other steps; of several the first in the list */
};

struct tml_rank_window {
    const struct tml_rank_run *run;
    struct tml_instruments instruments;
    struct tml_metric_status metric[TML_METRIC_COUNT];
    struct tml_spread spread[TML_METRIC_COUNT];
    struct tml_blocks blocks[TML_CLOCKS]; /* of the step time on each clock */
    double share[TML_METRIC_COUNT];
    /* Of the steps that are complete on the GPU, whatever the window's clock: what the device waited for. */
    uint64_t gpu_steps;
    int64_t gpu_input_ns, gpu_step_ns;
    struct tml_launch_steps launch; /* whatever the clock */
    struct tml_own_span own[TML_SPAN_NAMES];
    struct tml_window_lead lead;
};

struct tml_rank_value {
    int64_t value_ns; /* TML_NS_NONE: null */
    int rank;         /* -1 with null */
};

/* Over ranks. All of `value` is null unless the metric is available over all steps of all ranks. */
struct tml_over_ranks {
    struct tml_metric_status status;     /* its value is the average */
    struct tml_rank_value median, worst; /* the rank nearest the median (of two the smaller value); the largest value */
    double share;                        /* median of the ranks' shares */
    double share_skew;                   /* (largest share - median) / median; NAN with one rank */
    int share_worst_rank;
};

struct tml_window {
    struct tml_rank_window *ranks; /* those with completed steps, ascending */
    size_t rank_count;
    uint64_t wanted_steps; /* N */

    uint64_t steps, first_step, last_step;   /* that the numbers are about; 0 without any */
    uint64_t common_steps;                   /* shared and no warm-up: `steps` and the ones left out */
    uint64_t left_out;                       /* incomplete on the window's clock */
    uint64_t left_out_why[TML_REASON_COUNT]; /* of several ranks' reasons the first in the list */
    uint64_t unshared_steps;                 /* that a rank lacks, among the rows that were looked at */
    uint64_t warmup_steps;                   /* among the rows that were looked at */
    bool first_fetches_kept;                 /* hardly a step without a first fetch: they are the rule here */

    enum tml_clock clock;
    enum tml_reason clock_reason; /* why not the GPU; NONE on the GPU clock */
    uint64_t gpu_complete_steps;  /* of common_steps, on every rank */
    bool cuda;                    /* some rank has a device */

    struct tml_over_ranks metric[TML_METRIC_COUNT];
    /* Medians over the ranks' medians, null unless every rank has one; counts over all ranks; the largest error. */
    struct tml_window_lead lead;
    struct tml_own_span own[TML_SPAN_NAMES]; /* means over ranks; numbered by `names` */
    struct tml_span_names names;
};

/* False when memory is out; the window is empty then. */
bool tml_window_build(const struct tml_run *run, uint64_t wanted_steps, struct tml_window *window);
void tml_window_free(struct tml_window *window);

/* Host brackets around device phases are launch time: what they say about the device is not known. */
bool tml_window_is_launch_time(const struct tml_window *window);

/* ---- Shared by window.c, window_metrics.c and window_own.c ---- */

/* For each step of the window, for each rank: the index of its row. */
struct tml_selection {
    size_t count, ranks;
    uint32_t *rows; /* [step * ranks + rank] */
};

/* Adds one step; after the last one the means are taken. */
void tml_window_own_add(struct tml_rank_window *rank, const struct tml_step_row *row, enum tml_clock clock);
void tml_window_own_finish(struct tml_window *window);

/* Fills the leads of every rank and of the window. False when memory is out. */
bool tml_window_lead_measure(struct tml_window *window, const struct tml_selection *selection);

/* Puts the values in another order. */
struct tml_spread tml_spread_of(int64_t *values, size_t count);

bool tml_window_measure(struct tml_window *window, const struct tml_selection *selection);

#endif
