/*
 * Open spans of the Python hooks. What leaves without being entered, or is entered and never left, harms nothing: the
 * hook after a call does not run when the user's code raises. What it leaves is found when the same owner enters again
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
 * The same owner is open already. The brackets of forward and backward see every end, so it called itself. The hooks of
 * an optimizer do not see a step() that raised: either an outer one is still running (a subclass calls super().step())
 * and this entry belongs to it, or it raised and this is the retry. Only the stack can tell.
 * Returns -1 with an exception set if the user interrupted us.
 */
static int is_outer_call_running(struct core_state *state, enum traceml_phase phase, PyObject *owner)
{
    if (phase != TRACEML_PHASE_OPTIMIZER || !state->callbacks.is_running)
        return 1;
    PyObject *answer = PyObject_CallOneArg(state->callbacks.is_running, owner);
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
static bool counts(const struct core_state *state, enum traceml_phase phase)
{
    switch (phase) {
    case TRACEML_PHASE_FORWARD:  /* inside backward it is the recomputation of a checkpoint: backward's time */
    case TRACEML_PHASE_BACKWARD: /* the outermost counts */
        return !is_open(state, TRACEML_PHASE_BACKWARD);
    case TRACEML_PHASE_OPTIMIZER:
        return true;
    default:
        return false;
    }
}

int core_enter(struct core_state *state, enum traceml_phase phase, PyObject *owner)
{
    if (!on_step_thread(state) || !counts(state, phase))
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

void core_leave(struct core_state *state, enum traceml_phase phase, const PyObject *owner, unsigned flags)
{
    int index = on_step_thread(state) ? find(state, phase, owner) : -1;
    if (index < 0)
        return;
    if (state->open[index].depth > 0)
        state->open[index].depth--;
    else
        end_at(state, index, flags);
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

static PyObject *enter(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    enum traceml_phase phase;
    if (parse(args, nargs, "enter", &phase) < 0)
        return NULL;
    int opened = core_enter(core_state_of(module), phase, args[1]);
    return opened < 0 ? NULL : PyBool_FromLong(opened);
}

static PyObject *leave(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    enum traceml_phase phase;
    if (parse(args, nargs, "leave", &phase) < 0)
        return NULL;
    core_leave(core_state_of(module), phase, args[1], 0);
    Py_RETURN_NONE;
}

/* No time is taken: what the caller did instead of it is not the phase's. */
static PyObject *core_skipped(PyObject *module, PyObject *phase)
{
    struct core_state *state = core_state_of(module);
    long number = PyLong_AsLong(phase);
    if (number == -1 && PyErr_Occurred())
        return NULL;
    if (on_step_thread(state) && number == TRACEML_PHASE_OPTIMIZER)
        traceml_end(state->session, traceml_begin(state->session, TRACEML_PHASE_OPTIMIZER, TRACEML_NO_STREAM),
                    TRACEML_SPAN_SKIPPED);
    Py_RETURN_NONE;
}

PyMethodDef core_span_methods[] = {
    {"skipped", core_skipped, METH_O,
     PyDoc_STR("skipped(phase)\n--\n\nThe optimizer's update of the open step was left out.")},
    {"enter", (PyCFunction)(void (*)(void))enter, METH_FASTCALL,
     PyDoc_STR("enter(phase, owner) -> bool\n--\n\nOpen a span of the open step; False: nothing was opened.")},
    {"leave", (PyCFunction)(void (*)(void))leave, METH_FASTCALL, PyDoc_STR("leave(phase, owner)\n--\n\nClose it.")},
    {NULL, NULL, 0, NULL},
};
