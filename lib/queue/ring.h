/* SPDX-License-Identifier: MIT */
#ifndef TRP_QUEUE_RING_H
#define TRP_QUEUE_RING_H

/*
 * Data path 3 of 6: link. From actor/mailbox.h, next sched/submit.h.
 *
 * Ring buffer, many producers, one consumer, grows and shrinks.
 *
 *      one word claims a slot, decides idle -> scheduled, refuses when closed
 *
 *     63            32 31                 4   3    2    1    0
 *     +---------------+--------------------+----+----+----+----+
 *     | tail (ticket) | unit of newest seg | K  | L  | X  | S  |
 *     +---------------+--------------------+----+----+----+----+
 *        K kill asked   L signal waits   X closed   S scheduled or running
 *
 *     unit 0: the two slots in the ring's own memory,      capacity 2
 *             one in each of two cache lines
 *     else:   a segment of the pool, class c.              capacity 8 << c
 *
 *      head (consumer)                              tail (producers)
 *        v                                            v
 *     [ segment A, closed for claims ]  <--prev--  [ segment B, newest ]
 *       tickets .. start(B) - 1                       tickets start(B) ..
 *
 * A slot is 32 bytes: mark (0 = not written), sender, 16 bytes of payload. The
 * slot of ticket t in a segment is t & (capacity - 1).
 *
 * push    reads the word, checks X and room, adds 1 to tail and sets S in one
 *         CAS, then writes the slot, mark last. Lock-free: a CAS fails only if
 *         another one succeeded. A producer that is preempted between the CAS
 *         and the mark delays the consumer, never another producer.
 * grow    (ring.c) when full: writes the message into a larger segment that is
 *         still private, then publishes segment, link and message with the CAS
 *         that claims. Lock-free.
 * pop     consumer only; wait-free.
 * bounded the same with a limit: refused while as many wait (ring.c).
 * idle    consumer only: S -> 0 if nothing came, back to the two own slots.
 * shrink  consumer only: a smaller newest segment, by the CAS of grow with no
 *         message.
 * close   consumer only: sets X. Later claims fail; what was claimed before is
 *         still popped.
 *
 * Invariants
 *   I1  One winner per ticket: the CAS. Tail only grows, over all incarnations
 *       of the ring (I8), so a CAS that succeeds proves that nothing happened
 *       since the word was read: no close, no reuse, no growth.
 *   I2  A slot is written only if ticket - head < capacity of its segment, so
 *       never before the consumer has emptied it.
 *   I3  S clear means empty and unit 0: a producer that finds S clear need not
 *       look at head.
 *   I4  Segments older than the newest take no claims. One is given back when
 *       head has passed its last ticket; a claimed slot that is not written
 *       holds head, so no writer is left then.
 *   I5  In a segment that is given back every mark is 0.
 *   I6  Head, segment and everything behind the ring belong to whoever owns S.
 *   I7  One sender's tickets grow: FIFO per sender.
 *   I8  Reopening adds 1 to tail (actor/cell.c).
 *
 * Pairs
 *   ring.claim  CAS that claims -> CAS that idles and back: hands the ring and
 *               what lies behind it (I6) from owner to owner.
 *   ring.slot   store of mark -> load of mark: sender and payload.
 *   ring.head   store of head -> load of head in push: the slots below are
 *               empty.
 *   ring.front  store of front by the owner, who then takes a ticket -> load of
 *               front in a bounded push, after the word: a claim that has not
 *               seen it fails, since its ticket is gone.
 *   ring.grow   CAS of grow or shrink -> load of the word: the new segment's
 *               start, link and first message. Later claims keep it visible,
 *               being read-modify-writes.
 *
 * Not promised: pop may find a claimed ticket that is not written yet and says
 * so; ABA after exactly 2^32 messages to one ring between the load and the CAS
 * of one push.
 */

#include "base/align.h"
#include "base/assert.h"
#include "queue/pool.h"

#define TRP_RING_SCHEDULED UINT64_C(1)
#define TRP_RING_CLOSED UINT64_C(2)
#define TRP_RING_SIGNAL UINT64_C(4)
#define TRP_RING_KILL UINT64_C(8)
#define TRP_RING_FLAGS UINT64_C(15)
#define TRP_RING_TICKET (UINT64_C(1) << 32)
#define TRP_RING_ANY_DEPTH ((uint32_t)INT32_MAX)

#define TRP_RING_OWN_SLOTS 2u     /* in the ring's own memory ... */
#define TRP_RING_OWN_OFFSET 32u   /* ... from here on ... */
#define TRP_RING_OWN_SHIFT 6u     /* ... one per cache line */
#define TRP_RING_SLOT_SHIFT 5u    /* in a segment: side by side */
#define TRP_RING_UNIT_SHIFT 8u    /* 256 bytes: the smallest segment */
#define TRP_RING_REGION_SHIFT 23u /* 2 GiB of segments per class */
#define TRP_RING_FIRST_SLOTS 8u   /* of a segment of class 0 */

/*
 * From this capacity on, which 64 waiting messages lead to, head is published
 * every 16th message only.
 */
#define TRP_RING_LAZY_CAPACITY 128u
#define TRP_RING_LAZY_MASK 15u

struct trp_slot {
    TRP_ATOMIC(uint64_t) mark;
    uint64_t sender;
    uint64_t payload[2];
};

/* The same by value, out of the ring. A payload in it is shown to handlers. */
struct trp_item {
    TRP_ALIGNED(16) uint64_t mark;
    uint64_t sender;
    uint64_t payload[2];
};

_Static_assert(_Alignof(struct trp_item) == 16 &&
                   offsetof(struct trp_item, payload) % 16 == 0,
    "message.h promises it, wherever an item lies");

struct trp_ring {
    TRP_ATOMIC(uint64_t) word; /* producers and owner, CAS only */
    TRP_ATOMIC(uint32_t) head; /* owner writes, producers read */
    uint32_t segment;          /* owner only: the one being emptied */
};

/* The owner's view while it runs; head is ahead of ring->head by up to 15. */
struct trp_cursor {
    char *slots;
    uint32_t head;
    uint32_t mask;
    uint32_t shift;
    uint32_t unit;
};

enum trp_claim {
    TRP_CLAIM_QUEUED, /* in; somebody owns S already */
    TRP_CLAIM_WAKE,   /* in; S is ours: make the owner run */
    TRP_CLAIM_CLOSED, /* refused */
    TRP_CLAIM_FULL,   /* grow first; no memory, if that was tried */
    TRP_CLAIM_LIMIT,  /* as many wait as may */
    TRP_CLAIM_AGAIN   /* not outside of ring.c */
};

/*
 * How many may wait, and how many do outside of the ring: what the owner has
 * put back before it, less its own tickets that hold no message (modulo 2^32).
 */
struct trp_ring_bound {
    TRP_ATOMIC(uint32_t) capacity; /* constant in a life */
    TRP_ATOMIC(uint32_t) front;    /* owner writes */
};

/* What a push needs that may have to grow. */
struct trp_ring_way {
    struct trp_pool *pool;
    struct trp_pool_cache *cache; /* of this thread, or NULL */
    TRP_ATOMIC(uint32_t) * life;
    uint32_t expected;
    uint32_t hint;    /* class to begin with */
    uint32_t segment; /* taken in vain so far; TRP_POOL_NONE at first */
};

enum trp_ring_idle {
    TRP_IDLE_DONE,    /* S is clear: the ring is not ours any more */
    TRP_IDLE_MORE,    /* a message can be popped */
    TRP_IDLE_STALLED, /* claimed, not written yet */
    TRP_IDLE_FLAGS    /* K, L or X want to be looked at */
};

static inline uint32_t
trp_ring_tail(uint64_t word)
{
    return (uint32_t)(word >> 32);
}

static inline uint32_t
trp_ring_unit(uint64_t word)
{
    return (uint32_t)word >> 4;
}

static inline uint64_t
trp_ring_word(uint32_t tail, uint32_t unit, uint64_t flags)
{
    return ((uint64_t)tail << 32) | ((uint64_t)unit << 4) | flags;
}

static inline uint32_t
trp_ring_capacity(uint32_t unit)
{
    return unit == TRP_POOL_NONE
               ? TRP_RING_OWN_SLOTS
               : TRP_RING_FIRST_SLOTS << (unit >> TRP_RING_REGION_SHIFT);
}

/* The slot of a ticket in segment `unit`, or in the ring's own memory. */
TRP_INLINE struct trp_slot *
trp_ring_slot(const struct trp_pool *pool, struct trp_ring *ring, uint32_t unit,
    uint32_t ticket)
{
    char *at;

    if (TRP_LIKELY(unit == TRP_POOL_NONE)) {
        at = (char *)ring + TRP_RING_OWN_OFFSET +
             ((ticket & (TRP_RING_OWN_SLOTS - 1)) << TRP_RING_OWN_SHIFT);
    } else {
        at = pool->base + ((uint64_t)unit << TRP_RING_UNIT_SHIFT) +
             ((size_t)(ticket & (trp_ring_capacity(unit) - 1))
                 << TRP_RING_SLOT_SHIFT);
    }
    return (struct trp_slot *)(void *)at;
}

TRP_INLINE void
trp_slot_write(struct trp_slot *slot, const struct trp_item *item)
{
    slot->sender = item->sender;
    slot->payload[0] = item->payload[0];
    slot->payload[1] = item->payload[1];
    trp_store_release(&slot->mark, item->mark); /* pairs: ring.slot */
}

/*
 * Any thread. `life` is a word of the ring's owner that must be `expected`: it
 * is read between the word and the CAS, so I1 makes it true at the claim. From
 * a depth of `most` on it is as if the ring were full: for who wants to look at
 * what is deep.
 */
TRP_INLINE enum trp_claim
trp_ring_push(const struct trp_pool *pool, struct trp_ring *ring,
    TRP_ATOMIC(uint32_t) * life, uint32_t expected, uint32_t most,
    const struct trp_item *item)
{
    uint64_t word = trp_load_acquire(&ring->word); /* pairs: ring.grow */
    uint32_t tail, unit, capacity;
    struct trp_slot *slot;

    do {
        /* relaxed: ordered by the load of the word before and the CAS after. */
        if (TRP_UNLIKELY(trp_load_relaxed(life) != expected ||
                         (word & TRP_RING_CLOSED) != 0)) {
            return TRP_CLAIM_CLOSED;
        }
        tail = trp_ring_tail(word);
        unit = trp_ring_unit(word);
        capacity = trp_ring_capacity(unit);
        if ((word & TRP_RING_SCHEDULED) != 0) { /* else empty: I3 */
            uint32_t head =
                trp_load_acquire(&ring->head); /* pairs: ring.head */

            /* Signed: head may be newer than the word; then the CAS fails. */
            capacity = capacity < most ? capacity : most;
            if ((int32_t)(tail - head) >= (int32_t)capacity) {
                return TRP_CLAIM_FULL;
            }
        }
    } while (TRP_UNLIKELY(!trp_cas_acq_rel(&ring->word, /* pairs: ring.claim */
        &word, (word + TRP_RING_TICKET) | TRP_RING_SCHEDULED)));
    slot = trp_ring_slot(pool, ring, unit, tail);
    trp_slot_write(slot, item);
    return (word & TRP_RING_SCHEDULED) != 0 ? TRP_CLAIM_QUEUED : TRP_CLAIM_WAKE;
}

/*
 * The same, once and within a limit. TRP_CLAIM_AGAIN: there is more to it, or
 * somebody was quicker; ask trp_ring_push_slow().
 */
TRP_INLINE enum trp_claim
trp_ring_push_bounded(const struct trp_pool *pool, struct trp_ring *ring,
    TRP_ATOMIC(uint32_t) * life, uint32_t expected,
    const struct trp_ring_bound *bound, const struct trp_item *item)
{
    uint64_t word = trp_load_acquire(&ring->word);    /* pairs: ring.grow */
    uint32_t head = trp_load_acquire(&ring->head);    /* pairs: ring.head */
    uint32_t front = trp_load_acquire(&bound->front); /* pairs: ring.front */
    uint32_t tail = trp_ring_tail(word);
    uint32_t unit = trp_ring_unit(word);
    uint32_t depth = tail - head; /* huge if head is newer than the word */

    /* relaxed, both: between the load of the word and the CAS. */
    if (TRP_UNLIKELY(trp_load_relaxed(life) != expected ||
                     depth + front >= trp_load_relaxed(&bound->capacity) ||
                     depth >= trp_ring_capacity(unit) ||
                     (word & TRP_RING_CLOSED) != 0) ||
        TRP_UNLIKELY(!trp_cas_acq_rel(&ring->word, /* pairs: ring.claim */
            &word, (word + TRP_RING_TICKET) | TRP_RING_SCHEDULED))) {
        return TRP_CLAIM_AGAIN;
    }
    trp_slot_write(trp_ring_slot(pool, ring, unit, tail), item);
    return (word & TRP_RING_SCHEDULED) != 0 ? TRP_CLAIM_QUEUED : TRP_CLAIM_WAKE;
}

/*
 * The same, and grows if need be; TRP_CLAIM_FULL: no memory, nothing was
 * queued. With a `bound` TRP_CLAIM_LIMIT is exact: at one instant during the
 * call as many were waiting, and never do more. The owner of a bounded ring has
 * to publish head after every pop (trp_cursor_publish()).
 */
enum trp_claim trp_ring_push_slow(struct trp_ring_way *way,
    struct trp_ring *ring, const struct trp_ring_bound *bound,
    const struct trp_item *item);

/* Without a limit, after TRP_CLAIM_FULL. */
static inline enum trp_claim
trp_ring_push_grow(struct trp_pool *pool, struct trp_pool_cache *cache,
    struct trp_ring *ring, TRP_ATOMIC(uint32_t) * life, uint32_t expected,
    uint32_t hint, const struct trp_item *item)
{
    struct trp_ring_way way = {
        pool, cache, life, expected, hint, TRP_POOL_NONE};

    return trp_ring_push_slow(&way, ring, NULL, item);
}

/* Owner of S, from here on. */

TRP_INLINE void
trp_cursor_load(struct trp_cursor *cursor, const struct trp_pool *pool,
    struct trp_ring *ring)
{
    cursor->unit = ring->segment;
    /* relaxed: the owner alone writes it. */
    cursor->head = trp_load_relaxed(&ring->head);
    cursor->slots = (char *)trp_ring_slot(pool, ring, cursor->unit, 0);
    cursor->mask = trp_ring_capacity(cursor->unit) - 1;
    cursor->shift = cursor->unit == TRP_POOL_NONE ? TRP_RING_OWN_SHIFT
                                                  : TRP_RING_SLOT_SHIFT;
}

TRP_INLINE struct trp_slot *
trp_cursor_slot(const struct trp_cursor *cursor)
{
    return (struct trp_slot *)(void *)(cursor->slots +
                                       ((size_t)(cursor->head & cursor->mask)
                                           << cursor->shift));
}

/* Head is published now and then only; the word's line is left to senders. */
TRP_INLINE bool
trp_cursor_is_lazy(const struct trp_cursor *cursor)
{
    return cursor->mask >= TRP_RING_LAZY_CAPACITY - 1;
}

TRP_INLINE void
trp_cursor_publish(const struct trp_cursor *cursor, struct trp_ring *ring)
{
    trp_store_release(&ring->head, cursor->head); /* pairs: ring.head */
}

/* False: nothing written at head; see trp_ring_idle(). */
TRP_INLINE bool
trp_ring_pop(
    struct trp_cursor *cursor, struct trp_ring *ring, struct trp_item *item)
{
    struct trp_slot *slot = trp_cursor_slot(cursor);

    item->mark = trp_load_acquire(&slot->mark); /* pairs: ring.slot */
    if (TRP_UNLIKELY(item->mark == 0)) {
        return false;
    }
    item->sender = slot->sender;
    item->payload[0] = slot->payload[0];
    item->payload[1] = slot->payload[1];
    /* relaxed: published with head. */
    trp_store_relaxed(&slot->mark, 0);
    cursor->head++;
    if (TRP_LIKELY(!trp_cursor_is_lazy(cursor)) ||
        (cursor->head & TRP_RING_LAZY_MASK) == 0) {
        trp_cursor_publish(cursor, ring);
    }
    return true;
}

/* Would a pop succeed? */
static inline bool
trp_ring_is_written(const struct trp_cursor *cursor)
{
    return trp_load_acquire(&trp_cursor_slot(cursor)->mark) !=
           0; /* pairs: ring.slot */
}

/*
 * After a pop that found nothing. `*hint` learns the class that was needed.
 * After TRP_IDLE_DONE nothing of the ring may be touched.
 */
enum trp_ring_idle trp_ring_idle_slow(struct trp_cursor *cursor,
    struct trp_pool *pool, struct trp_pool_cache *cache, struct trp_ring *ring,
    TRP_ATOMIC(uint8_t) * hint);

TRP_INLINE enum trp_ring_idle
trp_ring_idle(struct trp_cursor *cursor, struct trp_pool *pool,
    struct trp_pool_cache *cache, struct trp_ring *ring,
    TRP_ATOMIC(uint8_t) * hint)
{
    if (TRP_LIKELY(cursor->unit == TRP_POOL_NONE)) {
        uint64_t word = trp_ring_word(cursor->head, 0, TRP_RING_SCHEDULED);

        if (TRP_LIKELY(trp_cas_acq_rel(&ring->word, /* pairs: ring.claim */
                &word, trp_ring_word(cursor->head, 0, 0)))) {
            return TRP_IDLE_DONE;
        }
    }
    return trp_ring_idle_slow(cursor, pool, cache, ring, hint);
}

/* At the end of a turn that leaves messages: gives back what a burst took. */
void trp_ring_shrink(const struct trp_cursor *cursor, struct trp_pool *pool,
    struct trp_pool_cache *cache, struct trp_ring *ring);

/* Sets X. Returns the word after it. */
uint64_t trp_ring_close(struct trp_ring *ring);

/*
 * With X set: nothing is queued and nothing will be. False: pop on, or wait
 * for a claimed slot to be written.
 */
bool trp_ring_is_drained(struct trp_cursor *cursor, struct trp_pool *pool,
    struct trp_pool_cache *cache, struct trp_ring *ring);

/*
 * Messages waiting: any thread; never less than what the caller has queued and
 * is not handled, never more than waited when the word was read (but for a head
 * that is published now and then).
 */
static inline uint32_t
trp_ring_depth(struct trp_ring *ring, uint64_t *word)
{
    int32_t depth;

    *word = trp_load_acquire(&ring->word); /* pairs: ring.claim */
    /* relaxed: not older than the word; own pushes are in program order. */
    depth = (int32_t)(trp_ring_tail(*word) - trp_load_relaxed(&ring->head));
    return depth < 0 ? 0 : (uint32_t)depth;
}

#endif /* TRP_QUEUE_RING_H */
