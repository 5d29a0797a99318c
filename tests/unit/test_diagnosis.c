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
};

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

/* `steps` after the first one, all alike; `gpu` NULL: a run on the CPU. */
static void write_rank(struct scene *scene, unsigned rank, unsigned world, uint64_t steps,
                       const struct fixture_times *cpu, const struct fixture_times *gpu)
{
    static struct tml_step_row rows[MOST_ROWS];
    struct fixture_header header = scene->header;
    header.rank = rank;
    header.world = world;
    header.device = gpu ? "cuda:0" : "cpu";
    for (uint64_t step = 1; step <= steps + 1; step++)
        rows[step - 1] = gpu ? fixture_gpu_row(step, cpu, gpu) : fixture_row(step, cpu);
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

/* ---- Findings ---- */

static void a_healthy_loop_is_balanced(void **state)
{
    struct scene *scene = *state;
    write_rank(scene, 0, 1, 30, &fixture_healthy, NULL);
    const struct tml_verdict *verdict = diagnose(scene);
    assert_int_equal(verdict->findings, 1);
    assert_int_equal(verdict->abstentions, 0);
    expect(&verdict->finding[0], TML_FINDING_BALANCED, TML_SEVERITY_INFO);
    expect_said(verdict->finding[0].summary,
                "input wait 2 %, compute 96 %, residual 2 % of step time (CPU clock, 30 steps)");
}

static void a_tenth_of_waiting_warns_and_a_fifth_is_critical(void **state)
{
    struct scene *scene = *state;
    static const struct {
        int64_t wait_us; /* beside 98 ms */
        int severity;    /* -1: nothing */
    } cases[] = {{10800, -1}, {10900, TML_SEVERITY_WARN}, {24400, TML_SEVERITY_WARN}, {24600, TML_SEVERITY_CRIT}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture_times times = waiting(cases[i].wait_us);
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
    write_rank(scene, 0, 1, 0, &fixture_healthy, NULL);
    expect(&diagnose(scene)->finding[0], TML_FINDING_WARMUP, TML_SEVERITY_INFO);
}

static void no_completed_step_is_no_data(void **state)
{
    struct scene *scene = *state;
    fixture_rank(&scene->fixture, &scene->header, NULL, 0);
    const struct tml_finding *first = &diagnose(scene)->finding[0];
    expect(first, TML_FINDING_NO_DATA, TML_SEVERITY_INFO);
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
    expect_said(verdict->finding[0].summary, "RESIDUAL-HEAVY (forward: never seen)");
    expect_said(verdict->finding[0].action, "trace_step()");
    assert_int_equal(verdict->abstained[0].signal, TML_METRIC_RESIDUAL);
    assert_int_equal(verdict->abstained[0].phase, TRACEML_PHASE_FORWARD);
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
    expect_said(verdict->finding[0].summary, "INPUT-BOUND (data loader: its hook is not installed)");
    expect_said(verdict->finding[0].action, "init(mode=\"auto\")");
}

static const struct fixture_times fast_device = {
    50, FIXTURE_ABSENT, FIXTURE_ABSENT, FIXTURE_ABSENT, 30000, 60000, 6000, 500, 100};

static void on_a_device_the_residual_is_ruled_out_by_its_bound(void **state)
{
    struct scene *scene = *state;
    write_rank(scene, 0, 1, 100, &fixture_healthy, &fast_device);
    const struct tml_verdict *verdict = diagnose(scene);
    expect(&verdict->finding[0], TML_FINDING_BALANCED, TML_SEVERITY_INFO);
    assert_int_equal(scene->window.metric[TML_METRIC_RESIDUAL].status.value_ns, TML_NS_NONE);
    expect_said(verdict->finding[0].summary, "residual and unobserved copies together 1 %");
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
    expect_said(verdict->finding[0].summary, "RESIDUAL-HEAVY (copies are not observed in this version)");
}

static void a_hidden_loader_is_not_input_bound_on_the_device(void **state)
{
    struct scene *scene = *state;
    struct fixture_times cpu = waiting(60000); /* the host waits long, the device does not */
    write_rank(scene, 0, 1, 100, &cpu, &fast_device);
    expect(&diagnose(scene)->finding[0], TML_FINDING_BALANCED, TML_SEVERITY_INFO);
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
    assert_int_equal(verdict->abstentions, 1); /* the residual of launch times means nothing */
}

static void ranks_whose_device_did_not_wait_speak_against_the_hosts_clock(void **state)
{
    struct scene *scene = *state;
    struct fixture_times cpu = waiting(300000);
    write_rank(scene, 0, 2, 100, &cpu, &fast_device);
    expect(&diagnose(scene)->finding[0], TML_FINDING_BALANCED, TML_SEVERITY_INFO);
    lose_device_times(scene, 1, 2, 100, &cpu, 1);
    expect(&diagnose(scene)->finding[0], TML_FINDING_INCOMPLETE_DATA, TML_SEVERITY_INFO);
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

/* ---- Properties ---- */

static struct fixture_times any_times(uint64_t *random)
{
    struct fixture_times times;
    int64_t *each = (int64_t *)&times;
    for (unsigned i = 0; i < sizeof times / sizeof *each; i++) {
        each[i] = (int64_t)(fixture_random(random) % 100000);
        if (fixture_random(random) % 4 == 0)
            each[i] = FIXTURE_ABSENT;
    }
    times.residual = times.residual < 0 ? 0 : times.residual;
    times.other = times.other < 0 ? 0 : times.other;
    return times;
}

static void remove_ranks(struct scene *scene)
{
    for (unsigned rank = 0; rank < 5; rank++) {
        char name[128];
        snprintf(name, sizeof name, "%s/steps-rank%05u.jsonl", scene->fixture.directory, rank);
        unlink(name);
    }
}

static void a_rule_never_fires_on_a_signal_that_is_null(void **state)
{
    struct scene *scene = *state;
    uint64_t random = 11;
    static const char *const armed[] = {FIXTURE_ARMED, "[]", "[\"forward\",\"backward\"]", "[\"dataloader_fetch\"]"};
    unsigned fired = 0;
    for (unsigned round = 0; round < 400; round++) {
        unsigned world = 1 + (unsigned)(fixture_random(&random) % 3);
        for (unsigned rank = 0; rank < world; rank++) {
            struct fixture_times cpu = any_times(&random), gpu = any_times(&random);
            scene->header.armed = armed[fixture_random(&random) % 4];
            scene->header.observer = fixture_random(&random) % 2;
            write_rank(scene, rank, world, 25, &cpu, fixture_random(&random) % 2 ? &gpu : NULL);
        }
        const struct tml_verdict *verdict = diagnose(scene);
        for (size_t i = 0; i < verdict->findings; i++) {
            const struct tml_rule *rule = verdict->finding[i].rule;
            for (unsigned k = 0; rule && k < rule->signals; k++)
                assert_int_not_equal(scene->window.metric[rule->signal[k]].status.value_ns, TML_NS_NONE);
            if (rule)
                assert_int_not_equal(scene->window.metric[rule->denominator].status.value_ns, TML_NS_NONE);
            fired += rule != NULL;
        }
        remove_ranks(scene);
    }
    assert_true(fired > 50);
}

/* Abstaining is least, then info, warning, critical. */
static int rise(const struct tml_verdict *verdict)
{
    return verdict->finding[0].kind <= TML_FINDING_INCOMPLETE_DATA ? -1 : (int)verdict->finding[0].severity;
}

static void an_unmeasured_rank_never_raises_the_verdict(void **state)
{
    struct scene *scene = *state;
    uint64_t random = 5;
    for (unsigned round = 0; round < 150; round++) {
        unsigned world = 1 + (unsigned)(fixture_random(&random) % 3);
        bool device = fixture_random(&random) % 2;
        for (unsigned rank = 0; rank < world; rank++) {
            struct fixture_times cpu = waiting((int64_t)(fixture_random(&random) % 60000));
            struct fixture_times gpu = waiting((int64_t)(fixture_random(&random) % 60000));
            write_rank(scene, rank, world + 1, 25, &cpu, device ? &gpu : NULL);
        }
        int before = rise(diagnose(scene));
        /* It has steps, and nothing of them was measured. */
        static struct tml_step_row rows[26];
        for (uint64_t step = 1; step <= 26; step++) {
            tml_step_row_clear(&rows[step - 1]);
            rows[step - 1].step = rows[step - 1].iteration = step;
            rows[step - 1].flags = step == 1 ? TML_STEP_FLAG_FIRST : 0;
            rows[step - 1].gpu_reason = device ? TML_REASON_EVENTS_LOST : TML_REASON_NO_CUDA;
            rows[step - 1].end_ns = 0;
        }
        struct fixture_header header = {.rank = world, .world = world + 1, .device = device ? "cuda:1" : "cpu"};
        header.armed = fixture_random(&random) % 2 ? "[]" : FIXTURE_ARMED;
        fixture_rank(&scene->fixture, &header, rows, 26);
        assert_true(rise(diagnose(scene)) <= before);
        remove_ranks(scene);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_scene, close_scene)
    const struct CMUnitTest tests[] = {
        TEST(a_healthy_loop_is_balanced),
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
        TEST(the_action_knows_the_loader),
        TEST(persistent_workers_are_advised_only_where_workers_start_anew),
        TEST(a_rule_never_fires_on_a_signal_that_is_null),
        TEST(an_unmeasured_rank_never_raises_the_verdict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
