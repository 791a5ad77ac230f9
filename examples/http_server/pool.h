/* SPDX-License-Identifier: MIT */
#ifndef HTTP_POOL_H
#define HTTP_POOL_H

#include <troupe/troupe.h>

struct server;

/*
 * Spawns the actors that answer requests, /user/pool/routee-1 and so on, and
 * the router before them: what is sent to `*pool` goes to one of them.
 */
troupe_status pool_create(const struct server *server, troupe_ref *pool);

#endif /* HTTP_POOL_H */
