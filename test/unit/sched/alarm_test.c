/* SPDX-License-Identifier: MIT */
#include "sched/alarm.h"
#include "sched/submit.h"
#include "sched/worker.h"
#include "system/system.h"

#include "base/error.h"
#include "support/alloc.h"
#include "support/await.h"
#include "support/census.h"
#include "support/seed.h"

#include <criterion/criterion.h>

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Alarms of a scheduler with threads, of a driven one, of a simulation. */

#define ALARMS 2000
#define MS UINT64_C(1000000)
#define FAR (trp_clock_ns() + TEST_DEADLINE_NS)
/* So far that a test that waits for it is late. */
#define TOO_LATE (trp_clock_ns() + 100 * TEST_DEADLINE_NS)

struct alarm {
    struct trp_alarm alarm; /* first */
    void (*act)(struct trp_worker *worker, struct alarm *alarm);
    uint64_t due_ns;
    uint64_t fired_ns;
    _Atomic uint64_t fired;
};

struct job {
    struct trp_task task; /* first */
    void (*act)(struct trp_worker *worker, struct job *job);
    _Atomic uint64_t runs;
};

static struct test_alloc alloc;
static struct trp_heap heap;
static struct trp_sched sched;
static struct alarm alarms[ALARMS];
static struct job jobs[4];
static _Atomic uint64_t total;
static _Atomic uint64_t mistakes;
static struct alarm *order[ALARMS];

static void
mistake_if(bool is_wrong)
{
    if (is_wrong) {
        atomic_fetch_add(&mistakes, 1);
    }
}

static void
fire(struct trp_worker *worker, struct trp_alarm *fired)
{
    struct alarm *alarm = (struct alarm *)(void *)fired;

    alarm->fired_ns = trp_alarm_now(worker->sched);
    mistake_if(alarm->fired_ns < alarm->due_ns);
    mistake_if(trp_thread.worker != worker);
    if (atomic_load(&total) < ALARMS) {
        order[atomic_load(&total)] = alarm;
    }
    if (alarm->act != NULL) {
        alarm->act(worker, alarm);
    }
    atomic_fetch_add(&alarm->fired, 1);
    atomic_fetch_add(&total, 1);
}

static void
run(struct trp_worker *worker, struct trp_task *task)
{
    struct job *job = (struct job *)(void *)task;

    atomic_fetch_add(&job->runs, 1);
    if (job->act != NULL) {
        job->act(worker, job);
    }
}

static void
open_as(uint32_t workers, enum trp_steal steal, bool driven)
{
    const struct trp_sched_options options = {.run = run,
        .name = "test",
        .workers = workers,
        .spin_ns = 2000,
        .stack_bytes = 256 * 1024,
        .steal = steal,
        .driven = driven};

    memset(&sched, 0, sizeof sched);
    memset(alarms, 0, sizeof alarms);
    for (int i = 0; i < ALARMS; i++) {
        alarms[i].alarm.fire = fire;
    }
    total = mistakes = 0;
    trp_heap_init(&heap, test_alloc, test_free, &alloc);
    cr_assert_eq(trp_sched_init(&sched, &heap, &options), TROUPE_OK);
    cr_assert_eq(trp_sched_start(&sched, &options), TROUPE_OK);
}

static void
open_sched(uint32_t workers)
{
    open_as(workers, TRP_STEAL_GATED, false);
}

static void
close_sched(void)
{
    trp_sched_stop(&sched);
    trp_sched_fini(&sched);
    cr_assert(test_alloc_is_empty(&alloc));
    cr_assert_eq(mistakes, 0);
}

static bool
set_at(struct alarm *alarm, uint64_t due_ns)
{
    alarm->due_ns = due_ns;
    return trp_alarm_set(&sched, &alarm->alarm, due_ns);
}

static bool
set_after(struct alarm *alarm, uint64_t delay_ns)
{
    return set_at(alarm, trp_clock_after(trp_alarm_now(&sched), delay_ns));
}

Test(sched_alarm, sleepers_wake_at_multiples_of_the_grain)
{
    cr_assert_eq(trp_alarm_wake_ns(0), 0);
    cr_assert_eq(trp_alarm_wake_ns(1), TRP_ALARM_GRAIN_NS);
    cr_assert_eq(trp_alarm_wake_ns(TRP_ALARM_GRAIN_NS), TRP_ALARM_GRAIN_NS);
    cr_assert_eq(
        trp_alarm_wake_ns(TRP_ALARM_GRAIN_NS + 1), 2 * TRP_ALARM_GRAIN_NS);
    cr_assert_eq(trp_alarm_wake_ns(TRP_ALARM_NEVER), TRP_ALARM_NEVER);
    cr_assert_eq(trp_alarm_wake_ns(TRP_ALARM_NEVER - 1), TRP_ALARM_NEVER);
    cr_assert_leq(TRP_ALARM_GRAIN_NS, MS);
    cr_assert_gt(TRP_ALARM_GRAIN_NS, TRP_IDLE_CARRIER);
}

Test(sched_alarm, it_fires_once_and_not_early)
{
    for (uint32_t workers = 1; workers <= 4; workers++) {
        open_sched(workers);
        cr_assert_not(set_after(&alarms[0], 3 * MS));
        cr_assert(test_await_at_least(&alarms[0].fired, 1));
        cr_assert(trp_idle_await_quiet(&sched, FAR));
        cr_assert_eq(alarms[0].fired, 1);
        cr_assert_not(trp_alarm_cancel(&sched, &alarms[0].alarm));
        cr_assert_eq(trp_alarm_next(&sched), TRP_ALARM_NEVER);
        close_sched();
    }
}

Test(sched_alarm, what_is_due_already_fires_at_once)
{
    open_sched(2);
    cr_assert_not(set_at(&alarms[0], 0));
    cr_assert(test_await_at_least(&alarms[0].fired, 1));
    cr_assert_not(set_at(&alarms[0], trp_clock_ns()));
    cr_assert(test_await_at_least(&alarms[0].fired, 2));
    close_sched();
}

Test(sched_alarm, they_fire_in_the_order_of_their_times)
{
    struct test_rng rng = {test_seed()};

    open_sched(3);
    for (int i = 0; i < ALARMS; i++) {
        /* Late enough to be set before the first one fires. */
        (void)set_after(
            &alarms[i], 100 * MS + test_random_below(&rng, 50 * MS));
    }
    cr_assert(test_await_at_least(&total, ALARMS));
    for (int i = 1; i < ALARMS; i++) {
        cr_assert_leq(order[i - 1]->due_ns, order[i]->due_ns);
    }
    close_sched();
}

Test(sched_alarm, a_cancelled_one_does_not_fire)
{
    open_sched(2);
    cr_assert_not(trp_alarm_cancel(&sched, &alarms[0].alarm));
    cr_assert_not(set_at(&alarms[0], TOO_LATE));
    cr_assert_not(set_after(&alarms[1], MS));
    cr_assert(trp_alarm_cancel(&sched, &alarms[0].alarm));
    cr_assert_not(trp_alarm_cancel(&sched, &alarms[0].alarm));
    cr_assert(test_await_at_least(&alarms[1].fired, 1));
    cr_assert_eq(alarms[0].fired, 0);
    close_sched();
}

static TRP_ATOMIC(uint8_t) ended;

Test(sched_alarm, one_that_is_ended_is_not_set_any_more)
{
    open_sched(2);
    ended = 0;
    cr_assert(trp_alarm_renew(&sched, &alarms[0].alarm, TOO_LATE, &ended));
    cr_assert(trp_alarm_renew(&sched, &alarms[0].alarm, TOO_LATE, &ended));
    cr_assert(trp_alarm_end(&sched, &alarms[0].alarm, &ended));
    cr_assert_eq(ended, 0, "it is the caller's");
    cr_assert_not(trp_alarm_end(&sched, &alarms[0].alarm, &ended));
    cr_assert_eq(ended, 1);
    cr_assert_not(trp_alarm_renew(&sched, &alarms[0].alarm, 0, &ended));
    cr_assert_eq(trp_alarm_next(&sched), TRP_ALARM_NEVER);
    close_sched();
}

Test(sched_alarm, a_set_one_can_be_moved)
{
    open_sched(2);
    cr_assert(trp_idle_await_quiet(&sched, FAR));
    cr_assert_not(set_at(&alarms[0], TOO_LATE));
    cr_assert(set_at(&alarms[0], TRP_ALARM_NEVER));
    cr_assert(set_at(&alarms[0], TOO_LATE));
    cr_assert(set_after(&alarms[0], MS));
    cr_assert(test_await_at_least(&alarms[0].fired, 1));
    close_sched();
}

/* The sleeper who carries the deadline of a far one must be told each time. */
Test(sched_alarm, an_earlier_one_is_seen_by_those_who_sleep)
{
    for (uint32_t workers = 1; workers <= 4; workers += 3) {
        open_sched(workers);
        (void)set_at(&alarms[0], TOO_LATE);
        for (uint64_t i = 1; i <= 200; i++) {
            if (i % 2 == 0) {
                cr_assert(trp_idle_await_quiet(&sched, FAR));
            }
            (void)set_after(&alarms[1], i % 3 == 0 ? 0 : MS / 4);
            cr_assert(test_await_at_least(&alarms[1].fired, i));
        }
        cr_assert(trp_alarm_cancel(&sched, &alarms[0].alarm));
        close_sched();
    }
}

static void
set_again(struct trp_worker *worker, struct alarm *alarm)
{
    (void)worker;
    if (atomic_load(&alarm->fired) < 49) {
        mistake_if(set_after(alarm, MS / 8));
    }
}

Test(sched_alarm, fire_may_set_it_again)
{
    open_sched(2);
    alarms[0].act = set_again;
    (void)set_after(&alarms[0], 0);
    cr_assert(test_await_at_least(&alarms[0].fired, 50));
    cr_assert(trp_idle_await_quiet(&sched, FAR));
    cr_assert_eq(alarms[0].fired, 50);
    close_sched();
}

static void
submit_first(struct trp_worker *worker, struct alarm *alarm)
{
    (void)alarm;
    trp_submit(worker, &jobs[0].task);
}

Test(sched_alarm, fire_may_submit)
{
    for (uint32_t workers = 1; workers <= 2; workers++) {
        jobs[0].runs = 0;
        open_sched(workers);
        alarms[0].act = submit_first;
        for (uint64_t i = 1; i <= 50; i++) {
            (void)set_after(&alarms[0], MS / 2);
            cr_assert(test_await_at_least(&jobs[0].runs, i));
        }
        close_sched();
    }
}

static void
stay(struct trp_worker *worker, struct job *job)
{
    (void)worker;
    (void)job;
    mistake_if(!test_await_at_least(&alarms[1].fired, 1));
}

/* Whoever sleeps fires it, with stealing or without. */
Test(sched_alarm, a_worker_in_a_long_turn_does_not_hold_it_up)
{
    for (enum trp_steal steal = TRP_STEAL_GATED; steal <= TRP_STEAL_EAGER;
         steal++) {
        for (uint32_t workers = 2; workers <= 4; workers++) {
            open_as(workers, steal, false);
            jobs[0].act = stay;
            alarms[0].act = submit_first;
            (void)set_after(&alarms[0], MS);
            (void)set_after(&alarms[1], 2 * MS);
            cr_assert(test_await_at_least(&alarms[1].fired, 1));
            close_sched();
        }
    }
}

static void
go_round(struct trp_worker *worker, struct job *job)
{
    if (atomic_load(&alarms[0].fired) == 0) {
        trp_submit_last(worker, &job->task);
    }
}

Test(sched_alarm, busy_workers_fire_between_two_turns)
{
    for (uint32_t workers = 1; workers <= 2; workers++) {
        open_sched(workers);
        jobs[0].act = jobs[1].act = go_round;
        trp_submit_foreign(&sched, &jobs[0].task);
        trp_submit_foreign(&sched, &jobs[1].task);
        (void)set_after(&alarms[0], 2 * MS);
        cr_assert(test_await_at_least(&alarms[0].fired, 1));
        cr_assert(trp_idle_await_quiet(&sched, FAR));
        close_sched();
    }
}

Test(sched_alarm, a_pending_one_is_not_work)
{
    open_sched(3);
    (void)set_at(&alarms[0], TOO_LATE);
    cr_assert(trp_idle_await_quiet(&sched, FAR));
    cr_assert(trp_alarm_cancel(&sched, &alarms[0].alarm));
    close_sched();
}

Test(sched_alarm, what_is_pending_at_the_end_stays_its_owners)
{
    struct test_census before = test_census();

    open_sched(2);
    (void)set_at(&alarms[0], TOO_LATE);
    (void)set_at(&alarms[1], TRP_ALARM_NEVER);
    trp_sched_stop(&sched);
    cr_assert_not(set_at(&alarms[2], 0));
    cr_assert(trp_alarm_cancel(&sched, &alarms[0].alarm));
    close_sched();
    cr_assert_eq(total, 0);
    cr_assert(test_census_is(before));
}

/* --- many, from many threads ---------------------------------------------- */

#define MANY 1000000

Test(sched_alarm, a_million_can_be_pending)
{
    struct test_rng rng = {test_seed()};
    struct alarm *many = calloc(MANY, sizeof *many);
    uint64_t base_ns = TOO_LATE;

    cr_assert_not_null(many);
    open_sched(2);
    for (uint32_t i = 0; i < MANY; i++) {
        many[i].alarm.fire = fire;
        cr_assert_not(
            set_at(&many[i], base_ns + test_random(&rng) % (MS * MS)));
    }
    (void)set_after(&alarms[0], MS);
    cr_assert(test_await_at_least(&alarms[0].fired, 1));
    for (uint32_t i = 0; i < MANY; i++) {
        cr_assert(trp_alarm_cancel(&sched, &many[i].alarm));
    }
    cr_assert_eq(trp_alarm_next(&sched), TRP_ALARM_NEVER);
    close_sched();
    free(many);
}

Test(sched_alarm, a_million_can_be_due_at_once)
{
    struct alarm *many = calloc(MANY, sizeof *many);
    uint64_t due_ns;

    cr_assert_not_null(many);
    open_sched(2);
    due_ns = trp_clock_ns() + 50 * MS;
    for (uint32_t i = 0; i < MANY; i++) {
        many[i].alarm.fire = fire;
        (void)set_at(&many[i], due_ns + i % 1000);
    }
    cr_assert(test_await_at_least(&total, MANY));
    cr_assert(trp_idle_await_quiet(&sched, FAR));
    cr_assert_eq(total, MANY);
    close_sched();
    free(many);
}

/* --- driven --------------------------------------------------------------- */

static bool
is_readable_within(int ms)
{
    struct pollfd ready = {trp_alert_fd(&sched.alert), POLLIN, 0};

    return poll(&ready, 1, ms) == 1;
}

static void
run_turns(void)
{
    struct trp_task *task;

    trp_thread.worker = &sched.workers[0];
    while ((task = trp_sched_next_driven(&sched)) != NULL) {
        trp_worker_run(&sched.workers[0], task);
    }
    trp_sched_settle(&sched);
    trp_thread.worker = NULL;
}

Test(sched_alarm, driven_turns_fire_what_is_due)
{
    open_as(1, TRP_STEAL_OFF, true);
    jobs[0].runs = 0;
    alarms[0].act = submit_first;
    (void)set_at(&alarms[1], TOO_LATE);
    run_turns();
    cr_assert_eq(total, 0);
    cr_assert_not(is_readable_within(0));
    (void)set_after(&alarms[0], 0);
    cr_assert(is_readable_within(0), "the host must look again");
    run_turns();
    cr_assert_eq(alarms[0].fired, 1);
    cr_assert_eq(jobs[0].runs, 1);
    cr_assert_not(is_readable_within(0));
    cr_assert_eq(trp_alarm_next(&sched), alarms[1].due_ns);
    close_sched();
}

static void *
set_from_outside(void *user)
{
    (void)user;
    for (int i = 1; i < 100; i++) {
        (void)set_after(&alarms[i], (uint64_t)(i % 7) * MS / 4);
    }
    return NULL;
}

Test(sched_alarm, a_host_that_polls_without_time_out_misses_none)
{
    pthread_t thread;

    open_as(1, TRP_STEAL_OFF, true);
    (void)set_at(&alarms[0], TOO_LATE);
    cr_assert_eq(pthread_create(&thread, NULL, set_from_outside, NULL), 0);
    while (atomic_load(&total) < 99) {
        run_turns();
        cr_assert(atomic_load(&total) == 99 || is_readable_within(60000));
    }
    cr_assert_eq(pthread_join(thread, NULL), 0);
    run_turns();
    cr_assert_not(is_readable_within(0));
    cr_assert_eq(alarms[0].fired, 0);
    close_sched();
}

Test(sched_alarm, a_host_sleeps_until_the_next_one)
{
    uint32_t polls = 0;

    open_as(1, TRP_STEAL_OFF, true);
    for (int i = 0; i < 5; i++) {
        (void)set_after(&alarms[i], (uint64_t)(i + 1) * 5 * MS);
    }
    for (run_turns(); atomic_load(&total) < 5; run_turns()) {
        cr_assert(is_readable_within(60000));
        polls++;
    }
    cr_assert_leq(polls, 5);
    cr_assert_not(is_readable_within(0));
    close_sched();
}

Test(sched_alarm, what_was_cancelled_wakes_no_host)
{
    open_as(1, TRP_STEAL_OFF, true);
    (void)set_after(&alarms[0], MS);
    run_turns();
    cr_assert(trp_alarm_cancel(&sched, &alarms[0].alarm));
    run_turns();
    cr_assert_eq(sched.alert.armed_ns, TRP_ALARM_NEVER);
    close_sched();
}

/* --- systems -------------------------------------------------------------- */

static troupe_system *system_under_test;

static void
note_time(struct trp_worker *worker, struct trp_alarm *fired)
{
    struct alarm *alarm = (struct alarm *)(void *)fired;

    (void)worker;
    alarm->fired_ns = troupe_now_ns(system_under_test);
    order[atomic_fetch_add(&total, 1)] = alarm;
}

static troupe_system *
open_simulation(void)
{
    troupe_system_options options = TROUPE_INIT(troupe_system_options);

    options.flags = TROUPE_SYSTEM_IGNORE_ENV | TROUPE_SYSTEM_DRIVEN;
    options.seed = 5;
    cr_assert_eq(troupe_system_create(&options, &system_under_test), TROUPE_OK);
    total = 0;
    return system_under_test;
}

Test(sched_alarm, in_a_simulation_time_stops_at_each_of_them)
{
    troupe_system *system = open_simulation();
    struct trp_sched *its = &system->core.sched;
    troupe_run result;

    for (uint64_t i = 0; i < 20; i++) {
        uint64_t due_ns = 1000 + (i * 7 % 20) * 999983;

        alarms[i].alarm.fire = note_time;
        alarms[i].due_ns = due_ns;
        cr_assert_not(trp_alarm_set(its, &alarms[i].alarm, due_ns));
    }
    cr_assert_eq(troupe_system_run(system, 0, &result), TROUPE_OK);
    cr_assert_eq(result.next_timer_ns, 1000);
    cr_assert_eq(troupe_system_advance(system, 999), TROUPE_OK);
    cr_assert_eq(total, 0);
    cr_assert_eq(troupe_system_run(system, 0, &result), TROUPE_OK);
    cr_assert_eq(result.next_timer_ns, 1);
    cr_assert_eq(troupe_system_advance(system, 1), TROUPE_OK);
    cr_assert_eq(total, 1);
    cr_assert_eq(troupe_system_run(system, 0, &result), TROUPE_OK);
    cr_assert_eq(result.next_timer_ns, 999983);
    cr_assert_eq(troupe_system_advance(system, TROUPE_S(1)), TROUPE_OK);
    cr_assert_eq(total, 20);
    for (uint64_t i = 0; i < 20; i++) {
        cr_assert_eq(order[i]->due_ns, 1000 + i * 999983);
        cr_assert_eq(order[i]->fired_ns, order[i]->due_ns);
    }
    cr_assert_eq(troupe_now_ns(system), 1000 + TROUPE_S(1));
    cr_assert_eq(troupe_system_run(system, 0, &result), TROUPE_OK);
    cr_assert_eq(result.next_timer_ns, TROUPE_FOREVER);
    cr_assert_eq(troupe_system_destroy(system), TROUPE_OK);
}

Test(sched_alarm, the_end_of_virtual_time_fires_all_but_never)
{
    troupe_system *system = open_simulation();
    struct trp_sched *its = &system->core.sched;

    alarms[0].alarm.fire = alarms[1].alarm.fire = note_time;
    (void)trp_alarm_set(its, &alarms[0].alarm, UINT64_MAX - 1);
    (void)trp_alarm_set(its, &alarms[1].alarm, TRP_ALARM_NEVER);
    cr_assert_eq(troupe_system_advance(system, TROUPE_FOREVER), TROUPE_OK);
    cr_assert_eq(total, 1);
    cr_assert_eq(alarms[0].fired_ns, UINT64_MAX - 1);
    cr_assert(trp_alarm_cancel(its, &alarms[1].alarm));
    cr_assert_eq(troupe_system_destroy(system), TROUPE_OK);
}

Test(sched_alarm, a_system_is_idle_and_stops_though_some_are_pending)
{
    troupe_system_options options = TROUPE_INIT(troupe_system_options);
    troupe_system *system;

    options.flags = TROUPE_SYSTEM_IGNORE_ENV;
    options.workers = 2;
    cr_assert_eq(troupe_system_create(&options, &system), TROUPE_OK);
    alarms[0].alarm.fire = note_time;
    (void)trp_alarm_set(&system->core.sched, &alarms[0].alarm, TOO_LATE);
    cr_assert_eq(troupe_system_await_idle(system, TEST_DEADLINE_NS), TROUPE_OK);
    cr_assert_eq(troupe_system_destroy(system), TROUPE_OK);
}
