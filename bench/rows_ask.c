/* SPDX-License-Identifier: MIT */

/* Rows that measure questions and answers. */

#include "rows.h"

#include <stdio.h>
#include <stdlib.h>

enum { ASKS = 300000 };

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
