/* SPDX-License-Identifier: MIT */
#ifndef TRP_BASE_OPTIONS_H
#define TRP_BASE_OPTIONS_H

#include <troupe/status.h>

/*
 * Copies what both sides know of an options struct. `from` starts with its own
 * size; bytes beyond `known` belong to a newer header and must be zero to be
 * ignored. `to` is complete afterwards: members that `from` lacks are zero.
 * NULL is refused. Refusals are recorded for `call`.
 */
troupe_status trp_options_copy(
    void *to, size_t known, const void *from, const char *call);

#endif /* TRP_BASE_OPTIONS_H */
