#include "row_store.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_ROWS 256

void tml_row_store_init(struct tml_row_store *store, size_t limit)
{
    memset(store, 0, sizeof(*store));
    store->limit = limit ? limit : 1;
}

/* ---- Every column, once ---- */

typedef bool visit_column(struct tml_row_column *column, size_t rows, size_t bytes);

static bool each_of_cell(struct tml_row_cell_columns *cell, size_t rows, visit_column *visit)
{
    bool ok = visit(&cell->count, rows, sizeof(uint32_t)) && visit(&cell->other_count, rows, sizeof(uint32_t));
    for (unsigned clock = 0; clock < TML_CLOCKS; clock++)
        ok = ok && visit(&cell->exclusive[clock], rows, sizeof(int64_t)) &&
             visit(&cell->inclusive[clock], rows, sizeof(int64_t));
    return ok;
}

static bool each_of_beside(struct tml_row_beside_columns *beside, size_t rows, visit_column *visit)
{
    return visit(&beside->count, rows, sizeof(uint32_t)) && visit(&beside->device, rows, sizeof(int64_t)) &&
           visit(&beside->overlap, rows, sizeof(int64_t));
}

static bool each_column(struct tml_row_store *store, size_t rows, visit_column *visit)
{
    bool ok = true;
    for (unsigned clock = 0; clock < TML_CLOCKS; clock++)
        for (unsigned term = 0; term < TML_TERM_COUNT; term++)
            ok = ok && visit(&store->term[clock][term], rows, sizeof(int64_t));
    for (unsigned i = 0; i < TML_ROW_CELLS; i++)
        ok = ok && each_of_cell(&store->cell[i], rows, visit) && each_of_beside(&store->beside[i], rows, visit);
    for (unsigned i = 0; store->has_own && i < TML_ROW_OWN_CELLS; i++)
        ok = ok && each_of_cell(&store->own[i], rows, visit);
    for (unsigned boundary = 0; boundary < TML_BOUNDARY_COUNT; boundary++)
        ok = ok && visit(&store->lead[boundary], rows, sizeof(int64_t));
    return ok && visit(&store->lead_error, rows, sizeof(int64_t));
}

static bool drop_column(struct tml_row_column *column, size_t rows, size_t bytes)
{
    (void)rows;
    (void)bytes;
    free(column->values);
    column->values = NULL;
    return true;
}

void tml_row_store_clear(struct tml_row_store *store)
{
    each_column(store, 0, drop_column);
    store->count = store->oldest = 0;
}

void tml_row_store_free(struct tml_row_store *store)
{
    tml_row_store_clear(store);
    free(store->step);
    free(store->flags);
    free(store->gpu_complete);
    free(store->gpu_reason);
    free(store->lead_reason);
    memset(store, 0, sizeof(*store));
}

/* ---- Room ---- */

static bool resize(void **values, size_t rows, size_t bytes)
{
    void *more = realloc(*values, rows * bytes);
    if (!more)
        return false;
    *values = more;
    return true;
}

/* Nothing wraps before the limit is reached, so growing moves no row to another slot. */
static bool resize_column(struct tml_row_column *column, size_t rows, size_t bytes)
{
    return !column->values || resize(&column->values, rows, bytes);
}

static bool grow(struct tml_row_store *store)
{
    size_t rows = store->allocated ? store->allocated * 2 : FIRST_ROWS;
    if (rows > store->limit)
        rows = store->limit;
    void *step = store->step, *flags = store->flags, *complete = store->gpu_complete, *reason = store->gpu_reason;
    void *lead_reason = store->lead_reason;
    bool ok = resize(&step, rows, sizeof(*store->step));
    store->step = step;
    ok = ok && resize(&flags, rows, sizeof(*store->flags));
    store->flags = flags;
    ok = ok && resize(&complete, rows, 1);
    store->gpu_complete = complete;
    ok = ok && resize(&reason, rows, 1);
    store->gpu_reason = reason;
    ok = ok && resize(&lead_reason, rows, 1);
    store->lead_reason = lead_reason;
    if (!ok || !each_column(store, rows, resize_column))
        return false;
    store->allocated = rows;
    return true;
}

static bool make_times(const struct tml_row_store *store, struct tml_row_column *column)
{
    int64_t *values = malloc(store->allocated * sizeof(*values));
    for (size_t i = 0; values && i < store->count; i++)
        values[i] = TML_NS_NONE;
    column->values = values;
    return values;
}

/* ---- One value in and out ---- */

static bool set_time(struct tml_row_store *store, struct tml_row_column *column, size_t slot, int64_t ns)
{
    if (!column->values && (ns == TML_NS_NONE || !make_times(store, column)))
        return ns == TML_NS_NONE;
    ((int64_t *)column->values)[slot] = ns;
    return true;
}

static bool set_count(struct tml_row_store *store, struct tml_row_column *column, size_t slot, uint32_t count)
{
    if (!column->values && count == 0)
        return true;
    if (!column->values)
        column->values = calloc(store->allocated, sizeof(uint32_t));
    if (!column->values)
        return false;
    ((uint32_t *)column->values)[slot] = count;
    return true;
}

static int64_t get_time(const struct tml_row_column *column, size_t slot)
{
    return column->values ? ((const int64_t *)column->values)[slot] : TML_NS_NONE;
}

static uint32_t get_count(const struct tml_row_column *column, size_t slot)
{
    return column->values ? ((const uint32_t *)column->values)[slot] : 0;
}

/* The first inclusive time that differs makes the column: rows before it had equal ones. */
static bool set_inclusive(struct tml_row_store *store, struct tml_row_cell_columns *cell, unsigned clock, size_t slot,
                          int64_t exclusive_ns, int64_t inclusive_ns)
{
    struct tml_row_column *column = &cell->inclusive[clock];
    if (!column->values) {
        if (inclusive_ns == exclusive_ns)
            return true;
        if (!make_times(store, column))
            return false;
        if (cell->exclusive[clock].values)
            memcpy(column->values, cell->exclusive[clock].values, store->count * sizeof(int64_t));
    }
    ((int64_t *)column->values)[slot] = inclusive_ns;
    return true;
}

/* ---- One row in and out ---- */

static bool set_cell(struct tml_row_store *store, struct tml_row_cell_columns *columns, size_t slot,
                     const struct tml_cell *cell)
{
    bool ok = set_count(store, &columns->count, slot, cell->count) &&
              set_count(store, &columns->other_count, slot, cell->other_count);
    for (unsigned clock = 0; ok && clock < TML_CLOCKS; clock++)
        ok = set_time(store, &columns->exclusive[clock], slot, cell->exclusive_ns[clock]) &&
             set_inclusive(store, columns, clock, slot, cell->exclusive_ns[clock], cell->inclusive_ns[clock]);
    return ok;
}

static bool set_beside(struct tml_row_store *store, struct tml_row_beside_columns *columns, size_t slot,
                       const struct tml_beside *beside)
{
    return set_count(store, &columns->count, slot, beside->count) &&
           set_time(store, &columns->device, slot, beside->device_ns) &&
           set_time(store, &columns->overlap, slot, beside->overlap_ns);
}

/* Cells in one row of numbers, as the columns stand. */
static const struct tml_cell *phase_cell(const struct tml_step_row *row, unsigned index)
{
    return &row->cell[index / TRACEML_PHASE_COUNT][index % TRACEML_PHASE_COUNT];
}

static const struct tml_beside *beside_of(const struct tml_step_row *row, unsigned index)
{
    return &row->beside[index / TRACEML_PHASE_COUNT][index % TRACEML_PHASE_COUNT];
}

static const struct tml_cell *own_cell(const struct tml_step_row *row, unsigned index)
{
    return &row->own[index / TML_SPAN_NAMES][index % TML_SPAN_NAMES];
}

static bool has_own(const struct tml_step_row *row)
{
    return row->cell[TML_REGION_PRE][TRACEML_PHASE_USER].count > 0 ||
           row->cell[TML_REGION_IN][TRACEML_PHASE_USER].count > 0;
}

static bool set_lead(struct tml_row_store *store, size_t slot, const struct tml_device_lead *lead)
{
    bool ok = set_time(store, &store->lead_error, slot, lead->error_ns);
    store->lead_reason[slot] = (uint8_t)lead->reason;
    for (unsigned boundary = 0; boundary < TML_BOUNDARY_COUNT; boundary++)
        ok = ok && set_time(store, &store->lead[boundary], slot, lead->ns[boundary]);
    return ok;
}

static bool set_row(struct tml_row_store *store, size_t slot, const struct tml_step_row *row)
{
    bool ok = true;
    store->step[slot] = row->step;
    store->flags[slot] = row->flags;
    store->gpu_complete[slot] = row->gpu_complete;
    store->gpu_reason[slot] = (uint8_t)row->gpu_reason;
    for (unsigned clock = 0; clock < TML_CLOCKS; clock++)
        for (unsigned term = 0; term < TML_TERM_COUNT; term++)
            ok = ok && set_time(store, &store->term[clock][term], slot, row->term_ns[clock][term]);
    for (unsigned i = 0; i < TML_ROW_CELLS; i++)
        ok = ok && set_cell(store, &store->cell[i], slot, phase_cell(row, i)) &&
             set_beside(store, &store->beside[i], slot, beside_of(row, i));
    store->has_own = store->has_own || has_own(row);
    for (unsigned i = 0; store->has_own && i < TML_ROW_OWN_CELLS; i++)
        ok = ok && set_cell(store, &store->own[i], slot, own_cell(row, i));
    return ok && set_lead(store, slot, &row->lead);
}

static bool in_limits(int64_t ns, int64_t least_ns)
{
    return ns == TML_NS_NONE || (ns <= TML_ROW_LIMIT_NS && ns >= least_ns);
}

static bool accepts_terms(const int64_t *term_ns)
{
    bool ok = true;
    for (unsigned term = 0; term < TML_TERM_COUNT; term++) {
        bool remainder = term == TML_TERM_PRE_STEP_OTHER || term == TML_TERM_RESIDUAL;
        ok = ok && in_limits(term_ns[term], remainder ? -TML_ROW_LIMIT_NS : 0);
    }
    return ok;
}

static bool accepts_cell(const struct tml_cell *cell)
{
    bool ok = cell->other_count <= cell->count;
    for (unsigned clock = 0; clock < TML_CLOCKS; clock++) {
        int64_t exclusive_ns = cell->exclusive_ns[clock], inclusive_ns = cell->inclusive_ns[clock];
        ok = ok && in_limits(exclusive_ns, 0) && in_limits(inclusive_ns, 0) && inclusive_ns >= exclusive_ns &&
             (cell->count > 0 || inclusive_ns == TML_NS_NONE);
    }
    return ok;
}

static bool accepts_beside(const struct tml_beside *beside, const struct tml_cell *cell)
{
    bool timed = beside->device_ns != TML_NS_NONE;
    return beside->count <= cell->count - cell->other_count && in_limits(beside->device_ns, 0) &&
           in_limits(beside->overlap_ns, 0) && timed == (beside->overlap_ns != TML_NS_NONE) &&
           (!timed || (beside->count > 0 && beside->overlap_ns <= beside->device_ns));
}

/* A lead below zero is one within its error. */
static bool accepts_lead(const struct tml_device_lead *lead)
{
    bool ok = in_limits(lead->error_ns, 0);
    for (unsigned boundary = 0; boundary < TML_BOUNDARY_COUNT; boundary++)
        ok = ok && in_limits(lead->ns[boundary], -TML_ROW_LIMIT_NS);
    return ok;
}

bool tml_row_store_accepts(const struct tml_step_row *row)
{
    bool ok = row->step > 0 && row->iteration > 0 && in_limits(row->end_ns, 0) && accepts_lead(&row->lead);
    for (unsigned clock = 0; clock < TML_CLOCKS; clock++)
        ok = ok && accepts_terms(row->term_ns[clock]);
    for (unsigned i = 0; i < TML_ROW_CELLS; i++)
        ok = ok && accepts_cell(phase_cell(row, i)) && accepts_beside(beside_of(row, i), phase_cell(row, i));
    for (unsigned i = 0; has_own(row) && i < TML_ROW_OWN_CELLS; i++)
        ok = ok && accepts_cell(own_cell(row, i));
    return ok;
}

bool tml_row_store_push(struct tml_row_store *store, const struct tml_step_row *row)
{
    if (store->count == store->allocated && store->allocated < store->limit && !grow(store))
        return false;
    if (store->count < store->limit) {
        if (!set_row(store, store->count, row))
            return false;
        store->count++;
        return true;
    }
    size_t slot = store->oldest;
    store->oldest = (slot + 1) % store->limit;
    return set_row(store, slot, row);
}

static size_t slot_of(const struct tml_row_store *store, size_t index)
{
    size_t slot = store->oldest + index;
    return slot < store->limit ? slot : slot - store->limit;
}

static void get_cell(const struct tml_row_cell_columns *columns, size_t slot, struct tml_cell *cell)
{
    cell->count = get_count(&columns->count, slot);
    cell->other_count = get_count(&columns->other_count, slot);
    for (unsigned clock = 0; clock < TML_CLOCKS; clock++) {
        cell->exclusive_ns[clock] = get_time(&columns->exclusive[clock], slot);
        cell->inclusive_ns[clock] =
            columns->inclusive[clock].values ? get_time(&columns->inclusive[clock], slot) : cell->exclusive_ns[clock];
    }
}

static void get_beside(const struct tml_row_beside_columns *columns, size_t slot, struct tml_beside *beside)
{
    beside->count = get_count(&columns->count, slot);
    beside->device_ns = get_time(&columns->device, slot);
    beside->overlap_ns = get_time(&columns->overlap, slot);
}

void tml_row_store_get(const struct tml_row_store *store, size_t index, struct tml_step_row *row)
{
    size_t slot = slot_of(store, index);
    *row = (struct tml_step_row){
        .step = store->step[slot],
        .flags = store->flags[slot],
        .end_ns = TML_NS_NONE,
        .epoch = -1,
        .gpu_complete = store->gpu_complete[slot],
        .gpu_reason = (enum tml_reason)store->gpu_reason[slot],
    };
    for (unsigned clock = 0; clock < TML_CLOCKS; clock++)
        for (unsigned term = 0; term < TML_TERM_COUNT; term++)
            row->term_ns[clock][term] = get_time(&store->term[clock][term], slot);
    for (unsigned i = 0; i < TML_ROW_CELLS; i++) {
        unsigned region = i / TRACEML_PHASE_COUNT, phase = i % TRACEML_PHASE_COUNT;
        get_cell(&store->cell[i], slot, &row->cell[region][phase]);
        get_beside(&store->beside[i], slot, &row->beside[region][phase]);
    }
    for (unsigned i = 0; store->has_own && i < TML_ROW_OWN_CELLS; i++)
        get_cell(&store->own[i], slot, &row->own[i / TML_SPAN_NAMES][i % TML_SPAN_NAMES]);
    row->lead = (struct tml_device_lead){.error_ns = get_time(&store->lead_error, slot),
                                         .reason = (enum tml_reason)store->lead_reason[slot]};
    for (unsigned boundary = 0; boundary < TML_BOUNDARY_COUNT; boundary++)
        row->lead.ns[boundary] = get_time(&store->lead[boundary], slot);
}

uint64_t tml_row_store_step(const struct tml_row_store *store, size_t index)
{
    return store->step[slot_of(store, index)];
}

uint32_t tml_row_store_flags(const struct tml_row_store *store, size_t index)
{
    return store->flags[slot_of(store, index)];
}

bool tml_row_store_on_gpu(const struct tml_row_store *store, size_t index, enum tml_reason *reason)
{
    size_t slot = slot_of(store, index);
    *reason = (enum tml_reason)store->gpu_reason[slot];
    return store->gpu_complete[slot];
}

int64_t tml_row_store_lead(const struct tml_row_store *store, size_t index, enum tml_boundary boundary)
{
    return get_time(&store->lead[boundary], slot_of(store, index));
}

int64_t tml_row_store_lead_error(const struct tml_row_store *store, size_t index)
{
    return get_time(&store->lead_error, slot_of(store, index));
}
