/* SPDX-License-Identifier: MIT */
#include "support/system.h"

#include <criterion/criterion.h>

#include <string.h>

TEST_DRIVEN_SUITE(mailbox);

Test(mailbox, depth_is_how_many_wait)
{
    struct test_record record = {0};
    troupe_ref ref = test_spawn_recorder(the_system, NULL, &record);

    for (uint32_t i = 0; i < 3000; i++) {
        cr_assert_eq(troupe_depth(the_system, ref), i);
        test_post_number(the_system, ref, i);
    }
    test_run(the_system);
    cr_assert_eq(troupe_depth(the_system, ref), 0);
}

struct depths {
    uint32_t seen[100];
    uint32_t count;
};

static troupe_verdict
read_own_depth(troupe_self *self, const troupe_msg *msg, void *user)
{
    struct depths *depths = user;

    (void)msg;
    depths->seen[depths->count++] =
        troupe_depth(troupe_self_system(self), troupe_self_ref(self));
    return TROUPE_CONTINUE;
}

Test(mailbox, depth_is_without_the_one_being_handled)
{
    troupe_ref doer = test_spawn_doer(the_system, NULL);
    struct depths depths = {{0}, 0};

    for (int i = 0; i < 50; i++) {
        test_do_later(the_system, doer, read_own_depth, &depths);
    }
    test_run(the_system);
    cr_assert_eq(depths.count, 50);
    for (uint32_t i = 0; i < 50; i++) {
        cr_assert_eq(depths.seen[i], 49 - i);
    }
}

Test(mailbox, depth_of_a_long_one_is_at_most_15_too_high)
{
    static const uint32_t many = 5000;
    troupe_ref doer = test_spawn_doer(the_system, NULL);
    struct test_record record = {0};
    troupe_ref ref = test_spawn_recorder(the_system, NULL, &record);
    uint32_t last = UINT32_MAX;
    troupe_run run;

    (void)doer;
    for (uint32_t i = 0; i < many && i < TEST_RECORDS; i++) {
        test_post_number(the_system, ref, i);
    }
    do {
        uint32_t depth = troupe_depth(the_system, ref);
        uint32_t left = TEST_RECORDS - record.count;

        cr_assert(depth >= left && depth <= left + 15);
        cr_assert_leq(depth, last);
        last = depth;
        cr_assert_eq(troupe_system_run(the_system, 1, &run), TROUPE_OK);
    } while (run.turns != 0);
}

struct target {
    troupe_ref ref;
    uint32_t sent;
};

static troupe_verdict
send_and_look(troupe_self *self, const troupe_msg *msg, void *user)
{
    struct target *target = user;
    uint64_t number = 1;

    (void)msg;
    for (uint32_t i = 0; i < 300; i++) {
        cr_assert_eq(
            troupe_send(self, target->ref, &test_number, &number), TROUPE_OK);
        target->sent++;
        cr_assert_geq(
            troupe_depth(troupe_self_system(self), target->ref), target->sent);
    }
    return TROUPE_CONTINUE;
}

Test(mailbox, depth_never_misses_what_the_caller_sent_before)
{
    struct test_record record = {0};
    struct target target = {test_spawn_recorder(the_system, NULL, &record), 0};

    test_do(
        the_system, test_spawn_doer(the_system, NULL), send_and_look, &target);
    cr_assert_eq(record.count, 300);
}

Test(mailbox, depth_of_one_that_has_stopped_says_so)
{
    struct test_record record = {0};
    troupe_ref ref = test_spawn_recorder(the_system, NULL, &record);

    test_post_number(the_system, ref, 1);
    cr_assert_eq(troupe_post_stop_now(the_system, ref), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(troupe_depth(the_system, ref), TROUPE_DEPTH_DEAD);
}

Test(mailbox, depth_of_none_is_dead)
{
    cr_assert_eq(troupe_depth(the_system, TROUPE_NONE), TROUPE_DEPTH_DEAD);
}

static uint32_t depth_in_stop;

static void
look_in_stop(troupe_self *self, void *state, const troupe_exit *why)
{
    (void)state;
    (void)why;
    depth_in_stop =
        troupe_depth(troupe_self_system(self), troupe_self_ref(self));
}

Test(mailbox, depth_of_one_that_is_stopping_is_dead)
{
    troupe_ref ref = test_spawn_with_stop(the_system, NULL, look_in_stop);

    test_post_number(the_system, ref, 1);
    cr_assert_eq(troupe_post_stop_now(the_system, ref), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(depth_in_stop, TROUPE_DEPTH_DEAD);
}

Test(mailbox, a_stop_in_line_is_in_the_depth_but_not_in_the_books)
{
    struct test_record record = {0};
    troupe_ref ref = test_spawn_recorder(the_system, NULL, &record);

    test_post_number(the_system, ref, 1);
    cr_assert_eq(troupe_post_stop(the_system, ref), TROUPE_OK);
    cr_assert_eq(troupe_depth(the_system, ref), 2);
    cr_assert_eq(test_counters(the_system).queued, 1);
    test_run(the_system);
    cr_assert_eq(record.count, 1);
    cr_assert_eq(test_counters(the_system).sent, 1);
    cr_assert_eq(test_counters(the_system).handled, 1);
}

Test(mailbox, it_is_unbounded_and_keeps_the_order)
{
    struct test_record record = {0};
    troupe_ref ref = test_spawn_recorder(the_system, NULL, &record);

    test_post_numbers(the_system, ref, TEST_RECORDS);
    test_run(the_system);
    cr_assert_eq(record.count, TEST_RECORDS);
    for (uint32_t i = 0; i < TEST_RECORDS; i++) {
        cr_assert_eq(record.entry[i].number, i);
    }
}

static uint64_t drained;

static troupe_verdict
count(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)self;
    (void)state;
    (void)msg;
    drained++;
    return TROUPE_CONTINUE;
}

Test(mailbox, its_memory_is_given_back_when_it_has_been_drained)
{
    static const troupe_actor_type type = {
        .size = sizeof type, .name = "t", .receive = count};
    uint64_t before;
    uint64_t full;
    troupe_ref ref;

    cr_assert_eq(troupe_system_spawn(the_system, &type, NULL, &ref), TROUPE_OK);
    before = test_counters(the_system).bytes;
    test_post_numbers(the_system, ref, 200000);
    full = test_counters(the_system).bytes;
    cr_assert_geq(full, before + 200000 * 32);
    test_run(the_system);
    cr_assert_eq(drained, 200000);
    cr_assert_eq(test_counters(the_system).bytes, before);
}
