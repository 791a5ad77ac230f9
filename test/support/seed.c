/* SPDX-License-Identifier: MIT */
#include "support/seed.h"

#include "support/await.h"

#include <stdio.h>
#include <stdlib.h>

uint64_t
test_random(struct test_rng *rng)
{
    uint64_t z = (rng->state += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint32_t
test_random_below(struct test_rng *rng, uint32_t n)
{
    return (uint32_t)(((test_random(rng) >> 32) * n) >> 32);
}

uint64_t
test_seed(void)
{
    const char *text = getenv("TEST_SEED");
    struct test_rng clock = {test_clock_ns()};
    uint64_t seed =
        text != NULL ? strtoull(text, NULL, 10) : test_random(&clock) >> 32;

    (void)fprintf(stderr, "TEST_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}
