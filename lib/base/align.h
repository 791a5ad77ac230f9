/* SPDX-License-Identifier: MIT */
#ifndef TRP_BASE_ALIGN_H
#define TRP_BASE_ALIGN_H

/* Cache lines, containers, sizes and hints to the compiler. */

#include <stddef.h>
#include <stdint.h>

#define TRP_CACHE_LINE 64
#define TRP_ALIGNED(n) _Alignas(n)

#define TRP_CONTAINER_OF(pointer, type, member)                                \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))
#define TRP_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#define TRP_LIKELY(x) __builtin_expect(!!(x), 1)
#define TRP_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define TRP_COLD __attribute__((cold, noinline))
#define TRP_INLINE static inline __attribute__((always_inline))

static inline size_t
trp_round_up(size_t n, size_t power_of_two)
{
    return (n + power_of_two - 1) & ~(power_of_two - 1);
}

/* Smallest k with (1 << k) >= n; 0 for n = 0 and 1. */
static inline uint32_t
trp_log2_ceil(uint64_t n)
{
    return n <= 1 ? 0 : 64u - (uint32_t)__builtin_clzll(n - 1);
}

#endif /* TRP_BASE_ALIGN_H */
