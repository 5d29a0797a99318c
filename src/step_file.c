#include "step_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "step_fold.h"

#define NAME_BYTES 48
#define COPY_BYTES (64u * 1024)
#define FIRST_BLOCKS 16u

/* Steps that are whole in the file, and the line that will stand for them. */
struct block {
    off_t begin; /* where its lines begin */
    uint64_t rows;
    char *text; /* its fold line */
    size_t bytes;
};

struct tml_step_file {
    int dir_fd, fd, rank;
    uint64_t cap_steps, lost, fold_failures;
    int error; /* errno of the last write that failed */

    char buffer[TML_STEP_FILE_BUFFER_BYTES];
    size_t buffered;
    off_t written; /* bytes in the file: the buffer follows them, so every line's place is known when it is added */
    size_t torn;   /* of these, bytes of a line whose rest is still in the buffer */

    uint64_t rows;       /* step lines that are whole, buffered ones too */
    off_t folds_end;     /* end of header and fold lines */
    off_t state_begin;   /* latest state line */
    size_t state_bytes;  /* 0: none yet */
    struct block *block; /* closed ones, oldest first */
    size_t blocks, blocks_room;
    uint64_t rows_to_retry;    /* that come before the next attempt to fold */
    off_t open_begin;          /* where the lines of the open block begin */
    struct tml_step_fold fold; /* of the open block */
};

static void file_name(int rank, const char *suffix, char name[NAME_BYTES])
{
    snprintf(name, NAME_BYTES, "steps-rank%05d.jsonl%s", rank, suffix);
}

enum traceml_status tml_step_file_open(int dir_fd, int rank, uint64_t cap_steps, struct tml_step_file **out)
{
    char name[NAME_BYTES];
    *out = NULL;
    if (rank < 0)
        return TRACEML_INVALID_ARGUMENT;
    struct tml_step_file *file = calloc(1, sizeof *file); /* pages of metrics that never occur stay untouched */
    if (!file)
        return TRACEML_OUT_OF_MEMORY;
    file_name(rank, "", name);
    file->fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
    if (file->fd < 0) {
        bool exists = errno == EEXIST;
        free(file);
        return exists ? TRACEML_EXISTS : TRACEML_UNWRITABLE;
    }
    file->dir_fd = dir_fd;
    file->rank = rank;
    file->cap_steps = cap_steps < TML_STEP_FILE_BLOCK_STEPS ? TML_STEP_FILE_BLOCK_STEPS : cap_steps;
    *out = file;
    return TRACEML_OK;
}

size_t tml_step_file_buffered(const struct tml_step_file *file)
{
    return file->buffered;
}

uint64_t tml_step_file_lost(const struct tml_step_file *file)
{
    return file->lost;
}

int tml_step_file_error(const struct tml_step_file *file)
{
    return file->error;
}

uint64_t tml_step_file_fold_failures(const struct tml_step_file *file)
{
    return file->fold_failures;
}

/* ---- Adding ---- */

static off_t end_of(const struct tml_step_file *file)
{
    return file->written + (off_t)file->buffered;
}

static bool lose(struct tml_step_file *file)
{
    file->lost++;
    return false;
}

bool tml_step_file_add_line(struct tml_step_file *file, const char *line, size_t bytes)
{
    static const char state[] = "{\"state\"";
    if (bytes > 0 && line[bytes - 1] == '\n')
        bytes--;
    if (bytes == 0 || bytes >= sizeof file->buffer - file->buffered)
        return lose(file);
    if (bytes >= sizeof state && memcmp(line, state, sizeof state - 1) == 0) {
        file->state_begin = end_of(file);
        file->state_bytes = bytes + 1;
    }
    memcpy(file->buffer + file->buffered, line, bytes);
    file->buffered += bytes;
    file->buffer[file->buffered++] = '\n';
    return true;
}

static bool grow_blocks(struct tml_step_file *file)
{
    if (file->blocks < file->blocks_room)
        return true;
    size_t room = file->blocks_room ? 2 * file->blocks_room : FIRST_BLOCKS;
    struct block *block = realloc(file->block, room * sizeof *block);
    if (!block)
        return false;
    file->block = block;
    file->blocks_room = room;
    return true;
}

/* The fold line is made when its block is complete, so that one set of accumulators is enough. Without memory for it
 * the block stays open and grows. */
static void close_block(struct tml_step_file *file)
{
    char *text = grow_blocks(file) ? malloc(TML_STEP_FOLD_LINE_BYTES) : NULL;
    size_t bytes = text ? tml_step_fold_write(&file->fold, text, TML_STEP_FOLD_LINE_BYTES) : 0;
    if (bytes == 0) {
        free(text);
        return;
    }
    char *fitted = realloc(text, bytes);
    file->block[file->blocks++] = (struct block){
        .begin = file->open_begin,
        .rows = file->fold.count + file->fold.aborted,
        .text = fitted ? fitted : text,
        .bytes = bytes,
    };
    file->open_begin = end_of(file);
    tml_step_fold_clear(&file->fold);
}

/* Aborted steps do not fill a block, but a loop that never completes one must not grow the file for ever. */
static bool block_is_full(const struct tml_step_fold *fold)
{
    return fold->count >= TML_STEP_FILE_BLOCK_STEPS || fold->count + fold->aborted >= 2 * TML_STEP_FILE_BLOCK_STEPS;
}

static bool is_beyond_twice_the_cap(const struct tml_step_file *file)
{
    return file->rows / 2 > file->cap_steps && file->rows > 4 * TML_STEP_FILE_BLOCK_STEPS;
}

bool tml_step_file_add_row(struct tml_step_file *file, const struct tml_step_row *row)
{
    file->rows_to_retry -= file->rows_to_retry > 0;
    if (is_beyond_twice_the_cap(file))
        return lose(file);
    size_t bytes = tml_step_row_write(row, file->buffer + file->buffered, sizeof file->buffer - file->buffered);
    if (bytes == 0)
        return lose(file);
    if (file->rows == 0 && file->folds_end == 0) /* the first one: what stands before it is the header */
        file->folds_end = file->open_begin = end_of(file);
    file->buffered += bytes;
    file->rows++;
    tml_step_fold_add(&file->fold, row);
    if (block_is_full(&file->fold))
        close_block(file);
    return true;
}

/* ---- Writing ---- */

/* Returns how much was written; less than `bytes` with errno set. */
static size_t write_all(int fd, const char *text, size_t bytes)
{
    size_t done = 0;
    while (done < bytes) {
        ssize_t count = write(fd, text + done, bytes - done);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            break;
        done += (size_t)count;
    }
    return done;
}

/* A disk that fills may cut a line: its rest stays first in the buffer and follows with the next write. */
static bool write_buffer(struct tml_step_file *file)
{
    size_t done = write_all(file->fd, file->buffer, file->buffered);
    if (done < file->buffered)
        file->error = errno;
    const char *newline = memrchr(file->buffer, '\n', done);
    file->torn = newline ? done - (size_t)(newline + 1 - file->buffer) : file->torn + done;
    file->written += (off_t)done;
    file->buffered -= done;
    memmove(file->buffer, file->buffer + done, file->buffered);
    return file->buffered == 0;
}

/* ---- Making room for a last line ---- */

/* Lines of steps that begin in `text`, which may start within a line. */
static uint64_t steps_in(const char *text, size_t bytes)
{
    static const char step[] = "{\"step\"";
    uint64_t steps = 0;
    for (const char *end = text + bytes; text < end;) {
        steps += (size_t)(end - text) >= sizeof step - 1 && memcmp(text, step, sizeof step - 1) == 0;
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        text = newline ? newline + 1 : end;
    }
    return steps;
}

/* The file ends with a whole line afterwards. */
static void take_back_torn(struct tml_step_file *file)
{
    if (file->torn == 0 || ftruncate(file->fd, file->written - (off_t)file->torn) != 0)
        return; /* readers count the cut line */
    file->written -= (off_t)file->torn;
    file->torn = 0;
}

/* Where the line begins that holds the byte before `end`, and how many steps are from there to the end of the file. */
static off_t line_before(const struct tml_step_file *file, off_t end, char *chunk, uint64_t *steps)
{
    off_t from = file->written > (off_t)COPY_BYTES ? file->written - (off_t)COPY_BYTES : 0;
    ssize_t count = pread(file->fd, chunk, (size_t)(file->written - from), from);
    if (count != file->written - from || end <= from)
        return -1;
    const char *newline = memrchr(chunk, '\n', (size_t)(end - from - 1));
    off_t begin = newline ? from + (newline + 1 - chunk) : from;
    *steps = steps_in(chunk + (begin - from), (size_t)(file->written - begin));
    return newline || from == 0 ? begin : -1;
}

void tml_step_file_make_room(struct tml_step_file *file, size_t bytes)
{
    char *chunk = malloc(COPY_BYTES);
    uint64_t steps = 0;
    file->lost += steps_in(file->buffer, file->buffered) + (file->torn > 0);
    file->buffered = 0;
    take_back_torn(file);
    off_t end = file->written - (off_t)bytes;
    off_t cut = chunk && end > file->folds_end ? line_before(file, end, chunk, &steps) : -1;
    if (cut >= file->folds_end && ftruncate(file->fd, cut) == 0) {
        file->written = cut;
        file->lost += steps;
    }
    free(chunk);
}

/* ---- Folding: the file is written anew beside the old one, then takes its place ---- */

struct copy {
    int from, to;
    off_t written;
    char *chunk;
    bool failed;
};

static void copy_text(struct copy *copy, const char *text, size_t bytes)
{
    if (copy->failed)
        return;
    copy->failed = write_all(copy->to, text, bytes) != bytes;
    copy->written += (off_t)bytes;
}

static void copy_range(struct copy *copy, off_t begin, off_t end)
{
    while (begin < end && !copy->failed) {
        size_t wanted = end - begin < (off_t)COPY_BYTES ? (size_t)(end - begin) : COPY_BYTES;
        ssize_t count = pread(copy->from, copy->chunk, wanted, begin);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0) { /* someone cut the file short */
            copy->failed = true;
            return;
        }
        copy_text(copy, copy->chunk, (size_t)count);
        begin += count;
    }
}

/* What changes when the first `folding` blocks are folded. */
struct plan {
    size_t folding;
    uint64_t rows;                       /* that go */
    off_t cut;                           /* lines before it go */
    off_t folds_end, state_begin, shift; /* in the new file; `shift` of what stays */
};

static struct plan make_plan(const struct tml_step_file *file)
{
    struct plan plan = {.folding = (file->blocks + 1) / 2};
    plan.cut = plan.folding < file->blocks ? file->block[plan.folding].begin : file->open_begin;
    for (size_t i = 0; i < plan.folding; i++)
        plan.rows += file->block[i].rows;
    return plan;
}

static void copy_lines(const struct tml_step_file *file, struct plan *plan, struct copy *copy)
{
    copy_range(copy, 0, file->folds_end);
    for (size_t i = 0; i < plan->folding; i++)
        copy_text(copy, file->block[i].text, file->block[i].bytes);
    plan->folds_end = plan->state_begin = copy->written;
    if (file->state_begin >= file->folds_end && file->state_begin < plan->cut)
        copy_range(copy, file->state_begin, file->state_begin + (off_t)file->state_bytes);
    plan->shift = copy->written - plan->cut;
    copy_range(copy, plan->cut, file->written);
}

static void adopt(struct tml_step_file *file, const struct plan *plan, const struct copy *copy)
{
    close(file->fd);
    file->fd = copy->to;
    file->written = copy->written;
    if (file->state_begin >= plan->cut)
        file->state_begin += plan->shift;
    else if (file->state_begin >= file->folds_end)
        file->state_begin = plan->state_begin;
    file->folds_end = plan->folds_end;
    file->open_begin += plan->shift;
    file->rows -= plan->rows;
    for (size_t i = 0; i < plan->folding; i++)
        free(file->block[i].text);
    file->blocks -= plan->folding;
    memmove(file->block, file->block + plan->folding, file->blocks * sizeof *file->block);
    for (size_t i = 0; i < file->blocks; i++)
        file->block[i].begin += plan->shift;
}

/* Nothing is synced to the disk: the run outlives a crash of the process, which is what we promise. */
static bool fold_older(struct tml_step_file *file)
{
    char name[NAME_BYTES], temporary[NAME_BYTES];
    file_name(file->rank, "", name);
    file_name(file->rank, ".tmp", temporary);
    struct plan plan = make_plan(file);
    struct copy copy = {.from = file->fd, .chunk = malloc(COPY_BYTES)};
    copy.to =
        copy.chunk ? openat(file->dir_fd, temporary, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644) : -1;
    copy.failed = copy.to < 0;
    copy_lines(file, &plan, &copy);
    free(copy.chunk);
    if (!copy.failed && renameat(file->dir_fd, temporary, file->dir_fd, name) == 0) {
        adopt(file, &plan, &copy);
        return true;
    }
    if (copy.to >= 0) {
        close(copy.to);
        unlinkat(file->dir_fd, temporary, 0);
    }
    return false;
}

/* A failed attempt has copied megabytes: the next one waits for another block's worth of steps. */
static void fold_if_due(struct tml_step_file *file)
{
    if (file->rows <= file->cap_steps || file->blocks == 0 || file->rows_to_retry > 0)
        return;
    if (!fold_older(file)) {
        file->fold_failures++;
        file->rows_to_retry = TML_STEP_FILE_BLOCK_STEPS;
    }
}

enum traceml_status tml_step_file_flush(struct tml_step_file *file)
{
    if (!write_buffer(file))
        return TRACEML_UNWRITABLE;
    fold_if_due(file);
    return TRACEML_OK;
}

enum traceml_status tml_step_file_close(struct tml_step_file *file)
{
    if (!file)
        return TRACEML_OK;
    enum traceml_status status = tml_step_file_flush(file);
    take_back_torn(file);
    if (close(file->fd) != 0)
        status = TRACEML_UNWRITABLE; /* a network file system may say so only now */
    for (size_t i = 0; i < file->blocks; i++)
        free(file->block[i].text);
    free(file->block);
    free(file);
    return status;
}
