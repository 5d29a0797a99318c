/* step_file: every line whole or counted as lost, older steps folded without changing a total, memory bounded. */
#include <fcntl.h>
#include <malloc.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "step_file.h"
#include "step_fold.h"

#define MS TML_NS_PER_MS
#define NAME "steps-rank00003.jsonl"
#define HEADER "{\"header\":{\"rank\":3}}"

/* ---- A directory, and what is in the file ---- */

struct place {
    char path[32];
    int dir_fd;
    char *text;
    size_t bytes;
};

static int make_place(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    if (!place)
        return -1;
    strcpy(place->path, "/tmp/tml-steps-XXXXXX");
    if (!mkdtemp(place->path))
        return -1;
    place->dir_fd = open(place->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *state = place;
    return place->dir_fd < 0 ? -1 : 0;
}

static int remove_place(void **state)
{
    struct place *place = *state;
    unlinkat(place->dir_fd, NAME ".tmp", AT_REMOVEDIR);
    unlinkat(place->dir_fd, NAME ".tmp", 0);
    unlinkat(place->dir_fd, NAME, 0);
    close(place->dir_fd);
    rmdir(place->path);
    free(place->text);
    free(place);
    return 0;
}

static void read_file(struct place *place)
{
    struct stat status;
    int fd = openat(place->dir_fd, NAME, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && fstat(fd, &status) == 0);
    free(place->text);
    place->bytes = (size_t)status.st_size;
    place->text = malloc(place->bytes + 1);
    assert_non_null(place->text);
    assert_int_equal(read(fd, place->text, place->bytes), place->bytes);
    place->text[place->bytes] = '\0';
    close(fd);
}

/* The next line as JSON; NULL at the end. A line that is cut or no JSON fails the test, unless `cut` is there to say
 * so. */
static struct tml_json *next_line(const char **at, bool *cut)
{
    if (**at == '\0')
        return NULL;
    const char *newline = strchr(*at, '\n');
    if (!newline && cut) {
        *cut = true;
        return NULL;
    }
    assert_non_null(newline);
    struct tml_json *line = tml_json_parse(*at, (size_t)(newline - *at));
    if (!line)
        print_error("no JSON: %.*s\n", (int)(newline - *at), *at);
    assert_non_null(line);
    *at = newline + 1;
    return line;
}

static unsigned count_lines(const struct place *place, const char *kind)
{
    unsigned count = 0;
    const char *at = place->text;
    for (struct tml_json *line; (line = next_line(&at, NULL)); tml_json_free(line))
        count += tml_json_get(line, kind) != NULL;
    return count;
}

static struct tml_step_file *opened(const struct place *place, uint64_t cap_steps)
{
    struct tml_step_file *file;
    assert_int_equal(tml_step_file_open(place->dir_fd, 3, cap_steps, &file), TRACEML_OK);
    return file;
}

static bool add_text(struct tml_step_file *file, const char *text)
{
    return tml_step_file_add_line(file, text, strlen(text));
}

static struct tml_step_row row_of(uint64_t step)
{
    struct tml_step_row row;
    tml_step_row_clear(&row);
    row.step = row.iteration = step;
    row.end_ns = (int64_t)step * MS;
    row.microbatches = 1;
    row.gpu_reason = TML_REASON_NO_CUDA;
    for (unsigned term = 0; term < TML_TERM_COUNT; term++)
        row.term_ns[TML_CLOCK_CPU][term] = MS + rand() % MS;
    for (unsigned phase = TRACEML_PHASE_FORWARD; phase <= TRACEML_PHASE_OPTIMIZER; phase++) {
        int64_t ns = rand() % MS;
        row.cell[TML_REGION_IN][phase] = (struct tml_cell){1, 0, {ns, TML_NS_NONE}, {ns + rand() % 2, TML_NS_NONE}};
    }
    return row;
}

static void add_rows(struct tml_step_file *file, uint64_t first, uint64_t count)
{
    for (uint64_t step = first; step < first + count; step++) {
        struct tml_step_row row = row_of(step);
        tml_step_file_add_row(file, &row);
        if (tml_step_file_buffered(file) > TML_STEP_FILE_BUFFER_BYTES / 4)
            tml_step_file_flush(file);
    }
}

/* ---- Opening ---- */

static void an_existing_file_is_not_overwritten(void **state)
{
    struct place *place = *state;
    struct tml_step_file *file = opened(place, 1000), *second = file;
    assert_int_equal(tml_step_file_open(place->dir_fd, 3, 1000, &second), TRACEML_EXISTS);
    assert_null(second);
    assert_int_equal(tml_step_file_close(file), TRACEML_OK);
    assert_int_equal(tml_step_file_open(place->dir_fd, 3, 1000, &second), TRACEML_EXISTS);
}

static void what_cannot_be_opened_says_why(void **state)
{
    struct place *place = *state;
    struct tml_step_file *file;
    assert_int_equal(tml_step_file_open(place->dir_fd, -1, 1000, &file), TRACEML_INVALID_ARGUMENT);
    assert_int_equal(tml_step_file_open(-1, 3, 1000, &file), TRACEML_UNWRITABLE);
    assert_null(file);
    assert_int_equal(tml_step_file_close(NULL), TRACEML_OK);
}

/* A program that the script starts must not hold our file open; the same after the file was replaced by folding. */
static void the_descriptor_is_closed_on_exec(void **state)
{
    struct place *place = *state;
    struct tml_step_file *file = opened(place, 1000);
    struct stat ours, other;
    add_rows(file, 1, 1500);
    assert_int_equal(tml_step_file_flush(file), TRACEML_OK);
    read_file(place);
    assert_int_equal(count_lines(place, "folded"), 1);
    assert_int_equal(fstatat(place->dir_fd, NAME, &ours, 0), 0);
    unsigned found = 0;
    for (int fd = 0; fd < 1024; fd++)
        if (fstat(fd, &other) == 0 && other.st_ino == ours.st_ino && other.st_dev == ours.st_dev) {
            assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
            assert_true(fcntl(fd, F_GETFL) & O_APPEND);
            found++;
        }
    assert_int_equal(found, 1);
    tml_step_file_close(file);
}

/* ---- Adding and writing ---- */

static void nothing_is_written_before_a_flush(void **state)
{
    struct place *place = *state;
    struct tml_step_file *file = opened(place, 1000);
    struct tml_step_row row = row_of(1);
    assert_true(add_text(file, HEADER));
    assert_true(add_text(file, "{\"state\":{}}\n"));
    assert_true(tml_step_file_add_row(file, &row));
    read_file(place);
    assert_int_equal(place->bytes, 0);
    size_t buffered = tml_step_file_buffered(file);
    assert_int_equal(tml_step_file_flush(file), TRACEML_OK);
    assert_int_equal(tml_step_file_buffered(file), 0);
    read_file(place);
    assert_int_equal(place->bytes, buffered);
    assert_memory_equal(place->text, HEADER "\n{\"state\":{}}\n{\"step\":1,", 44);
    assert_int_equal(count_lines(place, "step"), 1);
    assert_int_equal(tml_step_file_close(file), TRACEML_OK);
}

static void closing_writes_what_was_buffered(void **state)
{
    struct place *place = *state;
    struct tml_step_file *file = opened(place, 1000);
    add_rows(file, 1, 10);
    add_text(file, "{\"end\":{}}");
    assert_int_equal(tml_step_file_close(file), TRACEML_OK);
    read_file(place);
    assert_int_equal(count_lines(place, "step"), 10);
    assert_int_equal(count_lines(place, "end"), 1);
}

static void a_full_buffer_loses_whole_lines_and_counts_them(void **state)
{
    struct place *place = *state;
    struct tml_step_file *file = opened(place, 100000);
    uint64_t taken = 0, lost = 0;
    for (uint64_t step = 1; step <= 2000; step++) {
        struct tml_step_row row = row_of(step);
        if (tml_step_file_add_row(file, &row))
            taken++;
        else
            lost++;
    }
    assert_true(lost > 0);
    assert_int_equal(tml_step_file_lost(file), lost);
    assert_in_range(tml_step_file_buffered(file), TML_STEP_FILE_BUFFER_BYTES - 1000, TML_STEP_FILE_BUFFER_BYTES);
    char *long_line = calloc(1, TML_STEP_FILE_BUFFER_BYTES + 1);
    assert_non_null(long_line);
    memset(long_line, ' ', TML_STEP_FILE_BUFFER_BYTES);
    assert_false(tml_step_file_add_line(file, long_line, TML_STEP_FILE_BUFFER_BYTES));
    assert_int_equal(tml_step_file_flush(file), TRACEML_OK);
    assert_false(tml_step_file_add_line(file, long_line, TML_STEP_FILE_BUFFER_BYTES));
    assert_false(tml_step_file_add_line(file, "\n", 1));
    free(long_line);
    assert_int_equal(tml_step_file_lost(file), lost + 3);
    add_rows(file, 2001, 5);
    assert_int_equal(tml_step_file_close(file), TRACEML_OK);
    read_file(place);
    assert_int_equal(count_lines(place, "step"), taken + 5);
}

/* ---- A disk that fills: RLIMIT_FSIZE cuts a write short and then refuses, as a full disk does ---- */

static void limit_file_size(rlim_t bytes)
{
    struct rlimit limit;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void a_line_cut_by_a_full_disk_is_completed_later(void **state)
{
    struct place *place = *state;
    struct tml_step_file *file = opened(place, 100000);
    add_text(file, HEADER);
    limit_file_size(10000);
    add_rows(file, 1, 50);
    assert_int_equal(tml_step_file_flush(file), TRACEML_UNWRITABLE);
    read_file(place);
    assert_int_equal(place->bytes, 10000);
    assert_true(place->text[9999] != '\n'); /* the case we mean */
    assert_int_equal(tml_step_file_flush(file), TRACEML_UNWRITABLE);
    add_rows(file, 51, 50);
    limit_file_size(20000);
    assert_int_equal(tml_step_file_flush(file), TRACEML_UNWRITABLE);
    limit_file_size(RLIM_INFINITY);
    assert_int_equal(tml_step_file_flush(file), TRACEML_OK);
    add_rows(file, 101, 50);
    assert_int_equal(tml_step_file_close(file), TRACEML_OK);
    read_file(place);
    assert_int_equal(count_lines(place, "step"), 150);
}

static void a_disk_full_for_long_loses_lines_but_none_that_were_taken(void **state)
{
    struct place *place = *state;
    struct tml_step_file *file = opened(place, 100000);
    limit_file_size(10000);
    add_rows(file, 1, 3000);
    uint64_t lost = tml_step_file_lost(file);
    assert_in_range(lost, 1, 2999);
    limit_file_size(RLIM_INFINITY);
    assert_int_equal(tml_step_file_close(file), TRACEML_OK);
    read_file(place);
    assert_int_equal(count_lines(place, "step"), 3000 - lost);
}

static void closing_on_a_full_disk_takes_the_cut_line_back(void **state)
{
    struct place *place = *state;
    struct tml_step_file *file = opened(place, 100000);
    limit_file_size(10000);
    add_rows(file, 1, 50);
    assert_int_equal(tml_step_file_close(file), TRACEML_UNWRITABLE);
    limit_file_size(RLIM_INFINITY);
    read_file(place);
    assert_in_range(place->bytes, 9000, 9999);
    assert_in_range(count_lines(place, "step"), 10, 49);
}

/* ---- Folding ---- */

#define ROWS 10500

/* Follows the file line by line beside the rows that went in. */
struct check {
    const struct tml_step_row *row;
    size_t next, folds, whole;
};

static struct tml_step_fold read_fold, direct; /* too big for a stack */

static void check_fold(struct check *check, const struct tml_json *line)
{
    assert_true(tml_step_fold_read(line, &read_fold));
    assert_int_equal(check->whole, 0); /* older steps stand first */
    tml_step_fold_clear(&direct);
    for (uint64_t i = 0; i < read_fold.count + read_fold.aborted; i++)
        tml_step_fold_add(&direct, &check->row[check->next++]);
    assert_int_equal(read_fold.count, TML_STEP_FILE_BLOCK_STEPS);
    assert_memory_equal(&read_fold, &direct, sizeof direct);
    check->folds++;
}

static void check_row(struct check *check, const struct tml_json *line)
{
    struct tml_step_row row;
    const struct tml_step_row *expected = &check->row[check->next++];
    assert_true(tml_step_row_read(line, &row));
    assert_int_equal(row.iteration, expected->iteration);
    assert_memory_equal(row.term_ns, expected->term_ns, sizeof row.term_ns);
    assert_memory_equal(row.cell, expected->cell, sizeof row.cell);
    check->whole++;
}

static struct check check_file(const struct place *place, const struct tml_step_row *row)
{
    struct check check = {.row = row};
    const char *at = place->text;
    assert_memory_equal(at, HEADER "\n", strlen(HEADER) + 1);
    for (struct tml_json *line; (line = next_line(&at, NULL)); tml_json_free(line)) {
        if (tml_json_get(line, "folded"))
            check_fold(&check, line);
        else if (tml_json_get(line, "step"))
            check_row(&check, line);
    }
    return check;
}

static void folded_steps_say_what_the_steps_said(void **state)
{
    struct place *place = *state;
    struct tml_step_row *row = calloc(ROWS, sizeof *row);
    assert_non_null(row);
    struct tml_step_file *file = opened(place, 2500);
    uint64_t step = 1;
    srand(12);
    add_text(file, HEADER);
    for (size_t i = 0; i < ROWS; i++) {
        row[i] = row_of(step);
        row[i].iteration = i + 1;
        if (rand() % 50 == 0)
            row[i].flags = TML_STEP_FLAG_ABORTED;
        else
            step++;
        assert_true(tml_step_file_add_row(file, &row[i]));
        if (i % 100 != 0)
            continue;
        assert_int_equal(tml_step_file_flush(file), TRACEML_OK);
        if (i % 700 == 0) { /* right at every moment, not only at the end */
            read_file(place);
            assert_int_equal(check_file(place, row).next, i + 1);
        }
    }
    assert_int_equal(tml_step_file_close(file), TRACEML_OK);
    read_file(place);
    struct check check = check_file(place, row);
    print_message("%zu folds, %zu whole\n", check.folds, check.whole);
    assert_int_equal(check.next, ROWS);
    assert_in_range(check.folds, 7, 10);
    assert_in_range(check.whole, 500, 2500);
    free(row);
}

static uint64_t latest_state(const struct place *place)
{
    uint64_t latest = 0;
    const char *at = place->text;
    for (struct tml_json *line; (line = next_line(&at, NULL)); tml_json_free(line))
        tml_json_uint(tml_json_get(tml_json_get(line, "state"), "n"), &latest);
    return latest;
}

static void the_latest_state_survives_folding_and_older_ones_do_not(void **state)
{
    struct place *place = *state;
    struct tml_step_file *file = opened(place, 2000);
    char line[64];
    uint64_t step = 1;
    add_text(file, HEADER);
    for (unsigned n = 1; n <= 200; n++) {
        snprintf(line, sizeof line, "{\"state\":{\"n\":%u}}", n);
        add_text(file, line);
        add_rows(file, step, 10);
        step += 10;
    }
    /* No state any more: the last one sinks into the folded part and is kept through several folds. */
    for (unsigned round = 0; round < 20; round++) {
        add_rows(file, step, 500);
        step += 500;
        assert_int_equal(tml_step_file_flush(file), TRACEML_OK);
        read_file(place);
        assert_int_equal(latest_state(place), 200);
    }
    assert_in_range(count_lines(place, "state"), 1, 2);
    assert_int_equal(count_lines(place, "header"), 1);
    add_text(file, "{\"state\":{\"n\":201}}");
    add_text(file, "{\"end\":{}}");
    assert_int_equal(tml_step_file_close(file), TRACEML_OK);
    read_file(place);
    assert_int_equal(latest_state(place), 201);
    assert_int_equal(count_lines(place, "end"), 1);
}

static void steps_that_are_all_aborted_are_folded_too(void **state)
{
    struct place *place = *state;
    struct tml_step_file *file = opened(place, 0);
    for (unsigned i = 0; i < 10000; i++) {
        struct tml_step_row row = row_of(1);
        row.flags = TML_STEP_FLAG_ABORTED;
        assert_true(tml_step_file_add_row(file, &row));
        if (i % 100 == 0)
            assert_int_equal(tml_step_file_flush(file), TRACEML_OK);
    }
    assert_int_equal(tml_step_file_close(file), TRACEML_OK);
    read_file(place);
    assert_in_range(count_lines(place, "folded"), 4, 5);
    assert_in_range(count_lines(place, "step"), 0, 2100);
}

/* A directory in the place of the temporary file: nothing can be opened there. */
static void a_fold_that_fails_is_tried_again_and_loses_nothing(void **state)
{
    struct place *place = *state;
    struct tml_step_file *file = opened(place, 3000);
    assert_int_equal(mkdirat(place->dir_fd, NAME ".tmp", 0755), 0);
    add_rows(file, 1, 4500);
    assert_int_equal(tml_step_file_flush(file), TRACEML_OK);
    assert_in_range(tml_step_file_fold_failures(file), 1, 2); /* one a block, not one a flush */
    assert_int_equal(tml_step_file_lost(file), 0);
    read_file(place);
    assert_int_equal(count_lines(place, "step"), 4500);
    assert_int_equal(unlinkat(place->dir_fd, NAME ".tmp", AT_REMOVEDIR), 0);
    add_rows(file, 4501, 1100);
    assert_int_equal(tml_step_file_close(file), TRACEML_OK);
    read_file(place);
    assert_int_equal(count_lines(place, "step") + 1000 * count_lines(place, "folded"), 5600);
    assert_in_range(count_lines(place, "folded"), 2, 5);
}

static void folding_that_keeps_failing_stops_at_twice_the_cap_until_it_works_again(void **state)
{
    struct place *place = *state;
    struct tml_step_file *file = opened(place, 3000);
    assert_int_equal(mkdirat(place->dir_fd, NAME ".tmp", 0755), 0);
    add_rows(file, 1, 20000);
    uint64_t lost = tml_step_file_lost(file);
    assert_in_range(lost, 13900, 14000);
    read_file(place);
    assert_in_range(count_lines(place, "step"), 5500, 6100);
    assert_int_equal(unlinkat(place->dir_fd, NAME ".tmp", AT_REMOVEDIR), 0);
    for (uint64_t step = 20001; step < 22001; step += 100) { /* as the sampler does, lost or not */
        add_rows(file, step, 100);
        tml_step_file_flush(file);
    }
    assert_in_range(tml_step_file_lost(file), lost, lost + 1100);
    lost = tml_step_file_lost(file);
    assert_int_equal(tml_step_file_close(file), TRACEML_OK);
    read_file(place);
    assert_int_equal(count_lines(place, "step") + 1000 * count_lines(place, "folded"), 22000 - lost);
}

/* Names of files are those of the child's own mount: what it leaves is gone with it. */
static bool mount_small_disk(const char *path)
{
    if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
        return false;
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 && mount("tmpfs", path, "tmpfs", 0, "size=4m") == 0;
}

static bool fill_disk(int dir_fd, size_t bytes)
{
    int fd = openat(dir_fd, "filler", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    bool good = fd >= 0 && posix_fallocate(fd, 0, (off_t)bytes) == 0;
    close(fd);
    return good;
}

enum outcome { GOOD, NO_SMALL_DISK, FILE_LEFT_BEHIND, FOLD_DID_NOT_FAIL, STILL_UNWRITABLE, STEPS_MISSING };

/* Room for the steps of the cap, but not for their second half beside them. */
static enum outcome fold_on_a_full_disk(struct place *place)
{
    if (!mount_small_disk(place->path))
        return NO_SMALL_DISK;
    place->dir_fd = open(place->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct tml_step_file *file = opened(place, 2000);
    if (!fill_disk(place->dir_fd, 2800 * 1024))
        return NO_SMALL_DISK;
    add_rows(file, 1, 4000);
    if (tml_step_file_fold_failures(file) == 0 || tml_step_file_lost(file) == 0)
        return FOLD_DID_NOT_FAIL;
    if (faccessat(place->dir_fd, NAME ".tmp", F_OK, 0) == 0)
        return FILE_LEFT_BEHIND;
    unlinkat(place->dir_fd, "filler", 0);
    add_rows(file, 4001, 3000);
    uint64_t lost = tml_step_file_lost(file);
    if (tml_step_file_close(file) != TRACEML_OK)
        return STILL_UNWRITABLE;
    read_file(place);
    uint64_t folded = 1000 * count_lines(place, "folded");
    return folded > 0 && folded + count_lines(place, "step") + lost == 7000 ? GOOD : STEPS_MISSING;
}

static void a_disk_too_full_to_fold_keeps_the_old_file_until_there_is_room(void **state)
{
    struct place *place = *state;
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(fold_on_a_full_disk(place));
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == NO_SMALL_DISK)
        skip();
    assert_int_equal(status, GOOD);
}

/* ---- Bounds ---- */

static size_t allocated_bytes(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static void memory_does_not_grow_with_the_number_of_steps(void **state)
{
    struct place *place = *state;
    size_t before = allocated_bytes();
    struct tml_step_file *file = opened(place, 5000);
    add_rows(file, 1, 10000);
    size_t early = allocated_bytes();
    add_rows(file, 10001, 90000);
    size_t late = allocated_bytes();
    print_message("allocated: %zu KiB after 10,000 steps, %zu KiB after 100,000\n", (early - before) / 1024,
                  (late - before) / 1024);
    assert_in_range(late, 0, early + 32 * 1024);
    assert_int_equal(tml_step_file_lost(file), 0);
    assert_int_equal(tml_step_file_close(file), TRACEML_OK);
    assert_in_range(allocated_bytes(), 0, before + 4096);
    read_file(place);
    print_message("file: %zu KiB after 100,000 steps with a cap of 5,000\n", place->bytes / 1024);
    assert_in_range(place->bytes, 1, 5000 * 600 + 100 * 6 * 1024);
}

static void run_until_killed(struct place *place)
{
    struct tml_step_file *file = opened(place, 1000);
    add_text(file, HEADER);
    for (uint64_t step = 1;; step += 37) {
        add_rows(file, step, 37);
        tml_step_file_flush(file);
    }
}

/* Whole lines, all steps once and in order; the very last line may be cut. */
static uint64_t last_step_read(struct place *place)
{
    read_file(place);
    const char *at = place->text;
    bool cut = false;
    uint64_t last = 0;
    for (struct tml_json *line; (line = next_line(&at, &cut)); tml_json_free(line)) {
        uint64_t first = last, step = last;
        const struct tml_json *folded = tml_json_get(line, "folded");
        if (tml_json_uint(tml_json_get(line, "step"), &step))
            first = step;
        else if (folded)
            assert_true(tml_json_uint(tml_json_get(folded, "first"), &first) &&
                        tml_json_uint(tml_json_get(folded, "last"), &step));
        if (first != last)
            assert_int_equal(first, last + 1);
        last = step;
    }
    return last;
}

static void a_kill_at_any_moment_leaves_a_readable_file(void **state)
{
    struct place *place = *state;
    uint64_t steps = 0;
    srand(21);
    for (int round = 0; round < 25; round++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            run_until_killed(place);
        usleep(2000 + (useconds_t)(rand() % 60000));
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        if (faccessat(place->dir_fd, NAME, F_OK, 0) == 0)
            steps += last_step_read(place);
        unlinkat(place->dir_fd, NAME, 0);
        unlinkat(place->dir_fd, NAME ".tmp", 0);
    }
    print_message("%llu steps read after 25 kills\n", (unsigned long long)steps);
    assert_true(steps > 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_place, remove_place)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_existing_file_is_not_overwritten),
        TEST(what_cannot_be_opened_says_why),
        TEST(the_descriptor_is_closed_on_exec),
        TEST(nothing_is_written_before_a_flush),
        TEST(closing_writes_what_was_buffered),
        TEST(a_full_buffer_loses_whole_lines_and_counts_them),
        TEST(a_line_cut_by_a_full_disk_is_completed_later),
        TEST(a_disk_full_for_long_loses_lines_but_none_that_were_taken),
        TEST(closing_on_a_full_disk_takes_the_cut_line_back),
        TEST(folded_steps_say_what_the_steps_said),
        TEST(the_latest_state_survives_folding_and_older_ones_do_not),
        TEST(steps_that_are_all_aborted_are_folded_too),
        TEST(a_fold_that_fails_is_tried_again_and_loses_nothing),
        TEST(folding_that_keeps_failing_stops_at_twice_the_cap_until_it_works_again),
        TEST(a_disk_too_full_to_fold_keeps_the_old_file_until_there_is_room),
        TEST(memory_does_not_grow_with_the_number_of_steps),
        TEST(a_kill_at_any_moment_leaves_a_readable_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
