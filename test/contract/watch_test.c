/* SPDX-License-Identifier: MIT */
#include "support/seed.h"
#include "support/system.h"

#include <criterion/criterion.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Death watch between actors. */

enum { TAG_CALL = 50, MOST = 2048 };

/* Something to do in a turn of the watcher. */
typedef void (*call_fn)(troupe_self *self, void *user);
struct call {
    call_fn fn;
    void *user;
};
TROUPE_MSG_TYPE(call_type, struct call, TAG_CALL);

/* All but calls. */
static struct {
    uint32_t count;
    struct {
        troupe_ref watcher;
        troupe_tag tag;
        troupe_ref sender;
        troupe_exit exit; /* of a notice */
        uint64_t number;  /* of any other */
    } entry[MOST];
    bool stashes;
    troupe_status stashed;
    troupe_verdict answer;
    call_fn on_notice; /* called with it in hand */
    void *user;
} seen;

static troupe_verdict
watcher_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    if (troupe_msg_is(msg, &call_type)) {
        const struct call *what = troupe_payload(msg, struct call);

        what->fn(self, what->user);
        return TROUPE_CONTINUE;
    }
    if (seen.on_notice != NULL) {
        seen.on_notice(self, seen.user);
    }
    if (seen.stashes) {
        seen.stashed = troupe_stash(self);
        return TROUPE_CONTINUE;
    }
    cr_assert_lt(seen.count, MOST);
    seen.entry[seen.count].watcher = troupe_self_ref(self);
    seen.entry[seen.count].tag = troupe_msg_tag(msg);
    seen.entry[seen.count].sender = msg->sender;
    if (troupe_msg_tag(msg) == TROUPE_TAG_DOWN) {
        seen.entry[seen.count].exit = *troupe_down(msg);
    } else if (msg->bytes >= sizeof(struct test_owned)) {
        seen.entry[seen.count].number =
            troupe_payload(msg, struct test_owned)->number;
    }
    seen.count++;
    return seen.answer;
}

static const troupe_actor_type watcher_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "watcher",
    .receive = watcher_receive,
};

static troupe_system *the_system;
static _Atomic uint64_t drops;

static void
setup(void)
{
    memset(&seen, 0, sizeof seen);
    drops = 0;
    the_system = test_open_driven(0);
}

static void
teardown(void)
{
    test_close(the_system);
}

TestSuite(watch, .init = setup, .fini = teardown);

static troupe_ref
spawn(const troupe_actor_type *type)
{
    troupe_ref ref = TROUPE_NONE;

    cr_assert_eq(troupe_system_spawn(the_system, type, NULL, &ref), TROUPE_OK);
    return ref;
}

static void
call_later(troupe_ref who, call_fn fn, void *user)
{
    struct call what = {fn, user};

    cr_assert_eq(troupe_post(the_system, who, &call_type, &what), TROUPE_OK);
}

static void
call(troupe_ref who, call_fn fn, void *user)
{
    call_later(who, fn, user);
    test_run(the_system);
}

static void
stop(troupe_ref whom)
{
    cr_assert_eq(troupe_post_stop_now(the_system, whom), TROUPE_OK);
    test_run(the_system);
}

/* --- what watchers do; user: a ref ---------------------------------------- */

static void
do_watch(troupe_self *self, void *user)
{
    cr_assert_eq(troupe_watch(self, *(troupe_ref *)user), TROUPE_OK);
}

static void
do_unwatch(troupe_self *self, void *user)
{
    cr_assert_eq(troupe_unwatch(self, *(troupe_ref *)user), TROUPE_OK);
}

static void
do_watch_unwatch_watch(troupe_self *self, void *user)
{
    do_watch(self, user);
    do_unwatch(self, user);
    do_watch(self, user);
}

static void
do_unstash(troupe_self *self, void *user)
{
    (void)user;
    cr_assert_eq(troupe_unstash(self, 0), TROUPE_OK);
}

static void
do_clear(troupe_self *self, void *user)
{
    (void)user;
    troupe_stash_clear(self);
}

/* One that owns something, and says which. */
static troupe_msg *
own_message(troupe_system *system, uint64_t number)
{
    troupe_msg *msg = troupe_msg_new(system, &test_owned, 0);
    struct test_owned *owned;

    cr_assert_not_null(msg);
    owned = troupe_payload_mut(msg, struct test_owned);
    owned->drops = &drops;
    owned->number = number;
    return msg;
}

/* user: two of them, the subject and the number in `index`. */
static void
do_watch_with(troupe_self *self, void *user)
{
    const troupe_ref *ref = user;

    cr_assert_eq(
        troupe_watch_with(self, ref[0], own_message(the_system, ref[1].index)),
        TROUPE_OK);
}

static void
assert_down(uint32_t i, troupe_ref subject, troupe_exit_kind kind)
{
    cr_assert_lt(i, seen.count);
    cr_assert_eq(seen.entry[i].tag, TROUPE_TAG_DOWN);
    cr_assert(troupe_ref_equal(seen.entry[i].exit.actor, subject));
    cr_assert_eq(seen.entry[i].exit.kind, kind);
    cr_assert(troupe_ref_is_none(seen.entry[i].sender));
}

/* --- notices -------------------------------------------------------------- */

Test(watch, a_notice_comes_once_and_has_no_sender)
{
    troupe_ref watcher = spawn(&watcher_type);
    troupe_ref subject = spawn(&test_plain);

    call(watcher, do_watch, &subject);
    cr_assert_eq(seen.count, 0);
    stop(subject);
    cr_assert_eq(seen.count, 1);
    assert_down(0, subject, TROUPE_EXIT_STOPPED);
    cr_assert_eq(test_counters(the_system).cancelled, 0);
}

static void
do_tell_and_stop(troupe_self *self, void *user)
{
    const uint64_t number = 7;

    troupe_tell(self, *(troupe_ref *)user, &test_number, &number);
    troupe_tell(self, *(troupe_ref *)user, &test_number, &number);
    cr_assert_eq(troupe_stop_now(self, troupe_self_ref(self)), TROUPE_OK);
}

Test(watch, what_the_subject_sent_comes_first)
{
    troupe_ref watcher = spawn(&watcher_type);
    troupe_ref subject = spawn(&watcher_type);

    call(watcher, do_watch, &subject);
    call(subject, do_tell_and_stop, &watcher);
    cr_assert_eq(seen.count, 3);
    cr_assert_eq(seen.entry[1].tag, test_number.tag);
    assert_down(2, subject, TROUPE_EXIT_STOPPED);
}

Test(watch, watching_twice_is_watching_once)
{
    troupe_ref watcher = spawn(&watcher_type);
    troupe_ref subject = spawn(&test_plain);

    call(watcher, do_watch, &subject);
    call(watcher, do_watch, &subject);
    stop(subject);
    cr_assert_eq(seen.count, 1);
}

/* The notice is queued before the second watch, which is still the first. */
Test(watch, watching_again_before_the_notice_is_handled_is_watching_once)
{
    troupe_ref subject = spawn(&test_plain);
    troupe_ref watcher = spawn(&watcher_type);

    call(watcher, do_watch, &subject);
    cr_assert_eq(troupe_post_stop_now(the_system, subject), TROUPE_OK);
    call(watcher, do_watch, &subject);
    cr_assert_eq(seen.count, 1);
}

Test(watch, the_dead_and_the_unknown_answer_at_once)
{
    const troupe_ref unknown[] = {
        {UINT32_MAX, UINT32_MAX}, {5000000, 1}, {60000, 77}};
    troupe_ref watcher = spawn(&watcher_type);
    troupe_ref subject = test_dead_actor(the_system);

    call(watcher, do_watch, &subject);
    cr_assert_eq(seen.count, 1);
    assert_down(0, subject, TROUPE_EXIT_UNKNOWN);
    call(watcher, do_watch, &subject); /* the first one was consumed */
    cr_assert_eq(seen.count, 2);
    for (uint32_t i = 0; i < 3; i++) {
        troupe_ref whom = unknown[i];

        call(watcher, do_watch, &whom);
        assert_down(2 + 2 * i, whom, TROUPE_EXIT_UNKNOWN);
        call(watcher, do_watch_unwatch_watch, &whom);
        assert_down(3 + 2 * i, whom, TROUPE_EXIT_UNKNOWN);
    }
    cr_assert_eq(seen.count, 8);
}

Test(watch, two_incarnations_of_a_name_are_two_subjects)
{
    troupe_ref watcher = spawn(&watcher_type);
    troupe_ref first = test_spawn_doer(the_system, "same");
    troupe_ref second;

    call(watcher, do_watch, &first);
    stop(first);
    second = test_spawn_doer(the_system, "same");
    call(watcher, do_watch, &second);
    cr_assert_eq(seen.count, 1);
    call(watcher, do_unwatch, &first);
    stop(second);
    cr_assert_eq(seen.count, 2);
    assert_down(0, first, TROUPE_EXIT_STOPPED);
    assert_down(1, second, TROUPE_EXIT_STOPPED);
}

static troupe_ref a_child;

static void
do_have_child(troupe_self *self, void *user)
{
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);

    (void)user;
    options.name = "child";
    cr_assert_eq(
        troupe_spawn(self, &test_plain, &options, &a_child), TROUPE_OK);
    cr_assert_eq(troupe_watch(self, a_child), TROUPE_OK);
}

Test(watch, the_name_is_free_when_the_parent_sees_the_notice)
{
    troupe_ref parent = spawn(&watcher_type);

    call(parent, do_have_child, NULL);
    for (uint32_t i = 0; i < 3; i++) {
        seen.on_notice = do_have_child; /* succeeds with the same name */
        stop(a_child);
        cr_assert_eq(seen.count, i + 1);
    }
    seen.on_notice = NULL;
}

Test(watch, a_parent_that_stops_leaves_no_dead_letters)
{
    troupe_ref parent = spawn(&watcher_type);

    call(parent, do_have_child, NULL);
    stop(parent);
    cr_assert_eq(test_counters(the_system).dead, 0);
    cr_assert_eq(test_counters(the_system).actors, 0);
}

static void
do_watch_again(troupe_self *self, void *user)
{
    if (seen.count < 2) {
        do_watch(self, user);
    }
}

Test(watch, a_watch_in_the_handler_of_the_notice_is_a_new_one)
{
    troupe_ref watcher = spawn(&watcher_type);
    troupe_ref subject = spawn(&test_plain);

    call(watcher, do_watch, &subject);
    seen.on_notice = do_watch_again;
    seen.user = &subject;
    stop(subject);
    cr_assert_eq(seen.count, 3);
    assert_down(0, subject, TROUPE_EXIT_STOPPED);
    assert_down(1, subject, TROUPE_EXIT_UNKNOWN);
    assert_down(2, subject, TROUPE_EXIT_UNKNOWN);
}

static void
do_forward(troupe_self *self, void *user)
{
    troupe_forward(self, *(troupe_ref *)user);
}

static troupe_msg *taken;

static void
do_take(troupe_self *self, void *user)
{
    (void)user;
    cr_assert_eq(troupe_take(self, &taken), TROUPE_OK);
}

Test(watch, a_notice_that_is_sent_on_is_a_message_like_others)
{
    static struct test_record record;
    troupe_ref watcher = spawn(&watcher_type);
    troupe_ref other = test_spawn_recorder(the_system, NULL, &record);
    troupe_ref subject[2] = {spawn(&test_plain), {3, 0}};

    call(watcher, do_watch, subject);
    seen.on_notice = do_forward;
    seen.user = &other;
    stop(subject[0]);
    cr_assert_eq(record.count, 1);
    cr_assert_eq(record.entry[0].tag, TROUPE_TAG_DOWN);
    cr_assert(troupe_ref_is_none(record.entry[0].sender));
    call(watcher, do_watch_with, subject);
    cr_assert_eq(record.count, 2);
    cr_assert_eq(record.entry[1].tag, test_owned.tag);
    cr_assert_eq(atomic_load(&drops), 1);

    seen.on_notice = do_take;
    call(watcher, do_watch, subject);
    cr_assert_eq(troupe_msg_tag(taken), TROUPE_TAG_DOWN);
    cr_assert_eq(troupe_post_msg(the_system, other, taken), TROUPE_OK);
    call(watcher, do_watch_with, subject);
    cr_assert_eq(atomic_load(&drops), 1);
    troupe_msg_free(taken);
    cr_assert_eq(atomic_load(&drops), 2);
    cr_assert_eq(record.count, 3);
}

Test(watch, one_that_is_not_handled_is_a_dead_letter)
{
    troupe_ref watcher = spawn(&watcher_type);
    troupe_ref subject[2] = {spawn(&test_plain), {3, 0}};

    seen.answer = TROUPE_UNHANDLED;
    call(watcher, do_watch, subject);
    stop(subject[0]);
    cr_assert_eq(test_letters.last.tag, TROUPE_TAG_DOWN);
    cr_assert_eq(test_letters.last.reason, TROUPE_DEAD_UNHANDLED);
    call(watcher, do_watch_with, subject);
    cr_assert_eq(test_letters.last.tag, test_owned.tag);
    cr_assert_eq(atomic_load(&drops), 1);
}

Test(watch, a_watcher_may_end_over_a_notice)
{
    troupe_ref subject[2] = {spawn(&test_plain), {3, 0}};

    seen.answer = TROUPE_DONE;
    call(spawn(&watcher_type), do_watch, subject);
    call(spawn(&watcher_type), do_watch_with, subject);
    stop(subject[0]);
    cr_assert_eq(seen.count, 2);
    cr_assert_eq(atomic_load(&drops), 1);
    cr_assert_eq(test_counters(the_system).actors, 0);
}

static troupe_ref
spawn_supervised(troupe_directive directive, uint32_t flags)
{
    troupe_supervision own = TROUPE_INIT(troupe_supervision);
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    troupe_ref ref = TROUPE_NONE;

    own.otherwise = directive;
    options.own = &own;
    options.flags = flags;
    cr_assert_eq(troupe_system_spawn(the_system, &watcher_type, &options, &ref),
        TROUPE_OK);
    return ref;
}

/* A notice that is not handled ends it; a message of its own does not. */
Test(watch, a_death_pact_ends_the_watcher)
{
    troupe_ref other = spawn(&watcher_type);
    troupe_ref watcher =
        spawn_supervised(TROUPE_DIRECTIVE_STOP, TROUPE_ACTOR_DEATH_PACT);
    troupe_ref subject[2] = {spawn(&test_plain), {3, 0}};

    call(other, do_watch, &watcher);
    seen.answer = TROUPE_UNHANDLED;
    call(watcher, do_watch_with, subject);
    stop(subject[0]);
    cr_assert_eq(test_letters.last.tag, test_owned.tag);
    cr_assert_eq(seen.count, 1);
    seen.answer = TROUPE_CONTINUE;
    call(watcher, do_watch, subject);
    cr_assert_eq(seen.count, 2);
    seen.answer = TROUPE_UNHANDLED;
    call(watcher, do_watch, subject);
    cr_assert_eq(seen.count, 4);
    assert_down(3, watcher, TROUPE_EXIT_FAILED);
    cr_assert_eq(seen.entry[3].exit.code, TROUPE_E_DEAD);
}

/* Neither is it an end, nor does it end what it watches; its stash goes. */
Test(watch, watches_of_both_sides_survive_a_restart)
{
    troupe_ref watcher = spawn_supervised(TROUPE_DIRECTIVE_RESTART, 0);
    troupe_ref other = spawn(&watcher_type);
    troupe_ref subject[2] = {spawn(&test_plain), {8, 0}};

    call(other, do_watch, &watcher);
    call(watcher, do_watch_with, subject);
    call(watcher, do_watch, &other);
    seen.stashes = true;
    stop(subject[0]);
    seen.stashes = false;
    seen.answer = TROUPE_FAILED;
    test_post_number(the_system, watcher, 1);
    test_run(the_system);
    seen.answer = TROUPE_CONTINUE;
    cr_assert_eq(test_counters(the_system).restarted, 1);
    cr_assert_eq(seen.count, 1, "nobody heard of it");
    cr_assert_eq(atomic_load(&drops), 1, "the stash was buried");
    call(watcher, do_watch, subject); /* so this is a new watch */
    cr_assert_eq(seen.count, 2);
    stop(other);
    cr_assert_eq(seen.count, 3);
    assert_down(2, other, TROUPE_EXIT_STOPPED);
}

/* --- unwatch -------------------------------------------------------------- */

Test(watch, nothing_arrives_after_unwatch)
{
    troupe_ref watcher = spawn(&watcher_type);
    troupe_ref subject[2] = {spawn(&test_plain), {3, 0}};

    call(watcher, do_watch, subject);
    call(watcher, do_unwatch, subject);
    call(watcher, do_unwatch, subject);
    call(watcher, do_watch_with, subject);
    call(watcher, do_unwatch, subject);
    cr_assert_eq(atomic_load(&drops), 1);
    stop(subject[0]);
    cr_assert_eq(seen.count, 0);
    cr_assert_eq(test_counters(the_system).cancelled, 0);
}

/* Unwatches in a turn that begins with a dead subject. */
static void
do_watch_and_unwatch(troupe_self *self, void *user)
{
    do_watch(self, user);
    do_unwatch(self, user);
    do_watch_with(self, user);
    do_unwatch(self, user);
}

Test(watch, a_notice_that_was_queued_does_not_arrive_after_unwatch)
{
    troupe_ref watcher = spawn(&watcher_type);
    troupe_ref subject[2] = {test_dead_actor(the_system), {3, 0}};
    uint64_t handled = test_counters(the_system).handled;

    call(watcher, do_watch_and_unwatch, subject);
    cr_assert_eq(seen.count, 0);
    cr_assert_eq(atomic_load(&drops), 1);
    cr_assert_eq(test_counters(the_system).cancelled, 2);
    cr_assert_eq(test_counters(the_system).handled, handled + 1);
}

Test(watch, watch_after_unwatch_is_one_notice)
{
    troupe_ref watcher = spawn(&watcher_type);
    troupe_ref subject = test_dead_actor(the_system);

    call(watcher, do_watch_unwatch_watch, &subject);
    cr_assert_eq(seen.count, 1);
    cr_assert_eq(test_counters(the_system).cancelled, 1);
}

/* --- a message of one's own ----------------------------------------------- */

Test(watch, a_message_of_ones_own_comes_instead)
{
    troupe_ref watcher = spawn(&watcher_type);
    troupe_ref subject[2] = {spawn(&test_plain), {42, 0}};

    call(watcher, do_watch_with, subject);
    stop(subject[0]);
    cr_assert_eq(seen.count, 1);
    cr_assert_eq(seen.entry[0].tag, test_owned.tag);
    cr_assert_eq(seen.entry[0].number, 42);
    cr_assert(troupe_ref_is_none(seen.entry[0].sender));
    cr_assert_eq(atomic_load(&drops), 1);
    subject[1].index = 43;
    call(watcher, do_watch_with, subject); /* at once */
    cr_assert_eq(seen.entry[1].number, 43);
    cr_assert_eq(atomic_load(&drops), 2);
}

/* It has a sender, until then. */
static void
do_watch_with_current(troupe_self *self, void *user)
{
    troupe_msg *msg = NULL;

    seen.on_notice = NULL;
    cr_assert(!troupe_ref_is_none(troupe_sender(self)));
    cr_assert_eq(troupe_take(self, &msg), TROUPE_OK);
    cr_assert_eq(troupe_watch_with(self, *(troupe_ref *)user, msg), TROUPE_OK);
}

Test(watch, a_message_that_was_taken_can_come_instead)
{
    troupe_ref watcher = spawn(&watcher_type);
    troupe_ref subject = spawn(&watcher_type);

    seen.on_notice = do_watch_with_current;
    seen.user = &subject;
    call(subject, do_tell_and_stop, &watcher);
    cr_assert_eq(seen.count, 3);
    cr_assert_eq(seen.entry[2].tag, test_number.tag);
    cr_assert(!troupe_ref_is_none(seen.entry[1].sender));
    cr_assert(troupe_ref_is_none(seen.entry[2].sender));
}

Test(watch, the_last_form_wins_and_the_others_are_freed)
{
    troupe_ref watcher = spawn(&watcher_type);
    troupe_ref subject[2] = {spawn(&test_plain), {1, 0}};

    call(watcher, do_watch, subject);
    call(watcher, do_watch_with, subject);
    subject[1].index = 2;
    call(watcher, do_watch_with, subject);
    cr_assert_eq(atomic_load(&drops), 1);
    call(watcher, do_watch, subject);
    cr_assert_eq(atomic_load(&drops), 2);
    stop(subject[0]);
    cr_assert_eq(seen.count, 1);
    assert_down(0, subject[0], TROUPE_EXIT_STOPPED);

    subject[0] = spawn(&test_plain);
    call(watcher, do_watch, subject);
    call(watcher, do_watch_with, subject);
    stop(subject[0]);
    cr_assert_eq(seen.entry[1].number, 2);
    cr_assert_eq(atomic_load(&drops), 3);
}

/* The form may change as long as the notice has not been handled. */
static void
do_watch_both_ways(troupe_self *self, void *user)
{
    do_watch(self, user);
    do_watch_with(self, user);
}

Test(watch, the_form_of_a_queued_notice_can_change)
{
    troupe_ref watcher = spawn(&watcher_type);
    troupe_ref subject[2] = {test_dead_actor(the_system), {9, 0}};

    call(watcher, do_watch_both_ways, subject);
    cr_assert_eq(seen.count, 1);
    cr_assert_eq(seen.entry[0].number, 9);
}

Test(watch, what_was_never_used_is_freed_with_the_watcher)
{
    troupe_ref watcher = spawn(&watcher_type);
    troupe_ref subject[2] = {spawn(&test_plain), {1, 0}};

    call(watcher, do_watch_with, subject);
    stop(watcher);
    cr_assert_eq(atomic_load(&drops), 1);
    stop(subject[0]);
    cr_assert_eq(test_counters(the_system).dead, 0, "nobody is told");
}

/* --- refused -------------------------------------------------------------- */

static void
do_mistakes(troupe_self *self, void *user)
{
    troupe_system *other = user;
    troupe_msg *msg = own_message(the_system, 1);
    troupe_msg *foreign = own_message(other, 2);
    const troupe_ref somebody = {1, 1};

    cr_assert_eq(troupe_watch(NULL, somebody), TROUPE_E_INVALID);
    cr_assert_eq(troupe_watch(self, TROUPE_NONE), TROUPE_E_INVALID);
    cr_assert_str_eq(troupe_last_error().rule,
        "must not be TROUPE_NONE or the actor itself");
    cr_assert_eq(troupe_watch(self, troupe_self_ref(self)), TROUPE_E_INVALID);
    cr_assert_eq(troupe_watch_with(NULL, somebody, msg), TROUPE_E_INVALID);
    cr_assert_eq(troupe_watch_with(self, TROUPE_NONE, msg), TROUPE_E_INVALID);
    cr_assert_eq(
        troupe_watch_with(self, troupe_self_ref(self), msg), TROUPE_E_INVALID);
    cr_assert_eq(troupe_watch_with(self, somebody, NULL), TROUPE_E_NOMEM);
    cr_assert_eq(troupe_watch_with(self, somebody, foreign), TROUPE_E_INVALID);
    cr_assert_eq(troupe_unwatch(NULL, somebody), TROUPE_E_INVALID);
    cr_assert_eq(troupe_unwatch(self, somebody), TROUPE_OK);
    cr_assert_eq(troupe_unwatch(self, TROUPE_NONE), TROUPE_OK);
    cr_assert_eq(atomic_load(&drops), 0, "they are the caller's still");
    troupe_msg_free(msg);
    troupe_msg_free(foreign);
}

Test(watch, mistakes_are_refused_and_change_nothing)
{
    troupe_system *other = test_open_driven(0);

    call(spawn(&watcher_type), do_mistakes, other);
    cr_assert_eq(seen.count, 0);
    cr_assert_eq(troupe_system_destroy(other), TROUPE_OK);
}

static troupe_status in_stop[2];

static void
watch_in_stop(troupe_self *self, void *state, const troupe_exit *why)
{
    (void)state;
    (void)why;
    in_stop[0] = troupe_watch(self, a_child);
    in_stop[1] = troupe_unwatch(self, a_child);
}

Test(watch, in_stop_nobody_can_be_watched)
{
    troupe_ref watcher = test_spawn_with_stop(the_system, NULL, watch_in_stop);

    a_child = spawn(&test_plain);
    stop(watcher);
    cr_assert_eq(in_stop[0], TROUPE_E_STATE);
    cr_assert_eq(in_stop[1], TROUPE_OK);
    cr_assert_eq(test_counters(the_system).sent, 0);
}

/* --- mailboxes ------------------------------------------------------------ */

static double
rank_none(const troupe_msg *msg, void *user)
{
    (void)user;
    cr_assert_neq(troupe_msg_tag(msg), TROUPE_TAG_DOWN, "it is not asked");
    return 1;
}

/* A watcher with capacity 1, full already, and 100 that stop. */
static void
watch_many(troupe_overflow overflow, bool ordered, call_fn how)
{
    troupe_mailbox_options mailbox = TROUPE_INIT(troupe_mailbox_options);
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    troupe_ref watcher, subject[100][2];
    uint32_t before = seen.count;

    mailbox.capacity = 1;
    mailbox.overflow = overflow;
    mailbox.priority = ordered ? rank_none : NULL;
    options.mailbox = &mailbox;
    cr_assert_eq(
        troupe_system_spawn(the_system, &watcher_type, &options, &watcher),
        TROUPE_OK);
    for (uint32_t i = 0; i < 100; i++) {
        subject[i][0] = spawn(&test_plain);
        subject[i][1].index = i;
        call(watcher, how, subject[i]);
    }
    test_post_number(the_system, watcher, 1);
    for (uint32_t i = 0; i < 100; i++) {
        cr_assert_eq(
            troupe_post_stop_now(the_system, subject[i][0]), TROUPE_OK);
    }
    test_run(the_system);
    cr_assert_eq(seen.count, before + 101);
    stop(watcher);
}

/* Acceptance 28. A message of one's own is as undroppable. */
Test(watch, a_watcher_with_capacity_1_gets_all_of_them)
{
    for (uint32_t i = 0; i < 2; i++) {
        call_fn how = i == 0 ? do_watch : do_watch_with;

        watch_many(TROUPE_OVERFLOW_REJECT, false, how);
        watch_many(TROUPE_OVERFLOW_DROP_NEW, false, how);
        watch_many(TROUPE_OVERFLOW_DROP_HEAD, false, how);
        watch_many(TROUPE_OVERFLOW_REJECT, true, how);
        watch_many(TROUPE_OVERFLOW_DROP_LOWEST, true, how);
    }
    cr_assert_eq(test_counters(the_system).dropped, 0);
    cr_assert_eq(test_counters(the_system).dead, 0);
    cr_assert_eq(atomic_load(&drops), 500);
}

/* A mailbox of one's own: first in, first out. */
struct line {
    troupe_msg *msg[64];
    uint32_t first, count;
};

static void *
line_open(void *user)
{
    (void)user;
    return calloc(1, sizeof(struct line));
}

static bool line_has_no_memory;

static troupe_status
line_add(void *box, troupe_msg *msg)
{
    struct line *line = box;

    if (line_has_no_memory && troupe_msg_tag(msg) == TROUPE_TAG_DOWN) {
        return TROUPE_E_NOMEM;
    }
    line->msg[(line->first + line->count++) % 64] = msg;
    return TROUPE_OK;
}

static troupe_status
line_enqueue(void *box, troupe_msg *msg, troupe_msg **evicted)
{
    (void)evicted;
    return line_add(box, msg);
}

static troupe_msg *
line_dequeue(void *box)
{
    struct line *line = box;

    if (line->count == 0) {
        return NULL;
    }
    line->count--;
    return line->msg[line->first++ % 64];
}

static size_t
line_length(const void *box)
{
    return ((const struct line *)box)->count;
}

static const troupe_custom_mailbox line = {
    .size = TROUPE_OPTIONS(troupe_custom_mailbox),
    .name = "line",
    .open = line_open,
    .close = free,
    .enqueue = line_enqueue,
    .enqueue_undroppable = line_add,
    .prepend = line_enqueue,
    .dequeue = line_dequeue,
    .length = line_length,
};

static troupe_ref
spawn_with_custom(void)
{
    static const troupe_mailbox_options mailbox = {
        .size = TROUPE_OPTIONS(troupe_mailbox_options), .custom = &line};
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    troupe_ref watcher = TROUPE_NONE;

    options.mailbox = &mailbox;
    cr_assert_eq(
        troupe_system_spawn(the_system, &watcher_type, &options, &watcher),
        TROUPE_OK);
    return watcher;
}

Test(watch, a_mailbox_of_ones_own_carries_them)
{
    troupe_ref watcher = spawn_with_custom();
    troupe_ref subject[2] = {spawn(&test_plain), {5, 0}};
    uint64_t before;

    call(watcher, do_watch, subject);
    stop(subject[0]);
    assert_down(0, subject[0], TROUPE_EXIT_STOPPED);
    call(watcher, do_watch_with, subject);
    cr_assert_eq(seen.entry[1].number, 5);
    before = test_counters(the_system).bytes;
    for (uint64_t i = 1; i <= 100; i++) {
        call(watcher, do_watch_and_unwatch, subject);
        cr_assert_eq(seen.count, 2);
        cr_assert_eq(test_counters(the_system).cancelled, 2 * i);
        cr_assert_eq(atomic_load(&drops), 1 + i);
    }
    cr_assert_eq(test_counters(the_system).bytes, before, "boxes are left");
}

static void
do_watch_without_memory(troupe_self *self, void *user)
{
    const troupe_ref *subject = user;
    troupe_msg *msg = own_message(the_system, 1);

    cr_assert_eq(troupe_watch(self, subject[0]), TROUPE_E_NOMEM);
    cr_assert_eq(troupe_watch_with(self, subject[0], msg), TROUPE_E_NOMEM);
    troupe_msg_free(msg);
}

/* There is no memory for a notice: known at once, or a dead letter. */
Test(watch, a_notice_that_finds_no_memory_is_refused_or_a_dead_letter)
{
    troupe_ref watcher = spawn_with_custom();
    troupe_ref subject[2] = {test_dead_actor(the_system), spawn(&test_plain)};

    line_has_no_memory = true;
    call(watcher, do_watch, &subject[1]);
    stop(subject[1]);
    cr_assert_eq(test_letters.last.reason, TROUPE_DEAD_REFUSED);
    cr_assert_eq(test_letters.last.tag, TROUPE_TAG_DOWN);
    cr_assert(troupe_ref_equal(test_letters.last.recipient, watcher));
    call(watcher, do_watch_without_memory, subject);
    line_has_no_memory = false;
    cr_assert_eq(seen.count, 0);
    cr_assert_eq(test_counters(the_system).refused, 2);
    cr_assert_eq(test_counters(the_system).dead, 1);
    call(watcher, do_watch, subject);
    cr_assert_eq(seen.count, 1);
}

/* --- the stash ------------------------------------------------------------ */

static void
stash_two(troupe_ref watcher, troupe_ref subject[4])
{
    subject[0] = spawn(&test_plain);
    subject[1].index = 6;
    subject[2] = spawn(&test_plain);
    seen.stashes = true;
    call(watcher, do_watch_with, &subject[0]);
    call(watcher, do_watch, &subject[2]);
    stop(subject[0]);
    stop(subject[2]);
    cr_assert_eq(seen.stashed, TROUPE_OK);
    cr_assert_eq(seen.count, 0);
    seen.stashes = false;
}

static void
stashed_notices(troupe_ref watcher)
{
    troupe_ref subject[4];
    uint64_t dropped = atomic_load(&drops);
    uint64_t cancelled = test_counters(the_system).cancelled;

    seen.count = 0;
    stash_two(watcher, subject);
    call(watcher, do_watch, &subject[2]); /* stands */
    call(watcher, do_unstash, NULL);
    cr_assert_eq(seen.count, 2);
    cr_assert_eq(seen.entry[0].number, 6);
    cr_assert_eq(atomic_load(&drops), dropped + 1);
    assert_down(1, subject[2], TROUPE_EXIT_STOPPED);
    cr_assert_eq(test_counters(the_system).cancelled, cancelled);

    seen.count = 0;
    stash_two(watcher, subject);
    call(watcher, do_unwatch, &subject[0]);
    cr_assert_eq(atomic_load(&drops), dropped + 2);
    call(watcher, do_unwatch, &subject[2]);
    call(watcher, do_unstash, NULL);
    cr_assert_eq(seen.count, 0);
    cr_assert_eq(test_counters(the_system).cancelled, cancelled + 2);

    stash_two(watcher, subject);
    call(watcher, do_clear, NULL);
    cr_assert_eq(test_letters.last.tag, TROUPE_TAG_DOWN);
    cr_assert_eq(atomic_load(&drops), dropped + 3);
}

Test(watch, a_notice_that_was_stashed_is_a_notice_still)
{
    stashed_notices(spawn(&watcher_type));
    cr_assert_eq(test_counters(the_system).dead, 2);
}

Test(watch, so_it_is_in_a_mailbox_of_ones_own)
{
    stashed_notices(spawn_with_custom());
}

/* Behind it in the queue is the notice of the new watch. */
static void
do_watch_once_and_unwatch_later(troupe_self *self, void *user)
{
    struct call what = {do_unwatch, user};

    troupe_tell(self, troupe_self_ref(self), &call_type, &what);
    do_watch(self, user);
}

/* Two watches of one subject: one whose notice waits in the stash. */
Test(watch, unwatch_ends_a_watch_that_was_stashed_and_the_next_one)
{
    troupe_ref watcher = spawn(&watcher_type);
    troupe_ref subject = spawn(&test_plain);

    call(watcher, do_watch, &subject);
    seen.stashes = true;
    seen.on_notice = do_watch_once_and_unwatch_later;
    seen.user = &subject;
    stop(subject);
    seen.stashes = false;
    seen.on_notice = NULL;
    call(watcher, do_unstash, NULL);
    cr_assert_eq(seen.count, 0);
    cr_assert_eq(test_counters(the_system).cancelled, 2);
}

/* Unwatches one whose notice is in the stash, and watches it again. */
static void
do_unwatch_and_watch(troupe_self *self, void *user)
{
    do_unwatch(self, user);
    do_watch(self, user);
}

static void
do_watch_again_and_clear(troupe_self *self, void *user)
{
    do_unwatch_and_watch(self, user);
    troupe_stash_clear(self);
}

/* What is buried is the notice of the watch before. */
static void
clears_an_old_notice(troupe_ref watcher)
{
    troupe_ref subject = test_dead_actor(the_system);
    uint64_t cancelled = test_counters(the_system).cancelled;

    seen.stashes = true;
    call(watcher, do_watch, &subject);
    cr_assert_eq(seen.stashed, TROUPE_OK);
    seen.stashes = false;
    call(watcher, do_watch_again_and_clear, &subject);
    cr_assert_eq(seen.count, 1);
    assert_down(0, subject, TROUPE_EXIT_UNKNOWN);
    cr_assert_eq(test_counters(the_system).cancelled, cancelled + 1);
    cr_assert_eq(test_counters(the_system).dead, 0);
}

Test(watch, a_watch_after_unwatch_outlives_the_notice_in_the_stash)
{
    clears_an_old_notice(spawn(&watcher_type));
}

Test(watch, so_it_does_in_a_mailbox_of_ones_own)
{
    clears_an_old_notice(spawn_with_custom());
}

static void
do_go_on(troupe_self *self, void *user)
{
    (void)self;
    (void)user;
    seen.answer = TROUPE_CONTINUE;
}

/* Fails before the notice of the new watch has its turn. */
static void
do_watch_again_and_fail(troupe_self *self, void *user)
{
    const struct call what = {do_go_on, NULL};

    seen.on_notice = NULL;
    seen.answer = TROUPE_FAILED;
    troupe_tell(self, troupe_self_ref(self), &call_type, &what);
    do_unwatch_and_watch(self, user);
}

Test(watch, a_watch_after_unwatch_outlives_a_restart)
{
    troupe_ref watcher = spawn_supervised(TROUPE_DIRECTIVE_RESTART, 0);
    troupe_ref subject = test_dead_actor(the_system);

    seen.stashes = true;
    call(watcher, do_watch, &subject);
    seen.stashes = false;
    seen.on_notice = do_watch_again_and_fail;
    seen.user = &subject;
    test_post_number(the_system, watcher, 1);
    test_run(the_system);
    cr_assert_eq(test_counters(the_system).restarted, 1);
    cr_assert_eq(seen.count, 2);
    assert_down(1, subject, TROUPE_EXIT_UNKNOWN);
}

static void
do_unstash_one(troupe_self *self, void *user)
{
    (void)user;
    cr_assert_eq(troupe_unstash(self, 1), TROUPE_OK);
}

/*
 * The first of two that are queued is stashed, and the other has no watch, not
 * even while the first is away.
 */
static void
stashes_one_of_two(troupe_ref watcher)
{
    troupe_ref subject = test_dead_actor(the_system);
    uint64_t cancelled = test_counters(the_system).cancelled;

    seen.stashes = true;
    call(watcher, do_watch_unwatch_watch, &subject);
    seen.stashes = false;
    cr_assert_eq(test_counters(the_system).cancelled, cancelled + 1);
    call(watcher, do_unstash_one, NULL);
    cr_assert_eq(seen.count, 1);
    assert_down(0, subject, TROUPE_EXIT_UNKNOWN);
    call(watcher, do_unstash, NULL);
    cr_assert_eq(seen.count, 1);
    cr_assert_eq(test_counters(the_system).cancelled, cancelled + 1);
}

Test(watch, a_watch_whose_notice_is_stashed_takes_no_other)
{
    stashes_one_of_two(spawn(&watcher_type));
}

Test(watch, nor_does_it_in_a_mailbox_of_ones_own)
{
    stashes_one_of_two(spawn_with_custom());
}

/* --- ends ----------------------------------------------------------------- */

static void
do_queue_notices(troupe_self *self, void *user)
{
    const troupe_ref *subject = user;

    do_watch_with(self, user);
    do_watch(self, (void *)(uintptr_t)&subject[2]);
    do_watch(self, (void *)(uintptr_t)&subject[3]);
    do_unwatch(self, (void *)(uintptr_t)&subject[3]);
    cr_assert_eq(troupe_stop_now(self, troupe_self_ref(self)), TROUPE_OK);
}

Test(watch, what_waits_for_a_watcher_that_ends_is_dead_or_cancelled)
{
    troupe_ref watcher = spawn(&watcher_type);
    troupe_ref subject[4] = {test_dead_actor(the_system), {3, 0},
        test_dead_actor(the_system), test_dead_actor(the_system)};

    call(watcher, do_queue_notices, subject);
    cr_assert_eq(seen.count, 0);
    cr_assert_eq(test_counters(the_system).dead, 2);
    cr_assert_eq(test_counters(the_system).cancelled, 1);
    cr_assert_eq(test_letters.last.tag, TROUPE_TAG_DOWN);
    cr_assert_eq(atomic_load(&drops), 1);
}

static void
do_watch_and_end(troupe_self *self, void *user)
{
    do_watch(self, user);
    cr_assert_eq(troupe_stop_now(self, troupe_self_ref(self)), TROUPE_OK);
}

Test(watch, tables_on_both_sides_stay_clean)
{
    troupe_ref lasting = spawn(&watcher_type);
    uint64_t before = 0;

    for (uint32_t i = 0; i < 20000; i++) {
        troupe_ref passing = spawn(&watcher_type);

        call(passing, do_watch_and_end, &lasting);
        passing = spawn(&test_plain);
        call(lasting, do_watch, &passing);
        stop(passing);
        seen.count = 0;
        if (i == 100) {
            before = test_counters(the_system).bytes;
        }
    }
    cr_assert_leq(test_counters(the_system).bytes, before + 4096);
    stop(lasting);
    cr_assert_eq(test_counters(the_system).dead, 0);
}

/* --- many ----------------------------------------------------------------- */

enum { MANY = 100000 };

static troupe_ref *many;
static uint32_t told;

static void
do_watch_all(troupe_self *self, void *user)
{
    (void)user;
    for (uint32_t i = 0; i < MANY; i++) {
        cr_assert_eq(troupe_watch(self, many[i]), TROUPE_OK);
    }
}

static void
do_unwatch_most(troupe_self *self, void *user)
{
    (void)user;
    for (uint32_t i = 0; i < MANY; i++) {
        if (i % 100 != 0) {
            cr_assert_eq(troupe_unwatch(self, many[i]), TROUPE_OK);
        }
    }
}

static void
count_told(troupe_self *self, void *user)
{
    (void)self;
    (void)user;
    told++;
    seen.count = 0;
}

static void
spawn_many(const troupe_actor_type *type)
{
    many = calloc(MANY, sizeof *many);
    cr_assert_not_null(many);
    for (uint32_t i = 0; i < MANY; i++) {
        many[i] = spawn(type);
    }
    test_run(the_system);
    told = 0;
    seen.on_notice = count_told;
}

static void
stop_many(void)
{
    for (uint32_t i = 0; i < MANY; i++) {
        cr_assert_eq(troupe_post_stop_now(the_system, many[i]), TROUPE_OK);
    }
    test_run(the_system);
    free(many);
}

Test(watch, one_watches_many)
{
    troupe_ref watcher = spawn(&watcher_type);
    uint64_t before;

    spawn_many(&test_plain);
    call(watcher, do_watch_all, NULL);
    before = test_counters(the_system).bytes;
    call(watcher, do_unwatch_most, NULL);
    /* A block of each watch, and of 8 bytes each a table with room for more. */
    cr_assert_lt(test_counters(the_system).bytes,
        before - (MANY - MANY / 100) * 64 - MANY * 8);
    stop_many();
    cr_assert_eq(told, MANY / 100);
    cr_assert_eq(test_counters(the_system).cancelled, 0);
}

Test(watch, many_watch_one)
{
    troupe_ref subject = spawn(&test_plain);

    spawn_many(&watcher_type);
    for (uint32_t i = 0; i < MANY; i++) {
        call_later(many[i], do_watch, &subject);
    }
    test_run(the_system);
    for (uint32_t i = 0; i < MANY; i += 2) { /* the first, the last, inner */
        call_later(many[i], do_unwatch, &subject);
    }
    test_run(the_system);
    stop(subject);
    cr_assert_eq(told, MANY / 2);
    stop_many();
}

/* --- anything, against a reference ---------------------------------------- */

enum { WATCHERS = 5, SUBJECTS = 12, STEPS = 3000 };

enum form { FORM_NONE, FORM_DOWN, FORM_OWN };

static struct {
    struct test_rng rng;
    uint32_t who; /* the watcher that is told to do something */
    troupe_ref watcher[WATCHERS];
    troupe_ref subject[SUBJECTS];
    struct {
        enum form form;
        uint64_t number; /* of the message of one's own */
        bool is_stashed;
    } watched[WATCHERS][SUBJECTS];
    uint64_t made, told;
} model;

static uint32_t
below(uint32_t n)
{
    return test_random_below(&model.rng, n);
}

static uint32_t
watcher_of(troupe_ref ref)
{
    for (uint32_t w = 0; w < WATCHERS; w++) {
        if (troupe_ref_equal(model.watcher[w], ref)) {
            return w;
        }
    }
    cr_assert_fail("a stranger");
    return 0;
}

static void
do_anything(troupe_self *self, void *user)
{
    uint32_t w = watcher_of(troupe_self_ref(self));

    (void)user;
    for (uint32_t calls = 1 + below(4); calls > 0; calls--) {
        uint32_t s = below(SUBJECTS);
        troupe_ref whom = model.subject[s];

        switch (below(4)) {
        case 0:
            cr_assert_eq(troupe_watch(self, whom), TROUPE_OK);
            model.watched[w][s].form = FORM_DOWN;
            break;
        case 1:
            cr_assert_eq(troupe_watch_with(
                             self, whom, own_message(the_system, model.made)),
                TROUPE_OK);
            model.watched[w][s].form = FORM_OWN;
            model.watched[w][s].number = model.made++;
            break;
        case 2:
            cr_assert_eq(troupe_unwatch(self, whom), TROUPE_OK);
            model.watched[w][s].form = FORM_NONE;
            break;
        default:
            cr_assert_eq(troupe_unstash(self, below(3)), TROUPE_OK);
            break;
        }
    }
}

/* Which of the subjects a notice is about. */
static uint32_t
subject_of(uint32_t w, const troupe_msg *msg)
{
    for (uint32_t s = 0; s < SUBJECTS; s++) {
        if (troupe_msg_tag(msg) == TROUPE_TAG_DOWN
                ? troupe_ref_equal(troupe_down(msg)->actor, model.subject[s])
                : model.watched[w][s].form == FORM_OWN &&
                      model.watched[w][s].number ==
                          troupe_payload(msg, struct test_owned)->number) {
            return s;
        }
    }
    cr_assert_fail("nobody waits for this message");
    return 0;
}

static troupe_verdict
receive_anything(troupe_self *self, void *state, const troupe_msg *msg)
{
    uint32_t w, s;

    if (troupe_msg_is(msg, &call_type)) {
        return watcher_receive(self, state, msg);
    }
    w = watcher_of(troupe_self_ref(self));
    s = subject_of(w, msg);
    cr_assert_eq(model.watched[w][s].form,
        troupe_msg_tag(msg) == TROUPE_TAG_DOWN ? FORM_DOWN : FORM_OWN);
    if (below(4) == 0 && troupe_stash(self) == TROUPE_OK) {
        return TROUPE_CONTINUE; /* it will come again */
    }
    model.watched[w][s].form = FORM_NONE;
    model.told++;
    return TROUPE_CONTINUE;
}

static const troupe_actor_type anything_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "anything",
    .receive = receive_anything,
};

static void
end_watcher(uint32_t w)
{
    stop(model.watcher[w]);
    model.watcher[w] = spawn(&anything_type);
    memset(model.watched[w], 0, sizeof model.watched[w]);
}

/* Nobody stashes for ever: in the end each has what it waits for. */
static void
settle(void)
{
    for (uint32_t s = 0; s < SUBJECTS; s++) {
        stop(model.subject[s]);
    }
    for (uint32_t i = 0; i < 64; i++) {
        for (uint32_t w = 0; w < WATCHERS; w++) {
            call(model.watcher[w], do_unstash, NULL);
        }
    }
    for (uint32_t w = 0; w < WATCHERS; w++) {
        for (uint32_t s = 0; s < SUBJECTS; s++) {
            cr_assert_eq(model.watched[w][s].form, FORM_NONE,
                "%u waits for %u still", w, s);
        }
    }
}

static void
step(void)
{
    uint32_t s = below(SUBJECTS);
    troupe_run run;

    switch (below(8)) {
    case 0: /* the others hear of the old one when they have forgotten it */
        (void)!troupe_post_stop(the_system, model.subject[s]);
        break;
    case 1:
        (void)!troupe_post_stop_now(the_system, model.subject[s]);
        break;
    case 2:
        if (below(20) == 0) {
            end_watcher(below(WATCHERS));
        }
        break;
    case 3:
        cr_assert_eq(
            troupe_system_run(the_system, 1 + below(6), &run), TROUPE_OK);
        break;
    case 4:
        if (below(20) == 0) {
            settle();
            for (uint32_t i = 0; i < SUBJECTS; i++) {
                model.subject[i] = spawn(&test_plain);
            }
        }
        break;
    default:
        call_later(model.watcher[below(WATCHERS)], do_anything, NULL);
        break;
    }
}

Test(watch, random_calls_agree_with_a_simple_reference)
{
    memset(&model, 0, sizeof model);
    model.rng.state = test_seed();
    test_close(the_system);
    the_system = test_open_driven(test_random(&model.rng) | 1);
    for (uint32_t i = 0; i < WATCHERS; i++) {
        model.watcher[i] = spawn(&anything_type);
    }
    for (uint32_t i = 0; i < SUBJECTS; i++) {
        model.subject[i] = spawn(&test_plain);
    }
    for (uint32_t i = 0; i < STEPS; i++) {
        step();
    }
    test_run(the_system);
    settle();
    cr_assert_gt(model.told, 100);
    for (uint32_t i = 0; i < WATCHERS; i++) {
        stop(model.watcher[i]);
    }
    cr_assert_eq(atomic_load(&drops), model.made, "%zu of %zu",
        (size_t)atomic_load(&drops), (size_t)model.made);
    cr_assert_gt(test_counters(the_system).cancelled, 0);
}
