/*
 * Purpose   says where UTF-8 text stops being UTF-8.
 * Memory    none.
 * Threads   any.
 * Units     bytes.
 * Depends   nothing.
 */
#ifndef TML_UTF8_H
#define TML_UTF8_H

#include <stddef.h>

/*
 * Bytes of the character at `text`, of which `bytes` (at least one) may be read; 0 when it is no UTF-8: cut, overlong,
 * a surrogate, beyond U+10FFFF. Reads no byte behind one that is no continuation, so NUL-terminated text needs no
 * length.
 */
static inline unsigned tml_utf8_length(const unsigned char *text, size_t bytes)
{
    unsigned lead = text[0];
    if (lead < 0x80)
        return 1;
    unsigned length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || bytes < length)
        return 0;
    for (unsigned i = 1; i < length; i++)
        if ((text[i] & 0xC0) != 0x80)
            return 0;
    if ((lead == 0xE0 && text[1] < 0xA0) || (lead == 0xF0 && text[1] < 0x90))
        return 0; /* overlong */
    if ((lead == 0xED && text[1] > 0x9F) || (lead == 0xF4 && text[1] > 0x8F))
        return 0; /* surrogate, beyond the last plane */
    return length;
}

#endif
