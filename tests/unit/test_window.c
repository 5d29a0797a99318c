/* window: the latest steps that all ranks share, warm-up apart, on one clock with its reason; ranks in one ordering. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run_fixture.h"
#include "window.h"

#define MOST_ROWS 2000

struct scene {
    struct fixture fixture;
    struct tml_run run;
    struct tml_window window;
    bool built;
    struct tml_step_row rows[MOST_ROWS];
    size_t count;
};

static int open_scene(void **state)
{
    struct scene *scene = calloc(1, sizeof *scene);
    fixture_open(&scene->fixture);
    *state = scene;
    return 0;
}

static void tear_down(struct scene *scene)
{
    if (!scene->built)
        return;
    tml_window_free(&scene->window);
    tml_run_free(&scene->run);
    scene->built = false;
}

static int close_scene(void **state)
{
    struct scene *scene = *state;
    tear_down(scene);
    fixture_close(&scene->fixture);
    free(scene);
    return 0;
}

static const struct tml_window *build(struct scene *scene, uint64_t wanted)
{
    char error[256];
    tear_down(scene);
    assert_int_equal(tml_run_read(scene->fixture.directory, wanted, &scene->run, error, sizeof error), TRACEML_OK);
    assert_true(tml_window_build(&scene->run, wanted, &scene->window));
    scene->built = true;
    return &scene->window;
}

static struct tml_step_row *add(struct scene *scene, struct tml_step_row row)
{
    scene->rows[scene->count] = row;
    return &scene->rows[scene->count++];
}

static void add_steps(struct scene *scene, uint64_t first, uint64_t last, const struct fixture_times *gpu)
{
    for (uint64_t step = first; step <= last; step++)
        add(scene, gpu ? fixture_gpu_row(step, &fixture_healthy, gpu) : fixture_row(step, &fixture_healthy));
}

static void write_rank(struct scene *scene, unsigned rank, unsigned world, const char *device)
{
    fixture_rank(&scene->fixture, &(struct fixture_header){.rank = rank, .world = world, .device = device}, scene->rows,
                 scene->count);
    scene->count = 0;
}

static int64_t value(const struct tml_window *window, enum tml_metric metric)
{
    return window->metric[metric].median.value_ns;
}

/* ---- Which steps ---- */

static void the_first_iteration_is_apart(void **state)
{
    struct scene *scene = *state;
    add_steps(scene, 1, 10, NULL);
    write_rank(scene, 0, 1, "cpu");
    const struct tml_window *window = build(scene, 1000);
    assert_int_equal(window->steps, 9);
    assert_int_equal(window->first_step, 2);
    assert_int_equal(window->last_step, 10);
    assert_int_equal(window->warmup_steps, 1);
    assert_false(window->first_fetches_kept);
    assert_int_equal(value(window, TML_METRIC_STEP_TIME), 100 * TML_NS_PER_MS);
    assert_int_equal(value(window, TML_METRIC_ITERATION), 100500000);
}

static void steps_with_the_first_fetch_of_an_iterator_are_apart(void **state)
{
    struct scene *scene = *state;
    for (uint64_t step = 1; step <= 40; step++) {
        struct fixture_times times = fixture_healthy;
        times.wait = step % 10 == 1 ? 900000 : 2000;
        struct tml_step_row *row = add(scene, fixture_row(step, &times));
        row->flags |= step % 10 == 1 ? TML_STEP_FLAG_FIRST_FETCH : 0;
    }
    write_rank(scene, 0, 1, "cpu");
    const struct tml_window *window = build(scene, 1000);
    assert_int_equal(window->steps, 36);
    assert_int_equal(window->warmup_steps, 4);
    assert_int_equal(value(window, TML_METRIC_INPUT_WAIT), 2 * TML_NS_PER_MS);
    assert_int_equal(scene->run.ranks[0].warmup.steps, 4);
}

static void first_fetches_stay_where_every_step_has_one(void **state)
{
    struct scene *scene = *state;
    for (uint64_t step = 1; step <= 40; step++)
        add(scene, fixture_row(step, &fixture_healthy))->flags |= TML_STEP_FLAG_FIRST_FETCH;
    write_rank(scene, 0, 1, "cpu");
    const struct tml_window *window = build(scene, 1000);
    assert_int_equal(window->steps, 39);
    assert_true(window->first_fetches_kept);
}

static void only_the_latest_steps_count(void **state)
{
    struct scene *scene = *state;
    for (uint64_t step = 1; step <= 1500; step++) {
        struct fixture_times times = fixture_healthy;
        times.wait = step <= 1300 ? 50000 : 1000;
        add(scene, fixture_row(step, &times));
    }
    write_rank(scene, 0, 1, "cpu");
    const struct tml_window *window = build(scene, 200);
    assert_int_equal(window->steps, 200);
    assert_int_equal(window->first_step, 1301);
    assert_int_equal(value(window, TML_METRIC_INPUT_WAIT), TML_NS_PER_MS);
}

static void steps_that_a_rank_lacks_are_no_part(void **state)
{
    struct scene *scene = *state;
    add_steps(scene, 1, 100, NULL);
    write_rank(scene, 0, 3, "cpu");
    add_steps(scene, 1, 40, NULL);
    add_steps(scene, 46, 90, NULL);
    write_rank(scene, 1, 3, "cpu");
    add_steps(scene, 1, 95, NULL);
    write_rank(scene, 2, 3, "cpu");
    const struct tml_window *window = build(scene, 1000);
    assert_int_equal(window->rank_count, 3);
    assert_int_equal(window->last_step, 90);
    assert_int_equal(window->steps, 84);
    assert_int_equal(window->unshared_steps, 5); /* 41 to 45; what comes after 90 is not missing yet */
}

static void a_rank_without_steps_takes_none_from_the_others(void **state)
{
    struct scene *scene = *state;
    add_steps(scene, 1, 30, NULL);
    write_rank(scene, 0, 2, "cpu");
    write_rank(scene, 1, 2, "cpu");
    const struct tml_window *window = build(scene, 1000);
    assert_int_equal(window->rank_count, 1);
    assert_int_equal(window->steps, 29);
}

static void no_step_in_common_is_an_empty_window(void **state)
{
    struct scene *scene = *state;
    add_steps(scene, 1, 5, NULL);
    write_rank(scene, 0, 2, "cpu");
    add_steps(scene, 11, 15, NULL);
    write_rank(scene, 1, 2, "cpu");
    const struct tml_window *window = build(scene, 1000);
    assert_int_equal(window->steps, 0);
    assert_int_equal(window->metric[TML_METRIC_STEP_TIME].median.value_ns, TML_NS_NONE);
    assert_int_equal(window->metric[TML_METRIC_STEP_TIME].status.reason, TML_REASON_NO_STEPS);
}

/* ---- Which clock ---- */

static const struct fixture_times device_times = {
    50, FIXTURE_ABSENT, FIXTURE_ABSENT, FIXTURE_ABSENT, 40000, 80000, 8000, 400, 100};

static void the_gpu_when_every_step_is_complete_there(void **state)
{
    struct scene *scene = *state;
    add_steps(scene, 1, 50, &device_times);
    write_rank(scene, 0, 1, "cuda:0");
    const struct tml_window *window = build(scene, 1000);
    assert_int_equal(window->clock, TML_CLOCK_GPU);
    assert_int_equal(window->steps, 49);
    assert_int_equal(value(window, TML_METRIC_FORWARD), 40 * TML_NS_PER_MS);
    assert_int_equal(value(window, TML_METRIC_STEP_TIME_CPU), 100 * TML_NS_PER_MS);
    assert_int_equal(value(window, TML_METRIC_STEP_TIME_GPU), value(window, TML_METRIC_STEP_TIME));
    assert_int_equal(value(window, TML_METRIC_DATALOADER_FETCH_CPU), 2 * TML_NS_PER_MS);
    assert_false(tml_window_is_launch_time(window));
}

static void the_gpu_when_19_of_20_are_complete_and_the_others_are_counted(void **state)
{
    struct scene *scene = *state;
    add_steps(scene, 1, 101, &device_times);
    for (unsigned i = 0; i < 5; i++)
        fixture_lose_gpu(&scene->rows[10 + i * 7], i < 2 ? TML_REASON_TIMED_OUT : TML_REASON_EVENTS_LOST);
    write_rank(scene, 0, 1, "cuda:0");
    const struct tml_window *window = build(scene, 1000);
    assert_int_equal(window->clock, TML_CLOCK_GPU);
    assert_int_equal(window->common_steps, 100);
    assert_int_equal(window->steps, 95);
    assert_int_equal(window->left_out, 5);
    assert_int_equal(window->left_out_why[TML_REASON_TIMED_OUT], 2);
    assert_int_equal(window->left_out_why[TML_REASON_EVENTS_LOST], 3);
    assert_int_equal(window->metric[TML_METRIC_FORWARD].status.coverage, TML_COVERAGE_IN_WINDOW);
}

static void the_cpu_when_fewer_are_complete_with_the_reason(void **state)
{
    struct scene *scene = *state;
    add_steps(scene, 1, 101, &device_times);
    for (unsigned i = 0; i < 6; i++)
        fixture_lose_gpu(&scene->rows[10 + i * 7], TML_REASON_GRAPH_CAPTURE);
    write_rank(scene, 0, 1, "cuda:0");
    const struct tml_window *window = build(scene, 1000);
    assert_int_equal(window->clock, TML_CLOCK_CPU);
    assert_int_equal(window->clock_reason, TML_REASON_GRAPH_CAPTURE);
    assert_int_equal(window->gpu_complete_steps, 94);
    assert_int_equal(window->steps, 100);
    assert_int_equal(value(window, TML_METRIC_FORWARD), 30 * TML_NS_PER_MS);
    assert_true(tml_window_is_launch_time(window));
}

static void a_step_counts_on_the_gpu_only_when_all_ranks_have_it_there(void **state)
{
    struct scene *scene = *state;
    for (unsigned rank = 0; rank < 4; rank++) {
        add_steps(scene, 1, 101, &device_times);
        for (unsigned i = 0; i < 3; i++) /* other steps on each rank: 12 of 100 together */
            fixture_lose_gpu(&scene->rows[10 + rank * 20 + i], TML_REASON_EVENTS_LOST);
        write_rank(scene, rank, 4, "cuda:0");
    }
    const struct tml_window *window = build(scene, 1000);
    assert_int_equal(window->gpu_complete_steps, 88);
    assert_int_equal(window->clock, TML_CLOCK_CPU);
}

/* Of two reasons for one step it is not the lower rank's that counts. */
static void why_steps_are_left_out_does_not_depend_on_the_order_of_ranks(void **state)
{
    struct scene *scene = *state;
    for (unsigned turn = 0; turn < 2; turn++) {
        for (unsigned rank = 0; rank < 2; rank++) {
            add_steps(scene, 1, 41, &device_times);
            bool timed_out = rank == turn;
            fixture_lose_gpu(&scene->rows[20], timed_out ? TML_REASON_TIMED_OUT : TML_REASON_EVENTS_LOST);
            write_rank(scene, rank, 2, "cuda:0");
        }
        const struct tml_window *window = build(scene, 1000);
        assert_int_equal(window->left_out, 1);
        assert_int_equal(window->left_out_why[TML_REASON_EVENTS_LOST], 1);
        assert_int_equal(window->left_out_why[TML_REASON_TIMED_OUT], 0);
    }
}

static void a_run_without_a_device_is_on_the_cpu_by_nature(void **state)
{
    struct scene *scene = *state;
    add_steps(scene, 1, 10, NULL);
    write_rank(scene, 0, 1, "cpu");
    const struct tml_window *window = build(scene, 1000);
    assert_int_equal(window->clock, TML_CLOCK_CPU);
    assert_int_equal(window->clock_reason, TML_REASON_NO_CUDA);
    assert_false(tml_window_is_launch_time(window));
    assert_int_equal(window->metric[TML_METRIC_STEP_TIME_GPU].status.availability, TML_NOT_APPLICABLE);
}

static void a_few_steps_without_forward_are_left_out_on_the_cpu(void **state)
{
    struct scene *scene = *state;
    struct fixture_times blind = fixture_healthy;
    blind.forward = FIXTURE_ABSENT;
    add_steps(scene, 1, 101, NULL);
    for (unsigned i = 0; i < 5; i++)
        scene->rows[10 + i] = fixture_row(11 + i, &blind);
    write_rank(scene, 0, 1, "cpu");
    const struct tml_window *window = build(scene, 1000);
    assert_int_equal(window->steps, 95);
    assert_int_equal(window->left_out_why[TML_REASON_NEVER_OBSERVED], 5);
    assert_int_equal(window->metric[TML_METRIC_FORWARD].status.coverage, TML_COVERAGE_IN_WINDOW);
}

static void many_steps_without_forward_stay_and_forward_is_partial(void **state)
{
    struct scene *scene = *state;
    struct fixture_times blind = fixture_healthy;
    blind.forward = FIXTURE_ABSENT;
    for (uint64_t step = 1; step <= 31; step++)
        add(scene, fixture_row(step, step == 20 ? &fixture_healthy : &blind));
    write_rank(scene, 0, 1, "cpu");
    const struct tml_window *window = build(scene, 1000);
    assert_int_equal(window->steps, 30);
    assert_int_equal(window->left_out, 0);
    assert_int_equal(window->metric[TML_METRIC_FORWARD].status.steps_observed, 1);
    assert_int_equal(window->metric[TML_METRIC_FORWARD].status.coverage, TML_COVERAGE_PARTIAL);
    assert_int_equal(value(window, TML_METRIC_FORWARD), 30 * TML_NS_PER_MS);
}

/* ---- Over ranks ---- */

static void worst_value_and_worst_rank_come_from_one_ordering(void **state)
{
    struct scene *scene = *state;
    static const int64_t waits[] = {5000, 9000, 7000, 9000, 1000};
    for (unsigned rank = 0; rank < 5; rank++) {
        struct fixture_times times = fixture_healthy;
        times.wait = waits[rank];
        for (uint64_t step = 1; step <= 30; step++)
            add(scene, fixture_row(step, &times));
        write_rank(scene, rank, 5, "cpu");
    }
    const struct tml_window *window = build(scene, 1000);
    const struct tml_over_ranks *wait = &window->metric[TML_METRIC_INPUT_WAIT];
    assert_int_equal(wait->worst.value_ns, 9 * TML_NS_PER_MS);
    assert_int_equal(wait->worst.rank, 1); /* of equal ones the lowest */
    assert_int_equal(wait->median.value_ns, 7 * TML_NS_PER_MS);
    assert_int_equal(wait->median.rank, 2);
    assert_int_equal(wait->status.value_ns, 6200000); /* the average */
    assert_int_equal(wait->share_worst_rank, 1);
    assert_true(fabs(wait->share - 7.0 / 105.0) < 1e-12);
}

static void of_two_ranks_the_smaller_value_stands_for_the_median(void **state)
{
    struct scene *scene = *state;
    for (unsigned rank = 0; rank < 2; rank++) {
        struct fixture_times times = fixture_healthy;
        times.wait = rank == 0 ? 8000 : 2000;
        for (uint64_t step = 1; step <= 30; step++)
            add(scene, fixture_row(step, &times));
        write_rank(scene, rank, 2, "cpu");
    }
    const struct tml_window *window = build(scene, 1000);
    assert_int_equal(window->metric[TML_METRIC_INPUT_WAIT].median.rank, 1);
    assert_int_equal(window->metric[TML_METRIC_INPUT_WAIT].worst.rank, 0);
    assert_true(fabs(window->metric[TML_METRIC_INPUT_WAIT].share - (8.0 / 106 + 2.0 / 100) / 2) < 1e-12);
}

/* The same files under other rank numbers: every value over ranks is the same. */
static void permuting_ranks_changes_nothing(void **state)
{
    struct scene *scene = *state;
    int64_t median[TML_METRIC_COUNT], worst[TML_METRIC_COUNT], average[TML_METRIC_COUNT];
    double share[TML_METRIC_COUNT];
    for (unsigned turn = 0; turn < 6; turn++) {
        for (unsigned rank = 0; rank < 6; rank++) {
            uint64_t random = 100 + rank; /* the contents follow the permuted number */
            for (uint64_t step = 1; step <= 40; step++) {
                struct fixture_times times = fixture_healthy;
                times.wait = (int64_t)(fixture_random(&random) % 20000);
                times.forward = 20000 + (int64_t)(fixture_random(&random) % 20000);
                add(scene, fixture_gpu_row(step, &times, &times));
            }
            write_rank(scene, (rank * 5 + turn) % 6, 6, "cuda:0");
        }
        const struct tml_window *window = build(scene, 1000);
        for (unsigned i = 0; i < TML_METRIC_COUNT; i++) {
            const struct tml_over_ranks *over = &window->metric[i];
            if (turn > 0) {
                assert_int_equal(over->median.value_ns, median[i]);
                assert_int_equal(over->worst.value_ns, worst[i]);
                assert_int_equal(over->status.value_ns, average[i]);
                assert_true(over->share == share[i] || (isnan(over->share) && isnan(share[i])));
            }
            median[i] = over->median.value_ns;
            worst[i] = over->worst.value_ns;
            average[i] = over->status.value_ns;
            share[i] = over->share;
        }
    }
}

static int by_ns(const void *a, const void *b)
{
    int64_t first = *(const int64_t *)a, second = *(const int64_t *)b;
    return (first > second) - (first < second);
}

static void the_spread_over_steps_is_that_of_the_sorted_steps(void **state)
{
    struct scene *scene = *state;
    uint64_t random = 3;
    for (unsigned round = 0; round < 20; round++) {
        int64_t waits[300];
        size_t count = 2 + fixture_random(&random) % 298, range = 1 + fixture_random(&random) % 400;
        add(scene, fixture_row(1, &fixture_healthy));
        for (size_t i = 0; i < count; i++) {
            struct fixture_times times = fixture_healthy;
            times.wait = (int64_t)(fixture_random(&random) % range);
            waits[i] = times.wait * 1000;
            add(scene, fixture_row(i + 2, &times));
        }
        write_rank(scene, 0, 1, "cpu");
        const struct tml_window *window = build(scene, 1000);
        const struct tml_spread *spread = &window->ranks[0].spread[TML_METRIC_INPUT_WAIT];
        qsort(waits, count, sizeof *waits, by_ns);
        assert_int_equal(spread->p10_ns, waits[(count - 1) / 10]);
        assert_int_equal(spread->p50_ns, waits[(count - 1) / 2]);
        assert_int_equal(spread->p90_ns, waits[count - 1 - (count - 1) / 10]);
    }
}

static void shares_have_numerator_and_denominator_on_one_clock(void **state)
{
    struct scene *scene = *state;
    add_steps(scene, 1, 30, &device_times);
    write_rank(scene, 0, 1, "cuda:0");
    const struct tml_window *window = build(scene, 1000);
    double step_ns = (double)value(window, TML_METRIC_STEP_TIME_GPU);
    assert_true(fabs(window->metric[TML_METRIC_FORWARD].share - 40e6 / step_ns) < 1e-12);
    assert_true(isnan(window->metric[TML_METRIC_DATALOADER_FETCH_CPU].share));
    assert_true(isnan(window->metric[TML_METRIC_STEP_TIME_CPU].share));
}

static struct tml_cell spent(int64_t ms, uint32_t count)
{
    return (struct tml_cell){count, 0, {ms * TML_NS_PER_MS, TML_NS_NONE}, {ms * TML_NS_PER_MS, TML_NS_NONE}};
}

static void add_own(struct scene *scene, uint64_t last, const char *name, enum tml_region region, int64_t ms)
{
    unsigned number = tml_span_name_add(&tml_span_names, name);
    for (uint64_t step = 1; step <= last; step++) {
        struct tml_step_row *row = add(scene, fixture_row(step, &fixture_healthy));
        if (step % 2)
            continue;
        row->own[region][number] = row->cell[region][TRACEML_PHASE_USER] = spent(ms, 1);
    }
}

static const struct tml_own_span *own(const struct tml_own_span *spans, const char *name)
{
    for (unsigned i = 0; i < TML_SPAN_NAMES; i++)
        if (spans[i].name && strcmp(spans[i].name, name) == 0)
            return &spans[i];
    fail_msg("no span %s", name);
    return NULL;
}

/* Numbers differ from rank to rank: "log" is the first name of rank 1 and the second of the process. */
static void own_spans_are_means_of_a_step_by_name_over_ranks(void **state)
{
    struct scene *scene = *state;
    add_own(scene, 31, "augment", TML_REGION_PRE, 8);
    write_rank(scene, 0, 2, NULL);
    add_own(scene, 31, "log", TML_REGION_IN, 4);
    write_rank(scene, 1, 2, NULL);
    const struct tml_window *window = build(scene, 1000);
    assert_int_equal(window->steps, 30);
    const struct tml_own_span *augment = own(window->ranks[0].own, "augment");
    assert_int_equal(augment->value_ns[TML_REGION_PRE], 4 * TML_NS_PER_MS); /* in every second step */
    assert_int_equal(augment->value_ns[TML_REGION_IN], 0);
    assert_int_equal(augment->occurrences[TML_REGION_PRE], 15);
    assert_int_equal(own(window->own, "augment")->value_ns[TML_REGION_PRE], 2 * TML_NS_PER_MS);
    assert_int_equal(own(window->own, "log")->value_ns[TML_REGION_IN], 1 * TML_NS_PER_MS);
    assert_int_equal(own(window->own, "log")->steps, 60);
    assert_int_equal(own(window->own, "log")->steps_observed, 60);
}

static void an_own_span_without_a_time_on_the_clock_is_null_and_not_zero(void **state)
{
    struct scene *scene = *state;
    unsigned number = tml_span_name_add(&tml_span_names, "augment");
    add_own(scene, 31, "augment", TML_REGION_IN, 8);
    for (size_t i = 0; i < scene->count; i += 4)
        scene->rows[i].own[TML_REGION_IN][number] = scene->rows[i].cell[TML_REGION_IN][TRACEML_PHASE_USER] =
            (struct tml_cell){1, 0, {TML_NS_NONE, TML_NS_NONE}, {TML_NS_NONE, TML_NS_NONE}};
    write_rank(scene, 0, 1, NULL);
    const struct tml_window *window = build(scene, 1000);
    assert_int_equal(own(window->own, "augment")->value_ns[TML_REGION_IN], TML_NS_NONE);
    assert_int_equal(own(window->own, "augment")->value_ns[TML_REGION_PRE], TML_NS_NONE);
    assert_true(own(window->own, "augment")->steps_observed < 30);
}

/* ---- The device lead ---- */

static void lead_rank(struct scene *scene, unsigned rank, int64_t us)
{
    add_steps(scene, 1, 31, &fixture_healthy);
    for (size_t i = 0; i < scene->count; i++) {
        struct tml_device_lead *lead = &scene->rows[i].lead;
        lead->ns[TML_BOUNDARY_FORWARD_END] = i % 10 == 5 ? 900 * TML_NS_PER_MS : us * 1000; /* outliers */
        lead->ns[TML_BOUNDARY_OPTIMIZER_BEGIN] = i % 2 ? us * 1000 : TML_NS_NONE;
        lead->error_ns = us;
    }
    write_rank(scene, rank, 2, NULL);
}

static void the_lead_is_the_median_of_the_steps_and_outliers_do_not_move_it(void **state)
{
    struct scene *scene = *state;
    lead_rank(scene, 0, 20);
    lead_rank(scene, 1, 3000);
    const struct tml_window *window = build(scene, 1000);
    assert_int_equal(window->ranks[0].metric[TML_METRIC_DEVICE_LEAD].value_ns, 20000);
    assert_int_equal(window->ranks[1].metric[TML_METRIC_DEVICE_LEAD].value_ns, 3000000);
    assert_int_equal(window->metric[TML_METRIC_DEVICE_LEAD].worst.rank, 1);
    const struct tml_lead_at *end = &window->ranks[0].lead.at[TML_BOUNDARY_FORWARD_END];
    assert_int_equal(end->spread.p50_ns, 20000);
    assert_int_equal(end->steps, 30);
    assert_int_equal(end->near_zero, 27);
    assert_int_equal(end->large, 3);
    assert_int_equal(window->ranks[1].lead.at[TML_BOUNDARY_OPTIMIZER_BEGIN].steps, 15); /* only those that have one */
    assert_int_equal(window->ranks[1].lead.at[TML_BOUNDARY_OPTIMIZER_BEGIN].large, 15);
    assert_int_equal(window->lead.at[TML_BOUNDARY_FORWARD_END].steps, 60);
    assert_int_equal(window->lead.error_ns, 3000); /* the largest */
}

static void a_lead_over_ranks_is_null_while_a_rank_has_none(void **state)
{
    struct scene *scene = *state;
    lead_rank(scene, 0, 20);
    add_steps(scene, 1, 31, &fixture_healthy);
    for (size_t i = 0; i < scene->count; i++)
        scene->rows[i].lead = (struct tml_device_lead){
            {TML_NS_NONE, TML_NS_NONE, TML_NS_NONE, TML_NS_NONE, TML_NS_NONE}, TML_NS_NONE, TML_REASON_NO_CLOCK_TIE};
    write_rank(scene, 1, 2, NULL);
    const struct tml_window *window = build(scene, 1000);
    assert_true(window->lead.at[TML_BOUNDARY_FORWARD_END].spread.p50_ns == TML_NS_NONE);
    assert_true(window->metric[TML_METRIC_DEVICE_LEAD].median.value_ns == TML_NS_NONE);
    assert_int_equal(window->metric[TML_METRIC_DEVICE_LEAD].status.reason, TML_REASON_NO_CLOCK_TIE);
    assert_int_equal(window->ranks[0].metric[TML_METRIC_DEVICE_LEAD].value_ns, 20000);
}

/* The usual loop: rank 0 alone evaluates. The other had none, and that is known. */
static void an_evaluation_of_one_rank_is_a_zero_of_the_other(void **state)
{
    struct scene *scene = *state;
    struct tml_step_row rows[10];
    for (unsigned rank = 0; rank < 2; rank++) {
        for (uint64_t step = 1; step <= 10; step++)
            rows[step - 1] = fixture_row(step, &fixture_healthy);
        if (rank == 0)
            fixture_put(&rows[5], TML_REGION_PRE, TRACEML_PHASE_EVALUATION, TML_CLOCK_CPU, 9000);
        fixture_rank(&scene->fixture, &(struct fixture_header){.rank = rank, .world = 2}, rows, 10);
    }
    const struct tml_window *window = build(scene, 100);
    assert_int_equal(window->metric[TML_METRIC_EVALUATION].status.availability, TML_AVAILABLE);
    assert_int_equal(window->ranks[0].metric[TML_METRIC_EVALUATION].value_ns, TML_NS_PER_MS);
    assert_int_equal(window->ranks[1].metric[TML_METRIC_EVALUATION].value_ns, 0);
    assert_int_equal(window->metric[TML_METRIC_CHECKPOINT].status.reason, TML_REASON_NO_SPAN);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_scene, close_scene)
    const struct CMUnitTest tests[] = {
        TEST(an_evaluation_of_one_rank_is_a_zero_of_the_other),
        TEST(the_first_iteration_is_apart),
        TEST(steps_with_the_first_fetch_of_an_iterator_are_apart),
        TEST(first_fetches_stay_where_every_step_has_one),
        TEST(only_the_latest_steps_count),
        TEST(steps_that_a_rank_lacks_are_no_part),
        TEST(a_rank_without_steps_takes_none_from_the_others),
        TEST(no_step_in_common_is_an_empty_window),
        TEST(the_gpu_when_every_step_is_complete_there),
        TEST(the_gpu_when_19_of_20_are_complete_and_the_others_are_counted),
        TEST(the_cpu_when_fewer_are_complete_with_the_reason),
        TEST(a_step_counts_on_the_gpu_only_when_all_ranks_have_it_there),
        TEST(why_steps_are_left_out_does_not_depend_on_the_order_of_ranks),
        TEST(a_run_without_a_device_is_on_the_cpu_by_nature),
        TEST(a_few_steps_without_forward_are_left_out_on_the_cpu),
        TEST(many_steps_without_forward_stay_and_forward_is_partial),
        TEST(worst_value_and_worst_rank_come_from_one_ordering),
        TEST(of_two_ranks_the_smaller_value_stands_for_the_median),
        TEST(permuting_ranks_changes_nothing),
        TEST(the_spread_over_steps_is_that_of_the_sorted_steps),
        TEST(shares_have_numerator_and_denominator_on_one_clock),
        TEST(own_spans_are_means_of_a_step_by_name_over_ranks),
        TEST(an_own_span_without_a_time_on_the_clock_is_null_and_not_zero),
        TEST(the_lead_is_the_median_of_the_steps_and_outliers_do_not_move_it),
        TEST(a_lead_over_ranks_is_null_while_a_rank_has_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
