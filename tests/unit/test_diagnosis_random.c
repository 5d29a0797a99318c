/* diagnosis: what holds for every window, on thousands of made-up ones. They never touch a disk. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "diagnosis.h"
#include "run_fixture.h"

#define MOST_RANKS 5
#define STEPS 25

/* What one rank does in every step, and what of it can be seen. */
struct content {
    struct fixture_times cpu, gpu;
    bool device, observer, unmeasured;
    const char *armed;
    int64_t ours_us;
};

struct crowd {
    struct content content[MOST_RANKS];
    unsigned number[MOST_RANKS]; /* the rank of each content */
    unsigned count, world;
    const char *strategy;
    struct tml_run run;
    struct tml_rank_run ranks[MOST_RANKS];
    struct tml_run_facts facts;
    struct tml_window window;
    struct tml_verdict verdict;
};

/* ---- A run in memory ---- */

static void take_lines(struct tml_rank_run *rank, const char *text)
{
    bool known = false, oom = false;
    while (*text) {
        size_t bytes = strcspn(text, "\n");
        assert_null(tml_rank_take_line(rank, UINT64_MAX, text, bytes, &known, &oom));
        text += bytes + 1;
    }
}

static struct tml_step_row unmeasured_row(uint64_t step, bool device)
{
    struct tml_step_row row;
    tml_step_row_clear(&row);
    row.step = row.iteration = step;
    row.flags = step == 1 ? TML_STEP_FLAG_FIRST : 0;
    row.gpu_reason = device ? TML_REASON_EVENTS_LOST : TML_REASON_NO_CUDA;
    row.end_ns = 0;
    return row;
}

static struct tml_step_row row_of(const struct content *content, uint64_t step)
{
    if (content->unmeasured)
        return unmeasured_row(step, content->device);
    struct tml_step_row row =
        content->device ? fixture_gpu_row(step, &content->cpu, &content->gpu) : fixture_row(step, &content->cpu);
    for (unsigned clock = 0; clock <= content->device; clock++) {
        row.term_ns[clock][TML_TERM_INSTRUMENTATION] += content->ours_us * 1000;
        row.term_ns[clock][TML_TERM_TRACED_STEP] += content->ours_us * 1000;
    }
    return row;
}

static void make_rank(struct crowd *crowd, struct tml_rank_run *rank, unsigned index)
{
    const struct content *content = &crowd->content[index];
    char environment[128], *text = NULL;
    size_t bytes = 0;
    snprintf(environment, sizeof environment, "{\"python\":\"3.12.1\",\"strategy\":\"%s\"}", crowd->strategy);
    struct fixture_header header = {.rank = crowd->number[index],
                                    .world = crowd->world,
                                    .device = content->device ? "cuda:0" : "cpu",
                                    .armed = content->armed,
                                    .observer = content->observer,
                                    .environment = environment};
    FILE *file = open_memstream(&text, &bytes);
    fixture_write_header(file, &header);
    for (uint64_t step = 1; step <= STEPS + 1; step++) {
        struct tml_step_row row = row_of(content, step);
        fixture_write_row(file, &row);
    }
    fclose(file);
    assert_true(tml_rank_run_init(rank, header.rank, 1000));
    take_lines(rank, text);
    free(text);
}

static const struct tml_verdict *diagnose(struct crowd *crowd)
{
    crowd->run = (struct tml_run){.ranks = crowd->ranks, .rank_count = crowd->count};
    for (unsigned number = 0, at = 0; number < MOST_RANKS; number++)
        for (unsigned i = 0; i < crowd->count; i++)
            if (crowd->number[i] == number)
                make_rank(crowd, &crowd->ranks[at++], i);
    tml_run_facts_gather(&crowd->run, NULL, &crowd->facts);
    assert_true(tml_window_build(&crowd->run, 1000, &crowd->window));
    assert_true(tml_diagnose(&crowd->window, &crowd->facts, &crowd->verdict));
    assert_true(crowd->verdict.findings > 0);
    return &crowd->verdict;
}

static void forget(struct crowd *crowd)
{
    tml_verdict_free(&crowd->verdict);
    tml_window_free(&crowd->window);
    for (unsigned i = 0; i < crowd->count; i++)
        tml_rank_run_free(&crowd->ranks[i]);
}

/* ---- Anything at all ---- */

static bool one_in(uint64_t *random, unsigned n)
{
    return fixture_random(random) % n == 0;
}

static struct fixture_times any_times(uint64_t *random, unsigned absent_in)
{
    struct fixture_times times;
    int64_t *each = (int64_t *)&times;
    for (unsigned i = 0; i < sizeof times / sizeof *each; i++) {
        each[i] = (int64_t)(fixture_random(random) % (one_in(random, 2) ? 5000 : 100000));
        if (one_in(random, absent_in))
            each[i] = FIXTURE_ABSENT;
    }
    times.residual = times.residual < 0 ? 0 : times.residual;
    times.other = times.other < 0 ? 0 : times.other;
    return times;
}

/* `odd`: how many of its ranks lack an instrument or a phase, one in so many. */
static void fill(struct crowd *crowd, uint64_t *random, unsigned odd)
{
    static const char *const strategies[] = {"DDP", "FSDP", "none", "unknown"};
    static const char *const armed[] = {"[]", "[\"forward\",\"backward\"]", "[\"dataloader_fetch\"]"};
    bool device = one_in(random, 2), observer = one_in(random, 2);
    *crowd = (struct crowd){.count = 1 + (unsigned)(fixture_random(random) % (MOST_RANKS - 1))};
    crowd->world = crowd->count;
    crowd->strategy = strategies[one_in(random, 2) ? 0 : fixture_random(random) % 4];
    for (unsigned i = 0; i < crowd->count; i++) {
        crowd->number[i] = i;
        crowd->content[i] = (struct content){
            .cpu = any_times(random, odd * 4),
            .gpu = any_times(random, odd * 4),
            .device = one_in(random, odd * 2) ? !device : device,
            .observer = one_in(random, odd * 2) ? !observer : observer,
            .armed = one_in(random, odd) ? armed[fixture_random(random) % 3] : FIXTURE_ARMED,
            .ours_us = (int64_t)(fixture_random(random) % (one_in(random, 4) ? 40000 : 1000)),
        };
    }
}

static const struct tml_rank_window *window_of(const struct crowd *crowd, int rank)
{
    for (size_t i = 0; i < crowd->window.rank_count; i++)
        if ((int)crowd->window.ranks[i].run->rank == rank)
            return &crowd->window.ranks[i];
    return NULL;
}

/* ---- A null signal ---- */

static bool known(const struct tml_metric_status *status)
{
    return status->value_ns != TML_NS_NONE || status->availability == TML_NOT_APPLICABLE ||
           (status->coverage == TML_COVERAGE_OUTSIDE_WINDOW && status->reason == TML_REASON_PRE_STEP);
}

static void expect_known(const struct tml_rank_window *rank, const struct tml_rule_sum *sum)
{
    for (unsigned i = 0; i < sum->parts; i++)
        assert_true(known(&rank->metric[sum->part[i]]));
}

static void expect_known_on_most(const struct crowd *crowd, const struct tml_rule_sum *sum)
{
    for (unsigned i = 0; i < sum->parts; i++)
        assert_true(known(&crowd->window.metric[sum->part[i]].status));
}

static void expect_measured(const struct crowd *crowd, const struct tml_finding *finding)
{
    const struct tml_straggler *straggler = &finding->straggler;
    if (finding->rule->form == TML_RULE_SHARE) {
        expect_known_on_most(crowd, &finding->rule->signal);
        expect_known_on_most(crowd, &finding->rule->denominator);
        expect_known(window_of(crowd, finding->rank), &finding->rule->signal);
        return;
    }
    int both[] = {straggler->culprit, straggler->victim};
    assert_int_not_equal(both[0], both[1]);
    for (unsigned i = 0; i < 2; i++) {
        expect_known(window_of(crowd, both[i]), &straggler->visible);
        expect_known(window_of(crowd, both[i]), &finding->rule->denominator);
        if (straggler->named >= 0)
            assert_true(known(&window_of(crowd, both[i])->metric[straggler->excess[straggler->named].metric]));
    }
}

static void a_rule_never_fires_on_a_signal_that_is_null(void **state)
{
    (void)state;
    struct crowd crowd;
    uint64_t random = 11;
    unsigned fired[TML_FINDING_COUNT] = {0};
    for (unsigned round = 0; round < 1500; round++) {
        fill(&crowd, &random, 1 + round % 8);
        diagnose(&crowd);
        for (size_t i = 0; i < crowd.verdict.findings; i++) {
            fired[crowd.verdict.finding[i].kind]++;
            if (crowd.verdict.finding[i].rule)
                expect_measured(&crowd, &crowd.verdict.finding[i]);
        }
        forget(&crowd);
    }
    for (unsigned kind = TML_FINDING_INCOMPLETE_DATA; kind < TML_FINDING_COUNT; kind++) {
        if (kind == TML_FINDING_LAUNCH_BOUND)
            continue;
        if (fired[kind] == 0)
            print_error("%s never fired\n", tml_finding_key((enum tml_finding_kind)kind));
        assert_true(fired[kind] > 0);
    }
}

/* ---- One clock ---- */

/* The sum of the parts of a finding, straight from what the rank was made of. */
static int64_t made_us(const struct content *content, enum tml_clock clock, const struct tml_rule_sum *sum)
{
    const struct fixture_times *t = clock == TML_CLOCK_GPU ? &content->gpu : &content->cpu;
    int64_t us = 0, part[TML_METRIC_COUNT] = {0};
    part[TML_METRIC_INPUT_WAIT] = t->wait;
    part[TML_METRIC_IN_STEP_INPUT_WAIT] = t->in_wait;
    part[TML_METRIC_PRE_STEP_H2D] = t->pre_h2d;
    part[TML_METRIC_H2D] = t->h2d;
    part[TML_METRIC_FORWARD] = t->forward;
    part[TML_METRIC_BACKWARD] = t->backward;
    part[TML_METRIC_OPTIMIZER] = t->optimizer;
    part[TML_METRIC_RESIDUAL] = t->residual;
    part[TML_METRIC_INSTRUMENTATION] = content->ours_us;
    for (unsigned i = TML_METRIC_IN_STEP_INPUT_WAIT; i < TML_METRIC_COUNT; i++)
        if (i != TML_METRIC_COMPUTE && i != TML_METRIC_PRE_STEP_H2D && part[i] > 0)
            part[TML_METRIC_STEP_TIME] += part[i];
    part[TML_METRIC_STEP_TIME] += t->wait > 0 ? t->wait : 0;
    for (unsigned i = 0; i < sum->parts; i++)
        us += part[sum->part[i]] > 0 ? part[sum->part[i]] : 0;
    return us;
}

static void shares_come_from_one_clock(void **state)
{
    (void)state;
    struct crowd crowd;
    uint64_t random = 23;
    unsigned fired[TML_CLOCKS] = {0};
    for (unsigned round = 0; round < 1000; round++) {
        fill(&crowd, &random, 50);
        crowd.count = crowd.world = 1; /* its share is the median */
        diagnose(&crowd);
        for (size_t i = 0; i < crowd.verdict.findings; i++) {
            const struct tml_finding *finding = &crowd.verdict.finding[i];
            if (!finding->rule)
                continue;
            enum tml_clock clock = crowd.window.clock;
            int64_t cost_us = made_us(&crowd.content[0], clock, &finding->rule->signal);
            int64_t whole_us = made_us(&crowd.content[0], clock, &finding->rule->denominator);
            assert_int_equal(finding->cost_ns, cost_us * 1000);
            assert_int_equal(finding->denominator_ns, whole_us * 1000);
            assert_true(fabs(finding->share - (double)cost_us / (double)whole_us) < 1e-12);
            fired[clock]++;
        }
        forget(&crowd);
    }
    assert_true(fired[TML_CLOCK_CPU] > 200 && fired[TML_CLOCK_GPU] > 200);
}

static void share_cost_and_whole_agree_whatever_the_number_of_ranks(void **state)
{
    (void)state;
    struct crowd crowd;
    uint64_t random = 29;
    unsigned fired = 0;
    for (unsigned round = 0; round < 1000; round++) {
        fill(&crowd, &random, 50);
        diagnose(&crowd);
        for (size_t i = 0; i < crowd.verdict.findings; i++) {
            const struct tml_finding *finding = &crowd.verdict.finding[i];
            if (!finding->rule || finding->rule->form != TML_RULE_SHARE || crowd.count < 2)
                continue;
            double share = (double)finding->cost_ns / (double)finding->denominator_ns;
            assert_true(fabs(finding->share - share) < 1e-6);
            fired++;
        }
        forget(&crowd);
    }
    assert_true(fired > 200);
}

/* ---- The order of ranks ---- */

static bool same(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

static void shuffle(struct crowd *crowd, uint64_t *random)
{
    for (unsigned i = crowd->count; i > 1; i--) {
        unsigned other = (unsigned)(fixture_random(random) % i), number = crowd->number[i - 1];
        crowd->number[i - 1] = crowd->number[other];
        crowd->number[other] = number;
    }
}

/* -1, or which content it is: the same under every numbering. */
static int who(const struct crowd *crowd, int rank)
{
    for (unsigned i = 0; i < crowd->count; i++)
        if ((int)crowd->number[i] == rank)
            return (int)i;
    return -1;
}

static void expect_same_finding(const struct crowd *a, const struct tml_finding *x, const struct crowd *b,
                                const struct tml_finding *y)
{
    assert_int_equal(x->kind, y->kind);
    assert_int_equal(x->severity, y->severity);
    assert_true(same(x->score, y->score) && same(x->share, y->share) && same(x->skew, y->skew));
    assert_int_equal(x->cost_ns, y->cost_ns);
    assert_int_equal(x->denominator_ns, y->denominator_ns);
    assert_int_equal(who(a, x->rank), who(b, y->rank));
    if (x->rule && x->rule->form == TML_RULE_STRAGGLER)
        assert_int_equal(who(a, x->straggler.victim), who(b, y->straggler.victim));
}

static void permuting_ranks_changes_nothing(void **state)
{
    (void)state;
    struct crowd crowd, other;
    uint64_t random = 31;
    for (unsigned round = 0; round < 700; round++) {
        fill(&crowd, &random, 2 + round % 20);
        other = crowd;
        shuffle(&other, &random);
        diagnose(&crowd);
        diagnose(&other);
        assert_int_equal(crowd.verdict.findings, other.verdict.findings);
        assert_int_equal(crowd.verdict.abstentions, other.verdict.abstentions);
        assert_int_equal(crowd.window.clock_reason, other.window.clock_reason);
        for (size_t i = 0; i < crowd.verdict.findings; i++)
            expect_same_finding(&crowd, &crowd.verdict.finding[i], &other, &other.verdict.finding[i]);
        for (size_t i = 0; i < crowd.verdict.abstentions; i++)
            assert_memory_equal(&crowd.verdict.abstained[i], &other.verdict.abstained[i],
                                sizeof crowd.verdict.abstained[i]);
        forget(&crowd);
        forget(&other);
    }
}

static void worst_value_and_worst_rank_come_from_one_ordering(void **state)
{
    (void)state;
    struct crowd crowd;
    uint64_t random = 43;
    for (unsigned round = 0; round < 500; round++) {
        fill(&crowd, &random, 30);
        diagnose(&crowd);
        for (unsigned metric = 0; metric < TML_METRIC_COUNT; metric++) {
            const struct tml_rank_value *worst = &crowd.window.metric[metric].worst;
            for (size_t i = 0; worst->rank >= 0 && i < crowd.window.rank_count; i++) {
                int64_t value_ns = crowd.window.ranks[i].metric[metric].value_ns;
                assert_true(value_ns == TML_NS_NONE || value_ns <= worst->value_ns);
            }
            if (worst->rank >= 0)
                assert_int_equal(window_of(&crowd, worst->rank)->metric[metric].value_ns, worst->value_ns);
        }
        for (size_t i = 0; i < crowd.verdict.findings; i++) {
            const struct tml_straggler *straggler = &crowd.verdict.finding[i].straggler;
            if (straggler->visible.parts == 1)
                assert_int_equal(straggler->victim_ns, crowd.window.metric[TML_METRIC_BACKWARD].worst.value_ns);
        }
        forget(&crowd);
    }
}

/* ---- A rank that was not measured ---- */

/* Abstaining is least, then info, warning, critical. */
static int rise(const struct tml_verdict *verdict)
{
    return verdict->finding[0].kind <= TML_FINDING_INCOMPLETE_DATA ? -1 : (int)verdict->finding[0].severity;
}

static void an_unmeasured_rank_never_raises_the_verdict(void **state)
{
    (void)state;
    struct crowd crowd, more;
    uint64_t random = 5;
    unsigned before[TML_SEVERITY_CRIT + 2] = {0};
    for (unsigned round = 0; round < 1000; round++) {
        fill(&crowd, &random, 2 + round % 40);
        crowd.world = crowd.count + 1;
        more = crowd;
        more.number[more.count] = more.count;
        more.content[more.count++] = (struct content){
            .unmeasured = true,
            .device = one_in(&random, 4) ? !crowd.content[0].device : crowd.content[0].device,
            .armed = one_in(&random, 2) ? "[]" : FIXTURE_ARMED,
        };
        shuffle(&more, &random);
        diagnose(&crowd);
        diagnose(&more);
        assert_true(rise(&more.verdict) <= rise(&crowd.verdict));
        before[rise(&crowd.verdict) + 1]++;
        forget(&crowd);
        forget(&more);
    }
    for (unsigned i = 0; i < sizeof before / sizeof *before; i++)
        assert_true(before[i] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rule_never_fires_on_a_signal_that_is_null),
        cmocka_unit_test(shares_come_from_one_clock),
        cmocka_unit_test(share_cost_and_whole_agree_whatever_the_number_of_ranks),
        cmocka_unit_test(permuting_ranks_changes_nothing),
        cmocka_unit_test(worst_value_and_worst_rank_come_from_one_ordering),
        cmocka_unit_test(an_unmeasured_rank_never_raises_the_verdict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
