/* SPDX-License-Identifier: MIT */

/* Rows that measure how actors come and go. */

#include "rows.h"

enum { ALIVE = 100, FIB_OF = 27, CHILDREN = 10 };
#define FIB_VALUE INT64_C(196418)
#define FIB_ACTORS UINT64_C(392835)
#define SKYNET_LEAVES INT64_C(1000000)
#define SKYNET_ACTORS UINT64_C(1111111)

/* --- fjcreate: one driver creates actors that handle one message each -------
 */

static troupe_verdict
one_shot_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    bench_expect(*troupe_payload(msg, int64_t) > 0, "number in a message");
    bench_count_down(self, 0);
    return TROUPE_DONE;
}

static const troupe_actor_type one_shot_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "one-shot",
    .receive = one_shot_receive,
};

struct spawner {
    int64_t left;
};

/* Lives on: its end would stop the children that have not run yet. */
static troupe_verdict
spawner_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct spawner *spawner = state;

    if (troupe_msg_is(msg, &bench_number)) {
        spawner->left = *troupe_payload(msg, int64_t);
    }
    for (int i = 0; i < BENCH_CHUNK && spawner->left > 0; i++) {
        bench_tell_number(
            self, bench_spawn_child(self, &one_shot_type), spawner->left--);
    }
    if (spawner->left > 0) {
        bench_again(self);
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type spawner_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "spawner",
    .state_bytes = sizeof(struct spawner),
    .receive = spawner_receive,
};

void
bench_fjcreate(struct bench *bench)
{
    int64_t actors = bench_scaled(bench, 1000000);
    troupe_ref spawner = bench_spawn(bench, &spawner_type, NULL, 0);

    bench_count_down_from(actors);
    bench_begin(bench);
    bench_post_number(bench, spawner, actors);
    bench_wait(bench);
    bench->must_end = (uint64_t)actors;
    bench->result.messages = (uint64_t)actors;
}

/* --- churn: as above, but 100 alive at a time, and each one answers ---------
 */

TROUPE_MSG_TYPE_EMPTY(reply_message, 10);

static troupe_verdict
mayfly_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    (void)msg;
    troupe_reply(self, &reply_message, NULL);
    return TROUPE_DONE;
}

static const troupe_actor_type mayfly_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "mayfly",
    .receive = mayfly_receive,
};

struct churner {
    int64_t to_spawn;
    int64_t to_answer;
    int64_t answers;
};

static void
churner_next(troupe_self *self, struct churner *churner)
{
    if (churner->to_spawn > 0) {
        churner->to_spawn--;
        troupe_tell(
            self, bench_spawn_child(self, &mayfly_type), &bench_go, NULL);
    }
}

static troupe_verdict
churner_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct churner *churner = state;

    if (troupe_msg_is(msg, &bench_number)) {
        churner->to_spawn = *troupe_payload(msg, int64_t);
        churner->to_answer = churner->to_spawn;
        for (int i = 0; i < ALIVE; i++) {
            churner_next(self, churner);
        }
        return TROUPE_CONTINUE;
    }
    churner->answers++;
    churner_next(self, churner);
    if (--churner->to_answer == 0) {
        bench_done(self, churner->answers);
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type churner_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "churner",
    .state_bytes = sizeof(struct churner),
    .receive = churner_receive,
};

void
bench_churn(struct bench *bench)
{
    int64_t actors = bench_scaled(bench, 1000000);
    troupe_ref churner = bench_spawn(bench, &churner_type, NULL, 0);

    bench_begin(bench);
    bench_post_number(bench, churner, actors);
    bench_expect(bench_wait(bench) == actors, "number of answers");
    bench->must_end = (uint64_t)actors;
    bench->result.messages = (uint64_t)actors;
}

/* --- fib: one actor per call of the recursion --------------------------------
 */

TROUPE_MSG_TYPE(call_message, int64_t, 20);
TROUPE_MSG_TYPE(result_message, int64_t, 21);

/* State of fib and of skynet: sum and number of the results so far. */
struct adder {
    int64_t sum;
    int64_t results;
};

/* To whoever waits for the sum: the parent, or the main thread. */
static troupe_verdict
adder_finish(troupe_self *self, int64_t sum)
{
    troupe_ref parent = troupe_parent(self);

    if (troupe_ref_is_none(parent)) {
        bench_done(self, sum);
    } else {
        troupe_tell(self, parent, &result_message, &sum);
    }
    return TROUPE_DONE;
}

static troupe_verdict
adder_add(troupe_self *self, struct adder *adder, int64_t value, int64_t count)
{
    adder->sum += value;
    if (++adder->results < count) {
        return TROUPE_CONTINUE;
    }
    return adder_finish(self, adder->sum);
}

static const troupe_actor_type fib_type;

static troupe_verdict
fib_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    int64_t number = *troupe_payload(msg, int64_t);

    if (troupe_msg_is(msg, &result_message)) {
        return adder_add(self, state, number, 2);
    }
    if (number <= 2) {
        return adder_finish(self, 1);
    }
    for (int64_t i = 1; i <= 2; i++) {
        int64_t argument = number - i;

        troupe_tell(
            self, bench_spawn_child(self, &fib_type), &call_message, &argument);
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type fib_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "fib",
    .state_bytes = sizeof(struct adder),
    .receive = fib_receive,
};

void
bench_fib(struct bench *bench)
{
    int64_t argument = FIB_OF;
    troupe_ref root = bench_spawn(bench, &fib_type, NULL, 0);

    bench_begin(bench);
    bench_must(
        troupe_post(bench->system, root, &call_message, &argument), "post");
    bench_expect(bench_wait(bench) == FIB_VALUE, "fib");
    bench->must_end = FIB_ACTORS;
    bench->result.messages = 2 * FIB_ACTORS;
}

/* --- skynet: a tree of actors adds up the numbers of its leaves --------------
 */

struct range {
    int64_t first;
    int64_t size;
};
TROUPE_MSG_TYPE(range_message, struct range, 30);

static const troupe_actor_type skynet_type;

static troupe_verdict
skynet_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    const struct range *range = NULL;
    struct range part = {0, 0};

    if (troupe_msg_is(msg, &result_message)) {
        return adder_add(self, state, *troupe_payload(msg, int64_t), CHILDREN);
    }
    range = troupe_payload(msg, struct range);
    if (range->size == 1) {
        return adder_finish(self, range->first);
    }
    part.first = range->first;
    part.size = range->size / CHILDREN;
    for (int i = 0; i < CHILDREN; i++) {
        troupe_tell(
            self, bench_spawn_child(self, &skynet_type), &range_message, &part);
        part.first += part.size;
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type skynet_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "skynet",
    .state_bytes = sizeof(struct adder),
    .receive = skynet_receive,
};

void
bench_skynet(struct bench *bench)
{
    struct range all = {0, SKYNET_LEAVES};
    troupe_ref root = bench_spawn(bench, &skynet_type, NULL, 0);

    bench_begin(bench);
    bench_must(troupe_post(bench->system, root, &range_message, &all), "post");
    bench_expect(
        bench_wait(bench) == SKYNET_LEAVES * (SKYNET_LEAVES - 1) / 2, "skynet");
    bench->must_end = SKYNET_ACTORS;
    bench->result.messages = SKYNET_ACTORS;
}

/* --- restart: a child fails, its parent answers, it starts again -------------
 */

TROUPE_MSG_TYPE_EMPTY(ready_message, 11);

static troupe_status
failing_start(troupe_self *self, void *state, const void *arg)
{
    (void)state;
    (void)arg;
    troupe_tell(self, troupe_parent(self), &ready_message, NULL);
    return TROUPE_OK;
}

static troupe_verdict
failing_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    (void)msg;
    return troupe_fail(self, 1);
}

static const troupe_actor_type failing_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "failing",
    .receive = failing_receive,
    .start = failing_start,
};

struct watcher {
    int64_t left;
    int64_t restarts;
    troupe_ref child;
};

static troupe_verdict
watcher_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct watcher *watcher = state;

    if (troupe_msg_is(msg, &bench_number)) {
        watcher->left = *troupe_payload(msg, int64_t);
        watcher->restarts = -1;
        watcher->child = bench_spawn_child(self, &failing_type);
        return TROUPE_CONTINUE;
    }
    watcher->restarts++;
    if (watcher->left-- > 0) {
        troupe_tell(self, watcher->child, &bench_go, NULL);
    } else {
        bench_done(self, watcher->restarts);
    }
    return TROUPE_CONTINUE;
}

static const troupe_supervision for_ever = {
    .size = TROUPE_OPTIONS(troupe_supervision),
    .max_restarts = TROUPE_RESTARTS_UNLIMITED,
};

static const troupe_spawn_options watcher_options = {
    .size = TROUPE_OPTIONS(troupe_spawn_options),
    .children = &for_ever,
};

static const troupe_actor_type watcher_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "watcher",
    .state_bytes = sizeof(struct watcher),
    .receive = watcher_receive,
    .defaults = &watcher_options,
};

void
bench_restart(struct bench *bench)
{
    int64_t restarts = bench_scaled(bench, 1000000);
    troupe_ref watcher = bench_spawn(bench, &watcher_type, NULL, 0);

    bench_begin(bench);
    bench_post_number(bench, watcher, restarts);
    bench_expect(bench_wait(bench) == restarts, "number of restarts");
    bench->result.messages = (uint64_t)restarts;
}
