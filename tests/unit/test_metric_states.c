/* What a metric says, for every combination of: is there a GPU, was the instrument installed, where in the iteration did
 * the operation occur, and was everything whole, lost, captured or sampled. One row a combination of the first three, one
 * column for each of the last. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "metric.h"
#include "run_fixture.h"

#define STEPS 40
#define PRE_US 1740
#define IN_US 1500

enum place { NEVER, IN, PRE, BOTH };
/* Lost: with a GPU the device events of the operation, without one spans of the step. Sampled: every other step was left
 * out by choice, which is as if it had not been run. */
enum condition { WHOLE, LOST, CAPTURED, SAMPLED, CONDITIONS };

/* ---- What can be said: value, availability, coverage, reason ---- */

enum outcome {
    HERE, /* its time in the region that the metric looks at */
    PART, /* that time, and more of it elsewhere */
    ELSE, /* null: all of it lies elsewhere */
    ZERO, /* 0.0: watched, and there was none */
    HAND, /* the time of what somebody bracketed, others unseen */
    NOGP, /* null: makes no sense here */
    NOOB, /* null: nobody watches copies */
    NOHK, /* null: no hook */
    NEVR, /* null: must occur and did not */
    EVNT, /* null: device events lost */
    RECS, /* null: spans lost */
    CAPT, /* null: the stream was capturing */
};

static const struct {
    const char *name;
    bool has_value;
    enum tml_availability availability;
    enum tml_coverage coverage;
    enum tml_reason reason;
} outcomes[] = {
#define O(name, value, availability, coverage, reason)                                                                 \
    [name] = {#name, value, TML_##availability, TML_COVERAGE_##coverage, TML_REASON_##reason}
    O(HERE, true, AVAILABLE, IN_WINDOW, NONE),
    O(PART, true, AVAILABLE, PARTIAL, PRE_STEP),
    O(ELSE, false, AVAILABLE, OUTSIDE_WINDOW, PRE_STEP),
    O(ZERO, true, AVAILABLE, IN_WINDOW, NEVER_OBSERVED),
    O(HAND, true, AVAILABLE, UNKNOWN, OBSERVER_MISSING),
    O(NOGP, false, NOT_APPLICABLE, UNKNOWN, NO_CUDA),
    O(NOOB, false, UNAVAILABLE, UNKNOWN, OBSERVER_MISSING),
    O(NOHK, false, UNAVAILABLE, UNKNOWN, HOOK_NOT_INSTALLED),
    O(NEVR, false, UNAVAILABLE, UNKNOWN, NEVER_OBSERVED),
    O(EVNT, false, UNAVAILABLE, UNKNOWN, EVENTS_LOST),
    O(RECS, false, UNAVAILABLE, UNKNOWN, RECORDS_LOST),
    O(CAPT, false, UNAVAILABLE, UNKNOWN, GRAPH_CAPTURE),
#undef O
};

/* ---- The table ---- */

static const struct {
    enum tml_metric metric;
    bool gpu, installed;
    enum place place;
    enum outcome expected[CONDITIONS];
} table[] = {
#define R(metric, gpu, installed, place, whole, lost, captured, sampled)                                               \
    {                                                                                                                  \
        TML_METRIC_##metric, gpu, installed, place,                                                                    \
        {                                                                                                              \
            whole, lost, captured, sampled                                                                             \
        }                                                                                                              \
    }
    /* clang-format off */
    /* H2D in the step: what the observer of the CUDA calls saw; without it, what was bracketed by hand. */
    /* metric            GPU    installed place  whole lost  capt. sampled */
    R(H2D,               true,  true,     IN,    HERE, EVNT, CAPT, HERE),
    R(H2D,               true,  true,     PRE,   ELSE, ELSE, ELSE, ELSE),
    R(H2D,               true,  true,     BOTH,  PART, EVNT, CAPT, PART),
    R(H2D,               true,  true,     NEVER, ZERO, ZERO, ZERO, ZERO),
    R(H2D,               true,  false,    IN,    HAND, EVNT, CAPT, HAND),
    R(H2D,               true,  false,    PRE,   NOOB, NOOB, NOOB, NOOB), /* in the step nobody looked */
    R(H2D,               true,  false,    BOTH,  PART, EVNT, CAPT, PART),
    R(H2D,               true,  false,    NEVER, NOOB, NOOB, NOOB, NOOB),
    R(H2D,               false, true,     NEVER, ZERO, RECS, ZERO, ZERO),
    R(H2D,               false, false,    NEVER, NOGP, NOGP, NOGP, NOGP),
    R(H2D,               false, false,    IN,    HAND, RECS, HAND, HAND),

    /* The same before the step: a region of its own, where none is a zero however many there are in the step. */
    R(PRE_STEP_H2D,      true,  true,     IN,    ZERO, ZERO, ZERO, ZERO),
    R(PRE_STEP_H2D,      true,  true,     PRE,   HERE, EVNT, CAPT, HERE),
    R(PRE_STEP_H2D,      true,  true,     BOTH,  HERE, EVNT, CAPT, HERE),
    R(PRE_STEP_H2D,      true,  true,     NEVER, ZERO, ZERO, ZERO, ZERO),
    R(PRE_STEP_H2D,      true,  false,    IN,    NOOB, NOOB, NOOB, NOOB),
    R(PRE_STEP_H2D,      true,  false,    PRE,   HAND, EVNT, CAPT, HAND),
    R(PRE_STEP_H2D,      true,  false,    BOTH,  HAND, EVNT, CAPT, HAND),
    R(PRE_STEP_H2D,      true,  false,    NEVER, NOOB, NOOB, NOOB, NOOB),
    R(PRE_STEP_H2D,      false, false,    NEVER, NOGP, NOGP, NOGP, NOGP),

    /* Forward must occur in every step: none is no zero. */
    R(FORWARD,           true,  true,     IN,    HERE, EVNT, CAPT, HERE),
    R(FORWARD,           true,  true,     PRE,   ELSE, ELSE, ELSE, ELSE),
    R(FORWARD,           true,  true,     BOTH,  PART, EVNT, CAPT, PART),
    R(FORWARD,           true,  true,     NEVER, NEVR, NEVR, NEVR, NEVR),
    R(FORWARD,           true,  false,    IN,    HERE, EVNT, CAPT, HERE), /* bracketed by hand */
    R(FORWARD,           true,  false,    NEVER, NOHK, NOHK, NOHK, NOHK),
    R(FORWARD,           false, true,     IN,    HERE, RECS, HERE, HERE),
    R(FORWARD,           false, true,     PRE,   ELSE, ELSE, ELSE, ELSE),
    R(FORWARD,           false, true,     BOTH,  PART, RECS, PART, PART),
    R(FORWARD,           false, true,     NEVER, NEVR, RECS, NEVR, NEVR),
    R(FORWARD,           false, false,    IN,    HERE, RECS, HERE, HERE),
    R(FORWARD,           false, false,    NEVER, NOHK, NOHK, NOHK, NOHK),

    /* The optimizer occurs when it occurs: none is a zero where its hook was. */
    R(OPTIMIZER,         true,  true,     IN,    HERE, EVNT, CAPT, HERE),
    R(OPTIMIZER,         true,  true,     PRE,   ELSE, ELSE, ELSE, ELSE),
    R(OPTIMIZER,         true,  true,     BOTH,  PART, EVNT, CAPT, PART),
    R(OPTIMIZER,         true,  true,     NEVER, ZERO, ZERO, ZERO, ZERO),
    R(OPTIMIZER,         true,  false,    NEVER, NOHK, NOHK, NOHK, NOHK),
    R(OPTIMIZER,         false, true,     IN,    HERE, RECS, HERE, HERE),
    R(OPTIMIZER,         false, true,     NEVER, ZERO, RECS, ZERO, ZERO),
    R(OPTIMIZER,         false, false,    NEVER, NOHK, NOHK, NOHK, NOHK),

    /* A fetch belongs to the region that it is in: two metrics. */
    R(INPUT_WAIT,        true,  true,     IN,    ZERO, ZERO, ZERO, ZERO),
    R(INPUT_WAIT,        true,  true,     PRE,   HERE, EVNT, CAPT, HERE),
    R(INPUT_WAIT,        true,  true,     BOTH,  HERE, EVNT, CAPT, HERE),
    R(INPUT_WAIT,        true,  true,     NEVER, ZERO, ZERO, ZERO, ZERO),
    R(INPUT_WAIT,        true,  false,    NEVER, NOHK, NOHK, NOHK, NOHK),
    R(INPUT_WAIT,        false, true,     PRE,   HERE, RECS, HERE, HERE),
    R(INPUT_WAIT,        false, true,     NEVER, ZERO, RECS, ZERO, ZERO),
    R(INPUT_WAIT,        false, false,    NEVER, NOHK, NOHK, NOHK, NOHK),
    R(IN_STEP_INPUT_WAIT, true, true,     IN,    HERE, EVNT, CAPT, HERE),
    R(IN_STEP_INPUT_WAIT, true, true,     PRE,   ZERO, ZERO, ZERO, ZERO),
    R(IN_STEP_INPUT_WAIT, true, true,     BOTH,  HERE, EVNT, CAPT, HERE),
    R(IN_STEP_INPUT_WAIT, true, true,     NEVER, ZERO, ZERO, ZERO, ZERO),
    R(IN_STEP_INPUT_WAIT, true, false,    NEVER, NOHK, NOHK, NOHK, NOHK),
    R(IN_STEP_INPUT_WAIT, false, true,    IN,    HERE, RECS, HERE, HERE),
    R(IN_STEP_INPUT_WAIT, false, true,    PRE,   ZERO, RECS, ZERO, ZERO),
/* clang-format on */
#undef R
};

/* ---- Making the combination ---- */

static unsigned phase_of(enum tml_metric metric)
{
    return (unsigned)__builtin_ctz(tml_metrics[metric].pre | tml_metrics[metric].in);
}

static bool looks_in_step(enum tml_metric metric)
{
    return tml_metrics[metric].in;
}

/* A healthy step, with the phase in the regions asked for and nowhere else. */
static struct tml_step_row row_of(uint64_t step, unsigned phase, enum place place, enum condition condition, bool gpu)
{
    struct tml_step_row row = gpu ? fixture_gpu_row(step, &fixture_healthy, &fixture_healthy)
                                  : fixture_row(step, &fixture_healthy),
                        empty;
    enum tml_clock clock = gpu ? TML_CLOCK_GPU : TML_CLOCK_CPU;
    tml_step_row_clear(&empty);
    for (unsigned region = 0; region < TML_REGIONS; region++)
        row.cell[region][phase] = empty.cell[region][phase];
    if (place == IN || place == BOTH)
        fixture_put(&row, TML_REGION_IN, phase, clock, IN_US);
    if (place == PRE || place == BOTH)
        fixture_put(&row, TML_REGION_PRE, phase, clock, PRE_US);
    if (gpu && condition == LOST)
        fixture_lose_gpu(&row, TML_REASON_EVENTS_LOST);
    if (gpu && condition == CAPTURED)
        fixture_lose_gpu(&row, TML_REASON_GRAPH_CAPTURE);
    if (!gpu && condition == LOST)
        row.flags |= TML_STEP_FLAG_PARTIAL;
    return row;
}

static struct tml_metric_status status_of(size_t index, enum condition condition)
{
    enum tml_metric metric = table[index].metric;
    unsigned phase = phase_of(metric);
    enum tml_clock clock = table[index].gpu ? TML_CLOCK_GPU : TML_CLOCK_CPU;
    struct tml_instruments instruments = {
        .armed = phase != TRACEML_PHASE_H2D && table[index].installed ? 1u << phase : 0,
        .seen = table[index].place != NEVER ? 1u << phase : 0,
        .cuda = table[index].gpu,
        .observes_copies = phase == TRACEML_PHASE_H2D && table[index].installed,
    };
    struct tml_tally tally = {0};
    for (uint64_t step = 2; step < 2 + STEPS; step++) {
        if (condition == SAMPLED && step % 2)
            continue;
        struct tml_step_row row = row_of(step, phase, table[index].place, condition, table[index].gpu);
        struct tml_sample sample = tml_metric_sample(metric, &row, clock, &instruments);
        tml_tally_add(&tally, metric, &row, &instruments, &sample);
    }
    return tml_tally_status(&tally);
}

static const char *const condition_names[] = {"whole", "lost", "captured", "sampled"};
static const char *const place_names[] = {"never", "in the step", "before it", "both"};

static void describe(size_t index, enum condition condition, const struct tml_metric_status *status)
{
    print_error("%s, %s, %s, %s, %s: expected %s, is %lld ns, %s, %s, %s\n", tml_metrics[table[index].metric].key,
                table[index].gpu ? "GPU" : "no GPU", table[index].installed ? "installed" : "not installed",
                place_names[table[index].place], condition_names[condition],
                outcomes[table[index].expected[condition]].name, (long long)status->value_ns,
                tml_availability_key(status->availability), tml_coverage_key(status->coverage),
                tml_reason_key(status->reason));
}

static int64_t expected_value_ns(size_t index, enum outcome outcome)
{
    if (!outcomes[outcome].has_value)
        return TML_NS_NONE;
    return outcome == ZERO ? 0 : looks_in_step(table[index].metric) ? IN_US * 1000 : PRE_US * 1000;
}

static bool is_as_expected(size_t index, enum condition condition, const struct tml_metric_status *status)
{
    enum outcome outcome = table[index].expected[condition];
    uint64_t steps = condition == SAMPLED ? STEPS / 2 : STEPS;
    uint64_t pre = table[index].place == PRE || table[index].place == BOTH ? steps : 0;
    uint64_t in = table[index].place == IN || table[index].place == BOTH ? steps : 0;
    return status->value_ns == expected_value_ns(index, outcome) &&
           status->availability == outcomes[outcome].availability && status->coverage == outcomes[outcome].coverage &&
           status->reason == outcomes[outcome].reason && status->steps_expected == steps &&
           status->occurrences[TML_REGION_PRE] == pre && status->occurrences[TML_REGION_IN] == in;
}

static void every_combination_has_the_state_of_the_table(void **state)
{
    unsigned wrong = 0;
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        for (unsigned condition = 0; condition < CONDITIONS; condition++) {
            struct tml_metric_status status = status_of(i, (enum condition)condition);
            if (is_as_expected(i, (enum condition)condition, &status))
                continue;
            describe(i, (enum condition)condition, &status);
            wrong++;
        }
    assert_int_equal(wrong, 0);
}

/* What holds for all of them, whatever the table says. */
static void a_state_keeps_its_promises(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        for (unsigned condition = 0; condition < CONDITIONS; condition++) {
            struct tml_metric_status status = status_of(i, (enum condition)condition);
            bool null = status.value_ns == TML_NS_NONE;
            if (status.availability != TML_AVAILABLE) { /* null, and where it would be is not known */
                assert_true(null);
                assert_int_equal(status.coverage, TML_COVERAGE_UNKNOWN);
            }
            if (status.coverage == TML_COVERAGE_OUTSIDE_WINDOW)
                assert_true(null);
            if (null || status.coverage != TML_COVERAGE_IN_WINDOW) /* no hole without its reason */
                assert_int_not_equal(status.reason, TML_REASON_NONE);
            if (!null && status.value_ns == 0) /* only where somebody watched and nothing was lost */
                assert_true(table[i].installed && status.coverage == TML_COVERAGE_IN_WINDOW);
            if (null)
                assert_false(tml_metric_usable(&status));
        }
}

/* Below 5 % of the steps a loss lowers the coverage; above, the mean stands for too little. */
static void losses_below_five_percent_of_the_steps_leave_a_value(void **state)
{
    static const struct tml_instruments instruments = {.armed = TML_BIT_FORWARD | TML_BIT_OPTIMIZER};
    static const enum tml_metric metrics[] = {TML_METRIC_FORWARD, TML_METRIC_OPTIMIZER};
    (void)state;
    for (unsigned m = 0; m < 2; m++)
        for (uint64_t lossy = 1; lossy <= 3; lossy++) {
            struct tml_tally tally = {0};
            for (uint64_t step = 2; step < 2 + STEPS; step++) {
                struct tml_step_row row = fixture_row(step, &fixture_healthy);
                row.flags |= step < 2 + lossy ? TML_STEP_FLAG_PARTIAL : 0;
                struct tml_sample sample = tml_metric_sample(metrics[m], &row, TML_CLOCK_CPU, &instruments);
                tml_tally_add(&tally, metrics[m], &row, &instruments, &sample);
            }
            struct tml_metric_status status = tml_tally_status(&tally);
            bool enough = lossy <= STEPS / 20;
            assert_int_equal(status.availability, enough ? TML_AVAILABLE : TML_UNAVAILABLE);
            assert_int_equal(status.coverage, enough ? TML_COVERAGE_PARTIAL : TML_COVERAGE_UNKNOWN);
            assert_int_equal(status.reason, TML_REASON_RECORDS_LOST);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_combination_has_the_state_of_the_table),
        cmocka_unit_test(a_state_keeps_its_promises),
        cmocka_unit_test(losses_below_five_percent_of_the_steps_leave_a_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
