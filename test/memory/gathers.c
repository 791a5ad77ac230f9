/* SPDX-License-Identifier: MIT */

/*
 * A million gathers with mixed outcomes leave nothing behind: what the system
 * holds from its allocator, and what the process holds, is the same after a
 * tenth of them and after all. Time is virtual.
 */
#include "support/await.h"
#include "support/census.h"

#include <troupe/troupe.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCHES = 1000, BATCH = 1000, WARM = 100, LEFT_BYTES = 1 << 20 };

TROUPE_MSG_TYPE(number, uint64_t, 1);
TROUPE_MSG_TYPE_EMPTY(go, 2);

struct large {
    uint64_t number;
    unsigned char more[200];
};
TROUPE_MSG_TYPE(large, struct large, 3);

enum kind { PROMPT, WORDY, FAILING, SILENT, DEAD, KINDS };

static troupe_ref whom[KINDS];
static uint64_t begun, ended, by_status[32];

static void
require(bool good, const char *what)
{
    if (!good) {
        (void)fprintf(stderr, "gathers: %s\n", what);
        exit(1);
    }
}

static troupe_verdict
serve(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct large long_answer = {.number = *troupe_payload(msg, uint64_t)};

    switch (*(enum kind *)state) {
    case PROMPT:
        troupe_reply(self, &number, msg->payload);
        break;
    case WORDY:
        troupe_reply(self, &large, &long_answer);
        break;
    case FAILING:
        troupe_reply_failure(self, 1);
        break;
    case SILENT:
    case DEAD:
    case KINDS:
        break;
    }
    return TROUPE_CONTINUE;
}

static troupe_status
start_server(troupe_self *self, void *state, const void *arg)
{
    (void)self;
    memcpy(state, arg, sizeof(enum kind));
    return TROUPE_OK;
}

static const troupe_actor_type server = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "server",
    .state_bytes = sizeof(enum kind),
    .receive = serve,
    .start = start_server,
};

static troupe_verdict
on_end(troupe_self *self, void *state, const troupe_result *result, void *user)
{
    (void)self;
    (void)state;
    (void)user;
    ended++;
    by_status[-(int)result->status]++;
    return TROUPE_CONTINUE;
}

static bool
is_better(const troupe_msg *a, const troupe_msg *b, void *user)
{
    (void)user;
    return a->bytes > b->bytes;
}

/* Every policy, with and without a tail, of any two to five kinds. */
static troupe_verdict
gather(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    (void)msg;
    for (uint32_t i = 0; i < BATCH; i++) {
        troupe_gather_options options = TROUPE_INIT(troupe_gather_options);
        size_t first = i / 8 % (KINDS - 1);
        troupe_ticket ticket;

        options.policy = (troupe_gather_policy)(i % 4);
        options.better = is_better;
        options.timeout_ns = TROUPE_MS(1 + i % 5);
        options.tail_delay_ns = i % 8 < 4 ? 0 : TROUPE_US(500);
        require(troupe_gather(self, whom + first, 2 + i % (KINDS - first - 1),
                    &number, &begun, &options, troupe_then(on_end, NULL),
                    &ticket) == TROUPE_OK,
            "it does not begin");
        begun++;
        if (i % 16 == 9) {
            require(troupe_cancel(self, ticket) == TROUPE_OK, "no cancel");
        }
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type asker = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "asker",
    .receive = gather,
};

static troupe_counters
counters(const troupe_system *system)
{
    troupe_counters all = TROUPE_INIT(troupe_counters);

    require(troupe_counters_read(system, &all) == TROUPE_OK, "no counters");
    return all;
}

static troupe_ref
open_actors(troupe_system *system)
{
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    troupe_ref ref = TROUPE_NONE;

    for (enum kind kind = PROMPT; kind < KINDS; kind++) {
        options.arg = &kind;
        options.arg_bytes = sizeof kind;
        require(troupe_system_spawn(system, &server, &options, &whom[kind]) ==
                    TROUPE_OK,
            "no server");
    }
    require(troupe_post_stop(system, whom[DEAD]) == TROUPE_OK &&
                troupe_system_spawn(system, &asker, NULL, &ref) == TROUPE_OK,
        "no asker");
    return ref;
}

static void
check(const troupe_system *system, uint64_t bytes, uint64_t resident)
{
    troupe_counters books = counters(system);
    int64_t left = (int64_t)test_resident_bytes() - (int64_t)resident;

    (void)printf("%" PRIu64 " gathers: %" PRIu64 " OK, %" PRIu64
                 " failed, %" PRIu64 " timeouts, %" PRIu64
                 " cancelled; %" PRIu64 " bytes before, %" PRIu64
                 " after, %" PRId64 " KiB more in the process\n",
        ended, by_status[0], by_status[-(int)TROUPE_E_FAILED],
        by_status[-(int)TROUPE_E_TIMEOUT], by_status[-(int)TROUPE_E_CANCELLED],
        bytes, books.bytes, left / 1024);
    require(ended == begun && ended == (uint64_t)BATCHES * BATCH,
        "some have not ended");
    require(books.asks == 0, "some operations are open");
    require(books.sent == books.handled + books.dropped + books.dead +
                              books.cancelled + books.refused + books.queued,
        "the books do not balance");
    require(books.bytes <= bytes, "the system holds more");
    require(left <= LEFT_BYTES, "the process holds more");
}

int
main(void)
{
    troupe_system_options options = TROUPE_INIT(troupe_system_options);
    uint64_t bytes = 0, resident = 0;
    troupe_system *system = NULL;
    troupe_ref ref;

    options.flags = TROUPE_SYSTEM_IGNORE_ENV | TROUPE_SYSTEM_DRIVEN;
    options.seed = 1;
    options.log.max_level = TROUPE_LOG_ERROR; /* late answers are meant */
    require(troupe_system_create(&options, &system) == TROUPE_OK, "no system");
    ref = open_actors(system);
    for (uint32_t i = 0; i < BATCHES; i++) {
        if (i == WARM) {
            bytes = counters(system).bytes;
            resident = test_resident_bytes();
        }
        require(troupe_post(system, ref, &go, NULL) == TROUPE_OK, "no post");
        require(troupe_system_advance(system, TROUPE_MS(10)) == TROUPE_OK,
            "it does not run");
    }
    check(system, bytes, resident);
    require(troupe_system_destroy(system) == TROUPE_OK, "no end");
    return 0;
}
