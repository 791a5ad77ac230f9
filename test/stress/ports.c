/* SPDX-License-Identifier: MIT */

/*
 * Ports drained by foreign threads that poll: all the way, only half-way on
 * purpose, or not at all, and closed while actors and threads send to them.
 * What a sender was told is accepted has been seen or is a dead letter.
 */
#include "stress.h"

#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>

enum { PORTS = 4, SENDERS = 3, LIVES = 6 };

struct note {
    uint64_t sender;
    uint64_t number; /* rises per sender */
};
TROUPE_MSG_TYPE(note, struct note, 1);
TROUPE_MSG_TYPE_EMPTY(go, 2);

struct ports {
    troupe_system *system;
    _Atomic uint64_t refs[PORTS];
    _Atomic uint64_t accepted;
    _Atomic uint64_t seen;
    _Atomic uint64_t letters;
    _Atomic bool over;
};

struct party {
    struct ports *ports;
    uint32_t id;
    uint64_t number;
    bool half; /* leave something behind on every look */
    struct test_rng rng;
    pthread_t thread;
};

static void
on_dead_letter(
    troupe_system *system, const troupe_dead_letter *letter, void *user)
{
    struct ports *ports = user;

    (void)system;
    if (troupe_msg_is(letter->msg, &note)) {
        atomic_fetch_add(&ports->letters, 1);
    }
}

static void
send_one(struct party *party, troupe_self *self)
{
    struct ports *ports = party->ports;
    uint32_t place = test_random_below(&party->rng, PORTS);
    troupe_ref to = stress_unpack(atomic_load(&ports->refs[place]));
    struct note what = {party->id, party->number++};
    troupe_status status;

    if (troupe_ref_is_none(to)) {
        return;
    }
    status = self != NULL ? troupe_send(self, to, &note, &what)
                          : troupe_post(ports->system, to, &note, &what);
    STRESS_CHECK(status == TROUPE_OK || status == TROUPE_E_DEAD, "%s",
        troupe_status_name(status));
    if (status == TROUPE_OK) {
        atomic_fetch_add(&ports->accepted, 1);
    }
}

static void *
sending_thread(void *user)
{
    struct party *party = user;

    while (!atomic_load(&party->ports->over)) {
        send_one(party, NULL);
        stress_jitter(&party->rng);
    }
    return NULL;
}

static troupe_verdict
sending_actor(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct party *party = STRESS_STATE(struct party, state);

    (void)msg;
    if (atomic_load(&party->ports->over)) {
        return TROUPE_CONTINUE;
    }
    for (uint32_t i = 0; i < 10; i++) {
        send_one(party, self);
    }
    stress_jitter(&party->rng);
    troupe_tell(self, troupe_self_ref(self), &go, NULL);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type sender_type = STRESS_ACTOR(sending_actor);

/* At most `most` messages; each sender's numbers rise. */
static uint32_t
take_some(struct party *party, troupe_port *port, uint64_t *next, uint32_t most)
{
    uint32_t taken = 0;
    const troupe_msg *msg;

    while (taken < most && (msg = troupe_port_next(port)) != NULL) {
        const struct note *what = troupe_payload(msg, struct note);

        STRESS_CHECK(what->sender < 2 * SENDERS, "a sender");
        STRESS_CHECK(what->number >= next[what->sender],
            "number %" PRIu64 " after %" PRIu64, what->number,
            next[what->sender]);
        next[what->sender] = what->number + 1;
        if (taken % 16 == 5) {
            troupe_msg *kept = NULL;

            STRESS_CHECK(troupe_port_take(port, &kept) == TROUPE_OK, "a take");
            troupe_msg_free(kept);
        }
        taken++;
    }
    atomic_fetch_add(&party->ports->seen, taken);
    return taken;
}

/* Everybody sends to all ports, so an open one does not stay empty. */
static void
await_more(troupe_port *port)
{
    struct pollfd ready = {troupe_port_fd(port), POLLIN, 0};

    STRESS_CHECK(poll(&ready, 1, (int)(STRESS_DEADLINE_NS / 1000000)) == 1,
        "not readable though everybody sends: a wake-up was lost");
}

static void
live_once(struct party *party)
{
    uint32_t looks = 10 + test_random_below(&party->rng, 100);
    uint64_t next[2 * SENDERS] = {0};
    troupe_port *port = NULL;

    STRESS_CHECK(
        troupe_port_open(party->ports->system, NULL, &port) == TROUPE_OK,
        "a port");
    atomic_store(
        &party->ports->refs[party->id], stress_pack(troupe_port_ref(port)));
    for (uint32_t i = 0; i < looks; i++) {
        uint32_t half = 1 + test_random_below(&party->rng, 40);

        await_more(port);
        (void)take_some(party, port, next, party->half ? half : UINT32_MAX);
    }
    /* With what is left, while they go on sending. */
    troupe_port_close(port);
}

static void *
draining_thread(void *user)
{
    struct party *party = user;

    for (uint32_t i = 0; i < LIVES; i++) {
        live_once(party);
    }
    return NULL;
}

static void
make_party(
    struct party *party, struct ports *ports, uint32_t id, struct test_rng *rng)
{
    *party = (struct party){.ports = ports, .id = id};
    party->rng.state = test_random(rng);
}

static uint64_t
run(struct test_rng *rng)
{
    troupe_system_options options = stress_options(stress_workers(rng));
    uint32_t senders = stress_threads(rng, SENDERS);
    struct ports *ports = stress_zeroed(1, sizeof *ports);
    struct party threads[SENDERS];
    struct party actors[SENDERS];
    struct party drains[PORTS];
    uint64_t seen;

    options.dead_letter.fn = on_dead_letter;
    options.dead_letter.user = ports;
    ports->system = stress_open(&options);
    for (uint32_t i = 0; i < senders; i++) {
        troupe_ref ref;

        make_party(&threads[i], ports, i, rng);
        make_party(&actors[i], ports, SENDERS + i, rng);
        ref = stress_spawn(ports->system, &sender_type, &actors[i]);
        STRESS_CHECK(
            troupe_post(ports->system, ref, &go, NULL) == TROUPE_OK, "go");
        stress_thread(&threads[i].thread, sending_thread, &threads[i]);
    }
    for (uint32_t i = 0; i < PORTS; i++) {
        make_party(&drains[i], ports, i, rng);
        drains[i].half = i % 2 == 1;
        stress_thread(&drains[i].thread, draining_thread, &drains[i]);
    }
    for (uint32_t i = 0; i < PORTS; i++) {
        stress_join(drains[i].thread);
    }
    atomic_store(&ports->over, true);
    for (uint32_t i = 0; i < senders; i++) {
        stress_join(threads[i].thread);
    }
    stress_await_idle(ports->system);
    stress_close(ports->system);
    seen = atomic_load(&ports->seen);
    STRESS_CHECK(
        seen + atomic_load(&ports->letters) == atomic_load(&ports->accepted),
        "%" PRIu64 " seen, %" PRIu64 " letters, %" PRIu64 " accepted", seen,
        atomic_load(&ports->letters), atomic_load(&ports->accepted));
    free(ports);
    return seen;
}

int
main(int argc, char **argv)
{
    struct test_rng rng;
    uint64_t seen = 0;

    stress_begin(argc, argv);
    while (stress_more(&rng)) {
        seen += run(&rng);
    }
    return stress_end(seen, "messages through ports");
}
