/* SPDX-License-Identifier: MIT */

/*
 * Actors gather from servers that answer at once, later, twice, never, pass the
 * question on, fail or die; under every policy, all at once or one after the
 * other, with deadlines that some answers miss. Some gathers are awaited, some
 * cancelled, some actors end or restart with gathers open. Each continuation
 * runs exactly once, what it is told fits, whatever owns something is dropped
 * once, and at the end no operation and no memory is left.
 */
#include "stress.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ASKERS = 4, SERVERS = 12, KEPT = 2, MOST = 10, TICKETS = 8 };

TROUPE_MSG_TYPE_EMPTY(go, 1);
TROUPE_MSG_TYPE(question, uint64_t, 2);

struct gathers {
    troupe_system *system;
    _Atomic uint64_t servers[SERVERS]; /* refs */
    _Atomic uint64_t begun;
    _Atomic uint64_t ended;
    _Atomic uint64_t by_status[32];
    _Atomic uint64_t owned, dropped; /* payloads that own one */
    _Atomic uint32_t busy;           /* askers that have not begun all */
};

/* Owns one of `dropped`; boxed, or with so much in it that it is not. */
struct owned {
    struct gathers *gathers;
    uint64_t number;
};
struct large {
    struct owned owned;
    unsigned char more[80];
};

static void
drop_owned(void *payload, size_t bytes)
{
    struct owned *owned = payload;

    (void)bytes;
    atomic_fetch_add_explicit(
        &owned->gathers->dropped, 1, memory_order_relaxed);
}

TROUPE_MSG_TYPE_WITH(owned, struct owned, 3, 0, drop_owned);
TROUPE_MSG_TYPE_WITH(large, struct large, 4, TROUPE_MSG_SHARED, drop_owned);

static struct large
make_owned(struct gathers *gathers, uint64_t number)
{
    atomic_fetch_add_explicit(&gathers->owned, 1, memory_order_relaxed);
    return (struct large){.owned = {gathers, number}};
}

static uint64_t
number_of(const troupe_msg *msg)
{
    return troupe_msg_is(msg, &question)
               ? *troupe_payload(msg, uint64_t)
               : ((const struct owned *)msg->payload)->number;
}

/* --- servers -------------------------------------------------------------- */

struct server {
    struct gathers *gathers;
    uint32_t index;
    struct test_rng rng;
    troupe_ref kept[KEPT];
    uint64_t numbers[KEPT];
    uint32_t count;
};

static const troupe_actor_type server_type;

static troupe_status
start_server(troupe_self *self, void *state, const void *arg)
{
    struct server *server = state;

    memcpy(server, arg, sizeof *server);
    atomic_store(&server->gathers->servers[server->index],
        stress_pack(troupe_self_ref(self)));
    return TROUPE_OK;
}

static troupe_ref
server_ref(struct gathers *gathers, uint32_t index)
{
    return stress_unpack(atomic_load(&gathers->servers[index]));
}

static void
spawn_server(struct gathers *gathers, uint32_t index, uint64_t seed)
{
    struct server server = {
        .gathers = gathers, .index = index, .rng = {.state = seed}};
    troupe_mailbox_options mailbox = TROUPE_INIT(troupe_mailbox_options);
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    troupe_ref ref;

    options.arg = &server;
    options.arg_bytes = sizeof server;
    if (index % 3 == 1) { /* refuses, or drops */
        mailbox.capacity = 2;
        mailbox.overflow =
            index % 2 == 0 ? TROUPE_OVERFLOW_DROP_HEAD : TROUPE_OVERFLOW_REJECT;
        options.mailbox = &mailbox;
    }
    STRESS_CHECK(troupe_system_spawn(gathers->system, &server_type, &options,
                     &ref) == TROUPE_OK,
        "server");
}

static void
answer(troupe_self *self, struct server *server, troupe_ref to, uint64_t number)
{
    struct large payload;

    switch (test_random_below(&server->rng, 4)) {
    case 0:
        payload = make_owned(server->gathers, number);
        troupe_tell(self, to, &owned, &payload.owned);
        return;
    case 1:
        payload = make_owned(server->gathers, number);
        troupe_tell(self, to, &large, &payload);
        return;
    default:
        troupe_tell(self, to, &question, &number);
        return;
    }
}

static void
keep(troupe_self *self, struct server *server, uint64_t number)
{
    if (server->count == KEPT) { /* answers those who have waited */
        for (uint32_t i = 0; i < KEPT; i++) {
            answer(self, server, server->kept[i], server->numbers[i]);
        }
        server->count = 0;
    }
    server->numbers[server->count] = number;
    server->kept[server->count++] = troupe_sender(self);
}

static troupe_verdict
be_server(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct server *server = state;
    uint64_t number = number_of(msg);

    switch (test_random_below(&server->rng, 16)) {
    case 0:
    case 1:
        keep(self, server, number);
        return TROUPE_CONTINUE;
    case 2:
        troupe_forward(self, server_ref(server->gathers,
                                 test_random_below(&server->rng, SERVERS)));
        return TROUPE_CONTINUE;
    case 3:
    case 4:
        troupe_reply_failure(self, (int32_t)(number % 100));
        return TROUPE_CONTINUE;
    case 5:
        return TROUPE_UNHANDLED;
    case 6:
        if (test_random_below(&server->rng, 64) == 0) {
            spawn_server(server->gathers, server->index, number + 1);
            return TROUPE_DONE;
        }
        return TROUPE_CONTINUE; /* never */
    case 7:
        answer(self, server, troupe_sender(self), number);
        break; /* and again */
    default:
        break;
    }
    answer(self, server, troupe_sender(self), number);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type server_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "server",
    .state_bytes = sizeof(struct server),
    .receive = be_server,
    .start = start_server,
};

/* --- askers --------------------------------------------------------------- */

struct asker {
    struct gathers *gathers;
    struct test_rng rng;
    uint64_t left;
    troupe_ticket tickets[TICKETS];
    uint32_t fate; /* 0: it lives; 1: it ends; 2: it is restarted */
};

/* One gather: freed by its continuation, and only there. */
struct op {
    uint64_t number;
    troupe_gather_policy policy;
    uint32_t count;
    uint32_t quorum;
    troupe_ref whom[MOST];
};

static void
check_part(const struct op *op, uint32_t i, const troupe_gather_part *part)
{
    STRESS_CHECK(troupe_ref_equal(part->from, op->whom[i]), "%u", i);
    STRESS_CHECK((part->msg != NULL) == (part->status == TROUPE_OK), "%s",
        troupe_status_name(part->status));
    if (part->msg != NULL) {
        STRESS_CHECK(number_of(part->msg) == op->number,
            "%" PRIu64 " was answered with %" PRIu64, op->number,
            number_of(part->msg));
    }
}

static void
check_all(const struct op *op, troupe_status status, const troupe_gathered *all)
{
    size_t answered = 0;

    STRESS_CHECK(
        all->count == op->count, "%zu parts of %u", all->count, op->count);
    for (uint32_t i = 0; i < op->count; i++) {
        check_part(op, i, &all->parts[i]);
        answered += all->parts[i].msg != NULL ? 1 : 0;
    }
    STRESS_CHECK(
        answered == all->answered, "%zu of %zu", answered, all->answered);
    if (status == TROUPE_OK) {
        STRESS_CHECK(
            op->policy >= TROUPE_GATHER_QUORUM &&
                answered ==
                    (op->policy == TROUPE_GATHER_ALL ? op->count : op->quorum),
            "policy %u, %zu have answered", (unsigned)op->policy, answered);
    }
}

static troupe_verdict
on_end(troupe_self *self, void *state, const troupe_result *result, void *user)
{
    struct asker *asker = STRESS_STATE(struct asker, state);
    struct op *op = user;
    troupe_msg *taken;

    if (result->msg == NULL) {
        STRESS_CHECK(result->status == TROUPE_E_CANCELLED, "%s",
            troupe_status_name(result->status));
    } else if (troupe_msg_tag(result->msg) == TROUPE_TAG_GATHERED) {
        check_all(
            op, result->status, troupe_payload(result->msg, troupe_gathered));
    } else {
        STRESS_CHECK(result->status == TROUPE_OK &&
                         op->policy <= TROUPE_GATHER_BEST &&
                         number_of(result->msg) == op->number,
            "%s", troupe_status_name(result->status));
    }
    atomic_fetch_add_explicit(&asker->gathers->ended, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&asker->gathers->by_status[-(int)result->status],
        1, memory_order_relaxed);
    free(op);
    if (result->msg != NULL && test_random_below(&asker->rng, 8) == 0) {
        STRESS_CHECK(troupe_take(self, &taken) == TROUPE_OK, "take");
        troupe_msg_free(taken);
    }
    return TROUPE_CONTINUE;
}

static bool
is_better(const troupe_msg *a, const troupe_msg *b, void *user)
{
    (void)user;
    return a->bytes > b->bytes;
}

static uint64_t
draw_timeout(struct test_rng *rng)
{
    return test_random_below(rng, 8) == 0
               ? TROUPE_US(1 + test_random_below(rng, 200))
               : TROUPE_MS(2 + test_random_below(rng, 20));
}

static struct op *
make_op(struct asker *asker, troupe_gather_options *options)
{
    struct test_rng *rng = &asker->rng;
    struct op *op = stress_zeroed(1, sizeof *op);

    *options = TROUPE_INIT(troupe_gather_options);
    op->number = atomic_fetch_add(&asker->gathers->begun, 1);
    op->count = test_random_below(rng, MOST + 1);
    for (uint32_t i = 0; i < op->count; i++) {
        op->whom[i] =
            server_ref(asker->gathers, test_random_below(rng, SERVERS));
    }
    op->policy = (troupe_gather_policy)test_random_below(rng, 4);
    op->quorum = op->count / 2 + 1;
    if (test_random_below(rng, 2) == 0 && op->count != 0) {
        op->quorum = 1 + test_random_below(rng, op->count);
        options->quorum = op->quorum;
    }
    options->policy = op->policy;
    options->better = is_better;
    options->timeout_ns = draw_timeout(rng);
    if (test_random_below(rng, 3) == 0) {
        options->tail_delay_ns = TROUPE_US(test_random_below(rng, 2000));
    }
    return op;
}

static troupe_verdict
begin(troupe_self *self, struct asker *asker)
{
    troupe_ticket *ticket =
        &asker->tickets[test_random_below(&asker->rng, TICKETS)];
    troupe_gather_options options;
    struct op *op = make_op(asker, &options);
    troupe_continuation then = troupe_then(on_end, op);
    troupe_status status;

    if (test_random_below(&asker->rng, 4) == 0) {
        struct large payload = make_owned(asker->gathers, op->number);

        status = troupe_gather(self, op->whom, op->count, &large, &payload,
            &options, then, ticket);
    } else {
        status = troupe_gather(self, op->whom, op->count, &question,
            &op->number, &options, then, ticket);
    }
    STRESS_CHECK(status == TROUPE_OK, "%s", troupe_status_name(status));
    if (test_random_below(&asker->rng, 8) == 0) {
        (void)troupe_cancel(
            self, asker->tickets[test_random_below(&asker->rng, TICKETS)]);
    }
    return test_random_below(&asker->rng, 32) == 0
               ? troupe_await(self, TROUPE_OK, ticket)
               : TROUPE_CONTINUE;
}

static troupe_verdict
be_asker(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct asker *asker = STRESS_STATE(struct asker, state);

    (void)msg;
    if (asker->left == 0) {
        return TROUPE_CONTINUE;
    }
    if (--asker->left > 0) {
        troupe_tell(self, troupe_self_ref(self), &go, NULL);
        if (asker->fate == 2 && asker->left % 4096 == 0) {
            (void)begin(self, asker);
            return TROUPE_FAILED; /* and is restarted */
        }
    } else {
        atomic_fetch_sub(&asker->gathers->busy, 1);
        if (asker->fate == 1) {
            (void)begin(self, asker);
            return TROUPE_DONE;
        }
    }
    return begin(self, asker);
}

static const troupe_actor_type asker_type = STRESS_ACTOR(be_asker);

static bool
none_is_busy(void *user)
{
    struct gathers *gathers = user;

    return atomic_load(&gathers->busy) == 0;
}

static bool
all_ended(void *user)
{
    struct gathers *gathers = user;

    return atomic_load(&gathers->ended) == atomic_load(&gathers->begun);
}

static void
spawn_askers(
    struct gathers *gathers, struct asker *askers, struct test_rng *rng)
{
    for (uint32_t i = 0; i < ASKERS; i++) {
        troupe_ref ref;

        askers[i].gathers = gathers;
        askers[i].rng.state = test_random(rng);
        askers[i].left = 1000 + test_random_below(rng, 10000);
        askers[i].fate = i % 3;
        ref = stress_spawn(gathers->system, &asker_type, &askers[i]);
        STRESS_CHECK(
            troupe_post(gathers->system, ref, &go, NULL) == TROUPE_OK, "go");
    }
}

static void
check_end(struct gathers *gathers, uint64_t bytes)
{
    troupe_counters books = stress_counters(gathers->system);

    STRESS_CHECK(books.asks == 0, "%" PRIu64 " are open", books.asks);
    /* Askers live on, and what they remember of having asked. */
    STRESS_CHECK(books.bytes < bytes + 16384, "%" PRIu64 " bytes are %" PRIu64,
        bytes, books.bytes);
}

static uint64_t
run(struct test_rng *rng)
{
    troupe_system_options options = stress_options(stress_workers(rng));
    struct gathers *gathers = stress_zeroed(1, sizeof *gathers);
    struct asker askers[ASKERS] = {0};
    uint64_t begun, bytes;

    atomic_store(&gathers->busy, ASKERS);
    gathers->system = stress_open(&options);
    for (uint32_t i = 0; i < SERVERS; i++) {
        spawn_server(gathers, i, test_random(rng));
    }
    stress_await_idle(gathers->system);
    bytes = stress_counters(gathers->system).bytes;
    spawn_askers(gathers, askers, rng);
    STRESS_CHECK(test_await(none_is_busy, gathers), "%u askers are busy",
        atomic_load(&gathers->busy));
    /* Deadlines are all below a second. */
    STRESS_CHECK(test_await(all_ended, gathers),
        "%" PRIu64 " of %" PRIu64 " ended", atomic_load(&gathers->ended),
        atomic_load(&gathers->begun));
    begun = atomic_load(&gathers->begun);
    stress_await_idle(gathers->system);
    check_end(gathers, bytes);
    stress_close(gathers->system);
    STRESS_CHECK(atomic_load(&gathers->owned) == atomic_load(&gathers->dropped),
        "of %" PRIu64 " payloads %" PRIu64 " were dropped",
        atomic_load(&gathers->owned), atomic_load(&gathers->dropped));
    free(gathers);
    return begun;
}

int
main(int argc, char **argv)
{
    struct test_rng rng;
    uint64_t gathered = 0;

    stress_begin(argc, argv);
    while (stress_more(&rng)) {
        gathered += run(&rng);
    }
    return stress_end(gathered, "gathers");
}
