/* SPDX-License-Identifier: MIT */
/* A child that keeps failing comes back slower each time, and then not at all.
 */
#include <troupe/troupe.h>

enum { TAG_WORK = 1 };

TROUPE_MSG_TYPE_EMPTY(work, TAG_WORK);

static troupe_status
flaky_start(troupe_self *self, void *state, const void *arg)
{
    (void)self;
    (void)state;
    (void)arg;
    return TROUPE_E_SYSTEM; /* the device is not there */
}

static troupe_verdict
flaky_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)self;
    (void)state;
    (void)msg;
    return TROUPE_CONTINUE;
}

static const troupe_actor_type flaky_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "flaky",
    .receive = flaky_receive,
    .start = flaky_start,
};

static troupe_verdict
owner_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    if (troupe_msg_tag(msg) != TROUPE_TAG_DOWN) {
        return TROUPE_UNHANDLED;
    }
    troupe_log(self, TROUPE_LOG_ERROR, "device given up, code %d",
        (int)troupe_down(msg)->code);
    troupe_system_request_stop(troupe_self_system(self));
    return TROUPE_CONTINUE;
}

static troupe_status
owner_start(troupe_self *self, void *state, const void *arg)
{
    static const troupe_backoff policy = {
        .size = TROUPE_OPTIONS(troupe_backoff),
        .min_ns = TROUPE_MS(200),
        .max_ns = TROUPE_S(10),
    };
    static const troupe_backoff_options options = {
        .size = TROUPE_OPTIONS(troupe_backoff_options),
        .name = "device",
        .child = &flaky_type,
        .backoff = &policy,
        .max_restarts = 5,
        .window_ns = TROUPE_S(60),
    };
    troupe_ref device;
    troupe_status status = troupe_spawn_backoff(self, &options, &device);

    (void)state;
    (void)arg;
    if (status == TROUPE_OK) {
        status = troupe_watch(self, device);
        troupe_tell(self, device, &work, NULL); /* held until it lives */
    }
    return status;
}

static const troupe_actor_type owner_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "owner",
    .receive = owner_receive,
    .start = owner_start,
};

int
main(void)
{
    troupe_system *system;
    troupe_ref owner;

    if (troupe_system_create(NULL, &system) != TROUPE_OK ||
        troupe_system_spawn(system, &owner_type, NULL, &owner) != TROUPE_OK ||
        troupe_system_wait(system, TROUPE_FOREVER) != TROUPE_OK) {
        return 1;
    }
    return troupe_system_destroy(system) == TROUPE_OK ? 0 : 1;
}
