/* Closing an iteration: where it begins, the ledgers of both clocks, the row. */
#include <string.h>

#include "step_table.h"

/* The previous step's end on this step's time line; TML_NS_NONE with the reason. */
static int64_t iteration_begin_device_ns(const struct tml_step_table *table, const struct tml_table_span *step,
                                         enum tml_reason *reason)
{
    const struct tml_table_span *previous = &table->previous;
    int64_t begin_ns = TML_NS_NONE;
    if (table->previous_end_ns == TML_NS_NONE)
        *reason = step->record.iteration == 1 ? TML_REASON_FIRST_ITERATION : TML_REASON_RECORDS_LOST;
    else if (!table->previous_end.event)
        *reason = previous->record.no_device ? previous->record.no_device : TML_REASON_EVENTS_LOST;
    else if (!tml_table_span_same_stream(previous, step))
        *reason = TML_REASON_STREAM_CHANGED;
    else if ((begin_ns = tml_cuda_elapsed_ns(tml_recording.cuda, step->record.begin_event,
                                             table->previous_end.event)) == TML_NS_NONE)
        *reason = TML_REASON_DEVICE_ERROR;
    return begin_ns;
}

/* ---- Row ---- */

/* A fetch before the step, on its thread. */
static bool is_pre_step_fetch(const struct tml_table_span *step, const struct tml_table_span *span)
{
    return span->record.phase == TRACEML_PHASE_DATALOADER_FETCH &&
           tml_table_span_region(step, span) == TML_REGION_PRE && tml_table_span_same_thread(step, span);
}

/* Gradients are off or an evaluation is around it: it feeds a validation and no step. (Its time is not called evaluation
 * for the first of these alone: of a validation it is only a part.) */
static bool feeds_no_step(const struct tml_record *fetch)
{
    return (fetch->flags & TRACEML_SPAN_NO_GRAD) || fetch->fetch.apart;
}

/* Before the step, whose input wait is a fetch? Here and once, when the row is whole: only then is it known what came
 * after it. Records of one thread stand in the order of their ends. */
static void sort_fetches(struct tml_step_table *table, const struct tml_table_row *row)
{
    const struct tml_table_span *step = &table->spans[row->step];
    tml_feeders_begin(&table->feeders);
    for (uint32_t i = row->first; i != TML_TABLE_NONE; i = table->spans[i].next) {
        const struct tml_record *fetch = &table->spans[i].record;
        if (is_pre_step_fetch(step, &table->spans[i]) && !feeds_no_step(fetch))
            tml_feeders_see(&table->feeders, fetch->fetch.loader, fetch->fetch.pass,
                            fetch->flags & TRACEML_SPAN_FIRST_FETCH);
    }
    tml_feeders_decide(&table->feeders, step->record.iteration);
    for (uint32_t i = row->first; i != TML_TABLE_NONE; i = table->spans[i].next) {
        struct tml_table_span *span = &table->spans[i];
        if (is_pre_step_fetch(step, span))
            span->apart =
                feeds_no_step(&span->record) || !tml_feeders_next_is_own(&table->feeders, span->record.fetch.loader);
    }
}

/* An update that was left out has taken no time of its own. */
static bool is_skipped(const struct tml_record *span)
{
    return span->phase == TRACEML_PHASE_OPTIMIZER && (span->flags & TRACEML_SPAN_SKIPPED);
}

static bool is_member(const struct tml_table_span *step, const struct tml_table_span *span, enum tml_clock clock)
{
    if (span->apart || is_skipped(&span->record))
        return false;
    if (clock == TML_CLOCK_CPU)
        return tml_table_span_same_thread(step, span);
    return tml_table_span_resolved(span) && tml_table_span_same_thread(step, span) &&
           tml_table_span_same_stream(step, span);
}

static uint32_t hook_cost_ns(unsigned phase)
{
    /* Relaxed: a figure on its own. */
    return atomic_load_explicit(&tml_recording.hook_cost_ns[phase], memory_order_relaxed);
}

static uint32_t half_cost_ns(const struct tml_step_table *table, const struct tml_record *span, enum tml_cost_half half)
{
    return table->cost_ns[span->no_device == 0][half] + hook_cost_ns(span->phase) / 2;
}

static uint8_t name_of(const struct tml_record *record)
{
    return record->phase == TRACEML_PHASE_USER ? (uint8_t)record->name : TML_SPAN_NAME_OTHER;
}

static bool near_zero(int64_t lead_ns)
{
    return lead_ns != TML_NS_NONE && lead_ns < TML_LEAD_NEAR_ZERO_NS;
}

/* Each event takes its time on the device after its time stamp. Where the device waits for the host, it waits for the
 * host's work on the event too: before a begin, after an end. */
static struct tml_ledger_span device_member_of(const struct tml_step_table *table, const struct tml_table_span *span)
{
    bool waits_at_begin = near_zero(tml_step_table_lead_ns(table, span, TML_COST_BEGIN));
    bool waits_at_end = near_zero(tml_step_table_lead_ns(table, span, TML_COST_END));
    return (struct tml_ledger_span){
        .phase = span->record.phase,
        .name = name_of(&span->record),
        .begin_ns = span->begin_device_ns,
        .end_ns = span->end_device_ns,
        .before_begin_ns = waits_at_begin ? half_cost_ns(table, &span->record, TML_COST_BEGIN) : 0,
        .after_begin_ns = waits_at_begin ? 0 : TML_DEVICE_RECORD_NS,
        .after_end_ns = waits_at_end ? half_cost_ns(table, &span->record, TML_COST_END) : TML_DEVICE_RECORD_NS,
    };
}

static struct tml_ledger_span member_of(const struct tml_step_table *table, const struct tml_table_span *span,
                                        enum tml_clock clock)
{
    if (clock == TML_CLOCK_GPU)
        return device_member_of(table, span);
    return (struct tml_ledger_span){
        .phase = span->record.phase,
        .name = name_of(&span->record),
        .begin_ns = span->record.begin_ns,
        .end_ns = span->record.end_ns,
        .before_begin_ns = half_cost_ns(table, &span->record, TML_COST_BEGIN),
        .after_end_ns = half_cost_ns(table, &span->record, TML_COST_END),
    };
}

/* The spans that the GPU's ledger cannot do without; the first that has no device time on the step's stream decides. */
static enum tml_reason missing_on_gpu(const struct tml_record *step, const struct tml_table_span *span)
{
    unsigned phase = span->record.phase;
    bool beside = span->record.device != step->device || span->record.stream != step->stream;
    if (phase != TRACEML_PHASE_STEP && phase != TRACEML_PHASE_FORWARD && phase != TRACEML_PHASE_BACKWARD &&
        phase != TRACEML_PHASE_OPTIMIZER && phase != TRACEML_PHASE_DATALOADER_FETCH &&
        (phase != TRACEML_PHASE_H2D || beside)) /* a copy beside the step's stream takes no time of it */
        return TML_REASON_NONE;
    if (!tml_table_span_resolved(span))
        return span->record.no_device ? span->record.no_device : TML_REASON_EVENTS_LOST;
    if (span->record.device != step->device)
        return TML_REASON_MULTI_DEVICE;
    return span->record.stream != step->stream ? TML_REASON_OTHER_STREAM : TML_REASON_NONE;
}

static void count(struct tml_step_row *out, const struct tml_table_span *step, const struct tml_table_span *span)
{
    enum tml_region region = tml_table_span_region(step, span);
    struct tml_cell *cell = &out->cell[region][span->record.phase];
    bool elsewhere = !tml_table_span_same_thread(step, span);
    if (is_skipped(&span->record)) {
        out->flags |= elsewhere ? 0 : TML_STEP_FLAG_OPTIMIZER_SKIPPED;
        return;
    }
    cell->count++;
    cell->other_count += elsewhere;
    out->beside[region][span->record.phase].count += tml_table_span_beside(step, span);
    if (span->record.phase == TRACEML_PHASE_USER) {
        out->own[region][span->record.name].count++;
        out->own[region][span->record.name].other_count += elsewhere;
    }
    if (elsewhere)
        return;
    out->microbatches += span->record.phase == TRACEML_PHASE_BACKWARD && region == TML_REGION_IN;
    if (span->record.flags & TRACEML_SPAN_FIRST_FETCH)
        out->flags |= TML_STEP_FLAG_FIRST_FETCH;
    if (span->record.no_device == TML_REASON_TIMED_OUT)
        out->flags |= TML_STEP_FLAG_TIMED_OUT;
    if (out->gpu_reason == TML_REASON_NONE)
        out->gpu_reason = missing_on_gpu(&step->record, span);
}

/* Compute outside of the step is no part of input delivery. */
static int64_t compute_outside_ns(const struct tml_ledger *ledger)
{
    const int64_t *pre = ledger->exclusive_ns[TML_REGION_PRE];
    return pre[TRACEML_PHASE_FORWARD] + pre[TRACEML_PHASE_BACKWARD] + pre[TRACEML_PHASE_OPTIMIZER];
}

static void take_ledger(struct tml_step_row *out, const struct tml_ledger *ledger, enum tml_clock clock)
{
    int64_t *term = out->term_ns[clock];
    bool whole = ledger->iteration_ns != TML_NS_NONE;
    term[TML_TERM_ITERATION] = ledger->iteration_ns;
    term[TML_TERM_TRACED_STEP] = ledger->traced_step_ns;
    term[TML_TERM_PRE_STEP_OTHER] = whole ? ledger->pre_step_other_ns + compute_outside_ns(ledger) : TML_NS_NONE;
    term[TML_TERM_RESIDUAL] = ledger->residual_ns;
    term[TML_TERM_INSTRUMENTATION_PRE] = ledger->exclusive_ns[TML_REGION_PRE][TML_LEDGER_INSTRUMENTATION];
    term[TML_TERM_INSTRUMENTATION] = ledger->exclusive_ns[TML_REGION_IN][TML_LEDGER_INSTRUMENTATION];
    if (ledger->residual_ns < 0 || (whole && ledger->pre_step_other_ns < 0))
        out->flags |= TML_STEP_FLAG_NEGATIVE_REMAINDER;
    for (unsigned region = 0; region < TML_REGIONS; region++)
        for (unsigned phase = 0; phase < TRACEML_PHASE_COUNT; phase++) {
            struct tml_cell *cell = &out->cell[region][phase];
            if (phase == TRACEML_PHASE_STEP || cell->count == cell->other_count)
                continue;
            cell->exclusive_ns[clock] = ledger->exclusive_ns[region][phase];
            cell->inclusive_ns[clock] = ledger->inclusive_ns[region][phase];
        }
    for (unsigned region = 0; region < TML_REGIONS; region++)
        for (unsigned name = 0; name < TML_SPAN_NAMES; name++) {
            struct tml_cell *cell = &out->own[region][name];
            if (cell->count == cell->other_count)
                continue;
            cell->exclusive_ns[clock] = ledger->named_exclusive_ns[region][name];
            cell->inclusive_ns[clock] = ledger->named_inclusive_ns[region][name];
        }
}

/* A cell stands on the GPU clock only when each of its spans on the step's stream does: a sum with a hole is no sum. Spans
 * beside it are told apart; where all are, there is none of the step's own. */
static void forget_holes(const struct tml_step_table *table, const struct tml_table_row *row, struct tml_step_row *out)
{
    const struct tml_table_span *step = &table->spans[row->step];
    for (uint32_t i = row->first; i != TML_TABLE_NONE; i = table->spans[i].next) {
        const struct tml_table_span *span = &table->spans[i];
        if (!is_member(step, span, TML_CLOCK_CPU) || is_member(step, span, TML_CLOCK_GPU))
            continue;
        enum tml_region region = tml_table_span_region(step, span);
        struct tml_cell *cell = &out->cell[region][span->record.phase];
        uint32_t here = cell->count - cell->other_count - out->beside[region][span->record.phase].count;
        if (!tml_table_span_beside(step, span) || here == 0)
            cell->exclusive_ns[TML_CLOCK_GPU] = cell->inclusive_ns[TML_CLOCK_GPU] = TML_NS_NONE;
        cell = &out->own[region][name_of(&span->record)];
        if (span->record.phase == TRACEML_PHASE_USER)
            cell->exclusive_ns[TML_CLOCK_GPU] = cell->inclusive_ns[TML_CLOCK_GPU] = TML_NS_NONE;
    }
}

static unsigned gather(struct tml_step_table *table, const struct tml_table_row *row, enum tml_clock clock)
{
    const struct tml_table_span *step = &table->spans[row->step];
    unsigned members = 0;
    for (uint32_t i = row->first; i != TML_TABLE_NONE; i = table->spans[i].next)
        if (is_member(step, &table->spans[i], clock))
            table->members[members++] = member_of(table, &table->spans[i], clock);
    return members;
}

static void fill_gpu(struct tml_step_table *table, struct tml_table_row *row, struct tml_step_row *out)
{
    const struct tml_table_span *step = &table->spans[row->step];
    if (!tml_table_span_resolved(step)) {
        out->gpu_reason = step->record.no_device ? step->record.no_device : TML_REASON_EVENTS_LOST;
        return;
    }
    tml_step_table_fill_lead(table, row, out);
    enum tml_reason no_beginning = TML_REASON_NONE;
    int64_t begin_ns = iteration_begin_device_ns(table, step, &no_beginning);
    struct tml_ledger ledger;
    unsigned members = gather(table, row, TML_CLOCK_GPU);
    uint32_t carried_ns = near_zero(table->previous_end_lead_ns)
                              ? half_cost_ns(table, &table->previous.record, TML_COST_END)
                              : TML_DEVICE_RECORD_NS;
    tml_ledger_close(&ledger, table->members, members, begin_ns, 0, step->end_device_ns, carried_ns);
    take_ledger(out, &ledger, TML_CLOCK_GPU);
    forget_holes(table, row, out);
    tml_step_table_fill_beside(table, row, begin_ns, out);
    if (no_beginning == TML_REASON_STREAM_CHANGED)
        out->flags |= TML_STEP_FLAG_STREAM_CHANGED;
    if (out->gpu_reason == TML_REASON_NONE)
        out->gpu_reason = no_beginning;
    out->gpu_complete = out->gpu_reason == TML_REASON_NONE;
}

static void fill_cpu(struct tml_step_table *table, struct tml_table_row *row, struct tml_step_row *out)
{
    const struct tml_record *step = &table->spans[row->step].record;
    struct tml_ledger ledger;
    unsigned members = gather(table, row, TML_CLOCK_CPU);
    uint32_t carried_ns = half_cost_ns(table, &table->previous.record, TML_COST_END);
    tml_ledger_close(&ledger, table->members, members, table->previous_end_ns, step->begin_ns, step->end_ns,
                     carried_ns);
    take_ledger(out, &ledger, TML_CLOCK_CPU);
}

/* The end event stays with the table: the next iteration begins there. */
static void remember_end(struct tml_step_table *table, struct tml_table_span *step, int64_t lead_ns)
{
    tml_step_table_give_back(&table->previous_end);
    table->previous_end = (struct tml_table_event){NULL, step->record.device, step->recorder};
    if (tml_table_span_resolved(step)) {
        table->previous_end.event = step->record.end_event;
        step->record.end_event = NULL;
    }
    table->previous = *step;
    table->previous_end_ns = step->record.end_ns;
    table->previous_end_lead_ns = lead_ns;
}

void tml_step_table_fill(struct tml_step_table *table, struct tml_table_row *row, struct tml_step_row *out)
{
    struct tml_table_span *step = &table->spans[row->step];
    tml_step_row_clear(out);
    if (table->origin_ns == TML_NS_NONE)
        table->origin_ns = step->record.begin_ns;
    out->step = table->next_step;
    out->iteration = step->record.iteration;
    out->end_ns = step->record.end_ns - table->origin_ns;
    out->epoch = step->record.epoch;
    if (table->previous_end_ns == TML_NS_NONE) /* without the previous step's record only a part is known */
        out->flags |= step->record.iteration == 1 ? TML_STEP_FLAG_FIRST : TML_STEP_FLAG_PARTIAL;
    if (step->record.iteration <= table->lossy_until)
        out->flags |= TML_STEP_FLAG_PARTIAL;
    if (step->record.no_device == TML_REASON_TIMED_OUT)
        out->flags |= TML_STEP_FLAG_TIMED_OUT;
    if (step->record.flags & TRACEML_SPAN_ABORTED)
        out->flags |= TML_STEP_FLAG_ABORTED;
    else
        table->next_step++;
    sort_fetches(table, row);
    for (uint32_t i = row->first; i != TML_TABLE_NONE; i = table->spans[i].next)
        if (i != row->step && !table->spans[i].apart)
            count(out, step, &table->spans[i]);
    fill_cpu(table, row, out);
    fill_gpu(table, row, out);
    table->losses[TML_LOSS_NEGATIVE_REMAINDER] += (out->flags & TML_STEP_FLAG_NEGATIVE_REMAINDER) != 0;
    remember_end(table, step, out->lead.ns[TML_BOUNDARY_STEP_END]);
}

void tml_step_table_release(struct tml_step_table *table, struct tml_table_row *row)
{
    for (uint32_t i = row->first, next; i != TML_TABLE_NONE; i = next) {
        struct tml_table_span *span = &table->spans[i];
        next = span->next;
        tml_step_table_give_back(
            &(struct tml_table_event){span->record.begin_event, span->record.device, span->recorder});
        tml_step_table_give_back(
            &(struct tml_table_event){span->record.end_event, span->record.device, span->recorder});
        span->next = table->free_span;
        table->free_span = i;
        table->free_spans++;
    }
    *row = (struct tml_table_row){TML_TABLE_NONE, TML_TABLE_NONE, TML_TABLE_NONE, false};
}
