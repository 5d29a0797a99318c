/*
 * Purpose   bounded queue of records from one thread to one other: the only way out of a recording thread.
 * Memory    the ring owns its slots: capacity * 64 bytes, allocated in tml_ring_open().
 * Threads   _sp: the one producer. _sc: the one consumer. Neither ever waits for the other.
 * Units     counts of records.
 * Depends   record, <stdatomic.h>.
 */
#ifndef TML_RING_H
#define TML_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "record.h"

#define TML_CACHE_LINE 64

struct tml_ring {
    struct tml_record *slots;
    uint32_t mask; /* capacity - 1; the capacity is a power of two */

    /* The producer's line: what it writes, and its last view of the consumer's position. */
    _Alignas(TML_CACHE_LINE) _Atomic uint32_t head;
    uint32_t seen_tail;
    _Atomic uint64_t attempts; /* pushes tried */
    _Atomic uint64_t dropped;  /* of these, refused because the ring was full */

    /* The consumer's line. */
    _Alignas(TML_CACHE_LINE) _Atomic uint32_t tail;
    uint32_t seen_head;
};

/* `capacity` is a power of two. False when memory is out. Before any other call. */
bool tml_ring_open(struct tml_ring *ring, uint32_t capacity);
/* No other call may be in flight or follow. */
void tml_ring_close(struct tml_ring *ring);

/* Copies the record in. False, and counted, when the ring is full. */
static inline bool tml_ring_push_sp(struct tml_ring *ring, const struct tml_record *record)
{
    /* Relaxed: only this thread writes head. */
    uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    /* Relaxed: counters; the exact sum is read after the producer has stopped. */
    atomic_store_explicit(&ring->attempts, atomic_load_explicit(&ring->attempts, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    if (head - ring->seen_tail > ring->mask) {
        /* Acquire, with the release of tail in pop: without it we could overwrite a slot that is still being read. */
        ring->seen_tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
        if (head - ring->seen_tail > ring->mask) {
            atomic_store_explicit(&ring->dropped, atomic_load_explicit(&ring->dropped, memory_order_relaxed) + 1,
                                  memory_order_relaxed);
            return false;
        }
    }
    ring->slots[head & ring->mask] = *record;
    /* The consumer read the next slot on another core: let it come back before it is written (4 ns a span). */
    __builtin_prefetch(&ring->slots[(head + 1) & ring->mask], 1);
    /* Release, with the acquire of head in pop: without it the consumer could see the position before the record. */
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
    return true;
}

/* Copies the oldest record out and leaves it there. False when there is none. */
static inline bool tml_ring_peek_sc(struct tml_ring *ring, struct tml_record *record)
{
    /* Relaxed: only this thread writes tail. */
    uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    if (tail == ring->seen_head) {
        /* Acquire, with the release of head in push: makes the record readable. */
        ring->seen_head = atomic_load_explicit(&ring->head, memory_order_acquire);
        if (tail == ring->seen_head)
            return false;
    }
    *record = ring->slots[tail & ring->mask];
    return true;
}

/* Takes away the record that peek has shown. */
static inline void tml_ring_drop_sc(struct tml_ring *ring)
{
    /* Relaxed: only this thread writes tail. Release, with the acquire of tail in push: the slot may be written again
     * only after it was copied. */
    uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    atomic_store_explicit(&ring->tail, tail + 1, memory_order_release);
}

static inline bool tml_ring_pop_sc(struct tml_ring *ring, struct tml_record *record)
{
    if (!tml_ring_peek_sc(ring, record))
        return false;
    tml_ring_drop_sc(ring);
    return true;
}

#endif
