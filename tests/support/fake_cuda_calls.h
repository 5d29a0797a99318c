/* The fake's entry points for tests that call CUDA themselves, found as the product finds them: at run time.
 * Owner: `cuda`, one table a test binary, filled once by fake_cuda_calls_load() (a CMocka group setup).
 * Who may call it: the main thread loads; any thread calls.
 * Units: none.
 * Depends on: CMocka, dlfcn.h, fake_cuda.h; TRACEML_CUDART names the fake runtime, which brings the fake driver. */
#ifndef FAKE_CUDA_CALLS_H
#define FAKE_CUDA_CALLS_H

#include "fake_cuda.h"
#include "fake_cuda_list.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
#define X(name, result, parameters, traits) result(*name) parameters;
    FAKE_CUDA_LIST(X)
#undef X
} cuda;

/* Through memory: ISO C converts no data pointer to one to a function. */
static inline bool fake_cuda_calls_find(void *library, const char *name, void *slot)
{
    void *symbol = dlsym(library, name);

    memcpy(slot, &symbol, sizeof(symbol));
    return symbol != NULL;
}

static inline int fake_cuda_calls_load(void **state)
{
    const char *path = getenv("TRACEML_CUDART");
    void *runtime = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD); /* came with the runtime, or was preloaded */

    (void)state;
    if (!runtime || !driver) {
        fprintf(stderr, "TRACEML_CUDART=%s does not name the fake runtime\n", path ? path : "");
        return -1;
    }
    bool whole = true;
#define X(name, result, parameters, traits) whole &= fake_cuda_calls_find(runtime, #name, &cuda.name);
    FAKE_CUDART_LIST(X)
#undef X
#define X(name, result, parameters, traits) whole &= fake_cuda_calls_find(driver, #name, &cuda.name);
    FAKE_CUDA_DRIVER_LIST(X)
#undef X
    return whole ? 0 : -1;
}

static inline int fake_cuda_calls_reset(void **state)
{
    (void)state;
    fake_cuda_reset();
    return 0;
}

/* Runs a function in a thread of its own and waits for it. It must not assert: it leaves what it found in `what`. */
static inline void fake_cuda_calls_elsewhere(void *(*function)(void *), void *what)
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, function, what), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static inline cudaEvent_t fake_cuda_calls_event(void)
{
    cudaEvent_t event = NULL;

    assert_int_equal(cuda.cudaEventCreateWithFlags(&event, 0), 0);
    return event;
}

static inline cudaStream_t fake_cuda_calls_stream(bool non_blocking)
{
    cudaStream_t stream = NULL;

    assert_int_equal(cuda.cudaStreamCreateWithFlags(&stream, non_blocking), 0);
    return stream;
}

#endif
