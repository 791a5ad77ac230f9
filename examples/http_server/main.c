/* SPDX-License-Identifier: MIT */
/* An HTTP/1.1 server whose requests are answered by actors; see README.md. */
#include "acceptor.h"
#include "options.h"
#include "server.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { EXIT_USAGE = 2 };

static int
serve(const struct options *options)
{
    struct server server;
    int listener = acceptor_listen(options);
    int bad;

    if (listener < 0) {
        return EXIT_FAILURE;
    }
    if (server_start(&server, options) != 0) {
        close(listener);
        return EXIT_FAILURE;
    }
    acceptor_announce(listener);
    bad = acceptor_run(listener, &server);
    return server_stop(&server) == 0 && bad == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int
main(int argc, char **argv)
{
    struct options options;

    switch (options_parse(&options, argc, argv, stdout, stderr)) {
    case OPTIONS_RUN:
        break;
    case OPTIONS_SHOWN:
        return EXIT_SUCCESS;
    case OPTIONS_BAD:
        return EXIT_USAGE;
    }
    acceptor_block_signals();
    if (sodium_init() < 0) {
        fprintf(stderr, "http_server: libsodium cannot be used here\n");
        return EXIT_FAILURE;
    }
    return serve(&options);
}
