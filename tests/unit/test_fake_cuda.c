/* Time in the fake CUDA: streams, events, and what makes them late. Values as measured on an H200 where one could. */
#include "fake_cuda_calls.h"

#include <math.h>
#include <time.h>

static const int64_t us = 1000, ms = 1000000, s = 1000000000;

static cudaStream_t a_stream, b_stream;
static cudaEvent_t begin, end;

static int set_up(void **state)
{
    fake_cuda_calls_reset(state);
    a_stream = fake_cuda_calls_stream(true);
    b_stream = fake_cuda_calls_stream(true);
    begin = fake_cuda_calls_event();
    end = fake_cuda_calls_event();
    return 0;
}

static float elapsed_ms(cudaEvent_t from, cudaEvent_t to)
{
    float value = -12345;

    assert_int_equal(cuda.cudaEventElapsedTime(&value, from, to), 0);
    return value;
}

static void record(cudaEvent_t event, cudaStream_t stream)
{
    assert_int_equal(cuda.cudaEventRecord(event, stream), 0);
}

static void work(cudaStream_t stream, int64_t ns)
{
    assert_int_equal(fake_cuda_work(0, stream, ns), 0);
}

static void an_event_completes_with_the_work_before_it(void **state)
{
    (void)state;
    work(a_stream, 5 * ms);
    record(end, a_stream);
    work(a_stream, 5 * ms);
    assert_int_equal(cuda.cudaEventQuery(end), 600);
    fake_cuda_advance(5 * ms - 1);
    assert_int_equal(cuda.cudaEventQuery(end), 600);
    fake_cuda_advance(1);
    assert_int_equal(cuda.cudaEventQuery(end), 0);
    assert_int_equal(cuda.cudaStreamQuery(a_stream), 600);
    fake_cuda_advance(5 * ms);
    assert_int_equal(cuda.cudaStreamQuery(a_stream), 0);
}

static void work_starts_when_it_is_submitted_or_when_the_stream_is_free(void **state)
{
    (void)state;
    record(begin, a_stream);
    fake_cuda_advance(20 * ms); /* idle: the device waits for the host */
    work(a_stream, 3 * ms);
    work(a_stream, 4 * ms);
    record(end, a_stream);
    fake_cuda_advance(s);
    assert_true(elapsed_ms(begin, end) == 27.0F);
}

static void streams_do_not_wait_for_each_other_unless_told_to(void **state)
{
    (void)state;
    work(a_stream, 10 * ms);
    record(begin, a_stream);
    record(end, b_stream);
    assert_int_equal(cuda.cudaEventQuery(end), 0);
    assert_int_equal(cuda.cudaStreamWaitEvent(b_stream, begin, 0), 0);
    record(end, b_stream);
    assert_int_equal(cuda.cudaEventQuery(end), 600);
    fake_cuda_advance(10 * ms);
    assert_int_equal(cuda.cudaEventQuery(end), 0);
}

static void default_streams_are_streams_of_their_own(void **state)
{
    (void)state;
    work(NULL, 10 * ms);
    assert_int_equal(cuda.cudaStreamQuery(NULL), 600);
    assert_int_equal(cuda.cudaStreamQuery((cudaStream_t)1), 600);
    assert_int_equal(cuda.cudaStreamQuery((cudaStream_t)2), 0);
    assert_int_equal(cuda.cudaSetDevice(1), 0);
    assert_int_equal(cuda.cudaStreamQuery(NULL), 0);
}

static void *query_own_default_stream(void *answer)
{
    *(int *)answer = cuda.cudaStreamQuery((cudaStream_t)2);
    return NULL;
}

static void a_per_thread_default_stream_is_the_thread_s(void **state)
{
    int elsewhere = -1;

    (void)state;
    work((cudaStream_t)2, 10 * ms);
    assert_int_equal(cuda.cudaStreamQuery((cudaStream_t)2), 600);
    fake_cuda_calls_elsewhere(query_own_default_stream, &elsewhere);
    assert_int_equal(elsewhere, 0);
}

static void elapsed_time_between_streams_may_be_negative(void **state)
{
    (void)state;
    work(a_stream, 30190 * us);
    work(b_stream, 10 * ms);
    record(begin, a_stream);
    record(end, b_stream);
    fake_cuda_advance(s);
    assert_true(fabsf(elapsed_ms(begin, end) - -20.19F) < 1e-6F);
}

static void elapsed_time_is_a_float_of_milliseconds(void **state)
{
    (void)state;
    record(begin, a_stream);
    work(a_stream, 600 * s + 20 * us);
    record(end, a_stream);
    fake_cuda_advance(700 * s);
    assert_true(elapsed_ms(begin, end) == 600000.0F); /* at 10 minutes the steps are 62 us */
    record(begin, a_stream);
    work(a_stream, 1212100);
    record(end, a_stream);
    fake_cuda_advance(s);
    assert_true(elapsed_ms(begin, end) == 1.2121F);
}

static void elapsed_time_needs_two_completed_timed_events(void **state)
{
    float value = -1;
    cudaEvent_t untimed;

    (void)state;
    assert_int_equal(cuda.cudaEventElapsedTime(&value, begin, end), 400);
    assert_int_equal(cuda.cudaEventQuery(begin), 0); /* never recorded counts as done, as in CUDA */
    record(begin, a_stream);
    assert_int_equal(cuda.cudaEventElapsedTime(&value, begin, end), 400);
    work(a_stream, ms);
    record(end, a_stream);
    assert_int_equal(cuda.cudaEventElapsedTime(&value, begin, end), 600);
    assert_int_equal(cuda.cudaEventElapsedTime(&value, NULL, end), 400);
    assert_int_equal(cuda.cudaEventElapsedTime(NULL, begin, begin), 1);
    assert_int_equal(cuda.cudaEventCreateWithFlags(&untimed, 2), 0);
    record(untimed, a_stream);
    assert_int_equal(cuda.cudaEventElapsedTime(&value, begin, untimed), 400);
    assert_true(value == -1);
}

static void an_event_belongs_to_the_device_of_its_creation(void **state)
{
    float value;

    (void)state;
    assert_int_equal(cuda.cudaSetDevice(1), 0);
    cudaStream_t stream_of_1 = fake_cuda_calls_stream(true);
    cudaEvent_t event_of_1 = fake_cuda_calls_event();
    assert_int_equal(cuda.cudaEventRecord(begin, stream_of_1), 400);
    assert_int_equal(cuda.cudaEventRecord(begin, NULL), 400); /* stream 0 is the current device's */
    record(begin, a_stream);                                  /* a handle is enough, whatever device is current */
    record(event_of_1, stream_of_1);
    assert_int_equal(cuda.cudaEventElapsedTime(&value, begin, event_of_1), 400);
    assert_int_equal(fake_cuda_work(0, stream_of_1, ms), 400);
}

static void a_blocking_call_lets_time_pass(void **state)
{
    (void)state;
    int64_t start_ns = fake_cuda_now_ns();
    work(a_stream, 10 * ms);
    record(begin, a_stream);
    work(a_stream, 10 * ms);
    work(b_stream, 50 * ms);
    assert_int_equal(cuda.cudaEventSynchronize(begin), 0);
    assert_int_equal(fake_cuda_now_ns() - start_ns, 10 * ms);
    assert_int_equal(cuda.cudaStreamSynchronize(a_stream), 0);
    assert_int_equal(fake_cuda_now_ns() - start_ns, 20 * ms);
    assert_int_equal(cuda.cudaDeviceSynchronize(), 0);
    assert_int_equal(fake_cuda_now_ns() - start_ns, 50 * ms);
}

static void a_call_can_be_given_device_time(void **state)
{
    char from[8] = "copied", to[8] = "";

    (void)state;
    assert_true(fake_cuda_takes("cudaEventRecord", 1300));
    assert_true(fake_cuda_takes("cudaMemcpyAsync", 2 * ms));
    assert_true(fake_cuda_takes("cudaLaunchKernel", 3 * ms));
    assert_false(fake_cuda_takes("cudaLaunchKernle", 3 * ms));
    record(begin, a_stream);
    assert_int_equal(cuda.cudaMemcpyAsync(to, from, sizeof(to), 1, a_stream), 0);
    assert_int_equal(cuda.cudaLaunchKernel(from, (struct dim3){1, 1, 1}, (struct dim3){1, 1, 1}, NULL, 0, a_stream), 0);
    record(end, a_stream);
    fake_cuda_advance(s);
    assert_true(elapsed_ms(begin, end) == 5.0013F);
    assert_string_equal(to, "copied");
}

static void drift_stretches_elapsed_times(void **state)
{
    (void)state;
    assert_true(fake_cuda_drift(0, 1600000));
    record(begin, a_stream);
    work(a_stream, s);
    record(end, a_stream);
    fake_cuda_advance(s);
    assert_true(elapsed_ms(begin, end) == 1001.6F);
}

static void a_hanging_event_completes_only_when_released(void **state)
{
    float value;

    (void)state;
    record(begin, a_stream);
    assert_int_equal(cuda.cudaEventQuery(begin), 0);
    assert_true(fake_cuda_hang_event(begin));
    fake_cuda_hang_next_records(1);
    record(end, a_stream);
    fake_cuda_advance(3600 * s);
    assert_int_equal(cuda.cudaEventQuery(begin), 600);
    assert_int_equal(cuda.cudaEventQuery(end), 600);
    assert_int_equal(cuda.cudaEventElapsedTime(&value, begin, end), 600);
    assert_int_equal(cuda.cudaEventSynchronize(end), 702); /* the fake's way not to hang the test */
    fake_cuda_release_event(end);
    assert_int_equal(cuda.cudaEventQuery(end), 0);
    assert_int_equal(cuda.cudaEventQuery(begin), 600);
    fake_cuda_release_event(NULL);
    assert_true(elapsed_ms(begin, end) == 0.0F); /* both completed when they were released */
    assert_true(fake_cuda_hang_event(begin));
    record(begin, a_stream);
    assert_int_equal(cuda.cudaEventQuery(begin), 0); /* a new record is free again */
}

static void a_stuck_stream_holds_all_behind_it_and_lets_go_in_order(void **state)
{
    (void)state;
    cudaEvent_t before = fake_cuda_calls_event();
    work(a_stream, 5 * ms);
    record(before, a_stream);
    assert_int_equal(fake_cuda_block_stream(0, a_stream), 0);
    record(begin, a_stream);
    fake_cuda_advance(7 * ms); /* past what came before: the stream is not idle, it is stuck */
    work(a_stream, 2 * ms);
    record(end, a_stream);
    fake_cuda_advance(3600 * s);
    assert_int_equal(cuda.cudaEventQuery(before), 0);
    assert_int_equal(cuda.cudaEventQuery(begin), 600);
    assert_int_equal(cuda.cudaStreamQuery(a_stream), 600);
    assert_int_equal(fake_cuda_unblock_stream(0, a_stream), 0);
    assert_int_equal(cuda.cudaEventQuery(begin), 0);
    assert_int_equal(cuda.cudaEventQuery(end), 600);
    fake_cuda_advance(2 * ms);
    assert_true(elapsed_ms(begin, end) == 2.0F);
    assert_true(elapsed_ms(before, begin) == 3600002.0F);
}

static void the_host_s_clock_can_be_followed(void **state)
{
    struct timespec now;

    (void)state;
    fake_cuda_follow_host_clock(1);
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t before_ns = (int64_t)now.tv_sec * s + now.tv_nsec;
    assert_true(fake_cuda_now_ns() >= before_ns);
    work(a_stream, 20 * ms);
    record(end, a_stream);
    assert_int_equal(cuda.cudaEventQuery(end), 600);
    assert_int_equal(cuda.cudaStreamSynchronize(a_stream), 0);
    clock_gettime(CLOCK_MONOTONIC, &now);
    assert_true((int64_t)now.tv_sec * s + now.tv_nsec - before_ns >= 20 * ms);
    assert_int_equal(cuda.cudaEventQuery(end), 0);
    fake_cuda_follow_host_clock(0);
    assert_int_equal(fake_cuda_now_ns(), fake_cuda_now_ns());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(an_event_completes_with_the_work_before_it, set_up),
        cmocka_unit_test_setup(work_starts_when_it_is_submitted_or_when_the_stream_is_free, set_up),
        cmocka_unit_test_setup(streams_do_not_wait_for_each_other_unless_told_to, set_up),
        cmocka_unit_test_setup(default_streams_are_streams_of_their_own, set_up),
        cmocka_unit_test_setup(a_per_thread_default_stream_is_the_thread_s, set_up),
        cmocka_unit_test_setup(elapsed_time_between_streams_may_be_negative, set_up),
        cmocka_unit_test_setup(elapsed_time_is_a_float_of_milliseconds, set_up),
        cmocka_unit_test_setup(elapsed_time_needs_two_completed_timed_events, set_up),
        cmocka_unit_test_setup(an_event_belongs_to_the_device_of_its_creation, set_up),
        cmocka_unit_test_setup(a_blocking_call_lets_time_pass, set_up),
        cmocka_unit_test_setup(a_call_can_be_given_device_time, set_up),
        cmocka_unit_test_setup(drift_stretches_elapsed_times, set_up),
        cmocka_unit_test_setup(a_hanging_event_completes_only_when_released, set_up),
        cmocka_unit_test_setup(a_stuck_stream_holds_all_behind_it_and_lets_go_in_order, set_up),
        cmocka_unit_test_setup(the_host_s_clock_can_be_followed, set_up),
    };

    return cmocka_run_group_tests_name("fake_cuda", tests, fake_cuda_calls_load, NULL);
}
