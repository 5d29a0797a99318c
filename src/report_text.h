/*
 * Purpose   the report as text: verdict first, why, what next, where the time of a step goes, what was lost.
 * Memory    returns texts on the heap, the caller's to free(); NULL when memory is out.
 * Threads   any.
 * Units     ms to three digits; a value, its clock and its state are those of the JSON: both come from the window.
 * Depends   diagnosis, window, run_facts, text_buffer.
 */
#ifndef TML_REPORT_TEXT_H
#define TML_REPORT_TEXT_H

#include <stdbool.h>

#include "diagnosis.h"

struct tml_text_style {
    unsigned columns; /* at least TML_TEXT_FEWEST_COLUMNS; under TML_TEXT_WIDE_COLUMNS it folds */
    bool ascii, color;
    bool unsaved; /* names no file that the report is in */
};

#define TML_TEXT_FEWEST_COLUMNS 40
#define TML_TEXT_WIDE_COLUMNS 80

/* The whole analysis of a run, as the report and the summary see it. */
struct tml_analysis {
    const struct tml_run *run;
    struct tml_run_facts facts;
    struct tml_window window;
    struct tml_verdict verdict;
};

char *tml_report_text(const struct tml_analysis *analysis, const struct tml_text_style *style);
/* The verdict and the tree alone: the step_time section's card. */
char *tml_report_card(const struct tml_analysis *analysis, const struct tml_text_style *style);

/* ---- Shared by report_text.c, report_text_tree.c and report_text_lines.c ---- */

enum tml_paint { TML_PAINT_NONE, TML_PAINT_DIM, TML_PAINT_BOLD, TML_PAINT_GOOD, TML_PAINT_WARN, TML_PAINT_BAD };

/* Appends with colour if the style has it, and without a character beyond ASCII if it asks for that. */
void tml_report_paint(struct tml_text *text, const struct tml_text_style *style, enum tml_paint paint,
                      const char *words);
/* "  label  words, wrapped", with its newline. */
void tml_report_line(struct tml_text *text, const struct tml_text_style *style, const char *label, const char *words);

/* Decimals of every time of the report. */
unsigned tml_report_decimals(const struct tml_analysis *analysis);
void tml_report_tree(struct tml_text *text, const struct tml_analysis *analysis, const struct tml_text_style *style);
void tml_report_lines(struct tml_text *text, const struct tml_analysis *analysis, const struct tml_text_style *style);

#endif
