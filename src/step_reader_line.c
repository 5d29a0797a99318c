/* One line of a step file: its kind is its first key; unknown kinds and keys belong to later versions. */
#include <stdlib.h>
#include <string.h>

#include "step_reader.h"

void tml_rank_run_init(struct tml_rank_run *rank, unsigned number, size_t rows)
{
    *rank = (struct tml_rank_run){.rank = number};
    rank->totals.first_epoch = rank->totals.last_epoch = -1;
    tml_row_store_init(&rank->rows, rows);
}

void tml_rank_run_free(struct tml_rank_run *rank)
{
    free(rank->file);
    tml_json_free(rank->header);
    tml_json_free(rank->state);
    tml_json_free(rank->end);
    tml_row_store_free(&rank->rows);
    *rank = (struct tml_rank_run){0};
}

/* ---- Totals ---- */

static void add_total(struct tml_total *total, const struct tml_total *more)
{
    if (more->n == 0)
        return;
    if (total->n == 0 || more->min_ns < total->min_ns)
        total->min_ns = more->min_ns;
    if (total->n == 0 || more->max_ns > total->max_ns)
        total->max_ns = more->max_ns;
    total->n += more->n;
    if (__builtin_add_overflow(total->sum_ns, more->sum_ns, &total->sum_ns))
        total->sum_ns = INT64_MAX; /* 292 years: a made-up file */
}

static void add_time(struct tml_total *total, int64_t ns)
{
    if (ns != TML_NS_NONE)
        add_total(total, &(struct tml_total){1, ns, ns, ns});
}

static void add_epoch(struct tml_rank_totals *totals, int64_t epoch)
{
    if (epoch < 0)
        return;
    if (totals->first_epoch < 0 || epoch < totals->first_epoch)
        totals->first_epoch = epoch;
    if (epoch > totals->last_epoch)
        totals->last_epoch = epoch;
}

static void add_row(struct tml_rank_totals *totals, const struct tml_step_row *row)
{
    totals->completed++;
    totals->last_step = row->step;
    totals->first_fetches += (row->flags & TML_STEP_FLAG_FIRST_FETCH) != 0;
    totals->microbatches += row->microbatches;
    for (unsigned clock = 0; clock < TML_CLOCKS; clock++) {
        for (unsigned term = 0; term < TML_TERM_COUNT; term++)
            add_time(&totals->term[clock][term], row->term_ns[clock][term]);
        for (unsigned i = 0; i < TML_ROW_CELLS; i++) {
            unsigned region = i / TRACEML_PHASE_COUNT, phase = i % TRACEML_PHASE_COUNT;
            if (row->cell[region][phase].count > 0)
                add_time(&totals->cell[region][phase][clock], row->cell[region][phase].exclusive_ns[clock]);
        }
    }
    for (unsigned i = 0; i < TML_ROW_CELLS; i++)
        totals->occurrences[i / TRACEML_PHASE_COUNT][i % TRACEML_PHASE_COUNT] +=
            row->cell[i / TRACEML_PHASE_COUNT][i % TRACEML_PHASE_COUNT].count;
}

/* ---- A step ---- */

static void add_warmup(struct tml_rank_run *rank, const struct tml_step_row *row)
{
    if (!(row->flags & (TML_STEP_FLAG_FIRST | TML_STEP_FLAG_FIRST_FETCH)))
        return;
    rank->warmup.steps++;
    if (row->flags & TML_STEP_FLAG_FIRST) {
        rank->warmup.has_first = true;
        rank->warmup.first = *row;
    }
}

static const char *take_step(struct tml_rank_run *rank, uint64_t last_common, const struct tml_json *value, bool *oom)
{
    struct tml_step_row row;
    if (!tml_step_row_read(value, &row))
        return "not a step";
    bool aborted = row.flags & TML_STEP_FLAG_ABORTED;
    if (!aborted && rank->totals.completed > rank->totals.folded && row.step <= rank->totals.last_step)
        return "a step number that was there before";
    if (row.end_ns != TML_NS_NONE && row.end_ns > rank->totals.last_end_ns)
        rank->totals.last_end_ns = row.end_ns;
    add_epoch(&rank->totals, row.epoch);
    if (aborted) {
        rank->totals.aborted++;
        return NULL;
    }
    add_row(&rank->totals, &row);
    add_warmup(rank, &row);
    if (row.step <= last_common && !tml_row_store_push(&rank->rows, &row))
        *oom = true;
    return NULL;
}

/* ---- Folded steps ---- */

static const char *const term_keys[] = {
#define TML_X(name, key) key,
    TML_TERM_LIST(TML_X)
#undef TML_X
};

static bool after(const char **at, const char *words)
{
    size_t bytes = strlen(words);
    if (strncmp(*at, words, bytes) != 0)
        return false;
    *at += bytes;
    return true;
}

static struct tml_total *term_total(struct tml_rank_totals *totals, unsigned clock, const char *key)
{
    for (unsigned term = 0; term < TML_TERM_COUNT; term++)
        if (strcmp(term_keys[term], key) == 0)
            return &totals->term[clock][term];
    return NULL;
}

static struct tml_total *cell_total(struct tml_rank_totals *totals, unsigned region, const char *key)
{
    for (unsigned phase = 0; phase < TRACEML_PHASE_COUNT; phase++) {
        const char *at = key;
        if (!after(&at, tml_phase_key(phase)))
            continue;
        if (strcmp(at, ".cpu_ms") == 0)
            return &totals->cell[region][phase][TML_CLOCK_CPU];
        if (strcmp(at, ".gpu_ms") == 0)
            return &totals->cell[region][phase][TML_CLOCK_GPU];
    }
    return NULL;
}

/* Where "cpu.iteration_ms" or "in.forward.gpu_ms" is summed; NULL: not one that we sum. */
static struct tml_total *total_of(struct tml_rank_totals *totals, const char *key)
{
    if (after(&key, "cpu."))
        return term_total(totals, TML_CLOCK_CPU, key);
    if (after(&key, "gpu."))
        return term_total(totals, TML_CLOCK_GPU, key);
    if (after(&key, "pre."))
        return cell_total(totals, TML_REGION_PRE, key);
    return after(&key, "in.") ? cell_total(totals, TML_REGION_IN, key) : NULL;
}

static void take_folded_metric(struct tml_rank_totals *totals, const struct tml_json *metric)
{
    struct tml_total *total = total_of(totals, tml_json_key(metric)), more;
    if (total && tml_json_uint(tml_json_get(metric, "n"), &more.n) &&
        tml_json_ms_as_ns(tml_json_get(metric, "sum"), &more.sum_ns) &&
        tml_json_ms_as_ns(tml_json_get(metric, "min"), &more.min_ns) &&
        tml_json_ms_as_ns(tml_json_get(metric, "max"), &more.max_ns))
        add_total(total, &more);
}

static const char *take_folded(struct tml_rank_run *rank, const struct tml_json *folded)
{
    uint64_t count, last, aborted = 0;
    if (!tml_json_uint(tml_json_get(folded, "count"), &count) || !tml_json_uint(tml_json_get(folded, "last"), &last))
        return "not folded steps";
    tml_json_uint(tml_json_get(folded, "aborted"), &aborted);
    struct tml_rank_totals *totals = &rank->totals;
    if (totals->completed == totals->folded && last > totals->last_step)
        totals->last_step = last;
    totals->completed += count;
    totals->folded += count;
    totals->aborted += aborted;
    const struct tml_json *metric = tml_json_first(tml_json_get(folded, "metrics"));
    for (; metric; metric = tml_json_next(metric))
        take_folded_metric(totals, metric);
    return NULL;
}

/* ---- Any line ---- */

/* A second header is a restart by the launcher: the numbering begins anew, and the attempt before is not this run. */
static void restart(struct tml_rank_run *rank)
{
    tml_json_free(rank->state);
    tml_json_free(rank->end);
    rank->state = rank->end = NULL;
    tml_row_store_clear(&rank->rows);
    rank->warmup = (struct tml_warmup){0};
    rank->totals = (struct tml_rank_totals){.first_epoch = -1, .last_epoch = -1};
}

static void keep(struct tml_json **slot, struct tml_json **root)
{
    tml_json_free(*slot);
    *slot = *root;
    *root = NULL;
}

static const char *take_value(struct tml_rank_run *rank, uint64_t last_common, struct tml_json **root, bool *known,
                              bool *oom)
{
    if (!tml_json_is_object(*root))
        return "not a JSON object";
    *known = true;
    if (tml_json_get(*root, "step"))
        return take_step(rank, last_common, *root, oom);
    if (tml_json_is_object(tml_json_get(*root, "folded")))
        return take_folded(rank, tml_json_get(*root, "folded"));
    if (tml_json_is_object(tml_json_get(*root, "header"))) {
        if (rank->attempts++ > 0)
            restart(rank);
        keep(&rank->header, root);
    } else if (tml_json_is_object(tml_json_get(*root, "state"))) {
        keep(&rank->state, root);
    } else if (tml_json_is_object(tml_json_get(*root, "end"))) {
        keep(&rank->end, root);
    } else {
        *known = false;
    }
    return NULL;
}

const char *tml_rank_take_line(struct tml_rank_run *rank, uint64_t last_common, const char *line, size_t bytes,
                               bool *known, bool *oom)
{
    struct tml_json *root = tml_json_parse(line, bytes);
    if (!root)
        return "not JSON";
    bool is_known = false;
    const char *wrong = take_value(rank, last_common, &root, &is_known, oom);
    *known = *known || (is_known && !wrong);
    tml_json_free(root);
    return wrong;
}

/* ---- What the header says ---- */

static const struct tml_json *header_of(const struct tml_rank_run *rank)
{
    return tml_json_get(rank->header, "header");
}

uint32_t tml_rank_armed(const struct tml_rank_run *rank)
{
    uint32_t armed = 0;
    const struct tml_json *child = tml_json_first(tml_json_get(header_of(rank), "armed"));
    for (; child; child = tml_json_next(child)) {
        int phase = tml_json_string(child) ? tml_phase_from_key(tml_json_string(child)) : -1;
        if (phase >= 0)
            armed |= 1u << phase;
    }
    return armed;
}

uint32_t tml_rank_seen(const struct tml_rank_run *rank)
{
    uint32_t seen = 0;
    for (unsigned i = 0; i < TML_ROW_CELLS; i++) {
        unsigned region = i / TRACEML_PHASE_COUNT, phase = i % TRACEML_PHASE_COUNT;
        bool folded = rank->totals.cell[region][phase][TML_CLOCK_CPU].n > 0;
        if (folded || rank->totals.occurrences[region][phase] > 0)
            seen |= 1u << phase;
    }
    return seen;
}

bool tml_rank_on_cuda(const struct tml_rank_run *rank)
{
    const char *device = tml_json_string(tml_json_get(header_of(rank), "device"));
    if (device)
        return strncmp(device, "cuda", 4) == 0;
    return rank->totals.term[TML_CLOCK_GPU][TML_TERM_TRACED_STEP].n > 0; /* the header was lost */
}

bool tml_rank_observes_copies(const struct tml_rank_run *rank)
{
    bool observer = false;
    return tml_json_bool(tml_json_get(header_of(rank), "observer"), &observer) && observer;
}
