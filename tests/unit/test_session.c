/* Opening and closing a session: what is refused, with which words, and that nothing of the process is touched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "session_fixture.h"

static char error[512];

static enum traceml_status try_open(const struct traceml_options *options)
{
    struct traceml_session *session = (void *)&error; /* poisoned: must be NULL afterwards */
    error[0] = '\0';
    enum traceml_status status = traceml_session_open(options, &session, error, sizeof error);
    if (status == TRACEML_OK)
        traceml_session_close(session, NULL);
    else
        assert_null(session);
    return status;
}

/* Number of open descriptors below 64. */
static unsigned descriptors(void)
{
    unsigned count = 0;
    for (int fd = 0; fd < 64; fd++)
        count += fcntl(fd, F_GETFD) != -1;
    return count;
}

static void a_logs_directory_that_cannot_be_made_is_refused_in_one_line(void **state)
{
    (void)state;
    struct traceml_options options = session_fixture_options();
    unsigned before = descriptors();
    options.logs_dir = "/dev/null/logs";
    assert_int_equal(try_open(&options), TRACEML_UNWRITABLE);
    assert_non_null(strstr(error, "/dev/null/logs"));
    assert_null(strchr(error, '\n'));
    assert_int_equal(descriptors(), before); /* once it closed the program's standard input */
}

static void options_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    struct traceml_options options = session_fixture_options();
    options.rank = 2;
    assert_int_equal(try_open(&options), TRACEML_INVALID_ARGUMENT);
    options = session_fixture_options();
    options.logs_dir = NULL;
    assert_int_equal(try_open(&options), TRACEML_INVALID_ARGUMENT);
    options = session_fixture_options();
    options.program = NULL;
    assert_int_equal(try_open(&options), TRACEML_INVALID_ARGUMENT);
    options = session_fixture_options();
    options.size = 8;
    assert_int_equal(try_open(&options), TRACEML_INVALID_ARGUMENT);
    options = session_fixture_options();
    options.tick_ms = 0;
    assert_int_equal(try_open(&options), TRACEML_INVALID_ARGUMENT);
    options = session_fixture_options();
    options.environment_json = "[1]";
    options.logs_dir = "/tmp";
    assert_int_equal(try_open(&options), TRACEML_INVALID_ARGUMENT);
    options = session_fixture_options();
    options.run_name = "a/b";
    options.logs_dir = "/tmp";
    assert_int_equal(try_open(&options), TRACEML_INVALID_ARGUMENT);
}

static void a_run_name_that_is_taken_gets_the_next_suffix_and_nothing_is_overwritten(void **state)
{
    (void)state;
    struct traceml_options options = session_fixture_options();
    session_fixture_open(&options);
    traceml_step_end(run.session, traceml_step_begin(run.session, TRACEML_NO_STREAM), 0);
    session_fixture_close();
    options.logs_dir = run.logs;
    options.run_name = "run";
    struct traceml_session *second;
    assert_int_equal(traceml_session_open(&options, &second, NULL, 0), TRACEML_OK);
    assert_string_equal(strrchr(traceml_run_dir(second), '/'), "/run-2");
    assert_int_equal(traceml_session_close(second, NULL), TRACEML_OK);
    session_fixture_read();
    assert_int_equal(run.row_count, 1);
}

static void step_now(void)
{
    traceml_step_end(run.session, traceml_step_begin(run.session, TRACEML_NO_STREAM), 0);
}

/* The launcher's directory, and one step in it by a process that was there before us. */
static void open_second(bool before_open)
{
    struct traceml_options options = session_fixture_options();
    char path[512], moved[600];
    session_fixture_open(&options);
    step_now();
    session_fixture_close();
    snprintf(path, sizeof path, "%s/steps-rank00000.jsonl", run.run_dir);
    snprintf(moved, sizeof moved, "%s.moved", path);
    assert_int_equal(before_open ? 0 : rename(path, moved), 0);
    options.logs_dir = run.logs;
    options.run_name = "run";
    options.adopt_run_dir = true;
    assert_int_equal(traceml_session_open(&options, &run.session, error, sizeof error), TRACEML_OK);
    assert_int_equal(before_open ? 0 : rename(moved, path), 0);
}

static void a_second_process_of_a_rank_has_a_directory_of_its_own(void **state)
{
    (void)state;
    for (int before_open = 0; before_open < 2; before_open++) {
        open_second(before_open);
        step_now();
        step_now();
        traceml_flush(run.session, 1000);
        assert_string_equal(strrchr(traceml_run_dir(run.session), '/'), "/run-2");
        session_fixture_read(); /* of the first */
        assert_int_equal(run.row_count, 1);
        snprintf(run.run_dir, sizeof run.run_dir, "%s", traceml_run_dir(run.session));
        assert_int_equal(session_fixture_close(), TRACEML_OK);
        assert_int_equal(run.row_count, 2);
        session_fixture_remove(state);
    }
}

static void a_name_that_was_taken_before_the_first_step_gets_a_number(void **state)
{
    (void)state;
    struct traceml_options options = session_fixture_options();
    session_fixture_open(&options);
    assert_int_equal(mkdir(run.run_dir, 0777), 0); /* another run of the same second was faster */
    traceml_step_end(run.session, traceml_step_begin(run.session, TRACEML_NO_STREAM), 0);
    traceml_flush(run.session, 1000);
    assert_string_equal(strrchr(traceml_run_dir(run.session), '/'), "/run-2");
    snprintf(run.run_dir, sizeof run.run_dir, "%s", traceml_run_dir(run.session));
    assert_int_equal(session_fixture_close(), TRACEML_OK);
    assert_int_equal(run.row_count, 1);
}

/* Steps in the file after at most a second; it is read without asking the session for anything. */
static unsigned steps_written(unsigned wanted)
{
    struct timespec wait = {.tv_nsec = 2000000};
    for (unsigned tries = 0; tries < 500 && run.row_count < wanted; tries++) {
        nanosleep(&wait, NULL);
        session_fixture_read();
    }
    return run.row_count;
}

static void the_first_step_is_written_at_once(void **state)
{
    (void)state;
    struct traceml_options options = session_fixture_options();
    options.flush_ms = 3600000; /* nothing is due for half an hour */
    session_fixture_open(&options);
    step_now();
    assert_int_equal(steps_written(1), 1);
    assert_int_equal(run.header_lines, 1);
    step_now();
    step_now();
    session_fixture_read();
    assert_int_equal(run.row_count, 1);
    assert_int_equal(session_fixture_close(), TRACEML_OK);
    assert_int_equal(run.row_count, 3);
}

static void a_completed_step_is_in_the_file_soon(void **state)
{
    (void)state;
    struct traceml_options options;
    traceml_options_init(&options);
    assert_true(options.flush_ms <= 100); /* what a kill may cost, and what docs/concurrency.md says */
    session_fixture_open(&options);
    for (unsigned step = 1; step <= 5; step++) {
        step_now();
        assert_int_equal(steps_written(step), step);
    }
}

static void one_session_is_open_at_a_time(void **state)
{
    (void)state;
    struct traceml_options options = session_fixture_options();
    session_fixture_open(&options);
    options.logs_dir = run.logs;
    options.run_name = "second";
    assert_int_equal(try_open(&options), TRACEML_BUSY);
}

static void nothing_is_written_before_the_first_step(void **state)
{
    (void)state;
    struct traceml_options options = session_fixture_options();
    session_fixture_open(&options);
    traceml_end(run.session, traceml_begin(run.session, TRACEML_PHASE_USER, TRACEML_NO_STREAM), 0);
    session_fixture_close();
    assert_int_not_equal(access(run.run_dir, F_OK), 0);
}

static void an_aborted_step_is_kept_and_the_numbering_goes_on(void **state)
{
    (void)state;
    struct traceml_options options = session_fixture_options();
    session_fixture_open(&options);
    for (int i = 0; i < 6; i++)
        traceml_step_end(run.session, traceml_step_begin(run.session, TRACEML_NO_STREAM),
                         i == 2 || i == 3 ? TRACEML_SPAN_ABORTED : 0);
    assert_int_equal(traceml_steps_completed(run.session), 4);
    session_fixture_close();
    static const uint64_t steps[] = {1, 2, 3, 3, 3, 4};
    assert_int_equal(run.row_count, 6);
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(run.rows[i].step, steps[i]);
        assert_int_equal(run.rows[i].iteration, i + 1);
        assert_int_equal((run.rows[i].flags & TML_STEP_FLAG_ABORTED) != 0, i == 2 || i == 3);
    }
}

static void a_validation_s_fetches_are_not_the_next_step_s_wait(void **state)
{
    (void)state;
    struct traceml_options options = session_fixture_options();
    session_fixture_open(&options);
    for (int i = 0; i < 2; i++)
        traceml_step_end(run.session, traceml_step_begin(run.session, TRACEML_NO_STREAM), 0);
    for (int i = 0; i < 50; i++)
        traceml_end(run.session, traceml_begin(run.session, TRACEML_PHASE_DATALOADER_FETCH, TRACEML_NO_STREAM),
                    TRACEML_SPAN_NO_GRAD);
    traceml_end(run.session, traceml_begin(run.session, TRACEML_PHASE_DATALOADER_FETCH, TRACEML_NO_STREAM), 0);
    traceml_step_end(run.session, traceml_step_begin(run.session, TRACEML_NO_STREAM), 0);
    session_fixture_close();
    assert_int_equal(run.row_count, 3);
    assert_int_equal(run.rows[2].cell[TML_REGION_PRE][TRACEML_PHASE_DATALOADER_FETCH].count, 1);
    assert_int_equal(run.rows[2].cell[TML_REGION_PRE][TRACEML_PHASE_EVALUATION].count, 0);
    assert_true(run.rows[2].term_ns[TML_CLOCK_CPU][TML_TERM_PRE_STEP_OTHER] > 0);
}

static void the_step_limit_ends_recording(void **state)
{
    (void)state;
    struct traceml_options options = session_fixture_options();
    options.max_steps = 3;
    session_fixture_open(&options);
    for (int i = 0; i < 10; i++)
        traceml_step_end(run.session, traceml_step_begin(run.session, TRACEML_NO_STREAM), 0);
    session_fixture_close();
    assert_int_equal(run.row_count, 3);
}

static void a_descriptor_is_held_so_that_chdir_moves_nothing(void **state)
{
    (void)state;
    struct traceml_options options = session_fixture_options();
    session_fixture_open(&options);
    traceml_step_end(run.session, traceml_step_begin(run.session, TRACEML_NO_STREAM), 0);
    traceml_flush(run.session, 1000);
    assert_int_equal(chdir("/"), 0);
    traceml_step_end(run.session, traceml_step_begin(run.session, TRACEML_NO_STREAM), 0);
    assert_int_equal(session_fixture_close(), TRACEML_OK);
    assert_int_equal(run.row_count, 2);
}

static void stale_and_empty_spans_are_no_ops(void **state)
{
    (void)state;
    struct traceml_options options = session_fixture_options();
    session_fixture_open(&options);
    traceml_span step = traceml_step_begin(run.session, TRACEML_NO_STREAM);
    traceml_span inner = traceml_begin(run.session, TRACEML_PHASE_FORWARD, TRACEML_NO_STREAM);
    traceml_end(run.session, inner, 0);
    traceml_end(run.session, inner, 0);
    traceml_end(run.session, -1, 0);
    traceml_cancel(run.session, inner);
    traceml_begin(run.session, TRACEML_PHASE_BACKWARD, TRACEML_NO_STREAM); /* left open: goes with the step */
    traceml_step_end(run.session, step, 0);
    traceml_step_end(run.session, step, 0);
    session_fixture_close();
    assert_int_equal(run.row_count, 1);
    assert_int_equal(run.rows[0].cell[TML_REGION_IN][TRACEML_PHASE_FORWARD].count, 1);
    assert_int_equal(run.rows[0].cell[TML_REGION_IN][TRACEML_PHASE_BACKWARD].count, 1);
}

static void spans_nested_too_deep_are_counted_and_harm_nothing(void **state)
{
    (void)state;
    struct traceml_options options = session_fixture_options();
    session_fixture_open(&options);
    traceml_span step = traceml_step_begin(run.session, TRACEML_NO_STREAM);
    for (int i = 0; i < 100; i++)
        traceml_begin(run.session, TRACEML_PHASE_USER, TRACEML_NO_STREAM);
    traceml_step_end(run.session, step, 0);
    session_fixture_close();
    assert_int_equal(run.row_count, 1);
    assert_int_equal(run.losses[TML_LOSS_STACK_FULL], 37);
    assert_int_equal(run.rows[0].cell[TML_REGION_IN][TRACEML_PHASE_USER].count, 1); /* the outermost */
}

static void a_step_of_more_spans_than_fit_is_still_closed(void **state)
{
    (void)state;
    struct traceml_options options = session_fixture_options();
    session_fixture_open(&options);
    traceml_span step = traceml_step_begin(run.session, TRACEML_NO_STREAM);
    for (int i = 0; i < 40000; i++) {
        traceml_end(run.session, traceml_begin(run.session, TRACEML_PHASE_USER, TRACEML_NO_STREAM), 0);
        if (i % 4000 == 0)
            traceml_flush(run.session, 0);
    }
    traceml_step_end(run.session, step, 0);
    for (int i = 0; i < 3; i++)
        traceml_step_end(run.session, traceml_step_begin(run.session, TRACEML_NO_STREAM), 0);
    session_fixture_close();
    assert_int_equal(run.row_count, 4);
    assert_int_equal(run.losses[TML_LOSS_ROW_FULL] + run.rows[0].cell[TML_REGION_IN][TRACEML_PHASE_USER].count, 40000);
    assert_true(run.rows[0].flags & TML_STEP_FLAG_PARTIAL);
}

static void lines_that_were_lost_are_said_at_close_even_if_the_disk_has_room_again(void **state)
{
    (void)state;
    struct traceml_options options = session_fixture_options();
    struct rlimit before, low;
    session_fixture_open(&options);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    low = (struct rlimit){.rlim_cur = 4096, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    for (int i = 0; i < 2000; i++) {
        traceml_step_end(run.session, traceml_step_begin(run.session, TRACEML_NO_STREAM), 0);
        if (i % 100 == 0)
            traceml_flush(run.session, 0);
    }
    enum traceml_status meanwhile = traceml_flush(run.session, 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(meanwhile, TRACEML_UNWRITABLE);
    assert_int_equal(traceml_flush(run.session, 0), TRACEML_OK);
    assert_int_equal(session_fixture_close(), TRACEML_UNWRITABLE);
    assert_int_equal(run.end_lines, 1);
    assert_int_equal(run.bad_lines, 0);
    assert_true(run.losses[TML_LOSS_UNWRITTEN] > 0);
    assert_true(run.row_count + run.losses[TML_LOSS_UNWRITTEN] >= 2000);
}

static void a_span_around_all_steps_changes_none_of_them(void **state)
{
    (void)state;
    struct traceml_options options = session_fixture_options();
    session_fixture_open(&options);
    traceml_span epoch = traceml_begin(run.session, TRACEML_PHASE_USER, TRACEML_NO_STREAM);
    for (int i = 0; i < 20; i++)
        traceml_step_end(run.session, traceml_step_begin(run.session, TRACEML_NO_STREAM), 0);
    traceml_end(run.session, epoch, 0);
    session_fixture_close();
    assert_int_equal(run.row_count, 20);
    for (unsigned i = 0; i < 20; i++)
        assert_false(run.rows[i].flags & TML_STEP_FLAG_NEGATIVE_REMAINDER);
    assert_int_equal(run.losses[TML_LOSS_NEGATIVE_REMAINDER], 0);
}

static void null_is_refused_or_ignored_by_every_function(void **state)
{
    (void)state;
    char error[256];
    struct traceml_session *session;
    struct traceml_report report;
    struct traceml_comparison comparison;
    const enum traceml_status refused = TRACEML_INVALID_ARGUMENT;
    traceml_options_init(NULL);
    traceml_report_options_init(NULL);
    traceml_compare_options_init(NULL);
    assert_int_equal(traceml_session_open(NULL, &session, error, sizeof error), refused);
    struct traceml_options options = session_fixture_options();
    assert_int_equal(traceml_session_open(&options, NULL, NULL, 0), refused);
    assert_null(traceml_run_dir(NULL));
    assert_int_equal(traceml_session_close(NULL, NULL), TRACEML_CLOSED);
    assert_int_equal(traceml_report_read(NULL, NULL, &report, error, sizeof error), refused);
    assert_int_equal(traceml_report_read("x", NULL, NULL, NULL, 0), refused);
    assert_int_equal(traceml_report_write(NULL, NULL, error, sizeof error), refused);
    assert_int_equal(traceml_compare(NULL, NULL, NULL, &comparison, error, sizeof error), refused);
    assert_int_equal(traceml_compare("x", "y", NULL, NULL, NULL, 0), refused);
    assert_int_equal(traceml_comparison_write(NULL, NULL, error, sizeof error), refused);
    assert_int_equal(traceml_run_ended(NULL, NULL), refused);
    traceml_report_free(NULL);
    traceml_comparison_free(NULL);
}

static void a_phase_that_does_not_exist_is_no_span(void **state)
{
    (void)state;
    struct traceml_options options = session_fixture_options();
    session_fixture_open(&options);
    assert_int_equal(traceml_begin(run.session, TRACEML_PHASE_COUNT, TRACEML_NO_STREAM), -1);
    assert_int_equal(traceml_begin(run.session, TRACEML_PHASE_STEP, TRACEML_NO_STREAM), -1);
    assert_int_equal(traceml_begin(NULL, TRACEML_PHASE_USER, TRACEML_NO_STREAM), -1);
    traceml_set_armed(run.session, (enum traceml_phase)200, true);
    traceml_set_hook_cost(run.session, (enum traceml_phase)200, 5);
    traceml_end(NULL, 0, 0);
    traceml_step_end(NULL, 0, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, session_fixture_remove)
    const struct CMUnitTest tests[] = {
        TEST(a_logs_directory_that_cannot_be_made_is_refused_in_one_line),
        TEST(options_that_make_no_sense_are_refused),
        TEST(a_run_name_that_is_taken_gets_the_next_suffix_and_nothing_is_overwritten),
        TEST(a_second_process_of_a_rank_has_a_directory_of_its_own),
        TEST(a_name_that_was_taken_before_the_first_step_gets_a_number),
        TEST(the_first_step_is_written_at_once),
        TEST(a_completed_step_is_in_the_file_soon),
        TEST(one_session_is_open_at_a_time),
        TEST(nothing_is_written_before_the_first_step),
        TEST(an_aborted_step_is_kept_and_the_numbering_goes_on),
        TEST(a_validation_s_fetches_are_not_the_next_step_s_wait),
        TEST(the_step_limit_ends_recording),
        TEST(a_descriptor_is_held_so_that_chdir_moves_nothing),
        TEST(stale_and_empty_spans_are_no_ops),
        TEST(spans_nested_too_deep_are_counted_and_harm_nothing),
        TEST(a_step_of_more_spans_than_fit_is_still_closed),
        TEST(lines_that_were_lost_are_said_at_close_even_if_the_disk_has_room_again),
        TEST(a_span_around_all_steps_changes_none_of_them),
        TEST(null_is_refused_or_ignored_by_every_function),
        TEST(a_phase_that_does_not_exist_is_no_span),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
