/* SPDX-License-Identifier: MIT */
#include "queue/ring.h"

#include "support/alloc.h"
#include "support/await.h"
#include "support/require.h"
#include "support/seed.h"

#include <criterion/criterion.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* As a cell lays it out: its own slots lie behind the ring. */
struct box {
    _Alignas(64) struct trp_ring ring;
    unsigned char
        slots[TRP_RING_OWN_OFFSET + (TRP_RING_OWN_SLOTS << TRP_RING_OWN_SHIFT)];
    TRP_ATOMIC(uint32_t) life;
    TRP_ATOMIC(uint8_t) hint;
};

#define ALIVE 1u

static struct test_alloc alloc;
static struct trp_heap heap;
static struct trp_pool pool;
static struct trp_pool_cache cache;
static struct trp_pool_cache *caches[] = {&cache};
static struct box box;
static struct trp_cursor cursor;
static uint64_t pushed;
static uint64_t popped;

static void
open_box(uint32_t first_ticket)
{
    const struct trp_pool_shape shape = {
        TRP_RING_UNIT_SHIFT, TRP_RING_REGION_SHIFT, 20, 0, false};

    trp_heap_init(&heap, test_alloc, test_free, &alloc);
    cr_assert(trp_pool_init(&pool, &heap, &shape));
    pool.caches = caches;
    pool.cache_count = 1;
    trp_store_relaxed(&box.life, ALIVE);
    trp_store_relaxed(&box.ring.word, trp_ring_word(first_ticket, 0, 0));
    trp_store_relaxed(&box.ring.head, first_ticket);
}

static void
setup(void)
{
    open_box(0);
}

static void
teardown(void)
{
    trp_pool_fini(&pool);
    test_require(test_alloc_is_empty(&alloc));
}

TestSuite(queue_ring, .init = setup, .fini = teardown);

static enum trp_claim
push_item(const struct trp_item *item)
{
    enum trp_claim claim = trp_ring_push(
        &pool, &box.ring, &box.life, ALIVE, TRP_RING_ANY_DEPTH, item);

    if (claim == TRP_CLAIM_FULL) {
        /* relaxed: a hint */
        claim = trp_ring_push_grow(&pool, &cache, &box.ring, &box.life, ALIVE,
            trp_load_relaxed(&box.hint), item);
    }
    return claim;
}

/* The next number, grown for if need be. */
static enum trp_claim
push(void)
{
    struct trp_item item = {~pushed, pushed * 3, {pushed, pushed + 7}};
    enum trp_claim claim = push_item(&item);

    pushed += claim == TRP_CLAIM_QUEUED || claim == TRP_CLAIM_WAKE;
    return claim;
}

static void
push_many(uint32_t count)
{
    while (count-- > 0) {
        cr_assert_leq(push(), TRP_CLAIM_WAKE);
    }
}

/* The next number, of a cursor that was loaded. */
static bool
pop(void)
{
    struct trp_item item;

    if (!trp_ring_pop(&cursor, &box.ring, &item)) {
        return false;
    }
    cr_assert_eq(item.mark, ~popped);
    cr_assert_eq(item.sender, popped * 3);
    cr_assert_eq(item.payload[0], popped);
    cr_assert_eq(item.payload[1], popped + 7);
    popped++;
    return true;
}

static void
load(void)
{
    trp_cursor_load(&cursor, &pool, &box.ring);
}

static enum trp_ring_idle
idle(void)
{
    return trp_ring_idle(&cursor, &pool, &cache, &box.ring, &box.hint);
}

/* Pops on through all segments until the ring is idle. */
static void
drain(void)
{
    load();
    for (;;) {
        while (pop()) {
        }
        switch (idle()) {
        case TRP_IDLE_DONE:
            return;
        case TRP_IDLE_MORE:
            break;
        case TRP_IDLE_STALLED:
        case TRP_IDLE_FLAGS:
            cr_assert(false, "neither empty nor more");
        }
    }
}

static uint32_t
depth(void)
{
    uint64_t word;

    return trp_ring_depth(&box.ring, &word);
}

static uint32_t
newest_capacity(void)
{
    return trp_ring_capacity(trp_ring_unit(trp_load_relaxed(&box.ring.word)));
}

Test(queue_ring, the_first_push_wakes_and_later_ones_do_not)
{
    cr_assert_eq(push(), TRP_CLAIM_WAKE);
    cr_assert_eq(push(), TRP_CLAIM_QUEUED);
    cr_assert_eq(push(), TRP_CLAIM_QUEUED);
    drain();
    cr_assert_eq(push(), TRP_CLAIM_WAKE);
    drain();
    cr_assert_eq(popped, 4);
}

Test(queue_ring, two_messages_need_no_segment)
{
    push_many(2);
    cr_assert_eq(newest_capacity(), TRP_RING_OWN_SLOTS);
    cr_assert_eq(trp_pool_live_bytes(&pool), 0);
    drain();
}

Test(queue_ring, a_full_one_says_so_and_queues_nothing)
{
    struct trp_item item = {1, 0, {0, 0}};

    push_many(2);
    cr_assert_eq(trp_ring_push(&pool, &box.ring, &box.life, ALIVE,
                     TRP_RING_ANY_DEPTH, &item),
        TRP_CLAIM_FULL);
    cr_assert_eq(depth(), 2);
    drain();
    cr_assert_eq(popped, 2);
}

Test(queue_ring, pop_of_nothing_finds_nothing)
{
    push_many(1);
    load();
    cr_assert(pop());
    cr_assert_not(pop());
    cr_assert_not(pop());
    cr_assert_eq(idle(), TRP_IDLE_DONE);
}

Test(queue_ring, idling_with_a_message_left_says_more)
{
    push_many(1);
    load();
    cr_assert(pop());
    push_many(1);
    cr_assert_eq(idle(), TRP_IDLE_MORE);
    cr_assert(pop());
    cr_assert_eq(idle(), TRP_IDLE_DONE);
}

Test(queue_ring, it_grows_and_keeps_the_order)
{
    push_many(100000);
    cr_assert_eq(depth(), 100000);
    drain();
    cr_assert_eq(popped, 100000);
    cr_assert_eq(depth(), 0);
}

Test(queue_ring, segments_are_given_back_when_it_is_drained)
{
    for (uint32_t i = 1; i < 5000; i = i * 3 + 1) {
        push_many(i);
        drain();
        cr_assert_eq(trp_pool_live_bytes(&pool), 0);
        cr_assert_eq(newest_capacity(), TRP_RING_OWN_SLOTS);
    }
}

Test(queue_ring, segments_are_given_back_on_the_way)
{
    uint64_t full;

    push_many(10000);
    full = trp_pool_live_bytes(&pool);
    load();
    /* The older half lies in smaller segments. */
    while (popped < 6000) {
        if (!pop()) {
            cr_assert_eq(idle(), TRP_IDLE_MORE);
        }
    }
    cr_assert_lt(trp_pool_live_bytes(&pool), full);
    drain();
}

Test(queue_ring, a_drained_one_remembers_how_large_it_was)
{
    push_many(1000);
    drain();
    /* relaxed: one thread */
    cr_assert_gt(trp_load_relaxed(&box.hint), 0);
    push_many(3);
    cr_assert_geq(newest_capacity(), 256);
    drain();
}

Test(queue_ring, growing_without_memory_queues_nothing)
{
    const uint32_t classes = pool.classes;

    push_many(2);
    pool.classes = 1; /* there is no larger one */
    trp_store_relaxed(&heap.fail_at, 1);
    cr_assert_eq(push(), TRP_CLAIM_FULL);
    pool.classes = classes;
    cr_assert_eq(depth(), 2);
    cr_assert_eq(push(), TRP_CLAIM_QUEUED);
    drain();
    cr_assert_eq(popped, 3);
}

Test(queue_ring, growing_without_memory_of_one_size_takes_the_next)
{
    push_many(2);
    trp_store_relaxed(&heap.fail_at, 1);
    cr_assert_eq(push(), TRP_CLAIM_QUEUED);
    push_many(100);
    drain();
    cr_assert_eq(popped, 103);
}

Test(queue_ring, one_without_a_cache_grows_too)
{
    struct trp_item item = {~UINT64_C(2), 6, {2, 9}};

    push_many(2);
    cr_assert_eq(
        trp_ring_push_grow(&pool, NULL, &box.ring, &box.life, ALIVE, 0, &item),
        TRP_CLAIM_QUEUED);
    drain();
    cr_assert_eq(popped, 3);
    cr_assert_eq(trp_pool_live_bytes(&pool), 0);
}

/* --- closing -------------------------------------------------------------- */

Test(queue_ring, a_closed_one_refuses)
{
    push_many(2);
    cr_assert((trp_ring_close(&box.ring) & TRP_RING_CLOSED) != 0);
    cr_assert_eq(push(), TRP_CLAIM_CLOSED);
    cr_assert_eq(depth(), 2);
}

Test(queue_ring, a_closed_one_that_is_full_refuses_too)
{
    struct trp_item item = {1, 0, {0, 0}};

    push_many(2);
    (void)trp_ring_close(&box.ring);
    cr_assert_eq(trp_ring_push_grow(
                     &pool, &cache, &box.ring, &box.life, ALIVE, 0, &item),
        TRP_CLAIM_CLOSED);
    cr_assert_eq(trp_pool_live_bytes(&pool), 0);
}

Test(queue_ring, what_was_queued_before_closing_is_still_popped)
{
    push_many(300);
    load();
    (void)trp_ring_close(&box.ring);
    while (!trp_ring_is_drained(&cursor, &pool, &cache, &box.ring)) {
        while (pop()) {
        }
    }
    cr_assert_eq(popped, 300);
    cr_assert_eq(trp_pool_live_bytes(&pool), 0);
    cr_assert_eq(newest_capacity(), TRP_RING_OWN_SLOTS);
}

Test(queue_ring, closing_an_empty_one_drains_at_once)
{
    push_many(1);
    load();
    cr_assert(pop());
    (void)trp_ring_close(&box.ring);
    cr_assert_eq(idle(), TRP_IDLE_FLAGS);
    cr_assert(trp_ring_is_drained(&cursor, &pool, &cache, &box.ring));
}

Test(queue_ring, another_life_refuses)
{
    struct trp_item item = {1, 0, {0, 0}};

    cr_assert_eq(trp_ring_push(&pool, &box.ring, &box.life, ALIVE + 1,
                     TRP_RING_ANY_DEPTH, &item),
        TRP_CLAIM_CLOSED);
    push_many(2);
    cr_assert_eq(trp_ring_push_grow(
                     &pool, &cache, &box.ring, &box.life, ALIVE + 1, 0, &item),
        TRP_CLAIM_CLOSED);
    cr_assert_eq(depth(), 2);
    cr_assert_eq(trp_pool_live_bytes(&pool), 0);
    drain();
}

/* --- claimed and not written ---------------------------------------------- */

/* What a producer does that is preempted after its CAS. Returns its slot. */
static struct trp_slot *
claim_only(void)
{
    uint64_t word = trp_load_relaxed(&box.ring.word);
    uint32_t unit = trp_ring_unit(word);

    cr_assert(trp_cas_relaxed(
        &box.ring.word, &word, (word + TRP_RING_TICKET) | TRP_RING_SCHEDULED));
    return trp_ring_slot(&pool, &box.ring, unit, trp_ring_tail(word));
}

static void
write_late(struct trp_slot *slot)
{
    struct trp_item item = {~pushed, pushed * 3, {pushed, pushed + 7}};

    trp_slot_write(slot, &item);
    pushed++;
}

Test(queue_ring, a_claimed_slot_that_is_not_written_stalls_the_consumer_only)
{
    struct trp_slot *slot;

    push_many(5);
    slot = claim_only();
    load();
    while (popped < 5) {
        if (!pop()) {
            cr_assert_eq(idle(), TRP_IDLE_MORE);
        }
    }
    cr_assert_not(pop());
    cr_assert_eq(idle(), TRP_IDLE_STALLED);
    write_late(slot);
    push_many(4);
    drain();
    cr_assert_eq(popped, 10);
}

Test(queue_ring, growth_does_not_overtake_a_claimed_slot)
{
    struct trp_slot *slot;

    push_many(9); /* 2 own slots, then a segment of 8 with 7 in it */
    slot = claim_only();
    write_late(slot);
    push_many(1);
    slot = claim_only();
    pushed++;
    push_many(50); /* grows past the hole */
    pushed -= 51;
    load();
    while (popped < 11) {
        if (!pop()) {
            cr_assert_eq(idle(), TRP_IDLE_MORE);
        }
    }
    cr_assert_not(pop());
    cr_assert_eq(idle(), TRP_IDLE_STALLED);
    write_late(slot);
    pushed += 50;
    drain();
    cr_assert_eq(popped, 62);
    cr_assert_eq(trp_pool_live_bytes(&pool), 0);
}

Test(queue_ring, one_with_a_claimed_slot_is_not_drained)
{
    struct trp_slot *slot = claim_only();

    load();
    (void)trp_ring_close(&box.ring);
    cr_assert_not(trp_ring_is_drained(&cursor, &pool, &cache, &box.ring));
    cr_assert_not(pop());
    write_late(slot);
    cr_assert_not(trp_ring_is_drained(&cursor, &pool, &cache, &box.ring));
    cr_assert(pop());
    cr_assert(trp_ring_is_drained(&cursor, &pool, &cache, &box.ring));
}

/* --- depth, flags, shrinking ---------------------------------------------- */

Test(queue_ring, depth_is_what_waits)
{
    for (uint32_t i = 0; i < 60; i++) {
        cr_assert_eq(depth(), i);
        push_many(1);
    }
    load();
    while (popped < 60) {
        if (!pop()) {
            cr_assert_eq(idle(), TRP_IDLE_MORE);
        }
        trp_cursor_publish(&cursor, &box.ring);
        cr_assert_eq(depth(), 60 - popped);
    }
    cr_assert_eq(idle(), TRP_IDLE_DONE);
}

Test(queue_ring, depth_of_a_long_one_reads_at_most_15_too_high)
{
    push_many(5000);
    load();
    while (popped < 5000) {
        uint32_t left;

        if (!pop()) {
            cr_assert_eq(idle(), TRP_IDLE_MORE);
        }
        left = (uint32_t)(pushed - popped);
        cr_assert(depth() >= left && depth() <= left + 15);
    }
}

Test(queue_ring, a_flag_is_seen_instead_of_idling)
{
    static const uint64_t flags[] = {TRP_RING_SIGNAL, TRP_RING_KILL};

    for (size_t i = 0; i < TRP_COUNT_OF(flags); i++) {
        push_many(1);
        load();
        cr_assert(pop());
        trp_or_acq_rel(&box.ring.word, flags[i]);
        cr_assert_eq(idle(), TRP_IDLE_FLAGS);
        trp_and_acq_rel(&box.ring.word, ~flags[i]);
        cr_assert_eq(idle(), TRP_IDLE_DONE);
    }
}

Test(queue_ring, flags_survive_growth)
{
    push_many(1);
    trp_or_acq_rel(&box.ring.word, TRP_RING_KILL | TRP_RING_SIGNAL);
    push_many(1000);
    cr_assert_eq(trp_load_relaxed(&box.ring.word) & TRP_RING_FLAGS,
        TRP_RING_KILL | TRP_RING_SIGNAL | TRP_RING_SCHEDULED);
}

Test(queue_ring, one_that_never_gets_empty_still_shrinks)
{
    uint32_t high = 0;

    push_many(20000);
    load();
    for (int round = 0; round < 30000; round++) {
        if (newest_capacity() > high) {
            high = newest_capacity();
        }
        if (!pop()) {
            cr_assert_eq(idle(), TRP_IDLE_MORE);
            continue;
        }
        if (pushed - popped < 4) {
            push_many(1);
        }
        trp_ring_shrink(&cursor, &pool, &cache, &box.ring);
    }
    cr_assert_geq(high, 16384);
    cr_assert_lt(newest_capacity(), 1024);
    drain();
    cr_assert_eq(popped, pushed);
    cr_assert_eq(trp_pool_live_bytes(&pool), 0);
}

Test(queue_ring, shrinking_without_memory_changes_nothing)
{
    push_many(1000);
    load();
    while (popped < 990) {
        if (!pop()) {
            cr_assert_eq(idle(), TRP_IDLE_MORE);
        }
    }
    trp_store_relaxed(&heap.fail_at, 1);
    trp_ring_shrink(&cursor, &pool, &cache, &box.ring);
    trp_cursor_publish(&cursor, &box.ring);
    drain();
    cr_assert_eq(popped, 1000);
}

Test(queue_ring, tickets_wrap, .init = NULL)
{
    open_box(UINT32_MAX - 1000);
    for (uint32_t i = 0; i < 200; i++) {
        push_many(i % 37);
        if (i % 37 != 0) {
            drain();
        }
        cr_assert_eq(depth(), 0);
    }
    cr_assert_lt(trp_ring_tail(trp_load_relaxed(&box.ring.word)), 10000);
    cr_assert_eq(popped, pushed);
}

Test(queue_ring, tickets_wrap_inside_a_segment, .init = NULL)
{
    open_box(UINT32_MAX - 1000);
    push_many(5000);
    cr_assert_eq(depth(), 5000);
    drain();
    cr_assert_eq(popped, 5000);
}

/* --- against a reference, one thread -------------------------------------- */

static void
run_random(struct test_rng *rng)
{
    bool scheduled = false;
    uint32_t bias = 50;

    for (int step = 0; step < 60000; step++) {
        uint32_t what = test_random_below(rng, 100);

        if (step % 1000 == 0) {
            bias = 20 + test_random_below(rng, 60); /* fills, then empties */
        }
        if (what < bias) {
            enum trp_claim claim = push();

            cr_assert_eq(claim, scheduled ? TRP_CLAIM_QUEUED : TRP_CLAIM_WAKE);
            if (!scheduled) {
                load();
            }
            scheduled = true;
        } else if (scheduled && what < 97) {
            if (!pop()) {
                enum trp_ring_idle found = idle();

                /* Empty and a smaller segment attached: it looks again. */
                cr_assert(found == TRP_IDLE_MORE ||
                          (found == TRP_IDLE_DONE && pushed == popped));
                scheduled = found != TRP_IDLE_DONE;
            }
        } else if (scheduled) {
            trp_ring_shrink(&cursor, &pool, &cache, &box.ring);
            trp_cursor_publish(&cursor, &box.ring); /* end of a turn */
            load();
        }
    }
    if (scheduled) {
        trp_cursor_publish(&cursor, &box.ring);
        drain();
    }
}

Test(queue_ring, whatever_the_order_it_is_a_queue)
{
    struct test_rng rng = {test_seed()};

    for (int round = 0; round < 20; round++) {
        run_random(&rng);
        cr_assert_eq(popped, pushed);
        cr_assert_eq(trp_pool_live_bytes(&pool), 0);
    }
}

/* --- real threads --------------------------------------------------------- */

#define PRODUCERS 4
#define EACH 100000

static _Atomic uint32_t wakes;
static _Atomic uint64_t refused;

static void *
produce(void *user)
{
    uint64_t me = (uintptr_t)user;

    for (uint64_t i = 0; i < EACH; i++) {
        struct trp_item item = {me + 1, me, {i, 0}};
        enum trp_claim claim = trp_ring_push(
            &pool, &box.ring, &box.life, ALIVE, TRP_RING_ANY_DEPTH, &item);

        if (claim == TRP_CLAIM_FULL) {
            claim = trp_ring_push_grow(
                &pool, NULL, &box.ring, &box.life, ALIVE, 0, &item);
        }
        if (claim == TRP_CLAIM_WAKE) {
            atomic_fetch_add(&wakes, 1);
        }
        if (claim == TRP_CLAIM_CLOSED) {
            atomic_fetch_add(&refused, EACH - i);
            break;
        }
    }
    return NULL;
}

/* One turn: until the ring is idle. Returns how many were popped. */
static uint64_t
consume(uint64_t *next)
{
    uint64_t count = 0;
    struct trp_item item;

    load();
    for (;;) {
        while (trp_ring_pop(&cursor, &box.ring, &item)) {
            cr_assert_eq(item.payload[0], next[item.sender]);
            next[item.sender]++;
            if (++count % 100 == 0) {
                trp_ring_shrink(&cursor, &pool, &cache, &box.ring);
            }
        }
        if (idle() == TRP_IDLE_DONE) {
            return count;
        }
    }
}

static void
start(pthread_t *threads)
{
    for (uintptr_t i = 0; i < PRODUCERS; i++) {
        cr_assert_eq(pthread_create(&threads[i], NULL, produce, (void *)i), 0);
    }
}

static void
join(pthread_t *threads)
{
    for (int i = 0; i < PRODUCERS; i++) {
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
    }
}

Test(queue_ring, every_producer_keeps_its_order_and_loses_nothing)
{
    pthread_t threads[PRODUCERS];
    uint64_t next[PRODUCERS] = {0};
    uint64_t total = 0;
    uint64_t end_ns = test_clock_ns() + TEST_DEADLINE_NS;

    start(threads);
    while (total < PRODUCERS * EACH && test_clock_ns() < end_ns) {
        if (atomic_load(&wakes) > 0) {
            atomic_fetch_sub(&wakes, 1);
            total += consume(next);
        } else {
            sched_yield();
        }
    }
    join(threads);
    cr_assert_eq(total, PRODUCERS * EACH);
    cr_assert_eq(wakes, 0);
    cr_assert_eq(trp_pool_live_bytes(&pool), 0);
}

Test(queue_ring, closing_during_pushes_splits_them_into_popped_and_refused)
{
    pthread_t threads[PRODUCERS];
    uint64_t next[PRODUCERS] = {0};
    uint64_t total = 0;
    struct trp_item item;

    start(threads);
    while (total < PRODUCERS * EACH / 8) {
        if (atomic_load(&wakes) > 0) {
            atomic_fetch_sub(&wakes, 1);
            total += consume(next);
        }
    }
    /* Takes S itself, as a stop does; then nobody else can be its owner. */
    for (;;) {
        uint64_t word = trp_load_acquire(&box.ring.word);

        if (atomic_load(&wakes) > 0) {
            atomic_fetch_sub(&wakes, 1);
            break;
        }
        if ((word & TRP_RING_SCHEDULED) == 0 &&
            trp_cas_acq_rel(&box.ring.word, &word, word | TRP_RING_SCHEDULED)) {
            break;
        }
    }
    load();
    (void)trp_ring_close(&box.ring);
    while (!trp_ring_is_drained(&cursor, &pool, &cache, &box.ring)) {
        while (trp_ring_pop(&cursor, &box.ring, &item)) {
            cr_assert_eq(item.payload[0], next[item.sender]);
            next[item.sender]++;
            total++;
        }
    }
    join(threads);
    cr_assert_eq(total + refused, PRODUCERS * EACH);
    cr_assert_eq(trp_pool_live_bytes(&pool), 0);
}
