/* SPDX-License-Identifier: MIT */
#include "support/system.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

/* A mailbox of the user's own: last in, first out, at most `limit` droppable.
 */

static troupe_system *the_system;

enum { MOST = 64 };

static struct {
    uint32_t opened, closed, limit;
    bool may_open;
    troupe_status refusal; /* if not OK: the answer of all three ways in */
    bool evicts;           /* the oldest goes when it is full */
    bool withholds;        /* dequeue() answers NULL, as if it had forgotten */
    uint32_t asked;        /* so often */
} how;

struct lifo {
    troupe_msg *msg[2 * MOST];
    uint32_t count;
};

static void *
lifo_open(void *user)
{
    cr_assert_eq(user, &how);
    how.opened++;
    return how.may_open ? calloc(1, sizeof(struct lifo)) : NULL;
}

static void
lifo_close(void *box)
{
    cr_assert_eq(((struct lifo *)box)->count, 0, "it must be empty");
    how.closed++;
    free(box);
}

static troupe_status
lifo_enqueue(void *box, troupe_msg *msg, troupe_msg **evicted)
{
    struct lifo *lifo = box;

    if (how.refusal != TROUPE_OK) {
        return how.refusal;
    }
    if (lifo->count >= how.limit) {
        if (!how.evicts) {
            return TROUPE_E_FULL;
        }
        *evicted = lifo->msg[0];
        memmove(lifo->msg, lifo->msg + 1, --lifo->count * sizeof *lifo->msg);
    }
    lifo->msg[lifo->count++] = msg;
    return TROUPE_OK;
}

static troupe_status
lifo_enqueue_undroppable(void *box, troupe_msg *msg)
{
    struct lifo *lifo = box;

    if (how.refusal != TROUPE_OK) {
        return how.refusal;
    }
    cr_assert_lt(lifo->count, 2 * MOST);
    lifo->msg[lifo->count++] = msg;
    return TROUPE_OK;
}

static troupe_msg *
lifo_dequeue(void *box)
{
    struct lifo *lifo = box;

    cr_assert_lt(how.asked++, 10000, "it must not be asked for ever");
    return lifo->count != 0 && !how.withholds ? lifo->msg[--lifo->count] : NULL;
}

static size_t
lifo_length(const void *box)
{
    return ((const struct lifo *)box)->count;
}

static const troupe_custom_mailbox lifo = {
    .size = TROUPE_OPTIONS(troupe_custom_mailbox),
    .name = "lifo",
    .open = lifo_open,
    .close = lifo_close,
    .enqueue = lifo_enqueue,
    .enqueue_undroppable = lifo_enqueue_undroppable,
    .prepend = lifo_enqueue,
    .dequeue = lifo_dequeue,
    .length = lifo_length,
};

static uint32_t drops;
static troupe_drop_reason last_reason;

static void
on_drop(troupe_drop_reason reason, const troupe_msg *msg, void *user)
{
    (void)msg;
    (void)user;
    last_reason = reason;
    drops++;
}

static const troupe_mailbox_options options = {
    .size = TROUPE_OPTIONS(troupe_mailbox_options),
    .on_drop = on_drop,
    .custom = &lifo,
    .custom_user = &how,
};

static void
setup(void)
{
    memset(&how, 0, sizeof how);
    how.limit = MOST;
    how.may_open = true;
    drops = 0;
    the_system = test_open_driven(0);
}

static void
teardown(void)
{
    test_close(the_system);
    test_require(how.closed == (how.may_open ? how.opened : 0));
}

TestSuite(custom, .init = setup, .fini = teardown);

static troupe_status
post(troupe_ref to, uint64_t number)
{
    return troupe_post(the_system, to, &test_number, &number);
}

Test(custom, its_order_is_the_order)
{
    struct test_record record = {0};
    troupe_ref ref = test_spawn_recorder_with(the_system, &options, &record);

    for (uint64_t i = 0; i < 5; i++) {
        cr_assert_eq(post(ref, i), TROUPE_OK);
    }
    cr_assert_eq(troupe_depth(the_system, ref), 5);
    test_run(the_system);
    for (uint32_t i = 0; i < 5; i++) {
        cr_assert_eq(record.entry[i].number, 4 - i);
    }
    cr_assert_eq(how.opened, 1);
}

Test(custom, it_is_opened_once_however_often_its_actor_is_restarted)
{
    struct test_record record = {.answer = TROUPE_FAILED};
    troupe_ref ref = test_spawn_recorder_with(the_system, &options, &record);

    for (uint64_t i = 0; i < 3; i++) {
        cr_assert_eq(post(ref, i), TROUPE_OK);
    }
    test_run(the_system);
    cr_assert_eq(record.started, 4);
    cr_assert_eq(record.count, 3);
    cr_assert_eq(how.opened, 1);
    cr_assert_eq(how.closed, 0);
}

Test(custom, what_it_refuses_stays_the_senders)
{
    struct test_record record = {0};
    _Atomic uint64_t freed = 0;
    struct test_large payload = {.owned = {&freed, 1}};
    troupe_ref ref = test_spawn_recorder_with(the_system, &options, &record);
    troupe_msg *msg = troupe_msg_new(the_system, &test_number, 0);

    how.limit = 0;
    cr_assert_eq(post(ref, 1), TROUPE_E_FULL);
    cr_assert_eq(
        troupe_post(the_system, ref, &test_large, &payload), TROUPE_E_FULL);
    cr_assert_eq(
        troupe_post(the_system, ref, &test_owned, &payload), TROUPE_E_FULL);
    cr_assert_eq(troupe_post_msg(the_system, ref, msg), TROUPE_E_FULL);
    how.refusal = TROUPE_E_NOMEM;
    cr_assert_eq(troupe_post_msg(the_system, ref, msg), TROUPE_E_NOMEM);
    cr_assert_eq(freed, 0);
    troupe_msg_free(msg);
    cr_assert_eq(drops, 0);
}

Test(custom, what_it_evicts_is_a_drop)
{
    struct test_record record = {0};
    _Atomic uint64_t freed = 0;
    troupe_ref ref = test_spawn_recorder_with(the_system, &options, &record);

    how.limit = 2;
    how.evicts = true;
    for (uint64_t i = 0; i < 5; i++) {
        struct test_owned payload = {&freed, i};

        cr_assert_eq(
            troupe_post(the_system, ref, &test_owned, &payload), TROUPE_OK);
    }
    cr_assert_eq(drops, 3);
    cr_assert_eq(last_reason, TROUPE_DROP_HEAD);
    cr_assert_eq(freed, 3);
    cr_assert_eq(test_counters(the_system).dropped, 3);
    cr_assert_eq(troupe_depth(the_system, ref), 2);
    test_run(the_system);
    cr_assert_eq(freed, 5);
}

TROUPE_MSG_TYPE_WITH(vital, uint64_t, 100, TROUPE_MSG_UNDROPPABLE, NULL);

Test(custom, undroppable_messages_have_their_own_way_in)
{
    struct test_record record = {0};
    troupe_ref ref = test_spawn_recorder_with(the_system, &options, &record);
    const uint64_t number = 7;

    how.limit = 0;
    cr_assert_eq(troupe_post(the_system, ref, &vital, &number), TROUPE_OK);
    cr_assert_eq(troupe_depth(the_system, ref), 1);
    test_run(the_system);
    cr_assert_eq(record.count, 1);
}

static troupe_verdict
start_some(troupe_self *self, const troupe_msg *msg, void *user)
{
    uint64_t number = 0;

    (void)msg;
    (void)user;
    for (; number < 6; number++) {
        cr_assert_eq(troupe_timer_once(self, number, &test_number, &number, 0),
            TROUPE_OK);
    }
    cr_assert(troupe_timer_cancel(self, 2));
    cr_assert_eq(troupe_depth(the_system, troupe_self_ref(self)), 6);
    cr_assert_eq(troupe_timer_fixed_delay(
                     self, 9, &test_number, &number, TROUPE_S(1000), 1),
        TROUPE_OK);
    return TROUPE_CONTINUE;
}

Test(
    custom, timers_come_in_the_undroppable_way_and_are_known_when_they_come_out)
{
    troupe_ref ref = test_spawn_doer_with(the_system, &options);

    test_do(the_system, ref, start_some, NULL);
    cr_assert_eq(test_counters(the_system).handled, 6);
    cr_assert_eq(test_counters(the_system).cancelled, 1);
    how.limit = 0;
    test_run(the_system);
    cr_assert_eq(test_counters(the_system).timers, 1);
}

static troupe_verdict
start_and_be_evicted(troupe_self *self, const troupe_msg *msg, void *user)
{
    uint64_t number = 5;

    (void)msg;
    (void)user;
    cr_assert_eq(
        troupe_timer_once(self, 1, &test_number, &number, 0), TROUPE_OK);
    cr_assert_eq(
        troupe_send(self, troupe_self_ref(self), &test_number, &number),
        TROUPE_OK);
    cr_assert(troupe_timer_is_active(self, 1));
    return TROUPE_CONTINUE;
}

/* Against the rules: what is undroppable goes when an arrival has no room. */
Test(custom, a_timer_survives_a_mailbox_that_gives_it_up)
{
    troupe_ref ref = test_spawn_doer_with(the_system, &options);

    how.limit = 1;
    how.evicts = true;
    test_do(the_system, ref, start_and_be_evicted, NULL);
    while (test_counters(the_system).timers != 0) {
        test_run(the_system); /* it comes again in a millisecond */
    }
    cr_assert_eq(test_counters(the_system).cancelled, 1);
    cr_assert_eq(drops, 0);
}

Test(custom, a_stop_in_line_waits_until_it_is_empty)
{
    struct test_record record = {0};
    troupe_ref ref = test_spawn_recorder_with(the_system, &options, &record);

    cr_assert_eq(post(ref, 1), TROUPE_OK);
    cr_assert_eq(troupe_post_stop(the_system, ref), TROUPE_OK);
    cr_assert_eq(post(ref, 2), TROUPE_OK);
    cr_assert_eq(troupe_depth(the_system, ref), 3);
    test_run(the_system);
    cr_assert_eq(record.count, 2);
    cr_assert_eq(record.stopped, 1);
    cr_assert_eq(how.closed, 1);
}

Test(custom, it_is_emptied_before_it_is_closed)
{
    struct test_record record = {0};
    troupe_ref ref = test_spawn_recorder_with(the_system, &options, &record);

    for (uint64_t i = 0; i < 6; i++) {
        cr_assert_eq(post(ref, i), TROUPE_OK);
    }
    cr_assert_eq(troupe_post_stop_now(the_system, ref), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(record.count, 0);
    cr_assert_eq(test_letters.total, 6);
    cr_assert_eq(how.closed, 1);
}

Test(custom, one_that_does_not_open_fails_the_spawn)
{
    troupe_spawn_options spawn = TROUPE_INIT(troupe_spawn_options);
    uint64_t bytes = test_counters(the_system).bytes;
    troupe_ref ref = TROUPE_NONE;
    struct test_record record = {0};
    struct test_record *where = &record;

    how.may_open = false;
    spawn.mailbox = &options;
    spawn.arg = &where;
    spawn.arg_bytes = sizeof where;
    cr_assert_eq(troupe_system_spawn(the_system, &test_recorder, &spawn, &ref),
        TROUPE_E_FAILED);
    cr_assert(troupe_ref_is_none(ref));
    cr_assert_eq(test_counters(the_system).actors, 0);
    cr_assert_leq(test_counters(the_system).bytes, bytes);
}

static uint32_t handled[8];
static bool stashing;

static troupe_verdict
stash_first(troupe_self *self, void *state, const troupe_msg *msg)
{
    const uint64_t *number = troupe_payload(msg, uint64_t);

    (void)state;
    if (stashing) {
        cr_assert_eq(troupe_stash(self), TROUPE_OK);
        if (troupe_stash_length(self) == 3) {
            stashing = false;
            cr_assert_eq(troupe_unstash(self, 2), TROUPE_OK);
            cr_assert_eq(troupe_stash_length(self), 1);
        }
        return TROUPE_CONTINUE;
    }
    handled[*number]++;
    if (troupe_stash_length(self) != 0) {
        cr_assert_eq(troupe_unstash(self, 0), TROUPE_OK);
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type stasher = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "stasher",
    .receive = stash_first};

Test(custom, what_is_unstashed_goes_through_prepend)
{
    troupe_spawn_options spawn = TROUPE_INIT(troupe_spawn_options);
    troupe_ref ref;

    memset(handled, 0, sizeof handled);
    stashing = true;
    spawn.mailbox = &options;
    cr_assert_eq(
        troupe_system_spawn(the_system, &stasher, &spawn, &ref), TROUPE_OK);
    for (uint64_t i = 0; i < 5; i++) {
        cr_assert_eq(post(ref, i), TROUPE_OK);
    }
    test_run(the_system);
    for (int i = 0; i < 5; i++) {
        cr_assert_eq(handled[i], 1, "%d: %u", i, handled[i]);
    }
}

Test(custom, what_prepend_refuses_stays_in_the_stash)
{
    troupe_spawn_options spawn = TROUPE_INIT(troupe_spawn_options);
    troupe_ref ref;

    (void)ref;
    memset(handled, 0, sizeof handled);
    stashing = true;
    spawn.mailbox = &options;
    cr_assert_eq(
        troupe_system_spawn(the_system, &stasher, &spawn, &ref), TROUPE_OK);
    cr_assert_eq(post(ref, 0), TROUPE_OK);
    cr_assert_eq(post(ref, 1), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(troupe_depth(the_system, ref), 0);
    cr_assert_eq(test_counters(the_system).queued, 2); /* in the stash */
    cr_assert_eq(troupe_post_stop(the_system, ref), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(test_letters.by_reason[TROUPE_DEAD_STASH], 2);
}

TROUPE_MSG_TYPE_WITH(shared_beat, uint64_t[32], 77, TROUPE_MSG_SHARED, NULL);

/* Its timers are seen once, put aside, and seen again; handled[7] counts. */
static troupe_status
start_beats(troupe_self *self, void *state, const void *arg)
{
    static const uint64_t numbers[32] = {7};

    (void)state;
    (void)arg;
    cr_assert_eq(
        troupe_timer_once(self, 1, &test_number, numbers, 0), TROUPE_OK);
    cr_assert_eq(troupe_timer_fixed_rate(
                     self, 2, &test_number, numbers, 0, TROUPE_S(1000)),
        TROUPE_OK);
    return troupe_timer_fixed_rate(
        self, 3, &shared_beat, numbers, 0, TROUPE_S(1000));
}

static troupe_verdict
stash_beats(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    cr_assert(troupe_ref_is_none(msg->sender));
    cr_assert_eq(*(const uint64_t *)msg->payload, 7);
    if (++handled[7] > 3) {
        return TROUPE_CONTINUE;
    }
    cr_assert_eq(troupe_stash(self), TROUPE_OK);
    return troupe_check(
        self, handled[7] == 3 ? troupe_unstash(self, 0) : TROUPE_OK);
}

static const troupe_actor_type beats = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "beats",
    .receive = stash_beats,
    .start = start_beats};

Test(custom, timers_that_were_stashed_come_back)
{
    troupe_spawn_options spawn = TROUPE_INIT(troupe_spawn_options);
    troupe_ref ref;

    memset(handled, 0, sizeof handled);
    spawn.mailbox = &options;
    cr_assert_eq(
        troupe_system_spawn(the_system, &beats, &spawn, &ref), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(handled[7], 6);
}

/* --- one that breaks its promise ------------------------------------------ */

/* A run that has come to rest. */
static void
check_rests(void)
{
    troupe_run run;

    cr_assert_eq(troupe_system_run(the_system, 0, &run), TROUPE_OK);
    cr_assert_lt(run.turns, 10);
    cr_assert_eq(run.runnable, 0);
}

Test(custom, one_that_does_not_give_what_it_has_costs_no_processor)
{
    struct test_record record = {0};
    troupe_ref ref = test_spawn_recorder_with(the_system, &options, &record);

    how.withholds = true;
    cr_assert_eq(post(ref, 1), TROUPE_OK);
    cr_assert_eq(post(ref, 2), TROUPE_OK);
    check_rests();
    cr_assert_eq(record.count, 0);
    cr_assert_eq(test_counters(the_system).queued, 2); /* the loss */
    cr_assert_eq(troupe_depth(the_system, ref), 2);
    how.refusal = TROUPE_E_FULL;
    cr_assert_eq(post(ref, 3), TROUPE_E_FULL); /* nothing has come */
    check_rests();
    how.refusal = TROUPE_OK;
    how.withholds = false;
    cr_assert_eq(post(ref, 3), TROUPE_OK); /* asks again */
    test_run(the_system);
    cr_assert_eq(record.count, 3);
}

Test(custom, one_that_does_not_give_what_it_has_can_be_stopped)
{
    struct test_record record = {0};
    troupe_ref ref = test_spawn_recorder_with(the_system, &options, &record);

    cr_assert_eq(post(ref, 1), TROUPE_OK);
    how.withholds = true;
    check_rests();
    cr_assert_eq(troupe_post_stop_now(the_system, ref), TROUPE_OK);
    how.withholds = false;
    test_run(the_system);
    cr_assert_eq(record.stopped, 1);
    cr_assert_eq(test_letters.total, 1);
}

/* --- the throttle --------------------------------------------------------- */

/* It had to be asked for a message to know whether that costs a token. */
Test(custom, what_it_gave_waits_for_its_token_before_all_others)
{
    troupe_spawn_options spawn = TROUPE_INIT(troupe_spawn_options);
    troupe_throttle_options throttle = TROUPE_INIT(troupe_throttle_options);
    struct test_record record = {0};
    struct test_record *where = &record;
    troupe_ref ref;

    test_close(the_system);
    the_system = test_open_driven(3); /* virtual time */
    throttle.per_second = 1;
    throttle.burst = 1;
    spawn.throttle = &throttle;
    spawn.mailbox = &options;
    spawn.arg = &where;
    spawn.arg_bytes = sizeof where;
    cr_assert_eq(troupe_system_spawn(the_system, &test_recorder, &spawn, &ref),
        TROUPE_OK);
    for (uint64_t i = 0; i < 3; i++) {
        cr_assert_eq(post(ref, i), TROUPE_OK);
    }
    test_run(the_system); /* 2, and 1 waits */
    cr_assert_eq(troupe_depth(the_system, ref), 2);
    cr_assert_eq(post(ref, 3), TROUPE_OK);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(
            troupe_system_advance(the_system, TROUPE_MS(1001)), TROUPE_OK);
        test_run(the_system);
    }
    cr_assert_eq(record.count, 4);
    cr_assert_eq(record.entry[0].number, 2);
    cr_assert_eq(record.entry[1].number, 1);
    cr_assert_eq(record.entry[2].number, 3);
    cr_assert_eq(record.entry[3].number, 0);
}

/* Scenario 28; notices are undroppable messages. */
Test(custom, one_of_capacity_1_gets_100_undroppable_messages)
{
    struct test_record record = {0};
    troupe_ref ref = test_spawn_recorder_with(the_system, &options, &record);

    how.limit = 1;
    cr_assert_eq(post(ref, 0), TROUPE_OK);
    for (uint64_t i = 0; i < 100; i++) {
        cr_assert_eq(troupe_post(the_system, ref, &vital, &i), TROUPE_OK);
        cr_assert_eq(post(ref, 0), TROUPE_E_FULL);
    }
    test_run(the_system);
    cr_assert_eq(record.count, 101);
    cr_assert_eq(drops, 0);
}

/* --- the way back --------------------------------------------------------- */

/* Stashes; an empty message opens it, and says how many to put back. */
static struct {
    bool shut;
    uint32_t limit, left, count;
    uint64_t number[16];
    troupe_status last;
} gate;

static troupe_verdict
pass_gate(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    if (troupe_msg_is(msg, &test_empty)) {
        gate.shut = false;
        gate.last = troupe_unstash(self, gate.limit);
        gate.left = troupe_stash_length(self);
    } else if (gate.shut) {
        cr_assert_eq(troupe_stash(self), TROUPE_OK);
    } else {
        gate.number[gate.count++] = *troupe_payload(msg, uint64_t);
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type gate_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "gate",
    .receive = pass_gate};

/* With 0 .. count - 1 in its stash; the odd ones are undroppable if asked. */
static troupe_ref
spawn_gate(uint64_t count, bool with_vital)
{
    troupe_spawn_options spawn = TROUPE_INIT(troupe_spawn_options);
    troupe_ref ref = TROUPE_NONE;

    memset(&gate, 0, sizeof gate);
    gate.shut = true;
    spawn.mailbox = &options;
    cr_assert_eq(
        troupe_system_spawn(the_system, &gate_type, &spawn, &ref), TROUPE_OK);
    for (uint64_t i = 0; i < count; i++) {
        cr_assert_eq(troupe_post(the_system, ref,
                         with_vital && i % 2 != 0 ? &vital : &test_number, &i),
            TROUPE_OK);
        test_run(the_system);
    }
    return ref;
}

static void
open_gate(troupe_ref ref, troupe_status refusal, uint32_t limit)
{
    gate.limit = limit;
    cr_assert_eq(troupe_post(the_system, ref, &test_empty, NULL), TROUPE_OK);
    how.refusal = refusal;
    test_run(the_system);
    how.refusal = TROUPE_OK;
}

static void
check_gate(const uint64_t *numbers, uint32_t count)
{
    cr_assert_eq(gate.count, count, "%u came", gate.count);
    for (uint32_t i = 0; i < count; i++) {
        cr_assert_eq(gate.number[i], numbers[i], "the %uth is %u", i,
            (unsigned)gate.number[i]);
    }
}

#define CHECK_GATE(...)                                                        \
    check_gate((const uint64_t[]){__VA_ARGS__},                                \
        sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

Test(custom, undroppable_ones_come_back_by_their_own_way)
{
    troupe_ref ref = spawn_gate(4, true);

    open_gate(ref, TROUPE_OK, 0);
    cr_assert_eq(gate.last, TROUPE_OK);
    CHECK_GATE(0, 2, 3, 1); /* 1 and 3 lie below: last in, first out */
    cr_assert_eq(test_counters(the_system).queued, 0);
}

Test(custom, what_prepend_evicts_is_a_drop)
{
    troupe_ref ref = spawn_gate(3, false);

    how.limit = 2;
    how.evicts = true;
    open_gate(ref, TROUPE_OK, 0);
    cr_assert_eq(gate.last, TROUPE_OK);
    cr_assert_eq(gate.left, 0);
    CHECK_GATE(0, 1);
    cr_assert_eq(drops, 1);
    cr_assert_eq(last_reason, TROUPE_DROP_HEAD);
    cr_assert_eq(test_counters(the_system).dropped, 1);
    cr_assert_eq(troupe_depth(the_system, ref), 0);
}

Test(custom, the_rest_stays_in_the_stash_in_its_order)
{
    troupe_ref ref = spawn_gate(6, false);

    how.limit = 2;
    open_gate(ref, TROUPE_OK, 4); /* 3 and 2 come back */
    cr_assert_eq(gate.last, TROUPE_E_FULL);
    cr_assert_eq(gate.left, 4);
    how.limit = MOST;
    open_gate(ref, TROUPE_OK, 0);
    cr_assert_eq(gate.last, TROUPE_OK);
    CHECK_GATE(2, 3, 0, 1, 4, 5);
}

Test(custom, whatever_it_answers_to_a_replay_is_full_or_no_memory)
{
    static const troupe_status answers[] = {
        TROUPE_E_INVALID, TROUPE_E_FULL, TROUPE_E_NOMEM};

    for (int i = 0; i < 6; i++) {
        troupe_status answer = answers[i / 2];
        troupe_ref ref = spawn_gate(2, i % 2 != 0);

        open_gate(ref, answer, 0);
        cr_assert_eq(gate.last,
            answer == TROUPE_E_NOMEM ? TROUPE_E_NOMEM : TROUPE_E_FULL);
        cr_assert_eq(gate.left, 2);
        cr_assert_eq(troupe_post_stop_now(the_system, ref), TROUPE_OK);
        test_run(the_system);
    }
}
