/* SPDX-License-Identifier: MIT */
#include "support.h"

#include "base/assert.h"
#include "os/arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAP_BYTES ((size_t)4 * 1024 * 1024)
#define FREED 0xdd
#define FREED_MAX 256
#define COMMITTED_BLOCKS 512

struct trp_heap model_heap;

static TRP_ALIGNED(64) unsigned char heap_memory[HEAP_BYTES];
static size_t heap_used;
static uint64_t heap_live;
static struct {
    const unsigned char *block;
    size_t bytes;
} freed[FREED_MAX];
static uint32_t freed_count;

static void *
alloc_from_heap(size_t bytes, size_t align, void *user)
{
    unsigned char *block = heap_memory + heap_used;

    (void)align; /* at most 64 */
    (void)user;
    heap_live += bytes;
    bytes = trp_round_up(bytes, 64);
    MODEL_ASSERT(heap_used + bytes <= HEAP_BYTES);
    heap_used += bytes;
    return block;
}

/* Never used again, so that a late reader finds rubbish. */
static void
free_to_heap(void *block, size_t bytes, void *user)
{
    (void)user;
    heap_live -= bytes;
    memset(block, FREED, bytes);
    if (freed_count < FREED_MAX) {
        freed[freed_count].block = block;
        freed[freed_count++].bytes = bytes;
    }
}

void
model_heap_begin(void)
{
    heap_used = heap_live = 0;
    freed_count = 0;
    trp_heap_init(&model_heap, alloc_from_heap, free_to_heap, NULL);
}

uint64_t
model_heap_live(void)
{
    return heap_live;
}

void
model_heap_check_freed(void)
{
    for (uint32_t i = 0; i < freed_count; i++) {
        for (size_t at = 0; at < freed[i].bytes; at++) {
            MODEL_CHECK(freed[i].block[at] == FREED,
                "byte %zu of a block of %zu was written after it was freed", at,
                freed[i].bytes);
        }
    }
}

/* Usable from the start: enough of each class, and whole pages. */
static uint32_t
committed_units(const struct trp_pool *pool, uint32_t class)
{
    uint32_t units = (uint32_t)COMMITTED_BLOCKS << class;
    uint32_t most = UINT32_C(1) << pool->region_shift;

    return units < most ? units : most;
}

/* Only once, so that the first schedule is like all others. */
static void
commit_all(struct trp_pool *pool)
{
    for (uint32_t class = 0; class < pool->classes; class ++) {
        uint32_t first = class << pool->region_shift;
        uint32_t units = committed_units(pool, class);

        if (!trp_arena_commit(trp_pool_address(pool, first),
                (size_t)units << pool->unit_shift) ||
            !trp_arena_commit(
                &pool->links[first], units * sizeof *pool->links)) {
            fprintf(stderr, "no memory for a pool\n");
            exit(2);
        }
    }
}

static void
wipe(struct trp_pool *pool, uint32_t class, size_t wipe_bytes)
{
    struct trp_pool_class *c = &pool->class[class];
    uint32_t stride = UINT32_C(1) << class;
    size_t bytes = (size_t)stride << pool->unit_shift;
    uint32_t end = c->bump;

    if (wipe_bytes > bytes) {
        wipe_bytes = bytes;
    }
    for (uint32_t unit = c->start; unit < end; unit += stride) {
        memset(trp_pool_address(pool, unit), 0, wipe_bytes);
        pool->links[unit] = 0;
    }
    c->bump = c->start;
    c->committed = (class << pool->region_shift) + committed_units(pool, class);
    c->depot = 0;
    c->foreign = 0;
}

void
model_pool_begin(struct trp_pool *pool, const struct trp_pool_shape *shape,
    size_t wipe_bytes)
{
    if (pool->base == NULL) {
        if (!trp_pool_init(pool, &model_heap, shape)) {
            fprintf(stderr, "no address space for a pool\n");
            exit(2);
        }
        commit_all(pool);
    }
    for (uint32_t class = 0; class < pool->classes; class ++) {
        wipe(pool, class, wipe_bytes);
    }
    pool->dirty_bytes = 0;
    pool->caches = NULL;
    pool->cache_count = 0;
}

void
model_turns_put(struct model_turns *turns)
{
    uint32_t before = trp_add_acq_rel(&turns->count, 1);

    MODEL_CHECK(before == 0, "a turn is put in while one waits");
    model_futex_wake(&turns->count, 1, MODEL_AT("turn_wakes"));
}

bool
model_turns_take(struct model_turns *turns)
{
    for (;;) {
        uint32_t count = trp_load_acquire(&turns->count);

        if ((count & MODEL_TURNS_OVER) != 0) {
            return false;
        }
        if (count == 0) {
            model_futex_wait(
                &turns->count, 0, MODEL_FOREVER, MODEL_AT("turn_waits"));
        } else if (trp_cas_acq_rel(&turns->count, &count, count - 1)) {
            return true;
        }
    }
}

void
model_turns_end(struct model_turns *turns)
{
    trp_or_acq_rel(&turns->count, MODEL_TURNS_OVER);
    model_futex_wake(&turns->count, UINT32_MAX, MODEL_AT("turn_ends"));
}

/* What the library calls when an invariant of its own is broken. */
void
trp_panic(const char *file, int line, const char *what)
{
    model_fail(file, line, "broken invariant: %s", what);
}
