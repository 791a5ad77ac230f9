/* SPDX-License-Identifier: MIT */

/*
 * Systems that live for one actor: created, used, stopped and destroyed, in
 * two threads at once. Who asks for the stop: the thread that destroys, a
 * behaviour, or a stranger, while the owner waits and then destroys at once.
 */
#include "stress.h"

#include "support/census.h"

enum { THREADS = 2, LIVES = 20 };

TROUPE_MSG_TYPE_EMPTY(go, 1);

struct life {
    _Atomic uint32_t handled;
    _Atomic uint32_t stopped;
    bool requests; /* the behaviour asks for the stop */
};

struct thread {
    struct test_rng rng;
    uint64_t lives;
    pthread_t thread;
};

static troupe_verdict
live(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct life *life = STRESS_STATE(struct life, state);

    (void)msg;
    atomic_fetch_add(&life->handled, 1);
    if (life->requests) {
        troupe_system_request_stop(troupe_self_system(self));
    }
    return TROUPE_CONTINUE;
}

static void
end(troupe_self *self, void *state, const troupe_exit *why)
{
    struct life *life = STRESS_STATE(struct life, state);

    (void)self;
    (void)why;
    atomic_fetch_add(&life->stopped, 1);
}

static const troupe_actor_type live_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "live",
    .state_bytes = sizeof(void *),
    .receive = live,
    .start = stress_start,
    .stop = end,
};

static void *
request(void *user)
{
    troupe_system_request_stop(user);
    return NULL;
}

static void
live_once(struct test_rng *rng)
{
    static const uint32_t spins[] = {0, TROUPE_SPIN_NEVER, 20};
    troupe_system_options options = stress_options(
        stress.workers != 0 ? stress.workers : 1 + test_random_below(rng, 4));
    enum {
        OWNER,
        BEHAVIOUR,
        STRANGER,
        WAYS
    } way = test_random_below(rng, WAYS);
    struct life life = {0};
    troupe_system *system = NULL;
    troupe_ref actor;
    pthread_t stranger;
    troupe_status status;

    options.spin_us = spins[test_random_below(rng, 3)];
    status = troupe_system_create(&options, &system);
    STRESS_CHECK(status == TROUPE_OK, "%s", troupe_status_name(status));
    if (way == OWNER && test_random_below(rng, 4) == 0) {
        /* Nothing was ever done with it. */
        STRESS_CHECK(troupe_system_destroy(system) == TROUPE_OK, "destroy");
        return;
    }
    life.requests = way == BEHAVIOUR;
    actor = stress_spawn(system, &live_type, &life);
    STRESS_CHECK(troupe_post(system, actor, &go, NULL) == TROUPE_OK, "a post");
    if (way == STRANGER) {
        stress_thread(&stranger, request, system);
    }
    if (way != OWNER) {
        status = troupe_system_wait(system, STRESS_DEADLINE_NS);
        STRESS_CHECK(status == TROUPE_OK, "%s", troupe_status_name(status));
    }
    if (test_random_below(rng, 2) == 0) {
        STRESS_CHECK(troupe_system_stop(system) == TROUPE_OK, "a stop");
        STRESS_CHECK(troupe_books_balance(system), "books");
    }
    status = troupe_system_destroy(system);
    STRESS_CHECK(status == TROUPE_OK, "%s", troupe_status_name(status));
    if (way == STRANGER) {
        stress_join(stranger);
    }
    STRESS_CHECK(atomic_load(&life.handled) == 1, "handled %u times",
        atomic_load(&life.handled));
    STRESS_CHECK(atomic_load(&life.stopped) == 1, "stopped %u times",
        atomic_load(&life.stopped));
}

static void *
live_often(void *user)
{
    struct thread *thread = user;

    for (uint32_t i = 0; i < LIVES; i++) {
        live_once(&thread->rng);
        thread->lives++;
    }
    return NULL;
}

int
main(int argc, char **argv)
{
    struct test_census before;
    struct test_rng rng;
    uint64_t lives = 0;

    stress_begin(argc, argv);
    before = test_census();
    while (stress_more(&rng)) {
        struct thread threads[THREADS] = {0};

        for (uint32_t i = 0; i < THREADS; i++) {
            threads[i].rng.state = test_random(&rng);
            stress_thread(&threads[i].thread, live_often, &threads[i]);
        }
        for (uint32_t i = 0; i < THREADS; i++) {
            stress_join(threads[i].thread);
            lives += threads[i].lives;
        }
    }
    STRESS_CHECK(test_census_is(before), "threads or descriptors are left");
    return stress_end(lives, "systems");
}
