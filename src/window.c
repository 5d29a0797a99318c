/* Which steps a window is made of, and on which clock. */
#include "window.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WARMUP (TML_STEP_FLAG_FIRST | TML_STEP_FLAG_FIRST_FETCH)
#define FEWEST_STEPS 2

static const struct tml_row_store *rows_of(const struct tml_window *window, size_t rank)
{
    return &window->ranks[rank].run->rows;
}

/* ---- Ranks ---- */

/* Rank 0 alone evaluates, or saves: the others would have opened such a span too, and had none. */
static void share_occasional(struct tml_window *window)
{
    uint32_t seen = 0;
    for (size_t i = 0; i < window->rank_count; i++)
        seen |= window->ranks[i].instruments.seen & TML_OCCASIONAL_PHASES;
    for (size_t i = 0; i < window->rank_count; i++)
        window->ranks[i].instruments.seen |= seen;
}

/* A rank without a completed step says nothing about steps: it is missing, and takes none from the others. */
static bool take_ranks(const struct tml_run *run, struct tml_window *window)
{
    window->ranks = calloc(run->rank_count ? run->rank_count : 1, sizeof *window->ranks);
    for (size_t i = 0; window->ranks && i < run->rank_count; i++) {
        const struct tml_rank_run *rank = &run->ranks[i];
        if (rank->totals.completed == 0)
            continue;
        struct tml_rank_window *taken = &window->ranks[window->rank_count++];
        taken->run = rank;
        taken->instruments = tml_instruments_of(rank);
        window->cuda = window->cuda || taken->instruments.cuda;
    }
    if (window->ranks)
        share_occasional(window);
    return window->ranks;
}

/* ---- Steps that all ranks have ---- */

/* The lowest step that comes next on any rank. False once a rank has no more, and without ranks. */
static bool next_step(const struct tml_window *window, const size_t *at, uint64_t *lowest)
{
    for (size_t rank = 0; rank < window->rank_count; rank++) {
        const struct tml_row_store *rows = rows_of(window, rank);
        if (at[rank] == rows->count)
            return false;
        uint64_t step = tml_row_store_step(rows, at[rank]);
        if (rank == 0 || step < *lowest)
            *lowest = step;
    }
    return window->rank_count > 0;
}

/* Goes on behind this step. True when all ranks have it: then it is in the selection. */
static bool take_step(const struct tml_window *window, size_t *at, uint64_t step, struct tml_selection *selection)
{
    bool all = true;
    for (size_t rank = 0; rank < window->rank_count; rank++) {
        bool has = tml_row_store_step(rows_of(window, rank), at[rank]) == step;
        selection->rows[selection->count * selection->ranks + rank] = (uint32_t)at[rank];
        at[rank] += has;
        all = all && has;
    }
    selection->count += all;
    return all;
}

/* Steps before the first common one are none that a rank lacks: others keep rows of earlier ones. */
static bool intersect(struct tml_window *window, struct tml_selection *selection)
{
    size_t ranks = window->rank_count, most = ranks ? rows_of(window, 0)->count : 0;
    size_t *at = calloc(ranks ? ranks : 1, sizeof *at);
    uint64_t lacking = 0, step = 0;
    *selection = (struct tml_selection){.ranks = ranks, .rows = malloc(((most + 1) * ranks + 1) * sizeof(uint32_t))};
    while (at && selection->rows && next_step(window, at, &step)) {
        bool all = take_step(window, at, step, selection);
        if (all && selection->count > 1)
            window->unshared_steps += lacking;
        lacking = all ? 0 : lacking + 1;
    }
    bool ok = at && selection->rows;
    free(at);
    return ok;
}

/* ---- Filters: keep the steps that pass, in order ---- */

typedef bool step_test(const struct tml_window *window, const uint32_t *rows, uint32_t flags);

static size_t count_passing(const struct tml_window *window, const struct tml_selection *selection, step_test *test,
                            uint32_t flags)
{
    size_t passing = 0;
    for (size_t i = 0; i < selection->count; i++)
        passing += test(window, &selection->rows[i * selection->ranks], flags);
    return passing;
}

static void keep_passing(const struct tml_window *window, struct tml_selection *selection, step_test *test,
                         uint32_t flags)
{
    size_t kept = 0, bytes = selection->ranks * sizeof *selection->rows;
    for (size_t i = 0; i < selection->count; i++) {
        const uint32_t *rows = &selection->rows[i * selection->ranks];
        if (test(window, rows, flags))
            memmove(&selection->rows[kept++ * selection->ranks], rows, bytes);
    }
    selection->count = kept;
}

static bool has_no_flag(const struct tml_window *window, const uint32_t *rows, uint32_t flags)
{
    for (size_t rank = 0; rank < window->rank_count; rank++)
        if (tml_row_store_flags(rows_of(window, rank), rows[rank]) & flags)
            return false;
    return true;
}

static bool on_gpu(const struct tml_window *window, const uint32_t *rows, uint32_t flags)
{
    enum tml_reason reason;
    (void)flags;
    for (size_t rank = 0; rank < window->rank_count; rank++)
        if (!tml_row_store_on_gpu(rows_of(window, rank), rows[rank], &reason))
            return false;
    return true;
}

static bool on_cpu(const struct tml_window *window, const uint32_t *rows, uint32_t flags)
{
    struct tml_step_row row;
    (void)flags;
    for (size_t rank = 0; rank < window->rank_count; rank++) {
        tml_row_store_get(rows_of(window, rank), rows[rank], &row);
        if (!tml_row_cpu_complete(&row))
            return false;
    }
    return true;
}

/* ---- Warm-up ---- */

/* A loop that makes a new iterator for every step has a first fetch in every step: leaving them all out would leave
 * nothing, so they stay, and it is said. */
static void drop_warmup(struct tml_window *window, struct tml_selection *selection)
{
    uint32_t flags = WARMUP;
    size_t all = selection->count;
    if (count_passing(window, selection, has_no_flag, WARMUP) < FEWEST_STEPS &&
        count_passing(window, selection, has_no_flag, TML_STEP_FLAG_FIRST) >= FEWEST_STEPS) {
        flags = TML_STEP_FLAG_FIRST;
        window->first_fetches_kept = true;
    }
    keep_passing(window, selection, has_no_flag, flags);
    window->warmup_steps = all - selection->count;
}

static void keep_latest(struct tml_selection *selection, uint64_t wanted)
{
    if (selection->count <= wanted)
        return;
    size_t extra = selection->count - (size_t)wanted;
    selection->count -= extra;
    memmove(selection->rows, selection->rows + extra * selection->ranks,
            selection->count * selection->ranks * sizeof *selection->rows);
}

/* ---- Clock ---- */

/* Of the reasons of several ranks the first in the list of reasons: their order must not matter. */
static enum tml_reason gpu_hole(const struct tml_window *window, const uint32_t *rows)
{
    enum tml_reason first = TML_REASON_NONE, reason;
    for (size_t rank = 0; rank < window->rank_count; rank++) {
        if (tml_row_store_on_gpu(rows_of(window, rank), rows[rank], &reason))
            continue;
        reason = reason ? reason : TML_REASON_EVENTS_LOST;
        first = first == TML_REASON_NONE || reason < first ? reason : first;
    }
    return first;
}

static enum tml_reason cpu_hole(const struct tml_window *window, const uint32_t *rows)
{
    return on_cpu(window, rows, 0) ? TML_REASON_NONE : TML_REASON_NEVER_OBSERVED;
}

static enum tml_reason most_frequent(const uint64_t *why)
{
    enum tml_reason most = TML_REASON_NONE;
    for (unsigned reason = 1; reason < TML_REASON_COUNT; reason++)
        if (why[reason] > (most ? why[most] : 0))
            most = (enum tml_reason)reason;
    return most;
}

static void count_holes(const struct tml_window *window, const struct tml_selection *selection,
                        enum tml_reason (*hole)(const struct tml_window *, const uint32_t *), uint64_t *why)
{
    for (size_t i = 0; i < selection->count; i++)
        why[hole(window, &selection->rows[i * selection->ranks])]++;
    why[TML_REASON_NONE] = 0;
}

/* At least 95 % of the steps are whole on this clock: those are the window, the others are counted. */
static void leave_out(struct tml_window *window, struct tml_selection *selection, step_test *test,
                      enum tml_reason (*hole)(const struct tml_window *, const uint32_t *))
{
    count_holes(window, selection, hole, window->left_out_why);
    keep_passing(window, selection, test, 0);
    window->left_out = window->common_steps - selection->count;
}

static void choose_clock(struct tml_window *window, struct tml_selection *selection)
{
    uint64_t why[TML_REASON_COUNT] = {0};
    window->common_steps = selection->count;
    window->gpu_complete_steps = count_passing(window, selection, on_gpu, 0);
    if (tml_metric_enough(window->gpu_complete_steps, window->common_steps)) {
        window->clock = TML_CLOCK_GPU;
        leave_out(window, selection, on_gpu, gpu_hole);
        return;
    }
    window->clock = TML_CLOCK_CPU;
    count_holes(window, selection, gpu_hole, why);
    window->clock_reason = window->common_steps == 0 ? TML_REASON_NO_STEPS
                           : window->cuda            ? most_frequent(why)
                                                     : TML_REASON_NO_CUDA;
    if (tml_metric_enough(count_passing(window, selection, on_cpu, 0), window->common_steps))
        leave_out(window, selection, on_cpu, cpu_hole);
}

/* ---- All of it ---- */

static void name_steps(struct tml_window *window, const struct tml_selection *selection)
{
    window->steps = selection->count;
    if (selection->count == 0)
        return;
    const struct tml_row_store *rows = rows_of(window, 0);
    window->first_step = tml_row_store_step(rows, selection->rows[0]);
    window->last_step = tml_row_store_step(rows, selection->rows[(selection->count - 1) * selection->ranks]);
}

bool tml_window_build(const struct tml_run *run, uint64_t wanted_steps, struct tml_window *window)
{
    struct tml_selection selection = {0};
    *window = (struct tml_window){.wanted_steps = wanted_steps};
    bool ok = take_ranks(run, window) && intersect(window, &selection);
    if (ok) {
        drop_warmup(window, &selection);
        keep_latest(&selection, wanted_steps);
        choose_clock(window, &selection);
        name_steps(window, &selection);
        ok = tml_window_measure(window, &selection);
    }
    free(selection.rows);
    if (!ok)
        tml_window_free(window);
    return ok;
}

void tml_window_free(struct tml_window *window)
{
    free(window->ranks);
    *window = (struct tml_window){0};
}

bool tml_window_is_launch_time(const struct tml_window *window)
{
    return window->cuda && window->clock == TML_CLOCK_CPU;
}
