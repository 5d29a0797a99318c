/* What a test can tell the fake CUDA, and ask it. The fake has no GPU: only streams, events and a clock.
 * Owner: the fake owns everything; handles are opaque, and one from before fake_cuda_reset() is no longer valid.
 * Who may call it: any thread, at any time; the calls are serialised by one lock and are not in the log.
 * Units: nanoseconds on the device's clock, which is the host's unless a test sets a drift.
 * Depends on: libfakegpu alone; libfakecudart and libfakecuda are found at run time, as the product finds the real
 * ones.
 *
 * Streams are named by handle, as in CUDA: 0 and 1 the legacy default stream and 2 the calling thread's own default
 * stream, both of the device named (or the current one); any other handle comes from cudaStreamCreateWithFlags.
 * Streams do not wait for each other by themselves: the legacy stream's implicit waiting is not modelled.
 * Errors are CUDA's numbers.
 *
 * Environment: FAKE_CUDA_FOLLOW_HOST=1; FAKE_CUDA_DEVICES=N; FAKE_CUDA_LOG=PATH: at exit one line "name count" for each
 * function, then forbidden_calls, misuses, live_events, peak_events, live_streams and peak_streams. "%p" in PATH is the
 * process id. A process without any call overwrites no file; a forked child with calls of its own writes PATH.PID. */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_CUDA_API __attribute__((visibility("default")))

enum fake_cuda_capture_mode { FAKE_CUDA_CAPTURE_GLOBAL, FAKE_CUDA_CAPTURE_THREAD_LOCAL, FAKE_CUDA_CAPTURE_RELAXED };

/* One logged call. `handle` is the call's event, else its stream or its pointer, else NULL. */
struct fake_cuda_entry {
    long thread;          /* the kernel's thread id */
    const char *function; /* a static string */
    int device;           /* current device of the thread */
    const void *handle;
    int64_t at_ns;
};

/* Everything as at load, for all threads: clock, devices, objects, errors, log. Frees the memory that the fake gave
 * out. Handles of before become invalid, never reused for others. */
FAKE_CUDA_API void fake_cuda_reset(void);

/* ---- clock */
FAKE_CUDA_API int64_t fake_cuda_now_ns(void);
/* Lets time pass; without effect while the host's clock is followed. */
FAKE_CUDA_API void fake_cuda_advance(int64_t ns);
/* 1: the clock is CLOCK_MONOTONIC from now on, and blocking calls really wait. 0: it stands still where it is. Turn it
 * on before there is work. With a standing clock a blocking call lets time pass to the end of what it waits for. */
FAKE_CUDA_API void fake_cuda_follow_host_clock(int on);
/* The device's clock runs this much faster (parts in 10^9): elapsed times stretch, nothing else changes. */
FAKE_CUDA_API bool fake_cuda_drift(int device, int64_t parts_per_billion);

/* ---- devices and contexts */
FAKE_CUDA_API bool fake_cuda_set_device_count(int count); /* default 2; 0 to 16; call it before there is work */
FAKE_CUDA_API bool fake_cuda_context_active(int device);
/* What a framework's start would do: the context is there, but bound to no thread. */
FAKE_CUDA_API bool fake_cuda_activate_context(int device);

/* ---- work */
/* Queues work that begins when the stream has done what it holds. Answers a CUDA error. Makes the context. */
FAKE_CUDA_API int fake_cuda_work(int device, const void *stream, int64_t duration_ns);
/* The device time that every call of this function puts on its stream (kernel launch, copies, sets, event record);
 * default 0. False for a function that does not exist. */
FAKE_CUDA_API bool fake_cuda_takes(const char *function, int64_t duration_ns);

/* ---- what goes wrong */
/* The k-th next call of this function (1: the next; 0: every one) fails with this error and does nothing else. Error 0
 * withdraws it. False for a function that does not exist. */
FAKE_CUDA_API bool fake_cuda_fail_call(const char *function, unsigned kth, int error);
/* From now on every call that reaches this device fails with this error (a sticky one, as 719), also after
 * cudaGetLastError. As on a real one, cudaGetDevice, cudaSetDevice, cudaGetDeviceCount, cudaPointerGetAttributes,
 * cudaThreadExchangeStreamCaptureMode and the versions do not reach it, and the driver says its context is active. */
FAKE_CUDA_API bool fake_cuda_kill_device(int device, int error);
/* A stuck stream: what is queued from now on waits, in order, until it is let go. A destroyed stream is let go.
 * (Another stream that was told to wait for an event that is stuck or hangs never goes on.) */
FAKE_CUDA_API int fake_cuda_block_stream(int device, const void *stream);
FAKE_CUDA_API int fake_cuda_unblock_stream(int device, const void *stream);
/* This event's latest record alone does not complete, whatever its stream does; another record of it is free again. */
FAKE_CUDA_API bool fake_cuda_hang_event(const void *event);
/* The same for the next `count` records, of whichever events. */
FAKE_CUDA_API void fake_cuda_hang_next_records(unsigned count);
/* Lets a hanging event (NULL: all of them) complete now. */
FAKE_CUDA_API void fake_cuda_release_event(const void *event);

/* ---- capture */
/* What cudaStreamBeginCapture answers; `mode` as in enum fake_cuda_capture_mode. On the current device. */
FAKE_CUDA_API int fake_cuda_begin_capture(const void *stream, int mode);
/* True if the capture was there and nothing had broken it. */
FAKE_CUDA_API bool fake_cuda_end_capture(const void *stream);

/* ---- what was called */
/* UINT64_MAX for a function that does not exist, so that a misspelt name cannot pass for "never called". Lock-free. */
FAKE_CUDA_API uint64_t fake_cuda_calls(const char *function);
/* Calls of cuda*Synchronize, cudaMemcpy*, cudaMalloc*, cudaFree* and cudaHost*. Lock-free. */
FAKE_CUDA_API uint64_t fake_cuda_forbidden_calls(void);
/* Calls of all functions. Lock-free. */
FAKE_CUDA_API uint64_t fake_cuda_all_calls(void);
/* The latest calls (at most 8192 are kept), oldest first; answers how many were written. */
FAKE_CUDA_API size_t fake_cuda_log(struct fake_cuda_entry *entries, size_t capacity);

/* ---- objects. A stream counts if it was created; default streams do not. */
FAKE_CUDA_API size_t fake_cuda_live_events(void);
FAKE_CUDA_API size_t fake_cuda_peak_events(void);
FAKE_CUDA_API size_t fake_cuda_live_streams(void);
FAKE_CUDA_API size_t fake_cuda_peak_streams(void);
/* Uses of a handle that was destroyed or never existed: the fake answers 400, the real one crashes. */
FAKE_CUDA_API uint64_t fake_cuda_misuses(void);

#endif
