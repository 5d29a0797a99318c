/* The noise of a comparison, held against what it claims: runs of one distribution are hardly ever told apart, and a
 * real difference is found. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compare.h"

#define STEPS 400
#define PAIRS 400
#define CENTRE_NS 50e6

/* ---- Random steps, the same on every machine ---- */

static uint64_t state_of_random = 1;

static double uniform(void)
{
    state_of_random = state_of_random * 6364136223846793005u + 1442695040888963407u;
    return ((double)(state_of_random >> 33) + 0.5) / 2147483648.0;
}

static double normal(void)
{
    return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
}

enum shape { INDEPENDENT, LONG_TAIL, TWO_KINDS, DRIFT, SHAPES };

/* One run of `shape`, each step longer by `factor`. */
static void make_steps(enum shape shape, double factor, int64_t *steps_ns)
{
    double slow = normal();
    for (unsigned i = 0; i < STEPS; i++) {
        double x = normal();
        slow = 0.95 * slow + 0.31225 * x; /* of variance 1 */
        double relative = shape == INDEPENDENT ? 0.05 * x
                          : shape == LONG_TAIL ? 0.05 * exp(1.2 * x)
                          : shape == TWO_KINDS ? 0.01 * x + (i % 4 == 0 ? 0.5 : 0)
                                               : 0.05 * slow;
        steps_ns[i] = (int64_t)(CENTRE_NS * factor * (1 + relative));
    }
}

/* ---- A side as the reader makes it ---- */

static int ascending(const void *a, const void *b)
{
    const int64_t *first = a, *second = b;
    return (*first > *second) - (*first < *second);
}

static int64_t mean_of(const int64_t *values, size_t count)
{
    int64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    return sum / (int64_t)count;
}

static void fill(struct tml_compare_side *side, int64_t *steps_ns, bool blocks)
{
    struct tml_compare_steps *steps = &side->step[TML_CLOCK_CPU];
    *side = (struct tml_compare_side){.schema = 20, .clock = TML_CLOCK_CPU, .steps = STEPS};
    for (unsigned i = 0; i < TML_METRIC_COUNT; i++)
        side->metric[i].ns = TML_NS_NONE;
    side->metric[TML_METRIC_STEP_TIME].ns = side->metric[TML_METRIC_STEP_TIME_CPU].ns = mean_of(steps_ns, STEPS);
    steps->has_blocks = blocks;
    for (unsigned i = 0; i < TML_BLOCKS; i++) {
        int64_t *part = steps_ns + i * STEPS / TML_BLOCKS;
        steps->block_mean_ns[i] = mean_of(part, STEPS / TML_BLOCKS);
        qsort(part, STEPS / TML_BLOCKS, sizeof *part, ascending);
        steps->block_median_ns[i] = part[(STEPS / TML_BLOCKS - 1) / 2];
    }
    qsort(steps_ns, STEPS, sizeof *steps_ns, ascending);
    steps->p10_ns = steps_ns[(STEPS - 1) / 10];
    steps->p50_ns = steps_ns[(STEPS - 1) / 2];
    steps->p90_ns = steps_ns[STEPS - 1 - (STEPS - 1) / 10];
}

/* How many of PAIRS comparisons end in `verdict`. */
static unsigned count_verdicts(enum shape shape, double factor, bool blocks, enum traceml_verdict verdict)
{
    static int64_t steps_ns[STEPS];
    static struct tml_comparison comparison;
    unsigned found = 0;
    state_of_random = 1;
    for (unsigned pair = 0; pair < PAIRS; pair++) {
        memset(&comparison, 0, sizeof comparison);
        comparison.limit_pct = NAN;
        make_steps(shape, 1, steps_ns);
        fill(&comparison.side[0], steps_ns, blocks);
        make_steps(shape, factor, steps_ns);
        fill(&comparison.side[1], steps_ns, blocks);
        tml_compare_judge(&comparison);
        found += comparison.verdict == verdict;
    }
    return found;
}

/* ---- Tests ---- */

static void test_runs_of_one_distribution_are_within_noise(void **state)
{
    (void)state;
    for (unsigned shape = 0; shape < SHAPES; shape++) {
        unsigned same = count_verdicts((enum shape)shape, 1, true, TRACEML_VERDICT_WITHIN_NOISE);
        print_message("shape %u: %u of %u within noise\n", shape, same, PAIRS);
        assert_true(same >= PAIRS - PAIRS * 3 / 100);
    }
}

static void test_independent_steps_need_no_parts(void **state)
{
    (void)state;
    for (unsigned shape = 0; shape < DRIFT; shape++) {
        unsigned same = count_verdicts((enum shape)shape, 1, false, TRACEML_VERDICT_WITHIN_NOISE);
        print_message("shape %u: %u of %u within noise\n", shape, same, PAIRS);
        assert_true(same >= PAIRS - PAIRS * 3 / 100);
    }
}

static void test_drift_would_fool_the_quantiles_alone(void **state)
{
    (void)state;
    unsigned same = count_verdicts(DRIFT, 1, false, TRACEML_VERDICT_WITHIN_NOISE);
    print_message("drift, quantiles alone: %u of %u within noise\n", same, PAIRS);
    assert_true(same < PAIRS * 3 / 4);
}

static void test_a_real_difference_is_found(void **state)
{
    (void)state;
    static const double slower[SHAPES] = {1.03, 1.10, 1.03, 1.20};
    for (unsigned shape = 0; shape < SHAPES; shape++) {
        unsigned worse = count_verdicts((enum shape)shape, slower[shape], true, TRACEML_VERDICT_REGRESSION);
        unsigned better = count_verdicts((enum shape)shape, 1 / slower[shape], true, TRACEML_VERDICT_IMPROVEMENT);
        print_message("shape %u: %u slower, %u faster, of %u\n", shape, worse, better, PAIRS);
        assert_true(worse >= PAIRS * 95 / 100 && better >= PAIRS * 95 / 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs_of_one_distribution_are_within_noise),
        cmocka_unit_test(test_independent_steps_need_no_parts),
        cmocka_unit_test(test_drift_would_fool_the_quantiles_alone),
        cmocka_unit_test(test_a_real_difference_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
