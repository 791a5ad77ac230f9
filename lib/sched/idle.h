/* SPDX-License-Identifier: MIT */
#ifndef TRP_SCHED_IDLE_H
#define TRP_SCHED_IDLE_H

/*
 * Who sleeps, who searches, and the proof that no wake-up is lost.
 *
 *      one word for all:   muted:16 | watcher:16 | searching:16 | wakeable:16
 *      one bit each:       mask, set while a worker may be woken
 *      one word each:      park, the futex it sleeps on
 *
 *     RUNNING --nothing to do--> SEARCHING --spin budget used--> PARKED
 *        ^                          |  ^                            |
 *        +-------found work---------+  +---bit cleared by a waker---+
 *
 * A waker wakes only if nobody searches: a searcher will find the work itself.
 * It adds itself to `searching`, clears one bit, and hands that place over to
 * the sleeper. So at most one worker is on its way at a time, and it wakes the
 * next one if it finds more than it can run.
 *
 * Why nothing is lost. A pusher makes work visible, then does a
 * read-modify-write of the word (foreign threads) and looks. A parker sets its
 * bit, does a read-modify-write of the word (parked + 1, searching - 1), then
 * looks at all queues. Both change the same word, so one of them comes second:
 * the parker sees the work, or the pusher sees the sleeper (edge idle.state).
 * A pusher that skips the wake because somebody searches comes before that
 * searcher's own change of the word, and the same holds for a waker that gives
 * its place back: it looks at the mask again after that. Workers skip the
 * read-modify-write when they push: they run what they pushed themselves, and
 * look at the word again at every dispatch.
 *
 * The watcher. Work in the slot of a worker that is stuck in a long behaviour
 * wakes nobody. So while some worker is active, one sleeper (watcher = its
 * index + 1) sleeps a millisecond at a time and looks whether an active worker
 * has stopped making progress with work waiting. When all workers are parked it
 * sleeps without a limit, as the others do: an idle system makes no system
 * call. It is woken for work only if nobody else sleeps. Should it become
 * active all the same while others sleep, the last searcher to find work wakes
 * one of them, who watches on; if that searcher finds none it is the next
 * watcher itself. So once nobody searches, somebody watches, or nobody can: all
 * are active, or all but one, who then sees that nobody watches when it fills
 * its slot.
 *
 * The carrier. One sleeper sleeps only until the next alarm is due (rounded up,
 * see sched/alarm.h); the others need not know of alarms. One word says who,
 * and until when: the first to sleep takes it, alarms or none, and gives it up
 * when it stops sleeping. It is the last but the watcher to be woken for work.
 *
 * Why no deadline is lost. Let an alarm be set that is earlier than all others,
 * or let the one before it have fired. Then
 *
 *     who sets      next_due_ns; changes the word and looks at it. A carrier
 *                   who sleeps longer than that is poked. If there is none, a
 *                   sleeper is looked for in the masks, and poked.
 *     who sleeps    its bit in the mask; changes the word, and becomes the
 *                   carrier or sees that there is one; looks at next_due_ns.
 *     who leaves    its bit in the mask; changes the word; looks at next_due_ns
 *                   when it knows whether it sleeps again or runs something. If
 *                   it runs something it does as who sets (carry_on).
 *
 * All of them change the same word (edge idle.carrier; adding 0 is a change),
 * so of two the second sees what the first did before. Take the last who set. A
 * sleeper who changed the word before that is seen, as the carrier or by its
 * bit; one who did so later sees next_due_ns. A carrier that writes down
 * another deadline looks once more after that: who has set an alarm meanwhile
 * saw the old one, which may have been early enough. To be poked is a bit in
 * the futex that is cleared before the deadline is looked at (idle.poke), so a
 * poke cannot come too early; it may meet one who leaves, whose own look comes
 * later. So when nobody is on the way, a sleeper sleeps until the next alarm,
 * or nobody sleeps; and who is awake looks every 64th dispatch, and before it
 * sleeps.
 *
 * While somebody fires, next_due_ns is NEVER, so that nobody else comes; who
 * fires is awake, and at its end does as who sets, or goes to sleep: a sleeper
 * that finds a carrier who sleeps too long pokes it.
 *
 * Muted. A worker that was told that its help does not pay (sched/steal.c)
 * sleeps with a limit. What other workers push does not wake it; what foreign
 * threads bring does, and so does the need for a watcher: it watches as well as
 * any other.
 *
 * Pairs
 *   idle.state  any change of the word -> the next one: as argued above.
 *   idle.mask   setting a bit -> clearing it: park is 0 again.
 *   idle.park   store of park by the waker -> load by the sleeper.
 *   idle.carrier  any change of the word -> the next one: as argued above.
 *   idle.poke   setting the bit in park -> clearing it: the alarm that was set.
 *   idle.quiet  change of quiet by the last to park -> load by who awaits it.
 */

#include "os/futex.h"

#define TRP_WORKERS_MAX 1024u
#define TRP_IDLE_WAKEABLE UINT64_C(1)
#define TRP_IDLE_SEARCHING (UINT64_C(1) << 16)
#define TRP_IDLE_WATCHER (UINT64_C(1) << 32)
#define TRP_IDLE_MUTED (UINT64_C(1) << 48)
/* In the word `carrier`: the bits of the index. */
#define TRP_IDLE_CARRIER UINT64_C(0x7ff)

struct trp_sched;
struct trp_worker;

struct trp_idle {
    TRP_ATOMIC(uint64_t) state;
    TRP_ATOMIC(uint64_t) mask[2][TRP_WORKERS_MAX / 64]; /* [1]: muted */
    TRP_ATOMIC(uint64_t) carrier; /* until when, and index + 1; 0: nobody */
    TRP_ATOMIC(uint32_t) quiet;   /* futex: grows when all are parked */
    TRP_ATOMIC(uint32_t) quiet_waiters; /* somebody sleeps on it */
};

/* Those that a push by another worker may wake. */
static inline uint32_t
trp_idle_wakeable(uint64_t state)
{
    return (uint16_t)state;
}

/* All that sleep. */
static inline uint32_t
trp_idle_parked(uint64_t state)
{
    return (uint32_t)(uint16_t)state + (uint32_t)(state >> 48);
}

static inline uint32_t
trp_idle_searching(uint64_t state)
{
    return (uint16_t)(state >> 16);
}

/* Index + 1 of the watcher; 0: nobody. */
static inline uint32_t
trp_idle_watcher(uint64_t state)
{
    return (uint16_t)(state >> 32);
}

/*
 * Wakes one sleeper unless somebody searches; of those that are muted only if
 * `muted`. Any thread; never blocks.
 */
void trp_idle_wake_one(struct trp_sched *sched, bool muted);
/* Wakes this one, if it sleeps. */
void trp_idle_wake(struct trp_sched *sched, uint32_t index);

/*
 * Sleeps until woken, until there is work, or until the scheduler stops.
 * `searching`: the caller is counted as a searcher. Returns whether it is
 * counted as one afterwards.
 */
bool trp_idle_park(struct trp_worker *worker, bool searching);

/* Wakes everybody, for good. After `stopping` was set. */
void trp_idle_wake_all(struct trp_sched *sched);

/*
 * Sees to it that somebody who sleeps, if anybody does, sleeps no longer than
 * until the next alarm. After that may have become earlier, and before a worker
 * that has slept or fired runs something. Any thread; never blocks.
 */
void trp_idle_carry_on(struct trp_sched *sched);

/*
 * Blocks a foreign thread until all workers are parked and nothing waits, or
 * the deadline has passed (false). A pending alarm is nothing that waits.
 */
bool trp_idle_await_quiet(struct trp_sched *sched, uint64_t deadline_ns);

#endif /* TRP_SCHED_IDLE_H */
