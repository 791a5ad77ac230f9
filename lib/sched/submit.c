/* SPDX-License-Identifier: MIT */
#include "sched/submit.h"

#include "os/thread.h"

void
trp_submit_raise(struct trp_sched *sched)
{
    if (trp_swap_acq_rel(&sched->raised, 1) == 0 && /* pairs: driven.raised */
        sched->ordered) {
        trp_notify_raise(&sched->alert.notify);
    }
}

void
trp_submit_foreign(struct trp_sched *sched, struct trp_task *task)
{
    uint64_t state;

    trp_inject_push(&sched->inject, &task->node);
    if (sched->driven) {
        trp_submit_raise(sched);
        return;
    }
    state = trp_add_acq_rel(&sched->idle.state, 0); /* pairs: idle.state */
    if (trp_idle_parked(state) != 0 && trp_idle_searching(state) == 0) {
        trp_idle_wake_one(sched, true);
    }
}

void
trp_submit_overflow(struct trp_worker *worker, struct trp_task *task)
{
    trp_inject_push(&worker->inbox, &task->node);
    trp_submit_watch(worker);
}

void
trp_submit_stalled(struct trp_worker *worker, struct trp_task *task)
{
    bool alone = trp_worker_is_alone(worker);

    trp_submit_last(worker, task);
    if (alone) {
        trp_thread_yield();
    }
}
