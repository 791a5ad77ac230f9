/* SPDX-License-Identifier: MIT */
#ifndef TRP_ACTOR_TURN_H
#define TRP_ACTOR_TURN_H

#include "sched/worker.h"

/* One turn of the cell that `task` is part of: the scheduler's run function. */
void trp_turn(struct trp_worker *worker, struct trp_task *task);
/* The same with metrics on: some turns are measured, see actor/meter.h. */
void trp_turn_metered(struct trp_worker *worker, struct trp_task *task);

#endif /* TRP_ACTOR_TURN_H */
