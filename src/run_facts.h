/*
 * Purpose   what is known of a run beside its steps: names, ranks, devices, loader, how it ended, denominators, losses.
 * Memory    plain data that points into the run, which must outlive it.
 * Threads   any.
 * Units     ns, and s where a file says s; NAN or -1 for unknown.
 * Depends   step_reader, process.
 */
#ifndef TML_RUN_FACTS_H
#define TML_RUN_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "step_reader.h"

/* Of the missing ranks as many are named. */
#define TML_MISSING_LISTED 64

/* Settings of the loader that feeds the steps; -1: unknown. */
struct tml_loader_facts {
    int64_t workers, prefetch_factor, batch_size;
    int pin_memory, persistent_workers;
};

struct tml_run_facts {
    const struct tml_run *run;
    const char *run_name, *program, *started_at; /* NULL: unknown */
    uint64_t world_size;
    size_t ranks_seen; /* with completed steps */
    size_t ranks_used; /* all files that could be read */
    size_t missing_count;
    unsigned missing[TML_MISSING_LISTED]; /* the first of them */
    size_t nodes, gpus;
    const char *gpu_name; /* of the lowest rank with one */

    const char *end_reason; /* "finished", "signal:SIGKILL", ..., "unknown" */
    bool complete;
    size_t ranks_unclosed;     /* whose file has no end line: what was not written when they ended is not in it */
    unsigned unclosed_rank;    /* the first of them */
    int64_t written_within_ms; /* of these, the longest that a completed step may have waited to be written */
    bool running;              /* one of them is a process that lives, on this machine */

    const struct tml_json *environment; /* object of the lowest rank that has one, or NULL */
    struct tml_loader_facts loader;
    const char *strategy; /* NULL: unknown */
    int64_t cores;
    bool python;

    /* Denominators, each the largest over ranks: never one for another. */
    double process_s, session_s;
    enum tml_reason end_gap;  /* why what only an end line says is not known, where it is not */
    int64_t training_loop_ns; /* from the first fetch to the last step's end: never less than the steps in it */
    int64_t step_total_ns[TML_CLOCKS], evaluation_ns, checkpoint_ns, input_wait_ns; /* on the host; TML_NS_NONE */
    uint64_t completed, aborted, folded, microbatches;
    int64_t epochs_begun; /* -1: unknown */
    uint64_t warmup_steps;
    struct tml_between between; /* of the rank whose loop it takes most of */
    double between_share;       /* of that rank's training loop; NAN where no fetch was watched, or no loop is known */
    unsigned restarts;

    uint64_t losses[TML_LOSS_COUNT], losses_total; /* summed over ranks */
};

/* `end_reason`: what the caller knows of the end, or NULL. */
void tml_run_facts_gather(const struct tml_run *run, const char *end_reason, struct tml_run_facts *facts);

/* A member of the rank's header; NULL: unknown. */
const struct tml_json *tml_rank_header(const struct tml_rank_run *rank, const char *key);
/* Of the end line, else of the latest state line; NULL: neither. */
const struct tml_json *tml_rank_latest(const struct tml_rank_run *rank, const char *key);

#endif
