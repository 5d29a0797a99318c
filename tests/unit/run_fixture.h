/*
 * A run directory made by hand: rows with a ledger that closes, written as the recorder's files are.
 * Include after <cmocka.h>. Everything is static: one test file uses what it needs.
 */
#ifndef RUN_FIXTURE_H
#define RUN_FIXTURE_H

#include <dirent.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "step_row.h"

#define FIXTURE_UNUSED __attribute__((unused))
#define FIXTURE_ABSENT (-1) /* the phase does not occur */

/* Times of one step in us, per phase; FIXTURE_ABSENT where there is none. */
struct fixture_times {
    int64_t wait, in_wait, pre_h2d, h2d, forward, backward, optimizer, residual, other;
};

/* A healthy step of 100 ms: 2 of waiting, 30 + 60 + 6 of compute, 2 of rest. */
static const struct fixture_times fixture_healthy FIXTURE_UNUSED = {
    .wait = 2000,
    .in_wait = FIXTURE_ABSENT,
    .pre_h2d = FIXTURE_ABSENT,
    .h2d = FIXTURE_ABSENT,
    .forward = 30000,
    .backward = 60000,
    .optimizer = 6000,
    .residual = 2000,
    .other = 500,
};

static int64_t fixture_put(struct tml_step_row *row, enum tml_region region, unsigned phase, enum tml_clock clock,
                           int64_t us)
{
    if (us < 0)
        return 0;
    struct tml_cell *cell = &row->cell[region][phase];
    cell->count = 1;
    cell->exclusive_ns[clock] = cell->inclusive_ns[clock] = us * 1000;
    return us * 1000;
}

FIXTURE_UNUSED static void fixture_set(struct tml_step_row *row, enum tml_clock clock, const struct fixture_times *t)
{
    int64_t pre = fixture_put(row, TML_REGION_PRE, TRACEML_PHASE_DATALOADER_FETCH, clock, t->wait) +
                  fixture_put(row, TML_REGION_PRE, TRACEML_PHASE_H2D, clock, t->pre_h2d);
    int64_t in = fixture_put(row, TML_REGION_IN, TRACEML_PHASE_DATALOADER_FETCH, clock, t->in_wait) +
                 fixture_put(row, TML_REGION_IN, TRACEML_PHASE_H2D, clock, t->h2d) +
                 fixture_put(row, TML_REGION_IN, TRACEML_PHASE_FORWARD, clock, t->forward) +
                 fixture_put(row, TML_REGION_IN, TRACEML_PHASE_BACKWARD, clock, t->backward) +
                 fixture_put(row, TML_REGION_IN, TRACEML_PHASE_OPTIMIZER, clock, t->optimizer);
    int64_t *term = row->term_ns[clock];
    term[TML_TERM_RESIDUAL] = t->residual * 1000;
    term[TML_TERM_PRE_STEP_OTHER] = t->other * 1000;
    term[TML_TERM_INSTRUMENTATION] = term[TML_TERM_INSTRUMENTATION_PRE] = 0;
    term[TML_TERM_TRACED_STEP] = in + t->residual * 1000;
    term[TML_TERM_ITERATION] = pre + t->other * 1000 + term[TML_TERM_TRACED_STEP];
}

/* A completed step on the host's clock; the first one is the first iteration. */
FIXTURE_UNUSED static struct tml_step_row fixture_row(uint64_t step, const struct fixture_times *times)
{
    struct tml_step_row row;
    tml_step_row_clear(&row);
    row.step = row.iteration = step;
    row.end_ns = (int64_t)step * 100 * TML_NS_PER_MS;
    row.epoch = 0;
    row.microbatches = 1;
    row.gpu_reason = TML_REASON_NO_CUDA;
    fixture_set(&row, TML_CLOCK_CPU, times);
    if (step == 1) {
        row.flags = TML_STEP_FLAG_FIRST | TML_STEP_FLAG_FIRST_FETCH;
        row.term_ns[TML_CLOCK_CPU][TML_TERM_ITERATION] = TML_NS_NONE;
        row.term_ns[TML_CLOCK_CPU][TML_TERM_PRE_STEP_OTHER] = TML_NS_NONE;
    }
    return row;
}

/* The same with a device; the first one has no beginning there. */
FIXTURE_UNUSED static struct tml_step_row fixture_gpu_row(uint64_t step, const struct fixture_times *cpu,
                                                          const struct fixture_times *gpu)
{
    struct tml_step_row row = fixture_row(step, cpu);
    fixture_set(&row, TML_CLOCK_GPU, gpu);
    row.gpu_complete = step > 1;
    row.gpu_reason = step > 1 ? TML_REASON_NONE : TML_REASON_FIRST_ITERATION;
    for (unsigned boundary = 0; boundary < TML_BOUNDARY_COUNT; boundary++)
        row.lead.ns[boundary] = (10 + boundary) * TML_NS_PER_MS;
    row.lead.error_ns = 7000;
    return row;
}

/* Takes the device times of a row away again. */
FIXTURE_UNUSED static void fixture_lose_gpu(struct tml_step_row *row, enum tml_reason reason)
{
    row->gpu_complete = false;
    row->gpu_reason = reason;
    row->lead.error_ns = TML_NS_NONE;
    for (unsigned boundary = 0; boundary < TML_BOUNDARY_COUNT; boundary++)
        row->lead.ns[boundary] = TML_NS_NONE;
    for (unsigned term = 0; term < TML_TERM_COUNT; term++)
        row->term_ns[TML_CLOCK_GPU][term] = TML_NS_NONE;
    for (unsigned region = 0; region < TML_REGIONS; region++)
        for (unsigned phase = 0; phase < TRACEML_PHASE_COUNT; phase++)
            row->cell[region][phase].exclusive_ns[TML_CLOCK_GPU] =
                row->cell[region][phase].inclusive_ns[TML_CLOCK_GPU] = TML_NS_NONE;
}

/* ---- Directory and files ---- */

struct fixture {
    char directory[64];
};

FIXTURE_UNUSED static void fixture_open(struct fixture *fixture)
{
    snprintf(fixture->directory, sizeof fixture->directory, "/tmp/traceml-test-XXXXXX");
    assert_non_null(mkdtemp(fixture->directory));
}

FIXTURE_UNUSED static void fixture_close(struct fixture *fixture)
{
    DIR *directory = opendir(fixture->directory);
    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory));)
        unlinkat(dirfd(directory), entry->d_name, 0);
    closedir(directory);
    rmdir(fixture->directory);
}

FIXTURE_UNUSED static FILE *fixture_file(const struct fixture *fixture, const char *name, const char *mode)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", fixture->directory, name);
    FILE *file = fopen(path, mode);
    assert_non_null(file);
    return file;
}

FIXTURE_UNUSED static void fixture_text(const struct fixture *fixture, const char *name, const char *text)
{
    FILE *file = fixture_file(fixture, name, "a");
    fputs(text, file);
    fclose(file);
}

FIXTURE_UNUSED static void fixture_write_row(FILE *file, const struct tml_step_row *row)
{
    char line[TML_STEP_LINE_BYTES];
    size_t bytes = tml_step_row_write(row, line, sizeof line);
    assert_true(bytes > 0);
    assert_int_equal(fwrite(line, 1, bytes, file), bytes);
}

/* What a header says; zeroed is rank 0 of 1 on a CPU with every hook of a plain loop. */
struct fixture_header {
    unsigned rank, world;
    const char *device;      /* "cpu" */
    const char *armed;       /* a JSON array */
    const char *environment; /* a JSON object */
    const char *host;        /* "node0" */
    bool observer;
};

#define FIXTURE_ARMED "[\"step\",\"dataloader_fetch\",\"forward\",\"backward\",\"optimizer\"]"
#define FIXTURE_ENVIRONMENT                                                                                            \
    "{\"python\":\"3.12.1\",\"torch\":\"2.11.0\",\"strategy\":\"none\",\"loader\":{\"workers\":0,\"batch_size\":64}}"

FIXTURE_UNUSED static void fixture_write_header(FILE *file, const struct fixture_header *header)
{
    fprintf(file,
            "{\"header\":{\"schema_version\":2.0,\"traceml_version\":\"0.1.0\",\"run_name\":\"test\",\"program\":"
            "\"train.py\","
            "\"rank\":%u,\"local_rank\":%u,\"world_size\":%u,\"host\":\"%s\",\"pid\":7,\"started_at\":"
            "\"2026-11-30T22:28:49Z\",\"device\":\"%s\",\"gpu_name\":%s,\"cores\":16,\"observer\":%s,\"armed\":%s,"
            "\"environment\":%s}}\n",
            header->rank, header->rank, header->world ? header->world : 1, header->host ? header->host : "node0",
            header->device ? header->device : "cpu",
            header->device && header->device[1] == 'u' ? "\"NVIDIA H200\"" : "null",
            header->observer ? "true" : "false", header->armed ? header->armed : FIXTURE_ARMED,
            header->environment ? header->environment : FIXTURE_ENVIRONMENT);
}

/* The file of a process that never closed it; `within_ms` 0: written by a version that did not say. */
FIXTURE_UNUSED static void fixture_unclosed(FILE *file, unsigned rank, unsigned world, unsigned within_ms,
                                            const char *process)
{
    fprintf(file, "{\"header\":{\"run_name\":\"test\",\"rank\":%u,\"world_size\":%u,\"device\":\"cpu\",%s", rank, world,
            process);
    if (within_ms)
        fprintf(file, ",\"written_within_ms\":%u", within_ms);
    fprintf(file, ",\"armed\":" FIXTURE_ARMED ",\"environment\":" FIXTURE_ENVIRONMENT "}}\n");
    for (unsigned step = 1; step <= 30; step++) {
        struct tml_step_row row = fixture_row(step, &fixture_healthy);
        fixture_write_row(file, &row);
    }
}

FIXTURE_UNUSED static void fixture_write_end(FILE *file, const char *reason)
{
    fprintf(file,
            "{\"end\":{\"reason\":\"%s\",\"after_s\":52.4,\"losses\":{},\"overhead\":{\"span_ns\":88},\"run\":"
            "{\"process_s\":60.25}}}\n",
            reason);
}

FIXTURE_UNUSED static FILE *fixture_rank_file(const struct fixture *fixture, unsigned rank)
{
    char name[48];
    snprintf(name, sizeof name, "steps-rank%05u.jsonl", rank);
    return fixture_file(fixture, name, "w");
}

/* One whole file: header, rows, end. */
FIXTURE_UNUSED static void fixture_rank(const struct fixture *fixture, const struct fixture_header *header,
                                        const struct tml_step_row *rows, size_t count)
{
    FILE *file = fixture_rank_file(fixture, header->rank);
    fixture_write_header(file, header);
    for (size_t i = 0; i < count; i++)
        fixture_write_row(file, &rows[i]);
    fixture_write_end(file, "finished");
    fclose(file);
}

/* A small generator of its own: the same numbers on every machine. */
FIXTURE_UNUSED static uint64_t fixture_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

#endif
