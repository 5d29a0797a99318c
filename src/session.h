/*
 * Purpose   the process's one session: settings, run directory, files of a rank, sampler, fork.
 * Memory    one allocation, freed by close; a forked child forgets it.
 * Threads   as traceml.h says of the public calls that end here.
 * Units     ms in options.
 * Depends   sampler, step_file, summary, <pthread.h>.
 */
#ifndef TML_SESSION_H
#define TML_SESSION_H

#include "traceml/traceml.h"

enum traceml_status tml_session_open(const struct traceml_options *options, struct traceml_session **session,
                                     char *error, size_t error_bytes);
enum traceml_status tml_session_close(struct traceml_session *session, const struct traceml_end *end);
enum traceml_status tml_session_set_environment(struct traceml_session *session, const char *json);
void tml_session_set_armed(struct traceml_session *session, enum traceml_phase phase, bool armed);
enum traceml_status tml_session_flush(struct traceml_session *session, unsigned timeout_ms);
const char *tml_session_run_dir(const struct traceml_session *session);

#endif
