/* SPDX-License-Identifier: MIT */
#include "os/notify.h"

#include "support/await.h"
#include "support/census.h"

#include <criterion/criterion.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>

static struct trp_notify notify;

static bool
is_readable(void)
{
    return test_is_readable(trp_notify_fd(&notify));
}

Test(os_notify, zeroed_is_not_open)
{
    cr_assert_eq(trp_notify_fd(&notify), -1);
    trp_notify_close(&notify);
    cr_assert_eq(trp_notify_fd(&notify), -1);
}

Test(os_notify, it_is_readable_while_it_holds_a_token)
{
    cr_assert(trp_notify_open(&notify));
    cr_assert_not(is_readable());
    trp_notify_raise(&notify);
    cr_assert(is_readable());
    cr_assert(is_readable());
    cr_assert(trp_notify_clear(&notify));
    cr_assert_not(is_readable());
    trp_notify_close(&notify);
}

Test(os_notify, clearing_takes_all_tokens)
{
    cr_assert(trp_notify_open(&notify));
    for (int i = 0; i < 1000; i++) {
        trp_notify_raise(&notify);
    }
    cr_assert(trp_notify_clear(&notify));
    cr_assert_not(trp_notify_clear(&notify));
    cr_assert_not(is_readable());
    trp_notify_close(&notify);
}

Test(os_notify, the_descriptor_is_not_inherited_and_does_not_block)
{
    int fd;

    cr_assert(trp_notify_open(&notify));
    fd = trp_notify_fd(&notify);
    cr_assert_eq(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    cr_assert_eq(fcntl(fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    trp_notify_close(&notify);
}

Test(os_notify, closing_gives_the_descriptor_back)
{
    struct test_census before = test_census();

    cr_assert(trp_notify_open(&notify));
    trp_notify_close(&notify);
    trp_notify_close(&notify);
    cr_assert(test_census_is(before));
}

Test(os_notify, no_descriptor_left_is_reported_with_errno)
{
    struct rlimit limit;
    struct rlimit none = {0, 0};

    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none.rlim_max = limit.rlim_max;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    cr_assert_not(trp_notify_open(&notify));
    cr_assert_eq(errno, EMFILE);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    cr_assert_eq(trp_notify_fd(&notify), -1);
}

static void *
raise_many(void *user)
{
    (void)user;
    for (int i = 0; i < 10000; i++) {
        trp_notify_raise(&notify);
    }
    return NULL;
}

Test(os_notify, any_thread_may_raise)
{
    pthread_t threads[4];

    cr_assert(trp_notify_open(&notify));
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(pthread_create(&threads[i], NULL, raise_many, NULL), 0);
    }
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
    }
    cr_assert(is_readable());
    trp_notify_close(&notify);
}
