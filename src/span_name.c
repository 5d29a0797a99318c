#include "span_name.h"

#include <string.h>

#include "utf8.h"

#define OTHER "other"

enum { FREE, WRITING, READY };

/* A forked child may find a name that its parent's other thread was writing: it must not wait for it for ever. */
#define PATIENCE 100000u

struct tml_span_names tml_span_names;

static unsigned take_character(const unsigned char *from, char *to, size_t room)
{
    unsigned length = tml_utf8_length(from, strnlen((const char *)from, 4));
    if (length > room)
        return 0;
    if (length == 0 || *from < 0x20 || *from == 0x7f)
        *to = '?';
    else
        memcpy(to, from, length);
    return length ? length : 1;
}

static void normalize(const char *name, char text[TML_SPAN_NAME_BYTES])
{
    size_t bytes = 0;
    while (name[bytes]) {
        unsigned length =
            take_character((const unsigned char *)name + bytes, text + bytes, TML_SPAN_NAME_BYTES - 1 - bytes);
        if (length == 0 || bytes + length >= TML_SPAN_NAME_BYTES)
            break;
        bytes += length;
    }
    text[bytes] = '\0';
}

/* The state once it is not WRITING any more, or no longer worth waiting for. Acquire, with the release of the writer:
 * who sees READY sees the text. */
static uint8_t settled(const struct tml_span_name *entry)
{
    uint8_t state = atomic_load_explicit(&entry->state, memory_order_acquire);
    for (unsigned i = 0; state == WRITING && i < PATIENCE; i++)
        state = atomic_load_explicit(&entry->state, memory_order_acquire);
    return state;
}

unsigned tml_span_name_add(struct tml_span_names *names, const char *name)
{
    char text[TML_SPAN_NAME_BYTES];
    normalize(name, text);
    if (!*text || strcmp(text, OTHER) == 0)
        return TML_SPAN_NAME_OTHER;
    for (unsigned i = TML_SPAN_NAME_OTHER + 1; i < TML_SPAN_NAMES; i++) {
        struct tml_span_name *entry = &names->name[i];
        uint8_t state = FREE;
        /* Relaxed: the claim alone; the text is published by the release below. */
        if (atomic_compare_exchange_strong_explicit(&entry->state, &state, WRITING, memory_order_relaxed,
                                                    memory_order_relaxed)) {
            memcpy(entry->text, text, sizeof text);
            /* Release, with the acquire of settled(). */
            atomic_store_explicit(&entry->state, READY, memory_order_release);
            return i;
        }
        if (settled(entry) == READY && strcmp(entry->text, text) == 0)
            return i;
    }
    return TML_SPAN_NAME_OTHER;
}

const char *tml_span_name_text(const struct tml_span_names *names, unsigned number)
{
    if (number == TML_SPAN_NAME_OTHER)
        return OTHER;
    if (number >= TML_SPAN_NAMES || settled(&names->name[number]) != READY)
        return NULL;
    return names->name[number].text;
}
