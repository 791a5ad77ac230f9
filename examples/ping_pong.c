/* SPDX-License-Identifier: MIT */
/*
 * Two actors play N rounds; how long one takes is printed to stderr. On a
 * server the numbers to look at are those of troupe-bench.
 */
#include <troupe/troupe.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { TAG_PING = 1, TAG_PONG, TAG_SERVE };

TROUPE_MSG_TYPE_EMPTY(ping, TAG_PING);
TROUPE_MSG_TYPE_EMPTY(pong, TAG_PONG);

struct serve {
    uint64_t rounds;
};

TROUPE_MSG_TYPE(serve, struct serve, TAG_SERVE);

static troupe_verdict
second_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    if (!troupe_msg_is(msg, &ping)) {
        return TROUPE_UNHANDLED;
    }
    troupe_reply(self, &pong, NULL);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type second_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "second",
    .receive = second_receive,
};

struct first {
    uint64_t left;
    troupe_ref second;
};

static troupe_status
first_start(troupe_self *self, void *state, const void *arg)
{
    struct first *first = state;

    (void)arg;
    return troupe_spawn(self, &second_type, NULL, &first->second);
}

/* `return troupe_check(..)`: a send that is refused fails this actor. */
static troupe_verdict
first_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct first *first = state;

    switch (troupe_msg_tag(msg)) {
    case TAG_SERVE:
        first->left = troupe_payload(msg, struct serve)->rounds;
        break;
    case TAG_PONG:
        first->left--;
        break;
    default:
        return TROUPE_UNHANDLED;
    }
    if (first->left == 0) {
        troupe_system_request_stop(troupe_self_system(self));
        return TROUPE_DONE;
    }
    return troupe_check(self, troupe_send(self, first->second, &ping, NULL));
}

static const troupe_actor_type first_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "first",
    .state_bytes = sizeof(struct first),
    .receive = first_receive,
    .start = first_start,
};

int
main(int argc, char **argv)
{
    const struct serve game = {
        argc > 1 ? strtoull(argv[1], NULL, 10) : UINT64_C(100000)};
    troupe_system *system;
    troupe_ref first;
    uint64_t begin;
    uint64_t end;

    if (game.rounds == 0 || troupe_system_create(NULL, &system) != TROUPE_OK) {
        return 1;
    }
    begin = troupe_now_ns(system);
    if (troupe_system_spawn(system, &first_type, NULL, &first) != TROUPE_OK ||
        troupe_post(system, first, &serve, &game) != TROUPE_OK ||
        troupe_system_wait(system, TROUPE_S(60)) != TROUPE_OK) {
        return 1;
    }
    end = troupe_now_ns(system);
    printf("%" PRIu64 " rounds\n", game.rounds);
    fprintf(stderr, "%.1f ns per round\n",
        (double)(end - begin) / (double)game.rounds);
    return troupe_system_destroy(system) == TROUPE_OK ? 0 : 1;
}
