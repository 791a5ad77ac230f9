/* SPDX-License-Identifier: MIT */
#ifndef TRP_ACTOR_DELAYED_H
#define TRP_ACTOR_DELAYED_H

/*
 * A message that is sent later. Its block is never unmapped and has a life, so
 * an id {block, generation} can be looked at for ever:
 *
 *     FREE --> PENDING --fire()--> FREE of the next generation, and it is sent
 *                 |
 *                 +--cancel--> CANCELLED: it will not be sent
 *
 * Whoever changes PENDING decides. If that is cancel, and the alarm cannot be
 * taken back any more, fire() and cancel both leave: the second one frees it.
 *
 * Pairs
 *   delayed.life  store of life -> CAS of it by cancel or fire(): the message.
 *                 Swap by who leaves first -> swap by the second one: nobody
 *                 else looks at it.
 */

#include "actor/message.h"
#include "sched/alarm.h"

struct trp_delayed {
    struct trp_alarm alarm;
    TRP_ATOMIC(uint64_t) life; /* generation:32, state:32 */
    troupe_ref to;
    struct trp_item item;
};

/* No thread is left: what is pending is dropped. */
void trp_delayed_fini(struct trp_core *core);

#endif /* TRP_ACTOR_DELAYED_H */
