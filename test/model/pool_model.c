/* SPDX-License-Identifier: MIT */

/*
 * lib/queue/pool.h and pool.c: blocks that travel through the depot, caches
 * with magazines, commit and bump, trim and reset against takers.
 *
 * Oracle: a table of who holds which block. Nobody gets a block that somebody
 * holds; what is written into a block stays while it is held; at the end every
 * block that was ever made can be taken exactly once (I1).
 */

#include "engine.h"
#include "interleave.h"
#include "queue/pool.h"
#include "runner.h"
#include "support.h"

#include <string.h>

#define REGION_SHIFT 16
#define HELD_MAX 256
#define THREADS 3
/* Large enough for trim to care, one block per magazine: see pool.c. */
#define TRIM_CLASS 7u
#define TRIM_BLOCKS 8u
/* Four blocks per magazine. */
#define MAGAZINE_CLASS 3u

static const struct trp_pool_shape shape = {
    .unit_shift = 8,
    .region_shift = REGION_SHIFT,
    .classes = TRIM_CLASS + 1,
};
static struct trp_pool pool;
static struct trp_pool_cache caches[THREADS + 1];
static struct trp_pool_cache *all_caches[THREADS + 1];

/* By the number of the block in its class; 0 = nobody. */
static uint32_t holder[HELD_MAX];
static uint32_t class_used;

static void
begin(uint32_t class)
{
    model_heap_begin();
    model_pool_begin(&pool, &shape, 64);
    memset(caches, 0, sizeof caches);
    for (int i = 0; i <= THREADS; i++) {
        all_caches[i] = &caches[i];
    }
    pool.caches = all_caches;
    pool.cache_count = THREADS + 1;
    memset(holder, 0, sizeof holder);
    class_used = class;
    model_name(&pool.class[class].depot, "depot");
    model_name(&pool.class[class].bump, "bump");
    model_name(&pool.class[class].committed, "committed");
}

/* Cache 0 stands for a foreign thread. */
static struct trp_pool_cache *
cache_of(uint32_t thread)
{
    return thread == 0 ? NULL : &caches[thread];
}

static uint32_t
number_of(uint32_t unit)
{
    return (unit - (class_used << REGION_SHIFT)) >> class_used;
}

static uint64_t *
words_of(uint32_t unit)
{
    return trp_pool_address(&pool, unit);
}

/* TRP_POOL_NONE is an answer only where the region is used up. */
static uint32_t
take(uint32_t thread)
{
    uint32_t unit = trp_pool_take(&pool, cache_of(thread), class_used);
    uint32_t number = number_of(unit);

    if (unit == TRP_POOL_NONE) {
        return unit;
    }
    MODEL_CHECK(trp_pool_class_of(&pool, unit) == class_used &&
                    number < HELD_MAX && (unit & ((1u << class_used) - 1)) == 0,
        "unit %x", unit);
    MODEL_CHECK(holder[number] == 0, "block %u is held by thread %u", number,
        holder[number] - 1);
    holder[number] = thread + 1;
    words_of(unit)[0] = unit;
    words_of(unit)[7] = ~(uint64_t)unit;
    model_note("took %u", number);
    return unit;
}

static void
give(uint32_t thread, uint32_t unit)
{
    uint32_t number = number_of(unit);

    MODEL_CHECK(
        words_of(unit)[0] == unit && words_of(unit)[7] == ~(uint64_t)unit,
        "block %u was written while thread %u held it", number, thread);
    MODEL_ASSERT(holder[number] == thread + 1);
    holder[number] = 0;
    model_note("gives %u", number);
    trp_pool_give(&pool, cache_of(thread), unit);
}

/* Blocks that are in nobody's cache and were not taken yet by anybody. */
static void
fill_depot(uint32_t count)
{
    uint32_t units[HELD_MAX];

    for (uint32_t i = 0; i < count; i++) {
        units[i] = take(0);
    }
    for (uint32_t i = 0; i < count; i++) {
        give(0, units[i]);
    }
}

/*
 * Empties caches and depot. All blocks below bump must be there once, and none
 * of them is beyond it.
 */
static void
check_rest(void)
{
    struct trp_pool_class *c = &pool.class[class_used];
    uint32_t made = (c->bump - c->start) >> class_used;
    uint32_t bump = c->bump;
    uint32_t found = 0;

    MODEL_CHECK(trp_pool_live_bytes(&pool) == 0, "%lld bytes are in use",
        (long long)trp_pool_live_bytes(&pool));
    for (uint32_t i = 1; i <= THREADS; i++) {
        trp_pool_trim(&pool, &caches[i], false);
    }
    while (c->depot << 32 != 0) {
        MODEL_CHECK(take(0) != TRP_POOL_NONE, "the depot hides its blocks");
        found++;
    }
    MODEL_CHECK(c->bump == bump && found == made,
        "%u blocks of %u are to be had", found, made);
}

static uint32_t
count_of(void *user)
{
    return (uint32_t)(uintptr_t)user & 0xff;
}

static uint32_t
thread_of(void *user)
{
    return (uint32_t)((uintptr_t)user >> 8);
}

static void *
with(uint32_t thread, uint32_t count)
{
    return (void *)(uintptr_t)((thread << 8) | count);
}

static void
run_three(void (*const *run)(void *), void *const *user, uint32_t count)
{
    static const char *const names[] = {"a", "b", "c"};
    int threads[THREADS];

    for (uint32_t i = 0; i < count; i++) {
        threads[i] = model_spawn(names[i], run[i], user[i]);
    }
    for (uint32_t i = 0; i < count; i++) {
        model_join(threads[i]);
    }
}

/* --- depot ---------------------------------------------------------------- */

/* Takes two, gives the first one back, then the second, so order changes. */
static void
take_two_give_two(void *user)
{
    uint32_t thread = thread_of(user);

    for (uint32_t i = 0; i < count_of(user); i++) {
        uint32_t first = take(thread);
        uint32_t second = take(thread);

        give(thread, first);
        give(thread, second);
    }
}

static void
take_and_give(void *user)
{
    uint32_t thread = thread_of(user);

    for (uint32_t i = 0; i < count_of(user); i++) {
        give(thread, take(thread));
    }
}

/* Chains of one block, threads without caches: pop against pop, push, pop. */
static void
depot(void)
{
    begin(MAGAZINE_CLASS);
    fill_depot(4);
    run_three((void (*const[])(void *)){take_two_give_two, take_two_give_two,
                  take_and_give},
        (void *const[]){with(0, 1), with(0, 1), with(0, 1)}, 3);
    check_rest();
}

/* Caches of four, so that magazines go through the depot. */
static void
hoard(void *user)
{
    uint32_t thread = thread_of(user);
    uint32_t units[10];

    for (uint32_t i = 0; i < count_of(user); i++) {
        units[i] = take(thread);
    }
    for (uint32_t i = 0; i < count_of(user); i++) {
        give(thread, units[i]);
    }
}

static void
magazines(void)
{
    begin(MAGAZINE_CLASS);
    fill_depot(2);
    run_three((void (*const[])(void *)){hoard, hoard, take_and_give},
        (void *const[]){with(1, 9), with(2, 5), with(0, 2)}, 3);
    check_rest();
}

/* One takes, the other gives, and trims now and then. */
static uint32_t handed[4];

static void
hand_on(void *user)
{
    uint32_t thread = thread_of(user);

    for (uint32_t i = 0; i < count_of(user); i++) {
        uint32_t unit = take(thread);

        holder[number_of(unit)] = 3; /* thread 2's */
        trp_store_release(&handed[i], unit);
        model_futex_wake(&handed[i], 1, MODEL_AT("handed"));
    }
}

static void
take_over(void *user)
{
    uint32_t thread = thread_of(user);

    for (uint32_t i = 0; i < count_of(user); i++) {
        uint32_t unit;

        while ((unit = trp_load_acquire(&handed[i])) == 0) {
            model_futex_wait(
                &handed[i], 0, MODEL_FOREVER, MODEL_AT("await_handed"));
        }
        give(thread, unit);
        if (i == 1) {
            trp_pool_trim(&pool, cache_of(thread), true);
        }
    }
}

static void
one_way(void)
{
    begin(MAGAZINE_CLASS);
    memset(handed, 0, sizeof handed);
    run_three((void (*const[])(void *)){hand_on, take_over, take_and_give},
        (void *const[]){with(1, 4), with(2, 4), with(3, 2)}, 3);
    check_rest();
}

/* --- bump and commit ------------------------------------------------------ */

/* Fresh blocks for everybody: nothing is committed, nothing in the depot. */
static void
fresh(void)
{
    begin(MAGAZINE_CLASS);
    pool.class[MAGAZINE_CLASS].committed = MAGAZINE_CLASS << REGION_SHIFT;
    run_three(
        (void (*const[])(void *)){hoard, take_two_give_two, take_and_give},
        (void *const[]){with(1, 3), with(0, 1), with(2, 1)}, 3);
    check_rest();
}

/* Five blocks are left, three threads want two or three each. */
static void
take_what_is_left(void *user)
{
    uint32_t thread = thread_of(user);
    uint32_t units[3];

    for (uint32_t i = 0; i < count_of(user); i++) {
        units[i] = take(thread);
    }
    for (uint32_t i = 0; i < count_of(user); i++) {
        if (units[i] != TRP_POOL_NONE) {
            give(thread, units[i]);
        }
    }
}

static void
used_up(void)
{
    struct trp_pool_class *c = &pool.class[MAGAZINE_CLASS];
    uint32_t end = c->end;

    begin(MAGAZINE_CLASS);
    c->end = c->start + (5u << MAGAZINE_CLASS);
    run_three((void (*const[])(void *)){take_what_is_left, take_what_is_left,
                  take_what_is_left},
        (void *const[]){with(1, 2), with(2, 3), with(0, 2)}, 3);
    check_rest();
    c->end = end;
}

/* --- trim ----------------------------------------------------------------- */

static void
trim(void *user)
{
    for (uint32_t i = 0; i < count_of(user); i++) {
        trp_pool_trim(&pool, cache_of(thread_of(user)), true);
    }
}

/*
 * All blocks are in the depot. Nothing that is usable was never handed out, or
 * two blocks: trim takes them first.
 */
static void
begin_reset(void)
{
    struct trp_pool_class *c = &pool.class[TRIM_CLASS];

    begin(TRIM_CLASS);
    fill_depot(TRIM_BLOCKS);
    c->committed = c->bump + (2 * model_choose(2) << TRIM_CLASS);
}

/* Trim resets the region, others take from it. */
static void
reset(void)
{
    begin_reset();
    run_three((void (*const[])(void *)){trim, take_two_give_two, take_and_give},
        (void *const[]){with(1, 1), with(0, 1), with(2, 1)}, 3);
    check_rest();
}

/* Two that trim, one that holds a block before they begin. */
static void
reset_twice(void)
{
    begin_reset();
    run_three((void (*const[])(void *)){trim, trim, take_and_give},
        (void *const[]){with(1, 1), with(2, 1), with(0, 2)}, 3);
    check_rest();
}

int
main(int argc, char **argv)
{
    static const struct model_scenario scenarios[] = {
        {"depot", depot, 100},
        {"magazines", magazines, 50},
        {"one_way", one_way, 50},
        {"fresh", fresh, 20},
        {"used_up", used_up, 100},
        /* These make system calls. */
        {"reset", reset, 15},
        {"reset_twice", reset_twice, 10},
    };

    return model_main(
        argc, argv, "pool", scenarios, sizeof scenarios / sizeof scenarios[0]);
}
