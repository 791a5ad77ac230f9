/* SPDX-License-Identifier: MIT */
#include "support/system.h"

#include "support/await.h"

#include <troupe/port.h>
#include <troupe/testkit.h>

#include <criterion/criterion.h>

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

TEST_DRIVEN_SUITE(counters);

static void
expect_balance(void)
{
    troupe_counters c = test_counters(the_system);

    cr_assert_eq(c.sent,
        c.handled + c.dropped + c.dead + c.cancelled + c.refused + c.queued);
    cr_assert(troupe_books_balance(the_system));
}

Test(counters, a_new_system_has_counted_nothing)
{
    troupe_counters c = test_counters(the_system);

    cr_assert_eq(c.sent, 0);
    cr_assert_eq(c.handled, 0);
    cr_assert_eq(c.dead, 0);
    cr_assert_eq(c.refused, 0);
    cr_assert_eq(c.actors, 0);
    cr_assert_eq(c.started, 0);
    expect_balance();
}

Test(counters, messages_are_in_exactly_one_column)
{
    struct test_record record = {0};
    troupe_ref ref = test_spawn_recorder(the_system, NULL, &record);
    troupe_ref dead = test_spawn_doer(the_system, NULL);
    uint64_t n = 1;

    cr_assert_eq(troupe_post_stop(the_system, dead), TROUPE_OK);
    test_run(the_system);
    for (int i = 0; i < 10; i++) {
        test_post_number(the_system, ref, 1);
    }
    expect_balance();
    cr_assert_eq(test_counters(the_system).queued, 10);
    test_run(the_system);
    cr_assert_eq(test_counters(the_system).queued, 0);
    cr_assert_eq(test_counters(the_system).handled, 10);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(
            troupe_post(the_system, dead, &test_number, &n), TROUPE_E_DEAD);
    }
    cr_assert_eq(test_counters(the_system).refused, 3);
    for (int i = 0; i < 4; i++) {
        troupe_post_tell(the_system, dead, &test_number, &n);
    }
    cr_assert_eq(test_counters(the_system).dead, 4);
    cr_assert_eq(test_counters(the_system).sent, 17);
    expect_balance();
}

Test(counters, actors_are_counted)
{
    troupe_ref refs[10];

    for (int i = 0; i < 10; i++) {
        refs[i] = test_spawn_doer(the_system, NULL);
    }
    test_run(the_system);
    cr_assert_eq(test_counters(the_system).actors, 10);
    cr_assert_eq(test_counters(the_system).started, 10);
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(troupe_post_stop(the_system, refs[i]), TROUPE_OK);
    }
    test_run(the_system);
    cr_assert_eq(test_counters(the_system).actors, 6);
    cr_assert_eq(test_counters(the_system).stopped, 4);
}

Test(counters, turns_and_what_can_run_are_counted)
{
    troupe_run run;
    uint64_t before;

    for (int i = 0; i < 10; i++) {
        test_post_number(the_system, test_spawn_doer(the_system, NULL), 1);
    }
    before = test_counters(the_system).turns;
    cr_assert_eq(troupe_system_run(the_system, 3, &run), TROUPE_OK);
    cr_assert_eq(test_counters(the_system).turns, before + 3);
    cr_assert_eq(test_counters(the_system).runnable, 7);
    cr_assert_eq(run.runnable, 7);
}

Test(counters, bytes_are_what_it_holds)
{
    uint64_t before = test_counters(the_system).bytes;
    troupe_msg *msg = troupe_msg_new(the_system, &test_bytes, 1 << 20);

    cr_assert_geq(test_counters(the_system).bytes, before + (1 << 20));
    troupe_msg_free(msg);
    cr_assert_eq(test_counters(the_system).bytes, before);
}

Test(counters, an_unhandled_message_is_dead_and_not_handled)
{
    struct test_record record = {0};
    troupe_ref ref = test_spawn_recorder(the_system, NULL, &record);

    record.answer = TROUPE_UNHANDLED;
    test_post_number(the_system, ref, 1);
    test_run(the_system);
    cr_assert_eq(test_counters(the_system).dead, 1);
    cr_assert_eq(test_counters(the_system).handled, 0);
    expect_balance();
}

static troupe_verdict
forward_and_reply(troupe_self *self, const troupe_msg *msg, void *user)
{
    uint64_t n = 1;

    (void)msg;
    troupe_reply(self, &test_number, &n); /* to nobody: dead */
    troupe_forward(self, *(troupe_ref *)user);
    return TROUPE_CONTINUE;
}

Test(counters, forwards_and_replies_are_sends)
{
    struct test_record record = {0};
    troupe_ref ref = test_spawn_recorder(the_system, NULL, &record);

    test_do(
        the_system, test_spawn_doer(the_system, NULL), forward_and_reply, &ref);
    cr_assert_eq(record.count, 1);
    cr_assert_eq(test_counters(the_system).sent, 3);
    cr_assert_eq(test_counters(the_system).handled, 2);
    cr_assert_eq(test_counters(the_system).dead, 1);
    expect_balance();
}

/* --- the struct ----------------------------------------------------------- */

Test(counters, without_a_size_it_is_refused)
{
    troupe_counters c;

    memset(&c, 0, sizeof c);
    cr_assert_eq(troupe_counters_read(the_system, &c), TROUPE_E_INVALID);
    cr_assert_eq(troupe_counters_read(the_system, NULL), TROUPE_E_INVALID);
    c.size = sizeof c;
    cr_assert_eq(troupe_counters_read(NULL, &c), TROUPE_E_INVALID);
}

struct newer {
    troupe_counters known;
    uint64_t more;
};

Test(counters, a_newer_struct_is_refused)
{
    struct newer c;

    memset(&c, 0, sizeof c);
    c.known.size = sizeof c;
    cr_assert_eq(troupe_counters_read(the_system, &c.known), TROUPE_E_VERSION);
}

Test(counters, an_older_struct_is_filled_as_far_as_it_goes)
{
    troupe_counters c;

    test_post_number(the_system, test_spawn_doer(the_system, NULL), 1);
    memset(&c, 0xff, sizeof c);
    c.size = offsetof(troupe_counters, handled);
    cr_assert_eq(troupe_counters_read(the_system, &c), TROUPE_OK);
    cr_assert_eq(c.sent, 1);
    cr_assert_eq(c.refused, 0);
    cr_assert_eq(c.handled, UINT64_MAX, "not its business");
    cr_assert_eq(c.size, offsetof(troupe_counters, handled));
}

Test(counters, the_list_has_every_member_in_order)
{
    size_t at = offsetof(troupe_counters, sent);

#define CHECK(name, kind, help)                                                \
    cr_assert_eq(offsetof(troupe_counters, name), at);                         \
    cr_assert_neq(strlen(help), 0);                                            \
    at += sizeof(uint64_t);
    TROUPE_COUNTER_MAP(CHECK)
#undef CHECK
    cr_assert_eq(at, sizeof(troupe_counters));
}

Test(counters_threads, workers_count_what_they_do)
{
    troupe_system *system = test_open_threads(2);
    troupe_counters c;

    for (int i = 0; i < 100; i++) {
        test_post_number(system, test_spawn_doer(system, NULL), 1);
    }
    cr_assert_eq(troupe_system_await_idle(system, TROUPE_S(60)), TROUPE_OK);
    c = test_counters(system);
    cr_assert_eq(c.sent, 100);
    cr_assert_eq(c.handled, 100);
    cr_assert_eq(c.queued, 0);
    cr_assert_eq(c.runnable, 0);
    cr_assert_geq(c.injected, 1);
    cr_assert_geq(c.parks, 1);
    cr_assert_geq(c.turns, 100);
    test_close(system);
}

static bool
is_parked(void *user)
{
    troupe_counters c = test_counters(user);

    return c.parks > 0;
}

static bool
has_missed(void *user)
{
    return test_counters(user).steal_misses > 0;
}

Test(counters_threads, a_worker_that_sleeps_is_woken)
{
    troupe_system *system = test_open_threads(1);
    troupe_ref ref;

    cr_assert(test_await(is_parked, system));
    ref = test_spawn_doer(system, NULL);
    test_post_number(system, ref, 1);
    cr_assert_geq(test_counters(system).wakes, 1);
    test_close(system);
}

Test(counters_threads, a_worker_that_looks_for_work_in_vain_is_counted)
{
    troupe_system *system = test_open_threads(2);

    cr_assert(test_await(has_missed, system));
    cr_assert_eq(test_counters(system).steals, 0);
    test_close(system);
}

static _Atomic bool is_done;

static void *
spawn_and_stop(void *user)
{
    troupe_system *system = user;

    for (int i = 0; i < 20000; i++) {
        troupe_ref ref = test_spawn_doer(system, NULL);

        test_require(troupe_post_stop(system, ref) == TROUPE_OK);
        if (i % 64 == 0) {
            test_require(
                troupe_system_await_idle(system, TROUPE_S(60)) == TROUPE_OK);
        }
    }
    atomic_store(&is_done, true);
    return NULL;
}

Test(counters_threads, gauges_stay_right_while_actors_are_stopped)
{
    troupe_system *system = test_open_threads(1);
    troupe_port *port;
    pthread_t thread;

    cr_assert_eq(troupe_port_open(system, NULL, &port), TROUPE_OK);
    for (int i = 0; i < 5000; i++) {
        test_post_number(system, troupe_port_ref(port), 1);
    }
    cr_assert_eq(pthread_create(&thread, NULL, spawn_and_stop, system), 0);
    while (!atomic_load(&is_done)) {
        troupe_counters c = test_counters(system);

        cr_assert_geq(c.queued, 4000); /* less stops that wait just now */
        cr_assert_lt(c.bytes, UINT64_C(1) << 40);
    }
    cr_assert_eq(pthread_join(thread, NULL), 0);
    troupe_port_close(port);
    test_close(system);
}
