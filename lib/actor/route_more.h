/* SPDX-License-Identifier: MIT */
#ifndef TRP_ACTOR_ROUTE_MORE_H
#define TRP_ACTOR_ROUTE_MORE_H

/*
 * What the files of a route share: route.c (the table, and where a message goes
 * in), route_pick.c (strategies that name one), route_many.c (the others).
 */

#include "actor/mailbox.h"
#include "actor/route.h"
#include "base/clock.h"

/* One pick in so many is timed. */
#define TRP_ROUTE_SAMPLE_MASK UINT64_C(63)

/* T3 of queue/table.h: nothing in here is written or read any other way. */
struct trp_route_entry {
    TRP_ATOMIC(uint64_t) ref;
    /*
     * Weights of this one and those before; with hashes its identity; with
     * depths its slot.
     */
    TRP_ATOMIC(uint64_t) up_to;
};

struct trp_route_block {
    TRP_ATOMIC(uint32_t) count;
    TRP_ATOMIC(uint32_t) routing;
    TRP_ATOMIC(troupe_pick_fn) pick;
    TRP_ATOMIC(troupe_key_fn) key;
    TRP_ATOMIC(troupe_key_bytes_fn) key_bytes;
    TRP_ATOMIC(void *) user;
    TRP_ATOMIC(uint64_t) seed;
    TRP_ATOMIC(uint64_t) weights; /* their sum */
    TRP_ATOMIC(uint32_t) bounded_load_percent;
    TRP_ATOMIC(uint64_t) stride; /* see weighted() */
    TRP_ATOMIC(uint32_t) depths; /* unit of core->depths, or none */
    TRP_ATOMIC(uint32_t) slots;
    TRP_ATOMIC(uint32_t) is_weighted; /* by a key */
    /*
     * Behind the entries, with depths, by slot: 1 + whose it is, or 0. With
     * weights and a key, by entry: its weight.
     */
    struct trp_route_entry entry[];
};

/* One message on its way. */
struct trp_routing {
    struct trp_core *core;
    struct trp_local *local;
    struct trp_route *route;
    troupe_ref router;
    const struct trp_item *item;
    uint64_t index;
    bool has_index; /* was taken */
    bool is_dead;   /* the router has gone, or goes, and the count is 0 */
    /* of the version that is looked at */
    struct trp_table_view view;
    const struct trp_route_block *block;
    uint32_t count;
    troupe_routing kind;
};

static inline bool
trp_routing_is_current(const struct trp_routing *routing)
{
    return trp_table_is_current(&routing->route->table, &routing->view);
}

/*
 * The table as it is now, and then the life of the router: what was read is
 * its, or it is dead and there is nobody.
 */
void trp_routing_look(struct trp_routing *routing);

/* It may be of another version: the caller looks. `at` is below the count. */
static inline troupe_ref
trp_routing_member(const struct trp_routing *routing, uint32_t at)
{
    return trp_ref_unpack(trp_load_acquire(
        &routing->block->entry[at].ref)); /* pairs: table.entry */
}

static inline uint64_t
trp_routing_up_to(const struct trp_routing *routing, uint32_t at)
{
    return trp_load_acquire(
        &routing->block->entry[at].up_to); /* pairs: table.entry */
}

/* Before the slots, in lines of its own: whether they have been in use ever. */
#define TRP_DEPTHS_HEAD_BYTES 128u

static inline TRP_ATOMIC(uint32_t) *
    trp_depths_slots(const struct trp_core *core, uint32_t unit)
{
    return (void *)((char *)trp_pool_address(&core->depths, unit) +
                    TRP_DEPTHS_HEAD_BYTES);
}

static inline TRP_ATOMIC(uint32_t) *
    trp_route_tail(const struct trp_route_block *block, uint32_t count)
{
    return (void *)(uintptr_t)&block->entry[count];
}

/* Is about to stop, or somebody else: not to be chosen. */
static inline bool
trp_route_is_stopping(struct trp_cell *cell, troupe_ref ref)
{
    return (trp_load_acquire(&cell->ring.word) & /* pairs: ring.claim */
               (TRP_RING_CLOSED | TRP_RING_KILL)) != 0 ||
           trp_cell_life(cell) != ref.generation;
}

#define TRP_ROUTE_NOT_ROUTABLE UINT32_MAX

/*
 * Whose slot is the lowest, the first from that of `start` on; NOT_ROUTABLE:
 * look at the cells. `start` is below the count.
 */
TRP_INLINE uint32_t
trp_routing_shallowest(const struct trp_routing *routing, uint32_t start)
{
    const struct trp_route_block *block = routing->block;
    struct trp_core *core = routing->core;
    uint32_t unit = trp_load_acquire(&block->depths); /* pairs: table.entry */
    uint32_t slots = trp_load_acquire(&block->slots); /* pairs: table.entry */
    uint32_t from = (uint32_t)trp_routing_up_to(routing, start);
    uint32_t at;
    troupe_ref ref;

    if (unit == TRP_POOL_NONE || !trp_routing_is_current(routing)) {
        return TRP_ROUTE_NOT_ROUTABLE;
    }
    at = core->least(trp_depths_slots(core, unit), slots, from);
    if (TRP_UNLIKELY(at == TRP_LEAST_NONE)) {
        return TRP_ROUTE_NOT_ROUTABLE;
    }
    at = trp_load_acquire(/* pairs: table.entry */
             &trp_route_tail(block, routing->count)[at]) -
         1;
    if (TRP_UNLIKELY(at >= routing->count)) {
        return TRP_ROUTE_NOT_ROUTABLE;
    }
    ref = trp_routing_member(routing, at);
    return TRP_LIKELY(!trp_route_is_stopping(trp_cell_at(core, ref.index), ref))
               ? at
               : TRP_ROUTE_NOT_ROUTABLE;
}

static inline bool
trp_routing_is_sampled(const struct trp_routing *routing)
{
    return TRP_UNLIKELY((routing->index & TRP_ROUTE_SAMPLE_MASK) == 0);
}

/* index % count, mostly without the division. */
static inline uint32_t
trp_route_rotate(uint64_t index, uint32_t count)
{
    if ((count & (count - 1)) == 0) {
        return (uint32_t)index & (count - 1);
    }
    return TRP_LIKELY(index <= UINT32_MAX) ? (uint32_t)index % count
                                           : (uint32_t)(index % count);
}

/* Once for each message, however often it is tried. */
static inline void
trp_routing_take_index(struct trp_routing *routing)
{
    if (!routing->has_index) {
        /* relaxed: a number; the table is ordered by its word. */
        routing->index = trp_add_relaxed(&routing->route->index, 1);
        routing->has_index = true;
    }
}

static inline void
trp_routing_note_sample(struct trp_routing *routing, uint64_t began_ns)
{
    /* relaxed, both: statistics */
    trp_add_relaxed(&routing->route->samples, 1);
    trp_add_relaxed(&routing->route->sample_ns, trp_clock_ns() - began_ns);
}

static inline troupe_status
trp_routing_hand_to(const struct trp_routing *routing, troupe_ref to)
{
    /* It was counted when it was sent to the router: drawn then, or not. */
    return TRP_UNLIKELY(trp_meter_is_owed(routing->local))
               ? trp_meter_deliver(
                     routing->core, routing->local, to, routing->item)
               : trp_mailbox_deliver_now(
                     routing->core, routing->local, to, routing->item);
}

/* It has gone, or a router below has none: another one may take it. */
static inline bool
trp_routing_is_gone(troupe_status status)
{
    return status == TROUPE_E_DEAD || status == TROUPE_E_NO_ROUTE;
}

/*
 * The contract is that of trp_mailbox_deliver(), and E_NO_ROUTE: nobody was
 * named. The item may go to more than one: then what it holds was theirs, and
 * who does not take it is a dead letter.
 */
troupe_status trp_route_to_one(struct trp_routing *routing);
/* By the key of the message. */
troupe_status trp_route_to_hashed(struct trp_routing *routing);
troupe_status trp_route_to_all(struct trp_routing *routing);
/* By the user's function. */
troupe_status trp_route_to_picked(struct trp_routing *routing);

#endif /* TRP_ACTOR_ROUTE_MORE_H */
