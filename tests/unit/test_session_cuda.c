/* Whole sessions on the fake GPU: device times, losses, and what CUDA was asked to do. */
#include "fake_cuda_calls.h"

#include "clock.h"
#include "session_fixture.h"

#define MS INT64_C(1000000)
#define DEVICE_RECORD_NS 1300 /* what the ledger takes for one event record; TML_DEVICE_RECORD_NS */

static struct traceml_stream stream0 = {0, NULL};

static int fresh(void **state)
{
    (void)state;
    memset(&run, 0, sizeof run);
    fake_cuda_reset();
    fake_cuda_activate_context(0);
    return 0;
}

static void span(enum traceml_phase phase, struct traceml_stream stream, int64_t work_ns)
{
    traceml_span opened = traceml_begin(run.session, phase, stream);
    if (stream.device >= 0)
        fake_cuda_work(stream.device, stream.handle, work_ns);
    traceml_end(run.session, opened, 0);
}

/* fetch 5 ms, 1 ms of nothing on the device, then a step: forward 10, gap 2, backward 20, optimizer 3, gap 4. */
static void known_step(struct traceml_stream stream)
{
    span(TRACEML_PHASE_DATALOADER_FETCH, traceml_last_stream(run.session), 5 * MS);
    fake_cuda_work(stream.device, stream.handle, 1 * MS);
    traceml_span step = traceml_step_begin(run.session, stream);
    span(TRACEML_PHASE_FORWARD, stream, 10 * MS);
    fake_cuda_work(stream.device, stream.handle, 2 * MS);
    span(TRACEML_PHASE_BACKWARD, stream, 20 * MS);
    span(TRACEML_PHASE_OPTIMIZER, stream, 3 * MS);
    fake_cuda_work(stream.device, stream.handle, 4 * MS);
    traceml_step_end(run.session, step, 0);
}

/* The clock tie is made with it: for a second, all records and queries are the test's own. */
static void first_step(struct traceml_stream stream)
{
    known_step(stream);
    traceml_flush(run.session, 1);
}

static void let_device_finish(void)
{
    fake_cuda_advance(INT64_C(3600000) * MS);
}

static void assert_near(int64_t value, int64_t expected)
{
    if (value < expected - 1000 || value > expected + 1000) /* float ms of cudaEventElapsedTime: under 1 us here */
        fail_msg("%lld ns, expected %lld", (long long)value, (long long)expected);
}

static int64_t gpu(const struct tml_step_row *row, enum tml_region region, enum traceml_phase phase)
{
    return row->cell[region][phase].exclusive_ns[TML_CLOCK_GPU];
}

static void device_times_are_the_gaps_that_were_put_there(void **state)
{
    (void)state;
    struct traceml_options options = session_fixture_options();
    session_fixture_open(&options);
    for (int i = 0; i < 5; i++)
        known_step(stream0);
    let_device_finish();
    assert_int_equal(session_fixture_close(), TRACEML_OK);
    assert_int_equal(run.row_count, 5);
    assert_false(run.rows[0].gpu_complete);
    for (unsigned i = 1; i < 5; i++) {
        const struct tml_step_row *row = &run.rows[i];
        const int64_t *term = row->term_ns[TML_CLOCK_GPU];
        assert_true(row->gpu_complete);
        assert_near(gpu(row, TML_REGION_PRE, TRACEML_PHASE_DATALOADER_FETCH), 5 * MS - DEVICE_RECORD_NS);
        assert_near(gpu(row, TML_REGION_IN, TRACEML_PHASE_FORWARD), 10 * MS - DEVICE_RECORD_NS);
        assert_near(gpu(row, TML_REGION_IN, TRACEML_PHASE_BACKWARD), 20 * MS - DEVICE_RECORD_NS);
        assert_near(gpu(row, TML_REGION_IN, TRACEML_PHASE_OPTIMIZER), 3 * MS - DEVICE_RECORD_NS);
        assert_near(term[TML_TERM_ITERATION], 45 * MS);
        assert_near(term[TML_TERM_TRACED_STEP], 39 * MS);
        assert_near(term[TML_TERM_PRE_STEP_OTHER] + term[TML_TERM_INSTRUMENTATION_PRE], 1 * MS + DEVICE_RECORD_NS);
        assert_near(term[TML_TERM_RESIDUAL] + term[TML_TERM_INSTRUMENTATION], 6 * MS + 3 * DEVICE_RECORD_NS);
    }
}

/* On one clock with the host, as the fake can be: what the tie claims can be checked. */
static void a_lead_is_how_long_the_device_still_works_within_its_stated_error(void **state)
{
    (void)state;
    struct traceml_options options = session_fixture_options();
    int64_t done_ns[6], begun_ns[6];
    fake_cuda_follow_host_clock(1);
    session_fixture_open(&options);
    for (int i = 0; i < 6; i++) {
        traceml_span step = traceml_step_begin(run.session, stream0);
        int64_t before_ns = fake_cuda_now_ns();
        fake_cuda_work(0, NULL, 20 * MS); /* the device is idle: it begins now */
        done_ns[i] = (before_ns + fake_cuda_now_ns()) / 2 + 20 * MS;
        begun_ns[i] = fake_cuda_now_ns();
        span(TRACEML_PHASE_FORWARD, stream0, 0);
        traceml_step_end(run.session, step, 0);
        usleep(25000);
    }
    session_fixture_close();
    unsigned known = 0;
    for (unsigned i = 0; i < 6; i++) {
        const struct tml_device_lead *lead = &run.rows[i].lead;
        if (lead->error_ns == TML_NS_NONE)
            continue;
        known++;
        int64_t least = done_ns[i] - begun_ns[i] - 10 * MS; /* this machine may be busy between the two marks */
        assert_in_range(lead->ns[TML_BOUNDARY_FORWARD_BEGIN], least, done_ns[i] - begun_ns[i] + 1 * MS);
        assert_true(lead->ns[TML_BOUNDARY_FORWARD_END] <= lead->ns[TML_BOUNDARY_FORWARD_BEGIN] + lead->error_ns);
        assert_true(lead->ns[TML_BOUNDARY_BACKWARD_END] == TML_NS_NONE); /* there was none */
    }
    assert_true(known >= 3); /* a tie is refused when this thread is put aside meanwhile */
}

static void only_harmless_cuda_calls_are_made_and_nothing_is_left(void **state)
{
    (void)state;
    struct traceml_options options = session_fixture_options();
    session_fixture_open(&options);
    for (int i = 0; i < 50; i++) {
        known_step(stream0);
        fake_cuda_advance(45 * MS);
    }
    let_device_finish();
    session_fixture_close();
    assert_int_equal(run.row_count, 50);
    assert_int_equal(fake_cuda_forbidden_calls(), 0);
    assert_int_equal(fake_cuda_misuses(), 0);
    assert_int_equal(fake_cuda_live_events(), 0);
    assert_int_equal(fake_cuda_live_streams(), 0);
    assert_true(fake_cuda_calls("cuEventRecord") > 0);
}

static void a_pair_that_never_completes_lets_later_steps_pass(void **state)
{
    (void)state;
    struct traceml_options options = session_fixture_options();
    options.event_deadline_ms = 20;
    session_fixture_open(&options);
    first_step(stream0);
    fake_cuda_hang_next_records(2); /* begin of the fetch, and its end */
    known_step(stream0);
    for (int i = 0; i < 3; i++)
        known_step(stream0);
    let_device_finish();
    traceml_flush(run.session, 2000);
    session_fixture_close();
    assert_int_equal(run.row_count, 5);
    assert_false(run.rows[1].gpu_complete);
    assert_true(run.rows[4].gpu_complete);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(run.rows[i].step, i + 1);
}

static void a_stream_that_is_stuck_is_given_up_and_said(void **state)
{
    (void)state;
    struct traceml_options options = session_fixture_options();
    options.event_deadline_ms = 20;
    session_fixture_open(&options);
    known_step(stream0);
    fake_cuda_block_stream(0, NULL);
    for (int i = 0; i < 3; i++)
        known_step(stream0);
    let_device_finish();
    traceml_flush(run.session, 5000);
    session_fixture_close();
    assert_int_equal(run.row_count, 4);
    assert_int_equal(run.rows[3].gpu_reason, TML_REASON_TIMED_OUT);
    assert_true(run.rows[3].flags & TML_STEP_FLAG_TIMED_OUT);
    assert_true(run.losses[TML_LOSS_TIMED_OUT] > 0);
    assert_int_equal(fake_cuda_misuses(), 0);
}

/* As everybody has it: with the options of traceml_options_init(). */
static void a_hung_device_keeps_nobody_from_ending_for_two_seconds(void **state)
{
    (void)state;
    struct traceml_options options;
    traceml_options_init(&options);
    session_fixture_open(&options);
    known_step(stream0);
    let_device_finish();
    traceml_flush(run.session, 1000);
    fake_cuda_block_stream(0, NULL);
    for (int i = 0; i < 3; i++)
        known_step(stream0);
    let_device_finish();
    int64_t begin_ns = tml_now_ns();
    session_fixture_close();
    assert_in_range(tml_now_ns() - begin_ns, 0, 2000 * MS);
    assert_int_equal(run.row_count, 4);
    assert_true(run.rows[0].flags == TML_STEP_FLAG_FIRST && run.rows[1].gpu_reason == TML_REASON_TIMED_OUT);
    assert_int_equal(fake_cuda_forbidden_calls(), 0); /* no synchronising call, which would hang as well */
}

static void an_event_call_that_fails_costs_its_span_the_device_time_alone(void **state)
{
    (void)state;
    struct traceml_options options = session_fixture_options();
    session_fixture_open(&options);
    first_step(stream0);
    fake_cuda_fail_call("cuEventRecord", 4, 1); /* the step's second: of the forward */
    known_step(stream0);
    known_step(stream0);
    assert_int_equal(cuda.cudaPeekAtLastError(), 0);
    let_device_finish();
    session_fixture_close();
    assert_int_equal(run.row_count, 3);
    assert_false(run.rows[1].gpu_complete);
    assert_true(run.rows[2].gpu_complete);
    assert_int_equal(run.rows[1].cell[TML_REGION_IN][TRACEML_PHASE_FORWARD].count, 1);
    assert_int_equal(run.losses[TML_LOSS_EVENT_FAILED], 1);
}

static void a_device_that_dies_ends_all_cuda_calls_and_no_step(void **state)
{
    (void)state;
    struct traceml_options options = session_fixture_options();
    session_fixture_open(&options);
    known_step(stream0);
    fake_cuda_kill_device(0, 719);
    known_step(stream0);
    traceml_flush(run.session, 1000);
    uint64_t calls = fake_cuda_calls("cuEventRecord") + fake_cuda_calls("cudaEventQuery");
    for (int i = 0; i < 5; i++)
        known_step(stream0);
    traceml_flush(run.session, 1000);
    assert_int_equal(fake_cuda_calls("cuEventRecord") + fake_cuda_calls("cudaEventQuery"), calls);
    session_fixture_close();
    assert_int_equal(run.row_count, 7);
    assert_int_equal(run.rows[6].gpu_reason, TML_REASON_DEVICE_ERROR);
    assert_int_equal(run.losses[TML_LOSS_DEVICE_ERROR], 1);
}

static void a_capturing_stream_gets_no_event_and_its_capture_stays_whole(void **state)
{
    (void)state;
    struct traceml_options options = session_fixture_options();
    session_fixture_open(&options);
    cudaStream_t stream = NULL;
    assert_int_equal(cuda.cudaStreamCreateWithFlags(&stream, 1), 0);
    struct traceml_stream where = {0, stream};
    first_step(where);
    known_step(where); /* spans of these are pending while the capture runs, and the sampler polls */
    assert_int_equal(fake_cuda_begin_capture(stream, FAKE_CUDA_CAPTURE_GLOBAL), 0);
    uint64_t records = fake_cuda_calls("cuEventRecord");
    traceml_span step = traceml_step_begin(run.session, where);
    traceml_end(run.session, traceml_begin(run.session, TRACEML_PHASE_FORWARD, where), 0);
    traceml_step_end(run.session, step, 0);
    usleep(20000);
    assert_int_equal(fake_cuda_calls("cuEventRecord"), records);
    assert_true(fake_cuda_end_capture(stream));
    let_device_finish();
    session_fixture_close();
    assert_int_equal(run.rows[2].gpu_reason, TML_REASON_GRAPH_CAPTURE);
    assert_int_equal(cuda.cudaStreamDestroy(stream), 0);
}

static void a_run_on_the_cpu_makes_no_context(void **state)
{
    (void)state;
    fake_cuda_reset();
    struct traceml_options options = session_fixture_options();
    session_fixture_open(&options);
    for (int i = 0; i < 5; i++) {
        traceml_span step = traceml_step_begin(run.session, TRACEML_NO_STREAM);
        span(TRACEML_PHASE_FORWARD, TRACEML_NO_STREAM, 0);
        traceml_step_end(run.session, step, 0);
    }
    session_fixture_close();
    assert_int_equal(run.row_count, 5);
    assert_false(fake_cuda_context_active(0));
    assert_false(fake_cuda_context_active(1));
}

static void a_device_that_nobody_uses_yet_is_left_alone(void **state)
{
    (void)state;
    fake_cuda_reset();
    struct traceml_options options = session_fixture_options();
    session_fixture_open(&options);
    traceml_span step = traceml_step_begin(run.session, stream0);
    traceml_step_end(run.session, step, 0);
    session_fixture_close();
    assert_false(fake_cuda_context_active(0));
    assert_int_equal(run.rows[0].gpu_reason, TML_REASON_NO_CONTEXT);
}

static void a_model_on_the_second_device_leaves_the_first_alone(void **state)
{
    (void)state;
    fake_cuda_reset();
    fake_cuda_activate_context(1);
    struct traceml_options options = session_fixture_options();
    session_fixture_open(&options);
    known_step((struct traceml_stream){1, NULL}); /* device 0 is current and has no context: no event, and no switch */
    assert_int_equal(cuda.cudaSetDevice(1), 0);   /* as PyTorch leaves it after work there */
    for (int i = 0; i < 5; i++)
        known_step((struct traceml_stream){1, NULL});
    let_device_finish();
    session_fixture_close();
    assert_false(fake_cuda_context_active(0));
    assert_false(run.rows[0].gpu_complete);
    assert_true(run.rows[5].gpu_complete);
    cuda.cudaSetDevice(0);
}

static void the_current_device_is_put_back(void **state)
{
    (void)state;
    struct traceml_options options = session_fixture_options();
    int current = -1;
    fake_cuda_activate_context(1);
    session_fixture_open(&options);
    for (int i = 0; i < 5; i++)
        known_step((struct traceml_stream){1, NULL});
    assert_int_equal(cuda.cudaGetDevice(&current), 0);
    assert_int_equal(current, 0);
    let_device_finish();
    session_fixture_close();
    assert_true(run.rows[4].gpu_complete);
}

static void a_step_that_changes_its_stream_has_no_pre_step_part_on_the_gpu(void **state)
{
    (void)state;
    struct traceml_options options = session_fixture_options();
    session_fixture_open(&options);
    cudaStream_t stream = NULL;
    cuda.cudaStreamCreateWithFlags(&stream, 1);
    known_step(stream0);
    known_step((struct traceml_stream){0, stream});
    known_step((struct traceml_stream){0, stream});
    let_device_finish();
    session_fixture_close();
    assert_true(run.rows[1].flags & TML_STEP_FLAG_STREAM_CHANGED);
    assert_true(run.rows[1].term_ns[TML_CLOCK_GPU][TML_TERM_ITERATION] == TML_NS_NONE);
    assert_false(run.rows[1].gpu_complete);
    assert_true(run.rows[2].gpu_complete);
    cuda.cudaStreamDestroy(stream);
}

static void a_phase_on_another_stream_makes_the_step_cpu_only(void **state)
{
    (void)state;
    struct traceml_options options = session_fixture_options();
    session_fixture_open(&options);
    cudaStream_t stream = NULL;
    cuda.cudaStreamCreateWithFlags(&stream, 1);
    known_step(stream0);
    traceml_span step = traceml_step_begin(run.session, stream0);
    span(TRACEML_PHASE_FORWARD, (struct traceml_stream){0, stream}, 5 * MS);
    traceml_step_end(run.session, step, 0);
    let_device_finish();
    session_fixture_close();
    assert_int_equal(run.rows[1].gpu_reason, TML_REASON_OTHER_STREAM);
    assert_true(gpu(&run.rows[1], TML_REGION_IN, TRACEML_PHASE_FORWARD) == TML_NS_NONE);
    cuda.cudaStreamDestroy(stream);
}

static void an_empty_pool_costs_device_time_and_no_span(void **state)
{
    (void)state;
    struct traceml_options options = session_fixture_options();
    session_fixture_open(&options);
    for (int i = 0; i < 600; i++) /* ten events a step, none completes: 4,096 are soon used up */
        known_step(stream0);
    assert_true(fake_cuda_peak_events() <= 4096 + 2); /* two are the clock tie's */
    let_device_finish();
    session_fixture_close();
    assert_int_equal(run.row_count, 600);
    assert_true(run.losses[TML_LOSS_POOL_EMPTY] > 0);
    assert_int_equal(run.rows[599].gpu_reason, TML_REASON_EVENTS_LOST);
    assert_int_equal(run.rows[599].cell[TML_REGION_IN][TRACEML_PHASE_BACKWARD].count, 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh, session_fixture_remove)
    /* A device that was seen in use counts as in use for the process: those without one come first. */
    const struct CMUnitTest tests[] = {
        TEST(a_run_on_the_cpu_makes_no_context),
        TEST(a_device_that_nobody_uses_yet_is_left_alone),
        TEST(a_model_on_the_second_device_leaves_the_first_alone),
        TEST(device_times_are_the_gaps_that_were_put_there),
        TEST(a_lead_is_how_long_the_device_still_works_within_its_stated_error),
        TEST(only_harmless_cuda_calls_are_made_and_nothing_is_left),
        TEST(a_pair_that_never_completes_lets_later_steps_pass),
        TEST(a_stream_that_is_stuck_is_given_up_and_said),
        TEST(a_hung_device_keeps_nobody_from_ending_for_two_seconds),
        TEST(an_event_call_that_fails_costs_its_span_the_device_time_alone),
        TEST(a_capturing_stream_gets_no_event_and_its_capture_stays_whole),
        TEST(the_current_device_is_put_back),
        TEST(a_step_that_changes_its_stream_has_no_pre_step_part_on_the_gpu),
        TEST(a_phase_on_another_stream_makes_the_step_cpu_only),
        TEST(an_empty_pool_costs_device_time_and_no_span),
        TEST(a_device_that_dies_ends_all_cuda_calls_and_no_step), /* last: it ends CUDA for the process */
    };
    return cmocka_run_group_tests(tests, fake_cuda_calls_load, NULL);
}
