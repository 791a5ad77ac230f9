/* SPDX-License-Identifier: MIT */
#ifndef TRP_BASE_RNG_H
#define TRP_BASE_RNG_H

/*
 * SplitMix64 (Steele, Lea, Flood 2014: "Fast splittable pseudorandom number
 * generators"). Not for secrets. There is no global stream.
 */

#include <stdint.h>

struct trp_rng {
    uint64_t state;
};

static inline uint64_t
trp_rng_next(struct trp_rng *rng)
{
    uint64_t z = (rng->state += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* 0 .. n - 1, n > 0; the bias is below n / 2^32. */
static inline uint32_t
trp_rng_below(struct trp_rng *rng, uint32_t n)
{
    return (uint32_t)(((trp_rng_next(rng) >> 32) * n) >> 32);
}

#endif /* TRP_BASE_RNG_H */
