/* SPDX-License-Identifier: MIT */
#ifndef TRP_ACTOR_METER_H
#define TRP_ACTOR_METER_H

/*
 * How long messages wait and behaviours take, while metrics are on. Off, a send
 * looks at one word of its worker; turns are another function, trp_turn().
 *
 *     send:  lot --drawn--> probe {cell, ticket, since} --> mailbox
 *     turn:  the message with that ticket comes: now - since
 *
 * Some sends and some messages are drawn (base/lot.h), and stand for those
 * since the one before. Of a send that was drawn the ticket that it is about to
 * claim is noted, with the time, in a table that is hashed by the cell; whoever
 * comes to that ticket knows how long it has waited. There is one probe in a
 * slot at a time: what is drawn meanwhile adds to its weight. A second table is
 * for cells that have used up their share and wait for the next turn. Of a
 * message that was drawn when it was popped the depth is told, and the time
 * that its behaviour takes.
 *
 * What ends without being handled leaves its probe behind. It is stale when the
 * head of its cell's ring has passed its ticket, which never comes again
 * (ring.h I8), and the next one to look frees it.
 *
 * Only what lies in the ring has a ticket: mailboxes with a lock (drop-head,
 * priority, the user's own) have no probes, nor have ports, nor what the owner
 * puts back.
 *
 * Invariants
 *   P1  Who changes a slot has set `since` to BUSY by a CAS before.
 *
 * Pairs
 *   meter.probe  store of since -> load or CAS of it: the rest of the slot.
 */

#include "actor/cell.h"
#include "actor/turn_more.h"

#define TRP_PROBES 1024u /* pairs: of sends, of cells that wait again */

struct trp_probe {
    /* (time + 1) << 2, with WOKE or not; BUSY; 0: free */
    TRP_ALIGNED(32) TRP_ATOMIC(uint64_t) since;
    TRP_ATOMIC(uint32_t) cell;
    TRP_ATOMIC(uint32_t) ticket;
    TRP_ATOMIC(uint32_t) weight;
    TRP_ATOMIC(uint32_t) missed; /* weights that found it in use */
};

#define TRP_PROBES_BYTES (2 * TRP_PROBES * sizeof(struct trp_probe))
#define TRP_PROBE_WOKE UINT64_C(1) /* the cell was made runnable then */
#define TRP_PROBE_BUSY UINT64_C(3) /* no time */

/* Its message was popped. */
void trp_meter_look(struct trp_turn *turn);
/* It was drawn: tells the depth; trp_meter_call() comes next. */
void trp_meter_weigh(struct trp_turn *turn);
/* It may not handle what it was made runnable for: that ends the delay. */
void trp_meter_look_early(struct trp_turn *turn);
/* It has waited for this turn after the one before. */
void trp_meter_look_again(struct trp_turn *turn);
/* It has used up its share and is about to wait for the next one. */
void trp_meter_yield(struct trp_turn *turn);

/* trp_turn_call(), timed. */
troupe_verdict trp_meter_call(
    struct trp_turn *turn, struct trp_item *item, troupe_msg *view);

/* A turn begins. False: there are no probes. */
TRP_INLINE bool
trp_meter_begin(struct trp_turn *turn)
{
    struct trp_meter *meter = &turn->local->meter;
    struct trp_probe *probes =
        trp_load_acquire(&turn->core->probes); /* pairs: meter.probe */

    if (TRP_UNLIKELY(probes == NULL)) {
        return false;
    }
    meter->probe = probes + 2 * (turn->self->ref.index % TRP_PROBES);
    if (TRP_UNLIKELY(turn->cell->used_up != 0)) {
        trp_meter_look_again(turn);
    }
    return true;
}

/* It has ended; its cell may have gone. */
TRP_INLINE void
trp_meter_end(struct trp_turn *turn)
{
    turn->local->meter.probe = NULL;
}

/* A message was popped: a probe may be about it, or about one before it. */
TRP_INLINE bool
trp_meter_has_probe(const struct trp_turn *turn)
{
    const struct trp_probe *probe = turn->local->meter.probe;

    /* relaxed, both: a look; trp_meter_look() acquires. */
    return trp_load_relaxed(&probe->since) != 0 &&
           (int32_t)(trp_load_relaxed(&probe->ticket) - turn->cursor.head) < 0;
}

/* What a tally is: its bounds, inclusive, and how many there are. */
struct trp_tally_shape {
    uint64_t bounds[TRP_TALLY_BUCKETS - 1];
    uint32_t count;
    uint32_t per_unit; /* of what is shown: 1e9 ns are a second */
};

extern const struct trp_tally_shape trp_tally_shapes[TRP_TALLIES];

#endif /* TRP_ACTOR_METER_H */
