/* SPDX-License-Identifier: MIT */
#include "pattern/retry.h"

#include "base/backoff.h"
#include "base/clock.h"

#include <criterion/criterion.h>

#include <string.h>

/* When it pauses and for how long, in time of the test's own. */

static struct {
    uint64_t now_ns;
    uint64_t attempt_ns; /* each takes so long */
    uint32_t attempts;
    uint32_t succeed_at;
    uint32_t asked;
    bool says_no;
    uint32_t pauses;
    uint64_t pause_ns[16];
} world;

static uint64_t
now(void *user)
{
    cr_assert_eq(user, &world);
    return world.now_ns;
}

static void
sleep_until(uint64_t due_ns, void *user)
{
    cr_assert_eq(user, &world);
    cr_assert_gt(due_ns, world.now_ns);
    world.pause_ns[world.pauses++] = due_ns - world.now_ns;
    world.now_ns = due_ns;
}

static const struct trp_retry_time its_time = {now, sleep_until, &world};

static int32_t
attempt(uint32_t number, void *user)
{
    (void)user;
    world.attempts++;
    world.now_ns += world.attempt_ns;
    return number == world.succeed_at ? 0 : (int32_t)number;
}

static bool
should_retry(uint32_t number, troupe_status status, int32_t code, void *user)
{
    (void)number;
    (void)status;
    (void)code;
    (void)user;
    world.asked++;
    return !world.says_no;
}

static troupe_backoff
doubling(double jitter)
{
    troupe_backoff backoff = TROUPE_INIT(troupe_backoff);

    backoff.min_ns = 100;
    backoff.max_ns = 1000;
    backoff.jitter = jitter;
    return backoff;
}

static troupe_status
run(uint32_t attempts, const troupe_backoff *backoff, uint64_t deadline_ns,
    int32_t *code)
{
    troupe_retry_options given = TROUPE_INIT(troupe_retry_options);
    troupe_retry_options options;
    troupe_backoff copy;

    given.attempts = attempts;
    given.backoff = backoff;
    given.deadline_ns = deadline_ns;
    given.should_retry = should_retry;
    cr_assert_eq(trp_retry_copy(&options, &copy, &given, "run"), TROUPE_OK);
    return trp_retry_run(&options, &its_time, attempt, NULL, code);
}

static void
check_pauses(uint32_t count, const uint64_t *ns)
{
    cr_assert_eq(world.pauses, count, "%u pauses", world.pauses);
    for (uint32_t i = 0; i < count; i++) {
        cr_assert_eq(world.pause_ns[i], ns[i], "pause %u", i);
    }
}

static void
setup(void)
{
    memset(&world, 0, sizeof world);
    world.now_ns = 5000;
}

TestSuite(pattern_retry, .init = setup);

Test(pattern_retry, pauses_follow_the_policy_from_attempt_0_on)
{
    troupe_backoff backoff = doubling(TROUPE_JITTER_NONE);

    cr_assert_eq(run(6, &backoff, 0, NULL), TROUPE_E_FAILED);
    check_pauses(5, (const uint64_t[]){100, 200, 400, 800, 1000});
}

Test(pattern_retry, there_is_no_pause_after_the_success_or_the_last_attempt)
{
    troupe_backoff backoff = doubling(TROUPE_JITTER_NONE);

    world.succeed_at = 2;
    cr_assert_eq(run(6, &backoff, 0, NULL), TROUPE_OK);
    check_pauses(1, (const uint64_t[]){100});
    setup();
    cr_assert_eq(run(1, &backoff, 0, NULL), TROUPE_E_FAILED);
    check_pauses(0, NULL);
}

Test(pattern_retry, a_no_comes_before_the_pause)
{
    troupe_backoff backoff = doubling(TROUPE_JITTER_NONE);

    world.says_no = true;
    cr_assert_eq(run(6, &backoff, 0, NULL), TROUPE_E_FAILED);
    check_pauses(0, NULL);
    cr_assert_eq(world.asked, 1);
}

Test(pattern_retry, without_a_policy_or_a_delay_it_does_not_sleep)
{
    troupe_backoff none = doubling(TROUPE_JITTER_NONE);

    none.min_ns = 0;
    cr_assert_eq(run(5, NULL, 0, NULL), TROUPE_E_FAILED);
    cr_assert_eq(run(5, &none, 0, NULL), TROUPE_E_FAILED);
    check_pauses(0, NULL);
    cr_assert_eq(world.attempts, 10);
}

static double
draw(void *user)
{
    (void)user;
    return 0;
}

Test(pattern_retry, pauses_have_the_jitter_of_the_policy)
{
    troupe_backoff backoff = doubling(0.2);

    backoff.random = draw;
    cr_assert_eq(run(3, &backoff, 0, NULL), TROUPE_E_FAILED);
    check_pauses(2, (const uint64_t[]){80, 160});
}

Test(pattern_retry, a_pause_that_outlasts_the_deadline_is_not_begun)
{
    troupe_backoff backoff = doubling(TROUPE_JITTER_NONE);
    int32_t code = 0;

    world.attempt_ns = 10;
    /* 10, 100, 10, 200, 10, and 400 would be too long. */
    cr_assert_eq(run(9, &backoff, 730, &code), TROUPE_E_TIMEOUT);
    cr_assert_eq(code, 3);
    check_pauses(2, (const uint64_t[]){100, 200});
    cr_assert_eq(world.asked, 2, "asked about an attempt that never came");
    cr_assert_eq(world.now_ns, 5000 + 330);
    setup();
    world.attempt_ns = 10;
    cr_assert_eq(run(4, &backoff, 731, &code), TROUPE_E_FAILED);
    check_pauses(3, (const uint64_t[]){100, 200, 400});
}

Test(pattern_retry, the_deadline_ends_attempts_without_a_pause)
{
    int32_t code = 0;

    world.attempt_ns = 10;
    cr_assert_eq(run(1000, NULL, 35, &code), TROUPE_E_TIMEOUT);
    cr_assert_eq(world.attempts, 4, "the fourth begins in time");
    cr_assert_eq(code, 4);
}

Test(pattern_retry, a_success_after_the_deadline_is_a_success)
{
    world.attempt_ns = 100;
    world.succeed_at = 1;
    cr_assert_eq(run(3, NULL, 50, NULL), TROUPE_OK);
}

Test(pattern_retry, the_last_attempt_fails_with_its_code_after_the_deadline_too)
{
    int32_t code = 0;

    world.attempt_ns = 100;
    cr_assert_eq(run(1, NULL, 50, &code), TROUPE_E_FAILED);
    cr_assert_eq(code, 1);
}

Test(pattern_retry, the_longest_deadline_is_none)
{
    troupe_backoff backoff = doubling(TROUPE_JITTER_NONE);

    backoff.min_ns = backoff.max_ns = UINT64_MAX - 10000;
    cr_assert_eq(run(2, &backoff, TROUPE_FOREVER, NULL), TROUPE_E_FAILED);
    check_pauses(1, (const uint64_t[]){UINT64_MAX - 10000});
}

/* The real thing; how long it takes is the policy's business. */
Test(pattern_retry, the_real_clock_is_waited_for)
{
    troupe_backoff backoff = doubling(TROUPE_JITTER_NONE);
    troupe_retry_options options = TROUPE_INIT(troupe_retry_options);
    uint64_t began_ns = trp_clock_ns();

    backoff.min_ns = backoff.max_ns = TROUPE_MS(2);
    options.attempts = 2;
    options.backoff = &backoff;
    cr_assert_eq(
        troupe_retry_wait(&options, attempt, NULL, NULL), TROUPE_E_FAILED);
    cr_assert_geq(trp_clock_ns() - began_ns, TROUPE_MS(2));
}
