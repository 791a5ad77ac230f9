/* SPDX-License-Identifier: MIT */
#include "base/heap.h"

#include "base/align.h"

#include <stdlib.h>
#include <string.h>

static void *
default_alloc(size_t bytes, size_t align, void *user)
{
    (void)user;
    return aligned_alloc(align, trp_round_up(bytes, align));
}

static void
default_free(void *block, size_t bytes, void *user)
{
    (void)bytes;
    (void)user;
    free(block);
}

void
trp_heap_init(struct trp_heap *heap, troupe_alloc_fn alloc,
    troupe_free_fn free_fn, void *user)
{
    memset(heap, 0, sizeof *heap);
    heap->alloc = alloc != NULL ? alloc : default_alloc;
    heap->free = free_fn != NULL ? free_fn : default_free;
    heap->user = user;
}

bool
trp_heap_may_grow(struct trp_heap *heap)
{
    /* relaxed: a number that a test sets before it looks. */
    uint64_t left = trp_load_relaxed(&heap->fail_at);

    while (TRP_UNLIKELY(left != 0)) {
        /* relaxed: as above; only the count matters. */
        if (trp_cas_relaxed(&heap->fail_at, &left, left - 1)) {
            return left != 1;
        }
    }
    return true;
}

void *
trp_heap_alloc(struct trp_heap *heap, size_t bytes)
{
    void *block = NULL;

    if (bytes > SIZE_MAX / 2) {
        return NULL;
    }
    if (bytes == 0) {
        bytes = 1;
    }
    if (trp_heap_may_grow(heap)) {
        block = heap->alloc(bytes, TRP_CACHE_LINE, heap->user);
    }
    if (block != NULL) {
        memset(block, 0, bytes);
        trp_add_relaxed(&heap->live_bytes, bytes); /* relaxed: statistic */
    }
    return block;
}

void
trp_heap_free(struct trp_heap *heap, void *block, size_t bytes)
{
    if (block == NULL) {
        return;
    }
    if (bytes == 0) {
        bytes = 1;
    }
    trp_sub_relaxed(&heap->live_bytes, bytes); /* relaxed: statistic */
    heap->free(block, bytes, heap->user);
}
