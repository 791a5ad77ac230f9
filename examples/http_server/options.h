/* SPDX-License-Identifier: MIT */
#ifndef HTTP_OPTIONS_H
#define HTTP_OPTIONS_H

#include <troupe/router.h>

#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>

/* name, option, least, most, default, help */
#define OPTION_MAP(X)                                                          \
    X(port, "port", 0, 65535, 8080, "TCP port; 0 = any free one")              \
    X(loops, "loops", 0, 256, 0, "event loop threads; 0 = half the CPUs")      \
    X(workers, "workers", 0, 1024, 0,                                          \
        "troupe workers; 0 = TROUPE_WORKERS, else the CPUs")                   \
    X(actors, "actors", 1, 4096, 16, "actors that answer requests")            \
    X(max_inflight, "max-inflight", 1, 1000000, 1024,                          \
        "requests at actors; more are answered with 503")                      \
    X(max_body, "max-body", 0, 1073741824, 1048576,                            \
        "bytes of a request body; more are answered with 413")                 \
    X(idle_timeout_ms, "idle-timeout-ms", 10, 3600000, 30000,                  \
        "for a whole request, and between two of them")

/* A strategy of the pool, and what --routing calls it. The first is usual. */
struct routing {
    const char *name;
    troupe_routing strategy;
};

struct options {
    const struct routing *routing; /* static */
    const char *address;           /* of argv, or static */
    struct sockaddr_storage socket_address;
#define OPTION_MEMBER(name, option, least, most, initial, help) uint64_t name;
    OPTION_MAP(OPTION_MEMBER)
#undef OPTION_MEMBER
};

enum options_result { OPTIONS_RUN, OPTIONS_SHOWN, OPTIONS_BAD };

/*
 * Fills `options`. OPTIONS_SHOWN: --help or --version was asked for and printed
 * to `out`. OPTIONS_BAD: option, rule and value were printed to `errors`.
 */
enum options_result options_parse(
    struct options *options, int argc, char **argv, FILE *out, FILE *errors);

#endif /* HTTP_OPTIONS_H */
