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

static void *leave_a_step_open(void *argument)
{
    (void)argument;
    traceml_step_begin(run.session, TRACEML_NO_STREAM);
    traceml_begin(run.session, TRACEML_PHASE_FORWARD, TRACEML_NO_STREAM);
    return NULL;
}

static void threads_that_end_inside_a_step_leave_the_others_theirs(void **state)
{
    (void)state;
    struct traceml_options options = session_fixture_options();
    session_fixture_open(&options);
    for (int i = 0; i < 100; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, leave_a_step_open, NULL), 0);
        pthread_join(thread, NULL);
        traceml_step_end(run.session, traceml_step_begin(run.session, TRACEML_NO_STREAM), 0);
        traceml_flush(run.session, 1000);
    }
    assert_int_equal(traceml_steps_completed(run.session), 100);
    session_fixture_close();
    assert_int_equal(run.row_count, 200);
    for (unsigned i = 0; i < 200; i++) {
        assert_int_equal((run.rows[i].flags & TML_STEP_FLAG_ABORTED) != 0, i % 2 == 0);
        assert_int_equal(run.rows[i].step, i / 2 + 1);
    }
}

/* A thread's last words: a destructor that runs after the library's, when its ring may be another thread's already. */
static pthread_key_t last_words;
static struct tml_recorder *at_the_end, *meanwhile;

static void *note_recorder(void *argument)
{
    meanwhile = tml_recorder_here();
    return one_span(argument);
}

static void record_once_more(void *argument)
{
    pthread_t other;
    traceml_flush(run.session, 1000); /* the ring is free now */
    at_the_end = tml_recorder_here();
    if (pthread_create(&other, NULL, note_recorder, argument) == 0)
        pthread_join(other, NULL);
    one_span(argument);
}

static void *one_span_and_another_at_the_end(void *argument)
{
    pthread_setspecific(last_words, run.logs);
    return one_span(argument);
}

static void a_span_at_a_thread_s_very_end_goes_into_no_ring_of_another(void **state)
{
    (void)state;
    pthread_t thread;
    struct traceml_options options = session_fixture_options();
    session_fixture_open(&options);
    one_span(NULL); /* makes the library's key first: its destructor runs first */
    assert_int_equal(pthread_key_create(&last_words, record_once_more), 0);
    assert_int_equal(pthread_create(&thread, NULL, one_span_and_another_at_the_end, NULL), 0);
    pthread_join(thread, NULL);
    pthread_key_delete(last_words);
    traceml_step_end(run.session, traceml_step_begin(run.session, TRACEML_NO_STREAM), 0);
    session_fixture_close();
    assert_non_null(at_the_end);
    assert_ptr_not_equal(at_the_end, meanwhile);
    assert_int_equal(run.rows[0].cell[TML_REGION_PRE][TRACEML_PHASE_H2D].count, 4);
}

#define CROWD (TML_RECORDERS + 20)

static pthread_barrier_t all_have_begun;

static void *ten_spans(void *argument)
{
    for (int i = 0; i < 10; i++)
        one_span(argument);
    pthread_barrier_wait(&all_have_begun); /* keeps its ring until all others have asked for one */
    return NULL;
}

static void spans_of_threads_without_a_ring_are_counted_once_each(void **state)
{
    (void)state;
    pthread_t threads[CROWD];
    struct traceml_options options = session_fixture_options();
    session_fixture_open(&options);
    traceml_step_end(run.session, traceml_step_begin(run.session, TRACEML_NO_STREAM), 0);
    pthread_barrier_init(&all_have_begun, NULL, CROWD);
    for (unsigned i = 0; i < CROWD; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ten_spans, NULL), 0);
    for (unsigned i = 0; i < CROWD; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&all_have_begun);
    traceml_step_end(run.session, traceml_step_begin(run.session, TRACEML_NO_STREAM), 0);
    session_fixture_close();
    assert_int_equal(run.losses[TML_LOSS_NO_RING], 10 * (CROWD - (TML_RECORDERS - 1)));
    assert_int_equal(run.rows[1].cell[TML_REGION_PRE][TRACEML_PHASE_H2D].count, 10 * (TML_RECORDERS - 1));
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
        cmocka_unit_test_teardown(threads_that_end_inside_a_step_leave_the_others_theirs, session_fixture_remove),
        cmocka_unit_test_teardown(a_span_at_a_thread_s_very_end_goes_into_no_ring_of_another, session_fixture_remove),
        cmocka_unit_test_teardown(spans_of_threads_without_a_ring_are_counted_once_each, session_fixture_remove),
        cmocka_unit_test_teardown(sessions_follow_each_other_in_one_process, session_fixture_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
