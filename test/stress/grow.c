/* SPDX-License-Identifier: MIT */

/*
 * Bursts of 200 000 messages from several threads to a few actors that are kept
 * busy meanwhile, then drained, again and again: mailboxes grow to thousands of
 * segments and shrink to nothing, order and books stay.
 */
#include "stress.h"

#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { SENDERS = 4, ACTORS = 3, BURST = 200000, BURSTS = 2 };

struct item {
    uint32_t sender;
    uint32_t number;
};
TROUPE_MSG_TYPE(item, struct item, 1);
struct big_item {
    struct item item;
    unsigned char more[192];
};
TROUPE_MSG_TYPE(big_item, struct big_item, 2);
TROUPE_MSG_TYPE_EMPTY(hold, 3);

struct sink {
    uint32_t next[SENDERS];
    _Atomic bool *gate;
    _Atomic uint64_t handled;
};

struct sender {
    troupe_system *system;
    troupe_ref to[ACTORS];
    uint32_t next[ACTORS];
    uint32_t id;
    uint32_t count;
    struct test_rng rng;
    pthread_t thread;
};

static troupe_verdict
be_sink(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct sink *sink = STRESS_STATE(struct sink, state);
    const struct item *got = msg->payload;

    (void)self;
    if (troupe_msg_is(msg, &hold)) {
        while (!atomic_load(sink->gate)) {
            sched_yield();
        }
        return TROUPE_CONTINUE;
    }
    STRESS_CHECK(got->number == sink->next[got->sender],
        "%u of sender %u, expected %u", got->number, got->sender,
        sink->next[got->sender]);
    sink->next[got->sender]++;
    if (troupe_msg_is(msg, &big_item)) {
        const struct big_item *big = troupe_payload(msg, struct big_item);

        STRESS_CHECK(
            big->more[got->number % 192] == (got->number & 0xff), "a byte");
    }
    atomic_fetch_add_explicit(&sink->handled, 1, memory_order_relaxed);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type sink_type = STRESS_ACTOR(be_sink);

static void *
burst(void *user)
{
    struct sender *sender = user;

    for (uint32_t i = 0; i < sender->count; i++) {
        uint32_t to = test_random_below(&sender->rng, ACTORS);
        struct big_item big;
        troupe_status status;

        big.item = (struct item){sender->id, sender->next[to]++};
        if (test_random_below(&sender->rng, 8) == 0) {
            memset(big.more, (int)(big.item.number & 0xff), sizeof big.more);
            status =
                troupe_post(sender->system, sender->to[to], &big_item, &big);
        } else {
            status =
                troupe_post(sender->system, sender->to[to], &item, &big.item);
        }
        STRESS_CHECK(status == TROUPE_OK, "%s", troupe_status_name(status));
    }
    return NULL;
}

static void
run_burst(struct sender *senders, uint32_t threads, struct sink *sinks,
    uint32_t held, _Atomic bool *gate)
{
    atomic_store(gate, false);
    for (uint32_t i = 0; i < held; i++) {
        STRESS_CHECK(troupe_post(senders[0].system, senders[0].to[i], &hold,
                         NULL) == TROUPE_OK,
            "hold");
    }
    for (uint32_t i = 0; i < threads; i++) {
        senders[i].count = BURST / threads;
        stress_thread(&senders[i].thread, burst, &senders[i]);
    }
    for (uint32_t i = 0; i < threads; i++) {
        stress_join(senders[i].thread);
    }
    atomic_store(gate, true);
    stress_await_idle(senders[0].system);
    for (uint32_t i = 0; i < ACTORS; i++) {
        uint64_t sent = 0;

        for (uint32_t j = 0; j < threads; j++) {
            sent += senders[j].next[i];
        }
        STRESS_CHECK(atomic_load(&sinks[i].handled) == sent,
            "%" PRIu64 " of %" PRIu64 " handled",
            atomic_load(&sinks[i].handled), sent);
    }
}

static uint64_t
run(struct test_rng *rng)
{
    troupe_system_options options = stress_options(stress_workers(rng));
    uint32_t threads = stress_threads(rng, SENDERS);
    struct sink sinks[ACTORS] = {0};
    struct sender senders[SENDERS] = {0};
    _Atomic bool gate;
    troupe_system *system = stress_open(&options);

    for (uint32_t i = 0; i < ACTORS; i++) {
        troupe_ref ref;

        sinks[i].gate = &gate;
        ref = stress_spawn(system, &sink_type, &sinks[i]);
        for (uint32_t j = 0; j < SENDERS; j++) {
            senders[j].to[i] = ref;
        }
    }
    for (uint32_t i = 0; i < SENDERS; i++) {
        senders[i].system = system;
        senders[i].id = i;
        senders[i].rng.state = test_random(rng);
    }
    for (uint32_t i = 0; i < BURSTS; i++) {
        run_burst(
            senders, threads, sinks, test_random_below(rng, ACTORS + 1), &gate);
    }
    stress_close(system);
    return (uint64_t)BURSTS * BURST;
}

int
main(int argc, char **argv)
{
    struct test_rng rng;
    uint64_t messages = 0;

    stress_begin(argc, argv);
    while (stress_more(&rng)) {
        messages += run(&rng);
    }
    return stress_end(messages, "messages");
}
