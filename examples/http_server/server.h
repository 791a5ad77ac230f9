/* SPDX-License-Identifier: MIT */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include "options.h"
#include "pool.h"

#include <stdatomic.h>

struct loop;

/*
 * What the threads share: constant while they run, except `inflight`, which all
 * loops change, and the counters inside the loops.
 */
struct server {
    struct options options;
    troupe_system *system;
    troupe_ref pool; /* a router */
    struct loop *loops;
    uint32_t loop_count;
    _Atomic(uint64_t) inflight; /* requests at actors, of all loops */
};

/* Starts actors and loops; says on stderr what failed and leaves nothing. */
int server_start(struct server *server, const struct options *options);
/* Requests that have arrived are answered first. 0, or -1 and a line. */
int server_stop(struct server *server);

#endif /* HTTP_SERVER_H */
