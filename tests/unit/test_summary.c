/* summary: final_summary.json says what the window and the verdict say, in the shape that readers of traceml-ai know.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "run_fixture.h"
#include "summary.h"

#define MOST_ROWS 400

struct scene {
    struct fixture fixture;
    struct traceml_report report;
    struct tml_json *root;
    char error[512];
};

static int open_scene(void **state)
{
    struct scene *scene = calloc(1, sizeof *scene);
    fixture_open(&scene->fixture);
    *state = scene;
    return 0;
}

static void drop(struct scene *scene)
{
    free(scene->report.json);
    free(scene->report.text);
    scene->report = (struct traceml_report){0};
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

static const struct tml_json *build_from(struct scene *scene, const char *path,
                                         const struct traceml_report_options *options)
{
    drop(scene);
    enum traceml_status status = tml_summary_build(path, options, &scene->report, scene->error, sizeof scene->error);
    if (status != TRACEML_OK)
        print_error("%s\n", scene->error);
    assert_int_equal(status, TRACEML_OK);
    scene->root = tml_json_parse(scene->report.json, strlen(scene->report.json));
    assert_non_null(scene->root);
    return scene->root;
}

static const struct tml_json *build(struct scene *scene)
{
    return build_from(scene, scene->fixture.directory, NULL);
}

/* "a/b/c" */
static const struct tml_json *at(const struct tml_json *value, const char *path)
{
    char key[64];
    while (*path && value) {
        size_t bytes = strcspn(path, "/");
        snprintf(key, sizeof key, "%.*s", (int)bytes, path);
        value = tml_json_get(value, key);
        path += bytes + (path[bytes] == '/');
    }
    return value;
}

static void expect_text(const struct tml_json *root, const char *path, const char *expected)
{
    const char *text = tml_json_string(at(root, path));
    if (!text)
        print_error("no text at %s\n", path);
    assert_non_null(text);
    assert_string_equal(text, expected);
}

static void expect_number(const struct tml_json *root, const char *path, double expected)
{
    double number = NAN;
    if (!tml_json_number(at(root, path), &number) || fabs(number - expected) > 1e-6)
        print_error("%s: %g instead of %g\n", path, number, expected);
    assert_true(fabs(number - expected) <= 1e-6);
}

static void expect_null(const struct tml_json *root, const char *path)
{
    if (!tml_json_is_null(at(root, path)))
        print_error("%s is not null\n", path);
    assert_true(tml_json_is_null(at(root, path)));
}

static void write_rank(struct scene *scene, unsigned rank, unsigned world, uint64_t steps,
                       const struct fixture_times *cpu, const struct fixture_times *gpu)
{
    static struct tml_step_row rows[MOST_ROWS];
    for (uint64_t step = 1; step <= steps; step++)
        rows[step - 1] = gpu ? fixture_gpu_row(step, cpu, gpu) : fixture_row(step, cpu);
    struct fixture_header header = {.rank = rank, .world = world, .device = gpu ? "cuda:0" : "cpu"};
    header.host = rank < 2 ? "a" : "b";
    fixture_rank(&scene->fixture, &header, rows, steps);
}

/* ---- Shape ---- */

static const char *const section_names[] = {"system",      "process", "step_time",
                                            "step_memory", "stalls",  "input_pipeline"};
static const char *const finding_keys[] = {"kind",  "status", "severity",  "summary",  "action", "metric",
                                           "phase", "score",  "share_pct", "skew_pct", "ranks",  "evidence"};

static void expect_finding(const struct tml_json *finding)
{
    for (unsigned i = 0; i < sizeof finding_keys / sizeof *finding_keys; i++)
        assert_non_null(tml_json_get(finding, finding_keys[i]));
}

static const char *const status_keys[] = {"availability",   "coverage",       "reason",
                                          "steps_observed", "steps_expected", "occurrences"};

static void expect_status(const struct tml_json *status)
{
    for (unsigned i = 0; i < sizeof status_keys / sizeof *status_keys; i++)
        assert_non_null(tml_json_get(status, status_keys[i]));
}

static void expect_section(const struct tml_json *section)
{
    static const char *const parts[] = {
        "metadata",       "diagnosis",     "issues",       "global/index_by", "global/window/alignment",
        "global/average", "global/median", "global/worst", "global/status",   "groups/by",
        "groups/rows",    "units",         "card"};
    for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (!at(section, parts[i]))
            print_error("%s is missing\n", parts[i]);
        assert_non_null(at(section, parts[i]));
    }
    assert_non_null(tml_json_first(tml_json_get(section, "issues"))); /* never empty */
    expect_finding(tml_json_get(section, "diagnosis"));
    char *diagnosis = tml_json_print(tml_json_get(section, "diagnosis"));
    char *first = tml_json_print(tml_json_first(tml_json_get(section, "issues")));
    assert_string_equal(diagnosis, first);
    free(diagnosis);
    free(first);
    const struct tml_json *name = tml_json_first(at(section, "metadata/section_metric_names"));
    for (; name; name = tml_json_next(name)) {
        assert_non_null(tml_json_get(at(section, "global/average"), tml_json_string(name)));
        assert_non_null(tml_json_get(at(section, "global/median"), tml_json_string(name)));
        assert_non_null(tml_json_get(at(section, "global/worst"), tml_json_string(name)));
        expect_status(tml_json_get(at(section, "global/status"), tml_json_string(name)));
    }
}

static void every_section_has_the_same_shape(void **state)
{
    write_rank(*state, 0, 1, 30, &fixture_healthy, NULL);
    const struct tml_json *root = build(*state);
    expect_number(root, "schema_version", 2.0);
    for (unsigned i = 0; i < sizeof section_names / sizeof *section_names; i++)
        expect_section(tml_json_get(root, section_names[i]));
    static const char *const others[] = {"generated_at", "duration_s", "meta",     "primary_diagnosis",
                                         "run",          "losses",     "overhead", "text"};
    for (unsigned i = 0; i < sizeof others / sizeof *others; i++)
        assert_non_null(tml_json_get(root, others[i]));
}

static void what_is_not_measured_says_so(void **state)
{
    write_rank(*state, 0, 1, 30, &fixture_healthy, NULL);
    const struct tml_json *root = build(*state);
    expect_text(root, "system/diagnosis/kind", "NO_DATA");
    expect_null(root, "system/global/average/cpu_percent");
    expect_text(root, "system/global/status/cpu_percent/availability", "unavailable");
    expect_text(root, "system/global/status/cpu_percent/reason", "not_in_this_version");
    expect_text(root, "step_memory/diagnosis/kind", "NO_GPU");
    expect_text(root, "step_memory/global/status/peak_allocated_bytes/availability", "not_applicable");
}

static void a_measured_zero_is_a_number_and_an_unknown_is_null(void **state)
{
    struct fixture_times times = fixture_healthy;
    times.optimizer = 0;
    write_rank(*state, 0, 1, 30, &times, NULL);
    const struct tml_json *root = build(*state);
    expect_number(root, "step_time/global/average/optimizer_ms", 0);
    expect_null(root, "step_time/global/average/h2d_ms");
    expect_text(root, "step_time/global/status/h2d_ms/availability", "not_applicable");
    expect_text(root, "step_time/global/status/h2d_ms/reason", "no_cuda");
    expect_null(root, "step_time/global/median/h2d_ms/value");
    expect_null(root, "step_time/global/median/h2d_ms/idx");
    expect_text(root, "step_time/global/median/forward_ms/idx", "0");
}

static void copies_on_a_device_are_unavailable(void **state)
{
    write_rank(*state, 0, 1, 30, &fixture_healthy, &fixture_healthy);
    const struct tml_json *root = build(*state);
    expect_null(root, "step_time/global/average/h2d_ms");
    expect_text(root, "step_time/global/status/h2d_ms/availability", "unavailable");
    expect_text(root, "step_time/global/status/h2d_ms/coverage", "unknown");
    expect_text(root, "step_time/global/status/h2d_ms/reason", "observer_missing");
    expect_null(root, "step_time/global/average/residual_ms");
    expect_text(root, "step_time/global/status/residual_ms/reason_phase", "h2d");
    expect_number(root, "step_time/global/average/unattributed_ms", 2);
    expect_text(root, "step_memory/diagnosis/kind", "NO_DATA");
}

static void the_window_says_its_steps_and_its_clock(void **state)
{
    write_rank(*state, 0, 1, 30, &fixture_healthy, &fixture_healthy);
    const struct tml_json *root = build(*state);
    expect_text(root, "step_time/global/window/kind", "step_window");
    expect_text(root, "step_time/global/window/alignment", "common_steps");
    expect_number(root, "step_time/global/window/steps_analyzed", 29);
    expect_number(root, "step_time/global/window/start_step", 2);
    expect_number(root, "step_time/global/window/end_step", 30);
    expect_number(root, "step_time/global/window/window_size", 10000);
    expect_text(root, "step_time/global/window/diagnosis_clock", "gpu");
    expect_text(root, "step_time/global/window/clock_reason", "gpu_complete");
    expect_number(root, "step_time/global/warmup/steps", 1);
    expect_number(root, "step_time/global/whole_run/steps", 30);
    expect_number(root, "step_time/global/whole_run/times_ms/in.forward.cpu_ms/total", 900);
    expect_number(root, "step_time/metadata/training_latest_step", 30);
}

static void the_primary_diagnosis_follows_the_first_finding(void **state)
{
    struct scene *scene = *state;
    struct fixture_times slow = fixture_healthy;
    slow.wait = 100000;
    write_rank(scene, 0, 1, 30, &slow, NULL);
    const struct tml_json *root = build(scene);
    expect_text(root, "primary_diagnosis/kind", "INPUT_BOUND");
    expect_text(root, "primary_diagnosis/severity", "crit");
    expect_text(root, "primary_diagnosis/section", "step_time");
    expect_text(root, "primary_diagnosis/evidence/type", "phase_share");
    expect_number(root, "step_time/diagnosis/share_pct", 100.0 / 198);
    expect_number(root, "step_time/diagnosis/evidence/input_wait_ms", 100);
    slow.wait = slow.residual = 9000;
    write_rank(scene, 0, 1, 30, &slow, NULL);
    root = build(scene);
    expect_text(root, "step_time/diagnosis/kind", "BALANCED");
    expect_text(root, "primary_diagnosis/kind", "NO_CLEAR_PERFORMANCE_BOTTLENECK");
    write_rank(scene, 0, 1, 2, &fixture_healthy, NULL);
    root = build(scene);
    expect_text(root, "step_time/diagnosis/kind", "WARMUP");
    expect_text(root, "primary_diagnosis/kind", "INSUFFICIENT_STEP_TIME_DATA");
    write_rank(scene, 0, 1, 0, &fixture_healthy, NULL);
    root = build(scene);
    expect_text(root, "step_time/diagnosis/kind", "NO_DATA");
    expect_text(root, "step_time/global/window/alignment", "none");
    expect_null(root, "step_time/global/window/start_step");
    expect_text(root, "meta/mode", "no_data");
}

static void the_evidence_names_every_signal_once(void **state)
{
    struct scene *scene = *state;
    static struct tml_step_row rows[31];
    struct fixture_times gpu = fixture_healthy;
    gpu.h2d = 6000;
    gpu.pre_h2d = 18000; /* in the signal and in the denominator */
    for (uint64_t step = 1; step <= 31; step++)
        rows[step - 1] = fixture_gpu_row(step, &fixture_healthy, &gpu);
    fixture_rank(&scene->fixture, &(struct fixture_header){.device = "cuda:0", .observer = true}, rows, 31);
    const struct tml_json *root = build(scene); /* a name that comes twice is no JSON to our reader */
    expect_text(root, "primary_diagnosis/kind", "H2D_BOUND");
    expect_number(root, "step_time/diagnosis/evidence/h2d_ms", 6);
    expect_number(root, "step_time/diagnosis/evidence/pre_step_h2d_ms", 18);
    expect_number(root, "step_time/diagnosis/evidence/step_time_ms", 106);
    expect_number(root, "step_time/diagnosis/share_pct", 24.0 / 124);
}

static void a_straggler_says_who_holds_up_whom_and_by_what(void **state)
{
    struct scene *scene = *state;
    static struct tml_step_row rows[2][31];
    for (unsigned rank = 0; rank < 2; rank++) {
        struct fixture_times times = fixture_healthy;
        *(rank == 1 ? &times.forward : &times.backward) += 50000; /* the other one waits for it in backward */
        for (uint64_t step = 1; step <= 31; step++)
            rows[rank][step - 1] = fixture_row(step, &times);
        struct fixture_header header = {
            .rank = rank, .world = 2, .environment = "{\"python\":\"3.12.1\",\"strategy\":\"DDP\"}"};
        fixture_rank(&scene->fixture, &header, rows[rank], 31);
    }
    const struct tml_json *root = build(scene);
    expect_text(root, "step_time/diagnosis/kind", "COMPUTE_STRAGGLER");
    expect_number(root, "step_time/diagnosis/score", 50.0 / 150);
    expect_number(tml_json_first(at(root, "step_time/diagnosis/ranks")), "", 1);
    expect_text(root, "step_time/diagnosis/evidence/component", "compute");
    expect_number(root, "step_time/diagnosis/evidence/culprit_rank", 1);
    expect_number(root, "step_time/diagnosis/evidence/victim_rank", 0);
    expect_text(root, "step_time/diagnosis/evidence/visible_metric", "backward");
    expect_number(root, "step_time/diagnosis/evidence/visible_culprit_ms", 60);
    expect_number(root, "step_time/diagnosis/evidence/visible_victim_ms", 110);
    expect_number(root, "step_time/diagnosis/evidence/component_excesses_ms/compute", 50);
    expect_number(root, "step_time/diagnosis/evidence/component_excesses_ms/input", 0);
    expect_number(root, "step_time/diagnosis/evidence/component_coverage/compute", 1);
    expect_text(root, "primary_diagnosis/kind", "COMPUTE_STRAGGLER");
    expect_text(root, "primary_diagnosis/evidence/type", "rank_comparison");
    expect_number(root, "primary_diagnosis/evidence/score_numerator_ms", 50);
    expect_number(root, "primary_diagnosis/evidence/score_denominator_ms", 150);
}

static void ranks_have_their_own_rows(void **state)
{
    for (unsigned rank = 0; rank < 3; rank++) {
        struct fixture_times times = fixture_healthy;
        times.wait = 1000 * (rank + 1);
        write_rank(*state, rank, 4, 30, &times, NULL);
    }
    const struct tml_json *root = build(*state);
    expect_text(root, "meta/mode", "multi_node");
    expect_number(root, "meta/world_size", 4);
    expect_number(root, "meta/ranks_seen", 3);
    expect_number(tml_json_first(at(root, "meta/ranks_missing")), "", 3);
    expect_number(root, "step_time/groups/rows/1/metrics/input_wait_ms", 2);
    expect_text(root, "step_time/groups/rows/2/identity/hostname", "b");
    expect_number(root, "step_time/groups/rows/2/identity/node_rank", 1);
    expect_number(root, "step_time/groups/rows/0/identity/local_world_size", 2);
    expect_text(root, "step_time/groups/rows/2/status/input_wait_ms/coverage", "in_window");
    expect_number(root, "step_time/groups/rows/2/spread/input_wait_ms/p50", 3);
    expect_text(root, "step_time/global/worst/input_wait_ms/idx", "2");
    expect_number(root, "step_time/global/average/input_wait_ms", 2);
}

/* ---- How it ended, what it was, what was lost ---- */

static bool is_true(const struct tml_json *value)
{
    bool yes = false;
    assert_true(tml_json_bool(value, &yes));
    return yes;
}

static void the_end_is_what_the_caller_knows_then_the_manifest_then_the_lines(void **state)
{
    struct scene *scene = *state;
    struct traceml_report_options options = {.size = sizeof options, .window_steps = 100, .columns = 80};
    write_rank(scene, 0, 1, 30, &fixture_healthy, NULL);
    const struct tml_json *root = build(scene);
    expect_text(root, "meta/end_reason", "finished");
    assert_true(is_true(at(root, "meta/complete")));
    fixture_text(&scene->fixture, "manifest.json", "{\"end_reason\":\"signal:SIGKILL\",\"world_size\":1}");
    root = build(scene);
    expect_text(root, "meta/end_reason", "signal:SIGKILL");
    assert_false(is_true(at(root, "meta/complete")));
    options.end_reason = "exit:3";
    root = build_from(scene, scene->fixture.directory, &options);
    expect_text(root, "meta/end_reason", "exit:3");
    assert_false(is_true(at(root, "meta/complete")));
}

static void a_run_without_its_end_is_not_complete(void **state)
{
    struct scene *scene = *state;
    FILE *file = fixture_rank_file(&scene->fixture, 0);
    fixture_write_header(file, &(struct fixture_header){0});
    for (uint64_t step = 1; step <= 5; step++) {
        struct tml_step_row row = fixture_row(step, &fixture_healthy);
        fixture_write_row(file, &row);
    }
    fclose(file);
    const struct tml_json *root = build(scene);
    expect_text(root, "meta/end_reason", "unknown");
    assert_false(is_true(at(root, "meta/complete")));
    expect_number(root, "duration_s", 0.502); /* of the loop: its first fetch and five steps */
    expect_null(root, "run/session_s");
    expect_null(root, "run/process_s");
    expect_text(root, "run/reasons/process_s", "no_end");
    expect_text(root, "run/reasons/epochs_completed", "no_end");
}

static void denominators_are_kept_apart(void **state)
{
    struct scene *scene = *state;
    write_rank(scene, 0, 1, 30, &fixture_healthy, NULL);
    const struct tml_json *root = build(scene);
    expect_number(root, "run/process_s", 60.25);
    expect_number(root, "run/session_s", 52.4);
    expect_number(root, "run/training_loop_s", 3.002);
    expect_number(root, "duration_s", 3.002); /* one definition, with an end and without */
    expect_number(root, "run/step_total_cpu_s", 3.0);
    expect_null(root, "run/step_total_gpu_s");
    expect_null(root, "run/framework_runtime_s");
    expect_null(root, "run/evaluation_s"); /* nobody watched */
    expect_text(root, "run/reasons/evaluation_s", "no_span");
    expect_null(root, "run/epochs_completed"); /* nor said */
    expect_text(root, "run/reasons/epochs_completed", "not_reported");
    expect_number(root, "run/steps_completed", 30);
    expect_number(root, "run/microbatches", 30);
    expect_number(root, "run/gradient_accumulation", 1);
    expect_number(root, "run/epochs_begun", 1);
}

static void the_loop_is_never_shorter_than_its_steps(void **state)
{
    struct scene *scene = *state;
    struct tml_step_row rows[3];
    for (uint64_t step = 1; step <= 3; step++)
        rows[step - 1] = fixture_row(step, &fixture_healthy);
    /* Workers start: longer than all of the steps. */
    fixture_put(&rows[0], TML_REGION_PRE, TRACEML_PHASE_DATALOADER_FETCH, TML_CLOCK_CPU, 5000000);
    fixture_rank(&scene->fixture, &(struct fixture_header){0}, rows, 3);
    const struct tml_json *root = build(scene);
    expect_number(root, "run/training_loop_s", 5.3);
    expect_number(root, "run/step_total_cpu_s", 5.298);
}

/* Steps 11, 21, ... begin an iterator: 400 ms pass before each, 100 of them in its first fetch. */
static void write_epochs(struct scene *scene, const char *environment)
{
    struct tml_step_row rows[40];
    int64_t late_ns = 0;
    for (uint64_t step = 1; step <= 40; step++) {
        struct tml_step_row *row = &rows[step - 1];
        *row = fixture_row(step, &fixture_healthy);
        if (step > 1 && step % 10 == 1) {
            row->flags |= TML_STEP_FLAG_FIRST_FETCH;
            fixture_put(row, TML_REGION_PRE, TRACEML_PHASE_DATALOADER_FETCH, TML_CLOCK_CPU, 100000);
            row->term_ns[TML_CLOCK_CPU][TML_TERM_PRE_STEP_OTHER] = 300 * TML_NS_PER_MS;
            row->term_ns[TML_CLOCK_CPU][TML_TERM_ITERATION] =
                row->term_ns[TML_CLOCK_CPU][TML_TERM_TRACED_STEP] + 400 * TML_NS_PER_MS;
            late_ns += 400 * TML_NS_PER_MS;
        }
        row->epoch = (int64_t)(step - 1) / 10;
        row->end_ns += late_ns;
    }
    fixture_rank(&scene->fixture, &(struct fixture_header){.environment = environment}, rows, 40);
}

/* No window holds it, as those steps are apart: the verdict and the denominators have to. */
static void time_between_steps_where_an_iterator_begins_is_told(void **state)
{
    struct scene *scene = *state;
    write_epochs(scene, NULL);
    const struct tml_json *root = build(scene);
    expect_number(root, "run/between_steps_s", 1.2);
    expect_number(root, "run/between_steps_share", 1.2 / 5.202);
    expect_number(root, "step_time/global/warmup/between_steps/count", 3);
    expect_number(root, "step_time/global/warmup/between_steps/mean_ms", 400);
    expect_number(root, "step_time/global/warmup/between_steps/fetch_ms", 300);
    assert_non_null(strstr(scene->report.text,
                           "between steps 1.2 s, 23 % of the loop: 400.0 ms before each of 3 new epochs, of it"));
    assert_null(strstr(scene->report.text, "nothing to repair"));
    assert_null(strstr(scene->report.text, "persistent_workers")); /* without workers it would change nothing */
}

static void steps_without_a_new_iterator_have_nothing_between(void **state)
{
    struct scene *scene = *state;
    write_rank(scene, 0, 1, 40, &fixture_healthy, NULL);
    const struct tml_json *root = build(scene);
    expect_number(root, "run/between_steps_s", 0);
    expect_null(root, "step_time/global/warmup/between_steps/mean_ms");
    assert_null(strstr(scene->report.text, "between steps"));
}

static void keep_as_folds(FILE *file, uint64_t first, uint64_t last)
{
    static struct tml_step_fold fold;
    static char line[TML_STEP_FOLD_LINE_BYTES];
    for (uint64_t step = first; step <= last; step++) {
        struct tml_step_row row = fixture_row(step, &fixture_healthy);
        tml_step_fold_add(&fold, &row);
        if (step % 1000 != 0)
            continue;
        assert_int_equal(fwrite(line, 1, tml_step_fold_write(&fold, line, sizeof line), file) > 0, 1);
        tml_step_fold_clear(&fold);
    }
}

/* 90,000 of them stand in the file as folds alone: what is beyond the window is bounded, and labelled apart. */
static void of_100000_steps_one_window_is_stated(void **state)
{
    struct scene *scene = *state;
    FILE *file = fixture_rank_file(&scene->fixture, 0);
    fixture_write_header(file, &(struct fixture_header){0});
    keep_as_folds(file, 1, 90000);
    for (uint64_t step = 90001; step <= 100000; step++) {
        struct tml_step_row row = fixture_row(step, &fixture_healthy);
        fixture_write_row(file, &row);
    }
    fixture_write_end(file, "finished");
    fclose(file);
    struct traceml_report_options options = {.size = sizeof options, .window_steps = 500};
    const struct tml_json *root = build_from(scene, scene->fixture.directory, &options);
    expect_number(root, "step_time/global/window/start_step", 99501);
    expect_number(root, "step_time/global/window/steps_analyzed", 500);
    root = build(scene);
    expect_number(root, "step_time/global/window/start_step", 90001);
    expect_number(root, "step_time/global/window/end_step", 100000);
    expect_number(root, "step_time/global/window/steps_analyzed", 10000);
    expect_number(root, "step_time/global/status/forward_ms/steps_expected", 10000);
    expect_number(root, "step_time/global/whole_run/steps", 100000);
    expect_number(root, "run/steps_completed", 100000);
    double p50 = NAN;
    tml_json_number(at(tml_json_get(at(root, "step_time/global/whole_run/times_ms"), "cpu.traced_step_ms"), "p50"),
                    &p50);
    assert_true(fabs(p50 - 98.0) <= 98.0 * 0.044);
    assert_non_null(strstr(scene->report.text, "steps 90001-100000 of 100000"));
    assert_non_null(strstr(scene->report.text, ", all steps "));
}

static void what_an_integration_says_of_the_run_wins(void **state)
{
    struct scene *scene = *state;
    write_rank(scene, 0, 1, 30, &fixture_healthy, NULL);
    fixture_text(
        &scene->fixture, "steps-rank00000.jsonl",
        "{\"end\":{\"reason\":\"finished\",\"after_s\":1,\"run\":{\"epochs_completed\":3,\"framework_runtime_s\":68.66,"
        "\"own\":{\"a\":[1]}}}}\n");
    const struct tml_json *root = build(scene);
    expect_number(root, "run/epochs_completed", 3);
    expect_number(root, "run/framework_runtime_s", 68.66);
    assert_non_null(at(root, "run/own/a"));
}

static void losses_are_listed_by_cause_with_words(void **state)
{
    struct scene *scene = *state;
    write_rank(scene, 0, 1, 30, &fixture_healthy, NULL);
    fixture_text(
        &scene->fixture, "steps-rank00000.jsonl",
        "garbage\n{\"end\":{\"reason\":\"finished\",\"losses\":{\"ring_full\":3,\"late\":2,\"a_later_one\":9}}}\n");
    const struct tml_json *root = build(scene);
    expect_number(root, "losses/total", 5);
    expect_number(root, "losses/causes/ring_full/count", 3);
    expect_text(root, "losses/causes/ring_full/meaning", tml_loss_words(TML_LOSS_RING_FULL, 2));
    expect_number(root, "losses/causes/timed_out/count", 0);
    expect_number(root, "losses/bad_lines/count", 1);
    expect_text(root, "losses/bad_lines/first", "steps-rank00000.jsonl:33: not JSON");
    assert_int_equal(scene->report.bad_lines, 1);
}

static void what_was_not_closed_is_said(void **state)
{
    struct scene *scene = *state;
    write_rank(scene, 0, 2, 30, &fixture_healthy, NULL);
    const struct tml_json *root = build(scene);
    expect_number(root, "losses/unclosed/ranks", 0);
    expect_null(root, "losses/unclosed/last_ms");
    FILE *file = fixture_rank_file(&scene->fixture, 1);
    fixture_unclosed(file, 1, 2, 100, "\"host\":\"nowhere\",\"pid\":1,\"pid_start_ticks\":1");
    fclose(file);
    root = build(scene);
    expect_number(root, "losses/unclosed/ranks", 1);
    expect_number(root, "losses/unclosed/last_ms", 100);
    bool running = true, complete = true;
    assert_true(tml_json_bool(at(root, "meta/running"), &running) && !running);
    assert_true(tml_json_bool(at(root, "meta/complete"), &complete) && !complete);
}

static void the_environment_is_handed_on(void **state)
{
    write_rank(*state, 0, 1, 30, &fixture_healthy, &fixture_healthy);
    const struct tml_json *root = build(*state);
    expect_text(root, "meta/environment/torch", "2.11.0");
    expect_text(root, "meta/environment/strategy", "none");
    expect_number(root, "meta/environment/loader/workers", 0);
    expect_number(root, "meta/environment/host_cores", 16);
    expect_text(tml_json_first(at(root, "meta/environment/gpu_names")), "", "NVIDIA H200");
    expect_number(root, "meta/gpus_observed", 1);
}

/* ---- Paths ---- */

static void a_written_summary_is_read_back_as_it_was(void **state)
{
    struct scene *scene = *state;
    char path[128], *json, *text;
    write_rank(scene, 0, 1, 30, &fixture_healthy, NULL);
    build(scene);
    assert_int_equal(tml_summary_write(scene->fixture.directory, &scene->report, scene->error, sizeof scene->error),
                     TRACEML_OK);
    json = strdup(scene->report.json);
    text = strdup(scene->report.text);
    snprintf(path, sizeof path, "%s/final_summary.json", scene->fixture.directory);
    build_from(scene, path, NULL);
    assert_string_equal(scene->report.json, json);
    assert_string_equal(scene->report.text, text);
    /* The step files may be gone. */
    char steps[128];
    snprintf(steps, sizeof steps, "%s/steps-rank00000.jsonl", scene->fixture.directory);
    unlink(steps);
    build(scene);
    assert_string_equal(scene->report.json, json);
    free(json);
    free(text);
}

static void a_written_text_has_no_colour(void **state)
{
    struct scene *scene = *state;
    struct traceml_report_options options = {.size = sizeof options, .window_steps = 100, .columns = 80, .color = true};
    char text[8192];
    write_rank(scene, 0, 1, 30, &fixture_healthy, NULL);
    const struct tml_json *root = build_from(scene, scene->fixture.directory, &options);
    assert_non_null(strchr(scene->report.text, '\033'));
    assert_null(strchr(tml_json_string(tml_json_get(root, "text")), '\033'));
    assert_int_equal(tml_summary_write(scene->fixture.directory, &scene->report, scene->error, sizeof scene->error),
                     TRACEML_OK);
    FILE *file = fixture_file(&scene->fixture, "final_summary.txt", "r");
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    assert_string_equal(text, tml_json_string(tml_json_get(root, "text")));
}

static void expect_refused(struct scene *scene, const char *content, enum traceml_status expected, const char *words)
{
    char path[128];
    FILE *file = fixture_file(&scene->fixture, "file.json", "w");
    fputs(content, file);
    fclose(file);
    snprintf(path, sizeof path, "%s/file.json", scene->fixture.directory);
    assert_int_equal(tml_summary_build(path, NULL, &scene->report, scene->error, sizeof scene->error), expected);
    if (!strstr(scene->error, words))
        print_error("%s\n", scene->error);
    assert_non_null(strstr(scene->error, words));
    assert_non_null(strstr(scene->error, path));
    assert_null(strchr(scene->error, '\n'));
    assert_null(scene->report.json);
    assert_null(scene->report.text);
}

static void a_file_that_is_no_summary_of_ours_is_refused_in_one_line(void **state)
{
    expect_refused(*state, "", TRACEML_BAD_DATA, "file.json: not a summary of ours: empty");
    expect_refused(*state, "hello", TRACEML_BAD_DATA, "file.json:1: not JSON");
    expect_refused(*state, "{\n\"schema_version\":2.0,\n\"step_time\":{", TRACEML_BAD_DATA, "file.json:3: not JSON");
    expect_refused(*state, "{\"schema_version\":2.0,\"schema_version\":2.0}", TRACEML_BAD_DATA, "a key twice");
    expect_refused(*state, "[1]", TRACEML_BAD_DATA, "not a JSON object");
    expect_refused(*state, "{\"a\":1}", TRACEML_BAD_DATA, "no schema_version");
    expect_refused(*state, "{\"schema_version\":1.7,\"text\":\"x\"}", TRACEML_BAD_DATA,
                   "another tool or an older schema");
    expect_refused(*state, "{\"schema_version\":2.0,\"text\":\"x\"}", TRACEML_BAD_DATA, "no step_time");
    expect_refused(*state, "{\"schema_version\":2.0,\"step_time\":{},\"primary_diagnosis\":{},\"text\":1}",
                   TRACEML_BAD_DATA, "no text");
    expect_refused(*state, "{\"schema_version\":2.0,\"step_time\":{},\"primary_diagnosis\":{},\"text\":\"\\u001b[2J\"}",
                   TRACEML_BAD_DATA, "control characters in its text");
}

static void a_path_that_is_not_there_is_not_found(void **state)
{
    struct scene *scene = *state;
    assert_int_equal(tml_summary_build("/nonexistent/x", NULL, &scene->report, scene->error, sizeof scene->error),
                     TRACEML_NOT_FOUND);
    assert_string_equal(scene->error, "/nonexistent/x: No such file or directory");
    assert_int_equal(tml_summary_build("/dev/null", NULL, &scene->report, scene->error, sizeof scene->error),
                     TRACEML_BAD_DATA);
}

static void a_directory_that_cannot_be_written_is_said(void **state)
{
    struct scene *scene = *state;
    write_rank(scene, 0, 1, 3, &fixture_healthy, NULL);
    build(scene);
    assert_int_equal(tml_summary_write("/nonexistent/x", &scene->report, scene->error, sizeof scene->error),
                     TRACEML_UNWRITABLE);
    assert_non_null(strstr(scene->error, "/nonexistent/x: No such file or directory"));
}

static void a_shorter_options_struct_of_an_older_caller_gets_defaults(void **state)
{
    struct scene *scene = *state;
    struct traceml_report_options options = {.size = offsetof(struct traceml_report_options, columns),
                                             .window_steps = 7};
    options.columns = 41; /* lies beyond what the caller knew */
    write_rank(scene, 0, 1, 30, &fixture_healthy, NULL);
    const struct tml_json *root = build_from(scene, scene->fixture.directory, &options);
    expect_number(root, "step_time/global/window/steps_analyzed", 7);
    assert_non_null(strstr(scene->report.text, "shares are of step time, 100.0 ms\n"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_scene, close_scene)
    const struct CMUnitTest tests[] = {
        TEST(every_section_has_the_same_shape),
        TEST(what_is_not_measured_says_so),
        TEST(a_measured_zero_is_a_number_and_an_unknown_is_null),
        TEST(copies_on_a_device_are_unavailable),
        TEST(the_window_says_its_steps_and_its_clock),
        TEST(the_primary_diagnosis_follows_the_first_finding),
        TEST(the_evidence_names_every_signal_once),
        TEST(a_straggler_says_who_holds_up_whom_and_by_what),
        TEST(ranks_have_their_own_rows),
        TEST(the_end_is_what_the_caller_knows_then_the_manifest_then_the_lines),
        TEST(a_run_without_its_end_is_not_complete),
        TEST(denominators_are_kept_apart),
        TEST(the_loop_is_never_shorter_than_its_steps),
        TEST(time_between_steps_where_an_iterator_begins_is_told),
        TEST(steps_without_a_new_iterator_have_nothing_between),
        TEST(of_100000_steps_one_window_is_stated),
        TEST(what_an_integration_says_of_the_run_wins),
        TEST(losses_are_listed_by_cause_with_words),
        TEST(what_was_not_closed_is_said),
        TEST(the_environment_is_handed_on),
        TEST(a_written_summary_is_read_back_as_it_was),
        TEST(a_written_text_has_no_colour),
        TEST(a_file_that_is_no_summary_of_ours_is_refused_in_one_line),
        TEST(a_path_that_is_not_there_is_not_found),
        TEST(a_directory_that_cannot_be_written_is_said),
        TEST(a_shorter_options_struct_of_an_older_caller_gets_defaults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
