#include "json.h"

#include <cjson/cJSON.h>
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"

#define FEW_KEYS 16 /* compared with each other; more are sorted */

/* ---- Reader ---- */

static const cJSON *node(const struct tml_json *value)
{
    return (const cJSON *)(const void *)value;
}

static const struct tml_json *handle(const cJSON *item)
{
    return (const struct tml_json *)(const void *)item;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool any_equal_sorted(const char **keys, size_t count)
{
    qsort(keys, count, sizeof *keys, by_key);
    for (size_t i = 1; i < count; i++)
        if (strcmp(keys[i - 1], keys[i]) == 0)
            return true;
    return false;
}

static bool any_equal(const char *const *keys, size_t count)
{
    for (size_t i = 1; i < count; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(keys[i], keys[k]) == 0)
                return true;
    return false;
}

/* NULL, or what is wrong with the keys of an object. */
static const char *flaw_of_keys(const cJSON *object)
{
    const char *few[FEW_KEYS], **keys = few;
    size_t count = 0;
    for (const cJSON *child = object->child; child; child = child->next)
        count++;
    if (count > FEW_KEYS && !(keys = malloc(count * sizeof *keys)))
        return "out of memory";
    count = 0;
    for (const cJSON *child = object->child; child; child = child->next)
        keys[count++] = child->string;
    bool twice = count > FEW_KEYS ? any_equal_sorted(keys, count) : any_equal(keys, count);
    if (keys != few)
        free(keys);
    return twice ? "a key twice in one object" : NULL;
}

/* 1e999 is JSON, and infinite in a double. Recursion: at most DEPTH_LIMIT. */
static const char *flaw_in(const cJSON *item)
{
    if (cJSON_IsNumber(item))
        return isfinite(item->valuedouble) ? NULL : "a number that is not finite";
    const char *flaw = cJSON_IsObject(item) ? flaw_of_keys(item) : NULL;
    for (const cJSON *child = item->child; child && !flaw; child = child->next)
        flaw = flaw_in(child);
    return flaw;
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

struct tml_json *tml_json_parse_or_say(const char *text, size_t bytes, struct tml_json_fault *fault)
{
    struct tml_json_fault unused, *say = fault ? fault : &unused;
    *say = (struct tml_json_fault){"empty", 0};
    if (!text || bytes == 0 || !tml_json_scan(text, bytes, say))
        return NULL;
    const char *end = text;
    cJSON *root = parse_in_c_locale(text, bytes, &end);
    bool whole = root && is_blank(end, text + bytes);
    const char *flaw = whole ? flaw_in(root) : "not JSON";
    if (!flaw)
        return (struct tml_json *)(void *)root;
    *say = (struct tml_json_fault){flaw, whole ? 0 : tml_json_line_at(text, end)}; /* a tree has no lines */
    cJSON_Delete(root);
    return NULL;
}

struct tml_json *tml_json_parse(const char *text, size_t bytes)
{
    return tml_json_parse_or_say(text, bytes, NULL);
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
