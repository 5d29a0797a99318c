/* A summary of either tool, checked and brought into one shape: nothing that cannot be read becomes a number. */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "compare.h"
#include "line_reader.h"

#define DOCUMENT_LIMIT (64u << 20)
#define READS "schema 2 of this tool, 1.4 to 1.7 of traceml-ai"

void tml_compare_fail(struct tml_compare_reading *reading, enum traceml_status status, const char *format, ...)
{
    va_list arguments;
    if (reading->status != TRACEML_OK)
        return;
    reading->status = status;
    int length = snprintf(reading->error, reading->error_bytes, "%s: ", reading->file);
    if (length < 0 || (size_t)length >= reading->error_bytes)
        return;
    va_start(arguments, format);
    vsnprintf(reading->error + length, reading->error_bytes - (size_t)length, format, arguments);
    va_end(arguments);
}

/* ---- Walking ---- */

const struct tml_json *tml_compare_at(const struct tml_json *root, const char *path)
{
    char key[128];
    while (*path && root) {
        size_t bytes = strcspn(path, "/");
        if (bytes >= sizeof key)
            return NULL;
        memcpy(key, path, bytes);
        key[bytes] = '\0';
        root = tml_json_get(root, key);
        path += bytes + (path[bytes] == '/');
    }
    return root;
}

static bool is_null(const struct tml_json *value)
{
    return !value || tml_json_is_null(value);
}

/* An object that may be missing, but not be something else. */
const struct tml_json *tml_compare_object_at(struct tml_compare_reading *reading, const char *path, bool required)
{
    const struct tml_json *value = tml_compare_at(reading->side->root, path);
    if (tml_json_is_object(value))
        return value;
    if (!is_null(value))
        tml_compare_fail(reading, TRACEML_BAD_DATA, "not a summary: %s is no JSON object", path);
    else if (required)
        tml_compare_fail(reading, TRACEML_BAD_DATA, "not a whole summary: %s is missing", path);
    return NULL;
}

const char *tml_compare_text_of(struct tml_compare_reading *reading, const struct tml_json *value, const char *where)
{
    const char *text = tml_json_string(value);
    if (!text && !is_null(value))
        tml_compare_fail(reading, TRACEML_BAD_DATA, "not a summary: %s is no text", where);
    return text;
}

static const char *text_at(struct tml_compare_reading *reading, const char *path)
{
    return tml_compare_text_of(reading, tml_compare_at(reading->side->root, path), path);
}

static uint64_t count_at(struct tml_compare_reading *reading, const char *path)
{
    const struct tml_json *value = tml_compare_at(reading->side->root, path);
    uint64_t count = 0;
    if (!is_null(value) && !tml_json_uint(value, &count))
        tml_compare_fail(reading, TRACEML_BAD_DATA, "not a summary: %s is no whole number", path);
    return count;
}

static double seconds_at(struct tml_compare_reading *reading, const char *path)
{
    const struct tml_json *value = tml_compare_at(reading->side->root, path);
    double seconds = NAN;
    if (is_null(value))
        return NAN;
    if (tml_json_number(value, &seconds) && seconds >= 0 && seconds < 1e12)
        return seconds;
    tml_compare_fail(reading, TRACEML_BAD_DATA, "not a summary: %s is no duration in s", path);
    return NAN;
}

int64_t tml_compare_ms_of(struct tml_compare_reading *reading, const struct tml_json *value, const char *where,
                          const char *key)
{
    int64_t ns;
    if (is_null(value))
        return TML_NS_NONE;
    if (tml_json_ms_as_ns(value, &ns))
        return ns;
    tml_compare_fail(reading, TRACEML_BAD_DATA, "not a summary: %s%s%s is no time in ms", where, key ? "." : "",
                     key ? key : "");
    return TML_NS_NONE;
}

/* ---- The document ---- */

/* A schema is one decimal: 1.4, 2.0. */
static void read_schema(struct tml_compare_reading *reading)
{
    const struct tml_json *value = tml_json_get(reading->side->root, "schema_version");
    double version;
    if (!tml_json_is_object(reading->side->root))
        tml_compare_fail(reading, TRACEML_BAD_DATA,
                         "not a summary: no JSON object; give a run directory or a final_summary.json");
    else if (!tml_json_number(value, &version))
        tml_compare_fail(reading, TRACEML_BAD_DATA,
                         "not a summary: no schema_version in it; give a run directory or a final_summary.json");
    else if (!(version > 0 && version < 3) || fabs(version * 10 - round(version * 10)) > 1e-6)
        tml_compare_fail(reading, TRACEML_BAD_DATA,
                         "its schema_version is not one that can be read here; that is " READS);
    if (!tml_compare_is_ok(reading))
        return;
    unsigned tenths = (unsigned)(version * 10 + 0.5);
    reading->side->schema = tenths;
    if (tenths < 14 || (tenths > 17 && tenths < 20))
        tml_compare_fail(reading, TRACEML_BAD_DATA, "its schema %u.%u cannot be read here; that is " READS, tenths / 10,
                         tenths % 10);
}

/* A run without a GPU has one clock, stated or not. */
static void read_clock(struct tml_compare_reading *reading)
{
    struct tml_compare_side *side = reading->side;
    const char *clock = text_at(reading, "step_time/global/window/diagnosis_clock");
    const struct tml_json *gpus = tml_compare_at(side->root, "meta/gpus_observed");
    side->cuda = count_at(reading, "meta/gpus_observed") > 0;
    side->clock = -1;
    if (clock && (strcmp(clock, "cpu") == 0 || strcmp(clock, "gpu") == 0))
        side->clock = *clock == 'g' ? TML_CLOCK_GPU : TML_CLOCK_CPU;
    else if (clock)
        tml_compare_fail(reading, TRACEML_BAD_DATA, "not a summary: diagnosis_clock is neither cpu nor gpu");
    else if (tml_compare_is_legacy(side) && !is_null(gpus) && !side->cuda)
        side->clock = TML_CLOCK_CPU;
}

static void read_run(struct tml_compare_reading *reading)
{
    struct tml_compare_side *side = reading->side;
    bool legacy = tml_compare_is_legacy(side);
    const char *name = text_at(reading, "meta/run_name");
    side->run_name = name && *name ? name : side->path;
    side->steps = count_at(reading, "step_time/global/window/steps_analyzed");
    side->process_s = seconds_at(reading, legacy ? "duration_s" : "run/process_s");
    side->training_loop_s = seconds_at(reading, "run/training_loop_s");
    side->framework_s = seconds_at(reading, "run/framework_runtime_s");
}

static void read_document(struct tml_compare_reading *reading)
{
    read_schema(reading);
    if (tml_compare_is_ok(reading)) {
        tml_compare_object_at(reading, "meta", false);
        tml_compare_object_at(reading, "step_time/global/window", true);
        tml_compare_object_at(reading, "step_time/diagnosis", true);
    }
    if (tml_compare_is_ok(reading))
        read_clock(reading);
    if (tml_compare_is_ok(reading))
        read_run(reading);
    if (tml_compare_is_ok(reading))
        tml_compare_read_metrics(reading);
    if (tml_compare_is_ok(reading))
        tml_compare_check_own(reading);
}

/* ---- The file ---- */

static void parse(struct tml_compare_reading *reading, const char *text, size_t bytes)
{
    reading->side->root = tml_json_parse(text, bytes);
    if (!reading->side->root)
        tml_compare_fail(reading, TRACEML_BAD_DATA,
                         "not a summary: no whole JSON document (cut off, or NaN in it?); give a run directory or a "
                         "final_summary.json");
}

static void read_file(struct tml_compare_reading *reading, const char *path)
{
    size_t bytes = 0;
    char *text = tml_line_reader_slurp(path, DOCUMENT_LIMIT, &bytes);
    int reason = errno;
    if (text)
        parse(reading, text, bytes);
    else if (reason == EFBIG)
        tml_compare_fail(reading, TRACEML_BAD_DATA,
                         "not a summary: larger than %u MiB; give a run directory or a "
                         "final_summary.json",
                         DOCUMENT_LIMIT >> 20);
    else
        tml_compare_fail(reading,
                         reason == ENOENT   ? TRACEML_NOT_FOUND
                         : reason == ENOMEM ? TRACEML_OUT_OF_MEMORY
                                            : TRACEML_SYSTEM,
                         "%s", strerror(reason));
    free(text);
}

static void read_summary_inside(struct tml_compare_reading *reading)
{
    char inside[4096];
    struct stat found;
    int length = snprintf(inside, sizeof inside, "%s/%s", reading->side->path, TML_SUMMARY_JSON);
    if (length < 0 || (size_t)length >= sizeof inside || stat(inside, &found) != 0)
        return;
    tml_json_free(reading->side->root);
    reading->side->root = NULL;
    reading->status = TRACEML_OK;
    reading->file = inside;
    read_file(reading, inside);
    reading->file = reading->side->path;
}

/* A directory of traceml-ai has a manifest too, and no steps that we could read. */
static bool has_steps(const struct tml_json *root)
{
    uint64_t ranks;
    return tml_json_uint(tml_compare_at(root, "meta/ranks_seen"), &ranks) && ranks > 0;
}

/* The steps say more than a summary that was written before them; without steps there may be a summary. */
static void read_directory(struct tml_compare_reading *reading, uint64_t window_steps)
{
    struct traceml_report_options options = {.size = sizeof options, .window_steps = window_steps};
    struct traceml_report report = {0};
    reading->status = tml_summary_build(reading->side->path, &options, &report, reading->error, reading->error_bytes);
    if (tml_compare_is_ok(reading))
        parse(reading, report.json, strlen(report.json));
    if (reading->status != TRACEML_OUT_OF_MEMORY && !has_steps(reading->side->root))
        read_summary_inside(reading);
    free(report.json);
    free(report.text);
}

enum traceml_status tml_compare_read(const char *path, uint64_t window_steps, struct tml_compare_side *side,
                                     char *error, size_t error_bytes)
{
    struct tml_compare_reading reading = {
        .side = side, .file = path, .error = error, .error_bytes = error_bytes, .status = TRACEML_OK};
    struct stat found;
    *side = (struct tml_compare_side){.path = path};
    if (stat(path, &found) != 0)
        tml_compare_fail(&reading, errno == ENOENT || errno == ENOTDIR ? TRACEML_NOT_FOUND : TRACEML_SYSTEM, "%s",
                         strerror(errno));
    else if (S_ISDIR(found.st_mode))
        read_directory(&reading, window_steps);
    else if (S_ISREG(found.st_mode))
        read_file(&reading, path);
    else
        tml_compare_fail(&reading, TRACEML_BAD_DATA, "neither a run directory nor a summary file");
    if (tml_compare_is_ok(&reading))
        read_document(&reading);
    if (!tml_compare_is_ok(&reading))
        tml_compare_side_free(side);
    return reading.status;
}

void tml_compare_side_free(struct tml_compare_side *side)
{
    tml_json_free(side->root);
    side->root = NULL;
}
