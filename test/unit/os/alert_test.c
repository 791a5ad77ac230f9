/* SPDX-License-Identifier: MIT */
#include "os/alert.h"

#include "base/clock.h"
#include "support/await.h"
#include "support/census.h"

#include <criterion/criterion.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>

static struct trp_alert alert;

static bool
is_readable(void)
{
    return test_is_readable(trp_alert_fd(&alert));
}

static void
await_readable(void)
{
    struct pollfd fd = {.fd = trp_alert_fd(&alert), .events = POLLIN};

    cr_assert_eq(poll(&fd, 1, 60000), 1);
}

Test(os_alert, zeroed_is_not_open)
{
    cr_assert_eq(trp_alert_fd(&alert), -1);
    trp_alert_close(&alert);
    cr_assert_eq(trp_alert_fd(&alert), -1);
}

Test(os_alert, it_is_readable_while_there_is_a_token)
{
    cr_assert(trp_alert_open(&alert));
    cr_assert_not(is_readable());
    trp_notify_raise(&alert.notify);
    cr_assert(is_readable());
    cr_assert(is_readable());
    cr_assert(trp_notify_clear(&alert.notify));
    cr_assert_not(is_readable());
    trp_alert_close(&alert);
}

Test(os_alert, it_is_readable_once_the_time_has_come)
{
    static const uint64_t after_ns[] = {0, 1000, 3000000, 40000000};

    cr_assert(trp_alert_open(&alert));
    for (int i = 0; i < 4; i++) {
        uint64_t due_ns = trp_clock_ns() + after_ns[i];

        trp_alert_arm(&alert, due_ns);
        await_readable();
        cr_assert_geq(trp_clock_ns(), due_ns);
        trp_alert_arm(&alert, due_ns);
        cr_assert(is_readable(), "until it is armed for another time");
        trp_alert_arm(&alert, due_ns + TEST_DEADLINE_NS);
        cr_assert_not(is_readable());
    }
    trp_alert_close(&alert);
}

Test(os_alert, the_beginning_of_time_has_come)
{
    cr_assert(trp_alert_open(&alert));
    trp_alert_arm(&alert, 0);
    await_readable();
    trp_alert_arm(&alert, TRP_ALERT_NEVER);
    cr_assert_not(is_readable());
    trp_alert_close(&alert);
}

Test(os_alert, the_end_of_time_has_not)
{
    cr_assert(trp_alert_open(&alert));
    trp_alert_arm(&alert, TRP_ALERT_NEVER - 1);
    cr_assert_not(is_readable());
    trp_alert_arm(&alert, TRP_ALERT_NEVER / 2);
    cr_assert_not(is_readable());
    trp_alert_close(&alert);
}

Test(os_alert, the_descriptor_is_not_inherited)
{
    cr_assert(trp_alert_open(&alert));
    cr_assert_eq(fcntl(trp_alert_fd(&alert), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    cr_assert_eq(
        fcntl(alert.timer_plus_1 - 1, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    trp_alert_close(&alert);
}

Test(os_alert, closing_gives_the_descriptors_back)
{
    struct test_census before = test_census();

    cr_assert(trp_alert_open(&alert));
    cr_assert_eq(test_census().descriptors, before.descriptors + 3);
    trp_alert_close(&alert);
    trp_alert_close(&alert);
    cr_assert(test_census_is(before));
}

/* The lowest numbers are used first: so many more can be opened. */
static void
open_with_room_for(rlim_t more)
{
    struct rlimit limit, few;
    int next = fcntl(0, F_DUPFD, 0);

    cr_assert_geq(next, 0);
    trp_alert_close(&(struct trp_alert){.fd_plus_1 = next + 1});
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    few = (struct rlimit){(rlim_t)next + more, limit.rlim_max};
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    cr_assert_not(trp_alert_open(&alert));
    cr_assert_eq(errno, EMFILE);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

Test(os_alert, no_descriptor_left_is_reported_with_errno)
{
    struct test_census before = test_census();

    for (rlim_t more = 0; more < 3; more++) {
        open_with_room_for(more);
        cr_assert_eq(trp_alert_fd(&alert), -1);
        trp_alert_close(&alert);
        cr_assert(test_census_is(before));
    }
}
