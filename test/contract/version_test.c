/* SPDX-License-Identifier: MIT */
#include <troupe/version.h>

#include <criterion/criterion.h>

#include <stdio.h>

Test(version, number_is_what_was_compiled_against)
{
    cr_assert_eq(troupe_version(), TROUPE_VERSION_NUMBER);
    cr_assert_eq(TROUPE_VERSION_NUMBER, TROUPE_VERSION_MAJOR * 1000000 +
                                            TROUPE_VERSION_MINOR * 1000 +
                                            TROUPE_VERSION_PATCH);
}

Test(version, text_has_the_three_numbers)
{
    char text[64];

    (void)snprintf(text, sizeof text, "%d.%d.%d", TROUPE_VERSION_MAJOR,
        TROUPE_VERSION_MINOR, TROUPE_VERSION_PATCH);
    cr_assert_str_eq(troupe_version_text(), text);
}
