#include "step_row.h"

#include <string.h>

static const char *const term_keys[] = {
#define TML_X(name, key) key,
    TML_TERM_LIST(TML_X)
#undef TML_X
};

/* In the cell of the own spans: those of each name. */
#define OWN_KEY "names"
static const struct {
    const char *key, *words;
} boundaries[] = {
#define TML_X(name, key, words) {key, words},
    TML_BOUNDARY_LIST(TML_X)
#undef TML_X
};

static const char *const region_keys[TML_REGIONS] = {"pre", "in"};
static const char *const cell_keys[TML_CLOCKS][2] = {{"cpu_ms", "cpu_inclusive_ms"}, {"gpu_ms", "gpu_inclusive_ms"}};

const char *tml_region_key(enum tml_region region)
{
    return region_keys[region];
}

const char *tml_term_key(enum tml_term term)
{
    return term_keys[term];
}

const char *tml_cell_key(enum tml_clock clock, bool inclusive)
{
    return cell_keys[clock][inclusive];
}

static void clear_cells(struct tml_cell *cells, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        for (unsigned clock = 0; clock < TML_CLOCKS; clock++)
            cells[i].exclusive_ns[clock] = cells[i].inclusive_ns[clock] = TML_NS_NONE;
}

const char *tml_boundary_key(enum tml_boundary boundary)
{
    return boundaries[boundary].key;
}

const char *tml_boundary_words(enum tml_boundary boundary)
{
    return boundaries[boundary].words;
}

void tml_step_row_clear(struct tml_step_row *row)
{
    memset(row, 0, sizeof *row);
    row->end_ns = TML_NS_NONE;
    row->epoch = -1;
    for (unsigned clock = 0; clock < TML_CLOCKS; clock++)
        for (unsigned term = 0; term < TML_TERM_COUNT; term++)
            row->term_ns[clock][term] = TML_NS_NONE;
    for (unsigned region = 0; region < TML_REGIONS; region++) {
        clear_cells(row->cell[region], TRACEML_PHASE_COUNT);
        clear_cells(row->own[region], TML_SPAN_NAMES);
        for (unsigned phase = 0; phase < TRACEML_PHASE_COUNT; phase++)
            row->beside[region][phase] = (struct tml_beside){0, TML_NS_NONE, TML_NS_NONE};
    }
    row->lead.error_ns = TML_NS_NONE;
    for (unsigned boundary = 0; boundary < TML_BOUNDARY_COUNT; boundary++)
        row->lead.ns[boundary] = TML_NS_NONE;
}

/* ---- Writing ---- */

static void write_flags(struct tml_json_writer *writer, uint32_t flags)
{
    if (flags == 0)
        return;
    tml_json_begin_array(writer, "flags");
    for (unsigned bit = 0; bit < TML_STEP_FLAG_COUNT; bit++)
        if (flags & (1u << bit))
            tml_json_write_string(writer, NULL, tml_step_flag_key(bit));
    tml_json_end_array(writer);
}

static bool any_term(const int64_t *term_ns)
{
    for (unsigned term = 0; term < TML_TERM_COUNT; term++)
        if (term_ns[term] != TML_NS_NONE)
            return true;
    return false;
}

static void write_terms(struct tml_json_writer *writer, enum tml_clock clock, const int64_t *term_ns)
{
    tml_json_begin_object(writer, tml_clock_key(clock));
    for (unsigned term = 0; term < TML_TERM_COUNT; term++)
        tml_json_write_ns_as_ms(writer, term_keys[term], term_ns[term]);
    tml_json_end_object(writer);
}

/* Incomplete terms on the GPU are evidence too: what was measured is written, with the reason beside it. */
static void write_clocks(struct tml_json_writer *writer, const struct tml_step_row *row)
{
    write_terms(writer, TML_CLOCK_CPU, row->term_ns[TML_CLOCK_CPU]);
    if (row->gpu_complete || any_term(row->term_ns[TML_CLOCK_GPU]))
        write_terms(writer, TML_CLOCK_GPU, row->term_ns[TML_CLOCK_GPU]);
    if (!row->gpu_complete)
        tml_json_write_string(writer, "gpu_reason", tml_reason_key(row->gpu_reason));
}

static void write_cell(struct tml_json_writer *writer, const char *key, const struct tml_cell *cell,
                       const struct tml_beside *beside, const struct tml_cell *own);

static void write_own(struct tml_json_writer *writer, const struct tml_cell *own)
{
    bool open = false;
    for (unsigned name = 0; name < TML_SPAN_NAMES; name++) {
        if (own[name].count == 0)
            continue;
        if (!open)
            tml_json_begin_object(writer, OWN_KEY);
        open = true;
        write_cell(writer, tml_span_name_text(&tml_span_names, name), &own[name], NULL, NULL);
    }
    if (open)
        tml_json_end_object(writer);
}

static void write_beside(struct tml_json_writer *writer, const struct tml_beside *beside)
{
    tml_json_begin_object(writer, TML_BESIDE_KEY);
    tml_json_write_uint(writer, "count", beside->count);
    tml_json_write_ns_as_ms(writer, TML_BESIDE_DEVICE_KEY, beside->device_ns);
    tml_json_write_ns_as_ms(writer, TML_BESIDE_OVERLAP_KEY, beside->overlap_ns);
    tml_json_end_object(writer);
}

/* `own`: the cell is that of all own spans, these are those of each name. */
static void write_cell(struct tml_json_writer *writer, const char *key, const struct tml_cell *cell,
                       const struct tml_beside *beside, const struct tml_cell *own)
{
    tml_json_begin_object(writer, key);
    tml_json_write_uint(writer, "count", cell->count);
    for (unsigned clock = 0; clock < TML_CLOCKS; clock++)
        tml_json_write_ns_as_ms(writer, cell_keys[clock][0], cell->exclusive_ns[clock]);
    for (unsigned clock = 0; clock < TML_CLOCKS; clock++)
        if (cell->inclusive_ns[clock] != cell->exclusive_ns[clock])
            tml_json_write_ns_as_ms(writer, cell_keys[clock][1], cell->inclusive_ns[clock]);
    if (cell->other_count > 0)
        tml_json_write_uint(writer, "other", cell->other_count);
    if (beside && beside->count > 0)
        write_beside(writer, beside);
    if (own)
        write_own(writer, own);
    tml_json_end_object(writer);
}

static void write_region(struct tml_json_writer *writer, unsigned region, const struct tml_step_row *row)
{
    const struct tml_cell *cells = row->cell[region];
    bool open = false;
    for (unsigned phase = 0; phase < TRACEML_PHASE_COUNT; phase++) {
        if (cells[phase].count == 0)
            continue;
        if (!open)
            tml_json_begin_object(writer, region_keys[region]);
        open = true;
        write_cell(writer, tml_phase_key(phase), &cells[phase], &row->beside[region][phase],
                   phase == TRACEML_PHASE_USER ? row->own[region] : NULL);
    }
    if (open)
        tml_json_end_object(writer);
}

static void write_lead(struct tml_json_writer *writer, const struct tml_device_lead *lead)
{
    if (lead->error_ns == TML_NS_NONE) {
        if (lead->reason != TML_REASON_NONE)
            tml_json_write_string(writer, "lead_reason", tml_reason_key(lead->reason));
        return;
    }
    tml_json_begin_object(writer, "lead");
    for (unsigned boundary = 0; boundary < TML_BOUNDARY_COUNT; boundary++)
        if (lead->ns[boundary] != TML_NS_NONE)
            tml_json_write_ns_as_ms(writer, boundaries[boundary].key, lead->ns[boundary]);
    tml_json_write_ns_as_ms(writer, "error_ms", lead->error_ns);
    tml_json_end_object(writer);
}

size_t tml_step_row_write(const struct tml_step_row *row, char *line, size_t bytes)
{
    struct tml_json_writer writer;
    tml_json_writer_fixed(&writer, line, bytes);
    tml_json_begin_object(&writer, NULL);
    tml_json_write_uint(&writer, "step", row->step);
    tml_json_write_uint(&writer, "iteration", row->iteration);
    tml_json_write_ns_as_ms(&writer, "end_ms", row->end_ns);
    if (row->epoch >= 0)
        tml_json_write_int(&writer, "epoch", row->epoch);
    if (row->microbatches > 0)
        tml_json_write_uint(&writer, "microbatches", row->microbatches);
    write_flags(&writer, row->flags);
    write_clocks(&writer, row);
    for (unsigned region = 0; region < TML_REGIONS; region++)
        write_region(&writer, region, row);
    write_lead(&writer, &row->lead);
    tml_json_end_object(&writer);
    if (writer.failed)
        return 0;
    line[writer.length] = '\n'; /* in the place of the NUL */
    return writer.length + 1;
}

/* ---- Reading: an absent key leaves what tml_step_row_clear() put there, a key of a wrong type spoils the line ---- */

static bool read_ns(const struct tml_json *object, const char *key, int64_t *ns)
{
    const struct tml_json *value = tml_json_get(object, key);
    if (!value)
        return true;
    *ns = TML_NS_NONE;
    return tml_json_is_null(value) || tml_json_ms_as_ns(value, ns);
}

static bool read_uint(const struct tml_json *object, const char *key, uint64_t limit, uint64_t *number)
{
    const struct tml_json *value = tml_json_get(object, key);
    return !value || (tml_json_uint(value, number) && *number <= limit);
}

static bool read_uint32(const struct tml_json *object, const char *key, uint32_t *number)
{
    uint64_t wide = *number;
    bool good = read_uint(object, key, UINT32_MAX, &wide);
    *number = good ? (uint32_t)wide : 0;
    return good;
}

static bool read_epoch(const struct tml_json *line, int64_t *epoch)
{
    uint64_t number = 0;
    if (!tml_json_get(line, "epoch"))
        return true;
    bool good = read_uint(line, "epoch", INT64_MAX, &number);
    *epoch = (int64_t)number;
    return good;
}

/* A flag of a later version is ignored, as unknown keys are. */
static uint32_t flag_of(const char *key)
{
    for (unsigned bit = 0; bit < TML_STEP_FLAG_COUNT; bit++)
        if (strcmp(tml_step_flag_key(bit), key) == 0)
            return 1u << bit;
    return 0;
}

static bool read_flags(const struct tml_json *line, uint32_t *flags)
{
    const struct tml_json *array = tml_json_get(line, "flags");
    if (array && !tml_json_is_array(array))
        return false;
    for (const struct tml_json *child = tml_json_first(array); child; child = tml_json_next(child)) {
        const char *key = tml_json_string(child);
        if (!key)
            return false;
        *flags |= flag_of(key);
    }
    return true;
}

static bool read_terms(const struct tml_json *line, enum tml_clock clock, int64_t *term_ns)
{
    const struct tml_json *terms = tml_json_get(line, tml_clock_key(clock));
    if (!terms)
        return true;
    bool good = tml_json_is_object(terms);
    for (unsigned term = 0; term < TML_TERM_COUNT && good; term++)
        good = read_ns(terms, term_keys[term], &term_ns[term]);
    return good;
}

static bool read_clocks(const struct tml_json *line, struct tml_step_row *row)
{
    const struct tml_json *reason = tml_json_get(line, "gpu_reason");
    if (reason && !tml_json_string(reason))
        return false;
    row->gpu_complete = !reason && tml_json_get(line, tml_clock_key(TML_CLOCK_GPU));
    row->gpu_reason = reason ? tml_reason_from_key(tml_json_string(reason)) : TML_REASON_NONE;
    return read_terms(line, TML_CLOCK_CPU, row->term_ns[TML_CLOCK_CPU]) &&
           read_terms(line, TML_CLOCK_GPU, row->term_ns[TML_CLOCK_GPU]);
}

static bool read_cell(const struct tml_json *object, struct tml_cell *cell)
{
    bool good = tml_json_is_object(object) && tml_json_get(object, "count") &&
                read_uint32(object, "count", &cell->count) && read_uint32(object, "other", &cell->other_count);
    for (unsigned clock = 0; clock < TML_CLOCKS && good; clock++) {
        good = read_ns(object, cell_keys[clock][0], &cell->exclusive_ns[clock]);
        cell->inclusive_ns[clock] = cell->exclusive_ns[clock];
        good = good && read_ns(object, cell_keys[clock][1], &cell->inclusive_ns[clock]);
    }
    return good;
}

static bool read_beside(const struct tml_json *cell, struct tml_beside *beside)
{
    const struct tml_json *object = tml_json_get(cell, TML_BESIDE_KEY);
    return !object || (tml_json_is_object(object) && read_uint32(object, "count", &beside->count) &&
                       read_ns(object, TML_BESIDE_DEVICE_KEY, &beside->device_ns) &&
                       read_ns(object, TML_BESIDE_OVERLAP_KEY, &beside->overlap_ns));
}

static bool read_region(const struct tml_json *line, unsigned region, struct tml_step_row *row)
{
    const struct tml_json *object = tml_json_get(line, region_keys[region]);
    if (object && !tml_json_is_object(object))
        return false;
    for (const struct tml_json *child = tml_json_first(object); child; child = tml_json_next(child)) {
        int phase = tml_phase_from_key(tml_json_key(child));
        if (phase >= 0 &&
            !(read_cell(child, &row->cell[region][phase]) && read_beside(child, &row->beside[region][phase])))
            return false;
    }
    return true;
}

static bool read_lead(const struct tml_json *line, struct tml_device_lead *lead)
{
    const struct tml_json *reason = tml_json_get(line, "lead_reason"), *object = tml_json_get(line, "lead");
    if ((reason && !tml_json_string(reason)) || (object && !tml_json_is_object(object)))
        return false;
    lead->reason = reason ? tml_reason_from_key(tml_json_string(reason)) : TML_REASON_NONE;
    bool good = !object || read_ns(object, "error_ms", &lead->error_ns);
    for (unsigned boundary = 0; boundary < TML_BOUNDARY_COUNT && object && good; boundary++)
        good = read_ns(object, boundaries[boundary].key, &lead->ns[boundary]);
    return good;
}

bool tml_step_row_read(const struct tml_json *value, struct tml_step_row *row)
{
    tml_step_row_clear(row);
    return tml_json_uint(tml_json_get(value, "step"), &row->step) &&
           tml_json_uint(tml_json_get(value, "iteration"), &row->iteration) && tml_json_get(value, "end_ms") &&
           read_ns(value, "end_ms", &row->end_ns) && read_epoch(value, &row->epoch) &&
           read_uint32(value, "microbatches", &row->microbatches) && read_flags(value, &row->flags) &&
           read_clocks(value, row) && read_region(value, TML_REGION_PRE, row) &&
           read_region(value, TML_REGION_IN, row) && read_lead(value, &row->lead);
}

/* ---- Names: in a file they are a text, in a row a number ---- */

static int64_t sum_ns(int64_t a, int64_t b)
{
    int64_t sum;
    return a == TML_NS_NONE || b == TML_NS_NONE || __builtin_add_overflow(a, b, &sum) ? TML_NS_NONE : sum;
}

/* Names beyond the table share a cell. */
static void merge_cell(struct tml_cell *into, const struct tml_cell *cell)
{
    if (into->count == 0) {
        *into = *cell;
        return;
    }
    into->count += cell->count;
    into->other_count += cell->other_count;
    for (unsigned clock = 0; clock < TML_CLOCKS; clock++) {
        into->exclusive_ns[clock] = sum_ns(into->exclusive_ns[clock], cell->exclusive_ns[clock]);
        into->inclusive_ns[clock] = sum_ns(into->inclusive_ns[clock], cell->inclusive_ns[clock]);
    }
}

static bool read_own(const struct tml_json *object, struct tml_span_names *names, struct tml_cell *own)
{
    if (object && !tml_json_is_object(object))
        return false;
    for (const struct tml_json *child = tml_json_first(object); child; child = tml_json_next(child)) {
        struct tml_cell cell = {0};
        clear_cells(&cell, 1);
        if (!read_cell(child, &cell))
            return false;
        merge_cell(&own[tml_span_name_add(names, tml_json_key(child))], &cell);
    }
    return true;
}

bool tml_step_row_read_own(const struct tml_json *value, struct tml_span_names *names, struct tml_step_row *row)
{
    bool good = true;
    for (unsigned region = 0; region < TML_REGIONS && good; region++) {
        const struct tml_json *cells = tml_json_get(value, region_keys[region]);
        const struct tml_json *all = tml_json_get(cells, tml_phase_key(TRACEML_PHASE_USER));
        good = read_own(tml_json_get(all, OWN_KEY), names, row->own[region]);
    }
    return good;
}
