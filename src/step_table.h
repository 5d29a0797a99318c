/*
 * Purpose   iterations in flight: gathers their records, waits for their events, closes them in order into step rows.
 * Memory    fixed at open: TML_TABLE_ROWS rows, TML_TABLE_SPANS spans, TML_TABLE_STUCK events; 2.2 MiB.
 * Threads   the sampler alone.
 * Units     ns: host times of CLOCK_MONOTONIC, device times since the step's own begin event.
 * Depends   recorder (to give events back), clock_tie, ledger, feeder, step_row.
 */
#ifndef TML_STEP_TABLE_H
#define TML_STEP_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "clock_tie.h"
#include "feeder.h"
#include "ledger.h"
#include "recorder.h"
#include "step_row.h"

#define TML_TABLE_ROWS 1024u
#define TML_TABLE_SPANS 16384u
#define TML_TABLE_STUCK 8192u
#define TML_TABLE_NONE UINT32_MAX

/* Device time of one event record where the device has work queued, measured: docs/overhead.md. Where it waits for the
 * host, the host's time for the record is what it costs the device. */
#define TML_DEVICE_RECORD_NS 1300u

struct tml_table_span {
    struct tml_record record;
    int64_t begin_device_ns, end_device_ns; /* TML_NS_NONE until resolved */
    uint32_t next;
    uint8_t recorder; /* index: who has the pool that the events go back to */
    bool apart;       /* a fetch that is no step's: its time is pre_step_other, or of the evaluation around it */
};

struct tml_table_row {
    uint32_t first, last, step; /* span indices; `step` is TML_TABLE_NONE until the step has ended */
    bool drained;               /* every ring was drained once since the step's end */
};

struct tml_table_event {
    void *event;
    int16_t device;
    uint8_t recorder;
};

struct tml_step_table {
    struct tml_table_span *spans;
    uint32_t free_span, free_spans; /* first of the free list, and its length */
    struct tml_table_row *rows;     /* of iteration i: [i % TML_TABLE_ROWS] */
    uint64_t oldest, newest;        /* iterations: first not closed, last seen */
    uint64_t next_step;             /* number of the next completed step */
    int64_t origin_ns;              /* begin of the first step */
    int64_t deadline_ns;            /* how long an event may stay pending after its step's end */

    /* The previous step's end: where the next iteration begins. */
    int64_t previous_end_ns;
    struct tml_table_span previous;      /* its span, without events; phase STEP */
    struct tml_table_event previous_end; /* its end event, kept until the next row closes */
    uint64_t done_iteration;             /* the newest step whose end event is known to have completed */
    struct tml_table_span done;          /* its span, for its stream */
    int64_t previous_end_lead_ns;        /* the device lead at the previous step's end */
    struct tml_clock_tie tie;            /* the sampler renews it */
    int64_t begin_host_ns;               /* of the step that is being closed: host time of its begin event */
    struct tml_feeders feeders;
    struct tml_ledger_span *members; /* scratch for a ledger */
    struct tml_table_event *stuck;   /* timed out, given back once complete: ring */
    uint32_t stuck_head, stuck_tail;
    uint64_t losses[TML_LOSS_COUNT];      /* LATE, ROW_FULL, TIMED_OUT, STEP_LOST, NEGATIVE_REMAINDER */
    uint64_t losses_seen;                 /* records lost on the way here, as of the last tick */
    uint64_t lossy_until;                 /* iterations up to this may lack some of them: their rows are partial */
    uint32_t cost_ns[2][TML_COST_HALVES]; /* of one span: [without, with events] */
};

bool tml_step_table_open(struct tml_step_table *table, int64_t deadline_ns);
void tml_step_table_close(struct tml_step_table *table);

/* False: the record's iteration is so far ahead that older ones must be closed or skipped first. */
bool tml_step_table_fits(const struct tml_step_table *table, const struct tml_record *record);

/* Takes over one record, which must fit, of recorder `recorder`. Never waits: a span too many is lost and counted. */
void tml_step_table_add(struct tml_step_table *table, unsigned recorder, const struct tml_record *record);

/* Between two drains of all rings: steps that have ended by now are whole after the second. */
void tml_step_table_mark_drained(struct tml_step_table *table);

/* Once a tick, before rows are closed: asks the newest step first, gives stuck events back, refreshes own cost. */
void tml_step_table_poll(struct tml_step_table *table);

/* Closes the oldest iteration if it is whole and its events have completed or timed out (`give_up`: do not wait for
 * them). False when there is none. */
bool tml_step_table_next(struct tml_step_table *table, int64_t now_ns, bool give_up, struct tml_step_row *row);

/* Gives the oldest iteration up: its step's record was lost. */
void tml_step_table_skip(struct tml_step_table *table);

/* Gives up all that is here, for the end: every event goes back to its pool, completed or not, to be destroyed there. */
void tml_step_table_abandon(struct tml_step_table *table);

/* Steps that have ended and are not closed. */
uint64_t tml_step_table_pending(const struct tml_step_table *table);

/* ---- Shared by the files of the table ---- */

/* cudaStreamPerThread: one handle, another stream for every thread. */
#define TML_PER_THREAD_STREAM 2

static inline bool tml_table_span_same_thread(const struct tml_table_span *a, const struct tml_table_span *b)
{
    return a->recorder == b->recorder && a->record.tenant == b->record.tenant;
}

static inline bool tml_table_span_same_stream(const struct tml_table_span *a, const struct tml_table_span *b)
{
    return a->record.device == b->record.device && a->record.stream == b->record.stream &&
           ((uintptr_t)a->record.stream != TML_PER_THREAD_STREAM || tml_table_span_same_thread(a, b));
}

/* Of the step's thread, with work on another stream. */
static inline bool tml_table_span_beside(const struct tml_table_span *step, const struct tml_table_span *span)
{
    return step->record.device >= 0 && span->record.device >= 0 && tml_table_span_same_thread(step, span) &&
           !tml_table_span_same_stream(step, span);
}

static inline enum tml_region tml_table_span_region(const struct tml_table_span *step,
                                                    const struct tml_table_span *span)
{
    return span->record.begin_ns >= step->record.begin_ns ? TML_REGION_IN : TML_REGION_PRE;
}

static inline bool tml_table_span_resolved(const struct tml_table_span *span)
{
    return span->begin_device_ns != TML_NS_NONE && span->end_device_ns != TML_NS_NONE;
}

/* Finds the host time of the step's begin event, and fills the row's device leads. */
void tml_step_table_fill_lead(struct tml_step_table *table, const struct tml_table_row *row, struct tml_step_row *out);
/* Where the device line stands against the host's, at one end of a span that has device times; TML_NS_NONE: not known. */
int64_t tml_step_table_lead_ns(const struct tml_step_table *table, const struct tml_table_span *span,
                               enum tml_cost_half half);
/* Fills what the row says of spans on other streams. `begin_ns`: where the iteration begins; TML_NS_NONE: not known. */
void tml_step_table_fill_beside(struct tml_step_table *table, const struct tml_table_row *row, int64_t begin_ns,
                                struct tml_step_row *out);
void tml_step_table_give_back(const struct tml_table_event *event);
bool tml_step_table_try_resolve(struct tml_step_table *table, struct tml_table_row *row, bool give_up);
void tml_step_table_fill(struct tml_step_table *table, struct tml_table_row *row, struct tml_step_row *out);
void tml_step_table_release(struct tml_step_table *table, struct tml_table_row *row);

#endif
