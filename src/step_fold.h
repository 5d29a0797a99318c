/*
 * Purpose   a block of older steps as one line: totals and quantiles of every metric instead of the steps.
 * Memory    plain data, 336 KiB (not for a stack), no pointers; of a zeroed one only pages of metrics that occur are
 *           touched.
 * Threads   any; one fold by one thread at a time.
 * Units     ns in, ms in the line.
 * Depends   sketch, step_row.
 */
#ifndef TML_STEP_FOLD_H
#define TML_STEP_FOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sketch.h"
#include "step_row.h"

#define TML_STEP_FOLD_TERMS (TML_CLOCKS * TML_TERM_COUNT)
#define TML_STEP_FOLD_CELLS (TML_REGIONS * TRACEML_PHASE_COUNT * TML_CLOCKS * 2)
#define TML_STEP_FOLD_METRICS (TML_STEP_FOLD_TERMS + TML_STEP_FOLD_CELLS)

/* What passed on the host before steps that begin an iterator: a new epoch, a validation before it, workers that start.
 * These steps are apart as warm-up, so no window holds it. */
struct tml_between {
    uint64_t count;
    int64_t total_ns; /* from the step before to this one */
    int64_t fetch_ns; /* of it, fetching this step's batches */
    int64_t spans_ns; /* of it, evaluation, checkpoint and the user's own spans */
};

struct tml_step_fold {
    uint64_t first, last;  /* step numbers */
    uint64_t count;        /* completed steps: what the metrics are about */
    uint64_t aborted;      /* steps left out of them */
    uint64_t microbatches; /* of the completed steps */
    struct tml_between between;
    struct tml_sketch metric[TML_STEP_FOLD_METRICS];
};

/* Room for the longest line that tml_step_fold_write() makes. A usual one has 3 KiB. */
#define TML_STEP_FOLD_LINE_BYTES 16384

void tml_step_fold_clear(struct tml_step_fold *fold);
void tml_step_fold_add(struct tml_step_fold *fold, const struct tml_step_row *row);
/* As if every step of `other` had been added here. */
void tml_step_fold_merge(struct tml_step_fold *fold, const struct tml_step_fold *other);

/* A time that was not measured, and a phase that did not occur, is not in the sketch: its `count` is that of the steps
 * that had one. */
const struct tml_sketch *tml_step_fold_term(const struct tml_step_fold *fold, enum tml_clock clock, enum tml_term term);
const struct tml_sketch *tml_step_fold_cell(const struct tml_step_fold *fold, enum tml_region region,
                                            enum traceml_phase phase, enum tml_clock clock, bool inclusive);

/* Writes the fold as one line {"folded":{...}} with its newline. Returns its length, 0 if `bytes` was too small. */
size_t tml_step_fold_write(const struct tml_step_fold *fold, char *line, size_t bytes);
/* Reads such a line. False when `value` is none, or its counts contradict each other. */
bool tml_step_fold_read(const struct tml_json *value, struct tml_step_fold *fold);

#endif
