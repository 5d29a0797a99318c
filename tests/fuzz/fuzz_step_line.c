/*
 * One line of a step file. Whatever the bytes are: no crash; a line is taken or what is wrong with it is said; the fast
 * reader agrees with the JSON reader; and a step that was read is written and read back as the same step.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "step_reader.h"
#include "step_scan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static bool same(const struct tml_step_row *a, const struct tml_step_row *b)
{
    return a->step == b->step && a->iteration == b->iteration && a->end_ns == b->end_ns && a->epoch == b->epoch &&
           a->microbatches == b->microbatches && a->flags == b->flags && a->gpu_complete == b->gpu_complete &&
           a->gpu_reason == b->gpu_reason && memcmp(a->term_ns, b->term_ns, sizeof a->term_ns) == 0 &&
           memcmp(a->cell, b->cell, sizeof a->cell) == 0;
}

static bool read_as_json(const char *line, size_t bytes, struct tml_step_row *row)
{
    struct tml_json *root = tml_json_parse(line, bytes);
    bool good = root && tml_json_is_object(root) && tml_step_row_read(root, row);
    tml_json_free(root);
    return good;
}

/* What a window may use is written as it was read. */
static void require_round_trip(const struct tml_step_row *row)
{
    char line[TML_STEP_LINE_BYTES];
    struct tml_step_row again;
    size_t length = tml_step_row_write(row, line, sizeof line);
    require(length > 1 && line[length - 1] == '\n');
    require(read_as_json(line, length - 1, &again) && same(row, &again));
}

static void take(const char *line, size_t bytes)
{
    struct tml_rank_run rank;
    bool known = false, oom = false;
    require(tml_rank_run_init(&rank, 0, 10));
    for (int i = 0; i < 2; i++) { /* the second time it is there already */
        const char *wrong = tml_rank_take_line(&rank, UINT64_MAX, line, bytes, &known, &oom);
        require(!wrong || *wrong);
    }
    require(!oom);
    tml_rank_run_free(&rank);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char *line = malloc(bytes ? bytes : 1); /* of just this size, so that AddressSanitizer sees a read beyond it */
    if (!line)
        return 0;
    memcpy(line, data, bytes);
    struct tml_step_row fast, slow;
    bool scanned = tml_step_scan(line, bytes, &fast), read = read_as_json(line, bytes, &slow);
    require(!scanned || (read && same(&fast, &slow)));
    if (scanned && tml_row_store_accepts(&fast))
        require_round_trip(&fast);
    take(line, bytes);
    free(line);
    return 0;
}
