/* SPDX-License-Identifier: MIT */
#ifndef TRP_SYSTEM_SPAWN_H
#define TRP_SYSTEM_SPAWN_H

#include <troupe/status.h>

/* The rules for a name that a caller gives (tree.h); E_INVALID with a record.
 */
troupe_status trp_spawn_check_name(const char *name, const char *call);

#endif /* TRP_SYSTEM_SPAWN_H */
