/* step_row: what is written is what is read, for every field; a wrong type spoils the line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "step_row.h"

/* Round trips are exact up to here (24 days); see tml_json_ms_as_ns(). */
#define EXACT_NS ((INT64_C(1) << 31) * TML_NS_PER_MS)

static const struct tml_step_row *written_and_read(const struct tml_step_row *row, struct tml_step_row *again)
{
    char line[TML_STEP_LINE_BYTES];
    size_t bytes = tml_step_row_write(row, line, sizeof line);
    assert_true(bytes > 0);
    assert_int_equal(line[bytes - 1], '\n');
    assert_null(memchr(line, '\n', bytes - 1));
    struct tml_json *root = tml_json_parse(line, bytes);
    if (!root)
        print_error("no JSON: %.*s", (int)bytes, line);
    assert_non_null(root);
    assert_true(tml_step_row_read(root, again));
    tml_json_free(root);
    return again;
}

static void assert_rows_equal(const struct tml_step_row *row, const struct tml_step_row *expected)
{
    assert_int_equal(row->step, expected->step);
    assert_int_equal(row->iteration, expected->iteration);
    assert_int_equal(row->end_ns, expected->end_ns);
    assert_int_equal(row->epoch, expected->epoch);
    assert_int_equal(row->microbatches, expected->microbatches);
    assert_int_equal(row->flags, expected->flags);
    assert_int_equal(row->gpu_complete, expected->gpu_complete);
    assert_int_equal(row->gpu_reason, expected->gpu_reason);
    assert_memory_equal(row->term_ns, expected->term_ns, sizeof row->term_ns);
    assert_memory_equal(row->lead.ns, expected->lead.ns, sizeof row->lead.ns);
    assert_int_equal(row->lead.error_ns, expected->lead.error_ns);
    assert_int_equal(row->lead.reason, expected->lead.reason);
    for (unsigned region = 0; region < TML_REGIONS; region++)
        for (unsigned phase = 0; phase < TRACEML_PHASE_COUNT; phase++)
            assert_memory_equal(&row->cell[region][phase], &expected->cell[region][phase], sizeof(struct tml_cell));
}

static void assert_round_trip(const struct tml_step_row *row)
{
    struct tml_step_row again;
    assert_rows_equal(written_and_read(row, &again), row);
}

static struct tml_step_row empty_row(void)
{
    struct tml_step_row row;
    tml_step_row_clear(&row);
    row.step = 17;
    row.iteration = 18;
    row.end_ns = 1234500000;
    return row;
}

/* ---- Writing ---- */

static void assert_line(const struct tml_step_row *row, const char *expected)
{
    char line[TML_STEP_LINE_BYTES];
    size_t bytes = tml_step_row_write(row, line, sizeof line);
    assert_int_equal(bytes, strlen(expected));
    line[bytes] = '\0';
    assert_string_equal(line, expected);
}

static void line_reads_as_the_contract_says(void **state)
{
    (void)state;
    struct tml_step_row row = empty_row();
    row.epoch = 0;
    row.microbatches = 2;
    row.flags = TML_STEP_FLAG_ABORTED | TML_STEP_FLAG_FIRST_FETCH;
    row.gpu_reason = TML_REASON_NO_CUDA;
    row.term_ns[TML_CLOCK_CPU][TML_TERM_ITERATION] = 12500000;
    row.term_ns[TML_CLOCK_CPU][TML_TERM_RESIDUAL] = 0;
    row.cell[TML_REGION_PRE][TRACEML_PHASE_DATALOADER_FETCH] =
        (struct tml_cell){1, 0, {1200000, 900000}, {1200000, 900000}};
    row.cell[TML_REGION_IN][TRACEML_PHASE_FORWARD] = (struct tml_cell){3, 1, {1, TML_NS_NONE}, {2, TML_NS_NONE}};
    assert_line(&row,
                "{\"step\":17,\"iteration\":18,\"end_ms\":1234.5,\"epoch\":0,\"microbatches\":2,"
                "\"flags\":[\"aborted\",\"first_fetch\"],"
                "\"cpu\":{\"iteration_ms\":12.5,\"traced_step_ms\":null,\"pre_step_other_ms\":null,\"residual_ms\":0,"
                "\"instrumentation_pre_ms\":null,\"instrumentation_ms\":null},\"gpu_reason\":\"no_cuda\","
                "\"pre\":{\"dataloader_fetch\":{\"count\":1,\"cpu_ms\":1.2,\"gpu_ms\":0.9}},"
                "\"in\":{\"forward\":{\"count\":3,\"cpu_ms\":0.000001,\"gpu_ms\":null,\"cpu_inclusive_ms\":0.000002,"
                "\"other\":1}}}\n");
    assert_round_trip(&row);
}

static void fields_that_say_nothing_are_left_out(void **state)
{
    (void)state;
    struct tml_step_row row = empty_row();
    row.gpu_complete = true;
    char line[TML_STEP_LINE_BYTES];
    size_t bytes = tml_step_row_write(&row, line, sizeof line);
    line[bytes] = '\0';
    static const char *const absent[] = {"epoch", "microbatches", "flags", "\"pre\"", "\"in\"", "gpu_reason"};
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        assert_null(strstr(line, absent[i]));
    assert_non_null(strstr(line, "\"gpu\":{"));
    assert_round_trip(&row);
}

static void a_lead_is_written_per_boundary_with_its_error_or_with_the_reason_why_not(void **state)
{
    (void)state;
    struct tml_step_row row = empty_row();
    char line[TML_STEP_LINE_BYTES];
    row.gpu_complete = true;
    row.lead.ns[TML_BOUNDARY_FORWARD_END] = 12345678;
    row.lead.ns[TML_BOUNDARY_STEP_END] = -1500; /* not clamped */
    row.lead.error_ns = 7000;
    line[tml_step_row_write(&row, line, sizeof line)] = '\0';
    assert_non_null(
        strstr(line, "\"lead\":{\"forward_end_ms\":12.345678,\"step_end_ms\":-0.0015,\"error_ms\":0.007}}\n"));
    assert_round_trip(&row);
    row = empty_row();
    row.lead.reason = TML_REASON_NO_CLOCK_TIE;
    line[tml_step_row_write(&row, line, sizeof line)] = '\0';
    assert_non_null(strstr(line, "\"lead_reason\":\"no_clock_tie\"}\n"));
    assert_round_trip(&row);
}

static void a_buffer_too_small_gets_no_line(void **state)
{
    (void)state;
    struct tml_step_row row = empty_row();
    char line[TML_STEP_LINE_BYTES];
    size_t whole = tml_step_row_write(&row, line, sizeof line);
    for (size_t bytes = 0; bytes <= whole; bytes++) {
        char *small = malloc(bytes + (bytes == 0));
        assert_non_null(small);
        assert_int_equal(tml_step_row_write(&row, small, bytes), bytes < whole ? 0 : whole);
        free(small);
    }
}

/* Every phase in both regions with both clocks and the longest numbers: nothing longer can be asked for. */
static void the_longest_line_fits(void **state)
{
    (void)state;
    struct tml_step_row row;
    memset(&row, 0, sizeof row);
    row.step = row.iteration = UINT64_MAX;
    row.end_ns = -INT64_MAX;
    row.epoch = INT64_MAX;
    row.microbatches = UINT32_MAX;
    row.flags = (1u << TML_STEP_FLAG_COUNT) - 1;
    row.gpu_reason = TML_REASON_HOOK_NOT_INSTALLED;
    for (unsigned clock = 0; clock < TML_CLOCKS; clock++)
        for (unsigned term = 0; term < TML_TERM_COUNT; term++)
            row.term_ns[clock][term] = -INT64_MAX;
    for (unsigned region = 0; region < TML_REGIONS; region++)
        for (unsigned phase = 0; phase < TRACEML_PHASE_COUNT; phase++)
            row.cell[region][phase] =
                (struct tml_cell){UINT32_MAX, UINT32_MAX, {-INT64_MAX, -INT64_MAX}, {-INT64_MAX + 1, -INT64_MAX + 1}};
    for (unsigned name = 0; name < TML_SPAN_NAMES; name++) {
        char text[TML_SPAN_NAME_BYTES];
        memset(text, '"', sizeof text - 1); /* twice as long in JSON */
        text[0] = (char)('a' + name);
        text[sizeof text - 1] = '\0';
        unsigned number = tml_span_name_add(&tml_span_names, text);
        for (unsigned region = 0; region < TML_REGIONS; region++)
            row.own[region][number] = row.cell[0][TRACEML_PHASE_USER];
    }
    for (unsigned boundary = 0; boundary < TML_BOUNDARY_COUNT; boundary++)
        row.lead.ns[boundary] = -INT64_MAX;
    row.lead.error_ns = INT64_MAX;
    char line[2 * TML_STEP_LINE_BYTES];
    size_t bytes = tml_step_row_write(&row, line, sizeof line);
    print_message("longest line: %zu bytes\n", bytes);
    assert_in_range(bytes, 1, TML_STEP_LINE_BYTES);
}

/* A fetch and a copy before the step, forward, backward and optimizer inside: the step of design 6.5. */
static struct tml_step_row typical_row(unsigned clocks)
{
    static const int64_t terms[TML_TERM_COUNT] = {203134567, 72456789, 1023456, 4434567, 21345, 93456};
    static const int64_t times[] = {0, 128012345, 1712345, 24034567, 38045678, 6012345};
    struct tml_step_row row = empty_row();
    row.step = 12345;
    row.iteration = 12346;
    row.end_ns = INT64_C(2512345678901);
    row.epoch = 3;
    row.microbatches = 1;
    row.gpu_complete = clocks == TML_CLOCKS;
    row.gpu_reason = row.gpu_complete ? TML_REASON_NONE : TML_REASON_NO_CUDA;
    for (unsigned clock = 0; clock < clocks; clock++)
        memcpy(row.term_ns[clock], terms, sizeof terms);
    for (unsigned phase = TRACEML_PHASE_DATALOADER_FETCH; phase <= TRACEML_PHASE_OPTIMIZER; phase++) {
        struct tml_cell *cell = &row.cell[phase > TRACEML_PHASE_H2D][phase];
        cell->count = 1;
        for (unsigned clock = 0; clock < clocks; clock++)
            cell->exclusive_ns[clock] = cell->inclusive_ns[clock] = times[phase];
    }
    return row;
}

static void a_typical_line_has_600_bytes_on_one_clock_and_780_on_both(void **state)
{
    (void)state;
    static const size_t limits[] = {600, 780};
    for (unsigned clocks = 1; clocks <= TML_CLOCKS; clocks++) {
        char line[TML_STEP_LINE_BYTES];
        struct tml_step_row row = typical_row(clocks);
        size_t bytes = tml_step_row_write(&row, line, sizeof line);
        print_message("typical line, 5 phases, %u clock(s): %zu bytes\n", clocks, bytes);
        assert_in_range(bytes, 1, limits[clocks - 1]);
        assert_round_trip(&row);
    }
}

/* ---- Round trips ---- */

static bool read_own(const char *line, struct tml_span_names *names, struct tml_step_row *row)
{
    struct tml_json *root = tml_json_parse(line, strlen(line));
    bool good = root && tml_step_row_read(root, row) && tml_step_row_read_own(root, names, row);
    tml_json_free(root);
    return good;
}

static void own_spans_come_back_under_their_names(void **state)
{
    (void)state;
    struct tml_step_row row = empty_row(), again;
    struct tml_span_names names = {0};
    memset(&tml_span_names, 0, sizeof tml_span_names); /* another test filled it */
    unsigned number = tml_span_name_add(&tml_span_names, "say \"aug\"");
    tml_span_name_add(&names, "of another process, with that number");
    row.own[TML_REGION_IN][number] = (struct tml_cell){2, 1, {5000000, TML_NS_NONE}, {7000000, TML_NS_NONE}};
    row.cell[TML_REGION_IN][TRACEML_PHASE_USER] = row.own[TML_REGION_IN][number];
    char line[TML_STEP_LINE_BYTES];
    line[tml_step_row_write(&row, line, sizeof line) - 1] = '\0';
    assert_true(read_own(line, &names, &again));
    unsigned its = tml_span_name_add(&names, "say \"aug\"");
    assert_int_equal(its, 2);
    assert_memory_equal(&again.own[TML_REGION_IN][its], &row.own[TML_REGION_IN][number], sizeof(struct tml_cell));
    assert_int_equal(again.own[TML_REGION_IN][1].count, 0);
}

static void names_beyond_the_table_are_added_up(void **state)
{
    (void)state;
    struct tml_span_names names = {0};
    struct tml_step_row row;
    char line[4096];
    size_t at = (size_t)snprintf(line, sizeof line,
                                 "{\"step\":1,\"iteration\":1,\"end_ms\":1,\"pre\":{\"user\":{"
                                 "\"count\":20,\"cpu_ms\":20,\"names\":{");
    for (unsigned i = 0; i < TML_SPAN_NAMES + 4; i++)
        at += (size_t)snprintf(line + at, sizeof line - at, "%s\"p%u\":{\"count\":1,\"cpu_ms\":1}", i ? "," : "", i);
    snprintf(line + at, sizeof line - at, "}}}}");
    assert_true(read_own(line, &names, &row));
    assert_int_equal(row.own[TML_REGION_PRE][1].count, 1);
    assert_int_equal(row.own[TML_REGION_PRE][TML_SPAN_NAME_OTHER].count, 5);
    assert_int_equal(row.own[TML_REGION_PRE][TML_SPAN_NAME_OTHER].exclusive_ns[TML_CLOCK_CPU], 5 * TML_NS_PER_MS);
}

static void own_spans_of_a_wrong_type_spoil_the_line(void **state)
{
    (void)state;
    static const char *const wrong[] = {"7", "[]", "{\"a\":1}", "{\"a\":{}}", "{\"a\":{\"count\":-1}}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct tml_span_names names = {0};
        struct tml_step_row row;
        char line[256];
        snprintf(line, sizeof line,
                 "{\"step\":1,\"iteration\":1,\"end_ms\":1,\"in\":{\"user\":{\"count\":1,\"names\":%s}}}", wrong[i]);
        assert_false(read_own(line, &names, &row));
    }
}

static void every_flag_and_every_reason_comes_back(void **state)
{
    (void)state;
    for (uint32_t flags = 0; flags < 1u << TML_STEP_FLAG_COUNT; flags++) {
        struct tml_step_row row = empty_row();
        row.flags = flags;
        row.gpu_reason = (enum tml_reason)(flags % TML_REASON_COUNT);
        assert_round_trip(&row);
    }
}

static void every_term_and_cell_comes_back_in_its_own_place(void **state)
{
    (void)state;
    for (unsigned clock = 0; clock < TML_CLOCKS; clock++) {
        for (unsigned term = 0; term < TML_TERM_COUNT; term++) {
            struct tml_step_row row = empty_row();
            row.term_ns[clock][term] = -7;
            assert_round_trip(&row);
        }
        for (unsigned cell = 0; cell < TML_REGIONS * TRACEML_PHASE_COUNT; cell++) {
            struct tml_step_row row = empty_row();
            struct tml_cell *one = &row.cell[cell % TML_REGIONS][cell / TML_REGIONS];
            one->count = 1;
            one->exclusive_ns[clock] = 5;
            assert_round_trip(&row);
            one->inclusive_ns[clock] = 6;
            assert_round_trip(&row);
        }
    }
}

static void not_measured_and_zero_stay_apart(void **state)
{
    (void)state;
    struct tml_step_row row = empty_row(), again;
    struct tml_cell *cell = &row.cell[TML_REGION_IN][TRACEML_PHASE_H2D];
    row.gpu_complete = true;
    row.term_ns[TML_CLOCK_GPU][TML_TERM_RESIDUAL] = 0;
    *cell = (struct tml_cell){1, 0, {0, TML_NS_NONE}, {0, TML_NS_NONE}};
    written_and_read(&row, &again);
    assert_int_equal(again.term_ns[TML_CLOCK_GPU][TML_TERM_RESIDUAL], 0);
    assert_true(again.term_ns[TML_CLOCK_GPU][TML_TERM_ITERATION] == TML_NS_NONE);
    assert_true(again.term_ns[TML_CLOCK_CPU][TML_TERM_RESIDUAL] == TML_NS_NONE);
    assert_int_equal(again.cell[TML_REGION_IN][TRACEML_PHASE_H2D].exclusive_ns[TML_CLOCK_CPU], 0);
    assert_true(again.cell[TML_REGION_IN][TRACEML_PHASE_H2D].exclusive_ns[TML_CLOCK_GPU] == TML_NS_NONE);
    assert_true(again.cell[TML_REGION_PRE][TRACEML_PHASE_H2D].exclusive_ns[TML_CLOCK_CPU] == TML_NS_NONE);
    assert_rows_equal(&again, &row);
}

static uint64_t random_bits(void)
{
    uint64_t bits = 0;
    for (int i = 0; i < 5; i++)
        bits = bits << 15 ^ (uint64_t)rand();
    return bits;
}

/* Any size from one ns to days, both signs, sometimes zero, sometimes not measured. */
static int64_t random_ns(void)
{
    if (rand() % 5 == 0)
        return TML_NS_NONE;
    int64_t ns = (int64_t)(random_bits() % EXACT_NS >> rand() % 52);
    return rand() % 4 == 0 ? -ns : ns;
}

static void random_cell(struct tml_cell *cell)
{
    if (rand() % 2 == 0)
        return;
    cell->count = 1 + (uint32_t)random_bits() % 1000;
    cell->other_count = rand() % 3 == 0 ? (uint32_t)random_bits() : 0;
    for (unsigned clock = 0; clock < TML_CLOCKS; clock++) {
        cell->exclusive_ns[clock] = random_ns();
        cell->inclusive_ns[clock] = rand() % 2 ? cell->exclusive_ns[clock] : random_ns();
    }
}

static struct tml_step_row random_row(void)
{
    struct tml_step_row row = empty_row();
    row.step = random_bits() >> (11 + rand() % 52);
    row.iteration = random_bits() >> (11 + rand() % 52);
    row.end_ns = random_ns();
    row.epoch = rand() % 2 ? -1 : (int64_t)(random_bits() >> 40);
    row.microbatches = rand() % 2 ? 0 : (uint32_t)random_bits();
    row.flags = (uint32_t)rand() % (1u << TML_STEP_FLAG_COUNT);
    row.gpu_complete = rand() % 2;
    row.gpu_reason = row.gpu_complete ? TML_REASON_NONE : (enum tml_reason)(rand() % TML_REASON_COUNT);
    for (unsigned clock = 0; clock < TML_CLOCKS; clock++)
        for (unsigned term = 0; term < TML_TERM_COUNT; term++)
            row.term_ns[clock][term] = random_ns();
    for (unsigned cell = 0; cell < TML_REGIONS * TRACEML_PHASE_COUNT; cell++)
        random_cell(&row.cell[cell % TML_REGIONS][cell / TML_REGIONS]);
    return row;
}

static void any_row_comes_back_exactly(void **state)
{
    (void)state;
    srand(3);
    for (int i = 0; i < 5000; i++) {
        struct tml_step_row row = random_row();
        assert_round_trip(&row);
    }
}

/* ---- Reading ---- */

static bool reads(const char *text, struct tml_step_row *row)
{
    struct tml_json *root = tml_json_parse(text, strlen(text));
    if (!root)
        print_error("no JSON: %s\n", text);
    assert_non_null(root);
    bool good = tml_step_row_read(root, row);
    tml_json_free(root);
    return good;
}

static void unknown_keys_phases_flags_and_reasons_are_ignored(void **state)
{
    (void)state;
    struct tml_step_row row;
    assert_true(reads("{\"step\":1,\"iteration\":2,\"end_ms\":3,\"new\":{},\"flags\":[\"new\",\"partial\"],"
                      "\"gpu_reason\":\"new\",\"cpu\":{\"new_ms\":\"x\",\"residual_ms\":1},"
                      "\"in\":{\"new_phase\":7,\"h2d\":{\"count\":1,\"cpu_ms\":2,\"new\":[]}}}",
                      &row));
    assert_int_equal(row.flags, TML_STEP_FLAG_PARTIAL);
    assert_false(row.gpu_complete);
    assert_int_equal(row.term_ns[TML_CLOCK_CPU][TML_TERM_RESIDUAL], TML_NS_PER_MS);
    assert_int_equal(row.cell[TML_REGION_IN][TRACEML_PHASE_H2D].inclusive_ns[TML_CLOCK_CPU], 2 * TML_NS_PER_MS);
    assert_int_equal(row.epoch, -1);
}

static void a_line_without_gpu_terms_is_not_complete_on_the_gpu(void **state)
{
    (void)state;
    struct tml_step_row row;
    assert_true(reads("{\"step\":1,\"iteration\":1,\"end_ms\":null}", &row));
    assert_false(row.gpu_complete);
    assert_true(row.end_ns == TML_NS_NONE);
}

static void wrong_types_and_missing_numbers_spoil_the_line(void **state)
{
    (void)state;
    static const char *const spoiled[] = {
        "7",
        "null",
        "[]",
        "{}",
        "{\"header\":{}}",
        "{\"step\":1}",
        "{\"step\":1,\"iteration\":1}",
        "{\"step\":-1,\"iteration\":1,\"end_ms\":1}",
        "{\"step\":\"1\",\"iteration\":1,\"end_ms\":1}",
        "{\"step\":1.5,\"iteration\":1,\"end_ms\":1}",
        "{\"step\":1,\"iteration\":null,\"end_ms\":1}",
        "{\"step\":1,\"iteration\":1,\"end_ms\":\"1\"}",
        "{\"step\":1,\"iteration\":1,\"end_ms\":1e13}",
        "{\"step\":1,\"iteration\":1,\"end_ms\":1,\"epoch\":-2}",
        "{\"step\":1,\"iteration\":1,\"end_ms\":1,\"epoch\":\"x\"}",
        "{\"step\":1,\"iteration\":1,\"end_ms\":1,\"microbatches\":4294967296}",
        "{\"step\":1,\"iteration\":1,\"end_ms\":1,\"flags\":\"aborted\"}",
        "{\"step\":1,\"iteration\":1,\"end_ms\":1,\"flags\":[1]}",
        "{\"step\":1,\"iteration\":1,\"end_ms\":1,\"cpu\":[]}",
        "{\"step\":1,\"iteration\":1,\"end_ms\":1,\"cpu\":{\"residual_ms\":true}}",
        "{\"step\":1,\"iteration\":1,\"end_ms\":1,\"gpu\":null}",
        "{\"step\":1,\"iteration\":1,\"end_ms\":1,\"gpu_reason\":1}",
        "{\"step\":1,\"iteration\":1,\"end_ms\":1,\"pre\":[]}",
        "{\"step\":1,\"iteration\":1,\"end_ms\":1,\"in\":{\"h2d\":1}}",
        "{\"step\":1,\"iteration\":1,\"end_ms\":1,\"in\":{\"h2d\":{\"cpu_ms\":1}}}",
        "{\"step\":1,\"iteration\":1,\"end_ms\":1,\"in\":{\"h2d\":{\"count\":-1}}}",
        "{\"step\":1,\"iteration\":1,\"end_ms\":1,\"in\":{\"h2d\":{\"count\":1,\"gpu_ms\":\"1\"}}}",
        "{\"step\":1,\"iteration\":1,\"end_ms\":1,\"in\":{\"h2d\":{\"count\":1,\"cpu_inclusive_ms\":{}}}}",
        "{\"step\":1,\"iteration\":1,\"end_ms\":1,\"in\":{\"h2d\":{\"count\":1,\"other\":0.5}}}",
    };
    for (size_t i = 0; i < sizeof spoiled / sizeof *spoiled; i++) {
        struct tml_step_row row;
        if (reads(spoiled[i], &row))
            fail_msg("taken: %s", spoiled[i]);
    }
    struct tml_step_row row;
    assert_false(tml_step_row_read(NULL, &row));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(line_reads_as_the_contract_says),
        cmocka_unit_test(fields_that_say_nothing_are_left_out),
        cmocka_unit_test(a_lead_is_written_per_boundary_with_its_error_or_with_the_reason_why_not),
        cmocka_unit_test(a_buffer_too_small_gets_no_line),
        cmocka_unit_test(the_longest_line_fits),
        cmocka_unit_test(a_typical_line_has_600_bytes_on_one_clock_and_780_on_both),
        cmocka_unit_test(own_spans_come_back_under_their_names),
        cmocka_unit_test(names_beyond_the_table_are_added_up),
        cmocka_unit_test(own_spans_of_a_wrong_type_spoil_the_line),
        cmocka_unit_test(every_flag_and_every_reason_comes_back),
        cmocka_unit_test(every_term_and_cell_comes_back_in_its_own_place),
        cmocka_unit_test(not_measured_and_zero_stay_apart),
        cmocka_unit_test(any_row_comes_back_exactly),
        cmocka_unit_test(unknown_keys_phases_flags_and_reasons_are_ignored),
        cmocka_unit_test(a_line_without_gpu_terms_is_not_complete_on_the_gpu),
        cmocka_unit_test(wrong_types_and_missing_numbers_spoil_the_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
