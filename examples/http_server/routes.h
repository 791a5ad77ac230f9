/* SPDX-License-Identifier: MIT */
#ifndef HTTP_ROUTES_H
#define HTTP_ROUTES_H

#include <stddef.h>
#include <stdint.h>

enum { WORK_US_MAX = 1000000 };

enum route_kind {
    ROUTE_REFUSED,
    ROUTE_HELLO,
    ROUTE_WORK,
    ROUTE_HASH,
    ROUTE_STATS
};

/* What a method and a target ask for. */
struct route {
    enum route_kind kind;
    uint16_t status;    /* if refused */
    const char *reason; /* if refused: static, or NULL */
    const char *allow;  /* with 405: static */
    uint32_t us;        /* ROUTE_WORK */
};

/* `method` is an enum http_method. */
struct route route_find(unsigned method, const char *target, size_t bytes);

#endif /* HTTP_ROUTES_H */
