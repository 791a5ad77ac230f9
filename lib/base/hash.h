/* SPDX-License-Identifier: MIT */
#ifndef TRP_BASE_HASH_H
#define TRP_BASE_HASH_H

/*
 * Numbers for keys. Not for secrets, and no defence against who chooses keys
 * that collide: all of them can be computed by anybody.
 *
 * fnv32   FNV-1a of 32 bits (Fowler, Noll, Vo) over bytes.
 * text32  The same over the UTF-16 code units of a text that is given in UTF-8,
 *         each as one step: what systems compute whose strings are UTF-16 (the
 *         one that troupe shares its router's hash with is). For ASCII it is
 *         fnv32. A byte that begins no well-formed character counts as a unit
 *         of its own, so any bytes have a number and none is replaced.
 * mix64   A bijection that spreads every bit over all (the finaliser of
 *         SplitMix64, see base/rng.h).
 * bytes64 FNV-1a of 64 bits over bytes, mixed: for use in one process.
 */

#include <stddef.h>
#include <stdint.h>

uint32_t trp_hash_fnv32(const void *bytes, size_t count);
uint32_t trp_hash_text32(const void *utf8, size_t count);
uint64_t trp_hash_bytes64(const void *bytes, size_t count);

static inline uint64_t
trp_hash_mix64(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

#endif /* TRP_BASE_HASH_H */
