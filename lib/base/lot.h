/* SPDX-License-Identifier: MIT */
#ifndef TRP_BASE_LOT_H
#define TRP_BASE_LOT_H

/*
 * Draws some of many events to be measured, so that measuring costs little: of
 * those that come quickly one of 64 on the average, at random, so that no
 * pattern of them is hit or missed each time; of those that come slower than
 * one in 10 us all of them, for then it costs less than a hundredth.
 *
 * Who was drawn stands for all since the one before: `weight` of them, with
 * itself. So numbers that are multiplied by their weights add up to what all
 * of them would, but for those since the last one drawn, fewer than 128.
 *
 * One thread; zeroed, it draws the first.
 */

#include <stdbool.h>
#include <stdint.h>

#define TRP_LOT_MOST 127u /* between two; their mean is 64 */
#define TRP_LOT_SLOW_NS 10000u

struct trp_lot {
    uint32_t left; /* until the next one is drawn */
    uint32_t gap;  /* what it was at first */
    uint64_t at_ns;
    uint32_t seed;
    uint32_t is_owed; /* drawn, and to be weighed with another event */
};

/* One more event. If true trp_lot_weigh() comes next. */
static inline bool
trp_lot_draw(struct trp_lot *lot)
{
    if (lot->left > 1) {
        lot->left--;
        return false;
    }
    return true;
}

/* The weight of the one that was drawn, at this time. */
static inline uint32_t
trp_lot_weigh(struct trp_lot *lot, uint64_t now_ns)
{
    uint32_t weight = lot->gap != 0 ? lot->gap : 1;
    uint64_t since_ns = now_ns - lot->at_ns;

    if (lot->at_ns == 0 || since_ns >= (uint64_t)weight * TRP_LOT_SLOW_NS) {
        lot->gap = 1;
    } else {
        /* Of the usual linear congruence the upper bits are the good ones. */
        lot->seed = lot->seed * UINT32_C(1664525) + UINT32_C(1013904223);
        lot->gap = (lot->seed >> 8) % TRP_LOT_MOST + 1;
    }
    lot->left = lot->gap;
    lot->is_owed = 0;
    lot->at_ns = now_ns;
    return weight;
}

#endif /* TRP_BASE_LOT_H */
