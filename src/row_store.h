/*
 * Purpose   the latest N completed steps of one rank, by column: what a window is cut from.
 * Memory    owned, given back by tml_row_store_free(). A column that no row ever filled is not allocated: some 200
 *           bytes a step instead of sizeof(struct tml_step_row), which lets 64 ranks x 10,000 steps fit.
 * Threads   any, one store by one thread.
 * Units     ns.
 * Depends   step_row.
 */
#ifndef TML_ROW_STORE_H
#define TML_ROW_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "step_row.h"

/* No time of a row is longer, so that the sum of a row's parts cannot overflow; 36 years. */
#define TML_ROW_LIMIT_NS (INT64_C(1) << 60)

/* sum / count, to the nearest ns. */
static inline int64_t tml_ns_mean(int64_t sum, uint64_t count)
{
    int64_t n = (int64_t)count, half = n / 2;
    return tml_ns_add(sum, sum < 0 ? -half : half) / n;
}

/* One column of int64 or uint32 that exists once a row differs from the default. */
struct tml_row_column {
    void *values;
};

#define TML_ROW_CELLS (TML_REGIONS * TRACEML_PHASE_COUNT)
#define TML_ROW_OWN_CELLS (TML_REGIONS * TML_SPAN_NAMES)

/* The columns of one cell. Inclusive times exist where they ever differed from the exclusive ones. */
struct tml_row_cell_columns {
    struct tml_row_column count, other_count;
    struct tml_row_column exclusive[TML_CLOCKS], inclusive[TML_CLOCKS];
};

struct tml_row_beside_columns {
    struct tml_row_column count, device, overlap;
};

struct tml_row_store {
    size_t limit;     /* rows kept: the latest ones */
    size_t allocated; /* rows there is room for, doubling up to the limit */
    size_t count;
    size_t oldest; /* slot of the oldest row once the store is full */
    uint64_t *step;
    uint32_t *flags;
    uint8_t *gpu_complete, *gpu_reason;
    struct tml_row_column term[TML_CLOCKS][TML_TERM_COUNT];
    struct tml_row_cell_columns cell[TML_ROW_CELLS];
    struct tml_row_beside_columns beside[TML_ROW_CELLS];
    struct tml_row_cell_columns own[TML_ROW_OWN_CELLS];
    bool has_own; /* most runs have no spans of their own: nothing is looked up for them */
    struct tml_row_column lead[TML_BOUNDARY_COUNT], lead_error;
    uint8_t *lead_reason;
};

void tml_row_store_init(struct tml_row_store *store, size_t limit);
/* Forgets all rows; the room stays. */
void tml_row_store_clear(struct tml_row_store *store);
void tml_row_store_free(struct tml_row_store *store);

/* The row is one that tml_row_store_push() may be given: its times can be added up, and it does not contradict itself (a
 * number below 1, a time of a phase that did not occur, a negative time of anything but a remainder, more occurrences
 * elsewhere than at all, less time with what is inside than without). */
bool tml_row_store_accepts(const struct tml_step_row *row);
/* Adds the row as the latest. False when memory is out. What a window does not need (iteration, end, epoch,
 * microbatches) is not kept. */
bool tml_row_store_push(struct tml_row_store *store, const struct tml_step_row *row);

/* Row `index`, 0 being the oldest kept. */
void tml_row_store_get(const struct tml_row_store *store, size_t index, struct tml_step_row *row);
uint64_t tml_row_store_step(const struct tml_row_store *store, size_t index);
uint32_t tml_row_store_flags(const struct tml_row_store *store, size_t index);
/* The lead at one boundary, and its error; TML_NS_NONE: not known. */
int64_t tml_row_store_lead(const struct tml_row_store *store, size_t index, enum tml_boundary boundary);
int64_t tml_row_store_lead_error(const struct tml_row_store *store, size_t index);
/* True: complete on the GPU; else *reason says why not. */
bool tml_row_store_on_gpu(const struct tml_row_store *store, size_t index, enum tml_reason *reason);

#endif
