/* SPDX-License-Identifier: MIT */
#include "support/await.h"
#include "support/system.h"

#include <troupe/ask.h>
#include <troupe/router.h>
#include <troupe/stop.h>
#include <troupe/testkit.h>
#include <troupe/timer.h>
#include <troupe/tree.h>
#include <troupe/watch.h>

#include <criterion/criterion.h>

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/*
 * Pools of routees that write a journal: "3:7 " is routee-3 with the number 7.
 * Time is virtual where a test says so.
 */

enum { FAIL = 1000, END = 2000, ECHO = 3000 }; /* instead of a number */

static troupe_system *the_system;
static char journal[1 << 16];
static uint32_t handled[128]; /* by routee */
static troupe_ref last_sender;
static uint32_t bad_starts; /* so many of the next starts fail */
static uint32_t starts;

__attribute__((format(printf, 1, 2))) static void
note(const char *format, ...)
{
    size_t used = strlen(journal);
    va_list args;

    va_start(args, format);
    (void)vsnprintf(journal + used, sizeof journal - used, format, args);
    va_end(args);
}

/* The journal, which begins anew. */
static const char *
written(void)
{
    static char copy[sizeof journal];

    strcpy(copy, journal);
    journal[0] = '\0';
    return copy;
}

static void
forget(void)
{
    journal[0] = '\0';
    memset(handled, 0, sizeof handled);
    last_sender = TROUPE_NONE;
    bad_starts = 0;
    starts = 0;
}

static void
setup(void)
{
    forget();
    the_system = test_open_driven(0);
}

static void
teardown(void)
{
    test_close(the_system);
}

TestSuite(router, .init = setup, .fini = teardown);

/* --- routees -------------------------------------------------------------- */

/* Of routee-N, or 0. */
static uint32_t
number_of(const troupe_self *self)
{
    char path[200];
    unsigned number = 0;
    const char *name;

    (void)troupe_path(
        troupe_self_system(self), troupe_self_ref(self), path, sizeof path);
    name = strrchr(path, '/');
    if (name == NULL || sscanf(name, "/routee-%u", &number) != 1) {
        return 0;
    }
    return number;
}

static troupe_status
start_routee(troupe_self *self, void *state, const void *arg)
{
    (void)self;
    (void)state;
    (void)arg;
    starts++;
    if (bad_starts > 0) {
        bad_starts--;
        return TROUPE_E_FAILED;
    }
    return TROUPE_OK;
}

static troupe_verdict
receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    uint32_t me = number_of(self);
    uint64_t number = 0;

    (void)state;
    last_sender = msg->sender;
    if (troupe_msg_tag(msg) == TEST_TAG_NUMBER) {
        number = *troupe_payload(msg, uint64_t);
    } else if (troupe_msg_tag(msg) == TEST_TAG_SHARED ||
               troupe_msg_tag(msg) == TEST_TAG_LARGE) {
        number = troupe_payload(msg, struct test_large)->owned.number;
    }
    if (number == END) {
        return TROUPE_DONE;
    }
    if (number == FAIL) {
        return troupe_fail(self, 1);
    }
    if (number == ECHO) {
        troupe_tell(self, msg->sender, &test_number, &(uint64_t){me});
        return TROUPE_CONTINUE;
    }
    note("%u:%u ", me, (unsigned)number);
    handled[me % 128]++;
    return TROUPE_CONTINUE;
}

static const troupe_actor_type routee_type = {
    .size = sizeof(troupe_actor_type),
    .name = "worker",
    .receive = receive,
    .start = start_routee,
};

static troupe_router_options
pool(troupe_routing routing, uint32_t routees)
{
    troupe_router_options options = TROUPE_INIT(troupe_router_options);

    options.type = &routee_type;
    options.routing = routing;
    options.routees = routees;
    return options;
}

static troupe_ref
spawn(const troupe_router_options *options)
{
    troupe_ref router = TROUPE_NONE;

    cr_assert_eq(
        troupe_system_spawn_router(the_system, options, &router), TROUPE_OK);
    return router;
}

/* The same when it has begun. */
static troupe_ref
begin(const troupe_router_options *options)
{
    troupe_ref router = spawn(options);

    test_run(the_system);
    return router;
}

static troupe_ref
begin_pool(troupe_routing routing, uint32_t routees)
{
    troupe_router_options options = pool(routing, routees);

    return begin(&options);
}

static troupe_status
post(troupe_ref to, uint64_t number)
{
    return troupe_post(the_system, to, &test_number, &number);
}

static void
post_all(troupe_ref to, uint64_t first, uint64_t count)
{
    for (uint64_t i = first; i < first + count; i++) {
        cr_assert_eq(post(to, i), TROUPE_OK);
    }
}

static troupe_status
post_broadcast(troupe_ref to, uint64_t number)
{
    return troupe_post_broadcast(the_system, to, &test_number, &number);
}

static troupe_ref
routee(troupe_ref router, uint32_t at)
{
    troupe_ref routees[128] = {TROUPE_NONE};

    cr_assert_gt(troupe_router_routees(the_system, router, routees, 128), at);
    return routees[at];
}

static size_t
count_of(troupe_ref router)
{
    return troupe_router_routees(the_system, router, NULL, 0);
}

static uint64_t
dead_for(troupe_dead_reason reason)
{
    return test_letters.by_reason[reason];
}

/* --- options -------------------------------------------------------------- */

static void
check_refused(const troupe_router_options *options, const char *option)
{
    troupe_ref router = TROUPE_NONE;
    troupe_error error;

    cr_expect_eq(troupe_system_spawn_router(the_system, options, &router),
        TROUPE_E_INVALID);
    error = troupe_last_error();
    cr_expect_str_eq(error.option, option);
    cr_expect_str_eq(error.call, "troupe_system_spawn_router");
    cr_expect(troupe_ref_is_none(router));
}

Test(router, what_cannot_be_a_router_is_refused_by_name)
{
    static const uint32_t weights[2] = {0, 0};
    const troupe_ref members[2] = {{1, 1}, {1, 1}};
    troupe_spawn_options named = TROUPE_INIT(troupe_spawn_options);
    troupe_router_options options = pool(TROUPE_ROUTE_ROUND_ROBIN, 0);

    check_refused(&options, "routees");
    options.routees = 1000001;
    check_refused(&options, "routees");
    options = pool(TROUPE_ROUTE_ROUND_ROBIN, 2);
    options.members = members;
    check_refused(&options, "members");
    options.type = NULL;
    check_refused(&options, "members"); /* twice the same */
    options.members = NULL;
    check_refused(&options, "type");
    options = pool((troupe_routing)10, 2);
    check_refused(&options, "routing");
    options = pool(TROUPE_ROUTE_ROUND_ROBIN, 2);
    options.flags = 4;
    check_refused(&options, "flags");
    options = pool(TROUPE_ROUTE_WEIGHTED, 2);
    check_refused(&options, "weights");
    options.weights = weights;
    check_refused(&options, "weights");
    options.routing = TROUPE_ROUTE_RANDOM;
    check_refused(&options, "weights");
    options = pool(TROUPE_ROUTE_CUSTOM, 2);
    check_refused(&options, "pick");
    options = pool(TROUPE_ROUTE_ROUND_ROBIN, 2);
    named.name = "one";
    options.routee_options = &named;
    check_refused(&options, "routee_options.name");
    options = pool(TROUPE_ROUTE_ROUND_ROBIN, 2);
    options.name = "a/b";
    check_refused(&options, "name");
    options.name = NULL;
    options.size = 1;
    check_refused(&options, "size");
}

Test(router, a_group_has_neither_respawn_nor_routee_options)
{
    troupe_spawn_options child = TROUPE_INIT(troupe_spawn_options);
    troupe_router_options options = TROUPE_INIT(troupe_router_options);
    troupe_ref member = test_spawn_doer(the_system, NULL);
    troupe_ref router;

    options.members = &member;
    options.routees = 1;
    options.flags = TROUPE_ROUTER_RESPAWN;
    check_refused(&options, "flags");
    options.flags = 0;
    options.routee_options = &child;
    check_refused(&options, "routee_options");
    options.routee_options = NULL;
    member = TROUPE_NONE;
    check_refused(&options, "members");
    cr_assert_eq(
        troupe_system_spawn_router(NULL, &options, &router), TROUPE_E_INVALID);
    cr_assert_eq(
        troupe_spawn_router(NULL, &options, &router), TROUPE_E_INVALID);
    cr_assert_eq(troupe_system_spawn_router(the_system, NULL, &router),
        TROUPE_E_INVALID);
}

/* --- the acceptance scenarios of the specification ------------------------ */

Test(router, round_robin_goes_around_in_order)
{
    troupe_ref router = begin_pool(TROUPE_ROUTE_ROUND_ROBIN, 4);

    for (uint64_t i = 0; i < 8; i++) {
        cr_assert_eq(post(router, i), TROUPE_OK);
        test_run(the_system);
    }
    cr_assert_str_eq(written(), "1:0 2:1 3:2 4:3 1:4 2:5 3:6 4:7 ");
}

Test(router, a_pool_of_one_works)
{
    troupe_ref router = begin_pool(TROUPE_ROUTE_ROUND_ROBIN, 1);

    post_all(router, 0, 3);
    test_run(the_system);
    cr_assert_str_eq(written(), "1:0 1:1 1:2 ");
}

Test(router, what_is_sent_before_it_has_begun_waits_and_keeps_its_order)
{
    troupe_router_options options = pool(TROUPE_ROUTE_ROUND_ROBIN, 2);
    troupe_ref router = spawn(&options);

    cr_assert_eq(count_of(router), 0);
    post_all(router, 0, 4);
    test_run(the_system);
    cr_assert_eq(count_of(router), 2);
    post_all(router, 4, 2);
    test_run(the_system);
    cr_assert_str_eq(written(), "2:1 2:3 1:0 1:2 1:4 2:5 ");
}

Test(router, a_broadcast_does_not_shift_the_rotation)
{
    troupe_ref router = begin_pool(TROUPE_ROUTE_ROUND_ROBIN, 3);

    cr_assert_eq(post(router, 1), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(post_broadcast(router, 9), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(post(router, 2), TROUPE_OK);
    test_run(the_system);
    cr_assert_str_eq(written(), "1:1 1:9 2:9 3:9 2:2 ");
}

static troupe_verdict
send_echo(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    cr_assert_eq(
        troupe_send(self, *(troupe_ref *)user, &test_number, &(uint64_t){ECHO}),
        TROUPE_OK);
    return TROUPE_CONTINUE;
}

Test(router, the_routee_sees_the_client_as_sender_and_the_answer_gets_there)
{
    troupe_ref router = begin_pool(TROUPE_ROUTE_ROUND_ROBIN, 2);
    troupe_ref client = test_spawn_doer(the_system, "client");
    uint64_t dead = test_letters.total;

    test_do(the_system, client, send_echo, &router);
    cr_assert(troupe_ref_equal(last_sender, client));
    /* The doer does not know what to do with a number. */
    cr_assert_leq(test_letters.total, dead + 1);
    cr_assert_eq(count_of(router), 2);
}

Test(router, smallest_mailbox_avoids_who_is_behind_until_it_has_caught_up)
{
    troupe_ref router = begin_pool(TROUPE_ROUTE_SMALLEST_MAILBOX, 3);

    for (int i = 0; i < 5; i++) {
        cr_assert_eq(post(routee(router, 0), 100), TROUPE_OK);
    }
    post_all(router, 0, 4);
    cr_assert_eq(troupe_depth(the_system, routee(router, 0)), 5);
    cr_assert_eq(troupe_depth(the_system, routee(router, 1)), 2);
    cr_assert_eq(troupe_depth(the_system, routee(router, 2)), 2);
    test_run(the_system);
    post_all(router, 0, 3);
    test_run(the_system);
    cr_assert_eq(handled[1], 6);
    cr_assert_eq(handled[2], 3);
    cr_assert_eq(handled[3], 3);
}

Test(router, smallest_mailbox_rotates_among_idle_routees)
{
    troupe_ref router = begin_pool(TROUPE_ROUTE_SMALLEST_MAILBOX, 3);

    for (uint64_t i = 0; i < 9; i++) {
        cr_assert_eq(post(router, i), TROUPE_OK);
        test_run(the_system);
    }
    cr_assert_str_eq(written(), "1:0 2:1 3:2 1:3 2:4 3:5 1:6 2:7 3:8 ");
}

Test(router, smallest_mailbox_loses_nothing_when_a_routee_is_killed)
{
    troupe_ref router = begin_pool(TROUPE_ROUTE_SMALLEST_MAILBOX, 3);
    uint64_t dead = test_letters.total;

    cr_assert_eq(
        troupe_post_stop_now(the_system, routee(router, 1)), TROUPE_OK);
    post_all(router, 0, 200);
    test_run(the_system);
    cr_assert_eq(handled[1] + handled[3], 200);
    cr_assert_eq(handled[1], 100);
    cr_assert_eq(handled[2], 0);
    cr_assert_eq(test_letters.total, dead);
    cr_assert_eq(count_of(router), 2);
}

Test(router, what_nobody_can_take_any_more_becomes_a_visible_dead_letter)
{
    static const troupe_routing kinds[] = {TROUPE_ROUTE_ROUND_ROBIN,
        TROUPE_ROUTE_SMALLEST_MAILBOX, TROUPE_ROUTE_RANDOM,
        TROUPE_ROUTE_TWO_CHOICES, TROUPE_ROUTE_LEAST_IN_FLIGHT};

    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        troupe_ref router = begin_pool(kinds[k], 3);
        uint64_t dead = test_letters.total;
        uint64_t number = 7;

        for (uint32_t i = 0; i < 3; i++) {
            cr_assert_eq(
                troupe_post_stop_now(the_system, routee(router, i)), TROUPE_OK);
        }
        troupe_post_tell(the_system, router, &test_number, &number);
        test_run(the_system);
        cr_assert_eq(test_letters.total, dead + 1);
        cr_assert_eq(test_letters.last.number, 7);
        cr_assert_eq(count_of(router), 0);
    }
}

Test(router, one_without_routees_says_so_or_leaves_one_dead_letter)
{
    static const troupe_routing kinds[] = {TROUPE_ROUTE_ROUND_ROBIN,
        TROUPE_ROUTE_BROADCAST, TROUPE_ROUTE_SMALLEST_MAILBOX};

    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        troupe_ref router = begin_pool(kinds[k], 1);
        troupe_counters before;
        uint64_t dead, number = 5;

        cr_assert_eq(troupe_router_stop_routees(the_system, router), TROUPE_OK);
        test_run(the_system);
        dead = dead_for(TROUPE_DEAD_NO_ROUTE);
        before = test_counters(the_system);
        cr_assert_eq(post(router, 4), TROUPE_E_NO_ROUTE);
        cr_assert_eq(test_counters(the_system).refused, before.refused + 1);
        cr_assert_eq(dead_for(TROUPE_DEAD_NO_ROUTE), dead);
        cr_assert_eq(post_broadcast(router, 4), TROUPE_E_NO_ROUTE);
        troupe_post_tell(the_system, router, &test_number, &number);
        cr_assert_eq(dead_for(TROUPE_DEAD_NO_ROUTE), dead + 1);
        cr_assert_eq(test_letters.last.number, 5);
        cr_assert(troupe_ref_equal(test_letters.last.recipient, router));
        cr_assert_eq(test_counters(the_system).refused, before.refused + 2);
    }
}

/* --- death ---------------------------------------------------------------- */

Test(router, a_routee_that_has_ended_is_taken_out_and_the_order_stays)
{
    troupe_ref router = begin_pool(TROUPE_ROUTE_ROUND_ROBIN, 4);

    cr_assert_eq(post(routee(router, 1), END), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(count_of(router), 3);
    for (uint64_t i = 0; i < 6; i++) {
        cr_assert_eq(post(router, i), TROUPE_OK);
        test_run(the_system);
    }
    cr_assert_str_eq(written(), "1:0 3:1 4:2 1:3 3:4 4:5 ");
}

Test(router, a_routee_that_fails_is_restarted_and_stays)
{
    troupe_ref router = begin_pool(TROUPE_ROUTE_ROUND_ROBIN, 2);
    troupe_ref first = routee(router, 0);

    cr_assert_eq(post(router, FAIL), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(starts, 3);
    cr_assert_eq(count_of(router), 2);
    cr_assert(troupe_ref_equal(routee(router, 0), first));
}

/* A doer's child that is a router, restarted together with its brother. */
static troupe_verdict
have_router(troupe_self *self, const troupe_msg *msg, void *user)
{
    troupe_router_options options = pool(TROUPE_ROUTE_ROUND_ROBIN, 3);
    troupe_ref *refs = user;

    (void)msg;
    options.name = "router";
    cr_assert_eq(troupe_spawn_router(self, &options, &refs[0]), TROUPE_OK);
    cr_assert_eq(troupe_spawn(self, &routee_type, NULL, &refs[1]), TROUPE_OK);
    return TROUPE_CONTINUE;
}

static troupe_ref
spawn_parent_of_all(void)
{
    troupe_supervision all = TROUPE_INIT(troupe_supervision);
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);

    all.scope = TROUPE_SCOPE_ALL_FOR_ONE;
    all.otherwise = TROUPE_DIRECTIVE_RESTART;
    options.children = &all;
    return test_spawn_doer_supervising(the_system, &options);
}

Test(router, a_restart_makes_a_fresh_pool_that_old_notices_do_not_touch)
{
    troupe_ref parent = spawn_parent_of_all();
    troupe_ref refs[2], before[3], after[3];
    uint64_t dead;

    test_do(the_system, parent, have_router, refs);
    cr_assert_eq(troupe_router_routees(the_system, refs[0], before, 3), 3);
    post_all(refs[0], 0, 2);
    test_run(the_system);
    (void)written();
    dead = test_letters.total;
    cr_assert_eq(post(before[1], END), TROUPE_OK);
    cr_assert_eq(post(refs[1], FAIL), TROUPE_OK);
    /* The routee ends, and its notice meets a router that is restarting. */
    test_run(the_system);
    cr_assert_eq(troupe_router_routees(the_system, refs[0], after, 3), 3);
    for (int i = 0; i < 3; i++) {
        cr_assert_not(troupe_ref_equal(before[i], after[i]));
    }
    cr_assert_eq(test_letters.total, dead);
    for (uint64_t i = 0; i < 3; i++) {
        cr_assert_eq(post(refs[0], i), TROUPE_OK);
        test_run(the_system);
    }
    cr_assert_str_eq(written(), "1:0 2:1 3:2 "); /* the index is 0 again */
}

Test(router, what_is_sent_during_a_restart_waits_for_the_new_pool)
{
    troupe_ref parent = spawn_parent_of_all();
    uint64_t dead = test_letters.total;
    troupe_run run = {.runnable = 1};
    uint32_t sent = 0, waited = 0;
    troupe_ref refs[2];

    test_do(the_system, parent, have_router, refs);
    cr_assert_eq(post(refs[1], FAIL), TROUPE_OK);
    while (run.runnable != 0) {
        cr_assert_eq(troupe_system_run(the_system, 1, &run), TROUPE_OK);
        if (run.runnable != 0 && sent < 100) {
            cr_assert_eq(post(refs[0], sent++), TROUPE_OK);
            waited += troupe_depth(the_system, refs[0]) != 0;
        }
    }
    cr_assert_gt(waited, 0);
    cr_assert_eq(
        handled[1] + handled[2] + handled[3] + test_letters.total, dead + sent);
    cr_assert_leq(test_letters.total, dead + 3); /* with the old pool */
    cr_assert_eq(count_of(refs[0]), 3);
}

/* --- strategies ----------------------------------------------------------- */

struct restarter {
    uint32_t turns; /* of the restart that pass while it picks; 0: none */
    troupe_ref routee;
};

/* Picks whom it has seen; by then the router is restarting, or has. */
static size_t
pick_during_restart(
    const troupe_route *route, troupe_ref *targets, size_t capacity, void *user)
{
    struct restarter *restarter = user;
    uint32_t turns = restarter->turns;

    (void)capacity;
    targets[0] = route->routees[0];
    if (turns != 0) {
        restarter->turns = 0;
        (void)post(restarter->routee, FAIL);
        cr_assert_eq(troupe_system_run(the_system, turns, NULL), TROUPE_OK);
    }
    return 1;
}

Test(router, a_restart_that_begins_while_one_is_picked_loses_nothing)
{
    static const troupe_supervision escalates = {
        .size = TROUPE_OPTIONS(troupe_supervision),
        .otherwise = TROUPE_DIRECTIVE_ESCALATE,
    };
    troupe_spawn_options routees = TROUPE_INIT(troupe_spawn_options);

    routees.own = &escalates;
    for (uint32_t turns = 1; turns <= 9; turns++) {
        troupe_router_options options = pool(TROUPE_ROUTE_CUSTOM, 1);
        struct restarter restarter = {.turns = 0};
        troupe_ref router;

        options.pick = pick_during_restart;
        options.user = &restarter;
        options.routee_options = &routees;
        router = begin(&options);
        restarter.routee = routee(router, 0);
        restarter.turns = turns;
        cr_assert_eq(post(router, 1), TROUPE_OK);
        test_run(the_system);
        cr_assert_eq(troupe_post_stop_now(the_system, router), TROUPE_OK);
        test_run(the_system);
    }
    /* A letter is what the old routee had in its mailbox. */
    cr_assert_eq(handled[1] + test_letters.total, 9);
    cr_assert_geq(handled[1], 5);
}

Test(router, random_reaches_all_and_repeats_with_its_seed)
{
    troupe_router_options options = pool(TROUPE_ROUTE_RANDOM, 5);
    char first[4096];

    options.seed = 42;
    for (int round = 0; round < 2; round++) {
        troupe_ref router = begin(&options);

        for (uint64_t i = 0; i < 200; i++) {
            cr_assert_eq(post(router, i), TROUPE_OK);
            test_run(the_system);
        }
        if (round == 0) {
            strcpy(first, written());
        }
    }
    cr_assert_str_eq(written(), first);
    for (uint32_t i = 1; i <= 5; i++) {
        cr_assert_gt(handled[i], 2 * 20);
        cr_assert_lt(handled[i], 2 * 70);
    }
    options.seed = 43;
    post_all(begin(&options), 0, 200);
    test_run(the_system);
    cr_assert_str_neq(written(), first);
}

Test(router, broadcast_reaches_every_routee_once)
{
    troupe_ref router = begin_pool(TROUPE_ROUTE_BROADCAST, 3);
    troupe_counters before = test_counters(the_system), after;

    cr_assert_eq(post(router, 1), TROUPE_OK);
    after = test_counters(the_system);
    cr_assert_eq(after.sent, before.sent + 3);
    cr_assert_eq(after.queued, before.queued + 3);
    test_run(the_system);
    for (uint32_t i = 1; i <= 3; i++) {
        cr_assert_eq(handled[i], 1);
    }
}

Test(router, weights_are_met_exactly_and_follow_their_routee)
{
    static const uint32_t weights[4] = {5, 0, 2, 1};
    troupe_router_options options = pool(TROUPE_ROUTE_WEIGHTED, 4);
    troupe_ref router;

    options.weights = weights;
    router = begin(&options);
    post_all(router, 0, 800);
    test_run(the_system);
    cr_assert_eq(handled[1], 500);
    cr_assert_eq(handled[2], 0);
    cr_assert_eq(handled[3], 200);
    cr_assert_eq(handled[4], 100);
    cr_assert_eq(post(routee(router, 0), END), TROUPE_OK);
    test_run(the_system);
    forget();
    post_all(router, 0, 300);
    test_run(the_system);
    cr_assert_eq(handled[2], 0);
    cr_assert_eq(handled[3], 200);
    cr_assert_eq(handled[4], 100);
}

Test(router, a_heavy_routee_does_not_get_its_share_in_a_row)
{
    static const uint32_t weights[2] = {4, 4};
    troupe_router_options options = pool(TROUPE_ROUTE_WEIGHTED, 2);
    troupe_ref router;
    uint32_t row = 0, longest = 0, last = 0;
    const char *text;

    options.weights = weights;
    router = begin(&options);
    for (uint64_t i = 0; i < 8; i++) {
        cr_assert_eq(post(router, i), TROUPE_OK);
        test_run(the_system);
    }
    for (text = written(); *text != '\0'; text = strchr(text, ' ') + 1) {
        uint32_t now = (uint32_t)(*text - '0');

        row = now == last ? row + 1 : 1;
        longest = row > longest ? row : longest;
        last = now;
    }
    cr_assert_leq(longest, 2);
}

Test(router, whoever_has_weight_zero_does_not_stand_in_for_the_dead)
{
    static const uint32_t weights[2] = {1, 0};
    troupe_router_options options = pool(TROUPE_ROUTE_WEIGHTED, 2);
    troupe_ref router;

    options.weights = weights;
    router = begin(&options);
    cr_assert_eq(
        troupe_post_stop_now(the_system, routee(router, 0)), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(count_of(router), 1);
    cr_assert_eq(post(router, 1), TROUPE_E_NO_ROUTE);
    cr_assert_eq(post_broadcast(router, 2), TROUPE_OK);
    test_run(the_system);
    cr_assert_str_eq(written(), "2:2 ");
}

Test(router, two_choices_takes_the_shorter_of_two)
{
    troupe_ref router = begin_pool(TROUPE_ROUTE_TWO_CHOICES, 2);

    for (int i = 0; i < 50; i++) {
        cr_assert_eq(post(routee(router, 0), 1), TROUPE_OK);
    }
    post_all(router, 0, 50);
    cr_assert_eq(troupe_depth(the_system, routee(router, 1)), 50);
    cr_assert_eq(
        troupe_post_stop_now(the_system, routee(router, 1)), TROUPE_OK);
    cr_assert_eq(post(router, 9), TROUPE_OK);
    cr_assert_eq(troupe_depth(the_system, routee(router, 0)), 51);
}

static troupe_ref the_router;
static uint32_t depths_inside[2];

/* Busy with its one message it sends another one. */
static troupe_verdict
receive_and_send(troupe_self *self, void *state, const troupe_msg *msg)
{
    uint64_t number = *troupe_payload(msg, uint64_t);

    (void)state;
    note("%u:%u ", number_of(self), (unsigned)number);
    if (number == 0) {
        cr_assert_eq(
            troupe_send(self, the_router, &test_number, &(uint64_t){1}),
            TROUPE_OK);
        for (uint32_t i = 0; i < 2; i++) {
            depths_inside[i] = troupe_depth(the_system, routee(the_router, i));
        }
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type busy_type = {
    .size = sizeof(troupe_actor_type),
    .name = "busy",
    .receive = receive_and_send,
};

Test(router, least_in_flight_counts_what_is_being_handled)
{
    troupe_router_options options = pool(TROUPE_ROUTE_LEAST_IN_FLIGHT, 2);

    options.type = &busy_type;
    the_router = begin(&options);
    cr_assert_eq(post(the_router, 7), TROUPE_OK);
    cr_assert_eq(post(the_router, 7), TROUPE_OK);
    test_run(the_system);
    (void)written();
    /* Index 3: the rotation begins at routee-2, which is at it. */
    cr_assert_eq(post(routee(the_router, 1), 6), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(post(the_router, 6), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(post(routee(the_router, 1), 0), TROUPE_OK);
    test_run(the_system);
    cr_assert_str_eq(written(), "2:6 1:6 2:0 1:1 ");
    cr_assert_eq(depths_inside[0], 1);
    cr_assert_eq(depths_inside[1], 0);
}

/* --- strategies of one's own ---------------------------------------------- */

struct wanted {
    size_t count;
    uint32_t at[64];
    uint64_t index[16];
    uint32_t calls;
    size_t capacity, routees;
    uint64_t number;
    troupe_ref extra; /* instead of routee 99 */
    troupe_ref sender;
};

static size_t
pick_wanted(
    const troupe_route *route, troupe_ref *targets, size_t capacity, void *user)
{
    struct wanted *wanted = user;

    wanted->index[wanted->calls++ % 16] = route->index;
    wanted->capacity = capacity;
    wanted->routees = route->count;
    wanted->number = troupe_msg_tag(route->msg) == TEST_TAG_NUMBER
                         ? *troupe_payload(route->msg, uint64_t)
                         : 0;
    wanted->sender = route->msg->sender;
    for (size_t i = 0; i < wanted->count && i < capacity; i++) {
        targets[i] =
            wanted->at[i] == 99 ? wanted->extra : route->routees[wanted->at[i]];
    }
    return wanted->count;
}

static troupe_ref
begin_custom(struct wanted *wanted, uint32_t routees, uint32_t flags)
{
    troupe_router_options options = pool(TROUPE_ROUTE_CUSTOM, routees);

    options.pick = pick_wanted;
    options.user = wanted;
    options.flags = flags;
    return begin(&options);
}

Test(router, a_strategy_of_ones_own_names_none_one_several_or_the_same_twice)
{
    static const uint32_t flags[2] = {0, TROUPE_ROUTER_SERIAL};

    for (int k = 0; k < 2; k++) {
        struct wanted wanted = {.count = 1, .at = {2}};
        troupe_ref router = begin_custom(&wanted, 3, flags[k]);
        uint64_t dead = dead_for(TROUPE_DEAD_NO_ROUTE);
        uint64_t number = 8;

        cr_assert_eq(post(router, 1), TROUPE_OK);
        test_run(the_system);
        cr_assert_eq(wanted.number, 1);
        cr_assert_eq(wanted.capacity, 16);
        cr_assert_eq(wanted.routees, 3);
        wanted.count = 2;
        wanted.at[0] = 1;
        wanted.at[1] = 0;
        cr_assert_eq(post(router, 2), TROUPE_OK);
        test_run(the_system);
        wanted.at[1] = 1;
        cr_assert_eq(post(router, 3), TROUPE_OK);
        test_run(the_system);
        cr_assert_eq(handled[3], 1);
        cr_assert_eq(handled[1], 1);
        cr_assert_eq(handled[2], 3);
        wanted.count = 0;
        cr_assert_eq(post(router, 4), k == 0 ? TROUPE_E_NO_ROUTE : TROUPE_OK);
        test_run(the_system);
        cr_assert_eq(dead_for(TROUPE_DEAD_NO_ROUTE), dead + (k == 0 ? 0 : 1));
        troupe_post_tell(the_system, router, &test_number, &number);
        test_run(the_system);
        cr_assert_eq(dead_for(TROUPE_DEAD_NO_ROUTE), dead + (k == 0 ? 1 : 2));
        cr_assert_eq(wanted.calls, 5);
        for (uint32_t i = 0; i < 5; i++) {
            cr_assert_eq(wanted.index[i], i);
        }
        forget();
    }
}

Test(router, a_strategy_may_name_strangers_the_dead_and_nobody)
{
    struct wanted wanted = {.count = 3, .at = {0, 99, 1}};
    static struct test_record record;
    troupe_ref router = begin_custom(&wanted, 2, 0);
    uint64_t dead = test_letters.total;

    memset(&record, 0, sizeof record);
    wanted.extra = test_spawn_recorder(the_system, NULL, &record);
    cr_assert_eq(post(router, 1), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(record.count, 1);
    wanted.extra = TROUPE_NONE;
    cr_assert_eq(post(router, 2), TROUPE_OK);
    wanted.extra = test_dead_actor(the_system);
    cr_assert_eq(post(router, 3), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(handled[1], 3);
    cr_assert_eq(handled[2], 3);
    cr_assert_eq(test_letters.total, dead + 2);
    wanted.count = 1;
    wanted.at[0] = 99;
    cr_assert_eq(post(router, 4), TROUPE_E_DEAD);
    cr_assert_eq(test_letters.total, dead + 2);
}

Test(router, what_a_strategy_names_beyond_the_capacity_is_cut)
{
    struct wanted wanted = {.count = 64};
    troupe_ref router = begin_custom(&wanted, 2, 0);

    cr_assert_eq(post(router, 1), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(handled[1], 16);
}

Test(router, a_strategy_sees_more_routees_than_fit_on_a_stack)
{
    struct wanted wanted = {.count = 1, .at = {99}};
    troupe_ref router = begin_custom(&wanted, 100, 0);

    wanted.extra = routee(router, 77);
    cr_assert_eq(post(router, 1), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(wanted.routees, 100);
    cr_assert_eq(wanted.capacity, 100);
    cr_assert_str_eq(written(), "78:1 ");
}

/* --- what several get ----------------------------------------------------- */

static _Atomic uint64_t drops;

static struct test_large
large(uint64_t number)
{
    return (struct test_large){.owned = {.drops = &drops, .number = number}};
}

Test(router, a_shared_payload_is_stored_once_and_dropped_once)
{
    static const uint32_t flags[2] = {0, TROUPE_ROUTER_SERIAL};

    for (int k = 0; k < 2; k++) {
        troupe_router_options options = pool(TROUPE_ROUTE_BROADCAST, 5);
        struct test_large payload = large(3);
        troupe_ref router;

        options.flags = flags[k];
        router = begin(&options);
        drops = 0;
        cr_assert_eq(
            troupe_post(the_system, router, &test_shared, &payload), TROUPE_OK);
        cr_assert_eq(drops, 0);
        test_run(the_system);
        cr_assert_eq(drops, 1);
        for (uint32_t i = 1; i <= 5; i++) {
            cr_assert_eq(handled[i], (uint32_t)k + 1);
        }
    }
}

Test(router, what_owns_something_cannot_go_to_several)
{
    troupe_ref router = begin_pool(TROUPE_ROUTE_BROADCAST, 2);
    struct test_large payload = large(3);
    struct test_owned owned = {.drops = &drops, .number = 4};
    uint64_t dead = test_letters.total;

    drops = 0;
    cr_assert_eq(troupe_post(the_system, router, &test_large, &payload),
        TROUPE_E_INVALID);
    cr_assert_str_eq(troupe_last_error().option, "type");
    cr_assert_eq(
        troupe_post(the_system, router, &test_owned, &owned), TROUPE_E_INVALID);
    cr_assert_eq(drops, 0);
    cr_assert_eq(test_letters.total, dead);
    troupe_post_tell(the_system, router, &test_owned, &owned);
    cr_assert_eq(drops, 1);
    cr_assert_eq(test_letters.total, dead + 1);
    /* To one it can. */
    cr_assert_eq(
        troupe_post_stop_now(the_system, routee(router, 0)), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(
        troupe_post(the_system, router, &test_large, &payload), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(drops, 2);
}

Test(router, a_large_message_is_copied_for_each)
{
    troupe_ref router = begin_pool(TROUPE_ROUTE_BROADCAST, 3);
    static const char text[100] = "a text that does not fit into a slot";
    troupe_msg *msg = troupe_msg_new(the_system, &test_bytes, sizeof text);

    memcpy(msg->payload, text, sizeof text);
    cr_assert_eq(
        troupe_post_bytes(the_system, router, &test_bytes, text, sizeof text),
        TROUPE_OK);
    cr_assert_eq(troupe_post_msg(the_system, router, msg), TROUPE_OK);
    test_run(the_system);
    for (uint32_t i = 1; i <= 3; i++) {
        cr_assert_eq(handled[i], 2);
    }
}

Test(router, a_target_that_refuses_is_its_own_loss_the_others_go_on)
{
    troupe_mailbox_options mailbox = TROUPE_INIT(troupe_mailbox_options);
    troupe_spawn_options child = TROUPE_INIT(troupe_spawn_options);
    troupe_router_options options = pool(TROUPE_ROUTE_BROADCAST, 3);
    troupe_counters before, after;
    troupe_ref router;
    uint64_t dead;

    mailbox.capacity = 1;
    child.mailbox = &mailbox;
    options.routee_options = &child;
    router = begin(&options);
    cr_assert_eq(post(routee(router, 1), 5), TROUPE_OK); /* full */
    dead = dead_for(TROUPE_DEAD_REFUSED);
    before = test_counters(the_system);
    cr_assert_eq(post(router, 6), TROUPE_OK);
    after = test_counters(the_system);
    cr_assert_eq(dead_for(TROUPE_DEAD_REFUSED), dead + 1);
    cr_assert(troupe_ref_equal(test_letters.last.recipient, routee(router, 1)));
    cr_assert_eq(after.sent, before.sent + 3);
    cr_assert_eq(after.dead, before.dead + 1);
    cr_assert_eq(after.refused, before.refused);
    test_run(the_system);
    cr_assert_eq(handled[1], 1);
    cr_assert_eq(handled[2], 1);
    cr_assert_eq(handled[3], 1);
    cr_assert_eq(starts, 3); /* nobody was restarted for it */
}

Test(router, the_sender_sees_the_refusal_of_the_only_target)
{
    troupe_mailbox_options mailbox = TROUPE_INIT(troupe_mailbox_options);
    troupe_spawn_options child = TROUPE_INIT(troupe_spawn_options);
    troupe_router_options options = pool(TROUPE_ROUTE_ROUND_ROBIN, 2);
    troupe_ref router;

    mailbox.capacity = 1;
    child.mailbox = &mailbox;
    options.routee_options = &child;
    router = begin(&options);
    cr_assert_eq(post(router, 1), TROUPE_OK);
    cr_assert_eq(post(router, 2), TROUPE_OK);
    cr_assert_eq(post(router, 3), TROUPE_E_FULL);
    cr_assert_eq(post_broadcast(router, 4), TROUPE_OK); /* two dead letters */
}

/* --- groups --------------------------------------------------------------- */

static struct test_record member_record[4];

static troupe_ref
begin_group(troupe_routing routing, troupe_ref members[3])
{
    troupe_router_options options = TROUPE_INIT(troupe_router_options);

    for (int i = 0; i < 3; i++) {
        memset(&member_record[i], 0, sizeof member_record[i]);
        members[i] = test_spawn_recorder(the_system, NULL, &member_record[i]);
    }
    options.routing = routing;
    options.members = members;
    options.routees = 3;
    return begin(&options);
}

Test(router, a_group_routes_to_its_members_and_leaves_them_alive)
{
    troupe_ref members[3];
    troupe_ref router = begin_group(TROUPE_ROUTE_ROUND_ROBIN, members);

    post_all(router, 0, 6);
    test_run(the_system);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(member_record[i].count, 2);
    }
    cr_assert_eq(troupe_post_stop(the_system, router), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(post(router, 1), TROUPE_E_DEAD);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(member_record[i].stopped, 0);
    }
}

Test(router, a_member_that_has_stopped_is_pruned_and_one_that_was_dead_before)
{
    troupe_router_options options = TROUPE_INIT(troupe_router_options);
    troupe_ref members[3];
    troupe_ref router = begin_group(TROUPE_ROUTE_ROUND_ROBIN, members);

    cr_assert_eq(troupe_post_stop(the_system, members[1]), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(count_of(router), 2);
    cr_assert(troupe_ref_equal(routee(router, 1), members[2]));
    options.members = members;
    options.routees = 3;
    cr_assert_eq(count_of(begin(&options)), 2);
}

Test(router, members_are_added_and_removed)
{
    troupe_ref members[3], fourth;
    uint64_t handled_before;
    troupe_ref router = begin_group(TROUPE_ROUTE_ROUND_ROBIN, members);

    memset(&member_record[3], 0, sizeof member_record[3]);
    fourth = test_spawn_recorder(the_system, NULL, &member_record[3]);
    cr_assert_eq(troupe_router_add(the_system, router, fourth), TROUPE_OK);
    cr_assert_eq(troupe_router_add(the_system, router, fourth), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(count_of(router), 4);
    cr_assert(troupe_ref_equal(routee(router, 3), fourth));
    cr_assert_eq(
        troupe_router_remove(the_system, router, members[0]), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(count_of(router), 3);
    post_all(router, 0, 3);
    test_run(the_system);
    cr_assert_eq(member_record[0].count, 0);
    cr_assert_eq(member_record[3].count, 1);
    cr_assert_eq(member_record[0].stopped, 0);
    /* Its death is nobody's concern any more. */
    handled_before = test_counters(the_system).handled;
    cr_assert_eq(troupe_post_stop(the_system, members[0]), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(test_counters(the_system).handled, handled_before);
    cr_assert_eq(count_of(router), 3);
}

Test(router, a_group_is_not_resized_and_a_pool_gets_no_members)
{
    troupe_ref members[3];
    troupe_ref group = begin_group(TROUPE_ROUTE_ROUND_ROBIN, members);
    troupe_ref of_pool = begin_pool(TROUPE_ROUTE_ROUND_ROBIN, 1);

    cr_assert_eq(troupe_router_resize(the_system, group, 4), TROUPE_E_STATE);
    cr_assert_str_eq(troupe_last_error().call, "troupe_router_resize");
    cr_assert_eq(
        troupe_router_add(the_system, of_pool, members[0]), TROUPE_E_STATE);
    cr_assert_str_eq(troupe_last_error().call, "troupe_router_add");
}

Test(router, stop_routees_stops_members_after_what_they_have)
{
    troupe_ref members[3];
    troupe_ref router = begin_group(TROUPE_ROUTE_ROUND_ROBIN, members);

    post_all(router, 0, 6);
    cr_assert_eq(troupe_router_stop_routees(the_system, router), TROUPE_OK);
    test_run(the_system);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(member_record[i].count, 2);
        cr_assert_eq(member_record[i].stopped, 1);
    }
    cr_assert_eq(count_of(router), 0);
}

/* --- control -------------------------------------------------------------- */

static void
check_no_router(troupe_ref ref, troupe_status expected)
{
    troupe_router_counters counters = TROUPE_INIT(troupe_router_counters);
    troupe_ref other = {1234567, 1};

    cr_expect_eq(troupe_router_resize(the_system, ref, 2), expected);
    cr_expect_eq(troupe_router_add(the_system, ref, other), expected);
    cr_expect_eq(troupe_router_remove(the_system, ref, other), expected);
    cr_expect_eq(troupe_router_stop_routees(the_system, ref), expected);
    cr_expect_eq(
        troupe_router_counters_read(the_system, ref, &counters), expected);
    cr_expect_eq(post_broadcast(ref, 1), expected);
    cr_expect_eq(troupe_router_routees(the_system, ref, NULL, 0), 0);
}

Test(router, control_of_what_is_no_router_is_refused)
{
    static const troupe_mailbox_options bounded = {
        .size = sizeof bounded, .capacity = 1};
    troupe_ref plain = test_spawn_doer(the_system, NULL);
    troupe_ref ruled = test_spawn_doer_with(the_system, &bounded);
    troupe_ref router = begin_pool(TROUPE_ROUTE_ROUND_ROBIN, 1);

    check_no_router(TROUPE_NONE, TROUPE_E_INVALID);
    check_no_router(plain, TROUPE_E_INVALID);
    check_no_router(ruled, TROUPE_E_INVALID);
    cr_assert_str_eq(troupe_last_error().option, "router");
    cr_assert_eq(troupe_post_stop_now(the_system, router), TROUPE_OK);
    test_run(the_system);
    check_no_router(router, TROUPE_E_DEAD);
    cr_assert_eq(troupe_router_resize(NULL, router, 2), TROUPE_E_INVALID);
    cr_assert_eq(troupe_router_resize(the_system, router, 0), TROUPE_E_INVALID);
    cr_assert_eq(
        troupe_router_add(the_system, router, TROUPE_NONE), TROUPE_E_INVALID);
    cr_assert_eq(
        troupe_router_add(the_system, router, router), TROUPE_E_INVALID);
}

Test(router, a_pool_grows_and_shrinks)
{
    troupe_ref router = begin_pool(TROUPE_ROUTE_ROUND_ROBIN, 2);

    cr_assert_eq(troupe_router_resize(the_system, router, 20), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(count_of(router), 20);
    post_all(router, 0, 20);
    test_run(the_system);
    for (uint32_t i = 1; i <= 20; i++) {
        cr_assert_eq(handled[i], 1);
    }
    cr_assert_eq(troupe_router_resize(the_system, router, 3), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(count_of(router), 3);
    cr_assert_eq(test_counters(the_system).actors, 4);
    post_all(router, 0, 3);
    test_run(the_system);
    cr_assert_eq(handled[3], 2);
    cr_assert_eq(handled[4], 1);
}

Test(router, who_is_resized_away_handles_what_it_has)
{
    troupe_ref router = begin_pool(TROUPE_ROUTE_ROUND_ROBIN, 4);
    uint64_t dead = test_letters.total;

    post_all(router, 0, 40);
    cr_assert_eq(troupe_router_resize(the_system, router, 1), TROUPE_OK);
    test_run(the_system);
    for (uint32_t i = 1; i <= 4; i++) {
        cr_assert_eq(handled[i], 10);
    }
    cr_assert_eq(count_of(router), 1);
    cr_assert_eq(test_letters.total, dead);
}

Test(router, names_are_used_again_when_they_are_free)
{
    troupe_ref router = begin_pool(TROUPE_ROUTE_ROUND_ROBIN, 3);

    cr_assert_eq(
        troupe_router_remove(the_system, router, routee(router, 1)), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(count_of(router), 2);
    cr_assert_eq(troupe_router_resize(the_system, router, 3), TROUPE_OK);
    test_run(the_system);
    (void)written();
    for (uint64_t i = 0; i < 3; i++) {
        cr_assert_eq(post(router, i), TROUPE_OK);
        test_run(the_system);
    }
    cr_assert_str_eq(written(), "1:0 2:1 3:2 ");
}

Test(router, growing_while_others_drain_does_not_wait_for_them)
{
    troupe_ref router = begin_pool(TROUPE_ROUTE_ROUND_ROBIN, 3);

    cr_assert_eq(troupe_router_resize(the_system, router, 1), TROUPE_OK);
    cr_assert_eq(troupe_router_resize(the_system, router, 2), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(count_of(router), 2);
    cr_assert_eq(test_counters(the_system).actors, 3);
}

Test(router, a_routee_that_is_removed_drains)
{
    troupe_ref router = begin_pool(TROUPE_ROUTE_ROUND_ROBIN, 2);
    troupe_ref second = routee(router, 1);
    uint64_t dead = test_letters.total;

    post_all(router, 0, 10);
    cr_assert_eq(troupe_router_remove(the_system, router, second), TROUPE_OK);
    cr_assert_eq(troupe_router_remove(the_system, router, second), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(handled[2], 5);
    cr_assert_eq(count_of(router), 1);
    cr_assert_eq(test_letters.total, dead);
    cr_assert_eq(post(second, 1), TROUPE_E_DEAD);
}

Test(router, stopping_the_router_stops_its_pool)
{
    troupe_ref router = begin_pool(TROUPE_ROUTE_ROUND_ROBIN, 3);

    cr_assert_eq(troupe_post_stop(the_system, router), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(test_counters(the_system).actors, 0);
    cr_assert_eq(post(router, 1), TROUPE_E_DEAD);
    cr_assert_eq(post_broadcast(router, 1), TROUPE_E_DEAD);
    cr_assert_eq(count_of(router), 0);
}

Test(router, one_that_is_about_to_stop_takes_nothing_more)
{
    troupe_ref router = begin_pool(TROUPE_ROUTE_ROUND_ROBIN, 1);
    troupe_status status = TROUPE_OK;
    troupe_run run = {.runnable = 1};

    cr_assert_eq(troupe_post_stop_now(the_system, router), TROUPE_OK);
    while (run.runnable != 0) {
        cr_assert_eq(troupe_system_run(the_system, 1, &run), TROUPE_OK);
        status = post(router, 1);
        cr_assert_eq(status, TROUPE_E_DEAD);
    }
    cr_assert_str_eq(written(), "");
}

/* --- replaced ------------------------------------------------------------- */

TestSuite(router_time, .fini = teardown);

static void
begin_simulation(void)
{
    forget();
    the_system = test_open_driven(5);
}

static void
advance(uint64_t ms)
{
    cr_assert_eq(troupe_system_advance(the_system, TROUPE_MS(ms)), TROUPE_OK);
}

static troupe_verdict
slept(troupe_self *self, void *state, const troupe_result *result, void *user)
{
    (void)self;
    (void)state;
    (void)result;
    (void)user;
    return TROUPE_CONTINUE;
}

/* 1 takes 10 ms, in which it waits. */
static troupe_verdict
receive_and_sleep(troupe_self *self, void *state, const troupe_msg *msg)
{
    uint64_t number = *troupe_payload(msg, uint64_t);
    troupe_ticket ticket;

    (void)state;
    note("%u:%u ", number_of(self), (unsigned)number);
    return number != 1 ? TROUPE_CONTINUE
                       : troupe_await(self,
                             troupe_sleep(self, TROUPE_MS(10),
                                 troupe_then(slept, NULL), &ticket),
                             &ticket);
}

static const troupe_actor_type sleeper_type = {
    .size = sizeof(troupe_actor_type),
    .name = "sleeper",
    .receive = receive_and_sleep,
};

static void
check_that_who_awaits_is_passed_over(troupe_ref router)
{
    (void)written();
    for (uint64_t i = 1; i < 4; i++) {
        cr_assert_eq(post(router, i), TROUPE_OK);
        test_run(the_system);
    }
    cr_assert_str_eq(written(), "1:1 2:2 2:3 ");
    advance(10);
    for (uint64_t i = 4; i < 6; i++) { /* 2 is next, and idle */
        cr_assert_eq(post(router, i), TROUPE_OK);
        test_run(the_system);
    }
    cr_assert_str_eq(written(), "2:4 1:5 ");
}

Test(router_time, least_in_flight_counts_who_waits_for_an_answer,
    .init = begin_simulation)
{
    troupe_router_options options = pool(TROUPE_ROUTE_LEAST_IN_FLIGHT, 2);
    troupe_router_options group = TROUPE_INIT(troupe_router_options);
    troupe_ref router, members[2];

    options.type = &sleeper_type;
    router = begin(&options);
    check_that_who_awaits_is_passed_over(router);
    members[0] = routee(router, 0);
    members[1] = routee(router, 1);
    group.routing = TROUPE_ROUTE_LEAST_IN_FLIGHT;
    group.members = members;
    group.routees = 2;
    check_that_who_awaits_is_passed_over(begin(&group));
}

Test(router_time, a_routee_that_has_stopped_is_replaced,
    .init = begin_simulation)
{
    troupe_router_options options = pool(TROUPE_ROUTE_ROUND_ROBIN, 2);
    troupe_ref router, first;

    options.flags = TROUPE_ROUTER_RESPAWN;
    router = begin(&options);
    first = routee(router, 0);
    advance(2000);
    cr_assert_eq(post(first, END), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(count_of(router), 2);
    cr_assert_not(troupe_ref_equal(routee(router, 0), first));
    (void)written();
    cr_assert_eq(post_broadcast(router, 1), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(handled[1], 1);
    cr_assert_eq(handled[2], 1);
}

Test(router_time, one_that_ends_at_once_is_replaced_more_and_more_slowly,
    .init = begin_simulation)
{
    troupe_router_options options = pool(TROUPE_ROUTE_ROUND_ROBIN, 1);
    uint64_t delay_ms = 100;
    troupe_ref router;

    options.flags = TROUPE_ROUTER_RESPAWN;
    router = begin(&options);
    for (int i = 0; i < 5; i++, delay_ms *= 2) {
        cr_assert_eq(post(routee(router, 0), END), TROUPE_OK);
        test_run(the_system);
        cr_assert_eq(post(router, 1), TROUPE_E_NO_ROUTE);
        advance(delay_ms - 1);
        cr_assert_eq(count_of(router), 0);
        advance(1);
        cr_assert_eq(count_of(router), 1);
    }
    advance(1000);
    cr_assert_eq(post(routee(router, 0), END), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(count_of(router), 1); /* it had lived */
}

Test(router_time, several_that_end_at_once_wait_no_longer_than_one,
    .init = begin_simulation)
{
    troupe_router_options options = pool(TROUPE_ROUTE_ROUND_ROBIN, 3);
    troupe_ref router;

    options.flags = TROUPE_ROUTER_RESPAWN;
    router = begin(&options);
    for (size_t left = 3; left > 0; left--) {
        cr_assert_eq(post(routee(router, 0), END), TROUPE_OK);
        test_run(the_system);
        cr_assert_eq(count_of(router), left - 1);
    }
    advance(100);
    cr_assert_eq(count_of(router), 3);
}

Test(router_time, stop_routees_replaces_all_of_a_pool_that_respawns,
    .init = begin_simulation)
{
    troupe_router_options options = pool(TROUPE_ROUTE_ROUND_ROBIN, 3);
    troupe_ref router, before, after;

    options.flags = TROUPE_ROUTER_RESPAWN;
    router = begin(&options);
    before = routee(router, 2);
    cr_assert_eq(troupe_router_stop_routees(the_system, router), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(count_of(router), 3);
    after = routee(router, 2);
    cr_assert_not(troupe_ref_equal(before, after));
}

/* --- in the company of others --------------------------------------------- */

Test(router, routers_are_routees_of_routers)
{
    troupe_ref inner[2] = {begin_pool(TROUPE_ROUTE_ROUND_ROBIN, 2),
        begin_pool(TROUPE_ROUTE_ROUND_ROBIN, 2)};
    troupe_router_options options = TROUPE_INIT(troupe_router_options);
    troupe_ref outer;

    options.members = inner;
    options.routees = 2;
    outer = begin(&options);
    post_all(outer, 0, 8);
    test_run(the_system);
    cr_assert_eq(handled[1], 4);
    cr_assert_eq(handled[2], 4);
    /* A broadcast is one for the outer one only. */
    forget();
    cr_assert_eq(post_broadcast(outer, 1), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(handled[1] + handled[2], 2);
    /* An inner one that has nobody is passed over. */
    cr_assert_eq(troupe_router_stop_routees(the_system, inner[0]), TROUPE_OK);
    test_run(the_system);
    forget();
    post_all(outer, 0, 4);
    test_run(the_system);
    cr_assert_eq(handled[1] + handled[2], 4);
}

Test(router, a_broadcast_is_unwrapped_once_also_where_there_is_one_routee)
{
    troupe_ref inner = begin_pool(TROUPE_ROUTE_ROUND_ROBIN, 2);
    troupe_router_options options = TROUPE_INIT(troupe_router_options);
    troupe_ref outer;

    options.members = &inner;
    options.routees = 1;
    outer = begin(&options);
    cr_assert_eq(post_broadcast(outer, 1), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(handled[1] + handled[2], 1);
}

/* Stopped, and the router has not heard of it. */
static void
stop_unheard(troupe_ref router, uint32_t at)
{
    troupe_run run = {.turns = 1};
    troupe_ref gone = routee(router, at);
    size_t count = count_of(router);

    cr_assert_eq(troupe_post_stop_now(the_system, gone), TROUPE_OK);
    cr_assert_eq(troupe_system_run(the_system, 1, &run), TROUPE_OK);
    cr_assert_eq(troupe_depth(the_system, gone), TROUPE_DEPTH_DEAD);
    cr_assert_eq(count_of(router), count);
}

Test(router, the_next_one_stands_in_for_who_has_just_gone)
{
    static const uint32_t weights[3] = {1, 0, 1};
    troupe_router_options options = pool(TROUPE_ROUTE_WEIGHTED, 3);
    troupe_ref router = begin_pool(TROUPE_ROUTE_ROUND_ROBIN, 3);

    stop_unheard(router, 0);
    cr_assert_eq(post(router, 1), TROUPE_OK);
    test_run(the_system);
    cr_assert_str_eq(written(), "2:1 ");
    /* But not who has no weight. */
    options.weights = weights;
    router = begin(&options);
    stop_unheard(router, 0);
    post_all(router, 0, 2);
    test_run(the_system);
    cr_assert_str_eq(written(), "3:0 3:1 ");
}

Test(router, routers_in_a_circle_refuse_and_do_not_go_on_for_ever)
{
    troupe_ref plain = test_spawn_doer(the_system, NULL);
    troupe_router_options options = TROUPE_INIT(troupe_router_options);
    troupe_ref first, second;
    uint64_t dead, sent;

    options.members = &plain;
    options.routees = 1;
    options.routing = TROUPE_ROUTE_BROADCAST;
    first = begin(&options);
    options.members = &first;
    second = begin(&options);
    cr_assert_eq(troupe_router_remove(the_system, first, plain), TROUPE_OK);
    cr_assert_eq(troupe_router_add(the_system, first, second), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(post(first, 1), TROUPE_E_LIMIT);
    cr_assert_eq(troupe_router_add(the_system, first, plain), TROUPE_OK);
    test_run(the_system);
    dead = test_letters.total;
    sent = test_counters(the_system).sent;
    cr_assert_eq(post(first, 1), TROUPE_OK);
    cr_assert_eq(test_letters.total, dead + 1);
    cr_assert_eq(test_counters(the_system).sent, sent + 2);
    test_run(the_system);
}

Test(router, sixteen_routers_may_be_inside_each_other)
{
    troupe_router_options options = TROUPE_INIT(troupe_router_options);
    troupe_ref router = begin_pool(TROUPE_ROUTE_ROUND_ROBIN, 1);

    options.members = &router;
    options.routees = 1;
    for (int i = 1; i < 16; i++) {
        router = begin(&options);
    }
    cr_assert_eq(post(router, 1), TROUPE_OK);
    router = begin(&options);
    cr_assert_eq(post(router, 2), TROUPE_E_LIMIT);
    test_run(the_system);
    cr_assert_str_eq(written(), "1:1 ");
}

/* Two groups with nobody but each other. */
static troupe_ref
begin_circle(troupe_router_options *options)
{
    troupe_ref plain = test_spawn_doer(the_system, NULL);
    troupe_ref first, second;

    options->members = &plain;
    options->routees = 1;
    first = begin(options);
    options->members = &first;
    second = begin(options);
    cr_assert_eq(troupe_router_add(the_system, first, second), TROUPE_OK);
    cr_assert_eq(troupe_router_remove(the_system, first, plain), TROUPE_OK);
    test_run(the_system);
    return first;
}

/* Where a circle would go round, so many turns are more than enough. */
static void
check_that_it_ends(void)
{
    troupe_run run;

    cr_assert_eq(troupe_system_run(the_system, 1000, &run), TROUPE_OK);
    cr_assert_eq(run.runnable, 0);
}

Test(router, a_circle_that_routes_in_turns_ends_with_a_dead_letter)
{
    static const troupe_routing kinds[] = {TROUPE_ROUTE_ROUND_ROBIN,
        TROUPE_ROUTE_BROADCAST, TROUPE_ROUTE_SMALLEST_MAILBOX};

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        troupe_router_options options = TROUPE_INIT(troupe_router_options);
        uint64_t refused = dead_for(TROUPE_DEAD_REFUSED);
        troupe_ref router;

        options.routing = kinds[i];
        options.flags = TROUPE_ROUTER_SERIAL;
        router = begin_circle(&options);
        cr_assert_eq(post(router, 1), TROUPE_OK);
        check_that_it_ends();
        cr_assert_eq(dead_for(TROUPE_DEAD_REFUSED), refused + 1);
        cr_assert_eq(post_broadcast(router, 1), TROUPE_OK);
        check_that_it_ends();
        cr_assert_eq(dead_for(TROUPE_DEAD_REFUSED), refused + 2);
    }
}

/* Serial ones, each the only member of the next, around `inner`. */
static troupe_ref
begin_serial(troupe_ref inner, int count)
{
    troupe_router_options options = TROUPE_INIT(troupe_router_options);

    options.members = &inner;
    options.routees = 1;
    options.flags = TROUPE_ROUTER_SERIAL;
    for (int i = 0; i < count; i++) {
        inner = begin(&options);
    }
    return inner;
}

static troupe_ref forward_to;

static troupe_verdict
receive_and_forward(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    (void)msg;
    troupe_forward(self, forward_to);
    return TROUPE_CONTINUE;
}

Test(router, seven_that_route_in_turns_may_be_inside_each_other)
{
    static const troupe_actor_type type = {
        .size = sizeof(troupe_actor_type),
        .name = "forwarder",
        .receive = receive_and_forward,
    };
    troupe_ref inner = begin_serial(begin_pool(TROUPE_ROUTE_RANDOM, 1), 7);
    troupe_ref forwarder;

    cr_assert_eq(post(inner, 1), TROUPE_OK);
    test_run(the_system);
    cr_assert_str_eq(written(), "1:1 ");
    cr_assert_eq(post(begin_serial(inner, 1), 2), TROUPE_OK);
    test_run(the_system);
    cr_assert_str_eq(written(), "");
    cr_assert_eq(dead_for(TROUPE_DEAD_REFUSED), 1);
    /* Whoever handles it and forwards it begins anew. */
    forward_to = inner;
    cr_assert_eq(
        troupe_system_spawn(the_system, &type, NULL, &forwarder), TROUPE_OK);
    cr_assert_eq(post(begin_serial(forwarder, 7), 3), TROUPE_OK);
    test_run(the_system);
    cr_assert_str_eq(written(), "1:3 ");
}

static troupe_status asked;
static uint64_t answer;

static troupe_verdict
on_answer(
    troupe_self *self, void *state, const troupe_result *result, void *user)
{
    (void)self;
    (void)state;
    (void)user;
    asked = result->status;
    answer =
        result->msg != NULL && troupe_msg_tag(result->msg) == TEST_TAG_NUMBER
            ? *troupe_payload(result->msg, uint64_t)
            : 0;
    return TROUPE_CONTINUE;
}

static troupe_verdict
ask_router(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    asked = TROUPE_E_INVALID;
    answer = 0;
    return troupe_check(self,
        troupe_ask(self, *(troupe_ref *)user, &test_number, &(uint64_t){ECHO},
            0, (troupe_continuation){on_answer, NULL}, NULL));
}

Test(router, an_ask_is_answered_by_a_routee)
{
    static const uint32_t flags[2] = {0, TROUPE_ROUTER_SERIAL};

    for (int k = 0; k < 2; k++) {
        troupe_router_options options = pool(TROUPE_ROUTE_ROUND_ROBIN, 2);
        troupe_ref client = test_spawn_doer(the_system, NULL);
        troupe_ref router;

        options.flags = flags[k];
        router = begin(&options);
        test_do(the_system, client, ask_router, &router);
        cr_assert_eq(asked, TROUPE_OK);
        cr_assert_eq(answer, 1);
        test_do(the_system, client, ask_router, &router);
        cr_assert_eq(answer, 2);
    }
}

Test(router, the_first_answer_of_many_counts)
{
    troupe_ref client = test_spawn_doer(the_system, NULL);
    troupe_ref router = begin_pool(TROUPE_ROUTE_BROADCAST, 3);
    uint64_t late = dead_for(TROUPE_DEAD_LATE);

    test_do(the_system, client, ask_router, &router);
    cr_assert_eq(asked, TROUPE_OK);
    cr_assert_neq(answer, 0);
    cr_assert_eq(dead_for(TROUPE_DEAD_LATE), late + 2);
}

static troupe_verdict
forward_it(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    (void)msg;
    troupe_forward(self, the_router);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type forwarder = {
    .size = sizeof(troupe_actor_type),
    .name = "forwarder",
    .receive = forward_it,
};

Test(router, every_way_of_sending_is_routed)
{
    troupe_router_options options = pool(TROUPE_ROUTE_BROADCAST, 2);
    struct test_large payload = large(3);
    troupe_msg *msg = troupe_msg_new(the_system, &test_number, 0);
    troupe_ref by;

    drops = 0;
    the_router = begin(&options);
    *(uint64_t *)msg->payload = 4;
    cr_assert_eq(
        troupe_system_spawn(the_system, &forwarder, NULL, &by), TROUPE_OK);
    cr_assert_eq(post(by, 1), TROUPE_OK);
    cr_assert_eq(
        troupe_post(the_system, by, &test_shared, &payload), TROUPE_OK);
    cr_assert_eq(troupe_post_msg(the_system, by, msg), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(handled[1], 3);
    cr_assert_eq(handled[2], 3);
    cr_assert_eq(drops, 1);
}

Test(router, an_ask_that_finds_nobody_says_so)
{
    troupe_ref client = test_spawn_doer(the_system, NULL);
    troupe_ref by;

    the_router = begin_pool(TROUPE_ROUTE_ROUND_ROBIN, 1);
    cr_assert_eq(troupe_router_stop_routees(the_system, the_router), TROUPE_OK);
    cr_assert_eq(
        troupe_system_spawn(the_system, &forwarder, NULL, &by), TROUPE_OK);
    test_run(the_system);
    test_do(the_system, client, ask_router, &by);
    cr_assert_eq(asked, TROUPE_E_NO_ROUTE);
}

Test(router, what_nobody_may_lose_is_routed_as_well)
{
    static const troupe_msg_type vital = {.size = sizeof vital,
        .name = "vital",
        .bytes = sizeof(uint64_t),
        .tag = TEST_TAG_NUMBER,
        .flags = TROUPE_MSG_UNDROPPABLE};
    troupe_router_options options = pool(TROUPE_ROUTE_ROUND_ROBIN, 2);
    troupe_ref router = spawn(&options);
    uint64_t number = 1;

    cr_assert_eq(post(router, 0), TROUPE_OK);
    cr_assert_eq(troupe_post(the_system, router, &vital, &number), TROUPE_OK);
    cr_assert_eq(post(router, 2), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(troupe_post(the_system, router, &vital, &number), TROUPE_OK);
    test_run(the_system);
    cr_assert_str_eq(written(), "2:1 1:0 1:2 2:1 ");
}

/* --- counted -------------------------------------------------------------- */

Test(router, what_a_router_does_is_counted)
{
    troupe_router_counters counters = TROUPE_INIT(troupe_router_counters);
    troupe_router_options options = pool(TROUPE_ROUTE_ROUND_ROBIN, 2);
    troupe_ref router = spawn(&options);

    cr_assert_eq(post(router, 1), TROUPE_OK);
    test_run(the_system);
    post_all(router, 0, 99);
    cr_assert_eq(post_broadcast(router, 1), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(
        troupe_router_counters_read(the_system, router, &counters), TROUPE_OK);
    cr_assert_eq(counters.routed, 100);
    cr_assert_eq(counters.waited, 1);
    cr_assert_eq(counters.broadcasts, 1);
    cr_assert_eq(counters.copies, 1);
    cr_assert_eq(counters.pick_samples, 2);
    cr_assert_eq(counters.routees, 2);
    cr_assert_eq(counters.empty, 0);
    cr_assert_eq(troupe_router_stop_routees(the_system, router), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(post(router, 1), TROUPE_E_NO_ROUTE);
    counters.size = sizeof counters.size + sizeof(uint64_t);
    counters.empty = 77;
    cr_assert_eq(
        troupe_router_counters_read(the_system, router, &counters), TROUPE_OK);
    cr_assert_eq(counters.empty, 77); /* not asked for */
    counters.size = sizeof counters;
    cr_assert_eq(
        troupe_router_counters_read(the_system, router, &counters), TROUPE_OK);
    cr_assert_eq(counters.empty, 1);
    counters.size = sizeof counters + 8;
    cr_assert_eq(troupe_router_counters_read(the_system, router, &counters),
        TROUPE_E_VERSION);
    counters.size = sizeof counters;
    router = begin_pool(TROUPE_ROUTE_BROADCAST, 2);
    post_all(router, 0, 5);
    cr_assert_eq(
        troupe_router_counters_read(the_system, router, &counters), TROUPE_OK);
    cr_assert_eq(counters.routed, 5);
    cr_assert_eq(counters.copies, 5);
    counters.size = 0;
    cr_assert_eq(troupe_router_counters_read(the_system, router, &counters),
        TROUPE_E_INVALID);
    cr_assert_eq(troupe_router_counters_read(the_system, router, NULL),
        TROUPE_E_INVALID);
}

/* --- keys ----------------------------------------------------------------- */

static uint64_t
key_of_number(const troupe_msg *msg, void *user)
{
    (void)user;
    return *troupe_payload(msg, uint64_t);
}

static const void *
bytes_of_text(const troupe_msg *msg, size_t *bytes, void *user)
{
    (void)user;
    *bytes = msg->bytes;
    return msg->payload;
}

static uint32_t
winner_of(troupe_ref router, uint64_t number)
{
    uint32_t winner = 0;

    cr_assert_eq(post(router, number), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(sscanf(written(), "%u:", &winner), 1);
    return winner;
}

Test(router, the_same_key_goes_to_the_same_routee_and_few_move)
{
    troupe_router_options options = pool(TROUPE_ROUTE_CONSISTENT_HASH, 5);
    uint32_t before[500], moved = 0;
    troupe_ref router;

    options.key = key_of_number;
    router = begin(&options);
    for (uint64_t i = 0; i < 500; i++) {
        before[i] = winner_of(router, i);
    }
    for (uint32_t i = 1; i <= 5; i++) {
        cr_assert_gt(handled[i], 60);
    }
    cr_assert_eq(post(routee(router, 2), END), TROUPE_OK);
    test_run(the_system);
    for (uint64_t i = 0; i < 500; i++) {
        uint32_t now = winner_of(router, i);

        cr_assert(now == before[i] || before[i] == 3);
        moved += now != before[i];
    }
    cr_assert_gt(moved, 60);
    /* Who takes the name takes the keys. */
    cr_assert_eq(troupe_router_resize(the_system, router, 5), TROUPE_OK);
    test_run(the_system);
    for (uint64_t i = 0; i < 500; i++) {
        cr_assert_eq(winner_of(router, i), before[i]);
    }
}

Test(router, by_key_each_gets_in_proportion_to_its_weight_and_keeps_it)
{
    static const uint32_t weights[3] = {3, 0, 1};
    troupe_router_options options = pool(TROUPE_ROUTE_CONSISTENT_HASH, 3);
    uint32_t before[800];
    troupe_ref router;

    options.key = key_of_number;
    options.weights = weights;
    router = begin(&options);
    for (uint64_t i = 0; i < 800; i++) {
        before[i] = winner_of(router, i);
    }
    /* 600 and 200 are expected, 12 is sigma. */
    cr_assert(handled[1] > 540 && handled[1] < 660, "%u", handled[1]);
    cr_assert_eq(handled[2], 0);
    cr_assert_eq(handled[1] + handled[3], 800);
    for (uint64_t i = 0; i < 800; i++) {
        cr_assert_eq(winner_of(router, i), before[i]);
    }
    /* Weight 0 stands in for nobody. */
    cr_assert_eq(post(routee(router, 0), END), TROUPE_OK);
    cr_assert_eq(post(routee(router, 2), END), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(post(router, 7), TROUPE_E_NO_ROUTE);
}

Test(router, a_key_whose_routee_has_gone_goes_to_the_next_at_once)
{
    troupe_router_options options = pool(TROUPE_ROUTE_CONSISTENT_HASH, 80);
    troupe_run run = {.turns = 1};
    troupe_ref router, gone;
    uint32_t before, after;

    options.key = key_of_number;
    router = begin(&options);
    before = winner_of(router, 7);
    gone = routee(router, before - 1);
    cr_assert_eq(troupe_post_stop_now(the_system, gone), TROUPE_OK);
    cr_assert_eq(troupe_system_run(the_system, 1, &run), TROUPE_OK);
    cr_assert_eq(troupe_depth(the_system, gone), TROUPE_DEPTH_DEAD);
    cr_assert_eq(count_of(router), 80); /* the notice is on its way */
    after = winner_of(router, 7);
    cr_assert_neq(after, before);
    cr_assert_eq(count_of(router), 79);
    cr_assert_eq(winner_of(router, 7), after);
}

Test(router, bounded_load_spills_over_to_the_next)
{
    troupe_router_options options = pool(TROUPE_ROUTE_CONSISTENT_HASH, 4);
    uint32_t deepest = 0;
    troupe_ref router;

    options.key = key_of_number;
    options.bounded_load_percent = 25;
    router = begin(&options);
    for (int i = 0; i < 400; i++) {
        cr_assert_eq(post(router, 7), TROUPE_OK);
    }
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t depth = troupe_depth(the_system, routee(router, i));

        deepest = depth > deepest ? depth : deepest;
        cr_assert_gt(depth, 0);
    }
    cr_assert_leq(deepest, 126);
    cr_assert_geq(deepest, 120);
}

Test(router, keys_of_text_choose_as_other_systems_do)
{
    /* The names of three places; computed as the specification says. */
    troupe_router_options options = pool(TROUPE_ROUTE_CONSISTENT_HASH, 3);
    static const char *const texts[] = {"user-42", "user-43", "", "a"};
    troupe_ref router;

    options.name = "text";
    options.key_bytes = bytes_of_text;
    router = begin(&options);
    for (size_t i = 0; i < 4; i++) {
        size_t bytes = strlen(texts[i]);
        uint32_t best = 0, expected = 0;

        for (uint32_t r = 0; r < 3; r++) {
            char path[100];
            uint32_t key = 2166136261u, name = 2166136261u, score;

            (void)troupe_path(the_system, routee(router, r), path, sizeof path);
            for (const char *c = path; *c != '\0'; c++) {
                name = (name ^ (unsigned char)*c) * 16777619u;
            }
            for (size_t c = 0; c < bytes; c++) {
                key = (key ^ (unsigned char)texts[i][c]) * 16777619u;
            }
            score = key ^ (name * 2654435761u);
            score = (score ^ score >> 13) * 1540483477u;
            if (r == 0 || score > best) {
                best = score;
                expected = r + 1;
            }
        }
        cr_assert_eq(troupe_post_bytes(the_system, router, &test_bytes,
                         bytes != 0 ? texts[i] : NULL, bytes),
            TROUPE_OK);
        test_run(the_system);
        cr_assert_eq(handled[expected], 1, "%s", texts[i]);
        memset(handled, 0, sizeof handled);
    }
}

Test(router, keys_are_given_in_one_way_and_only_where_they_are_used)
{
    troupe_router_options options = pool(TROUPE_ROUTE_CONSISTENT_HASH, 3);

    check_refused(&options, "key");
    options.key = key_of_number;
    options.key_bytes = bytes_of_text;
    check_refused(&options, "key");
    options.routing = TROUPE_ROUTE_RANDOM;
    options.key_bytes = NULL;
    check_refused(&options, "key");
    options.key = NULL;
    options.bounded_load_percent = 1;
    check_refused(&options, "bounded_load_percent");
}

/* --- one question to all -------------------------------------------------- */

static troupe_tag answer_tag;
static size_t answer_count, answer_answered;
static troupe_ref answer_sender;
static int32_t answer_code;

static troupe_verdict
on_gathered(
    troupe_self *self, void *state, const troupe_result *result, void *user)
{
    (void)self;
    (void)state;
    (void)user;
    asked = result->status;
    answer_code = result->code;
    answer_tag = 0;
    if (result->msg != NULL) {
        answer_tag = troupe_msg_tag(result->msg);
        answer_sender = result->msg->sender;
    }
    if (answer_tag == TEST_TAG_NUMBER) {
        answer = *troupe_payload(result->msg, uint64_t);
    } else if (answer_tag == TROUPE_TAG_GATHERED) {
        const troupe_gathered *all =
            troupe_payload(result->msg, troupe_gathered);

        answer_count = all->count;
        answer_answered = all->answered;
    }
    return TROUPE_CONTINUE;
}

static uint64_t question; /* ECHO: is answered; another number is not */

static troupe_verdict
ask_all(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    asked = TROUPE_E_INVALID;
    return troupe_check(
        self, troupe_ask(self, *(troupe_ref *)user, &test_number, &question, 0,
                  (troupe_continuation){on_gathered, NULL}, NULL));
}

static troupe_ref
begin_gather(troupe_gather_policy policy, uint32_t quorum, uint32_t routees)
{
    troupe_gather_options gather = TROUPE_INIT(troupe_gather_options);
    troupe_router_options options = pool(TROUPE_ROUTE_GATHER, routees);

    gather.policy = policy;
    gather.quorum = quorum;
    options.gather = &gather;
    question = ECHO;
    return begin(&options);
}

Test(router, gather_gives_the_first_answer_with_its_sender)
{
    troupe_ref client = test_spawn_doer(the_system, NULL);
    troupe_ref router = begin_gather(TROUPE_GATHER_FIRST, 0, 3);

    for (int i = 0; i < 2; i++) {
        test_do(the_system, client, ask_all, &router);
        cr_assert_eq(asked, TROUPE_OK);
        cr_assert_geq(answer, 1);
        cr_assert(troupe_ref_equal(
            answer_sender, routee(router, (uint32_t)answer - 1)));
    }
}

Test(router, gather_gives_all_answers_together)
{
    troupe_ref client = test_spawn_doer(the_system, NULL);
    troupe_ref router = begin_gather(TROUPE_GATHER_ALL, 0, 3);

    test_do(the_system, client, ask_all, &router);
    cr_assert_eq(asked, TROUPE_OK);
    cr_assert_eq(answer_tag, TROUPE_TAG_GATHERED);
    cr_assert_eq(answer_count, 3);
    cr_assert_eq(answer_answered, 3);
}

Test(router, gather_of_nobody_and_of_too_few_is_a_failure)
{
    troupe_ref client = test_spawn_doer(the_system, NULL);
    troupe_ref router = begin_gather(TROUPE_GATHER_QUORUM, 2, 2);

    test_do(the_system, client, ask_all, &router);
    cr_assert_eq(asked, TROUPE_OK);
    cr_assert_eq(post(routee(router, 0), END), TROUPE_OK);
    test_run(the_system);
    test_do(the_system, client, ask_all, &router);
    cr_assert_eq(asked, TROUPE_E_FAILED);
    cr_assert_eq(troupe_router_stop_routees(the_system, router), TROUPE_OK);
    test_run(the_system);
    test_do(the_system, client, ask_all, &router);
    cr_assert_eq(asked, TROUPE_E_NO_ROUTE);
}

Test(router_time, gather_in_a_circle_is_a_failure_at_once_or_after_the_tail,
    .init = begin_simulation)
{
    static const uint64_t tails_ns[] = {0, TROUPE_MS(1), TROUPE_FOREVER};
    troupe_ref client = test_spawn_doer(the_system, NULL);
    troupe_gather_options gather = TROUPE_INIT(troupe_gather_options);

    question = ECHO;
    for (size_t i = 0; i < sizeof tails_ns / sizeof tails_ns[0]; i++) {
        troupe_router_options options = TROUPE_INIT(troupe_router_options);
        troupe_ref router;

        gather.tail_delay_ns = tails_ns[i];
        options.routing = TROUPE_ROUTE_GATHER;
        options.gather = &gather;
        router = begin_circle(&options);
        test_do(the_system, client, ask_all, &router);
        cr_assert_eq(asked, TROUPE_E_FAILED);
        cr_assert_eq(answer_code, TROUPE_E_LIMIT);
        cr_assert_eq(test_counters(the_system).asks, 0);
    }
}

static troupe_verdict
ask_owning(troupe_self *self, const troupe_msg *msg, void *user)
{
    struct test_owned owned = {.drops = &drops, .number = 1};

    (void)msg;
    asked = TROUPE_OK;
    return troupe_check(
        self, troupe_ask(self, *(troupe_ref *)user, &test_owned, &owned, 0,
                  (troupe_continuation){on_gathered, NULL}, NULL));
}

Test(router, gather_of_what_owns_something_drops_it_once_and_says_why)
{
    troupe_ref client = test_spawn_doer(the_system, NULL);
    troupe_ref router = begin_gather(TROUPE_GATHER_ALL, 0, 2);
    struct test_owned owned = {.drops = &drops, .number = 1};
    troupe_answer ended;

    drops = 0;
    test_do(the_system, client, ask_owning, &router);
    cr_assert_eq(asked, TROUPE_E_FAILED);
    cr_assert_eq(answer_code, TROUPE_E_INVALID);
    cr_assert_eq(drops, 1);
    /* E_INVALID would say that it is the asker's still. */
    cr_assert_eq(
        troupe_ask_wait(the_system, router, &test_owned, &owned, 0, &ended),
        TROUPE_E_FAILED);
    cr_assert_eq(ended.code, TROUPE_E_INVALID);
    cr_assert_eq(drops, 2);
}

Test(router_time, gather_ends_with_a_failure_when_nobody_answers,
    .init = begin_simulation)
{
    troupe_ref client = test_spawn_doer(the_system, NULL);
    troupe_ref router = begin_gather(TROUPE_GATHER_FIRST, 0, 2);

    question = 5;
    test_do(the_system, client, ask_all, &router);
    /* Both have handled it without an answer, and might answer later. */
    advance(4499);
    cr_assert_eq(asked, TROUPE_E_INVALID);
    advance(1);
    cr_assert_eq(asked, TROUPE_E_TIMEOUT);
    question = FAIL;
    test_do(the_system, client, ask_all, &router);
    advance(5000);
    cr_assert_eq(asked, TROUPE_E_TIMEOUT);
}

Test(router, gather_that_is_open_when_the_router_stops_is_answered)
{
    troupe_ref client = test_spawn_doer(the_system, NULL);
    troupe_ref router = begin_gather(TROUPE_GATHER_FIRST, 0, 2);

    question = 5;
    test_do(the_system, client, ask_all, &router);
    cr_assert_eq(asked, TROUPE_E_INVALID);
    cr_assert_eq(troupe_post_stop_now(the_system, router), TROUPE_OK);
    test_run(the_system);
    cr_assert(asked == TROUPE_E_DEAD || asked == TROUPE_E_CANCELLED);
}

Test(router, gather_needs_somebody_to_answer)
{
    troupe_ref router = begin_gather(TROUPE_GATHER_FIRST, 0, 2);
    uint64_t dead = dead_for(TROUPE_DEAD_UNHANDLED);

    cr_assert_eq(post(router, 5), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(dead_for(TROUPE_DEAD_UNHANDLED), dead + 1);
    cr_assert_str_eq(written(), "");
    /* A broadcast is no question. */
    cr_assert_eq(post_broadcast(router, 6), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(handled[1] + handled[2], 2);
}

Test(router, many_gathers_are_open_at_once)
{
    troupe_ref router = begin_gather(TROUPE_GATHER_ALL, 0, 3);
    troupe_ref clients[500];

    for (int i = 0; i < 500; i++) {
        clients[i] = test_spawn_doer(the_system, NULL);
        test_do_later(the_system, clients[i], ask_all, &router);
    }
    test_run(the_system);
    cr_assert_eq(asked, TROUPE_OK);
    cr_assert_eq(answer_answered, 3);
    cr_assert_eq(test_counters(the_system).asks, 0);
}

Test(router, what_a_gather_needs_is_checked_when_the_router_is_made)
{
    troupe_gather_options gather = TROUPE_INIT(troupe_gather_options);
    troupe_router_options options = pool(TROUPE_ROUTE_GATHER, 2);

    options.gather = &gather;
    gather.policy = TROUPE_GATHER_BEST;
    check_refused(&options, "gather.better");
    gather.policy = (troupe_gather_policy)4;
    check_refused(&options, "gather.policy");
    gather.policy = TROUPE_GATHER_QUORUM;
    gather.quorum = 3;
    check_refused(&options, "gather.quorum");
    gather.quorum = 0;
    options.routing = TROUPE_ROUTE_RANDOM;
    check_refused(&options, "gather");
}

/* --- a pool that sizes itself --------------------------------------------- */

static troupe_ref
begin_resized(uint32_t lower, uint32_t upper)
{
    troupe_resizer_options resizer = TROUPE_INIT(troupe_resizer_options);
    troupe_router_options options = pool(TROUPE_ROUTE_ROUND_ROBIN, 2);

    resizer.lower = lower;
    resizer.upper = upper;
    resizer.pressure_depth = 3;
    resizer.step_percent = 50;
    resizer.cooldown_ns = TROUPE_MS(100);
    options.resizer = &resizer;
    return begin(&options);
}

Test(router_time, a_pool_grows_under_pressure_and_shrinks_afterwards,
    .init = begin_simulation)
{
    troupe_ref router = begin_resized(2, 4);

    post_all(router, 0, 20);
    test_run(the_system);
    cr_assert_eq(count_of(router), 2); /* the pause is not over */
    advance(100);
    post_all(router, 0, 20);
    test_run(the_system);
    cr_assert_eq(count_of(router), 3);
    advance(99);
    post_all(router, 0, 2);
    test_run(the_system);
    cr_assert_eq(count_of(router), 3);
    advance(2); /* a look by the clock: nobody is busy */
    cr_assert_eq(count_of(router), 2);
    advance(10000);
    cr_assert_eq(count_of(router), 2); /* never below lower */
    cr_assert_eq(test_counters(the_system).timers, 0);
    for (int i = 0; i < 5; i++) {
        post_all(router, 0, 40);
        test_run(the_system);
        post_all(router, 0, 40);
        advance(90);
        post_all(router, 0, 40);
        test_run(the_system);
        cr_assert_leq(count_of(router), 4); /* never above upper */
    }
}

Test(router, what_a_resizer_needs_is_checked)
{
    troupe_resizer_options resizer = TROUPE_INIT(troupe_resizer_options);
    troupe_router_options options = pool(TROUPE_ROUTE_ROUND_ROBIN, 2);
    troupe_ref member = test_spawn_doer(the_system, NULL);

    options.resizer = &resizer;
    check_refused(&options, "resizer.upper");
    resizer.upper = 4;
    resizer.lower = 5;
    check_refused(&options, "resizer.lower");
    resizer.lower = 3;
    check_refused(&options, "routees");
    resizer.lower = 1;
    resizer.idle_percent = 101;
    check_refused(&options, "resizer.idle_percent");
    resizer.idle_percent = 0;
    options.type = NULL;
    options.members = &member;
    options.routees = 1;
    check_refused(&options, "resizer");
}
