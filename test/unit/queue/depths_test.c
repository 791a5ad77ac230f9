/* SPDX-License-Identifier: MIT */
#include "queue/depths.h"

#include "support/seed.h"

#include <criterion/criterion.h>

enum { COUNT = 70 };

static _Alignas(TRP_CACHE_LINE) unsigned char room[512];
static struct trp_depths depths;

static void
setup(void)
{
    cr_assert_leq(trp_depths_bytes(COUNT), sizeof room);
    trp_depths_init(&depths, room, COUNT, trp_least_best());
}

TestSuite(queue_depths, .init = setup);

Test(queue_depths, the_room_is_whole_blocks)
{
    cr_assert_eq(trp_depths_bytes(1), 128);
    cr_assert_eq(trp_depths_bytes(32), 128);
    cr_assert_eq(trp_depths_bytes(33), 256);
    cr_assert_eq(depths.capacity, 96);
}

Test(queue_depths, a_new_one_has_closed_slots_only)
{
    for (uint32_t i = 0; i < depths.capacity; i++) {
        cr_assert_eq(trp_depths_get(&depths, i), TRP_LEAST_DEAD);
    }
    cr_assert_eq(trp_depths_least(&depths, COUNT, 3), TRP_LEAST_NONE);
}

Test(queue_depths, the_shortest_open_one_is_found)
{
    for (uint32_t i = 0; i < COUNT; i += 2) {
        trp_depths_open(&depths, i);
        trp_depths_add(&depths, i, 1 + i);
    }
    cr_assert_eq(trp_depths_least(&depths, COUNT, 10), 0);
    trp_depths_sub(&depths, 40, 41);
    cr_assert_eq(trp_depths_least(&depths, COUNT, 10), 40);
    trp_depths_close(&depths, 40);
    cr_assert_eq(trp_depths_least(&depths, COUNT, 10), 0);
}

Test(queue_depths, a_slot_that_is_closed_keeps_its_number)
{
    trp_depths_open(&depths, 5);
    trp_depths_add(&depths, 5, 12);
    trp_depths_close(&depths, 5);
    cr_assert_eq(trp_depths_get(&depths, 5), TRP_LEAST_DEAD | 12);
    trp_depths_sub(&depths, 5, 2);
    trp_depths_open(&depths, 5);
    cr_assert_eq(trp_depths_get(&depths, 5), 10);
}

/* Who adds and takes back does not know about closing and opening. */
Test(queue_depths, changes_commute_with_closing_and_opening)
{
    struct test_rng rng = {test_seed()};
    uint32_t added[COUNT] = {0};
    bool is_open[COUNT] = {false};

    for (int i = 0; i < 100000; i++) {
        uint32_t slot = test_random_below(&rng, COUNT);

        switch (test_random_below(&rng, 3)) {
        case 0:
            trp_depths_add(&depths, slot, 3);
            added[slot] += 3;
            break;
        case 1:
            trp_depths_sub(&depths, slot, added[slot] / 2);
            added[slot] -= added[slot] / 2;
            break;
        default:
            if (is_open[slot]) {
                trp_depths_close(&depths, slot);
            } else {
                trp_depths_open(&depths, slot);
            }
            is_open[slot] = !is_open[slot];
        }
        cr_assert_eq(trp_depths_get(&depths, slot),
            added[slot] | (is_open[slot] ? 0 : TRP_LEAST_DEAD));
    }
}
