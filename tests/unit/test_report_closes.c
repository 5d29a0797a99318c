/* From generated step files through the real reader to the report: every metric is the mean of what was put into the
 * files, on both clocks, and the parts add up to the whole in the JSON and in the text. Fixed seeds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run_fixture.h"
#include "summary.h"

#define RUNS 120
#define STEPS 40 /* of a run, the first apart */

/* ---- What is put in ---- */

enum part {
    WAIT,
    PRE_H2D,
    PRE_OWN,
    OTHER,
    OURS_PRE, /* up to here before the step */
    IN_WAIT,
    H2D,
    FORWARD,
    BACKWARD,
    OPTIMIZER,
    IN_CHECKPOINT,
    OURS,
    RESIDUAL,
    PARTS
};

static const struct {
    const char *key;
    int region, phase; /* -1: a term */
    enum tml_term term;
} parts[PARTS] = {
    [WAIT] = {"input_wait_ms", TML_REGION_PRE, TRACEML_PHASE_DATALOADER_FETCH, 0},
    [PRE_H2D] = {"pre_step_h2d_ms", TML_REGION_PRE, TRACEML_PHASE_H2D, 0},
    [PRE_OWN] = {"user_spans_ms", TML_REGION_PRE, TRACEML_PHASE_USER, 0},
    [OTHER] = {"pre_step_other_ms", -1, -1, TML_TERM_PRE_STEP_OTHER},
    [OURS_PRE] = {"pre_step_instrumentation_ms", -1, -1, TML_TERM_INSTRUMENTATION_PRE},
    [IN_WAIT] = {"in_step_input_wait_ms", TML_REGION_IN, TRACEML_PHASE_DATALOADER_FETCH, 0},
    [H2D] = {"h2d_ms", TML_REGION_IN, TRACEML_PHASE_H2D, 0},
    [FORWARD] = {"forward_ms", TML_REGION_IN, TRACEML_PHASE_FORWARD, 0},
    [BACKWARD] = {"backward_ms", TML_REGION_IN, TRACEML_PHASE_BACKWARD, 0},
    [OPTIMIZER] = {"optimizer_ms", TML_REGION_IN, TRACEML_PHASE_OPTIMIZER, 0},
    [IN_CHECKPOINT] = {"checkpoint_ms", TML_REGION_IN, TRACEML_PHASE_CHECKPOINT, 0},
    [OURS] = {"instrumentation_ms", -1, -1, TML_TERM_INSTRUMENTATION},
    [RESIDUAL] = {"residual_ms", -1, -1, TML_TERM_RESIDUAL},
};

struct put_in {
    int64_t sum_ns[TML_CLOCKS][PARTS];
    bool occurs[PARTS];
    bool cuda;
};

static uint64_t seed;

static int64_t below(int64_t limit)
{
    return (int64_t)(fixture_random(&seed) % (uint64_t)limit);
}

/* From ns to 100 ms, so that each size of number is there; a remainder may be below zero. */
static int64_t any_ns(enum part part)
{
    static const int64_t sizes[] = {100, 10000, 1000000, 100000000};
    int64_t ns = 1 + below(sizes[below(4)]);
    return part == RESIDUAL && below(8) == 0 ? -ns : ns;
}

static bool must_occur(enum part part)
{
    return parts[part].phase < 0 || part == FORWARD || part == BACKWARD;
}

static void put(struct tml_step_row *row, enum tml_clock clock, enum part part, int64_t ns)
{
    if (parts[part].phase < 0) {
        row->term_ns[clock][parts[part].term] = ns;
        return;
    }
    struct tml_cell *cell = &row->cell[parts[part].region][parts[part].phase];
    cell->count = 1;
    cell->exclusive_ns[clock] = ns;
    cell->inclusive_ns[clock] = ns + below(2) * below(1000); /* something else inside */
}

static struct tml_step_row any_row(uint64_t step, struct put_in *in)
{
    struct tml_step_row row = fixture_row(step, &fixture_healthy);
    memset(row.cell, 0, sizeof row.cell);
    struct tml_step_row empty;
    tml_step_row_clear(&empty);
    memcpy(row.cell, empty.cell, sizeof row.cell);
    for (unsigned clock = 0; clock <= (unsigned)in->cuda; clock++) {
        int64_t sum_ns[2] = {0, 0};
        for (unsigned part = 0; part < PARTS; part++) {
            bool now =
                must_occur((enum part)part) || (in->occurs[part] && (step + part) % 3 > 0); /* not in every step */
            int64_t ns = now ? any_ns((enum part)part) : 0;
            if (now)
                put(&row, (enum tml_clock)clock, (enum part)part, ns);
            sum_ns[part > OURS_PRE] += ns;
            in->sum_ns[clock][part] += step > 1 ? ns : 0;
        }
        row.term_ns[clock][TML_TERM_TRACED_STEP] = sum_ns[1];
        row.term_ns[clock][TML_TERM_ITERATION] = step > 1 ? sum_ns[0] + sum_ns[1] : TML_NS_NONE;
    }
    row.gpu_complete = in->cuda && step > 1;
    row.gpu_reason = row.gpu_complete ? TML_REASON_NONE : in->cuda ? TML_REASON_FIRST_ITERATION : TML_REASON_NO_CUDA;
    return row;
}

/* A traced step of less than nothing is no step: another residual then. */
static struct tml_step_row any_sound_row(uint64_t step, struct put_in *in)
{
    for (;;) {
        struct put_in before = *in;
        struct tml_step_row row = any_row(step, in);
        if (row.term_ns[TML_CLOCK_CPU][TML_TERM_TRACED_STEP] > 0 &&
            (!in->cuda || row.term_ns[TML_CLOCK_GPU][TML_TERM_TRACED_STEP] > 0))
            return row;
        *in = before;
    }
}

static void write_run(const struct fixture *fixture, struct put_in *in)
{
    struct fixture_header header = {.device = in->cuda ? "cuda:0" : "cpu", .observer = true};
    FILE *file = fixture_rank_file(fixture, 0);
    fixture_write_header(file, &header);
    for (uint64_t step = 1; step <= STEPS + 1; step++) {
        struct tml_step_row row = any_sound_row(step, in);
        fixture_write_row(file, &row);
    }
    fixture_write_end(file, "finished");
    fclose(file);
}

/* ---- What comes out ---- */

static const struct tml_json *published(const struct tml_json *root, const char *block, const char *key)
{
    const struct tml_json *global = tml_json_get(tml_json_get(root, "step_time"), "global");
    const struct tml_json *value = tml_json_get(tml_json_get(global, block), key);
    return tml_json_is_object(value) ? tml_json_get(value, "value") : value;
}

static bool is_null(const struct tml_json *root, const char *block, const char *key)
{
    return tml_json_is_null(published(root, block, key));
}

static int64_t published_ns(const struct tml_json *root, const char *block, const char *key)
{
    int64_t ns = TML_NS_NONE;
    if (!tml_json_ms_as_ns(published(root, block, key), &ns))
        fail_msg("%s of %s is null", key, block);
    return ns;
}

static int64_t mean_ns(int64_t sum_ns)
{
    return tml_ns_mean(sum_ns, STEPS);
}

static int64_t sum_of(const int64_t *sum_ns, enum part first, enum part last)
{
    int64_t sum = 0;
    for (unsigned part = first; part <= last; part++)
        sum += sum_ns[part];
    return sum;
}

/* Each mean is rounded to a ns for itself. */
static void assert_json(const struct put_in *in, const struct tml_json *root)
{
    static const char *const blocks[] = {"average", "median", "worst"};
    enum tml_clock clock = in->cuda ? TML_CLOCK_GPU : TML_CLOCK_CPU;
    const int64_t *sum_ns = in->sum_ns[clock];
    for (unsigned i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        int64_t all_ns = 0, inside_ns = 0;
        for (unsigned part = 0; part < PARTS; part++) {
            bool unopened = (part == PRE_OWN || part == IN_CHECKPOINT) && sum_ns[part] == 0; /* nobody watched */
            if (unopened || (part == H2D && sum_ns[H2D] == 0 && sum_ns[PRE_H2D] > 0)) {
                assert_true(is_null(root, blocks[i], parts[part].key)); /* or all of it before the step: counts zero */
                continue;
            }
            int64_t ns = published_ns(root, blocks[i], parts[part].key);
            if (ns != mean_ns(sum_ns[part]))
                print_error("%s of %s\n", parts[part].key, blocks[i]);
            assert_int_equal(ns, mean_ns(sum_ns[part]));
            all_ns += ns;
            inside_ns += part > OURS_PRE ? ns : 0;
        }
        assert_in_range(published_ns(root, blocks[i], "iteration_ms") - all_ns + PARTS, 0, 2 * PARTS);
        assert_in_range(published_ns(root, blocks[i], "traced_step_time_ms") - inside_ns + PARTS, 0, 2 * PARTS);
        assert_int_equal(published_ns(root, blocks[i], "step_time_ms"),
                         mean_ns(sum_ns[WAIT] + sum_of(sum_ns, IN_WAIT, RESIDUAL)));
        assert_int_equal(published_ns(root, blocks[i], "compute_ms"), mean_ns(sum_of(sum_ns, FORWARD, OPTIMIZER)));
    }
}

/* Both clocks stand side by side, whichever was selected. */
static void assert_both_clocks(const struct put_in *in, const struct tml_json *root)
{
    static const char *const totals[TML_CLOCKS] = {"step_time_cpu_ms", "step_time_gpu_ms"};
    static const char *const traced[TML_CLOCKS] = {"traced_step_time_cpu_ms", "traced_step_time_gpu_ms"};
    for (unsigned clock = 0; clock <= (unsigned)in->cuda; clock++) {
        const int64_t *sum_ns = in->sum_ns[clock];
        int64_t inside_ns = sum_of(sum_ns, IN_WAIT, RESIDUAL);
        assert_int_equal(published_ns(root, "average", totals[clock]), mean_ns(sum_ns[WAIT] + inside_ns));
        assert_int_equal(published_ns(root, "average", traced[clock]), mean_ns(inside_ns));
    }
    const int64_t *host_ns = in->sum_ns[TML_CLOCK_CPU];
    assert_int_equal(published_ns(root, "average", "dataloader_fetch_cpu_ms"),
                     mean_ns(host_ns[WAIT] + host_ns[IN_WAIT]));
}

/* ---- The text ---- */

/* The number in the tree's line that `words` are in, in units of its last digit; what is "<0.1" is between 0 and 1. */
static bool shown(const char *text, const char *words, int64_t *value, int64_t *unit_ns)
{
    const char *at = strstr(text, words);
    if (!at)
        return false;
    at += strlen(words);
    at += strspn(at, " ");
    if (strncmp(at, "n/a", 3) == 0) /* outside: counts zero */
        return false;
    bool small = *at == '<' || *at == '>';
    at += small;
    bool negative = *at == '-';
    at += negative;
    const char *point = strchr(at, '.');
    assert_non_null(point);
    size_t decimals = strspn(point + 1, "0123456789");
    *unit_ns = TML_NS_PER_MS;
    for (size_t i = 0; i < decimals; i++)
        *unit_ns /= 10;
    int64_t whole = strtoll(at, NULL, 10), part = strtoll(point + 1, NULL, 10);
    *value = small ? 0 : (whole * (TML_NS_PER_MS / *unit_ns) + part) * (negative ? -1 : 1);
    return true;
}

/* The lines below `whole` add up to it, within the rounding of each. */
static void assert_lines_add_up(const char *text, const char *whole, const char *const *lines, size_t count)
{
    int64_t total, unit_ns, sum = 0, shown_lines = 1;
    assert_true(shown(text, whole, &total, &unit_ns));
    for (size_t i = 0; i < count; i++) {
        int64_t value, its_unit_ns;
        if (!shown(text, lines[i], &value, &its_unit_ns))
            continue;
        if (value != 0) /* "0.0" is exact and has one decimal */
            assert_int_equal(its_unit_ns, unit_ns);
        sum += value;
        shown_lines++;
    }
    if (total - sum > shown_lines || sum - total > shown_lines)
        print_error("%s\n", text);
    assert_in_range(total - sum + shown_lines, 0, 2 * shown_lines);
}

static void assert_text(const char *text)
{
    static const char *const before[] = {"\n  ├─ input wait ",        "\n  ├─ H2D before step ", "\n  ├─ own spans ",
                                         "\n  ├─ other before step ", "\n  ├─ TraceML ",         "\n  └─ traced step "};
    static const char *const inside[] = {
        "\n     ├─ input wait in step ", "\n     ├─ H2D ",        "\n     ├─ forward ", "\n     ├─ backward ",
        "\n     ├─ optimizer ",          "\n     ├─ checkpoint ", "\n     ├─ TraceML ", "\n     └─ residual "};
    assert_lines_add_up(text, "\n  iteration ", before, sizeof before / sizeof *before);
    assert_lines_add_up(text, "\n  └─ traced step ", inside, sizeof inside / sizeof *inside);
}

static void what_was_put_in_comes_out_and_adds_up(void **state)
{
    (void)state;
    for (unsigned run = 1; run <= RUNS; run++) {
        struct fixture fixture;
        struct traceml_report report;
        char error[512];
        seed = run * UINT64_C(2654435761);
        struct put_in in = {.cuda = run % 2};
        for (unsigned part = 0; part < PARTS; part++)
            in.occurs[part] = below(3) > 0;
        fixture_open(&fixture);
        write_run(&fixture, &in);
        assert_int_equal(tml_summary_build(fixture.directory, NULL, &report, error, sizeof error), TRACEML_OK);
        fixture_close(&fixture);
        assert_int_equal(report.bad_lines, 0);
        struct tml_json *root = tml_json_parse(report.json, strlen(report.json));
        assert_json(&in, root);
        assert_both_clocks(&in, root);
        assert_text(report.text);
        tml_json_free(root);
        traceml_report_free(&report);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_put_in_comes_out_and_adds_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
