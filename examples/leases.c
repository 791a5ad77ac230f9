/* SPDX-License-Identifier: MIT */
/*
 * Leases that end when their holder does, however it does. The desk watches
 * whoever has a key; who gives it back is not watched any more. It watches its
 * supplier too, and has a message of its own come when that closes.
 */
#include <troupe/troupe.h>

#include <stdio.h>
#include <stdlib.h>

enum { TAG_ACQUIRE = 1, TAG_RELEASE, TAG_KEY, TAG_CLOSED, TAG_GO };
enum { KEYS = 2 };
enum errand { GIVE_BACK, FAIL, RUN_AWAY };

struct key {
    uint32_t number;
};

TROUPE_MSG_TYPE_EMPTY(acquire, TAG_ACQUIRE);
TROUPE_MSG_TYPE_EMPTY(release, TAG_RELEASE);
TROUPE_MSG_TYPE(key, struct key, TAG_KEY);
TROUPE_MSG_TYPE_EMPTY(closed, TAG_CLOSED);
TROUPE_MSG_TYPE_EMPTY(go, TAG_GO);

/* --- the desk ------------------------------------------------------------- */

struct desk {
    troupe_ref holder[KEYS];
};

static troupe_status
desk_start(troupe_self *self, void *state, const void *arg)
{
    troupe_msg *msg = troupe_msg_new(troupe_self_system(self), &closed, 0);
    troupe_status status =
        troupe_watch_with(self, *(const troupe_ref *)arg, msg);

    (void)state;
    if (status != TROUPE_OK) {
        troupe_msg_free(msg);
    }
    return status;
}

static void
grant(troupe_self *self, struct desk *desk, troupe_ref who)
{
    for (uint32_t i = 0; i < KEYS; i++) {
        const struct key granted = {i};

        if (troupe_ref_is_none(desk->holder[i]) &&
            troupe_watch(self, who) == TROUPE_OK) {
            desk->holder[i] = who;
            troupe_reply(self, &key, &granted);
            return;
        }
    }
    puts("desk: no key is left");
    troupe_reply_failure(self, TROUPE_E_LIMIT);
}

static void
take_back(struct desk *desk, troupe_ref who, const char *how)
{
    for (uint32_t i = 0; i < KEYS; i++) {
        if (troupe_ref_equal(desk->holder[i], who)) {
            printf("desk: key %u is back, its holder %s\n", (unsigned)i, how);
            desk->holder[i] = TROUPE_NONE;
        }
    }
}

static troupe_verdict
desk_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    const troupe_exit *why;

    switch (troupe_msg_tag(msg)) {
    case TAG_ACQUIRE:
        grant(self, state, msg->sender);
        return TROUPE_CONTINUE;
    case TAG_RELEASE:
        troupe_unwatch(self, msg->sender);
        take_back(state, msg->sender, "has returned it");
        return TROUPE_CONTINUE;
    case TROUPE_TAG_DOWN:
        why = troupe_down(msg);
        take_back(state, why->actor,
            why->kind == TROUPE_EXIT_FAILED ? "has failed" : "has gone");
        return TROUPE_CONTINUE;
    case TAG_CLOSED:
        puts("desk: no more keys will be made");
        return TROUPE_CONTINUE;
    default:
        return TROUPE_UNHANDLED;
    }
}

static const troupe_actor_type desk_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "desk",
    .state_bytes = sizeof(struct desk),
    .receive = desk_receive,
    .start = desk_start,
};

/* --- those who want a key ------------------------------------------------- */

struct visitor {
    troupe_ref desk;
    enum errand errand;
};

static troupe_status
visitor_start(troupe_self *self, void *state, const void *arg)
{
    struct visitor *visitor = state;

    *visitor = *(const struct visitor *)arg;
    return troupe_send(self, visitor->desk, &acquire, NULL);
}

static troupe_verdict
visitor_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    const struct visitor *visitor = state;

    switch (troupe_msg_tag(msg)) {
    case TAG_KEY:
        printf("visitor %d has key %u\n", (int)visitor->errand,
            (unsigned)troupe_payload(msg, struct key)->number);
        return TROUPE_CONTINUE;
    case TROUPE_TAG_FAILURE:
        return TROUPE_DONE;
    case TAG_GO:
        if (visitor->errand == GIVE_BACK) {
            troupe_tell(self, visitor->desk, &release, NULL);
        }
        return visitor->errand == FAIL ? troupe_fail(self, 7) : TROUPE_DONE;
    default:
        return TROUPE_UNHANDLED;
    }
}

static const troupe_actor_type visitor_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "visitor",
    .state_bytes = sizeof(struct visitor),
    .receive = visitor_receive,
    .start = visitor_start,
};

/* --- the supplier: is there, and then is not ------------------------------ */

static troupe_verdict
supplier_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)self;
    (void)state;
    return troupe_msg_is(msg, &go) ? TROUPE_DONE : TROUPE_UNHANDLED;
}

static const troupe_actor_type supplier_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "supplier",
    .receive = supplier_receive,
};

/* --- main ----------------------------------------------------------------- */

static troupe_status
visit(troupe_system *system, troupe_ref desk, enum errand errand,
    troupe_ref *visitor)
{
    static const troupe_supervision no_second_try = {
        .size = TROUPE_OPTIONS(troupe_supervision),
        .otherwise = TROUPE_DIRECTIVE_STOP,
    };
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    const struct visitor arg = {desk, errand};
    troupe_status status;

    options.own = &no_second_try;
    options.arg = &arg;
    options.arg_bytes = sizeof arg;
    status = troupe_system_spawn(system, &visitor_type, &options, visitor);
    return status == TROUPE_OK ? troupe_system_run(system, 0, NULL) : status;
}

static troupe_status
tell_to_go(troupe_system *system, troupe_ref whom)
{
    troupe_post_tell(system, whom, &go, NULL);
    return troupe_system_run(system, 0, NULL);
}

static troupe_status
open_desk(troupe_system *system, troupe_ref *desk, troupe_ref *supplier)
{
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    troupe_status status =
        troupe_system_spawn(system, &supplier_type, NULL, supplier);

    options.arg = supplier;
    options.arg_bytes = sizeof *supplier;
    return status == TROUPE_OK
               ? troupe_system_spawn(system, &desk_type, &options, desk)
               : status;
}

static troupe_status
run(troupe_system *system)
{
    troupe_ref desk, supplier, visitor[3] = {0};
    troupe_status status = open_desk(system, &desk, &supplier);

    for (int i = GIVE_BACK; i <= RUN_AWAY && status == TROUPE_OK; i++) {
        status = visit(system, desk, (enum errand)i, &visitor[i]);
        if (i == FAIL && status == TROUPE_OK) { /* makes room */
            status = tell_to_go(system, visitor[GIVE_BACK]);
        }
    }
    for (int i = FAIL; i <= RUN_AWAY && status == TROUPE_OK; i++) {
        status = tell_to_go(system, visitor[i]);
    }
    return status == TROUPE_OK ? tell_to_go(system, supplier) : status;
}

int
main(void)
{
    troupe_system_options options = TROUPE_INIT(troupe_system_options);
    troupe_system *system = NULL;
    char why[160];
    troupe_status status;

    options.flags = TROUPE_SYSTEM_DRIVEN;
    status = troupe_system_create(&options, &system);
    if (status == TROUPE_OK) {
        status = run(system);
    }
    if (status != TROUPE_OK) {
        troupe_explain(status, why, sizeof why);
        fprintf(stderr, "leases: %s\n", why);
    }
    troupe_system_destroy(system);
    return status == TROUPE_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
