#include "run_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LONGEST_NAME 200 /* leaves room for a suffix in NAME_MAX */

/* mkdir -p. An existing directory is fine. */
static int make_path(const char *path)
{
    char part[PATH_MAX];
    size_t length = strlen(path);
    if (length >= sizeof part) {
        errno = ENAMETOOLONG;
        return -1;
    }
    for (size_t i = 1; i <= length; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            return -1;
    }
    struct stat found;
    if (stat(path, &found) != 0)
        return -1;
    errno = ENOTDIR;
    return S_ISDIR(found.st_mode) ? 0 : -1;
}

static bool is_control(char c)
{
    return (unsigned char)c < 0x20 || c == 0x7f;
}

/* "train" of "dir/train.py". */
static void program_stem(const char *program, char *stem, size_t bytes)
{
    const char *slash = strrchr(program, '/');
    snprintf(stem, bytes, "%s", slash ? slash + 1 : program);
    char *dot = strrchr(stem, '.');
    if (dot && dot != stem)
        *dot = '\0';
    for (char *c = stem; *c; c++)
        if (is_control(*c))
            *c = '_';
}

static bool taken(const char *path)
{
    struct stat found;
    return lstat(path, &found) == 0;
}

static bool join(char *path, size_t bytes, const char *parent, const char *name, unsigned suffix)
{
    int length = suffix > 1 ? snprintf(path, bytes, "%s/%s-%u", parent, name, suffix)
                            : snprintf(path, bytes, "%s/%s", parent, name);
    return length > 0 && (size_t)length < bytes;
}

/* `name`, else with the first suffix that is free: "name-2". The one rule for the name of a run. */
static enum traceml_status next_free(const char *parent, const char *name, char *path, size_t bytes)
{
    for (unsigned suffix = 1; suffix < 10000; suffix++)
        if (join(path, bytes, parent, name, suffix) && !taken(path))
            return TRACEML_OK;
    return TRACEML_EXISTS;
}

static enum traceml_status choose_default(const struct traceml_options *options, const char *parent, char *path,
                                          size_t bytes)
{
    char stem[128], stamp[32], name[192];
    program_stem(options->program, stem, sizeof stem);
    time_t now = time(NULL);
    struct tm local;
    localtime_r(&now, &local);
    strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &local);
    snprintf(name, sizeof name, "%s_%s", stem, stamp);
    return next_free(parent, name, path, bytes);
}

static bool is_directory_name(const char *name)
{
    if (!*name || strlen(name) > LONGEST_NAME || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return false;
    for (; *name; name++)
        if (*name == '/' || is_control(*name))
            return false;
    return true;
}

static enum traceml_status choose_named(const struct traceml_options *options, const char *parent, char *path,
                                        size_t bytes, char *error, size_t error_bytes)
{
    const char *name = options->run_name;
    if (!is_directory_name(name) || !join(path, bytes, parent, name, 1)) {
        snprintf(error, error_bytes,
                 "the run name is no directory name: give one of at most %d bytes without '/' and "
                 "control characters",
                 LONGEST_NAME);
        return TRACEML_INVALID_ARGUMENT;
    }
    return options->adopt_run_dir ? TRACEML_OK : next_free(parent, name, path, bytes);
}

enum traceml_status tml_run_dir_choose(const struct traceml_options *options, char **path, char *error,
                                       size_t error_bytes)
{
    char parent[PATH_MAX], chosen[PATH_MAX];
    *path = NULL;
    if (make_path(options->logs_dir) != 0 || !realpath(options->logs_dir, parent) || access(parent, W_OK | X_OK) != 0) {
        snprintf(error, error_bytes, "cannot write to logs directory \"%s\": %s", options->logs_dir, strerror(errno));
        return TRACEML_UNWRITABLE;
    }
    enum traceml_status status = options->run_name
                                     ? choose_named(options, parent, chosen, sizeof chosen, error, error_bytes)
                                     : choose_default(options, parent, chosen, sizeof chosen);
    if (status != TRACEML_OK)
        return status;
    *path = strdup(chosen);
    return *path ? TRACEML_OK : TRACEML_OUT_OF_MEMORY;
}

int tml_run_dir_open(const char *path, bool fresh)
{
    if (fresh && mkdir(path, 0777) != 0 && errno != ENOENT) /* ENOENT: the parent is gone since it was chosen */
        return -1;
    if (make_path(path) != 0)
        return -1;
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

bool tml_run_dir_beside(const char *path, unsigned number, char *beside)
{
    int length = snprintf(beside, PATH_MAX, "%s-%u", path, number);
    return length > 0 && length < PATH_MAX;
}

static bool write_whole(int fd, const char *text, size_t bytes)
{
    while (bytes) {
        ssize_t written = write(fd, text, bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        text += written;
        bytes -= (size_t)written;
    }
    return true;
}

enum traceml_status tml_run_dir_write(int dir_fd, const char *name, const char *text, size_t bytes)
{
    char temporary[NAME_MAX];
    snprintf(temporary, sizeof temporary, "%s.tmp", name);
    int fd = openat(dir_fd, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return TRACEML_UNWRITABLE;
    bool whole = write_whole(fd, text, bytes);
    whole = close(fd) == 0 && whole;
    if (whole && renameat(dir_fd, temporary, dir_fd, name) == 0)
        return TRACEML_OK;
    unlinkat(dir_fd, temporary, 0);
    return TRACEML_UNWRITABLE;
}
