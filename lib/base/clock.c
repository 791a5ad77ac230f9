/* SPDX-License-Identifier: MIT */
#include "base/clock.h"

/* Between such readings a rate is measured. */
#define LEAST_NS 10000u
#define MOST_NS 1000000000u

uint64_t
trp_clock_quick_slow(struct trp_quick_clock *clock, uint64_t ticks)
{
    uint64_t now_ns = trp_clock_ns();
    uint64_t since_ns = now_ns - clock->ns;
    uint64_t since = ticks - clock->ticks;

    if (ticks == 0) {
        return now_ns;
    }
    if (clock->ns == 0 || since_ns > MOST_NS || since > UINT64_C(1) << 40) {
        clock->rate = 0; /* too long ago, or backwards: begin anew */
    } else if (since_ns < LEAST_NS || since == 0) {
        return now_ns;
    } else {
        clock->rate = (since_ns << 32) / since;
    }
    clock->ticks = ticks;
    clock->ns = now_ns;
    return now_ns;
}
