/* Many recording threads beside the step's, coming and going, with flushes in between. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>

#include "recorder.h"
#include "session_fixture.h"

#define WORKERS 8

static _Atomic bool stop;
static _Atomic uint64_t spans_ended;

static void *record_spans(void *argument)
{
    (void)argument;
    while (!atomic_load_explicit(&stop, memory_order_acquire)) {
        traceml_span outer = traceml_begin(run.session, TRACEML_PHASE_USER, TRACEML_NO_STREAM);
        traceml_end(run.session, traceml_begin(run.session, TRACEML_PHASE_H2D, TRACEML_NO_STREAM), 0);
        traceml_end(run.session, outer, 0);
        traceml_step_end(run.session, traceml_step_begin(run.session, TRACEML_NO_STREAM), 0); /* sometimes refused */
        atomic_fetch_add_explicit(&spans_ended, 2, memory_order_relaxed);
        usleep(100);
    }
    return NULL;
}

static void *flush_often(void *argument)
{
    (void)argument;
    while (!atomic_load_explicit(&stop, memory_order_acquire)) {
        traceml_flush(run.session, 100);
        traceml_set_environment(run.session, "{\"changed\": true}");
        traceml_set_armed(run.session, TRACEML_PHASE_H2D, true);
    }
    return NULL;
}

static void threads_record_beside_flushes_and_every_step_is_numbered_once(void **state)
{
    (void)state;
    pthread_t workers[WORKERS], flusher;
    struct traceml_options options = session_fixture_options();
    session_fixture_open(&options);
    atomic_store_explicit(&stop, false, memory_order_relaxed);
    for (unsigned i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&workers[i], NULL, record_spans, NULL), 0);
    assert_int_equal(pthread_create(&flusher, NULL, flush_often, NULL), 0);
    usleep(300000);
    atomic_store_explicit(&stop, true, memory_order_release);
    for (unsigned i = 0; i < WORKERS; i++)
        pthread_join(workers[i], NULL);
    pthread_join(flusher, NULL);
    uint64_t completed = traceml_steps_completed(run.session);
    session_fixture_close();
    assert_int_equal(run.header_lines, 1);
    assert_int_equal(run.end_lines, 1);
    assert_int_equal(run.bad_lines, 0);
    assert_true(completed > 0);
    unsigned rows = completed < SESSION_FIXTURE_ROWS ? (unsigned)completed : SESSION_FIXTURE_ROWS;
    assert_int_equal(run.row_count, rows);
    for (unsigned i = 0; i < rows; i++)
        assert_int_equal(run.rows[i].step, i + 1);
}

static void *one_span(void *argument)
{
    (void)argument;
    traceml_end(run.session, traceml_begin(run.session, TRACEML_PHASE_H2D, TRACEML_NO_STREAM), 0);
    return NULL;
}

static void rings_of_threads_that_ended_are_used_again(void **state)
{
    (void)state;
    struct traceml_options options = session_fixture_options();
    session_fixture_open(&options);
    for (unsigned i = 0; i < 5 * TML_RECORDERS; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, one_span, NULL), 0);
        pthread_join(thread, NULL);
        if (i % 16 == 0)
            traceml_flush(run.session, 1000); /* a tick gives the retired ones free */
    }
    traceml_step_end(run.session, traceml_step_begin(run.session, TRACEML_NO_STREAM), 0);
    session_fixture_close();
    for (unsigned loss = 0; loss < TML_LOSS_COUNT; loss++)
        assert_int_equal(run.losses[loss], 0);
    assert_int_equal(run.rows[0].cell[TML_REGION_PRE][TRACEML_PHASE_H2D].count, 5 * TML_RECORDERS);
    assert_int_equal(run.rows[0].cell[TML_REGION_PRE][TRACEML_PHASE_H2D].other_count, 5 * TML_RECORDERS);
}

static void sessions_follow_each_other_in_one_process(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        struct traceml_options options = session_fixture_options();
        session_fixture_open(&options);
        for (int step = 0; step < 10; step++)
            traceml_step_end(run.session, traceml_step_begin(run.session, TRACEML_NO_STREAM), 0);
        session_fixture_close();
        assert_int_equal(run.row_count, 10);
        session_fixture_remove(NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(threads_record_beside_flushes_and_every_step_is_numbered_once,
                                  session_fixture_remove),
        cmocka_unit_test_teardown(rings_of_threads_that_ended_are_used_again, session_fixture_remove),
        cmocka_unit_test_teardown(sessions_follow_each_other_in_one_process, session_fixture_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
