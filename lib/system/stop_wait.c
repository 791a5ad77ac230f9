/* SPDX-License-Identifier: MIT */
#include <troupe/stop.h>

#include "actor/stop.h"
#include "actor/watch.h"
#include "base/clock.h"
#include "system/port.h"
#include "system/system.h"

#include <poll.h>

/* troupe_stop_wait(): a port that watches. */

/*
 * A notice that there was no memory for never comes, so this often somebody
 * looks whether anyone is left.
 */
#define LOOK_MS 1000

struct wait {
    troupe_system *system;
    troupe_port *port;
    const troupe_ref *actors;
    size_t count;
};

/* True: some have come; a driven system is run for them. */
static bool
take_notices(const struct wait *wait)
{
    bool some = false;

    if (wait->system->core.sched.driven) {
        trp_system_turn(wait->system, 0);
    }
    while (troupe_port_next(wait->port) != NULL) {
        some = true;
    }
    return some;
}

static bool
is_anyone_left(const struct wait *wait)
{
    for (size_t i = 0; i < wait->count; i++) {
        if (trp_ref_lives(&wait->system->core, wait->actors[i])) {
            return true;
        }
    }
    return false;
}

/* False: the deadline has passed, or nothing can run any more. */
static bool
await_readable(const struct wait *wait, uint64_t deadline_ns)
{
    struct pollfd fd = {.fd = troupe_port_fd(wait->port), .events = POLLIN};
    uint64_t now_ns = trp_clock_ns();
    uint64_t left_ms;

    if (wait->system->core.sched.driven || now_ns >= deadline_ns) {
        return false;
    }
    left_ms = (deadline_ns - now_ns + 999999) / 1000000;
    poll(&fd, 1, left_ms > LOOK_MS ? LOOK_MS : (int)left_ms);
    return true;
}

static troupe_status
await_notices(const struct wait *wait, uint64_t timeout_ns)
{
    uint64_t deadline_ns = trp_clock_after(trp_clock_ns(), timeout_ns);

    for (;;) {
        bool some = take_notices(wait);

        if (wait->port->watching.count == 0 ||
            (!some && !is_anyone_left(wait))) {
            return TROUPE_OK;
        }
        if (!some && !await_readable(wait, deadline_ns)) {
            return TROUPE_E_TIMEOUT;
        }
    }
}

/* A mistake in the list is found before anybody is told to stop. */
static troupe_status
check_all(const struct wait *wait, const char *call)
{
    troupe_status status = TROUPE_OK;

    for (size_t i = 0; i < wait->count && status == TROUPE_OK; i++) {
        status = trp_stop_check(&wait->system->core, wait->actors[i], call);
    }
    return status;
}

/* Listens for the ends of all of them, then tells them to stop. */
static troupe_status
watch_and_stop(const struct wait *wait)
{
    troupe_status status = TROUPE_OK;

    for (size_t i = 0; i < wait->count && status == TROUPE_OK; i++) {
        status = troupe_port_watch(wait->port, wait->actors[i]);
    }
    for (size_t i = 0; i < wait->count && status == TROUPE_OK; i++) {
        status = troupe_post_stop(wait->system, wait->actors[i]);
    }
    return status;
}

troupe_status
troupe_stop_wait(troupe_system *system, const troupe_ref *actors, size_t count,
    uint64_t timeout_ns)
{
    static const char call[] = "troupe_stop_wait";
    troupe_status status = trp_system_check_outside(system, call);
    struct wait wait = {.system = system, .actors = actors, .count = count};

    if (status == TROUPE_OK && actors == NULL && count != 0) {
        status = trp_refuse(
            TROUPE_E_INVALID, call, "actors", "must not be NULL", "NULL");
    }
    if (status == TROUPE_OK && count != 0) {
        status = check_all(&wait, call);
    }
    if (status != TROUPE_OK || count == 0) {
        return status;
    }
    status = trp_port_open(system, NULL, call, &wait.port);
    if (status != TROUPE_OK) {
        return status;
    }
    status = watch_and_stop(&wait);
    if (status == TROUPE_OK) {
        status = await_notices(&wait, timeout_ns);
    }
    /* Who ends later than in time tells nobody. */
    trp_watch_leave(&system->core, &wait.port->watching);
    for (size_t i = 0; i < count && status == TROUPE_E_TIMEOUT; i++) {
        (void)troupe_post_stop_now(system, actors[i]);
    }
    (void)take_notices(&wait);
    troupe_port_close(wait.port);
    return status;
}
