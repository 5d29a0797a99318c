#include "sampler.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* Rows closed in one tick; more wait for the next, which then comes at once. */
#define ROWS_A_TICK 128u

struct tml_sampler {
    struct tml_sampler_options options;
    struct tml_sampler_sink sink;
    pthread_t thread;
    pthread_mutex_t lock;                /* held during a tick; the fork handler takes it */
    pthread_cond_t wake;                 /* to the sampler: a request; from it: one is served */
    uint64_t flush_wanted, flush_served; /* under the lock */
    uint64_t flush_ticked;               /* a tick began after this request: what was pushed before it is drained */
    int64_t flush_deadline_ns;
    bool stop;

    /* The sampler's own. */
    struct tml_step_table table;
    struct tml_step_row rows[ROWS_A_TICK];
    unsigned row_count;
    bool blocked;    /* a ring holds records of iterations for which there is no row yet */
    bool prepared;   /* for CUDA: device and capture mode are set */
    bool wants_cuda; /* a span asked for a device and no runtime was known */
    int tie_device;  /* of a step that has come since the last attempt at a clock tie; -1: none */
};

/* ---- One tick ---- */

static bool close_one(struct tml_sampler *sampler, int64_t now_ns, bool give_up)
{
    if (sampler->row_count == ROWS_A_TICK ||
        !tml_step_table_next(&sampler->table, now_ns, give_up, &sampler->rows[sampler->row_count]))
        return false;
    sampler->row_count++;
    return true;
}

static void prepare(struct tml_sampler *sampler, int device)
{
    if (!sampler->prepared)
        tml_cuda_prepare_sampler(tml_recording.cuda, device);
    sampler->prepared = true;
}

static void look_at_device(struct tml_sampler *sampler, const struct tml_record *record)
{
    if (record->begin_event)
        prepare(sampler, record->device);
    if (record->begin_event && record->phase == TRACEML_PHASE_STEP)
        sampler->tie_device = record->device;
    sampler->wants_cuda = sampler->wants_cuda || (record->device >= 0 && record->no_device == TML_REASON_NO_CUDA);
}

/* Takes what is there; leaves the rest in the ring when it is of iterations too far ahead. */
static void drain(struct tml_sampler *sampler, unsigned index)
{
    struct tml_recorder *recorder = tml_recorder_at(index);
    struct tml_record record;
    while (recorder && tml_ring_peek_sc(&recorder->ring, &record)) {
        if (!tml_step_table_fits(&sampler->table, &record)) {
            sampler->blocked = true;
            return;
        }
        look_at_device(sampler, &record);
        tml_ring_drop_sc(&recorder->ring);
        tml_step_table_add(&sampler->table, index, &record);
    }
}

static void drain_all(struct tml_sampler *sampler)
{
    sampler->blocked = false;
    for (unsigned i = 0; i < TML_RECORDERS; i++)
        drain(sampler, i);
}

/* All rings have given what fits and no row can be closed as it should: the oldest is closed as it is, or given up. */
static void push_out_oldest(struct tml_sampler *sampler, int64_t now_ns)
{
    if (!close_one(sampler, now_ns, true))
        tml_step_table_skip(&sampler->table);
}

/* Only while there are steps: what is idle is left alone. */
static void renew_tie(struct tml_sampler *sampler, int64_t now_ns)
{
    if (sampler->tie_device >= 0)
        tml_clock_tie_renew(&sampler->table.tie, tml_recording.cuda, sampler->tie_device, now_ns);
    sampler->tie_device = -1;
}

static void tick(struct tml_sampler *sampler, bool give_up)
{
    int64_t now_ns = tml_now_ns();
    sampler->row_count = 0;
    sampler->flush_ticked = sampler->flush_wanted;
    drain_all(sampler);
    tml_step_table_mark_drained(&sampler->table);
    drain_all(sampler);
    tml_recorders_reuse_sampler();
    renew_tie(sampler, now_ns);
    tml_step_table_poll(&sampler->table);
    while (close_one(sampler, now_ns, give_up)) {
    }
    if (sampler->blocked && sampler->row_count == 0)
        push_out_oldest(sampler, now_ns);
}

/* ---- The thread ---- */

/* Lock held. Twice the period while nothing is pending on a device: rings are large enough. Not beyond what a flush may
 * wait, and not at all when one was asked for since the tick began: its signal found nobody waiting. */
static void sleep_a_tick(struct tml_sampler *sampler)
{
    int64_t period_ns = sampler->options.tick_ms * TML_NS_PER_MS;
    int64_t until_ns = tml_now_ns() + period_ns * (tml_step_table_pending(&sampler->table) ? 1 : 2);
    if (sampler->stop || sampler->flush_wanted != sampler->flush_ticked)
        return;
    if (sampler->flush_served != sampler->flush_wanted && sampler->flush_deadline_ns < until_ns)
        until_ns = sampler->flush_deadline_ns;
    struct timespec until = {.tv_sec = until_ns / TML_NS_PER_S, .tv_nsec = until_ns % TML_NS_PER_S};
    pthread_cond_timedwait(&sampler->wake, &sampler->lock, &until);
}

/* Lock held on entry and exit, not while the sink writes. */
static void tick_and_hand_over(struct tml_sampler *sampler, bool give_up)
{
    do {
        tick(sampler, give_up);
        pthread_mutex_unlock(&sampler->lock);
        for (unsigned i = 0; i < sampler->row_count; i++)
            sampler->sink.row(sampler->sink.context, &sampler->rows[i]);
        if (sampler->wants_cuda)
            tml_cuda_find(tml_recording.cuda);
        sampler->wants_cuda = false;
        pthread_mutex_lock(&sampler->lock);
    } while (sampler->row_count == ROWS_A_TICK || sampler->blocked);
}

/* Lock held. A request is served once nothing is pending, or its time is over. */
static void serve_flush(struct tml_sampler *sampler)
{
    bool waiting = tml_step_table_pending(&sampler->table) && tml_now_ns() < sampler->flush_deadline_ns;
    if (sampler->flush_served == sampler->flush_ticked || waiting)
        return;
    uint64_t wanted = sampler->flush_ticked;
    pthread_mutex_unlock(&sampler->lock);
    sampler->sink.flush(sampler->sink.context);
    pthread_mutex_lock(&sampler->lock);
    sampler->flush_served = wanted;
    pthread_cond_broadcast(&sampler->wake);
}

static void empty_pool(struct tml_sampler *sampler, struct tml_event_pool *pool)
{
    if (pool->created)
        prepare(sampler, pool->device); /* no record with events may have come: to destroy one can make a context too */
    tml_event_pool_empty_sampler(pool, tml_recording.cuda);
}

static void finish(struct tml_sampler *sampler)
{
    /* Twice: a step whose end came in a tick's second drain is whole after the next. */
    tick_and_hand_over(sampler, true);
    tick_and_hand_over(sampler, true);
    tml_step_table_abandon(&sampler->table);
    tml_clock_tie_close(&sampler->table.tie, tml_recording.cuda);
    for (unsigned i = 0; i < TML_RECORDERS; i++) {
        struct tml_recorder *recorder = tml_recorder_at(i);
        if (recorder)
            tml_recorder_forget_sampler(recorder);
        for (int device = 0; recorder && device < TML_CUDA_MAX_DEVICES; device++) {
            /* Acquire, with the release in the recorder's pool_of(). */
            struct tml_event_pool *pool = atomic_load_explicit(&recorder->pool[device], memory_order_acquire);
            if (pool)
                empty_pool(sampler, pool);
        }
    }
}

static void *run(void *argument)
{
    struct tml_sampler *sampler = argument;
    pthread_mutex_lock(&sampler->lock);
    while (!sampler->stop) {
        tick_and_hand_over(sampler, false);
        serve_flush(sampler);
        pthread_mutex_unlock(&sampler->lock);
        sampler->sink.idle(sampler->sink.context, tml_now_ns());
        pthread_mutex_lock(&sampler->lock);
        sleep_a_tick(sampler);
    }
    finish(sampler);
    pthread_mutex_unlock(&sampler->lock);
    sampler->sink.stopped(sampler->sink.context);
    return NULL;
}

/* ---- From other threads ---- */

static bool create_thread(struct tml_sampler *sampler)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&sampler->thread, NULL, run, sampler);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0)
        pthread_setname_np(sampler->thread, "traceml");
    return error == 0;
}

struct tml_sampler *tml_sampler_start(const struct tml_sampler_options *options, const struct tml_sampler_sink *sink)
{
    struct tml_sampler *sampler = calloc(1, sizeof *sampler);
    if (!sampler)
        return NULL;
    sampler->options = *options;
    sampler->sink = *sink;
    sampler->tie_device = -1;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&sampler->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&sampler->lock, NULL);
    if (tml_step_table_open(&sampler->table, options->event_deadline_ms * TML_NS_PER_MS)) {
        if (create_thread(sampler))
            return sampler;
        tml_step_table_close(&sampler->table);
    }
    free(sampler);
    return NULL;
}

void tml_sampler_flush(struct tml_sampler *sampler, unsigned timeout_ms)
{
    pthread_mutex_lock(&sampler->lock);
    int64_t deadline_ns = tml_now_ns() + timeout_ms * TML_NS_PER_MS;
    /* Requests are served together: nobody waits longer than he asked for because of another. */
    if (sampler->flush_served == sampler->flush_wanted || deadline_ns < sampler->flush_deadline_ns)
        sampler->flush_deadline_ns = deadline_ns;
    uint64_t mine = ++sampler->flush_wanted;
    pthread_cond_broadcast(&sampler->wake);
    while (sampler->flush_served < mine)
        pthread_cond_wait(&sampler->wake, &sampler->lock);
    pthread_mutex_unlock(&sampler->lock);
}

void tml_sampler_stop(struct tml_sampler *sampler, unsigned timeout_ms)
{
    tml_sampler_flush(sampler, timeout_ms);
    pthread_mutex_lock(&sampler->lock);
    sampler->stop = true;
    pthread_cond_broadcast(&sampler->wake);
    pthread_mutex_unlock(&sampler->lock);
    pthread_join(sampler->thread, NULL);
    tml_step_table_close(&sampler->table);
    pthread_cond_destroy(&sampler->wake);
    pthread_mutex_destroy(&sampler->lock);
    free(sampler);
}

void tml_sampler_read_stats(const struct tml_sampler *sampler, struct tml_sampler_stats *stats)
{
    struct timespec cpu;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
    stats->thread_cpu_ns = (int64_t)cpu.tv_sec * TML_NS_PER_S + cpu.tv_nsec;
    for (unsigned loss = 0; loss < TML_LOSS_COUNT; loss++)
        stats->losses[loss] = tml_recorders_loss(loss) + sampler->table.losses[loss];
    stats->ties = sampler->table.tie.made;
    stats->ties_refused = sampler->table.tie.refused;
    /* Relaxed: a fact on its own. */
    stats->losses[TML_LOSS_DEVICE_ERROR] += atomic_load_explicit(&tml_recording.cuda->broken, memory_order_relaxed);
}

void tml_sampler_before_fork(struct tml_sampler *sampler)
{
    pthread_mutex_lock(&sampler->lock);
}

void tml_sampler_after_fork(struct tml_sampler *sampler)
{
    pthread_mutex_unlock(&sampler->lock);
}
