/* step_scan: the fast reader of step lines agrees with the JSON reader, or leaves the line to it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "run_fixture.h"
#include "step_scan.h"

static int64_t any_time(uint64_t *state)
{
    switch (fixture_random(state) % 5) {
    case 0:
        return TML_NS_NONE;
    case 1:
        return 0;
    case 2:
        return -(int64_t)(fixture_random(state) % 5000);
    default:
        return (int64_t)(fixture_random(state) % (900 * TML_NS_PER_S / 1000)) *
               (int64_t)(fixture_random(state) % 9 + 1);
    }
}

static void any_cell(struct tml_cell *cell, uint64_t *state)
{
    cell->count = (uint32_t)(fixture_random(state) % 4 + 1);
    cell->other_count = (uint32_t)(fixture_random(state) % 2);
    for (unsigned clock = 0; clock < TML_CLOCKS; clock++) {
        cell->exclusive_ns[clock] = any_time(state);
        cell->inclusive_ns[clock] = fixture_random(state) % 2 ? cell->exclusive_ns[clock] : any_time(state);
    }
}

static void any_beside(struct tml_beside *beside, uint64_t *state)
{
    if (fixture_random(state) % 3)
        return;
    *beside = (struct tml_beside){(uint32_t)(fixture_random(state) % 3 + 1), any_time(state), any_time(state)};
}

static void any_lead(struct tml_device_lead *lead, uint64_t *state)
{
    if (fixture_random(state) % 3 == 0)
        lead->reason = (enum tml_reason)(fixture_random(state) % TML_REASON_COUNT);
    for (unsigned boundary = 0; lead->reason == TML_REASON_NONE && boundary < TML_BOUNDARY_COUNT; boundary++)
        lead->ns[boundary] = any_time(state);
    lead->error_ns = lead->reason == TML_REASON_NONE ? (int64_t)(fixture_random(state) % 50000) : TML_NS_NONE;
}

static struct tml_step_row any_row(uint64_t *state)
{
    struct tml_step_row row;
    tml_step_row_clear(&row);
    row.step = fixture_random(state) % 100000;
    row.iteration = row.step + fixture_random(state) % 3;
    row.end_ns = (int64_t)fixture_random(state) * 1000;
    row.epoch = (int64_t)(fixture_random(state) % 3) - 1;
    row.microbatches = (uint32_t)(fixture_random(state) % 3);
    row.flags = (uint32_t)(fixture_random(state) % (1u << TML_STEP_FLAG_COUNT));
    row.gpu_complete = fixture_random(state) % 2;
    row.gpu_reason =
        row.gpu_complete ? TML_REASON_NONE : (enum tml_reason)(1 + fixture_random(state) % (TML_REASON_COUNT - 1));
    for (unsigned clock = 0; clock < TML_CLOCKS; clock++)
        for (unsigned term = 0; term < TML_TERM_COUNT; term++)
            row.term_ns[clock][term] = any_time(state);
    for (unsigned region = 0; region < TML_REGIONS; region++)
        for (unsigned phase = 0; phase < TRACEML_PHASE_COUNT; phase++)
            if (fixture_random(state) % 3 == 0) {
                any_cell(&row.cell[region][phase], state);
                any_beside(&row.beside[region][phase], state);
            }
    any_lead(&row.lead, state);
    return row;
}

static bool read_as_json(const char *line, size_t bytes, struct tml_step_row *row)
{
    struct tml_json *root = tml_json_parse(line, bytes);
    bool good = root && tml_step_row_read(root, row);
    tml_json_free(root);
    return good;
}

static bool same_beside(const struct tml_step_row *a, const struct tml_step_row *b)
{
    bool equal = true;
    for (unsigned i = 0; i < TML_REGIONS * TRACEML_PHASE_COUNT; i++) {
        const struct tml_beside *left = &a->beside[0][0] + i, *right = &b->beside[0][0] + i;
        equal = equal && left->count == right->count && left->device_ns == right->device_ns &&
                left->overlap_ns == right->overlap_ns;
    }
    return equal;
}

/* Padding between members is none of the contents. */
static bool same(const struct tml_step_row *a, const struct tml_step_row *b)
{
    bool equal = a->step == b->step && a->iteration == b->iteration && a->end_ns == b->end_ns && a->epoch == b->epoch &&
                 a->microbatches == b->microbatches && a->flags == b->flags && a->gpu_complete == b->gpu_complete &&
                 a->gpu_reason == b->gpu_reason;
    return equal && same_beside(a, b) && memcmp(a->term_ns, b->term_ns, sizeof a->term_ns) == 0 &&
           memcmp(a->cell, b->cell, sizeof a->cell) == 0 && memcmp(a->lead.ns, b->lead.ns, sizeof a->lead.ns) == 0 &&
           a->lead.error_ns == b->lead.error_ns && a->lead.reason == b->lead.reason;
}

static void a_written_line_is_read_as_the_json_reader_reads_it(void **unused)
{
    (void)unused;
    uint64_t state = 1;
    for (int i = 0; i < 20000; i++) {
        char line[TML_STEP_LINE_BYTES];
        struct tml_step_row row = any_row(&state), fast, slow;
        size_t bytes = tml_step_row_write(&row, line, sizeof line) - 1;
        assert_true(tml_step_scan(line, bytes, &fast));
        assert_true(read_as_json(line, bytes, &slow));
        if (!same(&fast, &slow))
            print_error("%.*s\n", (int)bytes, line);
        assert_true(same(&fast, &slow));
    }
}

static void a_changed_line_is_left_alone_or_read_alike(void **unused)
{
    static const char bytes_to_put[] = "0123456789.-+eE\"\\{}[]:, nultrafse_\t\x80";
    (void)unused;
    uint64_t state = 2;
    unsigned taken = 0;
    for (int i = 0; i < 60000; i++) {
        char line[TML_STEP_LINE_BYTES];
        struct tml_step_row row = any_row(&state), fast, slow;
        size_t bytes = tml_step_row_write(&row, line, sizeof line) - 1;
        for (uint64_t changes = 1 + fixture_random(&state) % 2; changes > 0; changes--)
            line[fixture_random(&state) % bytes] = bytes_to_put[fixture_random(&state) % (sizeof bytes_to_put - 1)];
        if (fixture_random(&state) % 8 == 0)
            bytes = fixture_random(&state) % bytes;
        if (!tml_step_scan(line, bytes, &fast))
            continue;
        taken++;
        bool good = read_as_json(line, bytes, &slow);
        if (!good || !same(&fast, &slow))
            print_error("%.*s\n", (int)bytes, line);
        assert_true(good && same(&fast, &slow));
    }
    assert_true(taken > 1000); /* digits that changed: the test looked at something */
}

static void what_is_no_step_line_is_left_alone(void **unused)
{
    (void)unused;
    static const char *const lines[] = {"", "{", "{\"step\":", "{\"step\":1", "{\"header\":{}}", "[1]", "{\"step\":1}"};
    struct tml_step_row row;
    for (unsigned i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_false(tml_step_scan(lines[i], strlen(lines[i]), &row));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_written_line_is_read_as_the_json_reader_reads_it),
        cmocka_unit_test(a_changed_line_is_left_alone_or_read_alike),
        cmocka_unit_test(what_is_no_step_line_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
