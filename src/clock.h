/*
 * Purpose   the monotonic host clock, and the two clocks that a number can stand on.
 * Memory    none.
 * Threads   any.
 * Units     ns as int64: 292 years fit; TML_NS_NONE says "not measured" and is never part of arithmetic.
 * Depends   <time.h>.
 */
#ifndef TML_CLOCK_H
#define TML_CLOCK_H

#include <stdint.h>
#include <time.h>

#define TML_NS_NONE INT64_MIN
#define TML_NS_PER_MS INT64_C(1000000)
#define TML_NS_PER_S INT64_C(1000000000)

/* An analysis uses one of them. */
enum tml_clock { TML_CLOCK_CPU, TML_CLOCK_GPU, TML_CLOCKS };

static inline const char *tml_clock_key(enum tml_clock clock)
{
    return clock == TML_CLOCK_GPU ? "gpu" : "cpu";
}

/* CLOCK_MONOTONIC: a wall clock that is set back changes no duration. */
static inline int64_t tml_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * TML_NS_PER_S + now.tv_nsec;
}

/* Sums stay at the ends of int64: only a made-up file gets there. */
static inline int64_t tml_ns_add(int64_t a, int64_t b)
{
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return a < 0 ? INT64_MIN + 1 : INT64_MAX;
    return sum;
}

#endif
