#include "json.h"

#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "utf8.h"

#define FIRST_BYTES 4096
#define WHOLE_LIMIT 9007199254740992.0 /* 2^53: a double beyond it has no decimals */

/* ---- Text ---- */

static void fail(struct tml_json_writer *writer)
{
    writer->failed = true;
}

/* Room for `bytes` more and a NUL, so that a finished text is always a C string. */
static bool reserve(struct tml_json_writer *writer, size_t bytes)
{
    if (writer->failed)
        return false;
    if (bytes < writer->capacity - writer->length)
        return true;
    size_t capacity = writer->capacity ? writer->capacity : FIRST_BYTES;
    while (bytes >= capacity - writer->length && capacity <= SIZE_MAX / 2)
        capacity *= 2;
    char *text = writer->fixed || bytes >= capacity - writer->length ? NULL : realloc(writer->text, capacity);
    if (!text) {
        fail(writer);
        return false;
    }
    writer->text = text;
    writer->capacity = capacity;
    return true;
}

static void put(struct tml_json_writer *writer, const char *text, size_t bytes)
{
    if (!reserve(writer, bytes))
        return;
    memcpy(writer->text + writer->length, text, bytes);
    writer->length += bytes;
    writer->text[writer->length] = '\0';
}

static void put_escape(struct tml_json_writer *writer, unsigned char c)
{
    static const char shorts[] = "\"\"\\\\\bb\ff\nn\rr\tt"; /* character, letter of its escape */
    for (const char *pair = shorts; *pair; pair += 2)
        if ((unsigned char)pair[0] == c) {
            put(writer, (const char[]){'\\', pair[1]}, 2);
            return;
        }
    static const char hex[] = "0123456789abcdef";
    put(writer, (const char[]){'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]}, 6);
}

/* Bytes from `text` on that stand in a JSON string as they are. */
static size_t plain_run(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    while (*at >= 0x20 && *at != '"' && *at != '\\') {
        unsigned length = *at < 0x80 ? 1 : tml_utf8_length(at, SIZE_MAX); /* nearly all text is ASCII */
        if (length == 0)
            break;
        at += length;
    }
    return (size_t)(at - (const unsigned char *)text);
}

static void put_string(struct tml_json_writer *writer, const char *text)
{
    put(writer, "\"", 1);
    for (;;) {
        size_t run = plain_run(text);
        put(writer, text, run);
        text += run;
        if (*text == '\0')
            break;
        if ((unsigned char)*text >= 0x80)
            put(writer, "\xEF\xBF\xBD", 3);
        else
            put_escape(writer, (unsigned char)*text);
        text++;
    }
    put(writer, "\"", 1);
}

static void put_line_break(struct tml_json_writer *writer)
{
    if (writer->indent == 0)
        return;
    put(writer, "\n", 1);
    for (unsigned i = 0; i < writer->indent * writer->depth; i++)
        put(writer, " ", 1);
}

/* What stands before every value. */
static void lead_in(struct tml_json_writer *writer, const char *key)
{
    if (writer->comma)
        put(writer, ",", 1);
    if (writer->depth > 0)
        put_line_break(writer);
    if (key) {
        put_string(writer, key);
        put(writer, ": ", writer->indent ? 2 : 1);
    }
    writer->comma = true;
}

static void begin(struct tml_json_writer *writer, const char *key, const char *bracket)
{
    lead_in(writer, key);
    put(writer, bracket, 1);
    writer->depth++;
    writer->comma = false;
}

static void end(struct tml_json_writer *writer, const char *bracket)
{
    if (writer->depth == 0) {
        fail(writer);
        return;
    }
    writer->depth--;
    if (writer->comma)
        put_line_break(writer);
    put(writer, bracket, 1);
    writer->comma = true;
}

/* ---- Numbers: by integers where that is exact, so that no locale has a say ---- */

#define DIGITS 24 /* of any 64-bit number */

/* Writes `value` with at least `least` digits so that they end at `end`; returns where they begin. */
static char *digits_before(char *end, uint64_t value, unsigned least)
{
    char *at = end;
    for (; value > 0 || least > 0; value /= 10, least -= least > 0)
        *--at = (char)('0' + value % 10);
    return at;
}

/* sign, whole part, and `part` of 10^decimals without trailing zeros. */
static void put_decimal(struct tml_json_writer *writer, bool negative, uint64_t whole, uint64_t part, unsigned decimals)
{
    char text[2 * DIGITS + 2], *middle = text + DIGITS + 1, *last = middle;
    char *first = digits_before(middle, whole, 1);
    if (negative && (whole > 0 || part > 0))
        *--first = '-';
    if (part > 0) {
        for (; part % 10 == 0; part /= 10)
            decimals--;
        *middle = '.';
        last = middle + 1 + decimals;
        digits_before(last, part, decimals);
    }
    put(writer, first, (size_t)(last - first));
}

/* The shortest of 15 to 17 digits that reads back as the same double. */
static void put_round_trip(struct tml_json_writer *writer, double value)
{
    char text[40] = "";
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c_locale == (locale_t)0) {
        fail(writer);
        return;
    }
    locale_t before = uselocale(c_locale);
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    uselocale(before);
    freelocale(c_locale);
    put(writer, text, strlen(text));
}

static void put_number(struct tml_json_writer *writer, double value, unsigned decimals)
{
    double size = fabs(value), whole = floor(size);
    if (whole == size && size <= WHOLE_LIMIT) {
        put_decimal(writer, value < 0, (uint64_t)whole, 0, 0);
        return;
    }
    if (decimals > 15 || size > WHOLE_LIMIT) {
        put_round_trip(writer, value);
        return;
    }
    uint64_t scale = 1;
    for (unsigned i = 0; i < decimals; i++)
        scale *= 10;
    uint64_t part = (uint64_t)llround((size - whole) * (double)scale); /* size - whole is exact */
    put_decimal(writer, value < 0, (uint64_t)whole + part / scale, part % scale, decimals);
}

/* ---- Public ---- */

void tml_json_writer_fixed(struct tml_json_writer *writer, char *buffer, size_t bytes)
{
    *writer = (struct tml_json_writer){.text = buffer, .capacity = bytes, .fixed = true, .failed = bytes == 0};
    if (bytes > 0)
        buffer[0] = '\0';
}

void tml_json_writer_heap(struct tml_json_writer *writer, unsigned indent)
{
    *writer = (struct tml_json_writer){.indent = indent};
}

char *tml_json_writer_take(struct tml_json_writer *writer)
{
    char *text = writer->text;
    if (writer->failed || writer->fixed || writer->depth > 0) {
        tml_json_writer_drop(writer);
        return NULL;
    }
    *writer = (struct tml_json_writer){.indent = writer->indent};
    return text;
}

void tml_json_writer_drop(struct tml_json_writer *writer)
{
    if (!writer->fixed)
        free(writer->text);
    *writer = (struct tml_json_writer){.failed = true};
}

void tml_json_begin_object(struct tml_json_writer *writer, const char *key)
{
    begin(writer, key, "{");
}

void tml_json_end_object(struct tml_json_writer *writer)
{
    end(writer, "}");
}

void tml_json_begin_array(struct tml_json_writer *writer, const char *key)
{
    begin(writer, key, "[");
}

void tml_json_end_array(struct tml_json_writer *writer)
{
    end(writer, "]");
}

void tml_json_write_null(struct tml_json_writer *writer, const char *key)
{
    tml_json_write_raw(writer, key, "null");
}

void tml_json_write_bool(struct tml_json_writer *writer, const char *key, bool value)
{
    tml_json_write_raw(writer, key, value ? "true" : "false");
}

void tml_json_write_uint(struct tml_json_writer *writer, const char *key, uint64_t value)
{
    lead_in(writer, key);
    put_decimal(writer, false, value, 0, 0);
}

void tml_json_write_int(struct tml_json_writer *writer, const char *key, int64_t value)
{
    lead_in(writer, key);
    put_decimal(writer, value < 0, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, 0, 0);
}

void tml_json_write_number(struct tml_json_writer *writer, const char *key, double value, unsigned decimals)
{
    lead_in(writer, key);
    if (isfinite(value))
        put_number(writer, value, decimals);
    else
        put(writer, "null", 4);
}

void tml_json_write_ns_as_ms(struct tml_json_writer *writer, const char *key, int64_t ns)
{
    lead_in(writer, key);
    if (ns == TML_NS_NONE) {
        put(writer, "null", 4);
        return;
    }
    uint64_t size = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
    put_decimal(writer, ns < 0, size / TML_NS_PER_MS, size % TML_NS_PER_MS, 6);
}

void tml_json_write_string(struct tml_json_writer *writer, const char *key, const char *value)
{
    lead_in(writer, key);
    if (value)
        put_string(writer, value);
    else
        put(writer, "null", 4);
}

void tml_json_write_raw(struct tml_json_writer *writer, const char *key, const char *json)
{
    lead_in(writer, key);
    if (!json || *json == '\0')
        json = "null"; /* nothing would make the whole document unreadable */
    put(writer, json, strlen(json));
}
