/*
 * Purpose   what the files of the extension `traceml_ai._core` share: the state of one module, and who offers what.
 * Memory    the state belongs to the module; objects of ours hold their type, which holds the module, so that their
 *           state pointer outlives them.
 * Threads   everything here runs with the GIL held and relies on it as the only lock: the module does not declare
 *           Py_mod_gil. Calls that may wait (open, close, flush, report) let go of it.
 * Units     as traceml.h.
 * Depends   Python.h, traceml.h; nothing else of the library.
 */
#ifndef TRACEML_PY_MODULE_H
#define TRACEML_PY_MODULE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "traceml/traceml.h"

/* Spans of the hooks that may be open at once: a forward inside an optimizer's closure inside ... */
#define CORE_OPEN_SPANS 16
/* Names of spans whose number is remembered by their text. */
#define CORE_SPAN_NAMES 64
/* Models that carry our forward bracket at once (a GAN has two). Further ones are timed without their forward. */
#define CORE_MODELS 16

/* A span that a hook opened and its partner will close. The owner (module, optimizer) is compared, never touched. */
struct open_span {
    enum traceml_phase phase;
    const PyObject *owner;
    traceml_span span;
    unsigned depth; /* times that the same owner entered again while inside: super().step() in a step() */
};

/* A model that was given to trace_step. */
struct traced_model {
    PyObject *model;     /* weak reference; NULL: free slot */
    PyObject *parameter; /* weak reference to its first CUDA parameter, or its first of any kind; NULL: none */
    uint64_t steps;      /* steps begun with it */
};

/* What Python lends to the extension while a session is open: X(name, what it is called with and for). */
#define CORE_CALLBACK_LIST(X)                                                                                          \
    X(on_model, "(model): put the forward bracket on it")                                                              \
    X(find_parameter, "(model) -> its first CUDA parameter, else its first, else None")                                \
    X(on_iterator, "(iterator, grad_enabled, exhausted): a loader handed out its first batch, or has no more")         \
    X(is_running, "(optimizer) -> whether an outer step() of it is still on the stack")                                \
    X(raw_stream, "(device index) -> cudaStream_t as int; None without CUDA")                                          \
    X(is_grad_enabled, "() -> torch.is_grad_enabled()")

struct core_callbacks {
#define X(name, use) PyObject *name;
    CORE_CALLBACK_LIST(X)
#undef X
};

/* What left the last step that was aborted, for the end reason. */
enum core_departure { CORE_DEPARTURE_NONE, CORE_DEPARTURE_EXIT, CORE_DEPARTURE_INTERRUPT };

struct core_state {
    struct traceml_session *session; /* NULL: nothing is recorded, every hook returns at once */
    uint64_t generation;             /* grows when a session opens, closes or is forgotten: older spans are void */
    unsigned long step_thread;       /* thread of the open step; 0: none */
    int step_device;                 /* CUDA device of the open step, -1: none */
    unsigned open_count;
    struct open_span open[CORE_OPEN_SPANS];
    struct traced_model models[CORE_MODELS];
    enum core_departure departure;
    long exit_code; /* of SystemExit, with CORE_DEPARTURE_EXIT */
    bool opening;   /* an open is in flight without the GIL */

    struct core_callbacks callbacks;

    PyObject *error; /* traceml_ai._core.Error */
    PyTypeObject *trace_step_type;
    PyTypeObject *fetch_type;
    PyTypeObject *span_type;
    PyTypeObject *timer_type;
    PyObject *span_names; /* dict: a name -> its traceml_name */
    PyObject *name_is_cuda, *name_get_device, *name_num_yielded, *name_source, *name_status,
        *name_call_impl; /* interned */
};

/* The methods of the module, one table a file. */
extern PyMethodDef core_session_methods[];
extern PyMethodDef core_report_methods[];
extern PyMethodDef core_farewell_methods[];
extern PyMethodDef core_span_methods[];
extern PyMethodDef core_timer_methods[];
extern PyMethodDef core_fetch_methods[];

/* The types: one file each. */
extern PyType_Spec core_trace_step_spec;
extern PyType_Spec core_fetch_spec;
extern PyType_Spec core_span_spec;
PyObject *core_span_vectorcall(PyObject *type, PyObject *const *args, size_t nargsf, PyObject *names);
extern PyType_Spec core_timer_spec;
PyObject *core_trace_step_vectorcall(PyObject *type, PyObject *const *args, size_t nargsf, PyObject *names);

/* ---- session.c ---- */
/* Sets _core.Error with the status and one line of text. Returns NULL. */
PyObject *core_raise(struct core_state *state, enum traceml_status status, const char *line);
/* Drops what belongs to one session: callbacks, models, open spans. */
void core_session_reset(struct core_state *state);

/* ---- open_spans.c ---- */
/* Opens a span of the open step. 1: opened, 0: not to be recorded, -1: the user interrupted us. */
int core_enter(struct core_state *state, enum traceml_phase phase, PyObject *owner);
/* Closes the innermost one of this owner, if there is one. */
void core_leave(struct core_state *state, enum traceml_phase phase, const PyObject *owner, unsigned flags);

/* ---- traced_model.c ---- */
/* What a weak reference refers to, as a new reference; NULL when it is gone. Never leaves an exception. */
PyObject *core_referent(PyObject *reference);
/*
 * The stream that the model's work is enqueued on, by its first CUDA parameter; TRACEML_NO_STREAM without one. A model
 * seen for the first time gets its hooks. Returns -1 with an exception set only for what must reach the user
 * (KeyboardInterrupt while we were in Python).
 */
int core_model_stream(struct core_state *state, PyObject *model, struct traceml_stream *stream);
/* The current stream of that CUDA device. The device must be live. */
struct traceml_stream core_current_stream(struct core_state *state, int device);
void core_models_forget(struct core_state *state);

/* ---- module.c ---- */
/* After a failed call into Python: swallows an Exception of ours, keeps what is the user's (KeyboardInterrupt,
 * SystemExit). Returns -1 if something was kept. */
int core_swallow(void);
struct core_state *core_state_of(PyObject *module);

#endif
