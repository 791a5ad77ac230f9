/* SPDX-License-Identifier: MIT */
#include "os/notify.h"

#include <errno.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

bool
trp_notify_open(struct trp_notify *notify)
{
    notify->fd_plus_1 = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) + 1;
    return notify->fd_plus_1 != 0;
}

void
trp_notify_close(struct trp_notify *notify)
{
    if (notify->fd_plus_1 != 0) {
        close(notify->fd_plus_1 - 1);
        notify->fd_plus_1 = 0;
    }
}

void
trp_notify_raise(struct trp_notify *notify)
{
    const uint64_t one = 1;

    /* EAGAIN means 2^64 - 2 tokens: readable, which is all that is asked. */
    while (
        write(trp_notify_fd(notify), &one, sizeof one) < 0 && errno == EINTR) {
    }
}

bool
trp_notify_clear(struct trp_notify *notify)
{
    uint64_t tokens;
    ssize_t got;

    do {
        got = read(trp_notify_fd(notify), &tokens, sizeof tokens);
    } while (got < 0 && errno == EINTR);
    return got == (ssize_t)sizeof tokens;
}
