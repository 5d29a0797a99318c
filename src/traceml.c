/* The public functions: arguments checked, then handed on. */
#include "traceml/traceml.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare.h"
#include "manifest.h"
#include "recorder.h"
#include "session.h"
#include "summary.h"

#define TEXT(x) #x
#define VERSION(major, minor, patch) TEXT(major) "." TEXT(minor) "." TEXT(patch)

static const char *const status_texts[] = {
#define TML_X(name, text) text,
    TRACEML_STATUS_LIST(TML_X)
#undef TML_X
};

const char *traceml_status_text(enum traceml_status status)
{
    return (unsigned)status < sizeof status_texts / sizeof *status_texts ? status_texts[status] : "unknown status";
}

const char *traceml_version(void)
{
    return VERSION(TRACEML_VERSION_MAJOR, TRACEML_VERSION_MINOR, TRACEML_VERSION_PATCH);
}

static enum traceml_status refuse(const char *why, char *error, size_t error_bytes)
{
    if (error && error_bytes > 0)
        snprintf(error, error_bytes, "%s", why);
    return TRACEML_INVALID_ARGUMENT;
}

/* ---- Session ---- */

/* These are watched once somebody opens a span of them, and not before. */
#define OCCASIONAL ((1u << TRACEML_PHASE_EVALUATION) | (1u << TRACEML_PHASE_CHECKPOINT) | (1u << TRACEML_PHASE_USER))

void traceml_options_init(struct traceml_options *options)
{
    if (!options)
        return;
    *options = (struct traceml_options){
        .size = sizeof *options,
        .logs_dir = "logs",
        .program = "program",
        .environment_json = "{}",
        .world_size = 1,
        .tick_ms = 10,
        .flush_ms = 100,
        .event_deadline_ms = 30000,
        .stop_ms = 1000,
        .file_steps = 50000,
        .armed_phases = ((1u << TRACEML_PHASE_COUNT) - 1) & ~OCCASIONAL,
    };
}

enum traceml_status traceml_session_open(const struct traceml_options *options, struct traceml_session **session,
                                         char *error, size_t error_bytes)
{
    char unused[512];
    return tml_session_open(options, session, error ? error : unused, error ? error_bytes : sizeof unused);
}

enum traceml_status traceml_session_close(struct traceml_session *session, const struct traceml_end *end)
{
    return tml_session_close(session, end);
}

enum traceml_status traceml_set_environment(struct traceml_session *session, const char *environment_json)
{
    return tml_session_set_environment(session, environment_json);
}

void traceml_set_armed(struct traceml_session *session, enum traceml_phase phase, bool armed)
{
    if ((unsigned)phase < TRACEML_PHASE_COUNT)
        tml_session_set_armed(session, phase, armed);
}

void traceml_set_hook_cost(struct traceml_session *session, enum traceml_phase phase, uint32_t cost_ns)
{
    (void)session;
    /* Relaxed: a figure on its own. */
    if ((unsigned)phase < TRACEML_PHASE_COUNT)
        atomic_store_explicit(&tml_recording.hook_cost_ns[phase], cost_ns, memory_order_relaxed);
}

enum traceml_status traceml_flush(struct traceml_session *session, unsigned timeout_ms)
{
    return tml_session_flush(session, timeout_ms);
}

const char *traceml_run_dir(const struct traceml_session *session)
{
    return tml_session_run_dir(session);
}

uint64_t traceml_steps_completed(const struct traceml_session *session)
{
    (void)session;
    /* Relaxed: a count. */
    return atomic_load_explicit(&tml_recording.completed, memory_order_relaxed);
}

/* ---- Recording ---- */

/* A device that no pool is kept for is as good as none. */
static struct traceml_stream usable(struct traceml_stream stream)
{
    return stream.device < TML_CUDA_MAX_DEVICES ? stream : TRACEML_NO_STREAM;
}

traceml_span traceml_begin(struct traceml_session *session, enum traceml_phase phase, struct traceml_stream stream)
{
    if (!session || (unsigned)phase >= TRACEML_PHASE_COUNT || phase == TRACEML_PHASE_STEP)
        return -1;
    if (phase == TRACEML_PHASE_DATALOADER_FETCH)
        return traceml_begin_fetch(session, 0, 0, stream);
    struct tml_recorder *recorder = tml_recorder_for_span();
    return recorder ? tml_recorder_begin_owner(recorder, phase, usable(stream)) : -1;
}

traceml_span traceml_begin_fetch(struct traceml_session *session, uint16_t loader, uint16_t pass,
                                 struct traceml_stream stream)
{
    struct tml_recorder *recorder = session ? tml_recorder_for_span() : NULL;
    return recorder ? tml_recorder_begin_fetch_owner(recorder, loader, pass, usable(stream)) : -1;
}

/* Numbers of phases stand behind those of names. */
traceml_name traceml_name_of(const char *name)
{
    if (!name)
        return -1;
    for (unsigned phase = TRACEML_PHASE_EVALUATION; phase <= TRACEML_PHASE_CHECKPOINT; phase++)
        if (strcmp(name, tml_phase_key(phase)) == 0)
            return (traceml_name)(TML_SPAN_NAMES + phase);
    return (traceml_name)tml_span_name_add(&tml_span_names, name);
}

traceml_span traceml_begin_named(struct traceml_session *session, traceml_name name, struct traceml_stream stream)
{
    if (name < 0 || (unsigned)name >= TML_SPAN_NAMES)
        return name < 0 ? -1 : traceml_begin(session, (enum traceml_phase)((unsigned)name - TML_SPAN_NAMES), stream);
    struct tml_recorder *recorder = session ? tml_recorder_for_span() : NULL;
    return recorder ? tml_recorder_begin_named_owner(recorder, (unsigned)name, usable(stream)) : -1;
}

void traceml_end(struct traceml_session *session, traceml_span span, unsigned flags)
{
    struct tml_recorder *recorder = session ? tml_recorder_here() : NULL;
    if (recorder)
        tml_recorder_end_owner(recorder, span, flags);
}

void traceml_cancel(struct traceml_session *session, traceml_span span)
{
    struct tml_recorder *recorder = session ? tml_recorder_here() : NULL;
    if (recorder)
        tml_recorder_cancel_owner(recorder, span);
}

traceml_span traceml_step_begin(struct traceml_session *session, struct traceml_stream stream)
{
    struct tml_recorder *recorder = session ? tml_recorder_for_span() : NULL;
    return recorder ? tml_recorder_step_begin_owner(recorder, usable(stream)) : -1;
}

void traceml_step_end(struct traceml_session *session, traceml_span span, unsigned flags)
{
    struct tml_recorder *recorder = session ? tml_recorder_here() : NULL;
    if (recorder)
        tml_recorder_end_owner(recorder, span, flags);
}

void traceml_set_epoch(struct traceml_session *session, int64_t epoch)
{
    struct tml_recorder *recorder = session ? tml_recorder_here() : NULL;
    if (recorder)
        recorder->epoch = epoch;
}

struct traceml_stream traceml_last_stream(struct traceml_session *session)
{
    struct tml_recorder *recorder = session ? tml_recorder_here() : NULL;
    return recorder ? recorder->last_stream : TRACEML_NO_STREAM;
}

/* ---- Report ---- */

void traceml_report_options_init(struct traceml_report_options *options)
{
    if (!options)
        return;
    *options = (struct traceml_report_options){.size = sizeof *options, .window_steps = 10000, .columns = 100};
}

enum traceml_status traceml_report_read(const char *path, const struct traceml_report_options *options,
                                        struct traceml_report *report, char *error, size_t error_bytes)
{
    char unused[512];
    if (report)
        *report = (struct traceml_report){0};
    if (!path || !report)
        return refuse("path and report must not be NULL", error, error_bytes);
    return tml_summary_build(path, options, report, error ? error : unused, error ? error_bytes : sizeof unused);
}

enum traceml_status traceml_report_write(const char *run_dir, const struct traceml_report *report, char *error,
                                         size_t error_bytes)
{
    char unused[512];
    if (!run_dir || !report)
        return refuse("run_dir and report must not be NULL", error, error_bytes);
    return tml_summary_write(run_dir, report, error ? error : unused, error ? error_bytes : sizeof unused);
}

enum traceml_status traceml_run_ended(const char *run_dir, const char *end_reason)
{
    return run_dir && end_reason ? tml_manifest_set_end(run_dir, end_reason) : TRACEML_INVALID_ARGUMENT;
}

void traceml_report_free(struct traceml_report *report)
{
    if (!report)
        return;
    free(report->json);
    free(report->text);
    *report = (struct traceml_report){0};
}

/* ---- Comparison ---- */

void traceml_compare_options_init(struct traceml_compare_options *options)
{
    if (!options)
        return;
    *options = (struct traceml_compare_options){
        .size = sizeof *options, .window_steps = 10000, .max_step_time_regression_pct = NAN, .columns = 100};
}

enum traceml_status traceml_compare(const char *old_path, const char *new_path,
                                    const struct traceml_compare_options *options,
                                    struct traceml_comparison *comparison, char *error, size_t error_bytes)
{
    char unused[512];
    if (comparison)
        *comparison = (struct traceml_comparison){0};
    if (!old_path || !new_path || !comparison)
        return refuse("the two paths and the comparison must not be NULL", error, error_bytes);
    return tml_compare(old_path, new_path, options, comparison, error ? error : unused,
                       error ? error_bytes : sizeof unused);
}

enum traceml_status traceml_comparison_write(const char *base, const struct traceml_comparison *comparison, char *error,
                                             size_t error_bytes)
{
    char unused[512];
    if (!base || !comparison)
        return refuse("base and comparison must not be NULL", error, error_bytes);
    return tml_compare_write(base, comparison, error ? error : unused, error ? error_bytes : sizeof unused);
}

void traceml_comparison_free(struct traceml_comparison *comparison)
{
    if (!comparison)
        return;
    free(comparison->json);
    free(comparison->text);
    *comparison = (struct traceml_comparison){0};
}
