#include "step_scan.h"

#include <string.h>

#define WORD_BYTES 32
#define MOST_DIGITS 9 /* of whole ms: 11 days; longer ones are left to the reader that can take them */

struct scan {
    const char *at, *end;
};

/* ---- Tokens ---- */

static bool take(struct scan *scan, const char *words)
{
    size_t bytes = strlen(words);
    if ((size_t)(scan->end - scan->at) < bytes || memcmp(scan->at, words, bytes) != 0)
        return false;
    scan->at += bytes;
    return true;
}

static bool at_digit(const struct scan *scan)
{
    return scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9';
}

/* Digits without a leading zero, as JSON has them. */
static bool take_digits(struct scan *scan, unsigned most, uint64_t *number)
{
    const char *start = scan->at;
    uint64_t value = 0;
    while (at_digit(scan) && scan->at - start < (long)most)
        value = value * 10 + (uint64_t)(*scan->at++ - '0');
    *number = value;
    bool leading = scan->at - start > 1 && *start == '0';
    return scan->at > start && !at_digit(scan) && !leading;
}

static bool at_fraction(const struct scan *scan)
{
    return scan->at < scan->end && (*scan->at == '.' || *scan->at == 'e' || *scan->at == 'E');
}

static bool take_uint(struct scan *scan, uint64_t *number)
{
    return take_digits(scan, 15, number) && !at_fraction(scan);
}

static bool take_uint32(struct scan *scan, uint32_t *number)
{
    uint64_t wide;
    if (!take_uint(scan, &wide) || wide > UINT32_MAX)
        return false;
    *number = (uint32_t)wide;
    return true;
}

/* Up to six decimals: whole ns. */
static bool take_decimals(struct scan *scan, int64_t *ns)
{
    int64_t unit = TML_NS_PER_MS;
    while (at_digit(scan) && unit > 1) {
        unit /= 10;
        *ns += (*scan->at++ - '0') * unit;
    }
    return unit < TML_NS_PER_MS && !at_digit(scan) && !at_fraction(scan);
}

static bool take_ms(struct scan *scan, int64_t *ns)
{
    uint64_t whole;
    if (take(scan, "null")) {
        *ns = TML_NS_NONE;
        return true;
    }
    bool negative = take(scan, "-");
    if (scan->at == scan->end || !take_digits(scan, MOST_DIGITS, &whole))
        return false;
    int64_t value = (int64_t)whole * TML_NS_PER_MS;
    if (take(scan, ".") ? !take_decimals(scan, &value) : at_fraction(scan))
        return false;
    *ns = negative ? -value : value;
    return true;
}

/* A word between quotes; one with an escape is left to the other reader. */
static bool take_word(struct scan *scan, char word[WORD_BYTES])
{
    size_t bytes = 0;
    if (!take(scan, "\""))
        return false;
    while (scan->at < scan->end && *scan->at != '"' && bytes < WORD_BYTES - 1) {
        char c = *scan->at++;
        if (!(c == '_' || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')))
            return false;
        word[bytes++] = c;
    }
    word[bytes] = '\0';
    return take(scan, "\"");
}

static bool take_key(struct scan *scan, const char *key)
{
    return take(scan, "\"") && take(scan, key) && take(scan, "\":");
}

/* ,"key": in front of an optional member. */
static bool take_next_key(struct scan *scan, const char *key)
{
    const char *before = scan->at;
    if (take(scan, ",") && take_key(scan, key))
        return true;
    scan->at = before;
    return false;
}

/* ---- Parts of a line ---- */

static bool take_flags(struct scan *scan, uint32_t *flags)
{
    char word[WORD_BYTES];
    if (!take_next_key(scan, "flags"))
        return true;
    if (!take(scan, "["))
        return false;
    do {
        if (!take_word(scan, word))
            return false;
        for (unsigned bit = 0; bit < TML_STEP_FLAG_COUNT; bit++)
            if (strcmp(tml_step_flag_key(bit), word) == 0)
                *flags |= 1u << bit;
    } while (take(scan, ","));
    return take(scan, "]");
}

static bool take_terms(struct scan *scan, int64_t *term_ns)
{
    for (unsigned term = 0; term < TML_TERM_COUNT; term++)
        if (!take(scan, term ? "," : "{") || !take_key(scan, tml_term_key((enum tml_term)term)) ||
            !take_ms(scan, &term_ns[term]))
            return false;
    return take(scan, "}");
}

static bool take_clocks(struct scan *scan, struct tml_step_row *row)
{
    char word[WORD_BYTES];
    if (!take_next_key(scan, "cpu") || !take_terms(scan, row->term_ns[TML_CLOCK_CPU]))
        return false;
    bool gpu = take_next_key(scan, "gpu");
    if (gpu && !take_terms(scan, row->term_ns[TML_CLOCK_GPU]))
        return false;
    bool reason = take_next_key(scan, "gpu_reason");
    if (reason && !take_word(scan, word))
        return false;
    row->gpu_complete = gpu && !reason;
    row->gpu_reason = reason ? tml_reason_from_key(word) : TML_REASON_NONE;
    return true;
}

static bool take_beside(struct scan *scan, struct tml_beside *beside)
{
    return !take_next_key(scan, TML_BESIDE_KEY) ||
           (take(scan, "{") && take_key(scan, "count") && take_uint32(scan, &beside->count) &&
            take_next_key(scan, TML_BESIDE_DEVICE_KEY) && take_ms(scan, &beside->device_ns) &&
            take_next_key(scan, TML_BESIDE_OVERLAP_KEY) && take_ms(scan, &beside->overlap_ns) && take(scan, "}"));
}

static bool take_cell(struct scan *scan, struct tml_cell *cell, struct tml_beside *beside)
{
    if (!take(scan, "{") || !take_key(scan, "count") || !take_uint32(scan, &cell->count))
        return false;
    for (unsigned clock = 0; clock < TML_CLOCKS; clock++) {
        if (!take_next_key(scan, tml_cell_key((enum tml_clock)clock, false)) ||
            !take_ms(scan, &cell->exclusive_ns[clock]))
            return false;
        cell->inclusive_ns[clock] = cell->exclusive_ns[clock];
    }
    for (unsigned clock = 0; clock < TML_CLOCKS; clock++)
        if (take_next_key(scan, tml_cell_key((enum tml_clock)clock, true)) &&
            !take_ms(scan, &cell->inclusive_ns[clock]))
            return false;
    if (take_next_key(scan, "other") && !take_uint32(scan, &cell->other_count))
        return false;
    return take_beside(scan, beside) && take(scan, "}");
}

static bool take_region(struct scan *scan, enum tml_region region, struct tml_step_row *row)
{
    char word[WORD_BYTES];
    uint32_t taken = 0;
    if (!take_next_key(scan, tml_region_key(region)))
        return true;
    if (!take(scan, "{"))
        return false;
    do {
        int phase = take_word(scan, word) && take(scan, ":") ? tml_phase_from_key(word) : -1;
        if (phase < 0 || (taken & (1u << phase)) ||
            !take_cell(scan, &row->cell[region][phase], &row->beside[region][phase]))
            return false;
        taken |= 1u << phase;
    } while (take(scan, ","));
    return take(scan, "}");
}

/* Each boundary is written only where it was measured, so the first member has no comma before it. */
static bool take_lead_members(struct scan *scan, struct tml_device_lead *lead)
{
    bool any = false;
    for (unsigned boundary = 0; boundary < TML_BOUNDARY_COUNT; boundary++) {
        const char *key = tml_boundary_key((enum tml_boundary)boundary), *before = scan->at;
        if ((any && !take(scan, ",")) || !take_key(scan, key))
            scan->at = before;
        else if (any = true, !take_ms(scan, &lead->ns[boundary]))
            return false;
    }
    return (!any || take(scan, ",")) && take_key(scan, "error_ms") && take_ms(scan, &lead->error_ns);
}

static bool take_lead(struct scan *scan, struct tml_device_lead *lead)
{
    char word[WORD_BYTES];
    if (take_next_key(scan, "lead"))
        return take(scan, "{") && take_lead_members(scan, lead) && take(scan, "}");
    if (!take_next_key(scan, "lead_reason"))
        return true;
    bool good = take_word(scan, word);
    lead->reason = good ? tml_reason_from_key(word) : TML_REASON_NONE;
    return good;
}

static bool take_head(struct scan *scan, struct tml_step_row *row)
{
    uint64_t epoch;
    if (!take(scan, "{") || !take_key(scan, "step") || !take_uint(scan, &row->step) ||
        !take_next_key(scan, "iteration") || !take_uint(scan, &row->iteration) || !take_next_key(scan, "end_ms") ||
        !take_ms(scan, &row->end_ns))
        return false;
    if (take_next_key(scan, "epoch")) {
        if (!take_uint(scan, &epoch))
            return false;
        row->epoch = (int64_t)epoch;
    }
    return !take_next_key(scan, "microbatches") || take_uint32(scan, &row->microbatches);
}

bool tml_step_scan(const char *line, size_t bytes, struct tml_step_row *row)
{
    struct scan scan = {line, line + bytes};
    tml_step_row_clear(row);
    return take_head(&scan, row) && take_flags(&scan, &row->flags) && take_clocks(&scan, row) &&
           take_region(&scan, TML_REGION_PRE, row) && take_region(&scan, TML_REGION_IN, row) &&
           take_lead(&scan, &row->lead) && take(&scan, "}") && scan.at == scan.end;
}
