/* SPDX-License-Identifier: MIT */
#include "support/system.h"

#include <troupe/port.h>

#include <criterion/criterion.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

TEST_DRIVEN_SUITE(actor);

/* --- verdicts ------------------------------------------------------------- */

Test(actor, continue_is_ready_for_the_next_message)
{
    struct test_record record = {.answer = TROUPE_CONTINUE};
    troupe_ref ref = test_spawn_recorder(the_system, NULL, &record);

    test_post_numbers(the_system, ref, 1000);
    test_run(the_system);
    cr_assert_eq(record.count, 1000);
    cr_assert_eq(record.stopped, 0);
    for (uint32_t i = 0; i < 1000; i++) {
        cr_assert_eq(record.entry[i].number, i);
    }
    cr_assert_eq(test_counters(the_system).handled, 1000);
}

static void
expect_end(troupe_verdict verdict, troupe_exit_kind kind, int32_t code)
{
    struct test_record record = {.answer = verdict};
    troupe_ref ref = test_spawn_mortal_recorder(the_system, &record);

    test_post_numbers(the_system, ref, 10);
    test_run(the_system);
    cr_assert_eq(record.count, 1, "what was queued is not handled");
    cr_assert_eq(record.stopped, 1);
    cr_assert_eq(record.exit.kind, kind);
    cr_assert_eq(record.exit.code, code);
    cr_assert(troupe_ref_equal(record.exit.actor, ref));
    cr_assert_eq(test_letters.by_reason[TROUPE_DEAD_STOPPED], 9);
    cr_assert_eq(test_letters.total, 9);
    cr_assert_eq(test_counters(the_system).handled, 1);
    cr_assert_eq(test_counters(the_system).dead, 9);
    cr_assert_eq(
        troupe_post(the_system, ref, &test_empty, NULL), TROUPE_E_DEAD);
}

Test(actor, done_stops_and_makes_dead_letters_of_what_is_queued)
{
    expect_end(TROUPE_DONE, TROUPE_EXIT_DONE, 0);
}

Test(actor, failed_stops_as_failed_and_the_message_is_consumed)
{
    expect_end(TROUPE_FAILED, TROUPE_EXIT_FAILED, 0);
}

Test(actor, a_verdict_that_is_none_of_the_four_is_failed_with_invalid)
{
    expect_end((troupe_verdict)42, TROUPE_EXIT_FAILED, TROUPE_E_INVALID);
}

Test(actor, unhandled_makes_a_dead_letter_and_continues)
{
    struct test_record record = {.answer = TROUPE_UNHANDLED};
    troupe_ref ref = test_spawn_recorder(the_system, NULL, &record);

    test_post_numbers(the_system, ref, 5);
    test_run(the_system);
    cr_assert_eq(record.count, 5);
    cr_assert_eq(record.stopped, 0);
    cr_assert_eq(test_letters.by_reason[TROUPE_DEAD_UNHANDLED], 5);
    cr_assert(troupe_ref_equal(test_letters.last.recipient, ref));
    cr_assert_eq(test_letters.last.number, 4);
    cr_assert_eq(test_counters(the_system).handled, 0);
    cr_assert_eq(test_counters(the_system).dead, 5);
}

static troupe_verdict
fail_with_seven(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    (void)user;
    return troupe_fail(self, 7);
}

static troupe_verdict
check_ok(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    (void)user;
    return troupe_check(self, TROUPE_OK);
}

static troupe_verdict
check_missing(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    (void)user;
    return troupe_check(self, TROUPE_E_MISSING);
}

/* Watches with a port what `what` does to its actor. */
static troupe_exit
end_of(test_do_fn what)
{
    troupe_exit exit = {TROUPE_NONE, TROUPE_EXIT_UNKNOWN, 0};
    troupe_ref doer = test_spawn_mortal_doer(the_system);
    const troupe_msg *msg;
    troupe_port *port;

    cr_assert_eq(troupe_port_open(the_system, NULL, &port), TROUPE_OK);
    cr_assert_eq(troupe_port_watch(port, doer), TROUPE_OK);
    test_do(the_system, doer, what, NULL);
    msg = troupe_port_next(port);
    if (msg != NULL) {
        exit = *troupe_down(msg);
    }
    troupe_port_close(port);
    return exit;
}

Test(actor, fail_gives_its_code_to_the_exit)
{
    troupe_exit exit = end_of(fail_with_seven);

    cr_assert_eq(exit.kind, TROUPE_EXIT_FAILED);
    cr_assert_eq(exit.code, 7);
}

Test(actor, check_of_ok_continues)
{
    cr_assert(troupe_ref_is_none(end_of(check_ok).actor));
}

Test(actor, check_of_a_failure_fails_with_its_status)
{
    troupe_exit exit = end_of(check_missing);

    cr_assert_eq(exit.kind, TROUPE_EXIT_FAILED);
    cr_assert_eq(exit.code, TROUPE_E_MISSING);
}

/* --- state ---------------------------------------------------------------- */

static size_t state_size;
static uint32_t states_seen;

static troupe_verdict
look_at_state(troupe_self *self, void *state, const troupe_msg *msg)
{
    unsigned char *bytes = state;

    (void)self;
    (void)msg;
    if (state_size != 0) {
        cr_assert_not_null(state);
        cr_assert_eq((uintptr_t)state % 16, 0);
    }
    for (size_t i = 0; i < state_size; i++) {
        cr_assert_eq(bytes[i], 0);
    }
    if (state_size != 0) {
        memset(state, 0xff, state_size); /* for whoever has it next */
    }
    states_seen++;
    return TROUPE_DONE;
}

Test(actor, state_is_zeroed_and_aligned)
{
    static const size_t sizes[] = {0, 1, 8, 15, 16, 17, 24, 63, 64, 65, 128,
        1000, 2047, 2048, 2049, 4096, 100000, 1 << 20};

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        troupe_actor_type type = {.size = sizeof type,
            .name = "zeroed",
            .state_bytes = sizes[i],
            .receive = look_at_state};

        state_size = sizes[i];
        for (int round = 0; round < 3; round++) {
            troupe_ref ref;

            cr_assert_eq(
                troupe_system_spawn(the_system, &type, NULL, &ref), TROUPE_OK);
            cr_assert_eq(
                troupe_post(the_system, ref, &test_empty, NULL), TROUPE_OK);
            test_run(the_system);
        }
    }
    cr_assert_eq(states_seen, 3 * sizeof sizes / sizeof *sizes);
}

Test(actor, state_stays_from_message_to_message)
{
    struct test_record record = {0};
    troupe_ref ref = test_spawn_recorder(the_system, NULL, &record);

    /* The recorder finds its record in its state, turn after turn. */
    for (int i = 0; i < 100; i++) {
        test_post_number(the_system, ref, 1);
        test_run(the_system);
    }
    cr_assert_eq(record.count, 100);
}

/* --- start and stop ------------------------------------------------------- */

Test(actor, start_runs_in_the_first_turn_and_not_in_spawn)
{
    struct test_record record = {0};

    (void)test_spawn_recorder(the_system, NULL, &record);
    cr_assert_eq(record.started, 0);
    test_run(the_system);
    cr_assert_eq(record.started, 1);
    cr_assert_eq(record.count, 0);
}

Test(actor, messages_sent_before_start_wait)
{
    struct test_record record = {0};
    troupe_ref ref = test_spawn_recorder(the_system, NULL, &record);

    test_post_numbers(the_system, ref, 100);
    cr_assert_eq(record.started, 0);
    test_run(the_system);
    cr_assert_eq(record.started, 1);
    cr_assert_eq(record.count, 100);
}

struct argument {
    uint64_t number;
    char text[100];
};

static struct argument seen_argument;
static bool saw_null;

static troupe_status
keep_argument(troupe_self *self, void *state, const void *arg)
{
    (void)self;
    (void)state;
    if (arg == NULL) {
        saw_null = true;
    } else {
        memcpy(&seen_argument, arg, sizeof seen_argument);
    }
    return TROUPE_OK;
}

static const troupe_actor_type keeper = {.size = sizeof(troupe_actor_type),
    .name = "keeper",
    .receive = test_ignore,
    .start = keep_argument};

Test(actor, start_gets_a_copy_of_the_argument)
{
    struct argument argument = {42, "some text"};
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    troupe_ref ref;

    options.arg = &argument;
    options.arg_bytes = sizeof argument;
    cr_assert_eq(
        troupe_system_spawn(the_system, &keeper, &options, &ref), TROUPE_OK);
    memset(&argument, 0, sizeof argument);
    test_run(the_system);
    cr_assert_eq(seen_argument.number, 42);
    cr_assert_str_eq(seen_argument.text, "some text");
}

Test(actor, start_without_argument_gets_null)
{
    troupe_ref ref;

    cr_assert_eq(
        troupe_system_spawn(the_system, &keeper, NULL, &ref), TROUPE_OK);
    test_run(the_system);
    cr_assert(saw_null);
}

static int32_t start_code;
static troupe_status start_status;
static uint32_t stops;

static troupe_status
fail_to_start(troupe_self *self, void *state, const void *arg)
{
    (void)state;
    (void)arg;
    if (start_code != 0) {
        (void)troupe_fail(self, start_code);
    }
    return start_status;
}

static void
count_stop(troupe_self *self, void *state, const troupe_exit *why)
{
    (void)self;
    (void)state;
    (void)why;
    stops++;
}

static const troupe_actor_type stillborn = {.size = sizeof(troupe_actor_type),
    .name = "stillborn",
    .receive = test_ignore,
    .start = fail_to_start,
    .stop = count_stop};

static troupe_exit
end_of_stillborn(void)
{
    troupe_exit exit = {TROUPE_NONE, TROUPE_EXIT_UNKNOWN, 0};
    const troupe_msg *msg;
    troupe_port *port;
    troupe_ref ref;

    cr_assert_eq(troupe_port_open(the_system, NULL, &port), TROUPE_OK);
    cr_assert_eq(
        troupe_system_spawn(the_system, &stillborn, NULL, &ref), TROUPE_OK);
    cr_assert_eq(troupe_port_watch(port, ref), TROUPE_OK);
    test_post_numbers(the_system, ref, 4);
    test_run(the_system);
    msg = troupe_port_next(port);
    cr_assert_not_null(msg);
    exit = *troupe_down(msg);
    cr_assert(troupe_ref_equal(exit.actor, ref));
    troupe_port_close(port);
    return exit;
}

Test(actor, a_failed_start_ends_it_with_the_status)
{
    troupe_exit exit;

    start_status = TROUPE_E_SYSTEM;
    exit = end_of_stillborn();
    cr_assert_eq(exit.kind, TROUPE_EXIT_START_FAILED);
    cr_assert_eq(exit.code, TROUPE_E_SYSTEM);
}

Test(actor, a_failed_start_may_give_its_own_code)
{
    troupe_exit exit;

    start_status = TROUPE_E_FAILED;
    start_code = 99;
    exit = end_of_stillborn();
    cr_assert_eq(exit.kind, TROUPE_EXIT_START_FAILED);
    cr_assert_eq(exit.code, 99);
}

Test(actor, messages_that_wait_for_a_failed_start_are_dead_letters)
{
    start_status = TROUPE_E_FAILED;
    (void)end_of_stillborn();
    cr_assert_eq(test_letters.by_reason[TROUPE_DEAD_STOPPED], 4);
}

Test(actor, stop_is_not_called_after_a_failed_start)
{
    start_status = TROUPE_E_FAILED;
    (void)end_of_stillborn();
    cr_assert_eq(stops, 0);
}

Test(actor, a_code_of_fail_without_failing_is_no_failure)
{
    struct test_record unused = {0};
    troupe_ref ref;

    (void)unused;
    start_status = TROUPE_OK;
    start_code = 99;
    cr_assert_eq(
        troupe_system_spawn(the_system, &stillborn, NULL, &ref), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(troupe_post(the_system, ref, &test_empty, NULL), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(stops, 0);
}

Test(actor, stop_is_called_once_without_start_as_well)
{
    static const troupe_actor_type type = {.size = sizeof type,
        .name = "stops",
        .receive = test_ignore,
        .stop = count_stop};
    troupe_ref ref;

    cr_assert_eq(troupe_system_spawn(the_system, &type, NULL, &ref), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(troupe_post_stop(the_system, ref), TROUPE_OK);
    cr_assert_eq(troupe_post_stop_now(the_system, ref), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(stops, 1);
}

/* --- spawn ---------------------------------------------------------------- */

Test(actor, spawn_returns_a_ref_that_can_be_sent_to_at_once)
{
    troupe_ref ref = TROUPE_NONE;

    cr_assert_eq(
        troupe_system_spawn(the_system, &test_plain, NULL, &ref), TROUPE_OK);
    cr_assert_not(troupe_ref_is_none(ref));
    cr_assert_eq(troupe_post(the_system, ref, &test_empty, NULL), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(test_counters(the_system).handled, 1);
}

static const troupe_ref untouched = {12, 34};

/* Refused, with nothing made and the result untouched. */
static void
expect_refused(troupe_status expected, const troupe_actor_type *type,
    const troupe_spawn_options *options)
{
    uint64_t actors = test_counters(the_system).actors;
    uint64_t bytes = test_memory.live_bytes;
    troupe_ref ref = untouched;

    cr_assert_eq(
        troupe_system_spawn(the_system, type, options, &ref), expected);
    cr_assert(troupe_ref_equal(ref, untouched));
    cr_assert_eq(test_counters(the_system).actors, actors);
    cr_assert_eq(test_memory.live_bytes, bytes);
    cr_assert_eq(troupe_last_error().status, expected);
    cr_assert_str_eq(troupe_last_error().call, "troupe_system_spawn");
    cr_assert_neq(strlen(troupe_last_error().rule), 0);
}

Test(actor, a_type_that_is_wrong_is_refused)
{
    troupe_actor_type type = test_plain;

    expect_refused(TROUPE_E_INVALID, NULL, NULL);
    type.size = 0;
    expect_refused(TROUPE_E_INVALID, &type, NULL);
    type = test_plain;
    type.receive = NULL;
    expect_refused(TROUPE_E_INVALID, &type, NULL);
    type = test_plain;
    type.state_bytes = SIZE_MAX;
    expect_refused(TROUPE_E_INVALID, &type, NULL);
}

struct newer_type {
    troupe_actor_type known;
    uint64_t more;
};

Test(actor, a_type_of_a_newer_header_is_refused_if_it_asks_for_more)
{
    struct newer_type type = {test_plain, 1};

    type.known.size = sizeof type;
    expect_refused(TROUPE_E_VERSION, &type.known, NULL);
}

Test(actor, spawn_options_that_are_wrong_are_refused)
{
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);

    options.size = 0;
    expect_refused(TROUPE_E_INVALID, &test_plain, &options);
    options = TROUPE_INIT(troupe_spawn_options);
    options.arg = &options;
    expect_refused(TROUPE_E_INVALID, &test_plain, &options);
    options = TROUPE_INIT(troupe_spawn_options);
    options.arg_bytes = 8;
    expect_refused(TROUPE_E_INVALID, &test_plain, &options);
    options = TROUPE_INIT(troupe_spawn_options);
    options.arg = &options;
    options.arg_bytes = SIZE_MAX;
    expect_refused(TROUPE_E_INVALID, &test_plain, &options);
    options = TROUPE_INIT(troupe_spawn_options);
    options.name = "a/b";
    expect_refused(TROUPE_E_INVALID, &test_plain, &options);
}

struct newer_options {
    troupe_spawn_options known;
    uint64_t more;
};

Test(actor, spawn_options_of_a_newer_header_are_fine_while_they_ask_for_nothing)
{
    struct newer_options options = {TROUPE_INIT(troupe_spawn_options), 0};
    troupe_ref ref;

    options.known.size = sizeof options;
    cr_assert_eq(
        troupe_system_spawn(the_system, &test_plain, &options.known, &ref),
        TROUPE_OK);
    options.more = 1;
    expect_refused(TROUPE_E_VERSION, &test_plain, &options.known);
}

Test(actor, spawn_without_a_place_for_the_ref_is_refused)
{
    cr_assert_eq(troupe_system_spawn(the_system, &test_plain, NULL, NULL),
        TROUPE_E_INVALID);
    cr_assert_eq(
        troupe_system_spawn(NULL, &test_plain, NULL, &(troupe_ref){0, 0}),
        TROUPE_E_INVALID);
    cr_assert_eq(troupe_spawn(NULL, &test_plain, NULL, &(troupe_ref){0, 0}),
        TROUPE_E_INVALID);
}

Test(actor, a_name_that_a_sibling_has_is_refused)
{
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    troupe_ref ref;

    options.name = "auth";
    cr_assert_eq(troupe_system_spawn(the_system, &test_plain, &options, &ref),
        TROUPE_OK);
    expect_refused(TROUPE_E_EXISTS, &test_plain, &options);
    cr_assert_str_eq(troupe_last_error().value, "auth");
}

static troupe_status spawned_in_stop;
static troupe_ref spawned_ref;

static void
spawn_in_stop(troupe_self *self, void *state, const troupe_exit *why)
{
    (void)state;
    (void)why;
    spawned_ref = untouched;
    spawned_in_stop = troupe_spawn(self, &test_plain, NULL, &spawned_ref);
}

Test(actor, a_stopping_actor_spawns_nothing)
{
    static const troupe_actor_type type = {.size = sizeof type,
        .name = "late",
        .receive = test_ignore,
        .stop = spawn_in_stop};
    troupe_ref ref;

    cr_assert_eq(troupe_system_spawn(the_system, &type, NULL, &ref), TROUPE_OK);
    cr_assert_eq(troupe_post_stop(the_system, ref), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(spawned_in_stop, TROUPE_E_STATE);
    cr_assert(troupe_ref_equal(spawned_ref, untouched));
    cr_assert_eq(troupe_last_error().status, TROUPE_E_STATE);
}

Test(actor, a_closed_system_spawns_nothing)
{
    troupe_ref ref = untouched;

    troupe_system_request_stop(the_system);
    cr_assert_eq(troupe_system_spawn(the_system, &test_plain, NULL, &ref),
        TROUPE_E_CLOSED);
    cr_assert(troupe_ref_equal(ref, untouched));
}

Test(actor, the_options_are_copied)
{
    struct test_record record = {0};
    struct test_record *pointer = &record;
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    char name[] = "copied";
    troupe_ref ref;
    troupe_ref found;

    options.name = name;
    options.arg = &pointer;
    options.arg_bytes = sizeof pointer;
    cr_assert_eq(
        troupe_system_spawn(the_system, &test_recorder, &options, &ref),
        TROUPE_OK);
    memset(name, 'x', sizeof name - 1);
    pointer = NULL;
    memset(&options, 0xff, sizeof options);
    test_run(the_system);
    cr_assert_eq(record.started, 1);
    cr_assert_eq(troupe_lookup(the_system, "/user/copied", &found), TROUPE_OK);
    cr_assert(troupe_ref_equal(found, ref));
}

/* --- throughput ----------------------------------------------------------- */

static uint32_t
messages_per_turn(const troupe_actor_type *type, uint32_t throughput)
{
    struct test_record record = {0};
    struct test_record *pointer = &record;
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    uint32_t largest = 0;
    uint32_t before = 0;
    troupe_run run;
    troupe_ref ref;

    options.arg = &pointer;
    options.arg_bytes = sizeof pointer;
    options.throughput = throughput;
    cr_assert_eq(
        troupe_system_spawn(the_system, type, &options, &ref), TROUPE_OK);
    test_run(the_system); /* start() */
    test_post_numbers(the_system, ref, 1000);
    do {
        cr_assert_eq(troupe_system_run(the_system, 1, &run), TROUPE_OK);
        if (record.count - before > largest) {
            largest = record.count - before;
        }
        before = record.count;
    } while (run.turns != 0);
    cr_assert_eq(record.count, 1000);
    cr_assert_eq(troupe_post_stop_now(the_system, ref), TROUPE_OK);
    test_run(the_system);
    return largest;
}

Test(actor, throughput_is_how_many_messages_a_turn_handles)
{
    cr_assert_eq(messages_per_turn(&test_recorder, 1), 1);
    cr_assert_eq(messages_per_turn(&test_recorder, 7), 7);
    cr_assert_eq(messages_per_turn(&test_recorder, 1000), 1000);
}

Test(actor, throughput_zero_is_that_of_the_system)
{
    troupe_system *other = the_system;
    troupe_system_options options = test_options();

    options.flags |= TROUPE_SYSTEM_DRIVEN;
    options.throughput = 5;
    the_system = test_open(&options);
    cr_assert_eq(messages_per_turn(&test_recorder, 0), 5);
    cr_assert_eq(messages_per_turn(&test_recorder, 9), 9);
    cr_assert_eq(troupe_system_destroy(the_system), TROUPE_OK);
    the_system = other;
}

Test(actor, the_defaults_of_the_type_apply_unless_the_option_says_more)
{
    static const troupe_spawn_options defaults = {
        .size = sizeof(troupe_spawn_options), .throughput = 3};
    troupe_actor_type type = test_recorder;

    type.defaults = &defaults;
    cr_assert_eq(messages_per_turn(&type, 0), 3);
    cr_assert_eq(messages_per_turn(&type, 4), 4);
}

Test(actor, name_and_argument_of_the_defaults_are_not_used)
{
    static const troupe_spawn_options defaults = {
        .size = sizeof(troupe_spawn_options),
        .name = "default",
        .arg = "x",
        .arg_bytes = 1};
    static troupe_actor_type type;
    troupe_ref first;
    troupe_ref second;

    type = keeper;
    type.defaults = &defaults;
    cr_assert_eq(
        troupe_system_spawn(the_system, &type, NULL, &first), TROUPE_OK);
    cr_assert_eq(
        troupe_system_spawn(the_system, &type, NULL, &second), TROUPE_OK);
    test_run(the_system);
    cr_assert(saw_null);
}

/* --- who am I ------------------------------------------------------------- */

static troupe_ref seen_self;
static troupe_system *seen_system;

static troupe_verdict
say_who(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    (void)user;
    seen_self = troupe_self_ref(self);
    seen_system = troupe_self_system(self);
    return TROUPE_CONTINUE;
}

Test(actor, it_knows_its_ref_and_its_system)
{
    troupe_ref doer = test_spawn_doer(the_system, NULL);

    test_do(the_system, doer, say_who, NULL);
    cr_assert(troupe_ref_equal(seen_self, doer));
    cr_assert_eq(seen_system, the_system);
}

/* --- behaviours ----------------------------------------------------------- */

static char trace[64];

static void
add(char c)
{
    size_t length = strlen(trace);

    trace[length] = c;
    trace[length + 1] = '\0';
}

static troupe_verdict in_b(troupe_self *, void *, const troupe_msg *);
static troupe_verdict in_c(troupe_self *, void *, const troupe_msg *);

/* A number says what to do: 0 nothing, 1 become, 2 push, 3 pop, 4 NULL. */
static void
change(troupe_self *self, const troupe_msg *msg, troupe_behaviour_fn next)
{
    switch (*troupe_payload(msg, uint64_t)) {
    case 1:
        troupe_become(self, next);
        break;
    case 2:
        cr_assert_eq(troupe_become_push(self, next), TROUPE_OK);
        break;
    case 3:
        cr_assert_eq(troupe_unbecome(self), TROUPE_OK);
        break;
    case 4:
        troupe_become(self, NULL);
        break;
    case 5:
        cr_assert_eq(troupe_unbecome(self), TROUPE_E_STATE);
        break;
    case 6:
        cr_assert_eq(troupe_become_push(self, NULL), TROUPE_E_INVALID);
        break;
    }
}

static troupe_verdict
in_a(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    change(self, msg, in_b);
    add('a'); /* after the change: it takes effect with the next message */
    return TROUPE_CONTINUE;
}

static troupe_verdict
in_b(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    change(self, msg, in_c);
    add('b');
    return TROUPE_CONTINUE;
}

static troupe_verdict
in_c(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    change(self, msg, in_a);
    add('c');
    return TROUPE_CONTINUE;
}

static const troupe_actor_type changer = {.size = sizeof(troupe_actor_type),
    .name = "changer",
    .receive = in_a};

static void
expect_trace(const char *steps, const char *expected)
{
    troupe_ref ref;

    trace[0] = '\0';
    cr_assert_eq(
        troupe_system_spawn(the_system, &changer, NULL, &ref), TROUPE_OK);
    for (; *steps != '\0'; steps++) {
        test_post_number(the_system, ref, (uint64_t)(*steps - '0'));
    }
    test_run(the_system);
    cr_assert_str_eq(trace, expected);
}

Test(actor, become_takes_effect_with_the_next_message)
{
    expect_trace("010", "aab");
}

Test(actor, become_replaces_the_behaviour_on_top)
{
    expect_trace("1100", "abcc");
    expect_trace("2130", "abca"); /* a pushed b, b became c, popped: a */
}

Test(actor, become_null_is_ignored)
{
    expect_trace("040", "aaa");
}

Test(actor, a_pushed_behaviour_is_popped_again)
{
    expect_trace("2030", "abba");
    expect_trace("223300", "abcbaa");
}

Test(actor, the_last_behaviour_cannot_be_popped)
{
    expect_trace("50", "aa");
    expect_trace("2350", "abaa");
}

Test(actor, pushing_null_is_refused)
{
    expect_trace("60", "aa");
}

Test(actor, behaviours_stack_deeply)
{
    char steps[61];
    char expected[61];

    memset(steps, '2', 30);
    memset(steps + 30, '3', 30);
    steps[60] = '\0';
    for (int i = 0; i < 30; i++) {
        expected[i] = (char)('a' + i % 3);
        expected[30 + i] = (char)('a' + (30 - i) % 3);
    }
    expected[60] = '\0';
    expect_trace(steps, expected);
}

static troupe_status
become_in_start(troupe_self *self, void *state, const void *arg)
{
    (void)state;
    (void)arg;
    troupe_become(self, in_b);
    cr_assert_eq(troupe_become_push(self, in_c), TROUPE_OK);
    return TROUPE_OK;
}

Test(actor, start_may_choose_the_first_behaviour)
{
    static const troupe_actor_type type = {.size = sizeof type,
        .name = "t",
        .receive = in_a,
        .start = become_in_start};
    troupe_ref ref;

    cr_assert_eq(troupe_system_spawn(the_system, &type, NULL, &ref), TROUPE_OK);
    test_post_number(the_system, ref, 3); /* pops */
    test_post_number(the_system, ref, 0);
    test_run(the_system);
    cr_assert_str_eq(trace, "cb");
}

/* --- what start may do ---------------------------------------------------- */

static struct test_record start_record;
static troupe_status after_start;

static troupe_status
do_a_lot(troupe_self *self, void *state, const void *arg)
{
    uint64_t n = 100;

    (void)state;
    (void)arg;
    (void)test_spawn_recorder_below(self, "child", &start_record);
    troupe_tell(self, troupe_child(self, "child"), &test_number, &n);
    troupe_tell(self, troupe_self_ref(self), &test_number, &n);
    cr_assert_eq(troupe_stop(self, troupe_self_ref(self)), TROUPE_OK);
    return after_start;
}

static struct test_record *own_record = &start_record;
static uint32_t own_count;

static troupe_verdict
count_own(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)self;
    (void)state;
    (void)msg;
    own_count++;
    return TROUPE_CONTINUE;
}

static const troupe_actor_type busy_starter = {
    .size = sizeof(troupe_actor_type),
    .name = "busy",
    .receive = count_own,
    .start = do_a_lot,
    .stop = count_stop};

Test(actor, start_may_send_spawn_and_stop)
{
    troupe_ref ref;

    cr_assert_eq(
        troupe_system_spawn(the_system, &busy_starter, NULL, &ref), TROUPE_OK);
    test_post_numbers(
        the_system, ref, 3); /* wait already when start() stops it */
    test_run(the_system);
    cr_assert_eq(own_count, 4);
    cr_assert_eq(own_record->count + test_letters.total, 1);
    cr_assert_eq(own_record->stopped, 1);
    cr_assert_eq(stops, 1);
    cr_assert_eq(test_counters(the_system).actors, 0);
}

Test(actor, children_of_a_failed_start_are_stopped)
{
    troupe_ref ref;

    after_start = TROUPE_E_FAILED;
    cr_assert_eq(
        troupe_system_spawn(the_system, &busy_starter, NULL, &ref), TROUPE_OK);
    test_post_numbers(the_system, ref, 3);
    test_run(the_system);
    cr_assert_eq(own_count, 0);
    cr_assert_eq(own_record->started, own_record->stopped);
    cr_assert_eq(stops, 0);
    cr_assert_eq(test_counters(the_system).actors, 0);
    cr_assert_geq(test_letters.total, 4);
}
