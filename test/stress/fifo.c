/* SPDX-License-Identifier: MIT */

/*
 * What one sender sends to one receiver arrives in order, once, unharmed, and
 * all of it: senders are threads and actors, payloads of every size class,
 * everybody is preempted at random.
 */
#include "stress.h"

#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { SENDERS = 8, RECEIVERS = 3, LARGEST = 3000, BURST = 40 };

static const size_t sizes[] = {0, 8, 16, 40, LARGEST};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* Of a fixed size each, and one for all of them. */
static const troupe_msg_type types[] = {
    {sizeof(troupe_msg_type), "fifo_0", 0, 1, 0, NULL},
    {sizeof(troupe_msg_type), "fifo_8", 8, 2, 0, NULL},
    {sizeof(troupe_msg_type), "fifo_16", 16, 3, 0, NULL},
    {sizeof(troupe_msg_type), "fifo_40", 40, 4, 0, NULL},
    {sizeof(troupe_msg_type), "fifo_3000", LARGEST, 5, 0, NULL},
};
static const troupe_msg_type any = {
    sizeof(troupe_msg_type), "fifo_any", 0, 6, 0, NULL};
/* An empty message says by its tag alone who sent it. */
static troupe_msg_type empties[SENDERS];
enum { EMPTY_TAG = 100 };
TROUPE_MSG_TYPE_EMPTY(go, 7);

struct receiver {
    uint32_t next[SENDERS];
    uint64_t bytes;
    struct test_rng rng;
};

struct sender {
    troupe_system *system;
    uint32_t id;
    uint32_t receivers;
    uint32_t left;
    troupe_ref to[RECEIVERS];
    uint32_t next[RECEIVERS];
    struct test_rng rng;
    pthread_t thread;
    unsigned char scratch[LARGEST];
};

/* Both sides know the size of message n of a sender. */
static uint32_t
size_class(uint32_t sender, uint32_t n)
{
    struct test_rng rng = {
        stress.seed + stress.rounds + ((uint64_t)sender << 32) + n};
    uint32_t drawn = test_random_below(&rng, 100);

    return drawn < 4 ? 4 : drawn % 4;
}

static uint64_t
head_of(uint32_t sender, uint32_t n)
{
    return ((uint64_t)sender << 32) | n;
}

static void
fill(unsigned char *payload, size_t bytes, uint32_t sender, uint32_t n)
{
    uint64_t head = head_of(sender, n);

    if (bytes >= sizeof head) {
        memset(payload, (int)(n & 0xff), bytes);
        memcpy(payload, &head, sizeof head);
    }
}

static void
check(const troupe_msg *msg, uint32_t sender, uint32_t n)
{
    size_t bytes = sizes[size_class(sender, n)];
    const unsigned char *payload = msg->payload;
    uint64_t head;

    STRESS_CHECK(msg->bytes == bytes,
        "message %u of sender %u: %zu bytes, not %zu", n, sender, msg->bytes,
        bytes);
    if (bytes == 0) {
        return;
    }
    memcpy(&head, payload, sizeof head);
    STRESS_CHECK(head == head_of(sender, n),
        "message %u of sender %u expected, got %u", n, sender, (uint32_t)head);
    for (size_t i = sizeof head; i < bytes; i++) {
        STRESS_CHECK(payload[i] == (n & 0xff), "byte %zu of %zu is %u", i,
            bytes, payload[i]);
    }
}

static troupe_verdict
receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct receiver *receiver = STRESS_STATE(struct receiver, state);
    uint32_t sender = troupe_msg_tag(msg) - EMPTY_TAG;

    (void)self;
    if (msg->bytes != 0) {
        sender = (uint32_t)(*(const uint64_t *)msg->payload >> 32);
    }
    STRESS_CHECK(sender < SENDERS, "sender %u", sender);
    check(msg, sender, receiver->next[sender]++);
    receiver->bytes += msg->bytes;
    stress_jitter(&receiver->rng);
    return TROUPE_CONTINUE;
}

static troupe_status
send_one(struct sender *sender, troupe_self *self, troupe_ref to, uint32_t n)
{
    uint32_t class = size_class(sender->id, n);
    size_t bytes = sizes[class];
    const troupe_msg_type *type =
        bytes == 0 ? &empties[sender->id] : &types[class];
    const void *payload = bytes == 0 ? NULL : sender->scratch;
    uint32_t way = bytes == 0 ? 0 : test_random_below(&sender->rng, 4);
    troupe_msg *msg;

    fill(sender->scratch, bytes, sender->id, n);
    switch (way) {
    case 0:
        return self != NULL ? troupe_send(self, to, type, payload)
                            : troupe_post(sender->system, to, type, payload);
    case 1:
        return self != NULL ? troupe_send_bytes(self, to, &any, payload, bytes)
                            : troupe_post_bytes(
                                  sender->system, to, &any, payload, bytes);
    case 2:
        if (self != NULL) {
            troupe_tell(self, to, type, payload);
        } else {
            troupe_post_tell(sender->system, to, type, payload);
        }
        return TROUPE_OK;
    default:
        msg = troupe_msg_new(sender->system, type, 0);
        STRESS_CHECK(msg != NULL, "no message");
        fill(msg->payload, bytes, sender->id, n);
        return self != NULL ? troupe_send_msg(self, to, msg)
                            : troupe_post_msg(sender->system, to, msg);
    }
}

static void
send_next(struct sender *sender, troupe_self *self)
{
    uint32_t to = test_random_below(&sender->rng, sender->receivers);
    troupe_status status =
        send_one(sender, self, sender->to[to], sender->next[to]++);

    STRESS_CHECK(status == TROUPE_OK, "%s", troupe_status_name(status));
    sender->left--;
    stress_jitter(&sender->rng);
}

static void *
sending_thread(void *user)
{
    struct sender *sender = user;

    while (sender->left > 0) {
        send_next(sender, NULL);
    }
    return NULL;
}

static troupe_verdict
sending_actor(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct sender *sender = STRESS_STATE(struct sender, state);
    uint32_t burst = 1 + test_random_below(&sender->rng, BURST);

    (void)msg;
    for (uint32_t i = 0; i < burst && sender->left > 0; i++) {
        send_next(sender, self);
    }
    if (sender->left > 0) {
        STRESS_CHECK(
            troupe_send(self, troupe_self_ref(self), &go, NULL) == TROUPE_OK,
            "a send to itself");
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type receiver_type = STRESS_ACTOR(receive);
static const troupe_actor_type sender_type = STRESS_ACTOR(sending_actor);

static uint64_t
run(struct test_rng *rng)
{
    static const uint32_t throughputs[] = {0, 0, 1, 3, 64};
    troupe_system_options options = stress_options(stress_workers(rng));
    uint32_t count = stress_threads(rng, SENDERS);
    uint32_t receivers = 1 + test_random_below(rng, RECEIVERS);
    uint32_t messages = 100 + test_random_below(rng, 4000);
    uint32_t actors = (uint32_t)test_random(rng); /* who is one: a mask */
    struct receiver *in = stress_zeroed(RECEIVERS, sizeof *in);
    struct sender *out = stress_zeroed(SENDERS, sizeof *out);
    troupe_ref to[RECEIVERS];
    troupe_system *system;

    options.throughput = throughputs[test_random_below(rng, 5)];
    options.steal = (troupe_steal)test_random_below(rng, 4);
    system = stress_open(&options);
    for (uint32_t i = 0; i < receivers; i++) {
        in[i].rng.state = test_random(rng);
        to[i] = stress_spawn(system, &receiver_type, &in[i]);
    }
    for (uint32_t i = 0; i < count; i++) {
        out[i].system = system;
        out[i].id = i;
        out[i].receivers = receivers;
        out[i].left = messages;
        out[i].rng.state = test_random(rng);
        memcpy(out[i].to, to, sizeof to);
        if (actors & (1u << i)) {
            troupe_ref ref = stress_spawn(system, &sender_type, &out[i]);

            STRESS_CHECK(
                troupe_post(system, ref, &go, NULL) == TROUPE_OK, "go");
        } else {
            stress_thread(&out[i].thread, sending_thread, &out[i]);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!(actors & (1u << i))) {
            stress_join(out[i].thread);
        }
    }
    stress_await_idle(system);
    stress_close(system);
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = 0; j < receivers; j++) {
            STRESS_CHECK(in[j].next[i] == out[i].next[j],
                "receiver %u got %u messages of sender %u, not %u", j,
                in[j].next[i], i, out[i].next[j]);
        }
    }
    free(in);
    free(out);
    return (uint64_t)count * messages;
}

int
main(int argc, char **argv)
{
    struct test_rng rng;
    uint64_t messages = 0;

    stress_begin(argc, argv);
    for (uint32_t i = 0; i < SENDERS; i++) {
        empties[i] = types[0];
        empties[i].tag = EMPTY_TAG + i;
    }
    while (stress_more(&rng)) {
        messages += run(&rng);
    }
    return stress_end(messages, "messages in order");
}
