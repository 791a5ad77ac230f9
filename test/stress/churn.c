/* SPDX-License-Identifier: MIT */

/*
 * Spawn, message, die: cells are used again and again. Who keeps an old ref is
 * told that it is dead, for ever, and never reaches the cell's next actor: each
 * actor checks that what it gets carries its own number.
 */
#include "stress.h"

#include <inttypes.h>
#include <stdlib.h>

enum { BREEDERS = 3, SHELF = 64, BATCH = 8 };

TROUPE_MSG_TYPE_EMPTY(go, 1);

struct to_one {
    uint64_t number;
    bool last;
};
TROUPE_MSG_TYPE(to_one, struct to_one, 2);

/* Places where breeders leave a ref and its number for strangers. */
struct shelf {
    pthread_mutex_t lock;
    uint64_t number;
    troupe_ref ref;
};

struct churn {
    troupe_system *system;
    struct shelf shelves[SHELF];
    _Atomic uint64_t numbers;
    _Atomic uint64_t handled;
    _Atomic uint64_t dead;
    _Atomic uint64_t sent; /* to children, without those refused */
    _Atomic bool over;
};

struct breeder {
    struct churn *churn;
    uint64_t left;
    struct test_rng rng;
    pthread_t thread;
};

struct child {
    uint64_t number;
    struct churn *churn;
};

static troupe_status
start_child(troupe_self *self, void *state, const void *arg)
{
    (void)self;
    *(struct child *)state = *(const struct child *)arg;
    return TROUPE_OK;
}

static troupe_verdict
be_child(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct child *child = state;
    const struct to_one *got = troupe_payload(msg, struct to_one);

    (void)self;
    STRESS_CHECK(got->number == child->number,
        "number %" PRIu64 " got what is for %" PRIu64, child->number,
        got->number);
    atomic_fetch_add_explicit(&child->churn->handled, 1, memory_order_relaxed);
    return got->last ? TROUPE_DONE : TROUPE_CONTINUE;
}

static const troupe_actor_type child_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "child",
    .state_bytes = sizeof(struct child),
    .receive = be_child,
    .start = start_child,
};

static void
breed(struct breeder *breeder, troupe_self *self)
{
    struct churn *churn = breeder->churn;
    struct child child = {atomic_fetch_add(&churn->numbers, 1), churn};
    struct to_one message = {child.number, false};
    const troupe_spawn_options options = {
        .size = TROUPE_OPTIONS(troupe_spawn_options),
        .arg = &child,
        .arg_bytes = sizeof child,
    };
    uint32_t count = test_random_below(&breeder->rng, 3);
    uint32_t way = test_random_below(&breeder->rng, 8);
    struct shelf *shelf =
        &churn->shelves[test_random_below(&breeder->rng, SHELF)];
    troupe_ref ref = TROUPE_NONE;
    troupe_status status = troupe_spawn(self, &child_type, &options, &ref);

    STRESS_CHECK(status == TROUPE_OK, "%s", troupe_status_name(status));
    (void)pthread_mutex_lock(&shelf->lock);
    shelf->ref = ref;
    shelf->number = child.number;
    (void)pthread_mutex_unlock(&shelf->lock);
    for (uint32_t i = 0; i < count; i++) {
        troupe_tell(self, ref, &to_one, &message);
    }
    atomic_fetch_add_explicit(
        &churn->sent, count + (way > 1), memory_order_relaxed);
    if (way == 0) {
        (void)troupe_stop_now(self, ref);
    } else if (way == 1) {
        (void)troupe_stop(self, ref);
    } else {
        message.last = true;
        troupe_tell(self, ref, &to_one, &message);
    }
}

static troupe_verdict
be_breeder(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct breeder *breeder = STRESS_STATE(struct breeder, state);

    (void)msg;
    for (uint32_t i = 0; i < BATCH && breeder->left > 0; i++) {
        breed(breeder, self);
        breeder->left--;
    }
    if (breeder->left > 0) {
        troupe_tell(self, troupe_self_ref(self), &go, NULL);
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type breeder_type = STRESS_ACTOR(be_breeder);

/* A stranger: posts to what it finds, also long after it has gone. */
static void *
haunt(void *user)
{
    struct breeder *self = user;
    struct churn *churn = self->churn;
    struct {
        troupe_ref ref;
        uint64_t number;
        bool is_dead;
    } kept[16] = {0};

    while (!atomic_load(&churn->over)) {
        uint32_t i = test_random_below(&self->rng, 16);
        struct shelf *shelf =
            &churn->shelves[test_random_below(&self->rng, SHELF)];
        struct to_one message;
        char path[64];
        troupe_status status;

        if (test_random_below(&self->rng, 16) == 0) {
            (void)pthread_mutex_lock(&shelf->lock);
            kept[i].ref = shelf->ref;
            kept[i].number = shelf->number;
            kept[i].is_dead = false;
            (void)pthread_mutex_unlock(&shelf->lock);
        }
        if (troupe_ref_is_none(kept[i].ref)) {
            continue;
        }
        message = (struct to_one){kept[i].number, false};
        status = troupe_post(churn->system, kept[i].ref, &to_one, &message);
        if (status == TROUPE_E_DEAD) {
            atomic_fetch_add(&churn->dead, 1);
            kept[i].is_dead = true;
            STRESS_CHECK(
                troupe_depth(churn->system, kept[i].ref) == TROUPE_DEPTH_DEAD,
                "a depth of the dead");
        } else {
            STRESS_CHECK(status == TROUPE_OK, "%s", troupe_status_name(status));
            STRESS_CHECK(!kept[i].is_dead, "a dead actor took a message");
            atomic_fetch_add(&churn->sent, 1);
        }
        if (test_random_below(&self->rng, 64) == 0) {
            (void)troupe_path(churn->system, kept[i].ref, path, sizeof path);
        }
        stress_jitter(&self->rng);
    }
    return NULL;
}

static uint64_t
run(struct test_rng *rng)
{
    troupe_system_options options = stress_options(stress_workers(rng));
    uint32_t threads = stress_threads(rng, 3);
    struct churn *churn = stress_zeroed(1, sizeof *churn);
    struct breeder breeders[BREEDERS];
    struct breeder haunters[3];
    uint64_t lives;
    troupe_counters counters;

    churn->system = stress_open(&options);
    for (uint32_t i = 0; i < SHELF; i++) {
        (void)pthread_mutex_init(&churn->shelves[i].lock, NULL);
    }
    for (uint32_t i = 0; i < threads; i++) {
        haunters[i].churn = churn;
        haunters[i].rng.state = test_random(rng);
        stress_thread(&haunters[i].thread, haunt, &haunters[i]);
    }
    for (uint32_t i = 0; i < BREEDERS; i++) {
        troupe_ref ref;

        breeders[i].churn = churn;
        breeders[i].left = 2000 + test_random_below(rng, 60000);
        breeders[i].rng.state = test_random(rng);
        ref = stress_spawn(churn->system, &breeder_type, &breeders[i]);
        STRESS_CHECK(
            troupe_post(churn->system, ref, &go, NULL) == TROUPE_OK, "go");
    }
    stress_await_idle(churn->system);
    atomic_store(&churn->over, true);
    for (uint32_t i = 0; i < threads; i++) {
        stress_join(haunters[i].thread);
    }
    stress_await_idle(churn->system);
    lives = atomic_load(&churn->numbers);
    counters = stress_counters(churn->system);
    STRESS_CHECK(counters.stopped == lives, "%" PRIu64 " of %" PRIu64 " died",
        counters.stopped, lives);
    STRESS_CHECK(counters.refused == atomic_load(&churn->dead),
        "%" PRIu64 " refused, seen %" PRIu64, counters.refused,
        atomic_load(&churn->dead));
    STRESS_CHECK(atomic_load(&churn->sent) ==
                     atomic_load(&churn->handled) + counters.dead,
        "%" PRIu64 " sent, %" PRIu64 " handled, %" PRIu64 " dead",
        atomic_load(&churn->sent), atomic_load(&churn->handled), counters.dead);
    stress_close(churn->system);
    free(churn);
    return lives;
}

int
main(int argc, char **argv)
{
    struct test_rng rng;
    uint64_t lives = 0;

    stress_begin(argc, argv);
    while (stress_more(&rng)) {
        lives += run(&rng);
    }
    return stress_end(lives, "lives");
}
