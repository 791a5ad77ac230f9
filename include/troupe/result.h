/* SPDX-License-Identifier: MIT */
#ifndef TROUPE_RESULT_H
#define TROUPE_RESULT_H

#include <troupe/actor.h>

TROUPE_BEGIN_DECLS

/*
 * How an operation ended: an ask, a promise, a pause, a graceful stop. One
 * shape for all, so one kind of continuation serves them all.
 */
typedef struct troupe_result { /* frozen */
    troupe_status status;
    int32_t code;          /* with TROUPE_E_FAILED: what the failure said */
    const troupe_msg *msg; /* borrowed; NULL unless OK, but for a gather */
    uint64_t elapsed_ns;
} troupe_result;

/*
 * Runs exactly once, in a turn of the actor that started the operation: with
 * the outcome, or before stop() or restart() when the actor ends first, so
 * `user` can always be released here. Then its status is TROUPE_E_CANCELLED, or
 * TROUPE_E_CLOSED if the system is stopping, its verdict does not count, and it
 * can start nothing; an answer that has just come is a dead letter. What had
 * ended otherwise just before, by its deadline or a death, is told as that. An
 * answer from outside to a system that stops comes too late: E_CLOSED.
 *
 * troupe_take() keeps result->msg, troupe_forward() passes it on.
 * troupe_reply() answers the sender of the message that was current when the
 * operation was started, so a server answers its client; who answered us is
 * result->msg->sender. A verdict is judged as after a message.
 */
typedef troupe_verdict (*troupe_then_fn)(troupe_self *self, void *state,
    const troupe_result *result, void *user) TROUPE_NOEXCEPT;

typedef struct troupe_continuation { /* frozen */
    troupe_then_fn fn;
    void *user;
} troupe_continuation;

static inline troupe_continuation
troupe_then(troupe_then_fn fn, void *user)
{
    troupe_continuation then;

    then.fn = fn;
    then.user = user;
    return then;
}

/*
 * Every function that starts an operation has `ticket` last; NULL if you will
 * not need it. TROUPE_OK means started: `then` will run. Otherwise it will not.
 */

/*
 * Ends it with TROUPE_E_CANCELLED. E_MISSING: it had ended. A continuation
 * never runs inside the call that starts, ends or cancels its operation: it is
 * the next thing to run after the present callback has returned.
 */
TROUPE_API troupe_status troupe_cancel(troupe_self *self, troupe_ticket ticket);

/*
 * A verdict: parks the user lane until the operation has ended; its
 * continuation is the next thing that runs, before those of others that have
 * ended meanwhile. The system lane stays alive: a parked actor can be stopped
 * now, restarted, inspected; what is queued waits, troupe_stop() too. `started`
 * not OK fails the actor instead, as does a ticket of nothing that is open:
 *
 *     return troupe_await(self,
 *         troupe_ask(self, .., troupe_then(on_reply, NULL), &ticket), &ticket);
 */
TROUPE_API TROUPE_NODISCARD troupe_verdict troupe_await(
    troupe_self *self, troupe_status started, const troupe_ticket *ticket);

TROUPE_END_DECLS

#endif /* TROUPE_RESULT_H */
