#include "event_pool.h"

#include <stdlib.h>

struct tml_event_pool *tml_event_pool_new(int device, uint32_t limit)
{
    struct tml_event_pool *pool = aligned_alloc(64, (sizeof *pool + 63) / 64 * 64);
    if (!pool)
        return NULL;
    *pool = (struct tml_event_pool){.device = device, .limit = limit};
    pool->free = calloc(TML_EVENT_POOL_MAX, sizeof *pool->free);
    pool->returned = calloc(TML_EVENT_POOL_MAX, sizeof *pool->returned);
    if (pool->free && pool->returned)
        return pool;
    tml_event_pool_free(pool);
    return NULL;
}

static void collect_returned(struct tml_event_pool *pool)
{
    /* Relaxed: only the owner writes the tail. */
    uint32_t tail = atomic_load_explicit(&pool->returned_tail, memory_order_relaxed);
    /* Acquire, with the release in return_sampler: the slot is read only after it was written. */
    uint32_t head = atomic_load_explicit(&pool->returned_head, memory_order_acquire);
    while (tail != head)
        pool->free[pool->free_count++] = pool->returned[tail++ % TML_EVENT_POOL_MAX];
    /* Relaxed: the sampler never reads it, since the ring holds all events at once; emptying needs both stopped. */
    atomic_store_explicit(&pool->returned_tail, tail, memory_order_relaxed);
}

void *tml_event_pool_take_owner(struct tml_event_pool *pool, struct tml_cuda *cuda)
{
    if (pool->free_count == 0)
        collect_returned(pool);
    if (pool->free_count)
        return pool->free[--pool->free_count];
    if (pool->created >= pool->limit)
        return NULL;
    void *event = tml_cuda_event_create(cuda, pool->device);
    pool->created += event != NULL;
    return event;
}

void tml_event_pool_untake_owner(struct tml_event_pool *pool, void *event)
{
    pool->free[pool->free_count++] = event;
}

void tml_event_pool_return_sampler(struct tml_event_pool *pool, void *event)
{
    /* Relaxed: only the sampler writes the head. */
    uint32_t head = atomic_load_explicit(&pool->returned_head, memory_order_relaxed);
    pool->returned[head % TML_EVENT_POOL_MAX] = event;
    /* Release, with the acquire in collect_returned(): the event before its position. */
    atomic_store_explicit(&pool->returned_head, head + 1, memory_order_release);
}

void tml_event_pool_empty_sampler(struct tml_event_pool *pool, struct tml_cuda *cuda)
{
    collect_returned(pool);
    for (uint32_t i = 0; i < pool->free_count && tml_cuda_usable(cuda); i++)
        if (cuda->cudaEventDestroy(pool->free[i]) != 0)
            cuda->cudaGetLastError();
    pool->free_count = pool->created = 0;
}

void tml_event_pool_free(struct tml_event_pool *pool)
{
    if (!pool)
        return;
    free(pool->free);
    free(pool->returned);
    free(pool);
}
