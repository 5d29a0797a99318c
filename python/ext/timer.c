/*
 * Timer: what our hooks on PyTorch's functions call, and serve(), which lets the interpreter call it straight away.
 *
 * A hook that the compiler may trace has to be a Python function (a C callable there is an error under fullgraph=True).
 * Such a function keeps its bytecode, which is what the compiler reads; serve() sets its vectorcall, which is what the
 * interpreter uses, to the timer in its closure: no frame, no packing of arguments. An interpreter that looks at the
 * bytecode alone (3.11, for most calls) gets the same from it, slower.
 */
#include "module.h"
#include <stddef.h>
#include <structmember.h>

struct timer {
    PyObject_HEAD vectorcallfunc vectorcall;
    struct core_state *state; /* of the module that the type holds */
    enum traceml_phase phase;
    PyObject *model;    /* weak reference to the model whose forward it is; NULL: of nobody in particular */
    PyObject *original; /* what it stands in for; NULL: the model's own _call_impl */
};

/* The callable to call, as a new reference; *owner is the model, new too, or NULL. */
static PyObject *target_of(struct timer *self, PyObject **owner)
{
    *owner = self->model ? core_referent(self->model) : NULL;
    if (self->original)
        return Py_NewRef(self->original);
    if (*owner)
        return PyObject_GetAttr(*owner, self->state->name_call_impl);
    PyErr_SetString(PyExc_ReferenceError, "the model of this bracket is gone");
    return NULL;
}

static PyObject *around(PyObject *object, PyObject *const *args, size_t nargsf, PyObject *names)
{
    struct timer *self = (struct timer *)object;
    struct core_state *state = self->state;
    PyObject *owner, *result = NULL;
    PyObject *target = target_of(self, &owner);
    int opened = target ? core_enter(state, self->phase, owner) : -1;
    if (opened >= 0) {
        uint64_t generation = state->generation;
        result = PyObject_Vectorcall(target, args, nargsf, names);
        if (opened && generation == state->generation)
            core_leave(state, self->phase, owner, result ? 0 : TRACEML_SPAN_ABORTED);
    }
    Py_XDECREF(target);
    Py_XDECREF(owner);
    return result;
}

/* The hooks before and after: their first argument is the owner. They change nothing, so they return None. */
static PyObject *before(PyObject *object, PyObject *const *args, size_t nargsf, PyObject *Py_UNUSED(names))
{
    struct timer *self = (struct timer *)object;
    if (PyVectorcall_NARGS(nargsf) > 0 && core_enter(self->state, self->phase, args[0]) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *after(PyObject *object, PyObject *const *args, size_t nargsf, PyObject *Py_UNUSED(names))
{
    struct timer *self = (struct timer *)object;
    if (PyVectorcall_NARGS(nargsf) > 0)
        core_leave(self->state, self->phase, args[0], 0);
    Py_RETURN_NONE;
}

/* ---- serve() ---- */

/* The timer of a function is what its last free variable refers to; NULL without one. */
static PyObject *timer_of(PyObject *function)
{
    PyObject *closure = PyFunction_GET_CLOSURE(function);
    Py_ssize_t count = closure ? PyTuple_GET_SIZE(closure) : 0;
    return count ? PyCell_GET(PyTuple_GET_ITEM(closure, count - 1)) : NULL;
}

/* The function is held by its caller and holds its cell. The garbage collector may have emptied that, and Python lets
 * anybody put something else into it. */
static PyObject *served(PyObject *function, PyObject *const *args, size_t nargsf, PyObject *names)
{
    PyObject *timer = timer_of(function);
    if (!timer) {
        PyErr_SetString(PyExc_ReferenceError, "the timer of this function is gone");
        return NULL;
    }
    return PyObject_Vectorcall(timer, args, nargsf, names);
}

static PyObject *core_serve(PyObject *module, PyObject *function)
{
    PyObject *timer = PyFunction_Check(function) ? timer_of(function) : NULL;
    if (!timer || !Py_IS_TYPE(timer, core_state_of(module)->timer_type)) {
        PyErr_SetString(PyExc_TypeError, "serve() takes a function whose last free variable is a Timer");
        return NULL;
    }
#if PY_VERSION_HEX >= 0x030C0000
    PyFunction_SetVectorcall((PyFunctionObject *)function, served);
#else
    ((PyFunctionObject *)function)->vectorcall = served;
#endif
    return Py_NewRef(function);
}

PyMethodDef core_timer_methods[] = {
    {"serve", core_serve, METH_O,
     PyDoc_STR("serve(function)\n--\n\nLet calls of `function` go to the Timer in its closure, and return it.")},
    {NULL, NULL, 0, NULL},
};

/* ---- The type ---- */

static vectorcallfunc role_of(const char *role)
{
    return strcmp(role, "around") == 0   ? around
           : strcmp(role, "before") == 0 ? before
           : strcmp(role, "after") == 0  ? after
                                         : NULL;
}

static PyObject *timer_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"phase", "role", "model", "original", NULL};
    PyObject *model = Py_None, *original = Py_None;
    int phase;
    const char *role;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "is|OO:Timer", names, &phase, &role, &model, &original))
        return NULL;
    bool sound = phase >= 0 && phase < TRACEML_PHASE_COUNT && role_of(role) &&
                 (model == Py_None || PyWeakref_Check(model)) && (original == Py_None || PyCallable_Check(original)) &&
                 (strcmp(role, "around") != 0 || model != Py_None || original != Py_None);
    if (!sound) {
        PyErr_SetString(PyExc_TypeError,
                        "Timer() takes a phase number, 'around', 'before' or 'after', and for 'around' "
                        "a weak reference to a model, a callable, or both");
        return NULL;
    }
    struct timer *self = (struct timer *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    self->vectorcall = role_of(role);
    self->state = PyType_GetModuleState(type);
    self->phase = (enum traceml_phase)phase;
    self->model = model == Py_None ? NULL : Py_NewRef(model);
    self->original = original == Py_None ? NULL : Py_NewRef(original);
    return (PyObject *)self;
}

static int timer_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((struct timer *)object)->model);
    Py_VISIT(((struct timer *)object)->original);
    return 0;
}

static void timer_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    Py_CLEAR(((struct timer *)object)->model);
    Py_CLEAR(((struct timer *)object)->original);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyMemberDef timer_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(struct timer, vectorcall), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot timer_slots[] = {
    {Py_tp_doc, PyDoc_STR("Timer(phase, role, model=None, original=None)\n--\n\n"
                          "A callable that brackets spans of the open step: around a call of `original` (else of the\n"
                          "model's own forward), or one that opens, one that closes, for the owner given first.")},
    {Py_tp_new, timer_new},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_traverse, timer_traverse},
    {Py_tp_dealloc, timer_dealloc},
    {Py_tp_members, timer_members},
    {0, NULL},
};

/* No tp_clear, as for Fetch: a call in progress uses `original`, and what holds a timer is a function that can clear. */
PyType_Spec core_timer_spec = {
    .name = "traceml_ai._core.Timer",
    .basicsize = sizeof(struct timer),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_HAVE_VECTORCALL,
    .slots = timer_slots,
};
