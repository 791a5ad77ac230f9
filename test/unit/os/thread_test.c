/* SPDX-License-Identifier: MIT */
#include "os/thread.h"

#include "support/await.h"
#include "support/census.h"

#include <criterion/criterion.h>

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>

static _Atomic uint64_t may_end;

static bool
is_true(void *user)
{
    return *(_Atomic uint64_t *)user != 0;
}

static void *
remember_user(void *user)
{
    *(int *)user = 42;
    return NULL;
}

Test(os_thread, a_thread_runs_its_function_with_its_argument)
{
    pthread_t thread;
    int here = 0;

    cr_assert(trp_thread_start(&thread, "t", 1 << 20, remember_user, &here));
    trp_thread_join(thread);
    cr_assert_eq(here, 42);
}

static void *
wait_for_end(void *user)
{
    (void)test_await(is_true, &may_end);
    return user;
}

static void
expect_name(const char *given, const char *found)
{
    pthread_t thread;
    char name[32];

    may_end = 0;
    cr_assert(trp_thread_start(&thread, given, 1 << 20, wait_for_end, NULL));
    cr_assert_eq(pthread_getname_np(thread, name, sizeof name), 0);
    may_end = 1;
    trp_thread_join(thread);
    cr_assert_str_eq(name, found);
}

Test(os_thread, it_has_the_given_name)
{
    expect_name("demo/w3", "demo/w3");
}

Test(os_thread, a_long_name_is_cut_to_15_characters)
{
    expect_name("0123456789abcdefgh", "0123456789abcde");
}

static sigset_t mask_inside;

static void *
read_mask(void *user)
{
    (void)pthread_sigmask(SIG_BLOCK, NULL, &mask_inside);
    return user;
}

Test(os_thread, signals_are_blocked_inside_and_unchanged_outside)
{
    sigset_t before;
    sigset_t after;
    sigset_t mine;
    pthread_t thread;

    sigemptyset(&mine);
    sigaddset(&mine, SIGUSR2);
    cr_assert_eq(pthread_sigmask(SIG_BLOCK, &mine, NULL), 0);
    cr_assert_eq(pthread_sigmask(SIG_BLOCK, NULL, &before), 0);
    cr_assert(trp_thread_start(&thread, "t", 1 << 20, read_mask, NULL));
    cr_assert_eq(pthread_sigmask(SIG_BLOCK, NULL, &after), 0);
    trp_thread_join(thread);
    for (int signal = 1; signal <= SIGRTMAX; signal++) {
        if (signal > 31 && signal < SIGRTMIN) {
            continue; /* the C library's own */
        }
        cr_assert_eq(sigismember(&before, signal), sigismember(&after, signal));
        if (signal != SIGKILL && signal != SIGSTOP) {
            cr_assert(sigismember(&mask_inside, signal), "%d", signal);
        }
    }
}

static size_t stack_inside;

static void *
read_stack(void *user)
{
    pthread_attr_t attributes;

    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        (void)pthread_attr_getstacksize(&attributes, &stack_inside);
        (void)pthread_attr_destroy(&attributes);
    }
    return user;
}

Test(os_thread, it_has_at_least_the_stack_that_was_asked_for)
{
    static const size_t sizes[] = {0, 1, 100001, 1 << 20, 8 << 20};

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        pthread_t thread;

        stack_inside = 0;
        cr_assert(trp_thread_start(&thread, "t", sizes[i], read_stack, NULL));
        trp_thread_join(thread);
        cr_assert_geq(stack_inside, sizes[i]);
        cr_assert_gt(stack_inside, 0);
    }
}

Test(os_thread, a_thread_that_cannot_be_started_is_reported_with_errno)
{
    struct test_census before = test_census();
    pthread_t thread;
    sigset_t mask;

    errno = 0;
    cr_assert_not(
        trp_thread_start(&thread, "t", (size_t)1 << 60, remember_user, NULL));
    cr_assert_neq(errno, 0);
    cr_assert(test_census_is(before));
    cr_assert_eq(pthread_sigmask(SIG_BLOCK, NULL, &mask), 0);
    cr_assert_not(sigismember(&mask, SIGTERM));
}
