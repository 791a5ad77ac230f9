/* SPDX-License-Identifier: MIT */
#include "base/clock.h"
#include "base/error.h"
#include "os/thread.h"
#include "sched/steal.h"
#include "sched/submit.h"
#include "sched/worker.h"

#include <stdio.h>
#include <string.h>

/* Start, stop, and driven mode: the scheduler without threads. */

static bool
init_worker(struct trp_sched *sched, uint32_t index, uint64_t seed)
{
    struct trp_worker *worker = &sched->workers[index];

    worker->sched = sched;
    worker->index = index;
    worker->is_robbed = sched->steal != TRP_STEAL_OFF;
    worker->rng.state = seed + index;
    trp_steal_init(worker);
    worker->progress[0] = worker->progress[1] = worker->progress[2] =
        &worker->turns;
    worker->seen =
        trp_heap_alloc(sched->heap, sched->allocated * sizeof *worker->seen);
    return worker->seen != NULL &&
           trp_deque_init(&worker->deque, sched->heap) &&
           trp_deque_init(&worker->yield, sched->heap);
}

troupe_status
trp_sched_init(struct trp_sched *sched, struct trp_heap *heap,
    const struct trp_sched_options *options)
{
    uint32_t count = options->driven ? 1 : options->workers;
    uint64_t seed = options->seed != 0 ? options->seed : trp_clock_ns();

    /* relaxed: published with the threads; later a switch. */
    trp_store_relaxed(&sched->run, options->run);
    sched->rest = options->rest;
    sched->heap = heap;
    sched->spin_ns = options->spin_ns;
    sched->steal = count > 1 ? options->steal : TRP_STEAL_OFF;
    sched->driven = options->driven;
    sched->ordered = options->driven && options->seed == 0;
    sched->workers = trp_heap_alloc(heap, count * sizeof *sched->workers);
    if (sched->workers == NULL) {
        return TROUPE_E_NOMEM;
    }
    sched->count = sched->allocated = count;
    trp_alarms_init(&sched->alarms);
    for (uint32_t i = 0; i < count; i++) {
        if (!init_worker(sched, i, seed)) {
            return TROUPE_E_NOMEM;
        }
    }
    if (sched->ordered && !trp_alert_open(&sched->alert)) {
        return trp_refuse(TROUPE_E_SYSTEM, "troupe_system_create", "descriptor",
            "could not be opened", "eventfd, timerfd or epoll");
    }
    return TROUPE_OK;
}

/* How many workers there are is settled: they may look at each other. */
static void
let_go(struct trp_sched *sched)
{
    trp_store_release(&sched->go, 1); /* pairs: sched.go */
    trp_futex_wake(&sched->go, INT32_MAX);
}

troupe_status
trp_sched_start(
    struct trp_sched *sched, const struct trp_sched_options *options)
{
    for (uint32_t i = 0; i < sched->count && !sched->driven; i++) {
        struct trp_worker *worker = &sched->workers[i];
        char name[64];

        snprintf(name, sizeof name, "%.7s/w%u", options->name, i);
        worker->started = trp_thread_start(&worker->thread, name,
            options->stack_bytes, trp_worker_thread, worker);
        if (worker->started) {
            continue;
        }
        trp_refuse(TROUPE_E_SYSTEM, "troupe_system_create", "workers",
            "could not be started", "worker %u of %u", i, sched->count);
        if (i == 0 || !options->fewer_workers) {
            trp_sched_stop(sched);
            return TROUPE_E_SYSTEM;
        }
        sched->count = i;
        if (i == 1) {
            sched->steal = TRP_STEAL_OFF;
        }
    }
    let_go(sched);
    return TROUPE_OK;
}

void
trp_sched_stop(struct trp_sched *sched)
{
    trp_store_release(&sched->stopping, 1); /* pairs: sched.stopping */
    let_go(sched);
    trp_idle_wake_all(sched);
    for (uint32_t i = 0; i < sched->count; i++) {
        if (sched->workers[i].started) {
            trp_thread_join(sched->workers[i].thread);
            sched->workers[i].started = false;
        }
    }
    /* Nobody parks any more: who awaits that need not wait. */
    trp_add_acq_rel(&sched->idle.quiet, 1); /* pairs: idle.quiet */
    trp_futex_wake(&sched->idle.quiet, INT32_MAX);
}

void
trp_sched_fini(struct trp_sched *sched)
{
    for (uint32_t i = 0; i < sched->allocated; i++) {
        struct trp_worker *worker = &sched->workers[i];

        if (worker->sched == NULL) {
            continue; /* was never reached by init */
        }
        trp_deque_fini(&worker->deque);
        trp_deque_fini(&worker->yield);
        trp_heap_free(
            sched->heap, worker->seen, sched->allocated * sizeof *worker->seen);
    }
    trp_heap_free(
        sched->heap, sched->workers, sched->allocated * sizeof *sched->workers);
    sched->workers = NULL;
    sched->count = sched->allocated = 0;
    trp_alert_close(&sched->alert);
}

/* Everything that waits, in the deque: what a seed draws from. */
static void
gather(struct trp_worker *worker)
{
    struct trp_task *task;

    trp_worker_gather(worker);
    while ((task = trp_deque_steal(&worker->yield)) != NULL) {
        trp_submit_deque(worker, task);
    }
    /* relaxed: one thread. */
    task = trp_load_relaxed(&worker->slot);
    if (task != NULL) {
        trp_store_relaxed(&worker->slot, NULL); /* relaxed: one thread */
        trp_submit_deque(worker, task);
    }
}

static struct trp_task *
next_waiting(struct trp_sched *sched)
{
    struct trp_worker *worker = &sched->workers[0];
    uint32_t count;

    if (sched->ordered) {
        return trp_worker_pick(worker);
    }
    (void)trp_alarm_fire_due(worker);
    gather(worker);
    count = trp_deque_length(&worker->deque);
    if (count == 0) {
        return NULL;
    }
    /* Any number of them goes round once; the drawn one is then the oldest. */
    for (uint32_t skip = trp_rng_below(&worker->rng, count); skip > 0; skip--) {
        trp_submit_deque(worker, trp_deque_steal(&worker->deque));
    }
    return trp_deque_steal(&worker->deque);
}

struct trp_task *
trp_sched_next_driven(struct trp_sched *sched)
{
    struct trp_task *task = next_waiting(sched);

    while (task == NULL && trp_alarm_fire_due(&sched->workers[0])) {
        task = next_waiting(sched);
    }
    return task;
}

uint32_t
trp_sched_runnable(struct trp_sched *sched)
{
    struct trp_worker *worker = &sched->workers[0];
    uint32_t count;

    trp_worker_gather(worker);
    count = trp_deque_length(&worker->deque) + trp_deque_length(&worker->yield);
    /* What there was no memory to queue. */
    count += trp_inject_count(&worker->inbox) +
             trp_inject_count(&worker->inbox_last);
    /* relaxed: one thread. */
    return count + (trp_load_relaxed(&worker->slot) != NULL ? 1 : 0);
}

/* Nothing can run, but for what another thread brings meanwhile. */
static bool
is_at_rest(struct trp_sched *sched)
{
    /*
     * First the token, then the flag, then a last look: a thread that pushed or
     * set an alarm while the flag was up did not raise, and is seen here.
     */
    trp_notify_clear(&sched->alert.notify);
    trp_swap_acq_rel(&sched->raised, 0); /* pairs: driven.raised */
    if (!trp_inject_is_empty(&sched->inject)) {
        return false;
    }
    trp_alert_arm(&sched->alert, trp_alarm_next_wake(&sched->alarms));
    return true;
}

void
trp_sched_settle(struct trp_sched *sched)
{
    if (!sched->ordered ||
        (trp_sched_runnable(sched) == 0 &&
            !trp_alarm_is_due(&sched->alarms, trp_alarm_now(sched)) &&
            is_at_rest(sched))) {
        return;
    }
    if (trp_swap_acq_rel(&sched->raised, 1) == 0) { /* pairs: driven.raised */
        trp_notify_raise(&sched->alert.notify);
    }
}
