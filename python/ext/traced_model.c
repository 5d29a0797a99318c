/* The models given to trace_step: which of them we know, and which stream their work is on. */
#include "module.h"

PyObject *core_referent(PyObject *reference)
{
#if PY_VERSION_HEX >= 0x030D0000
    PyObject *object = NULL;
    if (PyWeakref_GetRef(reference, &object) < 0)
        PyErr_Clear();
    return object;
#else
    PyObject *object = PyWeakref_GetObject(reference);
    return object == Py_None ? NULL : Py_XNewRef(object);
#endif
}

/* Compares only: an address that was freed and used again is no match, as its weak reference is dead. */
static bool refers_to(PyObject *reference, PyObject *object)
{
    PyObject *referent = core_referent(reference);
    Py_XDECREF(referent); /* `object` is held by the caller, so a match stays valid */
    return referent == object;
}

static struct traced_model *find(struct core_state *state, PyObject *model)
{
    for (unsigned i = 0; i < CORE_MODELS; i++)
        if (state->models[i].model && refers_to(state->models[i].model, model))
            return &state->models[i];
    return NULL;
}

static void forget(struct traced_model *entry)
{
    Py_CLEAR(entry->model);
    Py_CLEAR(entry->parameter);
    entry->steps = 0;
}

void core_models_forget(struct core_state *state)
{
    for (unsigned i = 0; i < CORE_MODELS; i++)
        forget(&state->models[i]);
}

/* A slot whose model is gone or that was never used; NULL when all are taken. */
static struct traced_model *free_slot(struct core_state *state)
{
    for (unsigned i = 0; i < CORE_MODELS; i++) {
        struct traced_model *entry = &state->models[i];
        PyObject *model = entry->model ? core_referent(entry->model) : NULL;
        if (!model) {
            forget(entry);
            return entry;
        }
        Py_DECREF(model);
    }
    return NULL;
}

/* The slot is filled before Python is called: were the bracket put on first and the call failed half-way, the next step
 * would put it on again. */
static int attach(struct core_state *state, PyObject *model, struct traced_model **result)
{
    *result = NULL;
    struct traced_model *entry = free_slot(state);
    if (!entry)
        return 0;
    PyObject *reference = PyWeakref_NewRef(model, NULL);
    if (!reference) {
        PyErr_Clear(); /* not a module at all: the step is timed, its forward is not */
        return 0;
    }
    entry->model = reference;
    *result = entry;
    if (!state->callbacks.on_model)
        return 0;
    PyObject *done = PyObject_CallOneArg(state->callbacks.on_model, model);
    Py_XDECREF(done);
    return done ? 0 : core_swallow();
}

static int look_for_parameter(struct core_state *state, struct traced_model *entry, PyObject *model)
{
    if (!state->callbacks.find_parameter)
        return 0;
    PyObject *parameter = PyObject_CallOneArg(state->callbacks.find_parameter, model);
    if (!parameter)
        return core_swallow();
    PyObject *reference = parameter == Py_None ? NULL : PyWeakref_NewRef(parameter, NULL);
    Py_DECREF(parameter);
    PyErr_Clear();
    Py_XSETREF(entry->parameter, reference);
    return 0;
}

/* The CUDA device that a parameter is on now (a model may move between two steps); -1 for none. */
static int cuda_device_of(struct core_state *state, PyObject *parameter)
{
    int device = -1;
    PyObject *is_cuda = PyObject_GetAttr(parameter, state->name_is_cuda);
    if (is_cuda == Py_True) { /* asked first: get_device() answers 0 for the first device of any accelerator */
        PyObject *index = PyObject_CallMethodNoArgs(parameter, state->name_get_device);
        long value = index ? PyLong_AsLong(index) : -1;
        device = value >= 0 && value < 1024 ? (int)value : -1;
        Py_XDECREF(index);
    }
    Py_XDECREF(is_cuda);
    PyErr_Clear();
    return device;
}

struct traceml_stream core_current_stream(struct core_state *state, int device)
{
    struct traceml_stream stream = TRACEML_NO_STREAM;
    if (device < 0 || !state->callbacks.raw_stream)
        return stream;
    PyObject *index = PyLong_FromLong(device);
    PyObject *handle = index ? PyObject_CallOneArg(state->callbacks.raw_stream, index) : NULL;
    if (handle) {
        void *pointer = PyLong_AsVoidPtr(handle);
        if (!PyErr_Occurred())
            stream = (struct traceml_stream){device, pointer};
    }
    PyErr_Clear();
    Py_XDECREF(handle);
    Py_XDECREF(index);
    return stream;
}

/*
 * Without a CUDA build nothing is asked at all. Else the parameter found last is asked where it is; another is looked
 * for when that one is gone, and, as long as none is on a CUDA device, at the 1st, 2nd, 4th, 8th ... step: a model of
 * which only a part moves is noticed late, and a model on the CPU costs nothing.
 */
static int stream_of(struct core_state *state, struct traced_model *entry, PyObject *model,
                     struct traceml_stream *stream)
{
    if (!state->callbacks.raw_stream)
        return 0;
    uint64_t step = ++entry->steps;
    PyObject *parameter = entry->parameter ? core_referent(entry->parameter) : NULL;
    int device = parameter ? cuda_device_of(state, parameter) : -1;
    bool gone = entry->parameter && !parameter;
    Py_XDECREF(parameter);
    if (gone || (device < 0 && (step & (step - 1)) == 0)) {
        if (look_for_parameter(state, entry, model) < 0)
            return -1;
        parameter = entry->parameter ? core_referent(entry->parameter) : NULL;
        device = parameter ? cuda_device_of(state, parameter) : -1;
        Py_XDECREF(parameter);
    }
    *stream = core_current_stream(state, device);
    return 0;
}

int core_model_stream(struct core_state *state, PyObject *model, struct traceml_stream *stream)
{
    *stream = TRACEML_NO_STREAM;
    struct traced_model *entry = find(state, model);
    if (!entry && attach(state, model, &entry) < 0)
        return -1;
    return entry ? stream_of(state, entry, model, stream) : 0;
}
