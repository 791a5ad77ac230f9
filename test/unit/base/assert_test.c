/* SPDX-License-Identifier: MIT */
#include "base/assert.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>

#include <signal.h>

static void
redirect(void)
{
    cr_redirect_stderr();
}

Test(base_assert, check_of_what_holds_does_nothing)
{
    int calls = 0;

    TRP_CHECK(++calls == 1);
    cr_assert_eq(calls, 1);
}

Test(base_assert, check_of_what_does_not_hold_aborts, .init = redirect,
    .signal = SIGABRT)
{
    TRP_CHECK(1 + 1 == 3);
}

Test(base_assert, panic_aborts, .init = redirect, .signal = SIGABRT)
{
    trp_panic("file.c", 7, "the world ends");
}

#ifndef TRP_CHECKS
Test(base_assert, assert_costs_nothing_without_checks)
{
    int calls = 0;

    TRP_ASSERT(++calls == 7);
    cr_assert_eq(calls, 0);
}
#else
Test(
    base_assert, assert_aborts_with_checks, .init = redirect, .signal = SIGABRT)
{
    TRP_ASSERT(1 + 1 == 3);
}
#endif
