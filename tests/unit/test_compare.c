/* compare: what two summaries say together, and what they do not. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "compare.h"
#include "run_fixture.h"

/* ---- Summaries made by hand ---- */

struct sample {
    const char *own;             /* members of `user_spans`; NULL: none */
    const char *schema, *clock;  /* "2.0", "cpu" */
    const char *cpu_ms, *gpu_ms; /* the step total on each; "null" */
    const char *selected_ms;     /* NULL: that of the clock */
    const char *phases;          /* more members of `average` */
    const char *status;          /* the object */
    const char *spread;          /* p10, p50, p90 of both clocks; NULL: none */
    const char *blocks;          /* ten numbers, of means and of medians; NULL: none */
    unsigned steps;
    const char *environment, *run, *meta; /* members */
    const char *name;                     /* NULL: "r" */
};

static const struct sample steady = {
    .schema = "2.0",
    .clock = "cpu",
    .cpu_ms = "100",
    .gpu_ms = "null",
    .phases = "\"input_wait_ms\": 60, \"forward_ms\": 10, \"backward_ms\": 20, \"optimizer_ms\": 5",
    .status = "{}",
    .spread = "{\"p10\": 98, \"p50\": 100, \"p90\": 102}",
    .steps = 100,
    .environment = "\"torch\": \"2.13.0\", \"loader\": {\"workers\": 0, \"pin_memory\": false, \"batch_size\": 32}",
    .run = "\"process_s\": 140.0, \"training_loop_s\": 106, \"epochs_begun\": 1, \"steps_completed\": 100",
    .meta = "\"world_size\": 1, \"gpus_observed\": 0, \"complete\": true",
};

/* As wide as `steady`, around another median. */
static struct sample around(const char *ms, const char *spread)
{
    struct sample sample = steady;
    sample.cpu_ms = ms;
    sample.spread = spread;
    return sample;
}

struct scene {
    struct fixture fixture;
    char path[2][128];
    struct traceml_comparison made;
    struct tml_json *root;
    char error[512];
};

static int open_scene(void **state)
{
    struct scene *scene = calloc(1, sizeof *scene);
    fixture_open(&scene->fixture);
    snprintf(scene->path[0], sizeof scene->path[0], "%s/old.json", scene->fixture.directory);
    snprintf(scene->path[1], sizeof scene->path[1], "%s/new.json", scene->fixture.directory);
    *state = scene;
    return 0;
}

static void drop(struct scene *scene)
{
    traceml_comparison_free(&scene->made);
    tml_json_free(scene->root);
    scene->root = NULL;
}

static int close_scene(void **state)
{
    struct scene *scene = *state;
    drop(scene);
    fixture_close(&scene->fixture);
    free(scene);
    return 0;
}

static void put(const char *path, const char *text, size_t bytes)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, bytes, file), bytes);
    fclose(file);
}

static size_t print_sample(char *out, size_t bytes, const struct sample *sample)
{
    const char *selected = sample->selected_ms                 ? sample->selected_ms
                           : strcmp(sample->clock, "gpu") == 0 ? sample->gpu_ms
                                                               : sample->cpu_ms;
    char row[2048] = "";
    if (sample->spread || sample->blocks) {
        const char *spread = sample->spread ? sample->spread : "{}", *blocks = sample->blocks ? sample->blocks : "";
        snprintf(row, sizeof row,
                 "\"spread\": {\"step_time_cpu_ms\": %s, \"step_time_gpu_ms\": %s}, \"blocks\": {\"step_time_cpu_ms\": "
                 "{\"mean\": [%s], \"median\": [%s]}, \"step_time_gpu_ms\": {\"mean\": [%s], \"median\": [%s]}}",
                 spread, spread, blocks, blocks, blocks, blocks);
    }
    int length = snprintf(
        out, bytes,
        "{\"schema_version\": %s, \"duration_s\": 7, \"meta\": {\"run_name\": \"%s\", %s, \"environment\": {%s}},"
        "\"primary_diagnosis\": {}, \"run\": {%s}, \"text\": \"\", \"step_time\": {\"diagnosis\": {\"kind\": "
        "\"INPUT_BOUND\", \"status\": \"INPUT-BOUND\", \"severity\": \"crit\", \"summary\": \"waits\"}, \"global\": "
        "{\"window\": {\"steps_analyzed\": %u, \"diagnosis_clock\": \"%s\"}, \"average\": {\"step_time_ms\": %s, "
        "\"step_time_cpu_ms\": %s, \"step_time_gpu_ms\": %s%s%s}, \"median\": {\"step_time_cpu_ms\": {\"idx\": \"0\"}, "
        "\"step_time_gpu_ms\": {\"idx\": \"0\"}}, \"status\": %s, \"user_spans\": {%s}}, \"groups\": {\"rows\": "
        "{\"0\": {%s}}}}}",
        sample->schema, sample->name ? sample->name : "r", sample->meta, sample->environment, sample->run,
        sample->steps, sample->clock, selected, sample->cpu_ms, sample->gpu_ms, *sample->phases ? ", " : "",
        sample->phases, sample->status, sample->own ? sample->own : "", row);
    assert_true(length > 0 && (size_t)length < bytes);
    return (size_t)length;
}

static void write_sample(const char *path, const struct sample *sample)
{
    char text[8192];
    put(path, text, print_sample(text, sizeof text, sample));
}

static const struct tml_json *compare_paths(struct scene *scene, const char *old_path, const char *new_path,
                                            double limit)
{
    struct traceml_compare_options options;
    drop(scene);
    traceml_compare_options_init(&options);
    options.max_step_time_regression_pct = limit;
    enum traceml_status status =
        traceml_compare(old_path, new_path, &options, &scene->made, scene->error, sizeof scene->error);
    if (status != TRACEML_OK)
        print_error("%s\n", scene->error);
    assert_int_equal(status, TRACEML_OK);
    scene->root = tml_json_parse(scene->made.json, strlen(scene->made.json));
    assert_non_null(scene->root);
    return scene->root;
}

static const struct tml_json *compare_within(struct scene *scene, const struct sample *old, const struct sample *new,
                                             double limit)
{
    write_sample(scene->path[0], old);
    write_sample(scene->path[1], new);
    return compare_paths(scene, scene->path[0], scene->path[1], limit);
}

static const struct tml_json *compare(struct scene *scene, const struct sample *old, const struct sample *new)
{
    return compare_within(scene, old, new, NAN);
}

static double number(const struct tml_json *root, const char *path)
{
    double value = NAN;
    if (!tml_json_number(tml_compare_at(root, path), &value))
        print_error("%s is no number\n", path);
    assert_false(isnan(value));
    return value;
}

static void assert_text(const struct tml_json *root, const char *path, const char *expected)
{
    const char *text = tml_json_string(tml_compare_at(root, path));
    assert_non_null(text);
    assert_string_equal(text, expected);
}

static void assert_json_null(const struct tml_json *root, const char *path)
{
    assert_true(tml_json_is_null(tml_compare_at(root, path)));
}

static void collapse(char *to, size_t bytes, const char *from)
{
    size_t length = 0;
    for (; *from && length + 1 < bytes; from++)
        if (*from != ' ' && *from != '\n')
            to[length++] = *from;
        else if (length > 0 && to[length - 1] != ' ')
            to[length++] = ' ';
    to[length] = '\0';
}

/* However it is wrapped and set in columns. */
static bool says(const char *text, const char *words)
{
    char all[16384], some[512];
    collapse(all, sizeof all, text);
    collapse(some, sizeof some, words);
    return strstr(all, some);
}

static void assert_says(const struct scene *scene, const char *words)
{
    if (!says(scene->made.text, words))
        print_error("no \"%s\" in\n%s\n", words, scene->made.text);
    assert_true(says(scene->made.text, words));
}

/* ---- Ratios ---- */

static void test_three_ratios_each_stand_under_their_own_name(void **state)
{
    struct scene *scene = *state;
    struct sample old = around("522.2", "{\"p10\": 500, \"p50\": 520, \"p90\": 545}");
    struct sample new = around("337.5", "{\"p10\": 330, \"p50\": 337, \"p90\": 345}");
    new.run = "\"process_s\": 76.4, \"training_loop_s\": 68.66, \"epochs_begun\": 1, \"steps_completed\": 100";
    const struct tml_json *root = compare(scene, &old, &new);
    assert_int_equal(llround(number(root, "ratios/whole_process/ratio") * 100), 183);
    assert_int_equal(llround(number(root, "ratios/training_loop/ratio") * 100), 154);
    assert_int_equal(llround(number(root, "ratios/step_total/ratio") * 100), 155);
    assert_json_null(root, "ratios/framework_runtime/ratio");
    assert_says(scene, "whole process              140.0 s      76.4 s        1.83\n");
    assert_says(scene, "training loop              106.0 s      68.7 s        1.54\n");
    assert_says(scene, "step total                522.2 ms    337.5 ms        1.55\n");
    assert_true(strstr(scene->made.text, "framework") == NULL);
}

static void test_a_ratio_that_is_not_known_is_not_another_one(void **state)
{
    struct scene *scene = *state;
    struct sample old = steady;
    old.run = "\"session_s\": 139, \"training_loop_s\": null, \"framework_runtime_s\": 106";
    const struct tml_json *root = compare(scene, &old, &steady);
    assert_json_null(root, "ratios/whole_process/ratio");
    assert_json_null(root, "ratios/training_loop/ratio");
    assert_text(root, "ratios/training_loop/reason", "not known of the old run");
    assert_json_null(root, "ratios/framework_runtime/ratio");
    assert_int_equal(llround(number(root, "ratios/framework_runtime/old")), 106);
}

static void test_runs_of_other_lengths_say_so_beside_their_ratios(void **state)
{
    struct scene *scene = *state;
    struct sample new = steady;
    new.run = "\"process_s\": 70, \"training_loop_s\": 53, \"epochs_begun\": 1, \"steps_completed\": 50";
    compare(scene, &steady, &new);
    assert_says(scene, "not of one length (100 and 50 steps)");
}

/* ---- Clocks ---- */

static void test_without_a_common_clock_there_is_no_difference(void **state)
{
    struct scene *scene = *state;
    struct sample new = steady;
    new.clock = "gpu";
    new.cpu_ms = "null";
    new.gpu_ms = "90";
    const struct tml_json *root = compare_within(scene, &steady, &new, 5);
    assert_int_equal(scene->made.verdict, TRACEML_VERDICT_INCONCLUSIVE);
    assert_int_equal(scene->made.limit, TRACEML_LIMIT_INCONCLUSIVE);
    assert_text(root, "reason", "no_common_clock");
    assert_json_null(root, "step_time/clock");
    assert_json_null(root, "step_time/mean/delta");
    assert_json_null(root, "ratios/step_total/ratio");
    assert_json_null(root, "metrics/step_time_ms/delta");
    assert_json_null(root, "metrics/forward_ms/delta");
    assert_text(root, "metrics/forward_ms/reason", "on another clock");
    assert_says(scene, "the old run's steps are measured on the CPU clock, the new run's on the GPU clock");
}

static void test_windows_on_two_clocks_share_the_step_total_alone(void **state)
{
    struct scene *scene = *state;
    struct sample new = around("50", "{\"p10\": 49, \"p50\": 50, \"p90\": 51}");
    new.clock = "gpu";
    new.gpu_ms = "48";
    const struct tml_json *root = compare(scene, &steady, &new);
    assert_text(root, "step_time/clock", "cpu");
    assert_int_equal(llround(number(root, "step_time/mean/delta")), -50);
    assert_int_equal(llround(number(root, "metrics/step_time_cpu_ms/delta")), -50);
    assert_json_null(root, "metrics/step_time_ms/delta");
    assert_json_null(root, "metrics/forward_ms/delta");
    assert_int_equal(scene->made.verdict, TRACEML_VERDICT_IMPROVEMENT);
    assert_says(scene, "the step totals are both on the CPU clock");
}

static void test_two_windows_on_the_gpu_are_compared_there(void **state)
{
    struct scene *scene = *state;
    struct sample old = steady, new = steady;
    old.clock = new.clock = "gpu";
    old.gpu_ms = "100";
    new.gpu_ms = "80";
    new.cpu_ms = "100";
    new.spread = "{\"p10\": 79, \"p50\": 80, \"p90\": 81}";
    const struct tml_json *root = compare(scene, &old, &new);
    assert_text(root, "step_time/clock", "gpu");
    assert_int_equal(llround(number(root, "step_time/mean/delta")), -20);
    assert_int_equal(scene->made.verdict, TRACEML_VERDICT_IMPROVEMENT);
}

/* ---- Phases ---- */

static void test_a_phase_has_old_new_and_delta(void **state)
{
    struct scene *scene = *state;
    struct sample new = steady;
    new.phases = "\"input_wait_ms\": 15.5, \"forward_ms\": 10, \"backward_ms\": 20, \"optimizer_ms\": 5";
    const struct tml_json *root = compare(scene, &steady, &new);
    assert_int_equal(llround(number(root, "metrics/input_wait_ms/old")), 60);
    assert_int_equal(llround(number(root, "metrics/input_wait_ms/new") * 10), 155);
    assert_int_equal(llround(number(root, "metrics/input_wait_ms/delta") * 10), -445);
    assert_text(root, "metrics/input_wait_ms/clock", "cpu");
    assert_int_equal(llround(number(root, "metrics/forward_ms/delta")), 0);
    assert_says(scene, "-44.5 ms     -74.2 %");
}

static void test_null_is_no_delta_and_keeps_its_state(void **state)
{
    struct scene *scene = *state;
    struct sample new = steady;
    new.phases = "\"input_wait_ms\": 60, \"forward_ms\": null, \"backward_ms\": 0, \"optimizer_ms\": 5, "
                 "\"h2d_ms\": null";
    new.status = "{\"forward_ms\": {\"availability\": \"unavailable\", \"coverage\": \"unknown\", \"reason\": "
                 "\"never_observed\"}, \"h2d_ms\": {\"availability\": \"available\", \"coverage\": \"outside_window\", "
                 "\"reason\": \"pre_step\"}}";
    const struct tml_json *root = compare(scene, &steady, &new);
    assert_json_null(root, "metrics/forward_ms/delta");
    assert_json_null(root, "metrics/forward_ms/delta_pct");
    assert_text(root, "metrics/forward_ms/reason", "no value in the new run");
    assert_text(root, "metrics/forward_ms/new_status/availability", "unavailable");
    assert_text(root, "metrics/forward_ms/new_status/reason", "never_observed");
    assert_text(root, "metrics/h2d_ms/new_status/coverage", "outside_window");
    assert_json_null(root, "metrics/h2d_ms/delta");
    assert_int_equal(llround(number(root, "metrics/backward_ms/new")), 0);
    assert_int_equal(llround(number(root, "metrics/backward_ms/delta")), -20);
    assert_says(scene, "new: never seen");
}

static void test_own_spans_are_compared_by_their_names(void **state)
{
    struct scene *scene = *state;
    struct sample old = steady, new = steady;
    old.own = "\"augment\": {\"exclusive_ms\": 12}, \"gone\": {\"exclusive_ms\": 3}";
    new.own = "\"augment\": {\"exclusive_ms\": 4}, \"fresh\": {\"exclusive_ms\": null}";
    const struct tml_json *root = compare(scene, &old, &new);
    assert_int_equal(llround(number(root, "user_spans/augment/delta")), -8);
    assert_json_null(root, "user_spans/gone/new");
    assert_json_null(root, "user_spans/gone/delta");
    assert_text(root, "user_spans/gone/reason", "no such span in the new run");
    assert_text(root, "user_spans/fresh/reason", "no such span in the old run");
    assert_says(scene, "own: augment 12.0 ms 4.0 ms -8.0 ms -66.7 %");
}

static void test_the_diagnosis_stands_before_and_after(void **state)
{
    struct scene *scene = *state;
    const struct tml_json *root = compare(scene, &steady, &steady);
    assert_text(root, "old/diagnosis/kind", "INPUT_BOUND");
    assert_text(root, "new/diagnosis/severity", "crit");
    assert_says(scene, "before INPUT-BOUND critical: waits");
    assert_says(scene, "after  INPUT-BOUND critical: waits");
}

/* ---- Verdict ---- */

static void assert_verdict(struct scene *scene, const struct sample *old, const struct sample *new,
                           enum traceml_verdict verdict, const char *reason)
{
    const struct tml_json *root = compare(scene, old, new);
    assert_int_equal(scene->made.verdict, verdict);
    assert_text(root, "verdict", tml_compare_verdict_key(verdict));
    if (reason)
        assert_text(root, "reason", reason);
    else
        assert_json_null(root, "reason");
}

static void test_a_difference_inside_the_spread_is_noise(void **state)
{
    struct sample new = around("100.5", "{\"p10\": 98, \"p50\": 100.5, \"p90\": 103}");
    assert_verdict(*state, &steady, &new, TRACEML_VERDICT_WITHIN_NOISE, NULL);
    assert_says(*state, "WITHIN NOISE\n");
    assert_verdict(*state, &steady, &steady, TRACEML_VERDICT_WITHIN_NOISE, NULL);
}

static void test_the_same_difference_between_steadier_runs_counts(void **state)
{
    struct sample old = around("100", "{\"p10\": 99.9, \"p50\": 100, \"p90\": 100.1}");
    struct sample new = around("100.5", "{\"p10\": 100.4, \"p50\": 100.5, \"p90\": 100.6}");
    assert_verdict(*state, &old, &new, TRACEML_VERDICT_REGRESSION, NULL);
    assert_verdict(*state, &new, &old, TRACEML_VERDICT_IMPROVEMENT, NULL);
}

static void test_the_side_of_the_spread_towards_the_change_is_asked(void **state)
{
    /* A long tail above the old median: it may well lie higher, and hardly lower. */
    struct sample old = around("100", "{\"p10\": 99.9, \"p50\": 100, \"p90\": 140}");
    struct sample slower = around("104", "{\"p10\": 103.9, \"p50\": 104, \"p90\": 104.1}");
    struct sample faster = around("96", "{\"p10\": 95.9, \"p50\": 96, \"p90\": 96.1}");
    assert_verdict(*state, &old, &slower, TRACEML_VERDICT_WITHIN_NOISE, NULL);
    assert_verdict(*state, &old, &faster, TRACEML_VERDICT_IMPROVEMENT, NULL);
}

static void test_parts_that_drift_apart_are_noise_too(void **state)
{
    struct sample old = around("100", "{\"p10\": 99.9, \"p50\": 100, \"p90\": 100.1}");
    struct sample new = around("104", "{\"p10\": 103.9, \"p50\": 104, \"p90\": 104.1}");
    assert_verdict(*state, &old, &new, TRACEML_VERDICT_REGRESSION, NULL);
    old.blocks = new.blocks = "80, 120, 80, 120, 80, 120, 80, 120, 80, 120";
    assert_verdict(*state, &old, &new, TRACEML_VERDICT_WITHIN_NOISE, NULL);
}

static void test_slow_steps_that_only_the_mean_shows_count(void **state)
{
    struct sample old = steady, new = around("120", steady.spread);
    old.blocks = "100, 100, 101, 99, 100, 100, 101, 99, 100, 100";
    new.blocks = "120, 120, 121, 119, 120, 120, 121, 119, 120, 120";
    /* The medians of the parts are the same list here: their spread is what counts, not their place. */
    assert_verdict(*state, &old, &new, TRACEML_VERDICT_REGRESSION, NULL);
}

static void test_mean_against_median_is_inconclusive(void **state)
{
    struct sample old = steady, new = around("120", "{\"p10\": 89, \"p50\": 90, \"p90\": 91}");
    old.blocks = "100, 100, 101, 99, 100, 100, 101, 99, 100, 100";
    new.blocks = "120, 120, 121, 119, 120, 120, 121, 119, 120, 120";
    assert_verdict(*state, &old, &new, TRACEML_VERDICT_INCONCLUSIVE, "mean_against_median");
}

static void test_without_spread_the_noise_is_not_known(void **state)
{
    struct sample old = around("100", NULL), new = around("200", steady.spread);
    assert_verdict(*state, &old, &new, TRACEML_VERDICT_INCONCLUSIVE, "noise_unknown");
    assert_says(*state, "the old run's summary does not have the spread of its steps");
    assert_says(*state, "+100.0 %");
}

static void test_few_steps_are_inconclusive(void **state)
{
    struct sample new = around("200", "{\"p10\": 198, \"p50\": 200, \"p90\": 202}");
    new.steps = TML_COMPARE_FEWEST_STEPS - 1;
    assert_verdict(*state, &steady, &new, TRACEML_VERDICT_INCONCLUSIVE, "too_few_steps");
    new.steps = TML_COMPARE_FEWEST_STEPS;
    assert_verdict(*state, &steady, &new, TRACEML_VERDICT_REGRESSION, NULL);
}

static void test_no_step_time_is_inconclusive_and_says_why(void **state)
{
    struct sample new = around("null", NULL);
    new.status = "{\"step_time_ms\": {\"availability\": \"unavailable\", \"reason\": \"no_steps\"}}";
    assert_verdict(*state, &steady, &new, TRACEML_VERDICT_INCONCLUSIVE, "no_step_time");
    assert_says(*state, "the new run has no step time: no completed steps");
}

static void test_a_step_of_other_work_is_inconclusive(void **state)
{
    struct sample new = around("200", "{\"p10\": 198, \"p50\": 200, \"p90\": 202}");
    new.environment = "\"loader\": {\"batch_size\": 64}";
    assert_verdict(*state, &steady, &new, TRACEML_VERDICT_INCONCLUSIVE, "other_work");
    assert_says(*state, "batch size 64 (was 32)");
}

static void test_a_step_of_no_time_at_all_gives_no_ratio(void **state)
{
    struct scene *scene = *state;
    struct sample zero = around("0", "{\"p10\": 0, \"p50\": 0, \"p90\": 0}");
    const struct tml_json *root = compare(scene, &zero, &zero);
    assert_json_null(root, "ratios/step_total/ratio");
    assert_json_null(root, "step_time/mean/delta_pct");
    assert_int_equal(scene->made.verdict, TRACEML_VERDICT_WITHIN_NOISE);
}

/* ---- The limit ---- */

static void test_the_limit_counts_beyond_the_noise_alone(void **state)
{
    struct scene *scene = *state;
    struct sample faster = around("80", "{\"p10\": 79, \"p50\": 80, \"p90\": 81}");
    struct sample slower = around("112", "{\"p10\": 111, \"p50\": 112, \"p90\": 113}");
    struct sample noisy = around("112", "{\"p10\": 60, \"p50\": 112, \"p90\": 190}");
    struct sample slightly = around("103", "{\"p10\": 102, \"p50\": 103, \"p90\": 104}");
    const struct {
        const struct sample *new;
        double limit;
        enum traceml_limit outcome;
    } cases[] = {
        {&slower, NAN, TRACEML_LIMIT_NONE},      {&slower, 5, TRACEML_LIMIT_SLOWER},
        {&slower, 12, TRACEML_LIMIT_WITHIN},     {&slower, 11.9, TRACEML_LIMIT_SLOWER},
        {&slightly, 5, TRACEML_LIMIT_WITHIN},    {&slightly, 0, TRACEML_LIMIT_SLOWER},
        {&noisy, 5, TRACEML_LIMIT_INCONCLUSIVE}, {&noisy, 20, TRACEML_LIMIT_WITHIN},
        {&faster, 0, TRACEML_LIMIT_WITHIN},      {&steady, 0, TRACEML_LIMIT_WITHIN},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct tml_json *root = compare_within(scene, &steady, cases[i].new, cases[i].limit);
        if (scene->made.limit != cases[i].outcome)
            print_error("case %zu\n", i);
        assert_int_equal(scene->made.limit, cases[i].outcome);
        assert_text(root, "limit/outcome", tml_compare_limit_key(cases[i].outcome));
    }
}

/* ---- What changed besides ---- */

static void test_switches_that_changed_together_are_all_named(void **state)
{
    struct scene *scene = *state;
    struct sample new = around("50", "{\"p10\": 49, \"p50\": 50, \"p90\": 51}");
    new.environment = "\"torch\": \"2.13.0\", \"loader\": {\"workers\": 4, \"pin_memory\": true, \"batch_size\": 32}";
    const struct tml_json *root = compare(scene, &steady, &new);
    const struct tml_json *first = tml_json_first(tml_compare_at(root, "changed"));
    assert_text(first, "name", "loader.workers");
    assert_int_equal(llround(number(first, "old")), 0);
    assert_int_equal(llround(number(first, "new")), 4);
    assert_text(tml_json_next(first), "name", "loader.pin_memory");
    assert_true(tml_json_next(tml_json_next(first)) == NULL);
    assert_says(scene, "change loader workers 4 (was 0), loader pin memory true (was false)");
    assert_says(scene, "2 things changed together");
}

static void test_what_one_side_does_not_say_is_unknown_and_no_change(void **state)
{
    struct scene *scene = *state;
    struct sample new = steady;
    new.environment = "\"loader\": null";
    const struct tml_json *root = compare(scene, &steady, &new);
    assert_true(tml_json_first(tml_compare_at(root, "changed")) == NULL);
    assert_non_null(tml_json_first(tml_compare_at(root, "unknown")));
    assert_says(scene, "not known of the new run: torch, loader workers");
    assert_says(scene, "change nothing that both summaries record");
}

static void test_workers_that_persist_have_no_part_before_a_second_epoch(void **state)
{
    struct scene *scene = *state;
    struct sample old = steady, new = steady;
    old.environment = "\"loader\": {\"persistent_workers\": false}";
    new.environment = "\"loader\": {\"persistent_workers\": true}";
    compare(scene, &old, &new);
    assert_says(scene, "neither run began a second epoch");
    old.run = "\"epochs_begun\": 2";
    compare(scene, &old, &new);
    assert_true(strstr(scene->made.text, "second epoch") == NULL);
}

static void test_an_incomplete_run_is_said_to_be_one(void **state)
{
    struct scene *scene = *state;
    struct sample new = steady;
    new.meta = "\"complete\": false, \"end_reason\": \"signal:SIGKILL\", \"ranks_missing_count\": 2";
    compare(scene, &steady, &new);
    assert_says(scene, "the new run is incomplete (signal:SIGKILL)");
    assert_says(scene, "the new run lacks 2 of its ranks");
}

/* ---- Schemas of traceml-ai ---- */

static struct sample legacy(const char *schema, const char *phases)
{
    struct sample sample = steady;
    sample.schema = schema;
    sample.cpu_ms = sample.gpu_ms = sample.selected_ms = "null";
    sample.phases = phases;
    sample.spread = NULL;
    sample.environment = "";
    sample.run = "";
    return sample;
}

static void test_dataloader_ms_is_the_hosts_fetch_and_never_input_wait(void **state)
{
    struct scene *scene = *state;
    static const char *const schemas[] = {"1.4", "1.5", "1.6"};
    for (size_t i = 0; i < 3; i++) {
        struct sample old = legacy(schemas[i], "\"total_step_ms\": 80, \"dataloader_ms\": 30, \"forward_ms\": 4");
        const struct tml_json *root = compare(scene, &old, &steady);
        assert_int_equal(llround(number(root, "metrics/dataloader_fetch_cpu_ms/old")), 30);
        assert_json_null(root, "metrics/input_wait_ms/old");
        assert_json_null(root, "metrics/input_wait_ms/delta");
        assert_int_equal(llround(number(root, "metrics/step_time_cpu_ms/old")), 80);
        assert_int_equal(llround(number(root, "metrics/forward_ms/delta")), 6);
        assert_text(root, "reason", "noise_unknown");
    }
}

static void test_step_time_of_1_6_is_the_traced_step(void **state)
{
    struct scene *scene = *state;
    struct sample old = legacy("1.6", "\"total_step_ms\": 80, \"input_wait_ms\": 60, \"traced_step_time_ms\": 1");
    old.selected_ms = "20";
    const struct tml_json *root = compare(scene, &old, &steady);
    assert_int_equal(llround(number(root, "metrics/traced_step_time_ms/old")), 20);
    assert_int_equal(llround(number(root, "metrics/step_time_ms/old")), 80);
    assert_int_equal(llround(number(root, "metrics/input_wait_ms/old")), 60);
    old.clock = "gpu";
    root = compare(scene, &old, &steady);
    assert_json_null(root, "metrics/step_time_ms/old");
    assert_int_equal(llround(number(root, "step_time/mean/old")), 80);
    assert_text(root, "step_time/clock", "cpu");
}

static void test_zero_before_1_7_may_be_not_measured(void **state)
{
    struct scene *scene = *state;
    struct sample old = legacy("1.6", "\"total_step_ms\": 80, \"h2d_ms\": 0.0");
    const struct tml_json *root = compare(scene, &old, &steady);
    assert_json_null(root, "metrics/h2d_ms/old");
    assert_text(root, "metrics/h2d_ms/old_status/reason", "zero_or_unmeasured");
    old = legacy("1.7", "\"h2d_ms\": 0.0");
    root = compare(scene, &old, &steady);
    assert_int_equal(llround(number(root, "metrics/h2d_ms/old")), 0);
}

static void test_a_table_of_two_clocks_is_compared_with_nothing(void **state)
{
    struct scene *scene = *state;
    struct sample old = legacy("1.5", "\"total_step_ms\": 80, \"dataloader_ms\": 30, \"forward_ms\": 4");
    char text[8192];
    old.meta = "\"gpus_observed\": 1";
    print_sample(text, sizeof text, &old);
    char *stated = strstr(text, ", \"diagnosis_clock\": \"cpu\"");
    assert_non_null(stated);
    memset(stated, ' ', strlen(", \"diagnosis_clock\": \"cpu\""));
    put(scene->path[0], text, strlen(text));
    write_sample(scene->path[1], &steady);
    const struct tml_json *root = compare_paths(scene, scene->path[0], scene->path[1], NAN);
    assert_text(root, "reason", "no_step_time");
    assert_json_null(root, "old/diagnosis_clock");
    assert_json_null(root, "metrics/forward_ms/old");
    assert_text(root, "metrics/forward_ms/old_status/reason", "clocks_mixed");
    assert_int_equal(llround(number(root, "metrics/dataloader_fetch_cpu_ms/old")), 30);
}

/* ---- Input that cannot be used ---- */

static void assert_refused(struct scene *scene, const char *text, size_t bytes, const char *says)
{
    put(scene->path[0], text, bytes);
    drop(scene);
    enum traceml_status status =
        traceml_compare(scene->path[0], scene->path[1], NULL, &scene->made, scene->error, sizeof scene->error);
    if (status != TRACEML_BAD_DATA || !strstr(scene->error, says))
        print_error("\"%.60s\" gave %d: %s\n", text, status, scene->error);
    assert_int_equal(status, TRACEML_BAD_DATA);
    assert_non_null(strstr(scene->error, says));
    assert_int_equal(strncmp(scene->error, scene->path[0], strlen(scene->path[0])), 0);
    assert_true(strchr(scene->error, '\n') == NULL);
    assert_true(scene->made.json == NULL && scene->made.text == NULL);
}

static void test_what_is_no_summary_is_one_line_that_names_the_file(void **state)
{
    struct scene *scene = *state;
    static const char *const cases[][2] = {
        {"", "no whole JSON document"},
        {"{", "no whole JSON document"},
        {"[]", "no JSON object"},
        {"7", "no JSON object"},
        {"{}", "no schema_version"},
        {"{\"schema_version\": \"2.0\"}", "no schema_version"},
        {"{\"schema_version\": NaN}", "no whole JSON document"},
        {"{\"schema_version\": 1.3}", "its schema 1.3 cannot be read here; that is schema 2 of this tool"},
        {"{\"schema_version\": 1.9}", "its schema 1.9 cannot be read here"},
        {"{\"schema_version\": 1.75}", "its schema_version is not one"},
        {"{\"schema_version\": -2}", "its schema_version is not one"},
        {"{\"schema_version\": 1e300}", "its schema_version is not one"},
        {"{\"schema_version\": 2.0}", "step_time/global/window is missing"},
        {"{\"schema_version\": 2.0, \"meta\": []}", "meta is no JSON object"},
        {"{\"schema_version\": 2.0, \"step_time\": {\"global\": {\"window\": 7}}}", "window is no JSON object"},
        {"{\"schema_version\": 2.0, \"step_time\": {\"diagnosis\": {}, \"global\": {\"window\": {}}}}",
         "step_time/global/average is missing"},
        {"{\"schema_version\": 2.0, \"step_time\": {\"diagnosis\": {}, \"global\": {\"window\": {\"diagnosis_clock\": "
         "\"sun\"}}}}",
         "neither cpu nor gpu"},
    };
    write_sample(scene->path[1], &steady);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_refused(scene, cases[i][0], strlen(cases[i][0]), cases[i][1]);
}

static void test_a_wrong_type_never_becomes_a_number(void **state)
{
    struct scene *scene = *state;
    char text[8192];
    struct sample bad[9];
    for (size_t i = 0; i < 9; i++)
        bad[i] = steady;
    bad[0].phases = "\"forward_ms\": \"10\"";
    bad[1].phases = "\"forward_ms\": true";
    bad[2].phases = "\"forward_ms\": 1e300";
    bad[3].cpu_ms = "-1";
    bad[4].spread = "{\"p10\": \"98\", \"p50\": 100, \"p90\": 102}";
    bad[5].run = "\"process_s\": -3";
    bad[6].run = "\"training_loop_s\": \"long\"";
    bad[8].own = "\"mine\": {\"exclusive_ms\": \"4\"}";
    bad[7].meta = "\"gpus_observed\": -1";
    write_sample(scene->path[1], &steady);
    for (size_t i = 0; i < 9; i++)
        assert_refused(scene, text, print_sample(text, sizeof text, &bad[i]), "not a summary: ");
}

static void test_a_summary_cut_anywhere_is_refused(void **state)
{
    struct scene *scene = *state;
    char text[8192];
    size_t bytes = print_sample(text, sizeof text, &steady);
    write_sample(scene->path[1], &steady);
    for (size_t cut = 0; cut < bytes; cut += 1 + cut / 40)
        assert_refused(scene, text, cut, "no whole JSON document");
}

static void test_damaged_bytes_give_a_line_or_a_comparison_and_nothing_else(void **state)
{
    struct scene *scene = *state;
    char text[8192], damaged[8192];
    uint64_t random = 7;
    struct sample full = steady;
    full.blocks = "100, 100, 101, 99, 100, 100, 101, 99, 100, 100";
    size_t bytes = print_sample(text, sizeof text, &full);
    write_sample(scene->path[1], &full);
    for (unsigned i = 0; i < 1500; i++) {
        memcpy(damaged, text, bytes);
        for (unsigned n = 0; n <= fixture_random(&random) % 4; n++)
            damaged[fixture_random(&random) % bytes] = "0123456789-eE.,:\"{}[]nt\\x\xff"[fixture_random(&random) % 27];
        put(scene->path[0], damaged, bytes);
        drop(scene);
        enum traceml_status status =
            traceml_compare(scene->path[0], scene->path[1], NULL, &scene->made, scene->error, sizeof scene->error);
        assert_true(status == TRACEML_OK || status == TRACEML_BAD_DATA);
        if (status == TRACEML_OK)
            scene->root = tml_json_parse(scene->made.json, strlen(scene->made.json));
        assert_true(status == TRACEML_OK ? scene->root != NULL : *scene->error != '\0');
    }
}

static void test_a_path_that_is_not_there_is_named(void **state)
{
    struct scene *scene = *state;
    write_sample(scene->path[1], &steady);
    assert_int_equal(
        traceml_compare("/nowhere/at/all", scene->path[1], NULL, &scene->made, scene->error, sizeof scene->error),
        TRACEML_NOT_FOUND);
    assert_string_equal(scene->error, "/nowhere/at/all: No such file or directory");
    assert_int_equal(traceml_compare(scene->path[1], "/dev/null", NULL, &scene->made, NULL, 0), TRACEML_BAD_DATA);
}

static void test_a_huge_file_is_refused_before_it_is_read(void **state)
{
    struct scene *scene = *state;
    put(scene->path[0], "{", 1);
    assert_int_equal(truncate(scene->path[0], (off_t)65 << 20), 0);
    write_sample(scene->path[1], &steady);
    assert_int_equal(
        traceml_compare(scene->path[0], scene->path[1], NULL, &scene->made, scene->error, sizeof scene->error),
        TRACEML_BAD_DATA);
    assert_non_null(strstr(scene->error, "larger than 64 MiB"));
}

/* ---- Run directories, and writing ---- */

static void write_run(const struct fixture *fixture, int64_t wait_us)
{
    struct tml_step_row rows[61];
    struct fixture_header header = {0};
    for (uint64_t step = 1; step <= 61; step++) {
        struct fixture_times times = fixture_healthy;
        times.wait = wait_us + (int64_t)(step % 7) * 100;
        rows[step - 1] = fixture_row(step, &times);
    }
    fixture_rank(fixture, &header, rows, 61);
}

static void test_two_run_directories_are_analysed_and_compared(void **state)
{
    struct scene *scene = *state;
    struct fixture other;
    fixture_open(&other);
    write_run(&scene->fixture, 50000);
    write_run(&other, 2000);
    const struct tml_json *root = compare_paths(scene, scene->fixture.directory, other.directory, 5);
    assert_int_equal(scene->made.verdict, TRACEML_VERDICT_IMPROVEMENT);
    assert_int_equal(scene->made.limit, TRACEML_LIMIT_WITHIN);
    assert_int_equal(llround(number(root, "metrics/input_wait_ms/delta")), -48);
    assert_int_equal(llround(number(root, "metrics/forward_ms/delta")), 0);
    assert_int_equal(llround(number(root, "old/steps_analyzed")), 60);
    /* Both by the parts and by the quantiles. */
    assert_text(root, "step_time/mean/verdict", "improvement");
    assert_text(root, "step_time/median/verdict", "improvement");
    assert_true(number(root, "step_time/mean/noise") > 0);
    assert_text(root, "old/diagnosis/kind", "INPUT_BOUND");
    compare_paths(scene, scene->fixture.directory, scene->fixture.directory, 0);
    assert_int_equal(scene->made.verdict, TRACEML_VERDICT_WITHIN_NOISE);
    fixture_close(&other);
}

static void test_both_files_are_written_without_colour(void **state)
{
    struct scene *scene = *state;
    struct traceml_compare_options options;
    char base[128], error[512];
    size_t bytes;
    write_sample(scene->path[0], &steady);
    traceml_compare_options_init(&options);
    options.color = true;
    assert_int_equal(traceml_compare(scene->path[0], scene->path[0], &options, &scene->made, error, sizeof error),
                     TRACEML_OK);
    assert_non_null(strstr(scene->made.text, "\033["));
    snprintf(base, sizeof base, "%s/out", scene->fixture.directory);
    assert_int_equal(traceml_comparison_write(base, &scene->made, error, sizeof error), TRACEML_OK);
    char path[160];
    for (unsigned i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s%s", base, i ? ".txt" : ".json");
        FILE *file = fopen(path, "r");
        char text[65536];
        assert_non_null(file);
        bytes = fread(text, 1, sizeof text - 1, file);
        text[bytes] = '\0';
        fclose(file);
        assert_non_null(strstr(text, "WITHIN NOISE"));
        assert_true(strstr(text, "\033[") == NULL && strstr(text, "\\u001b") == NULL);
    }
}

static void test_a_place_that_cannot_be_written_is_named(void **state)
{
    struct scene *scene = *state;
    write_sample(scene->path[0], &steady);
    compare_paths(scene, scene->path[0], scene->path[0], NAN);
    assert_int_equal(traceml_comparison_write("/nowhere/at/all", &scene->made, scene->error, sizeof scene->error),
                     TRACEML_UNWRITABLE);
    assert_non_null(strstr(scene->error, "cannot write /nowhere/at/all.json"));
    assert_int_equal(traceml_comparison_write("/tmp/", &scene->made, scene->error, sizeof scene->error),
                     TRACEML_INVALID_ARGUMENT);
}

/* ---- Text ---- */

static size_t longest_line(const char *text)
{
    size_t longest = 0;
    while (*text) {
        char line[512];
        size_t bytes = strcspn(text, "\n");
        snprintf(line, sizeof line, "%.*s", (int)bytes, text);
        if (tml_text_columns(line) > longest)
            longest = tml_text_columns(line);
        text += bytes + (text[bytes] == '\n');
    }
    return longest;
}

static void test_the_text_keeps_to_its_width_and_to_ascii(void **state)
{
    struct scene *scene = *state;
    struct sample old = legacy("1.6", "\"total_step_ms\": 80, \"h2d_ms\": 0.0, \"forward_ms\": 4");
    write_sample(scene->path[0], &old);
    write_sample(scene->path[1], &steady);
    for (unsigned columns = 40; columns <= 120; columns += 5) {
        struct traceml_compare_options options;
        traceml_compare_options_init(&options);
        options.columns = columns;
        options.ascii = true;
        drop(scene);
        assert_int_equal(
            traceml_compare(scene->path[0], scene->path[1], &options, &scene->made, scene->error, sizeof scene->error),
            TRACEML_OK);
        if (longest_line(scene->made.text) > columns)
            print_error("%u columns:\n%s\n", columns, scene->made.text);
        assert_true(longest_line(scene->made.text) <= columns);
        for (const char *c = scene->made.text; *c; c++)
            assert_true((unsigned char)*c < 0x80);
    }
}

static void test_a_name_of_somebody_elses_steers_neither_lines_nor_the_terminal(void **state)
{
    struct scene *scene = *state;
    struct sample old = steady;
    old.name = "a\\nREGRESSION\\n\\u001b[31m";
    old.environment = "\"torch\": \"1\\nREGRESSION\"";
    compare(scene, &old, &steady);
    assert_true(strchr(scene->made.text, '\033') == NULL);
    assert_true(strstr(scene->made.text, "\nREGRESSION") == NULL);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_scene, close_scene)
    const struct CMUnitTest tests[] = {
        TEST(test_three_ratios_each_stand_under_their_own_name),
        TEST(test_a_ratio_that_is_not_known_is_not_another_one),
        TEST(test_runs_of_other_lengths_say_so_beside_their_ratios),
        TEST(test_without_a_common_clock_there_is_no_difference),
        TEST(test_windows_on_two_clocks_share_the_step_total_alone),
        TEST(test_two_windows_on_the_gpu_are_compared_there),
        TEST(test_a_phase_has_old_new_and_delta),
        TEST(test_null_is_no_delta_and_keeps_its_state),
        TEST(test_own_spans_are_compared_by_their_names),
        TEST(test_the_diagnosis_stands_before_and_after),
        TEST(test_a_difference_inside_the_spread_is_noise),
        TEST(test_the_same_difference_between_steadier_runs_counts),
        TEST(test_the_side_of_the_spread_towards_the_change_is_asked),
        TEST(test_parts_that_drift_apart_are_noise_too),
        TEST(test_slow_steps_that_only_the_mean_shows_count),
        TEST(test_mean_against_median_is_inconclusive),
        TEST(test_without_spread_the_noise_is_not_known),
        TEST(test_few_steps_are_inconclusive),
        TEST(test_no_step_time_is_inconclusive_and_says_why),
        TEST(test_a_step_of_other_work_is_inconclusive),
        TEST(test_a_step_of_no_time_at_all_gives_no_ratio),
        TEST(test_the_limit_counts_beyond_the_noise_alone),
        TEST(test_switches_that_changed_together_are_all_named),
        TEST(test_what_one_side_does_not_say_is_unknown_and_no_change),
        TEST(test_workers_that_persist_have_no_part_before_a_second_epoch),
        TEST(test_an_incomplete_run_is_said_to_be_one),
        TEST(test_dataloader_ms_is_the_hosts_fetch_and_never_input_wait),
        TEST(test_step_time_of_1_6_is_the_traced_step),
        TEST(test_zero_before_1_7_may_be_not_measured),
        TEST(test_a_table_of_two_clocks_is_compared_with_nothing),
        TEST(test_what_is_no_summary_is_one_line_that_names_the_file),
        TEST(test_a_wrong_type_never_becomes_a_number),
        TEST(test_a_summary_cut_anywhere_is_refused),
        TEST(test_damaged_bytes_give_a_line_or_a_comparison_and_nothing_else),
        TEST(test_a_path_that_is_not_there_is_named),
        TEST(test_a_huge_file_is_refused_before_it_is_read),
        TEST(test_two_run_directories_are_analysed_and_compared),
        TEST(test_both_files_are_written_without_colour),
        TEST(test_a_place_that_cannot_be_written_is_named),
        TEST(test_the_text_keeps_to_its_width_and_to_ascii),
        TEST(test_a_name_of_somebody_elses_steers_neither_lines_nor_the_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
