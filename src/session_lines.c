/* The lines of a session beside its rows: header, state and end; and the manifest. */
#include "session_lines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "json.h"
#include "manifest.h"
#include "process.h"
#include "run_dir.h"
#include "summary.h"

char *tml_session_checked_object(const char *json, enum traceml_status *status)
{
    struct tml_json *value = tml_json_parse(json, strlen(json));
    *status = tml_json_is_object(value) ? TRACEML_OK : TRACEML_INVALID_ARGUMENT;
    char *text = *status == TRACEML_OK ? tml_json_print(value) : NULL;
    tml_json_free(value);
    if (*status == TRACEML_OK && !text)
        *status = TRACEML_OUT_OF_MEMORY;
    return text;
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

void tml_session_add_header(struct tml_session_files *files)
{
    struct tml_json_writer writer;
    char host[TML_PROCESS_HOST_BYTES];
    tml_process_host(host);
    tml_json_writer_heap(&writer, 0);
    tml_json_begin_object(&writer, NULL);
    tml_json_begin_object(&writer, "header");
    tml_json_write_raw(&writer, "schema_version", TML_SCHEMA_VERSION_TEXT);
    tml_json_write_string(&writer, "traceml_version", traceml_version());
    tml_json_write_string(&writer, "run_name", run_name(files));
    tml_json_write_string(&writer, "program", files->program);
    tml_json_write_int(&writer, "rank", files->rank);
    tml_json_write_int(&writer, "local_rank", files->local_rank);
    tml_json_write_int(&writer, "world_size", files->world_size);
    tml_json_write_string(&writer, "host", host);
    tml_json_write_int(&writer, "pid", getpid());
    tml_json_write_uint(&writer, "pid_start_ticks", tml_process_start_ticks((uint64_t)getpid()));
    tml_json_write_int(&writer, "written_within_ms", files->written_within_ns / TML_NS_PER_MS);
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
    tml_json_write_uint(writer, "clock_ties", stats->ties);
    tml_json_write_uint(writer, "clock_ties_refused", stats->ties_refused);
    tml_json_end_object(writer);
}

/* Losses on the way to the file come on top of those before it. */
static void all_losses(const struct tml_session_files *files, const struct tml_sampler_stats *stats, uint64_t *losses)
{
    memcpy(losses, stats->losses, sizeof stats->losses);
    losses[TML_LOSS_UNWRITTEN] += files->refused_rows + (files->file ? tml_step_file_lost(files->file) : 0);
}

/* So that a killed run still says what it lost. */
void tml_session_add_state_if_changed(struct tml_session_files *files)
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

enum traceml_status tml_session_write_manifest(struct tml_session_files *files, const char *end_reason)
{
    struct tml_json_writer writer;
    char now[32];
    tml_manifest_now(now, sizeof now);
    tml_json_writer_heap(&writer, 2);
    tml_json_begin_object(&writer, NULL);
    tml_json_write_raw(&writer, "schema_version", TML_SCHEMA_VERSION_TEXT);
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
        text ? tml_run_dir_write(files->dir_fd, TML_MANIFEST, text, strlen(text)) : TRACEML_OUT_OF_MEMORY;
    free(text);
    return status;
}

void tml_session_add_end(struct tml_session_files *files, const struct tml_sampler_stats *stats,
                         const struct traceml_end *end, const char *reason)
{
    struct tml_json_writer writer;
    uint64_t losses[TML_LOSS_COUNT];
    enum traceml_status status;
    char *run = end && end->run_json ? tml_session_checked_object(end->run_json, &status) : NULL;
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
