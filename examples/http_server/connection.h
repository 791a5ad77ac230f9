/* SPDX-License-Identifier: MIT */
#ifndef HTTP_CONNECTION_H
#define HTTP_CONNECTION_H

#include "deadlines.h"
#include "messages.h"
#include "pipeline.h"
#include "request.h"

#include <uv.h>

struct loop;

/*
 * A client. Belongs to one loop; only that loop's thread touches it.
 *
 *   reading    a request is received; nobody else knows of the connection
 *   waiting    requests are at actors, which hold tickets, not pointers
 *   finishing  no more requests are read; answers are still due
 *   lingering  everything is sent and the sending side closed: waits for the
 *              client to close, so that no reset destroys the last answer
 *   closing    libuv still has the handle; the memory goes in on_closed()
 */
struct connection {
    uv_tcp_t tcp;
    uv_write_t write;
    uv_shutdown_t shutdown;
    struct loop *loop;
    struct ticket ticket; /* the serial is that of a request */
    struct request request;
    struct deadline deadline;

    struct pipeline pipeline;

    struct buffer pending; /* received but not parsed: too many answers due */
    struct buffer out;     /* answers that libuv does not have yet */
    struct buffer sending; /* libuv has it until on_written() */

    bool reading; /* libuv delivers what arrives */
    bool writing; /* `sending` is in use */
    bool ended;   /* the client sends no more */
    bool finishing;
    bool lingering;
    bool closing;
    bool told;         /* that this was the last answer */
    bool continue_due; /* "100 Continue" waits for earlier answers */
    bool touched;      /* loop.c: in its list for connection_settle() */
};

/* Takes `fd`; closes it on failure. */
void connection_open(struct loop *loop, int fd);

/* From an actor; both ignore a serial they do not know. */
void connection_answer(
    struct connection *connection, const struct answer *answer);
void connection_long_answer(
    struct connection *connection, struct long_answer *answer);

/*
 * After any change: writes the answers that are next, parses what waited for
 * them, and does what follows (read, stop reading, end).
 */
void connection_settle(struct connection *connection);

/* The server stops: answers what has arrived, then ends. */
void connection_stop(struct connection *connection);
void connection_close(struct connection *connection);

/* For deadlines_init(). */
void connection_expired(struct deadline *deadline);

#endif /* HTTP_CONNECTION_H */
