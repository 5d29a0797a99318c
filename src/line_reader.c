#include "line_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_BYTES (256u << 10)

/* Starts in the middle of a line, unless the tail is the whole file. */
static bool seek_tail(struct tml_line_reader *reader, size_t tail_bytes)
{
    struct stat status;
    if (fstat(reader->fd, &status) != 0)
        return false;
    if (!S_ISREG(status.st_mode)) {
        errno = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
        return false;
    }
    if (tail_bytes == 0 || status.st_size <= (off_t)tail_bytes)
        return true;
    if (lseek(reader->fd, -(off_t)tail_bytes, SEEK_END) < 0)
        return false;
    const char *line;
    size_t bytes;
    return tml_line_reader_next(reader, &line, &bytes) != TML_LINE_FAILED;
}

bool tml_line_reader_open(struct tml_line_reader *reader, const char *path, size_t tail_bytes)
{
    /* Not to wait for the writer of a pipe that stands where a file should. */
    *reader = (struct tml_line_reader){.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    if (reader->fd < 0)
        return false;
    reader->capacity = FIRST_BYTES;
    reader->buffer = malloc(reader->capacity);
    if (reader->buffer && seek_tail(reader, tail_bytes))
        return true;
    int reason = reader->buffer ? errno : ENOMEM;
    tml_line_reader_close(reader);
    errno = reason;
    return false;
}

void tml_line_reader_close(struct tml_line_reader *reader)
{
    free(reader->buffer);
    if (reader->fd >= 0)
        close(reader->fd);
    *reader = (struct tml_line_reader){.fd = -1};
}

/* Room behind `end`: moves what is left to the front, then doubles. */
static bool make_room(struct tml_line_reader *reader)
{
    if (reader->start > 0) {
        memmove(reader->buffer, reader->buffer + reader->start, reader->end - reader->start);
        reader->end -= reader->start;
        reader->start = 0;
    }
    if (reader->end < reader->capacity)
        return true;
    char *buffer = realloc(reader->buffer, reader->capacity * 2);
    if (!buffer)
        return false;
    reader->buffer = buffer;
    reader->capacity *= 2;
    return true;
}

static bool fill(struct tml_line_reader *reader)
{
    if (!make_room(reader))
        return false;
    ssize_t got;
    do {
        got = read(reader->fd, reader->buffer + reader->end, reader->capacity - reader->end);
    } while (got < 0 && errno == EINTR);
    if (got < 0)
        return false;
    reader->at_end = got == 0;
    reader->end += (size_t)got;
    return true;
}

/* Drops what was read of an endless line, up to its newline. */
static enum tml_line_kind skip_line(struct tml_line_reader *reader)
{
    for (;;) {
        char *newline = memchr(reader->buffer + reader->start, '\n', reader->end - reader->start);
        if (newline) {
            reader->start = (size_t)(newline - reader->buffer) + 1;
            return TML_LINE_LONG;
        }
        reader->start = reader->end = 0;
        if (reader->at_end)
            return TML_LINE_LONG;
        if (!fill(reader))
            return TML_LINE_FAILED;
    }
}

static enum tml_line_kind last_line(struct tml_line_reader *reader, const char **line, size_t *bytes)
{
    *line = reader->buffer + reader->start;
    *bytes = reader->end - reader->start;
    reader->start = reader->end;
    return *bytes > 0 ? TML_LINE_CUT : TML_LINE_END;
}

enum tml_line_kind tml_line_reader_next(struct tml_line_reader *reader, const char **line, size_t *bytes)
{
    size_t searched = 0;
    for (;;) {
        char *from = reader->buffer + reader->start;
        size_t have = reader->end - reader->start;
        char *newline = memchr(from + searched, '\n', have - searched);
        if (newline) {
            *line = from;
            *bytes = (size_t)(newline - from);
            reader->start += *bytes + 1;
            return TML_LINE_WHOLE;
        }
        if (reader->at_end)
            return last_line(reader, line, bytes);
        if (have > TML_LINE_LIMIT)
            return skip_line(reader);
        searched = have;
        if (!fill(reader))
            return TML_LINE_FAILED;
    }
}

char *tml_line_reader_slurp(const char *path, size_t limit, size_t *bytes)
{
    struct tml_line_reader reader;
    if (!tml_line_reader_open(&reader, path, 0))
        return NULL;
    bool ok = true;
    while (ok && !reader.at_end && reader.end <= limit)
        ok = fill(&reader);
    int reason = ok ? EFBIG : errno;
    char *text = ok && reader.end <= limit ? malloc(reader.end + 1) : NULL;
    if (text) {
        memcpy(text, reader.buffer, reader.end);
        text[reader.end] = '\0';
        *bytes = reader.end;
    }
    tml_line_reader_close(&reader);
    errno = reason;
    return text;
}
