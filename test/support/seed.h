/* SPDX-License-Identifier: MIT */
#ifndef TEST_SUPPORT_SEED_H
#define TEST_SUPPORT_SEED_H

/*
 * One seed per test program, printed; every random choice comes from it.
 * TEST_SEED=n repeats a run. The generator is SplitMix64.
 */

#include <stdint.h>

struct test_rng {
    uint64_t state;
};

/* TEST_SEED, else one from the clock; printed on stderr as "TEST_SEED=n". */
uint64_t test_seed(void);

uint64_t test_random(struct test_rng *rng);
/* 0 .. n - 1. */
uint32_t test_random_below(struct test_rng *rng, uint32_t n);

#endif /* TEST_SUPPORT_SEED_H */
