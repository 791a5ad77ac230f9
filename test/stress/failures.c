/* SPDX-License-Identifier: MIT */

/*
 * Trees that fail, while threads make them, or in a simulation: see
 * support/grove.h. Living ones must answer a last message, all of them; mortal
 * ones, and now and then their system, stop on the way. Books, memory, notices
 * and the pools, which are the library's own, are checked afterwards.
 */
#include "stress.h"
#include "support/grove.h"

#include "actor/delayed.h"
#include "actor/rules.h"
#include "system/system.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS = 3, CROWD = 20000, GUARDIANS = 1 };

struct hand {
    struct grove *grove;
    struct test_rng rng;
    uint32_t count;
    pthread_t thread;
};

static void *
shake(void *user)
{
    struct hand *hand = user;

    for (uint32_t i = 0; i < hand->count; i++) {
        grove_shake(hand->grove, &hand->rng, 1);
        stress_jitter(&hand->rng);
    }
    return NULL;
}

static bool
is_settled(void *user)
{
    return grove_is_settled(user);
}

static bool
is_done(void *user)
{
    return grove_is_done(user);
}

/* Idle, and nothing is left that would end a pause: nothing happens any more.
 */
static void
await_rest(troupe_system *system, struct grove *grove)
{
    uint64_t before, after = UINT64_MAX;

    do {
        before = after;
        stress_await_idle(system);
        if (!test_await(is_settled, grove)) {
            troupe_dump(system, STDERR_FILENO);
            stress_fail(__FILE__, __LINE__, "is_settled",
                "%" PRIu64 " timers, %" PRIu64 " asks",
                stress_counters(system).timers, stress_counters(system).asks);
        }
        stress_await_idle(system);
        after = stress_counters(system).handled + grove_starts(grove);
    } while (before != after || !grove_is_settled(grove));
}

static void
live(struct grove *grove, enum grove_kind kind, troupe_system *system,
    struct test_rng *rng)
{
    struct hand hands[THREADS];
    uint32_t threads = stress_threads(rng, THREADS);

    for (uint32_t i = 0; i < threads; i++) {
        hands[i] = (struct hand){.grove = grove,
            .rng = {test_random(rng)},
            .count = 1 + test_random_below(rng, 300)};
        stress_thread(&hands[i].thread, shake, &hands[i]);
    }
    for (int i = 0; i < 8; i++) {
        grove_watch(grove, rng, 8);
        stress_jitter(rng);
    }
    if (kind == GROVE_MORTAL && test_random_below(rng, 2) == 0) {
        troupe_system_request_stop(system);
    }
    for (uint32_t i = 0; i < threads; i++) {
        stress_join(hands[i].thread);
    }
    if (kind == GROVE_LIVING) {
        if (test_random_below(rng, 2) == 0) {
            await_rest(system, grove);
        }
        grove_calm(grove);
        await_rest(system, grove);
        grove_call_all(grove);
        /* What is seen of a queue while it is filled again is no proof. */
        (void)test_await(is_done, grove);
        stress_await_idle(system);
        grove_check_all(grove);
    }
}

/*
 * What the pools of a system that has stopped have lent: nothing, but for the
 * guardians, and for delayed messages, which nobody waits for.
 */
static void
check_pools(const troupe_system *system)
{
    const struct trp_core *core = trp_core_of(system);
    uint64_t timers = stress_counters(system).timers;
    uint64_t cells = trp_pool_live_bytes(&core->cells);
    uint64_t delayed = trp_pool_live_bytes(&core->delayed);

    STRESS_CHECK(cells == GUARDIANS * sizeof(struct trp_cell),
        "%" PRIu64 " bytes of cells", cells);
    STRESS_CHECK(trp_pool_live_bytes(&core->rules) == 0, "rules");
    STRESS_CHECK(trp_pool_live_bytes(&core->ops) == 0, "operations");
    STRESS_CHECK(trp_pool_live_bytes(&core->askers) == 0, "askers");
    STRESS_CHECK(trp_pool_live_bytes(&core->segments) == 0, "segments");
    STRESS_CHECK(timers != 0 || trp_pool_live_bytes(&core->messages) == 0,
        "%" PRIu64 " bytes of messages", trp_pool_live_bytes(&core->messages));
    STRESS_CHECK(delayed == timers << core->delayed.unit_shift,
        "%" PRIu64 " bytes of delayed, %" PRIu64 " timers", delayed, timers);
}

static uint64_t
run_grove(struct test_rng *rng)
{
    bool is_driven = test_random_below(rng, 4) == 0;
    troupe_system_options options =
        stress_options(is_driven ? 1 : stress_workers(rng));
    enum grove_kind kind =
        test_random_below(rng, 2) == 0 ? GROVE_LIVING : GROVE_MORTAL;
    troupe_system *system;
    struct grove *grove;
    uint64_t starts;

    options.log.max_level = TROUPE_LOG_OFF;
    if (is_driven) {
        options.flags |= TROUPE_SYSTEM_DRIVEN;
        options.seed = test_random(rng) | 1;
    }
    system = stress_open(&options);
    grove = grove_plant(system, test_random(rng), kind);
    if (is_driven) {
        grove_live_driven(grove, rng);
    } else {
        live(grove, kind, system, rng);
    }
    STRESS_CHECK(troupe_system_stop(system) == TROUPE_OK, "stop");
    grove_check_notices(grove);
    grove_check_stopped(grove);
    check_pools(system);
    stress_close(system);
    starts = grove_starts(grove);
    grove_free(grove);
    return starts;
}

/* --- a crowd that fails at once ------------------------------------------- */

struct crowd {
    _Atomic uint32_t failed;
    troupe_ref parent;
};

TROUPE_MSG_TYPE_EMPTY(now, 1);

static troupe_verdict
fail_now(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)self;
    (void)msg;
    atomic_fetch_add(&STRESS_STATE(struct crowd, state)->failed, 1);
    return TROUPE_FAILED;
}

static const troupe_actor_type failing_type = STRESS_ACTOR(fail_now);

/* The last one that was spawned fails first. */
static troupe_verdict
raise_crowd(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct crowd *crowd = STRESS_STATE(struct crowd, state);
    troupe_ref *all = stress_zeroed(CROWD, sizeof *all);

    (void)msg;
    for (uint32_t i = 0; i < CROWD; i++) {
        all[i] = stress_spawn_below(self, &failing_type, crowd);
    }
    for (uint32_t i = CROWD; i > 0; i--) {
        troupe_tell(self, all[i - 1], &now, NULL);
    }
    free(all);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type raiser_type = STRESS_ACTOR(raise_crowd);

static bool
has_all_failed(void *user)
{
    return atomic_load(&((struct crowd *)user)->failed) >= CROWD;
}

/* Asked about the first one until all of them have failed, and then stopped. */
static troupe_directive
decide_late(const troupe_exit *exit, uint32_t restarts, void *user)
{
    (void)exit;
    (void)restarts;
    STRESS_CHECK(test_await(has_all_failed, user), "not all of them failed");
    return TROUPE_DIRECTIVE_RESTART;
}

/* Whatever comes of them: not with a look at all of them for each of them. */
static void
run_crowd(struct test_rng *rng)
{
    troupe_system_options options = stress_options(2);
    struct crowd crowd = {0};
    const troupe_supervision late = {
        .size = sizeof late, .decide = decide_late, .user = &crowd};
    struct crowd *arg = &crowd;
    const troupe_spawn_options spawn = {.size = sizeof spawn,
        .children = &late,
        .arg = &arg,
        .arg_bytes = sizeof arg};
    troupe_system *system = stress_open(&options);

    STRESS_CHECK(troupe_system_spawn(
                     system, &raiser_type, &spawn, &crowd.parent) == TROUPE_OK,
        "spawn");
    STRESS_CHECK(
        troupe_post(system, crowd.parent, &now, NULL) == TROUPE_OK, "post");
    STRESS_CHECK(test_await(has_all_failed, &crowd), "not all of them failed");
    if (test_random_below(rng, 2) == 0) {
        STRESS_CHECK(
            troupe_post_stop_now(system, crowd.parent) == TROUPE_OK, "stop");
    } else {
        stress_await_idle(system);
        STRESS_CHECK(stress_counters(system).restarted == CROWD, "restarts");
    }
    stress_close(system);
}

int
main(int argc, char **argv)
{
    struct test_rng rng;
    uint64_t starts = 0;

    stress_begin(argc, argv);
    while (stress_more(&rng)) {
        if (test_random_below(&rng, 128) == 0 || stress.rounds == 1) {
            run_crowd(&rng);
        } else {
            starts += run_grove(&rng);
        }
    }
    return stress_end(starts, "starts");
}
