/*
 * Purpose   the names of the user's own phases as small numbers: one table of the process, for recording, and one of
 *           each rank whose file is read.
 * Memory    a table is plain data of fixed size; names are copied into it and stay.
 * Threads   tml_span_name_add: any, beside itself and readers.
 * Units     bytes of UTF-8, with the NUL.
 * Depends   utf8.
 */
#ifndef TML_SPAN_NAME_H
#define TML_SPAN_NAME_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* How many names are told apart, "other" among them: what comes when all are taken, and spans without a name. */
#define TML_SPAN_NAMES 16u
#define TML_SPAN_NAME_BYTES 48u
#define TML_SPAN_NAME_OTHER 0u

struct tml_span_name {
    _Atomic uint8_t state;
    char text[TML_SPAN_NAME_BYTES];
};

/* {0} is an empty one. */
struct tml_span_names {
    struct tml_span_name name[TML_SPAN_NAMES]; /* [TML_SPAN_NAME_OTHER] is not used: its text is fixed */
};

/* Of this process. */
extern struct tml_span_names tml_span_names;

/* The number of the name, a new one if it is new; TML_SPAN_NAME_OTHER when the table is full. What is no UTF-8 or a
 * control character becomes '?', what is too long is cut: a name stands in files and on terminals. */
unsigned tml_span_name_add(struct tml_span_names *names, const char *name);

/* The text of a number; NULL for one that is free. */
const char *tml_span_name_text(const struct tml_span_names *names, unsigned number);

#endif
