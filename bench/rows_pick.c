/* SPDX-License-Identifier: MIT */

/*
 * Rows that measure a pick alone: sends through a router, and without it. They
 * take the CPU time of the thread, which nobody else on the machine adds to.
 */

#include "rows.h"

#include <stdio.h>
#include <time.h>

enum { ROUTEES = 64, MOST = 1024, DEEP = 16 };

/* Set before the first message; one run per process. */
static troupe_ref targets[MOST];
static uint32_t target_count;

/* --- who gets the messages ------------------------------------------------ */

/* bench_go is the end of a burst: how many came in it? */
static troupe_verdict
target_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    int64_t *count = state;

    if (troupe_msg_is(msg, &bench_number)) {
        ++*count;
        return TROUPE_CONTINUE;
    }
    troupe_reply(self, &bench_number, count);
    *count = 0;
    return TROUPE_CONTINUE;
}

static const troupe_actor_type target_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "target",
    .state_bytes = sizeof(int64_t),
    .receive = target_receive,
};

/* --- who sends them ------------------------------------------------------- */

/* A burst through the router, one to the same actors in turn, and so on. */
struct prober {
    troupe_ref router;
    int64_t bursts;
    int64_t answers; /* that are missing */
    int64_t handled; /* of all bursts that have been answered */
    int64_t sent;
    uint64_t routed_ns;
    uint64_t direct_ns;
};

static struct prober result; /* of the run, for the main thread */

static troupe_status
prober_start(troupe_self *self, void *state, const void *arg)
{
    (void)self;
    *(struct prober *)state = *(const struct prober *)arg;
    return TROUPE_OK;
}

static uint64_t
thread_cpu_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* So many that the mailboxes are seldom empty when somebody looks. */
static uint32_t
burst_length(void)
{
    return DEEP * target_count;
}

static uint64_t
routed_burst(troupe_self *self, troupe_ref router)
{
    uint64_t began_ns = thread_cpu_ns();

    for (uint32_t i = 0; i < burst_length(); i++) {
        bench_tell_number(self, router, i);
    }
    return thread_cpu_ns() - began_ns;
}

static uint64_t
direct_burst(troupe_self *self)
{
    uint64_t began_ns = thread_cpu_ns();
    uint32_t next = 0;

    for (uint32_t i = 0; i < burst_length(); i++) {
        bench_tell_number(self, targets[next], i);
        next = next + 1 < target_count ? next + 1 : 0;
    }
    return thread_cpu_ns() - began_ns;
}

static void
probe(troupe_self *self, struct prober *prober)
{
    if (prober->bursts-- % 2 == 0) {
        prober->routed_ns += routed_burst(self, prober->router);
    } else {
        prober->direct_ns += direct_burst(self);
    }
    prober->sent += burst_length();
    prober->answers = target_count;
    bench_must(
        troupe_broadcast(self, prober->router, &bench_go, NULL), "broadcast");
}

/* The next burst when all that there was has been handled. */
static troupe_verdict
prober_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct prober *prober = state;

    if (troupe_msg_is(msg, &bench_number)) {
        prober->handled += *troupe_payload(msg, int64_t);
        if (--prober->answers != 0) {
            return TROUPE_CONTINUE;
        }
    }
    if (prober->bursts == 0) {
        result = *prober;
        bench_done(self, prober->handled);
        return TROUPE_DONE;
    }
    probe(self, prober);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type prober_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "prober",
    .state_bytes = sizeof(struct prober),
    .receive = prober_receive,
    .start = prober_start,
};

/* --- the rows ------------------------------------------------------------- */

static void
note(struct bench *bench, double messages)
{
    double routed = (double)result.routed_ns / messages;
    double direct = (double)result.direct_ns / messages;

    snprintf(bench->result.note, sizeof bench->result.note,
        "%.1f ns, without a router %.1f: the pick %.1f", routed, direct,
        routed - direct);
}

/* Only what the routed bursts took counts. */
static void
pick(struct bench *bench, troupe_router_options *options)
{
    struct prober work = {
        .bursts = 2 * bench_scaled(bench, 2000000 / DEEP / options->routees)};
    troupe_ref prober;
    int64_t total = 0;

    options->type = &target_type;
    bench_must(troupe_system_spawn_router(bench->system, options, &work.router),
        "router");
    prober = bench_spawn(bench, &prober_type, &work, sizeof work);
    bench_begin(bench);
    target_count = (uint32_t)troupe_router_routees(
        bench->system, work.router, targets, MOST);
    bench_expect(target_count == options->routees, "number of routees");
    total = work.bursts * burst_length();
    bench_post_go(bench, prober);
    bench_expect(bench_wait(bench) == total, "number of messages");
    bench->must_end = 1;
    bench->result.messages = (uint64_t)total / 2;
    bench->result.seconds = (double)result.routed_ns * 1e-9;
    note(bench, (double)total / 2);
}

static void
pick_by(struct bench *bench, troupe_routing routing, uint32_t routees)
{
    troupe_router_options options = TROUPE_INIT(troupe_router_options);

    options.routing = routing;
    options.routees = routees;
    pick(bench, &options);
}

void
bench_pick64(struct bench *bench)
{
    pick_by(bench, TROUPE_ROUTE_ROUND_ROBIN, ROUTEES);
}

void
bench_pickrandom64(struct bench *bench)
{
    pick_by(bench, TROUPE_ROUTE_RANDOM, ROUTEES);
}

void
bench_picktwo64(struct bench *bench)
{
    pick_by(bench, TROUPE_ROUTE_TWO_CHOICES, ROUTEES);
}

void
bench_picksm64(struct bench *bench)
{
    pick_by(bench, TROUPE_ROUTE_SMALLEST_MAILBOX, ROUTEES);
}

void
bench_picksm256(struct bench *bench)
{
    pick_by(bench, TROUPE_ROUTE_SMALLEST_MAILBOX, 256);
}

void
bench_picksm1024(struct bench *bench)
{
    pick_by(bench, TROUPE_ROUTE_SMALLEST_MAILBOX, MOST);
}

void
bench_pickleast64(struct bench *bench)
{
    pick_by(bench, TROUPE_ROUTE_LEAST_IN_FLIGHT, ROUTEES);
}

void
bench_pickweighted64(struct bench *bench)
{
    troupe_router_options options = TROUPE_INIT(troupe_router_options);
    uint32_t weights[ROUTEES];

    for (uint32_t i = 0; i < ROUTEES; i++) {
        weights[i] = 1 + i % 4;
    }
    options.routing = TROUPE_ROUTE_WEIGHTED;
    options.routees = ROUTEES;
    options.weights = weights;
    pick(bench, &options);
}

static uint64_t
number_key(const troupe_msg *msg, void *user)
{
    (void)user;
    return (uint64_t)*troupe_payload(msg, int64_t);
}

void
bench_pickhash64(struct bench *bench)
{
    troupe_router_options options = TROUPE_INIT(troupe_router_options);

    options.routing = TROUPE_ROUTE_CONSISTENT_HASH;
    options.routees = ROUTEES;
    options.key = number_key;
    pick(bench, &options);
}

static size_t
pick_next(
    const troupe_route *route, troupe_ref *chosen, size_t capacity, void *user)
{
    (void)capacity;
    (void)user;
    chosen[0] = route->routees[route->index % route->count];
    return 1;
}

void
bench_pickcustom64(struct bench *bench)
{
    troupe_router_options options = TROUPE_INIT(troupe_router_options);

    options.routing = TROUPE_ROUTE_CUSTOM;
    options.routees = ROUTEES;
    options.pick = pick_next;
    pick(bench, &options);
}
