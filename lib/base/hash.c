/* SPDX-License-Identifier: MIT */
#include "base/hash.h"

/* The parameters of FNV, by its authors. */
#define BASIS_32 UINT32_C(2166136261)
#define PRIME_32 UINT32_C(16777619)
#define BASIS_64 UINT64_C(0xcbf29ce484222325)
#define PRIME_64 UINT64_C(0x100000001b3)

static uint32_t
step(uint32_t hash, uint32_t unit)
{
    return (hash ^ unit) * PRIME_32;
}

uint32_t
trp_hash_fnv32(const void *bytes, size_t count)
{
    const unsigned char *byte = bytes;
    uint32_t hash = BASIS_32;

    for (size_t i = 0; i < count; i++) {
        hash = step(hash, byte[i]);
    }
    return hash;
}

uint64_t
trp_hash_bytes64(const void *bytes, size_t count)
{
    const unsigned char *byte = bytes;
    uint64_t hash = BASIS_64;

    for (size_t i = 0; i < count; i++) {
        hash = (hash ^ byte[i]) * PRIME_64;
    }
    return trp_hash_mix64(hash);
}

/*
 * How many bytes a character has that begins with this one (RFC 3629). 1 also
 * for a byte that begins none.
 */
static size_t
length_of(unsigned char first)
{
    if (first < 0xc2 || first > 0xf4) {
        return 1;
    }
    return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

/*
 * The character of `length` bytes, 2 to 4, of which the first says so; 0: it is
 * not well-formed, for 0 has one byte.
 */
static uint32_t
character(const unsigned char *at, size_t length)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t code = at[0] & (0x7fu >> length);

    for (size_t i = 1; i < length; i++) {
        if ((at[i] & 0xc0) != 0x80) {
            return 0;
        }
        code = code << 6 | (at[i] & 0x3f);
    }
    if (code < least[length] || code > 0x10ffff ||
        (code >= 0xd800 && code < 0xe000)) {
        return 0; /* too long a form, too large, half of a pair */
    }
    return code;
}

uint32_t
trp_hash_text32(const void *utf8, size_t count)
{
    const unsigned char *at = utf8;
    uint32_t hash = BASIS_32;

    while (count > 0) {
        size_t length = length_of(*at);
        uint32_t code =
            length > 1 && length <= count ? character(at, length) : 0;

        if (code == 0) {
            code = *at;
            length = 1;
        }
        if (code < 0x10000) {
            hash = step(hash, code);
        } else {
            hash = step(hash, 0xd800 + ((code - 0x10000) >> 10));
            hash = step(hash, 0xdc00 + (code & 0x3ff));
        }
        at += length;
        count -= length;
    }
    return hash;
}
