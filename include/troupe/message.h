/* SPDX-License-Identifier: MIT */
#ifndef TROUPE_MESSAGE_H
#define TROUPE_MESSAGE_H

#include <troupe/types.h>

TROUPE_BEGIN_DECLS

/*
 * Frees what the payload owns, never the payload. Any thread; must not fail. A
 * payload that owns something has one receiver: where it would go to several
 * (troupe_tell_many) its type must be TROUPE_MSG_SHARED, which drops it once,
 * after the last reader; otherwise nobody gets it (TROUPE_E_INVALID).
 */
typedef void (*troupe_drop_fn)(void *payload, size_t bytes) TROUPE_NOEXCEPT;

enum {
    /* Exempt from capacity, overflow and throttle; for library authors. */
    TROUPE_MSG_UNDROPPABLE = 1u << 0,
    /* Read-only once sent: a fan-out shares one payload instead of N copies. */
    TROUPE_MSG_SHARED = 1u << 1,
    /*
     * Handled only while somebody waits for the answer. If the ask (ask.h) has
     * ended when its turn comes it is a dead letter, TROUPE_DEAD_EXPIRED.
     * Nothing to who was not asked.
     */
    TROUPE_MSG_EXPIRES = 1u << 2
};

/*
 * Describes a kind of message. Static and const; the library keeps the
 * pointer. Two descriptors with one tag and equal bytes are the same type, so
 * a `static const` in a header works across source files. Flags that do not
 * exist are E_INVALID for messages that are posted, owned, larger than 16 bytes
 * or own something; the sends of small ones do not look.
 */
typedef struct troupe_msg_type {
    size_t size;         /* TROUPE_OPTIONS(troupe_msg_type) */
    const char *name;    /* for logs, metrics and dead letters */
    size_t bytes;        /* of the payload; 0 = empty or variable */
    troupe_tag tag;      /* not 0 */
    uint32_t flags;      /* TROUPE_MSG_* */
    troupe_drop_fn drop; /* NULL = the payload owns nothing */
} troupe_msg_type;

/* Typed convenience; the long form is the initialiser of the struct. */
#define TROUPE_MSG_TYPE_WITH(symbol, payload, tag, flags, drop)                \
    TROUPE_UNUSED static const troupe_msg_type symbol = {                      \
        sizeof(troupe_msg_type), #symbol, sizeof(payload), (tag), (flags),     \
        (drop)}
#define TROUPE_MSG_TYPE(symbol, payload, tag)                                  \
    TROUPE_MSG_TYPE_WITH(symbol, payload, tag, 0, NULL)
#define TROUPE_MSG_TYPE_EMPTY(symbol, tag)                                     \
    TROUPE_UNUSED static const troupe_msg_type symbol = {                      \
        sizeof(troupe_msg_type), #symbol, 0, (tag), 0, NULL}

/*
 * What can be read of a message; never build one yourself. Callbacks get a
 * `const troupe_msg *`: borrowed, gone when they return. A `troupe_msg *` is
 * owned. The compiler keeps the two apart. Frozen.
 */
struct troupe_msg {
    const troupe_msg_type *type;
    void *payload; /* aligned to 16 bytes */
    size_t bytes;
    troupe_ref sender; /* TROUPE_NONE from outside */
};

static inline troupe_tag
troupe_msg_tag(const troupe_msg *msg)
{
    return msg->type->tag;
}

/* Same tag. Any thread, any message. */
static inline bool
troupe_msg_is(const troupe_msg *msg, const troupe_msg_type *type)
{
    return msg->type->tag == type->tag;
}

/*
 * Returns NULL, with a record in troupe_last_error(). Inside a behaviour the
 * two sizes are logged as well, at most once per second.
 */
TROUPE_API void *troupe_payload_mismatch(const troupe_msg *msg, size_t bytes);

static inline void *
troupe_msg_payload(const troupe_msg *msg, size_t bytes)
{
    size_t fixed = msg->type->bytes;
    bool fits = fixed != 0 ? fixed == bytes : msg->bytes >= bytes;

    return fits ? msg->payload : troupe_payload_mismatch(msg, bytes);
}

/*
 * `const struct job *job = troupe_payload(msg, struct job);` once the tag has
 * said what it is. A size or an alignment that does not fit is a bug: logged
 * and NULL, never a wrong view. The _mut form is for moving something out of a
 * payload you were handed; not for shared types.
 */
#define TROUPE_PAYLOAD_BYTES(type_)                                            \
    (TROUPE_ALIGNOF(type_) <= 16 ? sizeof(type_) : SIZE_MAX)
#define troupe_payload(msg, type_)                                             \
    TROUPE_CAST(                                                               \
        const type_ *, troupe_msg_payload((msg), TROUPE_PAYLOAD_BYTES(type_)))
#define troupe_payload_mut(msg, type_)                                         \
    TROUPE_CAST(type_ *, troupe_msg_payload((msg), TROUPE_PAYLOAD_BYTES(type_)))

/*
 * An owned message with a zeroed payload; `bytes` is 0 for a type of fixed
 * size, the length otherwise. NULL when out of memory or when `bytes` does not
 * suit the type. Any thread. Ownership, the one rule: a call that takes a
 * `troupe_msg *` and returns a status owns it if and only if that is
 * TROUPE_OK; a call that takes one and returns void always owns it. A NULL
 * message is answered with TROUPE_E_NOMEM, so one check serves for both.
 */
TROUPE_API TROUPE_NODISCARD troupe_msg *troupe_msg_new(
    troupe_system *system, const troupe_msg_type *type, size_t bytes);
/* NULL also if the type has a drop, or a dead letter without its payload. */
TROUPE_API TROUPE_NODISCARD troupe_msg *troupe_msg_copy(
    troupe_system *system, const troupe_msg *msg);
TROUPE_API void troupe_msg_free(troupe_msg *msg); /* NULL is allowed */

TROUPE_END_DECLS

#endif /* TROUPE_MESSAGE_H */
