/* SPDX-License-Identifier: MIT */
#include "support/system.h"

#include <troupe/fsm.h>
#include <troupe/port.h>
#include <troupe/timer.h>

#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

/* A machine of three states. Time is virtual. */

enum { RED, GREEN, BLUE, STATES };

/* What a machine is told: the state to go to, or these. */
enum { STAY = 100, BAD = 101 };

struct machine {
    troupe_fsm fsm;
    uint64_t count; /* messages in this state */
};

static troupe_system *the_system;
static char journal[1024];

static void
note(const char *what, uint64_t number)
{
    size_t used = strlen(journal);

    (void)snprintf(
        journal + used, sizeof journal - used, "%s%u ", what, (unsigned)number);
}

static const char *
written(void)
{
    static char copy[sizeof journal];

    strcpy(copy, journal);
    journal[0] = '\0';
    return copy;
}

static void
setup(void)
{
    journal[0] = '\0';
    the_system = test_open_driven(5);
}

static void
teardown(void)
{
    test_close(the_system);
}

TestSuite(fsm, .init = setup, .fini = teardown);

static troupe_verdict
handle(troupe_self *self, void *state, const troupe_msg *msg, const char *name)
{
    struct machine *machine = state;
    uint64_t what;

    if (troupe_msg_tag(msg) == TROUPE_TAG_STATE_TIMEOUT) {
        cr_assert_eq(msg->bytes, 0);
        cr_assert(troupe_ref_is_none(msg->sender));
        note(name, 999);
        return troupe_fsm_go(self, &machine->fsm, RED);
    }
    what = *troupe_payload(msg, uint64_t);
    note(name, ++machine->count);
    return what == STAY ? TROUPE_CONTINUE
                        : troupe_fsm_go(self, &machine->fsm, (uint32_t)what);
}

static troupe_verdict
red(troupe_self *self, void *state, const troupe_msg *msg)
{
    return handle(self, state, msg, "red");
}

static troupe_verdict
green(troupe_self *self, void *state, const troupe_msg *msg)
{
    return handle(self, state, msg, "green");
}

static troupe_verdict
blue(troupe_self *self, void *state, const troupe_msg *msg)
{
    return handle(self, state, msg, "blue");
}

static void
enter_green(troupe_self *self, void *state)
{
    struct machine *machine = state;

    (void)self;
    cr_assert_eq(machine->fsm.current, GREEN);
    machine->count = 0;
    note("in", machine->fsm.entered);
}

static void
leave_green(troupe_self *self, void *state)
{
    const struct machine *machine = state;

    (void)self;
    cr_assert_eq(machine->fsm.current, GREEN);
    note("out", machine->fsm.entered);
}

static const troupe_fsm_state states[STATES] = {
    [RED] = {.name = "red", .handle = red},
    [GREEN] = {.name = "green",
        .handle = green,
        .enter = enter_green,
        .leave = leave_green,
        .timeout_ns = TROUPE_S(10)},
    [BLUE] = {.name = "blue", .handle = blue, .timeout_ns = TROUPE_S(60)},
};

static troupe_status
start(troupe_self *self, void *state, const void *arg)
{
    struct machine *machine = state;
    uint32_t first;

    memcpy(&first, arg, sizeof first);
    return troupe_fsm_start(self, &machine->fsm, states, STATES, first);
}

static const troupe_actor_type machine_type = {
    .size = sizeof(troupe_actor_type),
    .name = "machine",
    .state_bytes = sizeof(struct machine),
    .receive = troupe_fsm_receive,
    .start = start,
};

static troupe_ref
spawn(uint32_t first)
{
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    troupe_ref ref = TROUPE_NONE;

    options.arg = &first;
    options.arg_bytes = sizeof first;
    cr_assert_eq(troupe_system_spawn(the_system, &machine_type, &options, &ref),
        TROUPE_OK);
    test_run(the_system);
    return ref;
}

static const char *
after(troupe_ref machine, uint64_t what)
{
    cr_assert_eq(
        troupe_post(the_system, machine, &test_number, &what), TROUPE_OK);
    test_run(the_system);
    return written();
}

static void
advance(uint64_t ns)
{
    cr_assert_eq(troupe_system_advance(the_system, ns), TROUPE_OK);
}

Test(fsm, the_first_state_is_entered_by_start)
{
    troupe_ref machine = spawn(GREEN);

    cr_assert_str_eq(written(), "in1 ");
    cr_assert_str_eq(after(machine, STAY), "green1 ");
}

Test(fsm, the_next_message_is_for_the_new_state)
{
    troupe_ref machine = spawn(RED);

    cr_assert_str_eq(after(machine, STAY), "red1 ");
    cr_assert_str_eq(after(machine, GREEN), "red2 in2 ");
    cr_assert_str_eq(after(machine, STAY), "green1 ");
    cr_assert_str_eq(after(machine, BLUE), "green2 out2 ");
    cr_assert_str_eq(after(machine, STAY), "blue3 ");
}

Test(fsm, a_state_that_lasts_too_long_is_told)
{
    troupe_ref machine = spawn(GREEN);

    (void)written();
    advance(TROUPE_S(10) - TROUPE_MS(1));
    cr_assert_str_eq(written(), "");
    advance(TROUPE_MS(2));
    cr_assert_str_eq(written(), "green999 out1 ");
    cr_assert_str_eq(after(machine, STAY), "red1 ");
    advance(TROUPE_S(1000));
    cr_assert_str_eq(written(), "");
}

Test(fsm, messages_do_not_make_it_last_longer)
{
    troupe_ref machine = spawn(GREEN);

    advance(TROUPE_S(6));
    (void)after(machine, STAY);
    advance(TROUPE_S(6));
    cr_assert_str_eq(written(), "green999 out1 ");
}

Test(fsm, going_to_the_same_state_starts_it_anew)
{
    troupe_ref machine = spawn(GREEN);

    (void)written();
    advance(TROUPE_S(6));
    cr_assert_str_eq(after(machine, GREEN), "green1 out1 in2 ");
    advance(TROUPE_S(6));
    cr_assert_str_eq(written(), "");
    advance(TROUPE_S(6));
    cr_assert_str_eq(written(), "green999 out2 ");
}

Test(fsm, the_timeout_of_a_state_that_was_left_is_not_told)
{
    troupe_ref machine = spawn(GREEN);

    (void)after(machine, BLUE);
    advance(TROUPE_S(30));
    cr_assert_str_eq(written(), "");
    advance(TROUPE_S(31));
    cr_assert_str_eq(written(), "blue999 ");
    cr_assert_str_eq(after(machine, RED), "red2 ");
    (void)machine;
}

static troupe_verdict
leave_it_queued(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct machine *machine = state;

    if (troupe_msg_tag(msg) == TROUPE_TAG_STATE_TIMEOUT) {
        note("late", 1);
        return TROUPE_CONTINUE;
    }
    note("first", 1);
    /* The clock of the simulation stands, but a timeout of 0 is due at once. */
    return troupe_fsm_go(self, &machine->fsm, 1);
}

static const troupe_fsm_state short_states[] = {
    {.name = "short", .handle = leave_it_queued, .timeout_ns = 1},
    {.name = "rest", .handle = leave_it_queued},
};

static troupe_status
start_short(troupe_self *self, void *state, const void *arg)
{
    struct machine *machine = state;

    (void)arg;
    return troupe_fsm_start(self, &machine->fsm, short_states, 2, 0);
}

Test(fsm, not_even_if_it_is_queued_already)
{
    static const troupe_actor_type type = {.size = sizeof(troupe_actor_type),
        .name = "short",
        .state_bytes = sizeof(struct machine),
        .receive = troupe_fsm_receive,
        .start = start_short};
    troupe_ref machine;
    uint64_t number = 0;

    cr_assert_eq(
        troupe_system_spawn(the_system, &type, NULL, &machine), TROUPE_OK);
    cr_assert_eq(
        troupe_post(the_system, machine, &test_number, &number), TROUPE_OK);
    advance(TROUPE_S(1));
    cr_assert_str_eq(written(), "first1 ");
    test_run(the_system);
    cr_assert_str_eq(written(), "");
}

Test(fsm, a_bad_state_is_a_failure_of_the_actor)
{
    troupe_ref machine = spawn(RED);

    cr_assert_str_eq(after(machine, GREEN), "red1 in2 ");
    cr_assert_str_eq(after(machine, BAD), "green1 ");
    cr_assert_eq(test_counters(the_system).restarted, 1);
    cr_assert_str_eq(after(machine, STAY), "red1 ");
}

Test(fsm, a_restart_begins_with_a_new_machine)
{
    troupe_ref machine = spawn(GREEN);

    (void)after(machine, BLUE);
    (void)after(machine, BAD);
    cr_assert_str_eq(after(machine, STAY), "green1 ");
    advance(TROUPE_S(11));
    cr_assert_str_eq(written(), "green999 out1 ");
}

Test(fsm, a_machine_that_was_not_started_fails)
{
    static const troupe_actor_type type = {.size = sizeof(troupe_actor_type),
        .name = "unstarted",
        .state_bytes = sizeof(struct machine),
        .receive = troupe_fsm_receive};
    static const troupe_supervision stop = {
        .size = sizeof(troupe_supervision), .otherwise = TROUPE_DIRECTIVE_STOP};
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    troupe_port *port;
    troupe_ref machine;
    uint64_t number = 0;

    options.own = &stop;
    cr_assert_eq(
        troupe_system_spawn(the_system, &type, &options, &machine), TROUPE_OK);
    cr_assert_eq(troupe_port_open(the_system, NULL, &port), TROUPE_OK);
    cr_assert_eq(troupe_port_watch(port, machine), TROUPE_OK);
    cr_assert_eq(
        troupe_post(the_system, machine, &test_number, &number), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(troupe_down(troupe_port_next(port))->code, TROUPE_E_STATE);
    troupe_port_close(port);
}

static const char *refused; /* what is wrong, of the last start */

static troupe_status
start_badly(troupe_self *self, void *state, const void *arg)
{
    static const troupe_fsm_state hollow[] = {{.name = "hollow"}};
    struct machine *machine = state;
    troupe_fsm elsewhere = {0};
    troupe_status status = TROUPE_OK;
    uint32_t how;

    memcpy(&how, arg, sizeof how);
    switch (how) {
    case 0:
        status = troupe_fsm_start(NULL, &machine->fsm, states, STATES, 0);
        break;
    case 1:
        status = troupe_fsm_start(self, NULL, states, STATES, 0);
        break;
    case 2:
        status = troupe_fsm_start(self, &machine->fsm, NULL, STATES, 0);
        break;
    case 3:
        status = troupe_fsm_start(self, &elsewhere, states, STATES, 0);
        break;
    case 4:
        status = troupe_fsm_start(self, &machine->fsm, hollow, 1, 0);
        break;
    case 5:
        status = troupe_fsm_start(self, &machine->fsm, states, STATES, STATES);
        break;
    default:
        status = troupe_fsm_start(self, &machine->fsm, states, 0, 0);
        break;
    }
    cr_assert_eq(status, TROUPE_E_INVALID);
    cr_assert_str_eq(troupe_last_error().call, "troupe_fsm_start");
    refused = troupe_last_error().option;
    cr_assert_null(machine->fsm.states);
    return TROUPE_OK;
}

Test(fsm, bad_tables_are_refused_by_name)
{
    static const char *const options_of[] = {
        "self", "fsm", "states", "fsm", "states", "first", "first"};
    static const troupe_actor_type type = {.size = sizeof(troupe_actor_type),
        .name = "bad",
        .state_bytes = sizeof(struct machine),
        .receive = troupe_fsm_receive,
        .start = start_badly};

    for (uint32_t how = 0; how < 7; how++) {
        troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
        troupe_ref ref;

        options.arg = &how;
        options.arg_bytes = sizeof how;
        cr_assert_eq(
            troupe_system_spawn(the_system, &type, &options, &ref), TROUPE_OK);
        test_run(the_system);
        cr_assert_str_eq(refused, options_of[how], "case %u", how);
    }
}

static void
go_on(troupe_self *self, void *state)
{
    struct machine *machine = state;

    cr_assert_eq(troupe_fsm_go(self, &machine->fsm, 1), TROUPE_CONTINUE);
}

static const troupe_fsm_state passing_states[] = {
    {.name = "passing", .handle = red, .enter = go_on, .timeout_ns = 1},
    {.name = "end", .handle = blue},
};

static troupe_status
start_passing(troupe_self *self, void *state, const void *arg)
{
    struct machine *machine = state;

    (void)arg;
    return troupe_fsm_start(self, &machine->fsm, passing_states, 2, 0);
}

Test(fsm, a_state_may_be_left_as_it_is_entered)
{
    static const troupe_actor_type type = {.size = sizeof(troupe_actor_type),
        .name = "passing",
        .state_bytes = sizeof(struct machine),
        .receive = troupe_fsm_receive,
        .start = start_passing};
    troupe_ref machine;

    cr_assert_eq(
        troupe_system_spawn(the_system, &type, NULL, &machine), TROUPE_OK);
    advance(TROUPE_S(1));
    cr_assert_str_eq(written(), "");
    cr_assert_str_eq(after(machine, STAY), "blue1 ");
}
