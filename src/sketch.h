/*
 * Purpose   many times of one metric in bounded memory: count, sum, minimum, maximum, and quantiles to 4.4 %.
 * Memory    plain data, 4 KiB, no pointers; a zeroed one is empty.
 * Threads   any; one sketch by one thread at a time.
 * Units     ns in, ns out; written in ms (docs/summary-format.md: folded lines).
 * Depends   clock, json.
 */
#ifndef TML_SKETCH_H
#define TML_SKETCH_H

#include <stdbool.h>
#include <stdint.h>

#include "json.h"

/* Bucket b holds the times t (ms) with floor(8 * log2(t)) == b: its ends differ by 9 %, its middle is off by at most
 * 4.4 %. These hold every int64 of ns above zero; what is zero or less is counted apart. */
#define TML_SKETCH_FIRST_BUCKET (-160)
#define TML_SKETCH_LAST_BUCKET 344
#define TML_SKETCH_BUCKETS (TML_SKETCH_LAST_BUCKET - TML_SKETCH_FIRST_BUCKET + 1)

struct tml_sketch {
    uint64_t count;
    int64_t sum_ns, min_ns, max_ns; /* the sum stays at the ends of int64 (292 years) */
    uint64_t zero;                  /* of count, those not above zero */
    uint64_t bucket[TML_SKETCH_BUCKETS];
};

/* TML_NS_NONE is not counted. */
void tml_sketch_add(struct tml_sketch *sketch, int64_t ns);
/* As if everything added to `other` had been added here. */
void tml_sketch_merge(struct tml_sketch *sketch, const struct tml_sketch *other);
/* The time below which a share of `q` (0 to 1) lies; TML_NS_NONE when empty. 0 and 1 give the exact ends. */
int64_t tml_sketch_quantile(const struct tml_sketch *sketch, double q);
/* TML_NS_NONE when empty. */
int64_t tml_sketch_mean(const struct tml_sketch *sketch);

/* Writes {"n","sum","min","max","sketch":{bucket: count}}, with at most `most_buckets` (at least 1) of them: beyond,
 * the lowest go into the lowest one that stays, as high quantiles are what a reader asks for. */
void tml_sketch_write(const struct tml_sketch *sketch, struct tml_json_writer *writer, const char *key,
                      unsigned most_buckets);
/* Reads what tml_sketch_write() wrote; false when it is no such object or its numbers contradict each
 * other. */
bool tml_sketch_read(const struct tml_json *value, struct tml_sketch *sketch);

#endif
