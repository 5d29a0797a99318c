/*
 * Purpose   reads a run from disk: step files of all ranks and the manifest, into rows of the latest steps and totals
 *           of the whole run. Streams by lines, so memory grows with the window and not with the run.
 * Memory    tml_run_read() fills the caller's struct, tml_run_free() gives all of it back.
 * Threads   any; one run by one thread.
 * Units     ns.
 * Depends   row_store, step_scan, step_fold, line_reader, json; POSIX directories.
 */
#ifndef TML_STEP_READER_H
#define TML_STEP_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "row_store.h"
#include "step_fold.h"

/* Over all completed steps of a rank, warm-up and folded ones among them; aborted ones are counted alone. */
struct tml_rank_totals {
    uint64_t completed, aborted;
    uint64_t folded;                 /* of `completed`: steps that the file keeps as sums and quantiles only */
    uint64_t last_step;              /* number of the last completed step; 0: none */
    uint64_t first_fetches;          /* completed steps whose iteration held the first fetch of an iterator */
    int64_t first_epoch, last_epoch; /* -1: unknown */
    int64_t last_end_ns;             /* end of the last step, aborted ones too, since the first step's begin */
    uint64_t occurrences[TML_REGIONS][TRACEML_PHASE_COUNT]; /* of the steps that were not folded */
    /* After the first iteration, spans on the step's own thread and on others. */
    uint64_t here[TRACEML_PHASE_COUNT], elsewhere[TRACEML_PHASE_COUNT];
    struct tml_step_fold *sums; /* of every time; on the heap */
};

/* Warm-up of the whole run: the first iteration, and steps with the first fetch of an iterator. */
struct tml_warmup {
    uint64_t steps;
    bool has_first;
    struct tml_step_row first; /* the first iteration, if it completed */
};

struct tml_rank_run {
    unsigned rank;
    unsigned node, node_ranks; /* its host among those of the run, in order of their lowest rank; ranks on it */
    char *file;                /* name in the run directory */
    struct tml_json *header, *state, *end; /* latest line of its kind, or NULL */
    unsigned attempts;                     /* headers seen: more than one after a restart; the last one counts */
    struct tml_row_store rows;
    struct tml_rank_totals totals;
    struct tml_warmup warmup;
    struct tml_span_names names; /* of own spans, as the rows number them */
};

struct tml_run {
    char *directory;            /* as it was given */
    struct tml_json *manifest;  /* NULL: none or not readable */
    struct tml_rank_run *ranks; /* ascending */
    size_t rank_count;
    uint64_t lines, bad_lines;
    char *first_bad; /* "steps-rank00003.jsonl:17: cut line" */
};

/* The phases whose instrument was in place at the first step or at the end. None where the file does not say: then what
 * occurred counts alone. */
uint32_t tml_rank_armed(const struct tml_rank_run *rank);
/* Phases that occurred at all, folded steps included. */
uint32_t tml_rank_seen(const struct tml_rank_run *rank);
/* Phases that occur on other threads than the step's: all of their spans, or nearly (somebody looked at a batch once). */
uint32_t tml_rank_elsewhere(const struct tml_rank_run *rank);
/* The steps of this rank have a device. */
bool tml_rank_on_cuda(const struct tml_rank_run *rank);
/* Every copy is watched at the CUDA call itself, not only the spans that somebody bracketed. */
bool tml_rank_observes_copies(const struct tml_rank_run *rank);

/*
 * Reads all steps-rank*.jsonl and manifest.json of `directory`, keeping the latest `window_steps` rows a rank (counted
 * back from the last step that every rank has, so that one that is ahead keeps the common ones) and some more for
 * warm-up steps among them.
 * Errors: NOT_FOUND (no such directory, or nothing of ours in it), BAD_DATA (step files, and not one good line in any),
 * OUT_OF_MEMORY, SYSTEM; `error` holds one line that names the file.
 */
enum traceml_status tml_run_read(const char *directory, uint64_t window_steps, struct tml_run *run, char *error,
                                 size_t error_bytes);
void tml_run_free(struct tml_run *run);

/* ---- Shared by the files of this noun ---- */

/* What is wrong with the members of a header, state line, end line or manifest, or NULL. */
const char *tml_rank_wrong_members(const struct tml_json *object);
const char *tml_rank_wrong_header(const struct tml_json *header, unsigned rank);

/* Takes one line into the rank. Rows after `last_common` go into the totals alone. NULL when it was good, else what is
 * wrong with it; *oom is set when memory ran out. */
const char *tml_rank_take_line(struct tml_rank_run *rank, uint64_t last_common, const char *line, size_t bytes,
                               bool *known, bool *oom);
bool tml_rank_run_init(struct tml_rank_run *rank, unsigned number, size_t rows);
void tml_rank_run_free(struct tml_rank_run *rank);

#endif
