/*
 * The session: open, close, and what may be said to it while it is open.
 *
 * session.py calls open, close and flush under its own lock, so that no flush is in flight when a session is freed; the
 * hooks hold the GIL and look at `state->session` each time, which is NULL before the close begins.
 */
#include "module.h"

#include <errno.h>
#include <string.h>

static const char *const status_names[] = {
#define TRACEML_X(name, text) #name,
    TRACEML_STATUS_LIST(TRACEML_X)
#undef TRACEML_X
};

PyObject *core_raise(struct core_state *state, enum traceml_status status, const char *line)
{
    PyObject *text = PyUnicode_DecodeUTF8(line, (Py_ssize_t)strlen(line), "replace");
    PyObject *error = text && *line ? PyObject_CallOneArg(state->error, text)
                                    : PyObject_CallFunction(state->error, "s", traceml_status_text(status));
    PyObject *name = PyUnicode_FromString(status_names[status]);
    if (error && name && PyObject_SetAttr(error, state->name_status, name) == 0)
        PyErr_SetObject(state->error, error);
    Py_XDECREF(name);
    Py_XDECREF(error);
    Py_XDECREF(text);
    return NULL;
}

void core_session_reset(struct core_state *state)
{
    state->session = NULL;
    state->generation++;
    state->step_thread = 0;
    state->step_device = -1;
    state->open_count = 0;
#define X(name, use) Py_CLEAR(state->callbacks.name);
    CORE_CALLBACK_LIST(X)
#undef X
    core_models_forget(state);
}

static PyObject *closed(struct core_state *state)
{
    return core_raise(state, TRACEML_CLOSED, "no session is open");
}

/* ---- open and close ---- */

static PyObject *open_with(struct core_state *state, const struct traceml_options *options)
{
    char line[512] = "";
    struct traceml_session *session = NULL;
    enum traceml_status status;
    state->opening = true;
    Py_BEGIN_ALLOW_THREADS status = traceml_session_open(options, &session, line, sizeof line);
    Py_END_ALLOW_THREADS state->opening = false;
    if (status != TRACEML_OK)
        return core_raise(state, status, line);
    core_session_reset(state);
    state->departure = CORE_DEPARTURE_NONE;
    state->session = session;
    Py_RETURN_NONE;
}

static PyObject *core_open(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"logs_dir",   "run_name",   "program",    "environment", "rank",
                            "local_rank", "world_size", "tick_ms",    "flush_ms",    "event_deadline_ms",
                            "stop_ms",    "max_steps",  "file_steps", "armed",       "adopt_run_dir",
                            NULL};
    struct core_state *state = core_state_of(module);
    struct traceml_options options;
    traceml_options_init(&options);
    unsigned long long max_steps = options.max_steps, file_steps = options.file_steps;
    unsigned armed = options.armed_phases;
    int adopt = options.adopt_run_dir;
    if (!PyArg_ParseTupleAndKeywords(
            args, kwargs, "|$zzzziiiIIIIKKIp:open", names, &options.logs_dir, &options.run_name, &options.program,
            &options.environment_json, &options.rank, &options.local_rank, &options.world_size, &options.tick_ms,
            &options.flush_ms, &options.event_deadline_ms, &options.stop_ms, &max_steps, &file_steps, &armed, &adopt))
        return NULL;
    if (state->session || state->opening)
        return core_raise(state, TRACEML_BUSY, "a session is open already");
    options.max_steps = max_steps;
    options.file_steps = file_steps;
    options.armed_phases = armed;
    options.adopt_run_dir = adopt;
    return open_with(state, &options);
}

static PyObject *core_close(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"reason", "run", NULL};
    struct core_state *state = core_state_of(module);
    struct traceml_end end = {0};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|zz:close", names, &end.reason, &end.run_json))
        return NULL;
    struct traceml_session *session = state->session;
    if (!session)
        return closed(state);
    core_session_reset(state); /* first: from here on no hook calls the library */
    enum traceml_status status;
    int error;
    Py_BEGIN_ALLOW_THREADS status = traceml_session_close(session, &end);
    error = errno;
    Py_END_ALLOW_THREADS if (status == TRACEML_OK) Py_RETURN_NONE;
    return core_raise(state, status, status == TRACEML_UNWRITABLE && error ? strerror(error) : "");
}

/* A forked child has the parent's session in its memory, but neither its thread nor any right to its files. */
static PyObject *core_forget(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    core_session_reset(core_state_of(module));
    Py_RETURN_NONE;
}

/* ---- what Python lends ---- */

static PyObject *core_set_callbacks(PyObject *module, PyObject *args, PyObject *kwargs)
{
#define X(name, use) #name,
    static char *names[] = {CORE_CALLBACK_LIST(X) NULL};
#undef X
    struct core_callbacks *callbacks = &core_state_of(module)->callbacks;
    struct core_callbacks given = {0};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOOOO:set_callbacks", names, &given.on_model,
                                     &given.find_parameter, &given.on_iterator, &given.is_running, &given.raw_stream,
                                     &given.is_grad_enabled))
        return NULL;
#define X(name, use) Py_XSETREF(callbacks->name, given.name == Py_None ? NULL : Py_XNewRef(given.name));
    CORE_CALLBACK_LIST(X)
#undef X
    Py_RETURN_NONE;
}

/* ---- while it is open ---- */

static PyObject *core_is_open(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    return PyBool_FromLong(core_state_of(module)->session != NULL);
}

static PyObject *core_flush(PyObject *module, PyObject *args)
{
    struct core_state *state = core_state_of(module);
    unsigned timeout_ms;
    if (!PyArg_ParseTuple(args, "I:flush", &timeout_ms))
        return NULL;
    struct traceml_session *session = state->session;
    if (!session)
        return closed(state);
    enum traceml_status status;
    Py_BEGIN_ALLOW_THREADS status = traceml_flush(session, timeout_ms);
    Py_END_ALLOW_THREADS return status == TRACEML_OK ? Py_NewRef(Py_None) : core_raise(state, status, "");
}

static PyObject *core_run_dir(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    struct core_state *state = core_state_of(module);
    return state->session ? PyUnicode_DecodeFSDefault(traceml_run_dir(state->session)) : closed(state);
}

static PyObject *core_steps_completed(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    struct core_state *state = core_state_of(module);
    return state->session ? PyLong_FromUnsignedLongLong(traceml_steps_completed(state->session)) : closed(state);
}

static PyObject *core_set_environment(PyObject *module, PyObject *args)
{
    struct core_state *state = core_state_of(module);
    const char *json;
    if (!PyArg_ParseTuple(args, "s:set_environment", &json))
        return NULL;
    if (!state->session)
        return closed(state);
    enum traceml_status status = traceml_set_environment(state->session, json);
    return status == TRACEML_OK ? Py_NewRef(Py_None) : core_raise(state, status, "");
}

static PyObject *core_set_armed(PyObject *module, PyObject *args)
{
    struct core_state *state = core_state_of(module);
    unsigned phase;
    int armed;
    if (!PyArg_ParseTuple(args, "Ip:set_armed", &phase, &armed))
        return NULL;
    if (state->session && phase < TRACEML_PHASE_COUNT)
        traceml_set_armed(state->session, (enum traceml_phase)phase, armed);
    Py_RETURN_NONE;
}

static PyObject *core_set_hook_cost(PyObject *module, PyObject *args)
{
    struct core_state *state = core_state_of(module);
    unsigned phase, cost_ns;
    if (!PyArg_ParseTuple(args, "II:set_hook_cost", &phase, &cost_ns))
        return NULL;
    if (state->session && phase < TRACEML_PHASE_COUNT)
        traceml_set_hook_cost(state->session, (enum traceml_phase)phase, cost_ns);
    Py_RETURN_NONE;
}

static PyObject *core_set_epoch(PyObject *module, PyObject *args)
{
    struct core_state *state = core_state_of(module);
    long long epoch;
    if (!PyArg_ParseTuple(args, "L:set_epoch", &epoch))
        return NULL;
    if (state->session)
        traceml_set_epoch(state->session, epoch);
    Py_RETURN_NONE;
}

static PyObject *core_departure(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    const struct core_state *state = core_state_of(module);
    switch (state->departure) {
    case CORE_DEPARTURE_EXIT:
        return PyUnicode_FromFormat("exit:%ld", state->exit_code);
    case CORE_DEPARTURE_INTERRUPT:
        return PyUnicode_FromString("signal:SIGINT");
    default:
        Py_RETURN_NONE;
    }
}

#define KEYWORDS(function) (PyCFunction)(void (*)(void)) function, METH_VARARGS | METH_KEYWORDS

PyMethodDef core_session_methods[] = {
    {"open", KEYWORDS(core_open), PyDoc_STR("Open the process's session; keywords as in struct traceml_options.")},
    {"close", KEYWORDS(core_close), PyDoc_STR("close(reason=None, run=None)\n--\n\nClose it; hooks go quiet first.")},
    {"forget", core_forget, METH_NOARGS, PyDoc_STR("In a forked child: behave as if no session had been opened.")},
    {"set_callbacks", KEYWORDS(core_set_callbacks), PyDoc_STR("Lend the callables that the hooks need; resets all.")},
    {"is_open", core_is_open, METH_NOARGS, PyDoc_STR("Whether a session is open.")},
    {"flush", core_flush, METH_VARARGS, PyDoc_STR("flush(timeout_ms)\n--\n\nBring completed steps into the file.")},
    {"run_dir", core_run_dir, METH_NOARGS, PyDoc_STR("The run directory, absolute.")},
    {"steps_completed", core_steps_completed, METH_NOARGS, PyDoc_STR("Completed steps so far.")},
    {"set_environment", core_set_environment, METH_VARARGS, PyDoc_STR("Replace the environment (a JSON object).")},
    {"set_armed", core_set_armed, METH_VARARGS,
     PyDoc_STR("set_armed(phase, armed)\n--\n\nAn instrument came or went.")},
    {"set_hook_cost", core_set_hook_cost, METH_VARARGS, PyDoc_STR("set_hook_cost(phase, cost_ns)\n--\n\n")},
    {"set_epoch", core_set_epoch, METH_VARARGS, PyDoc_STR("The epoch of the next steps, from 0.")},
    {"departure", core_departure, METH_NOARGS,
     PyDoc_STR("End reason told by what left the last step: 'exit:N', 'signal:SIGINT' or None.")},
    {NULL, NULL, 0, NULL},
};
