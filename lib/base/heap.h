/* SPDX-License-Identifier: MIT */
#ifndef TRP_BASE_HEAP_H
#define TRP_BASE_HEAP_H

/*
 * The allocator hooks of one system, with a count of live bytes. Everything
 * that asks for memory passes trp_heap_may_grow(), so that one countdown can
 * make any request fail (troupe_fail_allocation).
 */

#include <troupe/system.h>

#include "base/atomic.h"

struct trp_heap {
    /* set before start, then constant */
    troupe_alloc_fn alloc;
    troupe_free_fn free;
    void *user;

    /* any thread */
    TRP_ATOMIC(uint64_t) live_bytes;
    TRP_ATOMIC(uint64_t) fail_at; /* requests until one fails; 0 = never */
};

/* Both hooks NULL: aligned_alloc() and free(). */
void trp_heap_init(struct trp_heap *heap, troupe_alloc_fn alloc,
    troupe_free_fn free, void *user);

/* False when the request that asks is the one chosen to fail. */
bool trp_heap_may_grow(struct trp_heap *heap);

/* Zeroed memory aligned to 64; NULL when there is none. */
void *trp_heap_alloc(struct trp_heap *heap, size_t bytes);
/* `bytes` as asked for; NULL is allowed. */
void trp_heap_free(struct trp_heap *heap, void *block, size_t bytes);

#endif /* TRP_BASE_HEAP_H */
