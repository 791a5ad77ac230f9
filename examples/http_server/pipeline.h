/* SPDX-License-Identifier: MIT */
#ifndef HTTP_PIPELINE_H
#define HTTP_PIPELINE_H

#include "response.h"

/*
 * The answers a connection owes, in the order of its requests: HTTP wants them
 * so, while actors finish in any order.
 */
struct pipeline {
    struct response *first;
    struct response **last;
    uint32_t serial;  /* of the next request */
    uint32_t due;     /* how many are owed */
    uint32_t waiting; /* of these: at actors */
};

void pipeline_init(struct pipeline *pipeline);
void pipeline_free(struct pipeline *pipeline);

/* One more is owed, with the next serial. NULL when out of memory. */
struct response *pipeline_add(struct pipeline *pipeline);
/* An actor has answered: where to put it. NULL for a serial not waited for. */
struct response *pipeline_answered(struct pipeline *pipeline, uint32_t serial);
/* Is the next one there? */
bool pipeline_is_ready(const struct pipeline *pipeline);
/* The next one, to write and free; it is not owed any more. */
struct response *pipeline_take(struct pipeline *pipeline);

#endif /* HTTP_PIPELINE_H */
