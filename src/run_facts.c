#include "run_facts.h"

#include <math.h>
#include <string.h>

#include "process.h"

#define WORLD_LIMIT 1000000
#define WRITTEN_WITHIN_MS 1000 /* of files that do not say it */

const struct tml_json *tml_rank_header(const struct tml_rank_run *rank, const char *key)
{
    return tml_json_get(tml_json_get(rank->header, "header"), key);
}

static const struct tml_json *end_of(const struct tml_rank_run *rank, const char *key)
{
    return tml_json_get(tml_json_get(rank->end, "end"), key);
}

const struct tml_json *tml_rank_latest(const struct tml_rank_run *rank, const char *key)
{
    const struct tml_json *value = end_of(rank, key);
    return value ? value : tml_json_get(tml_json_get(rank->state, "state"), key);
}

static int64_t whole_number(const struct tml_json *value)
{
    uint64_t number;
    return tml_json_uint(value, &number) ? (int64_t)number : -1;
}

static int yes_or_no(const struct tml_json *value)
{
    bool yes;
    return tml_json_bool(value, &yes) ? yes : -1;
}

static double seconds(const struct tml_json *value)
{
    double number;
    return tml_json_number(value, &number) && number >= 0 ? number : NAN;
}

/* ---- Names ---- */

/* From the first rank whose header says it, else from the manifest. */
static const char *named(const struct tml_run *run, const char *key)
{
    for (size_t i = 0; i < run->rank_count; i++)
        if (tml_json_string(tml_rank_header(&run->ranks[i], key)))
            return tml_json_string(tml_rank_header(&run->ranks[i], key));
    return tml_json_string(tml_json_get(run->manifest, key));
}

/* ---- Ranks and nodes ---- */

static void gather_ranks(const struct tml_run *run, struct tml_run_facts *facts)
{
    facts->world_size = 1;
    uint64_t size;
    if (tml_json_uint(tml_json_get(run->manifest, "world_size"), &size) && size > facts->world_size)
        facts->world_size = size;
    for (size_t i = 0; i < run->rank_count; i++) {
        const struct tml_rank_run *rank = &run->ranks[i];
        if (tml_json_uint(tml_rank_header(rank, "world_size"), &size) && size > facts->world_size)
            facts->world_size = size;
        if (rank->rank >= facts->world_size)
            facts->world_size = rank->rank + 1;
        facts->ranks_seen += rank->totals.completed > 0;
        facts->nodes = rank->node + 1 > facts->nodes ? rank->node + 1 : facts->nodes;
        facts->gpus += tml_rank_on_cuda(rank);
        if (!facts->gpu_name)
            facts->gpu_name = tml_json_string(tml_rank_header(rank, "gpu_name"));
        if (rank->attempts > facts->restarts + 1)
            facts->restarts = rank->attempts - 1;
    }
    facts->ranks_used = run->rank_count;
    if (facts->world_size > WORLD_LIMIT)
        facts->world_size = WORLD_LIMIT; /* a made-up file must not cost a loop over it */
}

static void gather_missing(const struct tml_run *run, struct tml_run_facts *facts)
{
    size_t at = 0;
    for (unsigned rank = 0; rank < facts->world_size; rank++) {
        while (at < run->rank_count && run->ranks[at].rank < rank)
            at++;
        bool there = at < run->rank_count && run->ranks[at].rank == rank && run->ranks[at].totals.completed > 0;
        if (there)
            continue;
        if (facts->missing_count < TML_MISSING_LISTED)
            facts->missing[facts->missing_count] = rank;
        facts->missing_count++;
    }
}

/* ---- End ---- */

/* The first rank that did not finish tells why; one without an end line leaves it open. */
static const char *end_by_lines(const struct tml_run *run)
{
    const char *reason = NULL;
    for (size_t i = 0; i < run->rank_count; i++) {
        const char *its = tml_json_string(end_of(&run->ranks[i], "reason"));
        if (its && strcmp(its, "finished") != 0)
            return its;
        if (!its || (i > 0 && !reason))
            reason = NULL;
        else
            reason = its;
    }
    return reason ? reason : "unknown";
}

/* On another machine it may live: nobody here can tell. */
static bool is_alive(const struct tml_rank_run *rank)
{
    char here[TML_PROCESS_HOST_BYTES];
    const char *host = tml_json_string(tml_rank_header(rank, "host"));
    uint64_t pid, ticks;
    tml_process_host(here);
    return host && strcmp(host, here) == 0 && tml_json_uint(tml_rank_header(rank, "pid"), &pid) &&
           tml_json_uint(tml_rank_header(rank, "pid_start_ticks"), &ticks) && ticks != 0 &&
           tml_process_start_ticks(pid) == ticks;
}

static void gather_unclosed(const struct tml_run *run, struct tml_run_facts *facts)
{
    for (size_t i = 0; i < run->rank_count; i++) {
        const struct tml_rank_run *rank = &run->ranks[i];
        if (rank->end)
            continue;
        int64_t within_ms = whole_number(tml_rank_header(rank, "written_within_ms"));
        if (within_ms < 0)
            within_ms = WRITTEN_WITHIN_MS;
        if (facts->ranks_unclosed++ == 0)
            facts->unclosed_rank = rank->rank;
        if (within_ms > facts->written_within_ms)
            facts->written_within_ms = within_ms;
        facts->running = facts->running || is_alive(rank);
    }
}

static void gather_end(const struct tml_run *run, const char *end_reason, struct tml_run_facts *facts)
{
    const char *manifest = tml_json_string(tml_json_get(run->manifest, "end_reason"));
    facts->end_reason = end_reason ? end_reason : manifest ? manifest : end_by_lines(run);
    bool finished = run->rank_count == facts->world_size && strcmp(facts->end_reason, "finished") == 0;
    for (size_t i = 0; finished && i < run->rank_count; i++) {
        const char *its = tml_json_string(end_of(&run->ranks[i], "reason"));
        finished = its && strcmp(its, "finished") == 0;
    }
    facts->complete = finished;
}

/* ---- Environment ---- */

static const struct tml_json *environment_of(const struct tml_run *run)
{
    for (size_t i = 0; i < run->rank_count; i++) {
        const struct tml_json *late = end_of(&run->ranks[i], "environment");
        const struct tml_json *early = tml_rank_header(&run->ranks[i], "environment");
        if (tml_json_first(late) || tml_json_first(early))
            return tml_json_first(late) ? late : early;
    }
    return NULL;
}

static void gather_environment(const struct tml_run *run, struct tml_run_facts *facts)
{
    const struct tml_json *environment = environment_of(run);
    const struct tml_json *loader = tml_json_get(environment, "loader");
    const struct tml_json *workers = tml_json_get(loader, "workers");
    facts->environment = environment;
    facts->loader = (struct tml_loader_facts){
        .workers = whole_number(workers ? workers : tml_json_get(loader, "num_workers")),
        .prefetch_factor = whole_number(tml_json_get(loader, "prefetch_factor")),
        .batch_size = whole_number(tml_json_get(loader, "batch_size")),
        .pin_memory = yes_or_no(tml_json_get(loader, "pin_memory")),
        .persistent_workers = yes_or_no(tml_json_get(loader, "persistent_workers")),
    };
    facts->strategy = tml_json_string(tml_json_get(environment, "strategy"));
    facts->python = tml_json_string(tml_json_get(environment, "python"));
    facts->cores = whole_number(tml_json_get(environment, "host_cores"));
    for (size_t i = 0; facts->cores < 0 && i < run->rank_count; i++)
        facts->cores = whole_number(tml_rank_header(&run->ranks[i], "cores"));
}

/* ---- Denominators ---- */

static void larger(int64_t *most, int64_t value)
{
    if (value != TML_NS_NONE && (*most == TML_NS_NONE || value > *most))
        *most = value;
}

static void larger_s(double *most, double value)
{
    if (!isnan(value) && (isnan(*most) || value > *most))
        *most = value;
}

static int64_t phase_sum(const struct tml_rank_run *rank, unsigned phase, enum tml_clock clock)
{
    return tml_ns_add(tml_step_fold_cell(rank->totals.sums, TML_REGION_PRE, phase, clock, false)->sum_ns,
                      tml_step_fold_cell(rank->totals.sums, TML_REGION_IN, phase, clock, false)->sum_ns);
}

/* Null where nobody watched the phase: then its time is not known to be zero. */
static int64_t watched_sum(const struct tml_rank_run *rank, unsigned phase)
{
    bool watched = (tml_rank_armed(rank) | tml_rank_seen(rank)) & (1u << phase);
    return watched && rank->totals.completed > 0 ? phase_sum(rank, phase, TML_CLOCK_CPU) : TML_NS_NONE;
}

/* Input wait and traced step over all steps. Null where a clock lacks others than warm-up steps: the first one has no
 * device-visible wait. */
static int64_t step_total(const struct tml_rank_run *rank, enum tml_clock clock)
{
    const struct tml_sketch *traced = tml_step_fold_term(rank->totals.sums, clock, TML_TERM_TRACED_STEP);
    if (traced->count == 0 || traced->count + rank->warmup.steps < rank->totals.completed)
        return TML_NS_NONE;
    const struct tml_sketch *fetch =
        tml_step_fold_cell(rank->totals.sums, TML_REGION_PRE, TRACEML_PHASE_DATALOADER_FETCH, clock, false);
    return tml_ns_add(traced->sum_ns, fetch->sum_ns);
}

/* The loop begins where the first batch is asked for: the wait for it is one of the steps' waits, too. */
static int64_t training_loop(const struct tml_rank_run *rank)
{
    if (rank->totals.last_end_ns == 0)
        return TML_NS_NONE;
    int64_t fetch_ns = TML_NS_NONE, steps_ns = step_total(rank, TML_CLOCK_CPU);
    if (rank->warmup.has_first)
        fetch_ns = rank->warmup.first.cell[TML_REGION_PRE][TRACEML_PHASE_DATALOADER_FETCH].exclusive_ns[TML_CLOCK_CPU];
    int64_t loop_ns = tml_ns_add(rank->totals.last_end_ns, fetch_ns == TML_NS_NONE ? 0 : fetch_ns);
    return steps_ns > loop_ns ? steps_ns : loop_ns; /* the first row may have been folded, its fetch with it */
}

static void gather_between(const struct tml_rank_run *rank, struct tml_run_facts *facts)
{
    const struct tml_between *its = &rank->totals.sums->between;
    int64_t loop_ns = training_loop(rank);
    bool watched = (tml_rank_armed(rank) | tml_rank_seen(rank)) & (1u << TRACEML_PHASE_DATALOADER_FETCH);
    if (!watched || loop_ns == TML_NS_NONE)
        return;
    double share = (double)its->total_ns / (double)loop_ns;
    if (!isnan(facts->between_share) && share <= facts->between_share)
        return;
    facts->between = *its;
    facts->between_share = share;
}

static void gather_denominators(const struct tml_run *run, struct tml_run_facts *facts)
{
    facts->process_s = seconds(tml_json_get(run->manifest, "process_s"));
    facts->session_s = facts->between_share = NAN;
    facts->training_loop_ns = facts->evaluation_ns = facts->checkpoint_ns = facts->input_wait_ns = TML_NS_NONE;
    facts->step_total_ns[TML_CLOCK_CPU] = facts->step_total_ns[TML_CLOCK_GPU] = TML_NS_NONE;
    facts->epochs_begun = -1;
    facts->end_gap = facts->running              ? TML_REASON_STILL_RUNNING
                     : facts->ranks_unclosed > 0 ? TML_REASON_NO_END
                                                 : TML_REASON_NOT_REPORTED;
    for (size_t i = 0; i < run->rank_count; i++) {
        const struct tml_rank_run *rank = &run->ranks[i];
        const struct tml_rank_totals *totals = &rank->totals;
        larger_s(&facts->process_s, seconds(tml_json_get(end_of(rank, "run"), "process_s")));
        larger_s(&facts->session_s, seconds(end_of(rank, "after_s")));
        larger(&facts->training_loop_ns, training_loop(rank));
        gather_between(rank, facts);
        larger(&facts->evaluation_ns, watched_sum(rank, TRACEML_PHASE_EVALUATION));
        larger(&facts->checkpoint_ns, watched_sum(rank, TRACEML_PHASE_CHECKPOINT));
        larger(&facts->input_wait_ns, watched_sum(rank, TRACEML_PHASE_DATALOADER_FETCH));
        for (unsigned clock = 0; clock < TML_CLOCKS; clock++)
            larger(&facts->step_total_ns[clock], step_total(rank, (enum tml_clock)clock));
        facts->completed = totals->completed > facts->completed ? totals->completed : facts->completed;
        facts->aborted = totals->aborted > facts->aborted ? totals->aborted : facts->aborted;
        facts->folded = totals->folded > facts->folded ? totals->folded : facts->folded;
        uint64_t microbatches = totals->sums->microbatches;
        facts->microbatches = microbatches > facts->microbatches ? microbatches : facts->microbatches;
        facts->warmup_steps = rank->warmup.steps > facts->warmup_steps ? rank->warmup.steps : facts->warmup_steps;
        if (totals->last_epoch - totals->first_epoch + 1 > facts->epochs_begun && totals->last_epoch >= 0)
            facts->epochs_begun = totals->last_epoch - totals->first_epoch + 1;
    }
}

static void gather_losses(const struct tml_run *run, struct tml_run_facts *facts)
{
    for (size_t i = 0; i < run->rank_count; i++)
        for (unsigned loss = 0; loss < TML_LOSS_COUNT; loss++) {
            uint64_t count = 0;
            tml_json_uint(tml_json_get(tml_rank_latest(&run->ranks[i], "losses"), tml_loss_key((enum tml_loss)loss)),
                          &count);
            facts->losses[loss] += count;
            facts->losses_total += count;
        }
}

void tml_run_facts_gather(const struct tml_run *run, const char *end_reason, struct tml_run_facts *facts)
{
    *facts = (struct tml_run_facts){.run = run};
    facts->run_name = named(run, "run_name");
    facts->program = named(run, "program");
    facts->started_at = named(run, "started_at");
    gather_ranks(run, facts);
    gather_missing(run, facts);
    gather_end(run, end_reason, facts);
    gather_unclosed(run, facts);
    gather_environment(run, facts);
    gather_denominators(run, facts);
    gather_losses(run, facts);
}
