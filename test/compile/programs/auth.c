/* SPDX-License-Identifier: MIT */

/*
 * Log-ins: when too many wait, new ones are turned away (drop-new) and the
 * office of dead letters tells each client, so nobody hangs.
 */
#include <troupe/troupe.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAG_LOGIN = 1, TAG_GRANTED, TAG_DENIED };

struct login {
    char user[32];
    char *token; /* owned by the message */
};

static void
login_drop(void *payload, size_t bytes)
{
    struct login *login = payload;

    (void)bytes;
    free(login->token);
}

TROUPE_MSG_TYPE_WITH(
    login, struct login, TAG_LOGIN, TROUPE_MSG_EXPIRES, login_drop);
TROUPE_MSG_TYPE_EMPTY(granted, TAG_GRANTED);
TROUPE_MSG_TYPE_EMPTY(denied, TAG_DENIED);

static troupe_verdict
auth_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    const struct login *asked;

    (void)state;
    if (!troupe_msg_is(msg, &login)) {
        return TROUPE_UNHANDLED;
    }
    asked = troupe_payload(msg, struct login);
    if (asked->token != NULL && strcmp(asked->token, "sesame") == 0) {
        troupe_reply(self, &granted, NULL);
    } else {
        troupe_reply(self, &denied, NULL);
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type auth_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "auth",
    .receive = auth_receive,
};

/* Any thread, many at once. */
static void
on_dead_letter(
    troupe_system *system, const troupe_dead_letter *letter, void *user)
{
    (void)user;
    if (troupe_msg_tag(letter->msg) == TAG_LOGIN) {
        troupe_post_tell(system, letter->msg->sender, &denied, NULL);
    }
}

static troupe_status
knock(troupe_system *system, troupe_ref auth)
{
    struct login who = {.user = "ada", .token = strdup("sesame")};
    troupe_status status;

    if (who.token == NULL) {
        return TROUPE_E_NOMEM;
    }
    status = troupe_post(system, auth, &login, &who);
    if (status != TROUPE_OK) {
        free(who.token); /* refused, so still ours */
    }
    return status;
}

int
main(void)
{
    static const troupe_mailbox_options mailbox = {
        .size = TROUPE_OPTIONS(troupe_mailbox_options),
        .capacity = 100,
        .overflow = TROUPE_OVERFLOW_DROP_NEW,
        .flags = TROUPE_MAILBOX_DEAD_LETTER_DROPS,
    };
    static const troupe_spawn_options options = {
        .size = TROUPE_OPTIONS(troupe_spawn_options),
        .name = "auth",
        .mailbox = &mailbox,
    };
    static const troupe_dead_letter_options store = {
        .size = TROUPE_OPTIONS(troupe_dead_letter_options),
        .capacity = 500,
    };
    const troupe_system_options system_options = {
        .size = TROUPE_OPTIONS(troupe_system_options),
        .name = "gate",
        .dead_letter = {.fn = on_dead_letter},
        .dead_letters = &store,
    };
    troupe_system *system;
    troupe_ref auth;

    if (troupe_system_create(&system_options, &system) != TROUPE_OK) {
        return 1;
    }
    if (troupe_system_spawn(system, &auth_type, &options, &auth) != TROUPE_OK ||
        knock(system, auth) != TROUPE_OK) {
        return 1;
    }
    return troupe_system_destroy(system) == TROUPE_OK ? 0 : 1;
}
