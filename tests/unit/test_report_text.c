/* report_text: the text says what the JSON says, in any width, and a zero only where one was measured. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "process.h"
#include "run_fixture.h"
#include "summary.h"

#define MOST_ROWS 400

struct scene {
    struct fixture fixture;
    struct traceml_report report;
};

static int open_scene(void **state)
{
    struct scene *scene = calloc(1, sizeof *scene);
    fixture_open(&scene->fixture);
    *state = scene;
    return 0;
}

static void drop(struct scene *scene)
{
    free(scene->report.json);
    free(scene->report.text);
    scene->report = (struct traceml_report){0};
}

static int close_scene(void **state)
{
    struct scene *scene = *state;
    drop(scene);
    fixture_close(&scene->fixture);
    free(scene);
    return 0;
}

static const char *text_of(struct scene *scene, unsigned columns, bool ascii)
{
    char error[512];
    struct traceml_report_options options = {
        .size = sizeof options, .window_steps = 10000, .columns = columns, .ascii = ascii};
    drop(scene);
    assert_int_equal(tml_summary_build(scene->fixture.directory, &options, &scene->report, error, sizeof error),
                     TRACEML_OK);
    return scene->report.text;
}

static void write_rank(struct scene *scene, unsigned rank, unsigned world, uint64_t steps,
                       const struct fixture_times *cpu, const struct fixture_times *gpu, const char *armed)
{
    static struct tml_step_row rows[MOST_ROWS];
    for (uint64_t step = 1; step <= steps; step++)
        rows[step - 1] = gpu ? fixture_gpu_row(step, cpu, gpu) : fixture_row(step, cpu);
    struct fixture_header header = {.rank = rank, .world = world, .device = gpu ? "cuda:0" : "cpu", .armed = armed};
    fixture_rank(&scene->fixture, &header, rows, steps);
}

static void expect_line(const char *text, const char *line)
{
    const char *found = strstr(text, line);
    if (!found)
        print_error("no line \"%s\" in\n%s\n", line, text);
    assert_non_null(found);
}

static void expect_none(const char *text, const char *words)
{
    if (strstr(text, words))
        print_error("\"%s\" in\n%s\n", words, text);
    assert_null(strstr(text, words));
}

/* ---- The whole of one ---- */

static const struct fixture_times host = {127600, FIXTURE_ABSENT, FIXTURE_ABSENT, FIXTURE_ABSENT, 3000, 4000, 1000, 900,
                                          800};
static const struct fixture_times device = {
    128000, FIXTURE_ABSENT, FIXTURE_ABSENT, FIXTURE_ABSENT, 24000, 38000, 6000, 4400, 1000};

static void an_input_bound_run_reads_like_this(void **state)
{
    struct scene *scene = *state;
    char expected[4096];
    write_rank(scene, 0, 1, 276, &host, &device, NULL);
    text_of(scene, 100, false);
    snprintf(expected, sizeof expected,
             "TraceML   test · 1 rank · 1 x NVIDIA H200 · steps 2-276 of 276 · loop 37.7 s · complete\n"
             "\n"
             "INPUT-BOUND   critical\n"
             "  why    64 %% of the step is the device waiting for the next batch (128.0 of 200.4 ms, GPU clock,\n"
             "         275 steps)\n"
             "  next   give the DataLoader workers (it has 0: the step waits while each batch is made)\n"
             "\n"
             "  GPU clock, mean of 275 steps; shares are of step time, 200.4 ms\n"
             "  iteration                201.4 ms\n"
             "  ├─ input wait            128.0 ms  64 %%  ◀ cause  fetch on the host 127.6 ms\n"
             "  ├─ other before step       1.0 ms  <1 %%  may hold unobserved copies\n"
             "  └─ traced step            72.4 ms  36 %%\n"
             "     ├─ H2D                     n/a (copies are not observed in this version)\n"
             "     ├─ forward             24.0 ms  12 %%\n"
             "     ├─ backward            38.0 ms  19 %%\n"
             "     ├─ optimizer            6.0 ms   3 %%\n"
             "     ├─ TraceML              0.0 ms   0 %%  its event records alone\n"
             "     └─ residual                n/a (with unobserved copies 4.4 ms)\n"
             "\n"
             "  also   not judged: H2D-BOUND (copies are not observed in this version)\n"
             "  clock  step time 200.4 ms on the GPU clock, 136.5 ms on the CPU clock\n"
             "  lead   the host is well ahead of the device: the end of forward comes 11.00 ms after the host\n"
             "         asked for it (median, to 0.007 ms)\n"
             "  spread step time 200.4 ms at the median step, 200.4 to 200.4 ms for 8 of 10 steps\n"
             "  apart  first step as warm-up (first: 136.5 ms on the CPU clock)\n"
             "  run    process 60.3 s, training loop 37.7 s, all steps 37.7 s\n"
             "  lost   nothing\n"
             "  full   %s/final_summary.json\n",
             scene->fixture.directory);
    assert_string_equal(scene->report.text, expected);
}

static void too_little_is_said_in_a_few_lines(void **state)
{
    struct scene *scene = *state;
    unsigned lines = 0;
    write_rank(scene, 0, 1, 0, &host, NULL, NULL);
    const char *text = text_of(scene, 100, false);
    for (const char *at = text; *at; at++)
        lines += *at == '\n';
    assert_true(lines < 12);
    expect_line(text, "\nNO DATA\n  why    no completed step\n  next   put `with traceml.trace_step(model):`");
    expect_none(text, "n/a");
    expect_none(text, " ms");
}

/* ---- States ---- */

static void a_zero_is_written_only_where_zero_was_measured(void **state)
{
    struct scene *scene = *state;
    struct fixture_times times = fixture_healthy;
    times.optimizer = 0;
    times.residual = 0;
    write_rank(scene, 0, 1, 30, &times, NULL, NULL);
    const char *text = text_of(scene, 100, false);
    expect_line(text, "├─ optimizer            0.0 ms   0 %");
    expect_line(text, "└─ residual             0.0 ms   0 %");
    times.optimizer = times.residual = 1; /* one microsecond is no zero */
    write_rank(scene, 0, 1, 30, &times, NULL, NULL);
    text = text_of(scene, 100, false);
    expect_line(text, "├─ optimizer           <0.1 ms  <1 %");
    expect_line(text, "└─ residual            <0.1 ms  <1 %");
}

static void what_has_no_value_says_why(void **state)
{
    struct scene *scene = *state;
    struct fixture_times times = fixture_healthy;
    times.forward = FIXTURE_ABSENT;
    times.optimizer = FIXTURE_ABSENT;
    write_rank(scene, 0, 1, 30, &times, NULL, "[\"dataloader_fetch\",\"forward\",\"backward\"]");
    const char *text = text_of(scene, 100, false);
    expect_line(text, "├─ H2D                     n/a (no CUDA device in use)\n");
    expect_line(text, "├─ forward                 n/a (never seen)\n");
    expect_line(text, "├─ optimizer               n/a (its hook is not installed)\n");
    expect_line(text, "└─ residual                n/a (");
}

static void a_partial_value_says_how_much_was_seen(void **state)
{
    struct scene *scene = *state;
    static struct tml_step_row rows[31];
    struct fixture_times blind = fixture_healthy;
    blind.forward = FIXTURE_ABSENT;
    for (uint64_t step = 1; step <= 31; step++)
        rows[step - 1] = fixture_row(step, step == 20 ? &fixture_healthy : &blind);
    fixture_rank(&scene->fixture, &(struct fixture_header){0}, rows, 31);
    expect_line(text_of(scene, 110, false), "├─ forward             30.0 ms");
    expect_line(text_of(scene, 110, false), "partial: seen in 1 of 30 steps");
}

static void an_outside_value_is_shown_where_it_is(void **state)
{
    struct scene *scene = *state;
    static struct tml_step_row rows[31];
    struct fixture_times times = fixture_healthy;
    times.pre_h2d = 1740;
    for (uint64_t step = 1; step <= 31; step++) {
        rows[step - 1] = fixture_gpu_row(step, &times, &times);
        rows[step - 1].cell[TML_REGION_PRE][TRACEML_PHASE_H2D].count = 3;
    }
    fixture_rank(&scene->fixture, &(struct fixture_header){.device = "cuda:0", .observer = true}, rows, 31);
    const char *text = text_of(scene, 110, false);
    expect_line(text, "├─ H2D before step         1.7 ms   2 %  1 batch, 3 copies\n");
    expect_line(text, "├─ H2D                     n/a (pre-step: 1.7 ms in 1 batch, 3 copies)\n");
}

static void copies_on_another_stream_are_told_with_what_they_ran_beside(void **state)
{
    struct scene *scene = *state;
    static struct tml_step_row rows[31];
    struct fixture_times times = fixture_healthy;
    times.h2d = 100;
    for (uint64_t step = 1; step <= 31; step++) {
        rows[step - 1] = fixture_gpu_row(step, &times, &fixture_healthy);
        rows[step - 1].beside[TML_REGION_IN][TRACEML_PHASE_H2D] = (struct tml_beside){1, 1200000, 900000};
    }
    fixture_rank(&scene->fixture, &(struct fixture_header){.device = "cuda:0", .observer = true}, rows, 31);
    const char *text = text_of(scene, 110, false);
    expect_line(text, "├─ H2D                     n/a (on another stream 1.2 ms a step, 0.9 ms of it beside the step's "
                      "work)\n");
    expect_line(scene->report.json, "\"other_stream\": null");
    expect_line(scene->report.json, "\"gpu_ms\": 1.2,");
    expect_line(scene->report.json, "\"overlap_ms\": 0.9\n");
}

static void spans_that_occur_now_and_then_are_shown_only_then(void **state)
{
    struct scene *scene = *state;
    static struct tml_step_row rows[31];
    for (uint64_t step = 1; step <= 31; step++) {
        rows[step - 1] = fixture_row(step, &fixture_healthy);
        struct tml_cell *cell = &rows[step - 1].cell[TML_REGION_PRE][TRACEML_PHASE_EVALUATION];
        if (step % 10 == 0) {
            cell->count = 1;
            cell->exclusive_ns[TML_CLOCK_CPU] = cell->inclusive_ns[TML_CLOCK_CPU] = 300 * TML_NS_PER_MS;
        }
    }
    fixture_rank(&scene->fixture, &(struct fixture_header){0}, rows, 31);
    const char *text = text_of(scene, 100, false);
    expect_line(text, "├─ evaluation             30.0 ms  30 %");
    expect_none(text, "checkpoint");
    expect_line(text, "evaluation 900 ms");
}

static void losses_are_told(void **state)
{
    struct scene *scene = *state;
    write_rank(scene, 0, 2, 30, &fixture_healthy, NULL, NULL);
    fixture_text(&scene->fixture, "steps-rank00000.jsonl",
                 "garbage\n{\"end\":{\"reason\":\"exception\",\"losses\":{\"ring_full\":3}}}\n");
    const char *text = text_of(scene, 200, false);
    expect_line(text, "1 of 2 ranks");
    expect_line(text, "incomplete: ended by an exception");
    expect_line(text,
                "  lost   no steps of rank 1; 3 spans dropped: the sampler did not keep up; 1 line not readable, the "
                "first: steps-rank00000.jsonl:33: not JSON\n");
}

#define DEAD "\"host\":\"nowhere\",\"pid\":1,\"pid_start_ticks\":1"

static void write_unclosed(struct scene *scene, unsigned rank, unsigned world, unsigned within_ms, const char *process)
{
    FILE *file = fixture_rank_file(&scene->fixture, rank);
    fixture_unclosed(file, rank, world, within_ms, process);
    fclose(file);
}

static void a_run_that_ended_without_closing_never_lost_nothing(void **state)
{
    struct scene *scene = *state;
    write_unclosed(scene, 0, 1, 100, DEAD);
    const char *text = text_of(scene, 200, false);
    expect_line(text, "no end recorded");
    expect_line(text,
                "  lost   the process ended without closing: steps that completed in the last 0.1 s before that may "
                "be missing\n");
    expect_line(text, "final_summary.json");
    write_unclosed(scene, 0, 1, 0, DEAD); /* of an older version: its bound */
    expect_line(text_of(scene, 200, false), "in the last 1 s before");
    write_rank(scene, 0, 2, 30, &fixture_healthy, NULL, NULL);
    write_unclosed(scene, 1, 2, 250, DEAD);
    expect_line(text_of(scene, 200, false),
                "  lost   rank 1 ended without closing: steps that completed in the last 0.25");
    write_unclosed(scene, 0, 2, 100, DEAD);
    expect_line(text_of(scene, 200, false),
                "  lost   2 ranks ended without closing: steps that completed in the last 0.25");
}

static void a_run_that_still_goes_on_says_so(void **state)
{
    struct scene *scene = *state;
    char host[TML_PROCESS_HOST_BYTES], process[400];
    uint64_t pid = (uint64_t)getpid(), ticks = tml_process_start_ticks(pid);
    tml_process_host(host);
    const char *format = "\"host\":\"%s\",\"pid\":%" PRIu64 ",\"pid_start_ticks\":%" PRIu64;
    snprintf(process, sizeof process, format, host, pid, ticks);
    write_unclosed(scene, 0, 1, 100, process);
    const char *text = text_of(scene, 200, false);
    expect_line(text, " · still running\n");
    expect_line(text, "  lost   nothing so far\n");
    expect_line(text, "the run is still going");
    expect_none(text, "/final_summary.json");
    expect_none(text, "without closing");

    snprintf(process, sizeof process, format, host, pid, ticks - 1); /* the id belongs to another process by now */
    write_unclosed(scene, 0, 1, 100, process);
    expect_line(text_of(scene, 200, false), "the process ended without closing");
    snprintf(process, sizeof process, format, "another", pid, ticks);
    write_unclosed(scene, 0, 1, 100, process);
    expect_line(text_of(scene, 200, false), "the process ended without closing");
}

static void a_run_without_a_step_is_not_blamed_on_the_script_if_it_was_killed(void **state)
{
    struct scene *scene = *state;
    FILE *file = fixture_rank_file(&scene->fixture, 0);
    fixture_write_header(file, &(struct fixture_header){0});
    fclose(file);
    const char *text = text_of(scene, 200, false);
    expect_line(text, "no completed step was written before the process ended");
    expect_none(text, "trace_step");
}

static void several_ranks_show_the_median_and_the_slowest(void **state)
{
    struct scene *scene = *state;
    for (unsigned rank = 0; rank < 3; rank++) {
        struct fixture_times times = device;
        times.wait += rank * 10000;
        write_rank(scene, rank, 3, 30, &host, &times, NULL);
    }
    const char *text = text_of(scene, 110, false);
    expect_line(text, "3 ranks · 3 x NVIDIA H200");
    expect_line(text, "├─ input wait            138.0 ms  66 %   r2 148.0 ms  ◀ cause");
}

/* ---- Form ---- */

static void check_width(const char *text, unsigned columns, bool ascii)
{
    char line[512];
    for (const char *at = text; *at;) {
        size_t bytes = strcspn(at, "\n");
        assert_true(bytes < sizeof line);
        memcpy(line, at, bytes);
        line[bytes] = '\0';
        bool one_word =
            !strchr(line + strspn(line, " "), ' ') || strstr(line, "  full ") || strstr(line, "final_summary");
        if (tml_text_columns(line) > columns && !one_word)
            print_error("%u columns: %s\n", columns, line);
        assert_true(tml_text_columns(line) <= columns || one_word);
        assert_true(bytes == 0 || line[bytes - 1] != ' ');
        for (size_t i = 0; ascii && i < bytes; i++)
            assert_true((unsigned char)line[i] < 0x80);
        at += bytes + (at[bytes] == '\n');
    }
}

static void it_folds_to_any_width_of_40_columns_and_more(void **state)
{
    struct scene *scene = *state;
    write_rank(scene, 0, 2, 276, &host, &device, NULL);
    write_rank(scene, 1, 2, 276, &host, &device, NULL);
    for (unsigned columns = 40; columns <= 130; columns++) {
        check_width(text_of(scene, columns, false), columns, false);
        check_width(text_of(scene, columns, true), columns, true);
    }
    check_width(text_of(scene, 10, false), 40, false);
}

/* Another name of four bytes in the place of "test". */
static void rename_run(struct scene *scene, const char *four_bytes)
{
    write_rank(scene, 0, 1, 10, &fixture_healthy, NULL, NULL);
    char *text = calloc(1, 65536), *name;
    FILE *file = fixture_file(&scene->fixture, "steps-rank00000.jsonl", "r+");
    assert_non_null(text);
    size_t bytes = fread(text, 1, 65535, file);
    assert_non_null(name = strstr(text, "\"run_name\":\"test\""));
    memcpy(name + strlen("\"run_name\":\""), four_bytes, 4);
    rewind(file);
    fwrite(text, 1, bytes, file);
    fclose(file);
    free(text);
}

static void a_name_with_other_letters_is_kept_or_replaced(void **state)
{
    struct scene *scene = *state;
    rename_run(scene, "t\xC3\xA9t");
    expect_line(text_of(scene, 100, false), "TraceML   t\xC3\xA9t · 1 rank");
    expect_line(text_of(scene, 100, true), "TraceML   t?t | 1 rank");
}

/* U+009B begins a command in some terminals, as ESC [ does. */
static void a_control_character_in_a_name_reaches_no_terminal(void **state)
{
    struct scene *scene = *state;
    rename_run(scene, "a\xC2\x9B"
                      "c");
    expect_line(text_of(scene, 100, false), "TraceML   a?c · 1 rank");
    expect_line(text_of(scene, 100, true), "TraceML   a?c | 1 rank");
    rename_run(scene, "ab\x7F"
                      "c");
    expect_line(text_of(scene, 100, false), "TraceML   ab?c · 1 rank");
}

/* Every value of the tree is that of the JSON, digit by digit. */
static void the_text_shows_the_values_of_the_json(void **state)
{
    struct scene *scene = *state;
    static const struct {
        const char *words, *key;
    } rows[] = {{"iteration ", "iteration_ms"},
                {"─ input wait ", "input_wait_ms"},
                {"─ other before step ", "pre_step_other_ms"},
                {"─ traced step ", "traced_step_time_ms"},
                {"─ H2D ", "h2d_ms"},
                {"─ forward ", "forward_ms"},
                {"─ backward ", "backward_ms"},
                {"─ optimizer ", "optimizer_ms"},
                {"─ residual ", "residual_ms"}};
    uint64_t random = 9;
    for (unsigned round = 0; round < 60; round++) {
        struct fixture_times times = fixture_healthy;
        times.wait = (int64_t)(fixture_random(&random) % 90000);
        times.forward = (int64_t)(fixture_random(&random) % 90000);
        times.optimizer = fixture_random(&random) % 3 ? (int64_t)(fixture_random(&random) % 200) : FIXTURE_ABSENT;
        times.residual = (int64_t)(fixture_random(&random) % 9000);
        write_rank(scene, 0, 1, 30, &times, fixture_random(&random) % 2 ? &times : NULL, NULL);
        const char *text = text_of(scene, 100, false);
        struct tml_json *root = tml_json_parse(scene->report.json, strlen(scene->report.json));
        const struct tml_json *average =
            tml_json_get(tml_json_get(tml_json_get(root, "step_time"), "global"), "average");
        assert_string_equal(tml_json_string(tml_json_get(root, "text")), text);
        for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
            const char *row = strstr(text, rows[i].words);
            int64_t ns;
            assert_non_null(row);
            row += strlen(rows[i].words);
            row += strspn(row, " ");
            if (!tml_json_ms_as_ns(tml_json_get(average, rows[i].key), &ns)) {
                assert_memory_equal(row, "n/a", 3);
                continue;
            }
            char value[TML_TEXT_MS_BYTES];
            bool same = false;
            for (unsigned decimals = 1; decimals <= 3; decimals++) {
                tml_text_format_ms(value, ns, decimals);
                same = same || (strncmp(row, value, strlen(value)) == 0 && row[strlen(value)] == ' ');
            }
            if (!same)
                print_error("%s: %s, not %s\n", rows[i].key, row, value);
            assert_true(same);
        }
        tml_json_free(root);
    }
}

/* ---- Numbers ---- */

static void times_never_round_to_a_zero(void **state)
{
    (void)state;
    static const struct {
        int64_t ns;
        unsigned decimals;
        const char *text;
    } cases[] = {
        {0, 1, "0.0"},           {0, 3, "0.0"},         {1, 1, "<0.1"},           {49999, 1, "<0.1"},
        {50000, 1, "0.1"},       {4999, 2, "<0.01"},    {-1, 1, ">-0.1"},         {-1500000, 1, "-1.5"},
        {128000000, 1, "128.0"}, {1234567, 3, "1.235"}, {999950000, 1, "1000.0"}, {INT64_MAX, 1, "9223372036854.8"}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[TML_TEXT_MS_BYTES];
        tml_text_format_ms(text, cases[i].ns, cases[i].decimals);
        assert_string_equal(text, cases[i].text);
    }
}

static void seconds_and_percents_keep_their_size(void **state)
{
    (void)state;
    char text[TML_TEXT_MS_BYTES], share[TML_PERCENT_BYTES];
    static const struct {
        double s;
        const char *text;
    } cases[] = {{52.44, "52.4 s"}, {0.512, "512 ms"}, {0, "0 ms"}, {0.0001, "<1 ms"}, {0.9996, "1.0 s"}, {-1, ""}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        tml_text_format_s(text, cases[i].s);
        assert_string_equal(text, cases[i].text);
    }
    assert_string_equal(tml_percent(0.004, share), "<1 %");
    assert_string_equal(tml_percent(0, share), "0 %");
    assert_string_equal(tml_percent(0.636, share), "64 %");
    assert_string_equal(tml_percent(9.99, share), "999 %");
    assert_string_equal(tml_percent(350.61, share), ">999 %");
    assert_string_equal(tml_percent(-350.61, share), "<-999 %");
    assert_string_equal(tml_percent(-0.02, share), "-2 %");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_scene, close_scene)
    const struct CMUnitTest tests[] = {
        TEST(an_input_bound_run_reads_like_this),
        TEST(too_little_is_said_in_a_few_lines),
        TEST(a_zero_is_written_only_where_zero_was_measured),
        TEST(what_has_no_value_says_why),
        TEST(a_partial_value_says_how_much_was_seen),
        TEST(an_outside_value_is_shown_where_it_is),
        TEST(copies_on_another_stream_are_told_with_what_they_ran_beside),
        TEST(spans_that_occur_now_and_then_are_shown_only_then),
        TEST(losses_are_told),
        TEST(a_run_that_ended_without_closing_never_lost_nothing),
        TEST(a_run_that_still_goes_on_says_so),
        TEST(a_run_without_a_step_is_not_blamed_on_the_script_if_it_was_killed),
        TEST(several_ranks_show_the_median_and_the_slowest),
        TEST(it_folds_to_any_width_of_40_columns_and_more),
        TEST(a_name_with_other_letters_is_kept_or_replaced),
        TEST(a_control_character_in_a_name_reaches_no_terminal),
        TEST(the_text_shows_the_values_of_the_json),
        cmocka_unit_test(times_never_round_to_a_zero),
        cmocka_unit_test(seconds_and_percents_keep_their_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
