/* Forks while the sampler is busy: no hang, no output doubled, a child that records nothing unless it opens one. */
#include "fake_cuda_calls.h"

#include <stdatomic.h>
#include <sys/wait.h>

#include "session_fixture.h"

static void step(void)
{
    traceml_span whole = traceml_step_begin(run.session, (struct traceml_stream){0, NULL});
    traceml_end(run.session, traceml_begin(run.session, TRACEML_PHASE_FORWARD, (struct traceml_stream){0, NULL}), 0);
    fake_cuda_work(0, NULL, 100000);
    traceml_step_end(run.session, whole, 0);
}

/* Exit status 0: it recorded nothing, and close said that this session is not its own. 2: it called CUDA, which does
 * not survive a fork. `calls`: those before it. */
static int child(uint64_t calls)
{
    const struct traceml_stream stream0 = {0, NULL};
    uint64_t before = traceml_steps_completed(run.session);
    bool nothing = traceml_step_begin(run.session, stream0) < 0;
    nothing = nothing && traceml_begin(run.session, TRACEML_PHASE_FORWARD, stream0) < 0;
    traceml_flush(run.session, 1);
    nothing = nothing && traceml_steps_completed(run.session) == before;
    nothing = nothing && traceml_session_close(run.session, NULL) == TRACEML_CLOSED;
    return fake_cuda_all_calls() != calls ? 2 : !nothing;
}

/* True if the child ended with 0 within ten seconds. */
static bool ended_well(pid_t pid)
{
    int status;
    for (int i = 0; i < 10000; i++) {
        if (waitpid(pid, &status, WNOHANG) == pid)
            return WIFEXITED(status) && WEXITSTATUS(status) == 0;
        usleep(1000);
    }
    return false;
}

static void five_hundred_forks_neither_hang_nor_double_a_line(void **state)
{
    (void)state;
    struct traceml_options options = session_fixture_options();
    fake_cuda_activate_context(0);
    session_fixture_open(&options);
    for (int i = 0; i < 500; i++) {
        step();
        fake_cuda_advance(100000);
        pid_t pid = fork();
        if (pid == 0)
            _exit(child(fake_cuda_all_calls())); /* not the parent's: its sampler goes on */
        assert_true(pid > 0);
        assert_true(ended_well(pid));
    }
    fake_cuda_advance(1000000000);
    assert_int_equal(session_fixture_close(), TRACEML_OK);
    assert_int_equal(run.header_lines, 1);
    assert_int_equal(run.end_lines, 1);
    assert_int_equal(run.bad_lines, 0);
    assert_int_equal(run.row_count, 500);
    for (unsigned i = 0; i < 500; i++)
        assert_int_equal(run.rows[i].step, i + 1);
}

static int child_with_its_own_session(void)
{
    const struct traceml_stream stream0 = {0, NULL};
    struct traceml_options options = session_fixture_options();
    struct traceml_session *session;
    char error[512];
    uint64_t calls = fake_cuda_all_calls();
    options.logs_dir = run.logs;
    options.run_name = "child";
    if (traceml_session_open(&options, &session, error, sizeof error) != TRACEML_OK)
        return 1;
    traceml_step_end(session, traceml_step_begin(session, stream0), 0);
    bool one = traceml_steps_completed(session) == 1;
    one = traceml_session_close(session, NULL) == TRACEML_OK && one;
    return fake_cuda_all_calls() != calls ? 2 : !one;
}

static void a_child_may_open_a_session_of_its_own_and_leaves_cuda_alone(void **state)
{
    (void)state;
    struct traceml_options options = session_fixture_options();
    fake_cuda_activate_context(0);
    session_fixture_open(&options);
    step();
    pid_t pid = fork();
    if (pid == 0)
        _exit(child_with_its_own_session());
    assert_true(ended_well(pid));
    session_fixture_close();
    assert_int_equal(run.row_count, 1);
}

/* Threads whose recorders are taken while the process forks: in the child they are gone, and so are their claims. */
#define HOLDERS 63

static pthread_barrier_t holding;

static void *hold_a_recorder(void *argument)
{
    (void)argument;
    traceml_end(run.session, traceml_begin(run.session, TRACEML_PHASE_USER, TRACEML_NO_STREAM), 0);
    pthread_barrier_wait(&holding);
    pthread_barrier_wait(&holding);
    return NULL;
}

static void *one_step(void *session)
{
    traceml_step_end(session, traceml_step_begin(session, TRACEML_NO_STREAM), 0);
    return NULL;
}

/* Its own session, and a thread that needs a recorder. */
static int child_with_a_thread(void)
{
    struct traceml_options options = session_fixture_options();
    struct traceml_session *session;
    pthread_t thread;
    options.logs_dir = run.logs;
    options.run_name = "child";
    if (traceml_session_open(&options, &session, NULL, 0) != TRACEML_OK)
        return 1;
    one_step(session);
    if (pthread_create(&thread, NULL, one_step, session) != 0 || pthread_join(thread, NULL) != 0)
        return 2;
    bool two = traceml_steps_completed(session) == 2;
    return traceml_session_close(session, NULL) == TRACEML_OK && two ? 0 : 3;
}

static void a_child_has_the_recorders_of_threads_that_it_lacks(void **state)
{
    (void)state;
    pthread_t threads[HOLDERS];
    struct traceml_options options = session_fixture_options();
    session_fixture_open(&options);
    step();
    pthread_barrier_init(&holding, NULL, HOLDERS + 1);
    for (int i = 0; i < HOLDERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hold_a_recorder, NULL), 0);
    pthread_barrier_wait(&holding);
    session_fixture_close(); /* no session is open at the fork */
    pid_t pid = fork();
    if (pid == 0)
        _exit(child_with_a_thread());
    bool well = ended_well(pid);
    pthread_barrier_wait(&holding);
    for (int i = 0; i < HOLDERS; i++)
        pthread_join(threads[i], NULL);
    assert_true(well);
}

static _Atomic bool done;
static _Atomic unsigned forks, ended_badly;

static void *fork_often(void *argument)
{
    (void)argument;
    while (!atomic_load_explicit(&done, memory_order_acquire)) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(0);
        ended_badly += !ended_well(pid);
        forks++;
    }
    return NULL;
}

static void forks_beside_open_and_close_neither_hang_nor_touch_a_session_that_is_gone(void **state)
{
    (void)state;
    pthread_t forker;
    struct traceml_options options = session_fixture_options();
    done = false;
    assert_int_equal(pthread_create(&forker, NULL, fork_often, NULL), 0);
    for (int i = 0; i < 200 || forks < 20; i++) {
        session_fixture_open(&options);
        one_step(run.session);
        session_fixture_close();
        session_fixture_remove(NULL);
    }
    atomic_store_explicit(&done, true, memory_order_release);
    pthread_join(forker, NULL);
    assert_int_equal(ended_badly, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(five_hundred_forks_neither_hang_nor_double_a_line, session_fixture_remove),
        cmocka_unit_test_teardown(forks_beside_open_and_close_neither_hang_nor_touch_a_session_that_is_gone,
                                  session_fixture_remove),
        cmocka_unit_test_teardown(a_child_has_the_recorders_of_threads_that_it_lacks, session_fixture_remove),
        cmocka_unit_test_teardown(a_child_may_open_a_session_of_its_own_and_leaves_cuda_alone, session_fixture_remove),
    };
    return cmocka_run_group_tests(tests, fake_cuda_calls_load, NULL);
}
