/*
 * What one span costs the training thread, beside the sum of the primitives it is made of, interleaved in one loop:
 *   without events   two clock reads
 *   with events      two clock reads, two cudaStreamIsCapturing, two cudaEventRecord (where there is a GPU)
 * Prints a table: median ns of the rounds and the quartiles.
 *
 *   bench_span [LOGS_DIR] [ROUNDS]
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "clock.h"
#include "cuda_runtime.h"
#include "recorder.h"
#include "traceml/traceml.h"

enum { PAIRS_A_ROUND = 2000, EVENT_PAIRS_A_ROUND = 200, MAX_ROUNDS = 1000 };

struct row {
    const char *name;
    double ns[MAX_ROUNDS];
};

static volatile int64_t sink_ns;

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_row(struct row *row, int rounds)
{
    qsort(row->ns, (size_t)rounds, sizeof *row->ns, by_value);
    printf("  %-44s %9.1f   [%.1f, %.1f]\n", row->name, row->ns[rounds / 2], row->ns[rounds / 4],
           row->ns[rounds * 3 / 4]);
}

static double clock_pairs(int pairs)
{
    int64_t begin_ns = tml_now_ns();
    for (int i = 0; i < 2 * pairs; i++)
        sink_ns = tml_now_ns();
    return (double)(tml_now_ns() - begin_ns) / pairs;
}

static double span_pairs(struct traceml_session *session, struct traceml_stream stream, int pairs)
{
    int64_t begin_ns = tml_now_ns();
    for (int i = 0; i < pairs; i++)
        traceml_end(session, traceml_begin(session, TRACEML_PHASE_USER, stream), 0);
    return (double)(tml_now_ns() - begin_ns) / pairs;
}

static double step_pairs(struct traceml_session *session, struct traceml_stream stream, int pairs)
{
    int64_t begin_ns = tml_now_ns();
    for (int i = 0; i < pairs; i++)
        traceml_step_end(session, traceml_step_begin(session, stream), 0);
    return (double)(tml_now_ns() - begin_ns) / pairs;
}

/* What the spans of a round and their primitives cost, pair by pair in turn. Each sum holds one clock read a pair. */
struct sums {
    int64_t capturing_ns, records_ns, spans_ns;
};

static struct sums event_pairs(struct traceml_session *session, struct tml_cuda *cuda, void *const *events, int pairs)
{
    struct sums sums = {0};
    int capturing;
    for (int i = 0; i < pairs; i++) {
        int64_t begin_ns = tml_now_ns();
        cuda->cudaStreamIsCapturing(NULL, &capturing);
        cuda->cudaStreamIsCapturing(NULL, &capturing);
        int64_t asked_ns = tml_now_ns();
        cuda->cudaEventRecord(events[2 * i], NULL);
        cuda->cudaEventRecord(events[2 * i + 1], NULL);
        int64_t recorded_ns = tml_now_ns();
        traceml_end(session, traceml_begin(session, TRACEML_PHASE_USER, (struct traceml_stream){0, NULL}), 0);
        int64_t end_ns = tml_now_ns();
        sums.capturing_ns += asked_ns - begin_ns;
        sums.records_ns += recorded_ns - asked_ns;
        sums.spans_ns += end_ns - recorded_ns;
    }
    return sums;
}

/* The spans of a round are within what ring and pool hold; the sampler then gets the time to empty them. */
static void let_drain(struct traceml_session *session)
{
    traceml_step_end(session, traceml_step_begin(session, TRACEML_NO_STREAM), 0);
    traceml_flush(session, 1000);
}

static bool make_device_live(struct tml_cuda *cuda)
{
    /* A program with a GPU would have done this; the library itself never does. */
    return tml_cuda_find(cuda) && cuda->cudaSetDevice(0) == 0 && tml_cuda_device_live(cuda, 0);
}

static void bench_host(struct traceml_session *session, int rounds)
{
    static struct row clocks = {.name = "two clock reads"}, spans = {.name = "begin + end, no events"},
                      steps = {.name = "step begin + end, no events"},
                      beyond = {.name = "beyond its clock reads (bound: 40)"};
    for (int i = 0; i < rounds; i++) {
        clocks.ns[i] = clock_pairs(PAIRS_A_ROUND);
        spans.ns[i] = span_pairs(session, TRACEML_NO_STREAM, PAIRS_A_ROUND);
        steps.ns[i] = step_pairs(session, TRACEML_NO_STREAM, PAIRS_A_ROUND);
        beyond.ns[i] = spans.ns[i] - clocks.ns[i];
        let_drain(session);
    }
    printf("C span without events, ns a pair: median of %d rounds of %d [quartiles]\n", rounds, PAIRS_A_ROUND);
    print_row(&clocks, rounds);
    print_row(&spans, rounds);
    print_row(&beyond, rounds);
    print_row(&steps, rounds);
}

/* The sampler reads a span's events before they are used again, which takes their memory to another core. */
static void *read_events(void *argument)
{
    void *const *events = argument;
    struct tml_cuda *cuda = tml_recording.cuda;
    for (int i = 0; i < 2 * EVENT_PAIRS_A_ROUND; i++)
        sink_ns = tml_cuda_elapsed_ns(cuda, events[0], events[i]);
    return NULL;
}

static void read_elsewhere(void **events)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, read_events, events) == 0)
        pthread_join(thread, NULL);
}

static void bench_events(struct traceml_session *session, int rounds)
{
    static struct row capturing = {.name = "two cudaStreamIsCapturing"}, spans = {.name = "begin + end, with events"};
    /* [0]: the bench's events stay with this thread; [1]: another has read them, as with the span's. */
    static struct row records[2] = {{.name = "two cudaEventRecord"}, {.name = "the same, events read elsewhere"}};
    static struct row beyond[2] = {{.name = "beyond these primitives (bound: 100)"},
                                   {.name = "the same, events read elsewhere"}};
    struct tml_cuda *cuda = tml_recording.cuda;
    struct traceml_stream stream = {0, NULL};
    void *events[2 * EVENT_PAIRS_A_ROUND];
    if (!make_device_live(cuda)) {
        printf("C span with events: no GPU here, not measured\n");
        return;
    }
    for (int i = 0; i < 2 * EVENT_PAIRS_A_ROUND; i++)
        events[i] = tml_cuda_event_create(cuda, 0);
    let_drain(session);
    for (int i = 0; i < rounds; i++) {
        bool elsewhere = i % 2;
        if (elsewhere)
            read_elsewhere(events);
        double clock_ns = clock_pairs(EVENT_PAIRS_A_ROUND) / 2;
        /* Inside a step, so that the pool is the step thread's. */
        traceml_span step = traceml_step_begin(session, stream);
        struct sums sums = event_pairs(session, cuda, events, EVENT_PAIRS_A_ROUND);
        traceml_step_end(session, step, 0);
        capturing.ns[i] = (double)sums.capturing_ns / EVENT_PAIRS_A_ROUND - clock_ns;
        records[elsewhere].ns[i / 2] = (double)sums.records_ns / EVENT_PAIRS_A_ROUND - clock_ns;
        spans.ns[i] = (double)sums.spans_ns / EVENT_PAIRS_A_ROUND - clock_ns;
        beyond[elsewhere].ns[i / 2] = spans.ns[i] - records[elsewhere].ns[i / 2] - capturing.ns[i];
        traceml_flush(session, 1000);
    }
    printf("C span with events, ns a pair: median of %d rounds of %d [quartiles]\n", rounds, EVENT_PAIRS_A_ROUND);
    print_row(&capturing, rounds);
    print_row(&records[0], rounds / 2);
    print_row(&records[1], rounds / 2);
    print_row(&spans, rounds);
    print_row(&beyond[0], rounds / 2);
    print_row(&beyond[1], rounds / 2);
    for (int i = 0; i < 2 * EVENT_PAIRS_A_ROUND; i++)
        cuda->cudaEventDestroy(events[i]);
}

int main(int argc, char **argv)
{
    struct traceml_options options;
    struct traceml_session *session;
    char error[512];
    int rounds = argc > 2 ? atoi(argv[2]) : 200;
    traceml_options_init(&options);
    options.program = "bench_span";
    options.logs_dir = argc > 1 ? argv[1] : "logs";
    options.max_steps = 0;
    if (rounds < 4 || rounds > MAX_ROUNDS) {
        fprintf(stderr, "bench_span: ROUNDS is 4 to %d\n", MAX_ROUNDS);
        return 2;
    }
    if (traceml_session_open(&options, &session, error, sizeof error) != TRACEML_OK) {
        fprintf(stderr, "bench_span: %s\n", error);
        return 1;
    }
    span_pairs(session, TRACEML_NO_STREAM, PAIRS_A_ROUND);
    let_drain(session);
    bench_host(session, rounds);
    bench_events(session, rounds);
    traceml_session_close(session, NULL);
    return 0;
}
