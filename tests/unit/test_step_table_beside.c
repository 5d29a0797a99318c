/* Spans on another stream than the step's, on a virtual clock: how long they took, what they ran beside, to the ns. */
#include "recording_fixture.h"

#define US INT64_C(1000)
#define MS INT64_C(1000000)

static const struct traceml_stream stream0 = {0, NULL};
static struct traceml_stream side, another;
static struct tml_recorder *mine;
static struct tml_step_table table;
static struct tml_step_row row;

static int set_up(void **state)
{
    (void)state;
    recording_fixture_admit(0);
    mine = tml_recorder_here();
    cudaStream_t stream[2] = {NULL, NULL};
    for (unsigned i = 0; i < 2; i++)
        cuda.cudaStreamCreateWithFlags(&stream[i], 1);
    side = (struct traceml_stream){0, stream[0]};
    another = (struct traceml_stream){0, stream[1]};
    return mine && tml_step_table_open(&table, 30000 * MS) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    recording_fixture_drain(&table);
    tml_step_table_abandon(&table);
    tml_step_table_close(&table);
    cuda.cudaStreamDestroy((cudaStream_t)side.handle);
    cuda.cudaStreamDestroy((cudaStream_t)another.handle);
    recording_fixture_stop();
    assert_int_equal(fake_cuda_misuses(), 0);
    assert_int_equal(fake_cuda_live_events(), 0);
    return 0;
}

static void span(enum traceml_phase phase, struct traceml_stream stream, int64_t work_ns)
{
    traceml_span opened = tml_recorder_begin_owner(mine, phase, stream);
    fake_cuda_work(stream.device, stream.handle, work_ns);
    tml_recorder_end_owner(mine, opened, 0);
}

static void close_row(void)
{
    fake_cuda_advance(1000 * MS);
    recording_fixture_drain(&table);
    assert_true(tml_step_table_next(&table, tml_now_ns(), false, &row));
}

static void a_step(void)
{
    traceml_span step = tml_recorder_step_begin_owner(mine, stream0);
    span(TRACEML_PHASE_FORWARD, stream0, 3 * MS);
    tml_recorder_end_owner(mine, step, 0);
}

static void assert_beside(enum tml_region region, enum traceml_phase phase, unsigned count, int64_t device_ns,
                          int64_t overlap_ns)
{
    const struct tml_beside *beside = &row.beside[region][phase];
    assert_int_equal(beside->count, count);
    assert_int_equal(beside->device_ns, device_ns);
    assert_int_equal(beside->overlap_ns, overlap_ns);
}

static void a_copy_beside_the_forward_overlaps_it_by_what_they_share(void **state)
{
    (void)state;
    a_step();
    close_row();
    traceml_span step = tml_recorder_step_begin_owner(mine, stream0);
    fake_cuda_work(0, NULL, 300 * US + 1); /* in no span */
    span(TRACEML_PHASE_H2D, side, 1200 * US);
    span(TRACEML_PHASE_FORWARD, stream0, 3 * MS);
    tml_recorder_end_owner(mine, step, 0);
    close_row();
    assert_beside(TML_REGION_IN, TRACEML_PHASE_H2D, 1, 1200 * US, 900 * US - 1);
    assert_true(row.gpu_complete);
    assert_int_equal(row.cell[TML_REGION_IN][TRACEML_PHASE_H2D].count, 1);
    assert_true(row.cell[TML_REGION_IN][TRACEML_PHASE_H2D].exclusive_ns[TML_CLOCK_GPU] == TML_NS_NONE);
}

static void intervals_that_overlap_count_once(void **state)
{
    (void)state;
    a_step();
    close_row();
    traceml_span step = tml_recorder_step_begin_owner(mine, stream0);
    span(TRACEML_PHASE_H2D, side, 500 * US);
    span(TRACEML_PHASE_H2D, another, 400 * US); /* meanwhile */
    span(TRACEML_PHASE_H2D, side, 50 * US);
    span(TRACEML_PHASE_FORWARD, stream0, 200 * US);
    tml_recorder_end_owner(mine, step, 0);
    close_row();
    assert_beside(TML_REGION_IN, TRACEML_PHASE_H2D, 3, 550 * US, 200 * US);
}

/* The host is ahead: the copy for the next step runs while the device is still at this one. */
static void a_copy_for_the_next_step_runs_beside_the_one_before(void **state)
{
    (void)state;
    a_step();
    span(TRACEML_PHASE_H2D, side, 3500 * US); /* 3 ms of it beside the step */
    traceml_span step = tml_recorder_step_begin_owner(mine, stream0);
    fake_cuda_work(0, NULL, MS);
    span(TRACEML_PHASE_FORWARD, stream0, MS);
    tml_recorder_end_owner(mine, step, 0);
    close_row();
    close_row();
    assert_beside(TML_REGION_PRE, TRACEML_PHASE_H2D, 1, 3500 * US, 3000 * US);
}

static void copies_on_both_streams_are_kept_apart(void **state)
{
    (void)state;
    a_step();
    close_row();
    traceml_span step = tml_recorder_step_begin_owner(mine, stream0);
    span(TRACEML_PHASE_H2D, stream0, 700 * US);
    span(TRACEML_PHASE_H2D, side, 100 * US);
    tml_recorder_end_owner(mine, step, 0);
    close_row();
    assert_beside(TML_REGION_IN, TRACEML_PHASE_H2D, 1, 100 * US, 100 * US);
    assert_int_equal(row.cell[TML_REGION_IN][TRACEML_PHASE_H2D].count, 2);
    assert_int_equal(row.cell[TML_REGION_IN][TRACEML_PHASE_H2D].exclusive_ns[TML_CLOCK_GPU],
                     700 * US - TML_DEVICE_RECORD_NS);
}

static void a_phase_that_the_ledger_needs_is_told_and_makes_the_step_incomplete(void **state)
{
    (void)state;
    a_step();
    close_row();
    traceml_span step = tml_recorder_step_begin_owner(mine, stream0);
    span(TRACEML_PHASE_FORWARD, side, 800 * US);
    tml_recorder_end_owner(mine, step, 0);
    close_row();
    assert_beside(TML_REGION_IN, TRACEML_PHASE_FORWARD, 1, 800 * US, 0);
    assert_int_equal(row.gpu_reason, TML_REASON_OTHER_STREAM);
}

static void on_another_device_there_is_no_common_clock_and_no_time(void **state)
{
    (void)state;
    fake_cuda_activate_context(1);
    a_step();
    close_row();
    traceml_span step = tml_recorder_step_begin_owner(mine, stream0);
    span(TRACEML_PHASE_USER, (struct traceml_stream){1, NULL}, 800 * US);
    tml_recorder_end_owner(mine, step, 0);
    close_row();
    assert_beside(TML_REGION_IN, TRACEML_PHASE_USER, 1, TML_NS_NONE, TML_NS_NONE);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_copy_beside_the_forward_overlaps_it_by_what_they_share),
        TEST(intervals_that_overlap_count_once),
        TEST(a_copy_for_the_next_step_runs_beside_the_one_before),
        TEST(copies_on_both_streams_are_kept_apart),
        TEST(a_phase_that_the_ledger_needs_is_told_and_makes_the_step_incomplete),
        TEST(on_another_device_there_is_no_common_clock_and_no_time),
    };
    return cmocka_run_group_tests(tests, fake_cuda_calls_load, NULL);
}
