/* SPDX-License-Identifier: MIT */
#include "support/system.h"

#include <criterion/criterion.h>

#include <string.h>

/*
 * Questions of TROUPE_MSG_EXPIRES types. A server that sleeps for 200 ms, while
 * its messages wait, gets some that nobody waits for any more. Time is virtual.
 */

#define STALL_NS TROUPE_MS(200)
#define SOON_NS TROUPE_MS(50)
#define LATE_NS TROUPE_MS(300)

TROUPE_MSG_TYPE_WITH(query, uint64_t, 100, TROUPE_MSG_EXPIRES, NULL);
TROUPE_MSG_TYPE_WITH(
    large_query, struct test_large, 101, TROUPE_MSG_EXPIRES, test_drop);
TROUPE_MSG_TYPE_WITH(vital_query, uint64_t, 102,
    TROUPE_MSG_EXPIRES | TROUPE_MSG_UNDROPPABLE, NULL);

static troupe_system *the_system;

static struct {
    uint64_t handled[64]; /* numbers of the queries, in order */
    uint32_t count;
    uint32_t others; /* messages that are no queries */
    bool stashes;
    bool answers_first; /* then forwards */
    troupe_ref next;    /* forwards */
    bool sends_on;      /* in the asker's name */
    troupe_ref asker;   /* of the last one */
} server;

static struct {
    uint32_t count;
    troupe_status status[64];
} outcomes;

static void
setup(void)
{
    memset(&server, 0, sizeof server);
    memset(&outcomes, 0, sizeof outcomes);
    the_system = test_open_driven(11);
}

static void
teardown(void)
{
    test_close(the_system);
}

TestSuite(expires, .init = setup, .fini = teardown);

/* Virtual time passes; then everything that can run does. */
static void
pass(uint64_t by_ns)
{
    cr_assert_eq(troupe_system_advance(the_system, by_ns), TROUPE_OK);
    test_run(the_system);
}

static uint64_t
expired(void)
{
    return test_letters.by_reason[TROUPE_DEAD_EXPIRED];
}

/* --- who asks ------------------------------------------------------------- */

static troupe_verdict
then(troupe_self *self, void *state, const troupe_result *result, void *user)
{
    (void)self;
    (void)state;
    (void)user;
    outcomes.status[outcomes.count++] = result->status;
    return TROUPE_CONTINUE;
}

struct question {
    troupe_ref whom;
    const troupe_msg_type *type; /* NULL = query */
    const void *payload;         /* NULL = 0, 1, 2 .. */
    uint64_t timeout_ns;
    uint64_t count; /* 0 = 1 */
    troupe_ticket ticket;
};

static troupe_verdict
ask(troupe_self *self, const troupe_msg *msg, void *user)
{
    struct question *question = user;

    (void)msg;
    for (uint64_t i = 0; i < question->count + (question->count == 0); i++) {
        const troupe_msg_type *type =
            question->type != NULL ? question->type : &query;
        const void *payload =
            question->payload != NULL ? question->payload : &i;

        cr_assert_eq(troupe_ask(self, question->whom, type, payload,
                         question->timeout_ns, troupe_then(then, NULL),
                         &question->ticket),
            TROUPE_OK);
    }
    return TROUPE_CONTINUE;
}

static troupe_verdict
cancel(troupe_self *self, const troupe_msg *msg, void *user)
{
    struct question *question = user;

    (void)msg;
    cr_assert_eq(troupe_cancel(self, question->ticket), TROUPE_OK);
    return TROUPE_CONTINUE;
}

/* Returns who has asked. */
static troupe_ref
ask_once(struct question *question)
{
    troupe_ref asker = test_spawn_doer(the_system, NULL);

    test_do(the_system, asker, ask, question);
    return asker;
}

/* --- the server ----------------------------------------------------------- */

static troupe_verdict
awake(troupe_self *self, void *state, const troupe_result *result, void *user)
{
    (void)self;
    (void)state;
    (void)result;
    (void)user;
    return TROUPE_CONTINUE;
}

static troupe_verdict
handle_query(troupe_self *self, const troupe_msg *msg)
{
    server.handled[server.count++] = *(const uint64_t *)msg->payload;
    server.asker = msg->sender;
    if (server.stashes) {
        cr_assert_eq(troupe_stash(self), TROUPE_OK);
        return TROUPE_CONTINUE;
    }
    if (server.answers_first || troupe_ref_is_none(server.next)) {
        troupe_reply(self, &test_empty, NULL);
    }
    if (server.sends_on) {
        troupe_msg *taken;

        cr_assert_eq(troupe_take(self, &taken), TROUPE_OK);
        cr_assert_eq(
            troupe_send_msg_from(self, server.next, taken, taken->sender),
            TROUPE_OK);
    } else if (!troupe_ref_is_none(server.next)) {
        troupe_forward(self, server.next);
    }
    return TROUPE_CONTINUE;
}

static troupe_verdict
serve(troupe_self *self, void *state, const troupe_msg *msg)
{
    troupe_ticket ticket;

    (void)state;
    if (troupe_msg_tag(msg) >= 100 && troupe_msg_tag(msg) <= 102) {
        return handle_query(self, msg);
    }
    if (troupe_msg_is(msg, &test_empty)) { /* stall */
        return troupe_await(self,
            troupe_sleep(self, STALL_NS, troupe_then(awake, NULL), &ticket),
            &ticket);
    }
    if (troupe_msg_is(msg, &test_other)) {
        server.stashes = false;
        cr_assert_eq(troupe_unstash(self, 0), TROUPE_OK);
    }
    server.others++;
    return TROUPE_CONTINUE;
}

static const troupe_actor_type server_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "server",
    .receive = serve,
};

static troupe_ref
spawn_with(const troupe_mailbox_options *mailbox,
    const troupe_throttle_options *throttle)
{
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    troupe_ref ref = TROUPE_NONE;

    options.mailbox = mailbox;
    options.throttle = throttle;
    test_require(troupe_system_spawn(
                     the_system, &server_type, &options, &ref) == TROUPE_OK);
    return ref;
}

static void
stall(troupe_ref whom)
{
    test_require(troupe_post(the_system, whom, &test_empty, NULL) == TROUPE_OK);
    test_run(the_system);
}

static troupe_ref
spawn_stalled(void)
{
    troupe_ref ref = spawn_with(NULL, NULL);

    stall(ref);
    return ref;
}

/* --- its turn has come ---------------------------------------------------- */

Test(expires, of_ten_questions_that_waited_too_long_none_is_handled)
{
    struct question question = {
        .whom = spawn_stalled(), .timeout_ns = SOON_NS, .count = 10};
    troupe_counters before;

    (void)ask_once(&question);
    pass(SOON_NS);
    cr_assert_eq(outcomes.count, 10);
    cr_expect_eq(outcomes.status[0], TROUPE_E_TIMEOUT);
    cr_expect_eq(expired(), 0); /* they wait */
    before = test_counters(the_system);
    pass(STALL_NS);
    cr_expect_eq(server.count, 0);
    cr_expect_eq(expired(), 10);
    cr_expect_eq(test_counters(the_system).dead, before.dead + 10);
    cr_expect_eq(test_counters(the_system).queued, before.queued - 10);
    cr_expect_eq(test_counters(the_system).handled, before.handled);
    cr_expect_eq(outcomes.count, 10);
}

Test(expires, the_letter_shows_message_asker_and_server)
{
    struct question question = {
        .whom = spawn_stalled(), .timeout_ns = SOON_NS, .count = 10};

    (void)ask_once(&question);
    pass(STALL_NS);
    cr_assert_eq(test_letters.total, 10);
    cr_expect_eq(test_letters.last.reason, TROUPE_DEAD_EXPIRED);
    cr_expect_eq(test_letters.last.tag, query.tag);
    cr_expect_eq(test_letters.last.number, 9);
    cr_expect(troupe_ref_equal(test_letters.last.recipient, question.whom));
    cr_expect(!troupe_ref_is_none(test_letters.last.sender));
    cr_expect_str_eq(troupe_dead_reason_name(TROUPE_DEAD_EXPIRED), "expired");
}

Test(expires, a_question_is_handled_while_its_asker_waits)
{
    struct question late = {
        .whom = spawn_stalled(), .timeout_ns = LATE_NS, .count = 3};
    struct question never = {
        .whom = late.whom, .timeout_ns = TROUPE_FOREVER, .count = 3};

    (void)ask_once(&late);
    (void)ask_once(&never);
    pass(STALL_NS);
    cr_expect_eq(server.count, 6);
    cr_assert_eq(outcomes.count, 6);
    cr_expect_eq(outcomes.status[0], TROUPE_OK);
    cr_expect_eq(test_letters.total, 0);
}

Test(expires, a_question_without_the_flag_is_handled_though_nobody_waits)
{
    uint64_t number = 5;
    struct question question = {.whom = spawn_stalled(),
        .type = &test_number,
        .payload = &number,
        .timeout_ns = SOON_NS};

    (void)ask_once(&question);
    pass(STALL_NS);
    cr_expect_eq(server.others, 1);
    cr_expect_eq(expired(), 0);
}

Test(expires, what_nobody_has_asked_is_handled)
{
    troupe_ref whom = spawn_stalled();
    _Atomic uint64_t drops = 0;
    struct test_large payload = {.owned = {&drops, 3}};
    uint64_t number = 1;

    cr_assert_eq(troupe_post(the_system, whom, &query, &number), TROUPE_OK);
    cr_assert_eq(
        troupe_post(the_system, whom, &large_query, &payload), TROUPE_OK);
    pass(STALL_NS);
    cr_expect_eq(server.count, 2);
    cr_expect_eq(expired(), 0);
}

Test(expires, only_those_that_waited_too_long_are_left_out)
{
    struct question soon = {
        .whom = spawn_stalled(), .timeout_ns = SOON_NS, .count = 2};
    uint64_t number = 77;
    struct question late = {
        .whom = soon.whom, .payload = &number, .timeout_ns = LATE_NS};
    troupe_ref asker = test_spawn_doer(the_system, NULL);

    for (uint32_t i = 0; i < 3; i++) {
        test_do(the_system, asker, ask, &soon);
        test_do(the_system, asker, ask, &late);
    }
    pass(STALL_NS);
    cr_expect_eq(server.count, 3);
    cr_expect_eq(server.handled[0], 77);
    cr_expect_eq(server.handled[2], 77);
    cr_expect_eq(expired(), 6);
}

Test(expires, what_an_expired_question_owns_is_dropped_once)
{
    _Atomic uint64_t drops = 0;
    struct test_large payload = {.owned = {&drops, 3}};
    struct question question = {.whom = spawn_stalled(),
        .type = &large_query,
        .payload = &payload,
        .timeout_ns = SOON_NS};

    (void)ask_once(&question);
    pass(SOON_NS);
    cr_expect_eq(drops, 0);
    pass(STALL_NS);
    cr_expect_eq(server.count, 0);
    cr_expect_eq(expired(), 1);
    cr_expect(test_letters.last.has_payload);
    cr_expect_eq(test_letters.last.bytes, sizeof payload);
    cr_expect_eq(drops, 1);
}

/* --- other ends of an ask ------------------------------------------------- */

Test(expires, a_question_that_was_cancelled_is_not_handled)
{
    struct question question = {.whom = spawn_stalled(), .timeout_ns = LATE_NS};
    troupe_ref asker = ask_once(&question);

    test_do(the_system, asker, cancel, &question);
    pass(STALL_NS);
    cr_expect_eq(server.count, 0);
    cr_expect_eq(expired(), 1);
}

Test(expires, a_question_whose_asker_has_gone_is_not_handled)
{
    struct question question = {.whom = spawn_stalled(), .timeout_ns = LATE_NS};
    troupe_ref asker = ask_once(&question);

    cr_assert_eq(troupe_post_stop_now(the_system, asker), TROUPE_OK);
    pass(STALL_NS);
    cr_expect_eq(server.count, 0);
    cr_expect_eq(expired(), 1);
}

Test(expires, a_question_of_a_thread_that_waited_long_enough_is_not_handled)
{
    troupe_ref whom = spawn_stalled();
    troupe_answer answer;
    uint64_t number = 1;

    cr_expect_eq(
        troupe_ask_wait(the_system, whom, &query, &number, SOON_NS, &answer),
        TROUPE_E_TIMEOUT);
    pass(STALL_NS);
    cr_expect_eq(server.count, 0);
    cr_expect_eq(expired(), 1);
    cr_expect_eq(
        troupe_ask_wait(the_system, whom, &query, &number, SOON_NS, &answer),
        TROUPE_OK);
    troupe_msg_free(answer.reply);
    cr_expect_eq(server.count, 1);
}

Test(expires, a_question_that_was_answered_on_its_way_is_not_handled)
{
    static struct test_record record;
    struct question question = {.timeout_ns = LATE_NS};

    memset(&record, 0, sizeof record);
    server.next = test_spawn_recorder(the_system, NULL, &record);
    server.answers_first = true;
    question.whom = spawn_with(NULL, NULL);
    (void)ask_once(&question);
    cr_expect_eq(server.count, 1);
    cr_assert_eq(outcomes.count, 1);
    cr_expect_eq(outcomes.status[0], TROUPE_OK);
    cr_expect_eq(record.count, 0);
    cr_expect_eq(expired(), 1);
    cr_expect(troupe_ref_equal(test_letters.last.recipient, server.next));
}

/* --- ways through --------------------------------------------------------- */

static void
expires_where_it_was_passed_to(void)
{
    struct question question = {.timeout_ns = SOON_NS};
    troupe_ref last = spawn_stalled();

    server.next = last;
    question.whom = spawn_with(NULL, NULL);
    (void)ask_once(&question);
    cr_expect_eq(server.count, 1);
    server.next = TROUPE_NONE;
    pass(STALL_NS);
    cr_expect_eq(server.count, 1);
    cr_expect_eq(expired(), 1);
    cr_expect(troupe_ref_equal(test_letters.last.recipient, last));
}

Test(expires, a_question_that_was_forwarded)
{
    expires_where_it_was_passed_to();
}

Test(expires, a_question_that_was_sent_on_in_the_name_of_its_asker)
{
    server.sends_on = true;
    expires_where_it_was_passed_to();
}

static double
rank_by_number(const troupe_msg *msg, void *user)
{
    (void)user;
    return msg->payload != NULL ? (double)*(const uint64_t *)msg->payload : 0;
}

/* Mailboxes of every kind that the library has. */
static void
each_mailbox(void (*check)(const troupe_mailbox_options *mailbox))
{
    troupe_mailbox_options mailbox = TROUPE_INIT(troupe_mailbox_options);

    check(NULL);
    mailbox.capacity = 20;
    check(&mailbox);
    mailbox.overflow = TROUPE_OVERFLOW_DROP_HEAD;
    check(&mailbox);
    mailbox.overflow = TROUPE_OVERFLOW_DROP_LOWEST;
    mailbox.priority = rank_by_number;
    check(&mailbox);
}

static void
waits_in(const troupe_mailbox_options *mailbox)
{
    struct question soon = {.timeout_ns = SOON_NS, .count = 5};
    struct question late = {.timeout_ns = LATE_NS, .count = 5};
    uint64_t before = expired();

    soon.whom = late.whom = spawn_with(mailbox, NULL);
    stall(soon.whom);
    server.count = 0;
    (void)ask_once(&soon);
    (void)ask_once(&late);
    pass(STALL_NS);
    cr_expect_eq(server.count, 5);
    cr_expect_eq(expired(), before + 5);
    cr_expect_eq(troupe_depth(the_system, soon.whom), 0);
}

Test(expires, a_question_in_a_mailbox_of_any_kind)
{
    each_mailbox(waits_in);
}

static void
is_stashed_in(const troupe_mailbox_options *mailbox)
{
    struct question soon = {.timeout_ns = SOON_NS, .count = 5};
    struct question late = {.timeout_ns = LATE_NS, .count = 5};
    uint64_t before = expired(), number = 0;

    soon.whom = late.whom = spawn_with(mailbox, NULL);
    server.count = 0;
    server.stashes = true;
    (void)ask_once(&soon);
    (void)ask_once(&late);
    cr_assert_eq(server.count, 10);
    pass(SOON_NS);
    cr_expect_eq(expired(), before); /* it is not its turn */
    cr_assert_eq(
        troupe_post(the_system, soon.whom, &test_other, &number), TROUPE_OK);
    test_run(the_system);
    cr_expect_eq(server.count, 15);
    cr_expect_eq(expired(), before + 5);
    cr_expect_eq(troupe_depth(the_system, soon.whom), 0);
}

Test(expires, a_question_that_comes_back_from_the_stash)
{
    each_mailbox(is_stashed_in);
}

Test(expires, an_undroppable_question_too)
{
    uint64_t number = 1;
    struct question question = {.whom = spawn_stalled(),
        .type = &vital_query,
        .payload = &number,
        .timeout_ns = SOON_NS};

    (void)ask_once(&question);
    pass(STALL_NS);
    cr_expect_eq(server.count, 0);
    cr_expect_eq(expired(), 1);
}

/* --- what it leaves alone ------------------------------------------------- */

Test(expires, it_costs_no_token_of_a_throttle)
{
    troupe_throttle_options throttle = TROUPE_INIT(troupe_throttle_options);
    uint64_t number = 77;
    struct question soon = {.timeout_ns = SOON_NS, .count = 30};
    struct question late = {
        .payload = &number, .timeout_ns = TROUPE_S(60), .count = 4};

    throttle.per_second = 1;
    throttle.burst = 2;
    soon.whom = late.whom = spawn_with(NULL, &throttle);
    stall(soon.whom); /* one token, and it sleeps */
    (void)ask_once(&soon);
    (void)ask_once(&late);
    pass(STALL_NS);
    cr_expect_eq(expired(), 30);
    cr_expect_eq(server.count, 1);
    pass(TROUPE_MS(700));
    cr_expect_eq(server.count, 1);
    pass(TROUPE_MS(102)); /* a second since the start */
    cr_expect_eq(server.count, 2);
    pass(TROUPE_MS(900));
    cr_expect_eq(server.count, 2);
    pass(TROUPE_S(60));
}

Test(expires, an_undroppable_one_brings_no_token)
{
    troupe_throttle_options throttle = TROUPE_INIT(troupe_throttle_options);
    uint64_t number = 77;
    struct question soon = {.type = &vital_query,
        .payload = &number,
        .timeout_ns = SOON_NS,
        .count = 30};
    struct question late = {
        .payload = &number, .timeout_ns = TROUPE_S(60), .count = 4};

    throttle.per_second = 1;
    throttle.burst = 2;
    soon.whom = late.whom = spawn_with(NULL, &throttle);
    stall(soon.whom);
    (void)ask_once(&soon);
    (void)ask_once(&late);
    pass(STALL_NS);
    cr_expect_eq(expired(), 30);
    cr_expect_eq(server.count, 1);
    pass(TROUPE_S(60));
    cr_expect_eq(server.count, 4);
}

static uint32_t silences;

static troupe_verdict
be_silent(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)self;
    (void)state;
    silences += troupe_msg_tag(msg) == TROUPE_TAG_IDLE;
    return TROUPE_CONTINUE;
}

static troupe_status
start_silent(troupe_self *self, void *state, const void *arg)
{
    (void)state;
    (void)arg;
    return troupe_receive_timeout(self, TROUPE_MS(100));
}

static const troupe_actor_type silent_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "silent",
    .receive = be_silent,
    .start = start_silent,
};

/* Who gets nothing else is silent. */
Test(expires, it_does_not_put_off_a_receive_timeout)
{
    struct question question = {.timeout_ns = LATE_NS};
    troupe_ref silent;

    test_require(troupe_system_spawn(the_system, &silent_type, NULL, &silent) ==
                 TROUPE_OK);
    test_run(the_system);
    silences = 0;
    server.next = silent;
    server.answers_first = true;
    question.whom = spawn_with(NULL, NULL);
    pass(TROUPE_MS(60));
    (void)ask_once(&question);
    cr_assert_eq(expired(), 1);
    pass(TROUPE_MS(40));
    cr_expect_eq(silences, 1);
}

/* --- ports ---------------------------------------------------------------- */

Test(expires, a_port_does_not_show_it)
{
    struct question soon = {.timeout_ns = SOON_NS, .count = 5};
    uint64_t number = 77;
    struct question late = {.payload = &number, .timeout_ns = LATE_NS};
    const troupe_msg *msg;
    troupe_counters before;
    troupe_port *port;

    cr_assert_eq(troupe_port_open(the_system, NULL, &port), TROUPE_OK);
    soon.whom = late.whom = troupe_port_ref(port);
    (void)ask_once(&soon);
    (void)ask_once(&late);
    (void)ask_once(&soon);
    pass(SOON_NS);
    before = test_counters(the_system);
    msg = troupe_port_next(port);
    cr_assert_not_null(msg);
    cr_expect_eq(*troupe_payload(msg, uint64_t), 77);
    cr_expect_eq(expired(), 5);
    cr_expect(troupe_ref_equal(test_letters.last.recipient, soon.whom));
    cr_expect_null(troupe_port_next(port));
    cr_expect_eq(expired(), 10);
    cr_expect_eq(test_counters(the_system).handled, before.handled + 1);
    cr_expect_eq(test_counters(the_system).dead, before.dead + 10);
    troupe_port_close(port);
    test_run(the_system);
}

/* --- the log -------------------------------------------------------------- */

static uint32_t lines[TROUPE_LOG_DEBUG + 1];

static void
count_line(const troupe_log_line *line, void *user)
{
    (void)user;
    lines[line->level] += strstr(line->text, "expired") != NULL;
}

Test(expires, it_is_a_warning_unless_its_asker_went_with_the_system)
{
    troupe_system_options options = test_options();
    struct question question = {.timeout_ns = SOON_NS};
    troupe_port *port;

    test_close(the_system);
    options.flags |= TROUPE_SYSTEM_DRIVEN;
    options.seed = 11;
    options.log.write = count_line;
    options.log.max_level = TROUPE_LOG_INFO;
    the_system = test_open(&options);
    question.whom = spawn_stalled();
    (void)ask_once(&question);
    pass(STALL_NS);
    cr_expect_eq(lines[TROUPE_LOG_WARN], 1);
    pass(TROUPE_S(10)); /* one line per second */
    cr_assert_eq(troupe_port_open(the_system, NULL, &port), TROUPE_OK);
    question.whom = troupe_port_ref(port);
    question.timeout_ns = TROUPE_FOREVER;
    (void)ask_once(&question);
    cr_assert_eq(troupe_system_stop(the_system), TROUPE_OK);
    cr_expect_null(troupe_port_next(port));
    cr_expect_eq(expired(), 2);
    cr_expect_eq(lines[TROUPE_LOG_WARN], 1);
    cr_expect_eq(lines[TROUPE_LOG_INFO], 1);
    troupe_port_close(port);
}

/* --- letters that are sent again ------------------------------------------ */

static uint64_t last_id;
static uint32_t last_replays;

static bool
look_at(const troupe_dead_letter_entry *entry, void *user)
{
    (void)user;
    cr_expect_eq(entry->letter.reason, TROUPE_DEAD_EXPIRED);
    last_id = entry->id;
    last_replays = entry->letter.replays;
    return true;
}

Test(expires, its_letter_that_is_sent_again_expires_again)
{
    troupe_dead_letter_options store = TROUPE_INIT(troupe_dead_letter_options);
    troupe_system_options options = test_options();
    struct question question = {.timeout_ns = SOON_NS};
    uint64_t id;

    test_close(the_system);
    store.capacity = 10;
    options.flags |= TROUPE_SYSTEM_DRIVEN;
    options.seed = 11;
    options.dead_letters = &store;
    the_system = test_open(&options);
    question.whom = spawn_stalled();
    (void)ask_once(&question);
    pass(STALL_NS);
    cr_assert_eq(
        troupe_dead_letters_list(the_system, NULL, look_at, NULL), TROUPE_OK);
    cr_expect_eq(last_replays, 0);
    id = last_id;
    cr_assert_eq(
        troupe_dead_letters_replay(the_system, id, TROUPE_NONE), TROUPE_OK);
    test_run(the_system);
    cr_expect_eq(server.count, 0);
    cr_expect_eq(expired(), 2);
    cr_assert_eq(
        troupe_dead_letters_get(the_system, id, look_at, NULL), TROUPE_OK);
    cr_expect_eq(last_replays, 1);
}
