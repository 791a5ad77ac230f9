/* SPDX-License-Identifier: MIT */
#include "support/system.h"

#include "support/await.h"

#include <troupe/testkit.h>

#include <criterion/criterion.h>

#include <stdatomic.h>

Test(deadletter, every_reason_has_a_name)
{
    cr_assert_str_eq(troupe_dead_reason_name(TROUPE_DEAD_STOPPED), "stopped");
    cr_assert_str_eq(troupe_dead_reason_name(TROUPE_DEAD_REFUSED), "refused");
    cr_assert_str_eq(
        troupe_dead_reason_name(TROUPE_DEAD_UNHANDLED), "unhandled");
    cr_assert_str_eq(
        troupe_dead_reason_name(TROUPE_DEAD_NO_SENDER), "no_sender");
    cr_assert_not_null(troupe_dead_reason_name((troupe_dead_reason)99));
}

Test(deadletter, the_numbers_are_labels)
{
    cr_assert_eq(TROUPE_DEAD_STOPPED, 0);
    cr_assert_eq(TROUPE_DEAD_REFUSED, 1);
    cr_assert_eq(TROUPE_DEAD_UNHANDLED, 3);
    cr_assert_eq(TROUPE_DEAD_NO_SENDER, 8);
}

TEST_DRIVEN_SUITE(deadletter_hook);

Test(deadletter_hook, shows_the_message_with_its_sender)
{
    troupe_ref dead = test_dead_actor(the_system);
    troupe_ref sender = test_spawn_doer(the_system, NULL);
    troupe_msg *msg = troupe_msg_new(the_system, &test_number, 0);
    troupe_ref alive = test_spawn_doer(the_system, NULL);

    *troupe_payload_mut(msg, uint64_t) = 31;
    cr_assert_eq(
        troupe_post_msg_from(the_system, alive, msg, sender), TROUPE_OK);
    cr_assert_eq(troupe_post_stop_now(the_system, alive), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(test_letters.total, 1);
    cr_assert_eq(test_letters.last.reason, TROUPE_DEAD_STOPPED);
    cr_assert(troupe_ref_equal(test_letters.last.sender, sender));
    cr_assert(troupe_ref_equal(test_letters.last.recipient, alive));
    cr_assert_eq(test_letters.last.number, 31);
    (void)dead;
}

/* --- a tell that cannot be stored ----------------------------------------- */

static troupe_verdict
tell_without_memory(troupe_self *self, const troupe_msg *msg, void *user)
{
    static const unsigned char bytes[5000] = {1};

    (void)msg;
    troupe_fail_allocation(the_system, 1);
    troupe_tell_bytes(
        self, *(troupe_ref *)user, &test_bytes, bytes, sizeof bytes);
    troupe_fail_allocation(the_system, 0);
    return TROUPE_CONTINUE;
}

Test(deadletter_hook, a_tell_that_could_not_be_stored_was_refused)
{
    struct test_record record = {0};
    troupe_ref to = test_spawn_recorder(the_system, NULL, &record);

    test_do(the_system, test_spawn_doer(the_system, NULL), tell_without_memory,
        &to);
    cr_assert_eq(record.count, 0);
    cr_assert_eq(test_letters.total, 1);
    cr_assert_eq(test_letters.last.reason, TROUPE_DEAD_REFUSED);
    cr_assert(troupe_ref_equal(test_letters.last.recipient, to));
    cr_assert_eq(test_counters(the_system).dead, 1);
}

/* --- the hook itself ------------------------------------------------------ */

static troupe_ref hook_target;
static uint32_t hook_calls;
static const troupe_system *hook_system;

static void
send_in_hook(
    troupe_system *system, const troupe_dead_letter *letter, void *user)
{
    uint64_t n = 1;

    (void)user;
    hook_calls++;
    hook_system = system;
    cr_assert_not_null(letter->msg);
    troupe_post_tell(system, hook_target, &test_number, &n);
}

static troupe_system *
open_with_hook(troupe_dead_letter_fn fn, void *user)
{
    troupe_system_options options = test_options();

    options.flags |= TROUPE_SYSTEM_DRIVEN;
    options.dead_letter.fn = fn;
    options.dead_letter.user = user;
    return test_open(&options);
}

Test(deadletter, the_hook_may_send)
{
    struct test_record record = {0};
    uint64_t n = 1;

    the_system = open_with_hook(send_in_hook, NULL);
    hook_target = test_spawn_recorder(the_system, NULL, &record);
    troupe_post_tell(the_system, test_dead_actor(the_system), &test_number, &n);
    test_run(the_system);
    cr_assert_eq(hook_calls, 1);
    cr_assert_eq(hook_system, the_system);
    cr_assert_eq(record.count, 1);
    test_close(the_system);
}

Test(deadletter, what_is_lost_in_the_hook_is_counted_and_not_shown_again)
{
    uint64_t n = 1;

    the_system = open_with_hook(send_in_hook, NULL);
    hook_target = test_dead_actor(the_system);
    troupe_post_tell(the_system, hook_target, &test_number, &n);
    cr_assert_eq(hook_calls, 1);
    cr_assert_eq(test_counters(the_system).dead, 2);
    troupe_post_tell(the_system, hook_target, &test_number, &n);
    cr_assert_eq(hook_calls, 2);
    cr_assert_eq(test_counters(the_system).dead, 4);
    test_close(the_system);
}

static void
use_the_library(
    troupe_system *system, const troupe_dead_letter *letter, void *user)
{
    struct test_record *record = user;
    troupe_ref found;
    char text[256];

    (void)test_counters(system);
    (void)troupe_path(system, letter->recipient, text, sizeof text);
    cr_assert_eq(troupe_lookup(system, "/user/x", &found), TROUPE_E_MISSING);
    (void)troupe_depth(system, letter->recipient);
    (void)test_spawn_recorder(system, NULL, record);
    hook_calls++;
}

static troupe_verdict
queue_and_end(troupe_self *self, const troupe_msg *msg, void *user)
{
    uint64_t n = 1;

    (void)msg;
    (void)user;
    for (int i = 0; i < 10; i++) {
        troupe_tell(self, troupe_self_ref(self), &test_number, &n);
    }
    return TROUPE_DONE;
}

Test(deadletter, the_hook_is_outside_every_lock)
{
    struct test_record record = {0};

    the_system = open_with_hook(use_the_library, &record);
    test_do(the_system, test_spawn_doer(the_system, NULL), queue_and_end, NULL);
    cr_assert_eq(hook_calls, 10);
    cr_assert_eq(record.started, 10);
    test_close(the_system);
}

Test(deadletter, without_a_hook_they_are_counted)
{
    uint64_t n = 1;

    the_system = open_with_hook(NULL, NULL);
    troupe_post_tell(the_system, test_dead_actor(the_system), &test_number, &n);
    cr_assert_eq(test_counters(the_system).dead, 1);
    test_close(the_system);
}

/* --- with workers --------------------------------------------------------- */

static _Atomic uint64_t inside_hook;

/* Waits for another call of it, then uses the library. */
static void
meet_and_use_the_library(
    troupe_system *system, const troupe_dead_letter *letter, void *user)
{
    char text[256];
    troupe_ref found;
    uint64_t n = 1;

    atomic_fetch_add(&inside_hook, 1);
    test_require(test_await_at_least(&inside_hook, 2));
    test_require(test_counters(system).dead >= 1);
    (void)troupe_path(system, letter->recipient, text, sizeof text);
    test_require(troupe_lookup(system, "/user/x", &found) == TROUPE_E_MISSING);
    test_require(troupe_depth(system, letter->recipient) == TROUPE_DEPTH_DEAD);
    (void)test_spawn_doer(system, NULL);
    troupe_post_tell(system, *(troupe_ref *)user, &test_number, &n);
}

static troupe_verdict
tell_many_times(troupe_self *self, const troupe_msg *msg, void *user)
{
    uint64_t n = 1;

    (void)msg;
    for (int i = 0; i < 100; i++) {
        troupe_tell(self, *(troupe_ref *)user, &test_number, &n);
    }
    return TROUPE_CONTINUE;
}

Test(deadletter, the_hook_runs_on_many_threads_at_once)
{
    troupe_system_options options = test_options();
    static struct test_record record;
    troupe_ref dead;

    options.workers = 2;
    options.dead_letter.fn = meet_and_use_the_library;
    options.dead_letter.user = &hook_target;
    the_system = test_open(&options);
    hook_target = test_spawn_recorder(the_system, NULL, &record);
    dead = test_spawn_doer(the_system, NULL);
    cr_assert_eq(
        troupe_stop_wait(the_system, &dead, 1, TROUPE_S(60)), TROUPE_OK);
    for (int i = 0; i < 2; i++) {
        test_do_later(the_system, test_spawn_doer(the_system, NULL),
            tell_many_times, &dead);
    }
    cr_assert_eq(troupe_system_await_idle(the_system, TROUPE_S(60)), TROUPE_OK);
    cr_assert_eq(inside_hook, 200);
    cr_assert_eq(record.count, 200);
    test_close(the_system);
}
