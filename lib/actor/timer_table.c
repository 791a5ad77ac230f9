/* SPDX-License-Identifier: MIT */
#include "actor/timer_table.h"

#include "actor/timers.h"

/*
 * In the mean, between a join and a split. A bucket that is still to be split
 * has up to twice as many, and a chain costs a line for each timer in it.
 */
#define KEYS_MOST 3u
#define KEYS_LEAST 1u

static struct trp_timer *
at(const struct trp_pool *pool, uint32_t unit)
{
    return trp_pool_address(pool, unit);
}

static struct trp_bucket *
bucket(struct trp_timer_table *table, uint32_t index)
{
    return index == 0 ? &table->first
                      : &table->chunk[(index - 1) / TRP_CHUNK_BUCKETS]
                                     [(index - 1) % TRP_CHUNK_BUCKETS];
}

/* The bits that name any of `count` buckets. */
static uint32_t
mask_of(uint32_t count)
{
    return (UINT32_C(1) << trp_log2_ceil(count)) - 1;
}

/* Its low bits name buckets: once is not enough for keys 1, 2, 3 and so on. */
static uint32_t
hash_of(uint64_t key)
{
    uint64_t golden = UINT64_C(0x9E3779B97F4A7C15);
    uint64_t mixed = key * golden;

    return (uint32_t)(((mixed ^ mixed >> 32) * golden) >> 32);
}

static struct trp_bucket *
bucket_of(struct trp_timer_table *table, uint32_t hash)
{
    uint32_t mask = mask_of(table->used);
    uint32_t index = hash & mask;

    return bucket(table, index < table->used ? index : index & (mask >> 1));
}

/* What the last bucket was split from, and is joined to. */
static struct trp_bucket *
before_last(struct trp_timer_table *table)
{
    return bucket(table, (table->used - 1) & (mask_of(table->used) >> 1));
}

static void
put(struct trp_timer_table *table, const struct trp_pool *pool, uint32_t hash,
    uint32_t unit)
{
    struct trp_bucket *bucket = bucket_of(table, hash);

    for (uint32_t i = 0; i < TRP_BUCKET_KEYS; i++) {
        if (bucket->unit[i] == TRP_POOL_NONE) {
            bucket->unit[i] = unit;
            bucket->hash[i] = hash;
            return;
        }
    }
    at(pool, unit)->next = bucket->more;
    bucket->more = unit;
}

/* The first of the chain comes to a place that is free. */
static void
fill(struct trp_bucket *bucket, const struct trp_pool *pool, uint32_t i)
{
    bucket->unit[i] = bucket->more;
    if (bucket->more != TRP_POOL_NONE) {
        bucket->hash[i] = hash_of(at(pool, bucket->more)->key);
        bucket->more = at(pool, bucket->more)->next;
    }
}

/* All that belong elsewhere by now. */
static void
put_again(struct trp_timer_table *table, const struct trp_pool *pool,
    struct trp_bucket *from)
{
    uint32_t more = from->more;

    for (uint32_t i = 0; i < TRP_BUCKET_KEYS; i++) {
        uint32_t unit = from->unit[i];

        if (unit != TRP_POOL_NONE && bucket_of(table, from->hash[i]) != from) {
            from->unit[i] = TRP_POOL_NONE;
            put(table, pool, from->hash[i], unit);
        }
    }
    from->more = TRP_POOL_NONE;
    while (more != TRP_POOL_NONE) {
        const struct trp_timer *timer = at(pool, more);
        uint32_t unit = more;

        more = timer->next;
        put(table, pool, hash_of(timer->key), unit);
    }
}

/* False: no memory. */
static bool
add_chunk(struct trp_timer_table *table, struct trp_heap *heap)
{
    if (table->chunks == table->room) {
        uint32_t room = table->room != 0 ? 2 * table->room : 4;
        struct trp_bucket **old = table->chunk;
        struct trp_bucket **chunk = trp_heap_alloc(heap, room * sizeof *chunk);

        if (chunk == NULL) {
            return false;
        }
        if (old != NULL) {
            __builtin_memcpy(chunk, old, table->room * sizeof *chunk);
        }
        table->chunk = chunk;
        trp_heap_free(heap, old, table->room * sizeof *chunk);
        table->room = room;
    }
    table->chunk[table->chunks] =
        trp_heap_alloc(heap, TRP_CHUNK_BUCKETS * sizeof **table->chunk);
    if (table->chunk[table->chunks] == NULL) {
        return false;
    }
    table->chunks++;
    return true;
}

/* The last one; with the first the directory goes as well. */
static void
free_chunk(struct trp_timer_table *table, struct trp_heap *heap)
{
    trp_heap_free(heap, table->chunk[--table->chunks],
        TRP_CHUNK_BUCKETS * sizeof **table->chunk);
    if (table->chunks == 0) {
        trp_heap_free(heap, table->chunk, table->room * sizeof *table->chunk);
        table->chunk = NULL;
        table->room = 0;
    }
}

static void
split(struct trp_timer_table *table, const struct trp_pool *pool,
    struct trp_heap *heap)
{
    if (table->used > table->chunks * TRP_CHUNK_BUCKETS &&
        !add_chunk(table, heap)) {
        return;
    }
    table->used++;
    *bucket(table, table->used - 1) = (struct trp_bucket){.more = 0};
    put_again(table, pool, before_last(table));
}

static void
join(struct trp_timer_table *table, const struct trp_pool *pool,
    struct trp_heap *heap)
{
    struct trp_bucket *last = bucket(table, table->used - 1);

    table->used--;
    put_again(table, pool, last);
    if (table->used - 1 <= (table->chunks - 1) * TRP_CHUNK_BUCKETS) {
        free_chunk(table, heap);
    }
}

void
trp_timer_table_fini(struct trp_timer_table *table, struct trp_heap *heap)
{
    while (table->chunks != 0) {
        free_chunk(table, heap);
    }
    /* There was memory for a directory and none for a chunk. */
    trp_heap_free(heap, table->chunk, table->room * sizeof *table->chunk);
}

struct trp_timer *
trp_timer_table_find(
    struct trp_timer_table *table, const struct trp_pool *pool, uint64_t key)
{
    uint32_t hash = hash_of(key);
    const struct trp_bucket *bucket = bucket_of(table, hash);
    uint32_t more = bucket->more;

    for (uint32_t i = 0; i < TRP_BUCKET_KEYS; i++) {
        if (bucket->hash[i] == hash && bucket->unit[i] != TRP_POOL_NONE &&
            at(pool, bucket->unit[i])->key == key) {
            return at(pool, bucket->unit[i]);
        }
    }
    while (more != TRP_POOL_NONE && at(pool, more)->key != key) {
        more = at(pool, more)->next;
    }
    return more != TRP_POOL_NONE ? at(pool, more) : NULL;
}

void
trp_timer_table_add(struct trp_timer_table *table, const struct trp_pool *pool,
    struct trp_heap *heap, struct trp_timer *timer)
{
    put(table, pool, hash_of(timer->key), timer->box.unit);
    if (++table->count > KEYS_MOST * table->used &&
        table->count > TRP_BUCKET_KEYS) {
        split(table, pool, heap);
    }
}

void
trp_timer_table_remove(struct trp_timer_table *table,
    const struct trp_pool *pool, struct trp_heap *heap, struct trp_timer *timer)
{
    struct trp_bucket *bucket = bucket_of(table, hash_of(timer->key));
    uint32_t unit = timer->box.unit;
    uint32_t *link = &bucket->more;
    uint32_t i = 0;

    while (i < TRP_BUCKET_KEYS && bucket->unit[i] != unit) {
        i++;
    }
    if (i < TRP_BUCKET_KEYS) {
        fill(bucket, pool, i);
    } else {
        while (*link != unit) {
            link = &at(pool, *link)->next;
        }
        *link = timer->next;
    }
    table->count--;
    if (table->used > 1 && table->count < KEYS_LEAST * table->used) {
        join(table, pool, heap);
    }
}

struct trp_timer *
trp_timer_table_next(
    struct trp_timer_table *table, const struct trp_pool *pool, uint32_t *from)
{
    /* From the last one, which is joined to one that is still to come. */
    for (*from = *from < table->used ? *from : table->used;
         table->count != 0 && *from != 0; --*from) {
        const struct trp_bucket *last = bucket(table, *from - 1);

        for (uint32_t i = 0; i < TRP_BUCKET_KEYS; i++) {
            if (last->unit[i] != TRP_POOL_NONE) {
                return at(pool, last->unit[i]);
            }
        }
    }
    return NULL;
}
