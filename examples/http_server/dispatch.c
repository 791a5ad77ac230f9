/* SPDX-License-Identifier: MIT */
#include "dispatch.h"

#include "loop.h"

static troupe_status
send_hash(struct loop *loop, troupe_ref pool, struct ticket ticket,
    struct request *request)
{
    struct buffer body = request_take_body(request);
    struct hash_request hash = {
        .ticket = ticket, .body = body.data, .bytes = body.length};
    troupe_status status =
        troupe_port_send(loop->port, pool, &hash_request_type, &hash);

    if (status != TROUPE_OK) {
        buffer_free(&body); /* refused, so still ours */
    }
    return status;
}

static troupe_status
send_to(struct loop *loop, troupe_ref pool, struct ticket ticket,
    struct request *request)
{
    const struct hello_request hello = {ticket};
    const struct work_request work = {ticket, request->route.us};
    const struct stats_request stats = {ticket};

    switch (request->route.kind) {
    case ROUTE_HELLO:
        return troupe_port_send(loop->port, pool, &hello_request_type, &hello);
    case ROUTE_WORK:
        return troupe_port_send(loop->port, pool, &work_request_type, &work);
    case ROUTE_HASH:
        return send_hash(loop, pool, ticket, request);
    case ROUTE_STATS:
        return troupe_port_send(loop->port, pool, &stats_request_type, &stats);
    case ROUTE_REFUSED:
        break;
    }
    return TROUPE_E_INVALID;
}

uint16_t
dispatch(struct loop *loop, struct ticket ticket, struct request *request)
{
    struct server *server = loop->server;
    if (atomic_fetch_add_explicit(&server->inflight, 1, memory_order_relaxed) >=
        server->options.max_inflight) {
        atomic_fetch_sub_explicit(&server->inflight, 1, memory_order_relaxed);
        counter_add(&loop->counters.busy, 1);
        return 503;
    }
    if (send_to(loop, server->pool, ticket, request) != TROUPE_OK) {
        atomic_fetch_sub_explicit(&server->inflight, 1, memory_order_relaxed);
        return 503; /* out of memory, or no actor is left */
    }
    counter_add(&loop->counters.dispatched, 1);
    counter_add(&loop->counters.waiting, 1);
    return 0;
}

void
dispatch_done(struct loop *loop)
{
    atomic_fetch_sub_explicit(&loop->server->inflight, 1, memory_order_relaxed);
    counter_add(&loop->counters.waiting, -1);
}
