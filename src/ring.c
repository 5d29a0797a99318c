#include "ring.h"

#include <stdlib.h>
#include <string.h>

bool tml_ring_open(struct tml_ring *ring, uint32_t capacity)
{
    memset(ring, 0, sizeof *ring);
    ring->slots = aligned_alloc(TML_CACHE_LINE, capacity * sizeof *ring->slots);
    ring->mask = capacity - 1;
    return ring->slots != NULL;
}

void tml_ring_close(struct tml_ring *ring)
{
    free(ring->slots);
    ring->slots = NULL;
}
