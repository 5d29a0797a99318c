#include "recorder.h"

#include <string.h>

#include "clock.h"

#define TOKEN_INDEX_BITS 6
#define TOKEN_SEQUENCE_MASK 0x1ffffffu

_Static_assert(1u << TOKEN_INDEX_BITS == TML_OPEN_SPANS, "a token holds the index of an open span");

/* Only the owner writes its counters, so load and store need not be one operation. Relaxed: statistics. */
static void add(_Atomic uint64_t *counter, uint64_t amount)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + amount, memory_order_relaxed);
}

static void add_cost(struct tml_recorder *recorder, bool events, enum tml_cost_half half, int64_t cost_ns)
{
    struct tml_own_cost *cost = &recorder->cost[events][half];
    uint64_t sample_ns = cost_ns > 0 ? (uint64_t)cost_ns : 1;
    if (cost->least_ns == 0 || sample_ns < cost->least_ns)
        cost->least_ns = sample_ns;
    if (sample_ns > TML_COST_OUTLIER * cost->least_ns)
        return;
    add(&cost->sum_ns, sample_ns);
    add(&cost->samples, 1);
}

static void lose(struct tml_recorder *recorder, enum tml_loss loss)
{
    add(&recorder->losses[loss], 1);
}

/* ---- Device brackets ---- */

static struct tml_event_pool *pool_of(struct tml_recorder *recorder, int device)
{
    /* Relaxed: the owner reads what it wrote itself. */
    struct tml_event_pool *pool = atomic_load_explicit(&recorder->pool[device], memory_order_relaxed);
    if (pool)
        return pool;
    pool = tml_event_pool_new(device, TML_EVENT_POOL_OTHER);
    /* Release, with the acquire of the sampler: it follows this pointer when it gives events back. */
    atomic_store_explicit(&recorder->pool[device], pool, memory_order_release);
    return pool;
}

static enum tml_reason failure_reason(struct tml_recorder *recorder, int error)
{
    if (error == TML_CUDA_CAPTURING) {
        lose(recorder, TML_LOSS_GRAPH_CAPTURE);
        return TML_REASON_GRAPH_CAPTURE;
    }
    lose(recorder, TML_LOSS_EVENT_FAILED);
    return error == TML_CUDA_OTHER_DEVICE ? TML_REASON_MULTI_DEVICE : TML_REASON_DEVICE_ERROR;
}

/* An event recorded on the stream, or NULL with the reason why not. */
static void *mark(struct tml_recorder *recorder, int device, void *stream, uint8_t *reason)
{
    struct tml_cuda *cuda = tml_recording.cuda;
    if (!tml_cuda_usable(cuda)) {
        /* Relaxed: only to name the reason. */
        *reason =
            atomic_load_explicit(&cuda->broken, memory_order_relaxed) ? TML_REASON_DEVICE_ERROR : TML_REASON_NO_CUDA;
        return NULL;
    }
    if (!tml_cuda_device_live(cuda, device)) {
        *reason = TML_REASON_NO_CONTEXT;
        return NULL;
    }
    struct tml_event_pool *pool = pool_of(recorder, device);
    void *event = pool ? tml_event_pool_take_owner(pool, cuda) : NULL;
    if (!event) {
        lose(recorder, TML_LOSS_POOL_EMPTY);
        *reason = TML_REASON_EVENTS_LOST;
        return NULL;
    }
    int error = tml_cuda_record(cuda, device, stream, event);
    if (error == 0)
        return event;
    tml_event_pool_untake_owner(pool, event);
    *reason = (uint8_t)failure_reason(recorder, error);
    return NULL;
}

static void unmark(struct tml_recorder *recorder, int device, void *event)
{
    if (event)
        tml_event_pool_untake_owner(pool_of(recorder, device), event);
}

/* ---- Spans ---- */

/* How many spans of one kind are open: spans of the user's own are as many kinds as they have names. */
static uint16_t *kind_depth(struct tml_recorder *recorder, unsigned phase, unsigned name)
{
    return phase == TRACEML_PHASE_USER ? &recorder->name_depth[name] : &recorder->phase_depth[phase];
}

static traceml_span open_span(struct tml_recorder *recorder, unsigned phase, unsigned name,
                              struct traceml_stream stream)
{
    if (recorder->depth == TML_OPEN_SPANS) {
        lose(recorder, TML_LOSS_STACK_FULL);
        return -1;
    }
    bool sampled = ++recorder->spans % TML_COST_SAMPLING == 0;
    int64_t entry_ns = sampled ? tml_now_ns() : 0;
    uint32_t index = recorder->depth++;
    struct tml_open_span *open = &recorder->open[index];
    recorder->sequence = (recorder->sequence + 1) & TOKEN_SEQUENCE_MASK;
    *open = (struct tml_open_span){
        .token = (traceml_span)(recorder->sequence << TOKEN_INDEX_BITS | index),
        .phase = (uint8_t)phase,
        .device = -1,
        .name = (uint8_t)name,
        .inner = (*kind_depth(recorder, phase, name))++ > 0,
        /* Relaxed: the step thread reads its own value; for others the one current at about this time is as good. */
        .iteration = atomic_load_explicit(&tml_recording.iteration, memory_order_relaxed),
    };
    if (!open->inner && stream.device >= 0) {
        open->device = (int16_t)stream.device;
        open->stream = stream.handle;
        open->begin_event = mark(recorder, stream.device, stream.handle, &open->no_device);
    } else if (!open->inner) {
        open->no_device = TML_REASON_NO_CUDA;
    }
    /* The event first, the clock last: our own work stands before the span, not in it. */
    open->begin_ns = tml_now_ns();
    if (sampled)
        add_cost(recorder, open->begin_event != NULL, TML_COST_BEGIN, open->begin_ns - entry_ns);
    return open->token;
}

static void push(struct tml_recorder *recorder, const struct tml_record *record)
{
    if (tml_ring_push_sp(&recorder->ring, record))
        return;
    unmark(recorder, record->device, record->begin_event);
    unmark(recorder, record->device, record->end_event);
}

/* Release, all three: whoever sees the new iteration finds the step's record pushed. Partner: the acquire of the
 * compare-exchange in step_begin and of tml_recorder_here(). */
static void finish_step(unsigned flags)
{
    atomic_fetch_add_explicit(&tml_recording.iteration, 1, memory_order_release);
    if (!(flags & TRACEML_SPAN_ABORTED)) {
        /* Relaxed: a count. */
        uint64_t completed = atomic_fetch_add_explicit(&tml_recording.completed, 1, memory_order_relaxed) + 1;
        if (completed == tml_recording.max_steps)
            atomic_store_explicit(&tml_recording.admitting, false, memory_order_release);
    }
    atomic_store_explicit(&tml_recording.step_owner, NULL, memory_order_release);
}

/* Closes the innermost open span. `whole`: it was ended by its own call, so that a device bracket can be closed too.
 * A step ends here whoever closes it: one that stayed owned would refuse every later one. */
static void close_top(struct tml_recorder *recorder, int64_t end_ns, unsigned flags, bool whole)
{
    struct tml_open_span *open = &recorder->open[--recorder->depth];
    (*kind_depth(recorder, open->phase, open->name))--;
    if (open->inner)
        return;
    struct tml_record record = {
        .begin_ns = open->begin_ns,
        .end_ns = end_ns,
        .begin_event = open->begin_event,
        .stream = open->stream,
        .iteration = open->iteration,
        .device = open->device,
        .phase = open->phase,
        .no_device = open->no_device,
        .flags = (uint16_t)flags,
        .tenant = recorder->tenant,
    };
    if (record.phase == TRACEML_PHASE_STEP)
        record.epoch = recorder->epoch;
    else if (record.phase == TRACEML_PHASE_USER)
        record.name = open->name;
    else if (record.phase == TRACEML_PHASE_DATALOADER_FETCH) {
        record.fetch.loader = open->loader;
        record.fetch.pass = open->pass;
        record.fetch.apart = open->apart;
    }
    if (record.begin_event && whole)
        record.end_event = mark(recorder, open->device, open->stream, &record.no_device);
    if (record.begin_event && !record.end_event) {
        unmark(recorder, open->device, record.begin_event);
        record.begin_event = NULL;
        record.no_device = record.no_device ? record.no_device : TML_REASON_EVENTS_LOST;
    }
    push(recorder, &record);
    if (record.phase == TRACEML_PHASE_STEP)
        finish_step(flags);
}

/* The index of the span if it is still open; -1 for a stale or empty token. */
static int index_of(const struct tml_recorder *recorder, traceml_span span)
{
    if (span < 0)
        return -1;
    uint32_t index = (uint32_t)span & (TML_OPEN_SPANS - 1);
    return index < recorder->depth && recorder->open[index].token == span ? (int)index : -1;
}

void tml_recorder_end_owner(struct tml_recorder *recorder, traceml_span span, unsigned flags)
{
    int64_t end_ns = tml_now_ns();
    int index = index_of(recorder, span);
    if (index < 0)
        return;
    /* What was left open inside: an exception passed by its end. */
    while (recorder->depth > (uint32_t)index + 1)
        close_top(recorder, end_ns, TRACEML_SPAN_ABORTED, false);
    bool sampled = recorder->spans % TML_COST_SAMPLING == 0;
    bool events = recorder->open[index].begin_event != NULL;
    close_top(recorder, end_ns, flags, true);
    if (sampled)
        add_cost(recorder, events, TML_COST_END, tml_now_ns() - end_ns);
}

traceml_span tml_recorder_begin_owner(struct tml_recorder *recorder, enum traceml_phase phase,
                                      struct traceml_stream stream)
{
    return open_span(recorder, phase, TML_SPAN_NAME_OTHER, stream);
}

traceml_span tml_recorder_begin_fetch_owner(struct tml_recorder *recorder, uint16_t loader, uint16_t pass,
                                            struct traceml_stream stream)
{
    traceml_span span = open_span(recorder, TRACEML_PHASE_DATALOADER_FETCH, TML_SPAN_NAME_OTHER, stream);
    if (span < 0)
        return span;
    struct tml_open_span *open = &recorder->open[recorder->depth - 1];
    open->loader = loader;
    open->pass = pass;
    open->apart =
        recorder->phase_depth[TRACEML_PHASE_EVALUATION] > 0 || recorder->phase_depth[TRACEML_PHASE_CHECKPOINT] > 0;
    return span;
}

traceml_span tml_recorder_begin_named_owner(struct tml_recorder *recorder, unsigned name, struct traceml_stream stream)
{
    return open_span(recorder, TRACEML_PHASE_USER, name, stream);
}

void tml_recorder_cancel_owner(struct tml_recorder *recorder, traceml_span span)
{
    int index = index_of(recorder, span);
    if (index < 0)
        return;
    int64_t now_ns = tml_now_ns();
    while (recorder->depth > (uint32_t)index + 1)
        close_top(recorder, now_ns, TRACEML_SPAN_ABORTED, false);
    struct tml_open_span *open = &recorder->open[--recorder->depth];
    (*kind_depth(recorder, open->phase, open->name))--;
    unmark(recorder, open->device, open->begin_event);
    if (open->phase == TRACEML_PHASE_STEP) /* Release: as at its end. */
        atomic_store_explicit(&tml_recording.step_owner, NULL, memory_order_release);
}

void tml_recorder_abandon_owner(struct tml_recorder *recorder)
{
    int64_t now_ns = recorder->depth ? tml_now_ns() : 0;
    while (recorder->depth)
        close_top(recorder, now_ns, TRACEML_SPAN_ABORTED, false);
}

void tml_recorder_forget_sampler(struct tml_recorder *recorder)
{
    while (recorder->depth) {
        struct tml_open_span *open = &recorder->open[--recorder->depth];
        unmark(recorder, open->device, open->begin_event);
    }
}

/* ---- Steps ---- */

traceml_span tml_recorder_step_begin_owner(struct tml_recorder *recorder, struct traceml_stream stream)
{
    struct tml_recorder *owner = NULL;
    /* Acquire/release pair on the word itself: two threads' steps must not be open at once. */
    if (!atomic_compare_exchange_strong_explicit(&tml_recording.step_owner, &owner, recorder, memory_order_acq_rel,
                                                 memory_order_relaxed)) {
        lose(recorder, owner == recorder ? TML_LOSS_NESTED_STEP : TML_LOSS_OTHER_THREAD_STEP);
        return -1;
    }
    if (stream.device >= 0 && stream.device < TML_CUDA_MAX_DEVICES) {
        struct tml_event_pool *pool = pool_of(recorder, stream.device);
        if (pool)
            pool->limit = TML_EVENT_POOL_MAX;
    }
    recorder->last_stream = stream;
    /* Relaxed: a fact on its own. */
    atomic_store_explicit(&tml_recording.step_device, stream.device, memory_order_relaxed);
    traceml_span span = open_span(recorder, TRACEML_PHASE_STEP, TML_SPAN_NAME_OTHER, stream);
    if (span < 0)
        atomic_store_explicit(&tml_recording.step_owner, NULL, memory_order_release);
    return span;
}
