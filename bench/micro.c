/* SPDX-License-Identifier: MIT */

/* What one step costs: the rows that no peer has. */

#include "rows.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BURST = 64, SAMPLES = 1000, BATCH = 1000 };

/* Longer than a worker looks for work before it sleeps. */
#define QUIET_NS 1000000L

/* --- self: an actor sends to itself ------------------------------------------
 */

struct countdown {
    int64_t handled;
};

static troupe_verdict
self_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct countdown *countdown = state;
    int64_t left = *troupe_payload(msg, int64_t);

    if (left == 0) {
        bench_done(self, countdown->handled);
        return TROUPE_DONE;
    }
    countdown->handled++;
    bench_tell_number(self, troupe_self_ref(self), left - 1);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type self_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "self",
    .state_bytes = sizeof(struct countdown),
    .receive = self_receive,
};

/* --- become: the same, in another behaviour each time -----------------------
 */

static troupe_verdict become_even(
    troupe_self *self, void *state, const troupe_msg *msg) TROUPE_NOEXCEPT;

static troupe_verdict
become_odd(troupe_self *self, void *state, const troupe_msg *msg)
{
    bench_expect(((struct countdown *)state)->handled % 2 == 1, "the odd one");
    troupe_become(self, become_even);
    return self_receive(self, state, msg);
}

static troupe_verdict
become_even(troupe_self *self, void *state, const troupe_msg *msg)
{
    bench_expect(((struct countdown *)state)->handled % 2 == 0, "the even one");
    troupe_become(self, become_odd);
    return self_receive(self, state, msg);
}

static const troupe_actor_type become_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "become",
    .state_bytes = sizeof(struct countdown),
    .receive = become_even,
};

static void
count_down(struct bench *bench, const troupe_actor_type *type)
{
    int64_t messages = bench_scaled(bench, 10000000);
    troupe_ref actor = bench_spawn(bench, type, NULL, 0);

    bench_begin(bench);
    bench_post_number(bench, actor, messages);
    bench_expect(bench_wait(bench) == messages, "number of messages");
    bench->must_end = 1;
    bench->result.messages = (uint64_t)messages;
}

void
bench_self(struct bench *bench)
{
    count_down(bench, &self_type);
}

void
bench_become(struct bench *bench)
{
    count_down(bench, &become_type);
}

/* --- spawn: an actor is spawned and stopped, without a message ---------------
 */

static atomic_int batch_left; /* ghosts of this batch that still live */

static troupe_verdict
ghost_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)self;
    (void)state;
    (void)msg;
    return TROUPE_UNHANDLED;
}

/* The last one of a batch wakes the driver. */
static void
ghost_stop(troupe_self *self, void *state, const troupe_exit *why)
{
    (void)state;
    (void)why;
    if (atomic_fetch_sub(&batch_left, 1) == 1) {
        troupe_tell(self, troupe_parent(self), &bench_go, NULL);
    }
}

static const troupe_actor_type ghost_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "ghost",
    .receive = ghost_receive,
    .stop = ghost_stop,
};

struct summoner {
    int64_t left;
    int64_t batches;
};

static troupe_verdict
summoner_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct summoner *summoner = state;
    troupe_ref ghosts[BATCH];

    if (troupe_msg_is(msg, &bench_number)) {
        summoner->left = *troupe_payload(msg, int64_t);
    }
    if (summoner->left == 0) {
        bench_done(self, summoner->batches);
        return TROUPE_CONTINUE;
    }
    summoner->left--;
    summoner->batches++;
    atomic_store(&batch_left, BATCH);
    for (int i = 0; i < BATCH; i++) {
        ghosts[i] = bench_spawn_child(self, &ghost_type);
    }
    for (int i = 0; i < BATCH; i++) {
        bench_must(troupe_stop(self, ghosts[i]), "stop of a ghost");
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type summoner_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "summoner",
    .state_bytes = sizeof(struct summoner),
    .receive = summoner_receive,
};

void
bench_spawn_stop(struct bench *bench)
{
    int64_t batches = bench_scaled(bench, 1000);
    troupe_ref summoner = bench_spawn(bench, &summoner_type, NULL, 0);

    bench_begin(bench);
    bench_post_number(bench, summoner, batches);
    bench_expect(bench_wait(bench) == batches, "number of batches");
    bench->must_end = (uint64_t)batches * BATCH;
    bench->result.messages = (uint64_t)batches * BATCH;
}

/* --- post: a foreign thread posts to one actor -------------------------------
 */

struct sink {
    int64_t left;
    int64_t sum;
};

static troupe_status
sink_start(troupe_self *self, void *state, const void *arg)
{
    struct sink *sink = state;

    (void)self;
    sink->left = *(const int64_t *)arg;
    return TROUPE_OK;
}

static troupe_verdict
sink_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct sink *sink = state;

    sink->sum += *troupe_payload(msg, int64_t);
    if (--sink->left == 0) {
        bench_done(self, sink->sum);
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type sink_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "sink",
    .state_bytes = sizeof(struct sink),
    .receive = sink_receive,
    .start = sink_start,
};

void
bench_post(struct bench *bench)
{
    int64_t messages = bench_scaled(bench, 2000000);
    troupe_ref sink =
        bench_spawn(bench, &sink_type, &messages, sizeof messages);

    bench_begin(bench);
    for (int64_t i = 1; i <= messages; i++) {
        bench_post_number(bench, sink, i);
    }
    bench_expect(
        bench_wait(bench) == messages * (messages + 1) / 2, "sum of numbers");
    bench->result.messages = (uint64_t)messages;
}

/* --- post_wake: from a post to a sleeping system until it is handled ---------
 */

/* The payload is the moment of the post. */
static troupe_verdict
sleeper_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    bench_done(self, (int64_t)bench_now_ns() - *troupe_payload(msg, int64_t));
    return TROUPE_CONTINUE;
}

static const troupe_actor_type sleeper_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "sleeper",
    .receive = sleeper_receive,
};

static int
compare_numbers(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static uint64_t
wakes_of(const struct bench *bench)
{
    troupe_counters now = TROUPE_INIT(troupe_counters);

    bench_must(troupe_counters_read(bench->system, &now), "counters");
    return now.wakes;
}

/* The row's time is the median latency times the number of posts. */
void
bench_post_wake(struct bench *bench)
{
    static int64_t latency_ns[SAMPLES * 1000];
    const struct timespec quiet = {.tv_nsec = QUIET_NS};
    int64_t samples = bench_scaled(bench, SAMPLES);
    troupe_ref sleeper = bench_spawn(bench, &sleeper_type, NULL, 0);
    int64_t middle = samples / 2;
    int64_t late = samples * 99 / 100;
    uint64_t wakes = 0;

    bench_begin(bench);
    wakes = wakes_of(bench);
    for (int64_t i = 0; i < samples; i++) {
        nanosleep(&quiet, NULL);
        bench->began_ns = bench_now_ns();
        bench_post_number(bench, sleeper, (int64_t)bench->began_ns);
        latency_ns[i] = bench_wait(bench);
    }
    wakes = wakes_of(bench) - wakes;
    qsort(latency_ns, (size_t)samples, sizeof *latency_ns, compare_numbers);
    bench->result.messages = (uint64_t)samples;
    bench->result.seconds = (double)latency_ns[middle] * 1e-9 * (double)samples;
    snprintf(bench->result.note, sizeof bench->result.note,
        "p99 %.1f us, %.2f wakes per post", (double)latency_ns[late] * 1e-3,
        (double)wakes / (double)samples);
}

/* --- pushpop: bursts of 64 to an actor that is at rest
 * ------------------------ */

struct burster {
    troupe_ref to;
    int64_t bursts;
    int64_t answers;
};

static troupe_status
burster_start(troupe_self *self, void *state, const void *arg)
{
    (void)self;
    *(struct burster *)state = *(const struct burster *)arg;
    return TROUPE_OK;
}

/* The other side answers when it has drained the burst. */
static troupe_verdict
burster_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct burster *burster = state;

    if (troupe_msg_is(msg, &bench_number)) {
        burster->answers += *troupe_payload(msg, int64_t) == BURST;
    }
    if (burster->bursts-- == 0) {
        bench_done(self, burster->answers);
        return TROUPE_DONE;
    }
    for (int64_t i = 1; i <= BURST; i++) {
        bench_tell_number(self, burster->to, i);
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type burster_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "burster",
    .state_bytes = sizeof(struct burster),
    .receive = burster_receive,
    .start = burster_start,
};

static troupe_verdict
drain_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    int64_t number = *troupe_payload(msg, int64_t);

    (void)state;
    if (number == BURST) {
        troupe_reply(self, &bench_number, &number);
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type drain_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "drain",
    .receive = drain_receive,
};

void
bench_pushpop(struct bench *bench)
{
    struct burster work = {.bursts = bench_scaled(bench, 10000000 / BURST)};
    troupe_ref burster;

    work.to = bench_spawn(bench, &drain_type, NULL, 0);
    burster = bench_spawn(bench, &burster_type, &work, sizeof work);
    bench_begin(bench);
    bench_post_go(bench, burster);
    bench_expect(bench_wait(bench) == work.bursts, "number of bursts");
    bench->must_end = 1;
    bench->result.messages = (uint64_t)work.bursts * BURST;
}
