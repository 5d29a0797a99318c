/*
 * Purpose   the first of the four shapes: one ended span, as it travels from a recording thread to the sampler.
 * Memory    plain data of one cache line; the two events belong to the recording thread's pool and travel with it.
 * Threads   written by one thread, read by the sampler after the ring handed it over.
 * Units     ns of CLOCK_MONOTONIC.
 * Depends   traceml.h.
 */
#ifndef TML_RECORD_H
#define TML_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "traceml/traceml.h"

struct tml_record {
    int64_t begin_ns;
    int64_t end_ns;
    void *begin_event; /* cudaEvent_t; NULL, both, when the span has no device bracket */
    void *end_event;
    void *stream;       /* that both were recorded on */
    uint64_t iteration; /* current when the span began, from 1 */
    union {
        int64_t epoch; /* of a STEP record: the epoch it belongs to, -1 unknown */
        struct {
            uint16_t loader, pass; /* of a DATALOADER_FETCH record: as traceml_begin_fetch() was given them */
            bool apart;            /* inside an evaluation or a checkpoint */
        } fetch;
        uint64_t name; /* of a USER record: the number of its name */
    };
    int16_t device;    /* -1: none */
    uint8_t phase;     /* enum traceml_phase */
    uint8_t no_device; /* enum tml_reason: why there are no events; 0 when there are */
    uint16_t flags;    /* enum traceml_span_flag */
    uint16_t tenant;   /* which of the threads that have had this recorder */
};

_Static_assert(sizeof(struct tml_record) == 64, "a record is one cache line");

#endif
