/* SPDX-License-Identifier: MIT */
#ifndef HTTP_WORKER_H
#define HTTP_WORKER_H

#include <troupe/actor.h>

struct server;

struct worker_arg { /* for the spawn option `arg` */
    const struct server *server;
};

/* Answers requests, whichever comes. */
extern const troupe_actor_type worker_type;

#endif /* HTTP_WORKER_H */
