/* SPDX-License-Identifier: MIT */
#include "queue/wheel.h"

#include "support/seed.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#define ENTRIES 300
#define NO_LIMIT UINT32_MAX

/* First the plain list that the wheel must agree with. */
struct item {
    struct trp_wheel_entry entry; /* first */
    uint64_t added;               /* when, in calls */
    bool is_set;
};

static struct trp_wheel wheel;
static struct item items[ENTRIES];
static uint64_t calls;

static void
add(struct item *item, uint64_t time)
{
    trp_wheel_add(&wheel, &item->entry, time);
    item->added = ++calls;
    item->is_set = true;
}

static bool
remove_item(struct item *item)
{
    bool was = item->is_set;

    item->is_set = false;
    return trp_wheel_remove(&wheel, &item->entry) == was;
}

/* What has to come out next, if it is due. */
static struct item *
first_of_all(uint64_t now)
{
    struct item *found = NULL;

    for (int i = 0; i < ENTRIES; i++) {
        struct item *item = &items[i];

        if (item->is_set && item->entry.time <= now &&
            item->entry.time != TRP_WHEEL_NEVER &&
            (found == NULL || item->entry.time < found->entry.time ||
                (item->entry.time == found->entry.time &&
                    item->added < found->added))) {
            found = item;
        }
    }
    return found;
}

static uint64_t
first_time(void)
{
    const struct item *first = first_of_all(UINT64_MAX);

    return first != NULL ? first->entry.time : TRP_WHEEL_NEVER;
}

static struct item *
pop(uint64_t now)
{
    uint32_t steps = NO_LIMIT;
    struct trp_wheel_entry *entry = trp_wheel_pop(&wheel, now, &steps);

    return (struct item *)(void *)entry;
}

static void
expect_nothing(uint64_t now)
{
    cr_assert_null(pop(now));
}

static void
setup(void)
{
    trp_wheel_init(&wheel, 0);
}

TestSuite(queue_wheel, .init = setup);

Test(queue_wheel, a_new_one_has_nothing)
{
    cr_assert_eq(trp_wheel_next(&wheel), TRP_WHEEL_NEVER);
    expect_nothing(0);
    expect_nothing(UINT64_MAX);
    cr_assert_eq(trp_wheel_next(&wheel), TRP_WHEEL_NEVER);
}

Test(queue_wheel, an_entry_comes_out_at_its_time_and_not_before)
{
    static const uint64_t times[] = {1, 2, 63, 64, 65, 4095, 4096, 262143,
        262144, UINT64_C(1) << 31, UINT64_C(1) << 32, UINT64_C(1) << 60,
        (UINT64_C(1) << 63) + 12345, UINT64_MAX - 1};

    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        trp_wheel_init(&wheel, 0);
        add(&items[0], times[i]);
        cr_assert(trp_wheel_has(&items[0].entry));
        cr_assert_eq(trp_wheel_next(&wheel), times[i]);
        expect_nothing(times[i] / 2);
        expect_nothing(times[i] - 1);
        cr_assert_eq(trp_wheel_next(&wheel), times[i]);
        cr_assert_eq(pop(times[i]), &items[0]);
        cr_assert_not(trp_wheel_has(&items[0].entry));
        expect_nothing(UINT64_MAX);
    }
}

Test(queue_wheel, what_has_passed_is_due_at_once)
{
    trp_wheel_init(&wheel, 1000);
    add(&items[0], 999);
    add(&items[1], 1000);
    add(&items[2], 0);
    cr_assert_leq(trp_wheel_next(&wheel), 1000);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(pop(1000), &items[i]);
    }
    expect_nothing(1000);
}

Test(queue_wheel, never_is_never)
{
    add(&items[0], TRP_WHEEL_NEVER);
    cr_assert_eq(trp_wheel_next(&wheel), TRP_WHEEL_NEVER);
    expect_nothing(UINT64_MAX);
    cr_assert(trp_wheel_has(&items[0].entry));
    cr_assert(remove_item(&items[0]));
    cr_assert_not(trp_wheel_remove(&wheel, &items[0].entry));
}

Test(queue_wheel, the_same_time_is_first_in_first_out)
{
    for (int i = 0; i < ENTRIES; i++) {
        add(&items[i], 5000);
        if (i == ENTRIES / 2) {
            expect_nothing(4999); /* the others are added closer to it */
        }
    }
    for (int i = 0; i < ENTRIES; i++) {
        cr_assert_eq(pop(5000), &items[i]);
    }
    expect_nothing(5000);
}

Test(queue_wheel, what_is_on_its_way_out_can_be_removed)
{
    for (int i = 0; i < 10; i++) {
        add(&items[i], 77);
    }
    cr_assert_eq(pop(100), &items[0]);
    cr_assert(remove_item(&items[1]));
    cr_assert(remove_item(&items[9]));
    add(&items[9], 50); /* the time has passed: after the others */
    for (int i = 2; i < 10; i++) {
        cr_assert_eq(pop(100), &items[i]);
    }
    expect_nothing(100);
    cr_assert_eq(trp_wheel_next(&wheel), TRP_WHEEL_NEVER);
}

Test(queue_wheel, an_entry_can_be_added_again_as_it_comes_out)
{
    add(&items[0], 10);
    for (uint64_t now = 10; now < 100000; now += 10) {
        cr_assert_eq(pop(now), &items[0]);
        add(&items[0], now + 10);
        expect_nothing(now + 9);
    }
}

Test(queue_wheel, next_is_exact_until_something_is_removed)
{
    add(&items[0], 100000);
    add(&items[1], 100001);
    cr_assert_eq(trp_wheel_next(&wheel), 100000);
    cr_assert(remove_item(&items[0]));
    cr_assert_leq(trp_wheel_next(&wheel), 100001);
    expect_nothing(100000);
    cr_assert_eq(trp_wheel_next(&wheel), 100001);
    cr_assert(remove_item(&items[1]));
    cr_assert_eq(trp_wheel_next(&wheel), TRP_WHEEL_NEVER);
}

Test(queue_wheel, steps_limit_the_work_of_one_call)
{
    uint32_t calls_needed = 0;
    uint32_t out = 0;

    for (int i = 0; i < ENTRIES; i++) {
        add(&items[i], (UINT64_C(1) << 40) + (uint64_t)i * 1000003);
    }
    while (out < ENTRIES) {
        uint32_t steps = 7;
        struct trp_wheel_entry *entry;

        calls_needed++;
        cr_assert_lt(calls_needed, ENTRIES * TRP_WHEEL_LEVELS);
        while ((entry = trp_wheel_pop(&wheel, UINT64_C(1) << 50, &steps)) !=
               NULL) {
            cr_assert_eq(entry, &items[out].entry);
            out++;
        }
        cr_assert(steps == 0 || out == ENTRIES);
        if (out < ENTRIES) {
            cr_assert_leq(trp_wheel_next(&wheel), items[out].entry.time);
        }
    }
    cr_assert_gt(calls_needed, ENTRIES / 7);
}

/* Added in the middle of a move: must not come before what was there. */
Test(queue_wheel, an_interrupted_move_keeps_the_order)
{
    uint32_t steps = 3;

    for (int i = 0; i < 10; i++) {
        add(&items[i], 70000 + (uint64_t)(i % 2));
    }
    cr_assert_null(trp_wheel_pop(&wheel, 80000, &steps));
    add(&items[10], 70000);
    add(&items[11], 70001);
    for (int i = 0; i < 12; i++) {
        struct item *expected = first_of_all(80000);

        cr_assert_eq(pop(80000), expected);
        expected->is_set = false;
    }
    expect_nothing(80000);
}

/* --- against the plain list ----------------------------------------------- */

/* Near ones, far ones, the edges of levels, what has passed, never. */
static uint64_t
random_time(struct test_rng *rng, uint64_t now)
{
    uint64_t distance = test_random(rng) >> test_random_below(rng, 64);
    uint64_t edge = UINT64_C(1) << test_random_below(rng, 64);

    switch (test_random_below(rng, 8)) {
    case 0:
        return TRP_WHEEL_NEVER;
    case 1:
        return now - (now < distance ? now : distance);
    case 2: /* about the next multiple of a power of two */
        edge = (now | (edge - 1)) + test_random_below(rng, 3) - 1;
        return edge > now ? edge : now;
    case 3:
        return now + test_random_below(rng, 4);
    case 4: /* many of the same */
        return (now | 0xffff) + 1;
    default:
        return distance > TRP_WHEEL_NEVER - now ? TRP_WHEEL_NEVER
                                                : now + distance;
    }
}

/* Past times are in the order in which they were added, after `now`. */
static void
add_random(struct test_rng *rng, struct item *item, uint64_t now)
{
    uint64_t time = random_time(rng, now);

    if (time <= wheel.now) {
        time = wheel.now; /* so that the list sorts it as it must be */
    }
    add(item, time);
}

static void
run_against_list(struct test_rng *rng, uint32_t operations)
{
    uint64_t now = test_random(rng) >> test_random_below(rng, 64);

    memset(items, 0, sizeof items);
    trp_wheel_init(&wheel, now);
    for (uint32_t i = 0; i < operations; i++) {
        struct item *item = &items[test_random_below(rng, ENTRIES)];

        switch (test_random_below(rng, 6)) {
        case 0:
        case 1:
        case 2:
            if (item->is_set) {
                cr_assert(remove_item(item));
            }
            add_random(rng, item, now);
            break;
        case 3:
            cr_assert(remove_item(item));
            break;
        case 4: { /* to the next one, or into the blue */
            uint64_t next = first_time();

            if (test_random_below(rng, 2) == 0 && next != TRP_WHEEL_NEVER) {
                now = next > now ? next : now;
            } else {
                uint64_t by =
                    test_random(rng) >> (8 + test_random_below(rng, 56));

                now = by > UINT64_MAX - now ? UINT64_MAX : now + by;
            }
            break;
        }
        default: {
            uint32_t most = test_random_below(rng, 2 * ENTRIES);

            for (uint32_t n = 0; n < most; n++) {
                struct item *expected = first_of_all(now);

                cr_assert_eq(pop(now), expected, "operation %u", i);
                if (expected == NULL) {
                    break;
                }
                expected->is_set = false;
            }
        }
        }
        cr_assert_leq(trp_wheel_next(&wheel),
            first_time() > wheel.now ? first_time() : wheel.now, "operation %u",
            i);
    }
}

Test(queue_wheel, it_agrees_with_a_sorted_list)
{
    struct test_rng rng = {test_seed()};

    for (int round = 0; round < 400; round++) {
        run_against_list(&rng, 500);
    }
}

/* --- many ----------------------------------------------------------------- */

#define MANY 1000000

Test(queue_wheel, a_million_come_out_in_order)
{
    struct test_rng rng = {test_seed()};
    struct trp_wheel_entry *many = calloc(MANY, sizeof *many);
    uint64_t last = 0;
    uint32_t removed = 0;
    uint32_t out = 0;

    cr_assert_not_null(many);
    for (uint32_t i = 0; i < MANY; i++) {
        trp_wheel_add(&wheel, &many[i],
            1 + test_random(&rng) % (UINT64_C(3600) * 1000000000));
    }
    for (uint32_t i = 0; i < MANY; i += 2) {
        removed += trp_wheel_remove(&wheel, &many[i]);
    }
    cr_assert_eq(removed, MANY / 2);
    while (trp_wheel_next(&wheel) != TRP_WHEEL_NEVER) {
        uint64_t now = trp_wheel_next(&wheel) + 1000000;
        uint32_t steps = NO_LIMIT;
        struct trp_wheel_entry *entry;

        while ((entry = trp_wheel_pop(&wheel, now, &steps)) != NULL) {
            cr_assert_geq(entry->time, last);
            cr_assert_leq(entry->time, now);
            last = entry->time;
            out++;
        }
    }
    cr_assert_eq(out, MANY / 2);
    free(many);
}
