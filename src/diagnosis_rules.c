/* The one table of rules, and the words of findings and severities. */
#include "diagnosis.h"

static const struct {
    const char *key, *status;
} kinds[] = {
#define TML_X(name, status) {#name, status},
    TML_FINDING_LIST(TML_X)
#undef TML_X
};

static const struct {
    const char *key, *word;
} severities[] = {
#define TML_X(name, key, word) {key, word},
    TML_SEVERITY_LIST(TML_X)
#undef TML_X
};

const char *tml_finding_key(enum tml_finding_kind kind)
{
    return kinds[kind].key;
}

const char *tml_finding_status(enum tml_finding_kind kind)
{
    return kinds[kind].status;
}

const char *tml_severity_key(enum tml_severity severity)
{
    return severities[severity].key;
}

const char *tml_severity_word(enum tml_severity severity)
{
    return severities[severity].word;
}

#define SUM1(a)                                                                                                        \
    {                                                                                                                  \
        .part = {TML_METRIC_##a}, .parts = 1                                                                           \
    }
#define SUM2(a, b)                                                                                                     \
    {                                                                                                                  \
        .part = {TML_METRIC_##a, TML_METRIC_##b}, .parts = 2                                                           \
    }
#define SUM3(a, b, c)                                                                                                  \
    {                                                                                                                  \
        .part = {TML_METRIC_##a, TML_METRIC_##b, TML_METRIC_##c}, .parts = 3                                           \
    }
#define WARN_CRIT .warn = 0.10, .crit = 0.20, .most = TML_SEVERITY_CRIT, .floor_ns = TML_NS_PER_MS
#define STRAGGLER .form = TML_RULE_STRAGGLER, WARN_CRIT, .denominator = SUM1(STEP_TIME)

/* docs/diagnosis.md says why. Thresholds are those of traceml-ai; the floor keeps a toy step from shouting. */
const struct tml_rule tml_rules[TML_RULE_COUNT] = {
    {
        .kind = TML_FINDING_INPUT_BOUND,
        .signal = SUM2(INPUT_WAIT, IN_STEP_INPUT_WAIT),
        .denominator = SUM1(STEP_TIME),
        WARN_CRIT,
        .launch_time = TML_LAUNCH_TIME_WARN_AT_MOST,
        .metric = "input_wait",
        .phase = "input",
    },
    {
        .kind = TML_FINDING_H2D_BOUND,
        .signal = SUM2(H2D, PRE_STEP_H2D),
        .denominator = SUM2(STEP_TIME, PRE_STEP_H2D),
        WARN_CRIT,
        .device = true,
        .metric = "h2d",
        .phase = "h2d",
    },
    {
        .kind = TML_FINDING_RESIDUAL_HEAVY,
        .signal = SUM1(RESIDUAL),
        .denominator = SUM1(STEP_TIME),
        WARN_CRIT,
        .metric = "residual_proxy",
        .phase = "residual",
        .bound = SUM1(UNATTRIBUTED),
    },
    {
        .kind = TML_FINDING_INSTRUMENTATION_HEAVY,
        .signal = SUM2(INSTRUMENTATION, PRE_STEP_INSTRUMENTATION),
        .denominator = SUM1(STEP_TIME),
        .warn = 0.02,
        .crit = 0.10,
        .above = true,
        .most = TML_SEVERITY_CRIT,
        .metric = "instrumentation",
        .phase = "instrumentation",
    },
    {
        .kind = TML_FINDING_COMPUTE_BOUND,
        .signal = SUM3(FORWARD, BACKWARD, OPTIMIZER),
        .denominator = SUM1(STEP_TIME),
        .warn = 0.90,
        .most = TML_SEVERITY_INFO,
        .floor_ns = TML_NS_PER_MS,
        .others = 0.10,
        .metric = "compute",
        .phase = "compute",
    },
    {
        .kind = TML_FINDING_LAUNCH_BOUND,
        .form = TML_RULE_LAUNCH,
        .signal = SUM1(DEVICE_LEAD),
        .warn = 0.80,
        .most = TML_SEVERITY_WARN,
        .device = true,
        .metric = "device_lead",
        .phase = "launch",
    },
    {
        .kind = TML_FINDING_INPUT_STRAGGLER,
        .signal = SUM2(INPUT_WAIT, IN_STEP_INPUT_WAIT),
        STRAGGLER,
        .metric = "input_wait",
        .phase = "input",
    },
    {
        .kind = TML_FINDING_H2D_STRAGGLER,
        .signal = SUM2(H2D, PRE_STEP_H2D),
        STRAGGLER,
        .device = true,
        .metric = "h2d",
        .phase = "h2d",
    },
    {
        .kind = TML_FINDING_COMPUTE_STRAGGLER,
        .signal = SUM2(FORWARD, OPTIMIZER),
        STRAGGLER,
        .metric = "compute",
        .phase = "compute",
    },
    {
        .kind = TML_FINDING_STRAGGLER,
        STRAGGLER,
        .metric = "backward",
        .phase = "sync",
    },
};

const struct tml_rule *tml_rule_of(enum tml_finding_kind kind)
{
    for (unsigned i = 0; i < TML_RULE_COUNT; i++)
        if (tml_rules[i].kind == kind)
            return &tml_rules[i];
    return NULL;
}
