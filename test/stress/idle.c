/* SPDX-License-Identifier: MIT */

/*
 * No wake-up is lost: one message to a system where everybody sleeps, or is
 * about to, is answered. The deadline only says that it hangs.
 */
#include "stress.h"

#include <poll.h>
#include <stdlib.h>

enum { STATIONS = 4, THREADS = 2, TURNS = 200 };

TROUPE_MSG_TYPE(ask, uint64_t, 1);

struct station {
    troupe_ref next; /* TROUPE_NONE: the last one answers */
};

struct client {
    troupe_system *system;
    troupe_ref first;
    struct test_rng rng;
    pthread_t thread;
};

static troupe_verdict
pass_on(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct station *station = STRESS_STATE(struct station, state);

    if (!troupe_ref_is_none(station->next)) {
        troupe_forward(self, station->next);
    } else {
        troupe_reply(self, &ask, msg->payload);
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type station_type = STRESS_ACTOR(pass_on);

static uint64_t
await_answer(troupe_port *port)
{
    uint64_t end_ns = test_clock_ns() + STRESS_DEADLINE_NS;
    const troupe_msg *msg;

    while ((msg = troupe_port_next(port)) == NULL) {
        struct pollfd ready = {troupe_port_fd(port), POLLIN, 0};

        STRESS_CHECK(test_clock_ns() < end_ns, "no answer: a wake-up was lost");
        (void)poll(&ready, 1, (int)(STRESS_DEADLINE_NS / 1000000));
    }
    return *troupe_payload(msg, uint64_t);
}

static void *
client(void *user)
{
    struct client *self = user;
    troupe_port *port = NULL;

    STRESS_CHECK(
        troupe_port_open(self->system, NULL, &port) == TROUPE_OK, "a port");
    for (uint64_t turn = 0; turn < TURNS; turn++) {
        uint64_t answer;

        switch (test_random_below(&self->rng, 4)) {
        case 0: /* while they look for work, fall asleep, or sleep */
        case 1:
            stress_spin_ns(test_random_below(&self->rng, 200000));
            break;
        case 2: /* all asleep */
            stress_await_idle(self->system);
            break;
        default: /* at once */
            break;
        }
        STRESS_CHECK(
            troupe_port_send(port, self->first, &ask, &turn) == TROUPE_OK,
            "a send");
        answer = await_answer(port);
        STRESS_CHECK(answer == turn, "an answer to something else");
        STRESS_CHECK(troupe_port_next(port) == NULL, "one answer too many");
    }
    troupe_port_close(port);
    return NULL;
}

static uint64_t
run(struct test_rng *rng)
{
    static const uint32_t spins[] = {0, TROUPE_SPIN_NEVER, 5, 50};
    troupe_system_options options = stress_options(stress_workers(rng));
    uint32_t threads = stress_threads(rng, THREADS);
    uint32_t stations = 1 + test_random_below(rng, STATIONS);
    struct station chain[STATIONS];
    struct client clients[THREADS];
    troupe_ref next = TROUPE_NONE;
    troupe_system *system;

    options.spin_us = spins[test_random_below(rng, 4)];
    options.steal = (troupe_steal)test_random_below(rng, 4);
    system = stress_open(&options);
    for (uint32_t i = 0; i < stations; i++) {
        chain[i].next = next;
        next = stress_spawn(system, &station_type, &chain[i]);
    }
    for (uint32_t i = 0; i < threads; i++) {
        clients[i].system = system;
        clients[i].first = next;
        clients[i].rng.state = test_random(rng);
        stress_thread(&clients[i].thread, client, &clients[i]);
    }
    for (uint32_t i = 0; i < threads; i++) {
        stress_join(clients[i].thread);
    }
    stress_close(system);
    return (uint64_t)threads * TURNS;
}

int
main(int argc, char **argv)
{
    struct test_rng rng;
    uint64_t turns = 0;

    stress_begin(argc, argv);
    while (stress_more(&rng)) {
        turns += run(&rng);
    }
    return stress_end(turns, "messages to a system that slept");
}
