/* Where the time of a step goes: one line a metric, with value, share, the cause marked, and what it needs said. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report_text.h"

#define MOST_ROWS 20
#define CELL_BYTES 96

struct tree_row {
    enum tml_metric metric;
    unsigned depth; /* 0: the iteration, 1: its parts, 2: those of the traced step */
    bool last;      /* of its depth */
    char label[CELL_BYTES], value[CELL_BYTES], share[TML_PERCENT_BYTES], worst[CELL_BYTES];
    bool cause, null;
    struct tml_text note;
};

struct tree {
    const struct tml_analysis *analysis;
    const struct tml_text_style *style;
    bool wide;
    unsigned decimals;
    struct tree_row row[MOST_ROWS];
    unsigned rows;
};

static const struct tml_over_ranks *over(const struct tree *tree, enum tml_metric metric)
{
    return &tree->analysis->window.metric[metric];
}

static bool occurred(const struct tree *tree, enum tml_metric metric, enum tml_region region)
{
    return over(tree, metric)->status.occurrences[region] > 0;
}

/* ---- Which rows ---- */

static void add_row(struct tree *tree, enum tml_metric metric, unsigned depth)
{
    struct tree_row *row = &tree->row[tree->rows++];
    *row = (struct tree_row){.metric = metric, .depth = depth};
}

/* Spans that occur now and then stand where they were; in both regions, before the step. */
static void add_occasional(struct tree *tree, unsigned depth)
{
    static const enum tml_metric occasional[] = {TML_METRIC_EVALUATION, TML_METRIC_CHECKPOINT, TML_METRIC_USER_SPANS};
    for (unsigned i = 0; i < sizeof occasional / sizeof *occasional; i++) {
        bool pre = occurred(tree, occasional[i], TML_REGION_PRE), in = occurred(tree, occasional[i], TML_REGION_IN);
        if (depth == 1 ? pre : in && !pre)
            add_row(tree, occasional[i], depth);
    }
}

static bool shows(const struct tree *tree, enum tml_metric metric)
{
    char value[TML_TEXT_MS_BYTES];
    if (over(tree, metric)->median.value_ns == TML_NS_NONE)
        return false;
    tml_text_format_ms(value, over(tree, metric)->median.value_ns, tree->decimals);
    return strcmp(value, "0.0") != 0 && *value != '<';
}

static void choose_rows(struct tree *tree)
{
    add_row(tree, TML_METRIC_ITERATION, 0);
    add_row(tree, TML_METRIC_INPUT_WAIT, 1);
    if (occurred(tree, TML_METRIC_PRE_STEP_H2D, TML_REGION_PRE))
        add_row(tree, TML_METRIC_PRE_STEP_H2D, 1);
    add_occasional(tree, 1);
    add_row(tree, TML_METRIC_PRE_STEP_OTHER, 1);
    if (shows(tree, TML_METRIC_PRE_STEP_INSTRUMENTATION))
        add_row(tree, TML_METRIC_PRE_STEP_INSTRUMENTATION, 1);
    add_row(tree, TML_METRIC_TRACED_STEP_TIME, 1);
    tree->row[tree->rows - 1].last = true;
    if (occurred(tree, TML_METRIC_IN_STEP_INPUT_WAIT, TML_REGION_IN))
        add_row(tree, TML_METRIC_IN_STEP_INPUT_WAIT, 2);
    add_row(tree, TML_METRIC_H2D, 2);
    add_row(tree, TML_METRIC_FORWARD, 2);
    add_row(tree, TML_METRIC_BACKWARD, 2);
    add_row(tree, TML_METRIC_OPTIMIZER, 2);
    add_occasional(tree, 2);
    add_row(tree, TML_METRIC_INSTRUMENTATION, 2);
    add_row(tree, TML_METRIC_RESIDUAL, 2);
    tree->row[tree->rows - 1].last = true;
}

/* ---- What a row says beside its number ---- */

static void separate(struct tml_text *note)
{
    if (note->length > 0)
        tml_text_add(note, "; ");
}

static void note_ms(struct tml_text *note, const struct tree *tree, const char *words, int64_t ns)
{
    char value[TML_TEXT_MS_BYTES];
    tml_text_format_ms(value, ns, tree->decimals);
    separate(note);
    tml_text_printf(note, "%s%s ms", words, value);
}

/* A sum blames one of its parts by name; a phase's own row does not repeat its name. */
static void note_reason(struct tml_text *note, enum tml_metric metric, const struct tml_metric_status *status)
{
    const struct tml_metric_spec *spec = &tml_metrics[metric];
    bool sum = spec->terms || (spec->in & (spec->in - 1));
    if (sum && status->phase >= 0 && status->reason != TML_REASON_OBSERVER_MISSING)
        tml_text_printf(note, "%s: ", tml_phase_words((unsigned)status->phase));
    tml_text_add(note, tml_reason_words(status->reason));
}

/* "2 batches", "1.5 copies": how often in a step. */
static void note_often(struct tml_text *note, uint64_t count, uint64_t steps, const char *one, const char *more)
{
    uint64_t tenths = (count * 10 + steps / 2) / steps;
    if (tenths % 10 == 0)
        tml_text_printf(note, "%" PRIu64 " %s", tenths / 10, tenths == 10 ? one : more);
    else
        tml_text_printf(note, "%" PRIu64 ".%" PRIu64 " %s", tenths / 10, tenths % 10, more);
}

/* A span that somebody opened by hand may hold several copies. */
static void note_copies(struct tml_text *note, const struct tree *tree)
{
    const struct tml_metric_status *copies = &over(tree, TML_METRIC_PRE_STEP_H2D)->status;
    uint64_t batches = over(tree, TML_METRIC_DATALOADER_FETCH_CPU)->status.occurrences[TML_REGION_PRE];
    bool observed = copies->coverage != TML_COVERAGE_UNKNOWN;
    if (copies->steps_expected == 0)
        return;
    if (batches > 0) {
        note_often(note, batches, copies->steps_expected, "batch", "batches");
        tml_text_add(note, ", ");
    }
    note_often(note, copies->occurrences[TML_REGION_PRE], copies->steps_expected, observed ? "copy" : "span",
               observed ? "copies" : "spans");
}

/* A sum leaves it to its parts. */
static void note_beside(struct tml_text *note, const struct tree *tree, enum tml_metric metric,
                        const struct tml_metric_status *status)
{
    uint32_t phases = tml_metrics[metric].pre | tml_metrics[metric].in;
    if (status->beside.count == 0 || (phases & (phases - 1)))
        return;
    if (status->beside.device_ns == TML_NS_NONE) {
        separate(note);
        tml_text_add(note, "some on another stream or device, without a time");
        return;
    }
    char overlap[TML_TEXT_MS_BYTES];
    tml_text_format_ms(overlap, status->beside.overlap_ns, tree->decimals);
    note_ms(note, tree, "on another stream ", status->beside.device_ns);
    tml_text_printf(note, " a step, %s ms of it beside the step's work", overlap);
}

static void note_null(struct tml_text *note, const struct tree *tree, enum tml_metric metric,
                      const struct tml_metric_status *status)
{
    const struct tml_over_ranks *all = over(tree, TML_METRIC_UNATTRIBUTED);
    if (metric == TML_METRIC_RESIDUAL && status->reason == TML_REASON_OBSERVER_MISSING &&
        all->median.value_ns != TML_NS_NONE) {
        note_ms(note, tree, "with unobserved copies ", all->median.value_ns);
        return;
    }
    const struct tml_over_ranks *pre = over(tree, TML_METRIC_PRE_STEP_H2D);
    if (metric == TML_METRIC_H2D && status->reason == TML_REASON_PRE_STEP && pre->median.value_ns != TML_NS_NONE) {
        note_ms(note, tree, "pre-step: ", pre->median.value_ns);
        tml_text_add(note, " in ");
        note_copies(note, tree);
        return;
    }
    if (status->coverage == TML_COVERAGE_OUTSIDE_WINDOW && status->reason == TML_REASON_OTHER_STREAM) {
        note_beside(note, tree, metric, status);
        return;
    }
    if (status->coverage == TML_COVERAGE_OUTSIDE_WINDOW)
        tml_text_add(note, "not inside the step: ");
    note_reason(note, metric, status);
}

static void note_state(struct tml_text *note, enum tml_metric metric, const struct tml_metric_status *status)
{
    bool holes = status->steps_observed < status->steps_expected;
    if (status->coverage == TML_COVERAGE_PARTIAL && holes)
        tml_text_printf(note, "partial: seen in %" PRIu64 " of %" PRIu64 " steps", status->steps_observed,
                        status->steps_expected);
    else if (status->coverage == TML_COVERAGE_PARTIAL) {
        tml_text_add(note, "partial: ");
        note_reason(note, metric, status);
    } else if (status->coverage == TML_COVERAGE_UNKNOWN)
        tml_text_add(note, metric == TML_METRIC_PRE_STEP_OTHER ? "may hold unobserved copies"
                                                               : "only what was bracketed by hand");
    else if (status->reason == TML_REASON_NEVER_OBSERVED)
        tml_text_add(note, "none seen");
}

/* More or fewer than one a step: "4 a step", "1.5 a step", "one in 4 steps". */
static void note_count(struct tml_text *note, const struct tml_metric_status *status, enum tml_region region)
{
    uint64_t count = status->occurrences[region], steps = status->steps_expected;
    if (count == 0 || status->steps_observed < steps) /* a state has said how often */
        return;
    bool many = count >= steps;
    uint64_t tenths = many ? (count * 10 + steps / 2) / steps : (steps * 10 + count / 2) / count;
    if (tenths <= 10)
        return;
    separate(note);
    tml_text_printf(note, many ? "%" PRIu64 : "one in %" PRIu64, tenths / 10);
    if (tenths % 10)
        tml_text_printf(note, ".%" PRIu64, tenths % 10);
    tml_text_add(note, many ? " a step" : " steps");
}

static const struct tml_rank_window *rank_window(const struct tree *tree, int rank)
{
    const struct tml_window *window = &tree->analysis->window;
    for (size_t i = 0; i < window->rank_count; i++)
        if ((int)window->ranks[i].run->rank == rank)
            return &window->ranks[i];
    return NULL;
}

/* The row is their sum: each name with its part, of the rank whose value the row shows. */
static void note_names(struct tml_text *note, const struct tree *tree)
{
    const struct tml_rank_window *rank = rank_window(tree, over(tree, TML_METRIC_USER_SPANS)->median.rank);
    for (unsigned i = 0; rank && i < TML_SPAN_NAMES; i++) {
        const struct tml_own_span *own = &rank->own[i];
        char words[TML_SPAN_NAME_BYTES + 2];
        if (own->occurrences[TML_REGION_PRE] + own->occurrences[TML_REGION_IN] == 0 ||
            own->value_ns[TML_REGION_PRE] == TML_NS_NONE)
            continue;
        snprintf(words, sizeof words, "%s ", own->name);
        note_ms(note, tree, words, tml_ns_add(own->value_ns[TML_REGION_PRE], own->value_ns[TML_REGION_IN]));
    }
}

/* What gets slower elsewhere because of us is in no row: docs/overhead.md has it. */
static void note_own_cost(struct tml_text *note, const struct tree *tree)
{
    separate(note);
    tml_text_add(note,
                 tree->analysis->window.clock == TML_CLOCK_GPU ? "its event records alone" : "its own code alone");
}

static void note_row(struct tree *tree, struct tree_row *row)
{
    const struct tml_over_ranks *its = over(tree, row->metric);
    const struct tml_metric_spec *spec = &tml_metrics[row->metric];
    if (its->median.value_ns == TML_NS_NONE) {
        note_null(&row->note, tree, row->metric, &its->status);
        return;
    }
    note_state(&row->note, row->metric, &its->status);
    note_beside(&row->note, tree, row->metric, &its->status);
    if (row->metric == TML_METRIC_INPUT_WAIT && tree->analysis->window.clock == TML_CLOCK_GPU &&
        over(tree, TML_METRIC_DATALOADER_FETCH_CPU)->median.value_ns != TML_NS_NONE)
        note_ms(&row->note, tree, "fetch on the host ", over(tree, TML_METRIC_DATALOADER_FETCH_CPU)->median.value_ns);
    if (row->metric == TML_METRIC_INSTRUMENTATION || row->metric == TML_METRIC_PRE_STEP_INSTRUMENTATION)
        note_own_cost(&row->note, tree);
    if (row->metric == TML_METRIC_USER_SPANS)
        note_names(&row->note, tree);
    if (row->metric == TML_METRIC_PRE_STEP_H2D) {
        separate(&row->note);
        note_copies(&row->note, tree);
    } else if (spec->pre == 0 || spec->in == 0)
        note_count(&row->note, &its->status, spec->in ? TML_REGION_IN : TML_REGION_PRE);
}

/* ---- Cells ---- */

static void label_row(const struct tree *tree, struct tree_row *row)
{
    static const char *const wide[2][2] = {{"├─ ", "└─ "}, {"   ├─ ", "   └─ "}};
    static const char *const narrow[2][2] = {{"├ ", "└ "}, {"  ├ ", "  └ "}};
    const char *branch = row->depth == 0 ? "" : (tree->wide ? wide : narrow)[row->depth - 1][row->last];
    snprintf(row->label, sizeof row->label, "%s%s", branch, tml_metrics[row->metric].words);
}

static bool is_cause(const struct tree *tree, enum tml_metric metric)
{
    const struct tml_finding *verdict = &tree->analysis->verdict.finding[0];
    const struct tml_rule *rule = verdict->severity > TML_SEVERITY_INFO ? verdict->rule : NULL;
    int64_t largest = 0, mine = over(tree, metric)->median.value_ns;
    bool signal = false;
    for (unsigned i = 0; rule && i < rule->signal.parts; i++) {
        int64_t value_ns = over(tree, rule->signal.part[i])->median.value_ns;
        largest = value_ns > largest ? value_ns : largest;
        signal = signal || rule->signal.part[i] == metric;
    }
    return signal && mine > 0 && mine >= largest / 2;
}

static void value_row(const struct tree *tree, struct tree_row *row)
{
    const struct tml_over_ranks *its = over(tree, row->metric);
    char value[TML_TEXT_MS_BYTES];
    snprintf(row->value, sizeof row->value, "n/a");
    row->null = its->median.value_ns == TML_NS_NONE;
    if (row->null)
        return;
    tml_text_format_ms(value, its->median.value_ns, tree->decimals);
    snprintf(row->value, sizeof row->value, "%s ms", value);
    /* A mean over few of the steps is no share of the mean over all. */
    if (!isnan(its->share) && row->metric != TML_METRIC_ITERATION && tml_metric_usable(&its->status))
        tml_percent(its->share, row->share);
    if (tree->analysis->window.rank_count > 1) {
        tml_text_format_ms(value, its->worst.value_ns, tree->decimals);
        snprintf(row->worst, sizeof row->worst, "r%d %s ms", its->worst.rank, value);
    }
}

static void fill_rows(struct tree *tree)
{
    for (unsigned i = 0; i < tree->rows; i++) {
        struct tree_row *row = &tree->row[i];
        label_row(tree, row);
        value_row(tree, row);
        row->cause = is_cause(tree, row->metric);
        note_row(tree, row);
    }
}

/* ---- Columns ---- */

static void pad(struct tml_text *text, const char *words, size_t columns)
{
    size_t width = tml_text_columns(words);
    tml_text_spaces(text, columns > width ? columns - width : 0);
}

static size_t widest(const struct tree *tree, size_t offset, size_t fewest)
{
    for (unsigned i = 0; i < tree->rows; i++) {
        size_t columns = tml_text_columns((const char *)&tree->row[i] + offset);
        fewest = columns > fewest ? columns : fewest;
    }
    return fewest;
}

static void trim(struct tml_text *text, size_t line)
{
    while (!text->failed && text->length > line && text->bytes[text->length - 1] == ' ')
        text->bytes[--text->length] = '\0';
}

/* Beside the number where it fits, else below; in parentheses where there is none. `line`: where the row begins in the text. */
static void draw_note(const struct tree *tree, struct tml_text *text, const struct tree_row *row, size_t line)
{
    size_t at = text->failed ? 0 : tml_text_columns(text->bytes + line);
    struct tml_text note = {0}, wrapped = {0};
    const char *worst = tree->wide ? "" : row->worst;
    size_t gap = row->null ? 1 : 2, indent = row->depth * 3 + 4;
    if (row->null)
        tml_text_printf(&note, "(%s)", tml_text_words(&row->note));
    else
        tml_text_printf(&note, "%s%s%s", worst, *worst && row->note.length ? "; " : "", tml_text_words(&row->note));
    size_t width = tml_text_columns(tml_text_words(&note));
    if (width > 0 && at + gap + width > tree->style->columns) {
        trim(text, line); /* without the empty columns it may fit */
        at = text->failed ? 0 : tml_text_columns(text->bytes + line);
    }
    if (width > 0 && at + gap + width <= tree->style->columns) {
        tml_text_spaces(text, gap);
        tml_report_paint(text, tree->style, TML_PAINT_DIM, tml_text_words(&note));
    } else if (width > 0) {
        tml_text_wrap(&wrapped, tml_text_words(&note), indent, indent, tree->style->columns);
        tml_text_add(text, "\n");
        tml_text_spaces(text, indent);
        tml_report_paint(text, tree->style, TML_PAINT_DIM, tml_text_words(&wrapped));
    }
    tml_text_drop(&note);
    tml_text_drop(&wrapped);
}

static void draw_row(const struct tree *tree, struct tml_text *text, const struct tree_row *row, size_t label,
                     size_t value, size_t worst)
{
    size_t line = text->length;
    tml_text_add(text, "  ");
    tml_report_paint(text, tree->style, TML_PAINT_NONE, row->label);
    pad(text, row->label, label);
    pad(text, row->value, value);
    tml_report_paint(text, tree->style, row->cause ? TML_PAINT_BOLD : TML_PAINT_NONE, row->value);
    if (!row->null) {
        pad(text, row->share, 6);
        tml_text_add(text, row->share);
        pad(text, row->worst, worst > 0 ? worst + 3 : 0);
        tml_text_add(text, worst > 0 ? row->worst : "");
    }
    if (row->cause)
        tml_report_paint(text, tree->style, TML_PAINT_BAD, tree->wide ? "  ◀ cause" : " ◀");
    draw_note(tree, text, row, line);
    trim(text, line);
    tml_text_add(text, "\n");
}

/* ---- What the numbers are ---- */

static void draw_caption(const struct tree *tree, struct tml_text *text)
{
    const struct tml_window *window = &tree->analysis->window;
    struct tml_text caption = {0}, wrapped = {0};
    tml_text_printf(&caption, "%s clock, mean of %" PRIu64 " steps", window->clock == TML_CLOCK_GPU ? "GPU" : "CPU",
                    window->steps);
    if (window->rank_count > 1)
        tml_text_printf(&caption, ", median of %zu ranks and the slowest", window->rank_count);
    if (over(tree, TML_METRIC_STEP_TIME)->median.value_ns != TML_NS_NONE)
        note_ms(&caption, tree, "shares are of step time, ", over(tree, TML_METRIC_STEP_TIME)->median.value_ns);
    if (tml_window_is_launch_time(window))
        tml_text_add(&caption, "; device work shows as its launch time");
    tml_text_wrap(&wrapped, tml_text_words(&caption), 2, 2, tree->style->columns);
    tml_text_spaces(text, 2);
    tml_report_paint(text, tree->style, TML_PAINT_DIM, tml_text_words(&wrapped));
    tml_text_add(text, "\n");
    tml_text_drop(&caption);
    tml_text_drop(&wrapped);
}

void tml_report_tree(struct tml_text *text, const struct tml_analysis *analysis, const struct tml_text_style *style)
{
    struct tree tree = {.analysis = analysis, .style = style, .wide = style->columns >= TML_TEXT_WIDE_COLUMNS};
    tree.decimals = tml_report_decimals(analysis);
    choose_rows(&tree);
    fill_rows(&tree);
    size_t label = widest(&tree, offsetof(struct tree_row, label), tree.wide ? 22 : 16) + 1;
    size_t value = widest(&tree, offsetof(struct tree_row, value), tree.wide ? 10 : 8);
    size_t worst = tree.wide ? widest(&tree, offsetof(struct tree_row, worst), 0) : 0;
    draw_caption(&tree, text);
    for (unsigned i = 0; i < tree.rows; i++) {
        draw_row(&tree, text, &tree.row[i], label, value, worst);
        text->failed = text->failed || tree.row[i].note.failed;
        tml_text_drop(&tree.row[i].note);
    }
}
