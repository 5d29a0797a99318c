/* row_store: the latest rows of a rank by column come out as they went in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "row_store.h"
#include "run_fixture.h"

static struct tml_step_row row_of(uint64_t step)
{
    struct fixture_times times = fixture_healthy;
    times.wait = (int64_t)step;
    times.optimizer = step % 3 ? FIXTURE_ABSENT : 100; /* a column with holes */
    struct tml_step_row row = fixture_gpu_row(step, &times, &times);
    if (step % 5 == 0) /* a column that begins late */
        row.cell[TML_REGION_IN][TRACEML_PHASE_FORWARD].inclusive_ns[TML_CLOCK_GPU] += 7;
    if (step % 4 == 0)
        row.beside[TML_REGION_IN][TRACEML_PHASE_FORWARD] = (struct tml_beside){1, (int64_t)step, (int64_t)step - 1};
    if (step % 3 == 0)
        row.lead.reason = TML_REASON_NO_CLOCK_TIE;
    for (unsigned boundary = 0; boundary < TML_BOUNDARY_COUNT; boundary++)
        row.lead.ns[boundary] = step % 3 ? (int64_t)(step * 10 + boundary) : TML_NS_NONE;
    row.lead.error_ns = step % 3 ? (int64_t)step : TML_NS_NONE;
    if (step % 7 == 0)
        fixture_lose_gpu(&row, TML_REASON_EVENTS_LOST);
    return row;
}

static void assert_row(const struct tml_row_store *store, size_t index, uint64_t step)
{
    struct tml_step_row expected = row_of(step), row;
    enum tml_reason reason;
    tml_row_store_get(store, index, &row);
    assert_int_equal(row.step, step);
    assert_int_equal(tml_row_store_step(store, index), step);
    assert_int_equal(row.flags, expected.flags);
    assert_int_equal(tml_row_store_flags(store, index), expected.flags);
    assert_int_equal(row.gpu_complete, expected.gpu_complete);
    assert_int_equal(tml_row_store_on_gpu(store, index, &reason), expected.gpu_complete);
    assert_int_equal(reason, expected.gpu_reason);
    assert_memory_equal(row.term_ns, expected.term_ns, sizeof row.term_ns);
    assert_memory_equal(row.cell, expected.cell, sizeof row.cell);
    for (unsigned region = 0; region < TML_REGIONS; region++)
        for (unsigned phase = 0; phase < TRACEML_PHASE_COUNT; phase++) {
            const struct tml_beside *beside = &row.beside[region][phase], *its = &expected.beside[region][phase];
            assert_int_equal(beside->count, its->count);
            assert_int_equal(beside->device_ns, its->device_ns);
            assert_int_equal(beside->overlap_ns, its->overlap_ns);
        }
    assert_memory_equal(row.lead.ns, expected.lead.ns, sizeof row.lead.ns);
    assert_int_equal(row.lead.error_ns, expected.lead.error_ns);
    assert_int_equal(row.lead.reason, expected.lead.reason);
}

static void assert_keeps_latest(size_t limit, uint64_t steps)
{
    struct tml_row_store store;
    tml_row_store_init(&store, limit);
    for (uint64_t step = 1; step <= steps; step++) {
        struct tml_step_row row = row_of(step);
        assert_true(tml_row_store_push(&store, &row));
    }
    size_t kept = steps < limit ? (size_t)steps : limit;
    assert_int_equal(store.count, kept);
    for (size_t i = 0; i < kept; i++)
        assert_row(&store, i, steps - kept + 1 + i);
    tml_row_store_free(&store);
}

static void the_latest_rows_come_out_as_they_went_in(void **unused)
{
    (void)unused;
    assert_keeps_latest(1000, 10);
    assert_keeps_latest(1000, 1000);
    assert_keeps_latest(1000, 3777);
    assert_keeps_latest(1, 9);
    assert_keeps_latest(300, 301);
}

static void a_cleared_store_holds_new_rows_alone(void **unused)
{
    (void)unused;
    struct tml_row_store store;
    tml_row_store_init(&store, 50);
    for (uint64_t step = 1; step <= 120; step++) {
        struct tml_step_row row = row_of(step);
        assert_true(tml_row_store_push(&store, &row));
    }
    tml_row_store_clear(&store);
    assert_int_equal(store.count, 0);
    for (uint64_t step = 1; step <= 60; step++) {
        struct tml_step_row row = row_of(step);
        assert_true(tml_row_store_push(&store, &row));
    }
    for (size_t i = 0; i < 50; i++)
        assert_row(&store, i, 11 + i);
    tml_row_store_free(&store);
}

static void a_time_of_many_years_is_refused(void **unused)
{
    (void)unused;
    struct tml_step_row row = row_of(2);
    assert_true(tml_row_store_accepts(&row));
    row.cell[TML_REGION_PRE][TRACEML_PHASE_USER].inclusive_ns[TML_CLOCK_GPU] = TML_ROW_LIMIT_NS + 1;
    assert_false(tml_row_store_accepts(&row));
    row = row_of(2);
    row.term_ns[TML_CLOCK_CPU][TML_TERM_RESIDUAL] = -TML_ROW_LIMIT_NS - 1;
    assert_false(tml_row_store_accepts(&row));
}

static void what_ran_beside_the_step_cannot_contradict_itself(void **unused)
{
    (void)unused;
    static const struct tml_beside wrong[] = {
        {2, 5, 5},           /* more than spans */
        {0, 5, 5},           /* a time of none */
        {1, 5, 6},           /* shares more than there is */
        {1, 5, TML_NS_NONE}, /* one time alone */
        {1, -5, -5},
    };
    struct tml_step_row row = row_of(2);
    struct tml_beside *beside = &row.beside[TML_REGION_IN][TRACEML_PHASE_FORWARD];
    *beside = (struct tml_beside){1, 5, 5};
    assert_true(tml_row_store_accepts(&row));
    *beside = (struct tml_beside){1, TML_NS_NONE, TML_NS_NONE};
    assert_true(tml_row_store_accepts(&row));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        *beside = wrong[i];
        assert_false(tml_row_store_accepts(&row));
    }
}

static void sums_and_means_stay_at_the_ends(void **unused)
{
    (void)unused;
    assert_int_equal(tml_ns_add(INT64_MAX, 1), INT64_MAX);
    assert_int_equal(tml_ns_add(-5, INT64_MIN + 2), INT64_MIN + 1);
    assert_int_equal(tml_ns_mean(7, 2), 4);
    assert_int_equal(tml_ns_mean(-7, 2), -4);
    assert_int_equal(tml_ns_mean(10, 3), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_latest_rows_come_out_as_they_went_in),
        cmocka_unit_test(a_cleared_store_holds_new_rows_alone),
        cmocka_unit_test(a_time_of_many_years_is_refused),
        cmocka_unit_test(what_ran_beside_the_step_cannot_contradict_itself),
        cmocka_unit_test(sums_and_means_stay_at_the_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
