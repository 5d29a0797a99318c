/*
 * Purpose   the tie between a device's clock and the host's: an event whose completion both have seen, renewed now and
 *           then, so that every later event of the device has a host time, with a stated error.
 * Memory    the tie owns one stream and two events on the device, given back by tml_clock_tie_close().
 * Threads   the sampler alone.
 * Units     ns of CLOCK_MONOTONIC.
 * Depends   cuda_runtime.
 */
#ifndef TML_CLOCK_TIE_H
#define TML_CLOCK_TIE_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda_runtime.h"

/* A tie counts only if its event was seen complete within this time of its record; a host time that may be further off
 * is none. */
#define TML_CLOCK_TIE_LIMIT_NS INT64_C(50000)

/* Renewed so often while there are steps, and tried again so soon after a refusal. */
#define TML_CLOCK_TIE_PERIOD_NS TML_NS_PER_S
#define TML_CLOCK_TIE_RETRY_NS (20 * TML_NS_PER_MS)

/* The least drift that is reckoned with, host against device: 1.6 us a second was measured, and the float of
 * cudaEventElapsedTime adds 0.06. */
#define TML_CLOCK_TIE_DRIFT 2e-6

struct tml_clock_tie {
    void *stream; /* ours, non-blocking; NULL until the first attempt */
    void *event;  /* of the tie that holds; NULL: none yet */
    void *spare;  /* for the next attempt */
    int device;
    bool late;        /* the spare was recorded and not seen complete in time */
    int64_t host_ns;  /* the middle of the interval in which `event` completed */
    int64_t error_ns; /* that interval */
    double drift;     /* as the last two ties saw it, their errors included, and never below the least */
    int64_t tried_ns; /* TML_NS_NONE: never */
    bool refused_last;
    uint64_t made, refused;
};

/* No calls yet. */
void tml_clock_tie_init(struct tml_clock_tie *tie);

/* Makes a new tie for `device`, which must be live, if one is due: records an event on the private stream and asks for
 * at most TML_CLOCK_TIE_LIMIT_NS whether it has completed. Never waits longer: an event that is late is looked at the
 * next time. Ties one device, the first. */
void tml_clock_tie_renew(struct tml_clock_tie *tie, struct tml_cuda *cuda, int device, int64_t now_ns);

/* The host time at which `event` of `device`, which has completed, did so; *error_ns is how far off it may be.
 * TML_NS_NONE without a tie, for another device, and when the error would pass the limit. */
int64_t tml_clock_tie_host_ns(const struct tml_clock_tie *tie, struct tml_cuda *cuda, int device, void *event,
                              int64_t *error_ns);

/* Destroys stream and events (not after a sticky error: then they are forgotten). */
void tml_clock_tie_close(struct tml_clock_tie *tie, struct tml_cuda *cuda);

#endif
