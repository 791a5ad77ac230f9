/* SPDX-License-Identifier: MIT */

/*
 * Trees that fail, while threads make them: see support/grove.h. Living ones
 * must answer a last message, all of them; mortal ones, and now and then their
 * system, stop on the way. Books, memory and notices are checked afterwards.
 */
#include "stress.h"
#include "support/grove.h"

#include <stdlib.h>

enum { THREADS = 3, CROWD = 20000 };

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
is_awake(void *user)
{
    return grove_is_awake(user);
}

/* Idle, and no pause is left that would end: nothing happens any more. */
static void
await_rest(troupe_system *system, struct grove *grove)
{
    uint64_t before, after = UINT64_MAX;

    do {
        before = after;
        stress_await_idle(system);
        STRESS_CHECK(test_await(is_awake, grove), "suspended for ever");
        stress_await_idle(system);
        after = stress_counters(system).handled + grove_starts(grove);
    } while (before != after || !grove_is_awake(grove));
}

static uint64_t
run_grove(struct test_rng *rng)
{
    troupe_system_options options = stress_options(stress_workers(rng));
    enum grove_kind kind =
        test_random_below(rng, 2) == 0 ? GROVE_LIVING : GROVE_MORTAL;
    struct hand hands[THREADS];
    uint32_t threads = stress_threads(rng, THREADS);
    troupe_system *system;
    struct grove *grove;
    uint64_t starts;

    options.log.max_level = TROUPE_LOG_OFF;
    system = stress_open(&options);
    grove = grove_plant(system, test_random(rng), kind);
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
        await_rest(system, grove);
        grove_call_all(grove);
        stress_await_idle(system);
        grove_check_all(grove);
    }
    STRESS_CHECK(troupe_system_stop(system) == TROUPE_OK, "stop");
    grove_check_notices(grove);
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
