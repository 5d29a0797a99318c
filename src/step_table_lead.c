/* The device lead: how far the device lags behind the host, by the clock tie. */
#include "step_table.h"

int64_t tml_step_table_lead_ns(const struct tml_step_table *table, const struct tml_table_span *span,
                               enum tml_cost_half half)
{
    if (table->begin_host_ns == TML_NS_NONE)
        return TML_NS_NONE;
    return half == TML_COST_BEGIN ? table->begin_host_ns + span->begin_device_ns - span->record.begin_ns
                                  : table->begin_host_ns + span->end_device_ns - span->record.end_ns;
}

static bool on_step(const struct tml_table_span *step, const struct tml_table_span *span)
{
    return span->record.begin_ns >= step->record.begin_ns && tml_table_span_resolved(span) &&
           tml_table_span_same_thread(step, span) && tml_table_span_same_stream(step, span);
}

/* Spans come in the order in which they ended: the first to set a begin is the first. */
static void take_boundaries(const struct tml_step_table *table, const struct tml_table_span *span, int64_t *ns)
{
    int64_t begin_ns = tml_step_table_lead_ns(table, span, TML_COST_BEGIN);
    int64_t end_ns = tml_step_table_lead_ns(table, span, TML_COST_END);
    switch (span->record.phase) {
    case TRACEML_PHASE_FORWARD:
        if (ns[TML_BOUNDARY_FORWARD_BEGIN] == TML_NS_NONE)
            ns[TML_BOUNDARY_FORWARD_BEGIN] = begin_ns;
        ns[TML_BOUNDARY_FORWARD_END] = end_ns;
        break;
    case TRACEML_PHASE_BACKWARD:
        ns[TML_BOUNDARY_BACKWARD_END] = end_ns;
        break;
    case TRACEML_PHASE_OPTIMIZER:
        if (ns[TML_BOUNDARY_OPTIMIZER_BEGIN] == TML_NS_NONE)
            ns[TML_BOUNDARY_OPTIMIZER_BEGIN] = begin_ns;
        break;
    case TRACEML_PHASE_STEP:
        ns[TML_BOUNDARY_STEP_END] = end_ns;
        break;
    default:
        break;
    }
}

/* The host's time stamp lies after the record of a begin and before the record of an end: by up to what half a span
 * costs. */
static int64_t stamp_error_ns(const struct tml_step_table *table)
{
    const uint32_t *cost_ns = table->cost_ns[true];
    return cost_ns[TML_COST_BEGIN] > cost_ns[TML_COST_END] ? cost_ns[TML_COST_BEGIN] : cost_ns[TML_COST_END];
}

void tml_step_table_fill_lead(struct tml_step_table *table, const struct tml_table_row *row, struct tml_step_row *out)
{
    const struct tml_table_span *step = &table->spans[row->step];
    int64_t error_ns;
    table->begin_host_ns = tml_clock_tie_host_ns(&table->tie, tml_recording.cuda, step->record.device,
                                                 step->record.begin_event, &error_ns);
    if (table->begin_host_ns == TML_NS_NONE) {
        out->lead.reason = TML_REASON_NO_CLOCK_TIE;
        return;
    }
    out->lead.error_ns = error_ns + stamp_error_ns(table);
    for (uint32_t i = row->first; i != TML_TABLE_NONE; i = table->spans[i].next)
        if (on_step(step, &table->spans[i]))
            take_boundaries(table, &table->spans[i], out->lead.ns);
}
