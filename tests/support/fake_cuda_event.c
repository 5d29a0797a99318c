/* Events: each one remembers when its stream will have done what it held at the record. */
#include "fake_cuda_state.h"

#define FLAG_DISABLE_TIMING 2u
#define KNOWN_FLAGS 7u

static struct fcuda_event events[FCUDA_MAX_EVENTS];
static size_t slots_used;
static size_t live_events, peak_events;
static unsigned records_to_hang;

/* The slots of destroyed events, taken before a new one: a search would make a pool of thousands slow. */
static unsigned free_slots[FCUDA_MAX_EVENTS];
static size_t free_count;

int fcuda_event_find(const void *handle, struct fcuda_event **event)
{
    size_t slot = fcuda_handle_slot(handle);

    *event = &events[slot];
    if (!handle)
        return FCUDA_INVALID_HANDLE;
    if (!(*event)->live || fcuda_handle(FCUDA_EVENT_HANDLE, (*event)->generation, slot) != handle) {
        fcuda_log_misuse();
        return FCUDA_INVALID_HANDLE;
    }
    return fcuda.devices[(*event)->device].sticky_error;
}

int fcuda_event_create(struct fcuda_thread *thread, cudaEvent_t *handle, unsigned flags)
{
    if (!handle || flags & ~KNOWN_FLAGS)
        return FCUDA_INVALID_VALUE;
    if (!free_count && slots_used == FCUDA_MAX_EVENTS)
        return FCUDA_OUT_OF_MEMORY;
    size_t slot = free_count ? free_slots[--free_count] : slots_used++;
    events[slot] = (struct fcuda_event){.live = true,
                                        .generation = events[slot].generation + 1,
                                        .timed = !(flags & FLAG_DISABLE_TIMING),
                                        .device = thread->device};
    *handle = fcuda_handle(FCUDA_EVENT_HANDLE, events[slot].generation, slot);
    if (++live_events > peak_events)
        peak_events = live_events;
    return FCUDA_OK;
}

int fcuda_event_destroy(cudaEvent_t handle)
{
    struct fcuda_event *event;
    int error = fcuda_event_find(handle, &event);

    if (error)
        return error;
    event->live = false;
    free_slots[free_count++] = (unsigned)(event - events);
    live_events--;
    return FCUDA_OK;
}

/* A new record replaces the old one with all that hung on it. */
static void note_record(struct fcuda_event *event, struct fcuda_stream *stream, int64_t takes_ns)
{
    event->recorded = true;
    event->capture = stream->capture;
    event->capture_serial = stream->capture ? stream->capture->serial : 0;
    event->hung = false;
    event->blocked_on = NULL;
    if (stream->capture)
        return;
    event->done_ns = fcuda_stream_queue(stream, 0);
    event->blocked_on = stream->blocked ? stream : NULL;
    fcuda_stream_queue(stream, takes_ns);
    if (records_to_hang > 0) {
        records_to_hang--;
        event->hung = true;
    }
}

int fcuda_event_record(struct fcuda_call *call, cudaEvent_t handle, cudaStream_t stream_handle)
{
    struct fcuda_event *event;
    struct fcuda_stream *stream;
    int error = fcuda_event_find(handle, &event);

    if (!error)
        error = fcuda_stream_find(call->thread, call->thread->device, stream_handle, &stream);
    if (!error && event->device != stream->device)
        error = FCUDA_INVALID_HANDLE;
    if (!error)
        error = fcuda_capture_implicit(stream, true);
    if (!error && stream->capture && stream->capture->broken)
        error = FCUDA_CAPTURE_INVALIDATED;
    if (!error)
        note_record(event, stream, fcuda_call_takes_ns(call->function));
    return error;
}

bool fcuda_event_pending(const struct fcuda_event *event)
{
    if (!event->recorded)
        return false;
    return event->hung || event->blocked_on || event->done_ns > fcuda_clock_now();
}

/* An event of a capture cannot be asked: it never ran. While the capture lasts, asking breaks it in every mode. */
static int refuse_captured(const struct fcuda_event *event, bool harm)
{
    if (!event->capture)
        return FCUDA_OK;
    if (!fcuda_capture_current(event->capture, event->capture_serial))
        return FCUDA_INVALID_VALUE;
    if (harm)
        event->capture->broken = true;
    return FCUDA_CAPTURED_EVENT;
}

static int find_to_ask(struct fcuda_thread *thread, cudaEvent_t handle, struct fcuda_event **event)
{
    int error = fcuda_event_find(handle, event);

    if (!error)
        error = refuse_captured(*event, true);
    if (!error)
        error = fcuda_capture_refuse(thread);
    return error;
}

int fcuda_event_query(struct fcuda_thread *thread, cudaEvent_t handle)
{
    struct fcuda_event *event;
    int error = find_to_ask(thread, handle, &event);

    if (error)
        return error;
    return fcuda_event_pending(event) ? FCUDA_NOT_READY : FCUDA_OK;
}

int fcuda_event_synchronize(struct fcuda_thread *thread, cudaEvent_t handle)
{
    struct fcuda_event *event;
    int error = find_to_ask(thread, handle, &event);

    if (error || !fcuda_event_pending(event))
        return error;
    return fcuda_clock_wait(event->hung || event->blocked_on ? FCUDA_FOREVER : event->done_ns);
}

static float elapsed_ms(const struct fcuda_event *start, const struct fcuda_event *end)
{
    double ns = (double)(end->done_ns - start->done_ns);
    double drift = (double)fcuda.devices[start->device].drift_ppb / 1e9;

    return (float)((ns + ns * drift) / 1e6);
}

int fcuda_event_elapsed(float *ms, cudaEvent_t start_handle, cudaEvent_t end_handle)
{
    struct fcuda_event *start, *end;

    if (!ms)
        return FCUDA_INVALID_VALUE;
    int error = fcuda_event_find(start_handle, &start);
    if (!error)
        error = fcuda_event_find(end_handle, &end);
    if (error)
        return error;
    if (!start->recorded || !end->recorded || !start->timed || !end->timed || start->device != end->device)
        return FCUDA_INVALID_HANDLE;
    error = refuse_captured(start, false);
    if (!error)
        error = refuse_captured(end, false);
    if (error)
        return error;
    if (fcuda_event_pending(start) || fcuda_event_pending(end))
        return FCUDA_NOT_READY;
    *ms = elapsed_ms(start, end);
    return FCUDA_OK;
}

void fcuda_event_shift(const struct fcuda_stream *stream, int64_t by_ns)
{
    for (size_t slot = 0; slot < slots_used; slot++) {
        struct fcuda_event *event = &events[slot];
        if (!event->live || event->blocked_on != stream)
            continue;
        event->done_ns = fcuda_clock_add(event->done_ns, by_ns);
        event->blocked_on = NULL;
    }
}

void fcuda_event_reset(void)
{
    free_count = 0;
    for (size_t slot = slots_used; slot-- > 0;) {
        events[slot] = (struct fcuda_event){.generation = events[slot].generation};
        free_slots[free_count++] = (unsigned)slot;
    }
    live_events = 0;
    peak_events = 0;
    records_to_hang = 0;
}

bool fake_cuda_hang_event(const void *handle)
{
    struct fcuda_event *event;

    fcuda_lock();
    bool found = fcuda_event_find(handle, &event) == FCUDA_OK && event->recorded;
    if (found)
        event->hung = true;
    fcuda_unlock();
    return found;
}

void fake_cuda_hang_next_records(unsigned count)
{
    fcuda_lock();
    records_to_hang = count;
    fcuda_unlock();
}

static void release(struct fcuda_event *event)
{
    int64_t now_ns = fcuda_clock_now();

    if (!event->live || !event->hung)
        return;
    event->hung = false;
    if (event->done_ns < now_ns)
        event->done_ns = now_ns;
}

void fake_cuda_release_event(const void *handle)
{
    struct fcuda_event *event;

    fcuda_lock();
    if (handle && fcuda_event_find(handle, &event) == FCUDA_OK)
        release(event);
    for (size_t slot = 0; !handle && slot < slots_used; slot++)
        release(&events[slot]);
    fcuda_unlock();
}

size_t fake_cuda_live_events(void)
{
    fcuda_lock();
    size_t live = live_events;
    fcuda_unlock();
    return live;
}

size_t fake_cuda_peak_events(void)
{
    fcuda_lock();
    size_t peak = peak_events;
    fcuda_unlock();
    return peak;
}
