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

/*
 * The same for who asks so often that 25 ns count: one thread's, zeroed at
 * first. The processor's counter tells how long ago the real clock was read; a
 * reading is used for 2^18 ticks only, 0.1 ms, so that a rate that was measured
 * between two of them is good enough, and a counter that jumps (another
 * processor) makes it read again. Off by less than a microsecond; it may step
 * back by that.
 */
struct trp_quick_clock {
    uint64_t ticks; /* of the counter, when ... */
    uint64_t ns;    /* ... the clock was read */
    uint64_t rate;  /* ns per tick, times 2^32; 0 = not known yet */
};

#define TRP_QUICK_SLACK_NS 1000u

/* 0: there is no such counter. */
static inline uint64_t
trp_clock_ticks(void)
{
#if defined(TRP_INTERLEAVE)
    return 0; /* time is the model's */
#elif defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;

    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return 0;
#endif
}

uint64_t trp_clock_quick_slow(struct trp_quick_clock *clock, uint64_t ticks);

static inline uint64_t
trp_clock_quick(struct trp_quick_clock *clock)
{
    uint64_t ticks = trp_clock_ticks();
    uint64_t ago = ticks - clock->ticks;
    uint64_t ago_ns = (ago * clock->rate) >> 32;

    /* In this range the product is right: a rate is below 2^40. */
    if (__builtin_expect(ago < UINT64_C(1) << 18, 1) &&
        __builtin_expect(clock->rate != 0, 1)) {
        return clock->ns + ago_ns;
    }
    return trp_clock_quick_slow(clock, ticks);
}

/* now + delay, without wrapping. */
static inline uint64_t
trp_clock_after(uint64_t now_ns, uint64_t delay_ns)
{
    return delay_ns > UINT64_MAX - now_ns ? UINT64_MAX : now_ns + delay_ns;
}

#endif /* TRP_BASE_CLOCK_H */
