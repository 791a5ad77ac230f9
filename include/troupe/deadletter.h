/* SPDX-License-Identifier: MIT */
#ifndef TROUPE_DEADLETTER_H
#define TROUPE_DEADLETTER_H

#include <troupe/message.h>

TROUPE_BEGIN_DECLS

/* Why nobody handled a message. The numbers are labels: never reused. */
typedef enum troupe_dead_reason {
    TROUPE_DEAD_STOPPED = 0,   /* recipient had stopped, or stopped with it */
    TROUPE_DEAD_REFUSED = 1,   /* tell, reply or forward could not be stored */
    TROUPE_DEAD_DROPPED = 2,   /* with TROUPE_MAILBOX_DEAD_LETTER_DROPS */
    TROUPE_DEAD_UNHANDLED = 3, /* behaviour returned TROUPE_UNHANDLED */
    TROUPE_DEAD_NO_ROUTE = 4,  /* a router without a live routee */
    TROUPE_DEAD_STASH = 5, /* in the stash when it was cleared, or at a stop */
    TROUPE_DEAD_LATE = 6,  /* answer to an operation that has ended */
    TROUPE_DEAD_EXPIRED = 7,  /* TROUPE_MSG_EXPIRES: nobody waits any more */
    TROUPE_DEAD_NO_SENDER = 8 /* reply to nobody, or sent to TROUPE_NONE */
} troupe_dead_reason;

/*
 * The hook borrows it until it returns. Subscribers (event.h) get it under
 * TROUPE_TAG_DEAD_LETTER, a shared type that owns `msg`. msg->payload is NULL
 * where the payload could not be kept, whatever msg->bytes says; of a message
 * that was refused it may be the sender's own, aligned as that is. Frozen.
 */
#define TROUPE_TAG_DEAD_LETTER UINT32_C(0xffffff04)
typedef struct troupe_dead_letter {
    const troupe_msg *msg; /* with its sender */
    troupe_ref recipient;  /* of a replayed one: where it was sent last */
    troupe_dead_reason reason;
    uint32_t replays; /* so often was it replayed before */
} troupe_dead_letter;

/*
 * On the thread that lost it, many at once, outside every lock. May send; what
 * its system loses on this thread while it runs is counted but not shown to it
 * again. Must not block.
 */
typedef void (*troupe_dead_letter_fn)(troupe_system *system,
    const troupe_dead_letter *letter, void *user) TROUPE_NOEXCEPT;

typedef struct troupe_dead_letter_hook { /* frozen */
    troupe_dead_letter_fn fn;
    void *user;
} troupe_dead_letter_hook;

/* "stopped", "refused", ..; static, never NULL. */
TROUPE_API const char *troupe_dead_reason_name(troupe_dead_reason reason);

/* --- the store ------------------------------------------------------------ */

#define TROUPE_REPLAYS_NONE UINT32_MAX

/*
 * The newest `capacity` letters, each with a copy of its payload. Of a
 * TROUPE_MSG_SHARED type the payload itself is kept where it was stored outside
 * the mailbox; any other that owns something (type->drop) cannot be kept.
 * docs/dead_letters.md has the whole story.
 */
typedef struct troupe_dead_letter_options {
    size_t size;
    uint32_t capacity;     /* 1 to 1000000; 0 = no store, only counting */
    uint32_t max_replays;  /* 0 = 3; or TROUPE_REPLAYS_NONE: never */
    uint64_t retention_ns; /* older ones are gone; 0 = 1 h; TROUPE_FOREVER */
} troupe_dead_letter_options;

typedef struct troupe_dead_letter_filter {
    size_t size;
    /* "/user/a" or "troupe://system/user/a": it and all below; NULL = all */
    const char *subtree;
    uint64_t since_ns; /* troupe_now_ns(); this instant included */
    uint64_t until_ns; /* the same; 0 = now */
    size_t limit;      /* the newest so many; 0 = all */
} troupe_dead_letter_filter;

/*
 * Paths are those of the moment when it was lost; of an actor that had gone
 * before, only the ref is known: "$index-generation", in no subtree. Valid
 * until the visitor returns.
 */
typedef struct troupe_dead_letter_entry { /* borrowed; may grow */
    size_t size;
    uint64_t id;                /* grows; the same after a replay that failed */
    uint64_t when_ns;           /* troupe_now_ns() */
    const char *recipient_path; /* "" = nobody */
    const char *sender_path;    /* "" = none */
    troupe_dead_letter letter;
} troupe_dead_letter_entry;

/*
 * Outside every lock: may replay, list and clear. What it is shown may have
 * left the store already. Return false to end.
 */
typedef bool (*troupe_dead_letter_visit_fn)(
    const troupe_dead_letter_entry *entry, void *user) TROUPE_NOEXCEPT;

/*
 * Newest first, from a snapshot. `filter` may be NULL. E_STATE without a store;
 * E_INVALID also for a subtree that is not an absolute path; E_NOMEM, and
 * nothing was visited. Any thread.
 */
TROUPE_API troupe_status troupe_dead_letters_list(troupe_system *system,
    const troupe_dead_letter_filter *filter, troupe_dead_letter_visit_fn visit,
    void *user);
/* The one with this id, or E_MISSING. E_STATE without a store. Any thread. */
TROUPE_API troupe_status troupe_dead_letters_get(troupe_system *system,
    uint64_t id, troupe_dead_letter_visit_fn visit, void *user);

/*
 * Sends it again, original sender, to `to` or with TROUPE_NONE to where it was
 * meant for, and takes it out of the store. Failing again it comes back under
 * the same id with one replay more and the recipient it was sent to last.
 * Checked in this order: E_STATE no store, E_CLOSED the system is stopping,
 * E_MISSING no such id, E_INVALID its payload was not kept, E_LIMIT replayed
 * max_replays times, to whomever, E_DEAD nobody there. E_NOMEM and E_FULL as
 * for any send. Whatever is refused stays in the store as it was; but list, get
 * and clear do not see a letter while a replay tries to send it. A question of
 * a TROUPE_MSG_EXPIRES type whose ask has ended expires again. Any thread.
 */
TROUPE_API TROUPE_NODISCARD troupe_status troupe_dead_letters_replay(
    troupe_system *system, uint64_t id, troupe_ref to);
/* Empties the store; how many there were. Any thread. */
TROUPE_API size_t troupe_dead_letters_clear(troupe_system *system);

TROUPE_END_DECLS

#endif /* TROUPE_DEADLETTER_H */
