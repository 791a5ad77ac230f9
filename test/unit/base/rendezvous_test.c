/* SPDX-License-Identifier: MIT */
#include "base/rendezvous.h"

#include "base/hash.h"
#include "support/seed.h"

#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 1100, KEYS = 60000 };

static uint64_t mixed[MOST];
static uint32_t original[MOST];
static uint32_t weights[MOST];
static uint32_t loads[MOST];
static struct trp_rendezvous among;
static struct test_rng rng;

static void
setup(void)
{
    rng.state = test_seed();
    among = (struct trp_rendezvous){.mixed = mixed};
}

TestSuite(base_rendezvous, .init = setup);

/* --- the original's ------------------------------------------------------- */

static uint32_t
hash_of(const char *text)
{
    return trp_hash_text32(text, strlen(text));
}

/* The nodes app@10.0.0.1:2552 and so on. */
static void
use_nodes(uint32_t count)
{
    char name[32];

    for (uint32_t i = 0; i < count; i++) {
        (void)snprintf(name, sizeof name, "app@10.0.0.%u:2552", i + 1);
        original[i] = trp_rendezvous_original(hash_of(name));
    }
    among = (struct trp_rendezvous){.count = count, .original = original};
}

Test(base_rendezvous, scores_and_winners_are_those_of_the_specification)
{
    static const struct {
        const char *key;
        uint32_t scores[3];
        uint32_t winner;
    } vectors[] = {
        {"user-42", {3718473624, 2043498969, 588795861}, 0},
        {"user-43", {2189157863, 1782306558, 1617642202}, 0},
        {"user-44", {3460899238, 650659647, 285244867}, 0},
        {"user-45", {325762701, 569431460, 458291424}, 1},
        {"", {765337093, 1852756076, 1174496360}, 1},
    };

    use_nodes(3);
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        uint32_t key = hash_of(vectors[i].key);

        for (int k = 0; k < 3; k++) {
            cr_assert_eq(trp_rendezvous_score_original(key, original[k]),
                vectors[i].scores[k]);
        }
        cr_assert_eq(trp_rendezvous_choose(&among, key), vectors[i].winner);
    }
}

static void
count_users(uint32_t users, uint32_t *counts)
{
    char key[32];

    for (uint32_t i = 0; i < users; i++) {
        (void)snprintf(key, sizeof key, "user-%u", i);
        counts[trp_rendezvous_choose(&among, hash_of(key))]++;
    }
}

Test(base_rendezvous, users_spread_over_nodes_as_in_the_specification)
{
    uint32_t three[3] = {0};
    uint32_t sixteen[16] = {0};
    uint32_t least = UINT32_MAX;
    uint32_t most = 0;

    use_nodes(3);
    count_users(100000, three);
    cr_assert_eq(three[0], 33324);
    cr_assert_eq(three[1], 33106);
    cr_assert_eq(three[2], 33570);
    use_nodes(16);
    count_users(50000, sixteen);
    for (int i = 0; i < 16; i++) {
        least = sixteen[i] < least ? sixteen[i] : least;
        most = sixteen[i] > most ? sixteen[i] : most;
    }
    cr_assert_eq(least, 3040);
    cr_assert_eq(most, 3219);
}

Test(base_rendezvous, without_a_node_only_its_users_move)
{
    char key[32];

    for (uint32_t i = 0; i < 10000; i++) {
        uint32_t with;

        (void)snprintf(key, sizeof key, "user-%u", i);
        use_nodes(3);
        with = trp_rendezvous_choose(&among, hash_of(key));
        among.count = 2;
        if (with != 2) {
            cr_assert_eq(trp_rendezvous_choose(&among, hash_of(key)), with);
        }
    }
}

/* --- the order of a key --------------------------------------------------- */

/* Identities as programs have them: numbers in a row. */
static void
use_places(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        mixed[i] = trp_rendezvous_mixed(i);
    }
    among.count = count;
}

static void
use_weights(uint32_t most)
{
    for (uint32_t i = 0; i < MOST; i++) {
        weights[i] = test_random_below(&rng, most + 1);
    }
    weights[0] = 1 + test_random_below(&rng, most);
    among.weights = weights;
}

static uint64_t
place_at(uint64_t key, uint32_t position)
{
    uint32_t place = trp_rendezvous_choose(&among, key);

    while (position-- > 0) {
        place = trp_rendezvous_after(&among, key, place);
    }
    return place;
}

/* Without `place`, the others keep their index: it is closed. */
static uint32_t
choose_without(uint32_t place, uint64_t key)
{
    uint32_t chosen;

    loads[place] = TRP_RENDEZVOUS_CLOSED;
    among.loads = loads;
    among.limit = TRP_RENDEZVOUS_UNLIMITED;
    chosen = trp_rendezvous_choose(&among, key);
    among.loads = NULL;
    loads[place] = 0;
    return chosen;
}

static void
assert_order(uint64_t key)
{
    bool seen[MOST] = {false};
    uint32_t left = 0;
    uint32_t place = trp_rendezvous_choose(&among, key);

    for (uint32_t i = 0; i < among.count; i++) {
        left += among.weights == NULL || weights[i] > 0;
    }
    cr_assert_eq(
        choose_without(place, key), trp_rendezvous_after(&among, key, place));
    for (; place != TRP_RENDEZVOUS_NONE; left--) {
        cr_assert_lt(place, among.count);
        cr_assert_not(seen[place]);
        seen[place] = true;
        place = trp_rendezvous_after(&among, key, place);
    }
    cr_assert_eq(left, 0);
}

Test(base_rendezvous, after_goes_through_every_place_once)
{
    for (uint32_t count = 1; count < 300; count += 7) {
        use_places(count);
        assert_order(test_random(&rng));
    }
}

Test(base_rendezvous, after_goes_through_every_place_that_has_weight)
{
    for (uint32_t count = 1; count < 300; count += 7) {
        use_places(count);
        use_weights(5);
        assert_order(test_random(&rng));
    }
}

Test(base_rendezvous, of_equal_scores_the_first_comes_first)
{
    use_places(200);
    for (uint32_t i = 0; i < 200; i++) {
        mixed[i] = 42;
    }
    for (uint32_t i = 0; i < 200; i++) {
        cr_assert_eq(place_at(test_random(&rng), i), i);
    }
    use_weights(1);
    for (uint32_t i = 0; i < 200; i++) {
        weights[i] = 7;
    }
    for (uint32_t i = 0; i < 200; i++) {
        cr_assert_eq(place_at(test_random(&rng), i), i);
    }
}

Test(base_rendezvous, among_none_none_is_found)
{
    use_places(0);
    cr_assert_eq(trp_rendezvous_choose(&among, 1), TRP_RENDEZVOUS_NONE);
    use_places(3);
    memset(weights, 0, sizeof weights);
    among.weights = weights;
    cr_assert_eq(trp_rendezvous_choose(&among, 1), TRP_RENDEZVOUS_NONE);
    cr_assert_eq(trp_rendezvous_after(&among, 1, 0), TRP_RENDEZVOUS_NONE);
}

/* --- how keys spread ------------------------------------------------------ */

/*
 * Thousands of counts within 5 sigma of their means are a matter of luck once
 * in hundreds of runs, so these tests always draw the same.
 */
static void
draw_the_same(void)
{
    rng.state = 20261201;
}

/* Keys as programs have them. */
static uint64_t
key_of(uint32_t kind, uint64_t number)
{
    switch (kind) {
    case 0:
        return number;
    case 1:
        return number << 32;
    case 2:
        return number * 1000;
    default:
        return trp_hash_bytes64(&number, sizeof number);
    }
}

enum { KINDS = 4 };

/* Binomial: 5 sigma around the share. */
static void
assert_share(uint32_t count, double share, uint32_t of)
{
    double mean = of * share;
    double sigma = sqrt(of * share * (1 - share));

    cr_assert(fabs(count - mean) <= 5 * sigma + 1, "%u, mean %.1f, sigma %.1f",
        count, mean, sigma);
}

/* Keys that go to the place at this position of their order, by weight. */
static void
assert_spread(uint32_t kind)
{
    uint32_t counts[MOST] = {0};
    uint64_t base = test_random_below(&rng, UINT32_MAX);
    double sum = 0;

    for (uint32_t i = 0; i < among.count; i++) {
        sum += among.weights != NULL ? weights[i] : 1;
    }
    for (uint32_t i = 0; i < KEYS; i++) {
        counts[trp_rendezvous_choose(&among, key_of(kind, base + i))]++;
    }
    for (uint32_t i = 0; i < among.count; i++) {
        double weight = among.weights != NULL ? weights[i] : 1;

        assert_share(counts[i], weight / sum, KEYS);
    }
}

Test(base_rendezvous, keys_spread_evenly)
{
    static const uint32_t sizes[] = {1, 2, 3, 10, 64, 65, 200};

    draw_the_same();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (uint32_t kind = 0; kind < KINDS; kind++) {
            use_places(sizes[i]);
            assert_spread(kind);
        }
    }
}

Test(base_rendezvous, keys_spread_by_weight)
{
    static const uint32_t mosts[] = {1, 10, 1000, UINT32_MAX - 1};

    draw_the_same();
    for (size_t i = 0; i < sizeof mosts / sizeof *mosts; i++) {
        for (uint32_t kind = 0; kind < KINDS; kind++) {
            use_places(2 + test_random_below(&rng, 70));
            use_weights(mosts[i]);
            assert_spread(kind);
        }
    }
}

/* Where -ln u next to 1 decides. */
Test(base_rendezvous, a_light_place_beside_heavy_ones_has_its_share)
{
    draw_the_same();
    use_places(3);
    among.weights = weights;
    weights[0] = 1;
    weights[1] = 200;
    weights[2] = 400;
    for (uint32_t kind = 0; kind < KINDS; kind++) {
        assert_spread(kind);
    }
}

Test(base_rendezvous, the_original_spreads_by_weight)
{
    draw_the_same();
    use_nodes(3);
    among.weights = weights;
    weights[0] = 1;
    weights[1] = 2;
    weights[2] = 5;
    assert_spread(3);
}

Test(base_rendezvous, the_second_choice_spreads_evenly_too)
{
    uint32_t counts[8] = {0};
    uint32_t keys = 0;

    use_places(8);
    for (uint64_t key = 0; key < KEYS; key++) {
        if (trp_rendezvous_choose(&among, key) == 3) {
            counts[trp_rendezvous_after(&among, key, 3)]++;
            keys++;
        }
    }
    for (int i = 0; i < 8; i++) {
        assert_share(counts[i], i == 3 ? 0 : 1.0 / 7, keys);
    }
}

static void
assert_only_its_keys_move(double share)
{
    uint32_t gone = 0; /* which has a weight */
    uint32_t moved = 0;

    for (uint64_t key = 0; key < KEYS; key++) {
        uint32_t with = trp_rendezvous_choose(&among, key);
        uint32_t without = choose_without(gone, key);

        cr_assert_neq(without, gone);
        cr_assert(with == gone || with == without);
        moved += with == gone;
    }
    assert_share(moved, share, KEYS);
}

Test(base_rendezvous, without_a_place_a_share_of_the_keys_moves_and_no_other)
{
    use_places(20);
    assert_only_its_keys_move(1.0 / 20);
}

Test(base_rendezvous, without_a_heavy_place_its_keys_move_and_no_other)
{
    double sum = 0;

    draw_the_same();
    use_places(20);
    use_weights(9);
    for (uint32_t i = 0; i < 20; i++) {
        sum += weights[i];
    }
    assert_only_its_keys_move(weights[0] / sum);
}

Test(base_rendezvous, more_weight_only_attracts_keys)
{
    uint32_t before[KEYS];
    uint32_t moved = 0;

    use_places(10);
    among.weights = weights;
    for (int i = 0; i < 10; i++) {
        weights[i] = 10;
    }
    for (uint32_t key = 0; key < KEYS; key++) {
        before[key] = trp_rendezvous_choose(&among, key);
    }
    weights[4] = 20;
    for (uint32_t key = 0; key < KEYS; key++) {
        uint32_t now = trp_rendezvous_choose(&among, key);

        cr_assert(now == before[key] || now == 4);
        moved += now != before[key];
    }
    assert_share(moved, 20.0 / 110 - 10.0 / 100, KEYS);
}

/* --- the logarithm -------------------------------------------------------- */

static void
assert_logarithm(double u, double wanted)
{
    double error = fabs(trp_minus_ln(u) - wanted);

    cr_assert_leq(
        error, 1e-15 * wanted, "%a: %a, not %a", u, trp_minus_ln(u), wanted);
}

Test(base_rendezvous, the_logarithm_has_15_digits)
{
    for (int i = 0; i < 1000000; i++) {
        double u = ((double)(test_random(&rng) >> 12) + 0.5) * 0x1p-52;

        assert_logarithm(u, -log(u));
        assert_logarithm(u * u, -log(u * u));
        u = 1 - u * 0x1p-20;
        assert_logarithm(u, -log1p(u - 1)); /* u - 1 is exact */
    }
    assert_logarithm(0x1p-53, 53 * 0.69314718055994530942);
    assert_logarithm(1 - 0x1p-53, 0x1p-53);
    assert_logarithm(0.5, 0.69314718055994530942);
}

/* --- against another way to compute it -------------------------------------
 */

/* The greatest -w / ln u, with the logarithm of the system. */
static uint32_t
choose_by_logarithms(uint64_t key)
{
    uint32_t best = TRP_RENDEZVOUS_NONE;
    double best_score = 0;

    for (uint32_t i = 0; i < among.count; i++) {
        uint64_t h = trp_hash_mix64(key) ^ mixed[i];
        double own_score;

        h *= UINT64_C(0xbf58476d1ce4e5b9);
        h = (h ^ (h >> 32)) * UINT64_C(0x94d049bb133111eb);
        own_score = weights[i] / -log(ldexp((double)(h >> 12) + 0.5, -52));
        if (own_score > best_score) {
            best_score = own_score;
            best = i;
        }
    }
    return best;
}

/* Closer than its 15 digits two scores are once in 10^12 or so. */
Test(base_rendezvous, the_weighted_choice_is_that_of_the_formula)
{
    static const uint32_t mosts[] = {1, 3, 1000, UINT32_MAX - 1};

    for (int round = 0; round < 2000; round++) {
        uint64_t key = test_random(&rng);

        use_places(1 + test_random_below(&rng, MOST));
        use_weights(mosts[test_random_below(&rng, 4)]);
        cr_assert_eq(
            trp_rendezvous_choose(&among, key), choose_by_logarithms(key));
    }
}

/* --- bounded load --------------------------------------------------------- */

/* Whether another one is above its share: (100 + percent) / 100 of it. */
static bool
is_full(uint32_t place, uint32_t percent)
{
    uint64_t sum = 1;
    uint64_t share = 0;

    for (uint32_t i = 0; i < among.count; i++) {
        if (loads[i] < TRP_RENDEZVOUS_CLOSED) {
            sum += loads[i];
            share += among.weights != NULL ? weights[i] : 1;
        }
    }
    return loads[place] * share * 100 >=
           (100 + percent) * sum * (among.weights != NULL ? weights[place] : 1);
}

/* Gives every key to a place and lets none of them go. */
static void
load_up(uint32_t keys, uint32_t percent)
{
    memset(loads, 0, sizeof loads);
    for (uint32_t i = 0; i < keys; i++) {
        uint64_t key = test_random(&rng);
        uint32_t wanted;
        uint32_t chosen;

        among.loads = NULL;
        wanted = trp_rendezvous_choose(&among, key);
        while (is_full(wanted, percent)) {
            wanted = trp_rendezvous_after(&among, key, wanted);
            cr_assert_neq(wanted, TRP_RENDEZVOUS_NONE);
        }
        among.loads = loads;
        among.limit = trp_rendezvous_limit(&among, percent);
        chosen = trp_rendezvous_choose(&among, key);
        cr_assert_eq(chosen, wanted);
        loads[chosen]++;
    }
}

static uint32_t
largest_load(void)
{
    uint32_t largest = 0;

    for (uint32_t i = 0; i < among.count; i++) {
        largest = loads[i] > largest ? loads[i] : largest;
    }
    return largest;
}

Test(base_rendezvous, a_full_place_is_passed_over_for_the_next_of_the_key)
{
    use_places(17);
    load_up(17 * 100, 25);
    cr_assert_leq(largest_load(), 125);
    load_up(17 * 100 - 1, 0);
    cr_assert_eq(largest_load(), 100);
}

Test(base_rendezvous, a_large_bound_changes_nothing)
{
    use_places(17);
    memset(loads, 0, sizeof loads);
    loads[4] = 1000;
    for (uint64_t key = 0; key < 1000; key++) {
        uint32_t plain = trp_rendezvous_choose(&among, key);

        among.loads = loads;
        among.limit = trp_rendezvous_limit(&among, 10000);
        cr_assert_eq(trp_rendezvous_choose(&among, key), plain);
        among.loads = NULL;
    }
}

/* Powers of two: their shares are exact. */
Test(base_rendezvous, with_weights_each_place_is_bounded_by_its_share)
{
    use_places(16);
    among.weights = weights;
    for (uint32_t i = 0; i < 16; i++) {
        weights[i] = i < 12 ? 2 : 10;
    }
    load_up(6400, 50); /* 100 per weight, so 150 at most */
    for (uint32_t i = 0; i < 16; i++) {
        cr_assert_leq(loads[i], 150 * weights[i]);
    }
}

Test(base_rendezvous, a_closed_place_is_neither_chosen_nor_counted)
{
    use_places(4);
    memset(loads, 0, sizeof loads);
    loads[2] = TRP_RENDEZVOUS_CLOSED | 1000;
    loads[1] = 8;
    among.loads = loads;
    /* Three are open, nine with the new one: three each. */
    among.limit = trp_rendezvous_limit(&among, 0);
    cr_assert_eq(among.limit, 3.0);
    for (uint64_t key = 0; key < 1000; key++) {
        uint32_t chosen = trp_rendezvous_choose(&among, key);

        cr_assert(chosen == 0 || chosen == 3);
    }
}

Test(base_rendezvous, where_all_are_closed_none_is_found)
{
    use_places(4);
    for (int i = 0; i < 4; i++) {
        loads[i] = TRP_RENDEZVOUS_CLOSED;
    }
    among.loads = loads;
    among.limit = trp_rendezvous_limit(&among, 25);
    cr_assert_eq(trp_rendezvous_choose(&among, 1), TRP_RENDEZVOUS_NONE);
}

/* Whatever the loads: percent 0, where it is closest. */
Test(base_rendezvous, somebody_is_always_below_the_limit)
{
    for (int round = 0; round < 3000; round++) {
        uint32_t range = UINT32_C(1) << test_random_below(&rng, 32);
        uint32_t count = 1 + test_random_below(&rng, 100);

        use_places(count);
        among.weights = NULL;
        if (round % 2 == 1) {
            use_weights(UINT32_MAX - 1);
        }
        for (uint32_t i = 0; i < count; i++) {
            loads[i] = test_random_below(&rng, range);
        }
        among.loads = loads;
        among.limit = trp_rendezvous_limit(&among, 0);
        cr_assert_neq(trp_rendezvous_choose(&among, (uint64_t)round),
            TRP_RENDEZVOUS_NONE);
    }
}
