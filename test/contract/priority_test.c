/* SPDX-License-Identifier: MIT */
#include "support/system.h"

#include <criterion/criterion.h>

#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

/* Mailboxes that hand out the most important message first. */

static troupe_system *the_system;
static uint32_t ranked;     /* calls of the priority function */
static uint32_t unrankable; /* calls of on_unrankable */

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
    drops.number[drops.count++] = troupe_payload(msg, struct test_pair)->second;
}

/* The first of the pair says the rank in tenths, or names a special one. */
enum { RANK_NAN = 1000000, RANK_PLUS_INF, RANK_MINUS_INF, RANK_MINUS_ZERO };

static double
rank_of(const troupe_msg *msg, void *user)
{
    const struct test_pair *pair = troupe_payload(msg, struct test_pair);

    (void)user;
    ranked++;
    if (pair == NULL) {
        return (double)NAN;
    }
    switch (pair->first) {
    case RANK_NAN:
        return (double)NAN;
    case RANK_PLUS_INF:
        return (double)INFINITY;
    case RANK_MINUS_INF:
        return -(double)INFINITY;
    case RANK_MINUS_ZERO:
        return -0.0;
    default:
        return (double)pair->first / 10.0;
    }
}

static void
on_unrankable(const troupe_msg *msg, void *user)
{
    (void)msg;
    (void)user;
    unrankable++;
}

static void
setup(void)
{
    ranked = unrankable = 0;
    memset(&drops, 0, sizeof drops);
    the_system = test_open_driven(0);
}

static void
teardown(void)
{
    test_close(the_system);
}

TestSuite(priority, .init = setup, .fini = teardown);

/* Records the second of each pair. */
static struct {
    uint32_t count;
    uint64_t number[5000];
} seen;

static troupe_verdict
be_seen(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)self;
    (void)state;
    seen.number[seen.count++] =
        troupe_msg_is(msg, &test_pair)
            ? troupe_payload(msg, struct test_pair)->second
            : UINT64_MAX;
    return TROUPE_CONTINUE;
}

static const troupe_actor_type seen_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "seen",
    .receive = be_seen};

static troupe_mailbox_options
ordered(uint32_t capacity, troupe_overflow overflow)
{
    troupe_mailbox_options options = TROUPE_INIT(troupe_mailbox_options);

    options.capacity = capacity;
    options.overflow = overflow;
    options.priority = rank_of;
    options.on_unrankable = on_unrankable;
    options.on_drop = on_drop;
    return options;
}

static troupe_ref
spawn(const troupe_mailbox_options *mailbox)
{
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    troupe_ref ref = TROUPE_NONE;

    seen.count = 0;
    options.mailbox = mailbox;
    test_require(troupe_system_spawn(the_system, &seen_type, &options, &ref) ==
                 TROUPE_OK);
    return ref;
}

static troupe_status
post(troupe_ref to, uint64_t rank, uint64_t number)
{
    const struct test_pair pair = {rank, number};

    return troupe_post(the_system, to, &test_pair, &pair);
}

static void
check_seen(const uint64_t *numbers, uint32_t count)
{
    test_run(the_system);
    cr_assert_eq(seen.count, count, "%u messages", seen.count);
    for (uint32_t i = 0; i < count; i++) {
        cr_assert_eq(seen.number[i], numbers[i], "the %uth is %u", i,
            (unsigned)seen.number[i]);
    }
}

#define CHECK_SEEN(...)                                                        \
    check_seen((const uint64_t[]){__VA_ARGS__},                                \
        sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

Test(priority, lower_comes_first_and_equals_in_order_of_arrival)
{
    troupe_mailbox_options options = ordered(0, TROUPE_OVERFLOW_REJECT);
    troupe_ref ref = spawn(&options);

    cr_assert_eq(post(ref, 50, 1), TROUPE_OK);
    cr_assert_eq(post(ref, 10, 2), TROUPE_OK);
    cr_assert_eq(post(ref, 50, 3), TROUPE_OK);
    cr_assert_eq(post(ref, 10, 4), TROUPE_OK);
    cr_assert_eq(post(ref, 0, 5), TROUPE_OK);
    cr_assert_eq(post(ref, RANK_MINUS_ZERO, 6), TROUPE_OK);
    cr_assert_eq(troupe_depth(the_system, ref), 6);
    CHECK_SEEN(5, 6, 2, 4, 1, 3);
    cr_assert_eq(ranked, 6);
}

Test(priority, infinities_are_ranks_and_what_has_none_is_last)
{
    troupe_mailbox_options options = ordered(0, TROUPE_OVERFLOW_REJECT);
    troupe_ref ref = spawn(&options);

    cr_assert_eq(post(ref, RANK_NAN, 1), TROUPE_OK);
    cr_assert_eq(post(ref, RANK_PLUS_INF, 2), TROUPE_OK);
    cr_assert_eq(post(ref, 30, 3), TROUPE_OK);
    cr_assert_eq(post(ref, RANK_MINUS_INF, 4), TROUPE_OK);
    cr_assert_eq(post(ref, RANK_NAN, 5), TROUPE_OK);
    cr_assert_eq(unrankable, 2);
    CHECK_SEEN(4, 3, 2, 1, 5);
}

Test(priority, thousands_come_in_the_order_of_a_stable_sort)
{
    troupe_mailbox_options options = ordered(0, TROUPE_OVERFLOW_REJECT);
    troupe_ref ref = spawn(&options);

    for (uint64_t i = 0; i < 5000; i++) {
        cr_assert_eq(post(ref, i * 7919 % 100, i), TROUPE_OK);
    }
    test_run(the_system);
    cr_assert_eq(seen.count, 5000);
    for (uint32_t i = 1; i < 5000; i++) {
        uint64_t a = seen.number[i - 1] * 7919 % 100;
        uint64_t b = seen.number[i] * 7919 % 100;

        cr_assert(a < b || (a == b && seen.number[i - 1] < seen.number[i]));
    }
}

Test(priority, a_full_one_rejects_without_asking_for_the_rank)
{
    troupe_mailbox_options options = ordered(2, TROUPE_OVERFLOW_REJECT);
    troupe_ref ref = spawn(&options);

    cr_assert_eq(post(ref, 20, 1), TROUPE_OK);
    cr_assert_eq(post(ref, 10, 2), TROUPE_OK);
    cr_assert_eq(post(ref, 0, 3), TROUPE_E_FULL);
    cr_assert_eq(ranked, 2);
    cr_assert_eq(test_counters(the_system).refused, 1);
    CHECK_SEEN(2, 1);
}

Test(priority, a_full_one_drops_the_arrival_without_asking_for_the_rank)
{
    troupe_mailbox_options options = ordered(2, TROUPE_OVERFLOW_DROP_NEW);
    troupe_ref ref = spawn(&options);

    cr_assert_eq(post(ref, 20, 1), TROUPE_OK);
    cr_assert_eq(post(ref, 10, 2), TROUPE_OK);
    cr_assert_eq(post(ref, 0, 3), TROUPE_OK);
    cr_assert_eq(ranked, 2);
    cr_assert_eq(drops.count, 1);
    cr_assert_eq(drops.reason[0], TROUPE_DROP_NEW);
    cr_assert_eq(drops.number[0], 3);
    CHECK_SEEN(2, 1);
}

Test(priority, a_full_one_drops_the_least_important)
{
    troupe_mailbox_options options = ordered(3, TROUPE_OVERFLOW_DROP_LOWEST);
    troupe_ref ref = spawn(&options);

    cr_assert_eq(post(ref, 20, 1), TROUPE_OK);
    cr_assert_eq(post(ref, 30, 2), TROUPE_OK);
    cr_assert_eq(post(ref, 10, 3), TROUPE_OK);
    /* More important than the last: that one goes. */
    cr_assert_eq(post(ref, 0, 4), TROUPE_OK);
    cr_assert_eq(drops.reason[0], TROUPE_DROP_HEAD);
    cr_assert_eq(drops.number[0], 2);
    /* Less important than all: it goes itself. */
    cr_assert_eq(post(ref, 90, 5), TROUPE_OK);
    cr_assert_eq(drops.reason[1], TROUPE_DROP_NEW);
    cr_assert_eq(drops.number[1], 5);
    /* Equal to the worst: the older one survives. */
    cr_assert_eq(post(ref, 20, 6), TROUPE_OK);
    cr_assert_eq(drops.reason[2], TROUPE_DROP_NEW);
    cr_assert_eq(drops.number[2], 6);
    /* No rank at all. */
    cr_assert_eq(post(ref, RANK_NAN, 7), TROUPE_OK);
    cr_assert_eq(drops.reason[3], TROUPE_DROP_NEW);
    cr_assert_eq(drops.number[3], 7);
    cr_assert_eq(troupe_depth(the_system, ref), 3);
    CHECK_SEEN(4, 3, 1);
}

TROUPE_MSG_TYPE_WITH(
    vital, struct test_pair, 100, TROUPE_MSG_UNDROPPABLE, NULL);

Test(priority, undroppable_messages_are_ranked_and_never_dropped)
{
    troupe_mailbox_options options = ordered(2, TROUPE_OVERFLOW_DROP_LOWEST);
    troupe_ref ref = spawn(&options);
    const struct test_pair pair = {500, 9};

    for (int i = 0; i < 4; i++) {
        cr_assert_eq(troupe_post(the_system, ref, &vital, &pair), TROUPE_OK);
    }
    cr_assert_eq(post(ref, 10, 1), TROUPE_OK); /* shed: nothing else may go */
    cr_assert_eq(drops.count, 1);
    cr_assert_eq(drops.reason[0], TROUPE_DROP_NEW);
    cr_assert_eq(troupe_depth(the_system, ref), 4);
    test_run(the_system);
    cr_assert_eq(seen.count, 4);
}

Test(priority, the_librarys_own_droppable_messages_come_last)
{
    static const troupe_overflow policies[] = {TROUPE_OVERFLOW_REJECT,
        TROUPE_OVERFLOW_DROP_NEW, TROUPE_OVERFLOW_DROP_LOWEST};

    for (size_t p = 0; p < 3; p++) {
        troupe_mailbox_options options = ordered(2, policies[p]);
        troupe_ref ref = spawn(&options);

        ranked = 0;
        troupe_post_failure(the_system, ref, 7); /* not undroppable */
        cr_assert_eq(post(ref, 10, 1), TROUPE_OK);
        cr_assert_eq(ranked, 1);
        CHECK_SEEN(1, UINT64_MAX);
    }
}

Test(priority, a_stop_in_line_is_the_last_of_all)
{
    troupe_mailbox_options options = ordered(0, TROUPE_OVERFLOW_REJECT);
    troupe_ref ref = spawn(&options);

    cr_assert_eq(post(ref, 20, 1), TROUPE_OK);
    cr_assert_eq(troupe_post_stop(the_system, ref), TROUPE_OK);
    cr_assert_eq(post(ref, 30, 2), TROUPE_OK);
    cr_assert_eq(post(ref, 10, 3), TROUPE_OK);
    CHECK_SEEN(3, 1, 2);
    cr_assert_eq(ranked, 3);
    cr_assert_eq(troupe_depth(the_system, ref), TROUPE_DEPTH_DEAD);
}

Test(priority, what_is_queued_at_a_stop_now_becomes_dead_letters)
{
    troupe_mailbox_options options = ordered(0, TROUPE_OVERFLOW_REJECT);
    troupe_ref ref = spawn(&options);

    for (uint64_t i = 0; i < 10; i++) {
        cr_assert_eq(post(ref, i, i), TROUPE_OK);
    }
    cr_assert_eq(troupe_post_stop_now(the_system, ref), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(seen.count, 0);
    cr_assert_eq(test_letters.total, 10);
}

static _Atomic bool may_go;

static troupe_verdict
hold_worker(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)self;
    (void)msg;
    (void)user;
    while (!may_go) {
        sched_yield();
    }
    return TROUPE_CONTINUE;
}

Test(priority, what_waits_long_gets_ahead_with_ageing)
{
    troupe_mailbox_options options = ordered(0, TROUPE_OVERFLOW_REJECT);
    troupe_ref ref;
    uint64_t since_ns;

    test_close(the_system);
    the_system = test_open_threads(1);
    options.ageing_ns = TROUPE_MS(1);
    may_go = false;
    test_do_later(
        the_system, test_spawn_doer(the_system, NULL), hold_worker, NULL);
    ref = spawn(&options);
    cr_assert_eq(post(ref, 30, 1), TROUPE_OK); /* rank 3 */
    since_ns = troupe_now_ns(the_system);
    while (troupe_now_ns(the_system) < since_ns + TROUPE_MS(5)) {
        sched_yield();
    }
    cr_assert_eq(post(ref, 0, 2), TROUPE_OK); /* rank 0, five ranks later */
    cr_assert_eq(post(ref, 0, 3), TROUPE_OK);
    may_go = true;
    cr_assert_eq(
        troupe_system_await_idle(the_system, TROUPE_FOREVER), TROUPE_OK);
    cr_assert_eq(seen.count, 3);
    cr_assert_eq(seen.number[0], 1);
}

struct batch {
    troupe_ref to;
};

/* Sends, lets virtual time pass inside one behaviour, sends again. */
static troupe_verdict
send_twice(troupe_self *self, const troupe_msg *msg, void *user)
{
    struct batch *batch = user;
    const struct test_pair first = {30, 1};
    const struct test_pair second = {20, 2};
    const struct test_pair third = {28, 3};

    (void)msg;
    cr_assert_eq(troupe_send(self, batch->to, &test_pair, &third), TROUPE_OK);
    cr_assert_eq(troupe_send(self, batch->to, &test_pair, &first), TROUPE_OK);
    cr_assert_eq(troupe_send(self, batch->to, &test_pair, &second), TROUPE_OK);
    return TROUPE_CONTINUE;
}

Test(priority, works_from_behaviours)
{
    troupe_mailbox_options options = ordered(0, TROUPE_OVERFLOW_REJECT);
    struct batch batch = {spawn(&options)};

    test_do(the_system, test_spawn_doer(the_system, NULL), send_twice, &batch);
    CHECK_SEEN(2, 3, 1);
}
