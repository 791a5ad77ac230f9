/* SPDX-License-Identifier: MIT */
#include "pattern/breaker.h"

#include "actor/op.h"
#include "actor/send.h"

/* An ask between enter and leave of a breaker. */

struct guarded {
    troupe_breaker *breaker;
    troupe_permit permit;
    troupe_continuation then;
};

static const troupe_msg_type guarded_type = {
    sizeof(troupe_msg_type), "guarded", 0, TROUPE_TAG_RESERVED, 0, NULL};

static void
forget(struct troupe_self *self, struct guarded *guarded)
{
    trp_box_forget(self->local, (struct trp_box *)(void *)guarded - 1);
}

static troupe_verdict
on_end(troupe_self *self, void *state, const troupe_result *result, void *user)
{
    struct guarded guarded = *(struct guarded *)user;

    forget(self, user);
    if (result->status == TROUPE_E_CANCELLED ||
        result->status == TROUPE_E_CLOSED) {
        trp_breaker_give_back(guarded.breaker, guarded.permit);
    } else {
        troupe_breaker_leave(
            guarded.breaker, guarded.permit, result->status, result->code);
    }
    return guarded.then.fn(self, state, result, guarded.then.user);
}

/*
 * The continuation is told E_OPEN, after the present callback. A mistake is one
 * here, too, and what the payload owns goes as with an ask that nobody takes.
 */
static troupe_status
refuse(struct troupe_self *self, const struct trp_sending *sending,
    const troupe_msg_type *type, const void *payload, troupe_continuation then,
    troupe_ticket *ticket)
{
    size_t bytes = type != NULL ? type->bytes : 0;
    troupe_status status =
        troupe_ref_is_none(sending->to)
            ? trp_refuse(TROUPE_E_INVALID, sending->call, "whom",
                  "must not be TROUPE_NONE", "TROUPE_NONE")
            : TROUPE_OK;
    struct trp_item item;
    struct trp_op *op;

    if (status == TROUPE_OK) {
        status = trp_send_make(sending, type, payload, bytes, &item);
    }
    if (status != TROUPE_OK) {
        return status;
    }
    trp_send_unmake(sending, &item);
    op = trp_op_open(self, sending->call, TROUPE_FOREVER, then, &status);
    if (op == NULL) {
        return status;
    }
    trp_send_lose(sending, type, payload, bytes);
    if (ticket != NULL) {
        ticket->id = trp_op_ticket(self->core, op);
    }
    (void)trp_op_end_with(self, op, TROUPE_E_OPEN);
    return TROUPE_OK;
}

troupe_status
troupe_breaker_ask(troupe_self *self, troupe_breaker *breaker, troupe_ref whom,
    const troupe_msg_type *type, const void *payload, troupe_continuation then,
    troupe_ticket *ticket)
{
    static const char call[] = "troupe_breaker_ask";
    struct guarded *guarded;
    struct trp_box *box;
    troupe_status status;

    if (self == NULL || breaker == NULL || then.fn == NULL) {
        return trp_refuse(TROUPE_E_INVALID, call,
            self == NULL      ? "self"
            : breaker == NULL ? "breaker"
                              : "then.fn",
            "must not be NULL", "NULL");
    }
    box = trp_box_new(
        self->core, self->local, &guarded_type, sizeof(struct guarded));
    if (box == NULL) {
        return TROUPE_E_NOMEM;
    }
    guarded = box->msg.payload;
    guarded->breaker = breaker;
    guarded->then = then;
    status = troupe_breaker_enter(breaker, &guarded->permit);
    if (status != TROUPE_OK) {
        const struct trp_sending sending = {
            .core = self->core, .local = self->local, .call = call, .to = whom};

        forget(self, guarded);
        return status == TROUPE_E_OPEN
                   ? refuse(self, &sending, type, payload, then, ticket)
                   : status;
    }
    status = troupe_ask(self, whom, type, payload, trp_breaker_call_ns(breaker),
        troupe_then(on_end, guarded), ticket);
    if (status != TROUPE_OK) {
        trp_breaker_give_back(breaker, guarded->permit);
        forget(self, guarded);
    }
    return status;
}
