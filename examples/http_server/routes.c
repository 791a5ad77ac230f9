/* SPDX-License-Identifier: MIT */
#include "routes.h"

#include <http_parser.h>
#include <stdbool.h>
#include <string.h>

struct text {
    const char *data;
    size_t bytes;
};

static const struct endpoint {
    const char *path;
    enum route_kind kind;
    const char *allow;
} endpoints[] = {
    {"/", ROUTE_HELLO, "GET, HEAD"},
    {"/work", ROUTE_WORK, "GET, HEAD"},
    {"/hash", ROUTE_HASH, "POST"},
    {"/stats", ROUTE_STATS, "GET, HEAD"},
};

static struct route
refuse(uint16_t status, const char *reason)
{
    return (struct route){
        .kind = ROUTE_REFUSED, .status = status, .reason = reason};
}

static struct text
part(const char *target, const struct http_parser_url *url, int field)
{
    struct text text = {"", 0};

    if (url->field_set & (1u << field)) {
        text.data = target + url->field_data[field].off;
        text.bytes = url->field_data[field].len;
    }
    return text;
}

static bool
parse_us(struct text text, uint32_t *us)
{
    uint32_t value = 0;

    if (text.bytes == 0 || text.bytes > 7) {
        return false;
    }
    for (size_t i = 0; i < text.bytes; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') {
            return false;
        }
        value = value * 10 + (uint32_t)(text.data[i] - '0');
    }
    *us = value;
    return value <= WORK_US_MAX;
}

/* Cuts "a=1" off the front of "a=1&us=50". */
static struct text
next_parameter(struct text *query)
{
    const char *end = memchr(query->data, '&', query->bytes);
    struct text first = {query->data, query->bytes};

    if (end != NULL) {
        first.bytes = (size_t)(end - query->data);
        query->data = end + 1;
        query->bytes -= first.bytes + 1;
    } else {
        query->bytes = 0;
    }
    return first;
}

/* True if there is one parameter `us` and it is in range. */
static bool
find_us(struct text query, uint32_t *us)
{
    bool found = false;

    while (query.bytes > 0) {
        struct text parameter = next_parameter(&query);

        if (parameter.bytes < 3 || memcmp(parameter.data, "us=", 3) != 0) {
            continue;
        }
        parameter.data += 3;
        parameter.bytes -= 3;
        if (found || !parse_us(parameter, us)) {
            return false;
        }
        found = true;
    }
    return found;
}

static bool
allows(const struct endpoint *endpoint, unsigned method)
{
    return endpoint->kind == ROUTE_HASH
               ? method == HTTP_POST
               : method == HTTP_GET || method == HTTP_HEAD;
}

struct route
route_find(unsigned method, const char *target, size_t bytes)
{
    struct http_parser_url url;
    struct text path;
    struct route route = {.kind = ROUTE_REFUSED};

    http_parser_url_init(&url);
    if (http_parser_parse_url(target, bytes, 0, &url) != 0) {
        return refuse(400, "the request target is not a path or a URL");
    }
    path = part(target, &url, UF_PATH);
    if (path.bytes == 0) {
        path = (struct text){"/", 1}; /* http://host without a path */
    }
    for (size_t i = 0; i < sizeof endpoints / sizeof endpoints[0]; i++) {
        const struct endpoint *endpoint = &endpoints[i];

        if (strlen(endpoint->path) != path.bytes ||
            memcmp(endpoint->path, path.data, path.bytes) != 0) {
            continue;
        }
        if (!allows(endpoint, method)) {
            route = refuse(405, NULL);
            route.allow = endpoint->allow;
            return route;
        }
        if (endpoint->kind == ROUTE_WORK &&
            !find_us(part(target, &url, UF_QUERY), &route.us)) {
            return refuse(400, "us must be a whole number from 0 to 1000000");
        }
        route.kind = endpoint->kind;
        return route;
    }
    return refuse(404, NULL);
}
