/* SPDX-License-Identifier: MIT */
#ifndef TROUPE_MAILBOX_H
#define TROUPE_MAILBOX_H

#include <troupe/message.h>

TROUPE_BEGIN_DECLS

/*
 * Every actor has one mailbox: unbounded, first in first out per sender, with
 * a price per message that does not depend on its depth. Its memory grows with
 * what waits and is given back when it has been drained.
 *
 * How many user messages wait, without the one being handled, and with each
 * troupe_stop() that waits in line counted as one; stale as soon as
 * it returns, but never misses what the calling thread sent before. Once 64
 * messages wait it may read up to 15 too high, until they have been handled.
 * TROUPE_DEPTH_DEAD for an actor that has stopped or is stopping, and for
 * TROUPE_NONE. Any thread; two loads, no lock.
 */
#define TROUPE_DEPTH_DEAD UINT32_MAX
TROUPE_API uint32_t troupe_depth(const troupe_system *system, troupe_ref actor);

TROUPE_END_DECLS

#endif /* TROUPE_MAILBOX_H */
