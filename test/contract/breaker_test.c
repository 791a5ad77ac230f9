/* SPDX-License-Identifier: MIT */
#include "support/system.h"

#include <troupe/testkit.h>

#include <criterion/criterion.h>

#include <string.h>

/* A breaker in virtual time. */

static troupe_system *the_system;
static troupe_breaker *the_breaker;

static struct {
    troupe_breaker_state state[64];
    uint32_t count;
} told;

static void
listen(troupe_breaker *breaker, troupe_breaker_state state, void *user)
{
    cr_assert_eq(user, &told);
    cr_assert(the_breaker == NULL || breaker == the_breaker);
    told.state[told.count++] = state;
}

/* All but this code. */
static bool
all_but_404(troupe_status status, int32_t code, void *user)
{
    cr_assert_neq(status, TROUPE_OK, "asked about a success");
    cr_assert_eq(user, &told);
    return code != 404;
}

static troupe_breaker_options
options_for(uint32_t max_failures, uint64_t reset_ns)
{
    troupe_breaker_options options = TROUPE_INIT(troupe_breaker_options);

    options.name = "test";
    options.max_failures = max_failures;
    options.reset_ns = reset_ns;
    options.counts = all_but_404;
    options.listen = listen;
    options.user = &told;
    return options;
}

static void
open_breaker(const troupe_breaker_options *options)
{
    memset(&told, 0, sizeof told);
    test_require(
        troupe_breaker_create(the_system, options, &the_breaker) == TROUPE_OK);
}

/* 3 failures in a row, 100 ms. */
static void
setup(void)
{
    troupe_breaker_options options = options_for(3, TROUPE_MS(100));

    the_system = test_open_driven(1);
    open_breaker(&options);
}

static void
teardown(void)
{
    troupe_breaker_destroy(the_breaker);
    test_close(the_system);
}

TestSuite(breaker, .init = setup, .fini = teardown);

static void
replace_breaker(uint32_t max_failures, uint64_t reset_ns)
{
    troupe_breaker_options options = options_for(max_failures, reset_ns);

    troupe_breaker_destroy(the_breaker);
    open_breaker(&options);
}

static void
pass(uint64_t by_ns)
{
    cr_assert_eq(troupe_system_advance(the_system, by_ns), TROUPE_OK);
}

static troupe_permit
enter(void)
{
    troupe_permit permit = {0};

    cr_assert_eq(troupe_breaker_enter(the_breaker, &permit), TROUPE_OK);
    cr_assert_neq(permit.id, 0);
    return permit;
}

static void
is_open(void)
{
    troupe_permit permit = {17};

    cr_assert_eq(troupe_breaker_enter(the_breaker, &permit), TROUPE_E_OPEN);
    cr_assert_eq(permit.id, 17, "written without success");
}

static void
succeed(troupe_permit permit)
{
    troupe_breaker_leave(the_breaker, permit, TROUPE_OK, 0);
}

static void
fail(troupe_permit permit)
{
    troupe_breaker_leave(the_breaker, permit, TROUPE_E_TIMEOUT, 0);
}

static void
fail_uncounted(troupe_permit permit)
{
    troupe_breaker_leave(the_breaker, permit, TROUPE_E_FAILED, 404);
}

static void
fail_times(uint32_t times)
{
    for (uint32_t i = 0; i < times; i++) {
        fail(enter());
    }
}

static void
is_in(troupe_breaker_state state)
{
    cr_assert_eq(troupe_breaker_state_now(the_breaker), state);
}

/* What the listener has been told so far. */
static void
was_told(uint32_t count, const troupe_breaker_state *states)
{
    cr_assert_eq(told.count, count, "told %u times", told.count);
    for (uint32_t i = 0; i < count; i++) {
        cr_assert_eq(told.state[i], states[i], "change %u", i);
    }
}

#define CLOSED TROUPE_BREAKER_CLOSED
#define OPEN TROUPE_BREAKER_OPEN
#define HALF_OPEN TROUPE_BREAKER_HALF_OPEN
#define TOLD(...)                                                              \
    was_told(sizeof((troupe_breaker_state[]){__VA_ARGS__}) /                   \
                 sizeof(troupe_breaker_state),                                 \
        (troupe_breaker_state[]){__VA_ARGS__})

/* Open, its time is up. */
static void
open_and_wait(void)
{
    fail_times(3);
    pass(TROUPE_MS(100));
}

/* --- closed and open ------------------------------------------------------ */

Test(breaker, a_new_breaker_is_closed)
{
    is_in(CLOSED);
    succeed(enter());
    is_in(CLOSED);
    was_told(0, NULL);
}

Test(breaker, so_many_failures_in_a_row_open_it)
{
    fail_times(2);
    is_in(CLOSED);
    fail_times(1);
    is_in(OPEN);
    is_open();
    TOLD(OPEN);
}

Test(breaker, a_success_ends_a_row)
{
    for (int i = 0; i < 10; i++) {
        fail_times(2);
        succeed(enter());
    }
    is_in(CLOSED);
    fail_times(3);
    is_in(OPEN);
}

Test(breaker, an_outcome_that_does_not_count_neither_counts_nor_ends_a_row)
{
    fail_times(2);
    for (int i = 0; i < 10; i++) {
        fail_uncounted(enter());
    }
    is_in(CLOSED);
    fail_times(1);
    is_in(OPEN);
}

Test(breaker, without_a_function_all_failures_count)
{
    troupe_breaker_options options = TROUPE_INIT(troupe_breaker_options);

    options.max_failures = 1;
    options.reset_ns = TROUPE_RESET_AT_ONCE;
    troupe_breaker_destroy(the_breaker);
    open_breaker(&options);
    succeed(enter());
    is_in(CLOSED);
    fail_uncounted(enter());
    is_in(OPEN);
    was_told(0, NULL);
}

Test(breaker, calls_at_the_same_time_are_one_row)
{
    troupe_permit permits[3] = {enter(), enter(), enter()};

    for (int i = 0; i < 3; i++) {
        fail(permits[i]);
    }
    is_in(OPEN);
}

Test(breaker, the_largest_number_of_failures_is_not_reached_soon)
{
    replace_breaker(UINT32_MAX, 1);
    fail_times(1000);
    is_in(CLOSED);
    succeed(enter());
    is_in(CLOSED);
}

/* --- half open ------------------------------------------------------------ */

Test(breaker, it_stays_open_until_its_time_is_up)
{
    fail_times(3);
    pass(TROUPE_MS(100) - 1);
    is_open();
    pass(1);
    (void)enter();
    TOLD(OPEN, HALF_OPEN);
}

Test(breaker, time_alone_does_not_half_open_it)
{
    open_and_wait();
    is_in(OPEN);
    TOLD(OPEN);
}

Test(breaker, one_call_probes_and_others_are_refused)
{
    open_and_wait();
    (void)enter();
    is_in(HALF_OPEN);
    is_open();
    pass(TROUPE_S(1000));
    is_open();
}

Test(breaker, a_probe_that_succeeds_closes_it)
{
    open_and_wait();
    succeed(enter());
    is_in(CLOSED);
    TOLD(OPEN, HALF_OPEN, CLOSED);
    /* From nought. */
    fail_times(2);
    is_in(CLOSED);
}

Test(breaker, a_probe_that_fails_opens_it_for_the_full_time)
{
    troupe_permit probe;

    open_and_wait();
    probe = enter();
    pass(TROUPE_MS(50));
    fail(probe);
    is_in(OPEN);
    TOLD(OPEN, HALF_OPEN, OPEN);
    pass(TROUPE_MS(99));
    is_open();
    pass(TROUPE_MS(1));
    (void)enter();
}

Test(breaker, a_probe_that_does_not_count_is_followed_by_another)
{
    open_and_wait();
    fail_uncounted(enter());
    is_in(HALF_OPEN);
    fail_uncounted(enter());
    succeed(enter());
    is_in(CLOSED);
    TOLD(OPEN, HALF_OPEN, CLOSED);
}

Test(breaker, reset_at_once_probes_with_the_next_call)
{
    replace_breaker(1, TROUPE_RESET_AT_ONCE);
    for (int i = 0; i < 5; i++) {
        fail(enter());
        is_in(OPEN);
    }
    succeed(enter());
    is_in(CLOSED);
}

Test(breaker, the_longest_time_but_one_never_ends)
{
    replace_breaker(1, UINT64_MAX - 1);
    pass(TROUPE_S(1));
    fail_times(1);
    pass(UINT64_MAX / 2);
    is_open();
}

/* --- late results --------------------------------------------------------- */

Test(breaker, a_result_of_an_earlier_state_changes_nothing)
{
    troupe_permit old[5] = {enter(), enter(), enter(), enter(), enter()};

    open_and_wait();
    succeed(old[0]);
    is_in(OPEN);
    (void)enter();
    succeed(old[1]);
    fail(old[2]);
    is_in(HALF_OPEN);
    is_open();
    troupe_breaker_force(the_breaker, TROUPE_BREAKER_CLOSED);
    fail_times(2);
    fail(old[3]);
    is_in(CLOSED);
    succeed(old[4]); /* does not end the row */
    fail_times(1);
    is_in(OPEN);
}

Test(breaker, the_permit_of_an_earlier_probe_is_late)
{
    troupe_permit first, second;

    open_and_wait();
    first = enter();
    fail_uncounted(first);
    second = enter();
    succeed(first);
    is_in(HALF_OPEN);
    fail(first);
    is_in(HALF_OPEN);
    fail(second);
    is_in(OPEN);
    succeed(second);
    is_in(OPEN);
}

Test(breaker, a_permit_that_nobody_gave_out_is_ignored)
{
    fail_times(2);
    fail((troupe_permit){0});
    fail((troupe_permit){UINT64_MAX});
    is_in(CLOSED);
    fail_times(1);
    for (uint64_t id = 0; id < 10; id++) {
        succeed((troupe_permit){id});
    }
    is_in(OPEN);
}

/* --- forced --------------------------------------------------------------- */

Test(breaker, a_forced_state_is_told_once)
{
    troupe_breaker_force(the_breaker, TROUPE_BREAKER_CLOSED);
    was_told(0, NULL);
    troupe_breaker_force(the_breaker, TROUPE_BREAKER_OPEN);
    troupe_breaker_force(the_breaker, TROUPE_BREAKER_OPEN);
    troupe_breaker_force(the_breaker, TROUPE_BREAKER_HALF_OPEN);
    troupe_breaker_force(the_breaker, TROUPE_BREAKER_HALF_OPEN);
    troupe_breaker_force(the_breaker, TROUPE_BREAKER_CLOSED);
    troupe_breaker_force(the_breaker, (troupe_breaker_state)3);
    troupe_breaker_force(the_breaker, (troupe_breaker_state)-1);
    TOLD(OPEN, HALF_OPEN, CLOSED);
    is_in(CLOSED);
}

Test(breaker, forced_open_it_probes_after_its_time)
{
    troupe_breaker_force(the_breaker, TROUPE_BREAKER_OPEN);
    pass(TROUPE_MS(60));
    troupe_breaker_force(the_breaker, TROUPE_BREAKER_OPEN); /* as it was */
    pass(TROUPE_MS(39));
    is_open();
    pass(TROUPE_MS(1));
    succeed(enter());
    is_in(CLOSED);
}

Test(breaker, forced_half_open_the_next_call_probes)
{
    troupe_breaker_force(the_breaker, TROUPE_BREAKER_HALF_OPEN);
    fail(enter());
    is_in(OPEN);
    is_open();
}

Test(breaker, forced_half_open_while_a_probe_is_out_changes_nothing)
{
    troupe_permit probe;

    open_and_wait();
    probe = enter();
    troupe_breaker_force(the_breaker, TROUPE_BREAKER_HALF_OPEN);
    is_open();
    succeed(probe);
    is_in(CLOSED);
}

Test(breaker, forcing_makes_a_lost_probe_late)
{
    troupe_permit lost;

    open_and_wait();
    lost = enter();
    troupe_breaker_force(the_breaker, TROUPE_BREAKER_CLOSED);
    succeed(enter());
    fail(lost);
    fail_times(2);
    is_in(CLOSED);
}

Test(breaker, forced_closed_it_counts_from_nought)
{
    fail_times(3);
    troupe_breaker_force(the_breaker, TROUPE_BREAKER_CLOSED);
    fail_times(2);
    is_in(CLOSED);
}

/* --- the listener --------------------------------------------------------- */

static void
meddle(troupe_breaker *breaker, troupe_breaker_state state, void *user)
{
    static bool inside;
    troupe_permit permit;

    cr_assert_not(inside, "one at a time");
    inside = true;
    listen(breaker, state, user);
    if (told.count == 1) {
        cr_assert_eq(troupe_breaker_enter(breaker, &permit), TROUPE_E_OPEN);
        troupe_breaker_force(breaker, TROUPE_BREAKER_HALF_OPEN);
        cr_assert_eq(
            troupe_breaker_state_now(breaker), TROUPE_BREAKER_HALF_OPEN);
        cr_assert_eq(troupe_breaker_enter(breaker, &permit), TROUPE_OK);
        troupe_breaker_leave(breaker, permit, TROUPE_OK, 0);
    }
    inside = false;
}

Test(breaker, the_listener_may_use_the_breaker_and_is_told_afterwards)
{
    troupe_breaker_options options = options_for(3, TROUPE_MS(100));

    options.listen = meddle;
    troupe_breaker_destroy(the_breaker);
    open_breaker(&options);
    fail_times(3);
    TOLD(OPEN, HALF_OPEN, CLOSED);
    is_in(CLOSED);
}

/* Makes 101 changes while it is told of the first; ends open. */
static void
flap(troupe_breaker *breaker, troupe_breaker_state state, void *user)
{
    listen(breaker, state, user);
    for (int i = 0; told.count == 1 && i < 101; i++) {
        troupe_breaker_force(breaker,
            i % 2 == 0 ? TROUPE_BREAKER_CLOSED : TROUPE_BREAKER_HALF_OPEN);
    }
    if (told.count == 1) {
        troupe_breaker_force(breaker, TROUPE_BREAKER_OPEN);
    }
}

Test(breaker, a_listener_that_falls_far_behind_misses_some_but_not_the_last)
{
    troupe_breaker_options options = options_for(1, TROUPE_MS(100));

    options.listen = flap;
    troupe_breaker_destroy(the_breaker);
    open_breaker(&options);
    fail_times(1);
    cr_assert_eq(told.count, 1 + 32);
    for (uint32_t i = 1; i < 32; i++) {
        cr_assert_eq(told.state[i], i % 2 == 1 ? CLOSED : HALF_OPEN, "%u", i);
    }
    cr_assert_eq(told.state[32], OPEN);
    is_in(OPEN);
}

/* --- inside a behaviour --------------------------------------------------- */

static troupe_verdict
use_inside(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)self;
    (void)msg;
    (void)user;
    fail_times(3);
    is_open();
    return TROUPE_CONTINUE;
}

Test(breaker, actors_and_threads_share_one)
{
    test_do(the_system, test_spawn_doer(the_system, NULL), use_inside, NULL);
    is_open();
}

/* --- create and destroy --------------------------------------------------- */

static void
is_refused(const troupe_breaker_options *options, const char *option)
{
    troupe_breaker *breaker = the_breaker;

    cr_assert_eq(
        troupe_breaker_create(the_system, options, &breaker), TROUPE_E_INVALID);
    cr_assert_str_eq(troupe_last_error().call, "troupe_breaker_create");
    cr_assert_str_eq(troupe_last_error().option, option);
    cr_assert_eq(breaker, the_breaker);
}

Test(breaker, bad_options_are_refused_by_name)
{
    const troupe_breaker_options good = options_for(1, 1);
    troupe_breaker_options options = good;
    char longest[65];
    troupe_breaker *breaker;

    is_refused(NULL, "options");
    options.size = 0;
    is_refused(&options, "size");
    options = good;
    options.max_failures = 0;
    is_refused(&options, "max_failures");
    options = good;
    options.reset_ns = 0;
    is_refused(&options, "reset_ns");
    options = good;
    options.reserved = 1;
    is_refused(&options, "reserved");
    options = good;
    options.name = "";
    is_refused(&options, "name");
    options.name = "two\nlines";
    is_refused(&options, "name");
    memset(longest, 'x', sizeof longest);
    longest[64] = '\0';
    options.name = longest;
    is_refused(&options, "name");
    longest[63] = '\0';
    cr_assert_eq(
        troupe_breaker_create(the_system, &options, &breaker), TROUPE_OK);
    troupe_breaker_destroy(breaker);
    cr_assert_eq(
        troupe_breaker_create(the_system, &good, NULL), TROUPE_E_INVALID);
    cr_assert_str_eq(troupe_last_error().option, "breaker");
    cr_assert_eq(
        troupe_breaker_create(NULL, &good, &breaker), TROUPE_E_INVALID);
    cr_assert_str_eq(troupe_last_error().option, "system");
}

Test(breaker, calls_on_nothing_are_harmless)
{
    troupe_permit permit = {17};

    cr_assert_eq(troupe_breaker_enter(NULL, &permit), TROUPE_E_INVALID);
    cr_assert_str_eq(troupe_last_error().option, "breaker");
    cr_assert_eq(troupe_breaker_enter(the_breaker, NULL), TROUPE_E_INVALID);
    cr_assert_str_eq(troupe_last_error().option, "permit");
    troupe_breaker_leave(NULL, permit, TROUPE_OK, 0);
    troupe_breaker_force(NULL, TROUPE_BREAKER_OPEN);
    troupe_breaker_destroy(NULL);
    cr_assert_eq(troupe_breaker_state_now(NULL), TROUPE_BREAKER_CLOSED);
    is_in(CLOSED);
}

Test(breaker, a_system_with_an_open_breaker_is_not_destroyed)
{
    cr_assert_eq(troupe_system_destroy(the_system), TROUPE_E_STATE);
    cr_assert_str_eq(troupe_last_error().option, "system");
    succeed(enter());
}

Test(breaker, without_memory_none_is_created)
{
    troupe_breaker_options options = options_for(1, 1);
    troupe_breaker *breaker = NULL;

    troupe_fail_allocation(the_system, 1);
    cr_assert_eq(
        troupe_breaker_create(the_system, &options, &breaker), TROUPE_E_NOMEM);
    cr_assert_null(breaker);
    troupe_fail_allocation(the_system, 0);
}

static int
use_in_child(void)
{
    troupe_breaker_options options = options_for(1, 1);
    troupe_permit permit = {17};
    troupe_breaker *breaker;

    if (troupe_breaker_enter(the_breaker, &permit) != TROUPE_E_FORKED ||
        troupe_last_error().status != TROUPE_E_FORKED || permit.id != 17 ||
        troupe_breaker_create(the_system, &options, &breaker) !=
            TROUPE_E_FORKED) {
        return 1;
    }
    troupe_breaker_leave(the_breaker, permit, TROUPE_OK, 0);
    troupe_breaker_force(the_breaker, TROUPE_BREAKER_OPEN);
    if (troupe_breaker_state_now(the_breaker) != TROUPE_BREAKER_CLOSED ||
        told.count != 0) {
        return 2;
    }
    troupe_breaker_destroy(the_breaker);
    return troupe_system_destroy(the_system) == TROUPE_OK ? 0 : 3;
}

Test(breaker, a_forked_child_has_none)
{
    cr_assert_eq(test_in_child(use_in_child), 0);
    succeed(enter());
}
