/*
 * What the tests of the ledger share: the ledger that they close, spans, and that its terms add up.
 * Owner: the test file that includes it; one a program.
 * Units: ns.
 * Depends on: ledger.h, CMocka.
 */
#ifndef LEDGER_FIXTURE_H
#define LEDGER_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ledger.h"

#define PRE 0
#define IN 1

static struct tml_ledger ledger;

static inline struct tml_ledger_span span(enum traceml_phase phase, int64_t begin_ns, int64_t end_ns)
{
    return (struct tml_ledger_span){.begin_ns = begin_ns, .end_ns = end_ns, .phase = (uint8_t)phase};
}

static inline int64_t exclusive(int region, enum traceml_phase phase)
{
    return ledger.exclusive_ns[region][phase];
}

static inline void assert_closed(void)
{
    int64_t pre = ledger.pre_step_other_ns, in = ledger.residual_ns;
    for (unsigned kind = 0; kind < TML_LEDGER_KINDS; kind++) {
        pre += ledger.exclusive_ns[PRE][kind];
        in += ledger.exclusive_ns[IN][kind];
    }
    assert_int_equal(in, ledger.traced_step_ns);
    assert_int_equal(pre + in, ledger.iteration_ns);
}

#endif
