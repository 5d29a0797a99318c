/* The lines below the tables: the diagnosis before and after, what changed besides, what must be known. */
#include <string.h>

#include "compare.h"

#define MOST_NAMED 8

struct page {
    struct tml_text *text;
    const struct tml_comparison *comparison;
    const struct tml_text_style *style;
};

static void say(struct page *page, const char *label, struct tml_text *words)
{
    if (words->length > 0)
        tml_report_line(page->text, page->style, label, tml_text_words(words));
    page->text->failed = page->text->failed || words->failed;
    tml_text_drop(words);
}

static void add_fact_name(struct tml_text *text, const char *name)
{
    for (; *name; name++)
        tml_text_add_bytes(text, *name == '.' || *name == '_' ? " " : name, 1);
}

static void add_changed(struct page *page)
{
    const struct tml_compare_facts *facts = &page->comparison->changes.changed;
    struct tml_text words = {0};
    for (size_t i = 0; i < facts->count; i++) {
        if (i > 0)
            tml_text_add(&words, ", ");
        add_fact_name(&words, facts->fact[i].name);
        tml_text_add(&words, " ");
        tml_compare_add_values(&words, &facts->fact[i]);
    }
    if (facts->left_out > 0)
        tml_text_printf(&words, " and %zu more", facts->left_out);
    if (facts->count == 0)
        tml_text_add(&words, "nothing that both summaries record");
    say(page, "change", &words);
}

static void add_unknown(struct page *page, unsigned side)
{
    const struct tml_compare_facts *facts = &page->comparison->changes.unknown;
    struct tml_text words = {0};
    size_t named = 0, all = 0;
    for (size_t i = 0; i < facts->count; i++) {
        const struct tml_json *value = side == 0 ? facts->fact[i].old_value : facts->fact[i].new_value;
        if (value && !tml_json_is_null(value))
            continue;
        if (all++ >= MOST_NAMED)
            continue;
        tml_text_add(&words, named++ ? ", " : side == 0 ? "not known of the old run: " : "not known of the new run: ");
        add_fact_name(&words, facts->fact[i].name);
    }
    if (all > named)
        tml_text_printf(&words, " and %zu more", all - named);
    say(page, "note", &words);
}

static void add_diagnosis(struct page *page, unsigned side)
{
    static const char *const labels[] = {"before", "after"};
    const struct tml_json *finding = tml_compare_at(page->comparison->side[side].root, "step_time/diagnosis");
    const char *status = tml_json_string(tml_json_get(finding, "status"));
    const char *severity = tml_json_string(tml_json_get(finding, "severity"));
    const char *summary = tml_json_string(tml_json_get(finding, "summary"));
    struct tml_text words = {0};
    tml_text_add(&words, status ? status : "no diagnosis");
    if (severity && strcmp(severity, "crit") == 0)
        tml_text_add(&words, " critical");
    else if (severity && strcmp(severity, "warn") == 0)
        tml_text_add(&words, " warning");
    if (summary)
        tml_text_printf(&words, ": %s", summary);
    say(page, labels[side], &words);
}

void tml_compare_lines(struct tml_text *text, const struct tml_comparison *comparison,
                       const struct tml_text_style *style)
{
    struct page page = {text, comparison, style};
    add_diagnosis(&page, 0);
    add_diagnosis(&page, 1);
    add_changed(&page);
    add_unknown(&page, 0);
    add_unknown(&page, 1);
    for (size_t i = 0; i < comparison->notes; i++) {
        tml_report_line(text, style, "note", tml_text_words(&comparison->note[i]));
        text->failed = text->failed || comparison->note[i].failed;
    }
}
