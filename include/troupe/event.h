/* SPDX-License-Identifier: MIT */
#ifndef TROUPE_EVENT_H
#define TROUPE_EVENT_H

#include <troupe/deadletter.h>
#include <troupe/exit.h>

TROUPE_BEGIN_DECLS

/*
 * The event stream: actors subscribe to tags. Your own tags are published by
 * you; these by the library, without a sender, built only while somebody
 * listens:
 *
 *   tag                        payload
 *   TROUPE_TAG_DEAD_LETTER     troupe_dead_letter, see deadletter.h
 *   TROUPE_TAG_ACTOR_STARTED   troupe_actor_event, before its first turn
 *   TROUPE_TAG_ACTOR_STOPPED   troupe_actor_event, after its name is free
 *   TROUPE_TAG_ACTOR_RESTARTED troupe_actor_event, before it starts again
 *   TROUPE_TAG_RUNTIME_ERROR   troupe_actor_event, exit.code = troupe_status
 *
 * A runtime error is what nobody else is told: there was no memory to ask the
 * parent of an actor that has failed, or to count its restart, so it ends; or
 * for the pause before that, which is left out; or to let an actor handle what
 * is queued before its system stops (exit.kind STOPPED; the first 64), so that
 * becomes dead letters. Who listens to these is told to stop after the others.
 *
 * An event that was lost itself in the mailbox of an actor that stopped is a
 * dead letter like any other message; only a TROUPE_TAG_DEAD_LETTER that is
 * lost is counted, shown to the hook, and neither stored nor published again.
 */
#define TROUPE_TAG_ACTOR_STARTED UINT32_C(0xffffff05)
#define TROUPE_TAG_ACTOR_STOPPED UINT32_C(0xffffff06)
#define TROUPE_TAG_ACTOR_RESTARTED UINT32_C(0xffffff07)
#define TROUPE_TAG_RUNTIME_ERROR UINT32_C(0xffffff08)

typedef struct troupe_actor_event { /* frozen */
    troupe_exit exit;               /* exit.actor; started: the rest is zero */
    troupe_ref parent;              /* TROUPE_NONE: a child of /user */
    const char *type;               /* name of the actor type; static */
} troupe_actor_event;

/*
 * On the publisher's thread, many at once, outside every lock: pure. False: not
 * for me. NULL = everything. A publisher that has begun may call it a moment
 * after the subscription has ended, so `user` outlives the publishers.
 */
typedef bool (*troupe_event_filter_fn)(
    const troupe_msg *msg, void *user) TROUPE_NOEXCEPT;

/*
 * The same twice is once, so that a start() after a restart, which
 * subscriptions outlive, may subscribe again. Filters add up, and each that
 * says yes brings the event. Ends by itself when the actor stops. Events are
 * ordinary messages in the order of the rest. E_INVALID: tag 0, or one of the
 * library's that is not in the table. E_STATE: the actor is stopping. E_NOMEM.
 */
TROUPE_API TROUPE_NODISCARD troupe_status troupe_subscribe(troupe_self *self,
    troupe_tag tag, troupe_event_filter_fn filter, void *user);
/*
 * All of this actor's subscriptions to the tag; E_MISSING: there is none. What
 * was published before may still be in the mailbox.
 */
TROUPE_API troupe_status troupe_unsubscribe(troupe_self *self, troupe_tag tag);

/*
 * To all who subscribed by now, in the order in which they did; how many
 * accepted it. As with a tell, what the payload owns is taken: a type with a
 * drop must be TROUPE_MSG_SHARED.
 *
 * 0 is also the answer to a message that is wrong (E_INVALID, E_STATE) and, of
 * post, of a system that is stopping (E_CLOSED): nobody got it, and the payload
 * is the caller's still. Then call and status in troupe_last_error() say so,
 * and go on to do so until the next refusal on this thread.
 */
TROUPE_API size_t troupe_publish(
    troupe_self *self, const troupe_msg_type *type, const void *payload);
/* From any thread, without a sender. */
TROUPE_API size_t troupe_post_publish(
    troupe_system *system, const troupe_msg_type *type, const void *payload);

TROUPE_END_DECLS

#endif /* TROUPE_EVENT_H */
