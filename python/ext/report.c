/* The report of a run directory and the comparison of two: read, write. All may take a while and let go of the GIL. */
#include "module.h"

static const char *const verdict_keys[] = {
#define CORE_X(name, key) key,
    TRACEML_VERDICT_LIST(CORE_X)
#undef CORE_X
};

static const char *const limit_keys[] = {
#define CORE_X(name, key) key,
    TRACEML_LIMIT_LIST(CORE_X)
#undef CORE_X
};

static PyObject *read_report(struct core_state *state, const char *path, const struct traceml_report_options *options)
{
    char line[512] = "";
    struct traceml_report report = {0};
    enum traceml_status status;
    Py_BEGIN_ALLOW_THREADS status = traceml_report_read(path, options, &report, line, sizeof line);
    Py_END_ALLOW_THREADS if (status != TRACEML_OK) return core_raise(state, status, line);
    PyObject *json = PyUnicode_DecodeUTF8(report.json, (Py_ssize_t)strlen(report.json), "replace");
    PyObject *text = PyUnicode_DecodeUTF8(report.text, (Py_ssize_t)strlen(report.text), "replace");
    PyObject *result = json && text ? Py_BuildValue("(OOI)", json, text, report.bad_lines) : NULL;
    Py_XDECREF(json);
    Py_XDECREF(text);
    traceml_report_free(&report);
    return result;
}

static PyObject *core_read_report(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"path", "window_steps", "columns", "ascii", "color", "end_reason", "unsaved", NULL};
    struct traceml_report_options options;
    traceml_report_options_init(&options);
    PyObject *path;
    unsigned long long window_steps = options.window_steps;
    int ascii = options.ascii, color = options.color, unsaved = options.unsaved;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|$KIppzp:read_report", names, PyUnicode_FSConverter, &path,
                                     &window_steps, &options.columns, &ascii, &color, &options.end_reason, &unsaved))
        return NULL;
    options.unsaved = unsaved;
    options.window_steps = window_steps;
    options.ascii = ascii;
    options.color = color;
    PyObject *result = read_report(core_state_of(module), PyBytes_AS_STRING(path), &options);
    Py_DECREF(path);
    return result;
}

static PyObject *core_write_report(PyObject *module, PyObject *args)
{
    struct core_state *state = core_state_of(module);
    PyObject *run_dir;
    const char *json, *text;
    if (!PyArg_ParseTuple(args, "O&ss:write_report", PyUnicode_FSConverter, &run_dir, &json, &text))
        return NULL;
    /* The library only reads it: the texts stay Python's, and this report is never freed. */
    const struct traceml_report report = {.json = (char *)json, .text = (char *)text};
    char line[512] = "";
    enum traceml_status status;
    Py_BEGIN_ALLOW_THREADS status = traceml_report_write(PyBytes_AS_STRING(run_dir), &report, line, sizeof line);
    Py_END_ALLOW_THREADS Py_DECREF(run_dir);
    return status == TRACEML_OK ? Py_NewRef(Py_None) : core_raise(state, status, line);
}

static PyObject *compare(struct core_state *state, const char *old_path, const char *new_path,
                         const struct traceml_compare_options *options)
{
    char line[512] = "";
    struct traceml_comparison made = {0};
    enum traceml_status status;
    Py_BEGIN_ALLOW_THREADS status = traceml_compare(old_path, new_path, options, &made, line, sizeof line);
    Py_END_ALLOW_THREADS if (status != TRACEML_OK) return core_raise(state, status, line);
    PyObject *json = PyUnicode_DecodeUTF8(made.json, (Py_ssize_t)strlen(made.json), "replace");
    PyObject *text = PyUnicode_DecodeUTF8(made.text, (Py_ssize_t)strlen(made.text), "replace");
    PyObject *result =
        json && text ? Py_BuildValue("(OOss)", json, text, verdict_keys[made.verdict], limit_keys[made.limit]) : NULL;
    Py_XDECREF(json);
    Py_XDECREF(text);
    traceml_comparison_free(&made);
    return result;
}

static PyObject *core_compare(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"old",     "new",   "window_steps", "max_step_time_regression_pct",
                            "columns", "ascii", "color",        NULL};
    struct traceml_compare_options options;
    traceml_compare_options_init(&options);
    PyObject *old_path = NULL, *new_path = NULL;
    unsigned long long window_steps = options.window_steps;
    int ascii = options.ascii, color = options.color;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&O&|$KdIpp:compare", names, PyUnicode_FSConverter, &old_path,
                                     PyUnicode_FSConverter, &new_path, &window_steps,
                                     &options.max_step_time_regression_pct, &options.columns, &ascii, &color))
        return NULL;
    options.window_steps = window_steps;
    options.ascii = ascii;
    options.color = color;
    PyObject *result =
        compare(core_state_of(module), PyBytes_AS_STRING(old_path), PyBytes_AS_STRING(new_path), &options);
    Py_DECREF(old_path);
    Py_DECREF(new_path);
    return result;
}

static PyObject *core_write_comparison(PyObject *module, PyObject *args)
{
    struct core_state *state = core_state_of(module);
    PyObject *base;
    const char *json, *text;
    if (!PyArg_ParseTuple(args, "O&ss:write_comparison", PyUnicode_FSConverter, &base, &json, &text))
        return NULL;
    /* As above: the texts stay Python's. */
    const struct traceml_comparison made = {.json = (char *)json, .text = (char *)text};
    char line[512] = "";
    enum traceml_status status;
    Py_BEGIN_ALLOW_THREADS status = traceml_comparison_write(PyBytes_AS_STRING(base), &made, line, sizeof line);
    Py_END_ALLOW_THREADS Py_DECREF(base);
    return status == TRACEML_OK ? Py_NewRef(Py_None) : core_raise(state, status, line);
}

PyMethodDef core_report_methods[] = {
    {"read_report", (PyCFunction)(void (*)(void))core_read_report, METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR("read_report(path, *, window_steps, columns, ascii, color, end_reason, unsaved)"
               " -> (json, text, bad_lines)\n--\n\n"
               "Analyse the step files of a run directory, or read one summary.")},
    {"write_report", core_write_report, METH_VARARGS,
     PyDoc_STR("write_report(run_dir, json, text)\n--\n\nWrite final_summary.json and final_summary.txt.")},
    {"compare", (PyCFunction)(void (*)(void))core_compare, METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR("compare(old, new, *, window_steps, max_step_time_regression_pct, columns, ascii, color)"
               " -> (json, text, verdict, limit)\n--\n\n"
               "Compare two runs: run directories, or summaries of ours or of traceml-ai (schema 1.4 to 1.7).")},
    {"write_comparison", core_write_comparison, METH_VARARGS,
     PyDoc_STR("write_comparison(base, json, text)\n--\n\nWrite BASE.json and BASE.txt.")},
    {NULL, NULL, 0, NULL},
};
