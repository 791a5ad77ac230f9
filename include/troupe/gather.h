/* SPDX-License-Identifier: MIT */
#ifndef TROUPE_GATHER_H
#define TROUPE_GATHER_H

#include <troupe/ask.h>

TROUPE_BEGIN_DECLS

/* One question, many actors, one outcome. A failure reply is no answer. */
typedef enum troupe_gather_policy {
    TROUPE_GATHER_FIRST = 0,  /* first answer wins */
    TROUPE_GATHER_BEST = 1,   /* all in or deadline, then `better` decides */
    TROUPE_GATHER_QUORUM = 2, /* `quorum` answers, together */
    TROUPE_GATHER_ALL = 3     /* every one of them, together */
} troupe_gather_policy;

/*
 * Is `a` better than `b`? Pure. In a turn of the actor that asks; of answers
 * that are equal, that of who was asked first stays.
 */
typedef bool (*troupe_better_fn)(
    const troupe_msg *a, const troupe_msg *b, void *user) TROUPE_NOEXCEPT;

typedef struct troupe_gather_part { /* frozen; in the order asked */
    troupe_ref from;
    troupe_status status;  /* TROUPE_E_CANCELLED: not needed any more */
    int32_t code;          /* with TROUPE_E_FAILED: what the failure said */
    const troupe_msg *msg; /* NULL unless OK */
} troupe_gather_part;

/*
 * Payload of the outcome of QUORUM and ALL, and of what has failed, under
 * TROUPE_TAG_GATHERED; the message owns its parts, also when it is taken. FIRST
 * and BEST give the winning message itself, its sender is the winner.
 */
#define TROUPE_TAG_GATHERED UINT32_C(0xffffff09)
typedef struct troupe_gathered { /* frozen */
    const troupe_gather_part *parts;
    size_t count;
    size_t answered;
} troupe_gathered;

typedef struct troupe_gather_options {
    size_t size;
    troupe_gather_policy policy;
    uint32_t quorum;     /* 0 = more than half */
    uint64_t timeout_ns; /* 0 = 4.5 s, before the ask's own 5 s */
    /*
     * Ask the next one only after this, or when nobody is left who was asked;
     * 0 = all now, TROUPE_FOREVER = one at a time.
     */
    uint64_t tail_delay_ns;
    troupe_better_fn better; /* BEST */
    void *user;
} troupe_gather_options;

/*
 * From an actor: `then` gets OK, E_TIMEOUT, E_FAILED (too few can still answer;
 * the code is that of the last failure), E_NO_ROUTE (`count` is 0, or all are
 * TROUPE_NONE), or E_CANCELLED and E_CLOSED as any operation. result->msg
 * carries the troupe_gathered also when it is not OK, for its parts. `options`
 * NULL = first of them. The end closes the asks of all who have not answered,
 * so what they still send is a dead letter, TROUPE_DEAD_LATE.
 *
 * Returned are E_INVALID, E_NOMEM and E_STATE, as by troupe_ask(), with nobody
 * asked and the payload still the caller's: a quorum of more than are asked,
 * BEST without `better`, a payload that owns something for more than one, if
 * its type is not TROUPE_MSG_SHARED.
 */
TROUPE_API TROUPE_NODISCARD troupe_status troupe_gather(troupe_self *self,
    const troupe_ref *whom, size_t count, const troupe_msg_type *type,
    const void *payload, const troupe_gather_options *options,
    troupe_continuation then, troupe_ticket *ticket);

TROUPE_END_DECLS

#endif /* TROUPE_GATHER_H */
