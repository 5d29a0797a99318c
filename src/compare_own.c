/* The user's own phases by name: a name that one run does not have is null there, and not zero. */
#include <string.h>

#include "compare.h"

static const struct tml_json *spans_of(const struct tml_compare_side *side)
{
    return tml_compare_at(side->root, "step_time/global/user_spans");
}

void tml_compare_check_own(struct tml_compare_reading *reading)
{
    const struct tml_json *spans = tml_compare_object_at(reading, "step_time/global/user_spans", false);
    for (const struct tml_json *child = tml_json_first(spans); child; child = tml_json_next(child))
        tml_compare_ms_of(reading, tml_json_get(child, "exclusive_ms"), "user_spans", tml_json_key(child));
}

static int64_t span_ns(const struct tml_json *spans, const char *name)
{
    int64_t ns;
    return tml_json_ms_as_ns(tml_json_get(tml_json_get(spans, name), "exclusive_ms"), &ns) ? ns : TML_NS_NONE;
}

static const char *why_not(const struct tml_comparison *comparison, const struct tml_compare_own *own)
{
    const struct tml_compare_side *side = comparison->side;
    if (!tml_json_get(spans_of(&side[0]), own->name))
        return "no such span in the old run";
    if (!tml_json_get(spans_of(&side[1]), own->name))
        return "no such span in the new run";
    if (own->old_ns == TML_NS_NONE || own->new_ns == TML_NS_NONE)
        return own->old_ns != TML_NS_NONE   ? "no value in the new run"
               : own->new_ns != TML_NS_NONE ? "no value in the old run"
                                            : "no value in either run";
    return side[0].clock != side[1].clock ? "on another clock" : NULL;
}

static void add(struct tml_comparison *comparison, const char *name)
{
    if (comparison->owns == TML_COMPARE_MOST_OWN)
        return;
    struct tml_compare_own *own = &comparison->own[comparison->owns++];
    own->name = name;
    own->old_ns = span_ns(spans_of(&comparison->side[0]), name);
    own->new_ns = span_ns(spans_of(&comparison->side[1]), name);
    own->reason = why_not(comparison, own);
}

void tml_compare_find_own(struct tml_comparison *comparison)
{
    const struct tml_json *old_spans = spans_of(&comparison->side[0]), *new_spans = spans_of(&comparison->side[1]);
    for (const struct tml_json *child = tml_json_first(old_spans); child; child = tml_json_next(child))
        add(comparison, tml_json_key(child));
    for (const struct tml_json *child = tml_json_first(new_spans); child; child = tml_json_next(child))
        if (!tml_json_get(old_spans, tml_json_key(child)))
            add(comparison, tml_json_key(child));
}
