/* SPDX-License-Identifier: MIT */
#ifndef TROUPE_STOP_H
#define TROUPE_STOP_H

#include <troupe/result.h>

TROUPE_BEGIN_DECLS

/*
 * Stopping an actor, from gentle to firm. Children go first, always. Stopping
 * what has stopped is no failure; TROUPE_E_INVALID for TROUPE_NONE, E_STATE for
 * a port or a probe, which are closed by who opened them, /user and /system.
 *
 *   troupe_stop      takes its place in line: what is queued is handled first
 *   troupe_stop_now  after the current message; the queue: dead letters
 *   TROUPE_DONE      stop_now for the actor that returns it
 *
 * Either way its children are stopped as by troupe_stop_now. An actor may stop
 * itself. troupe_stop may answer TROUPE_E_NOMEM, the other never does.
 */
TROUPE_API troupe_status troupe_stop(troupe_self *self, troupe_ref whom);
TROUPE_API troupe_status troupe_stop_now(troupe_self *self, troupe_ref whom);
TROUPE_API troupe_status troupe_post_stop(
    troupe_system *system, troupe_ref whom);
TROUPE_API troupe_status troupe_post_stop_now(
    troupe_system *system, troupe_ref whom);

/*
 * troupe_stop with a deadline, then troupe_stop_now. The result is TROUPE_OK
 * (gone in time, or gone before) or TROUPE_E_TIMEOUT (the hard stop was sent).
 * If the operation is cancelled, or the actor that started it ends, `whom`
 * stops all the same, as by troupe_stop.
 */
TROUPE_API TROUPE_NODISCARD troupe_status troupe_stop_gracefully(
    troupe_self *self, troupe_ref whom, uint64_t timeout_ns,
    troupe_continuation then, troupe_ticket *ticket);

/*
 * troupe_stop for all of them, then blocks a foreign thread until they have
 * gone: TROUPE_OK. At the deadline troupe_stop_now is sent to the rest and the
 * answer is TROUPE_E_TIMEOUT. E_CONTEXT inside a behaviour. A driven system is
 * run here; there TROUPE_E_TIMEOUT means that nothing can run any more. Nobody
 * is stopped if one of them is not to be (E_INVALID, E_STATE: see above); with
 * TROUPE_E_NOMEM some may have been told.
 */
TROUPE_API TROUPE_NODISCARD troupe_status troupe_stop_wait(
    troupe_system *system, const troupe_ref *actors, size_t count,
    uint64_t timeout_ns);

TROUPE_END_DECLS

#endif /* TROUPE_STOP_H */
