/* SPDX-License-Identifier: MIT */
#include "queue/pool.h"

#include "os/arena.h"

/*
 * Blocks from here up go to the depot at once and lose their pages when their
 * owner idles: what a burst needed is given back.
 */
#define LARGE_BYTES ((uint64_t)64 * 1024)
/* Free large blocks keep at most this much while everybody is busy. */
#define DIRTY_LIMIT ((uint64_t)64 * 1024 * 1024)
/* Less than this is not worth a system call of an idling worker. */
#define DIRTY_WORTH ((uint64_t)256 * 1024)
/* Units that one commit makes usable: 8 pages of the side table. */
#define COMMIT_UNITS UINT32_C(4096)

static uint64_t
block_bytes(const struct trp_pool *pool, uint32_t class)
{
    return (uint64_t)1 << (pool->unit_shift + class);
}

/*
 * Small blocks travel 32 at a time, so that the depot costs little of each.
 * Large ones (0) are not kept in caches at all.
 */
static uint32_t
magazine_of(const struct trp_pool *pool, uint32_t class)
{
    uint64_t bytes = block_bytes(pool, class);

    return bytes <= 1024 ? 32 : bytes <= 16 * 1024 ? 4 : 0;
}

bool
trp_pool_init(struct trp_pool *pool, struct trp_heap *heap,
    const struct trp_pool_shape *shape)
{
    uint64_t units = (uint64_t)shape->classes << shape->region_shift;

    pool->unit_shift = shape->unit_shift;
    pool->region_shift = shape->region_shift;
    pool->classes = shape->classes;
    pool->kept = shape->kept;
    pool->heap = heap;
    pool->reserved_bytes = units << shape->unit_shift;
    pool->links_bytes = units * sizeof(uint64_t);
    if (!trp_heap_may_grow(heap)) {
        return false;
    }
    pool->base = trp_arena_reserve(pool->reserved_bytes);
    pool->links = trp_arena_reserve(pool->links_bytes);
    if (pool->base == NULL || pool->links == NULL) {
        trp_pool_fini(pool);
        return false;
    }
    for (uint32_t class = 0; class < shape->classes; class ++) {
        struct trp_pool_class *c = &pool->class[class];

        c->start = class << shape->region_shift;
        c->end = c->start + (UINT32_C(1) << shape->region_shift);
        if (class == 0) {
            c->start++; /* I2 */
            if (shape->max_blocks != 0 && shape->max_blocks < c->end - 1) {
                c->end = shape->max_blocks + 1;
            }
        }
        c->magazine = magazine_of(pool, class);
        /* relaxed: not shared yet. */
        trp_store_relaxed(&c->bump, c->start);
        trp_store_relaxed(&c->committed, class << shape->region_shift);
    }
    return true;
}

void
trp_pool_fini(struct trp_pool *pool)
{
    trp_arena_release(pool->base, pool->reserved_bytes);
    trp_arena_release((void *)pool->links, pool->links_bytes);
    pool->base = NULL;
    pool->links = NULL;
}

static uint32_t
link_next(const struct trp_pool *pool, uint32_t unit)
{
    /* relaxed: of a chain that is ours since pool.depot. */
    return (uint32_t)trp_load_relaxed(&pool->links[unit]);
}

/* Any thread. `first` begins a chain that is the caller's. Lock-free. */
static void
depot_push(struct trp_pool *pool, struct trp_pool_class *c, uint32_t first)
{
    uint64_t next = link_next(pool, first);
    uint64_t old = trp_load_acquire(&c->depot); /* pairs: pool.depot */
    uint64_t new;

    do {
        /* relaxed: published by the CAS. */
        trp_store_relaxed(&pool->links[first], (old << 32) | next);
        new = (((old >> 32) + 1) << 32) | first;
    } while (!trp_cas_acq_rel(&c->depot, &old, new)); /* pairs: pool.depot */
}

/* Any thread; TRP_POOL_NONE when the depot is empty. Lock-free. */
static uint32_t
depot_pop(struct trp_pool *pool, struct trp_pool_class *c)
{
    uint64_t old = trp_load_acquire(&c->depot); /* pairs: pool.depot */
    uint64_t new;
    uint32_t first;

    do {
        first = (uint32_t)old;
        if (first == TRP_POOL_NONE) {
            return TRP_POOL_NONE;
        }
        /* relaxed: stale if the CAS fails, I4. */
        new = (((old >> 32) + 1) << 32) |
              (trp_load_relaxed(&pool->links[first]) >> 32);
    } while (!trp_cas_acq_rel(&c->depot, &old, new)); /* pairs: pool.depot */
    /* relaxed: ours now. */
    trp_store_relaxed(&pool->links[first], link_next(pool, first));
    return first;
}

/*
 * Makes the units below `end` usable; after the first 2 MiB of a region in
 * large pages, or a thousand page faults would cost more than what the blocks
 * are for. Idempotent, so nobody waits.
 */
static bool
commit(struct trp_pool *pool, struct trp_pool_class *c, uint32_t end)
{
    uint32_t from = trp_load_acquire(&c->committed); /* pairs: pool.commit */
    uint32_t mask = ~((UINT32_C(1) << pool->region_shift) - 1);
    uint32_t region_end = (c->start & mask) - mask; /* start of the next one */
    uint32_t step, to;
    bool huge;

    if (end <= from) {
        return true;
    }
    step = COMMIT_UNITS;
    huge = ((uint64_t)(from & ~mask) << pool->unit_shift) >= TRP_ARENA_HUGE;
    if (huge && step < TRP_ARENA_HUGE >> pool->unit_shift) {
        step = (uint32_t)(TRP_ARENA_HUGE >> pool->unit_shift);
    }
    to = end - from < step ? from + step : end;
    to = (to + step - 1) & ~(step - 1);
    if (to > region_end) {
        to = region_end;
    }
    if (!trp_heap_may_grow(pool->heap) ||
        !trp_arena_commit(trp_pool_address(pool, from),
            (size_t)(to - from) << pool->unit_shift) ||
        !trp_arena_commit((void *)&pool->links[from],
            (size_t)(to - from) * sizeof(uint64_t))) {
        return false;
    }
    if (huge) {
        trp_arena_use_large_pages(trp_pool_address(pool, from),
            (size_t)(to - from) << pool->unit_shift);
    }
    /* The larger value stays, whoever comes first. */
    while (from < to && !trp_cas_acq_rel(&c->committed, &from,
                            to)) { /* pairs: pool.commit */
    }
    return true;
}

/* Units [*from, result) of fresh address space, at most `blocks` blocks. */
static uint32_t
bump(struct trp_pool *pool, uint32_t class, uint32_t blocks, uint32_t *from)
{
    struct trp_pool_class *c = &pool->class[class];
    uint32_t old = trp_load_acquire(&c->bump); /* pairs: pool.bump */
    uint32_t end;

    do {
        uint32_t left = (c->end - old) >> class;

        if (left == 0) {
            return TRP_POOL_NONE;
        }
        end = old + ((left < blocks ? left : blocks) << class);
        if (!commit(pool, c, end)) {
            return TRP_POOL_NONE;
        }
    } while (!trp_cas_acq_rel(&c->bump, &old, end)); /* pairs: pool.bump */
    *from = old;
    return end;
}

static uint32_t
take_without_cache(struct trp_pool *pool, uint32_t class)
{
    struct trp_pool_class *c = &pool->class[class];
    uint32_t unit = depot_pop(pool, c);
    uint32_t rest;

    if (unit == TRP_POOL_NONE) {
        (void)bump(pool, class, 1, &unit); /* fresh pages are not dirty */
        return unit;
    }
    rest = link_next(pool, unit);
    if (rest != TRP_POOL_NONE) {
        depot_push(pool, c, rest);
    }
    if (block_bytes(pool, class) >= LARGE_BYTES) {
        uint64_t bytes = block_bytes(pool, class);
        /* relaxed: an estimate that only decides when to trim. */
        uint64_t dirty = trp_load_relaxed(&pool->dirty_bytes);

        while (!trp_cas_relaxed(&pool->dirty_bytes, &dirty, /* relaxed: same */
            dirty > bytes ? dirty - bytes : 0)) {
        }
    }
    return unit;
}

uint32_t
trp_pool_take_slow(
    struct trp_pool *pool, struct trp_pool_cache *cache, uint32_t class)
{
    struct trp_pool_class *c = &pool->class[class];
    uint32_t unit;

    if (cache == NULL) {
        unit = take_without_cache(pool, class);
        if (unit != TRP_POOL_NONE) {
            trp_add_relaxed(&c->foreign, 1); /* relaxed: statistic */
        }
        return unit;
    }
    if (c->magazine == 0) {
        unit = take_without_cache(pool, class);
    } else if (cache->class[class].spare != TRP_POOL_NONE) {
        unit = cache->class[class].spare;
        cache->class[class].spare = TRP_POOL_NONE;
        cache->class[class].head = link_next(pool, unit);
        cache->class[class].count = c->magazine - 1;
    } else if (cache->class[class].fresh != cache->class[class].fresh_end) {
        unit = cache->class[class].fresh;
        cache->class[class].fresh += UINT32_C(1) << class;
    } else if ((unit = depot_pop(pool, c)) != TRP_POOL_NONE) {
        cache->class[class].head = link_next(pool, unit);
        cache->class[class].count = c->magazine - 1;
    } else {
        uint32_t end = bump(pool, class, c->magazine, &unit);

        if (end == TRP_POOL_NONE) {
            return TRP_POOL_NONE;
        }
        cache->class[class].fresh = unit + (UINT32_C(1) << class);
        cache->class[class].fresh_end = end;
    }
    if (cache->class[class].head == TRP_POOL_NONE) {
        cache->class[class].count = 0; /* chains may be shorter than full */
    }
    if (unit != TRP_POOL_NONE) {
        trp_count(&cache->class[class].taken, 1);
    }
    return unit;
}

static void
give_large(struct trp_pool *pool, uint32_t class, uint32_t unit)
{
    uint64_t bytes = block_bytes(pool, class);

    if (bytes < LARGE_BYTES) {
        return;
    }
    /* relaxed, both: an estimate that only decides when to trim. */
    if (trp_load_relaxed(&pool->dirty_bytes) + bytes > DIRTY_LIMIT) {
        trp_arena_decommit(trp_pool_address(pool, unit), bytes);
    } else {
        trp_add_relaxed(&pool->dirty_bytes, bytes); /* relaxed: same */
    }
}

void
trp_pool_give_slow(
    struct trp_pool *pool, struct trp_pool_cache *cache, uint32_t unit)
{
    uint32_t class = trp_pool_class_of(pool, unit);
    struct trp_pool_class *c = &pool->class[class];

    if (cache == NULL || c->magazine == 0) {
        give_large(pool, class, unit);
        /* relaxed: a chain of one, published by the push. */
        trp_store_relaxed(&pool->links[unit], TRP_POOL_NONE);
        depot_push(pool, c, unit);
        if (cache == NULL) {
            trp_sub_relaxed(&c->foreign, 1); /* relaxed: statistic */
        } else {
            trp_count(&cache->class[class].taken, UINT64_MAX);
        }
        return;
    }
    if (cache->class[class].spare != TRP_POOL_NONE) {
        depot_push(pool, c, cache->class[class].spare);
    }
    cache->class[class].spare = cache->class[class].head;
    /* relaxed: begins a new chain in this cache. */
    trp_store_relaxed(&pool->links[unit], TRP_POOL_NONE);
    cache->class[class].head = unit;
    cache->class[class].count = 1;
    trp_count(&cache->class[class].taken, UINT64_MAX);
}

static void
flush(struct trp_pool *pool, struct trp_pool_cache *cache, uint32_t class)
{
    struct trp_pool_class *c = &pool->class[class];

    while (cache->class[class].fresh != cache->class[class].fresh_end) {
        uint32_t unit = cache->class[class].fresh;

        cache->class[class].fresh += UINT32_C(1) << class;
        /* relaxed: begins or continues a chain in this cache. */
        trp_store_relaxed(&pool->links[unit], cache->class[class].head);
        cache->class[class].head = unit;
    }
    if (cache->class[class].head != TRP_POOL_NONE) {
        depot_push(pool, c, cache->class[class].head);
    }
    if (cache->class[class].spare != TRP_POOL_NONE) {
        depot_push(pool, c, cache->class[class].spare);
    }
    cache->class[class].head = cache->class[class].spare = TRP_POOL_NONE;
    cache->class[class].count = 0;
}

static uint64_t
taken(const struct trp_pool *pool, uint32_t class)
{
    /* relaxed: statistics, summed modulo 2^64. */
    uint64_t sum = trp_load_relaxed(&pool->class[class].foreign);

    for (uint32_t i = 0; i < pool->cache_count; i++) {
        /* relaxed: as above. */
        sum += trp_load_relaxed(&pool->caches[i]->class[class].taken);
    }
    return sum <= INT64_MAX ? sum : 0; /* not read at one instant */
}

/* Takes every chain of the depot: a list of chains, linked in the table. */
static uint32_t
pop_all(struct trp_pool *pool, uint32_t class, uint32_t *blocks)
{
    struct trp_pool_class *c = &pool->class[class];
    uint64_t list = TRP_POOL_NONE;
    uint32_t chain;

    *blocks = 0;
    while ((chain = depot_pop(pool, c)) != TRP_POOL_NONE) {
        for (uint32_t unit = chain; unit != TRP_POOL_NONE;
             unit = link_next(pool, unit)) {
            ++*blocks;
        }
        /* relaxed: ours. */
        trp_store_relaxed(
            &pool->links[chain], (list << 32) | link_next(pool, chain));
        list = chain;
    }
    return (uint32_t)list;
}

static void
push_all(struct trp_pool *pool, uint32_t class, uint32_t list, bool decommit)
{
    while (list != TRP_POOL_NONE) {
        /* relaxed: ours. */
        uint32_t next = (uint32_t)(trp_load_relaxed(&pool->links[list]) >> 32);

        for (uint32_t unit = list; decommit && unit != TRP_POOL_NONE;
             unit = link_next(pool, unit)) {
            trp_arena_decommit(
                trp_pool_address(pool, unit), block_bytes(pool, class));
        }
        depot_push(pool, &pool->class[class], list);
        list = next;
    }
}

/* All blocks below `end` are ours and their links are lost: one long chain. */
static void
relink(struct trp_pool *pool, uint32_t class, uint32_t end)
{
    uint32_t chain = TRP_POOL_NONE;

    for (uint32_t unit = pool->class[class].start; unit != end;
         unit += UINT32_C(1) << class) {
        /* relaxed: published by the push. */
        trp_store_relaxed(&pool->links[unit], chain);
        chain = unit;
    }
    depot_push(pool, &pool->class[class], chain);
}

/*
 * Claims what was made usable and never handed out: then no page is shared with
 * anybody. Returns the end of what is ours; TRP_POOL_NONE: somebody was faster.
 */
static uint32_t
claim_rest(struct trp_pool_class *c, uint32_t class, uint32_t end)
{
    uint32_t committed =
        trp_load_acquire(&c->committed); /* pairs: pool.commit */
    uint32_t rest = committed > end ? (committed - end) >> class << class : 0;
    uint32_t top = end + rest < c->end ? end + rest : c->end;

    return top == end ||
                   trp_cas_acq_rel(&c->bump, &end, top) /* pairs: pool.bump */
               ? top
               : TRP_POOL_NONE;
}

/*
 * Nobody holds a block of this class: if all of them are in the depot, forget
 * them and start afresh.
 */
static void
reset(struct trp_pool *pool, uint32_t class)
{
    struct trp_pool_class *c = &pool->class[class];
    uint32_t first = class << pool->region_shift;
    uint32_t end = trp_load_acquire(&c->bump); /* pairs: pool.bump */
    uint32_t blocks = 0;
    uint32_t list, top;

    if (((uint64_t)(end - c->start) << pool->unit_shift) < DIRTY_WORTH) {
        return;
    }
    list = pop_all(pool, class, &blocks);
    /*
     * Read again: all that we hold lies below what is read after it was taken,
     * and bump cannot go back while we hold a block. So an equal count means
     * that we hold them all.
     */
    end = trp_load_acquire(&c->bump); /* pairs: pool.bump */
    top = blocks != 0 && blocks == (end - c->start) >> class ? claim_rest(c,
                                                                   class, end)
                                                             : TRP_POOL_NONE;
    if (top == TRP_POOL_NONE) {
        push_all(pool, class, list, false);
        return;
    }
    /* Pages first: from the CAS on the blocks may be taken again. */
    trp_arena_decommit(trp_pool_address(pool, first),
        ((size_t)(top - first) << pool->unit_shift) & ~(TRP_ARENA_PAGE - 1));
    trp_arena_decommit((void *)&pool->links[first],
        ((size_t)(top - first) * sizeof(uint64_t)) & ~(TRP_ARENA_PAGE - 1));
    end = top;
    if (!trp_cas_acq_rel(&c->bump, &end, c->start)) { /* pairs: pool.bump */
        relink(pool, class, top);
    }
}

void
trp_pool_trim(struct trp_pool *pool, struct trp_pool_cache *cache, bool all)
{
    bool large;

    if (pool->kept) {
        return;
    }
    /* relaxed: an estimate that only decides when to trim. */
    large = all && trp_load_relaxed(&pool->dirty_bytes) >= DIRTY_WORTH;
    if (large) {
        trp_store_relaxed(&pool->dirty_bytes, 0); /* relaxed: as above */
    }
    for (uint32_t class = 0; class < pool->classes; class ++) {
        uint32_t blocks;

        flush(pool, cache, class);
        if (block_bytes(pool, class) >= LARGE_BYTES) {
            if (large) {
                push_all(pool, class, pop_all(pool, class, &blocks), true);
            }
        } else if (all && taken(pool, class) == 0) {
            reset(pool, class);
        }
    }
}

uint64_t
trp_pool_live_bytes(const struct trp_pool *pool)
{
    uint64_t bytes = 0;

    for (uint32_t class = 0; class < pool->classes; class ++) {
        bytes += taken(pool, class) * block_bytes(pool, class);
    }
    return bytes;
}
