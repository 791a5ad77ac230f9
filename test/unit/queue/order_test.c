/* SPDX-License-Identifier: MIT */
#include "queue/order.h"

#include "support/alloc.h"
#include "support/require.h"
#include "support/seed.h"

#include <criterion/criterion.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MILLION 1000000u
#define MOST 400u /* entries of a random run: four doublings above 64 */
#define KEPT 64u  /* an array of so many stays, empty or not */

static struct test_alloc alloc;
static struct trp_heap heap;
static struct trp_order order;
static uint64_t sequence;

static void
setup(void)
{
    trp_heap_init(&heap, test_alloc, test_free, &alloc);
    trp_order_init(&order, &heap);
}

static void
teardown(void)
{
    trp_order_fini(&order);
    test_require(test_alloc_is_empty(&alloc));
}

TestSuite(queue_order, .init = setup, .fini = teardown);

/* Everything in it tells which one it is. */
static struct trp_order_entry
entry_of(double rank, uint64_t number)
{
    struct trp_order_entry entry = {rank, number,
        {number + 1, number ^ UINT64_MAX, {number * 3, number * 5}}};

    return entry;
}

static bool
is_same(const struct trp_order_entry *a, const struct trp_order_entry *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static void
push(double rank)
{
    struct trp_order_entry entry = entry_of(rank, sequence++);

    cr_assert(trp_order_push(&order, &entry));
}

static uint64_t
first(void)
{
    struct trp_order_entry entry;
    struct trp_order_entry shown;

    cr_assert_not_null(trp_order_first(&order));
    shown = *trp_order_first(&order);
    cr_assert(trp_order_take_first(&order, &entry));
    cr_assert(is_same(&entry, &shown));
    return entry.sequence;
}

static uint64_t
last(void)
{
    struct trp_order_entry entry;
    struct trp_order_entry shown;

    cr_assert_not_null(trp_order_last(&order));
    shown = *trp_order_last(&order);
    cr_assert(trp_order_take_last(&order, &entry));
    cr_assert(is_same(&entry, &shown));
    return entry.sequence;
}

Test(queue_order, a_new_one_is_empty_and_has_no_memory)
{
    struct trp_order_entry entry = entry_of(1.0, 7);
    struct trp_order_entry before = entry;

    cr_assert_eq(trp_order_length(&order), 0);
    cr_assert_null(trp_order_first(&order));
    cr_assert_null(trp_order_last(&order));
    cr_assert_not(trp_order_take_first(&order, &entry));
    cr_assert_not(trp_order_take_last(&order, &entry));
    cr_assert(is_same(&entry, &before));
    cr_assert_eq(alloc.requests, 0);
}

Test(queue_order, the_only_entry_is_first_and_last)
{
    push(4.0);
    cr_assert_eq(trp_order_first(&order), trp_order_last(&order));
    cr_assert_eq(first(), 0);
    push(4.0);
    cr_assert_eq(last(), 1);
    cr_assert_eq(trp_order_length(&order), 0);
}

Test(queue_order, equal_ranks_are_first_in_first_out)
{
    for (int i = 0; i < 100; i++) {
        push(1.5);
    }
    for (uint64_t i = 0; i < 50; i++) {
        cr_assert_eq(first(), i);
        cr_assert_eq(last(), 99 - i);
    }
}

Test(queue_order, infinities_lie_outside_of_numbers_and_nan_is_last)
{
    static const double ranks[] = {
        NAN, INFINITY, 1e308, 5e-324, 0.0, -5e-324, -1e308, -INFINITY};

    for (size_t i = 0; i < TRP_COUNT_OF(ranks); i++) {
        push(ranks[i]);
    }
    for (uint64_t i = TRP_COUNT_OF(ranks); i > 0; i--) {
        cr_assert_eq(first(), i - 1);
    }
}

Test(queue_order, both_zeros_are_one_rank)
{
    push(0.0);
    push(-0.0);
    push(0.0);
    push(-0.0);
    for (uint64_t i = 0; i < 4; i++) {
        cr_assert_eq(first(), i);
    }
}

Test(queue_order, every_nan_is_one_rank)
{
    static const uint64_t bits[] = {UINT64_C(0xffffffffffffffff),
        UINT64_C(0x7ff8000000000000), UINT64_C(0xfff0000000000001),
        UINT64_C(0x7fffffffffffffff), UINT64_C(0x7ff0000000000001)};

    for (size_t i = 0; i < TRP_COUNT_OF(bits); i++) {
        double rank;

        memcpy(&rank, &bits[i], sizeof rank);
        push(rank);
    }
    push(INFINITY);
    cr_assert_eq(first(), TRP_COUNT_OF(bits));
    for (uint64_t i = 0; i < TRP_COUNT_OF(bits); i++) {
        cr_assert_eq(first(), i);
    }
}

Test(queue_order, a_rank_comes_back_bit_by_bit)
{
    struct trp_order_entry in = entry_of(-0.0, 1);
    struct trp_order_entry out;

    cr_assert(trp_order_push(&order, &in));
    cr_assert(trp_order_take_first(&order, &out));
    cr_assert(is_same(&in, &out));
}

/* --- against a sorted array ----------------------------------------------- */

static struct trp_order_entry reference[MOST];
static uint32_t reference_length;

/* The order of the header in other words. */
static int
compare(const struct trp_order_entry *a, const struct trp_order_entry *b)
{
    if (isnan(a->rank) != isnan(b->rank)) {
        return isnan(a->rank) ? 1 : -1;
    }
    if (!isnan(a->rank) && a->rank < b->rank) {
        return -1;
    }
    if (!isnan(a->rank) && a->rank > b->rank) {
        return 1;
    }
    return a->sequence < b->sequence ? -1 : a->sequence > b->sequence;
}

static void
reference_push(const struct trp_order_entry *entry)
{
    uint32_t at = reference_length++;

    for (; at > 0 && compare(entry, &reference[at - 1]) < 0; at--) {
        reference[at] = reference[at - 1];
    }
    reference[at] = *entry;
}

static void
reference_take(bool from_first, struct trp_order_entry *out)
{
    *out = reference[from_first ? 0 : reference_length - 1];
    reference_length--;
    if (from_first) {
        memmove(reference, reference + 1, reference_length * sizeof *out);
    }
}

/* O1 to O4. */
static void
assert_valid(void)
{
    cr_assert_leq(order.length, order.capacity);
    cr_assert_eq(order.slots == NULL, order.capacity == 0);
    cr_assert(order.capacity <= KEPT || order.length > order.capacity / 4);
    for (uint32_t i = 2; i <= order.length; i++) {
        for (uint32_t up = i / 2; up > 0; up /= 2) {
            bool on_max_level = ((31 - __builtin_clz(up)) & 1) != 0;
            int sign = compare(&order.slots[up], &order.slots[i]);

            cr_assert_eq(sign, on_max_level ? 1 : -1);
        }
    }
}

static void
assert_like_reference(void)
{
    cr_assert_eq(trp_order_length(&order), reference_length);
    if (reference_length == 0) {
        cr_assert_null(trp_order_first(&order));
        cr_assert_null(trp_order_last(&order));
        return;
    }
    cr_assert(is_same(trp_order_first(&order), &reference[0]));
    cr_assert(
        is_same(trp_order_last(&order), &reference[reference_length - 1]));
}

static double
random_rank(struct test_rng *rng)
{
    static const double special[] = {
        NAN, -NAN, INFINITY, -INFINITY, 0.0, -0.0, 5e-324, -5e-324};
    uint64_t bits = test_random(rng);
    double rank;

    switch (test_random_below(rng, 4)) {
    case 0:
        return special[test_random_below(rng, TRP_COUNT_OF(special))];
    case 1:
        return (double)test_random_below(rng, 4) - 2.0;
    case 2:
        return (double)(int64_t)bits;
    default:
        memcpy(&rank, &bits, sizeof rank);
        return rank;
    }
}

/* False: no memory, and nothing changed. */
static bool
push_random(struct test_rng *rng)
{
    struct trp_order_entry entry = entry_of(random_rank(rng), sequence++);
    bool pushed = trp_order_push(&order, &entry);

    if (pushed) {
        reference_push(&entry);
    }
    return pushed;
}

static void
take_random(struct test_rng *rng)
{
    bool from_first = test_random_below(rng, 2) == 0;
    struct trp_order_entry out;
    struct trp_order_entry wanted;

    if (reference_length == 0) {
        cr_assert_not(trp_order_take_first(&order, &out));
        cr_assert_not(trp_order_take_last(&order, &out));
        return;
    }
    reference_take(from_first, &wanted);
    cr_assert(from_first ? trp_order_take_first(&order, &out)
                         : trp_order_take_last(&order, &out));
    cr_assert(is_same(&out, &wanted));
}

/* Waves: it fills up to a random depth, then it empties to another one. */
static void
run_waves(struct test_rng *rng, uint32_t waves, bool deep_check)
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
        if (deep_check) {
            assert_valid();
        }
        while (reference_length > lower) {
            if (test_random_below(rng, 4) == 0 && reference_length < MOST) {
                (void)push_random(rng);
            } else {
                take_random(rng);
            }
            assert_like_reference();
        }
        if (deep_check) {
            assert_valid();
        }
    }
}

Test(queue_order, it_does_what_a_sorted_array_does)
{
    struct test_rng seeds = {test_seed()};

    for (int i = 0; i < 200; i++) {
        struct test_rng rng = {test_random(&seeds)};

        run_waves(&rng, 5, true);
    }
}

/* Every step checked in full, at every small length. */
Test(queue_order, every_small_length_keeps_the_invariants)
{
    struct test_rng rng = {test_seed()};

    for (uint32_t depth = 1; depth < 70; depth++) {
        while (reference_length < depth) {
            cr_assert(push_random(&rng));
            assert_valid();
        }
        while (reference_length > 0) {
            take_random(&rng);
            assert_valid();
            assert_like_reference();
        }
    }
}

/* --- memory --------------------------------------------------------------- */

Test(queue_order, a_failing_allocation_changes_nothing)
{
    uint64_t state = test_seed();
    uint64_t nth = 0;
    bool reached;

    do {
        struct test_rng rng = {state};
        uint64_t before = alloc.requests;

        sequence = 0;
        alloc.fail_at = before + ++nth;
        run_waves(&rng, 6, false);
        reached = alloc.requests >= alloc.fail_at;
        alloc.fail_at = 0;
        trp_order_fini(&order);
        cr_assert(test_alloc_is_empty(&alloc));
    } while (reached);
    cr_assert_gt(nth, 10);
}

Test(queue_order, a_push_without_memory_keeps_all_entries)
{
    struct test_rng rng = {test_seed()};

    alloc.fail_at = 1;
    cr_assert_not(push_random(&rng));
    assert_like_reference();
    alloc.fail_above = 65 * sizeof(struct trp_order_entry);
    while (push_random(&rng)) {
    }
    cr_assert_eq(reference_length, 64);
    cr_assert_not(push_random(&rng));
    assert_valid();
    while (reference_length > 0) {
        take_random(&rng);
        assert_like_reference();
    }
}

Test(queue_order, memory_is_asked_for_at_the_first_push_and_when_full)
{
    for (uint32_t i = 0; i < 65; i++) {
        push(1.0);
        cr_assert_eq(alloc.live_blocks, 1);
        cr_assert_eq(order.capacity, i < 8    ? 8
                                     : i < 16 ? 16
                                     : i < 32 ? 32
                                     : i < 64 ? 64
                                              : 128);
    }
    cr_assert_eq(alloc.requests, 5);
}

Test(queue_order, a_small_array_is_kept_when_empty)
{
    for (int round = 0; round < 10; round++) {
        for (uint32_t i = 0; i < KEPT; i++) {
            push(1.0);
        }
        while (trp_order_length(&order) > 0) {
            (void)first();
        }
    }
    cr_assert_eq(alloc.requests, 4);
    cr_assert_eq(order.capacity, KEPT);
}

Test(queue_order, an_array_that_is_a_quarter_full_is_halved)
{
    for (uint32_t i = 0; i < 1024; i++) {
        push((double)i);
    }
    while (trp_order_length(&order) > 257) {
        (void)first();
    }
    cr_assert_eq(order.capacity, 1024);
    (void)last();
    cr_assert_eq(order.capacity, 512);
    assert_valid();
    while (trp_order_length(&order) > 0) {
        (void)last();
        assert_valid();
    }
    cr_assert_eq(order.capacity, KEPT);
}

Test(queue_order, without_memory_to_shrink_it_keeps_the_large_array)
{
    for (uint32_t i = 0; i < 1024; i++) {
        push((double)i);
    }
    alloc.fail_above = 1;
    for (uint64_t i = 0; i < 1000; i++) {
        cr_assert_eq(first(), i);
    }
    cr_assert_eq(order.capacity, 1024);
    alloc.fail_above = 0;
    cr_assert_eq(first(), 1000);
    cr_assert_eq(order.capacity, KEPT, "one step once there is memory again");
    for (uint64_t i = 1001; i < 1024; i++) {
        cr_assert_eq(first(), i);
    }
}

Test(queue_order, a_large_array_is_freed_when_empty)
{
    for (uint32_t i = 0; i < 1024; i++) {
        push((double)i);
    }
    alloc.fail_above = 1;
    while (trp_order_length(&order) > 0) {
        (void)first();
    }
    cr_assert(test_alloc_is_empty(&alloc));
    cr_assert_eq(order.capacity, 0);
    alloc.fail_above = 0;
    push(1.0);
    cr_assert_eq(order.capacity, 8);
}

Test(queue_order, ending_it_frees_what_is_queued)
{
    for (uint32_t i = 0; i < 1000; i++) {
        push((double)i);
    }
    trp_order_fini(&order);
    cr_assert(test_alloc_is_empty(&alloc));
    cr_assert_eq(trp_order_length(&order), 0);
    push(1.0);
    cr_assert_eq(first(), 1000);
}

Test(queue_order, ending_a_zeroed_one_does_nothing)
{
    struct trp_order zeroed = {0};

    trp_order_fini(&zeroed);
}

/* --- a million ------------------------------------------------------------ */

/* Few enough ranks for long runs of equal ones. */
static void
push_a_million(void)
{
    struct test_rng rng = {test_seed()};

    for (uint32_t i = 0; i < MILLION; i++) {
        push((double)test_random_below(&rng, 100000));
    }
    cr_assert_eq(trp_order_length(&order), MILLION);
}

Test(queue_order, a_million_come_out_in_order)
{
    struct trp_order_entry entry;
    struct trp_order_entry before;

    push_a_million();
    cr_assert(trp_order_take_first(&order, &before));
    for (uint32_t i = 1; i < MILLION; i++) {
        cr_assert(trp_order_take_first(&order, &entry));
        if (compare(&before, &entry) >= 0) {
            cr_assert_fail("entry %u is out of order", i);
        }
        before = entry;
    }
    cr_assert_leq(alloc.live_bytes, (KEPT + 1) * sizeof entry);
}

Test(queue_order, a_million_come_out_in_order_from_the_other_end)
{
    struct trp_order_entry entry;
    struct trp_order_entry before;

    push_a_million();
    cr_assert(trp_order_take_last(&order, &before));
    for (uint32_t i = 1; i < MILLION; i++) {
        cr_assert(trp_order_take_last(&order, &entry));
        if (compare(&before, &entry) <= 0) {
            cr_assert_fail("entry %u is out of order", i);
        }
        before = entry;
    }
    cr_assert_leq(alloc.live_bytes, (KEPT + 1) * sizeof entry);
}

Test(queue_order, both_ends_of_a_million_meet_in_the_middle)
{
    struct trp_order_entry low;
    struct trp_order_entry high;
    struct trp_order_entry low_before = entry_of(-INFINITY, 0);
    struct trp_order_entry high_before = entry_of(NAN, UINT64_MAX);

    push_a_million();
    for (uint32_t i = 0; i < MILLION / 2; i++) {
        cr_assert(trp_order_take_first(&order, &low));
        cr_assert(trp_order_take_last(&order, &high));
        if (compare(&low_before, &low) >= 0 || compare(&low, &high) >= 0 ||
            compare(&high, &high_before) >= 0) {
            cr_assert_fail("pair %u is out of order", i);
        }
        low_before = low;
        high_before = high;
    }
    cr_assert_eq(trp_order_length(&order), 0);
}
