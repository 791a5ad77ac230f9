/* SPDX-License-Identifier: MIT */
#ifndef TRP_ACTOR_TIMERS_H
#define TRP_ACTOR_TIMERS_H

/*
 * Timers of an actor, by key, and its receive timeout. 128 bytes each, from the
 * pool of messages:
 *
 *     box                    alarm           key, next, kind   owner   payload
 *     what lies in the       wheel of the    table of the      whom    16
 * bytes, mailbox when it fires  scheduler       actor             for     or a
 * box
 *
 * A timer is in one pair of hands at a time, and whoever has it may free it:
 *
 *              set                 due                 delivered
 *     OWNER ---------> SERVICE ---------> fire() -----------------> MAILBOX
 *       ^                 |                 |  no memory, or it is       |
 *       |     cancelled   |                 |  too early for an idle one |
 *       |<----------------+  <--------------+  (renew)                   |
 *       +----------------------------------------------------------------+
 *                                  popped
 *
 * The owner, who is on another thread, ends a timer that somebody else has by
 * trp_alarm_end(): that gives it back, or marks it as ended for the one who has
 * it. So the message of a cancelled timer is known when it is popped, and its
 * memory is free then at the latest. Nobody waits for anybody.
 *
 * Invariants
 *   T1  What is in the table, or is `idle`, is not ended, and lives: only the
 *       owner takes it out. What is ended is in neither.
 *   T2  All are ended before the ring is closed. So who is refused because of
 *       that finds it ended, and frees it.
 *   T3  At most one message of a timer is anywhere: it is the timer.
 *
 * Pairs
 *   timer.last  relaxed: fire() only decides whether to look again later; the
 *               owner decides when the message is popped.
 *   (alarm.ended in sched/alarm.h)
 */

#include "actor/message.h"
#include "actor/timer_table.h"
#include "sched/alarm.h"

enum trp_timer_kind {
    TRP_TIMER_ONCE,
    TRP_TIMER_DELAY,
    TRP_TIMER_RATE,
    TRP_TIMER_IDLE
};

struct trp_timer {
    struct trp_box box; /* first; type, bytes and payload are the message's */
    struct trp_alarm alarm;
    uint64_t key;
    uint32_t next; /* in a chain of the table: unit */
    TRP_ATOMIC(uint8_t) ended;
    uint8_t kind;
    uint16_t retries; /* after each other, until it was delivered */
    troupe_ref owner;
    uint64_t interval_ns;
    union {
        uint64_t words[2];            /* a small payload */
        struct trp_box *message;      /* a large one */
        TRP_ATOMIC(uint64_t) last_ns; /* IDLE: when a message was handled */
    } of;
};

_Static_assert(
    sizeof(struct trp_timer) == 128 && offsetof(struct trp_timer, of) % 16 == 0,
    "two units of the pool, and an aligned payload");

/* Owner of S. */
struct trp_timers {
    struct trp_timer_table table;
    struct trp_timer *idle;
};

/*
 * Of a timer's message that was popped, by the owner; `active`: it has handled
 * something since it rested. False: it is not to be handled, and was counted as
 * cancelled. If true, it is an ordinary message now, and after it was handled
 * `*ticking`, if not NULL, is given to trp_timer_ticked().
 */
bool trp_timer_begin(struct troupe_self *self, struct trp_item *item,
    bool active, struct trp_timer **ticking);
void trp_timer_ticked(struct troupe_self *self, struct trp_timer *ticking);

/*
 * Of a timer's message that will not be handled, and is in nobody's hands but
 * the caller's: counts it as cancelled, and lets it come again later unless the
 * timer has ended. Any thread.
 */
void trp_timer_return(
    struct trp_core *core, struct trp_local *local, struct trp_item *item);

/*
 * All of them and the receive timeout, at a stop or restart; on the owner's
 * turn, before its ring is closed. Messages that are queued are not handled.
 */
void trp_timers_end(struct troupe_self *self, struct trp_cell *cell);

/*
 * A once of a type that only the library may use, which has no payload. The
 * turn of `self`; replaces the key. E_STATE: it is stopping; E_NOMEM.
 */
troupe_status trp_timer_start_own(troupe_self *self, uint64_t key,
    const troupe_msg_type *type, uint64_t delay_ns, const char *call);

/* Messages were handled, of an actor with a receive timeout that rests now. */
void trp_timers_rest(struct trp_core *core, struct trp_cell *cell);

/* With the extra, in which nothing is left unless no thread is. */
void trp_timers_free(struct trp_core *core, struct trp_timers *timers);

#endif /* TRP_ACTOR_TIMERS_H */
