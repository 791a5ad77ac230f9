/* SPDX-License-Identifier: MIT */
#ifndef TRP_QUEUE_ORDER_H
#define TRP_QUEUE_ORDER_H

/*
 * The message order of a priority mailbox: a double-ended priority queue. Both
 * ends are needed: the mailbox runs the first message and, when it is full,
 * drops the last. NOT safe for threads: the caller holds the mailbox's lock.
 *
 * A min-max heap in one array (Atkinson, Sack, Santoro and Strothotte, "Min-Max
 * Heaps and Generalized Priority Queues", CACM 29(10), 1986):
 *
 *                          1                           min level: the first
 *               2                     3                max level: 2 or 3 last
 *          4         5           6         7           min
 *        8   9    10   11     12   13   14   15        max
 *
 *     array   [-][1][2][3][4][5][6][7][8][9] ...
 *              ^           |----------| grandchildren 4i .. 4i + 3 of i = 1
 *              unused, so that every such group of 4 x 48 bytes is exactly
 *              three cache lines
 *
 * Rather than an interval heap, because the way down visits every second level
 * only: at a million entries ten steps, each a choice among four neighbours in
 * memory, instead of nineteen. The steps depend on each other and the lower
 * ones miss the cache; the four neighbours do not depend on each other.
 *
 * push        O(log n), O(1) on average; allocates when full.
 * take_first  O(log n). A hole goes down to a leaf along the best grandchildren
 * take_last   (Floyd's way: no comparison with what will fill it), the entry at
 *             the end of the array fills it and rises, mostly not far. O(n)
 *             where the array is halved; O(1) of that per operation, amortised.
 * first, last O(1).
 *
 * Order: rank ascending, then sequence ascending. -Inf < numbers < +Inf < NaN;
 * -0 equals 0 and all NaN are equal. No sequence occurs twice.
 *
 * Invariants
 *   O1  An entry on a min level comes before all that lie below it.
 *   O2  An entry on a max level comes after all that lie below it.
 *   O3  length <= capacity, entries are 1 .. length; capacity is 0 or 8 << k,
 *       and slots is NULL if and only if it is 0.
 *   O4  Unless there was no memory for a smaller one: length > capacity / 4, or
 *       capacity <= 64 (queue/capacity.h).
 */

#include "queue/ring.h"

struct trp_order_entry {
    double rank;
    uint64_t sequence;
    struct trp_item item;
};

struct trp_order {
    struct trp_order_entry *slots; /* capacity + 1, the first one unused */
    uint32_t length;
    uint32_t capacity;
    struct trp_heap *heap;
};

/* Allocates nothing. */
static inline void
trp_order_init(struct trp_order *order, struct trp_heap *heap)
{
    order->slots = NULL;
    order->length = 0;
    order->capacity = 0;
    order->heap = heap;
}

/* What is queued is forgotten. A zeroed order can be given to it. */
void trp_order_fini(struct trp_order *order);

/* False: no memory, nothing changed. `entry` is not one of the order's own. */
bool trp_order_push(
    struct trp_order *order, const struct trp_order_entry *entry);

/* Room for so many pushes more, until the next take. False: no memory. */
bool trp_order_reserve(struct trp_order *order, uint32_t more);

/* The most important: least rank, oldest. False: empty, `out` unchanged. */
bool trp_order_take_first(struct trp_order *order, struct trp_order_entry *out);
/* The least important: greatest rank, newest. False: empty, `out` unchanged. */
bool trp_order_take_last(struct trp_order *order, struct trp_order_entry *out);

/* NULL: empty. Valid until the order is changed. */
static inline const struct trp_order_entry *
trp_order_first(const struct trp_order *order)
{
    return order->length == 0 ? NULL : &order->slots[1];
}
const struct trp_order_entry *trp_order_last(const struct trp_order *order);

static inline uint32_t
trp_order_length(const struct trp_order *order)
{
    return order->length;
}

/* Is `a` taken before `b`? */
bool trp_order_is_before(
    const struct trp_order_entry *a, const struct trp_order_entry *b);

#endif /* TRP_QUEUE_ORDER_H */
