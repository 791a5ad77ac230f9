/* SPDX-License-Identifier: MIT */
#include "support/system.h"

#include <troupe/ask.h>
#include <troupe/breaker.h>

#include <criterion/criterion.h>

#include <string.h>

/* A breaker around asks, in a simulation: its clock is virtual. */

static troupe_system *the_system;
static troupe_breaker *breaker;
static troupe_ref asker, silent, dead;

/* What the last continuation was told, and how many have run. */
static troupe_result told;
static uint32_t told_count;
static troupe_breaker_state state_when_told;

static void
setup(void)
{
    troupe_breaker_options options = TROUPE_INIT(troupe_breaker_options);

    told_count = 0;
    the_system = test_open_driven(3);
    options.max_failures = 2;
    options.reset_ns = TROUPE_S(10);
    options.call_ns = TROUPE_S(1);
    cr_assert_eq(
        troupe_breaker_create(the_system, &options, &breaker), TROUPE_OK);
    asker = test_spawn_doer(the_system, NULL);
    cr_assert_eq(
        troupe_system_spawn(the_system, &test_plain, NULL, &silent), TROUPE_OK);
    dead = test_dead_actor(the_system);
}

static void
teardown(void)
{
    cr_assert_eq(troupe_system_stop(the_system), TROUPE_OK);
    troupe_breaker_destroy(breaker);
    test_close(the_system);
}

TestSuite(breaker_ask, .init = setup, .fini = teardown);

static troupe_verdict
on_end(troupe_self *self, void *state, const troupe_result *result, void *user)
{
    (void)self;
    (void)state;
    (void)user;
    told = *result;
    told_count++;
    state_when_told = troupe_breaker_state_now(breaker);
    return TROUPE_CONTINUE;
}

static troupe_ticket ticket;

static troupe_verdict
ask(troupe_self *self, const troupe_msg *msg, void *user)
{
    uint64_t number = 7;

    (void)msg;
    cr_assert_eq(troupe_breaker_ask(self, breaker, *(troupe_ref *)user,
                     &test_number, &number, troupe_then(on_end, NULL), &ticket),
        TROUPE_OK);
    cr_assert_eq(told_count % 100, told_count, "never inside the call");
    return TROUPE_CONTINUE;
}

static troupe_status
outcome_of(troupe_ref *whom)
{
    uint32_t before = told_count;

    test_do(the_system, asker, ask, whom);
    if (told_count == before) {
        cr_assert_eq(troupe_system_advance(the_system, TROUPE_MS(1001)),
            TROUPE_OK); /* call_ns */
    }
    cr_assert_eq(told_count, before + 1);
    return told.status;
}

static troupe_ref echo;

static void
open_it(void)
{
    cr_assert_eq(outcome_of(&dead), TROUPE_E_DEAD);
    cr_assert_eq(state_when_told, TROUPE_BREAKER_CLOSED);
    cr_assert_eq(outcome_of(&dead), TROUPE_E_DEAD);
    cr_assert_eq(state_when_told, TROUPE_BREAKER_OPEN, "before it is told");
}

Test(breaker_ask, a_reply_goes_through)
{
    cr_assert_eq(
        troupe_system_spawn(the_system, &test_echo, NULL, &echo), TROUPE_OK);
    for (int i = 0; i < 10; i++) {
        cr_assert_eq(outcome_of(&echo), TROUPE_OK);
    }
    cr_assert_eq(troupe_breaker_state_now(breaker), TROUPE_BREAKER_CLOSED);
}

static uint32_t dropped;

static void
count_drop(void *payload, size_t bytes)
{
    (void)payload;
    (void)bytes;
    dropped++;
}

TROUPE_MSG_TYPE_WITH(small_owner, uint64_t, 20, 0, count_drop);
TROUPE_MSG_TYPE_WITH(large_owner, uint64_t[9], 21, 0, count_drop);

static troupe_verdict
ask_with_owners(troupe_self *self, const troupe_msg *msg, void *user)
{
    static const uint64_t payload[9];
    troupe_continuation then = troupe_then(on_end, NULL);

    (void)msg;
    (void)user;
    cr_assert_eq(troupe_breaker_ask(
                     self, breaker, silent, &small_owner, payload, then, NULL),
        TROUPE_OK);
    cr_assert_eq(troupe_breaker_ask(
                     self, breaker, silent, &large_owner, payload, then, NULL),
        TROUPE_OK);
    cr_expect_eq(dropped, 2);
    cr_expect_eq(troupe_breaker_ask(
                     self, breaker, silent, &large_owner, NULL, then, NULL),
        TROUPE_E_INVALID);
    cr_expect_eq(troupe_breaker_ask(self, breaker, TROUPE_NONE, &large_owner,
                     payload, then, NULL),
        TROUPE_E_INVALID);
    return TROUPE_CONTINUE;
}

Test(breaker_ask, owns_the_payload_also_when_it_is_open)
{
    dropped = 0;
    open_it();
    told_count = 0;
    test_do(the_system, asker, ask_with_owners, NULL);
    cr_expect_eq(dropped, 2);
    cr_expect_eq(told_count, 2);
    cr_expect_eq(told.status, TROUPE_E_OPEN);
}

Test(breaker_ask, failures_open_it_and_then_nobody_is_asked)
{
    open_it();
    cr_assert_eq(
        troupe_system_spawn(the_system, &test_echo, NULL, &echo), TROUPE_OK);
    cr_assert_eq(outcome_of(&echo), TROUPE_E_OPEN);
    cr_assert_null(told.msg);
    cr_assert_eq(test_counters(the_system).asks, 0);
}

static troupe_verdict
fill_and_ask(troupe_self *self, const troupe_msg *msg, void *user)
{
    uint64_t number = 0;

    cr_assert_eq(troupe_send(self, *(troupe_ref *)user, &test_number, &number),
        TROUPE_OK);
    return ask(self, msg, user);
}

Test(breaker_ask, a_refusal_is_a_failure)
{
    troupe_mailbox_options mailbox = TROUPE_INIT(troupe_mailbox_options);
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    troupe_ref full;

    mailbox.capacity = 1;
    options.mailbox = &mailbox;
    cr_assert_eq(troupe_system_spawn(the_system, &test_plain, &options, &full),
        TROUPE_OK);
    for (int i = 0; i < 2; i++) {
        test_do(the_system, asker, fill_and_ask, &full);
        cr_assert_eq(told.status, TROUPE_E_FULL);
    }
    cr_assert_eq(troupe_breaker_state_now(breaker), TROUPE_BREAKER_OPEN);
}

Test(breaker_ask, a_deadline_is_a_failure)
{
    cr_assert_eq(outcome_of(&silent), TROUPE_E_TIMEOUT);
    cr_assert_eq(outcome_of(&silent), TROUPE_E_TIMEOUT);
    cr_assert_eq(troupe_breaker_state_now(breaker), TROUPE_BREAKER_OPEN);
}

Test(breaker_ask, a_probe_that_is_answered_closes_it)
{
    open_it();
    cr_assert_eq(
        troupe_system_spawn(the_system, &test_echo, NULL, &echo), TROUPE_OK);
    cr_assert_eq(troupe_system_advance(the_system, TROUPE_S(10)), TROUPE_OK);
    cr_assert_eq(outcome_of(&echo), TROUPE_OK);
    cr_assert_eq(state_when_told, TROUPE_BREAKER_CLOSED);
}

static troupe_verdict
cancel(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    (void)user;
    cr_assert_eq(troupe_cancel(self, ticket), TROUPE_OK);
    return TROUPE_CONTINUE;
}

Test(breaker_ask, what_was_cancelled_does_not_count)
{
    for (int i = 0; i < 5; i++) {
        test_do(the_system, asker, ask, &silent);
        test_do(the_system, asker, cancel, NULL);
        cr_assert_eq(told.status, TROUPE_E_CANCELLED);
    }
    cr_assert_eq(troupe_breaker_state_now(breaker), TROUPE_BREAKER_CLOSED);
}

Test(breaker_ask, a_cancelled_probe_lets_the_next_one_probe)
{
    troupe_ticket probe;

    open_it();
    cr_assert_eq(
        troupe_system_spawn(the_system, &test_echo, NULL, &echo), TROUPE_OK);
    cr_assert_eq(troupe_system_advance(the_system, TROUPE_S(10)), TROUPE_OK);
    test_do(the_system, asker, ask, &silent);
    probe = ticket;
    cr_assert_eq(outcome_of(&echo), TROUPE_E_OPEN, "one at a time");
    cr_assert_eq(troupe_breaker_state_now(breaker), TROUPE_BREAKER_HALF_OPEN);
    ticket = probe;
    test_do(the_system, asker, cancel, NULL);
    cr_assert_eq(told.status, TROUPE_E_CANCELLED);
    cr_assert_eq(outcome_of(&echo), TROUPE_OK);
    cr_assert_eq(troupe_breaker_state_now(breaker), TROUPE_BREAKER_CLOSED);
}

static troupe_verdict
ask_badly(troupe_self *self, const troupe_msg *msg, void *user)
{
    uint64_t number = 7;
    troupe_continuation then = troupe_then(on_end, NULL);

    (void)msg;
    (void)user;
    cr_assert_eq(troupe_breaker_ask(
                     NULL, breaker, silent, &test_number, &number, then, NULL),
        TROUPE_E_INVALID);
    cr_assert_eq(troupe_breaker_ask(
                     self, NULL, silent, &test_number, &number, then, NULL),
        TROUPE_E_INVALID);
    cr_assert_eq(troupe_breaker_ask(self, breaker, silent, &test_number,
                     &number, troupe_then(NULL, NULL), NULL),
        TROUPE_E_INVALID);
    for (int i = 0; i < 3; i++) { /* none of these is a failure of the other */
        cr_assert_eq(troupe_breaker_ask(
                         self, breaker, silent, &test_number, NULL, then, NULL),
            TROUPE_E_INVALID);
    }
    return TROUPE_CONTINUE;
}

Test(breaker_ask, what_cannot_begin_does_not_count)
{
    test_do(the_system, asker, ask_badly, NULL);
    cr_assert_eq(told_count, 0);
    cr_assert_eq(troupe_breaker_state_now(breaker), TROUPE_BREAKER_CLOSED);
}
