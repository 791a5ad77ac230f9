/* SPDX-License-Identifier: MIT */

/*
 * What a choice among so many costs: the kernels of routers, without actors.
 *
 *     troupe-kernels [SECONDS]     per line, 0.2
 *
 * A line: kernel, form, places, nanoseconds per choice in the fastest of many
 * batches, since all that others can do is disturb it. "changing" is
 * "least" with two depths changed per choice, for which 20 ns are to be taken
 * off.
 */

#include "base/hash.h"
#include "base/rendezvous.h"
#include "base/rng.h"
#include "queue/depths.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST = 1024, BATCH = 100 };

static const uint32_t sizes[] = {4, 8, 16, 64, 256, 1024};
static _Alignas(TRP_CACHE_LINE) unsigned char room[MOST * sizeof(uint32_t)];
static uint64_t mixed[MOST];
static uint32_t original[MOST];
static uint32_t weights[MOST];
static uint32_t loads[MOST];

/* What BATCH choices are made of; how many of them found somebody. */
typedef uint32_t (*batch_fn)(const void *kernel, uint32_t count);

static void
expect(bool holds, const char *what)
{
    if (!holds) {
        (void)fprintf(stderr, "troupe-kernels: wrong %s\n", what);
        exit(1);
    }
}

static void
report(const char *kernel, const char *form, uint32_t count, batch_fn batch,
    const void *user, double seconds)
{
    uint64_t end_ns = trp_clock_ns() + (uint64_t)(seconds * 1e9);
    uint64_t best_ns = UINT64_MAX;
    uint64_t now_ns;

    do {
        uint64_t began_ns = trp_clock_ns();

        expect(batch(user, count) == BATCH, kernel);
        now_ns = trp_clock_ns();
        if (now_ns - began_ns < best_ns) {
            best_ns = now_ns - began_ns;
        }
    } while (now_ns < end_ns);
    (void)printf(
        "%-10s %-9s %5u %8.1f\n", kernel, form, count, (double)best_ns / BATCH);
}

/* --- least ---------------------------------------------------------------- */

/* Nobody changes anything. */
static uint32_t
find_least(const void *kernel, uint32_t count)
{
    const struct trp_depths *depths = kernel;
    uint32_t found = 0;
    uint32_t start = 0;

    for (int i = 0; i < BATCH; i++) {
        found += trp_depths_least(depths, count, start) < count;
        start = start + 1 < count ? start + 1 : 0;
    }
    return found;
}

/* One arrives at the shortest, one leaves somewhere. */
static uint32_t
change_least(const void *kernel, uint32_t count)
{
    static struct trp_rng rng;
    const struct trp_depths *depths = kernel;
    uint32_t found = 0;
    uint32_t start = 0;

    for (int i = 0; i < BATCH; i++) {
        uint32_t slot = trp_depths_least(depths, count, start);
        uint32_t other = trp_rng_below(&rng, count);

        found += slot < count;
        start = start + 1 < count ? start + 1 : 0;
        trp_depths_add(depths, slot, 1);
        /* Never 0, where the search would end. */
        if (trp_depths_get(depths, other) > 1) {
            trp_depths_sub(depths, other, 1);
        }
    }
    return found;
}

static void
run_least(const char *form, trp_least_fn least, uint32_t count, double seconds)
{
    struct trp_depths depths;
    struct trp_rng rng = {count};

    trp_depths_init(&depths, room, count, least);
    for (uint32_t i = 0; i < count; i++) {
        trp_depths_open(&depths, i);
        trp_depths_add(&depths, i, 1 + trp_rng_below(&rng, 1000));
    }
    report("least", form, count, find_least, &depths, seconds);
    report("changing", form, count, change_least, &depths, seconds);
}

/* --- rendezvous ----------------------------------------------------------- */

static uint32_t
choose_place(const void *kernel, uint32_t count)
{
    static uint64_t key;
    const struct trp_rendezvous *among = kernel;
    uint32_t found = 0;

    for (int i = 0; i < BATCH; i++) {
        found += trp_rendezvous_choose(among, key++) < count;
    }
    return found;
}

static void
run_rendezvous(uint32_t count, double seconds)
{
    struct trp_rendezvous among = {.count = count, .mixed = mixed};
    const struct trp_rendezvous old = {.count = count, .original = original};

    report("rendezvous", "original", count, choose_place, &old, seconds);
    report("rendezvous", "mixed", count, choose_place, &among, seconds);
    among.weights = weights;
    report("rendezvous", "weighted", count, choose_place, &among, seconds);
    among.weights = NULL;
    among.loads = loads;
    among.limit = trp_rendezvous_limit(&among, 25);
    report("rendezvous", "bounded", count, choose_place, &among, seconds);
}

int
main(int argc, char **argv)
{
    double seconds = argc > 1 ? strtod(argv[1], NULL) : 0.2;
    trp_least_fn best = trp_least_best();
    struct trp_rng rng = {1};

    for (uint32_t i = 0; i < MOST; i++) {
        mixed[i] = trp_rendezvous_mixed(i);
        original[i] = trp_rendezvous_original(trp_hash_fnv32(&i, sizeof i));
        weights[i] = 1 + trp_rng_below(&rng, 100);
        loads[i] = trp_rng_below(&rng, 100);
    }
    for (size_t i = 0; i < TRP_COUNT_OF(sizes); i++) {
        run_least("plain", trp_least_plain, sizes[i], seconds);
        if (best != trp_least_plain) {
            run_least("vector", best, sizes[i], seconds);
        }
        run_rendezvous(sizes[i], seconds);
    }
    return 0;
}
