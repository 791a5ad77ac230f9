/* SPDX-License-Identifier: MIT */

/*
 * Senders race with every way to stop. Each message has a number and a place
 * where its fate is counted: handled, dead letter or refused, exactly one; and
 * what it owns is dropped exactly once, unless it was refused.
 */
#include "stress.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    VICTIMS = 6,
    CHILDREN = 2,
    THREADS = 6,
    STOPS = 60,
    HANDLED = 1,
    DEAD = 16,
    REFUSED = 64,
    SENT = 4096
};

struct owned {
    _Atomic uint32_t *drops;
    uint64_t number;
    uint64_t order; /* what the receiver is to do */
};
enum { ORDER_HANDLE, ORDER_DONE, ORDER_FAIL, ORDER_SPIN, ORDERS };

static void
drop(void *payload, size_t bytes)
{
    struct owned *owned = payload;

    (void)bytes;
    atomic_fetch_add(owned->drops, 1);
}

TROUPE_MSG_TYPE_WITH(work, struct owned, 1, 0, drop);
TROUPE_MSG_TYPE_EMPTY(go, 2);

struct fate {
    _Atomic uint32_t fate;
    _Atomic uint32_t drops;
};

struct race {
    troupe_system *system;
    _Atomic uint64_t victims[VICTIMS * (1 + CHILDREN)];
    struct fate *fates; /* one per message */
    uint64_t capacity;
    _Atomic uint64_t next;
    _Atomic uint32_t stops;
    _Atomic uint64_t by_hook;
    _Atomic bool over;
};

struct thread {
    struct race *race;
    struct test_rng rng;
    pthread_t thread;
};

static void
meet(struct race *race, uint64_t number, uint32_t fate)
{
    atomic_fetch_add(&race->fates[number].fate, fate);
}

static void
on_dead_letter(
    troupe_system *system, const troupe_dead_letter *letter, void *user)
{
    struct race *race = user;

    (void)system;
    if (!troupe_msg_is(letter->msg, &work)) {
        return;
    }
    atomic_fetch_add(&race->by_hook, 1);
    STRESS_CHECK(letter->msg->payload != NULL, "a letter without payload");
    meet(race, ((const struct owned *)letter->msg->payload)->number, DEAD);
}

static troupe_verdict
handle(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct race *race = STRESS_STATE(struct race, state);
    const struct owned *owned = troupe_payload(msg, struct owned);

    (void)self;
    meet(race, owned->number, HANDLED);
    switch (owned->order) {
    case ORDER_DONE:
        return TROUPE_DONE;
    case ORDER_FAIL:
        return TROUPE_FAILED;
    case ORDER_SPIN: /* so that a queue grows */
        stress_spin_ns(20000);
        return TROUPE_CONTINUE;
    default:
        return TROUPE_CONTINUE;
    }
}

static const troupe_actor_type child_type = STRESS_ACTOR(handle);

/* Children too are in the list, at the places behind their parent's. */
static troupe_status
start_victim(troupe_self *self, void *state, const void *arg)
{
    struct race *race = *(struct race *const *)arg;
    struct test_rng rng = {troupe_ref_key(troupe_self_ref(self))};
    uint32_t count = test_random_below(&rng, CHILDREN + 1);

    *(struct race **)state = race;
    for (uint32_t i = 0; i < count; i++) {
        void *what = race;
        const troupe_spawn_options options = {
            .size = TROUPE_OPTIONS(troupe_spawn_options),
            .arg = &what,
            .arg_bytes = sizeof what,
        };
        troupe_ref child = TROUPE_NONE;
        troupe_status status =
            troupe_spawn(self, &child_type, &options, &child);
        uint32_t place = VICTIMS + test_random_below(&rng, VICTIMS * CHILDREN);

        STRESS_CHECK(status == TROUPE_OK || status == TROUPE_E_CLOSED ||
                         status == TROUPE_E_STATE,
            "%s", troupe_status_name(status));
        atomic_store(&race->victims[place], stress_pack(child));
    }
    return test_random_below(&rng, 20) == 0 ? TROUPE_E_STATE : TROUPE_OK;
}

static const troupe_actor_type victim_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "victim",
    .state_bytes = sizeof(void *),
    .receive = handle,
    .start = start_victim,
};

static troupe_ref
some_victim(struct race *race, struct test_rng *rng)
{
    uint32_t place = test_random_below(rng, VICTIMS * (1 + CHILDREN));

    return stress_unpack(atomic_load(&race->victims[place]));
}

static bool
send_one(struct race *race, struct test_rng *rng, troupe_self *self)
{
    uint64_t number = atomic_fetch_add(&race->next, 1);
    troupe_ref to = some_victim(race, rng);
    uint32_t drawn = test_random_below(rng, 2000);
    struct owned owned = {0};
    troupe_status status;

    if (number >= race->capacity || atomic_load(&race->over)) {
        return false;
    }
    meet(race, number, SENT);
    owned.drops = &race->fates[number].drops;
    owned.number = number;
    owned.order = drawn < 3 * 8 && drawn >= 8 ? ORDER_SPIN
                  : drawn < ORDERS            ? drawn
                                              : ORDER_HANDLE;
    if (drawn % 3 == 0) {
        if (self != NULL) {
            troupe_tell(self, to, &work, &owned);
        } else {
            troupe_post_tell(race->system, to, &work, &owned);
        }
        return true;
    }
    status = self != NULL ? troupe_send(self, to, &work, &owned)
                          : troupe_post(race->system, to, &work, &owned);
    if (status != TROUPE_OK) {
        STRESS_CHECK(status == TROUPE_E_DEAD || status == TROUPE_E_CLOSED ||
                         (status == TROUPE_E_INVALID && troupe_ref_is_none(to)),
            "%s", troupe_status_name(status));
        meet(race, number, REFUSED);
        drop(&owned, sizeof owned);
    }
    return true;
}

static void *
sending_thread(void *user)
{
    struct thread *thread = user;

    while (send_one(thread->race, &thread->rng, NULL)) {
        stress_jitter(&thread->rng);
    }
    return NULL;
}

static troupe_verdict
sending_actor(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct thread *thread = STRESS_STATE(struct thread, state);

    (void)msg;
    for (uint32_t i = 0; i < 20; i++) {
        if (!send_one(thread->race, &thread->rng, self)) {
            return TROUPE_CONTINUE;
        }
    }
    stress_jitter(&thread->rng);
    troupe_tell(self, troupe_self_ref(self), &go, NULL);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type sender_type = STRESS_ACTOR(sending_actor);

/* Stops one of them, softly or firmly, and fills the place again. */
static void
stop_one(struct race *race, struct test_rng *rng)
{
    uint32_t place = test_random_below(rng, VICTIMS);
    troupe_ref whom = test_random_below(rng, 4) == 0
                          ? some_victim(race, rng)
                          : stress_unpack(atomic_load(&race->victims[place]));
    troupe_status status = TROUPE_OK;

    if (!troupe_ref_is_none(whom)) {
        switch (test_random_below(rng, 4)) {
        case 0:
            status = troupe_post_stop(race->system, whom);
            break;
        case 1:
            status = troupe_post_stop_now(race->system, whom);
            break;
        case 2: /* both at once */
            status = troupe_post_stop(race->system, whom);
            (void)troupe_post_stop_now(race->system, whom);
            break;
        default:
            status =
                troupe_stop_wait(race->system, &whom, 1, STRESS_DEADLINE_NS);
            break;
        }
    }
    STRESS_CHECK(status == TROUPE_OK, "%s", troupe_status_name(status));
    atomic_store(&race->victims[place],
        stress_pack(stress_spawn(race->system, &victim_type, race)));
}

static void *
stopping_thread(void *user)
{
    struct thread *thread = user;

    while (atomic_fetch_add(&thread->race->stops, 1) < STOPS) {
        stop_one(thread->race, &thread->rng);
        stress_spin_ns(test_random_below(&thread->rng, 100000));
    }
    return NULL;
}

/* Returns how many were sent. */
static uint64_t
check_fates(struct race *race, const troupe_counters *counters)
{
    uint64_t sent = atomic_load(&race->next);
    uint64_t dead = 0;

    sent = sent < race->capacity ? sent : race->capacity;
    for (uint64_t i = 0; i < sent; i++) {
        uint32_t fate = atomic_load(&race->fates[i].fate);
        uint32_t drops = atomic_load(&race->fates[i].drops);

        if (fate == 0) {
            STRESS_CHECK(drops == 0, "dropped, but never sent");
            continue; /* drawn, but not sent: the race was over */
        }
        fate -= SENT;
        STRESS_CHECK(fate == HANDLED || fate == DEAD || fate == REFUSED,
            "message %" PRIu64 ": %u times handled, %u dead, %u refused", i,
            fate % DEAD, fate % REFUSED / DEAD, fate / REFUSED);
        STRESS_CHECK(
            drops == 1, "message %" PRIu64 " dropped %u times", i, drops);
        dead += fate == DEAD;
    }
    STRESS_CHECK(dead == atomic_load(&race->by_hook), "letters");
    STRESS_CHECK(dead <= counters->dead,
        "%" PRIu64 " letters, counted %" PRIu64, dead, counters->dead);
    return sent;
}

static uint64_t
run(struct test_rng *rng)
{
    troupe_system_options options = stress_options(stress_workers(rng));
    uint32_t count = stress_threads(rng, THREADS);
    struct race *race = stress_zeroed(1, sizeof *race);
    struct thread senders[THREADS];
    struct thread actors[2];
    struct thread stoppers[2];
    troupe_counters counters;
    uint64_t sent;

    race->capacity = 20000 + test_random_below(rng, 100000);
    race->fates = stress_zeroed(race->capacity, sizeof *race->fates);
    options.dead_letter.fn = on_dead_letter;
    options.dead_letter.user = race;
    options.steal = (troupe_steal)test_random_below(rng, 4);
    race->system = stress_open(&options);
    for (uint32_t i = 0; i < VICTIMS; i++) {
        atomic_store(&race->victims[i],
            stress_pack(stress_spawn(race->system, &victim_type, race)));
    }
    for (uint32_t i = 0; i < 2; i++) {
        troupe_ref ref;

        actors[i].race = race;
        actors[i].rng.state = test_random(rng);
        ref = stress_spawn(race->system, &sender_type, &actors[i]);
        STRESS_CHECK(
            troupe_post(race->system, ref, &go, NULL) == TROUPE_OK, "go");
        stoppers[i].race = race;
        stoppers[i].rng.state = test_random(rng);
        stress_thread(&stoppers[i].thread, stopping_thread, &stoppers[i]);
    }
    for (uint32_t i = 0; i < count; i++) {
        senders[i].race = race;
        senders[i].rng.state = test_random(rng);
        stress_thread(&senders[i].thread, sending_thread, &senders[i]);
    }
    stress_join(stoppers[0].thread);
    stress_join(stoppers[1].thread);
    if (test_random_below(rng, 2) == 0) {
        /* The whole system, while they send. */
        troupe_status status = troupe_system_stop(race->system);

        STRESS_CHECK(status == TROUPE_OK, "%s", troupe_status_name(status));
    }
    atomic_store(&race->over, true);
    for (uint32_t i = 0; i < count; i++) {
        stress_join(senders[i].thread);
    }
    STRESS_CHECK(troupe_system_stop(race->system) == TROUPE_OK, "a stop");
    counters = stress_counters(race->system);
    stress_close(race->system);
    sent = check_fates(race, &counters);
    free(race->fates);
    free(race);
    return sent;
}

int
main(int argc, char **argv)
{
    struct test_rng rng;
    uint64_t sent = 0;

    stress_begin(argc, argv);
    while (stress_more(&rng)) {
        sent += run(&rng);
    }
    return stress_end(sent, "messages with one fate each");
}
