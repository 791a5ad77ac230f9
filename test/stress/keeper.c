/* SPDX-License-Identifier: MIT */

/*
 * A back-off supervisor with a child whose start() fails some times, and may
 * take longer than the grace period, while threads post. If the child goes on
 * living once it has started, everything arrives, in the order of each thread;
 * if it ends now and then what arrives is in order, and the rest is counted.
 */
#include "stress.h"

#include <stdlib.h>

enum { POSTERS = 3, MESSAGES = 3000 };

struct item {
    uint32_t poster;
    uint32_t number;
};
TROUPE_MSG_TYPE(item, struct item, 1);

struct round {
    troupe_system *system;
    troupe_ref keeper;
    bool is_mortal;
    uint32_t bad_starts;
    struct test_rng rng;    /* the children's: one lives at a time */
    uint32_t last[POSTERS]; /* number that came */
    _Atomic uint64_t arrived;
};

struct poster {
    struct round *round;
    uint32_t index;
    struct test_rng rng;
    pthread_t thread;
};

static troupe_status
start_child(troupe_self *self, void *state, const void *arg)
{
    struct round *round = *(struct round *const *)arg;
    bool is_bad = round->bad_starts > 0;

    round->bad_starts -= is_bad;
    if (test_random_below(&round->rng, 4) == 0) {
        stress_spin_ns(TROUPE_MS(1));
    }
    return is_bad ? TROUPE_E_FAILED : stress_start(self, state, arg);
}

static troupe_verdict
receive_child(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct round *round = STRESS_STATE(struct round, state);
    const struct item *what = troupe_payload(msg, struct item);
    uint32_t *last = &round->last[what->poster];

    STRESS_CHECK(
        round->is_mortal ? what->number > *last : what->number == *last + 1,
        "%u after %u", what->number, *last);
    *last = what->number;
    atomic_fetch_add(&round->arrived, 1);
    if (round->is_mortal && test_random_below(&round->rng, 200) == 0) {
        round->bad_starts = test_random_below(&round->rng, 3);
        return test_random_below(&round->rng, 2) == 0 ? TROUPE_DONE
                                                      : troupe_fail(self, 1);
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type child_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "child",
    .state_bytes = sizeof(void *),
    .receive = receive_child,
    .start = start_child,
};

static void *
post(void *user)
{
    struct poster *poster = user;

    for (uint32_t i = 1; i <= MESSAGES; i++) {
        const struct item what = {poster->index, i};

        STRESS_CHECK(troupe_post(poster->round->system, poster->round->keeper,
                         &item, &what) == TROUPE_OK,
            "post");
        if (i % 16 == 0) {
            stress_jitter(&poster->rng);
        }
    }
    return NULL;
}

static void
spawn_keeper(struct round *round)
{
    static const troupe_backoff pauses = {
        .size = TROUPE_OPTIONS(troupe_backoff),
        .min_ns = TROUPE_US(100),
        .max_ns = TROUPE_MS(1),
    };
    troupe_spawn_options child = TROUPE_INIT(troupe_spawn_options);
    troupe_backoff_options options = TROUPE_INIT(troupe_backoff_options);

    child.arg = &round;
    child.arg_bytes = sizeof round;
    options.child = &child_type;
    options.child_options = &child;
    options.backoff = &pauses;
    options.stash_capacity = POSTERS * MESSAGES;
    STRESS_CHECK(troupe_system_spawn_backoff(
                     round->system, &options, &round->keeper) == TROUPE_OK,
        "spawn");
}

static uint64_t
run(struct test_rng *rng)
{
    troupe_system_options options = stress_options(stress_workers(rng));
    uint32_t count = stress_threads(rng, POSTERS);
    struct round *round = stress_zeroed(1, sizeof *round);
    struct poster posters[POSTERS];
    uint64_t arrived;

    round->is_mortal = test_random_below(rng, 2) == 0;
    round->bad_starts = test_random_below(rng, 6);
    round->rng.state = test_random(rng);
    round->system = stress_open(&options);
    spawn_keeper(round);
    for (uint32_t i = 0; i < count; i++) {
        posters[i] = (struct poster){.round = round, .index = i};
        posters[i].rng.state = test_random(rng);
        stress_thread(&posters[i].thread, post, &posters[i]);
    }
    for (uint32_t i = 0; i < count; i++) {
        stress_join(posters[i].thread);
    }
    if (!round->is_mortal) {
        STRESS_CHECK(
            test_await_at_least(&round->arrived, (uint64_t)count * MESSAGES),
            "%u arrived", (unsigned)atomic_load(&round->arrived));
    }
    stress_close(round->system); /* checks the books */
    arrived = atomic_load(&round->arrived);
    free(round);
    return arrived;
}

int
main(int argc, char **argv)
{
    struct test_rng rng;
    uint64_t arrived = 0;

    stress_begin(argc, argv);
    while (stress_more(&rng)) {
        arrived += run(&rng);
    }
    return stress_end(arrived, "messages that arrived");
}
