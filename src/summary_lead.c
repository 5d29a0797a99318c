/* The device lead of the step_time section. */
#include "summary.h"

static void write_boundary(struct tml_json_writer *json, enum tml_boundary boundary, const struct tml_lead_at *at,
                           bool of_ranks)
{
    tml_json_begin_object(json, tml_boundary_key(boundary));
    tml_json_write_ns_as_ms(json, "median", at->spread.p50_ns);
    if (!of_ranks) {
        tml_json_write_ns_as_ms(json, "p10", at->spread.p10_ns);
        tml_json_write_ns_as_ms(json, "p90", at->spread.p90_ns);
    }
    tml_json_write_uint(json, "steps", at->steps);
    tml_json_write_uint(json, "near_zero_steps", at->near_zero);
    tml_json_write_uint(json, "large_steps", at->large);
    tml_json_end_object(json);
}

void tml_summary_write_lead(struct tml_json_writer *json, const struct tml_window_lead *lead, bool of_ranks)
{
    tml_json_begin_object(json, "device_lead");
    for (unsigned boundary = 0; boundary < TML_BOUNDARY_COUNT; boundary++)
        write_boundary(json, (enum tml_boundary)boundary, &lead->at[boundary], of_ranks);
    tml_json_write_ns_as_ms(json, "error_ms", lead->error_ns);
    tml_json_write_ns_as_ms(json, "near_zero_below_ms", TML_LEAD_NEAR_ZERO_NS);
    tml_json_write_ns_as_ms(json, "large_above_ms", TML_LEAD_LARGE_NS);
    tml_json_end_object(json);
}
