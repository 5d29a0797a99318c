/*
 * Purpose   the hot path: brackets spans on the calling thread and pushes one record when a span ends.
 * Memory    recorders live as long as the process (one a recording thread, at most TML_RECORDERS, reused when their
 *           thread has ended); 512 KiB of ring and, once a device is used, 64 KiB a device.
 * Threads   _owner: the recorder's own thread. _sampler: the sampler. Others as said.
 * Units     ns.
 * Depends   ring, event_pool, reason, span_name.
 */
#ifndef TML_RECORDER_H
#define TML_RECORDER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "event_pool.h"
#include "reason.h"
#include "ring.h"
#include "span_name.h"
#include "traceml/traceml.h"

#define TML_RECORDERS 64u
#define TML_RING_RECORDS 8192u
#define TML_OPEN_SPANS 64u

/* One span in so many measures what recording it cost. */
#define TML_COST_SAMPLING 64u

/* What half a span costs on this thread: sums over the sampled ones. A sample many times the least is no cost of ours:
 * the thread was interrupted, or the driver waited for the device. */
struct tml_own_cost {
    _Atomic uint64_t samples;
    _Atomic uint64_t sum_ns;
    uint64_t least_ns; /* the owner's */
};

#define TML_COST_OUTLIER 8u

/* The begin half reaches from entry to the begin time stamp and stands before the span, the end half from the end time
 * stamp to the return and stands after it. */
enum tml_cost_half { TML_COST_BEGIN, TML_COST_END, TML_COST_HALVES };

struct tml_open_span {
    int64_t begin_ns;
    void *begin_event;
    void *stream;
    uint64_t iteration;
    traceml_span token;
    int16_t device;
    uint8_t phase;
    uint8_t no_device; /* enum tml_reason */
    uint16_t loader;   /* of a DATALOADER_FETCH span, as in its record; and the next two */
    uint16_t pass;
    bool apart;
    uint8_t name; /* of a USER span: the number of its name */
    bool inner;   /* inside a span of the same phase and name: makes no record */
};

struct tml_recorder {
    struct tml_ring ring;
    struct tml_event_pool *_Atomic pool[TML_CUDA_MAX_DEVICES];
    struct tml_open_span open[TML_OPEN_SPANS];
    uint32_t depth;
    uint32_t sequence;                         /* makes tokens of ended spans stale */
    uint32_t spans;                            /* for sampling the own cost */
    uint16_t phase_depth[TRACEML_PHASE_COUNT]; /* open spans of each phase; USER ones by their names instead */
    uint16_t name_depth[TML_SPAN_NAMES];
    int64_t epoch;
    struct traceml_stream last_stream; /* of this thread's last step */
    uint64_t generation;               /* of the session that it records for */
    unsigned index;
    uint16_t tenant;                              /* grows with each thread that claims it */
    struct tml_own_cost cost[2][TML_COST_HALVES]; /* [without, with events] */
    _Atomic uint64_t losses[TML_LOSS_COUNT];
};

/* What all recorders of a session share. One in the process, at most one session open. */
struct tml_recording {
    struct tml_cuda *cuda;
    _Atomic bool admitting;                             /* spans are taken */
    _Atomic uint64_t generation;                        /* of the open session; 0: none */
    _Atomic uint64_t iteration;                         /* current, from 1 */
    _Atomic uint64_t completed;                         /* steps, without aborted ones */
    uint64_t max_steps;                                 /* 0: no limit */
    _Atomic int step_device;                            /* of the last step; -1: none */
    struct tml_recorder *_Atomic step_owner;            /* whose step is open */
    _Atomic uint64_t no_ring;                           /* spans of threads that found no free recorder */
    _Atomic uint32_t hook_cost_ns[TRACEML_PHASE_COUNT]; /* of the caller's own hook around one span */
};

extern struct tml_recording tml_recording;

/* The calling thread's recorder for the open session, claimed on first use; NULL when not admitting, or if there is no
 * free one. */
struct tml_recorder *tml_recorder_here(void);
/* The same to begin a span with: that there is no free one is counted. */
struct tml_recorder *tml_recorder_for_span(void);

traceml_span tml_recorder_begin_owner(struct tml_recorder *recorder, enum traceml_phase phase,
                                      struct traceml_stream stream);
/* A USER span; `name` is the number of its name. */
traceml_span tml_recorder_begin_named_owner(struct tml_recorder *recorder, unsigned name, struct traceml_stream stream);
traceml_span tml_recorder_begin_fetch_owner(struct tml_recorder *recorder, uint16_t loader, uint16_t pass,
                                            struct traceml_stream stream);
void tml_recorder_end_owner(struct tml_recorder *recorder, traceml_span span, unsigned flags);
void tml_recorder_cancel_owner(struct tml_recorder *recorder, traceml_span span);
traceml_span tml_recorder_step_begin_owner(struct tml_recorder *recorder, struct traceml_stream stream);

/* Ends what is open as aborted: the thread ends. */
void tml_recorder_abandon_owner(struct tml_recorder *recorder);
/* Gives the events of what is open back to the pool and makes no record: the session ends. The owner has stopped. */
void tml_recorder_forget_sampler(struct tml_recorder *recorder);

/* The recorder of a slot below TML_RECORDERS; NULL while it was never claimed. Any thread. */
struct tml_recorder *tml_recorder_at(unsigned index);

/* Lets recorders whose thread has ended be claimed again; after their rings were drained. Sampler. */
void tml_recorders_reuse_sampler(void);

/* Mean cost of half a span over all recorders, with or without events, in ns; 0 before the first sample. Any thread. */
uint32_t tml_recorders_cost_ns(bool events, enum tml_cost_half half);

/* Sum of a loss over all recorders. Any thread. */
uint64_t tml_recorders_loss(enum tml_loss loss);

/* Before a session admits: forgets counters and what is left in rings. Nothing may be recording. */
void tml_recorders_reset(void);

/* In a forked child: only the calling thread exists; the others' recorders are free, their CUDA events forgotten. */
void tml_recorders_forked_child(void);

#endif
