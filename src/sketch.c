#include "sketch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"

#define BUCKETS_PER_OCTAVE 8

static int64_t saturating_sum(int64_t a, int64_t b)
{
    int64_t sum;
    if (!__builtin_add_overflow(a, b, &sum))
        return sum;
    return a < 0 ? -INT64_MAX : INT64_MAX; /* not INT64_MIN: that is "not measured" */
}

static int64_t clamp(int64_t value, int64_t least, int64_t most)
{
    return value < least ? least : value > most ? most : value;
}

static unsigned index_of(int64_t ns)
{
    double bucket = floor(BUCKETS_PER_OCTAVE * log2((double)ns / (double)TML_NS_PER_MS));
    return (unsigned)clamp((int64_t)bucket - TML_SKETCH_FIRST_BUCKET, 0, TML_SKETCH_BUCKETS - 1);
}

/* The geometric middle: as far from one end as from the other, in per cent. */
static int64_t middle_of(unsigned index)
{
    double bucket = (double)index + TML_SKETCH_FIRST_BUCKET + 0.5;
    double ns = exp2(bucket / BUCKETS_PER_OCTAVE) * (double)TML_NS_PER_MS;
    return ns < (double)INT64_MAX ? llround(ns) : INT64_MAX;
}

void tml_sketch_add(struct tml_sketch *sketch, int64_t ns)
{
    if (ns == TML_NS_NONE)
        return;
    if (sketch->count == 0 || ns < sketch->min_ns)
        sketch->min_ns = ns;
    if (sketch->count == 0 || ns > sketch->max_ns)
        sketch->max_ns = ns;
    sketch->count++;
    sketch->sum_ns = saturating_sum(sketch->sum_ns, ns);
    if (ns > 0)
        sketch->bucket[index_of(ns)]++;
    else
        sketch->zero++;
}

void tml_sketch_merge(struct tml_sketch *sketch, const struct tml_sketch *other)
{
    if (other->count == 0)
        return;
    if (sketch->count == 0 || other->min_ns < sketch->min_ns)
        sketch->min_ns = other->min_ns;
    if (sketch->count == 0 || other->max_ns > sketch->max_ns)
        sketch->max_ns = other->max_ns;
    sketch->count += other->count;
    sketch->sum_ns = saturating_sum(sketch->sum_ns, other->sum_ns);
    sketch->zero += other->zero;
    for (unsigned i = 0; i < TML_SKETCH_BUCKETS; i++)
        sketch->bucket[i] += other->bucket[i];
}

int64_t tml_sketch_quantile(const struct tml_sketch *sketch, double q)
{
    if (sketch->count == 0)
        return TML_NS_NONE;
    if (!(q > 0))
        return sketch->min_ns;
    if (q >= 1)
        return sketch->max_ns;
    uint64_t rank = (uint64_t)(q * (double)(sketch->count - 1)), below = sketch->zero;
    if (rank < below)
        return clamp(0, sketch->min_ns, sketch->max_ns);
    unsigned index = 0;
    while (index < TML_SKETCH_BUCKETS - 1 && (below += sketch->bucket[index]) <= rank)
        index++;
    return clamp(middle_of(index), sketch->min_ns, sketch->max_ns);
}

int64_t tml_sketch_mean(const struct tml_sketch *sketch)
{
    return sketch->count ? llround((double)sketch->sum_ns / (double)sketch->count) : TML_NS_NONE;
}

/* ---- JSON ---- */

static unsigned occupied(const struct tml_sketch *sketch)
{
    unsigned buckets = 0;
    for (unsigned i = 0; i < TML_SKETCH_BUCKETS; i++)
        buckets += sketch->bucket[i] > 0;
    return buckets;
}

static void write_buckets(const struct tml_sketch *sketch, struct tml_json_writer *writer, unsigned most_buckets)
{
    unsigned buckets = occupied(sketch), too_many = buckets > most_buckets ? buckets - most_buckets : 0;
    uint64_t carried = 0;
    if (sketch->zero > 0)
        tml_json_write_uint(writer, "zero", sketch->zero);
    for (unsigned i = 0; i < TML_SKETCH_BUCKETS; i++) {
        char key[16];
        if (sketch->bucket[i] == 0)
            continue;
        carried += sketch->bucket[i];
        if (too_many > 0) {
            too_many--;
            continue;
        }
        snprintf(key, sizeof key, "%d", (int)i + TML_SKETCH_FIRST_BUCKET);
        tml_json_write_uint(writer, key, carried);
        carried = 0;
    }
}

void tml_sketch_write(const struct tml_sketch *sketch, struct tml_json_writer *writer, const char *key,
                      unsigned most_buckets)
{
    bool empty = sketch->count == 0;
    tml_json_begin_object(writer, key);
    tml_json_write_uint(writer, "n", sketch->count);
    tml_json_write_ns_as_ms(writer, "sum", sketch->sum_ns);
    tml_json_write_ns_as_ms(writer, "min", empty ? TML_NS_NONE : sketch->min_ns);
    tml_json_write_ns_as_ms(writer, "max", empty ? TML_NS_NONE : sketch->max_ns);
    tml_json_begin_object(writer, "sketch");
    write_buckets(sketch, writer, most_buckets);
    tml_json_end_object(writer);
    tml_json_end_object(writer);
}

static uint64_t *counter_of(struct tml_sketch *sketch, const char *key)
{
    if (strcmp(key, "zero") == 0)
        return &sketch->zero;
    char *end;
    long bucket = strtol(key, &end, 10);
    if (end == key || *end != '\0' || bucket < TML_SKETCH_FIRST_BUCKET || bucket > TML_SKETCH_LAST_BUCKET)
        return NULL;
    return &sketch->bucket[bucket - TML_SKETCH_FIRST_BUCKET];
}

static bool read_buckets(const struct tml_json *buckets, struct tml_sketch *sketch)
{
    uint64_t sum = 0;
    for (const struct tml_json *child = tml_json_first(buckets); child; child = tml_json_next(child)) {
        uint64_t *counter = counter_of(sketch, tml_json_key(child));
        if (!counter || *counter > 0 || !tml_json_uint(child, counter))
            return false;
        sum += *counter;
    }
    return sum == sketch->count;
}

/* The mean lies between the ends, to what a sum in a double keeps. A sum at the ends of int64 says nothing. */
static bool ends_agree(const struct tml_sketch *sketch)
{
    double sum = (double)sketch->sum_ns, n = (double)sketch->count, slack = n + fabs(sum) * 1e-9;
    bool cut_off = fabs(sum) > 9e18;
    return sketch->min_ns <= sketch->max_ns &&
           (cut_off || (sum >= n * (double)sketch->min_ns - slack && sum <= n * (double)sketch->max_ns + slack));
}

bool tml_sketch_read(const struct tml_json *value, struct tml_sketch *sketch)
{
    const struct tml_json *buckets = tml_json_get(value, "sketch");
    memset(sketch, 0, sizeof *sketch);
    if (!tml_json_is_object(buckets) || !tml_json_uint(tml_json_get(value, "n"), &sketch->count) ||
        !tml_json_ms_as_ns(tml_json_get(value, "sum"), &sketch->sum_ns) || !read_buckets(buckets, sketch))
        return false;
    if (sketch->count == 0)
        return sketch->sum_ns == 0;
    return tml_json_ms_as_ns(tml_json_get(value, "min"), &sketch->min_ns) &&
           tml_json_ms_as_ns(tml_json_get(value, "max"), &sketch->max_ns) && ends_agree(sketch);
}
