/* SPDX-License-Identifier: MIT */
#ifndef TRP_BASE_BITS_H
#define TRP_BASE_BITS_H

/* A double in a word that is atomic. */

#include "base/atomic.h"

#include <string.h>

static inline double
trp_bits_to_double(uint64_t bits)
{
    double value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint64_t
trp_bits_of_double(double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* trp_count() for a double: one writer. */
static inline void
trp_count_double(TRP_ATOMIC(uint64_t) * word, double amount)
{
    /* relaxed, both: statistic, one writer. */
    trp_store_relaxed(
        word, trp_bits_of_double(
                  trp_bits_to_double(trp_load_relaxed(word)) + amount));
}

#endif /* TRP_BASE_BITS_H */
