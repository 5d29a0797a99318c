/* A graph capture beside a sampler that polls all the time, with spans pending: each one succeeds. A control without the
 * sampler's relaxed mode shows that they would break. */
#include "fake_cuda_calls.h"

#include "recorder.h"
#include "session_fixture.h"

#define CAPTURES 200

static cudaStream_t captured;

static void pending_step(struct traceml_stream stream)
{
    traceml_span step = traceml_step_begin(run.session, stream);
    traceml_end(run.session, traceml_begin(run.session, TRACEML_PHASE_FORWARD, stream), 0);
    fake_cuda_work(stream.device, stream.handle, 1000000);
    traceml_step_end(run.session, step, 0);
}

/* A step whose stream captures, as long as the sampler takes for three more queries. */
static bool capture_while_it_polls(void)
{
    struct traceml_stream stream = {0, captured};
    if (fake_cuda_begin_capture(captured, FAKE_CUDA_CAPTURE_GLOBAL) != 0)
        return false;
    traceml_span step = traceml_step_begin(run.session, stream);
    traceml_end(run.session, traceml_begin(run.session, TRACEML_PHASE_FORWARD, stream), 0);
    traceml_step_end(run.session, step, 0);
    uint64_t enough = fake_cuda_calls("cudaEventQuery") + 3;
    for (int i = 0; fake_cuda_calls("cudaEventQuery") < enough && i < 100000; i++)
        usleep(100);
    bool polled = fake_cuda_calls("cudaEventQuery") >= enough;
    return fake_cuda_end_capture(captured) && polled;
}

static unsigned captures_that_succeed(unsigned count)
{
    struct traceml_options options = session_fixture_options();
    unsigned good = 0;
    session_fixture_open(&options);
    captured = fake_cuda_calls_stream(true);
    for (unsigned i = 0; i < count; i++) {
        pending_step((struct traceml_stream){0, NULL}); /* something is pending in each of them: the clock stands */
        good += capture_while_it_polls();
        fake_cuda_advance(i % 2 * 2000000);
    }
    fake_cuda_advance(INT64_C(1000000000));
    session_fixture_close();
    assert_int_equal(cuda.cudaStreamDestroy(captured), 0);
    return good;
}

static int fresh(void **state)
{
    (void)state;
    fake_cuda_reset();
    fake_cuda_activate_context(0);
    return 0;
}

static void two_hundred_of_two_hundred_captures_succeed(void **state)
{
    (void)state;
    assert_int_equal(captures_that_succeed(CAPTURES), CAPTURES);
    assert_int_equal(run.row_count, 2 * CAPTURES);
    assert_int_equal(run.losses[TML_LOSS_GRAPH_CAPTURE], 2 * CAPTURES);
    for (unsigned i = 0; i < run.row_count; i++)
        assert_int_equal(run.rows[i].term_ns[TML_CLOCK_GPU][TML_TERM_TRACED_STEP] == TML_NS_NONE, i % 2);
    assert_int_equal(fake_cuda_forbidden_calls(), 0);
    assert_int_equal(fake_cuda_live_events(), 0);
}

/* Stands in for the runtime's: says yes, and the thread stays in the default mode. */
static int stay_in_the_default_mode(int *mode)
{
    (void)mode;
    return 0;
}

static void without_the_relaxed_mode_they_break(void **state)
{
    (void)state;
    struct tml_cuda *runtime = tml_recording.cuda;
    int (*kept)(int *) = runtime->cudaThreadExchangeStreamCaptureMode;
    runtime->cudaThreadExchangeStreamCaptureMode = stay_in_the_default_mode;
    unsigned good = captures_that_succeed(20);
    runtime->cudaThreadExchangeStreamCaptureMode = kept;
    assert_int_equal(good, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(two_hundred_of_two_hundred_captures_succeed, fresh, session_fixture_remove),
        cmocka_unit_test_setup_teardown(without_the_relaxed_mode_they_break, fresh, session_fixture_remove),
    };
    return cmocka_run_group_tests(tests, fake_cuda_calls_load, NULL);
}
