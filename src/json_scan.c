/* The first pass over a JSON text, before cJSON sees it. */
#include "json.h"

#include <string.h>

#include "utf8.h"

/*
 * cJSON takes more than JSON: numbers such as 01 and 1., any control character as white space, bytes that are no text,
 * \u0000 (which would cut a C string short), 1,000 levels. A first pass over the bytes refuses all that, so that what
 * reaches cJSON cannot recurse deeply either; whether brackets, commas and words stand in order is left to cJSON.
 */

#define DEPTH_LIMIT 64
#define NUMBER_BYTES 63 /* cJSON cuts a longer one in two */

struct scan {
    const unsigned char *at, *end;
    const char *what; /* is wrong at `at` */
};

static bool fail(struct scan *scan, const char *what)
{
    scan->what = what;
    return false;
}

static bool is_digit(const struct scan *scan)
{
    return scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9';
}

static bool take(struct scan *scan, const char *any_of)
{
    if (scan->at == scan->end || *scan->at == '\0' || !strchr(any_of, *scan->at))
        return false;
    scan->at++;
    return true;
}

static bool scan_digits(struct scan *scan)
{
    if (!is_digit(scan))
        return false;
    while (is_digit(scan))
        scan->at++;
    return true;
}

static bool scan_number(struct scan *scan)
{
    const unsigned char *start = scan->at;
    take(scan, "-");
    if (!take(scan, "0") && !scan_digits(scan))
        return false;
    if (take(scan, ".") && !scan_digits(scan))
        return false;
    if (take(scan, "eE")) {
        take(scan, "+-");
        if (!scan_digits(scan))
            return false;
    }
    if (scan->at - start > NUMBER_BYTES)
        return fail(scan, "a number with too many digits");
    return !take(scan, "0123456789+-.eE");
}

static bool scan_string(struct scan *scan)
{
    scan->at++;
    while (scan->at < scan->end && *scan->at != '"') {
        size_t left = (size_t)(scan->end - scan->at);
        unsigned length = tml_utf8_length(scan->at, left);
        if (length == 0)
            return fail(scan, "bytes that are not UTF-8");
        if (*scan->at < 0x20)
            return fail(scan, "a control character in a string");
        if (*scan->at == '\\') {
            if (left >= 6 && memcmp(scan->at, "\\u0000", 6) == 0)
                return fail(scan, "a NUL in a string");
            length = 2;
        }
        if (left < length)
            return false;
        scan->at += length;
    }
    return take(scan, "\"");
}

static bool scan_bracket(struct scan *scan, unsigned *depth)
{
    bool opens = *scan->at == '{' || *scan->at == '[';
    scan->at++;
    if (opens)
        return ++*depth <= DEPTH_LIMIT || fail(scan, "nested deeper than 64 levels");
    return (*depth)-- > 0;
}

static bool scan_token(struct scan *scan, unsigned *depth)
{
    switch (*scan->at) {
    case '"':
        return scan_string(scan);
    case '{':
    case '[':
    case '}':
    case ']':
        return scan_bracket(scan, depth);
    default:
        return take(scan, " \t\r\n:,truefalsn") || scan_number(scan);
    }
}

bool tml_json_scan(const char *text, size_t bytes, struct tml_json_fault *fault)
{
    struct scan scan = {(const unsigned char *)text, (const unsigned char *)text + bytes, "not JSON"};
    unsigned depth = 0;
    bool good = true;
    while (good && scan.at < scan.end)
        good = scan_token(&scan, &depth);
    if (good && depth == 0)
        return true;
    *fault = (struct tml_json_fault){scan.what, tml_json_line_at(text, (const char *)scan.at)};
    return false;
}

size_t tml_json_line_at(const char *text, const char *at)
{
    size_t line = 1;
    for (; text < at; text++)
        line += *text == '\n';
    return line;
}
