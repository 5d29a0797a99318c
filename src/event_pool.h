/*
 * Purpose   the timing events of one recording thread on one device: taken, carried by a record, given back.
 * Memory    the pool owns its events (at most `limit`) and two arrays of TML_EVENT_POOL_MAX pointers.
 * Threads   _owner: the recording thread. _sampler: the sampler. They share only the return ring.
 * Units     counts of events.
 * Depends   cuda_runtime.
 */
#ifndef TML_EVENT_POOL_H
#define TML_EVENT_POOL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cuda_runtime.h"

#define TML_EVENT_POOL_MAX 4096u /* of a thread that runs steps */
#define TML_EVENT_POOL_OTHER 64u /* of any other */

struct tml_event_pool {
    void **free; /* stack of events that this thread may use */
    uint32_t free_count;
    uint32_t created;
    uint32_t limit;
    int device;

    void **returned; /* SPSC ring, sampler to owner; as large as all events together, so it is never full */
    _Alignas(64) _Atomic uint32_t returned_head; /* the sampler's */
    _Alignas(64) _Atomic uint32_t returned_tail; /* the owner's */
};

/* NULL when memory is out. Nothing is created on the device yet. */
struct tml_event_pool *tml_event_pool_new(int device, uint32_t limit);

/* A free event; makes one while fewer than `limit` exist, so the first steps of a thread fill the pool. NULL: none. */
void *tml_event_pool_take_owner(struct tml_event_pool *pool, struct tml_cuda *cuda);
/* An event that was taken and whose record never left this thread. */
void tml_event_pool_untake_owner(struct tml_event_pool *pool, void *event);

/* An event that has completed. */
void tml_event_pool_return_sampler(struct tml_event_pool *pool, void *event);

/* Destroys the events that are here (not after a sticky error: then they are forgotten) and empties the pool. The owner
 * must have stopped; never on a user's thread, since destroying may wait in the driver. */
void tml_event_pool_empty_sampler(struct tml_event_pool *pool, struct tml_cuda *cuda);

void tml_event_pool_free(struct tml_event_pool *pool);

#endif
