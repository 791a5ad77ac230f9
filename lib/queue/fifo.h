/* SPDX-License-Identifier: MIT */
#ifndef TRP_QUEUE_FIFO_H
#define TRP_QUEUE_FIFO_H

/*
 * Messages in the order of arrival, open at both ends, for a mailbox that has
 * to drop the oldest or put one back. NOT safe for threads: the caller holds
 * the mailbox's lock.
 *
 *          first & mask               (first + length) & mask
 *            v                          v
 *     [ ][ ][a][b][c] ... ring of 2^k ...[ ][ ]
 *
 * push_last, push_first   O(1); O(n) where the ring is doubled.
 * take_first, take_last   O(1); O(n) where the ring is halved.
 * first, last             O(1).
 *
 * Invariants
 *   F1  length <= capacity; entries are first .. first + length - 1, modulo the
 *       capacity, which is 0 or 8 << k; entries is NULL if and only if it is 0.
 *   F2  Unless there was no memory for a smaller one: length > capacity / 4, or
 *       capacity <= 64 (queue/capacity.h).
 */

#include "queue/order.h"

struct trp_fifo {
    struct trp_order_entry *entries;
    uint32_t first; /* runs freely; the capacity divides 2^32 */
    uint32_t length;
    uint32_t capacity;
    struct trp_heap *heap;
};

/* Allocates nothing. */
static inline void
trp_fifo_init(struct trp_fifo *fifo, struct trp_heap *heap)
{
    fifo->entries = NULL;
    fifo->first = 0;
    fifo->length = 0;
    fifo->capacity = 0;
    fifo->heap = heap;
}

/* What is queued is forgotten. A zeroed fifo can be given to it. */
void trp_fifo_fini(struct trp_fifo *fifo);

/* False: no memory, nothing changed. `entry` is not one of the fifo's own. */
bool trp_fifo_push_last(
    struct trp_fifo *fifo, const struct trp_order_entry *entry);
bool trp_fifo_push_first(
    struct trp_fifo *fifo, const struct trp_order_entry *entry);

/* Room for so many pushes more, until the next take. False: no memory. */
bool trp_fifo_reserve(struct trp_fifo *fifo, uint32_t more);

/* False: empty, `out` unchanged. */
bool trp_fifo_take_first(struct trp_fifo *fifo, struct trp_order_entry *out);
bool trp_fifo_take_last(struct trp_fifo *fifo, struct trp_order_entry *out);

/* Place `index` of the ring, counted from the first. */
static inline struct trp_order_entry *
trp_fifo_at(const struct trp_fifo *fifo, uint32_t index)
{
    return &fifo->entries[(fifo->first + index) & (fifo->capacity - 1)];
}

/* NULL: empty. Valid until the fifo is changed. */
static inline const struct trp_order_entry *
trp_fifo_first(const struct trp_fifo *fifo)
{
    return fifo->length == 0 ? NULL : trp_fifo_at(fifo, 0);
}

static inline const struct trp_order_entry *
trp_fifo_last(const struct trp_fifo *fifo)
{
    return fifo->length == 0 ? NULL : trp_fifo_at(fifo, fifo->length - 1);
}

static inline uint32_t
trp_fifo_length(const struct trp_fifo *fifo)
{
    return fifo->length;
}

#endif /* TRP_QUEUE_FIFO_H */
