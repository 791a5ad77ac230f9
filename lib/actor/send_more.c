/* SPDX-License-Identifier: MIT */
#include "actor/send.h"

#include "actor/op.h"

#include <string.h>

/* Sends that box, own, fan out or come from outside; see send.c. */

/* --- copies --------------------------------------------------------------- */

/*
 * The message whose payload this is, or NULL: that of the port that sends, or
 * of the behaviour that runs on this thread, whatever system it sends to.
 */
static struct trp_current *
origin_of(const struct trp_sending *sending, const void *payload)
{
    const struct trp_worker *worker = trp_thread.worker;
    struct trp_current *current = sending->current;

    if (payload == NULL) {
        return NULL;
    }
    if (current != NULL && current->msg != NULL &&
        current->msg->payload == payload) {
        return current;
    }
    if (worker != NULL) {
        struct trp_local *local = worker->local;

        current = &local->self.current;
        if (current->msg != NULL && current->msg->payload == payload) {
            return current;
        }
    }
    return NULL;
}

static bool
is_same_type(const troupe_msg_type *a, const troupe_msg_type *b)
{
    return a == b || (a->tag == b->tag && a->bytes == b->bytes &&
                         a->flags == b->flags && a->drop == b->drop);
}

/*
 * The box of a current message that is sent on as it is, so that it gets one
 * more reader instead of a copy; or NULL.
 */
static struct trp_box *
shared_origin(const struct trp_sending *sending, const troupe_msg_type *type,
    const void *payload, size_t bytes)
{
    const struct trp_current *origin = origin_of(sending, payload);
    struct trp_box *box;

    if ((type->flags & TROUPE_MSG_SHARED) == 0 || origin == NULL ||
        origin->spent != 0 || bytes != origin->msg->bytes ||
        (origin->item->mark & TRP_MARK_BOXED) == 0 ||
        !is_same_type(type, origin->msg->type)) {
        return NULL;
    }
    box = trp_box_base(trp_item_box(origin->item));
    return box->core == sending->core ? box : NULL;
}

static struct trp_box *
share(struct trp_box *box)
{
    if (box != NULL) {
        trp_add_relaxed(&box->refs, 1); /* relaxed: we hold one */
    }
    return box;
}

/* Others may read what the current message holds. */
static bool
has_other_readers(const struct trp_current *origin)
{
    return (origin->item->mark & TRP_MARK_BOXED) != 0 &&
           /* relaxed: one reader stays one. */
           trp_load_relaxed(&trp_box_base(trp_item_box(origin->item))->refs) !=
               1;
}

/*
 * E_STATE: what the current message held is somebody else's since an earlier
 * call, or would be owned by its other readers as well.
 */
static troupe_status
check_origin(const struct trp_sending *sending, const troupe_msg_type *type,
    const void *payload, size_t bytes)
{
    const struct trp_current *origin = origin_of(sending, payload);

    if (origin == NULL ||
        (type->drop == NULL && (origin->spent & TRP_SPENT_AWAY) == 0)) {
        return TROUPE_OK;
    }
    if (origin->spent != 0) {
        return trp_refuse(TROUPE_E_STATE, sending->call, "payload",
            "of the current message was given away already", "%s",
            trp_type_name(type));
    }
    if (has_other_readers(origin) &&
        shared_origin(sending, type, payload, bytes) == NULL) {
        return trp_refuse(TROUPE_E_STATE, sending->call, "payload",
            "of the current message has other readers", "%s",
            trp_type_name(type));
    }
    return TROUPE_OK;
}

troupe_status
trp_send_make(const struct trp_sending *sending, const troupe_msg_type *type,
    const void *payload, size_t bytes, struct trp_item *item)
{
    troupe_status status =
        trp_message_check(sending->call, type, payload, bytes);
    struct trp_box *shared;
    uint64_t drop;

    if (status != TROUPE_OK) {
        return status;
    }
    status = check_origin(sending, type, payload, bytes);
    if (status != TROUPE_OK) {
        return status;
    }
    shared = share(shared_origin(sending, type, payload, bytes));
    if (shared != NULL) {
        trp_item_from_box(item, shared);
        item->sender = trp_ref_pack(sending->sender);
        return TROUPE_OK;
    }
    drop = type->drop != NULL ? TRP_MARK_DROP : 0;
    if (bytes <= TRP_INLINE_BYTES) {
        item->mark = (uint64_t)(uintptr_t)type | drop |
                     (uint64_t)bytes << TRP_MARK_LENGTH_SHIFT;
        item->sender = trp_ref_pack(sending->sender);
        trp_item_copy(item, payload, bytes);
    } else {
        struct trp_box *box =
            trp_box_new(sending->core, sending->local, type, bytes);

        if (box == NULL) {
            return TROUPE_E_NOMEM;
        }
        memcpy(box->msg.payload, payload, bytes);
        box->msg.sender = sending->sender;
        trp_item_from_box(item, box);
    }
    return TROUPE_OK;
}

void
trp_send_unmake(const struct trp_sending *sending, struct trp_item *item)
{
    if ((item->mark & TRP_MARK_BOXED) != 0) {
        trp_box_release(sending->local, trp_item_box(item), false);
    }
}

bool
trp_send_move_on(const struct trp_sending *sending, const troupe_msg_type *type,
    const void *payload, size_t bytes)
{
    struct trp_current *origin = origin_of(sending, payload);

    if (type->drop == NULL || origin == NULL) {
        return true;
    }
    if (shared_origin(sending, type, payload, bytes) != NULL) {
        return false;
    }
    origin->spent |= TRP_SPENT_MOVED;
    return true;
}

static troupe_status
check_sender(const struct trp_sending *sending)
{
    if (sending->core == NULL) {
        return trp_refuse(TROUPE_E_INVALID, sending->call, "self",
            "must not be NULL", "NULL");
    }
    return TROUPE_OK;
}

static troupe_status
check_target(const struct trp_sending *sending)
{
    if (troupe_ref_is_none(sending->to)) {
        return trp_refuse(TROUPE_E_INVALID, sending->call, "to",
            "must not be TROUPE_NONE", "TROUPE_NONE");
    }
    return TROUPE_OK;
}

troupe_status
trp_send_copy(const struct trp_sending *sending, const troupe_msg_type *type,
    const void *payload, size_t bytes)
{
    troupe_status status = check_sender(sending);
    struct trp_item item;

    if (status == TROUPE_OK) {
        status = check_target(sending);
    }
    if (status == TROUPE_OK) {
        status = trp_send_make(sending, type, payload, bytes, &item);
    }
    if (status == TROUPE_E_INVALID || status == TROUPE_E_STATE) {
        return status; /* a mistake in the program: nothing was attempted */
    }
    if (status == TROUPE_OK) {
        item.mark |= sending->mark;
        status = trp_mailbox_deliver(
            sending->core, sending->local, sending->to, &item);
        if (status == TROUPE_OK) {
            (void)trp_send_move_on(sending, type, payload, bytes);
        } else {
            trp_send_unmake(sending, &item);
        }
    }
    trp_book(sending->core, sending->local, sent, 1);
    if (status != TROUPE_OK) {
        trp_book(sending->core, sending->local, refused, 1);
    }
    return status;
}

troupe_dead_reason
trp_send_reason(troupe_ref to, troupe_status status)
{
    if (trp_ref_is_promise(to) && status == TROUPE_E_DEAD) {
        return TROUPE_DEAD_LATE;
    }
    if (troupe_ref_is_none(to)) {
        return TROUPE_DEAD_NO_SENDER;
    }
    if (status == TROUPE_E_NO_ROUTE) {
        return TROUPE_DEAD_NO_ROUTE;
    }
    return status == TROUPE_E_DEAD || status == TROUPE_E_CLOSED
               ? TROUPE_DEAD_STOPPED
               : TROUPE_DEAD_REFUSED;
}

static const troupe_msg_type invalid_type = {
    sizeof(troupe_msg_type), "invalid", 0, TROUPE_TAG_RESERVED, 0, NULL};

/* A tell that was refused and is in a box: what the payload owns is, too. */
static void
lose_box(const struct trp_sending *sending, struct trp_box *box,
    const troupe_msg *view, troupe_status status)
{
    troupe_msg boxed = box->msg;

    (void)trp_send_move_on(sending, view->type, view->payload, view->bytes);
    boxed.sender = sending->sender;
    trp_dead_letter(sending->core, sending->local, sending->to, &boxed, box,
        trp_send_reason(sending->to, status));
    trp_box_release(sending->local, box, true);
}

static troupe_status
deliver(const struct trp_sending *sending, const struct trp_item *item)
{
    return sending->is_closed ? TROUPE_E_CLOSED
                              : trp_mailbox_deliver(sending->core,
                                    sending->local, sending->to, item);
}

void
trp_send_lose(const struct trp_sending *sending, const troupe_msg_type *type,
    const void *payload, size_t bytes)
{
    if (type->drop != NULL && trp_send_move_on(sending, type, payload, bytes)) {
        type->drop((void *)(uintptr_t)payload, bytes);
    }
}

void
trp_send_tell(const struct trp_sending *sending, const troupe_msg_type *type,
    const void *payload, size_t bytes)
{
    troupe_msg view = {type != NULL ? type : &invalid_type,
        (void *)(uintptr_t)payload, bytes, sending->sender};
    troupe_status status = check_sender(sending);
    struct trp_item item;

    if (status != TROUPE_OK) {
        return;
    }
    trp_book(sending->core, sending->local, sent, 1);
    status = trp_send_make(sending, type, payload, bytes, &item);
    if (status == TROUPE_E_INVALID || status == TROUPE_E_STATE) {
        view.payload = NULL; /* not of this type, or not the sender's */
    } else if (status == TROUPE_OK) {
        status = deliver(sending, &item);
        if (status == TROUPE_OK) {
            (void)trp_send_move_on(sending, type, payload, bytes);
            return;
        }
        if ((item.mark & TRP_MARK_BOXED) != 0) {
            lose_box(sending, trp_item_box(&item), &view, status);
            return;
        }
    }
    trp_dead_letter(sending->core, sending->local, sending->to, &view, NULL,
        trp_send_reason(sending->to, status));
    if (view.payload != NULL && type->drop != NULL &&
        trp_send_move_on(
            sending, type, payload, bytes)) { /* tell always takes it */
        type->drop(view.payload, bytes);
    }
}

static const troupe_msg_type failure_type = {sizeof(troupe_msg_type), "failure",
    sizeof(troupe_failure), TROUPE_TAG_FAILURE, 0, NULL};

_Static_assert(sizeof(troupe_failure) <= TRP_INLINE_BYTES, "needs no memory");

void
trp_send_failure_item(struct trp_item *item, const troupe_failure *failure)
{
    item->mark = (uint64_t)(uintptr_t)&failure_type |
                 (uint64_t)sizeof *failure << TRP_MARK_LENGTH_SHIFT;
    trp_item_copy(item, failure, sizeof *failure);
}

void
trp_send_failure(const struct trp_sending *sending, int32_t code)
{
    const troupe_failure failure = {TROUPE_E_FAILED, code};
    troupe_msg view = {&failure_type, (void *)(uintptr_t)&failure,
        sizeof failure, sending->sender};
    struct trp_item item;
    troupe_status status;

    if (check_sender(sending) != TROUPE_OK) {
        return;
    }
    trp_send_failure_item(&item, &failure);
    item.sender = trp_ref_pack(sending->sender);
    trp_book(sending->core, sending->local, sent, 1);
    status = deliver(sending, &item);
    if (status != TROUPE_OK) {
        trp_dead_letter(sending->core, sending->local, sending->to, &view, NULL,
            trp_send_reason(sending->to, status));
    }
}

/* --- owned messages ------------------------------------------------------- */

troupe_status
trp_send_check_owned(const struct trp_sending *sending, const troupe_msg *msg)
{
    troupe_status status = check_sender(sending);

    if (status != TROUPE_OK) {
        return status;
    }
    if (msg == NULL) {
        return TROUPE_E_NOMEM;
    }
    if (trp_box_of((troupe_msg *)(uintptr_t)msg)->core != sending->core) {
        return trp_refuse(TROUPE_E_INVALID, sending->call, "msg",
            "belongs to another system", "%s", trp_type_name(msg->type));
    }
    return TROUPE_OK;
}

/* Somebody else is to answer it: our death does not matter any more. */
static void
pass_on(const struct trp_sending *sending)
{
    struct trp_current *current = sending->current != NULL ? sending->current
                                  : sending->local != NULL
                                      ? &sending->local->self.current
                                      : NULL;

    trp_op_unhold(sending->core, sending->sender);
    if (current != NULL && current->msg != NULL &&
        current->item->sender == trp_ref_pack(sending->sender)) {
        current->spent |= TRP_SPENT_PASSED;
    }
}

troupe_status
trp_send_owned(const struct trp_sending *sending, troupe_msg *msg)
{
    troupe_status status = trp_send_check_owned(sending, msg);
    troupe_ref before;
    struct trp_item item;

    if (status == TROUPE_OK) {
        status = check_target(sending);
    }
    if (status != TROUPE_OK) {
        return status;
    }
    before = msg->sender;
    msg->sender = sending->sender;
    trp_item_from_box(&item, trp_box_of(msg));
    trp_book(sending->core, sending->local, sent, 1);
    if (trp_ref_is_promise(sending->sender) && sending->mark == 0) {
        pass_on(sending);
    }
    status =
        trp_mailbox_deliver(sending->core, sending->local, sending->to, &item);
    if (status != TROUPE_OK) {
        msg->sender = before; /* the caller's still, as it was */
        trp_book(sending->core, sending->local, refused, 1);
    }
    return status;
}

void
trp_send_owned_tell(const struct trp_sending *sending, troupe_msg *msg)
{
    troupe_status status = trp_send_check_owned(sending, msg);
    struct trp_box *box = NULL; /* another system's is shown, not kept */
    struct trp_item item;

    if (msg == NULL || sending->core == NULL) {
        troupe_msg_free(msg);
        return;
    }
    msg->sender = sending->sender;
    trp_book(sending->core, sending->local, sent, 1);
    if (status == TROUPE_OK) {
        box = trp_box_of(msg);
        trp_item_from_box(&item, box);
        status = trp_mailbox_deliver(
            sending->core, sending->local, sending->to, &item);
    }
    if (status != TROUPE_OK) {
        trp_dead_letter(sending->core, sending->local, sending->to, msg, box,
            trp_send_reason(sending->to, status));
        troupe_msg_free(msg);
    }
}

/* --- the current message -------------------------------------------------- */

troupe_ref
troupe_sender(const troupe_self *self)
{
    return self != NULL && self->current.msg != NULL ? self->current.msg->sender
                                                     : TROUPE_NONE;
}

static troupe_status
forward(struct troupe_self *self, troupe_ref to)
{
    troupe_status status;

    trp_book(self->core, self->local, sent, 1);
    self->current.item->mark &= ~TRP_MARK_HOPS; /* it has been handled */
    status =
        trp_mailbox_deliver(self->core, self->local, to, self->current.item);
    if (status == TROUPE_OK) {
        self->current.spent |= TRP_SPENT_TAKEN | TRP_SPENT_AWAY;
    }
    return status;
}

static void
bury_current(struct troupe_self *self, troupe_ref to, troupe_status status)
{
    trp_dead_letter(self->core, self->local, to, self->current.msg,
        trp_item_box_or_null(self->current.item), trp_send_reason(to, status));
}

void
troupe_forward(troupe_self *self, troupe_ref to)
{
    troupe_status status;

    if (self == NULL || self->current.msg == NULL || self->current.spent != 0) {
        trp_refuse(TROUPE_E_STATE, "troupe_forward", "self",
            "has no message to forward", "%s",
            self == NULL || self->current.msg == NULL ? "none" : "given away");
        return;
    }
    status = forward(self, to);
    if (status != TROUPE_OK) {
        bury_current(self, to, status);
    }
}

bool
trp_forward_if_alive(struct troupe_self *self, troupe_ref to)
{
    troupe_status status = forward(self, to);

    if (status == TROUPE_E_DEAD) {
        trp_book(self->core, self->local, sent, UINT64_MAX);
        return false;
    }
    if (status != TROUPE_OK) {
        bury_current(self, to, status);
    }
    return true;
}

troupe_status
troupe_take(troupe_self *self, troupe_msg **msg)
{
    struct trp_box *box;

    if (self == NULL || msg == NULL) {
        return trp_refuse(TROUPE_E_INVALID, "troupe_take",
            self == NULL ? "self" : "msg", "must not be NULL", "NULL");
    }
    if (self->current.msg == NULL || self->current.spent != 0) {
        return trp_refuse(TROUPE_E_STATE, "troupe_take", "self",
            "has no message to take", "%s",
            self->current.msg == NULL ? "none" : "given away");
    }
    box = trp_item_own(self->core, self->local, self->current.item);
    if (box == NULL) {
        return TROUPE_E_NOMEM;
    }
    box->msg.sender = trp_ref_unpack(self->current.item->sender);
    self->current.spent |= TRP_SPENT_TAKEN;
    *msg = &box->msg;
    return TROUPE_OK;
}

/* --- many ----------------------------------------------------------------- */

/* The box that all receivers share: the current message's, or a new one. */
static struct trp_box *
shared_box(const struct trp_sending *sending, const troupe_msg_type *type,
    const void *payload, size_t bytes)
{
    struct trp_box *box = share(shared_origin(sending, type, payload, bytes));

    if (box != NULL) {
        return box;
    }
    box = trp_box_new(sending->core, sending->local, type, bytes);
    if (box != NULL && bytes != 0) {
        memcpy(box->msg.payload, payload, bytes);
        (void)trp_send_move_on(sending, type, payload, bytes);
    }
    return box;
}

static size_t
tell_shared(const struct trp_sending *sending, struct trp_box *box,
    const troupe_ref *to, size_t count)
{
    struct trp_item item;
    size_t taken = 0;

    trp_item_from_box(&item, box);
    item.sender = trp_ref_pack(sending->sender);
    /* relaxed: we hold one reader, so it cannot reach 0 meanwhile. */
    trp_add_relaxed(&box->refs, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        troupe_status status =
            trp_mailbox_deliver(sending->core, sending->local, to[i], &item);

        trp_book(sending->core, sending->local, sent, 1);
        if (status == TROUPE_OK) {
            taken++;
        } else {
            troupe_msg view = box->msg;

            view.sender = sending->sender;
            trp_dead_letter(sending->core, sending->local, to[i], &view, box,
                trp_send_reason(to[i], status));
            trp_box_release(sending->local, box, true);
        }
    }
    trp_box_release(sending->local, box, true);
    return taken;
}

/* No memory to share it: a dead letter for each, and the payload is dropped. */
static void
tell_nobody(const struct trp_sending *sending, const troupe_ref *to,
    size_t count, const troupe_msg_type *type, const void *payload)
{
    const troupe_msg view = {
        type, (void *)(uintptr_t)payload, type->bytes, sending->sender};

    for (size_t i = 0; i < count; i++) {
        trp_book(sending->core, sending->local, sent, 1);
        trp_dead_letter(sending->core, sending->local, to[i], &view, NULL,
            trp_send_reason(to[i], TROUPE_E_NOMEM));
    }
    if (type->drop != NULL &&
        trp_send_move_on(sending, type, payload, view.bytes)) {
        type->drop(view.payload, view.bytes);
    }
}

size_t
troupe_tell_many(troupe_self *self, const troupe_ref *to, size_t count,
    const troupe_msg_type *type, const void *payload)
{
    struct trp_sending sending = {.call = "troupe_tell_many"};
    size_t taken = 0;
    size_t bytes = type != NULL ? type->bytes : 0;

    if (self == NULL || (to == NULL && count != 0)) {
        trp_refuse(TROUPE_E_INVALID, sending.call, self == NULL ? "self" : "to",
            "must not be NULL", "NULL");
        return 0;
    }
    sending.core = self->core;
    sending.local = self->local;
    sending.sender = self->ref;
    if (trp_message_check(sending.call, type, payload, bytes) != TROUPE_OK) {
        return 0;
    }
    if (check_origin(&sending, type, payload, bytes) != TROUPE_OK) {
        return 0;
    }
    if ((type->flags & TROUPE_MSG_SHARED) != 0 && count <= UINT32_MAX / 2) {
        struct trp_box *box = shared_box(&sending, type, payload, bytes);

        if (box != NULL) {
            return tell_shared(&sending, box, to, count);
        }
        tell_nobody(&sending, to, count, type, payload);
        return 0;
    }
    if (type->drop != NULL) {
        trp_refuse(TROUPE_E_INVALID, sending.call, "type",
            "owns something: several receivers need TROUPE_MSG_SHARED", "%s",
            trp_type_name(type));
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        struct trp_item item;
        troupe_status status =
            trp_send_make(&sending, type, payload, bytes, &item);

        trp_book(sending.core, sending.local, sent, 1);
        if (status == TROUPE_OK) {
            status =
                trp_mailbox_deliver(sending.core, sending.local, to[i], &item);
            if (status == TROUPE_OK) {
                taken++;
                continue;
            }
            trp_send_unmake(&sending, &item);
        }
        trp_dead_letter(sending.core, sending.local, to[i],
            &(const troupe_msg){
                type, (void *)(uintptr_t)payload, bytes, sending.sender},
            NULL, trp_send_reason(to[i], status));
    }
    return taken;
}

/* --- to whoever subscribed ------------------------------------------------ */

troupe_status
trp_fan_begin(struct trp_fan *fan, const struct trp_sending *sending,
    const troupe_msg_type *type, const void *payload, size_t bytes)
{
    troupe_status status =
        trp_message_check(sending->call, type, payload, bytes);

    if (status != TROUPE_OK) {
        return status;
    }
    status = check_origin(sending, type, payload, bytes);
    if (status != TROUPE_OK) {
        return status;
    }
    if (type->drop != NULL && (type->flags & TROUPE_MSG_SHARED) == 0) {
        return trp_refuse(TROUPE_E_INVALID, sending->call, "type",
            "owns something: several receivers need TROUPE_MSG_SHARED", "%s",
            trp_type_name(type));
    }
    *fan = (struct trp_fan){
        .sending = *sending, .type = type, .payload = payload, .bytes = bytes};
    return TROUPE_OK;
}

troupe_status
trp_fan_item(struct trp_fan *fan, struct trp_item *item)
{
    const struct trp_sending *sending = &fan->sending;

    if ((fan->type->flags & TROUPE_MSG_SHARED) == 0) {
        return trp_send_make(
            sending, fan->type, fan->payload, fan->bytes, item);
    }
    if (fan->box == NULL) {
        fan->box = shared_box(sending, fan->type, fan->payload, fan->bytes);
        if (fan->box == NULL) {
            return TROUPE_E_NOMEM;
        }
    }
    trp_add_relaxed(&fan->box->refs, 1); /* relaxed: the fan holds one */
    trp_item_from_box(item, fan->box);
    item->sender = trp_ref_pack(sending->sender);
    return TROUPE_OK;
}

troupe_status
trp_fan_to(struct trp_fan *fan, troupe_ref to)
{
    const struct trp_sending *sending = &fan->sending;
    troupe_msg view = {fan->type, (void *)(uintptr_t)fan->payload, fan->bytes,
        sending->sender};
    struct trp_item item = {0};
    troupe_status status = trp_fan_item(fan, &item);
    struct trp_box *box = trp_item_box_or_null(&item);

    if (status == TROUPE_OK) {
        status = trp_mailbox_deliver(sending->core, sending->local, to, &item);
    }
    if (status != TROUPE_E_DEAD) {
        trp_book(sending->core, sending->local, sent, 1);
    }
    if (status != TROUPE_OK && status != TROUPE_E_DEAD) {
        view.payload = box != NULL ? box->msg.payload : view.payload;
        trp_dead_letter(sending->core, sending->local, to, &view, box,
            trp_send_reason(to, status));
    }
    if (status != TROUPE_OK && box != NULL) { /* the fan keeps what it owns */
        trp_box_release(sending->local, box, false);
    }
    return status;
}

void
trp_fan_end(struct trp_fan *fan)
{
    const troupe_msg_type *type = fan->type;

    if (fan->box != NULL) {
        trp_box_release(fan->sending.local, fan->box, true);
    } else if (type->drop != NULL && trp_send_move_on(&fan->sending, type,
                                         fan->payload, fan->bytes)) {
        type->drop((void *)(uintptr_t)fan->payload, fan->bytes);
    }
}

/* --- outside -------------------------------------------------------------- */

troupe_status
trp_send_outside_uncounted(
    troupe_system *system, const char *call, struct trp_sending *sending)
{
    struct trp_core *core = trp_core_of(system);

    sending->call = call;
    if (system == NULL) {
        return trp_refuse(
            TROUPE_E_INVALID, call, "system", "must not be NULL", "NULL");
    }
    if (!trp_core_is_alive(core)) {
        return TROUPE_E_FORKED;
    }
    sending->core = core;
    sending->local = trp_local_here(core);
    return trp_load_acquire(&core->closing) != 0 /* pairs: system.closing */
               ? TROUPE_E_CLOSED
               : TROUPE_OK;
}

troupe_status
trp_send_outside(
    troupe_system *system, const char *call, struct trp_sending *sending)
{
    troupe_status status = trp_send_outside_uncounted(system, call, sending);

    if (status == TROUPE_E_CLOSED) {
        trp_book(sending->core, sending->local, sent, 1);
        trp_book(sending->core, sending->local, refused, 1);
    }
    return status;
}

troupe_status
troupe_post_bytes(troupe_system *system, troupe_ref to,
    const troupe_msg_type *type, const void *payload, size_t bytes)
{
    struct trp_sending sending = {.to = to};
    troupe_status status =
        trp_send_outside(system, "troupe_post_bytes", &sending);

    return status == TROUPE_OK ? trp_send_copy(&sending, type, payload, bytes)
                               : status;
}

troupe_status
troupe_post(troupe_system *system, troupe_ref to, const troupe_msg_type *type,
    const void *payload)
{
    struct trp_sending sending = {.to = to};
    troupe_status status = trp_send_outside(system, "troupe_post", &sending);

    return status == TROUPE_OK ? trp_send_copy(&sending, type, payload,
                                     type != NULL ? type->bytes : 0)
                               : status;
}

troupe_status
troupe_post_msg_from(
    troupe_system *system, troupe_ref to, troupe_msg *msg, troupe_ref sender)
{
    struct trp_sending sending = {.to = to, .sender = sender};
    troupe_status status =
        trp_send_outside(system, "troupe_post_msg", &sending);

    return status == TROUPE_OK ? trp_send_owned(&sending, msg) : status;
}

troupe_status
troupe_post_msg(troupe_system *system, troupe_ref to, troupe_msg *msg)
{
    return troupe_post_msg_from(system, to, msg, TROUPE_NONE);
}

/* False: there is no system, or it is the parent process's. */
static bool
tell_outside(troupe_system *system, struct trp_sending *sending)
{
    struct trp_core *core = trp_core_of(system);

    if (system == NULL) {
        trp_refuse(TROUPE_E_INVALID, sending->call, "system",
            "must not be NULL", "NULL");
        return false;
    }
    if (!trp_core_is_alive(core)) {
        return false;
    }
    sending->core = core;
    sending->local = trp_local_here(core);
    /* pairs: system.closing */
    sending->is_closed = trp_load_acquire(&core->closing) != 0;
    return true;
}

void
trp_send_tell_outside(troupe_system *system, struct trp_sending *sending,
    const troupe_msg_type *type, const void *payload)
{
    if (tell_outside(system, sending)) {
        trp_send_tell(sending, type, payload, type != NULL ? type->bytes : 0);
    }
}

void
troupe_post_tell(troupe_system *system, troupe_ref to,
    const troupe_msg_type *type, const void *payload)
{
    struct trp_sending sending = {.call = "troupe_post_tell", .to = to};

    trp_send_tell_outside(system, &sending, type, payload);
}

void
troupe_post_failure(troupe_system *system, troupe_ref to, int32_t code)
{
    struct trp_sending sending = {.call = "troupe_post_failure", .to = to};

    if (tell_outside(system, &sending)) {
        trp_send_failure(&sending, code);
    }
}
