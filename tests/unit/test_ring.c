/* One thread at both ends of a ring: order, capacity, exact counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "ring.h"

static struct tml_ring ring;

static int open_ring(void **state)
{
    (void)state;
    return tml_ring_open(&ring, 8) ? 0 : -1;
}

static int close_ring(void **state)
{
    (void)state;
    tml_ring_close(&ring);
    return 0;
}

static bool push(uint64_t number)
{
    return tml_ring_push_sp(&ring, &(struct tml_record){.iteration = number});
}

static void records_come_out_in_the_order_they_went_in(void **state)
{
    (void)state;
    struct tml_record record;
    for (uint64_t round = 0; round < 100; round++) { /* past the wrap many times */
        for (uint64_t i = 0; i < 5; i++)
            assert_true(push(round * 5 + i));
        for (uint64_t i = 0; i < 5; i++) {
            assert_true(tml_ring_pop_sc(&ring, &record));
            assert_int_equal(record.iteration, round * 5 + i);
        }
        assert_false(tml_ring_pop_sc(&ring, &record));
    }
}

static void a_full_ring_refuses_and_counts(void **state)
{
    (void)state;
    struct tml_record record;
    for (uint64_t i = 0; i < 8; i++)
        assert_true(push(i));
    assert_false(push(8));
    assert_false(push(9));
    assert_int_equal(ring.attempts, 10);
    assert_int_equal(ring.dropped, 2);
    assert_true(tml_ring_pop_sc(&ring, &record));
    assert_int_equal(record.iteration, 0);
    assert_true(push(10));
}

static void a_peek_leaves_the_record_where_it_is(void **state)
{
    (void)state;
    struct tml_record first, again;
    push(7);
    assert_true(tml_ring_peek_sc(&ring, &first));
    assert_true(tml_ring_peek_sc(&ring, &again));
    assert_int_equal(first.iteration, again.iteration);
    tml_ring_drop_sc(&ring);
    assert_false(tml_ring_peek_sc(&ring, &again));
}

static void positions_may_pass_the_end_of_their_type(void **state)
{
    (void)state;
    struct tml_record record;
    ring.head = ring.tail = ring.seen_tail = ring.seen_head = UINT32_MAX - 11;
    for (uint64_t i = 0; i < 100; i++) {
        unsigned accepted = 0;
        for (unsigned n = 0; n < 11; n++)
            accepted += push(i * 100 + n);
        assert_int_equal(accepted, 8);
        for (unsigned n = 0; n < 8; n++) {
            assert_true(tml_ring_pop_sc(&ring, &record));
            assert_int_equal(record.iteration, i * 100 + n);
        }
        assert_false(tml_ring_pop_sc(&ring, &record));
    }
    assert_int_equal(ring.attempts, 1100);
    assert_int_equal(ring.dropped, 300);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_ring, close_ring)
    const struct CMUnitTest tests[] = {
        TEST(records_come_out_in_the_order_they_went_in),
        TEST(a_full_ring_refuses_and_counts),
        TEST(a_peek_leaves_the_record_where_it_is),
        TEST(positions_may_pass_the_end_of_their_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
