/* SPDX-License-Identifier: MIT */

/* What the patterns around calls cost: a breaker. */

#include "rows.h"

/* --- breaker: calls through a closed breaker, an actor per worker ------------
 */

struct caller {
    troupe_breaker *breaker;
    int64_t left;
    int64_t passed;
};

static troupe_status
caller_start(troupe_self *self, void *state, const void *arg)
{
    (void)self;
    *(struct caller *)state = *(const struct caller *)arg;
    return TROUPE_OK;
}

static troupe_verdict
caller_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct caller *caller = state;

    (void)msg;
    for (int i = 0; i < BENCH_CHUNK && caller->left > 0; i++) {
        troupe_permit permit;

        caller->left--;
        if (troupe_breaker_enter(caller->breaker, &permit) == TROUPE_OK) {
            troupe_breaker_leave(caller->breaker, permit, TROUPE_OK, 0);
            caller->passed++;
        }
    }
    if (caller->left > 0) {
        bench_again(self);
    } else {
        bench_count_down(self, caller->passed);
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type caller_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "caller",
    .state_bytes = sizeof(struct caller),
    .receive = caller_receive,
    .start = caller_start,
};

void
bench_breaker(struct bench *bench)
{
    const troupe_breaker_options options = {
        .size = TROUPE_OPTIONS(troupe_breaker_options),
        .max_failures = 5,
        .reset_ns = TROUPE_S(1)};
    uint32_t callers = bench->result.workers;
    struct caller work = {.left = bench_scaled(bench, 50000000 / callers)};
    troupe_breaker *breaker = NULL;

    bench_must(
        troupe_breaker_create(bench->system, &options, &breaker), "breaker");
    work.breaker = breaker;
    bench_count_down_from(callers);
    bench->result.messages = (uint64_t)work.left * callers;
    bench_begin(bench);
    for (uint32_t i = 0; i < callers; i++) {
        bench_post_go(
            bench, bench_spawn(bench, &caller_type, &work, sizeof work));
    }
    bench_expect((uint64_t)bench_wait(bench) == bench->result.messages,
        "number of calls that went through");
    troupe_breaker_destroy(breaker);
}
