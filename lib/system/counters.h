/* SPDX-License-Identifier: MIT */
#ifndef TRP_SYSTEM_COUNTERS_H
#define TRP_SYSTEM_COUNTERS_H

/* Sums of what workers and foreign threads have counted. */

#include <troupe/counters.h>

#include "actor/core.h"

/* All but `queued`, which takes a pass over all cells. */
void trp_counters_sum(const struct trp_core *core, troupe_counters *sums);

/* One member of struct trp_books; what is below 0 for a moment is 0. */
uint64_t trp_counters_extra(const struct trp_core *core, size_t offset);

#endif /* TRP_SYSTEM_COUNTERS_H */
