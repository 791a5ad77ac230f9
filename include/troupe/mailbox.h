/* SPDX-License-Identifier: MIT */
#ifndef TROUPE_MAILBOX_H
#define TROUPE_MAILBOX_H

#include <troupe/message.h>

TROUPE_BEGIN_DECLS

/* What a full mailbox does with one more message, whichever way it comes. */
typedef enum troupe_overflow {
    TROUPE_OVERFLOW_REJECT = 0,     /* sender gets TROUPE_E_FULL, keeps it */
    TROUPE_OVERFLOW_DROP_NEW = 1,   /* the arrival goes; sender sees OK */
    TROUPE_OVERFLOW_DROP_HEAD = 2,  /* the oldest goes; not with priority */
    TROUPE_OVERFLOW_DROP_LOWEST = 3 /* the least important; only priority */
} troupe_overflow;

typedef enum troupe_drop_reason {
    TROUPE_DROP_NEW = 0,
    TROUPE_DROP_HEAD = 1,
    TROUPE_DROP_THROTTLE = 2
} troupe_drop_reason;

/*
 * After a message was discarded, on the thread that caused it, outside every
 * lock, many threads at once. May send; what is dropped by that in the same
 * system is counted but not told. Must not block. `msg` is borrowed.
 */
typedef void (*troupe_on_drop_fn)(troupe_drop_reason reason,
    const troupe_msg *msg, void *user) TROUPE_NOEXCEPT;

/*
 * Lower is more urgent; once per message, on the sender's thread, many at
 * once: a pure function. NaN = "cannot say": served last of all, after +Inf,
 * and on_unrankable is told. Not called for death notices and other messages of
 * the library, which rank as NaN, nor for a message that a full mailbox refuses
 * or discards anyway. Must not send.
 */
typedef double (*troupe_priority_fn)(
    const troupe_msg *msg, void *user) TROUPE_NOEXCEPT;
typedef void (*troupe_unrankable_fn)(
    const troupe_msg *msg, void *user) TROUPE_NOEXCEPT;

enum {
    TROUPE_MAILBOX_DEAD_LETTER_DROPS = 1u << 0 /* drops become dead letters */
};
#define TROUPE_WARN_NEVER UINT32_MAX

typedef struct troupe_custom_mailbox troupe_custom_mailbox;

/*
 * Every actor has one mailbox. Without options: unbounded, first in first out
 * per sender, with a price per message that does not depend on its depth. Its
 * memory grows with what waits and is given back when it has been drained.
 *
 * Refused at spawn, with the option, the rule and the value in
 * troupe_last_error(): overflow without capacity, drop-head with priority,
 * drop-lowest without priority, custom together with any other kind.
 *
 * When `warn_depth` messages wait, and at each doubling, a warning in the log
 * names the actor; again after fewer than half of it were waiting.
 *
 * Undroppable messages (death notices, timers of the actor itself, types with
 * TROUPE_MSG_UNDROPPABLE) keep their place in line and count as waiting, but
 * are exempt from all of this: capacity, overflow, throttle. So does a
 * troupe_stop() that waits in line; in a priority mailbox it is the last of
 * all, and a custom one has to be empty before.
 *
 * `drop_user` and `priority_user` have to live until the system is destroyed: a
 * sender may still be in a call when the actor has stopped.
 */
typedef struct troupe_mailbox_options {
    size_t size;
    uint32_t capacity;         /* exact, user messages; 0 = unbounded */
    troupe_overflow overflow;  /* reject unless said otherwise */
    uint32_t flags;            /* TROUPE_MAILBOX_* */
    uint32_t warn_depth;       /* TROUPE_MAILBOX_WARN; or TROUPE_WARN_NEVER */
    troupe_on_drop_fn on_drop; /* with drop_user */
    void *drop_user;
    troupe_priority_fn priority; /* not NULL = priority mailbox */
    troupe_unrankable_fn on_unrankable;
    void *priority_user; /* of both */
    uint64_t ageing_ns;  /* waiting this long counts as 1 rank; 0 = none */
    const troupe_custom_mailbox *custom; /* static */
    void *custom_user;
} troupe_mailbox_options;

/*
 * A mailbox of your own: where the user messages of one actor wait. Stops, the
 * books and dead letters stay with the library. Static, const, all members
 * required.
 *
 * - Every function but open() and close() runs under the lock of this mailbox,
 *   one at a time, on a sender's thread or a worker. So it needs no lock, must
 *   be short and must not block; it may read messages, and calls nothing of the
 *   library that sends, stops, frees or asks: that may want the lock.
 * - What was accepted (OK) is the mailbox's until it comes out, once, by
 *   dequeue() or as `*evicted`. It is not freed, changed or forgotten, and
 *   dequeue() is not NULL while something is kept. What was refused stays the
 *   caller's: no pointer to it may remain.
 * - `*evicted` is NULL when enqueue() and prepend() are called. At most one
 *   message goes that way, maybe `msg` itself; it counts as dropped, with all
 *   that the options say of drops. Never an undroppable one.
 * - A troupe_stop() that waits in line is not in it: it comes when dequeue()
 *   says NULL. While others keep it filled it does not come.
 * - Messages of one sender keep their order, unless another order is the point
 *   of the mailbox.
 */
struct troupe_custom_mailbox {
    size_t size;
    const char *name;
    /* Once per actor, in its spawn, with custom_user; NULL = E_FAILED. */
    void *(*open)(void *user)TROUPE_NOEXCEPT;
    /*
     * At the actor's end, empty: what was left was dequeued before. Not in a
     * forked child, which may have been made in the middle of a call.
     */
    void (*close)(void *box) TROUPE_NOEXCEPT;
    /* OK = kept. E_NOMEM, or E_FULL and any other = refused, to the sender. */
    troupe_status (*enqueue)(
        void *box, troupe_msg *msg, troupe_msg **evicted) TROUPE_NOEXCEPT;
    /* Must keep it, whatever the bound; E_NOMEM is the only excuse. */
    troupe_status (*enqueue_undroppable)(
        void *box, troupe_msg *msg) TROUPE_NOEXCEPT;
    /*
     * Replay: to the front. Called for the newest first, so the oldest is in
     * front at the end; refused = it and all older ones stay in the stash.
     * Undroppable ones come by enqueue_undroppable() here as well, before.
     */
    troupe_status (*prepend)(
        void *box, troupe_msg *msg, troupe_msg **evicted) TROUPE_NOEXCEPT;
    troupe_msg *(*dequeue)(void *box)TROUPE_NOEXCEPT; /* NULL = empty */
    /* For tools and tests; the library counts by itself: troupe_depth(). */
    size_t (*length)(const void *box) TROUPE_NOEXCEPT;
};

/*
 * How many user messages wait, without the one being handled and without what
 * is stashed, and with each troupe_stop() that waits in line counted as one;
 * stale as soon as it returns, but never misses what the calling thread sent
 * before. An unbounded mailbox that is or was deep may read up to 15 too high
 * while it is emptied. TROUPE_DEPTH_DEAD for an actor that has stopped or is
 * stopping, and for TROUPE_NONE. Any thread; a few loads, no lock.
 */
#define TROUPE_DEPTH_DEAD UINT32_MAX
TROUPE_API uint32_t troupe_depth(const troupe_system *system, troupe_ref actor);

TROUPE_END_DECLS

#endif /* TROUPE_MAILBOX_H */
