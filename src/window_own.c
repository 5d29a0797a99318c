/* The user's own spans by name: what a step spends in each, per rank and over ranks. */
#include <string.h>

#include "window.h"

/* Known: it did not occur, it occurred on other threads alone, or it has a time. */
static bool is_known(const struct tml_cell *cell, enum tml_clock clock)
{
    return cell->count == cell->other_count || cell->exclusive_ns[clock] != TML_NS_NONE;
}

static void add_cell(struct tml_own_span *own, enum tml_region region, const struct tml_cell *cell,
                     enum tml_clock clock)
{
    if (cell->count == cell->other_count)
        return;
    own->sum_ns[region] = tml_ns_add(own->sum_ns[region], cell->exclusive_ns[clock]);
    own->inclusive_sum_ns = tml_ns_add(own->inclusive_sum_ns, cell->inclusive_ns[clock]);
}

static void add_name(struct tml_own_span *own, const struct tml_cell *pre, const struct tml_cell *in,
                     enum tml_clock clock)
{
    own->steps++;
    own->occurrences[TML_REGION_PRE] += pre->count - pre->other_count;
    own->occurrences[TML_REGION_IN] += in->count - in->other_count;
    own->elsewhere += (uint64_t)pre->other_count + in->other_count;
    if (!is_known(pre, clock) || !is_known(in, clock))
        return;
    own->steps_observed++;
    add_cell(own, TML_REGION_PRE, pre, clock);
    add_cell(own, TML_REGION_IN, in, clock);
}

void tml_window_own_add(struct tml_rank_window *rank, const struct tml_step_row *row, enum tml_clock clock)
{
    for (unsigned name = 0; rank->run->rows.has_own && name < TML_SPAN_NAMES; name++)
        add_name(&rank->own[name], &row->own[TML_REGION_PRE][name], &row->own[TML_REGION_IN][name], clock);
}

static void take_means(struct tml_own_span *own)
{
    bool enough = tml_metric_enough(own->steps_observed, own->steps);
    for (unsigned region = 0; region < TML_REGIONS; region++)
        own->value_ns[region] = enough ? tml_ns_mean(own->sum_ns[region], own->steps_observed) : TML_NS_NONE;
    own->inclusive_ns = enough ? tml_ns_mean(own->inclusive_sum_ns, own->steps_observed) : TML_NS_NONE;
}

/* "other" is a name when something stands there. */
static bool exists(const struct tml_own_span *own, unsigned name)
{
    return name != TML_SPAN_NAME_OTHER || own->occurrences[TML_REGION_PRE] + own->occurrences[TML_REGION_IN] > 0 ||
           own->elsewhere > 0;
}

/* The same name may have another number on another rank. */
static void merge(struct tml_window *window, const struct tml_own_span *own)
{
    unsigned name = tml_span_name_add(&window->names, own->name);
    struct tml_own_span *all = &window->own[name];
    all->name = name == TML_SPAN_NAME_OTHER ? tml_span_name_text(&window->names, name) : own->name;
    for (unsigned region = 0; region < TML_REGIONS; region++) {
        all->sum_ns[region] = tml_ns_add(all->sum_ns[region], own->sum_ns[region]);
        all->occurrences[region] += own->occurrences[region];
    }
    all->inclusive_sum_ns = tml_ns_add(all->inclusive_sum_ns, own->inclusive_sum_ns);
    all->elsewhere += own->elsewhere;
    all->steps_observed += own->steps_observed;
}

static void finish_rank(struct tml_window *window, struct tml_rank_window *rank)
{
    for (unsigned name = 0; rank->run->rows.has_own && name < TML_SPAN_NAMES; name++) {
        const char *text = tml_span_name_text(&rank->run->names, name);
        if (!text || !exists(&rank->own[name], name))
            continue;
        rank->own[name].name = text;
        take_means(&rank->own[name]);
        merge(window, &rank->own[name]);
    }
}

/* A step of a rank that never had the name had none of it. */
static void count_other_ranks(const struct tml_window *window, struct tml_own_span *all)
{
    all->steps = window->steps * window->rank_count;
    for (size_t i = 0; i < window->rank_count; i++) {
        bool has = false;
        for (unsigned name = 0; name < TML_SPAN_NAMES; name++)
            has = has || (window->ranks[i].own[name].name && strcmp(window->ranks[i].own[name].name, all->name) == 0);
        all->steps_observed += has ? 0 : window->steps;
    }
    if (all->steps_observed > all->steps) /* more names than are told apart: several of a rank share this one */
        all->steps_observed = all->steps;
}

void tml_window_own_finish(struct tml_window *window)
{
    for (size_t i = 0; i < window->rank_count; i++)
        finish_rank(window, &window->ranks[i]);
    for (unsigned name = 0; name < TML_SPAN_NAMES; name++) {
        if (!window->own[name].name)
            continue;
        count_other_ranks(window, &window->own[name]);
        take_means(&window->own[name]);
    }
}
