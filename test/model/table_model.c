/* SPDX-License-Identifier: MIT */

/*
 * lib/queue/table.h and table.c: an owner that publishes versions, grows,
 * shrinks and closes, another one whose table takes the same blocks, readers
 * that look at both.
 *
 * Oracle: every number in a version names its table and its version. A reader
 * for whom the word has not changed has read numbers of one table and of the
 * version that is in the word, as many as there are (T1, T3).
 */

#include "engine.h"
#include "interleave.h"
#include "queue/table.h"
#include "runner.h"
#include "support.h"

#include <string.h>

/* Three numbers fit into a block of class 0, seven into one of class 1. */
static const struct trp_pool_shape shape = {.unit_shift = 5,
    .region_shift = 12,
    .classes = 3,
    .kept = true};
static struct trp_pool pool;
static struct trp_table tables[2];

struct block {
    TRP_ATOMIC(uint64_t) count;
    TRP_ATOMIC(uint64_t) number[];
};

static void
begin(void)
{
    model_heap_begin();
    model_pool_begin(&pool, &shape, 64);
    memset(tables, 0, sizeof tables);
    model_name(&tables[0].word, "word0");
    model_name(&tables[1].word, "word1");
}

static void
publish(uint32_t which, uint32_t count)
{
    struct trp_table *table = &tables[which];
    uint64_t number;
    struct block *block;

    if (!trp_table_reserve(&pool, table,
            (uint32_t)(sizeof *block + count * sizeof block->number[0]))) {
        MODEL_CHECK(false, "no memory");
        return;
    }
    number = ((trp_load_relaxed(&table->word) >> 32) + 1) << 8 | which;
    block = trp_table_next(&pool, table);
    for (uint32_t i = 0; i < count; i++) {
        trp_store_release(&block->number[i], number);
    }
    trp_store_release(&block->count, count);
    trp_table_publish(&pool, table);
}

static void
read_one(uint32_t which)
{
    struct trp_table_view view = trp_table_view(&pool, &tables[which]);
    const struct block *block = view.block;
    uint64_t expected = (view.word >> 32) << 8 | which;
    uint64_t numbers[7];
    uint64_t count;

    if (block == NULL) {
        return;
    }
    count = trp_load_acquire(&block->count);
    for (uint64_t i = 0; i < count && i < 7; i++) {
        numbers[i] = trp_load_acquire(&block->number[i]);
    }
    if (!trp_table_is_current(&tables[which], &view)) {
        return;
    }
    MODEL_CHECK(
        count >= 1 && count <= 7, "%llu numbers", (unsigned long long)count);
    for (uint64_t i = 0; i < count; i++) {
        MODEL_CHECK(numbers[i] == expected, "number %llu is %llx, not %llx",
            (unsigned long long)i, (unsigned long long)numbers[i],
            (unsigned long long)expected);
    }
}

static void
read_some(void *user)
{
    (void)user;
    read_one(0);
    read_one(0);
}

static void
read_both(void *user)
{
    (void)user;
    read_one(1);
    read_one(0);
}

/* The number of routees goes up and down. */
static void
change(void *user)
{
    uint32_t which = (uint32_t)(uintptr_t)user;

    publish(which, 3);
    publish(which, 2);
    publish(which, 3);
}

static void
grow(void *user)
{
    uint32_t which = (uint32_t)(uintptr_t)user;

    publish(which, 5);
    publish(which, 1);
    publish(which, 7);
}

/* A life ends, and the next one takes what blocks there are. */
static void
reuse(void *user)
{
    uint32_t which = (uint32_t)(uintptr_t)user;

    publish(which, 2);
    trp_table_close(&pool, &tables[which]);
    publish(which, 3);
}

static void
run(void (*first)(void *), void (*second)(void *))
{
    int threads[4];

    begin();
    publish(0, 2);
    publish(1, 3);
    threads[0] = model_spawn("owner0", first, (void *)0);
    threads[1] = model_spawn("owner1", second, (void *)1);
    threads[2] = model_spawn("reader", read_some, NULL);
    threads[3] = model_spawn("both", read_both, NULL);
    for (int i = 0; i < 4; i++) {
        model_join(threads[i]);
    }
    read_one(0);
    read_one(1);
    trp_table_close(&pool, &tables[0]);
    trp_table_close(&pool, &tables[1]);
    MODEL_CHECK(trp_pool_live_bytes(&pool) == 0, "%lld bytes are in use",
        (long long)trp_pool_live_bytes(&pool));
}

static void
one_changes(void)
{
    int threads[2];

    begin();
    publish(0, 3);
    threads[0] = model_spawn("owner", change, (void *)0);
    threads[1] = model_spawn("reader", read_some, NULL);
    model_join(threads[0]);
    model_join(threads[1]);
    read_one(0);
    trp_table_close(&pool, &tables[0]);
}

static void
both_grow(void)
{
    run(grow, grow);
}

static void
lives_end(void)
{
    run(reuse, reuse);
}

int
main(int argc, char **argv)
{
    static const struct model_scenario scenarios[] = {
        {"one_changes", one_changes, 100},
        {"both_grow", both_grow, 50},
        {"lives_end", lives_end, 50},
    };

    return model_main(
        argc, argv, "table", scenarios, sizeof scenarios / sizeof scenarios[0]);
}
