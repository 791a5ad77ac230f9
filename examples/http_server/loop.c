/* SPDX-License-Identifier: MIT */
#include "loop.h"

#include "connection.h"
#include "dispatch.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum {
    INBOX_BATCH = 128, /* messages before the sockets get their turn */
    LINGER_MS = 1000,  /* for a client to close after its last answer */
    DRAIN_MS = 5000    /* for a request to arrive completely after the stop */
};

static void
close_handle(uv_handle_t *handle, void *user)
{
    (void)user;
    if (!uv_is_closing(handle)) {
        uv_close(handle, NULL);
    }
}

/* The last connection has gone and no answer is due: lets uv_run() return. */
static void
end_if_done(struct loop *loop)
{
    if (loop->stopping && !loop->ending &&
        counter_read(&loop->counters.connections) == 0 &&
        counter_read(&loop->counters.waiting) == 0) {
        loop->ending = true;
        uv_walk(&loop->uv, close_handle, NULL);
    }
}

void
loop_connection_freed(struct loop *loop)
{
    end_if_done(loop);
}

static void
on_drain(uv_timer_t *timer)
{
    struct loop *loop = timer->data;

    for (uint32_t i = 0; i < loop->slots.count; i++) {
        struct connection *connection = loop->slots.items[i].connection;

        if (connection != NULL && connection->pipeline.waiting == 0) {
            connection_close(connection);
        }
    }
}

static void
stop_here(struct loop *loop)
{
    loop->stopping = true;
    uv_timer_start(&loop->drain, on_drain, DRAIN_MS, DRAIN_MS);
    for (uint32_t i = 0; i < loop->slots.count; i++) {
        if (loop->slots.items[i].connection != NULL) {
            connection_stop(loop->slots.items[i].connection);
        }
    }
}

static void
on_accepted(struct loop *loop, struct accepted *accepted)
{
    int fd = accepted->fd;

    accepted->fd = -1; /* moved out of the message */
    connection_open(loop, fd);
}

/* Whose answer is this? NULL: it has gone, the answer is for nobody. */
static struct connection *
find(struct loop *loop, struct ticket ticket)
{
    struct connection *connection =
        slots_find(&loop->slots, ticket.slot, ticket.generation);

    dispatch_done(loop);
    if (connection == NULL) {
        counter_add(&loop->counters.orphans, 1);
    }
    return connection;
}

/* Returns the connection that has an answer now, or NULL. */
static struct connection *
deliver(struct loop *loop, const troupe_msg *msg)
{
    struct connection *connection = NULL;
    const struct answer *answer;
    struct long_answer *long_answer;

    switch (troupe_msg_tag(msg)) {
    case TAG_ANSWER:
        answer = troupe_payload(msg, struct answer);
        connection = find(loop, answer->ticket);
        if (connection != NULL) {
            connection_answer(connection, answer);
        }
        break;
    case TAG_LONG_ANSWER:
        long_answer = troupe_payload_mut(msg, struct long_answer);
        connection = find(loop, long_answer->ticket);
        if (connection != NULL) {
            connection_long_answer(connection, long_answer);
        }
        break;
    case TAG_ACCEPTED:
        on_accepted(loop, troupe_payload_mut(msg, struct accepted));
        break;
    case TAG_STOP:
        stop_here(loop);
        break;
    default:
        break;
    }
    return connection;
}

/*
 * First all answers, then one write per connection: pipelined requests leave
 * in one packet. Nothing here frees a connection at once, see on_closed().
 */
static void
on_inbox(uv_poll_t *poll, int status, int events)
{
    struct loop *loop = poll->data;
    struct connection *touched[INBOX_BATCH];
    const troupe_msg *msg;
    size_t count = 0;

    (void)status;
    (void)events;
    for (int n = 0;
         n < INBOX_BATCH && (msg = troupe_port_next(loop->port)) != NULL; n++) {
        struct connection *connection = deliver(loop, msg);

        if (connection != NULL && !connection->touched) {
            connection->touched = true;
            touched[count++] = connection;
        }
    }
    for (size_t i = 0; i < count; i++) {
        touched[i]->touched = false;
        connection_settle(touched[i]);
    }
    end_if_done(loop);
}

static void
run(void *user)
{
    struct loop *loop = user;
    char name[16];

    snprintf(name, sizeof name, "http/loop%u", loop->number % 1000);
    pthread_setname_np(pthread_self(), name);
    uv_run(&loop->uv, UV_RUN_DEFAULT);
}

static int
init_handles(struct loop *loop)
{
    int error = uv_loop_init(&loop->uv);

    if (error != 0) {
        return error;
    }
    loop->has_uv = true;
    loop->inbox.data = loop;
    loop->drain.data = loop;
    error = uv_poll_init(&loop->uv, &loop->inbox, troupe_port_fd(loop->port));
    if (error == 0) {
        error = uv_timer_init(&loop->uv, &loop->drain);
    }
    if (error == 0) {
        error = deadlines_init(&loop->idle, &loop->uv,
            loop->server->options.idle_timeout_ms, connection_expired);
    }
    if (error == 0) {
        error = deadlines_init(
            &loop->linger, &loop->uv, LINGER_MS, connection_expired);
    }
    return error;
}

int
loop_init(struct loop *loop, struct server *server, uint32_t number)
{
    char name[32];
    char why[160];
    troupe_status status;
    int error;

    loop->server = server;
    loop->number = number;
    snprintf(name, sizeof name, "loop-%u", number);
    status = troupe_port_open(server->system, name, &loop->port);
    if (status != TROUPE_OK) {
        troupe_explain(status, why, sizeof why);
        fprintf(stderr, "http_server: %s\n", why);
        return -1;
    }
    error = init_handles(loop);
    if (error != 0) {
        fprintf(stderr, "http_server: event loop: %s\n", uv_strerror(error));
        return -1;
    }
    return 0;
}

int
loop_start(struct loop *loop)
{
    int error = uv_poll_start(&loop->inbox, UV_READABLE, on_inbox);

    if (error == 0) {
        error = uv_thread_create(&loop->thread, run, loop);
    }
    if (error != 0) {
        fprintf(stderr, "http_server: thread: %s\n", uv_strerror(error));
        return -1;
    }
    loop->running = true;
    return 0;
}

void
loop_stop(struct loop *loop)
{
    if (loop->running) {
        troupe_post_tell(loop->server->system, troupe_port_ref(loop->port),
            &stop_type, NULL);
    }
}

void
loop_join(struct loop *loop)
{
    if (loop->running) {
        uv_thread_join(&loop->thread);
        loop->running = false;
    }
}

void
loop_fini(struct loop *loop)
{
    if (loop->has_uv) {
        uv_walk(&loop->uv, close_handle, NULL);
        uv_run(&loop->uv, UV_RUN_DEFAULT);
        uv_loop_close(&loop->uv);
        loop->has_uv = false;
    }
    troupe_port_close(loop->port);
    loop->port = NULL;
    slots_free(&loop->slots);
}

void
loop_hand_over(struct loop *loop, int fd)
{
    const struct accepted accepted = {fd};

    /* tell always takes the payload: a refused one is dropped, fd and all. */
    troupe_post_tell(loop->server->system, troupe_port_ref(loop->port),
        &accepted_type, &accepted);
}

const char *
loop_date(struct loop *loop)
{
    time_t now = time(NULL);
    struct tm parts;

    if (now != loop->date_second) {
        loop->date_second = now;
        gmtime_r(&now, &parts);
        strftime(
            loop->date, sizeof loop->date, "%a, %d %b %Y %H:%M:%S GMT", &parts);
    }
    return loop->date;
}

const struct loop_counters *
loop_counters(const struct loop *loops, uint32_t index)
{
    return &loops[index].counters;
}
