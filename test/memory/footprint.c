/* SPDX-License-Identifier: MIT */

/*
 * What an idle actor costs, and that a burst leaves nothing behind. Prints what
 * it measures; the times are only reported.
 */
#include "support/await.h"
#include "support/census.h"

#include <troupe/troupe.h>

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    MILLION = 1000000,
    SHALLOW = 10,
    STATE_BYTES = 16,
    BYTES_PER_ACTOR = 192,
    LEFT_BYTES = 1 << 20
};

struct eight {
    uint64_t number;
};
struct sixty_four {
    uint64_t numbers[8];
};
TROUPE_MSG_TYPE(eight, struct eight, 1);
TROUPE_MSG_TYPE(sixty_four, struct sixty_four, 2);

static _Atomic uint64_t handled;
static _Atomic bool gate;
static int failures;

static void
require(bool good, const char *what)
{
    if (!good) {
        (void)fprintf(stderr, "footprint: %s\n", what);
        exit(1);
    }
}

static void
report(bool good, const char *what)
{
    if (!good) {
        (void)fprintf(stderr, "footprint: FAILED: %s\n", what);
        failures++;
    }
}

/* Waits in its first message until it is let go. */
static troupe_verdict
receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)self;
    (void)state;
    (void)msg;
    while (!atomic_load(&gate)) {
    }
    atomic_fetch_add_explicit(&handled, 1, memory_order_relaxed);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "footprint",
    .state_bytes = STATE_BYTES,
    .receive = receive,
};

static troupe_system *
open_system(uint32_t flags)
{
    troupe_system_options options = TROUPE_INIT(troupe_system_options);
    troupe_system *system = NULL;

    options.flags = TROUPE_SYSTEM_IGNORE_ENV | flags;
    options.workers = (flags & TROUPE_SYSTEM_DRIVEN) != 0 ? 0 : 1;
    options.max_actors = 2 * MILLION;
    options.stop_grace_ns = TEST_DEADLINE_NS;
    require(troupe_system_create(&options, &system) == TROUPE_OK, "no system");
    return system;
}

static troupe_ref
spawn(troupe_system *system)
{
    troupe_ref ref = TROUPE_NONE;

    require(troupe_system_spawn(system, &type, NULL, &ref) == TROUPE_OK,
        "no actor");
    return ref;
}

static void
settle(troupe_system *system)
{
    require(troupe_system_await_idle(system, TEST_DEADLINE_NS) == TROUPE_OK,
        "it does not come to rest");
}

static void
close_system(troupe_system *system)
{
    require(troupe_system_destroy(system) == TROUPE_OK, "no end");
}

static void
measure_actors(void)
{
    troupe_system *system = open_system(0);
    uint64_t before;
    uint64_t each;

    (void)spawn(system);
    settle(system);
    before = test_resident_bytes();
    for (uint32_t i = 0; i < MILLION; i++) {
        (void)spawn(system);
    }
    settle(system);
    each = (test_resident_bytes() - before) / MILLION;
    (void)printf("1000000 idle actors with %d bytes of state: %" PRIu64
                 " bytes each (limit %d)\n",
        STATE_BYTES, each, BYTES_PER_ACTOR);
    report(each <= BYTES_PER_ACTOR, "an idle actor is too large");
    close_system(system);
}

static void
post(troupe_system *system, troupe_ref to, const troupe_msg_type *what,
    uint32_t count)
{
    static const struct sixty_four payload;

    for (uint32_t i = 0; i < count; i++) {
        require(
            troupe_post(system, to, what, &payload) == TROUPE_OK, "no post");
    }
}

/* Nanoseconds per message, sent and handled, in bursts of `depth`. */
static double
time_bursts(troupe_system *system, troupe_ref to, const troupe_msg_type *what,
    uint32_t depth)
{
    uint64_t begin_ns = test_clock_ns();

    for (uint32_t done = 0; done < MILLION; done += depth) {
        post(system, to, what, depth);
        require(
            troupe_system_run(system, 0, NULL) == TROUPE_OK, "it does not run");
    }
    return (double)(test_clock_ns() - begin_ns) / MILLION;
}

static void
check_rest(const char *how, const troupe_msg_type *what, uint64_t before,
    uint64_t peak, uint64_t after)
{
    int64_t left = (int64_t)after - (int64_t)before;

    (void)printf("%s, 1000000 waiting messages of %zu bytes: %" PRIu64
                 " bytes each, %" PRId64 " KiB left afterwards\n",
        how, what->bytes, (peak - before) / MILLION, left / 1024);
    report(peak - before > MILLION * (uint64_t)what->bytes,
        "the measure is blind: the burst was not seen");
    report(left <= LEFT_BYTES, "memory is kept after a burst");
}

static void
measure_driven(const troupe_msg_type *what)
{
    troupe_system *system = open_system(TROUPE_SYSTEM_DRIVEN);
    troupe_ref to = spawn(system);
    uint64_t before;
    uint64_t peak;
    double shallow;
    double deep;

    post(system, to, what, SHALLOW);
    settle(system);
    before = test_resident_bytes();
    post(system, to, what, MILLION);
    peak = test_resident_bytes();
    settle(system);
    check_rest("driven", what, before, peak, test_resident_bytes());
    shallow = time_bursts(system, to, what, SHALLOW);
    deep = time_bursts(system, to, what, MILLION);
    (void)printf("a message of %zu bytes: %.1f ns at depth %d, %.1f ns at "
                 "depth 1000000: ratio %.2f\n",
        what->bytes, shallow, SHALLOW, deep, deep / shallow);
    close_system(system);
}

static void
measure_blocked(const troupe_msg_type *what)
{
    troupe_system *system = open_system(0);
    troupe_ref to = spawn(system);
    uint64_t before;
    uint64_t peak;

    post(system, to, what, SHALLOW);
    settle(system);
    before = test_resident_bytes();
    atomic_store(&gate, false);
    post(system, to, what, MILLION);
    peak = test_resident_bytes();
    atomic_store(&gate, true);
    settle(system);
    check_rest("blocked", what, before, peak, test_resident_bytes());
    close_system(system);
}

int
main(void)
{
    atomic_store(&gate, true);
    /* stdout takes its buffer now. */
    (void)printf("resident at the start: %" PRIu64 " KiB\n",
        test_resident_bytes() / 1024);
    measure_driven(&eight);
    measure_driven(&sixty_four);
    measure_blocked(&eight);
    measure_blocked(&sixty_four);
    measure_actors();
    return failures == 0 ? 0 : 1;
}
