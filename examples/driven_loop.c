/* SPDX-License-Identifier: MIT */
/*
 * No threads at all: the program's own poll() loop runs the actors, between
 * its other descriptors. Here that is a timer which ticks five times.
 */
#include <troupe/troupe.h>

#include <poll.h>
#include <stdio.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { TAG_TICK = 1, TICKS = 5 };

TROUPE_MSG_TYPE_EMPTY(tick, TAG_TICK);

static troupe_verdict
ticker_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    int *seen = state;

    if (!troupe_msg_is(msg, &tick)) {
        return TROUPE_UNHANDLED;
    }
    printf("tick %d\n", ++*seen);
    if (*seen == TICKS) {
        troupe_system_request_stop(troupe_self_system(self));
    }
    return TROUPE_CONTINUE;
}

static void
ticker_stop(troupe_self *self, void *state, const troupe_exit *why)
{
    (void)self;
    (void)state;
    (void)why;
    puts("stopped");
}

static const troupe_actor_type ticker_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "ticker",
    .state_bytes = sizeof(int),
    .receive = ticker_receive,
    .stop = ticker_stop,
};

static void
on_timer(troupe_system *system, int timer, troupe_ref ticker)
{
    uint64_t times;

    if (read(timer, &times, sizeof times) == (ssize_t)sizeof times) {
        troupe_post_tell(system, ticker, &tick, NULL);
    }
}

/*
 * The system's descriptor is readable while an actor can run, and once a time
 * has come for which one waits, so poll() needs no time-out. At most 100 turns
 * at a time keep the loop responsive.
 */
static void
loop(troupe_system *system, int timer, troupe_ref ticker)
{
    struct pollfd fds[] = {
        {.fd = troupe_system_fd(system), .events = POLLIN},
        {.fd = timer, .events = POLLIN},
    };

    while (troupe_system_run(system, 100, NULL) == TROUPE_OK) {
        if (poll(fds, 2, -1) > 0 && (fds[1].revents & POLLIN) != 0) {
            on_timer(system, timer, ticker);
        }
    }
}

int
main(void)
{
    const troupe_system_options options = {
        .size = TROUPE_OPTIONS(troupe_system_options),
        .name = "embedded",
        .flags = TROUPE_SYSTEM_DRIVEN | TROUPE_SYSTEM_IGNORE_ENV,
    };
    const struct itimerspec period = {{0, 10000000}, {0, 10000000}};
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    troupe_system *system;
    troupe_ref ticker;
    troupe_status status = troupe_system_create(&options, &system);

    if (status != TROUPE_OK) {
        troupe_error error = troupe_last_error();

        fprintf(stderr, "%s %s: %s\n", error.call, error.option, error.rule);
        return 1;
    }
    if (troupe_system_spawn(system, &ticker_type, NULL, &ticker) != TROUPE_OK ||
        timerfd_settime(timer, 0, &period, NULL) != 0) {
        return 1;
    }
    loop(system, timer, ticker);
    close(timer);
    return troupe_system_destroy(system) == TROUPE_OK ? 0 : 1;
}
