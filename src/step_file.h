/*
 * Purpose   writes one rank's step file, steps-rank00000.jsonl; steps beyond the cap are folded.
 * Memory    bounded whatever the number of steps: a 256 KiB buffer, 336 KiB of accumulators (of which only the metrics
 *           that occur are touched), and one fold line for each thousand steps of the cap (3 KiB as a rule, at most
 *           16), twice as many while folding fails. While it folds, 64 KiB more.
 * Threads   one at a time, with SIGXFSZ blocked or ignored, as a file size limit would end the process otherwise;
 *           tml_step_file_flush() and tml_step_file_close() alone do input and output.
 * Units     bytes, steps.
 * Depends   step_fold, step_row.
 *
 * The file is [header lines][fold lines][latest state line][step lines, with later state lines among them]. It only
 * grows by whole lines, or is replaced by rename(): a kill at any moment leaves a readable file, at most with its last
 * line cut.
 */
#ifndef TML_STEP_FILE_H
#define TML_STEP_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "step_row.h"
#include "traceml/traceml.h"

#define TML_STEP_FILE_BUFFER_BYTES (256u * 1024)
#define TML_STEP_FILE_BLOCK_STEPS 1000u

struct tml_step_file;

/*
 * Makes the file in the directory `dir_fd`, which stays the caller's and must outlive the file. Once more than
 * `cap_steps` step lines (at least a block of 1,000) are in it, the older half is folded; if that keeps failing, step
 * lines beyond twice the cap (at least 4,000) are lost, counted.
 * Errors: INVALID_ARGUMENT, EXISTS, UNWRITABLE, OUT_OF_MEMORY.
 */
enum traceml_status tml_step_file_open(int dir_fd, int rank, uint64_t cap_steps, struct tml_step_file **out);

/* Both put a line into the buffer; false when there is no room: the line is lost, counted. A line needs no newline and
 * has none inside. Header lines come before the first row. Of {"state"...} lines the latest survives folding. */
bool tml_step_file_add_line(struct tml_step_file *file, const char *line, size_t bytes);
bool tml_step_file_add_row(struct tml_step_file *file, const struct tml_step_row *row);

/* Bytes that wait for a flush: flush when they are more than a quarter of the buffer, however young. */
size_t tml_step_file_buffered(const struct tml_step_file *file);
/* Lines lost so far. */
uint64_t tml_step_file_lost(const struct tml_step_file *file);
/* errno of the last write that failed, 0: none did. */
int tml_step_file_error(const struct tml_step_file *file);
/* Attempts to fold that failed (a full disk, as a rule): the old file stays, and a block later it is tried again. */
uint64_t tml_step_file_fold_failures(const struct tml_step_file *file);

/* Writes what is buffered, then folds if it is time. Error: UNWRITABLE; what was not written stays for the next try. */
enum traceml_status tml_step_file_flush(struct tml_step_file *file);

/* After a flush that failed, for one last line: gives up what is buffered, and takes whole lines back from the end of the
 * file until `bytes` are free. Steps among them are lost, counted. */
void tml_step_file_make_room(struct tml_step_file *file, size_t bytes);

/* Flushes, closes, frees; `file` may be NULL. Error: UNWRITABLE, when lines were left; a cut one is taken back. */
enum traceml_status tml_step_file_close(struct tml_step_file *file);

#endif
