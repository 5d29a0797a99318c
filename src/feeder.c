#include "feeder.h"

#include <stddef.h>

#define REMEMBERED 32u

/* As many fetches before a step as one that fetches ahead makes. */
#define AHEAD 2u

void tml_feeders_begin(struct tml_feeders *feeders)
{
    feeders->pass_count = feeders->fetches = 0;
}

static struct tml_feeder_pass *pass_of(struct tml_feeders *feeders, uint16_t loader)
{
    for (uint32_t i = 0; i < feeders->pass_count; i++)
        if (feeders->passes[i].loader == loader)
            return &feeders->passes[i];
    return NULL;
}

void tml_feeders_see(struct tml_feeders *feeders, uint16_t loader, uint16_t pass, bool first_of_pass)
{
    struct tml_feeder_pass *its = pass_of(feeders, loader);
    uint32_t position = feeders->fetches++;
    if (!its && feeders->pass_count == TML_FEEDERS)
        return;
    if (!its) {
        its = &feeders->passes[feeders->pass_count++];
        *its = (struct tml_feeder_pass){.loader = loader, .pass = pass};
    }
    if (first_of_pass || its->pass != pass)
        its->first = its->fetches;
    its->pass = pass;
    its->fetches++;
    its->last_position = position;
}

/* ---- What is remembered ---- */

static struct tml_feeder *known(struct tml_feeders *feeders, uint16_t loader)
{
    for (unsigned i = 0; i < TML_FEEDERS; i++)
        if (feeders->known[i].latest > 0 && feeders->known[i].loader == loader)
            return &feeders->known[i];
    return NULL;
}

/* A place for a new one: a free one, else that of the loader that was fetched longest ago. */
static struct tml_feeder *oldest(struct tml_feeders *feeders)
{
    struct tml_feeder *place = &feeders->known[0];
    for (unsigned i = 1; i < TML_FEEDERS; i++)
        if (feeders->known[i].latest < place->latest)
            place = &feeders->known[i];
    return place;
}

/* `seen` as of the iteration before this one. */
static uint32_t seen_before(const struct tml_feeder *feeder, uint64_t iteration)
{
    uint64_t gap = iteration - 1 - feeder->latest;
    return gap < REMEMBERED ? feeder->seen << gap : 0;
}

static bool fed_lately(const struct tml_feeder *feeder, uint64_t iteration)
{
    uint64_t age = iteration - feeder->first_seen;
    uint32_t iterations = age < REMEMBERED ? (uint32_t)age : REMEMBERED;
    return 3 * (uint32_t)__builtin_popcount(seen_before(feeder, iteration)) >= 2 * iterations;
}

/* ---- Who feeds ---- */

static uint32_t length_of(const struct tml_feeder_pass *pass)
{
    return pass->fetches - pass->first;
}

static bool runs_through(const struct tml_feeders *feeders, const struct tml_feeder_pass *pass)
{
    uint32_t usual = feeders->usual + 1 > AHEAD ? feeders->usual + 1 : AHEAD;
    return length_of(pass) > usual;
}

/* Fed the last steps. If one of them was fetched as usual, those that were run through are not of its kind. */
static bool choose_known(struct tml_feeders *feeders, uint64_t iteration)
{
    bool any = false, any_usual = false;
    for (uint32_t i = 0; i < feeders->pass_count; i++) {
        struct tml_feeder_pass *pass = &feeders->passes[i];
        const struct tml_feeder *its = known(feeders, pass->loader);
        pass->feeds = its && fed_lately(its, iteration);
        any = any || pass->feeds;
        any_usual = any_usual || (pass->feeds && !runs_through(feeders, pass));
    }
    for (uint32_t i = 0; any_usual && i < feeders->pass_count; i++)
        feeders->passes[i].feeds = feeders->passes[i].feeds && !runs_through(feeders, &feeders->passes[i]);
    return any;
}

/* Nothing is known of them: the last one, and those beside it. */
static void choose_new(struct tml_feeders *feeders, uint64_t iteration)
{
    const struct tml_feeder_pass *last = NULL;
    for (uint32_t i = 0; i < feeders->pass_count; i++)
        if (!last || feeders->passes[i].last_position > last->last_position)
            last = &feeders->passes[i];
    if (!last || (iteration > 1 && runs_through(feeders, last)))
        return;
    for (uint32_t i = 0; i < feeders->pass_count; i++) {
        struct tml_feeder_pass *pass = &feeders->passes[i];
        pass->feeds = pass == last || (length_of(pass) == length_of(last) && !known(feeders, pass->loader));
    }
}

static void remember(struct tml_feeders *feeders, uint64_t iteration)
{
    for (uint32_t i = 0; i < feeders->pass_count; i++) {
        struct tml_feeder *its = known(feeders, feeders->passes[i].loader);
        if (!its) {
            its = oldest(feeders);
            *its = (struct tml_feeder){.loader = feeders->passes[i].loader, .first_seen = iteration};
        }
        bool like_a_feeder = feeders->passes[i].feeds || !runs_through(feeders, &feeders->passes[i]);
        its->seen = (its->latest ? seen_before(its, iteration) << 1 : 0) | like_a_feeder;
        its->latest = iteration;
    }
}

void tml_feeders_decide(struct tml_feeders *feeders, uint64_t iteration)
{
    if (!choose_known(feeders, iteration))
        choose_new(feeders, iteration);
    remember(feeders, iteration);
    for (uint32_t i = 0; i < feeders->pass_count; i++) {
        struct tml_feeder_pass *pass = &feeders->passes[i];
        if (iteration == 1 && length_of(pass) > AHEAD)
            pass->first = pass->fetches - 1;
        if (pass->feeds)
            feeders->usual = length_of(pass);
    }
}

bool tml_feeders_next_is_own(struct tml_feeders *feeders, uint16_t loader)
{
    struct tml_feeder_pass *pass = pass_of(feeders, loader);
    return pass && pass->asked++ >= pass->first && pass->feeds;
}
