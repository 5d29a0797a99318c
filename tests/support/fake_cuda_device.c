/* The devices, their contexts, and what CUDA keeps per thread. */
#include "fake_cuda_state.h"

#include <stdlib.h>
#include <string.h>

struct fcuda_state fcuda = {.lock = PTHREAD_MUTEX_INITIALIZER, .epoch = 1, .device_count = 2};

static _Thread_local struct fcuda_thread self;

void fcuda_lock(void)
{
    pthread_mutex_lock(&fcuda.lock);
}

void fcuda_unlock(void)
{
    pthread_mutex_unlock(&fcuda.lock);
}

/* A reset concerns all threads, but one cannot write another's state: each finds out by the epoch. */
struct fcuda_thread *fcuda_thread_self(void)
{
    static uint64_t serials;

    if (self.serial == 0)
        self.serial = ++serials;
    if (self.epoch != fcuda.epoch)
        self = (struct fcuda_thread){.epoch = fcuda.epoch, .serial = self.serial, .bound_device = -1};
    return &self;
}

void fcuda_device_use(int device)
{
    fcuda.initialized = true;
    fcuda.devices[device].context = true;
}

int fcuda_device_init(void)
{
    if (fcuda.device_count == 0)
        return FCUDA_NO_DEVICE;
    fcuda.initialized = true;
    return FCUDA_OK;
}

int fcuda_device_active(int device)
{
    return fcuda.devices[device].context;
}

int fcuda_device_count(void)
{
    return fcuda.device_count;
}

bool fcuda_device_exists(int device)
{
    return device >= 0 && device < fcuda.device_count;
}

/* cudaSetDevice makes and binds the context, and answers even when the device is dead. */
int fcuda_device_select(struct fcuda_thread *thread, int device)
{
    if (!fcuda_device_exists(device))
        return FCUDA_INVALID_DEVICE;
    fcuda_device_use(device);
    thread->device = device;
    thread->bound_device = device;
    return FCUDA_OK;
}

int fcuda_device_error(int device)
{
    return fcuda.devices[device].sticky_error;
}

void *fcuda_device_context(int device)
{
    return device < 0 ? NULL : fcuda_handle(FCUDA_CONTEXT_HANDLE, 0, (size_t)device);
}

static void reset_locked(void)
{
    const char *count = getenv("FAKE_CUDA_DEVICES");

    fcuda.epoch++;
    fcuda.initialized = false;
    memset(fcuda.devices, 0, sizeof(fcuda.devices));
    fcuda.device_count = 2;
    if (count && *count)
        fcuda.device_count = atoi(count);
    if (fcuda.device_count < 0 || fcuda.device_count > FCUDA_MAX_DEVICES)
        fcuda.device_count = 0;
    fcuda_event_reset();
    fcuda_stream_reset();
    fcuda_capture_reset();
    fcuda_memory_reset();
    fcuda_call_reset();
    fcuda_clock_reset();
    fcuda_log_reset();
}

void fake_cuda_reset(void)
{
    fcuda_lock();
    reset_locked();
    fcuda_unlock();
}

/* The child has only the thread that forked. The lock may have been held by another one and nobody would ever let it
 * go. (Taking it before the fork instead would invert the order of a user who forks with his own lock held.) */
static void after_fork_in_child(void)
{
    pthread_mutex_init(&fcuda.lock, NULL);
    fcuda.forked = fcuda.initialized;
    fcuda_log_forked();
}

__attribute__((constructor)) static void load(void)
{
    fake_cuda_reset();
    pthread_atfork(NULL, NULL, after_fork_in_child);
}

bool fake_cuda_set_device_count(int count)
{
    if (count < 0 || count > FCUDA_MAX_DEVICES)
        return false;
    fcuda_lock();
    fcuda.device_count = count;
    fcuda_unlock();
    return true;
}

bool fake_cuda_context_active(int device)
{
    fcuda_lock();
    bool active = fcuda_device_exists(device) && fcuda.devices[device].context;
    fcuda_unlock();
    return active;
}

bool fake_cuda_activate_context(int device)
{
    fcuda_lock();
    bool exists = fcuda_device_exists(device);
    if (exists)
        fcuda_device_use(device);
    fcuda_unlock();
    return exists;
}

bool fake_cuda_kill_device(int device, int error)
{
    fcuda_lock();
    bool exists = fcuda_device_exists(device);
    if (exists)
        fcuda.devices[device].sticky_error = error;
    fcuda_unlock();
    return exists;
}

bool fake_cuda_drift(int device, int64_t parts_per_billion)
{
    fcuda_lock();
    bool exists = fcuda_device_exists(device);
    if (exists)
        fcuda.devices[device].drift_ppb = parts_per_billion;
    fcuda_unlock();
    return exists;
}
