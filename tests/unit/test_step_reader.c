/* step_reader: a run directory becomes rows and totals; what cannot be read is counted and the rest is read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "line_reader.h"
#include "run_fixture.h"
#include "step_reader.h"

static char error[512];

static int open_fixture(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    fixture_open(fixture);
    *state = fixture;
    return 0;
}

static int close_fixture(void **state)
{
    fixture_close(*state);
    free(*state);
    return 0;
}

static void read_run(const struct fixture *fixture, uint64_t window, struct tml_run *run)
{
    enum traceml_status status = tml_run_read(fixture->directory, window, run, error, sizeof error);
    if (status != TRACEML_OK)
        print_error("%s\n", error);
    assert_int_equal(status, TRACEML_OK);
}

static void write_steps(FILE *file, uint64_t first, uint64_t last)
{
    for (uint64_t step = first; step <= last; step++) {
        struct tml_step_row row = fixture_row(step, &fixture_healthy);
        fixture_write_row(file, &row);
    }
}

static void write_rank(const struct fixture *fixture, unsigned rank, unsigned world, uint64_t steps)
{
    FILE *file = fixture_rank_file(fixture, rank);
    fixture_write_header(file, &(struct fixture_header){.rank = rank, .world = world, .host = rank < 2 ? "a" : "b"});
    write_steps(file, 1, steps);
    fixture_write_end(file, "finished");
    fclose(file);
}

static void header_rows_state_and_end_of_a_rank_are_read(void **state)
{
    struct tml_run run;
    write_rank(*state, 0, 1, 30);
    fixture_text(*state, "steps-rank00000.jsonl", "{\"state\":{\"losses\":{\"late\":3}}}\n");
    fixture_text(*state, "manifest.json", "{\"run_name\":\"test\",\"end_reason\":null}");
    read_run(*state, 1000, &run);
    assert_int_equal(run.rank_count, 1);
    const struct tml_rank_run *rank = &run.ranks[0];
    assert_non_null(rank->header);
    assert_non_null(rank->state);
    assert_non_null(rank->end);
    assert_non_null(run.manifest);
    assert_int_equal(rank->rows.count, 30);
    assert_int_equal(rank->totals.completed, 30);
    assert_int_equal(rank->totals.last_step, 30);
    assert_int_equal(rank->totals.first_epoch, 0);
    assert_int_equal(rank->totals.last_end_ns, INT64_C(3000) * TML_NS_PER_MS);
    assert_int_equal(rank->warmup.steps, 1);
    assert_true(rank->warmup.has_first);
    assert_int_equal(run.bad_lines, 0);
    assert_int_equal(run.lines, 33);
    assert_true(tml_rank_armed(rank) & (1u << TRACEML_PHASE_FORWARD));
    assert_false(tml_rank_armed(rank) & (1u << TRACEML_PHASE_H2D));
    assert_false(tml_rank_on_cuda(rank));
    tml_run_free(&run);
}

static void only_the_latest_rows_are_kept_and_all_are_in_the_totals(void **state)
{
    struct tml_run run;
    write_rank(*state, 0, 1, 2000);
    read_run(*state, 100, &run);
    const struct tml_rank_run *rank = &run.ranks[0];
    assert_true(rank->rows.count >= 100 && rank->rows.count < 300);
    assert_int_equal(tml_row_store_step(&rank->rows, rank->rows.count - 1), 2000);
    assert_int_equal(rank->totals.completed, 2000);
    assert_int_equal(
        tml_step_fold_cell(rank->totals.sums, TML_REGION_IN, TRACEML_PHASE_FORWARD, TML_CLOCK_CPU, false)->sum_ns,
        INT64_C(2000) * 30 * TML_NS_PER_MS);
    tml_run_free(&run);
}

static void a_rank_that_is_ahead_keeps_the_rows_that_the_others_have(void **state)
{
    struct tml_run run;
    write_rank(*state, 0, 2, 5000);
    write_rank(*state, 1, 2, 300);
    read_run(*state, 100, &run);
    assert_int_equal(tml_row_store_step(&run.ranks[0].rows, run.ranks[0].rows.count - 1), 300);
    assert_int_equal(run.ranks[0].totals.completed, 5000);
    tml_run_free(&run);
}

static void garbage_is_counted_with_its_place_and_good_lines_are_read(void **state)
{
    struct tml_run run;
    FILE *file = fixture_rank_file(*state, 3);
    fixture_write_header(file, &(struct fixture_header){.rank = 3, .world = 4});
    write_steps(file, 1, 5);
    fputs("garbage\n\n[1,2]\n{\"step\":\"six\"}\n{\"a later kind\":{}}\n\xff\xfe\n", file);
    write_steps(file, 6, 9);
    fclose(file);
    read_run(*state, 100, &run);
    assert_int_equal(run.ranks[0].totals.completed, 9);
    assert_int_equal(run.bad_lines, 4);
    assert_string_equal(run.first_bad, "steps-rank00003.jsonl:7: not JSON");
    tml_run_free(&run);
}

static void a_last_line_that_was_cut_is_counted_and_named_so(void **state)
{
    struct tml_run run;
    FILE *file = fixture_rank_file(*state, 0);
    fixture_write_header(file, &(struct fixture_header){0});
    write_steps(file, 1, 5);
    fputs("{\"step\":6,\"iteration\":6,\"end_", file);
    fclose(file);
    read_run(*state, 100, &run);
    assert_int_equal(run.ranks[0].totals.completed, 5);
    assert_int_equal(run.bad_lines, 1);
    assert_string_equal(run.first_bad, "steps-rank00000.jsonl:7: cut in the middle");
    tml_run_free(&run);
}

static void a_last_line_that_lacks_its_newline_alone_is_read(void **state)
{
    struct tml_run run;
    char line[TML_STEP_LINE_BYTES];
    struct tml_step_row row = fixture_row(2, &fixture_healthy);
    FILE *file = fixture_rank_file(*state, 0);
    write_steps(file, 1, 1);
    fwrite(line, 1, tml_step_row_write(&row, line, sizeof line) - 1, file);
    fclose(file);
    read_run(*state, 100, &run);
    assert_int_equal(run.ranks[0].totals.completed, 2);
    assert_int_equal(run.bad_lines, 0);
    tml_run_free(&run);
}

static void a_line_without_end_is_skipped(void **state)
{
    struct tml_run run;
    FILE *file = fixture_rank_file(*state, 0);
    write_steps(file, 1, 2);
    for (unsigned i = 0; i < 3 * TML_LINE_LIMIT / 16; i++)
        fputs("0123456789abcdef", file);
    fputs("\n", file);
    write_steps(file, 3, 4);
    fclose(file);
    read_run(*state, 100, &run);
    assert_int_equal(run.ranks[0].totals.completed, 4);
    assert_string_equal(run.first_bad, "steps-rank00000.jsonl:3: a line without end");
    tml_run_free(&run);
}

static void the_same_step_in_another_spelling_is_the_same(void **state)
{
    struct tml_run run;
    fixture_text(*state, "steps-rank00000.jsonl",
                 "{ \"new_key\": [1], \"end_ms\": 5, \"iteration\": 1, \"step\": 1, \"cpu\": {\"traced_step_ms\": 2.5},"
                 " \"gpu_reason\": \"a_later_reason\", \"in\": {\"forward\": {\"count\": 1, \"cpu_ms\": 2},"
                 " \"a_later_phase\": {}}}\n");
    read_run(*state, 100, &run);
    struct tml_step_row row;
    assert_int_equal(run.ranks[0].rows.count, 1);
    tml_row_store_get(&run.ranks[0].rows, 0, &row);
    assert_int_equal(row.term_ns[TML_CLOCK_CPU][TML_TERM_TRACED_STEP], 2500000);
    assert_int_equal(row.cell[TML_REGION_IN][TRACEML_PHASE_FORWARD].exclusive_ns[TML_CLOCK_CPU], 2000000);
    tml_run_free(&run);
}

static void aborted_steps_are_counted_alone(void **state)
{
    struct tml_run run;
    FILE *file = fixture_rank_file(*state, 0);
    write_steps(file, 1, 4);
    struct tml_step_row row = fixture_row(5, &fixture_healthy);
    row.flags |= TML_STEP_FLAG_ABORTED;
    fixture_write_row(file, &row);
    write_steps(file, 5, 8);
    fclose(file);
    read_run(*state, 100, &run);
    assert_int_equal(run.ranks[0].totals.completed, 8);
    assert_int_equal(run.ranks[0].totals.aborted, 1);
    assert_int_equal(run.ranks[0].rows.count, 8);
    assert_int_equal(run.bad_lines, 0);
    tml_run_free(&run);
}

static void a_step_that_was_there_before_is_refused(void **state)
{
    struct tml_run run;
    FILE *file = fixture_rank_file(*state, 0);
    write_steps(file, 1, 4);
    write_steps(file, 3, 6);
    fclose(file);
    read_run(*state, 100, &run);
    assert_int_equal(run.ranks[0].totals.completed, 6);
    assert_int_equal(run.bad_lines, 2);
    tml_run_free(&run);
}

static void folded_steps_go_into_the_totals(void **state)
{
    struct tml_run run;
    static char line[TML_STEP_FOLD_LINE_BYTES];
    struct tml_step_fold *fold = calloc(1, sizeof *fold);
    for (uint64_t iteration = 1, step = 1; iteration <= 1000; iteration++) {
        struct tml_step_row row = fixture_row(step, &fixture_healthy);
        row.flags |= iteration % 100 == 0 ? TML_STEP_FLAG_ABORTED : 0;
        step += iteration % 100 != 0;
        tml_step_fold_add(fold, &row);
    }
    FILE *file = fixture_rank_file(*state, 0);
    fixture_write_header(file, &(struct fixture_header){0});
    fwrite(line, 1, tml_step_fold_write(fold, line, sizeof line), file);
    write_steps(file, 991, 1090); /* 990 completed steps were folded */
    fclose(file);
    free(fold);
    read_run(*state, 1000, &run);
    const struct tml_rank_totals *totals = &run.ranks[0].totals;
    assert_int_equal(run.bad_lines, 0);
    assert_int_equal(totals->completed, 1090);
    assert_int_equal(totals->folded, 990);
    assert_int_equal(totals->aborted, 10);
    assert_int_equal(totals->sums->microbatches, 1090);
    assert_int_equal(run.ranks[0].rows.count, 100);
    assert_int_equal(
        tml_step_fold_cell(totals->sums, TML_REGION_IN, TRACEML_PHASE_BACKWARD, TML_CLOCK_CPU, false)->sum_ns,
        INT64_C(1090) * 60 * TML_NS_PER_MS);
    tml_run_free(&run);
}

static void a_restart_begins_anew(void **state)
{
    struct tml_run run;
    write_rank(*state, 0, 1, 50);
    FILE *file = fixture_file(*state, "steps-rank00000.jsonl", "a");
    fixture_write_header(file, &(struct fixture_header){0});
    write_steps(file, 1, 20);
    fclose(file);
    read_run(*state, 1000, &run);
    assert_int_equal(run.ranks[0].attempts, 2);
    assert_int_equal(run.ranks[0].totals.completed, 20);
    assert_int_equal(run.ranks[0].rows.count, 20);
    assert_null(run.ranks[0].end);
    assert_int_equal(run.bad_lines, 0);
    tml_run_free(&run);
}

static void ranks_come_in_order_with_their_hosts(void **state)
{
    struct tml_run run;
    static const unsigned order[] = {3, 0, 2, 10, 1};
    for (unsigned i = 0; i < 5; i++)
        write_rank(*state, order[i], 11, 3);
    fixture_text(*state, "steps-rank1.jsonl", "{}\n");         /* a twin of 00001 */
    fixture_text(*state, "steps-rank00001.jsonl.tmp", "{}\n"); /* not ours */
    fixture_text(*state, "steps-rankx.jsonl", "{}\n");
    read_run(*state, 100, &run);
    static const unsigned ranks[] = {0, 1, 2, 3, 10}, nodes[] = {0, 0, 1, 1, 1};
    assert_int_equal(run.rank_count, 5);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(run.ranks[i].rank, ranks[i]);
        assert_int_equal(run.ranks[i].node, nodes[i]);
        assert_int_equal(run.ranks[i].node_ranks, i < 2 ? 2 : 3);
    }
    tml_run_free(&run);
}

static void a_directory_that_is_not_there_is_not_found(void **state)
{
    struct tml_run run;
    (void)state;
    assert_int_equal(tml_run_read("/nonexistent/run", 10, &run, error, sizeof error), TRACEML_NOT_FOUND);
    assert_string_equal(error, "/nonexistent/run: No such file or directory");
}

static void a_directory_with_nothing_of_ours_is_not_found(void **state)
{
    struct tml_run run;
    const struct fixture *fixture = *state;
    fixture_text(fixture, "notes.txt", "hello\n");
    assert_int_equal(tml_run_read(fixture->directory, 10, &run, error, sizeof error), TRACEML_NOT_FOUND);
    assert_non_null(strstr(error, fixture->directory));
}

static void files_without_one_good_line_are_bad_data_and_named(void **state)
{
    struct tml_run run;
    const struct fixture *fixture = *state;
    fixture_text(fixture, "steps-rank00000.jsonl", "garbage\nmore of it\n");
    assert_int_equal(tml_run_read(fixture->directory, 10, &run, error, sizeof error), TRACEML_BAD_DATA);
    assert_non_null(strstr(error, "steps-rank00000.jsonl:1: not JSON"));
    assert_null(strchr(error, '\n'));
}

static void one_bad_file_does_not_hide_the_others(void **state)
{
    struct tml_run run;
    write_rank(*state, 0, 2, 10);
    fixture_text(*state, "steps-rank00001.jsonl", "garbage\n");
    read_run(*state, 100, &run);
    assert_int_equal(run.ranks[0].totals.completed, 10);
    assert_int_equal(run.ranks[1].totals.completed, 0);
    assert_string_equal(run.first_bad, "steps-rank00001.jsonl:1: not JSON");
    tml_run_free(&run);
}

static void an_empty_file_is_a_rank_without_steps(void **state)
{
    struct tml_run run;
    fixture_text(*state, "steps-rank00000.jsonl", "");
    read_run(*state, 100, &run);
    assert_int_equal(run.rank_count, 1);
    assert_int_equal(run.ranks[0].totals.completed, 0);
    assert_int_equal(run.bad_lines, 0);
    tml_run_free(&run);
}

static void a_manifest_that_is_no_json_is_counted(void **state)
{
    struct tml_run run;
    write_rank(*state, 0, 1, 3);
    fixture_text(*state, "manifest.json", "{\"run_name\":");
    read_run(*state, 100, &run);
    assert_null(run.manifest);
    assert_int_equal(run.bad_lines, 1);
    assert_string_equal(run.first_bad, "manifest.json:1: not JSON");
    tml_run_free(&run);
}

static void a_step_file_that_is_a_directory_is_said(void **state)
{
    struct tml_run run;
    char path[128];
    const struct fixture *fixture = *state;
    snprintf(path, sizeof path, "%s/steps-rank00000.jsonl", fixture->directory);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(tml_run_read(fixture->directory, 10, &run, error, sizeof error), TRACEML_SYSTEM);
    assert_non_null(strstr(error, "steps-rank00000.jsonl: Is a directory"));
    assert_int_equal(rmdir(path), 0);
}

static void a_pipe_in_place_of_a_step_file_is_said_and_not_waited_for(void **state)
{
    struct tml_run run;
    char path[128];
    const struct fixture *fixture = *state;
    snprintf(path, sizeof path, "%s/steps-rank00000.jsonl", fixture->directory);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(tml_run_read(fixture->directory, 10, &run, error, sizeof error), TRACEML_SYSTEM);
    assert_non_null(strstr(error, "steps-rank00000.jsonl"));
    assert_int_equal(unlink(path), 0);
}

/* Whatever the bytes are: an answer, and no more (the sanitizers watch). */
static void any_bytes_give_an_answer(void **state)
{
    const struct fixture *fixture = *state;
    uint64_t random = 7;
    for (unsigned round = 0; round < 200; round++) {
        struct tml_run run;
        char line[TML_STEP_LINE_BYTES];
        FILE *file = fixture_rank_file(fixture, 0);
        fixture_write_header(file, &(struct fixture_header){0});
        for (uint64_t step = 1; step <= 6; step++) {
            struct tml_step_row row = fixture_row(step, &fixture_healthy);
            size_t bytes = tml_step_row_write(&row, line, sizeof line);
            for (uint64_t i = fixture_random(&random) % 6; i > 0; i--)
                line[fixture_random(&random) % bytes] = (char)fixture_random(&random);
            fwrite(line, 1, fixture_random(&random) % 8 ? bytes : fixture_random(&random) % bytes, file);
        }
        fclose(file);
        if (tml_run_read(fixture->directory, 4, &run, error, sizeof error) == TRACEML_OK)
            tml_run_free(&run);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_fixture, close_fixture)
    const struct CMUnitTest tests[] = {
        TEST(header_rows_state_and_end_of_a_rank_are_read),
        TEST(only_the_latest_rows_are_kept_and_all_are_in_the_totals),
        TEST(a_rank_that_is_ahead_keeps_the_rows_that_the_others_have),
        TEST(garbage_is_counted_with_its_place_and_good_lines_are_read),
        TEST(a_last_line_that_was_cut_is_counted_and_named_so),
        TEST(a_last_line_that_lacks_its_newline_alone_is_read),
        TEST(a_line_without_end_is_skipped),
        TEST(the_same_step_in_another_spelling_is_the_same),
        TEST(aborted_steps_are_counted_alone),
        TEST(a_step_that_was_there_before_is_refused),
        TEST(folded_steps_go_into_the_totals),
        TEST(a_restart_begins_anew),
        TEST(ranks_come_in_order_with_their_hosts),
        TEST(a_directory_that_is_not_there_is_not_found),
        TEST(a_directory_with_nothing_of_ours_is_not_found),
        TEST(files_without_one_good_line_are_bad_data_and_named),
        TEST(one_bad_file_does_not_hide_the_others),
        TEST(an_empty_file_is_a_rank_without_steps),
        TEST(a_manifest_that_is_no_json_is_counted),
        TEST(a_step_file_that_is_a_directory_is_said),
        TEST(a_pipe_in_place_of_a_step_file_is_said_and_not_waited_for),
        TEST(any_bytes_give_an_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
