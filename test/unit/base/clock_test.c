/* SPDX-License-Identifier: MIT */
#include "base/clock.h"

#include <criterion/criterion.h>

Test(base_clock, time_never_goes_back)
{
    uint64_t before = trp_clock_ns();

    for (int i = 0; i < 100000; i++) {
        uint64_t now = trp_clock_ns();

        cr_assert_geq(now, before);
        before = now;
    }
}

Test(base_clock, time_passes)
{
    uint64_t before = trp_clock_ns();
    uint32_t reads = 0;

    while (trp_clock_ns() == before && reads < UINT32_MAX) {
        reads++;
    }
    cr_assert_gt(trp_clock_ns(), before);
}

Test(base_clock, it_counts_nanoseconds_of_the_monotonic_clock)
{
    struct timespec now;
    uint64_t first = trp_clock_ns();
    uint64_t between;

    clock_gettime(CLOCK_MONOTONIC, &now);
    between = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    cr_assert_leq(first, between);
    cr_assert_leq(between, trp_clock_ns());
}

Test(base_clock, after_adds)
{
    cr_assert_eq(trp_clock_after(5, 7), 12);
    cr_assert_eq(trp_clock_after(0, 0), 0);
}

Test(base_clock, after_saturates)
{
    cr_assert_eq(trp_clock_after(1, UINT64_MAX), UINT64_MAX);
    cr_assert_eq(trp_clock_after(UINT64_MAX, 1), UINT64_MAX);
    cr_assert_eq(trp_clock_after(UINT64_MAX - 1, 1), UINT64_MAX);
    cr_assert_eq(trp_clock_after(UINT64_MAX - 2, 1), UINT64_MAX - 1);
}
