/*
 * Fetch: the callable that stands in for `_BaseDataLoaderIter.__next__`.
 *
 * A C function as a class attribute is not bound to the iterator, so it has a type of its own that says it behaves as a
 * method does (Py_TPFLAGS_METHOD_DESCRIPTOR): the interpreter then calls it with the iterator as first argument and
 * makes no bound method.
 */
#include "module.h"
#include <stddef.h>
#include <structmember.h>

struct fetch {
    PyObject_HEAD vectorcallfunc vectorcall;
    struct core_state *state; /* of the module that the type holds */
    PyObject *original;       /* the function that was there */
};

/* `_num_yielded` is 0 before an iterator's first batch, also when persistent workers start a new epoch on it: the fact
 * stands on the iterator already. */
static bool is_first(struct core_state *state, PyObject *iterator)
{
    PyObject *yielded = PyObject_GetAttr(iterator, state->name_num_yielded);
    bool first = yielded && PyLong_Check(yielded) && PyLong_AsLong(yielded) == 0;
    Py_XDECREF(yielded);
    PyErr_Clear();
    return first;
}

static bool gradients_are_off(struct core_state *state)
{
    if (!state->callbacks.is_grad_enabled)
        return false;
    PyObject *enabled = PyObject_CallNoArgs(state->callbacks.is_grad_enabled);
    bool off = enabled == Py_False;
    Py_XDECREF(enabled);
    PyErr_Clear();
    return off;
}

/* False with an exception that must reach the user. */
static bool tell(struct core_state *state, PyObject *iterator, unsigned flags, bool exhausted)
{
    if (!state->callbacks.on_iterator)
        return true;
    PyObject *args[] = {iterator, flags & TRACEML_SPAN_NO_GRAD ? Py_False : Py_True, exhausted ? Py_True : Py_False};
    PyObject *done = PyObject_Vectorcall(state->callbacks.on_iterator, args, 3, NULL);
    Py_XDECREF(done);
    return done || core_swallow() == 0;
}

/* After the span has ended, so that the reading of the loader's settings is not in it. */
static PyObject *tell_first(struct core_state *state, PyObject *iterator, unsigned flags, PyObject *batch)
{
    if (!tell(state, iterator, flags, false))
        Py_CLEAR(batch);
    return batch;
}

/* With the user's StopIteration set, which stays unless an interrupt came meanwhile. */
static void tell_exhausted(struct core_state *state, PyObject *iterator, unsigned flags)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (tell(state, iterator, flags, true)) {
        PyErr_Restore(type, value, traceback);
        return;
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
}

/* One fetch that is being timed. */
struct timed_fetch {
    uint64_t generation;
    traceml_span span;
    unsigned flags;
};

/* `source`: number of the loader and, in the lower 16 bits, of the pass over it. False: not recorded. */
static bool begin(struct core_state *state, unsigned long source, unsigned flags, struct timed_fetch *fetch)
{
    fetch->flags = flags | (gradients_are_off(state) ? TRACEML_SPAN_NO_GRAD : 0u);
    struct traceml_session *session = state->session;
    if (!session) /* none, or closed by another thread while we asked */
        return false;
    fetch->generation = state->generation;
    fetch->span =
        traceml_begin_fetch(session, (uint16_t)(source >> 16), (uint16_t)source, traceml_last_stream(session));
    return true;
}

/* False: the session was closed meanwhile, or we are a forked child. */
static bool end(struct core_state *state, const struct timed_fetch *fetch, const PyObject *batch)
{
    if (state->generation != fetch->generation)
        return false;
    if (batch)
        traceml_end(state->session, fetch->span, fetch->flags);
    else if (PyErr_ExceptionMatches(PyExc_StopIteration))
        traceml_cancel(state->session, fetch->span); /* the exhausting call hands out no batch: it is no fetch */
    else
        traceml_end(state->session, fetch->span, fetch->flags | TRACEML_SPAN_ABORTED);
    return true;
}

/* What dataloader.py wrote on the iterator when it was made; 0 for one that is older than our hook. */
static unsigned long source_of(struct core_state *state, PyObject *iterator)
{
    PyObject *tag = PyObject_GetAttr(iterator, state->name_source);
    unsigned long source = tag && PyLong_Check(tag) ? PyLong_AsUnsignedLong(tag) : 0;
    Py_XDECREF(tag);
    if (PyErr_Occurred()) {
        PyErr_Clear();
        source = 0;
    }
    return source;
}

static PyObject *fetch_vectorcall(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *names)
{
    struct fetch *self = (struct fetch *)callable;
    struct core_state *state = self->state;
    if (!state->session || PyVectorcall_NARGS(nargsf) < 1)
        return PyObject_Vectorcall(self->original, args, nargsf, names);

    PyObject *iterator = args[0];
    struct timed_fetch fetch;
    unsigned first = is_first(state, iterator) ? TRACEML_SPAN_FIRST_FETCH : 0u;
    bool timed = begin(state, source_of(state, iterator), first, &fetch);
    PyObject *batch = PyObject_Vectorcall(self->original, args, nargsf, names);
    if (!timed || !end(state, &fetch, batch))
        return batch;
    if (batch && first)
        return tell_first(state, iterator, fetch.flags, batch);
    if (!batch && PyErr_ExceptionMatches(PyExc_StopIteration))
        tell_exhausted(state, iterator, fetch.flags);
    return batch;
}

/* fetch(source, first, callable, *args, **kwargs) */
static PyObject *core_fetch(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *names)
{
    struct core_state *state = core_state_of(module);
    unsigned long source = nargs >= 3 && PyLong_Check(args[0]) ? PyLong_AsUnsignedLong(args[0]) : 0;
    if (nargs < 3 || !PyLong_Check(args[0]) || PyErr_Occurred()) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError,
                            "fetch() takes the number of a source, whether it is its first, a callable");
        return NULL;
    }
    struct timed_fetch fetch;
    bool timed = begin(state, source, args[1] == Py_True ? TRACEML_SPAN_FIRST_FETCH : 0u, &fetch);
    PyObject *batch = PyObject_Vectorcall(args[2], args + 3, (size_t)(nargs - 3), names);
    if (timed)
        end(state, &fetch, batch);
    return batch;
}

PyMethodDef core_fetch_methods[] = {
    {"fetch", (PyCFunction)(void (*)(void))core_fetch, METH_FASTCALL | METH_KEYWORDS,
     PyDoc_STR("fetch(source, first, callable, /, *args, **kwargs)\n--\n\n"
               "Return callable(*args, **kwargs), timed as the fetch of a batch.")},
    {NULL, NULL, 0, NULL},
};

static PyObject *fetch_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"", NULL};
    PyObject *original;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:Fetch", names, &original))
        return NULL;
    if (!PyCallable_Check(original)) {
        PyErr_SetString(PyExc_TypeError, "Fetch() needs the callable that it stands in for");
        return NULL;
    }
    struct fetch *self = (struct fetch *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    self->vectorcall = fetch_vectorcall;
    self->state = PyType_GetModuleState(type);
    self->original = Py_NewRef(original);
    return (PyObject *)self;
}

static PyObject *fetch_descr_get(PyObject *callable, PyObject *instance, PyObject *Py_UNUSED(owner))
{
    if (!instance || instance == Py_None)
        return Py_NewRef(callable);
    return PyMethod_New(callable, instance);
}

/* Name, signature and whatever else somebody asks a function for are the original's. */
static PyObject *fetch_getattro(PyObject *callable, PyObject *name)
{
    PyObject *value = PyObject_GenericGetAttr(callable, name);
    if (value || !PyErr_ExceptionMatches(PyExc_AttributeError))
        return value;
    PyErr_Clear();
    return PyObject_GetAttr(((struct fetch *)callable)->original, name);
}

static PyObject *fetch_doc(PyObject *callable, void *Py_UNUSED(closure))
{
    return PyObject_GetAttrString(((struct fetch *)callable)->original, "__doc__");
}

static int fetch_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((struct fetch *)object)->original);
    return 0;
}

static void fetch_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    Py_CLEAR(((struct fetch *)object)->original);
    type->tp_free(object);
    Py_DECREF(type);
}

/* On its own, because every type has a docstring, if only None, which is found before the original's. */
static PyGetSetDef fetch_getset[] = {
    {"__doc__", fetch_doc, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef fetch_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(struct fetch, vectorcall), READONLY, NULL},
    {"__wrapped__", T_OBJECT_EX, offsetof(struct fetch, original), READONLY, PyDoc_STR("What it stands in for.")},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot fetch_slots[] = {
    {Py_tp_new, fetch_new},           {Py_tp_call, PyVectorcall_Call},  {Py_tp_descr_get, fetch_descr_get},
    {Py_tp_getattro, fetch_getattro}, {Py_tp_traverse, fetch_traverse}, {Py_tp_dealloc, fetch_dealloc},
    {Py_tp_getset, fetch_getset},     {Py_tp_members, fetch_members},   {0, NULL},
};

/* No tp_clear: a call in progress uses `original`, and the cycle class -> fetch -> function -> class is broken at the
 * class, whose attribute we are. */
PyType_Spec core_fetch_spec = {
    .name = "traceml_ai._core.Fetch",
    .basicsize = sizeof(struct fetch),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_HAVE_VECTORCALL |
             Py_TPFLAGS_METHOD_DESCRIPTOR,
    .slots = fetch_slots,
};
