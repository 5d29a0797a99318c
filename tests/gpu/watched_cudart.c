/*
 * The real CUDA runtime with a counter on the calls that TraceML makes: it is loaded through TRACEML_CUDART, so
 * PyTorch's own calls do not come here. What is not defined here is found in the runtime that this is linked to.
 *
 * WATCH_DEFAULT_MODE=1: the thread's capture mode is not exchanged. It shows that the test of captures can fail.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

_Atomic long watched_queries;

/* The runtime's own function of this name, looked up once. */
#define REAL(name, parameters)                                                                                         \
    static int(*_Atomic real) parameters;                                                                              \
    if (!real) {                                                                                                       \
        int(*found) parameters;                                                                                        \
        void *symbol = dlsym(dlopen(WATCHED_RUNTIME, RTLD_NOW | RTLD_NOLOAD), #name);                                  \
        memcpy(&found, &symbol, sizeof found);                                                                         \
        real = found;                                                                                                  \
    }

int cudaEventQuery(void *event)
{
    REAL(cudaEventQuery, (void *))
    watched_queries++;
    return real(event);
}

int cudaThreadExchangeStreamCaptureMode(int *mode)
{
    REAL(cudaThreadExchangeStreamCaptureMode, (int *))
    if (getenv("WATCH_DEFAULT_MODE"))
        return 0;
    return real(mode);
}
