/* SPDX-License-Identifier: MIT */

/*
 * One breaker, many threads. Of probes one at a time is out; results of an
 * earlier state change nothing; the listener is told every change in order, one
 * at a time; each call is counted once.
 */
#include "stress.h"

#include "pattern/breaker.h"

#include <inttypes.h>
#include <string.h>

enum { THREADS = 8, CALLS = 3000, KEPT = 16 };

/* What the threads of a round do. */
struct shape {
    uint32_t failures;  /* per cent of the calls */
    uint32_t uncounted; /* per cent of these */
    bool forces;
    bool heals; /* forced closed at the start, and nothing fails */
    /* Kept until their state is over, then handed back with this outcome. */
    bool keeps;
    troupe_status late;
};

static const struct shape shapes[] = {
    {.failures = 30, .uncounted = 20},
    {.failures = 50, .uncounted = 10, .forces = true},
    /* Nothing works: what worked before must not close it. */
    {.failures = 100, .keeps = true, .late = TROUPE_OK},
    /* All is well again: what failed before must not open it. */
    {.heals = true, .keeps = true, .late = TROUPE_E_TIMEOUT},
};

struct round {
    const struct shape *shape;
    troupe_breaker *breaker;
    _Atomic uint32_t probes; /* that are out */
    _Atomic uint32_t arrived;
    _Atomic uint32_t go;
    uint32_t threads;

    /* The listener's. */
    _Atomic uint32_t inside;
    troupe_breaker_state last;
    uint64_t told;
    uint64_t told_closed;
    uint64_t leaps; /* past a state that must have been between */
};

struct caller {
    struct round *round;
    struct test_rng rng;
    uint64_t entered;
    uint64_t refused;
};

static bool
counts(troupe_status status, int32_t code, void *user)
{
    (void)status;
    (void)user;
    return code != 404;
}

static void
listen(troupe_breaker *breaker, troupe_breaker_state state, void *user)
{
    struct round *round = user;

    (void)breaker;
    STRESS_CHECK(
        atomic_fetch_add(&round->inside, 1) == 0, "two listen at a time");
    if (round->told % 8 == 0) {
        stress_spin_ns(5000);
    }
    round->leaps += state == round->last ||
                    (round->last != TROUPE_BREAKER_HALF_OPEN &&
                        (uint32_t)state != (uint32_t)round->last + 1);
    round->last = state;
    round->told++;
    round->told_closed += state == TROUPE_BREAKER_CLOSED;
    atomic_fetch_sub(&round->inside, 1);
}

static bool
is_probe(troupe_permit permit)
{
    return permit.id % TRP_BREAKER_VERSION == TRP_BREAKER_PROBING;
}

static void
leave(struct caller *caller, troupe_permit permit)
{
    struct round *round = caller->round;
    const struct shape *shape = round->shape;
    bool fails = test_random_below(&caller->rng, 100) < shape->failures;
    bool counted = test_random_below(&caller->rng, 100) >= shape->uncounted;

    if (is_probe(permit) && !shape->forces) {
        atomic_fetch_sub(&round->probes, 1);
    }
    troupe_breaker_leave(round->breaker, permit,
        fails ? TROUPE_E_FAILED : TROUPE_OK, counted ? 0 : 404);
}

static bool
enter(struct caller *caller, troupe_permit *permit)
{
    struct round *round = caller->round;
    troupe_status status = troupe_breaker_enter(round->breaker, permit);

    if (status != TROUPE_OK) {
        STRESS_CHECK(status == TROUPE_E_OPEN, "%s", troupe_status_name(status));
        caller->refused++;
        return false;
    }
    caller->entered++;
    if (is_probe(*permit) && !round->shape->forces) {
        STRESS_CHECK(
            atomic_fetch_add(&round->probes, 1) == 0, "two probes are out");
    }
    return true;
}

/* The last one to arrive opens the breaker, and closes it if it may. */
static void
meet(struct round *round)
{
    if (atomic_fetch_add(&round->arrived, 1) + 1 == round->threads) {
        if (round->shape->keeps) {
            troupe_breaker_force(round->breaker, TROUPE_BREAKER_OPEN);
        }
        if (round->shape->heals) {
            troupe_breaker_force(round->breaker, TROUPE_BREAKER_CLOSED);
        }
        atomic_store(&round->go, 1);
    }
    while (atomic_load(&round->go) == 0) {
        stress_spin_ns(100);
    }
}

static void *
be_caller(void *user)
{
    struct caller *caller = user;
    struct round *round = caller->round;
    uint32_t kept = round->shape->keeps ? KEPT : 0;
    troupe_permit old[KEPT];
    troupe_permit permit;

    for (uint32_t i = 0; i < kept; i++) {
        STRESS_CHECK(enter(caller, &old[i]), "it was never opened");
    }
    meet(round);
    for (uint32_t i = 0; i < CALLS; i++) {
        if (enter(caller, &permit)) {
            stress_jitter(&caller->rng);
            leave(caller, permit);
        }
        if (kept > 0 && test_random_below(&caller->rng, CALLS / KEPT) == 0) {
            troupe_breaker_leave(
                round->breaker, old[--kept], round->shape->late, 0);
        }
        if (round->shape->forces && test_random_below(&caller->rng, 50) == 0) {
            troupe_breaker_force(round->breaker,
                (troupe_breaker_state)test_random_below(&caller->rng, 3));
        }
    }
    while (kept > 0) {
        troupe_breaker_leave(
            round->breaker, old[--kept], round->shape->late, 0);
    }
    return NULL;
}

static void
check_counts(const struct round *round, uint64_t entered, uint64_t refused)
{
    struct trp_breaker_counts was;
    uint64_t left;
    uint64_t changes;

    trp_breaker_read(round->breaker, &was);
    left = was.succeeded + was.failed + was.uncounted + was.late;
    changes = was.changes[0] + was.changes[1] + was.changes[2];
    STRESS_CHECK(left == entered, "%" PRIu64 " entered, %" PRIu64 " left",
        entered, left);
    STRESS_CHECK(was.refused == refused, "%" PRIu64 " refused, %" PRIu64,
        refused, was.refused);
    /* Misses some only when 32 have been waiting. */
    STRESS_CHECK(
        changes == round->told || (round->told > 32 && round->told < changes),
        "%" PRIu64 " changes, told %" PRIu64, changes, round->told);
    STRESS_CHECK(round->leaps == 0 || changes != round->told ||
                     round->shape->forces || round->shape->heals,
        "%" PRIu64 " leaps", round->leaps);
    STRESS_CHECK(round->last == troupe_breaker_state_now(round->breaker),
        "told of %d last", (int)round->last);
    if (round->shape->keeps) {
        STRESS_CHECK(was.late >= (uint64_t)round->threads * KEPT,
            "%" PRIu64 " late", was.late);
        STRESS_CHECK(round->told_closed == (round->shape->heals ? 1 : 0),
            "closed %" PRIu64 " times", round->told_closed);
    }
    if (round->shape->heals) {
        STRESS_CHECK(round->told == 2, "told %" PRIu64 " times", round->told);
    }
}

static uint64_t
run_round(troupe_system *system, struct test_rng *rng)
{
    static const uint64_t resets[] = {
        TROUPE_US(100), TROUPE_US(1), TROUPE_RESET_AT_ONCE};
    const struct shape *shape = &shapes[test_random_below(rng, 4)];
    troupe_breaker_options options = TROUPE_INIT(troupe_breaker_options);
    struct round round = {.shape = shape};
    struct caller callers[THREADS];
    pthread_t threads[THREADS];
    uint64_t entered = 0;
    uint64_t refused = 0;
    troupe_status status;

    options.max_failures = 1 + test_random_below(rng, 3);
    options.reset_ns = resets[test_random_below(rng, 3)];
    options.counts = counts;
    options.listen = listen;
    options.user = &round;
    status = troupe_breaker_create(system, &options, &round.breaker);
    STRESS_CHECK(status == TROUPE_OK, "%s", troupe_status_name(status));
    round.threads = stress_threads(rng, THREADS);
    for (uint32_t i = 0; i < round.threads; i++) {
        callers[i] = (struct caller){&round, {test_random(rng)}, 0, 0};
        stress_thread(&threads[i], be_caller, &callers[i]);
    }
    for (uint32_t i = 0; i < round.threads; i++) {
        stress_join(threads[i]);
        entered += callers[i].entered;
        refused += callers[i].refused;
    }
    check_counts(&round, entered, refused);
    troupe_breaker_destroy(round.breaker);
    return entered + refused;
}

int
main(int argc, char **argv)
{
    struct test_rng rng;
    uint64_t calls = 0;

    stress_begin(argc, argv);
    while (stress_more(&rng)) {
        troupe_system_options options = stress_options(1);
        troupe_system *system = stress_open(&options);

        for (int i = 0; i < 10; i++) {
            calls += run_round(system, &rng);
        }
        stress_close(system);
    }
    return stress_end(calls, "calls");
}
