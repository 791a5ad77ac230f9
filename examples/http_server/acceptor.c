/* SPDX-License-Identifier: MIT */
#include "acceptor.h"

#include "loop.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    BACKLOG = 4096, /* the kernel cuts it to net.core.somaxconn */
    REST_MS = 100   /* after running out of descriptors */
};

static sigset_t
stop_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    return set;
}

void
acceptor_block_signals(void)
{
    sigset_t set = stop_signals();

    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN); /* a client that has gone is an EPIPE */
}

int
acceptor_listen(const struct options *options)
{
    struct sockaddr_storage address = options->socket_address;
    const int on = 1;
    socklen_t bytes = sizeof(struct sockaddr_in);
    in_port_t port = htons((uint16_t)options->port);
    int fd;

    if (address.ss_family == AF_INET6) {
        ((struct sockaddr_in6 *)&address)->sin6_port = port;
        bytes = sizeof(struct sockaddr_in6);
    } else {
        ((struct sockaddr_in *)&address)->sin_port = port;
    }
    fd = socket(
        address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(fd, (const struct sockaddr *)&address, bytes) != 0 ||
        listen(fd, BACKLOG) != 0) {
        fprintf(stderr, "http_server: cannot listen on %s port %u: %s\n",
            options->address, (unsigned)options->port, uv_strerror(-errno));
        if (fd >= 0) {
            close(fd);
        }
        return -1;
    }
    return fd;
}

void
acceptor_announce(int listener)
{
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } address = {.any = {.sa_family = AF_UNSPEC}};
    socklen_t bytes = sizeof address;
    char text[64] = "";

    if (getsockname(listener, &address.any, &bytes) != 0) {
        return;
    }
    if (address.any.sa_family == AF_INET6) {
        uv_ip6_name(&address.six, text, sizeof text);
        printf("listening on [%s]:%u\n", text, ntohs(address.six.sin6_port));
    } else {
        uv_ip4_name(&address.four, text, sizeof text);
        printf("listening on %s:%u\n", text, ntohs(address.four.sin_port));
    }
    fflush(stdout);
}

/* Accepts what is there. False when descriptors or memory have run out. */
static bool
accept_all(int listener, const struct server *server, uint32_t *turn)
{
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0) {
            loop_hand_over(&server->loops[*turn], fd);
            *turn = *turn + 1 < server->loop_count ? *turn + 1 : 0;
        } else if (errno == EAGAIN) {
            return true;
        } else if (errno != EINTR && errno != ECONNABORTED && errno != EPROTO &&
                   errno != EPERM) {
            return false;
        }
        /* else only that one connection failed */
    }
}

static void
accept_until_signal(int listener, int signals, const struct server *server)
{
    struct pollfd fds[2] = {
        {.fd = signals, .events = POLLIN}, {.fd = listener, .events = POLLIN}};
    uint32_t turn = 0;
    int rest_ms = -1;

    while (fds[0].revents == 0) {
        if (poll(fds, rest_ms < 0 ? 2 : 1, rest_ms) < 0 && errno != EINTR) {
            break;
        }
        rest_ms = accept_all(listener, server, &turn) ? -1 : REST_MS;
    }
}

int
acceptor_run(int listener, const struct server *server)
{
    sigset_t set = stop_signals();
    struct signalfd_siginfo got;
    int signals = signalfd(-1, &set, SFD_CLOEXEC);

    if (signals < 0) {
        fprintf(stderr, "http_server: signalfd: %s\n", uv_strerror(-errno));
        close(listener);
        return -1;
    }
    accept_until_signal(listener, signals, server);
    close(listener);
    if (read(signals, &got, sizeof got) == (ssize_t)sizeof got) {
        fprintf(stderr, "http_server: stopping\n");
    }
    close(signals);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL); /* the default: it kills */
    return 0;
}
