/*
 * libtraceml: tells why a training run is slow, cheaply enough to leave on.
 *
 * Purpose   the whole C API: open a session, bracket steps and phases, read the report.
 * Memory    the library owns what it hands out until the matching close or free; it copies every string it is given.
 * Threads   each function says who may call it; docs/concurrency.md has the table of what may run beside what.
 * Units     names end in their unit (_ns, _ms, _bytes, _steps); all durations come from CLOCK_MONOTONIC.
 * Depends   <stdbool.h>, <stddef.h>, <stdint.h>; CUDA is found at run time and never initialised by the library.
 */
#ifndef TRACEML_TRACEML_H
#define TRACEML_TRACEML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRACEML_VERSION_MAJOR 0
#define TRACEML_VERSION_MINOR 1
#define TRACEML_VERSION_PATCH 0

#if defined(__GNUC__)
#define TRACEML_API __attribute__((visibility("default")))
#else
#define TRACEML_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Status ------------------------------------------------------------------------------------------------------ */

/* Every call that can fail returns one of these; the text is traceml_status_text(). */
#define TRACEML_STATUS_LIST(X)                                                                                         \
    X(OK, "ok")                                                                                                        \
    X(INVALID_ARGUMENT, "invalid argument")                                                                            \
    X(OUT_OF_MEMORY, "out of memory")                                                                                  \
    X(UNWRITABLE, "cannot write")                                                                                      \
    X(EXISTS, "exists already")                                                                                        \
    X(NOT_FOUND, "not found")                                                                                          \
    X(BAD_DATA, "not data of this library")                                                                            \
    X(BUSY, "another session is open")                                                                                 \
    X(CLOSED, "session is closed")                                                                                     \
    X(SYSTEM, "system call failed")

enum traceml_status {
#define TRACEML_X(name, text) TRACEML_##name,
    TRACEML_STATUS_LIST(TRACEML_X)
#undef TRACEML_X
};

/* The fixed text of a status. Any thread; never NULL. */
TRACEML_API const char *traceml_status_text(enum traceml_status status);

/* "MAJOR.MINOR.PATCH" of the library that is running. Any thread. */
TRACEML_API const char *traceml_version(void);

/* ---- Phases ------------------------------------------------------------------------------------------------------ */

/* What a span is: X(NAME, json_key). */
#define TRACEML_PHASE_LIST(X)                                                                                          \
    X(STEP, "step")                                                                                                    \
    X(DATALOADER_FETCH, "dataloader_fetch")                                                                            \
    X(H2D, "h2d")                                                                                                      \
    X(FORWARD, "forward")                                                                                              \
    X(BACKWARD, "backward")                                                                                            \
    X(OPTIMIZER, "optimizer")                                                                                          \
    X(EVALUATION, "evaluation")                                                                                        \
    X(CHECKPOINT, "checkpoint")                                                                                        \
    X(USER, "user")

enum traceml_phase {
#define TRACEML_X(name, key) TRACEML_PHASE_##name,
    TRACEML_PHASE_LIST(TRACEML_X)
#undef TRACEML_X
        TRACEML_PHASE_COUNT /* how many there are; no phase itself */
};

/* Flags of one span; may be combined. */
enum traceml_span_flag {
    TRACEML_SPAN_ABORTED = 1u << 0,     /* an exception or an early return left the block */
    TRACEML_SPAN_FIRST_FETCH = 1u << 1, /* first fetch of an iterator: worker start-up is in it */
    TRACEML_SPAN_NO_GRAD = 1u << 2,     /* gradients were disabled: validation, not feeding a step */
    TRACEML_SPAN_SKIPPED = 1u << 3,     /* of an OPTIMIZER span: the update was left out (a scaler found infinities) */
};

/* Where the work of a span is enqueued. device < 0: no device, the span has its CPU bracket alone. The handle is the
 * cudaStream_t; 0 is the legacy default stream of that device. */
struct traceml_stream {
    int device;
    void *handle;
};

#define TRACEML_NO_STREAM ((struct traceml_stream){-1, NULL})

/* ---- Session ----------------------------------------------------------------------------------------------------- */

/* One traced run of this process; at most one is open at a time. */
struct traceml_session;

/* Settings of a session; fill in with traceml_options_init(), then change what differs. */
struct traceml_options {
    size_t size;          /* sizeof(struct traceml_options): lets the struct grow */
    const char *logs_dir; /* where run directories are made; default "./logs" */
    const char *run_name; /* directory below logs_dir, "-2" appended if taken; default "<program>_<YYYYmmdd-HHMMSS>" */
    const char *program;  /* name of the script or program for reports; default "program" */
    const char *environment_json; /* a JSON object put into meta.environment; default {} */
    int rank;                     /* default 0 */
    int local_rank;               /* default 0 */
    int world_size;               /* default 1 */
    unsigned tick_ms;             /* poll period while events are pending; default 10 */
    unsigned flush_ms;            /* a completed step is in the file after at most this; default 100 */
    unsigned event_deadline_ms;   /* an event pending for longer is given up as timed_out; default 30000 */
    unsigned stop_ms;             /* close waits at most this for pending events; default 1000 */
    uint64_t max_steps;           /* record at most this many steps; default 0: no limit */
    uint64_t file_steps;          /* step lines kept whole in the file before older ones are folded; default 50000 */
    uint32_t armed_phases;        /* bit (1 << phase): an instrument of this phase is in place; default: all but
                                   * evaluation, checkpoint and user, which count as watched from their first span */
    bool adopt_run_dir;           /* the directory exists already and is ours (made by a launcher); default false. One
                                   * that holds steps of this rank is another process's: the next name is taken */
};

/* Fills in the defaults. Any thread. */
TRACEML_API void traceml_options_init(struct traceml_options *options);

/*
 * Opens the process's session: checks that the run directory can be made, starts the sampler thread. Nothing is written
 * before the first step.
 * Errors: INVALID_ARGUMENT, UNWRITABLE, EXISTS (no free name), BUSY, OUT_OF_MEMORY, SYSTEM.
 * On failure *session is NULL and `error` (when not NULL, `error_bytes` long) holds one line that says what is wrong.
 * Any thread, not beside itself or traceml_session_close().
 */
TRACEML_API enum traceml_status traceml_session_open(const struct traceml_options *options,
                                                     struct traceml_session **session, char *error, size_t error_bytes);

/* How a run ended, for traceml_session_close(). */
struct traceml_end {
    const char *reason;   /* "finished", "exception", "exit:N", ...; NULL: "finished" */
    const char *run_json; /* a JSON object merged into the `run` section; NULL: none */
};

/*
 * Stops: admits no new spans, waits at most stop_ms for pending events, joins the sampler, writes the end line, frees.
 * Handles of other threads die with it: no call on the session may be in flight or follow. `end` may be NULL.
 * Errors: UNWRITABLE when lines could not be written (the loss is counted in the report); errno then says why, 0 where
 * the system did not.
 */
TRACEML_API enum traceml_status traceml_session_close(struct traceml_session *session, const struct traceml_end *end);

/* Replaces the environment object of the report (loader settings, strategy: known late). Any thread.
 * Errors: INVALID_ARGUMENT (not a JSON object), OUT_OF_MEMORY. */
TRACEML_API enum traceml_status traceml_set_environment(struct traceml_session *session, const char *environment_json);

/* Says that an instrument of this phase was put in place or taken away. Any thread. */
TRACEML_API void traceml_set_armed(struct traceml_session *session, enum traceml_phase phase, bool armed);

/* Nanoseconds that the caller's own hook costs around one span of this phase, beside the library's cost; becomes part
 * of `instrumentation`. Any thread. */
TRACEML_API void traceml_set_hook_cost(struct traceml_session *session, enum traceml_phase phase, uint32_t cost_ns);

/* Brings all completed and resolved steps into the file; waits at most timeout_ms for pending events.
 * Errors: UNWRITABLE. Any thread. */
TRACEML_API enum traceml_status traceml_flush(struct traceml_session *session, unsigned timeout_ms);

/* The run directory, absolute. Valid until close. It may change once, with the first step, when another run has taken the
 * name since: ask again before close. NULL for a session that is not open. Any thread. */
TRACEML_API const char *traceml_run_dir(const struct traceml_session *session);

/* Number of completed (not aborted) steps so far. Any thread. */
TRACEML_API uint64_t traceml_steps_completed(const struct traceml_session *session);

/* ---- Recording: the hot path ------------------------------------------------------------------------------------- */

/*
 * A span is bracketed by begin and end on one thread. Up to 64 spans may be open on a thread; they nest, and ending one
 * ends those inside that were left open, a step too (flagged aborted); so does the end of the thread. Of nested spans of
 * one phase (and one name) the outermost counts. None of these calls allocates after a thread's first use, takes a lock, or makes a
 * system call beyond the clock; none fails visibly: what could not be recorded is counted in `losses`.
 */

/* Identifies an open span on its thread; negative: nothing was opened, end() of it is a no-op. */
typedef int32_t traceml_span;

/* Opens a span of `phase` (not STEP). Any thread. */
TRACEML_API traceml_span traceml_begin(struct traceml_session *session, enum traceml_phase phase,
                                       struct traceml_stream stream);

/*
 * Opens a DATALOADER_FETCH span of one of several loaders. `loader` is any number of its own, 0 an unknown one; `pass`
 * tells passes over it (epochs, iterators) apart. With it the loaders that feed the steps are told from one that is run
 * through between two steps, whose fetches are no step's input wait. traceml_begin() is the same with 0 and 0. Any
 * thread; a fetch on another thread than the step's is nobody's input wait.
 */
TRACEML_API traceml_span traceml_begin_fetch(struct traceml_session *session, uint16_t loader, uint16_t pass,
                                             struct traceml_stream stream);

/* A name of a phase of the caller's own, as a number: the hot path handles no text. */
typedef int32_t traceml_name;

/*
 * The number of a name, for the life of the process: ask once, keep it. "evaluation" and "checkpoint" are those phases,
 * any other name is kept up to the report. A process tells 15 names of up to 47 bytes apart (longer ones are cut); spans
 * with names beyond those, and of TRACEML_PHASE_USER without one, count under "other". NULL gives a
 * negative number, with which nothing is opened. Any thread.
 */
TRACEML_API traceml_name traceml_name_of(const char *name);

/* Opens a span with that name. Spans of different names nest: the innermost owns the time. Any thread. */
TRACEML_API traceml_span traceml_begin_named(struct traceml_session *session, traceml_name name,
                                             struct traceml_stream stream);

/* Closes it. `flags` of enum traceml_span_flag. Same thread as begin. */
TRACEML_API void traceml_end(struct traceml_session *session, traceml_span span, unsigned flags);

/* Forgets it, as if it had never been opened (a fetch that found the loader exhausted). Same thread as begin. */
TRACEML_API void traceml_cancel(struct traceml_session *session, traceml_span span);

/*
 * Opens a step; the calling thread is the step's thread, `stream` the one that its work is enqueued on. A step inside
 * a step and a step of a second thread beside an open one are no-ops, counted. Returns the span to end.
 */
TRACEML_API traceml_span traceml_step_begin(struct traceml_session *session, struct traceml_stream stream);

/* Closes the step. With TRACEML_SPAN_ABORTED it is kept but left out of averages and of the numbering. */
TRACEML_API void traceml_step_end(struct traceml_session *session, traceml_span span, unsigned flags);

/* The epoch that the next steps belong to (from 0). Step thread. */
TRACEML_API void traceml_set_epoch(struct traceml_session *session, int64_t epoch);

/* The stream of the last step of the calling thread, TRACEML_NO_STREAM before: what a fetch is measured on. */
TRACEML_API struct traceml_stream traceml_last_stream(struct traceml_session *session);

/* ---- Report ------------------------------------------------------------------------------------------------------ */

/* Settings of a report; fill in with traceml_report_options_init(), then change what differs. */
struct traceml_report_options {
    size_t size;            /* sizeof(struct traceml_report_options) */
    uint64_t window_steps;  /* latest N common steps; default 10000 */
    unsigned columns;       /* width of the text; default 100, at least 40 */
    bool ascii;             /* no character beyond ASCII in the text; default false */
    bool color;             /* ANSI colour in the text; default false */
    const char *end_reason; /* what the launcher knows of the end ("signal:SIGKILL"); NULL: what the files say */
    bool unsaved;           /* the summary could not be written: the text names no file; default false */
};

/* Fills in the defaults. Any thread. */
TRACEML_API void traceml_report_options_init(struct traceml_report_options *options);

/* A report that was read; give it back with traceml_report_free(). */
struct traceml_report {
    char *json;         /* the whole final_summary.json, NUL-terminated UTF-8 */
    char *text;         /* the same as text for a terminal */
    unsigned bad_lines; /* lines of step files that could not be read; the others were */
};

/*
 * Analyses the step files of a run directory (or the one summary file given) into *report.
 * Errors: NOT_FOUND, BAD_DATA, OUT_OF_MEMORY; `error` as in traceml_session_open(). Any thread.
 */
TRACEML_API enum traceml_status traceml_report_read(const char *path, const struct traceml_report_options *options,
                                                    struct traceml_report *report, char *error, size_t error_bytes);

/* Writes final_summary.json and final_summary.txt into the run directory, each whole or not at all.
 * Errors: UNWRITABLE. Any thread. */
TRACEML_API enum traceml_status traceml_report_write(const char *run_dir, const struct traceml_report *report,
                                                     char *error, size_t error_bytes);

/* Puts into manifest.json of a run directory how the run ended ("exit:3", "signal:SIGKILL"): for who started the process
 * and saw more than it could. Reports say it from then on.
 * Errors: INVALID_ARGUMENT, NOT_FOUND, BAD_DATA (no manifest of ours), UNWRITABLE, OUT_OF_MEMORY, SYSTEM. Any thread. */
TRACEML_API enum traceml_status traceml_run_ended(const char *run_dir, const char *end_reason);

/* Frees what traceml_report_read() filled in; may be called again. Any thread. */
TRACEML_API void traceml_report_free(struct traceml_report *report);

/* ---- Comparison of two runs -------------------------------------------------------------------------------------- */

/* What became of the step: X(NAME, json_key). A difference counts only beyond the noise of both runs' steps. */
#define TRACEML_VERDICT_LIST(X)                                                                                        \
    X(INCONCLUSIVE, "inconclusive")                                                                                    \
    X(IMPROVEMENT, "improvement")                                                                                      \
    X(REGRESSION, "regression")                                                                                        \
    X(WITHIN_NOISE, "within_noise")

enum traceml_verdict {
#define TRACEML_X(name, key) TRACEML_VERDICT_##name,
    TRACEML_VERDICT_LIST(TRACEML_X)
#undef TRACEML_X
};

/* How the step time stands to max_step_time_regression_pct: X(NAME, json_key). */
#define TRACEML_LIMIT_LIST(X)                                                                                          \
    X(NONE, "none")                                                                                                    \
    X(WITHIN, "within")                                                                                                \
    X(SLOWER, "slower")                                                                                                \
    X(INCONCLUSIVE, "inconclusive")

enum traceml_limit {
#define TRACEML_X(name, key) TRACEML_LIMIT_##name,
    TRACEML_LIMIT_LIST(TRACEML_X)
#undef TRACEML_X
};

/* Settings of a comparison; fill in with traceml_compare_options_init(), then change what differs. */
struct traceml_compare_options {
    size_t size;                         /* sizeof(struct traceml_compare_options) */
    uint64_t window_steps;               /* of a run directory: latest N common steps; default 10000 */
    double max_step_time_regression_pct; /* the step may become slower by this; default NaN: no limit asked for */
    unsigned columns;                    /* width of the text; default 100, at least 40 */
    bool ascii;                          /* no character beyond ASCII in the text; default false */
    bool color;                          /* ANSI colour in the text; default false */
};

/* Fills in the defaults. Any thread. */
TRACEML_API void traceml_compare_options_init(struct traceml_compare_options *options);

/* A comparison that was made; give it back with traceml_comparison_free(). */
struct traceml_comparison {
    char *json;                   /* NUL-terminated UTF-8; docs/compare.md */
    char *text;                   /* the same as text for a terminal */
    enum traceml_verdict verdict; /* of the step time */
    enum traceml_limit limit;     /* NONE without a limit in the options */
};

/*
 * Compares two runs into *comparison. Each path is a run directory or a summary file: ours, or one of traceml-ai of
 * schema 1.4 to 1.7. `options` may be NULL.
 * Errors: NOT_FOUND, BAD_DATA, OUT_OF_MEMORY, SYSTEM; `error` as in traceml_session_open(). Any thread.
 */
TRACEML_API enum traceml_status traceml_compare(const char *old_path, const char *new_path,
                                                const struct traceml_compare_options *options,
                                                struct traceml_comparison *comparison, char *error, size_t error_bytes);

/* Writes BASE.json and BASE.txt, each whole or not at all, the text without colour. Errors: UNWRITABLE. Any thread. */
TRACEML_API enum traceml_status traceml_comparison_write(const char *base, const struct traceml_comparison *comparison,
                                                         char *error, size_t error_bytes);

/* Frees what traceml_compare() filled in; may be called again. Any thread. */
TRACEML_API void traceml_comparison_free(struct traceml_comparison *comparison);

#ifdef __cplusplus
}
#endif

#endif
