/* SPDX-License-Identifier: MIT */

/* Rows that measure messages between actors that live for the whole run. */

#include "rows.h"

enum { RING = 100, SENDERS = 64, WORKERS = 60, BIG = 120, PINGERS = 8 };
enum { TOKENS_PER_PINGER = 5 };

/* Written before the first message, read by the actors. */
static troupe_ref peers[BIG];

/* --- pingpong: two actors, one message between them ----------------------- */

static troupe_verdict
ponger_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    troupe_reply(self, &bench_number, troupe_payload(msg, int64_t));
    return TROUPE_CONTINUE;
}

static const troupe_actor_type ponger_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "ponger",
    .receive = ponger_receive,
};

struct pinger {
    troupe_ref ponger;
    int64_t trips;
};

static troupe_status
pinger_start(troupe_self *self, void *state, const void *arg)
{
    struct pinger *pinger = state;

    (void)self;
    pinger->ponger = *(const troupe_ref *)arg;
    return TROUPE_OK;
}

/* The first number is the count of round trips; each reply ends one. */
static troupe_verdict
pinger_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct pinger *pinger = state;
    int64_t left = *troupe_payload(msg, int64_t);

    if (left == 0) {
        bench_done(self, pinger->trips);
        return TROUPE_DONE;
    }
    pinger->trips++;
    bench_tell_number(self, pinger->ponger, left - 1);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type pinger_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "pinger",
    .state_bytes = sizeof(struct pinger),
    .receive = pinger_receive,
    .start = pinger_start,
};

void
bench_pingpong(struct bench *bench)
{
    int64_t trips = bench_scaled(bench, 5000000);
    troupe_ref ponger = bench_spawn(bench, &ponger_type, NULL, 0);
    troupe_ref pinger =
        bench_spawn(bench, &pinger_type, &ponger, sizeof ponger);

    bench_begin(bench);
    bench_post_number(bench, pinger, trips);
    bench_expect(bench_wait(bench) == trips, "round trips");
    bench->must_end = 1;
    bench->result.messages = 2 * (uint64_t)trips;
}

/* --- ring: one token through 100 actors ------------------------------------
 */

struct ring_node {
    troupe_ref next;
};

static troupe_status
ring_start(troupe_self *self, void *state, const void *arg)
{
    struct ring_node *node = state;

    (void)self;
    node->next = *(const troupe_ref *)arg;
    return TROUPE_OK;
}

static troupe_verdict
ring_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct ring_node *node = state;
    int64_t hops = *troupe_payload(msg, int64_t);

    if (hops == 0) {
        bench_done(self, 0);
        return TROUPE_CONTINUE;
    }
    if (troupe_ref_is_none(node->next)) { /* the last one closes the ring */
        node->next = peers[0];
    }
    bench_tell_number(self, node->next, hops - 1);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type ring_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "ring",
    .state_bytes = sizeof(struct ring_node),
    .receive = ring_receive,
    .start = ring_start,
};

void
bench_ring(struct bench *bench)
{
    int64_t hops = bench_scaled(bench, 5000000);
    troupe_ref next = TROUPE_NONE;

    for (int i = RING - 1; i >= 0; i--) {
        next = bench_spawn(bench, &ring_type, &next, sizeof next);
        peers[i] = next;
    }
    bench_begin(bench);
    bench_post_number(bench, peers[0], hops);
    bench_wait(bench);
    bench->result.messages = (uint64_t)hops;
}

/* --- count, n1: producers to one counter -----------------------------------
 */

struct counter {
    int64_t left;
    int64_t sum;
};

static troupe_status
counter_start(troupe_self *self, void *state, const void *arg)
{
    struct counter *counter = state;

    (void)self;
    counter->left = *(const int64_t *)arg;
    return TROUPE_OK;
}

static troupe_verdict
counter_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct counter *counter = state;

    counter->sum += *troupe_payload(msg, int64_t);
    if (--counter->left == 0) {
        bench_done(self, counter->sum);
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type counter_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "counter",
    .state_bytes = sizeof(struct counter),
    .receive = counter_receive,
    .start = counter_start,
};

struct producer {
    troupe_ref to;
    int64_t left;
};

static troupe_status
producer_start(troupe_self *self, void *state, const void *arg)
{
    struct producer *producer = state;

    (void)self;
    *producer = *(const struct producer *)arg;
    return TROUPE_OK;
}

/* Sends the numbers from `left` down to 1. */
static troupe_verdict
producer_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct producer *producer = state;

    (void)msg;
    for (int i = 0; i < BENCH_CHUNK && producer->left > 0; i++) {
        bench_tell_number(self, producer->to, producer->left--);
    }
    if (producer->left == 0) {
        return TROUPE_DONE;
    }
    bench_again(self);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type producer_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "producer",
    .state_bytes = sizeof(struct producer),
    .receive = producer_receive,
    .start = producer_start,
};

static void
produce(struct bench *bench, int senders, int64_t each)
{
    int64_t total = senders * each;
    struct producer work = {.left = each};
    int64_t sum = 0;

    work.to = bench_spawn(bench, &counter_type, &total, sizeof total);
    for (int i = 0; i < senders; i++) {
        peers[i] = bench_spawn(bench, &producer_type, &work, sizeof work);
    }
    bench_begin(bench);
    for (int i = 0; i < senders; i++) {
        bench_post_go(bench, peers[i]);
    }
    sum = bench_wait(bench);
    bench_expect(sum == senders * (each * (each + 1) / 2), "sum of numbers");
    bench->must_end = (uint64_t)senders;
    bench->result.messages = (uint64_t)total;
}

void
bench_count(struct bench *bench)
{
    produce(bench, 1, bench_scaled(bench, 10000000));
}

void
bench_n1(struct bench *bench)
{
    produce(bench, SENDERS, bench_scaled(bench, 100000));
}

/* --- fjthrput: one driver to 60 workers in turn -----------------------------
 */

struct driver {
    int64_t left;
    int64_t next;
};

static troupe_status
driver_start(troupe_self *self, void *state, const void *arg)
{
    struct driver *driver = state;

    (void)self;
    driver->left = *(const int64_t *)arg;
    return TROUPE_OK;
}

static troupe_verdict
driver_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct driver *driver = state;

    (void)msg;
    for (int i = 0; i < BENCH_CHUNK && driver->left > 0; i++) {
        bench_tell_number(self, peers[driver->next], driver->left--);
        if (++driver->next == WORKERS) {
            driver->next = 0;
        }
    }
    if (driver->left == 0) {
        return TROUPE_DONE;
    }
    bench_again(self);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type driver_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "driver",
    .state_bytes = sizeof(struct driver),
    .receive = driver_receive,
    .start = driver_start,
};

/* As the counter, but ends, and only the last one of all reports. */
static troupe_verdict
worker_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct counter *worker = state;

    worker->sum += *troupe_payload(msg, int64_t);
    if (--worker->left > 0) {
        return TROUPE_CONTINUE;
    }
    bench_count_down(self, worker->sum);
    return TROUPE_DONE;
}

static const troupe_actor_type worker_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "worker",
    .state_bytes = sizeof(struct counter),
    .receive = worker_receive,
    .start = counter_start,
};

void
bench_fjthrput(struct bench *bench)
{
    int64_t each = bench_scaled(bench, 200000);
    int64_t total = WORKERS * each;
    troupe_ref driver = bench_spawn(bench, &driver_type, &total, sizeof total);

    bench_count_down_from(WORKERS);
    for (int i = 0; i < WORKERS; i++) {
        peers[i] = bench_spawn(bench, &worker_type, &each, sizeof each);
    }
    bench_begin(bench);
    bench_post_go(bench, driver);
    bench_expect(
        bench_wait(bench) == total * (total + 1) / 2, "sum of numbers");
    bench->must_end = WORKERS + 1;
    bench->result.messages = (uint64_t)total;
}

/* --- big: each of 120 pings a random peer, the next after the pong ----------
 */

TROUPE_MSG_TYPE_EMPTY(ping_message, 10);
TROUPE_MSG_TYPE_EMPTY(pong_message, 11);

struct random_actor {
    uint64_t random;
    int64_t left;
    int64_t pongs;
};

static troupe_status
random_start(troupe_self *self, void *state, const void *arg)
{
    struct random_actor *actor = state;

    (void)self;
    *actor = *(const struct random_actor *)arg;
    return TROUPE_OK;
}

static void
big_next(troupe_self *self, struct random_actor *actor)
{
    if (actor->left-- > 0) {
        troupe_tell(self, peers[bench_random(&actor->random, BIG)],
            &ping_message, NULL);
    } else {
        bench_count_down(self, actor->pongs);
    }
}

/* bench_go and the pong ask for the next ping. */
static troupe_verdict
big_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct random_actor *actor = state;

    if (troupe_msg_is(msg, &ping_message)) {
        troupe_reply(self, &pong_message, NULL);
        return TROUPE_CONTINUE;
    }
    if (troupe_msg_is(msg, &pong_message)) {
        actor->pongs++;
    }
    big_next(self, actor);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type big_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "big",
    .state_bytes = sizeof(struct random_actor),
    .receive = big_receive,
    .start = random_start,
};

void
bench_big(struct bench *bench)
{
    struct random_actor work = {.left = bench_scaled(bench, 20000)};

    bench_count_down_from(BIG);
    for (int i = 0; i < BIG; i++) {
        work.random = bench_random_seed((uint64_t)i + 1);
        peers[i] = bench_spawn(bench, &big_type, &work, sizeof work);
    }
    bench_begin(bench);
    for (int i = 0; i < BIG; i++) {
        bench_post_go(bench, peers[i]);
    }
    bench_expect(bench_wait(bench) == BIG * work.left, "number of pongs");
    bench->result.messages = UINT64_C(2) * BIG * (uint64_t)work.left;
}

/* --- ubench: 40 tokens hop between 8 pingers --------------------------------
 */

static troupe_verdict
ubench_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct random_actor *actor = state;
    int64_t hops = *troupe_payload(msg, int64_t);

    if (hops == 0) {
        bench_count_down(self, 0);
        return TROUPE_CONTINUE;
    }
    bench_tell_number(
        self, peers[bench_random(&actor->random, PINGERS)], hops - 1);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type ubench_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "ubench",
    .state_bytes = sizeof(struct random_actor),
    .receive = ubench_receive,
    .start = random_start,
};

void
bench_ubench(struct bench *bench)
{
    int64_t hops = bench_scaled(bench, 250000);
    struct random_actor work = {.left = 0};

    bench_count_down_from((int64_t)PINGERS * TOKENS_PER_PINGER);
    for (int i = 0; i < PINGERS; i++) {
        work.random = bench_random_seed((uint64_t)i + 1);
        peers[i] = bench_spawn(bench, &ubench_type, &work, sizeof work);
    }
    bench_begin(bench);
    for (int i = 0; i < PINGERS * TOKENS_PER_PINGER; i++) {
        bench_post_number(bench, peers[i % PINGERS], hops - 1);
    }
    bench_wait(bench);
    bench->result.messages =
        (uint64_t)PINGERS * TOKENS_PER_PINGER * (uint64_t)hops;
}
