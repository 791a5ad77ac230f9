/* SPDX-License-Identifier: MIT */
#include "base/least.h"

#include "base/align.h"
#include "base/cpu.h"
#include "support/seed.h"

#include <criterion/criterion.h>

enum { MOST = 1100, ROOM = (MOST / 32 + 1) * 32 };

static _Alignas(TRP_CACHE_LINE) TRP_ATOMIC(uint32_t) slots[ROOM];
static trp_least_fn best;

static void
setup(void)
{
    best = trp_least_best();
}

TestSuite(base_least, .init = setup);

static void
set(uint32_t index, uint32_t value)
{
    /* relaxed: one thread */
    trp_store_relaxed(&slots[index], value);
}

/* The words of the header, one slot after the other, no stop at 0. */
static uint32_t
reference(uint32_t count, uint32_t start)
{
    uint32_t found = TRP_LEAST_NONE;

    for (uint32_t k = 0; k < count; k++) {
        uint32_t i = (start + k) % count;

        if ((slots[i] & TRP_LEAST_DEAD) == 0 &&
            (found == TRP_LEAST_NONE || slots[i] < slots[found])) {
            found = i;
        }
    }
    return found;
}

static void
assert_start(uint32_t count, uint32_t start)
{
    uint32_t wanted = reference(count, start);

    cr_assert_eq(trp_least_plain(slots, count, start), wanted,
        "plain, %u of %u", start, count);
    cr_assert_eq(
        best(slots, count, start), wanted, "best, %u of %u", start, count);
}

static void
assert_all_starts(uint32_t count)
{
    for (uint32_t start = 0; start < count; start++) {
        assert_start(count, start);
    }
}

/* Behind the last slot stands what would win if anybody looked at it. */
static void
bait(uint32_t count)
{
    for (uint32_t i = count; i < ROOM; i++) {
        set(i, 0);
    }
}

/* From few different values (ties, a 0 here and there) to all that there are,
 * some or most of the slots dead, with whatever number.
 */
static void
fill(struct test_rng *rng, uint32_t count)
{
    static const uint32_t ranges[] = {1, 2, 3, 100, UINT32_MAX / 2};
    static const uint32_t dead_percents[] = {0, 0, 5, 50, 99};
    uint32_t range = ranges[test_random_below(rng, 5)];
    uint32_t dead_percent = dead_percents[test_random_below(rng, 5)];
    uint32_t least = test_random_below(rng, 2);

    for (uint32_t i = 0; i < count; i++) {
        uint32_t value = least + test_random_below(rng, range);

        if (test_random_below(rng, 100) < dead_percent) {
            value |= TRP_LEAST_DEAD;
        }
        set(i, value);
    }
    bait(count);
}

#if defined(__x86_64__)
Test(base_least, a_processor_with_avx_uses_it)
{
    cr_assert_eq(best != trp_least_plain, trp_cpu_has_avx());
}
#endif

Test(base_least, every_form_finds_the_first_of_the_smallest_from_every_start)
{
    struct test_rng rng = {test_seed()};

    for (uint32_t count = 1; count <= 140; count++) {
        for (int i = 0; i < 20; i++) {
            fill(&rng, count);
            assert_all_starts(count);
        }
    }
}

Test(base_least, every_form_does_so_at_every_size_up_to_1100)
{
    struct test_rng rng = {test_seed()};

    for (uint32_t count = 1; count <= MOST; count++) {
        for (int i = 0; i < 20; i++) {
            fill(&rng, count);
            assert_start(count, test_random_below(&rng, count));
            assert_start(count, 0);
            assert_start(count, count - 1);
        }
    }
}

Test(base_least, one_slot_that_is_alive_is_found_wherever_it_is)
{
    for (uint32_t count = 1; count <= 100; count++) {
        bait(count);
        for (uint32_t alive = 0; alive < count; alive++) {
            for (uint32_t i = 0; i < count; i++) {
                set(i, TRP_LEAST_DEAD);
            }
            set(alive, TRP_LEAST_DEAD - 1);
            for (uint32_t start = 0; start < count; start++) {
                cr_assert_eq(best(slots, count, start), alive);
                cr_assert_eq(trp_least_plain(slots, count, start), alive);
            }
        }
    }
}

Test(base_least, nothing_is_found_where_all_are_dead)
{
    for (uint32_t count = 1; count <= 200; count++) {
        for (uint32_t i = 0; i < count; i++) {
            set(i, TRP_LEAST_DEAD | i % 3);
        }
        bait(count);
        for (uint32_t start = 0; start < count; start++) {
            cr_assert_eq(best(slots, count, start), TRP_LEAST_NONE);
            cr_assert_eq(trp_least_plain(slots, count, start), TRP_LEAST_NONE);
        }
    }
}

Test(base_least, equal_slots_are_taken_in_turns)
{
    for (uint32_t count = 1; count <= 200; count++) {
        for (uint32_t value = 0; value < 3; value++) {
            for (uint32_t i = 0; i < count; i++) {
                set(i, value);
            }
            bait(count);
            for (uint32_t start = 0; start < count; start++) {
                cr_assert_eq(best(slots, count, start), start);
                cr_assert_eq(trp_least_plain(slots, count, start), start);
            }
        }
    }
}

/* Every slot is better than all before it, so every block has a new best. */
Test(base_least, the_last_of_a_falling_row_is_found)
{
    for (uint32_t i = 0; i < MOST; i++) {
        set(i, MOST - i);
    }
    bait(MOST);
    assert_all_starts(MOST);
}
