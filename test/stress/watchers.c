/* SPDX-License-Identifier: MIT */

/*
 * Actors watch each other, and who has gone, with notices and with messages of
 * their own, unwatch, watch again, stash what comes, fail, and end, all at
 * once; others stop them meanwhile. Each knows what it waits for: nothing else
 * comes, nothing comes twice, and when all is quiet it waits for nobody who has
 * gone. Each message of one's own is dropped once. A nursery watches all of
 * them and fills their places again.
 */
#include "stress.h"

#include <inttypes.h>
#include <stdlib.h>

enum { PLACES = 24, WATCHES = 64, KILLERS = 2, BIRTHS = 300, TICKS = 40 };
enum { TAG_TICK = 1, TAG_GONE, TAG_UNSTASH, TAG_REPORT };

struct gone {
    uint64_t number;
    _Atomic uint64_t *dropped;
};

static void
drop_gone(void *payload, size_t bytes)
{
    (void)bytes;
    atomic_fetch_add(((struct gone *)payload)->dropped, 1);
}

TROUPE_MSG_TYPE_EMPTY(tick, TAG_TICK);
TROUPE_MSG_TYPE_WITH(gone_type, struct gone, TAG_GONE, 0, drop_gone);
TROUPE_MSG_TYPE_EMPTY(unstash, TAG_UNSTASH);
TROUPE_MSG_TYPE_EMPTY(report, TAG_REPORT);

struct world;

/* One actor at a time lives here, and but for the refs all is its own. */
struct place {
    struct world *world;
    _Atomic uint64_t ref, gone; /* gone: the one before */
    struct test_rng rng;
    uint32_t ticks;
    uint32_t count;
    struct {
        troupe_ref whom;
        uint64_t number; /* of the message of its own; 0: a notice */
        bool is_stashed;
    } watch[WATCHES];
};

struct world {
    troupe_system *system;
    struct place place[PLACES];
    uint32_t births; /* the nursery's */
    _Atomic uint64_t made, dropped, told, reports;
    _Atomic bool is_ending;
    struct test_rng rng[KILLERS];
    pthread_barrier_t start;
};

struct killer {
    struct world *world;
    struct test_rng *rng;
    pthread_t thread;
};

static uint32_t
below(struct place *place, uint32_t n)
{
    return test_random_below(&place->rng, n);
}

static uint32_t
find(const struct place *place, troupe_ref whom)
{
    uint32_t at = 0;

    while (
        at < place->count && !troupe_ref_equal(place->watch[at].whom, whom)) {
        at++;
    }
    return at;
}

static void
forget(struct place *place, uint32_t at)
{
    place->watch[at] = place->watch[--place->count];
}

static void
watch_one(troupe_self *self, struct place *place, troupe_ref whom)
{
    bool own = below(place, 2) == 0;
    uint32_t at = find(place, whom);
    uint64_t number = 0;
    troupe_status status;

    if (at == WATCHES) {
        return;
    }
    if (own) {
        troupe_msg *msg =
            troupe_msg_new(troupe_self_system(self), &gone_type, 0);
        struct gone *gone = troupe_payload_mut(msg, struct gone);

        number = atomic_fetch_add(&place->world->made, 1) + 1;
        *gone = (struct gone){number, &place->world->dropped};
        status = troupe_watch_with(self, whom, msg);
    } else {
        status = troupe_watch(self, whom);
    }
    STRESS_CHECK(status == TROUPE_OK, "%s", troupe_status_name(status));
    place->watch[at].whom = whom;
    place->watch[at].number = number;
    if (at == place->count) {
        place->watch[place->count++].is_stashed = false;
    }
}

static void
unstash_all(troupe_self *self, struct place *place)
{
    STRESS_CHECK(troupe_unstash(self, 0) == TROUPE_OK, "unstash");
    for (uint32_t at = 0; at < place->count; at++) {
        place->watch[at].is_stashed = false;
    }
}

static void
do_something(troupe_self *self, struct place *place)
{
    struct place *other = &place->world->place[below(place, PLACES)];
    troupe_ref whom = stress_unpack(
        atomic_load(below(place, 4) == 0 ? &other->gone : &other->ref));
    uint32_t at = find(place, whom);

    if (troupe_ref_is_none(whom) ||
        troupe_ref_equal(whom, troupe_self_ref(self))) {
        return;
    }
    switch (below(place, 4)) {
    case 0:
        (void)troupe_unwatch(self, whom);
        if (at < place->count) {
            forget(place, at);
        }
        if (below(place, 2) == 0) {
            watch_one(self, place, whom);
        }
        break;
    case 1:
        unstash_all(self, place);
        break;
    default:
        watch_one(self, place, whom);
        break;
    }
}

/* A notice, or a message instead of one. */
static void
check_off(troupe_self *self, struct place *place, const troupe_msg *msg)
{
    uint32_t at = 0;

    STRESS_CHECK(troupe_ref_is_none(msg->sender), "it has a sender");
    if (troupe_msg_is(msg, &gone_type)) {
        uint64_t number = troupe_payload(msg, struct gone)->number;

        while (at < place->count && place->watch[at].number != number) {
            at++;
        }
    } else {
        at = find(place, troupe_down(msg)->actor);
    }
    STRESS_CHECK(at < place->count, "nobody waits for this notice");
    STRESS_CHECK((place->watch[at].number == 0) ==
                     (troupe_msg_tag(msg) == TROUPE_TAG_DOWN),
        "the other form");
    STRESS_CHECK(!place->watch[at].is_stashed, "it is put aside already");
    if (!atomic_load(&place->world->is_ending) && below(place, 4) == 0 &&
        troupe_stash(self) == TROUPE_OK) {
        place->watch[at].is_stashed = true; /* comes again */
        return;
    }
    forget(place, at);
    atomic_fetch_add(&place->world->told, 1);
}

static void
check_all(troupe_self *self, struct place *place)
{
    STRESS_CHECK(troupe_stash_length(self) == 0, "some are put aside");
    for (uint32_t i = 0; i < place->count; i++) {
        STRESS_CHECK(troupe_depth(troupe_self_system(self),
                         place->watch[i].whom) != TROUPE_DEPTH_DEAD,
            "it was never told of %u", place->watch[i].whom.index);
    }
    atomic_fetch_add(&place->world->reports, 1);
}

/* Its watches outlive that, but for what is in the stash. */
static troupe_verdict
fail(troupe_self *self, struct place *place)
{
    for (uint32_t at = place->count; at > 0; at--) {
        if (place->watch[at - 1].is_stashed) {
            forget(place, at - 1);
        }
    }
    troupe_tell(self, troupe_self_ref(self), &tick, NULL);
    return TROUPE_FAILED;
}

static troupe_verdict
be_watcher(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct place *place = STRESS_STATE(struct place, state);

    switch (troupe_msg_tag(msg)) {
    case TAG_TICK:
        do_something(self, place);
        do_something(self, place);
        if (below(place, TICKS) == 0) {
            return below(place, 2) == 0 ? TROUPE_DONE : fail(self, place);
        }
        if (place->ticks-- > 0) {
            troupe_tell(self, troupe_self_ref(self), &tick, NULL);
        }
        return TROUPE_CONTINUE;
    case TAG_UNSTASH:
        unstash_all(self, place);
        return TROUPE_CONTINUE;
    case TAG_REPORT:
        check_all(self, place);
        return TROUPE_CONTINUE;
    default:
        check_off(self, place, msg);
        return TROUPE_CONTINUE;
    }
}

static const troupe_actor_type watcher_type = STRESS_ACTOR(be_watcher);

/* --- the nursery ---------------------------------------------------------- */

static double
rank_of(const troupe_msg *msg, void *user)
{
    (void)user;
    return troupe_msg_tag(msg);
}

/* With any mailbox: ticks may get lost in it. */
static void
fill(troupe_self *self, struct place *place)
{
    static const troupe_mailbox_options mailbox[] = {
        {.size = TROUPE_OPTIONS(troupe_mailbox_options), .capacity = 1},
        {.size = TROUPE_OPTIONS(troupe_mailbox_options),
            .capacity = 2,
            .overflow = TROUPE_OVERFLOW_DROP_HEAD},
        {.size = TROUPE_OPTIONS(troupe_mailbox_options), .priority = rank_of},
    };
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    uint32_t kind = below(place, 6);
    troupe_status status;
    troupe_ref ref;

    place->count = 0;
    place->ticks = TICKS;
    options.arg = &place;
    options.arg_bytes = sizeof place;
    options.mailbox = kind < 3 ? &mailbox[kind] : NULL;
    status = troupe_spawn(self, &watcher_type, &options, &ref);
    STRESS_CHECK(status == TROUPE_OK, "%s", troupe_status_name(status));
    STRESS_CHECK(troupe_watch(self, ref) == TROUPE_OK, "watch");
    atomic_store(&place->ref, stress_pack(ref));
    troupe_tell(self, ref, &tick, NULL);
}

static troupe_verdict
be_nursery(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct world *world = STRESS_STATE(struct world, state);

    for (uint32_t i = 0; i < PLACES; i++) {
        struct place *place = &world->place[i];
        troupe_ref ref = stress_unpack(atomic_load(&place->ref));

        if (troupe_msg_is(msg, &tick)) {
            fill(self, place);
        } else if (troupe_ref_equal(troupe_down(msg)->actor, ref)) {
            atomic_store(&place->gone, atomic_exchange(&place->ref, 0));
            if (world->births > 0) {
                world->births--;
                fill(self, place);
            }
            return TROUPE_CONTINUE;
        }
    }
    STRESS_CHECK(troupe_msg_is(msg, &tick), "a notice about a stranger");
    return TROUPE_CONTINUE;
}

static const troupe_actor_type nursery_type = STRESS_ACTOR(be_nursery);

/* --- a round -------------------------------------------------------------- */

static void *
kill_some(void *user)
{
    struct killer *killer = user;
    struct world *world = killer->world;

    (void)pthread_barrier_wait(&world->start);
    for (uint32_t i = 0; i < BIRTHS; i++) {
        struct place *place =
            &world->place[test_random_below(killer->rng, PLACES)];
        troupe_ref whom = stress_unpack(atomic_load(&place->ref));

        if (!troupe_ref_is_none(whom)) {
            troupe_status status =
                test_random_below(killer->rng, 2) == 0
                    ? troupe_post_stop(world->system, whom)
                    : troupe_post_stop_now(world->system, whom);

            STRESS_CHECK(status == TROUPE_OK, "%s", troupe_status_name(status));
        }
        stress_jitter(killer->rng);
    }
    return NULL;
}

/* To all that live. Returns how many. */
static uint64_t
tell_all(struct world *world, const troupe_msg_type *type)
{
    uint64_t count = 0;

    for (uint32_t i = 0; i < PLACES; i++) {
        troupe_ref ref = stress_unpack(atomic_load(&world->place[i].ref));

        if (!troupe_ref_is_none(ref)) {
            STRESS_CHECK(
                troupe_post(world->system, ref, type, NULL) == TROUPE_OK,
                "a post");
            count++;
        }
    }
    stress_await_idle(world->system);
    return count;
}

static uint64_t
run(struct test_rng *rng)
{
    troupe_system_options options = stress_options(stress_workers(rng));
    uint32_t killers = stress_threads(rng, KILLERS);
    struct world *world = stress_zeroed(1, sizeof *world);
    struct killer killer[KILLERS];
    troupe_ref nursery;
    uint64_t told;

    world->system = stress_open(&options);
    world->births = BIRTHS;
    (void)pthread_barrier_init(&world->start, NULL, killers + 1);
    for (uint32_t i = 0; i < PLACES; i++) {
        world->place[i].world = world;
        world->place[i].rng.state = test_random(rng);
    }
    nursery = stress_spawn(world->system, &nursery_type, world);
    for (uint32_t i = 0; i < killers; i++) {
        world->rng[i].state = test_random(rng);
        killer[i] = (struct killer){.world = world, .rng = &world->rng[i]};
        stress_thread(&killer[i].thread, kill_some, &killer[i]);
    }
    (void)pthread_barrier_wait(&world->start);
    STRESS_CHECK(
        troupe_post(world->system, nursery, &tick, NULL) == TROUPE_OK, "tick");
    for (uint32_t i = 0; i < killers; i++) {
        stress_join(killer[i].thread);
    }
    stress_await_idle(world->system);
    atomic_store(&world->is_ending, true);
    (void)tell_all(world, &unstash);
    STRESS_CHECK(tell_all(world, &report) == atomic_load(&world->reports),
        "%" PRIu64 " reports", atomic_load(&world->reports));
    stress_close(world->system);
    STRESS_CHECK(atomic_load(&world->dropped) == atomic_load(&world->made),
        "%" PRIu64 " messages dropped of %" PRIu64,
        atomic_load(&world->dropped), atomic_load(&world->made));
    told = atomic_load(&world->told);
    (void)pthread_barrier_destroy(&world->start);
    free(world);
    return told;
}

int
main(int argc, char **argv)
{
    struct test_rng rng;
    uint64_t told = 0;

    stress_begin(argc, argv);
    while (stress_more(&rng)) {
        told += run(&rng);
    }
    return stress_end(told, "notices among actors");
}
