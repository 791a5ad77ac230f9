/* SPDX-License-Identifier: MIT */
#include <troupe/stop.h>

#include "actor/watch.h"
#include "base/clock.h"
#include "system/port.h"
#include "system/system.h"

#include <limits.h>
#include <poll.h>

/* troupe_stop_wait(): a port that watches, made of public parts. */

/* Notices taken now; a driven system is run for more. */
static size_t
take_notices(troupe_system *system, troupe_port *port)
{
    size_t taken = 0;

    if (system->core.sched.driven) {
        trp_system_turn(system, 0);
    }
    while (troupe_port_next(port) != NULL) {
        taken++;
    }
    return taken;
}

/* False: the deadline has passed, or nothing can run any more. */
static bool
await_readable(troupe_system *system, troupe_port *port, uint64_t deadline_ns)
{
    struct pollfd fd = {.fd = troupe_port_fd(port), .events = POLLIN};
    uint64_t now_ns = trp_clock_ns();
    uint64_t left_ms;

    if (system->core.sched.driven || now_ns >= deadline_ns) {
        return false;
    }
    left_ms = (deadline_ns - now_ns + 999999) / 1000000;
    poll(&fd, 1, left_ms > INT_MAX ? INT_MAX : (int)left_ms);
    return true;
}

static troupe_status
await_notices(
    troupe_system *system, troupe_port *port, size_t count, uint64_t timeout_ns)
{
    uint64_t deadline_ns = trp_clock_after(trp_clock_ns(), timeout_ns);

    for (;;) {
        size_t taken = take_notices(system, port);

        count -= taken < count ? taken : count;
        if (count == 0) {
            return TROUPE_OK;
        }
        if (taken == 0 && !await_readable(system, port, deadline_ns)) {
            return TROUPE_E_TIMEOUT;
        }
    }
}

/* Tells all of them to stop and listens for their ends. */
static troupe_status
stop_and_watch(troupe_system *system, troupe_port *port,
    const troupe_ref *actors, size_t count, size_t *watched)
{
    for (size_t i = 0; i < count; i++) {
        troupe_status status = troupe_post_stop(system, actors[i]);
        bool added = false;

        if (status == TROUPE_OK) {
            status = trp_watch_add(
                &system->core, NULL, actors[i], troupe_port_ref(port), &added);
        }
        if (status != TROUPE_OK) {
            return status;
        }
        *watched += added;
    }
    return TROUPE_OK;
}

troupe_status
troupe_stop_wait(troupe_system *system, const troupe_ref *actors, size_t count,
    uint64_t timeout_ns)
{
    static const char call[] = "troupe_stop_wait";
    troupe_status status = trp_system_check_outside(system, call);
    troupe_port *port = NULL;
    size_t watched = 0;

    if (status == TROUPE_OK && actors == NULL && count != 0) {
        status = trp_refuse(
            TROUPE_E_INVALID, call, "actors", "must not be NULL", "NULL");
    }
    if (status != TROUPE_OK || count == 0) {
        return status;
    }
    status = trp_port_open(system, NULL, call, &port);
    if (status != TROUPE_OK) {
        return status;
    }
    status = stop_and_watch(system, port, actors, count, &watched);
    if (status == TROUPE_OK) {
        status = await_notices(system, port, watched, timeout_ns);
    }
    for (size_t i = 0; i < count && status != TROUPE_OK; i++) {
        trp_watch_remove(&system->core, actors[i], troupe_port_ref(port));
        if (status == TROUPE_E_TIMEOUT) {
            (void)troupe_post_stop_now(system, actors[i]);
        }
    }
    (void)take_notices(system, port);
    troupe_port_close(port);
    return status;
}
