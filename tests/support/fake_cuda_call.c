/* What every call has in common: the log, the errors that a test ordered, the context that it makes, the last error. */
#include "fake_cuda_state.h"

#include <string.h>

static struct fault {
    int error;
    unsigned kth; /* 0: every call */
} faults[FCUDA_FUNCTION_COUNT];

static int64_t takes_ns[FCUDA_FUNCTION_COUNT];

static int ordered_error(enum fcuda_function function)
{
    struct fault *fault = &faults[function];

    if (fault->error == 0 || (fault->kth > 1 && fault->kth--))
        return FCUDA_OK;
    int error = fault->error;
    if (fault->kth == 1)
        fault->error = 0;
    return error;
}

/* The driver's functions do not initialise the driver: cuInit does, and nearly every call of the runtime. */
static int use_driver(enum fcuda_function function, unsigned traits)
{
    bool is_driver_call = function >= FCUDA_cuInit;

    if (fcuda.forked && !(traits & FCUDA_ANYWHERE))
        return FCUDA_NOT_INITIALIZED;
    if (fcuda.device_count == 0 && !(traits & FCUDA_ANYWHERE))
        return is_driver_call ? FCUDA_NOT_INITIALIZED : FCUDA_NO_DEVICE;
    if (is_driver_call)
        return fcuda.initialized || (traits & FCUDA_ANYWHERE) ? FCUDA_OK : FCUDA_NOT_INITIALIZED;
    if (fcuda.device_count > 0 && !(traits & FCUDA_UNINITED))
        fcuda.initialized = true;
    return FCUDA_OK;
}

static int use_context(struct fcuda_thread *thread, unsigned traits)
{
    if (!(traits & FCUDA_CONTEXT))
        return FCUDA_OK;
    fcuda_device_use(thread->device);
    thread->bound_device = thread->device;
    return traits & FCUDA_SURVIVES ? FCUDA_OK : fcuda.devices[thread->device].sticky_error;
}

int fcuda_enter(struct fcuda_call *call, enum fcuda_function function, const void *handle)
{
    unsigned traits = fcuda_function_traits(function);

    fcuda_lock();
    call->function = function;
    call->thread = fcuda_thread_self();
    fcuda_log_add(function, call->thread->device, handle);
    int error = ordered_error(function);
    if (!error)
        error = use_driver(function, traits);
    if (!error)
        error = use_context(call->thread, traits);
    if (!error && (traits & FCUDA_UNSAFE))
        error = fcuda_capture_refuse(call->thread);
    return error;
}

int fcuda_leave_silent(struct fcuda_call *call, int error)
{
    (void)call;
    fcuda_unlock();
    return error;
}

/* "Not ready" is an answer, not a failure: the real runtime does not keep it either. */
int fcuda_leave(struct fcuda_call *call, int error)
{
    if (error != FCUDA_OK && error != FCUDA_NOT_READY)
        call->thread->last_error = error;
    return fcuda_leave_silent(call, error);
}

int64_t fcuda_call_takes_ns(enum fcuda_function function)
{
    return takes_ns[function];
}

void fcuda_call_reset(void)
{
    memset(faults, 0, sizeof(faults));
    memset(takes_ns, 0, sizeof(takes_ns));
}

bool fake_cuda_fail_call(const char *function, unsigned kth, int error)
{
    int found = fcuda_function_find(function);

    if (found < 0)
        return false;
    fcuda_lock();
    faults[found] = (struct fault){.error = error, .kth = kth};
    fcuda_unlock();
    return true;
}

bool fake_cuda_takes(const char *function, int64_t duration_ns)
{
    int found = fcuda_function_find(function);

    if (found < 0 || duration_ns < 0)
        return false;
    fcuda_lock();
    takes_ns[found] = duration_ns;
    fcuda_unlock();
    return true;
}
