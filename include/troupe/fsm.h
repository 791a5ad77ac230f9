/* SPDX-License-Identifier: MIT */
#ifndef TROUPE_FSM_H
#define TROUPE_FSM_H

#include <troupe/actor.h>

TROUPE_BEGIN_DECLS

/* A state of a machine; tables are static and const. Frozen: in arrays. */
typedef struct troupe_fsm_state {
    const char *name;
    troupe_behaviour_fn handle; /* also gets TROUPE_TAG_STATE_TIMEOUT */
    void (*enter)(troupe_self *self, void *state) TROUPE_NOEXCEPT; /* or NULL */
    void (*leave)(troupe_self *self, void *state) TROUPE_NOEXCEPT; /* or NULL */
    uint64_t timeout_ns; /* since entered; 0 = none */
} troupe_fsm_state;

/*
 * Without payload; not delivered once the state has been left. It is a timer of
 * the actor whose key is the address of the troupe_fsm, so
 * troupe_timer_cancel_all() ends it.
 */
#define TROUPE_TAG_STATE_TIMEOUT UINT32_C(0xffffff0a)

/*
 * First member of the actor's state. Frozen; leave the members alone. A restart
 * begins with a new one.
 */
typedef struct troupe_fsm {
    const troupe_fsm_state *states;
    uint32_t count;
    uint32_t current;
    uint64_t entered; /* so many states */
} troupe_fsm;

/*
 * The `receive` of an actor type whose state starts with a troupe_fsm. One that
 * was not started fails with TROUPE_E_STATE.
 */
TROUPE_API troupe_verdict troupe_fsm_receive(
    troupe_self *self, void *state, const troupe_msg *msg) TROUPE_NOEXCEPT;

/*
 * In start(): enters `first`. E_INVALID for a state the table has not, a table
 * with a state without `handle`, or a machine that is not the first member of
 * the state; E_NOMEM: no timer, and no state was entered.
 */
TROUPE_API TROUPE_NODISCARD troupe_status troupe_fsm_start(troupe_self *self,
    troupe_fsm *fsm, const troupe_fsm_state *states, uint32_t count,
    uint32_t first);

/*
 * `return troupe_fsm_go(self, &door->fsm, LOCKED);` leaves and enters, after
 * which the next message is for the new state. Going to the current state
 * starts it anew, timeout included. The order: leave(), the new timeout begins,
 * enter(). A bad index is a failure of the actor with the code E_INVALID, a
 * timeout that finds no memory one with E_NOMEM, after leave().
 */
TROUPE_API TROUPE_NODISCARD troupe_verdict troupe_fsm_go(
    troupe_self *self, troupe_fsm *fsm, uint32_t next);

TROUPE_END_DECLS

#endif /* TROUPE_FSM_H */
