/* SPDX-License-Identifier: MIT */
#ifndef TRP_SYSTEM_SPAWN_H
#define TRP_SYSTEM_SPAWN_H

#include "actor/core.h"

/* For what spawns in the name of another call. Refusals name the option. */

/* The rules for a name that a caller gives (tree.h). */
troupe_status trp_spawn_check_name(
    const char *name, const char *option, const char *call);
/* What troupe_spawn() would say of them. */
troupe_status trp_spawn_check(const troupe_actor_type *type,
    const troupe_spawn_options *options, const char *call);
/* troupe_spawn(), or with a `self` of NULL troupe_system_spawn(). */
troupe_status trp_spawn(struct trp_core *core, troupe_self *self,
    const char *call, const troupe_actor_type *type,
    const troupe_spawn_options *options, troupe_ref *actor);

/*
 * troupe_spawn() of a routee whose default mailbox is counted: R5 of
 * actor/rules.h. `*counter` is NULL afterwards if it has another one.
 */
troupe_status trp_spawn_counted(troupe_self *self,
    const troupe_actor_type *type, const troupe_spawn_options *options,
    TRP_ATOMIC(uint32_t) * *counter, bool counts_handled, troupe_ref *child);

/* The same for an actor that routes: actor/route.h. */
troupe_status trp_spawn_router(struct trp_core *core, troupe_self *self,
    const char *call, const troupe_actor_type *type,
    const troupe_spawn_options *options, troupe_ref *router);

#endif /* TRP_SYSTEM_SPAWN_H */
