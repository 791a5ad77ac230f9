/* SPDX-License-Identifier: MIT */
#include "support/system.h"

#include "support/await.h"
#include "support/census.h"

#include <troupe/port.h>
#include <troupe/testkit.h>

#include <criterion/criterion.h>

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

static troupe_system *the_system;
static troupe_port *port;
static troupe_ref at;

static void
setup(void)
{
    the_system = test_open_driven(0);
    cr_assert_eq(troupe_port_open(the_system, "loop", &port), TROUPE_OK);
    at = troupe_port_ref(port);
}

static void
teardown(void)
{
    troupe_port_close(port);
    test_close(the_system);
}

TestSuite(port, .init = setup, .fini = teardown);

static bool
is_readable(const troupe_port *of)
{
    return test_is_readable(troupe_port_fd(of));
}

/* Unreadable, but for one more time: drained to NULL it must become so. */
static void
expect_empty(void)
{
    for (int i = 0; i < 2 && is_readable(port); i++) {
        cr_assert_null(troupe_port_next(port));
    }
    cr_assert_null(troupe_port_next(port));
    cr_assert_not(is_readable(port));
}

/* --- the descriptor ------------------------------------------------------- */

Test(port, a_new_one_is_empty)
{
    cr_assert_geq(troupe_port_fd(port), 0);
    cr_assert_not(is_readable(port));
    cr_assert_null(troupe_port_next(port));
}

Test(port, the_descriptor_is_readable_while_it_is_not_empty)
{
    test_post_numbers(the_system, at, 3);
    for (int i = 0; i < 3; i++) {
        cr_assert(is_readable(port));
        cr_assert_not_null(troupe_port_next(port));
    }
    expect_empty();
}

Test(port, a_loop_that_stops_half_way_is_called_again)
{
    uint64_t next = 0;

    test_post_numbers(the_system, at, 1000);
    while (is_readable(port)) {
        const troupe_msg *msg;

        for (int n = 0; n < 64 && (msg = troupe_port_next(port)); n++) {
            cr_assert_eq(*troupe_payload(msg, uint64_t), next);
            next++;
        }
        cr_assert_leq(next, 1000);
    }
    cr_assert_eq(next, 1000);
    expect_empty();
}

Test(port, it_is_readable_again_after_the_next_message)
{
    for (int i = 0; i < 200; i++) {
        test_post_number(the_system, at, 1);
        cr_assert(is_readable(port));
        cr_assert_not_null(troupe_port_next(port));
        if (i % 3 == 0) {
            expect_empty();
        } else if (i % 3 == 1) {
            cr_assert_null(troupe_port_next(port));
        }
    }
    expect_empty();
}

Test(port, nothing_is_lost_in_a_burst)
{
    test_post_numbers(the_system, at, 20000);
    for (uint64_t i = 0; i < 20000; i++) {
        const troupe_msg *msg = troupe_port_next(port);

        cr_assert_not_null(msg);
        cr_assert_eq(*troupe_payload(msg, uint64_t), i);
    }
    expect_empty();
}

/* --- receiving ------------------------------------------------------------ */

Test(port, a_message_is_borrowed_until_the_next_call)
{
    static const char text[] = "a text that is longer than a slot";
    const troupe_msg *msg;

    cr_assert_eq(
        troupe_post_bytes(the_system, at, &test_bytes, text, sizeof text),
        TROUPE_OK);
    test_post_numbers(the_system, at, 10);
    msg = troupe_port_next(port);
    cr_assert_not_null(msg);
    test_post_number(the_system, at, 7);
    test_run(the_system);
    cr_assert_str_eq((const char *)msg->payload, text);
    cr_assert_eq((uintptr_t)msg->payload % 16, 0);
    cr_assert(troupe_ref_is_none(msg->sender));
}

Test(port, what_was_taken_is_kept)
{
    troupe_msg *kept[10];

    test_post_numbers(the_system, at, 10);
    for (int i = 0; i < 10; i++) {
        troupe_msg *again = NULL;

        cr_assert_not_null(troupe_port_next(port));
        cr_assert_eq(troupe_port_take(port, &kept[i]), TROUPE_OK);
        cr_assert_eq(troupe_port_take(port, &again), TROUPE_E_STATE);
        cr_assert_null(again);
    }
    expect_empty();
    for (uint64_t i = 0; i < 10; i++) {
        cr_assert_eq(*troupe_payload(kept[i], uint64_t), i);
        troupe_msg_free(kept[i]);
    }
}

Test(port, there_is_nothing_to_take_before_the_first_and_after_the_last)
{
    troupe_msg *msg = NULL;

    cr_assert_eq(troupe_port_take(port, &msg), TROUPE_E_STATE);
    test_post_numbers(the_system, at, 1);
    cr_assert_eq(troupe_port_take(port, &msg), TROUPE_E_STATE);
    cr_assert_not_null(troupe_port_next(port));
    cr_assert_null(troupe_port_next(port));
    cr_assert_eq(troupe_port_take(port, &msg), TROUPE_E_STATE);
    cr_assert_null(msg);
}

Test(port, the_sender_of_what_it_gets_is_kept)
{
    troupe_ref sender = test_spawn_doer(the_system, NULL);
    troupe_msg *kept;

    cr_assert_eq(troupe_post_msg_from(the_system, at,
                     troupe_msg_new(the_system, &test_number, 0), sender),
        TROUPE_OK);
    cr_assert(troupe_ref_equal(troupe_port_next(port)->sender, sender));
    cr_assert_eq(troupe_port_take(port, &kept), TROUPE_OK);
    cr_assert(troupe_ref_equal(kept->sender, sender));
    troupe_msg_free(kept);
}

/* --- sending -------------------------------------------------------------- */

Test(port, it_is_the_sender_of_what_it_sends)
{
    struct test_record record = {0};
    troupe_ref to = test_spawn_recorder(the_system, NULL, &record);
    uint64_t n = 5;

    cr_assert_eq(troupe_port_send(port, to, &test_number, &n), TROUPE_OK);
    cr_assert_eq(troupe_port_send_msg(
                     port, to, troupe_msg_new(the_system, &test_number, 0)),
        TROUPE_OK);
    troupe_port_tell(port, to, &test_number, &n);
    test_run(the_system);
    cr_assert_eq(record.count, 3);
    for (int i = 0; i < 3; i++) {
        cr_assert(troupe_ref_equal(record.entry[i].sender, at));
    }
}

Test(port, replies_come_back_to_it)
{
    troupe_ref to;

    cr_assert_eq(
        troupe_system_spawn(the_system, &test_echo, NULL, &to), TROUPE_OK);
    for (uint64_t i = 0; i < 50; i++) {
        cr_assert_eq(troupe_port_send(port, to, &test_number, &i), TROUPE_OK);
    }
    test_run(the_system);
    for (uint64_t i = 0; i < 50; i++) {
        const troupe_msg *msg = troupe_port_next(port);

        cr_assert_not_null(msg);
        cr_assert_eq(*troupe_payload(msg, uint64_t), i);
        cr_assert(troupe_ref_equal(msg->sender, to));
    }
}

Test(port, sends_that_are_refused_say_so)
{
    troupe_ref dead = test_spawn_doer(the_system, NULL);
    troupe_msg *msg = troupe_msg_new(the_system, &test_number, 0);
    uint64_t n = 1;

    cr_assert_eq(troupe_post_stop(the_system, dead), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(troupe_port_send(port, dead, &test_number, &n), TROUPE_E_DEAD);
    cr_assert_eq(troupe_port_send_msg(port, dead, msg), TROUPE_E_DEAD);
    cr_assert_eq(troupe_port_send_msg(port, dead, NULL), TROUPE_E_NOMEM);
    cr_assert_eq(troupe_port_send(port, TROUPE_NONE, &test_number, &n),
        TROUPE_E_INVALID);
    cr_assert_eq(
        troupe_port_send(port, at, &test_number, NULL), TROUPE_E_INVALID);
    cr_assert_eq(test_letters.total, 0);
    troupe_port_tell(port, dead, &test_number, &n);
    cr_assert_eq(test_letters.total, 1);
    cr_assert(troupe_ref_equal(test_letters.last.sender, at));
    troupe_msg_free(msg);
}

Test(port, it_may_send_to_itself)
{
    uint64_t n = 5;

    cr_assert_eq(troupe_port_send(port, at, &test_number, &n), TROUPE_OK);
    cr_assert(troupe_ref_equal(troupe_port_next(port)->sender, at));
}

/* --- watching ------------------------------------------------------------- */

Test(port, watching_twice_is_watching_once)
{
    troupe_ref doer = test_spawn_doer(the_system, NULL);

    for (int i = 0; i < 3; i++) {
        cr_assert_eq(troupe_port_watch(port, doer), TROUPE_OK);
    }
    cr_assert_eq(troupe_post_stop(the_system, doer), TROUPE_OK);
    test_run(the_system);
    cr_assert_not_null(troupe_port_next(port));
    cr_assert_null(troupe_port_next(port));
}

Test(port, watching_nobody_and_itself_is_refused)
{
    cr_assert_eq(troupe_port_watch(port, TROUPE_NONE), TROUPE_E_INVALID);
    cr_assert_eq(troupe_port_watch(port, at), TROUPE_E_INVALID);
    cr_assert_eq(troupe_last_error().status, TROUPE_E_INVALID);
    cr_assert_eq(troupe_port_watch(NULL, at), TROUPE_E_INVALID);
}

Test(port, another_port_can_be_watched)
{
    troupe_port *other;
    troupe_ref ref;

    cr_assert_eq(troupe_port_open(the_system, NULL, &other), TROUPE_OK);
    ref = troupe_port_ref(other);
    cr_assert_eq(troupe_port_watch(port, ref), TROUPE_OK);
    troupe_port_close(other);
    cr_assert(
        troupe_ref_equal(troupe_down(troupe_port_next(port))->actor, ref));
}

Test(port, a_notice_makes_the_descriptor_readable)
{
    troupe_ref doer = test_spawn_doer(the_system, NULL);

    cr_assert_eq(troupe_port_watch(port, doer), TROUPE_OK);
    cr_assert_not(is_readable(port));
    cr_assert_eq(troupe_post_stop(the_system, doer), TROUPE_OK);
    test_run(the_system);
    cr_assert(is_readable(port));
}

Test(port, closing_ends_its_watches)
{
    troupe_ref doer = test_spawn_doer(the_system, NULL);
    uint64_t bytes = 0;

    for (int i = 0; i < 100; i++) {
        troupe_port *other;

        cr_assert_eq(troupe_port_open(the_system, NULL, &other), TROUPE_OK);
        cr_assert_eq(troupe_port_watch(other, doer), TROUPE_OK);
        troupe_port_close(other);
        if (i == 0) { /* the actor keeps the place for its watchers */
            bytes = test_counters(the_system).bytes;
        }
    }
    cr_assert_eq(test_counters(the_system).bytes, bytes);
    cr_assert_eq(troupe_post_stop(the_system, doer), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(test_letters.total, 0);
}

Test(port, it_may_watch_many_and_keeps_no_place_for_those_who_have_gone)
{
    uint64_t bytes = 0;

    for (int round = 0; round < 20; round++) {
        troupe_ref doers[100];

        for (int i = 0; i < 100; i++) {
            doers[i] = test_spawn_doer(the_system, NULL);
            cr_assert_eq(troupe_port_watch(port, doers[i]), TROUPE_OK);
        }
        for (int i = 0; i < 100; i++) {
            cr_assert_eq(troupe_post_stop(the_system, doers[i]), TROUPE_OK);
        }
        test_run(the_system);
        for (int i = 0; i < 100; i++) {
            cr_assert_not_null(troupe_down(troupe_port_next(port)));
        }
        cr_assert_null(troupe_port_next(port));
        if (round == 4) {
            bytes = test_counters(the_system).bytes;
        }
    }
    cr_assert_eq(test_counters(the_system).bytes, bytes);
}

/* --- opening and closing -------------------------------------------------- */

Test(port, a_name_that_a_port_has_is_refused)
{
    troupe_port *other = NULL;

    cr_assert_eq(troupe_port_open(the_system, "loop", &other), TROUPE_E_EXISTS);
    cr_assert_null(other);
    cr_assert_eq(troupe_last_error().status, TROUPE_E_EXISTS);
}

Test(port, a_name_is_free_again_when_it_is_closed)
{
    for (int i = 0; i < 5; i++) {
        troupe_port *other;

        cr_assert_eq(troupe_port_open(the_system, "again", &other), TROUPE_OK);
        troupe_port_close(other);
    }
}

Test(port, the_limit_of_actors_is_theirs_too)
{
    static troupe_port *ports[1000];
    troupe_system_options options = test_options();
    troupe_status status = TROUPE_OK;
    troupe_system *system;
    size_t count = 0;

    options.flags |= TROUPE_SYSTEM_DRIVEN;
    options.max_actors = 1;
    system = test_open(&options);
    while (count < 1000 && status == TROUPE_OK) {
        status = troupe_port_open(system, NULL, &ports[count]);
        count += status == TROUPE_OK;
    }
    cr_assert_eq(status, TROUPE_E_LIMIT);
    cr_assert_eq(troupe_last_error().status, TROUPE_E_LIMIT);
    cr_assert_null(ports[count]);
    cr_assert_eq(
        troupe_system_spawn(system, &test_recorder, NULL, &(troupe_ref){0, 0}),
        TROUPE_E_LIMIT);
    while (count > 0) {
        troupe_port_close(ports[--count]);
    }
    cr_assert_eq(troupe_system_destroy(system), TROUPE_OK);
}

Test(port, names_that_are_bad_are_refused)
{
    static const char *const bad[] = {"", ".", "..", "a/b", "$x", "\n", "\\"};

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        troupe_port *other = NULL;

        cr_assert_eq(
            troupe_port_open(the_system, bad[i], &other), TROUPE_E_INVALID);
        cr_assert_null(other);
    }
    cr_assert_eq(troupe_port_open(the_system, "x", NULL), TROUPE_E_INVALID);
    cr_assert_eq(troupe_port_open(NULL, "x", &port), TROUPE_E_INVALID);
}

Test(port, without_a_name_it_gets_one)
{
    troupe_port *other;
    char path[128];

    cr_assert_eq(troupe_port_open(the_system, NULL, &other), TROUPE_OK);
    cr_assert_gt(
        troupe_path(the_system, troupe_port_ref(other), path, sizeof path), 0);
    troupe_port_close(other);
}

Test(port, it_has_a_path_and_can_be_looked_up)
{
    troupe_ref found;
    char path[128];

    (void)troupe_path(the_system, at, path, sizeof path);
    cr_assert_eq(
        troupe_lookup(the_system, path, &found), TROUPE_OK, "%s", path);
    cr_assert(troupe_ref_equal(found, at));
}

Test(port, a_closing_system_opens_none)
{
    troupe_port *other = NULL;

    troupe_system_request_stop(the_system);
    cr_assert_eq(troupe_port_open(the_system, NULL, &other), TROUPE_E_CLOSED);
    cr_assert_null(other);
}

Test(port, closing_null_is_allowed)
{
    troupe_port_close(NULL);
    cr_assert_null(troupe_port_next(NULL));
    cr_assert_eq(troupe_port_fd(NULL), -1);
    cr_assert(troupe_ref_is_none(troupe_port_ref(NULL)));
}

Test(port, what_is_left_becomes_dead_letters)
{
    troupe_port *other;
    troupe_ref ref;

    cr_assert_eq(troupe_port_open(the_system, NULL, &other), TROUPE_OK);
    ref = troupe_port_ref(other);
    test_post_numbers(the_system, ref, 100);
    cr_assert_not_null(troupe_port_next(other));
    troupe_port_close(other);
    cr_assert_eq(test_letters.by_reason[TROUPE_DEAD_STOPPED], 99);
    cr_assert(troupe_ref_equal(test_letters.last.recipient, ref));
    cr_assert_eq(
        troupe_post(the_system, ref, &test_empty, NULL), TROUPE_E_DEAD);
    cr_assert_eq(troupe_depth(the_system, ref), TROUPE_DEPTH_DEAD);
}

Test(port, closing_gives_descriptor_and_memory_back)
{
    struct test_census before = test_census();
    uint64_t bytes = test_counters(the_system).bytes;

    for (int i = 0; i < 300; i++) {
        troupe_port *other;

        cr_assert_eq(troupe_port_open(the_system, NULL, &other), TROUPE_OK);
        if (i % 2 == 0) {
            test_post_number(the_system, troupe_port_ref(other), 1);
        }
        troupe_port_close(other);
    }
    cr_assert(test_census_is(before));
    cr_assert_eq(test_counters(the_system).bytes, bytes);
}

Test(port, depth_is_what_waits_in_it)
{
    test_post_numbers(the_system, at, 5);
    cr_assert_eq(troupe_depth(the_system, at), 5);
    cr_assert_not_null(troupe_port_next(port));
    cr_assert_eq(troupe_depth(the_system, at), 4);
}

Test(port, its_messages_are_queued_in_the_books)
{
    test_post_numbers(the_system, at, 5);
    test_run(the_system);
    cr_assert_eq(test_counters(the_system).queued, 5);
    cr_assert_not_null(troupe_port_next(port));
    cr_assert_eq(test_counters(the_system).queued, 4);
    cr_assert_eq(test_counters(the_system).handled, 1);
}

Test(port, an_open_one_keeps_the_system_from_being_destroyed)
{
    cr_assert_eq(troupe_system_destroy(the_system), TROUPE_E_STATE);
    cr_assert_eq(troupe_last_error().status, TROUPE_E_STATE);
    /* Nothing was freed: it works as before. */
    test_post_numbers(the_system, at, 1);
    cr_assert_not_null(troupe_port_next(port));
}

Test(port, it_can_be_used_and_closed_after_the_system_has_stopped)
{
    test_post_numbers(the_system, at, 3);
    cr_assert_eq(troupe_system_stop(the_system), TROUPE_OK);
    for (int i = 0; i < 3; i++) {
        cr_assert_not_null(troupe_port_next(port));
    }
    cr_assert_null(troupe_port_next(port));
}

/* --- with workers --------------------------------------------------------- */

struct answering {
    troupe_ref to;
    uint64_t count;
};

static troupe_verdict
send_many(troupe_self *self, const troupe_msg *msg, void *user)
{
    struct answering *answering = user;

    (void)msg;
    for (uint64_t i = 0; i < answering->count; i++) {
        troupe_tell(self, answering->to, &test_number, &i);
    }
    return TROUPE_CONTINUE;
}

Test(port_threads, a_loop_that_polls_gets_everything_in_order)
{
    troupe_system *system = test_open_threads(2);
    struct answering answering = {TROUPE_NONE, 30000};
    uint64_t next[3] = {0};
    troupe_ref sender[3];
    uint64_t total = 0;

    cr_assert_eq(troupe_port_open(system, NULL, &port), TROUPE_OK);
    answering.to = troupe_port_ref(port);
    for (int i = 0; i < 3; i++) {
        sender[i] = test_spawn_doer(system, NULL);
        test_do_later(system, sender[i], send_many, &answering);
    }
    while (total < 90000) {
        struct pollfd ready = {troupe_port_fd(port), POLLIN, 0};
        const troupe_msg *msg;

        cr_assert_eq(poll(&ready, 1, 60000), 1, "no message after a minute");
        for (int n = 0; n < 64 && (msg = troupe_port_next(port)); n++) {
            for (int i = 0; i < 3; i++) {
                if (troupe_ref_equal(msg->sender, sender[i])) {
                    cr_assert_eq(*troupe_payload(msg, uint64_t), next[i]);
                    next[i]++;
                }
            }
            total++;
        }
    }
    expect_empty();
    troupe_port_close(port);
    test_close(system);
}

static void *
open_and_close(void *user)
{
    for (int i = 0; i < 300; i++) {
        troupe_port *mine;
        uint64_t n = 1;

        test_require(troupe_port_open(user, NULL, &mine) == TROUPE_OK);
        test_require(troupe_post(user, troupe_port_ref(mine), &test_number,
                         &n) == TROUPE_OK);
        test_require(troupe_port_next(mine) != NULL);
        troupe_port_close(mine);
    }
    return NULL;
}

Test(port_threads, any_thread_may_open_and_close)
{
    troupe_system *system = test_open_threads(1);
    pthread_t threads[3];

    for (int i = 0; i < 3; i++) {
        cr_assert_eq(
            pthread_create(&threads[i], NULL, open_and_close, system), 0);
    }
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
    }
    test_close(system);
}

/* --- watching what cannot be ---------------------------------------------- */

Test(port, a_watch_of_a_ref_of_another_system_says_that_it_has_gone)
{
    const troupe_ref far = {25000, 7};
    const troupe_msg *msg;

    /* Cells become usable in larger steps than what belongs to them. */
    for (int i = 0; i < 17000; i++) {
        test_spawn_doer(the_system, NULL);
    }
    cr_assert_eq(troupe_port_watch(port, far), TROUPE_OK);
    msg = troupe_port_next(port);
    cr_assert_not_null(msg);
    cr_assert_eq(troupe_msg_tag(msg), TROUPE_TAG_DOWN);
    cr_assert_eq(troupe_stop_wait(the_system, &far, 1, 0), TROUPE_OK);
}

Test(port, a_closed_one_is_forgotten_by_whom_it_watched)
{
    troupe_ref whom = test_spawn_doer(the_system, NULL);
    uint64_t bytes = 0;

    for (int i = 0; i < 1000; i++) {
        troupe_port *other;

        cr_assert_eq(troupe_port_open(the_system, NULL, &other), TROUPE_OK);
        cr_assert_eq(troupe_port_watch(other, whom), TROUPE_OK);
        troupe_port_close(other);
        if (i == 9) {
            bytes = test_counters(the_system).bytes;
        }
    }
    cr_assert_eq(test_counters(the_system).bytes, bytes);
}

Test(port, what_a_loop_took_before_it_stopped_is_not_queued)
{
    test_post_numbers(the_system, at, 200);
    for (uint32_t i = 1; i <= 70; i++) {
        cr_assert_not_null(troupe_port_next(port));
        cr_assert(troupe_books_balance(the_system));
        cr_assert_eq(troupe_depth(the_system, at), 200 - i);
    }
    while (troupe_port_next(port) != NULL) {
    }
}
