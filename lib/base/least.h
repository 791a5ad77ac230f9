/* SPDX-License-Identifier: MIT */
#ifndef TRP_BASE_LEAST_H
#define TRP_BASE_LEAST_H

/*
 * Which of many counters is the smallest, while others change them.
 *
 *     slots   [ 7 ][ 3 ][dead][ 3 ][ 9 ][ 4 ][ 3 ][ 8 ]
 *                                 start        ^
 *             ------------------> then | first |
 *
 * From `start` on, wrapping at `count`: the first slot that is not dead and
 * whose value is strictly less than those of all slots before it in this order,
 * which is the first of the smallest. The scan stops at a 0, nothing is less.
 *
 * least   one load of each slot, O(count), no write. Wait-free; any thread.
 *
 * Invariants
 *   L1  A slot with the bit DEAD is never the result; all dead: NONE.
 *   L2  What is compared was in its slot at some moment of the call, whole; no
 *       slot is judged by two loads. So if nobody writes, all forms give the
 *       same result, and one that is written all the time is never taken for
 *       less than it ever was.
 *   L3  The thread's own earlier changes are seen, as with any relaxed load.
 *
 * Not promised: that the values were there at the same moment.
 *
 * There are two forms. The plain one is C11. The other compares 32 slots at a
 * time with vectors, which C11 atomics do not have: its loads are VMOVDQA of
 * aligned 16 bytes in a line of assembly, so the compiler can neither split nor
 * repeat nor invent one, and the processor does not tear them: one with AVX
 * executes them atomically (Intel SDM volume 3A, "Guaranteed Atomic
 * Operations"; AMD APM volume 2, "Access Atomicity"). SSE alone promises
 * nothing and AVX nothing for 32 bytes, so AVX is asked for and half of its
 * width used. Under ThreadSanitizer, which does not see assembly, in
 * interleaving builds and on other processors there is only the plain form.
 *
 * Cost (bench/kernels.c, 2026-12-01, gcc, a loaded virtual machine, so at
 * most): 16, 64, 256, 1024 slots 10, 10, 33, 78 ns; plain 17, 54, 237, 728 ns.
 */

#include "base/atomic.h"

#define TRP_LEAST_DEAD (UINT32_C(1) << 31)
#define TRP_LEAST_NONE UINT32_MAX
/* Room for a multiple of so many, aligned to a cache line. */
#define TRP_LEAST_BLOCK 32u

/*
 * `start` < `count`. The room is read up to the next multiple of the block;
 * what stands there beyond `count` does not matter.
 */
typedef uint32_t (*trp_least_fn)(
    const TRP_ATOMIC(uint32_t) * slots, uint32_t count, uint32_t start);

uint32_t trp_least_plain(
    const TRP_ATOMIC(uint32_t) * slots, uint32_t count, uint32_t start);

/* The form for this processor; asks it, so keep the answer. */
trp_least_fn trp_least_best(void);

#endif /* TRP_BASE_LEAST_H */
