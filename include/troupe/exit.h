/* SPDX-License-Identifier: MIT */
#ifndef TROUPE_EXIT_H
#define TROUPE_EXIT_H

#include <troupe/message.h>

TROUPE_BEGIN_DECLS

/*
 * How an actor ended; FAILED and START_FAILED, why it is restarted, too. One
 * that has failed and waits for its parent's answer when it is stopped ends as
 * failed.
 */
typedef enum troupe_exit_kind {
    TROUPE_EXIT_DONE = 0,         /* behaviour returned TROUPE_DONE */
    TROUPE_EXIT_STOPPED = 1,      /* somebody stopped it, or its parent */
    TROUPE_EXIT_FAILED = 2,       /* behaviour returned TROUPE_FAILED */
    TROUPE_EXIT_START_FAILED = 3, /* start() returned a failure */
    TROUPE_EXIT_UNKNOWN = 4       /* was gone before it was watched */
} troupe_exit_kind;

typedef struct troupe_exit { /* frozen */
    troupe_ref actor;
    troupe_exit_kind kind;
    int32_t code; /* when failed: > 0 yours, < 0 a troupe_status, 0 none */
} troupe_exit;

/*
 * A death notice: a user message with this tag, the payload troupe_exit and the
 * sender TROUPE_NONE. It follows everything the subject had sent before. Who
 * gets one: an actor (watch.h), a port (port.h) or a probe (testkit.h) that
 * watches.
 */
#define TROUPE_TAG_DOWN UINT32_C(0xffffff02)

static inline const troupe_exit *
troupe_down(const troupe_msg *msg)
{
    return troupe_payload(msg, troupe_exit);
}

TROUPE_END_DECLS

#endif /* TROUPE_EXIT_H */
