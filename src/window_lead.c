/* The device lead at every boundary, over the steps of a window: per rank and over ranks. */
#include <stdlib.h>

#include "window.h"

static size_t rank_leads(const struct tml_window *window, size_t index, const struct tml_selection *selection,
                         unsigned boundary, int64_t *values)
{
    const struct tml_row_store *rows = &window->ranks[index].run->rows;
    size_t count = 0;
    for (size_t i = 0; i < selection->count; i++) {
        uint32_t row = selection->rows[i * selection->ranks + index];
        int64_t ns = boundary == TML_BOUNDARY_COUNT ? tml_row_store_lead_error(rows, row)
                                                    : tml_row_store_lead(rows, row, (enum tml_boundary)boundary);
        if (ns != TML_NS_NONE)
            values[count++] = ns;
    }
    return count;
}

static struct tml_lead_at lead_at(int64_t *values, size_t count)
{
    struct tml_lead_at at = {.spread = tml_spread_of(values, count), .steps = count};
    for (size_t i = 0; i < count; i++) {
        at.near_zero += values[i] < TML_LEAD_NEAR_ZERO_NS;
        at.large += values[i] > TML_LEAD_LARGE_NS;
    }
    return at;
}

static void measure_rank(struct tml_window *window, size_t index, const struct tml_selection *selection,
                         int64_t *values)
{
    struct tml_window_lead *lead = &window->ranks[index].lead;
    for (unsigned boundary = 0; boundary < TML_BOUNDARY_COUNT; boundary++)
        lead->at[boundary] = lead_at(values, rank_leads(window, index, selection, boundary, values));
    lead->error_ns = tml_spread_of(values, rank_leads(window, index, selection, TML_BOUNDARY_COUNT, values)).p50_ns;
}

static void over_ranks(struct tml_window *window, unsigned boundary, int64_t *values)
{
    struct tml_lead_at *over = &window->lead.at[boundary];
    size_t count = 0;
    for (size_t i = 0; i < window->rank_count; i++) {
        const struct tml_lead_at *at = &window->ranks[i].lead.at[boundary];
        over->steps += at->steps;
        over->near_zero += at->near_zero;
        over->large += at->large;
        if (at->steps > 0)
            values[count++] = at->spread.p50_ns;
    }
    over->spread = tml_spread_of(values, count == window->rank_count ? count : 0);
}

bool tml_window_lead_measure(struct tml_window *window, const struct tml_selection *selection)
{
    size_t most = selection->count > window->rank_count ? selection->count : window->rank_count;
    int64_t *values = malloc((most + 1) * sizeof *values);
    window->lead.error_ns = TML_NS_NONE;
    for (size_t i = 0; values && i < window->rank_count; i++) {
        measure_rank(window, i, selection, values);
        if (window->ranks[i].lead.error_ns > window->lead.error_ns) /* TML_NS_NONE is the least of all */
            window->lead.error_ns = window->ranks[i].lead.error_ns;
    }
    for (unsigned boundary = 0; values && boundary < TML_BOUNDARY_COUNT; boundary++)
        over_ranks(window, boundary, values);
    bool ok = values;
    free(values);
    return ok;
}
