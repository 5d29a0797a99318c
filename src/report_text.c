#include "report_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LABEL_COLUMNS 9 /* "  next   " */
#define TITLE "TraceML"
#define TITLE_COLUMNS 10

/* ---- Characters ---- */

/* The few of ours that are beyond ASCII, and what stands for them. */
static const struct {
    const char *glyph, *ascii;
} glyphs[] = {
    {"├─", "|-"}, {"└─", "`-"}, {"│", "|"}, {"◀", "<"}, {"├", "|"}, {"└", "`"}, {"·", "|"},
};

static size_t add_glyph(struct tml_text *text, const char *at)
{
    for (size_t i = 0; i < sizeof glyphs / sizeof *glyphs; i++) {
        size_t bytes = strlen(glyphs[i].glyph);
        if (strncmp(at, glyphs[i].glyph, bytes) == 0) {
            tml_text_add(text, glyphs[i].ascii);
            return bytes;
        }
    }
    size_t bytes = 1; /* a name with other letters */
    while (((unsigned char)at[bytes] & 0xC0) == 0x80)
        bytes++;
    tml_text_add(text, "?");
    return bytes;
}

/* Control characters of a name must not reach a terminal in either style. */
static void add_plain(struct tml_text *text, const struct tml_text_style *style, const char *words)
{
    while (*words) {
        unsigned control = tml_text_control(words);
        if ((unsigned char)*words >= 0x80 && style->ascii && !control) {
            words += add_glyph(text, words);
            continue;
        }
        tml_text_add_bytes(text, control ? "?" : words, 1);
        words += control ? control : 1;
    }
}

void tml_report_paint(struct tml_text *text, const struct tml_text_style *style, enum tml_paint paint,
                      const char *words)
{
    static const char *const codes[] = {"", "\033[2m", "\033[1m", "\033[1;32m", "\033[1;33m", "\033[1;31m"};
    bool color = style->color && paint != TML_PAINT_NONE && *words;
    if (color)
        tml_text_add(text, codes[paint]);
    add_plain(text, style, words);
    if (color)
        tml_text_add(text, "\033[0m");
}

/* ---- Lines ---- */

/* Small parts of a long step still show, and a long step is not drowned in digits. */
unsigned tml_report_decimals(const struct tml_analysis *analysis)
{
    int64_t traced_ns = analysis->window.metric[TML_METRIC_TRACED_STEP_TIME].median.value_ns;
    int64_t step_ns = analysis->window.metric[TML_METRIC_STEP_TIME].median.value_ns;
    unsigned fine = tml_text_ms_decimals(traced_ns == TML_NS_NONE ? 0 : traced_ns);
    unsigned coarse = tml_text_ms_decimals(step_ns == TML_NS_NONE ? 0 : step_ns) + 1;
    return fine < coarse ? fine : coarse;
}

void tml_report_line(struct tml_text *text, const struct tml_text_style *style, const char *label, const char *words)
{
    struct tml_text wrapped = {0};
    char head[LABEL_COLUMNS + 1];
    snprintf(head, sizeof head, "  %-*s", LABEL_COLUMNS - 2, label);
    tml_text_wrap(&wrapped, words, LABEL_COLUMNS, LABEL_COLUMNS, style->columns);
    text->failed = text->failed || wrapped.failed;
    tml_report_paint(text, style, TML_PAINT_DIM, head);
    tml_report_paint(text, style, TML_PAINT_NONE, tml_text_words(&wrapped));
    tml_text_add(text, "\n");
    tml_text_drop(&wrapped);
}

/* Parts joined by " · ", the next one on a new line when it does not fit. */
static void add_part(struct tml_text *text, const struct tml_text_style *style, size_t *at, const char *part)
{
    size_t columns = tml_text_columns(part);
    bool first = *at == TITLE_COLUMNS;
    if (!first && *at + 3 + columns > style->columns) {
        tml_text_add(text, "\n");
        tml_text_spaces(text, TITLE_COLUMNS);
        *at = TITLE_COLUMNS;
        first = true;
    }
    if (!first)
        tml_report_paint(text, style, TML_PAINT_DIM, " · ");
    tml_report_paint(text, style, TML_PAINT_NONE, part);
    *at += columns + (first ? 0 : 3);
}

/* ---- Title ---- */

static const char *ending(const struct tml_run_facts *facts, char *out, size_t bytes)
{
    const char *reason = facts->end_reason;
    if (facts->complete)
        return "complete";
    if (facts->running)
        return "still running";
    if (strncmp(reason, "signal:", 7) == 0)
        snprintf(out, bytes, "incomplete: ended by %s", reason + 7);
    else if (strncmp(reason, "exit:", 5) == 0)
        snprintf(out, bytes, "incomplete: exit code %s", reason + 5);
    else if (strcmp(reason, "exception") == 0)
        snprintf(out, bytes, "incomplete: ended by an exception");
    else if (strcmp(reason, "unknown") == 0)
        snprintf(out, bytes, "no end recorded");
    else if (strcmp(reason, "finished") == 0)
        snprintf(out, bytes, "incomplete: not every rank finished");
    else
        snprintf(out, bytes, "incomplete: %s", reason);
    return out;
}

static void devices(const struct tml_run_facts *facts, char *out, size_t bytes)
{
    if (facts->gpus == 0)
        snprintf(out, bytes, "CPU");
    else
        snprintf(out, bytes, "%zu x %s", facts->gpus, facts->gpu_name ? facts->gpu_name : "GPU");
}

static void ranks(const struct tml_run_facts *facts, char *out, size_t bytes)
{
    const char *plural = facts->world_size == 1 ? "" : "s";
    if (facts->missing_count > 0 && facts->world_size > 1)
        snprintf(out, bytes, "%zu of %" PRIu64 " rank%s", facts->ranks_seen, facts->world_size, plural);
    else
        snprintf(out, bytes, "%" PRIu64 " rank%s", facts->world_size, plural);
}

static void steps(const struct tml_analysis *analysis, char *out, size_t bytes)
{
    const struct tml_window *window = &analysis->window;
    if (window->steps == 1)
        snprintf(out, bytes, "step %" PRIu64 " of %" PRIu64, window->first_step, analysis->facts.completed);
    else if (window->steps > 0)
        snprintf(out, bytes, "steps %" PRIu64 "-%" PRIu64 " of %" PRIu64, window->first_step, window->last_step,
                 analysis->facts.completed);
    else
        snprintf(out, bytes, "%" PRIu64 " step%s", analysis->facts.completed,
                 analysis->facts.completed == 1 ? "" : "s");
}

/* Of the training loop: the one duration that a killed run has, too. */
static void duration(const struct tml_run_facts *facts, char *out, size_t bytes)
{
    char value[TML_TEXT_MS_BYTES];
    *out = '\0';
    if (facts->training_loop_ns == TML_NS_NONE)
        return;
    tml_text_format_s(value, (double)facts->training_loop_ns / TML_NS_PER_S);
    snprintf(out, bytes, "loop %s", value);
}

static void add_title(struct tml_text *text, const struct tml_analysis *analysis, const struct tml_text_style *style)
{
    const struct tml_run_facts *facts = &analysis->facts;
    char part[256];
    size_t at = TITLE_COLUMNS;
    tml_report_paint(text, style, TML_PAINT_BOLD, TITLE);
    tml_text_spaces(text, TITLE_COLUMNS - strlen(TITLE));
    add_part(text, style, &at, facts->run_name ? facts->run_name : "run");
    ranks(facts, part, sizeof part);
    add_part(text, style, &at, part);
    if (facts->completed > 0) {
        devices(facts, part, sizeof part);
        add_part(text, style, &at, part);
    }
    steps(analysis, part, sizeof part);
    add_part(text, style, &at, part);
    duration(facts, part, sizeof part);
    if (*part)
        add_part(text, style, &at, part);
    add_part(text, style, &at, ending(facts, part, sizeof part));
    tml_text_add(text, "\n\n");
}

/* ---- Verdict ---- */

static void add_verdict(struct tml_text *text, const struct tml_finding *finding, const struct tml_text_style *style)
{
    static const enum tml_paint paints[] = {TML_PAINT_GOOD, TML_PAINT_WARN, TML_PAINT_BAD};
    bool unsure = finding->kind <= TML_FINDING_INCOMPLETE_DATA;
    tml_report_paint(text, style, unsure ? TML_PAINT_BOLD : paints[finding->severity],
                     tml_finding_status(finding->kind));
    if (finding->severity > TML_SEVERITY_INFO) {
        tml_text_add(text, "   ");
        tml_report_paint(text, style, paints[finding->severity], tml_severity_word(finding->severity));
    }
    tml_text_add(text, "\n");
    tml_report_line(text, style, "why", finding->summary);
    tml_report_line(text, style, "next", finding->action);
}

static struct tml_text_style checked(const struct tml_text_style *style)
{
    struct tml_text_style safe = *style;
    if (safe.columns < TML_TEXT_FEWEST_COLUMNS)
        safe.columns = TML_TEXT_FEWEST_COLUMNS;
    return safe;
}

static bool has_numbers(const struct tml_analysis *analysis)
{
    return analysis->window.steps >= TML_WARN_STEPS;
}

char *tml_report_card(const struct tml_analysis *analysis, const struct tml_text_style *style)
{
    struct tml_text text = {0};
    struct tml_text_style safe = checked(style);
    add_verdict(&text, &analysis->verdict.finding[0], &safe);
    if (has_numbers(analysis)) {
        tml_text_add(&text, "\n");
        tml_report_tree(&text, analysis, &safe);
    }
    return tml_text_take(&text);
}

char *tml_report_text(const struct tml_analysis *analysis, const struct tml_text_style *style)
{
    struct tml_text text = {0};
    struct tml_text_style safe = checked(style);
    add_title(&text, analysis, &safe);
    add_verdict(&text, &analysis->verdict.finding[0], &safe);
    if (has_numbers(analysis)) {
        tml_text_add(&text, "\n");
        tml_report_tree(&text, analysis, &safe);
    }
    tml_text_add(&text, "\n");
    tml_report_lines(&text, analysis, &safe);
    return tml_text_take(&text);
}
