/* SPDX-License-Identifier: MIT */
#include "support/await.h"

#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

uint64_t
test_clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

bool
test_await(bool (*ready)(void *user), void *user)
{
    uint64_t end_ns = test_clock_ns() + TEST_DEADLINE_NS;

    while (!ready(user)) {
        if (test_clock_ns() >= end_ns) {
            return ready(user);
        }
        sched_yield();
    }
    return true;
}

bool
test_is_readable(int fd)
{
    struct pollfd ready = {fd, POLLIN, 0};

    return poll(&ready, 1, 0) == 1;
}

struct level {
    _Atomic uint64_t *number;
    uint64_t least;
};

static bool
is_reached(void *user)
{
    const struct level *level = user;

    return atomic_load(level->number) >= level->least;
}

bool
test_await_at_least(_Atomic uint64_t *number, uint64_t least)
{
    struct level level = {number, least};

    return test_await(is_reached, &level);
}
