/* SPDX-License-Identifier: MIT */
#ifndef TRP_QUEUE_DEPTHS_H
#define TRP_QUEUE_DEPTHS_H

/*
 * How much waits in each of many queues, side by side in memory, so that the
 * shortest is found without touching the queues.
 *
 *     slot     0     1     2     3     4 ..          capacity
 *           [ 17 ][  0 ][dead][  3 ][  9 ] ..  [dead][dead]
 *                    ^
 *     add, sub by who changes queue 1; all are read by who chooses
 *
 * add, sub   one addition. Wait-free; any thread, or the owner in batches, of
 *            both at once.
 * open       one addition. Wait-free; one thread at a time for a slot, and only
 * close      in turns: a new one is closed.
 * get        one load. Wait-free; any thread.
 * least      base/least.h. Wait-free; any thread.
 *
 * Invariants
 *   D1  Every addition is taken back by one subtraction, exactly once: when the
 *       push was refused, when the message has left the queue, or with all that
 *       a queue left behind at its end. The addition comes first (before the
 *       push, which publishes it), so a slot is never below 0.
 *   D2  Closing a slot keeps its number, and opening it again does: who still
 *       takes back what he added to a closed slot hits the right one. A slot at
 *       rest is 0 again without being reset, and must not be.
 *   D3  Fewer than 2^31 wait: the bit above says that the slot is closed.
 *
 * There is no edge: the numbers are hints, and who chose a slot by them looks
 * at the queue itself before he believes that it is there. What this thread has
 * added is in what it reads.
 */

#include "base/align.h"
#include "base/least.h"

struct trp_depths {
    TRP_ATOMIC(uint32_t) * slots; /* any thread */
    uint32_t capacity;
    trp_least_fn least;
};

/* What the slots for so many need, aligned to a cache line. */
static inline size_t
trp_depths_bytes(uint32_t capacity)
{
    return trp_round_up(capacity, TRP_LEAST_BLOCK) * sizeof(uint32_t);
}

/* Slots that are in use, or have been: what they hold stays (D2). */
static inline void
trp_depths_attach(struct trp_depths *depths, void *slots, uint32_t capacity,
    trp_least_fn least)
{
    depths->slots = slots;
    depths->capacity = capacity;
    depths->least = least;
}

/* All are closed. The slots are the caller's, and so is giving them back. */
static inline void
trp_depths_init(struct trp_depths *depths, void *slots, uint32_t capacity,
    trp_least_fn least)
{
    trp_depths_attach(depths, slots,
        (uint32_t)(trp_depths_bytes(capacity) / sizeof(uint32_t)), least);
    for (uint32_t i = 0; i < depths->capacity; i++) {
        /* relaxed: not shared yet; whoever shares them publishes it */
        trp_store_relaxed(&depths->slots[i], TRP_LEAST_DEAD);
    }
}

/* The same for who knows a slot by its address; `count` is modulo 2^32. */
static inline void
trp_depth_add(TRP_ATOMIC(uint32_t) * slot, uint32_t count)
{
    (void)trp_add_relaxed(slot, count); /* relaxed: a hint */
}

static inline void
trp_depths_add(const struct trp_depths *depths, uint32_t slot, uint32_t count)
{
    trp_depth_add(&depths->slots[slot], count);
}

static inline void
trp_depths_sub(const struct trp_depths *depths, uint32_t slot, uint32_t count)
{
    trp_depth_add(&depths->slots[slot], 0 - count);
}

static inline void
trp_depths_open(const struct trp_depths *depths, uint32_t slot)
{
    /* relaxed: a hint. Adding the highest bit turns it over. */
    (void)trp_add_relaxed(&depths->slots[slot], TRP_LEAST_DEAD);
}

static inline void
trp_depths_close(const struct trp_depths *depths, uint32_t slot)
{
    trp_depths_open(depths, slot);
}

/* The depth, with TRP_LEAST_DEAD if the slot is closed. */
static inline uint32_t
trp_depths_get(const struct trp_depths *depths, uint32_t slot)
{
    /* relaxed: a hint */
    return trp_load_relaxed(&depths->slots[slot]);
}

/*
 * The first of the shortest of `count` slots, from `start` on; TRP_LEAST_NONE:
 * all are closed. `start` < `count` <= capacity.
 */
static inline uint32_t
trp_depths_least(
    const struct trp_depths *depths, uint32_t count, uint32_t start)
{
    return depths->least(depths->slots, count, start);
}

#endif /* TRP_QUEUE_DEPTHS_H */
