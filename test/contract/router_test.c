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
    cr_assert_eq(troupe_system_spawn_router(NULL, &options, &router),
        TROUPE_E_INVALID);
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
    cr_assert_eq(troupe_send(self, *(troupe_ref *)user, &test_number,
                     &(uint64_t){ECHO}),
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
            cr_assert_eq(troupe_post_stop_now(the_system, routee(router, i)),
                TROUPE_OK);
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

        cr_assert_eq(
            troupe_router_stop_routees(the_system, router), TROUPE_OK);
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
        cr_assert_eq(
            test_counters(the_system).refused, before.refused + 2);
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
    cr_assert_eq(
        troupe_spawn(self, &routee_type, NULL, &refs[1]), TROUPE_OK);
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
    cr_assert_eq(handled[1] + handled[2] + handled[3] + test_letters.total,
        dead + sent);
    cr_assert_leq(test_letters.total, dead + 2, "%u of %u, waited %u", (unsigned)(test_letters.total - dead), sent, waited); /* with the old pool */
    cr_assert_eq(count_of(refs[0]), 3);
}
