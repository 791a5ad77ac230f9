/* SPDX-License-Identifier: MIT */
#ifndef TRP_QUEUE_DEQUE_H
#define TRP_QUEUE_DEQUE_H

/*
 * Work-stealing deque of pointers, after Chase and Lev ("Dynamic Circular
 * Work-Stealing Deque", SPAA 2005) with the orders of Le, Pop, Cohen and Zappa
 * Nardelli (PPoPP 2013), written without stand-alone fences.
 *
 *        top (thieves, CAS)                 bottom (owner)
 *         v                                   v
 *     ... [a] [b] [c] [d] ... ring of 2^k ... [ ]
 *
 * push    owner only; wait-free but for growth, which allocates.
 * pop     owner only, the newest; wait-free.
 * steal   any thread, the oldest; lock-free: fails only if another thread took
 *         it. The owner uses it for first-in-first-out order.
 * own     the same two for a deque that nobody else takes from: no instruction
 *         that waits for other cores. push is the same for both.
 *
 * Invariants
 *   D1  top only grows, and top <= bottom except inside pop.
 *   D2  An entry is taken by the CAS of top that passes it, or by the owner's
 *       pop while at least one older entry is left.
 *   D3  Old arrays live until fini: a thief that read one late finds the entry
 *       there, and its CAS decides.
 *
 * Pairs
 *   deque.push   store of bottom -> load of bottom in steal: the entry and what
 *                it points to.
 *   deque.pop    store of bottom, load of top in pop <-> load of top, load of
 *                bottom in steal, all seq_cst: one of the two sees the other.
 *   deque.array  store of array -> load of array in steal: the copied entries.
 */

#include "base/align.h"
#include "base/heap.h"

struct trp_deque_array {
    int64_t mask;
    struct trp_deque_array *older;
    size_t bytes;
    TRP_ATOMIC(void *) entry[];
};

struct trp_deque {
    TRP_ALIGNED(64) TRP_ATOMIC(int64_t) top;    /* thieves and owner, CAS */
    TRP_ALIGNED(64) TRP_ATOMIC(int64_t) bottom; /* owner writes, thieves read */
    int64_t top_seen; /* owner only: top was at least this */
    TRP_ATOMIC(struct trp_deque_array *) array; /* owner writes */
    struct trp_heap *heap;
};

/* False: no memory. A zeroed deque can be given to fini. */
bool trp_deque_init(struct trp_deque *deque, struct trp_heap *heap);
void trp_deque_fini(struct trp_deque *deque);
/* Owner, when push finds it full. False: no memory, nothing changed. */
bool trp_deque_grow(struct trp_deque *deque);

/* Owner. False: no memory to grow. */
TRP_INLINE bool
trp_deque_push(struct trp_deque *deque, void *item)
{
    /* relaxed: the owner alone writes both. */
    int64_t bottom = trp_load_relaxed(&deque->bottom);
    struct trp_deque_array *array = trp_load_relaxed(&deque->array);

    if (TRP_UNLIKELY(bottom - deque->top_seen > array->mask)) {
        deque->top_seen = trp_load_acquire(&deque->top); /* pairs: deque.pop */
        if (bottom - deque->top_seen > array->mask) {
            if (!trp_deque_grow(deque)) {
                return false;
            }
            /* relaxed: as above. */
            array = trp_load_relaxed(&deque->array);
        }
    }
    /* relaxed: published by bottom. */
    trp_store_relaxed(&array->entry[bottom & array->mask], item);
    trp_store_release(&deque->bottom, bottom + 1); /* pairs: deque.push */
    return true;
}

/* Owner; the newest, or NULL. */
TRP_INLINE void *
trp_deque_pop(struct trp_deque *deque)
{
    /* relaxed: the owner alone writes both. */
    int64_t bottom = trp_load_relaxed(&deque->bottom) - 1;
    struct trp_deque_array *array = trp_load_relaxed(&deque->array);
    int64_t top;
    void *item;

    /* relaxed: top only grows, so empty stays empty until the owner pushes. */
    if (trp_load_relaxed(&deque->top) > bottom) {
        return NULL;
    }
    trp_store_seq_cst(&deque->bottom, bottom); /* pairs: deque.pop */
    top = trp_load_seq_cst(&deque->top);       /* pairs: deque.pop */
    if (top > bottom) {
        /* relaxed: nothing to publish. */
        trp_store_relaxed(&deque->bottom, bottom + 1);
        return NULL;
    }
    /* relaxed: written by this thread. */
    item = trp_load_relaxed(&array->entry[bottom & array->mask]);
    if (top == bottom) {
        if (!trp_cas_seq_cst(&deque->top, &top, top + 1)) { /* pairs: deque.pop
                                                             */
            item = NULL;
        }
        /* relaxed: nothing to publish. */
        trp_store_relaxed(&deque->bottom, bottom + 1);
    }
    return item;
}

/* Any thread; the oldest, or NULL: empty, or somebody was faster. */
static inline void *
trp_deque_steal(struct trp_deque *deque)
{
    int64_t top = trp_load_seq_cst(&deque->top);       /* pairs: deque.pop */
    int64_t bottom = trp_load_seq_cst(&deque->bottom); /* pairs: deque.push,
                                                          deque.pop */
    struct trp_deque_array *array;
    void *item;

    if (top >= bottom) {
        return NULL;
    }
    array = trp_load_acquire(&deque->array); /* pairs: deque.array */
    /* relaxed: visible by deque.push; stale if the CAS fails. */
    item = trp_load_relaxed(&array->entry[top & array->mask]);
    if (!trp_cas_seq_cst(&deque->top, &top, top + 1)) { /* pairs: deque.pop */
        return NULL;
    }
    return item;
}

/* The newest, or NULL, of a deque that its owner alone takes from. */
TRP_INLINE void *
trp_deque_pop_own(struct trp_deque *deque)
{
    /* relaxed: one thread, and who wants to know the length. */
    int64_t bottom = trp_load_relaxed(&deque->bottom) - 1;
    struct trp_deque_array *array = trp_load_relaxed(&deque->array);

    if (trp_load_relaxed(&deque->top) > bottom) { /* relaxed: as above */
        return NULL;
    }
    trp_store_relaxed(&deque->bottom, bottom); /* relaxed: as above */
    /* relaxed: as above. */
    return trp_load_relaxed(&array->entry[bottom & array->mask]);
}

/* The oldest, or NULL, of such a deque. */
TRP_INLINE void *
trp_deque_shift_own(struct trp_deque *deque)
{
    /* relaxed: one thread, and who wants to know the length. */
    int64_t top = trp_load_relaxed(&deque->top);
    struct trp_deque_array *array = trp_load_relaxed(&deque->array);

    if (top >= trp_load_relaxed(&deque->bottom)) { /* relaxed: as above */
        return NULL;
    }
    trp_store_relaxed(&deque->top, top + 1); /* relaxed: as above */
    /* relaxed: as above. */
    return trp_load_relaxed(&array->entry[top & array->mask]);
}

/* Any thread; stale at once. */
static inline uint32_t
trp_deque_length(struct trp_deque *deque)
{
    /* relaxed: an estimate. */
    int64_t top = trp_load_relaxed(&deque->top);
    int64_t length = trp_load_relaxed(&deque->bottom) - top;

    return length < 0 ? 0 : (uint32_t)length;
}

#endif /* TRP_QUEUE_DEQUE_H */
