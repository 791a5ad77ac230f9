/* SPDX-License-Identifier: MIT */
#ifndef TRP_BASE_CPU_H
#define TRP_BASE_CPU_H

/* What we ask of the processor besides C11; the seam to ck. */

#include "base/align.h"

#include <ck_md.h>
#include <ck_pr.h>
#include <stdbool.h>

_Static_assert(CK_MD_CACHELINE <= 2 * TRP_CACHE_LINE, "padding is too small");

/* Inside every spin loop: about 25 ns during which the other side gets on. */
static inline void
trp_cpu_relax(void)
{
    ck_pr_stall();
}

/*
 * Asks the processor: a microsecond, in a virtual machine some dozens, so keep
 * the answer. False on anything but x86-64.
 */
bool trp_cpu_has_avx(void);

#endif /* TRP_BASE_CPU_H */
