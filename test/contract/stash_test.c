/* SPDX-License-Identifier: MIT */
#include "support/system.h"

#include <criterion/criterion.h>

#include <string.h>

/*
 * One actor that is told what to do: numbers are handled, or stashed while it
 * is shut; commands open it, put back, clear.
 */

static troupe_system *the_system;

enum { CMD_SHUT, CMD_OPEN, CMD_UNSTASH, CMD_CLEAR, CMD_STASH_TWICE };

struct command {
    uint32_t what;
    uint32_t limit;
};
TROUPE_MSG_TYPE(command, struct command, 50);
TROUPE_MSG_TYPE_WITH(vital, uint64_t, 51, TROUPE_MSG_UNDROPPABLE, NULL);

static struct {
    bool shut;
    uint32_t count;
    uint64_t number[5000];
    troupe_ref sender[5000];
    troupe_status last; /* of the last call of a command */
    uint32_t left;      /* in the stash after it */
} actor;

static struct {
    uint32_t count;
    troupe_drop_reason reason[64];
    uint64_t number[64];
} drops;

static void
on_drop(troupe_drop_reason reason, const troupe_msg *msg, void *user)
{
    (void)user;
    drops.reason[drops.count] = reason;
    drops.number[drops.count++] = *troupe_payload(msg, uint64_t);
}

static void
obey(troupe_self *self, const struct command *what)
{
    switch (what->what) {
    case CMD_SHUT:
        actor.shut = true;
        break;
    case CMD_OPEN:
        actor.shut = false;
        actor.last = troupe_unstash(self, what->limit);
        break;
    case CMD_UNSTASH:
        actor.last = troupe_unstash(self, what->limit);
        break;
    case CMD_CLEAR:
        troupe_stash_clear(self);
        break;
    case CMD_STASH_TWICE:
        cr_assert_eq(troupe_stash(self), TROUPE_OK);
        actor.last = troupe_stash(self);
        troupe_stash_clear(self);
        break;
    default:
        break;
    }
    actor.left = troupe_stash_length(self);
}

static troupe_verdict
receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    if (troupe_msg_is(msg, &command)) {
        obey(self, troupe_payload(msg, struct command));
        return TROUPE_CONTINUE;
    }
    if (actor.shut) {
        actor.last = troupe_stash(self);
        actor.left = troupe_stash_length(self);
        return TROUPE_CONTINUE;
    }
    actor.sender[actor.count] = troupe_sender(self);
    actor.number[actor.count++] = *troupe_payload(msg, uint64_t);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "stash",
    .receive = receive};

static void
setup(void)
{
    memset(&actor, 0, sizeof actor);
    memset(&drops, 0, sizeof drops);
    the_system = test_open_driven(0);
}

static void
teardown(void)
{
    test_close(the_system);
}

TestSuite(stash, .init = setup, .fini = teardown);

static troupe_mailbox_options
bounded(uint32_t capacity, troupe_overflow overflow)
{
    troupe_mailbox_options options = TROUPE_INIT(troupe_mailbox_options);

    options.capacity = capacity;
    options.overflow = overflow;
    options.on_drop = on_drop;
    return options;
}

static troupe_ref
spawn(const troupe_mailbox_options *mailbox, uint32_t stash_capacity)
{
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    troupe_ref ref = TROUPE_NONE;

    options.mailbox = mailbox;
    options.stash_capacity = stash_capacity;
    test_require(
        troupe_system_spawn(the_system, &type, &options, &ref) == TROUPE_OK);
    return ref;
}

static troupe_status
post(troupe_ref to, uint64_t number)
{
    return troupe_post(the_system, to, &test_number, &number);
}

static void
tell(troupe_ref to, uint32_t what, uint32_t limit)
{
    const struct command order = {what, limit};

    /* Undroppable or not, it must get in: the tests leave room for it. */
    test_require(troupe_post(the_system, to, &command, &order) == TROUPE_OK);
}

/* Stashes 0 .. count - 1. */
static void
fill_stash(troupe_ref ref, uint32_t count)
{
    tell(ref, CMD_SHUT, 0);
    test_run(the_system);
    for (uint64_t i = 0; i < count; i++) {
        cr_assert_eq(post(ref, i), TROUPE_OK);
        test_run(the_system);
    }
}

static void
check(const uint64_t *numbers, uint32_t count)
{
    test_run(the_system);
    cr_assert_eq(actor.count, count, "%u messages", actor.count);
    for (uint32_t i = 0; i < count; i++) {
        cr_assert_eq(actor.number[i], numbers[i], "the %uth is %u", i,
            (unsigned)actor.number[i]);
    }
}

#define CHECK(...)                                                             \
    check((const uint64_t[]){__VA_ARGS__},                                     \
        sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

Test(stash, what_was_put_aside_comes_back_first_and_in_order)
{
    troupe_ref ref = spawn(NULL, 0);

    fill_stash(ref, 3);
    cr_assert_eq(actor.left, 3);
    tell(ref, CMD_OPEN, 0);
    for (uint64_t i = 10; i < 13; i++) {
        cr_assert_eq(post(ref, i), TROUPE_OK);
    }
    CHECK(0, 1, 2, 10, 11, 12);
    cr_assert_eq(actor.left, 0);
    cr_assert_eq(actor.last, TROUPE_OK);
}

Test(stash, what_waits_in_it_is_in_the_books_and_not_in_the_depth)
{
    troupe_ref ref = spawn(NULL, 0);
    troupe_counters counters;

    fill_stash(ref, 5);
    counters = test_counters(the_system);
    cr_assert_eq(troupe_depth(the_system, ref), 0);
    cr_assert_eq(counters.queued, 5);
    cr_assert_eq(counters.sent, counters.handled + counters.queued);
    tell(ref, CMD_OPEN, 0);
    test_run(the_system);
    counters = test_counters(the_system);
    cr_assert_eq(counters.queued, 0);
    cr_assert_eq(counters.sent, counters.handled);
}

Test(stash, what_was_put_back_counts_in_the_depth)
{
    troupe_ref ref = spawn(NULL, 0);
    troupe_run run;

    fill_stash(ref, 5);
    tell(ref, CMD_OPEN, 0);
    cr_assert_eq(troupe_depth(the_system, ref), 1);
    test_run(the_system);
    cr_assert_eq(actor.count, 5);
    cr_assert_eq(troupe_depth(the_system, ref), 0);
    cr_assert_eq(troupe_system_run(the_system, 1, &run), TROUPE_OK);
}

Test(stash, some_of_it_comes_back_oldest_first)
{
    troupe_ref ref = spawn(NULL, 0);

    fill_stash(ref, 5);
    tell(ref, CMD_OPEN, 2);
    CHECK(0, 1);
    cr_assert_eq(actor.left, 3);
    tell(ref, CMD_UNSTASH, 100);
    CHECK(0, 1, 2, 3, 4);
}

Test(stash, nothing_to_put_back_is_no_mistake)
{
    troupe_ref ref = spawn(NULL, 0);

    actor.last = TROUPE_E_FAILED;
    tell(ref, CMD_UNSTASH, 0);
    test_run(the_system);
    cr_assert_eq(actor.last, TROUPE_OK);
}

Test(stash, it_keeps_the_sender)
{
    troupe_ref ref = spawn(NULL, 0);
    troupe_ref asker = test_spawn_doer(the_system, NULL);
    troupe_msg *msg = troupe_msg_new(the_system, &test_number, 0);

    fill_stash(ref, 0);
    cr_assert_eq(troupe_post_msg_from(the_system, ref, msg, asker), TROUPE_OK);
    test_run(the_system);
    tell(ref, CMD_OPEN, 0);
    test_run(the_system);
    cr_assert_eq(actor.count, 1);
    cr_assert(troupe_ref_equal(actor.sender[0], asker));
}

Test(stash, its_capacity_is_1024_unless_said_otherwise)
{
    troupe_ref ref = spawn(NULL, 0);

    fill_stash(ref, 1024);
    cr_assert_eq(actor.last, TROUPE_OK);
    cr_assert_eq(post(ref, 1), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(actor.last, TROUPE_E_LIMIT);
    cr_assert_eq(actor.left, 1024);
}

Test(stash, its_capacity_is_an_option)
{
    troupe_ref ref = spawn(NULL, 2);

    fill_stash(ref, 3);
    cr_assert_eq(actor.last, TROUPE_E_LIMIT);
    cr_assert_eq(actor.left, 2);
    tell(ref, CMD_OPEN, 0);
    CHECK(0, 1);
}

Test(stash, a_message_is_stashed_once)
{
    troupe_ref ref = spawn(NULL, 0);

    tell(ref, CMD_STASH_TWICE, 0);
    test_run(the_system);
    cr_assert_eq(actor.last, TROUPE_E_STATE);
    cr_assert_eq(test_letters.by_reason[TROUPE_DEAD_STASH], 1);
}

Test(stash, outside_of_a_behaviour_there_is_nothing_to_stash)
{
    cr_assert_eq(troupe_stash(NULL), TROUPE_E_STATE);
    cr_assert_eq(troupe_unstash(NULL, 0), TROUPE_E_STATE);
    cr_assert_eq(troupe_stash_length(NULL), 0);
    troupe_stash_clear(NULL);
}

static troupe_status in_start;
static troupe_status in_stop;

static troupe_status
stash_in_start(troupe_self *self, void *state, const void *arg)
{
    (void)state;
    (void)arg;
    in_start = troupe_stash(self);
    return TROUPE_OK;
}

static void
stash_in_stop(troupe_self *self, void *state, const troupe_exit *why)
{
    (void)state;
    (void)why;
    in_stop = troupe_stash(self);
}

Test(stash, in_start_and_stop_there_is_nothing_to_stash)
{
    static const troupe_actor_type eager = {
        .size = TROUPE_OPTIONS(troupe_actor_type),
        .name = "eager",
        .receive = receive,
        .start = stash_in_start,
        .stop = stash_in_stop};
    troupe_ref ref = TROUPE_NONE;

    in_start = in_stop = TROUPE_OK;
    cr_assert_eq(
        troupe_system_spawn(the_system, &eager, NULL, &ref), TROUPE_OK);
    cr_assert_eq(post(ref, 1), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(in_start, TROUPE_E_STATE);
    cr_assert_eq(troupe_post_stop(the_system, ref), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(in_stop, TROUPE_E_STATE);
    cr_assert_eq(actor.count, 1);
    cr_assert_eq(test_letters.total, 0);
}

Test(stash, what_is_cleared_becomes_dead_letters)
{
    troupe_ref ref = spawn(NULL, 0);

    fill_stash(ref, 4);
    tell(ref, CMD_CLEAR, 0);
    test_run(the_system);
    cr_assert_eq(test_letters.by_reason[TROUPE_DEAD_STASH], 4);
    cr_assert_eq(test_letters.last.number, 3);
    cr_assert_eq(actor.left, 0);
}

Test(stash, what_is_left_at_a_stop_becomes_dead_letters_before_the_queue)
{
    troupe_ref ref = spawn(NULL, 0);

    fill_stash(ref, 4);
    actor.shut = false;
    cr_assert_eq(post(ref, 9), TROUPE_OK);
    cr_assert_eq(troupe_post_stop_now(the_system, ref), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(test_letters.by_reason[TROUPE_DEAD_STASH], 4);
    cr_assert_eq(test_letters.by_reason[TROUPE_DEAD_STOPPED], 1);
    cr_assert_eq(test_letters.last.number, 9);
}

Test(stash, what_a_stashed_message_owns_is_freed_once)
{
    troupe_ref ref = spawn(NULL, 0);
    _Atomic uint64_t freed = 0;
    static const troupe_msg_type *const owning[] = {&test_owned, &test_large};

    fill_stash(ref, 0);
    for (size_t t = 0; t < 2; t++) {
        struct test_large payload = {.owned = {&freed, t}};

        cr_assert_eq(
            troupe_post(the_system, ref, owning[t], &payload), TROUPE_OK);
    }
    test_run(the_system);
    cr_assert_eq(actor.left, 2);
    cr_assert_eq(freed, 0);
    tell(ref, CMD_CLEAR, 0);
    test_run(the_system);
    cr_assert_eq(freed, 2);
}

Test(stash, many_come_back_over_several_turns)
{
    troupe_ref ref = spawn(NULL, 5000);

    fill_stash(ref, 3000);
    tell(ref, CMD_OPEN, 0);
    cr_assert_eq(post(ref, 7777), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(actor.count, 3001);
    for (uint32_t i = 0; i < 3000; i++) {
        cr_assert_eq(actor.number[i], i);
    }
    cr_assert_eq(actor.number[3000], 7777);
}

/* --- under the rules of the mailbox --------------------------------------- */

Test(stash, rejected_as_a_whole_when_there_is_no_room)
{
    troupe_mailbox_options options = bounded(4, TROUPE_OVERFLOW_REJECT);
    troupe_ref ref = spawn(&options, 0);

    fill_stash(ref, 3);
    tell(ref, CMD_OPEN, 0); /* one turn: then these two wait */
    for (uint64_t i = 10; i < 13; i++) {
        cr_assert_eq(post(ref, i), TROUPE_OK);
    }
    cr_assert_eq(post(ref, 13), TROUPE_E_FULL);
    test_run(the_system);
    cr_assert_eq(actor.last, TROUPE_E_FULL);
    cr_assert_eq(actor.left, 3);
    CHECK(10, 11, 12);
    tell(ref, CMD_OPEN, 0);
    CHECK(10, 11, 12, 0, 1, 2);
    cr_assert_eq(drops.count, 0);
    cr_assert_eq(test_counters(the_system).dropped, 0);
}

static troupe_verdict
receive_or_fail(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)receive(self, state, msg);
    return troupe_check(self, actor.last);
}

static troupe_directive
resume(const troupe_exit *exit, uint32_t restarts, void *user)
{
    (void)restarts;
    *(int32_t *)user = exit->code;
    return TROUPE_DIRECTIVE_RESUME;
}

/* A full stash, a full mailbox: both may be a failure, which costs nothing. */
Test(stash, what_it_refuses_its_supervisor_may_hear_of)
{
    static const troupe_actor_type checked = {
        .size = TROUPE_OPTIONS(troupe_actor_type),
        .name = "checked",
        .receive = receive_or_fail};
    troupe_mailbox_options mailbox = bounded(3, TROUPE_OVERFLOW_REJECT);
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    troupe_supervision own = TROUPE_INIT(troupe_supervision);
    troupe_ref ref = TROUPE_NONE;
    int32_t code = 0;

    own.decide = resume;
    own.user = &code;
    options.own = &own;
    options.mailbox = &mailbox;
    options.stash_capacity = 2;
    cr_assert_eq(
        troupe_system_spawn(the_system, &checked, &options, &ref), TROUPE_OK);
    fill_stash(ref, 3);
    cr_assert_eq(code, (int32_t)TROUPE_E_LIMIT);
    cr_assert_eq(actor.left, 2);
    actor.last = TROUPE_OK;
    tell(ref, CMD_OPEN, 0);
    cr_assert_eq(post(ref, 10), TROUPE_OK);
    cr_assert_eq(post(ref, 11), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(code, (int32_t)TROUPE_E_FULL);
    cr_assert_eq(actor.left, 2);
    actor.last = TROUPE_OK;
    tell(ref, CMD_OPEN, 0);
    CHECK(10, 11, 0, 1);
}

Test(stash, undroppable_ones_need_no_room_under_reject)
{
    troupe_mailbox_options options = bounded(2, TROUPE_OVERFLOW_REJECT);
    troupe_ref ref = spawn(&options, 0);

    fill_stash(ref, 0);
    for (uint64_t i = 0; i < 4; i++) {
        cr_assert_eq(troupe_post(the_system, ref, &vital, &i), TROUPE_OK);
    }
    test_run(the_system);
    cr_assert_eq(actor.left, 4);
    tell(ref, CMD_OPEN, 0);
    cr_assert_eq(post(ref, 10), TROUPE_OK);
    CHECK(0, 1, 2, 3, 10);
}

Test(stash, drop_new_discards_the_end_of_the_batch)
{
    troupe_mailbox_options options = bounded(4, TROUPE_OVERFLOW_DROP_NEW);
    troupe_ref ref = spawn(&options, 0);

    fill_stash(ref, 3);
    tell(ref, CMD_OPEN, 0);
    for (uint64_t i = 10; i < 13; i++) {
        cr_assert_eq(post(ref, i), TROUPE_OK);
    }
    CHECK(0, 10, 11, 12);
    cr_assert_eq(drops.count, 2);
    cr_assert_eq(drops.reason[0], TROUPE_DROP_NEW);
    cr_assert_eq(drops.number[0], 1);
    cr_assert_eq(drops.number[1], 2);
}

/* Scenario 26: queue n1..n4 with capacity 4, stash s1 s2. */
Test(stash, drop_head_makes_room_at_the_other_end)
{
    troupe_mailbox_options options = bounded(5, TROUPE_OVERFLOW_DROP_HEAD);
    troupe_ref ref = spawn(&options, 0);

    fill_stash(ref, 2);
    tell(ref, CMD_OPEN, 0);
    for (uint64_t i = 11; i < 15; i++) {
        cr_assert_eq(post(ref, i), TROUPE_OK);
    }
    /* The command has been taken: four wait, and one place is free. */
    CHECK(0, 1, 11, 12, 13);
    cr_assert_eq(drops.count, 1);
    cr_assert_eq(drops.reason[0], TROUPE_DROP_HEAD);
    cr_assert_eq(drops.number[0], 14);
}

/* As it was in the queue before: an undroppable one may exceed the capacity. */
Test(stash, drop_head_evicts_nothing_for_an_undroppable_one)
{
    troupe_mailbox_options options = bounded(4, TROUPE_OVERFLOW_DROP_HEAD);
    troupe_ref ref = spawn(&options, 0);
    uint64_t number;

    tell(ref, CMD_SHUT, 0);
    test_run(the_system);
    number = 0;
    cr_assert_eq(troupe_post(the_system, ref, &vital, &number), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(post(ref, 1), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(actor.left, 2);
    tell(ref, CMD_OPEN, 0);
    cr_assert_eq(post(ref, 11), TROUPE_OK);
    number = 12;
    cr_assert_eq(troupe_post(the_system, ref, &vital, &number), TROUPE_OK);
    cr_assert_eq(post(ref, 13), TROUPE_OK);
    number = 14;
    cr_assert_eq(troupe_post(the_system, ref, &vital, &number), TROUPE_OK);
    /* Four wait, two of them droppable; 1 takes the place of the newest. */
    CHECK(0, 1, 11, 12, 14);
    cr_assert_eq(drops.count, 1);
    cr_assert_eq(drops.reason[0], TROUPE_DROP_HEAD);
    cr_assert_eq(drops.number[0], 13);
    cr_assert_eq(test_counters(the_system).dropped, 1);
}

/* Scenario 27: capacity 2, three stashed, an empty queue. */
Test(stash, a_batch_above_the_capacity_loses_its_own_end)
{
    static const troupe_overflow policies[] = {
        TROUPE_OVERFLOW_DROP_NEW, TROUPE_OVERFLOW_DROP_HEAD};

    for (size_t p = 0; p < 2; p++) {
        troupe_mailbox_options options = bounded(2, policies[p]);
        troupe_ref ref;

        memset(&actor, 0, sizeof actor);
        memset(&drops, 0, sizeof drops);
        ref = spawn(&options, 0);
        fill_stash(ref, 3);
        tell(ref, CMD_OPEN, 0);
        CHECK(0, 1);
        cr_assert_eq(drops.count, 1);
        cr_assert_eq(drops.reason[0], TROUPE_DROP_NEW);
        cr_assert_eq(drops.number[0], 2);
    }
}

Test(stash, undroppable_ones_use_up_room_under_the_policies_that_drop)
{
    static const troupe_overflow policies[] = {
        TROUPE_OVERFLOW_DROP_NEW, TROUPE_OVERFLOW_DROP_HEAD};

    for (size_t p = 0; p < 2; p++) {
        troupe_mailbox_options options = bounded(2, policies[p]);
        troupe_ref ref;
        uint64_t number;

        memset(&actor, 0, sizeof actor);
        memset(&drops, 0, sizeof drops);
        ref = spawn(&options, 0);
        fill_stash(ref, 0);
        for (number = 0; number < 2; number++) {
            cr_assert_eq(
                troupe_post(the_system, ref, &vital, &number), TROUPE_OK);
        }
        test_run(the_system);
        cr_assert_eq(post(ref, 2), TROUPE_OK);
        test_run(the_system);
        cr_assert_eq(actor.left, 3);
        tell(ref, CMD_OPEN, 0);
        CHECK(0, 1);
        cr_assert_eq(drops.count, 1);
        cr_assert_eq(drops.number[0], 2);
    }
}

Test(stash, what_was_put_back_counts_against_the_capacity)
{
    static const troupe_overflow policies[] = {TROUPE_OVERFLOW_REJECT,
        TROUPE_OVERFLOW_DROP_NEW, TROUPE_OVERFLOW_DROP_HEAD};

    for (size_t p = 0; p < 3; p++) {
        troupe_mailbox_options options = bounded(3, policies[p]);
        troupe_spawn_options slow = TROUPE_INIT(troupe_spawn_options);
        troupe_ref ref = TROUPE_NONE;
        troupe_run run;

        memset(&actor, 0, sizeof actor);
        memset(&drops, 0, sizeof drops);
        slow.mailbox = &options;
        slow.throughput = 1;
        cr_assert_eq(
            troupe_system_spawn(the_system, &type, &slow, &ref), TROUPE_OK);
        fill_stash(ref, 3);
        tell(ref, CMD_OPEN, 0);
        cr_assert_eq(troupe_system_run(the_system, 1, &run), TROUPE_OK);
        cr_assert_eq(troupe_depth(the_system, ref), 3);
        cr_assert_eq(post(ref, 10),
            policies[p] == TROUPE_OVERFLOW_REJECT ? TROUPE_E_FULL : TROUPE_OK);
        cr_assert_eq(troupe_depth(the_system, ref), 3);
        if (policies[p] == TROUPE_OVERFLOW_DROP_HEAD) {
            CHECK(1, 2, 10);
        } else {
            CHECK(0, 1, 2);
        }
    }
}

static double
rank_of(const troupe_msg *msg, void *user)
{
    (void)user;
    return troupe_msg_is(msg, &command)
               ? -1.0
               : (double)(*troupe_payload(msg, uint64_t) / 10);
}

Test(stash, with_priorities_it_comes_back_to_its_place)
{
    troupe_mailbox_options options = bounded(0, TROUPE_OVERFLOW_REJECT);
    troupe_ref ref;

    options.priority = rank_of;
    ref = spawn(&options, 0);
    tell(ref, CMD_SHUT, 0);
    cr_assert_eq(post(ref, 21), TROUPE_OK);
    cr_assert_eq(post(ref, 11), TROUPE_OK);
    cr_assert_eq(post(ref, 12), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(actor.left, 3);
    /* Newer ones of the same rank stay behind it, more important ones not. */
    tell(ref, CMD_OPEN, 0);
    cr_assert_eq(post(ref, 13), TROUPE_OK);
    cr_assert_eq(post(ref, 5), TROUPE_OK);
    cr_assert_eq(post(ref, 22), TROUPE_OK);
    CHECK(5, 11, 12, 13, 21, 22);
}

Test(stash, with_priorities_the_least_important_goes)
{
    troupe_mailbox_options options = bounded(4, TROUPE_OVERFLOW_DROP_LOWEST);
    troupe_ref ref;

    options.priority = rank_of;
    ref = spawn(&options, 0);
    tell(ref, CMD_SHUT, 0);
    cr_assert_eq(post(ref, 51), TROUPE_OK);
    cr_assert_eq(post(ref, 11), TROUPE_OK);
    test_run(the_system);
    tell(ref, CMD_OPEN, 0);
    cr_assert_eq(post(ref, 31), TROUPE_OK);
    cr_assert_eq(post(ref, 61), TROUPE_OK);
    cr_assert_eq(post(ref, 32), TROUPE_OK);
    CHECK(11, 31, 32, 51);
    cr_assert_eq(drops.count, 1);
    cr_assert_eq(drops.reason[0], TROUPE_DROP_HEAD);
    cr_assert_eq(drops.number[0], 61);
}

Test(stash, with_priorities_and_reject_it_is_all_or_nothing)
{
    troupe_mailbox_options options = bounded(3, TROUPE_OVERFLOW_REJECT);
    troupe_ref ref;

    options.priority = rank_of;
    ref = spawn(&options, 0);
    tell(ref, CMD_SHUT, 0);
    cr_assert_eq(post(ref, 11), TROUPE_OK);
    cr_assert_eq(post(ref, 12), TROUPE_OK);
    test_run(the_system);
    tell(ref, CMD_OPEN, 0);
    cr_assert_eq(post(ref, 21), TROUPE_OK);
    cr_assert_eq(post(ref, 22), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(actor.last, TROUPE_E_FULL);
    cr_assert_eq(actor.left, 2);
    CHECK(21, 22);
    tell(ref, CMD_UNSTASH, 0);
    CHECK(21, 22, 11, 12);
}

/* Undroppable ones that come back before them take no room of theirs. */
Test(stash, with_priorities_and_reject_nothing_is_dropped)
{
    troupe_mailbox_options options = bounded(4, TROUPE_OVERFLOW_REJECT);
    troupe_ref ref;

    options.priority = rank_of;
    ref = spawn(&options, 0);
    tell(ref, CMD_SHUT, 0);
    test_run(the_system);
    for (uint64_t i = 0; i < 2; i++) {
        cr_assert_eq(troupe_post(the_system, ref, &vital, &i), TROUPE_OK);
        test_run(the_system);
    }
    cr_assert_eq(post(ref, 11), TROUPE_OK);
    cr_assert_eq(post(ref, 12), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(actor.left, 4);
    tell(ref, CMD_OPEN, 0);
    cr_assert_eq(post(ref, 21), TROUPE_OK);
    cr_assert_eq(post(ref, 22), TROUPE_OK);
    CHECK(0, 1, 11, 12, 21, 22);
    cr_assert_eq(actor.last, TROUPE_OK);
    cr_assert_eq(drops.count, 0);
    cr_assert_eq(test_counters(the_system).dropped, 0);
}
