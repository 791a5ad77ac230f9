/* SPDX-License-Identifier: MIT */
/*
 * A line server on epoll: the loop owns the sockets, actors do the work (they
 * answer in capitals), and the answers come back through a port. One line of a
 * client is at work at a time. A larger server: http_server/.
 */
#include <troupe/troupe.h>

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TAG_LINE = 1, TAG_ANSWER, LINE = 256, CLIENTS = 1024, WORKERS = 4 };

struct line {
    int fd;
    uint32_t serial; /* which opening of fd: a reused number is another */
    uint32_t length;
    char text[LINE];
};

TROUPE_MSG_TYPE(line_type, struct line, TAG_LINE);
TROUPE_MSG_TYPE(answer_type, struct line, TAG_ANSWER);

static troupe_verdict
worker_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct line answer;

    (void)state;
    if (!troupe_msg_is(msg, &line_type)) {
        return TROUPE_UNHANDLED;
    }
    answer = *troupe_payload(msg, struct line);
    for (uint32_t i = 0; i < answer.length; i++) {
        if (answer.text[i] >= 'a' && answer.text[i] <= 'z') {
            answer.text[i] = (char)(answer.text[i] - 'a' + 'A');
        }
    }
    troupe_reply(self, &answer_type, &answer);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type worker_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "worker",
    .receive = worker_receive,
};

struct client { /* index: its descriptor */
    uint32_t serial;
    bool working; /* a line of it is at an actor */
    uint32_t length;
    char text[LINE]; /* what has been received of the next lines */
};

struct server {
    troupe_system *system;
    troupe_port *port;
    troupe_ref workers[WORKERS];
    int epoll;
    int listener;
    int signals; /* readable when the program shall stop */
    bool stopping;
    struct client clients[CLIENTS];
};

static void
watch_fd(struct server *server, int operation, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.fd = fd};

    if (epoll_ctl(server->epoll, operation, fd, &event) != 0) {
        perror("epoll_ctl");
    }
}

static void
drop_client(struct server *server, int fd)
{
    struct client *client = &server->clients[fd];

    client->serial++; /* answers on their way are for nobody now */
    client->working = false;
    client->length = 0;
    close(fd);
}

static troupe_ref
idlest_worker(const struct server *server)
{
    troupe_ref best = server->workers[0];

    for (int i = 1; i < WORKERS; i++) {
        if (troupe_depth(server->system, server->workers[i]) <
            troupe_depth(server->system, best)) {
            best = server->workers[i];
        }
    }
    return best;
}

/*
 * Hands the next whole line to a worker, if there is one. Until it is answered
 * the client is not read, so it gets no buffer without end.
 */
static void
dispatch(struct server *server, int fd)
{
    struct client *client = &server->clients[fd];
    struct line line = {.fd = fd, .serial = client->serial};
    const char *end = memchr(client->text, '\n', client->length);

    if (end == NULL && client->length == LINE) {
        drop_client(server, fd); /* longer than a line may be */
        return;
    }
    if (end == NULL) {
        watch_fd(server, EPOLL_CTL_MOD, fd, EPOLLIN);
        return;
    }
    line.length = (uint32_t)(end + 1 - client->text);
    memcpy(line.text, client->text, line.length);
    client->length -= line.length;
    memmove(client->text, end + 1, client->length);
    client->working = troupe_port_send(server->port, idlest_worker(server),
                          &line_type, &line) == TROUPE_OK;
    if (client->working) {
        watch_fd(server, EPOLL_CTL_MOD, fd, 0); /* 0: only a reset is told */
    } else {
        drop_client(server, fd);
    }
}

static void
on_client(struct server *server, int fd)
{
    struct client *client = &server->clients[fd];
    ssize_t got;

    got = recv(fd, client->text + client->length, LINE - client->length, 0);
    if (got <= 0 || client->working) {
        drop_client(server, fd);
        return;
    }
    client->length += (uint32_t)got;
    dispatch(server, fd);
}

static void
on_answers(struct server *server)
{
    const troupe_msg *msg;

    for (int n = 0; n < 64 && (msg = troupe_port_next(server->port)); n++) {
        const struct line *line = troupe_payload(msg, struct line);
        struct client *client = &server->clients[line->fd];

        if (client->serial != line->serial) {
            continue; /* it has gone, somebody else may have its number */
        }
        client->working = false;
        if (send(line->fd, line->text, line->length,
                MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)line->length) {
            drop_client(server, line->fd); /* does not read its answers */
        } else {
            dispatch(server, line->fd);
        }
    }
}

static void
on_listener(struct server *server)
{
    int fd =
        accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd >= CLIENTS) {
        close(fd);
    } else if (fd >= 0) {
        watch_fd(server, EPOLL_CTL_ADD, fd, EPOLLIN);
    }
}

static void
on_event(struct server *server, int fd)
{
    if (fd == troupe_port_fd(server->port)) {
        on_answers(server);
    } else if (fd == server->listener) {
        on_listener(server);
    } else if (fd == server->signals) {
        server->stopping = true;
    } else {
        on_client(server, fd);
    }
}

static void
serve(struct server *server)
{
    struct epoll_event events[64];

    while (!server->stopping) {
        int n = epoll_wait(server->epoll, events, 64, -1);

        for (int i = 0; i < n; i++) {
            on_event(server, events[i].data.fd);
        }
    }
}

static int
listen_anywhere(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t bytes = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(fd, 128) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &bytes) != 0) {
        perror("listen");
        return -1;
    }
    printf("listening on 127.0.0.1:%u\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

int
main(void)
{
    static struct server server;
    sigset_t stop;

    sigemptyset(&stop);
    sigaddset(&stop, SIGINT);
    sigaddset(&stop, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &stop, NULL); /* before troupe's threads */
    if (troupe_system_create(NULL, &server.system) != TROUPE_OK ||
        troupe_port_open(server.system, "loop", &server.port) != TROUPE_OK) {
        return 1;
    }
    for (int i = 0; i < WORKERS; i++) {
        if (troupe_system_spawn(server.system, &worker_type, NULL,
                &server.workers[i]) != TROUPE_OK) {
            return 1;
        }
    }
    server.epoll = epoll_create1(EPOLL_CLOEXEC);
    server.signals = signalfd(-1, &stop, SFD_CLOEXEC);
    server.listener = listen_anywhere();
    if (server.listener < 0 || server.signals < 0 || server.epoll < 0) {
        return 1;
    }
    watch_fd(&server, EPOLL_CTL_ADD, server.listener, EPOLLIN);
    watch_fd(&server, EPOLL_CTL_ADD, server.signals, EPOLLIN);
    watch_fd(&server, EPOLL_CTL_ADD, troupe_port_fd(server.port), EPOLLIN);
    serve(&server);
    troupe_port_close(server.port);
    return troupe_system_destroy(server.system) == TROUPE_OK ? 0 : 1;
}
