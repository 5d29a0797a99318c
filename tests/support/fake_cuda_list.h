/* The functions that the fake CUDA exports, once: prototypes, names, ids, traits and the log all come from here.
 * Owner: none, types and constants only. Own declarations, so no CUDA header is needed (and none may be included).
 * Who may include it: the fake's own files and tests that call the fake by name; others need fake_cuda.h alone.
 * Units: none.
 * Depends on: stddef.h. */
#ifndef FAKE_CUDA_LIST_H
#define FAKE_CUDA_LIST_H

#include <stddef.h>

typedef int cudaError_t;
typedef int CUresult;
typedef int CUdevice;
typedef struct CUevent_st *cudaEvent_t;
typedef struct CUstream_st *cudaStream_t;
typedef struct CUctx_st *CUcontext;

struct dim3 {
    unsigned x, y, z;
};

/* The first fields of the real structure, which ends in reserved ones that nobody may read. */
struct cudaPointerAttributes {
    int type; /* 0 unregistered, 1 host, 2 device */
    int device;
    void *devicePointer;
    void *hostPointer;
};

/* What a call does besides its work. Each was read off an H200 (driver 580.159, CUDA 13.0) in a fresh process a call.
 */
enum fcuda_trait {
    FCUDA_CONTEXT = 1,   /* makes the current device's primary context and binds it to the thread */
    FCUDA_SURVIVES = 2,  /* answers also when the current device has died */
    FCUDA_UNSAFE = 4,    /* breaks a capture that the calling thread's mode does not let it ignore */
    FCUDA_FORBIDDEN = 8, /* may block or take the allocator's lock: never ours to call in training */
    FCUDA_ANYWHERE = 16, /* answers also where there is no device */
    FCUDA_UNINITED = 32, /* leaves the driver as it is; every other runtime call initialises it */
};

/* X(name, result, parameters, traits) */
#define FAKE_CUDART_LIST(X)                                                                                            \
    X(cudaGetDevice, cudaError_t, (int *device), 0)                                                                    \
    X(cudaSetDevice, cudaError_t, (int device), 0)                                                                     \
    X(cudaGetDeviceCount, cudaError_t, (int *count), 0)                                                                \
    X(cudaEventCreateWithFlags, cudaError_t, (cudaEvent_t * event, unsigned flags), FCUDA_CONTEXT)                     \
    X(cudaEventCreate, cudaError_t, (cudaEvent_t * event), FCUDA_CONTEXT)                                              \
    X(cudaEventDestroy, cudaError_t, (cudaEvent_t event), FCUDA_CONTEXT)                                               \
    X(cudaEventRecord, cudaError_t, (cudaEvent_t event, cudaStream_t stream), FCUDA_CONTEXT)                           \
    X(cudaEventQuery, cudaError_t, (cudaEvent_t event), 0)                                                             \
    X(cudaEventElapsedTime, cudaError_t, (float *ms, cudaEvent_t start, cudaEvent_t end), 0)                           \
    X(cudaEventSynchronize, cudaError_t, (cudaEvent_t event), FCUDA_FORBIDDEN)                                         \
    X(cudaStreamCreateWithFlags, cudaError_t, (cudaStream_t * stream, unsigned flags), FCUDA_CONTEXT)                  \
    X(cudaStreamDestroy, cudaError_t, (cudaStream_t stream), FCUDA_CONTEXT)                                            \
    X(cudaStreamQuery, cudaError_t, (cudaStream_t stream), FCUDA_CONTEXT | FCUDA_UNSAFE)                               \
    X(cudaStreamSynchronize, cudaError_t, (cudaStream_t stream), FCUDA_CONTEXT | FCUDA_UNSAFE | FCUDA_FORBIDDEN)       \
    X(cudaStreamWaitEvent, cudaError_t, (cudaStream_t stream, cudaEvent_t event, unsigned flags), FCUDA_CONTEXT)       \
    X(cudaDeviceSynchronize, cudaError_t, (void), FCUDA_CONTEXT | FCUDA_FORBIDDEN)                                     \
    X(cudaStreamIsCapturing, cudaError_t, (cudaStream_t stream, int *status), FCUDA_CONTEXT)                           \
    X(cudaThreadExchangeStreamCaptureMode, cudaError_t, (int *mode), FCUDA_CONTEXT | FCUDA_SURVIVES)                   \
    X(cudaGetLastError, cudaError_t, (void), 0)                                                                        \
    X(cudaPeekAtLastError, cudaError_t, (void), 0)                                                                     \
    X(cudaGetErrorName, const char *, (cudaError_t error), FCUDA_ANYWHERE)                                             \
    X(cudaGetErrorString, const char *, (cudaError_t error), FCUDA_ANYWHERE)                                           \
    X(cudaRuntimeGetVersion, cudaError_t, (int *version), FCUDA_ANYWHERE | FCUDA_UNINITED)                             \
    X(cudaDriverGetVersion, cudaError_t, (int *version), FCUDA_ANYWHERE)                                               \
    X(cudaPointerGetAttributes, cudaError_t, (struct cudaPointerAttributes * attributes, const void *pointer), 0)      \
    X(cudaMemcpy, cudaError_t, (void *to, const void *from, size_t bytes, int kind), FCUDA_CONTEXT | FCUDA_FORBIDDEN)  \
    X(cudaMemcpyAsync, cudaError_t, (void *to, const void *from, size_t bytes, int kind, cudaStream_t stream),         \
      FCUDA_CONTEXT | FCUDA_FORBIDDEN)                                                                                 \
    X(cudaMemset, cudaError_t, (void *at, int value, size_t bytes), FCUDA_CONTEXT)                                     \
    X(cudaMemsetAsync, cudaError_t, (void *at, int value, size_t bytes, cudaStream_t stream), FCUDA_CONTEXT)           \
    X(cudaMalloc, cudaError_t, (void **at, size_t bytes), FCUDA_CONTEXT | FCUDA_UNSAFE | FCUDA_FORBIDDEN)              \
    X(cudaFree, cudaError_t, (void *at), FCUDA_CONTEXT | FCUDA_UNSAFE | FCUDA_FORBIDDEN)                               \
    X(cudaMallocAsync, cudaError_t, (void **at, size_t bytes, cudaStream_t stream), FCUDA_CONTEXT | FCUDA_FORBIDDEN)   \
    X(cudaFreeAsync, cudaError_t, (void *at, cudaStream_t stream), FCUDA_CONTEXT | FCUDA_FORBIDDEN)                    \
    X(cudaHostAlloc, cudaError_t, (void **at, size_t bytes, unsigned flags),                                           \
      FCUDA_CONTEXT | FCUDA_UNSAFE | FCUDA_FORBIDDEN)                                                                  \
    X(cudaMallocHost, cudaError_t, (void **at, size_t bytes), FCUDA_CONTEXT | FCUDA_UNSAFE | FCUDA_FORBIDDEN)          \
    X(cudaFreeHost, cudaError_t, (void *at), FCUDA_CONTEXT | FCUDA_UNSAFE | FCUDA_FORBIDDEN)                           \
    X(cudaHostRegister, cudaError_t, (void *at, size_t bytes, unsigned flags),                                         \
      FCUDA_CONTEXT | FCUDA_UNSAFE | FCUDA_FORBIDDEN)                                                                  \
    X(cudaHostUnregister, cudaError_t, (void *at), FCUDA_CONTEXT | FCUDA_UNSAFE | FCUDA_FORBIDDEN)                     \
    X(cudaLaunchKernel, cudaError_t,                                                                                   \
      (const void *function, struct dim3 grid, struct dim3 block, void **arguments, size_t shared_bytes,               \
       cudaStream_t stream),                                                                                           \
      FCUDA_CONTEXT)

/* The driver's functions never make a context, and do not set the runtime's last error. */
#define FAKE_CUDA_DRIVER_LIST(X)                                                                                       \
    X(cuInit, CUresult, (unsigned flags), FCUDA_ANYWHERE)                                                              \
    X(cuDriverGetVersion, CUresult, (int *version), FCUDA_ANYWHERE)                                                    \
    X(cuDeviceGet, CUresult, (CUdevice * device, int ordinal), 0)                                                      \
    X(cuDeviceGetName, CUresult, (char *name, int length, CUdevice device), 0)                                         \
    X(cuDevicePrimaryCtxGetState, CUresult, (CUdevice device, unsigned *flags, int *active), 0)                        \
    X(cuCtxGetCurrent, CUresult, (CUcontext * context), 0)                                                             \
    X(cuEventRecord, CUresult, (cudaEvent_t event, cudaStream_t stream), 0)                                            \
    X(cuStreamIsCapturing, CUresult, (cudaStream_t stream, int *status), 0)

#define FAKE_CUDA_LIST(X) FAKE_CUDART_LIST(X) FAKE_CUDA_DRIVER_LIST(X)

enum fcuda_function {
#define X(name, result, parameters, traits) FCUDA_##name,
    FAKE_CUDA_LIST(X)
#undef X
        FCUDA_FUNCTION_COUNT
};

#endif
