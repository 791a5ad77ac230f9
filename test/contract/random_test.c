/* SPDX-License-Identifier: MIT */
#include "support/system.h"

#include "support/seed.h"

#include <troupe/testkit.h>

#include <criterion/criterion.h>

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/*
 * Actors that do whatever comes to their mind: send, tell, forward, reply,
 * take, spread, spawn, stop and end, to the living and the dead, with payloads
 * that own something. Whatever they did, at the end each payload was dropped
 * once, the books balance, every actor that started has stopped, and whoever
 * watched has one notice of each. One seed, one run.
 */

#define REFS 64
#define MOST_MESSAGES 4000u
#define MOST_ACTORS 300u

struct world {
    troupe_system *system;
    struct test_rng rng;
    troupe_ref refs[REFS]; /* some of the actors, alive or not */
    troupe_msg *kept[8];   /* taken, or NULL */
    uint64_t made;
    uint64_t actors;
    uint64_t starts;
    uint64_t stops;
    bool lacks_memory; /* now and then an allocation fails */
    bool is_ending;
    bool is_passed; /* the current message, or its payload */
    _Atomic uint64_t drops;
};

static struct world world;

static uint32_t
below(uint32_t n)
{
    return test_random_below(&world.rng, n);
}

static troupe_ref
anybody(void)
{
    return world.refs[below(REFS)]; /* also TROUPE_NONE */
}

static const troupe_msg_type *
any_type(void)
{
    static const troupe_msg_type *const types[] = {
        &test_owned, &test_large, &test_shared};

    return types[below(3)];
}

static struct test_large
make(void)
{
    struct test_large payload;

    memset(&payload, 0, sizeof payload);
    payload.owned.drops = &world.drops;
    payload.owned.number = ++world.made;
    return payload;
}

static void
unmake(struct test_large *payload)
{
    test_drop(payload, sizeof *payload);
}

static bool
has_more(void)
{
    return !world.is_ending && world.made < MOST_MESSAGES;
}

/* --- what an actor may do ------------------------------------------------- */

static void
send_something(troupe_self *self, const troupe_msg *msg)
{
    const troupe_msg_type *type = any_type();
    struct test_large payload = make();

    (void)msg;
    if (troupe_send(self, anybody(), type, &payload) != TROUPE_OK) {
        unmake(&payload);
    }
}

static void
tell_something(troupe_self *self, const troupe_msg *msg)
{
    const troupe_msg_type *type = any_type();
    struct test_large payload = make();

    (void)msg;
    troupe_tell(self, anybody(), type, &payload);
}

static void
send_message(troupe_self *self, const troupe_msg *msg)
{
    const troupe_msg_type *type = any_type();
    struct test_large payload;
    troupe_msg *mine;

    (void)msg;
    mine = troupe_msg_new(world.system, type, 0);
    if (mine == NULL) {
        return;
    }
    payload = make();
    memcpy(mine->payload, &payload, type->bytes);
    switch (below(4)) {
    case 0:
        troupe_tell_msg(self, anybody(), mine);
        break;
    case 1:
        troupe_reply_msg(self, mine);
        break;
    case 2:
        if (troupe_send_msg_from(self, anybody(), mine, anybody()) !=
            TROUPE_OK) {
            troupe_msg_free(mine);
        }
        break;
    default:
        if (troupe_send_msg(self, anybody(), mine) != TROUPE_OK) {
            troupe_msg_free(mine);
        }
    }
}

static void
reply_something(troupe_self *self, const troupe_msg *msg)
{
    const troupe_msg_type *type = any_type();
    struct test_large payload = make();

    (void)msg;
    troupe_reply(self, type, &payload);
}

/* What was given away once is not there to be given away again. */
static void
pass_on(troupe_self *self, const troupe_msg *msg)
{
    if (world.is_passed) {
        return;
    }
    world.is_passed = true;
    switch (below(3)) {
    case 0:
        troupe_forward(self, anybody());
        break;
    case 1:
        troupe_tell(self, anybody(), msg->type, msg->payload);
        break;
    default:
        (void)!troupe_send(self, anybody(), msg->type, msg->payload);
    }
}

static void
spread(troupe_self *self, const troupe_msg *msg)
{
    troupe_ref to[5];

    for (int i = 0; i < 5; i++) {
        to[i] = anybody();
    }
    if (troupe_msg_is(msg, &test_shared) && !world.is_passed) {
        world.is_passed = true;
        (void)troupe_tell_many(self, to, below(6), msg->type, msg->payload);
    } else {
        struct test_large payload = make();
        size_t count = below(5) + 1;
        uint64_t before = world.drops;
        bool is_mine =
            troupe_tell_many(self, to, count, &test_shared, &payload) == 0 &&
            world.drops == before;

        /* Nobody took it and no dead letter was made of it: no memory. */
        if (is_mine) {
            unmake(&payload);
        }
    }
}

static void
take_it(troupe_self *self, const troupe_msg *msg)
{
    uint32_t at = below(8);

    (void)msg;
    if (world.kept[at] != NULL) {
        troupe_msg *old = world.kept[at];

        world.kept[at] = NULL;
        troupe_tell_msg(self, anybody(), old);
    } else if (!world.is_passed) {
        world.is_passed = true;
        if (troupe_take(self, &world.kept[at]) != TROUPE_OK) {
            world.kept[at] = NULL;
        }
    }
}

static void
stop_somebody(troupe_self *self, const troupe_msg *msg)
{
    troupe_ref whom = below(4) == 0 ? troupe_self_ref(self) : anybody();

    (void)msg;
    if (below(3) != 0) {
        return; /* or all of them are soon gone */
    }
    if (below(2) == 0) {
        (void)troupe_stop(self, whom);
    } else {
        (void)troupe_stop_now(self, whom);
    }
}

static const troupe_actor_type walker;

static void
spawn_somebody(troupe_self *self, const troupe_msg *msg)
{
    static const char *const names[] = {NULL, NULL, NULL, "a", "b", "c"};
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    troupe_ref ref = TROUPE_NONE;
    troupe_status status;

    (void)msg;
    if (world.actors >= MOST_ACTORS) {
        return;
    }
    options.name = names[below(6)];
    options.throughput = below(3);
    status = self != NULL
                 ? troupe_spawn(self, &walker, &options, &ref)
                 : troupe_system_spawn(world.system, &walker, &options, &ref);
    if (status == TROUPE_OK) {
        world.actors++;
        world.refs[below(REFS)] = ref;
    }
}

static troupe_verdict walk(troupe_self *, void *, const troupe_msg *);
static troupe_verdict walk_on(troupe_self *, void *, const troupe_msg *);

static void
change(troupe_self *self, const troupe_msg *msg)
{
    (void)msg;
    switch (below(3)) {
    case 0:
        troupe_become(self, below(2) == 0 ? walk : walk_on);
        break;
    case 1:
        (void)!troupe_become_push(self, walk_on);
        break;
    default:
        (void)troupe_unbecome(self);
    }
}

static void
starve(troupe_self *self, const troupe_msg *msg)
{
    (void)self;
    (void)msg;
    if (world.lacks_memory) {
        troupe_fail_allocation(world.system, below(3) + 1);
    }
}

static void
act(troupe_self *self, const troupe_msg *msg)
{
    static void (*const acts[])(troupe_self *, const troupe_msg *) = {
        send_something, tell_something, tell_something, send_message,
        reply_something, pass_on, pass_on, spread, take_it, stop_somebody,
        spawn_somebody, spawn_somebody, change, starve};

    acts[below(sizeof acts / sizeof *acts)](self, msg);
}

static troupe_verdict
walk(troupe_self *self, void *state, const troupe_msg *msg)
{
    uint32_t verdict = below(60);

    ++*(uint64_t *)state;
    world.is_passed = false;
    for (uint32_t left = below(4); left > 0 && has_more(); left--) {
        act(self, msg);
    }
    switch (verdict) {
    case 0:
        return TROUPE_DONE;
    case 1:
        return troupe_fail(self, 5);
    case 2:
    case 3:
        return TROUPE_UNHANDLED;
    case 4:
        return (troupe_verdict)77;
    default:
        return TROUPE_CONTINUE;
    }
}

static troupe_verdict
walk_on(troupe_self *self, void *state, const troupe_msg *msg)
{
    return walk(self, state, msg);
}

static troupe_status
start_walking(troupe_self *self, void *state, const void *arg)
{
    (void)arg;
    test_require(*(uint64_t *)state == 0);
    if (below(20) == 0) {
        spawn_somebody(self, NULL); /* children of one that fails to start */
        return TROUPE_E_FAILED;
    }
    if (below(5) == 0 && has_more()) {
        tell_something(self, NULL);
    }
    world.starts++;
    return TROUPE_OK;
}

static void
stop_walking(troupe_self *self, void *state, const troupe_exit *why)
{
    (void)state;
    test_require(troupe_ref_equal(why->actor, troupe_self_ref(self)));
    test_require(troupe_children(self, NULL, 0) == 0);
    if (below(4) == 0 && has_more()) {
        tell_something(self, NULL);
    }
    world.stops++;
}

static const troupe_actor_type walker = {.size = sizeof(troupe_actor_type),
    .name = "walker",
    .state_bytes = 40,
    .receive = walk,
    .start = start_walking,
    .stop = stop_walking};

/* --- one run -------------------------------------------------------------- */

static void
post_something(troupe_probe *probe)
{
    const troupe_msg_type *type = any_type();
    struct test_large payload = make();
    troupe_ref to = anybody();

    switch (below(3)) {
    case 0:
        troupe_post_tell(world.system, to, type, &payload);
        break;
    case 1:
        if (troupe_probe_send(probe, to, type, &payload) != TROUPE_OK) {
            unmake(&payload);
        }
        break;
    default:
        if (troupe_post(world.system, to, type, &payload) != TROUPE_OK) {
            unmake(&payload);
        }
    }
}

/*
 * Subjects of which a notice is due. Watching twice is watching once; watching
 * one that has gone is answered each time.
 */
static troupe_ref watched[512];
static uint32_t watched_count;
static uint32_t lost_notices;

TROUPE_MSG_TYPE(down_type, troupe_exit, TROUPE_TAG_DOWN);

static bool
find_watched(troupe_ref ref, uint32_t *at)
{
    for (*at = 0; *at < watched_count; ++*at) {
        if (troupe_ref_equal(watched[*at], ref)) {
            return true;
        }
    }
    return false;
}

static void
watch_somebody(troupe_probe *probe)
{
    troupe_ref whom = anybody();
    uint32_t at;

    if (troupe_probe_watch(probe, whom) == TROUPE_OK &&
        !find_watched(whom, &at)) {
        test_require(watched_count < 512);
        watched[watched_count++] = whom;
    }
}

static void
read_some(troupe_probe *probe, uint32_t most)
{
    const troupe_msg *msg;

    while (most-- > 0 && (msg = troupe_probe_next(probe, 0)) != NULL) {
        uint32_t at;

        if (troupe_msg_tag(msg) == TROUPE_TAG_DOWN) {
            test_require(find_watched(troupe_down(msg)->actor, &at));
            watched[at] = watched[--watched_count];
        }
    }
}

static void
free_kept(void)
{
    for (int i = 0; i < 8; i++) {
        troupe_msg_free(world.kept[i]);
        world.kept[i] = NULL;
    }
}

static bool
run_world(troupe_system *system, void *user)
{
    troupe_probe *probe;
    troupe_status status;

    watched_count = 0;
    lost_notices = 0;
    memset(&world, 0, sizeof world);
    world.system = system;
    world.rng.state = troupe_system_seed(system);
    world.lacks_memory = user != NULL;
    test_require(troupe_probe_open(system, NULL, &probe) == TROUPE_OK);
    for (int i = 0; i < 10; i++) {
        spawn_somebody(NULL, NULL);
    }
    world.refs[0] = troupe_probe_ref(probe);
    for (uint32_t steps = 0; steps < 400; steps++) {
        post_something(probe);
        if (below(4) == 0) {
            watch_somebody(probe);
        }
        if (below(3) == 0) {
            spawn_somebody(NULL, NULL);
        }
        test_require(
            troupe_system_run(system, below(20) + 1, NULL) == TROUPE_OK);
        if (below(8) == 0) {
            read_some(probe, below(10));
            test_run(system);
            test_require(troupe_books_balance(system));
        }
    }
    world.is_ending = true;
    troupe_fail_allocation(system, 0);
    status = troupe_system_stop(system);
    test_require(status == TROUPE_OK);
    read_some(probe, UINT32_MAX);
    test_require(watched_count == lost_notices);
    test_require(lost_notices == 0 || world.lacks_memory);
    troupe_probe_close(probe);
    free_kept();
    test_require(troupe_books_balance(system));
    test_require(test_counters(system).actors == 0);
    test_require(test_counters(system).queued == 0);
    test_require(test_counters(system).started == world.actors);
    test_require(world.starts == world.stops);
    if (world.drops != world.made) {
        (void)fprintf(stderr, "made %llu, dropped %llu\n",
            (unsigned long long)world.made, (unsigned long long)world.drops);
    }
    return world.drops == world.made;
}

/* A notice for which there was no memory is a dead letter. */
static void
count_lost_notices(
    troupe_system *system, const troupe_dead_letter *letter, void *user)
{
    (void)system;
    (void)user;
    lost_notices += troupe_msg_is(letter->msg, &down_type);
}

static void
try_seeds(uint32_t seeds, bool lacks_memory)
{
    troupe_system_options options = test_options();
    uint64_t first = test_seed();

    options.dead_letter.fn = count_lost_notices;
    cr_assert_eq(troupe_trials(&options, first, seeds, run_world,
                     lacks_memory ? &options : NULL),
        0);
    cr_assert(test_alloc_is_empty(&test_memory));
}

Test(random, everything_is_accounted_for_whatever_actors_do)
{
    try_seeds(300, false);
}

Test(random, everything_is_accounted_for_whatever_actors_do_without_memory)
{
    try_seeds(300, true);
}

/* The same life twice: how it ends, to the last number. */
Test(random, a_seed_is_a_life)
{
    troupe_system_options options = test_options();
    uint64_t seed = test_seed();
    uint64_t made = 0;
    uint64_t stops = 0;

    for (int i = 0; i < 3; i++) {
        cr_assert_eq(troupe_trials(&options, seed, 1, run_world, NULL), 0);
        cr_assert(i == 0 || (made == world.made && stops == world.stops));
        made = world.made;
        stops = world.stops;
    }
}
