/* One damaged line among good ones, once for every kind of damage: it is named with its file and line, and no number of
 * the run is another one because of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run_fixture.h"
#include "step_reader.h"

#define GOOD 5 /* steps before the damaged line, and after it */
#define PLACE "steps-rank00000.jsonl:7: "

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

static void write_steps(FILE *file, uint64_t first, uint64_t last)
{
    for (uint64_t step = first; step <= last; step++) {
        struct tml_step_row row = fixture_row(step, &fixture_healthy);
        fixture_write_row(file, &row);
    }
}

/* Header, GOOD steps, the line, GOOD steps, state and end. */
static void read_with(const struct fixture *fixture, const char *line, struct tml_run *run)
{
    char error[512] = "";
    FILE *file = fixture_rank_file(fixture, 0);
    fixture_write_header(file, &(struct fixture_header){0});
    write_steps(file, 1, GOOD);
    fprintf(file, "%s\n", line);
    write_steps(file, GOOD + 1, 2 * GOOD);
    fputs("{\"state\":{\"losses\":{\"late\":3}}}\n", file);
    fixture_write_end(file, "finished");
    fclose(file);
    if (tml_run_read(fixture->directory, 100, run, error, sizeof error) != TRACEML_OK)
        fail_msg("%s", error);
}

static void assert_named_and_left_out(const struct fixture *fixture, const char *line, const char *wrong)
{
    struct tml_run run;
    read_with(fixture, line, &run);
    if (run.bad_lines != 1)
        print_error("taken: %.200s\n", line);
    assert_int_equal(run.bad_lines, 1);
    assert_int_equal(strncmp(run.first_bad, PLACE, strlen(PLACE)), 0);
    assert_string_equal(run.first_bad + strlen(PLACE), wrong);
    const struct tml_rank_run *rank = &run.ranks[0];
    assert_int_equal(rank->totals.completed, 2 * GOOD);
    assert_int_equal(rank->totals.aborted, 0);
    assert_int_equal(rank->rows.count, 2 * GOOD);
    assert_int_equal(rank->attempts, 1);
    assert_int_equal(rank->totals.sums->microbatches, 2 * GOOD);
    assert_int_equal(
        tml_step_fold_cell(rank->totals.sums, TML_REGION_IN, TRACEML_PHASE_FORWARD, TML_CLOCK_CPU, false)->sum_ns,
        2 * GOOD * INT64_C(30) * TML_NS_PER_MS);
    assert_non_null(tml_json_get(tml_json_get(rank->state, "state"), "losses"));
    assert_string_equal(tml_json_string(tml_json_get(tml_json_get(rank->end, "end"), "reason")), "finished");
    tml_run_free(&run);
}

/* ---- Steps: the line of step 6, with one part of it replaced ---- */

#define CONTRADICTS "a step that contradicts itself"
#define NO_STEP "not a step"
#define TWICE "a key twice in one object"

static const struct {
    const char *part, *instead, *wrong;
} steps[] = {
    /* not JSON */
    {"\"iteration\":6", "\"iteration\":", "not JSON"},
    {"\"iteration\":6", "\"iteration\":06", "not JSON"},
    {"\"iteration\":6", "\"iteration\":NaN", "not JSON"},
    {"\"iteration\":6", "\"iteration\":Infinity", "not JSON"},
    {"\"end_ms\":600", "\"end_ms\":-Infinity", "not JSON"},
    {"\"end_ms\":600", "\"end_ms\":1e999", "a number that is not finite"},
    {"\"end_ms\":600",
     "\"end_ms\":1000000000000000000000000000000000000000000000000000000000000000000000000000000000000",
     "a number with too many digits"},
    {"no_cuda", "no\xff\xfe", "bytes that are not UTF-8"},
    {"no_cuda", "no\xed\xa0\x80", "bytes that are not UTF-8"},
    {"no_cuda", "no\tcuda", "a control character in a string"},
    {"no_cuda", "no\\u0000cuda", "a NUL in a string"},
    {"\"no_cuda\"",
     "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"
     "]]"
     "]]]]]]]]]]]]]]]]]",
     "nested deeper than 64 levels"},
    /* a key twice: which of the two? */
    {"\"iteration\":6", "\"iteration\":6,\"iteration\":7", TWICE},
    {"\"iteration\":6", "\"iteration\":6,\"iterat\\u0069on\":7", TWICE},
    {"\"forward\":{", "\"forward\":{\"count\":1},\"forward\":{", TWICE},
    {"\"residual_ms\":2", "\"residual_ms\":2,\"residual_ms\":3", TWICE},
    /* wrong types */
    {"\"step\":6", "\"step\":\"6\"", NO_STEP},
    {"\"step\":6", "\"step\":null", NO_STEP},
    {"\"step\":6", "\"step\":true", NO_STEP},
    {"\"step\":6", "\"step\":[6]", NO_STEP},
    {"\"iteration\":6", "\"iteration\":{}", NO_STEP},
    {"\"iteration\":6,", "", NO_STEP},
    {"\"end_ms\":600", "\"end_ms\":\"600\"", NO_STEP},
    {"\"end_ms\":600,", "", NO_STEP},
    {"\"epoch\":0", "\"epoch\":[]", NO_STEP},
    {"\"microbatches\":1", "\"microbatches\":\"1\"", NO_STEP},
    {"\"microbatches\":1", "\"microbatches\":1,\"flags\":1", NO_STEP},
    {"\"microbatches\":1", "\"microbatches\":1,\"flags\":[1]", NO_STEP},
    {"\"cpu\":{", "\"gpu\":1,\"cpu\":{", NO_STEP},
    {"\"residual_ms\":2", "\"residual_ms\":\"2\"", NO_STEP},
    {"\"no_cuda\"", "1", NO_STEP},
    {"\"forward\":{\"count\":1,\"cpu_ms\":30,\"gpu_ms\":null}", "\"forward\":30", NO_STEP},
    {"\"forward\":{\"count\":1,", "\"forward\":{", NO_STEP},
    {"\"cpu_ms\":30", "\"cpu_ms\":[30]", NO_STEP},
    /* counts that are none */
    {"\"step\":6", "\"step\":-6", NO_STEP},
    {"\"step\":6", "\"step\":6.5", NO_STEP},
    {"\"step\":6", "\"step\":9007199254740994", NO_STEP},
    {"\"step\":6", "\"step\":18446744073709551622", NO_STEP}, /* 6 beyond 64 bits */
    {"\"epoch\":0", "\"epoch\":-1", NO_STEP},
    {"\"microbatches\":1", "\"microbatches\":4294967297", NO_STEP}, /* 1 beyond 32 bits */
    {"\"forward\":{\"count\":1", "\"forward\":{\"count\":-1", NO_STEP},
    {"\"forward\":{\"count\":1", "\"forward\":{\"count\":0.5", NO_STEP},
    {"\"forward\":{\"count\":1", "\"forward\":{\"count\":4294967297", NO_STEP},
    /* times that no run has */
    {"\"cpu_ms\":30", "\"cpu_ms\":9223372036855", NO_STEP}, /* 64 bits of ns are over */
    {"\"cpu_ms\":30", "\"cpu_ms\":1e13", NO_STEP},
    {"\"cpu_ms\":30", "\"cpu_ms\":2000000000000", CONTRADICTS}, /* 63 years */
    {"\"cpu_ms\":30", "\"cpu_ms\":-30", CONTRADICTS},
    {"\"end_ms\":600", "\"end_ms\":-600", CONTRADICTS},
    {"\"traced_step_ms\":98", "\"traced_step_ms\":-98", CONTRADICTS},
    /* numbers that contradict each other */
    {"\"step\":6", "\"step\":0", CONTRADICTS},
    {"\"step\":6", "\"step\":5", "a step number that was there before"},
    {"\"forward\":{\"count\":1", "\"forward\":{\"count\":0", CONTRADICTS},
    {"\"cpu_ms\":30", "\"cpu_ms\":30,\"other\":2", CONTRADICTS},
    {"\"cpu_ms\":30", "\"cpu_ms\":30,\"cpu_inclusive_ms\":29", CONTRADICTS},
};

static void replace(char *out, size_t bytes, const char *line, const char *part, const char *instead)
{
    const char *at = strstr(line, part);
    if (!at)
        fail_msg("%s is not in %s", part, line);
    snprintf(out, bytes, "%.*s%s%s", (int)(at - line), line, instead, at + strlen(part));
}

static void a_damaged_step_is_named_and_left_out(void **state)
{
    char good[TML_STEP_LINE_BYTES], bad[TML_STEP_LINE_BYTES + 512];
    struct tml_step_row row = fixture_row(GOOD + 1, &fixture_healthy);
    good[tml_step_row_write(&row, good, sizeof good) - 1] = '\0';
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        replace(bad, sizeof bad, good, steps[i].part, steps[i].instead);
        assert_named_and_left_out(*state, bad, steps[i].wrong);
    }
}

/* The good line is refused nowhere: each of the cases above is about its damage. */
static void the_same_step_without_damage_is_taken(void **state)
{
    struct tml_run run;
    char good[TML_STEP_LINE_BYTES];
    struct tml_step_row row = fixture_row(GOOD + 1, &fixture_healthy);
    good[tml_step_row_write(&row, good, sizeof good) - 1] = '\0';
    FILE *file = fixture_rank_file(*state, 0);
    fprintf(file, "%s\n", good);
    fclose(file);
    char error[512];
    assert_int_equal(tml_run_read(((struct fixture *)*state)->directory, 10, &run, error, sizeof error), TRACEML_OK);
    assert_int_equal(run.bad_lines, 0);
    assert_int_equal(run.ranks[0].totals.completed, 1);
    tml_run_free(&run);
}

/* ---- Other lines ---- */

static const struct {
    const char *line, *wrong;
} others[] = {
    {"[]", "not a JSON object"},
    {"17", "not a JSON object"},
    {"{\"header\":{\"rank\":1}}", "the header of another rank"},
    {"{\"header\":{\"rank\":\"0\"}}", "\"rank\" is not a whole number from 0"},
    {"{\"header\":{\"rank\":-1}}", "\"rank\" is not a whole number from 0"},
    {"{\"header\":{\"world_size\":0}}", "\"world_size\" is not a whole number from 1"},
    {"{\"header\":{\"world_size\":1.5}}", "\"world_size\" is not a whole number from 1"},
    {"{\"header\":{\"world_size\":\"8\"}}", "\"world_size\" is not a whole number from 1"},
    {"{\"header\":{\"host\":1}}", "\"host\" is not a text"},
    {"{\"header\":{\"device\":0}}", "\"device\" is not a text"},
    {"{\"header\":{\"observer\":\"no\"}}", "\"observer\" is not true or false"},
    {"{\"header\":{\"armed\":\"forward\"}}", "\"armed\" is not a list of phases"},
    {"{\"header\":{\"armed\":[1]}}", "\"armed\" is not a list of phases"},
    {"{\"header\":{\"environment\":[]}}", "\"environment\" is not an object"},
    {"{\"header\":{\"rank\":0,\"rank\":0}}", TWICE},
    {"{\"state\":{\"losses\":{\"late\":-1}}}", "\"losses\" is not an object of counts"},
    {"{\"state\":{\"losses\":{\"late\":\"3\"}}}", "\"losses\" is not an object of counts"},
    {"{\"state\":{\"losses\":{\"late\":18446744073709551615}}}", "\"losses\" is not an object of counts"},
    {"{\"state\":{\"losses\":[3]}}", "\"losses\" is not an object of counts"},
    {"{\"end\":{\"reason\":0}}", "\"reason\" is not a text"},
    {"{\"end\":{\"after_s\":-1}}", "\"after_s\" is not seconds from 0"},
    {"{\"end\":{\"run\":{\"process_s\":\"60\"}}}", "\"run\" is not an object whose \"process_s\" are seconds from 0"},
    {"{\"folded\":{}}", "not folded steps"},
    {"{\"folded\":{\"first\":1,\"last\":5,\"count\":6,\"aborted\":0,\"metrics\":{}}}", "not folded steps"},
    {"{\"folded\":{\"first\":6,\"last\":7,\"count\":2,\"aborted\":0,\"metrics\":{}}}",
     "folded steps that were there before"},
};

static void a_damaged_line_of_another_kind_is_named_and_left_out(void **state)
{
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_named_and_left_out(*state, others[i].line, others[i].wrong);
}

static void what_is_unknown_by_intent_is_no_damage(void **state)
{
    static const char *const lines[] = {
        "",
        "{\"a later kind\":{}}",
        "{\"header\":{\"later\":{\"x\":[1]},\"gpu_name\":null,\"local_rank\":null}}",
        "{\"state\":{\"losses\":{},\"overhead\":{\"later\":\"x\"}}}",
        "{\"end\":{\"reason\":\"finished\",\"run\":{\"process_s\":null}}}",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct tml_run run;
        read_with(*state, lines[i], &run);
        assert_int_equal(run.bad_lines, 0);
        tml_run_free(&run);
    }
}

static void folded_steps_that_overlap_are_taken_once(void **state)
{
    struct tml_run run;
    char error[512];
    fixture_text(*state, "steps-rank00000.jsonl",
                 "{\"folded\":{\"first\":1,\"last\":1000,\"count\":1000,\"aborted\":0,\"metrics\":{}}}\n"
                 "{\"folded\":{\"first\":500,\"last\":1500,\"count\":1000,\"aborted\":0,\"metrics\":{}}}\n"
                 "{\"folded\":{\"first\":1001,\"last\":2000,\"count\":1000,\"aborted\":0,\"metrics\":{}}}\n"
                 "{\"step\":1999,\"iteration\":1999,\"end_ms\":1}\n");
    assert_int_equal(tml_run_read(((struct fixture *)*state)->directory, 10, &run, error, sizeof error), TRACEML_OK);
    assert_int_equal(run.ranks[0].totals.completed, 2000);
    assert_int_equal(run.bad_lines, 2);
    assert_string_equal(run.first_bad, "steps-rank00000.jsonl:2: folded steps that were there before");
    tml_run_free(&run);
}

/* ---- The manifest: more than one line ---- */

static void a_damaged_manifest_is_named_with_its_line(void **state)
{
    static const struct {
        const char *text, *wrong;
    } cases[] = {
        {"{\n  \"run_name\": \"x\",\n  \"world_size\":\n", "manifest.json:4: not JSON"},
        {"{\n  \"run_name\": \"x\n\"}\n", "manifest.json:2: a control character in a string"},
        {"{\n  \"run_name\": \"\xff\"}\n", "manifest.json:2: bytes that are not UTF-8"},
        {"{\n  \"run_name\": \"x\",\n  \"run_name\": \"y\"\n}\n", "manifest.json:1: a key twice in one object"},
        {"{\n  \"world_size\": -8\n}\n", "manifest.json:1: \"world_size\" is not a whole number from 1"},
        {"{\n  \"process_s\": \"60\"\n}\n", "manifest.json:1: \"process_s\" is not seconds from 0"},
        {"", "manifest.json:1: empty"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tml_run run;
        FILE *file = fixture_file(*state, "manifest.json", "w");
        fputs(cases[i].text, file);
        fclose(file);
        read_with(*state, "", &run);
        assert_int_equal(run.bad_lines, 1);
        assert_string_equal(run.first_bad, cases[i].wrong);
        assert_null(run.manifest);
        tml_run_free(&run);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_fixture, close_fixture)
    const struct CMUnitTest tests[] = {
        TEST(the_same_step_without_damage_is_taken),
        TEST(a_damaged_step_is_named_and_left_out),
        TEST(a_damaged_line_of_another_kind_is_named_and_left_out),
        TEST(what_is_unknown_by_intent_is_no_damage),
        TEST(folded_steps_that_overlap_are_taken_once),
        TEST(a_damaged_manifest_is_named_with_its_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
