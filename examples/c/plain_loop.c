/*
 * The report for a C program on the CPU: logistic regression by gradient descent, its batches parsed from text. Parsing
 * takes far longer than learning, so the report says INPUT-BOUND.
 *
 *   plain_loop [LOGS_DIR]        then: traceml view LOGS_DIR/plain_loop_<time>
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <traceml/traceml.h>

enum { FEATURES = 32, BATCH = 1024, STEPS = 200, LINE_BYTES = FEATURES * 12 + 16 };

struct batch {
    double x[BATCH][FEATURES];
    double y[BATCH];
};

static double uniform(void)
{
    return (double)rand() / RAND_MAX;
}

/* One sample as text, "label,f0,f1,...": what a file on disk would hold. */
static void print_sample(char *line, const double *truth)
{
    double x[FEATURES], score = 0;
    for (int j = 0; j < FEATURES; j++)
        score += (x[j] = 2 * uniform() - 1) * truth[j];
    int at = snprintf(line, LINE_BYTES, "%d", score > 0);
    for (int j = 0; j < FEATURES; j++)
        at += snprintf(line + at, (size_t)(LINE_BYTES - at), ",%.6f", x[j]);
}

static void fetch(struct batch *batch, char (*lines)[LINE_BYTES])
{
    for (int i = 0; i < BATCH; i++) {
        char *at = lines[rand() % BATCH];
        batch->y[i] = strtod(at, &at);
        for (int j = 0; j < FEATURES; j++)
            batch->x[i][j] = strtod(at + 1, &at);
    }
}

static double forward(const struct batch *batch, const double *weights, double *errors)
{
    double loss = 0;
    for (int i = 0; i < BATCH; i++) {
        double score = 0;
        for (int j = 0; j < FEATURES; j++)
            score += batch->x[i][j] * weights[j];
        double p = 1 / (1 + exp(-score));
        errors[i] = p - batch->y[i];
        loss -= log(fmax(batch->y[i] > 0.5 ? p : 1 - p, 1e-12));
    }
    return loss / BATCH;
}

static void backward(const struct batch *batch, const double *errors, double *gradient)
{
    memset(gradient, 0, FEATURES * sizeof *gradient);
    for (int i = 0; i < BATCH; i++)
        for (int j = 0; j < FEATURES; j++)
            gradient[j] += errors[i] * batch->x[i][j] / BATCH;
}

static double train(struct traceml_session *session, struct batch *batch, char (*lines)[LINE_BYTES])
{
    double weights[FEATURES] = {0}, gradient[FEATURES], errors[BATCH], loss = 0;
    for (int step = 0; step < STEPS; step++) {
        traceml_span span = traceml_begin(session, TRACEML_PHASE_DATALOADER_FETCH, TRACEML_NO_STREAM);
        fetch(batch, lines);
        traceml_end(session, span, 0);

        traceml_span whole = traceml_step_begin(session, TRACEML_NO_STREAM);
        span = traceml_begin(session, TRACEML_PHASE_FORWARD, TRACEML_NO_STREAM);
        loss = forward(batch, weights, errors);
        traceml_end(session, span, 0);
        span = traceml_begin(session, TRACEML_PHASE_BACKWARD, TRACEML_NO_STREAM);
        backward(batch, errors, gradient);
        traceml_end(session, span, 0);
        span = traceml_begin(session, TRACEML_PHASE_OPTIMIZER, TRACEML_NO_STREAM);
        for (int j = 0; j < FEATURES; j++)
            weights[j] -= 0.5 * gradient[j];
        traceml_end(session, span, 0);
        traceml_step_end(session, whole, 0);
    }
    return loss;
}

static int report(const char *run_dir)
{
    struct traceml_report_options options;
    struct traceml_report report;
    char error[512];
    traceml_report_options_init(&options);
    if (traceml_report_read(run_dir, &options, &report, error, sizeof error) != TRACEML_OK ||
        traceml_report_write(run_dir, &report, error, sizeof error) != TRACEML_OK) {
        fprintf(stderr, "plain_loop: %s\n", error);
        return 1;
    }
    fputs(report.text, stdout);
    traceml_report_free(&report);
    return 0;
}

int main(int argc, char **argv)
{
    struct traceml_options options;
    struct traceml_session *session;
    char error[512];
    traceml_options_init(&options);
    options.program = "plain_loop";
    options.logs_dir = argc > 1 ? argv[1] : "logs";
    if (traceml_session_open(&options, &session, error, sizeof error) != TRACEML_OK) {
        fprintf(stderr, "plain_loop: %s\n", error);
        return 1;
    }

    double truth[FEATURES];
    for (int j = 0; j < FEATURES; j++)
        truth[j] = 2 * uniform() - 1;
    char(*lines)[LINE_BYTES] = malloc(BATCH * sizeof *lines);
    struct batch *batch = malloc(sizeof *batch);
    char *run_dir = strdup(traceml_run_dir(session));
    if (!lines || !batch || !run_dir)
        return 1;
    for (int i = 0; i < BATCH; i++)
        print_sample(lines[i], truth);
    printf("loss %.4f after %d steps\n", train(session, batch, lines), STEPS);
    traceml_session_close(session, NULL);
    int status = report(run_dir);
    free(lines);
    free(batch);
    free(run_dir);
    return status;
}
