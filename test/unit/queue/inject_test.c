/* SPDX-License-Identifier: MIT */
#include "queue/inject.h"

#include "support/await.h"

#include <criterion/criterion.h>

#include <pthread.h>

static struct trp_inject inject;

Test(queue_inject, a_new_one_is_empty)
{
    cr_assert(trp_inject_is_empty(&inject));
    cr_assert_null(trp_inject_take(&inject));
}

Test(queue_inject, what_came_first_is_first)
{
    struct trp_node nodes[100];
    struct trp_node *node;

    for (int i = 0; i < 100; i++) {
        trp_inject_push(&inject, &nodes[i]);
    }
    cr_assert_not(trp_inject_is_empty(&inject));
    node = trp_inject_take(&inject);
    for (int i = 0; i < 100; i++) {
        cr_assert_eq(node, &nodes[i]);
        node = trp_load_relaxed(&node->next);
    }
    cr_assert_null(node);
    cr_assert(trp_inject_is_empty(&inject));
}

Test(queue_inject, a_node_that_was_taken_can_be_pushed_again)
{
    struct trp_node only;

    for (int i = 0; i < 1000; i++) {
        trp_inject_push(&inject, &only);
        cr_assert_eq(trp_inject_take(&inject), &only);
        cr_assert_null(trp_load_relaxed(&only.next));
    }
}

/* --- real threads --------------------------------------------------------- */

#define PRODUCERS 4
#define EACH 50000

struct numbered {
    struct trp_node node; /* first */
    uint32_t producer;
    uint32_t number;
};

static struct numbered all[PRODUCERS][EACH];

static void *
produce(void *user)
{
    struct numbered *mine = user;

    for (uint32_t i = 0; i < EACH; i++) {
        trp_inject_push(&inject, &mine[i].node);
    }
    return NULL;
}

Test(queue_inject, every_producer_keeps_its_order_and_loses_nothing)
{
    pthread_t threads[PRODUCERS];
    uint32_t next[PRODUCERS] = {0};
    uint32_t total = 0;
    uint64_t end_ns = test_clock_ns() + TEST_DEADLINE_NS;

    for (uint32_t p = 0; p < PRODUCERS; p++) {
        for (uint32_t i = 0; i < EACH; i++) {
            all[p][i].producer = p;
            all[p][i].number = i;
        }
        cr_assert_eq(pthread_create(&threads[p], NULL, produce, all[p]), 0);
    }
    while (total < PRODUCERS * EACH && test_clock_ns() < end_ns) {
        for (struct trp_node *node = trp_inject_take(&inject); node != NULL;
             node = trp_load_relaxed(&node->next)) {
            struct numbered *n = (struct numbered *)(void *)node;

            cr_assert_eq(n->number, next[n->producer]);
            next[n->producer]++;
            total++;
        }
    }
    for (uint32_t p = 0; p < PRODUCERS; p++) {
        cr_assert_eq(pthread_join(threads[p], NULL), 0);
    }
    cr_assert_eq(total, PRODUCERS * EACH);
    cr_assert(trp_inject_is_empty(&inject));
}
