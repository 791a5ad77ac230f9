/* SPDX-License-Identifier: MIT */
#include "pattern/breaker.h"

#include <troupe/system.h>

#include <criterion/criterion.h>

/* What a breaker counts; how it behaves is in test/contract. */

static bool
all_but_404(troupe_status status, int32_t code, void *user)
{
    (void)status;
    (void)user;
    return code != 404;
}

static void
call(troupe_breaker *breaker, troupe_status status, int32_t code)
{
    troupe_permit permit;

    cr_assert_eq(troupe_breaker_enter(breaker, &permit), TROUPE_OK);
    troupe_breaker_leave(breaker, permit, status, code);
}

Test(pattern_breaker, each_call_and_each_change_is_counted_once)
{
    troupe_system_options how = {.size = TROUPE_OPTIONS(troupe_system_options),
        .flags = TROUPE_SYSTEM_IGNORE_ENV | TROUPE_SYSTEM_DRIVEN};
    troupe_breaker_options options = {
        .size = TROUPE_OPTIONS(troupe_breaker_options),
        .name = "bank",
        .max_failures = 2,
        .reset_ns = TROUPE_RESET_AT_ONCE,
        .counts = all_but_404};
    struct trp_breaker_counts counts;
    troupe_permit late, probe;
    troupe_breaker *breaker;
    troupe_system *system;

    cr_assert_eq(troupe_system_create(&how, &system), TROUPE_OK);
    cr_assert_eq(troupe_breaker_create(system, &options, &breaker), TROUPE_OK);
    cr_assert_str_eq(trp_breaker_name(breaker), "bank");
    cr_assert_eq(troupe_breaker_enter(breaker, &late), TROUPE_OK);
    call(breaker, TROUPE_OK, 0);
    call(breaker, TROUPE_E_FAILED, 404);
    call(breaker, TROUPE_E_FAILED, 1);
    call(breaker, TROUPE_E_FAILED, 1); /* opens */
    cr_assert_eq(troupe_breaker_enter(breaker, &probe), TROUPE_OK);
    for (int i = 0; i < 5; i++) {
        cr_assert_eq(troupe_breaker_enter(breaker, &late), TROUPE_E_OPEN);
    }
    troupe_breaker_leave(breaker, late, TROUPE_OK, 0);
    troupe_breaker_leave(breaker, late, TROUPE_E_FAILED, 1);
    troupe_breaker_leave(breaker, probe, TROUPE_OK, 0); /* closes */
    trp_breaker_read(breaker, &counts);
    cr_assert_eq(counts.succeeded, 2);
    cr_assert_eq(counts.failed, 2);
    cr_assert_eq(counts.uncounted, 1);
    cr_assert_eq(counts.late, 2);
    cr_assert_eq(counts.refused, 5);
    cr_assert_eq(counts.changes[TROUPE_BREAKER_CLOSED], 1);
    cr_assert_eq(counts.changes[TROUPE_BREAKER_OPEN], 1);
    cr_assert_eq(counts.changes[TROUPE_BREAKER_HALF_OPEN], 1);
    troupe_breaker_destroy(breaker);
    cr_assert_eq(troupe_system_destroy(system), TROUPE_OK);
}
