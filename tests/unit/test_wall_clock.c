/* The wall clock may be set back while we run: no duration and no order depends on it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <time.h>

#include "session_fixture.h"

/* Stands in for the C library's in this program: an hour back with every call. */
time_t time(time_t *out)
{
    static time_t now = 1800000000;
    now -= 3600;
    if (out)
        *out = now;
    return now;
}

static void durations_survive_a_wall_clock_that_runs_backwards(void **state)
{
    (void)state;
    struct traceml_options options = session_fixture_options();
    session_fixture_open(&options);
    for (int i = 0; i < 20; i++) {
        traceml_span step = traceml_step_begin(run.session, TRACEML_NO_STREAM);
        usleep(1000);
        traceml_step_end(run.session, step, 0);
    }
    session_fixture_close();
    assert_int_equal(run.row_count, 20);
    for (unsigned i = 0; i < 20; i++) {
        assert_true(run.rows[i].term_ns[TML_CLOCK_CPU][TML_TERM_TRACED_STEP] >= 1000000);
        assert_true(i == 0 || run.rows[i].end_ns > run.rows[i - 1].end_ns);
        assert_false(run.rows[i].flags & TML_STEP_FLAG_NEGATIVE_REMAINDER);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(durations_survive_a_wall_clock_that_runs_backwards, session_fixture_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
