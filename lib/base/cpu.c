/* SPDX-License-Identifier: MIT */
#include "base/cpu.h"

#if defined(__x86_64__)

#include <cpuid.h>

/*
 * __builtin_cpu_supports() would do, but brings a writable variable of the
 * compiler's library into ours.
 */
bool
trp_cpu_has_avx(void)
{
    const uint32_t wanted = bit_OSXSAVE | bit_AVX;
    const uint32_t state = 6; /* the system saves registers of SSE and AVX */
    uint32_t a;
    uint32_t b;
    uint32_t c;
    uint32_t d;

    if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & wanted) != wanted) {
        return false;
    }
    __asm__("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    return (a & state) == state;
}

#else

bool
trp_cpu_has_avx(void)
{
    return false;
}

#endif
