/*
 * The last word of a plain `python` run. Its exit code is known to no exit handler of Python; on_exit(3) has it, after
 * the interpreter's end. So the report that an exit handler has made is printed only there, and made anew if the code
 * is not 0: sys.exit(3) between two steps must not read "complete".
 */
#include "module.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct farewell {
    pid_t pid; /* 0: nothing to say; a child forked since has nothing to say either */
    int fd;    /* -1: the text was printed already */
    char *run_dir, *text;
    struct traceml_report_options options; /* for the terminal */
} farewell;

static void print(int fd, const char *text)
{
    size_t left = strlen(text);
    while (fd >= 0 && left > 0) {
        ssize_t written = write(fd, text, left);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return;
        text += written;
        left -= (size_t)written;
    }
}

/* The report once more, with the end that is known now. What fails leaves the one that is there. */
static bool report_again(const char *reason, const struct traceml_report_options *options, bool write,
                         struct traceml_report *report)
{
    char error[512];
    struct traceml_report_options with_end = *options;
    with_end.end_reason = reason;
    if (traceml_report_read(farewell.run_dir, &with_end, report, error, sizeof error) != TRACEML_OK)
        return false;
    return !write || traceml_report_write(farewell.run_dir, report, error, sizeof error) == TRACEML_OK;
}

static void correct(int code)
{
    char reason[32];
    struct traceml_report report = {0};
    struct traceml_report_options file;
    if (!*farewell.run_dir)
        return; /* a note for those who forgot something: not for who failed before that */
    traceml_report_options_init(&file);
    file.window_steps = farewell.options.window_steps;
    snprintf(reason, sizeof reason, "exit:%d", code);
    traceml_run_ended(farewell.run_dir, reason);
    report_again(reason, &file, true, &report);
    traceml_report_free(&report);
    if (report_again(reason, &farewell.options, false, &report))
        print(farewell.fd, report.text);
    else
        print(farewell.fd, farewell.text);
    traceml_report_free(&report);
}

#ifdef __GLIBC__
static void on_end(int status, void *Py_UNUSED(argument))
{
    if (farewell.pid != getpid())
        return;
    signal(SIGPIPE, SIG_IGN); /* a reader that is gone must not change how the process ends */
    if (status & 0xFF)
        correct(status & 0xFF);
    else
        print(farewell.fd, farewell.text);
}

static bool arrange(void)
{
    static bool arranged;
    arranged = arranged || on_exit(on_end, NULL) == 0;
    return arranged;
}
#else
static bool arrange(void)
{
    (void)correct;
    return false;
}
#endif

static PyObject *core_report_at_exit(PyObject *Py_UNUSED(module), PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"run_dir", "text", "descriptor", "window_steps", "columns", "ascii", "color", NULL};
    struct farewell next = {.pid = getpid()};
    traceml_report_options_init(&next.options);
    PyObject *run_dir;
    const char *text;
    unsigned long long window_steps = next.options.window_steps;
    int ascii = 0, color = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&yi|$KIpp:report_at_exit", names, PyUnicode_FSConverter, &run_dir,
                                     &text, &next.fd, &window_steps, &next.options.columns, &ascii, &color))
        return NULL;
    next.options.window_steps = window_steps;
    next.options.ascii = ascii;
    next.options.color = color;
    next.run_dir = strdup(PyBytes_AS_STRING(run_dir));
    next.text = strdup(text);
    Py_DECREF(run_dir);
    if (!next.run_dir || !next.text || !arrange()) {
        free(next.run_dir);
        free(next.text);
        Py_RETURN_FALSE;
    }
    free(farewell.run_dir);
    free(farewell.text);
    farewell = next;
    Py_RETURN_TRUE;
}

static PyObject *core_run_ended(PyObject *module, PyObject *args)
{
    PyObject *run_dir;
    const char *reason;
    if (!PyArg_ParseTuple(args, "O&s:run_ended", PyUnicode_FSConverter, &run_dir, &reason))
        return NULL;
    enum traceml_status status = traceml_run_ended(PyBytes_AS_STRING(run_dir), reason);
    Py_DECREF(run_dir);
    return status == TRACEML_OK ? Py_NewRef(Py_None) : core_raise(core_state_of(module), status, "");
}

PyMethodDef core_farewell_methods[] = {
    {"report_at_exit", (PyCFunction)(void (*)(void))core_report_at_exit, METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR(
         "report_at_exit(run_dir, text, descriptor, *, window_steps, columns, ascii, color) -> bool\n--\n\n"
         "Print the text once the process ends; if its exit code is not 0, print the report with that code instead,\n"
         "or nothing where run_dir is empty.")},
    {"run_ended", core_run_ended, METH_VARARGS,
     PyDoc_STR("run_ended(run_dir, reason)\n--\n\nPut into the manifest how the run ended.")},
    {NULL, NULL, 0, NULL},
};
