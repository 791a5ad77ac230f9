/* SPDX-License-Identifier: MIT */
#include "base/rng.h"

#include <criterion/criterion.h>

Test(base_rng, it_is_splitmix64)
{
    struct trp_rng rng = {0};

    /* The first outputs of the authors' own program for the seed 0. */
    cr_assert_eq(trp_rng_next(&rng), UINT64_C(0xe220a8397b1dcdaf));
    cr_assert_eq(trp_rng_next(&rng), UINT64_C(0x6e789e6aa1b965f4));
    cr_assert_eq(trp_rng_next(&rng), UINT64_C(0x06c45d188009454f));
}

Test(base_rng, the_same_seed_gives_the_same_numbers)
{
    struct trp_rng a = {42};
    struct trp_rng b = {42};

    for (int i = 0; i < 1000; i++) {
        cr_assert_eq(trp_rng_next(&a), trp_rng_next(&b));
    }
}

Test(base_rng, below_one_is_zero)
{
    struct trp_rng rng = {1};

    for (int i = 0; i < 1000; i++) {
        cr_assert_eq(trp_rng_below(&rng, 1), 0);
    }
}

Test(base_rng, below_stays_below_and_reaches_everything)
{
    struct trp_rng rng = {7};
    uint32_t counts[10] = {0};

    for (int i = 0; i < 100000; i++) {
        uint32_t n = trp_rng_below(&rng, 10);

        cr_assert_lt(n, 10);
        counts[n]++;
    }
    /* Binomial: 10000 expected, standard deviation 95; this is ten of them. */
    for (int i = 0; i < 10; i++) {
        cr_assert(counts[i] > 9050 && counts[i] < 10950, "%u", counts[i]);
    }
}

Test(base_rng, below_the_largest_number_stays_below)
{
    struct trp_rng rng = {9};

    for (int i = 0; i < 1000; i++) {
        cr_assert_lt(trp_rng_below(&rng, UINT32_MAX), UINT32_MAX);
    }
}
