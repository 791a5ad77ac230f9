/* SPDX-License-Identifier: MIT */
#ifndef TROUPE_ASK_H
#define TROUPE_ASK_H

#include <troupe/result.h>

TROUPE_BEGIN_DECLS

#define TROUPE_TIMEOUT_DEFAULT UINT64_C(0) /* TROUPE_ASK_TIMEOUT_MS */

/*
 * Sends with a one-shot address as sender; the first reply to it ends the ask.
 * The result is OK with the reply, or
 *
 *   E_FAILED      troupe_reply_failure, with its code
 *   E_TIMEOUT     not before the deadline; TROUPE_FOREVER: there is none
 *   E_DEAD        the target has died, now or later; or nobody will handle the
 *                 question: it is a dead letter
 *   E_FULL        the target's mailbox refused or dropped it; what refuses a
 *                 question that was forwarded makes it a dead letter: E_DEAD
 *   E_CANCELLED   and E_CLOSED: see result.h
 *   E_NOMEM       there was no memory to store the reply
 *
 * A question that is forwarded, or sent on in the asker's name, belongs to its
 * new target. An address that the target gives away otherwise does not: the
 * target's death ends the ask.
 *
 * Refusals come through `then`, in one place; returned are E_INVALID, E_NOMEM
 * and E_STATE (the asker is stopping or restarting, or the payload was given
 * away), with nothing begun and the payload still the caller's. A late reply is
 * a dead letter, TROUPE_DEAD_LATE. So is a late question if its type says so,
 * TROUPE_MSG_EXPIRES; any other is handled, whoever waits.
 */
TROUPE_API TROUPE_NODISCARD troupe_status troupe_ask(troupe_self *self,
    troupe_ref whom, const troupe_msg_type *type, const void *payload,
    uint64_t timeout_ns, troupe_continuation then, troupe_ticket *ticket);
TROUPE_API TROUPE_NODISCARD troupe_status troupe_ask_msg(troupe_self *self,
    troupe_ref whom, troupe_msg *msg, uint64_t timeout_ns,
    troupe_continuation then, troupe_ticket *ticket);

/*
 * The one-shot address alone: give it to a thread, a library, another actor.
 * The first message or failure posted to it ends the operation. It is a ref to
 * send to and nothing else: to other calls it is an actor that has stopped.
 */
TROUPE_API TROUPE_NODISCARD troupe_status troupe_promise(troupe_self *self,
    uint64_t timeout_ns, troupe_continuation then, troupe_ref *promise,
    troupe_ticket *ticket);

/*
 * The same without a continuation: the first message goes to `to` as an
 * ordinary message from the sender of the current one; a failure, the deadline
 * or the end of this actor arrives as TROUPE_TAG_FAILURE.
 */
TROUPE_API TROUPE_NODISCARD troupe_status troupe_pipe(
    troupe_self *self, troupe_ref to, uint64_t timeout_ns, troupe_ref *promise);

/* A pause that costs nobody a thread: `then` runs after `delay_ns`. */
TROUPE_API TROUPE_NODISCARD troupe_status troupe_sleep(troupe_self *self,
    uint64_t delay_ns, troupe_continuation then, troupe_ticket *ticket);

/* What a foreign thread gets. Frozen. */
typedef struct troupe_answer {
    troupe_status status;
    int32_t code;
    troupe_msg *reply; /* yours to free; not NULL if and only if OK */
} troupe_answer;

/*
 * Blocks until it ends; E_CONTEXT on a worker. `answer` is always written, and
 * its status is also returned. Without a reply there is nothing to free. A
 * driven system is run here, and its time is what passes. Without a deadline it
 * waits for an answer or the target's death, whatever else the system does.
 * What the payload owns is taken, whatever the answer: it is the caller's still
 * with E_INVALID, E_STATE, E_CONTEXT and E_FORKED only.
 */
TROUPE_API troupe_status troupe_ask_wait(troupe_system *system, troupe_ref whom,
    const troupe_msg_type *type, const void *payload, uint64_t timeout_ns,
    troupe_answer *answer);

TROUPE_END_DECLS

#endif /* TROUPE_ASK_H */
