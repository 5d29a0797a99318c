/*
 * Purpose   which of the fetches before a step are that step's input wait: those of the loaders that feed the steps, and
 *           of the pass that goes on. A validation, a warm-up, a run over the training data between two steps are not.
 * Memory    plain data of fixed size.
 * Threads   the sampler alone.
 * Units     iterations.
 * Depends   nothing.
 */
#ifndef TML_FEEDER_H
#define TML_FEEDER_H

#include <stdbool.h>
#include <stdint.h>

/* Loaders told apart, in one iteration and in the memory of the last ones; fetches of more feed no step. */
#define TML_FEEDERS 16u

/* Of one loader before one step. */
struct tml_feeder_pass {
    uint16_t loader, pass;
    uint32_t fetches;       /* all */
    uint32_t first;         /* index among them at which the latest pass begins */
    uint32_t last_position; /* among the fetches of all loaders */
    uint32_t asked;         /* of them, in tml_feeders_next_is_own() */
    bool feeds;
};

/* What is remembered of one loader. */
struct tml_feeder {
    uint16_t loader;
    uint32_t seen;       /* bit i: fetched before the step of iteration `latest` - i, and not run through */
    uint64_t first_seen; /* iterations */
    uint64_t latest;
};

struct tml_feeders {
    struct tml_feeder known[TML_FEEDERS];
    uint32_t usual; /* fetches of one loader before a step, at the last step that had some */
    /* The iteration at hand. */
    struct tml_feeder_pass passes[TML_FEEDERS];
    uint32_t pass_count, fetches;
};

/*
 * For each iteration, in order: begin; see each fetch that was made before the step, on its thread, with gradients on,
 * outside of evaluation and checkpoint, in the order of their ends; decide; then ask for each in the same order.
 *   A loader feeds a step when it was fetched before two of three of the last steps (32 at most). Where there is none
 * (the first step, a new loader): the one that was fetched last, with new ones that were fetched as often (loaders zipped
 * together). One that was run through, fetched more often than is usual before a step, feeds none.
 *   Of a loader only the latest pass counts, and before the first step of a run only its last fetch (or the first two of
 * a pass: a loader that fetches one batch ahead): what was fetched before is start-up.
 */
void tml_feeders_begin(struct tml_feeders *feeders);
void tml_feeders_see(struct tml_feeders *feeders, uint16_t loader, uint16_t pass, bool first_of_pass);
void tml_feeders_decide(struct tml_feeders *feeders, uint64_t iteration);
bool tml_feeders_next_is_own(struct tml_feeders *feeders, uint16_t loader);

#endif
