#include "step_reader.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "line_reader.h"

#define FILE_PREFIX "steps-rank"
#define FILE_SUFFIX ".jsonl"
#define RANK_LIMIT 1000000u
#define TAIL_BYTES (64u << 10)
#define LONG_TAIL_BYTES (8u << 20)
#define MANIFEST_LIMIT (4u << 20)

/* Warm-up steps among the latest ones leave the window: some more rows than it has are kept. */
static size_t rows_to_keep(uint64_t window_steps)
{
    uint64_t limit = UINT64_C(1) << 32;
    uint64_t steps = window_steps < limit ? window_steps : limit;
    return (size_t)(steps + steps / 8 + 64);
}

/* ---- Names ---- */

/* The number in "steps-rank00003.jsonl"; false for another name. */
static bool rank_of(const char *name, unsigned *rank)
{
    size_t prefix = strlen(FILE_PREFIX);
    if (strncmp(name, FILE_PREFIX, prefix) != 0 || !isdigit((unsigned char)name[prefix]))
        return false;
    char *end;
    errno = 0;
    unsigned long number = strtoul(name + prefix, &end, 10);
    if (errno != 0 || number >= RANK_LIMIT || strcmp(end, FILE_SUFFIX) != 0)
        return false;
    *rank = (unsigned)number;
    return true;
}

static char *join(const char *directory, const char *name)
{
    size_t bytes = strlen(directory) + strlen(name) + 2;
    char *path = malloc(bytes);
    if (path)
        snprintf(path, bytes, "%s/%s", directory, name);
    return path;
}

static bool add_rank(struct tml_run *run, unsigned number, const char *name, size_t rows)
{
    struct tml_rank_run *ranks = realloc(run->ranks, (run->rank_count + 1) * sizeof(*ranks));
    if (!ranks)
        return false;
    run->ranks = ranks;
    struct tml_rank_run *rank = &ranks[run->rank_count++];
    bool ok = tml_rank_run_init(rank, number, rows);
    rank->file = strdup(name);
    return ok && rank->file;
}

static int by_rank(const void *a, const void *b)
{
    const struct tml_rank_run *first = a, *second = b;
    if (first->rank != second->rank)
        return first->rank < second->rank ? -1 : 1;
    return strcmp(first->file, second->file);
}

/* Two names of one number (00001 and 1): not ours; the first stays. */
static void drop_twins(struct tml_run *run)
{
    size_t kept = 0;
    for (size_t i = 0; i < run->rank_count; i++) {
        if (kept > 0 && run->ranks[kept - 1].rank == run->ranks[i].rank)
            tml_rank_run_free(&run->ranks[i]);
        else
            run->ranks[kept++] = run->ranks[i];
    }
    run->rank_count = kept;
}

static enum traceml_status list_ranks(struct tml_run *run, size_t rows, char *error, size_t error_bytes)
{
    DIR *directory = opendir(run->directory);
    if (!directory) {
        snprintf(error, error_bytes, "%s: %s", run->directory, strerror(errno));
        return errno == ENOMEM ? TRACEML_OUT_OF_MEMORY : TRACEML_NOT_FOUND;
    }
    bool ok = true;
    for (struct dirent *entry; ok && (entry = readdir(directory));) {
        unsigned number;
        if (rank_of(entry->d_name, &number))
            ok = add_rank(run, number, entry->d_name, rows);
    }
    closedir(directory);
    if (!ok)
        return TRACEML_OUT_OF_MEMORY;
    if (run->rank_count > 0)
        qsort(run->ranks, run->rank_count, sizeof(*run->ranks), by_rank);
    drop_twins(run);
    return TRACEML_OK;
}

/* ---- Files ---- */

static void count_bad(struct tml_run *run, const char *file, uint64_t line, const char *wrong)
{
    run->bad_lines++;
    if (run->first_bad)
        return;
    size_t bytes = strlen(file) + strlen(wrong) + 32;
    run->first_bad = malloc(bytes);
    if (run->first_bad)
        snprintf(run->first_bad, bytes, "%s:%" PRIu64 ": %s", file, line, wrong);
}

static bool is_blank(const char *line, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (!isspace((unsigned char)line[i]))
            return false;
    return true;
}

/* A cut last line that still is JSON lacks its newline alone. */
static const char *take(struct tml_rank_run *rank, enum tml_line_kind kind, uint64_t last_common, const char *line,
                        size_t bytes, bool *known, bool *oom)
{
    if (kind == TML_LINE_LONG)
        return "a line without end";
    if (is_blank(line, bytes))
        return NULL;
    const char *wrong = tml_rank_take_line(rank, last_common, line, bytes, known, oom);
    return wrong && kind == TML_LINE_CUT ? "cut in the middle" : wrong;
}

static enum traceml_status read_rank(struct tml_run *run, struct tml_rank_run *rank, uint64_t last_common, bool *known)
{
    struct tml_line_reader reader;
    char *path = join(run->directory, rank->file);
    if (!path || !tml_line_reader_open(&reader, path, 0)) {
        free(path);
        return path ? TRACEML_SYSTEM : TRACEML_OUT_OF_MEMORY;
    }
    free(path);
    enum tml_line_kind kind;
    const char *line;
    size_t bytes;
    bool oom = false;
    uint64_t number = 0;
    while ((kind = tml_line_reader_next(&reader, &line, &bytes)) < TML_LINE_END && !oom) {
        number++;
        const char *wrong = take(rank, kind, last_common, line, bytes, known, &oom);
        if (wrong)
            count_bad(run, rank->file, number, wrong);
    }
    run->lines += number;
    int reason = errno;
    tml_line_reader_close(&reader);
    errno = reason;
    if (oom || (kind == TML_LINE_FAILED && reason == ENOMEM))
        return TRACEML_OUT_OF_MEMORY;
    return kind == TML_LINE_FAILED ? TRACEML_SYSTEM : TRACEML_OK;
}

/* ---- The last step of a file, from its end ---- */

static bool completed_step(const char *line, size_t bytes, uint64_t *step)
{
    struct tml_json *value = tml_json_parse(line, bytes);
    bool found = tml_json_uint(tml_json_get(value, "step"), step);
    const struct tml_json *flag = tml_json_first(tml_json_get(value, "flags"));
    for (; found && flag; flag = tml_json_next(flag))
        found =
            !tml_json_string(flag) || strcmp(tml_json_string(flag), tml_step_flag_key(TML_STEP_FLAG_BIT_ABORTED)) != 0;
    tml_json_free(value);
    return found;
}

static uint64_t last_step_in_tail(const char *path, size_t tail_bytes)
{
    struct tml_line_reader reader;
    if (!tml_line_reader_open(&reader, path, tail_bytes))
        return 0;
    const char *line;
    size_t bytes;
    enum tml_line_kind kind;
    uint64_t last = 0, step;
    while ((kind = tml_line_reader_next(&reader, &line, &bytes)) < TML_LINE_END)
        if (kind != TML_LINE_LONG && completed_step(line, bytes, &step))
            last = step;
    tml_line_reader_close(&reader);
    return last;
}

static uint64_t last_step(const struct tml_run *run, const struct tml_rank_run *rank)
{
    char *path = join(run->directory, rank->file);
    uint64_t last = path ? last_step_in_tail(path, TAIL_BYTES) : 0;
    if (path && last == 0)
        last = last_step_in_tail(path, LONG_TAIL_BYTES);
    free(path);
    return last;
}

/* The last step that all ranks with steps have. One rank needs no second look at its file. */
static uint64_t last_common_step(const struct tml_run *run)
{
    uint64_t common = UINT64_MAX;
    for (size_t i = 0; run->rank_count > 1 && i < run->rank_count; i++) {
        uint64_t last = last_step(run, &run->ranks[i]);
        if (last > 0 && last < common)
            common = last;
    }
    return common;
}

/* ---- Hosts ---- */

static const char *host_of(const struct tml_rank_run *rank)
{
    const char *host = tml_json_string(tml_json_get(tml_json_get(rank->header, "header"), "host"));
    return host ? host : "";
}

static void assign_nodes(struct tml_run *run)
{
    unsigned nodes = 0;
    for (size_t i = 0; i < run->rank_count; i++) {
        struct tml_rank_run *rank = &run->ranks[i];
        size_t first = 0, same = 0;
        for (size_t k = run->rank_count; k-- > 0;)
            if (strcmp(host_of(&run->ranks[k]), host_of(rank)) == 0) {
                first = k;
                same++;
            }
        rank->node = first < i ? run->ranks[first].node : nodes++;
        rank->node_ranks = (unsigned)same;
    }
}

/* ---- The run ---- */

/* Takes the manifest over if it is one; else says what is wrong, and where. */
static void take_manifest(struct tml_run *run, const char *text, size_t bytes)
{
    struct tml_json_fault fault = {"not a JSON object", 1};
    struct tml_json *root = tml_json_parse_or_say(text, bytes, &fault);
    const char *wrong = !root                      ? fault.what
                        : tml_json_is_object(root) ? tml_rank_wrong_members(root)
                                                   : "not a JSON object";
    if (!wrong) {
        run->manifest = root;
        return;
    }
    count_bad(run, "manifest.json", root || fault.line == 0 ? 1 : fault.line, wrong);
    tml_json_free(root);
}

static bool read_manifest(struct tml_run *run)
{
    size_t bytes;
    char *path = join(run->directory, "manifest.json");
    char *text = path ? tml_line_reader_slurp(path, MANIFEST_LIMIT, &bytes) : NULL;
    if (text)
        take_manifest(run, text, bytes);
    else if (path && errno != ENOENT)
        count_bad(run, "manifest.json", 1, strerror(errno));
    free(text);
    free(path);
    return run->manifest;
}

static enum traceml_status read_ranks(struct tml_run *run, char *error, size_t error_bytes)
{
    uint64_t last_common = last_common_step(run);
    bool known = false;
    for (size_t i = 0; i < run->rank_count; i++) {
        enum traceml_status status = read_rank(run, &run->ranks[i], last_common, &known);
        if (status == TRACEML_OK)
            continue;
        snprintf(error, error_bytes, "%s/%s: %s", run->directory, run->ranks[i].file,
                 status == TRACEML_SYSTEM ? strerror(errno) : traceml_status_text(status));
        return status;
    }
    if (known || run->bad_lines == 0 || run->rank_count == 0)
        return TRACEML_OK;
    snprintf(error, error_bytes, "%s: no line of a step file in it (first: %s)", run->directory,
             run->first_bad ? run->first_bad : "unknown");
    return TRACEML_BAD_DATA;
}

static enum traceml_status read_all(const char *directory, uint64_t window_steps, struct tml_run *run, char *error,
                                    size_t error_bytes)
{
    run->directory = strdup(directory);
    if (!run->directory)
        return TRACEML_OUT_OF_MEMORY;
    enum traceml_status status = list_ranks(run, rows_to_keep(window_steps), error, error_bytes);
    if (status != TRACEML_OK)
        return status;
    bool manifest = read_manifest(run);
    if (run->rank_count == 0 && !manifest) {
        snprintf(error, error_bytes, "%s: no run of ours (neither %s*%s nor manifest.json)", directory, FILE_PREFIX,
                 FILE_SUFFIX);
        return run->bad_lines ? TRACEML_BAD_DATA : TRACEML_NOT_FOUND;
    }
    status = read_ranks(run, error, error_bytes);
    assign_nodes(run);
    return status;
}

enum traceml_status tml_run_read(const char *directory, uint64_t window_steps, struct tml_run *run, char *error,
                                 size_t error_bytes)
{
    *run = (struct tml_run){0};
    enum traceml_status status = read_all(directory, window_steps, run, error, error_bytes);
    if (status == TRACEML_OUT_OF_MEMORY)
        snprintf(error, error_bytes, "%s: %s", directory, traceml_status_text(status));
    if (status != TRACEML_OK)
        tml_run_free(run);
    return status;
}

void tml_run_free(struct tml_run *run)
{
    for (size_t i = 0; i < run->rank_count; i++)
        tml_rank_run_free(&run->ranks[i]);
    free(run->ranks);
    free(run->directory);
    free(run->first_bad);
    tml_json_free(run->manifest);
    *run = (struct tml_run){0};
}
