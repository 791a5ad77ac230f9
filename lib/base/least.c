/* SPDX-License-Identifier: MIT */
#include "base/least.h"

#include "base/align.h"
#include "base/cpu.h"

/* Under ThreadSanitizer gcc defines a word and clang has a feature. */
#ifdef __has_feature
#define HAS_FEATURE(x) __has_feature(x)
#else
#define HAS_FEATURE(x) 0
#endif

#if defined(__x86_64__) && !defined(TRP_INTERLEAVE) &&                         \
    !defined(__SANITIZE_THREAD__) && !HAS_FEATURE(thread_sanitizer)
#define HAS_VECTORS 1
#else
#define HAS_VECTORS 0
#endif

/* --- plain ---------------------------------------------------------------- */

struct least {
    uint32_t value;
    uint32_t index;
};

/* True: nothing can be less. */
static bool
look_plain(struct least *least, const TRP_ATOMIC(uint32_t) * slots,
    uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        /* relaxed: a hint that may be old; nothing is read because of it */
        uint32_t value = trp_load_relaxed(&slots[i]);

        if (value < least->value) {
            least->value = value;
            least->index = i;
            if (value == 0) {
                return true;
            }
        }
    }
    return false;
}

uint32_t
trp_least_plain(
    const TRP_ATOMIC(uint32_t) * slots, uint32_t count, uint32_t start)
{
    struct least least = {TRP_LEAST_DEAD, TRP_LEAST_NONE};

    if (!look_plain(&least, slots, start, count)) {
        (void)look_plain(&least, slots, 0, start);
    }
    return least.index;
}

/* --- vectors -------------------------------------------------------------- */

#if HAS_VECTORS

#include <immintrin.h>

#define AVX __attribute__((target("avx")))
#define AVX_INLINE AVX __attribute__((always_inline)) static inline

enum { LANES = 4, VECTORS = TRP_LEAST_BLOCK / LANES };

/* Up to here one slot after the other is faster (bench/kernels.c). */
enum { FEW = 8 };

/* What makes slots dead: 32 that do, 32 that do not, 32 that do. */
#define TIMES_4(x) x, x, x, x
#define TIMES_32(x) TIMES_4(TIMES_4(x)), TIMES_4(TIMES_4(x))
static const uint32_t edges[3 * TRP_LEAST_BLOCK] = {
    TIMES_32(UINT32_MAX), TIMES_32(0), TIMES_32(UINT32_MAX)};

/*
 * relaxed: as in look_plain. Volatile, for what is compared and what is taken
 * for its place have to be of one load.
 */
AVX_INLINE __m128i
load(const TRP_ATOMIC(uint32_t) * slots)
{
    __m128i values;

    __asm__ volatile("vmovdqa %1, %0"
                     : "=x"(values)
                     : "m"(*(const __m128i *)(const void *)slots));
    return values;
}

AVX_INLINE void
load_block(__m128i *block, const TRP_ATOMIC(uint32_t) * slots)
{
    for (int i = 0; i < VECTORS; i++) {
        block[i] = load(slots + i * LANES);
    }
}

AVX_INLINE void
make_dead(__m128i *block, const uint32_t *edge)
{
    for (int i = 0; i < VECTORS; i++) {
        const void *mask = edge + i * LANES;

        block[i] = _mm_or_si128(block[i], _mm_loadu_si128(mask));
    }
}

/* Slots before `from` become dead. */
AVX_INLINE void
drop_before(__m128i *block, uint32_t from)
{
    make_dead(block, edges + TRP_LEAST_BLOCK - from);
}

/* Slots from `to` on become dead. */
AVX_INLINE void
drop_behind(__m128i *block, uint32_t to)
{
    make_dead(block, edges + 2 * TRP_LEAST_BLOCK - to);
}

/* The least of each lane. */
AVX_INLINE __m128i
least_lanes(const __m128i *block)
{
    __m128i a = _mm_min_epu32(block[0], block[1]);
    __m128i b = _mm_min_epu32(block[2], block[3]);
    __m128i c = _mm_min_epu32(block[4], block[5]);
    __m128i d = _mm_min_epu32(block[6], block[7]);

    return _mm_min_epu32(_mm_min_epu32(a, b), _mm_min_epu32(c, d));
}

/* The least of four, in all lanes. */
AVX_INLINE __m128i
spread_least(__m128i lanes)
{
    lanes = _mm_min_epu32(lanes, _mm_shuffle_epi32(lanes, 0x4e));
    return _mm_min_epu32(lanes, _mm_shuffle_epi32(lanes, 0xb1));
}

/* Which of 16 slots have the value: a bit each. */
AVX_INLINE uint32_t
equal_16(const __m128i *vectors, __m128i value)
{
    __m128i a = _mm_packs_epi32(
        _mm_cmpeq_epi32(vectors[0], value), _mm_cmpeq_epi32(vectors[1], value));
    __m128i b = _mm_packs_epi32(
        _mm_cmpeq_epi32(vectors[2], value), _mm_cmpeq_epi32(vectors[3], value));

    return (uint32_t)_mm_movemask_epi8(_mm_packs_epi16(a, b));
}

AVX_INLINE uint32_t
equal_mask(const __m128i *block, __m128i value)
{
    return equal_16(block, value) | equal_16(block + VECTORS / 2, value) << 16;
}

AVX_INLINE bool
is_less_than(__m128i lanes, __m128i least)
{
    __m128i is_not = _mm_cmpeq_epi32(_mm_min_epu32(lanes, least), least);

    return _mm_movemask_epi8(is_not) != 0xffff;
}

/* Up to 64 slots: no branch depends on what is in them. */
AVX_INLINE uint32_t
least_of_64(const TRP_ATOMIC(uint32_t) * slots, uint32_t count, uint32_t start)
{
    bool is_one = count <= TRP_LEAST_BLOCK;
    uint32_t in_last = is_one ? count : count - TRP_LEAST_BLOCK;
    __m128i first[VECTORS];
    __m128i last[VECTORS];
    __m128i value;
    uint64_t mask;

    load_block(last, is_one ? slots : slots + TRP_LEAST_BLOCK);
    if (in_last < TRP_LEAST_BLOCK) {
        drop_behind(last, in_last);
    }
    if (is_one) {
        value = spread_least(least_lanes(last));
        mask = equal_mask(last, value);
    } else {
        load_block(first, slots);
        value =
            spread_least(_mm_min_epu32(least_lanes(first), least_lanes(last)));
        mask = equal_mask(first, value) | (uint64_t)equal_mask(last, value)
                                              << TRP_LEAST_BLOCK;
    }
    if (_mm_cvtsi128_si32(value) < 0) {
        return TRP_LEAST_NONE; /* DEAD is the sign */
    }
    mask = mask >> start | mask << (-start & 63); /* `start` first */
    return (start + (uint32_t)__builtin_ctzll(mask)) & 63;
}

/* The same as look_plain(); `*value` is the least in all lanes. */
AVX_INLINE bool
look(uint32_t *index, __m128i *value, const TRP_ATOMIC(uint32_t) * slots,
    uint32_t from, uint32_t to)
{
    for (uint32_t base = from & ~(TRP_LEAST_BLOCK - 1); base < to;
         base += TRP_LEAST_BLOCK) {
        __m128i block[VECTORS];
        __m128i lanes;

        load_block(block, slots + base);
        if (base < from) {
            drop_before(block, from - base);
        }
        if (to - base < TRP_LEAST_BLOCK) {
            drop_behind(block, to - base);
        }
        lanes = least_lanes(block);
        if (TRP_UNLIKELY(is_less_than(lanes, *value))) {
            *value = spread_least(lanes);
            *index = base + (uint32_t)__builtin_ctz(equal_mask(block, *value));
            if (_mm_cvtsi128_si32(*value) == 0) {
                return true;
            }
        }
    }
    return false;
}

AVX static uint32_t
least_avx(const TRP_ATOMIC(uint32_t) * slots, uint32_t count, uint32_t start)
{
    uint32_t index = TRP_LEAST_NONE;
    __m128i value = _mm_set1_epi32((int)TRP_LEAST_DEAD);

    if (count <= FEW) {
        return trp_least_plain(slots, count, start);
    }
    if (count <= 2 * TRP_LEAST_BLOCK) {
        return least_of_64(slots, count, start);
    }
    if (!look(&index, &value, slots, start, count)) {
        (void)look(&index, &value, slots, 0, start);
    }
    return index;
}

trp_least_fn
trp_least_best(void)
{
    return trp_cpu_has_avx() ? least_avx : trp_least_plain;
}

#else

trp_least_fn
trp_least_best(void)
{
    return trp_least_plain;
}

#endif
