/* SPDX-License-Identifier: MIT */

/* Rows that measure timers of one actor while a million others are pending. */

#include "rows.h"

#define PENDING INT64_C(1000000)
/* What two starts may take before those of the row are due. */
#define START_NS TROUPE_US(2)

struct timing {
    void (*run)(troupe_self *self, struct timing *timing);
    int64_t count;
    int64_t left;
    uint64_t random;
    uint64_t began_ns;
};

static void
start(troupe_self *self, int64_t key, uint64_t delay_ns)
{
    bench_must(
        troupe_timer_once(self, (uint64_t)key, &bench_number, &key, delay_ns),
        "start");
}

/* Far away, each at another time. */
static void
start_all(troupe_self *self, struct timing *timing, int64_t first_key)
{
    for (int64_t i = 0; i < timing->count; i++) {
        start(self, first_key + i,
            TROUPE_S(1000) +
                TROUPE_US(bench_random(&timing->random, 1u << 30)));
    }
}

static void
finish(troupe_self *self, const struct timing *timing)
{
    bench_done(self, (int64_t)(bench_now_ns() - timing->began_ns));
}

static void
run_start(troupe_self *self, struct timing *timing)
{
    start_all(self, timing, 0);
    timing->began_ns = bench_now_ns();
    start_all(self, timing, timing->count);
    finish(self, timing);
}

static void
run_cancel(troupe_self *self, struct timing *timing)
{
    start_all(self, timing, 0);
    start_all(self, timing, timing->count);
    timing->began_ns = bench_now_ns();
    for (int64_t i = 0; i < timing->count; i++) {
        bench_expect(troupe_timer_cancel(self, (uint64_t)(timing->count + i)),
            "it was pending");
    }
    finish(self, timing);
}

/* All due at once, when they have been started. */
static void
run_fire(troupe_self *self, struct timing *timing)
{
    uint64_t now_ns = bench_now_ns();
    uint64_t due_ns =
        now_ns + TROUPE_MS(100) + (uint64_t)timing->count * START_NS;

    start_all(self, timing, 0);
    for (int64_t i = 0; i < timing->count; i++) {
        now_ns = bench_now_ns();
        start(self, timing->count + i, now_ns < due_ns ? due_ns - now_ns : 0);
    }
    timing->left = timing->count;
    timing->began_ns = now_ns < due_ns ? due_ns : now_ns;
}

static troupe_verdict
timing_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct timing *timing = state;

    if (troupe_msg_is(msg, &bench_go)) {
        timing->run(self, timing);
    } else if (--timing->left == 0) {
        finish(self, timing);
    }
    return TROUPE_CONTINUE;
}

static troupe_status
timing_start(troupe_self *self, void *state, const void *arg)
{
    (void)self;
    *(struct timing *)state = *(const struct timing *)arg;
    return TROUPE_OK;
}

static const troupe_actor_type timing_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "timing",
    .state_bytes = sizeof(struct timing),
    .receive = timing_receive,
    .start = timing_start,
};

static void
measure(
    struct bench *bench, void (*run)(troupe_self *self, struct timing *timing))
{
    struct timing work = {.run = run,
        .count = bench_scaled(bench, PENDING),
        .random = bench_random_seed(1)};
    troupe_ref actor = bench_spawn(bench, &timing_type, &work, sizeof work);

    bench_begin(bench);
    bench_post_go(bench, actor);
    bench->result.seconds = (double)bench_wait(bench) * 1e-9;
    bench->result.messages = (uint64_t)work.count;
}

void
bench_timerstart(struct bench *bench)
{
    measure(bench, run_start);
}

void
bench_timercancel(struct bench *bench)
{
    measure(bench, run_cancel);
}

void
bench_timerfire(struct bench *bench)
{
    measure(bench, run_fire);
}
