/* SPDX-License-Identifier: MIT */

/* Rows that measure questions and answers. */

#include "rows.h"

#include <stdio.h>
#include <stdlib.h>

enum { ASKS = 300000, GATHERS = 100000, ASKED = 16 };

/* --- ask: one at a time, each with the default deadline ------------------- */

static int64_t latency_ns[ASKS * 10];

struct asker {
    troupe_ref server;
    int64_t asks;
    int64_t done;
    uint64_t asked_ns;
};

static troupe_verdict
server_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    troupe_reply(self, &bench_number, troupe_payload(msg, int64_t));
    return TROUPE_CONTINUE;
}

static const troupe_actor_type server_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "server",
    .receive = server_receive,
};

static troupe_status
asker_start(troupe_self *self, void *state, const void *arg)
{
    struct asker *asker = state;

    (void)self;
    asker->server = *(const troupe_ref *)arg;
    return TROUPE_OK;
}

static void ask_next(troupe_self *self, struct asker *asker);

static troupe_verdict
on_answer(
    troupe_self *self, void *state, const troupe_result *result, void *user)
{
    struct asker *asker = state;
    uint64_t now_ns = bench_now_ns();

    (void)user;
    bench_expect(result->status == TROUPE_OK &&
                     *troupe_payload(result->msg, int64_t) == asker->done,
        "answer");
    latency_ns[asker->done++] = (int64_t)(now_ns - asker->asked_ns);
    asker->asked_ns = now_ns;
    if (asker->done == asker->asks) {
        bench_done(self, asker->done);
    } else {
        ask_next(self, asker);
    }
    return TROUPE_CONTINUE;
}

static void
ask_next(troupe_self *self, struct asker *asker)
{
    bench_must(troupe_ask(self, asker->server, &bench_number, &asker->done,
                   TROUPE_TIMEOUT_DEFAULT, troupe_then(on_answer, NULL), NULL),
        "ask");
}

static troupe_verdict
asker_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct asker *asker = state;

    asker->asks = *troupe_payload(msg, int64_t);
    asker->asked_ns = bench_now_ns();
    ask_next(self, asker);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type asker_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "asker",
    .state_bytes = sizeof(struct asker),
    .receive = asker_receive,
    .start = asker_start,
};

static int
compare_numbers(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

void
bench_ask(struct bench *bench)
{
    int64_t asks = bench_scaled(bench, ASKS);
    troupe_ref server = bench_spawn(bench, &server_type, NULL, 0);
    troupe_ref asker = bench_spawn(bench, &asker_type, &server, sizeof server);

    bench_expect(asks <= (int64_t)(sizeof latency_ns / sizeof *latency_ns),
        "scale of at most 10");
    bench_begin(bench);
    bench_post_number(bench, asker, asks);
    bench_expect(bench_wait(bench) == asks, "number of answers");
    qsort(latency_ns, (size_t)asks, sizeof *latency_ns, compare_numbers);
    bench->result.messages = 2 * (uint64_t)asks;
    snprintf(bench->result.note, sizeof bench->result.note,
        "p50 %lld ns, p99 %lld ns, clock included",
        (long long)latency_ns[asks / 2],
        (long long)latency_ns[asks * 99 / 100]);
}

/* --- gather: one at a time, from 16 actors that all answer ---------------- */

struct collector {
    troupe_ref servers[ASKED];
    troupe_gather_policy policy;
    uint32_t reserved;
    int64_t gathers;
    int64_t done;
};

static troupe_status
collector_start(troupe_self *self, void *state, const void *arg)
{
    (void)self;
    *(struct collector *)state = *(const struct collector *)arg;
    return TROUPE_OK;
}

static void gather_next(troupe_self *self, struct collector *collector);

static void
check_answer(const struct collector *collector, const troupe_msg *msg)
{
    bench_expect(*troupe_payload(msg, int64_t) == collector->done, "an answer");
}

static troupe_verdict
on_gathered(
    troupe_self *self, void *state, const troupe_result *result, void *user)
{
    struct collector *collector = state;

    (void)user;
    bench_expect(result->status == TROUPE_OK, "a gather");
    if (collector->policy == TROUPE_GATHER_FIRST) {
        check_answer(collector, result->msg);
    } else {
        const troupe_gathered *all =
            troupe_payload(result->msg, troupe_gathered);

        bench_expect(all->answered == ASKED, "all answers");
        for (size_t i = 0; i < ASKED; i++) {
            check_answer(collector, all->parts[i].msg);
        }
    }
    if (++collector->done == collector->gathers) {
        bench_done(self, collector->done);
    } else {
        gather_next(self, collector);
    }
    return TROUPE_CONTINUE;
}

static void
gather_next(troupe_self *self, struct collector *collector)
{
    const troupe_gather_options options = {
        .size = TROUPE_OPTIONS(troupe_gather_options),
        .policy = collector->policy};

    bench_must(
        troupe_gather(self, collector->servers, ASKED, &bench_number,
            &collector->done, &options, troupe_then(on_gathered, NULL), NULL),
        "gather");
}

static troupe_verdict
collector_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct collector *collector = state;

    collector->gathers = *troupe_payload(msg, int64_t);
    gather_next(self, collector);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type collector_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "collector",
    .state_bytes = sizeof(struct collector),
    .receive = collector_receive,
    .start = collector_start,
};

static void
gather(struct bench *bench, troupe_gather_policy policy)
{
    struct collector collector = {.policy = policy};
    int64_t gathers = bench_scaled(bench, GATHERS);
    troupe_ref ref;

    for (size_t i = 0; i < ASKED; i++) {
        collector.servers[i] = bench_spawn(bench, &server_type, NULL, 0);
    }
    ref = bench_spawn(bench, &collector_type, &collector, sizeof collector);
    if (policy == TROUPE_GATHER_FIRST) {
        bench->must_bury = (uint64_t)gathers * (ASKED - 1);
    }
    bench_begin(bench);
    bench_post_number(bench, ref, gathers);
    bench_expect(bench_wait(bench) == gathers, "number of gathers");
    bench->result.messages = (uint64_t)gathers;
}

void
bench_gatherfirst(struct bench *bench)
{
    gather(bench, TROUPE_GATHER_FIRST);
}

void
bench_gatherall(struct bench *bench)
{
    gather(bench, TROUPE_GATHER_ALL);
}
