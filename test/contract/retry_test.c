/* SPDX-License-Identifier: MIT */
#include "support/system.h"

#include <criterion/criterion.h>

/*
 * troupe_retry_wait() with policies without a pause; pauses and the deadline
 * are in test/unit/pattern/retry_test.c, where time is the test's.
 */

static struct {
    uint32_t succeed_at; /* attempt; 0 = never */
    uint32_t give_up_at; /* should_retry() says no after this one; 0 = never */
    uint32_t attempts;   /* made */
    uint32_t attempted;  /* told */
    uint32_t asked;
} tally;

/* Codes are 100 + the number. */
static int32_t
attempt(uint32_t number, void *user)
{
    cr_assert_eq(user, &tally);
    cr_assert_eq(number, ++tally.attempts);
    return number == tally.succeed_at ? 0 : (int32_t)(100 + number);
}

static void
attempted(uint32_t number, troupe_status status, int32_t code, void *user)
{
    cr_assert_eq(user, &tally.attempted);
    cr_assert_eq(number, ++tally.attempted);
    cr_assert_eq(tally.attempted, tally.attempts);
    cr_assert_eq(status, TROUPE_E_FAILED);
    cr_assert_eq(code, (int32_t)(100 + number));
}

static bool
should_retry(uint32_t number, troupe_status status, int32_t code, void *user)
{
    cr_assert_eq(user, &tally.attempted);
    cr_assert_eq(number, ++tally.asked);
    cr_assert_eq(tally.asked, tally.attempted, "told before it is asked");
    cr_assert_eq(status, TROUPE_E_FAILED);
    cr_assert_eq(code, (int32_t)(100 + number));
    return number != tally.give_up_at;
}

static troupe_retry_options
options_for(uint32_t attempts)
{
    troupe_retry_options options = TROUPE_INIT(troupe_retry_options);

    options.attempts = attempts;
    options.attempted = attempted;
    options.should_retry = should_retry;
    options.user = &tally.attempted;
    return options;
}

static troupe_status
retry(const troupe_retry_options *options, int32_t *code)
{
    return troupe_retry_wait(options, attempt, &tally, code);
}

/* How often everything is called on the way to the result. */
static void
check(uint32_t most, troupe_status status, int32_t code, uint32_t attempts,
    uint32_t told, uint32_t asked)
{
    troupe_retry_options options = options_for(most);
    int32_t last = -1;

    cr_assert_eq(retry(&options, &last), status);
    cr_assert_eq(last, code);
    cr_assert_eq(tally.attempts, attempts);
    cr_assert_eq(tally.attempted, told);
    cr_assert_eq(tally.asked, asked);
}

Test(retry, a_first_success_is_the_only_attempt)
{
    tally.succeed_at = 1;
    check(5, TROUPE_OK, 0, 1, 0, 0);
}

Test(retry, failures_before_a_success_are_told_and_asked_about)
{
    tally.succeed_at = 3;
    check(5, TROUPE_OK, 0, 3, 2, 2);
}

Test(retry, the_last_failure_is_told_and_not_asked_about)
{
    check(4, TROUPE_E_FAILED, 104, 4, 4, 3);
}

Test(retry, one_attempt_is_never_asked_about)
{
    check(1, TROUPE_E_FAILED, 101, 1, 1, 0);
}

Test(retry, a_no_ends_it_with_the_code_of_that_attempt)
{
    tally.give_up_at = 2;
    check(10, TROUPE_E_FAILED, 102, 2, 2, 2);
}

Test(retry, hooks_may_be_left_out)
{
    troupe_retry_options options = TROUPE_INIT(troupe_retry_options);

    options.attempts = 7;
    cr_assert_eq(retry(&options, NULL), TROUPE_E_FAILED);
    cr_assert_eq(tally.attempts, 7);
}

static int32_t
nest(uint32_t number, void *user)
{
    troupe_retry_options options = options_for(3);

    (void)number;
    (void)user;
    tally.attempts = tally.attempted = tally.asked = 0;
    return retry(&options, NULL) == TROUPE_OK ? 0 : 1;
}

Test(retry, an_attempt_may_retry_itself)
{
    troupe_retry_options options = TROUPE_INIT(troupe_retry_options);
    int32_t code = 0;

    options.attempts = 2;
    cr_assert_eq(
        troupe_retry_wait(&options, nest, NULL, &code), TROUPE_E_FAILED);
    cr_assert_eq(code, 1);
}

/* --- what is refused ------------------------------------------------------ */

static void
is_refused(const troupe_retry_options *options, const char *option)
{
    int32_t code = 17;

    cr_assert_eq(retry(options, &code), TROUPE_E_INVALID);
    cr_assert_str_eq(troupe_last_error().call, "troupe_retry_wait");
    cr_assert_str_eq(troupe_last_error().option, option);
    cr_assert_eq(tally.attempts, 0);
    cr_assert_eq(code, 17);
}

Test(retry, bad_options_are_refused_before_the_first_attempt)
{
    troupe_backoff backoff = TROUPE_INIT(troupe_backoff);
    troupe_retry_options options = options_for(3);

    is_refused(NULL, "options");
    options.size = 0;
    is_refused(&options, "size");
    options = options_for(0);
    is_refused(&options, "attempts");
    options = options_for(3);
    options.reserved = 1;
    is_refused(&options, "reserved");
    options = options_for(3);
    options.backoff = &backoff; /* without a maximum */
    is_refused(&options, "backoff.max_ns");
    options.backoff = NULL;
    cr_assert_eq(
        troupe_retry_wait(&options, NULL, NULL, NULL), TROUPE_E_INVALID);
    cr_assert_str_eq(troupe_last_error().option, "attempt");
}

static troupe_verdict
retry_inside(troupe_self *self, const troupe_msg *msg, void *user)
{
    troupe_retry_options options = options_for(3);

    (void)self;
    (void)msg;
    *(troupe_status *)user = retry(&options, NULL);
    return TROUPE_CONTINUE;
}

Test(retry, inside_a_behaviour_it_is_refused)
{
    troupe_system *system = test_open_driven(0);
    troupe_status status = TROUPE_OK;

    test_do(system, test_spawn_doer(system, NULL), retry_inside, &status);
    cr_assert_eq(status, TROUPE_E_CONTEXT);
    cr_assert_eq(tally.attempts, 0);
    /* The same thread between two turns. */
    tally.succeed_at = 1;
    cr_assert_eq(retry(&(troupe_retry_options){.size = TROUPE_OPTIONS(
                                                   troupe_retry_options),
                           .attempts = 1},
                     NULL),
        TROUPE_OK);
    test_close(system);
}
