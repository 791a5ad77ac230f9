/* SPDX-License-Identifier: MIT */
/*
 * A door with a code: a table of states. It locks itself when it was left open,
 * and is deaf for a while after three wrong codes.
 */
#include <troupe/troupe.h>

#include <stdio.h>
#include <stdlib.h>

enum { LOCKED, OPEN, ALARM, STATES };
enum { TAG_CODE = 1, TAG_CLOSE };

struct code {
    uint32_t digits;
};

TROUPE_MSG_TYPE(code, struct code, TAG_CODE);

struct door {
    troupe_fsm fsm; /* first */
    uint32_t secret;
    uint32_t wrong;
};

static troupe_verdict
locked(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct door *door = state;

    if (!troupe_msg_is(msg, &code)) {
        return TROUPE_UNHANDLED;
    }
    if (troupe_payload(msg, struct code)->digits == door->secret) {
        return troupe_fsm_go(self, &door->fsm, OPEN);
    }
    return ++door->wrong < 3 ? TROUPE_CONTINUE
                             : troupe_fsm_go(self, &door->fsm, ALARM);
}

static troupe_verdict
open_(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct door *door = state;

    switch (troupe_msg_tag(msg)) {
    case TAG_CLOSE:
    case TROUPE_TAG_STATE_TIMEOUT: /* left open */
        return troupe_fsm_go(self, &door->fsm, LOCKED);
    default:
        return TROUPE_UNHANDLED;
    }
}

static troupe_verdict
alarmed(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct door *door = state;

    return troupe_msg_tag(msg) == TROUPE_TAG_STATE_TIMEOUT
               ? troupe_fsm_go(self, &door->fsm, LOCKED)
               : TROUPE_CONTINUE; /* deaf meanwhile */
}

static void
say(troupe_self *self, void *state)
{
    struct door *door = state;

    (void)self;
    puts(door->fsm.states[door->fsm.current].name);
    door->wrong = 0;
}

static const troupe_fsm_state states[STATES] = {
    [LOCKED] = {.name = "locked", .handle = locked, .enter = say},
    [OPEN] = {.name = "open",
        .handle = open_,
        .enter = say,
        .timeout_ns = TROUPE_S(30)},
    [ALARM] = {.name = "alarm",
        .handle = alarmed,
        .enter = say,
        .timeout_ns = TROUPE_S(60)},
};

static troupe_status
door_start(troupe_self *self, void *state, const void *arg)
{
    struct door *door = state;

    door->secret = ((const struct code *)arg)->digits;
    return troupe_fsm_start(self, &door->fsm, states, STATES, LOCKED);
}

static const troupe_actor_type door_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "door",
    .state_bytes = sizeof(struct door),
    .receive = troupe_fsm_receive,
    .start = door_start,
};

/* A simulation: its clock moves here, so nobody waits for the minutes. */
static troupe_status
try_it(troupe_system *system)
{
    static const struct code secret = {1234};
    static const uint32_t tries[] = {1, 2, 1234, 3, 4, 5, 1234};
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    troupe_ref door;
    troupe_status status;

    options.arg = &secret;
    options.arg_bytes = sizeof secret;
    status = troupe_system_spawn(system, &door_type, &options, &door);
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        const struct code tried = {tries[i]};

        if (status == TROUPE_OK) {
            status = troupe_post(system, door, &code, &tried);
        }
        if (status == TROUPE_OK) {
            status = troupe_system_advance(system, TROUPE_S(31));
        }
    }
    return status == TROUPE_OK ? troupe_system_advance(system, TROUPE_S(60))
                               : status;
}

int
main(void)
{
    troupe_system_options options = TROUPE_INIT(troupe_system_options);
    troupe_system *system = NULL;
    char why[160];
    troupe_status status;

    options.flags = TROUPE_SYSTEM_DRIVEN;
    options.seed = 1;
    status = troupe_system_create(&options, &system);
    if (status == TROUPE_OK) {
        status = try_it(system);
    }
    if (status != TROUPE_OK) {
        troupe_explain(status, why, sizeof why);
        fprintf(stderr, "door: %s\n", why);
    }
    troupe_system_destroy(system);
    return status == TROUPE_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
