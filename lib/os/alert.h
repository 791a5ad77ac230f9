/* SPDX-License-Identifier: MIT */
#ifndef TRP_OS_ALERT_H
#define TRP_OS_ALERT_H

/*
 * What a loop of somebody else polls: one descriptor that is readable while
 * there is a token, and once a time has come.
 *
 *     descriptor (epoll) --+-- os/notify.h: tokens, any thread
 *                          `-- timer: one thread arms it
 *
 * The timer is never read: until it is armed anew it stays as readable as the
 * clock says, so arming it for the time that it has costs no system call.
 * Zeroed = not open; descriptors are stored as fd + 1.
 */

#include "os/notify.h"

#include <stdint.h>

#define TRP_ALERT_NEVER UINT64_MAX

struct trp_alert {
    struct trp_notify notify;
    int timer_plus_1;
    int fd_plus_1;
    uint64_t armed_ns; /* who arms */
};

/* False: errno says why; the rest can be given to close. */
bool trp_alert_open(struct trp_alert *alert);
void trp_alert_close(struct trp_alert *alert);

static inline int
trp_alert_fd(const struct trp_alert *alert)
{
    return alert->fd_plus_1 - 1;
}

/* Readable from then on, on the monotonic clock; NEVER: not for a time. */
void trp_alert_arm(struct trp_alert *alert, uint64_t due_ns);

#endif /* TRP_OS_ALERT_H */
