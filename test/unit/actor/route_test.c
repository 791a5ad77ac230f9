/* SPDX-License-Identifier: MIT */
#include "actor/route.h"

#include "actor/cell.h"
#include "base/least.h"
#include "support/await.h"
#include "support/seed.h"

#include <troupe/troupe.h>

#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

/*
 * Pools that look for the shortest mailbox: the depths side by side are those
 * of the cells whenever nobody runs, whatever has happened to the routees, and
 * nothing is left of what was added.
 */

enum { MOST = 1200 };
enum {
    FAIL = 1000,
    END,
    STASH,
    UNSTASH,
    TO_SELF,
    BEAR,
    LOOK
}; /* instead of a number */

TROUPE_MSG_TYPE(number, uint64_t, 1);

static troupe_system *the_system;
static struct trp_core *core;

static void
open_system(uint32_t workers)
{
    troupe_system_options options = TROUPE_INIT(troupe_system_options);

    options.flags = TROUPE_SYSTEM_IGNORE_ENV;
    if (workers == 0) {
        options.flags |= TROUPE_SYSTEM_DRIVEN;
    }
    options.workers = workers;
    options.log.max_level = TROUPE_LOG_OFF;
    cr_assert_eq(troupe_system_create(&options, &the_system), TROUPE_OK);
    core = trp_core_of(the_system);
}

static void
close_system(void)
{
    cr_assert_eq(troupe_system_destroy(the_system), TROUPE_OK);
}

static void
run(uint32_t turns)
{
    cr_assert_eq(troupe_system_run(the_system, turns, NULL), TROUPE_OK);
}

TestSuite(actor_route, .fini = close_system);

/* --- routees -------------------------------------------------------------- */

static uint32_t throughput = 3; /* turns end with something left */
static void look(const troupe_self *self);

static troupe_verdict
ignore(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)self;
    (void)state;
    (void)msg;
    return TROUPE_CONTINUE;
}

static const troupe_actor_type child_type = {
    .size = sizeof(troupe_actor_type),
    .name = "child",
    .receive = ignore,
};

static troupe_verdict
receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    bool *stashes = state;
    troupe_ref child;

    switch (*troupe_payload(msg, uint64_t)) {
    case FAIL:
        return troupe_fail(self, 1);
    case END:
        return TROUPE_DONE;
    case STASH:
        *stashes = true;
        return TROUPE_CONTINUE;
    case UNSTASH:
        *stashes = false;
        cr_assert_eq(troupe_unstash(self, 0), TROUPE_OK);
        return TROUPE_CONTINUE;
    case TO_SELF:
        troupe_tell(self, troupe_self_ref(self), &number, &(const uint64_t){1});
        return TROUPE_CONTINUE;
    case LOOK:
        look(self);
        return TROUPE_CONTINUE;
    case BEAR:
        cr_assert_eq(troupe_spawn(self, &child_type, NULL, &child), TROUPE_OK);
        return TROUPE_CONTINUE;
    }
    if (*stashes) {
        troupe_status status = troupe_stash(self);

        cr_assert(status == TROUPE_OK || status == TROUPE_E_LIMIT);
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type routee_type = {
    .size = sizeof(troupe_actor_type),
    .name = "routee",
    .state_bytes = sizeof(bool),
    .receive = receive,
};

static troupe_ref
begin(troupe_routing routing, uint32_t routees,
    const troupe_mailbox_options *mailbox)
{
    troupe_router_options options = TROUPE_INIT(troupe_router_options);
    troupe_spawn_options each = TROUPE_INIT(troupe_spawn_options);
    troupe_supervision own = TROUPE_INIT(troupe_supervision);
    troupe_ref router = TROUPE_NONE;

    own.max_restarts = TROUPE_RESTARTS_UNLIMITED;
    each.own = &own;
    each.throughput = throughput;
    each.mailbox = mailbox;
    options.type = &routee_type;
    options.routing = routing;
    options.routees = routees;
    options.routee_options = &each;
    options.flags = TROUPE_ROUTER_RESPAWN;
    cr_assert_eq(
        troupe_system_spawn_router(the_system, &options, &router), TROUPE_OK);
    return router;
}

static void
post(troupe_ref to, uint64_t what)
{
    cr_assert_eq(troupe_post(the_system, to, &number, &what), TROUPE_OK);
}

static uint32_t
members(troupe_ref router, troupe_ref *routees)
{
    return (uint32_t)troupe_router_routees(the_system, router, routees, MOST);
}

/* --- what the slots say --------------------------------------------------- */

static struct trp_route *
route_of(troupe_ref router)
{
    struct trp_route *route = NULL;

    cr_assert_eq(trp_route_find(core, router, "test", &route), TROUPE_OK);
    return route;
}

/* Of routee-1 it is 0; DEAD where there is none. */
static uint32_t
slot(troupe_ref router, uint32_t at)
{
    TRP_ATOMIC(uint32_t) *slots = trp_route_slot(core, route_of(router), at);

    return slots != NULL ? trp_load_relaxed(slots) : TRP_LEAST_DEAD;
}

static uint32_t
place_of(troupe_ref routee)
{
    char path[200];
    unsigned place = 0;

    (void)troupe_path(the_system, routee, path, sizeof path);
    cr_assert_eq(sscanf(strrchr(path, '/'), "/routee-%u", &place), 1);
    return place - 1;
}

/* Nobody runs. */
static void
check_slots(troupe_ref router)
{
    static troupe_ref routees[MOST];
    uint32_t count = members(router, routees);
    uint32_t open = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t depth = troupe_depth(the_system, routees[i]);

        if (depth != TROUPE_DEPTH_DEAD) { /* else it is not pruned yet */
            cr_assert_eq(slot(router, place_of(routees[i])), depth);
        }
    }
    for (uint32_t i = 0; i < MOST; i++) {
        open += (slot(router, i) & TRP_LEAST_DEAD) == 0;
    }
    cr_assert_eq(open, count);
}

/* Everything that was added has been taken back. */
static bool
are_zero(void *user)
{
    const troupe_ref *router = user;

    for (uint32_t i = 0; i < MOST; i++) {
        if ((slot(*router, i) & ~TRP_LEAST_DEAD) != 0) {
            return false;
        }
    }
    return true;
}

/* The exact scan: of those that live the shortest, the first from `index` on.
 */
static void
check_pick(troupe_ref router)
{
    troupe_ref routees[64];
    uint32_t depth[64];
    troupe_router_counters counters = TROUPE_INIT(troupe_router_counters);
    uint32_t count = members(router, routees);
    uint32_t best;

    cr_assert_leq(count, 64);
    cr_assert_eq(
        troupe_router_counters_read(the_system, router, &counters), TROUPE_OK);
    if (count == 0) {
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        depth[i] = troupe_depth(the_system, routees[i]);
        if (depth[i] == TROUPE_DEPTH_DEAD) {
            return; /* it is not pruned yet */
        }
    }
    best = (uint32_t)(counters.routed % count);
    for (uint32_t i = 1; i < count; i++) {
        uint32_t at = (uint32_t)((counters.routed + i) % count);

        best = depth[at] < depth[best] ? at : best;
    }
    post(router, 1);
    cr_assert_eq(troupe_depth(the_system, routees[best]), depth[best] + 1,
        "message %u", (unsigned)counters.routed);
}

/* --- one after the other -------------------------------------------------- */

static void
do_something(troupe_ref router, struct test_rng *rng)
{
    static const uint64_t what[] = {FAIL, END, STASH, UNSTASH, TO_SELF, 1};
    troupe_ref routees[64];
    uint32_t count = members(router, routees);
    troupe_ref one = TROUPE_NONE;

    if (count != 0) {
        one = routees[test_random_below(rng, count)];
    }
    switch (test_random_below(rng, 12)) {
    case 0:
        run(0);
        return;
    case 1:
        cr_assert_eq(troupe_router_resize(
                         the_system, router, 1 + test_random_below(rng, 40)),
            TROUPE_OK);
        run(0);
        return;
    case 2:
        if (count > 1) {
            cr_assert_eq(troupe_post_stop_now(the_system, one), TROUPE_OK);
            run(0); /* or it is listed, and to be passed over */
        }
        return;
    case 3:
    case 4:
        if (count != 0 && trp_ref_lives(core, one)) {
            post(one, what[test_random_below(rng, 6)]);
        }
        return;
    case 5:
    case 6:
        run(1 + test_random_below(rng, 8));
        return;
    default:
        check_pick(router);
        return;
    }
}

static void
check_strategy(troupe_routing routing)
{
    struct test_rng rng = {test_seed()};

    for (int round = 0; round < 40; round++) {
        troupe_ref router;

        open_system(0);
        router = begin(routing, 1 + test_random_below(&rng, 20), NULL);
        run(0);
        for (int i = 0; i < 400; i++) {
            do_something(router, &rng);
            check_slots(router);
        }
        run(0);
        cr_assert(are_zero(&router));
        if (round != 39) {
            close_system();
        }
    }
}

Test(actor_route, by_smallest_mailbox_the_pick_is_that_of_an_exact_scan)
{
    check_strategy(TROUPE_ROUTE_SMALLEST_MAILBOX);
}

Test(actor_route, by_least_in_flight_the_pick_is_that_of_an_exact_scan)
{
    check_strategy(TROUPE_ROUTE_LEAST_IN_FLIGHT);
}

Test(actor_route, a_mailbox_of_another_form_is_not_counted)
{
    troupe_mailbox_options bounded = TROUPE_INIT(troupe_mailbox_options);
    troupe_ref router;

    bounded.capacity = 8;
    open_system(0);
    router = begin(TROUPE_ROUTE_SMALLEST_MAILBOX, 3, &bounded);
    run(0);
    for (int i = 0; i < 12; i++) {
        check_pick(router);
    }
    for (uint32_t i = 0; i < 4; i++) {
        cr_assert_eq(slot(router, i), TRP_LEAST_DEAD);
    }
}

/* There is room for four times as many as it began with, and for them only. */
Test(actor_route, more_routees_than_slots_are_found_as_well)
{
    static troupe_ref routees[MOST];
    const uint32_t sizes[] = {2, 100, 1000, 100};
    troupe_ref router;

    open_system(0);
    router = begin(TROUPE_ROUTE_SMALLEST_MAILBOX, 2, NULL);
    cr_assert_null(trp_route_slot(core, route_of(router), 999));
    for (uint32_t i = 0; i < 4; i++) {
        cr_assert_eq(
            troupe_router_resize(the_system, router, sizes[i]), TROUPE_OK);
        run(0);
        cr_assert_eq(members(router, routees), sizes[i]);
        for (uint32_t m = 0; m < 2 * sizes[i]; m++) {
            post(router, 1);
        }
        for (uint32_t m = 0; m < sizes[i]; m++) {
            cr_assert_eq(troupe_depth(the_system, routees[m]), 2);
        }
        run(0);
    }
    cr_assert(are_zero(&router));
}

/* Whose child has not ended yet. */
Test(actor_route, what_is_refused_is_taken_back)
{
    troupe_ref router, routees[MOST];
    uint32_t others;

    open_system(0);
    router = begin(TROUPE_ROUTE_SMALLEST_MAILBOX, 2, NULL);
    run(0);
    cr_assert_eq(members(router, routees), 2);
    post(routees[0], BEAR);
    while (troupe_depth(the_system, routees[0]) != 0) {
        run(1);
    }
    cr_assert_eq(troupe_post_stop_now(the_system, routees[0]), TROUPE_OK);
    while (troupe_depth(the_system, routees[0]) != TROUPE_DEPTH_DEAD) {
        run(1);
    }
    cr_assert(trp_ref_lives(core, routees[0]));
    others = slot(router, 1);
    cr_assert_eq(
        troupe_post(the_system, routees[0], &number, &(const uint64_t){1}),
        TROUPE_E_DEAD);
    cr_assert_eq(slot(router, 0), 0);
    post(router, 1);
    cr_assert_eq(slot(router, 0), 0);
    cr_assert_eq(slot(router, 1), others + 1);
    run(0);
    cr_assert(are_zero(&router));
}

static troupe_ref looked_at;
static uint32_t looks, behind[40];

/* How far the slot is behind the mailbox, in the middle of a turn. */
static void
look(const troupe_self *self)
{
    behind[looks++] =
        slot(looked_at, 0) - troupe_depth(the_system, troupe_self_ref(self));
}

Test(actor_route, who_is_at_it_tells_its_depth_at_once_and_every_16_messages)
{
    const troupe_routing kinds[] = {
        TROUPE_ROUTE_SMALLEST_MAILBOX, TROUPE_ROUTE_LEAST_IN_FLIGHT};

    throughput = 64;
    open_system(0);
    for (uint32_t in_flight = 0; in_flight < 2; in_flight++) {
        looked_at = begin(kinds[in_flight], 1, NULL);
        run(0);
        looks = 0;
        for (uint32_t i = 0; i < 40; i++) {
            post(looked_at, LOOK);
        }
        run(0);
        cr_assert_eq(looks, 40);
        for (uint32_t i = 0; i < 40; i++) {
            cr_assert_leq(behind[i], 15 + in_flight);
        }
        cr_assert_eq(behind[0], in_flight);
        cr_assert_eq(behind[16], in_flight);
    }
}

/* The next router gets the slots of the one before as it has left them. */
Test(actor_route, slots_that_were_used_are_closed_and_zero)
{
    open_system(0);
    for (int i = 0; i < 3; i++) {
        troupe_ref router = begin(TROUPE_ROUTE_SMALLEST_MAILBOX, 5, NULL);

        run(0);
        check_slots(router);
        for (int m = 0; m < 20; m++) {
            check_pick(router);
        }
        cr_assert_eq(troupe_post_stop_now(the_system, router), TROUPE_OK);
        run(0);
    }
}

/* --- all at once ---------------------------------------------------------- */

struct storm {
    troupe_ref router;
    struct test_rng rng;
};

static troupe_verdict
disturb(troupe_self *self, void *state, const troupe_msg *msg)
{
    static const uint64_t what[] = {FAIL, STASH, UNSTASH, TO_SELF, 1, 1};
    struct storm *storm = state;
    uint64_t left = *troupe_payload(msg, uint64_t);
    troupe_ref routees[64];
    size_t count = troupe_router_routees(
        troupe_self_system(self), storm->router, routees, 64);

    for (int i = 0; i < 20; i++) {
        troupe_tell(self, storm->router, &number,
            &what[test_random_below(&storm->rng, 6)]);
    }
    if (count > 0) {
        troupe_ref one =
            routees[test_random_below(&storm->rng, (uint32_t)count)];

        troupe_tell(self, one, &number, &(const uint64_t){1});
        if (test_random_below(&storm->rng, 8) == 0) {
            (void)troupe_stop_now(self, one);
        } else if (test_random_below(&storm->rng, 8) == 0) {
            (void)troupe_stop(self, one);
        }
    }
    if (left == 0) {
        return TROUPE_DONE;
    }
    left--;
    troupe_tell(self, troupe_self_ref(self), &number, &left);
    return TROUPE_CONTINUE;
}

static troupe_status
begin_storm(troupe_self *self, void *state, const void *arg)
{
    (void)self;
    *(struct storm *)state = *(const struct storm *)arg;
    return TROUPE_OK;
}

static const troupe_actor_type storm_type = {
    .size = sizeof(troupe_actor_type),
    .name = "storm",
    .state_bytes = sizeof(struct storm),
    .receive = disturb,
    .start = begin_storm,
};

static bool
has_gone(void *user)
{
    return !trp_ref_lives(core, *(const troupe_ref *)user);
}

static void
rage(uint32_t workers, troupe_routing routing)
{
    struct storm storm = {.rng = {test_seed() + workers}};
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    troupe_ref storms[4];

    open_system(workers);
    storm.router = begin(routing, 8, NULL);
    options.arg = &storm;
    options.arg_bytes = sizeof storm;
    for (int i = 0; i < 4; i++) {
        (void)test_random(&storm.rng);
        cr_assert_eq(
            troupe_system_spawn(the_system, &storm_type, &options, &storms[i]),
            TROUPE_OK);
        post(storms[i], 300);
    }
    for (uint32_t i = 0; i < 60; i++) {
        cr_assert_eq(
            troupe_router_resize(the_system, storm.router, 1 + i * 7 % 30),
            TROUPE_OK);
        post(storm.router, 1);
    }
    for (int i = 0; i < 4; i++) {
        cr_assert(test_await(has_gone, &storms[i]));
    }
    cr_assert(test_await(are_zero, &storm.router));
}

Test(actor_route, nothing_is_left_in_the_slots_with_one_worker)
{
    rage(1, TROUPE_ROUTE_SMALLEST_MAILBOX);
}

Test(actor_route, nothing_is_left_in_the_slots_with_two_workers)
{
    rage(2, TROUPE_ROUTE_LEAST_IN_FLIGHT);
}

Test(actor_route, nothing_is_left_in_the_slots_with_eight_workers)
{
    rage(8, TROUPE_ROUTE_SMALLEST_MAILBOX);
}
