/* SPDX-License-Identifier: MIT */
#include "server.h"

#include "loop.h"

#include <stdio.h>
#include <stdlib.h>

static int
explain(troupe_status status)
{
    char why[200];

    troupe_explain(status, why, sizeof why);
    fprintf(stderr, "http_server: %s\n", why);
    return -1;
}

static int
start_runtime(struct server *server)
{
    troupe_system_options options = TROUPE_INIT(troupe_system_options);
    troupe_status status;

    options.name = "http";
    options.workers = (uint32_t)server->options.workers;
    status = troupe_system_create(&options, &server->system);
    if (status == TROUPE_OK) {
        status = pool_create(server, &server->pool);
    }
    return status == TROUPE_OK ? 0 : explain(status);
}

static int
start_loops(struct server *server)
{
    for (uint32_t i = 0; i < server->loop_count; i++) {
        if (loop_init(&server->loops[i], server, i) != 0) {
            return -1;
        }
    }
    for (uint32_t i = 0; i < server->loop_count; i++) {
        if (loop_start(&server->loops[i]) != 0) {
            return -1;
        }
    }
    return 0;
}

int
server_start(struct server *server, const struct options *options)
{
    *server = (struct server){.options = *options};
    server->loop_count = (uint32_t)options->loops;
    server->loops = calloc(server->loop_count, sizeof *server->loops);
    if (server->loops == NULL) {
        return explain(TROUPE_E_NOMEM);
    }
    if (start_runtime(server) != 0 || start_loops(server) != 0) {
        server_stop(server);
        return -1;
    }
    return 0;
}

/*
 * The one way down, also from half-way up: loops first, so that all answers
 * have been taken from their ports; then the ports; then the actors.
 */
int
server_stop(struct server *server)
{
    troupe_status status;

    for (uint32_t i = 0; i < server->loop_count; i++) {
        loop_stop(&server->loops[i]);
    }
    for (uint32_t i = 0; i < server->loop_count; i++) {
        loop_join(&server->loops[i]);
        loop_fini(&server->loops[i]);
    }
    status = troupe_system_destroy(server->system);
    if (status != TROUPE_OK) {
        return explain(status); /* actors still run and use what we have */
    }
    free(server->loops);
    return 0;
}
