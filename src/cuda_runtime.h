/*
 * Purpose   the CUDA runtime that the process already has, found at run time; and the few questions to the driver.
 * Memory    one table, filled once by tml_cuda_open(); the libraries stay loaded.
 * Threads   open and close: one thread, nothing beside them. Calls: any thread.
 * Units     elapsed times as ns from cudaEventElapsedTime's float milliseconds.
 * Depends   clock, <dlfcn.h> in the .c; no CUDA header, nothing links to CUDA.
 */
#ifndef TML_CUDA_RUNTIME_H
#define TML_CUDA_RUNTIME_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "clock.h"

/* What is needed, all or nothing: X(return type, name, (parameters)). A test compiles it against CUDA's header. */
#define TML_CUDA_SYMBOLS(X)                                                                                            \
    X(int, cudaGetDevice, (int *device))                                                                               \
    X(int, cudaSetDevice, (int device))                                                                                \
    X(int, cudaGetDeviceCount, (int *count))                                                                           \
    X(int, cudaEventCreateWithFlags, (void **event, unsigned flags))                                                   \
    X(int, cudaEventDestroy, (void *event))                                                                            \
    X(int, cudaEventRecord, (void *event, void *stream))                                                               \
    X(int, cudaEventQuery, (void *event))                                                                              \
    X(int, cudaEventElapsedTime, (float *ms, void *begin, void *end))                                                  \
    X(int, cudaStreamCreateWithFlags, (void **stream, unsigned flags))                                                 \
    X(int, cudaStreamDestroy, (void *stream))                                                                          \
    X(int, cudaStreamIsCapturing, (void *stream, int *status))                                                         \
    X(int, cudaThreadExchangeStreamCaptureMode, (int *mode))                                                           \
    X(int, cudaGetLastError, (void))                                                                                   \
    X(int, cudaRuntimeGetVersion, (int *version))

/* The driver's, looked up among the loaded libraries and never loaded by us. */
#define TML_CUDA_DRIVER_SYMBOLS(X)                                                                                     \
    X(int, cuDevicePrimaryCtxGetState, (int device, unsigned *flags, int *active))                                     \
    X(int, cuDeviceGetName, (char *name, int length, int device))                                                      \
    X(int, cuEventRecord, (void *event, void *stream))                                                                 \
    X(int, cuStreamIsCapturing, (void *stream, int *status))                                                           \
    X(int, cuDriverGetVersion, (int *version))

#define TML_CUDA_ERROR_NOT_READY 600
#define TML_CUDA_MAX_DEVICES 16

struct tml_cuda {
#define TML_X(type, name, parameters) type(*name) parameters;
    TML_CUDA_SYMBOLS(TML_X)
    TML_CUDA_DRIVER_SYMBOLS(TML_X)
#undef TML_X
    _Atomic bool ready;        /* the runtime's table is whole */
    _Atomic bool driver_ready; /* the driver's is */
    atomic_flag driver_lookup; /* held by the one thread that looks the driver up */
    _Atomic bool broken;       /* a sticky device error was seen: no more calls */
    _Atomic bool many_devices; /* more than one: handle 0 may mean another device than the step's */
    _Atomic bool live[TML_CUDA_MAX_DEVICES];
};

/* Looks for the runtime: the file that TRACEML_CUDART names, else the one that is loaded (sonames 13, 12, 11), else, in
 * a process that has the driver (a static runtime), the standard names. May be tried again: a no-op once ready. Finding
 * none is a normal state: false. Only one thread at a time. */
bool tml_cuda_find(struct tml_cuda *cuda);

/* Usable now: a table, and no sticky error. */
static inline bool tml_cuda_usable(struct tml_cuda *cuda)
{
    /* Acquire, with the release in tml_cuda_find(): the table is read only after it was written. */
    return atomic_load_explicit(&cuda->ready, memory_order_acquire) &&
           /* Relaxed: a stale false costs one more failing call. */
           !atomic_load_explicit(&cuda->broken, memory_order_relaxed);
}

/* The device's primary context is active, as the driver says: our calls there create nothing. Sticky once true. */
bool tml_cuda_device_live(struct tml_cuda *cuda, int device);

/* Records on `stream` of `device` unless that stream captures. 0, or the error; TML_CUDA_CAPTURING for a capture;
 * TML_CUDA_OTHER_DEVICE when the handle means the current device and that is another one, without a context, which a
 * switch back would make. A failed call leaves no last error behind.
 *
 * `device` must be live. The driver is asked, whose events and streams are the runtime's: it does the same without the
 * layer above and keeps no last error. The runtime is asked where the driver needs a context that is current. */
#define TML_CUDA_CAPTURING (-1)
#define TML_CUDA_OTHER_DEVICE (-2)
int tml_cuda_record(struct tml_cuda *cuda, int device, void *stream, void *event);

/* A timing event on `device`, which must be live; NULL on failure (no last error behind). */
void *tml_cuda_event_create(struct tml_cuda *cuda, int device);

/* A stream on `device`, which must be live, that waits for no other one; NULL on failure. Sampler thread. */
void *tml_cuda_stream_create(struct tml_cuda *cuda, int device);

/* 0 done, TML_CUDA_ERROR_NOT_READY (also while a capture forbids the question), or an error; one that is the device's
 * marks the runtime broken. Sampler thread. */
int tml_cuda_query(struct tml_cuda *cuda, void *event);

/* Device time from `begin` to `end` in ns, negative when end came first; TML_NS_NONE on failure. Sampler thread. */
int64_t tml_cuda_elapsed_ns(struct tml_cuda *cuda, void *begin, void *end);

/* Called once by the sampler when a device is live: makes that device current and the thread's capture mode relaxed, so
 * that a query makes no context elsewhere and breaks no capture. A failure marks the runtime broken. */
void tml_cuda_prepare_sampler(struct tml_cuda *cuda, int device);

/* Name of a live device into `name`; false where the driver does not say. */
bool tml_cuda_device_name(struct tml_cuda *cuda, int device, char *name, int bytes);

#endif
