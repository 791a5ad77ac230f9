/* SPDX-License-Identifier: MIT */
#include "actor/route_more.h"
#include "actor/rules.h"
#include "base/rng.h"

/* --- how deep a routee is ------------------------------------------------- */

/*
 * Messages that wait. Who is about to stop is not routable: its mailbox would
 * be the shortest of all. What is no cell is as good as empty.
 */
uint32_t
trp_route_depth(struct trp_core *core, troupe_ref ref)
{
    struct trp_cell *cell;
    uint32_t depth;
    uint64_t word;

    if (!trp_ref_is_possible(core, ref)) {
        return 0;
    }
    cell = trp_cell_at(core, ref.index);
    depth = trp_ring_depth(&cell->ring, &word);
    if (TRP_UNLIKELY((trp_cell_flags(cell) & TRP_CELL_RULED) != 0)) {
        struct trp_rules *rules = trp_rules_of(core, cell);

        depth = rules != NULL ? trp_rules_depth(rules, depth) : depth;
    }
    if ((word & (TRP_RING_CLOSED | TRP_RING_KILL)) != 0 ||
        trp_cell_life(cell) != ref.generation) {
        return TRP_ROUTE_NOT_ROUTABLE;
    }
    return depth;
}

/*
 * The same for one that a table lists or has listed, which is always possible:
 * a few loads from one line where nothing is unusual. `busy`:
 * TRP_RING_SCHEDULED, and one more while it has its turn or waits for it, or
 * for an answer; or 0.
 */
TRP_INLINE uint32_t
load_of(struct trp_core *core, const struct trp_route_entry *entry, char *cells,
    uint64_t busy)
{
    troupe_ref ref =
        trp_ref_unpack(trp_load_acquire(&entry->ref)); /* pairs: table.entry */
    struct trp_cell *cell =
        (void *)(cells + (size_t)ref.index * sizeof(struct trp_cell));
    uint64_t word;
    uint32_t depth = trp_ring_depth(&cell->ring, &word);
    uint32_t flags = trp_cell_flags(cell);

    if (TRP_UNLIKELY(
            (word & (TRP_RING_CLOSED | TRP_RING_KILL)) != 0 ||
            (flags & (TRP_CELL_RULED | TRP_CELL_AWAITING)) != 0 ||
            trp_load_acquire(&cell->generation) != /* pairs: cell.life */
                ref.generation)) {
        depth = trp_route_depth(core, ref);
        if (depth == TRP_ROUTE_NOT_ROUTABLE) {
            return depth;
        }
        if ((flags & TRP_CELL_AWAITING) != 0) { /* S may be clear */
            return depth + (busy != 0 ? 1 : 0);
        }
    }
    return depth + (uint32_t)(word & busy);
}

_Static_assert(TRP_RING_SCHEDULED == 1, "load_of() adds it");

static uint64_t
busy_of(const struct trp_routing *routing)
{
    return routing->kind == TROUPE_ROUTE_LEAST_IN_FLIGHT ? TRP_RING_SCHEDULED
                                                         : 0;
}

/* --- strategies that name one --------------------------------------------- */

/* The same for the same index: a run can be repeated, and nothing is shared. */
static uint64_t
random_of(const struct trp_routing *routing)
{
    struct trp_rng rng = {
        trp_load_acquire(&routing->block->seed) + /* pairs: table.entry */
        routing->index * UINT64_C(0x9e3779b97f4a7c15)};

    return trp_rng_next(&rng);
}

static uint32_t
below(uint64_t random, uint32_t count)
{
    return (uint32_t)(((random >> 32) * count) >> 32);
}

static uint32_t
rotate(const struct trp_routing *routing)
{
    return trp_route_rotate(routing->index, routing->count);
}

/*
 * Among all weights, laid end to end, the one that the index steps on; a step
 * is a stride. In as many messages as the sum of weights each routee gets its
 * weight of them exactly.
 */
static uint32_t
weighted(const struct trp_routing *routing)
{
    uint64_t weights =
        trp_load_acquire(&routing->block->weights); /* pairs: table.entry */
    uint64_t stride =
        trp_load_acquire(&routing->block->stride); /* pairs: table.entry */
    uint32_t low = 0, high = routing->count;
    uint64_t at;

    if (weights == 0) {
        return routing->count;
    }
    at = routing->index % weights * stride % weights;
    while (low + 1 < high) {
        uint32_t middle = low + (high - low) / 2;

        if (trp_routing_up_to(routing, middle - 1) <= at) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

struct least {
    uint32_t at;
    uint32_t load;
};

/* True: nothing can be less. */
TRP_INLINE bool
scan(const struct trp_routing *routing, uint32_t from, uint32_t to,
    struct least *least)
{
    /* Here and not in the loop: what is loaded there orders what follows. */
    const struct trp_route_entry *entry = routing->block->entry;
    struct trp_core *core = routing->core;
    char *cells = core->cells.base;
    uint64_t busy = busy_of(routing);
    uint32_t best = least->at, least_load = least->load;

    for (uint32_t at = from; at < to && least_load != 0; at++) {
        uint32_t load = load_of(core, &entry[at], cells, busy);

        if (load < least_load) {
            least_load = load;
            best = at;
        }
    }
    least->at = best;
    least->load = least_load;
    return least_load == 0;
}

/* Ties go to the first from `start` on; all about to stop: `start`. */
static uint32_t
least_from(const struct trp_routing *routing, uint32_t start)
{
    struct least least = {start, TRP_ROUTE_NOT_ROUTABLE};

    if (!scan(routing, start, routing->count, &least)) {
        (void)scan(routing, 0, start, &least);
    }
    return least.at;
}

/* By the depths side by side, if there are any and they say somebody. */
static uint32_t
shallowest(const struct trp_routing *routing, uint32_t start)
{
    uint32_t at = trp_routing_shallowest(routing, start);

    return at != TRP_ROUTE_NOT_ROUTABLE ? at : least_from(routing, start);
}

static uint32_t
load_at(const struct trp_routing *routing, uint32_t at)
{
    return load_of(routing->core, &routing->block->entry[at],
        routing->core->cells.base, busy_of(routing));
}

static uint32_t
lesser_of_two(const struct trp_routing *routing)
{
    uint64_t random = random_of(routing);
    uint32_t first = below(random, routing->count);
    uint32_t second, load, other;

    if (routing->count == 1) {
        return first;
    }
    second = below(random << 32, routing->count - 1);
    second += second >= first;
    load = load_at(routing, first);
    other = load_at(routing, second);
    if (load == TRP_ROUTE_NOT_ROUTABLE && other == TRP_ROUTE_NOT_ROUTABLE) {
        return least_from(routing, first);
    }
    return other < load ? second : first;
}

/* Whom the strategy names; `count` is nobody. Not yet checked for currency. */
static uint32_t
choose(const struct trp_routing *routing)
{
    switch (routing->kind) {
    case TROUPE_ROUTE_RANDOM:
        return below(random_of(routing), routing->count);
    case TROUPE_ROUTE_WEIGHTED:
        return weighted(routing);
    case TROUPE_ROUTE_TWO_CHOICES:
        return lesser_of_two(routing);
    case TROUPE_ROUTE_SMALLEST_MAILBOX:
    case TROUPE_ROUTE_LEAST_IN_FLIGHT:
        return shallowest(routing, rotate(routing));
    case TROUPE_ROUTE_ROUND_ROBIN:
    case TROUPE_ROUTE_BROADCAST:
    case TROUPE_ROUTE_CONSISTENT_HASH:
    case TROUPE_ROUTE_CUSTOM:
    case TROUPE_ROUTE_GATHER:
        break;
    }
    return rotate(routing);
}

/* The same with the cost taken now and then. */
static uint32_t
choose_timed(struct trp_routing *routing)
{
    uint64_t began_ns = trp_clock_ns();
    uint32_t at = choose(routing);

    trp_routing_note_sample(routing, began_ns);
    return at;
}

/* A weight of 0 gets nothing, not even instead of another one. */
static bool
may_stand_in(const struct trp_routing *routing, uint32_t at)
{
    return routing->kind != TROUPE_ROUTE_WEIGHTED ||
           trp_routing_up_to(routing, at) !=
               (at > 0 ? trp_routing_up_to(routing, at - 1) : 0);
}

/* A routee that has gone and is listed still: the next ones in line. */
static TRP_COLD troupe_status
to_others(struct trp_routing *routing, uint32_t first, troupe_status status)
{
    for (uint32_t i = 1; trp_routing_is_gone(status) && i < routing->count;
         i++) {
        uint32_t at = (first + i) % routing->count;
        bool may = may_stand_in(routing, at);
        troupe_ref to = trp_routing_member(routing, at);

        if (!trp_routing_is_current(routing)) {
            trp_routing_look(routing);
            i = 0;
            first = routing->count != 0 ? rotate(routing) : 0;
        } else if (may) {
            status = trp_routing_hand_to(routing, to);
        }
    }
    return status;
}

troupe_status
trp_route_to_one(struct trp_routing *routing)
{
    troupe_ref to;
    uint32_t at;
    troupe_status status;

    if (routing->count == 0) {
        return TROUPE_E_NO_ROUTE;
    }
    trp_routing_take_index(routing);
    do {
        if (routing->count == 0) {
            return TROUPE_E_NO_ROUTE;
        }
        at = trp_routing_is_sampled(routing) ? choose_timed(routing)
                                             : choose(routing);
        to =
            at < routing->count ? trp_routing_member(routing, at) : TROUPE_NONE;
        if (trp_routing_is_current(routing)) {
            break;
        }
        trp_routing_look(routing);
    } while (true);
    if (at >= routing->count) {
        return TROUPE_E_NO_ROUTE;
    }
    status = trp_routing_hand_to(routing, to);
    return TRP_LIKELY(!trp_routing_is_gone(status))
               ? status
               : to_others(routing, at, status);
}
