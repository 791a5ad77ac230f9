/* SPDX-License-Identifier: MIT */
#ifndef TRP_PATTERN_RETRY_H
#define TRP_PATTERN_RETRY_H

#include <troupe/retry.h>

/*
 * A complete copy of options that can be carried out, and of their policy if
 * they have one: copy->backoff is `backoff` or NULL.
 */
troupe_status trp_retry_copy(troupe_retry_options *copy,
    troupe_backoff *backoff, const troupe_retry_options *given,
    const char *call);

/* Where the time of a retry comes from: a test has its own. */
struct trp_retry_time {
    uint64_t (*now_ns)(void *user);
    void (*sleep_until)(uint64_t due_ns, void *user);
    void *user;
};

/* troupe_retry_wait() with options from trp_retry_copy(). */
troupe_status trp_retry_run(const troupe_retry_options *options,
    const struct trp_retry_time *time, troupe_attempt_wait_fn attempt,
    void *user, int32_t *code);

#endif /* TRP_PATTERN_RETRY_H */
