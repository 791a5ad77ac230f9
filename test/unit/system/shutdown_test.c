/* SPDX-License-Identifier: MIT */
#include "system/shutdown.h"

#include <troupe/troupe.h>

#include <criterion/criterion.h>

#include <stdlib.h>

/* How long a stop waits, on a clock that stands at START. */

#define START UINT64_C(1000)
#define S UINT64_C(1000000000)

static troupe_system *system_;

static void
open_with(uint64_t grace_ns)
{
    troupe_system_options options = TROUPE_INIT(troupe_system_options);

    options.flags = TROUPE_SYSTEM_DRIVEN;
    options.log.max_level = TROUPE_LOG_OFF;
    options.stop_grace_ns = grace_ns;
    cr_assert_eq(troupe_system_create(&options, &system_), TROUPE_OK);
}

static void
close_it(void)
{
    cr_assert_eq(troupe_system_destroy(system_), TROUPE_OK);
}

static void
setup(void)
{
    cr_assert_eq(unsetenv("TROUPE_STOP_GRACE_MS"), 0);
}

TestSuite(system_shutdown, .init = setup, .fini = close_it);

static troupe_status
do_nothing(troupe_system *system, const char *reason, void *user)
{
    (void)system;
    (void)reason;
    (void)user;
    return TROUPE_OK;
}

static void
add(const char *phase, const char *name)
{
    cr_assert_eq(
        troupe_shutdown_add(system_, phase, name, do_nothing, NULL), TROUPE_OK);
}

static void
add_phase(const char *name, uint64_t timeout_ns)
{
    troupe_phase_options options = TROUPE_INIT(troupe_phase_options);

    options.name = name;
    options.timeout_ns = timeout_ns;
    cr_assert_eq(troupe_shutdown_add_phase(system_, &options), TROUPE_OK);
}

static uint64_t
phases(void)
{
    return trp_shutdown_phases_until(system_, START) - START;
}

static uint64_t
actors(uint64_t phases_until_ns, uint64_t now_ns)
{
    return trp_shutdown_actors_until(system_, phases_until_ns, now_ns);
}

Test(system_shutdown, without_tasks_a_stop_waits_for_the_grace)
{
    open_with(0);
    add_phase("empty", 100 * S);
    cr_expect_eq(phases(), 5 * S);
}

Test(system_shutdown, the_default_grace_comes_after_what_the_phases_may_take)
{
    open_with(0);
    add(TROUPE_PHASE_STOP, "one");
    cr_expect_eq(phases(), 10 * S);
    add(TROUPE_PHASE_STOP, "beside it");
    cr_expect_eq(phases(), 10 * S);
    add(TROUPE_PHASE_BEFORE_STOP, "before it");
    cr_expect_eq(phases(), 15 * S);
    add_phase("long", 60 * S);
    add("long", "task");
    cr_expect_eq(phases(), 75 * S);
    /* Whether they are early or late, the actors have as much. */
    cr_expect_eq(actors(START + 75 * S, START), START + 5 * S);
    cr_expect_eq(actors(START + 75 * S, START + 74 * S), START + 79 * S);
}

Test(system_shutdown, a_phase_without_a_deadline_is_waited_for)
{
    open_with(0);
    add_phase("endless", TROUPE_FOREVER);
    add("endless", "task");
    add(TROUPE_PHASE_STOP, "one");
    cr_expect_eq(trp_shutdown_phases_until(system_, START), UINT64_MAX);
    cr_expect_eq(actors(UINT64_MAX, START), START + 5 * S);
}

Test(system_shutdown, phases_that_are_over_are_not_waited_for_again)
{
    open_with(0);
    add(TROUPE_PHASE_STOP, "one");
    troupe_system_request_stop(system_);
    cr_expect_eq(phases(), 10 * S);
    cr_assert_eq(troupe_system_run(system_, 0, NULL), TROUPE_E_CLOSED);
    cr_expect_eq(phases(), 5 * S);
}

Test(system_shutdown, a_grace_that_was_chosen_is_for_everything)
{
    open_with(7 * S);
    add(TROUPE_PHASE_STOP, "one");
    cr_expect_eq(phases(), 7 * S);
    cr_expect_eq(actors(START + 7 * S, START + 6 * S), START + 7 * S);
}

Test(system_shutdown, one_of_the_environment_was_chosen_whatever_it_is)
{
    cr_assert_eq(setenv("TROUPE_STOP_GRACE_MS", "5000", 1), 0);
    open_with(0);
    add(TROUPE_PHASE_STOP, "one");
    cr_expect_eq(phases(), 5 * S);
    cr_expect_eq(actors(START + 5 * S, START + 4 * S), START + 5 * S);
}
