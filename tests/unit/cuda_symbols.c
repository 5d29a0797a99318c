/*
 * The CUDA symbols of src/cuda_runtime.h against the toolkit's own headers: compiled, never linked or run.
 * Each list entry's prototype is cast from the real function. With -Wcast-function-type -Werror gcc refuses a different
 * number of parameters and any pair of types that is not passed alike (pointers are all alike, an enum is its integer).
 */
#include "cuda_runtime.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#define CHECK(type, name, parameters) type(*const check_##name) parameters = (type(*) parameters)name;
TML_CUDA_SYMBOLS(CHECK)
TML_CUDA_DRIVER_SYMBOLS(CHECK)

/* Numbers that the core writes down itself. */
_Static_assert(TML_CUDA_ERROR_NOT_READY == cudaErrorNotReady, "cudaErrorNotReady");
