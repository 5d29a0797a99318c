/*
 * Purpose   final_summary.json and its text, from a run directory or from a summary that was written before.
 * Memory    texts of the report are the caller's to free (traceml_report_free()).
 * Threads   any; works on files alone, no session is touched.
 * Units     ms in the JSON, names say so (docs/summary-format.md).
 * Depends   report_text, diagnosis, window, run_facts, run_dir, line_reader, json.
 */
#ifndef TML_SUMMARY_H
#define TML_SUMMARY_H

#include <stddef.h>

#include "json.h"
#include "report_text.h"
#include "traceml/traceml.h"

#define TML_SCHEMA_VERSION 2.0
#define TML_SCHEMA_VERSION_TEXT "2.0" /* as it is written everywhere */
#define TML_SUMMARY_JSON "final_summary.json"
#define TML_SUMMARY_TEXT "final_summary.txt"

/*
 * `path` is a run directory (analysed; one without step files but with a summary hands that out) or a summary file of
 * ours (its stored text). `options` may be NULL.
 * Errors: NOT_FOUND, BAD_DATA, OUT_OF_MEMORY, SYSTEM, with one line in `error`.
 */
enum traceml_status tml_summary_build(const char *path, const struct traceml_report_options *options,
                                      struct traceml_report *report, char *error, size_t error_bytes);

/* Writes both files into the run directory, each whole or not at all; the text without colour.
 * Errors: UNWRITABLE, OUT_OF_MEMORY. */
enum traceml_status tml_summary_write(const char *run_dir, const struct traceml_report *report, char *error,
                                      size_t error_bytes);

/* ---- Shared by the files of this noun: each writes its part of the document ---- */

void tml_summary_write_generated_at(struct tml_json_writer *json);
void tml_summary_write_meta(struct tml_json_writer *json, const struct tml_analysis *analysis);
void tml_summary_write_run(struct tml_json_writer *json, const struct tml_analysis *analysis);
void tml_summary_write_losses(struct tml_json_writer *json, const struct tml_analysis *analysis);
void tml_summary_write_overhead(struct tml_json_writer *json, const struct tml_analysis *analysis);
void tml_summary_write_primary(struct tml_json_writer *json, const struct tml_analysis *analysis);
void tml_summary_write_findings(struct tml_json_writer *json, const struct tml_analysis *analysis);
void tml_summary_write_step_time(struct tml_json_writer *json, const struct tml_analysis *analysis, const char *card);
/* The sections that this version does not measure, by their names; all of them null with a reason. */
void tml_summary_write_absent(struct tml_json_writer *json, const struct tml_analysis *analysis, const char *section);

/* A finding without a rule behind it: the twelve members that every finding has. */
void tml_summary_write_plain_finding(struct tml_json_writer *json, const char *key, const char *kind,
                                     const char *status, const char *summary, const char *action, const char *reason);
/* The 13 members of a section's `metadata`. */
struct tml_summary_metadata {
    const char *mode;
    int64_t ranks_seen, ranks_used, total_steps, latest_step; /* -1: null */
};
void tml_summary_write_metadata(struct tml_json_writer *json, const struct tml_summary_metadata *metadata,
                                const char *const *names, size_t count);
void tml_summary_write_identity(struct tml_json_writer *json, const struct tml_analysis *analysis,
                                const struct tml_rank_run *rank);
const char *tml_summary_mode(const struct tml_analysis *analysis);
/* `of_ranks`: medians over ranks, which have no spread over steps. */
void tml_summary_write_lead(struct tml_json_writer *json, const struct tml_window_lead *lead, bool of_ranks);
/* null for -1 */
void tml_summary_write_count(struct tml_json_writer *json, const char *key, int64_t count);

#endif
