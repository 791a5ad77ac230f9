/* SPDX-License-Identifier: MIT */

/*
 * Routers whose routees come and go under senders and broadcasts. Whatever was
 * sent is handled, refused or a dead letter, exactly one; what one sender sends
 * to one routee keeps its order; a broadcast reaches every routee that was
 * listed before and after it exactly once, and nobody twice. And with one of
 * three routees killed a burst loses nothing where depths are looked at.
 */
#include "stress.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 8, EACH = 400, SHOUTS = 24, LIVES = 4096, ROUTEES = 12 };

struct word {
    uint32_t thread;
    uint32_t number; /* of all that this thread sends */
    uint32_t shout;  /* 1 + which broadcast; 0: a message */
};
TROUPE_MSG_TYPE(word, struct word, 1);
TROUPE_MSG_TYPE(end_word, uint32_t, 2);

enum fate { OPEN = 0, HANDLED, REFUSED, DEAD };

/* One life of one routee. */
struct life {
    _Atomic uint64_t ref;
    uint32_t last[THREADS]; /* 1 + number of the last one handled */
    _Atomic uint8_t heard[THREADS][SHOUTS];
};

struct stage {
    troupe_system *system;
    troupe_ref router;
    bool is_serial;
    _Atomic uint32_t lives;
    struct life life[LIVES];
    _Atomic uint8_t fate[THREADS][EACH];
    _Atomic uint64_t handled, dead;
};

struct sender {
    struct stage *stage;
    uint32_t id;
    struct test_rng rng;
    pthread_t thread;
    uint32_t sent;
    uint32_t shouts;
    /* who was listed before and after each broadcast, NONE at the end */
    uint64_t through[SHOUTS][ROUTEES + 1];
};

static struct stage *stage; /* of this round, for the hooks */

static void
decide(const struct word *what, enum fate fate)
{
    uint8_t before = atomic_exchange(
        &stage->fate[what->thread][what->number], (uint8_t)fate);

    STRESS_CHECK(before == OPEN, "%u.%u: first %u, then %u", what->thread,
        what->number, before, fate);
}

static struct life *
find_life(uint64_t ref)
{
    for (uint32_t i = 0; i < atomic_load(&stage->lives); i++) {
        if (atomic_load(&stage->life[i].ref) == ref) {
            return &stage->life[i];
        }
    }
    return NULL;
}

/* It may lose a message before it has begun. */
static struct life *
life_of(uint64_t ref)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct life *life = find_life(ref);

    if (life == NULL) {
        (void)pthread_mutex_lock(&lock);
        life = find_life(ref);
        if (life == NULL) {
            STRESS_CHECK(stage->lives < LIVES, "too many lives");
            life = &stage->life[stage->lives];
            atomic_store(&life->ref, ref);
            atomic_fetch_add(&stage->lives, 1);
        }
        (void)pthread_mutex_unlock(&lock);
    }
    return life;
}

static void
hear(struct life *life, const struct word *what)
{
    uint8_t before =
        atomic_fetch_add(&life->heard[what->thread][what->shout - 1], 1);

    STRESS_CHECK(before == 0, "broadcast %u of %u came twice", what->shout,
        what->thread);
}

static void
on_dead_letter(
    troupe_system *system, const troupe_dead_letter *letter, void *user)
{
    const struct word *what;

    (void)system;
    (void)user;
    atomic_fetch_add(&stage->dead, 1);
    if (!troupe_msg_is(letter->msg, &word)) {
        return;
    }
    what = troupe_payload(letter->msg, struct word);
    if (what->shout == 0) {
        decide(what, DEAD);
        return;
    }
    if (!troupe_ref_equal(letter->recipient, stage->router)) {
        hear(life_of(stress_pack(letter->recipient)), what);
    }
}

/* --- routees -------------------------------------------------------------- */

static troupe_status
begin(troupe_self *self, void *state, const void *arg)
{
    (void)arg;
    *(struct life **)state = life_of(stress_pack(troupe_self_ref(self)));
    return TROUPE_OK;
}

static troupe_verdict
receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct life *life = *(struct life **)state;
    const struct word *what;

    (void)self;
    if (troupe_msg_is(msg, &end_word)) {
        return TROUPE_DONE;
    }
    what = troupe_payload(msg, struct word);
    STRESS_CHECK(life->last[what->thread] <= what->number,
        "%u after %u of sender %u", what->number, life->last[what->thread] - 1,
        what->thread);
    life->last[what->thread] = what->number + 1;
    atomic_fetch_add(&stage->handled, 1);
    if (what->shout != 0) {
        hear(life, what);
    } else {
        decide(what, HANDLED);
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type routee = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "routee",
    .state_bytes = sizeof(struct life *),
    .receive = receive,
    .start = begin,
};

static size_t
pick_one(
    const troupe_route *route, troupe_ref *targets, size_t capacity, void *user)
{
    (void)user;
    STRESS_CHECK(capacity >= 16 && route->count > 0, "what a strategy sees");
    targets[0] = route->routees[route->index % route->count];
    return 1;
}

static uint64_t
key_of(const troupe_msg *msg, void *user)
{
    (void)user;
    return troupe_payload(msg, struct word)->number;
}

/* --- senders -------------------------------------------------------------- */

static size_t
listed(uint64_t keys[ROUTEES])
{
    troupe_ref refs[ROUTEES];
    size_t count =
        troupe_router_routees(stage->system, stage->router, refs, ROUTEES);

    STRESS_CHECK(count <= ROUTEES, "%zu routees", count);
    for (size_t i = 0; i < count; i++) {
        keys[i] = stress_pack(refs[i]);
    }
    return count;
}

static void
shout(struct sender *sender)
{
    uint64_t before[ROUTEES], after[ROUTEES];
    struct word what = {sender->id, sender->sent, sender->shouts + 1};
    uint64_t *through = sender->through[sender->shouts];
    size_t many = listed(before), more;
    troupe_status status =
        troupe_post_broadcast(stage->system, stage->router, &word, &what);

    more = listed(after);
    sender->sent++;
    sender->shouts++;
    if (status != TROUPE_OK || stage->is_serial) {
        return;
    }
    for (size_t i = 0; i < many; i++) {
        for (size_t k = 0; k < more; k++) {
            if (before[i] == after[k]) {
                *through++ = before[i];
            }
        }
    }
}

static void
send_word(struct sender *sender)
{
    struct word what = {sender->id, sender->sent++, 0};
    troupe_status status;

    if (test_random_below(&sender->rng, 2) == 0) {
        troupe_post_tell(stage->system, stage->router, &word, &what);
        return;
    }
    status = troupe_post(stage->system, stage->router, &word, &what);
    if (status != TROUPE_OK) {
        STRESS_CHECK(status == TROUPE_E_NO_ROUTE || status == TROUPE_E_DEAD ||
                         status == TROUPE_E_FULL,
            "%s", troupe_status_name(status));
        decide(&what, REFUSED);
    }
}

static void
disturb(struct sender *sender)
{
    uint64_t keys[ROUTEES];
    size_t count = listed(keys);
    troupe_ref one = TROUPE_NONE;
    uint32_t size = 1 + test_random_below(&sender->rng, ROUTEES);

    if (count != 0) {
        one = stress_unpack(
            keys[test_random_below(&sender->rng, (uint32_t)count)]);
    }
    switch (test_random_below(&sender->rng, 6)) {
    case 0:
        if (count != 0) {
            (void)troupe_post_stop_now(stage->system, one);
        }
        break;
    case 1:
        if (count != 0) {
            (void)troupe_post_stop(stage->system, one);
        }
        break;
    case 2:
        if (count != 0) {
            troupe_post_tell(stage->system, one, &end_word, &size);
        }
        break;
    case 3:
        if (count != 0) {
            STRESS_CHECK(troupe_router_remove(
                             stage->system, stage->router, one) == TROUPE_OK,
                "remove");
        }
        break;
    case 4:
        if (test_random_below(&sender->rng, 8) == 0) {
            (void)troupe_router_stop_routees(stage->system, stage->router);
        }
        break;
    default:
        STRESS_CHECK(troupe_router_resize(stage->system, stage->router, size) ==
                         TROUPE_OK,
            "resize");
        break;
    }
}

static void *
send_all(void *user)
{
    struct sender *sender = user;

    while (sender->sent < EACH) {
        uint32_t what = test_random_below(&sender->rng, 100);

        if (what < 6 && sender->shouts < SHOUTS) {
            shout(sender);
        } else if (what < 12) {
            disturb(sender);
        } else {
            send_word(sender);
        }
        stress_jitter(&sender->rng);
    }
    return NULL;
}

/* --- a round -------------------------------------------------------------- */

static bool
has_begun(void *user)
{
    (void)user;
    return troupe_router_routees(stage->system, stage->router, NULL, 0) != 0;
}

static void
open_router(struct test_rng *rng, uint32_t routees, troupe_routing routing)
{
    static const uint32_t weights[ROUTEES] = {
        3, 0, 1, 2, 5, 1, 1, 1, 9, 1, 2, 1};
    static troupe_mailbox_options mailbox = {
        .size = sizeof mailbox, .capacity = 8};
    static troupe_resizer_options resizer = {
        .size = sizeof resizer, .upper = ROUTEES, .cooldown_ns = TROUPE_MS(1)};
    troupe_router_options options = TROUPE_INIT(troupe_router_options);
    troupe_spawn_options child = TROUPE_INIT(troupe_spawn_options);

    options.type = &routee;
    options.routees = routees;
    options.routing = routing;
    options.weights = routing == TROUPE_ROUTE_WEIGHTED ? weights : NULL;
    options.pick = routing == TROUPE_ROUTE_CUSTOM ? pick_one : NULL;
    options.key = routing == TROUPE_ROUTE_CONSISTENT_HASH ? key_of : NULL;
    options.bounded_load_percent =
        options.key != NULL ? 10 * test_random_below(rng, 4) : 0;
    options.seed = 1 + test_random_below(rng, 1000);
    if (test_random_below(rng, 3) == 0) {
        child.mailbox = &mailbox;
        options.routee_options = &child;
    }
    if (test_random_below(rng, 4) == 0) {
        resizer.pressure_depth = 1 + test_random_below(rng, 5);
        options.resizer = &resizer;
    }
    if (test_random_below(rng, 3) == 0) {
        options.flags |= TROUPE_ROUTER_RESPAWN;
    }
    if (test_random_below(rng, 4) == 0) {
        options.flags |= TROUPE_ROUTER_SERIAL;
        stage->is_serial = true;
    }
    STRESS_CHECK(troupe_system_spawn_router(
                     stage->system, &options, &stage->router) == TROUPE_OK,
        "router");
    STRESS_CHECK(test_await(has_begun, NULL), "it has no routees");
    stress_await_idle(stage->system); /* nothing waits in it from now on */
}

static void
open_stage(struct test_rng *rng)
{
    troupe_system_options options = stress_options(stress_workers(rng));

    stage = stress_zeroed(1, sizeof *stage);
    options.dead_letter.fn = on_dead_letter;
    stage->system = stress_open(&options);
}

static void
check_shouts(const struct sender *sender)
{
    for (uint32_t s = 0; s < sender->shouts; s++) {
        for (const uint64_t *ref = sender->through[s]; *ref != 0; ref++) {
            struct life *life = find_life(*ref);

            STRESS_CHECK(life != NULL && life->heard[sender->id][s] == 1,
                "broadcast %u of %u was heard %u times", s, sender->id,
                life != NULL ? life->heard[sender->id][s] : 0);
        }
    }
}

static uint64_t
mix(struct test_rng *rng)
{
    static const troupe_routing kinds[] = {TROUPE_ROUTE_ROUND_ROBIN,
        TROUPE_ROUTE_RANDOM, TROUPE_ROUTE_SMALLEST_MAILBOX,
        TROUPE_ROUTE_WEIGHTED, TROUPE_ROUTE_LEAST_IN_FLIGHT,
        TROUPE_ROUTE_TWO_CHOICES, TROUPE_ROUTE_CUSTOM,
        TROUPE_ROUTE_CONSISTENT_HASH};
    uint32_t threads = stress_threads(rng, THREADS);
    struct sender *senders = stress_zeroed(threads, sizeof *senders);
    uint64_t done = 0;

    open_stage(rng);
    open_router(rng, 1 + test_random_below(rng, ROUTEES),
        kinds[test_random_below(rng, sizeof kinds / sizeof kinds[0])]);
    for (uint32_t t = 0; t < threads; t++) {
        senders[t] = (struct sender){.stage = stage, .id = t};
        senders[t].rng = (struct test_rng){test_random(rng)};
        stress_thread(&senders[t].thread, send_all, &senders[t]);
    }
    for (uint32_t t = 0; t < threads; t++) {
        stress_join(senders[t].thread);
    }
    stress_await_idle(stage->system);
    for (uint32_t t = 0; t < threads; t++) {
        check_shouts(&senders[t]);
    }
    stress_close(stage->system);
    for (uint32_t t = 0; t < threads; t++) {
        uint32_t decided = 0;

        for (uint32_t i = 0; i < EACH; i++) {
            decided += stage->fate[t][i] != OPEN;
        }
        STRESS_CHECK(decided + senders[t].shouts == senders[t].sent, "%u of %u",
            decided, senders[t].sent);
        done += decided;
    }
    free(senders);
    free(stage);
    return done;
}

/* --- one of three is killed ----------------------------------------------- */

enum { BURST = 200 };

static void *
send_burst(void *user)
{
    struct sender *sender = user;

    for (uint32_t i = 0; i < BURST; i++) {
        struct word what = {sender->id, sender->sent++, 0};

        STRESS_CHECK(troupe_post(stage->system, stage->router, &word, &what) ==
                         TROUPE_OK,
            "a burst is refused");
    }
    return NULL;
}

static bool
are_three(void *user)
{
    (void)user;
    return troupe_router_routees(stage->system, stage->router, NULL, 0) == 3;
}

static void
kill_one(struct test_rng *rng)
{
    troupe_ref refs[3];

    STRESS_CHECK(
        troupe_router_routees(stage->system, stage->router, refs, 3) == 3,
        "three routees");
    STRESS_CHECK(troupe_post_stop_now(stage->system,
                     refs[test_random_below(rng, 3)]) == TROUPE_OK,
        "kill");
}

static uint64_t
burst(struct test_rng *rng)
{
    uint32_t threads = stress_threads(rng, 4);
    struct sender senders[4];
    troupe_router_options options = TROUPE_INIT(troupe_router_options);
    uint64_t handled;

    open_stage(rng);
    options.type = &routee;
    options.routees = 3;
    options.routing = test_random_below(rng, 2) == 0
                          ? TROUPE_ROUTE_SMALLEST_MAILBOX
                          : TROUPE_ROUTE_LEAST_IN_FLIGHT;
    STRESS_CHECK(troupe_system_spawn_router(
                     stage->system, &options, &stage->router) == TROUPE_OK,
        "router");
    STRESS_CHECK(test_await(are_three, NULL), "it has no routees");
    for (uint32_t t = 0; t < threads; t++) {
        senders[t] = (struct sender){.stage = stage, .id = t};
    }
    kill_one(rng);
    for (uint32_t t = 0; t < threads; t++) {
        stress_thread(&senders[t].thread, send_burst, &senders[t]);
    }
    for (uint32_t t = 0; t < threads; t++) {
        stress_join(senders[t].thread);
    }
    stress_await_idle(stage->system);
    handled = stage->handled;
    STRESS_CHECK(handled == (uint64_t)threads * BURST, "%llu of %u handled",
        (unsigned long long)handled, threads * BURST);
    STRESS_CHECK(stage->dead == 0, "dead letters");
    stress_close(stage->system);
    free(stage);
    return handled;
}

int
main(int argc, char **argv)
{
    struct test_rng rng;
    uint64_t done = 0;

    stress_begin(argc, argv);
    while (stress_more(&rng)) {
        done += test_random_below(&rng, 3) == 0 ? burst(&rng) : mix(&rng);
    }
    return stress_end(done, "messages");
}
