/* SPDX-License-Identifier: MIT */
/* A parent that answers failures by a table of codes. */
#include <troupe/troupe.h>

enum { FAIL_BAD_INPUT = 1, FAIL_LOST_PEER = 100, FAIL_LOST_PEER_LAST = 199 };

static const troupe_rule rules[] = {
    {FAIL_BAD_INPUT, FAIL_BAD_INPUT, TROUPE_DIRECTIVE_RESUME},
    {FAIL_LOST_PEER, FAIL_LOST_PEER_LAST, TROUPE_DIRECTIVE_RESTART},
    {TROUPE_E_NOMEM, TROUPE_E_NOMEM, TROUPE_DIRECTIVE_ESCALATE},
};

static const troupe_backoff pause_between = {
    .size = TROUPE_OPTIONS(troupe_backoff),
    .min_ns = TROUPE_MS(50),
    .max_ns = TROUPE_S(2),
};

static const troupe_supervision children = {
    .size = TROUPE_OPTIONS(troupe_supervision),
    .rules = rules,
    .rule_count = sizeof rules / sizeof rules[0],
    .otherwise = TROUPE_DIRECTIVE_STOP,
    .max_restarts = 3,
    .window_ns = TROUPE_S(10),
    .backoff = &pause_between,
};

static troupe_verdict
child_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    return msg->bytes == 0 ? troupe_fail(self, FAIL_BAD_INPUT)
                           : TROUPE_CONTINUE;
}

static const troupe_actor_type child_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "child",
    .receive = child_receive,
};

static troupe_verdict
parent_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    troupe_ref child = troupe_child(self, "left");

    (void)state;
    (void)msg;
    if (troupe_ref_is_none(child)) {
        return TROUPE_UNHANDLED;
    }
    troupe_forward(self, child);
    return TROUPE_CONTINUE;
}

static troupe_status
parent_start(troupe_self *self, void *state, const void *arg)
{
    static const char *const names[] = {"left", "right"};
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);

    (void)state;
    (void)arg;
    for (size_t i = 0; i < 2; i++) {
        troupe_ref child;
        troupe_status status;

        options.name = names[i];
        status = troupe_spawn(self, &child_type, &options, &child);
        if (status != TROUPE_OK) {
            return status; /* the parent's own supervisor decides */
        }
    }
    return TROUPE_OK;
}

static const troupe_spawn_options parent_defaults = {
    .size = TROUPE_OPTIONS(troupe_spawn_options),
    .children = &children,
};

const troupe_actor_type parent_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "parent",
    .receive = parent_receive,
    .start = parent_start,
    .defaults = &parent_defaults,
};
