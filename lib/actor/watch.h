/* SPDX-License-Identifier: MIT */
#ifndef TRP_ACTOR_WATCH_H
#define TRP_ACTOR_WATCH_H

/*
 * Who wants to hear of whose end. The list hangs on the subject, under its
 * lock; the notice is an ordinary message that needs no memory but its slot.
 */

#include "actor/cell.h"

/*
 * `watcher` gets one notice when `subject` has gone, at once if it has already.
 * `*added` (may be NULL): false if it would have got one anyway. Any thread.
 * E_NOMEM: nothing happened.
 */
troupe_status trp_watch_add(struct trp_core *core, struct trp_local *local,
    troupe_ref subject, troupe_ref watcher, bool *added);
/* No notice, unless it is on its way already. Any thread. */
void trp_watch_remove(
    struct trp_core *core, troupe_ref subject, troupe_ref watcher);

/* Sends the notice; without a receiver it is a dead letter. */
void trp_watch_notify(struct trp_core *core, struct trp_local *local,
    troupe_ref watcher, const troupe_exit *exit);

#endif /* TRP_ACTOR_WATCH_H */
