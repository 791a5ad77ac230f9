/* SPDX-License-Identifier: MIT */
#include "sched/worker.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "base/error.h"
#include "sched/steal.h"
#include "sched/submit.h"

/*
 * Data path 5 of 6: choose. From sched/submit.h, next actor/turn.c.
 *
 * What a worker runs next, in this order:
 *
 *   every 64th dispatch   alarms that are due, what foreign threads brought
 *   every 16th dispatch   the oldest of the deque
 *   slot                  at most SLOT_RUNS in a row while others wait
 *   deque, yield          one yielder after a fair number from the deque
 *   injector, other workers, sleep
 *
 * So with every worker busy a task that can run starts within 16 x (tasks that
 * can run / workers) turns, and a foreign post or an alarm is seen within 64.
 */

#define INJECT_EVERY 64u
#define OLDEST_EVERY 16u
#define SLOT_RUNS 3u
/* Rests between two looks at other workers, 25 ns each. */
#define SEARCH_RESTS 40

static void
queue_all(struct trp_worker *worker, struct trp_node *node)
{
    uint64_t count = 0;

    for (; node != NULL; count++) {
        /* relaxed: ours since the injector gave it. */
        struct trp_node *next = trp_load_relaxed(&node->next);

        trp_submit_last(worker, TRP_CONTAINER_OF(node, struct trp_task, node));
        node = next;
    }
    trp_count(&worker->injected, count);
}

static void
fire_due(struct trp_worker *worker)
{
    if (TRP_UNLIKELY(trp_alarm_fire_due(worker))) {
        trp_idle_carry_on(worker->sched);
    }
}

/* Nobody could steal them from here: each worker gets its share. */
static void
deal(struct trp_worker *worker, struct trp_node *node)
{
    struct trp_sched *sched = worker->sched;
    uint32_t to = worker->index;

    while (node != NULL) {
        /* relaxed: ours since the injector gave it. */
        struct trp_node *next = trp_load_relaxed(&node->next);

        to = to + 1 < sched->count ? to + 1 : 0;
        if (to == worker->index) {
            trp_submit_last(
                worker, TRP_CONTAINER_OF(node, struct trp_task, node));
        } else {
            trp_inject_push(&sched->workers[to].inbox_last, node);
            trp_idle_wake(sched, to);
        }
        trp_count(&worker->injected, 1);
        node = next;
    }
}

/* What foreign threads brought: the first now, the others in their order. */
static struct trp_task *
take_injected(struct trp_worker *worker)
{
    struct trp_node *list = trp_inject_take(&worker->sched->inject);
    struct trp_node *rest;

    if (list == NULL) {
        return NULL;
    }
    trp_count(&worker->injected, 1);
    /* relaxed: ours since the injector gave it. */
    rest = trp_load_relaxed(&list->next);
    if (worker->sched->steal == TRP_STEAL_OFF) {
        deal(worker, rest);
    } else {
        queue_all(worker, rest);
    }
    return TRP_CONTAINER_OF(list, struct trp_task, node);
}

/* What a thief handed back, or had no memory to queue. */
static void
take_inbox(struct trp_worker *worker)
{
    struct trp_node *node = trp_inject_take(&worker->inbox);

    while (node != NULL) {
        /* relaxed: ours since the inbox gave it. */
        struct trp_node *next = trp_load_relaxed(&node->next);

        trp_submit_deque(worker, TRP_CONTAINER_OF(node, struct trp_task, node));
        node = next;
    }
    queue_all(worker, trp_inject_take(&worker->inbox_last));
}

void
trp_worker_gather(struct trp_worker *worker)
{
    queue_all(worker, trp_inject_take(&worker->sched->inject));
    take_inbox(worker);
}

static struct trp_task *
take_slot(struct trp_worker *worker)
{
    /* relaxed: a look; the swap decides. */
    struct trp_task *task = trp_load_relaxed(&worker->slot);

    if (task == NULL) {
        return NULL;
    }
    if (worker->is_robbed) {
        return trp_swap_acq_rel(&worker->slot, NULL); /* pairs: slot.task */
    }
    trp_store_relaxed(&worker->slot, NULL); /* relaxed: one thread */
    return task;
}

static struct trp_task *
take_newest(struct trp_worker *worker)
{
    return worker->is_robbed ? trp_deque_pop(&worker->deque)
                             : trp_deque_pop_own(&worker->deque);
}

static struct trp_task *
take_oldest(struct trp_worker *worker, struct trp_deque *deque)
{
    return worker->is_robbed ? trp_deque_steal(deque)
                             : trp_deque_shift_own(deque);
}

/*
 * The next of those that used up their throughput. Then the deque may run as
 * many as wait there now, divided among the yielders.
 */
static struct trp_task *
take_yielder(struct trp_worker *worker)
{
    struct trp_task *task = take_oldest(worker, &worker->yield);
    uint32_t yielders;

    if (task != NULL) {
        yielders = trp_deque_length(&worker->yield) + 1;
        worker->credit = trp_deque_length(&worker->deque) / yielders;
        if (worker->credit == 0) {
            worker->credit = 1;
        }
    }
    return task;
}

static struct trp_task *
take_queued(struct trp_worker *worker)
{
    struct trp_task *task = NULL;

    if (worker->credit == 0) {
        task = take_yielder(worker);
    }
    if (task == NULL) {
        task = take_newest(worker);
        if (task == NULL) {
            task = take_yielder(worker);
        } else if (worker->credit > 0) {
            worker->credit--;
        }
    }
    return task;
}

struct trp_task *
trp_worker_pick(struct trp_worker *worker)
{
    struct trp_task *task = NULL;
    uint32_t tick = ++worker->tick;

    if (TRP_UNLIKELY(!trp_inject_is_empty(&worker->inbox) ||
                     !trp_inject_is_empty(&worker->inbox_last))) {
        take_inbox(worker);
    }
    if (TRP_UNLIKELY(tick % OLDEST_EVERY == 0)) {
        if (tick % INJECT_EVERY == 0) {
            fire_due(worker);
            task = take_injected(worker);
        }
        if (task == NULL) {
            task = take_oldest(worker, &worker->deque);
        }
        if (task != NULL) {
            return task;
        }
    }
    if (TRP_LIKELY(worker->slot_runs < SLOT_RUNS)) {
        task = take_slot(worker);
        if (task != NULL) {
            worker->slot_runs++;
            return task;
        }
    }
    worker->slot_runs = 0;
    task = take_queued(worker);
    if (task == NULL) {
        task = take_slot(worker);
    }
    return task != NULL ? task : take_injected(worker);
}

void
trp_worker_run(struct trp_worker *worker, struct trp_task *task)
{
    trp_count(&worker->turns, 1);
    /* relaxed: shown to people. */
    trp_store_relaxed(&worker->current, task);
    trp_load_relaxed (&worker->sched->run)(
        worker, task);                         /* relaxed: a switch */
    trp_store_relaxed(&worker->current, NULL); /* relaxed: as above */
}

/* At most half of the workers search at a time. */
static bool
start_searching(struct trp_sched *sched)
{
    uint64_t state =
        trp_load_acquire(&sched->idle.state); /* pairs: idle.state */

    do {
        if (2 * trp_idle_searching(state) >= sched->count) {
            return false;
        }
    } while (!trp_cas_acq_rel(&sched->idle.state, /* pairs: idle.state */
        &state, state + TRP_IDLE_SEARCHING));
    return true;
}

/* Nobody watches, though somebody beside this worker is active. */
static bool
is_unwatched(const struct trp_sched *sched, uint64_t state)
{
    return trp_idle_watcher(state) == 0 && sched->steal != TRP_STEAL_OFF &&
           trp_idle_parked(state) + 1 < sched->count;
}

/* Found something: the next sleeper is wanted if there is more, or to watch. */
static void
end_searching(struct trp_worker *worker)
{
    struct trp_sched *sched = worker->sched;
    uint64_t before = trp_sub_acq_rel(
        &sched->idle.state, TRP_IDLE_SEARCHING); /* pairs: idle.state */

    if (trp_idle_searching(before) == 1 && trp_idle_parked(before) != 0 &&
        (is_unwatched(sched, before) || trp_steal_is_possible(sched, NULL))) {
        trp_idle_wake_one(sched, is_unwatched(sched, before) ||
                                     !trp_inject_is_empty(&sched->inject));
    }
}

/*
 * Looks at the injector, the alarms and the others: once, or until the spin
 * budget is used up. NULL: nothing, or what alarms have brought.
 */
static struct trp_task *
search(struct trp_worker *worker, bool spin)
{
    struct trp_sched *sched = worker->sched;
    uint64_t end_ns =
        spin && sched->spin_ns != 0 ? trp_clock_ns() + sched->spin_ns : 0;

    for (;;) {
        struct trp_task *task = take_injected(worker);

        if (task == NULL && trp_alarm_fire_due(worker)) {
            return NULL;
        }
        if (task == NULL) {
            task = trp_steal(worker);
        }
        if (task != NULL || end_ns == 0 ||
            trp_load_acquire(&sched->stopping) != 0 || /* pairs: sched.stopping
                                                        */
            trp_clock_ns() >= end_ns) {
            return task;
        }
        for (int i = 0; i < SEARCH_RESTS; i++) {
            trp_cpu_relax();
        }
    }
}

/* Search, sleep, search ...; NULL when the scheduler stops. */
static struct trp_task *
find(struct trp_worker *worker)
{
    struct trp_sched *sched = worker->sched;
    bool searching = start_searching(sched);

    for (;;) {
        struct trp_task *task;

        if (trp_load_acquire(&sched->stopping) != 0) { /* pairs: sched.stopping
                                                        */
            return NULL;
        }
        task = search(worker, searching && trp_steal_muted_until(worker) == 0);
        if (task == NULL) {
            task = trp_worker_pick(worker);
        }
        if (task != NULL) {
            if (searching) {
                end_searching(worker);
            }
            if (TRP_UNLIKELY(trp_alarm_is_pending(&sched->alarms))) {
                trp_idle_carry_on(sched);
            }
            return task;
        }
        if (sched->rest != NULL) {
            sched->rest(worker);
        }
        searching = trp_idle_park(worker, searching) || start_searching(sched);
    }
}

void *
trp_worker_thread(void *user)
{
    struct trp_worker *worker = user;
    struct trp_sched *sched = worker->sched;

    trp_thread.worker = worker;
    trp_thread.rng = &worker->rng;
    while (trp_load_acquire(&sched->go) == 0) { /* pairs: sched.go */
        trp_futex_wait(&sched->go, 0, TRP_FUTEX_FOREVER);
    }
    for (;;) {
        struct trp_task *task = trp_worker_pick(worker);

        if (TRP_UNLIKELY(task == NULL)) {
            task = find(worker);
            if (task == NULL) {
                break;
            }
        } else if (trp_deque_length(&worker->deque) != 0 ||
                   trp_deque_length(&worker->yield) != 0) {
            trp_submit_wake(worker);
        }
        trp_worker_run(worker, task);
        if (TRP_UNLIKELY(worker->gate.phase >= TRP_GATE_PROBATION)) {
            trp_steal_review(worker);
        }
    }
    trp_thread.worker = NULL;
    trp_thread.rng = NULL;
    return NULL;
}
