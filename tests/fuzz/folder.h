/*
 * What the fuzz targets over files share: a folder of its own in memory, and the requirements on any output.
 * Include once a target. Everything is static; the target says which files there are.
 */
#ifndef FUZZ_FOLDER_H
#define FUZZ_FOLDER_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "utf8.h"

#define FOLDER_MOST_FILES 4

static const char *const names[FOLDER_MOST_FILES]; /* the target's; NULL: no more */
static char path[64];
static int directory = -1;

static void require(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "does not hold: %s\n", what);
    abort();
}

static void remove_all(void)
{
    for (unsigned i = 0; i < FOLDER_MOST_FILES && names[i]; i++)
        unlinkat(directory, names[i], 0);
    close(directory);
    rmdir(path);
}

static bool open_once(void)
{
    if (directory >= 0)
        return true;
    snprintf(path, sizeof path, "%s/traceml-fuzz-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(path))
        return false;
    directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    atexit(remove_all);
    return directory >= 0;
}

static void put(const char *name, const char *part, size_t bytes)
{
    unlinkat(directory, name, 0);
    if (bytes == 0)
        return;
    int file = openat(directory, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    require(file >= 0 && write(file, part, bytes) == (ssize_t)bytes, "the file can be written");
    close(file);
}

static void put_parts(const char *at, const char *end)
{
    for (unsigned i = 0; i < FOLDER_MOST_FILES && names[i]; i++) {
        const char *stop = at < end ? memchr(at, '\f', (size_t)(end - at)) : NULL;
        if (!stop)
            stop = end;
        put(names[i], at, (size_t)(stop - at));
        at = stop < end ? stop + 1 : end;
    }
}

static bool is_plain(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    for (size_t left = strlen(text); left > 0;) {
        unsigned length = tml_utf8_length(at, left);
        bool control = (*at < 0x20 && *at != '\n') || *at == 0x7f || (at[0] == 0xc2 && at[1] < 0xa0);
        if (length == 0 || control)
            return false;
        at += length;
        left -= length;
    }
    return true;
}

#endif
