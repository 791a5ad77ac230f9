/* SPDX-License-Identifier: MIT */
#ifndef TRP_ACTOR_MAILBOX_H
#define TRP_ACTOR_MAILBOX_H

/*
 * Data path 2 of 6: admit. From actor/send.c, next queue/ring.h.
 *
 * A mailbox is a ring in the actor's cell. Its word says who schedules it:
 *
 *              a sender's CAS finds S clear: this sender submits the cell
 *     IDLE ---------------------------------------------------> SCHEDULED
 *      ^                                                            |
 *      | empty, and the CAS that                                    | a worker
 *      | clears S finds it so                                       | takes it
 *      |                                                            v
 *      +-------------------------------------------------------- RUNNING
 *                                                                   |
 *                throughput used up: submit again, S stays <--------+
 *
 * Two bits of the word are requests to the owner, seen before the next message:
 * K (stop now) and L (look at your children). They are set like a message is
 * queued, with the generation checked, so they cannot hit a stranger.
 */

#include "actor/message.h"
#include "actor/rules.h"
#include "sched/submit.h"

/* A port's owner is a foreign loop: it is told through its descriptor. */
void trp_mailbox_wake_port(struct trp_cell *cell);
/* The ring is full, or as deep as somebody wants to know: grows it, warns. */
enum trp_claim trp_mailbox_push_deep(struct trp_core *core,
    struct trp_local *local, struct trp_cell *cell, uint32_t generation,
    const struct trp_item *item);

/* The same for what is no cell: actor/op.h. */
troupe_status trp_promise_deliver(struct trp_core *core,
    struct trp_local *local, troupe_ref to, const struct trp_item *item);

/* S is ours: makes the owner run. `local` NULL: a foreign thread. */
TRP_INLINE void
trp_mailbox_wake(
    struct trp_core *core, struct trp_local *local, struct trp_cell *cell)
{
    if (TRP_UNLIKELY(trp_cell_kind(cell) == TRP_KIND_PORT)) {
        trp_mailbox_wake_port(cell);
    } else if (TRP_LIKELY(local != NULL)) {
        trp_submit(local->worker, &cell->task);
    } else {
        trp_submit_foreign(&core->sched, &cell->task);
    }
}

/* The same as trp_mailbox_deliver(); whether it is measured has been decided.
 */
TRP_INLINE troupe_status
trp_mailbox_deliver_now(struct trp_core *core, struct trp_local *local,
    troupe_ref to, const struct trp_item *item)
{
    struct trp_cell *cell;
    enum trp_claim claim;

    if (TRP_UNLIKELY(!trp_ref_is_possible(core, to))) {
        return trp_promise_deliver(core, local, to, item);
    }
    cell = trp_cell_at(core, to.index);
    claim = trp_ring_push(&core->segments, &cell->ring, &cell->generation,
        to.generation, core->deep_from, item);
    if (TRP_UNLIKELY(claim == TRP_CLAIM_FULL)) {
        claim = trp_mailbox_push_deep(core, local, cell, to.generation, item);
    }
    switch (claim) {
    case TRP_CLAIM_QUEUED:
        return TROUPE_OK;
    case TRP_CLAIM_WAKE:
        trp_mailbox_wake(core, local, cell);
        return TROUPE_OK;
    case TRP_CLAIM_FULL:
        return TROUPE_E_NOMEM;
    case TRP_CLAIM_CLOSED:
    case TRP_CLAIM_LIMIT:
    case TRP_CLAIM_AGAIN:
        break;
    }
    /* It has gone, or the claim could not know the rules: C4. */
    return trp_rules_deliver(core, local, to, item);
}

/* How long this one waits is measured: actor/meter.h. */
troupe_status trp_meter_deliver(struct trp_core *core, struct trp_local *local,
    troupe_ref to, const struct trp_item *item);

static inline bool
trp_meter_draws(const struct trp_core *core, struct trp_local *local)
{
    uint32_t left;

    if (local == NULL) {
        /* relaxed: a switch; nothing hangs on when it is seen. */
        return trp_load_relaxed(&core->metered) != 0 &&
               trp_lot_draw(&trp_thread.sends);
    }
    /* relaxed, both: see struct trp_meter. */
    left = trp_load_relaxed(&local->meter.sends_left);
    if (TRP_LIKELY(left == 0)) {
        return false;
    }
    trp_store_relaxed(&local->meter.sends_left, left - 1);
    return left == 1;
}

/*
 * The send that was drawn was one to a router: who it passes the message on to
 * is measured instead.
 */
static inline bool
trp_meter_is_owed(const struct trp_local *local)
{
    return (local != NULL ? &local->meter.sends : &trp_thread.sends)->is_owed !=
           0;
}

/*
 * Puts `item` in line for `to`. TROUPE_OK: what it holds is the receiver's.
 * TROUPE_E_DEAD, TROUPE_E_NOMEM, TROUPE_E_FULL: it is the caller's still. With
 * rules TROUPE_OK may mean that it was dropped by one.
 */
TRP_INLINE troupe_status
trp_mailbox_deliver(struct trp_core *core, struct trp_local *local,
    troupe_ref to, const struct trp_item *item)
{
    if (TRP_UNLIKELY(trp_meter_draws(core, local))) {
        return trp_meter_deliver(core, local, to, item);
    }
    return trp_mailbox_deliver_now(core, local, to, item);
}

/*
 * After an arrival made it `depth`: says so at `warn` messages and at each
 * doubling, once. Any thread.
 */
void trp_mailbox_look_deep(struct trp_core *core, struct trp_cell *cell,
    uint32_t warn, uint32_t depth);
/* By the owner, now and then: below half of the mark it may be said again. */
void trp_mailbox_rearm(struct trp_core *core, struct trp_cell *cell);

/*
 * Sets K or L for the actor `ref` and makes it look. False: it has gone, or is
 * stopping already and K means nothing to it.
 */
bool trp_mailbox_request(struct trp_core *core, struct trp_local *local,
    troupe_ref ref, uint64_t flag);

#endif /* TRP_ACTOR_MAILBOX_H */
