#include "cuda_runtime.h"

#include <dlfcn.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Handles below this are names for the default streams of the current device, not pointers. */
#define FIRST_REAL_STREAM 3

/* What the driver says where no context is current, or another than the event's. */
#define ERROR_NOT_INITIALIZED 3
#define ERROR_DEINITIALIZED 4
#define ERROR_INVALID_CONTEXT 201
#define ERROR_INVALID_HANDLE 400

#define CAPTURE_MODE_RELAXED 2
#define STREAM_NON_BLOCKING 1
#define CAPTURE_ERROR_FIRST 900
#define CAPTURE_ERROR_LAST 911

static const char *const runtime_names[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"};
#define RUNTIME_NAMES (sizeof runtime_names / sizeof *runtime_names)

/* ---- Finding ---- */

static void *find_driver(void)
{
    return dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
}

static void *find_runtime(void)
{
    const char *path = getenv("TRACEML_CUDART");
    if (path && *path)
        return dlopen(path, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; i < RUNTIME_NAMES; i++) {
        void *library = dlopen(runtime_names[i], RTLD_NOW | RTLD_NOLOAD);
        if (library)
            return library;
    }
    if (!find_driver())
        return NULL;
    for (size_t i = 0; i < RUNTIME_NAMES; i++) {
        void *library = dlopen(runtime_names[i], RTLD_NOW | RTLD_LOCAL);
        if (library)
            return library;
    }
    return NULL;
}

/* Object pointers become function pointers through memory, as POSIX asks. */
static bool look_up(void *library, const char *name, void *slot)
{
    void *symbol = dlsym(library, name);
    memcpy(slot, &symbol, sizeof symbol);
    return symbol != NULL;
}

bool tml_cuda_find(struct tml_cuda *cuda)
{
    /* Relaxed: one thread at a time comes here, and it wrote it. */
    if (atomic_load_explicit(&cuda->ready, memory_order_relaxed))
        return true;
    void *library = find_runtime();
    if (!library)
        return false;
    bool whole = true;
#define TML_X(type, name, parameters) whole = look_up(library, #name, &cuda->name) && whole;
    TML_CUDA_SYMBOLS(TML_X)
#undef TML_X
    /* Release, with the acquire in tml_cuda_usable(): the table before the word that it is there. */
    atomic_store_explicit(&cuda->ready, whole, memory_order_release);
    return whole;
}

/* The runtime loads the driver with its first real call, so it may come later than the runtime. */
static bool driver_usable(struct tml_cuda *cuda)
{
    /* Acquire, with the release below: the table is read only after it was written. */
    if (atomic_load_explicit(&cuda->driver_ready, memory_order_acquire))
        return true;
    /* Acquire/release pair up on the flag itself: two threads must not write the table at once. The loser says no. */
    if (atomic_flag_test_and_set_explicit(&cuda->driver_lookup, memory_order_acquire))
        return false;
    void *library = find_driver();
    bool whole = library != NULL;
#define TML_X(type, name, parameters) whole = whole && look_up(library, #name, &cuda->name);
    TML_CUDA_DRIVER_SYMBOLS(TML_X)
#undef TML_X
    atomic_store_explicit(&cuda->driver_ready, whole, memory_order_release);
    atomic_flag_clear_explicit(&cuda->driver_lookup, memory_order_release);
    return whole;
}

/* ---- Errors ---- */

/* True for errors that say something about one handle, one argument or a capture; all others are the device's. */
static bool harmless(int error)
{
    return error == 1 || error == 2 || error == ERROR_INVALID_HANDLE || error == TML_CUDA_ERROR_NOT_READY ||
           (error >= CAPTURE_ERROR_FIRST && error <= CAPTURE_ERROR_LAST);
}

static void note_failure(struct tml_cuda *cuda, int error)
{
    if (!harmless(error))
        /* Relaxed: it only saves calls; a thread that sees it late gets the same error again. */
        atomic_store_explicit(&cuda->broken, true, memory_order_relaxed);
}

/* Our failed call of the runtime must not be what the user's next check reports. */
static int failed(struct tml_cuda *cuda, int error)
{
    cuda->cudaGetLastError();
    note_failure(cuda, error);
    return error;
}

/* ---- Devices ---- */

bool tml_cuda_device_live(struct tml_cuda *cuda, int device)
{
    if (device < 0 || device >= TML_CUDA_MAX_DEVICES || !tml_cuda_usable(cuda))
        return false;
    /* Acquire, with the release below: without many_devices a record could go to another device than its event's. */
    if (atomic_load_explicit(&cuda->live[device], memory_order_acquire))
        return true;
    unsigned flags;
    int active = 0, count = 0;
    if (!driver_usable(cuda) || cuda->cuDevicePrimaryCtxGetState(device, &flags, &active) != 0 || !active)
        return false;
    if (cuda->cudaGetDeviceCount(&count) != 0)
        cuda->cudaGetLastError();
    atomic_store_explicit(&cuda->many_devices, count != 1, memory_order_relaxed);
    atomic_store_explicit(&cuda->live[device], true, memory_order_release);
    return true;
}

/*
 * Makes `device` current where a handle below FIRST_REAL_STREAM, or a new event, means the current one. *previous is
 * what leave_device() puts back, -1 for nothing. False when the switch fails, or when the current device has no
 * context: a switch back makes one.
 * (PyTorch does the same: it leaves the device that it used last current until another one is live.)
 */
static bool enter_device(struct tml_cuda *cuda, int device, int *previous)
{
    int current = device;
    *previous = -1;
    /* Relaxed: whoever comes here has found the device live, by an acquire. */
    if (!atomic_load_explicit(&cuda->many_devices, memory_order_relaxed))
        return true;
    int error = cuda->cudaGetDevice(&current);
    if (error == 0 && current == device)
        return true;
    if (error == 0 && !tml_cuda_device_live(cuda, current))
        return false;
    if (error == 0)
        error = cuda->cudaSetDevice(device);
    if (error == 0)
        *previous = current;
    else
        failed(cuda, error);
    return error == 0;
}

static void leave_device(struct tml_cuda *cuda, int previous)
{
    int error = previous >= 0 ? cuda->cudaSetDevice(previous) : 0;
    if (error != 0)
        failed(cuda, error);
}

void tml_cuda_prepare_sampler(struct tml_cuda *cuda, int device)
{
    int mode = CAPTURE_MODE_RELAXED;
    if (!tml_cuda_usable(cuda) ||
        (cuda->cudaSetDevice(device) == 0 && cuda->cudaThreadExchangeStreamCaptureMode(&mode) == 0))
        return;
    cuda->cudaGetLastError();
    /* Relaxed: see failed(). Rather no device time than a query that breaks somebody's capture. */
    atomic_store_explicit(&cuda->broken, true, memory_order_relaxed);
}

bool tml_cuda_device_name(struct tml_cuda *cuda, int device, char *name, int bytes)
{
    return tml_cuda_device_live(cuda, device) && driver_usable(cuda) && cuda->cuDeviceGetName(name, bytes, device) == 0;
}

/* ---- Events ---- */

static bool needs_the_runtime(int error)
{
    return error == ERROR_INVALID_CONTEXT || error == ERROR_NOT_INITIALIZED || error == ERROR_DEINITIALIZED ||
           error == ERROR_INVALID_HANDLE;
}

static int record_by_runtime(struct tml_cuda *cuda, void *stream, void *event)
{
    int capturing = 0;
    int error = cuda->cudaStreamIsCapturing(stream, &capturing);
    if (error == 0 && capturing)
        return TML_CUDA_CAPTURING;
    if (error == 0)
        error = cuda->cudaEventRecord(event, stream);
    return error == 0 ? 0 : failed(cuda, error);
}

static int record_here(struct tml_cuda *cuda, void *stream, void *event)
{
    int capturing = 0;
    int error = cuda->cuStreamIsCapturing(stream, &capturing);
    if (error == 0 && capturing)
        return TML_CUDA_CAPTURING;
    if (error == 0)
        error = cuda->cuEventRecord(event, stream);
    if (error == 0)
        return 0;
    if (needs_the_runtime(error))
        error = record_by_runtime(cuda, stream, event);
    else
        note_failure(cuda, error);
    return error >= CAPTURE_ERROR_FIRST && error <= CAPTURE_ERROR_LAST ? TML_CUDA_CAPTURING : error;
}

int tml_cuda_record(struct tml_cuda *cuda, int device, void *stream, void *event)
{
    if ((uintptr_t)stream >= FIRST_REAL_STREAM)
        return record_here(cuda, stream, event);
    int previous;
    if (!enter_device(cuda, device, &previous))
        return TML_CUDA_OTHER_DEVICE;
    int error = record_here(cuda, stream, event);
    leave_device(cuda, previous);
    return error;
}

void *tml_cuda_event_create(struct tml_cuda *cuda, int device)
{
    void *event = NULL;
    int previous;
    if (!enter_device(cuda, device, &previous))
        return NULL;
    int error = cuda->cudaEventCreateWithFlags(&event, 0);
    leave_device(cuda, previous);
    if (error == 0)
        return event;
    failed(cuda, error);
    return NULL;
}

void *tml_cuda_stream_create(struct tml_cuda *cuda, int device)
{
    void *stream = NULL;
    int previous;
    if (!enter_device(cuda, device, &previous))
        return NULL;
    int error = cuda->cudaStreamCreateWithFlags(&stream, STREAM_NON_BLOCKING);
    leave_device(cuda, previous);
    if (error == 0)
        return stream;
    failed(cuda, error);
    return NULL;
}

int tml_cuda_query(struct tml_cuda *cuda, void *event)
{
    int error = cuda->cudaEventQuery(event);
    if (error == 0 || error == TML_CUDA_ERROR_NOT_READY)
        return error;
    failed(cuda, error);
    return error >= CAPTURE_ERROR_FIRST && error <= CAPTURE_ERROR_LAST ? TML_CUDA_ERROR_NOT_READY : error;
}

int64_t tml_cuda_elapsed_ns(struct tml_cuda *cuda, void *begin, void *end)
{
    float ms = 0;
    if (!tml_cuda_usable(cuda)) /* it may have broken since the events were asked */
        return TML_NS_NONE;
    int error = cuda->cudaEventElapsedTime(&ms, begin, end);
    if (error == 0)
        return llround((double)ms * TML_NS_PER_MS);
    failed(cuda, error);
    return TML_NS_NONE;
}
