/* Stream capture: which streams are in one, and which calls break it. */
#include "fake_cuda_state.h"

#define MAX_CAPTURES 64

static struct fcuda_capture captures[MAX_CAPTURES];

/* The rule of cudaThreadExchangeStreamCaptureMode: a thread in relaxed mode ignores all captures, one in thread-local
 * mode those of others, and one in global mode (the default) minds others' global ones too. */
static bool minds(const struct fcuda_thread *thread, const struct fcuda_capture *capture)
{
    if (!capture->live || thread->capture_mode == FAKE_CUDA_CAPTURE_RELAXED)
        return false;
    if (capture->owner == thread->serial)
        return capture->mode != FAKE_CUDA_CAPTURE_RELAXED;
    return thread->capture_mode == FAKE_CUDA_CAPTURE_GLOBAL && capture->mode == FAKE_CUDA_CAPTURE_GLOBAL;
}

int fcuda_capture_refuse(const struct fcuda_thread *thread)
{
    int error = FCUDA_OK;

    for (struct fcuda_capture *capture = captures; capture < captures + MAX_CAPTURES; capture++) {
        if (!minds(thread, capture))
            continue;
        capture->broken = true;
        error = FCUDA_CAPTURE_UNSUPPORTED;
    }
    return error;
}

/* The legacy stream waits for all blocking streams, which a captured one cannot be waited for: no mode helps. */
int fcuda_capture_implicit(const struct fcuda_stream *legacy, bool harm)
{
    int error = FCUDA_OK;

    if (legacy->kind != FCUDA_LEGACY)
        return FCUDA_OK;
    for (struct fcuda_stream *stream = NULL; (stream = fcuda_stream_next(stream));) {
        if (stream->device != legacy->device || stream->kind == FCUDA_NON_BLOCKING || !stream->capture)
            continue;
        stream->capture->broken |= harm;
        error = FCUDA_CAPTURE_IMPLICIT;
    }
    return error;
}

bool fcuda_capture_current(const struct fcuda_capture *capture, unsigned serial)
{
    return capture->live && capture->serial == serial;
}

void fcuda_capture_drop(struct fcuda_capture *capture)
{
    capture->broken = true;
    for (struct fcuda_stream *stream = NULL; (stream = fcuda_stream_next(stream));)
        if (stream->capture == capture)
            return;
    capture->live = false;
}

void fcuda_capture_reset(void)
{
    for (struct fcuda_capture *capture = captures; capture < captures + MAX_CAPTURES; capture++)
        *capture = (struct fcuda_capture){.serial = capture->serial};
}

int fcuda_capture_status(struct fcuda_thread *thread, cudaStream_t handle, int *status)
{
    struct fcuda_stream *stream;

    if (!status)
        return FCUDA_INVALID_VALUE;
    int error = fcuda_stream_find(thread, thread->device, handle, &stream);
    if (!error)
        error = fcuda_capture_implicit(stream, false);
    if (error)
        return error;
    *status = !stream->capture ? 0 : stream->capture->broken ? 2 : 1;
    return FCUDA_OK;
}

int fcuda_capture_exchange(struct fcuda_thread *thread, int *mode)
{
    if (!mode || *mode < FAKE_CUDA_CAPTURE_GLOBAL || *mode > FAKE_CUDA_CAPTURE_RELAXED)
        return FCUDA_INVALID_VALUE;
    int previous = thread->capture_mode;
    thread->capture_mode = *mode;
    *mode = previous;
    return FCUDA_OK;
}

static struct fcuda_capture *take_capture(const struct fcuda_thread *thread, int mode)
{
    for (struct fcuda_capture *capture = captures; capture < captures + MAX_CAPTURES; capture++) {
        if (capture->live)
            continue;
        *capture =
            (struct fcuda_capture){.live = true, .mode = mode, .owner = thread->serial, .serial = capture->serial + 1};
        return capture;
    }
    return NULL;
}

static int begin(struct fcuda_thread *thread, const void *handle, int mode)
{
    struct fcuda_stream *stream;
    int error = fcuda_stream_find(thread, thread->device, handle, &stream);

    if (error)
        return error;
    if (mode < FAKE_CUDA_CAPTURE_GLOBAL || mode > FAKE_CUDA_CAPTURE_RELAXED)
        return FCUDA_INVALID_VALUE;
    if (stream->kind == FCUDA_LEGACY)
        return FCUDA_CAPTURE_UNSUPPORTED;
    if (stream->capture)
        return FCUDA_ILLEGAL_STATE;
    fcuda_device_use(stream->device);
    stream->capture = take_capture(thread, mode);
    return stream->capture ? FCUDA_OK : FCUDA_OUT_OF_MEMORY;
}

int fake_cuda_begin_capture(const void *handle, int mode)
{
    fcuda_lock();
    int error = begin(fcuda_thread_self(), handle, mode);
    fcuda_unlock();
    return error;
}

static bool end(struct fcuda_thread *thread, const void *handle)
{
    struct fcuda_stream *stream;

    if (fcuda_stream_find(thread, thread->device, handle, &stream) != FCUDA_OK || !stream->capture)
        return false;
    struct fcuda_capture *capture = stream->capture;
    for (struct fcuda_stream *other = NULL; (other = fcuda_stream_next(other));)
        if (other->capture == capture)
            other->capture = NULL;
    capture->live = false;
    return !capture->broken;
}

bool fake_cuda_end_capture(const void *handle)
{
    fcuda_lock();
    bool intact = end(fcuda_thread_self(), handle);
    fcuda_unlock();
    return intact;
}
