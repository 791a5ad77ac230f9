/* SPDX-License-Identifier: MIT */
#ifndef TRP_ACTOR_TIMER_TABLE_H
#define TRP_ACTOR_TIMER_TABLE_H

/*
 * The timers of an actor by key. Linear hashing (Litwin, VLDB 1980): the table
 * grows and shrinks by one bucket at a time, so no start pays for all others.
 *
 *     bucket 0        1 .. 16             17 .. 32
 *     [in the table]  [ chunk 0 ]         [ chunk 1 ]        ...
 *
 *     a bucket is a cache line: 7 hashes with the units of their timers, and a
 *     chain of those that have no room, through the timers
 *
 * A key that is not there costs this line, and one that is its timer's as well.
 * Of `used` buckets a hash names that of its low bits; one that is not there
 * yet is still part of the one with one bit less. Owner of S only.
 */

#include <stdbool.h>
#include <stdint.h>

#define TRP_BUCKET_KEYS 7u
#define TRP_CHUNK_BUCKETS 16u

struct trp_pool;
struct trp_heap;
struct trp_timer;

struct trp_bucket {
    uint32_t hash[TRP_BUCKET_KEYS];
    uint32_t unit[TRP_BUCKET_KEYS]; /* of the pool; 0 = none */
    uint32_t more;                  /* the chain: unit of the first */
    uint32_t reserved;
};

struct trp_timer_table {
    uint32_t count; /* timers */
    uint32_t used;  /* buckets, at least 1 */
    uint32_t chunks;
    uint32_t room; /* of the directory */
    struct trp_bucket **chunk;
    struct trp_bucket first;
};

static inline void
trp_timer_table_init(struct trp_timer_table *table)
{
    *table = (struct trp_timer_table){.used = 1};
}

/* What is in it stays its owner's. */
void trp_timer_table_fini(struct trp_timer_table *table, struct trp_heap *heap);

/* NULL: it is not there. */
struct trp_timer *trp_timer_table_find(
    struct trp_timer_table *table, const struct trp_pool *pool, uint64_t key);
/* Its key is not there. Without memory the chains become longer. */
void trp_timer_table_add(struct trp_timer_table *table,
    const struct trp_pool *pool, struct trp_heap *heap,
    struct trp_timer *timer);
/* It is there. */
void trp_timer_table_remove(struct trp_timer_table *table,
    const struct trp_pool *pool, struct trp_heap *heap,
    struct trp_timer *timer);
/*
 * One of those that are left, NULL if none is. To take all out one by one in
 * O(count), with `*from` UINT32_MAX at first and nothing added meanwhile.
 */
struct trp_timer *trp_timer_table_next(
    struct trp_timer_table *table, const struct trp_pool *pool, uint32_t *from);

#endif /* TRP_ACTOR_TIMER_TABLE_H */
