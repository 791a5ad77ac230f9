/* SPDX-License-Identifier: MIT */
#include "base/align.h"

#include <criterion/criterion.h>

Test(base_align, round_up_leaves_multiples_alone)
{
    cr_assert_eq(trp_round_up(0, 64), 0);
    cr_assert_eq(trp_round_up(64, 64), 64);
    cr_assert_eq(trp_round_up(4096, 64), 4096);
}

Test(base_align, round_up_goes_to_the_next_multiple)
{
    cr_assert_eq(trp_round_up(1, 64), 64);
    cr_assert_eq(trp_round_up(65, 64), 128);
    cr_assert_eq(trp_round_up(4095, 4096), 4096);
    cr_assert_eq(trp_round_up(7, 1), 7);
}

Test(base_align, log2_ceil_is_the_smallest_power_that_holds)
{
    cr_assert_eq(trp_log2_ceil(0), 0);
    cr_assert_eq(trp_log2_ceil(1), 0);
    cr_assert_eq(trp_log2_ceil(2), 1);
    cr_assert_eq(trp_log2_ceil(3), 2);
    cr_assert_eq(trp_log2_ceil(UINT64_C(1) << 40), 40);
    cr_assert_eq(trp_log2_ceil((UINT64_C(1) << 40) + 1), 41);
    cr_assert_eq(trp_log2_ceil(UINT64_MAX), 64);
    for (uint32_t k = 1; k < 64; k++) {
        cr_assert_eq(trp_log2_ceil(UINT64_C(1) << k), k);
        cr_assert_eq(trp_log2_ceil((UINT64_C(1) << k) - 1), k > 1 ? k : 0);
    }
}

struct outer {
    char first;
    uint64_t member;
};

Test(base_align, container_of_finds_the_whole_from_a_part)
{
    struct outer outer = {0, 0};

    cr_assert_eq(TRP_CONTAINER_OF(&outer.member, struct outer, member), &outer);
    cr_assert_eq(TRP_CONTAINER_OF(&outer.first, struct outer, first), &outer);
}

Test(base_align, count_of_is_the_number_of_elements)
{
    uint32_t numbers[7] = {0};

    cr_assert_eq(TRP_COUNT_OF(numbers), 7);
}
