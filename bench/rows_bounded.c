/* SPDX-License-Identifier: MIT */

/* The row bndbuf: a bounded buffer between 40 producers and 40 consumers. */

#include "rows.h"

#include <math.h>

/* --- bndbuf: a bounded buffer between 40 producers and 40 consumers ---------
 */

enum { PRODUCERS = 40, CONSUMERS = 40, BUFFER = 50 };
enum { BUFFER_LIMIT = BUFFER - PRODUCERS };
enum { QUEUE = 64 }; /* a power of two, and nothing here holds more */

TROUPE_MSG_TYPE(item_message, double, 20);
TROUPE_MSG_TYPE_EMPTY(produce_message, 21);
TROUPE_MSG_TYPE_EMPTY(ready_message, 22);
TROUPE_MSG_TYPE(produced_message, int64_t, 23);
TROUPE_MSG_TYPE_EMPTY(close_message, 24);

struct bounded_worker {
    troupe_ref manager;
    uint64_t random;
    double item;
    int64_t left;  /* producers */
    int64_t count; /* items handled */
};

static double
process_item(double x, uint64_t *random)
{
    return x + log((double)bench_random(random, 1000000) * 1e-6 + 0.01);
}

static troupe_status
bounded_start(troupe_self *self, void *state, const void *arg)
{
    struct bounded_worker *worker = state;

    worker->manager = troupe_parent(self);
    worker->random = 7;
    worker->left = *(const int64_t *)arg;
    return TROUPE_OK;
}

static troupe_verdict
producer_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct bounded_worker *producer = state;

    (void)msg;
    if (producer->left-- == 0) {
        troupe_reply(self, &produced_message, &producer->count);
        return TROUPE_DONE;
    }
    producer->count++;
    producer->item = process_item(producer->item, &producer->random);
    troupe_tell(self, producer->manager, &item_message, &producer->item);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type producer_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "producer",
    .state_bytes = sizeof(struct bounded_worker),
    .receive = producer_receive,
    .start = bounded_start,
};

static troupe_verdict
consumer_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct bounded_worker *consumer = state;

    if (troupe_msg_is(msg, &close_message)) {
        bench_count_down(self, consumer->count);
        return TROUPE_DONE;
    }
    consumer->count++;
    consumer->item = process_item(
        consumer->item + *troupe_payload(msg, double), &consumer->random);
    troupe_tell(self, consumer->manager, &ready_message, NULL);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type consumer_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "consumer",
    .state_bytes = sizeof(struct bounded_worker),
    .receive = consumer_receive,
    .start = bounded_start,
};

struct ref_queue {
    uint32_t head;
    uint32_t tail;
    troupe_ref refs[QUEUE];
};

struct manager {
    struct ref_queue producers; /* that wait for room */
    struct ref_queue consumers; /* that wait for an item */
    uint32_t head;
    uint32_t tail;
    double pending[QUEUE];
    int64_t produced;
    int finished;
};

static bool
is_empty(const struct ref_queue *queue)
{
    return queue->head == queue->tail;
}

static void
push(struct ref_queue *queue, troupe_ref ref)
{
    queue->refs[queue->tail++ % QUEUE] = ref;
}

static troupe_ref
pop(struct ref_queue *queue)
{
    return queue->refs[queue->head++ % QUEUE];
}

static troupe_ref
spawn_bounded(
    troupe_self *self, const troupe_actor_type *type, const int64_t *items)
{
    troupe_ref worker = TROUPE_NONE;
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);

    options.arg = items;
    options.arg_bytes = sizeof *items;
    bench_must(troupe_spawn(self, type, &options, &worker), type->name);
    return worker;
}

static void
manager_open(troupe_self *self, struct manager *manager, const int64_t *items)
{
    for (int i = 0; i < CONSUMERS; i++) {
        push(&manager->consumers, spawn_bounded(self, &consumer_type, items));
    }
    for (int i = 0; i < PRODUCERS; i++) {
        troupe_tell(self, spawn_bounded(self, &producer_type, items),
            &produce_message, NULL);
    }
}

static void
manager_item(troupe_self *self, struct manager *manager, const double *item)
{
    if (is_empty(&manager->consumers)) {
        manager->pending[manager->tail++ % QUEUE] = *item;
    } else {
        troupe_tell(self, pop(&manager->consumers), &item_message, item);
    }
    if (manager->tail - manager->head >= BUFFER_LIMIT) {
        push(&manager->producers, troupe_sender(self));
    } else {
        troupe_reply(self, &produce_message, NULL);
    }
}

static void
manager_ready(troupe_self *self, struct manager *manager)
{
    if (manager->head == manager->tail) {
        push(&manager->consumers, troupe_sender(self));
        return;
    }
    troupe_reply(
        self, &item_message, &manager->pending[manager->head++ % QUEUE]);
    if (!is_empty(&manager->producers)) {
        troupe_tell(self, pop(&manager->producers), &produce_message, NULL);
    }
}

/* Ends when all producers have ended and all consumers wait. */
static troupe_verdict
manager_check(troupe_self *self, struct manager *manager)
{
    struct ref_queue *idle = &manager->consumers;

    if (manager->finished < PRODUCERS || idle->tail - idle->head < CONSUMERS) {
        return TROUPE_CONTINUE;
    }
    bench_done(self, manager->produced);
    for (int i = 0; i < CONSUMERS; i++) {
        troupe_tell(self, pop(idle), &close_message, NULL);
    }
    return TROUPE_CONTINUE;
}

static troupe_verdict
manager_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct manager *manager = state;

    if (troupe_msg_is(msg, &item_message)) {
        manager_item(self, manager, troupe_payload(msg, double));
        return TROUPE_CONTINUE;
    }
    if (troupe_msg_is(msg, &ready_message)) {
        manager_ready(self, manager);
    } else if (troupe_msg_is(msg, &bench_number)) {
        manager_open(self, manager, troupe_payload(msg, int64_t));
    } else {
        manager->finished++;
        manager->produced += *troupe_payload(msg, int64_t);
    }
    return manager_check(self, manager);
}

static const troupe_actor_type manager_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "manager",
    .state_bytes = sizeof(struct manager),
    .receive = manager_receive,
};

void
bench_bndbuf(struct bench *bench)
{
    int64_t each = bench_scaled(bench, 10000);
    double seconds = 0;
    troupe_ref manager = bench_spawn(bench, &manager_type, NULL, 0);

    bench_count_down_from(CONSUMERS);
    bench_begin(bench);
    bench_post_number(bench, manager, each);
    bench_expect(bench_wait(bench) == PRODUCERS * each, "items produced");
    seconds = bench->result.seconds;
    bench_expect(bench_wait(bench) == PRODUCERS * each, "items consumed");
    bench->result.seconds = seconds; /* as the peers: before they close */
    bench->must_end = PRODUCERS + CONSUMERS;
    bench->result.messages = UINT64_C(4) * PRODUCERS * (uint64_t)each;
}
