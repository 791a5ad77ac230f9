/* SPDX-License-Identifier: MIT */
#ifndef TRP_SCHED_ALARM_H
#define TRP_SCHED_ALARM_H

/*
 * Something to be done at a certain time, by a worker. One wheel per scheduler.
 *
 *     set ----> wheel, next_due_ns ----> a worker that dispatches: polls
 *      |              (lock)       `---> the sleeper that carries the deadline
 *      `--- earlier than that one sleeps? wakes it: sched/idle.h
 *
 * Whose it is. An alarm is memory of the caller, zeroed at first, with `fire`
 * set. Each set that returns false hands the alarm to the service, and exactly
 * one of these gives it back: a cancel that returns true, or a call of fire(),
 * which begins after the alarm has been unlinked and the lock released. The
 * service does not touch the alarm from then on, and fire() may set it again or
 * free it. So a cancel that returns false says: it was not set, or its fire()
 * has been or is being called, and what fire() does to it is not for the caller
 * of cancel to interrupt. An owner that must know counts what it handed out, in
 * the same word or under the same lock that its fire() looks at; it may free
 * the memory when everything is back. A set that returns true moved an alarm
 * that was set: nothing more is handed out.
 *
 * When. Never early. At most TRP_ALARM_GRAIN_NS late plus what the kernel takes
 * to wake a thread, if some worker sleeps, or the host that drives. If all are
 * busy, a worker looks at the clock every 64th dispatch while an alarm is
 * pending; that is when it sees foreign posts, too. While none is pending, a
 * dispatch costs nothing, and every 64th a load. Alarms fire one at a time in
 * the order of their due times, whichever worker it is; those that are due
 * already when they are set come after those on their way. In a simulation the
 * clock is the virtual one.
 *
 * What fire() may do: submit, send, set and cancel alarms. Not block, and not
 * take long: nobody else fires meanwhile. It runs between two turns.
 *
 * A pending alarm is not work: nobody who awaits quiet waits for it. After
 * trp_sched_stop() has returned none fires any more; what is set then stays
 * its owner's, and cancel still works until trp_sched_fini().
 *
 * Cost. O(1) under one lock, 1 M pending or none; a cancelled alarm may cost
 * one early wake-up of one worker. To shard it, each worker would have a wheel,
 * a lock and a next_due_ns of its own, set by itself; an alarm would remember
 * its wheel for cancel, foreign threads would pick one, and the sleeper that
 * carries the deadline, and who polls, would take the least of all.
 *
 * Pairs
 *   alarm.ended  store of ended under the lock -> load of it: who ended it has
 *                made the last access.
 *   alarm.next   store of next_due_ns under the lock -> load of it: only a
 *                hint; idle.carrier, or driven.raised, makes sure that it is
 * not too old a one.
 */

#include "base/clock.h"
#include "os/futex.h"
#include "queue/wheel.h"

struct trp_sched;
struct trp_worker;
struct trp_alarm;

#define TRP_ALARM_NEVER TRP_WHEEL_NEVER
/* Sleepers wake up at multiples of this: 131 us. */
#define TRP_ALARM_GRAIN_NS (UINT64_C(1) << 17)

/* On `worker`'s own thread. */
typedef void (*trp_alarm_fn)(
    struct trp_worker *worker, struct trp_alarm *alarm);

struct trp_alarm {
    struct trp_wheel_entry entry; /* the service's */
    trp_alarm_fn fire;            /* constant while it is set */
};

/* Of one scheduler. */
struct trp_alarms {
    /* read by all workers, written under the lock */
    TRP_ATOMIC(uint64_t) next_due_ns; /* NEVER: none, or somebody fires */
    const TRP_ATOMIC(uint64_t) * virtual_ns; /* NULL: the monotonic clock */

    /* under the lock */
    struct trp_lock lock;
    bool firing; /* whoever does will look again at its end */
    struct trp_wheel wheel;
};

void trp_alarms_init(struct trp_alarms *alarms);

/* The clock of due times. Any thread. */
uint64_t trp_alarm_now(const struct trp_sched *sched);

/*
 * Sets the alarm, or moves it if it is set (true). `due_ns` on the clock above;
 * NEVER: it is set and does not fire. Any thread; of two at once the later one
 * counts.
 */
bool trp_alarm_set(
    struct trp_sched *sched, struct trp_alarm *alarm, uint64_t due_ns);

/*
 * True: it was set, will not fire, and is the caller's again. False: it was not
 * set, or fire() has it: see above. Any thread.
 */
bool trp_alarm_cancel(struct trp_sched *sched, struct trp_alarm *alarm);

/*
 * For who may free the memory while fire() runs. As cancel; where that returns
 * false, `*ended` is set in the same step, which is the caller's last access:
 * from then on the memory is fire()'s, or of whom it handed it on to.
 */
bool trp_alarm_end(struct trp_sched *sched, struct trp_alarm *alarm,
    TRP_ATOMIC(uint8_t) * ended);
/*
 * Sets an alarm that was handed out, or is not set: false, it has been ended
 * and is not set. If true, it is not the caller's any more.
 */
bool trp_alarm_renew(struct trp_sched *sched, struct trp_alarm *alarm,
    uint64_t due_ns, TRP_ATOMIC(uint8_t) * ended);

/* The next time at which one may be due; NEVER: none. Any thread. */
uint64_t trp_alarm_next(struct trp_sched *sched);

/* --- for the scheduler ---------------------------------------------------- */

/* When the thread that carries the deadline, or the host, is to wake up. */
static inline uint64_t
trp_alarm_wake_ns(uint64_t due_ns)
{
    return due_ns > TRP_ALARM_NEVER - TRP_ALARM_GRAIN_NS
               ? TRP_ALARM_NEVER
               : (due_ns + TRP_ALARM_GRAIN_NS - 1) & ~(TRP_ALARM_GRAIN_NS - 1);
}

static inline uint64_t
trp_alarm_next_wake(const struct trp_alarms *alarms)
{
    return trp_alarm_wake_ns(
        trp_load_acquire(&alarms->next_due_ns)); /* pairs: alarm.next */
}

/*
 * Fires what is due, up to a limit; false: nothing is, or somebody else fires.
 * If true, the caller goes on to sleep, or calls trp_idle_carry_on().
 */
bool trp_alarm_fire_due(struct trp_worker *worker);

static inline bool
trp_alarm_is_pending(const struct trp_alarms *alarms)
{
    /* relaxed: whoever must not miss one looks after a change of carrier. */
    return trp_load_relaxed(&alarms->next_due_ns) != TRP_ALARM_NEVER;
}

static inline bool
trp_alarm_is_due(const struct trp_alarms *alarms, uint64_t now_ns)
{
    uint64_t due_ns =
        trp_load_acquire(&alarms->next_due_ns); /* pairs: alarm.next */

    return due_ns != TRP_ALARM_NEVER && due_ns <= now_ns;
}

#endif /* TRP_SCHED_ALARM_H */
