/*
 * Purpose   what a session writes beside its rows: header, state and end lines, and the manifest.
 * Memory    nothing is kept.
 * Threads   the sampler, unless said.
 * Units     ns inside, seconds and ms in the lines.
 * Depends   session_files, json, manifest, run_dir.
 */
#ifndef TML_SESSION_LINES_H
#define TML_SESSION_LINES_H

#include "session_files.h"

/* A copy of `json` if it is an object (free() it); NULL with the status otherwise. Any thread. */
char *tml_session_checked_object(const char *json, enum traceml_status *status);

/* Puts the line into the step file's buffer. */
void tml_session_add_header(struct tml_session_files *files);
/* So that a killed run still says what it lost. */
void tml_session_add_state_if_changed(struct tml_session_files *files);
void tml_session_add_end(struct tml_session_files *files, const struct tml_sampler_stats *stats,
                         const struct traceml_end *end, const char *reason);

/* The whole manifest.json; `end_reason` NULL while the run goes on. Error: UNWRITABLE, OUT_OF_MEMORY. */
enum traceml_status tml_session_write_manifest(struct tml_session_files *files, const char *end_reason);

#endif
