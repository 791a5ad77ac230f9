/* SPDX-License-Identifier: MIT */
#ifndef HTTP_LOOP_H
#define HTTP_LOOP_H

#include "counters.h"
#include "deadlines.h"
#include "server.h"
#include "slots.h"

#include <time.h>
#include <uv.h>

enum { LOOP_READ_BYTES = 64 * 1024 };

/*
 * A thread with a libuv loop that owns its connections. Everything from other
 * threads reaches it through its port: new connections and the order to stop
 * from the acceptor, answers from the actors.
 */
struct loop {
    uv_loop_t uv;
    uv_thread_t thread;
    uv_poll_t inbox; /* watches the port's descriptor */
    uv_timer_t drain;
    struct server *server;
    troupe_port *port;
    struct slots slots;
    struct deadlines idle;
    struct deadlines linger;
    uint32_t number;
    bool has_uv;
    bool running; /* the thread exists */
    bool stopping;
    bool ending;
    time_t date_second;
    char date[40];
    struct loop_counters counters;
    char read_buffer[LOOP_READ_BYTES]; /* for one read callback at a time */
};

/* Both 0, or -1 and a line on stderr. */
int loop_init(struct loop *loop, struct server *server, uint32_t number);
int loop_start(struct loop *loop);
/* Posts the order to stop, from any thread. */
void loop_stop(struct loop *loop);
/* Waits until it has stopped. Not started: nothing. */
void loop_join(struct loop *loop);
/* After the join. All zero is fine. */
void loop_fini(struct loop *loop);

/* The connection `fd` is the loop's from now on. Any thread. */
void loop_hand_over(struct loop *loop, int fd);

/* For the Date field. On the loop's thread. */
const char *loop_date(struct loop *loop);
/* A connection has been freed. On the loop's thread. */
void loop_connection_freed(struct loop *loop);

const struct loop_counters *loop_counters(
    const struct loop *loops, uint32_t index);

#endif /* HTTP_LOOP_H */
