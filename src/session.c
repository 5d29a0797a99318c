#include "session.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "json.h"
#include "recorder.h"
#include "run_dir.h"
#include "sampler.h"
#include "session_files.h"

/* The open session, for the fork handlers; NULL: none. */
static struct traceml_session *_Atomic current;
static pthread_once_t fork_handlers = PTHREAD_ONCE_INIT;
static pthread_mutex_t fork_lock = PTHREAD_MUTEX_INITIALIZER; /* held over a fork: `current` stays meanwhile */
static _Atomic uint64_t generations;

struct traceml_session {
    struct tml_session_files files;
    struct tml_sampler *sampler;
    unsigned stop_ms;
};

/* ---- Fork ---- */

static void before_fork(void)
{
    pthread_mutex_lock(&fork_lock);
    /* Acquire, with the release in set_current(): the sampler is there. */
    struct traceml_session *session = atomic_load_explicit(&current, memory_order_acquire);
    if (session)
        tml_sampler_before_fork(session->sampler);
}

static void after_fork_parent(void)
{
    struct traceml_session *session = atomic_load_explicit(&current, memory_order_acquire);
    if (session)
        tml_sampler_after_fork(session->sampler);
    pthread_mutex_unlock(&fork_lock);
}

/* The child has no sampler: it records nothing, and its copy of the session is left alone. Without a session too it has
 * recorders of threads that it lacks, and perhaps a CUDA that it must not call. */
static void after_fork_child(void)
{
    pthread_mutex_unlock(&fork_lock);
    tml_recorders_forked_child();
    /* Relaxed: the child has one thread. */
    atomic_store_explicit(&current, NULL, memory_order_relaxed);
}

/* Not in the middle of a fork: its handlers must all see the same one. */
static void set_current(struct traceml_session *session)
{
    pthread_mutex_lock(&fork_lock);
    /* Release, with the acquire in is_open(). */
    atomic_store_explicit(&current, session, memory_order_release);
    pthread_mutex_unlock(&fork_lock);
}

static void install_fork_handlers(void)
{
    pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

/* ---- Open ---- */

static enum traceml_status fail(enum traceml_status status, char *error, size_t error_bytes, const char *text)
{
    snprintf(error, error_bytes, "%s", text);
    return status;
}

static void free_session(struct traceml_session *session)
{
    tml_session_files_close(&session->files);
    free(session);
}

static void admit(const struct traceml_options *options, uint64_t generation)
{
    tml_recording.max_steps = options->max_steps;
    /* Relaxed: the release below orders it. */
    atomic_store_explicit(&tml_recording.generation, generation, memory_order_relaxed);
    /* Release, with the acquire in tml_recorder_here(). */
    atomic_store_explicit(&tml_recording.admitting, true, memory_order_release);
}

static enum traceml_status start_sampler(struct traceml_session *session, const struct traceml_options *options)
{
    struct tml_sampler_options sampler = {options->tick_ms, options->event_deadline_ms};
    struct tml_sampler_sink sink = tml_session_files_sink(&session->files);
    tml_cuda_find(tml_recording.cuda);
    tml_recorders_reset();
    pthread_once(&fork_handlers, install_fork_handlers);
    session->sampler = tml_sampler_start(&sampler, &sink);
    session->files.sampler = session->sampler;
    return session->sampler ? TRACEML_OK : TRACEML_SYSTEM;
}

static enum traceml_status check(const struct traceml_options *options, char *error, size_t error_bytes)
{
    if (!options || options->size != sizeof *options)
        return fail(TRACEML_INVALID_ARGUMENT, error, error_bytes,
                    "options were not filled in by traceml_options_init() of this version");
    if (!options->logs_dir || !options->program)
        return fail(TRACEML_INVALID_ARGUMENT, error, error_bytes, "logs_dir and program must not be NULL");
    if (options->rank < 0 || options->world_size < 1 || options->rank >= options->world_size)
        return fail(TRACEML_INVALID_ARGUMENT, error, error_bytes, "rank must be at least 0 and below world_size");
    if (options->tick_ms == 0 || options->flush_ms == 0)
        return fail(TRACEML_INVALID_ARGUMENT, error, error_bytes, "tick_ms and flush_ms must be at least 1");
    return TRACEML_OK;
}

static enum traceml_status build(struct traceml_session *session, const struct traceml_options *options, char *error,
                                 size_t error_bytes)
{
    char *run_dir;
    enum traceml_status status = tml_run_dir_choose(options, &run_dir, error, error_bytes);
    if (status == TRACEML_OK)
        status = tml_session_files_open(&session->files, options, run_dir, error, error_bytes);
    free(run_dir);
    if (status == TRACEML_OK && (status = start_sampler(session, options)) != TRACEML_OK)
        fail(status, error, error_bytes, "cannot start the sampler thread");
    return status;
}

enum traceml_status tml_session_open(const struct traceml_options *options, struct traceml_session **out, char *error,
                                     size_t error_bytes)
{
    if (!out)
        return fail(TRACEML_INVALID_ARGUMENT, error, error_bytes, "session must not be NULL");
    *out = NULL;
    enum traceml_status status = check(options, error, error_bytes);
    if (status != TRACEML_OK)
        return status;
    /* Relaxed: open and close do not run beside each other. */
    if (atomic_load_explicit(&current, memory_order_relaxed))
        return fail(TRACEML_BUSY, error, error_bytes, "a session is open in this process: close it first");
    struct traceml_session *session = calloc(1, sizeof *session);
    if (!session)
        return fail(TRACEML_OUT_OF_MEMORY, error, error_bytes, "out of memory");
    tml_session_files_init(&session->files);
    session->stop_ms = options->stop_ms;
    status = build(session, options, error, error_bytes);
    if (status != TRACEML_OK) {
        free_session(session);
        return status;
    }
    set_current(session);
    admit(options, 1 + atomic_fetch_add_explicit(&generations, 1, memory_order_relaxed));
    *out = session;
    return TRACEML_OK;
}

/* ---- Use and close ---- */

/* False for a session of before a fork, or one that is closed. */
static bool is_open(const struct traceml_session *session)
{
    return session && session == atomic_load_explicit(&current, memory_order_acquire);
}

enum traceml_status tml_session_close(struct traceml_session *session, const struct traceml_end *end)
{
    if (!is_open(session))
        return TRACEML_CLOSED;
    /* Release, so that whoever still sees it open sees all of it; with the acquire in tml_recorder_here(). */
    atomic_store_explicit(&tml_recording.admitting, false, memory_order_release);
    session->files.end = end;
    /* A fork from here on does not wait for the sampler, which is about to go: its child needs nothing of it. */
    set_current(NULL);
    tml_sampler_stop(session->sampler, session->stop_ms);
    enum traceml_status status = tml_session_files_status(&session->files);
    int error = session->files.error;
    free_session(session);
    errno = status == TRACEML_UNWRITABLE ? error : errno;
    return status;
}

enum traceml_status tml_session_set_environment(struct traceml_session *session, const char *json)
{
    return is_open(session) ? tml_session_files_set_environment(&session->files, json) : TRACEML_CLOSED;
}

void tml_session_set_armed(struct traceml_session *session, enum traceml_phase phase, bool armed)
{
    if (is_open(session))
        tml_session_files_set_armed(&session->files, phase, armed);
}

enum traceml_status tml_session_flush(struct traceml_session *session, unsigned timeout_ms)
{
    if (!is_open(session))
        return TRACEML_CLOSED;
    tml_sampler_flush(session->sampler, timeout_ms);
    return tml_session_files_status(&session->files);
}

const char *tml_session_run_dir(const struct traceml_session *session)
{
    return is_open(session) ? tml_session_files_run_dir(&session->files) : NULL;
}
