/* SPDX-License-Identifier: MIT */
#ifndef TRP_SCHED_SUBMIT_H
#define TRP_SCHED_SUBMIT_H

/*
 * Data path 4 of 6: make runnable. From queue/ring.h, next sched/worker.c.
 *
 * Whoever set S of a task's ring submits it, once. On a worker it goes into the
 * slot, to run next while its message is in the cache; the one that was there
 * goes to the deque, where thieves find it. A task that used up its throughput
 * goes to the end of the yield queue. Foreign threads use the injector.
 *
 * Nobody robs the only worker, nor any if stealing is off: then slot and queues
 * are plain memory of one thread (is_robbed is false).
 *
 * Pairs
 *   slot.task   store or swap into the slot -> swap out of it, by owner or
 *               thief: the task and what it is part of.
 */

#include "sched/worker.h"

/* Into the injector; wakes a sleeper. Any thread; never fails, never blocks. */
void trp_submit_foreign(struct trp_sched *sched, struct trp_task *task);
/* driven: makes the host look again. Any thread. */
void trp_submit_raise(struct trp_sched *sched);
/* No memory for the deque: the inbox needs none. */
void trp_submit_overflow(struct trp_worker *worker, struct trp_task *task);

/*
 * Submits last a task that waits for a preempted sender; lets the sender have
 * the processor if this worker has nothing else to do.
 */
void trp_submit_stalled(struct trp_worker *worker, struct trp_task *task);

/* On `worker`'s own thread, from here on. */

/* Something that thieves take: unless somebody searches, who will find it. */
TRP_INLINE void
trp_submit_wake(struct trp_worker *worker)
{
    struct trp_sched *sched = worker->sched;
    /* relaxed: a worker runs what it pushed itself, and looks again. */
    uint64_t state = trp_load_relaxed(&sched->idle.state);

    if (TRP_UNLIKELY(trp_idle_wakeable(state) != 0) &&
        trp_idle_searching(state) == 0 && sched->steal != TRP_STEAL_OFF) {
        trp_idle_wake_one(sched, false);
    }
}

/* Something that only a stuck worker loses: somebody has to watch, muted or
 * not.
 */
TRP_INLINE void
trp_submit_watch(struct trp_worker *worker)
{
    struct trp_sched *sched = worker->sched;
    uint64_t state =
        trp_load_relaxed(&sched->idle.state); /* relaxed: as above */

    if (TRP_UNLIKELY(trp_idle_parked(state) != 0) &&
        trp_idle_searching(state) == 0 && trp_idle_watcher(state) == 0 &&
        sched->steal != TRP_STEAL_OFF) {
        trp_idle_wake_one(sched, true);
    }
}

TRP_INLINE void
trp_submit_deque(struct trp_worker *worker, struct trp_task *task)
{
    if (TRP_UNLIKELY(!trp_deque_push(&worker->deque, task))) {
        trp_submit_overflow(worker, task);
        return;
    }
    trp_submit_wake(worker);
}

/* Nobody else waits for this worker, as far as it knows. */
TRP_INLINE bool
trp_worker_is_alone(struct trp_worker *worker)
{
    /* relaxed: a look. */
    return trp_load_relaxed(&worker->slot) == NULL &&
           trp_deque_length(&worker->deque) == 0 &&
           trp_deque_length(&worker->yield) == 0;
}

/* To run next. */
TRP_INLINE void
trp_submit(struct trp_worker *worker, struct trp_task *task)
{
    /* relaxed: only this thread puts something in. */
    struct trp_task *before = trp_load_relaxed(&worker->slot);

    if (TRP_LIKELY(before == NULL)) {
        trp_store_release(&worker->slot, task); /* pairs: slot.task */
        trp_submit_watch(worker);
        return;
    }
    if (worker->is_robbed) {
        before = trp_swap_acq_rel(&worker->slot, task); /* pairs: slot.task */
    } else {
        trp_store_relaxed(&worker->slot, task); /* relaxed: one thread */
    }
    if (before != NULL) {
        trp_submit_deque(worker, before);
    }
}

/* After everybody who waits already. */
TRP_INLINE void
trp_submit_last(struct trp_worker *worker, struct trp_task *task)
{
    if (TRP_UNLIKELY(!trp_deque_push(&worker->yield, task))) {
        trp_submit_overflow(worker, task);
        return;
    }
    trp_submit_wake(worker);
}

#endif /* TRP_SCHED_SUBMIT_H */
