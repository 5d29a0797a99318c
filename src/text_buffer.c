#include "text_buffer.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"

#define FIRST_BYTES 1024
#define WHITE_SPACE " \n\r\t" /* a name of somebody else's may hold any */

static bool reserve(struct tml_text *text, size_t more)
{
    if (text->failed || more < text->capacity - text->length)
        return !text->failed;
    size_t capacity = text->capacity ? text->capacity : FIRST_BYTES;
    while (more >= capacity - text->length)
        capacity *= 2;
    char *bytes = realloc(text->bytes, capacity);
    if (!bytes) {
        text->failed = true;
        return false;
    }
    text->bytes = bytes;
    text->capacity = capacity;
    return true;
}

void tml_text_add_bytes(struct tml_text *text, const char *bytes, size_t length)
{
    if (!reserve(text, length))
        return;
    memcpy(text->bytes + text->length, bytes, length);
    text->length += length;
    text->bytes[text->length] = '\0';
}

void tml_text_add(struct tml_text *text, const char *words)
{
    tml_text_add_bytes(text, words, strlen(words));
}

void tml_text_printf(struct tml_text *text, const char *format, ...)
{
    va_list first, second;
    va_start(first, format);
    va_copy(second, first);
    int length = vsnprintf(NULL, 0, format, first);
    va_end(first);
    if (length < 0) {
        text->failed = true;
    } else if (reserve(text, (size_t)length)) {
        vsnprintf(text->bytes + text->length, (size_t)length + 1, format, second);
        text->length += (size_t)length;
    }
    va_end(second);
}

void tml_text_spaces(struct tml_text *text, size_t count)
{
    while (count--)
        tml_text_add_bytes(text, " ", 1);
}

char *tml_text_take(struct tml_text *text)
{
    tml_text_add_bytes(text, "", 0);
    char *bytes = text->failed ? NULL : text->bytes;
    if (text->failed)
        free(text->bytes);
    *text = (struct tml_text){0};
    return bytes;
}

void tml_text_drop(struct tml_text *text)
{
    free(text->bytes);
    *text = (struct tml_text){0};
}

const char *tml_text_words(const struct tml_text *text)
{
    return text->bytes ? text->bytes : "";
}

/* A colour is ESC [ ... m. */
static const char *skip_color(const char *at)
{
    while (*at && *at != 'm')
        at++;
    return *at ? at + 1 : at;
}

size_t tml_text_columns(const char *words)
{
    size_t columns = 0;
    while (*words) {
        if (*words == '\033') {
            words = skip_color(words);
            continue;
        }
        columns += ((unsigned char)*words & 0xC0) != 0x80;
        words++;
    }
    return columns;
}

unsigned tml_text_control(const char *at)
{
    unsigned char first = (unsigned char)at[0], second = first == 0xC2 ? (unsigned char)at[1] : 0;
    if ((first < 0x20 && first != '\n') || first == 0x7F)
        return 1;
    return second >= 0x80 && second < 0xA0 ? 2 : 0;
}

bool tml_text_is_plain(const char *words)
{
    while (*words && !tml_text_control(words))
        words++;
    return !*words;
}

/* ---- Wrapping ---- */

static size_t columns_of(const char *word, size_t bytes)
{
    size_t columns = 0;
    for (size_t i = 0; i < bytes; i++)
        columns += ((unsigned char)word[i] & 0xC0) != 0x80;
    return columns;
}

void tml_text_wrap(struct tml_text *text, const char *words, size_t at, size_t indent, size_t columns)
{
    bool line_start = true;
    while (*words) {
        words += strspn(words, WHITE_SPACE);
        size_t bytes = strcspn(words, WHITE_SPACE), width = columns_of(words, bytes);
        if (bytes == 0)
            break;
        if (!line_start && at + 1 + width > columns) {
            tml_text_add(text, "\n");
            tml_text_spaces(text, indent);
            at = indent;
            line_start = true;
        }
        if (!line_start)
            tml_text_add(text, " ");
        at += width + !line_start;
        tml_text_add_bytes(text, words, bytes);
        words += bytes;
        line_start = false;
    }
}

char *tml_text_without_color(const char *words)
{
    char *plain = malloc(strlen(words) + 1), *to = plain;
    while (plain && *words) {
        if (*words == '\033')
            while (*words && *words != 'm')
                words++;
        else
            *to++ = *words;
        words += *words != '\0';
    }
    if (plain)
        *to = '\0';
    return plain;
}

/* ---- Times ---- */

static const int64_t powers[] = {1, 10, 100, 1000};

void tml_text_format_ms(char out[TML_TEXT_MS_BYTES], int64_t ns, unsigned decimals)
{
    int64_t unit_ns = TML_NS_PER_MS / powers[decimals];
    uint64_t size_ns = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
    uint64_t units = (size_ns + (uint64_t)unit_ns / 2) / (uint64_t)unit_ns;
    const char *sign = ns < 0 ? "-" : "";
    if (ns == 0)
        snprintf(out, TML_TEXT_MS_BYTES, "0.0");
    else if (units == 0)
        snprintf(out, TML_TEXT_MS_BYTES, "%s0.%0*d", ns < 0 ? ">-" : "<", (int)decimals, 1);
    else
        snprintf(out, TML_TEXT_MS_BYTES, "%s%" PRIu64 ".%0*" PRIu64, sign, units / (uint64_t)powers[decimals],
                 (int)decimals, units % (uint64_t)powers[decimals]);
}

unsigned tml_text_ms_decimals(int64_t ns)
{
    if (ns >= 20 * TML_NS_PER_MS)
        return 1;
    return ns >= 2 * TML_NS_PER_MS ? 2 : 3;
}

void tml_text_format_s(char out[TML_TEXT_MS_BYTES], double s)
{
    *out = '\0';
    if (!(s >= 0 && s < 1e12))
        return;
    int64_t ms = (int64_t)(s * 1000 + 0.5), tenths = (int64_t)(s * 10 + 0.5);
    if (ms < 1000 && (ms > 0 || s == 0))
        snprintf(out, TML_TEXT_MS_BYTES, "%" PRId64 " ms", ms);
    else if (ms == 0)
        snprintf(out, TML_TEXT_MS_BYTES, "<1 ms");
    else
        snprintf(out, TML_TEXT_MS_BYTES, "%" PRId64 ".%" PRId64 " s", tenths / 10, tenths % 10);
}
