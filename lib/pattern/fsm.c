/* SPDX-License-Identifier: MIT */
#include <troupe/fsm.h>
#include <troupe/timer.h>

#include "actor/cell.h"
#include "actor/timers.h"

/*
 * A table of states on top of receive and a timer. Only the actor's own turns
 * come here.
 */

static const troupe_msg_type timeout_type = {sizeof(troupe_msg_type),
    "state_timeout", 0, TROUPE_TAG_STATE_TIMEOUT, 0, NULL};

static uint64_t
key_of(const troupe_fsm *fsm)
{
    return (uint64_t)(uintptr_t)fsm;
}

/* E_NOMEM: nothing changed. */
static troupe_status
enter(troupe_self *self, troupe_fsm *fsm, uint32_t next, const char *call)
{
    const troupe_fsm_state *state = &fsm->states[next];

    if (state->timeout_ns != 0) {
        troupe_status status = trp_timer_start_own(
            self, key_of(fsm), &timeout_type, state->timeout_ns, call);

        if (status != TROUPE_OK) {
            return status;
        }
    } else {
        (void)troupe_timer_cancel(self, key_of(fsm));
    }
    fsm->current = next;
    fsm->entered++;
    if (state->enter != NULL) {
        state->enter(self, fsm);
    }
    return TROUPE_OK;
}

troupe_status
troupe_fsm_start(troupe_self *self, troupe_fsm *fsm,
    const troupe_fsm_state *states, uint32_t count, uint32_t first)
{
    static const char call[] = "troupe_fsm_start";

    if (self == NULL || fsm == NULL || states == NULL) {
        return trp_refuse(TROUPE_E_INVALID, call,
            self == NULL  ? "self"
            : fsm == NULL ? "fsm"
                          : "states",
            "must not be NULL", "NULL");
    }
    if ((void *)fsm != trp_cell_state(self->cell)) {
        return trp_refuse(TROUPE_E_INVALID, call, "fsm",
            "must be the first member of the actor's state", "%p", (void *)fsm);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (states[i].handle == NULL) {
            return trp_refuse(TROUPE_E_INVALID, call, "states",
                "must have a handle each", "state %u", i);
        }
    }
    if (first >= count) {
        return trp_refuse(TROUPE_E_INVALID, call, "first",
            "must be a state of the table", "%u of %u", first, count);
    }
    fsm->states = states;
    fsm->count = count;
    return enter(self, fsm, first, call);
}

troupe_verdict
troupe_fsm_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    const troupe_fsm *fsm = state;

    if (fsm->states == NULL) {
        return troupe_fail(self, (int32_t)TROUPE_E_STATE);
    }
    return fsm->states[fsm->current].handle(self, state, msg);
}

troupe_verdict
troupe_fsm_go(troupe_self *self, troupe_fsm *fsm, uint32_t next)
{
    static const char call[] = "troupe_fsm_go";
    const troupe_fsm_state *before;

    if (self == NULL || fsm == NULL || fsm->states == NULL ||
        next >= fsm->count) {
        trp_refuse(TROUPE_E_INVALID, call,
            self == NULL                         ? "self"
            : fsm == NULL || fsm->states == NULL ? "fsm"
                                                 : "next",
            "must be a state of a machine that was started", "%u", next);
        return troupe_fail(self, (int32_t)TROUPE_E_INVALID);
    }
    before = &fsm->states[fsm->current];
    if (before->leave != NULL) {
        before->leave(self, fsm);
    }
    return troupe_check(self, enter(self, fsm, next, call));
}
