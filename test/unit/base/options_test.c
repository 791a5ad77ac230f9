/* SPDX-License-Identifier: MIT */
#include "base/options.h"

#include <criterion/criterion.h>

#include <string.h>

/* What an older, the same and a newer header call "options". */
struct older {
    size_t size;
    uint32_t first;
};

struct options {
    size_t size;
    uint32_t first;
    uint32_t second;
    void *third;
};

struct newer {
    struct options known;
    uint64_t fourth;
};

static struct options copy;

static troupe_status
copied(const void *from)
{
    memset(&copy, 0xff, sizeof copy);
    return trp_options_copy(&copy, sizeof copy, from, "troupe_test");
}

Test(base_options, the_same_version_is_copied_whole)
{
    int here;
    struct options from = {sizeof from, 1, 2, &here};

    cr_assert_eq(copied(&from), TROUPE_OK);
    cr_assert_eq(copy.first, 1);
    cr_assert_eq(copy.second, 2);
    cr_assert_eq(copy.third, &here);
}

Test(base_options, members_an_older_header_lacks_are_zero)
{
    struct older from = {offsetof(struct options, second), 7};

    cr_assert_eq(copied(&from), TROUPE_OK);
    cr_assert_eq(copy.first, 7);
    cr_assert_eq(copy.second, 0);
    cr_assert_null(copy.third);
}

Test(base_options, a_newer_header_is_fine_while_it_asks_for_nothing_new)
{
    struct newer from = {{sizeof from, 1, 2, NULL}, 0};

    cr_assert_eq(copied(&from), TROUPE_OK);
    cr_assert_eq(copy.second, 2);
}

Test(base_options, a_newer_header_that_asks_for_something_new_is_refused)
{
    struct newer from = {{sizeof from, 1, 2, NULL}, 1};

    cr_assert_eq(copied(&from), TROUPE_E_VERSION);
    cr_assert_eq(troupe_last_error().status, TROUPE_E_VERSION);
    cr_assert_str_eq(troupe_last_error().call, "troupe_test");
    cr_assert_str_eq(troupe_last_error().option, "size");
}

Test(base_options, one_unknown_byte_at_the_very_end_is_seen)
{
    struct newer from = {{sizeof from, 0, 0, NULL}, 0};

    ((unsigned char *)&from)[sizeof from - 1] = 1;
    cr_assert_eq(copied(&from), TROUPE_E_VERSION);
}

Test(base_options, a_size_that_was_not_set_is_refused)
{
    struct options from = {0, 1, 2, NULL};

    cr_assert_eq(copied(&from), TROUPE_E_INVALID);
    cr_assert_str_eq(troupe_last_error().option, "size");
    cr_assert_str_eq(troupe_last_error().value, "0");
    from.size = sizeof from.size - 1;
    cr_assert_eq(copied(&from), TROUPE_E_INVALID);
}

Test(base_options, only_a_size_is_all_defaults)
{
    struct options from = {sizeof from.size, 1, 2, NULL};

    cr_assert_eq(copied(&from), TROUPE_OK);
    cr_assert_eq(copy.first, 0);
}

Test(base_options, no_options_are_refused_where_some_are_asked_for)
{
    struct options to;

    cr_assert_eq(
        trp_options_copy(&to, sizeof to, NULL, "call"), TROUPE_E_INVALID);
    cr_assert_str_eq(troupe_last_error().option, "options");
}
