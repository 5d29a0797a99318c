/*
 * Purpose   the one background thread: drains rings, polls events, closes steps, hands their rows to a sink.
 * Memory    one allocation of fixed size; see step_table.h.
 * Threads   start, stop, flush: any thread, not beside each other's start and stop. The sink runs on the sampler.
 * Units     ms for periods, ns inside.
 * Depends   step_table, <pthread.h>.
 */
#ifndef TML_SAMPLER_H
#define TML_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

#include "step_table.h"

/* Where rows go. Never called under the sampler's lock, so it may write files. */
struct tml_sampler_sink {
    void *context;
    void (*row)(void *context, const struct tml_step_row *row);
    void (*idle)(void *context, int64_t now_ns); /* after each tick: writes what is due */
    void (*flush)(void *context);                /* writes everything now */
    void (*stopped)(void *context);              /* the last call: no more rows will come */
};

struct tml_sampler_options {
    unsigned tick_ms;
    unsigned event_deadline_ms;
};

struct tml_sampler_stats {
    uint64_t losses[TML_LOSS_COUNT]; /* of all causes known on this side: recorders and table */
    int64_t thread_cpu_ns;           /* CPU time of the sampler thread so far */
    uint64_t ties, ties_refused;     /* between the device's clock and the host's */
};

struct tml_sampler;

/* Starts the thread with all signals blocked. NULL when memory or threads are out. */
struct tml_sampler *tml_sampler_start(const struct tml_sampler_options *options, const struct tml_sampler_sink *sink);

/* Closes and hands over all steps that have ended; waits at most timeout_ms for their events. */
void tml_sampler_flush(struct tml_sampler *sampler, unsigned timeout_ms);

/* No spans are admitted any more: as flush, then gives up what is pending, empties the event pools, joins and frees. */
void tml_sampler_stop(struct tml_sampler *sampler, unsigned timeout_ms);

/* From the sink only. */
void tml_sampler_read_stats(const struct tml_sampler *sampler, struct tml_sampler_stats *stats);

/* Around fork(): the lock is held so that the child's copy of the memory is whole. */
void tml_sampler_before_fork(struct tml_sampler *sampler);
void tml_sampler_after_fork(struct tml_sampler *sampler);

#endif
