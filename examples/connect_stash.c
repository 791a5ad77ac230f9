/* SPDX-License-Identifier: MIT */
/*
 * A client that needs a connection before it can work: queries that come while
 * there is none wait in its stash, and are answered first, in order, once it is
 * up. How many may wait is the capacity of the stash; the rest are told so.
 */
#include <troupe/troupe.h>

#include <stdio.h>
#include <stdlib.h>

enum { TAG_QUERY = 1, TAG_CONNECTED, TAG_LOST };
enum { PATIENCE = 3 };

struct query {
    uint32_t number;
};
struct line {
    int fd; /* of the connection; here only a number */
};

TROUPE_MSG_TYPE(query, struct query, TAG_QUERY);
TROUPE_MSG_TYPE(connected, struct line, TAG_CONNECTED);
TROUPE_MSG_TYPE_EMPTY(lost, TAG_LOST);

/* --- the client ----------------------------------------------------------- */

struct client {
    int fd;
};

static troupe_verdict when_down(
    troupe_self *self, void *state, const troupe_msg *msg);

static troupe_verdict
when_up(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct client *client = state;

    switch (troupe_msg_tag(msg)) {
    case TAG_QUERY:
        printf("query %u goes over line %d\n",
            (unsigned)troupe_payload(msg, struct query)->number, client->fd);
        return TROUPE_CONTINUE;
    case TAG_LOST:
        puts("the line is lost");
        troupe_become(self, when_down);
        return TROUPE_CONTINUE;
    default:
        return TROUPE_UNHANDLED;
    }
}

/* It is not handled yet: it moves to the stash, with its sender. */
static void
postpone(troupe_self *self, const troupe_msg *msg)
{
    unsigned number = (unsigned)troupe_payload(msg, struct query)->number;

    if (troupe_stash(self) == TROUPE_OK) {
        printf("query %u waits\n", number);
    } else { /* still the current one; who has a sender replies to it */
        printf("query %u is refused: too many wait\n", number);
    }
}

static troupe_verdict
when_down(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct client *client = state;

    switch (troupe_msg_tag(msg)) {
    case TAG_QUERY:
        postpone(self, msg);
        return TROUPE_CONTINUE;
    case TAG_CONNECTED:
        client->fd = troupe_payload(msg, struct line)->fd;
        printf("line %d is up, %u waited\n", client->fd,
            (unsigned)troupe_stash_length(self));
        troupe_become(self, when_up);
        return troupe_check(self, troupe_unstash(self, 0));
    default:
        return TROUPE_UNHANDLED;
    }
}

static const troupe_spawn_options client_defaults = {
    .size = TROUPE_OPTIONS(troupe_spawn_options),
    .stash_capacity = PATIENCE,
};
static const troupe_actor_type client_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "client",
    .state_bytes = sizeof(struct client),
    .receive = when_down,
    .defaults = &client_defaults,
};

/* --- main: users and the network ------------------------------------------ */

static troupe_status
ask(troupe_system *system, troupe_ref client, uint32_t first, uint32_t last)
{
    troupe_status status = TROUPE_OK;

    for (uint32_t i = first; i <= last && status == TROUPE_OK; i++) {
        const struct query what = {i};

        status = troupe_post(system, client, &query, &what);
    }
    return status;
}

static troupe_status
connect_over(troupe_system *system, troupe_ref client, int fd)
{
    const struct line line = {fd};

    return troupe_post(system, client, &connected, &line);
}

static troupe_status
run(troupe_system *system)
{
    troupe_ref client;
    troupe_status status =
        troupe_system_spawn(system, &client_type, NULL, &client);

    /* Posts of one thread arrive in the order in which they were sent. */
    if (status == TROUPE_OK) {
        status = ask(system, client, 1, 4);
    }
    if (status == TROUPE_OK) {
        status = connect_over(system, client, 3);
    }
    if (status == TROUPE_OK) {
        status = ask(system, client, 5, 5);
    }
    if (status == TROUPE_OK) {
        status = troupe_post(system, client, &lost, NULL);
    }
    if (status == TROUPE_OK) {
        status = ask(system, client, 6, 6);
    }
    if (status == TROUPE_OK) {
        status = connect_over(system, client, 4);
    }
    if (status == TROUPE_OK) {
        status = troupe_system_await_idle(system, TROUPE_S(10));
    }
    return status;
}

int
main(void)
{
    troupe_system *system = NULL;
    char why[160];
    troupe_status status = troupe_system_create(NULL, &system);

    if (status == TROUPE_OK) {
        status = run(system);
    }
    if (status != TROUPE_OK) {
        troupe_explain(status, why, sizeof why);
        fprintf(stderr, "connect_stash: %s\n", why);
    }
    troupe_system_destroy(system);
    return status == TROUPE_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
