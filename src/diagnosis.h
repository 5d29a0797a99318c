/*
 * Purpose   the fourth of the four shapes: the verdict. A table of rules, each with the signals it needs, its
 *           denominator, thresholds and floor; a rule whose signals are not there abstains.
 * Memory    tml_diagnose() fills the caller's struct, tml_verdict_free() gives back its sentences; rules are static.
 * Threads   any.
 * Units     shares and scores are ratios (0 to 1), costs ns; NAN for null.
 * Depends   window, run_facts, text_buffer.
 */
#ifndef TML_DIAGNOSIS_H
#define TML_DIAGNOSIS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "run_facts.h"
#include "text_buffer.h"
#include "window.h"

/* X(KIND, status as people read it). The JSON kind is the name. Up to INCOMPLETE_DATA nothing is judged. */
#define TML_FINDING_LIST(X)                                                                                            \
    X(NO_DATA, "NO DATA")                                                                                              \
    X(WARMUP, "WARMUP")                                                                                                \
    X(INCOMPLETE_DATA, "INCOMPLETE DATA")                                                                              \
    X(BALANCED, "BALANCED")                                                                                            \
    X(INPUT_BOUND, "INPUT-BOUND")                                                                                      \
    X(H2D_BOUND, "H2D-BOUND")                                                                                          \
    X(RESIDUAL_HEAVY, "RESIDUAL-HEAVY")                                                                                \
    X(INSTRUMENTATION_HEAVY, "INSTRUMENTATION-HEAVY")                                                                  \
    X(COMPUTE_BOUND, "COMPUTE-BOUND")                                                                                  \
    X(LAUNCH_BOUND, "LAUNCH-BOUND")                                                                                    \
    X(INPUT_STRAGGLER, "INPUT STRAGGLER")                                                                              \
    X(H2D_STRAGGLER, "H2D STRAGGLER")                                                                                  \
    X(COMPUTE_STRAGGLER, "COMPUTE STRAGGLER")                                                                          \
    X(STRAGGLER, "STRAGGLER")

enum tml_finding_kind {
#define TML_X(name, status) TML_FINDING_##name,
    TML_FINDING_LIST(TML_X)
#undef TML_X
        TML_FINDING_COUNT
};

/* X(NAME, json_key, word in the text), least first. */
#define TML_SEVERITY_LIST(X)                                                                                           \
    X(INFO, "info", "info")                                                                                            \
    X(WARN, "warn", "warning")                                                                                         \
    X(CRIT, "crit", "critical")

enum tml_severity {
#define TML_X(name, key, word) TML_SEVERITY_##name,
    TML_SEVERITY_LIST(TML_X)
#undef TML_X
};

const char *tml_finding_key(enum tml_finding_kind kind);
const char *tml_finding_status(enum tml_finding_kind kind);
const char *tml_severity_key(enum tml_severity severity);
const char *tml_severity_word(enum tml_severity severity);

/* Few steps: a warning needs so many, a critical finding so many. */
#define TML_WARN_STEPS 2
#define TML_CRIT_STEPS 20

#define TML_RULE_PARTS 3

/*
 * SHARE      the median over ranks of sum(signals) / sum(denominators).
 * STRAGGLER  one rank against another; the signals are the cause that the finding names, none: a cause that is not.
 * LAUNCH     the median over ranks of the share of steps in which the device waits for the host; it has no score.
 */
enum tml_rule_form { TML_RULE_SHARE, TML_RULE_STRAGGLER, TML_RULE_LAUNCH };

/* What a rule does with host brackets around device phases. */
enum tml_launch_time { TML_LAUNCH_TIME_ABSTAIN, TML_LAUNCH_TIME_WARN_AT_MOST };

struct tml_rule_sum {
    enum tml_metric part[TML_RULE_PARTS];
    unsigned parts;
};

/* Fires when its share reaches `warn` and its cost the floor. */
struct tml_rule {
    enum tml_finding_kind kind;
    enum tml_rule_form form;
    struct tml_rule_sum signal, denominator;
    double warn, crit;
    bool above;                 /* the threshold itself is not enough */
    enum tml_severity most;     /* never more severe */
    int64_t floor_ns;           /* a step */
    double others;              /* no other term of the iteration may have a larger share; 0: they do not matter */
    bool device;                /* on the GPU clock alone; it does not apply to a run without a device */
    const char *metric, *phase; /* as traceml-ai names them */
    enum tml_launch_time launch_time;
    /* The signals together are never more than this, even where copies are not observed: a bound below the threshold
     * rules the finding out. */
    struct tml_rule_sum bound;
};

#define TML_RULE_COUNT 10
extern const struct tml_rule tml_rules[TML_RULE_COUNT];

/* A part of the iteration that the late rank has more of: the three causes that have a kind of their own, then those
 * that STRAGGLER can only point at. */
struct tml_excess {
    const struct tml_rule *rule; /* whose cause it is; NULL: none has it */
    enum tml_metric metric;      /* the first of the rule's signals, or the one */
    int64_t ns;                  /* culprit - victim; TML_NS_NONE: not measured on both */
};

#define TML_STRAGGLER_EXCESSES 8

struct tml_straggler {
    int culprit, victim; /* ranks */
    struct tml_rule_sum visible;
    int64_t culprit_ns, victim_ns; /* in the visible phase; the cost is the difference */
    struct tml_excess excess[TML_STRAGGLER_EXCESSES];
    unsigned excesses;
    int named; /* index of the excess that explains the cost; -1: none does */
};

struct tml_finding {
    enum tml_finding_kind kind;
    enum tml_severity severity;
    const struct tml_rule *rule; /* NULL: no rule, the kind itself */
    char *summary, *action;
    double share, score, skew;
    int64_t cost_ns, denominator_ns; /* medians over ranks; of a straggler those of its victim */
    int rank;                        /* the worst, the culprit; -1: none in particular */
    struct tml_straggler straggler;  /* of rules of that form */
    struct tml_launch_steps launch;  /* of LAUNCH: of the rank in the middle */
};

/* A rule that could not look: the signal that it lacked, and why. */
struct tml_abstention {
    const struct tml_rule *rule;
    enum tml_metric signal;
    enum tml_reason reason;
    int phase;        /* that the reason is about, -1 */
    bool launch_time; /* the signal is there, on the host's clock of a device run */
};

struct tml_verdict {
    struct tml_finding finding[TML_RULE_COUNT + 1]; /* the first is the verdict */
    size_t findings;
    struct tml_abstention abstained[TML_RULE_COUNT];
    size_t abstentions;
    bool below_floor; /* a share that would have been a finding, had it cost enough */
};

/* False when memory is out. */
bool tml_diagnose(const struct tml_window *window, const struct tml_run_facts *facts, struct tml_verdict *verdict);
void tml_verdict_free(struct tml_verdict *verdict);

/* "forward", "data loader", ... for a sentence. */
const char *tml_phase_words(unsigned phase);
/* "64 %", "<1 %", ">999 %". `out` has TML_PERCENT_BYTES. */
#define TML_PERCENT_BYTES 16
const char *tml_percent(double share, char out[TML_PERCENT_BYTES]);
/* "H2D-BOUND (copies are not observed), INPUT-BOUND, RESIDUAL-HEAVY (forward: seen in 1 of 30 steps)" */
void tml_abstentions_say(struct tml_text *text, const struct tml_verdict *verdict, const struct tml_window *window);

/* "between steps 1.2 s, 61 % of the loop: 238 ms before each of 3 new epochs, ...": not with a count of 0. */
void tml_between_say(struct tml_text *text, const struct tml_run_facts *facts);

/* ---- Shared by the files of this noun ---- */

const struct tml_rule *tml_rule_of(enum tml_finding_kind kind);
void tml_rule_abstain(struct tml_verdict *verdict, const struct tml_rule *rule, enum tml_metric signal,
                      enum tml_reason reason, int phase, bool launch_time);
/* The rule cannot look at this window: over ranks a part of `sum` is missing or not whole, or device phases have only
 * their launch time. It has abstained then. */
bool tml_rule_lacks(const struct tml_rule *rule, const struct tml_rule_sum *sum, const struct tml_window *window,
                    struct tml_verdict *verdict);
/* Adds up what this rank measured of each part; one that occurred elsewhere, or makes no sense here, counts zero. False
 * when a part is not known. */
bool tml_rule_sum_on(const struct tml_rule_sum *sum, const struct tml_rank_window *rank, int64_t *ns);
enum tml_severity tml_rule_severity(const struct tml_rule *rule, const struct tml_window *window, double share);

void tml_judge_stragglers(const struct tml_window *window, const struct tml_run_facts *facts,
                          struct tml_verdict *verdict);

/* False when memory is out. */
bool tml_judge_launches(const struct tml_window *window, struct tml_verdict *verdict);

/* The sentences of a finding, by kind. */
bool tml_finding_say(struct tml_finding *finding, const struct tml_window *window, const struct tml_run_facts *facts,
                     const struct tml_verdict *verdict);
void tml_finding_say_straggler(struct tml_text *summary, struct tml_text *action, const struct tml_finding *finding,
                               const struct tml_window *window);
void tml_finding_say_none(struct tml_text *summary, struct tml_text *action, const struct tml_finding *finding,
                          const struct tml_window *window, const struct tml_run_facts *facts,
                          const struct tml_verdict *verdict);
/* Where much of the time lies between steps: adds that to the summary; advises on it and says true. */
void tml_between_add(struct tml_text *summary, const struct tml_window *window, const struct tml_run_facts *facts);
bool tml_between_advise(struct tml_text *action, const struct tml_window *window, const struct tml_run_facts *facts);
/* There are workers, more than one epoch was seen, and each starts them anew. */
bool tml_restarts_workers(const struct tml_run_facts *facts);
void tml_advise_persistent_workers(struct tml_text *action, const struct tml_run_facts *facts);
/* "128.0 of 200.4 ms"; "GPU clock, 275 steps" */
void tml_finding_say_of(struct tml_text *text, int64_t part_ns, int64_t whole_ns);
void tml_finding_say_steps(struct tml_text *text, const struct tml_window *window);

#endif
