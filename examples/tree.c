/* SPDX-License-Identifier: MIT */
/*
 * Every actor has a parent and a path. A shop spawns named departments, finds
 * them again by name, and main() finds one by its path. When the shop stops,
 * its children are gone first.
 */
#include <troupe/troupe.h>

#include <poll.h>
#include <stdio.h>

enum { TAG_OPEN = 1, TAG_OPENED, TAG_WHERE, TAG_PLACE, PATH_BYTES = 64 };

struct place {
    char path[PATH_BYTES];
};

TROUPE_MSG_TYPE_EMPTY(open_it, TAG_OPEN);
TROUPE_MSG_TYPE_EMPTY(opened, TAG_OPENED);
TROUPE_MSG_TYPE_EMPTY(where, TAG_WHERE);
TROUPE_MSG_TYPE(place, struct place, TAG_PLACE);

static troupe_verdict
department_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct place here;

    (void)state;
    if (!troupe_msg_is(msg, &where)) {
        return TROUPE_UNHANDLED;
    }
    troupe_path(troupe_self_system(self), troupe_self_ref(self), here.path,
        sizeof here.path);
    troupe_reply(self, &place, &here);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type department_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "department",
    .receive = department_receive,
};

/* Names are unique among siblings: the second "books" is refused. */
static troupe_status
spawn_departments(troupe_self *self)
{
    static const char *const names[] = {"books", "music", "books", "toys"};
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    troupe_ref child;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        troupe_status status;

        options.name = names[i];
        status = troupe_spawn(self, &department_type, &options, &child);
        if (status == TROUPE_E_EXISTS) {
            printf("%s: %s\n", names[i], troupe_status_text(status));
        } else if (status != TROUPE_OK) {
            return status;
        }
    }
    return TROUPE_OK;
}

static troupe_verdict
shop_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    troupe_status status;

    (void)state;
    if (!troupe_msg_is(msg, &open_it)) {
        return TROUPE_UNHANDLED;
    }
    status = spawn_departments(self);
    if (status != TROUPE_OK) {
        return troupe_fail(self, (int32_t)status);
    }
    printf("%zu children, music is %s\n", troupe_children(self, NULL, 0),
        troupe_ref_is_none(troupe_child(self, "music")) ? "missing" : "there");
    troupe_reply(self, &opened, NULL);
    return TROUPE_CONTINUE;
}

static void
shop_stop(troupe_self *self, void *state, const troupe_exit *why)
{
    (void)state;
    printf("the shop stops with %zu children, %s\n",
        troupe_children(self, NULL, 0),
        why->kind == TROUPE_EXIT_STOPPED ? "as it was told" : "by itself");
}

static const troupe_actor_type shop_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "shop",
    .receive = shop_receive,
    .stop = shop_stop,
};

static const troupe_msg *
ask(troupe_port *port, troupe_ref whom, const troupe_msg_type *question)
{
    struct pollfd fd = {.fd = troupe_port_fd(port), .events = POLLIN};
    const troupe_msg *msg = NULL;

    if (troupe_port_send(port, whom, question, NULL) != TROUPE_OK) {
        return NULL;
    }
    while ((msg = troupe_port_next(port)) == NULL && poll(&fd, 1, 10000) > 0) {
    }
    return msg;
}

static int
visit(troupe_system *system, troupe_port *port, troupe_ref shop)
{
    const troupe_msg *msg;
    troupe_ref books;

    if (ask(port, shop, &open_it) == NULL ||
        troupe_lookup(system, "/user/shop/books", &books) != TROUPE_OK) {
        return 1;
    }
    msg = ask(port, books, &where);
    if (msg == NULL || !troupe_msg_is(msg, &place)) {
        return 1;
    }
    printf("found %s\n", troupe_payload(msg, struct place)->path);
    if (troupe_stop_wait(system, &shop, 1, TROUPE_S(10)) != TROUPE_OK) {
        return 1;
    }
    printf("books afterwards: %s\n",
        troupe_status_text(troupe_lookup(system, "/user/shop/books", &books)));
    return 0;
}

int
main(void)
{
    troupe_system_options system_options = TROUPE_INIT(troupe_system_options);
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    troupe_system *system;
    troupe_port *port;
    troupe_ref shop;
    int bad;

    system_options.name = "town";
    options.name = "shop";
    if (troupe_system_create(&system_options, &system) != TROUPE_OK ||
        troupe_system_spawn(system, &shop_type, &options, &shop) != TROUPE_OK ||
        troupe_port_open(system, "visitor", &port) != TROUPE_OK) {
        return 1;
    }
    bad = visit(system, port, shop);
    troupe_port_close(port);
    return troupe_system_destroy(system) == TROUPE_OK ? bad : 1;
}
