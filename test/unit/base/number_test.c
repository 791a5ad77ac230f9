/* SPDX-License-Identifier: MIT */
#include "base/number.h"

#include <criterion/criterion.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "support/seed.h"

static void
expect(double value, const char *text)
{
    char got[TRP_NUMBER_BYTES];
    size_t length = trp_number_write(got, value);

    cr_assert_str_eq(got, text);
    cr_assert_eq(length, strlen(text));
}

Test(base_number, whole_numbers_have_no_point_and_no_exponent)
{
    expect(0, "0");
    expect(-0.0, "0");
    expect(1, "1");
    expect(-17, "-17");
    expect(100000, "100000");
    expect(999999999999999, "999999999999999");
    expect(1e15, "1e+15");
    expect(-1e15, "-1e+15");
}

Test(base_number, fractions_are_as_short_as_they_can_be)
{
    expect(.005, "0.005");
    expect(2.5, "2.5");
    expect(1e-5, "1e-05");
    expect(.1 + .2, "0.30000000000000004");
    expect(1.0 / 3, "0.3333333333333333");
    expect(DBL_MAX, "1.7976931348623157e+308");
    expect(5e-324, "4.94065645841247e-324");
}

Test(base_number, what_is_no_number_has_a_word)
{
    expect(NAN, "NaN");
    expect(INFINITY, "+Inf");
    expect(-INFINITY, "-Inf");
}

Test(base_number, every_double_reads_back_as_itself)
{
    struct test_rng rng = {test_seed()};

    for (int i = 0; i < 20000; i++) {
        uint64_t bits = test_random(&rng);
        char text[TRP_NUMBER_BYTES];
        double value;

        memcpy(&value, &bits, sizeof value);
        if (isfinite(value)) {
            cr_assert_lt(trp_number_write(text, value), sizeof text);
            cr_assert(strtod(text, NULL) == value, "%s", text);
        }
    }
}

Test(base_number, what_a_locale_has_for_a_point_becomes_one)
{
    char text[TRP_NUMBER_BYTES];

    cr_assert_eq(trp_number_with_point(text, "2,5"), 3);
    cr_assert_str_eq(text, "2.5");
    trp_number_with_point(text, "-1\xd9\xab"
                                "25e-07"); /* Arabic: 2 bytes */
    cr_assert_str_eq(text, "-1.25e-07");
    trp_number_with_point(text, "1e+300");
    cr_assert_str_eq(text, "1e+300");
}

/* Where one is installed. */
Test(base_number, locales_with_a_comma_change_nothing)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "de_DE",
        "fr_FR.UTF-8", "fr_FR.utf8", "ps_AF.UTF-8", "ps_AF"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (setlocale(LC_ALL, names[i]) != NULL) {
            expect(.005, "0.005");
            expect(.1 + .2, "0.30000000000000004");
            expect(123456, "123456");
        }
    }
}
