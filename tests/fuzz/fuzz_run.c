/*
 * A whole run directory, from its files to the report. The input is those files one after the other, with a form feed
 * between them: steps of rank 0, of rank 1, manifest.json, final_summary.json; an empty part is a file that is not
 * there. Whatever the bytes are: a report whose JSON our own reader takes and whose text steers no terminal, or one line
 * that names the place.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "json.h"
#include "traceml/traceml.h"
#include "utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static char path[64];
static int directory = -1;
static const char *const names[] = {"steps-rank00000.jsonl", "steps-rank00001.jsonl", "manifest.json",
                                    "final_summary.json"};

static void require(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "does not hold: %s\n", what);
    abort();
}

static void remove_all(void)
{
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        unlinkat(directory, names[i], 0);
    close(directory);
    rmdir(path);
}

static bool open_once(void)
{
    if (directory >= 0)
        return true;
    snprintf(path, sizeof path, "%s/traceml-fuzz-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(path))
        return false;
    directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    atexit(remove_all);
    return directory >= 0;
}

static void put(const char *name, const char *part, size_t bytes)
{
    unlinkat(directory, name, 0);
    if (bytes == 0)
        return;
    int file = openat(directory, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    require(file >= 0 && write(file, part, bytes) == (ssize_t)bytes, "the file can be written");
    close(file);
}

static void put_parts(const char *at, const char *end)
{
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        const char *stop = at < end ? memchr(at, '\f', (size_t)(end - at)) : NULL;
        if (!stop)
            stop = end;
        put(names[i], at, (size_t)(stop - at));
        at = stop < end ? stop + 1 : end;
    }
}

static bool is_plain(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    for (size_t left = strlen(text); left > 0;) {
        unsigned length = tml_utf8_length(at, left);
        bool control = (*at < 0x20 && *at != '\n') || *at == 0x7f || (at[0] == 0xc2 && at[1] < 0xa0);
        if (length == 0 || control)
            return false;
        at += length;
        left -= length;
    }
    return true;
}

static void check(const struct traceml_report *report)
{
    struct tml_json *root = tml_json_parse(report->json, strlen(report->json));
    require(root, "the report is JSON");
    require(tml_json_is_object(tml_json_get(root, "step_time")), "the report has its section");
    require(tml_json_string(tml_json_get(root, "text")), "the report has its text");
    tml_json_free(root);
    require(is_plain(report->text), "the text is UTF-8 without control characters");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct traceml_report report;
    struct traceml_report_options options;
    char error[512] = "";
    if (!open_once())
        return 0;
    put_parts((const char *)data, (const char *)data + bytes);
    traceml_report_options_init(&options);
    options.window_steps = 20;
    enum traceml_status status = traceml_report_read(path, &options, &report, error, sizeof error);
    if (status == TRACEML_OK) {
        check(&report);
    } else {
        require(strstr(error, path) && !strchr(error, '\n'), "the error is one line that names the place");
        require(!report.json && !report.text, "no report with an error");
    }
    traceml_report_free(&report);
    return 0;
}
