/*
 * Recorders that admit spans without a session, and without a sampler: the test takes records out itself. For tests of
 * recorder and step table with the fake CUDA behind them.
 * Memory    the library's; recording_fixture_stop() gives the events back.
 * Threads   the test's.
 * Units     ns.
 * Depends   fake_cuda_calls.h, step_table.h.
 */
#ifndef RECORDING_FIXTURE_H
#define RECORDING_FIXTURE_H

#include "fake_cuda_calls.h"

#include "step_table.h"

/* As after a start of the process, with the context of `device` active (-1: of none). */
static inline void recording_fixture_admit(int device)
{
    static uint64_t generation;
    struct tml_cuda *cuda = tml_recording.cuda;
    fake_cuda_reset();
    if (device >= 0)
        fake_cuda_activate_context(device);
    assert_true(tml_cuda_find(cuda));
    cuda->broken = false;
    for (int i = 0; i < TML_CUDA_MAX_DEVICES; i++)
        cuda->live[i] = false;
    tml_recorders_reset();
    tml_recording.max_steps = 0;
    tml_recording.generation = ++generation;
    tml_recording.admitting = true;
}

static inline void recording_fixture_stop(void)
{
    struct tml_recorder *recorder;
    tml_recording.admitting = false;
    for (unsigned i = 0; i < TML_RECORDERS; i++) {
        if (!(recorder = tml_recorder_at(i)))
            continue;
        tml_recorder_forget_sampler(recorder);
        for (int device = 0; device < TML_CUDA_MAX_DEVICES; device++)
            if (recorder->pool[device])
                tml_event_pool_empty_sampler(recorder->pool[device], tml_recording.cuda);
    }
}

/* The next record of the calling thread's recorder; fails the test when there is none. */
static inline struct tml_record recording_fixture_pop(void)
{
    struct tml_record record;
    if (!tml_ring_pop_sc(&tml_recorder_here()->ring, &record))
        fail_msg("no record");
    return record;
}

static inline bool recording_fixture_empty(void)
{
    struct tml_record record;
    return !tml_ring_peek_sc(&tml_recorder_here()->ring, &record);
}

/* What the sampler's tick does up to the closing of rows. */
static inline void recording_fixture_drain(struct tml_step_table *table)
{
    struct tml_record record;
    for (unsigned pass = 0; pass < 2; pass++) {
        for (unsigned i = 0; i < TML_RECORDERS; i++)
            while (tml_recorder_at(i) && tml_ring_pop_sc(&tml_recorder_at(i)->ring, &record))
                tml_step_table_add(table, i, &record);
        if (pass == 0)
            tml_step_table_mark_drained(table);
    }
    tml_recorders_reuse_sampler();
    tml_step_table_poll(table);
}

#endif
