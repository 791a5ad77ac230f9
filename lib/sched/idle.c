/* SPDX-License-Identifier: MIT */
#include "sched/idle.h"

#include "base/clock.h"
#include "base/error.h"
#include "sched/steal.h"
#include "sched/worker.h"

/* How long work may wait behind a stuck worker: design.md 5. */
#define WATCH_NS ((uint64_t)1000 * 1000)

static TRP_ATOMIC(uint64_t) *
mask_of(struct trp_sched *sched, uint32_t index)
{
    return &sched->idle.mask[index / 64];
}

/* The bit is the right to change the count: whoever clears it does so. */
static bool
clear_bit(struct trp_sched *sched, uint32_t index)
{
    uint64_t bit = UINT64_C(1) << (index % 64);

    if ((trp_and_acq_rel(mask_of(sched, index), ~bit) & bit) ==
        0) { /* pairs: idle.mask */
        return false;
    }
    trp_sub_acq_rel(
        &sched->idle.state, TRP_IDLE_PARKED); /* pairs: idle.state */
    return true;
}

static void
count_wake(struct trp_sched *sched)
{
    struct trp_worker *self = trp_thread.worker;

    if (self != NULL && self->sched == sched) {
        trp_count(&self->wakes, 1);
    } else {
        trp_add_relaxed(&sched->foreign_wakes, 1); /* relaxed: statistic */
    }
}

/* Wakes one of those that sleep; false when nobody does. */
static bool
wake_somebody(struct trp_sched *sched)
{
    for (uint32_t base = 0; base < sched->count; base += 64) {
        uint64_t mask =
            trp_load_acquire(mask_of(sched, base)); /* pairs: idle.mask */

        while (mask != 0) {
            uint32_t index = base + (uint32_t)__builtin_ctzll(mask);
            struct trp_worker *worker = &sched->workers[index];

            if (clear_bit(sched, index)) {
                count_wake(sched);
                trp_store_release(&worker->park, 1); /* pairs: idle.park */
                trp_futex_wake(&worker->park, 1);
                return true;
            }
            mask &= mask - 1;
        }
    }
    return false;
}

static bool
somebody_parked(struct trp_sched *sched)
{
    for (uint32_t base = 0; base < sched->count; base += 64) {
        if (trp_load_acquire(mask_of(sched, base)) != 0) { /* pairs: idle.mask
                                                            */
            return true;
        }
    }
    return false;
}

void
trp_idle_wake_one(struct trp_sched *sched)
{
    struct trp_idle *idle = &sched->idle;

    do {
        uint64_t state = trp_load_acquire(&idle->state); /* pairs: idle.state */

        do {
            if (trp_idle_searching(state) != 0 ||
                trp_idle_parked(state) == 0) {
                return;
            }
        } while (!trp_cas_acq_rel(&idle->state, &state, /* pairs: idle.state */
            state + TRP_IDLE_SEARCHING));
        if (wake_somebody(sched)) {
            return; /* the place in `searching` is the woken worker's now */
        }
        trp_sub_acq_rel(
            &idle->state, TRP_IDLE_SEARCHING); /* pairs: idle.state */
    } while (somebody_parked(sched)); /* parked while our place was taken */
}

/* The last one to park tells who awaits it. */
static void
tell_quiet(struct trp_sched *sched)
{
    struct trp_idle *idle = &sched->idle;
    uint64_t state = trp_load_acquire(&idle->state); /* pairs: idle.state */

    if (trp_idle_parked(state) == sched->count) {
        trp_add_acq_rel(&idle->quiet, 1); /* pairs: idle.quiet */
        if (trp_load_seq_cst(&idle->quiet_waiters) != 0) { /* pairs: idle.quiet
                                                            */
            trp_futex_wake(&idle->quiet, UINT32_MAX >> 1);
        }
    }
}

/* Becomes the watcher if somebody is active and nobody watches. */
static bool
start_watching(struct trp_sched *sched)
{
    uint64_t state = trp_load_acquire(&sched->idle.state); /* pairs: idle.state
                                                            */

    do {
        if (trp_idle_parked(state) == sched->count ||
            trp_idle_watching(state) != 0 || !sched->steal) {
            return false;
        }
    } while (!trp_cas_acq_rel(&sched->idle.state, /* pairs: idle.state */
        &state, state + TRP_IDLE_WATCHING));
    return true;
}

static void
stop_watching(struct trp_sched *sched)
{
    trp_sub_acq_rel(
        &sched->idle.state, TRP_IDLE_WATCHING); /* pairs: idle.state */
}

/* In one step, so that nobody becomes active in between. */
static bool
stop_watching_if_idle(struct trp_sched *sched)
{
    uint64_t state = trp_load_acquire(&sched->idle.state); /* pairs: idle.state
                                                            */

    do {
        if (trp_idle_parked(state) != sched->count) {
            return false;
        }
    } while (!trp_cas_acq_rel(&sched->idle.state, /* pairs: idle.state */
        &state, state - TRP_IDLE_WATCHING));
    return true;
}

/*
 * One sleep. True: woken, and counted as a searcher by the waker. False: it
 * woke up by itself because there is something to do, and is not counted.
 */
static bool
sleep_until_woken(struct trp_worker *worker)
{
    struct trp_sched *sched = worker->sched;
    bool watching = start_watching(sched);
    bool woken = true;

    while (trp_load_acquire(&worker->park) == 0) { /* pairs: idle.park */
        uint64_t deadline_ns =
            watching ? trp_clock_ns() + WATCH_NS : TRP_FUTEX_FOREVER;

        if (trp_futex_wait(&worker->park, 0, deadline_ns)) {
            continue;
        }
        if (trp_steal_sees_stuck(worker) ||
            trp_steal_is_possible(sched, worker)) {
            woken = !clear_bit(sched, worker->index);
            if (!woken) {
                break;
            }
            continue; /* a waker was faster: its store of park is coming */
        }
        watching = !stop_watching_if_idle(sched);
    }
    if (watching) {
        stop_watching(sched);
    }
    return woken;
}

bool
trp_idle_park(struct trp_worker *worker, bool searching)
{
    struct trp_sched *sched = worker->sched;
    uint64_t bit = UINT64_C(1) << (worker->index % 64);

    /* relaxed: published with the bit. */
    trp_store_relaxed(&worker->park, 0);
    trp_or_acq_rel(mask_of(sched, worker->index), bit); /* pairs: idle.mask */
    trp_add_acq_rel(&sched->idle.state, /* pairs: idle.state */
        TRP_IDLE_PARKED - (searching ? TRP_IDLE_SEARCHING : 0));
    if (trp_load_acquire(&sched->stopping) != 0 || /* pairs: sched.stopping */
        trp_steal_is_possible(sched, worker)) {
        if (clear_bit(sched, worker->index)) {
            return false;
        }
        /* Woken meanwhile. Its store must not hit a later sleep of ours. */
        while (trp_load_acquire(&worker->park) == 0) { /* pairs: idle.park */
            trp_futex_wait(&worker->park, 0, TRP_FUTEX_FOREVER);
        }
        return true;
    }
    trp_count(&worker->parks, 1);
    tell_quiet(sched);
    return sleep_until_woken(worker);
}

void
trp_idle_wake_all(struct trp_sched *sched)
{
    for (uint32_t i = 0; i < sched->count; i++) {
        trp_store_release(&sched->workers[i].park, 1); /* pairs: idle.park */
        trp_futex_wake(&sched->workers[i].park, 1);
    }
}

static uint64_t
turns_of_all(struct trp_sched *sched)
{
    uint64_t turns = 0;

    for (uint32_t i = 0; i < sched->count; i++) {
        /* relaxed: a worker that is parked wrote it before (idle.state). */
        turns += trp_load_relaxed(&sched->workers[i].turns);
    }
    return turns;
}

static bool
all_parked(struct trp_sched *sched)
{
    uint64_t state = trp_add_acq_rel(&sched->idle.state, 0); /* pairs:
                                                                idle.state */

    return trp_idle_parked(state) == sched->count &&
           !trp_steal_is_possible(sched, NULL);
}

bool
trp_idle_await_quiet(struct trp_sched *sched, uint64_t deadline_ns)
{
    struct trp_idle *idle = &sched->idle;
    bool quiet = false;
    bool in_time = true;

    trp_add_acq_rel(&idle->quiet_waiters, 1); /* pairs: idle.quiet */
    while (!quiet && in_time) {
        uint32_t seen = trp_load_acquire(&idle->quiet); /* pairs: idle.quiet */
        uint64_t turns = turns_of_all(sched);

        quiet = all_parked(sched) && turns == turns_of_all(sched) &&
                all_parked(sched);
        if (!quiet) {
            in_time = trp_futex_wait(&idle->quiet, seen, deadline_ns);
        }
    }
    trp_sub_acq_rel(&idle->quiet_waiters, 1); /* pairs: idle.quiet */
    return quiet;
}
