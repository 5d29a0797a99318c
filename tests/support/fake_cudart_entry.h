/* What the runtime's entry points have in common: their prototypes, and the frame of each.
 * Owner: none.
 * Who may include it: the files of libfakecudart.
 * Units: none.
 * Depends on: fake_cuda_state.h. */
#ifndef FAKE_CUDART_ENTRY_H
#define FAKE_CUDART_ENTRY_H

#include "fake_cuda_state.h"

#define X(name, result, parameters, traits) FCUDA_SHARED result name parameters;
FAKE_CUDART_LIST(X)
#undef X

/* The frame of an entry point: `work` runs with the lock held, unless the call must fail before it. */
#define ENTRY(name, handle, work)                                                                                      \
    do {                                                                                                               \
        struct fcuda_call call;                                                                                        \
        int error = fcuda_enter(&call, FCUDA_##name, handle);                                                          \
        return fcuda_leave(&call, error ? error : (work));                                                             \
    } while (0)

#endif
