/* SPDX-License-Identifier: MIT */

/*
 * Actors that start, replace and cancel timers at random, and stop or restart
 * while they have some; threads that send to them later, take that back, and
 * stop them. An actor knows what it has started: a message of a timer that it
 * has cancelled or replaced is a fault, and so is one that is early. A delayed
 * message is sent or cancelled, never both, and what it owns is dropped once.
 */
#include "stress.h"

#include <inttypes.h>
#include <stdlib.h>

enum { CLOCKS = 12, KEYS = 7, THREADS = 4, LATE = 3000, RECENT = 16 };

enum { HANDLED = 1, DEAD = 16, CANCELLED = 64 };

struct fate {
    _Atomic uint32_t fate;
    _Atomic uint32_t drops;
};

struct round {
    troupe_system *system;
    _Atomic uint64_t clocks[CLOCKS];
    struct fate *fates;
    _Atomic uint64_t made; /* ticks that own something, and dropped again */
    _Atomic uint64_t dropped;
    _Atomic uint64_t ticks;
    _Atomic bool over;
};

struct tick {
    uint32_t key;
    uint32_t generation;
    struct round *owner; /* NULL: owns nothing */
};

struct large_tick {
    struct tick tick;
    unsigned char more[80];
};

static void
drop_tick(void *payload, size_t bytes)
{
    const struct tick *tick = payload;

    (void)bytes;
    atomic_fetch_add(&tick->owner->dropped, 1);
}

struct late {
    struct fate *fate;
};

static void
drop_late(void *payload, size_t bytes)
{
    const struct late *late = payload;

    (void)bytes;
    atomic_fetch_add(&late->fate->drops, 1);
}

enum { TAG_TICK = 1, TAG_LATE, TAG_NUDGE };
TROUPE_MSG_TYPE(small, struct tick, TAG_TICK);
TROUPE_MSG_TYPE(large, struct large_tick, TAG_TICK);
TROUPE_MSG_TYPE_WITH(owned, struct tick, TAG_TICK, 0, drop_tick);
TROUPE_MSG_TYPE_WITH(large_owned, struct large_tick, TAG_TICK, 0, drop_tick);
TROUPE_MSG_TYPE_WITH(late_type, struct late, TAG_LATE, 0, drop_late);
TROUPE_MSG_TYPE_EMPTY(nudge, TAG_NUDGE);

/* --- the actors -------------------------------------------------------------
 */

enum kind { ONCE, DELAY, RATE };

struct clock {
    struct round *round;
    struct test_rng rng;
    uint64_t silence_ns;
    uint64_t active_ns;
    struct {
        bool is_active;
        enum kind kind;
        uint32_t generation;
        uint64_t due_ns;
        uint64_t interval_ns;
    } key[KEYS];
};

static uint64_t
some_delay(struct test_rng *rng)
{
    switch (test_random_below(rng, 6)) {
    case 0:
        return 0;
    case 1:
        return TROUPE_S(1000);
    default:
        return test_random_below(rng, 400000);
    }
}

static void
start(troupe_self *self, struct clock *clock, uint32_t key)
{
    static const troupe_msg_type *const types[] = {
        &small, &large, &owned, &large_owned};
    enum kind kind = (enum kind)test_random_below(&clock->rng, 3);
    uint32_t type = test_random_below(&clock->rng, kind == ONCE ? 4 : 2);
    struct large_tick payload = {
        .tick = {key, ++clock->key[key].generation, NULL}};
    uint64_t first_ns = some_delay(&clock->rng);
    uint64_t interval_ns = 1 + some_delay(&clock->rng);
    troupe_status status;

    if (type >= 2) {
        payload.tick.owner = clock->round;
        atomic_fetch_add(&clock->round->made, 1);
    }
    clock->key[key].is_active = true;
    clock->key[key].kind = kind;
    clock->key[key].due_ns = troupe_now_ns(troupe_self_system(self)) + first_ns;
    clock->key[key].interval_ns = interval_ns;
    status = kind == ONCE
                 ? troupe_timer_once(self, key, types[type], &payload, first_ns)
             : kind == DELAY ? troupe_timer_fixed_delay(self, key, types[type],
                                   &payload, first_ns, interval_ns)
                             : troupe_timer_fixed_rate(self, key, types[type],
                                   &payload, first_ns, interval_ns);
    STRESS_CHECK(status == TROUPE_OK, "%s", troupe_status_name(status));
}

static void
cancel(troupe_self *self, struct clock *clock, uint32_t key)
{
    STRESS_CHECK(troupe_timer_cancel(self, key) == clock->key[key].is_active,
        "cancel of key %u", key);
    clock->key[key].is_active = false;
}

static void
play(troupe_self *self, struct clock *clock)
{
    uint32_t key = test_random_below(&clock->rng, KEYS);

    switch (test_random_below(&clock->rng, 12)) {
    case 0:
    case 1:
    case 2:
        start(self, clock, key);
        break;
    case 3:
    case 4:
        cancel(self, clock, key);
        break;
    case 5:
        troupe_timer_cancel_all(self);
        for (key = 0; key < KEYS; key++) {
            clock->key[key].is_active = false;
        }
        break;
    case 6:
        clock->silence_ns = test_random_below(&clock->rng, 3) * 200000;
        clock->active_ns = troupe_now_ns(troupe_self_system(self));
        STRESS_CHECK(
            troupe_receive_timeout(self, clock->silence_ns) == TROUPE_OK,
            "timeout");
        break;
    case 7:
        stress_spin_ns(test_random_below(&clock->rng, 100000));
        break;
    default:
        break;
    }
}

static void
check_tick(struct clock *clock, const troupe_msg *msg, uint64_t now_ns)
{
    const struct tick *tick = msg->payload;
    uint32_t key = tick->key;

    STRESS_CHECK(key < KEYS && clock->key[key].is_active,
        "a tick of a key that was cancelled");
    STRESS_CHECK(tick->generation == clock->key[key].generation,
        "a tick of start %u, the last one was %u", tick->generation,
        clock->key[key].generation);
    STRESS_CHECK(now_ns >= clock->key[key].due_ns, "early by %" PRIu64,
        clock->key[key].due_ns - now_ns);
    clock->key[key].is_active = clock->key[key].kind != ONCE;
    clock->key[key].due_ns =
        (clock->key[key].kind == RATE ? clock->key[key].due_ns : now_ns) +
        clock->key[key].interval_ns;
    atomic_fetch_add(&clock->round->ticks, 1);
}

static troupe_verdict
receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct clock *clock = state;
    uint64_t now_ns = troupe_now_ns(troupe_self_system(self));

    switch (troupe_msg_tag(msg)) {
    case TAG_TICK:
        check_tick(clock, msg, now_ns);
        break;
    case TAG_LATE:
        atomic_fetch_add(
            &troupe_payload(msg, struct late)->fate->fate, HANDLED);
        break;
    case TROUPE_TAG_IDLE:
        STRESS_CHECK(clock->silence_ns != 0, "a timeout that is off");
        STRESS_CHECK(now_ns - clock->active_ns >= clock->silence_ns,
            "only %" PRIu64 " of silence", now_ns - clock->active_ns);
        break;
    default:
        break;
    }
    play(self, clock);
    /* It begins at the end of this one: what is noted is not later. */
    clock->active_ns = troupe_now_ns(troupe_self_system(self));
    switch (test_random_below(&clock->rng, 1500)) {
    case 0:
        return TROUPE_DONE;
    case 1:
    case 2: /* a new state knows of no timers */
        return TROUPE_FAILED;
    default:
        return TROUPE_CONTINUE;
    }
}

static troupe_status
start_clock(troupe_self *self, void *state, const void *arg)
{
    struct clock *clock = state;

    clock->round = *(struct round *const *)arg;
    clock->rng.state = troupe_ref_key(troupe_self_ref(self)) ^ stress.seed;
    for (uint32_t i = 0; i < 8; i++) {
        play(self, clock);
    }
    return test_random_below(&clock->rng, 30) == 0 ? TROUPE_E_STATE : TROUPE_OK;
}

static const troupe_actor_type clock_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "clock",
    .state_bytes = sizeof(struct clock),
    .receive = receive,
    .start = start_clock,
};

/* --- the threads ------------------------------------------------------------
 */

static void
on_dead_letter(
    troupe_system *system, const troupe_dead_letter *letter, void *user)
{
    (void)system;
    (void)user;
    STRESS_CHECK(
        letter->msg->type->tag != TAG_TICK, "a tick is no dead letter");
    if (troupe_msg_is(letter->msg, &late_type)) {
        atomic_fetch_add(
            &troupe_payload(letter->msg, struct late)->fate->fate, DEAD);
    }
}

static void
spawn_at(struct round *round, uint32_t place)
{
    atomic_store(&round->clocks[place],
        stress_pack(stress_spawn(round->system, &clock_type, round)));
}

struct thread {
    struct round *round;
    struct test_rng rng;
    pthread_t thread;
    struct fate *fates; /* its own */
    struct {
        troupe_delayed delayed;
        struct fate *fate;
    } recent[RECENT];
};

static void
take_back(struct thread *thread)
{
    uint32_t place = test_random_below(&thread->rng, RECENT);

    if (troupe_delayed_cancel(
            thread->round->system, thread->recent[place].delayed)) {
        atomic_fetch_add(&thread->recent[place].fate->fate, CANCELLED);
    }
}

static void *
meddle(void *user)
{
    struct thread *thread = user;
    struct round *round = thread->round;

    for (uint32_t i = 0; i < LATE; i++) {
        uint32_t place = test_random_below(&thread->rng, CLOCKS);
        troupe_ref ref = stress_unpack(atomic_load(&round->clocks[place]));
        struct late late = {&thread->fates[i]};
        uint32_t mine = test_random_below(&thread->rng, RECENT);

        STRESS_CHECK(troupe_post_after(round->system, ref, &late_type, &late,
                         some_delay(&thread->rng),
                         &thread->recent[mine].delayed) == TROUPE_OK,
            "post_after");
        thread->recent[mine].fate = late.fate;
        if (test_random_below(&thread->rng, 2) == 0) {
            take_back(thread);
        }
        if (test_random_below(&thread->rng, 3) == 0) {
            troupe_post_tell(round->system, ref, &nudge, NULL);
        }
        if (test_random_below(&thread->rng, 100) == 0) {
            STRESS_CHECK((i % 2 == 0 ? troupe_post_stop(round->system, ref)
                                     : troupe_post_stop_now(
                                           round->system, ref)) == TROUPE_OK,
                "stop");
            spawn_at(round, place);
        }
        stress_jitter(&thread->rng);
    }
    return NULL;
}

static uint64_t
run(struct test_rng *rng)
{
    struct round round = {.fates = NULL};
    struct thread threads[THREADS];
    uint32_t count = stress_threads(rng, THREADS);
    troupe_system_options options = stress_options(stress_workers(rng));

    round.fates = stress_zeroed((size_t)count * LATE, sizeof *round.fates);
    options.dead_letter.fn = on_dead_letter;
    round.system = stress_open(&options);
    for (uint32_t i = 0; i < CLOCKS; i++) {
        spawn_at(&round, i);
    }
    for (uint32_t i = 0; i < count; i++) {
        threads[i] = (struct thread){.round = &round,
            .rng = {test_random(rng)},
            .fates = &round.fates[i * LATE]};
        stress_thread(&threads[i].thread, meddle, &threads[i]);
    }
    for (uint32_t i = 0; i < count; i++) {
        stress_join(threads[i].thread);
    }
    stress_close(round.system);
    for (uint32_t i = 0; i < count * LATE; i++) {
        uint32_t fate = atomic_load(&round.fates[i].fate);

        STRESS_CHECK(
            fate == 0 || fate == HANDLED || fate == DEAD || fate == CANCELLED,
            "delayed message %u: fate %u", i, fate);
        STRESS_CHECK(atomic_load(&round.fates[i].drops) == 1,
            "delayed message %u: dropped %u times", i,
            atomic_load(&round.fates[i].drops));
    }
    STRESS_CHECK(atomic_load(&round.made) == atomic_load(&round.dropped),
        "%" PRIu64 " ticks owned something, %" PRIu64 " were dropped",
        atomic_load(&round.made), atomic_load(&round.dropped));
    free(round.fates);
    return atomic_load(&round.ticks);
}

int
main(int argc, char **argv)
{
    struct test_rng rng;
    uint64_t ticks = 0;

    stress_begin(argc, argv);
    while (stress_more(&rng)) {
        ticks += run(&rng);
    }
    return stress_end(ticks, "ticks");
}
