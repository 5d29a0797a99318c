#include "ledger.h"

#include <stdlib.h>
#include <string.h>

/* As deep as a thread's spans can nest. */
#define MAX_DEPTH 64

#define NOBODY (-1)

struct open_member {
    int64_t end_ns;
    int phase, name; /* its own */
    int owner;       /* who gets the time inside it that nobody else covers */
    uint32_t after_end_ns;
};

struct sweep {
    struct tml_ledger *ledger;
    struct open_member stack[MAX_DEPTH];
    unsigned depth;
    unsigned open_of_phase[TRACEML_PHASE_COUNT], open_of_name[TML_SPAN_NAMES];
    int64_t cursor_ns; /* all before is attributed */
    int64_t own_ns;    /* own cost that stands at the cursor */
    int64_t step_begin_ns, step_end_ns;
};

/* Adds the part of [from, to) before and after the step's begin to its region. */
static void split(const struct sweep *sweep, int64_t *before_ns, int64_t *inside_ns, int64_t from_ns, int64_t to_ns)
{
    int64_t border_ns = sweep->step_begin_ns;
    if (from_ns < border_ns)
        *before_ns += (to_ns < border_ns ? to_ns : border_ns) - from_ns;
    if (to_ns > border_ns)
        *inside_ns += to_ns - (from_ns > border_ns ? from_ns : border_ns);
}

static void add_exclusive(const struct sweep *sweep, int kind, int name, int64_t from_ns, int64_t to_ns)
{
    struct tml_ledger *ledger = sweep->ledger;
    split(sweep, &ledger->exclusive_ns[0][kind], &ledger->exclusive_ns[1][kind], from_ns, to_ns);
    if (kind == TRACEML_PHASE_USER)
        split(sweep, &ledger->named_exclusive_ns[0][name], &ledger->named_exclusive_ns[1][name], from_ns, to_ns);
}

/* Moves the cursor; the innermost open member gets what it passes, less our own cost at both ends of that stretch. */
static void advance(struct sweep *sweep, int64_t to_ns, uint32_t before_ns)
{
    int64_t own_ns = sweep->own_ns + before_ns, length_ns = to_ns - sweep->cursor_ns;
    sweep->own_ns = 0;
    if (length_ns <= 0)
        return;
    const struct open_member *top = sweep->depth ? &sweep->stack[sweep->depth - 1] : NULL;
    own_ns = own_ns < length_ns ? own_ns : length_ns;
    add_exclusive(sweep, TML_LEDGER_INSTRUMENTATION, 0, sweep->cursor_ns, sweep->cursor_ns + own_ns);
    if (top && top->owner != NOBODY)
        add_exclusive(sweep, top->owner, top->name, sweep->cursor_ns + own_ns, to_ns);
    sweep->cursor_ns = to_ns;
}

static void close_until(struct sweep *sweep, int64_t now_ns)
{
    while (sweep->depth && sweep->stack[sweep->depth - 1].end_ns <= now_ns) {
        const struct open_member *top = &sweep->stack[sweep->depth - 1];
        advance(sweep, top->end_ns, 0);
        sweep->own_ns += top->after_end_ns;
        sweep->open_of_phase[top->phase]--;
        sweep->open_of_name[top->name] -= top->phase == TRACEML_PHASE_USER;
        sweep->depth--;
    }
}

/* The step's own span is the frame, not a phase: its uncovered inside is the residual, whatever is around the step. */
static int owner_of(const struct sweep *sweep, int phase)
{
    if (phase == TRACEML_PHASE_STEP)
        return NOBODY;
    int outer = sweep->depth ? sweep->stack[sweep->depth - 1].owner : NOBODY;
    return outer == TRACEML_PHASE_EVALUATION || outer == TRACEML_PHASE_CHECKPOINT ? outer : phase;
}

/* The outermost of a kind: of its phase, and of its name. */
static void add_inclusive(struct sweep *sweep, const struct tml_ledger_span *span, int64_t begin_ns, int64_t end_ns)
{
    struct tml_ledger *ledger = sweep->ledger;
    if (sweep->open_of_phase[span->phase] == 0)
        split(sweep, &ledger->inclusive_ns[0][span->phase], &ledger->inclusive_ns[1][span->phase], begin_ns, end_ns);
    if (span->phase == TRACEML_PHASE_USER && sweep->open_of_name[span->name] == 0)
        split(sweep, &ledger->named_inclusive_ns[0][span->name], &ledger->named_inclusive_ns[1][span->name], begin_ns,
              end_ns);
}

static void open(struct sweep *sweep, const struct tml_ledger_span *span)
{
    if (span->begin_ns >= sweep->step_end_ns)
        return;
    close_until(sweep, span->begin_ns);
    advance(sweep, span->begin_ns, span->before_begin_ns);
    int64_t end_ns = span->end_ns < sweep->step_end_ns ? span->end_ns : sweep->step_end_ns;
    if (sweep->depth && sweep->stack[sweep->depth - 1].end_ns < end_ns)
        end_ns = sweep->stack[sweep->depth - 1].end_ns;
    int64_t begin_ns = span->begin_ns > sweep->cursor_ns ? span->begin_ns : sweep->cursor_ns;
    if (end_ns <= begin_ns || sweep->depth == MAX_DEPTH)
        return;
    int owner = owner_of(sweep, span->phase);
    bool swallowed = owner != NOBODY && owner != span->phase;
    if (!swallowed)
        add_inclusive(sweep, span, begin_ns, end_ns);
    sweep->open_of_phase[span->phase]++;
    sweep->open_of_name[span->name] += span->phase == TRACEML_PHASE_USER;
    sweep->stack[sweep->depth++] = (struct open_member){end_ns, span->phase, span->name, owner, span->after_end_ns};
    sweep->own_ns += span->after_begin_ns;
}

/* Outer before inner. */
static int by_begin(const void *left, const void *right)
{
    const struct tml_ledger_span *a = left, *b = right;
    if (a->begin_ns != b->begin_ns)
        return a->begin_ns < b->begin_ns ? -1 : 1;
    if (a->end_ns != b->end_ns)
        return a->end_ns > b->end_ns ? -1 : 1;
    return (a->phase > b->phase) - (a->phase < b->phase);
}

static int64_t covered_ns(const struct tml_ledger *ledger, int region)
{
    int64_t sum = 0;
    for (unsigned kind = 0; kind < TML_LEDGER_KINDS; kind++)
        sum += ledger->exclusive_ns[region][kind];
    return sum;
}

void tml_ledger_close(struct tml_ledger *ledger, struct tml_ledger_span *spans, unsigned count,
                      int64_t iteration_begin_ns, int64_t step_begin_ns, int64_t step_end_ns, uint32_t carried_ns)
{
    bool has_beginning = iteration_begin_ns != TML_NS_NONE;
    memset(ledger, 0, sizeof *ledger);
    qsort(spans, count, sizeof *spans, by_begin);
    struct sweep sweep = {
        .ledger = ledger,
        .cursor_ns = has_beginning                                ? iteration_begin_ns
                     : count && spans[0].begin_ns < step_begin_ns ? spans[0].begin_ns
                                                                  : step_begin_ns,
        .own_ns = has_beginning ? carried_ns : 0,
        .step_begin_ns = step_begin_ns,
        .step_end_ns = step_end_ns,
    };
    for (unsigned i = 0; i < count; i++)
        open(&sweep, &spans[i]);
    close_until(&sweep, INT64_MAX);

    ledger->traced_step_ns = step_end_ns - step_begin_ns;
    ledger->residual_ns = ledger->traced_step_ns - covered_ns(ledger, 1);
    ledger->iteration_ns = has_beginning ? step_end_ns - iteration_begin_ns : TML_NS_NONE;
    ledger->pre_step_other_ns =
        has_beginning ? step_begin_ns - iteration_begin_ns - covered_ns(ledger, 0) : TML_NS_NONE;
}
