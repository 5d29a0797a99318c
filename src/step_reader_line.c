/* One line of a step file: its kind is its first key; unknown kinds and keys belong to later versions. */
#include <stdlib.h>
#include <string.h>

#include "step_reader.h"
#include "step_scan.h"

#define NEARLY_ALL 10u /* for one span here so many elsewhere */

bool tml_rank_run_init(struct tml_rank_run *rank, unsigned number, size_t rows)
{
    *rank = (struct tml_rank_run){.rank = number};
    rank->totals.first_epoch = rank->totals.last_epoch = -1;
    rank->totals.sums = calloc(1, sizeof *rank->totals.sums);
    tml_row_store_init(&rank->rows, rows);
    return rank->totals.sums;
}

void tml_rank_run_free(struct tml_rank_run *rank)
{
    free(rank->file);
    tml_json_free(rank->header);
    tml_json_free(rank->state);
    tml_json_free(rank->end);
    free(rank->totals.sums);
    tml_row_store_free(&rank->rows);
    *rank = (struct tml_rank_run){0};
}

/* ---- Totals ---- */

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
    tml_step_fold_add(totals->sums, row);
    for (unsigned region = 0; region < TML_REGIONS; region++)
        for (unsigned phase = 0; phase < TRACEML_PHASE_COUNT; phase++)
            totals->occurrences[region][phase] += row->cell[region][phase].count;
    for (unsigned phase = 0; phase < TRACEML_PHASE_COUNT && !(row->flags & TML_STEP_FLAG_FIRST); phase++)
        for (unsigned region = 0; region < TML_REGIONS; region++) {
            totals->here[phase] += row->cell[region][phase].count - row->cell[region][phase].other_count;
            totals->elsewhere[phase] += row->cell[region][phase].other_count;
        }
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

/* The number of a folded block's end may come again (see take_folded()). */
static bool was_there(const struct tml_rank_totals *totals, uint64_t step)
{
    return totals->completed > totals->folded ? step <= totals->last_step : step < totals->last_step;
}

static const char *take_row(struct tml_rank_run *rank, uint64_t last_common, const struct tml_step_row *row, bool *oom)
{
    bool aborted = row->flags & TML_STEP_FLAG_ABORTED;
    if (!tml_row_store_accepts(row))
        return "a step that contradicts itself";
    if (!aborted && was_there(&rank->totals, row->step))
        return "a step number that was there before";
    if (row->end_ns != TML_NS_NONE && row->end_ns > rank->totals.last_end_ns)
        rank->totals.last_end_ns = row->end_ns;
    add_epoch(&rank->totals, row->epoch);
    if (aborted) {
        rank->totals.aborted++;
        return NULL;
    }
    add_row(&rank->totals, row);
    add_warmup(rank, row);
    if (row->step <= last_common && !tml_row_store_push(&rank->rows, row))
        *oom = true;
    return NULL;
}

static const char *take_step(struct tml_rank_run *rank, uint64_t last_common, const struct tml_json *value, bool *oom)
{
    struct tml_step_row row;
    bool good = tml_step_row_read(value, &row) && tml_step_row_read_own(value, &rank->names, &row);
    return good ? take_row(rank, last_common, &row, oom) : "not a step";
}

/* ---- Folded steps ---- */

static void add_fold(struct tml_rank_totals *totals, const struct tml_step_fold *fold)
{
    totals->last_step = fold->last;
    totals->completed += fold->count;
    totals->folded += fold->count;
    totals->aborted += fold->aborted;
    tml_step_fold_merge(totals->sums, fold);
}

/* They stand before the steps, the oldest first: two that overlap would count steps twice. An aborted step at the end of
 * a block has the number of the step that completed after it. */
static const char *take_folded(struct tml_rank_run *rank, const struct tml_json *line, bool *oom)
{
    const struct tml_rank_totals *totals = &rank->totals;
    struct tml_step_fold *fold = malloc(sizeof *fold);
    const char *wrong = NULL;
    if (!fold)
        *oom = true;
    else if (!tml_step_fold_read(line, fold))
        wrong = "not folded steps";
    else if (totals->completed > totals->folded || fold->first < totals->last_step)
        wrong = "folded steps that were there before";
    else
        add_fold(&rank->totals, fold);
    free(fold);
    return wrong;
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
    memset(&rank->names, 0, sizeof rank->names);
    struct tml_step_fold *sums = rank->totals.sums;
    tml_step_fold_clear(sums);
    rank->totals = (struct tml_rank_totals){.first_epoch = -1, .last_epoch = -1, .sums = sums};
}

static void keep(struct tml_json **slot, struct tml_json **root)
{
    tml_json_free(*slot);
    *slot = *root;
    *root = NULL;
}

static const char *take_header(struct tml_rank_run *rank, struct tml_json **root)
{
    const char *wrong = tml_rank_wrong_header(tml_json_get(*root, "header"), rank->rank);
    if (wrong)
        return wrong;
    if (rank->attempts++ > 0)
        restart(rank);
    keep(&rank->header, root);
    return NULL;
}

/* A state or an end line. */
static const char *take_latest(struct tml_json **slot, struct tml_json **root, const char *kind)
{
    const char *wrong = tml_rank_wrong_members(tml_json_get(*root, kind));
    if (!wrong)
        keep(slot, root);
    return wrong;
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
        return take_folded(rank, *root, oom);
    if (tml_json_is_object(tml_json_get(*root, "header")))
        return take_header(rank, root);
    if (tml_json_is_object(tml_json_get(*root, "state")))
        return take_latest(&rank->state, root, "state");
    if (tml_json_is_object(tml_json_get(*root, "end")))
        return take_latest(&rank->end, root, "end");
    *known = false;
    return NULL;
}

const char *tml_rank_take_line(struct tml_rank_run *rank, uint64_t last_common, const char *line, size_t bytes,
                               bool *known, bool *oom)
{
    struct tml_step_row row;
    if (tml_step_scan(line, bytes, &row)) {
        const char *wrong = take_row(rank, last_common, &row, oom);
        *known = *known || !wrong;
        return wrong;
    }
    struct tml_json_fault fault;
    struct tml_json *root = tml_json_parse_or_say(line, bytes, &fault);
    if (!root)
        return fault.what;
    bool is_known = false;
    const char *wrong = take_value(rank, last_common, &root, &is_known, oom);
    *known = *known || (is_known && !wrong);
    tml_json_free(root);
    return wrong;
}

/* ---- What the header and the end say ---- */

static const struct tml_json *header_of(const struct tml_rank_run *rank)
{
    return tml_json_get(rank->header, "header");
}

static uint32_t phases_in(const struct tml_json *list)
{
    uint32_t phases = 0;
    for (const struct tml_json *child = tml_json_first(list); child; child = tml_json_next(child)) {
        int phase = tml_json_string(child) ? tml_phase_from_key(tml_json_string(child)) : -1;
        if (phase >= 0)
            phases |= 1u << phase;
    }
    return phases;
}

uint32_t tml_rank_armed(const struct tml_rank_run *rank)
{
    return phases_in(tml_json_get(header_of(rank), "armed")) |
           phases_in(tml_json_get(tml_json_get(rank->end, "end"), "armed"));
}

uint32_t tml_rank_seen(const struct tml_rank_run *rank)
{
    uint32_t seen = 0;
    const struct tml_rank_totals *totals = &rank->totals;
    for (unsigned region = 0; region < TML_REGIONS; region++)
        for (unsigned phase = 0; phase < TRACEML_PHASE_COUNT; phase++)
            if (totals->occurrences[region][phase] > 0 ||
                tml_step_fold_cell(totals->sums, region, phase, TML_CLOCK_CPU, false)->count > 0)
                seen |= 1u << phase;
    return seen;
}

uint32_t tml_rank_elsewhere(const struct tml_rank_run *rank)
{
    uint32_t phases = 0;
    for (unsigned phase = 0; phase < TRACEML_PHASE_COUNT; phase++)
        if (rank->totals.elsewhere[phase] > NEARLY_ALL * rank->totals.here[phase])
            phases |= 1u << phase;
    return phases;
}

bool tml_rank_on_cuda(const struct tml_rank_run *rank)
{
    const char *device = tml_json_string(tml_json_get(header_of(rank), "device"));
    if (device)
        return strncmp(device, "cuda", 4) == 0;
    return tml_step_fold_term(rank->totals.sums, TML_CLOCK_GPU, TML_TERM_TRACED_STEP)->count > 0; /* no header */
}

bool tml_rank_observes_copies(const struct tml_rank_run *rank)
{
    bool observer = false;
    return tml_json_bool(tml_json_get(header_of(rank), "observer"), &observer) && observer;
}
