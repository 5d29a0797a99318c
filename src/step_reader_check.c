/* The types of what a header, a state line, an end line and the manifest say: a number that is none must not become
 * "unknown" without a word. A member that is null or not there is unknown by intent; unknown members are later ones'. */
#include <string.h>

#include "step_reader.h"

typedef bool check(const struct tml_json *value);

static bool is_text(const struct tml_json *value)
{
    return tml_json_string(value);
}

static bool is_whole(const struct tml_json *value)
{
    uint64_t number;
    return tml_json_uint(value, &number);
}

static bool is_positive(const struct tml_json *value)
{
    uint64_t number;
    return tml_json_uint(value, &number) && number > 0;
}

static bool is_seconds(const struct tml_json *value)
{
    double number;
    return tml_json_number(value, &number) && number >= 0;
}

static bool is_yes_or_no(const struct tml_json *value)
{
    bool yes;
    return tml_json_bool(value, &yes);
}

static bool is_texts(const struct tml_json *value)
{
    const struct tml_json *child = tml_json_first(value);
    while (child && is_text(child))
        child = tml_json_next(child);
    return tml_json_is_array(value) && !child;
}

static bool is_counts(const struct tml_json *value)
{
    const struct tml_json *child = tml_json_first(value);
    while (child && is_whole(child))
        child = tml_json_next(child);
    return tml_json_is_object(value) && !child;
}

static bool is_run(const struct tml_json *value)
{
    const struct tml_json *process_s = tml_json_get(value, "process_s");
    return tml_json_is_object(value) && (!process_s || tml_json_is_null(process_s) || is_seconds(process_s));
}

struct member {
    const char *key;
    check *check;
    const char *wrong;
};

/* One list for all kinds of line: a key means the same wherever it stands. */
static const struct member members[] = {
#define M(key, check, expected)                                                                                        \
    {                                                                                                                  \
#key, check, "\"" #key "\" is not " expected                                                                   \
    }
    M(run_name, is_text, "a text"),
    M(program, is_text, "a text"),
    M(started_at, is_text, "a text"),
    M(host, is_text, "a text"),
    M(device, is_text, "a text"),
    M(gpu_name, is_text, "a text"),
    M(reason, is_text, "a text"),
    M(end_reason, is_text, "a text"),
    M(rank, is_whole, "a whole number from 0"),
    M(local_rank, is_whole, "a whole number from 0"),
    M(world_size, is_positive, "a whole number from 1"),
    M(observer, is_yes_or_no, "true or false"),
    M(armed, is_texts, "a list of phases"),
    M(environment, tml_json_is_object, "an object"),
    M(overhead, tml_json_is_object, "an object"),
    M(losses, is_counts, "an object of counts"),
    M(run, is_run, "an object whose \"process_s\" are seconds from 0"),
    M(after_s, is_seconds, "seconds from 0"),
    M(process_s, is_seconds, "seconds from 0"),
#undef M
};

const char *tml_rank_wrong_members(const struct tml_json *object)
{
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        const struct tml_json *value = tml_json_get(object, members[i].key);
        if (value && !tml_json_is_null(value) && !members[i].check(value))
            return members[i].wrong;
    }
    return NULL;
}

const char *tml_rank_wrong_header(const struct tml_json *header, unsigned rank)
{
    const char *wrong = tml_rank_wrong_members(header);
    uint64_t number, world = UINT64_MAX;
    bool known = tml_json_uint(tml_json_get(header, "rank"), &number);
    tml_json_uint(tml_json_get(header, "world_size"), &world);
    if (!wrong && known && number != rank)
        wrong = "the header of another rank";
    return wrong || rank < world ? wrong : "\"world_size\" is not above the rank";
}
