/* SPDX-License-Identifier: MIT */
#include "support/system.h"

#include <criterion/criterion.h>

#include <stdatomic.h>
#include <string.h>

/*
 * A doer gathers from servers that do as their scripts say. What its
 * continuation was told is kept in `outcome`. Time is virtual.
 */

enum { SERVERS = 300 };

enum mode {
    ANSWER,
    FAIL,
    SILENT,
    DIE,
    TWICE,
    ANSWER_OWNED,
    ANSWER_LARGE,
    UNHANDLED
};

static troupe_system *the_system;

static struct {
    enum mode mode;
    uint64_t value; /* of the answer; or the code of the failure */
    uint64_t delay_ms;
    uint32_t asked;
    troupe_ref ref;
    troupe_ref asker; /* of its last question */
} server[SERVERS];

static struct {
    troupe_gather_options options;
    const troupe_msg_type *type;
    const void *payload;
    troupe_ref whom[SERVERS];
    size_t count;
    bool use_defaults;
    bool await;
    bool cancel;           /* at once */
    uint32_t repeat;       /* more of them at once */
    troupe_status started; /* what the call said */
    troupe_ticket ticket;
} plan;

static struct {
    uint32_t count;
    troupe_status status;
    int32_t code;
    bool is_gathered;
    uint64_t value; /* of a winner */
    troupe_ref from;
    troupe_ref client;
    uint64_t elapsed_ns;
    size_t parts, answered;
    struct {
        troupe_ref from;
        troupe_status status;
        int32_t code;
        bool has_msg;
        uint64_t value;
    } part[SERVERS];
    troupe_verdict verdict;
    bool take;
    troupe_msg *taken;
    troupe_ref forward; /* the outcome, to this one */
    bool again;         /* begin another one */
    uint32_t plain;     /* messages handled beside */
    uint32_t plain_before;
    uint32_t with_status[32];
    uint64_t values; /* of all parts of all outcomes, added up */
    bool inside;     /* the call */
} outcome;

static _Atomic uint64_t drops;

/* --- those who are asked -------------------------------------------------- */

static troupe_verdict
act(troupe_self *self, uint32_t i)
{
    const struct test_owned owned = {&drops, server[i].value};
    const struct test_large large = {.owned = {&drops, server[i].value}};

    switch (server[i].mode) {
    case TWICE:
        troupe_reply(self, &test_number, &server[i].value);
        troupe_reply(self, &test_number, &server[i].value);
        break;
    case ANSWER:
        troupe_reply(self, &test_number, &server[i].value);
        break;
    case ANSWER_OWNED:
        troupe_reply(self, &test_owned, &owned);
        break;
    case ANSWER_LARGE:
        troupe_reply(self, &test_large, &large);
        break;
    case FAIL:
        troupe_reply_failure(self, (int32_t)server[i].value);
        break;
    case SILENT:
        break;
    case DIE:
        return TROUPE_DONE;
    case UNHANDLED:
        return TROUPE_UNHANDLED;
    }
    return TROUPE_CONTINUE;
}

static troupe_verdict
on_delay(
    troupe_self *self, void *state, const troupe_result *result, void *user)
{
    (void)user;
    return result->status == TROUPE_OK ? act(self, *(uint32_t *)state)
                                       : TROUPE_CONTINUE;
}

static troupe_verdict
serve(troupe_self *self, void *state, const troupe_msg *msg)
{
    uint32_t i = *(uint32_t *)state;

    (void)msg;
    server[i].asked++;
    server[i].asker = troupe_sender(self);
    if (server[i].delay_ms == 0) {
        return act(self, i);
    }
    return troupe_check(self, troupe_sleep(self, TROUPE_MS(server[i].delay_ms),
                                  troupe_then(on_delay, NULL), NULL));
}

static troupe_status
start_server(troupe_self *self, void *state, const void *arg)
{
    (void)self;
    memcpy(state, arg, sizeof(uint32_t));
    return TROUPE_OK;
}

static const troupe_actor_type server_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "server",
    .state_bytes = sizeof(uint32_t),
    .receive = serve,
    .start = start_server,
};

/* The next one of those who are asked. */
static void
have_with(enum mode mode, uint64_t value, uint64_t delay_ms,
    const troupe_mailbox_options *mailbox)
{
    uint32_t i = (uint32_t)plan.count;
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);

    options.arg = &i;
    options.arg_bytes = sizeof i;
    options.mailbox = mailbox;
    server[i].mode = mode;
    server[i].value = value;
    server[i].delay_ms = delay_ms;
    test_require(troupe_system_spawn(the_system, &server_type, &options,
                     &server[i].ref) == TROUPE_OK);
    plan.whom[plan.count++] = server[i].ref;
}

static void
have(enum mode mode, uint64_t value, uint64_t delay_ms)
{
    have_with(mode, value, delay_ms, NULL);
}

/* --- who asks ------------------------------------------------------------- */

static uint64_t
value_of(const troupe_msg *msg)
{
    uint64_t value = 0;

    if (troupe_msg_is(msg, &test_number)) {
        memcpy(&value, msg->payload, sizeof value);
    } else {
        value = ((const struct test_owned *)msg->payload)->number;
    }
    return value;
}

static void
record_parts(const troupe_gathered *all)
{
    outcome.parts = all->count;
    outcome.answered = all->answered;
    for (size_t i = 0; i < all->count; i++) {
        const troupe_gather_part *part = &all->parts[i];

        outcome.part[i].from = part->from;
        outcome.part[i].status = part->status;
        outcome.part[i].code = part->code;
        outcome.part[i].has_msg = part->msg != NULL;
        cr_assert_eq(part->msg != NULL, part->status == TROUPE_OK);
        if (part->msg != NULL) {
            cr_assert_eq((uintptr_t)part->msg->payload % 16, 0);
            cr_assert(troupe_ref_equal(part->msg->sender, part->from) ||
                      troupe_ref_is_none(part->msg->sender));
            outcome.part[i].value = value_of(part->msg);
            outcome.values += outcome.part[i].value;
        }
    }
}

static void begin_all(troupe_self *self);

static troupe_verdict
then(troupe_self *self, void *state, const troupe_result *result, void *user)
{
    (void)state;
    cr_assert(!outcome.inside, "a continuation inside of a call");
    cr_assert_eq(user, &plan);
    outcome.count++;
    outcome.status = result->status;
    outcome.with_status[-(int)result->status]++;
    outcome.code = result->code;
    outcome.elapsed_ns = result->elapsed_ns;
    outcome.client = troupe_sender(self);
    outcome.plain_before = outcome.plain;
    outcome.is_gathered = false;
    if (result->msg != NULL &&
        troupe_msg_tag(result->msg) == TROUPE_TAG_GATHERED) {
        outcome.is_gathered = true;
        record_parts(troupe_payload(result->msg, troupe_gathered));
    } else if (result->msg != NULL) {
        cr_assert_eq(result->status, TROUPE_OK);
        outcome.value = value_of(result->msg);
        outcome.from = result->msg->sender;
    }
    if (outcome.take) {
        cr_assert_eq(troupe_take(self, &outcome.taken), TROUPE_OK);
    }
    if (!troupe_ref_is_none(outcome.forward)) {
        troupe_forward(self, outcome.forward);
    }
    if (outcome.again) {
        outcome.again = false;
        begin_all(self);
    }
    return outcome.verdict;
}

static void
begin_all(troupe_self *self)
{
    outcome.inside = true;
    for (uint32_t i = 0; i <= plan.repeat; i++) {
        plan.started = troupe_gather(self, plan.whom, plan.count, plan.type,
            plan.payload, plan.use_defaults ? NULL : &plan.options,
            troupe_then(then, &plan), &plan.ticket);
    }
    if (plan.cancel) {
        cr_assert_eq(troupe_cancel(self, plan.ticket), TROUPE_OK);
    }
    outcome.inside = false;
}

static troupe_verdict
begin(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    (void)user;
    begin_all(self);
    return plan.await ? troupe_await(self, plan.started, &plan.ticket)
                      : TROUPE_CONTINUE;
}

static troupe_verdict
cancel(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    *(troupe_status *)user = troupe_cancel(self, plan.ticket);
    return TROUPE_CONTINUE;
}

static troupe_verdict
count_plain(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)self;
    (void)msg;
    (void)user;
    outcome.plain++;
    return TROUPE_CONTINUE;
}

static troupe_verdict
fail(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)self;
    (void)msg;
    (void)user;
    return TROUPE_FAILED;
}

static troupe_ref doer;
static const uint64_t question = 77;

static void
setup(void)
{
    memset(&server, 0, sizeof server);
    memset(&plan, 0, sizeof plan);
    memset(&outcome, 0, sizeof outcome);
    atomic_store(&drops, 0);
    plan.options = TROUPE_INIT(troupe_gather_options);
    plan.type = &test_number;
    plan.payload = &question;
    the_system = test_open_driven(7);
    doer = test_spawn_doer(the_system, NULL);
}

static void
teardown(void)
{
    test_close(the_system);
}

TestSuite(gather, .init = setup, .fini = teardown);

static void
run(troupe_gather_policy policy)
{
    plan.options.policy = policy;
    test_do(the_system, doer, begin, NULL);
    cr_assert_eq(plan.started, TROUPE_OK);
}

static void
advance_ms(uint64_t ms)
{
    cr_assert_eq(troupe_system_advance(the_system, TROUPE_MS(ms)), TROUPE_OK);
}

/* One outcome, and all is over: the others, too. */
static void
expect_end(troupe_status status)
{
    cr_assert_eq(outcome.count, 1);
    cr_expect_eq(
        outcome.status, status, "%s", troupe_status_name(outcome.status));
    cr_expect_neq(troupe_cancel(NULL, plan.ticket), TROUPE_OK);
}

/* No operation is left, the servers' pauses included. */
static void
expect_nothing_open(void)
{
    cr_expect_eq(test_counters(the_system).asks, 0);
}

static void
expect_part(size_t i, troupe_status status, int32_t code, uint64_t value)
{
    cr_assert_lt(i, outcome.parts);
    cr_expect_eq(outcome.part[i].status, status, "part %zu: %s", i,
        troupe_status_name(outcome.part[i].status));
    cr_expect_eq(outcome.part[i].code, code);
    cr_expect_eq(outcome.part[i].value, value);
    cr_expect(troupe_ref_equal(outcome.part[i].from, plan.whom[i]));
}

/* Posts a number to the address that server i was asked from. */
static void
answer_from_outside(uint32_t i, uint64_t value)
{
    cr_assert_eq(troupe_post(the_system, server[i].asker, &test_number, &value),
        TROUPE_OK);
}

static uint32_t
number_asked(void)
{
    uint32_t sum = 0;

    for (size_t i = 0; i < plan.count; i++) {
        sum += server[i].asked;
    }
    return sum;
}

/* --- first ---------------------------------------------------------------- */

Test(gather, first_answer_wins_and_names_who_gave_it)
{
    have(ANSWER, 1, 30);
    have(ANSWER, 2, 10);
    have(ANSWER, 3, 20);
    run(TROUPE_GATHER_FIRST);
    cr_assert_eq(outcome.count, 0);
    advance_ms(10);
    expect_end(TROUPE_OK);
    cr_expect(!outcome.is_gathered);
    cr_expect_eq(outcome.value, 2);
    cr_expect(troupe_ref_equal(outcome.from, server[1].ref));
    cr_expect_eq(outcome.elapsed_ns / 1000000, 10);
    cr_expect_eq(number_asked(), 3);
}

Test(gather, without_options_is_the_first_of_them)
{
    plan.use_defaults = true;
    have(SILENT, 0, 0);
    have(ANSWER, 5, 0);
    run(TROUPE_GATHER_FIRST);
    expect_end(TROUPE_OK);
    cr_expect_eq(outcome.value, 5);
}

Test(gather, what_came_first_wins_of_answers_that_wait_together)
{
    for (uint32_t i = 0; i < 4; i++) {
        have(SILENT, 0, 0);
    }
    run(TROUPE_GATHER_FIRST);
    answer_from_outside(2, 12);
    answer_from_outside(0, 10);
    answer_from_outside(3, 13);
    test_run(the_system);
    expect_end(TROUPE_OK);
    cr_expect_eq(outcome.value, 12);
    cr_expect_eq(test_letters.by_reason[TROUPE_DEAD_LATE], 2);
}

/* An actor runs 64 continuations at most before others have their turn. */
Test(gather, what_came_first_wins_although_its_turn_has_ended)
{
    for (uint32_t i = 0; i < 66; i++) {
        have(SILENT, 0, 0);
    }
    run(TROUPE_GATHER_FIRST);
    for (uint32_t i = 0; i < 64; i++) {
        troupe_post_failure(the_system, server[i].asker, 1);
    }
    answer_from_outside(64, 1);
    cr_assert_eq(troupe_system_run(the_system, 1, NULL), TROUPE_OK);
    cr_assert_eq(outcome.count, 0);
    answer_from_outside(65, 2);
    test_run(the_system);
    expect_end(TROUPE_OK);
    cr_expect_eq(outcome.value, 1);
}

Test(gather, failure_does_not_win_while_another_may_answer)
{
    have(FAIL, 9, 0);
    have(DIE, 0, 1);
    have(ANSWER, 4, 20);
    run(TROUPE_GATHER_FIRST);
    advance_ms(5);
    cr_assert_eq(outcome.count, 0);
    advance_ms(15);
    expect_end(TROUPE_OK);
    cr_expect_eq(outcome.value, 4);
    expect_nothing_open();
}

Test(gather, first_that_fails_tells_every_error_in_the_order_asked)
{
    have(FAIL, 9, 20);
    have(DIE, 0, 0);
    have(FAIL, 8, 10);
    have(UNHANDLED, 0, 0);
    run(TROUPE_GATHER_FIRST);
    advance_ms(10);
    cr_assert_eq(outcome.count, 0);
    advance_ms(10);
    expect_end(TROUPE_E_FAILED);
    cr_expect_eq(outcome.code, 9, "of the last failure");
    cr_assert(outcome.is_gathered);
    cr_expect_eq(outcome.parts, 4);
    cr_expect_eq(outcome.answered, 0);
    expect_part(0, TROUPE_E_FAILED, 9, 0);
    expect_part(1, TROUPE_E_DEAD, 0, 0);
    expect_part(2, TROUPE_E_FAILED, 8, 0);
    expect_part(3, TROUPE_E_DEAD, 0, 0);
    expect_nothing_open();
}

Test(gather, ends_after_four_and_a_half_seconds_by_default)
{
    have(SILENT, 0, 0);
    have(FAIL, 3, 0);
    run(TROUPE_GATHER_FIRST);
    advance_ms(4499);
    cr_assert_eq(outcome.count, 0);
    advance_ms(2);
    expect_end(TROUPE_E_TIMEOUT);
    cr_expect_geq(outcome.elapsed_ns, TROUPE_MS(4500));
    cr_assert(outcome.is_gathered);
    expect_part(0, TROUPE_E_TIMEOUT, 0, 0);
    expect_part(1, TROUPE_E_FAILED, 3, 0);
    expect_nothing_open();
}

Test(gather, waits_for_ever_if_told_to)
{
    plan.options.timeout_ns = TROUPE_FOREVER;
    have(ANSWER, 1, 86400000);
    run(TROUPE_GATHER_FIRST);
    advance_ms(86399999);
    cr_assert_eq(outcome.count, 0);
    advance_ms(1);
    expect_end(TROUPE_OK);
}

Test(gather, takes_one_answer_of_who_answers_twice)
{
    have(TWICE, 1, 0);
    have(TWICE, 2, 0);
    run(TROUPE_GATHER_ALL);
    expect_end(TROUPE_OK);
    cr_expect_eq(outcome.answered, 2);
    cr_expect_eq(test_letters.by_reason[TROUPE_DEAD_LATE], 2);
}

/* --- best ----------------------------------------------------------------- */

static bool
is_larger(const troupe_msg *a, const troupe_msg *b, void *user)
{
    cr_assert_eq(user, &server);
    return value_of(a) > value_of(b);
}

static void
want_larger(void)
{
    plan.options.better = is_larger;
    plan.options.user = &server;
}

Test(gather, best_waits_for_all_and_takes_the_best)
{
    want_larger();
    have(ANSWER, 3, 0);
    have(ANSWER_OWNED, 9, 20);
    have(FAIL, 1, 0);
    have(ANSWER, 5, 10);
    run(TROUPE_GATHER_BEST);
    advance_ms(10);
    cr_assert_eq(outcome.count, 0);
    advance_ms(10);
    expect_end(TROUPE_OK);
    cr_expect_eq(outcome.value, 9);
    cr_expect(troupe_ref_equal(outcome.from, server[1].ref));
    expect_nothing_open();
    cr_expect_eq(drops, 1, "the winner, after it was shown");
}

Test(gather, best_of_equals_is_who_was_asked_first)
{
    want_larger();
    have(ANSWER, 1, 0);
    have(ANSWER, 7, 20);
    have(ANSWER, 7, 10);
    run(TROUPE_GATHER_BEST);
    advance_ms(20);
    expect_end(TROUPE_OK);
    cr_expect(troupe_ref_equal(outcome.from, server[1].ref));
}

Test(gather, best_takes_what_is_there_at_its_deadline)
{
    want_larger();
    plan.options.timeout_ns = TROUPE_MS(50);
    have(ANSWER_LARGE, 3, 0);
    have(ANSWER_LARGE, 4, 0);
    have(ANSWER, 100, 60);
    run(TROUPE_GATHER_BEST);
    advance_ms(51);
    expect_end(TROUPE_OK);
    cr_expect_eq(outcome.value, 4);
    cr_expect_eq(drops, 2);
    advance_ms(10);
    cr_expect_eq(test_letters.by_reason[TROUPE_DEAD_LATE], 1);
}

Test(gather, best_of_none_is_a_timeout_at_its_deadline)
{
    want_larger();
    plan.options.timeout_ns = TROUPE_MS(50);
    have(SILENT, 0, 0);
    have(FAIL, 2, 0);
    run(TROUPE_GATHER_BEST);
    advance_ms(51);
    expect_end(TROUPE_E_TIMEOUT);
    cr_assert(outcome.is_gathered);
    expect_part(1, TROUPE_E_FAILED, 2, 0);
}

Test(gather, best_fails_when_all_have)
{
    want_larger();
    have(FAIL, 1, 0);
    have(FAIL, 2, 0);
    run(TROUPE_GATHER_BEST);
    expect_end(TROUPE_E_FAILED);
    cr_expect(outcome.is_gathered);
}

/* --- quorum --------------------------------------------------------------- */

Test(gather, quorum_is_more_than_half_by_default)
{
    have(ANSWER, 10, 30);
    have(ANSWER, 11, 0);
    have(ANSWER, 12, 40);
    have(ANSWER, 13, 20);
    run(TROUPE_GATHER_QUORUM);
    advance_ms(20);
    cr_assert_eq(outcome.count, 0);
    advance_ms(10);
    expect_end(TROUPE_OK);
    cr_assert(outcome.is_gathered);
    cr_expect_eq(outcome.parts, 4);
    cr_expect_eq(outcome.answered, 3);
    expect_part(0, TROUPE_OK, 0, 10);
    expect_part(1, TROUPE_OK, 0, 11);
    expect_part(2, TROUPE_E_CANCELLED, 0, 0);
    expect_part(3, TROUPE_OK, 0, 13);
}

Test(gather, quorum_ends_when_too_few_can_still_answer)
{
    plan.options.quorum = 3;
    have(ANSWER, 1, 0);
    have(FAIL, 5, 10);
    have(ANSWER, 1, 1000);
    have(DIE, 0, 20);
    run(TROUPE_GATHER_QUORUM);
    advance_ms(10);
    cr_assert_eq(outcome.count, 0);
    advance_ms(10);
    expect_end(TROUPE_E_FAILED);
    cr_expect_eq(outcome.answered, 1);
    expect_part(0, TROUPE_OK, 0, 1);
    expect_part(1, TROUPE_E_FAILED, 5, 0);
    expect_part(2, TROUPE_E_CANCELLED, 0, 0);
    expect_part(3, TROUPE_E_DEAD, 0, 0);
}

Test(gather, quorum_that_is_late_tells_who_has_answered)
{
    plan.options.timeout_ns = TROUPE_MS(50);
    have(ANSWER, 1, 0);
    have(SILENT, 0, 0);
    have(SILENT, 0, 0);
    run(TROUPE_GATHER_QUORUM);
    advance_ms(51);
    expect_end(TROUPE_E_TIMEOUT);
    cr_expect_eq(outcome.answered, 1);
    expect_part(0, TROUPE_OK, 0, 1);
    expect_part(1, TROUPE_E_TIMEOUT, 0, 0);
    expect_part(2, TROUPE_E_TIMEOUT, 0, 0);
}

/* --- all ------------------------------------------------------------------ */

Test(gather, all_come_together_in_the_order_asked)
{
    have(ANSWER, 1, 30);
    have(ANSWER_LARGE, 2, 10);
    have(ANSWER_OWNED, 3, 20);
    run(TROUPE_GATHER_ALL);
    advance_ms(20);
    cr_assert_eq(outcome.count, 0);
    advance_ms(10);
    expect_end(TROUPE_OK);
    cr_expect_eq(outcome.answered, 3);
    expect_part(0, TROUPE_OK, 0, 1);
    expect_part(1, TROUPE_OK, 0, 2);
    expect_part(2, TROUPE_OK, 0, 3);
    cr_expect_eq(drops, 2);
    expect_nothing_open();
}

Test(gather, all_ends_at_the_first_failure)
{
    have(ANSWER, 1, 0);
    have(FAIL, 6, 10);
    have(ANSWER, 3, 20);
    run(TROUPE_GATHER_ALL);
    advance_ms(10);
    expect_end(TROUPE_E_FAILED);
    cr_expect_eq(outcome.code, 6);
    expect_part(0, TROUPE_OK, 0, 1);
    expect_part(1, TROUPE_E_FAILED, 6, 0);
    expect_part(2, TROUPE_E_CANCELLED, 0, 0);
}

Test(gather, asks_nobody_else_after_one_who_cannot_be_asked)
{
    plan.whom[plan.count++] = test_dead_actor(the_system);
    have(ANSWER, 1, 0);
    run(TROUPE_GATHER_ALL);
    expect_end(TROUPE_E_FAILED);
    expect_part(0, TROUPE_E_DEAD, 0, 0);
    expect_part(1, TROUPE_E_CANCELLED, 0, 0);
    cr_expect_eq(number_asked(), 0);
    expect_nothing_open();
}

Test(gather, hundreds_come_together)
{
    for (uint32_t i = 0; i < SERVERS; i++) {
        have(ANSWER, i, i % 7);
    }
    run(TROUPE_GATHER_ALL);
    advance_ms(7);
    expect_end(TROUPE_OK);
    cr_expect_eq(outcome.answered, SERVERS);
    for (uint32_t i = 0; i < SERVERS; i++) {
        expect_part(i, TROUPE_OK, 0, i);
    }
    expect_nothing_open();
}

/* --- nobody --------------------------------------------------------------- */

Test(gather, of_nobody_has_no_route)
{
    plan.options.quorum = 2; /* more than are asked, but that is not why */
    run(TROUPE_GATHER_QUORUM);
    expect_end(TROUPE_E_NO_ROUTE);
    cr_assert(outcome.is_gathered);
    cr_expect_eq(outcome.parts, 0);
    expect_nothing_open();
}

Test(gather, of_none_but_nobodies_has_no_route)
{
    plan.count = 2; /* TROUPE_NONE */
    run(TROUPE_GATHER_FIRST);
    expect_end(TROUPE_E_NO_ROUTE);
    cr_expect_eq(outcome.parts, 2);
    expect_part(0, TROUPE_E_NO_ROUTE, 0, 0);
    cr_expect_eq(test_counters(the_system).refused, 0);
}

Test(gather, counts_a_nobody_among_others_as_failed)
{
    plan.count = 1; /* TROUPE_NONE */
    have(ANSWER, 8, 0);
    run(TROUPE_GATHER_QUORUM);
    expect_end(TROUPE_E_FAILED);
    expect_part(0, TROUPE_E_NO_ROUTE, 0, 0);
    expect_part(1, TROUPE_E_CANCELLED, 0, 0);
    cr_expect_eq(number_asked(), 0);
}

Test(gather, tells_whose_mailbox_was_full)
{
    troupe_mailbox_options mailbox = TROUPE_INIT(troupe_mailbox_options);

    mailbox.capacity = 1;
    have_with(ANSWER, 1, 0, &mailbox);
    have(ANSWER, 2, 0);
    plan.whom[2] = plan.whom[0]; /* twice, and there is room for one */
    plan.count = 3;
    plan.options.quorum = 2;
    run(TROUPE_GATHER_QUORUM);
    expect_end(TROUPE_OK);
    expect_part(0, TROUPE_OK, 0, 1);
    expect_part(1, TROUPE_OK, 0, 2);
    expect_part(2, TROUPE_E_FULL, 0, 0);
}

/* --- one after the other -------------------------------------------------- */

Test(gather, tail_asks_the_next_one_after_the_delay)
{
    plan.options.tail_delay_ns = TROUPE_MS(10);
    have(SILENT, 0, 0);
    have(SILENT, 0, 0);
    have(ANSWER, 3, 0);
    have(ANSWER, 4, 0);
    run(TROUPE_GATHER_FIRST);
    cr_expect_eq(number_asked(), 1);
    advance_ms(9);
    cr_expect_eq(number_asked(), 1);
    advance_ms(2);
    cr_expect_eq(number_asked(), 2);
    cr_expect_eq(server[1].asked, 1);
    advance_ms(10);
    expect_end(TROUPE_OK);
    cr_expect_eq(outcome.value, 3);
    cr_expect_eq(server[3].asked, 0);
    expect_nothing_open();
}

Test(gather, tail_leaves_the_others_alone_if_the_first_answers)
{
    plan.options.tail_delay_ns = TROUPE_MS(10);
    have(ANSWER, 1, 5);
    have(ANSWER, 2, 0);
    run(TROUPE_GATHER_FIRST);
    advance_ms(1000);
    expect_end(TROUPE_OK);
    cr_expect_eq(outcome.value, 1);
    cr_expect_eq(number_asked(), 1);
}

Test(gather, tail_asks_the_next_one_at_once_when_nobody_is_left)
{
    plan.options.tail_delay_ns = TROUPE_MS(10);
    have(FAIL, 1, 0);
    plan.whom[plan.count++] = test_dead_actor(the_system);
    have(SILENT, 0, 0);
    have(ANSWER, 4, 0);
    run(TROUPE_GATHER_FIRST);
    cr_expect_eq(server[2].asked, 1);
    cr_expect_eq(server[3].asked, 0);
    advance_ms(9);
    cr_expect_eq(server[3].asked, 0, "a pause begins with each question");
    advance_ms(2);
    expect_end(TROUPE_OK);
    cr_expect_eq(outcome.value, 4);
}

Test(gather, tail_for_ever_is_one_at_a_time)
{
    plan.options.tail_delay_ns = TROUPE_FOREVER;
    have(FAIL, 1, 100);
    have(ANSWER, 2, 100);
    have(ANSWER, 3, 100);
    run(TROUPE_GATHER_FIRST);
    advance_ms(99);
    cr_expect_eq(number_asked(), 1);
    advance_ms(1);
    cr_expect_eq(number_asked(), 2);
    advance_ms(100);
    expect_end(TROUPE_OK);
    cr_expect_eq(outcome.value, 2);
    expect_nothing_open();
}

Test(gather, tail_collects_a_quorum)
{
    plan.options.tail_delay_ns = TROUPE_MS(10);
    plan.options.quorum = 2;
    have(ANSWER, 1, 0);
    have(SILENT, 0, 0);
    have(ANSWER, 3, 0);
    have(ANSWER, 4, 0);
    run(TROUPE_GATHER_QUORUM);
    cr_expect_eq(number_asked(), 2, "the first has answered, so who is next");
    advance_ms(11);
    expect_end(TROUPE_OK);
    expect_part(0, TROUPE_OK, 0, 1);
    expect_part(1, TROUPE_E_CANCELLED, 0, 0);
    expect_part(2, TROUPE_OK, 0, 3);
    expect_part(3, TROUPE_E_CANCELLED, 0, 0);
    cr_expect_eq(server[3].asked, 0);
}

Test(gather, tail_ends_at_the_deadline_of_the_whole)
{
    plan.options.tail_delay_ns = TROUPE_MS(10);
    plan.options.timeout_ns = TROUPE_MS(15);
    have(SILENT, 0, 0);
    have(SILENT, 0, 0);
    have(ANSWER, 0, 0);
    run(TROUPE_GATHER_FIRST);
    advance_ms(1000);
    expect_end(TROUPE_E_TIMEOUT);
    expect_part(0, TROUPE_E_TIMEOUT, 0, 0);
    expect_part(1, TROUPE_E_TIMEOUT, 0, 0);
    expect_part(2, TROUPE_E_CANCELLED, 0, 0);
    cr_expect_eq(number_asked(), 2);
    expect_nothing_open();
}

Test(gather, tail_drops_the_questions_that_were_not_asked)
{
    struct test_large large = {.owned = {&drops, 1}};

    plan.type = &test_shared;
    plan.payload = &large;
    plan.options.tail_delay_ns = TROUPE_MS(10);
    have(ANSWER, 1, 0);
    have(ANSWER, 2, 0);
    have(ANSWER, 3, 0);
    run(TROUPE_GATHER_FIRST);
    expect_end(TROUPE_OK);
    cr_expect_eq(number_asked(), 1);
    cr_expect_eq(drops, 1);
}

/* --- the losers ----------------------------------------------------------- */

Test(gather, closes_the_asks_of_the_losers_at_once)
{
    have(ANSWER, 1, 0);
    have(SILENT, 0, 0);
    have(SILENT, 0, 0);
    run(TROUPE_GATHER_FIRST);
    expect_end(TROUPE_OK);
    expect_nothing_open();
    cr_expect_eq(
        troupe_post(the_system, server[1].asker, &test_number, &question),
        TROUPE_E_DEAD);
}

Test(gather, late_answers_are_dead_letters_that_say_so)
{
    have(ANSWER, 1, 0);
    have(ANSWER_OWNED, 2, 10);
    have(ANSWER_LARGE, 3, 10);
    have(FAIL, 4, 10);
    run(TROUPE_GATHER_FIRST);
    advance_ms(10);
    expect_end(TROUPE_OK);
    cr_expect_eq(test_letters.total, 3);
    cr_expect_eq(test_letters.by_reason[TROUPE_DEAD_LATE], 3);
    cr_expect_eq(drops, 2);
}

Test(gather, answers_that_wait_behind_the_decision_are_late)
{
    struct test_owned owned = {&drops, 1};

    for (uint32_t i = 0; i < 3; i++) {
        have(SILENT, 0, 0);
    }
    run(TROUPE_GATHER_FIRST);
    answer_from_outside(0, 1);
    cr_assert_eq(troupe_post(the_system, server[1].asker, &test_owned, &owned),
        TROUPE_OK);
    troupe_post_failure(the_system, server[2].asker, 3);
    test_run(the_system);
    expect_end(TROUPE_OK);
    cr_expect_eq(outcome.value, 1);
    cr_expect_eq(test_letters.by_reason[TROUPE_DEAD_LATE], 2);
    cr_expect(troupe_ref_equal(test_letters.last.recipient, server[2].asker));
    cr_expect_eq(drops, 1);
    expect_nothing_open();
}

static troupe_verdict
wake_up(troupe_self *self, void *state, const troupe_result *result, void *user)
{
    (void)self;
    (void)state;
    (void)result;
    (void)user;
    return TROUPE_CONTINUE;
}

static troupe_verdict
sleep_through(troupe_self *self, const troupe_msg *msg, void *user)
{
    troupe_ticket ticket;

    (void)msg;
    (void)user;
    return troupe_await(self,
        troupe_sleep(self, TROUPE_MS(100), troupe_then(wake_up, NULL), &ticket),
        &ticket);
}

TROUPE_MSG_TYPE_WITH(query, uint64_t, 600, TROUPE_MSG_EXPIRES, NULL);

Test(gather, questions_that_wait_with_the_losers_expire)
{
    troupe_ref sleeper = test_spawn_doer(the_system, NULL);

    plan.type = &query;
    have(ANSWER, 1, 10);
    plan.whom[plan.count++] = sleeper;
    test_do(the_system, sleeper, sleep_through, NULL);
    run(TROUPE_GATHER_FIRST);
    advance_ms(10);
    expect_end(TROUPE_OK);
    cr_expect_eq(test_letters.total, 0);
    advance_ms(100);
    cr_expect_eq(test_letters.total, 1);
    cr_expect_eq(test_letters.by_reason[TROUPE_DEAD_EXPIRED], 1);
    expect_nothing_open();
}

/* --- what the question owns ----------------------------------------------- */

Test(gather, shared_question_is_dropped_once)
{
    struct test_large large = {.owned = {&drops, 1}};

    plan.type = &test_shared;
    plan.payload = &large;
    have(ANSWER, 1, 0);
    have(DIE, 0, 0);
    plan.whom[plan.count++] = test_dead_actor(the_system);
    have(SILENT, 0, 0);
    plan.options.quorum = 1;
    run(TROUPE_GATHER_QUORUM);
    expect_end(TROUPE_OK);
    cr_expect_eq(drops, 1);
}

Test(gather, large_question_is_copied_for_each)
{
    char text[1000];

    memset(text, 5, sizeof text);
    plan.type = &(const troupe_msg_type){
        .size = sizeof(troupe_msg_type), .bytes = sizeof text, .tag = 500};
    plan.payload = text;
    have(ANSWER, 1, 0);
    have(ANSWER, 2, 0);
    plan.whom[plan.count++] = test_dead_actor(the_system);
    plan.options.quorum = 2;
    run(TROUPE_GATHER_QUORUM);
    expect_end(TROUPE_OK);
    cr_expect_eq(number_asked(), 2);
    expect_part(2, TROUPE_E_DEAD, 0, 0);
}

static void
expect_refused(const char *option)
{
    test_do(the_system, doer, begin, NULL);
    cr_assert_eq(plan.started, TROUPE_E_INVALID);
    cr_expect_str_eq(troupe_last_error().call, "troupe_gather");
    cr_expect_str_eq(troupe_last_error().option, option);
    cr_expect_eq(outcome.count, 0);
    cr_expect_eq(number_asked(), 0);
    expect_nothing_open();
}

Test(gather, owning_question_has_one_receiver)
{
    struct test_large large = {.owned = {&drops, 1}};

    plan.type = &test_large;
    plan.payload = &large;
    have(ANSWER, 1, 0);
    have(ANSWER, 2, 0);
    expect_refused("type");
    cr_expect_eq(drops, 0, "it is the caller's still");
    plan.count = 1;
    run(TROUPE_GATHER_ALL);
    expect_end(TROUPE_OK);
    cr_expect_eq(drops, 1);
}

Test(gather, owning_question_to_nobody_is_dropped)
{
    struct test_owned owned = {&drops, 1};

    plan.type = &test_owned;
    plan.payload = &owned;
    run(TROUPE_GATHER_ALL);
    expect_end(TROUPE_E_NO_ROUTE);
    cr_expect_eq(drops, 1);
    plan.count = 1; /* TROUPE_NONE */
    run(TROUPE_GATHER_ALL);
    cr_expect_eq(outcome.count, 2);
    cr_expect_eq(drops, 2);
    plan.whom[0] = test_dead_actor(the_system);
    run(TROUPE_GATHER_ALL);
    cr_expect_eq(outcome.count, 3);
    cr_expect_eq(outcome.status, TROUPE_E_FAILED);
    cr_expect_eq(drops, 3);
}

static troupe_verdict
gather_current(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    plan.type = msg->type;
    plan.payload = msg->payload;
    begin_all(self);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type relay = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "relay",
    .receive = gather_current,
};

Test(gather, current_message_is_moved_or_shared)
{
    struct test_large large = {.owned = {&drops, 1}};
    troupe_ref ref;

    have(ANSWER, 1, 0);
    have(ANSWER, 2, 0);
    test_require(
        troupe_system_spawn(the_system, &relay, NULL, &ref) == TROUPE_OK);
    cr_assert_eq(troupe_post(the_system, ref, &test_shared, &large), TROUPE_OK);
    test_run(the_system);
    cr_expect_eq(plan.started, TROUPE_OK);
    cr_expect_eq(outcome.count, 1);
    cr_expect_eq(drops, 1);
    plan.count = 1;
    cr_assert_eq(troupe_post(the_system, ref, &test_large, &large), TROUPE_OK);
    test_run(the_system);
    cr_expect_eq(plan.started, TROUPE_OK);
    cr_expect_eq(outcome.count, 2);
    cr_expect_eq(drops, 2);
}

Test(gather, continuation_answers_who_asked_for_it)
{
    troupe_port *port;
    troupe_ref ref;

    have(ANSWER, 1, 10);
    test_require(
        troupe_system_spawn(the_system, &relay, NULL, &ref) == TROUPE_OK);
    cr_assert_eq(troupe_port_open(the_system, NULL, &port), TROUPE_OK);
    cr_assert_eq(
        troupe_port_send(port, ref, &test_number, &question), TROUPE_OK);
    test_run(the_system);
    advance_ms(10);
    expect_end(TROUPE_OK);
    cr_expect(troupe_ref_equal(outcome.client, troupe_port_ref(port)));
    troupe_port_close(port);
}

/* --- what becomes of the outcome ------------------------------------------ */

Test(gather, outcome_that_is_taken_owns_its_parts)
{
    const troupe_gathered *all;

    outcome.take = true;
    have(ANSWER_LARGE, 1, 0);
    have(ANSWER_OWNED, 2, 0);
    have(ANSWER, 3, 0);
    run(TROUPE_GATHER_ALL);
    expect_end(TROUPE_OK);
    cr_assert_eq(troupe_post_stop_now(the_system, doer), TROUPE_OK);
    test_run(the_system);
    cr_expect_eq(drops, 0);
    cr_expect(troupe_ref_equal(outcome.taken->sender, doer));
    all = troupe_payload(outcome.taken, troupe_gathered);
    cr_assert_not_null(all);
    cr_expect_eq(all->answered, 3);
    cr_expect_eq(value_of(all->parts[0].msg), 1);
    cr_expect_eq(value_of(all->parts[1].msg), 2);
    cr_expect_eq(value_of(all->parts[2].msg), 3);
    cr_expect_null(troupe_msg_copy(the_system, outcome.taken));
    troupe_msg_free(outcome.taken);
    cr_expect_eq(drops, 2);
}

Test(gather, failed_outcome_can_be_taken)
{
    outcome.take = true;
    have(ANSWER_LARGE, 1, 0);
    have(FAIL, 2, 0);
    run(TROUPE_GATHER_ALL);
    cr_assert_eq(outcome.count, 1);
    troupe_msg_free(outcome.taken);
    cr_expect_eq(drops, 1);
}

Test(gather, winner_that_is_taken_is_the_answer_alone)
{
    outcome.take = true;
    have(ANSWER_LARGE, 1, 0);
    have(SILENT, 2, 0);
    run(TROUPE_GATHER_FIRST);
    expect_end(TROUPE_OK);
    cr_expect_eq(drops, 0);
    cr_expect(troupe_ref_equal(outcome.taken->sender, server[0].ref));
    troupe_msg_free(outcome.taken);
    cr_expect_eq(drops, 1);
}

Test(gather, outcome_can_be_forwarded)
{
    static struct test_record record;

    memset(&record, 0, sizeof record);
    outcome.forward = test_spawn_recorder(the_system, NULL, &record);
    have(ANSWER_LARGE, 1, 0);
    have(ANSWER_OWNED, 2, 0);
    run(TROUPE_GATHER_ALL);
    cr_assert_eq(outcome.count, 1);
    cr_assert_eq(record.count, 1);
    cr_expect_eq(record.entry[0].tag, TROUPE_TAG_GATHERED);
    cr_expect(troupe_ref_equal(record.entry[0].sender, doer));
    cr_expect_eq(drops, 2);
}

Test(gather, outcome_that_is_not_handled_is_a_dead_letter)
{
    outcome.verdict = TROUPE_UNHANDLED;
    have(ANSWER_LARGE, 1, 0);
    run(TROUPE_GATHER_ALL);
    cr_assert_eq(outcome.count, 1);
    cr_expect_eq(test_letters.total, 1);
    cr_expect_eq(test_letters.by_reason[TROUPE_DEAD_UNHANDLED], 1);
    cr_expect_eq(test_letters.last.tag, TROUPE_TAG_GATHERED);
    cr_expect_eq(drops, 1);
}

/* A question and an answer for each, and the outcome. */
Test(gather, outcome_of_all_is_a_message_in_the_books)
{
    troupe_counters before = test_counters(the_system);
    troupe_counters after;

    have(ANSWER, 1, 0);
    have(ANSWER, 2, 0);
    run(TROUPE_GATHER_ALL);
    after = test_counters(the_system);
    cr_expect_eq(after.sent - before.sent, 1 + 2 + 2 + 1);
    cr_expect_eq(after.handled - before.handled, 1 + 2 + 2 + 1);
}

Test(gather, winner_is_in_the_books_once)
{
    troupe_counters before = test_counters(the_system);
    troupe_counters after;

    have(ANSWER, 1, 0);
    have(SILENT, 2, 0);
    run(TROUPE_GATHER_FIRST);
    after = test_counters(the_system);
    cr_expect_eq(after.sent - before.sent, 1 + 2 + 1);
    cr_expect_eq(after.handled - before.handled, 1 + 2 + 1);
}

/* --- await, cancel, the end of who asks ----------------------------------- */

Test(gather, can_be_awaited)
{
    plan.await = true;
    have(ANSWER, 1, 10);
    have(ANSWER, 2, 20);
    run(TROUPE_GATHER_ALL);
    for (uint32_t i = 0; i < 3; i++) {
        test_do(the_system, doer, count_plain, NULL);
    }
    advance_ms(10);
    cr_expect_eq(outcome.plain, 0);
    advance_ms(10);
    expect_end(TROUPE_OK);
    cr_expect_eq(outcome.plain_before, 0);
    cr_expect_eq(outcome.plain, 3);
}

Test(gather, one_with_a_tail_can_be_awaited)
{
    plan.await = true;
    plan.options.tail_delay_ns = TROUPE_MS(10);
    have(SILENT, 1, 0);
    have(ANSWER, 2, 0);
    run(TROUPE_GATHER_FIRST);
    test_do(the_system, doer, count_plain, NULL);
    advance_ms(11);
    expect_end(TROUPE_OK);
    cr_expect_eq(outcome.plain_before, 0);
    cr_expect_eq(outcome.plain, 1);
}

/* The answers of three gathers come while the last of them is awaited. */
Test(gather, answers_of_another_one_come_while_one_is_awaited)
{
    plan.await = true;
    plan.repeat = 2;
    have(ANSWER, 1, 10);
    have(ANSWER, 2, 10);
    run(TROUPE_GATHER_ALL);
    test_do(the_system, doer, count_plain, NULL);
    advance_ms(10);
    cr_expect_eq(outcome.count, 3);
    cr_expect_eq(outcome.status, TROUPE_OK);
    cr_expect_eq(outcome.plain, 1);
    expect_nothing_open();
}

Test(gather, can_be_cancelled)
{
    troupe_status status;

    have(ANSWER_OWNED, 1, 0);
    have(ANSWER, 2, 20);
    run(TROUPE_GATHER_ALL);
    test_do(the_system, doer, cancel, &status);
    cr_expect_eq(status, TROUPE_OK);
    expect_end(TROUPE_E_CANCELLED);
    cr_assert(outcome.is_gathered);
    expect_part(0, TROUPE_OK, 0, 1);
    expect_part(1, TROUPE_E_CANCELLED, 0, 0);
    cr_expect_eq(drops, 1);
    test_do(the_system, doer, cancel, &status);
    cr_expect_eq(status, TROUPE_E_MISSING);
    advance_ms(20);
    cr_expect_eq(outcome.count, 1);
    cr_expect_eq(test_letters.by_reason[TROUPE_DEAD_LATE], 1);
}

Test(gather, can_be_cancelled_by_who_has_just_begun_it)
{
    plan.cancel = true;
    want_larger();
    have(ANSWER, 1, 0);
    have(ANSWER, 2, 0);
    run(TROUPE_GATHER_BEST);
    expect_end(TROUPE_E_CANCELLED);
    expect_nothing_open();
}

Test(gather, is_closed_when_its_deadline_passes_while_another_is_awaited)
{
    struct test_owned owned = {&drops, 1};

    plan.options.timeout_ns = TROUPE_MS(10);
    have(SILENT, 0, 0);
    run(TROUPE_GATHER_FIRST);
    plan.options.timeout_ns = TROUPE_MS(50);
    plan.await = true;
    plan.whom[0] = test_spawn_doer(the_system, NULL); /* who never answers */
    plan.type = &test_empty;
    plan.payload = NULL;
    run(TROUPE_GATHER_FIRST);
    advance_ms(11);
    cr_expect_eq(outcome.count, 0, "its continuation waits");
    cr_expect_eq(troupe_post(the_system, server[0].asker, &test_owned, &owned),
        TROUPE_E_DEAD);
    advance_ms(50);
    cr_expect_eq(outcome.count, 2);
}

Test(gather, of_an_actor_that_stops_is_cancelled_and_shows_its_parts)
{
    have(ANSWER_LARGE, 1, 0);
    have(ANSWER, 2, 100);
    have(FAIL, 3, 0);
    plan.options.quorum = 2;
    run(TROUPE_GATHER_QUORUM);
    cr_assert_eq(troupe_post_stop_now(the_system, doer), TROUPE_OK);
    test_run(the_system);
    expect_end(TROUPE_E_CANCELLED);
    cr_assert(outcome.is_gathered);
    expect_part(0, TROUPE_OK, 0, 1);
    expect_part(1, TROUPE_E_CANCELLED, 0, 0);
    expect_part(2, TROUPE_E_FAILED, 3, 0);
    cr_expect_eq(drops, 1);
    cr_expect_eq(test_letters.total, 0);
    advance_ms(100);
    cr_expect_eq(test_letters.by_reason[TROUPE_DEAD_LATE], 1);
    cr_expect_eq(outcome.count, 1);
}

/*
 * One is decided while another is awaited, so its continuation waits; then the
 * actor stops.
 */
static void
stop_while_one_waits(troupe_gather_policy policy)
{
    have(SILENT, 0, 0);
    run(policy);
    plan.await = true;
    plan.type = &test_empty;
    plan.payload = NULL;
    plan.whom[0] = test_spawn_doer(the_system, NULL); /* who never answers */
    run(TROUPE_GATHER_FIRST);
    answer_from_outside(0, 5);
    test_run(the_system);
    cr_assert_eq(outcome.count, 0);
    cr_assert_eq(troupe_post_stop_now(the_system, doer), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(outcome.count, 2);
}

Test(gather, winner_that_nobody_has_seen_when_its_actor_stops_is_a_dead_letter)
{
    stop_while_one_waits(TROUPE_GATHER_FIRST);
    cr_expect_eq(test_letters.total, 1);
    cr_expect_eq(test_letters.by_reason[TROUPE_DEAD_STOPPED], 1);
    cr_expect_eq(outcome.value, 0);
    cr_expect_eq(outcome.with_status[-(int)TROUPE_E_CANCELLED], 2);
}

Test(gather, parts_that_nobody_has_seen_when_its_actor_stops_are_shown)
{
    stop_while_one_waits(TROUPE_GATHER_ALL);
    cr_expect_eq(test_letters.total, 0);
    cr_expect_eq(outcome.values, 5);
    cr_expect_eq(outcome.with_status[-(int)TROUPE_E_CANCELLED], 2);
}

/* Told of an answer and a stop at once, by whichever comes first. */
Test(gather, that_was_decided_when_its_actor_stops_is_told_once)
{
    have(SILENT, 0, 0);
    have(SILENT, 0, 0);
    plan.repeat = 2;
    run(TROUPE_GATHER_FIRST);
    answer_from_outside(0, 1); /* of the last one */
    cr_assert_eq(troupe_post_stop_now(the_system, doer), TROUPE_OK);
    test_run(the_system);
    cr_expect_eq(outcome.count, 3);
    cr_expect_eq(outcome.status, TROUPE_E_CANCELLED);
}

Test(gather, of_an_actor_that_restarts_is_cancelled)
{
    have(ANSWER, 1, 10);
    plan.options.tail_delay_ns = TROUPE_MS(5);
    have(ANSWER, 2, 10);
    run(TROUPE_GATHER_ALL);
    test_do(the_system, doer, fail, NULL);
    expect_end(TROUPE_E_CANCELLED);
    advance_ms(100);
    cr_expect_eq(outcome.count, 1);
    cr_expect_eq(test_letters.by_reason[TROUPE_DEAD_LATE], 1);
    run(TROUPE_GATHER_ALL);
    advance_ms(100);
    cr_expect_eq(outcome.count, 2);
    cr_expect_eq(outcome.status, TROUPE_OK);
}

Test(gather, of_a_system_that_stops_is_closed)
{
    plan.whom[plan.count++] = doer; /* which gives itself no answer */
    plan.type = &test_empty;
    plan.payload = NULL;
    run(TROUPE_GATHER_FIRST);
    cr_assert_eq(outcome.count, 0);
    cr_assert_eq(troupe_system_stop(the_system), TROUPE_OK);
    expect_end(TROUPE_E_CLOSED);
    expect_part(0, TROUPE_E_CLOSED, 0, 0);
}

Test(gather, an_actor_that_stops_begins_no_more)
{
    outcome.again = true;
    have(SILENT, 1, 0);
    run(TROUPE_GATHER_FIRST);
    cr_assert_eq(troupe_post_stop_now(the_system, doer), TROUPE_OK);
    test_run(the_system);
    cr_expect_eq(outcome.count, 1);
    cr_expect_eq(plan.started, TROUPE_E_STATE);
}

Test(gather, continuation_may_begin_the_next_one)
{
    outcome.again = true;
    have(ANSWER, 1, 0);
    have(ANSWER, 2, 0);
    run(TROUPE_GATHER_ALL);
    cr_expect_eq(outcome.count, 2);
    cr_expect_eq(outcome.status, TROUPE_OK);
}

/* --- many ----------------------------------------------------------------- */

Test(gather, hundreds_are_open_at_once)
{
    plan.repeat = 499;
    have(ANSWER, 1, 20);
    have(ANSWER, 2, 20);
    have(SILENT, 3, 0);
    run(TROUPE_GATHER_FIRST);
    advance_ms(20);
    cr_expect_eq(outcome.count, 500);
    cr_expect_eq(outcome.status, TROUPE_OK);
    cr_expect_eq(test_letters.by_reason[TROUPE_DEAD_LATE], 500);
    expect_nothing_open();
}

Test(gather, leaves_no_memory_behind)
{
    uint64_t bytes = 0;

    want_larger();
    plan.options.timeout_ns = TROUPE_MS(5);
    have(ANSWER_LARGE, 1, 0);
    have(ANSWER_OWNED, 2, 1);
    have(FAIL, 3, 0);
    have(ANSWER, 4, 3);
    have(SILENT, 5, 0);
    for (uint32_t i = 0; i < 4000; i++) {
        plan.options.tail_delay_ns = TROUPE_MS(i % 3);
        plan.count = 1 + i % 5;
        run((troupe_gather_policy)(i / 5 % 4));
        advance_ms(10);
        cr_assert_eq(outcome.count, i + 1);
        if (i == 1000) {
            bytes = test_counters(the_system).bytes;
        }
    }
    cr_expect_eq(test_counters(the_system).bytes, bytes);
    expect_nothing_open();
}

/* --- mistakes ------------------------------------------------------------- */

Test(gather, quorum_of_more_than_are_asked_is_refused)
{
    plan.options.policy = TROUPE_GATHER_QUORUM;
    plan.options.quorum = 3;
    have(ANSWER, 1, 0);
    have(ANSWER, 2, 0);
    expect_refused("quorum");
    cr_expect_str_eq(troupe_last_error().value, "3 of 2");
}

Test(gather, best_without_a_judge_is_refused)
{
    plan.options.policy = TROUPE_GATHER_BEST;
    have(ANSWER, 1, 0);
    expect_refused("better");
}

Test(gather, unknown_policy_is_refused)
{
    plan.options.policy = (troupe_gather_policy)4;
    have(ANSWER, 1, 0);
    expect_refused("policy");
    cr_expect_str_eq(troupe_last_error().value, "4");
}

Test(gather, wrong_question_is_refused)
{
    have(ANSWER, 1, 0);
    plan.payload = NULL;
    expect_refused("payload");
    plan.type = NULL;
    expect_refused("type");
}

Test(gather, options_without_a_size_are_refused)
{
    have(ANSWER, 1, 0);
    plan.options.size = 0;
    expect_refused("size");
}

static troupe_verdict
ask_wrongly(troupe_self *self, const troupe_msg *msg, void *user)
{
    const uint64_t number = 1;
    troupe_ref whom = troupe_self_ref(self);
    troupe_continuation good = troupe_then(then, &plan);

    (void)msg;
    (void)user;
    cr_expect_eq(
        troupe_gather(NULL, &whom, 1, &test_number, &number, NULL, good, NULL),
        TROUPE_E_INVALID);
    cr_expect_str_eq(troupe_last_error().option, "self");
    cr_expect_eq(
        troupe_gather(self, NULL, 1, &test_number, &number, NULL, good, NULL),
        TROUPE_E_INVALID);
    cr_expect_str_eq(troupe_last_error().option, "whom");
    cr_expect_eq(troupe_gather(self, &whom, 1, &test_number, &number, NULL,
                     troupe_then(NULL, NULL), NULL),
        TROUPE_E_INVALID);
    cr_expect_str_eq(troupe_last_error().option, "then.fn");
    cr_expect_eq(troupe_gather(self, &whom, (size_t)1 << 31, &test_number,
                     &number, NULL, good, NULL),
        TROUPE_E_INVALID);
    cr_expect_str_eq(troupe_last_error().option, "count");
    return TROUPE_CONTINUE;
}

Test(gather, what_is_missing_is_refused)
{
    test_do(the_system, doer, ask_wrongly, NULL);
    cr_expect_eq(outcome.count, 0);
    expect_nothing_open();
}
