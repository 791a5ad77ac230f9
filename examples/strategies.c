/* SPDX-License-Identifier: MIT */
/*
 * Strategies of one's own: a warm-up, weights as a table of slots, and one that
 * spares routees that are swamped. A strategy runs on the thread of whoever
 * sends, many at once; these read the index, what does not change, and depths.
 */
#include <troupe/troupe.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAG_JOB = 1, ROUTEES = 3, SLOTS = 64, WARM_UP = 100, SWAMPED = 100 };

TROUPE_MSG_TYPE_EMPTY(job, TAG_JOB);

static void
must(troupe_status status)
{
    if (status != TROUPE_OK) {
        char why[200];

        troupe_explain(status, why, sizeof why);
        fprintf(stderr, "strategies: %s\n", why);
        exit(EXIT_FAILURE);
    }
}

/* --- the strategies ------------------------------------------------------- */

/* The first messages warm up routee 1, then each has its turn. */
static size_t
pick_warm_up(
    const troupe_route *route, troupe_ref *targets, size_t capacity, void *user)
{
    uint64_t at = route->index < WARM_UP ? 0 : route->index % route->count;

    (void)capacity;
    (void)user;
    targets[0] = route->routees[at];
    return 1;
}

struct slots {
    size_t count;
    uint32_t position[SLOTS];
};

/* Weight w at position p makes w slots of p; false: none, or too many. */
static bool
slots_build(struct slots *slots, const uint32_t *weights, uint32_t count)
{
    slots->count = 0;
    for (uint32_t p = 0; p < count; p++) {
        for (uint32_t w = 0; w < weights[p]; w++) {
            if (slots->count == SLOTS) {
                return false;
            }
            slots->position[slots->count++] = p;
        }
    }
    return slots->count > 0;
}

/*
 * Nobody writes the slots while there are messages. When a routee has gone the
 * others move up and the weights with them; TROUPE_ROUTE_WEIGHTED keeps each
 * weight with its routee, and mixes them instead of sending one its whole
 * share in a row.
 */
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

/* Leaves out whom too much waits for; nobody is left: the sender hears of it.
 */
static size_t
pick_not_swamped(
    const troupe_route *route, troupe_ref *targets, size_t capacity, void *user)
{
    (void)capacity;
    (void)user;
    for (size_t k = 0; k < route->count; k++) {
        troupe_ref one = route->routees[(route->index + k) % route->count];

        if (troupe_depth(route->system, one) < SWAMPED) {
            targets[0] = one;
            return 1;
        }
    }
    return 0;
}

/* --- routees, and what they have got ---------------------------------------
 */

static troupe_verdict
worker_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)self;
    (void)state;
    return troupe_msg_is(msg, &job) ? TROUPE_CONTINUE : TROUPE_UNHANDLED;
}

static const troupe_actor_type worker_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "worker",
    .receive = worker_receive,
};

static bool
print_worker(const troupe_actor_info *info, void *user)
{
    (void)user;
    if (strcmp(info->type, worker_type.name) == 0) {
        printf("  %s: %llu\n", strrchr(info->path, '/') + 1,
            (unsigned long long)info->handled);
    }
    return true;
}

/* All of `jobs` are sent before the first is handled: no workers, no hurry. */
static void
show(troupe_system *system, const char *name, troupe_pick_fn pick, void *user,
    int jobs)
{
    troupe_router_options options = TROUPE_INIT(troupe_router_options);
    char path[64];
    troupe_ref router;
    int refused = 0;

    options.name = name;
    options.type = &worker_type;
    options.routees = ROUTEES;
    options.routing = TROUPE_ROUTE_CUSTOM;
    options.pick = pick;
    options.user = user;
    must(troupe_system_spawn_router(system, &options, &router));
    must(troupe_system_await_idle(system, TROUPE_S(1)));
    for (int i = 0; i < jobs; i++) {
        troupe_status status = troupe_post(system, router, &job, NULL);

        if (status == TROUPE_E_NO_ROUTE) {
            refused++;
        } else {
            must(status);
        }
    }
    must(troupe_system_await_idle(system, TROUPE_S(1)));
    snprintf(path, sizeof path, "/user/%s", name);
    printf("%s, %d jobs, %d refused:\n", name, jobs, refused);
    must(troupe_inspect(system, path, print_worker, NULL));
}

int
main(void)
{
    static const uint32_t weights[ROUTEES] = {5, 2, 1};
    troupe_system_options options = TROUPE_INIT(troupe_system_options);
    troupe_system *system;
    struct slots slots;

    if (!slots_build(&slots, weights, ROUTEES)) {
        return EXIT_FAILURE;
    }
    options.flags = TROUPE_SYSTEM_DRIVEN;
    must(troupe_system_create(&options, &system));
    show(system, "warm-up", pick_warm_up, NULL, WARM_UP + 10 * ROUTEES);
    show(system, "weighted", pick_weighted, &slots, 800);
    show(system, "not-swamped", pick_not_swamped, NULL, 500);
    must(troupe_system_destroy(system));
    return EXIT_SUCCESS;
}
