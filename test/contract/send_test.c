/* SPDX-License-Identifier: MIT */
#include "support/system.h"

#include <troupe/port.h>

#include <criterion/criterion.h>

#include <stdatomic.h>
#include <string.h>

static troupe_system *the_system;
static troupe_ref doer;
static struct test_record record;
static troupe_ref recorder;

static void
setup(void)
{
    the_system = test_open_driven(0);
    doer = test_spawn_doer(the_system, NULL);
    recorder = test_spawn_recorder(the_system, NULL, &record);
}

static void
teardown(void)
{
    test_close(the_system);
}

TestSuite(send, .init = setup, .fini = teardown);

static void
inside(test_do_fn what)
{
    test_do(the_system, doer, what, NULL);
}

/* --- who the sender is ---------------------------------------------------- */

static troupe_verdict
send_every_way(troupe_self *self, const troupe_msg *msg, void *user)
{
    uint64_t n = 1;
    troupe_msg *owned;

    (void)msg;
    (void)user;
    cr_assert_eq(troupe_send(self, recorder, &test_number, &n), TROUPE_OK);
    troupe_tell(self, recorder, &test_number, &n);
    cr_assert_eq(
        troupe_send_bytes(self, recorder, &test_bytes, "abc", 3), TROUPE_OK);
    troupe_tell_bytes(self, recorder, &test_bytes, "abc", 3);
    owned = troupe_msg_new(the_system, &test_number, 0);
    cr_assert_eq(troupe_send_msg(self, recorder, owned), TROUPE_OK);
    owned = troupe_msg_new(the_system, &test_number, 0);
    troupe_tell_msg(self, recorder, owned);
    cr_assert_eq(troupe_tell_many(self, &recorder, 1, &test_number, &n), 1);
    return TROUPE_CONTINUE;
}

Test(send, inside_the_sender_is_self)
{
    inside(send_every_way);
    cr_assert_eq(record.count, 7);
    for (uint32_t i = 0; i < 7; i++) {
        cr_assert(troupe_ref_equal(record.entry[i].sender, doer), "%u", i);
    }
}

Test(send, outside_there_is_no_sender)
{
    uint64_t n = 1;

    cr_assert_eq(
        troupe_post(the_system, recorder, &test_number, &n), TROUPE_OK);
    cr_assert_eq(troupe_post_bytes(the_system, recorder, &test_bytes, "abc", 3),
        TROUPE_OK);
    cr_assert_eq(troupe_post_msg(the_system, recorder,
                     troupe_msg_new(the_system, &test_number, 0)),
        TROUPE_OK);
    troupe_post_tell(the_system, recorder, &test_number, &n);
    troupe_post_failure(the_system, recorder, 3);
    test_run(the_system);
    cr_assert_eq(record.count, 5);
    for (uint32_t i = 0; i < 5; i++) {
        cr_assert(troupe_ref_is_none(record.entry[i].sender));
    }
}

static troupe_verdict
send_in_its_name(troupe_self *self, const troupe_msg *msg, void *user)
{
    troupe_ref whose = *(troupe_ref *)user;

    (void)msg;
    cr_assert_eq(troupe_send_msg_from(self, recorder,
                     troupe_msg_new(the_system, &test_number, 0), whose),
        TROUPE_OK);
    return TROUPE_CONTINUE;
}

Test(send, a_message_can_be_sent_in_the_name_of_another)
{
    troupe_ref other = test_spawn_doer(the_system, NULL);
    troupe_ref none = TROUPE_NONE;

    test_do(the_system, doer, send_in_its_name, &other);
    cr_assert_eq(troupe_post_msg_from(the_system, recorder,
                     troupe_msg_new(the_system, &test_number, 0), other),
        TROUPE_OK);
    test_do(the_system, doer, send_in_its_name, &none);
    test_run(the_system);
    cr_assert_eq(record.count, 3);
    cr_assert(troupe_ref_equal(record.entry[0].sender, other));
    cr_assert(troupe_ref_is_none(record.entry[1].sender) ||
              troupe_ref_equal(record.entry[1].sender, other));
    cr_assert_eq(troupe_ref_is_none(record.entry[1].sender) +
                     troupe_ref_is_none(record.entry[2].sender),
        1);
}

/* --- refusals ------------------------------------------------------------- */

static troupe_verdict
send_to_the_dead(troupe_self *self, const troupe_msg *msg, void *user)
{
    troupe_ref dead = *(troupe_ref *)user;
    uint64_t n = 1;
    troupe_msg *owned = troupe_msg_new(the_system, &test_number, 0);

    (void)msg;
    cr_assert_eq(troupe_send(self, dead, &test_number, &n), TROUPE_E_DEAD);
    cr_assert_eq(
        troupe_send_bytes(self, dead, &test_bytes, "abc", 3), TROUPE_E_DEAD);
    cr_assert_eq(troupe_send_msg(self, dead, owned), TROUPE_E_DEAD);
    cr_assert_eq(
        troupe_send_msg_from(self, dead, owned, recorder), TROUPE_E_DEAD);
    cr_assert_eq(troupe_send_msg(self, recorder, owned), TROUPE_OK);
    return TROUPE_CONTINUE;
}

Test(send, a_refusal_is_reported_and_makes_no_dead_letter)
{
    troupe_ref dead = test_dead_actor(the_system);
    uint64_t before = test_counters(the_system).refused;

    test_do(the_system, doer, send_to_the_dead, &dead);
    cr_assert_eq(test_letters.total, 0);
    cr_assert_eq(test_counters(the_system).refused, before + 4);
    cr_assert_eq(record.count, 1, "the message stayed the caller's");
}

Test(send, a_post_to_the_dead_is_reported_and_makes_no_dead_letter)
{
    troupe_ref dead = test_dead_actor(the_system);
    troupe_msg *owned = troupe_msg_new(the_system, &test_number, 0);
    uint64_t n = 1;

    cr_assert_eq(
        troupe_post(the_system, dead, &test_number, &n), TROUPE_E_DEAD);
    cr_assert_eq(troupe_post_bytes(the_system, dead, &test_bytes, "abc", 3),
        TROUPE_E_DEAD);
    cr_assert_eq(troupe_post_msg(the_system, dead, owned), TROUPE_E_DEAD);
    cr_assert_eq(
        troupe_post_msg_from(the_system, dead, owned, doer), TROUPE_E_DEAD);
    cr_assert_eq(test_letters.total, 0);
    cr_assert_eq(test_counters(the_system).refused, 4);
    troupe_msg_free(owned);
}

Test(send, none_is_an_invalid_receiver)
{
    troupe_msg *owned = troupe_msg_new(the_system, &test_number, 0);
    uint64_t n = 1;

    cr_assert_eq(troupe_post(the_system, TROUPE_NONE, &test_number, &n),
        TROUPE_E_INVALID);
    cr_assert_eq(
        troupe_post_msg(the_system, TROUPE_NONE, owned), TROUPE_E_INVALID);
    cr_assert_eq(test_letters.total, 0);
    troupe_msg_free(owned);
}

static void
expect_invalid(const troupe_msg_type *type, const void *payload)
{
    uint64_t sent = test_counters(the_system).sent;
    uint64_t refused = test_counters(the_system).refused;

    cr_assert_eq(
        troupe_post(the_system, recorder, type, payload), TROUPE_E_INVALID);
    cr_assert_eq(troupe_last_error().status, TROUPE_E_INVALID);
    cr_assert_str_eq(troupe_last_error().call, "troupe_post");
    cr_assert_eq(test_counters(the_system).sent - sent,
        test_counters(the_system).refused - refused);
    test_run(the_system);
    cr_assert_eq(record.count, 0);
}

Test(send, payload_and_type_must_go_together)
{
    uint64_t n = 1;

    expect_invalid(&test_number, NULL);
    expect_invalid(&test_empty, &n);
    expect_invalid(NULL, &n);
    expect_invalid(NULL, NULL);
}

Test(send, a_type_that_is_wrong_is_refused)
{
    troupe_msg_type type = test_number;
    uint64_t n = 1;

    type.tag = 0;
    expect_invalid(&type, &n);
    type.tag = TROUPE_TAG_RESERVED;
    expect_invalid(&type, &n);
    type.tag = UINT32_MAX;
    expect_invalid(&type, &n);
    type = test_number;
    type.size = 0;
    expect_invalid(&type, &n);
}

struct newer_type {
    troupe_msg_type known;
    uint64_t more;
};

Test(send, a_type_of_a_newer_header_is_fine_while_it_asks_for_nothing)
{
    static struct newer_type type;
    uint64_t n = 17;

    type.known = test_number;
    type.known.size = sizeof type;
    cr_assert_eq(troupe_post(the_system, recorder, &type.known, &n), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(record.entry[0].number, 17);
}

Test(send, bytes_of_another_length_than_the_type_are_refused)
{
    cr_assert_eq(
        troupe_post_bytes(the_system, recorder, &test_number, "abc", 3),
        TROUPE_E_INVALID);
    cr_assert_eq(troupe_post_bytes(the_system, recorder, &test_bytes, NULL, 3),
        TROUPE_E_INVALID);
    cr_assert_eq(troupe_post_bytes(the_system, recorder, &test_bytes, "abc", 0),
        TROUPE_E_INVALID);
    cr_assert_lt(
        troupe_post_bytes(the_system, recorder, &test_bytes, "abc", SIZE_MAX),
        TROUPE_OK);
    cr_assert_eq(troupe_post_bytes(the_system, recorder, &test_bytes, NULL, 0),
        TROUPE_OK);
}

Test(send, a_null_message_is_out_of_memory)
{
    cr_assert_eq(troupe_post_msg(the_system, recorder, NULL), TROUPE_E_NOMEM);
    cr_assert_eq(
        troupe_post_msg_from(the_system, recorder, NULL, doer), TROUPE_E_NOMEM);
}

static troupe_verdict
send_null(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    (void)user;
    cr_assert_eq(troupe_send_msg(self, recorder, NULL), TROUPE_E_NOMEM);
    cr_assert_eq(
        troupe_send_msg_from(self, recorder, NULL, recorder), TROUPE_E_NOMEM);
    troupe_tell_msg(self, recorder, NULL);
    troupe_reply_msg(self, NULL);
    return TROUPE_CONTINUE;
}

Test(send, a_null_message_is_out_of_memory_inside_as_well)
{
    inside(send_null);
    cr_assert_eq(record.count, 0);
}

Test(send, null_self_and_null_system_are_refused)
{
    uint64_t n = 1;

    cr_assert_eq(
        troupe_send(NULL, recorder, &test_number, &n), TROUPE_E_INVALID);
    cr_assert_eq(
        troupe_post(NULL, recorder, &test_number, &n), TROUPE_E_INVALID);
    troupe_tell(NULL, recorder, &test_number, &n);
    troupe_post_tell(NULL, recorder, &test_number, &n);
    troupe_reply(NULL, &test_number, &n);
    troupe_reply_failure(NULL, 1);
    troupe_forward(NULL, recorder);
    cr_assert_eq(troupe_tell_many(NULL, &recorder, 1, &test_number, &n), 0);
    cr_assert_eq(troupe_take(NULL, NULL), TROUPE_E_INVALID);
    cr_assert(troupe_ref_is_none(troupe_sender(NULL)));
    test_run(the_system);
    cr_assert_eq(record.count, 0);
}

Test(send, a_closing_system_takes_no_post)
{
    uint64_t n = 1;
    troupe_msg *owned = troupe_msg_new(the_system, &test_number, 0);

    troupe_system_request_stop(the_system);
    cr_assert_eq(
        troupe_post(the_system, recorder, &test_number, &n), TROUPE_E_CLOSED);
    cr_assert_eq(troupe_post_bytes(the_system, recorder, &test_bytes, "a", 1),
        TROUPE_E_CLOSED);
    cr_assert_eq(troupe_post_msg(the_system, recorder, owned), TROUPE_E_CLOSED);
    cr_assert_eq(test_letters.total, 0);
    troupe_msg_free(owned);
}

Test(send, a_tell_to_a_closing_system_is_a_dead_letter_for_who_was_meant)
{
    uint64_t n = 1;

    troupe_system_request_stop(the_system);
    troupe_post_tell(the_system, recorder, &test_number, &n);
    cr_assert_eq(test_letters.total, 1);
    cr_assert(troupe_ref_equal(test_letters.last.recipient, recorder));
    troupe_post_failure(the_system, recorder, 7);
    cr_assert_eq(test_letters.total, 2);
    cr_assert(troupe_ref_equal(test_letters.last.recipient, recorder));
    cr_assert_eq(test_letters.last.tag, TROUPE_TAG_FAILURE);
    cr_assert_eq(test_letters.by_reason[TROUPE_DEAD_STOPPED], 2);
}

/* --- tell ----------------------------------------------------------------- */

static troupe_verdict
tell_the_dead(troupe_self *self, const troupe_msg *msg, void *user)
{
    uint64_t n = 77;

    (void)msg;
    troupe_tell(self, *(troupe_ref *)user, &test_number, &n);
    return TROUPE_CONTINUE;
}

Test(send, a_tell_to_the_dead_is_a_dead_letter)
{
    troupe_ref dead = test_dead_actor(the_system);

    test_do(the_system, doer, tell_the_dead, &dead);
    cr_assert_eq(test_letters.total, 1);
    cr_assert_eq(test_letters.last.reason, TROUPE_DEAD_STOPPED);
    cr_assert(troupe_ref_equal(test_letters.last.recipient, dead));
    cr_assert(troupe_ref_equal(test_letters.last.sender, doer));
    cr_assert_eq(test_letters.last.number, 77);
    cr_assert_eq(test_letters.last.tag, TEST_TAG_NUMBER);
    cr_assert_eq(test_counters(the_system).dead, 1);
}

Test(send, a_tell_to_none_is_a_dead_letter_without_sender)
{
    troupe_ref none = TROUPE_NONE;

    test_do(the_system, doer, tell_the_dead, &none);
    cr_assert_eq(test_letters.by_reason[TROUPE_DEAD_NO_SENDER], 1);
}

Test(send, a_post_tell_to_the_dead_is_a_dead_letter)
{
    uint64_t n = 3;

    troupe_post_tell(the_system, test_dead_actor(the_system), &test_number, &n);
    troupe_post_tell(the_system, TROUPE_NONE, &test_number, &n);
    cr_assert_eq(test_letters.by_reason[TROUPE_DEAD_STOPPED], 1);
    cr_assert_eq(test_letters.by_reason[TROUPE_DEAD_NO_SENDER], 1);
}

static troupe_verdict
tell_nonsense(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    (void)user;
    troupe_tell(self, recorder, &test_number, NULL);
    troupe_tell(self, recorder, &test_empty, self);
    troupe_tell(self, recorder, NULL, NULL);
    troupe_tell_bytes(self, recorder, &test_number, "abc", 3);
    return TROUPE_CONTINUE;
}

Test(send, a_tell_that_is_invalid_is_a_dead_letter)
{
    inside(tell_nonsense);
    cr_assert_eq(record.count, 0);
    cr_assert_eq(test_letters.total, 4);
    cr_assert_eq(test_letters.by_reason[TROUPE_DEAD_REFUSED], 4);
    cr_assert_not(test_letters.last.has_payload);
}

/* --- reply ---------------------------------------------------------------- */

static troupe_verdict
reply_every_way(troupe_self *self, const troupe_msg *msg, void *user)
{
    uint64_t n = 8;

    (void)user;
    cr_assert(troupe_ref_equal(troupe_sender(self), msg->sender));
    troupe_reply(self, &test_number, &n);
    troupe_reply_bytes(self, &test_bytes, "abcd", 4);
    troupe_reply_msg(self, troupe_msg_new(the_system, &test_pair, 0));
    troupe_reply_failure(self, 5);
    return TROUPE_CONTINUE;
}

struct request {
    troupe_ref to;
    test_do_fn what;
    void *user;
};

struct doing {
    test_do_fn what;
    void *user;
};
TROUPE_MSG_TYPE(do_type, struct doing, TEST_TAG_DO);

/* Has `recorder` appear as the sender of a message that does something. */
static void
do_as_recorder(test_do_fn what, void *user)
{
    troupe_msg *msg = troupe_msg_new(the_system, &do_type, 0);

    *troupe_payload_mut(msg, struct doing) = (struct doing){what, user};
    cr_assert_eq(
        troupe_post_msg_from(the_system, doer, msg, recorder), TROUPE_OK);
    test_run(the_system);
}

Test(send, a_reply_reaches_the_sender)
{
    do_as_recorder(reply_every_way, NULL);
    cr_assert_eq(record.count, 4);
    cr_assert_eq(record.entry[0].tag, TEST_TAG_NUMBER);
    cr_assert_eq(record.entry[0].number, 8);
    cr_assert_eq(record.entry[1].tag, TEST_TAG_BYTES);
    cr_assert_eq(record.entry[1].bytes, 4);
    cr_assert_eq(record.entry[2].tag, TEST_TAG_PAIR);
    cr_assert_eq(record.entry[3].tag, TROUPE_TAG_FAILURE);
    for (uint32_t i = 0; i < 4; i++) {
        cr_assert(troupe_ref_equal(record.entry[i].sender, doer));
    }
}

Test(send, a_reply_to_nobody_is_a_dead_letter)
{
    inside(reply_every_way);
    cr_assert_eq(test_letters.total, 4);
    cr_assert_eq(test_letters.by_reason[TROUPE_DEAD_NO_SENDER], 4);
}

Test(send, a_reply_to_a_sender_that_has_stopped_is_a_dead_letter)
{
    cr_assert_eq(troupe_post_stop(the_system, recorder), TROUPE_OK);
    test_run(the_system);
    do_as_recorder(reply_every_way, NULL);
    cr_assert_eq(test_letters.total, 4);
    cr_assert_eq(test_letters.by_reason[TROUPE_DEAD_STOPPED], 4);
    cr_assert(troupe_ref_equal(test_letters.last.recipient, recorder));
}

static troupe_failure seen_failure;

static troupe_verdict
read_failure(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)self;
    (void)state;
    if (troupe_msg_tag(msg) == TROUPE_TAG_FAILURE) {
        seen_failure = *troupe_payload(msg, troupe_failure);
    }
    return TROUPE_CONTINUE;
}

Test(send, a_failure_has_a_status_and_a_code)
{
    static const troupe_actor_type type = {
        .size = sizeof type, .name = "t", .receive = read_failure};
    troupe_ref ref;

    cr_assert_eq(troupe_system_spawn(the_system, &type, NULL, &ref), TROUPE_OK);
    troupe_post_failure(the_system, ref, -17);
    test_run(the_system);
    cr_assert_eq(seen_failure.status, TROUPE_E_FAILED);
    cr_assert_eq(seen_failure.code, -17);
}

static troupe_status
no_message_in_start(troupe_self *self, void *state, const void *arg)
{
    troupe_msg *taken = NULL;

    (void)state;
    (void)arg;
    cr_assert(troupe_ref_is_none(troupe_sender(self)));
    cr_assert_eq(troupe_take(self, &taken), TROUPE_E_STATE);
    troupe_forward(self, recorder);
    return TROUPE_OK;
}

static void
no_message_in_stop(troupe_self *self, void *state, const troupe_exit *why)
{
    troupe_msg *taken = NULL;

    (void)state;
    (void)why;
    cr_assert(troupe_ref_is_none(troupe_sender(self)));
    cr_assert_eq(troupe_take(self, &taken), TROUPE_E_STATE);
    troupe_forward(self, recorder);
}

Test(send, in_start_and_stop_there_is_no_current_message)
{
    static const troupe_actor_type type = {.size = sizeof type,
        .name = "t",
        .receive = test_ignore,
        .start = no_message_in_start,
        .stop = no_message_in_stop};
    troupe_ref ref;

    cr_assert_eq(troupe_system_spawn(the_system, &type, NULL, &ref), TROUPE_OK);
    test_post_number(the_system, ref, 1);
    cr_assert_eq(troupe_post_stop(the_system, ref), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(record.count, 0);
    cr_assert_eq(test_counters(the_system).stopped, 1);
}

static void
send_in_stop(troupe_self *self, void *state, const troupe_exit *why)
{
    uint64_t n = 4;

    (void)state;
    (void)why;
    cr_assert_eq(troupe_send(self, recorder, &test_number, &n), TROUPE_OK);
}

Test(send, stop_may_send)
{
    troupe_ref ref = test_spawn_with_stop(the_system, NULL, send_in_stop);

    cr_assert_eq(troupe_post_stop_now(the_system, ref), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(record.count, 1);
    cr_assert(troupe_ref_equal(record.entry[0].sender, ref));
}

/* --- forward -------------------------------------------------------------- */

static troupe_verdict
forward_it(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    troupe_forward(self, *(troupe_ref *)user);
    return TROUPE_CONTINUE;
}

Test(send, forward_keeps_the_sender)
{
    troupe_ref asker = test_spawn_doer(the_system, NULL);
    troupe_msg *msg = troupe_msg_new(the_system, &do_type, 0);

    *troupe_payload_mut(msg, struct doing) =
        (struct doing){forward_it, &recorder};
    cr_assert_eq(troupe_post_msg_from(the_system, doer, msg, asker), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(record.count, 1);
    cr_assert_eq(record.entry[0].tag, TEST_TAG_DO);
    cr_assert(troupe_ref_equal(record.entry[0].sender, asker));
}

Test(send, a_forward_to_the_dead_is_a_dead_letter)
{
    troupe_ref dead = test_dead_actor(the_system);
    troupe_ref none = TROUPE_NONE;

    test_do(the_system, doer, forward_it, &dead);
    cr_assert_eq(test_letters.by_reason[TROUPE_DEAD_STOPPED], 1);
    test_do(the_system, doer, forward_it, &none);
    cr_assert_eq(test_letters.by_reason[TROUPE_DEAD_NO_SENDER], 1);
    cr_assert_eq(test_letters.total, 2);
}

static troupe_verdict
forward_twice(troupe_self *self, const troupe_msg *msg, void *user)
{
    troupe_msg *taken = NULL;

    (void)msg;
    (void)user;
    troupe_forward(self, recorder);
    troupe_forward(self, recorder);
    cr_assert_eq(troupe_take(self, &taken), TROUPE_E_STATE);
    cr_assert_null(taken);
    return TROUPE_CONTINUE;
}

Test(send, what_was_forwarded_cannot_be_passed_on_again)
{
    inside(forward_twice);
    cr_assert_eq(record.count, 1);
}

static troupe_verdict
send_after_forward(troupe_self *self, const troupe_msg *msg, void *user)
{
    const void *payload = msg->payload;
    size_t bytes = msg->bytes;

    (void)user;
    troupe_forward(self, recorder);
    cr_assert_eq(troupe_send_bytes(self, recorder, &test_bytes, payload, bytes),
        TROUPE_E_STATE);
    return TROUPE_CONTINUE;
}

Test(send, the_payload_of_what_was_forwarded_cannot_be_sent)
{
    inside(send_after_forward);
    cr_assert_eq(record.count, 1);
}

/* Two types with a flag for one box, and one of any length. */
static const troupe_msg_type request = {sizeof(troupe_msg_type), "request", 64,
    TEST_TAG_OTHER, TROUPE_MSG_SHARED, NULL};
static const troupe_msg_type response = {sizeof(troupe_msg_type), "response",
    64, TEST_TAG_OTHER + 1, TROUPE_MSG_SHARED, NULL};
static const troupe_msg_type any_bytes = {sizeof(troupe_msg_type), "bytes", 0,
    TEST_TAG_BYTES, TROUPE_MSG_SHARED, NULL};

static troupe_verdict
answer_in_place(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    if (troupe_msg_is(msg, &request)) {
        cr_assert_eq(
            troupe_send(self, recorder, &response, msg->payload), TROUPE_OK);
        cr_assert_eq(
            troupe_tell_many(self, &recorder, 1, &response, msg->payload), 1);
    } else {
        cr_assert_eq(
            troupe_send_bytes(self, recorder, &any_bytes, msg->payload, 20),
            TROUPE_OK);
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type answerer = {.size = sizeof(troupe_actor_type),
    .name = "answerer",
    .receive = answer_in_place};

Test(send, the_current_payload_arrives_as_the_type_and_length_it_was_sent_as)
{
    unsigned char payload[64] = {1};
    troupe_ref ref;

    cr_assert_eq(
        troupe_system_spawn(the_system, &answerer, NULL, &ref), TROUPE_OK);
    cr_assert_eq(troupe_post(the_system, ref, &request, payload), TROUPE_OK);
    cr_assert_eq(
        troupe_post_bytes(the_system, ref, &any_bytes, payload, 64), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(record.count, 3);
    cr_assert_eq(record.entry[0].tag, response.tag);
    cr_assert_eq(record.entry[1].tag, response.tag);
    cr_assert_eq(record.entry[2].bytes, 20);
}

static const void *seen_payload[8];
static uint32_t payloads;
static troupe_ref next_in_line;

static troupe_verdict
pass_on(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    seen_payload[payloads++] = msg->payload;
    if (!troupe_ref_is_none(next_in_line)) {
        troupe_ref to = next_in_line;

        next_in_line = TROUPE_NONE;
        troupe_forward(self, to);
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type passer = {.size = sizeof(troupe_actor_type),
    .name = "passer",
    .receive = pass_on};

Test(send, forward_makes_no_copy)
{
    static const unsigned char bytes[5000];
    troupe_ref first;

    cr_assert_eq(
        troupe_system_spawn(the_system, &passer, NULL, &first), TROUPE_OK);
    cr_assert_eq(troupe_system_spawn(the_system, &passer, NULL, &next_in_line),
        TROUPE_OK);
    cr_assert_eq(
        troupe_post_bytes(the_system, first, &test_bytes, bytes, sizeof bytes),
        TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(payloads, 2);
    cr_assert_eq(seen_payload[0], seen_payload[1]);
}

/* --- take ----------------------------------------------------------------- */

static troupe_msg *kept[100];
static uint32_t kept_count;

static troupe_verdict
take_it(troupe_self *self, void *state, const troupe_msg *msg)
{
    troupe_msg *again = NULL;
    uint64_t expected = *(const uint64_t *)msg->payload;

    (void)state;
    cr_assert_eq(troupe_take(self, &kept[kept_count]), TROUPE_OK);
    cr_assert_eq(*(const uint64_t *)kept[kept_count]->payload, expected);
    cr_assert_eq(troupe_take(self, &again), TROUPE_E_STATE);
    cr_assert_null(again);
    kept_count++;
    return TROUPE_CONTINUE;
}

static const troupe_actor_type taker = {.size = sizeof(troupe_actor_type),
    .name = "taker",
    .receive = take_it};

Test(send, what_was_taken_stays_as_it_was)
{
    static unsigned char large[5000];
    troupe_ref ref;

    cr_assert_eq(
        troupe_system_spawn(the_system, &taker, NULL, &ref), TROUPE_OK);
    for (uint64_t i = 0; i < 50; i++) {
        troupe_msg *msg = troupe_msg_new(the_system, &test_number, 0);

        *troupe_payload_mut(msg, uint64_t) = i;
        cr_assert_eq(
            troupe_post_msg_from(the_system, ref, msg, doer), TROUPE_OK);
        memcpy(large, &i, sizeof i);
        cr_assert_eq(troupe_post_bytes(
                         the_system, ref, &test_bytes, large, sizeof large),
            TROUPE_OK);
    }
    test_run(the_system);
    cr_assert_eq(kept_count, 100);
    for (uint32_t i = 0; i < 100; i++) {
        uint64_t n = *(const uint64_t *)kept[i]->payload;

        cr_assert_eq(n, i / 2);
        cr_assert_eq(kept[i]->bytes, i % 2 == 0 ? 8 : sizeof large);
        cr_assert(
            troupe_ref_equal(kept[i]->sender, i % 2 == 0 ? doer : TROUPE_NONE));
        cr_assert_eq(kept[i]->type, i % 2 == 0 ? &test_number : &test_bytes);
    }
    for (uint32_t i = 0; i < 100; i++) {
        cr_assert_eq(troupe_post_msg(the_system, recorder, kept[i]), TROUPE_OK);
    }
    test_run(the_system);
    cr_assert_eq(record.count, 100);
    cr_assert_eq(record.entry[99].bytes, sizeof large);
}

Test(send, a_small_one_can_be_taken)
{
    troupe_ref ref;

    cr_assert_eq(
        troupe_system_spawn(the_system, &taker, NULL, &ref), TROUPE_OK);
    test_post_number(the_system, ref, 12345);
    test_run(the_system);
    cr_assert_eq(kept_count, 1);
    cr_assert_eq(*troupe_payload(kept[0], uint64_t), 12345);
    troupe_msg_free(kept[0]);
}

static troupe_verdict
take_and_send(troupe_self *self, const troupe_msg *msg, void *user)
{
    troupe_msg *mine;

    (void)msg;
    (void)user;
    cr_assert_eq(troupe_take(self, &mine), TROUPE_OK);
    cr_assert_eq(troupe_send_msg(self, recorder, mine), TROUPE_OK);
    return TROUPE_CONTINUE;
}

Test(send, what_was_taken_can_be_sent)
{
    inside(take_and_send);
    cr_assert_eq(record.count, 1);
    cr_assert_eq(record.entry[0].tag, TEST_TAG_DO);
    cr_assert(troupe_ref_equal(record.entry[0].sender, doer));
}

static troupe_verdict
take_and_end(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    cr_assert_eq(troupe_take(self, &kept[kept_count++]), TROUPE_OK);
    return *(troupe_verdict *)user;
}

Test(send, what_was_taken_is_the_takers_whatever_the_verdict)
{
    static const troupe_verdict verdicts[] = {
        TROUPE_UNHANDLED, TROUPE_DONE, TROUPE_FAILED};

    for (int i = 0; i < 3; i++) {
        troupe_verdict verdict = verdicts[i];

        test_do(the_system, test_spawn_doer(the_system, NULL), take_and_end,
            &verdict);
    }
    cr_assert_eq(kept_count, 3);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(troupe_msg_tag(kept[i]), TEST_TAG_DO);
        troupe_msg_free(kept[i]);
    }
}

/* --- many ----------------------------------------------------------------- */

static troupe_ref many[8];

static void
spawn_passers(void)
{
    next_in_line = TROUPE_NONE;
    payloads = 0;
    for (int i = 0; i < 8; i++) {
        cr_assert_eq(troupe_system_spawn(the_system, &passer, NULL, &many[i]),
            TROUPE_OK);
    }
}

TROUPE_MSG_TYPE_WITH(
    shared_bytes, struct test_large, 60, TROUPE_MSG_SHARED, NULL);
TROUPE_MSG_TYPE_WITH(shared_number, uint64_t, 61, TROUPE_MSG_SHARED, NULL);
TROUPE_MSG_TYPE(large_bytes, struct test_large, 62);

static troupe_verdict
tell_many(troupe_self *self, const troupe_msg *msg, void *user)
{
    static const struct test_large large;

    (void)msg;
    cr_assert_eq(troupe_tell_many(
                     self, many, 8, *(const troupe_msg_type **)user, &large),
        8);
    return TROUPE_CONTINUE;
}

Test(send, a_shared_payload_is_stored_once)
{
    const troupe_msg_type *type = &shared_bytes;

    spawn_passers();
    test_do(the_system, doer, tell_many, &type);
    cr_assert_eq(payloads, 8);
    for (int i = 1; i < 8; i++) {
        cr_assert_eq(seen_payload[i], seen_payload[0]);
    }
}

Test(send, a_payload_that_is_not_shared_is_copied)
{
    const troupe_msg_type *type = &large_bytes;

    spawn_passers();
    test_do(the_system, doer, tell_many, &type);
    cr_assert_eq(payloads, 8);
}

static troupe_verdict
spread(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    seen_payload[7] = msg->payload;
    cr_assert_eq(troupe_tell_many(self, many, 7, msg->type, msg->payload), 7);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type spreader = {.size = sizeof(troupe_actor_type),
    .name = "spreader",
    .receive = spread};

Test(send, a_shared_payload_of_the_current_message_is_passed_on_without_a_copy)
{
    static const struct test_large large;
    troupe_ref ref;

    spawn_passers();
    cr_assert_eq(
        troupe_system_spawn(the_system, &spreader, NULL, &ref), TROUPE_OK);
    cr_assert_eq(
        troupe_post(the_system, ref, &shared_bytes, &large), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(payloads, 7);
    for (int i = 0; i < 7; i++) {
        cr_assert_eq(seen_payload[i], seen_payload[7]);
    }
}

static size_t taken_by;

static troupe_verdict
tell_some(troupe_self *self, const troupe_msg *msg, void *user)
{
    uint64_t n = 1;

    (void)msg;
    taken_by =
        troupe_tell_many(self, many, 8, *(const troupe_msg_type **)user, &n);
    return TROUPE_CONTINUE;
}

static void
expect_some(const troupe_msg_type *type)
{
    spawn_passers();
    cr_assert_eq(troupe_post_stop(the_system, many[2]), TROUPE_OK);
    cr_assert_eq(troupe_post_stop(the_system, many[5]), TROUPE_OK);
    many[7] = TROUPE_NONE;
    test_run(the_system);
    test_do(the_system, doer, tell_some, &type);
    cr_assert_eq(taken_by, 5);
    cr_assert_eq(payloads, 5);
    cr_assert_eq(test_letters.by_reason[TROUPE_DEAD_STOPPED], 2);
    cr_assert_eq(test_letters.by_reason[TROUPE_DEAD_NO_SENDER], 1);
}

Test(send, tell_many_says_how_many_took_it)
{
    expect_some(&test_number);
}

Test(send, tell_many_of_a_shared_payload_says_how_many_took_it)
{
    expect_some(&shared_number);
}

static troupe_verdict
tell_nobody(troupe_self *self, const troupe_msg *msg, void *user)
{
    uint64_t n = 1;

    (void)msg;
    (void)user;
    cr_assert_eq(troupe_tell_many(self, NULL, 0, &test_number, &n), 0);
    cr_assert_eq(troupe_tell_many(self, many, 0, &shared_number, &n), 0);
    cr_assert_eq(troupe_tell_many(self, NULL, 3, &test_number, &n), 0);
    cr_assert_eq(troupe_tell_many(self, many, 8, &test_number, NULL), 0);
    cr_assert_eq(troupe_tell_many(self, many, 8, NULL, &n), 0);
    return TROUPE_CONTINUE;
}

Test(send, tell_many_to_nobody_and_with_nonsense_is_zero)
{
    spawn_passers();
    inside(tell_nobody);
    cr_assert_eq(payloads, 0);
}

/* --- order and books ------------------------------------------------------ */

static troupe_verdict
send_hundred(troupe_self *self, const troupe_msg *msg, void *user)
{
    uint64_t from = *(uint64_t *)user;

    (void)msg;
    for (uint64_t i = 0; i < 100; i++) {
        uint64_t n = from + i;

        /* Inline and boxed ones alike. */
        if (i % 3 == 0) {
            unsigned char bytes[64] = {0};

            memcpy(bytes, &n, sizeof n);
            cr_assert_eq(troupe_send_bytes(
                             self, recorder, &test_bytes, bytes, sizeof bytes),
                TROUPE_OK);
        } else {
            troupe_tell(self, recorder, &test_number, &n);
        }
    }
    return TROUPE_CONTINUE;
}

Test(send, messages_of_one_sender_arrive_in_order)
{
    uint64_t first = 0;
    uint64_t second = 1000;
    uint64_t next[2] = {0, 1000};

    test_do_later(the_system, doer, send_hundred, &first);
    test_do_later(
        the_system, test_spawn_doer(the_system, NULL), send_hundred, &second);
    test_run(the_system);
    cr_assert_eq(record.count, 200);
    for (uint32_t i = 0; i < 200; i++) {
        uint64_t n = record.entry[i].number;

        cr_assert_eq(n, next[n / 1000]);
        next[n / 1000]++;
    }
}

Test(send, small_messages_need_no_memory_in_the_steady_state)
{
    uint64_t requests;

    for (int i = 0; i < 10; i++) {
        test_post_number(the_system, recorder, 1);
        test_run(the_system);
    }
    requests = test_memory.requests;
    for (int i = 0; i < 1000; i++) {
        test_post_number(the_system, recorder, 1);
        test_run(the_system);
    }
    cr_assert_eq(test_memory.requests, requests);
}
