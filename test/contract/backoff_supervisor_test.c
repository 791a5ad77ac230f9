/* SPDX-License-Identifier: MIT */
#include "support/await.h"
#include "support/system.h"

#include <troupe/ask.h>
#include <troupe/backoff_supervisor.h>
#include <troupe/port.h>
#include <troupe/testkit.h>
#include <troupe/timer.h>
#include <troupe/tree.h>

#include <criterion/criterion.h>

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/*
 * A supervisor with a child that writes a journal: "n+" at a start, "n-" at a
 * failing one, a number for each message. Time is virtual.
 */

enum { FAIL = 1000, END = 2000 }; /* to the child, instead of a number */

static troupe_system *the_system;
static char journal[8192];
static uint32_t bad_starts;  /* so many of the next starts fail, code 90 */
static troupe_ref the_child; /* the last that has started */
static troupe_ref last_sender;
static uint64_t start_ms[64];
static uint32_t starts;

__attribute__((format(printf, 1, 2))) static void
note(const char *format, ...)
{
    size_t used = strlen(journal);
    va_list args;

    va_start(args, format);
    (void)vsnprintf(journal + used, sizeof journal - used, format, args);
    va_end(args);
}

/* The journal, which begins anew. */
static const char *
written(void)
{
    static char copy[sizeof journal];

    strcpy(copy, journal);
    journal[0] = '\0';
    return copy;
}

static void
forget(void)
{
    journal[0] = '\0';
    bad_starts = 0;
    starts = 0;
    the_child = TROUPE_NONE;
}

static void
setup(void)
{
    forget();
    the_system = test_open_driven(3);
}

static void
teardown(void)
{
    test_close(the_system);
}

TestSuite(backoff_supervisor, .init = setup, .fini = teardown);

/* --- the child ------------------------------------------------------------ */

static troupe_status
start_child(troupe_self *self, void *state, const void *arg)
{
    (void)state;
    (void)arg;
    start_ms[starts++ % 64] =
        troupe_now_ns(troupe_self_system(self)) / TROUPE_MS(1);
    if (bad_starts > 0) {
        bad_starts--;
        note("%u- ", starts);
        (void)troupe_fail(self, 90);
        return TROUPE_E_FAILED;
    }
    the_child = troupe_self_ref(self);
    note("%u+ ", starts);
    return TROUPE_OK;
}

static troupe_verdict
receive_child(troupe_self *self, void *state, const troupe_msg *msg)
{
    uint64_t number = *troupe_payload(msg, uint64_t);

    (void)state;
    last_sender = msg->sender;
    if (number == END) {
        return TROUPE_DONE;
    }
    if (number >= FAIL) {
        return troupe_fail(self, (int32_t)(number - FAIL));
    }
    note("%u ", (unsigned)number);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type child_type = {
    .size = sizeof(troupe_actor_type),
    .name = "flaky",
    .receive = receive_child,
    .start = start_child,
};

/* --- the supervisor ------------------------------------------------------- */

static const troupe_backoff pauses = {
    .size = sizeof pauses,
    .min_ns = TROUPE_MS(100),
    .max_ns = TROUPE_S(10),
    .jitter = TROUPE_JITTER_NONE,
};

/* Grace is 50 ms, reset 100 ms. */
static troupe_backoff_options
usual(void)
{
    troupe_backoff_options options = TROUPE_INIT(troupe_backoff_options);

    options.name = "device";
    options.child = &child_type;
    options.backoff = &pauses;
    return options;
}

static troupe_ref
spawn(const troupe_backoff_options *options)
{
    troupe_ref ref = TROUPE_NONE;

    cr_assert_eq(
        troupe_system_spawn_backoff(the_system, options, &ref), TROUPE_OK);
    test_run(the_system);
    return ref;
}

static void
advance_ms(uint64_t ms)
{
    cr_assert_eq(troupe_system_advance(the_system, TROUPE_MS(ms)), TROUPE_OK);
}

static void
tell(troupe_ref to, uint64_t number)
{
    test_post_number(the_system, to, number);
    test_run(the_system);
}

static bool
is_dead(troupe_ref ref)
{
    return troupe_depth(the_system, ref) == TROUPE_DEPTH_DEAD;
}

static bool
is_there(const char *path)
{
    troupe_ref ref;

    return troupe_lookup(the_system, path, &ref) == TROUPE_OK;
}

/* --- delays --------------------------------------------------------------- */

Test(backoff_supervisor, delays_grow_while_the_child_fails)
{
    static const uint64_t at[] = {0, 100, 300, 700, 1500, 3100, 6300, 12700,
        22700, 32700}; /* cut to 10 s from here on */
    troupe_backoff_options options = usual();

    bad_starts = 10;
    (void)spawn(&options);
    advance_ms(40000);
    cr_assert_geq(starts, 10);
    for (uint32_t i = 0; i < 10; i++) {
        cr_assert_eq(start_ms[i] - start_ms[0], at[i], "start %u at %u ms", i,
            (unsigned)(start_ms[i] - start_ms[0]));
    }
}

Test(backoff_supervisor, a_child_that_lived_long_enough_starts_over)
{
    troupe_backoff_options options = usual();
    troupe_ref device;

    bad_starts = 3; /* at 0, 100, 300; lives from 700 on */
    device = spawn(&options);
    advance_ms(800); /* exactly as long as the shortest delay */
    tell(device, FAIL);
    advance_ms(99);
    cr_assert_eq(starts, 4);
    advance_ms(1);
    cr_assert_eq(starts, 5);
    advance_ms(99); /* one less */
    tell(device, FAIL);
    advance_ms(199);
    cr_assert_eq(starts, 5);
    advance_ms(1);
    cr_assert_eq(starts, 6);
}

Test(backoff_supervisor, delays_never_start_over_if_told_so)
{
    troupe_backoff_options options = usual();
    troupe_ref device;

    options.reset_ns = TROUPE_RESET_NEVER;
    device = spawn(&options);
    for (uint32_t i = 0; i < 3; i++) {
        advance_ms(3600000);
        tell(device, FAIL);
        advance_ms((UINT64_C(100) << i) - 1);
        cr_assert_eq(starts, i + 1);
        advance_ms(1);
        cr_assert_eq(starts, i + 2);
    }
}

Test(backoff_supervisor, the_time_after_which_they_do_is_an_option)
{
    troupe_backoff_options options = usual();
    troupe_ref device;

    options.reset_ns = TROUPE_S(5);
    device = spawn(&options);
    advance_ms(4999);
    tell(device, FAIL);
    advance_ms(100);
    cr_assert_eq(starts, 2);
    advance_ms(4999);
    tell(device, FAIL);
    advance_ms(199);
    cr_assert_eq(starts, 2);
    advance_ms(1);
    cr_assert_eq(starts, 3);
    advance_ms(5000);
    tell(device, FAIL);
    advance_ms(100);
    cr_assert_eq(starts, 4);
}

/* --- which end ------------------------------------------------------------ */

static void
check_trigger(troupe_trigger trigger, uint64_t end, bool comes_back)
{
    troupe_backoff_options options = usual();
    struct test_letters before;
    troupe_ref device;

    forget();
    options.trigger = trigger;
    options.name = NULL;
    device = spawn(&options);
    advance_ms(50);
    memcpy(&before, &test_letters, sizeof before);
    tell(device, end);
    cr_assert_eq(is_dead(device), !comes_back, "trigger %d", (int)trigger);
    advance_ms(150);
    cr_assert_eq(starts, comes_back ? 2 : 1);
    cr_assert_eq(test_letters.total, before.total);
}

Test(backoff_supervisor, the_trigger_says_which_end_brings_it_back)
{
    check_trigger(TROUPE_TRIGGER_ANY, FAIL, true);
    check_trigger(TROUPE_TRIGGER_ANY, END, true);
    check_trigger(TROUPE_TRIGGER_FAILURE, FAIL, true);
    check_trigger(TROUPE_TRIGGER_FAILURE, END, false);
    check_trigger(TROUPE_TRIGGER_STOP, FAIL, false);
    check_trigger(TROUPE_TRIGGER_STOP, END, true);
}

Test(backoff_supervisor, a_failing_start_is_a_failure)
{
    troupe_backoff_options options = usual();

    options.trigger = TROUPE_TRIGGER_STOP;
    bad_starts = 1;
    cr_assert(is_dead(spawn(&options)));
    cr_assert_str_eq(written(), "1- ");
}

Test(backoff_supervisor, a_child_that_somebody_stops_has_stopped)
{
    troupe_backoff_options options = usual();
    troupe_ref device;

    options.trigger = TROUPE_TRIGGER_FAILURE;
    device = spawn(&options);
    cr_assert_eq(troupe_post_stop(the_system, the_child), TROUPE_OK);
    test_run(the_system);
    cr_assert(is_dead(device));
}

static void
check_end(const troupe_backoff_options *options, uint64_t end,
    troupe_exit_kind kind, int32_t code)
{
    troupe_port *port;
    troupe_ref device;
    const troupe_msg *msg;

    forget();
    device = spawn(options);
    cr_assert_eq(troupe_port_open(the_system, NULL, &port), TROUPE_OK);
    cr_assert_eq(troupe_port_watch(port, device), TROUPE_OK);
    advance_ms(50);
    tell(device, end);
    msg = troupe_port_next(port);
    cr_assert_not_null(msg);
    cr_assert_eq(troupe_down(msg)->kind, kind);
    cr_assert_eq(troupe_down(msg)->code, code);
    troupe_port_close(port);
}

Test(backoff_supervisor, a_supervisor_that_ends_does_as_its_child_did)
{
    troupe_backoff_options options = usual();

    options.trigger = TROUPE_TRIGGER_FAILURE;
    check_end(&options, END, TROUPE_EXIT_DONE, 0);
    options.trigger = TROUPE_TRIGGER_STOP;
    check_end(&options, FAIL + 3, TROUPE_EXIT_FAILED, 3);
    options.trigger = TROUPE_TRIGGER_ANY;
    options.max_restarts = TROUPE_RESTARTS_NONE;
    check_end(&options, END, TROUPE_EXIT_DONE, 0);
    check_end(&options, FAIL + 4, TROUPE_EXIT_FAILED, 4);
    cr_assert_eq(test_counters(the_system).restarted, 0);
}

/* --- what is sent meanwhile ----------------------------------------------- */

Test(backoff_supervisor, five_failing_starts_lose_and_reorder_nothing)
{
    troupe_backoff_options options = usual();
    troupe_ref device;

    bad_starts = 5;
    device = spawn(&options); /* starts at 0, 100, 300, 700, 1500, 3100 */
    for (uint64_t i = 1; i <= 33; i++) {
        tell(device, i);
        advance_ms(100);
    }
    cr_assert_str_eq(written(),
        "1- 2- 3- 4- 5- 6+ 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 "
        "21 22 23 24 25 26 27 28 29 30 31 32 33 ");
    cr_assert_eq(test_letters.total, 0);
}

Test(backoff_supervisor, nothing_is_forwarded_before_the_grace_period_is_over)
{
    troupe_backoff_options options = usual();
    troupe_ref device;

    options.grace_ns = TROUPE_MS(20);
    device = spawn(&options);
    advance_ms(19);
    tell(device, 1);
    cr_assert_str_eq(written(), "1+ ");
    advance_ms(1);
    tell(device, 2);
    cr_assert_str_eq(written(), "1 2 ");
}

Test(backoff_supervisor, the_grace_period_is_at_most_50_ms_by_default)
{
    troupe_backoff short_pauses = pauses;
    troupe_backoff_options options = usual();
    troupe_ref device = spawn(&options);

    tell(device, 1);
    advance_ms(49);
    cr_assert_str_eq(written(), "1+ ");
    advance_ms(1);
    cr_assert_str_eq(written(), "1 ");
    short_pauses.min_ns = TROUPE_MS(7);
    options.backoff = &short_pauses;
    options.name = "quick";
    device = spawn(&options);
    tell(device, 2);
    advance_ms(6);
    cr_assert_str_eq(written(), "2+ ");
    advance_ms(1);
    cr_assert_str_eq(written(), "2 ");
}

Test(backoff_supervisor, without_one_a_message_goes_to_the_child_at_once)
{
    troupe_backoff_options options = usual();
    troupe_ref device;

    options.grace_ns = TROUPE_GRACE_NONE;
    device = spawn(&options);
    tell(device, 1);
    cr_assert_str_eq(written(), "1+ 1 ");
    tell(device, FAIL);
    tell(device, 2);
    tell(device, 3);
    cr_assert_str_eq(written(), "");
    advance_ms(100);
    cr_assert_str_eq(written(), "2+ 2 3 ");
}

Test(backoff_supervisor, forwarding_early_may_reorder)
{
    troupe_backoff_options options = usual();
    troupe_ref device;

    options.flags = TROUPE_BACKOFF_FORWARD_EARLY;
    bad_starts = 1;
    device = spawn(&options);
    tell(device, 1); /* held: there is no child */
    advance_ms(100);
    tell(device, 2); /* not held: the second one */
    cr_assert_str_eq(written(), "1- 2+ 2 ");
    advance_ms(50);
    cr_assert_str_eq(written(), "1 ");
    tell(device, 3);
    cr_assert_str_eq(written(), "3 ");
}

/* Both are queued when the supervisor and its child have their first turn. */
Test(backoff_supervisor, forwarding_early_may_lose_what_a_bad_start_gets)
{
    troupe_backoff_options options = usual();
    troupe_ref device;

    options.flags = TROUPE_BACKOFF_FORWARD_EARLY;
    bad_starts = 1;
    cr_assert_eq(
        troupe_system_spawn_backoff(the_system, &options, &device), TROUPE_OK);
    test_post_number(the_system, device, 1);
    test_run(the_system);
    advance_ms(200);
    cr_assert_str_eq(written(), "1- 2+ ");
    cr_assert_eq(test_letters.by_reason[TROUPE_DEAD_STOPPED], 1);
}

/* Fails on its own account, not because of a message of ours. */
Test(backoff_supervisor, a_child_that_fails_in_its_grace_period_got_nothing)
{
    troupe_backoff_options options = usual();
    troupe_ref device = spawn(&options);

    tell(device, 1);
    tell(device, 2);
    advance_ms(49);
    tell(the_child, FAIL);
    advance_ms(300);
    cr_assert_str_eq(written(), "1+ 2+ 1 2 ");
    cr_assert_eq(test_letters.total, 0);
}

static troupe_verdict
send_five(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    for (uint64_t i = 1; i <= 5; i++) {
        troupe_tell(self, *(troupe_ref *)user, &test_number, &i);
    }
    return TROUPE_CONTINUE;
}

Test(backoff_supervisor, the_sender_is_kept)
{
    troupe_backoff_options options = usual();
    troupe_ref doer = test_spawn_doer(the_system, NULL);
    troupe_ref device = spawn(&options);

    test_do(the_system, doer, send_five, &device);
    advance_ms(50);
    cr_assert_str_eq(written(), "1+ 1 2 3 4 5 ");
    cr_assert(troupe_ref_equal(last_sender, doer), "held");
    last_sender = TROUPE_NONE;
    test_do(the_system, doer, send_five, &device);
    cr_assert_str_eq(written(), "1 2 3 4 5 ");
    cr_assert(troupe_ref_equal(last_sender, doer), "forwarded");
}

/* The child has ended, and the supervisor does not know yet. */
static troupe_verdict
stop_then_send(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)troupe_stop_now(self, the_child);
    return send_five(self, msg, user);
}

Test(backoff_supervisor, what_is_sent_to_a_child_that_has_gone_is_held)
{
    troupe_backoff_options options = usual();
    troupe_ref doer = test_spawn_doer(the_system, NULL);
    troupe_ref device = spawn(&options);

    advance_ms(50);
    test_do(the_system, doer, stop_then_send, &device);
    advance_ms(149);
    cr_assert_str_eq(written(), "1+ 2+ ");
    advance_ms(1);
    cr_assert_str_eq(written(), "1 2 3 4 5 ");
    cr_assert_eq(test_letters.total, 0);
}

/* 0: it ends without an answer. */
static troupe_verdict
answer(troupe_self *self, void *state, const troupe_msg *msg)
{
    uint64_t number = *troupe_payload(msg, uint64_t);

    (void)state;
    if (number == 0) {
        return TROUPE_DONE;
    }
    number++;
    troupe_reply(self, &test_number, &number);
    return TROUPE_CONTINUE;
}

Test(backoff_supervisor, an_ask_through_it_is_answered_by_the_child)
{
    static const troupe_actor_type answers = {.size = sizeof answers,
        .name = "answers",
        .receive = answer,
        .start = start_child};
    troupe_backoff_options options = usual();
    troupe_answer got;
    troupe_ref device;

    options.child = &answers;
    bad_starts = 5;
    device = spawn(&options);
    for (uint64_t i = 1; i <= 2; i++) {
        cr_assert_eq(troupe_ask_wait(the_system, device, &test_number, &i,
                         TROUPE_S(60), &got),
            TROUPE_OK);
        cr_assert_eq(*troupe_payload(got.reply, uint64_t), i + 1);
        troupe_msg_free(got.reply);
    }
    cr_assert_eq(starts, 6);
    cr_assert_eq(troupe_ask_wait(the_system, device, &test_number,
                     &(uint64_t){0}, TROUPE_S(60), &got),
        TROUPE_E_DEAD, "the child's death, not the supervisor's");
}

/* Another one takes its place, a little later. */
Test(backoff_supervisor, an_ask_that_is_evicted_has_ended)
{
    troupe_backoff_options options = usual();
    troupe_answer got;
    troupe_ref device;

    options.stash_capacity = 1;
    device = spawn(&options);
    cr_assert_eq(troupe_post_after(the_system, device, &test_number,
                     &(uint64_t){9}, TROUPE_MS(1), NULL),
        TROUPE_OK);
    cr_assert_eq(troupe_ask_wait(the_system, device, &test_number,
                     &(uint64_t){1}, TROUPE_S(60), &got),
        TROUPE_E_DEAD);
    cr_assert_eq(test_letters.by_reason[TROUPE_DEAD_STASH], 1);
    cr_assert_eq(test_letters.last.number, 1);
}

Test(backoff_supervisor, a_full_stash_loses_the_oldest)
{
    troupe_backoff_options options = usual();
    troupe_ref device;

    options.stash_capacity = 3;
    bad_starts = 1;
    device = spawn(&options);
    for (uint64_t i = 1; i <= 5; i++) {
        tell(device, i);
        cr_assert_eq(test_letters.total, i <= 3 ? 0 : i - 3);
    }
    cr_assert_eq(test_letters.by_reason[TROUPE_DEAD_STASH], 2);
    cr_assert_eq(test_letters.last.number, 2);
    cr_assert(troupe_ref_equal(test_letters.last.recipient, device));
    advance_ms(150);
    cr_assert_str_eq(written(), "1- 2+ 3 4 5 ");
}

Test(backoff_supervisor, a_thousand_are_held_by_default)
{
    troupe_backoff_options options = usual();
    troupe_ref device = spawn(&options);

    test_post_numbers(the_system, device, 1001);
    test_run(the_system);
    cr_assert_eq(test_letters.by_reason[TROUPE_DEAD_STASH], 1);
    cr_assert_eq(test_letters.last.number, 0);
}

Test(backoff_supervisor, nothing_is_held_if_told_so)
{
    troupe_backoff_options options = usual();
    troupe_ref device;

    options.hold = TROUPE_HOLD_DROP;
    bad_starts = 1;
    device = spawn(&options);
    tell(device, 1);
    advance_ms(100);
    tell(device, 2); /* not confirmed yet */
    cr_assert_eq(test_letters.by_reason[TROUPE_DEAD_UNHANDLED], 2);
    cr_assert_eq(test_letters.last.number, 2);
    advance_ms(50);
    tell(device, 3);
    cr_assert_str_eq(written(), "1- 2+ 3 ");
    cr_assert_eq(test_letters.total, 2);
}

Test(backoff_supervisor, what_is_held_at_a_stop_becomes_dead_letters)
{
    troupe_backoff_options options = usual();
    troupe_ref device = spawn(&options);

    for (uint64_t i = 1; i <= 4; i++) {
        tell(device, i);
    }
    cr_assert_eq(test_counters(the_system).queued, 4);
    cr_assert_eq(troupe_post_stop(the_system, device), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(test_letters.by_reason[TROUPE_DEAD_STASH], 4);
    cr_assert_eq(test_letters.total, 4);
    cr_assert(is_dead(the_child));
}

Test(backoff_supervisor, payloads_that_own_something_are_held_and_evicted)
{
    _Atomic uint64_t drops = 0;
    troupe_backoff_options options = usual();
    troupe_ref device;

    options.stash_capacity = 2;
    device = spawn(&options);
    for (uint64_t i = 0; i < 4; i++) {
        struct test_large payload = {.owned = {&drops, i}};

        cr_assert_eq(troupe_post(the_system, device,
                         i % 2 == 0 ? &test_large : &test_shared, &payload),
            TROUPE_OK);
        test_run(the_system);
    }
    cr_assert_eq(drops, 2);
    cr_assert_eq(troupe_post_stop(the_system, device), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(drops, 4);
}

/* --- giving up ------------------------------------------------------------ */

Test(backoff_supervisor, the_budget_is_literal)
{
    troupe_backoff_options options = usual();
    troupe_ref device;

    options.max_restarts = 3;
    bad_starts = UINT32_MAX;
    device = spawn(&options);
    tell(device, 1);
    tell(device, 2);
    advance_ms(699);
    cr_assert_str_eq(written(), "1- 2- 3- ");
    cr_assert(!is_dead(device));
    advance_ms(1);
    cr_assert_str_eq(written(), "4- ");
    cr_assert(is_dead(device));
    cr_assert_eq(test_letters.by_reason[TROUPE_DEAD_STASH], 2);
}

Test(backoff_supervisor, a_budget_of_none_is_no_restart)
{
    troupe_backoff_options options = usual();
    troupe_ref device;

    options.max_restarts = TROUPE_RESTARTS_NONE;
    device = spawn(&options);
    advance_ms(50);
    tell(device, FAIL);
    cr_assert(is_dead(device));
    cr_assert_eq(starts, 1);
}

Test(backoff_supervisor, restarts_outside_the_window_do_not_count)
{
    troupe_backoff_options options = usual();
    troupe_ref device;

    options.max_restarts = 2;
    options.window_ns = TROUPE_S(10);
    device = spawn(&options);
    for (uint32_t i = 1; i <= 20; i++) { /* every 5 s: two in any 10 s */
        advance_ms(5001);
        tell(device, FAIL);
        cr_assert(!is_dead(device), "%u", i);
    }
    advance_ms(2000);
    tell(device, FAIL);
    cr_assert(is_dead(device));
}

static troupe_exit parent_exit;
static uint32_t parent_starts;
static troupe_ref parent_device;

static troupe_status
start_parent(troupe_self *self, void *state, const void *arg)
{
    troupe_backoff_options options = usual();

    (void)state;
    (void)arg;
    parent_starts++;
    options.max_restarts = 1;
    options.give_up = TROUPE_GIVE_UP_ESCALATE;
    return troupe_spawn_backoff(self, &options, &parent_device);
}

static void
stop_parent(troupe_self *self, void *state, const troupe_exit *why)
{
    (void)self;
    (void)state;
    parent_exit = *why;
}

static const troupe_actor_type parent_type = {
    .size = sizeof(troupe_actor_type),
    .name = "parent",
    .receive = test_ignore,
    .start = start_parent,
    .stop = stop_parent,
};

static troupe_ref
spawn_parent(troupe_directive of_child, troupe_directive own)
{
    troupe_supervision how = TROUPE_INIT(troupe_supervision);
    troupe_supervision its = TROUPE_INIT(troupe_supervision);
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    troupe_ref parent = TROUPE_NONE;

    how.otherwise = of_child;
    its.otherwise = own;
    options.children = &how;
    options.own = &its;
    options.name = "parent";
    parent_starts = 0;
    cr_assert_eq(
        troupe_system_spawn(the_system, &parent_type, &options, &parent),
        TROUPE_OK);
    test_run(the_system);
    return parent;
}

Test(backoff_supervisor, it_escalates_with_the_code_of_the_child)
{
    troupe_ref parent =
        spawn_parent(TROUPE_DIRECTIVE_ESCALATE, TROUPE_DIRECTIVE_STOP);

    advance_ms(50);
    tell(parent_device, FAIL + 7);
    advance_ms(150);
    cr_assert(!is_dead(parent));
    tell(parent_device, FAIL + 8);
    cr_assert(is_dead(parent));
    cr_assert_eq(parent_exit.kind, TROUPE_EXIT_FAILED);
    cr_assert_eq(parent_exit.code, 8);
}

Test(backoff_supervisor, restarted_by_its_parent_it_begins_anew)
{
    troupe_ref device;

    (void)spawn_parent(TROUPE_DIRECTIVE_RESTART, TROUPE_DIRECTIVE_STOP);
    device = parent_device;
    advance_ms(50);
    tell(device, FAIL);
    tell(device, 1);
    advance_ms(100);
    cr_assert(is_there("/user/parent/device/child-2"));
    tell(device, 2);
    cr_assert_str_eq(written(), "1+ 2+ ");
    tell(the_child, FAIL + 7); /* in its grace period, the budget is used up */
    cr_assert_eq(test_letters.by_reason[TROUPE_DEAD_STASH], 2);
    cr_assert(is_there("/user/parent/device/child-1"));
    cr_assert(!is_there("/user/parent/device/child-2"));
    cr_assert_str_eq(written(), "3+ ");
    tell(device, 3);
    advance_ms(50);
    cr_assert_str_eq(written(), "3 ");
    tell(device, FAIL); /* a full budget, and the first delay */
    advance_ms(100);
    cr_assert_str_eq(written(), "4+ ");
}

static troupe_verdict
restart_it(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    (void)user;
    return troupe_fail(self, 1);
}

/* All for one: the supervisor is restarted with a child that is well. */
static troupe_ref sibling_device, sibling;

static troupe_status
start_siblings(troupe_self *self, void *state, const void *arg)
{
    troupe_backoff_options options = usual();

    (void)state;
    (void)arg;
    sibling = test_spawn_doer_below(self, "doer");
    return troupe_spawn_backoff(self, &options, &sibling_device);
}

Test(backoff_supervisor, the_end_of_a_child_of_its_former_life_is_no_news)
{
    static const troupe_actor_type type = {.size = sizeof type,
        .name = "siblings",
        .receive = test_ignore,
        .start = start_siblings};
    troupe_supervision all = TROUPE_INIT(troupe_supervision);
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    troupe_ref parent;

    all.scope = TROUPE_SCOPE_ALL_FOR_ONE;
    options.children = &all;
    cr_assert_eq(
        troupe_system_spawn(the_system, &type, &options, &parent), TROUPE_OK);
    test_run(the_system);
    advance_ms(50);
    tell(sibling_device, 1);
    test_do(the_system, sibling, restart_it, NULL);
    cr_assert_str_eq(written(), "1+ 1 2+ ");
    tell(sibling_device, 2);
    advance_ms(1000);
    cr_assert_str_eq(written(), "2 ", "no third one, and nothing but messages");
    cr_assert_eq(test_letters.total, 0);
}

Test(backoff_supervisor, one_that_is_resumed_after_it_gave_up_goes_on)
{
    troupe_ref device;

    (void)spawn_parent(TROUPE_DIRECTIVE_RESUME, TROUPE_DIRECTIVE_STOP);
    device = parent_device;
    advance_ms(50);
    tell(device, FAIL);
    advance_ms(150);
    tell(device, FAIL); /* one too many; resumed */
    tell(device, 1);
    advance_ms(250);
    cr_assert_str_eq(written(), "1+ 2+ 3+ 1 ");
}

static troupe_msg *taken[65536];

/* As many as there is room for without asking: as large as a timer. */
static troupe_verdict
take_all(troupe_self *self, const troupe_msg *msg, void *user)
{
    troupe_system *system = troupe_self_system(self);
    uint32_t *count = user;
    troupe_msg *large = NULL;

    (void)msg;
    while (large == NULL) {
        cr_assert_lt(*count, 65536);
        troupe_fail_allocation(system, 1);
        taken[*count] = troupe_msg_new(system, &test_bytes, 64);
        cr_assert_not_null(taken[(*count)++], "in its place, of the heap");
        large = troupe_msg_new(system, &test_bytes, 5000);
    }
    troupe_msg_free(large);
    troupe_fail_allocation(system, 1);
    return TROUPE_CONTINUE;
}

/* It has no timer that would wake it: the next message does. */
Test(backoff_supervisor, one_that_is_resumed_without_a_timer_sets_it_again)
{
    troupe_ref doer = test_spawn_doer(the_system, NULL);
    troupe_ref device;
    uint32_t count = 0;

    (void)spawn_parent(TROUPE_DIRECTIVE_RESUME, TROUPE_DIRECTIVE_STOP);
    device = parent_device;
    advance_ms(50);
    test_do(the_system, doer, take_all, &count);
    tell(the_child, END); /* a failure would ask for memory of its own */
    troupe_fail_allocation(the_system, 0);
    advance_ms(10000);
    cr_assert_str_eq(written(), "1+ ", "there was no memory for the timer");
    tell(device, 1);
    advance_ms(200);
    cr_assert_str_eq(written(), "2+ 1 ");
    while (count > 0) {
        troupe_msg_free(taken[--count]);
    }
}

Test(backoff_supervisor, children_are_numbered)
{
    troupe_backoff_options options = usual();
    troupe_ref device = spawn(&options);

    cr_assert(is_there("/user/device/child-1"));
    advance_ms(50);
    tell(device, END);
    cr_assert(!is_there("/user/device/child-1"));
    advance_ms(100);
    cr_assert(is_there("/user/device/child-2"));
    options.name = "other";
    options.child_name = "line";
    (void)spawn(&options);
    cr_assert(is_there("/user/other/line-1"));
}

static troupe_verdict
forward_it(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    troupe_forward(self, sibling_device);
    (void)msg;
    return TROUPE_CONTINUE;
}

static troupe_status
watch_arg(troupe_self *self, void *state, const void *arg)
{
    (void)state;
    return troupe_watch(self, *(const troupe_ref *)arg);
}

/* A notice that somebody passes on is a message for the child. */
Test(backoff_supervisor, the_death_of_somebody_else_is_a_message)
{
    static const troupe_actor_type watcher = {.size = sizeof watcher,
        .name = "watcher",
        .receive = forward_it,
        .start = watch_arg};
    static struct test_record record;
    struct test_record *at = &record;
    troupe_ref dead = test_dead_actor(the_system), ref;
    troupe_spawn_options with = TROUPE_INIT(troupe_spawn_options);
    troupe_backoff_options options = usual();

    with.arg = &at;
    with.arg_bytes = sizeof at;
    options.child = &test_recorder;
    options.child_options = &with;
    sibling_device = spawn(&options);
    with.arg = &dead;
    with.arg_bytes = sizeof dead;
    cr_assert_eq(
        troupe_system_spawn(the_system, &watcher, &with, &ref), TROUPE_OK);
    test_run(the_system);
    advance_ms(50);
    cr_assert_eq(record.count, 1);
    cr_assert_eq(record.entry[0].tag, TROUPE_TAG_DOWN);
    cr_assert_eq(record.started, 1);
}

/* --- options -------------------------------------------------------------- */

static troupe_directive
never_asked(const troupe_exit *exit, uint32_t restarts, void *user)
{
    (void)exit;
    (void)restarts;
    (void)user;
    cr_assert_fail("a rule holds the code");
    return TROUPE_DIRECTIVE_STOP;
}

static uint32_t parts_starts, grandchild_starts;

static troupe_status
start_grandchild(troupe_self *self, void *state, const void *arg)
{
    (void)self;
    (void)state;
    (void)arg;
    grandchild_starts++;
    return TROUPE_OK;
}

static troupe_verdict
fail_always(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    (void)msg;
    return troupe_fail(self, 5);
}

static troupe_status
start_parts(troupe_self *self, void *state, const void *arg)
{
    static const troupe_actor_type grandchild = {.size = sizeof grandchild,
        .name = "grandchild",
        .receive = fail_always,
        .start = start_grandchild};
    troupe_ref ref;

    (void)state;
    cr_assert_str_eq(arg, "an argument");
    parts_starts++;
    cr_assert_eq(troupe_spawn(self, &grandchild, NULL, &ref), TROUPE_OK);
    the_child = troupe_self_ref(self);
    troupe_tell(self, ref, &test_empty, NULL);
    return TROUPE_OK;
}

static const troupe_actor_type parts_type = {.size = sizeof parts_type,
    .name = "parts",
    .receive = test_ignore,
    .start = start_parts};

/* Everything that is pointed to is gone when the second child is made. */
Test(backoff_supervisor, all_options_of_the_child_are_copied)
{
    struct {
        troupe_backoff_options options;
        troupe_spawn_options child;
        troupe_mailbox_options mailbox;
        troupe_throttle_options throttle;
        troupe_supervision children;
        troupe_rule rules[2];
        troupe_backoff own, pause;
        char arg[12], name[8], child_name[8];
    } given;
    troupe_ref device;

    memset(&given, 0, sizeof given);
    given.options = usual();
    given.options.name = given.name;
    given.options.child = &parts_type;
    given.options.child_name = given.child_name;
    given.options.child_options = &given.child;
    given.options.backoff = &given.own;
    given.own = pauses;
    strcpy(given.arg, "an argument");
    strcpy(given.name, "copied");
    strcpy(given.child_name, "part");
    given.child = TROUPE_INIT(troupe_spawn_options);
    given.child.arg = given.arg;
    given.child.arg_bytes = sizeof given.arg;
    given.child.mailbox = &given.mailbox;
    given.child.throttle = &given.throttle;
    given.child.children = &given.children;
    given.mailbox = TROUPE_INIT(troupe_mailbox_options);
    given.mailbox.capacity = 2;
    given.throttle = TROUPE_INIT(troupe_throttle_options);
    given.throttle.per_second = 1e6;
    given.children = TROUPE_INIT(troupe_supervision);
    given.children.rules = given.rules;
    given.children.rule_count = 2;
    given.children.decide = never_asked;
    given.children.max_restarts = TROUPE_RESTARTS_NONE;
    given.children.backoff = &given.pause;
    given.rules[0] = (troupe_rule){1, 4, TROUPE_DIRECTIVE_ESCALATE};
    given.rules[1] = (troupe_rule){5, 5, TROUPE_DIRECTIVE_RESTART};
    given.pause = pauses;
    parts_starts = grandchild_starts = 0;
    device = spawn(&given.options);
    memset(&given, 0xa5, sizeof given);
    for (uint32_t i = 0; i < 2; i++) {
        advance_ms(200);
        cr_assert_eq(parts_starts, i + 1);
        cr_assert_eq(grandchild_starts, i + 1, "no restart, as it was told");
        test_post_numbers(the_system, the_child, 2);
        cr_assert_eq(
            troupe_post(the_system, the_child, &test_number, &(uint64_t){3}),
            TROUPE_E_FULL);
        test_run(the_system);
        cr_assert_eq(troupe_post_stop(the_system, the_child), TROUPE_OK);
        test_run(the_system);
    }
    advance_ms(300);
    cr_assert(is_there("/user/copied/part-3"));
    (void)device;
}

static void
check_refused(const troupe_backoff_options *options, const char *option)
{
    troupe_ref ref = TROUPE_NONE;
    troupe_status status =
        troupe_system_spawn_backoff(the_system, options, &ref);

    cr_assert_eq(status, TROUPE_E_INVALID, "%s", option);
    cr_assert_str_eq(troupe_last_error().option, option);
    cr_assert_str_eq(troupe_last_error().call, "troupe_system_spawn_backoff");
    cr_assert(troupe_ref_is_none(ref));
    cr_assert_eq(test_counters(the_system).started, 0);
}

#define CHECK_REFUSED(option, ...)                                             \
    do {                                                                       \
        troupe_backoff_options o = usual();                                    \
        troupe_backoff policy = pauses;                                        \
        troupe_spawn_options with = TROUPE_INIT(troupe_spawn_options);         \
        o.backoff = &policy;                                                   \
        o.child_options = &with;                                               \
        __VA_ARGS__;                                                           \
        check_refused(&o, option);                                             \
    } while (0)

Test(backoff_supervisor, what_cannot_be_is_refused_by_name)
{
    static const troupe_supervision own = {.size = sizeof own};
    static const troupe_mailbox_options head = {
        .size = sizeof head, .overflow = TROUPE_OVERFLOW_DROP_HEAD};
    static const troupe_throttle_options none = {.size = sizeof none};
    static const troupe_supervision bad = {
        .size = sizeof bad, .otherwise = (troupe_directive)9};
    static troupe_actor_type empty = {.size = sizeof empty, .name = "empty"};
    char long_name[300];

    memset(long_name, 'n', sizeof long_name);
    long_name[235] = '\0';
    check_refused(NULL, "options");
    CHECK_REFUSED("size", o.size = 0);
    CHECK_REFUSED("name", o.name = "a/b");
    CHECK_REFUSED("child", o.child = NULL);
    CHECK_REFUSED("type.receive", o.child = &empty);
    CHECK_REFUSED("child_options.own", with.own = &own);
    CHECK_REFUSED("child_options.name", with.name = "child");
    CHECK_REFUSED("size", with.size = 0);
    CHECK_REFUSED("arg_bytes", with.arg_bytes = 5);
    CHECK_REFUSED("flags", with.flags = 0x100);
    CHECK_REFUSED("mailbox.overflow", with.mailbox = &head);
    CHECK_REFUSED("throttle.per_second", with.throttle = &none);
    CHECK_REFUSED("supervision.otherwise", with.children = &bad);
    CHECK_REFUSED("child_name", o.child_name = "");
    CHECK_REFUSED("child_name", o.child_name = "$1");
    CHECK_REFUSED("child_name", o.child_name = long_name);
    CHECK_REFUSED("backoff", o.backoff = NULL);
    CHECK_REFUSED("backoff.min_ns", policy.min_ns = 0);
    CHECK_REFUSED("backoff.min_ns", policy.min_ns = UINT64_MAX);
    CHECK_REFUSED("backoff.max_ns", policy.min_ns = policy.max_ns = 0);
    CHECK_REFUSED("backoff.jitter", policy.jitter = 2);
    CHECK_REFUSED("trigger", o.trigger = (troupe_trigger)3);
    CHECK_REFUSED("hold", o.hold = (troupe_hold)2);
    CHECK_REFUSED("give_up", o.give_up = (troupe_give_up)2);
    CHECK_REFUSED("flags", o.flags = 2);
    long_name[234] = '\0';
    {
        troupe_backoff_options o = usual();

        o.child_name = long_name;
        (void)spawn(&o);
        cr_assert_eq(starts, 1);
        cr_assert_eq(troupe_system_spawn_backoff(the_system, &o, &the_child),
            TROUPE_E_EXISTS);
        cr_assert_eq(troupe_system_spawn_backoff(the_system, &o, NULL),
            TROUPE_E_INVALID);
        cr_assert_eq(troupe_system_spawn_backoff(NULL, &o, &the_child),
            TROUPE_E_INVALID);
        cr_assert_eq(
            troupe_spawn_backoff(NULL, &o, &the_child), TROUPE_E_INVALID);
    }
}

/* A custom mailbox that does not open is a child that cannot be spawned. */
static uint32_t failing_opens;
static uint32_t custom_opens;

static void *
open_sometimes(void *user)
{
    (void)user;
    custom_opens++;
    if (failing_opens > 0) {
        failing_opens--;
        return NULL;
    }
    return &custom_opens;
}

static void
close_nothing(void *box)
{
    (void)box;
}

static troupe_status
take_none(void *box, troupe_msg *msg, troupe_msg **evicted)
{
    (void)box;
    (void)msg;
    (void)evicted;
    return TROUPE_E_FULL;
}

static troupe_status
take_none_kept(void *box, troupe_msg *msg)
{
    (void)box;
    (void)msg;
    return TROUPE_E_NOMEM;
}

static troupe_msg *
give_none(void *box)
{
    (void)box;
    return NULL;
}

static size_t
count_none(const void *box)
{
    (void)box;
    return 0;
}

static const troupe_custom_mailbox shut_box = {.size = sizeof shut_box,
    .name = "shut",
    .open = open_sometimes,
    .close = close_nothing,
    .enqueue = take_none,
    .enqueue_undroppable = take_none_kept,
    .prepend = take_none,
    .dequeue = give_none,
    .length = count_none};

Test(backoff_supervisor, a_child_that_cannot_be_spawned_is_tried_for_again)
{
    troupe_mailbox_options mailbox = TROUPE_INIT(troupe_mailbox_options);
    troupe_spawn_options with = TROUPE_INIT(troupe_spawn_options);
    troupe_backoff_options options = usual();
    troupe_ref device;

    mailbox.custom = &shut_box;
    with.mailbox = &mailbox;
    options.child_options = &with;
    failing_opens = 4;
    custom_opens = 0;
    device = spawn(&options);
    cr_assert_eq(custom_opens, 2, "at once, and once more");
    tell(device, 1);
    advance_ms(100);
    cr_assert_eq(custom_opens, 3);
    advance_ms(200);
    cr_assert_eq(custom_opens, 4);
    advance_ms(400);
    cr_assert_eq(custom_opens, 5);
    cr_assert_eq(starts, 1);
    advance_ms(50); /* the box takes nothing: that message is lost, and counted
                     */
    cr_assert_eq(test_letters.by_reason[TROUPE_DEAD_REFUSED], 1);
}

/* --- the log -------------------------------------------------------------- */

static uint32_t warnings;

static void
count_warnings(const troupe_log_line *line, void *user)
{
    (void)user;
    if (strstr(line->text, "held messages lost") != NULL) {
        warnings++;
        cr_assert_str_eq(line->source, "troupe://troupe/user/device");
    }
}

Test(backoff_supervisor, evictions_are_logged_at_each_doubling)
{
    troupe_system_options with_log = test_options();
    troupe_backoff_options options = usual();
    troupe_ref device;

    test_close(the_system);
    with_log.flags |= TROUPE_SYSTEM_DRIVEN;
    with_log.seed = 1;
    with_log.log.write = count_warnings;
    with_log.log.max_level = TROUPE_LOG_WARN;
    the_system = test_open(&with_log);
    warnings = 0;
    options.stash_capacity = 1;
    device = spawn(&options);
    test_post_numbers(the_system, device, 101);
    test_run(the_system);
    cr_assert_eq(test_letters.by_reason[TROUPE_DEAD_STASH], 100);
    cr_assert_eq(warnings, 7, "1 2 4 8 16 32 64");
}

/* --- with threads --------------------------------------------------------- */

static _Atomic uint32_t slow_starts;
static _Atomic uint64_t slow_number;

/* The first one takes longer than any grace period, and then fails. */
static troupe_status
start_slowly(troupe_self *self, void *state, const void *arg)
{
    const troupe_system *system = troupe_self_system(self);

    (void)state;
    (void)arg;
    if (atomic_fetch_add(&slow_starts, 1) != 0) {
        return TROUPE_OK;
    }
    /* The message is held by then, and some grace periods are over. */
    while (test_counters(system).handled < 5) {
    }
    return TROUPE_E_FAILED;
}

static troupe_verdict
keep_number(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)self;
    (void)state;
    atomic_store(&slow_number, *troupe_payload(msg, uint64_t));
    return TROUPE_CONTINUE;
}

Test(backoff_supervisor, a_child_that_is_still_starting_is_not_confirmed)
{
    static const troupe_actor_type slow = {.size = sizeof slow,
        .name = "slow",
        .receive = keep_number,
        .start = start_slowly};
    troupe_backoff_options options = usual();
    troupe_ref device;

    test_close(the_system);
    the_system = test_open_threads(2);
    options.child = &slow;
    options.grace_ns = TROUPE_MS(1);
    cr_assert_eq(
        troupe_system_spawn_backoff(the_system, &options, &device), TROUPE_OK);
    test_post_number(the_system, device, 42);
    cr_assert(test_await_at_least(&slow_number, 42));
    cr_assert_eq(slow_starts, 2);
    cr_assert_eq(test_letters.total, 0);
}
