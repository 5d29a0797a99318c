/* Generated timelines of known gaps on the GPU clock, through recorder, ring, events and step table: every term of the
 * ledger is the gap that was put there, every lead the one that was put there, and no phase exceeds its envelope. */
#include "recording_fixture.h"

#define US INT64_C(1000)
#define MS INT64_C(1000000)
#define TIMELINES 3000
#define EXACT_NS 1000 /* the float of cudaEventElapsedTime: far below 1 us over a step of this length */

static const struct traceml_stream stream0 = {0, NULL};
static struct traceml_stream side;
static struct tml_recorder *mine;
static struct tml_step_table table;
static struct tml_step_row row;
static uint64_t seed = 20261201;

static int64_t planned_beside_ns; /* of the step on the other stream */

/* What one step was made of, in ns of device time; of a phase the sum over its spans. */
struct plan {
    int64_t pre[TRACEML_PHASE_COUNT], in[TRACEML_PHASE_COUNT], other, residual;
};

static int set_up(void **state)
{
    (void)state;
    recording_fixture_admit(0);
    fake_cuda_takes("cuEventRecord", TML_DEVICE_RECORD_NS); /* as the ledger reckons */
    fake_cuda_takes("cudaEventRecord", TML_DEVICE_RECORD_NS);
    mine = tml_recorder_here();
    cudaStream_t stream = NULL;
    cuda.cudaStreamCreateWithFlags(&stream, 1);
    side = (struct traceml_stream){0, stream};
    return mine && tml_step_table_open(&table, 30000 * MS) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    recording_fixture_drain(&table);
    tml_step_table_abandon(&table);
    tml_clock_tie_close(&table.tie, tml_recording.cuda);
    tml_step_table_close(&table);
    cuda.cudaStreamDestroy((cudaStream_t)side.handle);
    recording_fixture_stop();
    assert_int_equal(fake_cuda_live_events(), 0);
    return 0;
}

/* Every third gap is none at all. */
static int64_t any_ns(void)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    uint64_t value = seed >> 33;
    return value % 3 == 0 ? 0 : (int64_t)(value % (20 * (uint64_t)MS));
}

static int64_t work(int64_t *sum_ns)
{
    int64_t ns = any_ns();
    if (ns > 0)
        fake_cuda_work(0, NULL, ns);
    *sum_ns += ns;
    return ns;
}

/* Work on another stream is in nothing that was planned for the step's. */
static void beside(void)
{
    static const enum traceml_phase phases[] = {TRACEML_PHASE_H2D, TRACEML_PHASE_USER, TRACEML_PHASE_EVALUATION};
    int64_t ns = any_ns();
    if (ns == 0)
        return;
    traceml_span opened = tml_recorder_begin_owner(mine, phases[ns % 3], side);
    fake_cuda_work(0, side.handle, ns);
    tml_recorder_end_owner(mine, opened, 0);
    planned_beside_ns += ns;
}

/* A span with work of its own around one of another phase, perhaps. */
static void span(int64_t *sums, enum traceml_phase phase, enum traceml_phase inner)
{
    traceml_span opened = tml_recorder_begin_owner(mine, phase, stream0);
    work(&sums[phase]);
    beside();
    if (inner != phase) {
        traceml_span nested = tml_recorder_begin_owner(mine, inner, stream0);
        work(&sums[inner]);
        tml_recorder_end_owner(mine, nested, 0);
        work(&sums[phase]);
    }
    tml_recorder_end_owner(mine, opened, 0);
}

static void make_step(struct plan *plan)
{
    static const enum traceml_phase phases[] = {TRACEML_PHASE_FORWARD, TRACEML_PHASE_BACKWARD, TRACEML_PHASE_OPTIMIZER};
    memset(plan, 0, sizeof *plan);
    planned_beside_ns = 0;
    beside();
    work(&plan->other);
    beside();
    span(plan->pre, TRACEML_PHASE_DATALOADER_FETCH, any_ns() ? TRACEML_PHASE_DATALOADER_FETCH : TRACEML_PHASE_H2D);
    work(&plan->other);
    traceml_span step = tml_recorder_step_begin_owner(mine, stream0);
    for (unsigned microbatches = 1 + (any_ns() > 0); microbatches > 0; microbatches--)
        for (unsigned i = 0; i < 3; i++) {
            work(&plan->residual);
            beside();
            span(plan->in, phases[i], any_ns() ? phases[i] : TRACEML_PHASE_EVALUATION);
        }
    work(&plan->residual);
    tml_recorder_end_owner(mine, step, 0);
}

static void let_device_finish(void)
{
    fake_cuda_advance(10000 * MS);
    recording_fixture_drain(&table);
}

static void assert_near(int64_t value_ns, int64_t expected_ns, const char *what)
{
    if (value_ns < expected_ns - EXACT_NS || value_ns > expected_ns + EXACT_NS)
        fail_msg("%s: %lld ns, expected %lld", what, (long long)value_ns, (long long)expected_ns);
}

static int64_t assert_region(enum tml_region region, const int64_t *planned)
{
    int64_t sum_ns = 0;
    for (unsigned phase = 0; phase < TRACEML_PHASE_COUNT; phase++) {
        const struct tml_cell *cell = &row.cell[region][phase];
        if (phase == TRACEML_PHASE_STEP || cell->count == row.beside[region][phase].count)
            continue;
        assert_near(cell->exclusive_ns[TML_CLOCK_GPU], planned[phase], tml_phase_key(phase));
        sum_ns += cell->exclusive_ns[TML_CLOCK_GPU];
    }
    return sum_ns;
}

/* One after the other on their stream: the union is the sum. */
static void assert_all_beside(void)
{
    int64_t device_ns = 0;
    for (unsigned region = 0; region < TML_REGIONS; region++)
        for (unsigned phase = 0; phase < TRACEML_PHASE_COUNT; phase++) {
            const struct tml_beside *its = &row.beside[region][phase];
            if (its->count == 0)
                continue;
            device_ns += its->device_ns;
            assert_in_range(its->overlap_ns, 0, its->device_ns);
        }
    if (device_ns < planned_beside_ns || device_ns > planned_beside_ns + 40 * (TML_DEVICE_RECORD_NS + EXACT_NS))
        fail_msg("beside: %lld ns, expected %lld", (long long)device_ns, (long long)planned_beside_ns);
}

static void every_term_is_the_gap_that_was_put_there(void **state)
{
    (void)state;
    struct plan plan;
    make_step(&plan); /* where the next one begins */
    let_device_finish();
    assert_true(tml_step_table_next(&table, tml_now_ns(), false, &row));
    for (int i = 0; i < TIMELINES; i++) {
        make_step(&plan);
        let_device_finish();
        assert_true(tml_step_table_next(&table, tml_now_ns(), false, &row));
        const int64_t *term = row.term_ns[TML_CLOCK_GPU];
        assert_true(row.gpu_complete);
        int64_t pre_ns = assert_region(TML_REGION_PRE, plan.pre), in_ns = assert_region(TML_REGION_IN, plan.in);
        assert_near(term[TML_TERM_RESIDUAL], plan.residual, "residual");
        assert_all_beside();
        /* Closed by measurement; what the device idled before this iteration's first work is other too. */
        int64_t whole_ns =
            pre_ns + term[TML_TERM_PRE_STEP_OTHER] + term[TML_TERM_INSTRUMENTATION_PRE] + term[TML_TERM_TRACED_STEP];
        assert_int_equal(term[TML_TERM_ITERATION], whole_ns);
        assert_int_equal(term[TML_TERM_TRACED_STEP], in_ns + term[TML_TERM_INSTRUMENTATION] + term[TML_TERM_RESIDUAL]);
        assert_true((row.flags & TML_STEP_FLAG_NEGATIVE_REMAINDER) ||
                    (in_ns <= term[TML_TERM_TRACED_STEP] && term[TML_TERM_RESIDUAL] >= 0));
    }
}

/* Moves the host's times of the spans in the table: the step's begin to `host_ns`, each other by what is between. */
static int64_t place_on_host(int64_t host_ns)
{
    struct tml_table_row *open = &table.rows[table.oldest % TML_TABLE_ROWS];
    int64_t shift_ns = host_ns - table.spans[open->step].record.begin_ns;
    for (uint32_t i = open->first; i != TML_TABLE_NONE; i = table.spans[i].next) {
        table.spans[i].record.begin_ns += shift_ns;
        table.spans[i].record.end_ns += shift_ns;
    }
    return shift_ns;
}

/* The tie is put there by hand: an event of a known device time, and the host time that it shall have. */
static void every_lead_is_the_one_that_was_put_there(void **state)
{
    (void)state;
    void *tied = tml_cuda_event_create(tml_recording.cuda, 0);
    for (int i = 0; i < TIMELINES / 10; i++) {
        assert_int_equal(tml_cuda_record(tml_recording.cuda, 0, NULL, tied), 0);
        table.tie.event = tied;
        table.tie.device = 0;
        table.tie.host_ns = 7000 * MS;
        int64_t queued_ns = TML_DEVICE_RECORD_NS, forward_ns = 0;
        work(&queued_ns);
        traceml_span step = tml_recorder_step_begin_owner(mine, stream0);
        traceml_span forward = tml_recorder_begin_owner(mine, TRACEML_PHASE_FORWARD, stream0);
        work(&forward_ns);
        tml_recorder_end_owner(mine, forward, 0);
        tml_recorder_end_owner(mine, step, 0);
        let_device_finish();
        place_on_host(7000 * MS + 3 * US); /* the host begins the step 3 us after the tie */
        const struct tml_table_row *open = &table.rows[table.oldest % TML_TABLE_ROWS];
        struct tml_record span = table.spans[open->first].record;
        assert_true(tml_step_table_next(&table, tml_now_ns(), false, &row));
        int64_t begin_ns = 7000 * MS + queued_ns + TML_DEVICE_RECORD_NS; /* on the host's clock */
        int64_t end_ns = begin_ns + TML_DEVICE_RECORD_NS + forward_ns;
        assert_near(row.lead.ns[TML_BOUNDARY_FORWARD_BEGIN], begin_ns - span.begin_ns, "forward begin");
        assert_near(row.lead.ns[TML_BOUNDARY_FORWARD_END], end_ns - span.end_ns, "forward end");
        assert_true(row.lead.ns[TML_BOUNDARY_BACKWARD_END] == TML_NS_NONE);
        assert_in_range(row.lead.error_ns, 0, TML_CLOCK_TIE_LIMIT_NS);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(every_term_is_the_gap_that_was_put_there),
        TEST(every_lead_is_the_one_that_was_put_there),
    };
    return cmocka_run_group_tests(tests, fake_cuda_calls_load, NULL);
}
