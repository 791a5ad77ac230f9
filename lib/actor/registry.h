/* SPDX-License-Identifier: MIT */
#ifndef TRP_ACTOR_REGISTRY_H
#define TRP_ACTOR_REGISTRY_H

/*
 * Names: {parent, name} -> cell. Cold: one lock, one table of chains through
 * the extras. Generated names are not in it: they spell the ref.
 */

#include "actor/cell.h"

/* All with core->names held. */

struct trp_extra *trp_registry_find_locked(
    struct trp_core *core, uint32_t parent, const char *name, size_t bytes);
/* False: no memory. The name must be free. */
bool trp_registry_add_locked(
    struct trp_core *core, uint32_t parent, struct trp_extra *extra);
void trp_registry_remove_locked(struct trp_core *core, struct trp_extra *extra);

void trp_registry_fini(struct trp_core *core);

/*
 * Writes the path of `ref`, at most `bytes` with the terminator; returns the
 * length needed, 0 when the actor has gone. Takes core->names.
 */
size_t trp_registry_path(
    struct trp_core *core, troupe_ref ref, char *text, size_t bytes);

#endif /* TRP_ACTOR_REGISTRY_H */
