/* SPDX-License-Identifier: MIT */
#include "base/cpu.h"

#include <criterion/criterion.h>

Test(base_cpu, it_has_avx_if_the_compilers_library_says_so)
{
#if defined(__x86_64__)
    cr_assert_eq(trp_cpu_has_avx(), __builtin_cpu_supports("avx") != 0);
#else
    cr_assert_not(trp_cpu_has_avx());
#endif
}
