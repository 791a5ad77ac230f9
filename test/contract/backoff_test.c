/* SPDX-License-Identifier: MIT */
#include "support/system.h"

#include <criterion/criterion.h>

#include <math.h>

/* The delay before an attempt: tables and vectors of the specification. */

static troupe_backoff
policy_of(troupe_backoff_kind kind, uint64_t min_ms, uint64_t max_ms)
{
    troupe_backoff policy = TROUPE_INIT(troupe_backoff);

    policy.kind = kind;
    policy.min_ns = TROUPE_MS(min_ms);
    policy.max_ns = TROUPE_MS(max_ms);
    policy.jitter = TROUPE_JITTER_NONE;
    return policy;
}

static uint64_t
exponential_ns(uint64_t min_ms, uint64_t max_ms, uint64_t attempt)
{
    troupe_backoff policy =
        policy_of(TROUPE_BACKOFF_EXPONENTIAL, min_ms, max_ms);

    return troupe_backoff_delay_ns(&policy, attempt);
}

static uint64_t
linear_ns(uint64_t min_ms, uint64_t max_ms, uint64_t step_ms, uint64_t attempt)
{
    troupe_backoff policy = policy_of(TROUPE_BACKOFF_LINEAR, min_ms, max_ms);

    policy.step_ns = TROUPE_MS(step_ms);
    return troupe_backoff_delay_ns(&policy, attempt);
}

Test(backoff, exponential_doubles_up_to_the_maximum)
{
    static const uint64_t ms[] = {
        200, 400, 800, 1600, 3200, 6400, 10000, 10000};

    for (size_t i = 0; i < sizeof ms / sizeof ms[0]; i++) {
        cr_assert_eq(exponential_ns(200, 10000, i), TROUPE_MS(ms[i]), "%zu", i);
    }
    cr_assert_eq(exponential_ns(200, 10000, 30), TROUPE_MS(10000));
    cr_assert_eq(exponential_ns(200, 10000, 1000), TROUPE_MS(10000));
}

Test(backoff, linear_grows_by_its_step_up_to_the_maximum)
{
    cr_assert_eq(linear_ns(500, 5000, 500, 0), TROUPE_MS(500));
    cr_assert_eq(linear_ns(500, 5000, 500, 1), TROUPE_MS(1000));
    cr_assert_eq(linear_ns(500, 5000, 500, 8), TROUPE_MS(4500));
    cr_assert_eq(linear_ns(500, 5000, 500, 9), TROUPE_MS(5000));
    cr_assert_eq(linear_ns(500, 5000, 500, 20), TROUPE_MS(5000));
    cr_assert_eq(linear_ns(500, 5000, 0, UINT64_MAX), TROUPE_MS(500));
}

Test(backoff, every_attempt_saturates)
{
    static const uint64_t attempts[] = {
        63, 64, 65, 1000000000, UINT32_MAX, UINT64_MAX - 1, UINT64_MAX};
    troupe_backoff policy = policy_of(TROUPE_BACKOFF_EXPONENTIAL, 0, 0);

    policy.min_ns = 1;
    policy.max_ns = UINT64_MAX;
    cr_assert_eq(troupe_backoff_delay_ns(&policy, 63), UINT64_C(1) << 63);
    for (size_t i = 0; i < sizeof attempts / sizeof attempts[0]; i++) {
        cr_assert_eq(exponential_ns(200, 10000, attempts[i]), TROUPE_MS(10000));
        cr_assert_eq(linear_ns(500, 5000, 500, attempts[i]), TROUPE_MS(5000));
        if (attempts[i] >= 64) {
            cr_assert_eq(
                troupe_backoff_delay_ns(&policy, attempts[i]), UINT64_MAX);
        }
    }
    policy.kind = TROUPE_BACKOFF_LINEAR;
    policy.step_ns = 1;
    cr_assert_eq(troupe_backoff_delay_ns(&policy, UINT64_MAX - 1), UINT64_MAX);
    cr_assert_eq(troupe_backoff_delay_ns(&policy, UINT64_MAX), UINT64_MAX);
    policy.step_ns = UINT64_MAX;
    cr_assert_eq(troupe_backoff_delay_ns(&policy, UINT64_MAX), UINT64_MAX);
}

Test(backoff, the_delay_never_shrinks_as_attempts_grow)
{
    troupe_backoff policy = policy_of(TROUPE_BACKOFF_EXPONENTIAL, 1, 1);
    uint64_t before_ns = 0;

    policy.min_ns = 3;
    policy.max_ns = UINT64_MAX;
    for (uint64_t i = 0; i < 200; i++) {
        uint64_t delay_ns = troupe_backoff_delay_ns(&policy, i);

        cr_assert_geq(delay_ns, before_ns);
        before_ns = delay_ns;
    }
}

Test(backoff, with_a_minimum_of_zero_exponential_stays_zero)
{
    cr_assert_eq(exponential_ns(0, 10000, 0), 0);
    cr_assert_eq(exponential_ns(0, 10000, 29), 0);
    cr_assert_eq(exponential_ns(0, 10000, 30), 0);
    cr_assert_eq(exponential_ns(0, 10000, UINT64_MAX), 0);
}

/* --- jitter --------------------------------------------------------------- */

struct source {
    uint32_t state;
    uint32_t calls;
    double fixed; /* at least 0, or not a number: instead */
};

/* The specification's own generator. */
static double
draw(void *user)
{
    struct source *source = user;

    source->calls++;
    if (!(source->fixed < 0)) {
        return source->fixed;
    }
    source->state = (9301 * source->state + 49297) % 233280;
    return source->state / 233280.0;
}

static troupe_backoff
jittered(struct source *source, double jitter)
{
    troupe_backoff policy = policy_of(TROUPE_BACKOFF_EXPONENTIAL, 100, 10000);

    policy.jitter = jitter;
    policy.random = draw;
    policy.random_user = source;
    return policy;
}

Test(backoff, jitter_follows_the_vector)
{
    static const uint64_t ns[] = {88452846, 216753772, 407483539, 876417010,
        1804458162, 2641218107, 6080208505, 11375445816, 11866820988,
        10147290809};
    struct source source = {.fixed = -1};
    troupe_backoff policy = jittered(&source, 0); /* 0 = 0.2 */

    for (size_t i = 0; i < sizeof ns / sizeof ns[0]; i++) {
        cr_assert_eq(troupe_backoff_delay_ns(&policy, i), ns[i], "%zu", i);
    }
    cr_assert_eq(source.calls, 10);
}

Test(backoff, jitter_spreads_from_one_minus_to_one_plus_its_share)
{
    struct source source = {.fixed = 0};
    troupe_backoff policy = jittered(&source, 0.2);

    cr_assert_eq(troupe_backoff_delay_ns(&policy, 0), TROUPE_MS(80));
    source.fixed = 0.5;
    cr_assert_eq(troupe_backoff_delay_ns(&policy, 0), TROUPE_MS(100));
    source.fixed = 1 - 0x1p-53;
    cr_assert_eq(troupe_backoff_delay_ns(&policy, 0), TROUPE_MS(120));
    policy.jitter = 1;
    source.fixed = 0;
    cr_assert_eq(troupe_backoff_delay_ns(&policy, 0), 0);
}

Test(backoff, the_source_is_not_asked_without_jitter)
{
    struct source source = {.fixed = 0};
    troupe_backoff policy = jittered(&source, TROUPE_JITTER_NONE);

    cr_assert_eq(troupe_backoff_delay_ns(&policy, 1), TROUPE_MS(200));
    cr_assert_eq(source.calls, 0);
}

Test(backoff, clamp_keeps_minimum_and_maximum_after_the_jitter)
{
    struct source source = {.fixed = 0};
    troupe_backoff policy = jittered(&source, 0.2);

    policy.flags = TROUPE_BACKOFF_CLAMP_JITTER;
    cr_assert_eq(troupe_backoff_delay_ns(&policy, 0), TROUPE_MS(100));
    cr_assert_eq(troupe_backoff_delay_ns(&policy, 1), TROUPE_MS(160));
    cr_assert_eq(troupe_backoff_delay_ns(&policy, 20), TROUPE_MS(8000));
    source.fixed = 0.99;
    cr_assert_eq(troupe_backoff_delay_ns(&policy, 20), TROUPE_MS(10000));
}

/* What a source of the user's says is not checked, but never undefined. */
Test(backoff, a_source_out_of_range_gives_a_saturated_delay)
{
    struct source source = {.fixed = (double)NAN};
    troupe_backoff policy = jittered(&source, 0.2);

    cr_assert_eq(troupe_backoff_delay_ns(&policy, 0), 0);
    source.fixed = 1e300;
    cr_assert_eq(troupe_backoff_delay_ns(&policy, 0), UINT64_MAX);
    source.fixed = (double)INFINITY;
    cr_assert_eq(troupe_backoff_delay_ns(&policy, 0), UINT64_MAX);
}

Test(backoff, the_largest_delay_with_jitter_saturates)
{
    struct source source = {.fixed = 0.75};
    troupe_backoff policy = jittered(&source, 0.2);

    policy.max_ns = UINT64_MAX;
    cr_assert_eq(troupe_backoff_delay_ns(&policy, UINT64_MAX), UINT64_MAX);
    source.fixed = 0.5;
    cr_assert_eq(troupe_backoff_delay_ns(&policy, UINT64_MAX), UINT64_MAX);
}

Test(backoff, the_threads_own_generator_spreads_too)
{
    troupe_backoff policy = jittered(NULL, 0.5);
    uint32_t low = 0;
    uint32_t high = 0;

    policy.random = NULL;
    for (int i = 0; i < 1000; i++) {
        uint64_t delay_ns = troupe_backoff_delay_ns(&policy, 0);

        cr_assert(delay_ns >= TROUPE_MS(50) && delay_ns <= TROUPE_MS(150));
        low += delay_ns < TROUPE_MS(75);
        high += delay_ns >= TROUPE_MS(125);
    }
    /* Binomial: 250 expected each, standard deviation 14; ten of them. */
    cr_assert(low > 110 && low < 390, "%u", low);
    cr_assert(high > 110 && high < 390, "%u", high);
}

static troupe_verdict
ask_for_delay(troupe_self *self, const troupe_msg *msg, void *user)
{
    troupe_backoff policy = jittered(NULL, 0.5);

    (void)self;
    (void)msg;
    policy.random = NULL;
    *(uint64_t *)user = troupe_backoff_delay_ns(&policy, 0);
    return TROUPE_CONTINUE;
}

static uint64_t
delay_in_simulation(uint64_t seed)
{
    troupe_system *system = test_open_driven(seed);
    uint64_t delay_ns = 0;

    test_do(system, test_spawn_doer(system, NULL), ask_for_delay, &delay_ns);
    test_close(system);
    return delay_ns;
}

Test(backoff, in_a_simulation_the_seed_decides)
{
    uint64_t first_ns = delay_in_simulation(7);

    cr_assert_eq(delay_in_simulation(7), first_ns);
    cr_assert_neq(delay_in_simulation(8), first_ns);
}

/* --- a delay of one's own ------------------------------------------------- */

static uint64_t
fibonacci(uint64_t attempt, void *user)
{
    uint64_t a = 100;
    uint64_t b = 100;

    (*(uint32_t *)user)++;
    for (uint64_t i = 0; i < attempt && b < TROUPE_S(1); i++) {
        uint64_t next = a + b;

        a = b;
        b = next;
    }
    return TROUPE_MS(a);
}

Test(backoff, a_delay_function_replaces_the_formula)
{
    static const uint64_t ms[] = {100, 100, 200, 300, 500, 800, 1000, 1000};
    troupe_backoff policy = policy_of(TROUPE_BACKOFF_LINEAR, 0, 1000);
    struct source source = {.fixed = 0};
    uint32_t calls = 0;

    policy.delay = fibonacci;
    policy.delay_user = &calls;
    for (size_t i = 0; i < sizeof ms / sizeof ms[0]; i++) {
        cr_assert_eq(
            troupe_backoff_delay_ns(&policy, i), TROUPE_MS(ms[i]), "%zu", i);
    }
    cr_assert_eq(calls, 8);
    policy.jitter = 0.2;
    policy.random = draw;
    policy.random_user = &source;
    cr_assert_eq(troupe_backoff_delay_ns(&policy, 3), TROUPE_MS(240));
    /* The maximum comes before the jitter. */
    cr_assert_eq(troupe_backoff_delay_ns(&policy, 90), TROUPE_MS(800));
}

/* --- what is refused ------------------------------------------------------ */

static void
is_refused(
    const troupe_backoff *policy, troupe_status status, const char *option)
{
    cr_assert_eq(troupe_backoff_check(policy), status);
    cr_assert_str_eq(troupe_last_error().call, "troupe_backoff_check");
    cr_assert_str_eq(troupe_last_error().option, option);
    cr_assert_eq(troupe_backoff_delay_ns(policy, 3), 0);
}

Test(backoff, what_checks_is_accepted)
{
    troupe_backoff policy = policy_of(TROUPE_BACKOFF_EXPONENTIAL, 0, 1);

    cr_assert_eq(troupe_backoff_check(&policy), TROUPE_OK);
    policy.min_ns = policy.max_ns;
    cr_assert_eq(troupe_backoff_check(&policy), TROUPE_OK);
    policy.jitter = 1;
    policy.flags = TROUPE_BACKOFF_CLAMP_JITTER;
    cr_assert_eq(troupe_backoff_check(&policy), TROUPE_OK);
}

Test(backoff, bad_policies_are_refused_by_name)
{
    const troupe_backoff good = policy_of(TROUPE_BACKOFF_LINEAR, 1, 1000);
    troupe_backoff policy = good;
    static const double jitters[] = {
        (double)NAN, (double)INFINITY, -(double)INFINITY, -0.1, -2, 1.0001};

    is_refused(NULL, TROUPE_E_INVALID, "backoff");
    policy.size = 0;
    is_refused(&policy, TROUPE_E_INVALID, "size");
    policy = good;
    policy.min_ns = policy.max_ns + 1;
    is_refused(&policy, TROUPE_E_INVALID, "backoff.min_ns");
    policy = good;
    policy.min_ns = policy.max_ns = 0;
    is_refused(&policy, TROUPE_E_INVALID, "backoff.max_ns");
    policy = good;
    policy.kind = (troupe_backoff_kind)2;
    is_refused(&policy, TROUPE_E_INVALID, "backoff.kind");
    policy = good;
    policy.flags = 2;
    is_refused(&policy, TROUPE_E_INVALID, "backoff.flags");
    for (size_t i = 0; i < sizeof jitters / sizeof jitters[0]; i++) {
        policy = good;
        policy.jitter = jitters[i];
        is_refused(&policy, TROUPE_E_INVALID, "backoff.jitter");
    }
}

Test(backoff, a_policy_of_a_newer_header_is_refused_if_it_says_more)
{
    struct {
        troupe_backoff policy;
        uint64_t more;
    } newer = {policy_of(TROUPE_BACKOFF_LINEAR, 1, 1000), 0};

    newer.policy.size = sizeof newer;
    cr_assert_eq(troupe_backoff_check(&newer.policy), TROUPE_OK);
    newer.more = 1;
    is_refused(&newer.policy, TROUPE_E_VERSION, "size");
}
