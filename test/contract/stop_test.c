/* SPDX-License-Identifier: MIT */
#include "support/system.h"

#include "support/await.h"

#include <troupe/port.h>

#include <criterion/criterion.h>

#include <stdatomic.h>
#include <string.h>

TEST_DRIVEN_SUITE(stop);

/* --- one actor ------------------------------------------------------------ */

Test(stop, handles_what_was_queued_before)
{
    struct test_record record = {0};
    troupe_ref ref = test_spawn_recorder(the_system, NULL, &record);

    test_post_numbers(the_system, ref, 500);
    cr_assert_eq(troupe_post_stop(the_system, ref), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(record.count, 500);
    cr_assert_eq(record.stopped, 1);
    cr_assert_eq(record.exit.kind, TROUPE_EXIT_STOPPED);
    cr_assert_eq(record.exit.code, 0);
    cr_assert(troupe_ref_equal(record.exit.actor, ref));
    cr_assert_eq(test_letters.total, 0);
}

Test(stop, does_not_handle_what_was_queued_after)
{
    struct test_record record = {0};
    troupe_ref ref = test_spawn_recorder(the_system, NULL, &record);

    test_post_numbers(the_system, ref, 5);
    cr_assert_eq(troupe_post_stop(the_system, ref), TROUPE_OK);
    test_post_numbers(the_system, ref, 7);
    test_run(the_system);
    cr_assert_eq(record.count, 5);
    cr_assert_eq(test_letters.by_reason[TROUPE_DEAD_STOPPED], 7);
}

Test(stop, now_makes_dead_letters_of_what_is_queued)
{
    struct test_record record = {0};
    troupe_ref ref = test_spawn_recorder(the_system, NULL, &record);

    test_run(the_system);
    test_post_numbers(the_system, ref, 500);
    cr_assert_eq(troupe_post_stop_now(the_system, ref), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(record.count, 0);
    cr_assert_eq(record.stopped, 1);
    cr_assert_eq(test_letters.by_reason[TROUPE_DEAD_STOPPED], 500);
}

static troupe_verdict
stop_self(troupe_self *self, const troupe_msg *msg, void *user)
{
    struct test_record *record = user;

    (void)msg;
    record->count++;
    cr_assert_eq(troupe_stop(self, troupe_self_ref(self)), TROUPE_OK);
    return TROUPE_CONTINUE;
}

static troupe_verdict
stop_self_now(troupe_self *self, const troupe_msg *msg, void *user)
{
    struct test_record *record = user;

    (void)msg;
    record->count++;
    cr_assert_eq(troupe_stop_now(self, troupe_self_ref(self)), TROUPE_OK);
    record->started++; /* the current message is finished */
    return TROUPE_CONTINUE;
}

Test(stop, an_actor_may_stop_itself_and_drains)
{
    struct test_record record = {0};
    troupe_ref doer = test_spawn_doer(the_system, NULL);

    for (int i = 0; i < 5; i++) {
        test_do_later(the_system, doer, stop_self, &record);
    }
    test_run(the_system);
    cr_assert_eq(record.count, 5);
    cr_assert_eq(troupe_depth(the_system, doer), TROUPE_DEPTH_DEAD);
}

Test(stop, an_actor_may_stop_itself_now_after_the_current_message)
{
    struct test_record record = {0};
    troupe_ref doer = test_spawn_doer(the_system, NULL);

    for (int i = 0; i < 5; i++) {
        test_do_later(the_system, doer, stop_self_now, &record);
    }
    test_run(the_system);
    cr_assert_eq(record.count, 1);
    cr_assert_eq(record.started, 1);
    cr_assert_eq(test_letters.total, 4);
}

Test(stop, stopping_what_has_stopped_is_no_failure)
{
    troupe_ref ref = test_spawn_doer(the_system, NULL);

    for (int i = 0; i < 3; i++) {
        cr_assert_eq(troupe_post_stop(the_system, ref), TROUPE_OK);
        cr_assert_eq(troupe_post_stop_now(the_system, ref), TROUPE_OK);
    }
    test_run(the_system);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(troupe_post_stop(the_system, ref), TROUPE_OK);
        cr_assert_eq(troupe_post_stop_now(the_system, ref), TROUPE_OK);
    }
    cr_assert_eq(test_counters(the_system).stopped, 1);
}

Test(stop, none_is_invalid)
{
    cr_assert_eq(troupe_post_stop(the_system, TROUPE_NONE), TROUPE_E_INVALID);
    cr_assert_eq(
        troupe_post_stop_now(the_system, TROUPE_NONE), TROUPE_E_INVALID);
    cr_assert_eq(troupe_stop(NULL, TROUPE_NONE), TROUPE_E_INVALID);
    cr_assert_eq(troupe_stop_now(NULL, TROUPE_NONE), TROUPE_E_INVALID);
    cr_assert_eq(troupe_post_stop(NULL, TROUPE_NONE), TROUPE_E_INVALID);
}

static troupe_verdict
stop_a_port(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    cr_assert_eq(troupe_stop(self, *(troupe_ref *)user), TROUPE_E_STATE);
    cr_assert_eq(troupe_stop_now(self, *(troupe_ref *)user), TROUPE_E_STATE);
    return TROUPE_CONTINUE;
}

Test(stop, a_port_is_closed_by_who_opened_it)
{
    troupe_port *port;
    troupe_ref ref;

    cr_assert_eq(troupe_port_open(the_system, NULL, &port), TROUPE_OK);
    ref = troupe_port_ref(port);
    cr_assert_eq(troupe_post_stop(the_system, ref), TROUPE_E_STATE);
    cr_assert_eq(troupe_post_stop_now(the_system, ref), TROUPE_E_STATE);
    cr_assert_eq(troupe_last_error().status, TROUPE_E_STATE);
    test_do(the_system, test_spawn_doer(the_system, NULL), stop_a_port, &ref);
    cr_assert_eq(troupe_post(the_system, ref, &test_empty, NULL), TROUPE_OK);
    troupe_port_close(port);
}

Test(stop, an_actor_that_has_not_started_yet_can_be_stopped)
{
    struct test_record record = {0};
    troupe_ref ref = test_spawn_recorder(the_system, NULL, &record);

    cr_assert_eq(troupe_post_stop_now(the_system, ref), TROUPE_OK);
    test_run(the_system);
    /* Either it never started, or it started and stopped. */
    cr_assert_eq(record.started, record.stopped);
    cr_assert_eq(troupe_depth(the_system, ref), TROUPE_DEPTH_DEAD);
}

Test(stop, an_actor_that_has_not_started_yet_drains)
{
    struct test_record record = {0};
    troupe_ref ref = test_spawn_recorder(the_system, NULL, &record);

    test_post_numbers(the_system, ref, 3);
    cr_assert_eq(troupe_post_stop(the_system, ref), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(record.started, 1);
    cr_assert_eq(record.count, 3);
    cr_assert_eq(record.stopped, 1);
}

Test(stop, now_overtakes_a_stop_in_line)
{
    struct test_record record = {0};
    troupe_ref ref = test_spawn_recorder(the_system, NULL, &record);

    test_run(the_system);
    test_post_numbers(the_system, ref, 5);
    cr_assert_eq(troupe_post_stop(the_system, ref), TROUPE_OK);
    cr_assert_eq(troupe_post_stop_now(the_system, ref), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(record.count, 0);
    cr_assert_eq(record.stopped, 1);
}

static troupe_verdict
send_to_self_then_done(troupe_self *self, const troupe_msg *msg, void *user)
{
    uint64_t n = 1;

    (void)msg;
    (void)user;
    troupe_tell(self, troupe_self_ref(self), &test_number, &n);
    return TROUPE_DONE;
}

Test(stop, what_an_actor_sent_itself_before_done_is_a_dead_letter)
{
    test_do(the_system, test_spawn_doer(the_system, NULL),
        send_to_self_then_done, NULL);
    cr_assert_eq(test_letters.by_reason[TROUPE_DEAD_STOPPED], 1);
}

static troupe_status sent_in_stop;

static void
send_self_in_stop(troupe_self *self, void *state, const troupe_exit *why)
{
    uint64_t n = 1;

    (void)state;
    (void)why;
    sent_in_stop = troupe_send(self, troupe_self_ref(self), &test_number, &n);
    cr_assert_eq(troupe_stop(self, troupe_self_ref(self)), TROUPE_OK);
    cr_assert_eq(troupe_stop_now(self, troupe_self_ref(self)), TROUPE_OK);
}

Test(stop, a_message_to_one_that_is_stopping_is_refused)
{
    troupe_ref ref = test_spawn_with_stop(the_system, NULL, send_self_in_stop);

    cr_assert_eq(troupe_post_stop(the_system, ref), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(sent_in_stop, TROUPE_E_DEAD);
    cr_assert_eq(test_letters.total, 0);
    cr_assert_eq(test_counters(the_system).stopped, 1);
}

/* --- families ------------------------------------------------------------- */

static uint32_t ended;
static uint32_t end_of[64]; /* at which place in the order it ended */

struct member {
    uint32_t number;
    uint32_t depth; /* of descendants below */
};

static void
note_end(troupe_self *self, void *state, const troupe_exit *why)
{
    const struct member *member = state;

    (void)why;
    cr_assert_eq(troupe_children(self, NULL, 0), 0, "children go first");
    end_of[member->number] = ++ended;
}

static troupe_status start_member(troupe_self *, void *, const void *);

static const troupe_actor_type member_type = {.size = sizeof(troupe_actor_type),
    .name = "member",
    .state_bytes = sizeof(struct member),
    .receive = test_ignore,
    .start = start_member,
    .stop = note_end};

/* Two children each, numbered like a heap. */
static troupe_status
start_member(troupe_self *self, void *state, const void *arg)
{
    struct member *member = state;

    memcpy(member, arg, sizeof *member);
    for (uint32_t i = 1; i <= 2 && member->depth > 0; i++) {
        struct member child = {2 * member->number + i, member->depth - 1};
        troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
        troupe_ref ref;

        options.arg = &child;
        options.arg_bytes = sizeof child;
        cr_assert_eq(
            troupe_spawn(self, &member_type, &options, &ref), TROUPE_OK);
    }
    return TROUPE_OK;
}

static troupe_ref
spawn_tree(uint32_t depth)
{
    struct member root = {0, depth};
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    troupe_ref ref;

    options.arg = &root;
    options.arg_bytes = sizeof root;
    cr_assert_eq(troupe_system_spawn(the_system, &member_type, &options, &ref),
        TROUPE_OK);
    test_run(the_system);
    return ref;
}

static void
expect_children_first(uint32_t members)
{
    cr_assert_eq(ended, members);
    for (uint32_t i = 1; i < members; i++) {
        cr_assert_lt(end_of[i], end_of[(i - 1) / 2], "%u before its parent", i);
    }
    cr_assert_eq(test_counters(the_system).actors, 0);
}

Test(stop, children_go_before_their_parents)
{
    cr_assert_eq(troupe_post_stop(the_system, spawn_tree(4)), TROUPE_OK);
    test_run(the_system);
    expect_children_first(31);
}

Test(stop, now_takes_the_children_first_as_well)
{
    cr_assert_eq(troupe_post_stop_now(the_system, spawn_tree(4)), TROUPE_OK);
    test_run(the_system);
    expect_children_first(31);
}

Test(stop, of_the_system_takes_the_children_first_as_well)
{
    (void)spawn_tree(4);
    troupe_system_request_stop(the_system);
    test_run(the_system);
    expect_children_first(31);
}

static struct test_record child_record;
static troupe_ref child_ref;

static troupe_verdict
have_child(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    (void)user;
    child_ref = test_spawn_recorder_below(self, "child", &child_record);
    return TROUPE_CONTINUE;
}

static troupe_ref
parent_with_busy_child(void)
{
    troupe_ref parent = test_spawn_doer(the_system, "parent");

    test_do(the_system, parent, have_child, NULL);
    test_post_numbers(the_system, child_ref, 10);
    return parent;
}

Test(stop, of_a_parent_does_not_let_its_children_drain)
{
    troupe_ref parent = parent_with_busy_child();

    cr_assert_eq(troupe_post_stop_now(the_system, parent), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(child_record.stopped, 1);
    cr_assert_eq(child_record.exit.kind, TROUPE_EXIT_STOPPED);
    cr_assert_eq(child_record.count + test_letters.total, 10);
    cr_assert_eq(troupe_depth(the_system, parent), TROUPE_DEPTH_DEAD);
}

Test(stop, of_a_child_leaves_the_parent_alone)
{
    troupe_ref parent = parent_with_busy_child();

    cr_assert_eq(troupe_post_stop(the_system, child_ref), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(child_record.count, 10);
    cr_assert_eq(troupe_depth(the_system, parent), 0);
}

static troupe_verdict
stop_the_child(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    (void)user;
    cr_assert_eq(troupe_stop(self, child_ref), TROUPE_OK);
    return TROUPE_CONTINUE;
}

Test(stop, any_actor_may_stop_any_other)
{
    (void)parent_with_busy_child();
    test_do(
        the_system, test_spawn_doer(the_system, NULL), stop_the_child, NULL);
    cr_assert_eq(child_record.stopped, 1);
    cr_assert_eq(child_record.count, 10);
}

static troupe_verdict
spawn_and_done(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    (void)user;
    for (int i = 0; i < 20; i++) {
        (void)test_spawn_doer_below(self, NULL);
    }
    return TROUPE_DONE;
}

Test(stop, children_spawned_in_the_last_turn_go_too)
{
    test_do(
        the_system, test_spawn_doer(the_system, NULL), spawn_and_done, NULL);
    cr_assert_eq(test_counters(the_system).actors, 0);
    cr_assert_eq(test_counters(the_system).stopped, 21);
}

static troupe_verdict
stop_parent(troupe_self *self, const troupe_msg *msg, void *user)
{
    struct test_record *record = user;

    (void)msg;
    cr_assert_eq(troupe_stop_now(self, troupe_parent(self)), TROUPE_OK);
    record->count++;
    return TROUPE_CONTINUE;
}

static struct test_record stopping_record;

Test(stop, a_child_may_stop_its_parent)
{
    troupe_ref parent = test_spawn_doer(the_system, NULL);

    test_do(the_system, parent, test_have_child, &child_ref);
    for (int i = 0; i < 5; i++) {
        test_do_later(the_system, child_ref, stop_parent, &stopping_record);
    }
    test_run(the_system);
    cr_assert_eq(stopping_record.count + test_letters.total, 5);
    cr_assert_geq(stopping_record.count, 1);
    cr_assert_eq(test_counters(the_system).actors, 0);
}

static troupe_verdict
stop_self_and_go_on(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    (void)user;
    cr_assert_eq(troupe_stop_now(self, troupe_self_ref(self)), TROUPE_OK);
    /* The current message is finished first: still a full actor. */
    child_ref = test_spawn_recorder_below(self, NULL, &child_record);
    return TROUPE_CONTINUE;
}

Test(stop, what_is_spawned_after_a_stop_of_oneself_goes_too)
{
    test_do(the_system, test_spawn_doer(the_system, NULL), stop_self_and_go_on,
        NULL);
    cr_assert_eq(troupe_depth(the_system, child_ref), TROUPE_DEPTH_DEAD);
    cr_assert_eq(test_counters(the_system).actors, 0);
    cr_assert_eq(test_counters(the_system).stopped, 2);
}

static troupe_status spawned_in_stop = TROUPE_OK;

static void
spawn_in_stop(troupe_self *self, void *state, const troupe_exit *why)
{
    troupe_ref ref = {4, 4};

    (void)state;
    (void)why;
    spawned_in_stop = troupe_spawn(self, &member_type, NULL, &ref);
    cr_assert_eq(ref.index, 4);
}

Test(stop, one_that_is_in_its_stop_spawns_nobody)
{
    troupe_ref ref = test_spawn_with_stop(the_system, NULL, spawn_in_stop);

    cr_assert_eq(troupe_post_stop(the_system, ref), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(spawned_in_stop, TROUPE_E_STATE);
}

static troupe_verdict
fail_in_the_end(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    (void)user;
    for (int i = 0; i < 3; i++) {
        (void)test_spawn_doer_below(self, NULL);
    }
    return troupe_fail(self, 9);
}

Test(stop, children_of_one_that_failed_go_too)
{
    troupe_port *port;
    troupe_ref doer = test_spawn_mortal_doer(the_system);
    const troupe_msg *msg;

    cr_assert_eq(troupe_port_open(the_system, NULL, &port), TROUPE_OK);
    cr_assert_eq(troupe_port_watch(port, doer), TROUPE_OK);
    test_do(the_system, doer, fail_in_the_end, NULL);
    cr_assert_eq(test_counters(the_system).actors, 0);
    msg = troupe_port_next(port);
    cr_assert_not_null(msg);
    cr_assert_eq(troupe_down(msg)->kind, TROUPE_EXIT_FAILED);
    cr_assert_eq(troupe_down(msg)->code, 9);
    troupe_port_close(port);
}

Test(stop, the_first_reason_is_the_reason)
{
    troupe_port *port;
    troupe_ref ref;
    struct test_record record = {.answer = TROUPE_DONE};

    ref = test_spawn_recorder(the_system, NULL, &record);
    cr_assert_eq(troupe_port_open(the_system, NULL, &port), TROUPE_OK);
    cr_assert_eq(troupe_port_watch(port, ref), TROUPE_OK);
    test_post_number(the_system, ref, 1);
    cr_assert_eq(troupe_post_stop(the_system, ref), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(troupe_down(troupe_port_next(port))->kind, TROUPE_EXIT_DONE);
    troupe_port_close(port);
}

/* The roots of the tree are nobody's to stop. */
Test(stop, user_and_system_cannot_be_stopped)
{
    static const char *const roots[] = {"/user", "/system"};
    struct test_record record = {0};
    troupe_ref ref = test_spawn_recorder(the_system, NULL, &record);

    for (int i = 0; i < 2; i++) {
        troupe_ref root;

        cr_assert_eq(troupe_lookup(the_system, roots[i], &root), TROUPE_OK);
        cr_assert_lt(troupe_post_stop(the_system, root), TROUPE_OK);
        cr_assert_lt(troupe_post_stop_now(the_system, root), TROUPE_OK);
        cr_assert_lt(
            troupe_stop_wait(the_system, &root, 1, TROUPE_S(60)), TROUPE_OK);
        (void)!troupe_post(the_system, root, &test_empty, NULL);
        test_run(the_system);
        cr_assert_eq(troupe_lookup(the_system, roots[i], &root), TROUPE_OK);
    }
    test_post_number(the_system, ref, 1);
    test_run(the_system);
    cr_assert_eq(record.count, 1);
}

/* --- stop_wait ------------------------------------------------------------ */

Test(stop, wait_stops_all_and_returns_when_they_have_gone)
{
    static struct test_record records[20];
    troupe_ref refs[20];

    for (int i = 0; i < 20; i++) {
        refs[i] = test_spawn_recorder(the_system, NULL, &records[i]);
        test_post_numbers(the_system, refs[i], 30);
    }
    cr_assert_eq(
        troupe_stop_wait(the_system, refs, 20, TROUPE_S(60)), TROUPE_OK);
    for (int i = 0; i < 20; i++) {
        cr_assert_eq(records[i].count, 30);
        cr_assert_eq(records[i].stopped, 1);
        cr_assert_eq(troupe_depth(the_system, refs[i]), TROUPE_DEPTH_DEAD);
    }
}

Test(stop, wait_for_nobody_and_for_those_that_have_gone_returns_at_once)
{
    troupe_ref refs[2];

    refs[0] = refs[1] = test_spawn_doer(the_system, NULL);
    cr_assert_eq(troupe_stop_wait(the_system, NULL, 0, 0), TROUPE_OK);
    cr_assert_eq(troupe_stop_wait(the_system, refs, 2, 0), TROUPE_OK);
    cr_assert_eq(troupe_stop_wait(the_system, refs, 2, 0), TROUPE_OK);
}

Test(stop, wait_refuses_nonsense)
{
    troupe_ref none = TROUPE_NONE;

    cr_assert_eq(troupe_stop_wait(the_system, NULL, 2, 0), TROUPE_E_INVALID);
    cr_assert_eq(troupe_stop_wait(NULL, &none, 1, 0), TROUPE_E_INVALID);
    cr_assert_eq(troupe_stop_wait(the_system, &none, 1, 0), TROUPE_E_INVALID);
}

Test(stop, wait_for_a_port_is_refused)
{
    troupe_port *port;
    troupe_ref refs[2];

    cr_assert_eq(troupe_port_open(the_system, NULL, &port), TROUPE_OK);
    refs[0] = test_spawn_doer(the_system, NULL);
    refs[1] = troupe_port_ref(port);
    cr_assert_eq(troupe_stop_wait(the_system, &refs[1], 1, 0), TROUPE_E_STATE);
    cr_assert_eq(troupe_stop_wait(the_system, refs, 2, 0), TROUPE_E_STATE);
    cr_assert_eq(troupe_depth(the_system, refs[1]), 0, "it is open");
    troupe_port_close(port);
}

static troupe_verdict
wait_inside(troupe_self *self, const troupe_msg *msg, void *user)
{
    troupe_ref me = troupe_self_ref(self);

    (void)msg;
    (void)user;
    cr_assert_eq(troupe_stop_wait(troupe_self_system(self), &me, 1, 0),
        TROUPE_E_CONTEXT);
    cr_assert_eq(troupe_last_error().status, TROUPE_E_CONTEXT);
    return TROUPE_CONTINUE;
}

Test(stop, wait_stops_nobody_if_one_of_them_is_not_to_be_stopped)
{
    struct test_record record = {0};
    troupe_port *port;
    troupe_ref two[2];

    cr_assert_eq(troupe_port_open(the_system, NULL, &port), TROUPE_OK);
    two[0] = test_spawn_recorder(the_system, NULL, &record);
    two[1] = TROUPE_NONE;
    cr_assert_eq(
        troupe_stop_wait(the_system, two, 2, TROUPE_S(1)), TROUPE_E_INVALID);
    two[1] = troupe_port_ref(port);
    cr_assert_eq(
        troupe_stop_wait(the_system, two, 2, TROUPE_S(1)), TROUPE_E_STATE);
    test_run(the_system);
    cr_assert_eq(record.stopped, 0);
    troupe_port_close(port);
}

Test(stop, wait_inside_a_behaviour_is_refused)
{
    troupe_ref doer = test_spawn_doer(the_system, NULL);

    test_do(the_system, doer, wait_inside, NULL);
    cr_assert_eq(troupe_depth(the_system, doer), 0, "it was not stopped");
}

Test(stop, wait_leaves_nothing_behind)
{
    troupe_counters before;

    (void)test_spawn_doer(the_system, NULL);
    test_run(the_system);
    before = test_counters(the_system);
    for (int i = 0; i < 50; i++) {
        troupe_ref ref = test_spawn_doer(the_system, NULL);

        cr_assert_eq(troupe_stop_wait(the_system, &ref, 1, 0), TROUPE_OK);
    }
    cr_assert_eq(test_counters(the_system).bytes, before.bytes);
    cr_assert_eq(test_counters(the_system).actors, before.actors);
}

/* --- with workers --------------------------------------------------------- */

Test(stop_threads, wait_blocks_until_they_have_gone)
{
    troupe_system *system = test_open_threads(2);
    static struct test_record records[50];
    troupe_ref refs[50];

    for (int i = 0; i < 50; i++) {
        refs[i] = test_spawn_recorder(system, NULL, &records[i]);
        for (int k = 0; k < 50; k++) {
            test_post_number(system, refs[i], (uint64_t)k);
        }
    }
    cr_assert_eq(troupe_stop_wait(system, refs, 50, TROUPE_S(60)), TROUPE_OK);
    for (int i = 0; i < 50; i++) {
        cr_assert_eq(records[i].count, 50);
        cr_assert_eq(records[i].stopped, 1);
    }
    test_close(system);
}

Test(stop_threads, wait_at_the_deadline_stops_the_rest_now)
{
    troupe_system *system = test_open_threads(2);
    troupe_ref stuck = test_spawn_doer(system, NULL);
    troupe_ref refs[2];

    refs[0] = stuck;
    refs[1] = test_spawn_doer(system, NULL);
    for (int i = 0; i < 10; i++) {
        test_do_later(system, stuck, test_stay, NULL);
    }
    cr_assert(test_await_at_least(&test_inside, 1));
    cr_assert_eq(
        troupe_stop_wait(system, refs, 2, TROUPE_MS(20)), TROUPE_E_TIMEOUT);
    atomic_store(&test_may_leave, 1);
    cr_assert_eq(troupe_system_await_idle(system, TROUPE_S(60)), TROUPE_OK);
    cr_assert_eq(troupe_depth(system, refs[1]), TROUPE_DEPTH_DEAD);
    /* What was queued behind it is gone: it was a stop_now. */
    cr_assert_eq(test_inside, 1);
    cr_assert_eq(test_letters.by_reason[TROUPE_DEAD_STOPPED], 9);
    cr_assert_eq(troupe_depth(system, stuck), TROUPE_DEPTH_DEAD);
    test_close(system);
}

Test(stop_threads, now_is_seen_by_one_that_is_busy)
{
    troupe_system *system = test_open_threads(2);
    troupe_ref stuck = test_spawn_doer(system, NULL);

    for (int i = 0; i < 10; i++) {
        test_do_later(system, stuck, test_stay, NULL);
    }
    cr_assert(test_await_at_least(&test_inside, 1));
    cr_assert_eq(troupe_post_stop_now(system, stuck), TROUPE_OK);
    atomic_store(&test_may_leave, 1);
    cr_assert_eq(troupe_system_await_idle(system, TROUPE_S(60)), TROUPE_OK);
    cr_assert_eq(test_inside, 1);
    cr_assert_eq(test_letters.total, 9);
    test_close(system);
}
