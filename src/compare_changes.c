/* What changed besides: settings, versions, devices. A value that one side does not say is unknown and not a change. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare.h"

#define DEEPEST 3 /* environment, loader, its settings */

/* Beside the environment, which is compared member by member. */
static const struct {
    const char *path, *name;
} fixed[] = {
    {"meta/program", "program"},
    {"meta/world_size", "world_size"},
    {"meta/nodes_observed", "nodes"},
    {"meta/gpus_observed", "gpus"},
    {"run/gradient_accumulation", "gradient_accumulation"},
    {"run/steps_completed", "steps"},
    {"run/epochs_begun", "epochs"},
};

static bool known(const struct tml_json *value)
{
    return value && !tml_json_is_null(value);
}

static bool same(const struct tml_json *a, const struct tml_json *b)
{
    char *first = tml_json_print(a), *second = tml_json_print(b);
    bool equal = first && second && strcmp(first, second) == 0;
    free(first);
    free(second);
    return equal;
}

static void add(struct tml_compare_facts *facts, const char *name, const struct tml_json *old_value,
                const struct tml_json *new_value)
{
    if (facts->count == TML_COMPARE_MOST_FACTS) {
        facts->left_out++;
        return;
    }
    struct tml_compare_fact *fact = &facts->fact[facts->count++];
    snprintf(fact->name, sizeof fact->name, "%s", name);
    fact->old_value = old_value;
    fact->new_value = new_value;
}

static void compare_values(struct tml_compare_changes *changes, const char *name, const struct tml_json *old_value,
                           const struct tml_json *new_value)
{
    if (known(old_value) && known(new_value)) {
        if (!same(old_value, new_value))
            add(&changes->changed, name, old_value, new_value);
    } else if (known(old_value) || known(new_value)) {
        add(&changes->unknown, name, old_value, new_value);
    }
}

static void compare_objects(struct tml_compare_changes *changes, const char *prefix, const struct tml_json *old_object,
                            const struct tml_json *new_object, unsigned depth);

static void compare_members(struct tml_compare_changes *changes, const char *prefix, const char *key,
                            const struct tml_json *old_value, const struct tml_json *new_value, unsigned depth)
{
    char name[64];
    snprintf(name, sizeof name, "%s%s%s", prefix, *prefix ? "." : "", key);
    if (depth < DEEPEST && (tml_json_is_object(old_value) || tml_json_is_object(new_value)))
        compare_objects(changes, name, old_value, new_value, depth + 1);
    else
        compare_values(changes, name, old_value, new_value);
}

static void compare_objects(struct tml_compare_changes *changes, const char *prefix, const struct tml_json *old_object,
                            const struct tml_json *new_object, unsigned depth)
{
    for (const struct tml_json *child = tml_json_first(old_object); child; child = tml_json_next(child))
        if (tml_json_key(child))
            compare_members(changes, prefix, tml_json_key(child), child, tml_json_get(new_object, tml_json_key(child)),
                            depth);
    for (const struct tml_json *child = tml_json_first(new_object); child; child = tml_json_next(child))
        if (tml_json_key(child) && !tml_json_get(old_object, tml_json_key(child)))
            compare_members(changes, prefix, tml_json_key(child), NULL, child, depth);
}

void tml_compare_find_changes(const struct tml_compare_side side[2], struct tml_compare_changes *changes)
{
    *changes = (struct tml_compare_changes){0};
    compare_objects(changes, "", tml_compare_at(side[0].root, "meta/environment"),
                    tml_compare_at(side[1].root, "meta/environment"), 1);
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        compare_values(changes, fixed[i].name, tml_compare_at(side[0].root, fixed[i].path),
                       tml_compare_at(side[1].root, fixed[i].path));
}

const struct tml_compare_fact *tml_compare_changed(const struct tml_compare_changes *changes, const char *name)
{
    for (size_t i = 0; i < changes->changed.count; i++)
        if (strcmp(changes->changed.fact[i].name, name) == 0)
            return &changes->changed.fact[i];
    return NULL;
}

void tml_compare_add_value(struct tml_text *text, const struct tml_json *value)
{
    const char *words = tml_json_string(value);
    char *printed = words ? NULL : tml_json_print(value);
    tml_text_add(text, words ? words : printed ? printed : "unknown");
    free(printed);
}

void tml_compare_add_values(struct tml_text *text, const struct tml_compare_fact *fact)
{
    tml_compare_add_value(text, fact->new_value);
    tml_text_add(text, " (was ");
    tml_compare_add_value(text, fact->old_value);
    tml_text_add(text, ")");
}
