/*
 * Purpose   a growing text: what the report, its cards and the sentences of a finding are written into.
 * Memory    owns its bytes until tml_text_take() or tml_text_drop(); `{0}` is an empty one.
 * Threads   any; one buffer by one thread at a time.
 * Units     columns are code points: no character that we write is wider than one.
 * Depends   clock.
 */
#ifndef TML_TEXT_BUFFER_H
#define TML_TEXT_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tml_text {
    char *bytes; /* NUL-terminated, NULL while empty */
    size_t length, capacity;
    bool failed; /* memory ran out: everything after it is missing */
};

/* Longest number that tml_text_format_ms() makes. */
#define TML_TEXT_MS_BYTES 40

void tml_text_add(struct tml_text *text, const char *words);
void tml_text_add_bytes(struct tml_text *text, const char *bytes, size_t length);
/* printf without floating point: a decimal comma of the user's locale must not get into a report. */
void tml_text_printf(struct tml_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void tml_text_spaces(struct tml_text *text, size_t count);
/* Hands the bytes over (free() them); NULL if memory ran out. An empty text is "". */
char *tml_text_take(struct tml_text *text);
void tml_text_drop(struct tml_text *text);

/* A copy without the colours of a terminal: for a file. free() it; NULL if memory ran out. */
char *tml_text_without_color(const char *words);

/* What was written so far, never NULL. */
const char *tml_text_words(const struct tml_text *text);
/* Width in columns; terminal colours have none. */
size_t tml_text_columns(const char *words);

/* Length of the control character that `at` begins with, other than a newline; 0 for any other character. C1 controls
 * (U+0080 to U+009F) too: some terminals obey them. */
unsigned tml_text_control(const char *at);
/* No control characters but newlines. */
bool tml_text_is_plain(const char *words);

/* Appends `words` broken between words: at most `columns` wide, the first line starting at column `at`, further ones
 * indented by `indent`. A word that is longer than a line stays whole. No newline at the end. */
void tml_text_wrap(struct tml_text *text, const char *words, size_t at, size_t indent, size_t columns);

/* "128.0", "<0.1", "-3.2", or "0.0" for an exact zero: a time that is not zero never reads as one. Without its unit. */
void tml_text_format_ms(char out[TML_TEXT_MS_BYTES], int64_t ns, unsigned decimals);
/* "52.4 s", or "512 ms" below a second; "" for what is no time. */
void tml_text_format_s(char out[TML_TEXT_MS_BYTES], double s);
/* Decimals that tell three digits of a time of this length apart. */
unsigned tml_text_ms_decimals(int64_t ns);

#endif
