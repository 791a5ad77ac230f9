/* SPDX-License-Identifier: MIT */
#ifndef TRP_ACTOR_SUPERVISE_H
#define TRP_ACTOR_SUPERVISE_H

/*
 * What happens when an actor fails.
 *
 *     child                        parent                       the child
 *     fail: FAILED, parks    L     asks rules, decide(),   L    restarts, goes
 *     hangs itself into   ------>  budget; gives an     ------> on, or stops
 *     the parent's list            order
 *
 *   FAILED      until the order comes; messages wait
 *   HELD        one above it has failed: handed down from parent to child
 *   RESTARTING  until the children have gone and it is due
 *
 * A suspended actor is parked (park.h) and looks up (turn.c) when it gets L or
 * K. Orders lie in a byte of its cell: one level and three pulses, set by its
 * parent's turn with the parent's lock held, so the child is in the tree. A
 * level and a pulse are seen together, so an order to restart is not lost if
 * the parent fails right after it.
 *
 * Stopping is final: K wins over every order, and what was reported to a parent
 * that is stopping itself is answered by its K.
 *
 * Out of memory: a failure that cannot be reported, and a restart that cannot
 * be booked, end the actor; a pause that finds no memory is left out.
 *
 * Locks: a parent's, then core->names. Never two cells' at once.
 *
 * Pairs
 *   cell.orders  RMW of orders by the parent, then L -> RMW by the child: what
 *                it is to do, and that it is due.
 */

#include "actor/cell.h"

enum {                        /* trp_cell.orders */
    TRP_ORDER_HOLD = 1u << 0, /* level: be suspended while it is set */
    TRP_ORDER_RESUME = 1u << 1,
    TRP_ORDER_RESTART = 1u << 2,
    TRP_ORDER_STOP = 1u << 3
};

/* The copy of a troupe_supervision; one block, shared by its readers. */
struct trp_supervision;

/* A refusal names the option; `copy` may point into `given`. */
troupe_status trp_supervision_check(troupe_supervision *copy,
    troupe_backoff *backoff, const troupe_supervision *given, const char *call);
/* Of one that was checked. NULL: no memory. */
struct trp_supervision *trp_supervision_new(
    struct trp_core *core, const troupe_supervision *checked);
/* NULL is allowed. */
void trp_supervision_release(
    struct trp_core *core, struct trp_supervision *how);

/*
 * How many restarts a budget has that lie in the window; it forgets those that
 * do not. An entry is one restart: `sequence` says when.
 */
uint32_t trp_restarts_count(
    struct trp_fifo *budget, uint64_t now_ns, uint64_t window_ns);

/*
 * Owner of S: the actor has failed. True: it is FAILED now, and will hear.
 * False: it must end, for its parent is about to, or there is no memory.
 */
bool trp_failure_report(struct troupe_self *self, struct trp_cell *cell,
    troupe_exit_kind kind, int32_t code);

/* Outside every lock: what was promised and could not be, if somebody listens.
 */
void trp_failure_tell(struct troupe_self *self, const struct trp_life *life);

/* Owner of S of a parent: one of its children's failures was answered. */
enum trp_answer {
    TRP_ANSWER_NONE,     /* there are none */
    TRP_ANSWER_GIVEN,    /* there may be more */
    TRP_ANSWER_ESCALATE, /* it is the parent's own now: `cause` */
};
enum trp_answer trp_failure_answer(
    struct troupe_self *self, struct trp_cell *cell, troupe_exit *cause);

/* Owner of S of a parent: there are some that were not answered. */
static inline bool
trp_failures_wait(const struct trp_core *core, const struct trp_cell *cell)
{
    const struct trp_extra *extra = trp_load_acquire(
        &trp_cold_of(core, cell)->extra); /* pairs: cell.extra */

    const struct trp_family *family = extra != NULL
                                          ? trp_load_acquire(&extra->family)
                                          : NULL; /* pairs: cell.family */

    /* relaxed: a look; a report comes with L, after it. */
    return family != NULL && trp_load_relaxed(&family->first_failed) != 0;
}

/* Owner of S: the same order to every child. */
void trp_order_children(struct trp_core *core, struct trp_local *local,
    struct trp_cell *cell, uint8_t set, uint8_t clear);

/* Owner of S: how it has failed. */
static inline const troupe_exit *
trp_failure_cause(const struct trp_core *core, const struct trp_cell *cell)
{
    return &trp_load_acquire(&trp_cold_of(core, cell)->extra)
                ->failure->cause; /* pairs: cell.extra */
}

/* Owner of S, told to restart: why, and not before when. */
uint64_t trp_restart_due(
    struct trp_core *core, struct trp_cell *cell, troupe_exit *cause);

/* Owner of S: the children have gone, and with them the budget they shared. */
void trp_family_forget(struct trp_core *core, struct trp_cell *cell);

/*
 * Owner of S, has failed once, about to leave the tree: what was not answered
 * need not be.
 */
void trp_failure_forget(struct trp_core *core, struct trp_cell *cell);

/* Of an extra that nobody can reach any more. */
void trp_failures_free(struct trp_core *core, struct trp_extra *extra);

#endif /* TRP_ACTOR_SUPERVISE_H */
