/* SPDX-License-Identifier: MIT */
#ifndef TRP_ACTOR_RESTART_H
#define TRP_ACTOR_RESTART_H

/*
 * A new state in the same cell: ref, mailbox and watchers stay.
 *
 *   begin      timers end; the stash becomes dead letters; the children get K
 *              or, if they are to be kept, are held.
 *   continue   once the children have gone, and not before it is due: restart()
 *              or stop() on the old state, which is then zeroed; the first
 *              behaviour; start() follows in the turn.
 *
 * A K in between wins: the actor ends with its old state.
 */

#include "actor/cell.h"

/* Owner of S, both. The cell is RESTARTING from the first on. */
void trp_restart_begin(struct troupe_self *self, struct trp_cell *cell);
/* If it can: not RESTARTING any more. Else it looks again when it can. */
void trp_restart_continue(struct troupe_self *self, struct trp_cell *cell);

#endif /* TRP_ACTOR_RESTART_H */
