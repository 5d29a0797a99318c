#include "reason.h"

#include <string.h>

#include "traceml/traceml.h"

static const struct {
    const char *key, *words;
} reasons[] = {
#define TML_X(name, key, words) {key, words},
    TML_REASON_LIST(TML_X)
#undef TML_X
};

static const char *const step_flags[] = {
#define TML_X(name, key) key,
    TML_STEP_FLAG_LIST(TML_X)
#undef TML_X
};

static const struct {
    const char *key, *one, *more;
} losses[] = {
#define TML_X(name, key, noun, words) {key, noun words, noun "s" words},
    TML_LOSS_LIST(TML_X)
#undef TML_X
};

static const char *const phases[] = {
#define TML_X(name, key) key,
    TRACEML_PHASE_LIST(TML_X)
#undef TML_X
};

const char *tml_reason_key(enum tml_reason reason)
{
    return reasons[reason].key;
}

const char *tml_reason_words(enum tml_reason reason)
{
    return reasons[reason].words;
}

enum tml_reason tml_reason_from_key(const char *key)
{
    for (unsigned i = 0; i < TML_REASON_COUNT; i++)
        if (strcmp(reasons[i].key, key) == 0)
            return (enum tml_reason)i;
    return TML_REASON_NONE;
}

const char *tml_step_flag_key(unsigned bit)
{
    return step_flags[bit];
}

const char *tml_loss_key(enum tml_loss loss)
{
    return losses[loss].key;
}

const char *tml_loss_words(enum tml_loss loss, uint64_t count)
{
    return count == 1 ? losses[loss].one : losses[loss].more;
}

const char *tml_phase_key(unsigned phase)
{
    return phases[phase];
}

int tml_phase_from_key(const char *key)
{
    for (int i = 0; i < TRACEML_PHASE_COUNT; i++)
        if (strcmp(phases[i], key) == 0)
            return i;
    return -1;
}
