/* SPDX-License-Identifier: MIT */
#include "support/system.h"

#include <troupe/retry.h>

#include <criterion/criterion.h>

#include <string.h>

/*
 * A doer retries a question to a server that fails as often as it is told to.
 * Time is virtual.
 */

static troupe_system *the_system;

static struct {
    uint32_t left; /* failures to come */
    uint32_t asked;
    uint64_t payload;  /* of the last question */
    bool silent;       /* it answers nothing */
    uint32_t refusals; /* attempts that cannot begin */
    uint32_t attempts; /* as the attempt function counts */
    uint32_t failed;   /* calls of attempted() */
    troupe_status last_status;
    int32_t last_code;
    uint32_t consulted; /* calls of should_retry() */
    bool enough;
    troupe_ref server;
    troupe_ticket ticket;
    troupe_status status;
    bool await;
    uint32_t plain;
} retry;

static struct {
    uint32_t count;
    troupe_status status;
    int32_t code;
    uint64_t number;
    uint64_t elapsed_ns;
} outcome;

static troupe_verdict
serve(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    retry.asked++;
    retry.payload = *troupe_payload(msg, uint64_t);
    if (retry.silent) {
        return TROUPE_CONTINUE;
    }
    if (retry.left > 0) {
        troupe_reply_failure(self, (int32_t)retry.left--);
    } else {
        troupe_reply(self, &test_number, msg->payload);
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type server = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "server",
    .receive = serve,
};

static troupe_verdict
then(troupe_self *self, void *state, const troupe_result *result, void *user)
{
    (void)self;
    (void)state;
    (void)user;
    outcome.count++;
    outcome.status = result->status;
    outcome.code = result->code;
    outcome.elapsed_ns = result->elapsed_ns;
    if (result->msg != NULL) {
        outcome.number = *troupe_payload(result->msg, uint64_t);
    }
    return TROUPE_CONTINUE;
}

static troupe_status
attempt(troupe_self *self, void *state, uint32_t number, const void *payload,
    troupe_continuation next, troupe_ticket *ticket)
{
    (void)state;
    cr_assert_eq(number, ++retry.attempts);
    if (retry.refusals > 0) {
        retry.refusals--;
        return TROUPE_E_FULL;
    }
    return troupe_ask(
        self, retry.server, &test_number, payload, TROUPE_MS(50), next, ticket);
}

static void
attempted(uint32_t number, troupe_status status, int32_t code, void *user)
{
    (void)user;
    cr_assert_eq(number, ++retry.failed);
    retry.last_status = status;
    retry.last_code = code;
}

static bool
should_retry(uint32_t number, troupe_status status, int32_t code, void *user)
{
    (void)number;
    (void)status;
    (void)code;
    (void)user;
    retry.consulted++;
    return !retry.enough;
}

static troupe_retry_options options;

static troupe_verdict
begin(troupe_self *self, const troupe_msg *msg, void *user)
{
    uint64_t number = 77;

    (void)msg;
    (void)user;
    retry.status = troupe_retry(self, &options, attempt, &test_number, &number,
        troupe_then(then, NULL), &retry.ticket);
    return retry.await ? troupe_await(self, retry.status, &retry.ticket)
                       : TROUPE_CONTINUE;
}

static troupe_verdict
cancel(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    (void)user;
    retry.status = troupe_cancel(self, retry.ticket);
    return TROUPE_CONTINUE;
}

static troupe_verdict
plain(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)self;
    (void)msg;
    (void)user;
    retry.plain++;
    return TROUPE_CONTINUE;
}

static troupe_ref doer;

static void
setup(void)
{
    memset(&retry, 0, sizeof retry);
    memset(&outcome, 0, sizeof outcome);
    options = TROUPE_INIT(troupe_retry_options);
    options.attempts = 3;
    options.attempted = attempted;
    options.should_retry = should_retry;
    the_system = test_open_driven(7);
    test_require(troupe_system_spawn(
                     the_system, &server, NULL, &retry.server) == TROUPE_OK);
    doer = test_spawn_doer(the_system, NULL);
}

static void
teardown(void)
{
    test_close(the_system);
}

TestSuite(retry_actor, .init = setup, .fini = teardown);

static void
run(void)
{
    test_do(the_system, doer, begin, NULL);
    cr_assert_eq(retry.status, TROUPE_OK);
}

static void
advance_ms(uint64_t ms)
{
    cr_assert_eq(troupe_system_advance(the_system, TROUPE_MS(ms)), TROUPE_OK);
}

static void
expect_end(troupe_status status)
{
    cr_assert_eq(outcome.count, 1);
    cr_expect_eq(
        outcome.status, status, "%s", troupe_status_name(outcome.status));
    cr_expect_eq(test_counters(the_system).asks, 0);
}

Test(retry_actor, ends_with_the_first_success)
{
    retry.left = 2;
    run();
    expect_end(TROUPE_OK);
    cr_expect_eq(outcome.number, 77);
    cr_expect_eq(retry.asked, 3);
    cr_expect_eq(retry.failed, 2);
    cr_expect_eq(retry.consulted, 2);
    cr_expect_eq(retry.last_status, TROUPE_E_FAILED);
    cr_expect_eq(retry.last_code, 1);
}

Test(retry_actor, ends_with_the_outcome_of_the_last_attempt)
{
    retry.left = 10;
    run();
    expect_end(TROUPE_E_FAILED);
    cr_expect_eq(outcome.code, 8);
    cr_expect_eq(retry.asked, 3);
    cr_expect_eq(retry.failed, 3);
    cr_expect_eq(retry.consulted, 2);
}

Test(retry_actor, ends_when_it_is_enough)
{
    retry.left = 10;
    retry.enough = true;
    run();
    expect_end(TROUPE_E_FAILED);
    cr_expect_eq(retry.asked, 1);
}

Test(retry_actor, counts_attempts_that_cannot_begin)
{
    retry.refusals = 2;
    run();
    expect_end(TROUPE_OK);
    cr_expect_eq(retry.asked, 1);
    cr_expect_eq(retry.last_status, TROUPE_E_FULL);
}

Test(retry_actor, of_none_that_can_begin_ends)
{
    retry.refusals = 3;
    run();
    expect_end(TROUPE_E_FULL);
}

Test(retry_actor, pauses_between_attempts)
{
    troupe_backoff backoff = TROUPE_INIT(troupe_backoff);

    backoff.min_ns = TROUPE_MS(10);
    backoff.max_ns = TROUPE_MS(1000);
    backoff.jitter = TROUPE_JITTER_NONE;
    options.backoff = &backoff;
    retry.left = 2;
    run();
    memset(&backoff, 0, sizeof backoff); /* it was copied */
    cr_expect_eq(retry.asked, 1);
    advance_ms(10);
    cr_expect_eq(retry.asked, 2);
    advance_ms(19);
    cr_expect_eq(retry.asked, 2);
    advance_ms(1);
    expect_end(TROUPE_OK);
    cr_expect_eq(outcome.elapsed_ns, TROUPE_MS(30));
}

Test(retry_actor, ends_at_its_deadline_with_the_attempt)
{
    options.deadline_ns = TROUPE_MS(70);
    retry.silent = true;
    run();
    advance_ms(50); /* the first question has */
    cr_expect_eq(retry.asked, 2);
    advance_ms(20);
    expect_end(TROUPE_E_TIMEOUT);
    cr_expect_eq(retry.asked, 2);
}

Test(retry_actor, does_not_begin_a_pause_beyond_its_deadline)
{
    troupe_backoff backoff = TROUPE_INIT(troupe_backoff);

    backoff.min_ns = TROUPE_MS(100);
    backoff.max_ns = TROUPE_MS(1000);
    backoff.jitter = TROUPE_JITTER_NONE;
    options.backoff = &backoff;
    options.deadline_ns = TROUPE_MS(70);
    retry.left = 2;
    run();
    expect_end(TROUPE_E_TIMEOUT);
    cr_expect_eq(retry.asked, 1);
}

Test(retry_actor, can_be_cancelled_with_its_attempt)
{
    retry.silent = true;
    run();
    test_do(the_system, doer, cancel, NULL);
    cr_expect_eq(retry.status, TROUPE_OK);
    expect_end(TROUPE_E_CANCELLED);
    advance_ms(1000);
    cr_expect_eq(retry.asked, 1);
    test_do(the_system, doer, cancel, NULL);
    cr_expect_eq(retry.status, TROUPE_E_MISSING);
}

Test(retry_actor, ends_with_its_actor)
{
    retry.silent = true;
    run();
    cr_assert_eq(troupe_post_stop_now(the_system, doer), TROUPE_OK);
    test_run(the_system);
    expect_end(TROUPE_E_CANCELLED);
    cr_expect_eq(retry.asked, 1);
}

Test(retry_actor, goes_on_while_it_is_awaited)
{
    retry.await = true;
    retry.left = 2;
    run();
    expect_end(TROUPE_OK);
    retry.silent = true;
    retry.attempts = retry.failed = 0;
    test_do_later(the_system, doer, begin, NULL);
    test_do_later(the_system, doer, plain, NULL);
    test_run(the_system);
    advance_ms(149);
    cr_expect_eq(retry.plain, 0);
    advance_ms(1);
    cr_expect_eq(retry.plain, 1);
    cr_expect_eq(outcome.count, 2);
    cr_expect_eq(outcome.status, TROUPE_E_TIMEOUT);
}

static troupe_verdict
begin_wrongly(troupe_self *self, const troupe_msg *msg, void *user)
{
    troupe_continuation next = troupe_then(then, NULL);
    struct test_owned owned = {NULL, 0};
    troupe_retry_options none = TROUPE_INIT(troupe_retry_options);

    (void)msg;
    (void)user;
    cr_expect_eq(troupe_retry(self, &options, NULL, NULL, NULL, next, NULL),
        TROUPE_E_INVALID);
    cr_expect_eq(troupe_retry(self, &none, attempt, NULL, NULL, next, NULL),
        TROUPE_E_INVALID);
    cr_expect_eq(troupe_retry(self, NULL, attempt, NULL, NULL, next, NULL),
        TROUPE_E_INVALID);
    cr_expect_eq(
        troupe_retry(self, &options, attempt, &test_owned, &owned, next, NULL),
        TROUPE_E_INVALID);
    cr_expect_eq(troupe_retry(self, &options, attempt, NULL, NULL,
                     troupe_then(NULL, NULL), NULL),
        TROUPE_E_INVALID);
    return TROUPE_CONTINUE;
}

Test(retry_actor, refuses_mistakes)
{
    test_do(the_system, doer, begin_wrongly, NULL);
    cr_expect_eq(outcome.count, 0);
    cr_expect_eq(test_counters(the_system).asks, 0);
    cr_expect_eq(retry.attempts, 0);
}
