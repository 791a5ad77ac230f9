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
    size_t notices; /* that are still to come */
};

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
await_notices(struct wait *wait, uint64_t timeout_ns)
{
    uint64_t deadline_ns = trp_clock_after(trp_clock_ns(), timeout_ns);

    for (;;) {
        size_t taken = take_notices(wait->system, wait->port);

        wait->notices -= taken < wait->notices ? taken : wait->notices;
        if (wait->notices == 0 || (taken == 0 && !is_anyone_left(wait))) {
            return TROUPE_OK;
        }
        if (taken == 0 && !await_readable(wait, deadline_ns)) {
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
watch_and_stop(struct wait *wait)
{
    troupe_status status = TROUPE_OK;

    for (size_t i = 0; i < wait->count && status == TROUPE_OK; i++) {
        bool added = false;

        status = trp_watch_add(&wait->system->core, NULL, wait->actors[i],
            troupe_port_ref(wait->port), &added);
        wait->notices += added && status == TROUPE_OK ? 1 : 0;
    }
    for (size_t i = 0; i < wait->count && status == TROUPE_OK; i++) {
        status = troupe_post_stop(wait->system, wait->actors[i]);
    }
    return status;
}

static void
give_up(const struct wait *wait, bool stop_now)
{
    for (size_t i = 0; i < wait->count; i++) {
        trp_watch_remove(
            &wait->system->core, wait->actors[i], troupe_port_ref(wait->port));
        if (stop_now) {
            (void)troupe_post_stop_now(wait->system, wait->actors[i]);
        }
    }
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
    if (status != TROUPE_OK) {
        give_up(&wait, status == TROUPE_E_TIMEOUT);
    }
    (void)take_notices(system, wait.port);
    troupe_port_close(wait.port);
    return status;
}
