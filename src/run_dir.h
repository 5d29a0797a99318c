/*
 * Purpose   the directory of a run: its name, its making, a descriptor that survives chdir, whole-file writes in it.
 * Memory    strings are the caller's buffers or freed by the caller, as said.
 * Threads   any.
 * Units     none.
 * Depends   traceml.h.
 */
#ifndef TML_RUN_DIR_H
#define TML_RUN_DIR_H

#include <stdbool.h>
#include <stddef.h>

#include "traceml/traceml.h"

/*
 * Finds the absolute path of the run directory without making it; makes and checks its parent. Without a run name one
 * is made from program and time, with the next free suffix if that is taken.
 * Errors: UNWRITABLE, EXISTS (unless adopted), INVALID_ARGUMENT (a name with a slash), with one line in `error`.
 * On success *path is the caller's to free().
 */
enum traceml_status tml_run_dir_choose(const struct traceml_options *options, char **path, char *error,
                                       size_t error_bytes);

/* Makes it if need be and opens it (O_DIRECTORY, O_CLOEXEC); -1 with errno. `fresh`: it must not exist yet (EEXIST). */
int tml_run_dir_open(const char *path, bool fresh);

/* The path with a number behind it: what a run takes whose directory was made by another in the meantime. Into a buffer
 * of PATH_MAX bytes; false when it does not fit. */
bool tml_run_dir_beside(const char *path, unsigned number, char *beside);

/* Writes a file of the directory whole or not at all (temporary name, then rename). */
enum traceml_status tml_run_dir_write(int dir_fd, const char *name, const char *text, size_t bytes);

#endif
