/* The tie between the device's clock and the host's: what it claims, when it is refused, what it leaves behind. */
#include "fake_cuda_calls.h"

#include <unistd.h>

#include "clock_tie.h"

#define US INT64_C(1000)
#define MS INT64_C(1000000)

static struct tml_cuda runtime;
static struct tml_clock_tie tie;

static int set_up(void **state)
{
    (void)state;
    memset(&runtime, 0, sizeof runtime);
    fake_cuda_reset();
    fake_cuda_activate_context(0);
    tml_clock_tie_init(&tie);
    return tml_cuda_find(&runtime) && tml_cuda_device_live(&runtime, 0) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    tml_clock_tie_close(&tie, &runtime);
    assert_int_equal(fake_cuda_misuses(), 0);
    assert_int_equal(fake_cuda_forbidden_calls(), 0); /* nothing that waits */
    assert_int_equal(cuda.cudaPeekAtLastError(), 0);
    assert_int_equal(fake_cuda_live_events(), 0);
    assert_int_equal(fake_cuda_live_streams(), 0);
    return 0;
}

/* One attempt, as if so much time had passed since the last. */
static void attempt(void)
{
    tml_clock_tie_renew(&tie, &runtime, 0, tie.tried_ns == TML_NS_NONE ? 0 : tie.tried_ns + TML_CLOCK_TIE_PERIOD_NS);
}

/* A tie, however busy this machine is. */
static void make_tie(void)
{
    uint64_t made = tie.made;
    for (int i = 0; i < 1000 && tie.made == made; i++)
        attempt();
    assert_int_equal(tie.made, made + 1);
}

static void *event_now(void)
{
    void *event = tml_cuda_event_create(&runtime, 0);
    assert_int_equal(tml_cuda_record(&runtime, 0, NULL, event), 0);
    return event;
}

static void a_tie_gives_events_a_host_time_and_says_how_far_it_may_be_off(void **state)
{
    (void)state;
    int64_t error_ns, before_ns = tml_now_ns();
    make_tie();
    int64_t after_ns = tml_now_ns();
    assert_in_range(tie.host_ns, before_ns, after_ns);
    assert_in_range(tie.error_ns, 0, TML_CLOCK_TIE_LIMIT_NS);
    fake_cuda_advance(3 * MS);
    void *event = event_now();
    assert_int_equal(tml_clock_tie_host_ns(&tie, &runtime, 0, event, &error_ns), tie.host_ns + 3 * MS);
    assert_int_equal(error_ns, tie.error_ns + 6); /* 3 ms of 2 us a second */
    cuda.cudaEventDestroy(event);
}

/* The device takes 40 us to come to the event: each query that says not yet moves the interval's begin. */
static void the_interval_begins_with_the_last_query_that_said_not_yet(void **state)
{
    (void)state;
    fake_cuda_follow_host_clock(1);
    make_tie(); /* the stream is there */
    bool narrow = false;
    for (int i = 0; i < 1000 && !narrow; i++) { /* however busy this machine is */
        uint64_t made = tie.made;
        int64_t before_ns = tml_now_ns();
        fake_cuda_work(0, tie.stream, 40 * US);
        int64_t after_ns = tml_now_ns();
        attempt();
        if (tie.made == made || after_ns - before_ns > 5 * US) /* the work may have been done before the record */
            continue;
        assert_true(tie.host_ns + tie.error_ns / 2 + 1 >= before_ns + 40 * US);
        narrow = tie.error_ns < 10 * US && tie.host_ns - tie.error_ns / 2 - 1 <= after_ns + 40 * US;
    }
    assert_true(narrow);
}

static void an_event_before_the_tie_has_a_host_time_too(void **state)
{
    (void)state;
    int64_t error_ns;
    void *event = event_now();
    fake_cuda_advance(20 * MS);
    make_tie();
    assert_int_equal(tml_clock_tie_host_ns(&tie, &runtime, 0, event, &error_ns), tie.host_ns - 20 * MS);
    cuda.cudaEventDestroy(event);
}

static void without_a_tie_and_for_another_device_there_is_no_host_time(void **state)
{
    (void)state;
    int64_t error_ns;
    void *event = event_now();
    assert_true(tml_clock_tie_host_ns(&tie, &runtime, 0, event, &error_ns) == TML_NS_NONE);
    make_tie();
    assert_true(tml_clock_tie_host_ns(&tie, &runtime, 1, event, &error_ns) == TML_NS_NONE);
    assert_true(tml_clock_tie_host_ns(&tie, &runtime, 0, event, &error_ns) != TML_NS_NONE);
    cuda.cudaEventDestroy(event);
}

static void a_tie_that_is_too_far_away_gives_none(void **state)
{
    (void)state;
    int64_t error_ns;
    make_tie();
    fake_cuda_advance(26000 * MS); /* at 2 us a second the limit of 50 us is passed */
    void *event = event_now();
    assert_true(tml_clock_tie_host_ns(&tie, &runtime, 0, event, &error_ns) == TML_NS_NONE);
    cuda.cudaEventDestroy(event);
}

static void it_is_renewed_once_a_second_and_sooner_after_a_refusal(void **state)
{
    (void)state;
    fake_cuda_fail_call("cuEventRecord", 1, 1);
    tml_clock_tie_renew(&tie, &runtime, 0, 0);
    assert_int_equal(tie.refused, 1);
    tml_clock_tie_renew(&tie, &runtime, 0, TML_CLOCK_TIE_RETRY_NS - 1);
    assert_int_equal(tie.refused + tie.made, 1);
    tml_clock_tie_renew(&tie, &runtime, 0, TML_CLOCK_TIE_RETRY_NS);
    assert_int_equal(tie.refused + tie.made, 2);
    make_tie();
    uint64_t attempts = tie.refused + tie.made;
    tml_clock_tie_renew(&tie, &runtime, 0, tie.tried_ns + TML_CLOCK_TIE_PERIOD_NS - 1);
    assert_int_equal(tie.refused + tie.made, attempts);
}

static void an_event_that_queues_is_refused_and_no_second_one_is_put_behind_it(void **state)
{
    (void)state;
    make_tie();
    void *holding = tie.event;
    fake_cuda_block_stream(0, tie.stream);
    uint64_t made = tie.made, refused = tie.refused, records = fake_cuda_calls("cuEventRecord");
    for (int i = 0; i < 5; i++)
        attempt();
    assert_int_equal(tie.refused, refused + 5);
    assert_int_equal(fake_cuda_calls("cuEventRecord"), records + 1);
    assert_ptr_equal(tie.event, holding); /* the old one holds */
    uint64_t queries = fake_cuda_calls("cudaEventQuery");
    attempt();
    assert_int_equal(fake_cuda_calls("cudaEventQuery"), queries + 1); /* a look, no polling */
    fake_cuda_unblock_stream(0, tie.stream);
    make_tie();
    assert_int_equal(tie.made, made + 1);
}

static void polling_is_bounded_by_time(void **state)
{
    (void)state;
    fake_cuda_hang_next_records(1);
    int64_t begin_ns = tml_now_ns();
    attempt();
    int64_t took_ns = tml_now_ns() - begin_ns;
    assert_int_equal(tie.refused, 1);
    assert_true(tie.late);
    assert_in_range(took_ns, TML_CLOCK_TIE_LIMIT_NS, 1000 * MS); /* generous: this machine may be busy */
    fake_cuda_release_event(NULL);
}

static void a_clock_that_drifts_widens_the_error(void **state)
{
    (void)state;
    int64_t error_ns;
    fake_cuda_follow_host_clock(1);
    fake_cuda_drift(0, 100000000); /* a tenth */
    make_tie();
    usleep(20000);
    make_tie();
    assert_true(tie.drift > 0.05);
    void *event = event_now();
    int64_t host_ns = tml_clock_tie_host_ns(&tie, &runtime, 0, event, &error_ns);
    assert_true(host_ns == TML_NS_NONE || error_ns > tie.error_ns);
    cuda.cudaEventDestroy(event);
}

static void calls_that_fail_are_refusals_and_leave_no_error_behind(void **state)
{
    (void)state;
    static const char *const calls[] = {"cudaStreamCreateWithFlags", "cudaEventCreateWithFlags", "cuStreamIsCapturing",
                                        "cuEventRecord", "cudaEventQuery"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        fake_cuda_fail_call(calls[i], 1, 2);
        attempt();
        assert_int_equal(tie.refused, i + 1);
        assert_int_equal(tie.made, 0);
        assert_int_equal(cuda.cudaPeekAtLastError(), 0);
    }
    make_tie();
}

static void a_dead_device_gets_no_more_calls(void **state)
{
    (void)state;
    make_tie();
    fake_cuda_kill_device(0, 719);
    attempt();
    assert_false(tml_cuda_usable(&runtime));
    uint64_t calls = fake_cuda_all_calls();
    int64_t error_ns;
    for (int i = 0; i < 5; i++)
        attempt();
    assert_true(tml_clock_tie_host_ns(&tie, &runtime, 0, tie.event, &error_ns) == TML_NS_NONE);
    tml_clock_tie_close(&tie, &runtime);
    assert_int_equal(fake_cuda_all_calls(), calls);
    fake_cuda_reset(); /* what it forgot */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_tie_gives_events_a_host_time_and_says_how_far_it_may_be_off),
        TEST(the_interval_begins_with_the_last_query_that_said_not_yet),
        TEST(an_event_before_the_tie_has_a_host_time_too),
        TEST(without_a_tie_and_for_another_device_there_is_no_host_time),
        TEST(a_tie_that_is_too_far_away_gives_none),
        TEST(it_is_renewed_once_a_second_and_sooner_after_a_refusal),
        TEST(an_event_that_queues_is_refused_and_no_second_one_is_put_behind_it),
        TEST(polling_is_bounded_by_time),
        TEST(a_clock_that_drifts_widens_the_error),
        TEST(calls_that_fail_are_refusals_and_leave_no_error_behind),
        TEST(a_dead_device_gets_no_more_calls),
    };
    return cmocka_run_group_tests(tests, fake_cuda_calls_load, NULL);
}
