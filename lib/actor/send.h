/* SPDX-License-Identifier: MIT */
#ifndef TRP_ACTOR_SEND_H
#define TRP_ACTOR_SEND_H

/* What all ways of sending share; the story is in send.c. */

#include "actor/mailbox.h"

/* A send in progress: who, what, and how it will be called in a refusal. */
struct trp_sending {
    struct trp_core *core;
    struct trp_local *local;     /* NULL on a foreign thread */
    struct trp_current *current; /* of the port that sends; else NULL */
    const char *call;
    troupe_ref to;
    troupe_ref sender;
    uint64_t mark;  /* more of the item's */
    bool is_closed; /* the system is: a tell is a dead letter */
};

/* Fits into the slot, owns nothing, is well-formed: no need to ask further. */
TRP_INLINE bool
trp_is_plain(const troupe_msg_type *type, const void *payload, size_t bytes)
{
    return TRP_LIKELY(bytes <= TRP_INLINE_BYTES && type->drop == NULL &&
                      type->size >= sizeof *type &&
                      type->tag - 1 < TROUPE_TAG_RESERVED - 1 &&
                      (payload != NULL) == (bytes != 0) &&
                      (type->bytes == 0 || type->bytes == bytes) &&
                      ((uintptr_t)type & ~(uintptr_t)TRP_MARK_TYPE) == 0);
}

TRP_INLINE void
trp_make_plain(struct trp_item *item, const troupe_msg_type *type,
    const void *payload, size_t bytes, troupe_ref sender)
{
    item->mark = (uint64_t)(uintptr_t)type | (uint64_t)bytes
                                                 << TRP_MARK_LENGTH_SHIFT;
    item->sender = trp_ref_pack(sender);
    trp_item_copy(item, payload, bytes);
}

/* Copies the payload into an item, or a box. E_INVALID, E_NOMEM. */
troupe_status trp_send_make(const struct trp_sending *sending,
    const troupe_msg_type *type, const void *payload, size_t bytes,
    struct trp_item *item);

/* An item that was not sent: the original keeps what the payload owns. */
void trp_send_unmake(const struct trp_sending *sending, struct trp_item *item);
/*
 * One that was: sending on what the current message owns moves it. False: it is
 * shared, and stays with its readers.
 */
bool trp_send_move_on(const struct trp_sending *sending,
    const troupe_msg_type *type, const void *payload, size_t bytes);

/* Sends a copy; counts it; a refusal is the caller's to report. */
troupe_status trp_send_copy(const struct trp_sending *sending,
    const troupe_msg_type *type, const void *payload, size_t bytes);
/* The same; a refusal is a dead letter, and the payload is dropped. */
void trp_send_tell(const struct trp_sending *sending,
    const troupe_msg_type *type, const void *payload, size_t bytes);

/* NULL, or of another system: why nothing can be done with `msg`. */
troupe_status trp_send_check_owned(
    const struct trp_sending *sending, const troupe_msg *msg);
/* Hands over an owned message. */
troupe_status trp_send_owned(
    const struct trp_sending *sending, troupe_msg *msg);
void trp_send_owned_tell(const struct trp_sending *sending, troupe_msg *msg);

/* What the payload of a copy that was refused owns goes all the same. */
void trp_send_lose(const struct trp_sending *sending,
    const troupe_msg_type *type, const void *payload, size_t bytes);

/* Why a refused tell has nobody to handle it. */
troupe_dead_reason trp_send_reason(troupe_ref to, troupe_status status);

/* TROUPE_OK, or why nothing can be sent from outside. */
troupe_status trp_send_outside(
    troupe_system *system, const char *call, struct trp_sending *sending);

/* The same for what is not sent now: it is in no column of the books. */
troupe_status trp_send_outside_uncounted(
    troupe_system *system, const char *call, struct trp_sending *sending);

/*
 * A tell from outside; once the system is closing, a dead letter. The caller
 * has set call, to, sender and current.
 */
void trp_send_tell_outside(troupe_system *system, struct trp_sending *sending,
    const troupe_msg_type *type, const void *payload);

/*
 * One payload for receivers that come one after the other: events, questions. A
 * shared one is stored once, at the first of them. E_INVALID, E_STATE: not
 * begun, and what the payload owns is the caller's.
 */
struct trp_fan {
    struct trp_sending sending;
    const troupe_msg_type *type;
    const void *payload;
    size_t bytes;
    struct trp_box *box; /* of a shared one */
};

troupe_status trp_fan_begin(struct trp_fan *fan,
    const struct trp_sending *sending, const troupe_msg_type *type,
    const void *payload, size_t bytes);
/*
 * To an actor that has gone (E_DEAD) nothing was sent; any other refusal is a
 * dead letter.
 */
troupe_status trp_fan_to(struct trp_fan *fan, troupe_ref to);
/* An item for one more receiver. E_NOMEM; only the first of a shared one. */
troupe_status trp_fan_item(struct trp_fan *fan, struct trp_item *item);
void trp_fan_end(struct trp_fan *fan);

/* All but the sender. */
void trp_send_failure_item(
    struct trp_item *item, const troupe_failure *failure);
/*
 * troupe_forward() of the current message, which was not given away. False:
 * `to` has gone, nothing was sent, and the message is current still.
 */
bool trp_forward_if_alive(struct troupe_self *self, troupe_ref to);

/* Payload of TROUPE_TAG_FAILURE. */
void trp_send_failure(const struct trp_sending *sending, int32_t code);

#endif /* TRP_ACTOR_SEND_H */
