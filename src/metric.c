#include "metric.h"

#include <string.h>

const struct tml_metric_spec tml_metrics[TML_METRIC_COUNT] = {
#define TML_X(name, key, words, unit, clock, terms, pre, in, needs, form)                                              \
    {key, words, unit, TML_METRIC_##clock, terms, pre, in, needs, TML_METRIC_##form},
    TML_METRIC_LIST(TML_X)
#undef TML_X
};

static const char *const availability_keys[] = {
#define TML_X(name, key) key,
    TML_AVAILABILITY_LIST(TML_X)
#undef TML_X
};

static const char *const coverage_keys[] = {
#define TML_X(name, key) key,
    TML_COVERAGE_LIST(TML_X)
#undef TML_X
};

/* Phases that every step has: one without them lost its instrumentation. */
#define REQUIRED (TML_BIT_FORWARD | TML_BIT_BACKWARD)

/* The GPU's ledger closes without them when they run beside the step's stream. */
#define NOT_NEEDED_ON_GPU (TML_BIT_H2D | TML_OCCASIONAL_PHASES)

const char *tml_availability_key(enum tml_availability availability)
{
    return availability_keys[availability];
}

const char *tml_coverage_key(enum tml_coverage coverage)
{
    return coverage_keys[coverage];
}

bool tml_phase_is_required(int phase)
{
    return phase >= 0 && (REQUIRED & (1u << phase));
}

bool tml_metric_enough(uint64_t whole, uint64_t all)
{
    return all > 0 && whole >= all - all / 20;
}

bool tml_metric_usable(const struct tml_metric_status *status)
{
    return status->availability == TML_AVAILABLE && status->value_ns != TML_NS_NONE &&
           tml_metric_enough(status->steps_observed, status->steps_expected);
}

struct tml_instruments tml_instruments_of(const struct tml_rank_run *rank)
{
    return (struct tml_instruments){
        .armed = tml_rank_armed(rank),
        .seen = tml_rank_seen(rank),
        .elsewhere = tml_rank_elsewhere(rank),
        .cuda = tml_rank_on_cuda(rank),
        .observes_copies = tml_rank_observes_copies(rank),
    };
}

/* ---- One part of one step ---- */

static struct tml_sample sample(enum tml_sample_state state, enum tml_reason reason, int phase)
{
    return (struct tml_sample){.state = state, .reason = reason, .phase = phase};
}

static struct tml_sample value(int64_t ns)
{
    return (struct tml_sample){.state = TML_SAMPLE_VALUE, .ns = ns, .phase = -1};
}

/* Why a device time is not there. A run on the CPU has none by nature. */
static struct tml_sample no_device_time(const struct tml_step_row *row, const struct tml_instruments *instruments,
                                        int phase)
{
    if (!instruments->cuda)
        return sample(TML_SAMPLE_NOT_APPLICABLE, TML_REASON_NO_CUDA, -1);
    bool known = !row->gpu_complete && row->gpu_reason != TML_REASON_NONE;
    return sample(TML_SAMPLE_MISSING, known ? row->gpu_reason : TML_REASON_EVENTS_LOST, phase);
}

static struct tml_sample term_sample(const struct tml_step_row *row, enum tml_clock clock, unsigned term,
                                     const struct tml_instruments *instruments)
{
    int64_t ns = row->term_ns[clock][term];
    if (ns != TML_NS_NONE)
        return value(ns);
    if (row->flags & TML_STEP_FLAG_FIRST)
        return sample(TML_SAMPLE_MISSING, TML_REASON_FIRST_ITERATION, -1);
    if (clock == TML_CLOCK_GPU)
        return no_device_time(row, instruments, -1);
    return sample(TML_SAMPLE_MISSING, TML_REASON_RECORDS_LOST, -1);
}

/* A copy that nobody bracketed is unseen unless the calls themselves are watched: then there was none. */
static bool watched(unsigned phase, const struct tml_instruments *instruments)
{
    uint32_t bit = 1u << phase;
    if (phase == TRACEML_PHASE_H2D)
        return instruments->observes_copies || (instruments->seen & bit);
    return (instruments->armed | instruments->seen) & bit;
}

static struct tml_sample unwatched(unsigned phase, const struct tml_instruments *instruments)
{
    if (phase == TRACEML_PHASE_H2D && !instruments->cuda)
        return sample(TML_SAMPLE_NOT_APPLICABLE, TML_REASON_NO_CUDA, (int)phase);
    enum tml_reason reason = phase == TRACEML_PHASE_H2D              ? TML_REASON_OBSERVER_MISSING
                             : TML_OCCASIONAL_PHASES & (1u << phase) ? TML_REASON_NO_SPAN
                                                                     : TML_REASON_HOOK_NOT_INSTALLED;
    return sample(TML_SAMPLE_MISSING, reason, (int)phase);
}

/* Copies may have run that nobody saw, whatever was bracketed by hand. */
static bool has_unseen_copies(unsigned phase, const struct tml_instruments *instruments)
{
    return phase == TRACEML_PHASE_H2D && instruments->cuda && !instruments->observes_copies;
}

/* The phase did not occur in this region of this step. `whole`: occurrences before the step count as "elsewhere". */
static struct tml_sample absent(const struct tml_step_row *row, unsigned phase, bool whole,
                                const struct tml_instruments *instruments)
{
    if (whole && row->cell[TML_REGION_PRE][phase].count > 0 && !has_unseen_copies(phase, instruments))
        return sample(TML_SAMPLE_OUTSIDE, TML_REASON_PRE_STEP, (int)phase);
    if (phase == TRACEML_PHASE_OPTIMIZER && (row->flags & TML_STEP_FLAG_OPTIMIZER_SKIPPED))
        return sample(TML_SAMPLE_OUTSIDE, TML_REASON_SCALER_SKIPPED, (int)phase);
    if (instruments->elsewhere & (1u << phase))
        return sample(TML_SAMPLE_OUTSIDE, TML_REASON_OTHER_THREAD, (int)phase);
    if (!watched(phase, instruments))
        return unwatched(phase, instruments);
    if (row->flags & TML_STEP_FLAG_PARTIAL) /* it may be among what was lost: no zero */
        return sample(TML_SAMPLE_MISSING, TML_REASON_RECORDS_LOST, (int)phase);
    if (REQUIRED & (1u << phase))
        return sample(TML_SAMPLE_MISSING, TML_REASON_NEVER_OBSERVED, (int)phase);
    return sample(TML_SAMPLE_ABSENT, TML_REASON_NONE, (int)phase);
}

/* Fetches of a producer thread, beside a step's thread that fetches too: what it waits for is measured there. */
static bool is_nobody_s(unsigned phase, const struct tml_cell *cell, const struct tml_instruments *instruments)
{
    return phase == TRACEML_PHASE_DATALOADER_FETCH && cell->other_count >= cell->count &&
           !(instruments->elsewhere & (1u << phase));
}

static struct tml_sample cell_sample(const struct tml_step_row *row, enum tml_clock clock, enum tml_region region,
                                     unsigned phase, enum tml_metric_form form,
                                     const struct tml_instruments *instruments)
{
    const struct tml_cell *cell = &row->cell[region][phase];
    bool whole = region == TML_REGION_IN && form != TML_METRIC_EXCLUSIVE;
    if (cell->count == 0 || is_nobody_s(phase, cell, instruments))
        return absent(row, phase, whole, instruments);
    int64_t ns = form == TML_METRIC_INCLUSIVE ? cell->inclusive_ns[clock] : cell->exclusive_ns[clock];
    if (ns == TML_NS_NONE && cell->other_count >= cell->count)
        return sample(TML_SAMPLE_OUTSIDE, TML_REASON_OTHER_THREAD, (int)phase);
    bool beside = clock == TML_CLOCK_GPU && row->beside[region][phase].count > 0;
    if (ns == TML_NS_NONE && beside && (NOT_NEEDED_ON_GPU & (1u << phase)))
        return sample(TML_SAMPLE_OUTSIDE, TML_REASON_OTHER_STREAM, (int)phase);
    if (ns == TML_NS_NONE && clock == TML_CLOCK_GPU)
        return no_device_time(row, instruments, (int)phase);
    if (ns == TML_NS_NONE)
        return sample(TML_SAMPLE_MISSING, TML_REASON_RECORDS_LOST, (int)phase);
    struct tml_sample found = value(ns);
    bool before = whole && row->cell[TML_REGION_PRE][phase].count > 0;
    found.partial = before || beside;
    found.reason = before ? TML_REASON_PRE_STEP : beside ? TML_REASON_OTHER_STREAM : TML_REASON_NONE;
    return found;
}

/* ---- One metric of one step ---- */

/* The strongest state wins where parts differ: a part that is not known spoils a sum, one that lies elsewhere or makes
 * no sense counts zero in it. */
static void join(struct tml_sample *sum, const struct tml_sample *part, bool *first)
{
    struct tml_sample before = *sum;
    if (*first || part->state == TML_SAMPLE_MISSING) {
        if (*first || before.state != TML_SAMPLE_MISSING)
            *sum = *part;
        *first = false;
        return;
    }
    if (before.state == TML_SAMPLE_MISSING)
        return;
    bool elsewhere = (before.state == TML_SAMPLE_OUTSIDE) != (part->state == TML_SAMPLE_OUTSIDE);
    enum tml_reason reason = before.reason ? before.reason : part->reason;
    if (part->state < before.state)
        *sum = *part;
    sum->ns = before.ns + part->ns;
    sum->partial = before.partial || part->partial || elsewhere;
    sum->reason = reason;
}

static uint32_t bit_take(uint32_t *set)
{
    uint32_t index = (uint32_t)__builtin_ctz(*set);
    *set &= *set - 1;
    return index;
}

static void join_cells(struct tml_sample *sum, bool *first, uint32_t phases, const struct tml_step_row *row,
                       enum tml_clock clock, enum tml_region region, enum tml_metric_form form,
                       const struct tml_instruments *instruments)
{
    while (phases) {
        struct tml_sample part = cell_sample(row, clock, region, bit_take(&phases), form, instruments);
        join(sum, &part, first);
    }
}

/* A remainder is known only when everything that is taken out of it is: a copy that nobody bracketed would be in it. */
static void require(struct tml_sample *sum, uint32_t needs, const struct tml_step_row *row, enum tml_clock clock,
                    const struct tml_instruments *instruments)
{
    while (needs && sum->state != TML_SAMPLE_MISSING) {
        uint32_t phase = bit_take(&needs);
        struct tml_sample part = cell_sample(row, clock, TML_REGION_IN, phase, TML_METRIC_WHOLE, instruments);
        if (part.state == TML_SAMPLE_ABSENT && has_unseen_copies(phase, instruments))
            part = sample(TML_SAMPLE_MISSING, TML_REASON_OBSERVER_MISSING, (int)phase);
        if (part.state == TML_SAMPLE_MISSING)
            *sum = part;
    }
}

static struct tml_sample lead_sample(const struct tml_step_row *row, const struct tml_instruments *instruments)
{
    const struct tml_device_lead *lead = &row->lead;
    if (lead->ns[TML_BOUNDARY_FORWARD_END] != TML_NS_NONE)
        return value(lead->ns[TML_BOUNDARY_FORWARD_END]);
    if (lead->reason != TML_REASON_NONE)
        return sample(TML_SAMPLE_MISSING, lead->reason, -1);
    if (lead->error_ns != TML_NS_NONE && row->cell[TML_REGION_IN][TRACEML_PHASE_FORWARD].count == 0)
        return sample(TML_SAMPLE_MISSING, TML_REASON_NEVER_OBSERVED, TRACEML_PHASE_FORWARD);
    if (row->gpu_complete)
        return sample(TML_SAMPLE_MISSING, TML_REASON_NO_CLOCK_TIE, -1);
    return no_device_time(row, instruments, -1);
}

struct tml_sample tml_metric_sample(enum tml_metric metric, const struct tml_step_row *row, enum tml_clock selected,
                                    const struct tml_instruments *instruments)
{
    const struct tml_metric_spec *spec = &tml_metrics[metric];
    if (spec->form == TML_METRIC_LEAD)
        return lead_sample(row, instruments);
    enum tml_clock clock = selected;
    if (spec->clock != TML_METRIC_SELECTED)
        clock = spec->clock == TML_METRIC_GPU ? TML_CLOCK_GPU : TML_CLOCK_CPU;
    struct tml_sample sum = sample(TML_SAMPLE_MISSING, TML_REASON_NONE, -1);
    bool first = true;
    for (uint32_t terms = spec->terms; terms;) {
        struct tml_sample part = term_sample(row, clock, bit_take(&terms), instruments);
        join(&sum, &part, &first);
    }
    join_cells(&sum, &first, spec->pre, row, clock, TML_REGION_PRE, spec->form, instruments);
    join_cells(&sum, &first, spec->in, row, clock, TML_REGION_IN, spec->form, instruments);
    require(&sum, spec->needs, row, clock, instruments);
    if ((row->flags & TML_STEP_FLAG_PARTIAL) && sum.state <= TML_SAMPLE_ABSENT && !sum.partial) {
        sum.partial = true;
        sum.reason = TML_REASON_RECORDS_LOST;
    }
    if (sum.state > TML_SAMPLE_ABSENT)
        sum.ns = 0;
    return sum;
}

bool tml_row_cpu_complete(const struct tml_step_row *row)
{
    for (unsigned phase = 0; phase < TRACEML_PHASE_COUNT; phase++)
        if ((REQUIRED & (1u << phase)) && row->cell[TML_REGION_IN][phase].exclusive_ns[TML_CLOCK_CPU] == TML_NS_NONE)
            return false;
    return row->term_ns[TML_CLOCK_CPU][TML_TERM_TRACED_STEP] != TML_NS_NONE;
}
