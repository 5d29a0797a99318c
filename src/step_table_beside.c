/* Spans of the step's thread on other streams: how long they took, and how much of that ran beside the step's own work.
 * Positions are relative to the step's begin event, on whichever stream. */
#include <stdlib.h>

#include "step_table.h"

static int by_begin(const void *left, const void *right)
{
    const struct tml_ledger_span *a = left, *b = right;
    return (a->begin_ns > b->begin_ns) - (a->begin_ns < b->begin_ns);
}

/* Puts them in order and joins those that overlap. Returns how many are left. */
static unsigned join(struct tml_ledger_span *spans, unsigned count)
{
    unsigned joined = 0;
    qsort(spans, count, sizeof *spans, by_begin);
    for (unsigned i = 0; i < count; i++)
        if (joined == 0 || spans[i].begin_ns > spans[joined - 1].end_ns)
            spans[joined++] = spans[i];
        else if (spans[i].end_ns > spans[joined - 1].end_ns)
            spans[joined - 1].end_ns = spans[i].end_ns;
    return joined;
}

static int64_t length_ns(const struct tml_ledger_span *spans, unsigned count)
{
    int64_t sum_ns = 0;
    for (unsigned i = 0; i < count; i++)
        sum_ns += spans[i].end_ns - spans[i].begin_ns;
    return sum_ns;
}

/* Of two joined lists: what both cover. */
static int64_t common_ns(const struct tml_ledger_span *a, unsigned a_count, const struct tml_ledger_span *b,
                         unsigned b_count)
{
    int64_t sum_ns = 0;
    for (unsigned i = 0, j = 0; i < a_count && j < b_count;) {
        int64_t begin_ns = a[i].begin_ns > b[j].begin_ns ? a[i].begin_ns : b[j].begin_ns;
        int64_t end_ns = a[i].end_ns < b[j].end_ns ? a[i].end_ns : b[j].end_ns;
        if (end_ns > begin_ns)
            sum_ns += end_ns - begin_ns;
        if (a[i].end_ns < b[j].end_ns)
            i++;
        else
            j++;
    }
    return sum_ns;
}

static struct tml_ledger_span interval(int64_t begin_ns, int64_t end_ns)
{
    return (struct tml_ledger_span){.begin_ns = begin_ns, .end_ns = end_ns};
}

/* The spans of the step's stream, and all before the iteration: there the stream was still at earlier ones. Takes the
 * step's own place for that. */
static unsigned gather_work(struct tml_step_table *table, const struct tml_table_row *row, int64_t begin_ns)
{
    const struct tml_table_span *step = &table->spans[row->step];
    unsigned count = 0;
    if (begin_ns != TML_NS_NONE)
        table->members[count++] = interval(INT64_MIN, begin_ns);
    for (uint32_t i = row->first; i != TML_TABLE_NONE; i = table->spans[i].next) {
        const struct tml_table_span *span = &table->spans[i];
        if (i != row->step && tml_table_span_resolved(span) && tml_table_span_same_stream(step, span))
            table->members[count++] = interval(span->begin_device_ns, span->end_device_ns);
    }
    return join(table->members, count);
}

/* The intervals beside the step of one phase and region, after the `work` of the step. False: one has no times. */
static bool gather_beside(struct tml_step_table *table, const struct tml_table_row *row, enum tml_region region,
                          unsigned phase, struct tml_ledger_span *into, unsigned *count)
{
    const struct tml_table_span *step = &table->spans[row->step];
    *count = 0;
    for (uint32_t i = row->first; i != TML_TABLE_NONE; i = table->spans[i].next) {
        const struct tml_table_span *span = &table->spans[i];
        if (span->record.phase != phase || span->apart || !tml_table_span_beside(step, span) ||
            tml_table_span_region(step, span) != region)
            continue;
        if (!tml_table_span_resolved(span))
            return false;
        into[(*count)++] = interval(span->begin_device_ns, span->end_device_ns);
    }
    *count = join(into, *count);
    return true;
}

void tml_step_table_fill_beside(struct tml_step_table *table, const struct tml_table_row *row, int64_t begin_ns,
                                struct tml_step_row *out)
{
    bool has_work = false;
    unsigned work = 0, count;
    for (unsigned region = 0; region < TML_REGIONS; region++)
        for (unsigned phase = 0; phase < TRACEML_PHASE_COUNT; phase++) {
            struct tml_beside *beside = &out->beside[region][phase];
            if (beside->count == 0)
                continue;
            if (!has_work)
                work = gather_work(table, row, begin_ns);
            has_work = true;
            struct tml_ledger_span *spans = &table->members[work];
            if (!gather_beside(table, row, (enum tml_region)region, phase, spans, &count))
                continue;
            beside->device_ns = length_ns(spans, count);
            beside->overlap_ns = common_ns(table->members, work, spans, count);
        }
}
