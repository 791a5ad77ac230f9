/* SPDX-License-Identifier: MIT */

/*
 * A reader asks three replicas and is content with two answers: the newest of
 * them counts. One replica is down; when another one loses its disk, too few
 * can answer, and the reader says why.
 */
#include <troupe/troupe.h>

#include <stdio.h>
#include <stdlib.h>

enum { TAG_GET = 1, TAG_VALUE, TAG_LOSE_DISK, REPLICAS = 3, NO_DISK = 5 };

struct value {
    uint64_t version; /* 0: the replica has no disk */
    char text[24];
};
struct replicas {
    troupe_ref refs[REPLICAS];
};

TROUPE_MSG_TYPE_EMPTY(get, TAG_GET);
TROUPE_MSG_TYPE(value, struct value, TAG_VALUE);
TROUPE_MSG_TYPE_EMPTY(lose_disk, TAG_LOSE_DISK);

/* --- a replica ------------------------------------------------------------ */

static troupe_status
replica_start(troupe_self *self, void *state, const void *arg)
{
    (void)self;
    *(struct value *)state = *(const struct value *)arg;
    return TROUPE_OK;
}

static troupe_verdict
replica_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct value *stored = state;

    if (troupe_msg_is(msg, &lose_disk)) {
        stored->version = 0;
    } else if (stored->version == 0) {
        troupe_reply_failure(self, NO_DISK);
    } else {
        troupe_reply(self, &value, stored);
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type replica = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "replica",
    .state_bytes = sizeof(struct value),
    .receive = replica_receive,
    .start = replica_start,
};

/* --- the reader ----------------------------------------------------------- */

/* Those who are to blame; others may have answered, or were not needed. */
static void
print_failures(const troupe_gathered *all)
{
    for (size_t i = 0; i < all->count; i++) {
        const troupe_gather_part *part = &all->parts[i];

        if (part->status != TROUPE_OK && part->status != TROUPE_E_CANCELLED) {
            printf("replica %zu: %s, code %d\n", i,
                troupe_status_text(part->status), (int)part->code);
        }
    }
}

static const struct value *
newest_of(const troupe_gathered *all)
{
    const struct value *newest = NULL;

    for (size_t i = 0; i < all->count; i++) {
        const struct value *seen =
            all->parts[i].status == TROUPE_OK
                ? troupe_payload(all->parts[i].msg, struct value)
                : NULL;

        if (seen != NULL &&
            (newest == NULL || seen->version > newest->version)) {
            newest = seen;
        }
    }
    return newest;
}

/* In the reader's turn; troupe_reply() answers who asked it. */
static troupe_verdict
on_quorum(
    troupe_self *self, void *state, const troupe_result *result, void *user)
{
    const troupe_gathered *all = troupe_payload(result->msg, troupe_gathered);

    (void)state;
    (void)user;
    if (result->status == TROUPE_OK) {
        troupe_reply(self, &value, newest_of(all));
    } else {
        print_failures(all);
        troupe_reply_failure(self, (int32_t)result->status);
    }
    return TROUPE_CONTINUE;
}

static troupe_status
reader_start(troupe_self *self, void *state, const void *arg)
{
    (void)self;
    *(struct replicas *)state = *(const struct replicas *)arg;
    return TROUPE_OK;
}

static troupe_verdict
reader_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    static const troupe_gather_options options = {
        .size = TROUPE_OPTIONS(troupe_gather_options),
        .policy = TROUPE_GATHER_QUORUM, /* more than half */
    };
    struct replicas *replicas = state;

    (void)msg;
    return troupe_check(
        self, troupe_gather(self, replicas->refs, REPLICAS, &get, NULL,
                  &options, troupe_then(on_quorum, NULL), NULL));
}

static const troupe_actor_type reader = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "reader",
    .state_bytes = sizeof(struct replicas),
    .receive = reader_receive,
    .start = reader_start,
};

/* --- main ----------------------------------------------------------------- */

static troupe_status
spawn(troupe_system *system, const troupe_actor_type *type, const void *arg,
    size_t arg_bytes, troupe_ref *ref)
{
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);

    options.arg = arg;
    options.arg_bytes = arg_bytes;
    return troupe_system_spawn(system, type, &options, ref);
}

static void
read_once(troupe_system *system, troupe_ref from)
{
    troupe_answer answer;
    troupe_status status = troupe_ask_wait(
        system, from, &get, NULL, TROUPE_TIMEOUT_DEFAULT, &answer);

    if (status == TROUPE_OK) {
        printf("read: %s\n", troupe_payload(answer.reply, struct value)->text);
    } else {
        printf(
            "no quorum: %s\n", troupe_status_text((troupe_status)answer.code));
    }
    troupe_msg_free(answer.reply);
}

static troupe_status
run(troupe_system *system)
{
    static const struct value values[REPLICAS] = {
        {7, "an old text"}, {8, "a new text"}, {8, "a new text"}};
    struct replicas replicas;
    troupe_ref from = TROUPE_NONE;
    troupe_status status = TROUPE_OK;

    for (int i = 0; i < REPLICAS && status == TROUPE_OK; i++) {
        status = spawn(
            system, &replica, &values[i], sizeof values[i], &replicas.refs[i]);
    }
    if (status == TROUPE_OK) {
        status = spawn(system, &reader, &replicas, sizeof replicas, &from);
    }
    if (status == TROUPE_OK) {
        status = troupe_stop_wait(system, &replicas.refs[2], 1, TROUPE_S(1));
    }
    if (status != TROUPE_OK) {
        return status;
    }
    read_once(system, from);
    troupe_post_tell(system, replicas.refs[1], &lose_disk, NULL);
    read_once(system, from);
    return TROUPE_OK;
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
        fprintf(stderr, "quorum: %s\n", why);
    }
    troupe_system_destroy(system);
    return status == TROUPE_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
