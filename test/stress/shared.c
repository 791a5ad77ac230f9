/* SPDX-License-Identifier: MIT */

/*
 * One payload for many readers that die meanwhile: all read the same bytes, and
 * it is dropped exactly once, after the last of them.
 */
#include "stress.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { READERS = 8, SENDERS = 3, WORDS = 5000 / 8 };

TROUPE_MSG_TYPE_EMPTY(go, 1);

/* Index into the fates, and in the large one a pattern made of it. */
struct small {
    uint64_t number;
};
struct large {
    uint64_t words[WORDS];
};

static _Atomic unsigned char *drops; /* per payload */

static void
drop(void *payload, size_t bytes)
{
    uint64_t number;

    memcpy(&number, payload, sizeof number);
    STRESS_CHECK(atomic_fetch_add(&drops[number], 1) == 0,
        "payload %" PRIu64 " dropped twice", number);
    /* Who still reads it sees that. */
    memset(payload, 0xee, bytes);
}

static const troupe_msg_type small_type = {sizeof(troupe_msg_type), "small",
    sizeof(struct small), 2, TROUPE_MSG_SHARED, drop};
static const troupe_msg_type large_type = {sizeof(troupe_msg_type), "large",
    sizeof(struct large), 3, TROUPE_MSG_SHARED, drop};

struct group {
    troupe_system *system;
    _Atomic uint64_t readers[READERS];
    _Atomic uint64_t next;
    uint64_t capacity;
    _Atomic uint64_t read;
    _Atomic uint64_t taken;
};

struct party {
    struct group *group;
    struct test_rng rng;
};

static void
check_payload(const troupe_msg *msg)
{
    const uint64_t *words = msg->payload;
    size_t count = msg->bytes / sizeof *words;
    uint64_t number = words[0];

    for (size_t i = 1; i < count; i++) {
        STRESS_CHECK(
            words[i] == number + i, "word %zu of payload %" PRIu64, i, number);
    }
    STRESS_CHECK(atomic_load(&drops[number]) == 0, "read after it was dropped");
}

static troupe_verdict
be_reader(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct party *party = STRESS_STATE(struct party, state);
    struct test_rng rng = {atomic_fetch_add(&party->group->read, 1)};
    uint32_t drawn = test_random_below(&rng, 400);

    check_payload(msg);
    stress_jitter(&rng);
    if (drawn < 100) {
        /* Passed on, without a copy. */
        uint32_t place = test_random_below(&rng, READERS);
        troupe_ref to[2];

        for (uint32_t i = 0; i < 2; i++) {
            to[i] = stress_unpack(
                atomic_load(&party->group->readers[(place + i) % READERS]));
        }
        if (drawn < 40 && troupe_msg_is(msg, &small_type)) {
            troupe_forward(self, to[0]);
            return TROUPE_CONTINUE; /* no longer ours to read */
        } else if (drawn < 50) {
            atomic_fetch_add(&party->group->taken,
                troupe_tell_many(self, to, 2, msg->type, msg->payload));
        }
    }
    check_payload(msg);
    return drawn == 399   ? TROUPE_DONE
           : drawn == 398 ? TROUPE_UNHANDLED
                          : TROUPE_CONTINUE;
}

static const troupe_actor_type reader_type = STRESS_ACTOR(be_reader);

static void
send_one(struct party *party, troupe_self *self)
{
    struct group *group = party->group;
    uint64_t number = atomic_fetch_add(&group->next, 1);
    uint32_t count = 1 + test_random_below(&party->rng, READERS);
    troupe_ref to[READERS];

    if (number >= group->capacity) {
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        to[i] = stress_unpack(atomic_load(&group->readers[i]));
    }
    if (test_random_below(&party->rng, 3) != 0) {
        struct small small = {number};

        atomic_fetch_add(&group->taken,
            troupe_tell_many(self, to, count, &small_type, &small));
    } else {
        struct large large;

        for (size_t i = 0; i < WORDS; i++) {
            large.words[i] = number + i;
        }
        atomic_fetch_add(&group->taken,
            troupe_tell_many(self, to, count, &large_type, &large));
    }
    /* One of them dies, with what waits there. */
    if (test_random_below(&party->rng, 50) == 0) {
        (void)troupe_stop_now(self, to[0]);
    }
}

static troupe_verdict
be_sender(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct party *party = STRESS_STATE(struct party, state);

    (void)msg;
    for (uint32_t i = 0; i < 8; i++) {
        send_one(party, self);
    }
    if (atomic_load(&party->group->next) < party->group->capacity) {
        troupe_tell(self, troupe_self_ref(self), &go, NULL);
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type sender_type = STRESS_ACTOR(be_sender);

/* Puts a living one in each place. */
static void *
revive(void *user)
{
    struct party *party = user;
    struct group *group = party->group;

    while (atomic_load(&group->next) < group->capacity) {
        uint32_t i = test_random_below(&party->rng, READERS);
        troupe_ref ref = stress_unpack(atomic_load(&group->readers[i]));

        if (troupe_depth(group->system, ref) == TROUPE_DEPTH_DEAD) {
            ref = stress_spawn(group->system, &reader_type, party);
            atomic_store(&group->readers[i], stress_pack(ref));
        }
        stress_spin_ns(20000);
    }
    return NULL;
}

static uint64_t
run(struct test_rng *rng)
{
    troupe_system_options options = stress_options(stress_workers(rng));
    struct group *group = stress_zeroed(1, sizeof *group);
    struct party senders[SENDERS];
    struct party readers = {group, {test_random(rng)}};
    pthread_t reviver;

    group->capacity = 2000 + test_random_below(rng, 10000);
    drops = stress_zeroed(group->capacity, sizeof *drops);
    group->system = stress_open(&options);
    for (uint32_t i = 0; i < READERS; i++) {
        atomic_store(&group->readers[i],
            stress_pack(stress_spawn(group->system, &reader_type, &readers)));
    }
    for (uint32_t i = 0; i < SENDERS; i++) {
        troupe_ref ref;

        senders[i] = (struct party){group, {test_random(rng)}};
        ref = stress_spawn(group->system, &sender_type, &senders[i]);
        STRESS_CHECK(
            troupe_post(group->system, ref, &go, NULL) == TROUPE_OK, "go");
    }
    stress_thread(&reviver, revive, &readers);
    stress_join(reviver);
    stress_await_idle(group->system);
    for (uint64_t i = 0; i < group->capacity; i++) {
        STRESS_CHECK(atomic_load(&drops[i]) == 1,
            "payload %" PRIu64 " dropped %u times", i, atomic_load(&drops[i]));
    }
    stress_close(group->system);
    free((void *)drops);
    {
        uint64_t read = atomic_load(&group->read);

        free(group);
        return read;
    }
}

int
main(int argc, char **argv)
{
    struct test_rng rng;
    uint64_t read = 0;

    stress_begin(argc, argv);
    while (stress_more(&rng)) {
        read += run(&rng);
    }
    return stress_end(read, "readings of shared payloads");
}
