/* One thread's spans on their way into its ring: nesting, unwinding, tokens, steps, and what is counted as lost. */
#include "recording_fixture.h"

static const struct traceml_stream none = {-1, NULL}, stream0 = {0, NULL};
static struct tml_recorder *mine;

static int admit(void **state)
{
    (void)state;
    recording_fixture_admit(0);
    mine = tml_recorder_here();
    return mine ? 0 : -1;
}

static int stop(void **state)
{
    (void)state;
    recording_fixture_stop();
    return 0;
}

static traceml_span begin(enum traceml_phase phase, struct traceml_stream stream)
{
    return tml_recorder_begin_owner(mine, phase, stream);
}

static traceml_span step_begin(void)
{
    return tml_recorder_step_begin_owner(mine, none);
}

static void end(traceml_span span)
{
    tml_recorder_end_owner(mine, span, 0);
}

static void assert_next(enum traceml_phase phase, unsigned flags)
{
    struct tml_record record = recording_fixture_pop();
    assert_int_equal(record.phase, phase);
    assert_int_equal(record.flags, flags);
}

static void own_spans_of_different_names_are_both_kept_and_of_one_the_outermost(void **state)
{
    (void)state;
    traceml_span outer = tml_recorder_begin_named_owner(mine, 1, none);
    traceml_span inner = tml_recorder_begin_named_owner(mine, 2, none);
    end(tml_recorder_begin_named_owner(mine, 1, none));
    end(inner);
    end(outer);
    assert_int_equal(recording_fixture_pop().name, 2);
    assert_int_equal(recording_fixture_pop().name, 1);
    assert_true(recording_fixture_empty());
    end(tml_recorder_begin_named_owner(mine, 1, none)); /* the depths are even again */
    assert_int_equal(recording_fixture_pop().name, 1);
    tml_recorder_cancel_owner(mine, tml_recorder_begin_named_owner(mine, 1, none));
    end(tml_recorder_begin_named_owner(mine, 1, none));
    assert_int_equal(recording_fixture_pop().name, 1);
}

static void spans_come_out_in_the_order_of_their_ends(void **state)
{
    (void)state;
    traceml_span step = step_begin(), forward = begin(TRACEML_PHASE_FORWARD, none);
    end(begin(TRACEML_PHASE_H2D, none));
    end(forward);
    end(step);
    struct tml_record copy = recording_fixture_pop(), outer = recording_fixture_pop();
    struct tml_record whole = recording_fixture_pop();
    assert_int_equal(copy.phase, TRACEML_PHASE_H2D);
    assert_int_equal(outer.phase, TRACEML_PHASE_FORWARD);
    assert_int_equal(whole.phase, TRACEML_PHASE_STEP);
    assert_true(whole.begin_ns <= outer.begin_ns && outer.begin_ns <= copy.begin_ns);
    assert_true(copy.end_ns <= outer.end_ns && outer.end_ns <= whole.end_ns);
    assert_true(recording_fixture_empty());
}

static void of_nested_spans_of_one_phase_the_outermost_counts(void **state)
{
    (void)state;
    traceml_span outer = begin(TRACEML_PHASE_FORWARD, stream0);
    traceml_span between = begin(TRACEML_PHASE_USER, none);
    end(begin(TRACEML_PHASE_FORWARD, stream0));
    end(between);
    end(outer);
    assert_next(TRACEML_PHASE_USER, 0);
    assert_next(TRACEML_PHASE_FORWARD, 0);
    assert_true(recording_fixture_empty());
    assert_int_equal(fake_cuda_calls("cuEventRecord"), 2);
}

static void ending_a_span_ends_what_was_left_open_inside(void **state)
{
    (void)state;
    traceml_span outer = begin(TRACEML_PHASE_FORWARD, stream0);
    begin(TRACEML_PHASE_USER, stream0);
    begin(TRACEML_PHASE_H2D, none);
    end(outer);
    assert_next(TRACEML_PHASE_H2D, TRACEML_SPAN_ABORTED);
    struct tml_record left = recording_fixture_pop();
    assert_int_equal(left.flags, TRACEML_SPAN_ABORTED);
    assert_null(left.begin_event); /* its device bracket could not be closed: the event is free again */
    assert_int_equal(left.no_device, TML_REASON_EVENTS_LOST);
    struct tml_record whole = recording_fixture_pop();
    assert_int_equal(whole.flags, 0);
    assert_non_null(whole.begin_event);
    assert_non_null(whole.end_event);
}

static void a_cancelled_span_was_never_there(void **state)
{
    (void)state;
    end(begin(TRACEML_PHASE_USER, stream0));
    size_t events = fake_cuda_live_events();
    traceml_span fetch = begin(TRACEML_PHASE_DATALOADER_FETCH, stream0);
    tml_recorder_cancel_owner(mine, fetch);
    tml_recorder_cancel_owner(mine, fetch);
    end(fetch);
    assert_next(TRACEML_PHASE_USER, 0);
    assert_true(recording_fixture_empty());
    end(begin(TRACEML_PHASE_DATALOADER_FETCH, none)); /* and is not "inside" the cancelled one */
    assert_next(TRACEML_PHASE_DATALOADER_FETCH, 0);
    assert_int_equal(fake_cuda_live_events(), events + 1);
}

static void a_token_is_good_for_its_own_span_alone(void **state)
{
    (void)state;
    traceml_span first = begin(TRACEML_PHASE_FORWARD, none);
    end(first);
    traceml_span second = begin(TRACEML_PHASE_FORWARD, none); /* stands where the first stood */
    end(first);
    end(-1);
    end(INT32_MAX);
    assert_int_equal(mine->depth, 1);
    end(second);
    assert_int_equal(mine->depth, 0);
}

static void spans_beyond_the_stack_are_counted_and_the_others_stay(void **state)
{
    (void)state;
    traceml_span spans[TML_OPEN_SPANS];
    for (unsigned i = 0; i < TML_OPEN_SPANS; i++)
        assert_true((spans[i] = begin(TRACEML_PHASE_USER, none)) >= 0);
    for (int i = 0; i < 5; i++)
        assert_int_equal(begin(TRACEML_PHASE_H2D, none), -1);
    assert_int_equal(tml_recorders_loss(TML_LOSS_STACK_FULL), 5);
    assert_int_equal(step_begin(), -1);
    for (unsigned i = TML_OPEN_SPANS; i-- > 0;)
        end(spans[i]);
    assert_next(TRACEML_PHASE_USER, 0);
    traceml_span step = step_begin(); /* the refused one is not open */
    assert_true(step >= 0);
    end(step);
}

static void a_step_inside_a_step_is_a_no_op_and_counted(void **state)
{
    (void)state;
    traceml_span step = step_begin();
    traceml_span nested = step_begin();
    assert_int_equal(nested, -1);
    end(nested);
    end(step);
    assert_next(TRACEML_PHASE_STEP, 0);
    assert_true(recording_fixture_empty());
    assert_int_equal(tml_recorders_loss(TML_LOSS_NESTED_STEP), 1);
    assert_int_equal(tml_recording.iteration, 2);
    assert_int_equal(tml_recording.completed, 1);
}

static void *begin_step_elsewhere(void *result)
{
    struct tml_recorder *recorder = tml_recorder_here();
    *(traceml_span *)result = recorder ? tml_recorder_step_begin_owner(recorder, none) : INT32_MIN;
    return NULL;
}

static void a_second_thread_s_step_beside_an_open_one_is_a_no_op_and_counted(void **state)
{
    (void)state;
    traceml_span step = step_begin(), other = 0;
    fake_cuda_calls_elsewhere(begin_step_elsewhere, &other);
    assert_int_equal(other, -1);
    end(step);
    assert_int_equal(tml_recorders_loss(TML_LOSS_OTHER_THREAD_STEP), 1);
    assert_int_equal(tml_recording.completed, 1);
}

static void a_thread_that_ends_inside_its_step_leaves_an_aborted_one(void **state)
{
    (void)state;
    traceml_span other = -1;
    fake_cuda_calls_elsewhere(begin_step_elsewhere, &other);
    assert_true(other >= 0);
    traceml_span step = step_begin(); /* once it was refused for ever */
    assert_true(step >= 0);
    assert_int_equal(tml_recording.iteration, 2);
    assert_int_equal(tml_recording.completed, 0);
    end(step);
    assert_int_equal(tml_recording.completed, 1);
}

static void *leave_span_open(void *argument)
{
    (void)argument;
    struct tml_recorder *recorder = tml_recorder_here();
    if (recorder)
        tml_recorder_begin_owner(recorder, TRACEML_PHASE_FORWARD, stream0);
    return NULL;
}

static void threads_that_end_inside_spans_use_up_no_events(void **state)
{
    (void)state;
    struct tml_step_table table;
    assert_true(tml_step_table_open(&table, 0));
    for (int i = 0; i < 100; i++) {
        fake_cuda_calls_elsewhere(leave_span_open, NULL);
        recording_fixture_drain(&table); /* frees the recorder for the next */
    }
    assert_int_equal(tml_recorders_loss(TML_LOSS_POOL_EMPTY), 0);
    assert_true(fake_cuda_peak_events() <= 2);
    tml_step_table_close(&table);
}

static void a_step_ends_with_the_span_around_it(void **state)
{
    (void)state;
    traceml_span outer = begin(TRACEML_PHASE_USER, none);
    step_begin();
    end(outer); /* an exception passed by the step's end */
    assert_next(TRACEML_PHASE_STEP, TRACEML_SPAN_ABORTED);
    assert_next(TRACEML_PHASE_USER, 0);
    assert_int_equal(tml_recording.iteration, 2);
    traceml_span step = step_begin(); /* once it was refused for ever, as nested */
    assert_true(step >= 0);
    end(step);
    assert_next(TRACEML_PHASE_STEP, 0);
    assert_int_equal(tml_recording.completed, 1);
}

static void a_cancelled_step_makes_room_for_the_next(void **state)
{
    (void)state;
    tml_recorder_cancel_owner(mine, step_begin());
    assert_true(recording_fixture_empty());
    assert_int_equal(tml_recording.iteration, 1);
    traceml_span step = step_begin();
    assert_true(step >= 0);
    end(step);
    assert_int_equal(recording_fixture_pop().iteration, 1);
}

static void an_aborted_step_advances_the_iteration_but_not_the_count(void **state)
{
    (void)state;
    tml_recorder_end_owner(mine, step_begin(), TRACEML_SPAN_ABORTED);
    end(step_begin());
    assert_int_equal(tml_recording.iteration, 3);
    assert_int_equal(tml_recording.completed, 1);
    assert_int_equal(recording_fixture_pop().iteration, 1);
    assert_int_equal(recording_fixture_pop().iteration, 2);
}

static void the_last_step_of_the_limit_ends_admission(void **state)
{
    (void)state;
    tml_recording.max_steps = 2;
    end(step_begin());
    assert_non_null(tml_recorder_here());
    end(step_begin());
    assert_null(tml_recorder_here());
}

static void a_full_ring_loses_spans_and_no_events(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 40; i++) /* with events, until they are all under way */
        end(begin(TRACEML_PHASE_USER, stream0));
    for (unsigned i = 40; i < TML_RING_RECORDS + 100; i++)
        end(begin(TRACEML_PHASE_USER, none));
    assert_int_equal(tml_recorders_loss(TML_LOSS_RING_FULL), 100);
    assert_int_equal(mine->ring.attempts, TML_RING_RECORDS + 100);
    assert_int_equal(tml_recorders_loss(TML_LOSS_POOL_EMPTY), 40 - TML_EVENT_POOL_OTHER / 2);
    unsigned records = 0;
    for (; !recording_fixture_empty(); records++) {
        struct tml_record record = recording_fixture_pop();
        for (int i = 0; i < 2 && record.begin_event; i++)
            tml_event_pool_return_sampler(mine->pool[0], i ? record.end_event : record.begin_event);
    }
    assert_int_equal(records, TML_RING_RECORDS);
}

static void why_there_is_no_device_time_stands_in_the_record(void **state)
{
    (void)state;
    end(begin(TRACEML_PHASE_USER, none));
    end(begin(TRACEML_PHASE_USER, (struct traceml_stream){1, NULL})); /* a device that nobody uses */
    fake_cuda_fail_call("cuEventRecord", 2, 1);
    end(begin(TRACEML_PHASE_USER, stream0));
    tml_recording.cuda->broken = true;
    end(begin(TRACEML_PHASE_USER, stream0));
    static const enum tml_reason reasons[] = {TML_REASON_NO_CUDA, TML_REASON_NO_CONTEXT, TML_REASON_DEVICE_ERROR,
                                              TML_REASON_DEVICE_ERROR};
    for (unsigned i = 0; i < 4; i++) {
        struct tml_record record = recording_fixture_pop();
        assert_int_equal(record.no_device, reasons[i]);
        assert_null(record.begin_event);
        assert_null(record.end_event);
    }
    assert_int_equal(tml_recorders_loss(TML_LOSS_EVENT_FAILED), 1);
    tml_recording.cuda->broken = false;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, admit, stop)
    const struct CMUnitTest tests[] = {
        TEST(own_spans_of_different_names_are_both_kept_and_of_one_the_outermost),
        TEST(spans_come_out_in_the_order_of_their_ends),
        TEST(of_nested_spans_of_one_phase_the_outermost_counts),
        TEST(ending_a_span_ends_what_was_left_open_inside),
        TEST(a_cancelled_span_was_never_there),
        TEST(a_token_is_good_for_its_own_span_alone),
        TEST(spans_beyond_the_stack_are_counted_and_the_others_stay),
        TEST(a_step_inside_a_step_is_a_no_op_and_counted),
        TEST(a_second_thread_s_step_beside_an_open_one_is_a_no_op_and_counted),
        TEST(a_thread_that_ends_inside_its_step_leaves_an_aborted_one),
        TEST(threads_that_end_inside_spans_use_up_no_events),
        TEST(a_step_ends_with_the_span_around_it),
        TEST(a_cancelled_step_makes_room_for_the_next),
        TEST(an_aborted_step_advances_the_iteration_but_not_the_count),
        TEST(the_last_step_of_the_limit_ends_admission),
        TEST(a_full_ring_loses_spans_and_no_events),
        TEST(why_there_is_no_device_time_stands_in_the_record),
    };
    return cmocka_run_group_tests(tests, fake_cuda_calls_load, NULL);
}
