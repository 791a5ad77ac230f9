/* SPDX-License-Identifier: MIT */

/*
 * Askers ask servers that answer at once, later, twice, never, pass the
 * question on, or die; with deadlines that some answers miss. Some operations
 * are cancelled, some askers end with operations open, foreign threads wait.
 * Every other question is of a type that expires, and no other does. Each
 * continuation runs exactly once, and at the end no operation and no memory is
 * left.
 */
#include "stress.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ASKERS = 4, SERVERS = 8, KEPT = 2, OPEN = 32 };

TROUPE_MSG_TYPE_EMPTY(go, 1);
TROUPE_MSG_TYPE(question, uint64_t, 2);
TROUPE_MSG_TYPE_WITH(brief, uint64_t, 4, TROUPE_MSG_EXPIRES, NULL);

struct large {
    uint64_t number;
    unsigned char more[40];
};
TROUPE_MSG_TYPE(large, struct large, 3);

struct asks {
    troupe_system *system;
    _Atomic uint64_t servers[SERVERS]; /* refs */
    _Atomic uint64_t begun;
    _Atomic uint64_t ended;
    _Atomic uint64_t by_status[32];
    _Atomic uint32_t busy; /* askers that have not asked all */
    _Atomic bool over;
};

/* One operation: freed by its continuation, and only there. */
struct op {
    uint64_t number;
    _Atomic uint32_t ended;
};

struct asker {
    struct asks *asks;
    struct test_rng rng;
    uint64_t left;
    troupe_ticket tickets[OPEN];
    bool mortal;
    pthread_t thread;
};

/* --- servers -------------------------------------------------------------- */

struct server {
    struct asks *asks;
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
    atomic_store(&server->asks->servers[server->index],
        stress_pack(troupe_self_ref(self)));
    return TROUPE_OK;
}

static troupe_ref
server_ref(struct asks *asks, uint32_t index)
{
    return stress_unpack(atomic_load(&asks->servers[index]));
}

static void
spawn_server(struct asks *asks, uint32_t index, uint64_t seed)
{
    struct server server = {
        .asks = asks, .index = index, .rng = {.state = seed}};
    troupe_mailbox_options mailbox = TROUPE_INIT(troupe_mailbox_options);
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    troupe_ref ref;

    options.arg = &server;
    options.arg_bytes = sizeof server;
    if (index % 3 == 1) {
        mailbox.capacity = 4;
        mailbox.overflow = TROUPE_OVERFLOW_DROP_HEAD;
        options.mailbox = &mailbox;
    }
    STRESS_CHECK(troupe_system_spawn(
                     asks->system, &server_type, &options, &ref) == TROUPE_OK,
        "server");
}

static void
answer(troupe_self *self, struct server *server, troupe_ref to, uint64_t number)
{
    if (test_random_below(&server->rng, 4) == 0) {
        struct large long_answer = {.number = number};

        troupe_tell(self, to, &large, &long_answer);
    } else {
        troupe_tell(self, to, &question, &number);
    }
}

/* Somebody else's from now on, long after it was handled here. */
static void
send_on(
    troupe_self *self, struct server *server, troupe_ref asker, uint64_t number)
{
    troupe_msg *msg = troupe_msg_new(server->asks->system, &question, 0);

    STRESS_CHECK(msg != NULL, "message");
    memcpy(msg->payload, &number, sizeof number);
    if (troupe_send_msg_from(self,
            server_ref(server->asks, test_random_below(&server->rng, SERVERS)),
            msg, asker) != TROUPE_OK) {
        troupe_msg_free(msg);
    }
}

static troupe_verdict
be_server(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct server *server = state;
    uint64_t number = *troupe_payload(msg, uint64_t);
    troupe_msg *taken;

    switch (test_random_below(&server->rng, 16)) {
    case 0: /* keeps it; without room answers them or sends them on */
    case 1:
        if (server->count == KEPT) {
            for (uint32_t i = 0; i < KEPT; i++) {
                (number % 4 == 0 ? answer : send_on)(
                    self, server, server->kept[i], server->numbers[i]);
            }
            server->count = 0;
        }
        server->numbers[server->count] = number;
        server->kept[server->count++] = troupe_sender(self);
        return TROUPE_CONTINUE;
    case 2:
        troupe_forward(self,
            server_ref(server->asks, test_random_below(&server->rng, SERVERS)));
        return TROUPE_CONTINUE;
    case 3:
        STRESS_CHECK(troupe_take(self, &taken) == TROUPE_OK, "take");
        if (troupe_send_msg_from(self,
                server_ref(
                    server->asks, test_random_below(&server->rng, SERVERS)),
                taken, taken->sender) != TROUPE_OK) {
            troupe_msg_free(taken);
        }
        return TROUPE_CONTINUE;
    case 4:
        troupe_reply_failure(self, (int32_t)(number % 100));
        return TROUPE_CONTINUE;
    case 5:
        return TROUPE_UNHANDLED;
    case 6:
        if (test_random_below(&server->rng, 64) == 0) {
            spawn_server(server->asks, server->index, number + 1);
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

static void
check_expired(
    troupe_system *system, const troupe_dead_letter *letter, void *user)
{
    (void)system;
    (void)user;
    STRESS_CHECK(letter->reason != TROUPE_DEAD_EXPIRED ||
                     troupe_msg_is(letter->msg, &brief),
        "a question without the flag has expired");
}

/* --- askers --------------------------------------------------------------- */

static const troupe_msg_type *
type_of(uint64_t number)
{
    return number % 2 == 0 ? &question : &brief;
}

static void
check_number(const troupe_msg *msg, uint64_t expected)
{
    uint64_t number = troupe_msg_is(msg, &large)
                          ? troupe_payload(msg, struct large)->number
                          : *troupe_payload(msg, uint64_t);

    STRESS_CHECK(number == expected, "%" PRIu64 " was answered with %" PRIu64,
        expected, number);
}

static void
count_end(struct asks *asks, struct op *op, troupe_status status)
{
    STRESS_CHECK(atomic_fetch_add(&op->ended, 1) == 0,
        "%" PRIu64 " ended twice", op->number);
    atomic_fetch_add_explicit(&asks->ended, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(
        &asks->by_status[-(int)status], 1, memory_order_relaxed);
    free(op);
}

static troupe_verdict
on_end(troupe_self *self, void *state, const troupe_result *result, void *user)
{
    struct asker *asker = STRESS_STATE(struct asker, state);
    struct op *op = user;

    (void)self;
    if (result->msg != NULL) {
        check_number(result->msg, op->number);
    }
    count_end(asker->asks, op, result->status);
    return TROUPE_CONTINUE;
}

static uint64_t
draw_timeout(struct test_rng *rng)
{
    switch (test_random_below(rng, 8)) {
    case 0:
        return TROUPE_US(1 + test_random_below(rng, 200));
    case 1:
        return TROUPE_MS(1 + test_random_below(rng, 5));
    default:
        return TROUPE_MS(2 + test_random_below(rng, 20));
    }
}

static troupe_verdict
begin(troupe_self *self, struct asker *asker)
{
    struct asks *asks = asker->asks;
    uint32_t slot = test_random_below(&asker->rng, OPEN);
    troupe_ref whom = server_ref(asks, test_random_below(&asker->rng, SERVERS));
    uint64_t timeout_ns = draw_timeout(&asker->rng);
    struct op *op = stress_zeroed(1, sizeof *op);
    troupe_continuation then = troupe_then(on_end, op);
    troupe_status status;
    troupe_ref promise;

    op->number = atomic_fetch_add(&asks->begun, 1);
    switch (test_random_below(&asker->rng, 16)) {
    case 0:
        status =
            troupe_sleep(self, timeout_ns / 16, then, &asker->tickets[slot]);
        break;
    case 1:
        status = troupe_promise(
            self, timeout_ns, then, &promise, &asker->tickets[slot]);
        if (status == TROUPE_OK) {
            troupe_post_tell(asks->system, promise, &question, &op->number);
        }
        break;
    default:
        status = troupe_ask(self, whom, type_of(op->number), &op->number,
            timeout_ns, then, &asker->tickets[slot]);
        break;
    }
    STRESS_CHECK(status == TROUPE_OK, "%s", troupe_status_name(status));
    if (test_random_below(&asker->rng, 8) == 0) {
        (void)troupe_cancel(
            self, asker->tickets[test_random_below(&asker->rng, OPEN)]);
    }
    return test_random_below(&asker->rng, 64) == 0
               ? troupe_await(self, TROUPE_OK, &asker->tickets[slot])
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
    } else {
        atomic_fetch_sub(&asker->asks->busy, 1);
        if (asker->mortal) {
            (void)begin(self, asker);
            return TROUPE_DONE;
        }
    }
    return begin(self, asker);
}

static const troupe_actor_type asker_type = STRESS_ACTOR(be_asker);

/* A thread that waits. */
static void *
wait_for_answers(void *user)
{
    struct asker *asker = user;
    struct asks *asks = asker->asks;

    while (!atomic_load(&asks->over)) {
        troupe_answer answered;
        uint64_t number = atomic_fetch_add(&asks->begun, 1);
        troupe_status status = troupe_ask_wait(asks->system,
            server_ref(asks, test_random_below(&asker->rng, SERVERS)),
            type_of(number), &number, draw_timeout(&asker->rng), &answered);

        STRESS_CHECK(status == answered.status &&
                         (status == TROUPE_OK) == (answered.reply != NULL),
            "%s", troupe_status_name(status));
        if (answered.reply != NULL) {
            check_number(answered.reply, number);
            troupe_msg_free(answered.reply);
        }
        atomic_fetch_add(&asks->ended, 1);
    }
    return NULL;
}

static bool
none_is_busy(void *user)
{
    struct asks *asks = user;

    return atomic_load(&asks->busy) == 0;
}

static bool
all_ended(void *user)
{
    struct asks *asks = user;

    return atomic_load(&asks->busy) == 0 &&
           atomic_load(&asks->ended) == atomic_load(&asks->begun);
}

static uint64_t
run(struct test_rng *rng)
{
    troupe_system_options options = stress_options(stress_workers(rng));
    uint32_t threads = stress_threads(rng, 2);
    struct asks *asks = stress_zeroed(1, sizeof *asks);
    struct asker askers[ASKERS] = {0};
    struct asker waiters[8] = {0};
    uint64_t begun, bytes;

    options.dead_letter.fn = check_expired;
    atomic_store(&asks->busy, ASKERS);
    asks->system = stress_open(&options);
    for (uint32_t i = 0; i < SERVERS; i++) {
        spawn_server(asks, i, test_random(rng));
    }
    stress_await_idle(asks->system);
    bytes = stress_counters(asks->system).bytes;
    for (uint32_t i = 0; i < ASKERS; i++) {
        troupe_ref ref;

        askers[i].asks = asks;
        askers[i].rng.state = test_random(rng);
        askers[i].left = 1000 + test_random_below(rng, 20000);
        askers[i].mortal = i % 2 == 0;
        ref = stress_spawn(asks->system, &asker_type, &askers[i]);
        STRESS_CHECK(
            troupe_post(asks->system, ref, &go, NULL) == TROUPE_OK, "go");
    }
    for (uint32_t i = 0; i < threads; i++) {
        waiters[i].asks = asks;
        waiters[i].rng.state = test_random(rng);
        stress_thread(&waiters[i].thread, wait_for_answers, &waiters[i]);
    }
    STRESS_CHECK(test_await(none_is_busy, asks), "%u askers are busy",
        atomic_load(&asks->busy));
    atomic_store(&asks->over, true);
    for (uint32_t i = 0; i < threads; i++) {
        stress_join(waiters[i].thread);
    }
    /* Deadlines are all below a second. */
    STRESS_CHECK(test_await(all_ended, asks),
        "%" PRIu64 " of %" PRIu64 " ended", atomic_load(&asks->ended),
        atomic_load(&asks->begun));
    begun = atomic_load(&asks->begun);
    stress_await_idle(asks->system);
    STRESS_CHECK(stress_counters(asks->system).asks == 0,
        "%" PRIu64 " are open", stress_counters(asks->system).asks);
    /* Two askers live, and what they remember of having asked. */
    STRESS_CHECK(stress_counters(asks->system).bytes < bytes + 16384,
        "%" PRIu64 " bytes are %" PRIu64, bytes,
        stress_counters(asks->system).bytes);
    stress_close(asks->system);
    free(asks);
    return begun;
}

int
main(int argc, char **argv)
{
    struct test_rng rng;
    uint64_t asked = 0;

    stress_begin(argc, argv);
    while (stress_more(&rng)) {
        asked += run(&rng);
    }
    return stress_end(asked, "operations");
}
