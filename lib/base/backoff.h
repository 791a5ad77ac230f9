/* SPDX-License-Identifier: MIT */
#ifndef TRP_BASE_BACKOFF_H
#define TRP_BASE_BACKOFF_H

#include <troupe/backoff.h>

/*
 * A complete copy of a policy that can be carried out, to be kept by whoever
 * was given it. Refusals are recorded for `call` and name the member as
 * "backoff.min_ns".
 */
troupe_status trp_backoff_copy(
    troupe_backoff *copy, const troupe_backoff *given, const char *call);

/* The delay of a policy that trp_backoff_copy() has made. */
uint64_t trp_backoff_delay_ns(const troupe_backoff *policy, uint64_t attempt);

#endif /* TRP_BASE_BACKOFF_H */
