/* What was called: a counter a function, the latest calls, and the counters written to a file at exit. */
#include "fake_cuda_state.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ENTRIES_KEPT 8192

static const struct {
    const char *name;
    unsigned traits;
} functions[] = {
#define X(name, result, parameters, traits) {#name, traits},
    FAKE_CUDA_LIST(X)
#undef X
};

/* Atomic so that they can be read without the lock, by a forked child too, where a lock held at the fork would stay
 * so. Relaxed everywhere: a count orders nothing, and a test that needs an exact one has joined its threads. */
static _Atomic uint64_t counts[FCUDA_FUNCTION_COUNT];
static _Atomic uint64_t misuses;

static struct fake_cuda_entry entries[ENTRIES_KEPT]; /* under the lock */
static uint64_t entries_added;
static bool is_forked_child;
static uint64_t calls_at_fork;

static _Thread_local long own_tid;

int fcuda_function_find(const char *name)
{
    for (int i = 0; i < FCUDA_FUNCTION_COUNT; i++)
        if (strcmp(functions[i].name, name) == 0)
            return i;
    return -1;
}

unsigned fcuda_function_traits(enum fcuda_function function)
{
    return functions[function].traits;
}

static uint64_t count_of(int function)
{
    return atomic_load_explicit(&counts[function], memory_order_relaxed);
}

void fcuda_log_add(enum fcuda_function function, int device, const void *handle)
{
    if (own_tid == 0)
        own_tid = syscall(SYS_gettid);
    atomic_fetch_add_explicit(&counts[function], 1, memory_order_relaxed);
    entries[entries_added++ % ENTRIES_KEPT] = (struct fake_cuda_entry){
        .thread = own_tid,
        .function = functions[function].name,
        .device = device,
        .handle = handle,
        .at_ns = fcuda_clock_now(),
    };
}

void fcuda_log_misuse(void)
{
    atomic_fetch_add_explicit(&misuses, 1, memory_order_relaxed);
}

/* The child's thread has another id than the one remembered, and must not write over its parent's file. */
void fcuda_log_forked(void)
{
    own_tid = 0;
    is_forked_child = true;
    calls_at_fork = fake_cuda_all_calls();
}

void fcuda_log_reset(void)
{
    for (int i = 0; i < FCUDA_FUNCTION_COUNT; i++)
        atomic_store_explicit(&counts[i], 0, memory_order_relaxed);
    atomic_store_explicit(&misuses, 0, memory_order_relaxed);
    entries_added = 0;
}

uint64_t fake_cuda_calls(const char *function)
{
    int found = fcuda_function_find(function);

    return found < 0 ? UINT64_MAX : count_of(found);
}

static uint64_t calls_with(unsigned traits)
{
    uint64_t calls = 0;

    for (int i = 0; i < FCUDA_FUNCTION_COUNT; i++)
        if ((functions[i].traits & traits) == traits)
            calls += count_of(i);
    return calls;
}

uint64_t fake_cuda_forbidden_calls(void)
{
    return calls_with(FCUDA_FORBIDDEN);
}

uint64_t fake_cuda_all_calls(void)
{
    return calls_with(0);
}

uint64_t fake_cuda_misuses(void)
{
    return atomic_load_explicit(&misuses, memory_order_relaxed);
}

size_t fake_cuda_log(struct fake_cuda_entry *out, size_t capacity)
{
    fcuda_lock();
    uint64_t kept = entries_added < ENTRIES_KEPT ? entries_added : ENTRIES_KEPT;
    size_t written = kept < capacity ? (size_t)kept : capacity;
    for (size_t i = 0; i < written; i++)
        out[i] = entries[(entries_added - written + i) % ENTRIES_KEPT];
    fcuda_unlock();
    return written;
}

/* "%p" becomes the process id: the ranks of one launch share their environment, and would share the file. */
static bool log_name(const char *path, char *name, size_t capacity)
{
    const char *mark = strstr(path, "%p");
    int prefix = mark ? (int)(mark - path) : (int)strlen(path);
    char pid[24] = "";

    if (mark || is_forked_child)
        snprintf(pid, sizeof(pid), mark ? "%ld" : ".%ld", (long)getpid());
    int length = snprintf(name, capacity, "%.*s%s%s", prefix, path, pid, mark ? mark + 2 : "");
    return length > 0 && (size_t)length < capacity;
}

/* Every program that inherits the environment comes here, the shell around the test too: one that made no call must
 * not write over the counters of one that did, and a forked child of that kind leaves no file at all. */
static FILE *open_log(void)
{
    char name[4096];
    const char *path = getenv("FAKE_CUDA_LOG");
    bool called = fake_cuda_all_calls() > calls_at_fork;

    if (!path || !*path || (is_forked_child && !called) || !log_name(path, name, sizeof(name)))
        return NULL;
    return fopen(name, called ? "w" : "wx");
}

__attribute__((destructor)) static void write_log(void)
{
    FILE *log = open_log();

    if (!log)
        return;
    for (int i = 0; i < FCUDA_FUNCTION_COUNT; i++)
        fprintf(log, "%s %" PRIu64 "\n", functions[i].name, count_of(i));
    fprintf(log, "forbidden_calls %" PRIu64 "\nmisuses %" PRIu64 "\n", fake_cuda_forbidden_calls(),
            fake_cuda_misuses());
    fprintf(log, "live_events %zu\npeak_events %zu\nlive_streams %zu\npeak_streams %zu\n", fake_cuda_live_events(),
            fake_cuda_peak_events(), fake_cuda_live_streams(), fake_cuda_peak_streams());
    fclose(log);
}
