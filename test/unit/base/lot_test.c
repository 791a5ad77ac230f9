/* SPDX-License-Identifier: MIT */
#include "base/lot.h"

#include <criterion/criterion.h>

#define US UINT64_C(1000)

/* So many events, `apart_ns` from each other; the sum of the weights. */
static uint64_t
draw_all(struct trp_lot *lot, uint32_t events, uint64_t apart_ns,
    uint32_t *drawn, uint32_t *most)
{
    uint64_t sum = 0, now_ns = 1;

    *drawn = *most = 0;
    for (uint32_t i = 0; i < events; i++, now_ns += apart_ns) {
        if (trp_lot_draw(lot)) {
            uint32_t weight = trp_lot_weigh(lot, now_ns);

            sum += weight;
            *most = weight > *most ? weight : *most;
            ++*drawn;
        }
    }
    return sum;
}

Test(base_lot, the_first_is_drawn_and_stands_for_itself)
{
    struct trp_lot lot = {0};

    cr_assert(trp_lot_draw(&lot));
    cr_assert_eq(trp_lot_weigh(&lot, 5), 1);
}

Test(base_lot, slow_events_are_all_drawn)
{
    struct trp_lot lot = {0};
    uint32_t drawn, most;

    cr_assert_eq(draw_all(&lot, 1000, 10 * US, &drawn, &most), 1000);
    cr_assert_eq(drawn, 1000);
    cr_assert_eq(most, 1);
}

Test(base_lot, of_quick_ones_about_one_of_64_is_and_none_is_forgotten)
{
    struct trp_lot lot = {0};

    for (uint64_t apart_ns = 50; apart_ns <= 2 * US; apart_ns += 975) {
        uint32_t drawn, most;
        uint64_t sum = draw_all(&lot, 1000000, apart_ns, &drawn, &most);

        cr_assert_leq(sum, 1000000 + 127);
        cr_assert_gt(sum, 1000000 - 128);
        cr_assert_leq(most, TRP_LOT_MOST);
        cr_assert_gt(drawn, 1000000 / 70);
        cr_assert_lt(drawn, 1000000 / 58);
    }
}

Test(base_lot, a_pattern_is_not_always_hit_in_the_same_place)
{
    struct trp_lot lot = {0};
    uint64_t even = 0, all = 0;

    for (uint32_t i = 0; i < 1000000; i++) {
        if (trp_lot_draw(&lot)) {
            uint32_t weight = trp_lot_weigh(&lot, 1 + i);

            all += weight;
            even += i % 2 == 0 ? weight : 0;
        }
    }
    cr_assert_gt(even, all * 48 / 100);
    cr_assert_lt(even, all * 52 / 100);
}

Test(base_lot, when_they_slow_down_all_are_drawn_again)
{
    struct trp_lot lot = {0};
    uint32_t drawn, most;

    (void)draw_all(&lot, 1000, 50, &drawn, &most);
    (void)draw_all(&lot, 127, 20 * US, &drawn, &most);
    cr_assert_eq(draw_all(&lot, 100, 20 * US, &drawn, &most), 100);
    cr_assert_eq(drawn, 100);
}
