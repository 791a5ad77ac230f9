/* SPDX-License-Identifier: MIT */
#include "base/hash.h"

#include "support/seed.h"

#include <criterion/criterion.h>

#include <string.h>

static uint32_t
text(const char *utf8)
{
    return trp_hash_text32(utf8, strlen(utf8));
}

static uint32_t
bytes(const char *string)
{
    return trp_hash_fnv32(string, strlen(string));
}

Test(base_hash, fnv32_has_the_values_of_the_specification)
{
    cr_assert_eq(bytes(""), 2166136261);
    cr_assert_eq(bytes("a"), 3826002220);
    cr_assert_eq(bytes("foobar"), 3214735720);
    cr_assert_eq(bytes("user-42"), 39875499);
    cr_assert_eq(bytes("app@10.0.0.1:2552"), 476280136);
    cr_assert_eq(bytes("app@10.0.0.2:2552"), 2960816115);
    cr_assert_eq(bytes("app@10.0.0.3:2552"), 1885752750);
}

Test(base_hash, an_ascii_text_hashes_like_its_bytes)
{
    struct test_rng rng = {test_seed()};
    char ascii[40];

    for (int i = 0; i < 10000; i++) {
        size_t length = test_random_below(&rng, sizeof ascii);

        for (size_t k = 0; k < length; k++) {
            ascii[k] = (char)test_random_below(&rng, 128);
        }
        cr_assert_eq(
            trp_hash_text32(ascii, length), trp_hash_fnv32(ascii, length));
    }
}

/*
 * Computed by a JavaScript engine from charCodeAt(): two, three and four bytes
 * (the last ones a surrogate pair), and both ends of what each can say.
 */
Test(base_hash, a_text_hashes_by_its_utf_16_units)
{
    cr_assert_eq(text("\xc3\xbc"), 2030796987);
    cr_assert_eq(text("gr\xc3\xbcn"), 2719348682);
    cr_assert_eq(text("\xe2\x82\xac"), 2839424075);
    cr_assert_eq(text("\xe6\x97\xa5\xe6\x9c\xac"), 1610399396);
    cr_assert_eq(text("\xf0\x9f\x98\x80"), 3409036472);
    cr_assert_eq(text("a\xf0\x9f\x98\x80\x62"), 2412414209);
    cr_assert_eq(text("\xc2\x80"), 2232128415);
    cr_assert_eq(text("\xdf\xbf"), 2047265102);
    cr_assert_eq(text("\xe0\xa0\x80"), 83871007);
    cr_assert_eq(text("\xef\xbf\xbd"), 2007932456);
    cr_assert_eq(text("\xef\xbf\xbf"), 2041487694);
    cr_assert_eq(text("\xf4\x8f\xbf\xbf"), 4180159651);
}

/* Each is longer than one byte and has no well-formed part. */
Test(base_hash, bytes_that_are_no_utf_8_count_each_for_itself)
{
    static const char *const malformed[] = {
        "\x80\xbf",         /* only what follows */
        "\xc3(",            /* not followed */
        "\xc1\xbf",         /* one byte said in two */
        "\xe0\x9f\xbf",     /* two in three */
        "\xf0\x8f\xbf\xbf", /* three in four */
        "\xed\xa0\x80",     /* half of a pair */
        "\xed\xbf\xbf",     /* the other half */
        "\xf4\x90\x80\x80", /* above the last character */
        "\xf5\x80\x80\x80", /* the same */
        "\xff\xfe",         /* never a byte of a text */
        "\xe2\x82",         /* cut */
        "\xf0\x9f\x98",     /* cut */
    };

    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        cr_assert_eq(text(malformed[i]), bytes(malformed[i]), "number %zu", i);
    }
}

Test(base_hash, a_malformed_byte_does_not_swallow_the_text_behind_it)
{
    /* 0xe2 begins three bytes; an a-umlaut follows instead. */
    static const char utf8[] = "\xe2\xc3\xa4";
    uint32_t units = trp_hash_fnv32("\xe2\xe4", 2); /* both below 256 */

    cr_assert_eq(text(utf8), units);
}

Test(base_hash, zero_bytes_count)
{
    cr_assert_neq(trp_hash_fnv32("\0\0", 1), trp_hash_fnv32("\0\0", 2));
    cr_assert_neq(trp_hash_text32("\0\0", 1), trp_hash_text32("\0\0", 2));
    cr_assert_neq(trp_hash_bytes64("\0\0", 1), trp_hash_bytes64("\0\0", 2));
}

/* Nothing is read behind the end, even if a character seems to go on there. */
Test(base_hash, a_character_that_goes_on_behind_the_end_is_cut)
{
    cr_assert_eq(trp_hash_text32("x\xe2\x82\xac", 3), bytes("x\xe2\x82"));
}

/* Computed by a JavaScript engine from the published parameters. */
Test(base_hash, bytes64_is_fnv_and_the_finaliser_of_splitmix64)
{
    cr_assert_eq(trp_hash_bytes64("", 0), UINT64_C(0xf52a15e9a9b5e89b));
    cr_assert_eq(trp_hash_bytes64("a", 1), UINT64_C(0x02c0bdbf481420f8));
    cr_assert_eq(trp_hash_bytes64("foobar", 6), UINT64_C(0x404da9e3b74078c2));
}

/* Each input bit turns each output bit over in half of the cases: 5 sigma. */
Test(base_hash, mix64_spreads_every_bit_over_all)
{
    enum { ROUNDS = 10000 };
    struct test_rng rng = {test_seed()};
    static uint32_t turned[64][64];

    for (int round = 0; round < ROUNDS; round++) {
        uint64_t x = test_random(&rng);

        for (int in = 0; in < 64; in++) {
            uint64_t change =
                trp_hash_mix64(x) ^ trp_hash_mix64(x ^ UINT64_C(1) << in);

            for (int out = 0; out < 64; out++) {
                turned[in][out] += (uint32_t)(change >> out) & 1;
            }
        }
    }
    for (int i = 0; i < 64 * 64; i++) {
        /* Sigma is 50; the mixer's own bias stays below 2 per cent. */
        cr_assert_lt(turned[i / 64][i % 64], ROUNDS / 2 + 250 + ROUNDS / 50);
        cr_assert_gt(turned[i / 64][i % 64], ROUNDS / 2 - 250 - ROUNDS / 50);
    }
}
