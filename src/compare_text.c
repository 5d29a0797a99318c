/* The comparison as text: verdict first, why, what next, the ratios, the phases, what changed besides. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compare.h"

#define LABEL_COLUMNS 24
#define CELL_COLUMNS 12
#define CELL_BYTES 64
#define TITLE_COLUMNS 10
#define NOTE_COLUMNS 24
#define NOTE_INDENT 6

struct table {
    struct tml_text *text;
    const struct tml_text_style *style;
    const struct tml_comparison *comparison;
    unsigned decimals;
};

/* ---- Rows: wide, one line each; narrow, as a wrapped sentence ---- */

struct row {
    const char *label;
    char old_value[CELL_BYTES], new_value[CELL_BYTES], change[CELL_BYTES], percent[CELL_BYTES];
    struct tml_text note;
};

static void add_cell(struct tml_text *text, const char *words)
{
    size_t columns = tml_text_columns(words);
    tml_text_spaces(text, columns < CELL_COLUMNS ? CELL_COLUMNS - columns : 1);
    tml_text_add(text, words);
}

static void trim(struct tml_text *text)
{
    while (text->length > 0 && text->bytes[text->length - 1] == ' ')
        text->bytes[--text->length] = '\0';
}

/* Behind the last cell where there is room for some words, else on a line of its own. */
static void add_note(struct tml_text *line, const struct tml_text *note, const struct tml_text_style *style)
{
    size_t at = tml_text_columns(tml_text_words(line)) + 3;
    if (note->length == 0)
        return;
    tml_text_add(line, "   ");
    if (at + NOTE_COLUMNS > style->columns) {
        tml_text_add(line, "\n");
        tml_text_spaces(line, NOTE_INDENT);
        at = NOTE_INDENT;
    }
    tml_text_wrap(line, tml_text_words(note), at, at, style->columns);
}

static void add_wide_row(struct tml_text *line, const struct row *row, const struct tml_text_style *style)
{
    size_t columns = tml_text_columns(row->label) + 2;
    tml_text_printf(line, "  %s", row->label);
    tml_text_spaces(line, columns < LABEL_COLUMNS ? LABEL_COLUMNS - columns : 1);
    add_cell(line, row->old_value);
    add_cell(line, row->new_value);
    add_cell(line, row->change);
    add_cell(line, row->percent);
    trim(line);
    add_note(line, &row->note, style);
}

static void add_narrow_row(struct tml_text *line, const struct row *row, const struct tml_text_style *style)
{
    struct tml_text words = {0};
    tml_text_printf(&words, "%s %s to %s %s %s %s", row->label, row->old_value, row->new_value, row->change,
                    row->percent, tml_text_words(&row->note));
    tml_text_spaces(line, 2);
    tml_text_wrap(line, tml_text_words(&words), 2, 4, style->columns);
    line->failed = line->failed || words.failed;
    tml_text_drop(&words);
}

static void add_row(struct table *table, struct row *row, enum tml_paint paint)
{
    struct tml_text line = {0};
    if (table->style->columns >= TML_TEXT_WIDE_COLUMNS)
        add_wide_row(&line, row, table->style);
    else
        add_narrow_row(&line, row, table->style);
    tml_report_paint(table->text, table->style, paint, tml_text_words(&line));
    tml_text_add(table->text, "\n");
    table->text->failed = table->text->failed || line.failed || row->note.failed;
    tml_text_drop(&line);
    tml_text_drop(&row->note);
}

/* ---- Ratios ---- */

static void format_seconds(char out[CELL_BYTES], double s)
{
    char words[TML_TEXT_MS_BYTES];
    tml_text_format_s(words, s);
    snprintf(out, CELL_BYTES, "%s", isnan(s) ? "n/a" : words);
}

static void format_ms(char out[CELL_BYTES], int64_t ns, unsigned decimals)
{
    char words[TML_TEXT_MS_BYTES];
    if (ns == TML_NS_NONE) {
        snprintf(out, CELL_BYTES, "n/a");
        return;
    }
    tml_text_format_ms(words, ns, decimals);
    snprintf(out, CELL_BYTES, "%s ms", words);
}

static void add_ratio(struct table *table, enum tml_compare_ratio_kind kind)
{
    const struct tml_comparison *comparison = table->comparison;
    const struct tml_compare_ratio *ratio = &comparison->ratio[kind];
    struct row row = {.label = tml_compare_ratios[kind].words};
    if (kind == TML_COMPARE_RATIO_FRAMEWORK && isnan(ratio->old_value) && isnan(ratio->new_value))
        return;
    if (kind == TML_COMPARE_RATIO_STEP_TOTAL) {
        bool common = comparison->clock >= 0;
        const struct tml_compare_side *side = comparison->side;
        format_ms(row.old_value, common ? comparison->mean.old_ns : side[0].metric[TML_METRIC_STEP_TIME].ns,
                  table->decimals);
        format_ms(row.new_value, common ? comparison->mean.new_ns : side[1].metric[TML_METRIC_STEP_TIME].ns,
                  table->decimals);
    } else {
        format_seconds(row.old_value, ratio->old_value);
        format_seconds(row.new_value, ratio->new_value);
    }
    tml_compare_hundredths(ratio->ratio, row.change);
    if (ratio->reason)
        tml_text_add(&row.note, ratio->reason);
    add_row(table, &row, TML_PAINT_NONE);
}

static void add_ratios(struct table *table)
{
    struct row head = {.label = "whole run", .old_value = "old", .new_value = "new", .change = "old / new"};
    tml_text_add(table->text, "\n");
    add_row(table, &head, TML_PAINT_DIM);
    for (unsigned i = 0; i < TML_COMPARE_RATIOS; i++)
        add_ratio(table, (enum tml_compare_ratio_kind)i);
}

/* ---- Phases ---- */

static bool is_zero_or_null(const struct tml_compare_number *number)
{
    return number->ns == TML_NS_NONE || number->ns == 0;
}

/* Those that every step has, and what occurred in either run. */
static bool is_shown(const struct tml_comparison *comparison, enum tml_metric metric)
{
    switch (metric) {
    case TML_METRIC_INPUT_WAIT:
    case TML_METRIC_TRACED_STEP_TIME:
    case TML_METRIC_H2D:
    case TML_METRIC_FORWARD:
    case TML_METRIC_BACKWARD:
    case TML_METRIC_OPTIMIZER:
    case TML_METRIC_RESIDUAL:
        return true;
    default:
        return !is_zero_or_null(&comparison->side[0].metric[metric]) ||
               !is_zero_or_null(&comparison->side[1].metric[metric]);
    }
}

static void note_state(struct tml_text *note, const char *which, const struct tml_compare_number *number)
{
    bool null = number->ns == TML_NS_NONE;
    bool partial = number->coverage && strcmp(number->coverage, "partial") == 0;
    if (!null && !partial)
        return;
    tml_text_printf(note, "%s%s: %s%s%s", note->length ? "; " : "", which, partial ? "partial" : "",
                    partial && number->reason ? ", " : "",
                    number->reason ? tml_compare_reason_words(number->reason) : "");
}

static bool same_state(const struct tml_compare_number *a, const struct tml_compare_number *b)
{
    return a->ns == TML_NS_NONE && b->ns == TML_NS_NONE && a->reason && b->reason && strcmp(a->reason, b->reason) == 0;
}

static void note_states(struct row *row, const struct tml_compare_number *old_number,
                        const struct tml_compare_number *new_number)
{
    if (same_state(old_number, new_number)) {
        tml_text_printf(&row->note, "both: %s", tml_compare_reason_words(old_number->reason));
        return;
    }
    note_state(&row->note, "old", old_number);
    note_state(&row->note, "new", new_number);
}

/* "<0.1 ms" has no sign: it is not known to that. */
static void format_delta(char out[CELL_BYTES], int64_t ns, unsigned decimals)
{
    char words[TML_TEXT_MS_BYTES];
    tml_text_format_ms(words, ns < 0 ? -ns : ns, decimals);
    snprintf(out, CELL_BYTES, "%s%s ms", *words == '<' || ns == 0 ? "" : ns < 0 ? "-" : "+", words);
}

/* `reason` keeps the difference out. */
static void set_values(const struct table *table, struct row *row, int64_t old_ns, int64_t new_ns, const char *reason)
{
    struct tml_compare_change change = {.old_ns = reason ? TML_NS_NONE : old_ns, .new_ns = new_ns};
    int64_t delta_ns = tml_compare_delta_ns(change.old_ns, change.new_ns);
    format_ms(row->old_value, old_ns, table->decimals);
    format_ms(row->new_value, new_ns, table->decimals);
    if (delta_ns == TML_NS_NONE)
        return;
    format_delta(row->change, delta_ns, table->decimals);
    tml_compare_percent(tml_compare_change_share(&change), row->percent);
}

static void add_phase(struct table *table, enum tml_metric metric)
{
    const struct tml_compare_number *old_number = &table->comparison->side[0].metric[metric];
    const struct tml_compare_number *new_number = &table->comparison->side[1].metric[metric];
    const char *reason = tml_compare_metric_reason(table->comparison, metric);
    struct row row = {.label = tml_metrics[metric].words};
    set_values(table, &row, old_number->ns, new_number->ns, reason);
    note_states(&row, old_number, new_number);
    if (reason && row.note.length == 0)
        tml_text_add(&row.note, reason);
    add_row(table, &row, TML_PAINT_NONE);
}

static void add_own(struct table *table, const struct tml_compare_own *own)
{
    char label[CELL_BYTES];
    struct row row = {.label = label};
    snprintf(label, sizeof label, "own: %s", own->name);
    for (char *c = label; *c; c++)
        if ((unsigned char)*c < ' ')
            *c = ' ';
    set_values(table, &row, own->old_ns, own->new_ns, own->reason);
    if (own->reason)
        tml_text_add(&row.note, own->reason);
    add_row(table, &row, TML_PAINT_NONE);
}

static const char *phases_clock(const struct tml_comparison *comparison)
{
    int old_clock = comparison->side[0].clock, new_clock = comparison->side[1].clock;
    if (old_clock != new_clock)
        return "two clocks";
    return old_clock < 0 ? "no stated clock" : old_clock == TML_CLOCK_GPU ? "GPU clock" : "CPU clock";
}

static void add_phases(struct table *table)
{
    static const enum tml_metric order[] = {
        TML_METRIC_ITERATION,        TML_METRIC_INPUT_WAIT, TML_METRIC_DATALOADER_FETCH_CPU, TML_METRIC_PRE_STEP_H2D,
        TML_METRIC_EVALUATION,       TML_METRIC_CHECKPOINT, TML_METRIC_USER_SPANS,           TML_METRIC_PRE_STEP_OTHER,
        TML_METRIC_TRACED_STEP_TIME, TML_METRIC_H2D,        TML_METRIC_IN_STEP_INPUT_WAIT,   TML_METRIC_FORWARD,
        TML_METRIC_BACKWARD,         TML_METRIC_OPTIMIZER,  TML_METRIC_INSTRUMENTATION,      TML_METRIC_RESIDUAL,
    };
    char label[CELL_BYTES];
    struct row head = {.label = label, .old_value = "old", .new_value = "new", .change = "change"};
    snprintf(label, sizeof label, "mean, %s", phases_clock(table->comparison));
    tml_text_add(table->text, "\n");
    add_row(table, &head, TML_PAINT_DIM);
    for (unsigned i = 0; i < sizeof order / sizeof *order; i++)
        if (is_shown(table->comparison, order[i]))
            add_phase(table, order[i]);
    for (size_t i = 0; i < table->comparison->owns; i++)
        add_own(table, &table->comparison->own[i]);
}

/* ---- Verdict ---- */

static void add_copy(struct table *table, const char *label, const struct tml_text *words)
{
    if (words->length > 0)
        tml_report_line(table->text, table->style, label, tml_text_words(words));
    table->text->failed = table->text->failed || words->failed;
}

static void add_head(struct table *table)
{
    static const struct {
        const char *words;
        enum tml_paint paint;
    } verdicts[] = {
        [TRACEML_VERDICT_INCONCLUSIVE] = {"INCONCLUSIVE", TML_PAINT_BOLD},
        [TRACEML_VERDICT_IMPROVEMENT] = {"IMPROVEMENT", TML_PAINT_GOOD},
        [TRACEML_VERDICT_REGRESSION] = {"REGRESSION", TML_PAINT_BAD},
        [TRACEML_VERDICT_WITHIN_NOISE] = {"WITHIN NOISE", TML_PAINT_GOOD},
    };
    const struct tml_comparison *comparison = table->comparison;
    struct tml_text words = {0}, title = {0};
    tml_text_printf(&words, "compare · old %s · new %s", comparison->side[0].run_name, comparison->side[1].run_name);
    tml_text_wrap(&title, tml_text_words(&words), TITLE_COLUMNS, TITLE_COLUMNS, table->style->columns);
    tml_report_paint(table->text, table->style, TML_PAINT_BOLD, "TraceML");
    tml_text_spaces(table->text, TITLE_COLUMNS - strlen("TraceML"));
    tml_report_paint(table->text, table->style, TML_PAINT_NONE, tml_text_words(&title));
    tml_text_add(table->text, "\n\n");
    tml_report_paint(table->text, table->style, verdicts[comparison->verdict].paint,
                     verdicts[comparison->verdict].words);
    tml_text_add(table->text, "\n");
    table->text->failed = table->text->failed || words.failed || title.failed;
    tml_text_drop(&words);
    tml_text_drop(&title);
}

static unsigned decimals_of(const struct tml_comparison *comparison)
{
    int64_t longest = 0;
    for (unsigned i = 0; i < 2; i++)
        if (comparison->side[i].metric[TML_METRIC_STEP_TIME].ns > longest)
            longest = comparison->side[i].metric[TML_METRIC_STEP_TIME].ns;
    return tml_text_ms_decimals(longest);
}

char *tml_compare_text(const struct tml_comparison *comparison, const struct tml_text_style *style)
{
    struct tml_text text = {0};
    struct tml_text_style safe = *style;
    if (safe.columns == 0)
        safe.columns = 100;
    if (safe.columns < TML_TEXT_FEWEST_COLUMNS)
        safe.columns = TML_TEXT_FEWEST_COLUMNS;
    struct table table = {&text, &safe, comparison, decimals_of(comparison)};
    add_head(&table);
    add_copy(&table, "why", &comparison->summary);
    add_copy(&table, "next", &comparison->action);
    add_copy(&table, "limit", &comparison->limit_words);
    add_ratios(&table);
    add_phases(&table);
    tml_text_add(&text, "\n");
    tml_compare_lines(&text, comparison, &safe);
    return tml_text_take(&text);
}
