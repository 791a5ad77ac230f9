/* SPDX-License-Identifier: MIT */

/*
 * Two systems in one process that exchange nothing: each keeps its own books,
 * and one that ends and begins again does not disturb the other.
 */
#include "stress.h"

#include <inttypes.h>
#include <stdlib.h>

enum { MEMBERS = 5, STARTS = 6 };

TROUPE_MSG_TYPE(token, uint64_t, 1);

struct member {
    troupe_ref next;
    troupe_system *system;
    uint64_t handled;
};

struct half {
    struct test_rng rng;
    uint64_t handled;
    pthread_t thread;
};

static troupe_verdict
pass_token(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct member *member = STRESS_STATE(struct member, state);
    uint64_t laps = *troupe_payload(msg, uint64_t);

    STRESS_CHECK(
        troupe_self_system(self) == member->system, "in the wrong system");
    member->handled++;
    if (laps > 0) {
        laps--;
        STRESS_CHECK(
            troupe_send(self, member->next, &token, &laps) == TROUPE_OK,
            "a token");
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type member_type = STRESS_ACTOR(pass_token);
TROUPE_MSG_TYPE(link, troupe_ref, 2);

static troupe_verdict
first_member(troupe_self *self, void *state, const troupe_msg *msg)
{
    if (troupe_msg_is(msg, &link)) {
        STRESS_STATE(struct member, state)->next =
            *troupe_payload(msg, troupe_ref);
        return TROUPE_CONTINUE;
    }
    return pass_token(self, state, msg);
}

static const troupe_actor_type first_type = STRESS_ACTOR(first_member);

static uint64_t
live_once(struct test_rng *rng)
{
    troupe_system_options options = stress_options(stress_workers(rng));
    struct member members[MEMBERS] = {0};
    uint64_t expected = 1;
    uint64_t handled = 0;
    troupe_system *system = stress_open(&options);
    troupe_counters counters;
    troupe_ref first;
    troupe_ref next;

    for (uint32_t i = 0; i < MEMBERS; i++) {
        members[i].system = system;
    }
    first = stress_spawn(system, &first_type, &members[0]);
    next = first;
    for (uint32_t i = 1; i < MEMBERS; i++) {
        members[i].next = next;
        next = stress_spawn(system, &member_type, &members[i]);
    }
    STRESS_CHECK(troupe_post(system, first, &link, &next) == TROUPE_OK, "link");
    for (uint32_t i = 0; i < 3; i++) {
        uint64_t laps = test_random_below(rng, 20000);

        STRESS_CHECK(
            troupe_post(system, first, &token, &laps) == TROUPE_OK, "token");
        expected += laps + 1;
    }
    stress_await_idle(system);
    counters = stress_counters(system);
    STRESS_CHECK(counters.sent == expected && counters.handled == expected,
        "sent %" PRIu64 ", handled %" PRIu64 ", expected %" PRIu64,
        counters.sent, counters.handled, expected);
    STRESS_CHECK(counters.dead == 0 && counters.refused == 0, "losses");
    stress_close(system);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        handled += members[i].handled;
    }
    STRESS_CHECK(handled + 1 == expected, "%" PRIu64 " handled", handled);
    return handled;
}

static void *
live_often(void *user)
{
    struct half *half = user;

    for (uint32_t i = 0; i < STARTS; i++) {
        half->handled += live_once(&half->rng);
    }
    return NULL;
}

int
main(int argc, char **argv)
{
    struct test_rng rng;
    uint64_t handled = 0;

    stress_begin(argc, argv);
    while (stress_more(&rng)) {
        struct half halves[2] = {0};

        for (uint32_t i = 0; i < 2; i++) {
            halves[i].rng.state = test_random(&rng);
            stress_thread(&halves[i].thread, live_often, &halves[i]);
        }
        for (uint32_t i = 0; i < 2; i++) {
            stress_join(halves[i].thread);
            handled += halves[i].handled;
        }
    }
    return stress_end(handled, "tokens passed");
}
