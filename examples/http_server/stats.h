/* SPDX-License-Identifier: MIT */
#ifndef HTTP_STATS_H
#define HTTP_STATS_H

#include <stddef.h>

struct server;

/*
 * The counters of the server, its loops, the runtime and its actors as JSON.
 * Any thread. The caller frees it; NULL when out of memory.
 */
char *stats_text(const struct server *server, size_t *length);

#endif /* HTTP_STATS_H */
