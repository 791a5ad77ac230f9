/* SPDX-License-Identifier: MIT */
#ifndef TRP_BASE_RENDEZVOUS_H
#define TRP_BASE_RENDEZVOUS_H

/*
 * The same key, the same place: rendezvous hashing, or highest random weight
 * (Thaler and Ravishankar, "Using Name-Based Mappings to Increase Hit Rates",
 * IEEE/ACM Transactions on Networking 6(1), 1998).
 *
 *     places      a     b     c     d        for one key: the greatest score
 *     scores     17    42     8    35        wins, the first of equal ones
 *     order            1st         2nd       of a key; then a, then c
 *
 * A score depends on the key and its place, on no other place. So when one
 * goes, its keys move, each to the next in its own order, and no other key
 * does; when one comes, it takes its share, and nothing else moves.
 *
 * choose   the first in the order of the key. O(count), no memory.
 * after    the next one in it, behind one that turned out to be gone. The same.
 * limit    see below. O(count).
 * All are functions of what they are given; any thread.
 *
 * A place has an identity in one of two forms, computed when it is added:
 *
 *   mixed      64 bits, for use in one process, of any 64 bits that are its own
 *   original   32 bits of its name, whose scores are those of the system that
 *              troupe shares its routing with, for keys of text; a 64-bit key
 *              is cut. With many places or keys equal scores happen.
 *
 * Weights: a place of weight w wins w / (sum of weights) of the keys, and a
 * changed weight moves only keys from or to its place. The score is -w / ln u,
 * u in (0, 1) by hash (Schindelhauer and Schomaker, "Weighted Distributed Hash
 * Tables", SPAA 2005, the logarithmic method): -ln u / w is exponential with
 * rate w, and the least of exponentials belongs to each in proportion to its
 * rate. Weight 0 wins nothing.
 *
 * Bounded load: a place is passed over, for the next in the order of the key,
 * when its load has reached the limit
 *
 *     (100 + percent) / 100 * (sum of loads + 1) / places    rounded up
 *
 * (Mirrokni, Thorup and Zadimoghaddam, "Consistent Hashing with Bounded Loads",
 * SODA 2018: c times the average including the one that arrives, c > 1). With
 * weights each has its share of the sum, w / (sum of weights) instead of
 * 1 / places, and a load that is exactly its share may pass for less: numbers
 * are rounded. Somebody is always below. The loads are a copy: what it says is
 * true of that copy.
 *
 * Cost (bench/kernels.c, 2026-12-01, gcc, a loaded virtual machine, so at
 * most): 16 places 56 ns, 64 123 ns, 1024 0.93 us; with weights 166, 358, 2700
 * ns. One place after the other, as they are written: gcc's vectors of SSE2,
 * which has no product of 64 bits, and a block of scores before each
 * comparison, took 1.3 times as long.
 */

#include <stdint.h>

#define TRP_RENDEZVOUS_NONE UINT32_MAX
/* Set in a load: the place is not to be chosen. Loads are below it. */
#define TRP_RENDEZVOUS_CLOSED (UINT32_C(1) << 31)

/* Among whom to choose; borrowed. Arrays of `count`. */
struct trp_rendezvous {
    uint32_t count;
    const uint64_t *mixed;    /* one of these two, ... */
    const uint32_t *original; /* ... the other is NULL */
    const uint32_t *weights;  /* NULL: all are equal */
    const uint32_t *loads;    /* NULL: none is closed, there is no limit */
    double limit;             /* of load / weight; with loads */
};

/* `own` is different for every place, and otherwise whatever it likes. */
uint64_t trp_rendezvous_mixed(uint64_t own);
/* Of the name's trp_hash_text32(). */
uint32_t trp_rendezvous_original(uint32_t name_hash);

/* Of equal weights. The key is trp_hash_text32() of the text. */
uint32_t trp_rendezvous_score_original(uint32_t key, uint32_t identity);

/*
 * The index of the place; NONE: there is none of a weight above 0 that is open
 * and below its limit.
 */
uint32_t trp_rendezvous_choose(
    const struct trp_rendezvous *among, uint64_t key);
/* Behind `index` in the order of the key; NONE: nobody is. */
uint32_t trp_rendezvous_after(
    const struct trp_rendezvous *among, uint64_t key, uint32_t index);

/*
 * What to set as limit for the loads there are. Percent 0 is the mean itself,
 * rounded up: the paper's bounds on how many keys move want more than that.
 */
double trp_rendezvous_limit(
    const struct trp_rendezvous *among, uint32_t percent);
/*
 * -ln u for a normal u in (0, 1), to 15 digits: also where u is next to 1 and
 * the result next to 0, which is where winners are.
 */
double trp_minus_ln(double u);

/* No limit: closed places are passed over, no other. */
#define TRP_RENDEZVOUS_UNLIMITED ((double)UINT64_MAX)

#endif /* TRP_BASE_RENDEZVOUS_H */
