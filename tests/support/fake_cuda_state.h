/* The inside of the fake GPU, shared by its own files (libfakegpu) and by the two libraries of entry points.
 * Owner: one static state a process, `fcuda`; objects are slots of fixed tables, so a handle can always be checked.
 * Who may call it: the fake's files; all but fcuda_enter, fcuda_log_* and fcuda_thread_tid with the lock held.
 * Units: nanoseconds on the device's clock.
 * Depends on: fake_cuda.h, fake_cuda_list.h, POSIX threads. */
#ifndef FAKE_CUDA_STATE_H
#define FAKE_CUDA_STATE_H

#include "fake_cuda.h"
#include "fake_cuda_list.h"

#include <pthread.h>

/* Called by the libraries of entry points, so visible where the rest of libfakegpu is hidden. */
#define FCUDA_SHARED __attribute__((visibility("default")))

#define FCUDA_MAX_DEVICES 16
#define FCUDA_MAX_STREAMS 4096
#define FCUDA_MAX_EVENTS 65536
#define FCUDA_VERSION 13000
#define FCUDA_FOREVER INT64_MAX /* the completion time of what never completes */

enum fcuda_error {
    FCUDA_OK = 0,
    FCUDA_INVALID_VALUE = 1,
    FCUDA_OUT_OF_MEMORY = 2,
    FCUDA_NOT_INITIALIZED = 3,
    FCUDA_INVALID_COPY_KIND = 21,
    FCUDA_INVALID_FUNCTION = 98,
    FCUDA_NO_DEVICE = 100,
    FCUDA_INVALID_DEVICE = 101,
    FCUDA_INVALID_CONTEXT = 201,
    FCUDA_INVALID_HANDLE = 400,
    FCUDA_ILLEGAL_STATE = 401,
    FCUDA_NOT_READY = 600,
    FCUDA_TIMEOUT = 702, /* the fake's answer to a wait for what never completes: a test must not hang */
    FCUDA_ALREADY_REGISTERED = 712,
    FCUDA_NOT_REGISTERED = 713,
    FCUDA_CAPTURE_UNSUPPORTED = 900,
    FCUDA_CAPTURE_INVALIDATED = 901,
    FCUDA_CAPTURE_MERGE = 902,
    FCUDA_CAPTURE_ISOLATION = 905,
    FCUDA_CAPTURE_IMPLICIT = 906,
    FCUDA_CAPTURED_EVENT = 907,
};

/* What CUDA keeps per thread. */
struct fcuda_thread {
    unsigned epoch;  /* of the latest reset that this thread has seen */
    uint64_t serial; /* never reused, unlike a thread id */
    int device;
    int bound_device; /* whose context is current on the thread; -1: none */
    int last_error;
    int capture_mode;
};

struct fcuda_device {
    bool context;
    int sticky_error;
    int64_t drift_ppb;
};

struct fcuda_capture {
    bool live;
    bool broken;
    int mode;
    uint64_t owner;  /* serial of the thread that began it */
    unsigned serial; /* tells an event of an earlier capture in this slot from one of this capture */
};

enum fcuda_stream_kind { FCUDA_LEGACY, FCUDA_PER_THREAD, FCUDA_BLOCKING, FCUDA_NON_BLOCKING };

struct fcuda_stream {
    bool live;
    unsigned generation;
    enum fcuda_stream_kind kind;
    int device;
    uint64_t owner;  /* serial of the thread, for a per-thread stream */
    int64_t done_ns; /* when all that it holds is done */
    bool blocked;
    int64_t blocked_from_ns; /* when what was queued since would have begun */
    struct fcuda_capture *capture;
};

struct fcuda_event {
    bool live;
    unsigned generation;
    bool timed;
    bool recorded;
    bool hung;
    int device;
    int64_t done_ns;                 /* of the latest record */
    struct fcuda_stream *blocked_on; /* the stuck stream that it waits in */
    struct fcuda_capture *capture;   /* the capture of its latest record */
    unsigned capture_serial;
};

struct fcuda_state {
    pthread_mutex_t lock;
    unsigned epoch;
    bool initialized; /* cuInit was called, by whomever */
    bool forked;      /* this process is the child of one that had initialised: CUDA is unusable in it */
    int device_count;
    struct fcuda_device devices[FCUDA_MAX_DEVICES];
};

extern struct fcuda_state fcuda;

/* One call of an entry point, from fcuda_enter to fcuda_leave; the lock is held in between. */
struct fcuda_call {
    enum fcuda_function function;
    struct fcuda_thread *thread;
};

/* fake_cuda_call.c: logs, makes the context, and answers the error that the call must return without doing its work */
FCUDA_SHARED int fcuda_enter(struct fcuda_call *call, enum fcuda_function function, const void *handle);
FCUDA_SHARED int fcuda_leave(struct fcuda_call *call, int error);        /* notes the last error */
FCUDA_SHARED int fcuda_leave_silent(struct fcuda_call *call, int error); /* does not: the driver, cudaGetLastError */
int64_t fcuda_call_takes_ns(enum fcuda_function function);
void fcuda_call_reset(void);

/* fake_cuda_device.c */
void fcuda_lock(void);
void fcuda_unlock(void);
struct fcuda_thread *fcuda_thread_self(void);
void fcuda_device_use(int device); /* makes its context */
FCUDA_SHARED int fcuda_device_select(struct fcuda_thread *thread, int device);
FCUDA_SHARED bool fcuda_device_exists(int device);
FCUDA_SHARED int fcuda_device_count(void);
FCUDA_SHARED int fcuda_device_init(void); /* what cuInit does */
FCUDA_SHARED int fcuda_device_active(int device);
FCUDA_SHARED int fcuda_device_error(int device);     /* that it died of; 0: it lives */
FCUDA_SHARED void *fcuda_device_context(int device); /* its opaque handle; NULL for device -1 */

/* fake_cuda_clock.c */
int64_t fcuda_clock_now(void);
int64_t fcuda_clock_add(int64_t ns, int64_t more); /* FCUDA_FOREVER stays it */
int fcuda_clock_wait(int64_t until_ns);            /* lets go of the lock while it really waits */
void fcuda_clock_reset(void);

/* fake_cuda_log.c */
int fcuda_function_find(const char *name); /* -1: no such function */
unsigned fcuda_function_traits(enum fcuda_function function);
void fcuda_log_add(enum fcuda_function function, int device, const void *handle);
void fcuda_log_misuse(void);
void fcuda_log_forked(void);
void fcuda_log_reset(void);

/* fake_cuda_stream.c */
int fcuda_stream_find(struct fcuda_thread *thread, int device, const void *handle, struct fcuda_stream **stream);
int fcuda_stream_submit(struct fcuda_stream *stream, int64_t duration_ns);
int64_t fcuda_stream_queue(struct fcuda_stream *stream, int64_t duration_ns);
struct fcuda_stream *fcuda_stream_next(struct fcuda_stream *after); /* the next live one; NULL begins and ends */
void fcuda_stream_reset(void);
FCUDA_SHARED int fcuda_stream_create(struct fcuda_thread *thread, cudaStream_t *handle, unsigned flags);
FCUDA_SHARED int fcuda_stream_destroy(struct fcuda_thread *thread, cudaStream_t handle);
FCUDA_SHARED int fcuda_stream_query(struct fcuda_thread *thread, cudaStream_t handle);
FCUDA_SHARED int fcuda_stream_synchronize(struct fcuda_thread *thread, cudaStream_t handle);
FCUDA_SHARED int fcuda_stream_wait_event(struct fcuda_thread *thread, cudaStream_t handle, cudaEvent_t event);
FCUDA_SHARED int fcuda_stream_synchronize_all(struct fcuda_thread *thread);
FCUDA_SHARED int fcuda_stream_launch(struct fcuda_call *call, cudaStream_t handle, bool *captured);

/* fake_cuda_event.c */
int fcuda_event_find(const void *handle, struct fcuda_event **event);
bool fcuda_event_pending(const struct fcuda_event *event);
void fcuda_event_shift(const struct fcuda_stream *stream, int64_t by_ns); /* a stuck stream was let go */
void fcuda_event_reset(void);
FCUDA_SHARED int fcuda_event_create(struct fcuda_thread *thread, cudaEvent_t *handle, unsigned flags);
FCUDA_SHARED int fcuda_event_destroy(cudaEvent_t handle);
FCUDA_SHARED int fcuda_event_record(struct fcuda_call *call, cudaEvent_t handle, cudaStream_t stream);
FCUDA_SHARED int fcuda_event_query(struct fcuda_thread *thread, cudaEvent_t handle);
FCUDA_SHARED int fcuda_event_synchronize(struct fcuda_thread *thread, cudaEvent_t handle);
FCUDA_SHARED int fcuda_event_elapsed(float *ms, cudaEvent_t start, cudaEvent_t end);

/* fake_cuda_capture.c */
/* An unsafe call by this thread: breaks the captures that its mode does not let it ignore; 0 if there is none. */
int fcuda_capture_refuse(const struct fcuda_thread *thread);
/* Use of a legacy stream while a blocking stream of its device is in capture: 906, and breaks that one if `harm`. */
int fcuda_capture_implicit(const struct fcuda_stream *stream, bool harm);
bool fcuda_capture_current(const struct fcuda_capture *capture, unsigned serial); /* still that capture, not ended */
void fcuda_capture_drop(struct fcuda_capture *capture);                           /* a stream of it was destroyed */
void fcuda_capture_reset(void);
FCUDA_SHARED int fcuda_capture_status(struct fcuda_thread *thread, cudaStream_t handle, int *status);
FCUDA_SHARED int fcuda_capture_exchange(struct fcuda_thread *thread, int *mode);

/* fake_cuda_memory.c */
enum fcuda_memory_kind { FCUDA_UNREGISTERED, FCUDA_HOST, FCUDA_DEVICE, FCUDA_REGISTERED };
FCUDA_SHARED int fcuda_memory_take(struct fcuda_thread *thread, enum fcuda_memory_kind kind, void **at, size_t bytes);
FCUDA_SHARED int fcuda_memory_register(struct fcuda_thread *thread, void *at, size_t bytes);
FCUDA_SHARED int fcuda_memory_give_back(enum fcuda_memory_kind kind, void *at);
FCUDA_SHARED int fcuda_memory_take_async(struct fcuda_thread *thread, void **at, size_t bytes, cudaStream_t stream);
FCUDA_SHARED void fcuda_memory_describe(const void *pointer, struct cudaPointerAttributes *attributes);
void fcuda_memory_reset(void);

/* A handle holds its kind, generation and slot, within what a user-space pointer may be: an old one is told from a new
 * one in the same slot, and nothing is ever read through it. */
enum fcuda_handle_kind { FCUDA_EVENT_HANDLE = 1, FCUDA_STREAM_HANDLE = 2, FCUDA_CONTEXT_HANDLE = 3 };
#define FCUDA_GENERATIONS (1u << 24)

static inline void *fcuda_handle(enum fcuda_handle_kind kind, unsigned generation, size_t slot)
{
    return (void *)(((uintptr_t)kind << 44) | ((uintptr_t)(generation % FCUDA_GENERATIONS) << 20) | slot << 4);
}

static inline size_t fcuda_handle_slot(const void *handle)
{
    return ((uintptr_t)handle >> 4) & 0xffff;
}

#endif
