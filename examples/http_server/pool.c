/* SPDX-License-Identifier: MIT */
#include "pool.h"

#include "server.h"
#include "worker.h"

#include <stdio.h>
#include <stdlib.h>

troupe_status
pool_create(struct pool *pool, const struct server *server)
{
    const struct worker_arg arg = {server};
    uint32_t count = (uint32_t)server->options.actors;
    troupe_status status = TROUPE_OK;

    pool->actors = calloc(count, sizeof *pool->actors);
    if (pool->actors == NULL) {
        return TROUPE_E_NOMEM;
    }
    for (uint32_t i = 0; i < count && status == TROUPE_OK; i++) {
        troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
        char name[32];

        snprintf(name, sizeof name, "worker-%u", i);
        options.name = name;
        options.arg = &arg;
        options.arg_bytes = sizeof arg;
        status = troupe_system_spawn(
            server->system, &worker_type, &options, &pool->actors[i]);
    }
    if (status != TROUPE_OK) {
        pool_free(pool);
        return status;
    }
    pool->count = count;
    return TROUPE_OK;
}

void
pool_free(struct pool *pool)
{
    free(pool->actors);
    *pool = (struct pool){0};
}

troupe_ref
pool_choose(
    const struct pool *pool, const troupe_system *system, uint32_t *turn)
{
    uint32_t best = *turn < pool->count ? *turn : 0;
    uint32_t best_depth = troupe_depth(system, pool->actors[best]);
    uint32_t next = best;

    for (uint32_t i = 1; i < pool->count && best_depth != 0; i++) {
        uint32_t depth;

        next = next + 1 < pool->count ? next + 1 : 0;
        depth = troupe_depth(system, pool->actors[next]);
        if (depth < best_depth) {
            best_depth = depth;
            best = next;
        }
    }
    *turn = best + 1;
    return pool->actors[best];
}
