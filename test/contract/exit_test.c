/* SPDX-License-Identifier: MIT */
#include "support/system.h"

#include <troupe/port.h>

#include <criterion/criterion.h>

#include <string.h>

/* Death notices, as a port gets them. */

static troupe_system *the_system;
static troupe_port *port;

static void
setup(void)
{
    the_system = test_open_driven(0);
    cr_assert_eq(troupe_port_open(the_system, NULL, &port), TROUPE_OK);
}

static void
teardown(void)
{
    troupe_port_close(port);
    test_close(the_system);
}

TestSuite(exit, .init = setup, .fini = teardown);

static troupe_exit
expect_notice(troupe_ref subject)
{
    const troupe_msg *msg = troupe_port_next(port);
    const troupe_exit *exit;

    cr_assert_not_null(msg);
    cr_assert_eq(troupe_msg_tag(msg), TROUPE_TAG_DOWN);
    cr_assert(troupe_ref_is_none(msg->sender));
    cr_assert_eq(msg->bytes, sizeof(troupe_exit));
    exit = troupe_down(msg);
    cr_assert_not_null(exit);
    cr_assert(troupe_ref_equal(exit->actor, subject));
    return *exit;
}

static troupe_verdict
answer(troupe_self *self, const troupe_msg *msg, void *user)
{
    troupe_verdict verdict = *(troupe_verdict *)user;

    (void)msg;
    if (verdict == TROUPE_FAILED) {
        return troupe_fail(self, 3);
    }
    return verdict;
}

static void
expect_kind(troupe_verdict verdict, troupe_exit_kind kind, int32_t code)
{
    troupe_ref doer = test_spawn_mortal_doer(the_system);
    troupe_exit exit;

    cr_assert_eq(troupe_port_watch(port, doer), TROUPE_OK);
    test_do(the_system, doer, answer, &verdict);
    exit = expect_notice(doer);
    cr_assert_eq(exit.kind, kind);
    cr_assert_eq(exit.code, code);
    cr_assert_null(troupe_port_next(port));
}

Test(exit, of_one_that_said_done)
{
    expect_kind(TROUPE_DONE, TROUPE_EXIT_DONE, 0);
}

Test(exit, of_one_that_failed)
{
    expect_kind(TROUPE_FAILED, TROUPE_EXIT_FAILED, 3);
}

Test(exit, of_one_with_a_verdict_that_does_not_exist)
{
    expect_kind((troupe_verdict)-7, TROUPE_EXIT_FAILED, TROUPE_E_INVALID);
}

Test(exit, of_one_that_was_stopped)
{
    troupe_ref doer = test_spawn_doer(the_system, NULL);

    cr_assert_eq(troupe_port_watch(port, doer), TROUPE_OK);
    cr_assert_eq(troupe_post_stop(the_system, doer), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(expect_notice(doer).kind, TROUPE_EXIT_STOPPED);
}

static troupe_ref child;

Test(exit, of_one_whose_parent_stopped)
{
    troupe_ref parent = test_spawn_doer(the_system, NULL);

    test_do(the_system, parent, test_have_child, &child);
    cr_assert_eq(troupe_port_watch(port, parent), TROUPE_OK);
    cr_assert_eq(troupe_port_watch(port, child), TROUPE_OK);
    cr_assert_eq(troupe_post_stop(the_system, parent), TROUPE_OK);
    test_run(the_system);
    /* The child has gone when its parent goes. */
    cr_assert_eq(expect_notice(child).kind, TROUPE_EXIT_STOPPED);
    cr_assert_eq(expect_notice(parent).kind, TROUPE_EXIT_STOPPED);
}

Test(exit, of_one_that_was_gone_before_it_was_watched)
{
    troupe_ref doer = test_spawn_doer(the_system, NULL);
    troupe_exit exit;

    cr_assert_eq(troupe_post_stop(the_system, doer), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(troupe_port_watch(port, doer), TROUPE_OK);
    exit = expect_notice(doer);
    cr_assert_eq(exit.kind, TROUPE_EXIT_UNKNOWN);
    cr_assert_eq(exit.code, 0);
}

Test(exit, of_a_ref_that_never_lived)
{
    troupe_ref made_up = {123456, 789};

    cr_assert_eq(troupe_port_watch(port, made_up), TROUPE_OK);
    cr_assert_eq(expect_notice(made_up).kind, TROUPE_EXIT_UNKNOWN);
}

static troupe_verdict
send_and_end(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    for (uint64_t i = 0; i < 20; i++) {
        troupe_tell(self, *(troupe_ref *)user, &test_number, &i);
    }
    return TROUPE_DONE;
}

Test(exit, the_notice_follows_everything_the_subject_had_sent)
{
    troupe_ref doer = test_spawn_doer(the_system, NULL);
    troupe_ref to = troupe_port_ref(port);

    cr_assert_eq(troupe_port_watch(port, doer), TROUPE_OK);
    test_do(the_system, doer, send_and_end, &to);
    for (uint64_t i = 0; i < 20; i++) {
        const troupe_msg *msg = troupe_port_next(port);

        cr_assert_not_null(msg);
        cr_assert_eq(*troupe_payload(msg, uint64_t), i);
    }
    cr_assert_eq(expect_notice(doer).kind, TROUPE_EXIT_DONE);
}

Test(exit, two_incarnations_of_a_name_are_two_subjects)
{
    troupe_ref first = test_spawn_doer(the_system, "same");
    troupe_ref second;

    cr_assert_eq(troupe_port_watch(port, first), TROUPE_OK);
    cr_assert_eq(troupe_post_stop(the_system, first), TROUPE_OK);
    test_run(the_system);
    second = test_spawn_doer(the_system, "same");
    cr_assert_eq(troupe_port_watch(port, second), TROUPE_OK);
    (void)expect_notice(first);
    cr_assert_null(troupe_port_next(port));
    cr_assert_eq(troupe_post_stop(the_system, second), TROUPE_OK);
    test_run(the_system);
    (void)expect_notice(second);
}

Test(exit, the_name_is_free_when_the_notice_is_there)
{
    troupe_ref first = test_spawn_doer(the_system, "same");

    cr_assert_eq(troupe_port_watch(port, first), TROUPE_OK);
    cr_assert_eq(troupe_post_stop(the_system, first), TROUPE_OK);
    test_run(the_system);
    (void)expect_notice(first);
    (void)test_spawn_doer(the_system, "same");
}

Test(exit, many_subjects_give_one_notice_each)
{
    troupe_ref refs[300];

    for (int i = 0; i < 300; i++) {
        refs[i] = test_spawn_doer(the_system, NULL);
        cr_assert_eq(troupe_port_watch(port, refs[i]), TROUPE_OK);
    }
    for (int i = 0; i < 300; i++) {
        cr_assert_eq(troupe_post_stop(the_system, refs[i]), TROUPE_OK);
    }
    test_run(the_system);
    for (int i = 0; i < 300; i++) {
        (void)expect_notice(refs[i]);
    }
    cr_assert_null(troupe_port_next(port));
}

Test(exit, notices_are_in_the_books)
{
    troupe_ref doer = test_spawn_doer(the_system, NULL);
    troupe_counters books;

    cr_assert_eq(troupe_port_watch(port, doer), TROUPE_OK);
    cr_assert_eq(troupe_post_stop(the_system, doer), TROUPE_OK);
    test_run(the_system);
    books = test_counters(the_system);
    cr_assert_eq(books.sent, books.handled + books.dropped + books.dead +
                                 books.cancelled + books.refused +
                                 books.queued);
    cr_assert_eq(books.queued, 1);
    (void)expect_notice(doer);
    books = test_counters(the_system);
    cr_assert_eq(books.queued, 0);
    cr_assert_eq(books.handled, 1);
}
