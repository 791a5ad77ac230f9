/* SPDX-License-Identifier: MIT */

/*
 * Guests who may take so many parcels per second, who come and go while they
 * wait for a token: their cells and their rules get other owners while alarms
 * fire. No parcel reaches another guest, those of one sender keep their order,
 * each is handled, dropped or dead, and nobody who has parcels waits for ever.
 * In a strike no token ever comes: who is to stop now does so all the same.
 * Some hotels are driven, by a host that knows nothing but the descriptor.
 */
#include "stress.h"

#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>

enum { ROOMS = 48, SENDERS = 4, DEEP = 100 };

struct parcel {
    uint64_t to;
    uint32_t sender;
    uint32_t number;
};
TROUPE_MSG_TYPE(parcel, struct parcel, 1);
TROUPE_MSG_TYPE_WITH(vital, struct parcel, 2, TROUPE_MSG_UNDROPPABLE, NULL);
TROUPE_MSG_TYPE(renew, uint32_t, 3); /* to the clerk: another guest here */

struct hotel {
    troupe_system *system;
    troupe_ref clerk;
    bool is_strike;
    bool is_driven;
    _Atomic uint32_t at_work;      /* senders */
    _Atomic uint64_t rooms[ROOMS]; /* refs */
    _Atomic uint64_t seeds;
    _Atomic uint64_t accepted;
    _Atomic uint64_t handled;
};

struct guest {
    struct hotel *hotel;
    struct test_rng rng;
    uint32_t next[SENDERS];
};

struct sender {
    struct hotel *hotel;
    uint32_t id;
    uint32_t left;
    uint32_t next;
    struct test_rng rng;
    pthread_t thread;
};

/* All wait often, and but for a strike not long. */
static troupe_throttle_options
choose_rate(const struct hotel *hotel, struct test_rng *rng)
{
    troupe_throttle_options rate = TROUPE_INIT(troupe_throttle_options);

    rate.per_second =
        hotel->is_strike ? 1e-6 : 500 << test_random_below(rng, 9);
    rate.burst = 1 + test_random_below(rng, 4);
    if (test_random_below(rng, 4) == 0) {
        rate.on_excess = TROUPE_EXCESS_DROP;
    }
    return rate;
}

static troupe_status
start_guest(troupe_self *self, void *state, const void *arg)
{
    (void)self;
    *(struct guest *)state = *(const struct guest *)arg;
    return TROUPE_OK;
}

static troupe_verdict
be_guest(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct guest *guest = state;
    const struct parcel *got = troupe_payload(msg, struct parcel);

    STRESS_CHECK(got->to == stress_pack(troupe_self_ref(self)),
        "a parcel for %" PRIx64, got->to);
    STRESS_CHECK(got->number >= guest->next[got->sender],
        "sender %u: %u after %u", got->sender, got->number,
        guest->next[got->sender]);
    guest->next[got->sender] = got->number + 1;
    atomic_fetch_add_explicit(&guest->hotel->handled, 1, memory_order_relaxed);
    if (test_random_below(&guest->rng, 4) == 0) {
        stress_spin_ns(test_random_below(&guest->rng, 5000));
    }
    if (test_random_below(&guest->rng, 32) == 0) {
        troupe_throttle_options rate = choose_rate(guest->hotel, &guest->rng);
        bool ends = test_random_below(&guest->rng, 4) == 0;

        STRESS_CHECK(
            troupe_throttle(self, ends ? NULL : &rate) == TROUPE_OK, "a rate");
    }
    return test_random_below(&guest->rng, 256) == 0 ? TROUPE_DONE
                                                    : TROUPE_CONTINUE;
}

static const troupe_actor_type guest_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "guest",
    .state_bytes = sizeof(struct guest),
    .receive = be_guest,
    .start = start_guest,
};

/* `self` NULL: by a foreign thread. */
static void
move_in(struct hotel *hotel, troupe_self *self, uint32_t room)
{
    struct guest guest = {
        .hotel = hotel, .rng.state = atomic_fetch_add(&hotel->seeds, 1)};
    struct test_rng *rng = &guest.rng;
    troupe_throttle_options rate = choose_rate(hotel, rng);
    troupe_mailbox_options mailbox = TROUPE_INIT(troupe_mailbox_options);
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    troupe_ref ref = TROUPE_NONE;
    troupe_status status;

    options.arg = &guest;
    options.arg_bytes = sizeof guest;
    if (test_random_below(rng, 4) != 0) { /* else plain: no rules at all */
        options.throttle = &rate;
    }
    if (test_random_below(rng, 4) == 0) {
        mailbox.capacity = 1 + test_random_below(rng, 50);
        mailbox.overflow = TROUPE_OVERFLOW_DROP_HEAD;
        options.mailbox = &mailbox;
    }
    status = self != NULL ? troupe_spawn(self, &guest_type, &options, &ref)
                          : troupe_system_spawn(
                                hotel->system, &guest_type, &options, &ref);
    STRESS_CHECK(status == TROUPE_OK, "%s", troupe_status_name(status));
    ref = stress_unpack(atomic_exchange(&hotel->rooms[room], stress_pack(ref)));
    if (hotel->is_strike) { /* would stay for ever */
        (void)troupe_post_stop_now(hotel->system, ref);
    }
}

static troupe_verdict
be_clerk(troupe_self *self, void *state, const troupe_msg *msg)
{
    move_in(STRESS_STATE(struct hotel, state), self,
        *troupe_payload(msg, uint32_t));
    return TROUPE_CONTINUE;
}

static const troupe_actor_type clerk_type = STRESS_ACTOR(be_clerk);

/* Whoever is in the room is to go, and there is somebody new. */
static void
replace(struct sender *sender, uint32_t room, troupe_ref ref)
{
    struct hotel *hotel = sender->hotel;

    (void)(!hotel->is_strike && test_random_below(&sender->rng, 2) == 0
               ? troupe_post_stop(hotel->system, ref)
               : troupe_post_stop_now(hotel->system, ref));
    if (test_random_below(&sender->rng, 2) == 0) {
        move_in(hotel, NULL, room);
        return;
    }
    STRESS_CHECK(
        troupe_post(hotel->system, hotel->clerk, &renew, &room) == TROUPE_OK,
        "to the clerk");
}

static void
post_one(struct sender *sender, troupe_ref ref)
{
    struct parcel what = {stress_pack(ref), sender->id, sender->next++};
    troupe_status status = troupe_post(sender->hotel->system, ref,
        test_random_below(&sender->rng, 16) == 0 ? &vital : &parcel, &what);

    STRESS_CHECK(status == TROUPE_OK || status == TROUPE_E_DEAD, "%s",
        troupe_status_name(status));
    if (status == TROUPE_OK) {
        atomic_fetch_add(&sender->hotel->accepted, 1);
    }
}

static void *
post_all(void *user)
{
    struct sender *sender = user;
    struct hotel *hotel = sender->hotel;

    while (sender->left-- > 0) {
        uint32_t room = test_random_below(&sender->rng, ROOMS);
        troupe_ref ref = stress_unpack(atomic_load(&hotel->rooms[room]));
        uint32_t depth = troupe_depth(hotel->system, ref);

        if (depth == TROUPE_DEPTH_DEAD ||
            test_random_below(&sender->rng, hotel->is_strike ? 4 : 64) == 0) {
            replace(sender, room, ref);
        } else if (depth < DEEP) {
            post_one(sender, ref);
        }
        stress_jitter(&sender->rng);
        if (test_random_below(&sender->rng, 512) == 0) {
            stress_spin_ns(TROUPE_US(300)); /* alarms fire meanwhile */
        }
    }
    atomic_fetch_sub(&hotel->at_work, 1);
    replace(sender, 0, TROUPE_NONE); /* a host that sleeps looks */
    return NULL;
}

static bool
is_posted(struct hotel *hotel)
{
    return atomic_load(&hotel->at_work) == 0;
}

static bool
is_handled(struct hotel *hotel)
{
    return stress_counters(hotel->system).queued == 0;
}

/* The clerk is left. */
static bool
is_empty(struct hotel *hotel)
{
    return stress_counters(hotel->system).actors == 1;
}

/* Whoever sleeps on although there is something to do is a hang. */
static void
await(struct hotel *hotel, bool (*is_over)(struct hotel *hotel))
{
    struct pollfd fd = {
        .fd = troupe_system_fd(hotel->system), .events = POLLIN};

    while (!is_over(hotel)) {
        if (!hotel->is_driven) {
            sched_yield();
            continue;
        }
        (void)poll(&fd, 1, -1);
        STRESS_CHECK(
            troupe_system_run(hotel->system, 0, NULL) == TROUPE_OK, "a run");
    }
}

/* With tokens; in a strike they are told to. */
static void
await_end(struct hotel *hotel)
{
    for (uint32_t i = 0; i < ROOMS && hotel->is_strike; i++) {
        (void)troupe_post_stop_now(
            hotel->system, stress_unpack(atomic_load(&hotel->rooms[i])));
    }
    await(hotel, hotel->is_strike ? is_empty : is_handled);
}

static uint64_t
run(struct test_rng *rng)
{
    troupe_system_options options = stress_options(stress_workers(rng));
    struct hotel *hotel = stress_zeroed(1, sizeof *hotel);
    struct sender senders[SENDERS] = {{0}};
    uint32_t threads = stress_threads(rng, SENDERS);
    troupe_counters counters;
    uint64_t accepted, handled;

    hotel->is_driven = stress.workers == 0 && test_random_below(rng, 4) == 0;
    if (hotel->is_driven) {
        options.flags |= TROUPE_SYSTEM_DRIVEN;
    }
    hotel->system = stress_open(&options);
    hotel->seeds = test_random(rng);
    hotel->is_strike = test_random_below(rng, 3) == 0;
    hotel->clerk = stress_spawn(hotel->system, &clerk_type, hotel);
    for (uint32_t i = 0; i < ROOMS; i++) {
        move_in(hotel, NULL, i);
    }
    hotel->at_work = threads;
    for (uint32_t i = 0; i < threads; i++) {
        senders[i] = (struct sender){.hotel = hotel,
            .id = i,
            .left = 2000 + test_random_below(rng, 20000),
            .rng.state = test_random(rng)};
        stress_thread(&senders[i].thread, post_all, &senders[i]);
    }
    await(hotel, is_posted);
    for (uint32_t i = 0; i < threads; i++) {
        stress_join(senders[i].thread);
    }
    stress_await_idle(hotel->system); /* the clerk */
    if (hotel->is_strike || test_random_below(rng, 4) != 0) {
        await_end(hotel); /* else a stop in the middle of it */
    }
    STRESS_CHECK(troupe_system_stop(hotel->system) == TROUPE_OK, "a stop");
    counters = stress_counters(hotel->system);
    accepted = atomic_load(&hotel->accepted);
    handled = atomic_load(&hotel->handled);
    STRESS_CHECK(accepted == handled + counters.dropped + counters.dead,
        "%" PRIu64 " accepted, %" PRIu64 " handled, %" PRIu64
        " dropped, %" PRIu64 " dead",
        accepted, handled, counters.dropped, counters.dead);
    stress_close(hotel->system);
    free(hotel);
    return accepted;
}

int
main(int argc, char **argv)
{
    struct test_rng rng;
    uint64_t accepted = 0;

    stress_begin(argc, argv);
    while (stress_more(&rng)) {
        accepted += run(&rng);
    }
    return stress_end(accepted, "parcels");
}
