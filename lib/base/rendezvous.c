/* SPDX-License-Identifier: MIT */
#include "base/rendezvous.h"

#include "base/align.h"
#include "base/hash.h"

#include <stdbool.h>
#include <string.h>

/* The middle of log(1 + x) is where its series ends soonest. */
#define SQRT_HALF 0.70710678118654752440
#define LN_2 0.69314718055994530942

/* Where in the order of a key: by score, then by index. */
struct place {
    uint64_t score;
    uint32_t index;
};

/* --- scores --------------------------------------------------------------- */

uint64_t
trp_rendezvous_mixed(uint64_t own)
{
    /* Not 0 for 0; and not mix64() alone, which keys go through. */
    return trp_hash_mix64(own + UINT64_C(0x9e3779b97f4a7c15));
}

uint32_t
trp_rendezvous_original(uint32_t name_hash)
{
    return name_hash * UINT32_C(2654435761);
}

uint32_t
trp_rendezvous_score_original(uint32_t key, uint32_t identity)
{
    uint32_t h = key ^ identity;

    h ^= h >> 13;
    return h * UINT32_C(1540483477);
}

/*
 * Both have been mixed, so half a mixer is enough; the highest bits, which
 * decide, are the best ones of a product.
 */
TRP_INLINE uint64_t
score_mixed(uint64_t mixed_key, uint64_t identity)
{
    uint64_t h = (mixed_key ^ identity) * UINT64_C(0xbf58476d1ce4e5b9);

    return (h ^ (h >> 32)) * UINT64_C(0x94d049bb133111eb);
}

/*
 * By the series of atanh: ln m = 2 (t + t^3/3 + ..) with t = (m - 1) / (m + 1),
 * |t| < 0.172, so the first term that is left out is below 10^-17 of the sum.
 * Our own, for the library is linked with libc alone.
 */
double
trp_minus_ln(double u)
{
    uint64_t bits;
    double sum = 1.0 / 19;
    double exponent;
    double m;
    double t;

    memcpy(&bits, &u, sizeof bits);
    exponent = (double)(bits >> 52) - 1022;
    bits = (bits & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1022) << 52;
    memcpy(&m, &bits, sizeof m); /* in [1/2, 1) */
    if (m < SQRT_HALF) {
        m *= 2;
        exponent -= 1;
    }
    t = (m - 1) / (m + 1);
    for (int k = 17; k > 0; k -= 2) {
        sum = sum * (t * t) + 1.0 / k;
    }
    return -(exponent * LN_2 + 2 * t * sum);
}

/* Of the highest 52 bits, the middle of their interval: never 0, never 1. */
static double
fraction_of(uint64_t hash)
{
    /* Signed: processors convert that in one step. */
    return ((double)(int64_t)(hash >> 12) + 0.5) * 0x1p-52;
}

/* Greater for what is less; of numbers that are not negative. Never 0. */
static uint64_t
descending(double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    return ~bits;
}

static double
ascending(uint64_t score)
{
    double value;

    score = ~score;
    memcpy(&value, &score, sizeof value);
    return value;
}

/*
 * The score by weight of a hash; 0 if `best` beats it. Of weight 0 it is that
 * of infinity, the least there is, and nobody's: see is_candidate().
 */
TRP_INLINE uint64_t
weigh(uint64_t hash, uint32_t weight, uint64_t best)
{
    /* 0: nobody is there yet, and everybody is less. */
    double to_beat = best == 0 ? 0x1p1000 : ascending(best);
    double u = fraction_of(hash);

    /* -ln u >= 1 - u: most are out without a logarithm. */
    if (1 - u > to_beat * weight) {
        return 0;
    }
    return descending(trp_minus_ln(u) / weight);
}

/* --- choosing ------------------------------------------------------------- */

static bool
is_candidate(const struct trp_rendezvous *among, uint32_t index)
{
    uint32_t weight = among->weights != NULL ? among->weights[index] : 1;
    uint32_t load = among->loads != NULL ? among->loads[index] : 0;

    if (weight == 0 || load >= TRP_RENDEZVOUS_CLOSED) {
        return false;
    }
    return among->loads == NULL || load < among->limit * weight;
}

static bool
comes_before(const struct place *a, const struct place *b)
{
    return a->score > b->score || (a->score == b->score && a->index < b->index);
}

/*
 * The score of one place; may be 0 if that is less than `best`. The flags are
 * known where it is inlined, so that loops have no branch but "is greater".
 */
TRP_INLINE uint64_t
score_of(const struct trp_rendezvous *among, uint64_t key, uint32_t index,
    uint64_t best, bool is_original, bool is_weighted)
{
    uint64_t hash = is_original ? (uint64_t)trp_rendezvous_score_original(
                                      (uint32_t)key, among->original[index])
                                      << 32
                                : score_mixed(key, among->mixed[index]);

    return is_weighted ? weigh(hash, among->weights[index], best) : hash;
}

TRP_INLINE uint32_t
walk(const struct trp_rendezvous *among, uint64_t key, const struct place *last,
    bool is_original, bool is_weighted)
{
    struct place best = {0, TRP_RENDEZVOUS_NONE};

    for (uint32_t i = 0; i < among->count; i++) {
        struct place place = {
            score_of(among, key, i, best.score, is_original, is_weighted), i};

        if (TRP_UNLIKELY(comes_before(&place, &best)) &&
            (last == NULL || comes_before(last, &place)) &&
            is_candidate(among, i)) {
            best = place;
        }
    }
    return best.index;
}

/* The first candidate in the order of the key; behind `last`, unless NULL. */
static uint32_t
first_behind(
    const struct trp_rendezvous *among, uint64_t key, const struct place *last)
{
    if (among->original != NULL) {
        return among->weights != NULL ? walk(among, key, last, true, true)
                                      : walk(among, key, last, true, false);
    }
    key = trp_hash_mix64(key);
    return among->weights != NULL ? walk(among, key, last, false, true)
                                  : walk(among, key, last, false, false);
}

uint32_t
trp_rendezvous_choose(const struct trp_rendezvous *among, uint64_t key)
{
    return first_behind(among, key, NULL);
}

uint32_t
trp_rendezvous_after(
    const struct trp_rendezvous *among, uint64_t key, uint32_t index)
{
    bool is_original = among->original != NULL;
    struct place last = {
        score_of(among, is_original ? key : trp_hash_mix64(key), index, 0,
            is_original, among->weights != NULL),
        index};

    return first_behind(among, key, &last);
}

double
trp_rendezvous_limit(const struct trp_rendezvous *among, uint32_t percent)
{
    double sum = 1; /* the one that arrives */
    double share = 0;

    if (among->loads == NULL) {
        return TRP_RENDEZVOUS_UNLIMITED;
    }
    for (uint32_t i = 0; i < among->count; i++) {
        uint32_t weight = among->weights != NULL ? among->weights[i] : 1;

        if (weight > 0 && among->loads[i] < TRP_RENDEZVOUS_CLOSED) {
            sum += among->loads[i];
            share += weight;
        }
    }
    return share > 0 ? (100.0 + percent) * sum / (100 * share)
                     : TRP_RENDEZVOUS_UNLIMITED;
}
