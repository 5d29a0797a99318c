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

/* X(KIND, status as people read it). The JSON kind is the name. */
#define TML_FINDING_LIST(X)                                                                                            \
    X(NO_DATA, "NO DATA")                                                                                              \
    X(WARMUP, "WARMUP")                                                                                                \
    X(INCOMPLETE_DATA, "INCOMPLETE DATA")                                                                              \
    X(BALANCED, "BALANCED")                                                                                            \
    X(INPUT_BOUND, "INPUT-BOUND")                                                                                      \
    X(RESIDUAL_HEAVY, "RESIDUAL-HEAVY")

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

#define TML_RULE_SIGNALS 2

/* What a rule does with host brackets around device phases. */
enum tml_launch_time { TML_LAUNCH_TIME_ABSTAIN, TML_LAUNCH_TIME_WARN_AT_MOST };

/* Fires when the median over ranks of sum(signals) / denominator reaches `warn` and the cost reaches the floor. */
struct tml_rule {
    enum tml_finding_kind kind;
    enum tml_metric signal[TML_RULE_SIGNALS];
    unsigned signals;
    enum tml_metric denominator;
    double warn, crit;
    int64_t floor_ns; /* a step */
    enum tml_launch_time launch_time;
    const char *metric, *phase; /* as traceml-ai names them */
    /* The signals together are never more than this, even where copies are not observed: a bound below the threshold
     * rules the finding out. TML_METRIC_COUNT: no such bound. */
    enum tml_metric bound;
};

#define TML_RULE_COUNT 2
extern const struct tml_rule tml_rules[TML_RULE_COUNT];

struct tml_finding {
    enum tml_finding_kind kind;
    enum tml_severity severity;
    const struct tml_rule *rule; /* NULL: no rule, the kind itself */
    char *summary, *action;
    double share, score, skew;
    int64_t cost_ns, denominator_ns; /* medians over ranks */
    int rank;                        /* the worst; -1: none in particular */
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
};

/* False when memory is out. */
bool tml_diagnose(const struct tml_window *window, const struct tml_run_facts *facts, struct tml_verdict *verdict);
void tml_verdict_free(struct tml_verdict *verdict);

/* "forward", "data loader", ... for a sentence. */
const char *tml_phase_words(unsigned phase);
/* "64 %", "<1 %", ">999 %". `out` has TML_PERCENT_BYTES. */
#define TML_PERCENT_BYTES 16
const char *tml_percent(double share, char out[TML_PERCENT_BYTES]);
/* Why a rule abstained: "forward: seen in 1 of 30 steps". */
void tml_abstention_say(struct tml_text *text, const struct tml_abstention *abstention,
                        const struct tml_window *window);

/* ---- Shared by diagnosis.c and diagnosis_words.c: the sentences of a finding ---- */
bool tml_finding_say(struct tml_finding *finding, const struct tml_window *window, const struct tml_run_facts *facts,
                     const struct tml_verdict *verdict);

#endif
