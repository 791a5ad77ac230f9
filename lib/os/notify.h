/* SPDX-License-Identifier: MIT */
#ifndef TRP_OS_NOTIFY_H
#define TRP_OS_NOTIFY_H

/*
 * A descriptor that is readable while it holds a token. Zeroed = not open:
 * the descriptor is stored as fd + 1.
 */

#include <stdbool.h>

struct trp_notify {
    int fd_plus_1;
};

/* False: errno says why. */
bool trp_notify_open(struct trp_notify *notify);
void trp_notify_close(struct trp_notify *notify);

static inline int
trp_notify_fd(const struct trp_notify *notify)
{
    return notify->fd_plus_1 - 1;
}

/* Puts a token in. Any thread; never blocks. */
void trp_notify_raise(struct trp_notify *notify);
/* Takes all tokens out; false when there was none. */
bool trp_notify_clear(struct trp_notify *notify);

#endif /* TRP_OS_NOTIFY_H */
