/* The background thread: what flush and stop wait for, and what its sink may rely on. */
#include "recording_fixture.h"

#include <signal.h>
#include <unistd.h>

#include "sampler.h"

#define MS INT64_C(1000000)
#define LONG_TICK_MS 600000 /* a test that waited for it would time out */

static const struct traceml_stream none = {-1, NULL}, stream0 = {0, NULL};

/* What the sink saw; the test reads it after a flush or the stop. */
static struct {
    struct tml_sampler *sampler;
    unsigned rows, flushes, stops;
    uint64_t next_step;
    bool in_order, signals_blocked, after_stop;
    _Atomic bool slow_idle;
} seen;

static void take_row(void *context, const struct tml_step_row *row)
{
    sigset_t blocked;
    (void)context;
    seen.in_order = seen.in_order && row->step == seen.next_step++;
    seen.rows++;
    seen.after_stop = seen.after_stop || seen.stops > 0;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    seen.signals_blocked = sigismember(&blocked, SIGTERM) == 1 && sigismember(&blocked, SIGXFSZ) == 1;
    if (seen.sampler) { /* hangs if the lock is held */
        tml_sampler_before_fork(seen.sampler);
        tml_sampler_after_fork(seen.sampler);
    }
}

static void idle(void *context, int64_t now_ns)
{
    (void)context;
    (void)now_ns;
    if (seen.slow_idle)
        usleep(1000); /* a request that comes meanwhile finds nobody waiting for its signal */
}

static void flush(void *context)
{
    (void)context;
    seen.flushes++;
}

static void stopped(void *context)
{
    (void)context;
    seen.stops++;
}

static struct tml_sampler *start(unsigned tick_ms, unsigned event_deadline_ms)
{
    struct tml_sampler_options options = {tick_ms, event_deadline_ms};
    struct tml_sampler_sink sink = {NULL, take_row, idle, flush, stopped};
    recording_fixture_admit(0);
    memset(&seen, 0, sizeof seen);
    seen.in_order = true;
    seen.next_step = 1;
    struct tml_sampler *sampler = tml_sampler_start(&options, &sink);
    assert_non_null(sampler);
    return sampler;
}

static void stop(struct tml_sampler *sampler, unsigned timeout_ms)
{
    tml_recording.admitting = false;
    tml_sampler_stop(sampler, timeout_ms);
}

static void steps(unsigned count, struct traceml_stream stream, int64_t work_ns)
{
    struct tml_recorder *mine = tml_recorder_here();
    for (unsigned i = 0; i < count; i++) {
        traceml_span step = tml_recorder_step_begin_owner(mine, stream);
        if (stream.device >= 0)
            fake_cuda_work(stream.device, stream.handle, work_ns);
        tml_recorder_end_owner(mine, step, 0);
    }
}

static int64_t ms_since(int64_t begin_ns)
{
    return (tml_now_ns() - begin_ns) / MS;
}

static void a_flush_hands_over_all_that_has_ended_and_does_not_wait_for_a_tick(void **state)
{
    (void)state;
    struct tml_sampler *sampler = start(LONG_TICK_MS, 30000);
    for (unsigned i = 1; i <= 50; i++) {
        steps(20, none, 0);
        tml_sampler_flush(sampler, 1000);
        assert_int_equal(seen.rows, 20 * i);
        assert_int_equal(seen.flushes, i);
    }
    stop(sampler, 1000);
    assert_true(seen.in_order);
}

#define TURNS 1500u /* more than the table has rows */

static pthread_barrier_t turn;

/* Every other step of two threads. */
static void *take_turns(void *parity)
{
    for (unsigned i = 0; i < TURNS; i++) {
        if (i % 2 == *(unsigned *)parity)
            steps(1, none, 0);
        pthread_barrier_wait(&turn);
    }
    return NULL;
}

static void a_ring_that_is_far_ahead_waits_until_the_others_have_given_theirs(void **state)
{
    (void)state;
    struct tml_sampler *sampler = start(LONG_TICK_MS, 30000);
    pthread_t other;
    unsigned parity[2] = {0, 1};
    tml_sampler_flush(sampler, 1000); /* asleep from now on */
    pthread_barrier_init(&turn, NULL, 2);
    assert_int_equal(pthread_create(&other, NULL, take_turns, &parity[1]), 0);
    take_turns(&parity[0]);
    pthread_join(other, NULL);
    pthread_barrier_destroy(&turn);
    tml_sampler_flush(sampler, 5000);
    stop(sampler, 1000);
    assert_int_equal(seen.rows, TURNS);
    assert_true(seen.in_order);
}

static void a_flush_that_comes_while_the_sink_is_busy_does_not_wait_for_a_tick_either(void **state)
{
    (void)state;
    struct tml_sampler *sampler = start(LONG_TICK_MS, 30000);
    seen.slow_idle = true;
    int64_t begin_ns = tml_now_ns();
    for (unsigned i = 1; i <= 20; i++) {
        steps(1, none, 0);
        tml_sampler_flush(sampler, 1000);
    }
    int64_t waited_ms = ms_since(begin_ns);
    stop(sampler, 1000);
    assert_int_equal(seen.rows, 20);
    assert_in_range(waited_ms, 0, 10000);
}

static void more_steps_than_a_tick_hands_over_are_handed_over_too(void **state)
{
    (void)state;
    struct tml_sampler *sampler = start(LONG_TICK_MS, 30000);
    steps(5000, none, 0);
    tml_sampler_flush(sampler, 1000);
    assert_int_equal(seen.rows, 5000);
    stop(sampler, 1000);
    assert_true(seen.in_order);
}

static void a_flush_waits_for_the_device_no_longer_than_asked(void **state)
{
    (void)state;
    struct tml_sampler *sampler = start(LONG_TICK_MS, 30000);
    steps(3, stream0, MS);
    int64_t begin_ns = tml_now_ns();
    tml_sampler_flush(sampler, 30);
    assert_in_range(ms_since(begin_ns), 29, 5000);
    assert_int_equal(seen.rows, 0);
    fake_cuda_advance(3 * MS);
    tml_sampler_flush(sampler, 5000);
    assert_int_equal(seen.rows, 3);
    stop(sampler, 1000);
}

static void *flush_with_patience(void *sampler)
{
    tml_sampler_flush(sampler, 20000);
    return NULL;
}

static void nobody_waits_longer_because_of_another_s_patience(void **state)
{
    (void)state;
    pthread_t other;
    struct tml_sampler *sampler = start(5, 30000);
    steps(1, stream0, MS);
    int64_t begin_ns = tml_now_ns();
    assert_int_equal(pthread_create(&other, NULL, flush_with_patience, sampler), 0);
    for (int i = 0; i < 20; i++)
        tml_sampler_flush(sampler, 1);
    int64_t waited_ms = ms_since(begin_ns);
    fake_cuda_advance(MS);
    pthread_join(other, NULL);
    stop(sampler, 1000);
    assert_in_range(waited_ms, 0, 10000);
}

static void the_sink_is_called_with_signals_blocked_and_without_the_lock(void **state)
{
    (void)state;
    struct tml_sampler *sampler = start(1, 30000);
    seen.sampler = sampler; /* before the first row: no thread reads it yet */
    steps(300, none, 0);
    tml_sampler_flush(sampler, 1000);
    stop(sampler, 1000);
    assert_int_equal(seen.rows, 300);
    assert_true(seen.signals_blocked);
    assert_int_equal(seen.stops, 1);
    assert_false(seen.after_stop);
}

static void stop_gives_up_what_never_completes_and_leaves_no_event(void **state)
{
    (void)state;
    struct tml_sampler *sampler = start(1, 30000);
    steps(10, stream0, MS); /* the clock stands still */
    int64_t begin_ns = tml_now_ns();
    stop(sampler, 50);
    assert_in_range(ms_since(begin_ns), 49, 5000);
    assert_int_equal(seen.rows, 10);
    assert_int_equal(fake_cuda_live_events(), 0);
    assert_int_equal(fake_cuda_misuses(), 0);
    assert_int_equal(fake_cuda_forbidden_calls(), 0);
}

static void spans_outside_of_any_step_and_open_ones_leave_no_event(void **state)
{
    (void)state;
    struct tml_sampler *sampler = start(1, 30000);
    struct tml_recorder *mine = tml_recorder_here();
    steps(2, stream0, 0);
    for (int i = 0; i < 5; i++)
        tml_recorder_end_owner(mine, tml_recorder_begin_owner(mine, TRACEML_PHASE_DATALOADER_FETCH, stream0), 0);
    tml_sampler_flush(sampler, 1000);
    tml_recorder_begin_owner(mine, TRACEML_PHASE_USER, stream0);
    tml_recorder_step_begin_owner(mine, stream0);
    assert_true(fake_cuda_live_events() > 0);
    stop(sampler, 1000);
    assert_int_equal(seen.rows, 2);
    assert_int_equal(fake_cuda_live_events(), 0);
    assert_int_equal(fake_cuda_misuses(), 0);
}

static void events_that_never_carried_a_span_are_destroyed_on_their_own_device(void **state)
{
    (void)state;
    struct tml_sampler *sampler = start(1, 30000);
    fake_cuda_reset();
    fake_cuda_activate_context(1);
    tml_recording.cuda->live[0] = false;
    cudaStream_t stream;
    cuda.cudaSetDevice(1);
    assert_int_equal(cuda.cudaStreamCreateWithFlags(&stream, 1), 0);
    assert_int_equal(fake_cuda_begin_capture(stream, FAKE_CUDA_CAPTURE_RELAXED), 0);
    steps(3, (struct traceml_stream){1, stream}, 0); /* all captured: an event was made and never recorded */
    fake_cuda_end_capture(stream);
    cuda.cudaStreamDestroy(stream);
    assert_int_equal(fake_cuda_live_events(), 1);
    stop(sampler, 1000);
    assert_int_equal(fake_cuda_live_events(), 0);
    assert_false(fake_cuda_context_active(0)); /* the sampler's thread begins on device 0 */
    cuda.cudaSetDevice(0);
}

static void losses_are_told_by_cause(void **state)
{
    (void)state;
    struct tml_sampler_stats stats;
    struct tml_sampler *sampler = start(1, 30000);
    struct tml_recorder *mine = tml_recorder_here();
    steps(1, none, 0);
    traceml_span step = tml_recorder_step_begin_owner(mine, none);
    tml_recorder_step_begin_owner(mine, none);
    fake_cuda_fail_call("cuEventRecord", 1, 1);
    tml_recorder_end_owner(mine, tml_recorder_begin_owner(mine, TRACEML_PHASE_USER, stream0), 0);
    tml_recorder_end_owner(mine, step, 0);
    tml_sampler_flush(sampler, 1000);
    tml_sampler_read_stats(sampler, &stats);
    stop(sampler, 1000);
    for (unsigned loss = 0; loss < TML_LOSS_COUNT; loss++)
        assert_int_equal(stats.losses[loss], loss == TML_LOSS_NESTED_STEP || loss == TML_LOSS_EVENT_FAILED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flush_hands_over_all_that_has_ended_and_does_not_wait_for_a_tick),
        cmocka_unit_test(a_ring_that_is_far_ahead_waits_until_the_others_have_given_theirs),
        cmocka_unit_test(a_flush_that_comes_while_the_sink_is_busy_does_not_wait_for_a_tick_either),
        cmocka_unit_test(more_steps_than_a_tick_hands_over_are_handed_over_too),
        cmocka_unit_test(a_flush_waits_for_the_device_no_longer_than_asked),
        cmocka_unit_test(nobody_waits_longer_because_of_another_s_patience),
        cmocka_unit_test(the_sink_is_called_with_signals_blocked_and_without_the_lock),
        cmocka_unit_test(stop_gives_up_what_never_completes_and_leaves_no_event),
        cmocka_unit_test(spans_outside_of_any_step_and_open_ones_leave_no_event),
        cmocka_unit_test(events_that_never_carried_a_span_are_destroyed_on_their_own_device),
        cmocka_unit_test(losses_are_told_by_cause),
    };
    return cmocka_run_group_tests(tests, fake_cuda_calls_load, NULL);
}
