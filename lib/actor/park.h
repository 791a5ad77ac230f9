/* SPDX-License-Identifier: MIT */
#ifndef TRP_ACTOR_PARK_H
#define TRP_ACTOR_PARK_H

/*
 * An actor that must not run although messages may wait: it waits for a token,
 * or for what its parent says of its failure. S stays set and nobody has it, so
 * senders leave it alone; requests (K, L) and alarms wake it.
 *
 *     RUNNING --owner parks--> PARKED --first who tells it--> TOLD
 *        ^                                                      |
 *        +---------------- the owner looks again ---------------+
 *
 * Whoever swaps TOLD in and finds PARKED gets S and submits the cell. Who
 * requests sets the word first. The owner says that it looks, then looks at the
 * word, then parks, which fails if somebody has told it anything since.
 *
 * A tell may come late, when another actor has the cell: that one looks once
 * for nothing, as after every other tell.
 *
 * Pairs
 *   park.told   swap of park by who tells -> swap or CAS of it by the owner:
 *               the request is in the word.
 *   park.s      CAS of park by the owner -> swap by who tells: S, and all that
 *               lies behind it.
 */

#include "actor/mailbox.h"

enum { TRP_PARK_RUNNING = 0, TRP_PARK_PARKED = 1, TRP_PARK_TOLD = 2 };

/* Owner of S: what it is told from here on makes trp_park() fail. */
static inline void
trp_park_look(struct trp_cell *cell)
{
    (void)trp_swap_acq_rel(
        &cell->park, TRP_PARK_RUNNING); /* pairs: park.told */
}

/* Owner of S, everything published. True: the cell is not ours any more. */
static inline bool
trp_park(struct trp_cell *cell)
{
    uint8_t running = TRP_PARK_RUNNING;

    return trp_cas_acq_rel(
        &cell->park, &running, TRP_PARK_PARKED); /* pairs: park.s */
}

/* Any thread: if it is parked, makes it run. */
static inline void
trp_park_tell(
    struct trp_core *core, struct trp_local *local, struct trp_cell *cell)
{
    if (trp_swap_acq_rel(&cell->park, TRP_PARK_TOLD) == /* pairs: park.s */
        TRP_PARK_PARKED) {
        trp_mailbox_wake(core, local, cell);
    }
}

#endif /* TRP_ACTOR_PARK_H */
