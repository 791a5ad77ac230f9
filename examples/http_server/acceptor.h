/* SPDX-License-Identifier: MIT */
#ifndef HTTP_ACCEPTOR_H
#define HTTP_ACCEPTOR_H

#include "server.h"

#include <signal.h>

/*
 * Takes SIGINT and SIGTERM out of the hands of every thread that is started
 * from now on. Call it first.
 */
void acceptor_block_signals(void);

/* Binds and listens; says on stderr why not. The descriptor, or -1. */
int acceptor_listen(const struct options *options);

/* "listening on 127.0.0.1:8080" on stdout: the port in use. */
void acceptor_announce(int listener);

/*
 * Hands connections to the loops in turn until SIGINT or SIGTERM comes, then
 * those that have come already, and closes the listener. From then on a
 * second signal ends the process at once. 0, or -1 and a line on stderr.
 */
int acceptor_run(int listener, const struct server *server);

#endif /* HTTP_ACCEPTOR_H */
