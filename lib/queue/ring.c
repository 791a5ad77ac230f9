/* SPDX-License-Identifier: MIT */
#include "queue/ring.h"

/*
 * The rare half of ring.h. The side table of the pool holds, for a segment in
 * use, {start ticket:32 | previous segment:32}.
 */

/* A segment of at least `class` that holds more than `depth` messages. */
static uint32_t
class_for(uint32_t class, uint32_t depth)
{
    uint32_t needed =
        trp_log2_ceil(((uint64_t)depth + 1) / TRP_RING_FIRST_SLOTS + 1);

    return class > needed ? class : needed;
}

static uint32_t
class_of(uint32_t unit)
{
    return unit >> TRP_RING_REGION_SHIFT;
}

/* One more than the limit allows? Exact: see trp_ring_push_slow(). */
static bool
is_full(struct trp_ring *ring, const struct trp_ring_bound *bound,
    uint64_t word, uint32_t depth)
{
    uint32_t front = trp_load_acquire(&bound->front); /* pairs: ring.front */

    /*
     * Both are read before the second look at the word, and so before that of
     * the caller at the life whose capacity it must have been.
     */
    return depth + front >=
               trp_load_acquire(&bound->capacity) && /* pairs: rules.life */
           trp_load_acquire(&ring->word) == word;    /* pairs: ring.claim */
}

/* A larger segment with the message in it, published by the claim. */
static enum trp_claim
claim_grown(struct trp_ring_way *way, struct trp_ring *ring, uint64_t word,
    uint32_t depth, const struct trp_item *item)
{
    uint32_t tail = trp_ring_tail(word);
    uint32_t unit = trp_ring_unit(word);
    uint32_t class = class_for(
        unit == TRP_POOL_NONE ? way->hint : class_of(unit) + 1, depth);
    struct trp_slot *slot;

    if (way->segment != TRP_POOL_NONE && class_of(way->segment) < class) {
        trp_pool_give(way->pool, way->cache, way->segment);
        way->segment = TRP_POOL_NONE;
    }
    if (way->segment == TRP_POOL_NONE) {
        way->segment = trp_pool_take(way->pool, way->cache, class);
        if (way->segment == TRP_POOL_NONE && class + 1 < way->pool->classes) {
            /* Of this size there are no more; of the next one there may be. */
            way->segment = trp_pool_take(way->pool, way->cache, class + 1);
        }
        if (way->segment == TRP_POOL_NONE) {
            return TRP_CLAIM_FULL;
        }
    }
    /* relaxed: private until the CAS (ring.grow). */
    trp_store_relaxed(
        &way->pool->links[way->segment], ((uint64_t)tail << 32) | unit);
    slot = trp_ring_slot(way->pool, ring, way->segment, tail);
    trp_slot_write(slot, item);
    if (trp_cas_acq_rel(&ring->word, &word, /* pairs: ring.grow */
            trp_ring_word(tail + 1, way->segment, word & TRP_RING_FLAGS))) {
        way->segment = TRP_POOL_NONE;
        return TRP_CLAIM_QUEUED;
    }
    /* relaxed: still private, must be zero again (I5). */
    trp_store_relaxed(&slot->mark, 0);
    return TRP_CLAIM_AGAIN;
}

/* One attempt; TRP_CLAIM_AGAIN: the word has changed. */
static enum trp_claim
claim(struct trp_ring_way *way, struct trp_ring *ring,
    const struct trp_ring_bound *bound, const struct trp_item *item)
{
    uint64_t word = trp_load_acquire(&ring->word); /* pairs: ring.grow */
    uint32_t head = trp_load_acquire(&ring->head); /* pairs: ring.head */
    uint32_t tail = trp_ring_tail(word);
    uint32_t unit = trp_ring_unit(word);
    int32_t depth = (int32_t)(tail - head);

    /* relaxed: ordered by the load of the word before and the CAS after. */
    if (trp_load_relaxed(way->life) != way->expected ||
        (word & TRP_RING_CLOSED) != 0) {
        return TRP_CLAIM_CLOSED;
    }
    if (depth < 0) { /* head is newer than the word */
        return TRP_CLAIM_AGAIN;
    }
    if (bound != NULL && is_full(ring, bound, word, (uint32_t)depth)) {
        return TRP_CLAIM_LIMIT;
    }
    if ((word & TRP_RING_SCHEDULED) != 0 &&
        (uint32_t)depth >= trp_ring_capacity(unit)) {
        return claim_grown(way, ring, word, (uint32_t)depth, item);
    }
    if (!trp_cas_acq_rel(&ring->word, &word, /* pairs: ring.claim */
            (word + TRP_RING_TICKET) | TRP_RING_SCHEDULED)) {
        return TRP_CLAIM_AGAIN;
    }
    trp_slot_write(trp_ring_slot(way->pool, ring, unit, tail), item);
    return (word & TRP_RING_SCHEDULED) != 0 ? TRP_CLAIM_QUEUED : TRP_CLAIM_WAKE;
}

enum trp_claim
trp_ring_push_slow(struct trp_ring_way *way, struct trp_ring *ring,
    const struct trp_ring_bound *bound, const struct trp_item *item)
{
    enum trp_claim result;

    do {
        result = claim(way, ring, bound, item);
    } while (result == TRP_CLAIM_AGAIN);
    if (way->segment != TRP_POOL_NONE) {
        trp_pool_give(way->pool, way->cache, way->segment);
    }
    return result;
}

/* The oldest segment that is newer than the cursor's, if head has reached it.
 */
static bool
next_segment(struct trp_cursor *cursor, struct trp_pool *pool,
    struct trp_pool_cache *cache, struct trp_ring *ring, uint64_t word)
{
    uint32_t unit = trp_ring_unit(word);
    uint64_t link;

    if (unit == cursor->unit) {
        return false;
    }
    for (;;) {
        /* relaxed: published by ring.grow, constant while in use. */
        link = trp_load_relaxed(&pool->links[unit]);
        if ((uint32_t)link == cursor->unit) {
            break;
        }
        unit = (uint32_t)link;
    }
    if ((uint32_t)(link >> 32) != cursor->head) {
        return false;
    }
    if (cursor->unit != TRP_POOL_NONE) {
        trp_pool_give(pool, cache, cursor->unit); /* I4, I5 */
    }
    ring->segment = unit;
    trp_cursor_publish(cursor, ring);
    trp_cursor_load(cursor, pool, ring);
    return true;
}

enum trp_ring_idle
trp_ring_idle_slow(struct trp_cursor *cursor, struct trp_pool *pool,
    struct trp_pool_cache *cache, struct trp_ring *ring,
    TRP_ATOMIC(uint8_t) * hint)
{
    uint32_t unit = cursor->unit;
    uint64_t word;

    trp_cursor_publish(cursor, ring);
    if (unit != TRP_POOL_NONE) {
        uint32_t class = class_of(unit);

        /* All of it before the CAS: afterwards the ring is not ours. */
        ring->segment = TRP_POOL_NONE;
        /* relaxed: a hint. */
        trp_store_relaxed(hint, (uint8_t)(class > 0 ? class - 1 : 0));
        word = trp_ring_word(cursor->head, unit, TRP_RING_SCHEDULED);
        if (trp_cas_acq_rel(&ring->word, &word, /* pairs: ring.claim */
                trp_ring_word(cursor->head, 0, 0))) {
            trp_pool_give(pool, cache, unit);
            return TRP_IDLE_DONE;
        }
        ring->segment = unit;
    }
    word = trp_load_acquire(&ring->word); /* pairs: ring.grow */
    if (next_segment(cursor, pool, cache, ring, word)) {
        return TRP_IDLE_MORE;
    }
    if (trp_ring_tail(word) != cursor->head) {
        return trp_ring_is_written(cursor) ? TRP_IDLE_MORE : TRP_IDLE_STALLED;
    }
    return (word & (TRP_RING_FLAGS & ~TRP_RING_SCHEDULED)) != 0 ? TRP_IDLE_FLAGS
                                                                : TRP_IDLE_MORE;
}

void
trp_ring_shrink(const struct trp_cursor *cursor, struct trp_pool *pool,
    struct trp_pool_cache *cache, struct trp_ring *ring)
{
    uint64_t word = trp_load_acquire(&ring->word); /* pairs: ring.grow */
    uint32_t unit = trp_ring_unit(word);
    uint32_t tail = trp_ring_tail(word);
    uint32_t depth = tail - cursor->head;
    uint32_t class, segment;

    /* Small ones are not worth it; the consumer must be in the newest. */
    if (class_of(unit) < 3 || unit != cursor->unit ||
        (word & TRP_RING_CLOSED) != 0 ||
        (uint64_t)depth * 8 >= trp_ring_capacity(unit)) {
        return;
    }
    class = class_for(0, 2 * depth);
    if (class >= class_of(unit)) {
        return;
    }
    segment = trp_pool_take(pool, cache, class);
    if (segment == TRP_POOL_NONE) {
        return;
    }
    /* relaxed: private until the CAS (ring.grow). */
    trp_store_relaxed(&pool->links[segment], ((uint64_t)tail << 32) | unit);
    if (!trp_cas_acq_rel(&ring->word, &word, /* pairs: ring.grow */
            trp_ring_word(tail, segment, word & TRP_RING_FLAGS))) {
        trp_pool_give(pool, cache, segment); /* busy: next time */
    }
}

uint64_t
trp_ring_close(struct trp_ring *ring)
{
    uint64_t word =
        trp_or_acq_rel(&ring->word, TRP_RING_CLOSED); /* pairs: ring.claim */

    return word | TRP_RING_CLOSED;
}

bool
trp_ring_is_drained(struct trp_cursor *cursor, struct trp_pool *pool,
    struct trp_pool_cache *cache, struct trp_ring *ring)
{
    uint64_t word = trp_load_acquire(&ring->word); /* pairs: ring.grow */

    TRP_ASSERT((word & TRP_RING_CLOSED) != 0);
    if (trp_ring_tail(word) != cursor->head) {
        (void)next_segment(cursor, pool, cache, ring, word);
        return false;
    }
    while (next_segment(cursor, pool, cache, ring, word)) {
    }
    trp_cursor_publish(cursor, ring);
    if (cursor->unit != TRP_POOL_NONE) {
        /* No claim can come any more: the word is ours but for K and L. */
        while (!trp_cas_acq_rel(&ring->word, &word, /* pairs: ring.claim */
            trp_ring_word(cursor->head, 0, word & TRP_RING_FLAGS))) {
        }
        trp_pool_give(pool, cache, cursor->unit);
        ring->segment = TRP_POOL_NONE;
        trp_cursor_load(cursor, pool, ring);
    }
    return true;
}
