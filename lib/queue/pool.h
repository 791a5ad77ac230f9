/* SPDX-License-Identifier: MIT */
#ifndef TRP_QUEUE_POOL_H
#define TRP_QUEUE_POOL_H

/*
 * Blocks of a few sizes, taken on one thread and given back on another.
 *
 *   address space, one region per class, block size doubles per class
 *
 *     class 0 |#|#|#|#|.....|   class 1 |##|##|.....|   class 2 |####|....
 *             0       bump^ limit
 *
 *   cache (one per worker)             depot (one per class, shared)
 *     head -> b -> b -> NULL             {tag | first} -> chain -> chain
 *     spare -> b ... (full magazine)                       |        |
 *     fresh .. fresh_end                                   b        b
 *
 * A block is named by its unit: base + unit * unit size is its address, the
 * upper bits of the unit are its class. So one 32-bit word tells where it is
 * and how large. Links live in a side table: taking a block touches no block.
 *
 * take    from the cache; else a chain from the depot; else fresh address
 *         space. Lock-free; a system call only where memory is committed.
 * give    to the cache of whoever gives. A full magazine goes to the depot.
 *         Lock-free.
 * trim    gives the pages of free blocks back to the kernel.
 *
 * Invariants
 *   I1  A block is in one place: a user's hands, one cache, one chain of the
 *       depot, or beyond bump.
 *   I2  Unit 0 is never handed out: 0 means "none".
 *   I3  What a free block reads as is undefined unless the pool is `kept`, with
 *       one exception: blocks that are always given back zeroed read as zero,
 *       trimmed or not.
 *   I4  The side table is never unmapped while the pool lives, so a pop that
 *       lost its race reads a stale link, and the tag makes its CAS fail.
 *
 * Pairs
 *   pool.depot  CAS that pushes a chain -> CAS that pops it. Publishes links
 *               and whatever the giver wrote into the blocks.
 *   pool.commit CAS of committed -> load of committed: the pages are usable.
 *   pool.bump   CAS of bump -> CAS of bump. Publishes the commit before it.
 */

#include "base/align.h"
#include "base/heap.h"

#define TRP_POOL_CLASSES 23
#define TRP_POOL_NONE UINT32_C(0)
/* Free blocks of one class in a cache: two magazines, and fresh ones. */
#define TRP_POOL_CACHED_MOST 96u

struct trp_pool_class {
    TRP_ATOMIC(uint64_t) depot;     /* {tag:32 | unit:32}; any thread */
    TRP_ATOMIC(uint32_t) bump;      /* next unit never used; any thread */
    TRP_ATOMIC(uint32_t) committed; /* units usable below this; any thread */
    TRP_ATOMIC(uint64_t) foreign;   /* taken minus given without a cache */
    uint32_t start, end;            /* units of the region; constant */
    uint32_t magazine; /* blocks per chain; 0 = no cache keeps any; constant */
    char pad[64 - 36];
};

struct trp_pool_cache;

struct trp_pool {
    /* constant after init */
    char *base;
    TRP_ATOMIC(uint64_t) * links; /* per unit: {next chain:32 | next:32} */
    uint32_t unit_shift;          /* bytes of a unit, log2 */
    uint32_t region_shift;        /* units of a region, log2 */
    uint32_t classes;
    uint32_t kept;
    size_t reserved_bytes, links_bytes;
    struct trp_heap *heap;
    struct trp_pool_cache **caches; /* of all workers, for trim */
    uint32_t cache_count;
    uint32_t reserved;

    /* any thread */
    TRP_ATOMIC(uint64_t) dirty_bytes; /* of large free blocks with pages */

    TRP_ALIGNED(64) struct trp_pool_class class[TRP_POOL_CLASSES];
};

/* One thread at a time; zeroed is empty. */
struct trp_pool_cache {
    struct {
        uint32_t head;
        uint32_t count;
        uint32_t spare;
        uint32_t fresh, fresh_end;
        uint32_t reserved;
        TRP_ATOMIC(uint64_t) taken; /* minus given; owner writes, trim reads */
    } class[TRP_POOL_CLASSES];
};

struct trp_pool_shape {
    uint32_t unit_shift;
    uint32_t region_shift;
    uint32_t classes;
    uint32_t max_blocks; /* of class 0; 0 = the whole region */
    bool kept;           /* what free blocks hold matters: never trimmed */
};

/* False: no address space. A zeroed pool can be given to fini. */
bool trp_pool_init(struct trp_pool *pool, struct trp_heap *heap,
    const struct trp_pool_shape *shape);
void trp_pool_fini(struct trp_pool *pool);

/*
 * The slow halves. `cache` NULL: a thread without one. TRP_POOL_NONE when there
 * is no memory.
 */
uint32_t trp_pool_take_slow(
    struct trp_pool *pool, struct trp_pool_cache *cache, uint32_t class);
void trp_pool_give_slow(
    struct trp_pool *pool, struct trp_pool_cache *cache, uint32_t unit);

/*
 * By a worker that has nothing to do: empties its cache into the depot and, if
 * `all` (every other cache is quiet too), gives unused pages back.
 */
void trp_pool_trim(
    struct trp_pool *pool, struct trp_pool_cache *cache, bool all);

/* Bytes in users' hands, of all classes. Any thread; a statistic. */
uint64_t trp_pool_live_bytes(const struct trp_pool *pool);

static inline uint32_t
trp_pool_class_of(const struct trp_pool *pool, uint32_t unit)
{
    return unit >> pool->region_shift;
}

static inline void *
trp_pool_address(const struct trp_pool *pool, uint32_t unit)
{
    return pool->base + ((uint64_t)unit << pool->unit_shift);
}

static inline uint32_t
trp_pool_unit(const struct trp_pool *pool, const void *address)
{
    return (uint32_t)((uint64_t)((const char *)address - pool->base) >>
                      pool->unit_shift);
}

/* A block of class `class`, or TRP_POOL_NONE. Owner of `cache`. */
TRP_INLINE uint32_t
trp_pool_take(
    struct trp_pool *pool, struct trp_pool_cache *cache, uint32_t class)
{
    if (TRP_LIKELY(cache != NULL && cache->class[class].head != 0)) {
        uint32_t unit = cache->class[class].head;

        /* relaxed: the chain is this thread's since pool.depot. */
        cache->class[class].head =
            (uint32_t)trp_load_relaxed(&pool->links[unit]);
        cache->class[class].count--;
        trp_count(&cache->class[class].taken, 1);
        return unit;
    }
    return trp_pool_take_slow(pool, cache, class);
}

TRP_INLINE void
trp_pool_give(
    struct trp_pool *pool, struct trp_pool_cache *cache, uint32_t unit)
{
    uint32_t class = trp_pool_class_of(pool, unit);

    if (TRP_LIKELY(cache != NULL &&
                   cache->class[class].count < pool->class[class].magazine)) {
        /* relaxed: published by pool.depot if it ever leaves this thread. */
        trp_store_relaxed(&pool->links[unit], cache->class[class].head);
        cache->class[class].head = unit;
        cache->class[class].count++;
        trp_count(&cache->class[class].taken, UINT64_MAX);
        return;
    }
    trp_pool_give_slow(pool, cache, unit);
}

#endif /* TRP_QUEUE_POOL_H */
