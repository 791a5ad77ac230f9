/* SPDX-License-Identifier: MIT */
/*
 * A device that is not there at first. Its back-off supervisor tries again,
 * slower each time, and holds the jobs meanwhile; when the device fails for
 * good it is given up, and its owner hears of it.
 */
#include <troupe/troupe.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { CODE_NOT_THERE = 1, CODE_UNPLUGGED };

TROUPE_MSG_TYPE(job, uint32_t, 1); /* 0: somebody unplugs it */

/* --- the device ----------------------------------------------------------- */

/* It is found at the fourth attempt, and never again after that one. */
static troupe_status
device_start(troupe_self *self, void *state, const void *arg)
{
    static int attempts; /* for one device at a time */

    (void)state;
    (void)arg;
    if (++attempts != 4) {
        printf("attempt %d: not there\n", attempts);
        (void)troupe_fail(self, CODE_NOT_THERE);
        return TROUPE_E_FAILED;
    }
    printf("attempt %d: found\n", attempts);
    return TROUPE_OK;
}

static troupe_verdict
device_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    uint32_t number = *troupe_payload(msg, uint32_t);

    (void)state;
    if (number == 0) {
        puts("unplugged");
        return troupe_fail(self, CODE_UNPLUGGED);
    }
    printf("job %" PRIu32 " done\n", number);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type device_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "device",
    .receive = device_receive,
    .start = device_start,
};

/* --- its owner ------------------------------------------------------------ */

static troupe_status
owner_start(troupe_self *self, void *state, const void *arg)
{
    static const troupe_backoff pauses = {
        .size = TROUPE_OPTIONS(troupe_backoff),
        .min_ns = TROUPE_MS(5),
        .max_ns = TROUPE_MS(50),
    };
    static const troupe_backoff_options options = {
        .size = TROUPE_OPTIONS(troupe_backoff_options),
        .name = "device",
        .child = &device_type,
        .backoff = &pauses,
        .max_restarts = 5,
        .window_ns = TROUPE_S(60),
    };
    static const uint32_t jobs[] = {1, 2, 3, 0};
    troupe_ref device;
    troupe_status status = troupe_spawn_backoff(self, &options, &device);

    (void)state;
    (void)arg;
    if (status == TROUPE_OK) {
        status = troupe_watch(self, device);
    }
    for (int i = 0; i < 4 && status == TROUPE_OK; i++) {
        troupe_tell(self, device, &job, &jobs[i]); /* held until it lives */
    }
    return status;
}

static troupe_verdict
owner_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    if (troupe_msg_tag(msg) != TROUPE_TAG_DOWN) {
        return TROUPE_UNHANDLED;
    }
    printf("given up, code %" PRId32 "\n", troupe_down(msg)->code);
    troupe_system_request_stop(troupe_self_system(self));
    return TROUPE_CONTINUE;
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
    troupe_system *system = NULL;
    troupe_ref owner;
    char why[160];
    troupe_status status = troupe_system_create(NULL, &system);

    if (status == TROUPE_OK) {
        status = troupe_system_spawn(system, &owner_type, NULL, &owner);
    }
    if (status == TROUPE_OK) {
        status = troupe_system_wait(system, TROUPE_FOREVER);
    } else {
        troupe_explain(status, why, sizeof why);
        fprintf(stderr, "flaky_device: %s\n", why);
    }
    troupe_system_destroy(system);
    return status == TROUPE_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
