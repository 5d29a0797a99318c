/* metric: value, availability, coverage and reason of every metric, for every way in which a signal can be there or
 * not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "metric.h"
#include "run_fixture.h"

#define STEPS 30
#define SAME_REASON(status, expected) assert_string_equal(tml_reason_key((status).reason), tml_reason_key(expected))

static const uint32_t all_hooks =
    TML_BIT_FETCH | TML_BIT_COMPUTE | TML_BIT_EVALUATION | TML_BIT_CHECKPOINT | TML_BIT_USER;

/* The status of a metric over steps 2 to 31, of which `make` made the rows. */
typedef struct tml_step_row make_row(uint64_t step);

static struct tml_metric_status status_of(enum tml_metric metric, make_row *make, enum tml_clock clock,
                                          struct tml_instruments instruments)
{
    struct tml_tally tally = {0};
    for (uint64_t step = 2; step < 2 + STEPS; step++) {
        struct tml_step_row row = make(step);
        for (unsigned region = 0; region < TML_REGIONS; region++)
            for (unsigned phase = 0; phase < TRACEML_PHASE_COUNT; phase++)
                instruments.seen |= (row.cell[region][phase].count > 0) << phase;
    }
    for (uint64_t step = 2; step < 2 + STEPS; step++) {
        struct tml_step_row row = make(step);
        struct tml_sample sample = tml_metric_sample(metric, &row, clock, &instruments);
        tml_tally_add(&tally, metric, &row, &instruments, &sample);
    }
    return tml_tally_status(&tally);
}

static void assert_status(struct tml_metric_status status, int64_t value_ns, enum tml_availability availability,
                          enum tml_coverage coverage, enum tml_reason reason)
{
    assert_int_equal(status.value_ns, value_ns);
    assert_string_equal(tml_availability_key(status.availability), tml_availability_key(availability));
    assert_string_equal(tml_coverage_key(status.coverage), tml_coverage_key(coverage));
    SAME_REASON(status, reason);
    assert_int_equal(status.steps_expected, STEPS);
}

static const struct tml_instruments cpu = {.armed = all_hooks};
static const struct tml_instruments gpu = {.armed = all_hooks, .cuda = true};
static const struct tml_instruments producer = {.armed = all_hooks, .elsewhere = TML_BIT_FETCH};
static const struct tml_instruments by_hand = {.armed = all_hooks, .seen = TML_BIT_H2D, .cuda = true};
static const struct tml_instruments observed = {.armed = all_hooks, .cuda = true, .observes_copies = true};

/* ---- Rows ---- */

static struct tml_step_row healthy(uint64_t step)
{
    return fixture_gpu_row(step, &fixture_healthy, &fixture_healthy);
}

static struct tml_step_row on_cpu(uint64_t step)
{
    return fixture_row(step, &fixture_healthy);
}

static struct tml_step_row with(uint64_t step, int64_t pre_h2d, int64_t h2d)
{
    struct fixture_times times = fixture_healthy;
    times.pre_h2d = pre_h2d;
    times.h2d = h2d;
    return fixture_gpu_row(step, &times, &times);
}

static struct tml_step_row copies_in_step(uint64_t step)
{
    return with(step, FIXTURE_ABSENT, 1500);
}

static struct tml_step_row copies_before_step(uint64_t step)
{
    return with(step, 1740, FIXTURE_ABSENT);
}

static struct tml_step_row copies_in_both(uint64_t step)
{
    return with(step, 1740, 1500);
}

/* As the step table makes it: no device time in the cell, and what ran elsewhere beside it. */
static struct tml_step_row copies_beside_step(uint64_t step)
{
    struct tml_step_row row = with(step, FIXTURE_ABSENT, 1500);
    struct tml_cell *cell = &row.cell[TML_REGION_IN][TRACEML_PHASE_H2D];
    cell->exclusive_ns[TML_CLOCK_GPU] = cell->inclusive_ns[TML_CLOCK_GPU] = TML_NS_NONE;
    row.beside[TML_REGION_IN][TRACEML_PHASE_H2D] = (struct tml_beside){1, 1200000, 900000};
    return row;
}

static struct tml_step_row copies_on_both_streams(uint64_t step)
{
    struct tml_step_row row = with(step, FIXTURE_ABSENT, 1500);
    row.cell[TML_REGION_IN][TRACEML_PHASE_H2D].count = 2;
    row.beside[TML_REGION_IN][TRACEML_PHASE_H2D] = (struct tml_beside){1, 1200000, 900000};
    return row;
}

static struct tml_step_row without(uint64_t step, unsigned phase)
{
    struct tml_step_row row = healthy(step), empty;
    tml_step_row_clear(&empty);
    row.cell[TML_REGION_IN][phase] = empty.cell[TML_REGION_IN][phase];
    return row;
}

static struct tml_step_row forward_never(uint64_t step)
{
    return without(step, TRACEML_PHASE_FORWARD);
}

static struct tml_step_row forward_once(uint64_t step)
{
    return step == 17 ? healthy(step) : forward_never(step);
}

static struct tml_step_row forward_zero(uint64_t step)
{
    struct fixture_times times = fixture_healthy;
    times.forward = 0;
    return fixture_row(step, &times);
}

static struct tml_step_row forward_before_step(uint64_t step)
{
    struct tml_step_row row = healthy(step), empty;
    tml_step_row_clear(&empty);
    row.cell[TML_REGION_PRE][TRACEML_PHASE_FORWARD] = row.cell[TML_REGION_IN][TRACEML_PHASE_FORWARD];
    row.cell[TML_REGION_IN][TRACEML_PHASE_FORWARD] = empty.cell[TML_REGION_IN][TRACEML_PHASE_FORWARD];
    return row;
}

static struct tml_step_row optimizer_every_third(uint64_t step)
{
    return step % 3 ? without(step, TRACEML_PHASE_OPTIMIZER) : healthy(step);
}

static struct tml_step_row optimizer_never(uint64_t step)
{
    return without(step, TRACEML_PHASE_OPTIMIZER);
}

static struct tml_step_row fetch_never(uint64_t step)
{
    struct fixture_times times = fixture_healthy;
    times.wait = FIXTURE_ABSENT;
    return fixture_row(step, &times);
}

static struct tml_step_row fetch_on_another_thread(uint64_t step)
{
    struct tml_step_row row = fetch_never(step);
    row.cell[TML_REGION_PRE][TRACEML_PHASE_DATALOADER_FETCH].count = 2;
    row.cell[TML_REGION_PRE][TRACEML_PHASE_DATALOADER_FETCH].other_count = 2;
    return row;
}

static struct tml_step_row tie_not_written(uint64_t step)
{
    struct tml_step_row row = healthy(step), empty;
    tml_step_row_clear(&empty);
    row.lead = empty.lead;
    return row;
}

static struct tml_step_row never_tied(uint64_t step)
{
    struct tml_step_row row = tie_not_written(step);
    row.lead.reason = TML_REASON_NO_CLOCK_TIE;
    return row;
}

static struct tml_step_row tied_but_once(uint64_t step)
{
    return step == 17 ? never_tied(step) : healthy(step);
}

static struct tml_step_row lead_without_forward(uint64_t step)
{
    struct tml_step_row row = forward_never(step);
    row.lead.ns[TML_BOUNDARY_FORWARD_BEGIN] = row.lead.ns[TML_BOUNDARY_FORWARD_END] = TML_NS_NONE;
    return row;
}

/* A producer's fetches in some steps, none in others. */
static struct tml_step_row fetch_now_and_then_elsewhere(uint64_t step)
{
    return step % 2 ? fetch_on_another_thread(step) : fetch_never(step);
}

/* Beside those, the step's own. */
static struct tml_step_row fetch_here_and_elsewhere(uint64_t step)
{
    struct tml_step_row row = on_cpu(step);
    row.cell[TML_REGION_PRE][TRACEML_PHASE_DATALOADER_FETCH].count += 2;
    row.cell[TML_REGION_PRE][TRACEML_PHASE_DATALOADER_FETCH].other_count = 2;
    return row;
}

static struct tml_step_row optimizer_skipped_once(uint64_t step)
{
    struct tml_step_row row = step == 5 ? without(step, TRACEML_PHASE_OPTIMIZER) : healthy(step);
    row.flags |= step == 5 ? TML_STEP_FLAG_OPTIMIZER_SKIPPED : 0;
    return row;
}

static struct tml_step_row optimizer_always_skipped(uint64_t step)
{
    struct tml_step_row row = without(step, TRACEML_PHASE_OPTIMIZER);
    row.flags |= TML_STEP_FLAG_OPTIMIZER_SKIPPED;
    return row;
}

static struct tml_step_row forward_on_another_thread(uint64_t step)
{
    struct tml_step_row row = forward_never(step);
    row.cell[TML_REGION_IN][TRACEML_PHASE_FORWARD].count = 1;
    row.cell[TML_REGION_IN][TRACEML_PHASE_FORWARD].other_count = 1;
    return row;
}

static struct tml_step_row events_lost(uint64_t step)
{
    struct tml_step_row row = healthy(step);
    fixture_lose_gpu(&row, step % 3 ? TML_REASON_EVENTS_LOST : TML_REASON_TIMED_OUT);
    return row;
}

static struct tml_step_row one_step_lost(uint64_t step)
{
    struct tml_step_row row = healthy(step);
    if (step == 9)
        fixture_lose_gpu(&row, TML_REASON_EVENTS_LOST);
    return row;
}

static struct tml_step_row capturing(uint64_t step)
{
    struct tml_step_row row = healthy(step);
    fixture_lose_gpu(&row, TML_REASON_GRAPH_CAPTURE);
    return row;
}

static struct tml_step_row records_lost(uint64_t step)
{
    struct tml_step_row row = on_cpu(step);
    row.flags |= step == 9 ? TML_STEP_FLAG_PARTIAL : 0;
    return row;
}

/* ---- The table: one row per combination ---- */

static const struct {
    const char *what;
    enum tml_metric metric;
    make_row *make;
    enum tml_clock clock;
    const struct tml_instruments *instruments;
    int64_t value_us; /* -1: null */
    enum tml_availability availability;
    enum tml_coverage coverage;
    enum tml_reason reason;
} combinations[] = {
#define R(what, metric, make, clock, instruments, value, availability, coverage, reason)                               \
    {what,                                                                                                             \
     TML_METRIC_##metric,                                                                                              \
     make,                                                                                                             \
     TML_CLOCK_##clock,                                                                                                \
     instruments,                                                                                                      \
     value,                                                                                                            \
     TML_##availability,                                                                                               \
     TML_COVERAGE_##coverage,                                                                                          \
     TML_REASON_##reason},
    /* H2D */
    R("no GPU", H2D, on_cpu, CPU, &cpu, -1, NOT_APPLICABLE, UNKNOWN,
      NO_CUDA) R("no observer", H2D, healthy, GPU, &gpu, -1, UNAVAILABLE, UNKNOWN, OBSERVER_MISSING)
        R("no observer, CPU clock", H2D, healthy, CPU, &gpu, -1, UNAVAILABLE, UNKNOWN,
          OBSERVER_MISSING) R("watched, in the step", H2D, copies_in_step, GPU, &observed, 1500, AVAILABLE, IN_WINDOW,
                              NONE) R("watched, before the step", H2D, copies_before_step, GPU, &observed, -1,
                                      AVAILABLE, OUTSIDE_WINDOW, PRE_STEP)
            R("watched, before, its time", PRE_STEP_H2D, copies_before_step, GPU, &observed, 1740, AVAILABLE, IN_WINDOW,
              NONE) R("watched, both", H2D, copies_in_both, GPU, &observed, 1500, AVAILABLE, PARTIAL, PRE_STEP)
                R("watched, both, before", PRE_STEP_H2D, copies_in_both, GPU, &observed, 1740, AVAILABLE, IN_WINDOW,
                  NONE) R("watched, never", H2D, healthy, GPU, &observed, 0, AVAILABLE, IN_WINDOW, NEVER_OBSERVED)
                    R("watched, never, before", PRE_STEP_H2D, healthy, GPU, &observed, 0, AVAILABLE, IN_WINDOW,
                      NEVER_OBSERVED) R("bracketed by hand", H2D, copies_in_step, GPU, &gpu, 1500, AVAILABLE, UNKNOWN,
                                        OBSERVER_MISSING)
                        R("watched, lost", H2D, events_lost, GPU, &observed, 0, AVAILABLE, IN_WINDOW, NEVER_OBSERVED)
                            R("beside", H2D, copies_beside_step, GPU, &observed, -1, AVAILABLE, OUTSIDE_WINDOW,
                              OTHER_STREAM) R("beside, on the host", H2D, copies_beside_step, CPU, &observed, 1500,
                                              AVAILABLE, IN_WINDOW, NONE)
                                R("beside, and here", H2D, copies_on_both_streams, GPU, &observed, 1500, AVAILABLE,
                                  PARTIAL, OTHER_STREAM) R("beside, residual", RESIDUAL, copies_beside_step, GPU,
                                                           &observed, 2000, AVAILABLE, IN_WINDOW, NONE)
    /* Forward: must occur */
    R("whole", FORWARD, healthy, GPU, &gpu, 30000, AVAILABLE, IN_WINDOW,
      NONE) R("whole on the host", FORWARD, on_cpu, CPU, &cpu, 30000, AVAILABLE, IN_WINDOW,
              NONE) R("a true zero", FORWARD, forward_zero, CPU, &cpu, 0, AVAILABLE, IN_WINDOW,
                      NONE) R("never", FORWARD, forward_never, CPU, &cpu, -1, UNAVAILABLE, UNKNOWN, NEVER_OBSERVED)
        R("once", FORWARD, forward_once, CPU, &cpu, 30000, AVAILABLE, PARTIAL, NEVER_OBSERVED)
            R("before the step", FORWARD, forward_before_step, CPU, &cpu, -1, AVAILABLE, OUTSIDE_WINDOW, PRE_STEP)
                R("other thread", FORWARD, forward_on_another_thread, CPU, &cpu, -1, AVAILABLE, OUTSIDE_WINDOW,
                  OTHER_THREAD) R("lost", FORWARD, events_lost, GPU, &gpu, -1, UNAVAILABLE, UNKNOWN, EVENTS_LOST)
                    R("lost in one step", FORWARD, one_step_lost, GPU, &gpu, 30000, AVAILABLE, PARTIAL,
                      EVENTS_LOST) R("captured", FORWARD, capturing, GPU, &gpu, -1, UNAVAILABLE, UNKNOWN, GRAPH_CAPTURE)
                        R("captured, on the host", FORWARD, capturing, CPU, &gpu, 30000, AVAILABLE, IN_WINDOW, NONE)
                            R("records lost", FORWARD, records_lost, CPU, &cpu, 30000, AVAILABLE, PARTIAL, RECORDS_LOST)
                                R("inclusive", FORWARD_INCLUSIVE, healthy, GPU, &gpu, 30000, AVAILABLE, IN_WINDOW, NONE)
    /* Phases that occur when they occur */
    R("every third", OPTIMIZER, optimizer_every_third, CPU, &cpu, 2000, AVAILABLE, IN_WINDOW,
      NONE) R("never, armed", OPTIMIZER, optimizer_never, CPU, &cpu, 0, AVAILABLE, IN_WINDOW,
              NEVER_OBSERVED) R("no fetch", INPUT_WAIT, fetch_never, CPU, &cpu, 0, AVAILABLE, IN_WINDOW, NEVER_OBSERVED)
        R("fetch elsewhere", INPUT_WAIT, fetch_on_another_thread, CPU, &producer, -1, AVAILABLE, OUTSIDE_WINDOW,
          OTHER_THREAD) R("fetch now and then elsewhere", INPUT_WAIT, fetch_now_and_then_elsewhere, CPU, &producer,
                          -1, AVAILABLE, OUTSIDE_WINDOW, OTHER_THREAD)
            R("fetch here beside", INPUT_WAIT, fetch_here_and_elsewhere, CPU, &cpu, 2000, AVAILABLE, IN_WINDOW, NONE)
                R("skipped once", OPTIMIZER, optimizer_skipped_once, CPU, &cpu, 6000, AVAILABLE, PARTIAL,
                  SCALER_SKIPPED) R("always skipped", OPTIMIZER, optimizer_always_skipped, CPU, &cpu, -1, AVAILABLE,
                                    OUTSIDE_WINDOW, SCALER_SKIPPED)
                    R("fetch before", IN_STEP_INPUT_WAIT, on_cpu, CPU, &cpu, 0, AVAILABLE, IN_WINDOW, NEVER_OBSERVED)
                        R("no evaluation", EVALUATION, on_cpu, CPU, &cpu, 0, AVAILABLE, IN_WINDOW, NEVER_OBSERVED)
    /* Sums and remainders */
    R("whole", COMPUTE, healthy, GPU, &gpu, 96000, AVAILABLE, IN_WINDOW,
      NONE) R("a part never", COMPUTE, forward_never, CPU, &cpu, -1, UNAVAILABLE, UNKNOWN, NEVER_OBSERVED)
        R("a part once", COMPUTE, forward_once, CPU, &cpu, 96000, AVAILABLE, PARTIAL, NEVER_OBSERVED)
            R("a part outside", COMPUTE, forward_before_step, CPU, &cpu, 66000, AVAILABLE, PARTIAL,
              PRE_STEP) R("CPU", RESIDUAL, on_cpu, CPU, &cpu, 2000, AVAILABLE, IN_WINDOW, NONE)
                R("by hand before, residual", RESIDUAL, copies_before_step, GPU, &by_hand, -1, UNAVAILABLE, UNKNOWN,
                  OBSERVER_MISSING) R("by hand before, copies", H2D, copies_before_step, GPU, &by_hand, -1, UNAVAILABLE,
                                      UNKNOWN, OBSERVER_MISSING) R("by hand before, their time", PRE_STEP_H2D,
                                                                   copies_before_step, GPU, &by_hand, 1740, AVAILABLE,
                                                                   UNKNOWN, OBSERVER_MISSING)
                    R("by hand in the step, residual", RESIDUAL, copies_in_step, GPU, &by_hand, 2000, AVAILABLE,
                      IN_WINDOW, NONE) R("other, copies unseen", PRE_STEP_OTHER, healthy, GPU, &gpu, 500, AVAILABLE,
                                         UNKNOWN, OBSERVER_MISSING) R("other, copies watched", PRE_STEP_OTHER, healthy,
                                                                      GPU, &observed, 500, AVAILABLE, IN_WINDOW, NONE)
                        R("other, CPU", PRE_STEP_OTHER, on_cpu, CPU, &cpu, 500, AVAILABLE, IN_WINDOW, NONE)
                            R("copies unseen", RESIDUAL, healthy, GPU, &gpu, -1, UNAVAILABLE, UNKNOWN, OBSERVER_MISSING)
                                R("copies unseen, all of it", UNATTRIBUTED, healthy, GPU, &gpu, 2000, AVAILABLE,
                                  IN_WINDOW, NONE) R("copies watched", RESIDUAL, healthy, GPU, &observed, 2000,
                                                     AVAILABLE, IN_WINDOW, NONE)
                                    R("copies outside", RESIDUAL, copies_before_step, GPU, &observed, 2000, AVAILABLE,
                                      IN_WINDOW, NONE) R("forward never", RESIDUAL, forward_never, CPU, &cpu, -1,
                                                         UNAVAILABLE, UNKNOWN, NEVER_OBSERVED)
                                        R("forward outside", RESIDUAL, forward_before_step, CPU, &cpu, 2000, AVAILABLE,
                                          IN_WINDOW, NONE)
                                            R("step", STEP_TIME, healthy, GPU, &gpu, 100000, AVAILABLE, IN_WINDOW, NONE)
                                                R("step without fetch", STEP_TIME, fetch_never, CPU, &cpu, 98000,
                                                  AVAILABLE, IN_WINDOW, NONE)
    /* Clocks that are named */
    R("GPU on a CPU run", STEP_TIME_GPU, on_cpu, CPU, &cpu, -1, NOT_APPLICABLE, UNKNOWN,
      NO_CUDA) R("GPU beside CPU", STEP_TIME_GPU, healthy, CPU, &gpu, 100000, AVAILABLE, IN_WINDOW, NONE)
        R("GPU lost", TRACED_STEP_TIME_GPU, events_lost, CPU, &gpu, -1, UNAVAILABLE, UNKNOWN,
          EVENTS_LOST) R("CPU beside GPU", STEP_TIME_CPU, healthy, GPU, &gpu, 100000, AVAILABLE, IN_WINDOW, NONE)
            R("lead without a GPU", DEVICE_LEAD, on_cpu, CPU, &cpu, -1, NOT_APPLICABLE, UNKNOWN,
              NO_CUDA) R("lead with one", DEVICE_LEAD, healthy, GPU, &gpu, 11000, AVAILABLE, IN_WINDOW, NONE)
                R("lead on the other clock", DEVICE_LEAD, healthy, CPU, &gpu, 11000, AVAILABLE, IN_WINDOW, NONE)
                    R("lead before any tie", DEVICE_LEAD, never_tied, GPU, &gpu, -1, UNAVAILABLE, UNKNOWN, NO_CLOCK_TIE)
                        R("lead of an older file", DEVICE_LEAD, tie_not_written, GPU, &gpu, -1, UNAVAILABLE, UNKNOWN,
                          NO_CLOCK_TIE) R("lead once refused", DEVICE_LEAD, tied_but_once, GPU, &gpu, 11000, AVAILABLE,
                                          PARTIAL, NO_CLOCK_TIE) R("lead without events", DEVICE_LEAD, events_lost, GPU,
                                                                   &gpu, -1, UNAVAILABLE, UNKNOWN, EVENTS_LOST)
                            R("lead at no forward", DEVICE_LEAD, lead_without_forward, GPU, &gpu, -1, UNAVAILABLE,
                              UNKNOWN, NEVER_OBSERVED)
#undef R
};

static void what_ran_on_another_stream_stands_beside_the_value(void **state)
{
    (void)state;
    struct tml_beside_mean beside = status_of(TML_METRIC_H2D, copies_beside_step, TML_CLOCK_GPU, observed).beside;
    assert_int_equal(beside.count, STEPS);
    assert_int_equal(beside.device_ns, 1200000);
    assert_int_equal(beside.overlap_ns, 900000);
    beside = status_of(TML_METRIC_PRE_STEP_H2D, copies_beside_step, TML_CLOCK_GPU, observed).beside;
    assert_int_equal(beside.count, 0);
    assert_true(beside.device_ns == TML_NS_NONE);
}

static void every_combination_has_its_state(void **state)
{
    (void)state;
    for (unsigned i = 0; i < sizeof combinations / sizeof *combinations; i++) {
        int64_t value_ns = combinations[i].value_us < 0 ? TML_NS_NONE : combinations[i].value_us * 1000;
        struct tml_metric_status status = status_of(combinations[i].metric, combinations[i].make, combinations[i].clock,
                                                    *combinations[i].instruments);
        if (status.value_ns != value_ns || status.availability != combinations[i].availability ||
            status.coverage != combinations[i].coverage || status.reason != combinations[i].reason)
            print_error("%s: %s\n", tml_metrics[combinations[i].metric].key, combinations[i].what);
        assert_status(status, value_ns, combinations[i].availability, combinations[i].coverage, combinations[i].reason);
    }
}

static void a_hook_that_is_not_installed_makes_null_and_not_zero(void **state)
{
    (void)state;
    struct tml_instruments none = {0};
    static const enum tml_metric metrics[] = {TML_METRIC_INPUT_WAIT, TML_METRIC_OPTIMIZER, TML_METRIC_FORWARD};
    for (unsigned i = 0; i < sizeof metrics / sizeof *metrics; i++) {
        struct tml_tally tally = {0};
        for (uint64_t step = 2; step < 2 + STEPS; step++) {
            struct tml_step_row row;
            tml_step_row_clear(&row);
            row.term_ns[TML_CLOCK_CPU][TML_TERM_TRACED_STEP] = 5;
            struct tml_sample sample = tml_metric_sample(metrics[i], &row, TML_CLOCK_CPU, &none);
            tml_tally_add(&tally, metrics[i], &row, &none, &sample);
        }
        assert_status(tml_tally_status(&tally), TML_NS_NONE, TML_UNAVAILABLE, TML_COVERAGE_UNKNOWN,
                      TML_REASON_HOOK_NOT_INSTALLED);
    }
}

/* Nobody can watch for an evaluation but who opens its span. */
static void without_a_span_of_it_an_evaluation_is_null_and_with_one_zeros_count(void **state)
{
    (void)state;
    static const enum tml_metric metrics[] = {TML_METRIC_EVALUATION, TML_METRIC_CHECKPOINT, TML_METRIC_USER_SPANS};
    for (unsigned i = 0; i < sizeof metrics / sizeof *metrics; i++) {
        struct tml_instruments unused = {.armed = all_hooks & ~TML_OCCASIONAL_PHASES};
        struct tml_instruments used = {.armed = unused.armed, .seen = TML_OCCASIONAL_PHASES};
        assert_status(status_of(metrics[i], on_cpu, TML_CLOCK_CPU, unused), TML_NS_NONE, TML_UNAVAILABLE,
                      TML_COVERAGE_UNKNOWN, TML_REASON_NO_SPAN);
        assert_status(status_of(metrics[i], on_cpu, TML_CLOCK_CPU, used), 0, TML_AVAILABLE, TML_COVERAGE_IN_WINDOW,
                      TML_REASON_NEVER_OBSERVED);
    }
}

static void the_steps_in_which_a_phase_was_seen_are_counted(void **state)
{
    (void)state;
    struct tml_metric_status status = status_of(TML_METRIC_FORWARD, forward_once, TML_CLOCK_CPU, cpu);
    assert_int_equal(status.steps_observed, 1);
    assert_int_equal(status.phase, TRACEML_PHASE_FORWARD);
    assert_false(tml_metric_usable(&status));
    status = status_of(TML_METRIC_H2D, copies_in_both, TML_CLOCK_GPU, observed);
    assert_int_equal(status.occurrences[TML_REGION_PRE], STEPS);
    assert_int_equal(status.occurrences[TML_REGION_IN], STEPS);
    assert_true(tml_metric_usable(&status));
}

static void ninety_five_percent_is_counted_in_whole_steps(void **state)
{
    (void)state;
    assert_false(tml_metric_enough(0, 0));
    assert_true(tml_metric_enough(1, 1));
    assert_true(tml_metric_enough(19, 20));
    assert_false(tml_metric_enough(18, 19));
    assert_true(tml_metric_enough(95, 100));
    assert_false(tml_metric_enough(94, 100));
}

/* Two ranks, one of them without the signal: half of the steps is too little. Of 20 ranks one may lack it. */
static void ranks_are_merged_by_their_steps(void **state)
{
    (void)state;
    struct tml_tally one = {0}, none = {0}, all = {0};
    for (uint64_t step = 2; step < 2 + STEPS; step++) {
        struct tml_step_row row = healthy(step), lost = events_lost(step);
        struct tml_sample there = tml_metric_sample(TML_METRIC_FORWARD, &row, TML_CLOCK_GPU, &gpu);
        struct tml_sample gone = tml_metric_sample(TML_METRIC_FORWARD, &lost, TML_CLOCK_GPU, &gpu);
        tml_tally_add(&one, TML_METRIC_FORWARD, &row, &gpu, &there);
        tml_tally_add(&none, TML_METRIC_FORWARD, &lost, &gpu, &gone);
    }
    tml_tally_merge(&all, &one);
    tml_tally_merge(&all, &none);
    assert_int_equal(tml_tally_status(&all).availability, TML_UNAVAILABLE);
    for (unsigned rank = 2; rank < 20; rank++)
        tml_tally_merge(&all, &one);
    struct tml_metric_status status = tml_tally_status(&all);
    assert_int_equal(status.availability, TML_AVAILABLE);
    assert_int_equal(status.coverage, TML_COVERAGE_PARTIAL);
    assert_int_equal(status.value_ns, 30 * TML_NS_PER_MS);
    assert_int_equal(status.steps_expected, 20 * STEPS);
}

static void names_are_those_of_traceml_ai_and_new_ones_follow_its_manner(void **state)
{
    (void)state;
    static const char *const old[] = {"input_wait_ms",
                                      "step_time_ms",
                                      "traced_step_time_ms",
                                      "step_time_cpu_ms",
                                      "step_time_gpu_ms",
                                      "traced_step_time_cpu_ms",
                                      "traced_step_time_gpu_ms",
                                      "dataloader_fetch_cpu_ms",
                                      "h2d_ms",
                                      "compute_ms",
                                      "residual_ms",
                                      "forward_ms",
                                      "backward_ms",
                                      "optimizer_ms"};
    for (unsigned i = 0; i < sizeof old / sizeof *old; i++) {
        bool found = false;
        for (unsigned k = 0; k < TML_METRIC_COUNT; k++)
            found = found || strcmp(tml_metrics[k].key, old[i]) == 0;
        assert_true(found);
    }
    for (unsigned i = 0; i < TML_METRIC_COUNT; i++) {
        const char *end = strrchr(tml_metrics[i].key, '_');
        assert_string_equal(end, "_ms");
        assert_string_equal(tml_metrics[i].unit, "ms");
        for (unsigned k = 0; k < i; k++)
            assert_string_not_equal(tml_metrics[i].key, tml_metrics[k].key);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_ran_on_another_stream_stands_beside_the_value),
        cmocka_unit_test(every_combination_has_its_state),
        cmocka_unit_test(a_hook_that_is_not_installed_makes_null_and_not_zero),
        cmocka_unit_test(without_a_span_of_it_an_evaluation_is_null_and_with_one_zeros_count),
        cmocka_unit_test(the_steps_in_which_a_phase_was_seen_are_counted),
        cmocka_unit_test(ninety_five_percent_is_counted_in_whole_steps),
        cmocka_unit_test(ranks_are_merged_by_their_steps),
        cmocka_unit_test(names_are_those_of_traceml_ai_and_new_ones_follow_its_manner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
