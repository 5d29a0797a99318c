/*
 * Purpose   JSON: a reader (cJSON behind it; no other file knows cJSON) and a streaming writer.
 * Memory    tml_json_parse() hands out a tree to free with tml_json_free(); a writer owns its text until released.
 * Threads   any; one tree or writer by one thread at a time.
 * Units     times are handed over in ns and written in ms.
 * Depends   cJSON (inside json.c only).
 */
#ifndef TML_JSON_H
#define TML_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- Reader ---- */
struct tml_json; /* one value of a parsed document */

/* Why a text was refused. */
struct tml_json_fault {
    const char *what; /* words without a full stop: "not JSON", "a key twice in one object", ... */
    size_t line;      /* from 1; 0: in the whole of it */
};

/* Parses exactly one value (white space around it allowed, NUL not needed). NULL when it is none, nested deeper than
 * 64 levels, or memory is out. Refused too: numbers that are not finite, and objects with a key twice, of which one value
 * would be lost silently. `fault`: filled in then; may be NULL. */
struct tml_json *tml_json_parse_or_say(const char *text, size_t bytes, struct tml_json_fault *fault);
struct tml_json *tml_json_parse(const char *text, size_t bytes);
void tml_json_free(struct tml_json *root);

/* Members: NULL when `value` is NULL, no object, or lacks the key. */
const struct tml_json *tml_json_get(const struct tml_json *value, const char *key);
/* First child of an object or array and the next one: NULL at the end. */
const struct tml_json *tml_json_first(const struct tml_json *value);
const struct tml_json *tml_json_next(const struct tml_json *child);
const char *tml_json_key(const struct tml_json *child); /* NULL in an array */

bool tml_json_is_object(const struct tml_json *value);
bool tml_json_is_array(const struct tml_json *value);
bool tml_json_is_null(const struct tml_json *value); /* JSON null; not an absent value */
bool tml_json_number(const struct tml_json *value, double *out);
bool tml_json_uint(const struct tml_json *value, uint64_t *out); /* whole, 0 to 2^53 */
bool tml_json_bool(const struct tml_json *value, bool *out);
const char *tml_json_string(const struct tml_json *value); /* NULL when it is no string */
/* A time written in ms, as ns. False for anything but a finite number below 292 years. */
bool tml_json_ms_as_ns(const struct tml_json *value, int64_t *out);
/* The value as JSON text on the heap (free() it); NULL when memory is out. */
char *tml_json_print(const struct tml_json *value);

/* ---- Shared by json.c and json_scan.c ---- */

/* False: no JSON, with the place and what is wrong there; true: what cJSON may be given. */
bool tml_json_scan(const char *text, size_t bytes, struct tml_json_fault *fault);
/* The line that `at` stands in, from 1. */
size_t tml_json_line_at(const char *text, const char *at);

/* ---- Writer ---- */

/* Appends to `text`. With `fixed` it never allocates, and a document that does not fit sets `failed`. */
struct tml_json_writer {
    char *text;
    size_t length, capacity;
    bool fixed, failed;
    bool comma;      /* a comma is due before the next key or element */
    unsigned indent; /* spaces a level; 0: all on one line */
    unsigned depth;
};

void tml_json_writer_fixed(struct tml_json_writer *writer, char *buffer, size_t bytes);
void tml_json_writer_heap(struct tml_json_writer *writer, unsigned indent);
/* Heap writer: hands the text over (free() it); NULL if anything failed. */
char *tml_json_writer_take(struct tml_json_writer *writer);
void tml_json_writer_drop(struct tml_json_writer *writer);

/* A NULL key is for elements of arrays and for the root. */
void tml_json_begin_object(struct tml_json_writer *writer, const char *key);
void tml_json_end_object(struct tml_json_writer *writer);
void tml_json_begin_array(struct tml_json_writer *writer, const char *key);
void tml_json_end_array(struct tml_json_writer *writer);
void tml_json_write_null(struct tml_json_writer *writer, const char *key);
void tml_json_write_bool(struct tml_json_writer *writer, const char *key, bool value);
void tml_json_write_uint(struct tml_json_writer *writer, const char *key, uint64_t value);
void tml_json_write_int(struct tml_json_writer *writer, const char *key, int64_t value);
/* Shortest form with at most `decimals` decimals; null when it is not finite. */
#define TML_JSON_ALL_DECIMALS 17 /* the shortest form that reads back as the same double */
void tml_json_write_number(struct tml_json_writer *writer, const char *key, double value, unsigned decimals);
/* ns as ms with up to six decimals, exactly; null for TML_NS_NONE. */
void tml_json_write_ns_as_ms(struct tml_json_writer *writer, const char *key, int64_t ns);
/* Escaped; bytes that are not UTF-8 become U+FFFD. NULL writes null. */
void tml_json_write_string(struct tml_json_writer *writer, const char *key, const char *value);
/* A value that is JSON already (from tml_json_print() or checked input). */
void tml_json_write_raw(struct tml_json_writer *writer, const char *key, const char *json);

#endif
