/*
 * Purpose   the ledger of one iteration on one clock: which part of it belongs to which phase, and what is left over.
 * Memory    the caller's arrays; nothing is allocated.
 * Threads   any.
 * Units     ns on one clock, one origin; differences alone matter.
 * Depends   clock, span_name, traceml.h.
 */
#ifndef TML_LEDGER_H
#define TML_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "clock.h"
#include "span_name.h"
#include "traceml/traceml.h"

/* Beside the phases: our own cost around a span. */
#define TML_LEDGER_INSTRUMENTATION TRACEML_PHASE_COUNT
#define TML_LEDGER_KINDS (TRACEML_PHASE_COUNT + 1)

/* A span that is a member: of the step's thread (CPU), or of its stream (GPU). */
struct tml_ledger_span {
    int64_t begin_ns, end_ns;
    uint8_t phase;
    uint8_t name; /* of a USER span */
    /* What recording it took from the time around its two ends. On the host our work stands outside of the span, on the
     * device each event takes its time after its time stamp. */
    uint32_t before_begin_ns, after_begin_ns, after_end_ns;
};

struct tml_ledger {
    /* [0] before the step, [1] inside */
    int64_t exclusive_ns[2][TML_LEDGER_KINDS];
    int64_t inclusive_ns[2][TML_LEDGER_KINDS]; /* outermost of a kind */
    /* Of the USER spans above, by name. */
    int64_t named_exclusive_ns[2][TML_SPAN_NAMES], named_inclusive_ns[2][TML_SPAN_NAMES];
    int64_t iteration_ns; /* TML_NS_NONE without a beginning */
    int64_t traced_step_ns;
    int64_t pre_step_other_ns; /* measured remainder: what no member covers; negative when the parts exceed the whole */
    int64_t residual_ns;
};

/*
 * Members in any order; the array is sorted in place. The iteration reaches from `iteration_begin_ns` (TML_NS_NONE: it
 * has no beginning, then the pre-step remainder is none either) over the step's begin to its end. The innermost span
 * owns an instant; what happens inside evaluation or checkpoint is theirs alone, inclusive times too; inside the step's
 * own span and outside of any other inside it is residual. What reaches beyond the iteration (a span around several
 * steps) is cut off there. Our own cost is taken out of what it fell into, never more than was there. Spans of one thread
 * or stream nest; if they do not, the earlier one keeps the overlap. The step's span must be a member.
 * `carried_ns`: own cost at the very beginning, of the previous step's end.
 */
void tml_ledger_close(struct tml_ledger *ledger, struct tml_ledger_span *spans, unsigned count,
                      int64_t iteration_begin_ns, int64_t step_begin_ns, int64_t step_end_ns, uint32_t carried_ns);

#endif
