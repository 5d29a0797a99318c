/* From what single steps say about a metric to its value, availability, coverage and reason. */
#include "metric.h"

static enum tml_reason lower(enum tml_reason a, enum tml_reason b)
{
    if (a == TML_REASON_NONE || b == TML_REASON_NONE)
        return a == TML_REASON_NONE ? b : a;
    return a < b ? a : b;
}

static int lower_phase(int a, int b)
{
    if (a == 0 || b == 0)
        return a == 0 ? b : a;
    return a < b ? a : b;
}

/* Those that the value is about; where all of the run were elsewhere, these. */
static uint64_t occurrences_of(const struct tml_step_row *row, unsigned region, unsigned phase,
                               const struct tml_instruments *instruments)
{
    const struct tml_cell *cell = &row->cell[region][phase];
    return instruments->elsewhere & (1u << phase) ? cell->count : cell->count - cell->other_count;
}

static void count_occurrences(struct tml_tally *tally, const struct tml_metric_spec *spec,
                              const struct tml_step_row *row, const struct tml_instruments *instruments)
{
    for (uint32_t phases = spec->terms ? 0 : spec->pre | spec->in; phases; phases &= phases - 1)
        for (unsigned region = 0; region < TML_REGIONS; region++)
            tally->occurrences[region] += occurrences_of(row, region, (unsigned)__builtin_ctz(phases), instruments);
}

static void count_beside(struct tml_tally *tally, const struct tml_metric_spec *spec, const struct tml_step_row *row)
{
    const uint32_t looks_at[TML_REGIONS] = {spec->pre, spec->in};
    for (unsigned region = 0; region < TML_REGIONS && !spec->terms; region++)
        for (uint32_t phases = looks_at[region]; phases; phases &= phases - 1) {
            const struct tml_beside *beside = &row->beside[region][__builtin_ctz(phases)];
            if (beside->count == 0)
                continue;
            tally->beside_count += beside->count;
            tally->beside_untimed += beside->device_ns == TML_NS_NONE;
            if (beside->device_ns == TML_NS_NONE)
                continue;
            tally->beside_ns = tml_ns_add(tally->beside_ns, beside->device_ns);
            tally->beside_overlap_ns = tml_ns_add(tally->beside_overlap_ns, beside->overlap_ns);
        }
}

static struct tml_beside_mean beside_mean(const struct tml_tally *tally)
{
    bool timed = tally->beside_count > 0 && tally->beside_untimed == 0;
    return (struct tml_beside_mean){
        .count = tally->beside_count,
        .device_ns = timed ? tml_ns_mean(tally->beside_ns, tally->steps) : TML_NS_NONE,
        .overlap_ns = timed ? tml_ns_mean(tally->beside_overlap_ns, tally->steps) : TML_NS_NONE,
    };
}

/* The step's own record and the one before it give these, whatever else was lost. */
static bool needs_all_records(const struct tml_metric_spec *spec)
{
    return (spec->pre | spec->in | (spec->terms & ~(TML_BIT_ITERATION | TML_BIT_TRACED))) != 0;
}

/* Copies that nobody would have seen if they had not been bracketed; what lies before the step holds the others. */
static bool is_by_hand(const struct tml_metric_spec *spec, const struct tml_instruments *instruments)
{
    if (spec->terms == TML_BIT_OTHER)
        return instruments->cuda && !instruments->observes_copies;
    return !spec->terms && (spec->pre | spec->in) == TML_BIT_H2D && !instruments->observes_copies;
}

void tml_tally_add(struct tml_tally *tally, enum tml_metric metric, const struct tml_step_row *row,
                   const struct tml_instruments *instruments, const struct tml_sample *sample)
{
    const struct tml_metric_spec *spec = &tml_metrics[metric];
    tally->steps++;
    tally->state[sample->state]++;
    tally->sum_ns = tml_ns_add(tally->sum_ns, sample->ns);
    count_occurrences(tally, spec, row, instruments);
    count_beside(tally, spec, row);
    if (sample->state == TML_SAMPLE_MISSING) {
        tally->missing[sample->reason]++;
        tally->missing_phase[sample->reason] = lower_phase(tally->missing_phase[sample->reason], sample->phase + 1);
    }
    if (sample->state == TML_SAMPLE_OUTSIDE) {
        tally->outside_reason = lower(tally->outside_reason, sample->reason);
        tally->outside_zeros += sample->reason == TML_REASON_PRE_STEP && !tml_phase_is_required(sample->phase);
    }
    if (sample->partial) {
        tally->partial_steps++;
        tally->partial_reason = lower(tally->partial_reason, sample->reason);
    }
    if ((row->flags & TML_STEP_FLAG_PARTIAL) && sample->state == TML_SAMPLE_VALUE && needs_all_records(spec))
        tally->lossy_steps++;
    if (is_by_hand(spec, instruments) && sample->state <= TML_SAMPLE_ABSENT)
        tally->by_hand = true;
}

void tml_tally_merge(struct tml_tally *tally, const struct tml_tally *more)
{
    tally->steps += more->steps;
    for (unsigned i = 0; i <= TML_SAMPLE_MISSING; i++)
        tally->state[i] += more->state[i];
    for (unsigned i = 0; i < TML_REASON_COUNT; i++) {
        tally->missing[i] += more->missing[i];
        tally->missing_phase[i] = lower_phase(tally->missing_phase[i], more->missing_phase[i]);
    }
    tally->partial_steps += more->partial_steps;
    tally->lossy_steps += more->lossy_steps;
    tally->outside_zeros += more->outside_zeros;
    tally->sum_ns = tml_ns_add(tally->sum_ns, more->sum_ns);
    tally->outside_reason = lower(tally->outside_reason, more->outside_reason);
    tally->partial_reason = lower(tally->partial_reason, more->partial_reason);
    for (unsigned region = 0; region < TML_REGIONS; region++)
        tally->occurrences[region] += more->occurrences[region];
    tally->beside_count += more->beside_count;
    tally->beside_ns = tml_ns_add(tally->beside_ns, more->beside_ns);
    tally->beside_overlap_ns = tml_ns_add(tally->beside_overlap_ns, more->beside_overlap_ns);
    tally->beside_untimed += more->beside_untimed;
    tally->by_hand = tally->by_hand || more->by_hand;
}

/* The most frequent reason for a hole; of equally frequent ones the first in the list of reasons. */
static void blame(struct tml_metric_status *status, const struct tml_tally *tally)
{
    uint64_t most = 0;
    for (unsigned reason = 0; reason < TML_REASON_COUNT; reason++) {
        uint64_t steps = tally->missing[reason] + (reason == TML_REASON_RECORDS_LOST ? tally->lossy_steps : 0);
        if (steps <= most)
            continue;
        most = steps;
        status->reason = (enum tml_reason)reason;
        status->phase = tally->missing_phase[reason] - 1;
    }
    if (tally->state[TML_SAMPLE_NOT_APPLICABLE] > most)
        status->reason = TML_REASON_NO_CUDA;
}

static void unavailable(struct tml_metric_status *status, const struct tml_tally *tally)
{
    status->availability = TML_UNAVAILABLE;
    status->coverage = TML_COVERAGE_UNKNOWN;
    status->value_ns = TML_NS_NONE;
    blame(status, tally);
}

/* The instrument was whole; how much of it lies where the metric looks? */
static void cover(struct tml_metric_status *status, const struct tml_tally *tally)
{
    uint64_t holes = tally->state[TML_SAMPLE_MISSING] + tally->state[TML_SAMPLE_NOT_APPLICABLE];
    if (holes > 0) {
        status->coverage = TML_COVERAGE_PARTIAL;
        blame(status, tally);
    } else if (tally->state[TML_SAMPLE_OUTSIDE] > 0 || tally->partial_steps > 0) {
        status->coverage = TML_COVERAGE_PARTIAL;
        status->reason = lower(tally->outside_reason, tally->partial_reason);
    } else if (tally->by_hand) {
        status->coverage = TML_COVERAGE_UNKNOWN; /* others may have been copied that nobody bracketed */
        status->reason = TML_REASON_OBSERVER_MISSING;
    } else {
        status->coverage = TML_COVERAGE_IN_WINDOW;
        status->reason = tally->state[TML_SAMPLE_VALUE] == 0 ? TML_REASON_NEVER_OBSERVED : TML_REASON_NONE;
    }
}

struct tml_metric_status tml_tally_status(const struct tml_tally *tally)
{
    bool elsewhere = tally->state[TML_SAMPLE_VALUE] == 0 && tally->state[TML_SAMPLE_OUTSIDE] > 0;
    uint64_t seen = elsewhere ? 0 : tally->state[TML_SAMPLE_VALUE] + tally->state[TML_SAMPLE_ABSENT];
    if (seen > 0) /* what lies elsewhere in one step is zero here, as the ledger has it */
        seen += tally->outside_zeros;
    uint64_t never = tally->missing[TML_REASON_NEVER_OBSERVED];
    uint64_t broken =
        tally->state[TML_SAMPLE_MISSING] + tally->state[TML_SAMPLE_NOT_APPLICABLE] - never + tally->lossy_steps;
    struct tml_metric_status status = {
        .value_ns = TML_NS_NONE,
        .phase = -1,
        .coverage = TML_COVERAGE_UNKNOWN,
        .steps_observed = seen,
        .steps_expected = tally->steps,
        .occurrences = {tally->occurrences[TML_REGION_PRE], tally->occurrences[TML_REGION_IN]},
        .beside = beside_mean(tally),
    };
    if (tally->steps == 0) {
        status.availability = TML_UNAVAILABLE;
        status.reason = TML_REASON_NO_STEPS;
    } else if (tally->state[TML_SAMPLE_NOT_APPLICABLE] == tally->steps) {
        status.availability = TML_NOT_APPLICABLE;
        status.reason = TML_REASON_NO_CUDA;
    } else if (!tml_metric_enough(tally->steps - broken, tally->steps) ||
               (seen == 0 && tally->state[TML_SAMPLE_OUTSIDE] == 0)) {
        unavailable(&status, tally);
    } else if (tally->by_hand && tally->state[TML_SAMPLE_VALUE] == 0) { /* bracketed elsewhere: that is no zero here */
        status.availability = TML_UNAVAILABLE;
        status.reason = TML_REASON_OBSERVER_MISSING;
    } else if (seen == 0) {
        status.coverage = TML_COVERAGE_OUTSIDE_WINDOW;
        status.reason = tally->outside_reason;
    } else {
        status.value_ns = tml_ns_mean(tally->sum_ns, seen);
        cover(&status, tally);
    }
    return status;
}
