/* SPDX-License-Identifier: MIT */
#include "support/await.h"
#include "support/seed.h"
#include "support/system.h"

#include <criterion/criterion.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/*
 * Timers by key, the receive timeout and delayed messages: in virtual time,
 * where nothing is late unless a test wants it, and last on threads.
 */

#define MS(n) TROUPE_MS(n)
#define RECORDS 4096

static troupe_system *the_system;

/* What the actor under test got, and when. */
static struct clock {
    troupe_ref ref;
    uint32_t count;
    struct {
        troupe_tag tag;
        troupe_ref sender;
        size_t bytes;
        uint64_t number;
        uint64_t at_ns;
    } entry[RECORDS];
    troupe_verdict (*act)(troupe_self *self, const troupe_msg *msg);
    troupe_status (*start)(troupe_self *self);
    void (*stop)(troupe_self *self);
} watch;

struct call {
    void (*what)(troupe_self *self, void *user);
    void *user;
};
TROUPE_MSG_TYPE(call_type, struct call, 100);
TROUPE_MSG_TYPE_WITH(
    vital_call, struct call, 100, TROUPE_MSG_UNDROPPABLE, NULL);

static troupe_verdict
watch_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    if (troupe_msg_is(msg, &call_type)) {
        const struct call *call = troupe_payload(msg, struct call);

        call->what(self, call->user);
        return TROUPE_CONTINUE;
    }
    cr_assert_lt(watch.count, RECORDS);
    watch.entry[watch.count].tag = troupe_msg_tag(msg);
    watch.entry[watch.count].sender = msg->sender;
    watch.entry[watch.count].bytes = msg->bytes;
    if (msg->bytes >= sizeof(uint64_t)) {
        memcpy(
            &watch.entry[watch.count].number, msg->payload, sizeof(uint64_t));
    }
    watch.entry[watch.count++].at_ns = troupe_now_ns(troupe_self_system(self));
    return watch.act != NULL ? watch.act(self, msg) : TROUPE_CONTINUE;
}

static troupe_status
watch_start(troupe_self *self, void *state, const void *arg)
{
    (void)state;
    (void)arg;
    return watch.start != NULL ? watch.start(self) : TROUPE_OK;
}

static void
watch_stop(troupe_self *self, void *state, const troupe_exit *why)
{
    (void)state;
    (void)why;
    if (watch.stop != NULL) {
        watch.stop(self);
    }
}

static const troupe_actor_type watch_type = {
    .size = sizeof(troupe_actor_type),
    .name = "watch",
    .receive = watch_receive,
    .start = watch_start,
    .stop = watch_stop,
};

static void
spawn_with(const troupe_mailbox_options *mailbox,
    const troupe_throttle_options *throttle)
{
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);

    options.mailbox = mailbox;
    options.throttle = throttle;
    cr_assert_eq(
        troupe_system_spawn(the_system, &watch_type, &options, &watch.ref),
        TROUPE_OK);
}

static void
setup(void)
{
    memset(&watch, 0, sizeof watch);
    memset(&test_letters, 0, sizeof test_letters);
    the_system = test_open_driven(3);
    spawn_with(NULL, NULL);
}

static void
teardown(void)
{
    test_close(the_system);
}

TestSuite(timer, .init = setup, .fini = teardown);

static void
respawn(const troupe_mailbox_options *mailbox,
    const troupe_throttle_options *throttle)
{
    cr_assert_eq(troupe_post_stop(the_system, watch.ref), TROUPE_OK);
    test_run(the_system);
    spawn_with(mailbox, throttle);
}

static void
call_later(void (*what)(troupe_self *self, void *user), void *user)
{
    const struct call call = {what, user};

    cr_assert_eq(
        troupe_post(the_system, watch.ref, &call_type, &call), TROUPE_OK);
}

static void
call(void (*what)(troupe_self *self, void *user), void *user)
{
    call_later(what, user);
    test_run(the_system);
}

static void
advance(uint64_t by_ns)
{
    cr_assert_eq(troupe_system_advance(the_system, by_ns), TROUPE_OK);
}

static uint64_t
now(void)
{
    return troupe_now_ns(the_system);
}

/* --- what a test asks for, in a call ----------------------------------------
 */

enum kind { ONCE, DELAY, RATE };

struct start {
    enum kind kind;
    uint64_t key;
    uint64_t number;
    uint64_t first_ns;
    uint64_t interval_ns;
    const troupe_msg_type *type; /* NULL: test_number */
    const void *payload;
    troupe_status status;
};

static struct start
timer(enum kind kind, uint64_t key, uint64_t number, uint64_t first_ns,
    uint64_t interval_ns)
{
    return (struct start){.kind = kind,
        .key = key,
        .number = number,
        .first_ns = first_ns,
        .interval_ns = interval_ns};
}

static struct start
carrying(struct start start, const troupe_msg_type *type, const void *payload)
{
    start.type = type;
    start.payload = payload;
    return start;
}

static troupe_status
start_now(troupe_self *self, const struct start *start)
{
    const troupe_msg_type *type =
        start->type != NULL ? start->type : &test_number;
    const void *payload = start->type != NULL ? start->payload : &start->number;

    switch (start->kind) {
    case ONCE:
        return troupe_timer_once(
            self, start->key, type, payload, start->first_ns);
    case DELAY:
        return troupe_timer_fixed_delay(self, start->key, type, payload,
            start->first_ns, start->interval_ns);
    case RATE:
        return troupe_timer_fixed_rate(self, start->key, type, payload,
            start->first_ns, start->interval_ns);
    }
    return TROUPE_E_INVALID;
}

static void
do_start(troupe_self *self, void *user)
{
    struct start *start = user;

    start->status = start_now(self, start);
}

static void
start(struct start what)
{
    call(do_start, &what);
    cr_assert_eq(what.status, TROUPE_OK);
}

struct query {
    uint64_t key;
    bool answer;
};

static void
do_cancel(troupe_self *self, void *user)
{
    struct query *query = user;

    query->answer = troupe_timer_cancel(self, query->key);
    cr_assert_not(troupe_timer_is_active(self, query->key));
}

static bool
cancel(uint64_t key)
{
    struct query query = {key, false};

    call(do_cancel, &query);
    return query.answer;
}

static void
do_is_active(troupe_self *self, void *user)
{
    struct query *query = user;

    query->answer = troupe_timer_is_active(self, query->key);
}

static bool
is_active(uint64_t key)
{
    struct query query = {key, false};

    call(do_is_active, &query);
    return query.answer;
}

static void
do_timeout(troupe_self *self, void *user)
{
    cr_assert_eq(troupe_receive_timeout(self, *(uint64_t *)user), TROUPE_OK);
}

static void
set_timeout(uint64_t silence_ns)
{
    call(do_timeout, &silence_ns);
}

static void
expect(uint32_t i, uint64_t number, uint64_t at_ns)
{
    cr_assert_gt(watch.count, i);
    cr_assert_eq(watch.entry[i].number, number);
    cr_assert_eq(watch.entry[i].at_ns, at_ns, "message %u at %lu, not %lu", i,
        (unsigned long)watch.entry[i].at_ns, (unsigned long)at_ns);
}

/* --- keys -------------------------------------------------------------------
 */

Test(timer, once_fires_when_it_is_due_and_not_before)
{
    start(timer(ONCE, 7, 70, MS(5), 0));
    cr_assert(is_active(7));
    advance(MS(5) - 1);
    cr_assert_eq(watch.count, 0);
    advance(1);
    cr_assert_eq(watch.count, 1);
    expect(0, 70, MS(5));
    cr_assert(troupe_ref_is_none(watch.entry[0].sender));
    cr_assert_eq(watch.entry[0].bytes, sizeof(uint64_t));
    cr_assert_not(is_active(7));
    cr_assert_not(cancel(7));
    advance(MS(100));
    cr_assert_eq(watch.count, 1);
}

Test(timer, no_delay_is_in_line_at_once)
{
    start(timer(ONCE, 1, 10, 0, 0));
    cr_assert_eq(watch.count, 1);
    expect(0, 10, 0);
    start(timer(DELAY, 2, 20, 0, MS(3)));
    start(timer(RATE, 3, 30, 0, MS(3)));
    cr_assert_eq(watch.count, 3);
    advance(MS(3));
    cr_assert_eq(watch.count, 5);
}

Test(timer, periodic_ones_repeat)
{
    start(timer(DELAY, 1, 10, MS(1), MS(10)));
    start(timer(RATE, 2, 20, MS(2), MS(10)));
    advance(MS(32));
    cr_assert_eq(watch.count, 8);
    for (uint32_t i = 0; i < 8; i++) {
        expect(i, 10 + i % 2 * 10, MS(1 + i % 2) + MS(10) * (i / 2));
    }
    cr_assert(is_active(1));
    cr_assert(cancel(1));
    cr_assert(cancel(2));
    advance(MS(100));
    cr_assert_eq(watch.count, 8);
}

Test(timer, a_start_replaces)
{
    start(timer(RATE, 1, 10, MS(5), MS(5)));
    advance(MS(12));
    start(timer(ONCE, 1, 11, MS(5), 0));
    advance(MS(100));
    cr_assert_eq(watch.count, 3);
    expect(1, 10, MS(10));
    expect(2, 11, MS(17));
}

static void
start_two_and_cancel(troupe_self *self, void *user)
{
    struct start first = timer(ONCE, 1, 10, 0, 0);
    struct start second = timer(RATE, 2, 20, 0, MS(4));

    (void)user;
    cr_assert_eq(start_now(self, &first), TROUPE_OK);
    cr_assert_eq(start_now(self, &second), TROUPE_OK);
    cr_assert(troupe_timer_is_active(self, 1));
    cr_assert(troupe_timer_cancel(self, 1));
    second.number = 21;
    cr_assert_eq(start_now(self, &second), TROUPE_OK);
}

Test(timer, what_is_queued_of_a_cancelled_timer_is_not_handled)
{
    call(start_two_and_cancel, NULL);
    cr_assert_eq(watch.count, 1);
    expect(0, 21, 0);
    cr_assert_eq(test_counters(the_system).cancelled, 2);
    advance(MS(4));
    cr_assert_eq(watch.count, 2);
}

/* One message a second, so that a second one waits until then. */
static const troupe_throttle_options slowly = {
    .size = sizeof(troupe_throttle_options),
    .per_second = 1,
    .burst = 1};

static void
do_nothing(troupe_self *self, void *user)
{
    (void)self;
    (void)user;
}

/* Starts it with the token that is there; the next call is a second later. */
static void
start_slowly(struct start what)
{
    respawn(NULL, &slowly);
    start(what);
    call_later(do_nothing, NULL);
    test_run(the_system);
}

/* The clock of tokens is not exact to the nanosecond. */
static void
expect_about(uint32_t i, uint64_t at_ns)
{
    cr_assert_gt(watch.count, i);
    cr_assert_geq(watch.entry[i].at_ns, at_ns);
    cr_assert_lt(watch.entry[i].at_ns, at_ns + 1000);
}

Test(timer, a_late_fixed_rate_fires_once_and_stays_in_step)
{
    start_slowly(timer(RATE, 1, 10, MS(300), MS(300)));
    advance(MS(1600));
    cr_assert_eq(watch.count, 3);
    expect_about(0, MS(1000)); /* of 300: 600 and 900 are left out */
    expect(1, 10, MS(1200));
    expect(2, 10, MS(1500));
}

Test(timer, a_late_fixed_delay_counts_from_when_it_was_handled)
{
    start_slowly(timer(DELAY, 1, 10, MS(300), MS(300)));
    advance(MS(1700));
    cr_assert_eq(watch.count, 3);
    expect_about(0, MS(1000));
    cr_assert_eq(watch.entry[1].at_ns, watch.entry[0].at_ns + MS(300));
    cr_assert_eq(watch.entry[2].at_ns, watch.entry[0].at_ns + MS(600));
}

Test(timer, cancel_is_exact_for_a_message_that_waits_behind_others)
{
    struct query query = {1, false};

    respawn(NULL, &slowly);
    start(timer(RATE, 1, 10, MS(300), MS(300)));
    call(do_cancel, &query);
    advance(MS(500));
    cr_assert_not(query.answer);
    cr_assert_eq(troupe_depth(the_system, watch.ref), 2);
    advance(MS(5000));
    cr_assert(query.answer);
    cr_assert_eq(watch.count, 0);
    cr_assert_eq(test_counters(the_system).cancelled, 1);
}

static troupe_verdict
cancel_in_the_tick(troupe_self *self, const troupe_msg *msg)
{
    (void)msg;
    cr_assert(troupe_timer_is_active(self, 1));
    cr_assert(troupe_timer_cancel(self, 1));
    cr_assert_not(troupe_timer_cancel(self, 1));
    cr_assert_not(troupe_timer_is_active(self, 1));
    return TROUPE_CONTINUE;
}

Test(timer, cancel_in_the_tick_leaves_nothing_behind)
{
    watch.act = cancel_in_the_tick;
    start(timer(DELAY, 1, 10, MS(1), MS(1)));
    advance(MS(10));
    cr_assert_eq(watch.count, 1);
    start(timer(RATE, 1, 10, MS(1), MS(1)));
    advance(MS(10));
    cr_assert_eq(watch.count, 2);
    cr_assert_eq(test_counters(the_system).timers, 0);
}

Test(timer, the_memory_of_one_that_ends_in_its_tick_is_free_at_once)
{
    uint64_t before;

    watch.act = cancel_in_the_tick;
    start(timer(DELAY, 1, 10, MS(1), TROUPE_S(1000)));
    before = test_counters(the_system).bytes;
    advance(MS(1));
    cr_assert_eq(watch.count, 1);
    cr_assert_lt(test_counters(the_system).bytes, before);
}

static troupe_verdict
restart_in_the_tick(troupe_self *self, const troupe_msg *msg)
{
    struct start again = timer(DELAY, 1, 0, MS(5), MS(5));

    again.number = *troupe_payload(msg, uint64_t) + 1;
    again.kind = again.number % 2 == 0 ? DELAY : RATE;
    cr_assert_eq(start_now(self, &again), TROUPE_OK);
    return TROUPE_CONTINUE;
}

Test(timer, a_start_in_the_tick_replaces)
{
    watch.act = restart_in_the_tick;
    start(timer(DELAY, 1, 0, MS(1), MS(1)));
    advance(MS(26));
    cr_assert_eq(watch.count, 6);
    for (uint32_t i = 0; i < 6; i++) {
        expect(i, i, MS(1 + 5 * i));
    }
    cr_assert_eq(test_counters(the_system).timers, 1);
}

static troupe_verdict
once_is_not_active_in_its_own_message(troupe_self *self, const troupe_msg *msg)
{
    (void)msg;
    cr_assert_not(troupe_timer_is_active(self, 1));
    cr_assert_not(troupe_timer_cancel(self, 1));
    return TROUPE_CONTINUE;
}

Test(timer, a_once_has_fired_when_its_message_is_handled)
{
    watch.act = once_is_not_active_in_its_own_message;
    start(timer(ONCE, 1, 10, MS(1), 0));
    advance(MS(1));
    cr_assert_eq(watch.count, 1);
}

static void
do_cancel_all(troupe_self *self, void *user)
{
    (void)user;
    for (uint64_t key = 0; key < 1000; key++) {
        struct start one =
            timer((enum kind)(key % 3), key * key, key, MS(key % 7), MS(1));

        cr_assert_eq(start_now(self, &one), TROUPE_OK);
    }
    troupe_timer_cancel_all(self);
    for (uint64_t key = 0; key < 1000; key++) {
        cr_assert_not(troupe_timer_is_active(self, key * key));
    }
}

Test(timer, cancel_all_ends_all_of_them)
{
    call(do_cancel_all, NULL);
    cr_assert_eq(test_counters(the_system).timers, 0);
    advance(MS(50));
    cr_assert_eq(watch.count, 0);
}

static troupe_verdict
stop_at_the_third(troupe_self *self, const troupe_msg *msg)
{
    (void)msg;
    if (watch.count == 1) {
        call_later(start_two_and_cancel, NULL);
    }
    (void)self;
    return watch.count == 3 ? TROUPE_DONE : TROUPE_CONTINUE;
}

Test(timer, all_end_with_the_actor)
{
    watch.act = stop_at_the_third;
    start(timer(RATE, 11, 10, MS(1), MS(1)));
    start(timer(DELAY, 12, 10, MS(1), MS(1)));
    start(timer(ONCE, 13, 10, MS(100), 0));
    set_timeout(MS(7));
    advance(MS(200));
    cr_assert_eq(watch.count, 3);
    cr_assert_eq(test_counters(the_system).timers, 0);
    cr_assert_eq(test_letters.total, 0, "they are no dead letters");
}

static void
stop_with_full_mailbox(troupe_self *self, void *user)
{
    struct start one = timer(ONCE, 1, 10, 0, 0);

    (void)user;
    for (one.key = 0; one.key < 10; one.key++) {
        one.kind = (enum kind)(one.key % 3);
        one.interval_ns = MS(1);
        cr_assert_eq(start_now(self, &one), TROUPE_OK);
    }
    cr_assert_eq(troupe_stop_now(self, troupe_self_ref(self)), TROUPE_OK);
}

Test(timer, queued_messages_of_an_actor_that_stops_are_cancelled)
{
    call(stop_with_full_mailbox, NULL);
    cr_assert_eq(watch.count, 0);
    cr_assert_eq(test_counters(the_system).cancelled, 10);
    cr_assert_eq(test_letters.total, 0);
}

static void
try_in_stop(troupe_self *self)
{
    struct start one = timer(ONCE, 1, 10, 0, 0);

    cr_assert_not(troupe_timer_is_active(self, 5), "cancelled before stop()");
    cr_assert_eq(start_now(self, &one), TROUPE_E_STATE);
    cr_assert_eq(troupe_receive_timeout(self, MS(1)), TROUPE_E_STATE);
    watch.count = 77;
}

Test(timer, an_actor_that_stops_cannot_start_any)
{
    watch.stop = try_in_stop;
    start(timer(RATE, 5, 50, MS(1), MS(1)));
    cr_assert_eq(troupe_post_stop(the_system, watch.ref), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(watch.count, 77);
    watch.stop = NULL;
}

static troupe_status
start_and_fail(troupe_self *self)
{
    struct start one = timer(RATE, 1, 10, 0, MS(1));

    cr_assert_eq(start_now(self, &one), TROUPE_OK);
    cr_assert_eq(troupe_receive_timeout(self, MS(1)), TROUPE_OK);
    return TROUPE_E_FAILED;
}

Test(timer, a_start_that_fails_takes_them_with_it)
{
    watch.start = start_and_fail;
    spawn_with(NULL, NULL);
    test_run(the_system);
    advance(MS(10));
    cr_assert_eq(watch.count, 0);
    cr_assert_eq(test_counters(the_system).timers, 0);
}

/* --- restarts ---------------------------------------------------------------
 */

/* A 99 starts one that is in line at once, and fails. */
static troupe_verdict
fail_at_99(troupe_self *self, const troupe_msg *msg)
{
    struct start one = timer(RATE, 5, 50, 0, MS(1));

    if (*troupe_payload(msg, uint64_t) != 99) {
        return TROUPE_CONTINUE;
    }
    cr_assert_eq(start_now(self, &one), TROUPE_OK);
    return TROUPE_FAILED;
}

static void
fail_it(void)
{
    test_post_number(the_system, watch.ref, 99);
    test_run(the_system);
}

Test(timer, all_end_with_a_restart)
{
    watch.act = fail_at_99;
    start(timer(RATE, 1, 10, MS(1), MS(1)));
    start(timer(DELAY, 2, 20, MS(1), MS(1)));
    start(timer(ONCE, 3, 30, MS(1), 0));
    set_timeout(MS(1));
    fail_it();
    advance(MS(50));
    cr_assert_eq(watch.count, 1, "only the one that failed");
    cr_assert_eq(test_counters(the_system).restarted, 1);
    cr_assert_eq(test_counters(the_system).timers, 0);
    cr_assert_eq(test_counters(the_system).cancelled, 1);
    cr_assert_eq(test_letters.total, 0);
}

static troupe_status
start_one(troupe_self *self)
{
    struct start one = timer(RATE, 1, 10, MS(10), MS(10));

    return start_now(self, &one);
}

Test(timer, one_that_start_starts_keeps_its_rate_over_restarts)
{
    watch.start = start_one;
    watch.act = fail_at_99;
    respawn(NULL, NULL);
    test_run(the_system);
    for (int i = 0; i < 5; i++) {
        fail_it();
    }
    watch.count = 0;
    advance(MS(100));
    cr_assert_eq(watch.count, 10);
    cr_assert_eq(test_counters(the_system).timers, 1);
}

static troupe_status last_status;

static void
try_before_restart(troupe_self *self)
{
    struct start one = timer(ONCE, 1, 10, 0, 0);

    last_status = start_now(self, &one);
}

Test(timer, the_old_state_cannot_start_any_for_the_new_one)
{
    watch.act = fail_at_99;
    watch.stop = try_before_restart;
    fail_it();
    cr_assert_eq(last_status, TROUPE_E_STATE);
    watch.stop = NULL;
}

/* --- payloads ---------------------------------------------------------------
 */

static struct test_large
large(_Atomic uint64_t *drops, uint64_t number)
{
    struct test_large large = {.owned = {drops, number}};

    memset(large.more, (int)number, sizeof large.more);
    return large;
}

TROUPE_MSG_TYPE(large_plain, struct test_large, 90);
TROUPE_MSG_TYPE_WITH(
    large_shared, struct test_large, 91, TROUPE_MSG_SHARED, NULL);

/* Whoever moves something out of it does so for this one message. */
static troupe_verdict
spoil(troupe_self *self, const troupe_msg *msg)
{
    struct test_large *large = troupe_payload_mut(msg, struct test_large);

    (void)self;
    cr_assert_eq(large->owned.number, 9);
    for (size_t i = 0; i < sizeof large->more; i++) {
        cr_assert_eq(large->more[i], 9);
    }
    if (msg->type == &large_plain) {
        memset(large, 0xee, sizeof *large);
    }
    return TROUPE_CONTINUE;
}

Test(timer, a_large_payload_is_the_same_each_time)
{
    struct test_large payload = large(NULL, 9);

    watch.act = spoil;
    start(carrying(timer(ONCE, 1, 0, MS(1), 0), &large_plain, &payload));
    start(carrying(timer(DELAY, 2, 0, MS(1), MS(1)), &large_plain, &payload));
    start(carrying(timer(RATE, 3, 0, MS(1), MS(1)), &large_plain, &payload));
    start(carrying(timer(RATE, 4, 0, MS(1), MS(1)), &large_shared, &payload));
    memset(&payload, 0, sizeof payload);
    advance(MS(10));
    cr_assert_eq(watch.count, 31);
    cr_assert_eq(watch.entry[0].bytes, sizeof(struct test_large));
}

struct keep {
    troupe_msg *taken;
};
static struct keep keep;

static troupe_verdict
take_it(troupe_self *self, const troupe_msg *msg)
{
    (void)msg;
    troupe_msg_free(keep.taken);
    cr_assert_eq(troupe_take(self, &keep.taken), TROUPE_OK);
    return TROUPE_CONTINUE;
}

Test(timer, a_message_that_was_taken_is_the_takers)
{
    struct test_large payload = large(NULL, 9);

    watch.act = take_it;
    start(carrying(timer(RATE, 1, 0, MS(1), MS(1)), &large_plain, &payload));
    start(carrying(timer(DELAY, 2, 0, MS(1), MS(1)), &large_shared, &payload));
    start(timer(DELAY, 3, 33, MS(1), MS(1)));
    advance(MS(4));
    cr_assert_eq(watch.count, 12);
    cr_assert(cancel(1) && cancel(2) && cancel(3));
    cr_assert(troupe_ref_is_none(keep.taken->sender));
    troupe_msg_free(keep.taken);
    keep.taken = NULL;
}

static const troupe_msg_type *const owning[] = {
    &test_owned, &test_large, &test_shared};

Test(timer, what_a_payload_owns_is_dropped_once)
{
    _Atomic uint64_t drops = 0;
    uint64_t expected = 0;

    for (size_t i = 0; i < 3; i++) {
        struct test_large payload = large(&drops, 1);
        struct start one =
            carrying(timer(ONCE, 1, 0, MS(1), 0), owning[i], &payload);

        start(one); /* handled */
        advance(MS(1));
        cr_assert_eq(drops, ++expected);
        start(one); /* cancelled */
        cr_assert(cancel(1));
        cr_assert_eq(drops, ++expected);
        start(one); /* replaced */
        start(one);
        cr_assert_eq(drops, ++expected);
        one.key = 2; /* ends with the actor, and another one in line */
        start(one);
        respawn(NULL, NULL);
        expected += 2;
        cr_assert_eq(drops, expected);
    }
    cr_assert_eq(watch.count, 3);
}

static void
start_owned_and_cancel(troupe_self *self, void *user)
{
    struct start *one = user;

    cr_assert_eq(start_now(self, one), TROUPE_OK);
    cr_assert(troupe_timer_cancel(self, one->key));
}

Test(timer, what_a_queued_payload_owns_is_dropped_with_its_timer)
{
    _Atomic uint64_t drops = 0;

    for (size_t i = 0; i < 3; i++) {
        struct test_large payload = large(&drops, 1);
        struct start one =
            carrying(timer(ONCE, 1, 0, 0, 0), owning[i], &payload);

        call(start_owned_and_cancel, &one);
        cr_assert_eq(drops, i + 1);
    }
    cr_assert_eq(watch.count, 0);
}

Test(timer, what_owns_something_cannot_be_repeated)
{
    _Atomic uint64_t drops = 0;

    for (size_t i = 0; i < 3; i++) {
        struct test_large payload = large(&drops, 1);
        struct start one =
            carrying(timer(RATE, 1, 0, MS(1), MS(1)), owning[i], &payload);

        call(do_start, &one);
        cr_assert_eq(one.status, TROUPE_E_INVALID);
        cr_assert_str_eq(troupe_last_error().option, "type");
        one.kind = DELAY;
        call(do_start, &one);
        cr_assert_eq(one.status, TROUPE_E_INVALID);
    }
    cr_assert_eq(drops, 0, "a refusal leaves it with the caller");
}

Test(timer, a_mistake_changes_nothing)
{
    struct start bad[] = {
        timer(RATE, 1, 10, MS(1), 0),
        timer(DELAY, 1, 10, MS(1), 0),
        carrying(timer(ONCE, 1, 10, MS(1), 0), &test_number, NULL),
        carrying(timer(ONCE, 1, 10, MS(1), 0), &test_empty, &bad),
    };

    start(timer(ONCE, 1, 11, MS(5), 0));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        call(do_start, &bad[i]);
        cr_assert_eq(bad[i].status, TROUPE_E_INVALID, "%zu", i);
    }
    cr_assert_eq(
        troupe_timer_once(NULL, 1, &test_empty, NULL, 1), TROUPE_E_INVALID);
    cr_assert_eq(troupe_receive_timeout(NULL, 1), TROUPE_E_INVALID);
    cr_assert_not(troupe_timer_cancel(NULL, 1));
    cr_assert_not(troupe_timer_is_active(NULL, 1));
    troupe_timer_cancel_all(NULL);
    advance(MS(10));
    cr_assert_eq(watch.count, 1);
    expect(0, 11, MS(5));
}

static troupe_verdict
send_on_what_it_owns(troupe_self *self, const troupe_msg *msg)
{
    if (watch.count == 1) {
        cr_assert_eq(troupe_timer_once(self, 2, msg->type, msg->payload, MS(1)),
            TROUPE_OK);
    }
    return TROUPE_CONTINUE;
}

Test(timer, a_payload_of_the_current_message_moves_on)
{
    _Atomic uint64_t drops = 0;

    watch.act = send_on_what_it_owns;
    for (size_t i = 0; i < 3; i++) {
        struct test_large payload = large(&drops, 1);

        watch.count = 0;
        start(carrying(timer(ONCE, 1, 0, 0, 0), owning[i], &payload));
        cr_assert_eq(watch.count, 1);
        cr_assert_eq(drops, i);
        advance(MS(1));
        cr_assert_eq(watch.count, 2);
        cr_assert_eq(drops, i + 1);
    }
}

static troupe_verdict
send_on_what_is_shared(troupe_self *self, const troupe_msg *msg)
{
    if (watch.count == 1) {
        cr_assert_not(troupe_ref_is_none(msg->sender));
        for (uint64_t key = 0; key < 2; key++) {
            struct start one =
                carrying(timer(key == 0 ? ONCE : RATE, key, 0, MS(1), MS(1)),
                    msg->type, msg->payload);

            cr_assert_eq(start_now(self, &one), TROUPE_OK);
        }
    }
    return TROUPE_CONTINUE;
}

static troupe_verdict
send_shared(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    troupe_tell(self, watch.ref, &large_shared, user);
    return TROUPE_CONTINUE;
}

Test(timer, its_message_has_no_sender_even_if_it_shares_one_that_had)
{
    struct test_large payload = large(NULL, 9);

    watch.act = send_on_what_is_shared;
    test_do(
        the_system, test_spawn_doer(the_system, NULL), send_shared, &payload);
    advance(MS(2));
    cr_assert_eq(watch.count, 4);
    for (uint32_t i = 1; i < 4; i++) {
        cr_assert(troupe_ref_is_none(watch.entry[i].sender));
        cr_assert_eq(watch.entry[i].bytes, sizeof payload);
    }
}

/* --- times ------------------------------------------------------------------
 */

Test(timer, delays_saturate)
{
    troupe_run run;

    advance(MS(5));
    start(timer(ONCE, 1, 10, UINT64_MAX, 0));
    start(timer(RATE, 2, 20, MS(1), UINT64_MAX));
    start(timer(DELAY, 3, 30, UINT64_MAX - 1, UINT64_MAX));
    start(timer(RATE, 4, 40, UINT64_MAX - MS(5) - 1, MS(1)));
    advance(MS(1));
    cr_assert_eq(watch.count, 1);
    expect(0, 20, MS(6));
    advance(UINT64_MAX);
    cr_assert_eq(watch.count, 2, "%u", watch.count);
    expect(1, 40, UINT64_MAX - 1);
    cr_assert(is_active(1) && is_active(2) && is_active(3) && is_active(4));
    cr_assert_eq(troupe_system_run(the_system, 0, &run), TROUPE_OK);
    cr_assert_eq(run.next_timer_ns, TROUPE_FOREVER);
}

Test(timer, a_host_learns_when_the_next_one_is_due)
{
    troupe_run run;

    start(timer(ONCE, 1, 10, MS(50), 0));
    start(timer(ONCE, 2, 20, MS(40), 0));
    cr_assert_eq(troupe_system_run(the_system, 0, &run), TROUPE_OK);
    cr_assert_eq(run.next_timer_ns, MS(40));
    advance(MS(10));
    cr_assert_eq(troupe_system_run(the_system, 0, &run), TROUPE_OK);
    cr_assert_eq(run.next_timer_ns, MS(30));
}

/* --- mailboxes --------------------------------------------------------------
 */

static double
rank(const troupe_msg *msg, void *user)
{
    (void)user;
    if (!troupe_msg_is(msg, &test_number)) {
        return 1000;
    }
    cr_assert(troupe_ref_is_none(msg->sender));
    return (double)*troupe_payload(msg, uint64_t);
}

/* A mailbox for two is full, and there is a tick for each of three keys. */
static void
fill(troupe_self *self, void *user)
{
    troupe_ref me = troupe_self_ref(self);

    (void)user;
    for (uint64_t i = 0; i < 2; i++) {
        cr_assert_eq(troupe_send(self, me, &test_other, &i), TROUPE_OK);
    }
    for (uint64_t key = 0; key < 3; key++) {
        struct start one = timer((enum kind)key, key, 10 + key, 0, MS(10));

        cr_assert_eq(start_now(self, &one), TROUPE_OK);
    }
}

Test(timer, a_full_mailbox_takes_their_messages)
{
    for (int i = 0; i < 6; i++) {
        troupe_mailbox_options mailbox = TROUPE_INIT(troupe_mailbox_options);

        mailbox.capacity = 2;
        mailbox.overflow = (troupe_overflow)(i % 3);
        if (i >= 3) {
            mailbox.priority = rank;
            mailbox.overflow = i == 3   ? TROUPE_OVERFLOW_REJECT
                               : i == 4 ? TROUPE_OVERFLOW_DROP_NEW
                                        : TROUPE_OVERFLOW_DROP_LOWEST;
        }
        respawn(&mailbox, NULL);
        watch.count = 0;
        call(fill, NULL);
        cr_assert_eq(watch.count, 5, "kind %d: %u", i, watch.count);
        advance(MS(10));
        cr_assert_eq(watch.count, 7, "kind %d: %u", i, watch.count);
        cr_assert_eq(test_counters(the_system).dropped, 0);
    }
}

static troupe_verdict
stash_numbers(troupe_self *self, const troupe_msg *msg)
{
    if (troupe_msg_is(msg, &test_number) && watch.count <= 3) {
        cr_assert_eq(troupe_stash(self), TROUPE_OK);
    } else if (troupe_msg_is(msg, &test_other)) {
        cr_assert_eq(troupe_unstash(self, 0), TROUPE_OK);
    }
    return TROUPE_CONTINUE;
}

Test(timer, a_message_can_be_stashed)
{
    uint64_t other = 5;

    watch.act = stash_numbers;
    start(timer(DELAY, 1, 10, MS(1), MS(10)));
    start(timer(RATE, 2, 20, MS(2), MS(100)));
    start(timer(ONCE, 3, 30, MS(3), 0));
    advance(MS(5));
    cr_assert_eq(watch.count, 3);
    cr_assert_eq(
        troupe_post(the_system, watch.ref, &test_other, &other), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(watch.count, 7);
    expect(4, 10, MS(5));
    expect(5, 20, MS(5));
    expect(6, 30, MS(5));
    advance(MS(6));
    cr_assert_eq(watch.count, 8);
}

static troupe_verdict
fail_unhandled(troupe_self *self, const troupe_msg *msg)
{
    (void)self;
    (void)msg;
    return TROUPE_UNHANDLED;
}

Test(timer, an_unhandled_message_is_a_dead_letter_and_the_timer_goes_on)
{
    struct test_large payload = large(NULL, 9);

    watch.act = fail_unhandled;
    start(timer(DELAY, 1, 10, MS(1), MS(1)));
    start(carrying(timer(RATE, 2, 0, MS(1), MS(1)), &large_plain, &payload));
    advance(MS(3));
    cr_assert_eq(watch.count, 6);
    cr_assert_eq(test_letters.by_reason[TROUPE_DEAD_UNHANDLED], 6);
}

/* --- the receive timeout ----------------------------------------------------
 */

Test(timer, silence_is_told_again_and_again)
{
    set_timeout(MS(10));
    advance(MS(9));
    cr_assert_eq(watch.count, 0);
    advance(MS(26));
    cr_assert_eq(watch.count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        cr_assert_eq(watch.entry[i].tag, TROUPE_TAG_IDLE);
        cr_assert_eq(watch.entry[i].bytes, 0);
        cr_assert(troupe_ref_is_none(watch.entry[i].sender));
        expect(i, 0, MS(10) * (i + 1));
    }
    set_timeout(TROUPE_NEVER);
    advance(MS(100));
    cr_assert_eq(watch.count, 3);
}

Test(timer, every_message_begins_a_new_silence)
{
    set_timeout(MS(10));
    for (uint64_t i = 0; i < 20; i++) {
        advance(MS(6));
        test_post_number(the_system, watch.ref, i);
        test_run(the_system);
    }
    cr_assert_eq(watch.count, 20, "never silent for long enough");
    advance(MS(9));
    cr_assert_eq(watch.count, 20);
    advance(MS(1));
    cr_assert_eq(watch.count, 21);
    expect(20, 0, MS(130));
}

Test(timer, a_timeout_that_is_set_again_begins_anew)
{
    set_timeout(MS(10));
    advance(MS(5));
    set_timeout(MS(20));
    advance(MS(19));
    cr_assert_eq(watch.count, 0);
    advance(MS(1));
    cr_assert_eq(watch.count, 1);
}

/* The notice of 10 ms waits behind a message that waits for a token. */
Test(timer, a_timeout_overtakes_nobody_and_is_void_after_a_message)
{
    respawn(NULL, &slowly);
    set_timeout(MS(400));
    test_post_number(the_system, watch.ref, 5);
    test_run(the_system);
    advance(MS(999));
    cr_assert_eq(watch.count, 0);
    cr_assert_eq(troupe_depth(the_system, watch.ref), 2);
    advance(MS(2));
    cr_assert_eq(watch.count, 1);
    expect(0, 5, watch.entry[0].at_ns);
    cr_assert_eq(test_counters(the_system).cancelled, 1);
    advance(MS(398));
    cr_assert_eq(watch.count, 1);
    advance(MS(2));
    cr_assert_eq(watch.count, 2);
    cr_assert_eq(watch.entry[1].tag, TROUPE_TAG_IDLE);
}

static troupe_verdict
switch_off(troupe_self *self, const troupe_msg *msg)
{
    (void)msg;
    cr_assert_eq(troupe_receive_timeout(self, TROUPE_NEVER), TROUPE_OK);
    return TROUPE_CONTINUE;
}

static troupe_verdict
set_longer(troupe_self *self, const troupe_msg *msg)
{
    (void)msg;
    cr_assert_eq(
        troupe_receive_timeout(self, MS(10) * (watch.count + 1)), TROUPE_OK);
    return TROUPE_CONTINUE;
}

Test(timer, a_timeout_can_be_changed_when_it_is_told)
{
    watch.act = switch_off;
    set_timeout(MS(10));
    advance(MS(50));
    cr_assert_eq(watch.count, 1);
    watch.act = set_longer;
    set_timeout(MS(10));
    advance(MS(10));
    expect(1, 0, MS(60));
    advance(MS(30));
    expect(2, 0, MS(90));
    advance(MS(40));
    expect(3, 0, MS(130));
    cr_assert_eq(watch.count, 4);
}

static troupe_status
set_in_start(troupe_self *self)
{
    return troupe_receive_timeout(self, MS(10));
}

Test(timer, a_timeout_set_in_start_works_with_rules_too)
{
    troupe_mailbox_options mailbox = TROUPE_INIT(troupe_mailbox_options);

    mailbox.capacity = 4;
    watch.start = set_in_start;
    for (int i = 0; i < 3; i++) {
        watch.count = 0;
        mailbox.overflow =
            i == 1 ? TROUPE_OVERFLOW_DROP_HEAD : TROUPE_OVERFLOW_REJECT;
        mailbox.priority = i == 2 ? rank : NULL;
        respawn(&mailbox, NULL);
        test_run(the_system);
        advance(MS(9));
        test_post_number(the_system, watch.ref, 1);
        test_run(the_system);
        advance(MS(9));
        cr_assert_eq(watch.count, 1, "%d", i);
        advance(MS(1));
        cr_assert_eq(watch.count, 2, "%d", i);
        cr_assert_eq(watch.entry[1].tag, TROUPE_TAG_IDLE);
    }
}

static void
throttle_it(troupe_self *self, void *user)
{
    (void)user;
    cr_assert_eq(troupe_throttle(self, &slowly), TROUPE_OK);
}

Test(timer, an_actor_with_a_timeout_can_be_throttled_later)
{
    set_timeout(MS(5000));
    call_later(throttle_it, NULL);
    test_post_numbers(the_system, watch.ref, 3);
    test_run(the_system);
    cr_assert_eq(watch.count, 1);
    advance(MS(2001));
    cr_assert_eq(watch.count, 3);
    advance(MS(5000));
    cr_assert_eq(watch.count, 4);
}

/* --- delayed messages -------------------------------------------------------
 */

static troupe_delayed
post_after(troupe_ref to, uint64_t number, uint64_t delay_ns)
{
    troupe_delayed delayed = {0};

    cr_assert_eq(troupe_post_after(
                     the_system, to, &test_number, &number, delay_ns, &delayed),
        TROUPE_OK);
    cr_assert_neq(delayed.id, 0);
    return delayed;
}

Test(timer, a_delayed_post_arrives_when_it_is_due)
{
    troupe_delayed delayed = post_after(watch.ref, 10, MS(5));

    cr_assert_eq(test_counters(the_system).timers, 1);
    cr_assert_eq(test_counters(the_system).sent, 0, "counts when it is due");
    advance(MS(5) - 1);
    cr_assert_eq(watch.count, 0);
    advance(1);
    cr_assert_eq(watch.count, 1);
    expect(0, 10, MS(5));
    cr_assert(troupe_ref_is_none(watch.entry[0].sender));
    cr_assert_not(troupe_delayed_cancel(the_system, delayed));
    cr_assert_eq(test_counters(the_system).timers, 0);
}

Test(timer, cancel_says_whether_it_will_not_be_sent)
{
    troupe_delayed delayed = post_after(watch.ref, 10, MS(5));
    troupe_delayed other;

    cr_assert(troupe_delayed_cancel(the_system, delayed));
    cr_assert_not(troupe_delayed_cancel(the_system, delayed));
    other = post_after(watch.ref, 20, MS(5));
    cr_assert_not(troupe_delayed_cancel(the_system, delayed),
        "the id of one that was is not that of another one");
    cr_assert_not(troupe_delayed_cancel(the_system, (troupe_delayed){0}));
    cr_assert_not(
        troupe_delayed_cancel(the_system, (troupe_delayed){UINT64_MAX}));
    cr_assert_not(troupe_delayed_cancel(NULL, other));
    advance(MS(10));
    cr_assert_eq(watch.count, 1);
    expect(0, 20, MS(5));
    cr_assert_eq(test_counters(the_system).sent, 1);
}

struct sending {
    troupe_ref to;
    troupe_delayed delayed;
};

static void
do_send_after(troupe_self *self, void *user)
{
    struct sending *sending = user;
    uint64_t number = 33;

    cr_assert_eq(troupe_send_after(self, sending->to, &test_number, &number,
                     MS(5), &sending->delayed),
        TROUPE_OK);
    cr_assert_eq(
        troupe_send_after(self, sending->to, &test_empty, NULL, MS(6), NULL),
        TROUPE_OK);
}

Test(timer, a_delayed_send_outlives_its_sender_and_names_it)
{
    static struct test_record record;
    troupe_ref sender = watch.ref;
    struct sending sending = {
        .to = test_spawn_recorder(the_system, NULL, &record)};

    call(do_send_after, &sending);
    respawn(NULL, NULL);
    advance(MS(6));
    cr_assert_eq(record.count, 2);
    cr_assert_eq(record.entry[0].number, 33);
    cr_assert(troupe_ref_equal(record.entry[0].sender, sender));
    cr_assert_eq(record.entry[1].tag, TEST_TAG_EMPTY);
}

Test(timer, a_delayed_message_to_nobody_is_a_dead_letter_when_it_is_due)
{
    struct test_large payload;
    _Atomic uint64_t drops = 0;
    troupe_ref dead = test_dead_actor(the_system);

    (void)post_after(dead, 10, MS(5));
    for (size_t i = 0; i < 3; i++) {
        payload = large(&drops, 1);
        cr_assert_eq(troupe_post_after(
                         the_system, dead, owning[i], &payload, MS(5), NULL),
            TROUPE_OK);
    }
    cr_assert_eq(test_letters.total, 0);
    advance(MS(5));
    cr_assert_eq(test_letters.by_reason[TROUPE_DEAD_STOPPED], 4);
    cr_assert_eq(drops, 3);
    cr_assert_eq(test_counters(the_system).refused, 0);
}

Test(timer, a_full_mailbox_refuses_a_delayed_message)
{
    troupe_mailbox_options mailbox = TROUPE_INIT(troupe_mailbox_options);

    mailbox.capacity = 1;
    respawn(&mailbox, &slowly);
    for (uint64_t i = 0; i < 3; i++) {
        (void)post_after(watch.ref, i, MS(5));
    }
    advance(MS(5));
    test_run(the_system);
    cr_assert_eq(test_letters.by_reason[TROUPE_DEAD_REFUSED], 2);
}

Test(timer, what_a_delayed_payload_owns_is_dropped_once)
{
    static _Atomic uint64_t drops;
    troupe_delayed delayed;

    drops = 0;
    for (size_t i = 0; i < 3; i++) {
        struct test_large payload = large(&drops, 1);

        cr_assert_eq(troupe_post_after(the_system, watch.ref, owning[i],
                         &payload, MS(5), &delayed),
            TROUPE_OK);
        cr_assert(troupe_delayed_cancel(the_system, delayed));
        cr_assert_eq(drops, 3 * i + 1);
        cr_assert_eq(troupe_post_after(the_system, watch.ref, owning[i],
                         &payload, MS(5), &delayed),
            TROUPE_OK);
        advance(MS(5));
        cr_assert_eq(drops, 3 * i + 2);
        cr_assert_eq(troupe_post_after(the_system, TROUPE_NONE, owning[i],
                         &payload, MS(5), &delayed),
            TROUPE_E_INVALID);
        cr_assert_eq(drops, 3 * i + 2, "a refusal leaves it with the caller");
        test_drop(&payload, owning[i]->bytes);
    }
    cr_assert_eq(watch.count, 3);
}

Test(timer_end, what_is_pending_when_the_system_goes_is_dropped_and_not_counted)
{
    _Atomic uint64_t drops = 0;
    troupe_delayed delayed;

    setup();
    for (size_t i = 0; i < 3; i++) {
        struct test_large payload = large(&drops, 1);

        cr_assert_eq(troupe_post_after(the_system, watch.ref, owning[i],
                         &payload, TROUPE_S(1000), &delayed),
            TROUPE_OK);
    }
    cr_assert_eq(troupe_system_stop(the_system), TROUPE_OK);
    cr_assert_eq(drops, 0);
    cr_assert_eq(test_counters(the_system).sent, 0);
    cr_assert_eq(troupe_post_after(
                     the_system, watch.ref, &test_empty, NULL, 0, &delayed),
        TROUPE_E_CLOSED);
    cr_assert_eq(test_counters(the_system).sent, 0);
    test_close(the_system);
    cr_assert_eq(drops, 3);
}

Test(timer, mistakes_of_delayed_messages_are_refused)
{
    uint64_t number = 1;

    cr_assert_eq(
        troupe_post_after(NULL, watch.ref, &test_number, &number, 0, NULL),
        TROUPE_E_INVALID);
    cr_assert_eq(
        troupe_post_after(the_system, watch.ref, NULL, &number, 0, NULL),
        TROUPE_E_INVALID);
    cr_assert_eq(
        troupe_post_after(the_system, watch.ref, &test_number, NULL, 0, NULL),
        TROUPE_E_INVALID);
    cr_assert_eq(
        troupe_send_after(NULL, watch.ref, &test_number, &number, 0, NULL),
        TROUPE_E_INVALID);
    cr_assert_eq(test_counters(the_system).timers, 0);
}

/* --- against a reference ----------------------------------------------------
 */

#define KEYS 40
#define STEPS 3000

/* What a timer of a key should do, kept by the simplest means. */
static struct model {
    bool active;
    enum kind kind;
    uint64_t number;
    uint64_t due_ns;
    uint64_t interval_ns;
} model[KEYS];

struct event {
    uint64_t at_ns;
    uint64_t number;
};
static struct event expected[RECORDS];
static uint32_t expected_count;

static void
model_tick(struct model *timer)
{
    cr_assert_lt(expected_count, RECORDS);
    expected[expected_count++] = (struct event){timer->due_ns, timer->number};
    timer->active = timer->kind != ONCE;
    timer->due_ns += timer->interval_ns;
}

static void
model_advance(uint64_t to_ns)
{
    for (;;) {
        struct model *next = NULL;

        for (int i = 0; i < KEYS; i++) {
            if (model[i].active && model[i].due_ns <= to_ns &&
                (next == NULL || model[i].due_ns < next->due_ns)) {
                next = &model[i];
            }
        }
        if (next == NULL) {
            return;
        }
        model_tick(next);
    }
}

static uint64_t
random_delay(struct test_rng *rng, uint64_t least)
{
    static const uint64_t units[] = {1, 1000, 1000000, 300000000};
    uint64_t unit = units[test_random_below(rng, 4)];

    return least + test_random_below(rng, 60) * unit;
}

static void
play(struct test_rng *rng, uint64_t *number)
{
    uint64_t key = test_random_below(rng, KEYS);
    struct model *entry = &model[key];
    uint32_t what = test_random_below(rng, 20);

    if (what < 6) {
        struct start one = timer((enum kind)test_random_below(rng, 3),
            key * UINT64_C(0x100000001), ++*number, random_delay(rng, 0),
            random_delay(rng, MS(100)));

        start(one);
        *entry = (struct model){true, one.kind, one.number,
            now() + one.first_ns, one.kind != ONCE ? one.interval_ns : 0};
    } else if (what < 9) {
        bool was_active = cancel(key * UINT64_C(0x100000001));

        cr_assert_eq(was_active, entry->active);
        entry->active = false;
    } else if (what == 9 && test_random_below(rng, 8) == 0) {
        call(do_cancel_all, NULL);
        memset(model, 0, sizeof model);
    } else if (what < 12) {
        cr_assert_eq(is_active(key * UINT64_C(0x100000001)), entry->active);
    } else {
        advance(random_delay(rng, 0));
    }
    model_advance(now());
}

static int
by_time(const void *a, const void *b)
{
    const struct event *x = a;
    const struct event *y = b;

    if (x->at_ns != y->at_ns) {
        return x->at_ns < y->at_ns ? -1 : 1;
    }
    return x->number < y->number ? -1 : x->number > y->number;
}

static void
compare(uint32_t step)
{
    static struct event found[RECORDS];

    cr_assert_eq(watch.count, expected_count, "step %u: %u of %u", step,
        watch.count, expected_count);
    for (uint32_t i = 0; i < watch.count; i++) {
        found[i] = (struct event){watch.entry[i].at_ns, watch.entry[i].number};
    }
    qsort(found, watch.count, sizeof found[0], by_time);
    qsort(expected, expected_count, sizeof expected[0], by_time);
    cr_assert_eq(memcmp(found, expected, watch.count * sizeof found[0]), 0,
        "step %u", step);
    watch.count = expected_count = 0;
}

Test(timer, any_sequence_of_calls_does_what_a_simple_model_does)
{
    struct test_rng rng = {test_seed()};
    uint64_t number = 0;

    for (uint32_t step = 0; step < STEPS; step++) {
        play(&rng, &number);
        compare(step);
    }
}

#define MANY 20000

/* So many that the table grows and shrinks again and again. */
static void
play_with_many(troupe_self *self, void *user)
{
    static bool active[MANY];
    struct test_rng *rng = user;
    uint32_t shift = test_random_below(rng, 49);
    uint32_t least = 0;
    uint64_t count = 0;

    for (uint32_t i = 0; i < 30 * MANY; i++) {
        uint64_t number = test_random_below(rng, MANY);
        uint64_t key = number << shift;

        if (i % (4 * MANY) == 0) {
            least = test_random_below(rng, 90); /* now more, now fewer */
        }
        cr_assert_eq(troupe_timer_is_active(self, key), active[number]);
        count -= active[number];
        if (test_random_below(rng, 100) < least) {
            cr_assert_eq(troupe_timer_once(
                             self, key, &test_number, &number, TROUPE_S(1000)),
                TROUPE_OK);
            active[number] = true;
        } else {
            cr_assert_eq(troupe_timer_cancel(self, key), active[number]);
            active[number] = false;
        }
        count += active[number];
    }
    for (uint64_t number = 0; number < MANY; number++) {
        cr_assert_eq(
            troupe_timer_is_active(self, number << shift), active[number]);
    }
    cr_assert_eq(test_counters(the_system).timers, count);
    troupe_timer_cancel_all(self);
}

Test(timer, there_can_be_many_keys)
{
    struct test_rng rng = {test_seed()};
    uint64_t before = test_counters(the_system).bytes;

    call(play_with_many, &rng);
    cr_assert_eq(test_counters(the_system).timers, 0);
    cr_assert_lt(test_counters(the_system).bytes, before + 1000,
        "the table has shrunk again");
}

/* --- threads ----------------------------------------------------------------
 */

static _Atomic uint64_t ticks;
static _Atomic uint64_t early;

static troupe_verdict
count_ticks(troupe_self *self, void *state, const troupe_msg *msg)
{
    uint64_t due_ns = *troupe_payload(msg, uint64_t);

    (void)state;
    if (troupe_now_ns(troupe_self_system(self)) < due_ns) {
        atomic_fetch_add(&early, 1);
    }
    atomic_fetch_add(&ticks, 1);
    return TROUPE_CONTINUE;
}

static troupe_status
start_on_threads(troupe_self *self, void *state, const void *arg)
{
    uint64_t now_ns = troupe_now_ns(troupe_self_system(self));
    uint64_t due_ns = now_ns + MS(5);

    (void)state;
    (void)arg;
    if (troupe_timer_once(self, 1, &test_number, &due_ns, MS(5)) != TROUPE_OK) {
        return TROUPE_E_FAILED;
    }
    due_ns = now_ns + TROUPE_S(10000);
    if (troupe_timer_fixed_rate(self, 2, &test_number, &due_ns, TROUPE_S(10000),
            TROUPE_S(10000)) != TROUPE_OK) {
        return TROUPE_E_FAILED;
    }
    return troupe_receive_timeout(self, TROUPE_S(10000));
}

static const troupe_actor_type ticker_type = {
    .size = sizeof(troupe_actor_type),
    .name = "ticker",
    .receive = count_ticks,
    .start = start_on_threads,
};

Test(timer_threads, fires_and_does_not_hold_up_idle_or_stop)
{
    troupe_ref ref = TROUPE_NONE;
    uint64_t far = UINT64_MAX;

    the_system = test_open_threads(2);
    atomic_store(&ticks, 0);
    for (int i = 0; i < 20; i++) {
        cr_assert_eq(troupe_system_spawn(the_system, &ticker_type, NULL, &ref),
            TROUPE_OK);
    }
    cr_assert_eq(troupe_post_after(the_system, ref, &test_number, &far,
                     TROUPE_S(10000), NULL),
        TROUPE_OK);
    cr_assert(test_await_at_least(&ticks, 20));
    cr_assert_eq(
        troupe_system_await_idle(the_system, TROUPE_FOREVER), TROUPE_OK);
    cr_assert_eq(test_counters(the_system).timers, 41);
    cr_assert_eq(atomic_load(&early), 0);
    test_close(the_system);
}

static int
destroy_in_child(void)
{
    return troupe_system_destroy(the_system) == TROUPE_OK ? 0 : 1;
}

static int
use_in_child(void)
{
    troupe_delayed delayed = {0};

    return troupe_post_after(the_system, watch.ref, &test_empty, NULL, 0,
               &delayed) == TROUPE_E_FORKED &&
                   !troupe_delayed_cancel(
                       the_system, (troupe_delayed){UINT64_C(1) << 32 | 1})
               ? 0
               : 1;
}

Test(timer, a_forked_child_has_none)
{
    _Atomic uint64_t drops = 0;
    struct test_large payload = large(&drops, 1);
    static unsigned char much[10000];
    static const troupe_msg_type huge = {
        sizeof(troupe_msg_type), "huge", sizeof much, 95, 0, NULL};

    start(carrying(timer(ONCE, 1, 0, MS(5), 0), &test_large, &payload));
    start(carrying(timer(ONCE, 2, 0, MS(5), 0), &huge, much));
    cr_assert_eq(troupe_post_after(
                     the_system, watch.ref, &huge, much, TROUPE_S(1000), NULL),
        TROUPE_OK);
    cr_assert_eq(test_in_child(use_in_child), 0);
    cr_assert_eq(test_in_child(destroy_in_child), 0);
    advance(MS(5));
    cr_assert_eq(watch.count, 2);
}
