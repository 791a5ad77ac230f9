/* SPDX-License-Identifier: MIT */
#include "support/system.h"

#include <criterion/criterion.h>

#include <string.h>

Test(types, none_is_all_zero)
{
    troupe_ref none = TROUPE_NONE;
    troupe_ref zeroed;

    memset(&zeroed, 0, sizeof zeroed);
    cr_assert_eq(memcmp(&none, &zeroed, sizeof none), 0);
    cr_assert(troupe_ref_is_none(zeroed));
}

Test(types, refs_are_equal_when_both_members_are)
{
    troupe_ref a = {1, 2};

    cr_assert(troupe_ref_equal(a, (troupe_ref){1, 2}));
    cr_assert_not(troupe_ref_equal(a, (troupe_ref){1, 3}));
    cr_assert_not(troupe_ref_equal(a, (troupe_ref){2, 2}));
    cr_assert_not(troupe_ref_is_none(a));
}

Test(types, equal_refs_have_equal_keys_and_others_do_not)
{
    cr_assert_eq(
        troupe_ref_key((troupe_ref){1, 2}), troupe_ref_key((troupe_ref){1, 2}));
    cr_assert_neq(
        troupe_ref_key((troupe_ref){1, 2}), troupe_ref_key((troupe_ref){2, 1}));
}

Test(types, durations_are_nanoseconds)
{
    cr_assert_eq(TROUPE_US(3), UINT64_C(3000));
    cr_assert_eq(TROUPE_MS(3), UINT64_C(3000000));
    cr_assert_eq(TROUPE_S(3), UINT64_C(3000000000));
    cr_assert_eq(TROUPE_S(INT32_MAX), UINT64_C(2147483647000000000));
    cr_assert_eq(TROUPE_FOREVER, UINT64_MAX);
}

Test(types, a_ref_is_never_reused)
{
    troupe_system *system = test_open_driven(0);
    troupe_ref first = test_spawn_doer(system, NULL);

    cr_assert_eq(troupe_post_stop(system, first), TROUPE_OK);
    test_run(system);
    for (int i = 0; i < 10000; i++) {
        troupe_ref next = test_spawn_doer(system, NULL);

        cr_assert_not(troupe_ref_equal(first, next));
        cr_assert_eq(troupe_post_stop_now(system, next), TROUPE_OK);
        test_run(system);
    }
    cr_assert_eq(troupe_post(system, first, &test_empty, NULL), TROUPE_E_DEAD);
    test_close(system);
}

Test(types, a_ref_of_another_system_is_dead)
{
    troupe_system_options options = test_options();
    troupe_system *other;
    troupe_system *system;
    struct test_record record = {0};
    troupe_ref ref;

    options.flags |= TROUPE_SYSTEM_DRIVEN;
    system = test_open(&options);
    options.alloc = NULL;
    options.free = NULL;
    other = test_open(&options);
    (void)test_spawn_recorder(other, NULL, &record);
    ref = test_spawn_doer(system, NULL);
    cr_assert_eq(troupe_post(other, ref, &test_empty, NULL), TROUPE_E_DEAD);
    cr_assert_eq(troupe_depth(other, ref), TROUPE_DEPTH_DEAD);
    test_run(other);
    cr_assert_eq(record.count, 0);
    cr_assert_eq(troupe_system_destroy(other), TROUPE_OK);
    test_close(system);
}

Test(types, a_ref_that_was_made_up_is_dead)
{
    static const troupe_ref made_up[] = {{0, 1}, {1, 0}, {UINT32_MAX, 1},
        {1, UINT32_MAX}, {UINT32_MAX, UINT32_MAX}, {123456, 7}};
    troupe_system *system = test_open_driven(0);

    for (size_t i = 0; i < sizeof made_up / sizeof *made_up; i++) {
        char path[16];
        troupe_status status =
            troupe_post(system, made_up[i], &test_empty, NULL);

        cr_assert_eq(status, TROUPE_E_DEAD, "%zu: %d", i, status);
        cr_assert_eq(troupe_depth(system, made_up[i]), TROUPE_DEPTH_DEAD);
        cr_assert_eq(troupe_path(system, made_up[i], path, sizeof path), 0);
        cr_assert_str_eq(path, "");
        cr_assert_eq(troupe_post_stop(system, made_up[i]), TROUPE_OK);
        cr_assert_eq(troupe_post_stop_now(system, made_up[i]), TROUPE_OK);
    }
    test_close(system);
}
