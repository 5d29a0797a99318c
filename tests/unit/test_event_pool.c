/* The events of one thread: how many there are, that they come back, and that none is destroyed in training. */
#include "fake_cuda_calls.h"

#include "event_pool.h"

static struct tml_cuda runtime;
static struct tml_event_pool *pool;

static int fresh(void **state)
{
    (void)state;
    memset(&runtime, 0, sizeof runtime);
    fake_cuda_reset();
    fake_cuda_activate_context(0);
    pool = tml_event_pool_new(0, 8);
    return pool && tml_cuda_find(&runtime) && tml_cuda_device_live(&runtime, 0) ? 0 : -1;
}

static int free_pool(void **state)
{
    (void)state;
    tml_event_pool_free(pool);
    return 0;
}

static void *take(void)
{
    return tml_event_pool_take_owner(pool, &runtime);
}

static void events_are_made_as_they_are_needed_and_no_more_than_the_limit(void **state)
{
    (void)state;
    assert_int_equal(fake_cuda_peak_events(), 0);
    for (unsigned i = 1; i <= 8; i++) {
        assert_non_null(take());
        assert_int_equal(fake_cuda_live_events(), i);
    }
    assert_null(take());
    assert_int_equal(fake_cuda_live_events(), 8);
}

static void an_event_that_was_not_used_is_the_next_one_taken(void **state)
{
    (void)state;
    take();
    void *event = take();
    tml_event_pool_untake_owner(pool, event);
    assert_ptr_equal(take(), event);
    assert_int_equal(fake_cuda_peak_events(), 2);
}

static void events_go_around_many_times_without_new_ones(void **state)
{
    (void)state;
    void *events[8];
    for (unsigned round = 0; round < 3 * TML_EVENT_POOL_MAX / 8; round++) { /* past the end of the return ring */
        for (unsigned i = 0; i < 8; i++)
            assert_non_null(events[i] = take());
        for (unsigned i = 0; i < 8; i++)
            for (unsigned j = 0; j < i; j++)
                assert_ptr_not_equal(events[i], events[j]);
        assert_null(take());
        for (unsigned i = 0; i < 8; i++)
            tml_event_pool_return_sampler(pool, events[i]);
    }
    assert_int_equal(fake_cuda_peak_events(), 8);
    assert_int_equal(fake_cuda_calls("cudaEventDestroy"), 0);
}

static void an_event_that_cannot_be_made_counts_for_nothing(void **state)
{
    (void)state;
    fake_cuda_fail_call("cudaEventCreateWithFlags", 0, 2);
    for (int i = 0; i < 20; i++)
        assert_null(take());
    assert_int_equal(cuda.cudaPeekAtLastError(), 0);
    fake_cuda_fail_call("cudaEventCreateWithFlags", 0, 0);
    for (int i = 0; i < 8; i++)
        assert_non_null(take());
}

static void the_largest_pool_takes_all_its_events_back(void **state)
{
    (void)state;
    static void *events[TML_EVENT_POOL_MAX];
    pool->limit = TML_EVENT_POOL_MAX;
    for (int round = 0; round < 3; round++) {
        for (unsigned i = 0; i < TML_EVENT_POOL_MAX; i++)
            assert_non_null(events[i] = take());
        assert_null(take());
        for (unsigned i = 0; i < TML_EVENT_POOL_MAX; i++)
            tml_event_pool_return_sampler(pool, events[i]);
    }
    tml_event_pool_empty_sampler(pool, &runtime);
    assert_int_equal(fake_cuda_live_events(), 0);
}

static void an_emptied_pool_has_destroyed_its_events_and_may_be_used_again(void **state)
{
    (void)state;
    void *returned = take();
    tml_event_pool_untake_owner(pool, take());
    tml_event_pool_return_sampler(pool, returned);
    tml_event_pool_empty_sampler(pool, &runtime);
    assert_int_equal(fake_cuda_live_events(), 0);
    assert_non_null(take());
    assert_int_equal(fake_cuda_misuses(), 0);
}

static void after_a_device_error_nothing_is_destroyed(void **state)
{
    (void)state;
    tml_event_pool_untake_owner(pool, take());
    runtime.broken = true;
    uint64_t calls = fake_cuda_all_calls();
    tml_event_pool_empty_sampler(pool, &runtime);
    assert_int_equal(fake_cuda_all_calls(), calls);
    assert_int_equal(pool->free_count, 0);
}

/* One thread takes and the other gives back: no event is lost, doubled or seen before it was returned. */
#define ROUNDS 200000

static void *_Atomic handed[64];
static _Atomic unsigned handed_head;
static unsigned handed_tail;

static void *give_back(void *argument)
{
    (void)argument;
    while (handed_tail < ROUNDS) {
        if (handed_tail == atomic_load_explicit(&handed_head, memory_order_acquire))
            continue;
        tml_event_pool_return_sampler(pool, handed[handed_tail++ % 64]);
    }
    return NULL;
}

static void events_travel_between_two_threads(void **state)
{
    (void)state;
    pthread_t sampler;
    unsigned taken = 0;
    assert_int_equal(pthread_create(&sampler, NULL, give_back, NULL), 0);
    while (taken < ROUNDS) {
        void *event = take(); /* at most 8 are under way, so `handed` is never full */
        if (!event)
            continue;
        handed[taken % 64] = event;
        atomic_store_explicit(&handed_head, ++taken, memory_order_release);
    }
    pthread_join(sampler, NULL);
    assert_int_equal(fake_cuda_live_events(), 8);
    tml_event_pool_empty_sampler(pool, &runtime);
    assert_int_equal(fake_cuda_live_events(), 0);
    assert_int_equal(fake_cuda_misuses(), 0); /* a doubled one would be destroyed twice */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh, free_pool)
    const struct CMUnitTest tests[] = {
        TEST(events_are_made_as_they_are_needed_and_no_more_than_the_limit),
        TEST(an_event_that_was_not_used_is_the_next_one_taken),
        TEST(events_go_around_many_times_without_new_ones),
        TEST(an_event_that_cannot_be_made_counts_for_nothing),
        TEST(the_largest_pool_takes_all_its_events_back),
        TEST(an_emptied_pool_has_destroyed_its_events_and_may_be_used_again),
        TEST(after_a_device_error_nothing_is_destroyed),
        TEST(events_travel_between_two_threads),
    };
    return cmocka_run_group_tests(tests, fake_cuda_calls_load, NULL);
}
