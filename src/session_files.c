#include "session_files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "json.h"
#include "run_dir.h"

#define SCHEMA_VERSION "2.0"
#define RETRY_NS TML_NS_PER_S
#define MOST_NAMES_TRIED 1000

/* ---- Settings ---- */

static void utc_now(char *text, size_t bytes)
{
    time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(text, bytes, "%Y-%m-%dT%H:%M:%SZ", &utc);
}

/* A copy of `json` if it is an object; NULL with the status otherwise. */
static char *checked_object(const char *json, enum traceml_status *status)
{
    struct tml_json *value = tml_json_parse(json, strlen(json));
    *status = tml_json_is_object(value) ? TRACEML_OK : TRACEML_INVALID_ARGUMENT;
    char *text = *status == TRACEML_OK ? tml_json_print(value) : NULL;
    tml_json_free(value);
    if (*status == TRACEML_OK && !text)
        *status = TRACEML_OUT_OF_MEMORY;
    return text;
}

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

enum traceml_status tml_session_files_open(struct tml_session_files *files, const struct traceml_options *options,
                                           const char *run_dir, char *error, size_t error_bytes)
{
    enum traceml_status status = TRACEML_OK;
    if (file_exists(run_dir, options->rank)) {
        snprintf(error, error_bytes, "%s holds steps of rank %d already: choose another run name", run_dir,
                 options->rank);
        return TRACEML_EXISTS;
    }
    files->environment = checked_object(options->environment_json ? options->environment_json : "{}", &status);
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
    files->fresh = !options->adopt_run_dir;
    files->rank = options->rank;
    files->local_rank = options->local_rank;
    files->world_size = options->world_size;
    files->file_steps = options->file_steps;
    files->flush_ns = options->flush_ms * TML_NS_PER_MS;
    files->opened_ns = files->flushed_ns = tml_now_ns();
    files->armed = options->armed_phases;
    utc_now(files->started_at, sizeof files->started_at);
    return TRACEML_OK;
}

enum traceml_status tml_session_files_set_environment(struct tml_session_files *files, const char *json)
{
    enum traceml_status status;
    char *text = json ? checked_object(json, &status) : NULL;
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

static const char *run_name(const struct tml_session_files *files)
{
    return strrchr(tml_session_files_run_dir(files), '/') + 1;
}

/* ---- Lines ---- */

static void add_line(struct tml_session_files *files, struct tml_json_writer *writer)
{
    char *text = tml_json_writer_take(writer);
    if (text)
        tml_step_file_add_line(files->file, text, strlen(text));
    free(text);
}

static void write_armed(struct tml_session_files *files, struct tml_json_writer *writer)
{
    /* Relaxed: see set_armed. */
    uint32_t armed = atomic_load_explicit(&files->armed, memory_order_relaxed);
    tml_json_begin_array(writer, "armed");
    for (unsigned phase = 0; phase < TRACEML_PHASE_COUNT; phase++)
        if (armed & (1u << phase))
            tml_json_write_string(writer, NULL, tml_phase_key(phase));
    tml_json_end_array(writer);
}

static void write_environment(struct tml_session_files *files, struct tml_json_writer *writer)
{
    pthread_mutex_lock(&files->lock);
    tml_json_write_raw(writer, "environment", files->environment);
    pthread_mutex_unlock(&files->lock);
}

static void write_device(struct tml_json_writer *writer)
{
    char name[256] = "cpu";
    /* Relaxed: set before the step whose row made us write. */
    int device = atomic_load_explicit(&tml_recording.step_device, memory_order_relaxed);
    if (device >= 0)
        snprintf(name, sizeof name, "cuda:%d", device);
    tml_json_write_string(writer, "device", name);
    bool named = device >= 0 && tml_cuda_device_name(tml_recording.cuda, device, name, sizeof name);
    tml_json_write_string(writer, "gpu_name", named ? name : NULL);
}

static void add_header(struct tml_session_files *files)
{
    struct tml_json_writer writer;
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    tml_json_writer_heap(&writer, 0);
    tml_json_begin_object(&writer, NULL);
    tml_json_begin_object(&writer, "header");
    tml_json_write_raw(&writer, "schema_version", SCHEMA_VERSION);
    tml_json_write_string(&writer, "traceml_version", traceml_version());
    tml_json_write_string(&writer, "run_name", run_name(files));
    tml_json_write_string(&writer, "program", files->program);
    tml_json_write_int(&writer, "rank", files->rank);
    tml_json_write_int(&writer, "local_rank", files->local_rank);
    tml_json_write_int(&writer, "world_size", files->world_size);
    tml_json_write_string(&writer, "host", host);
    tml_json_write_int(&writer, "pid", getpid());
    tml_json_write_string(&writer, "started_at", files->started_at);
    write_device(&writer);
    tml_json_write_int(&writer, "cores", sysconf(_SC_NPROCESSORS_ONLN));
    write_armed(files, &writer);
    write_environment(files, &writer);
    tml_json_end_object(&writer);
    tml_json_end_object(&writer);
    add_line(files, &writer);
}

static void write_losses(struct tml_json_writer *writer, const uint64_t *losses)
{
    tml_json_begin_object(writer, "losses");
    for (unsigned loss = 0; loss < TML_LOSS_COUNT; loss++)
        if (losses[loss])
            tml_json_write_uint(writer, tml_loss_key(loss), losses[loss]);
    tml_json_end_object(writer);
}

static void write_overhead(struct tml_json_writer *writer, const struct tml_sampler_stats *stats)
{
    tml_json_begin_object(writer, "overhead");
    tml_json_write_uint(writer, "span_ns",
                        tml_recorders_cost_ns(false, TML_COST_BEGIN) + tml_recorders_cost_ns(false, TML_COST_END));
    tml_json_write_uint(writer, "span_with_events_ns",
                        tml_recorders_cost_ns(true, TML_COST_BEGIN) + tml_recorders_cost_ns(true, TML_COST_END));
    tml_json_write_ns_as_ms(writer, "sampler_cpu_ms", stats->thread_cpu_ns);
    tml_json_end_object(writer);
}

/* Losses on the way to the file come on top of those before it. */
static void all_losses(const struct tml_session_files *files, const struct tml_sampler_stats *stats, uint64_t *losses)
{
    memcpy(losses, stats->losses, sizeof stats->losses);
    losses[TML_LOSS_UNWRITTEN] += files->refused_rows + (files->file ? tml_step_file_lost(files->file) : 0);
}

/* So that a killed run still says what it lost. */
static void add_state_if_changed(struct tml_session_files *files)
{
    struct tml_sampler_stats stats;
    uint64_t losses[TML_LOSS_COUNT];
    tml_sampler_read_stats(files->sampler, &stats);
    all_losses(files, &stats, losses);
    if (memcmp(losses, files->losses_written, sizeof losses) == 0)
        return;
    memcpy(files->losses_written, losses, sizeof losses);
    struct tml_json_writer writer;
    tml_json_writer_heap(&writer, 0);
    tml_json_begin_object(&writer, NULL);
    tml_json_begin_object(&writer, "state");
    write_losses(&writer, losses);
    write_overhead(&writer, &stats);
    tml_json_end_object(&writer);
    tml_json_end_object(&writer);
    add_line(files, &writer);
}

/* ---- Manifest ---- */

static enum traceml_status write_manifest(struct tml_session_files *files, const char *end_reason)
{
    struct tml_json_writer writer;
    char now[32];
    utc_now(now, sizeof now);
    tml_json_writer_heap(&writer, 2);
    tml_json_begin_object(&writer, NULL);
    tml_json_write_raw(&writer, "schema_version", SCHEMA_VERSION);
    tml_json_write_string(&writer, "traceml_version", traceml_version());
    tml_json_write_string(&writer, "run_name", run_name(files));
    tml_json_write_string(&writer, "program", files->program);
    tml_json_write_string(&writer, "started_at", files->started_at);
    tml_json_write_int(&writer, "world_size", files->world_size);
    tml_json_write_int(&writer, "pid", getpid());
    tml_json_write_string(&writer, "end_reason", end_reason);
    tml_json_write_string(&writer, "ended_at", end_reason ? now : NULL);
    tml_json_end_object(&writer);
    char *text = tml_json_writer_take(&writer);
    enum traceml_status status =
        text ? tml_run_dir_write(files->dir_fd, "manifest.json", text, strlen(text)) : TRACEML_OUT_OF_MEMORY;
    free(text);
    return status;
}

/* ---- Sink ---- */

/* Two runs that start in one second choose one name: the second to write takes the next. */
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
    if (status != TRACEML_OK)
        return status;
    add_header(files);
    if (files->rank == 0)
        write_manifest(files, NULL);
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
    enum traceml_status status = open_files(files);
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
    add_state_if_changed(files);
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

/* Twice as often as promised, since a row may have waited for its events already. */
static void flush_if_due(void *context, int64_t now_ns)
{
    struct tml_session_files *files = context;
    if (now_ns - files->flushed_ns >= files->flush_ns / 2)
        flush(files);
}

/* ---- End ---- */

static void add_end(struct tml_session_files *files, const struct tml_sampler_stats *stats,
                    const struct traceml_end *end, const char *reason)
{
    struct tml_json_writer writer;
    uint64_t losses[TML_LOSS_COUNT];
    enum traceml_status status;
    char *run = end && end->run_json ? checked_object(end->run_json, &status) : NULL;
    all_losses(files, stats, losses);
    tml_json_writer_heap(&writer, 0);
    tml_json_begin_object(&writer, NULL);
    tml_json_begin_object(&writer, "end");
    tml_json_write_string(&writer, "reason", reason);
    tml_json_write_number(&writer, "after_s", (double)(tml_now_ns() - files->opened_ns) / TML_NS_PER_S, 3);
    write_losses(&writer, losses);
    write_overhead(&writer, stats);
    tml_json_write_raw(&writer, "run", run ? run : "{}");
    write_armed(files, &writer);
    write_environment(files, &writer);
    tml_json_end_object(&writer);
    tml_json_end_object(&writer);
    add_line(files, &writer);
    free(run);
}

/* Here and not in close: the sampler has all signals blocked, so that a file size limit ends no user's thread. */
static void write_end(void *context)
{
    struct tml_session_files *files = context;
    const char *reason = files->end && files->end->reason ? files->end->reason : "finished";
    enum traceml_status status = files->refused_rows ? TRACEML_UNWRITABLE : TRACEML_OK;
    if (files->file) {
        struct tml_sampler_stats stats;
        tml_sampler_read_stats(files->sampler, &stats);
        add_end(files, &stats, files->end, reason);
        if (tml_step_file_close(files->file) != TRACEML_OK)
            status = TRACEML_UNWRITABLE;
        files->file = NULL;
        if (files->rank == 0 && write_manifest(files, reason) != TRACEML_OK)
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
