#include "json.h"

#include <cjson/cJSON.h>
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <string.h>

#include "clock.h"
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
};

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
    return scan->at - start <= NUMBER_BYTES && !take(scan, "0123456789+-.eE");
}

static bool scan_string(struct scan *scan)
{
    scan->at++;
    while (scan->at < scan->end && *scan->at != '"') {
        size_t left = (size_t)(scan->end - scan->at);
        unsigned length = tml_utf8_length(scan->at, left);
        if (length == 0 || *scan->at < 0x20)
            return false;
        if (*scan->at == '\\') {
            if (left >= 6 && memcmp(scan->at, "\\u0000", 6) == 0)
                return false;
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
        return ++*depth <= DEPTH_LIMIT;
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

static bool scan_document(const char *text, size_t bytes)
{
    struct scan scan = {(const unsigned char *)text, (const unsigned char *)text + bytes};
    unsigned depth = 0;
    while (scan.at < scan.end)
        if (!scan_token(&scan, &depth))
            return false;
    return depth == 0;
}

/* ---- Reader ---- */

static const cJSON *node(const struct tml_json *value)
{
    return (const cJSON *)(const void *)value;
}

static const struct tml_json *handle(const cJSON *item)
{
    return (const struct tml_json *)(const void *)item;
}

/* 1e999 is JSON, and infinite in a double. Recursion: at most DEPTH_LIMIT. */
static bool is_finite(const cJSON *item)
{
    if (cJSON_IsNumber(item))
        return isfinite(item->valuedouble);
    for (const cJSON *child = item->child; child; child = child->next)
        if (!is_finite(child))
            return false;
    return true;
}

static bool is_blank(const char *from, const char *end)
{
    while (from < end && strchr(" \t\r\n", *from) && *from != '\0')
        from++;
    return from == end;
}

/* cJSON goes through strtod() and localeconv(): the thread stands in the C locale meanwhile, which another thread's
 * setlocale() cannot change. glibc and musl hand out a static object for it: no allocation. */
static cJSON *parse_in_c_locale(const char *text, size_t bytes, const char **end)
{
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c_locale == (locale_t)0)
        return NULL;
    locale_t before = uselocale(c_locale);
    cJSON *root = cJSON_ParseWithLengthOpts(text, bytes, end, 0);
    uselocale(before);
    freelocale(c_locale);
    return root;
}

struct tml_json *tml_json_parse(const char *text, size_t bytes)
{
    if (!text || bytes == 0 || !scan_document(text, bytes))
        return NULL;
    const char *end = text;
    cJSON *root = parse_in_c_locale(text, bytes, &end);
    if (root && is_blank(end, text + bytes) && is_finite(root))
        return (struct tml_json *)(void *)root;
    cJSON_Delete(root);
    return NULL;
}

void tml_json_free(struct tml_json *root)
{
    cJSON_Delete((cJSON *)(void *)root);
}

const struct tml_json *tml_json_get(const struct tml_json *value, const char *key)
{
    if (!tml_json_is_object(value))
        return NULL;
    for (const cJSON *child = node(value)->child; child; child = child->next)
        if (strcmp(child->string, key) == 0)
            return handle(child);
    return NULL;
}

const struct tml_json *tml_json_first(const struct tml_json *value)
{
    return value ? handle(node(value)->child) : NULL;
}

const struct tml_json *tml_json_next(const struct tml_json *child)
{
    return child ? handle(node(child)->next) : NULL;
}

const char *tml_json_key(const struct tml_json *child)
{
    return child ? node(child)->string : NULL;
}

bool tml_json_is_object(const struct tml_json *value)
{
    return cJSON_IsObject(node(value));
}

bool tml_json_is_array(const struct tml_json *value)
{
    return cJSON_IsArray(node(value));
}

bool tml_json_is_null(const struct tml_json *value)
{
    return cJSON_IsNull(node(value));
}

bool tml_json_number(const struct tml_json *value, double *out)
{
    if (!cJSON_IsNumber(node(value)))
        return false;
    *out = node(value)->valuedouble;
    return true;
}

bool tml_json_uint(const struct tml_json *value, uint64_t *out)
{
    double number;
    if (!tml_json_number(value, &number) || !(number >= 0 && number <= 9007199254740992.0) || number != floor(number))
        return false;
    *out = (uint64_t)number;
    return true;
}

bool tml_json_bool(const struct tml_json *value, bool *out)
{
    if (!cJSON_IsBool(node(value)))
        return false;
    *out = cJSON_IsTrue(node(value));
    return true;
}

const char *tml_json_string(const struct tml_json *value)
{
    return cJSON_IsString(node(value)) ? node(value)->valuestring : NULL;
}

/* Exact up to 2^31 ms (24 days): there half an ulp of the double and the rounding of the product are under half a ns.
 * Longer times are off by at most a part in 2^52. */
bool tml_json_ms_as_ns(const struct tml_json *value, int64_t *out)
{
    double ms;
    if (!tml_json_number(value, &ms) || !(fabs(ms) < (double)INT64_MAX / TML_NS_PER_MS))
        return false;
    *out = llround(ms * (double)TML_NS_PER_MS);
    return true;
}

/* ---- Printer ---- */

static void print_value(struct tml_json_writer *writer, const char *key, const cJSON *item)
{
    if (cJSON_IsNumber(item)) {
        tml_json_write_number(writer, key, item->valuedouble, TML_JSON_ALL_DECIMALS);
    } else if (cJSON_IsString(item)) {
        tml_json_write_string(writer, key, item->valuestring);
    } else if (cJSON_IsBool(item)) {
        tml_json_write_bool(writer, key, cJSON_IsTrue(item));
    } else if (cJSON_IsObject(item)) {
        tml_json_begin_object(writer, key);
        for (const cJSON *child = item->child; child; child = child->next)
            print_value(writer, child->string, child);
        tml_json_end_object(writer);
    } else if (cJSON_IsArray(item)) {
        tml_json_begin_array(writer, key);
        for (const cJSON *child = item->child; child; child = child->next)
            print_value(writer, NULL, child);
        tml_json_end_array(writer);
    } else {
        tml_json_write_null(writer, key);
    }
}

char *tml_json_print(const struct tml_json *value)
{
    struct tml_json_writer writer;
    tml_json_writer_heap(&writer, 0);
    if (value)
        print_value(&writer, NULL, node(value));
    else
        tml_json_write_null(&writer, NULL);
    return tml_json_writer_take(&writer);
}
