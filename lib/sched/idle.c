/* SPDX-License-Identifier: MIT */
#include "sched/idle.h"

#include "base/clock.h"
#include "base/error.h"
#include "sched/steal.h"
#include "sched/worker.h"

/* The futex of a worker. Poked: it must look at its deadline again. */
#define PARK_WOKEN 1u
#define PARK_POKED 2u

/* How long work may wait behind a stuck worker: decision 0007. */
#define WATCH_NS ((uint64_t)1000 * 1000)

/* Of the word `carrier`: index + 1, and when it wakes up. */
static uint32_t
carrier_of(uint64_t word)
{
    return (uint32_t)(word & TRP_IDLE_CARRIER);
}

static uint64_t
carried_until(uint64_t word)
{
    return word & ~TRP_IDLE_CARRIER;
}

static TRP_ATOMIC(uint64_t) *
    mask_of(struct trp_sched *sched, uint32_t index, bool muted)
{
    return &sched->idle.mask[muted][index / 64];
}

static uint64_t
unit_of(bool muted)
{
    return muted ? TRP_IDLE_MUTED : TRP_IDLE_WAKEABLE;
}

/* The bit is the right to change the count: whoever clears it does so. */
static bool
clear_bit(struct trp_sched *sched, uint32_t index, bool muted)
{
    uint64_t bit = UINT64_C(1) << (index % 64);
    uint64_t before = trp_and_acq_rel(
        mask_of(sched, index, muted), ~bit); /* pairs: idle.mask */

    if ((before & bit) == 0) {
        return false;
    }
    trp_sub_acq_rel(&sched->idle.state, unit_of(muted)); /* pairs: idle.state */
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

/* With a place in `searching` for it. */
static bool
wake(struct trp_sched *sched, uint32_t index, bool muted)
{
    struct trp_worker *worker = &sched->workers[index];

    if (!clear_bit(sched, index, muted)) {
        return false;
    }
    count_wake(sched);
    trp_store_release(&worker->park, PARK_WOKEN); /* pairs: idle.park */
    trp_futex_wake(&worker->park, 1);
    return true;
}

/*
 * Wakes one of those that sleep, the carrier and the watcher last; false when
 * nobody does.
 */
static bool
wake_somebody(struct trp_sched *sched, bool muted)
{
    uint32_t watcher = trp_idle_watcher(
        trp_load_acquire(&sched->idle.state)); /* pairs: idle.state */
    /* relaxed: whom not to disturb, if possible. */
    uint32_t carrier = carrier_of(trp_load_relaxed(&sched->idle.carrier));

    for (uint32_t base = 0; base < sched->count; base += 64) {
        uint64_t mask =
            trp_load_acquire(mask_of(sched, base, muted)); /* pairs: idle.mask
                                                            */

        for (; mask != 0; mask &= mask - 1) {
            uint32_t index = base + (uint32_t)__builtin_ctzll(mask);

            if (index + 1 != watcher && index + 1 != carrier &&
                wake(sched, index, muted)) {
                return true;
            }
        }
    }
    if (carrier != 0 && carrier != watcher && wake(sched, carrier - 1, muted)) {
        return true;
    }
    return watcher != 0 && wake(sched, watcher - 1, muted);
}

static bool
somebody_parked(struct trp_sched *sched, bool muted)
{
    for (uint32_t base = 0; base < sched->count; base += 64) {
        if (trp_load_acquire(mask_of(sched, base, muted)) !=
            0) { /* pairs: idle.mask */
            return true;
        }
    }
    return false;
}

void
trp_idle_wake_one(struct trp_sched *sched, bool muted)
{
    struct trp_idle *idle = &sched->idle;

    do {
        uint64_t state = trp_load_acquire(&idle->state); /* pairs: idle.state */

        do {
            if (trp_idle_searching(state) != 0 ||
                (muted ? trp_idle_parked(state) : trp_idle_wakeable(state)) ==
                    0) {
                return;
            }
        } while (!trp_cas_acq_rel(&idle->state, &state, /* pairs: idle.state */
            state + TRP_IDLE_SEARCHING));
        if (wake_somebody(sched, false) ||
            (muted && wake_somebody(sched, true))) {
            return; /* the place in `searching` is the woken worker's now */
        }
        trp_sub_acq_rel(
            &idle->state, TRP_IDLE_SEARCHING); /* pairs: idle.state */
        /*
         * Somebody may have parked while our place was taken, and a foreign
         * thread may have left it to us.
         */
        muted = muted || !trp_inject_is_empty(&sched->inject);
    } while (somebody_parked(sched, false) ||
             (muted && somebody_parked(sched, true)));
}

void
trp_idle_wake(struct trp_sched *sched, uint32_t index)
{
    trp_add_acq_rel(&sched->idle.state, TRP_IDLE_SEARCHING); /* pairs:
                                                                idle.state */
    if (!wake(sched, index, false) && !wake(sched, index, true)) {
        trp_sub_acq_rel(
            &sched->idle.state, TRP_IDLE_SEARCHING); /* pairs: idle.state */
        if (!trp_inject_is_empty(&sched->inject)) {
            trp_idle_wake_one(sched, true); /* skipped because of our place */
        }
    }
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
start_watching(struct trp_worker *worker)
{
    struct trp_sched *sched = worker->sched;
    uint64_t state = trp_load_acquire(&sched->idle.state); /* pairs: idle.state
                                                            */

    do {
        if (trp_idle_parked(state) == sched->count ||
            trp_idle_watcher(state) != 0 || sched->steal == TRP_STEAL_OFF) {
            return false;
        }
    } while (!trp_cas_acq_rel(&sched->idle.state, /* pairs: idle.state */
        &state, state + (worker->index + 1) * TRP_IDLE_WATCHER));
    return true;
}

static void
stop_watching(struct trp_worker *worker)
{
    trp_sub_acq_rel(&worker->sched->idle.state, /* pairs: idle.state */
        (worker->index + 1) * TRP_IDLE_WATCHER);
}

/* In one step, so that nobody becomes active in between. */
static bool
stop_watching_if_idle(struct trp_worker *worker)
{
    struct trp_sched *sched = worker->sched;
    uint64_t state = trp_load_acquire(&sched->idle.state); /* pairs: idle.state
                                                            */

    do {
        if (trp_idle_parked(state) != sched->count) {
            return false;
        }
    } while (!trp_cas_acq_rel(&sched->idle.state, /* pairs: idle.state */
        &state, state - (worker->index + 1) * TRP_IDLE_WATCHER));
    return true;
}

/* --- the deadline of the next alarm --------------------------------------- */

/* Of a sleeper, or of one that is about to sleep. False: it was woken. */
static bool
poke(struct trp_sched *sched, uint32_t index)
{
    struct trp_worker *worker = &sched->workers[index];
    uint32_t before =
        trp_or_acq_rel(&worker->park, PARK_POKED); /* pairs: idle.poke */

    if (before == 0) {
        trp_futex_wake(&worker->park, 1);
    }
    return (before & PARK_WOKEN) == 0;
}

static void
poke_somebody(struct trp_sched *sched)
{
    for (uint32_t base = 0; base < sched->count; base += 64) {
        uint64_t mask =
            trp_load_acquire(mask_of(sched, base, false)) | /* pairs: idle.mask
                                                             */
            trp_load_acquire(mask_of(sched, base, true)); /* pairs: idle.mask */

        for (; mask != 0; mask &= mask - 1) {
            if (poke(sched, base + (uint32_t)__builtin_ctzll(mask))) {
                return;
            }
        }
    }
}

void
trp_idle_carry_on(struct trp_sched *sched)
{
    uint64_t found =
        trp_add_acq_rel(&sched->idle.carrier, 0); /* pairs: idle.carrier */
    uint64_t wake_ns = trp_alarm_next_wake(&sched->alarms);

    if (wake_ns == TRP_ALARM_NEVER) {
        return;
    }
    if (found == 0) {
        poke_somebody(sched);
    } else if (wake_ns < carried_until(found)) {
        (void)poke(sched, carrier_of(found) - 1);
    }
}

/*
 * Until when this sleeper must not sleep because of alarms; NEVER if another
 * one carries the deadline. `*carried` is what it has put into the word, or 0.
 */
static uint64_t
carry(struct trp_worker *worker, uint64_t *carried)
{
    struct trp_sched *sched = worker->sched;
    struct trp_idle *idle = &sched->idle;

    for (;;) {
        uint64_t found = *carried != 0 ? *carried
                                       : trp_add_acq_rel(&idle->carrier,
                                             0); /* pairs: idle.carrier */
        uint64_t wake_ns = trp_alarm_next_wake(&sched->alarms);
        uint64_t own = carried_until(wake_ns) + worker->index + 1;

        if (found == own) {
            return wake_ns;
        }
        if (found != *carried) {
            if (wake_ns < carried_until(found)) {
                (void)poke(sched, carrier_of(found) - 1);
            }
            return TRP_ALARM_NEVER;
        }
        /* And another look: who came before it saw the word as it was. */
        if (trp_cas_acq_rel(&idle->carrier, &found, own)) { /* pairs:
                                                               idle.carrier */
            *carried = own;
        }
    }
}

static void
stop_carrying(struct trp_worker *worker, uint64_t carried)
{
    trp_sub_acq_rel(
        &worker->sched->idle.carrier, carried); /* pairs: idle.carrier */
}

static bool
must_fire(struct trp_worker *worker, uint64_t carried)
{
    struct trp_sched *sched = worker->sched;

    return carried != 0 &&
           trp_alarm_is_due(&sched->alarms, trp_alarm_now(sched));
}

/* --- sleep ---------------------------------------------------------------- */

/* The next time that a sleeper wakes up by itself. */
static uint64_t
next_look_ns(bool watching, uint64_t muted_until_ns, uint64_t alarm_ns)
{
    uint64_t look_ns = watching ? trp_clock_ns() + WATCH_NS : TRP_FUTEX_FOREVER;

    if (muted_until_ns != 0 && muted_until_ns < look_ns) {
        look_ns = muted_until_ns;
    }
    return alarm_ns < look_ns ? alarm_ns : look_ns;
}

/* Its futex says so, and not only that it was poked. */
static bool
is_woken(struct trp_worker *worker)
{
    uint32_t park = trp_load_acquire(&worker->park); /* pairs: idle.park */

    if (park == PARK_POKED) {
        park = trp_and_acq_rel(
            &worker->park, ~PARK_POKED); /* pairs: idle.poke, idle.park */
    }
    return (park & PARK_WOKEN) != 0;
}

/*
 * One sleep. True: woken, and counted as a searcher by the waker. False: it
 * woke up by itself because there is something to do, and is not counted.
 */
static bool
sleep_until_woken(struct trp_worker *worker, uint64_t muted_until_ns)
{
    struct trp_sched *sched = worker->sched;
    bool watching = start_watching(worker);
    bool muted = muted_until_ns != 0;
    bool woken = true;
    uint64_t carried = 0;

    while (!is_woken(worker)) {
        uint64_t alarm_ns = carry(worker, &carried);

        if (trp_futex_wait(&worker->park, 0,
                next_look_ns(watching, muted_until_ns, alarm_ns))) {
            continue;
        }
        /* First the look, which remembers what it saw; also one that is muted.
         */
        if (trp_steal_sees_stuck(worker) || must_fire(worker, carried) ||
            (muted ? trp_clock_ns() >= muted_until_ns
                   : trp_steal_is_possible(sched, worker))) {
            woken = !clear_bit(sched, worker->index, muted);
            if (!woken) {
                break;
            }
            continue; /* a waker was faster: its store of park is coming */
        }
        if (watching) {
            watching = !stop_watching_if_idle(worker);
        }
    }
    if (watching) {
        stop_watching(worker);
    }
    stop_carrying(worker, carried);
    return woken;
}

/* What must not wait while this worker sleeps. */
static bool
must_not_sleep(struct trp_worker *worker, bool muted)
{
    struct trp_sched *sched = worker->sched;

    return trp_load_acquire(&sched->stopping) != 0 || /* pairs: sched.stopping
                                                       */
           !trp_inject_is_empty(&worker->inbox) ||
           !trp_inject_is_empty(&worker->inbox_last) ||
           !trp_inject_is_empty(&sched->inject) ||
           (!muted && trp_steal_is_possible(sched, worker));
}

bool
trp_idle_park(struct trp_worker *worker, bool searching)
{
    struct trp_sched *sched = worker->sched;
    uint64_t bit = UINT64_C(1) << (worker->index % 64);
    uint64_t muted_until_ns = trp_steal_muted_until(worker);
    bool muted = muted_until_ns != 0;

    /* relaxed: published with the bit. */
    trp_store_relaxed(&worker->park, 0);
    trp_or_acq_rel(
        mask_of(sched, worker->index, muted), bit); /* pairs: idle.mask */
    trp_add_acq_rel(&sched->idle.state,             /* pairs: idle.state */
        unit_of(muted) - (searching ? TRP_IDLE_SEARCHING : 0));
    if (must_not_sleep(worker, muted)) {
        bool woken = !clear_bit(sched, worker->index, muted);

        /* Woken meanwhile. Its store must not hit a later sleep of ours. */
        while (woken && !is_woken(worker)) {
            trp_futex_wait(&worker->park, 0, TRP_FUTEX_FOREVER);
        }
        stop_carrying(worker, 0);
        return woken;
    }
    trp_count(&worker->parks, 1);
    tell_quiet(sched);
    return sleep_until_woken(worker, muted_until_ns);
}

void
trp_idle_wake_all(struct trp_sched *sched)
{
    for (uint32_t i = 0; i < sched->count; i++) {
        trp_store_release(
            &sched->workers[i].park, PARK_WOKEN); /* pairs: idle.park */
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

        quiet = trp_load_acquire(&sched->stopping) != 0 || /* pairs:
                                                              sched.stopping */
                (all_parked(sched) && turns == turns_of_all(sched) &&
                    all_parked(sched));
        if (!quiet) {
            in_time = trp_futex_wait(&idle->quiet, seen, deadline_ns);
        }
    }
    trp_sub_acq_rel(&idle->quiet_waiters, 1); /* pairs: idle.quiet */
    return quiet;
}
