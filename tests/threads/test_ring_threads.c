/* One ring per producer, one consumer for all: attempts = popped + dropped, exactly, nothing torn or reordered. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <unistd.h>

#include "ring.h"

#define MAX_PRODUCERS 16
#define PUSHES 200000

struct producer {
    pthread_t thread;
    struct tml_ring ring;
    uint64_t accepted, refused; /* as the producer saw it */
    uint64_t popped, torn, reordered, last;
};

static struct producer producers[MAX_PRODUCERS];
static _Atomic unsigned running;

static void *produce(void *argument)
{
    struct producer *self = argument;
    for (uint64_t i = 1; i <= PUSHES; i++) {
        struct tml_record record = {.iteration = i, .begin_ns = (int64_t)i, .end_ns = (int64_t)(i * 3)};
        if (tml_ring_push_sp(&self->ring, &record))
            self->accepted++;
        else
            self->refused++;
    }
    atomic_fetch_sub_explicit(&running, 1, memory_order_release);
    return NULL;
}

static bool drain(struct producer *self)
{
    struct tml_record record;
    bool any = false;
    while (tml_ring_pop_sc(&self->ring, &record)) {
        any = true;
        self->popped++;
        self->torn += record.end_ns != record.begin_ns * 3 || record.iteration != (uint64_t)record.begin_ns;
        self->reordered += record.iteration <= self->last;
        self->last = record.iteration;
    }
    return any;
}

static void attempts_are_popped_plus_dropped(void **state)
{
    (void)state;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned count = cores + 1 < MAX_PRODUCERS ? (unsigned)cores + 1 : MAX_PRODUCERS;
    atomic_store_explicit(&running, count, memory_order_relaxed);
    for (unsigned i = 0; i < count; i++) {
        assert_true(tml_ring_open(&producers[i].ring, 256));
        assert_int_equal(pthread_create(&producers[i].thread, NULL, produce, &producers[i]), 0);
    }
    bool any = true;
    while (any || atomic_load_explicit(&running, memory_order_acquire)) {
        any = false;
        for (unsigned i = 0; i < count; i++)
            any = drain(&producers[i]) || any;
    }
    for (unsigned i = 0; i < count; i++) {
        struct producer *p = &producers[i];
        pthread_join(p->thread, NULL);
        drain(p);
        assert_int_equal(p->ring.attempts, PUSHES);
        assert_int_equal(p->popped, p->accepted);
        assert_int_equal(p->ring.dropped, p->refused);
        assert_int_equal(p->popped + p->ring.dropped, p->ring.attempts);
        assert_int_equal(p->torn, 0);
        assert_int_equal(p->reordered, 0);
        tml_ring_close(&p->ring);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(attempts_are_popped_plus_dropped)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
