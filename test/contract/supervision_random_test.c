/* SPDX-License-Identifier: MIT */
#include "support/grove.h"
#include "support/system.h"

#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>

/*
 * Random trees with random failures in a simulation: a tree, its options and
 * the order of turns come from one seed. TEST_SEED repeats a run, TEST_TREES
 * says how many; 100 000 take some minutes.
 */

static uint64_t
trees(void)
{
    const char *text = getenv("TEST_TREES");

    return text != NULL ? strtoull(text, NULL, 10) : 2000;
}

static void
run_all(enum grove_kind kind)
{
    uint64_t first = test_seed(), count = trees(), starts = 0;

    for (uint64_t i = 0; i < count; i++) {
        struct test_rng rng = {first + i};
        uint64_t seed = test_random(&rng) | 1;
        troupe_system *system = test_open_driven(seed);
        struct grove *grove = grove_plant(system, first + i, kind);

        grove_live_driven(grove, &rng);
        cr_assert_eq(troupe_system_stop(system), TROUPE_OK);
        grove_check_notices(grove);
        grove_check_stopped(grove);
        test_close(system);
        starts += grove_starts(grove);
        grove_free(grove);
    }
    (void)fprintf(stderr, "%llu trees, %llu starts\n",
        (unsigned long long)count, (unsigned long long)starts);
}

Test(supervision_random, who_has_no_end_is_there_in_the_end)
{
    run_all(GROVE_LIVING);
}

Test(supervision_random, who_may_end_leaves_nothing_behind)
{
    run_all(GROVE_MORTAL);
}
