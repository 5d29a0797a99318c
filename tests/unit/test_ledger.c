/* The ledger against timelines whose gaps are known because the test put them there. */
#include "ledger_fixture.h"

static void an_ordinary_step_is_taken_apart(void **state)
{
    (void)state;
    struct tml_ledger_span spans[] = {
        span(TRACEML_PHASE_STEP, 150, 300),      span(TRACEML_PHASE_DATALOADER_FETCH, 110, 140),
        span(TRACEML_PHASE_FORWARD, 160, 200),   span(TRACEML_PHASE_BACKWARD, 200, 260),
        span(TRACEML_PHASE_OPTIMIZER, 265, 290),
    };
    tml_ledger_close(&ledger, spans, 5, 100, 150, 300, 0);
    assert_int_equal(ledger.iteration_ns, 200);
    assert_int_equal(ledger.traced_step_ns, 150);
    assert_int_equal(exclusive(PRE, TRACEML_PHASE_DATALOADER_FETCH), 30);
    assert_int_equal(ledger.pre_step_other_ns, 20);
    assert_int_equal(exclusive(IN, TRACEML_PHASE_FORWARD), 40);
    assert_int_equal(exclusive(IN, TRACEML_PHASE_BACKWARD), 60);
    assert_int_equal(exclusive(IN, TRACEML_PHASE_OPTIMIZER), 25);
    assert_int_equal(ledger.residual_ns, 25);
    assert_closed();
}

static void a_span_inside_another_is_taken_out_of_it(void **state)
{
    (void)state;
    struct tml_ledger_span spans[] = {
        span(TRACEML_PHASE_H2D, 20, 30),
        span(TRACEML_PHASE_FORWARD, 10, 60),
        span(TRACEML_PHASE_STEP, 0, 100),
    };
    tml_ledger_close(&ledger, spans, 3, 0, 0, 100, 0);
    assert_int_equal(exclusive(IN, TRACEML_PHASE_FORWARD), 40);
    assert_int_equal(ledger.inclusive_ns[IN][TRACEML_PHASE_FORWARD], 50);
    assert_int_equal(exclusive(IN, TRACEML_PHASE_H2D), 10);
    assert_closed();
}

static void spans_of_one_phase_count_once(void **state)
{
    (void)state;
    struct tml_ledger_span spans[] = {
        span(TRACEML_PHASE_STEP, 0, 100),
        span(TRACEML_PHASE_FORWARD, 10, 60),
        span(TRACEML_PHASE_FORWARD, 20, 50),
    };
    tml_ledger_close(&ledger, spans, 3, 0, 0, 100, 0);
    assert_int_equal(exclusive(IN, TRACEML_PHASE_FORWARD), 50);
    assert_int_equal(ledger.inclusive_ns[IN][TRACEML_PHASE_FORWARD], 50);
    assert_closed();
}

static struct tml_ledger_span named(unsigned name, int64_t begin_ns, int64_t end_ns)
{
    struct tml_ledger_span its = span(TRACEML_PHASE_USER, begin_ns, end_ns);
    its.name = (uint8_t)name;
    return its;
}

static void own_spans_nest_by_name(void **state)
{
    (void)state;
    struct tml_ledger_span spans[] = {
        named(1, 10, 90),                    /* around the step's begin */
        named(2, 20, 40),                    /* inside it */
        named(1, 25, 30),                    /* inside both: of its own name it is not the outermost */
        span(TRACEML_PHASE_FORWARD, 60, 80), /* taken out of the first */
        span(TRACEML_PHASE_STEP, 50, 100),
    };
    tml_ledger_close(&ledger, spans, 5, 0, 50, 100, 0);
    assert_int_equal(ledger.named_exclusive_ns[PRE][1], 10 + 5 + 10);
    assert_int_equal(ledger.named_exclusive_ns[PRE][2], 15);
    assert_int_equal(ledger.named_inclusive_ns[PRE][1], 40);
    assert_int_equal(ledger.named_inclusive_ns[IN][1], 40);
    assert_int_equal(ledger.named_inclusive_ns[PRE][2], 20);
    assert_int_equal(exclusive(PRE, TRACEML_PHASE_USER), 40);
    assert_int_equal(ledger.inclusive_ns[PRE][TRACEML_PHASE_USER], 40);
    assert_int_equal(exclusive(IN, TRACEML_PHASE_FORWARD), 20);
    assert_closed();
}

static void what_happens_inside_an_evaluation_stays_there(void **state)
{
    (void)state;
    struct tml_ledger_span spans[] = {
        span(TRACEML_PHASE_EVALUATION, 10, 80),
        span(TRACEML_PHASE_DATALOADER_FETCH, 20, 30),
        span(TRACEML_PHASE_FORWARD, 30, 70),
        span(TRACEML_PHASE_STEP, 100, 200),
    };
    tml_ledger_close(&ledger, spans, 4, 0, 100, 200, 0);
    assert_int_equal(exclusive(PRE, TRACEML_PHASE_EVALUATION), 70);
    assert_int_equal(exclusive(PRE, TRACEML_PHASE_DATALOADER_FETCH), 0);
    assert_int_equal(exclusive(PRE, TRACEML_PHASE_FORWARD), 0);
    assert_int_equal(ledger.pre_step_other_ns, 30);
    assert_closed();
}

static void the_first_iteration_has_no_beginning(void **state)
{
    (void)state;
    struct tml_ledger_span spans[] = {
        span(TRACEML_PHASE_DATALOADER_FETCH, 10, 40),
        span(TRACEML_PHASE_STEP, 50, 90),
    };
    spans[0].before_begin_ns = spans[1].before_begin_ns = 5;
    tml_ledger_close(&ledger, spans, 2, TML_NS_NONE, 50, 90, 7);
    assert_true(ledger.iteration_ns == TML_NS_NONE);
    assert_true(ledger.pre_step_other_ns == TML_NS_NONE);
    assert_int_equal(exclusive(PRE, TRACEML_PHASE_DATALOADER_FETCH), 30);
    assert_int_equal(ledger.residual_ns, 40);
}

static void our_own_cost_is_taken_out_of_what_it_fell_into(void **state)
{
    (void)state;
    struct tml_ledger_span spans[] = {
        span(TRACEML_PHASE_STEP, 100, 200), span(TRACEML_PHASE_FORWARD, 120, 160),
        span(TRACEML_PHASE_BACKWARD, 162, 180), /* 2 between them, but 3 + 4 of cost: never more than was there */
    };
    for (unsigned i = 0; i < 3; i++) {
        spans[i].before_begin_ns = 3;
        spans[i].after_end_ns = 4;
    }
    tml_ledger_close(&ledger, spans, 3, 50, 100, 200, 4);
    assert_int_equal(ledger.exclusive_ns[PRE][TML_LEDGER_INSTRUMENTATION], 7);
    assert_int_equal(ledger.exclusive_ns[IN][TML_LEDGER_INSTRUMENTATION], 3 + 2 + 4);
    assert_int_equal(exclusive(IN, TRACEML_PHASE_FORWARD), 40);
    assert_int_equal(exclusive(IN, TRACEML_PHASE_BACKWARD), 18);
    assert_int_equal(ledger.residual_ns, 100 - 58 - 9);
    assert_closed();
}

static void parts_longer_than_the_whole_are_a_negative_remainder(void **state)
{
    (void)state;
    /* The previous step ended after this one began, as on a device's other stream. */
    struct tml_ledger_span spans[] = {span(TRACEML_PHASE_STEP, 100, 200)};
    tml_ledger_close(&ledger, spans, 1, 130, 100, 200, 0);
    assert_int_equal(ledger.pre_step_other_ns, -30);
}

static void a_span_around_several_steps_is_cut_at_the_ends_of_the_iteration(void **state)
{
    (void)state;
    struct tml_ledger_span spans[] = {
        span(TRACEML_PHASE_STEP, 150, 200), span(TRACEML_PHASE_USER, 20, 5000), span(TRACEML_PHASE_FORWARD, 160, 180),
        span(TRACEML_PHASE_H2D, 300, 310), /* of a later one */
    };
    tml_ledger_close(&ledger, spans, 4, 100, 150, 200, 0);
    assert_int_equal(exclusive(PRE, TRACEML_PHASE_USER), 50);
    assert_int_equal(exclusive(IN, TRACEML_PHASE_USER), 0);
    assert_int_equal(exclusive(IN, TRACEML_PHASE_FORWARD), 20);
    assert_int_equal(exclusive(IN, TRACEML_PHASE_H2D), 0);
    assert_int_equal(ledger.residual_ns, 30);
    assert_int_equal(ledger.pre_step_other_ns, 0);
    assert_closed();
}

static void a_step_inside_an_evaluation_is_still_a_step(void **state)
{
    (void)state;
    struct tml_ledger_span spans[] = {
        span(TRACEML_PHASE_EVALUATION, 10, 300),
        span(TRACEML_PHASE_STEP, 100, 200),
        span(TRACEML_PHASE_FORWARD, 120, 160),
    };
    tml_ledger_close(&ledger, spans, 3, 0, 100, 200, 0);
    assert_int_equal(exclusive(PRE, TRACEML_PHASE_EVALUATION), 90);
    assert_int_equal(exclusive(IN, TRACEML_PHASE_EVALUATION), 0);
    assert_int_equal(exclusive(IN, TRACEML_PHASE_FORWARD), 40);
    assert_int_equal(ledger.residual_ns, 60);
    assert_closed();
}

static void an_evaluation_s_forward_is_in_no_inclusive_time_either(void **state)
{
    (void)state;
    struct tml_ledger_span spans[] = {
        span(TRACEML_PHASE_STEP, 0, 100),
        span(TRACEML_PHASE_FORWARD, 10, 30),
        span(TRACEML_PHASE_EVALUATION, 40, 90),
        span(TRACEML_PHASE_FORWARD, 50, 80),
    };
    tml_ledger_close(&ledger, spans, 4, 0, 0, 100, 0);
    assert_int_equal(ledger.inclusive_ns[IN][TRACEML_PHASE_FORWARD], 20);
    assert_int_equal(ledger.inclusive_ns[IN][TRACEML_PHASE_EVALUATION], 50);
    assert_closed();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_ordinary_step_is_taken_apart),
        cmocka_unit_test(a_span_inside_another_is_taken_out_of_it),
        cmocka_unit_test(spans_of_one_phase_count_once),
        cmocka_unit_test(own_spans_nest_by_name),
        cmocka_unit_test(what_happens_inside_an_evaluation_stays_there),
        cmocka_unit_test(the_first_iteration_has_no_beginning),
        cmocka_unit_test(our_own_cost_is_taken_out_of_what_it_fell_into),
        cmocka_unit_test(parts_longer_than_the_whole_are_a_negative_remainder),
        cmocka_unit_test(a_span_around_several_steps_is_cut_at_the_ends_of_the_iteration),
        cmocka_unit_test(a_step_inside_an_evaluation_is_still_a_step),
        cmocka_unit_test(an_evaluation_s_forward_is_in_no_inclusive_time_either),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
