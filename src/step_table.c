#include "step_table.h"

#include <stdlib.h>
#include <string.h>

/* Stuck events that one tick asks for. */
#define STUCK_A_TICK 32u

bool tml_step_table_open(struct tml_step_table *table, int64_t deadline_ns)
{
    *table =
        (struct tml_step_table){.free_spans = TML_TABLE_SPANS, .oldest = 1, .next_step = 1, .deadline_ns = deadline_ns};
    table->origin_ns = table->previous_end_ns = table->previous_end_lead_ns = table->begin_host_ns = TML_NS_NONE;
    tml_clock_tie_init(&table->tie);
    table->spans = malloc(TML_TABLE_SPANS * sizeof *table->spans);
    table->rows = malloc(TML_TABLE_ROWS * sizeof *table->rows);
    table->members = malloc(TML_TABLE_SPANS * sizeof *table->members);
    table->stuck = malloc(TML_TABLE_STUCK * sizeof *table->stuck);
    if (!table->spans || !table->rows || !table->members || !table->stuck) {
        tml_step_table_close(table);
        return false;
    }
    for (uint32_t i = 0; i < TML_TABLE_SPANS; i++)
        table->spans[i].next = i + 1 < TML_TABLE_SPANS ? i + 1 : TML_TABLE_NONE;
    for (uint32_t i = 0; i < TML_TABLE_ROWS; i++)
        table->rows[i] = (struct tml_table_row){TML_TABLE_NONE, TML_TABLE_NONE, TML_TABLE_NONE, false};
    return true;
}

void tml_step_table_close(struct tml_step_table *table)
{
    free(table->spans);
    free(table->rows);
    free(table->members);
    free(table->stuck);
    *table = (struct tml_step_table){0};
}

void tml_step_table_give_back(const struct tml_table_event *event)
{
    if (!event->event)
        return;
    struct tml_recorder *recorder = tml_recorder_at(event->recorder);
    /* Acquire, with the release in the recorder's pool_of(). */
    struct tml_event_pool *pool = atomic_load_explicit(&recorder->pool[event->device], memory_order_acquire);
    if (pool)
        tml_event_pool_return_sampler(pool, event->event);
}

static void give_back_both(unsigned recorder, const struct tml_record *record)
{
    tml_step_table_give_back(&(struct tml_table_event){record->begin_event, record->device, (uint8_t)recorder});
    tml_step_table_give_back(&(struct tml_table_event){record->end_event, record->device, (uint8_t)recorder});
}

static void append(struct tml_step_table *table, struct tml_table_row *row, uint32_t span)
{
    if (row->last == TML_TABLE_NONE)
        row->first = span;
    else
        table->spans[row->last].next = span;
    row->last = span;
    table->spans[span].next = TML_TABLE_NONE;
}

bool tml_step_table_fits(const struct tml_step_table *table, const struct tml_record *record)
{
    return record->iteration < table->oldest + TML_TABLE_ROWS;
}

/* A row can be closed only with its step's record: the last spans are kept for those. */
static bool has_span(const struct tml_step_table *table, const struct tml_record *record)
{
    return table->free_spans > (record->phase == TRACEML_PHASE_STEP ? 0 : TML_TABLE_ROWS);
}

/* Another thread's work does not end with a step (a producer's fetch, a checkpoint written in the background). It is
 * counted and in no time of a row, so the one that is open takes it: lost, a loader that is read elsewhere would seem not
 * to be read at all. */
static uint64_t iteration_of(const struct tml_step_table *table, unsigned recorder, const struct tml_record *record)
{
    const struct tml_table_span *stepping = &table->previous;
    bool elsewhere = table->previous_end_ns != TML_NS_NONE &&
                     (stepping->recorder != recorder || stepping->record.tenant != record->tenant);
    return record->iteration < table->oldest && elsewhere && record->phase != TRACEML_PHASE_STEP ? table->oldest
                                                                                                 : record->iteration;
}

void tml_step_table_add(struct tml_step_table *table, unsigned recorder, const struct tml_record *record)
{
    uint64_t iteration = iteration_of(table, recorder, record);
    bool late = iteration < table->oldest;
    if (late || !has_span(table, record)) {
        table->losses[late ? TML_LOSS_LATE : TML_LOSS_ROW_FULL]++;
        give_back_both(recorder, record);
        return;
    }
    uint32_t index = table->free_span;
    struct tml_table_span *span = &table->spans[index];
    table->free_span = span->next;
    table->free_spans--;
    *span = (struct tml_table_span){
        .record = *record,
        .begin_device_ns = TML_NS_NONE,
        .end_device_ns = TML_NS_NONE,
        .recorder = (uint8_t)recorder,
    };
    struct tml_table_row *row = &table->rows[iteration % TML_TABLE_ROWS];
    append(table, row, index);
    if (iteration > table->newest)
        table->newest = iteration;
    if (record->phase == TRACEML_PHASE_STEP)
        row->step = index;
}

/* All of them: a newer step of another thread can have come out of its ring before an older one. */
void tml_step_table_mark_drained(struct tml_step_table *table)
{
    for (uint64_t iteration = table->oldest; iteration <= table->newest; iteration++) {
        struct tml_table_row *row = &table->rows[iteration % TML_TABLE_ROWS];
        row->drained = row->step != TML_TABLE_NONE;
    }
}

uint64_t tml_step_table_pending(const struct tml_step_table *table)
{
    uint64_t ended = 0;
    for (uint64_t iteration = table->oldest; iteration <= table->newest; iteration++)
        ended += table->rows[iteration % TML_TABLE_ROWS].step != TML_TABLE_NONE;
    return ended;
}

/* ---- Polling ---- */

/* The first few, and then they go to the back: one that never completes must not keep the others. */
static void poll_stuck(struct tml_step_table *table)
{
    uint32_t count = table->stuck_head - table->stuck_tail;
    for (uint32_t i = 0; i < count && i < STUCK_A_TICK && tml_cuda_usable(tml_recording.cuda); i++) {
        struct tml_table_event event = table->stuck[table->stuck_tail++ % TML_TABLE_STUCK];
        if (tml_cuda_query(tml_recording.cuda, event.event) == 0)
            tml_step_table_give_back(&event);
        else
            table->stuck[table->stuck_head++ % TML_TABLE_STUCK] = event;
    }
}

/* The newest step's end: once it has completed, so has all before it on its stream. */
static void poll_newest(struct tml_step_table *table)
{
    for (uint64_t iteration = table->newest; iteration >= table->oldest; iteration--) {
        const struct tml_table_row *row = &table->rows[iteration % TML_TABLE_ROWS];
        if (row->step == TML_TABLE_NONE)
            continue;
        const struct tml_table_span *step = &table->spans[row->step];
        if (step->record.end_event && tml_cuda_usable(tml_recording.cuda) &&
            tml_cuda_query(tml_recording.cuda, step->record.end_event) == 0) {
            table->done_iteration = iteration;
            table->done = *step;
        }
        return;
    }
}

void tml_step_table_poll(struct tml_step_table *table)
{
    uint64_t lost = tml_recorders_loss(TML_LOSS_RING_FULL) + tml_recorders_loss(TML_LOSS_STACK_FULL) +
                    table->losses[TML_LOSS_ROW_FULL];
    if (lost != table->losses_seen)
        /* Relaxed: a loss that is seen is of an iteration that had begun. */
        table->lossy_until = atomic_load_explicit(&tml_recording.iteration, memory_order_relaxed);
    table->losses_seen = lost;
    for (unsigned i = 0; i < 2 * TML_COST_HALVES; i++)
        table->cost_ns[i / TML_COST_HALVES][i % TML_COST_HALVES] =
            tml_recorders_cost_ns(i / TML_COST_HALVES, i % TML_COST_HALVES);
    poll_stuck(table);
    poll_newest(table);
}

/* ---- Closing ---- */

/* Waiting longer would lose spans of later steps. */
static bool crowded(const struct tml_step_table *table)
{
    return table->free_spans < 2 * TML_TABLE_ROWS || table->newest - table->oldest >= TML_TABLE_ROWS / 2;
}

static bool overdue(const struct tml_step_table *table, const struct tml_table_row *row, int64_t now_ns)
{
    return crowded(table) || now_ns - table->spans[row->step].record.end_ns > table->deadline_ns;
}

void tml_step_table_skip(struct tml_step_table *table)
{
    table->losses[TML_LOSS_STEP_LOST]++;
    tml_step_table_release(table, &table->rows[table->oldest % TML_TABLE_ROWS]);
    /* Where the next iteration begins is not known any more. */
    tml_step_table_give_back(&table->previous_end);
    table->previous_end.event = NULL;
    table->previous_end_ns = TML_NS_NONE;
    table->next_step++;
    table->oldest++;
}

void tml_step_table_abandon(struct tml_step_table *table)
{
    for (; table->oldest <= table->newest; table->oldest++)
        tml_step_table_release(table, &table->rows[table->oldest % TML_TABLE_ROWS]);
    for (; table->stuck_tail != table->stuck_head; table->stuck_tail++)
        tml_step_table_give_back(&table->stuck[table->stuck_tail % TML_TABLE_STUCK]);
    tml_step_table_give_back(&table->previous_end);
    table->previous_end.event = NULL;
}

/* A step whose own record was dropped: a later one is whole, so it will not come any more. */
static bool step_lost(const struct tml_step_table *table)
{
    for (uint64_t iteration = table->oldest + 1; iteration <= table->newest; iteration++)
        if (table->rows[iteration % TML_TABLE_ROWS].drained)
            return true;
    return false;
}

bool tml_step_table_next(struct tml_step_table *table, int64_t now_ns, bool give_up, struct tml_step_row *out)
{
    while (table->oldest <= table->newest) {
        struct tml_table_row *row = &table->rows[table->oldest % TML_TABLE_ROWS];
        if (row->step == TML_TABLE_NONE) {
            if (!step_lost(table))
                return false;
            tml_step_table_skip(table);
            continue;
        }
        if (!row->drained || !tml_step_table_try_resolve(table, row, give_up || overdue(table, row, now_ns)))
            return false;
        tml_step_table_fill(table, row, out);
        tml_step_table_release(table, row);
        table->oldest++;
        return true;
    }
    return false;
}
