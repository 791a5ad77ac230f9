/* SPDX-License-Identifier: MIT */
#ifndef TROUPE_BACKOFF_SUPERVISOR_H
#define TROUPE_BACKOFF_SUPERVISOR_H

#include <troupe/actor.h>

TROUPE_BEGIN_DECLS

/*
 * An actor that owns one child, brings it back after a growing delay and holds
 * the messages meanwhile. Send to the supervisor; it forwards, sender kept.
 *
 *      spawned              confirmed              has ended
 *         |--- grace_ns ------>|---- forwards ------->|--- delay ---> spawned
 *         |  holds             |  the held ones first |  holds
 *
 * A child that ends before it is confirmed has got nothing: however often
 * start() fails, nothing is lost and nothing comes in another order. A child
 * whose start() has not returned is not confirmed, whatever grace_ns says. What
 * has been forwarded is the child's: if it ends, what waits in its mailbox are
 * dead letters, as with any actor.
 *
 * What the supervisor holds when it stops or is restarted itself becomes dead
 * letters; the child stops with it. A new one begins with child-1, no failures
 * and a full budget.
 */
typedef enum troupe_trigger { /* which end of the child brings it back */
    TROUPE_TRIGGER_ANY = 0,
    TROUPE_TRIGGER_FAILURE = 1, /* a plain stop ends the supervisor too */
    TROUPE_TRIGGER_STOP = 2     /* a failure ends it too */
} troupe_trigger;

typedef enum troupe_hold {
    TROUPE_HOLD_STASH = 0, /* full: the oldest becomes a dead letter */
    TROUPE_HOLD_DROP = 1   /* each is one, TROUPE_DEAD_UNHANDLED */
} troupe_hold;

#define TROUPE_RESET_NEVER UINT64_MAX
#define TROUPE_GRACE_NONE UINT64_MAX /* forward as soon as it is spawned */

enum {
    /*
     * Forward during the grace period: faster, but what was held comes later,
     * and a child that fails in start() takes with it what it was sent.
     */
    TROUPE_BACKOFF_FORWARD_EARLY = 1u << 0
};

/*
 * A supervisor that ends with its child ends as that did: TROUPE_EXIT_FAILED
 * with its code, or TROUPE_EXIT_DONE.
 *
 * All that is pointed to is copied but for `child`, which is static. The budget
 * is literal, as in supervision.h: with 3 the fourth end within window_ns gives
 * up. A child that cannot be spawned (E_NOMEM, E_LIMIT, a custom mailbox that
 * does not open) has failed with that status.
 */
typedef struct troupe_backoff_options {
    size_t size;
    const char *name;                          /* of the supervisor */
    const troupe_actor_type *child;            /* required */
    const troupe_spawn_options *child_options; /* without `own` and `name` */
    /* NULL = "child"; real name child-1, child-2 ..; at most 234 bytes */
    const char *child_name;
    const troupe_backoff *backoff; /* required, with min_ns above 0 */
    uint64_t reset_ns;  /* lived this long: starts over; 0 = backoff->min_ns */
    uint64_t grace_ns;  /* alive this long = confirmed; 0 = min(50 ms, min) */
    uint64_t window_ns; /* of max_restarts; 0 = TROUPE_FOREVER */
    uint32_t max_restarts;   /* 0 = unlimited; or TROUPE_RESTARTS_* */
    uint32_t stash_capacity; /* 0 = 1000 */
    troupe_trigger trigger;
    troupe_hold hold;
    troupe_give_up give_up; /* STOP: ends; ESCALATE: fails, same code */
    uint32_t flags;         /* TROUPE_BACKOFF_FORWARD_EARLY */
} troupe_backoff_options;

/*
 * E_INVALID, E_VERSION: whatever is wrong with one of the options, by name, in
 * troupe_last_error(). The others are those of troupe_spawn(). On failure
 * nothing exists and `*supervisor` is untouched.
 */
TROUPE_API TROUPE_NODISCARD troupe_status troupe_spawn_backoff(
    troupe_self *self, const troupe_backoff_options *options,
    troupe_ref *supervisor);
/* A child of /user; any thread. */
TROUPE_API TROUPE_NODISCARD troupe_status troupe_system_spawn_backoff(
    troupe_system *system, const troupe_backoff_options *options,
    troupe_ref *supervisor);

TROUPE_END_DECLS

#endif /* TROUPE_BACKOFF_SUPERVISOR_H */
