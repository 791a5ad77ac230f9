/* SPDX-License-Identifier: MIT */

/* Rows that measure routers: messages through them, copies, a change of size.
 */

#include "rows.h"

#include <stdatomic.h>
#include <stdio.h>

enum { ROUTEES = 64, FAN = 1000, FEW = 32, LARGE = 1024 };

/* --- what is behind the router -------------------------------------------- */

/* `expected` of the numbers, if it is known. bench_go is the end. */
struct routee {
    int64_t expected;
    int64_t count;
    int64_t sum;
};

static troupe_status
routee_start(troupe_self *self, void *state, const void *arg)
{
    struct routee *routee = state;

    (void)self;
    routee->expected = *(const int64_t *)arg;
    return TROUPE_OK;
}

static troupe_verdict
routee_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct routee *routee = state;

    if (troupe_msg_is(msg, &bench_number)) {
        routee->count++;
        routee->sum += *troupe_payload(msg, int64_t);
        return TROUPE_CONTINUE;
    }
    bench_expect(routee->expected == 0 || routee->count == routee->expected,
        "a routee's share");
    bench_count_down(self, routee->sum);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type routee_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "routee",
    .state_bytes = sizeof(struct routee),
    .receive = routee_receive,
    .start = routee_start,
};

/* `arg` is what every routee gets for its start. */
static troupe_ref
spawn_router(
    struct bench *bench, troupe_router_options *options, const int64_t *arg)
{
    troupe_spawn_options each = TROUPE_INIT(troupe_spawn_options);
    troupe_ref router = TROUPE_NONE;

    each.arg = arg;
    each.arg_bytes = sizeof *arg;
    options->routee_options = &each;
    bench_must(
        troupe_system_spawn_router(bench->system, options, &router), "router");
    return router;
}

/* --- what is before it ---------------------------------------------------- */

struct driver {
    troupe_ref router;
    int64_t left;
};

static troupe_status
driver_start(troupe_self *self, void *state, const void *arg)
{
    (void)self;
    *(struct driver *)state = *(const struct driver *)arg;
    return TROUPE_OK;
}

static void
tell_all(troupe_self *self, troupe_ref router, const troupe_msg_type *type,
    const void *payload)
{
    bench_must(troupe_broadcast(self, router, type, payload), "broadcast");
}

/* Sends the numbers from `left` down to 1, then the end to everybody. */
static troupe_verdict
driver_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct driver *driver = state;

    (void)msg;
    for (int i = 0; i < BENCH_CHUNK && driver->left > 0; i++) {
        bench_tell_number(self, driver->router, driver->left--);
    }
    if (driver->left == 0) {
        tell_all(self, driver->router, &bench_go, NULL);
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

/* --- router4 .. routerserial64: one driver, one router ---------------------
 */

/* `evenly`: each routee gets as many as any other. */
static void
route(struct bench *bench, troupe_router_options *options, bool evenly)
{
    int64_t each = bench_scaled(bench, 2000000 / options->routees);
    int64_t total = each * options->routees;
    int64_t share = evenly ? each : 0;
    struct driver work = {.left = total};
    troupe_ref driver;

    options->type = &routee_type;
    work.router = spawn_router(bench, options, &share);
    driver = bench_spawn(bench, &driver_type, &work, sizeof work);
    bench_count_down_from(options->routees);
    bench_begin(bench);
    bench_post_go(bench, driver);
    bench_expect(
        bench_wait(bench) == total * (total + 1) / 2, "sum of numbers");
    bench->must_end = 1;
    bench->result.messages = (uint64_t)total;
}

static void
route_by(struct bench *bench, troupe_routing routing, uint32_t routees)
{
    troupe_router_options options = TROUPE_INIT(troupe_router_options);

    options.routing = routing;
    options.routees = routees;
    route(bench, &options, routing == TROUPE_ROUTE_ROUND_ROBIN);
}

void
bench_router4(struct bench *bench)
{
    route_by(bench, TROUPE_ROUTE_ROUND_ROBIN, 4);
}

void
bench_router16(struct bench *bench)
{
    route_by(bench, TROUPE_ROUTE_ROUND_ROBIN, 16);
}

void
bench_router64(struct bench *bench)
{
    route_by(bench, TROUPE_ROUTE_ROUND_ROBIN, ROUTEES);
}

void
bench_routersm4(struct bench *bench)
{
    route_by(bench, TROUPE_ROUTE_SMALLEST_MAILBOX, 4);
}

void
bench_routersm16(struct bench *bench)
{
    route_by(bench, TROUPE_ROUTE_SMALLEST_MAILBOX, 16);
}

void
bench_routersm64(struct bench *bench)
{
    route_by(bench, TROUPE_ROUTE_SMALLEST_MAILBOX, ROUTEES);
}

void
bench_routersm256(struct bench *bench)
{
    route_by(bench, TROUPE_ROUTE_SMALLEST_MAILBOX, 256);
}

void
bench_routersm1024(struct bench *bench)
{
    route_by(bench, TROUPE_ROUTE_SMALLEST_MAILBOX, 1024);
}

void
bench_routerrandom64(struct bench *bench)
{
    route_by(bench, TROUPE_ROUTE_RANDOM, ROUTEES);
}

void
bench_routertwo64(struct bench *bench)
{
    route_by(bench, TROUPE_ROUTE_TWO_CHOICES, ROUTEES);
}

void
bench_routerleast64(struct bench *bench)
{
    route_by(bench, TROUPE_ROUTE_LEAST_IN_FLIGHT, ROUTEES);
}

void
bench_routerweighted64(struct bench *bench)
{
    troupe_router_options options = TROUPE_INIT(troupe_router_options);
    uint32_t weights[ROUTEES];

    for (uint32_t i = 0; i < ROUTEES; i++) {
        weights[i] = 1 + i % 4;
    }
    options.routing = TROUPE_ROUTE_WEIGHTED;
    options.routees = ROUTEES;
    options.weights = weights;
    route(bench, &options, false);
}

static uint64_t
number_key(const troupe_msg *msg, void *user)
{
    (void)user;
    return (uint64_t)*troupe_payload(msg, int64_t);
}

void
bench_routerhash64(struct bench *bench)
{
    troupe_router_options options = TROUPE_INIT(troupe_router_options);

    options.routing = TROUPE_ROUTE_CONSISTENT_HASH;
    options.routees = ROUTEES;
    options.key = number_key;
    route(bench, &options, false);
}

/* What round robin is, as code of one's own. */
static size_t
pick_next(
    const troupe_route *route, troupe_ref *targets, size_t capacity, void *user)
{
    (void)capacity;
    (void)user;
    targets[0] = route->routees[route->index % route->count];
    return 1;
}

static void
route_custom(struct bench *bench, uint32_t flags)
{
    troupe_router_options options = TROUPE_INIT(troupe_router_options);

    options.routing = TROUPE_ROUTE_CUSTOM;
    options.routees = ROUTEES;
    options.pick = pick_next;
    options.flags = flags;
    route(bench, &options, true);
}

void
bench_routercustom64(struct bench *bench)
{
    route_custom(bench, 0);
}

void
bench_routerserial64(struct bench *bench)
{
    route_custom(bench, TROUPE_ROUTER_SERIAL);
}

/* --- fanout1000: each message to all ----------------------------------------
 */

struct large {
    int64_t number;
    char rest[LARGE - sizeof(int64_t)];
};

TROUPE_MSG_TYPE_WITH(shared_message, struct large, 50, TROUPE_MSG_SHARED, NULL);
TROUPE_MSG_TYPE(copied_message, struct large, 51);

static troupe_verdict
fan_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct routee *routee = state;

    if (troupe_msg_is(msg, &bench_go) || troupe_msg_is(msg, &bench_number)) {
        return routee_receive(self, state, msg);
    }
    routee->count++;
    routee->sum += troupe_payload(msg, struct large)->number;
    return TROUPE_CONTINUE;
}

static const troupe_actor_type fan_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "fan",
    .state_bytes = sizeof(struct routee),
    .receive = fan_receive,
    .start = routee_start,
};

struct fan_driver {
    struct driver driver;
    const troupe_msg_type *type;
};

static troupe_status
fan_driver_start(troupe_self *self, void *state, const void *arg)
{
    (void)self;
    *(struct fan_driver *)state = *(const struct fan_driver *)arg;
    return TROUPE_OK;
}

static troupe_verdict
fan_driver_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct fan_driver *fan = state;
    struct large payload = {.number = fan->driver.left};

    (void)msg;
    if (fan->driver.left-- == 0) {
        tell_all(self, fan->driver.router, &bench_go, NULL);
        return TROUPE_DONE;
    }
    tell_all(self, fan->driver.router, fan->type, &payload);
    bench_again(self);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type fan_driver_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "fan_driver",
    .state_bytes = sizeof(struct fan_driver),
    .receive = fan_driver_receive,
    .start = fan_driver_start,
};

static void
fan_out(struct bench *bench, const troupe_msg_type *type)
{
    int64_t rounds = bench_scaled(bench, 2000000 / FAN);
    troupe_router_options options = TROUPE_INIT(troupe_router_options);
    struct fan_driver work = {.driver = {.left = rounds}, .type = type};
    troupe_ref driver;

    options.type = &fan_type;
    options.routees = FAN;
    work.driver.router = spawn_router(bench, &options, &rounds);
    driver = bench_spawn(bench, &fan_driver_type, &work, sizeof work);
    bench_count_down_from(FAN);
    bench_begin(bench);
    bench_post_go(bench, driver);
    bench_expect(bench_wait(bench) == FAN * (rounds * (rounds + 1) / 2),
        "sum of numbers");
    bench->must_end = 1;
    bench->result.messages = (uint64_t)rounds * FAN;
}

void
bench_fanout1000(struct bench *bench)
{
    fan_out(bench, &bench_number);
}

void
bench_fanoutshared1000(struct bench *bench)
{
    fan_out(bench, &shared_message);
}

void
bench_fanoutcopied1000(struct bench *bench)
{
    fan_out(bench, &copied_message);
}

/* --- routerresize: the pool grows and shrinks under load --------------------
 */

/* By routees that have ended or have heard of the end; one run per process. */
static atomic_llong handled, handled_sum, ended;

static void
hand_in(struct routee *routee)
{
    atomic_fetch_add_explicit(&handled, routee->count, memory_order_relaxed);
    atomic_fetch_add_explicit(&handled_sum, routee->sum, memory_order_relaxed);
    routee->count = routee->sum = 0;
}

static troupe_verdict
passing_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct routee *routee = state;

    (void)self;
    if (troupe_msg_is(msg, &bench_go)) {
        hand_in(routee);
        return TROUPE_CONTINUE;
    }
    routee->count++;
    routee->sum += *troupe_payload(msg, int64_t);
    return TROUPE_CONTINUE;
}

static void
passing_stop(troupe_self *self, void *state, const troupe_exit *why)
{
    (void)self;
    (void)why;
    atomic_fetch_add_explicit(&ended, 1, memory_order_relaxed);
    hand_in(state);
}

static const troupe_actor_type passing_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "passing",
    .state_bytes = sizeof(struct routee),
    .receive = passing_receive,
    .start = routee_start,
    .stop = passing_stop,
};

/* After each chunk the pool is to have the other of its two sizes. */
static troupe_verdict
resizing_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct driver *driver = state;
    uint32_t routees = driver->left / BENCH_CHUNK % 2 == 0 ? FEW : ROUTEES;
    troupe_verdict verdict = TROUPE_CONTINUE;

    bench_must(
        troupe_router_resize(troupe_self_system(self), driver->router, routees),
        "resize");
    verdict = driver_receive(self, state, msg);
    if (verdict == TROUPE_DONE) {
        bench_done(self, 0);
    }
    return verdict;
}

static const troupe_actor_type resizing_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "resizing",
    .state_bytes = sizeof(struct driver),
    .receive = resizing_receive,
    .start = driver_start,
};

/*
 * All is sent; when all has been handled the clock stops. With more than one
 * worker the driver may have chosen a routee that was just told to stop: then
 * that message is a dead letter (docs/routers.md), and nothing else may be.
 */
static void
wait_for_all(struct bench *bench, int64_t total)
{
    troupe_counters now = TROUPE_INIT(troupe_counters);
    int64_t sum = 0, count = 0;

    bench_must(troupe_system_await_idle(bench->system, TROUPE_S(300)),
        "the routees did not finish");
    bench->result.seconds = (double)(bench_now_ns() - bench->began_ns) * 1e-9;
    bench_must(troupe_counters_read(bench->system, &now), "counters");
    /* relaxed, both: written in turns before the idle moment. */
    count = atomic_load_explicit(&handled, memory_order_relaxed);
    sum = atomic_load_explicit(&handled_sum, memory_order_relaxed);
    /* A dead letter may be a copy of the end: it is not in `total`. */
    bench_expect(count <= total && count + (int64_t)now.dead >= total,
        "number of messages handled");
    bench_expect(bench->result.workers > 1 || now.dead == 0, "dead letters");
    bench_expect(
        count != total || sum == total * (total + 1) / 2, "sum of numbers");
    bench->must_bury = now.dead;
}

void
bench_routerresize(struct bench *bench)
{
    int64_t total = bench_scaled(bench, 2000000);
    int64_t unknown = 0;
    troupe_router_options options = TROUPE_INIT(troupe_router_options);
    struct driver work = {.left = total};
    troupe_ref driver;

    options.type = &passing_type;
    options.routees = ROUTEES;
    work.router = spawn_router(bench, &options, &unknown);
    driver = bench_spawn(bench, &resizing_type, &work, sizeof work);
    bench_begin(bench);
    bench_post_go(bench, driver);
    bench_wait(bench);
    wait_for_all(bench, total);
    bench->must_end = 1;
    bench->result.messages = (uint64_t)total;
    snprintf(bench->result.note, sizeof bench->result.note,
        "%lld routees came and went, %llu dead letters",
        (long long)atomic_load_explicit(&ended, memory_order_relaxed),
        (unsigned long long)bench->must_bury);
}
