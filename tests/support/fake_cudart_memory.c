/* The runtime's entry points (libfakecudart) for memory, copies and kernels: what our own code must never call. */
#include "fake_cudart_entry.h"

#include <string.h>

static bool usable(const void *to, const void *from, size_t bytes)
{
    return bytes == 0 || (to && from);
}

static int copy_async(struct fcuda_call *call, void *to, const void *from, size_t bytes, int kind, cudaStream_t stream)
{
    bool captured;

    if (kind < 0 || kind > 4)
        return FCUDA_INVALID_COPY_KIND;
    if (!usable(to, from, bytes))
        return FCUDA_INVALID_VALUE;
    int error = fcuda_stream_launch(call, stream, &captured);
    if (!error && !captured && bytes)
        memmove(to, from, bytes);
    return error;
}

static int copy(struct fcuda_call *call, void *to, const void *from, size_t bytes, int kind)
{
    int error = copy_async(call, to, from, bytes, kind, NULL);

    return error ? error : fcuda_stream_synchronize(call->thread, NULL);
}

static int set(struct fcuda_call *call, void *at, int value, size_t bytes, cudaStream_t stream)
{
    bool captured;

    if (!usable(at, at, bytes))
        return FCUDA_INVALID_VALUE;
    int error = fcuda_stream_launch(call, stream, &captured);
    if (!error && !captured && bytes)
        memset(at, value, bytes);
    return error;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, int kind)
{
    ENTRY(cudaMemcpy, to, copy(&call, to, from, bytes, kind));
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, cudaStream_t stream)
{
    ENTRY(cudaMemcpyAsync, stream, copy_async(&call, to, from, bytes, kind, stream));
}

cudaError_t cudaMemset(void *at, int value, size_t bytes)
{
    ENTRY(cudaMemset, at, set(&call, at, value, bytes, NULL));
}

cudaError_t cudaMemsetAsync(void *at, int value, size_t bytes, cudaStream_t stream)
{
    ENTRY(cudaMemsetAsync, stream, set(&call, at, value, bytes, stream));
}

cudaError_t cudaMalloc(void **at, size_t bytes)
{
    ENTRY(cudaMalloc, NULL, fcuda_memory_take(call.thread, FCUDA_DEVICE, at, bytes));
}

cudaError_t cudaFree(void *at)
{
    ENTRY(cudaFree, at, fcuda_memory_give_back(FCUDA_DEVICE, at));
}

cudaError_t cudaMallocAsync(void **at, size_t bytes, cudaStream_t stream)
{
    ENTRY(cudaMallocAsync, stream, fcuda_memory_take_async(call.thread, at, bytes, stream));
}

static int free_async(struct fcuda_call *call, void *at, cudaStream_t stream)
{
    bool captured;
    int error = fcuda_stream_launch(call, stream, &captured);

    return error ? error : fcuda_memory_give_back(FCUDA_DEVICE, at);
}

cudaError_t cudaFreeAsync(void *at, cudaStream_t stream)
{
    ENTRY(cudaFreeAsync, stream, free_async(&call, at, stream));
}

cudaError_t cudaHostAlloc(void **at, size_t bytes, unsigned flags)
{
    (void)flags;
    ENTRY(cudaHostAlloc, NULL, fcuda_memory_take(call.thread, FCUDA_HOST, at, bytes));
}

cudaError_t cudaMallocHost(void **at, size_t bytes)
{
    ENTRY(cudaMallocHost, NULL, fcuda_memory_take(call.thread, FCUDA_HOST, at, bytes));
}

cudaError_t cudaFreeHost(void *at)
{
    ENTRY(cudaFreeHost, at, fcuda_memory_give_back(FCUDA_HOST, at));
}

cudaError_t cudaHostRegister(void *at, size_t bytes, unsigned flags)
{
    (void)flags;
    ENTRY(cudaHostRegister, at, fcuda_memory_register(call.thread, at, bytes));
}

cudaError_t cudaHostUnregister(void *at)
{
    ENTRY(cudaHostUnregister, at, fcuda_memory_give_back(FCUDA_REGISTERED, at));
}

static int describe(struct cudaPointerAttributes *attributes, const void *pointer)
{
    if (!attributes)
        return FCUDA_INVALID_VALUE;
    fcuda_memory_describe(pointer, attributes);
    return FCUDA_OK;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *pointer)
{
    ENTRY(cudaPointerGetAttributes, pointer, describe(attributes, pointer));
}

static int launch(struct fcuda_call *call, const void *function, cudaStream_t stream)
{
    bool captured;

    return function ? fcuda_stream_launch(call, stream, &captured) : FCUDA_INVALID_FUNCTION;
}

/* Nothing runs: the kernel takes the time that fake_cuda_takes() gave it. */
cudaError_t cudaLaunchKernel(const void *function, struct dim3 grid, struct dim3 block, void **arguments,
                             size_t shared_bytes, cudaStream_t stream)
{
    (void)grid, (void)block, (void)arguments, (void)shared_bytes;
    ENTRY(cudaLaunchKernel, stream, launch(&call, function, stream));
}
