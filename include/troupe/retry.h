/* SPDX-License-Identifier: MIT */
#ifndef TROUPE_RETRY_H
#define TROUPE_RETRY_H

#include <troupe/backoff.h>
#include <troupe/result.h>

TROUPE_BEGIN_DECLS

/* After each failed attempt, the last one included; attempts count from 1. */
typedef void (*troupe_attempted_fn)(uint32_t attempt, troupe_status status,
    int32_t code, void *user) TROUPE_NOEXCEPT;
/* Asked before a further attempt, so never after the last. */
typedef bool (*troupe_should_retry_fn)(uint32_t attempt, troupe_status status,
    int32_t code, void *user) TROUPE_NOEXCEPT;

typedef struct troupe_retry_options {
    size_t size;
    uint32_t attempts; /* required, >= 1, the first one included */
    uint32_t reserved;
    uint64_t deadline_ns;                /* for all together; 0 = none */
    const troupe_backoff *backoff;       /* NULL = no pause */
    troupe_attempted_fn attempted;       /* may be NULL */
    troupe_should_retry_fn should_retry; /* NULL = always */
    void *user;
} troupe_retry_options;

/*
 * Starts attempt `attempt` with any call that takes `then` and `ticket`, and
 * passes both on unchanged. `payload` is the runtime's copy, the same for each:
 *
 *     return troupe_ask(self, db, &query_type, payload, TROUPE_MS(50), then,
 *         ticket);
 */
typedef troupe_status (*troupe_attempt_fn)(troupe_self *self, void *state,
    uint32_t attempt, const void *payload, troupe_continuation then,
    troupe_ticket *ticket) TROUPE_NOEXCEPT;

/*
 * Inside: without blocking; `then` gets the first success, or the outcome of
 * the last attempt; E_TIMEOUT at the deadline, or when no time is left for the
 * pause before a further attempt. The end of the whole cancels an attempt that
 * runs. An attempt that cannot begin has failed with that status; one that was
 * cancelled is the last. `payload` is copied (types without drop); with a NULL
 * `type` there is none. The hooks run in turns of this actor.
 */
TROUPE_API TROUPE_NODISCARD troupe_status troupe_retry(troupe_self *self,
    const troupe_retry_options *options, troupe_attempt_fn attempt,
    const troupe_msg_type *type, const void *payload, troupe_continuation then,
    troupe_ticket *ticket);

/*
 * Outside: blocks this thread, needs no system. The attempt answers 0 for
 * success, else a code of its own; the hooks see TROUPE_E_FAILED with it. All
 * of them run on this thread.
 *
 * TROUPE_E_FAILED: it was the last attempt, or should_retry() said no.
 * TROUPE_E_TIMEOUT: no time is left for a further attempt and the pause before
 * it; an attempt that runs is not interrupted. After these and TROUPE_OK
 * `*code` is that of the last attempt; it may be NULL. E_CONTEXT on the thread
 * of a worker: an actor must not block.
 */
typedef int32_t (*troupe_attempt_wait_fn)(
    uint32_t attempt, void *user) TROUPE_NOEXCEPT;
TROUPE_API TROUPE_NODISCARD troupe_status troupe_retry_wait(
    const troupe_retry_options *options, troupe_attempt_wait_fn attempt,
    void *user, int32_t *code);

TROUPE_END_DECLS

#endif /* TROUPE_RETRY_H */
