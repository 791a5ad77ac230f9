/* SPDX-License-Identifier: MIT */
#include "request.h"

#include <string.h>
#include <strings.h>

/* What a callback returns to make http_parser_execute() stop. */
enum { STOP = -1 };

static int
reject(struct request *request, uint16_t status, const char *reason)
{
    request->rejected = status;
    request->reason = reason;
    return STOP;
}

static int
on_begin(http_parser *parser)
{
    struct request *request = parser->data;

    buffer_clear(&request->target);
    buffer_clear(&request->body);
    request->route = (struct route){.kind = ROUTE_REFUSED};
    request->receiving = true;
    request->name_length = 0;
    request->value_length = 0;
    request->header_bytes = 0;
    request->body_bytes = 0;
    request->in_value = false;
    request->head_done = false;
    request->hosts = 0;
    request->encodings = 0;
    request->chunked = false;
    request->wants_continue = false;
    request->wants_other = false;
    request->events->begun(request);
    return 0;
}

static int
on_url(http_parser *parser, const char *data, size_t bytes)
{
    struct request *request = parser->data;

    if (bytes > TARGET_MOST - request->target.length) {
        return reject(request, 414, NULL);
    }
    if (!buffer_append(&request->target, data, bytes)) {
        return reject(request, 503, "out of memory");
    }
    return 0;
}

/* Appends what fits; `*length` counts all of it, so a cut text is too long. */
static void
collect(
    char *text, size_t capacity, size_t *length, const char *data, size_t bytes)
{
    if (*length < capacity) {
        size_t room = capacity - *length;

        memcpy(text + *length, data, bytes < room ? bytes : room);
    }
    *length += bytes;
}

static bool
equals(const char *text, size_t length, const char *expected)
{
    return strlen(expected) == length &&
           strncasecmp(text, expected, length) == 0;
}

/* A field has been received: keeps what decides how to read the request. */
static void
end_field(struct request *request)
{
    size_t length = request->value_length;

    while (length > 0 && length <= sizeof request->value &&
           (request->value[length - 1] == ' ' ||
               request->value[length - 1] == '\t')) {
        length--;
    }
    if (equals(request->name, request->name_length, "host")) {
        request->hosts++;
    } else if (equals(
                   request->name, request->name_length, "transfer-encoding")) {
        request->encodings++;
        request->chunked = equals(request->value, length, "chunked");
    } else if (equals(request->name, request->name_length, "expect")) {
        request->wants_continue =
            equals(request->value, length, "100-continue");
        request->wants_other = !request->wants_continue;
    }
    request->name_length = 0;
    request->value_length = 0;
    request->in_value = false;
}

static int
count_header(struct request *request, size_t bytes)
{
    request->header_bytes += bytes;
    return request->header_bytes > HEADERS_MOST ? reject(request, 431, NULL)
                                                : 0;
}

static int
on_field(http_parser *parser, const char *data, size_t bytes)
{
    struct request *request = parser->data;

    if (request->in_value) {
        end_field(request);
    }
    /* Debian builds the parser without its strict mode, which checks this. */
    if (memchr(data, ' ', bytes) != NULL) {
        return reject(request, 400, "space in the name of a field");
    }
    if (!request->head_done) { /* trailers are read over */
        collect(request->name, sizeof request->name, &request->name_length,
            data, bytes);
    }
    return count_header(request, bytes);
}

static int
on_value(http_parser *parser, const char *data, size_t bytes)
{
    struct request *request = parser->data;

    request->in_value = true;
    collect(request->value, sizeof request->value, &request->value_length, data,
        bytes);
    return count_header(request, bytes);
}

/* May a request with this head be read at all? */
static int
check_head(struct request *request)
{
    const http_parser *parser = &request->parser;

    if (parser->http_major != 1) {
        return reject(request, 505, "only HTTP/1.x");
    }
    if (request->hosts > 1 || (request->hosts == 0 && parser->http_minor > 0)) {
        return reject(request, 400, "exactly one Host field is needed");
    }
    if (parser->method == HTTP_CONNECT) {
        return reject(request, 501, "this is no proxy");
    }
    if (request->encodings > 0 && parser->http_minor == 0) {
        return reject(request, 400, "HTTP/1.0 has no Transfer-Encoding");
    }
    if (request->encodings > 1 ||
        (request->encodings == 1 && !request->chunked)) {
        return reject(request, 501, "only chunked Transfer-Encoding");
    }
    if (request->wants_other) {
        return reject(request, 417, NULL);
    }
    if ((parser->flags & F_CONTENTLENGTH) != 0 &&
        parser->content_length > request->max_body) {
        return reject(request, 413, NULL);
    }
    return 0;
}

static bool
announces_body(const http_parser *parser)
{
    return (parser->flags & F_CHUNKED) != 0 ||
           ((parser->flags & F_CONTENTLENGTH) != 0 &&
               parser->content_length > 0);
}

static int
on_head(http_parser *parser)
{
    struct request *request = parser->data;

    if (request->in_value) {
        end_field(request);
    }
    request->head_done = true;
    request->header_bytes = 0; /* from here on those of a trailer */
    parser->upgrade = 0; /* we never switch protocols: an Upgrade is ignored */
    if (check_head(request) != 0) {
        return STOP;
    }
    request->route = route_find(
        parser->method, request->target.data, request->target.length);
    if (request->wants_continue && parser->http_minor > 0 &&
        announces_body(parser)) {
        if (request->route.kind == ROUTE_REFUSED) {
            return reject(
                request, request->route.status, request->route.reason);
        }
        request->events->expects(request);
    }
    return 0;
}

static int
on_body(http_parser *parser, const char *data, size_t bytes)
{
    struct request *request = parser->data;

    if (bytes > request->max_body - request->body_bytes) {
        return reject(request, 413, NULL); /* chunked: no length was named */
    }
    request->body_bytes += bytes;
    if (request->route.kind != ROUTE_HASH) {
        return 0; /* read over */
    }
    if (!buffer_append(&request->body, data, bytes)) {
        return reject(request, 503, "out of memory");
    }
    return 0;
}

static int
on_complete(http_parser *parser)
{
    struct request *request = parser->data;

    request->receiving = false;
    request->keep_alive = http_should_keep_alive(parser) != 0;
    if (!request->events->completed(request)) {
        http_parser_pause(parser, 1);
    }
    return 0;
}

void
request_init(struct request *request, uint64_t max_body,
    const struct request_events *events, void *user)
{
    *request = (struct request){
        .events = events,
        .user = user,
        .max_body = max_body,
    };
    http_parser_init(&request->parser, HTTP_REQUEST);
    request->parser.data = request;
}

void
request_free(struct request *request)
{
    buffer_free(&request->target);
    buffer_free(&request->body);
}

static uint16_t
status_of(enum http_errno error)
{
    return error == HPE_HEADER_OVERFLOW ? 431 : 400;
}

size_t
request_feed(struct request *request, const char *data, size_t bytes)
{
    static const http_parser_settings settings = {
        .on_message_begin = on_begin,
        .on_url = on_url,
        .on_header_field = on_field,
        .on_header_value = on_value,
        .on_headers_complete = on_head,
        .on_body = on_body,
        .on_message_complete = on_complete,
    };
    http_parser *parser = &request->parser;
    enum http_errno error;
    size_t used;

    if (HTTP_PARSER_ERRNO(parser) == HPE_PAUSED) {
        http_parser_pause(parser, 0);
    }
    used = http_parser_execute(parser, &settings, data, bytes);
    error = HTTP_PARSER_ERRNO(parser);
    if (error != HPE_OK && error != HPE_PAUSED && request->rejected == 0) {
        reject(request, status_of(error), http_errno_description(error));
    }
    return used;
}

struct buffer
request_take_body(struct request *request)
{
    struct buffer body = request->body;

    request->body = (struct buffer){0};
    return body;
}
