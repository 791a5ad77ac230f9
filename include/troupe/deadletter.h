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
    TROUPE_DEAD_STASH = 5, /* in the stash when it was cleared, or at a stop */
    TROUPE_DEAD_NO_SENDER = 8 /* reply to nobody, or sent to TROUPE_NONE */
} troupe_dead_reason;

/*
 * The hook borrows it until it returns. msg->payload is NULL where the payload
 * could not be kept. Frozen.
 */
typedef struct troupe_dead_letter {
    const troupe_msg *msg; /* with its sender */
    troupe_ref recipient;
    troupe_dead_reason reason;
    uint32_t reserved;
} troupe_dead_letter;

/*
 * On the thread that lost it, many at once, outside every lock. May send; what
 * is lost while it runs is counted but not shown to it again. Must not block.
 */
typedef void (*troupe_dead_letter_fn)(troupe_system *system,
    const troupe_dead_letter *letter, void *user) TROUPE_NOEXCEPT;

typedef struct troupe_dead_letter_hook { /* frozen */
    troupe_dead_letter_fn fn;
    void *user;
} troupe_dead_letter_hook;

/* "stopped", "refused", ..; static, never NULL. */
TROUPE_API const char *troupe_dead_reason_name(troupe_dead_reason reason);

TROUPE_END_DECLS

#endif /* TROUPE_DEADLETTER_H */
