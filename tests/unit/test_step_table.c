/* Records become rows: in which order, with which numbers, and what a row says about what it lacks. (Streams that change
 * or differ: test_session_cuda.c.) */
#include "recording_fixture.h"

#define MS INT64_C(1000000)
#define DEADLINE_NS (INT64_C(30000) * MS)

static const struct traceml_stream none = {-1, NULL}, stream0 = {0, NULL};
static struct tml_recorder *mine;
static struct tml_step_table table;
static struct tml_step_row row;

static int set_up(void **state)
{
    (void)state;
    recording_fixture_admit(0);
    mine = tml_recorder_here();
    return mine && tml_step_table_open(&table, DEADLINE_NS) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    recording_fixture_drain(&table);
    tml_step_table_abandon(&table);
    tml_step_table_close(&table);
    recording_fixture_stop();
    assert_int_equal(fake_cuda_misuses(), 0);
    assert_int_equal(fake_cuda_live_events(), 0); /* whatever the test did, each event has found its way back */
    return 0;
}

/* What the sampler's clock says: all events of now are not overdue. */
static bool next_at(int64_t now_ns, bool give_up)
{
    recording_fixture_drain(&table);
    return tml_step_table_next(&table, now_ns, give_up, &row);
}

static bool next(void)
{
    return next_at(tml_now_ns(), false);
}

static void span(enum traceml_phase phase, struct traceml_stream stream, int64_t work_ns)
{
    traceml_span opened = tml_recorder_begin_owner(mine, phase, stream);
    if (stream.device >= 0)
        fake_cuda_work(stream.device, stream.handle, work_ns);
    tml_recorder_end_owner(mine, opened, 0);
}

static void step_with(struct traceml_stream stream, unsigned flags, enum traceml_phase phase, struct traceml_stream on)
{
    traceml_span opened = tml_recorder_step_begin_owner(mine, stream);
    span(phase, on, MS);
    tml_recorder_end_owner(mine, opened, flags);
}

static void step(struct traceml_stream stream)
{
    step_with(stream, 0, TRACEML_PHASE_FORWARD, stream);
}

static void *step_elsewhere(void *stream)
{
    struct tml_recorder *kept = mine;
    mine = tml_recorder_here();
    step(*(struct traceml_stream *)stream);
    mine = kept;
    return NULL;
}

static void *span_elsewhere(void *argument)
{
    struct tml_recorder *recorder = tml_recorder_here();
    (void)argument;
    tml_recorder_end_owner(recorder, tml_recorder_begin_owner(recorder, TRACEML_PHASE_BACKWARD, stream0), 0);
    return NULL;
}

static void steps_are_closed_in_order_and_once(void **state)
{
    (void)state;
    assert_false(next());
    for (unsigned i = 1; i <= 3000; i++) { /* past the table's rows */
        step(none);
        if (i % 500)
            continue;
        for (uint64_t number = i - 499; number <= i; number++) {
            assert_true(next());
            assert_int_equal(row.step, number);
            assert_int_equal(row.iteration, number);
            assert_int_equal(row.flags, number == 1 ? TML_STEP_FLAG_FIRST : 0);
        }
        assert_false(next());
    }
}

static void aborted_steps_are_kept_and_the_numbers_of_the_others_are_contiguous(void **state)
{
    (void)state;
    static const uint64_t numbers[] = {1, 2, 2, 2, 3};
    for (unsigned i = 0; i < 5; i++)
        step_with(none, i == 1 || i == 2 ? TRACEML_SPAN_ABORTED : 0, TRACEML_PHASE_FORWARD, none);
    for (unsigned i = 0; i < 5; i++) {
        assert_true(next());
        assert_int_equal(row.step, numbers[i]);
        assert_int_equal((row.flags & TML_STEP_FLAG_ABORTED) != 0, i == 1 || i == 2);
    }
}

static void a_step_waits_for_the_device_and_those_after_it_with_it(void **state)
{
    (void)state;
    step(stream0);
    step(none);
    assert_false(next());
    assert_int_equal(tml_step_table_pending(&table), 2);
    fake_cuda_advance(MS);
    assert_true(next());
    assert_true(next());
    assert_int_equal(tml_step_table_pending(&table), 0);
}

static void a_span_that_ends_after_its_step_was_closed_is_late(void **state)
{
    (void)state;
    traceml_span outer = tml_recorder_begin_owner(mine, TRACEML_PHASE_USER, stream0);
    step(none);
    assert_true(next());
    tml_recorder_end_owner(mine, outer, 0);
    recording_fixture_drain(&table);
    assert_int_equal(table.losses[TML_LOSS_LATE], 1);
}

static void a_step_whose_record_was_lost_is_passed_over_and_keeps_its_number(void **state)
{
    (void)state;
    step(stream0);
    fake_cuda_advance(MS);
    assert_true(next());
    traceml_span opened = tml_recorder_step_begin_owner(mine, stream0);
    span(TRACEML_PHASE_FORWARD, stream0, MS);
    for (unsigned i = 0; i < TML_RING_RECORDS; i++)
        span(TRACEML_PHASE_USER, none, 0);
    tml_recorder_end_owner(mine, opened, 0); /* the ring is full */
    recording_fixture_drain(&table);
    fake_cuda_advance(2 * MS);
    assert_false(next());
    for (int i = 0; i < 2; i++)
        step(stream0);
    fake_cuda_advance(2 * MS);
    assert_true(next());
    assert_int_equal(row.step, 3);
    assert_true(row.flags & TML_STEP_FLAG_PARTIAL);
    assert_true(row.term_ns[TML_CLOCK_CPU][TML_TERM_ITERATION] == TML_NS_NONE); /* where it begins is lost */
    assert_int_equal(table.losses[TML_LOSS_STEP_LOST], 1);
    assert_int_equal(row.gpu_reason, TML_REASON_RECORDS_LOST);
    assert_true(next());
    assert_int_equal(row.step, 4);
    assert_int_equal(row.flags, 0);
    assert_true(row.gpu_complete);
}

static void a_step_that_lost_spans_says_so_even_if_it_is_closed_much_later(void **state)
{
    (void)state;
    step(stream0);
    fake_cuda_advance(MS);
    assert_true(next());
    traceml_span opened = tml_recorder_step_begin_owner(mine, stream0);
    for (unsigned i = 0; i < TML_OPEN_SPANS + 5; i++)
        tml_recorder_begin_owner(mine, TRACEML_PHASE_USER, none); /* too deep: some are dropped */
    fake_cuda_work(0, NULL, 10 * MS);
    tml_recorder_end_owner(mine, opened, 0);
    for (int tick = 0; tick < 5; tick++)
        assert_false(next()); /* the loss is seen in the first of these; the device is busy */
    fake_cuda_advance(10 * MS);
    assert_true(next());
    assert_true(row.flags & TML_STEP_FLAG_PARTIAL);
    step(none); /* it had begun when the loss was seen: perhaps some were its own */
    step(none);
    assert_true(next());
    assert_true(next());
    assert_false(row.flags & TML_STEP_FLAG_PARTIAL);
}

static void a_pair_that_times_out_lets_later_steps_pass(void **state)
{
    (void)state;
    step(stream0);
    fake_cuda_advance(MS);
    assert_true(next());
    traceml_span opened = tml_recorder_step_begin_owner(mine, stream0);
    traceml_span forward = tml_recorder_begin_owner(mine, TRACEML_PHASE_FORWARD, stream0);
    fake_cuda_hang_next_records(2); /* its end, and the step's */
    tml_recorder_end_owner(mine, forward, 0);
    tml_recorder_end_owner(mine, opened, 0);
    step(stream0);
    fake_cuda_advance(MS);
    assert_false(next());
    assert_true(next_at(tml_now_ns() + DEADLINE_NS + 1, false));
    assert_int_equal(row.step, 2);
    assert_int_equal(row.gpu_reason, TML_REASON_TIMED_OUT);
    assert_true(row.flags & TML_STEP_FLAG_TIMED_OUT);
    assert_int_equal(row.cell[TML_REGION_IN][TRACEML_PHASE_FORWARD].count, 1); /* the host's bracket stands */
    assert_true(row.cell[TML_REGION_IN][TRACEML_PHASE_FORWARD].exclusive_ns[TML_CLOCK_CPU] > 0);
    assert_int_equal(table.losses[TML_LOSS_TIMED_OUT], 2);
    assert_true(next());
    assert_int_equal(row.step, 3);
    assert_int_equal(row.gpu_reason, TML_REASON_TIMED_OUT); /* its iteration has no beginning on the device */
    assert_true(row.term_ns[TML_CLOCK_GPU][TML_TERM_TRACED_STEP] > 0);
}

static void a_step_whose_own_end_alone_hangs_is_flagged_too(void **state)
{
    (void)state;
    traceml_span opened = tml_recorder_step_begin_owner(mine, stream0);
    fake_cuda_hang_next_records(1);
    tml_recorder_end_owner(mine, opened, 0);
    assert_true(next_at(tml_now_ns() + DEADLINE_NS + 1, false));
    assert_int_equal(row.gpu_reason, TML_REASON_TIMED_OUT);
    assert_true(row.flags & TML_STEP_FLAG_TIMED_OUT);
}

static void stuck_events_come_back_once_they_have_completed_and_not_before(void **state)
{
    (void)state;
    void *hung[2];
    for (int i = 0; i < 2; i++) { /* two steps; of each the end hangs */
        traceml_span opened = tml_recorder_step_begin_owner(mine, stream0);
        fake_cuda_hang_next_records(1);
        tml_recorder_end_owner(mine, opened, 0);
    }
    recording_fixture_drain(&table);
    for (int i = 0; i < 2; i++)
        hung[i] = table.spans[table.rows[i + 1].step].record.end_event;
    for (int i = 0; i < 2; i++)
        assert_true(next_at(tml_now_ns(), true));
    for (int tick = 0; tick < 5; tick++)
        recording_fixture_drain(&table);
    assert_int_equal(table.stuck_head - table.stuck_tail, 2); /* the begins are back, the ends are not */
    fake_cuda_release_event(hung[1]);
    recording_fixture_drain(&table);
    assert_int_equal(table.stuck_head - table.stuck_tail, 1); /* the first one, still hanging, keeps nobody */
    fake_cuda_release_event(hung[0]);
    recording_fixture_drain(&table);
    assert_int_equal(table.stuck_head - table.stuck_tail, 0);
    size_t events = fake_cuda_live_events();
    step(none);
    for (int i = 0; i < 2; i++)
        step(stream0);
    assert_true(fake_cuda_live_events() <= events + 4); /* they are in use again */
}

static void spans_of_another_thread_are_counted_apart_and_not_waited_out(void **state)
{
    (void)state;
    step(stream0);
    traceml_span opened = tml_recorder_step_begin_owner(mine, stream0);
    fake_cuda_calls_elsewhere(span_elsewhere, NULL);
    tml_recorder_end_owner(mine, opened, 0);
    fake_cuda_advance(2 * MS);
    assert_true(next());
    assert_true(next());
    const struct tml_cell *cell = &row.cell[TML_REGION_IN][TRACEML_PHASE_BACKWARD];
    assert_int_equal(cell->count, 1);
    assert_int_equal(cell->other_count, 1);
    assert_true(cell->exclusive_ns[TML_CLOCK_CPU] == TML_NS_NONE);
    assert_int_equal(row.microbatches, 0);
    assert_true(row.gpu_complete);
}

static void a_phase_on_another_device_makes_the_step_cpu_only_and_is_no_device_error(void **state)
{
    (void)state;
    fake_cuda_activate_context(1);
    step(stream0);
    step_with(stream0, 0, TRACEML_PHASE_FORWARD, (struct traceml_stream){1, NULL});
    fake_cuda_advance(2 * MS);
    assert_true(next());
    assert_true(next());
    assert_false(row.gpu_complete);
    assert_int_equal(row.gpu_reason, TML_REASON_MULTI_DEVICE);
    assert_true(row.cell[TML_REGION_IN][TRACEML_PHASE_FORWARD].exclusive_ns[TML_CLOCK_GPU] == TML_NS_NONE);
}

/* What a copy on the step's stream took is missing in that stream's ledger; one beside it is not. */
static void a_copy_on_the_steps_stream_is_required_and_one_beside_it_is_not(void **state)
{
    (void)state;
    fake_cuda_activate_context(1);
    step(stream0);
    step_with(stream0, 0, TRACEML_PHASE_H2D, (struct traceml_stream){1, NULL});
    step_with(stream0, 0, TRACEML_PHASE_H2D, none);
    traceml_span opened = tml_recorder_step_begin_owner(mine, stream0);
    traceml_span copy = tml_recorder_begin_owner(mine, TRACEML_PHASE_H2D, stream0);
    fake_cuda_hang_next_records(1);
    tml_recorder_end_owner(mine, copy, 0);
    tml_recorder_end_owner(mine, opened, 0);
    fake_cuda_advance(4 * MS);
    for (unsigned i = 0; i < 3; i++) {
        assert_true(next());
        assert_true(i == 0 || row.gpu_complete); /* the first has no beginning */
    }
    assert_true(next_at(tml_now_ns() + DEADLINE_NS + 1, false));
    assert_false(row.gpu_complete);
    assert_int_equal(row.gpu_reason, TML_REASON_TIMED_OUT);
}

/* One handle names a stream of each thread's own: the step of another thread is on another one. */
static void the_per_thread_stream_of_two_threads_is_not_one(void **state)
{
    (void)state;
    struct traceml_stream own = {0, (void *)2};
    step(own); /* its work is not done when the other thread's is */
    fake_cuda_work(0, own.handle, 100 * MS);
    step(own);
    fake_cuda_calls_elsewhere(step_elsewhere, &own);
    fake_cuda_advance(2 * MS);
    assert_true(next());
    assert_false(next());
    fake_cuda_advance(200 * MS);
    assert_true(next());
    assert_true(row.gpu_complete);
    assert_true(next());
    assert_true(row.flags & TML_STEP_FLAG_STREAM_CHANGED);
}

static void an_error_between_question_and_time_ends_all_calls_and_is_said(void **state)
{
    (void)state;
    step(stream0);
    fake_cuda_advance(MS);
    assert_true(next());
    step(stream0);
    fake_cuda_advance(MS);
    fake_cuda_fail_call("cudaEventElapsedTime", 5, 719); /* after the step's and the forward's: the iteration's begin */
    assert_true(next());
    assert_false(row.gpu_complete);
    assert_int_equal(row.gpu_reason, TML_REASON_DEVICE_ERROR);
    uint64_t calls = fake_cuda_all_calls();
    step(stream0);
    assert_true(next());
    assert_int_equal(row.gpu_reason, TML_REASON_DEVICE_ERROR);
    assert_int_equal(fake_cuda_all_calls(), calls);
    tml_recording.cuda->broken = false; /* so that the events can be counted out */
}

static pthread_barrier_t met;

static void *fetch_across_a_step(void *unused)
{
    struct tml_recorder *recorder = tml_recorder_here();
    (void)unused;
    traceml_span opened = tml_recorder_begin_fetch_owner(recorder, 1, 1, none);
    pthread_barrier_wait(&met); /* it is open */
    pthread_barrier_wait(&met); /* the step is closed */
    tml_recorder_end_owner(recorder, opened, 0);
    return NULL;
}

static void a_span_of_another_thread_across_the_end_of_a_step_is_counted_in_the_next(void **state)
{
    (void)state;
    pthread_t thread;
    assert_int_equal(pthread_barrier_init(&met, NULL, 2), 0);
    assert_int_equal(pthread_create(&thread, NULL, fetch_across_a_step, NULL), 0);
    pthread_barrier_wait(&met);
    step(none);
    bool closed = next();
    pthread_barrier_wait(&met);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_barrier_destroy(&met);
    step(none);
    assert_true(closed && next());
    assert_int_equal(row.cell[TML_REGION_PRE][TRACEML_PHASE_DATALOADER_FETCH].count, 1);
    assert_int_equal(row.cell[TML_REGION_PRE][TRACEML_PHASE_DATALOADER_FETCH].other_count, 1);
    assert_int_equal(table.losses[TML_LOSS_LATE], 0);
}

static void own_spans_are_kept_by_name_and_region(void **state)
{
    (void)state;
    tml_recorder_end_owner(mine, tml_recorder_begin_named_owner(mine, 3, none), 0);
    traceml_span opened = tml_recorder_step_begin_owner(mine, stream0);
    traceml_span on_device = tml_recorder_begin_named_owner(mine, 4, stream0);
    fake_cuda_work(0, NULL, MS);
    tml_recorder_end_owner(mine, on_device, 0);
    tml_recorder_end_owner(mine, tml_recorder_begin_named_owner(mine, 3, none), 0);
    tml_recorder_end_owner(mine, opened, 0);
    fake_cuda_advance(2 * MS);
    assert_true(next());
    assert_int_equal(row.own[TML_REGION_PRE][3].count, 1);
    assert_int_equal(row.own[TML_REGION_IN][3].count, 1);
    assert_int_equal(row.own[TML_REGION_IN][3].exclusive_ns[TML_CLOCK_GPU], TML_NS_NONE); /* no event */
    assert_int_equal(row.own[TML_REGION_IN][4].exclusive_ns[TML_CLOCK_GPU], MS - TML_DEVICE_RECORD_NS);
    assert_int_equal(row.cell[TML_REGION_IN][TRACEML_PHASE_USER].count, 2);
    assert_int_equal(row.own[TML_REGION_PRE][3].exclusive_ns[TML_CLOCK_CPU],
                     row.cell[TML_REGION_PRE][TRACEML_PHASE_USER].exclusive_ns[TML_CLOCK_CPU]);
}

/* One tick of the sampler, as far as the table goes. */
static void expect_of_a_tick(unsigned rows, unsigned queries)
{
    uint64_t before = fake_cuda_calls("cudaEventQuery");
    unsigned closed = 0;
    tml_step_table_poll(&table);
    while (tml_step_table_next(&table, tml_now_ns(), false, &row))
        closed++;
    assert_int_equal(closed, rows);
    assert_int_equal(fake_cuda_calls("cudaEventQuery") - before, queries);
}

static void a_tick_asks_for_the_newest_first_and_for_little_else(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 100; i++)
        step(stream0); /* 1 ms of the device's time each */
    recording_fixture_drain(&table);
    expect_of_a_tick(0, 2); /* the newest, and the oldest */
    fake_cuda_advance(30 * MS);
    expect_of_a_tick(30, 30 + 2); /* each that is done, and the first that is not */
    fake_cuda_advance(70 * MS);
    expect_of_a_tick(70, 1); /* the newest is done, so all before it are */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(steps_are_closed_in_order_and_once),
        TEST(aborted_steps_are_kept_and_the_numbers_of_the_others_are_contiguous),
        TEST(a_step_waits_for_the_device_and_those_after_it_with_it),
        TEST(a_span_that_ends_after_its_step_was_closed_is_late),
        TEST(a_step_whose_record_was_lost_is_passed_over_and_keeps_its_number),
        TEST(a_step_that_lost_spans_says_so_even_if_it_is_closed_much_later),
        TEST(a_pair_that_times_out_lets_later_steps_pass),
        TEST(a_step_whose_own_end_alone_hangs_is_flagged_too),
        TEST(stuck_events_come_back_once_they_have_completed_and_not_before),
        TEST(spans_of_another_thread_are_counted_apart_and_not_waited_out),
        TEST(a_phase_on_another_device_makes_the_step_cpu_only_and_is_no_device_error),
        TEST(a_copy_on_the_steps_stream_is_required_and_one_beside_it_is_not),
        TEST(the_per_thread_stream_of_two_threads_is_not_one),
        TEST(a_span_of_another_thread_across_the_end_of_a_step_is_counted_in_the_next),
        TEST(own_spans_are_kept_by_name_and_region),
        TEST(a_tick_asks_for_the_newest_first_and_for_little_else),
        TEST(an_error_between_question_and_time_ends_all_calls_and_is_said),
    };
    return cmocka_run_group_tests(tests, fake_cuda_calls_load, NULL);
}
