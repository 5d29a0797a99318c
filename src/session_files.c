#include "session_files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "json.h"
#include "manifest.h"
#include "run_dir.h"
#include "session_lines.h"

#define RETRY_NS TML_NS_PER_S
#define MOST_NAMES_TRIED 1000
#define END_ROOM_BYTES 8192u /* for the end line, in whole pages of the file system */

/* ---- Settings ---- */

static bool file_exists(const char *run_dir, int rank)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/steps-rank%05d.jsonl", run_dir, rank);
    return access(path, F_OK) == 0;
}

void tml_session_files_init(struct tml_session_files *files)
{
    *files = (struct tml_session_files){.dir_fd = -1};
    pthread_mutex_init(&files->lock, NULL);
}

/* What flush_ms promises, unless the sampler ticks too slowly for it: a row closes within two of its periods, which are
 * double when nothing is pending on a device, and waits for half of flush_ms at most. */
static int64_t written_within_ns(const struct traceml_options *options)
{
    int64_t promised_ms = options->flush_ms, kept_ms = promised_ms / 2 + 4 * (int64_t)options->tick_ms;
    return (kept_ms > promised_ms ? kept_ms : promised_ms) * TML_NS_PER_MS;
}

enum traceml_status tml_session_files_open(struct tml_session_files *files, const struct traceml_options *options,
                                           const char *run_dir, char *error, size_t error_bytes)
{
    enum traceml_status status = TRACEML_OK;
    files->environment =
        tml_session_checked_object(options->environment_json ? options->environment_json : "{}", &status);
    if (status != TRACEML_OK) {
        snprintf(error, error_bytes, "environment_json is no JSON object");
        return status;
    }
    files->chosen_dir = strdup(run_dir);
    files->program = strdup(options->program);
    if (!files->chosen_dir || !files->program) {
        snprintf(error, error_bytes, "out of memory");
        return TRACEML_OUT_OF_MEMORY;
    }
    files->run_dir = files->chosen_dir;
    files->fresh = !options->adopt_run_dir || file_exists(run_dir, options->rank);
    files->rank = options->rank;
    files->local_rank = options->local_rank;
    files->world_size = options->world_size;
    files->file_steps = options->file_steps;
    files->flush_ns = options->flush_ms * TML_NS_PER_MS;
    files->written_within_ns = written_within_ns(options);
    files->opened_ns = tml_now_ns();
    files->flushed_ns = files->opened_ns - files->flush_ns; /* the first step is written at once */
    files->armed = options->armed_phases;
    tml_manifest_now(files->started_at, sizeof files->started_at);
    return TRACEML_OK;
}

enum traceml_status tml_session_files_set_environment(struct tml_session_files *files, const char *json)
{
    enum traceml_status status;
    char *text = json ? tml_session_checked_object(json, &status) : NULL;
    if (!text)
        return json ? status : TRACEML_INVALID_ARGUMENT;
    pthread_mutex_lock(&files->lock);
    char *before = files->environment;
    files->environment = text;
    pthread_mutex_unlock(&files->lock);
    free(before);
    return TRACEML_OK;
}

void tml_session_files_set_armed(struct tml_session_files *files, enum traceml_phase phase, bool armed)
{
    /* Relaxed: a set of facts, each on its own. */
    if (armed)
        atomic_fetch_or_explicit(&files->armed, 1u << phase, memory_order_relaxed);
    else
        atomic_fetch_and_explicit(&files->armed, ~(1u << phase), memory_order_relaxed);
}

enum traceml_status tml_session_files_status(struct tml_session_files *files)
{
    /* Relaxed: flush waits on the sampler's lock, which orders it. */
    return atomic_load_explicit(&files->status, memory_order_relaxed);
}

const char *tml_session_files_run_dir(const struct tml_session_files *files)
{
    /* Acquire, with the release in open_dir(): the text before the pointer. */
    return atomic_load_explicit(&files->run_dir, memory_order_acquire);
}

/* ---- Sink ---- */

/* Two runs that start in one second choose one name, and a launcher's script may start another traced process of the
 * same rank: the second to write takes the next name, and its steps are in nobody else's file. */
static int open_dir(struct tml_session_files *files)
{
    char path[PATH_MAX];
    int fd = tml_run_dir_open(files->chosen_dir, files->fresh);
    for (unsigned number = 2; fd < 0 && errno == EEXIST && files->fresh && number < MOST_NAMES_TRIED; number++) {
        if (!tml_run_dir_beside(files->chosen_dir, number, path))
            return -1;
        fd = tml_run_dir_open(path, true);
        if (fd >= 0 && (files->moved_dir = strdup(path)))
            /* Release, with the acquire in tml_session_files_run_dir(). */
            atomic_store_explicit(&files->run_dir, files->moved_dir, memory_order_release);
    }
    return fd;
}

static enum traceml_status open_files(struct tml_session_files *files)
{
    if (files->dir_fd < 0)
        files->dir_fd = open_dir(files);
    if (files->dir_fd < 0)
        return TRACEML_UNWRITABLE;
    enum traceml_status status = tml_step_file_open(files->dir_fd, files->rank, files->file_steps, &files->file);
    if (status == TRACEML_EXISTS && !files->fresh) {
        close(files->dir_fd);
        files->fresh = true;
        files->dir_fd = -1;
        return open_files(files);
    }
    if (status != TRACEML_OK)
        return status;
    tml_session_add_header(files);
    if (files->rank == 0)
        tml_session_write_manifest(files, NULL);
    return TRACEML_OK;
}

/* The first row opens the file; after a failure it is tried once a second. */
static bool has_file(struct tml_session_files *files)
{
    int64_t now_ns = tml_now_ns();
    if (files->file)
        return true;
    if (files->open_failed_ns && now_ns - files->open_failed_ns < RETRY_NS)
        return false;
    errno = 0;
    enum traceml_status status = open_files(files);
    files->error = status == TRACEML_OK ? 0 : errno;
    files->open_failed_ns = status == TRACEML_OK ? 0 : now_ns;
    /* Relaxed: see tml_session_files_status(). */
    atomic_store_explicit(&files->status, status, memory_order_relaxed);
    return status == TRACEML_OK;
}

static void flush(void *context)
{
    struct tml_session_files *files = context;
    if (!files->file)
        return;
    tml_session_add_state_if_changed(files);
    if (tml_step_file_buffered(files->file) == 0)
        return;
    /* Relaxed: see tml_session_files_status(). */
    atomic_store_explicit(&files->status, tml_step_file_flush(files->file), memory_order_relaxed);
    files->flushed_ns = tml_now_ns();
}

static void take_row(void *context, const struct tml_step_row *row)
{
    struct tml_session_files *files = context;
    if (!has_file(files)) {
        files->refused_rows++;
        return;
    }
    tml_step_file_add_row(files->file, row);
    if (tml_step_file_buffered(files->file) > TML_STEP_FILE_BUFFER_BYTES / 4)
        flush(files);
}

/* Twice as often as promised, since a row may have waited for the sampler already; one that comes alone goes at once. */
static void flush_if_due(void *context, int64_t now_ns)
{
    struct tml_session_files *files = context;
    if (now_ns - files->flushed_ns >= files->flush_ns / 2)
        flush(files);
}

/* Here and not in close: the sampler has all signals blocked, so that a file size limit ends no user's thread. */
static void write_end(void *context)
{
    struct tml_session_files *files = context;
    const char *reason = files->end && files->end->reason ? files->end->reason : "finished";
    enum traceml_status status = files->refused_rows ? TRACEML_UNWRITABLE : TRACEML_OK;
    if (files->file) {
        struct tml_sampler_stats stats;
        if (tml_step_file_flush(files->file) != TRACEML_OK) /* a full disk: what was lost must still be told */
            tml_step_file_make_room(files->file, END_ROOM_BYTES);
        tml_sampler_read_stats(files->sampler, &stats);
        tml_session_add_end(files, &stats, files->end, reason);
        bool lost = tml_step_file_lost(files->file) > 0; /* a later write may have gone well again */
        files->error = tml_step_file_error(files->file);
        if (tml_step_file_close(files->file) != TRACEML_OK || lost)
            status = TRACEML_UNWRITABLE;
        files->file = NULL;
        if (files->rank == 0 && tml_session_write_manifest(files, reason) != TRACEML_OK)
            status = TRACEML_UNWRITABLE;
    }
    /* Relaxed: see tml_session_files_status(). */
    atomic_store_explicit(&files->status, status, memory_order_relaxed);
}

struct tml_sampler_sink tml_session_files_sink(struct tml_session_files *files)
{
    return (struct tml_sampler_sink){
        .context = files, .row = take_row, .idle = flush_if_due, .flush = flush, .stopped = write_end};
}

void tml_session_files_close(struct tml_session_files *files)
{
    if (files->dir_fd >= 0)
        close(files->dir_fd);
    free(files->chosen_dir);
    free(files->moved_dir);
    free(files->program);
    free(files->environment);
    pthread_mutex_destroy(&files->lock);
}
