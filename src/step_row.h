/*
 * Purpose   the second of the four shapes: one closed step, and its form as a line of the step file.
 * Memory    plain data, no pointers; lines are written into the caller's buffer.
 * Threads   any, one row is not shared.
 * Units     ns; TML_NS_NONE where a thing was not measured. Lines are in ms with six decimals (whole ns).
 * Depends   clock, reason, span_name, json, traceml.h.
 */
#ifndef TML_STEP_ROW_H
#define TML_STEP_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clock.h"
#include "json.h"
#include "reason.h"
#include "span_name.h"
#include "traceml/traceml.h"

/* Where in its iteration a span began: before its step, or inside. */
enum tml_region { TML_REGION_PRE, TML_REGION_IN, TML_REGIONS };

/*
 * Terms of the ledger, per clock: X(NAME, json_key).
 *   iteration       = pre-step phases + pre_step_other + instrumentation_pre + traced_step
 *   traced_step     = in-step phases + instrumentation + residual
 * with exclusive times of the phases; before the step these are fetch, h2d, evaluation, checkpoint and user, and
 * pre_step_other holds the rest, compute outside of the step included. Nothing is clamped: a remainder may be negative.
 */
#define TML_TERM_LIST(X)                                                                                               \
    X(ITERATION, "iteration_ms")                                                                                       \
    X(TRACED_STEP, "traced_step_ms")                                                                                   \
    X(PRE_STEP_OTHER, "pre_step_other_ms")                                                                             \
    X(RESIDUAL, "residual_ms")                                                                                         \
    X(INSTRUMENTATION_PRE, "instrumentation_pre_ms")                                                                   \
    X(INSTRUMENTATION, "instrumentation_ms")

enum tml_term {
#define TML_X(name, key) TML_TERM_##name,
    TML_TERM_LIST(TML_X)
#undef TML_X
        TML_TERM_COUNT
};

/*
 * Boundaries at which the device lead is read: X(NAME, json_key, words). Of several microbatches the first forward begin
 * and the last forward and backward end; of several optimizers the first begin.
 */
#define TML_BOUNDARY_LIST(X)                                                                                           \
    X(FORWARD_BEGIN, "forward_begin_ms", "forward begin")                                                              \
    X(FORWARD_END, "forward_end_ms", "forward end")                                                                    \
    X(BACKWARD_END, "backward_end_ms", "backward end")                                                                 \
    X(OPTIMIZER_BEGIN, "optimizer_begin_ms", "optimizer begin")                                                        \
    X(STEP_END, "step_end_ms", "step end")

enum tml_boundary {
#define TML_X(name, key, words) TML_BOUNDARY_##name,
    TML_BOUNDARY_LIST(TML_X)
#undef TML_X
        TML_BOUNDARY_COUNT
};

/* A lead below the first: the device waits for the host. Above the second: the host is well ahead. */
#define TML_LEAD_NEAR_ZERO_NS INT64_C(50000)
#define TML_LEAD_LARGE_NS INT64_C(1000000)

/*
 * How far the device lags behind the host at each boundary of one step: the host time at which the boundary's event
 * completed on the device less the one at which it was recorded. TML_NS_NONE where the boundary did not occur on the
 * step's thread and stream. Not clamped: within the error a lead may be below zero.
 */
struct tml_device_lead {
    int64_t ns[TML_BOUNDARY_COUNT];
    int64_t error_ns;       /* how far off each may be; TML_NS_NONE: no lead is known */
    enum tml_reason reason; /* then: why, where device times as such are there */
};

/* Occurrences of one phase in one region of one iteration. */
struct tml_cell {
    uint32_t count;
    uint32_t other_count;             /* of these, on another thread, stream or device: not in the times below */
    int64_t exclusive_ns[TML_CLOCKS]; /* without spans of other phases inside */
    int64_t inclusive_ns[TML_CLOCKS]; /* with them; same-phase nesting counted once */
};

/* Of one cell, the spans of the step's thread on other streams than the step's: its GPU times above are without them. */
struct tml_beside {
    uint32_t count;
    /* The union of their intervals, and of that what ran while the step's stream was in a span of this iteration or still
     * at an earlier one. TML_NS_NONE where one of them has no device time (of another device none has). */
    int64_t device_ns, overlap_ns;
};

struct tml_step_row {
    uint64_t step;         /* number among completed steps, from 1; an aborted one has the number it would have had */
    uint64_t iteration;    /* number among all, aborted ones too, from 1 */
    int64_t end_ns;        /* host time of the step's end, since the session's first step began */
    int64_t epoch;         /* -1: unknown */
    uint32_t microbatches; /* backward passes inside the step */
    uint32_t flags;        /* enum tml_step_flag */
    bool gpu_complete;     /* every span that the GPU ledger needs has a resolved device span */
    enum tml_reason gpu_reason; /* else: why not */
    int64_t term_ns[TML_CLOCKS][TML_TERM_COUNT];
    struct tml_cell cell[TML_REGIONS][TRACEML_PHASE_COUNT];
    struct tml_beside beside[TML_REGIONS][TRACEML_PHASE_COUNT];
    struct tml_cell own[TML_REGIONS][TML_SPAN_NAMES]; /* of the USER cells above, by the name's number */
    struct tml_device_lead lead;
};

/* Room for the longest line that tml_step_row_write() makes: every phase and name in both regions, the longest numbers.
 * A usual line has 580 bytes on one clock and 850 on both. */
#define TML_STEP_LINE_BYTES 17408

/* The words of a line: the one place where they stand. */
const char *tml_region_key(enum tml_region region);
const char *tml_term_key(enum tml_term term);
const char *tml_cell_key(enum tml_clock clock, bool inclusive); /* "cpu_ms", "gpu_inclusive_ms", ... */

#define TML_BESIDE_KEY "other_stream"
#define TML_BESIDE_DEVICE_KEY "gpu_ms"
#define TML_BESIDE_OVERLAP_KEY "overlap_ms"

const char *tml_boundary_key(enum tml_boundary boundary);
const char *tml_boundary_words(enum tml_boundary boundary);

/* Sets every time to "not measured" and every count to zero. */
void tml_step_row_clear(struct tml_step_row *row);

/* Writes the row as one JSON line with its newline, names from the process's table. Returns its length, 0 if `bytes`
 * was too small. */
size_t tml_step_row_write(const struct tml_step_row *row, char *line, size_t bytes);

/* Reads what tml_step_row_write() wrote. False when `value` is no such object (wrong type, negative count, ...). */
bool tml_step_row_read(const struct tml_json *value, struct tml_step_row *row);
/* Reads `own` too, which the call above leaves empty; new names get numbers in `names`. */
bool tml_step_row_read_own(const struct tml_json *value, struct tml_span_names *names, struct tml_step_row *row);

#endif
