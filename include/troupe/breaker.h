/* SPDX-License-Identifier: MIT */
#ifndef TROUPE_BREAKER_H
#define TROUPE_BREAKER_H

#include <troupe/result.h>

TROUPE_BEGIN_DECLS

/* Not an actor: any number of actors and threads share one. */
typedef struct troupe_breaker troupe_breaker;

typedef enum troupe_breaker_state {
    TROUPE_BREAKER_CLOSED = 0,
    TROUPE_BREAKER_OPEN = 1,
    TROUPE_BREAKER_HALF_OPEN = 2 /* one call probes, the others are refused */
} troupe_breaker_state;

/*
 * One at a time and in order, outside every lock: on the thread that caused the
 * change, or on one that is telling of an earlier change just then. It may use
 * the breaker, but not destroy it; what it changes itself it is told when it
 * has returned. If it falls 32 changes behind it misses some, never the last.
 */
typedef void (*troupe_breaker_listen_fn)(troupe_breaker *breaker,
    troupe_breaker_state state, void *user) TROUPE_NOEXCEPT;
/*
 * Does this outcome count as a failure? NULL = all but TROUPE_OK do. Not asked
 * about TROUPE_OK, a success always. What does not count changes nothing: it
 * neither closes a breaker nor ends a row of failures. Any thread.
 */
typedef bool (*troupe_breaker_counts_fn)(
    troupe_status status, int32_t code, void *user) TROUPE_NOEXCEPT;

#define TROUPE_RESET_AT_ONCE UINT64_MAX

typedef struct troupe_breaker_options {
    size_t size;
    /* Of its metrics; copied; NULL = "breaker". 1 to 63 bytes, no control. */
    const char *name;
    uint32_t max_failures; /* in a row; required */
    uint32_t reserved;
    /* Open this long, then a probe; required, or TROUPE_RESET_AT_ONCE. */
    uint64_t reset_ns;
    uint64_t call_ns; /* deadline of troupe_breaker_ask; 0 = the ask's */
    troupe_breaker_counts_fn counts;
    troupe_breaker_listen_fn listen;
    void *user;
} troupe_breaker_options;

/* Any thread, behaviours included; so are all calls but destroy. */
TROUPE_API TROUPE_NODISCARD troupe_status troupe_breaker_create(
    troupe_system *system, const troupe_breaker_options *options,
    troupe_breaker **breaker);
/*
 * Nobody is in a call of it, and nobody will be; permits that are out need not
 * come back. A system with open breakers is not destroyed. NULL is allowed.
 */
TROUPE_API void troupe_breaker_destroy(troupe_breaker *breaker);

/*
 * By hand: TROUPE_E_OPEN, or a permit to hand back with the outcome, once. A
 * permit of an earlier state is ignored, so a late result changes nothing.
 *
 * A permit that never comes back does no harm but in one case: that of a probe
 * keeps the breaker half-open, until somebody forces another state.
 */
typedef struct troupe_permit { /* frozen */
    uint64_t id;
} troupe_permit;
TROUPE_API TROUPE_NODISCARD troupe_status troupe_breaker_enter(
    troupe_breaker *breaker, troupe_permit *permit);
TROUPE_API void troupe_breaker_leave(troupe_breaker *breaker,
    troupe_permit permit, troupe_status status, int32_t code);

/*
 * Around an ask of the running actor; `then` gets TROUPE_E_OPEN while it is
 * open. The outcome of the ask is handed back before `then` runs, with the code
 * of a failure. One that was cancelled, or whose system stops, or that could
 * not begin, says nothing of the dependency and does not count. Returns what
 * troupe_ask() returns. The breaker has to live until `then` has run.
 */
TROUPE_API TROUPE_NODISCARD troupe_status troupe_breaker_ask(troupe_self *self,
    troupe_breaker *breaker, troupe_ref whom, const troupe_msg_type *type,
    const void *payload, troupe_continuation then, troupe_ticket *ticket);

/*
 * Time alone changes nothing: an open breaker whose time is up stays open until
 * the next enter. CLOSED for NULL.
 */
TROUPE_API troupe_breaker_state troupe_breaker_state_now(
    const troupe_breaker *breaker);
/*
 * For operators. OPEN lasts `reset_ns`, HALF_OPEN until the next call has
 * probed. Permits that are out become late. In that state already: nothing.
 */
TROUPE_API void troupe_breaker_force(
    troupe_breaker *breaker, troupe_breaker_state state);

TROUPE_END_DECLS

#endif /* TROUPE_BREAKER_H */
