/* SPDX-License-Identifier: MIT */
#include "support/await.h"
#include "support/system.h"

#include <criterion/criterion.h>

#include <pthread.h>
#include <string.h>

/* Addresses that are not of an ask, and threads that wait. */

static troupe_system *the_system;

static struct {
    uint32_t count;
    struct {
        troupe_status status;
        int32_t code;
        uint64_t number;
        uint64_t elapsed_ns;
        bool has_msg;
    } entry[64];
} outcomes;

static troupe_verdict
then(troupe_self *self, void *state, const troupe_result *result, void *user)
{
    uint32_t i = outcomes.count++;

    (void)self;
    (void)state;
    (void)user;
    outcomes.entry[i].status = result->status;
    outcomes.entry[i].code = result->code;
    outcomes.entry[i].elapsed_ns = result->elapsed_ns;
    outcomes.entry[i].has_msg = result->msg != NULL;
    if (result->msg != NULL) {
        memcpy(&outcomes.entry[i].number, result->msg->payload, 8);
    }
    return TROUPE_CONTINUE;
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

TestSuite(promise, .init = setup, .fini = teardown);

struct operation {
    troupe_ref to; /* pipe, stop: whom */
    uint64_t timeout_ns;
    troupe_ref promise;
    troupe_ticket ticket;
    troupe_status status;
};

static troupe_verdict
promise(troupe_self *self, const troupe_msg *msg, void *user)
{
    struct operation *op = user;

    (void)msg;
    op->status = troupe_promise(self, op->timeout_ns, troupe_then(then, NULL),
        &op->promise, &op->ticket);
    return TROUPE_CONTINUE;
}

static troupe_verdict
pipe_to(troupe_self *self, const troupe_msg *msg, void *user)
{
    struct operation *op = user;

    (void)msg;
    op->status = troupe_pipe(self, op->to, op->timeout_ns, &op->promise);
    return TROUPE_CONTINUE;
}

static troupe_verdict
sleep_for(troupe_self *self, const troupe_msg *msg, void *user)
{
    struct operation *op = user;

    (void)msg;
    op->status = troupe_sleep(
        self, op->timeout_ns, troupe_then(then, NULL), &op->ticket);
    return TROUPE_CONTINUE;
}

static troupe_verdict
stop_gracefully(troupe_self *self, const troupe_msg *msg, void *user)
{
    struct operation *op = user;

    (void)msg;
    op->status = troupe_stop_gracefully(
        self, op->to, op->timeout_ns, troupe_then(then, NULL), &op->ticket);
    return TROUPE_CONTINUE;
}

static troupe_verdict
cancel(troupe_self *self, const troupe_msg *msg, void *user)
{
    struct operation *op = user;

    (void)msg;
    op->status = troupe_cancel(self, op->ticket);
    return TROUPE_CONTINUE;
}

static troupe_ref
spawn_type(const troupe_actor_type *type)
{
    troupe_ref ref;

    test_require(
        troupe_system_spawn(the_system, type, NULL, &ref) == TROUPE_OK);
    return ref;
}

static void
advance(uint64_t by_ns)
{
    cr_assert_eq(troupe_system_advance(the_system, by_ns), TROUPE_OK);
}

/* --- promises ------------------------------------------------------------- */

Test(promise, ends_with_the_first_message_posted_to_it)
{
    struct operation op = {0};

    test_do(the_system, test_spawn_doer(the_system, NULL), promise, &op);
    cr_assert_eq(op.status, TROUPE_OK);
    test_post_number(the_system, op.promise, 21);
    test_run(the_system);
    cr_assert_eq(outcomes.count, 1);
    cr_expect_eq(outcomes.entry[0].number, 21);
    troupe_post_failure(the_system, op.promise, 3);
    cr_expect_eq(test_letters.by_reason[TROUPE_DEAD_LATE], 1);
}

Test(promise, ends_with_a_failure)
{
    struct operation op = {0};

    test_do(the_system, test_spawn_doer(the_system, NULL), promise, &op);
    troupe_post_failure(the_system, op.promise, 3);
    test_run(the_system);
    cr_assert_eq(outcomes.count, 1);
    cr_expect_eq(outcomes.entry[0].status, TROUPE_E_FAILED);
    cr_expect_eq(outcomes.entry[0].code, 3);
}

static void
be_answered_and_stopped(bool is_failure)
{
    struct operation op = {.timeout_ns = TROUPE_S(1)};
    troupe_ref doer = test_spawn_doer(the_system, NULL);

    test_do(the_system, doer, promise, &op);
    if (is_failure) {
        troupe_post_failure(the_system, op.promise, 7);
    } else {
        test_post_number(the_system, op.promise, 1);
    }
    troupe_system_request_stop(the_system);
    cr_assert_eq(troupe_post_stop_now(the_system, doer), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(outcomes.count, 1);
    cr_expect_eq(outcomes.entry[0].status, TROUPE_E_CLOSED);
    cr_expect_eq(outcomes.entry[0].code, 0);
    cr_expect(!outcomes.entry[0].has_msg);
}

Test(promise, that_is_kept_as_the_system_stops_is_closed)
{
    be_answered_and_stopped(false);
}

Test(promise, that_is_broken_as_the_system_stops_is_closed)
{
    be_answered_and_stopped(true);
}

static void
be_answered_from_outside_too_late(bool is_failure)
{
    struct operation op = {.timeout_ns = TROUPE_S(1)};
    uint64_t number = 1;

    test_do(the_system, test_spawn_doer(the_system, NULL), promise, &op);
    troupe_system_request_stop(the_system);
    if (is_failure) {
        troupe_post_failure(the_system, op.promise, 7);
    } else {
        troupe_post_tell(the_system, op.promise, &test_number, &number);
    }
    test_run(the_system);
    cr_assert_eq(outcomes.count, 1);
    cr_expect_eq(outcomes.entry[0].status, TROUPE_E_CLOSED);
}

Test(promise, that_is_broken_from_outside_while_the_system_stops_is_closed)
{
    be_answered_from_outside_too_late(true);
}

Test(promise, that_is_kept_from_outside_while_the_system_stops_is_closed)
{
    be_answered_from_outside_too_late(false);
}

Test(promise, takes_large_and_owned_answers)
{
    struct operation op = {0};
    _Atomic uint64_t drops = 0;
    struct test_large large = {.owned = {&drops, 8}};

    test_do(the_system, test_spawn_doer(the_system, NULL), promise, &op);
    cr_assert_eq(
        troupe_post(the_system, op.promise, &test_large, &large), TROUPE_OK);
    cr_expect_eq(test_counters(the_system).queued, 1);
    test_run(the_system);
    cr_expect_eq(outcomes.count, 1);
    cr_expect_eq(drops, 1);
}

Test(promise, has_a_deadline)
{
    struct operation op = {.timeout_ns = TROUPE_MS(3)};

    test_do(the_system, test_spawn_doer(the_system, NULL), promise, &op);
    advance(TROUPE_MS(3));
    cr_assert_eq(outcomes.count, 1);
    cr_expect_eq(outcomes.entry[0].status, TROUPE_E_TIMEOUT);
}

/* --- pipes ---------------------------------------------------------------- */

static troupe_ref piped; /* the promise of it */
static troupe_ref piped_from;

/* The first message makes a pipe to the actor itself, the next one comes. */
static troupe_verdict
pipe_to_self(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    if (*troupe_payload(msg, uint64_t) == 0) {
        cr_assert_eq(
            troupe_pipe(self, troupe_self_ref(self), 0, &piped), TROUPE_OK);
    } else {
        piped_from = troupe_sender(self);
    }
    return TROUPE_CONTINUE;
}

Test(promise, is_piped_as_a_message_of_who_caused_it)
{
    static const troupe_actor_type type = {
        .size = TROUPE_OPTIONS(troupe_actor_type),
        .name = "piper",
        .receive = pipe_to_self,
    };
    troupe_ref piper = spawn_type(&type);
    uint64_t number = 0;
    troupe_port *port;

    cr_assert_eq(troupe_port_open(the_system, NULL, &port), TROUPE_OK);
    cr_assert_eq(
        troupe_port_send(port, piper, &test_number, &number), TROUPE_OK);
    test_run(the_system);
    test_post_number(the_system, piped, 1); /* from a thread of nobody */
    test_run(the_system);
    cr_expect(troupe_ref_equal(piped_from, troupe_port_ref(port)));
    troupe_port_close(port);
}

Test(promise, is_piped_as_a_failure)
{
    static struct test_record record;
    struct operation op;
    troupe_ref doer = test_spawn_doer(the_system, NULL);

    memset(&record, 0, sizeof record);
    op =
        (struct operation){.to = test_spawn_recorder(the_system, NULL, &record),
            .timeout_ns = TROUPE_MS(2)};
    test_do(the_system, doer, pipe_to, &op);
    troupe_post_failure(the_system, op.promise, 77);
    test_run(the_system);
    cr_assert_eq(record.count, 1);
    cr_expect_eq(record.entry[0].tag, TROUPE_TAG_FAILURE);
    cr_expect_eq(record.entry[0].number >> 32, 77);
    test_do(the_system, doer, pipe_to, &op);
    advance(TROUPE_MS(2));
    cr_assert_eq(record.count, 2);
    cr_expect_eq(record.entry[1].tag, TROUPE_TAG_FAILURE);
    cr_expect_eq((int32_t)record.entry[1].number, TROUPE_E_TIMEOUT);
}

Test(promise, is_piped_to_nobody_as_a_dead_letter)
{
    struct operation op = {.to = test_dead_actor(the_system)};
    _Atomic uint64_t drops = 0;
    struct test_large large = {.owned = {&drops, 8}};

    test_do(the_system, test_spawn_doer(the_system, NULL), pipe_to, &op);
    cr_assert_eq(
        troupe_post(the_system, op.promise, &test_large, &large), TROUPE_OK);
    test_run(the_system);
    cr_expect_eq(test_letters.by_reason[TROUPE_DEAD_STOPPED], 1);
    cr_expect_eq(drops, 1);
}

Test(promise, is_piped_to_the_full_as_a_dead_letter)
{
    troupe_mailbox_options mailbox = TROUPE_INIT(troupe_mailbox_options);
    struct test_record record = {0};
    struct operation op = {0};

    mailbox.capacity = 1;
    op.to = test_spawn_recorder_with(the_system, &mailbox, &record);
    test_do(the_system, test_spawn_doer(the_system, NULL), pipe_to, &op);
    test_post_number(the_system, op.to, 1);
    test_post_number(the_system, op.promise, 2);
    test_run(the_system);
    cr_assert_eq(record.count, 1);
    cr_expect_eq(record.entry[0].number, 1);
    cr_expect_eq(test_letters.by_reason[TROUPE_DEAD_REFUSED], 1);
}

/* --- pauses --------------------------------------------------------------- */

Test(promise, of_a_pause_is_kept)
{
    struct operation op = {.timeout_ns = TROUPE_MS(30)};

    test_do(the_system, test_spawn_doer(the_system, NULL), sleep_for, &op);
    advance(TROUPE_MS(30) - 1);
    cr_expect_eq(outcomes.count, 0);
    advance(1);
    cr_assert_eq(outcomes.count, 1);
    cr_expect_eq(outcomes.entry[0].status, TROUPE_OK);
    cr_expect(!outcomes.entry[0].has_msg);
    cr_expect_eq(outcomes.entry[0].elapsed_ns, TROUPE_MS(30));
}

Test(promise, of_no_pause_is_kept_at_once)
{
    struct operation op = {0};

    test_do(the_system, test_spawn_doer(the_system, NULL), sleep_for, &op);
    advance(1);
    cr_expect_eq(outcomes.count, 1);
}

Test(promise, of_a_pause_can_be_cancelled)
{
    struct operation op = {.timeout_ns = TROUPE_MS(30)};
    troupe_ref doer = test_spawn_doer(the_system, NULL);

    test_do(the_system, doer, sleep_for, &op);
    test_do(the_system, doer, cancel, &op);
    cr_assert_eq(outcomes.count, 1);
    cr_expect_eq(outcomes.entry[0].status, TROUPE_E_CANCELLED);
    advance(TROUPE_MS(30));
    cr_expect_eq(outcomes.count, 1);
}

/* --- graceful stops ------------------------------------------------------- */

Test(promise, of_a_stop_is_kept_when_it_has_gone)
{
    static struct test_record record;
    struct operation op;

    memset(&record, 0, sizeof record);
    op =
        (struct operation){.to = test_spawn_recorder(the_system, NULL, &record),
            .timeout_ns = TROUPE_S(1)};
    test_post_numbers(the_system, op.to, 5);
    test_do(
        the_system, test_spawn_doer(the_system, NULL), stop_gracefully, &op);
    cr_assert_eq(outcomes.count, 1);
    cr_expect_eq(outcomes.entry[0].status, TROUPE_OK);
    cr_expect(!outcomes.entry[0].has_msg);
    cr_expect_eq(record.count, 5);
    cr_expect_eq(record.stopped, 1);
}

Test(promise, of_a_stop_of_the_dead_is_kept_at_once)
{
    struct operation op = {
        .to = test_dead_actor(the_system), .timeout_ns = TROUPE_S(1)};

    test_do(
        the_system, test_spawn_doer(the_system, NULL), stop_gracefully, &op);
    cr_assert_eq(outcomes.count, 1);
    cr_expect_eq(outcomes.entry[0].status, TROUPE_OK);
}

static troupe_verdict
sleep_awaited(troupe_self *self, const troupe_msg *msg, void *user)
{
    troupe_ticket ticket;

    (void)msg;
    (void)user;
    return troupe_await(self,
        troupe_sleep(self, TROUPE_S(10), troupe_then(then, NULL), &ticket),
        &ticket);
}

Test(promise, of_a_stop_that_takes_too_long_becomes_a_hard_one)
{
    struct operation op = {
        .to = test_spawn_doer(the_system, NULL), .timeout_ns = TROUPE_S(1)};

    test_do(the_system, op.to, sleep_awaited, NULL);
    test_do(
        the_system, test_spawn_doer(the_system, NULL), stop_gracefully, &op);
    cr_expect_eq(outcomes.count, 0);
    advance(TROUPE_S(1));
    cr_assert_eq(outcomes.count, 2);
    cr_expect_eq(outcomes.entry[0].status, TROUPE_E_TIMEOUT);
    cr_expect_eq(outcomes.entry[1].status, TROUPE_E_CANCELLED);
    cr_expect_eq(troupe_depth(the_system, op.to), TROUPE_DEPTH_DEAD);
}

Test(promise, of_a_stop_can_be_cancelled_but_not_the_stop)
{
    struct operation op = {
        .to = test_spawn_doer(the_system, NULL), .timeout_ns = TROUPE_S(1)};
    troupe_ref doer = test_spawn_doer(the_system, NULL);

    test_do(the_system, op.to, sleep_awaited, NULL);
    test_do(the_system, doer, stop_gracefully, &op);
    test_do(the_system, doer, cancel, &op);
    cr_assert_eq(op.status, TROUPE_OK);
    cr_assert_eq(outcomes.count, 1);
    cr_expect_eq(outcomes.entry[0].status, TROUPE_E_CANCELLED);
    advance(TROUPE_S(10));
    cr_expect_eq(outcomes.count, 2);
    cr_expect_eq(troupe_depth(the_system, op.to), TROUPE_DEPTH_DEAD);
    cr_expect_eq(test_letters.total, 0);
}

Test(promise, of_a_stop_refuses_mistakes)
{
    struct operation op = {.to = TROUPE_NONE};

    test_do(
        the_system, test_spawn_doer(the_system, NULL), stop_gracefully, &op);
    cr_expect_eq(op.status, TROUPE_E_INVALID);
    cr_expect_eq(outcomes.count, 0);
}

/* --- threads that wait ---------------------------------------------------- */

static troupe_status
ask_wait(troupe_ref whom, uint64_t timeout_ns, troupe_answer *answer)
{
    uint64_t number = 31;

    memset(answer, 0xff, sizeof *answer);
    return troupe_ask_wait(
        the_system, whom, &test_number, &number, timeout_ns, answer);
}

static void
gets_the_answer(void)
{
    troupe_ref echo = spawn_type(&test_echo);
    troupe_answer answer;

    cr_assert_eq(ask_wait(echo, 0, &answer), TROUPE_OK);
    cr_expect_eq(answer.status, TROUPE_OK);
    cr_assert_not_null(answer.reply);
    cr_expect_eq(*troupe_payload(answer.reply, uint64_t), 31);
    cr_expect(troupe_ref_equal(answer.reply->sender, echo));
    troupe_msg_free(answer.reply);
}

Test(promise, that_is_waited_for_takes_what_the_question_owns)
{
    static const troupe_mailbox_options bounded = {
        .size = TROUPE_OPTIONS(troupe_mailbox_options), .capacity = 1};
    static const troupe_spawn_options options = {
        .size = TROUPE_OPTIONS(troupe_spawn_options), .mailbox = &bounded};
    static _Atomic uint64_t drops;
    struct test_owned owned = {.drops = &drops, .number = 1};
    troupe_ref whom = spawn_type(&test_plain);
    troupe_answer answer;

    cr_expect_eq(troupe_ask_wait(
                     the_system, TROUPE_NONE, &test_owned, &owned, 0, &answer),
        TROUPE_E_INVALID);
    cr_expect_eq(drops, 0); /* a mistake: ours still */
    cr_assert_eq(troupe_post_stop_now(the_system, whom), TROUPE_OK);
    test_run(the_system);
    cr_expect_eq(
        troupe_ask_wait(the_system, whom, &test_owned, &owned, 0, &answer),
        TROUPE_E_DEAD);
    cr_expect_eq(drops, 1); /* as if it had died a moment later */
    cr_assert_eq(troupe_system_spawn(the_system, &test_plain, &options, &whom),
        TROUPE_OK);
    cr_assert_eq(troupe_post(the_system, whom, &test_empty, NULL), TROUPE_OK);
    cr_expect_eq(
        troupe_ask_wait(the_system, whom, &test_owned, &owned, 0, &answer),
        TROUPE_E_FULL);
    cr_expect_eq(drops, 2);
    troupe_system_request_stop(the_system);
    cr_expect_eq(
        troupe_ask_wait(the_system, whom, &test_owned, &owned, 0, &answer),
        TROUPE_E_CLOSED);
    cr_expect_eq(drops, 3);
}

Test(promise, is_waited_for_by_a_thread_that_drives)
{
    gets_the_answer();
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
die(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)self;
    (void)state;
    (void)msg;
    return TROUPE_DONE;
}

static void
hears_of_every_end(void)
{
    static const troupe_actor_type refuser = {
        .size = TROUPE_OPTIONS(troupe_actor_type),
        .name = "refuser",
        .receive = refuse,
    };
    static const troupe_actor_type dier = {
        .size = TROUPE_OPTIONS(troupe_actor_type),
        .name = "dier",
        .receive = die,
    };
    troupe_answer answer;
    troupe_ref dead = spawn_type(&dier);

    cr_expect_eq(ask_wait(spawn_type(&refuser), 0, &answer), TROUPE_E_FAILED);
    cr_expect_eq(answer.code, 42);
    cr_expect_null(answer.reply);
    cr_expect_eq(ask_wait(dead, 0, &answer), TROUPE_E_DEAD);
    cr_expect_null(answer.reply);
    cr_expect_eq(ask_wait(dead, 0, &answer), TROUPE_E_DEAD);
    cr_expect_eq(ask_wait(spawn_type(&test_plain), TROUPE_MS(1), &answer),
        TROUPE_E_TIMEOUT);
    cr_expect_eq(answer.status, TROUPE_E_TIMEOUT);
    cr_expect_eq(ask_wait(TROUPE_NONE, 0, &answer), TROUPE_E_INVALID);
    cr_expect_eq(answer.status, TROUPE_E_INVALID);
    cr_expect_eq(troupe_ask_wait(NULL, dead, &test_empty, NULL, 0, &answer),
        TROUPE_E_INVALID);
    cr_expect_eq(troupe_ask_wait(the_system, dead, &test_empty, NULL, 0, NULL),
        TROUPE_E_INVALID);
    cr_expect_eq(test_counters(the_system).asks, 0);
}

Test(promise, tells_a_thread_that_drives_of_every_end)
{
    hears_of_every_end();
}

Test(promise, keeps_a_thread_that_drives_in_virtual_time)
{
    uint64_t before = troupe_now_ns(the_system);
    troupe_answer answer;

    cr_expect_eq(ask_wait(spawn_type(&test_plain), TROUPE_S(1000), &answer),
        TROUPE_E_TIMEOUT);
    cr_expect_eq(troupe_now_ns(the_system) - before, TROUPE_S(1000));
}

static troupe_verdict
wait_inside(troupe_self *self, const troupe_msg *msg, void *user)
{
    troupe_answer *answer = user;

    (void)msg;
    cr_expect_eq(ask_wait(troupe_self_ref(self), 0, answer), TROUPE_E_CONTEXT);
    return TROUPE_CONTINUE;
}

Test(promise, is_not_waited_for_by_a_worker)
{
    troupe_answer answer;

    test_do(
        the_system, test_spawn_doer(the_system, NULL), wait_inside, &answer);
    cr_expect_eq(answer.status, TROUPE_E_CONTEXT);
    cr_expect_null(answer.reply);
}

Test(promise, is_refused_when_the_system_is_closing)
{
    troupe_ref echo = spawn_type(&test_echo);
    troupe_answer answer;

    troupe_system_request_stop(the_system);
    cr_expect_eq(ask_wait(echo, 0, &answer), TROUPE_E_CLOSED);
}

static void
setup_threads(void)
{
    the_system = test_open_threads(2);
}

TestSuite(wait, .init = setup_threads, .fini = teardown);

Test(wait, gets_the_answer)
{
    for (uint32_t i = 0; i < 1000; i++) {
        gets_the_answer();
    }
}

Test(wait, hears_of_every_end)
{
    hears_of_every_end();
}

static void *
wait_for_ever(void *user)
{
    troupe_answer *answer = user;

    (void)ask_wait(spawn_type(&test_plain), TROUPE_FOREVER, answer);
    return NULL;
}

static bool
somebody_asks(void *user)
{
    (void)user;
    return test_counters(the_system).asks == 1 &&
           test_counters(the_system).handled == 1;
}

Test(wait, ends_with_the_system)
{
    troupe_answer answer;
    pthread_t thread;

    cr_assert_eq(pthread_create(&thread, NULL, wait_for_ever, &answer), 0);
    cr_assert(test_await(somebody_asks, NULL));
    cr_expect_eq(troupe_system_stop(the_system), TROUPE_OK);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    cr_expect_eq(answer.status, TROUPE_E_CLOSED);
}
