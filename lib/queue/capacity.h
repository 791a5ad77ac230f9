/* SPDX-License-Identifier: MIT */
#ifndef TRP_QUEUE_CAPACITY_H
#define TRP_QUEUE_CAPACITY_H

/*
 * How large the array of a queue behind a lock is: nothing until the first
 * push, then 8 entries, doubled when full, halved when a quarter full. Up to 64
 * entries it is kept, empty or not: a mailbox that fills and empties a little
 * all day does not allocate all day. A larger one that is empty goes.
 *
 * After a doubling or a halving the array is half full, so the next of either
 * is at least a quarter of it away: O(1) copies per operation.
 */

#include <stdbool.h>
#include <stdint.h>

#define TRP_CAPACITY_FIRST 8u
#define TRP_CAPACITY_KEPT 64u
#define TRP_CAPACITY_MOST (UINT32_C(1) << 31)

/* After `capacity`, which is full; 0: there is none. */
static inline uint32_t
trp_capacity_above(uint32_t capacity)
{
    if (capacity == 0) {
        return TRP_CAPACITY_FIRST;
    }
    return capacity < TRP_CAPACITY_MOST ? 2 * capacity : 0;
}

/* The next one that has room for `more`; 0: there is none. */
static inline uint32_t
trp_capacity_for(uint32_t capacity, uint32_t length, uint32_t more)
{
    while (capacity - length < more) {
        capacity = trp_capacity_above(capacity);
        if (capacity == 0) {
            break;
        }
    }
    return capacity;
}

static inline bool
trp_capacity_is_too_large(uint32_t capacity, uint32_t length)
{
    return capacity > TRP_CAPACITY_KEPT && length <= capacity / 4;
}

/*
 * What is enough for `length`; 0: no array. Goes down several steps at once
 * after there was no memory for the earlier ones.
 */
static inline uint32_t
trp_capacity_below(uint32_t capacity, uint32_t length)
{
    if (length == 0) {
        return 0;
    }
    while (trp_capacity_is_too_large(capacity, length)) {
        capacity /= 2;
    }
    return capacity;
}

#endif /* TRP_QUEUE_CAPACITY_H */
