/* Streams: each one does its work in order, and knows when all of it will be done. */
#include "fake_cuda_state.h"

/* The first FCUDA_MAX_DEVICES slots are the devices' legacy default streams. */
static struct fcuda_stream streams[FCUDA_MAX_STREAMS];
static size_t slots_used;
static size_t live_streams, peak_streams;

static struct fcuda_stream *take_slot(enum fcuda_stream_kind kind, int device)
{
    for (size_t slot = FCUDA_MAX_DEVICES; slot < FCUDA_MAX_STREAMS; slot++) {
        struct fcuda_stream *stream = &streams[slot];
        if (stream->live)
            continue;
        if (slot >= slots_used)
            slots_used = slot + 1;
        *stream =
            (struct fcuda_stream){.live = true, .generation = stream->generation + 1, .kind = kind, .device = device};
        return stream;
    }
    return NULL;
}

static struct fcuda_stream *own_default(struct fcuda_thread *thread, int device)
{
    for (size_t slot = FCUDA_MAX_DEVICES; slot < slots_used; slot++) {
        struct fcuda_stream *stream = &streams[slot];
        if (stream->live && stream->kind == FCUDA_PER_THREAD && stream->device == device &&
            stream->owner == thread->serial)
            return stream;
    }
    struct fcuda_stream *stream = take_slot(FCUDA_PER_THREAD, device);
    if (stream)
        stream->owner = thread->serial;
    return stream;
}

static struct fcuda_stream *created(const void *handle)
{
    size_t slot = fcuda_handle_slot(handle);

    if (slot >= FCUDA_MAX_STREAMS)
        return NULL;
    struct fcuda_stream *stream = &streams[slot];
    bool same = stream->live && fcuda_handle(FCUDA_STREAM_HANDLE, stream->generation, slot) == handle;
    return same ? stream : NULL;
}

int fcuda_stream_find(struct fcuda_thread *thread, int device, const void *handle, struct fcuda_stream **stream)
{
    switch ((uintptr_t)handle) {
    case 0:
    case 1:
        *stream = &streams[device];
        return FCUDA_OK;
    case 2:
        *stream = own_default(thread, device);
        return *stream ? FCUDA_OK : FCUDA_OUT_OF_MEMORY;
    default:
        *stream = created(handle);
        if (*stream)
            return fcuda.devices[(*stream)->device].sticky_error;
        fcuda_log_misuse();
        return FCUDA_INVALID_HANDLE;
    }
}

/* For the control functions, which name the device of a default stream themselves. */
static int find_for_test(int device, const void *handle, struct fcuda_stream **stream)
{
    if (!fcuda_device_exists(device))
        return FCUDA_INVALID_DEVICE;
    int error = fcuda_stream_find(fcuda_thread_self(), device, handle, stream);
    if (!error && (*stream)->device != device)
        error = FCUDA_INVALID_HANDLE;
    if (!error)
        fcuda_device_use(device);
    return error ? error : fcuda.devices[device].sticky_error;
}

struct fcuda_stream *fcuda_stream_next(struct fcuda_stream *after)
{
    for (struct fcuda_stream *stream = after ? after + 1 : streams; stream < streams + slots_used; stream++)
        if (stream->live)
            return stream;
    return NULL;
}

/* What is queued on a stuck stream is laid end to end, as it will run once the stream is let go. */
int64_t fcuda_stream_queue(struct fcuda_stream *stream, int64_t duration_ns)
{
    int64_t now_ns = fcuda_clock_now();

    if (!stream->blocked && stream->done_ns < now_ns)
        stream->done_ns = now_ns;
    stream->done_ns = fcuda_clock_add(stream->done_ns, duration_ns);
    return stream->done_ns;
}

/* Work in a capture is noted down, not run: it takes no time. */
int fcuda_stream_submit(struct fcuda_stream *stream, int64_t duration_ns)
{
    int error = fcuda_capture_implicit(stream, true);

    if (error)
        return error;
    if (stream->capture)
        return stream->capture->broken ? FCUDA_CAPTURE_INVALIDATED : FCUDA_OK;
    fcuda_stream_queue(stream, duration_ns);
    return FCUDA_OK;
}

int fcuda_stream_launch(struct fcuda_call *call, cudaStream_t handle, bool *captured)
{
    struct fcuda_stream *stream;
    int error = fcuda_stream_find(call->thread, call->thread->device, handle, &stream);

    if (error)
        return error;
    *captured = stream->capture != NULL;
    return fcuda_stream_submit(stream, fcuda_call_takes_ns(call->function));
}

int fcuda_stream_create(struct fcuda_thread *thread, cudaStream_t *handle, unsigned flags)
{
    if (!handle || flags > 1)
        return FCUDA_INVALID_VALUE;
    struct fcuda_stream *stream = take_slot(flags ? FCUDA_NON_BLOCKING : FCUDA_BLOCKING, thread->device);
    if (!stream)
        return FCUDA_OUT_OF_MEMORY;
    *handle = fcuda_handle(FCUDA_STREAM_HANDLE, stream->generation, (size_t)(stream - streams));
    if (++live_streams > peak_streams)
        peak_streams = live_streams;
    return FCUDA_OK;
}

static void let_go(struct fcuda_stream *stream)
{
    int64_t late_ns = fcuda_clock_now() - stream->blocked_from_ns;

    if (!stream->blocked)
        return;
    stream->blocked = false;
    late_ns = late_ns > 0 ? late_ns : 0;
    stream->done_ns = fcuda_clock_add(stream->done_ns, late_ns);
    fcuda_event_shift(stream, late_ns);
}

/* As in CUDA, work that is pending goes on: its events hold their own completion times. */
int fcuda_stream_destroy(struct fcuda_thread *thread, cudaStream_t handle)
{
    struct fcuda_stream *stream;

    if ((uintptr_t)handle <= 2)
        return FCUDA_INVALID_HANDLE;
    int error = fcuda_stream_find(thread, thread->device, handle, &stream);
    if (error)
        return error;
    let_go(stream);
    stream->live = false;
    live_streams--;
    if (stream->capture)
        fcuda_capture_drop(stream->capture);
    return FCUDA_OK;
}

static bool pending(const struct fcuda_stream *stream)
{
    return stream->blocked || stream->done_ns > fcuda_clock_now();
}

/* A captured stream cannot be asked, whatever the thread's mode, and asking breaks the capture. */
static int find_uncaptured(struct fcuda_thread *thread, cudaStream_t handle, struct fcuda_stream **stream)
{
    int error = fcuda_stream_find(thread, thread->device, handle, stream);

    if (!error)
        error = fcuda_capture_implicit(*stream, true);
    if (error || !(*stream)->capture)
        return error;
    (*stream)->capture->broken = true;
    return FCUDA_CAPTURE_UNSUPPORTED;
}

int fcuda_stream_query(struct fcuda_thread *thread, cudaStream_t handle)
{
    struct fcuda_stream *stream;
    int error = find_uncaptured(thread, handle, &stream);

    if (error)
        return error;
    return pending(stream) ? FCUDA_NOT_READY : FCUDA_OK;
}

int fcuda_stream_synchronize(struct fcuda_thread *thread, cudaStream_t handle)
{
    struct fcuda_stream *stream;
    int error = find_uncaptured(thread, handle, &stream);

    if (error)
        return error;
    return fcuda_clock_wait(stream->blocked ? FCUDA_FOREVER : stream->done_ns);
}

/* Waiting for a device in which anything is in capture conflicts with it in every mode. */
int fcuda_stream_synchronize_all(struct fcuda_thread *thread)
{
    int64_t until_ns = 0;
    int error = FCUDA_OK;

    for (struct fcuda_stream *stream = NULL; (stream = fcuda_stream_next(stream));) {
        if (stream->device != thread->device)
            continue;
        if (stream->capture) {
            stream->capture->broken = true;
            error = FCUDA_CAPTURE_UNSUPPORTED;
        }
        int64_t done_ns = stream->blocked ? FCUDA_FOREVER : stream->done_ns;
        until_ns = done_ns > until_ns ? done_ns : until_ns;
    }
    return error ? error : fcuda_clock_wait(until_ns);
}

/* A wait for an event of a capture joins the stream to it; a captured stream may wait for nothing else. */
static int wait_in_capture(struct fcuda_stream *stream, const struct fcuda_event *event)
{
    if (!event->capture && !event->recorded)
        return FCUDA_OK;
    int error = FCUDA_CAPTURE_ISOLATION;
    if (event->capture && !fcuda_capture_current(event->capture, event->capture_serial))
        return FCUDA_INVALID_VALUE;
    if (event->capture) {
        if (!stream->capture && stream->kind != FCUDA_LEGACY)
            stream->capture = event->capture;
        error = stream->capture == event->capture ? FCUDA_OK : FCUDA_CAPTURE_MERGE;
    }
    if (error && stream->capture)
        stream->capture->broken = true;
    if (error && event->capture)
        event->capture->broken = true;
    return error;
}

int fcuda_stream_wait_event(struct fcuda_thread *thread, cudaStream_t handle, cudaEvent_t event_handle)
{
    struct fcuda_stream *stream;
    struct fcuda_event *event;
    int error = fcuda_event_find(event_handle, &event);

    if (!error)
        error = fcuda_stream_find(thread, thread->device, handle, &stream);
    if (!error)
        error = fcuda_capture_implicit(stream, true);
    if (error)
        return error;
    if (stream->capture || event->capture)
        return wait_in_capture(stream, event);
    bool never = event->hung || event->blocked_on;
    int64_t until_ns = never ? FCUDA_FOREVER : event->done_ns;
    if (event->recorded && until_ns > stream->done_ns)
        stream->done_ns = until_ns;
    return FCUDA_OK;
}

void fcuda_stream_reset(void)
{
    for (size_t slot = FCUDA_MAX_DEVICES; slot < slots_used; slot++)
        streams[slot] = (struct fcuda_stream){.generation = streams[slot].generation};
    for (int device = 0; device < FCUDA_MAX_DEVICES; device++)
        streams[device] = (struct fcuda_stream){.live = true, .kind = FCUDA_LEGACY, .device = device};
    slots_used = slots_used < FCUDA_MAX_DEVICES ? FCUDA_MAX_DEVICES : slots_used;
    live_streams = 0;
    peak_streams = 0;
}

int fake_cuda_work(int device, const void *handle, int64_t duration_ns)
{
    struct fcuda_stream *stream;

    if (duration_ns < 0)
        return FCUDA_INVALID_VALUE;
    fcuda_lock();
    int error = find_for_test(device, handle, &stream);
    if (!error)
        error = fcuda_stream_submit(stream, duration_ns);
    fcuda_unlock();
    return error;
}

int fake_cuda_block_stream(int device, const void *handle)
{
    struct fcuda_stream *stream;

    fcuda_lock();
    int error = find_for_test(device, handle, &stream);
    if (!error && !stream->blocked) {
        stream->blocked_from_ns = fcuda_stream_queue(stream, 0);
        stream->blocked = true;
    }
    fcuda_unlock();
    return error;
}

int fake_cuda_unblock_stream(int device, const void *handle)
{
    struct fcuda_stream *stream;

    fcuda_lock();
    int error = find_for_test(device, handle, &stream);
    if (!error)
        let_go(stream);
    fcuda_unlock();
    return error;
}

size_t fake_cuda_live_streams(void)
{
    fcuda_lock();
    size_t live = live_streams;
    fcuda_unlock();
    return live;
}

size_t fake_cuda_peak_streams(void)
{
    fcuda_lock();
    size_t peak = peak_streams;
    fcuda_unlock();
    return peak;
}
