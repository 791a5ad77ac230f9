/* SPDX-License-Identifier: MIT */
#include "actor/route.h"

#include "actor/route_more.h"
#include "actor/rules.h"
#include "actor/send.h"

/* Routers inside routers, on one thread's stack. */
#define NESTED_MOST 16u

/* Strategies that have a short way. */
#define SHORT_WAYS                                                             \
    (1u << TROUPE_ROUTE_ROUND_ROBIN | 1u << TROUPE_ROUTE_SMALLEST_MAILBOX |    \
        1u << TROUPE_ROUTE_LEAST_IN_FLIGHT)

const troupe_msg_type trp_route_control_type = {sizeof(troupe_msg_type),
    "router_control", sizeof(struct trp_route_control), TROUPE_TAG_RESERVED, 0,
    NULL};

/* Routers that are at it on this thread, innermost first. */
struct frame {
    struct trp_core *core;
    troupe_ref router;
    uint32_t depth;
    const struct frame *outer;
};

/* --- the router's own ----------------------------------------------------- */

struct trp_route *
trp_route_of(struct trp_core *core, struct trp_rules *rules)
{
    uint32_t unit = trp_load_acquire(&rules->route); /* pairs: rules.life */

    return unit != TRP_POOL_NONE ? trp_pool_address(&core->routes, unit) : NULL;
}

bool
trp_route_takes(struct trp_route *route, bool parks)
{
    /* relaxed: under the lock. */
    if (parks && trp_load_relaxed(&route->parked) == 0) {
        trp_store_release(&route->parked, 1); /* pairs: route.parked */
    }
    return trp_load_relaxed(&route->parked) != 0; /* relaxed: the same */
}

static void
forget_numbers(struct trp_route *route)
{
    trp_store_relaxed(&route->index, 0); /* relaxed, all of them: statistics */
    trp_store_relaxed(&route->before, 0);
    trp_store_relaxed(&route->broadcasts, 0);
    trp_store_relaxed(&route->copies, 0);
    trp_store_relaxed(&route->empty, 0);
    trp_store_relaxed(&route->refused, 0);
    trp_store_relaxed(&route->waited, 0);
    trp_store_relaxed(&route->look_ns, 0);
    trp_store_relaxed(&route->samples, 0);
    trp_store_relaxed(&route->sample_ns, 0);
}

bool
trp_route_open(struct trp_core *core, struct trp_rules *rules)
{
    uint32_t unit = trp_pool_take(&core->routes, NULL, 0);
    struct trp_route *route;

    if (unit == TRP_POOL_NONE) {
        return false;
    }
    route = trp_pool_address(&core->routes, unit);
    forget_numbers(route);
    route->depths = TRP_POOL_NONE;
    trp_store_release(&route->parked, 1);   /* pairs: route.parked */
    trp_store_release(&rules->route, unit); /* pairs: rules.life */
    /* pairs: rules.life */
    trp_store_release(&rules->form, (uint8_t)TRP_FORM_ROUTER);
    return true;
}

void
trp_route_close(struct trp_core *core, struct trp_rules *rules)
{
    /* relaxed: ours. */
    uint32_t unit = trp_load_relaxed(&rules->route);
    struct trp_route *route;

    if (unit == TRP_POOL_NONE) {
        return;
    }
    route = trp_pool_address(&core->routes, unit);
    trp_table_close(&core->tables, &route->table);
    if (route->depths != TRP_POOL_NONE) {
        trp_pool_give(&core->depths, NULL, route->depths);
        route->depths = TRP_POOL_NONE;
    }
    trp_store_release(&rules->route, TRP_POOL_NONE); /* pairs: rules.life */
    trp_pool_give(&core->routes, NULL, unit);
}

/* --- depths side by side -------------------------------------------------- */

/*
 * They move to no other block while routees live: who has added to a slot takes
 * it back there. So there is room for four times as many to come.
 */
#define ROOM_TO_GROW 4u

static uint32_t
slots_of(const struct trp_core *core, uint32_t unit)
{
    uint32_t bytes = UINT32_C(1) << (TRP_DEPTHS_UNIT_SHIFT +
                                     trp_pool_class_of(&core->depths, unit));

    return (bytes - TRP_DEPTHS_HEAD_BYTES) / (uint32_t)sizeof(uint32_t);
}

void
trp_route_reserve_depths(
    struct trp_core *core, struct trp_route *route, uint32_t routees)
{
    uint64_t bytes = TRP_DEPTHS_HEAD_BYTES +
                     trp_depths_bytes(routees) * (uint64_t)ROOM_TO_GROW;
    uint32_t class = trp_log2_ceil(
        (bytes + (1u << TRP_DEPTHS_UNIT_SHIFT) - 1) >> TRP_DEPTHS_UNIT_SHIFT);
    struct trp_depths depths;
    uint32_t *is_used;

    if (route->depths != TRP_POOL_NONE) {
        return;
    }
    route->depths = trp_pool_take(&core->depths, NULL,
        class < TRP_DEPTHS_CLASSES ? class : TRP_DEPTHS_CLASSES - 1);
    if (route->depths == TRP_POOL_NONE) {
        return;
    }
    is_used = trp_pool_address(&core->depths, route->depths);
    /* Else D2: a late sender may take back what it has added. */
    if (*is_used == 0) {
        *is_used = 1;
        trp_depths_init(&depths, trp_depths_slots(core, route->depths),
            slots_of(core, route->depths), core->least);
    }
}

TRP_ATOMIC(uint32_t) *
    trp_route_slot(struct trp_core *core, struct trp_route *route, uint32_t at)
{
    return route->depths != TRP_POOL_NONE && at < slots_of(core, route->depths)
               ? &trp_depths_slots(core, route->depths)[at]
               : NULL;
}

void
trp_route_turn_slot(struct trp_core *core, struct trp_route *route, uint32_t at)
{
    trp_depth_add(trp_route_slot(core, route, at), TRP_LEAST_DEAD);
}

/*
 * What a table needs; with depths room for all slots whether it lists them or
 * not, so that a smaller one never needs more.
 */
static uint32_t
slots_in(const struct trp_core *core, const struct trp_route *route,
    const struct trp_route_plan *plan)
{
    uint32_t most =
        route->depths != TRP_POOL_NONE ? slots_of(core, route->depths) : 0;

    return plan->slots < most ? plan->slots : most;
}

static uint32_t
bytes_of(const struct trp_core *core, const struct trp_route *route,
    const struct trp_route_plan *plan, uint32_t count)
{
    return (
        uint32_t)(sizeof(struct trp_route_block) +
                  count * sizeof(struct trp_route_entry) +
                  (plan->is_weighted ? count : slots_in(core, route, plan)) *
                      sizeof(uint32_t));
}

static void
write_slots(const struct trp_core *core, struct trp_route_block *block,
    const struct trp_route *route, const struct trp_route_plan *plan,
    const struct trp_routee *routees, uint32_t count)
{
    TRP_ATOMIC(uint32_t) *owners = trp_route_tail(block, count);
    uint32_t slots = plan->are_counted ? slots_in(core, route, plan) : 0;

    trp_store_release(&block->depths, /* pairs: table.entry */
        slots != 0 ? route->depths : TRP_POOL_NONE);
    trp_store_release(&block->slots, slots); /* pairs: table.entry */
    for (uint32_t i = 0; i < slots; i++) {
        trp_store_release(&owners[i], 0); /* pairs: table.entry */
    }
    for (uint32_t i = 0; i < count && slots != 0; i++) {
        trp_store_release(&block->entry[i].up_to, /* pairs: table.entry */
            routees[i].slot);
        trp_store_release(&owners[routees[i].slot], /* pairs: table.entry */
            i + 1);
    }
}

static void
write_weights(struct trp_route_block *block, const struct trp_route_plan *plan,
    const struct trp_routee *routees, uint32_t count)
{
    TRP_ATOMIC(uint32_t) *weights = trp_route_tail(block, count);

    trp_store_release(
        &block->is_weighted, plan->is_weighted); /* pairs: table.entry */
    for (uint32_t i = 0; i < count && plan->is_weighted; i++) {
        trp_store_release(&weights[i], routees[i].weight); /* pairs:
                                                              table.entry */
    }
}

/* --- what the owner publishes --------------------------------------------- */

static uint64_t
common_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

/*
 * How far apart neighbours in time are among the weights: near the golden
 * section, so that a heavy routee gets its share spread out and not in a row,
 * and without a common divisor, so that every one is met.
 */
static uint64_t
stride_of(uint64_t weights)
{
    uint64_t stride = weights * 618 / 1000;

    if (weights < 3) {
        return 1;
    }
    while (common_divisor(stride, weights) != 1) {
        stride++;
    }
    return stride;
}

bool
trp_route_publish(struct trp_core *core, struct trp_route *route,
    const struct trp_route_plan *plan, const struct trp_routee *routees,
    uint32_t count)
{
    uint64_t weights = 0;
    struct trp_route_block *block;

    if (!trp_table_reserve(
            &core->tables, &route->table, bytes_of(core, route, plan, count))) {
        return false;
    }
    block = trp_table_next(&core->tables, &route->table);
    for (uint32_t i = 0; i < count; i++) {
        weights += routees[i].weight;
        /* pairs: table.entry, all of them */
        trp_store_release(&block->entry[i].ref, /* pairs: table.entry */
            trp_ref_pack(routees[i].ref));
        trp_store_release(&block->entry[i].up_to, /* pairs: table.entry */
            plan->routing == TROUPE_ROUTE_CONSISTENT_HASH ? routees[i].identity
                                                          : weights);
    }
    trp_store_release(&block->count, count); /* pairs: table.entry */
    trp_store_release(
        &block->routing, (uint32_t)plan->routing); /* pairs: table.entry */
    trp_store_release(&block->pick, plan->pick);   /* pairs: table.entry */
    trp_store_release(&block->key, plan->key);     /* pairs: table.entry */
    trp_store_release(&block->key_bytes, plan->key_bytes); /* pairs:
                                                              table.entry */
    trp_store_release(&block->user, plan->user); /* pairs: table.entry */
    trp_store_release(&block->seed, plan->seed); /* pairs: table.entry */
    trp_store_release(&block->weights, weights); /* pairs: table.entry */
    trp_store_release(
        &block->stride, stride_of(weights));        /* pairs: table.entry */
    trp_store_release(&block->bounded_load_percent, /* pairs: table.entry */
        plan->bounded_load_percent);
    write_slots(core, block, route, plan, routees, count);
    write_weights(block, plan, routees, count);
    trp_table_publish(&core->tables, &route->table);
    return true;
}

static struct trp_route *
own_route(const struct troupe_self *self, struct trp_rules **rules)
{
    *rules = trp_rules_of(self->core, self->cell);
    return trp_route_of(self->core, *rules);
}

void
trp_route_park(struct troupe_self *self)
{
    struct trp_rules *rules;
    struct trp_route *route = own_route(self, &rules);
    uint64_t index;

    trp_lock_acquire(&rules->lock);
    trp_store_release(&route->parked, 1); /* pairs: route.parked */
    trp_lock_release(&rules->lock);
    trp_table_close(&self->core->tables, &route->table);
    /* relaxed, all of them: numbers of which none orders anything */
    index = trp_load_relaxed(&route->index);
    trp_store_relaxed(&route->index, 0);
    trp_add_relaxed(&route->before, index);
}

void
trp_route_unpark(struct troupe_self *self)
{
    struct trp_rules *rules;
    struct trp_route *route = own_route(self, &rules);

    if (trp_load_relaxed(&route->parked) == 0) { /* relaxed: cleared here */
        return;
    }
    trp_lock_acquire(&rules->lock);
    if (trp_load_relaxed(&rules->length) == 0) { /* relaxed: under the lock */
        trp_store_release(&route->parked, 0);    /* pairs: route.parked */
    }
    trp_lock_release(&rules->lock);
}

/* --- what everybody reads ------------------------------------------------- */

/* The life of a router, after what was read of it. */
TRP_INLINE bool
is_open(const struct trp_core *core, troupe_ref router)
{
    struct trp_cell *cell = trp_cell_at(core, router.index);

    return trp_load_acquire(&cell->generation) == /* pairs: cell.life */
               (router.generation | TRP_LIFE_RULED) &&
           (trp_load_acquire(&cell->ring.word) & /* pairs: ring.claim */
               TRP_RING_CLOSED) == 0;
}

/* The table as it is now, whosever it is. */
static void
read_table(struct trp_routing *routing)
{
    do {
        routing->view =
            trp_table_view(&routing->core->tables, &routing->route->table);
        routing->block = routing->view.block;
        routing->count = 0;
        routing->kind = TROUPE_ROUTE_ROUND_ROBIN;
        if (routing->block != NULL) {
            routing->count =
                trp_load_acquire(&routing->block->count); /* pairs: table.entry
                                                           */
            routing->kind = (troupe_routing)trp_load_acquire(
                &routing->block->routing); /* pairs: table.entry */
        }
    } while (!trp_routing_is_current(routing));
}

void
trp_routing_look(struct trp_routing *routing)
{
    read_table(routing);
    /* It may be another router's. */
    if (TRP_UNLIKELY(!is_open(routing->core, routing->router))) {
        routing->count = 0;
        routing->is_dead = true;
    }
}

size_t
trp_route_members(struct trp_core *core, struct trp_route *route,
    troupe_ref *members, size_t capacity)
{
    struct trp_routing routing = {.core = core, .route = route};

    do {
        read_table(&routing);
        for (uint32_t i = 0; i < routing.count && i < capacity; i++) {
            members[i] = trp_routing_member(&routing, i);
        }
    } while (!trp_routing_is_current(&routing));
    return routing.count;
}

void
trp_route_count(struct trp_core *core, struct trp_route *route,
    troupe_router_counters *counters)
{
    /* relaxed, all of them: statistics */
    counters->routed = trp_load_relaxed(&route->before);
    counters->routed += trp_load_relaxed(&route->index);
    counters->broadcasts = trp_load_relaxed(&route->broadcasts);
    counters->copies = trp_load_relaxed(&route->copies);
    counters->empty = trp_load_relaxed(&route->empty);
    counters->refused = trp_load_relaxed(&route->refused);
    counters->waited = trp_load_relaxed(&route->waited);
    counters->pick_samples = trp_load_relaxed(&route->samples);
    counters->pick_ns = trp_load_relaxed(&route->sample_ns);
    counters->routees = trp_route_members(core, route, NULL, 0);
}

troupe_status
trp_route_find(struct trp_core *core, troupe_ref router, const char *call,
    struct trp_route **route)
{
    struct trp_cell *cell;
    struct trp_rules *rules;

    *route = NULL;
    if (trp_ref_is_possible(core, router)) {
        cell = trp_cell_at(core, router.index);
        rules = trp_rules_of(core, cell);
        *route = rules != NULL ? trp_route_of(core, rules) : NULL;
        /* pairs: cell.life */
        if ((trp_load_acquire(&cell->generation) & TRP_LIFE_MASK) !=
            router.generation) {
            return TROUPE_E_DEAD;
        }
    }
    return *route != NULL ? TROUPE_OK
                          : trp_refuse(TROUPE_E_INVALID, call, "router",
                                "must be a router", "%u-%u", router.index,
                                router.generation);
}

/* --- a message ------------------------------------------------------------ */

static void
note_refusal(struct trp_route *route, troupe_status status)
{
    if (status == TROUPE_E_NO_ROUTE) {
        trp_add_relaxed(&route->empty, 1); /* relaxed: statistic */
    } else {
        trp_add_relaxed(&route->refused, 1); /* relaxed: statistic */
    }
}

/* Without its mark, which is for one layer of routers. */
static troupe_status
broadcast(struct trp_routing *routing)
{
    const struct trp_item *marked = routing->item;
    struct trp_item item = *marked;
    troupe_status status;

    if (!routing->has_index) { /* it needs none, but may be tried again */
        routing->has_index = true;
        /* relaxed: statistic */
        trp_add_relaxed(&routing->route->broadcasts, 1);
    }
    item.mark &= ~TRP_MARK_BROADCAST;
    routing->item = &item;
    status = trp_route_to_all(routing);
    routing->item = marked;
    return status;
}

static troupe_status
send_on(struct trp_routing *routing)
{
    if ((routing->item->mark & TRP_MARK_BROADCAST) != 0) {
        return broadcast(routing);
    }
    if (routing->kind == TROUPE_ROUTE_CUSTOM) {
        return trp_route_to_picked(routing);
    }
    if (routing->kind == TROUPE_ROUTE_CONSISTENT_HASH) {
        return trp_route_to_hashed(routing);
    }
    if (routing->kind != TROUPE_ROUTE_BROADCAST) {
        return trp_route_to_one(routing);
    }
    if (routing->count != 0) {
        trp_routing_take_index(routing);
    }
    return trp_route_to_all(routing);
}

static TRP_COLD troupe_status
refuse_nested(void)
{
    return trp_refuse(TROUPE_E_LIMIT, "routing", "members",
        "must not be routers of each other, or 16 in each other", "%u",
        NESTED_MOST);
}

troupe_status
trp_route_hop(struct trp_item *item)
{
    if ((item->mark & TRP_MARK_HOPS) == TRP_MARK_HOPS) {
        return trp_refuse(TROUPE_E_LIMIT, "routing", "members",
            "must not be routers of each other, or 7 in each other that route "
            "in their turn",
            "%u", (unsigned)(TRP_MARK_HOPS / TRP_MARK_HOP));
    }
    item->mark += TRP_MARK_HOP;
    return TROUPE_OK;
}

/* Routers are inside each other, not in a circle, and not without end. */
static bool
may_enter(const struct frame *frame)
{
    const struct frame *outer = frame->outer;

    if (frame->depth > NESTED_MOST) {
        return false;
    }
    for (; outer != NULL; outer = outer->outer) {
        if (outer->core == frame->core &&
            troupe_ref_equal(outer->router, frame->router)) {
            return false;
        }
    }
    return true;
}

/*
 * Whoever finds that it is time tells the router to measure, so that a pool
 * that gets nothing does nothing. Only one of them does.
 */
TRP_COLD static void
look_at_size(struct trp_routing *routing, uint64_t due_ns)
{
    const struct trp_route_control order = {.order = TRP_ROUTE_MEASURE};
    struct trp_core *core = routing->core;
    struct trp_item item;

    if (core->now_ns(core) < due_ns ||
        /* relaxed: who sets it to 0 is the one; nothing else hangs on it. */
        !trp_cas_relaxed(&routing->route->look_ns, &due_ns, 0)) {
        return;
    }
    trp_make_plain(
        &item, &trp_route_control_type, &order, sizeof order, TROUPE_NONE);
    trp_book(core, routing->local, sent, 1);
    if (trp_mailbox_deliver(core, routing->local, routing->router, &item) !=
        TROUPE_OK) {
        trp_book(core, routing->local, refused, 1);
        /* relaxed: the next one tries again. */
        trp_store_relaxed(&routing->route->look_ns, due_ns);
    }
}

/* On this thread, now. */
static troupe_status
route_now(struct trp_routing *routing)
{
    const struct frame *outer = trp_thread.in_route;
    const struct frame frame = {.core = routing->core,
        .router = routing->router,
        .depth = outer != NULL ? outer->depth + 1 : 1,
        .outer = outer};
    troupe_status status;
    uint64_t due_ns;

    if (TRP_UNLIKELY(outer != NULL && !may_enter(&frame))) {
        return refuse_nested();
    }
    trp_thread.in_route = &frame;
    status = send_on(routing);
    due_ns = trp_load_relaxed(&routing->route->look_ns); /* relaxed: a look */
    if (TRP_UNLIKELY(due_ns != 0)) {
        look_at_size(routing, due_ns);
    }
    trp_thread.in_route = outer;
    if (TRP_UNLIKELY(routing->is_dead && status == TROUPE_E_NO_ROUTE)) {
        return TROUPE_E_DEAD;
    }
    return status;
}

/* What is for the router and not for a routee. */
static bool
is_its_own(const struct trp_item *item)
{
    return (item->mark &
               (TRP_MARK_CONTROL | TRP_MARK_NOTICE | TRP_MARK_TIMER)) != 0 ||
           trp_mark_type(item->mark) == &trp_route_control_type;
}

TRP_INLINE troupe_ref
rotated(const struct trp_route_block *block, uint64_t index, uint32_t count)
{
    return trp_ref_unpack(trp_load_acquire(/* pairs: table.entry */
        &block->entry[trp_route_rotate(index, count)].ref));
}

/* To the shortest mailbox, by the depths side by side; else as below. */
static bool
descend_on(struct trp_routing *routing)
{
    struct trp_core *core = routing->core;
    const struct trp_route_block *block = routing->block;
    uint32_t unit = trp_load_acquire(&block->depths); /* pairs: table.entry */
    TRP_ATOMIC(uint32_t) * counter;
    troupe_ref to;
    uint32_t at;

    if (unit == TRP_POOL_NONE) {
        return false;
    }
    /*
     * Among many that are as deep it is that one. relaxed, both: a number; the
     * table is ordered by its word.
     */
    to = rotated(
        block, trp_load_relaxed(&routing->route->index), routing->count);
    __builtin_prefetch(trp_cell_at(core, to.index), 1);
    routing->index = trp_add_relaxed(&routing->route->index, 1);
    routing->has_index = true;
    if (trp_routing_is_sampled(routing)) {
        return false;
    }
    at = trp_routing_shallowest(
        routing, trp_route_rotate(routing->index, routing->count));
    if (TRP_UNLIKELY(at == TRP_ROUTE_NOT_ROUTABLE)) {
        return false;
    }
    to = trp_routing_member(routing, at);
    counter = trp_depths_slots(core, unit) + trp_routing_up_to(routing, at);
    return TRP_LIKELY(trp_routing_is_current(routing)) &&
           trp_rules_deliver_counted(
               core, routing->local, counter, to, routing->item) == TROUPE_OK;
}

/*
 * Round robin, or to the shortest mailbox, where nothing is unusual: what most
 * messages need of all that is in this file, in a third of the instructions.
 * False: it has gone nowhere, and all of it is asked; an index may have been
 * taken.
 */
TRP_INLINE bool
rotate_on(struct trp_routing *routing)
{
    struct trp_core *core = routing->core;
    struct trp_route *route = routing->route;
    struct trp_table_view view = trp_table_view(&core->tables, &route->table);
    const struct trp_route_block *block = view.block;
    struct trp_cell *cell;
    enum trp_claim claim;
    uint64_t guess;
    uint32_t count, kind;
    troupe_ref to;

    if (TRP_UNLIKELY(block == NULL || trp_thread.in_route != NULL ||
                     (routing->item->mark & TRP_MARK_BROADCAST) != 0 ||
                     trp_meter_is_owed(routing->local) ||
                     /* relaxed: a look. */
                     trp_load_relaxed(&route->look_ns) != 0)) {
        return false;
    }
    count = trp_load_acquire(&block->count);  /* pairs: table.entry */
    kind = trp_load_acquire(&block->routing); /* pairs: table.entry */
    if ((SHORT_WAYS >> kind & 1) == 0 ||
        TRP_UNLIKELY(count == 0 ||
                     !trp_table_is_current(&route->table, &view) ||
                     !is_open(core, routing->router))) {
        return false;
    }
    if (kind != TROUPE_ROUTE_ROUND_ROBIN) {
        routing->view = view;
        routing->block = block;
        routing->count = count;
        return descend_on(routing);
    }
    /*
     * Whose turn it is if nobody comes between: his cell is on its way here
     * while the index is taken. relaxed, both: a number; the table is ordered
     * by its word.
     */
    guess = trp_load_relaxed(&route->index);
    to = rotated(block, guess, count);
    __builtin_prefetch(trp_cell_at(core, to.index), 1);
    routing->index = trp_add_relaxed(&route->index, 1);
    routing->has_index = true;
    if (TRP_UNLIKELY(routing->index != guess)) {
        to = rotated(block, routing->index, count);
    }
    if (trp_routing_is_sampled(routing) ||
        TRP_UNLIKELY(!trp_table_is_current(&route->table, &view) ||
                     !trp_ref_is_possible(core, to))) {
        return false;
    }
    cell = trp_cell_at(core, to.index);
    claim = trp_ring_push(&core->segments, &cell->ring, &cell->generation,
        to.generation, core->deep_from, routing->item);
    if (claim == TRP_CLAIM_WAKE) {
        trp_mailbox_wake(core, routing->local, cell);
        return true;
    }
    return claim == TRP_CLAIM_QUEUED;
}

/* The router waits for its turn, or restarts; E_NO_ROUTE: not any more. */
static TRP_COLD troupe_status
wait_for_turn(
    struct trp_routing *routing, struct trp_rules *rules, bool restarts)
{
    return trp_rules_enqueue(routing->core, routing->local, rules,
        routing->router, routing->item,
        restarts ? TRP_ENQUEUE_PARK : TRP_ENQUEUE_PARKED);
}

static bool
is_restarting(const struct trp_routing *routing)
{
    return (trp_cell_flags(trp_cell_at(routing->core, routing->router.index)) &
               TRP_CELL_RESTARTING) != 0;
}

/*
 * Those who were picked have gone. If they did because the router restarts, and
 * that began after we had looked, it is as if we had looked now. Who sees them
 * gone sees that it restarts, that it is parked, or the next pool's table.
 */
static TRP_COLD troupe_status
try_again(struct trp_routing *routing, struct trp_rules *rules)
{
    troupe_status status = TROUPE_E_DEAD;

    while (status == TROUPE_E_DEAD && !routing->is_dead) {
        bool restarts = is_restarting(routing);

        if (restarts || trp_load_acquire(/* pairs: route.parked */
                            &routing->route->parked) != 0) {
            status = wait_for_turn(routing, rules, restarts);
            if (status != TROUPE_E_NO_ROUTE) {
                return status;
            }
        } else if (trp_routing_is_current(routing)) {
            break;
        }
        trp_routing_look(routing);
        status = !routing->is_dead ? route_now(routing) : TROUPE_E_DEAD;
    }
    return status;
}

troupe_status
trp_route_deliver(struct trp_core *core, struct trp_local *local,
    struct trp_rules *rules, troupe_ref to, const struct trp_item *item)
{
    struct trp_routing routing;
    troupe_status status;
    bool restarts;

    routing.core = core;
    routing.local = local;
    routing.route = trp_route_of(core, rules);
    routing.router = to;
    routing.item = item;
    routing.has_index = routing.is_dead = false;
    if (TRP_UNLIKELY(routing.route == NULL)) {
        return TROUPE_E_DEAD; /* the rules are somebody else's by now */
    }
    if (TRP_UNLIKELY(is_its_own(item))) {
        return trp_rules_enqueue(
            core, local, rules, to, item, TRP_ENQUEUE_ALWAYS);
    }
    restarts = is_restarting(&routing);
    if (TRP_UNLIKELY(restarts || trp_load_acquire(/* pairs: route.parked */
                                     &routing.route->parked) != 0)) {
        status = wait_for_turn(&routing, rules, restarts);
        if (status != TROUPE_E_NO_ROUTE) {
            return status;
        }
    }
    if (TRP_LIKELY(rotate_on(&routing))) {
        return TROUPE_OK;
    }
    trp_routing_look(&routing);
    if (TRP_UNLIKELY(routing.is_dead)) {
        return TROUPE_E_DEAD;
    }
    status = route_now(&routing);
    if (TRP_UNLIKELY(status == TROUPE_E_DEAD)) {
        status = try_again(&routing, rules);
    }
    if (TRP_UNLIKELY(status != TROUPE_OK)) {
        note_refusal(routing.route, status);
    }
    return status;
}

void
trp_route_current(struct troupe_self *self, bool hops)
{
    struct trp_rules *rules;
    struct trp_routing routing = {.core = self->core,
        .local = self->local,
        .route = own_route(self, &rules),
        .router = self->ref,
        .item = self->current.item};
    troupe_status status = hops ? trp_route_hop(self->current.item) : TROUPE_OK;

    trp_book(self->core, self->local, sent, 1);
    /* relaxed: statistic */
    trp_add_relaxed(&routing.route->waited, 1);
    if (status == TROUPE_OK) {
        trp_routing_look(&routing);
        status = route_now(&routing);
        if (status != TROUPE_OK) {
            note_refusal(routing.route, status);
        }
    }
    if (status == TROUPE_OK) {
        self->current.spent |= TRP_SPENT_TAKEN | TRP_SPENT_AWAY;
    } else {
        trp_dead_letter(self->core, self->local, self->ref, self->current.msg,
            trp_item_box_or_null(self->current.item),
            trp_send_reason(self->ref, status));
    }
}

void
trp_route_note_asked(struct trp_route *route, uint32_t count)
{
    if (count == 0) {
        trp_add_relaxed(&route->empty, 1); /* relaxed: statistic */
        return;
    }
    /* relaxed, all of them: statistics */
    trp_add_relaxed(&route->index, 1);
    trp_add_relaxed(&route->waited, 1);
    trp_add_relaxed(&route->copies, count - 1);
}

void
trp_route_look_after(struct trp_route *route, uint64_t time_ns)
{
    trp_store_relaxed(&route->look_ns, time_ns); /* relaxed: a hint */
}
