/* SPDX-License-Identifier: MIT */
#ifndef TRP_ACTOR_MESSAGE_H
#define TRP_ACTOR_MESSAGE_H

/*
 * How a message lies in a ring slot.
 *
 *     mark  59    58      57      56     55     54       53    52   48 47     0
 *         +-----+-------+--------+------+------+---------+-------+--------+------+
 *         | ASK | TIMER | NOTICE | SKIP | DROP | CONTROL | BOXED | length |
 * type |
 *         +-----+-------+--------+------+------+---------+-------+--------+------+
 *     sender  the packed ref
 *     payload up to 16 bytes, or a pointer to a box
 *
 * A box is an owned message: a troupe_msg followed by what the library needs
 * to free it, then the payload.
 */

#include "actor/cell.h"

#define TRP_MARK_TYPE ((UINT64_C(1) << 48) - 1)
#define TRP_MARK_LENGTH_SHIFT 48
#define TRP_MARK_LENGTH UINT64_C(31)
#define TRP_MARK_BOXED (UINT64_C(1) << 53)
#define TRP_MARK_CONTROL (UINT64_C(1) << 54) /* a stop that takes its turn */
#define TRP_MARK_DROP (UINT64_C(1) << 55)    /* type->drop is not NULL */
#define TRP_MARK_SKIP (UINT64_C(1) << 56)    /* no message: a ticket, rules.h */
#define TRP_MARK_NOTICE (UINT64_C(1) << 57)  /* of a death: watch.h */
#define TRP_MARK_TIMER (UINT64_C(1) << 58)   /* its box is a timer: timers.h */
#define TRP_MARK_ASK (UINT64_C(1) << 59)     /* its sender is a promise */
#define TRP_MARK_BROADCAST                                                     \
    (UINT64_C(1) << 60) /* of a router, to all of its                          \
                         */
/* So many routers have handed it on in their turn; route.h. */
#define TRP_MARK_HOP (UINT64_C(1) << 61)
#define TRP_MARK_HOPS (UINT64_C(7) << 61)
#define TRP_MARK_SPECIAL                                                       \
    (TRP_MARK_BOXED | TRP_MARK_CONTROL | TRP_MARK_DROP | TRP_MARK_NOTICE |     \
        TRP_MARK_ASK)

/* A ref with this bit names no cell, but an operation: actor/op.h. */
#define TRP_PROMISE_INDEX (UINT32_C(1) << 31)

#define TRP_INLINE_BYTES 16u

struct trp_box {
    troupe_msg msg;
    struct trp_core *core;
    TRP_ATOMIC(uint32_t) refs; /* readers of a shared payload */
    uint32_t unit;             /* of the pool, or TRP_POOL_NONE: heap */
    /* payload; or for an alias: the box whose payload it shows; or a replay */
};

/* Values of refs. */
#define TRP_BOX_ALIAS UINT32_MAX
#define TRP_BOX_REPLAY (UINT32_MAX - 1) /* an alias that was a dead letter */
#define TRP_BOX_TIMER (UINT32_MAX - 2)  /* part of a timer, in a mailbox */

/* After the box of a replay. */
struct trp_replay {
    struct trp_box *shared; /* as of any alias */
    uint64_t id;      /* of the letter; its entry is gone from the store */
    uint32_t replays; /* this one included */
};

_Static_assert(sizeof(struct trp_box) == 48, "the payload is aligned to 16");

static inline const troupe_msg_type *
trp_mark_type(uint64_t mark)
{
    return (const troupe_msg_type *)(uintptr_t)(mark & TRP_MARK_TYPE);
}

static inline struct trp_box *
trp_item_box(const struct trp_item *item)
{
    return (struct trp_box *)(uintptr_t)item->payload[0];
}

static inline struct trp_box *
trp_box_of(troupe_msg *msg)
{
    return TRP_CONTAINER_OF(msg, struct trp_box, msg);
}

/* Up to 16 bytes into two words, without a store that a load would wait for. */
TRP_INLINE void
trp_item_copy(struct trp_item *item, const void *payload, size_t bytes)
{
    const unsigned char *from = payload;
    uint64_t low = 0, high = 0;

    if (TRP_LIKELY(bytes == 8)) {
        __builtin_memcpy(&low, from, 8);
    } else if (bytes > 8) {
        __builtin_memcpy(&low, from, 8);
        __builtin_memcpy(&high, from + bytes - 8, 8);
        high >>= 8 * (16 - bytes);
    } else if (bytes >= 4) {
        uint32_t head, tail;

        __builtin_memcpy(&head, from, 4);
        __builtin_memcpy(&tail, from + bytes - 4, 4);
        low = head | (uint64_t)tail << (8 * (bytes - 4));
    } else {
        for (size_t i = 0; i < bytes; i++) {
            low |= (uint64_t)from[i] << (8 * i);
        }
    }
    item->payload[0] = low;
    item->payload[1] = high;
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
    "trp_item_copy() assembles little-endian words");

static inline bool
trp_ref_is_promise(troupe_ref ref)
{
    return TRP_UNLIKELY((ref.index & TRP_PROMISE_INDEX) != 0);
}

/* For people. */
static inline const char *
trp_type_name(const troupe_msg_type *type)
{
    return type->name != NULL ? type->name : "";
}

/* The box that a message lies in, or NULL. */
static inline struct trp_box *
trp_item_box_or_null(const struct trp_item *item)
{
    return (item->mark & TRP_MARK_BOXED) != 0 ? trp_item_box(item) : NULL;
}

/*
 * Word by word: a load of 16 bytes waits for the stores of 8 that made them.
 */
static inline void
trp_item_assign(struct trp_item *to, const struct trp_item *from)
{
    to->mark = from->mark;
    to->sender = from->sender;
    to->payload[0] = from->payload[0];
    to->payload[1] = from->payload[1];
}

/* The view that a behaviour gets. `item` must outlive it. */
TRP_INLINE void
trp_item_view(struct trp_item *item, troupe_msg *view)
{
    view->type = trp_mark_type(item->mark);
    view->sender = trp_ref_unpack(item->sender);
    if (TRP_LIKELY((item->mark & TRP_MARK_BOXED) == 0)) {
        view->payload = item->payload;
        view->bytes =
            (size_t)(item->mark >> TRP_MARK_LENGTH_SHIFT) & TRP_MARK_LENGTH;
    } else {
        view->payload = trp_item_box(item)->msg.payload;
        view->bytes = trp_item_box(item)->msg.bytes;
    }
}

/* A box with a zeroed payload; NULL: no memory. `local` may be NULL. */
struct trp_box *trp_box_new(struct trp_core *core, struct trp_local *local,
    const troupe_msg_type *type, size_t bytes);
/* Gives up one reader: the last one drops the payload if `drop`, and frees. */
void trp_box_release(struct trp_local *local, struct trp_box *box, bool drop);
/* Frees the box alone: its payload is somebody else's still. */
void trp_box_forget(struct trp_local *local, struct trp_box *box);
/* A box of its own for a reader of a shared one; NULL: no memory. */
struct trp_box *trp_box_alias(
    struct trp_core *core, struct trp_local *local, struct trp_box *shared);

/* An alias that remembers which dead letter it was; NULL: no memory. */
struct trp_box *trp_box_replay(struct trp_core *core, struct trp_local *local,
    struct trp_box *shared, uint64_t id, uint32_t replays);

static inline bool
trp_box_is_alias(uint32_t refs)
{
    return TRP_UNLIKELY(refs >= TRP_BOX_REPLAY);
}

/* The box that holds the payload: itself, or what an alias shows. */
static inline struct trp_box *
trp_box_base(struct trp_box *box)
{
    /* relaxed: constant once it is an alias. */
    return trp_box_is_alias(trp_load_relaxed(&box->refs))
               ? *(struct trp_box **)(box + 1)
               : box;
}

/* What a replayed message remembers; NULL for any other. `box` may be NULL. */
static inline struct trp_replay *
trp_box_replay_of(struct trp_box *box)
{
    /* relaxed: constant once it is a replay. */
    return box != NULL && trp_load_relaxed(&box->refs) == TRP_BOX_REPLAY
               ? (struct trp_replay *)(void *)(box + 1)
               : NULL;
}

/*
 * A box that outlives the message, with its sender: a copy, a reader of a
 * shared payload, or, where the payload owns something, a message of which only
 * the payload is missing (NULL). `box` is what the message lies in, or NULL.
 * NULL: no memory.
 */
struct trp_box *trp_box_capture(struct trp_core *core, struct trp_local *local,
    const troupe_msg *msg, struct trp_box *box);

/* An owned message from what an item holds; NULL: no memory. */
struct trp_box *trp_item_own(
    struct trp_core *core, struct trp_local *local, struct trp_item *item);

/* An item for an owned message; the message is the item's then. */
void trp_item_from_box(struct trp_item *item, struct trp_box *box);

/* What an item holds is not needed any more. Not for CONTROL. */
void trp_item_release(struct trp_local *local, struct trp_item *item);
/* The same, but for what the user took or sent on: TRP_SPENT_*. */
void trp_item_settle(
    struct trp_local *local, struct trp_item *item, uint32_t spent);

/* Nobody will handle it: a dead letter, and it is released. Not for CONTROL. */
void trp_item_bury(struct trp_core *core, struct trp_local *local,
    troupe_ref recipient, struct trp_item *item, troupe_dead_reason reason);

/* Wrong type, length or pointer: E_INVALID with a record for `call`. */
troupe_status trp_message_check(const char *call, const troupe_msg_type *type,
    const void *payload, size_t bytes);

/*
 * Counts, keeps and shows a message that nobody handles. Any thread that holds
 * no lock: hooks run. `box` is what the message lies in, or NULL. The message
 * is the caller's still.
 */
void trp_dead_letter(struct trp_core *core, struct trp_local *local,
    troupe_ref recipient, const troupe_msg *msg, struct trp_box *box,
    troupe_dead_reason reason);
/* The same, but for the count: it is in another column of the books. */
void trp_dead_letter_show(struct trp_core *core, struct trp_local *local,
    troupe_ref recipient, const troupe_msg *msg, struct trp_box *box,
    troupe_dead_reason reason);

#endif /* TRP_ACTOR_MESSAGE_H */
