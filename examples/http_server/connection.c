/* SPDX-License-Identifier: MIT */
#include "connection.h"

#include "dispatch.h"
#include "loop.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    DUE_MOST = 64,       /* pipelined requests of one client; then it waits */
    OUT_MOST = 64 * 1024 /* bytes of answers that a client has not read yet */
};

static const char continue_text[] = "HTTP/1.1 100 Continue\r\n\r\n";

static struct connection *
of_request(struct request *request)
{
    return request->user;
}

static struct connection *
of_deadline(struct deadline *deadline)
{
    return (struct connection *)(void *)((char *)deadline -
                                         offsetof(struct connection, deadline));
}

/* --- requests ------------------------------------------------------------ */

/* One more answer is owed; NULL after closing when out of memory. */
static struct response *
owe(struct connection *connection)
{
    struct response *response = pipeline_add(&connection->pipeline);

    if (response == NULL) {
        connection_close(connection);
    }
    return response;
}

static void
on_begun(struct request *request)
{
    struct connection *connection = of_request(request);

    /* The whole of it has to arrive in time; single bytes buy nothing. */
    if (connection->pipeline.waiting == 0) {
        deadlines_set(&connection->loop->idle, &connection->deadline);
    }
}

static void
on_expects(struct request *request)
{
    of_request(request)->continue_due = true;
}

static bool
on_completed(struct request *request)
{
    struct connection *connection = of_request(request);
    struct loop *loop = connection->loop;
    struct ticket ticket = connection->ticket;
    uint16_t status = request->route.status;
    struct response *response = owe(connection);
    const struct route *route = &request->route;

    if (response == NULL) {
        return false;
    }
    ticket.serial = response->serial;
    counter_add(&loop->counters.requests, 1);
    connection->continue_due = false;
    response->head_only = request->parser.method == HTTP_HEAD;
    response->http10 = request->parser.http_minor == 0;
    response->allow = route->allow;
    if (route->kind != ROUTE_REFUSED) {
        status = dispatch(loop, ticket, request);
    }
    if (status != 0) {
        response_refuse(response, status, route->reason);
    } else {
        connection->pipeline.waiting++;
    }
    if (!request->keep_alive || loop->stopping) {
        connection->finishing = true;
    }
    return !connection->finishing && connection->pipeline.due < DUE_MOST;
}

/* What arrives cannot be read as a request: says so and reads no further. */
static void
reject(struct connection *connection, uint16_t status, const char *reason)
{
    struct response *response = owe(connection);

    connection->finishing = true;
    connection->continue_due = false;
    if (response != NULL) {
        response_refuse(response, status, reason);
    }
}

/* Returns how many bytes were used; the rest has to wait. */
static size_t
parse(struct connection *connection, const char *data, size_t bytes)
{
    struct request *request = &connection->request;
    size_t used = request_feed(request, data, bytes);

    if (connection->closing || connection->finishing) {
        return bytes;
    }
    if (request->rejected != 0) {
        reject(connection, request->rejected, request->reason);
        return bytes;
    }
    return used;
}

/* True if there was something to parse and room for its answers. */
static bool
parse_pending(struct connection *connection)
{
    struct buffer *pending = &connection->pending;

    if (connection->finishing) {
        buffer_clear(pending);
    }
    if (pending->length == 0 || connection->pipeline.due >= DUE_MOST ||
        connection->out.length >= OUT_MOST) {
        return false;
    }
    buffer_consume(pending, parse(connection, pending->data, pending->length));
    if (pending->length == 0) {
        buffer_clear(pending);
    }
    return !connection->closing;
}

/* --- answers ------------------------------------------------------------- */

void
connection_answer(struct connection *connection, const struct answer *answer)
{
    struct response *response =
        pipeline_answered(&connection->pipeline, answer->ticket.serial);

    if (response != NULL) {
        response_set(response, answer->status, answer->text, answer->length);
    }
}

void
connection_long_answer(
    struct connection *connection, struct long_answer *answer)
{
    struct response *response =
        pipeline_answered(&connection->pipeline, answer->ticket.serial);

    if (response != NULL) {
        response_set_json(
            response, (uint16_t)answer->status, answer->text, answer->length);
        answer->text = NULL; /* moved out of the message */
    }
}

static void
count_answer(struct loop_counters *counters, uint16_t status)
{
    if (status < 300) {
        counter_add(&counters->answers_2xx, 1);
    } else if (status < 500) {
        counter_add(&counters->answers_4xx, 1);
    } else {
        counter_add(&counters->answers_5xx, 1);
    }
}

/* Moves the next answer to `out`. False when out of memory. */
static bool
write_next(struct connection *connection)
{
    struct response *response = pipeline_take(&connection->pipeline);
    struct loop *loop = connection->loop;
    bool last = connection->finishing && connection->pipeline.due == 0;
    bool good =
        response_write(response, last, loop_date(loop), &connection->out);

    connection->told = connection->told || last;
    count_answer(&loop->counters, response->status);
    response_free(response);
    return good;
}

static bool
write_answers(struct connection *connection)
{
    while (pipeline_is_ready(&connection->pipeline) &&
           connection->out.length < OUT_MOST) {
        if (!write_next(connection)) {
            return false;
        }
    }
    if (connection->continue_due && connection->pipeline.due == 0) {
        connection->continue_due = false;
        return buffer_append(
            &connection->out, continue_text, sizeof continue_text - 1);
    }
    return true;
}

static void
on_written(uv_write_t *write, int status)
{
    struct connection *connection = write->handle->data;

    connection->writing = false;
    buffer_clear(&connection->sending);
    if (status < 0) {
        connection_close(connection);
        return;
    }
    deadline_clear(&connection->deadline); /* the client reads: a new period */
    connection_settle(connection);
}

/* Gives `out` to the kernel, or to libuv. False when the client has gone. */
static bool
send_output(struct connection *connection)
{
    uv_stream_t *stream = (uv_stream_t *)&connection->tcp;
    struct buffer free_one = connection->sending;
    uv_buf_t bytes;
    int sent;

    if (connection->writing || connection->out.length == 0) {
        return true;
    }
    bytes = uv_buf_init(connection->out.data, (unsigned)connection->out.length);
    sent = uv_try_write(stream, &bytes, 1);
    if (sent < 0 && sent != UV_EAGAIN) {
        return false;
    }
    buffer_consume(&connection->out, sent > 0 ? (size_t)sent : 0);
    if (connection->out.length == 0) {
        buffer_clear(&connection->out);
        deadline_clear(&connection->deadline);
        return true;
    }
    connection->sending = connection->out;
    connection->out = free_one;
    connection->writing = true;
    bytes = uv_buf_init(
        connection->sending.data, (unsigned)connection->sending.length);
    return uv_write(&connection->write, stream, &bytes, 1, on_written) == 0;
}

/* --- the socket ---------------------------------------------------------- */

static void
on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    struct connection *connection = handle->data;

    (void)suggested;
    *buffer = uv_buf_init(connection->loop->read_buffer, LOOP_READ_BYTES);
}

static void
on_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buffer)
{
    struct connection *connection = stream->data;
    size_t used;

    if (got == 0) {
        return;
    }
    if (got < 0) {
        connection->ended = true;
        connection->finishing = true; /* what was asked is still answered */
        if (got != UV_EOF || connection->lingering) {
            connection_close(connection);
            return;
        }
    } else if (!connection->finishing) {
        used = parse(connection, buffer->base, (size_t)got);
        if (!connection->closing &&
            !buffer_append(&connection->pending, buffer->base + used,
                (size_t)got - used)) {
            connection_close(connection);
        }
    }
    connection_settle(connection);
}

static void
set_reading(struct connection *connection, bool reading)
{
    uv_stream_t *stream = (uv_stream_t *)&connection->tcp;

    if (reading == connection->reading) {
        return;
    }
    connection->reading = reading;
    if (!reading) {
        uv_read_stop(stream);
    } else if (uv_read_start(stream, on_alloc, on_read) != 0) {
        connection_close(connection);
    }
}

static void
on_shutdown(uv_shutdown_t *shutdown, int status)
{
    struct connection *connection = shutdown->handle->data;

    if (status < 0) {
        connection_close(connection);
    }
}

/* Everything is answered. */
static void
finish(struct connection *connection)
{
    if (connection->ended || !connection->told ||
        uv_shutdown(&connection->shutdown, (uv_stream_t *)&connection->tcp,
            on_shutdown) != 0) {
        connection_close(connection);
        return;
    }
    connection->lingering = true;
    deadlines_set(&connection->loop->linger, &connection->deadline);
    set_reading(connection, true);
}

/* The kernel has taken all of `out`, and there may be more to put there. */
static bool
can_go_on(const struct connection *connection)
{
    const struct pipeline *pipeline = &connection->pipeline;

    return !connection->writing && connection->out.length == 0 &&
           (pipeline_is_ready(pipeline) ||
               (connection->pending.length > 0 && pipeline->due < DUE_MOST));
}

/* False when the connection is closed, or has to be. */
static bool
write_and_parse(struct connection *connection)
{
    do {
        if (!write_answers(connection)) {
            return false;
        }
    } while (parse_pending(connection));
    return !connection->closing;
}

/* Parses, writes and sends until one of the three has to wait. */
static void
work(struct connection *connection)
{
    do {
        if (!write_and_parse(connection) || !send_output(connection)) {
            connection_close(connection);
            return;
        }
    } while (can_go_on(connection));
}

void
connection_settle(struct connection *connection)
{
    if (connection->closing || connection->lingering) {
        return;
    }
    work(connection);
    if (connection->closing) {
        return;
    }
    if (connection->finishing && connection->pipeline.due == 0 &&
        connection->out.length == 0 && !connection->writing) {
        finish(connection);
        return;
    }
    set_reading(connection, !connection->finishing && !connection->ended &&
                                connection->pending.length == 0 &&
                                connection->pipeline.due < DUE_MOST);
    if (connection->pipeline.waiting > 0) {
        deadline_clear(&connection->deadline); /* it is our turn */
    } else if (!connection->closing &&
               !deadline_is_set(&connection->deadline)) {
        deadlines_set(&connection->loop->idle, &connection->deadline);
    }
}

void
connection_expired(struct deadline *deadline)
{
    struct connection *connection = of_deadline(deadline);

    counter_add(&connection->loop->counters.timeouts, !connection->lingering);
    if (!connection->lingering && !connection->finishing &&
        connection->request.receiving && connection->pipeline.due == 0 &&
        !connection->writing) {
        reject(connection, 408, NULL);
        connection_settle(connection);
        return;
    }
    connection_close(connection);
}

/* --- begin and end ------------------------------------------------------- */

void
connection_open(struct loop *loop, int fd)
{
    static const struct request_events events = {
        .begun = on_begun, .expects = on_expects, .completed = on_completed};
    struct connection *connection = calloc(1, sizeof *connection);

    if (connection == NULL ||
        !slots_add(&loop->slots, connection, &connection->ticket.slot,
            &connection->ticket.generation)) {
        free(connection);
        close(fd);
        return;
    }
    connection->loop = loop;
    pipeline_init(&connection->pipeline);
    connection->tcp.data = connection;
    request_init(&connection->request, loop->server->options.max_body, &events,
        connection);
    counter_add(&loop->counters.connections, 1);
    counter_add(&loop->counters.accepted, 1);
    uv_tcp_init(&loop->uv, &connection->tcp);
    if (uv_tcp_open(&connection->tcp, fd) != 0) {
        close(fd);
        connection_close(connection);
        return;
    }
    uv_tcp_nodelay(&connection->tcp, 1);
    connection_settle(connection);
}

static bool
has_input(const struct connection *connection)
{
    uv_os_fd_t fd;
    char byte;

    return connection->reading &&
           uv_fileno((const uv_handle_t *)&connection->tcp, &fd) == 0 &&
           recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

/* A request that has begun to arrive, if only in the kernel, may complete. */
void
connection_stop(struct connection *connection)
{
    if (!connection->request.receiving && !has_input(connection)) {
        connection->finishing = true;
    }
    connection_settle(connection);
}

static void
on_closed(uv_handle_t *handle)
{
    struct connection *connection = handle->data;
    struct loop *loop = connection->loop;

    pipeline_free(&connection->pipeline);
    request_free(&connection->request);
    buffer_free(&connection->pending);
    buffer_free(&connection->out);
    buffer_free(&connection->sending);
    free(connection);
    counter_add(&loop->counters.connections, -1);
    loop_connection_freed(loop);
}

void
connection_close(struct connection *connection)
{
    if (connection->closing) {
        return;
    }
    connection->closing = true;
    deadline_clear(&connection->deadline);
    slots_remove(&connection->loop->slots, connection->ticket.slot);
    uv_close((uv_handle_t *)&connection->tcp, on_closed);
}
