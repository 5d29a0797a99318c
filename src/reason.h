/*
 * Purpose   the vocabulary of "why is this number not there": reasons, flags of a step, causes of loss. Written once.
 * Memory    static text.
 * Threads   any.
 * Units     none.
 * Depends   <stdint.h>.
 */
#ifndef TML_REASON_H
#define TML_REASON_H

#include <stdint.h>

/* Why a metric has no value, or its coverage is not whole: X(NAME, json_key, words for a person). */
#define TML_REASON_LIST(X)                                                                                             \
    X(NONE, "", "")                                                                                                    \
    X(NO_CUDA, "no_cuda", "no CUDA device in use")                                                                     \
    X(OBSERVER_MISSING, "observer_missing", "copies are not observed in this version")                                 \
    X(HOOK_NOT_INSTALLED, "hook_not_installed", "its hook is not installed")                                           \
    X(NEVER_OBSERVED, "never_observed", "never seen")                                                                  \
    X(EVENTS_LOST, "events_lost", "device events were lost")                                                           \
    X(TIMED_OUT, "timed_out", "device events never completed")                                                         \
    X(GRAPH_CAPTURE, "graph_capture", "the stream was capturing a graph")                                              \
    X(NO_CONTEXT, "no_context", "the device was not in use yet")                                                       \
    X(DEVICE_ERROR, "device_error", "the device reported an error")                                                    \
    X(OTHER_STREAM, "other_stream", "ran on another stream than the step")                                             \
    X(MULTI_DEVICE, "multi_device", "ran on another device than the step")                                             \
    X(STREAM_CHANGED, "stream_changed", "the step changed its stream")                                                 \
    X(OTHER_THREAD, "other_thread", "ran on another thread than the step")                                             \
    X(PRE_STEP, "pre_step", "before the step")                                                                         \
    X(FIRST_ITERATION, "first_iteration", "the first iteration has no beginning")                                      \
    X(NO_CLOCK_TIE, "no_clock_tie", "the clocks of device and host were not tied")                                     \
    X(RECORDS_LOST, "records_lost", "records were lost")                                                               \
    X(SCALER_SKIPPED, "scaler_skipped", "the gradient scaler left it out")                                             \
    X(NO_STEPS, "no_steps", "no completed steps")                                                                      \
    X(STRATEGY_UNKNOWN, "strategy_unknown", "how the ranks train together is not known")                               \
    X(RANKS_MISSING, "ranks_missing", "other ranks recorded no steps")                                                 \
    X(NO_SPAN, "no_span", "no span of this kind in the run")                                                           \
    X(NO_END, "no_end", "the run's end was not recorded")                                                              \
    X(STILL_RUNNING, "still_running", "the run is still going")                                                        \
    X(NOT_REPORTED, "not_reported", "the program did not say")                                                         \
    X(VARIES, "varies", "not the same in every step")

enum tml_reason {
#define TML_X(name, key, words) TML_REASON_##name,
    TML_REASON_LIST(TML_X)
#undef TML_X
        TML_REASON_COUNT
};

/* What is odd about a step: X(NAME, json_key). */
#define TML_STEP_FLAG_LIST(X)                                                                                          \
    X(ABORTED, "aborted")                                                                                              \
    X(PARTIAL, "partial")                                                                                              \
    X(FIRST, "first_iteration")                                                                                        \
    X(FIRST_FETCH, "first_fetch")                                                                                      \
    X(TIMED_OUT, "timed_out")                                                                                          \
    X(NEGATIVE_REMAINDER, "negative_remainder")                                                                        \
    X(STREAM_CHANGED, "stream_changed")                                                                                \
    X(OPTIMIZER_SKIPPED, "optimizer_skipped")

enum tml_step_flag_bit {
#define TML_X(name, key) TML_STEP_FLAG_BIT_##name,
    TML_STEP_FLAG_LIST(TML_X)
#undef TML_X
        TML_STEP_FLAG_COUNT
};

enum tml_step_flag {
#define TML_X(name, key) TML_STEP_FLAG_##name = 1 << TML_STEP_FLAG_BIT_##name,
    TML_STEP_FLAG_LIST(TML_X)
#undef TML_X
};

/* What was lost, by cause: X(NAME, json_key, one of what, what it means for the report). Counters only ever grow. */
#define TML_LOSS_LIST(X)                                                                                               \
    X(RING_FULL, "ring_full", "span", " dropped: the sampler did not keep up")                                         \
    X(NO_RING, "no_ring", "span", " dropped: more recording threads than rings")                                       \
    X(STACK_FULL, "stack_full", "span", " dropped: nested too deep")                                                   \
    X(POOL_EMPTY, "pool_empty", "span", " without device time: no free event")                                         \
    X(EVENT_FAILED, "event_failed", "span", " without device time: an event call failed")                              \
    X(GRAPH_CAPTURE, "graph_capture", "span", " without device time: the stream was capturing")                        \
    X(TIMED_OUT, "timed_out", "span", " without device time: their events never completed")                            \
    X(LATE, "late", "span", " that ended after their step was closed")                                                 \
    X(ROW_FULL, "row_full", "span", " dropped: too many in flight")                                                    \
    X(STEP_LOST, "step_lost", "step", " in no line of the step file: its record was dropped")                          \
    X(NESTED_STEP, "nested_step", "step", " inside a step: the outermost counts")                                      \
    X(OTHER_THREAD_STEP, "other_thread_step", "step", " of a second thread beside an open one")                        \
    X(UNWRITTEN, "unwritten", "step line", " that could not be written")                                               \
    X(NEGATIVE_REMAINDER, "negative_remainder", "step", " whose parts are longer than the whole")                      \
    X(DEVICE_ERROR, "device_error", "device error", " that ended device timing")

enum tml_loss {
#define TML_X(name, key, noun, words) TML_LOSS_##name,
    TML_LOSS_LIST(TML_X)
#undef TML_X
        TML_LOSS_COUNT
};

const char *tml_reason_key(enum tml_reason reason);
const char *tml_reason_words(enum tml_reason reason);
enum tml_reason tml_reason_from_key(const char *key); /* TML_REASON_NONE for an unknown key */
const char *tml_step_flag_key(unsigned bit);
const char *tml_loss_key(enum tml_loss loss);
const char *tml_loss_words(enum tml_loss loss, uint64_t count); /* after this count: "span dropped: ..." after 1 */
const char *tml_phase_key(unsigned phase);
int tml_phase_from_key(const char *key); /* -1 for an unknown key */

#endif
