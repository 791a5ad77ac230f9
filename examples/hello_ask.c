/* SPDX-License-Identifier: MIT */

/* Ask an actor from main() and print what it says. */
#include <troupe/troupe.h>

#include <stdio.h>
#include <stdlib.h>

enum { TAG_HELLO = 1, TAG_GREETING };

struct greeting {
    char text[48];
};

TROUPE_MSG_TYPE_EMPTY(hello, TAG_HELLO);
TROUPE_MSG_TYPE(greeting, struct greeting, TAG_GREETING);

static troupe_verdict
greeter_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct greeting answer = {"hello from an actor"};

    (void)state;
    if (troupe_msg_tag(msg) != TAG_HELLO) {
        return TROUPE_UNHANDLED;
    }
    troupe_reply(self, &greeting, &answer);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type greeter = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "greeter",
    .receive = greeter_receive,
};

static troupe_status
run(troupe_system *system)
{
    troupe_ref actor;
    troupe_answer answer;
    troupe_status status = troupe_system_spawn(system, &greeter, NULL, &actor);

    if (status != TROUPE_OK) {
        return status;
    }
    status = troupe_ask_wait(
        system, actor, &hello, NULL, TROUPE_TIMEOUT_DEFAULT, &answer);
    if (status == TROUPE_OK) {
        const struct greeting *said =
            troupe_payload(answer.reply, struct greeting);

        puts(said != NULL ? said->text : "?");
    }
    troupe_msg_free(answer.reply);
    return status;
}

int
main(void)
{
    char why[160];
    troupe_system *system = NULL;
    troupe_status status = troupe_system_create(NULL, &system);

    if (status == TROUPE_OK) {
        status = run(system);
    }
    if (status != TROUPE_OK) {
        troupe_explain(status, why, sizeof why);
        fprintf(stderr, "hello: %s\n", why);
    }
    troupe_system_destroy(system);
    return status == TROUPE_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
