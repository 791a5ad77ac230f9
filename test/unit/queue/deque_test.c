/* SPDX-License-Identifier: MIT */
#include "queue/deque.h"

#include "support/alloc.h"
#include "support/await.h"
#include "support/require.h"

#include <criterion/criterion.h>

#include <pthread.h>
#include <stdatomic.h>

#define MANY 5000

static struct test_alloc alloc;
static struct trp_heap heap;
static struct trp_deque deque;
static uint32_t items[MANY];

static void
setup(void)
{
    trp_heap_init(&heap, test_alloc, test_free, &alloc);
    cr_assert(trp_deque_init(&deque, &heap));
}

static void
teardown(void)
{
    trp_deque_fini(&deque);
    test_require(test_alloc_is_empty(&alloc));
}

TestSuite(queue_deque, .init = setup, .fini = teardown);

static void
push(uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        cr_assert(trp_deque_push(&deque, &items[i]));
    }
}

Test(queue_deque, a_new_one_is_empty)
{
    cr_assert_null(trp_deque_pop(&deque));
    cr_assert_null(trp_deque_steal(&deque));
    cr_assert_eq(trp_deque_length(&deque), 0);
}

Test(queue_deque, pop_takes_the_newest)
{
    push(0, 3);
    cr_assert_eq(trp_deque_pop(&deque), &items[2]);
    cr_assert_eq(trp_deque_pop(&deque), &items[1]);
    cr_assert_eq(trp_deque_pop(&deque), &items[0]);
    cr_assert_null(trp_deque_pop(&deque));
}

Test(queue_deque, steal_takes_the_oldest)
{
    push(0, 3);
    cr_assert_eq(trp_deque_steal(&deque), &items[0]);
    cr_assert_eq(trp_deque_steal(&deque), &items[1]);
    cr_assert_eq(trp_deque_steal(&deque), &items[2]);
    cr_assert_null(trp_deque_steal(&deque));
}

Test(queue_deque, an_owner_alone_takes_from_both_ends_what_others_would_get)
{
    cr_assert_null(trp_deque_pop_own(&deque));
    cr_assert_null(trp_deque_shift_own(&deque));
    push(0, 4);
    cr_assert_eq(trp_deque_pop_own(&deque), &items[3]);
    cr_assert_eq(trp_deque_shift_own(&deque), &items[0]);
    cr_assert_eq(trp_deque_length(&deque), 2);
    cr_assert_eq(trp_deque_shift_own(&deque), &items[1]);
    cr_assert_eq(trp_deque_pop_own(&deque), &items[2]);
    cr_assert_null(trp_deque_pop_own(&deque));
    cr_assert_null(trp_deque_shift_own(&deque));
    cr_assert_eq(trp_deque_length(&deque), 0);
}

Test(queue_deque, an_owner_alone_grows_it_after_it_has_gone_round)
{
    uint32_t oldest = 0;

    push(0, 200);
    for (; oldest < 150; oldest++) {
        cr_assert_eq(trp_deque_shift_own(&deque), &items[oldest]);
    }
    push(200, MANY);
    for (uint32_t i = MANY; i > MANY / 2; i--) {
        cr_assert_eq(trp_deque_pop_own(&deque), &items[i - 1]);
    }
    for (; oldest < MANY / 2; oldest++) {
        cr_assert_eq(trp_deque_shift_own(&deque), &items[oldest]);
    }
    cr_assert_null(trp_deque_shift_own(&deque));
}

Test(queue_deque, the_last_entry_goes_to_one_side_only)
{
    push(0, 1);
    cr_assert_eq(trp_deque_pop(&deque), &items[0]);
    cr_assert_null(trp_deque_steal(&deque));
    push(1, 2);
    cr_assert_eq(trp_deque_steal(&deque), &items[1]);
    cr_assert_null(trp_deque_pop(&deque));
}

Test(queue_deque, length_counts_what_waits)
{
    push(0, 10);
    cr_assert_eq(trp_deque_length(&deque), 10);
    (void)trp_deque_pop(&deque);
    (void)trp_deque_steal(&deque);
    cr_assert_eq(trp_deque_length(&deque), 8);
}

Test(queue_deque, it_grows_and_keeps_both_orders)
{
    push(0, MANY);
    cr_assert_eq(trp_deque_length(&deque), MANY);
    for (uint32_t i = 0; i < MANY / 2; i++) {
        cr_assert_eq(trp_deque_steal(&deque), &items[i]);
        cr_assert_eq(trp_deque_pop(&deque), &items[MANY - 1 - i]);
    }
    cr_assert_null(trp_deque_pop(&deque));
}

Test(queue_deque, it_grows_in_the_middle_of_a_lap)
{
    /* The ring has been gone round a bit, so entries wrap when it grows. */
    for (uint32_t i = 0; i < 200; i++) {
        push(i, i + 1);
        (void)trp_deque_steal(&deque);
    }
    push(0, 1000);
    for (uint32_t i = 0; i < 1000; i++) {
        cr_assert_eq(trp_deque_steal(&deque), &items[i]);
    }
}

Test(queue_deque, a_short_queue_goes_round_for_ever_without_growing)
{
    uint64_t requests = alloc.requests;

    push(0, 7);
    for (uint32_t i = 0; i < 100000; i++) {
        push((i + 7) % MANY, (i + 7) % MANY + 1);
        cr_assert_eq(trp_deque_steal(&deque), &items[i % MANY]);
    }
    cr_assert_eq(alloc.requests, requests);
}

Test(queue_deque, without_memory_nothing_changes)
{
    uint32_t held = 0;

    alloc.fail_above = alloc.live_bytes;
    while (trp_deque_push(&deque, &items[held])) {
        held++;
    }
    cr_assert_eq(trp_deque_length(&deque), held);
    cr_assert_not(trp_deque_push(&deque, &items[held]));
    cr_assert_eq(trp_deque_steal(&deque), &items[0]);
    cr_assert_eq(trp_deque_pop(&deque), &items[held - 1]);
    alloc.fail_above = 0;
    push(held - 1, held + 5);
    for (uint32_t i = 1; i < held + 5; i++) {
        cr_assert_eq(trp_deque_steal(&deque), &items[i]);
    }
}

Test(queue_deque, init_without_memory_fails_and_can_be_ended)
{
    struct trp_deque other = {0};

    alloc.fail_at = alloc.requests + 1;
    cr_assert_not(trp_deque_init(&other, &heap));
    trp_deque_fini(&other);
}

Test(queue_deque, ending_a_zeroed_one_does_nothing)
{
    struct trp_deque zeroed = {0};

    trp_deque_fini(&zeroed);
}

/* --- real threads --------------------------------------------------------- */

#define THIEVES 3
#define JOBS 300000u

static _Atomic uint8_t taken[JOBS];
static _Atomic uint64_t total;
static _Atomic uint32_t owner_is_done;

static void
take(void *item)
{
    if (item != NULL) {
        atomic_fetch_add(&taken[(uintptr_t)item - 1], 1);
        atomic_fetch_add(&total, 1);
    }
}

static void *
thief(void *user)
{
    while (atomic_load(&owner_is_done) == 0 || trp_deque_length(&deque) != 0) {
        take(trp_deque_steal(&deque));
    }
    return user;
}

/* Bursts that make it grow while thieves hold on to the old arrays. */
static void
own(void)
{
    uint32_t next = 0;

    for (uint32_t burst = 1; next < JOBS; burst = burst % 700 + 1) {
        for (uint32_t i = 0; i < burst && next < JOBS; i++) {
            cr_assert(trp_deque_push(&deque, (void *)(uintptr_t)++next));
        }
        for (uint32_t i = 0; i < burst / 2; i++) {
            take(trp_deque_pop(&deque));
        }
    }
    for (void *item = trp_deque_pop(&deque); item != NULL;
         item = trp_deque_pop(&deque)) {
        take(item);
    }
}

Test(queue_deque, owner_and_thieves_take_everything_exactly_once)
{
    pthread_t threads[THIEVES];

    for (int i = 0; i < THIEVES; i++) {
        cr_assert_eq(pthread_create(&threads[i], NULL, thief, NULL), 0);
    }
    own();
    atomic_store(&owner_is_done, 1);
    for (int i = 0; i < THIEVES; i++) {
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
    }
    cr_assert_eq(total, JOBS);
    for (uint32_t i = 0; i < JOBS; i++) {
        cr_assert_eq(taken[i], 1, "job %u was taken %u times", i, taken[i]);
    }
}
