/* Span: the context manager behind `with span(name):`, enter and exit in C; as a decorator it is decorator.py's. */
#include "module.h"

struct span {
    PyObject_HEAD struct core_state *state; /* of the module that the type holds */
    PyObject *name;
    traceml_name number;
    uint64_t generation;  /* of the session that `span` belongs to */
    unsigned long thread; /* that entered */
    traceml_span span;    /* negative: nothing was opened */
    unsigned depth;       /* times this very object was entered and not left */
};

/* A name becomes a number once; then it is a look-up by the string that the user's code holds anyway. */
static int number_of(struct core_state *state, PyObject *name, traceml_name *number)
{
    PyObject *known = PyDict_GetItemWithError(state->span_names, name);
    if (known) {
        *number = (traceml_name)PyLong_AsLong(known);
        return 0;
    }
    const char *text = PyErr_Occurred() ? NULL : PyUnicode_AsUTF8(name);
    if (!text)
        return -1;
    *number = traceml_name_of(text);
    if (PyDict_GET_SIZE(state->span_names) >= CORE_SPAN_NAMES) /* names made up in a loop: looked up each time */
        return 0;
    PyObject *value = PyLong_FromLong(*number);
    int status = value ? PyDict_SetItem(state->span_names, name, value) : -1;
    Py_XDECREF(value);
    return status;
}

static PyObject *the_name(PyObject *const *args, size_t nargsf, PyObject *names)
{
    Py_ssize_t positional = PyVectorcall_NARGS(nargsf), named = names ? PyTuple_GET_SIZE(names) : 0;
    if (positional + named != 1) {
        PyErr_Format(PyExc_TypeError, "span() takes a name as its one argument (%zd given)", positional + named);
    } else if (named && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "name") != 0) {
        PyErr_Format(PyExc_TypeError, "span() got an unexpected keyword argument '%U'", PyTuple_GET_ITEM(names, 0));
    } else if (!PyUnicode_Check(args[0])) {
        PyErr_Format(PyExc_TypeError, "span() needs the name of a phase, a str, not %.80s", Py_TYPE(args[0])->tp_name);
    } else if (PyUnicode_GetLength(args[0]) == 0) {
        PyErr_SetString(PyExc_ValueError, "span() needs a name that is not empty");
    } else {
        return args[0];
    }
    return NULL;
}

PyObject *core_span_vectorcall(PyObject *type, PyObject *const *args, size_t nargsf, PyObject *names)
{
    struct core_state *state = PyType_GetModuleState((PyTypeObject *)type);
    traceml_name number;
    PyObject *name = the_name(args, nargsf, names);
    if (!name || number_of(state, name, &number) < 0)
        return NULL;
    struct span *self = PyObject_GC_New(struct span, (PyTypeObject *)type);
    if (!self)
        return NULL;
    self->state = state;
    self->name = Py_NewRef(name);
    self->number = number;
    self->span = -1;
    self->depth = 0;
    PyObject_GC_Track(self);
    return (PyObject *)self;
}

/* The current stream of the traced model's device: of the open step, else of this thread's last one. */
static struct traceml_stream stream_here(struct core_state *state, unsigned long thread)
{
    if (state->step_thread == thread)
        return core_current_stream(state, state->step_device);
    return core_current_stream(state, traceml_last_stream(state->session).device);
}

static PyObject *span_enter(PyObject *object, PyObject *Py_UNUSED(ignored))
{
    struct span *self = (struct span *)object;
    struct core_state *state = self->state;
    if (self->depth++ > 0 || !state->session)
        return Py_NewRef(object);
    self->thread = PyThread_get_thread_ident();
    struct traceml_stream stream = stream_here(state, self->thread);
    if (!state->session) /* closed by another thread while we were in Python */
        return Py_NewRef(object);
    self->generation = state->generation;
    self->span = traceml_begin_named(state->session, self->number, stream);
    return Py_NewRef(object);
}

/* Left on another thread than it was entered on, it stays open there and ends with what is around it. */
static PyObject *span_exit(PyObject *object, PyObject *const *args, Py_ssize_t nargs)
{
    struct span *self = (struct span *)object;
    struct core_state *state = self->state;
    if (self->depth == 0 || --self->depth > 0 || self->span < 0)
        Py_RETURN_FALSE;
    bool failed = nargs > 0 && args[0] != Py_None;
    if (state->session && self->generation == state->generation && self->thread == PyThread_get_thread_ident())
        traceml_end(state->session, self->span, failed ? TRACEML_SPAN_ABORTED : 0);
    self->span = -1;
    Py_RETURN_FALSE;
}

static PyObject *span_call(PyObject *object, PyObject *args, PyObject *kwargs)
{
    PyObject *module = PyImport_ImportModule("traceml_ai.decorator");
    PyObject *decorate = module ? PyObject_GetAttrString(module, "decorate") : NULL;
    PyObject *bound = decorate ? PyMethod_New(decorate, ((struct span *)object)->name) : NULL;
    PyObject *result = bound ? PyObject_Call(bound, args, kwargs) : NULL;
    Py_XDECREF(bound);
    Py_XDECREF(decorate);
    Py_XDECREF(module);
    return result;
}

static PyObject *span_repr(PyObject *object)
{
    return PyUnicode_FromFormat("span(%R)", ((struct span *)object)->name);
}

static int span_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((struct span *)object)->name);
    return 0;
}

static void span_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    Py_CLEAR(((struct span *)object)->name);
    type->tp_free(object);
    Py_DECREF(type);
}

PyDoc_STRVAR(span_doc,
             "span(name)\n--\n\n"
             "Context manager and decorator around a phase of your own.\n\n"
             "Parameters\n----------\n"
             "name : str\n"
             "    'evaluation' and 'checkpoint' are those phases of the report, and keep what happens inside\n"
             "    them; any other name appears under it, with the time that no phase inside it has.\n\n"
             "Notes\n-----\n"
             "Inside a step or between two. Without a session, with tracing disabled and in forked children it\n"
             "does nothing. An exception passes through untouched. A process tells 15 names of up to 47 bytes\n"
             "apart, later ones count under 'other'. A span belongs to the iteration in which it began; one\n"
             "around several steps ends too late for it, and is counted under `losses`.");

static PyMethodDef span_methods[] = {
    {"__enter__", span_enter, METH_NOARGS, PyDoc_STR("Open it.")},
    {"__exit__", (PyCFunction)(void (*)(void))span_exit, METH_FASTCALL,
     PyDoc_STR("Close it; never swallows an exception.")},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot span_slots[] = {
    {Py_tp_doc, (void *)span_doc},
    {Py_tp_methods, span_methods},
    {Py_tp_call, span_call},
    {Py_tp_repr, span_repr},
    {Py_tp_traverse, span_traverse},
    {Py_tp_dealloc, span_dealloc},
    {0, NULL},
};

/* Made by its vectorcall alone, as TraceStep is. A name is a str, which is in no cycle: there is nothing to clear. */
PyType_Spec core_span_spec = {
    .name = "traceml_ai._core.Span",
    .basicsize = sizeof(struct span),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = span_slots,
};
