/* SPDX-License-Identifier: MIT */
#ifndef TROUPE_SEND_H
#define TROUPE_SEND_H

#include <troupe/message.h>

TROUPE_BEGIN_DECLS

/*
 * Who hears of a refusal is the whole difference between the two families:
 *
 *   send, post   report it: TROUPE_E_DEAD, _FULL, _CLOSED, _NOMEM, _INVALID,
 *                _STATE. Nothing was sent, no dead letter is made.
 *   tell, reply, forward   return nothing: a refused message becomes a counted
 *                dead letter. For telemetry and for answers nobody waits for.
 *
 * TROUPE_OK means accepted: handled, dropped by a policy of the receiver, or a
 * dead letter, exactly one of them. Nothing here blocks or allocates for a
 * small payload in the steady state. `payload` is copied, type->bytes of it,
 * and NULL for a type without payload; the other combinations are E_INVALID.
 * A copied payload moves what it owns (type->drop): on success the receiver
 * has it, on a refusal you still do; tell and reply always take it. The payload
 * of the current message itself is moved on, never owned twice (E_STATE, also
 * while a shared one has other readers); that of a port is if you send through
 * the port. Of a copy you made by hand the library cannot know.
 */

/* --- inside; the sender is `self` ---------------------------------------- */

TROUPE_API TROUPE_NODISCARD troupe_status troupe_send(troupe_self *self,
    troupe_ref to, const troupe_msg_type *type, const void *payload);
TROUPE_API TROUPE_NODISCARD troupe_status troupe_send_bytes(troupe_self *self,
    troupe_ref to, const troupe_msg_type *type, const void *payload,
    size_t bytes);
TROUPE_API TROUPE_NODISCARD troupe_status troupe_send_msg(
    troupe_self *self, troupe_ref to, troupe_msg *msg);

TROUPE_API void troupe_tell(troupe_self *self, troupe_ref to,
    const troupe_msg_type *type, const void *payload);
TROUPE_API void troupe_tell_bytes(troupe_self *self, troupe_ref to,
    const troupe_msg_type *type, const void *payload, size_t bytes);
TROUPE_API void troupe_tell_msg(
    troupe_self *self, troupe_ref to, troupe_msg *msg);

/*
 * One payload to many. A TROUPE_MSG_SHARED payload is stored once, and that of
 * the current message is passed on without a copy. Returns how many took it.
 */
TROUPE_API size_t troupe_tell_many(troupe_self *self, const troupe_ref *to,
    size_t count, const troupe_msg_type *type, const void *payload);

/*
 * Whom troupe_reply answers: the sender of the current message; TROUPE_NONE in
 * start() and stop(). Keep the ref to answer later.
 */
TROUPE_API troupe_ref troupe_sender(const troupe_self *self);

/* To troupe_sender(); with no sender, a dead letter. */
TROUPE_API void troupe_reply(
    troupe_self *self, const troupe_msg_type *type, const void *payload);
TROUPE_API void troupe_reply_bytes(troupe_self *self,
    const troupe_msg_type *type, const void *payload, size_t bytes);
TROUPE_API void troupe_reply_msg(troupe_self *self, troupe_msg *msg);

/*
 * "It did not work": reaches the sender of the current message as
 * TROUPE_TAG_FAILURE with a troupe_failure of TROUPE_E_FAILED and `code`.
 */
#define TROUPE_TAG_FAILURE UINT32_C(0xffffff01)
typedef struct troupe_failure { /* frozen */
    troupe_status status;
    int32_t code; /* > 0 yours, < 0 a troupe_status, 0 none */
} troupe_failure;
TROUPE_API void troupe_reply_failure(troupe_self *self, int32_t code);

/*
 * Passes the current message on, sender unchanged, without a copy. If it went
 * somewhere it is another actor's: read neither `msg` nor its payload any more.
 */
TROUPE_API void troupe_forward(troupe_self *self, troupe_ref to);

/*
 * Takes the current message out of the runtime's hands: yours until sent or
 * freed. TROUPE_E_STATE the second time, TROUPE_E_NOMEM; then it stays current.
 */
TROUPE_API TROUPE_NODISCARD troupe_status troupe_take(
    troupe_self *self, troupe_msg **msg);

/* Sends in somebody's name: a kept request under its asker, a late answer. */
TROUPE_API TROUPE_NODISCARD troupe_status troupe_send_msg_from(
    troupe_self *self, troupe_ref to, troupe_msg *msg, troupe_ref sender);

/* --- outside: any thread; no sender unless named -------------------------- */

TROUPE_API TROUPE_NODISCARD troupe_status troupe_post(troupe_system *system,
    troupe_ref to, const troupe_msg_type *type, const void *payload);
TROUPE_API TROUPE_NODISCARD troupe_status troupe_post_bytes(
    troupe_system *system, troupe_ref to, const troupe_msg_type *type,
    const void *payload, size_t bytes);
TROUPE_API TROUPE_NODISCARD troupe_status troupe_post_msg(
    troupe_system *system, troupe_ref to, troupe_msg *msg);
TROUPE_API TROUPE_NODISCARD troupe_status troupe_post_msg_from(
    troupe_system *system, troupe_ref to, troupe_msg *msg, troupe_ref sender);
TROUPE_API void troupe_post_tell(troupe_system *system, troupe_ref to,
    const troupe_msg_type *type, const void *payload);
TROUPE_API void troupe_post_failure(
    troupe_system *system, troupe_ref to, int32_t code);

TROUPE_END_DECLS

#endif /* TROUPE_SEND_H */
