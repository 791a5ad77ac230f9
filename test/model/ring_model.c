/* SPDX-License-Identifier: MIT */

/*
 * lib/queue/ring.h and ring.c: producers that claim, grow and are refused,
 * consumers that take turns, idle, shrink, close and open the ring again.
 *
 * Oracle: a ledger outside of the protocol. What a producer was told was queued
 * is popped once, whole, in the order of its producer, in the life that it was
 * meant for, by one owner at a time; at the end the ring is idle, no segment is
 * out, and every mark is 0.
 */

#include "engine.h"
#include "interleave.h"
#include "queue/ring.h"
#include "runner.h"
#include "support.h"

#include <string.h>

#define PRODUCERS_MAX 4
#define LIFE 7u /* the first one */

/* The ring with its own slots, wherever ring.h puts them. */
static union {
    struct trp_ring ring;
    TRP_ALIGNED(128) unsigned char bytes[256];
} cell;
static TRP_ATOMIC(uint32_t) life_now;
static TRP_ATOMIC(uint8_t) hint;

static const struct trp_pool_shape shape = {
    .unit_shift = TRP_RING_UNIT_SHIFT,
    .region_shift = TRP_RING_REGION_SHIFT,
    .classes = 6,
};
static struct trp_pool pool;
static struct trp_pool_cache caches[MODEL_THREADS_MAX];
static struct trp_pool_cache *all_caches[MODEL_THREADS_MAX];
static struct model_turns turns;

/* Plain: looked at between two steps. */
static struct {
    uint32_t sent[PRODUCERS_MAX];     /* tried */
    uint32_t accepted[PRODUCERS_MAX]; /* not refused */
    uint32_t popped[PRODUCERS_MAX];
    uint32_t expected[PRODUCERS_MAX]; /* at least, next */
    uint32_t taken;                   /* of all */
    uint32_t refused;
    bool in_turn;
    bool is_closed; /* the ring said that it is drained */
} ledger;

/* What the scenario wants of a turn. */
static struct {
    uint32_t limit;       /* messages, 0 = none */
    uint32_t close_after; /* messages, 0 = never */
    bool reopens;
    bool hands_over; /* a stalled turn goes to the next consumer */
    bool acknowledges;
} plan;

static uint32_t acknowledged[PRODUCERS_MAX];

static struct trp_slot *
own_slot(uint32_t ticket)
{
    return trp_ring_slot(&pool, &cell.ring, TRP_POOL_NONE, ticket);
}

static void
begin(void)
{
    model_heap_begin();
    model_pool_begin(&pool, &shape, 0);
    for (int i = 0; i < MODEL_THREADS_MAX; i++) {
        all_caches[i] = &caches[i];
    }
    pool.caches = all_caches;
    pool.cache_count = MODEL_THREADS_MAX;
    memset(caches, 0, sizeof caches);
    memset(&cell, 0, sizeof cell);
    memset(&ledger, 0, sizeof ledger);
    memset(&plan, 0, sizeof plan);
    memset(acknowledged, 0, sizeof acknowledged);
    turns.count = 0;
    hint = 0;
    life_now = LIFE;
    model_name(&cell.ring.word, "word");
    model_name(&cell.ring.head, "head");
    model_name(&life_now, "life");
    model_name(&own_slot(0)->mark, "own[0]");
    model_name(&own_slot(1)->mark, "own[1]");
    model_name(&turns.count, "turns");
}

/* --- producers ------------------------------------------------------------ */

static struct trp_item
item_of(uint32_t producer, uint32_t number, uint32_t life)
{
    return (struct trp_item){
        .mark = producer + 1,
        .sender = ((uint64_t)life << 32) | producer,
        .payload = {number, ~(uint64_t)number ^ producer},
    };
}

/* Cache 0 stands for a foreign thread. */
static struct trp_pool_cache *
cache_of(uint32_t thread)
{
    return thread == 0 ? NULL : &caches[thread];
}

static enum trp_claim
push(uint32_t producer, uint32_t life)
{
    struct trp_item item = item_of(producer, ledger.sent[producer]++, life);
    enum trp_claim claim = trp_ring_push(
        &pool, &cell.ring, &life_now, life, TRP_RING_ANY_DEPTH, &item);

    if (claim == TRP_CLAIM_FULL) {
        claim = trp_ring_push_grow(&pool, cache_of(producer), &cell.ring,
            &life_now, life, trp_load_relaxed(&hint), &item);
    }
    MODEL_ASSERT(claim != TRP_CLAIM_FULL);
    if (claim == TRP_CLAIM_CLOSED) {
        ledger.refused++;
    } else {
        ledger.accepted[producer]++;
    }
    return claim;
}

static uint32_t
messages(void *user)
{
    return (uint32_t)(uintptr_t)user & 0xff;
}

static uint32_t
number_of(void *user)
{
    return (uint32_t)((uintptr_t)user >> 8);
}

static void *
with(uint32_t number, uint32_t count)
{
    return (void *)(uintptr_t)((number << 8) | count);
}

static void
producer(void *user)
{
    for (uint32_t i = 0; i < messages(user); i++) {
        if (push(number_of(user), LIFE) == TRP_CLAIM_WAKE) {
            model_turns_put(&turns);
        }
    }
}

/* --- the consumer --------------------------------------------------------- */

static void
take(const struct trp_item *item)
{
    uint32_t producer = (uint32_t)item->mark - 1;
    uint32_t number = (uint32_t)item->payload[0];

    MODEL_CHECK(
        producer < PRODUCERS_MAX, "mark %llx", (unsigned long long)item->mark);
    MODEL_CHECK((uint32_t)item->sender == producer, "sender %llx of %u",
        (unsigned long long)item->sender, producer);
    MODEL_CHECK((item->payload[1] ^ ~item->payload[0]) == producer,
        "torn payload of %u", producer);
    MODEL_CHECK(item->sender >> 32 == life_now,
        "a message for life %u in life %u", (uint32_t)(item->sender >> 32),
        life_now);
    MODEL_CHECK(number >= ledger.expected[producer], "%u.%u after %u.%u",
        producer, number, producer, ledger.expected[producer] - 1);
    MODEL_ASSERT(!ledger.is_closed);
    ledger.expected[producer] = number + 1;
    ledger.popped[producer]++;
    ledger.taken++;
    model_note("popped %u.%u", producer, number);
    if (plan.acknowledges) {
        trp_store_release(&acknowledged[producer], number + 1);
        model_futex_wake(&acknowledged[producer], 1, MODEL_AT("ack"));
    }
}

/* As lib/actor/cell.c does it: a new life, then a ticket that never was. */
static void
reopen(void)
{
    uint32_t tail = trp_ring_tail(trp_load_relaxed(&cell.ring.word)) + 1;

    trp_store_release(&life_now, trp_load_relaxed(&life_now) + 1);
    trp_store_relaxed(&cell.ring.head, tail);
    cell.ring.segment = TRP_POOL_NONE;
    trp_store_relaxed(&hint, 0);
    ledger.is_closed = false;
    plan.close_after = 0;
    trp_store_release(&cell.ring.word, trp_ring_word(tail, 0, 0));
}

/* X is set: to the last message that was claimed before. */
static void
drain(struct trp_cursor *cursor, struct trp_pool_cache *cache)
{
    struct trp_item item;

    while (!trp_ring_is_drained(cursor, &pool, cache, &cell.ring)) {
        if (trp_ring_pop(cursor, &cell.ring, &item)) {
            take(&item);
        } else {
            model_relax(MODEL_AT("stalled"));
        }
    }
    ledger.is_closed = true;
    ledger.in_turn = false;
    if (plan.reopens) {
        reopen();
    }
}

/* Somebody else goes on with this turn. */
static void
hand_over(const struct trp_cursor *cursor, struct trp_pool_cache *cache)
{
    trp_cursor_publish(cursor, &cell.ring);
    trp_ring_shrink(cursor, &pool, cache, &cell.ring);
    ledger.in_turn = false;
    model_turns_put(&turns);
}

static void
enter_turn(void)
{
    MODEL_CHECK(!ledger.in_turn, "two owners of S");
    ledger.in_turn = true;
}

/* Nothing could be popped. True: S was given away. */
static bool
pause_turn(struct trp_cursor *cursor, struct trp_pool_cache *cache)
{
    ledger.in_turn = false; /* from the CAS on it may be another's */
    switch (trp_ring_idle(cursor, &pool, cache, &cell.ring, &hint)) {
    case TRP_IDLE_DONE:
        return true;
    case TRP_IDLE_MORE:
        enter_turn();
        return false;
    case TRP_IDLE_STALLED:
        enter_turn();
        if (plan.hands_over) {
            hand_over(cursor, cache);
        }
        model_relax(MODEL_AT("stalled"));
        return plan.hands_over;
    case TRP_IDLE_FLAGS:
        break;
    }
    model_fail(__FILE__, __LINE__, "flags nobody set");
}

/* As lib/actor/turn.c does it. */
static void
run_turn(struct trp_pool_cache *cache)
{
    struct trp_cursor cursor;
    struct trp_item item;
    uint32_t count = 0;

    enter_turn();
    trp_cursor_load(&cursor, &pool, &cell.ring);
    while (plan.limit == 0 || count < plan.limit) {
        if (!trp_ring_pop(&cursor, &cell.ring, &item)) {
            if (pause_turn(&cursor, cache)) {
                return;
            }
            continue;
        }
        take(&item);
        count++;
        if (plan.close_after == ledger.taken) {
            trp_ring_close(&cell.ring);
            drain(&cursor, cache);
            return;
        }
    }
    hand_over(&cursor, cache);
}

static void
consumer(void *user)
{
    while (model_turns_take(&turns)) {
        run_turn(cache_of(number_of(user)));
    }
}

/* --- the end -------------------------------------------------------------- */

static void
check_ledger(void)
{
    for (uint32_t i = 0; i < PRODUCERS_MAX; i++) {
        MODEL_CHECK(ledger.popped[i] == ledger.accepted[i],
            "%u of %u messages of %u were popped", ledger.popped[i],
            ledger.accepted[i], i);
    }
    MODEL_ASSERT(!ledger.in_turn);
}

static void
check_marks(uint32_t unit)
{
    uint32_t capacity = trp_ring_capacity(unit);

    for (uint32_t i = 0; i < capacity; i++) {
        MODEL_CHECK(trp_ring_slot(&pool, &cell.ring, unit, i)->mark == 0,
            "a mark is left in slot %u of %u", i, capacity);
    }
}

/* Nothing queued: back in its own slots, everything given back (I3, I5). */
static void
check_rest(uint64_t flags)
{
    uint64_t word = cell.ring.word;

    check_ledger();
    MODEL_CHECK((word & TRP_RING_FLAGS) == flags &&
                    trp_ring_unit(word) == TRP_POOL_NONE &&
                    trp_ring_tail(word) == cell.ring.head &&
                    cell.ring.segment == TRP_POOL_NONE,
        "word %llx, head %x, segment %x", (unsigned long long)word,
        cell.ring.head, cell.ring.segment);
    MODEL_CHECK(trp_pool_live_bytes(&pool) == 0, "%llu bytes of segments",
        (unsigned long long)trp_pool_live_bytes(&pool));
    check_marks(TRP_POOL_NONE);
    for (uint32_t class = 0; class < pool.classes; class ++) {
        for (uint32_t unit = pool.class[class].start;
             unit < pool.class[class].bump; unit += UINT32_C(1) << class) {
            check_marks(unit);
        }
    }
}

/* --- scenarios ------------------------------------------------------------ */

static void
join_all(const int *threads, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        model_join(threads[i]);
    }
}

static const char *const producer_names[] = {"p0", "p1", "p2", "p3"};
static const char *const consumer_names[] = {"c0", "c1"};

/* `counts` messages of each producer, and consumers until they sleep. */
static void
run_all(const uint32_t *counts, uint32_t producers, uint32_t consumers)
{
    int p[PRODUCERS_MAX];
    int c[2];

    for (uint32_t i = 0; i < consumers; i++) {
        c[i] = model_spawn(
            consumer_names[i], consumer, with(PRODUCERS_MAX + i, 0));
    }
    for (uint32_t i = 0; i < producers; i++) {
        p[i] = model_spawn(producer_names[i], producer, with(i, counts[i]));
    }
    join_all(p, producers);
    model_await_sleep();
    check_ledger();
    model_turns_end(&turns);
    join_all(c, consumers);
}

/* Messages of producer 3 that are in the ring when the others begin. */
static void
prefill(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (push(3, LIFE) == TRP_CLAIM_WAKE) {
            turns.count++;
        }
    }
}

static void
claim(void)
{
    begin();
    run_all((const uint32_t[]){2, 2, 1}, 3, 1);
    check_rest(0);
}

/* Nobody's message waits behind another one's: there is always room. */
static void
polite_producer(void *user)
{
    for (uint32_t i = 1; i <= messages(user); i++) {
        uint32_t number = number_of(user);
        struct trp_item item = item_of(number, ledger.sent[number]++, LIFE);
        enum trp_claim claimed = trp_ring_push(
            &pool, &cell.ring, &life_now, LIFE, TRP_RING_ANY_DEPTH, &item);
        uint32_t seen;

        MODEL_CHECK(claimed != TRP_CLAIM_FULL, "full with room for one");
        ledger.accepted[number]++;
        if (claimed == TRP_CLAIM_WAKE) {
            model_turns_put(&turns);
        }
        while ((seen = trp_load_acquire(&acknowledged[number])) != i) {
            model_futex_wait(&acknowledged[number], seen, MODEL_FOREVER,
                MODEL_AT("await_ack"));
        }
    }
}

static void
room(void)
{
    int threads[3];

    begin();
    plan.acknowledges = true;
    threads[0] = model_spawn("p1", polite_producer, with(1, 2));
    threads[1] = model_spawn("p2", polite_producer, with(2, 2));
    threads[2] = model_spawn("c0", consumer, with(PRODUCERS_MAX, 0));
    join_all(threads, 2);
    model_await_sleep();
    model_turns_end(&turns);
    join_all(threads + 2, 1);
    check_rest(0);
}

/* Two consumers, a turn is over after two messages or when it stalls. */
static void
hand_over_turns(void)
{
    begin();
    plan.limit = 2;
    plan.hands_over = true;
    run_all((const uint32_t[]){3, 3}, 2, 2);
    check_rest(0);
}

/* Who wakes the ring runs it: S goes from thread to thread. */
static void
producer_that_runs(void *user)
{
    for (uint32_t i = 0; i < messages(user); i++) {
        uint32_t number = number_of(user);

        if (push(number, LIFE) == TRP_CLAIM_WAKE) {
            run_turn(cache_of(number));
        }
    }
}

static void
wake(void)
{
    int threads[3];

    begin();
    for (uint32_t i = 0; i < 3; i++) {
        threads[i] = model_spawn(
            producer_names[i], producer_that_runs, with(i, i == 2 ? 1 : 2));
    }
    join_all(threads, 3);
    check_rest(0);
}

/* Into the first segment, or from there into the second one. */
static void
grow(void)
{
    static const uint32_t fill[] = {1, 2, 9, 10, 17};

    begin();
    prefill(fill[model_choose(5)]);
    run_all((const uint32_t[]){2, 3}, 2, 1);
    check_rest(0);
}

/* Through three segments and back while turns change hands. */
static void
grow_and_hand_over(void)
{
    begin();
    prefill(8);
    plan.limit = 5;
    run_all((const uint32_t[]){5, 6}, 2, 2);
    check_rest(0);
}

/* A large segment with few messages: each turn ends with a shrink. */
static void
shrink(void)
{
    begin();
    trp_store_relaxed(&hint, 3);
    prefill(3);
    plan.limit = 1 + model_choose(3);
    run_all((const uint32_t[]){2, 2}, 2, 2);
    check_rest(0);
}

/* A segment of 64 slots: head is published every 16th message. */
static void
lazy_head(void)
{
    begin();
    trp_store_relaxed(&hint, 3);
    prefill(64);
    plan.limit = 40;
    run_all((const uint32_t[]){2, 3}, 2, 1);
    check_rest(0);
}

static void
close_ring(void)
{
    begin();
    plan.close_after = 1 + model_choose(3);
    run_all((const uint32_t[]){2, 2, 1}, 3, 1);
    MODEL_ASSERT(ledger.is_closed);
    check_rest(TRP_RING_CLOSED | TRP_RING_SCHEDULED);
}

/* The same with segments, some of them not reached by head yet. */
static void
close_grown_ring(void)
{
    begin();
    prefill(9);
    plan.close_after = 1 + model_choose(12);
    run_all((const uint32_t[]){2, 3}, 2, 1);
    MODEL_ASSERT(ledger.is_closed);
    check_rest(TRP_RING_CLOSED | TRP_RING_SCHEDULED);
}

/* Sends to the life that it finds. */
static void
late_producer(void *user)
{
    for (uint32_t i = 0; i < messages(user); i++) {
        uint32_t number = number_of(user);

        if (push(number, trp_load_acquire(&life_now)) == TRP_CLAIM_WAKE) {
            model_turns_put(&turns);
        }
    }
}

/* p0 and p1 only know the first life, p2 sends to whoever lives. */
static void
reuse(void)
{
    int threads[4];

    begin();
    plan.reopens = true;
    plan.close_after = 1;
    threads[0] = model_spawn("p0", producer, with(0, 2));
    threads[1] = model_spawn("p1", producer, with(1, 1));
    threads[2] = model_spawn("p2", late_producer, with(2, 2));
    threads[3] = model_spawn("c0", consumer, with(PRODUCERS_MAX, 0));
    join_all(threads, 3);
    model_await_sleep();
    model_turns_end(&turns);
    join_all(threads + 3, 1);
    MODEL_ASSERT(life_now == LIFE + 1);
    check_rest(0);
}

int
main(int argc, char **argv)
{
    static const struct model_scenario scenarios[] = {
        {"claim", claim, 100},
        {"room", room, 100},
        {"hand_over", hand_over_turns, 100},
        {"wake", wake, 100},
        {"grow", grow, 100},
        {"grow_and_hand_over", grow_and_hand_over, 50},
        {"shrink", shrink, 50},
        {"lazy_head", lazy_head, 20},
        {"close", close_ring, 100},
        {"close_grown", close_grown_ring, 50},
        {"reuse", reuse, 100},
    };

    return model_main(
        argc, argv, "ring", scenarios, sizeof scenarios / sizeof scenarios[0]);
}
