/* The runtime's entry points (libfakecudart) for devices, events, streams, captures and errors. */
#include "fake_cuda_state.h"
#include "fake_cudart_entry.h"

static int put_int(int *out, int value)
{
    if (!out)
        return FCUDA_INVALID_VALUE;
    *out = value;
    return FCUDA_OK;
}

cudaError_t cudaGetDevice(int *device)
{
    ENTRY(cudaGetDevice, NULL, put_int(device, call.thread->device));
}

cudaError_t cudaSetDevice(int device)
{
    ENTRY(cudaSetDevice, NULL, fcuda_device_select(call.thread, device));
}

cudaError_t cudaGetDeviceCount(int *count)
{
    ENTRY(cudaGetDeviceCount, NULL, put_int(count, fcuda_device_count()));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    ENTRY(cudaEventCreateWithFlags, NULL, fcuda_event_create(call.thread, event, flags));
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    ENTRY(cudaEventCreate, NULL, fcuda_event_create(call.thread, event, 0));
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    ENTRY(cudaEventDestroy, event, fcuda_event_destroy(event));
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    ENTRY(cudaEventRecord, event, fcuda_event_record(&call, event, stream));
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    ENTRY(cudaEventQuery, event, fcuda_event_query(call.thread, event));
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    ENTRY(cudaEventElapsedTime, start, fcuda_event_elapsed(ms, start, end));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    ENTRY(cudaEventSynchronize, event, fcuda_event_synchronize(call.thread, event));
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    ENTRY(cudaStreamCreateWithFlags, NULL, fcuda_stream_create(call.thread, stream, flags));
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    ENTRY(cudaStreamDestroy, stream, fcuda_stream_destroy(call.thread, stream));
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    ENTRY(cudaStreamQuery, stream, fcuda_stream_query(call.thread, stream));
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    ENTRY(cudaStreamSynchronize, stream, fcuda_stream_synchronize(call.thread, stream));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    ENTRY(cudaStreamWaitEvent, event,
          flags > 1 ? FCUDA_INVALID_VALUE : fcuda_stream_wait_event(call.thread, stream, event));
}

cudaError_t cudaDeviceSynchronize(void)
{
    ENTRY(cudaDeviceSynchronize, NULL, fcuda_stream_synchronize_all(call.thread));
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, int *status)
{
    ENTRY(cudaStreamIsCapturing, stream, fcuda_capture_status(call.thread, stream, status));
}

cudaError_t cudaThreadExchangeStreamCaptureMode(int *mode)
{
    ENTRY(cudaThreadExchangeStreamCaptureMode, NULL, fcuda_capture_exchange(call.thread, mode));
}

/* These two answer the last error without making their answer the last error. Even a dead device's is cleared: it comes
 * back with the next call that reaches the device. */
cudaError_t cudaGetLastError(void)
{
    struct fcuda_call call;
    int error = fcuda_enter(&call, FCUDA_cudaGetLastError, NULL);

    if (error)
        return fcuda_leave(&call, error);
    error = call.thread->last_error;
    call.thread->last_error = FCUDA_OK;
    return fcuda_leave_silent(&call, error);
}

cudaError_t cudaPeekAtLastError(void)
{
    struct fcuda_call call;
    int error = fcuda_enter(&call, FCUDA_cudaPeekAtLastError, NULL);

    return error ? fcuda_leave(&call, error) : fcuda_leave_silent(&call, call.thread->last_error);
}

/* The errors that the fake itself answers, and those that tests order. */
#define ERRORS(X)                                                                                                      \
    X(0, "cudaSuccess", "no error")                                                                                    \
    X(1, "cudaErrorInvalidValue", "invalid argument")                                                                  \
    X(2, "cudaErrorMemoryAllocation", "out of memory")                                                                 \
    X(3, "cudaErrorInitializationError", "initialization error")                                                       \
    X(21, "cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy")                                      \
    X(98, "cudaErrorInvalidDeviceFunction", "invalid device function")                                                 \
    X(100, "cudaErrorNoDevice", "no CUDA-capable device is detected")                                                  \
    X(101, "cudaErrorInvalidDevice", "invalid device ordinal")                                                         \
    X(400, "cudaErrorInvalidResourceHandle", "invalid resource handle")                                                \
    X(401, "cudaErrorIllegalState", "the operation cannot be performed in the present state")                          \
    X(600, "cudaErrorNotReady", "device not ready")                                                                    \
    X(700, "cudaErrorIllegalAddress", "an illegal memory access was encountered")                                      \
    X(702, "cudaErrorLaunchTimeout", "the launch timed out and was terminated")                                        \
    X(712, "cudaErrorHostMemoryAlreadyRegistered", "part or all of the requested memory range is already mapped")      \
    X(713, "cudaErrorHostMemoryNotRegistered", "pointer does not correspond to a registered memory region")            \
    X(719, "cudaErrorLaunchFailure", "unspecified launch failure")                                                     \
    X(900, "cudaErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing")                    \
    X(901, "cudaErrorStreamCaptureInvalidated", "operation failed due to a previous error during capture")             \
    X(902, "cudaErrorStreamCaptureMerge", "operation would result in a merge of separate capture sequences")           \
    X(905, "cudaErrorStreamCaptureIsolation", "dependency created on uncaptured work in another stream")               \
    X(906, "cudaErrorStreamCaptureImplicit",                                                                           \
      "operation would make the legacy stream depend on a capturing blocking "                                         \
      "stream")                                                                                                        \
    X(907, "cudaErrorCapturedEvent", "operation not permitted on an event last recorded in a capturing stream")        \
    X(999, "cudaErrorUnknown", "unknown error")

static const struct error_text {
    int error;
    const char *name;
    const char *text;
} error_texts[] = {
#define X(error, name, text) {error, name, text},
    ERRORS(X)
#undef X
};

static const struct error_text *error_text(int error)
{
    static const struct error_text unknown = {0, "unrecognized error code", "unrecognized error code"};

    for (size_t i = 0; i < sizeof(error_texts) / sizeof(error_texts[0]); i++)
        if (error_texts[i].error == error)
            return &error_texts[i];
    return &unknown;
}

static void log_only(enum fcuda_function function)
{
    struct fcuda_call call;
    int error = fcuda_enter(&call, function, NULL);

    fcuda_leave_silent(&call, error);
}

const char *cudaGetErrorName(cudaError_t error)
{
    log_only(FCUDA_cudaGetErrorName);
    return error_text(error)->name;
}

const char *cudaGetErrorString(cudaError_t error)
{
    log_only(FCUDA_cudaGetErrorString);
    return error_text(error)->text;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    ENTRY(cudaRuntimeGetVersion, NULL, put_int(version, FCUDA_VERSION));
}

cudaError_t cudaDriverGetVersion(int *version)
{
    ENTRY(cudaDriverGetVersion, NULL, put_int(version, FCUDA_VERSION));
}
