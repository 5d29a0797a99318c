/* diagnosis: which verdict, how severe, on what it stands, and when a rule keeps silent. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "diagnosis.h"
#include "run_fixture.h"

#define MOST_ROWS 400

struct scene {
    struct fixture fixture;
    struct tml_run run;
    struct tml_run_facts facts;
    struct tml_window window;
    struct tml_verdict verdict;
    bool built;
    struct fixture_header header;
    int64_t ours_us; /* own cost inside of each step */
};

/* 100 ms: 7 of waiting, 27 + 52 + 6 of compute, 8 of rest. */
static const struct fixture_times balanced = {
    7000, FIXTURE_ABSENT, FIXTURE_ABSENT, FIXTURE_ABSENT, 27000, 52000, 6000, 8000, 500};

static int open_scene(void **state)
{
    struct scene *scene = calloc(1, sizeof *scene);
    fixture_open(&scene->fixture);
    *state = scene;
    return 0;
}

static void tear_down(struct scene *scene)
{
    if (!scene->built)
        return;
    tml_verdict_free(&scene->verdict);
    tml_window_free(&scene->window);
    tml_run_free(&scene->run);
    scene->built = false;
}

static int close_scene(void **state)
{
    tear_down(*state);
    fixture_close(&((struct scene *)*state)->fixture);
    free(*state);
    return 0;
}

static const struct tml_verdict *diagnose(struct scene *scene)
{
    char error[256];
    tear_down(scene);
    assert_int_equal(tml_run_read(scene->fixture.directory, 10000, &scene->run, error, sizeof error), TRACEML_OK);
    tml_run_facts_gather(&scene->run, NULL, &scene->facts);
    assert_true(tml_window_build(&scene->run, 10000, &scene->window));
    assert_true(tml_diagnose(&scene->window, &scene->facts, &scene->verdict));
    scene->built = true;
    assert_true(scene->verdict.findings > 0);
    for (size_t i = 0; i < scene->verdict.findings; i++) {
        assert_true(*scene->verdict.finding[i].summary);
        assert_true(*scene->verdict.finding[i].action);
    }
    return &scene->verdict;
}

static void cost(struct tml_step_row *row, enum tml_clock clock, int64_t ours_ns)
{
    row->term_ns[clock][TML_TERM_INSTRUMENTATION] += ours_ns;
    row->term_ns[clock][TML_TERM_TRACED_STEP] += ours_ns;
    row->term_ns[clock][TML_TERM_ITERATION] += row->flags & TML_STEP_FLAG_FIRST ? 0 : ours_ns;
}

/* `steps` after the first one, all alike; `gpu` NULL: a run on the CPU. */
static void write_rank(struct scene *scene, unsigned rank, unsigned world, uint64_t steps,
                       const struct fixture_times *cpu, const struct fixture_times *gpu)
{
    static struct tml_step_row rows[MOST_ROWS];
    struct fixture_header header = scene->header;
    header.rank = rank;
    header.world = world;
    header.device = gpu ? "cuda:0" : "cpu";
    for (uint64_t step = 1; step <= steps + 1; step++) {
        rows[step - 1] = gpu ? fixture_gpu_row(step, cpu, gpu) : fixture_row(step, cpu);
        cost(&rows[step - 1], TML_CLOCK_CPU, scene->ours_us * 1000);
        if (gpu)
            cost(&rows[step - 1], TML_CLOCK_GPU, scene->ours_us * 1000);
    }
    fixture_rank(&scene->fixture, &header, rows, steps + 1);
}

static struct fixture_times waiting(int64_t wait_us)
{
    struct fixture_times times = fixture_healthy;
    times.wait = wait_us;
    return times;
}

static struct fixture_times with_residual(int64_t residual_us)
{
    struct fixture_times times = fixture_healthy;
    times.residual = residual_us;
    return times;
}

static void expect(const struct tml_finding *finding, enum tml_finding_kind kind, enum tml_severity severity)
{
    assert_string_equal(tml_finding_key(finding->kind), tml_finding_key(kind));
    assert_string_equal(tml_severity_key(finding->severity), tml_severity_key(severity));
}

static void expect_said(const char *text, const char *part)
{
    if (!strstr(text, part))
        print_error("\"%s\" is not in \"%s\"\n", part, text);
    assert_non_null(strstr(text, part));
}

/* ---- docs/diagnosis.md ---- */

/* Appends `text` with every run of white space and line prefixes as one space: the document wraps its examples. */
static void add_flat(char *flat, size_t bytes, const char *text)
{
    size_t length = strlen(flat);
    for (; *text && length + 2 < bytes; text++) {
        bool space = *text == ' ' || *text == '\n';
        if (!space || (length > 0 && flat[length - 1] != ' '))
            flat[length++] = space ? ' ' : *text;
    }
    flat[length] = '\0';
}

/* The document shows this very finding as its example. */
static void expect_documented(const struct tml_finding *finding)
{
    static char document[1 << 16], flat[1 << 16];
    char example[2048] = "";
    FILE *file = fopen(TRACEML_SOURCE_DIR "/docs/diagnosis.md", "r");
    assert_non_null(file);
    document[fread(document, 1, sizeof document - 1, file)] = flat[0] = '\0';
    fclose(file);
    add_flat(flat, sizeof flat, document);
    add_flat(example, sizeof example, tml_finding_status(finding->kind));
    if (finding->severity > TML_SEVERITY_INFO) {
        add_flat(example, sizeof example, " ");
        add_flat(example, sizeof example, tml_severity_word(finding->severity));
    }
    add_flat(example, sizeof example, " why ");
    add_flat(example, sizeof example, finding->summary);
    add_flat(example, sizeof example, " next ");
    add_flat(example, sizeof example, finding->action);
    expect_said(flat, example);
}

/* ---- Findings ---- */

static void a_loop_in_which_nothing_stands_out_is_balanced(void **state)
{
    struct scene *scene = *state;
    write_rank(scene, 0, 1, 30, &balanced, NULL);
    const struct tml_verdict *verdict = diagnose(scene);
    assert_int_equal(verdict->findings, 1);
    assert_int_equal(verdict->abstentions, 0);
    expect(&verdict->finding[0], TML_FINDING_BALANCED, TML_SEVERITY_INFO);
    expect_said(verdict->finding[0].summary,
                "input wait 7 %, compute 85 %, residual 8 % of step time (CPU clock, 30 steps)");
    expect_documented(&verdict->finding[0]);
}

static void a_tenth_of_waiting_warns_and_a_fifth_is_critical(void **state)
{
    struct scene *scene = *state;
    static const struct {
        int64_t wait_us; /* beside 93 ms */
        int severity;    /* -1: nothing */
    } cases[] = {{10300, -1}, {10400, TML_SEVERITY_WARN}, {23200, TML_SEVERITY_WARN}, {23300, TML_SEVERITY_CRIT}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture_times times = balanced;
        times.wait = cases[i].wait_us;
        write_rank(scene, 0, 1, 30, &times, NULL);
        const struct tml_finding *first = &diagnose(scene)->finding[0];
        if (cases[i].severity < 0)
            expect(first, TML_FINDING_BALANCED, TML_SEVERITY_INFO);
        else
            expect(first, TML_FINDING_INPUT_BOUND, (enum tml_severity)cases[i].severity);
    }
}

static void waiting_inside_the_step_counts_too(void **state)
{
    struct scene *scene = *state;
    struct fixture_times times = waiting(8000);
    times.in_wait = 20000;
    write_rank(scene, 0, 1, 30, &times, NULL);
    const struct tml_finding *first = &diagnose(scene)->finding[0];
    expect(first, TML_FINDING_INPUT_BOUND, TML_SEVERITY_CRIT);
    expect_documented(first);
    assert_int_equal(first->cost_ns, 28 * TML_NS_PER_MS);
    assert_true(fabs(first->share - 28.0 / 126.0) < 1e-9);
}

static void time_in_no_phase_is_residual_and_not_called_communication(void **state)
{
    struct scene *scene = *state;
    struct fixture_times times = with_residual(40000);
    write_rank(scene, 0, 1, 30, &times, NULL);
    const struct tml_finding *first = &diagnose(scene)->finding[0];
    expect(first, TML_FINDING_RESIDUAL_HEAVY, TML_SEVERITY_CRIT);
    expect_documented(first);
    assert_null(strstr(first->summary, "ommunication"));
    assert_null(strstr(first->action, "ommunication"));
}

static void the_worse_finding_comes_first(void **state)
{
    struct scene *scene = *state;
    struct fixture_times times = with_residual(60000);
    times.wait = 30000;
    write_rank(scene, 0, 1, 30, &times, NULL);
    const struct tml_verdict *verdict = diagnose(scene);
    assert_int_equal(verdict->findings, 2);
    expect(&verdict->finding[0], TML_FINDING_RESIDUAL_HEAVY, TML_SEVERITY_CRIT);
    expect(&verdict->finding[1], TML_FINDING_INPUT_BOUND, TML_SEVERITY_WARN);
}

static void a_cost_below_one_ms_a_step_never_warns(void **state)
{
    struct scene *scene = *state;
    static const struct fixture_times toy = {200, FIXTURE_ABSENT, FIXTURE_ABSENT, FIXTURE_ABSENT, 400, 600, 100, 300,
                                             10};
    write_rank(scene, 0, 1, 50, &toy, NULL); /* 1.6 ms steps: 12 % of waiting, 19 % of residual */
    expect(&diagnose(scene)->finding[0], TML_FINDING_BALANCED, TML_SEVERITY_INFO);
}

static void few_steps_warn_and_are_never_critical(void **state)
{
    struct scene *scene = *state;
    struct fixture_times times = waiting(500000);
    write_rank(scene, 0, 1, 19, &times, NULL);
    expect(&diagnose(scene)->finding[0], TML_FINDING_INPUT_BOUND, TML_SEVERITY_WARN);
    write_rank(scene, 0, 1, 20, &times, NULL);
    expect(&diagnose(scene)->finding[0], TML_FINDING_INPUT_BOUND, TML_SEVERITY_CRIT);
    write_rank(scene, 0, 1, 2, &times, NULL);
    expect(&diagnose(scene)->finding[0], TML_FINDING_INPUT_BOUND, TML_SEVERITY_WARN);
}

/* ---- Too little ---- */

static void one_step_beside_the_first_is_warm_up(void **state)
{
    struct scene *scene = *state;
    write_rank(scene, 0, 1, 1, &fixture_healthy, NULL);
    expect(&diagnose(scene)->finding[0], TML_FINDING_WARMUP, TML_SEVERITY_INFO);
    expect_documented(&scene->verdict.finding[0]);
    write_rank(scene, 0, 1, 0, &fixture_healthy, NULL);
    expect(&diagnose(scene)->finding[0], TML_FINDING_WARMUP, TML_SEVERITY_INFO);
}

static void no_completed_step_is_no_data(void **state)
{
    struct scene *scene = *state;
    fixture_rank(&scene->fixture, &scene->header, NULL, 0);
    const struct tml_finding *first = &diagnose(scene)->finding[0];
    expect(first, TML_FINDING_NO_DATA, TML_SEVERITY_INFO);
    expect_documented(first);
    expect_said(first->action, "trace_step(model)");
}

static void ranks_with_no_step_in_common_are_no_data(void **state)
{
    struct scene *scene = *state;
    struct tml_step_row row = fixture_row(2, &fixture_healthy);
    fixture_rank(&scene->fixture, &(struct fixture_header){.rank = 0, .world = 2}, &row, 1);
    row.step = 9;
    fixture_rank(&scene->fixture, &(struct fixture_header){.rank = 1, .world = 2}, &row, 1);
    const struct tml_finding *first = &diagnose(scene)->finding[0];
    expect(first, TML_FINDING_NO_DATA, TML_SEVERITY_INFO);
    expect_said(first->summary, "2 ranks share no completed step");
}

/* ---- Abstaining ---- */

static void forward_never_seen_is_named(void **state)
{
    struct scene *scene = *state;
    struct fixture_times times = fixture_healthy;
    times.forward = FIXTURE_ABSENT;
    times.residual = 32000;
    write_rank(scene, 0, 1, 100, &times, NULL);
    const struct tml_verdict *verdict = diagnose(scene);
    expect(&verdict->finding[0], TML_FINDING_INCOMPLETE_DATA, TML_SEVERITY_INFO);
    expect_said(verdict->finding[0].summary, "RESIDUAL-HEAVY, COMPUTE-BOUND (forward: never seen)");
    expect_said(verdict->finding[0].action, "trace_step()");
    expect_documented(&verdict->finding[0]);
    assert_int_equal(verdict->abstained[0].signal, TML_METRIC_RESIDUAL);
    assert_int_equal(verdict->abstained[0].phase, TRACEML_PHASE_FORWARD);
    static const enum tml_metric nulls[] = {TML_METRIC_FORWARD, TML_METRIC_COMPUTE, TML_METRIC_RESIDUAL};
    for (unsigned i = 0; i < sizeof nulls / sizeof *nulls; i++) {
        assert_int_equal(scene->window.metric[nulls[i]].status.value_ns, TML_NS_NONE);
        assert_int_equal(scene->window.metric[nulls[i]].status.reason, TML_REASON_NEVER_OBSERVED);
    }
}

static void a_forward_that_took_no_time_stays_zero(void **state)
{
    struct scene *scene = *state;
    struct fixture_times times = balanced;
    times.forward = 0;
    write_rank(scene, 0, 1, 100, &times, NULL);
    assert_int_equal(diagnose(scene)->abstentions, 0);
    assert_int_equal(scene->window.metric[TML_METRIC_FORWARD].status.value_ns, 0);
    assert_int_equal(scene->window.metric[TML_METRIC_FORWARD].status.availability, TML_AVAILABLE);
    assert_int_equal(scene->window.metric[TML_METRIC_COMPUTE].status.value_ns, 58 * TML_NS_PER_MS);
}

/* Rows of which every `every`-th one is the second kind. */
static void write_mixed(struct scene *scene, uint64_t steps, const struct fixture_times *most,
                        const struct fixture_times *some, uint64_t every)
{
    static struct tml_step_row rows[MOST_ROWS];
    for (uint64_t step = 1; step <= steps + 1; step++)
        rows[step - 1] = fixture_row(step, step % every == 0 ? some : most);
    fixture_rank(&scene->fixture, &scene->header, rows, steps + 1);
}

static void forward_in_one_of_thirty_steps_is_the_mean_of_the_one(void **state)
{
    struct scene *scene = *state;
    struct fixture_times without = balanced;
    without.forward = FIXTURE_ABSENT;
    without.residual = balanced.residual + balanced.forward;
    write_mixed(scene, 30, &without, &balanced, 30);
    const struct tml_verdict *verdict = diagnose(scene);
    const struct tml_metric_status *forward = &scene->window.metric[TML_METRIC_FORWARD].status;
    assert_int_equal(forward->value_ns, 27 * TML_NS_PER_MS);
    assert_int_equal(forward->coverage, TML_COVERAGE_PARTIAL);
    assert_int_equal(forward->steps_observed, 1);
    expect(&verdict->finding[0], TML_FINDING_INCOMPLETE_DATA, TML_SEVERITY_INFO);
    expect_said(verdict->finding[0].summary, "RESIDUAL-HEAVY, COMPUTE-BOUND (forward: seen in 1 of 30 steps)");
}

static void steps_without_an_optimizer_count_zero(void **state)
{
    struct scene *scene = *state;
    struct fixture_times without = balanced, with = balanced;
    without.optimizer = FIXTURE_ABSENT;
    with.optimizer = 24000;
    write_mixed(scene, 40, &without, &with, 4);
    const struct tml_verdict *verdict = diagnose(scene);
    const struct tml_metric_status *optimizer = &scene->window.metric[TML_METRIC_OPTIMIZER].status;
    assert_int_equal(optimizer->value_ns, 6 * TML_NS_PER_MS);
    assert_int_equal(optimizer->coverage, TML_COVERAGE_IN_WINDOW);
    assert_int_equal(optimizer->steps_observed, 40);
    assert_int_equal(verdict->abstentions, 0);
    expect(&verdict->finding[0], TML_FINDING_BALANCED, TML_SEVERITY_INFO);
}

static void a_loader_that_is_not_timed_is_named(void **state)
{
    struct scene *scene = *state;
    struct fixture_times times = fixture_healthy;
    times.wait = FIXTURE_ABSENT;
    scene->header.armed = "[\"step\",\"forward\",\"backward\",\"optimizer\"]";
    write_rank(scene, 0, 1, 100, &times, NULL);
    const struct tml_verdict *verdict = diagnose(scene);
    expect(&verdict->finding[0], TML_FINDING_INCOMPLETE_DATA, TML_SEVERITY_INFO);
    expect_said(verdict->finding[0].summary, "INPUT-BOUND, RESIDUAL-HEAVY, INSTRUMENTATION-HEAVY, COMPUTE-BOUND (data "
                                             "loader: its hook is not installed)");
    expect_said(verdict->finding[0].action, "init(mode=\"auto\")");
}

static const struct fixture_times fast_device = {
    50, FIXTURE_ABSENT, FIXTURE_ABSENT, FIXTURE_ABSENT, 30000, 60000, 6000, 500, 100};

static bool abstained(const struct tml_verdict *verdict, enum tml_finding_kind kind)
{
    for (size_t i = 0; i < verdict->abstentions; i++)
        if (verdict->abstained[i].rule->kind == kind)
            return true;
    return false;
}

static void on_a_device_the_residual_is_ruled_out_by_its_bound(void **state)
{
    struct scene *scene = *state;
    write_rank(scene, 0, 1, 100, &fixture_healthy, &fast_device);
    const struct tml_verdict *verdict = diagnose(scene);
    assert_false(abstained(verdict, TML_FINDING_RESIDUAL_HEAVY));
    assert_int_equal(scene->window.metric[TML_METRIC_RESIDUAL].status.value_ns, TML_NS_NONE);
    /* copies may lie in any phase: no bound rules them out */
    assert_true(abstained(verdict, TML_FINDING_H2D_BOUND));
}

static void on_a_device_much_unattributed_time_is_not_called_residual(void **state)
{
    struct scene *scene = *state;
    struct fixture_times gpu = fast_device;
    gpu.residual = 60000;
    write_rank(scene, 0, 1, 100, &fixture_healthy, &gpu);
    const struct tml_verdict *verdict = diagnose(scene);
    expect(&verdict->finding[0], TML_FINDING_INCOMPLETE_DATA, TML_SEVERITY_INFO);
    assert_int_equal(verdict->abstained[0].reason, TML_REASON_OBSERVER_MISSING);
    expect_said(verdict->finding[0].summary, "residual and unobserved copies together 38 %");
    expect_said(verdict->finding[0].summary, "H2D-BOUND, RESIDUAL-HEAVY (copies are not observed in this version)");
}

static void a_hidden_loader_is_not_input_bound_on_the_device(void **state)
{
    struct scene *scene = *state;
    struct fixture_times cpu = waiting(60000); /* the host waits long, the device does not */
    write_rank(scene, 0, 1, 100, &cpu, &fast_device);
    expect(&diagnose(scene)->finding[0], TML_FINDING_COMPUTE_BOUND, TML_SEVERITY_INFO);
}

static void lose_device_times(struct scene *scene, unsigned rank, unsigned world, uint64_t steps,
                              const struct fixture_times *cpu, uint64_t every)
{
    static struct tml_step_row rows[MOST_ROWS];
    for (uint64_t step = 1; step <= steps + 1; step++) {
        rows[step - 1] = fixture_gpu_row(step, cpu, &fast_device);
        if (step % every == 0)
            fixture_lose_gpu(&rows[step - 1], TML_REASON_EVENTS_LOST);
    }
    fixture_rank(&scene->fixture, &(struct fixture_header){.rank = rank, .world = world, .device = "cuda:0"}, rows,
                 steps + 1);
}

static void a_device_run_on_the_hosts_clock_is_at_most_a_warning(void **state)
{
    struct scene *scene = *state;
    struct fixture_times cpu = waiting(300000);
    cpu.residual = 300000;
    lose_device_times(scene, 0, 1, 100, &cpu, 2);
    const struct tml_verdict *verdict = diagnose(scene);
    assert_int_equal(scene->window.clock, TML_CLOCK_CPU);
    assert_int_equal(verdict->findings, 1);
    expect(&verdict->finding[0], TML_FINDING_INPUT_BOUND, TML_SEVERITY_WARN);
    expect_said(verdict->finding[0].summary, "how long the device waited was not measured: device events were lost");
    /* launch times say nothing of what the device did */
    assert_true(abstained(verdict, TML_FINDING_RESIDUAL_HEAVY));
    assert_true(abstained(verdict, TML_FINDING_COMPUTE_BOUND));
    assert_true(abstained(verdict, TML_FINDING_H2D_BOUND));
}

static void ranks_whose_device_did_not_wait_speak_against_the_hosts_clock(void **state)
{
    struct scene *scene = *state;
    struct fixture_times cpu = waiting(300000);
    write_rank(scene, 0, 2, 100, &cpu, &fast_device);
    expect(&diagnose(scene)->finding[0], TML_FINDING_COMPUTE_BOUND, TML_SEVERITY_INFO);
    lose_device_times(scene, 1, 2, 100, &cpu, 1);
    expect(&diagnose(scene)->finding[0], TML_FINDING_INCOMPLETE_DATA, TML_SEVERITY_INFO);
}

/* ---- Copies ---- */

static const struct fixture_times copying = {50,    FIXTURE_ABSENT, 18000, 6000, 20000,
                                             40000, 4000,           500,   100}; /* 24 of 88.55 ms */

static void copies_are_judged_on_the_gpu_clock_and_where_they_are_is_said(void **state)
{
    struct scene *scene = *state;
    scene->header.observer = true;
    write_rank(scene, 0, 1, 100, &fixture_healthy, &copying);
    const struct tml_finding *first = &diagnose(scene)->finding[0];
    expect(first, TML_FINDING_H2D_BOUND, TML_SEVERITY_CRIT);
    assert_true(fabs(first->share - 24.0 / 88.55) < 1e-9);
    expect_said(first->summary, "18.0 ms before the step, 6.0 ms inside");
    expect_documented(first);
}

static void copies_before_the_step_alone_count_too(void **state)
{
    struct scene *scene = *state;
    struct fixture_times gpu = copying;
    gpu.h2d = FIXTURE_ABSENT;
    scene->header.observer = true;
    write_rank(scene, 0, 1, 100, &fixture_healthy, &gpu);
    const struct tml_finding *first = &diagnose(scene)->finding[0];
    assert_int_equal(scene->window.metric[TML_METRIC_H2D].status.coverage, TML_COVERAGE_OUTSIDE_WINDOW);
    expect(first, TML_FINDING_H2D_BOUND, TML_SEVERITY_CRIT);
    assert_int_equal(first->cost_ns, 18 * TML_NS_PER_MS);
}

static void copies_are_not_judged_on_the_cpu_clock(void **state)
{
    struct scene *scene = *state;
    static struct tml_step_row rows[MOST_ROWS];
    write_rank(scene, 0, 1, 100, &copying, NULL); /* a run without a device: the rule does not apply */
    const struct tml_verdict *verdict = diagnose(scene);
    assert_int_equal(verdict->abstentions, 0);
    assert_int_not_equal(verdict->finding[0].kind, TML_FINDING_H2D_BOUND);
    for (uint64_t step = 1; step <= 101; step++) {
        rows[step - 1] = fixture_gpu_row(step, &copying, &copying);
        if (step % 2)
            fixture_lose_gpu(&rows[step - 1], TML_REASON_EVENTS_LOST);
    }
    fixture_rank(&scene->fixture, &(struct fixture_header){.device = "cuda:0", .observer = true}, rows, 101);
    verdict = diagnose(scene);
    assert_int_equal(scene->window.clock, TML_CLOCK_CPU);
    assert_true(abstained(verdict, TML_FINDING_H2D_BOUND));
    for (size_t i = 0; i < verdict->findings; i++) {
        assert_int_not_equal(verdict->finding[i].kind, TML_FINDING_H2D_BOUND);
        assert_int_not_equal(verdict->finding[i].kind, TML_FINDING_COMPUTE_BOUND);
        assert_true(verdict->finding[i].severity < TML_SEVERITY_CRIT);
    }
}

static void copies_bracketed_by_hand_convict_and_do_not_acquit(void **state)
{
    struct scene *scene = *state;
    struct fixture_times gpu = copying;
    write_rank(scene, 0, 1, 100, &fixture_healthy, &gpu);
    expect(&diagnose(scene)->finding[0], TML_FINDING_H2D_BOUND, TML_SEVERITY_CRIT);
    gpu.pre_h2d = gpu.h2d = 100;
    write_rank(scene, 0, 1, 100, &fixture_healthy, &gpu);
    assert_true(abstained(diagnose(scene), TML_FINDING_H2D_BOUND));
}

/* ---- Compute and our own cost ---- */

static void nine_tenths_of_compute_are_compute_bound(void **state)
{
    struct scene *scene = *state;
    struct fixture_times times = balanced; /* 85 ms beside 15 */
    times.wait = 5000;
    times.residual = 4400;
    write_rank(scene, 0, 1, 30, &times, NULL);
    const struct tml_finding *first = &diagnose(scene)->finding[0];
    expect(first, TML_FINDING_COMPUTE_BOUND, TML_SEVERITY_INFO);
    expect_documented(first);
    assert_null(strstr(first->summary, "synchronisation"));
    times.residual = 4500;
    write_rank(scene, 0, 1, 30, &times, NULL);
    expect(&diagnose(scene)->finding[0], TML_FINDING_BALANCED, TML_SEVERITY_INFO);
}

static void much_time_before_the_step_speaks_against_compute(void **state)
{
    struct scene *scene = *state;
    struct fixture_times times = fixture_healthy;
    times.other = 11000; /* of 100 */
    write_rank(scene, 0, 1, 30, &times, NULL);
    expect(&diagnose(scene)->finding[0], TML_FINDING_BALANCED, TML_SEVERITY_INFO);
}

static void our_own_cost_warns_above_2_percent_and_is_critical_above_10(void **state)
{
    struct scene *scene = *state;
    static const struct fixture_times toy = {20, FIXTURE_ABSENT, FIXTURE_ABSENT, FIXTURE_ABSENT, 300, 500, 100, 60, 5};
    static const struct {
        int64_t ours_us; /* beside 980 */
        int severity;    /* -1: nothing */
    } cases[] = {{20, -1}, {21, TML_SEVERITY_WARN}, {108, TML_SEVERITY_WARN}, {110, TML_SEVERITY_CRIT}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        scene->ours_us = cases[i].ours_us;
        write_rank(scene, 0, 1, 30, &toy, NULL);
        const struct tml_finding *first = &diagnose(scene)->finding[0];
        if (cases[i].severity < 0)
            expect(first, TML_FINDING_BALANCED, TML_SEVERITY_INFO);
        else
            expect(first, TML_FINDING_INSTRUMENTATION_HEAVY, (enum tml_severity)cases[i].severity);
    }
    expect_documented(&scene->verdict.finding[0]);
}

/* ---- Launches ---- */

#define ENVIRONMENT(strategy) "{\"python\":\"3.12.1\",\"strategy\":\"" strategy "\"}"

static const struct fixture_times idle_device = {
    2000, FIXTURE_ABSENT, FIXTURE_ABSENT, FIXTURE_ABSENT, 30000, 36000, 6000, 26000, 500};

#define NO_TIE INT64_MAX

/* A device that lags `lead_us` behind the host at forward's end and optimizer's begin of every step. */
static void write_leads(struct scene *scene, unsigned rank, unsigned world, uint64_t steps,
                        const struct fixture_times *times, int64_t lead_us)
{
    static struct tml_step_row rows[MOST_ROWS];
    for (uint64_t step = 1; step <= steps + 1; step++) {
        struct tml_step_row *row = &rows[step - 1];
        *row = fixture_gpu_row(step, times, times);
        row->lead.error_ns = lead_us == NO_TIE ? TML_NS_NONE : 8000;
        row->lead.reason = lead_us == NO_TIE ? TML_REASON_NO_CLOCK_TIE : TML_REASON_NONE;
        for (unsigned boundary = 0; boundary < TML_BOUNDARY_COUNT; boundary++)
            row->lead.ns[boundary] = lead_us == NO_TIE ? TML_NS_NONE : lead_us * 1000;
    }
    struct fixture_header header = scene->header;
    header.rank = rank;
    header.world = world;
    header.device = "cuda:0";
    fixture_rank(&scene->fixture, &header, rows, steps + 1);
}

/* As the observer would have it: so many steps of each rank went without host synchronisation. */
static const struct tml_verdict *diagnose_watched(struct scene *scene, uint64_t undisturbed, uint64_t near_zero)
{
    diagnose(scene);
    tml_verdict_free(&scene->verdict);
    for (size_t i = 0; i < scene->window.rank_count; i++) {
        struct tml_launch_steps *lead = &scene->window.ranks[i].launch;
        lead->watched = true;
        lead->undisturbed = undisturbed;
        lead->undisturbed_near_zero = near_zero;
    }
    assert_true(tml_diagnose(&scene->window, &scene->facts, &scene->verdict));
    return &scene->verdict;
}

static const struct tml_finding *launch_bound(const struct tml_verdict *verdict)
{
    for (size_t i = 0; i < verdict->findings; i++)
        if (verdict->finding[i].kind == TML_FINDING_LAUNCH_BOUND)
            return &verdict->finding[i];
    return NULL;
}

static void a_device_that_waits_for_the_host_is_launch_bound(void **state)
{
    struct scene *scene = *state;
    write_leads(scene, 0, 1, 100, &idle_device, 10);
    const struct tml_finding *found = launch_bound(diagnose_watched(scene, 50, 40));
    assert_non_null(found);
    expect(found, TML_FINDING_LAUNCH_BOUND, TML_SEVERITY_WARN);
    expect_documented(found);
    assert_true(isnan(found->score));
    assert_null(launch_bound(diagnose_watched(scene, 50, 39)));
}

static void a_loop_that_reads_its_loss_in_every_step_is_not_launch_bound(void **state)
{
    struct scene *scene = *state;
    write_leads(scene, 0, 1, 100, &idle_device, 10); /* near zero because the host waited */
    const struct tml_verdict *verdict = diagnose_watched(scene, 0, 0);
    assert_null(launch_bound(verdict));
    assert_false(abstained(verdict, TML_FINDING_LAUNCH_BOUND));
    assert_null(launch_bound(diagnose_watched(scene, 19, 19)));
    assert_non_null(launch_bound(diagnose_watched(scene, 20, 20)));
}

static void launches_come_after_findings_with_a_score(void **state)
{
    struct scene *scene = *state;
    struct fixture_times late = idle_device, waits = idle_device;
    late.forward += 12000;
    waits.backward += 12000;
    scene->header.environment = ENVIRONMENT("DDP");
    write_leads(scene, 0, 2, 100, &waits, 10);
    write_leads(scene, 1, 2, 100, &late, 10);
    const struct tml_verdict *verdict = diagnose_watched(scene, 50, 50);
    assert_int_equal(verdict->findings, 2);
    expect(&verdict->finding[0], TML_FINDING_COMPUTE_STRAGGLER, TML_SEVERITY_WARN);
    expect(&verdict->finding[1], TML_FINDING_LAUNCH_BOUND, TML_SEVERITY_WARN);
}

static void launches_are_not_judged_without_the_observer_or_a_tie(void **state)
{
    struct scene *scene = *state;
    write_leads(scene, 0, 1, 100, &idle_device, 10);
    const struct tml_verdict *verdict = diagnose(scene);
    assert_true(abstained(verdict, TML_FINDING_LAUNCH_BOUND));
    expect_said(verdict->finding[0].summary, "LAUNCH-BOUND (host synchronisation is not observed in this version)");
    write_leads(scene, 0, 1, 100, &idle_device, NO_TIE);
    const struct tml_finding *first = &diagnose(scene)->finding[0];
    expect_said(first->summary, "LAUNCH-BOUND (the clocks of device and host were not tied)");
    expect_said(first->action, "the two clocks are tied once a second");
}

static void a_device_that_lags_behind_rules_launches_out(void **state)
{
    struct scene *scene = *state;
    write_leads(scene, 0, 1, 100, &idle_device, 50);
    assert_false(abstained(diagnose(scene), TML_FINDING_LAUNCH_BOUND));
}

static void one_rank_that_cannot_be_judged_is_enough_to_abstain_on_launches(void **state)
{
    struct scene *scene = *state;
    write_leads(scene, 0, 2, 100, &idle_device, 10);
    write_leads(scene, 1, 2, 100, &idle_device, NO_TIE);
    const struct tml_verdict *verdict = diagnose_watched(scene, 50, 50);
    assert_null(launch_bound(verdict));
    assert_true(abstained(verdict, TML_FINDING_LAUNCH_BOUND));
}

/* ---- Ranks that wait for each other ---- */

/* What an all-reduce at the end of backward makes of ranks: the late one waits least there. */
static void meet_in_backward(struct fixture_times *ranks, unsigned count)
{
    int64_t latest = 0;
    for (unsigned i = 0; i < count; i++) {
        int64_t arrives = (ranks[i].wait > 0 ? ranks[i].wait : 0) + ranks[i].forward + ranks[i].backward +
                          ranks[i].optimizer + ranks[i].residual + ranks[i].other;
        latest = arrives > latest ? arrives : latest;
    }
    for (unsigned i = 0; i < count; i++)
        ranks[i].backward = latest - ((ranks[i].wait > 0 ? ranks[i].wait : 0) + ranks[i].forward + ranks[i].optimizer +
                                      ranks[i].residual + ranks[i].other);
}

static const struct tml_verdict *diagnose_ranks(struct scene *scene, const struct fixture_times *ranks, unsigned count)
{
    for (unsigned rank = 0; rank < count; rank++)
        write_rank(scene, rank, count, 30, &ranks[rank], NULL);
    return diagnose(scene);
}

static void a_rank_with_a_longer_forward_is_named(void **state)
{
    struct scene *scene = *state;
    struct fixture_times ranks[] = {balanced, balanced};
    ranks[1].forward += 50000;
    meet_in_backward(ranks, 2);
    scene->header.environment = ENVIRONMENT("DDP");
    const struct tml_finding *first = &diagnose_ranks(scene, ranks, 2)->finding[0];
    expect(first, TML_FINDING_COMPUTE_STRAGGLER, TML_SEVERITY_CRIT);
    expect_documented(first);
    assert_int_equal(first->rank, 1);
    assert_int_equal(first->straggler.victim, 0);
    assert_int_equal(first->cost_ns, 50 * TML_NS_PER_MS);
    assert_int_equal(first->denominator_ns, 150 * TML_NS_PER_MS);
    assert_true(fabs(first->score - 50.0 / 150) < 1e-9);
}

static void extra_in_backward_names_no_rank(void **state)
{
    struct scene *scene = *state;
    struct fixture_times ranks[] = {fixture_healthy, fixture_healthy};
    ranks[1].backward += 50000;
    meet_in_backward(ranks, 2);
    scene->header.environment = ENVIRONMENT("DDP");
    const struct tml_verdict *verdict = diagnose_ranks(scene, ranks, 2);
    assert_int_equal(verdict->findings, 1);
    expect(&verdict->finding[0], TML_FINDING_COMPUTE_BOUND, TML_SEVERITY_INFO);
    expect_said(verdict->finding[0].summary, "backward contains gradient synchronisation, which is not measured apart");
    expect_said(verdict->finding[0].action, "how much of backward is waiting for other ranks");
}

static void a_rank_that_waits_for_its_batches_is_named(void **state)
{
    struct scene *scene = *state;
    struct fixture_times ranks[] = {balanced, balanced, balanced};
    ranks[2].wait += 40000;
    meet_in_backward(ranks, 3);
    scene->header.environment = ENVIRONMENT("DDP");
    const struct tml_finding *first = &diagnose_ranks(scene, ranks, 3)->finding[0];
    expect(first, TML_FINDING_INPUT_STRAGGLER, TML_SEVERITY_CRIT);
    expect_documented(first);
    assert_int_equal(first->rank, 2);
    expect_said(first->action, "compare rank 2 with rank 0: its storage");
}

static void a_rank_with_longer_copies_is_named_on_the_gpu_clock_alone(void **state)
{
    struct scene *scene = *state;
    struct fixture_times ranks[] = {balanced, balanced};
    scene->header.environment = ENVIRONMENT("DDP");
    scene->header.observer = true;
    ranks[0].backward += 40000;
    ranks[0].h2d = ranks[1].h2d = 1000;
    ranks[1].h2d += 40000;
    for (unsigned rank = 0; rank < 2; rank++)
        write_rank(scene, rank, 2, 30, &balanced, &ranks[rank]);
    const struct tml_finding *first = &diagnose(scene)->finding[0];
    expect(first, TML_FINDING_H2D_STRAGGLER, TML_SEVERITY_CRIT);
    expect_documented(first);
    assert_int_equal(first->rank, 1);
    expect(&diagnose_ranks(scene, ranks, 2)->finding[0], TML_FINDING_STRAGGLER, TML_SEVERITY_CRIT);
}

static void a_late_rank_without_a_cause_is_a_straggler(void **state)
{
    struct scene *scene = *state;
    struct fixture_times ranks[] = {balanced, balanced};
    ranks[0].forward += 20000; /* half of it each: neither explains 80 % */
    ranks[0].wait += 20000;
    meet_in_backward(ranks, 2);
    scene->header.environment = ENVIRONMENT("DDP");
    const struct tml_finding *first = &diagnose_ranks(scene, ranks, 2)->finding[0];
    expect(first, TML_FINDING_STRAGGLER, TML_SEVERITY_CRIT);
    assert_int_equal(first->rank, 0);
    assert_int_equal(first->straggler.named, -1);
    expect_said(first->action, "traceml.span() around what rank 0 does");
    expect_said(first->summary, "no measured part of rank 0 explains it (at most 20.0 ms more");
}

static void what_a_rank_does_between_its_steps_is_pointed_at(void **state)
{
    struct scene *scene = *state;
    struct fixture_times ranks[] = {balanced, balanced};
    ranks[0].other += 30000;
    meet_in_backward(ranks, 2);
    scene->header.environment = ENVIRONMENT("DDP");
    const struct tml_finding *first = &diagnose_ranks(scene, ranks, 2)->finding[0];
    expect(first, TML_FINDING_STRAGGLER, TML_SEVERITY_CRIT);
    expect_documented(first);
    assert_int_equal(first->rank, 0);
    expect_said(first->summary, "rank 0 has 30.0 ms more time between steps in no measured phase");
}

static void a_cause_that_one_of_the_two_did_not_measure_is_not_named(void **state)
{
    struct scene *scene = *state;
    struct fixture_times ranks[30];
    for (unsigned rank = 0; rank < 30; rank++)
        ranks[rank] = balanced;
    ranks[7].forward += 40000;
    meet_in_backward(ranks, 30);
    ranks[7].forward = FIXTURE_ABSENT; /* 1 of 30 ranks: the others are enough for a verdict */
    ranks[7].residual += 67000;
    scene->header.environment = ENVIRONMENT("DDP");
    const struct tml_finding *first = &diagnose_ranks(scene, ranks, 30)->finding[0];
    expect(first, TML_FINDING_STRAGGLER, TML_SEVERITY_CRIT);
    assert_int_equal(first->rank, 7);
    for (unsigned i = 0; i < first->straggler.excesses; i++)
        if (first->straggler.excess[i].metric == TML_METRIC_FORWARD)
            assert_int_equal(first->straggler.excess[i].ns, TML_NS_NONE);
}

static void under_fsdp_forward_is_where_ranks_meet_too_and_nothing_is_critical(void **state)
{
    struct scene *scene = *state;
    struct fixture_times ranks[] = {balanced, balanced};
    ranks[0].wait += 60000;
    ranks[1].forward += 40000;
    ranks[1].backward += 20000;
    scene->header.environment = ENVIRONMENT("FSDP");
    const struct tml_verdict *verdict = diagnose_ranks(scene, ranks, 2);
    bool found = false;
    for (size_t i = 0; i < verdict->findings; i++) {
        const struct tml_finding *finding = &verdict->finding[i];
        if (finding->kind != TML_FINDING_INPUT_STRAGGLER)
            continue;
        found = true;
        expect(finding, TML_FINDING_INPUT_STRAGGLER, TML_SEVERITY_WARN);
        assert_int_equal(finding->rank, 0);
        assert_int_equal(finding->cost_ns, 60 * TML_NS_PER_MS);
    }
    assert_true(found);
}

static void a_straggler_warns_from_a_tenth_and_not_below_a_millisecond(void **state)
{
    struct scene *scene = *state;
    struct fixture_times ranks[] = {balanced, balanced};
    scene->header.environment = ENVIRONMENT("DDP");
    ranks[1].forward += 11000; /* of 111 */
    meet_in_backward(ranks, 2);
    expect(&diagnose_ranks(scene, ranks, 2)->finding[0], TML_FINDING_BALANCED, TML_SEVERITY_INFO);
    ranks[0] = ranks[1] = balanced;
    ranks[1].forward += 12000; /* of 112 */
    meet_in_backward(ranks, 2);
    expect(&diagnose_ranks(scene, ranks, 2)->finding[0], TML_FINDING_COMPUTE_STRAGGLER, TML_SEVERITY_WARN);
    static const struct fixture_times toy = {70, FIXTURE_ABSENT, FIXTURE_ABSENT, FIXTURE_ABSENT, 270, 520, 60, 80, 5};
    ranks[0] = ranks[1] = toy;
    ranks[1].forward += 900;
    meet_in_backward(ranks, 2);
    expect(&diagnose_ranks(scene, ranks, 2)->finding[0], TML_FINDING_COMPUTE_BOUND, TML_SEVERITY_INFO);
    assert_int_equal(scene->verdict.findings, 1);
}

static void ranks_that_train_alone_hold_nobody_up(void **state)
{
    struct scene *scene = *state;
    struct fixture_times ranks[] = {balanced, balanced};
    ranks[1].backward += 50000;
    scene->header.environment = ENVIRONMENT("none");
    const struct tml_verdict *verdict = diagnose_ranks(scene, ranks, 2);
    expect(&verdict->finding[0], TML_FINDING_BALANCED, TML_SEVERITY_INFO);
    assert_int_equal(verdict->abstentions, 0);
}

static void how_ranks_train_together_must_be_known(void **state)
{
    struct scene *scene = *state;
    struct fixture_times ranks[] = {balanced, balanced};
    scene->header.environment = ENVIRONMENT("unknown");
    const struct tml_verdict *verdict = diagnose_ranks(scene, ranks, 2);
    expect(&verdict->finding[0], TML_FINDING_INCOMPLETE_DATA, TML_SEVERITY_INFO);
    expect_said(verdict->finding[0].summary, "STRAGGLER (how the ranks train together is not known)");
    expect_said(verdict->finding[0].action, "the module that wraps the model for all ranks");
}

static void one_of_several_ranks_cannot_be_compared(void **state)
{
    struct scene *scene = *state;
    scene->header.environment = ENVIRONMENT("DDP");
    write_rank(scene, 0, 2, 30, &balanced, NULL);
    const struct tml_verdict *verdict = diagnose(scene);
    expect(&verdict->finding[0], TML_FINDING_INCOMPLETE_DATA, TML_SEVERITY_INFO);
    expect_said(verdict->finding[0].summary, "STRAGGLER (other ranks recorded no steps)");
}

/* ---- What to do ---- */

static void expect_action(struct scene *scene, const char *environment, const char *words)
{
    struct fixture_times times = waiting(100000);
    scene->header.environment = environment;
    write_rank(scene, 0, 1, 30, &times, NULL);
    const struct tml_finding *first = &diagnose(scene)->finding[0];
    expect(first, TML_FINDING_INPUT_BOUND, TML_SEVERITY_CRIT);
    expect_said(first->action, words);
    assert_null(strstr(first->action, "persistent_workers"));
}

static void the_action_knows_the_loader(void **state)
{
    expect_action(*state, "{\"python\":\"3.12\",\"loader\":{\"workers\":0}}", "give the DataLoader workers (it has 0");
    expect_action(*state, "{\"python\":\"3.12\",\"loader\":{\"workers\":4}}", "above 4 (the host has 16 cores)");
    expect_action(*state, "{\"python\":\"3.12\",\"loader\":{\"num_workers\":16}}",
                  "16 workers have all 16 cores already");
    expect_action(*state, "{\"python\":\"3.12\"}", "find out what the next batch waits for");
    expect_action(*state, "{}", "in another thread while the step runs");
}

static void persistent_workers_are_advised_only_where_workers_start_anew(void **state)
{
    struct scene *scene = *state;
    static struct tml_step_row rows[MOST_ROWS];
    struct fixture_times times = waiting(100000);
    for (uint64_t step = 1; step <= 30; step++) {
        rows[step - 1] = fixture_row(step, &times);
        rows[step - 1].flags |= TML_STEP_FLAG_FIRST_FETCH;
        rows[step - 1].epoch = (int64_t)step - 1;
    }
    scene->header.environment = "{\"python\":\"3.12\",\"loader\":{\"workers\":4,\"persistent_workers\":false}}";
    fixture_rank(&scene->fixture, &scene->header, rows, 30);
    expect_said(diagnose(scene)->finding[0].action,
                "persistent_workers=True: the 4 workers start anew in each of 30 epochs");
}

/* Balanced steps; 300 ms pass before every tenth, which begins an epoch, `fetch_ms` of them in its first fetch. */
static const struct tml_finding *between_epochs(struct scene *scene, int64_t fetch_ms, const char *environment)
{
    static struct tml_step_row rows[MOST_ROWS];
    int64_t late_ns = 0;
    for (uint64_t step = 1; step <= 30; step++) {
        struct tml_step_row *row = &rows[step - 1];
        *row = fixture_row(step, &fixture_healthy);
        row->epoch = (int64_t)(step - 1) / 10;
        if (step > 1 && step % 10 == 1) {
            row->flags |= TML_STEP_FLAG_FIRST_FETCH;
            fixture_put(row, TML_REGION_PRE, TRACEML_PHASE_DATALOADER_FETCH, TML_CLOCK_CPU, fetch_ms * 1000);
            row->term_ns[TML_CLOCK_CPU][TML_TERM_ITERATION] =
                row->term_ns[TML_CLOCK_CPU][TML_TERM_TRACED_STEP] + 300 * TML_NS_PER_MS;
            late_ns += 300 * TML_NS_PER_MS;
        }
        row->end_ns += late_ns;
    }
    scene->header.environment = environment;
    fixture_rank(&scene->fixture, &scene->header, rows, 30);
    return &diagnose(scene)->finding[0];
}

#define WITH_WORKERS "{\"python\":\"3.12\",\"loader\":{\"workers\":4,\"persistent_workers\":false}}"

static void much_time_between_epochs_is_named_and_never_nothing_to_repair(void **state)
{
    struct scene *scene = *state;
    const struct tml_finding *finding = between_epochs(scene, 20, WITH_WORKERS);
    assert_true(finding->severity == TML_SEVERITY_INFO);
    expect_said(finding->summary, "17 % of the loop passes between steps, where an iterator begins");
    expect_said(finding->action, "look at the 300.0 ms between steps at each new epoch");
}

static void persistent_workers_are_advised_between_epochs_where_the_first_fetch_is_the_time(void **state)
{
    struct scene *scene = *state;
    expect_said(between_epochs(scene, 280, WITH_WORKERS)->action,
                "persistent_workers=True: the 4 workers start anew in each of 3 epochs");
    expect_said(between_epochs(scene, 280, FIXTURE_ENVIRONMENT)->action, "look at the 300.0 ms between steps");
}

static void much_time_before_each_step_is_not_nothing_to_repair(void **state)
{
    struct scene *scene = *state;
    struct fixture_times times = fixture_healthy;
    times.other = 50000;
    write_rank(scene, 0, 1, 30, &times, NULL);
    const struct tml_finding *finding = &diagnose(scene)->finding[0];
    expect_said(finding->summary, "33 % of the iteration passes before the step, outside of the loader");
    expect_said(finding->action, "look at what the loop does between one step and the next: 50.0 ms each time");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_scene, close_scene)
    const struct CMUnitTest tests[] = {
        TEST(a_loop_in_which_nothing_stands_out_is_balanced),
        TEST(a_tenth_of_waiting_warns_and_a_fifth_is_critical),
        TEST(waiting_inside_the_step_counts_too),
        TEST(time_in_no_phase_is_residual_and_not_called_communication),
        TEST(the_worse_finding_comes_first),
        TEST(a_cost_below_one_ms_a_step_never_warns),
        TEST(few_steps_warn_and_are_never_critical),
        TEST(one_step_beside_the_first_is_warm_up),
        TEST(no_completed_step_is_no_data),
        TEST(ranks_with_no_step_in_common_are_no_data),
        TEST(forward_never_seen_is_named),
        TEST(a_loader_that_is_not_timed_is_named),
        TEST(on_a_device_the_residual_is_ruled_out_by_its_bound),
        TEST(on_a_device_much_unattributed_time_is_not_called_residual),
        TEST(a_hidden_loader_is_not_input_bound_on_the_device),
        TEST(a_device_run_on_the_hosts_clock_is_at_most_a_warning),
        TEST(ranks_whose_device_did_not_wait_speak_against_the_hosts_clock),
        TEST(a_forward_that_took_no_time_stays_zero),
        TEST(forward_in_one_of_thirty_steps_is_the_mean_of_the_one),
        TEST(steps_without_an_optimizer_count_zero),
        TEST(copies_are_judged_on_the_gpu_clock_and_where_they_are_is_said),
        TEST(copies_before_the_step_alone_count_too),
        TEST(copies_are_not_judged_on_the_cpu_clock),
        TEST(copies_bracketed_by_hand_convict_and_do_not_acquit),
        TEST(nine_tenths_of_compute_are_compute_bound),
        TEST(much_time_before_the_step_speaks_against_compute),
        TEST(our_own_cost_warns_above_2_percent_and_is_critical_above_10),
        TEST(a_device_that_waits_for_the_host_is_launch_bound),
        TEST(a_loop_that_reads_its_loss_in_every_step_is_not_launch_bound),
        TEST(launches_come_after_findings_with_a_score),
        TEST(launches_are_not_judged_without_the_observer_or_a_tie),
        TEST(a_device_that_lags_behind_rules_launches_out),
        TEST(one_rank_that_cannot_be_judged_is_enough_to_abstain_on_launches),
        TEST(a_rank_with_a_longer_forward_is_named),
        TEST(extra_in_backward_names_no_rank),
        TEST(a_rank_that_waits_for_its_batches_is_named),
        TEST(a_rank_with_longer_copies_is_named_on_the_gpu_clock_alone),
        TEST(a_late_rank_without_a_cause_is_a_straggler),
        TEST(what_a_rank_does_between_its_steps_is_pointed_at),
        TEST(a_cause_that_one_of_the_two_did_not_measure_is_not_named),
        TEST(under_fsdp_forward_is_where_ranks_meet_too_and_nothing_is_critical),
        TEST(a_straggler_warns_from_a_tenth_and_not_below_a_millisecond),
        TEST(ranks_that_train_alone_hold_nobody_up),
        TEST(how_ranks_train_together_must_be_known),
        TEST(one_of_several_ranks_cannot_be_compared),
        TEST(the_action_knows_the_loader),
        TEST(persistent_workers_are_advised_only_where_workers_start_anew),
        TEST(much_time_between_epochs_is_named_and_never_nothing_to_repair),
        TEST(persistent_workers_are_advised_between_epochs_where_the_first_fetch_is_the_time),
        TEST(much_time_before_each_step_is_not_nothing_to_repair),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
