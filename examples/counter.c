/* SPDX-License-Identifier: MIT */
/*
 * State, a start argument, messages posted by main(), and an answer that main()
 * reads through a port: a mailbox for a thread that is no actor.
 */
#include <troupe/troupe.h>

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>

enum { TAG_ADD = 1, TAG_READ, TAG_VALUE };

struct number {
    int64_t value;
};

TROUPE_MSG_TYPE(add, struct number, TAG_ADD);
TROUPE_MSG_TYPE_EMPTY(read_it, TAG_READ);
TROUPE_MSG_TYPE(value, struct number, TAG_VALUE);

/* `state` is zeroed memory of the actor's own; `arg` is a copy of the option.
 */
static troupe_status
counter_start(troupe_self *self, void *state, const void *arg)
{
    struct number *counter = state;
    const struct number *first = arg;

    (void)self;
    if (first != NULL) {
        *counter = *first;
    }
    return TROUPE_OK;
}

/* One thread at a time runs it, so no lock and no atomic is needed. */
static troupe_verdict
counter_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct number *counter = state;

    switch (troupe_msg_tag(msg)) {
    case TAG_ADD:
        counter->value += troupe_payload(msg, struct number)->value;
        return TROUPE_CONTINUE;
    case TAG_READ:
        troupe_reply(self, &value, counter);
        return TROUPE_CONTINUE;
    default:
        return TROUPE_UNHANDLED;
    }
}

static const troupe_actor_type counter_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "counter",
    .state_bytes = sizeof(struct number),
    .receive = counter_receive,
    .start = counter_start,
};

/* The descriptor is readable while the port has messages. */
static const troupe_msg *
wait_for_message(troupe_port *port)
{
    struct pollfd fd = {.fd = troupe_port_fd(port), .events = POLLIN};
    const troupe_msg *msg;

    while ((msg = troupe_port_next(port)) == NULL) {
        if (poll(&fd, 1, 10000) == 0) {
            return NULL;
        }
    }
    return msg;
}

/* Asks with the port as sender, so the reply comes back to it. */
static int
print_value(troupe_port *port, troupe_ref counter)
{
    const troupe_msg *msg;

    if (troupe_port_send(port, counter, &read_it, NULL) != TROUPE_OK) {
        return -1;
    }
    msg = wait_for_message(port);
    if (msg == NULL || !troupe_msg_is(msg, &value)) {
        return -1;
    }
    printf("%" PRId64 "\n", troupe_payload(msg, struct number)->value);
    return 0;
}

int
main(void)
{
    const struct number first = {1000};
    const struct number one = {1};
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    troupe_system *system;
    troupe_port *port;
    troupe_ref counter;
    int bad;

    options.name = "counter";
    options.arg = &first;
    options.arg_bytes = sizeof first;
    if (troupe_system_create(NULL, &system) != TROUPE_OK ||
        troupe_system_spawn(system, &counter_type, &options, &counter) !=
            TROUPE_OK ||
        troupe_port_open(system, "main", &port) != TROUPE_OK) {
        return 1;
    }
    for (int i = 0; i < 100000; i++) {
        troupe_port_tell(port, counter, &add, &one);
    }
    bad = print_value(port, counter); /* one sender, one receiver: in order */
    troupe_port_close(port);
    if (troupe_stop_wait(system, &counter, 1, TROUPE_S(10)) != TROUPE_OK) {
        bad = -1;
    }
    return troupe_system_destroy(system) == TROUPE_OK && bad == 0 ? 0 : 1;
}
