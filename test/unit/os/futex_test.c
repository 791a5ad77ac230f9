/* SPDX-License-Identifier: MIT */
#include "os/futex.h"

#include "base/clock.h"
#include "support/await.h"

#include <criterion/criterion.h>

#include <pthread.h>

Test(os_futex, a_word_with_another_value_is_not_waited_for)
{
    static TRP_ATOMIC(uint32_t) word;

    trp_store_relaxed(&word, 1);
    cr_assert(trp_futex_wait(&word, 0, TRP_FUTEX_FOREVER));
}

Test(os_futex, the_deadline_ends_a_wait)
{
    static TRP_ATOMIC(uint32_t) word;
    uint64_t deadline = trp_clock_ns() + 5000000;

    while (trp_futex_wait(&word, 0, deadline)) {
    }
    cr_assert_geq(trp_clock_ns(), deadline);
}

Test(os_futex, a_deadline_in_the_past_does_not_wait)
{
    static TRP_ATOMIC(uint32_t) word;

    cr_assert_not(trp_futex_wait(&word, 0, 1));
}

static TRP_ATOMIC(uint32_t) shared;
static _Atomic uint64_t waiting;
static _Atomic uint64_t through;

static void *
wait_for_change(void *user)
{
    (void)user;
    waiting++;
    while (trp_load_acquire(&shared) == 0) {
        trp_futex_wait(&shared, 0, TRP_FUTEX_FOREVER);
    }
    through++;
    return NULL;
}

Test(os_futex, a_wake_after_the_change_lets_the_sleeper_go)
{
    for (int round = 0; round < 200; round++) {
        pthread_t thread;

        trp_store_relaxed(&shared, 0);
        cr_assert_eq(pthread_create(&thread, NULL, wait_for_change, NULL), 0);
        if (round % 2 == 0) {
            cr_assert(test_await_at_least(&waiting, (uint64_t)round + 1));
        }
        trp_store_release(&shared, 1);
        trp_futex_wake(&shared, 1);
        cr_assert_eq(pthread_join(thread, NULL), 0);
    }
    cr_assert_eq(through, 200);
}

Test(os_futex, all_sleepers_can_be_woken_at_once)
{
    pthread_t threads[8];

    for (int i = 0; i < 8; i++) {
        cr_assert_eq(
            pthread_create(&threads[i], NULL, wait_for_change, NULL), 0);
    }
    cr_assert(test_await_at_least(&waiting, 8));
    trp_store_release(&shared, 1);
    trp_futex_wake(&shared, UINT32_MAX >> 1);
    for (int i = 0; i < 8; i++) {
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
    }
    cr_assert_eq(through, 8);
}

Test(os_futex, a_wake_that_nobody_waits_for_is_no_failure)
{
    static TRP_ATOMIC(uint32_t) word;

    trp_futex_wake(&word, 1);
    cr_assert_eq(trp_load_relaxed(&word), 0);
}

static struct trp_lock lock;
static uint64_t guarded;

static void *
add_under_lock(void *user)
{
    (void)user;
    for (int i = 0; i < 100000; i++) {
        trp_lock_acquire(&lock);
        guarded++;
        trp_lock_release(&lock);
    }
    return NULL;
}

Test(os_futex, the_lock_lets_one_in_at_a_time)
{
    pthread_t threads[4];

    for (int i = 0; i < 4; i++) {
        cr_assert_eq(
            pthread_create(&threads[i], NULL, add_under_lock, NULL), 0);
    }
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
    }
    cr_assert_eq(guarded, 400000);
    cr_assert_eq(trp_load_relaxed(&lock.state), 0);
}

Test(os_futex, a_zeroed_lock_is_free)
{
    struct trp_lock fresh = {0};

    trp_lock_acquire(&fresh);
    cr_assert_eq(trp_load_relaxed(&fresh.state), 1);
    trp_lock_release(&fresh);
    cr_assert_eq(trp_load_relaxed(&fresh.state), 0);
}
