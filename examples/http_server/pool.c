/* SPDX-License-Identifier: MIT */
#include "pool.h"

#include "server.h"
#include "worker.h"

troupe_status
pool_create(const struct server *server, troupe_ref *pool)
{
    const struct worker_arg arg = {server};
    troupe_spawn_options each = TROUPE_INIT(troupe_spawn_options);
    troupe_router_options options = TROUPE_INIT(troupe_router_options);

    each.arg = &arg;
    each.arg_bytes = sizeof arg;
    options.name = "pool";
    options.type = &worker_type;
    options.routee_options = &each;
    options.routees = (uint32_t)server->options.actors;
    options.routing = server->options.routing->strategy;
    options.flags = TROUPE_ROUTER_RESPAWN;
    return troupe_system_spawn_router(server->system, &options, pool);
}
