/* SPDX-License-Identifier: MIT */
#ifndef TRP_QUEUE_TABLE_H
#define TRP_QUEUE_TABLE_H

/*
 * A table that one owner replaces as a whole and any thread reads.
 *
 *     word {version | unit} ---> block in use     what readers look at
 *                                spare block      the owner fills it, then
 *                                                 stores the word: they swap
 *
 * read     loads the word, loads from the block, loads the word again: the
 *          same, then all of it was of one version. Lock-free: a reader looks
 *          again only if the owner has published meanwhile.
 * reserve  makes both blocks large enough; may fail. Owner.
 * publish  the spare block becomes the one in use. Wait-free; owner. Never
 *          fails: what has become smaller can always be said.
 *
 * Nobody waits for anybody: an owner or a reader that is preempted holds up
 * nobody.
 *
 * Invariants
 *   T1  The version grows with each publish, over all uses of this memory. So
 *       a word that is the same is the same table.
 *   T2  Blocks are of a kept pool: never unmapped, so a late reader reads what
 *       is no longer the table, and sees that by the word.
 *   T3  Whatever is stored into a block is stored with release and loaded with
 *       acquire. A reader that sees a value of a later version therefore sees
 *       the word, or one after it, that was stored before that value.
 *
 * Pairs
 *   table.word  store of word -> load of word: what the block holds.
 *   table.entry store into a block -> load from a block: that the version
 *               which the block had before is no longer in the word.
 *
 * Not promised: ABA after exactly 2^32 versions within one read.
 */

#include "base/assert.h"
#include "queue/pool.h"

struct trp_table {
    TRP_ATOMIC(uint64_t) word; /* any thread reads; version, unit or none */
    /* owner */
    uint32_t spare; /* the next version is written there */
    uint32_t later; /* what is spare after the next publish, or none: the same
                       block as now */
    uint32_t bytes; /* that the next versions can have */
};

struct trp_table_view {
    uint64_t word;
    const void *block; /* NULL: there is no table */
};

static inline struct trp_table_view
trp_table_view(const struct trp_pool *pool, struct trp_table *table)
{
    struct trp_table_view view;
    uint32_t unit;

    view.word = trp_load_acquire(&table->word); /* pairs: table.word */
    unit = (uint32_t)view.word;
    view.block = unit != TRP_POOL_NONE ? trp_pool_address(pool, unit) : NULL;
    return view;
}

/* What was loaded since the view was made is all of one version. */
static inline bool
trp_table_is_current(struct trp_table *table, const struct trp_table_view *view)
{
    return trp_load_acquire(&table->word) == view->word; /* pairs: table.word */
}

/* Owner. False: no memory, and nothing has changed for readers. */
bool trp_table_reserve(
    struct trp_pool *pool, struct trp_table *table, uint32_t bytes);

/* Owner, after a reserve: where the next version is written. */
static inline void *
trp_table_next(const struct trp_pool *pool, const struct trp_table *table)
{
    TRP_ASSERT(table->spare != TRP_POOL_NONE);
    return trp_pool_address(pool, table->spare);
}

/* Owner. What was written into the next block is the table. */
void trp_table_publish(struct trp_pool *pool, struct trp_table *table);

/* Owner. There is no table; the blocks are given back. */
void trp_table_close(struct trp_pool *pool, struct trp_table *table);

#endif /* TRP_QUEUE_TABLE_H */
