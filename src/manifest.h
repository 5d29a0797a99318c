/*
 * Purpose   manifest.json after the session that wrote it: how the run ended, which who started it may see better.
 * Memory    nothing is kept.
 * Threads   any; one at a time for a run.
 * Units     times of day are UTC.
 * Depends   run_dir, line_reader, json.
 */
#ifndef TML_MANIFEST_H
#define TML_MANIFEST_H

#include <stddef.h>

#include "traceml/traceml.h"

#define TML_MANIFEST "manifest.json"

/* "2026-11-30T22:28:49Z", as all times of day in our files. */
void tml_manifest_now(char *text, size_t bytes);

/* Puts `end_reason` and the time into it, whole or not at all; other members stay.
 * Errors: NOT_FOUND, BAD_DATA (no JSON object), UNWRITABLE, OUT_OF_MEMORY, SYSTEM. */
enum traceml_status tml_manifest_set_end(const char *run_dir, const char *end_reason);

#endif
