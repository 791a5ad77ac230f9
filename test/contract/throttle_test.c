/* SPDX-License-Identifier: MIT */
#include "support/system.h"

#include <criterion/criterion.h>

#include <math.h>
#include <string.h>

/* So many messages per second, in virtual time. */

static troupe_system *the_system;
static struct test_record record;
static uint32_t drops;

static void
on_drop(troupe_drop_reason reason, const troupe_msg *msg, void *user)
{
    (void)msg;
    (void)user;
    cr_assert_eq(reason, TROUPE_DROP_THROTTLE);
    drops++;
}

static void
setup(void)
{
    memset(&record, 0, sizeof record);
    drops = 0;
    the_system = test_open_driven(3);
}

static void
teardown(void)
{
    test_close(the_system);
}

TestSuite(throttle, .init = setup, .fini = teardown);

TROUPE_MSG_TYPE_WITH(vital, uint64_t, 100, TROUPE_MSG_UNDROPPABLE, NULL);

static troupe_throttle_options
rate(double per_second, double burst)
{
    troupe_throttle_options options = TROUPE_INIT(troupe_throttle_options);

    options.per_second = per_second;
    options.burst = burst;
    return options;
}

static troupe_ref
spawn(const troupe_throttle_options *throttle,
    const troupe_mailbox_options *mailbox)
{
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    struct test_record *where = &record;
    troupe_ref ref = TROUPE_NONE;

    options.arg = &where;
    options.arg_bytes = sizeof where;
    options.throttle = throttle;
    options.mailbox = mailbox;
    test_require(troupe_system_spawn(
                     the_system, &test_recorder, &options, &ref) == TROUPE_OK);
    return ref;
}

/* Virtual time passes; then everything that can run does. */
static void
pass(uint64_t by_ns)
{
    cr_assert_eq(troupe_system_advance(the_system, by_ns), TROUPE_OK);
    test_run(the_system);
}

static void
check_pause(const troupe_mailbox_options *mailbox)
{
    troupe_throttle_options options = rate(10, 2);
    troupe_ref ref;

    memset(&record, 0, sizeof record);
    ref = spawn(&options, mailbox);
    for (uint64_t i = 0; i < 5; i++) {
        test_post_number(the_system, ref, i);
    }
    test_run(the_system);
    cr_assert_eq(record.count, 2);
    cr_assert_eq(troupe_depth(the_system, ref), 3);
    pass(TROUPE_MS(99));
    cr_assert_eq(record.count, 2);
    pass(TROUPE_MS(2));
    cr_assert_eq(record.count, 3);
    pass(TROUPE_MS(100));
    pass(TROUPE_MS(100));
    cr_assert_eq(record.count, 5);
    for (uint32_t i = 0; i < 5; i++) {
        cr_assert_eq(record.entry[i].number, i);
    }
    cr_assert_eq(troupe_depth(the_system, ref), 0);
}

Test(throttle, what_exceeds_the_burst_waits_for_its_token)
{
    check_pause(NULL);
}

static double
rank_by_number(const troupe_msg *msg, void *user)
{
    (void)user;
    return (double)*troupe_payload(msg, uint64_t);
}

Test(throttle, works_with_every_kind_of_mailbox)
{
    troupe_mailbox_options mailbox = TROUPE_INIT(troupe_mailbox_options);

    mailbox.capacity = 10;
    check_pause(&mailbox);
    mailbox.overflow = TROUPE_OVERFLOW_DROP_HEAD;
    check_pause(&mailbox);
    mailbox.overflow = TROUPE_OVERFLOW_DROP_LOWEST;
    mailbox.priority = rank_by_number;
    check_pause(&mailbox);
}

/* What waits for a token waits in its mailbox, and under its bound. */
Test(throttle, the_capacity_is_exact_while_it_waits)
{
    static const troupe_overflow policies[] = {TROUPE_OVERFLOW_REJECT,
        TROUPE_OVERFLOW_DROP_NEW, TROUPE_OVERFLOW_DROP_HEAD,
        TROUPE_OVERFLOW_DROP_LOWEST};

    for (size_t p = 0; p < 4; p++) {
        troupe_throttle_options options = rate(1, 1);
        troupe_mailbox_options mailbox = TROUPE_INIT(troupe_mailbox_options);
        troupe_ref ref;
        uint64_t number = 2;

        mailbox.capacity = 2;
        mailbox.overflow = policies[p];
        mailbox.priority =
            policies[p] == TROUPE_OVERFLOW_DROP_LOWEST ? rank_by_number : NULL;
        memset(&record, 0, sizeof record);
        ref = spawn(&options, &mailbox);
        test_post_number(the_system, ref, 0);
        test_run(the_system);
        test_post_number(the_system, ref, 1);
        test_run(the_system); /* waits for a token */
        test_post_number(the_system, ref, 2);
        test_run(the_system);
        cr_assert_eq(troupe_depth(the_system, ref), 2);
        cr_assert_eq(troupe_post(the_system, ref, &test_number, &number),
            policies[p] == TROUPE_OVERFLOW_REJECT ? TROUPE_E_FULL : TROUPE_OK);
        cr_assert_eq(troupe_depth(the_system, ref), 2);
        cr_assert_eq(troupe_post_stop_now(the_system, ref), TROUPE_OK);
        test_run(the_system);
    }
}

Test(throttle, the_most_urgent_gets_the_next_token)
{
    troupe_throttle_options options = rate(1, 1);
    troupe_mailbox_options mailbox = TROUPE_INIT(troupe_mailbox_options);
    troupe_ref ref;

    mailbox.priority = rank_by_number;
    ref = spawn(&options, &mailbox);
    test_post_number(the_system, ref, 50);
    test_run(the_system);
    test_post_number(the_system, ref, 60);
    test_run(the_system); /* waits for a token */
    test_post_number(the_system, ref, 1);
    pass(TROUPE_S(1) + TROUPE_MS(1));
    cr_assert_eq(record.count, 2);
    cr_assert_eq(record.entry[1].number, 1);
}

Test(throttle, an_actor_that_waits_takes_no_turns)
{
    troupe_throttle_options options = rate(1, 1);
    troupe_ref ref = spawn(&options, NULL);
    uint64_t turns;

    test_post_numbers(the_system, ref, 10);
    test_run(the_system);
    turns = test_counters(the_system).turns;
    for (int i = 0; i < 100; i++) {
        pass(TROUPE_MS(1));
        test_post_number(the_system, ref, 1);
    }
    test_run(the_system);
    cr_assert_eq(test_counters(the_system).turns, turns);
    cr_assert_eq(record.count, 1);
    cr_assert_eq(troupe_post_stop_now(the_system, ref), TROUPE_OK);
}

Test(throttle, a_burst_below_one_counts_as_one)
{
    troupe_throttle_options options = rate(0.5, 0);
    troupe_ref ref = spawn(&options, NULL);

    test_post_numbers(the_system, ref, 2);
    test_run(the_system);
    cr_assert_eq(record.count, 1);
    pass(TROUPE_S(2) + TROUPE_MS(1));
    cr_assert_eq(record.count, 2);
}

Test(throttle, a_burst_below_one_does_not_drop_everything)
{
    troupe_throttle_options options = rate(10, 0.25);
    troupe_ref ref;

    options.on_excess = TROUPE_EXCESS_DROP;
    ref = spawn(&options, NULL);
    for (uint32_t i = 1; i <= 5; i++) {
        test_post_numbers(the_system, ref, 2);
        test_run(the_system);
        cr_assert_eq(record.count, i);
        cr_assert_eq(test_counters(the_system).dropped_throttle, i);
        pass(TROUPE_MS(101));
    }
}

Test(throttle, excess_can_be_dropped)
{
    troupe_throttle_options options = rate(10, 3);
    troupe_mailbox_options mailbox = TROUPE_INIT(troupe_mailbox_options);
    troupe_ref ref;

    options.on_excess = TROUPE_EXCESS_DROP;
    mailbox.on_drop = on_drop;
    mailbox.flags = TROUPE_MAILBOX_DEAD_LETTER_DROPS;
    ref = spawn(&options, &mailbox);
    test_post_numbers(the_system, ref, 8);
    test_run(the_system);
    cr_assert_eq(record.count, 3);
    cr_assert_eq(drops, 5);
    cr_assert_eq(test_counters(the_system).dropped, 5);
    cr_assert_eq(test_counters(the_system).dropped_throttle, 5);
    cr_assert_eq(test_letters.by_reason[TROUPE_DEAD_DROPPED], 5);
    pass(TROUPE_S(1));
    test_post_numbers(the_system, ref, 8);
    test_run(the_system);
    cr_assert_eq(record.count, 6); /* no more than the burst */
}

Test(throttle, undroppable_messages_cost_nothing)
{
    troupe_throttle_options options = rate(1, 1);
    troupe_ref ref = spawn(&options, NULL);

    for (uint64_t i = 0; i < 50; i++) {
        cr_assert_eq(troupe_post(the_system, ref, &vital, &i), TROUPE_OK);
    }
    test_run(the_system);
    cr_assert_eq(record.count, 50);
    test_post_number(the_system, ref, 1);
    test_run(the_system);
    cr_assert_eq(record.count, 51); /* the token is there still */
}

Test(throttle, an_actor_that_waits_can_be_stopped_now)
{
    troupe_throttle_options options = rate(0.001, 1);
    troupe_ref ref = spawn(&options, NULL);

    test_post_numbers(the_system, ref, 4);
    test_run(the_system);
    cr_assert_eq(troupe_post_stop_now(the_system, ref), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(record.stopped, 1);
    cr_assert_eq(record.count, 1);
    cr_assert_eq(test_letters.total, 3);
    pass(TROUPE_S(5000)); /* its alarm wakes nobody */
}

Test(throttle, a_system_that_stops_does_not_wait_for_tokens)
{
    troupe_throttle_options options = rate(0.001, 1);
    troupe_ref ref = spawn(&options, NULL);

    test_post_numbers(the_system, ref, 4);
    test_run(the_system);
    cr_assert_eq(troupe_system_stop(the_system), TROUPE_OK);
    cr_assert_eq(record.count, 1);
    cr_assert_eq(test_letters.total, 3);
}

static troupe_verdict
lift(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    cr_assert_eq(troupe_throttle(self, user), TROUPE_OK);
    return TROUPE_CONTINUE;
}

static uint32_t counted;

static troupe_verdict
count(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)self;
    (void)msg;
    (void)user;
    counted++;
    return TROUPE_CONTINUE;
}

Test(throttle, begins_and_ends_while_the_actor_runs)
{
    troupe_throttle_options options = rate(10, 1);
    troupe_ref ref = test_spawn_doer(the_system, NULL);

    counted = 0;
    test_do_later(the_system, ref, count, NULL);
    test_do_later(the_system, ref, lift, &options);
    test_do_later(the_system, ref, count, NULL);
    test_do_later(the_system, ref, count, NULL);
    test_do_later(the_system, ref, lift, NULL);
    test_do_later(the_system, ref, count, NULL);
    test_do_later(the_system, ref, count, NULL);
    test_run(the_system);
    cr_assert_eq(counted, 2);
    pass(TROUPE_MS(101));
    cr_assert_eq(counted, 3);
    pass(TROUPE_MS(101)); /* for the message that ends it */
    cr_assert_eq(counted, 5);
}

/* The stop waits in line already: it did not know that it had to wait. */
Test(throttle, begun_while_the_system_stops_does_not_make_it_wait)
{
    troupe_throttle_options options = rate(0.001, 1);
    troupe_ref ref = test_spawn_doer(the_system, NULL);

    counted = 0;
    test_run(the_system);
    test_do_later(the_system, ref, lift, &options);
    test_do_later(the_system, ref, count, NULL);
    test_do_later(the_system, ref, count, NULL);
    troupe_system_request_stop(the_system);
    cr_assert_eq(troupe_system_run(the_system, 0, NULL), TROUPE_E_CLOSED);
    cr_assert_eq(counted, 0);
    cr_assert_eq(test_letters.by_reason[TROUPE_DEAD_STOPPED], 2);
}

Test(throttle, a_rate_that_makes_no_sense_is_refused)
{
    static const double rates[] = {0, -1, (double)NAN, (double)INFINITY};
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    struct test_record *where = &record;
    troupe_ref ref = TROUPE_NONE;

    options.arg = &where;
    options.arg_bytes = sizeof where;
    for (int i = 0; i < 4; i++) {
        troupe_throttle_options throttle = rate(rates[i], 1);
        troupe_throttle_options burst = rate(1, i == 0 ? -1 : rates[i]);

        options.throttle = &throttle;
        cr_assert_eq(
            troupe_system_spawn(the_system, &test_recorder, &options, &ref),
            TROUPE_E_INVALID);
        cr_assert_str_eq(troupe_last_error().option, "throttle.per_second");
        options.throttle = &burst;
        cr_assert_eq(
            troupe_system_spawn(the_system, &test_recorder, &options, &ref),
            TROUPE_E_INVALID);
        cr_assert_str_eq(troupe_last_error().option, "throttle.burst");
    }
    cr_assert_eq(test_counters(the_system).actors, 0);
}

Test(throttle, works_with_workers)
{
    troupe_throttle_options options = rate(1000, 1);
    troupe_ref ref;

    test_close(the_system);
    the_system = test_open_threads(2);
    ref = spawn(&options, NULL);
    test_post_numbers(the_system, ref, 20);
    cr_assert_eq(troupe_post_stop(the_system, ref), TROUPE_OK);
    cr_assert_eq(
        troupe_stop_wait(the_system, &ref, 1, TROUPE_S(600)), TROUPE_OK);
    cr_assert_eq(record.count, 20);
}
