/* Forks while the sampler is busy: no hang, no output doubled, a child that records nothing unless it opens one. */
#include "fake_cuda_calls.h"

#include <sys/wait.h>

#include "session_fixture.h"

static void step(void)
{
    traceml_span whole = traceml_step_begin(run.session, (struct traceml_stream){0, NULL});
    traceml_end(run.session, traceml_begin(run.session, TRACEML_PHASE_FORWARD, (struct traceml_stream){0, NULL}), 0);
    fake_cuda_work(0, NULL, 100000);
    traceml_step_end(run.session, whole, 0);
}

/* Exit status 0: it recorded nothing, and close said that this session is not its own. */
static int child(void)
{
    uint64_t before = traceml_steps_completed(run.session);
    bool nothing = traceml_step_begin(run.session, TRACEML_NO_STREAM) < 0;
    nothing = nothing && traceml_begin(run.session, TRACEML_PHASE_FORWARD, TRACEML_NO_STREAM) < 0;
    nothing = nothing && traceml_steps_completed(run.session) == before;
    return nothing && traceml_session_close(run.session, NULL) == TRACEML_CLOSED ? 0 : 1;
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
            _exit(child());
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
    struct traceml_options options = session_fixture_options();
    struct traceml_session *session;
    char error[512];
    options.logs_dir = run.logs;
    options.run_name = "child";
    if (traceml_session_open(&options, &session, error, sizeof error) != TRACEML_OK)
        return 1;
    traceml_step_end(session, traceml_step_begin(session, TRACEML_NO_STREAM), 0);
    bool one = traceml_steps_completed(session) == 1;
    return traceml_session_close(session, NULL) == TRACEML_OK && one ? 0 : 1;
}

static void a_child_may_open_a_session_of_its_own(void **state)
{
    (void)state;
    struct traceml_options options = session_fixture_options();
    session_fixture_open(&options);
    step();
    pid_t pid = fork();
    if (pid == 0)
        _exit(child_with_its_own_session());
    assert_true(ended_well(pid));
    session_fixture_close();
    assert_int_equal(run.row_count, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(five_hundred_forks_neither_hang_nor_double_a_line, session_fixture_remove),
        cmocka_unit_test_teardown(a_child_may_open_a_session_of_its_own, session_fixture_remove),
    };
    return cmocka_run_group_tests(tests, fake_cuda_calls_load, NULL);
}
