/* sketch: totals are exact, quantiles within 4.4 %, and a part of a whole can be merged or written and read back. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "clock.h"
#include "sketch.h"

#define MS TML_NS_PER_MS
#define MANY 20000

static int compare_ns(const void *a, const void *b)
{
    const int64_t *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

/* From 1 us to 100 s, evenly on the log scale. */
static int64_t random_ns(void)
{
    return llround(exp(log(1e3) + (log(1e11) - log(1e3)) * (double)rand() / RAND_MAX));
}

static char *written(const struct tml_sketch *sketch, unsigned most_buckets)
{
    struct tml_json_writer writer;
    tml_json_writer_heap(&writer, 0);
    tml_sketch_write(sketch, &writer, NULL, most_buckets);
    char *text = tml_json_writer_take(&writer);
    assert_non_null(text);
    return text;
}

static bool reads(const char *text, struct tml_sketch *sketch)
{
    struct tml_json *root = tml_json_parse(text, strlen(text));
    assert_non_null(root);
    bool good = tml_sketch_read(root, sketch);
    tml_json_free(root);
    return good;
}

static void an_empty_sketch_has_no_quantiles(void **state)
{
    (void)state;
    struct tml_sketch sketch = {0};
    tml_sketch_add(&sketch, TML_NS_NONE);
    assert_int_equal(sketch.count, 0);
    assert_true(tml_sketch_quantile(&sketch, 0.5) == TML_NS_NONE);
    assert_true(tml_sketch_mean(&sketch) == TML_NS_NONE);
}

static void totals_are_exact(void **state)
{
    (void)state;
    struct tml_sketch sketch = {0};
    const int64_t times[] = {3, -5, 0, 1000000007, 12};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        tml_sketch_add(&sketch, times[i]);
    assert_int_equal(sketch.count, 5);
    assert_int_equal(sketch.sum_ns, 1000000017);
    assert_int_equal(sketch.min_ns, -5);
    assert_int_equal(sketch.max_ns, 1000000007);
    assert_int_equal(sketch.zero, 2);
    assert_int_equal(tml_sketch_mean(&sketch), 200000003);
}

static void assert_bucket(int64_t ns, int bucket)
{
    struct tml_sketch sketch = {0};
    tml_sketch_add(&sketch, ns);
    if (sketch.bucket[bucket - TML_SKETCH_FIRST_BUCKET] != 1)
        print_error("%lld ns is not in bucket %d\n", (long long)ns, bucket);
    assert_int_equal(sketch.bucket[bucket - TML_SKETCH_FIRST_BUCKET], 1);
}

static void buckets_are_those_of_the_contract(void **state)
{
    (void)state;
    assert_bucket(MS, 0);
    assert_bucket(MS - 1, -1);
    assert_bucket(2 * MS, 8);
    assert_bucket(2 * MS - 1, 7);
    assert_bucket(MS / 2, -8);
    assert_bucket(1, TML_SKETCH_FIRST_BUCKET);
    assert_bucket(INT64_MAX, TML_SKETCH_LAST_BUCKET);
}

static void quantiles_are_within_4_4_percent(void **state)
{
    (void)state;
    static int64_t times[MANY];
    static const double quantiles[] = {0, 0.001, 0.01, 0.25, 0.5, 0.9, 0.99, 0.9999, 1};
    struct tml_sketch sketch = {0};
    srand(5);
    for (size_t i = 0; i < MANY; i++)
        tml_sketch_add(&sketch, times[i] = random_ns());
    qsort(times, MANY, sizeof *times, compare_ns);
    for (size_t i = 0; i < sizeof quantiles / sizeof *quantiles; i++) {
        double exact = (double)times[(size_t)(quantiles[i] * (MANY - 1))];
        double found = (double)tml_sketch_quantile(&sketch, quantiles[i]);
        if (fabs(found / exact - 1) > 0.0443)
            fail_msg("quantile %g: %g instead of %g", quantiles[i], found, exact);
    }
    assert_int_equal(tml_sketch_quantile(&sketch, 0), times[0]);
    assert_int_equal(tml_sketch_quantile(&sketch, 1), times[MANY - 1]);
    assert_int_equal(tml_sketch_quantile(&sketch, NAN), times[0]);
}

static void quantiles_stay_between_the_ends_and_zero_is_zero(void **state)
{
    (void)state;
    struct tml_sketch same = {0}, mixed = {0};
    for (int i = 0; i < 9; i++)
        tml_sketch_add(&same, 1234567);
    assert_int_equal(tml_sketch_quantile(&same, 0.5), 1234567);
    for (int i = 0; i < 6; i++)
        tml_sketch_add(&mixed, 0);
    for (int i = 0; i < 4; i++)
        tml_sketch_add(&mixed, 8 * MS);
    assert_int_equal(tml_sketch_quantile(&mixed, 0.5), 0);
    assert_in_range(tml_sketch_quantile(&mixed, 0.9), 7 * MS, 8 * MS);
}

static void merged_parts_equal_the_whole(void **state)
{
    (void)state;
    struct tml_sketch whole = {0}, merged = {0}, part[3] = {{0}};
    srand(6);
    for (int i = 0; i < MANY; i++) {
        int64_t ns = rand() % 10 ? random_ns() : 0;
        tml_sketch_add(&whole, ns);
        tml_sketch_add(&part[rand() % 2], ns);
    }
    for (int i = 0; i < 3; i++)
        tml_sketch_merge(&merged, &part[i]);
    assert_memory_equal(&merged, &whole, sizeof whole);
}

static void sums_beyond_292_years_stay_at_the_end(void **state)
{
    (void)state;
    struct tml_sketch sketch = {0};
    tml_sketch_add(&sketch, INT64_MAX);
    tml_sketch_add(&sketch, INT64_MAX);
    assert_true(sketch.sum_ns == INT64_MAX);
    struct tml_sketch below = {0};
    tml_sketch_add(&below, -INT64_MAX);
    tml_sketch_add(&below, -INT64_MAX);
    assert_true(below.sum_ns == -INT64_MAX);
}

static void json_reads_as_the_contract_says(void **state)
{
    (void)state;
    struct tml_sketch sketch = {0};
    tml_sketch_add(&sketch, MS);
    tml_sketch_add(&sketch, MS + 1);
    tml_sketch_add(&sketch, 0);
    tml_sketch_add(&sketch, 800000);
    char *text = written(&sketch, 64);
    assert_string_equal(text, "{\"n\":4,\"sum\":2.800001,\"min\":0,\"max\":1.000001,"
                              "\"sketch\":{\"zero\":1,\"-3\":1,\"0\":2}}");
    free(text);
}

static void what_is_written_is_read_back(void **state)
{
    (void)state;
    struct tml_sketch sketch = {0}, again;
    char *text = written(&sketch, 64);
    assert_true(reads(text, &again));
    assert_memory_equal(&again, &sketch, sizeof sketch);
    free(text);
    srand(8);
    for (int i = 0; i < 1000; i++)
        tml_sketch_add(&sketch, random_ns() - 2000);
    text = written(&sketch, TML_SKETCH_BUCKETS);
    assert_true(reads(text, &again));
    assert_memory_equal(&again, &sketch, sizeof sketch);
    free(text);
}

static void too_many_buckets_give_up_the_lowest(void **state)
{
    (void)state;
    struct tml_sketch sketch = {0}, again;
    srand(9);
    for (int i = 0; i < MANY; i++)
        tml_sketch_add(&sketch, random_ns());
    for (unsigned most = 1; most <= 128; most *= 2) {
        char *text = written(&sketch, most);
        assert_true(reads(text, &again));
        unsigned used = 0;
        for (unsigned i = 0; i < TML_SKETCH_BUCKETS; i++)
            used += again.bucket[i] > 0;
        assert_int_equal(used, most);
        assert_int_equal(again.count, sketch.count);
        assert_int_equal(again.sum_ns, sketch.sum_ns);
        assert_int_equal(tml_sketch_quantile(&again, 0), tml_sketch_quantile(&sketch, 0));
        if (most >= 32)
            assert_int_equal(tml_sketch_quantile(&again, 0.99), tml_sketch_quantile(&sketch, 0.99));
        free(text);
    }
}

static void contradictions_and_wrong_types_are_refused(void **state)
{
    (void)state;
    static const char *const refused[] = {
        "1",
        "{}",
        "{\"n\":1,\"sum\":1,\"min\":1,\"max\":1}",
        "{\"n\":2,\"sum\":1,\"min\":1,\"max\":1,\"sketch\":{\"0\":1}}",
        "{\"n\":-1,\"sum\":1,\"min\":1,\"max\":1,\"sketch\":{}}",
        "{\"n\":1,\"sum\":\"1\",\"min\":1,\"max\":1,\"sketch\":{\"0\":1}}",
        "{\"n\":1,\"sum\":1,\"min\":null,\"max\":1,\"sketch\":{\"0\":1}}",
        "{\"n\":1,\"sum\":1,\"min\":2,\"max\":1,\"sketch\":{\"0\":1}}",
        "{\"n\":1,\"sum\":1,\"min\":1,\"max\":1,\"sketch\":[1]}",
        "{\"n\":1,\"sum\":1,\"min\":1,\"max\":1,\"sketch\":{\"x\":1}}",
        "{\"n\":1,\"sum\":1,\"min\":1,\"max\":1,\"sketch\":{\"\":1}}",
        "{\"n\":1,\"sum\":1,\"min\":1,\"max\":1,\"sketch\":{\"0x\":1}}",
        "{\"n\":1,\"sum\":1,\"min\":1,\"max\":1,\"sketch\":{\"345\":1}}",
        "{\"n\":1,\"sum\":1,\"min\":1,\"max\":1,\"sketch\":{\"-161\":1}}",
        "{\"n\":1,\"sum\":1,\"min\":1,\"max\":1,\"sketch\":{\"99999999999999999999\":1}}",
        "{\"n\":2,\"sum\":1,\"min\":1,\"max\":1,\"sketch\":{\"0\":1,\"00\":1}}",
        "{\"n\":2,\"sum\":1,\"min\":1,\"max\":2,\"sketch\":{\"0\":2}}",
        "{\"n\":2,\"sum\":5,\"min\":1,\"max\":2,\"sketch\":{\"0\":2}}",
        "{\"n\":0,\"sum\":5,\"sketch\":{}}",
        "{\"n\":1,\"sum\":1,\"min\":1,\"max\":1,\"sketch\":{\"0\":0.5}}",
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct tml_sketch sketch;
        if (reads(refused[i], &sketch))
            fail_msg("taken: %s", refused[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_sketch_has_no_quantiles),
        cmocka_unit_test(totals_are_exact),
        cmocka_unit_test(buckets_are_those_of_the_contract),
        cmocka_unit_test(quantiles_are_within_4_4_percent),
        cmocka_unit_test(quantiles_stay_between_the_ends_and_zero_is_zero),
        cmocka_unit_test(merged_parts_equal_the_whole),
        cmocka_unit_test(sums_beyond_292_years_stay_at_the_end),
        cmocka_unit_test(json_reads_as_the_contract_says),
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(too_many_buckets_give_up_the_lowest),
        cmocka_unit_test(contradictions_and_wrong_types_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
