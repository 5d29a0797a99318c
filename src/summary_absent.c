/* Sections that this version does not measure: present, in the shape of the others, null, and with the reason. */
#include <string.h>

#include "summary.h"

#define MOST_METRICS 9

/* The stable key of the one reason here; a word of reason.h would be about a metric of a step. */
#define NOT_IN_THIS_VERSION "not_in_this_version"

struct absent {
    const char *section, *title, *index_by, *window;
    bool needs_gpu;
    const char *summary, *action;
    const char *metric[MOST_METRICS];
    const char *unit[4][2];
};

static const struct absent sections[] = {
    {
        "system",
        "System",
        "node_rank",
        "sample_window",
        false,
        "This version does not measure the utilisation of CPU, memory and GPUs.",
        "Use nvidia-smi or top beside the run.",
        {"cpu_percent", "ram_bytes", "ram_percent", "gpu_util_percent", "gpu_mem_bytes", "gpu_mem_percent",
         "gpu_temp_c", "gpu_power_w", "gpu_headroom_bytes"},
        {{"memory", "bytes"}, {"temperature", "C"}, {"power", "W"}, {"util", "%"}},
    },
    {
        "process",
        "Process",
        "global_rank",
        "sample_window",
        false,
        "This version does not measure the process's CPU and memory.",
        "Use top beside the run.",
        {"cpu_percent", "cpu_capacity_percent", "ram_bytes", "ram_percent", "gpu_mem_used_bytes",
         "gpu_mem_reserved_bytes", "gpu_mem_reserved_percent", "gpu_mem_headroom_bytes"},
        {{"memory", "bytes"}, {"cpu", "%"}},
    },
    {
        "step_memory",
        "Step Memory",
        "global_rank",
        "step_window",
        true,
        "This version does not measure the memory of a step.",
        "Read torch.cuda.max_memory_allocated() at the end of the run.",
        {"peak_allocated_bytes", "peak_reserved_bytes"},
        {{"memory", "bytes"}},
    },
    {
        "stalls",
        "Stalls",
        "global_rank",
        "step_window",
        true,
        "This version does not observe host synchronisation and allocator calls.",
        "Trace a few steps with torch.profiler to see where the host waits for the device.",
        {"host_sync_ms", "allocator_ms"},
        {{"time", "ms"}},
    },
    {
        "input_pipeline",
        "Input Pipeline",
        "global_rank",
        "step_window",
        false,
        "This version does not look inside the loader's workers.",
        "step_time says how long the steps waited for it.",
        {"worker_busy_percent"},
        {{"util", "%"}},
    },
};

/* Without a GPU there is nothing to measure; with one, this version cannot. */
struct why {
    const char *kind, *status, *summary, *action, *reason;
    enum tml_availability availability;
};

static struct why why_absent(const struct absent *absent, bool cuda)
{
    if (absent->needs_gpu && !cuda)
        return (struct why){"NO_GPU",
                            "NO GPU",
                            "No GPU in use: there is nothing to measure here.",
                            "Nothing to do.",
                            tml_reason_key(TML_REASON_NO_CUDA),
                            TML_NOT_APPLICABLE};
    return (struct why){"NO_DATA", "NO DATA", absent->summary, absent->action, NOT_IN_THIS_VERSION, TML_UNAVAILABLE};
}

static const struct absent *find(const char *section)
{
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
        if (strcmp(sections[i].section, section) == 0)
            return &sections[i];
    return NULL;
}

static size_t metrics_of(const struct absent *absent)
{
    size_t count = 0;
    while (count < MOST_METRICS && absent->metric[count])
        count++;
    return count;
}

static void write_window(struct tml_json_writer *json, const struct absent *absent)
{
    static const char *const nulls[] = {"samples",  "steps_analyzed", "start_step",
                                        "end_step", "completed_step", "window_size"};
    tml_json_begin_object(json, "window");
    tml_json_write_string(json, "kind", absent->window);
    tml_json_write_string(json, "alignment", "none");
    for (size_t i = 0; i < sizeof nulls / sizeof *nulls; i++)
        tml_json_write_null(json, nulls[i]);
    tml_json_end_object(json);
}

static void write_points(struct tml_json_writer *json, const char *key, const struct absent *absent)
{
    tml_json_begin_object(json, key);
    for (size_t i = 0; i < metrics_of(absent); i++) {
        tml_json_begin_object(json, absent->metric[i]);
        tml_json_write_null(json, "value");
        tml_json_write_null(json, "idx");
        tml_json_end_object(json);
    }
    tml_json_end_object(json);
}

static void write_status(struct tml_json_writer *json, const struct absent *absent, const struct why *why)
{
    tml_json_begin_object(json, "status");
    for (size_t i = 0; i < metrics_of(absent); i++) {
        tml_json_begin_object(json, absent->metric[i]);
        tml_json_write_string(json, "availability", tml_availability_key(why->availability));
        tml_json_write_string(json, "coverage", tml_coverage_key(TML_COVERAGE_UNKNOWN));
        tml_json_write_string(json, "reason", why->reason);
        tml_json_write_null(json, "reason_phase"); /* the same members as every status */
        tml_json_write_null(json, "steps_observed");
        tml_json_write_null(json, "steps_expected");
        tml_json_write_null(json, "occurrences");
        tml_json_write_null(json, TML_BESIDE_KEY);
        tml_json_end_object(json);
    }
    tml_json_end_object(json);
}

static void write_global(struct tml_json_writer *json, const struct absent *absent, const struct why *why)
{
    tml_json_begin_object(json, "global");
    tml_json_write_string(json, "index_by", absent->index_by);
    write_window(json, absent);
    tml_json_begin_object(json, "average");
    for (size_t i = 0; i < metrics_of(absent); i++)
        tml_json_write_null(json, absent->metric[i]);
    tml_json_end_object(json);
    write_points(json, "median", absent);
    write_points(json, "worst", absent);
    write_status(json, absent, why);
    tml_json_end_object(json);
}

static void write_rest(struct tml_json_writer *json, const struct absent *absent, const struct why *why)
{
    struct tml_text card = {0};
    tml_json_begin_object(json, "groups");
    tml_json_write_string(json, "by", absent->index_by);
    tml_json_begin_object(json, "rows");
    tml_json_end_object(json);
    tml_json_end_object(json);
    tml_json_begin_object(json, "units");
    for (size_t i = 0; i < 4 && absent->unit[i][0]; i++)
        tml_json_write_string(json, absent->unit[i][0], absent->unit[i][1]);
    tml_json_end_object(json);
    tml_text_printf(&card, "%s\n%s\n  why    %s\n  next   %s\n", absent->title, why->status, why->summary, why->action);
    tml_json_write_string(json, "card", tml_text_words(&card));
    tml_text_drop(&card);
}

void tml_summary_write_absent(struct tml_json_writer *json, const struct tml_analysis *analysis, const char *section)
{
    const struct absent *absent = find(section);
    struct why why = why_absent(absent, analysis->window.cuda);
    struct tml_summary_metadata metadata = {
        .mode = "no_data",
        .ranks_seen = (int64_t)analysis->run->rank_count,
        .ranks_used = 0,
        .total_steps = -1,
        .latest_step = -1,
    };
    tml_json_begin_object(json, section);
    tml_summary_write_metadata(json, &metadata, absent->metric, metrics_of(absent));
    tml_summary_write_plain_finding(json, "diagnosis", why.kind, why.status, why.summary, why.action, why.reason);
    tml_json_begin_array(json, "issues");
    tml_summary_write_plain_finding(json, NULL, why.kind, why.status, why.summary, why.action, why.reason);
    tml_json_end_array(json);
    write_global(json, absent, &why);
    write_rest(json, absent, &why);
    tml_json_end_object(json);
}
