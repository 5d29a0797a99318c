/* step_fold: a folded block says of every metric what the steps themselves would have said. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "step_fold.h"

#define MS TML_NS_PER_MS

static struct tml_step_fold fold, other, whole; /* too big for a stack */

static int clear_folds(void **state)
{
    (void)state;
    memset(&fold, 0, sizeof fold);
    memset(&other, 0, sizeof other);
    memset(&whole, 0, sizeof whole);
    return 0;
}

static struct tml_step_row row_of(uint64_t step, int64_t iteration_ns)
{
    struct tml_step_row row;
    tml_step_row_clear(&row);
    row.step = step;
    row.microbatches = 2;
    row.term_ns[TML_CLOCK_CPU][TML_TERM_ITERATION] = iteration_ns;
    return row;
}

static void set_cell(struct tml_step_row *row, enum tml_region region, enum traceml_phase phase, int64_t exclusive_ns,
                     int64_t inclusive_ns)
{
    row->cell[region][phase] = (struct tml_cell){1, 0, {exclusive_ns, TML_NS_NONE}, {inclusive_ns, TML_NS_NONE}};
}

static void write_and_read(const struct tml_step_fold *from, struct tml_step_fold *to)
{
    static char line[TML_STEP_FOLD_LINE_BYTES];
    size_t bytes = tml_step_fold_write(from, line, sizeof line);
    assert_in_range(bytes, 2, sizeof line);
    assert_int_equal(line[bytes - 1], '\n');
    struct tml_json *root = tml_json_parse(line, bytes);
    assert_non_null(root);
    assert_true(tml_step_fold_read(root, to));
    tml_json_free(root);
}

static void line_reads_as_the_contract_says(void **state)
{
    (void)state;
    struct tml_step_row row = row_of(1, MS);
    set_cell(&row, TML_REGION_IN, TRACEML_PHASE_FORWARD, 2 * MS, 4 * MS);
    set_cell(&row, TML_REGION_PRE, TRACEML_PHASE_H2D, 1, 1);
    tml_step_fold_add(&fold, &row);
    row = row_of(2, 0);
    tml_step_fold_add(&fold, &row);
    row.flags = TML_STEP_FLAG_ABORTED;
    row.step = 3;
    tml_step_fold_add(&fold, &row);
    char line[TML_STEP_FOLD_LINE_BYTES];
    size_t bytes = tml_step_fold_write(&fold, line, sizeof line);
    line[bytes] = '\0';
    assert_string_equal(
        line, "{\"folded\":{\"first\":1,\"last\":3,\"count\":2,\"aborted\":1,\"microbatches\":4,\"metrics\":{"
              "\"cpu.iteration_ms\":{\"n\":2,\"sum\":1,\"min\":0,\"max\":1,\"sketch\":{\"zero\":1,\"0\":1}},"
              "\"pre.h2d.cpu_ms\":{\"n\":1,\"sum\":0.000001,\"min\":0.000001,\"max\":0.000001,\"sketch\":{\"-160\":1}},"
              "\"in.forward.cpu_ms\":{\"n\":1,\"sum\":2,\"min\":2,\"max\":2,\"sketch\":{\"8\":1}},"
              "\"in.forward.cpu_inclusive_ms\":{\"n\":1,\"sum\":4,\"min\":4,\"max\":4,\"sketch\":{\"16\":1}}}}}\n");
}

static void an_inclusive_time_that_never_differs_is_not_written_and_yet_read(void **state)
{
    (void)state;
    char line[TML_STEP_FOLD_LINE_BYTES];
    struct tml_step_row row = row_of(1, MS);
    set_cell(&row, TML_REGION_IN, TRACEML_PHASE_FORWARD, 2 * MS, 2 * MS);
    tml_step_fold_add(&fold, &row);
    size_t bytes = tml_step_fold_write(&fold, line, sizeof line);
    assert_true(bytes > 0);
    assert_null(memmem(line, bytes, "inclusive", strlen("inclusive")));
    write_and_read(&fold, &other);
    assert_memory_equal(&other, &fold, sizeof fold);
    assert_int_equal(tml_step_fold_cell(&other, TML_REGION_IN, TRACEML_PHASE_FORWARD, TML_CLOCK_CPU, true)->sum_ns,
                     2 * MS);
}

static void aborted_steps_are_counted_and_not_averaged(void **state)
{
    (void)state;
    struct tml_step_row row = row_of(7, 99 * MS);
    row.flags = TML_STEP_FLAG_ABORTED;
    tml_step_fold_add(&fold, &row);
    assert_int_equal(fold.count, 0);
    assert_int_equal(fold.aborted, 1);
    assert_int_equal(fold.microbatches, 0);
    assert_int_equal(tml_step_fold_term(&fold, TML_CLOCK_CPU, TML_TERM_ITERATION)->count, 0);
    write_and_read(&fold, &other);
    assert_int_equal(other.first, 7);
    assert_int_equal(other.last, 7);
}

static void every_metric_comes_back_in_its_own_place(void **state)
{
    (void)state;
    for (unsigned i = 0; i < TML_STEP_FOLD_METRICS; i++) {
        tml_step_fold_clear(&fold);
        fold.first = fold.last = fold.count = 1;
        tml_sketch_add(&fold.metric[i], 5 * MS);
        write_and_read(&fold, &other);
        for (unsigned k = 0; k < TML_STEP_FOLD_METRICS; k++)
            assert_int_equal(other.metric[k].count, k == i);
    }
}

static struct tml_step_row random_row(uint64_t step)
{
    struct tml_step_row row = row_of(step, TML_NS_NONE);
    for (unsigned clock = 0; clock < TML_CLOCKS; clock++)
        for (unsigned term = 0; term < TML_TERM_COUNT; term++)
            row.term_ns[clock][term] = rand() % 7 ? rand() % (40 * MS) - 1000 : TML_NS_NONE;
    for (unsigned phase = 0; phase < TRACEML_PHASE_COUNT; phase++)
        if (rand() % 2)
            set_cell(&row, (enum tml_region)(rand() % 2), (enum traceml_phase)phase, rand() % MS, rand() % MS);
    row.flags = rand() % 20 ? 0 : TML_STEP_FLAG_ABORTED;
    return row;
}

static void merged_folds_equal_one_fold_of_all(void **state)
{
    (void)state;
    srand(4);
    for (uint64_t step = 1; step <= 3000; step++) {
        struct tml_step_row row = random_row(step);
        tml_step_fold_add(&whole, &row);
        tml_step_fold_add(step <= 1500 ? &fold : &other, &row);
    }
    tml_step_fold_merge(&fold, &other);
    assert_memory_equal(&fold, &whole, sizeof whole);
    tml_step_fold_clear(&other);
    tml_step_fold_merge(&fold, &other);
    assert_memory_equal(&fold, &whole, sizeof whole);
}

static void a_cleared_fold_is_as_new(void **state)
{
    (void)state;
    for (uint64_t step = 1; step <= 100; step++) {
        struct tml_step_row row = random_row(step);
        tml_step_fold_add(&fold, &row);
    }
    tml_step_fold_clear(&fold);
    assert_memory_equal(&fold, &whole, sizeof whole);
}

/* All metrics, each over 15 decades and with long numbers: the most that a block can have to say. */
static void the_longest_line_fits_with_exact_totals(void **state)
{
    (void)state;
    fold.first = UINT64_MAX >> 12;
    fold.last = fold.aborted = fold.microbatches = UINT64_MAX >> 11;
    fold.count = fold.last - fold.first;
    for (unsigned i = 0; i < TML_STEP_FOLD_METRICS; i++) {
        tml_sketch_add(&fold.metric[i], -INT64_MAX / 8);
        for (int n = 0; n < 2000; n++)
            tml_sketch_add(&fold.metric[i], (((int64_t)rand() << 20) + rand() % 1000000) >> rand() % 50);
    }
    write_and_read(&fold, &other);
    for (unsigned i = 0; i < TML_STEP_FOLD_METRICS; i++) {
        assert_int_equal(other.metric[i].count, fold.metric[i].count);
        assert_int_equal(other.metric[i].max_ns, fold.metric[i].max_ns);
    }
}

static void a_usual_line_has_about_3_kib(void **state)
{
    (void)state;
    srand(2);
    for (uint64_t step = 1; step <= 1000; step++) {
        struct tml_step_row row;
        tml_step_row_clear(&row);
        row.step = step;
        int64_t ns = 30 * MS + rand() % (10 * MS); /* a spread of a third */
        for (unsigned clock = 0; clock < TML_CLOCKS; clock++) {
            for (unsigned term = 0; term < TML_TERM_COUNT; term++)
                row.term_ns[clock][term] = ns / (term + 1);
            for (unsigned phase = TRACEML_PHASE_DATALOADER_FETCH; phase <= TRACEML_PHASE_OPTIMIZER; phase++) {
                struct tml_cell *cell = &row.cell[phase > TRACEML_PHASE_H2D][phase];
                cell->count = 1;
                cell->exclusive_ns[clock] = cell->inclusive_ns[clock] = ns / (phase + 1);
            }
        }
        tml_step_fold_add(&fold, &row);
    }
    static char line[TML_STEP_FOLD_LINE_BYTES];
    size_t bytes = tml_step_fold_write(&fold, line, sizeof line);
    print_message("usual fold line, 5 phases on both clocks: %zu bytes\n", bytes);
    assert_in_range(bytes, 2048, 4096);
}

static void what_is_no_folded_line_is_refused(void **state)
{
    (void)state;
    static const char *const refused[] = {
        "1",
        "{}",
        "{\"folded\":1}",
        "{\"folded\":{\"first\":1,\"last\":2,\"count\":1,\"aborted\":0}}",
        "{\"folded\":{\"first\":3,\"last\":2,\"count\":1,\"aborted\":0,\"metrics\":{}}}",
        "{\"folded\":{\"first\":1,\"last\":2,\"count\":-1,\"aborted\":0,\"metrics\":{}}}",
        "{\"folded\":{\"first\":1,\"last\":2,\"count\":1,\"aborted\":0,\"metrics\":{\"cpu.residual_ms\":1}}}",
        "{\"folded\":{\"first\":0,\"last\":2,\"count\":1,\"aborted\":0,\"metrics\":{}}}",
        "{\"folded\":{\"first\":1,\"last\":2,\"count\":3,\"aborted\":0,\"metrics\":{}}}",
        "{\"folded\":{\"first\":1,\"last\":2,\"count\":1,\"aborted\":0,\"microbatches\":-1,\"metrics\":{}}}",
        ("{\"folded\":{\"first\":1,\"last\":2,\"count\":1,\"aborted\":0,\"metrics\":{\"cpu.residual_ms\":"
         "{\"n\":2,\"sum\":2,\"min\":1,\"max\":1,\"sketch\":{\"0\":2}}}}}"),
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct tml_json *root = tml_json_parse(refused[i], strlen(refused[i]));
        assert_non_null(root);
        if (tml_step_fold_read(root, &fold))
            fail_msg("taken: %s", refused[i]);
        tml_json_free(root);
    }
    const char *later =
        "{\"folded\":{\"first\":1,\"last\":2,\"count\":1,\"aborted\":0,\"new\":1,\"metrics\":{\"new_ms\":1}}}";
    struct tml_json *root = tml_json_parse(later, strlen(later));
    assert_true(tml_step_fold_read(root, &fold));
    tml_json_free(root);
}

static void what_passes_before_a_new_iterator_is_added_up_and_read_back(void **state)
{
    (void)state;
    static struct tml_step_fold fold, other, read;
    struct tml_step_row row;
    tml_step_row_clear(&row);
    row.step = 1;
    row.flags = TML_STEP_FLAG_FIRST | TML_STEP_FLAG_FIRST_FETCH; /* start-up: no beginning, so nothing between */
    row.term_ns[TML_CLOCK_CPU][TML_TERM_TRACED_STEP] = 3000;
    tml_step_fold_add(&fold, &row);
    row.flags = TML_STEP_FLAG_FIRST_FETCH;
    row.term_ns[TML_CLOCK_CPU][TML_TERM_ITERATION] = 10000;
    set_cell(&row, TML_REGION_PRE, TRACEML_PHASE_DATALOADER_FETCH, 4000, 4000);
    set_cell(&row, TML_REGION_PRE, TRACEML_PHASE_CHECKPOINT, 1000, 1000);
    for (row.step = 2; row.step <= 3; row.step++)
        tml_step_fold_add(row.step == 2 ? &fold : &other, &row);
    row.flags = 0;
    tml_step_fold_add(&fold, &row);
    tml_step_fold_merge(&fold, &other);
    write_and_read(&fold, &read);
    assert_int_equal(read.between.count, 2);
    assert_int_equal(read.between.total_ns, 14000);
    assert_int_equal(read.between.fetch_ns, 8000);
    assert_int_equal(read.between.spans_ns, 2000);
    tml_step_fold_clear(&fold);
    assert_int_equal(fold.between.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_passes_before_a_new_iterator_is_added_up_and_read_back),
        cmocka_unit_test_setup(line_reads_as_the_contract_says, clear_folds),
        cmocka_unit_test_setup(an_inclusive_time_that_never_differs_is_not_written_and_yet_read, clear_folds),
        cmocka_unit_test_setup(aborted_steps_are_counted_and_not_averaged, clear_folds),
        cmocka_unit_test_setup(every_metric_comes_back_in_its_own_place, clear_folds),
        cmocka_unit_test_setup(merged_folds_equal_one_fold_of_all, clear_folds),
        cmocka_unit_test_setup(a_cleared_fold_is_as_new, clear_folds),
        cmocka_unit_test_setup(the_longest_line_fits_with_exact_totals, clear_folds),
        cmocka_unit_test_setup(a_usual_line_has_about_3_kib, clear_folds),
        cmocka_unit_test_setup(what_is_no_folded_line_is_refused, clear_folds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
