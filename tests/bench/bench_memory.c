/*
 * Resident memory of a process after 100,000 and after 1,000,000 steps of five spans: it must not grow with the run.
 * Exits 1 when it grew by 1 MiB or more, or when anything was lost.
 *
 *   bench_memory [LOGS_DIR] [STEPS] [events]     `events`: spans on the fake CUDA that TRACEML_CUDART names
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_cuda.h"
#include "recorder.h"
#include "traceml/traceml.h"

static long resident_kib(void)
{
    char line[256];
    long kib = -1;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "VmRSS: %ld", &kib) == 1)
            break;
    if (file)
        fclose(file);
    return kib;
}

static void step(struct traceml_session *session, struct traceml_stream stream)
{
    static const enum traceml_phase inside[] = {TRACEML_PHASE_FORWARD, TRACEML_PHASE_BACKWARD, TRACEML_PHASE_OPTIMIZER};
    traceml_end(session, traceml_begin(session, TRACEML_PHASE_DATALOADER_FETCH, stream), 0);
    traceml_span whole = traceml_step_begin(session, stream);
    for (unsigned i = 0; i < sizeof inside / sizeof *inside; i++)
        traceml_end(session, traceml_begin(session, inside[i], stream), 0);
    traceml_step_end(session, whole, 0);
}

int main(int argc, char **argv)
{
    struct traceml_options options;
    struct traceml_session *session;
    char error[512];
    long steps = argc > 2 ? atol(argv[2]) : 1000000, early_kib = 0;
    struct traceml_stream stream = TRACEML_NO_STREAM;
    if (argc > 3 && fake_cuda_activate_context(0))
        stream = (struct traceml_stream){0, NULL};
    traceml_options_init(&options);
    options.program = "bench_memory";
    options.logs_dir = argc > 1 ? argv[1] : "logs";
    if (traceml_session_open(&options, &session, error, sizeof error) != TRACEML_OK) {
        fprintf(stderr, "bench_memory: %s\n", error);
        return 1;
    }
    for (long i = 1; i <= steps; i++) {
        step(session, stream);
        if (i % 500 == 0) /* as fast as the sampler can follow, so that nothing is dropped */
            traceml_flush(session, 1000);
        if (i == steps / 10)
            early_kib = resident_kib();
    }
    long late_kib = resident_kib();
    uint64_t lost = tml_recorders_loss(TML_LOSS_RING_FULL);
    traceml_session_close(session, NULL);
    printf("resident after %ld steps %ld KiB, after %ld steps %ld KiB: grew by %ld KiB (bound: 1024); %" PRIu64
           " records lost\n",
           steps / 10, early_kib, steps, late_kib, late_kib - early_kib, lost);
    if (stream.device >= 0)
        printf("events at most %zu, not given back %zu\n", fake_cuda_peak_events(), fake_cuda_live_events());
    bool bounded = fake_cuda_peak_events() <= 4096 + 2 && fake_cuda_live_events() == 0; /* two: of the clock tie */
    return late_kib - early_kib >= 1024 || lost || !bounded || (argc > 3) != (fake_cuda_peak_events() > 0) ? 1 : 0;
}
