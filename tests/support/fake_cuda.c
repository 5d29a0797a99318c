/* The driver's entry points (libfakecuda, soname libcuda.so.1): what may be asked without making a context. */
#include "fake_cuda_state.h"

#include <stdio.h>

#define X(name, result, parameters, traits) FCUDA_SHARED result name parameters;
FAKE_CUDA_DRIVER_LIST(X)
#undef X

/* What each entry point is: a check that may answer at once, else its own work, with the lock held. */
#define ENTRY(name, work)                                                                                              \
    do {                                                                                                               \
        struct fcuda_call call;                                                                                        \
        int error = fcuda_enter(&call, FCUDA_##name, NULL);                                                            \
        return fcuda_leave_silent(&call, error ? error : (work));                                                      \
    } while (0)

static int init(unsigned flags)
{
    return flags ? FCUDA_INVALID_VALUE : fcuda_device_init();
}

static int put_int(int *out, int value)
{
    if (!out)
        return FCUDA_INVALID_VALUE;
    *out = value;
    return FCUDA_OK;
}

static int put_name(char *name, int length, CUdevice device)
{
    if (!name || length <= 0)
        return FCUDA_INVALID_VALUE;
    if (!fcuda_device_exists(device))
        return FCUDA_INVALID_DEVICE;
    snprintf(name, (size_t)length, "Fake GPU %d", device);
    return FCUDA_OK;
}

static int put_state(CUdevice device, unsigned *flags, int *active)
{
    if (!flags || !active)
        return FCUDA_INVALID_VALUE;
    if (!fcuda_device_exists(device))
        return FCUDA_INVALID_DEVICE;
    *flags = 0;
    *active = fcuda_device_active(device);
    return FCUDA_OK;
}

static int put_current(const struct fcuda_thread *thread, CUcontext *context)
{
    if (!context)
        return FCUDA_INVALID_VALUE;
    *context = fcuda_device_context(thread->bound_device);
    return FCUDA_OK;
}

/* The work of the runtime's call in the context that is current, which the driver does not make. */
static int in_current_context(const struct fcuda_thread *thread)
{
    return fcuda_device_context(thread->bound_device) ? fcuda_device_error(thread->bound_device)
                                                      : FCUDA_INVALID_CONTEXT;
}

static int record(struct fcuda_call *call, cudaEvent_t event, cudaStream_t stream)
{
    int error = in_current_context(call->thread);
    return error ? error : fcuda_event_record(call, event, stream);
}

static int capture_status(struct fcuda_thread *thread, cudaStream_t stream, int *status)
{
    int error = in_current_context(thread);
    return error ? error : fcuda_capture_status(thread, stream, status);
}

CUresult cuInit(unsigned flags)
{
    ENTRY(cuInit, init(flags));
}

CUresult cuDriverGetVersion(int *version)
{
    ENTRY(cuDriverGetVersion, put_int(version, FCUDA_VERSION));
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    ENTRY(cuDeviceGet, fcuda_device_exists(ordinal) ? put_int(device, ordinal) : FCUDA_INVALID_DEVICE);
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
    ENTRY(cuDeviceGetName, put_name(name, length, device));
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
    ENTRY(cuDevicePrimaryCtxGetState, put_state(device, flags, active));
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    ENTRY(cuCtxGetCurrent, put_current(call.thread, context));
}

CUresult cuEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    ENTRY(cuEventRecord, record(&call, event, stream));
}

CUresult cuStreamIsCapturing(cudaStream_t stream, int *status)
{
    ENTRY(cuStreamIsCapturing, capture_status(call.thread, stream, status));
}
