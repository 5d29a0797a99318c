/*
 * Purpose   what a session writes: the rank's step file with its header, state and end lines, and the manifest.
 * Memory    owns copies of all strings.
 * Threads   open, close: one thread, no sampler beside them. The sink: the sampler. Setters: any thread.
 * Units     ns inside.
 * Depends   sampler (its sink and stats), step_file, run_dir, json, <pthread.h>.
 */
#ifndef TML_SESSION_FILES_H
#define TML_SESSION_FILES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sampler.h"
#include "step_file.h"
#include "traceml/traceml.h"

struct tml_session_files {
    /* Settings, constant after open. */
    char *program;
    char *chosen_dir; /* as chosen at open */
    bool fresh;       /* we make the directory; where there is one already, the next free name is ours */
    int rank, local_rank, world_size;
    uint64_t file_steps;
    int64_t flush_ns;
    int64_t written_within_ns; /* a step that completed longer ago is in the file */
    int64_t opened_ns;
    char started_at[32];
    struct tml_sampler *sampler;

    /* Set from any thread. */
    pthread_mutex_t lock;
    char *environment; /* JSON object; under the lock */
    _Atomic uint32_t armed;

    /* The sampler's, until it has stopped. */
    int dir_fd;            /* -1: not open yet */
    char *moved_dir;       /* where the files are instead of chosen_dir; NULL: there */
    char *_Atomic run_dir; /* one of the two */
    struct tml_step_file *file;
    int64_t flushed_ns, open_failed_ns;
    uint64_t refused_rows; /* rows that found no file */
    int error;             /* errno of the last write or open that failed */
    uint64_t losses_written[TML_LOSS_COUNT];
    _Atomic int status; /* enum traceml_status of the last write */

    const struct traceml_end *end; /* set before the sampler is stopped */
};

/* First of all, so that close may follow whatever fails. */
void tml_session_files_init(struct tml_session_files *files);
enum traceml_status tml_session_files_open(struct tml_session_files *files, const struct traceml_options *options,
                                           const char *run_dir, char *error, size_t error_bytes);
struct tml_sampler_sink tml_session_files_sink(struct tml_session_files *files);
enum traceml_status tml_session_files_set_environment(struct tml_session_files *files, const char *json);
void tml_session_files_set_armed(struct tml_session_files *files, enum traceml_phase phase, bool armed);
/* Where the files are, or will be. Valid until close; changes at most once, with the first step. */
const char *tml_session_files_run_dir(const struct tml_session_files *files);
/* Of the last write; after the sampler has stopped, of the end line and the manifest. */
enum traceml_status tml_session_files_status(struct tml_session_files *files);
void tml_session_files_close(struct tml_session_files *files);

#endif
