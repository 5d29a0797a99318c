/* The clock that host and device share: stands still until a test moves it, or follows the host's. */
#include "fake_cuda_state.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

/* Not 0, so that a time that was never set cannot pass for one. */
#define START_NS 1000000000

static int64_t standing_ns = START_NS;
static bool follows_host;

static int64_t host_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t fcuda_clock_now(void)
{
    return follows_host ? host_ns() : standing_ns;
}

int64_t fcuda_clock_add(int64_t ns, int64_t more)
{
    return ns > FCUDA_FOREVER - more ? FCUDA_FOREVER : ns + more;
}

static void host_wait(int64_t until_ns)
{
    struct timespec until = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}

int fcuda_clock_wait(int64_t until_ns)
{
    if (until_ns == FCUDA_FOREVER)
        return FCUDA_TIMEOUT;
    if (!follows_host) {
        if (standing_ns < until_ns)
            standing_ns = until_ns;
        return FCUDA_OK;
    }
    fcuda_unlock(); /* other threads go on while this one waits */
    host_wait(until_ns);
    fcuda_lock();
    return FCUDA_OK;
}

void fcuda_clock_reset(void)
{
    const char *follow = getenv("FAKE_CUDA_FOLLOW_HOST");

    standing_ns = START_NS;
    follows_host = follow && follow[0] == '1';
}

int64_t fake_cuda_now_ns(void)
{
    fcuda_lock();
    int64_t now_ns = fcuda_clock_now();
    fcuda_unlock();
    return now_ns;
}

void fake_cuda_advance(int64_t ns)
{
    fcuda_lock();
    standing_ns = fcuda_clock_add(standing_ns, ns);
    fcuda_unlock();
}

void fake_cuda_follow_host_clock(int on)
{
    fcuda_lock();
    if (!on)
        standing_ns = fcuda_clock_now();
    follows_host = on != 0;
    fcuda_unlock();
}
