/*
 * Purpose   lines of a file through one bounded buffer, however long the file or a line of it is.
 * Memory    owns its buffer and descriptor from open to close; a line stays valid until the next call.
 * Threads   any; one reader by one thread.
 * Units     bytes.
 * Depends   POSIX files.
 */
#ifndef TML_LINE_READER_H
#define TML_LINE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A longer line is no line of ours: a folded one with all its sketches has some 50 KiB. */
#define TML_LINE_LIMIT (4u << 20)

enum tml_line_kind {
    TML_LINE_WHOLE,
    TML_LINE_CUT,  /* the file ends without a newline: a writer that was killed, or one that is still writing */
    TML_LINE_LONG, /* over the limit: skipped, text is not there */
    TML_LINE_END,
    TML_LINE_FAILED, /* reading failed or memory ran out; errno says which */
};

struct tml_line_reader {
    int fd;
    char *buffer;
    size_t capacity, start, end; /* [start, end) of the buffer is read and not handed out */
    bool at_end;
};

/* A regular file alone: EISDIR, EINVAL for what is none. `tail_bytes` > 0: only the last so many bytes, from the first whole line on. False: errno says why. */
bool tml_line_reader_open(struct tml_line_reader *reader, const char *path, size_t tail_bytes);
enum tml_line_kind tml_line_reader_next(struct tml_line_reader *reader, const char **line, size_t *bytes);
void tml_line_reader_close(struct tml_line_reader *reader);

/* A whole small file, NUL-terminated, on the heap; NULL and errno when it cannot be read or is longer than `limit`. */
char *tml_line_reader_slurp(const char *path, size_t limit, size_t *bytes);

#endif
