/* SPDX-License-Identifier: MIT */
#include <troupe/log.h>
#include <troupe/router.h>
#include <troupe/stop.h>
#include <troupe/timer.h>
#include <troupe/tree.h>
#include <troupe/watch.h>

#include "actor/gather.h"
#include "actor/route.h"
#include "actor/rules.h"
#include "actor/send.h"
#include "actor/timers.h"
#include "actor/watch.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/options.h"
#include "base/rendezvous.h"
#include "pattern/child_plan.h"
#include "sched/alarm.h"
#include "system/spawn.h"
#include "system/system.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The actor behind a router: it keeps the table of actor/route.h up to date.
 *
 *     slot     1        2        3        4
 *           | LIVE | DRAINING | LIVE |  FREE  |     what the actor knows
 *              |                 |
 *     table [ r-1 ,             r-3 ]                what senders see
 *
 * A pool's routee has its slot until it has gone, and the name routee-N of it;
 * the lowest free slot is used first. A group's slots are closed up instead.
 *
 * What it is to do is in its start argument, which the library keeps for it
 * over restarts: a `struct plan` with what has no fixed size behind it.
 *
 * Invariants
 *   G1  It watches whoever has a slot, and nobody else.
 *   G2  The table lists the LIVE slots, in order, since the last publish; only
 *       where there is no memory for a longer one it lists fewer.
 *   G3  With depths (actor/route.h) a slot has its number there as well, until
 *       the routee has gone and has taken back all that was added.
 */

#define NAME_BYTES 24 /* "routee-4294967295" */
#define TICK_KEY 0
#define SIZE_KEY 1
#define RETRY_NS UINT64_C(100000000)
/* A routee that did not live so long is not replaced at once. */
#define BRIEF_NS UINT64_C(1000000000)

/* Nobody else can send one: its tag is the library's. */
static const troupe_msg_type tick_type = {
    sizeof(troupe_msg_type), "router_tick", 0, TROUPE_TAG_RESERVED, 0, NULL};

static const troupe_msg_type size_type = {
    sizeof(troupe_msg_type), "router_size", 0, TROUPE_TAG_RESERVED, 0, NULL};

/* The pointers in here are what was given, and not followed. */
struct plan {
    troupe_router_options options;
    struct trp_child_plan child;
    troupe_gather_options gather;
    troupe_resizer_options resizer; /* complete; upper 0: none */
    uint64_t seed;
    /* members; weights; the tail of `child` */
};

enum state { FREE, LIVE, DRAINING };

struct slot {
    troupe_ref ref;
    uint32_t weight;
    enum state state;
    uint64_t born_ns;
    uint64_t identity; /* with hashes */
    bool is_counted;   /* the slot of the depths with this number is its own */
    bool is_open;      /* and is looked at: LIVE, and published */
};

struct router {
    const struct plan *plan;
    struct trp_route *route;
    struct slot *slots;
    struct trp_routee *list; /* for a publish; as many as slots */
    troupe_ref *refs;        /* to be asked; the same */
    uint32_t count;          /* slots in use, gaps included */
    uint32_t capacity;
    uint32_t live;
    uint32_t wanted; /* a pool's; live ones, once all is done */
    uint32_t brief;  /* routees in a row that did not live long */
    uint64_t mute;   /* messages that nobody could be answered for */
};

/* --- the plan ------------------------------------------------------------- */

static bool
is_pool(const troupe_router_options *options)
{
    return options->type != NULL;
}

/* Its messages always wait for its turn. */
static bool
is_serial(const troupe_router_options *options)
{
    return options->routing == TROUPE_ROUTE_GATHER ||
           (options->flags & TROUPE_ROUTER_SERIAL) != 0;
}

static size_t
members_bytes(const struct plan *plan)
{
    return is_pool(&plan->options) ? 0
                                   : plan->options.routees * sizeof(troupe_ref);
}

static size_t
weights_bytes(const struct plan *plan)
{
    return plan->options.weights != NULL
               ? plan->options.routees * sizeof(uint32_t)
               : 0;
}

static const troupe_ref *
members_of(const struct plan *plan)
{
    return (const troupe_ref *)(const void *)(plan + 1);
}

static const void *
child_tail(const struct plan *plan)
{
    return (const char *)(plan + 1) + members_bytes(plan) + weights_bytes(plan);
}

static uint32_t
weight_of(const struct plan *plan, uint32_t slot)
{
    const char *weights = (const char *)(plan + 1) + members_bytes(plan);
    uint32_t weight = 1; /* of who came later */

    if (plan->options.weights != NULL && slot < plan->options.routees) {
        memcpy(&weight, weights + slot * sizeof weight, sizeof weight);
    }
    return weight;
}

/* --- what can be a router ------------------------------------------------- */

static troupe_status
check_kind(const troupe_router_options *options, const char *call)
{
    if ((options->type == NULL) == (options->members == NULL)) {
        return trp_refuse(TROUPE_E_INVALID, call,
            options->type == NULL ? "type" : "members",
            options->type == NULL ? "or members must be given"
                                  : "and type must not be given together",
            "%s", options->type == NULL ? "neither" : "both");
    }
    if (options->routees == 0 || options->routees > TRP_ROUTEES_MOST) {
        return trp_refuse(TROUPE_E_INVALID, call, "routees",
            "must be between 1 and 1000000", "%u", options->routees);
    }
    if ((options->flags &
            ~(uint32_t)(TROUPE_ROUTER_SERIAL | TROUPE_ROUTER_RESPAWN)) != 0) {
        return trp_refuse(TROUPE_E_INVALID, call, "flags",
            "must be TROUPE_ROUTER_*", "0x%x", options->flags);
    }
    if (!is_pool(options) && (options->flags & TROUPE_ROUTER_RESPAWN) != 0) {
        return trp_refuse(TROUPE_E_INVALID, call, "flags",
            "may have TROUPE_ROUTER_RESPAWN for a pool only", "0x%x",
            options->flags);
    }
    if (!is_pool(options) && options->routee_options != NULL) {
        return trp_refuse(TROUPE_E_INVALID, call, "routee_options",
            "are for a pool", "%p", (const void *)options->routee_options);
    }
    return TROUPE_OK;
}

static troupe_status
check_child(const troupe_router_options *options, const char *call)
{
    static const troupe_spawn_options nothing = {.size = sizeof nothing};
    troupe_spawn_options child = nothing;
    troupe_status status = TROUPE_OK;

    if (options->routee_options != NULL) {
        status = trp_options_copy(
            &child, sizeof child, options->routee_options, call);
    }
    if (status == TROUPE_OK && child.name != NULL) {
        return trp_refuse(TROUPE_E_INVALID, call, "routee_options.name",
            "must be NULL: they are routee-1, routee-2 ..", "%.20s",
            child.name);
    }
    return status == TROUPE_OK
               ? trp_spawn_check(options->type, options->routee_options, call)
               : status;
}

static int
compare_refs(const void *left, const void *right)
{
    troupe_ref a, b;
    uint64_t x, y;

    memcpy(&a, left, sizeof a);
    memcpy(&b, right, sizeof b);
    x = trp_ref_pack(a);
    y = trp_ref_pack(b);
    return (x > y) - (x < y);
}

static troupe_status
check_members(struct trp_core *core, const troupe_router_options *options,
    const char *call)
{
    size_t bytes = options->routees * sizeof(troupe_ref);
    troupe_status status = TROUPE_OK;
    troupe_ref *sorted = trp_heap_alloc(&core->heap, bytes);

    if (sorted == NULL) {
        return TROUPE_E_NOMEM;
    }
    memcpy(sorted, options->members, bytes);
    qsort(sorted, options->routees, sizeof *sorted, compare_refs);
    for (uint32_t i = 0; i < options->routees && status == TROUPE_OK; i++) {
        if (troupe_ref_is_none(sorted[i]) || trp_ref_is_promise(sorted[i])) {
            status = trp_refuse(TROUPE_E_INVALID, call, "members",
                "must be actors or ports", "%u-%u", sorted[i].index,
                sorted[i].generation);
        } else if (i > 0 && troupe_ref_equal(sorted[i], sorted[i - 1])) {
            status =
                trp_refuse(TROUPE_E_INVALID, call, "members", "must not repeat",
                    "%u-%u", sorted[i].index, sorted[i].generation);
        }
    }
    trp_heap_free(&core->heap, sorted, bytes);
    return status;
}

static troupe_status
check_weights(const troupe_router_options *options, const char *call)
{
    bool are_needed = options->routing == TROUPE_ROUTE_WEIGHTED;
    uint64_t sum = 0;

    if (options->weights == NULL) {
        return are_needed ? trp_refuse(TROUPE_E_INVALID, call, "weights",
                                "must be given", "%s", "NULL")
                          : TROUPE_OK;
    }
    if (!are_needed && options->routing != TROUPE_ROUTE_CONSISTENT_HASH) {
        return trp_refuse(TROUPE_E_INVALID, call, "weights",
            "are for TROUPE_ROUTE_WEIGHTED and TROUPE_ROUTE_CONSISTENT_HASH",
            "%d", (int)options->routing);
    }
    for (uint32_t i = 0; i < options->routees; i++) {
        sum += options->weights[i];
    }
    if (sum == 0 || sum > UINT32_MAX) {
        return trp_refuse(TROUPE_E_INVALID, call, "weights",
            "must add up to 1 to 4294967295", "%" PRIu64, sum);
    }
    return TROUPE_OK;
}

static troupe_status
check_pick(const troupe_router_options *options, const char *call)
{
    bool is_needed = options->routing == TROUPE_ROUTE_CUSTOM;

    if (is_needed != (options->pick != NULL)) {
        return trp_refuse(TROUPE_E_INVALID, call, "pick",
            is_needed ? "must be given" : "is for TROUPE_ROUTE_CUSTOM", "%s",
            is_needed ? "NULL" : "a function");
    }
    return TROUPE_OK;
}

static troupe_status
check_key(const troupe_router_options *options, const char *call)
{
    bool is_needed = options->routing == TROUPE_ROUTE_CONSISTENT_HASH;
    int given = (options->key != NULL) + (options->key_bytes != NULL);

    if (given != (is_needed ? 1 : 0)) {
        return trp_refuse(TROUPE_E_INVALID, call, "key",
            is_needed ? "or key_bytes must be given, not both"
                      : "and key_bytes are for TROUPE_ROUTE_CONSISTENT_HASH",
            "%d of them", given);
    }
    if (!is_needed && options->bounded_load_percent != 0) {
        return trp_refuse(TROUPE_E_INVALID, call, "bounded_load_percent",
            "is for TROUPE_ROUTE_CONSISTENT_HASH", "%u",
            options->bounded_load_percent);
    }
    return TROUPE_OK;
}

static troupe_status
check_gather(const troupe_router_options *options, const char *call)
{
    troupe_gather_options copy;
    troupe_status status;

    if (options->gather == NULL) {
        return TROUPE_OK;
    }
    if (options->routing != TROUPE_ROUTE_GATHER) {
        return trp_refuse(TROUPE_E_INVALID, call, "gather",
            "is for TROUPE_ROUTE_GATHER", "%p", (const void *)options->gather);
    }
    status = trp_options_copy(&copy, sizeof copy, options->gather, call);
    if (status != TROUPE_OK) {
        return status;
    }
    if ((uint32_t)copy.policy > TROUPE_GATHER_ALL) {
        return trp_refuse(TROUPE_E_INVALID, call, "gather.policy",
            "must be TROUPE_GATHER_*", "%u", (unsigned)copy.policy);
    }
    if (copy.policy == TROUPE_GATHER_BEST && copy.better == NULL) {
        return trp_refuse(TROUPE_E_INVALID, call, "gather.better",
            "must be given for TROUPE_GATHER_BEST", "NULL");
    }
    if (copy.quorum > options->routees) {
        return trp_refuse(TROUPE_E_INVALID, call, "gather.quorum",
            "must not be above routees", "%u", copy.quorum);
    }
    return TROUPE_OK;
}

static troupe_status
check_resizer(const troupe_router_options *options, const char *call)
{
    troupe_resizer_options copy;
    troupe_status status;

    if (options->resizer == NULL) {
        return TROUPE_OK;
    }
    if (!is_pool(options) || options->routing == TROUPE_ROUTE_GATHER) {
        return trp_refuse(TROUPE_E_INVALID, call, "resizer",
            "is for a pool that does not gather", "%p",
            (const void *)options->resizer);
    }
    status = trp_options_copy(&copy, sizeof copy, options->resizer, call);
    if (status != TROUPE_OK) {
        return status;
    }
    if (copy.upper == 0 || copy.upper > TRP_ROUTEES_MOST) {
        return trp_refuse(TROUPE_E_INVALID, call, "resizer.upper",
            "must be between 1 and 1000000", "%u", copy.upper);
    }
    if (copy.lower > copy.upper) {
        return trp_refuse(TROUPE_E_INVALID, call, "resizer.lower",
            "must not be above upper", "%u", copy.lower);
    }
    if (options->routees < copy.lower || options->routees > copy.upper) {
        return trp_refuse(TROUPE_E_INVALID, call, "routees",
            "must be between lower and upper of the resizer", "%u",
            options->routees);
    }
    if (copy.idle_percent > 100) {
        return trp_refuse(TROUPE_E_INVALID, call, "resizer.idle_percent",
            "must be at most 100", "%u", copy.idle_percent);
    }
    if (copy.reserved != 0) {
        return trp_refuse(TROUPE_E_INVALID, call, "resizer.reserved",
            "must be 0", "%u", copy.reserved);
    }
    return TROUPE_OK;
}

/* With defaults; it was checked. */
static void
take_resizer(troupe_resizer_options *resizer,
    const troupe_resizer_options *from, const char *call)
{
    *resizer = (troupe_resizer_options){.size = sizeof *resizer};
    if (from == NULL) {
        return;
    }
    (void)trp_options_copy(resizer, sizeof *resizer, from, call);
    if (resizer->lower == 0) {
        resizer->lower = 1;
    }
    if (resizer->pressure_depth == 0) {
        resizer->pressure_depth = 1;
    }
    if (resizer->step_percent == 0) {
        resizer->step_percent = 20;
    }
    if (resizer->idle_percent == 0) {
        resizer->idle_percent = 30;
    }
    if (resizer->cooldown_ns == 0) {
        resizer->cooldown_ns = TROUPE_S(5);
    }
}

static troupe_status
check_routing(const troupe_router_options *options, const char *call)
{
    troupe_status status;

    if ((uint32_t)options->routing > TROUPE_ROUTE_GATHER) {
        return trp_refuse(TROUPE_E_INVALID, call, "routing",
            "must be TROUPE_ROUTE_*", "%u", (unsigned)options->routing);
    }
    status = check_weights(options, call);
    if (status == TROUPE_OK) {
        status = check_key(options, call);
    }
    if (status == TROUPE_OK) {
        status = check_gather(options, call);
    }
    if (status == TROUPE_OK) {
        status = check_resizer(options, call);
    }
    return status == TROUPE_OK ? check_pick(options, call) : status;
}

static troupe_status
check(struct trp_core *core, const troupe_router_options *options,
    const char *call)
{
    troupe_status status = check_kind(options, call);

    if (status == TROUPE_OK) {
        status = check_routing(options, call);
    }
    if (status == TROUPE_OK) {
        status = is_pool(options) ? check_child(options, call)
                                  : check_members(core, options, call);
    }
    return status;
}

/* --- slots ---------------------------------------------------------------- */

static void
free_slots(struct trp_core *core, struct router *router)
{
    trp_heap_free(
        &core->heap, router->slots, router->capacity * sizeof *router->slots);
    trp_heap_free(
        &core->heap, router->list, router->capacity * sizeof *router->list);
    trp_heap_free(
        &core->heap, router->refs, router->capacity * sizeof *router->refs);
    router->refs = NULL;
    router->slots = NULL;
    router->list = NULL;
    router->capacity = 0;
}

static bool
reserve_slots(struct trp_core *core, struct router *router, uint32_t count)
{
    uint32_t capacity = router->capacity != 0 ? router->capacity : 4;
    struct router more = *router;

    if (count <= router->capacity) {
        return true;
    }
    while (capacity < count) {
        capacity *= 2;
    }
    more.capacity = capacity;
    more.slots = trp_heap_alloc(&core->heap, capacity * sizeof *more.slots);
    more.list = trp_heap_alloc(&core->heap, capacity * sizeof *more.list);
    more.refs = trp_heap_alloc(&core->heap, capacity * sizeof *more.refs);
    if (more.slots == NULL || more.list == NULL || more.refs == NULL) {
        free_slots(core, &more);
        return false;
    }
    if (router->count != 0) {
        memcpy(more.slots, router->slots, router->count * sizeof *more.slots);
    }
    free_slots(core, router);
    *router = more;
    return true;
}

static struct slot *
find(struct router *router, troupe_ref ref)
{
    for (uint32_t i = 0; i < router->count; i++) {
        if (router->slots[i].state != FREE &&
            troupe_ref_equal(router->slots[i].ref, ref)) {
            return &router->slots[i];
        }
    }
    return NULL;
}

static void
close_slot(struct trp_core *core, struct router *router, struct slot *slot)
{
    if (slot->is_open) {
        trp_route_turn_slot(
            core, router->route, (uint32_t)(slot - router->slots));
        slot->is_open = false;
    }
}

/* Those who get no message more. */
static void
close_slots(struct trp_core *core, struct router *router, bool all)
{
    for (uint32_t i = 0; i < router->count; i++) {
        if (all || router->slots[i].state != LIVE) {
            close_slot(core, router, &router->slots[i]);
        }
    }
}

static void
open_slots(struct trp_core *core, struct router *router)
{
    for (uint32_t i = 0; i < router->count; i++) {
        struct slot *slot = &router->slots[i];

        if (slot->state == LIVE && slot->is_counted && !slot->is_open) {
            trp_route_turn_slot(core, router->route, i);
            slot->is_open = true;
        }
    }
}

static troupe_status
publish(struct troupe_self *self, struct router *router)
{
    const troupe_router_options *options = &router->plan->options;
    struct trp_route_plan plan = {.routing = options->routing,
        .pick = options->pick,
        .key = options->key,
        .key_bytes = options->key_bytes,
        .user = options->user,
        .seed = router->plan->seed,
        .bounded_load_percent = options->bounded_load_percent,
        .is_weighted = options->routing == TROUPE_ROUTE_CONSISTENT_HASH &&
                       options->weights != NULL,
        .slots = router->count,
        .are_counted = true};
    uint32_t live = 0;

    close_slots(self->core, router, false);
    for (uint32_t i = 0; i < router->count; i++) {
        const struct slot *slot = &router->slots[i];

        /* A ref of nobody ever is in no table: readers look at its cell. */
        if (slot->state == LIVE && trp_ref_is_possible(self->core, slot->ref)) {
            router->list[live++] = (struct trp_routee){.ref = slot->ref,
                .weight = slot->weight,
                .identity = slot->identity,
                .slot = i};
            plan.are_counted &= slot->is_counted;
        }
    }
    if (!trp_route_publish(
            self->core, router->route, &plan, router->list, live)) {
        return TROUPE_E_NOMEM;
    }
    open_slots(self->core, router);
    return TROUPE_OK;
}

/* The slot is nobody's any more. */
static void
clear(struct trp_core *core, struct router *router, struct slot *slot)
{
    close_slot(core, router, slot);
    router->live -= slot->state == LIVE;
    slot->state = FREE;
    slot->ref = TROUPE_NONE;
    if (!is_pool(&router->plan->options)) {
        uint32_t at = (uint32_t)(slot - router->slots);

        memmove(slot, slot + 1, (router->count - at - 1) * sizeof *slot);
        router->count--;
    }
    while (
        router->count > 0 && router->slots[router->count - 1].state == FREE) {
        router->count--;
    }
}

/* --- routees -------------------------------------------------------------- */

/*
 * Of the text of its path, so that whoever has the same name has the same keys,
 * also in the next life and in another process. E_NOMEM.
 */
static troupe_status
identify(troupe_self *self, const struct router *router, troupe_ref ref,
    uint64_t *identity)
{
    const troupe_system *system = troupe_self_system(self);
    struct trp_heap *heap = &self->core->heap;
    size_t bytes = troupe_path(system, ref, NULL, 0) + 1;
    char *path = trp_heap_alloc(heap, bytes);
    size_t length;

    if (path == NULL) {
        return TROUPE_E_NOMEM;
    }
    length = troupe_path(system, ref, path, bytes);
    length = length < bytes ? length : 0; /* it has gone */
    *identity = router->plan->options.key_bytes != NULL
                    ? trp_rendezvous_original(trp_hash_text32(path, length))
                    : trp_rendezvous_mixed(trp_hash_bytes64(path, length));
    trp_heap_free(heap, path, bytes);
    return TROUPE_OK;
}

/* Watched, and in the slot; the slot is counted. */
static troupe_status
settle(troupe_self *self, struct router *router, uint32_t at, troupe_ref ref)
{
    troupe_status status = TROUPE_OK;
    uint64_t identity = 0;

    if (router->plan->options.routing == TROUPE_ROUTE_CONSISTENT_HASH) {
        status = identify(self, router, ref, &identity);
    }
    if (status == TROUPE_OK) {
        status = troupe_watch(self, ref);
    }
    if (status == TROUPE_OK) {
        router->slots[at] = (struct slot){.ref = ref,
            .weight = weight_of(router->plan, at),
            .state = LIVE,
            .born_ns = trp_alarm_now(&self->core->sched),
            .identity = identity};
        router->live++;
        router->count = at < router->count ? router->count : at + 1;
    }
    return status;
}

/* A routee for the lowest free slot. */
static troupe_status
spawn_routee(troupe_self *self, struct router *router)
{
    const struct plan *plan = router->plan;
    struct trp_child_parts parts;
    troupe_spawn_options options;
    TRP_ATOMIC(uint32_t) * counter;
    char name[NAME_BYTES];
    troupe_ref ref;
    uint32_t at = 0;
    troupe_status status;

    while (at < router->count && router->slots[at].state != FREE) {
        at++;
    }
    if (!reserve_slots(self->core, router, at + 1)) {
        return TROUPE_E_NOMEM;
    }
    trp_child_plan_options(&plan->child, child_tail(plan), &parts, &options);
    (void)snprintf(name, sizeof name, "routee-%" PRIu32, at + 1);
    options.name = name;
    counter = trp_route_slot(self->core, router->route, at);
    status = trp_spawn_counted(self, plan->options.type, &options, &counter,
        plan->options.routing == TROUPE_ROUTE_LEAST_IN_FLIGHT, &ref);
    if (status == TROUPE_OK) {
        status = settle(self, router, at, ref);
        if (status != TROUPE_OK) {
            (void)troupe_stop_now(self, ref);
            return status;
        }
        router->slots[at].is_counted = counter != NULL;
    }
    return status;
}

/* As many as are wanted, if there is memory for them. */
static troupe_status
fill(troupe_self *self, struct router *router)
{
    troupe_status status = TROUPE_OK;

    while (status == TROUPE_OK && router->live < router->wanted) {
        status = spawn_routee(self, router);
    }
    return status;
}

static bool
set_tick(troupe_self *self, uint64_t delay_ns)
{
    return trp_timer_start_own(self, TICK_KEY, &tick_type, delay_ns,
               "troupe_spawn_router") == TROUPE_OK;
}

/* The same for one that runs already: what is missing is tried for again. */
static void
refill(troupe_self *self, struct router *router)
{
    troupe_status status = fill(self, router);

    if (publish(self, router) != TROUPE_OK || status != TROUPE_OK) {
        troupe_log(self, TROUPE_LOG_WARN,
            "%" PRIu32 " of %" PRIu32 " routees: %s", router->live,
            router->wanted,
            troupe_status_text(status != TROUPE_OK ? status : TROUPE_E_NOMEM));
        (void)set_tick(self, RETRY_NS); /* or at the next death or order */
    }
}

/* No message more; what it has it handles. */
static void
drain(troupe_self *self, struct slot *slot)
{
    if (troupe_stop(self, slot->ref) != TROUPE_OK) {
        (void)troupe_stop_now(self, slot->ref);
    }
}

/* --- deaths --------------------------------------------------------------- */

/* Routees that die at once are brought back more and more slowly. */
static void
replace(troupe_self *self, struct router *router, bool was_brief)
{
    static const troupe_backoff pause = {.size = sizeof pause,
        .kind = TROUPE_BACKOFF_EXPONENTIAL,
        .min_ns = RETRY_NS,
        .max_ns = 100 * RETRY_NS,
        .jitter = TROUPE_JITTER_NONE};

    if (was_brief &&
        (troupe_timer_is_active(self, TICK_KEY) ||
            set_tick(self, trp_backoff_delay_ns(&pause, router->brief++)))) {
        (void)publish(self, router); /* fewer: needs no memory */
        return;
    }
    router->brief = was_brief ? router->brief : 0;
    refill(self, router); /* too early rather than never */
}

/* What is left after `lost` live ones have gone. */
static void
go_on(troupe_self *self, struct router *router, uint32_t lost, bool was_brief)
{
    bool returns = (router->plan->options.flags & TROUPE_ROUTER_RESPAWN) != 0;

    if (lost != 0 && router->live == 0) {
        troupe_log(self, TROUPE_LOG_WARN, "there is no routee left");
    }
    if (lost != 0 && returns) {
        replace(self, router, was_brief);
        return;
    }
    if (is_pool(&router->plan->options)) {
        router->wanted -= lost < router->wanted ? lost : router->wanted;
        if (router->live < router->wanted) {
            refill(self, router); /* names are free again */
            return;
        }
    }
    (void)publish(self, router); /* fewer: needs no memory */
}

/*
 * Whoever has gone by now, whether the notice has come yet or there was no
 * memory for it: many that go at once are one new table.
 */
static void
sweep(troupe_self *self, struct router *router)
{
    uint64_t now_ns = trp_alarm_now(&self->core->sched);
    uint32_t gone = 0, lost = 0;
    bool was_brief = false;

    for (uint32_t i = router->count; i > 0; i--) {
        struct slot *slot = &router->slots[i - 1];

        if (slot->state == FREE || trp_ref_lives(self->core, slot->ref)) {
            continue;
        }
        gone++;
        if (slot->state == LIVE) {
            lost++;
            was_brief |= now_ns - slot->born_ns < BRIEF_NS;
        }
        (void)troupe_unwatch(self, slot->ref);
        clear(self->core, router, slot);
    }
    if (gone != 0) {
        go_on(self, router, lost, was_brief);
    }
}

/* --- orders --------------------------------------------------------------- */

static void
resize(troupe_self *self, struct router *router, uint32_t wanted)
{
    uint32_t before = router->count;

    router->wanted = wanted;
    if (router->live <= wanted) {
        refill(self, router);
        return;
    }
    for (uint32_t i = before; i > 0 && router->live > wanted; i--) {
        if (router->slots[i - 1].state == LIVE) {
            router->slots[i - 1].state = DRAINING;
            router->live--;
        }
    }
    (void)publish(self, router); /* fewer: needs no memory */
    for (uint32_t i = 0; i < router->count; i++) {
        if (router->slots[i].state == DRAINING) {
            drain(self, &router->slots[i]);
        }
    }
}

static void
add(troupe_self *self, struct router *router, troupe_ref member)
{
    troupe_status status = TROUPE_OK;

    if (find(router, member) != NULL) {
        return;
    }
    if (reserve_slots(self->core, router, router->count + 1)) {
        status = settle(self, router, router->count, member);
        if (status == TROUPE_OK) {
            struct slot *slot = &router->slots[router->count - 1];

            slot->weight = 1; /* whatever the plan said of this place */
            status = publish(self, router);
            if (status != TROUPE_OK) {
                (void)troupe_unwatch(self, member);
                clear(self->core, router, slot);
            }
        }
    } else {
        status = TROUPE_E_NOMEM;
    }
    if (status != TROUPE_OK) {
        troupe_log(self, TROUPE_LOG_WARN, "member %u-%u was not added: %s",
            member.index, member.generation, troupe_status_text(status));
    }
}

static void
take_out(troupe_self *self, struct router *router, troupe_ref member)
{
    struct slot *slot = find(router, member);

    if (slot == NULL || slot->state != LIVE) {
        return;
    }
    if (!is_pool(&router->plan->options)) {
        (void)troupe_unwatch(self, member);
        clear(self->core, router, slot);
        (void)publish(self, router); /* fewer: needs no memory */
        return;
    }
    slot->state = DRAINING;
    router->live--;
    router->wanted = router->wanted > 0 ? router->wanted - 1 : 0;
    (void)publish(self, router); /* fewer: needs no memory */
    drain(self, slot);
}

static void
stop_routees(troupe_self *self, struct router *router)
{
    bool returns = (router->plan->options.flags & TROUPE_ROUTER_RESPAWN) != 0;

    for (uint32_t i = 0; i < router->count; i++) {
        if (router->slots[i].state == LIVE) {
            router->slots[i].state = DRAINING;
        }
    }
    router->live = 0;
    router->wanted = returns ? router->wanted : 0;
    (void)publish(self, router); /* fewer: needs no memory */
    for (uint32_t i = 0; i < router->count; i++) {
        if (router->slots[i].state == DRAINING) {
            drain(self, &router->slots[i]);
        }
    }
}

/* --- a pool that sizes itself --------------------------------------------- */

static uint32_t
busy_of(const struct troupe_self *self, const struct router *router)
{
    uint32_t least = router->plan->resizer.pressure_depth;
    uint32_t busy = 0;

    for (uint32_t i = 0; i < router->count; i++) {
        const struct slot *slot = &router->slots[i];

        if (slot->state == LIVE) {
            uint32_t depth = trp_route_depth(self->core, slot->ref);

            busy += depth != UINT32_MAX && depth >= least;
        }
    }
    return busy;
}

/* A message after the pause brings the next look, or a tick. */
static void
look_later(troupe_self *self, struct router *router)
{
    const troupe_resizer_options *resizer = &router->plan->resizer;
    uint64_t now_ns = self->core->now_ns(self->core);

    trp_route_look_after(
        router->route, resizer->cooldown_ns < UINT64_MAX - now_ns
                           ? now_ns + resizer->cooldown_ns
                           : UINT64_MAX);
    if (router->wanted > resizer->lower) {
        (void)trp_timer_start_own(self, SIZE_KEY, &size_type,
            resizer->cooldown_ns, "troupe_spawn_router");
    }
}

static void
measure(troupe_self *self, struct router *router)
{
    const troupe_resizer_options *resizer = &router->plan->resizer;
    uint32_t busy = busy_of(self, router);
    uint64_t step = (uint64_t)router->live * resizer->step_percent / 100;
    uint64_t wanted = router->live;

    step = step != 0 ? step : 1;
    if (busy == router->live) {
        wanted += step;
    } else if ((uint64_t)busy * 100 <
               (uint64_t)router->live * resizer->idle_percent) {
        wanted -= step < wanted ? step : wanted;
    }
    wanted = wanted < resizer->upper ? wanted : resizer->upper;
    wanted = wanted > resizer->lower ? wanted : resizer->lower;
    if (wanted != router->live) {
        resize(self, router, (uint32_t)wanted);
    }
    look_later(self, router);
}

/* --- told what to do ------------------------------------------------------ */

static void
obey(troupe_self *self, struct router *router, const troupe_msg *msg)
{
    struct trp_route_control control;

    memcpy(&control, msg->payload, sizeof control);
    switch ((enum trp_route_order)control.order) {
    case TRP_ROUTE_RESIZE:
        resize(self, router, control.routees);
        break;
    case TRP_ROUTE_ADD:
        add(self, router, control.member);
        break;
    case TRP_ROUTE_REMOVE:
        take_out(self, router, control.member);
        break;
    case TRP_ROUTE_STOP_ROUTEES:
        stop_routees(self, router);
        break;
    case TRP_ROUTE_MEASURE:
        measure(self, router);
        break;
    }
}

/* --- one question to all -------------------------------------------------- */

static void
fail_asker(
    troupe_self *self, troupe_ref asker, troupe_status status, int32_t code)
{
    const troupe_failure failure = {status, code};
    struct trp_item item;
    troupe_status sent;

    trp_send_failure_item(&item, &failure);
    item.sender = trp_ref_pack(self->ref);
    trp_book(self->core, self->local, sent, 1);
    sent = trp_mailbox_deliver(self->core, self->local, asker, &item);
    if (sent != TROUPE_OK) {
        troupe_msg view;

        trp_item_view(&item, &view);
        trp_dead_letter(self->core, self->local, asker, &view, NULL,
            trp_send_reason(asker, sent));
    }
}

/*
 * Nobody was asked. A mistake is the code of a failure: E_INVALID would tell
 * the asker that the question is its own still, and it has been taken.
 */
static void
refuse_asker(troupe_self *self, troupe_ref asker, troupe_status status)
{
    bool is_mistake = status == TROUPE_E_INVALID || status == TROUPE_E_LIMIT ||
                      status == TROUPE_E_STATE;

    fail_asker(self, asker, is_mistake ? TROUPE_E_FAILED : status,
        is_mistake ? (int32_t)status : 0);
}

/* The outcome of a gather; `user` is the ref of who asked. */
static troupe_verdict
answer(troupe_self *self, void *state, const troupe_result *result, void *user)
{
    troupe_ref asker = trp_ref_unpack((uint64_t)(uintptr_t)user);

    (void)state;
    if (result->status == TROUPE_OK) {
        troupe_forward(self, asker);
    } else {
        fail_asker(self, asker, result->status, result->code);
    }
    return TROUPE_CONTINUE;
}

_Static_assert(sizeof(void *) == sizeof(troupe_ref), "answer() unpacks it");

static troupe_verdict
leave_mute(troupe_self *self, struct router *router)
{
    router->mute++;
    if ((router->mute & (router->mute - 1)) == 0) { /* 1, 2, 4 .. */
        troupe_log(self, TROUPE_LOG_WARN,
            "%" PRIu64 " messages without a sender: ask, or nobody is answered",
            router->mute);
    }
    return TROUPE_UNHANDLED;
}

static troupe_verdict
ask_all(troupe_self *self, struct router *router, const troupe_msg *msg)
{
    const struct plan *plan = router->plan;
    struct trp_question question = {msg->type, msg->payload, msg->bytes, 0};
    troupe_continuation then = {
        answer, (void *)(uintptr_t)trp_ref_pack(msg->sender)};
    troupe_ref *whom = router->refs;
    uint32_t count = 0;
    troupe_ticket ticket;
    troupe_status status = trp_route_hop(self->current.item);

    if (troupe_ref_is_none(msg->sender)) {
        return leave_mute(self, router);
    }
    for (uint32_t i = 0; i < router->count; i++) {
        if (router->slots[i].state == LIVE) {
            whom[count++] = router->slots[i].ref;
        }
    }
    trp_route_note_asked(router->route, count);
    if (count == 0) {
        status = TROUPE_E_NO_ROUTE;
    } else if (plan->gather.quorum > count) {
        status = TROUPE_E_FAILED; /* a smaller one would not be the same */
    } else if (status == TROUPE_OK) {
        question.hops = self->current.item->mark & TRP_MARK_HOPS;
        status = trp_gather(self, "routing", whom, count, &question,
            &plan->gather, then, &ticket);
    }
    if (status != TROUPE_OK) {
        refuse_asker(self, msg->sender, status);
    }
    return TROUPE_CONTINUE;
}

/* --- the actor ------------------------------------------------------------ */

/* The notice of a watch, and not one that somebody has sent on. */
static bool
is_notice(const struct troupe_self *self)
{
    struct trp_watching *watching = trp_watching_of(self->core, self->cell);

    return watching != NULL && watching->shown != NULL;
}

static troupe_verdict
receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct router *router = state;

    if (msg->type == &trp_route_control_type) {
        sweep(self, router);
        obey(self, router, msg);
    } else if (msg->type == &tick_type) {
        refill(self, router);
    } else if (msg->type == &size_type) {
        sweep(self, router);
        measure(self, router);
    } else if (is_notice(self)) {
        sweep(self, router);
    } else if (router->plan->options.routing == TROUPE_ROUTE_GATHER &&
               (self->current.item->mark & TRP_MARK_BROADCAST) == 0) {
        return ask_all(self, router, msg);
    } else {
        trp_route_current(self, is_serial(&router->plan->options));
    }
    if (!is_serial(&router->plan->options)) {
        trp_route_unpark(self);
    }
    return TROUPE_CONTINUE;
}

static troupe_status
gather_members(troupe_self *self, struct router *router)
{
    const troupe_ref *members = members_of(router->plan);
    troupe_status status = TROUPE_OK;

    for (uint32_t i = 0;
         i < router->plan->options.routees && status == TROUPE_OK; i++) {
        status = reserve_slots(self->core, router, i + 1)
                     ? settle(self, router, i, members[i])
                     : TROUPE_E_NOMEM;
    }
    return status;
}

/* Where somebody is looked for by them. */
static void
reserve_depths(struct trp_core *core, struct router *router)
{
    const struct plan *plan = router->plan;

    if (plan->options.routing == TROUPE_ROUTE_SMALLEST_MAILBOX ||
        plan->options.routing == TROUPE_ROUTE_LEAST_IN_FLIGHT) {
        trp_route_reserve_depths(core, router->route,
            plan->options.routees > plan->resizer.upper ? plan->options.routees
                                                        : plan->resizer.upper);
    }
}

static troupe_status
start(troupe_self *self, void *state, const void *arg)
{
    struct router *router = state;
    troupe_status status;

    router->plan = arg;
    router->route =
        trp_route_of(self->core, trp_rules_of(self->core, self->cell));
    if (is_pool(&router->plan->options)) {
        router->wanted = router->plan->options.routees;
        reserve_depths(self->core, router);
        status = fill(self, router);
    } else {
        status = gather_members(self, router);
    }
    if (status == TROUPE_OK) {
        status = publish(self, router);
    }
    if (status != TROUPE_OK) {
        free_slots(self->core, router);
        return status;
    }
    if (router->plan->resizer.upper != 0) {
        look_later(self, router);
    }
    if (!is_serial(&router->plan->options)) {
        trp_route_unpark(self);
    }
    return TROUPE_OK;
}

/* Before a restart, too: then what comes waits for the next pool. */
static void
stop(troupe_self *self, void *state, const troupe_exit *why)
{
    struct router *router = state;

    (void)why;
    trp_route_park(self);
    close_slots(self->core, router, true);
    free_slots(self->core, router);
}

static const troupe_actor_type pool_type = {
    .size = sizeof pool_type,
    .name = "router",
    .state_bytes = sizeof(struct router),
    .receive = receive,
    .start = start,
    .stop = stop,
};

static const troupe_actor_type group_type = {
    .size = sizeof group_type,
    .name = "router",
    .state_bytes = sizeof(struct router),
    .receive = receive,
    .start = start,
    .stop = stop,
};

/* --- spawned -------------------------------------------------------------- */

static uint64_t
seed_of(const struct trp_core *core, uint64_t given)
{
    const troupe_system *system =
        trp_system_of((struct trp_core *)(uintptr_t)core);
    uint64_t seed = system->tunables.value[TRP_TROUPE_SEED];

    return given != 0 ? given : seed != 0 ? seed : trp_clock_ns();
}

static void
pack(const struct plan *plan, char *block)
{
    memcpy(block, plan, sizeof *plan);
    block += sizeof *plan;
    if (members_bytes(plan) != 0) {
        memcpy(block, plan->options.members, members_bytes(plan));
    }
    block += members_bytes(plan);
    if (weights_bytes(plan) != 0) {
        memcpy(block, plan->options.weights, weights_bytes(plan));
    }
    trp_child_plan_pack(&plan->child, block + weights_bytes(plan));
}

static troupe_status
spawn(struct trp_core *core, troupe_self *self,
    const troupe_router_options *given, troupe_ref *router, const char *call)
{
    troupe_spawn_options options = {.size = sizeof options};
    struct plan plan;
    troupe_status status =
        trp_options_copy(&plan.options, sizeof plan.options, given, call);
    char *block;

    if (status == TROUPE_OK) {
        status = check(core, &plan.options, call);
    }
    if (status != TROUPE_OK) {
        return status;
    }
    trp_child_plan_make(&plan.child, plan.options.routee_options, call);
    plan.seed = seed_of(core, plan.options.seed);
    take_resizer(&plan.resizer, plan.options.resizer, call);
    plan.gather = (troupe_gather_options){.size = sizeof plan.gather};
    if (plan.options.gather != NULL) {
        (void)trp_options_copy(
            &plan.gather, sizeof plan.gather, plan.options.gather, call);
        plan.gather.size = sizeof plan.gather;
    }
    options.arg_bytes = sizeof plan + members_bytes(&plan) +
                        weights_bytes(&plan) + trp_child_plan_tail(&plan.child);
    block = trp_heap_alloc(&core->heap, options.arg_bytes);
    if (block == NULL) {
        return TROUPE_E_NOMEM;
    }
    pack(&plan, block);
    options.arg = block;
    options.name = plan.options.name;
    status = trp_spawn_router(core, self, call,
        is_pool(&plan.options) ? &pool_type : &group_type, &options, router);
    trp_heap_free(&core->heap, block, options.arg_bytes);
    return status;
}

troupe_status
troupe_spawn_router(
    troupe_self *self, const troupe_router_options *options, troupe_ref *router)
{
    static const char call[] = "troupe_spawn_router";

    if (self == NULL) {
        return trp_refuse(
            TROUPE_E_INVALID, call, "self", "must not be NULL", "NULL");
    }
    return spawn(self->core, self, options, router, call);
}

troupe_status
troupe_system_spawn_router(troupe_system *system,
    const troupe_router_options *options, troupe_ref *router)
{
    static const char call[] = "troupe_system_spawn_router";
    troupe_status status = trp_system_check(system, call);

    return status == TROUPE_OK
               ? spawn(trp_core_of(system), NULL, options, router, call)
               : status;
}

/* --- told ----------------------------------------------------------------- */

/* The same with a record if `type` is not what the order is for. */
static troupe_status
check_order(const struct trp_sending *sending, const troupe_actor_type *type,
    const char *rule)
{
    struct trp_core *core = sending->core;
    struct trp_route *route;
    troupe_status status =
        trp_route_find(core, sending->to, sending->call, &route);

    if (status == TROUPE_OK && type != NULL &&
        /* relaxed: of this life, if the order arrives. */
        trp_load_relaxed(&core->cold[sending->to.index].type) != type &&
        trp_ref_lives(core, sending->to)) {
        status = trp_refuse(TROUPE_E_STATE, sending->call, "router", rule,
            "%u-%u", sending->to.index, sending->to.generation);
    }
    return status;
}

static troupe_status
order(troupe_system *system, troupe_ref router, const char *call,
    const troupe_actor_type *type, const char *rule,
    const struct trp_route_control *control)
{
    struct trp_sending sending = {.to = router};
    troupe_status status = trp_send_outside_uncounted(system, call, &sending);
    struct trp_item item;

    if (status == TROUPE_OK) {
        status = check_order(&sending, type, rule);
    }
    if (status != TROUPE_OK) {
        return status;
    }
    trp_make_plain(
        &item, &trp_route_control_type, control, sizeof *control, TROUPE_NONE);
    trp_book(sending.core, sending.local, sent, 1);
    status = trp_mailbox_deliver(sending.core, sending.local, router, &item);
    if (status != TROUPE_OK) {
        trp_book(sending.core, sending.local, refused, 1);
    }
    return status;
}

troupe_status
troupe_router_resize(troupe_system *system, troupe_ref router, uint32_t routees)
{
    static const char call[] = "troupe_router_resize";

    if (routees == 0 || routees > TRP_ROUTEES_MOST) {
        return trp_refuse(TROUPE_E_INVALID, call, "routees",
            "must be between 1 and 1000000", "%u", routees);
    }
    return order(system, router, call, &pool_type,
        "is a group: see troupe_router_add()",
        &(struct trp_route_control){
            .order = TRP_ROUTE_RESIZE, .routees = routees});
}

static troupe_status
check_member(troupe_ref router, troupe_ref member, const char *call)
{
    if (troupe_ref_is_none(member) || trp_ref_is_promise(member) ||
        troupe_ref_equal(router, member)) {
        return trp_refuse(TROUPE_E_INVALID, call, "member",
            "must be an actor or a port, and not the router", "%u-%u",
            member.index, member.generation);
    }
    return TROUPE_OK;
}

troupe_status
troupe_router_add(troupe_system *system, troupe_ref router, troupe_ref member)
{
    static const char call[] = "troupe_router_add";
    troupe_status status = check_member(router, member, call);

    return status == TROUPE_OK
               ? order(system, router, call, &group_type,
                     "is a pool: see troupe_router_resize()",
                     &(struct trp_route_control){
                         .order = TRP_ROUTE_ADD, .member = member})
               : status;
}

troupe_status
troupe_router_remove(
    troupe_system *system, troupe_ref router, troupe_ref member)
{
    static const char call[] = "troupe_router_remove";
    troupe_status status = check_member(router, member, call);

    return status == TROUPE_OK
               ? order(system, router, call, NULL, NULL,
                     &(struct trp_route_control){
                         .order = TRP_ROUTE_REMOVE, .member = member})
               : status;
}

troupe_status
troupe_router_stop_routees(troupe_system *system, troupe_ref router)
{
    return order(system, router, "troupe_router_stop_routees", NULL, NULL,
        &(struct trp_route_control){.order = TRP_ROUTE_STOP_ROUTEES});
}

size_t
troupe_router_routees(const troupe_system *system, troupe_ref router,
    troupe_ref *routees, size_t capacity)
{
    static const char call[] = "troupe_router_routees";
    struct trp_core *core = trp_core_of(system);
    struct trp_route *route;
    size_t count;

    if (trp_system_check(system, call) != TROUPE_OK) {
        return 0;
    }
    if (routees == NULL && capacity != 0) {
        trp_refuse(
            TROUPE_E_INVALID, call, "routees", "must not be NULL", "NULL");
        return 0;
    }
    if (trp_route_find(core, router, call, &route) != TROUPE_OK) {
        return 0;
    }
    count = trp_route_members(core, route, routees, capacity);
    return trp_ref_lives(core, router) ? count : 0;
}

troupe_status
troupe_router_counters_read(const troupe_system *system, troupe_ref router,
    troupe_router_counters *counters)
{
    static const char call[] = "troupe_router_counters_read";
    troupe_router_counters sums = {.size = sizeof sums};
    struct trp_core *core = trp_core_of(system);
    troupe_status status = trp_system_check(system, call);
    struct trp_route *route;

    if (status == TROUPE_OK &&
        (counters == NULL || counters->size < sizeof(size_t))) {
        status = trp_refuse(TROUPE_E_INVALID, call, "counters.size",
            "must be set with TROUPE_OPTIONS()", "%zu",
            counters != NULL ? counters->size : 0);
    }
    if (status == TROUPE_OK && counters->size > sizeof sums) {
        status = trp_refuse(TROUPE_E_VERSION, call, "counters.size",
            "has members that this library does not know", "%zu",
            counters->size);
    }
    if (status == TROUPE_OK) {
        status = trp_route_find(core, router, call, &route);
    }
    if (status != TROUPE_OK) {
        return status;
    }
    trp_route_count(core, route, &sums);
    if (!trp_ref_lives(core, router)) {
        return TROUPE_E_DEAD;
    }
    sums.size = counters->size;
    memcpy(counters, &sums, counters->size);
    return TROUPE_OK;
}

/* --- broadcasts ----------------------------------------------------------- */

static troupe_status
broadcast(struct trp_sending *sending, const troupe_msg_type *type,
    const void *payload)
{
    struct trp_route *route;
    troupe_status status =
        trp_route_find(sending->core, sending->to, sending->call, &route);

    sending->mark = TRP_MARK_BROADCAST;
    /* One that has gone refuses it, so that it is counted. */
    return status == TROUPE_OK || status == TROUPE_E_DEAD
               ? trp_send_copy(
                     sending, type, payload, type != NULL ? type->bytes : 0)
               : status;
}

troupe_status
troupe_broadcast(troupe_self *self, troupe_ref router,
    const troupe_msg_type *type, const void *payload)
{
    struct trp_sending sending = {.call = "troupe_broadcast", .to = router};

    if (self == NULL) {
        return trp_refuse(
            TROUPE_E_INVALID, sending.call, "self", "must not be NULL", "NULL");
    }
    sending.core = self->core;
    sending.local = self->local;
    sending.sender = self->ref;
    return broadcast(&sending, type, payload);
}

troupe_status
troupe_post_broadcast(troupe_system *system, troupe_ref router,
    const troupe_msg_type *type, const void *payload)
{
    struct trp_sending sending = {.to = router};
    troupe_status status =
        trp_send_outside(system, "troupe_post_broadcast", &sending);

    return status == TROUPE_OK ? broadcast(&sending, type, payload) : status;
}
