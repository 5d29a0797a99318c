/*
 * A session in a temporary logs directory, and its step file read back as rows. For tests through the public API
 * with the fake CUDA behind it.
 * Memory    the fixture's, given back by session_fixture_remove().
 * Threads   the test's.
 * Units     ns.
 * Depends   CMocka before it, fake_cuda.h, step_row.h, traceml.h.
 */
#ifndef SESSION_FIXTURE_H
#define SESSION_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_cuda.h"
#include "step_row.h"
#include "traceml/traceml.h"

#define SESSION_FIXTURE_ROWS 4096

struct session_fixture {
    char logs[64], run_dir[256];
    struct traceml_session *session;
    struct tml_step_row rows[SESSION_FIXTURE_ROWS];
    unsigned row_count, header_lines, end_lines, bad_lines;
    uint64_t losses[TML_LOSS_COUNT]; /* of the end line */
};

static struct session_fixture run;

static inline void session_fixture_open(const struct traceml_options *given)
{
    struct traceml_options options = *given;
    char error[512] = "";
    memset(&run, 0, sizeof run);
    strcpy(run.logs, "/tmp/traceml-test-XXXXXX");
    assert_non_null(mkdtemp(run.logs));
    options.logs_dir = run.logs;
    options.run_name = "run";
    if (traceml_session_open(&options, &run.session, error, sizeof error) != TRACEML_OK)
        fail_msg("%s", error);
    snprintf(run.run_dir, sizeof run.run_dir, "%s", traceml_run_dir(run.session));
}

static inline struct traceml_options session_fixture_options(void)
{
    struct traceml_options options;
    traceml_options_init(&options);
    options.tick_ms = 1;
    options.stop_ms = 200;
    return options;
}

static inline void session_fixture_read_losses(const struct tml_json *end)
{
    const struct tml_json *losses = tml_json_get(end, "losses");
    for (unsigned loss = 0; loss < TML_LOSS_COUNT; loss++)
        tml_json_uint(tml_json_get(losses, tml_loss_key(loss)), &run.losses[loss]);
}

static inline void session_fixture_read_line(const char *line, size_t bytes)
{
    struct tml_json *value = tml_json_parse(line, bytes);
    run.header_lines += tml_json_get(value, "header") != NULL;
    if (tml_json_get(value, "step") && run.row_count < SESSION_FIXTURE_ROWS) {
        run.bad_lines += !tml_step_row_read(value, &run.rows[run.row_count]);
        run.row_count++;
    }
    if (tml_json_get(value, "end")) {
        run.end_lines++;
        session_fixture_read_losses(tml_json_get(value, "end"));
    }
    run.bad_lines += value == NULL;
    tml_json_free(value);
}

/* Reads what is in the file now. */
static inline void session_fixture_read(void)
{
    char path[512], *line = NULL;
    size_t capacity = 0;
    ssize_t length;
    snprintf(path, sizeof path, "%s/steps-rank00000.jsonl", run.run_dir);
    run.row_count = run.header_lines = run.end_lines = run.bad_lines = 0;
    FILE *file = fopen(path, "r");
    while (file && (length = getline(&line, &capacity, file)) > 0)
        session_fixture_read_line(line, (size_t)length);
    free(line);
    if (file)
        fclose(file);
}

static inline enum traceml_status session_fixture_close(void)
{
    enum traceml_status status = traceml_session_close(run.session, NULL);
    run.session = NULL;
    session_fixture_read();
    return status;
}

/* CMocka teardown: closes what a failed test left open. */
static inline int session_fixture_remove(void **state)
{
    (void)state;
    char command[128];
    traceml_session_close(run.session, NULL);
    run.session = NULL;
    snprintf(command, sizeof command, "rm -rf '%s'", run.logs);
    return run.logs[0] ? system(command) : 0;
}

#endif
