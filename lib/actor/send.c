/* SPDX-License-Identifier: MIT */
#include "actor/send.h"

#include <string.h>

/*
 * Data path 1 of 6: send. From a behaviour, next actor/mailbox.h.
 *
 * A send makes an item of 32 bytes, with the payload in it or a pointer to a
 * box, and hands it to the mailbox of the receiver. It is counted as sent,
 * and as refused if it was. The other ways to send are in send_more.c.
 */

TRP_INLINE troupe_status
send_plain(struct troupe_self *self, troupe_ref to, const troupe_msg_type *type,
    const void *payload, size_t bytes)
{
    struct trp_item item;

    trp_make_plain(&item, type, payload, bytes, self->ref);
    trp_count(&self->local->books.sent, 1);
    self->after |= (uint8_t)(to.index == self->ref.index);
    return trp_mailbox_deliver(self->core, self->local, to, &item);
}

static struct trp_sending
from_self(struct troupe_self *self, troupe_ref to, const char *call)
{
    struct trp_sending sending = {.call = call, .to = to};

    if (self != NULL) {
        sending.core = self->core;
        sending.local = self->local;
        sending.sender = self->ref;
    }
    return sending;
}

troupe_status
troupe_send(troupe_self *self, troupe_ref to, const troupe_msg_type *type,
    const void *payload)
{
    if (TRP_LIKELY(self != NULL && type != NULL &&
                   trp_is_plain(type, payload, type->bytes) && to.index != 0)) {
        troupe_status status = send_plain(self, to, type, payload, type->bytes);

        if (TRP_UNLIKELY(status != TROUPE_OK)) {
            trp_count(&self->local->books.refused, 1);
        }
        return status;
    } else {
        struct trp_sending sending = from_self(self, to, "troupe_send");

        return trp_send_copy(
            &sending, type, payload, type != NULL ? type->bytes : 0);
    }
}

void
troupe_tell(troupe_self *self, troupe_ref to, const troupe_msg_type *type,
    const void *payload)
{
    if (TRP_LIKELY(self != NULL && type != NULL &&
                   trp_is_plain(type, payload, type->bytes) && to.index != 0)) {
        troupe_status status = send_plain(self, to, type, payload, type->bytes);

        if (TRP_UNLIKELY(status != TROUPE_OK)) {
            const troupe_msg view = {
                type, (void *)(uintptr_t)payload, type->bytes, self->ref};

            trp_dead_letter(self->core, self->local, to, &view, NULL,
                trp_send_reason(to, status));
        }
    } else {
        struct trp_sending sending = from_self(self, to, "troupe_tell");

        trp_send_tell(&sending, type, payload, type != NULL ? type->bytes : 0);
    }
}

troupe_status
troupe_send_bytes(troupe_self *self, troupe_ref to, const troupe_msg_type *type,
    const void *payload, size_t bytes)
{
    struct trp_sending sending = from_self(self, to, "troupe_send_bytes");

    return trp_send_copy(&sending, type, payload, bytes);
}

void
troupe_tell_bytes(troupe_self *self, troupe_ref to, const troupe_msg_type *type,
    const void *payload, size_t bytes)
{
    struct trp_sending sending = from_self(self, to, "troupe_tell_bytes");

    trp_send_tell(&sending, type, payload, bytes);
}

void
troupe_reply(
    troupe_self *self, const troupe_msg_type *type, const void *payload)
{
    troupe_tell(self, troupe_sender(self), type, payload);
}

void
troupe_reply_bytes(troupe_self *self, const troupe_msg_type *type,
    const void *payload, size_t bytes)
{
    troupe_tell_bytes(self, troupe_sender(self), type, payload, bytes);
}

troupe_status
troupe_send_msg(troupe_self *self, troupe_ref to, troupe_msg *msg)
{
    struct trp_sending sending = from_self(self, to, "troupe_send_msg");

    return trp_send_owned(&sending, msg);
}

void
troupe_tell_msg(troupe_self *self, troupe_ref to, troupe_msg *msg)
{
    struct trp_sending sending = from_self(self, to, "troupe_tell_msg");

    trp_send_owned_tell(&sending, msg);
}

void
troupe_reply_msg(troupe_self *self, troupe_msg *msg)
{
    troupe_tell_msg(self, troupe_sender(self), msg);
}

troupe_status
troupe_send_msg_from(
    troupe_self *self, troupe_ref to, troupe_msg *msg, troupe_ref sender)
{
    struct trp_sending sending = from_self(self, to, "troupe_send_msg_from");

    sending.sender = sender;
    return trp_send_owned(&sending, msg);
}

void
troupe_reply_failure(troupe_self *self, int32_t code)
{
    struct trp_sending sending =
        from_self(self, troupe_sender(self), "troupe_reply_failure");

    trp_send_failure(&sending, code);
}
