/* SPDX-License-Identifier: MIT */
#include "actor/message.h"

#include "actor/op.h"

#include <string.h>

/* Boxes up to 64 << 5 bytes come from the pool, larger ones from the heap. */
#define BOX_UNIT_SHIFT 6

static size_t
box_bytes(size_t payload_bytes)
{
    return sizeof(struct trp_box) + payload_bytes;
}

static struct trp_pool_cache *
cache_of(struct trp_local *local)
{
    return local != NULL ? &local->messages : NULL;
}

static struct trp_box *
raw_box(struct trp_core *core, struct trp_local *local, size_t payload_bytes)
{
    size_t bytes;
    uint32_t class, unit = TRP_POOL_NONE;
    struct trp_box *box;

    if (payload_bytes > SIZE_MAX / 2) {
        return NULL;
    }
    bytes = box_bytes(payload_bytes);
    class = trp_log2_ceil((bytes + 63) >> BOX_UNIT_SHIFT);
    if (class < core->messages.classes) {
        unit = trp_pool_take(&core->messages, cache_of(local), class);
    }
    if (TRP_LIKELY(unit != TRP_POOL_NONE)) {
        box = trp_pool_address(&core->messages, unit);
    } else { /* too large, or the pool has no more of this class */
        box = trp_heap_alloc(&core->heap, bytes);
        if (box == NULL) {
            return NULL;
        }
    }
    box->unit = unit;
    box->core = core;
    trp_store_relaxed(&box->refs, 1); /* relaxed: not shared yet */
    return box;
}

static void
free_box(struct trp_local *local, struct trp_box *box)
{
    struct trp_core *core = box->core;

    if (box->unit != TRP_POOL_NONE) {
        trp_pool_give(&core->messages, cache_of(local), box->unit);
    } else {
        /* relaxed: constant once it is an alias. */
        uint32_t refs = trp_load_relaxed(&box->refs);
        size_t bytes = refs == TRP_BOX_ALIAS      ? sizeof(struct trp_box *)
                       : refs == TRP_BOX_REPLAY   ? sizeof(struct trp_replay)
                       : box->msg.payload == NULL ? 0 /* was not kept */
                                                  : box->msg.bytes;

        trp_heap_free(&core->heap, box, box_bytes(bytes));
    }
}

void
trp_box_forget(struct trp_local *local, struct trp_box *box)
{
    free_box(local, box);
}

struct trp_box *
trp_box_new(struct trp_core *core, struct trp_local *local,
    const troupe_msg_type *type, size_t bytes)
{
    struct trp_box *box = raw_box(core, local, bytes);

    if (box != NULL) {
        box->msg.type = type;
        box->msg.payload = box + 1;
        box->msg.bytes = bytes;
        box->msg.sender = TROUPE_NONE;
        if (box->unit != TRP_POOL_NONE) { /* the heap gives zeroed memory */
            memset(box + 1, 0, bytes);
        }
    }
    return box;
}

struct trp_box *
trp_box_alias(
    struct trp_core *core, struct trp_local *local, struct trp_box *shared)
{
    struct trp_box *alias = raw_box(core, local, sizeof(struct trp_box *));

    if (alias != NULL) {
        alias->msg = shared->msg;
        *(struct trp_box **)(alias + 1) = shared;
        trp_store_relaxed(&alias->refs, TRP_BOX_ALIAS); /* relaxed: new */
    }
    return alias;
}

struct trp_box *
trp_box_replay(struct trp_core *core, struct trp_local *local,
    struct trp_box *shared, uint64_t id, uint32_t replays)
{
    struct trp_box *box = raw_box(core, local, sizeof(struct trp_replay));
    const struct trp_replay replay = {shared, id, replays};

    if (box != NULL) {
        box->msg = shared->msg;
        memcpy(box + 1, &replay, sizeof replay);
        trp_store_relaxed(&box->refs, TRP_BOX_REPLAY); /* relaxed: new */
    }
    return box;
}

/* Everything a message of this type says of itself is true. */
static bool
can_be_copied(const troupe_msg *msg)
{
    const troupe_msg_type *type = msg->type;

    if (type->size < sizeof *type || type->tag == 0 || type->drop != NULL) {
        return false;
    }
    return msg->payload != NULL || (msg->bytes == 0 && type->bytes == 0 &&
                                       type->tag < TROUPE_TAG_RESERVED);
}

struct trp_box *
trp_box_capture(struct trp_core *core, struct trp_local *local,
    const troupe_msg *msg, struct trp_box *box)
{
    struct trp_box *kept;

    if (box != NULL && (msg->type->flags & TROUPE_MSG_SHARED) != 0 &&
        msg->payload == box->msg.payload) { /* else it was moved away */
        struct trp_box *base = trp_box_base(box);

        kept = trp_box_alias(core, local, base);
        if (kept != NULL) {
            /* relaxed: whoever shows it to us holds one. */
            trp_add_relaxed(&base->refs, 1);
            kept->msg.sender = msg->sender;
        }
        return kept;
    }
    if (can_be_copied(msg)) {
        kept = trp_box_new(core, local, msg->type, msg->bytes);
        if (kept != NULL && msg->bytes != 0) {
            memcpy(kept->msg.payload, msg->payload, msg->bytes);
        }
    } else {
        kept = trp_box_new(core, local, msg->type, 0);
        if (kept != NULL) {
            kept->msg.payload = NULL;
            kept->msg.bytes = msg->bytes;
        }
    }
    if (kept != NULL) {
        kept->msg.sender = msg->sender;
    }
    return kept;
}

void
trp_box_release(struct trp_local *local, struct trp_box *box, bool drop)
{
    /*
     * Acquire: the last reader frees what the others have read. One reader
     * needs no read-modify-write.
     */
    uint32_t refs = trp_load_acquire(&box->refs); /* pairs: box.refs */

    if (trp_box_is_alias(refs)) {
        struct trp_box *shared = trp_box_base(box);

        free_box(local, box);
        trp_box_release(local, shared, drop);
        return;
    }
    if (refs != 1 &&
        trp_sub_acq_rel(&box->refs, 1) != 1) { /* pairs: box.refs */
        return;
    }
    if (drop && box->msg.type->drop != NULL && box->msg.payload != NULL) {
        box->msg.type->drop(box->msg.payload, box->msg.bytes);
    }
    free_box(local, box);
}

struct trp_box *
trp_item_own(
    struct trp_core *core, struct trp_local *local, struct trp_item *item)
{
    struct trp_box *box;
    troupe_msg view;

    if ((item->mark & TRP_MARK_BOXED) != 0) {
        uint32_t refs;

        box = trp_item_box(item);
        /* relaxed: one reader stays one. */
        refs = trp_load_relaxed(&box->refs);
        return refs > 1 && refs < TRP_BOX_TIMER
                   ? trp_box_alias(core, local, box)
                   : box;
    }
    trp_item_view(item, &view);
    box = trp_box_new(core, local, view.type, view.bytes);
    if (box != NULL && view.bytes != 0) {
        memcpy(box->msg.payload, view.payload, view.bytes);
    }
    return box;
}

void
trp_item_from_box(struct trp_item *item, struct trp_box *box)
{
    item->mark = (uint64_t)(uintptr_t)box->msg.type | TRP_MARK_BOXED |
                 (box->msg.type->drop != NULL ? TRP_MARK_DROP : 0) |
                 (trp_ref_is_promise(box->msg.sender) ? TRP_MARK_ASK : 0);
    item->sender = trp_ref_pack(box->msg.sender);
    item->payload[0] = (uint64_t)(uintptr_t)box;
    item->payload[1] = 0;
}

void
trp_item_release(struct trp_local *local, struct trp_item *item)
{
    if ((item->mark & TRP_MARK_BOXED) != 0) {
        trp_box_release(local, trp_item_box(item), true);
    } else if ((item->mark & TRP_MARK_DROP) != 0) {
        troupe_msg view;

        trp_item_view(item, &view);
        view.type->drop(view.payload, view.bytes);
    }
}

void
trp_item_settle(struct trp_local *local, struct trp_item *item, uint32_t spent)
{
    if ((spent & TRP_SPENT_TAKEN) != 0) {
        return;
    }
    if ((spent & TRP_SPENT_MOVED) == 0) {
        trp_item_release(local, item);
    } else if ((item->mark & TRP_MARK_BOXED) != 0) {
        trp_box_release(local, trp_item_box(item), false);
    }
}

troupe_status
trp_message_check(const char *call, const troupe_msg_type *type,
    const void *payload, size_t bytes)
{
    if (type == NULL) {
        return trp_refuse(
            TROUPE_E_INVALID, call, "type", "must not be NULL", "NULL");
    }
    if (type->size < sizeof *type) {
        return trp_refuse(TROUPE_E_INVALID, call, "type.size",
            "must be set with TROUPE_OPTIONS()", "%zu", type->size);
    }
    if (type->tag == 0 || type->tag >= TROUPE_TAG_RESERVED) {
        return trp_refuse(TROUPE_E_INVALID, call, "type.tag",
            "must be between 1 and 0xfffffeff", "%u", type->tag);
    }
    if ((type->flags & ~(uint32_t)(TROUPE_MSG_UNDROPPABLE | TROUPE_MSG_SHARED |
                                   TROUPE_MSG_EXPIRES)) != 0) {
        return trp_refuse(TROUPE_E_INVALID, call, "type.flags",
            "must be TROUPE_MSG_*", "0x%x", type->flags);
    }
    if (((uint64_t)(uintptr_t)type & ~TRP_MARK_TYPE) != 0) {
        return trp_refuse(TROUPE_E_INVALID, call, "type",
            "must lie below 2^48 in memory", "%p", (const void *)type);
    }
    if (type->bytes != 0 && bytes != type->bytes) {
        return trp_refuse(TROUPE_E_INVALID, call, "bytes",
            "must be those of the type", "%zu of %zu", bytes, type->bytes);
    }
    if (bytes > SIZE_MAX / 2) {
        return trp_refuse(TROUPE_E_INVALID, call, "bytes",
            "must be below half of the address space", "%zu", bytes);
    }
    if ((payload == NULL) != (bytes == 0)) {
        return trp_refuse(TROUPE_E_INVALID, call, "payload",
            bytes == 0 ? "must be NULL for an empty message"
                       : "must not be NULL",
            "%p", payload);
    }
    return TROUPE_OK;
}

void
trp_dead_letter(struct trp_core *core, struct trp_local *local,
    troupe_ref recipient, const troupe_msg *msg, struct trp_box *box,
    troupe_dead_reason reason)
{
    trp_book(core, local, dead, 1);
    trp_dead_letter_show(core, local, recipient, msg, box, reason);
}

void
trp_dead_letter_show(struct trp_core *core, struct trp_local *local,
    troupe_ref recipient, const troupe_msg *msg, struct trp_box *box,
    troupe_dead_reason reason)
{
    const struct trp_replay *replay = trp_box_replay_of(box);
    const troupe_dead_letter letter = {.msg = msg,
        .recipient = recipient,
        .reason = reason,
        .replays = replay != NULL ? replay->replays : 0};

    trp_book(core, local, letters[reason], 1);
    if (trp_ref_is_promise(msg->sender)) { /* nobody will answer it */
        (void)trp_promise_fail(core, local, msg->sender,
            reason == TROUPE_DEAD_NO_ROUTE ? TROUPE_E_NO_ROUTE : TROUPE_E_DEAD);
    }
    if (trp_ref_is_promise(recipient)) {
        /* No memory for the answer, or one from outside to a system that stops.
         */
        bool is_closing =
            trp_load_acquire(&core->closing) != 0; /* pairs: system.closing */

        (void)trp_promise_fail(core, local, recipient,
            is_closing ? TROUPE_E_CLOSED : TROUPE_E_NOMEM);
    }
    core->on_dead_letter(core, local, &letter, box);
    if (core->dead_letter.fn != NULL &&
        !trp_is_inside(trp_thread.in_hook, core)) {
        const struct trp_inside here = {core, trp_thread.in_hook};
        const void *route = trp_thread.in_route;

        trp_thread.in_hook = &here;
        trp_thread.in_route = NULL; /* what it sends is not on the way there */
        core->dead_letter.fn(
            trp_system_of(core), &letter, core->dead_letter.user);
        trp_thread.in_route = route;
        trp_thread.in_hook = here.outer;
    }
}

void
trp_item_bury(struct trp_core *core, struct trp_local *local,
    troupe_ref recipient, struct trp_item *item, troupe_dead_reason reason)
{
    troupe_msg view;

    trp_item_view(item, &view);
    trp_dead_letter(
        core, local, recipient, &view, trp_item_box_or_null(item), reason);
    trp_item_release(local, item);
}

const char *
troupe_dead_reason_name(troupe_dead_reason reason)
{
    switch (reason) {
    case TROUPE_DEAD_STOPPED:
        return "stopped";
    case TROUPE_DEAD_REFUSED:
        return "refused";
    case TROUPE_DEAD_DROPPED:
        return "dropped";
    case TROUPE_DEAD_UNHANDLED:
        return "unhandled";
    case TROUPE_DEAD_NO_ROUTE:
        return "no_route";
    case TROUPE_DEAD_STASH:
        return "stash";
    case TROUPE_DEAD_LATE:
        return "late";
    case TROUPE_DEAD_EXPIRED:
        return "expired";
    case TROUPE_DEAD_NO_SENDER:
        return "no_sender";
    }
    return "unknown";
}

/* --- owned messages ------------------------------------------------------- */

troupe_msg *
troupe_msg_new(troupe_system *system, const troupe_msg_type *type, size_t bytes)
{
    static const char call[] = "troupe_msg_new";
    struct trp_core *core = trp_core_of(system);
    struct trp_box *box;

    if (system == NULL) {
        trp_refuse(
            TROUPE_E_INVALID, call, "system", "must not be NULL", "NULL");
        return NULL;
    }
    if (!trp_core_is_alive(core)) {
        return NULL;
    }
    if (type != NULL && type->bytes != 0) {
        if (bytes != 0 && bytes != type->bytes) {
            trp_refuse(TROUPE_E_INVALID, call, "bytes",
                "must be 0 for a type of fixed size", "%zu", bytes);
            return NULL;
        }
        bytes = type->bytes;
    }
    if (trp_message_check(call, type, bytes != 0 ? call : NULL, bytes) !=
        TROUPE_OK) {
        return NULL;
    }
    box = trp_box_new(core, trp_local_here(core), type, bytes);
    return box != NULL ? &box->msg : NULL;
}

troupe_msg *
troupe_msg_copy(troupe_system *system, const troupe_msg *msg)
{
    struct trp_core *core = trp_core_of(system);
    struct trp_box *box;

    if (system == NULL || msg == NULL || msg->type->drop != NULL ||
        (msg->payload == NULL && msg->bytes != 0) || /* of a dead letter */
        !trp_core_is_alive(core)) {
        return NULL;
    }
    box = trp_box_new(core, trp_local_here(core), msg->type, msg->bytes);
    if (box == NULL) {
        return NULL;
    }
    if (msg->bytes != 0) {
        memcpy(box->msg.payload, msg->payload, msg->bytes);
    }
    box->msg.sender = msg->sender;
    return &box->msg;
}

void
troupe_msg_free(troupe_msg *msg)
{
    if (msg != NULL) {
        struct trp_box *box = trp_box_of(msg);

        trp_box_release(trp_local_here(box->core), box, true);
    }
}

void *
troupe_payload_mismatch(const troupe_msg *msg, size_t bytes)
{
    trp_refuse(TROUPE_E_INVALID, "troupe_payload", trp_type_name(msg->type),
        "has another size or needs less alignment", "%zu of %zu", bytes,
        msg->bytes);
    if (trp_thread.worker != NULL) {
        struct trp_worker *worker = trp_thread.worker;
        struct trp_local *local = worker->local;

        local->self.core->on_mismatch(local->self.core, msg, bytes);
    }
    return NULL;
}
