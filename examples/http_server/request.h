/* SPDX-License-Identifier: MIT */
#ifndef HTTP_REQUEST_H
#define HTTP_REQUEST_H

#include "buffer.h"
#include "routes.h"

#include <http_parser.h>

struct request;

/* Called from request_feed(). */
struct request_events {
    void (*begun)(struct request *request); /* its first byte was seen */
    /* The client waits for "100 Continue" before it sends the body. */
    void (*expects)(struct request *request);
    /*
     * The whole request is there: route, method, keep_alive and body can be
     * read until this returns. False = feed() stops after it.
     */
    bool (*completed)(struct request *request);
};

enum {
    TARGET_MOST = 8 * 1024,  /* else 414 */
    HEADERS_MOST = 16 * 1024 /* names and values together, else 431 */
};

/* The request that is being received on a connection, one after the other. */
struct request {
    const struct request_events *events;
    void *user;
    uint64_t max_body;
    http_parser parser;

    struct buffer target;
    struct buffer body; /* only kept for a route that reads it */
    struct route route; /* known before the body is received */
    bool keep_alive;
    bool receiving;     /* a part of it has arrived */
    uint16_t rejected;  /* status: this is no request we read; stop feeding */
    const char *reason; /* with it: static, or NULL */

    /* The header field that is being received, cut to what we compare. */
    char name[24];
    char value[32];
    size_t name_length;
    size_t value_length;
    size_t header_bytes;
    uint64_t body_bytes; /* also of a body that is not kept */
    bool in_value;
    bool head_done;
    uint32_t hosts;
    uint32_t encodings;
    bool chunked;
    bool wants_continue;
    bool wants_other;
};

void request_init(struct request *request, uint64_t max_body,
    const struct request_events *events, void *user);
void request_free(struct request *request);

/*
 * Parses. Returns how many bytes were used: fewer than given when completed()
 * said so, or when `rejected` is set, after which no more may be fed.
 */
size_t request_feed(struct request *request, const char *data, size_t bytes);

/* The body is the caller's from now on. */
struct buffer request_take_body(struct request *request);

#endif /* HTTP_REQUEST_H */
