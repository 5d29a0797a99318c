/* What every metric says about the steps of a window, per rank and over ranks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "window.h"

/* ---- Spread over steps ---- */

/* Puts the value that sorting would put at `at` there, smaller ones before it: Hoare's selection, in place and without
 * the cost of a sort for every metric of every rank. */
static int64_t select_ns(int64_t *values, size_t count, size_t at)
{
    size_t low = 0, high = count - 1;
    while (low < high) {
        int64_t pivot = values[low + (high - low) / 2];
        size_t i = low, j = high;
        while (i <= j) {
            while (values[i] < pivot)
                i++;
            while (values[j] > pivot)
                j--;
            if (i > j)
                break;
            int64_t swap = values[i];
            values[i++] = values[j];
            values[j] = swap;
            if (j == 0)
                break;
            j--;
        }
        if (at <= j)
            high = j;
        else if (at >= i)
            low = i;
        else
            break;
    }
    return values[at];
}

/* Nearest rank: a step that there was. */
struct tml_spread tml_spread_of(int64_t *values, size_t count)
{
    if (count == 0)
        return (struct tml_spread){TML_NS_NONE, TML_NS_NONE, TML_NS_NONE};
    size_t tenth = (count - 1) / 10, middle = (count - 1) / 2;
    return (struct tml_spread){
        .p10_ns = select_ns(values, count, tenth),
        .p50_ns = select_ns(values, count, middle),
        .p90_ns = select_ns(values, count, count - 1 - tenth),
    };
}

/* `values` in order of the steps; each part is left in another order. */
static struct tml_blocks blocks_of(int64_t *values, size_t count)
{
    struct tml_blocks blocks = {0};
    if (count < TML_BLOCKS * TML_BLOCK_FEWEST_STEPS)
        return blocks;
    for (blocks.count = 0; blocks.count < TML_BLOCKS; blocks.count++) {
        size_t first = count * blocks.count / TML_BLOCKS, end = count * (blocks.count + 1) / TML_BLOCKS;
        int64_t sum = 0;
        for (size_t i = first; i < end; i++)
            sum = tml_ns_add(sum, values[i]);
        blocks.mean_ns[blocks.count] = tml_ns_mean(sum, end - first);
        blocks.median_ns[blocks.count] = select_ns(values + first, end - first, (end - first - 1) / 2);
    }
    return blocks;
}

/* ---- One rank ---- */

struct measuring {
    struct tml_tally tally[TML_METRIC_COUNT];
    int64_t *values[TML_METRIC_COUNT]; /* of the observed steps */
    size_t count[TML_METRIC_COUNT];
    int64_t *storage;
};

static bool measuring_open(struct measuring *measuring, size_t steps)
{
    measuring->storage = malloc((steps * TML_METRIC_COUNT + 1) * sizeof(int64_t));
    for (unsigned i = 0; measuring->storage && i < TML_METRIC_COUNT; i++)
        measuring->values[i] = measuring->storage + i * steps;
    return measuring->storage;
}

static void measure_row(struct measuring *measuring, const struct tml_step_row *row, enum tml_clock clock,
                        const struct tml_instruments *instruments)
{
    for (unsigned i = 0; i < TML_METRIC_COUNT; i++) {
        enum tml_metric metric = (enum tml_metric)i;
        struct tml_sample sample = tml_metric_sample(metric, row, clock, instruments);
        tml_tally_add(&measuring->tally[i], metric, row, instruments, &sample);
        if (sample.state <= TML_SAMPLE_ABSENT)
            measuring->values[i][measuring->count[i]++] = sample.ns;
    }
}

/* What the device waited for, where the step's own clock is whole. */
static void measure_device_wait(struct tml_rank_window *rank, const struct tml_step_row *row)
{
    if (!row->gpu_complete)
        return;
    struct tml_sample wait = tml_metric_sample(TML_METRIC_INPUT_WAIT, row, TML_CLOCK_GPU, &rank->instruments);
    struct tml_sample inside = tml_metric_sample(TML_METRIC_IN_STEP_INPUT_WAIT, row, TML_CLOCK_GPU, &rank->instruments);
    struct tml_sample step = tml_metric_sample(TML_METRIC_STEP_TIME, row, TML_CLOCK_GPU, &rank->instruments);
    if (step.state > TML_SAMPLE_ABSENT)
        return;
    rank->gpu_steps++;
    rank->gpu_input_ns = tml_ns_add(rank->gpu_input_ns, wait.ns + inside.ns);
    rank->gpu_step_ns = tml_ns_add(rank->gpu_step_ns, step.ns);
}

static void measure_launch(struct tml_rank_window *rank, const struct tml_step_row *row)
{
    struct tml_launch_steps *launch = &rank->launch;
    int64_t forward_ns = row->lead.ns[TML_BOUNDARY_FORWARD_END],
            optimizer_ns = row->lead.ns[TML_BOUNDARY_OPTIMIZER_BEGIN];
    if (forward_ns == TML_NS_NONE || optimizer_ns == TML_NS_NONE) {
        enum tml_reason reason = row->lead.reason ? row->lead.reason : row->gpu_reason;
        launch->reason = !launch->reason || (reason && reason < launch->reason) ? reason : launch->reason;
        return;
    }
    launch->known++;
    launch->near_zero += forward_ns < TML_LEAD_NEAR_ZERO_NS && optimizer_ns < TML_LEAD_NEAR_ZERO_NS;
}

static double ratio(int64_t part_ns, int64_t whole_ns)
{
    if (part_ns == TML_NS_NONE || whole_ns == TML_NS_NONE || whole_ns <= 0)
        return NAN;
    return (double)part_ns / (double)whole_ns;
}

/* Before the spread: that one loses the order of the steps. */
static void finish_blocks(struct tml_rank_window *rank, struct measuring *measuring)
{
    static const enum tml_metric step_time[TML_CLOCKS] = {TML_METRIC_STEP_TIME_CPU, TML_METRIC_STEP_TIME_GPU};
    for (unsigned clock = 0; clock < TML_CLOCKS; clock++)
        rank->blocks[clock] = blocks_of(measuring->values[step_time[clock]], measuring->count[step_time[clock]]);
}

static void finish_rank(struct tml_rank_window *rank, struct measuring *measuring)
{
    finish_blocks(rank, measuring);
    for (unsigned i = 0; i < TML_METRIC_COUNT; i++) {
        rank->metric[i] = tml_tally_status(&measuring->tally[i]);
        bool null = rank->metric[i].value_ns == TML_NS_NONE;
        rank->spread[i] = tml_spread_of(measuring->values[i], null ? 0 : measuring->count[i]);
        if (!null && tml_metrics[i].form == TML_METRIC_LEAD)
            rank->metric[i].value_ns = rank->spread[i].p50_ns;
    }
    /* A share has numerator and denominator on one clock. */
    for (unsigned i = 0; i < TML_METRIC_COUNT; i++)
        rank->share[i] = tml_metrics[i].clock == TML_METRIC_SELECTED
                             ? ratio(rank->metric[i].value_ns, rank->metric[TML_METRIC_STEP_TIME].value_ns)
                             : NAN;
}

static void measure_rank(struct tml_window *window, size_t index, const struct tml_selection *selection,
                         struct measuring *measuring)
{
    struct tml_rank_window *rank = &window->ranks[index];
    memset(measuring->tally, 0, sizeof measuring->tally);
    memset(measuring->count, 0, sizeof measuring->count);
    for (size_t i = 0; i < selection->count; i++) {
        struct tml_step_row row;
        tml_row_store_get(&rank->run->rows, selection->rows[i * selection->ranks + index], &row);
        measure_row(measuring, &row, window->clock, &rank->instruments);
        measure_device_wait(rank, &row);
        measure_launch(rank, &row);
        tml_window_own_add(rank, &row, window->clock);
    }
    finish_rank(rank, measuring);
}

/* ---- Over ranks ---- */

/* The one ordering: the largest value first, of equal ones the lowest rank. */
static int worst_first(const void *a, const void *b)
{
    const struct tml_rank_value *first = a, *second = b;
    if (first->value_ns != second->value_ns)
        return first->value_ns > second->value_ns ? -1 : 1;
    return (first->rank > second->rank) - (first->rank < second->rank);
}

static int64_t average(const struct tml_rank_value *values, size_t count)
{
    int64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum = tml_ns_add(sum, values[i].value_ns);
    return tml_ns_mean(sum, count);
}

static void rank_values(struct tml_window *window, unsigned metric, struct tml_rank_value *values)
{
    struct tml_over_ranks *over = &window->metric[metric];
    size_t count = 0;
    for (size_t i = 0; i < window->rank_count; i++)
        if (window->ranks[i].metric[metric].value_ns != TML_NS_NONE)
            values[count++] =
                (struct tml_rank_value){window->ranks[i].metric[metric].value_ns, (int)window->ranks[i].run->rank};
    over->median = over->worst = (struct tml_rank_value){TML_NS_NONE, -1};
    if (over->status.value_ns == TML_NS_NONE || count == 0)
        return;
    qsort(values, count, sizeof *values, worst_first);
    over->status.value_ns = average(values, count);
    over->worst = values[0];
    over->median = values[count / 2];
}

struct rank_share {
    double share;
    int rank;
};

static int largest_first(const void *a, const void *b)
{
    const struct rank_share *first = a, *second = b;
    if (first->share != second->share)
        return first->share > second->share ? -1 : 1;
    return (first->rank > second->rank) - (first->rank < second->rank);
}

static void rank_shares(struct tml_window *window, unsigned metric, struct rank_share *shares)
{
    struct tml_over_ranks *over = &window->metric[metric];
    size_t count = 0;
    for (size_t i = 0; i < window->rank_count; i++)
        if (!isnan(window->ranks[i].share[metric]))
            shares[count++] = (struct rank_share){window->ranks[i].share[metric], (int)window->ranks[i].run->rank};
    bool null = over->median.rank < 0 || window->metric[TML_METRIC_STEP_TIME].median.rank < 0;
    over->share = over->share_skew = NAN;
    over->share_worst_rank = -1;
    if (count == 0 || null)
        return;
    qsort(shares, count, sizeof *shares, largest_first);
    over->share = (shares[count / 2].share + shares[(count - 1) / 2].share) / 2;
    over->share_worst_rank = shares[0].rank;
    if (count > 1 && over->share > 0)
        over->share_skew = (shares[0].share - over->share) / over->share;
}

static bool over_ranks(struct tml_window *window, const struct tml_tally *tallies)
{
    struct tml_rank_value *values = malloc((window->rank_count + 1) * sizeof *values);
    struct rank_share *shares = malloc((window->rank_count + 1) * sizeof *shares);
    bool ok = values && shares;
    for (unsigned i = 0; ok && i < TML_METRIC_COUNT; i++) {
        window->metric[i].status = tml_tally_status(&tallies[i]);
        rank_values(window, i, values);
    }
    for (unsigned i = 0; ok && i < TML_METRIC_COUNT; i++)
        rank_shares(window, i, shares);
    free(values);
    free(shares);
    return ok;
}

bool tml_window_measure(struct tml_window *window, const struct tml_selection *selection)
{
    struct measuring *measuring = calloc(1, sizeof *measuring);
    struct tml_tally *all = calloc(TML_METRIC_COUNT, sizeof *all);
    bool ok = measuring && all && measuring_open(measuring, selection->count);
    for (size_t rank = 0; ok && rank < window->rank_count; rank++) {
        measure_rank(window, rank, selection, measuring);
        for (unsigned i = 0; i < TML_METRIC_COUNT; i++)
            tml_tally_merge(&all[i], &measuring->tally[i]);
    }
    if (ok)
        tml_window_own_finish(window);
    ok = ok && over_ranks(window, all) && tml_window_lead_measure(window, selection);
    if (measuring)
        free(measuring->storage);
    free(measuring);
    free(all);
    return ok;
}
