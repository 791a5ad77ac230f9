/* SPDX-License-Identifier: MIT */
#ifndef TRP_BASE_CLOCK_H
#define TRP_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds on the monotonic clock. Any thread; about 25 ns. */
static inline uint64_t
trp_clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* now + delay, without wrapping. */
static inline uint64_t
trp_clock_after(uint64_t now_ns, uint64_t delay_ns)
{
    return delay_ns > UINT64_MAX - now_ns ? UINT64_MAX : now_ns + delay_ns;
}

#endif /* TRP_BASE_CLOCK_H */
