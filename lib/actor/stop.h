/* SPDX-License-Identifier: MIT */
#ifndef TRP_ACTOR_STOP_H
#define TRP_ACTOR_STOP_H

/*
 * The one way an actor ends.
 *
 *   begin     X is set: sends fail from here on. The children get K.
 *   wait      until the last child has left the tree; it sets L.
 *   finish    stop(), then what is queued becomes dead letters, then the cell
 *             is given back (cell.h).
 *
 * Each step happens in a turn of the actor. Whatever asked for the stop first
 * decides how it is reported; later requests change nothing.
 */

#include "actor/cell.h"

/*
 * Owner of S: begins, and goes as far as it can. Afterwards the cell is not the
 * caller's any more: it has gone, waits for its children, or was submitted
 * again because a sender has not finished writing.
 */
void trp_stop(struct troupe_self *self, struct trp_cell *cell,
    struct trp_cursor *cursor, troupe_exit_kind kind, int32_t code);

/* Owner of S, has begun, in a later turn: as above. */
void trp_stop_continue(
    struct troupe_self *self, struct trp_cell *cell, struct trp_cursor *cursor);

/* Owner of S. */
bool trp_has_children(struct trp_core *core, struct trp_cell *cell);

/* K to every child. Any thread. */
void trp_stop_children(
    struct trp_core *core, struct trp_local *local, struct trp_cell *cell);

/*
 * An in-line stop to every child, K where there is no memory for it: of those,
 * whose number is the result, TROUPE_TAG_RUNTIME_ERROR tells, and who listens
 * is stopped after the others. Holds no lock while it publishes.
 */
uint32_t trp_stop_children_in_line(
    struct trp_core *core, struct trp_local *local, struct trp_cell *cell);

/*
 * Refuses nobody, ports and guardians, which are ended by other calls; one that
 * has gone is fine.
 */
troupe_status trp_stop_check(
    struct trp_core *core, troupe_ref whom, const char *call);

#endif /* TRP_ACTOR_STOP_H */
