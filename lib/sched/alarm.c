/* SPDX-License-Identifier: MIT */
#include "sched/alarm.h"

#include "base/error.h"
#include "sched/submit.h"
#include "sched/worker.h"

/* In one call of trp_alarm_fire_due(); then tasks have their turn. */
#define FIRE_MOST 256u
/* Entries that are moved while the lock is held. */
#define STEPS_MOST 64u

void
trp_alarms_init(struct trp_alarms *alarms)
{
    trp_wheel_init(&alarms->wheel, 0);
    /* relaxed: nobody else is there yet. */
    trp_store_relaxed(&alarms->next_due_ns, TRP_ALARM_NEVER);
}

uint64_t
trp_alarm_now(const struct trp_sched *sched)
{
    const TRP_ATOMIC(uint64_t) *virtual_ns = sched->alarms.virtual_ns;

    /* relaxed: one driver writes; see troupe_system_advance(). */
    return virtual_ns != NULL ? trp_load_relaxed(virtual_ns) : trp_clock_ns();
}

/* Under the lock. */
static void
publish(struct trp_alarms *alarms, uint64_t due_ns)
{
    trp_store_release(&alarms->next_due_ns, due_ns); /* pairs: alarm.next */
}

/*
 * The host, or the sleeper who carries the deadline, must look again. Inside a
 * run the host does in any case, when it settles.
 */
static void
announce(struct trp_sched *sched)
{
    if (!sched->driven) {
        trp_idle_carry_on(sched);
    } else if (trp_thread.worker != &sched->workers[0]) {
        trp_submit_raise(sched);
    }
}

/* `ended` may be NULL. False: it says that the alarm must not be set. */
static bool
set(struct trp_sched *sched, struct trp_alarm *alarm, uint64_t due_ns,
    TRP_ATOMIC(uint8_t) * ended, bool *was_set)
{
    struct trp_alarms *alarms = &sched->alarms;
    bool is_first;

    trp_lock_acquire(&alarms->lock);
    /* relaxed: written under the lock. */
    if (ended != NULL && trp_load_relaxed(ended) != 0) {
        trp_lock_release(&alarms->lock);
        return false;
    }
    *was_set = trp_wheel_remove(&alarms->wheel, &alarm->entry);
    trp_wheel_add(&alarms->wheel, &alarm->entry, due_ns);
    /* relaxed: written under the lock. */
    is_first =
        !alarms->firing && due_ns < trp_load_relaxed(&alarms->next_due_ns);
    if (is_first) {
        publish(alarms, due_ns);
    }
    trp_lock_release(&alarms->lock);
    if (is_first) {
        announce(sched);
    }
    return true;
}

bool
trp_alarm_set(struct trp_sched *sched, struct trp_alarm *alarm, uint64_t due_ns)
{
    bool was_set = false;

    (void)set(sched, alarm, due_ns, NULL, &was_set);
    return was_set;
}

bool
trp_alarm_renew(struct trp_sched *sched, struct trp_alarm *alarm,
    uint64_t due_ns, TRP_ATOMIC(uint8_t) * ended)
{
    bool was_set = false;

    return set(sched, alarm, due_ns, ended, &was_set);
}

bool
trp_alarm_end(struct trp_sched *sched, struct trp_alarm *alarm,
    TRP_ATOMIC(uint8_t) * ended)
{
    struct trp_alarms *alarms = &sched->alarms;
    bool was_set;

    trp_lock_acquire(&alarms->lock);
    was_set = trp_wheel_remove(&alarms->wheel, &alarm->entry);
    if (!was_set && ended != NULL) {
        trp_store_release(ended, 1); /* pairs: alarm.ended */
    }
    /* Of what is left the next one is looked for when its time has come. */
    if (was_set && !alarms->firing &&
        trp_wheel_next(&alarms->wheel) == TRP_ALARM_NEVER) {
        publish(alarms, TRP_ALARM_NEVER);
    }
    trp_lock_release(&alarms->lock);
    return was_set;
}

bool
trp_alarm_cancel(struct trp_sched *sched, struct trp_alarm *alarm)
{
    return trp_alarm_end(sched, alarm, NULL);
}

uint64_t
trp_alarm_next(struct trp_sched *sched)
{
    struct trp_alarms *alarms = &sched->alarms;
    uint64_t due_ns;

    trp_lock_acquire(&alarms->lock);
    due_ns = trp_wheel_next(&alarms->wheel);
    trp_lock_release(&alarms->lock);
    return due_ns;
}

/* The next one that is due, unlinked; under the lock, which it may let go. */
static struct trp_alarm *
take_due(struct trp_alarms *alarms, uint64_t now_ns)
{
    for (;;) {
        uint32_t steps = STEPS_MOST;
        struct trp_wheel_entry *entry =
            trp_wheel_pop(&alarms->wheel, now_ns, &steps);

        if (entry != NULL || steps != 0) {
            return (struct trp_alarm *)(void *)entry;
        }
        trp_lock_release(&alarms->lock); /* others may set and cancel */
        trp_lock_acquire(&alarms->lock);
    }
}

bool
trp_alarm_fire_due(struct trp_worker *worker)
{
    struct trp_sched *sched = worker->sched;
    struct trp_alarms *alarms = &sched->alarms;
    uint64_t now_ns;
    uint32_t fired = 0;

    if (!trp_alarm_is_pending(alarms)) {
        return false; /* without a look at the clock */
    }
    now_ns = trp_alarm_now(sched);
    if (!trp_alarm_is_due(alarms, now_ns)) {
        return false;
    }
    trp_lock_acquire(&alarms->lock);
    if (alarms->firing) {
        trp_lock_release(&alarms->lock);
        return false;
    }
    alarms->firing = true;
    publish(alarms, TRP_ALARM_NEVER);
    while (fired < FIRE_MOST) {
        struct trp_alarm *alarm = take_due(alarms, now_ns);
        trp_alarm_fn fire;

        if (alarm == NULL) {
            break;
        }
        fire = alarm->fire; /* under the lock: a cancel may come after it */
        trp_lock_release(&alarms->lock);
        fire(worker, alarm); /* from here on it is not ours */
        fired++;
        trp_lock_acquire(&alarms->lock);
    }
    alarms->firing = false;
    publish(alarms, trp_wheel_next(&alarms->wheel));
    trp_lock_release(&alarms->lock);
    return true;
}
