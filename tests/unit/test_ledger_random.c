/* The ledger against thousands of random timelines, on fixed seeds: every term is what the test put there, to the ns. */
#include "ledger_fixture.h"

/* ---- property: random nested timelines ---- */

static uint32_t seed;

static int64_t below(int64_t limit)
{
    seed = seed * 1664525u + 1013904223u;
    return (int64_t)((seed >> 8) % (uint32_t)limit);
}

struct timeline {
    struct tml_ledger_span spans[64];
    unsigned count;
    int64_t now_ns;
    int64_t expected[2][TML_LEDGER_KINDS], gaps[2];
};

/* Puts a phase of known exclusive time, perhaps with an H2D inside, and a known gap after it. */
static void put(struct timeline *t, int region, enum traceml_phase phase)
{
    int64_t begin_ns = t->now_ns, own_ns = 1 + below(1000000);
    bool copy = phase != TRACEML_PHASE_H2D && below(3) == 0;
    int64_t copy_ns = copy ? 1 + below(100000) : 0, before_ns = below(own_ns + 1);
    if (copy)
        t->spans[t->count++] = span(TRACEML_PHASE_H2D, begin_ns + before_ns, begin_ns + before_ns + copy_ns);
    t->now_ns += own_ns + copy_ns;
    t->spans[t->count++] = span(phase, begin_ns, t->now_ns);
    t->expected[region][phase] += own_ns;
    t->expected[region][TRACEML_PHASE_H2D] += copy_ns;
    int64_t gap_ns = below(2) ? below(50000) : 0;
    t->gaps[region] += gap_ns;
    t->now_ns += gap_ns;
}

static void every_term_is_the_gap_that_was_put_there(void **state)
{
    (void)state;
    for (seed = 1; seed <= 5000; seed++) {
        uint32_t start = seed;
        struct timeline t = {.now_ns = below(INT64_C(1000000000))};
        int64_t iteration_ns = t.now_ns;
        for (int64_t n = below(4); n > 0; n--)
            put(&t, PRE, TRACEML_PHASE_DATALOADER_FETCH);
        int64_t step_ns = t.now_ns;
        for (int64_t n = 1 + below(4); n > 0; n--) {
            put(&t, IN, TRACEML_PHASE_FORWARD);
            put(&t, IN, TRACEML_PHASE_BACKWARD);
        }
        put(&t, IN, TRACEML_PHASE_OPTIMIZER);
        t.spans[t.count++] = span(TRACEML_PHASE_STEP, step_ns, t.now_ns);
        tml_ledger_close(&ledger, t.spans, t.count, iteration_ns, step_ns, t.now_ns, 0);
        for (int region = 0; region < 2; region++)
            for (unsigned phase = 0; phase < TRACEML_PHASE_COUNT; phase++)
                assert_int_equal(ledger.exclusive_ns[region][phase], t.expected[region][phase]);
        assert_int_equal(ledger.pre_step_other_ns, t.gaps[PRE]);
        assert_int_equal(ledger.residual_ns, t.gaps[IN]);
        assert_closed();
        seed = start;
    }
}

/* ---- property: any nesting, instant by instant ---- */

#define LENGTH 400
#define NOBODY (-1)

struct forest {
    struct tml_ledger_span spans[64];
    unsigned count;
    int owner[LENGTH];                        /* of each ns */
    bool inside[LENGTH][TRACEML_PHASE_COUNT]; /* for inclusive times */
};

/* As design 3.3 words it: innermost wins, but evaluation and checkpoint keep all that is inside them. */
static int owner_inside(enum traceml_phase phase, int outer)
{
    bool swallows = outer == TRACEML_PHASE_EVALUATION || outer == TRACEML_PHASE_CHECKPOINT;
    return phase == TRACEML_PHASE_STEP ? NOBODY : swallows ? outer : (int)phase;
}

static void plant(struct forest *f, enum traceml_phase phase, int begin, int end, int outer, int depth)
{
    int owner = owner_inside(phase, outer);
    f->spans[f->count++] = span(phase, begin, end);
    for (int at = begin; at < end; at++) {
        f->owner[at] = owner;
        f->inside[at][phase] = f->inside[at][phase] || owner == NOBODY || owner == (int)phase;
    }
    for (int at = begin + (int)below(4); depth < 4 && at + 2 < end && f->count < 60;) {
        int to = at + 1 + (int)below(end - at - (at == begin)); /* not the very same bounds: who is inside whom? */
        plant(f, (enum traceml_phase)(1 + below(TRACEML_PHASE_COUNT - 1)), at, to, owner, depth + 1);
        at = to + (int)below(12);
    }
}

static void shuffle(struct forest *f)
{
    for (unsigned i = f->count; i > 1; i--) {
        unsigned other = (unsigned)below(i);
        struct tml_ledger_span kept = f->spans[i - 1];
        f->spans[i - 1] = f->spans[other];
        f->spans[other] = kept;
    }
}

static void assert_sums(const struct forest *f, int begin, int step, int end)
{
    int64_t exclusive_ns[2][TML_LEDGER_KINDS] = {{0}}, inclusive_ns[2][TML_LEDGER_KINDS] = {{0}}, rest[2] = {0};
    for (int at = begin; at < end; at++) {
        int region = at >= step;
        rest[region] += f->owner[at] == NOBODY;
        for (int phase = 0; phase < TRACEML_PHASE_COUNT; phase++) {
            exclusive_ns[region][phase] += f->owner[at] == phase;
            inclusive_ns[region][phase] += f->inside[at][phase];
        }
    }
    assert_memory_equal(ledger.exclusive_ns, exclusive_ns, sizeof exclusive_ns);
    assert_memory_equal(ledger.inclusive_ns, inclusive_ns, sizeof inclusive_ns);
    assert_int_equal(ledger.pre_step_other_ns, rest[PRE]);
    assert_int_equal(ledger.residual_ns, rest[IN]);
    assert_closed();
}

static void every_instant_of_a_random_forest_has_the_owner_that_the_rules_give_it(void **state)
{
    (void)state;
    static struct forest f;
    for (uint32_t round = 1; round <= 5000; round++) {
        seed = round * 2654435761u;
        memset(&f, 0, sizeof f);
        for (int at = 0; at < LENGTH; at++)
            f.owner[at] = NOBODY;
        int begin = (int)below(50), step = begin + 30 + (int)below(100), end = step + 50 + (int)below(150);
        if (below(4) == 0) /* one around the whole step, from before the iteration to after it */
            plant(&f, TRACEML_PHASE_USER, (int)below(begin + 1), LENGTH, NOBODY, 9);
        int around = f.count ? TRACEML_PHASE_USER : NOBODY;
        for (int at = begin + (int)below(9); at + 2 < step;) {
            int to = at + 1 + (int)below(step - at);
            plant(&f, (enum traceml_phase)(1 + below(TRACEML_PHASE_COUNT - 1)), at, to, around, 1);
            at = to + (int)below(9);
        }
        plant(&f, TRACEML_PHASE_STEP, step, end, around, 0);
        shuffle(&f);
        tml_ledger_close(&ledger, f.spans, f.count, begin, step, end, 0);
        assert_sums(&f, begin, step, end);
    }
}

/* ---- property: own cost ---- */

static void our_own_cost_is_what_was_put_between_the_spans(void **state)
{
    (void)state;
    for (uint32_t round = 1; round <= 5000; round++) {
        seed = round * 40503u;
        struct tml_ledger_span spans[16];
        unsigned count = 0;
        uint32_t before = (uint32_t)below(90), after = (uint32_t)below(90), carried = (uint32_t)below(90);
        int64_t now_ns = carried, work_ns = 0, cost_ns = 0, gaps_ns = 0;
        for (int64_t n = 1 + below(10); n > 0; n--) {
            int64_t gap_ns = below(500), length_ns = 1 + below(5000);
            int64_t begin_ns = now_ns + gap_ns + before;
            spans[count] = span(n % 2 ? TRACEML_PHASE_FORWARD : TRACEML_PHASE_H2D, begin_ns, begin_ns + length_ns);
            spans[count].before_begin_ns = before;
            spans[count++].after_end_ns = after;
            gaps_ns += gap_ns;
            work_ns += length_ns;
            cost_ns += before + after;
            now_ns = begin_ns + length_ns + after;
        }
        spans[count++] = span(TRACEML_PHASE_STEP, carried, now_ns);
        tml_ledger_close(&ledger, spans, count, 0, carried, now_ns, carried);
        assert_int_equal(ledger.exclusive_ns[PRE][TML_LEDGER_INSTRUMENTATION], carried);
        assert_int_equal(ledger.exclusive_ns[IN][TML_LEDGER_INSTRUMENTATION], cost_ns);
        assert_int_equal(exclusive(IN, TRACEML_PHASE_FORWARD) + exclusive(IN, TRACEML_PHASE_H2D), work_ns);
        assert_int_equal(ledger.residual_ns, gaps_ns);
        assert_closed();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_term_is_the_gap_that_was_put_there),
        cmocka_unit_test(every_instant_of_a_random_forest_has_the_owner_that_the_rules_give_it),
        cmocka_unit_test(our_own_cost_is_what_was_put_between_the_spans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
