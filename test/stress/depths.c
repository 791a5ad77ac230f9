/* SPDX-License-Identifier: MIT */

/*
 * The smallest of many counters while threads change them. A number is seen
 * whole, a slot is judged by one look, nothing that was added stays when all of
 * it has been taken back, whatever was closed and opened meanwhile.
 */
#include "stress.h"

#include "queue/depths.h"

#include <stdlib.h>

enum { THREADS = 6, MOST = 200, SCANS = 20000, STEPS = 20000 };

/*
 * What slots move between and what one of them always has. Whole numbers leave
 * it the smallest; the lower bytes of the second with the upper ones of the
 * first would be smaller, wherever they are cut.
 */
#define LOW UINT32_C(0x0001ffff)
#define FIXED (LOW - 1)

enum kind { FIXED_SLOT, MOVING, ASIDE };

static _Alignas(TRP_CACHE_LINE) unsigned char room[1024];
static struct trp_depths depths;
static uint32_t count;
static enum kind kinds[MOST];
static _Atomic uint32_t searching;

struct thread {
    struct test_rng rng;
    pthread_t thread;
    uint32_t first; /* its slots: this one, and every so many */
    uint32_t every;
    /* Of runs that end with nothing: what this one has added. */
    uint32_t added[MOST];
};

static void
init(struct test_rng *rng)
{
    trp_least_fn least =
        test_random_below(rng, 4) == 0 ? trp_least_plain : trp_least_best();

    /* Mostly few, so that searching and moving meet. */
    count = 2 + test_random_below(rng, 1 + test_random_below(rng, MOST - 1));
    STRESS_CHECK(trp_depths_bytes(MOST) <= sizeof room, "room");
    trp_depths_init(&depths, room, MOST, least);
}

static uint32_t
search(struct test_rng *rng)
{
    return trp_depths_least(&depths, count, test_random_below(rng, count));
}

/* --- numbers are whole, slots are looked at once
 * ------------------------------
 */

static void *
move(void *user)
{
    struct thread *self = user;

    while (atomic_load(&searching) > 0) {
        for (uint32_t i = self->first; i < count; i += self->every) {
            if (kinds[i] == MOVING) {
                trp_depths_add(&depths, i, 1);
                trp_depths_sub(&depths, i, 1);
            }
        }
    }
    return NULL;
}

static void *
search_fixed(void *user)
{
    struct thread *self = user;

    for (int i = 0; i < SCANS; i++) {
        uint32_t found = search(&self->rng);

        STRESS_CHECK(found < count, "%u of %u", found, count);
        STRESS_CHECK(kinds[found] == FIXED_SLOT, "slot %u: torn", found);
    }
    atomic_fetch_sub(&searching, 1);
    return NULL;
}

static void *
search_fixed_or_moving(void *user)
{
    struct thread *self = user;

    for (int i = 0; i < SCANS; i++) {
        uint32_t found = search(&self->rng);

        STRESS_CHECK(found < count, "%u of %u", found, count);
        STRESS_CHECK(kinds[found] != ASIDE, "slot %u was never small", found);
    }
    atomic_fetch_sub(&searching, 1);
    return NULL;
}

static uint64_t
run_moving(struct test_rng *rng, bool is_fixed_least)
{
    struct thread *threads = stress_zeroed(THREADS, sizeof *threads);
    uint32_t movers = 1 + test_random_below(rng, THREADS / 2);
    uint32_t searchers = 1 + test_random_below(rng, THREADS / 2);
    uint32_t fixed;

    init(rng);
    fixed = test_random_below(rng, count);
    for (uint32_t i = 0; i < count; i++) {
        kinds[i] = i == fixed ? FIXED_SLOT : MOVING;
        if (!is_fixed_least && i != fixed && test_random_below(rng, 3) != 0) {
            kinds[i] = ASIDE;
        }
        trp_depths_open(&depths, i);
        trp_depths_add(&depths, i,
            kinds[i] == MOVING  ? LOW
            : kinds[i] == ASIDE ? LOW + 2
            : is_fixed_least    ? FIXED
                                : LOW + 1);
    }
    atomic_store(&searching, searchers);
    for (uint32_t i = 0; i < movers + searchers; i++) {
        threads[i].rng.state = test_random(rng);
        threads[i].first = i;
        threads[i].every = movers;
        stress_thread(&threads[i].thread,
            i < movers       ? move
            : is_fixed_least ? search_fixed
                             : search_fixed_or_moving,
            &threads[i]);
    }
    for (uint32_t i = 0; i < movers + searchers; i++) {
        stress_join(threads[i].thread);
    }
    free(threads);
    return (uint64_t)searchers * SCANS;
}

/* --- everything is taken back ------------------------------------------------
 */

static void
give(struct thread *self)
{
    uint32_t slot = search(&self->rng);

    if (slot == TRP_LEAST_NONE) {
        return; /* all were closed just then */
    }
    STRESS_CHECK(slot < count, "%u of %u", slot, count);
    trp_depths_add(&depths, slot, 1);
    self->added[slot]++;
}

static void
take_back(struct thread *self, uint32_t slot)
{
    uint32_t some = test_random_below(&self->rng, self->added[slot] + 1);

    trp_depths_sub(&depths, slot, some);
    self->added[slot] -= some;
}

/* The first thread alone closes and opens. */
static void
turn_over(uint32_t slot, bool *is_open)
{
    if (*is_open) {
        trp_depths_close(&depths, slot);
    } else {
        trp_depths_open(&depths, slot);
    }
    *is_open = !*is_open;
}

static void *
give_and_take(void *user)
{
    struct thread *self = user;
    bool is_open[MOST] = {false};

    for (int i = 0; i < STEPS; i++) {
        uint32_t slot = test_random_below(&self->rng, count);

        if (self->first == 0 && i % 2 == 0) {
            turn_over(slot, &is_open[slot]);
        }
        give(self);
        take_back(self, slot);
    }
    for (uint32_t i = 0; i < count; i++) {
        trp_depths_sub(&depths, i, self->added[i]);
        if (is_open[i]) {
            trp_depths_close(&depths, i);
        }
    }
    return NULL;
}

static uint64_t
run_books(struct test_rng *rng)
{
    struct thread *threads = stress_zeroed(THREADS, sizeof *threads);
    uint32_t number = stress_threads(rng, THREADS);

    init(rng);
    for (uint32_t i = 0; i < number; i++) {
        threads[i].rng.state = test_random(rng);
        threads[i].first = i;
        stress_thread(&threads[i].thread, give_and_take, &threads[i]);
    }
    for (uint32_t i = 0; i < number; i++) {
        stress_join(threads[i].thread);
    }
    for (uint32_t i = 0; i < MOST; i++) {
        STRESS_CHECK(trp_depths_get(&depths, i) == TRP_LEAST_DEAD,
            "slot %u is left with %u", i, trp_depths_get(&depths, i));
    }
    free(threads);
    return (uint64_t)number * STEPS;
}

int
main(int argc, char **argv)
{
    struct test_rng rng;
    uint64_t searches = 0;

    stress_begin(argc, argv);
    while (stress_more(&rng)) {
        switch (test_random_below(&rng, 3)) {
        case 0:
            searches += run_moving(&rng, true);
            break;
        case 1:
            searches += run_moving(&rng, false);
            break;
        default:
            searches += run_books(&rng);
        }
    }
    return stress_end(searches, "searches");
}
