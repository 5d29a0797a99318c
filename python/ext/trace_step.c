/* TraceStep: the context manager behind `with trace_step(model):`, enter and exit in C. */
#include "module.h"

struct trace_step {
    PyObject_HEAD struct core_state *state; /* of the module that the type holds */
    PyObject *model;
    uint64_t generation; /* of the session that `span` belongs to */
    traceml_span span;   /* negative: no step was opened */
    unsigned depth;      /* times this very object was entered and not left */
};

PyObject *core_trace_step_vectorcall(PyObject *type, PyObject *const *args, size_t nargsf, PyObject *names)
{
    Py_ssize_t positional = PyVectorcall_NARGS(nargsf);
    Py_ssize_t named = names ? PyTuple_GET_SIZE(names) : 0;
    if (positional + named != 1) {
        PyErr_Format(PyExc_TypeError, "trace_step() takes the model as its one argument (%zd given)",
                     positional + named);
        return NULL;
    }
    if (named && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "model") != 0) {
        PyErr_Format(PyExc_TypeError, "trace_step() got an unexpected keyword argument '%U'",
                     PyTuple_GET_ITEM(names, 0));
        return NULL;
    }
    struct trace_step *self = PyObject_GC_New(struct trace_step, (PyTypeObject *)type);
    if (!self)
        return NULL;
    self->state = PyType_GetModuleState((PyTypeObject *)type);
    self->model = Py_NewRef(args[0]);
    self->generation = 0;
    self->span = -1;
    self->depth = 0;
    PyObject_GC_Track(self);
    return (PyObject *)self;
}

static PyObject *trace_step_enter(PyObject *object, PyObject *Py_UNUSED(ignored))
{
    struct trace_step *self = (struct trace_step *)object;
    struct core_state *state = self->state;
    if (self->depth++ > 0 || !state->session)
        Py_RETURN_NONE;
    struct traceml_stream stream;
    if (core_model_stream(state, self->model, &stream) < 0) {
        self->depth--;
        return NULL;
    }
    if (!state->session) /* closed by another thread while we were in Python */
        Py_RETURN_NONE;
    self->generation = state->generation;
    self->span = traceml_step_begin(state->session, stream);
    if (self->span >= 0) {
        state->step_thread = PyThread_get_thread_ident();
        state->step_device = stream.device;
        state->open_count = 0;
        state->departure = CORE_DEPARTURE_NONE;
    }
    Py_RETURN_NONE;
}

/* sys.exit(code) as the interpreter reads it: None is 0, an int is itself, anything else is 1. */
static long exit_code_of(PyObject *system_exit)
{
    PyObject *code = system_exit ? PyObject_GetAttrString(system_exit, "code") : NULL;
    long value = 1;
    if (code == Py_None)
        value = 0;
    else if (code && PyLong_Check(code))
        value = PyLong_AsLong(code);
    Py_XDECREF(code);
    PyErr_Clear();
    return value;
}

/* Only the facts are kept: the exception itself would keep its frames, and with them the user's tensors, alive. */
static void note_departure(struct core_state *state, PyObject *type, PyObject *value)
{
    if (PyErr_GivenExceptionMatches(type, PyExc_SystemExit)) {
        state->departure = CORE_DEPARTURE_EXIT;
        state->exit_code = exit_code_of(value);
    } else if (PyErr_GivenExceptionMatches(type, PyExc_KeyboardInterrupt)) {
        state->departure = CORE_DEPARTURE_INTERRUPT;
    }
}

static PyObject *trace_step_exit(PyObject *object, PyObject *const *args, Py_ssize_t nargs)
{
    struct trace_step *self = (struct trace_step *)object;
    struct core_state *state = self->state;
    if (self->depth == 0 || --self->depth > 0 || self->span < 0)
        Py_RETURN_FALSE;
    bool failed = nargs > 0 && args[0] != Py_None;
    if (state->session && self->generation == state->generation) {
        traceml_step_end(state->session, self->span, failed ? TRACEML_SPAN_ABORTED : 0);
        /* Spans that an exception left open were ended with the step; their places here are void. */
        state->open_count = 0;
        state->step_thread = 0;
        state->step_device = -1;
        if (failed)
            note_departure(state, args[0], nargs > 1 ? args[1] : NULL);
    }
    self->span = -1;
    Py_RETURN_FALSE;
}

static int trace_step_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((struct trace_step *)object)->model);
    return 0;
}

static int trace_step_clear(PyObject *object)
{
    Py_CLEAR(((struct trace_step *)object)->model);
    return 0;
}

static void trace_step_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    trace_step_clear(object);
    type->tp_free(object);
    Py_DECREF(type);
}

PyDoc_STRVAR(trace_step_doc, "trace_step(model)\n--\n\n"
                             "Context manager around one training step of `model`.\n\n"
                             "Parameters\n----------\n"
                             "model : torch.nn.Module\n"
                             "    The module whose forward is timed and whose device the step runs on.\n\n"
                             "Notes\n-----\n"
                             "Without a session, with tracing disabled, and in forked children it does nothing. An\n"
                             "exception passes through untouched; its step is flagged `aborted`.");

static PyMethodDef trace_step_methods[] = {
    {"__enter__", trace_step_enter, METH_NOARGS, PyDoc_STR("Open the step.")},
    {"__exit__", (PyCFunction)(void (*)(void))trace_step_exit, METH_FASTCALL,
     PyDoc_STR("Close the step; never swallows an exception.")},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot trace_step_slots[] = {
    {Py_tp_doc, (void *)trace_step_doc}, {Py_tp_methods, trace_step_methods}, {Py_tp_traverse, trace_step_traverse},
    {Py_tp_clear, trace_step_clear},     {Py_tp_dealloc, trace_step_dealloc}, {0, NULL},
};

/* Made by its vectorcall alone: no tp_new, so that there is no half-made object without a state. */
PyType_Spec core_trace_step_spec = {
    .name = "traceml_ai._core.TraceStep",
    .basicsize = sizeof(struct trace_step),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = trace_step_slots,
};
