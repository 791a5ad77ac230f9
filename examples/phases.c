/* SPDX-License-Identifier: MIT */
/*
 * An ordered stop: a phase of one's own between the built-in ones, tasks that
 * use the system, a reason. SIGTERM would lead to the same request.
 */
#include <troupe/troupe.h>

#include <stdio.h>

enum { TAG_ORDER = 1 };

TROUPE_MSG_TYPE(order, int, TAG_ORDER);

static troupe_verdict
shop_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)self;
    (void)state;
    if (!troupe_msg_is(msg, &order)) {
        return TROUPE_UNHANDLED;
    }
    printf("order %d\n", *troupe_payload(msg, int));
    return TROUPE_CONTINUE;
}

static const troupe_actor_type shop_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "shop",
    .receive = shop_receive,
};

/* Here a server would close its listening socket. */
static troupe_status
close_door(troupe_system *system, const char *reason, void *user)
{
    const troupe_ref *shop = user;
    const int last = 1;

    printf("door closed: %s\n", reason);
    return troupe_post(system, *shop, &order, &last);
}

/* Until everybody in the shop has been served: a task may wait. */
static troupe_status
serve_the_rest(troupe_system *system, const char *reason, void *user)
{
    (void)reason;
    return troupe_stop_wait(system, user, 1, TROUPE_S(2));
}

static troupe_status
count_the_money(troupe_system *system, const char *reason, void *user)
{
    (void)system;
    (void)reason;
    (void)user;
    puts("money counted");
    return TROUPE_OK;
}

static troupe_status
plan_the_evening(troupe_system *system, troupe_ref *shop)
{
    static const char *const after[] = {
        TROUPE_PHASE_SERVICE_REQUESTS_DONE, NULL};
    const troupe_phase_options counting = {
        .size = TROUPE_OPTIONS(troupe_phase_options),
        .name = "counting",
        .after = after,
        .timeout_ns = TROUPE_S(1),
    };
    troupe_status status = troupe_shutdown_add(
        system, TROUPE_PHASE_SERVICE_UNBIND, "door", close_door, shop);

    if (status == TROUPE_OK) {
        status = troupe_shutdown_add(system, TROUPE_PHASE_SERVICE_REQUESTS_DONE,
            "customers", serve_the_rest, shop);
    }
    if (status == TROUPE_OK) {
        status = troupe_shutdown_add_phase(system, &counting);
    }
    if (status == TROUPE_OK) {
        status = troupe_shutdown_add(
            system, "counting", "till", count_the_money, NULL);
    }
    return status;
}

int
main(void)
{
    troupe_system *system;
    troupe_ref shop;

    if (troupe_system_create(NULL, &system) != TROUPE_OK ||
        troupe_system_spawn(system, &shop_type, NULL, &shop) != TROUPE_OK ||
        plan_the_evening(system, &shop) != TROUPE_OK) {
        return 1;
    }
    troupe_shutdown_request(system, "eight o'clock");
    return troupe_system_destroy(system) == TROUPE_OK ? 0 : 1;
}
