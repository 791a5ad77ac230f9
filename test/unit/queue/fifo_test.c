/* SPDX-License-Identifier: MIT */
#include "queue/fifo.h"

#include "support/alloc.h"
#include "support/require.h"
#include "support/seed.h"

#include <criterion/criterion.h>

#include <string.h>

#define MILLION 1000000u
#define MOST 400u /* entries of a random run: four doublings above 64 */
#define KEPT 64u  /* a ring of so many stays, empty or not */

static struct test_alloc alloc;
static struct trp_heap heap;
static struct trp_fifo fifo;

static void
setup(void)
{
    trp_heap_init(&heap, test_alloc, test_free, &alloc);
    trp_fifo_init(&fifo, &heap);
}

static void
teardown(void)
{
    trp_fifo_fini(&fifo);
    test_require(test_alloc_is_empty(&alloc));
}

TestSuite(queue_fifo, .init = setup, .fini = teardown);

/* Everything in it tells which one it is. */
static struct trp_order_entry
entry_of(uint64_t number)
{
    struct trp_order_entry entry = {(double)number, number,
        {number + 1, number ^ UINT64_MAX, {number * 3, number * 5}}};

    return entry;
}

static bool
is_same(const struct trp_order_entry *a, const struct trp_order_entry *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static bool
push_last(uint64_t number)
{
    struct trp_order_entry entry = entry_of(number);

    return trp_fifo_push_last(&fifo, &entry);
}

static bool
push_first(uint64_t number)
{
    struct trp_order_entry entry = entry_of(number);

    return trp_fifo_push_first(&fifo, &entry);
}

static void
fill(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        cr_assert(push_last(i));
    }
}

static void
assert_first_is(uint64_t number)
{
    struct trp_order_entry wanted = entry_of(number);
    struct trp_order_entry entry;

    cr_assert(is_same(trp_fifo_first(&fifo), &wanted));
    cr_assert(trp_fifo_take_first(&fifo, &entry));
    cr_assert(is_same(&entry, &wanted));
}

static void
assert_last_is(uint64_t number)
{
    struct trp_order_entry wanted = entry_of(number);
    struct trp_order_entry entry;

    cr_assert(is_same(trp_fifo_last(&fifo), &wanted));
    cr_assert(trp_fifo_take_last(&fifo, &entry));
    cr_assert(is_same(&entry, &wanted));
}

Test(queue_fifo, a_new_one_is_empty_and_has_no_memory)
{
    struct trp_order_entry entry = entry_of(7);
    struct trp_order_entry before = entry;

    cr_assert_eq(trp_fifo_length(&fifo), 0);
    cr_assert_null(trp_fifo_first(&fifo));
    cr_assert_null(trp_fifo_last(&fifo));
    cr_assert_not(trp_fifo_take_first(&fifo, &entry));
    cr_assert_not(trp_fifo_take_last(&fifo, &entry));
    cr_assert(is_same(&entry, &before));
    cr_assert_eq(alloc.requests, 0);
}

Test(queue_fifo, what_is_pushed_last_is_taken_last)
{
    fill(100);
    for (uint64_t i = 0; i < 50; i++) {
        assert_first_is(i);
        assert_last_is(99 - i);
    }
    cr_assert_eq(trp_fifo_length(&fifo), 0);
}

Test(queue_fifo, what_is_pushed_first_is_taken_first)
{
    for (uint64_t i = 0; i < 100; i++) {
        cr_assert(push_first(i));
    }
    for (uint64_t i = 0; i < 50; i++) {
        assert_first_is(99 - i);
        assert_last_is(i);
    }
    cr_assert_eq(trp_fifo_length(&fifo), 0);
}

Test(queue_fifo, the_only_entry_is_first_and_last)
{
    cr_assert(push_first(3));
    cr_assert_eq(trp_fifo_first(&fifo), trp_fifo_last(&fifo));
    assert_last_is(3);
    cr_assert(push_last(4));
    assert_first_is(4);
}

Test(queue_fifo, a_short_queue_goes_round_for_ever_without_growing)
{
    fill(8);
    for (uint64_t i = 0; i < 100000; i++) {
        assert_first_is(i);
        cr_assert(push_last(i + 8));
    }
    for (uint64_t i = 100007; i < 200000; i++) {
        assert_last_is(100007);
        cr_assert(push_first(100007));
        assert_first_is(100007);
        cr_assert(push_last(100007));
    }
    cr_assert_eq(alloc.requests, 1);
}

Test(queue_fifo, the_count_of_the_first_may_overflow)
{
    fill(1);
    assert_first_is(0);
    fifo.first = UINT32_MAX - 2;
    fill(20);
    for (uint64_t i = 0; i < 20; i++) {
        assert_first_is(i);
    }
}

/* --- against an array ----------------------------------------------------- */

static uint64_t reference[MOST];
static uint32_t reference_length;
static uint64_t sequence;

static void
assert_like_reference(void)
{
    cr_assert_eq(trp_fifo_length(&fifo), reference_length);
    cr_assert_leq(fifo.length, fifo.capacity);
    cr_assert_eq(fifo.entries == NULL, fifo.capacity == 0);
    if (reference_length == 0) {
        cr_assert_null(trp_fifo_first(&fifo));
        cr_assert_null(trp_fifo_last(&fifo));
        return;
    }
    cr_assert_eq(trp_fifo_first(&fifo)->sequence, reference[0]);
    cr_assert_eq(
        trp_fifo_last(&fifo)->sequence, reference[reference_length - 1]);
}

/* False: no memory, and nothing changed. */
static bool
push_random(struct test_rng *rng)
{
    uint64_t number = sequence++;

    if (test_random_below(rng, 2) == 0) {
        if (!push_last(number)) {
            return false;
        }
        reference[reference_length] = number;
    } else {
        if (!push_first(number)) {
            return false;
        }
        memmove(reference + 1, reference, reference_length * sizeof *reference);
        reference[0] = number;
    }
    reference_length++;
    return true;
}

static void
take_random(struct test_rng *rng)
{
    struct trp_order_entry out;

    if (reference_length == 0) {
        cr_assert_not(trp_fifo_take_first(&fifo, &out));
        cr_assert_not(trp_fifo_take_last(&fifo, &out));
    } else if (test_random_below(rng, 2) == 0) {
        assert_last_is(reference[--reference_length]);
    } else {
        assert_first_is(reference[0]);
        reference_length--;
        memmove(reference, reference + 1, reference_length * sizeof *reference);
    }
}

/* Waves: it fills up to a random depth, then it empties to another one. */
static void
run_waves(struct test_rng *rng, uint32_t waves)
{
    for (uint32_t wave = 0; wave < waves; wave++) {
        uint32_t upper = 1 + test_random_below(rng, MOST);
        uint32_t lower =
            wave + 1 == waves ? 0 : test_random_below(rng, upper / 2 + 1);

        while (reference_length < upper) {
            if (test_random_below(rng, 4) != 0) {
                (void)push_random(rng);
            } else {
                take_random(rng);
            }
            assert_like_reference();
        }
        while (reference_length > lower) {
            if (test_random_below(rng, 4) == 0 && reference_length < MOST) {
                (void)push_random(rng);
            } else {
                take_random(rng);
            }
            assert_like_reference();
        }
    }
}

Test(queue_fifo, it_does_what_an_array_does)
{
    struct test_rng seeds = {test_seed()};

    for (int i = 0; i < 200; i++) {
        struct test_rng rng = {test_random(&seeds)};

        run_waves(&rng, 5);
    }
}

/* --- memory --------------------------------------------------------------- */

Test(queue_fifo, a_failing_allocation_changes_nothing)
{
    uint64_t state = test_seed();
    uint64_t nth = 0;
    bool reached;

    do {
        struct test_rng rng = {state};
        uint64_t before = alloc.requests;

        alloc.fail_at = before + ++nth;
        run_waves(&rng, 6);
        reached = alloc.requests >= alloc.fail_at;
        alloc.fail_at = 0;
        trp_fifo_fini(&fifo);
        cr_assert(test_alloc_is_empty(&alloc));
    } while (reached);
    cr_assert_gt(nth, 10);
}

Test(queue_fifo, a_push_without_memory_keeps_all_entries)
{
    alloc.fail_at = 1;
    cr_assert_not(push_last(0));
    alloc.fail_at = 2;
    cr_assert_not(push_first(0));
    assert_like_reference();
    alloc.fail_above = 64 * sizeof(struct trp_order_entry);
    fill(64);
    cr_assert_not(push_last(64));
    cr_assert_not(push_first(64));
    cr_assert_eq(trp_fifo_length(&fifo), 64);
    for (uint64_t i = 0; i < 64; i++) {
        assert_first_is(i);
    }
}

Test(queue_fifo, a_small_ring_is_kept_when_empty)
{
    for (int round = 0; round < 10; round++) {
        fill(KEPT);
        while (trp_fifo_length(&fifo) > 0) {
            assert_last_is(trp_fifo_length(&fifo) - 1);
        }
    }
    cr_assert_eq(alloc.requests, 4);
    cr_assert_eq(fifo.capacity, KEPT);
}

Test(queue_fifo, a_ring_that_is_a_quarter_full_is_halved)
{
    fill(1024);
    for (uint64_t i = 0; i < 1024 - 257; i++) {
        assert_first_is(i);
    }
    cr_assert_eq(fifo.capacity, 1024);
    assert_last_is(1023);
    cr_assert_eq(fifo.capacity, 512);
    for (uint64_t i = 1024 - 257; i < 1023; i++) {
        assert_first_is(i);
    }
    cr_assert_eq(fifo.capacity, KEPT);
}

Test(queue_fifo, it_shrinks_in_the_middle_of_a_lap)
{
    fill(1024);
    for (uint64_t i = 0; i < 700; i++) {
        assert_first_is(i);
    }
    for (uint64_t i = 1024; i < 1500; i++) {
        cr_assert(push_last(i));
    }
    cr_assert_eq(fifo.capacity, 1024);
    for (uint64_t i = 1499; i >= 710; i--) {
        assert_last_is(i);
    }
    for (uint64_t i = 700; i < 710; i++) {
        assert_first_is(i);
    }
}

Test(queue_fifo, without_memory_to_shrink_it_keeps_the_large_ring)
{
    fill(1024);
    alloc.fail_above = 1;
    for (uint64_t i = 0; i < 1000; i++) {
        assert_first_is(i);
    }
    cr_assert_eq(fifo.capacity, 1024);
    alloc.fail_above = 0;
    assert_first_is(1000);
    cr_assert_eq(fifo.capacity, KEPT, "one step once there is memory again");
    for (uint64_t i = 1001; i < 1024; i++) {
        assert_first_is(i);
    }
}

Test(queue_fifo, a_large_ring_is_freed_when_empty)
{
    fill(1024);
    alloc.fail_above = 1;
    for (uint64_t i = 0; i < 1024; i++) {
        assert_first_is(i);
    }
    cr_assert(test_alloc_is_empty(&alloc));
    cr_assert_eq(fifo.capacity, 0);
    alloc.fail_above = 0;
    fill(1);
    cr_assert_eq(fifo.capacity, 8);
}

Test(queue_fifo, ending_it_frees_what_is_queued)
{
    fill(1000);
    trp_fifo_fini(&fifo);
    cr_assert(test_alloc_is_empty(&alloc));
    cr_assert_eq(trp_fifo_length(&fifo), 0);
    fill(1);
    assert_first_is(0);
}

Test(queue_fifo, ending_a_zeroed_one_does_nothing)
{
    struct trp_fifo zeroed = {0};

    trp_fifo_fini(&zeroed);
}

Test(queue_fifo, a_million_go_in_and_out_in_order)
{
    fill(MILLION);
    for (uint64_t i = 0; i < MILLION; i++) {
        assert_first_is(i);
    }
    cr_assert_leq(alloc.live_bytes, KEPT * sizeof(struct trp_order_entry));
    fill(MILLION);
    for (uint64_t i = MILLION; i > 0; i--) {
        assert_last_is(i - 1);
    }
    cr_assert_leq(alloc.live_bytes, KEPT * sizeof(struct trp_order_entry));
}

Test(queue_fifo, what_was_reserved_needs_no_memory_until_the_next_take)
{
    for (uint64_t i = 0; i < 5; i++) {
        cr_assert(push_last(i));
    }
    cr_assert(trp_fifo_reserve(&fifo, 1000));
    alloc.fail_above = 1;
    for (uint64_t i = 0; i < 500; i++) {
        cr_assert(push_first(100 + i));
        cr_assert(push_last(1000 + i));
    }
    alloc.fail_above = 0;
    cr_assert_eq(trp_fifo_length(&fifo), 1005);
    cr_assert_not(trp_fifo_reserve(&fifo, UINT32_MAX));
    cr_assert_eq(trp_fifo_length(&fifo), 1005);
}
