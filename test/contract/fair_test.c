/* SPDX-License-Identifier: MIT */
#include "support/system.h"

#include "support/await.h"

#include <criterion/criterion.h>

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/*
 * Nobody waits for ever. With every worker saturated a cell that can run starts
 * within 16 x (cells that can run / workers) turns, and a foreign post is seen
 * within 64 turns; work behind a stuck behaviour is taken over.
 */

static _Atomic uint64_t running = 1;
static _Atomic uint64_t bounces;

static troupe_verdict
bounce(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    atomic_fetch_add(&bounces, 1);
    if (atomic_load(&running) != 0) {
        troupe_ref back = msg->sender;

        troupe_tell(self,
            troupe_ref_is_none(back) ? troupe_self_ref(self) : back, msg->type,
            msg->payload);
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type bouncer = {.size = sizeof(troupe_actor_type),
    .name = "bouncer",
    .receive = bounce};

/* Two that ping-pong for ever, so that the worker is never idle. */
static void
start_pair(troupe_system *system)
{
    troupe_ref a;
    troupe_ref b;
    troupe_msg *msg = troupe_msg_new(system, &test_number, 0);

    cr_assert_eq(troupe_system_spawn(system, &bouncer, NULL, &a), TROUPE_OK);
    cr_assert_eq(troupe_system_spawn(system, &bouncer, NULL, &b), TROUPE_OK);
    cr_assert_eq(troupe_post_msg_from(system, a, msg, b), TROUPE_OK);
}

static void
start_selfish(troupe_system *system)
{
    troupe_ref ref;

    cr_assert_eq(troupe_system_spawn(system, &bouncer, NULL, &ref), TROUPE_OK);
    test_post_number(system, ref, 1);
}

static _Atomic uint64_t served;

static troupe_verdict
serve(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)self;
    (void)state;
    (void)msg;
    atomic_fetch_add(&served, 1);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type server = {.size = sizeof(troupe_actor_type),
    .name = "server",
    .receive = serve};

static void
stop_all(troupe_system *system)
{
    atomic_store(&running, 0);
    test_close(system);
}

Test(fair, two_that_ping_pong_do_not_starve_a_third)
{
    troupe_system *system = test_open_threads(1);
    troupe_ref ref;

    start_pair(system);
    cr_assert(test_await_at_least(&bounces, 1000));
    cr_assert_eq(troupe_system_spawn(system, &server, NULL, &ref), TROUPE_OK);
    for (uint64_t i = 1; i <= 100; i++) {
        test_post_number(system, ref, 1);
        cr_assert(test_await_at_least(&served, i));
    }
    stop_all(system);
}

Test(fair, those_that_message_themselves_do_not_starve_posts)
{
    troupe_system *system = test_open_threads(1);
    troupe_ref ref;

    for (int i = 0; i < 4; i++) {
        start_selfish(system);
    }
    cr_assert(test_await_at_least(&bounces, 1000));
    cr_assert_eq(troupe_system_spawn(system, &server, NULL, &ref), TROUPE_OK);
    for (uint64_t i = 1; i <= 100; i++) {
        test_post_number(system, ref, 1);
        cr_assert(test_await_at_least(&served, i));
    }
    stop_all(system);
}

/* Turns of a driven system until `served` is there. */
static uint64_t
turns_until_served(troupe_system *system, uint64_t expected)
{
    uint64_t turns = 0;

    while (served < expected && turns < 1000000) {
        cr_assert_eq(troupe_system_run(system, 1, NULL), TROUPE_OK);
        turns++;
    }
    return turns;
}

Test(fair, a_foreign_post_is_seen_within_64_turns)
{
    troupe_system *system = test_open_driven(0);
    troupe_ref ref;

    start_pair(system);
    cr_assert_eq(troupe_system_spawn(system, &server, NULL, &ref), TROUPE_OK);
    for (uint64_t i = 1; i <= 200; i++) {
        test_post_number(system, ref, 1);
        cr_assert_leq(turns_until_served(system, i), 64 + 16 * 3);
        cr_assert_eq(
            troupe_system_run(system, (uint32_t)(i % 50 + 1), NULL), TROUPE_OK);
    }
    stop_all(system);
}

Test(fair, one_that_can_run_starts_within_16_turns_per_runnable_cell)
{
    troupe_system *system = test_open_driven(0);
    troupe_ref ref;

    for (int i = 0; i < 20; i++) {
        start_pair(system);
        start_selfish(system);
    }
    cr_assert_eq(troupe_system_spawn(system, &server, NULL, &ref), TROUPE_OK);
    cr_assert_eq(troupe_system_run(system, 1000, NULL), TROUPE_OK);
    for (uint64_t i = 1; i <= 50; i++) {
        test_post_number(system, ref, 1);
        cr_assert_leq(turns_until_served(system, i), 64 + 16 * 41);
    }
    stop_all(system);
}

Test(fair, one_with_a_long_queue_gives_way_after_its_throughput)
{
    troupe_system_options options = test_options();
    troupe_system *system;
    struct test_record record = {0};
    troupe_ref busy;
    troupe_ref ref;

    options.flags |= TROUPE_SYSTEM_DRIVEN;
    options.throughput = 10;
    system = test_open(&options);
    busy = test_spawn_recorder(system, NULL, &record);
    cr_assert_eq(troupe_system_spawn(system, &server, NULL, &ref), TROUPE_OK);
    test_run(system);
    test_post_numbers(system, busy, 2000);
    test_post_number(system, ref, 1);
    (void)turns_until_served(system, 1);
    cr_assert_leq(record.count, 20);
    test_run(system);
    cr_assert_eq(record.count, 2000);
    test_close(system);
}

/* --- a long queue in a mailbox with rules --------------------------------- */

/* More than the longest turn takes; and who is there beside it. */
enum { DEEP = 6000, YIELDERS = 16, TURNS = 400 };

static double
rank_alike(const troupe_msg *msg, void *user)
{
    (void)msg;
    (void)user;
    return 1;
}

/* Puts numbers aside until something else comes, and then serves them. */
static troupe_verdict
put_aside(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    if (troupe_msg_is(msg, &test_number)) {
        test_require(troupe_stash(self) == TROUPE_OK);
        return TROUPE_CONTINUE;
    }
    test_require(troupe_unstash(self, 0) == TROUPE_OK);
    troupe_become(self, serve);
    return TROUPE_CONTINUE;
}

static const troupe_actor_type hoarder = {.size = sizeof(troupe_actor_type),
    .name = "hoarder",
    .receive = put_aside};

/*
 * How much of its long queue an actor gets through in so many turns of one
 * message each, beside others that always have one more message.
 */
static uint64_t
served_beside_yielders(
    const troupe_actor_type *type, const troupe_mailbox_options *mailbox)
{
    troupe_system_options options = test_options();
    troupe_spawn_options spawn = TROUPE_INIT(troupe_spawn_options);
    troupe_system *system;
    troupe_ref ref;
    uint64_t count;

    options.flags |= TROUPE_SYSTEM_DRIVEN;
    options.throughput = 1;
    system = test_open(&options);
    spawn.mailbox = mailbox;
    spawn.stash_capacity = DEEP;
    cr_assert_eq(troupe_system_spawn(system, type, &spawn, &ref), TROUPE_OK);
    served = 0;
    running = 1;
    for (int i = 0; i < YIELDERS; i++) {
        start_selfish(system);
    }
    cr_assert_eq(troupe_system_run(system, 64, NULL), TROUPE_OK);
    test_post_numbers(system, ref, DEEP);
    if (type == &hoarder) {
        uint64_t nothing = 0;

        /* The last one is in the stash, but for what comes now. */
        cr_assert_eq(
            troupe_post(system, ref, &test_other, &nothing), TROUPE_OK);
        (void)turns_until_served(system, 1);
    }
    cr_assert_eq(troupe_system_run(system, TURNS, NULL), TROUPE_OK);
    count = served;
    cr_assert_lt(count, DEEP);
    stop_all(system);
    return count;
}

Test(fair, a_long_queue_gets_every_other_turn_in_a_mailbox_with_rules_too)
{
    troupe_mailbox_options ranked = TROUPE_INIT(troupe_mailbox_options);
    troupe_mailbox_options head = TROUPE_INIT(troupe_mailbox_options);

    ranked.priority = rank_alike;
    head.capacity = DEEP;
    head.overflow = TROUPE_OVERFLOW_DROP_HEAD;
    /* All turns in line would be TURNS / (YIELDERS + 1). */
    cr_assert_geq(served_beside_yielders(&server, NULL), TURNS / 3);
    cr_assert_geq(served_beside_yielders(&server, &ranked), TURNS / 3);
    cr_assert_geq(served_beside_yielders(&server, &head), TURNS / 3);
    cr_assert_geq(served_beside_yielders(&hoarder, NULL), TURNS / 3);
}

/* --- a stuck worker ------------------------------------------------------- */

static troupe_verdict
send_and_stay(troupe_self *self, const troupe_msg *msg, void *user)
{
    uint64_t before = served;
    uint64_t n = 1;

    (void)msg;
    troupe_tell(self, *(troupe_ref *)user, &test_number, &n);
    /* Still inside: somebody else has to run it. */
    test_require(test_await_at_least(&served, before + 1));
    return TROUPE_CONTINUE;
}

Test(fair, what_a_behaviour_sends_while_it_goes_on_is_run_by_another_worker)
{
    for (uint32_t workers = 2; workers <= 4; workers += 2) {
        troupe_system *system = test_open_threads(workers);
        troupe_ref doer = test_spawn_doer(system, NULL);
        troupe_ref ref;

        cr_assert_eq(
            troupe_system_spawn(system, &server, NULL, &ref), TROUPE_OK);
        for (int i = 0; i < 50; i++) {
            test_do_later(system, doer, send_and_stay, &ref);
            cr_assert_eq(
                troupe_system_await_idle(system, TROUPE_S(60)), TROUPE_OK);
        }
        test_close(system);
    }
}

static troupe_verdict
spawn_and_stay(troupe_self *self, const troupe_msg *msg, void *user)
{
    troupe_ref refs[20];
    uint64_t n = 1;
    uint64_t before = served;

    (void)msg;
    (void)user;
    for (int i = 0; i < 20; i++) {
        test_require(troupe_spawn(self, &server, NULL, &refs[i]) == TROUPE_OK);
        troupe_tell(self, refs[i], &test_number, &n);
    }
    test_require(test_await_at_least(&served, before + 20));
    return TROUPE_DONE;
}

Test(fair, children_of_a_behaviour_that_goes_on_are_run_by_another_worker)
{
    troupe_system *system = test_open_threads(2);

    for (int i = 0; i < 20; i++) {
        test_do_later(
            system, test_spawn_doer(system, NULL), spawn_and_stay, NULL);
        cr_assert_eq(troupe_system_await_idle(system, TROUPE_S(60)), TROUPE_OK);
    }
    cr_assert_geq(test_counters(system).steals, 20, "each time at least one");
    test_close(system);
}

static pthread_t parents_thread;
static _Atomic uint64_t elsewhere;

static troupe_verdict
compare_threads(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)self;
    (void)msg;
    (void)user;
    atomic_fetch_add(
        &elsewhere, !pthread_equal(parents_thread, pthread_self()));
    return TROUPE_DONE;
}

static troupe_verdict
spawn_and_work(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    (void)user;
    parents_thread = pthread_self();
    for (int i = 0; i < 100; i++) {
        test_do_later(troupe_self_system(self),
            test_spawn_doer_below(self, NULL), compare_threads, NULL);
    }
    /* Others have time to come and take them. */
    for (int i = 0; i < 200; i++) {
        (void)test_counters(troupe_self_system(self));
    }
    return TROUPE_CONTINUE;
}

Test(fair, without_stealing_work_stays_where_it_was_made_runnable)
{
    troupe_system_options options = test_options();
    troupe_system *system;

    options.workers = 4;
    options.steal = TROUPE_STEAL_OFF;
    system = test_open(&options);
    for (int i = 0; i < 20; i++) {
        test_do_later(
            system, test_spawn_doer(system, NULL), spawn_and_work, NULL);
        cr_assert_eq(troupe_system_await_idle(system, TROUPE_S(60)), TROUPE_OK);
    }
    cr_assert_eq(test_counters(system).handled, 20 * 101);
    cr_assert_eq(elsewhere, 0);
    cr_assert_eq(test_counters(system).steals, 0);
    cr_assert_eq(test_counters(system).steal_misses, 0);
    test_close(system);
}
