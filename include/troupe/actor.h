/* SPDX-License-Identifier: MIT */
#ifndef TROUPE_ACTOR_H
#define TROUPE_ACTOR_H

#include <troupe/mailbox.h>
#include <troupe/send.h>
#include <troupe/supervision.h>
#include <troupe/throttle.h>

TROUPE_BEGIN_DECLS

typedef enum troupe_verdict {
    TROUPE_CONTINUE = 0, /* ready for the next message */
    TROUPE_DONE = 1,     /* stop now; what is queued becomes dead letters */
    TROUPE_FAILED = 2,   /* the supervisor decides; the message is consumed */
    TROUPE_UNHANDLED = 3 /* not for me: dead letter, then continue */
} troupe_verdict;

/*
 * Handles one message. One thread at a time runs a given actor and turn n
 * happens before turn n + 1, so `state` needs no lock. `self` and `msg` are
 * valid until it returns; troupe_take() keeps the message. Must not block: the
 * worker that runs it serves other actors too. A verdict that is none of the
 * four counts as TROUPE_FAILED with the code TROUPE_E_INVALID.
 */
typedef troupe_verdict (*troupe_behaviour_fn)(
    troupe_self *self, void *state, const troupe_msg *msg) TROUPE_NOEXCEPT;

enum {
    /* They wait during a restart and go on; start() finds their names taken. */
    TROUPE_ACTOR_KEEP_CHILDREN = 1u << 0,
    TROUPE_ACTOR_DEATH_PACT = 1u << 1 /* an unhandled death notice fails */
};

/*
 * Zero in a spawn option means: what the type says, else the default. All
 * pointed-to options are copied, functions and their user words are kept.
 */
typedef struct troupe_spawn_options {
    size_t size;
    const char *name; /* of this child; NULL = a generated one; copied */
    const void *arg;  /* plain data for start(), copied, also for restarts */
    size_t arg_bytes; /* both or neither; pass a pointer by its address */
    const troupe_mailbox_options *mailbox; /* NULL = unbounded, in order */
    const troupe_supervision *children;    /* how it supervises its children */
    const troupe_supervision *own; /* instead of its parent's `children` */
    const troupe_throttle_options *throttle; /* NULL = none */
    uint32_t throughput;     /* messages per turn, <= 65536; 0: see system.h */
    uint32_t stash_capacity; /* TROUPE_STASH_CAPACITY */
    uint32_t flags;          /* TROUPE_ACTOR_*, added to the type's */
    uint32_t reserved;
} troupe_spawn_options;

/* A kind of actor: static, const, shared by all its instances. */
typedef struct troupe_actor_type {
    size_t size;
    const char *name;   /* required, as receive is */
    size_t state_bytes; /* zeroed before each start(); aligned to 16 */
    troupe_behaviour_fn receive;
    /*
     * First turn, and again after a restart. Not OK = it has failed, as
     * START_FAILED with that code, or the one troupe_fail() was given.
     */
    troupe_status (*start)(
        troupe_self *self, void *state, const void *arg) TROUPE_NOEXCEPT;
    /*
     * Last turn, after the children have gone, if start() succeeded; before a
     * restart, too, if there is no restart(). `why` is then the failure, which
     * may be a sibling's: supervision.h.
     */
    void (*stop)(
        troupe_self *self, void *state, const troupe_exit *why) TROUPE_NOEXCEPT;
    const troupe_spawn_options *defaults; /* name and arg unused; or NULL */
    /*
     * Before a restart, in place of stop(), on the old state, which is zeroed
     * after it; after the children have gone, but for those that are kept; if
     * start() had succeeded. It may not spawn.
     */
    void (*restart)(
        troupe_self *self, void *state, const troupe_exit *why) TROUPE_NOEXCEPT;
} troupe_actor_type;

/*
 * Returns at once; start() runs in the child's first turn and messages sent
 * before that wait. E_EXISTS: a sibling has the name. E_STATE: the spawner is
 * in its stop() or restart(); before, whoever has told it to stop, it may
 * spawn, and the child goes with it. E_CLOSED: the system is stopping. E_LIMIT:
 * as many live as can. E_NOMEM. E_INVALID, E_VERSION: see troupe_last_error().
 * On failure nothing exists and `*child` is untouched.
 */
TROUPE_API TROUPE_NODISCARD troupe_status troupe_spawn(troupe_self *self,
    const troupe_actor_type *type, const troupe_spawn_options *options,
    troupe_ref *child);
/* A child of /user; any thread. */
TROUPE_API TROUPE_NODISCARD troupe_status troupe_system_spawn(
    troupe_system *system, const troupe_actor_type *type,
    const troupe_spawn_options *options, troupe_ref *actor);

TROUPE_API troupe_ref troupe_self_ref(const troupe_self *self);
TROUPE_API troupe_system *troupe_self_system(const troupe_self *self);

/*
 * Takes effect with the next message; `next` replaces the behaviour on top, a
 * restart goes back to the first one. NULL is ignored.
 */
TROUPE_API void troupe_become(troupe_self *self, troupe_behaviour_fn next);
TROUPE_API TROUPE_NODISCARD troupe_status troupe_become_push(
    troupe_self *self, troupe_behaviour_fn next);
TROUPE_API troupe_status troupe_unbecome(troupe_self *self); /* E_STATE: last */

/* `return troupe_fail(self, 7);` `return troupe_check(self, status);` */
TROUPE_API troupe_verdict troupe_fail(troupe_self *self, int32_t code);
static inline troupe_verdict
troupe_check(troupe_self *self, troupe_status status)
{
    return status == TROUPE_OK
               ? TROUPE_CONTINUE
               : troupe_fail(self, TROUPE_CAST(int32_t, status));
}

TROUPE_END_DECLS

#endif /* TROUPE_ACTOR_H */
