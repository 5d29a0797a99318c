/* What a summary says about the run as such: names and ranks, denominators, losses, own cost. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "summary.h"

void tml_summary_write_count(struct tml_json_writer *json, const char *key, int64_t count)
{
    if (count < 0)
        tml_json_write_null(json, key);
    else
        tml_json_write_int(json, key, count);
}

const char *tml_summary_mode(const struct tml_analysis *analysis)
{
    if (analysis->facts.ranks_seen == 0)
        return "no_data";
    return analysis->facts.nodes > 1 ? "multi_node" : "single_node";
}

/* A member of an object of somebody else's, as it is. */
static void write_member(struct tml_json_writer *json, const struct tml_json *member)
{
    char *value = tml_json_print(member);
    tml_json_write_raw(json, tml_json_key(member), value ? value : "null");
    json->failed = json->failed || !value;
    free(value);
}

/* ---- meta ---- */

static const char *version_of(const struct tml_run *run)
{
    const struct tml_json *version = run->rank_count ? tml_rank_header(&run->ranks[0], "traceml_version")
                                                     : tml_json_get(run->manifest, "traceml_version");
    return tml_json_string(version);
}

/* The library has seen the device's name, whether or not the environment was gathered after that. */
static void write_gpu_names(struct tml_json_writer *json, const struct tml_run_facts *facts)
{
    tml_json_begin_array(json, "gpu_names");
    if (facts->gpu_name)
        tml_json_write_string(json, NULL, facts->gpu_name);
    tml_json_end_array(json);
}

static void write_environment(struct tml_json_writer *json, const struct tml_analysis *analysis)
{
    const struct tml_run_facts *facts = &analysis->facts;
    const struct tml_json *given = facts->environment;
    bool names = tml_json_first(tml_json_get(given, "gpu_names"));
    tml_json_begin_object(json, "environment");
    for (const struct tml_json *child = tml_json_first(given); child; child = tml_json_next(child))
        if (names || strcmp(tml_json_key(child), "gpu_names") != 0)
            write_member(json, child);
    if (!tml_json_get(given, "traceml"))
        tml_json_write_string(json, "traceml", version_of(analysis->run));
    if (!tml_json_get(given, "host_cores"))
        tml_summary_write_count(json, "host_cores", facts->cores);
    if (!names)
        write_gpu_names(json, facts);
    if (!tml_json_get(given, "strategy"))
        tml_json_write_null(json, "strategy");
    if (!tml_json_get(given, "loader"))
        tml_json_write_null(json, "loader");
    tml_json_end_object(json);
}

static void write_missing(struct tml_json_writer *json, const struct tml_run_facts *facts)
{
    tml_json_begin_array(json, "ranks_missing");
    for (size_t i = 0; i < facts->missing_count && i < TML_MISSING_LISTED; i++)
        tml_json_write_uint(json, NULL, facts->missing[i]);
    tml_json_end_array(json);
    tml_json_write_uint(json, "ranks_missing_count", facts->missing_count);
}

void tml_summary_write_meta(struct tml_json_writer *json, const struct tml_analysis *analysis)
{
    const struct tml_run_facts *facts = &analysis->facts;
    tml_json_begin_object(json, "meta");
    tml_json_write_string(json, "run_name", facts->run_name);
    tml_json_write_string(json, "mode", tml_summary_mode(analysis));
    tml_json_write_uint(json, "world_size", facts->world_size);
    tml_json_write_uint(json, "nodes_observed", facts->nodes);
    tml_json_write_uint(json, "gpus_observed", facts->gpus);
    tml_json_write_string(json, "program", facts->program);
    tml_json_write_string(json, "started_at", facts->started_at);
    tml_json_write_uint(json, "ranks_seen", facts->ranks_seen);
    write_missing(json, facts);
    tml_json_write_bool(json, "complete", facts->complete);
    tml_json_write_string(json, "end_reason", facts->end_reason);
    tml_json_write_bool(json, "running", facts->running);
    tml_json_write_uint(json, "restarts", facts->restarts);
    write_environment(json, analysis);
    tml_json_end_object(json);
}

/* ---- run ---- */

/* The section as it is written: a number that is not known is null, and says why below. */
struct run_section {
    struct tml_json_writer *json;
    const struct tml_json *given; /* what an integration says of the run: it stands before what the steps say */
    struct {
        const char *key;
        enum tml_reason reason;
    } unknown[24];
    size_t unknowns;
};

/* Of every rank the largest, so not what one of them says; and `reasons` is this section's own. */
static bool is_ours(const char *key)
{
    return strcmp(key, "process_s") == 0 || strcmp(key, "session_s") == 0 || strcmp(key, "reasons") == 0;
}

static void put_number(struct run_section *section, const char *key, double value, enum tml_reason why_not)
{
    if (tml_json_get(section->given, key) && !is_ours(key))
        return;
    tml_json_write_number(section->json, key, value, 6);
    if (isnan(value)) {
        section->unknown[section->unknowns].key = key;
        section->unknown[section->unknowns++].reason = why_not;
    }
}

static void put_seconds(struct run_section *section, const char *key, int64_t ns, enum tml_reason why_not)
{
    put_number(section, key, ns == TML_NS_NONE ? NAN : (double)ns / TML_NS_PER_S, why_not);
}

static void put_count(struct run_section *section, const char *key, int64_t count, enum tml_reason why_not)
{
    put_number(section, key, count < 0 ? NAN : (double)count, why_not);
}

/* Microbatches a step where each has the same number; else not one number. */
static int64_t accumulation(const struct tml_run_facts *facts)
{
    if (facts->completed == 0 || facts->microbatches == 0 || facts->microbatches % facts->completed != 0)
        return -1;
    return (int64_t)(facts->microbatches / facts->completed);
}

static const struct tml_json *given_run(const struct tml_run *run)
{
    for (size_t i = 0; i < run->rank_count; i++) {
        const struct tml_json *given = tml_json_get(tml_json_get(run->ranks[i].end, "end"), "run");
        if (tml_json_first(given))
            return given;
    }
    return NULL;
}

static void put_durations(struct run_section *section, const struct tml_run_facts *facts)
{
    enum tml_reason no_steps = facts->completed == 0 ? TML_REASON_NO_STEPS : TML_REASON_NONE;
    enum tml_reason no_device = facts->gpus == 0 ? TML_REASON_NO_CUDA : TML_REASON_EVENTS_LOST;
    enum tml_reason no_fetch = no_steps ? no_steps : TML_REASON_HOOK_NOT_INSTALLED;
    bool between = !isnan(facts->between_share);
    put_number(section, "process_s", facts->process_s, facts->end_gap);
    put_number(section, "session_s", facts->session_s, facts->end_gap);
    put_seconds(section, "training_loop_s", facts->training_loop_ns, TML_REASON_NO_STEPS);
    put_seconds(section, "framework_runtime_s", TML_NS_NONE, TML_REASON_NOT_REPORTED);
    put_seconds(section, "step_total_cpu_s", facts->step_total_ns[TML_CLOCK_CPU],
                no_steps ? no_steps : TML_REASON_RECORDS_LOST);
    put_seconds(section, "step_total_gpu_s", facts->step_total_ns[TML_CLOCK_GPU], no_steps ? no_steps : no_device);
    put_seconds(section, "input_wait_cpu_s", facts->input_wait_ns, no_fetch);
    put_seconds(section, "between_steps_s", between ? facts->between.total_ns : TML_NS_NONE, no_fetch);
    put_number(section, "between_steps_share", facts->between_share, no_fetch);
    put_seconds(section, "evaluation_s", facts->evaluation_ns, TML_REASON_NO_SPAN);
    put_seconds(section, "checkpoint_s", facts->checkpoint_ns, TML_REASON_NO_SPAN);
}

static void put_counts(struct run_section *section, const struct tml_run_facts *facts)
{
    put_count(section, "steps_completed", (int64_t)facts->completed, TML_REASON_NONE);
    put_count(section, "steps_aborted", (int64_t)facts->aborted, TML_REASON_NONE);
    put_count(section, "steps_folded", (int64_t)facts->folded, TML_REASON_NONE);
    put_count(section, "microbatches", (int64_t)facts->microbatches, TML_REASON_NONE);
    put_count(section, "gradient_accumulation", accumulation(facts),
              facts->microbatches ? TML_REASON_VARIES : TML_REASON_NEVER_OBSERVED);
    put_count(section, "epochs_begun", facts->epochs_begun, TML_REASON_NOT_REPORTED);
    put_count(section, "epochs_completed", -1, facts->end_gap); /* only who sees the last one's end can say */
}

void tml_summary_write_run(struct tml_json_writer *json, const struct tml_analysis *analysis)
{
    struct run_section section = {.json = json, .given = given_run(analysis->run)};
    tml_json_begin_object(json, "run");
    put_durations(&section, &analysis->facts);
    put_counts(&section, &analysis->facts);
    for (const struct tml_json *child = tml_json_first(section.given); child; child = tml_json_next(child))
        if (!is_ours(tml_json_key(child)))
            write_member(json, child);
    tml_json_begin_object(json, "reasons");
    for (size_t i = 0; i < section.unknowns; i++)
        tml_json_write_string(json, section.unknown[i].key, tml_reason_key(section.unknown[i].reason));
    tml_json_end_object(json);
    tml_json_end_object(json);
}

/* ---- losses ---- */

static void write_bad_lines(struct tml_json_writer *json, const struct tml_run *run)
{
    tml_json_begin_object(json, "bad_lines");
    tml_json_write_uint(json, "count", run->bad_lines);
    tml_json_write_uint(json, "lines", run->lines);
    tml_json_write_string(json, "first", run->first_bad);
    tml_json_end_object(json);
}

static void write_left_out(struct tml_json_writer *json, const struct tml_window *window)
{
    tml_json_begin_object(json, "steps_left_out");
    tml_json_write_uint(json, "count", window->left_out);
    tml_json_begin_object(json, "reasons");
    for (unsigned reason = 1; reason < TML_REASON_COUNT; reason++)
        if (window->left_out_why[reason] > 0)
            tml_json_write_uint(json, tml_reason_key((enum tml_reason)reason), window->left_out_why[reason]);
    tml_json_end_object(json);
    tml_json_end_object(json);
}

/* How many steps these are, nobody can know: they are not in `total`. */
static void write_unclosed(struct tml_json_writer *json, const struct tml_run_facts *facts)
{
    bool ended = facts->ranks_unclosed > 0 && !facts->running;
    tml_json_begin_object(json, "unclosed");
    tml_json_write_uint(json, "ranks", facts->ranks_unclosed);
    tml_summary_write_count(json, "last_ms", ended ? facts->written_within_ms : -1);
    tml_json_write_string(json, "meaning",
                          "ranks whose process ended without closing its file, or runs still: steps that completed in "
                          "its last last_ms may be missing");
    tml_json_end_object(json);
}

void tml_summary_write_losses(struct tml_json_writer *json, const struct tml_analysis *analysis)
{
    const struct tml_run_facts *facts = &analysis->facts;
    tml_json_begin_object(json, "losses");
    tml_json_write_uint(json, "total", facts->losses_total);
    tml_json_begin_object(json, "causes");
    for (unsigned loss = 0; loss < TML_LOSS_COUNT; loss++) {
        tml_json_begin_object(json, tml_loss_key((enum tml_loss)loss));
        tml_json_write_uint(json, "count", facts->losses[loss]);
        tml_json_write_string(json, "meaning", tml_loss_words((enum tml_loss)loss, 2));
        tml_json_end_object(json);
    }
    tml_json_end_object(json);
    write_left_out(json, &analysis->window);
    tml_json_write_uint(json, "steps_folded", facts->folded);
    write_unclosed(json, facts);
    write_bad_lines(json, analysis->run);
    tml_json_end_object(json);
}

/* ---- overhead ---- */

/* Our own cost in a step as the ledger has it, and what each rank's session says of itself. */
void tml_summary_write_overhead(struct tml_json_writer *json, const struct tml_analysis *analysis)
{
    const struct tml_window *window = &analysis->window;
    const struct tml_over_ranks *in = &window->metric[TML_METRIC_INSTRUMENTATION];
    const struct tml_over_ranks *pre = &window->metric[TML_METRIC_PRE_STEP_INSTRUMENTATION];
    tml_json_begin_object(json, "overhead");
    tml_json_write_string(json, "clock", tml_clock_key(window->clock));
    tml_json_write_string(json, "covers",
                          window->clock == TML_CLOCK_GPU ? "the device time of our event records"
                                                         : "the host time of our own code around each span");
    tml_json_write_string(json, "leaves_out",
                          "what becomes slower elsewhere because of us (caches, the driver): docs/overhead.md measures "
                          "all of it");
    tml_json_write_ns_as_ms(json, "instrumentation_ms", in->median.value_ns);
    tml_json_write_ns_as_ms(json, "pre_step_instrumentation_ms", pre->median.value_ns);
    tml_json_write_number(json, "share", in->share, 9);
    tml_json_begin_object(json, "ranks");
    for (size_t i = 0; i < analysis->run->rank_count; i++) {
        const struct tml_json *its = tml_rank_latest(&analysis->run->ranks[i], "overhead");
        char key[16];
        if (!tml_json_is_object(its))
            continue;
        snprintf(key, sizeof key, "%u", analysis->run->ranks[i].rank);
        tml_json_begin_object(json, key);
        for (const struct tml_json *child = tml_json_first(its); child; child = tml_json_next(child))
            write_member(json, child);
        tml_json_end_object(json);
    }
    tml_json_end_object(json);
    tml_json_end_object(json);
}

/* ---- shared ---- */

void tml_summary_write_metadata(struct tml_json_writer *json, const struct tml_summary_metadata *metadata,
                                const char *const *names, size_t count)
{
    static const char *const never[] = {"duration_s",     "samples",       "nodes_expected", "nodes_observed",
                                        "nodes_coverage", "nodes_partial", "gpus_observed"};
    tml_json_begin_object(json, "metadata");
    tml_json_write_string(json, "mode", metadata->mode);
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        tml_json_write_null(json, never[i]);
    tml_summary_write_count(json, "global_ranks_seen", metadata->ranks_seen);
    tml_summary_write_count(json, "global_ranks_used", metadata->ranks_used);
    tml_summary_write_count(json, "training_total_steps", metadata->total_steps);
    tml_summary_write_count(json, "training_latest_step", metadata->latest_step);
    tml_json_begin_array(json, "section_metric_names");
    for (size_t i = 0; i < count; i++)
        tml_json_write_string(json, NULL, names[i]);
    tml_json_end_array(json);
    tml_json_end_object(json);
}

void tml_summary_write_identity(struct tml_json_writer *json, const struct tml_analysis *analysis,
                                const struct tml_rank_run *rank)
{
    static const char *const texts[] = {"device", "gpu_name"};
    uint64_t number;
    tml_json_begin_object(json, "identity");
    tml_json_write_uint(json, "global_rank", rank->rank);
    bool known = tml_json_uint(tml_rank_header(rank, "local_rank"), &number);
    tml_summary_write_count(json, "local_rank", known ? (int64_t)number : -1);
    tml_json_write_uint(json, "node_rank", rank->node);
    tml_json_write_string(json, "hostname", tml_json_string(tml_rank_header(rank, "host")));
    tml_json_write_uint(json, "local_world_size", rank->node_ranks);
    tml_json_write_uint(json, "world_size", analysis->facts.world_size);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        tml_json_write_string(json, texts[i], tml_json_string(tml_rank_header(rank, texts[i])));
    known = tml_json_uint(tml_rank_header(rank, "pid"), &number);
    tml_summary_write_count(json, "pid", known ? (int64_t)number : -1);
    tml_json_end_object(json);
}
