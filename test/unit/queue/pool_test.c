/* SPDX-License-Identifier: MIT */
#include "queue/pool.h"

#include "support/alloc.h"
#include "support/await.h"
#include "support/census.h"
#include "support/require.h"
#include "support/seed.h"

#include <criterion/criterion.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define CACHES 4

static struct test_alloc alloc;
static struct trp_heap heap;
static struct trp_pool pool;
static struct trp_pool_cache cache[CACHES];
static struct trp_pool_cache *caches[CACHES];

static bool
open_pool(const struct trp_pool_shape *shape)
{
    if (!trp_pool_init(&pool, &heap, shape)) {
        return false;
    }
    for (uint32_t i = 0; i < CACHES; i++) {
        caches[i] = &cache[i];
    }
    pool.caches = caches;
    pool.cache_count = CACHES;
    return true;
}

/* Blocks of 256 bytes, 512, 1024 and so on up to 2 MiB. */
static const struct trp_pool_shape ordinary = {8, 20, 14, 0, false};

static void
setup(void)
{
    trp_heap_init(&heap, test_alloc, test_free, &alloc);
}

static void
teardown(void)
{
    trp_pool_fini(&pool);
    test_require(test_alloc_is_empty(&alloc));
}

TestSuite(queue_pool, .init = setup, .fini = teardown);

static char *
at(uint32_t unit)
{
    return trp_pool_address(&pool, unit);
}

static size_t
bytes_of(uint32_t class)
{
    return (size_t)256 << class;
}

Test(queue_pool, a_zeroed_one_can_be_ended)
{
    trp_pool_fini(&pool);
}

Test(queue_pool, no_address_space_is_a_failure_that_leaves_nothing)
{
    struct test_census before = test_census();

    trp_store_relaxed(&heap.fail_at, 1);
    cr_assert_not(open_pool(&ordinary));
    cr_assert_eq(test_census().mappings, before.mappings);
}

Test(queue_pool, more_address_space_than_there_is_is_a_failure)
{
    struct test_census before = test_census();
    const struct trp_pool_shape vast = {24, 23, 23, 0, false};

    cr_assert_not(open_pool(&vast));
    cr_assert_eq(test_census().mappings, before.mappings);
}

Test(queue_pool, unit_zero_is_never_handed_out)
{
    cr_assert(open_pool(&ordinary));
    for (int i = 0; i < 1000; i++) {
        cr_assert_neq(trp_pool_take(&pool, NULL, 0), TRP_POOL_NONE);
        cr_assert_neq(trp_pool_take(&pool, &cache[0], 0), TRP_POOL_NONE);
    }
}

Test(queue_pool, a_unit_says_its_class_and_its_address)
{
    cr_assert(open_pool(&ordinary));
    for (uint32_t class = 0; class < ordinary.classes; class ++) {
        for (int i = 0; i < 5; i++) {
            uint32_t unit = trp_pool_take(&pool, &cache[0], class);

            cr_assert_neq(unit, TRP_POOL_NONE);
            cr_assert_eq(trp_pool_class_of(&pool, unit), class);
            cr_assert_eq(trp_pool_unit(&pool, at(unit)), unit);
            cr_assert_eq((uintptr_t)at(unit) % 256, 0);
        }
    }
}

/* Fills blocks with their number and sees that none is part of another. */
static void
expect_separate(struct trp_pool_cache *owner, uint32_t class, uint32_t count)
{
    uint32_t *units = calloc(count, sizeof *units);

    for (uint32_t i = 0; i < count; i++) {
        units[i] = trp_pool_take(&pool, owner, class);
        cr_assert_neq(units[i], TRP_POOL_NONE);
        memset(at(units[i]), (int)(i % 251), bytes_of(class));
    }
    for (uint32_t i = 0; i < count; i++) {
        const char *block = at(units[i]);

        for (size_t k = 0; k < bytes_of(class); k += 64) {
            cr_assert_eq((unsigned char)block[k], i % 251);
        }
        trp_pool_give(&pool, owner, units[i]);
    }
    free(units);
}

Test(queue_pool, blocks_do_not_overlap)
{
    cr_assert(open_pool(&ordinary));
    for (uint32_t class = 0; class < ordinary.classes; class ++) {
        expect_separate(&cache[0], class, class < 6 ? 1000 : 40);
        expect_separate(NULL, class, 40);
    }
    cr_assert_eq(trp_pool_live_bytes(&pool), 0);
}

Test(queue_pool, live_bytes_is_what_users_hold)
{
    uint32_t a;
    uint32_t b;

    cr_assert(open_pool(&ordinary));
    a = trp_pool_take(&pool, &cache[0], 0);
    b = trp_pool_take(&pool, NULL, 3);
    cr_assert_eq(trp_pool_live_bytes(&pool), 256 + 2048);
    trp_pool_give(&pool, &cache[1], a); /* somebody else's cache */
    cr_assert_eq(trp_pool_live_bytes(&pool), 2048);
    trp_pool_give(&pool, &cache[1], b);
    cr_assert_eq(trp_pool_live_bytes(&pool), 0);
}

Test(queue_pool, max_blocks_is_exact_without_a_cache)
{
    const struct trp_pool_shape shape = {8, 18, 1, 10, true};
    uint32_t last = TRP_POOL_NONE;

    cr_assert(open_pool(&shape));
    for (int i = 0; i < 10; i++) {
        last = trp_pool_take(&pool, NULL, 0);
        cr_assert_neq(last, TRP_POOL_NONE);
    }
    cr_assert_eq(trp_pool_take(&pool, NULL, 0), TRP_POOL_NONE);
    trp_pool_give(&pool, NULL, last);
    cr_assert_eq(trp_pool_take(&pool, NULL, 0), last);
    cr_assert_eq(trp_pool_take(&pool, NULL, 0), TRP_POOL_NONE);
}

Test(queue_pool, max_blocks_is_exact_with_one_cache)
{
    const struct trp_pool_shape shape = {8, 18, 1, 100, true};
    uint32_t units[100];

    cr_assert(open_pool(&shape));
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 100; i++) {
            units[i] = trp_pool_take(&pool, &cache[0], 0);
            cr_assert_neq(units[i], TRP_POOL_NONE, "%d", i);
        }
        cr_assert_eq(trp_pool_take(&pool, &cache[0], 0), TRP_POOL_NONE);
        for (int i = 0; i < 100; i++) {
            trp_pool_give(&pool, &cache[0], units[i]);
        }
    }
}

Test(queue_pool, a_region_that_is_full_gives_none_and_recovers)
{
    const struct trp_pool_shape shape = {8, 12, 4, 0, false};
    uint32_t units[4096];
    uint32_t count = 0;

    cr_assert(open_pool(&shape));
    for (uint32_t unit; (unit = trp_pool_take(&pool, &cache[0], 2)) != 0;) {
        units[count++] = unit;
    }
    cr_assert_eq(count, 4096 / 4);
    while (count > 0) {
        trp_pool_give(&pool, &cache[0], units[--count]);
    }
    cr_assert_neq(trp_pool_take(&pool, &cache[0], 2), TRP_POOL_NONE);
    /* The neighbours were not touched. */
    cr_assert_neq(trp_pool_take(&pool, &cache[0], 1), TRP_POOL_NONE);
    cr_assert_neq(trp_pool_take(&pool, &cache[0], 3), TRP_POOL_NONE);
}

Test(queue_pool, a_commit_that_fails_gives_none_and_the_next_one_works)
{
    cr_assert(open_pool(&ordinary));
    for (uint32_t class = 0; class < ordinary.classes; class ++) {
        uint32_t unit;

        trp_store_relaxed(&heap.fail_at, 1);
        cr_assert_eq(
            trp_pool_take(&pool, &cache[0], class), TRP_POOL_NONE, "%u", class);
        unit = trp_pool_take(&pool, &cache[0], class);
        cr_assert_neq(unit, TRP_POOL_NONE);
        trp_pool_give(&pool, &cache[0], unit);
    }
    cr_assert_eq(trp_pool_live_bytes(&pool), 0);
}

Test(queue_pool, what_one_cache_gives_another_can_take)
{
    const struct trp_pool_shape shape = {8, 18, 1, 200, true};
    uint32_t units[200];

    cr_assert(open_pool(&shape));
    for (int i = 0; i < 200; i++) {
        units[i] = trp_pool_take(&pool, &cache[0], 0);
        cr_assert_neq(units[i], TRP_POOL_NONE);
    }
    for (int i = 0; i < 200; i++) {
        trp_pool_give(&pool, &cache[1], units[i]);
    }
    /* Two magazines of 32 may stay behind in the cache of the giver. */
    for (int i = 0; i < 200 - 64; i++) {
        cr_assert_neq(
            trp_pool_take(&pool, &cache[2], 0), TRP_POOL_NONE, "%d", i);
    }
}

static uint32_t
fill_and_free(uint32_t class, uint32_t count)
{
    uint32_t *units = calloc(count, sizeof *units);

    for (uint32_t i = 0; i < count; i++) {
        units[i] = trp_pool_take(&pool, &cache[0], class);
        cr_assert_neq(units[i], TRP_POOL_NONE);
        memset(at(units[i]), 0xa5, bytes_of(class));
    }
    for (uint32_t i = 0; i < count; i++) {
        trp_pool_give(&pool, &cache[0], units[i]);
    }
    free(units);
    return count;
}

static void
expect_trim_gives_back(uint32_t class, uint32_t count)
{
    cr_assert(open_pool(&ordinary));
    fill_and_free(class, count);
    cr_assert_geq(test_resident_bytes_in(pool.base, pool.reserved_bytes),
        count * bytes_of(class));
    trp_pool_trim(&pool, &cache[0], true);
    cr_assert_leq(
        test_resident_bytes_in(pool.base, pool.reserved_bytes), 256 * 1024);
    expect_separate(&cache[1], class, count < 100 ? count : 100);
}

Test(queue_pool, trim_gives_small_blocks_back)
{
    expect_trim_gives_back(0, 100000);
}

Test(queue_pool, trim_gives_medium_blocks_back)
{
    expect_trim_gives_back(5, 4000);
}

Test(queue_pool, trim_gives_large_blocks_back)
{
    expect_trim_gives_back(13, 30);
}

Test(queue_pool, trim_leaves_blocks_alone_that_somebody_holds)
{
    uint32_t held;

    cr_assert(open_pool(&ordinary));
    fill_and_free(0, 10000);
    held = trp_pool_take(&pool, &cache[1], 0);
    memset(at(held), 7, 256);
    for (int i = 0; i < 3; i++) {
        trp_pool_trim(&pool, &cache[0], true);
        trp_pool_trim(&pool, &cache[1], true);
    }
    for (int i = 0; i < 256; i++) {
        cr_assert_eq(at(held)[i], 7);
    }
    expect_separate(&cache[0], 0, 10000);
    for (int i = 0; i < 256; i++) {
        cr_assert_eq(at(held)[i], 7);
    }
}

Test(queue_pool, blocks_given_back_zeroed_read_as_zero)
{
    cr_assert(open_pool(&ordinary));
    for (int round = 0; round < 4; round++) {
        uint32_t units[2000];

        for (int i = 0; i < 2000; i++) {
            units[i] = trp_pool_take(&pool, &cache[0], 1);
            for (size_t k = 0; k < 512; k++) {
                cr_assert_eq(at(units[i])[k], 0);
            }
            at(units[i])[i % 512] = 1;
        }
        for (int i = 0; i < 2000; i++) {
            at(units[i])[i % 512] = 0;
            trp_pool_give(&pool, &cache[0], units[i]);
        }
        trp_pool_trim(&pool, &cache[0], round % 2 == 0);
    }
}

Test(queue_pool, a_kept_pool_is_never_trimmed)
{
    const struct trp_pool_shape shape = {8, 18, 1, 0, true};
    uint32_t units[3000];
    uint32_t fresh = 0;

    cr_assert(open_pool(&shape));
    for (uint32_t i = 0; i < 3000; i++) {
        units[i] = trp_pool_take(&pool, &cache[0], 0);
        memcpy(at(units[i]), &units[i], sizeof units[i]);
    }
    for (uint32_t i = 0; i < 3000; i++) {
        trp_pool_give(&pool, &cache[0], units[i]);
    }
    trp_pool_trim(&pool, &cache[0], true);
    for (uint32_t i = 0; i < 3000; i++) {
        uint32_t unit = trp_pool_take(&pool, &cache[0], 0);
        uint32_t written;

        memcpy(&written, at(unit), sizeof written);
        fresh += written == 0; /* of the last magazine, never used before */
        cr_assert(written == unit || written == 0);
    }
    cr_assert_lt(fresh, 32);
}

/* --- against a reference, one thread -------------------------------------- */

#define HELD 500

static void
take_random(struct test_rng *rng, uint32_t *held, uint32_t *count)
{
    uint32_t c = test_random_below(rng, CACHES + 1);
    uint32_t class = test_random_below(rng, 10);
    uint32_t unit = trp_pool_take(&pool, c < CACHES ? &cache[c] : NULL, class);

    cr_assert_neq(unit, TRP_POOL_NONE);
    /* The ends only: what is wrong there is wrong in between. */
    memcpy(at(unit), &unit, sizeof unit);
    memcpy(at(unit) + bytes_of(class) - sizeof unit, &unit, sizeof unit);
    held[(*count)++] = unit;
}

static void
give_random(struct test_rng *rng, uint32_t *held, uint32_t *count)
{
    uint32_t c = test_random_below(rng, CACHES + 1);
    uint32_t i = test_random_below(rng, *count);
    uint32_t unit = held[i];
    size_t bytes = bytes_of(trp_pool_class_of(&pool, unit));

    cr_assert_eq(memcmp(at(unit), &unit, sizeof unit), 0);
    cr_assert_eq(memcmp(at(unit) + bytes - sizeof unit, &unit, sizeof unit), 0);
    trp_pool_give(&pool, c < CACHES ? &cache[c] : NULL, unit);
    held[i] = held[--*count];
}

Test(queue_pool, no_block_is_in_two_places_whatever_the_order)
{
    struct test_rng rng = {test_seed()};
    uint32_t held[HELD];
    uint32_t count = 0;

    cr_assert(open_pool(&ordinary));
    for (int step = 0; step < 200000; step++) {
        uint32_t what = test_random_below(&rng, 1000);

        if (what == 0) {
            trp_pool_trim(&pool, &cache[test_random_below(&rng, CACHES)],
                test_random_below(&rng, 2) == 0);
        } else if (count == 0 || (what < 500 && count < HELD)) {
            take_random(&rng, held, &count);
        } else {
            give_random(&rng, held, &count);
        }
    }
    while (count > 0) {
        give_random(&rng, held, &count);
    }
    cr_assert_eq(trp_pool_live_bytes(&pool), 0);
}

/* --- real threads --------------------------------------------------------- */

#define ROUNDS 30000
#define BASKET 64

static _Atomic uint32_t basket[BASKET];
static _Atomic uint64_t faults;

/* Puts a marked block in the basket and frees the one that was there. */
static void *
exchange(void *user)
{
    uint32_t me = (uint32_t)(uintptr_t)user;
    struct trp_pool_cache *mine = me < CACHES ? &cache[me] : NULL;
    struct test_rng rng = {me};

    for (int i = 0; i < ROUNDS; i++) {
        uint32_t class = test_random_below(&rng, 3);
        uint32_t unit = trp_pool_take(&pool, mine, class);

        faults += unit == TRP_POOL_NONE;
        memcpy(at(unit), &unit, sizeof unit);
        unit = trp_swap_acq_rel(&basket[test_random_below(&rng, BASKET)], unit);
        if (unit != TRP_POOL_NONE) {
            faults += memcmp(at(unit), &unit, sizeof unit) != 0;
            trp_pool_give(&pool, mine, unit);
        }
        if (i % 512 == 0 && mine != NULL) {
            trp_pool_trim(&pool, mine, false);
        }
    }
    return NULL;
}

Test(queue_pool, blocks_travel_between_threads_and_none_is_lost)
{
    pthread_t threads[CACHES + 2];

    cr_assert(open_pool(&ordinary));
    for (uintptr_t i = 0; i < CACHES + 2; i++) {
        cr_assert_eq(pthread_create(&threads[i], NULL, exchange, (void *)i), 0);
    }
    for (int i = 0; i < CACHES + 2; i++) {
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
    }
    for (int i = 0; i < BASKET; i++) {
        if (basket[i] != TRP_POOL_NONE) {
            trp_pool_give(&pool, &cache[0], basket[i]);
        }
    }
    cr_assert_eq(faults, 0);
    cr_assert_eq(trp_pool_live_bytes(&pool), 0);
}
