/* SPDX-License-Identifier: MIT */
#include "queue/table.h"

/* T1. */
static void
store_word(struct trp_table *table, uint32_t unit)
{
    /* relaxed: the owner alone writes it. */
    uint64_t version = (trp_load_relaxed(&table->word) >> 32) + 1;

    trp_store_release(&table->word, version << 32 | unit); /* pairs: table.word
                                                            */
}

static uint32_t
used(struct trp_table *table)
{
    return (uint32_t)trp_load_relaxed(&table->word); /* relaxed: owner */
}

static void
give(struct trp_pool *pool, uint32_t *unit)
{
    if (*unit != TRP_POOL_NONE) {
        trp_pool_give(pool, NULL, *unit);
        *unit = TRP_POOL_NONE;
    }
}

static uint32_t
take(struct trp_pool *pool, uint32_t bytes)
{
    uint32_t class = trp_log2_ceil(
        ((uint64_t)bytes + (UINT64_C(1) << pool->unit_shift) - 1) >>
        pool->unit_shift);

    return class < pool->classes ? trp_pool_take(pool, NULL, class)
                                 : TRP_POOL_NONE;
}

bool
trp_table_reserve(
    struct trp_pool *pool, struct trp_table *table, uint32_t bytes)
{
    uint32_t spare, later;

    if (bytes <= table->bytes) {
        return true;
    }
    spare = take(pool, bytes);
    later = spare != TRP_POOL_NONE ? take(pool, bytes) : TRP_POOL_NONE;
    if (later == TRP_POOL_NONE) {
        give(pool, &spare);
        return false;
    }
    give(pool, &table->spare);
    give(pool, &table->later);
    table->spare = spare;
    table->later = later;
    table->bytes = bytes;
    return true;
}

void
trp_table_publish(struct trp_pool *pool, struct trp_table *table)
{
    uint32_t before = used(table);

    TRP_ASSERT(table->spare != TRP_POOL_NONE);
    store_word(table, table->spare);
    if (table->later != TRP_POOL_NONE) { /* the one before is too small */
        give(pool, &before);
        table->spare = table->later;
        table->later = TRP_POOL_NONE;
    } else {
        table->spare = before;
    }
}

void
trp_table_close(struct trp_pool *pool, struct trp_table *table)
{
    uint32_t before = used(table);

    store_word(table, TRP_POOL_NONE);
    give(pool, &before);
    give(pool, &table->spare);
    give(pool, &table->later);
    table->bytes = 0;
}
