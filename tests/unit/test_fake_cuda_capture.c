/* Stream capture in the fake CUDA. Every answer was read off an H200 (driver 580.159, CUDA 13.0). */
#include "fake_cuda_calls.h"

static cudaStream_t captured, free_stream;
static cudaEvent_t done, event;

static int set_up(void **state)
{
    fake_cuda_calls_reset(state);
    free_stream = fake_cuda_calls_stream(true);
    done = fake_cuda_calls_event();
    event = fake_cuda_calls_event();
    return cuda.cudaEventRecord(done, free_stream);
}

static void begin(bool non_blocking, int mode)
{
    captured = fake_cuda_calls_stream(non_blocking);
    assert_int_equal(fake_cuda_begin_capture(captured, mode), 0);
}

static int status_of(cudaStream_t stream)
{
    int status = -1;

    assert_int_equal(cuda.cudaStreamIsCapturing(stream, &status), 0);
    return status;
}

static int exchange(int mode)
{
    assert_int_equal(cuda.cudaThreadExchangeStreamCaptureMode(&mode), 0);
    return mode;
}

/* What another thread does, in which capture mode, and what it was answered. */
struct visit {
    int mode;
    int (*call)(void);
    int answer;
};

static void *visit_thread(void *argument)
{
    struct visit *visit = argument;

    cuda.cudaThreadExchangeStreamCaptureMode(&visit->mode);
    visit->answer = visit->call();
    return NULL;
}

static int from_elsewhere(int mode, int (*call)(void))
{
    struct visit visit = {.mode = mode, .call = call, .answer = -1};

    fake_cuda_calls_elsewhere(visit_thread, &visit);
    return visit.answer;
}

static int query_done(void)
{
    return cuda.cudaEventQuery(done);
}

static int synchronize_free_stream(void)
{
    return cuda.cudaStreamSynchronize(free_stream);
}

static int synchronize_device(void)
{
    return cuda.cudaDeviceSynchronize();
}

static int allocate(void)
{
    void *at = NULL;

    return cuda.cudaMalloc(&at, 8);
}

static int record_on_free_stream(void)
{
    return cuda.cudaEventRecord(done, free_stream);
}

static int create_event(void)
{
    cudaEvent_t created;

    return cuda.cudaEventCreate(&created);
}

static int ask_elapsed(void)
{
    float ms;

    return cuda.cudaEventElapsedTime(&ms, done, done);
}

static int set_device(void)
{
    return cuda.cudaSetDevice(0);
}

static int record_on_legacy_stream(void)
{
    return cuda.cudaEventRecord(done, NULL);
}

static int ask_legacy_stream(void)
{
    int status = -1;

    return cuda.cudaStreamIsCapturing(NULL, &status);
}

static void a_capture_that_nobody_disturbs_is_intact(void **state)
{
    (void)state;
    begin(true, FAKE_CUDA_CAPTURE_GLOBAL);
    assert_int_equal(status_of(captured), 1);
    assert_int_equal(status_of(free_stream), 0);
    assert_int_equal(fake_cuda_work(0, captured, 1000), 0);
    assert_true(fake_cuda_end_capture(captured));
    assert_int_equal(status_of(captured), 0);
    assert_int_equal(cuda.cudaStreamQuery(captured), 0); /* captured work did not run */
    assert_false(fake_cuda_end_capture(captured));
}

static void a_capture_begins_once_and_not_on_the_legacy_stream(void **state)
{
    (void)state;
    begin(true, FAKE_CUDA_CAPTURE_GLOBAL);
    assert_int_equal(fake_cuda_begin_capture(captured, FAKE_CUDA_CAPTURE_GLOBAL), 401);
    assert_int_equal(fake_cuda_begin_capture(NULL, FAKE_CUDA_CAPTURE_GLOBAL), 900);
    assert_int_equal(fake_cuda_begin_capture(free_stream, 3), 1);
    assert_true(fake_cuda_end_capture(captured));
}

static void an_unsafe_call_in_default_mode_breaks_a_global_capture(void **state)
{
    int (*const calls[])(void) = {query_done, synchronize_free_stream, synchronize_device, allocate};

    (void)state;
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        begin(true, FAKE_CUDA_CAPTURE_GLOBAL);
        assert_int_equal(from_elsewhere(FAKE_CUDA_CAPTURE_GLOBAL, calls[i]), 900);
        assert_int_equal(status_of(captured), 2);
        assert_int_equal(cuda.cudaEventRecord(event, captured), 901);
        assert_false(fake_cuda_end_capture(captured));
        assert_int_equal(status_of(captured), 0);
    }
}

static void safe_calls_leave_a_global_capture_alone(void **state)
{
    int (*const calls[])(void) = {record_on_free_stream, create_event, ask_elapsed, set_device};

    (void)state;
    begin(true, FAKE_CUDA_CAPTURE_GLOBAL);
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        assert_int_equal(from_elsewhere(FAKE_CUDA_CAPTURE_GLOBAL, calls[i]), 0);
    assert_true(fake_cuda_end_capture(captured));
}

static void a_relaxed_or_thread_local_thread_may_query_during_another_s_capture(void **state)
{
    (void)state;
    begin(true, FAKE_CUDA_CAPTURE_GLOBAL);
    assert_int_equal(from_elsewhere(FAKE_CUDA_CAPTURE_RELAXED, query_done), 0);
    assert_int_equal(from_elsewhere(FAKE_CUDA_CAPTURE_RELAXED, allocate), 0);
    assert_int_equal(from_elsewhere(FAKE_CUDA_CAPTURE_THREAD_LOCAL, query_done), 0);
    assert_true(fake_cuda_end_capture(captured));
    begin(true, FAKE_CUDA_CAPTURE_GLOBAL);
    assert_int_equal(from_elsewhere(FAKE_CUDA_CAPTURE_RELAXED, synchronize_device), 900); /* no mode helps */
    assert_false(fake_cuda_end_capture(captured));
}

static void the_capture_s_own_mode_counts_too(void **state)
{
    (void)state;
    begin(true, FAKE_CUDA_CAPTURE_THREAD_LOCAL);
    assert_int_equal(from_elsewhere(FAKE_CUDA_CAPTURE_GLOBAL, query_done), 0);
    assert_int_equal(status_of(captured), 1);
    assert_int_equal(query_done(), 900);
    assert_false(fake_cuda_end_capture(captured));
    begin(true, FAKE_CUDA_CAPTURE_RELAXED);
    assert_int_equal(query_done(), 0);
    assert_true(fake_cuda_end_capture(captured));
}

static void a_thread_s_mode_is_swapped(void **state)
{
    int wrong = 7;

    (void)state;
    assert_int_equal(exchange(FAKE_CUDA_CAPTURE_RELAXED), FAKE_CUDA_CAPTURE_GLOBAL);
    assert_int_equal(exchange(FAKE_CUDA_CAPTURE_GLOBAL), FAKE_CUDA_CAPTURE_RELAXED);
    assert_int_equal(cuda.cudaThreadExchangeStreamCaptureMode(&wrong), 1);
}

static void asking_the_legacy_stream_harms_no_blocking_capture_but_using_it_does(void **state)
{
    (void)state;
    begin(false, FAKE_CUDA_CAPTURE_RELAXED);
    assert_int_equal(ask_legacy_stream(), 906);
    assert_int_equal(status_of(captured), 1);
    assert_int_equal(record_on_legacy_stream(), 906);
    assert_int_equal(cuda.cudaGetLastError(), 906);
    assert_int_equal(status_of(captured), 2);
    assert_int_equal(ask_legacy_stream(), 906); /* until the capture ends */
    assert_false(fake_cuda_end_capture(captured));
    assert_int_equal(ask_legacy_stream(), 0);
    begin(false, FAKE_CUDA_CAPTURE_GLOBAL);
    assert_int_equal(from_elsewhere(FAKE_CUDA_CAPTURE_RELAXED, record_on_legacy_stream), 906);
    assert_false(fake_cuda_end_capture(captured));
}

static void the_legacy_stream_has_nothing_to_do_with_a_non_blocking_capture(void **state)
{
    (void)state;
    begin(true, FAKE_CUDA_CAPTURE_GLOBAL);
    assert_int_equal(ask_legacy_stream(), 0);
    assert_int_equal(record_on_legacy_stream(), 0);
    assert_true(fake_cuda_end_capture(captured));
}

static void querying_a_captured_event_breaks_the_capture_even_in_relaxed_mode(void **state)
{
    (void)state;
    begin(true, FAKE_CUDA_CAPTURE_GLOBAL);
    assert_int_equal(cuda.cudaEventRecord(event, captured), 0);
    exchange(FAKE_CUDA_CAPTURE_RELAXED);
    assert_int_equal(cuda.cudaEventQuery(event), 907);
    assert_int_equal(status_of(captured), 2);
    assert_false(fake_cuda_end_capture(captured));
}

static void a_captured_event_has_no_time_until_it_is_recorded_again(void **state)
{
    float ms;

    (void)state;
    begin(true, FAKE_CUDA_CAPTURE_GLOBAL);
    assert_int_equal(cuda.cudaEventRecord(event, captured), 0);
    assert_int_equal(cuda.cudaEventElapsedTime(&ms, done, event), 907);
    assert_int_equal(status_of(captured), 1); /* this one does not harm */
    assert_true(fake_cuda_end_capture(captured));
    assert_int_equal(cuda.cudaEventQuery(event), 1);
    assert_int_equal(cuda.cudaEventElapsedTime(&ms, done, event), 1);
    assert_int_equal(cuda.cudaEventRecord(event, free_stream), 0);
    assert_int_equal(cuda.cudaEventElapsedTime(&ms, done, event), 0);
}

static void waiting_for_a_captured_event_joins_the_capture(void **state)
{
    (void)state;
    begin(true, FAKE_CUDA_CAPTURE_GLOBAL);
    assert_int_equal(cuda.cudaEventRecord(event, captured), 0);
    assert_int_equal(cuda.cudaStreamWaitEvent(free_stream, event, 0), 0);
    assert_int_equal(status_of(free_stream), 1);
    assert_true(fake_cuda_end_capture(captured));
    assert_int_equal(status_of(free_stream), 0);
    begin(true, FAKE_CUDA_CAPTURE_GLOBAL);
    assert_int_equal(cuda.cudaStreamWaitEvent(captured, done, 0), 905); /* recorded outside of it */
    assert_false(fake_cuda_end_capture(captured));
}

static void destroying_the_captured_stream_ends_the_capture(void **state)
{
    (void)state;
    begin(true, FAKE_CUDA_CAPTURE_GLOBAL);
    assert_int_equal(cuda.cudaStreamDestroy(captured), 0);
    assert_int_equal(query_done(), 0);
    assert_false(fake_cuda_end_capture(captured));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_capture_that_nobody_disturbs_is_intact, set_up),
        cmocka_unit_test_setup(a_capture_begins_once_and_not_on_the_legacy_stream, set_up),
        cmocka_unit_test_setup(an_unsafe_call_in_default_mode_breaks_a_global_capture, set_up),
        cmocka_unit_test_setup(safe_calls_leave_a_global_capture_alone, set_up),
        cmocka_unit_test_setup(a_relaxed_or_thread_local_thread_may_query_during_another_s_capture, set_up),
        cmocka_unit_test_setup(the_capture_s_own_mode_counts_too, set_up),
        cmocka_unit_test_setup(a_thread_s_mode_is_swapped, set_up),
        cmocka_unit_test_setup(asking_the_legacy_stream_harms_no_blocking_capture_but_using_it_does, set_up),
        cmocka_unit_test_setup(the_legacy_stream_has_nothing_to_do_with_a_non_blocking_capture, set_up),
        cmocka_unit_test_setup(querying_a_captured_event_breaks_the_capture_even_in_relaxed_mode, set_up),
        cmocka_unit_test_setup(a_captured_event_has_no_time_until_it_is_recorded_again, set_up),
        cmocka_unit_test_setup(waiting_for_a_captured_event_joins_the_capture, set_up),
        cmocka_unit_test_setup(destroying_the_captured_stream_ends_the_capture, set_up),
    };

    return cmocka_run_group_tests_name("fake_cuda_capture", tests, fake_cuda_calls_load, NULL);
}
