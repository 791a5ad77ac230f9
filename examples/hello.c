/* SPDX-License-Identifier: MIT */
/* The smallest whole program: two actors, one question, one answer. */
#include <troupe/troupe.h>

#include <stdio.h>
#include <stdlib.h>

enum { TAG_HELLO = 1, TAG_GREETING };

struct greeting {
    char text[48];
};

/* What can be sent: a name, a payload (or none), and a tag to switch on. */
TROUPE_MSG_TYPE_EMPTY(hello, TAG_HELLO);
TROUPE_MSG_TYPE(greeting, struct greeting, TAG_GREETING);

static troupe_verdict
greeter_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    const struct greeting answer = {"hello from an actor"};

    (void)state;
    if (!troupe_msg_is(msg, &hello)) {
        return TROUPE_UNHANDLED;
    }
    troupe_reply(self, &greeting, &answer);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type greeter_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "greeter",
    .receive = greeter_receive,
};

/* Its first turn: spawns the greeter as a child and asks it. */
static troupe_status
visitor_start(troupe_self *self, void *state, const void *arg)
{
    troupe_ref greeter;
    troupe_status status = troupe_spawn(self, &greeter_type, NULL, &greeter);

    (void)state;
    (void)arg;
    return status == TROUPE_OK ? troupe_send(self, greeter, &hello, NULL)
                               : status;
}

static troupe_verdict
visitor_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    if (!troupe_msg_is(msg, &greeting)) {
        return TROUPE_UNHANDLED;
    }
    puts(troupe_payload(msg, struct greeting)->text);
    troupe_system_request_stop(troupe_self_system(self)); /* wakes main() */
    return TROUPE_DONE; /* stops, its child first */
}

static const troupe_actor_type visitor_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "visitor",
    .receive = visitor_receive,
    .start = visitor_start,
};

int
main(void)
{
    troupe_system *system = NULL;
    troupe_ref visitor;
    char why[160];
    troupe_status status = troupe_system_create(NULL, &system);

    if (status == TROUPE_OK) {
        status = troupe_system_spawn(system, &visitor_type, NULL, &visitor);
    }
    if (status == TROUPE_OK) { /* until somebody requests a stop */
        status = troupe_system_wait(system, TROUPE_S(10));
    }
    if (status != TROUPE_OK) {
        troupe_explain(status, why, sizeof why);
        fprintf(stderr, "hello: %s\n", why);
    }
    troupe_system_destroy(system);
    return status == TROUPE_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
