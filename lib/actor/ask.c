/* SPDX-License-Identifier: MIT */
#include <troupe/ask.h>
#include <troupe/stop.h>

#include "actor/op.h"
#include "actor/send.h"
#include "actor/stop.h"

/* What an actor can begin, await and cancel; the machine is in op.c. */

static troupe_status
check(const char *call, const troupe_self *self, troupe_continuation then)
{
    if (self == NULL || then.fn == NULL) {
        return trp_refuse(TROUPE_E_INVALID, call,
            self == NULL ? "self" : "then.fn", "must not be NULL", "NULL");
    }
    return TROUPE_OK;
}

static void
give_ticket(
    const struct troupe_self *self, struct trp_op *op, troupe_ticket *ticket)
{
    if (ticket != NULL) {
        ticket->id = trp_op_ticket(self->core, op);
    }
}

static struct trp_sending
ask_from(struct troupe_self *self, struct trp_op *op, troupe_ref whom,
    const char *call)
{
    return (struct trp_sending){.core = self->core,
        .local = self->local,
        .call = call,
        .to = whom,
        .sender = trp_op_ref(self->core, op),
        .mark = TRP_MARK_ASK};
}

/* Mistakes and missing memory are returned; the rest ends the operation. */
static bool
is_returned(troupe_status status)
{
    return status == TROUPE_E_INVALID || status == TROUPE_E_STATE ||
           status == TROUPE_E_NOMEM;
}

static troupe_status
settle(struct troupe_self *self, struct trp_op *op, troupe_status status,
    troupe_ticket *ticket)
{
    if (TRP_LIKELY(status == TROUPE_OK)) {
        give_ticket(self, op, ticket);
        return TROUPE_OK;
    }
    if (is_returned(status)) {
        trp_op_discard(self, op);
        return status;
    }
    give_ticket(self, op, ticket);
    (void)trp_op_end_with(self, op, status);
    return TROUPE_OK;
}

TRP_INLINE troupe_status
ask_plain(struct troupe_self *self, struct trp_op *op, troupe_ref whom,
    const troupe_msg_type *type, const void *payload)
{
    struct trp_item item;
    troupe_status status;

    trp_make_plain(&item, type, payload, type->bytes, TROUPE_NONE);
    item.mark |= TRP_MARK_ASK;
    item.sender = trp_op_address(self->core, op);
    trp_count(&self->local->books.sent, 1);
    status = trp_mailbox_deliver(self->core, self->local, whom, &item);
    if (TRP_UNLIKELY(status != TROUPE_OK)) {
        trp_count(&self->local->books.refused, 1);
    }
    return status;
}

static troupe_status
ask_slowly(struct troupe_self *self, struct trp_op *op, troupe_ref whom,
    const troupe_msg_type *type, const void *payload, const char *call)
{
    size_t bytes = type != NULL ? type->bytes : 0;
    struct trp_sending sending = ask_from(self, op, whom, call);
    troupe_status status = trp_send_copy(&sending, type, payload, bytes);

    if (status != TROUPE_OK && !is_returned(status)) {
        trp_send_lose(&sending, type, payload, bytes);
    }
    return status;
}

troupe_status
troupe_ask(troupe_self *self, troupe_ref whom, const troupe_msg_type *type,
    const void *payload, uint64_t timeout_ns, troupe_continuation then,
    troupe_ticket *ticket)
{
    static const char call[] = "troupe_ask";
    troupe_status status = check(call, self, then);
    struct trp_op *op;

    if (TRP_UNLIKELY(status != TROUPE_OK)) {
        return status;
    }
    op = trp_op_open(self, call, timeout_ns, then, &status);
    if (TRP_UNLIKELY(op == NULL)) {
        return status;
    }
    if (TRP_LIKELY(type != NULL && trp_is_plain(type, payload, type->bytes) &&
                   whom.index != 0)) {
        status = ask_plain(self, op, whom, type, payload);
    } else {
        status = ask_slowly(self, op, whom, type, payload, call);
    }
    return settle(self, op, status, ticket);
}

troupe_status
troupe_ask_msg(troupe_self *self, troupe_ref whom, troupe_msg *msg,
    uint64_t timeout_ns, troupe_continuation then, troupe_ticket *ticket)
{
    static const char call[] = "troupe_ask_msg";
    troupe_status status = check(call, self, then);
    struct trp_sending sending;
    struct trp_op *op;

    if (status != TROUPE_OK) {
        return status;
    }
    op = trp_op_open(self, call, timeout_ns, then, &status);
    if (op == NULL) {
        return status;
    }
    sending = ask_from(self, op, whom, call);
    status = trp_send_owned(&sending, msg);
    if (status != TROUPE_OK && !is_returned(status)) {
        troupe_msg_free(msg);
    }
    return settle(self, op, status, ticket);
}

troupe_status
troupe_promise(troupe_self *self, uint64_t timeout_ns, troupe_continuation then,
    troupe_ref *promise, troupe_ticket *ticket)
{
    static const char call[] = "troupe_promise";
    troupe_status status = check(call, self, then);
    struct trp_op *op;

    if (status == TROUPE_OK && promise == NULL) {
        status = trp_refuse(
            TROUPE_E_INVALID, call, "promise", "must not be NULL", "NULL");
    }
    if (status != TROUPE_OK) {
        return status;
    }
    op = trp_op_open(self, call, timeout_ns, then, &status);
    if (op != NULL) {
        *promise = trp_op_ref(self->core, op);
        give_ticket(self, op, ticket);
    }
    return status;
}

/* --- pipe ----------------------------------------------------------------- */

/* A message that the library sends for somebody: refused, it is a dead letter.
 */
static void
send_on(struct troupe_self *self, troupe_ref to, const struct trp_item *item)
{
    troupe_status status =
        trp_mailbox_deliver(self->core, self->local, to, item);

    trp_book(self->core, self->local, sent, 1);
    if (status != TROUPE_OK) {
        struct trp_item lost = *item;
        troupe_msg view;

        trp_item_view(&lost, &view);
        trp_dead_letter(self->core, self->local, to, &view,
            trp_item_box_or_null(&lost), trp_send_reason(to, status));
        trp_item_release(self->local, &lost);
    }
}

static troupe_verdict
pipe_on(troupe_self *self, void *state, const troupe_result *result, void *user)
{
    troupe_ref to = trp_ref_unpack((uint64_t)(uintptr_t)user);
    struct trp_item item;

    (void)state;
    if (result->status != TROUPE_OK) {
        const troupe_failure failure = {result->status, result->code};

        trp_send_failure_item(&item, &failure);
    } else {
        item = *self->current.item;
        self->current.spent |= TRP_SPENT_TAKEN | TRP_SPENT_AWAY;
    }
    item.mark &= ~TRP_MARK_ASK;
    if (trp_ref_is_promise(self->current.msg->sender)) {
        item.mark |= TRP_MARK_ASK; /* `to` is to answer it now */
        trp_op_unhold(self->core, self->current.msg->sender);
    }
    item.sender = trp_ref_pack(self->current.msg->sender);
    send_on(self, to, &item);
    return TROUPE_CONTINUE;
}

_Static_assert(sizeof(void *) == sizeof(troupe_ref), "a ref travels in one");

troupe_status
troupe_pipe(
    troupe_self *self, troupe_ref to, uint64_t timeout_ns, troupe_ref *promise)
{
    static const char call[] = "troupe_pipe";
    struct trp_op *op;
    troupe_status status;

    if (self == NULL || promise == NULL || troupe_ref_is_none(to)) {
        return trp_refuse(TROUPE_E_INVALID, call,
            self == NULL      ? "self"
            : promise == NULL ? "promise"
                              : "to",
            "must not be NULL or TROUPE_NONE", "NULL");
    }
    op = trp_op_open(self, call, timeout_ns,
        troupe_then(pipe_on, (void *)(uintptr_t)trp_ref_pack(to)), &status);
    if (op != NULL) {
        *promise = trp_op_ref(self->core, op);
    }
    return status;
}

/* --- pauses and stops ----------------------------------------------------- */

troupe_status
troupe_sleep(troupe_self *self, uint64_t delay_ns, troupe_continuation then,
    troupe_ticket *ticket)
{
    static const char call[] = "troupe_sleep";
    troupe_status status = check(call, self, then);
    struct trp_op *op;

    if (status != TROUPE_OK) {
        return status;
    }
    op = trp_op_open(self, call, delay_ns != 0 ? delay_ns : 1, then, &status);
    if (op != NULL) {
        op->kind = TRP_OP_SLEEP;
        give_ticket(self, op, ticket);
    }
    return status;
}

troupe_status
troupe_stop_gracefully(troupe_self *self, troupe_ref whom, uint64_t timeout_ns,
    troupe_continuation then, troupe_ticket *ticket)
{
    static const char call[] = "troupe_stop_gracefully";
    troupe_status status = check(call, self, then);
    struct trp_op *op;

    if (status == TROUPE_OK) {
        status = trp_stop_check(self->core, whom, call);
    }
    if (status != TROUPE_OK) {
        return status;
    }
    op = trp_op_open(self, call, timeout_ns, then, &status);
    if (op == NULL) {
        return status;
    }
    op->kind = TRP_OP_STOP;
    op->item.payload[0] = trp_ref_pack(whom);
    give_ticket(self, op, ticket);
    status = trp_op_hold(self->core, whom, trp_op_ref(self->core, op));
    if (status == TROUPE_OK) {
        status = troupe_stop(self, whom);
    }
    if (status == TROUPE_E_DEAD) { /* which is what was wanted */
        (void)trp_op_end_with(self, op, TROUPE_E_DEAD);
    } else if (status != TROUPE_OK && trp_op_end(op)) {
        trp_op_discard(self, op);
        return status;
    }
    return TROUPE_OK;
}

/* --- await and cancel ----------------------------------------------------- */

troupe_status
troupe_cancel(troupe_self *self, troupe_ticket ticket)
{
    struct trp_op *op;

    if (self == NULL) {
        return trp_refuse(TROUPE_E_INVALID, "troupe_cancel", "self",
            "must not be NULL", "NULL");
    }
    op = trp_op_find(self, ticket);
    return op != NULL && trp_op_end_with(self, op, TROUPE_E_CANCELLED)
               ? TROUPE_OK
               : TROUPE_E_MISSING;
}

troupe_verdict
troupe_await(
    troupe_self *self, troupe_status started, const troupe_ticket *ticket)
{
    static const char call[] = "troupe_await";

    if (started != TROUPE_OK) {
        return troupe_fail(self, (int32_t)started);
    }
    if (self == NULL || ticket == NULL || trp_op_find(self, *ticket) == NULL) {
        trp_refuse(TROUPE_E_INVALID, call,
            self == NULL     ? "self"
            : ticket == NULL ? "ticket"
                             : "ticket.id",
            "must be of an operation that has not ended", "%s", "none");
        return troupe_fail(self, TROUPE_E_INVALID);
    }
    self->awaits = *ticket;
    return (troupe_verdict)TRP_VERDICT_AWAIT;
}
