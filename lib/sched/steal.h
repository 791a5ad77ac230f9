/* SPDX-License-Identifier: MIT */
#ifndef TRP_SCHED_STEAL_H
#define TRP_SCHED_STEAL_H

#include "sched/worker.h"

/* Work of another worker, or NULL. The rules are in steal.c. */
struct trp_task *trp_steal(struct trp_worker *thief);

/*
 * Is there something that trp_steal() would take, or that was injected? Any
 * thread that does not run `except`.
 */
bool trp_steal_is_possible(
    struct trp_sched *sched, const struct trp_worker *except);

/*
 * For the watcher, about once per millisecond: has a worker finished no turn
 * since the last call, and holds back others?
 */
bool trp_steal_sees_stuck(struct trp_worker *watcher);

#endif /* TRP_SCHED_STEAL_H */
