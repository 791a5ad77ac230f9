/* SPDX-License-Identifier: MIT */
#ifndef TRP_ACTOR_WATCH_H
#define TRP_ACTOR_WATCH_H

/*
 * Death watch. A watch is its watcher's, and hangs on the list of the subject
 * until that ends:
 *
 *     extra of the watcher, or port             extra of the subject
 *     watching.slot [ |w|  |w| ...]             watchers
 *                      |                           |
 *                      +-> w <-> w of others <-> ... NULL
 *
 *   listed    in the table and on the list
 *   told      in the table; a notice is on its way or queued
 *   stashed   the same; the notice is in the stash
 *   shown     watching.shown: the behaviour has the notice
 *
 * A notice is a message with TRP_MARK_NOTICE that needs no memory but its slot.
 * What the behaviour sees is decided when its turn has come: the notice or the
 * message that was to come instead, or nothing if the table has no such watch
 * of that subject. So an unwatch need not look for what is queued or stashed,
 * and a watch that was stashed is told again.
 *
 * Invariants
 *   W1  The owner of the watcher makes, finds and frees its watches. What links
 *       them into a list is under the lock of the subject's cell, which is the
 *       same one in all lives of that cell.
 *   W2  A subject's life changes under its lock before the first watch is taken
 *       off the list. So a notice says that no watch of that subject is listed.
 *   W3  Of each subject no more watches are told than notices are queued, and
 *       no more stashed than notices are: those of removed watches come on
 *       top. A notice takes a watch of its own kind, or counts as cancelled.
 *       So the stash can be buried, and no watch is left without a notice.
 *       Without memory for its slot a notice is a dead letter instead, and the
 *       watch remains until its watcher ends.
 */

#include "actor/message.h"

#include <troupe/exit.h>

/* As long as it has not been shown. */
extern const troupe_msg_type trp_notice_type;

/* Of an actor; NULL: it has never watched. Owner. */
static inline struct trp_watching *
trp_watching_of(const struct trp_core *core, const struct trp_cell *cell)
{
    struct trp_extra *extra =
        trp_load_acquire(&trp_cold_of(core, cell)->extra); /* pairs:
                                                              cell.extra */

    return extra != NULL ? &extra->watching : NULL;
}

/* --- the watcher: its owner calls; `local` NULL on a foreign thread --------
 */

/*
 * One notice, or `instead` (NULL: a plain one), when `subject` has gone; at
 * once if it has. Of a watch that exists only the form changes. E_NOMEM and
 * what the watcher's own mailbox refuses with: nothing happened, `instead` is
 * the caller's.
 */
troupe_status trp_watch_add(struct trp_core *core, struct trp_local *local,
    struct trp_watching *watching, troupe_ref watcher, troupe_ref subject,
    troupe_msg *instead);
/* What was queued finds no watch. */
void trp_watch_remove(struct trp_core *core, struct trp_local *local,
    struct trp_watching *watching, troupe_ref subject);

/*
 * A notice's turn has come: makes of it what is to be shown, until settle.
 * False: nobody waits for it any more; it is counted, and nothing is left.
 */
bool trp_watch_show(struct trp_core *core, struct trp_local *local,
    struct trp_watching *watching, struct trp_item *item);
void trp_watch_settle(struct trp_core *core, struct trp_local *local,
    struct trp_watching *watching);
/*
 * The message that is shown is put aside: if it is a notice, makes of `item`
 * again what was queued. `boxed`: in a box. False: no memory.
 */
bool trp_watch_put_back(
    struct troupe_self *self, struct trp_item *item, bool boxed);
/* If `item` is a notice: it has gone from the stash into the mailbox. */
void trp_watch_unstash(struct trp_watching *watching, struct trp_item *item);
/*
 * Of an actor or port that stops, or of the stash as `reason` says: a dead
 * letter, or cancelled.
 */
void trp_watch_bury(struct trp_core *core, struct trp_local *local,
    struct trp_watching *watching, troupe_ref watcher, struct trp_item *item,
    troupe_dead_reason reason);

/* The watcher is about to stop: no more notices. What is told stays. */
void trp_watch_leave(struct trp_core *core, struct trp_watching *watching);
/* After that, when it has gone: nothing is left. */
void trp_watch_end(struct trp_core *core, struct trp_local *local,
    struct trp_watching *watching);
/* At the end of the system, which frees its pools itself. */
void trp_watch_fini(struct trp_core *core, struct trp_watching *watching);

/* --- the subject ---------------------------------------------------------- */

/* Its life has changed: tells all that are on the list in `extra`. */
void trp_watch_tell(struct trp_core *core, struct trp_local *local,
    struct trp_cold *cold, struct trp_extra *extra, const troupe_exit *exit);

#endif /* TRP_ACTOR_WATCH_H */
