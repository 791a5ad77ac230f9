/* SPDX-License-Identifier: MIT */
#include "support/system.h"

#include <troupe/port.h>
#include <troupe/testkit.h>

#include <criterion/criterion.h>

#include <stdatomic.h>
#include <string.h>

/*
 * What a payload owns is dropped exactly once, in every way a message can end.
 * Each test does it for a payload in the slot and for one in a box, and counts
 * at the end of the system.
 */

static troupe_system *the_system;
static _Atomic uint64_t drops;
static uint64_t made;

static void
setup(void)
{
    the_system = test_open_driven(0);
}

/* Everything that was made has been dropped, no more and no less. */
static void
teardown(void)
{
    test_close(the_system);
    test_require(made > 0);
    test_require(drops == made);
}

TestSuite(drop, .init = setup, .fini = teardown);

static const troupe_msg_type *const owning[] = {&test_owned, &test_large};

static struct test_large
make(void)
{
    struct test_large payload;

    memset(&payload, 0, sizeof payload);
    payload.owned.drops = &drops;
    payload.owned.number = ++made;
    return payload;
}

static troupe_status
post_one(troupe_ref to, const troupe_msg_type *type)
{
    struct test_large payload = make();

    return troupe_post(the_system, to, type, &payload);
}

static troupe_msg *
new_one(const troupe_msg_type *type)
{
    struct test_large payload = make();
    troupe_msg *msg = troupe_msg_new(the_system, type, 0);

    cr_assert_not_null(msg);
    memcpy(msg->payload, &payload, type->bytes);
    return msg;
}

/* --- an actor that does something with each message it gets --------------- */

typedef troupe_verdict (*handle_fn)(troupe_self *self, const troupe_msg *msg);

static troupe_verdict
handle(troupe_self *self, void *state, const troupe_msg *msg)
{
    handle_fn fn;

    memcpy(&fn, state, sizeof fn);
    return fn(self, msg);
}

static troupe_status
start(troupe_self *self, void *state, const void *arg)
{
    (void)self;
    memcpy(state, arg, sizeof(handle_fn));
    return TROUPE_OK;
}

static troupe_ref
spawn(handle_fn fn)
{
    static const troupe_actor_type type = {.size = sizeof type,
        .name = "handler",
        .state_bytes = sizeof(handle_fn),
        .receive = handle,
        .start = start};
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    troupe_ref ref;

    options.arg = &fn;
    options.arg_bytes = sizeof fn;
    cr_assert_eq(
        troupe_system_spawn(the_system, &type, &options, &ref), TROUPE_OK);
    return ref;
}

/* Posts one of each kind to an actor with this handler and runs. */
static void
each(handle_fn fn)
{
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(post_one(spawn(fn), owning[i]), TROUPE_OK);
        test_run(the_system);
    }
}

static troupe_ref target;

static troupe_verdict
just_handle(troupe_self *self, const troupe_msg *msg)
{
    (void)self;
    (void)msg;
    return TROUPE_CONTINUE;
}

static troupe_verdict
done(troupe_self *self, const troupe_msg *msg)
{
    (void)self;
    (void)msg;
    return TROUPE_DONE;
}

static troupe_verdict
fail(troupe_self *self, const troupe_msg *msg)
{
    (void)self;
    (void)msg;
    return TROUPE_FAILED;
}

static troupe_verdict
unhandled(troupe_self *self, const troupe_msg *msg)
{
    (void)self;
    (void)msg;
    return TROUPE_UNHANDLED;
}

Test(drop, when_it_was_handled)
{
    each(just_handle);
    cr_assert_eq(drops, 2, "as soon as it was");
}

Test(drop, when_the_behaviour_says_done)
{
    each(done);
}

Test(drop, when_the_behaviour_says_failed)
{
    each(fail);
}

Test(drop, when_the_behaviour_says_unhandled)
{
    each(unhandled);
    cr_assert_eq(test_letters.total, 2);
    cr_assert(test_letters.last.has_payload);
    cr_assert_eq(test_letters.last.number, (uint64_t)(uintptr_t)&drops);
}

Test(drop, when_an_owned_message_was_handled)
{
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(
            troupe_post_msg(the_system, spawn(just_handle), new_one(owning[i])),
            TROUPE_OK);
    }
    test_run(the_system);
    cr_assert_eq(drops, 2);
}

Test(drop, when_an_owned_message_was_freed)
{
    for (int i = 0; i < 2; i++) {
        troupe_msg_free(new_one(owning[i]));
    }
    cr_assert_eq(drops, 2);
}

/* --- stops ---------------------------------------------------------------- */

Test(drop, when_it_was_queued_behind_done)
{
    for (int i = 0; i < 2; i++) {
        troupe_ref ref = spawn(done);

        for (int k = 0; k < 100; k++) {
            cr_assert_eq(post_one(ref, owning[i]), TROUPE_OK);
        }
        test_run(the_system);
    }
    cr_assert_eq(drops, 200);
    cr_assert_eq(test_letters.total, 198);
}

Test(drop, when_it_was_queued_at_a_stop_now)
{
    for (int i = 0; i < 2; i++) {
        troupe_ref ref = spawn(just_handle);

        test_run(the_system);
        for (int k = 0; k < 100; k++) {
            cr_assert_eq(post_one(ref, owning[i]), TROUPE_OK);
        }
        cr_assert_eq(troupe_post_stop_now(the_system, ref), TROUPE_OK);
        test_run(the_system);
    }
    cr_assert_eq(drops, 200);
}

Test(drop, when_it_was_queued_behind_a_stop)
{
    for (int i = 0; i < 2; i++) {
        troupe_ref ref = spawn(just_handle);

        cr_assert_eq(post_one(ref, owning[i]), TROUPE_OK);
        cr_assert_eq(troupe_post_stop(the_system, ref), TROUPE_OK);
        cr_assert_eq(post_one(ref, owning[i]), TROUPE_OK);
        test_run(the_system);
    }
    cr_assert_eq(test_letters.total, 2);
}

Test(drop, when_it_was_queued_at_the_end_of_the_system)
{
    for (int i = 0; i < 2; i++) {
        troupe_ref ref = spawn(done);

        for (int k = 0; k < 10; k++) {
            cr_assert_eq(post_one(ref, owning[i]), TROUPE_OK);
        }
    }
    /* test_close() stops it with all of that in the mailboxes. */
}

static troupe_status
refuse_to_start(troupe_self *self, void *state, const void *arg)
{
    (void)self;
    (void)state;
    (void)arg;
    return TROUPE_E_FAILED;
}

static troupe_verdict
never(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)self;
    (void)state;
    (void)msg;
    test_fail(__FILE__, __LINE__, "must not be called");
}

Test(drop, when_the_actor_could_not_start)
{
    static const troupe_actor_type type = {.size = sizeof type,
        .name = "stillborn",
        .receive = never,
        .start = refuse_to_start};

    for (int i = 0; i < 2; i++) {
        troupe_ref ref;

        cr_assert_eq(
            troupe_system_spawn(the_system, &type, NULL, &ref), TROUPE_OK);
        cr_assert_eq(post_one(ref, owning[i]), TROUPE_OK);
        cr_assert_eq(post_one(ref, owning[i]), TROUPE_OK);
        test_run(the_system);
    }
    cr_assert_eq(drops, 4);
}

/* --- refusals ------------------------------------------------------------- */

static troupe_verdict
send_and_keep(troupe_self *self, const troupe_msg *msg)
{
    for (int i = 0; i < 2; i++) {
        struct test_large payload = make();

        cr_assert_eq(
            troupe_send(self, target, owning[i], &payload), TROUPE_E_DEAD);
        cr_assert_eq(troupe_send_bytes(
                         self, target, owning[i], &payload, owning[i]->bytes),
            TROUPE_E_DEAD);
        test_drop(&payload, sizeof payload); /* it is still ours */
    }
    (void)msg;
    return TROUPE_CONTINUE;
}

Test(drop, is_the_senders_business_when_a_send_is_refused)
{
    target = test_dead_actor(the_system);
    each(send_and_keep);
}

Test(drop, is_the_senders_business_when_a_post_is_refused)
{
    target = test_dead_actor(the_system);
    for (int i = 0; i < 2; i++) {
        struct test_large payload = make();
        troupe_msg *msg = new_one(owning[i]);

        cr_assert_eq(troupe_post(the_system, target, owning[i], &payload),
            TROUPE_E_DEAD);
        test_drop(&payload, sizeof payload);
        cr_assert_eq(troupe_post_msg(the_system, target, msg), TROUPE_E_DEAD);
        troupe_msg_free(msg);
    }
}

static troupe_verdict
tell_each_way(troupe_self *self, const troupe_msg *msg)
{
    (void)msg;
    for (int i = 0; i < 2; i++) {
        struct test_large payload = make();

        troupe_tell(self, target, owning[i], &payload);
        payload = make();
        troupe_tell_bytes(self, target, owning[i], &payload, owning[i]->bytes);
        troupe_tell_msg(self, target, new_one(owning[i]));
    }
    return TROUPE_CONTINUE;
}

Test(drop, when_it_was_told_to_the_living)
{
    target = spawn(just_handle);
    each(tell_each_way);
}

Test(drop, when_it_was_told_to_the_dead)
{
    target = test_dead_actor(the_system);
    each(tell_each_way);
    cr_assert_eq(test_letters.total, 12);
}

Test(drop, when_it_was_told_to_nobody)
{
    target = TROUPE_NONE;
    each(tell_each_way);
    cr_assert_eq(test_letters.by_reason[TROUPE_DEAD_NO_SENDER], 12);
}

static troupe_verdict
reply_each_way(troupe_self *self, const troupe_msg *msg)
{
    (void)msg;
    for (int i = 0; i < 2; i++) {
        struct test_large payload = make();

        troupe_reply(self, owning[i], &payload);
        payload = make();
        troupe_reply_bytes(self, owning[i], &payload, owning[i]->bytes);
        troupe_reply_msg(self, new_one(owning[i]));
    }
    return TROUPE_CONTINUE;
}

Test(drop, when_it_was_a_reply_to_nobody)
{
    each(reply_each_way);
}

Test(drop, when_it_was_a_reply_to_somebody)
{
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(troupe_post_msg_from(the_system, spawn(reply_each_way),
                         new_one(owning[i]), spawn(just_handle)),
            TROUPE_OK);
        test_run(the_system);
    }
}

Test(drop, when_it_was_posted_as_a_tell)
{
    target = test_dead_actor(the_system);
    for (int i = 0; i < 2; i++) {
        struct test_large payload = make();

        troupe_post_tell(the_system, target, owning[i], &payload);
        payload = make();
        troupe_post_tell(the_system, spawn(just_handle), owning[i], &payload);
        payload = make();
        troupe_post_tell(the_system, TROUPE_NONE, owning[i], &payload);
    }
    test_run(the_system);
}

/* --- passing on ----------------------------------------------------------- */

static troupe_verdict
forward(troupe_self *self, const troupe_msg *msg)
{
    (void)msg;
    troupe_forward(self, target);
    return TROUPE_CONTINUE;
}

Test(drop, when_it_was_forwarded_and_handled)
{
    target = spawn(just_handle);
    each(forward);
    cr_assert_eq(drops, 2);
}

Test(drop, when_it_was_forwarded_to_the_dead)
{
    target = test_dead_actor(the_system);
    each(forward);
    cr_assert_eq(drops, 2);
    cr_assert_eq(test_letters.total, 2);
    cr_assert(test_letters.last.has_payload);
}

Test(drop, when_it_was_forwarded_to_nobody)
{
    target = TROUPE_NONE;
    each(forward);
}

static troupe_verdict
send_current(troupe_self *self, const troupe_msg *msg)
{
    cr_assert_eq(troupe_send(self, target, msg->type, msg->payload), TROUPE_OK);
    return TROUPE_CONTINUE;
}

Test(drop, when_the_payload_of_the_current_message_was_sent_on)
{
    target = spawn(just_handle);
    each(send_current);
    cr_assert_eq(drops, 2);
}

static troupe_verdict
send_current_in_vain(troupe_self *self, const troupe_msg *msg)
{
    cr_assert_eq(
        troupe_send(self, target, msg->type, msg->payload), TROUPE_E_DEAD);
    return TROUPE_CONTINUE;
}

Test(drop, when_the_payload_of_the_current_message_could_not_be_sent_on)
{
    target = test_dead_actor(the_system);
    each(send_current_in_vain);
    cr_assert_eq(drops, 2);
}

static troupe_verdict
tell_current(troupe_self *self, const troupe_msg *msg)
{
    troupe_tell(self, target, msg->type, msg->payload);
    return TROUPE_CONTINUE;
}

Test(drop, when_the_payload_of_the_current_message_was_told)
{
    target = spawn(just_handle);
    each(tell_current);
    target = test_dead_actor(the_system);
    each(tell_current);
    target = TROUPE_NONE;
    each(tell_current);
    cr_assert_eq(drops, 6);
}

static troupe_verdict
tell_current_and_refuse(troupe_self *self, const troupe_msg *msg)
{
    troupe_tell(self, target, msg->type, msg->payload);
    return TROUPE_UNHANDLED;
}

Test(drop, when_the_payload_was_told_and_the_verdict_is_unhandled)
{
    target = spawn(just_handle);
    each(tell_current_and_refuse);
    target = test_dead_actor(the_system);
    each(tell_current_and_refuse);
}

static troupe_verdict
tell_current_and_end(troupe_self *self, const troupe_msg *msg)
{
    troupe_tell(self, target, msg->type, msg->payload);
    return TROUPE_DONE;
}

Test(drop, when_the_payload_was_told_and_the_verdict_is_done)
{
    target = spawn(just_handle);
    each(tell_current_and_end);
}

static troupe_verdict
send_current_twice(troupe_self *self, const troupe_msg *msg)
{
    (void)!troupe_send(self, target, msg->type, msg->payload);
    (void)!troupe_send(self, target, msg->type, msg->payload);
    troupe_tell(self, target, msg->type, msg->payload);
    troupe_reply(self, msg->type, msg->payload);
    return TROUPE_CONTINUE;
}

Test(drop, when_the_payload_of_the_current_message_was_sent_on_twice)
{
    target = spawn(just_handle);
    each(send_current_twice);
    cr_assert_eq(drops, 2, "never owned twice");
}

static troupe_verdict
forward_after_sending(troupe_self *self, const troupe_msg *msg)
{
    (void)!troupe_send(self, target, msg->type, msg->payload);
    troupe_forward(self, target);
    return TROUPE_CONTINUE;
}

Test(drop, when_a_message_was_forwarded_whose_payload_has_gone)
{
    target = spawn(just_handle);
    each(forward_after_sending);
    cr_assert_eq(drops, 2, "never owned twice");
}

static troupe_verdict
reply_with_current(troupe_self *self, const troupe_msg *msg)
{
    troupe_reply(self, msg->type, msg->payload);
    return TROUPE_CONTINUE;
}

Test(drop, when_the_payload_went_back_as_a_reply)
{
    each(reply_with_current);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(troupe_post_msg_from(the_system, spawn(reply_with_current),
                         new_one(owning[i]), spawn(just_handle)),
            TROUPE_OK);
        test_run(the_system);
    }
    cr_assert_eq(drops, 4);
}

static troupe_verdict
move_out(troupe_self *self, const troupe_msg *msg)
{
    struct test_owned *owned = troupe_payload_mut(msg, struct test_owned);
    struct test_owned mine;
    static _Atomic uint64_t nothing;

    (void)self;
    if (owned == NULL) {
        owned = &troupe_payload_mut(msg, struct test_large)->owned;
    }
    /* Takes it out and leaves something that is harmless to drop. */
    mine = *owned;
    owned->drops = &nothing;
    test_drop(&mine, sizeof mine);
    return TROUPE_CONTINUE;
}

Test(drop, of_what_was_moved_out_of_the_payload_is_the_receivers_business)
{
    each(move_out);
}

/* --- taking --------------------------------------------------------------- */

static troupe_verdict
take_and_free(troupe_self *self, const troupe_msg *msg)
{
    troupe_msg *mine;

    (void)msg;
    cr_assert_eq(troupe_take(self, &mine), TROUPE_OK);
    troupe_msg_free(mine);
    return TROUPE_CONTINUE;
}

Test(drop, when_it_was_taken_and_freed)
{
    each(take_and_free);
    cr_assert_eq(drops, 2);
}

static troupe_verdict
take_and_send(troupe_self *self, const troupe_msg *msg)
{
    troupe_msg *mine;

    (void)msg;
    cr_assert_eq(troupe_take(self, &mine), TROUPE_OK);
    troupe_tell_msg(self, target, mine);
    return TROUPE_UNHANDLED;
}

Test(drop, when_it_was_taken_and_sent)
{
    target = spawn(just_handle);
    each(take_and_send);
    target = test_dead_actor(the_system);
    each(take_and_send);
    cr_assert_eq(drops, 4);
}

/* --- many ----------------------------------------------------------------- */

static troupe_ref many[6];

static troupe_verdict
tell_shared(troupe_self *self, const troupe_msg *msg)
{
    struct test_large payload = make();

    (void)msg;
    (void)troupe_tell_many(self, many, 6, &test_shared, &payload);
    return TROUPE_CONTINUE;
}

Test(drop, of_a_shared_payload_happens_once_after_the_last_reader)
{
    for (int i = 0; i < 6; i++) {
        many[i] = spawn(just_handle);
    }
    each(tell_shared);
    cr_assert_eq(drops, 4);
}

Test(drop, of_a_shared_payload_happens_once_when_some_are_dead)
{
    for (int i = 0; i < 6; i++) {
        many[i] = i % 2 == 0 ? spawn(just_handle)
                  : i == 3   ? TROUPE_NONE
                             : test_dead_actor(the_system);
    }
    each(tell_shared);
    cr_assert_eq(drops, 4);
    cr_assert_eq(test_letters.total, 6);
}

Test(drop, of_a_shared_payload_happens_once_when_all_are_dead)
{
    for (int i = 0; i < 6; i++) {
        many[i] = test_dead_actor(the_system);
    }
    each(tell_shared);
    cr_assert_eq(drops, 4);
}

static troupe_verdict
spread_current(troupe_self *self, const troupe_msg *msg)
{
    (void)troupe_tell_many(self, many, 6, msg->type, msg->payload);
    return TROUPE_CONTINUE;
}

Test(drop, of_a_shared_payload_that_is_passed_on_happens_once)
{
    for (int i = 0; i < 6; i++) {
        many[i] = i == 2 ? test_dead_actor(the_system) : spawn(just_handle);
    }
    cr_assert_eq(post_one(spawn(spread_current), &test_shared), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(drops, 1);
}

Test(drop, of_a_shared_payload_passed_on_twice_happens_once)
{
    troupe_ref spreaders[2];

    for (int i = 0; i < 6; i++) {
        many[i] = spawn(just_handle);
    }
    /* Each gets the same payload and spreads it to the same five. */
    spreaders[0] = spawn(spread_current);
    spreaders[1] = spawn(spread_current);
    for (int i = 0; i < 2; i++) {
        struct test_large payload = make();

        cr_assert_eq(
            troupe_post(the_system, spreaders[i], &test_shared, &payload),
            TROUPE_OK);
    }
    test_run(the_system);
    cr_assert_eq(drops, 2);
}

static troupe_verdict
take_shared(troupe_self *self, const troupe_msg *msg)
{
    return take_and_free(self, msg);
}

Test(drop, of_a_shared_payload_that_all_take_happens_once)
{
    for (int i = 0; i < 6; i++) {
        many[i] = spawn(i % 2 == 0 ? take_shared : just_handle);
    }
    each(tell_shared);
    cr_assert_eq(drops, 4);
}

static troupe_verdict
forward_shared(troupe_self *self, const troupe_msg *msg)
{
    return forward(self, msg);
}

Test(drop, of_a_shared_payload_that_all_forward_happens_once)
{
    target = spawn(just_handle);
    for (int i = 0; i < 6; i++) {
        many[i] = spawn(forward_shared);
    }
    each(tell_shared);
    cr_assert_eq(drops, 4);
}

static troupe_verdict
tell_unshared(troupe_self *self, const troupe_msg *msg)
{
    struct test_large payload = make();

    (void)msg;
    cr_assert_eq(troupe_tell_many(self, many, 6, &test_large, &payload), 0);
    cr_assert_eq(troupe_last_error().status, TROUPE_E_INVALID);
    test_drop(&payload, sizeof payload); /* nobody got it */
    return TROUPE_CONTINUE;
}

Test(drop, of_a_payload_that_is_not_shared_would_be_double_so_nobody_gets_it)
{
    for (int i = 0; i < 6; i++) {
        many[i] = spawn(just_handle);
    }
    each(tell_unshared);
    cr_assert_eq(drops, 4);
}

/* --- ports ---------------------------------------------------------------- */

Test(drop, when_a_port_went_on_to_the_next)
{
    troupe_port *port;

    cr_assert_eq(troupe_port_open(the_system, NULL, &port), TROUPE_OK);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(post_one(troupe_port_ref(port), owning[i]), TROUPE_OK);
    }
    cr_assert_not_null(troupe_port_next(port));
    cr_assert_eq(drops, 0);
    cr_assert_not_null(troupe_port_next(port));
    cr_assert_eq(drops, 1);
    cr_assert_null(troupe_port_next(port));
    cr_assert_eq(drops, 2);
    troupe_port_close(port);
}

Test(drop, when_a_port_was_closed)
{
    troupe_port *port;

    cr_assert_eq(troupe_port_open(the_system, NULL, &port), TROUPE_OK);
    for (int i = 0; i < 50; i++) {
        cr_assert_eq(post_one(troupe_port_ref(port), owning[i % 2]), TROUPE_OK);
    }
    cr_assert_not_null(troupe_port_next(port));
    troupe_port_close(port);
    cr_assert_eq(drops, 50);
    cr_assert_eq(test_letters.total, 49);
}

Test(drop, when_a_port_took_it)
{
    troupe_port *port;

    cr_assert_eq(troupe_port_open(the_system, NULL, &port), TROUPE_OK);
    for (int i = 0; i < 2; i++) {
        troupe_msg *mine;

        cr_assert_eq(post_one(troupe_port_ref(port), owning[i]), TROUPE_OK);
        cr_assert_not_null(troupe_port_next(port));
        cr_assert_eq(troupe_port_take(port, &mine), TROUPE_OK);
        cr_assert_null(troupe_port_next(port));
        cr_assert_eq(drops, (uint64_t)i);
        troupe_msg_free(mine);
    }
    troupe_port_close(port);
}

Test(drop, when_a_port_sent_it)
{
    troupe_ref alive = spawn(just_handle);
    troupe_ref dead = test_dead_actor(the_system);
    troupe_port *port;

    cr_assert_eq(troupe_port_open(the_system, NULL, &port), TROUPE_OK);
    for (int i = 0; i < 2; i++) {
        struct test_large payload = make();
        troupe_msg *msg;

        cr_assert_eq(
            troupe_port_send(port, alive, owning[i], &payload), TROUPE_OK);
        payload = make();
        cr_assert_eq(
            troupe_port_send(port, dead, owning[i], &payload), TROUPE_E_DEAD);
        test_drop(&payload, sizeof payload);
        payload = make();
        troupe_port_tell(port, dead, owning[i], &payload);
        payload = make();
        troupe_port_tell(port, alive, owning[i], &payload);
        msg = new_one(owning[i]);
        cr_assert_eq(troupe_port_send_msg(port, dead, msg), TROUPE_E_DEAD);
        cr_assert_eq(troupe_port_send_msg(port, alive, msg), TROUPE_OK);
    }
    test_run(the_system);
    troupe_port_close(port);
}

/* --- what came is sent on ------------------------------------------------- */

Test(drop, when_a_port_sent_on_what_came)
{
    troupe_ref alive = spawn(just_handle);
    troupe_port *port;

    cr_assert_eq(troupe_port_open(the_system, NULL, &port), TROUPE_OK);
    for (int i = 0; i < 4; i++) {
        const troupe_msg *msg;

        cr_assert_eq(post_one(troupe_port_ref(port), owning[i % 2]), TROUPE_OK);
        msg = troupe_port_next(port);
        cr_assert_not_null(msg);
        if (i < 2) {
            cr_assert_eq(troupe_port_send(port, alive, msg->type, msg->payload),
                TROUPE_OK);
        } else {
            troupe_port_tell(port, alive, msg->type, msg->payload);
        }
        cr_assert_eq(troupe_port_send(port, alive, msg->type, msg->payload),
            TROUPE_E_STATE, "it is not the port's any more");
        cr_assert_null(troupe_port_next(port));
        test_run(the_system);
        cr_assert_eq(drops, (uint64_t)i + 1);
    }
    troupe_port_close(port);
}

Test(drop, when_a_port_told_nobody_what_came)
{
    troupe_ref dead = test_dead_actor(the_system);
    troupe_port *port;

    cr_assert_eq(troupe_port_open(the_system, NULL, &port), TROUPE_OK);
    for (int i = 0; i < 2; i++) {
        const troupe_msg *msg;

        cr_assert_eq(post_one(troupe_port_ref(port), owning[i]), TROUPE_OK);
        msg = troupe_port_next(port);
        troupe_port_tell(port, dead, msg->type, msg->payload);
        cr_assert_eq(drops, (uint64_t)i + 1);
    }
    troupe_port_close(port);
}

Test(drop, when_a_probe_sent_on_what_came)
{
    troupe_ref alive = spawn(just_handle);
    troupe_probe *probe;

    cr_assert_eq(troupe_probe_open(the_system, NULL, &probe), TROUPE_OK);
    for (int i = 0; i < 4; i++) {
        const troupe_msg *msg;

        cr_assert_eq(
            post_one(troupe_probe_ref(probe), owning[i % 2]), TROUPE_OK);
        if (i >= 2) {
            cr_assert_not(troupe_probe_silent(probe, 0));
        }
        msg = troupe_probe_next(probe, 0);
        cr_assert_not_null(msg);
        cr_assert_eq(troupe_probe_send(probe, alive, msg->type, msg->payload),
            TROUPE_OK);
    }
    test_run(the_system);
    cr_assert_eq(drops, 4);
    troupe_probe_close(probe);
}

static troupe_verdict
post_on(troupe_self *self, const troupe_msg *msg)
{
    troupe_system *system = troupe_self_system(self);

    cr_assert_eq(
        troupe_post(system, target, msg->type, msg->payload), TROUPE_OK);
    cr_assert_eq(
        troupe_post(system, target, msg->type, msg->payload), TROUPE_E_STATE);
    return TROUPE_CONTINUE;
}

static troupe_verdict
post_tell_on(troupe_self *self, const troupe_msg *msg)
{
    troupe_post_tell(troupe_self_system(self), target, msg->type, msg->payload);
    return TROUPE_CONTINUE;
}

Test(drop, when_a_behaviour_posted_on_what_came)
{
    target = spawn(just_handle);
    each(post_on);
    each(post_tell_on);
    cr_assert_eq(drops, 4);
}

Test(drop, when_the_payload_was_sent_on_and_the_verdict_is_unhandled)
{
    target = spawn(just_handle);
    each(tell_current_and_refuse);
    cr_assert_eq(test_letters.total, 2);
    cr_assert_not(test_letters.last.has_payload, "somebody else has it");
}

static const troupe_msg_type other_large = {sizeof(troupe_msg_type),
    "other_large", sizeof(struct test_large), TEST_TAG_OTHER, 0, test_drop};

static uint32_t refusals;

static troupe_verdict
send_on_as_another(troupe_self *self, const troupe_msg *msg)
{
    troupe_status status =
        troupe_send(self, target, &other_large, msg->payload);

    refusals += status == TROUPE_E_STATE ? 1 : 0;
    cr_assert(status == TROUPE_OK || status == TROUPE_E_STATE);
    return TROUPE_CONTINUE;
}

Test(drop, of_a_shared_payload_that_is_sent_on_as_another_type_happens_once)
{
    target = spawn(just_handle);
    for (int i = 0; i < 6; i++) {
        many[i] = spawn(send_on_as_another);
    }
    cr_assert_eq(post_one(spawn(spread_current), &test_shared), TROUPE_OK);
    test_run(the_system);
    cr_assert_geq(refusals, 5, "only the last reader can give it away");
    cr_assert_eq(drops, 1);
}
