/* SPDX-License-Identifier: MIT */
#ifndef TROUPE_TYPES_H
#define TROUPE_TYPES_H

#include <troupe/status.h>

TROUPE_BEGIN_DECLS

/*
 * Two worlds. A `troupe_self` exists only while a callback of an actor runs
 * and is valid only until it returns: never store it, never give it to another
 * thread. A `troupe_system` is valid on every thread, behaviours included.
 * Where it matters who you are (sending, spawning, stopping) the inside
 * call takes `self` and the outside call is named troupe_post_* or
 * troupe_system_*. Where it does not matter there is one call, with `system`.
 */
typedef struct troupe_system troupe_system; /* one runtime; owns its threads */
typedef struct troupe_self troupe_self;     /* "I am inside a behaviour" */
typedef struct troupe_port troupe_port;     /* mailbox for a foreign loop */
typedef struct troupe_msg troupe_msg;       /* one message; see message.h */

/*
 * The address of an actor. A value: copy it, compare it, put it in a message,
 * keep it for ever. It never keeps the actor alive and never goes bad: sending
 * to an actor that has stopped reports TROUPE_E_DEAD. It belongs to one
 * system. All-zero is TROUPE_NONE. Frozen.
 */
typedef struct troupe_ref {
    uint32_t index;
    uint32_t generation;
} troupe_ref;

#define TROUPE_NONE (TROUPE_VALUE(troupe_ref){0, 0})

static inline bool
troupe_ref_equal(troupe_ref a, troupe_ref b)
{
    return a.index == b.index && a.generation == b.generation;
}

static inline bool
troupe_ref_is_none(troupe_ref ref)
{
    return troupe_ref_equal(ref, TROUPE_NONE);
}

/* For hash tables; equal refs, equal numbers. */
static inline uint64_t
troupe_ref_key(troupe_ref ref)
{
    return (TROUPE_CAST(uint64_t, ref.generation) << 32) | ref.index;
}

/* An operation of this actor that has not ended yet; all-zero = none. Frozen.
 */
typedef struct troupe_ticket {
    uint64_t id;
} troupe_ticket;

/* Durations are nanoseconds on the monotonic clock and end in `_ns`. */
#define TROUPE_US(n) (TROUPE_CAST(uint64_t, n) * UINT64_C(1000))
#define TROUPE_MS(n) (TROUPE_CAST(uint64_t, n) * UINT64_C(1000000))
#define TROUPE_S(n) (TROUPE_CAST(uint64_t, n) * UINT64_C(1000000000))
#define TROUPE_FOREVER UINT64_MAX

/*
 * What kind of message: a number you choose, for `switch`. 0 means "not set"
 * and is refused; from TROUPE_TAG_RESERVED up they are the library's.
 */
typedef uint32_t troupe_tag;
#define TROUPE_TAG_RESERVED UINT32_C(0xffffff00)

TROUPE_END_DECLS

#endif /* TROUPE_TYPES_H */
