/* The module `traceml_ai._core`: its state, its life, its names. */
#include "module.h"

static const char *const core_phase_keys[] = {
#define TRACEML_X(name, key) key,
    TRACEML_PHASE_LIST(TRACEML_X)
#undef TRACEML_X
};

struct core_state *core_state_of(PyObject *module)
{
    return PyModule_GetState(module);
}

int core_swallow(void)
{
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception))
        return -1;
    PyErr_Clear();
    return 0;
}

static int add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **type)
{
    *type = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
    return *type ? PyModule_AddType(module, *type) : -1;
}

static int add_types(PyObject *module, struct core_state *state)
{
    if (add_type(module, &core_trace_step_spec, &state->trace_step_type) < 0 ||
        add_type(module, &core_fetch_spec, &state->fetch_type) < 0 ||
        add_type(module, &core_span_spec, &state->span_type) < 0 ||
        add_type(module, &core_timer_spec, &state->timer_type) < 0)
        return -1;
    /* The slot that would say this in the spec came with CPython 3.14. */
    state->trace_step_type->tp_vectorcall = core_trace_step_vectorcall;
    state->span_type->tp_vectorcall = core_span_vectorcall;
    return 0;
}

static int add_names(struct core_state *state)
{
    state->name_is_cuda = PyUnicode_InternFromString("is_cuda");
    state->name_get_device = PyUnicode_InternFromString("get_device");
    state->name_num_yielded = PyUnicode_InternFromString("_num_yielded");
    state->name_source = PyUnicode_InternFromString("_traceml_source");
    state->name_status = PyUnicode_InternFromString("status");
    state->name_call_impl = PyUnicode_InternFromString("_call_impl");
    state->span_names = PyDict_New();
    return state->name_is_cuda && state->name_get_device && state->name_num_yielded && state->name_status &&
                   state->name_source && state->name_call_impl && state->span_names
               ? 0
               : -1;
}

static int add_error(PyObject *module, struct core_state *state)
{
    state->error = PyErr_NewExceptionWithDoc(
        "traceml_ai._core.Error", "A call of the C library failed; `status` is the name of its status.", NULL, NULL);
    return state->error ? PyModule_AddObjectRef(module, "Error", state->error) : -1;
}

/* PHASES: the JSON keys in order; PHASE_<NAME>: their indices. Both come from the list in traceml.h. */
static int add_phases(PyObject *module)
{
    PyObject *keys = PyTuple_New(TRACEML_PHASE_COUNT);
    for (Py_ssize_t i = 0; keys && i < TRACEML_PHASE_COUNT; i++) {
        PyObject *key = PyUnicode_FromString(core_phase_keys[i]);
        if (!key) {
            Py_DECREF(keys);
            return -1;
        }
        PyTuple_SET_ITEM(keys, i, key);
    }
    int status = keys ? PyModule_AddObjectRef(module, "PHASES", keys) : -1;
    Py_XDECREF(keys);
#define TRACEML_X(name, key)                                                                                           \
    if (status == 0)                                                                                                   \
        status = PyModule_AddIntConstant(module, "PHASE_" #name, TRACEML_PHASE_##name);
    TRACEML_PHASE_LIST(TRACEML_X)
#undef TRACEML_X
    return status;
}

static int core_exec(PyObject *module)
{
    struct core_state *state = core_state_of(module);
    if (add_names(state) < 0)
        goto failed;
    if (add_error(module, state) < 0)
        goto failed;
    if (add_types(module, state) < 0)
        goto failed;
    if (add_phases(module) < 0)
        goto failed;
    if (PyModule_AddStringConstant(module, "__version__", traceml_version()) < 0)
        goto failed;
    if (PyModule_AddFunctions(module, core_session_methods) < 0)
        goto failed;
    if (PyModule_AddFunctions(module, core_farewell_methods) < 0)
        return -1;
    if (PyModule_AddFunctions(module, core_report_methods) < 0)
        goto failed;
    if (PyModule_AddFunctions(module, core_span_methods) < 0)
        goto failed;
    if (PyModule_AddFunctions(module, core_timer_methods) < 0)
        goto failed;
    if (PyModule_AddFunctions(module, core_fetch_methods) < 0)
        goto failed;
    return 0;

failed:
    return -1;
}

static int core_traverse(PyObject *module, visitproc visit, void *arg)
{
    struct core_state *state = core_state_of(module);
#define X(name, use) Py_VISIT(state->callbacks.name);
    CORE_CALLBACK_LIST(X)
#undef X
    for (int i = 0; i < CORE_MODELS; i++) {
        Py_VISIT(state->models[i].model);
        Py_VISIT(state->models[i].parameter);
    }
    Py_VISIT(state->error);
    Py_VISIT(state->trace_step_type);
    Py_VISIT(state->fetch_type);
    Py_VISIT(state->span_type);
    Py_VISIT(state->span_names);
    Py_VISIT(state->timer_type);
    return 0;
}

static int core_clear(PyObject *module)
{
    struct core_state *state = core_state_of(module);
    core_session_reset(state);
    Py_CLEAR(state->error);
    Py_CLEAR(state->trace_step_type);
    Py_CLEAR(state->fetch_type);
    Py_CLEAR(state->span_type);
    Py_CLEAR(state->span_names);
    Py_CLEAR(state->timer_type);
    Py_CLEAR(state->name_is_cuda);
    Py_CLEAR(state->name_get_device);
    Py_CLEAR(state->name_num_yielded);
    Py_CLEAR(state->name_source);
    Py_CLEAR(state->name_status);
    Py_CLEAR(state->name_call_impl);
    return 0;
}

/* An open session is left as it is: closing may wait, and an interpreter that frees its modules has no time for it. The
 * exit handler of session.py closes it long before. */
static void core_free(void *module)
{
    core_clear(module);
}

static PyModuleDef_Slot core_slots[] = {
    {Py_mod_exec, core_exec},
    {0, NULL},
};

static struct PyModuleDef core_module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "traceml_ai._core",
    .m_doc = PyDoc_STR("What of traceml_ai runs in C: the session, the step, the hooks' hot paths, the report."),
    .m_size = sizeof(struct core_state),
    .m_slots = core_slots,
    .m_traverse = core_traverse,
    .m_clear = core_clear,
    .m_free = core_free,
};

PyMODINIT_FUNC PyInit__core(void)
{
    return PyModuleDef_Init(&core_module);
}
