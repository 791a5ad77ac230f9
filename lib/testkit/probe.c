/* SPDX-License-Identifier: MIT */
#include <troupe/testkit.h>
#include <troupe/timer.h>

#include <troupe/port.h>

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <time.h>

/*
 * A port and a way to wait. A driven system is run until it has nothing left
 * to do; one with a seed then gets its clock moved. A system with workers is
 * waited for on the descriptor of the port.
 */

struct troupe_probe {
    troupe_system *system;
    troupe_port *port;
    const troupe_msg *kept; /* the port's: silent() saw it; or NULL */
    troupe_ref sender;      /* of the message returned last */
};

troupe_status
troupe_probe_open(troupe_system *system, const char *name, troupe_probe **probe)
{
    struct troupe_probe *new_probe;
    troupe_status status;

    if (probe == NULL) {
        return TROUPE_E_INVALID;
    }
    new_probe = calloc(1, sizeof *new_probe);
    if (new_probe == NULL) {
        return TROUPE_E_NOMEM;
    }
    new_probe->system = system;
    status = troupe_port_open(system, name, &new_probe->port);
    if (status != TROUPE_OK) {
        free(new_probe);
        return status;
    }
    *probe = new_probe;
    return TROUPE_OK;
}

void
troupe_probe_close(troupe_probe *probe)
{
    if (probe == NULL) {
        return;
    }
    troupe_port_close(probe->port);
    free(probe);
}

troupe_ref
troupe_probe_ref(const troupe_probe *probe)
{
    return probe != NULL ? troupe_port_ref(probe->port) : TROUPE_NONE;
}

/* --- waiting -------------------------------------------------------------- */

static uint64_t
clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return TROUPE_S(now.tv_sec) + TROUPE_CAST(uint64_t, now.tv_nsec);
}

static uint64_t
after(uint64_t now_ns, uint64_t delay_ns)
{
    return delay_ns > UINT64_MAX - now_ns ? UINT64_MAX : now_ns + delay_ns;
}

/* Runs turns until the port has a message; NULL when nothing can run. */
static const troupe_msg *
run_until_message(troupe_probe *probe, troupe_status *status)
{
    for (;;) {
        const troupe_msg *msg = troupe_port_next(probe->port);
        troupe_run run = {0, 0, 0};

        if (msg != NULL) {
            return msg;
        }
        *status = troupe_system_run(probe->system, 1, &run);
        if (*status != TROUPE_OK || run.turns == 0) {
            return troupe_port_next(probe->port);
        }
    }
}

/* A timer may be due on the way, so the clock goes from one to the next. */
static const troupe_msg *
run_and_advance(troupe_probe *probe, uint64_t within_ns, troupe_status *status)
{
    uint64_t end_ns = after(troupe_now_ns(probe->system), within_ns);

    for (;;) {
        const troupe_msg *msg = run_until_message(probe, status);
        uint64_t now_ns = troupe_now_ns(probe->system);
        troupe_run run = {0, 0, TROUPE_FOREVER};
        uint64_t step_ns;

        if (msg != NULL || *status != TROUPE_OK || now_ns >= end_ns) {
            return msg;
        }
        *status = troupe_system_run(probe->system, 0, &run);
        if (*status != TROUPE_OK ||
            (end_ns == UINT64_MAX && run.next_timer_ns == TROUPE_FOREVER)) {
            return troupe_port_next(probe->port);
        }
        step_ns = end_ns - now_ns;
        if (run.next_timer_ns < step_ns) {
            step_ns = run.next_timer_ns > 0 ? run.next_timer_ns : 1;
        }
        *status = troupe_system_advance(probe->system, step_ns);
        if (*status != TROUPE_OK) {
            return troupe_port_next(probe->port);
        }
    }
}

static int
timeout_ms(uint64_t end_ns)
{
    uint64_t now_ns = clock_ns();
    uint64_t left_ms;

    if (end_ns == UINT64_MAX) {
        return -1;
    }
    left_ms = end_ns > now_ns ? (end_ns - now_ns - 1) / TROUPE_MS(1) + 1 : 0;
    return left_ms < INT_MAX ? (int)left_ms : INT_MAX;
}

/* The descriptor may show readable once too often, so it is a loop. */
static const troupe_msg *
poll_until_message(troupe_probe *probe, uint64_t within_ns)
{
    uint64_t end_ns = after(clock_ns(), within_ns);
    struct pollfd ready = {troupe_port_fd(probe->port), POLLIN, 0};

    for (;;) {
        const troupe_msg *msg = troupe_port_next(probe->port);
        int wait_ms;

        if (msg != NULL) {
            return msg;
        }
        wait_ms = timeout_ms(end_ns);
        if (wait_ms == 0 || (poll(&ready, 1, wait_ms) < 0 && errno != EINTR)) {
            return troupe_port_next(probe->port);
        }
    }
}

static const troupe_msg *
wait_for_message(troupe_probe *probe, uint64_t within_ns)
{
    troupe_status status = TROUPE_OK;
    const troupe_msg *msg;

    if (troupe_system_fd(probe->system) < 0 &&
        troupe_system_seed(probe->system) == 0) {
        return poll_until_message(probe, within_ns);
    }
    if (troupe_system_seed(probe->system) == 0) {
        return run_until_message(probe, &status);
    }
    msg = run_and_advance(probe, within_ns, &status);
    /* TROUPE_E_STATE: the seed is that of a system with workers. */
    return status == TROUPE_E_STATE ? poll_until_message(probe, within_ns)
                                    : msg;
}

/* --- reading -------------------------------------------------------------- */

static const troupe_msg *
next_message(troupe_probe *probe, uint64_t within_ns)
{
    const troupe_msg *msg = probe->kept;

    probe->kept = NULL;
    if (msg == NULL) {
        msg = wait_for_message(probe, within_ns);
    }
    probe->sender = msg != NULL ? msg->sender : TROUPE_NONE;
    return msg;
}

const troupe_msg *
troupe_probe_next(troupe_probe *probe, uint64_t within_ns)
{
    return probe != NULL ? next_message(probe, within_ns) : NULL;
}

/* What is left of the time is measured on the clock the system lives by. */
const troupe_msg *
troupe_probe_fish(troupe_probe *probe, troupe_tag tag, uint64_t within_ns)
{
    uint64_t end_ns;
    const troupe_msg *msg;

    if (probe == NULL) {
        return NULL;
    }
    end_ns = after(troupe_now_ns(probe->system), within_ns);
    do {
        uint64_t now_ns = troupe_now_ns(probe->system);
        uint64_t left_ns = end_ns > now_ns ? end_ns - now_ns : 0;

        msg = next_message(
            probe, end_ns == UINT64_MAX ? TROUPE_FOREVER : left_ns);
    } while (msg != NULL && troupe_msg_tag(msg) != tag);
    return msg;
}

bool
troupe_probe_silent(troupe_probe *probe, uint64_t for_ns)
{
    if (probe == NULL) {
        return true;
    }
    if (probe->kept == NULL) { /* the test may want to see it */
        probe->kept = wait_for_message(probe, for_ns);
    }
    return probe->kept == NULL;
}

/* --- sending -------------------------------------------------------------- */

troupe_status
troupe_probe_send(troupe_probe *probe, troupe_ref to,
    const troupe_msg_type *type, const void *payload)
{
    return probe != NULL ? troupe_port_send(probe->port, to, type, payload)
                         : TROUPE_E_INVALID;
}

void
troupe_probe_reply(
    troupe_probe *probe, const troupe_msg_type *type, const void *payload)
{
    if (probe != NULL) {
        troupe_port_tell(probe->port, probe->sender, type, payload);
    }
}

troupe_status
troupe_probe_watch(troupe_probe *probe, troupe_ref whom)
{
    return probe != NULL ? troupe_port_watch(probe->port, whom)
                         : TROUPE_E_INVALID;
}
