/* SPDX-License-Identifier: MIT */
#ifndef TROUPE_WATCH_H
#define TROUPE_WATCH_H

#include <troupe/exit.h>
#include <troupe/send.h>

TROUPE_BEGIN_DECLS

/*
 * Death watch. The notice is a user message with tag TROUPE_TAG_DOWN, the
 * payload troupe_exit (both in exit.h) and the sender TROUPE_NONE. It comes
 * once per watch, is never dropped by any mailbox, follows everything the
 * subject had sent before, and comes at once for an actor that has already
 * gone. A restart is no death. The name of the subject is free by then.
 *
 * Where there is no memory to queue it when the subject ends it is a dead
 * letter (TROUPE_DEAD_REFUSED). A notice that is stashed is a notice still: it
 * comes again, unless you unwatch.
 */

/*
 * Watching twice is watching once. E_INVALID: TROUPE_NONE or yourself; E_STATE:
 * in stop(); E_NOMEM.
 */
TROUPE_API TROUPE_NODISCARD troupe_status troupe_watch(
    troupe_self *self, troupe_ref whom);

/*
 * `notice` arrives instead, with the sender TROUPE_NONE, and is as undroppable;
 * the last of the two forms wins. What is not needed any more is freed. After a
 * failure `notice` is still yours.
 */
TROUPE_API TROUPE_NODISCARD troupe_status troupe_watch_with(
    troupe_self *self, troupe_ref whom, troupe_msg *notice);

/*
 * After it nothing arrives, not even a notice that was queued already: that one
 * counts as cancelled. OK for anybody you do not watch.
 */
TROUPE_API troupe_status troupe_unwatch(troupe_self *self, troupe_ref whom);

TROUPE_END_DECLS

#endif /* TROUPE_WATCH_H */
