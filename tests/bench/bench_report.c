/*
 * Merging and analysing the step files of many ranks, as the end of a large run does: seconds of one core, the reader's
 * MB/s, peak resident memory. It writes the files itself, with the library's own writer. Exits 1 when memory passes
 * 300 MB for 64 ranks x 10,000 steps (docs/overhead.md has the figures); time is printed and not judged.
 *
 *   bench_report [LOGS_DIR] [RANKS] [STEPS] [cpu|cuda]
 */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "run_dir.h"
#include "step_file.h"
#include "step_reader.h"
#include "traceml/traceml.h"

#define MEMORY_LIMIT_MB 300

static double cpu_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double peak_mb(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss * 1024 / 1e6;
}

/* ---- A run: ranks whose steps differ a little, each with six-decimal times as a real clock gives them ---- */

static uint64_t seed = 1;

static int64_t about(int64_t us)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return us * 1000 + (int64_t)(seed >> 33) % (us * 100 + 1);
}

static int64_t put(struct tml_step_row *row, enum tml_region region, unsigned phase, enum tml_clock clock, int64_t us)
{
    struct tml_cell *cell = &row->cell[region][phase];
    cell->count = 1;
    return cell->exclusive_ns[clock] = cell->inclusive_ns[clock] = about(us);
}

static void set_clock(struct tml_step_row *row, enum tml_clock clock)
{
    int64_t *term = row->term_ns[clock];
    int64_t fetch_ns = put(row, TML_REGION_PRE, TRACEML_PHASE_DATALOADER_FETCH, clock, 2000);
    int64_t work_ns = put(row, TML_REGION_IN, TRACEML_PHASE_FORWARD, clock, 30000) +
                      put(row, TML_REGION_IN, TRACEML_PHASE_BACKWARD, clock, 60000) +
                      put(row, TML_REGION_IN, TRACEML_PHASE_OPTIMIZER, clock, 6000);
    term[TML_TERM_INSTRUMENTATION] = about(10);
    term[TML_TERM_INSTRUMENTATION_PRE] = about(2);
    term[TML_TERM_RESIDUAL] = about(2000);
    term[TML_TERM_PRE_STEP_OTHER] = about(300);
    term[TML_TERM_TRACED_STEP] = work_ns + term[TML_TERM_RESIDUAL] + term[TML_TERM_INSTRUMENTATION];
    term[TML_TERM_ITERATION] =
        fetch_ns + term[TML_TERM_PRE_STEP_OTHER] + term[TML_TERM_INSTRUMENTATION_PRE] + term[TML_TERM_TRACED_STEP];
}

static struct tml_step_row row_of(uint64_t step, bool cuda)
{
    struct tml_step_row row;
    tml_step_row_clear(&row);
    row.step = row.iteration = step;
    row.end_ns = (int64_t)step * 100 * TML_NS_PER_MS;
    row.epoch = (int64_t)(step / 1000);
    row.microbatches = 1;
    row.flags = step == 1 ? TML_STEP_FLAG_FIRST | TML_STEP_FLAG_FIRST_FETCH : 0;
    row.gpu_complete = cuda && step > 1;
    row.gpu_reason = !cuda ? TML_REASON_NO_CUDA : step == 1 ? TML_REASON_FIRST_ITERATION : TML_REASON_NONE;
    for (unsigned clock = 0; clock <= (unsigned)cuda; clock++)
        set_clock(&row, (enum tml_clock)clock);
    for (unsigned boundary = 0; cuda && boundary < TML_BOUNDARY_COUNT; boundary++)
        row.lead.ns[boundary] = about(4000);
    row.lead.error_ns = cuda ? about(6) : TML_NS_NONE;
    return row;
}

static bool write_rank(int directory, unsigned rank, unsigned world, uint64_t steps, bool cuda)
{
    char header[512];
    struct tml_step_file *file;
    if (tml_step_file_open(directory, (int)rank, steps + 1000, &file) != TRACEML_OK)
        return false;
    int bytes = snprintf(header, sizeof header,
                         "{\"header\":{\"rank\":%u,\"world_size\":%u,\"host\":\"node%u\",\"device\":\"%s\",\"armed\":"
                         "[\"step\",\"dataloader_fetch\",\"forward\",\"backward\",\"optimizer\"]}}",
                         rank, world, rank / 8, cuda ? "cuda:0" : "cpu");
    bool ok = tml_step_file_add_line(file, header, (size_t)bytes);
    for (uint64_t step = 1; ok && step <= steps; step++) {
        struct tml_step_row row = row_of(step, cuda);
        ok = tml_step_file_add_row(file, &row);
        if (ok && tml_step_file_buffered(file) > TML_STEP_FILE_BUFFER_BYTES / 4)
            ok = tml_step_file_flush(file) == TRACEML_OK;
    }
    return tml_step_file_close(file) == TRACEML_OK && ok;
}

/* ---- Measuring ---- */

static double files_mb(int directory)
{
    double bytes = 0;
    DIR *list = fdopendir(dup(directory));
    for (struct dirent *entry; list && (entry = readdir(list));) {
        struct stat status;
        if (entry->d_name[0] != '.' && fstatat(directory, entry->d_name, &status, 0) == 0)
            bytes += (double)status.st_size;
    }
    if (list)
        closedir(list);
    return bytes / 1e6;
}

static void clean(int directory, const char *path)
{
    DIR *list = fdopendir(dup(directory));
    for (struct dirent *entry; list && (entry = readdir(list));)
        unlinkat(directory, entry->d_name, 0);
    if (list)
        closedir(list);
    rmdir(path);
}

/* The reader alone, then the whole report: both from files that are in the page cache. */
static bool measure(const char *path, double mb, uint64_t steps)
{
    char error[512];
    struct tml_run run;
    struct traceml_report report;
    double begin_s = cpu_s();
    if (tml_run_read(path, steps, &run, error, sizeof error) != TRACEML_OK) {
        fprintf(stderr, "bench_report: %s\n", error);
        return false;
    }
    double read_s = cpu_s() - begin_s;
    printf("read: %.2f s, %.0f MB/s of %.0f MB, %" PRIu64 " lines, %" PRIu64 " bad\n", read_s, mb / read_s, mb,
           run.lines, run.bad_lines);
    tml_run_free(&run);
    begin_s = cpu_s();
    if (traceml_report_read(path, NULL, &report, error, sizeof error) != TRACEML_OK) {
        fprintf(stderr, "bench_report: %s\n", error);
        return false;
    }
    printf("read, merge, analyse, write: %.2f s; peak %.0f MB (bound: %d)\n", cpu_s() - begin_s, peak_mb(),
           MEMORY_LIMIT_MB);
    traceml_report_free(&report);
    return peak_mb() <= MEMORY_LIMIT_MB;
}

int main(int argc, char **argv)
{
    char path[4096];
    const char *logs = argc > 1 ? argv[1] : "logs";
    unsigned ranks = argc > 2 ? (unsigned)atoi(argv[2]) : 64;
    uint64_t steps = argc > 3 ? (uint64_t)atoll(argv[3]) : 10000;
    bool cuda = argc <= 4 || strcmp(argv[4], "cuda") == 0, ok = true;
    mkdir(logs, 0777);
    snprintf(path, sizeof path, "%s/bench_report-%ld", logs, (long)getpid());
    int directory = tml_run_dir_open(path, true);
    double begin_s = cpu_s();
    for (unsigned rank = 0; directory >= 0 && ok && rank < ranks; rank++)
        ok = write_rank(directory, rank, ranks, steps, cuda);
    if (directory < 0 || !ok) {
        perror(path);
        return 1;
    }
    double mb = files_mb(directory), write_s = cpu_s() - begin_s;
    printf("%u ranks x %" PRIu64 " steps, %s: %.0f MB written in %.2f s, %.0f bytes a step\n", ranks, steps,
           cuda ? "both clocks" : "CPU clock", mb, write_s, mb * 1e6 / ((double)ranks * (double)steps));
    ok = measure(path, mb, steps);
    clean(directory, path);
    close(directory);
    return ok ? 0 : 1;
}
