/* SPDX-License-Identifier: MIT */
#ifndef TRP_QUEUE_INJECT_H
#define TRP_QUEUE_INJECT_H

/*
 * Any thread in, all of it out at once. Intrusive.
 *
 *     newest -> node -> node -> oldest -> NULL
 *
 * push    lock-free: a preempted producer holds up nobody.
 * take    wait-free: one swap; the taker reverses the list, so what came first
 *         is first. No ABA: nodes leave only all together.
 *
 * Pairs
 *   inject.push  CAS of newest -> swap of newest: the nodes and what they
 *                are part of.
 */

#include "base/atomic.h"

#include <stddef.h>

struct trp_node {
    TRP_ATOMIC(struct trp_node *) next; /* whoever holds the node */
};

struct trp_inject {
    TRP_ATOMIC(struct trp_node *) newest;
};

/* Any thread. */
static inline void
trp_inject_push(struct trp_inject *inject, struct trp_node *node)
{
    /* relaxed: checked by the CAS, not followed. */
    struct trp_node *newest = trp_load_relaxed(&inject->newest);

    do {
        trp_store_relaxed(&node->next, newest); /* relaxed: by the CAS */
    } while (!trp_cas_acq_rel(
        &inject->newest, &newest, node)); /* pairs: inject.push */
}

/* Any thread; oldest first, linked by next, or NULL. */
static inline struct trp_node *
trp_inject_take(struct trp_inject *inject)
{
    struct trp_node *list = NULL;
    struct trp_node *node;

    /* relaxed: a look; the swap decides. */
    if (trp_load_relaxed(&inject->newest) == NULL) {
        return NULL;
    }
    node = trp_swap_acq_rel(&inject->newest, NULL); /* pairs: inject.push */
    while (node != NULL) {
        /* relaxed: ours since the swap. */
        struct trp_node *next = trp_load_relaxed(&node->next);

        trp_store_relaxed(&node->next, list); /* relaxed: ours */
        list = node;
        node = next;
    }
    return list;
}

/* Where nobody else pushes or takes meanwhile. */
static inline uint32_t
trp_inject_count(struct trp_inject *inject)
{
    struct trp_node *node =
        trp_load_acquire(&inject->newest); /* pairs: inject.push */
    uint32_t count = 0;

    for (; node != NULL; count++) {
        node = trp_load_relaxed(&node->next); /* relaxed: published above */
    }
    return count;
}

static inline bool
trp_inject_is_empty(struct trp_inject *inject)
{
    return trp_load_acquire(&inject->newest) == NULL; /* pairs: inject.push */
}

#endif /* TRP_QUEUE_INJECT_H */
