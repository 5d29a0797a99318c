#include "manifest.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "json.h"
#include "line_reader.h"
#include "run_dir.h"

#define LIMIT_BYTES (4u << 20)

void tml_manifest_now(char *text, size_t bytes)
{
    time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(text, bytes, "%Y-%m-%dT%H:%M:%SZ", &utc);
}

static bool is_ours(const char *key)
{
    return strcmp(key, "end_reason") == 0 || strcmp(key, "ended_at") == 0;
}

static char *with_end(const struct tml_json *manifest, const char *end_reason)
{
    struct tml_json_writer writer;
    char now[32];
    tml_manifest_now(now, sizeof now);
    tml_json_writer_heap(&writer, 2);
    tml_json_begin_object(&writer, NULL);
    for (const struct tml_json *member = tml_json_first(manifest); member; member = tml_json_next(member)) {
        char *value = is_ours(tml_json_key(member)) ? NULL : tml_json_print(member);
        if (value)
            tml_json_write_raw(&writer, tml_json_key(member), value);
        free(value);
    }
    tml_json_write_string(&writer, "end_reason", end_reason);
    tml_json_write_string(&writer, "ended_at", now);
    tml_json_end_object(&writer);
    return tml_json_writer_take(&writer);
}

enum traceml_status tml_manifest_set_end(const char *run_dir, const char *end_reason)
{
    char path[PATH_MAX];
    size_t bytes;
    snprintf(path, sizeof path, "%s/" TML_MANIFEST, run_dir);
    char *before = tml_line_reader_slurp(path, LIMIT_BYTES, &bytes);
    if (!before)
        return errno == ENOENT ? TRACEML_NOT_FOUND : errno == ENOMEM ? TRACEML_OUT_OF_MEMORY : TRACEML_SYSTEM;
    struct tml_json *manifest = tml_json_parse(before, bytes);
    char *after = tml_json_is_object(manifest) ? with_end(manifest, end_reason) : NULL;
    enum traceml_status status = after                          ? TRACEML_UNWRITABLE
                                 : tml_json_is_object(manifest) ? TRACEML_OUT_OF_MEMORY
                                                                : TRACEML_BAD_DATA;
    int dir_fd = after ? tml_run_dir_open(run_dir, false) : -1;
    if (dir_fd >= 0) {
        status = tml_run_dir_write(dir_fd, TML_MANIFEST, after, strlen(after));
        close(dir_fd);
    }
    tml_json_free(manifest);
    free(before);
    free(after);
    return status;
}
