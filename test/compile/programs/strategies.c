/* SPDX-License-Identifier: MIT */
/* Two strategies of one's own: a warm-up and a weighted slot table. */
#include <troupe/troupe.h>

/* The first 100 messages warm up routee 1, then round robin. */
static size_t
pick_warm_up(
    const troupe_route *route, troupe_ref *targets, size_t capacity, void *user)
{
    uint64_t at = route->index < 100 ? 0 : route->index % route->count;

    (void)capacity;
    (void)user;
    targets[0] = route->routees[at];
    return 1;
}

struct slots {
    size_t count;
    uint32_t position[64];
};

/* Weight w at position p adds w slots p. Read-only once built: safe to share.
 */
static bool
slots_build(struct slots *slots, const uint32_t *weights, uint32_t count)
{
    slots->count = 0;
    for (uint32_t p = 0; p < count; p++) {
        for (uint32_t w = 0; w < weights[p]; w++) {
            if (slots->count == 64) {
                return false;
            }
            slots->position[slots->count++] = p;
        }
    }
    return slots->count > 0;
}

static size_t
pick_weighted(
    const troupe_route *route, troupe_ref *targets, size_t capacity, void *user)
{
    const struct slots *slots = user;
    uint32_t p = slots->position[route->index % slots->count];

    (void)capacity;
    targets[0] = route->routees[p % route->count];
    return 1;
}

/* Skips routees that have more than 100 waiting; none left: drop. */
static size_t
pick_not_swamped(
    const troupe_route *route, troupe_ref *targets, size_t capacity, void *user)
{
    (void)capacity;
    (void)user;
    for (size_t k = 0; k < route->count; k++) {
        troupe_ref one = route->routees[(route->index + k) % route->count];

        if (troupe_depth(route->system, one) <= 100) {
            targets[0] = one;
            return 1;
        }
    }
    return 0;
}

static troupe_verdict
worker_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)self;
    (void)state;
    (void)msg;
    return TROUPE_CONTINUE;
}

static const troupe_actor_type worker = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "worker",
    .receive = worker_receive,
};

int
main(void)
{
    static const uint32_t weights[3] = {5, 2, 1};
    static struct slots slots;
    troupe_router_options options = TROUPE_INIT(troupe_router_options);
    troupe_system *system;
    troupe_ref warm, weighted, builtin, spared;

    if (!slots_build(&slots, weights, 3) ||
        troupe_system_create(NULL, &system) != TROUPE_OK) {
        return 1;
    }
    options.type = &worker;
    options.routees = 3;
    options.routing = TROUPE_ROUTE_CUSTOM;
    options.pick = pick_warm_up;
    if (troupe_system_spawn_router(system, &options, &warm) != TROUPE_OK) {
        return 1;
    }
    options.pick = pick_weighted;
    options.user = &slots;
    if (troupe_system_spawn_router(system, &options, &weighted) != TROUPE_OK) {
        return 1;
    }
    options.pick = pick_not_swamped;
    options.user = NULL;
    if (troupe_system_spawn_router(system, &options, &spared) != TROUPE_OK) {
        return 1;
    }
    /* The same weights without any code. */
    options.pick = NULL;
    options.routing = TROUPE_ROUTE_WEIGHTED;
    options.weights = weights;
    if (troupe_system_spawn_router(system, &options, &builtin) != TROUPE_OK ||
        troupe_router_resize(system, warm, 6) != TROUPE_OK ||
        troupe_router_stop_routees(system, weighted) != TROUPE_OK) {
        return 1;
    }
    return troupe_system_destroy(system) == TROUPE_OK ? 0 : 1;
}
