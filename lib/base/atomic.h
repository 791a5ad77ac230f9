/* SPDX-License-Identifier: MIT */
#ifndef TRP_BASE_ATOMIC_H
#define TRP_BASE_ATOMIC_H

/*
 * The only file that includes <stdatomic.h>. The order is part of the name, so
 * a call site cannot fall back to seq_cst by saying nothing, and one search
 * lists every acquire in the library. There is no fence: what must not be
 * reordered is ordered by an operation on the variable itself, which is what
 * ThreadSanitizer understands (docs/memory-model.md).
 *
 * An interleaving build (test/model) names a header in TRP_INTERLEAVE that
 * defines the same words on top of a seeded scheduler with store buffers.
 */

#include <stdbool.h>
#include <stdint.h>

#ifdef TRP_INTERLEAVE
#include TRP_INTERLEAVE
#else

#include <stdatomic.h>

/* The type of a variable that several threads touch. */
#define TRP_ATOMIC(type) _Atomic(type)

#define trp_load_relaxed(p) atomic_load_explicit((p), memory_order_relaxed)
#define trp_load_acquire(p) atomic_load_explicit((p), memory_order_acquire)
#define trp_load_seq_cst(p) atomic_load_explicit((p), memory_order_seq_cst)

#define trp_store_relaxed(p, v)                                                \
    atomic_store_explicit((p), (v), memory_order_relaxed)
#define trp_store_release(p, v)                                                \
    atomic_store_explicit((p), (v), memory_order_release)
#define trp_store_seq_cst(p, v)                                                \
    atomic_store_explicit((p), (v), memory_order_seq_cst)

#define trp_swap_acq_rel(p, v)                                                 \
    atomic_exchange_explicit((p), (v), memory_order_acq_rel)

/* True = done. False: `*expected` is what was found, loaded with acquire. */
#define trp_cas_acq_rel(p, expected, v)                                        \
    atomic_compare_exchange_strong_explicit(                                   \
        (p), (expected), (v), memory_order_acq_rel, memory_order_acquire)
#define trp_cas_seq_cst(p, expected, v)                                        \
    atomic_compare_exchange_strong_explicit(                                   \
        (p), (expected), (v), memory_order_seq_cst, memory_order_seq_cst)
#define trp_cas_relaxed(p, expected, v)                                        \
    atomic_compare_exchange_strong_explicit(                                   \
        (p), (expected), (v), memory_order_relaxed, memory_order_relaxed)

/* All of them return the value before. */
#define trp_add_relaxed(p, v)                                                  \
    atomic_fetch_add_explicit((p), (v), memory_order_relaxed)
#define trp_add_acq_rel(p, v)                                                  \
    atomic_fetch_add_explicit((p), (v), memory_order_acq_rel)
#define trp_sub_relaxed(p, v)                                                  \
    atomic_fetch_sub_explicit((p), (v), memory_order_relaxed)
#define trp_sub_acq_rel(p, v)                                                  \
    atomic_fetch_sub_explicit((p), (v), memory_order_acq_rel)
#define trp_or_acq_rel(p, v)                                                   \
    atomic_fetch_or_explicit((p), (v), memory_order_acq_rel)
#define trp_and_acq_rel(p, v)                                                  \
    atomic_fetch_and_explicit((p), (v), memory_order_acq_rel)

#endif

/*
 * A statistic with one writer: no read-modify-write. Readers on other threads
 * see some recent value.
 */
#define trp_count(p, n)                                                        \
    trp_store_relaxed((p), trp_load_relaxed(p) + (n)) /* relaxed: statistic */

#endif /* TRP_BASE_ATOMIC_H */
