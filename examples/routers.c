/* SPDX-License-Identifier: MIT */
/*
 * Three pools of the same workers: one goes around, one keeps what belongs
 * together with one worker, one asks a function of ours. Then the first one
 * grows, and everybody is told that it is over.
 */
#include <troupe/troupe.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

TROUPE_MSG_TYPE(job, uint32_t, 1);
TROUPE_MSG_TYPE_EMPTY(closing, 2);

static troupe_verdict
worker_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    char path[100];

    (void)state;
    (void)troupe_path(
        troupe_self_system(self), troupe_self_ref(self), path, sizeof path);
    if (troupe_msg_is(msg, &job)) {
        printf("%s: job %" PRIu32 "\n", strstr(path, "/user/"),
            *troupe_payload(msg, uint32_t));
    } else {
        printf("%s: goes home\n", strstr(path, "/user/"));
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type worker = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "worker",
    .receive = worker_receive,
};

/* Jobs of one customer, a multiple of ten, are for one worker. */
static uint64_t
customer_of(const troupe_msg *msg, void *user)
{
    (void)user;
    return *troupe_payload(msg, uint32_t) / 10;
}

/* Odd jobs to the first worker, even ones to nobody. */
static size_t
pick_odd(
    const troupe_route *route, troupe_ref *targets, size_t capacity, void *user)
{
    (void)capacity;
    (void)user;
    targets[0] = route->routees[0];
    return *troupe_payload(route->msg, uint32_t) % 2;
}

/* In driven mode one message after the other, so the output has an order. */
static troupe_status
send_job(troupe_system *system, troupe_ref to, uint32_t number)
{
    troupe_status status = troupe_post(system, to, &job, &number);

    if (status == TROUPE_OK) {
        status = troupe_system_run(system, 0, NULL);
    }
    return status;
}

static troupe_status
spawn(troupe_system *system, const char *name, troupe_routing routing,
    troupe_ref *router)
{
    troupe_router_options options = TROUPE_INIT(troupe_router_options);

    options.name = name;
    options.type = &worker;
    options.routees = 2;
    options.routing = routing;
    options.key = routing == TROUPE_ROUTE_CONSISTENT_HASH ? customer_of : NULL;
    options.pick = routing == TROUPE_ROUTE_CUSTOM ? pick_odd : NULL;
    return troupe_system_spawn_router(system, &options, router);
}

static troupe_status
work(troupe_system *system)
{
    troupe_ref around, keyed, odd;
    troupe_status status =
        spawn(system, "around", TROUPE_ROUTE_ROUND_ROBIN, &around);

    if (status == TROUPE_OK) {
        status = spawn(system, "keyed", TROUPE_ROUTE_CONSISTENT_HASH, &keyed);
    }
    if (status == TROUPE_OK) {
        status = spawn(system, "odd", TROUPE_ROUTE_CUSTOM, &odd);
    }
    if (status != TROUPE_OK ||
        troupe_system_run(system, 0, NULL) != TROUPE_OK) {
        return status;
    }
    for (uint32_t i = 0; i < 4 && status == TROUPE_OK; i++) {
        status = send_job(system, around, i);
    }
    for (uint32_t i = 70; i < 73 && status == TROUPE_OK; i++) {
        status = send_job(system, keyed, i);
    }
    printf("odd job: %s\n", troupe_status_text(send_job(system, odd, 1)));
    printf("even job: %s\n", troupe_status_text(send_job(system, odd, 2)));
    if (status == TROUPE_OK) {
        status = troupe_router_resize(system, around, 3);
    }
    if (status == TROUPE_OK) {
        status = troupe_system_run(system, 0, NULL);
    }
    printf("around has %zu routees\n",
        troupe_router_routees(system, around, NULL, 0));
    return status == TROUPE_OK
               ? troupe_post_broadcast(system, around, &closing, NULL)
               : status;
}

int
main(void)
{
    troupe_system_options options = TROUPE_INIT(troupe_system_options);
    troupe_system *system;
    troupe_status status;

    options.flags = TROUPE_SYSTEM_DRIVEN;
    if (troupe_system_create(&options, &system) != TROUPE_OK) {
        return 1;
    }
    status = work(system);
    if (status == TROUPE_OK) {
        status = troupe_system_run(system, 0, NULL);
    }
    return troupe_system_destroy(system) == TROUPE_OK && status == TROUPE_OK
               ? 0
               : 1;
}
