/* SPDX-License-Identifier: MIT */
#include "support/system.h"

#include "support/await.h"
#include "support/census.h"

#include <troupe/port.h>

#include <criterion/criterion.h>

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

static bool
is_readable(const troupe_system *system)
{
    return test_is_readable(troupe_system_fd(system));
}

Test(driven, it_has_no_threads)
{
    struct test_census before = test_census();
    troupe_system *system = test_open_driven(0);

    cr_assert_eq(test_census().threads, before.threads);
    test_close(system);
}

Test(driven, nothing_happens_unless_it_is_run)
{
    troupe_system *system = test_open_driven(0);
    struct test_record record = {0};
    troupe_ref ref = test_spawn_recorder(system, NULL, &record);

    test_post_number(system, ref, 1);
    cr_assert_eq(record.started, 0);
    cr_assert_eq(record.count, 0);
    test_run(system);
    cr_assert_eq(record.count, 1);
    test_close(system);
}

Test(driven, run_says_how_many_turns_and_how_many_wait)
{
    troupe_system *system = test_open_driven(0);
    static struct test_record records[10];
    troupe_run run;

    for (int i = 0; i < 10; i++) {
        (void)test_spawn_recorder(system, NULL, &records[i]);
    }
    cr_assert_eq(troupe_system_run(system, 4, &run), TROUPE_OK);
    cr_assert_eq(run.turns, 4);
    cr_assert_eq(run.runnable, 6);
    cr_assert_eq(run.next_timer_ns, TROUPE_FOREVER);
    cr_assert_eq(troupe_system_run(system, 0, &run), TROUPE_OK);
    cr_assert_eq(run.turns, 6);
    cr_assert_eq(run.runnable, 0);
    cr_assert_eq(troupe_system_run(system, 0, &run), TROUPE_OK);
    cr_assert_eq(run.turns, 0);
    test_close(system);
}

Test(driven, run_without_a_place_for_the_answer_is_fine)
{
    troupe_system *system = test_open_driven(0);

    cr_assert_eq(troupe_system_run(system, 1, NULL), TROUPE_OK);
    test_close(system);
}

Test(driven, run_after_the_end_of_a_stop_says_closed)
{
    troupe_system *system = test_open_driven(0);
    struct test_record record = {0};
    troupe_ref ref = test_spawn_recorder(system, NULL, &record);
    troupe_status status = TROUPE_OK;
    int rounds = 0;

    test_post_numbers(system, ref, 1000);
    troupe_system_request_stop(system);
    while (status == TROUPE_OK && rounds++ < 1000) {
        status = troupe_system_run(system, 1, NULL);
    }
    cr_assert_eq(status, TROUPE_E_CLOSED);
    cr_assert_gt(rounds, 2, "only when the stop has run to its end");
    cr_assert_eq(record.count, 1000);
    cr_assert_eq(record.stopped, 1);
    cr_assert_eq(troupe_system_run(system, 1, NULL), TROUPE_E_CLOSED);
    test_close(system);
}

Test(driven, its_calls_are_refused_by_a_system_with_workers)
{
    troupe_system *system = test_open_threads(1);

    cr_assert_eq(troupe_system_run(system, 1, NULL), TROUPE_E_STATE);
    cr_assert_eq(troupe_last_error().status, TROUPE_E_STATE);
    cr_assert_eq(troupe_system_advance(system, 1), TROUPE_E_STATE);
    cr_assert_eq(troupe_system_fd(system), -1);
    test_close(system);
}

static troupe_verdict
run_inside(troupe_self *self, const troupe_msg *msg, void *user)
{
    troupe_system *system = troupe_self_system(self);

    (void)msg;
    (void)user;
    cr_assert_eq(troupe_system_run(system, 1, NULL), TROUPE_E_CONTEXT);
    cr_assert_eq(troupe_system_advance(system, 1), TROUPE_E_CONTEXT);
    cr_assert_eq(
        troupe_system_await_idle(system, TROUPE_FOREVER), TROUPE_E_CONTEXT);
    cr_assert_eq(troupe_system_stop(system), TROUPE_E_CONTEXT);
    cr_assert_eq(troupe_system_destroy(system), TROUPE_E_CONTEXT);
    return TROUPE_CONTINUE;
}

Test(driven, its_calls_are_refused_inside_a_behaviour)
{
    troupe_system *system = test_open_driven(0);
    troupe_system *simulation;
    troupe_system_options options = test_options();

    test_do(system, test_spawn_doer(system, NULL), run_inside, NULL);
    test_close(system);
    options.flags |= TROUPE_SYSTEM_DRIVEN;
    options.seed = 3;
    simulation = test_open(&options);
    test_do(simulation, test_spawn_doer(simulation, NULL), run_inside, NULL);
    test_close(simulation);
}

Test(driven, null_is_refused)
{
    cr_assert_eq(troupe_system_run(NULL, 1, NULL), TROUPE_E_INVALID);
    cr_assert_eq(troupe_system_advance(NULL, 1), TROUPE_E_INVALID);
    cr_assert_eq(troupe_system_fd(NULL), -1);
    cr_assert_eq(troupe_system_seed(NULL), 0);
}

/* --- the descriptor ------------------------------------------------------- */

Test(driven, the_descriptor_is_readable_while_a_cell_can_run)
{
    troupe_system *system = test_open_driven(0);
    struct test_record record = {0};
    troupe_ref ref;

    cr_assert_geq(troupe_system_fd(system), 0);
    test_run(system);
    cr_assert_not(is_readable(system));
    ref = test_spawn_recorder(system, NULL, &record);
    cr_assert(is_readable(system), "start() waits for a turn");
    test_run(system);
    cr_assert_not(is_readable(system));
    for (int i = 0; i < 200; i++) {
        test_post_number(system, ref, 1);
        cr_assert(is_readable(system));
        test_run(system);
        cr_assert_not(is_readable(system));
    }
    test_close(system);
}

Test(driven, the_descriptor_stays_readable_when_run_stopped_half_way)
{
    troupe_system *system = test_open_driven(0);
    static struct test_record records[5];

    for (int i = 0; i < 5; i++) {
        (void)test_spawn_recorder(system, NULL, &records[i]);
    }
    for (int i = 0; i < 5; i++) {
        cr_assert(is_readable(system), "%d turns", i);
        cr_assert_eq(troupe_system_run(system, 1, NULL), TROUPE_OK);
    }
    cr_assert_not(is_readable(system));
    test_close(system);
}

static void *
post_from_outside(void *user)
{
    struct {
        troupe_system *system;
        troupe_ref ref;
    } *target = user;

    for (uint64_t i = 0; i < 20000; i++) {
        test_post_number(target->system, target->ref, i);
    }
    return NULL;
}

static uint64_t outside_count;

static troupe_verdict
expect_order(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)self;
    (void)state;
    test_require(*troupe_payload(msg, uint64_t) == outside_count);
    outside_count++;
    return TROUPE_CONTINUE;
}

Test(driven, a_loop_that_polls_without_time_out_sees_posts_of_other_threads)
{
    static const troupe_actor_type type = {
        .size = sizeof type, .name = "t", .receive = expect_order};
    struct {
        troupe_system *system;
        troupe_ref ref;
    } target;
    pthread_t thread;

    target.system = test_open_driven(0);
    cr_assert_eq(troupe_system_spawn(target.system, &type, NULL, &target.ref),
        TROUPE_OK);
    cr_assert_eq(pthread_create(&thread, NULL, post_from_outside, &target), 0);
    while (outside_count < 20000) {
        struct pollfd ready = {troupe_system_fd(target.system), POLLIN, 0};

        cr_assert_eq(poll(&ready, 1, 60000), 1, "no turn after a minute");
        cr_assert_eq(troupe_system_run(target.system, 3, NULL), TROUPE_OK);
    }
    cr_assert_eq(pthread_join(thread, NULL), 0);
    test_close(target.system);
}

Test(driven, a_stop_that_is_requested_makes_the_descriptor_readable)
{
    troupe_system *system = test_open_driven(0);

    test_run(system);
    troupe_system_request_stop(system);
    cr_assert(is_readable(system));
    test_close(system);
}

/* One that takes so many messages per second, and one at once. */
static troupe_ref
spawn_throttled(
    troupe_system *system, double per_second, struct test_record *record)
{
    troupe_throttle_options rate = TROUPE_INIT(troupe_throttle_options);
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    troupe_ref ref = TROUPE_NONE;

    rate.per_second = per_second;
    rate.burst = 1;
    options.throttle = &rate;
    options.arg = &record;
    options.arg_bytes = sizeof record;
    cr_assert_eq(
        troupe_system_spawn(system, &test_recorder, &options, &ref), TROUPE_OK);
    return ref;
}

/* Nothing but the descriptor says when; how often it did. */
static uint32_t
poll_until_handled(
    troupe_system *system, const struct test_record *record, uint32_t count)
{
    uint32_t polls = 0;

    for (test_run(system); record->count < count; test_run(system)) {
        struct pollfd ready = {troupe_system_fd(system), POLLIN, 0};

        cr_assert_eq(poll(&ready, 1, 60000), 1, "no turn after a minute");
        polls++;
    }
    return polls;
}

Test(driven, a_loop_that_polls_without_time_out_sees_that_a_time_has_come)
{
    troupe_system *system = test_open_driven(0);
    struct test_record record = {0};
    troupe_ref ref = spawn_throttled(system, 200, &record);

    test_post_numbers(system, ref, 10);
    cr_assert_leq(poll_until_handled(system, &record, 10), 9,
        "it slept until there was something to do");
    cr_assert_not(is_readable(system));
    test_close(system);
}

Test(driven, the_descriptor_is_silent_until_a_time_has_come)
{
    troupe_system *system = test_open_driven(0);
    struct test_record record = {0};
    troupe_ref ref = spawn_throttled(system, 0.001, &record);
    troupe_run run;

    test_post_numbers(system, ref, 3);
    for (int i = 0; i < 5; i++) {
        cr_assert_eq(troupe_system_run(system, 0, &run), TROUPE_OK);
        cr_assert_gt(run.next_timer_ns, TROUPE_S(60));
        cr_assert_not(is_readable(system));
        test_post_number(system, ref, 1);
    }
    cr_assert_eq(record.count, 1);
    cr_assert_eq(troupe_post_stop_now(system, ref), TROUPE_OK);
    cr_assert(is_readable(system));
    test_run(system);
    cr_assert_not(is_readable(system));
    test_close(system);
}

static troupe_system *parents_system;

static int
destroy_in_child(void)
{
    return troupe_system_fd(parents_system) == -1 &&
                   troupe_system_destroy(parents_system) == TROUPE_OK
               ? 0
               : 1;
}

Test(driven, a_child_that_destroys_it_does_not_silence_the_descriptor)
{
    troupe_system *system = test_open_driven(0);
    struct test_record record = {0};
    troupe_ref ref = spawn_throttled(system, 100, &record);

    parents_system = system;
    test_post_numbers(system, ref, 3);
    test_run(system);
    cr_assert_eq(test_in_child(destroy_in_child), 0);
    (void)poll_until_handled(system, &record, 3);
    test_close(system);
}

/* --- simulation ----------------------------------------------------------- */

#define PLAYERS 6

static troupe_ref players[PLAYERS];
static uint32_t order[4096];
static uint32_t steps;
static bool slow_down;

/* Notes who is running and passes the ball to two others. */
static troupe_verdict
play(troupe_self *self, void *state, const troupe_msg *msg)
{
    uint64_t left = *troupe_payload(msg, uint64_t);
    uint32_t me = 0;

    (void)state;
    while (!troupe_ref_equal(players[me], troupe_self_ref(self))) {
        me++;
    }
    order[steps++] = me;
    if (slow_down) {
        uint64_t start = test_clock_ns();

        while (test_clock_ns() - start < TROUPE_US(20)) {
        }
    }
    if (left > 0) {
        left--;
        troupe_tell(self, players[(me + 1) % PLAYERS], &test_number, &left);
        troupe_tell(self, players[(me + 2) % PLAYERS], &test_number, &left);
    }
    return TROUPE_CONTINUE;
}

static void
simulate(uint64_t seed, uint32_t throughput)
{
    static const troupe_actor_type type = {
        .size = sizeof type, .name = "player", .receive = play};
    troupe_system_options options = test_options();
    troupe_system *system;

    options.flags |= TROUPE_SYSTEM_DRIVEN;
    options.seed = seed;
    options.throughput = throughput;
    system = test_open(&options);
    steps = 0;
    for (int i = 0; i < PLAYERS; i++) {
        cr_assert_eq(
            troupe_system_spawn(system, &type, NULL, &players[i]), TROUPE_OK);
    }
    test_post_number(system, players[0], 7);
    test_post_number(system, players[3], 7);
    test_run(system);
    cr_assert_eq(steps, 2 * 255);
    test_close(system);
}

Test(driven, the_same_seed_gives_the_same_run)
{
    static uint32_t before[4096];

    for (uint64_t seed = 1; seed <= 20; seed++) {
        simulate(seed, 1);
        memcpy(before, order, sizeof before);
        simulate(seed, 1);
        cr_assert_eq(memcmp(before, order, sizeof before), 0);
    }
}

/* Turns must not depend on how fast this machine is at the moment. */
Test(driven, the_same_seed_gives_the_same_run_with_the_default_throughput)
{
    static uint32_t before[4096];

    for (uint64_t seed = 1; seed <= 20; seed++) {
        simulate(seed, 0);
        memcpy(before, order, sizeof before);
        slow_down = true;
        simulate(seed, 0);
        slow_down = false;
        cr_assert_eq(memcmp(before, order, sizeof before), 0);
    }
}

Test(driven, another_seed_gives_another_run)
{
    static uint32_t before[4096];
    int different = 0;

    simulate(1, 1);
    memcpy(before, order, sizeof before);
    for (uint64_t seed = 2; seed <= 20; seed++) {
        simulate(seed, 1);
        different += memcmp(before, order, sizeof before) != 0;
    }
    cr_assert_geq(different, 18);
}

Test(driven, refs_of_the_same_seed_are_the_same)
{
    troupe_ref before;

    simulate(5, 1);
    before = players[2];
    simulate(5, 1);
    cr_assert(troupe_ref_equal(before, players[2]));
}

Test(driven, the_seed_in_use_can_be_asked)
{
    troupe_system *system = test_open_driven(1234567890123);

    cr_assert_eq(troupe_system_seed(system), 1234567890123);
    test_close(system);
    system = test_open_driven(0);
    cr_assert_eq(troupe_system_seed(system), 0);
    test_close(system);
}

Test(driven, a_simulation_has_no_descriptor)
{
    troupe_system *system = test_open_driven(1);

    cr_assert_eq(troupe_system_fd(system), -1);
    test_close(system);
}

Test(driven, time_of_a_simulation_moves_only_when_told)
{
    troupe_system *system = test_open_driven(1);
    struct test_record record = {0};
    troupe_ref ref = test_spawn_recorder(system, NULL, &record);
    uint64_t start = troupe_now_ns(system);

    test_post_number(system, ref, 1);
    test_run(system);
    cr_assert_eq(troupe_now_ns(system), start);
    cr_assert_eq(troupe_system_await_idle(system, TROUPE_S(5)), TROUPE_OK);
    cr_assert_eq(troupe_now_ns(system), start);
    cr_assert_eq(troupe_system_advance(system, 12345), TROUPE_OK);
    cr_assert_eq(troupe_now_ns(system), start + 12345);
    cr_assert_eq(troupe_system_advance(system, 0), TROUPE_OK);
    cr_assert_eq(troupe_now_ns(system), start + 12345);
    test_close(system);
}

Test(driven, advancing_runs_what_can_run)
{
    troupe_system *system = test_open_driven(1);
    struct test_record record = {0};
    troupe_ref ref = test_spawn_recorder(system, NULL, &record);

    test_post_number(system, ref, 1);
    cr_assert_eq(troupe_system_advance(system, 1), TROUPE_OK);
    cr_assert_eq(record.count, 1);
    test_close(system);
}

Test(driven, virtual_time_saturates)
{
    troupe_system *system = test_open_driven(1);

    cr_assert_eq(troupe_system_advance(system, UINT64_MAX - 5), TROUPE_OK);
    cr_assert_eq(troupe_system_advance(system, 100), TROUPE_OK);
    cr_assert_eq(troupe_now_ns(system), UINT64_MAX);
    cr_assert_eq(troupe_system_advance(system, UINT64_MAX), TROUPE_OK);
    cr_assert_eq(troupe_now_ns(system), UINT64_MAX);
    test_close(system);
}

Test(driven, without_a_seed_time_cannot_be_moved)
{
    troupe_system *system = test_open_driven(0);

    cr_assert_eq(troupe_system_advance(system, 1), TROUPE_E_STATE);
    cr_assert_eq(troupe_last_error().status, TROUPE_E_STATE);
    test_close(system);
}

Test(driven, without_a_seed_time_is_that_of_the_monotonic_clock)
{
    troupe_system *system = test_open_driven(0);
    uint64_t first = troupe_now_ns(system);
    uint64_t start = test_clock_ns();
    uint64_t passed;

    while (test_clock_ns() - start < TROUPE_MS(2)) {
    }
    passed = troupe_now_ns(system) - first;
    cr_assert_geq(passed, TROUPE_MS(2));
    cr_assert_lt(first, TROUPE_S(60), "it began when the system was created");
    test_close(system);
}

static troupe_verdict
tell_time(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    *(uint64_t *)user = troupe_now_ns(troupe_self_system(self));
    return TROUPE_CONTINUE;
}

Test(driven, with_workers_there_is_one_time_on_all_threads)
{
    uint64_t begin = test_clock_ns();
    troupe_system *system = test_open_threads(2);
    uint64_t before = troupe_now_ns(system);
    uint64_t inside = 0;
    uint64_t after;

    test_do_later(system, test_spawn_doer(system, NULL), tell_time, &inside);
    cr_assert_eq(troupe_system_await_idle(system, TROUPE_S(60)), TROUPE_OK);
    after = troupe_now_ns(system);
    cr_assert_leq(before, inside);
    cr_assert_leq(inside, after);
    cr_assert_leq(after, test_clock_ns() - begin, "since it was created");
    test_close(system);
}

/* --- waiting runs turns --------------------------------------------------- */

Test(driven, await_idle_runs_until_nothing_can_run)
{
    troupe_system *system = test_open_driven(0);
    struct test_record record = {0};
    troupe_ref ref = test_spawn_recorder(system, NULL, &record);

    test_post_numbers(system, ref, 1000);
    cr_assert_eq(troupe_system_await_idle(system, 0), TROUPE_OK);
    cr_assert_eq(record.count, 1000);
    test_close(system);
}

Test(driven, stop_and_destroy_run_what_is_left)
{
    troupe_system *system = test_open_driven(0);
    struct test_record record = {0};
    troupe_ref ref = test_spawn_recorder(system, NULL, &record);

    test_post_numbers(system, ref, 100);
    cr_assert_eq(troupe_system_destroy(system), TROUPE_OK);
    cr_assert_eq(record.count, 100);
    cr_assert_eq(record.stopped, 1);
    cr_assert(test_alloc_is_empty(&test_memory));
}

static troupe_verdict
note_thread(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)self;
    (void)msg;
    *(pthread_t *)user = pthread_self();
    return TROUPE_CONTINUE;
}

Test(driven, turns_run_on_the_thread_that_runs_them)
{
    troupe_system *system = test_open_driven(0);
    pthread_t seen;

    memset(&seen, 0, sizeof seen);
    test_do(system, test_spawn_doer(system, NULL), note_thread, &seen);
    cr_assert(pthread_equal(seen, pthread_self()));
    test_close(system);
}
