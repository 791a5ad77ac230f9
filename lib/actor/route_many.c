/* SPDX-License-Identifier: MIT */
#include "actor/route_more.h"
#include "actor/send.h"

#include <string.h>

/* So many refs are copied on the stack, more of them into the heap. */
#define NEAR_MOST 64u
/* `capacity` of a strategy of the user's is at least that. */
#define TARGETS_LEAST 16u

/* Copies of refs: near ones on the stack. */
struct refs {
    troupe_ref *ref;
    troupe_ref *target; /* room for as many as a strategy may name */
    uint32_t count;
    uint32_t capacity; /* of each of the two */
    troupe_ref near[2 * NEAR_MOST];
};

static void
refs_init(struct refs *refs)
{
    refs->ref = refs->near;
    refs->target = refs->near + NEAR_MOST;
    refs->count = 0;
    refs->capacity = NEAR_MOST;
}

static void
refs_fini(struct trp_core *core, struct refs *refs)
{
    if (refs->ref != refs->near) {
        trp_heap_free(
            &core->heap, refs->ref, 2 * refs->capacity * sizeof *refs->ref);
    }
}

static bool
refs_reserve(struct trp_core *core, struct refs *refs, uint32_t count)
{
    troupe_ref *more;

    if (count <= refs->capacity) {
        return true;
    }
    more = trp_heap_alloc(&core->heap, 2 * (size_t)count * sizeof *more);
    if (more == NULL) {
        return false;
    }
    refs_fini(core, refs);
    refs->ref = more;
    refs->target = more + count;
    refs->capacity = count;
    return true;
}

/* All routees of one version. False: no memory. */
static bool
copy_members(struct trp_routing *routing, struct refs *refs)
{
    for (;;) {
        if (!refs_reserve(routing->core, refs, routing->count)) {
            return false;
        }
        for (uint32_t i = 0; i < routing->count; i++) {
            refs->ref[i] = trp_routing_member(routing, i);
        }
        if (trp_routing_is_current(routing)) {
            refs->count = routing->count;
            return true;
        }
        trp_routing_look(routing);
    }
}

/* --- to several ----------------------------------------------------------- */

/* How more than one gets a message: made before the first of them has it. */
struct copies {
    struct trp_item last; /* the original, or what took its place */
    struct trp_box *box;  /* the payload of a shared one; or NULL */
    const troupe_msg_type *type;
    bool is_boxed;
};

static troupe_status
owns_something(const struct trp_routing *routing, const troupe_msg_type *type)
{
    (void)routing;
    return trp_refuse(TROUPE_E_INVALID, "routing", "type",
        "owns something: several receivers need TROUPE_MSG_SHARED", "%s",
        trp_type_name(type));
}

/*
 * E_INVALID, E_NOMEM: the item is the caller's still. A shared payload gets all
 * its readers at once.
 */
static troupe_status
begin_copies(
    const struct trp_routing *routing, struct copies *copies, uint32_t count)
{
    const struct trp_item *item = routing->item;

    copies->last = *item;
    copies->last.mark &= ~TRP_MARK_BROADCAST;
    copies->box = NULL;
    copies->type = trp_mark_type(item->mark);
    copies->is_boxed = (item->mark & TRP_MARK_BOXED) != 0;
    if ((copies->type->flags & TROUPE_MSG_SHARED) == 0) {
        return (item->mark & TRP_MARK_DROP) != 0
                   ? owns_something(routing, copies->type)
                   : TROUPE_OK;
    }
    if (!copies->is_boxed && (item->mark & TRP_MARK_DROP) == 0) {
        return TROUPE_OK;
    }
    if (!copies->is_boxed) {
        uint64_t ask = item->mark & TRP_MARK_ASK;
        struct trp_box *box;

        box = trp_item_own(routing->core, routing->local, &copies->last);
        if (box == NULL) {
            return TROUPE_E_NOMEM;
        }
        box->msg.sender = trp_ref_unpack(item->sender);
        trp_item_from_box(&copies->last, box);
        copies->last.mark |= ask;
        copies->is_boxed = true;
    }
    copies->box = trp_box_base(trp_item_box(&copies->last));
    /* relaxed: we hold one reader. */
    trp_add_relaxed(&copies->box->refs, count - 1);
    return TROUPE_OK;
}

/* One that is not the last. False: no memory. */
static bool
make_copy(const struct trp_routing *routing, const struct copies *copies,
    struct trp_item *item)
{
    const troupe_msg *from;
    struct trp_box *box;

    *item = copies->last;
    if (!copies->is_boxed) {
        return true;
    }
    if (copies->box != NULL) {
        item->payload[0] = (uint64_t)(uintptr_t)copies->box;
        return true;
    }
    from = &trp_item_box(&copies->last)->msg;
    box = trp_box_new(routing->core, routing->local, from->type, from->bytes);
    if (box == NULL) {
        return false;
    }
    if (from->bytes != 0) {
        memcpy(box->msg.payload, from->payload, from->bytes);
    }
    box->msg.sender = trp_ref_unpack(item->sender);
    item->payload[0] = (uint64_t)(uintptr_t)box;
    return true;
}

/* A target that did not take it: its loss, and no reason to stop. */
static void
lose_copy(const struct trp_routing *routing, troupe_ref to,
    struct trp_item *item, bool is_copy, troupe_status status)
{
    troupe_msg view;

    trp_item_view(item, &view);
    trp_dead_letter(routing->core, routing->local, to, &view,
        trp_item_box_or_null(item), trp_send_reason(to, status));
    if (is_copy) {
        trp_item_release(routing->local, item);
    }
}

/* One `sent` per copy; that of the first was counted by who has sent it. */
static troupe_status
to_many(struct trp_routing *routing, const troupe_ref *to, uint32_t count)
{
    struct copies copies;
    troupe_status status = begin_copies(routing, &copies, count);

    if (status != TROUPE_OK) {
        return status;
    }
    trp_book(routing->core, routing->local, sent, count - 1);
    /* relaxed: statistic */
    trp_add_relaxed(&routing->route->copies, count - 1);
    for (uint32_t i = 0; i < count; i++) {
        struct trp_item item = copies.last;
        bool is_copy = i == count - 1 || make_copy(routing, &copies, &item);

        status = is_copy ? trp_mailbox_deliver(
                               routing->core, routing->local, to[i], &item)
                         : TROUPE_E_NOMEM;
        if (status != TROUPE_OK) {
            /* relaxed: statistic */
            trp_add_relaxed(&routing->route->refused, 1);
            lose_copy(routing, to[i], &item, is_copy, status);
        }
    }
    return TROUPE_OK;
}

static troupe_status
to_these(struct trp_routing *routing, const troupe_ref *to, uint32_t count)
{
    if (count == 0) {
        return TROUPE_E_NO_ROUTE;
    }
    return count == 1 ? trp_routing_hand_to(routing, to[0])
                      : to_many(routing, to, count);
}

troupe_status
trp_route_to_all(struct trp_routing *routing)
{
    struct refs refs;
    troupe_status status;

    refs_init(&refs);
    status = copy_members(routing, &refs)
                 ? to_these(routing, refs.ref, refs.count)
                 : TROUPE_E_NOMEM;
    refs_fini(routing->core, &refs);
    return status;
}

/* The user's function, outside every lock, on copies of the refs. */
static uint32_t
pick(struct trp_routing *routing, struct refs *refs, troupe_pick_fn fn,
    void *user)
{
    struct trp_item item = *routing->item;
    troupe_msg view;
    struct troupe_route route = {.size = sizeof route,
        .system = trp_system_of(routing->core),
        .routees = refs->ref,
        .count = refs->count,
        .index = routing->index,
        .msg = &view};
    size_t capacity = refs->count < TARGETS_LEAST ? TARGETS_LEAST : refs->count;
    uint64_t began_ns = trp_routing_is_sampled(routing) ? trp_clock_ns() : 0;
    size_t count;

    trp_item_view(&item, &view);
    count = fn(&route, refs->target, capacity, user);
    if (began_ns != 0) {
        trp_routing_note_sample(routing, began_ns);
    }
    return (uint32_t)(count < capacity ? count : capacity);
}

/* The function and whom it chooses among, of one version. False: no memory. */
static bool
copy_all(struct trp_routing *routing, struct refs *refs, troupe_pick_fn *fn,
    void **user)
{
    for (;;) {
        if (!copy_members(routing, refs)) {
            return false;
        }
        if (refs->count == 0) {
            return true;
        }
        *fn = trp_load_acquire(&routing->block->pick); /* pairs: table.entry */
        *user =
            trp_load_acquire(&routing->block->user); /* pairs: table.entry */
        if (trp_routing_is_current(routing)) {
            return true;
        }
        trp_routing_look(routing);
    }
}

troupe_status
trp_route_to_picked(struct trp_routing *routing)
{
    troupe_status status = TROUPE_E_NO_ROUTE;
    troupe_pick_fn fn = NULL;
    struct refs refs;
    void *user = NULL;

    refs_init(&refs);
    if (!copy_all(routing, &refs, &fn, &user)) {
        status = TROUPE_E_NOMEM;
    } else if (refs.count != 0) {
        trp_routing_take_index(routing);
        status = to_these(routing, refs.target, pick(routing, &refs, fn, user));
    }
    refs_fini(routing->core, &refs);
    return status;
}
