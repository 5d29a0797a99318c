#include "step_fold.h"

#include <stdio.h>
#include <string.h>

#define NAME_BYTES 64
#define MOST_BUCKETS 64 /* of one metric in a line: 8 octaves, more than a thousand steps of a run usually span */

static unsigned term_index(unsigned clock, unsigned term)
{
    return clock * TML_TERM_COUNT + term;
}

/* Exclusive and inclusive stand side by side: the index of one is that of the other, give or take the lowest bit. */
static unsigned cell_index(unsigned region, unsigned phase, unsigned clock, bool inclusive)
{
    return TML_STEP_FOLD_TERMS + ((region * TRACEML_PHASE_COUNT + phase) * TML_CLOCKS + clock) * 2 + inclusive;
}

_Static_assert(TML_STEP_FOLD_TERMS % 2 == 0, "an inclusive metric has an odd index");

static bool is_inclusive(unsigned index)
{
    return index >= TML_STEP_FOLD_TERMS && index % 2 == 1;
}

/* "cpu.residual_ms", "in.forward.gpu_inclusive_ms" */
static void name_of(unsigned index, char name[NAME_BYTES])
{
    if (index < TML_STEP_FOLD_TERMS) {
        snprintf(name, NAME_BYTES, "%s.%s", tml_clock_key((enum tml_clock)(index / TML_TERM_COUNT)),
                 tml_term_key((enum tml_term)(index % TML_TERM_COUNT)));
        return;
    }
    unsigned cell = (index - TML_STEP_FOLD_TERMS) / 2, place = cell / TML_CLOCKS;
    snprintf(name, NAME_BYTES, "%s.%s.%s", tml_region_key((enum tml_region)(place / TRACEML_PHASE_COUNT)),
             tml_phase_key(place % TRACEML_PHASE_COUNT),
             tml_cell_key((enum tml_clock)(cell % TML_CLOCKS), is_inclusive(index)));
}

const struct tml_sketch *tml_step_fold_term(const struct tml_step_fold *fold, enum tml_clock clock, enum tml_term term)
{
    return &fold->metric[term_index(clock, term)];
}

const struct tml_sketch *tml_step_fold_cell(const struct tml_step_fold *fold, enum tml_region region,
                                            enum traceml_phase phase, enum tml_clock clock, bool inclusive)
{
    return &fold->metric[cell_index(region, phase, clock, inclusive)];
}

void tml_step_fold_clear(struct tml_step_fold *fold)
{
    fold->first = fold->last = fold->count = fold->aborted = fold->microbatches = 0;
    fold->between = (struct tml_between){0};
    for (unsigned i = 0; i < TML_STEP_FOLD_METRICS; i++)
        if (fold->metric[i].count > 0) /* leaves pages alone that were never written */
            memset(&fold->metric[i], 0, sizeof fold->metric[i]);
}

static void widen(struct tml_step_fold *fold, uint64_t first, uint64_t last)
{
    bool empty = fold->count + fold->aborted == 0;
    if (empty || first < fold->first)
        fold->first = first;
    if (empty || last > fold->last)
        fold->last = last;
}

static void add_cell(struct tml_step_fold *fold, unsigned region, unsigned phase, const struct tml_cell *cell)
{
    for (unsigned clock = 0; clock < TML_CLOCKS && cell->count > 0; clock++) {
        tml_sketch_add(&fold->metric[cell_index(region, phase, clock, false)], cell->exclusive_ns[clock]);
        tml_sketch_add(&fold->metric[cell_index(region, phase, clock, true)], cell->inclusive_ns[clock]);
    }
}

static int64_t pre_step_ns(const struct tml_step_row *row, unsigned phase)
{
    int64_t ns = row->cell[TML_REGION_PRE][phase].exclusive_ns[TML_CLOCK_CPU];
    return ns == TML_NS_NONE ? 0 : ns;
}

/* The first iteration has no beginning: what was before it is start-up. */
static void add_between(struct tml_between *between, const struct tml_step_row *row)
{
    const int64_t *term_ns = row->term_ns[TML_CLOCK_CPU];
    if (!(row->flags & TML_STEP_FLAG_FIRST_FETCH) || term_ns[TML_TERM_ITERATION] == TML_NS_NONE ||
        term_ns[TML_TERM_TRACED_STEP] == TML_NS_NONE)
        return;
    between->count++;
    between->total_ns = tml_ns_add(between->total_ns, term_ns[TML_TERM_ITERATION] - term_ns[TML_TERM_TRACED_STEP]);
    between->fetch_ns = tml_ns_add(between->fetch_ns, pre_step_ns(row, TRACEML_PHASE_DATALOADER_FETCH));
    between->spans_ns = tml_ns_add(between->spans_ns, pre_step_ns(row, TRACEML_PHASE_EVALUATION) +
                                                          pre_step_ns(row, TRACEML_PHASE_CHECKPOINT) +
                                                          pre_step_ns(row, TRACEML_PHASE_USER));
}

void tml_step_fold_add(struct tml_step_fold *fold, const struct tml_step_row *row)
{
    widen(fold, row->step, row->step);
    if (row->flags & TML_STEP_FLAG_ABORTED) {
        fold->aborted++;
        return;
    }
    fold->count++;
    fold->microbatches += row->microbatches;
    add_between(&fold->between, row);
    for (unsigned clock = 0; clock < TML_CLOCKS; clock++)
        for (unsigned term = 0; term < TML_TERM_COUNT; term++)
            tml_sketch_add(&fold->metric[term_index(clock, term)], row->term_ns[clock][term]);
    for (unsigned region = 0; region < TML_REGIONS; region++)
        for (unsigned phase = 0; phase < TRACEML_PHASE_COUNT; phase++)
            add_cell(fold, region, phase, &row->cell[region][phase]);
}

void tml_step_fold_merge(struct tml_step_fold *fold, const struct tml_step_fold *other)
{
    if (other->count + other->aborted == 0)
        return;
    widen(fold, other->first, other->last);
    fold->count += other->count;
    fold->aborted += other->aborted;
    fold->microbatches += other->microbatches;
    fold->between.count += other->between.count;
    fold->between.total_ns = tml_ns_add(fold->between.total_ns, other->between.total_ns);
    fold->between.fetch_ns = tml_ns_add(fold->between.fetch_ns, other->between.fetch_ns);
    fold->between.spans_ns = tml_ns_add(fold->between.spans_ns, other->between.spans_ns);
    for (unsigned i = 0; i < TML_STEP_FOLD_METRICS; i++)
        tml_sketch_merge(&fold->metric[i], &other->metric[i]);
}

/* ---- The line ---- */

/* As in a step line, an inclusive time is there only where it differs. */
static bool is_written(const struct tml_step_fold *fold, unsigned index)
{
    const struct tml_sketch *sketch = &fold->metric[index];
    if (is_inclusive(index))
        return memcmp(sketch, sketch - 1, sizeof *sketch) != 0;
    return sketch->count > 0;
}

static void write_between(struct tml_json_writer *writer, const struct tml_between *between)
{
    if (between->count == 0)
        return;
    tml_json_begin_object(writer, "between");
    tml_json_write_uint(writer, "count", between->count);
    tml_json_write_ns_as_ms(writer, "total_ms", between->total_ns);
    tml_json_write_ns_as_ms(writer, "fetch_ms", between->fetch_ns);
    tml_json_write_ns_as_ms(writer, "spans_ms", between->spans_ns);
    tml_json_end_object(writer);
}

static size_t write_line(const struct tml_step_fold *fold, char *line, size_t bytes, unsigned most_buckets)
{
    struct tml_json_writer writer;
    tml_json_writer_fixed(&writer, line, bytes);
    tml_json_begin_object(&writer, NULL);
    tml_json_begin_object(&writer, "folded");
    tml_json_write_uint(&writer, "first", fold->first);
    tml_json_write_uint(&writer, "last", fold->last);
    tml_json_write_uint(&writer, "count", fold->count);
    tml_json_write_uint(&writer, "aborted", fold->aborted);
    tml_json_write_uint(&writer, "microbatches", fold->microbatches);
    write_between(&writer, &fold->between);
    tml_json_begin_object(&writer, "metrics");
    for (unsigned i = 0; i < TML_STEP_FOLD_METRICS && !writer.failed; i++) {
        char name[NAME_BYTES];
        if (!is_written(fold, i))
            continue;
        name_of(i, name);
        tml_sketch_write(&fold->metric[i], &writer, name, most_buckets);
    }
    tml_json_end_object(&writer);
    tml_json_end_object(&writer);
    tml_json_end_object(&writer);
    if (writer.failed)
        return 0;
    line[writer.length] = '\n'; /* in the place of the NUL */
    return writer.length + 1;
}

/* A line too long gives up buckets, not metrics: totals stay exact and high quantiles good. */
size_t tml_step_fold_write(const struct tml_step_fold *fold, char *line, size_t bytes)
{
    size_t length = 0;
    for (unsigned most_buckets = MOST_BUCKETS; length == 0 && most_buckets > 0; most_buckets /= 2)
        length = write_line(fold, line, bytes, most_buckets);
    return length;
}

/* Not in older files, nor where no iterator began. */
static bool read_between(const struct tml_json *value, struct tml_between *between)
{
    return !value || (tml_json_uint(tml_json_get(value, "count"), &between->count) &&
                      tml_json_ms_as_ns(tml_json_get(value, "total_ms"), &between->total_ns) &&
                      tml_json_ms_as_ns(tml_json_get(value, "fetch_ms"), &between->fetch_ns) &&
                      tml_json_ms_as_ns(tml_json_get(value, "spans_ms"), &between->spans_ns));
}

static bool read_metrics(const struct tml_json *metrics, struct tml_step_fold *fold)
{
    if (!tml_json_is_object(metrics))
        return false;
    for (unsigned i = 0; i < TML_STEP_FOLD_METRICS; i++) {
        char name[NAME_BYTES];
        name_of(i, name);
        const struct tml_json *metric = tml_json_get(metrics, name);
        if (metric && !tml_sketch_read(metric, &fold->metric[i]))
            return false;
        if (!metric && is_inclusive(i))
            fold->metric[i] = fold->metric[i - 1];
    }
    return true;
}

/* No more steps than there are numbers, and no more times of a metric than steps. */
static bool counts_agree(const struct tml_step_fold *fold)
{
    bool ok = fold->first > 0 && fold->first <= fold->last && fold->count <= fold->last - fold->first + 1 &&
              fold->between.count <= fold->count;
    for (unsigned i = 0; i < TML_STEP_FOLD_METRICS; i++)
        ok = ok && fold->metric[i].count <= fold->count;
    return ok;
}

bool tml_step_fold_read(const struct tml_json *value, struct tml_step_fold *fold)
{
    const struct tml_json *folded = tml_json_get(value, "folded");
    const struct tml_json *microbatches = tml_json_get(folded, "microbatches");
    memset(fold, 0, sizeof *fold);
    return tml_json_uint(tml_json_get(folded, "first"), &fold->first) &&
           tml_json_uint(tml_json_get(folded, "last"), &fold->last) &&
           tml_json_uint(tml_json_get(folded, "count"), &fold->count) &&
           tml_json_uint(tml_json_get(folded, "aborted"), &fold->aborted) &&
           (!microbatches || tml_json_uint(microbatches, &fold->microbatches)) &&
           read_between(tml_json_get(folded, "between"), &fold->between) &&
           read_metrics(tml_json_get(folded, "metrics"), fold) && counts_agree(fold);
}
