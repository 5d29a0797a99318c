#include "summary.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "line_reader.h"
#include "run_dir.h"

#define SUMMARY_LIMIT (256u << 20)
#define WINDOW_STEPS 10000
#define COLUMNS 100

/* ---- Analysis ---- */

static void analysis_free(struct tml_analysis *analysis, struct tml_run *run)
{
    tml_verdict_free(&analysis->verdict);
    tml_window_free(&analysis->window);
    tml_run_free(run);
}

static enum traceml_status analyse(const char *directory, const struct traceml_report_options *options,
                                   struct tml_run *run, struct tml_analysis *analysis, char *error, size_t error_bytes)
{
    *analysis = (struct tml_analysis){.run = run};
    enum traceml_status status = tml_run_read(directory, options->window_steps, run, error, error_bytes);
    if (status != TRACEML_OK)
        return status;
    tml_run_facts_gather(run, options->end_reason, &analysis->facts);
    if (tml_window_build(run, options->window_steps, &analysis->window) &&
        tml_diagnose(&analysis->window, &analysis->facts, &analysis->verdict))
        return TRACEML_OK;
    snprintf(error, error_bytes, "%s: out of memory", directory);
    return TRACEML_OUT_OF_MEMORY;
}

/* ---- The document ---- */

void tml_summary_write_generated_at(struct tml_json_writer *json)
{
    char text[64] = "";
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    if (gmtime_r(&now.tv_sec, &utc)) {
        size_t length = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
        snprintf(text + length, sizeof text - length, ".%06ld+00:00", now.tv_nsec / 1000);
    }
    tml_json_write_string(json, "generated_at", text);
}

/* Of the training loop, as in the text's first line: the one duration that a killed run has, too. */
static void write_duration(struct tml_json_writer *json, const struct tml_run_facts *facts)
{
    bool known = facts->training_loop_ns != TML_NS_NONE;
    tml_json_write_number(json, "duration_s", known ? (double)facts->training_loop_ns / TML_NS_PER_S : NAN, 6);
}

static char *document(const struct tml_analysis *analysis, const char *text, const char *card)
{
    struct tml_json_writer json;
    tml_json_writer_heap(&json, 2);
    tml_json_begin_object(&json, NULL);
    tml_json_write_raw(&json, "schema_version", TML_SCHEMA_VERSION_TEXT);
    tml_summary_write_generated_at(&json);
    write_duration(&json, &analysis->facts);
    tml_summary_write_meta(&json, analysis);
    tml_summary_write_primary(&json, analysis);
    tml_summary_write_absent(&json, analysis, "system");
    tml_summary_write_absent(&json, analysis, "process");
    tml_summary_write_step_time(&json, analysis, card);
    tml_summary_write_absent(&json, analysis, "step_memory");
    tml_summary_write_absent(&json, analysis, "stalls");
    tml_summary_write_absent(&json, analysis, "input_pipeline");
    tml_summary_write_run(&json, analysis);
    tml_summary_write_losses(&json, analysis);
    tml_summary_write_overhead(&json, analysis);
    tml_json_write_string(&json, "text", text);
    tml_json_end_object(&json);
    return tml_json_writer_take(&json);
}

/* The text inside the JSON has no colour; the one handed out has, if asked for. */
static enum traceml_status render(const struct tml_analysis *analysis, const struct traceml_report_options *options,
                                  struct traceml_report *report)
{
    struct tml_text_style style = {.columns = options->columns, .ascii = options->ascii, .unsaved = options->unsaved};
    char *text = tml_report_text(analysis, &style), *card = tml_report_card(analysis, &style);
    report->json = text && card ? document(analysis, text, card) : NULL;
    free(card);
    style.color = options->color;
    report->text = options->color ? tml_report_text(analysis, &style) : text;
    if (options->color)
        free(text);
    report->bad_lines = analysis->run->bad_lines < 0xFFFFFFFF ? (unsigned)analysis->run->bad_lines : 0xFFFFFFFF;
    return report->json && report->text ? TRACEML_OK : TRACEML_OUT_OF_MEMORY;
}

/* traceml-ai has a manifest of the same name, of an older schema, and keeps its steps elsewhere. */
static bool is_another_tools(const struct tml_run *run)
{
    double version;
    return run->rank_count == 0 && tml_json_number(tml_json_get(run->manifest, "schema_version"), &version) &&
           version < TML_SCHEMA_VERSION;
}

static enum traceml_status build_from_steps(const char *directory, const struct traceml_report_options *options,
                                            struct traceml_report *report, char *error, size_t error_bytes)
{
    struct tml_run run;
    struct tml_analysis analysis;
    enum traceml_status status = analyse(directory, options, &run, &analysis, error, error_bytes);
    if (status == TRACEML_OK && is_another_tools(&run)) {
        status = TRACEML_NOT_FOUND;
        snprintf(error, error_bytes, "%s: a run of another tool or an older schema, and no " TML_SUMMARY_JSON " in it",
                 directory);
    } else if (status == TRACEML_OK) {
        status = render(&analysis, options, report);
        if (status != TRACEML_OK)
            snprintf(error, error_bytes, "%s: out of memory", directory);
    }
    analysis_free(&analysis, &run);
    return status;
}

/* ---- A summary that was written before ---- */

#define INSTEAD "; give a run directory or its " TML_SUMMARY_JSON

/* What is wrong with it; NULL when it is one of ours. */
static const char *not_ours(const struct tml_json *root)
{
    double version;
    if (!tml_json_is_object(root))
        return "not a JSON object";
    if (!tml_json_number(tml_json_get(root, "schema_version"), &version))
        return "no schema_version";
    if (version < TML_SCHEMA_VERSION)
        return "a summary of another tool or an older schema (traceml compare reads those of traceml-ai, 1.4 to 1.7)";
    if (!tml_json_is_object(tml_json_get(root, "step_time")) ||
        !tml_json_is_object(tml_json_get(root, "primary_diagnosis")))
        return "no step_time and primary_diagnosis in it";
    const char *text = tml_json_string(tml_json_get(root, "text"));
    if (text && !tml_text_is_plain(text)) /* it goes to a terminal as it is */
        return "control characters in its text";
    return text ? NULL : "no text in it";
}

static enum traceml_status build_from_summary(const char *path, struct traceml_report *report, char *error,
                                              size_t error_bytes)
{
    size_t bytes = 0;
    report->json = tml_line_reader_slurp(path, SUMMARY_LIMIT, &bytes);
    if (!report->json) {
        snprintf(error, error_bytes, "%s: %s", path, strerror(errno));
        return errno == ENOENT ? TRACEML_NOT_FOUND : errno == ENOMEM ? TRACEML_OUT_OF_MEMORY : TRACEML_SYSTEM;
    }
    struct tml_json_fault fault;
    struct tml_json *root = tml_json_parse_or_say(report->json, bytes, &fault);
    const char *wrong = root ? not_ours(root) : fault.what;
    if (wrong && !root && fault.line > 0)
        snprintf(error, error_bytes, "%s:%zu: %s" INSTEAD, path, fault.line, wrong);
    else if (wrong)
        snprintf(error, error_bytes, "%s: not a summary of ours: %s" INSTEAD, path, wrong);
    else
        report->text = strdup(tml_json_string(tml_json_get(root, "text")));
    tml_json_free(root);
    if (report->text)
        return TRACEML_OK;
    return wrong ? TRACEML_BAD_DATA : TRACEML_OUT_OF_MEMORY;
}

/* ---- Entry ---- */

static struct traceml_report_options with_defaults(const struct traceml_report_options *options)
{
    struct traceml_report_options full = {.size = sizeof full, .window_steps = WINDOW_STEPS, .columns = COLUMNS};
    if (options) /* a caller built against an older header has a shorter struct */
        memcpy(&full, options, options->size && options->size < sizeof full ? options->size : sizeof full);
    if (full.window_steps == 0)
        full.window_steps = WINDOW_STEPS;
    if (full.columns == 0)
        full.columns = COLUMNS;
    return full;
}

/* No step files any more, but the summary is there. */
static bool summary_inside(const char *directory, char *path, size_t bytes)
{
    struct stat status;
    int length = snprintf(path, bytes, "%s/%s", directory, TML_SUMMARY_JSON);
    return length > 0 && (size_t)length < bytes && stat(path, &status) == 0;
}

enum traceml_status tml_summary_build(const char *path, const struct traceml_report_options *options,
                                      struct traceml_report *report, char *error, size_t error_bytes)
{
    char inside[4096];
    struct stat status;
    *report = (struct traceml_report){0};
    struct traceml_report_options full = with_defaults(options);
    enum traceml_status result = TRACEML_NOT_FOUND;
    if (stat(path, &status) != 0) {
        snprintf(error, error_bytes, "%s: %s", path, strerror(errno));
    } else if (S_ISDIR(status.st_mode)) {
        result = build_from_steps(path, &full, report, error, error_bytes);
        if (result == TRACEML_NOT_FOUND && summary_inside(path, inside, sizeof inside))
            result = build_from_summary(inside, report, error, error_bytes);
    } else if (S_ISREG(status.st_mode)) {
        result = build_from_summary(path, report, error, error_bytes);
    } else {
        snprintf(error, error_bytes, "%s: neither a run directory nor a summary file", path);
        result = TRACEML_BAD_DATA;
    }
    if (result != TRACEML_OK) {
        free(report->json);
        free(report->text);
        *report = (struct traceml_report){0};
    }
    return result;
}

/* ---- Writing ---- */

enum traceml_status tml_summary_write(const char *run_dir, const struct traceml_report *report, char *error,
                                      size_t error_bytes)
{
    char *text = report->text ? tml_text_without_color(report->text) : NULL;
    int directory = open(run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    enum traceml_status status = TRACEML_UNWRITABLE;
    if (!text || !report->json)
        status = report->json && report->text ? TRACEML_OUT_OF_MEMORY : TRACEML_INVALID_ARGUMENT;
    else if (directory >= 0)
        status = tml_run_dir_write(directory, TML_SUMMARY_JSON, report->json, strlen(report->json));
    if (status == TRACEML_OK)
        status = tml_run_dir_write(directory, TML_SUMMARY_TEXT, text, strlen(text));
    if (status == TRACEML_UNWRITABLE)
        snprintf(error, error_bytes, "cannot write %s and %s into %s: %s", TML_SUMMARY_JSON, TML_SUMMARY_TEXT, run_dir,
                 strerror(errno));
    else if (status != TRACEML_OK)
        snprintf(error, error_bytes, "no report to write into %s", run_dir);
    if (directory >= 0)
        close(directory);
    free(text);
    return status;
}
