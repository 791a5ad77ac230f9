/* SPDX-License-Identifier: MIT */
#ifndef MODEL_SUPPORT_H
#define MODEL_SUPPORT_H

/* Memory that starts afresh with each schedule, and a place for turns. */

#include "engine.h"
#include "queue/pool.h"

/* A heap whose blocks all go when the next schedule begins. */
extern struct trp_heap model_heap;

void model_heap_begin(void);
/* The bytes that were allocated and not freed. */
uint64_t model_heap_live(void);
/* Fails if a block was written to after it was freed. */
void model_heap_check_freed(void);

/*
 * A pool as after init. The address space is reserved in the first schedule
 * only; of each block that was used the first `wipe_bytes` are made zero.
 */
void model_pool_begin(struct trp_pool *pool, const struct trp_pool_shape *shape,
    size_t wipe_bytes);

/*
 * Turns of one task: whoever set S puts one in, one of several threads takes it
 * out. Two at a time is a failure.
 */
struct model_turns {
    TRP_ATOMIC(uint32_t) count;
};

#define MODEL_TURNS_OVER UINT32_C(0x80000000)

void model_turns_put(struct model_turns *turns);
/* Sleeps until there is one. False: it is over. */
bool model_turns_take(struct model_turns *turns);
void model_turns_end(struct model_turns *turns);

#endif /* MODEL_SUPPORT_H */
