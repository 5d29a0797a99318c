/* Which thread has which recorder. They outlive their threads and the sessions, so no pointer to one ever dangles. */
#include <stdlib.h>
#include <string.h>
#include <threads.h>

#include "recorder.h"

enum state { STATE_OWNED = 1, STATE_RETIRED, STATE_FREE };

static struct tml_cuda cuda = {.driver_lookup = ATOMIC_FLAG_INIT};
struct tml_recording tml_recording = {.cuda = &cuda};

static struct {
    struct tml_recorder *_Atomic recorder;
    _Atomic int state;
} registry[TML_RECORDERS];

static _Thread_local struct tml_recorder *mine;
static tss_t at_thread_exit;
static once_flag once = ONCE_FLAG_INIT;

/* At the end of a thread. What it left open would keep its events, and a step all other threads from theirs. */
static void retire(void *argument)
{
    struct tml_recorder *recorder = argument;
    if (tml_recorder_here() == recorder)
        tml_recorder_abandon_owner(recorder);
    /* Whatever of this thread still records (another destructor) claims anew: this one may be another thread's by then. */
    mine = NULL;
    /* Release, with the acquire in reuse_sampler: the thread's last records are in the ring before it is drained. */
    atomic_store_explicit(&registry[recorder->index].state, STATE_RETIRED, memory_order_release);
}

static void create_key(void)
{
    tss_create(&at_thread_exit, retire);
}

static struct tml_recorder *new_recorder(unsigned index)
{
    struct tml_recorder *recorder = aligned_alloc(TML_CACHE_LINE, (sizeof *recorder + 63) / 64 * 64);
    if (!recorder)
        return NULL;
    memset(recorder, 0, sizeof *recorder);
    recorder->index = index;
    if (tml_ring_open(&recorder->ring, TML_RING_RECORDS))
        return recorder;
    free(recorder);
    return NULL;
}

/* Takes the first slot that is unused or free; the state word decides between threads. */
static struct tml_recorder *claim(void)
{
    for (unsigned i = 0; i < TML_RECORDERS; i++) {
        int state = atomic_load_explicit(&registry[i].state, memory_order_relaxed);
        /* Acquire, with the release in reuse_sampler: what the former owner left is visible. */
        if ((state != 0 && state != STATE_FREE) ||
            !atomic_compare_exchange_strong_explicit(&registry[i].state, &state, STATE_OWNED, memory_order_acquire,
                                                     memory_order_relaxed))
            continue;
        struct tml_recorder *recorder = atomic_load_explicit(&registry[i].recorder, memory_order_relaxed);
        if (!recorder)
            recorder = new_recorder(i);
        if (!recorder) {
            atomic_store_explicit(&registry[i].state, state, memory_order_relaxed);
            return NULL;
        }
        /* Release, with the acquire in tml_recorder_at(): the sampler must find the ring whole. */
        atomic_store_explicit(&registry[i].recorder, recorder, memory_order_release);
        return recorder;
    }
    return NULL;
}

/* Forgets what belongs to an earlier session or thread; events of that time are gone already. */
static void start_over(struct tml_recorder *recorder, uint64_t generation)
{
    recorder->depth = 0;
    memset(recorder->phase_depth, 0, sizeof recorder->phase_depth);
    memset(recorder->name_depth, 0, sizeof recorder->name_depth);
    recorder->epoch = -1;
    recorder->last_stream = TRACEML_NO_STREAM;
    recorder->generation = generation;
}

static struct tml_recorder *claim_here(void)
{
    call_once(&once, create_key);
    mine = claim();
    if (mine) {
        mine->tenant++;
        start_over(mine, 0);
        tss_set(at_thread_exit, mine);
    }
    return mine;
}

struct tml_recorder *tml_recorder_here(void)
{
    /* Acquire, with the release when a session opens: its settings are there before it admits. */
    if (!atomic_load_explicit(&tml_recording.admitting, memory_order_acquire))
        return NULL;
    struct tml_recorder *recorder = mine ? mine : claim_here();
    /* Relaxed: ordered by the acquire above. */
    uint64_t generation = atomic_load_explicit(&tml_recording.generation, memory_order_relaxed);
    if (recorder && recorder->generation != generation)
        start_over(recorder, generation);
    return recorder;
}

struct tml_recorder *tml_recorder_for_span(void)
{
    struct tml_recorder *recorder = tml_recorder_here();
    /* Relaxed, both: a counter, and a span that is begun while the session closes may count either way. */
    if (!recorder && atomic_load_explicit(&tml_recording.admitting, memory_order_relaxed))
        atomic_fetch_add_explicit(&tml_recording.no_ring, 1, memory_order_relaxed);
    return recorder;
}

struct tml_recorder *tml_recorder_at(unsigned index)
{
    /* Acquire, with the release in claim(). */
    return atomic_load_explicit(&registry[index].recorder, memory_order_acquire);
}

void tml_recorders_reuse_sampler(void)
{
    for (unsigned i = 0; i < TML_RECORDERS; i++) {
        struct tml_recorder *recorder = tml_recorder_at(i);
        /* Acquire, with the release in retire(): a ring that is empty now stays empty. */
        if (!recorder || atomic_load_explicit(&registry[i].state, memory_order_acquire) != STATE_RETIRED ||
            atomic_load_explicit(&recorder->ring.head, memory_order_acquire) !=
                atomic_load_explicit(&recorder->ring.tail, memory_order_relaxed))
            continue;
        /* Release, with the acquire in claim(). */
        atomic_store_explicit(&registry[i].state, STATE_FREE, memory_order_release);
    }
}

uint32_t tml_recorders_cost_ns(bool events, enum tml_cost_half half)
{
    uint64_t samples = 0, sum_ns = 0;
    for (unsigned slot = 0; slot < TML_RECORDERS; slot++) {
        struct tml_recorder *recorder = tml_recorder_at(slot);
        if (!recorder)
            continue;
        /* Relaxed: statistics; a sum that runs one sample ahead of its count changes nothing. */
        samples += atomic_load_explicit(&recorder->cost[events][half].samples, memory_order_relaxed);
        sum_ns += atomic_load_explicit(&recorder->cost[events][half].sum_ns, memory_order_relaxed);
    }
    return samples ? (uint32_t)(sum_ns / samples) : 0;
}

uint64_t tml_recorders_loss(enum tml_loss loss)
{
    uint64_t sum = loss == TML_LOSS_NO_RING ? atomic_load_explicit(&tml_recording.no_ring, memory_order_relaxed) : 0;
    struct tml_recorder *recorder;
    for (unsigned slot = 0; slot < TML_RECORDERS; slot++) {
        if (!(recorder = tml_recorder_at(slot)))
            continue;
        sum += atomic_load_explicit(&recorder->losses[loss], memory_order_relaxed);
        if (loss == TML_LOSS_RING_FULL)
            sum += atomic_load_explicit(&recorder->ring.dropped, memory_order_relaxed);
    }
    return sum;
}

/* Relaxed throughout: nothing records, and the release that admits the next session orders it. */
void tml_recorders_reset(void)
{
    struct tml_recorder *recorder;
    struct tml_record record;
    for (unsigned slot = 0; slot < TML_RECORDERS; slot++) {
        if (!(recorder = tml_recorder_at(slot)))
            continue;
        while (tml_ring_pop_sc(&recorder->ring, &record)) {
        }
        for (unsigned loss = 0; loss < TML_LOSS_COUNT; loss++)
            atomic_store_explicit(&recorder->losses[loss], 0, memory_order_relaxed);
        for (unsigned i = 0; i < 2 * TML_COST_HALVES; i++) {
            struct tml_own_cost *cost = &recorder->cost[i / TML_COST_HALVES][i % TML_COST_HALVES];
            atomic_store_explicit(&cost->samples, 0, memory_order_relaxed);
            atomic_store_explicit(&cost->sum_ns, 0, memory_order_relaxed);
            cost->least_ns = 0;
        }
        atomic_store_explicit(&recorder->ring.attempts, 0, memory_order_relaxed);
        atomic_store_explicit(&recorder->ring.dropped, 0, memory_order_relaxed);
    }
    atomic_store_explicit(&tml_recording.no_ring, 0, memory_order_relaxed);
    atomic_store_explicit(&tml_recording.step_owner, NULL, memory_order_relaxed);
    atomic_store_explicit(&tml_recording.iteration, 1, memory_order_relaxed);
    atomic_store_explicit(&tml_recording.completed, 0, memory_order_relaxed);
    atomic_store_explicit(&tml_recording.step_device, -1, memory_order_relaxed);
    for (unsigned phase = 0; phase < TRACEML_PHASE_COUNT; phase++)
        atomic_store_explicit(&tml_recording.hook_cost_ns[phase], 0, memory_order_relaxed);
}

void tml_recorders_forked_child(void)
{
    atomic_store_explicit(&tml_recording.admitting, false, memory_order_relaxed);
    for (int device = 0; device < TML_CUDA_MAX_DEVICES; device++)
        if (atomic_load_explicit(&cuda.live[device], memory_order_relaxed))
            /* CUDA does not survive a fork: no call in this process. */
            atomic_store_explicit(&cuda.broken, true, memory_order_relaxed);
    /* Perhaps another thread held it. */
    atomic_flag_clear_explicit(&cuda.driver_lookup, memory_order_relaxed);
    struct tml_recorder *recorder;
    for (unsigned slot = 0; slot < TML_RECORDERS; slot++) {
        if (!(recorder = tml_recorder_at(slot))) { /* perhaps a thread was just claiming it */
            atomic_store_explicit(&registry[slot].state, 0, memory_order_relaxed);
            continue;
        }
        for (int device = 0; device < TML_CUDA_MAX_DEVICES; device++) {
            tml_event_pool_free(atomic_load_explicit(&recorder->pool[device], memory_order_relaxed));
            atomic_store_explicit(&recorder->pool[device], NULL, memory_order_relaxed);
        }
        recorder->depth = 0; /* what is open holds an event that is the parent's */
        if (recorder != mine)
            atomic_store_explicit(&registry[slot].state, STATE_FREE, memory_order_relaxed);
    }
}
