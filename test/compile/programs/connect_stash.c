/* SPDX-License-Identifier: MIT */
/* Requests wait in the stash until the connection is up. */
#include <troupe/troupe.h>

enum { TAG_CONNECT = 1, TAG_CONNECTED, TAG_QUERY, TAG_LOST };

struct link {
    int fd;
};

TROUPE_MSG_TYPE_EMPTY(connect_now, TAG_CONNECT);
TROUPE_MSG_TYPE(connected, struct link, TAG_CONNECTED);

struct client {
    int fd;
    troupe_ref connector;
};

static troupe_verdict when_down(
    troupe_self *self, void *state, const troupe_msg *msg);

static troupe_verdict
when_up(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct client *client = state;

    switch (troupe_msg_tag(msg)) {
    case TAG_QUERY:
        troupe_log(self, TROUPE_LOG_DEBUG, "query over %d", client->fd);
        return TROUPE_CONTINUE;
    case TAG_LOST:
        client->fd = -1;
        troupe_become(self, when_down);
        troupe_tell(self, client->connector, &connect_now, NULL);
        return TROUPE_CONTINUE;
    default:
        return TROUPE_UNHANDLED;
    }
}

static troupe_verdict
when_down(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct client *client = state;
    const struct link *up;

    switch (troupe_msg_tag(msg)) {
    case TAG_QUERY:
        if (troupe_stash(self) != TROUPE_OK) {
            troupe_reply_failure(self, TROUPE_E_LIMIT); /* stash is full */
        }
        return TROUPE_CONTINUE;
    case TAG_CONNECTED:
        up = troupe_payload(msg, struct link);
        client->fd = up->fd;
        troupe_become(self, when_up);
        return troupe_check(self, troupe_unstash(self, 0));
    default:
        return TROUPE_UNHANDLED;
    }
}

static troupe_status
client_start(troupe_self *self, void *state, const void *arg)
{
    struct client *client = state;

    client->fd = -1;
    client->connector = *(const troupe_ref *)arg;
    return troupe_send(self, client->connector, &connect_now, NULL);
}

const troupe_actor_type client_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "client",
    .state_bytes = sizeof(struct client),
    .receive = when_down,
    .start = client_start,
};

static troupe_verdict
connector_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    const struct link up = {3};

    (void)state;
    (void)msg;
    troupe_reply(self, &connected, &up);
    return TROUPE_CONTINUE;
}

const troupe_actor_type connector_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "connector",
    .receive = connector_receive,
};
