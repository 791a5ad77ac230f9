/* SPDX-License-Identifier: MIT */
#ifndef TRP_SCHED_STEAL_H
#define TRP_SCHED_STEAL_H

#include "sched/worker.h"

/* Before the first steal. */
void trp_steal_init(struct trp_worker *worker);

/* Work of another worker, or NULL. The rules are in steal.c. */
struct trp_task *trp_steal(struct trp_worker *thief);

/* By a worker on trial or under licence, now and then between two turns. */
void trp_steal_review(struct trp_worker *worker);

/*
 * How long the worker has been told to leave the others alone, as a time on the
 * monotonic clock; 0 = it need not.
 */
uint64_t trp_steal_muted_until(const struct trp_worker *worker);

/*
 * Is there something that a free worker could take, or that was injected? Any
 * thread that does not run `except`.
 */
bool trp_steal_is_possible(
    struct trp_sched *sched, const struct trp_worker *except);

/*
 * For the watcher, about once per millisecond: has a worker made no progress
 * since the last call, and holds back others?
 */
bool trp_steal_sees_stuck(struct trp_worker *watcher);

#endif /* TRP_SCHED_STEAL_H */
