/* SPDX-License-Identifier: MIT */
#include "support/await.h"
#include "support/system.h"

#include <criterion/criterion.h>

#include <pthread.h>
#include <string.h>

/*
 * Askers are doers: test_do() asks from inside. What their continuations were
 * told is kept here, in order. Time is virtual.
 */

static troupe_system *the_system;

static struct {
    uint32_t count;
    struct {
        troupe_status status;
        int32_t code;
        uint64_t number; /* the first 8 bytes of the answer */
        bool has_msg;
        troupe_ref from;   /* who answered */
        troupe_ref client; /* whom a reply would reach */
        uint64_t elapsed_ns;
        uint64_t user;
    } entry[4096];
    bool inside; /* a call that starts, ends or cancels */
    troupe_verdict verdict;
    troupe_msg *taken;
    bool take;
} outcomes;

static troupe_verdict
then(troupe_self *self, void *state, const troupe_result *result, void *user)
{
    uint32_t i = outcomes.count++;

    (void)state;
    cr_assert(!outcomes.inside, "a continuation inside of a call");
    outcomes.entry[i].status = result->status;
    outcomes.entry[i].code = result->code;
    outcomes.entry[i].has_msg = result->msg != NULL;
    outcomes.entry[i].number = 0;
    if (result->msg != NULL) {
        cr_assert_eq(result->status, TROUPE_OK);
        if (result->msg->bytes >= 8) {
            memcpy(&outcomes.entry[i].number, result->msg->payload, 8);
        }
        outcomes.entry[i].from = result->msg->sender;
    }
    outcomes.entry[i].client = troupe_sender(self);
    outcomes.entry[i].elapsed_ns = result->elapsed_ns;
    outcomes.entry[i].user = (uint64_t)(uintptr_t)user;
    if (outcomes.take) {
        cr_assert_eq(troupe_take(self, &outcomes.taken), TROUPE_OK);
    }
    return outcomes.verdict;
}

static troupe_continuation
then_number(uint64_t number)
{
    return troupe_then(then, (void *)(uintptr_t)number);
}

static void
setup(void)
{
    memset(&outcomes, 0, sizeof outcomes);
    the_system = test_open_driven(7);
}

static void
teardown(void)
{
    test_close(the_system);
}

TestSuite(ask, .init = setup, .fini = teardown);

/* --- askers --------------------------------------------------------------- */

struct question {
    troupe_ref whom;
    uint64_t number;
    uint64_t timeout_ns;
    uint32_t count;
    troupe_status status;
    troupe_ticket ticket;
    troupe_verdict verdict;
};

static troupe_verdict
ask(troupe_self *self, const troupe_msg *msg, void *user)
{
    struct question *question = user;

    (void)msg;
    outcomes.inside = true;
    for (uint32_t i = 0; i < question->count + (question->count == 0); i++) {
        uint64_t number = question->number + i;

        question->status =
            troupe_ask(self, question->whom, &test_number, &number,
                question->timeout_ns, then_number(number), &question->ticket);
    }
    outcomes.inside = false;
    return question->verdict;
}

static troupe_verdict
cancel(troupe_self *self, const troupe_msg *msg, void *user)
{
    struct question *question = user;

    (void)msg;
    outcomes.inside = true;
    question->status = troupe_cancel(self, question->ticket);
    outcomes.inside = false;
    return TROUPE_CONTINUE;
}

/* --- those who are asked -------------------------------------------------- */

static struct {
    troupe_ref asker; /* of the last question */
    troupe_msg *kept;
    troupe_ref next;
    uint32_t asked;
} target;

/* Keeps the address and answers later. */
static troupe_verdict
keep(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    if (!troupe_msg_is(msg, &test_number)) {
        return TROUPE_DONE;
    }
    target.asker = troupe_sender(self);
    target.asked++;
    return TROUPE_CONTINUE;
}

static troupe_verdict
forward(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    if (!troupe_msg_is(msg, &test_number)) {
        return TROUPE_DONE;
    }
    troupe_forward(self, target.next);
    return TROUPE_CONTINUE;
}

static troupe_verdict
take(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    if (!troupe_msg_is(msg, &test_number)) {
        return TROUPE_DONE;
    }
    cr_assert_eq(troupe_take(self, &target.kept), TROUPE_OK);
    target.asker = msg->sender;
    return TROUPE_CONTINUE;
}

static troupe_verdict
pass_on(troupe_self *self, void *state, const troupe_msg *msg)
{
    troupe_msg *taken;

    (void)state;
    if (!troupe_msg_is(msg, &test_number)) {
        return TROUPE_DONE;
    }
    cr_assert_eq(troupe_take(self, &taken), TROUPE_OK);
    cr_assert_eq(troupe_send_msg_from(self, target.next, taken, taken->sender),
        TROUPE_OK);
    return TROUPE_CONTINUE;
}

static troupe_verdict
refuse(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    (void)msg;
    troupe_reply_failure(self, 42);
    return TROUPE_CONTINUE;
}

static troupe_verdict
unhandled(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)self;
    (void)state;
    (void)msg;
    return TROUPE_UNHANDLED;
}

static troupe_verdict
stash(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    if (!troupe_msg_is(msg, &test_number)) {
        return TROUPE_DONE;
    }
    cr_assert_eq(troupe_stash(self), TROUPE_OK);
    return TROUPE_CONTINUE;
}

static troupe_verdict
answer_twice(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    troupe_reply(self, &test_number, msg->payload);
    troupe_reply(self, &test_number, msg->payload);
    return TROUPE_CONTINUE;
}

static troupe_verdict
die(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)self;
    (void)state;
    (void)msg;
    return TROUPE_DONE;
}

/* Types live as long as the actors. */
static troupe_ref
spawn_with(troupe_behaviour_fn receive, const troupe_spawn_options *options)
{
    static troupe_actor_type types[64];
    static size_t used;
    troupe_actor_type *type = &types[used++ % 64];
    troupe_ref ref;

    *type = (troupe_actor_type){
        .size = sizeof *type, .name = "target", .receive = receive};
    test_require(
        troupe_system_spawn(the_system, type, options, &ref) == TROUPE_OK);
    test_run(the_system);
    return ref;
}

static troupe_ref
spawn(troupe_behaviour_fn receive)
{
    return spawn_with(receive, NULL);
}

static troupe_ref
spawn_echo(void)
{
    troupe_ref ref;

    test_require(
        troupe_system_spawn(the_system, &test_echo, NULL, &ref) == TROUPE_OK);
    return ref;
}

static void
end(troupe_ref actor)
{
    cr_assert_eq(troupe_post_stop_now(the_system, actor), TROUPE_OK);
    test_run(the_system);
}

/* Asks once; true: one continuation ran, with this status. */
static bool
ends_with(troupe_ref whom, troupe_status status)
{
    struct question question = {.whom = whom, .number = 1};
    troupe_ref asker = test_spawn_doer(the_system, NULL);
    uint32_t before = outcomes.count;

    test_do(the_system, asker, ask, &question);
    return question.status == TROUPE_OK && outcomes.count == before + 1 &&
           outcomes.entry[before].status == status;
}

/* --- the answer ----------------------------------------------------------- */

Test(ask, brings_the_answer_and_who_gave_it)
{
    struct question question = {.whom = spawn_echo(), .number = 17};
    troupe_ref asker = test_spawn_doer(the_system, NULL);

    test_do(the_system, asker, ask, &question);
    cr_expect_eq(question.status, TROUPE_OK);
    cr_assert_eq(outcomes.count, 1);
    cr_expect_eq(outcomes.entry[0].status, TROUPE_OK);
    cr_expect_eq(outcomes.entry[0].number, 17);
    cr_expect(troupe_ref_equal(outcomes.entry[0].from, question.whom));
    cr_expect_eq(outcomes.entry[0].user, 17);
    cr_expect_eq(test_counters(the_system).asks, 0);
}

static troupe_verdict
ask_for_client(troupe_self *self, void *state, const troupe_msg *msg)
{
    uint64_t number = *troupe_payload(msg, uint64_t);

    (void)state;
    cr_assert_eq(troupe_ask(self, target.next, &test_number, &number,
                     TROUPE_TIMEOUT_DEFAULT, then_number(number), NULL),
        TROUPE_OK);
    return TROUPE_CONTINUE;
}

Test(ask, keeps_the_client_for_the_continuation)
{
    troupe_port *port;
    troupe_ref server = spawn(ask_for_client);
    uint64_t number = 3;

    target.next = spawn_echo();
    cr_assert_eq(troupe_port_open(the_system, NULL, &port), TROUPE_OK);
    cr_assert_eq(
        troupe_port_send(port, server, &test_number, &number), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(outcomes.count, 1);
    cr_expect(
        troupe_ref_equal(outcomes.entry[0].client, troupe_port_ref(port)));
    troupe_port_close(port);
}

Test(ask, ends_once_however_many_answer)
{
    troupe_ref twice = spawn(answer_twice);

    cr_expect(ends_with(twice, TROUPE_OK));
    cr_expect_eq(test_letters.by_reason[TROUPE_DEAD_LATE], 1);
    cr_expect(troupe_ref_equal(test_letters.last.sender, twice));
}

Test(ask, is_refused_with_what_the_other_says)
{
    cr_expect(ends_with(spawn(refuse), TROUPE_E_FAILED));
    cr_expect_eq(outcomes.entry[0].code, 42);
    cr_expect(!outcomes.entry[0].has_msg);
}

Test(ask, lets_the_continuation_take_the_answer)
{
    outcomes.take = true;
    cr_expect(ends_with(spawn_echo(), TROUPE_OK));
    cr_assert_not_null(outcomes.taken);
    cr_expect_eq(*troupe_payload(outcomes.taken, uint64_t), 1);
    troupe_msg_free(outcomes.taken);
}

static troupe_verdict
stash_it(
    troupe_self *self, void *state, const troupe_result *result, void *user)
{
    (void)state;
    (void)result;
    (void)user;
    outcomes.count++;
    cr_expect_eq(troupe_stash(self), TROUPE_E_STATE);
    troupe_forward(self, target.next);
    return TROUPE_CONTINUE;
}

static troupe_verdict
ask_to_stash(troupe_self *self, const troupe_msg *msg, void *user)
{
    struct question *question = user;
    uint64_t number = 4;

    (void)msg;
    cr_assert_eq(troupe_ask(self, question->whom, &test_number, &number, 0,
                     troupe_then(stash_it, NULL), NULL),
        TROUPE_OK);
    return TROUPE_CONTINUE;
}

Test(ask, lets_the_continuation_forward_the_answer_but_not_stash_it)
{
    static struct test_record record;
    struct question question = {.whom = spawn_echo()};

    memset(&record, 0, sizeof record);
    target.next = test_spawn_recorder(the_system, NULL, &record);
    test_do(
        the_system, test_spawn_doer(the_system, NULL), ask_to_stash, &question);
    cr_expect_eq(outcomes.count, 1);
    cr_assert_eq(record.count, 1);
    cr_expect_eq(record.entry[0].number, 4);
    cr_expect(troupe_ref_equal(record.entry[0].sender, question.whom));
}

Test(ask, of_many_at_once_ends_each_in_the_order_of_the_answers)
{
    struct question question = {.whom = spawn_echo(), .count = 1000};
    troupe_ref asker = test_spawn_doer(the_system, NULL);

    test_do(the_system, asker, ask, &question);
    cr_assert_eq(outcomes.count, 1000);
    for (uint32_t i = 0; i < 1000; i++) {
        cr_expect_eq(outcomes.entry[i].number, i);
        cr_expect_eq(outcomes.entry[i].user, i);
    }
}

/* --- refusals ------------------------------------------------------------- */

Test(ask, of_the_dead_ends_at_once)
{
    cr_expect(ends_with(test_dead_actor(the_system), TROUPE_E_DEAD));
    cr_expect_eq(test_letters.total, 0);
    cr_expect_eq(test_counters(the_system).refused, 1);
}

static troupe_spawn_options
with_mailbox(const troupe_mailbox_options *mailbox)
{
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);

    options.mailbox = mailbox;
    return options;
}

/* The question is the second message of a mailbox with room for one. */
static troupe_ref
spawn_full(troupe_overflow overflow)
{
    troupe_mailbox_options mailbox = TROUPE_INIT(troupe_mailbox_options);
    troupe_spawn_options options = with_mailbox(&mailbox);
    troupe_ref full;

    mailbox.capacity = 1;
    mailbox.overflow = overflow;
    full = spawn_with(test_ignore, &options);
    return full;
}

static troupe_verdict
ask_full(troupe_self *self, const troupe_msg *msg, void *user)
{
    struct question *question = user;
    uint64_t number = 0;

    cr_assert_eq(
        troupe_send(self, question->whom, &test_number, &number), TROUPE_OK);
    return ask(self, msg, user);
}

Test(ask, of_the_full_ends_at_once)
{
    troupe_ref asker = test_spawn_doer(the_system, NULL);
    troupe_overflow how[] = {TROUPE_OVERFLOW_REJECT, TROUPE_OVERFLOW_DROP_NEW};

    for (uint32_t i = 0; i < 2; i++) {
        struct question question = {.whom = spawn_full(how[i])};

        test_do(the_system, asker, ask_full, &question);
        cr_expect_eq(question.status, TROUPE_OK);
        cr_assert_eq(outcomes.count, i + 1);
        cr_expect_eq(outcomes.entry[i].status, TROUPE_E_FULL);
    }
}

Test(ask, that_is_evicted_ends_at_once)
{
    troupe_mailbox_options mailbox = TROUPE_INIT(troupe_mailbox_options);
    troupe_spawn_options options = with_mailbox(&mailbox);
    struct question question = {.count = 2};

    mailbox.capacity = 1;
    mailbox.overflow = TROUPE_OVERFLOW_DROP_HEAD;
    question.whom = spawn_with(answer_twice, &options);
    test_do(the_system, test_spawn_doer(the_system, NULL), ask, &question);
    cr_assert_eq(outcomes.count, 2);
    cr_expect_eq(outcomes.entry[0].status, TROUPE_E_FULL);
    cr_expect_eq(outcomes.entry[1].status, TROUPE_OK);
}

Test(ask, that_nobody_handles_ends_at_once)
{
    cr_expect(ends_with(spawn(unhandled), TROUPE_E_DEAD));
    cr_expect_eq(test_letters.by_reason[TROUPE_DEAD_UNHANDLED], 1);
}

/* --- the target dies ------------------------------------------------------ */

Test(ask, ends_when_the_target_dies_with_it_in_its_mailbox)
{
    struct question question = {.whom = spawn(die), .count = 3};

    test_do(the_system, test_spawn_doer(the_system, NULL), ask, &question);
    cr_assert_eq(outcomes.count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        cr_expect_eq(outcomes.entry[i].status, TROUPE_E_DEAD);
    }
}

Test(ask, ends_when_who_has_kept_it_dies)
{
    struct question question = {.whom = spawn(keep), .count = 3};

    test_do(the_system, test_spawn_doer(the_system, NULL), ask, &question);
    cr_expect_eq(outcomes.count, 0);
    cr_expect_eq(test_counters(the_system).asks, 3);
    end(question.whom);
    cr_assert_eq(outcomes.count, 3);
    cr_expect_eq(outcomes.entry[0].status, TROUPE_E_DEAD);
    cr_expect_eq(outcomes.entry[2].status, TROUPE_E_DEAD);
}

Test(ask, ends_when_who_has_taken_it_dies)
{
    struct question question = {.whom = spawn(take)};

    test_do(the_system, test_spawn_doer(the_system, NULL), ask, &question);
    cr_expect_eq(outcomes.count, 0);
    end(question.whom);
    cr_assert_eq(outcomes.count, 1);
    cr_expect_eq(outcomes.entry[0].status, TROUPE_E_DEAD);
    troupe_msg_free(target.kept);
}

Test(ask, ends_when_who_has_stashed_it_dies)
{
    struct question question = {.whom = spawn(stash)};

    test_do(the_system, test_spawn_doer(the_system, NULL), ask, &question);
    cr_expect_eq(outcomes.count, 0);
    end(question.whom);
    cr_assert_eq(outcomes.count, 1);
    cr_expect_eq(outcomes.entry[0].status, TROUPE_E_DEAD);
}

Test(ask, ends_when_the_port_that_has_kept_it_is_closed)
{
    struct question question = {.count = 2};
    troupe_port *port;

    cr_assert_eq(troupe_port_open(the_system, NULL, &port), TROUPE_OK);
    question.whom = troupe_port_ref(port);
    test_do(the_system, test_spawn_doer(the_system, NULL), ask, &question);
    cr_assert_not_null(troupe_port_next(port));
    cr_expect_eq(outcomes.count, 0);
    troupe_port_close(port); /* one was shown, one was not */
    test_run(the_system);
    cr_assert_eq(outcomes.count, 2);
    cr_expect_eq(outcomes.entry[0].status, TROUPE_E_DEAD);
    cr_expect_eq(outcomes.entry[1].status, TROUPE_E_DEAD);
}

static void
forwarded_belongs_to_the_new_target(troupe_behaviour_fn first)
{
    struct question question = {.whom = spawn(first)};

    target.next = spawn(keep);
    test_do(the_system, test_spawn_doer(the_system, NULL), ask, &question);
    end(question.whom);
    cr_expect_eq(outcomes.count, 0);
    end(target.next);
    cr_assert_eq(outcomes.count, 1);
    cr_expect_eq(outcomes.entry[0].status, TROUPE_E_DEAD);
}

Test(ask, that_was_forwarded_belongs_to_the_new_target)
{
    forwarded_belongs_to_the_new_target(forward);
}

Test(ask, that_was_sent_on_belongs_to_the_new_target)
{
    forwarded_belongs_to_the_new_target(pass_on);
}

static troupe_verdict
send_kept(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    (void)user;
    cr_assert_eq(
        troupe_send_msg_from(self, target.next, target.kept, target.asker),
        TROUPE_OK);
    return TROUPE_CONTINUE;
}

Test(ask, that_was_kept_and_sent_on_belongs_to_the_new_target)
{
    struct question question = {.whom = spawn(take)};

    target.next = spawn(keep);
    test_do(the_system, test_spawn_doer(the_system, NULL), ask, &question);
    test_do(the_system, test_spawn_doer(the_system, NULL), send_kept, NULL);
    end(question.whom);
    cr_expect_eq(outcomes.count, 0);
    end(target.next);
    cr_assert_eq(outcomes.count, 1);
}

/* A year of questions to one that answers later leaves nothing behind. */
Test(ask, that_is_answered_later_leaves_nothing_with_who_answers)
{
    troupe_ref keeper = spawn(keep);
    troupe_ref asker = test_spawn_doer(the_system, NULL);
    uint64_t before = 0;

    for (uint64_t i = 0; i < 2000; i++) {
        struct question question = {.whom = keeper, .number = i};

        test_do(the_system, asker, ask, &question);
        test_post_number(the_system, target.asker, i);
        test_run(the_system);
        outcomes.count = 0;
        if (i == 100) {
            before = test_counters(the_system).bytes;
        }
    }
    cr_expect_eq(test_counters(the_system).bytes, before);
    end(keeper);
    cr_expect_eq(outcomes.count, 0);
}

/* --- deadlines ------------------------------------------------------------ */

static void
advance(uint64_t by_ns)
{
    cr_assert_eq(troupe_system_advance(the_system, by_ns), TROUPE_OK);
}

Test(ask, has_a_deadline_of_five_seconds)
{
    struct question question = {.whom = spawn(keep)};

    test_do(the_system, test_spawn_doer(the_system, NULL), ask, &question);
    advance(TROUPE_S(5) - 1);
    cr_expect_eq(outcomes.count, 0);
    advance(1);
    cr_assert_eq(outcomes.count, 1);
    cr_expect_eq(outcomes.entry[0].status, TROUPE_E_TIMEOUT);
    cr_expect_eq(outcomes.entry[0].elapsed_ns, TROUPE_S(5));
    test_post_number(the_system, question.whom, 1);
}

Test(ask, has_the_deadline_that_it_says)
{
    struct question question = {
        .whom = spawn(keep), .timeout_ns = TROUPE_MS(20)};

    test_do(the_system, test_spawn_doer(the_system, NULL), ask, &question);
    advance(TROUPE_MS(20) - 1);
    cr_expect_eq(outcomes.count, 0);
    advance(1);
    cr_expect_eq(outcomes.count, 1);
}

Test(ask, without_a_deadline_waits)
{
    struct question question = {
        .whom = spawn(keep), .timeout_ns = TROUPE_FOREVER};

    test_do(the_system, test_spawn_doer(the_system, NULL), ask, &question);
    advance(TROUPE_S(1000000));
    cr_expect_eq(outcomes.count, 0);
}

Test(ask, takes_its_deadline_from_the_options)
{
    troupe_system_options options = test_options();
    struct question question = {.number = 1};
    troupe_ref keeper;

    test_close(the_system);
    options.flags |= TROUPE_SYSTEM_DRIVEN;
    options.seed = 7;
    options.ask_timeout_ns = TROUPE_MS(3);
    the_system = test_open(&options);
    keeper = spawn(keep);
    question.whom = keeper;
    test_do(the_system, test_spawn_doer(the_system, NULL), ask, &question);
    advance(TROUPE_MS(3));
    cr_expect_eq(outcomes.count, 1);
}

static troupe_verdict
ask_mixed(troupe_self *self, const troupe_msg *msg, void *user)
{
    struct question *question = user;

    (void)msg;
    for (uint64_t i = 0; i < 500; i++) { /* each delay of 1..500 ms once */
        uint64_t number = 1 + (i * 211) % 500;
        troupe_ticket ticket;

        cr_assert_eq(troupe_ask(self, question->whom, &test_number, &number,
                         TROUPE_MS(number), then_number(number), &ticket),
            TROUPE_OK);
        if (number % 5 == 0) {
            cr_assert_eq(troupe_cancel(self, ticket), TROUPE_OK);
        }
    }
    return TROUPE_CONTINUE;
}

Test(ask, with_many_deadlines_ends_in_their_order)
{
    struct question question = {.whom = spawn(keep)};
    uint64_t last = 0;

    test_do(
        the_system, test_spawn_doer(the_system, NULL), ask_mixed, &question);
    cr_assert_eq(outcomes.count, 100); /* the cancelled ones */
    advance(TROUPE_MS(250));
    cr_assert_eq(outcomes.count, 300);
    advance(TROUPE_MS(250));
    cr_assert_eq(outcomes.count, 500);
    for (uint32_t i = 100; i < 500; i++) {
        cr_expect_eq(outcomes.entry[i].status, TROUPE_E_TIMEOUT);
        cr_expect_gt(outcomes.entry[i].user, last);
        last = outcomes.entry[i].user;
        cr_expect_eq(outcomes.entry[i].elapsed_ns, TROUPE_MS(last));
    }
}

Test(ask, answers_that_come_late_are_dead_letters)
{
    struct question question = {
        .whom = spawn(keep), .timeout_ns = TROUPE_MS(20)};
    uint64_t number = 1;

    test_do(the_system, test_spawn_doer(the_system, NULL), ask, &question);
    advance(TROUPE_MS(20));
    troupe_post_tell(the_system, target.asker, &test_number, &number);
    cr_expect_eq(test_letters.by_reason[TROUPE_DEAD_LATE], 1);
    cr_expect_eq(troupe_post(the_system, target.asker, &test_number, &number),
        TROUPE_E_DEAD);
    cr_expect_eq(outcomes.count, 1);
}

/* --- cancelled ------------------------------------------------------------ */

Test(ask, can_be_cancelled_once)
{
    struct question question = {.whom = spawn(keep)};
    troupe_ref asker = test_spawn_doer(the_system, NULL);

    test_do(the_system, asker, ask, &question);
    test_do(the_system, asker, cancel, &question);
    cr_expect_eq(question.status, TROUPE_OK);
    cr_assert_eq(outcomes.count, 1);
    cr_expect_eq(outcomes.entry[0].status, TROUPE_E_CANCELLED);
    test_do(the_system, asker, cancel, &question);
    cr_expect_eq(question.status, TROUPE_E_MISSING);
    cr_expect_eq(outcomes.count, 1);
}

Test(ask, cannot_be_cancelled_by_others)
{
    struct question question = {.whom = spawn(keep)};

    test_do(the_system, test_spawn_doer(the_system, NULL), ask, &question);
    test_do(the_system, test_spawn_doer(the_system, NULL), cancel, &question);
    cr_expect_eq(question.status, TROUPE_E_MISSING);
    question.ticket.id = UINT64_MAX;
    test_do(the_system, test_spawn_doer(the_system, NULL), cancel, &question);
    cr_expect_eq(question.status, TROUPE_E_MISSING);
    cr_expect_eq(outcomes.count, 0);
}

static uint32_t at_stop;

static void
count_at_stop(troupe_self *self, void *state, const troupe_exit *why)
{
    struct question question = {.whom = troupe_self_ref(self)};

    (void)state;
    (void)why;
    at_stop = outcomes.count;
    (void)ask(self, NULL, &question);
    cr_expect_eq(question.status, TROUPE_E_STATE);
}

static troupe_verdict
ask_target(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct question question = {.whom = target.next, .count = 2};

    (void)state;
    if (!troupe_msg_is(msg, &test_number)) {
        return TROUPE_DONE;
    }
    (void)ask(self, msg, &question);
    cr_expect_eq(question.status, TROUPE_OK);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type stopping_asker = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "asker",
    .receive = ask_target,
    .stop = count_at_stop,
};

static troupe_ref
spawn_stopping_asker(void)
{
    troupe_ref asker;

    target.next = spawn(keep);
    test_require(troupe_system_spawn(
                     the_system, &stopping_asker, NULL, &asker) == TROUPE_OK);
    test_post_number(the_system, asker, 1);
    test_run(the_system);
    return asker;
}

Test(ask, ends_cancelled_before_the_stop_of_its_asker)
{
    troupe_ref asker = spawn_stopping_asker();

    end(asker);
    cr_assert_eq(outcomes.count, 2);
    cr_expect_eq(outcomes.entry[0].status, TROUPE_E_CANCELLED);
    cr_expect_eq(outcomes.entry[1].status, TROUPE_E_CANCELLED);
    cr_expect_eq(at_stop, 2);
}

Test(ask, ends_closed_with_its_system)
{
    (void)spawn_stopping_asker();
    cr_assert_eq(troupe_system_stop(the_system), TROUPE_OK);
    cr_assert_eq(outcomes.count, 2);
    cr_expect_eq(outcomes.entry[0].status, TROUPE_E_CLOSED);
    cr_expect_eq(at_stop, 2);
}

/* The answer is there, and the actor fails before it is shown. */
static troupe_verdict
fail_after_answer(troupe_self *self, const troupe_msg *msg, void *user)
{
    struct question *question = user;
    uint64_t number = 5;

    (void)msg;
    (void)question;
    troupe_tell(self, target.asker, &test_number, &number);
    return TROUPE_FAILED;
}

Test(ask, that_was_answered_just_before_the_end_is_cancelled)
{
    struct question question = {.whom = spawn(keep)};
    troupe_ref asker = test_spawn_doer(the_system, NULL);

    test_do(the_system, asker, ask, &question);
    test_do(the_system, asker, fail_after_answer, &question);
    cr_assert_eq(outcomes.count, 1);
    cr_expect_eq(outcomes.entry[0].status, TROUPE_E_CANCELLED);
    cr_expect(!outcomes.entry[0].has_msg);
    cr_expect_eq(test_letters.by_reason[TROUPE_DEAD_STOPPED], 1);
}

/* It fails, and asks from the restart() of its old state. */
static uint32_t at_restart;

static void
count_at_restart(troupe_self *self, void *state, const troupe_exit *why)
{
    struct question question = {.whom = troupe_self_ref(self)};

    (void)state;
    (void)why;
    at_restart = outcomes.count;
    (void)ask(self, NULL, &question);
    cr_expect_eq(question.status, TROUPE_E_STATE);
}

static troupe_verdict
ask_then_fail(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct question question = {.whom = target.next, .count = 2};

    (void)state;
    if (*troupe_payload(msg, uint64_t) != 0) {
        return troupe_fail(self, 1);
    }
    (void)ask(self, msg, &question);
    return TROUPE_CONTINUE;
}

Test(ask, ends_cancelled_before_the_restart_of_its_asker)
{
    static const troupe_actor_type type = {
        .size = TROUPE_OPTIONS(troupe_actor_type),
        .name = "restarted",
        .receive = ask_then_fail,
        .restart = count_at_restart,
    };
    troupe_ref asker;

    target.next = spawn(keep);
    cr_assert_eq(
        troupe_system_spawn(the_system, &type, NULL, &asker), TROUPE_OK);
    test_post_numbers(the_system, asker, 2);
    test_run(the_system);
    cr_assert_eq(outcomes.count, 2);
    cr_expect_eq(outcomes.entry[1].status, TROUPE_E_CANCELLED);
    cr_expect_eq(at_restart, 2);
    test_post_number(the_system, asker, 0); /* the new one can ask */
    test_run(the_system);
    cr_expect_eq(test_counters(the_system).asks, 2);
    cr_expect_eq(test_counters(the_system).restarted, 1);
}

/* --- payloads ------------------------------------------------------------- */

static _Atomic uint64_t drops;

static troupe_verdict
ask_owned(troupe_self *self, const troupe_msg *msg, void *user)
{
    struct question *question = user;
    struct test_owned owned = {&drops, 1};

    (void)msg;
    question->status = troupe_ask(self, question->whom, &test_owned, &owned,
        TROUPE_TIMEOUT_DEFAULT, then_number(1), NULL);
    return TROUPE_CONTINUE;
}

static troupe_verdict
ask_owned_msg(troupe_self *self, const troupe_msg *msg, void *user)
{
    struct question *question = user;
    troupe_msg *owned = troupe_msg_new(the_system, &test_owned, 0);

    (void)msg;
    *troupe_payload_mut(owned, struct test_owned) =
        (struct test_owned){&drops, 1};
    question->status = troupe_ask_msg(self, question->whom, owned,
        TROUPE_TIMEOUT_DEFAULT, then_number(1), NULL);
    return TROUPE_CONTINUE;
}

Test(ask, that_has_begun_owns_its_payload_whatever_becomes_of_it)
{
    troupe_ref asker = test_spawn_doer(the_system, NULL);
    struct question question = {.whom = spawn(test_ignore)};

    drops = 0;
    test_do(the_system, asker, ask_owned, &question);
    cr_expect_eq(drops, 1);
    test_do(the_system, asker, ask_owned_msg, &question);
    cr_expect_eq(drops, 2);
    question.whom = test_dead_actor(the_system);
    test_do(the_system, asker, ask_owned, &question);
    cr_expect_eq(question.status, TROUPE_OK);
    cr_expect_eq(drops, 3);
    test_do(the_system, asker, ask_owned_msg, &question);
    cr_expect_eq(question.status, TROUPE_OK);
    cr_expect_eq(drops, 4);
    cr_expect_eq(outcomes.count, 2);
    cr_expect_eq(outcomes.entry[1].status, TROUPE_E_DEAD);
}

static troupe_verdict
ask_wrongly(troupe_self *self, const troupe_msg *msg, void *user)
{
    struct question *question = user;
    uint64_t number = 1;

    (void)msg;
    cr_expect_eq(troupe_ask(self, TROUPE_NONE, &test_number, &number, 0,
                     then_number(1), NULL),
        TROUPE_E_INVALID);
    cr_expect_eq(troupe_ask(self, question->whom, NULL, &number, 0,
                     then_number(1), NULL),
        TROUPE_E_INVALID);
    cr_expect_eq(troupe_ask(self, question->whom, &test_number, NULL, 0,
                     then_number(1), NULL),
        TROUPE_E_INVALID);
    cr_expect_eq(troupe_ask(self, question->whom, &test_number, &number, 0,
                     troupe_then(NULL, NULL), NULL),
        TROUPE_E_INVALID);
    cr_expect_eq(troupe_ask(NULL, question->whom, &test_number, &number, 0,
                     then_number(1), NULL),
        TROUPE_E_INVALID);
    cr_expect_eq(
        troupe_ask_msg(self, question->whom, NULL, 0, then_number(1), NULL),
        TROUPE_E_NOMEM);
    cr_expect_eq(
        troupe_promise(self, 0, then_number(1), NULL, NULL), TROUPE_E_INVALID);
    cr_expect_eq(troupe_pipe(self, TROUPE_NONE, 0, NULL), TROUPE_E_INVALID);
    cr_expect_eq(
        troupe_sleep(self, 1, troupe_then(NULL, NULL), NULL), TROUPE_E_INVALID);
    cr_expect_eq(troupe_cancel(NULL, question->ticket), TROUPE_E_INVALID);
    cr_expect_eq(troupe_cancel(self, question->ticket), TROUPE_E_MISSING);
    return TROUPE_CONTINUE;
}

Test(ask, refuses_mistakes_and_begins_nothing)
{
    struct question question = {.whom = spawn(keep)};
    troupe_counters before;

    test_do(
        the_system, test_spawn_doer(the_system, NULL), ask_wrongly, &question);
    cr_expect_eq(outcomes.count, 0);
    cr_expect_eq(test_counters(the_system).asks, 0);
    before = test_counters(the_system);
    cr_expect_eq(before.refused, 0);
}

/* --- continuations -------------------------------------------------------- */

static troupe_verdict
ask_again(
    troupe_self *self, void *state, const troupe_result *result, void *user)
{
    struct question *question = user;

    (void)state;
    cr_expect_eq(result->status, TROUPE_E_DEAD);
    if (++question->count < 1000) {
        cr_assert_eq(troupe_ask(self, question->whom, &test_empty, NULL, 0,
                         troupe_then(ask_again, question), NULL),
            TROUPE_OK);
    }
    return TROUPE_CONTINUE;
}

static troupe_verdict
ask_the_dead(troupe_self *self, const troupe_msg *msg, void *user)
{
    struct question *question = user;

    (void)msg;
    cr_assert_eq(troupe_ask(self, question->whom, &test_empty, NULL, 0,
                     troupe_then(ask_again, question), NULL),
        TROUPE_OK);
    return TROUPE_CONTINUE;
}

Test(ask, in_a_circle_lets_others_have_their_turn)
{
    struct question question = {.whom = test_dead_actor(the_system)};
    troupe_ref asker = test_spawn_doer(the_system, NULL);
    troupe_run run;

    test_do_later(the_system, asker, ask_the_dead, &question);
    cr_assert_eq(troupe_system_run(the_system, 2, &run), TROUPE_OK);
    cr_expect_lt(question.count, 1000);
    test_run(the_system);
    cr_expect_eq(question.count, 1000);
}

Test(ask, ends_the_actor_if_its_continuation_says_so)
{
    troupe_ref echo = spawn_echo();
    struct question question = {.whom = echo, .count = 2};
    troupe_ref asker = test_spawn_doer(the_system, NULL);

    outcomes.verdict = TROUPE_DONE;
    test_do(the_system, asker, ask, &question);
    cr_assert_eq(outcomes.count, 2);
    cr_expect_eq(outcomes.entry[0].status, TROUPE_OK);
    cr_expect_eq(outcomes.entry[1].status, TROUPE_E_CANCELLED);
    cr_expect_eq(troupe_depth(the_system, asker), TROUPE_DEPTH_DEAD);
}

Test(ask, whose_answer_is_not_handled_is_a_dead_letter)
{
    outcomes.verdict = TROUPE_UNHANDLED;
    cr_expect(ends_with(spawn_echo(), TROUPE_OK));
    cr_expect_eq(test_letters.by_reason[TROUPE_DEAD_UNHANDLED], 1);
}

/* Before the next message, and after the handler. */
static uint32_t seen_before_next;

static troupe_verdict
ask_and_see(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct question question = {.whom = target.next};

    (void)state;
    if (*troupe_payload(msg, uint64_t) == 0) {
        (void)ask(self, msg, &question);
        cr_expect_eq(outcomes.count, 0);
    } else {
        seen_before_next = outcomes.count;
    }
    return TROUPE_CONTINUE;
}

Test(ask, that_was_refused_ends_before_the_next_message)
{
    troupe_ref asker;

    target.next = test_dead_actor(the_system);
    asker = spawn(ask_and_see);
    test_post_numbers(the_system, asker, 2);
    test_run(the_system);
    cr_expect_eq(seen_before_next, 1);
}

static troupe_status
ask_at_start(troupe_self *self, void *state, const void *arg)
{
    struct question question = {.whom = target.next};

    (void)state;
    (void)arg;
    (void)ask(self, NULL, &question);
    return question.status;
}

Test(ask, can_begin_in_start)
{
    static const troupe_actor_type type = {
        .size = TROUPE_OPTIONS(troupe_actor_type),
        .name = "starter",
        .receive = test_ignore,
        .start = ask_at_start,
    };
    troupe_ref asker;

    target.next = test_dead_actor(the_system);
    cr_assert_eq(
        troupe_system_spawn(the_system, &type, NULL, &asker), TROUPE_OK);
    test_run(the_system);
    cr_expect_eq(outcomes.count, 1);
    target.next = spawn_echo();
    cr_assert_eq(
        troupe_system_spawn(the_system, &type, NULL, &asker), TROUPE_OK);
    test_run(the_system);
    cr_expect_eq(outcomes.count, 2);
}

/* --- addresses ------------------------------------------------------------ */

static troupe_verdict
make_promise(troupe_self *self, const troupe_msg *msg, void *user)
{
    troupe_ref *promise = user;
    troupe_ticket ticket;

    (void)msg;
    cr_assert_eq(
        troupe_promise(self, 0, then_number(1), promise, &ticket), TROUPE_OK);
    return TROUPE_CONTINUE;
}

Test(ask, never_has_the_address_of_another_one)
{
    troupe_ref asker = test_spawn_doer(the_system, NULL);
    troupe_ref promise[200];

    for (uint32_t i = 0; i < 200; i++) {
        test_do(the_system, asker, make_promise, &promise[i]);
        test_post_number(the_system, promise[i], i);
        test_run(the_system);
        cr_assert_eq(outcomes.count, i + 1);
        for (uint32_t j = 0; j < i; j++) {
            cr_assert(!troupe_ref_equal(promise[i], promise[j]));
        }
    }
}

Test(ask, has_an_address_that_is_nobody_to_other_calls)
{
    troupe_ref asker = test_spawn_doer(the_system, NULL);
    troupe_ref promise;
    char path[64];

    test_do(the_system, asker, make_promise, &promise);
    cr_expect_eq(troupe_depth(the_system, promise), TROUPE_DEPTH_DEAD);
    cr_expect_eq(troupe_post_stop_now(the_system, promise), TROUPE_OK);
    cr_expect_eq(troupe_post_stop(the_system, promise), TROUPE_OK);
    (void)troupe_path(the_system, promise, path, sizeof path);
    cr_expect_eq(outcomes.count, 0);
}
