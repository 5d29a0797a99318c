/* Waiting for the device: whether the events of an iteration have completed, and their times on its own line. */
#include "step_table.h"

/* A span of the step's thread on the step's stream has completed when the step's end event has. */
static bool covered_by_step(const struct tml_table_span *step, const struct tml_table_span *span)
{
    return step->record.end_event && tml_table_span_same_thread(step, span) && tml_table_span_same_stream(step, span);
}

/* 0 completed, TML_CUDA_ERROR_NOT_READY, or an error. */
static int ask(void *event)
{
    return tml_cuda_usable(tml_recording.cuda) ? tml_cuda_query(tml_recording.cuda, event) : -1;
}

/* Takes the span's times. 0, or as ask(): NOT_READY if one of its events is still to come after all. */
static int resolve(const struct tml_table_span *step, struct tml_table_span *span)
{
    struct tml_cuda *cuda = tml_recording.cuda;
    if (span->record.device != step->record.device) { /* there is no time between two devices */
        span->record.no_device = TML_REASON_MULTI_DEVICE;
        return 0;
    }
    span->begin_device_ns = tml_cuda_elapsed_ns(cuda, step->record.begin_event, span->record.begin_event);
    span->end_device_ns = tml_cuda_elapsed_ns(cuda, step->record.begin_event, span->record.end_event);
    if (tml_table_span_resolved(span))
        return 0;
    int state = ask(span->record.begin_event);
    if (state == 0)
        state = ask(span->record.end_event);
    if (state != TML_CUDA_ERROR_NOT_READY)
        span->record.no_device = TML_REASON_DEVICE_ERROR;
    return state;
}

/* What does not complete in time keeps its events until it does. */
static void set_stuck(struct tml_step_table *table, struct tml_table_span *span)
{
    void *events[] = {span->record.begin_event, span->record.end_event};
    for (unsigned i = 0; i < 2; i++)
        if (table->stuck_head - table->stuck_tail < TML_TABLE_STUCK)
            table->stuck[table->stuck_head++ % TML_TABLE_STUCK] =
                (struct tml_table_event){events[i], span->record.device, span->recorder};
    span->record.begin_event = span->record.end_event = NULL;
    span->record.no_device = TML_REASON_TIMED_OUT;
    table->losses[TML_LOSS_TIMED_OUT]++;
}

/* That a newer step has completed is believed only together with the times: a stream that was destroyed may have left
 * its handle to another one. */
static int step_state_of(const struct tml_step_table *table, struct tml_table_span *step)
{
    if (!step->record.end_event)
        return -1;
    if (step->record.iteration <= table->done_iteration && tml_table_span_same_stream(step, &table->done) &&
        resolve(step, step) == 0)
        return 0;
    return ask(step->record.end_event);
}

/* NOT_READY when the span's end is still to come. */
static int state_of(const struct tml_step_table *table, const struct tml_table_row *row, int step_state,
                    const struct tml_table_span *span)
{
    const struct tml_table_span *step = &table->spans[row->step];
    if (step_state == 0 && covered_by_step(step, span))
        return 0;
    return ask(span->record.end_event);
}

bool tml_step_table_try_resolve(struct tml_step_table *table, struct tml_table_row *row, bool give_up)
{
    struct tml_table_span *step = &table->spans[row->step];
    int step_state = step_state_of(table, step);
    if (step_state == TML_CUDA_ERROR_NOT_READY && !give_up)
        return false;
    for (int pass = 0; pass < 2; pass++) /* first look whether all have completed, then take the times */
        for (uint32_t i = row->first; i != TML_TABLE_NONE; i = table->spans[i].next) {
            struct tml_table_span *span = &table->spans[i];
            if (!span->record.end_event || tml_table_span_resolved(span))
                continue;
            int state = state_of(table, row, step_state, span);
            if (pass == 1 && state == 0 && step_state == 0)
                state = resolve(step, span);
            else if (pass == 1 && state != TML_CUDA_ERROR_NOT_READY)
                span->record.no_device = state == 0 ? TML_REASON_EVENTS_LOST : TML_REASON_DEVICE_ERROR;
            if (state == TML_CUDA_ERROR_NOT_READY && !give_up)
                return false;
            if (pass == 1 && state == TML_CUDA_ERROR_NOT_READY)
                set_stuck(table, span);
        }
    return true;
}
