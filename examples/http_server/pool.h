/* SPDX-License-Identifier: MIT */
#ifndef HTTP_POOL_H
#define HTTP_POOL_H

#include <troupe/troupe.h>

struct server;

/* The actors that answer requests. Constant once created. */
struct pool {
    troupe_ref *actors;
    uint32_t count;
};

/* Spawns them as /user/worker-0, .. Nothing to free on failure. */
troupe_status pool_create(struct pool *pool, const struct server *server);
/* After the system. */
void pool_free(struct pool *pool);

/*
 * The actor with the fewest waiting messages. `*turn` is the caller's own: who
 * comes first among equals moves on with each call.
 */
troupe_ref pool_choose(
    const struct pool *pool, const troupe_system *system, uint32_t *turn);

#endif /* HTTP_POOL_H */
