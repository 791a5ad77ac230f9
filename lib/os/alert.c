/* SPDX-License-Identifier: MIT */
#include "os/alert.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

static bool
watch(int fd, int what)
{
    struct epoll_event event = {.events = EPOLLIN};

    return epoll_ctl(fd, EPOLL_CTL_ADD, what, &event) == 0;
}

bool
trp_alert_open(struct trp_alert *alert)
{
    int fd;

    alert->armed_ns = TRP_ALERT_NEVER;
    if (!trp_notify_open(&alert->notify)) {
        return false;
    }
    alert->timer_plus_1 =
        timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK) + 1;
    if (alert->timer_plus_1 == 0) {
        return false;
    }
    fd = epoll_create1(EPOLL_CLOEXEC);
    alert->fd_plus_1 = fd + 1;
    return fd >= 0 && watch(fd, trp_notify_fd(&alert->notify)) &&
           watch(fd, alert->timer_plus_1 - 1);
}

static void
close_one(int *fd_plus_1)
{
    if (*fd_plus_1 != 0) {
        close(*fd_plus_1 - 1);
        *fd_plus_1 = 0;
    }
}

void
trp_alert_close(struct trp_alert *alert)
{
    close_one(&alert->fd_plus_1);
    close_one(&alert->timer_plus_1);
    trp_notify_close(&alert->notify);
}

void
trp_alert_arm(struct trp_alert *alert, uint64_t due_ns)
{
    struct itimerspec when = {{0, 0}, {0, 0}};

    if (due_ns == alert->armed_ns) {
        return;
    }
    alert->armed_ns = due_ns;
    if (due_ns != TRP_ALERT_NEVER) {
        when.it_value.tv_sec = (time_t)(due_ns / UINT64_C(1000000000));
        when.it_value.tv_nsec = (long)(due_ns % UINT64_C(1000000000));
        when.it_value.tv_nsec |= due_ns == 0; /* all 0 would disarm it */
    }
    (void)timerfd_settime(
        alert->timer_plus_1 - 1, TFD_TIMER_ABSTIME, &when, NULL);
}
