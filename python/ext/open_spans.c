/*
 * Open spans of the Python hooks: enter(phase, owner) in the hook before, leave(phase, owner) in the hook after.
 *
 * The hook after does not run when the user's code raises. What it leaves is found when the same owner enters again
 * in the same step (a retry), or goes with the step.
 */
#include "module.h"

static bool on_step_thread(const struct core_state *state)
{
    return state->session && state->step_thread != 0 && state->step_thread == PyThread_get_thread_ident();
}

static bool is_open(const struct core_state *state, enum traceml_phase phase)
{
    for (unsigned i = 0; i < state->open_count; i++)
        if (state->open[i].phase == phase)
            return true;
    return false;
}

/* Index of the innermost span of this owner, -1 for none. */
static int find(const struct core_state *state, enum traceml_phase phase, const PyObject *owner)
{
    for (int i = (int)state->open_count - 1; i >= 0; i--)
        if (state->open[i].phase == phase && state->open[i].owner == owner)
            return i;
    return -1;
}

/* Ends the span at `index`; those inside it end with it. */
static void end_at(struct core_state *state, int index, unsigned flags)
{
    state->open_count = (unsigned)index;
    traceml_end(state->session, state->open[index].span, flags);
}

/*
 * The same owner is open already: either its outer call is still running (a subclass's step() calls super().step(), a
 * module calls itself) and this entry belongs to it, or that call raised and this is a retry. Only the stack can tell.
 * Returns -1 with an exception set if the user interrupted us.
 */
static int is_outer_call_running(struct core_state *state, enum traceml_phase phase, PyObject *owner)
{
    if (!state->callbacks.is_running)
        return 1;
    PyObject *number = PyLong_FromLong(phase);
    PyObject *args[] = {owner, number};
    PyObject *answer = number ? PyObject_Vectorcall(state->callbacks.is_running, args, 2, NULL) : NULL;
    Py_XDECREF(number);
    if (!answer)
        return core_swallow() < 0 ? -1 : 1;
    int running = answer == Py_True;
    Py_DECREF(answer);
    return running;
}

static int enter_again(struct core_state *state, enum traceml_phase phase, PyObject *owner)
{
    int running = is_outer_call_running(state, phase, owner);
    int index = running < 0 ? -1 : find(state, phase, owner); /* Python ran: look again */
    if (index < 0)
        return running < 0 ? -1 : 0;
    if (running) {
        state->open[index].depth++;
        return 1;
    }
    end_at(state, index, TRACEML_SPAN_ABORTED);
    return 0;
}

/* What a phase needs beyond an open step on this thread. */
static bool counts(struct core_state *state, enum traceml_phase phase, PyObject *owner)
{
    switch (phase) {
    case TRACEML_PHASE_FORWARD:
        /* A forward inside backward is the recomputation of a checkpoint: backward's time. A copy of the model (EMA,
         * a replica) may carry our hooks, but is not what is traced. */
        return !is_open(state, TRACEML_PHASE_BACKWARD) && core_model_is_traced(state, owner);
    case TRACEML_PHASE_BACKWARD:
        return !is_open(state, TRACEML_PHASE_BACKWARD);
    case TRACEML_PHASE_OPTIMIZER:
        return true;
    default:
        return false;
    }
}

/* 1: opened, 0: not to be recorded, -1: the user interrupted us. */
static int enter(struct core_state *state, enum traceml_phase phase, PyObject *owner)
{
    if (!on_step_thread(state) || !counts(state, phase, owner))
        return 0;
    if (find(state, phase, owner) >= 0) {
        int again = enter_again(state, phase, owner);
        if (again != 0 || !on_step_thread(state))
            return again;
    }
    if (state->open_count == CORE_OPEN_SPANS)
        return 0;
    struct traceml_stream stream = core_current_stream(state, state->step_device);
    if (!on_step_thread(state)) /* another thread closed the session while we asked */
        return 0;
    traceml_span span = traceml_begin(state->session, phase, stream);
    state->open[state->open_count++] = (struct open_span){phase, owner, span, 0};
    return 1;
}

static int parse(PyObject *const *args, Py_ssize_t nargs, const char *name, enum traceml_phase *phase)
{
    long number = nargs >= 2 && PyLong_Check(args[0]) ? PyLong_AsLong(args[0]) : -1;
    if (number < 0 || number >= TRACEML_PHASE_COUNT) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_TypeError, "%s() takes a phase number and its owner", name);
        return -1;
    }
    *phase = (enum traceml_phase)number;
    return 0;
}

static PyObject *core_enter(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    enum traceml_phase phase;
    if (parse(args, nargs, "enter", &phase) < 0)
        return NULL;
    int opened = enter(core_state_of(module), phase, args[1]);
    return opened < 0 ? NULL : PyBool_FromLong(opened);
}

static PyObject *core_leave(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    struct core_state *state = core_state_of(module);
    enum traceml_phase phase;
    if (parse(args, nargs, "leave", &phase) < 0)
        return NULL;
    int index = on_step_thread(state) ? find(state, phase, args[1]) : -1;
    if (index < 0)
        Py_RETURN_NONE;
    if (state->open[index].depth > 0) {
        state->open[index].depth--;
        Py_RETURN_NONE;
    }
    bool aborted = nargs > 2 && args[2] == Py_True;
    end_at(state, index, aborted ? TRACEML_SPAN_ABORTED : 0);
    Py_RETURN_NONE;
}

PyMethodDef core_span_methods[] = {
    {"enter", (PyCFunction)(void (*)(void))core_enter, METH_FASTCALL,
     PyDoc_STR("enter(phase, owner) -> bool\n--\n\nOpen a span of the open step; False: nothing was opened.")},
    {"leave", (PyCFunction)(void (*)(void))core_leave, METH_FASTCALL,
     PyDoc_STR("leave(phase, owner, aborted=False)\n--\n\nClose it.")},
    {NULL, NULL, 0, NULL},
};
