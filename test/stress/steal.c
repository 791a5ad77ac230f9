/* SPDX-License-Identifier: MIT */

/*
 * Everything runnable can be stolen. A behaviour makes others runnable and
 * does not return before they have run: only another worker can have done it.
 * There is no limit of time but the deadline that says that it hangs.
 */
#include "stress.h"

#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>

enum { HELPERS = 200, BLOCKERS = 7, TURNS = 20 };

TROUPE_MSG_TYPE_EMPTY(go, 1);
TROUPE_MSG_TYPE_EMPTY(help, 2);

struct helper {
    _Atomic uint32_t ran;
};

struct blocker {
    struct helper helpers[HELPERS];
    troupe_ref refs[HELPERS];
    struct test_rng rng;
    uint32_t count; /* helpers that live */
    uint32_t turns;
    uint64_t helped;
    uint32_t expected[HELPERS];
};

static troupe_verdict
be_run(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct helper *helper = STRESS_STATE(struct helper, state);

    (void)self;
    (void)msg;
    atomic_fetch_add(&helper->ran, 1);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type helper_type = STRESS_ACTOR(be_run);

static void
await_helpers(struct blocker *blocker)
{
    uint64_t end_ns = test_clock_ns() + STRESS_DEADLINE_NS;

    for (uint32_t i = 0; i < blocker->count; i++) {
        while (atomic_load(&blocker->helpers[i].ran) < blocker->expected[i]) {
            STRESS_CHECK(test_clock_ns() < end_ns,
                "helper %u of %u waits behind a busy worker", i,
                blocker->count);
            sched_yield();
        }
    }
}

/* Old helpers and new ones, one or many, from the slot or from the queue. */
static troupe_verdict
block(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct blocker *blocker = STRESS_STATE(struct blocker, state);
    uint32_t spawns = test_random_below(&blocker->rng, 3);
    uint32_t sends = test_random_below(&blocker->rng, 4) == 0
                         ? test_random_below(&blocker->rng, HELPERS)
                         : 1 + test_random_below(&blocker->rng, 2);

    (void)msg;
    for (uint32_t i = 0; i < spawns && blocker->count < HELPERS; i++) {
        uint32_t n = blocker->count++;

        blocker->refs[n] =
            stress_spawn_below(self, &helper_type, &blocker->helpers[n]);
    }
    for (uint32_t i = 0; i < sends && blocker->count > 0; i++) {
        uint32_t n = test_random_below(&blocker->rng, blocker->count);

        STRESS_CHECK(
            troupe_send(self, blocker->refs[n], &help, NULL) == TROUPE_OK,
            "a send");
        blocker->expected[n]++;
        blocker->helped++;
    }
    await_helpers(blocker);
    stress_spin_ns(test_random_below(&blocker->rng, 100000));
    if (++blocker->turns < TURNS) {
        troupe_tell(self, troupe_self_ref(self), &go, NULL);
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type blocker_type = STRESS_ACTOR(block);

static uint64_t
run(struct test_rng *rng)
{
    uint32_t workers =
        stress.workers > 1 ? stress.workers : 2u << test_random_below(rng, 2);
    troupe_system_options options = stress_options(workers);
    /* One worker has to be left. */
    uint32_t count = workers - 1 < BLOCKERS ? workers - 1 : BLOCKERS;
    struct blocker *blockers = stress_zeroed(BLOCKERS, sizeof *blockers);
    uint64_t helped = 0;
    troupe_system *system;

    count = 1 + test_random_below(rng, count);
    options.steal = test_random_below(rng, 2) == 0 ? TROUPE_STEAL_DEFAULT
                                                   : TROUPE_STEAL_EAGER;
    options.spin_us = test_random_below(rng, 2) == 0 ? TROUPE_SPIN_NEVER : 0;
    system = stress_open(&options);
    for (uint32_t i = 0; i < count; i++) {
        troupe_ref ref;

        blockers[i].rng.state = test_random(rng);
        ref = stress_spawn(system, &blocker_type, &blockers[i]);
        STRESS_CHECK(troupe_post(system, ref, &go, NULL) == TROUPE_OK, "go");
    }
    stress_await_idle(system);
    stress_close(system);
    for (uint32_t i = 0; i < count; i++) {
        STRESS_CHECK(blockers[i].turns == TURNS, "%u turns", blockers[i].turns);
        for (uint32_t j = 0; j < blockers[i].count; j++) {
            STRESS_CHECK(atomic_load(&blockers[i].helpers[j].ran) ==
                             blockers[i].expected[j],
                "helper %u", j);
        }
        helped += blockers[i].helped;
    }
    free(blockers);
    return helped;
}

int
main(int argc, char **argv)
{
    struct test_rng rng;
    uint64_t helped = 0;

    stress_begin(argc, argv);
    while (stress_more(&rng)) {
        helped += run(&rng);
    }
    return stress_end(helped, "messages that another worker took");
}
