/* SPDX-License-Identifier: MIT */
#include "sched/idle.h"
#include "sched/submit.h"
#include "sched/worker.h"

#include "base/clock.h"
#include "support/alloc.h"
#include "support/await.h"
#include "support/census.h"
#include "support/seed.h"

#include <criterion/criterion.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Workers with threads: start, sleep, wake, steal, stop. */

#define JOBS 20000
#define FAR (trp_clock_ns() + TEST_DEADLINE_NS)

struct job {
    struct trp_task task; /* first */
    void (*act)(struct trp_worker *worker, struct job *job);
    _Atomic uint64_t runs;
};

static struct test_alloc alloc;
static struct trp_heap heap;
static struct trp_sched sched;
static struct job jobs[JOBS];
static _Atomic uint64_t total;
static _Atomic uint64_t rests;

static void
run(struct trp_worker *worker, struct trp_task *task)
{
    struct job *job = (struct job *)(void *)task;

    atomic_fetch_add(&job->runs, 1);
    if (job->act != NULL) {
        job->act(worker, job);
    }
    atomic_fetch_add(&total, 1); /* last: the job may be submitted again */
}

static void
rest(struct trp_worker *worker)
{
    (void)worker;
    atomic_fetch_add(&rests, 1);
}

static void
open_sched(uint32_t workers, uint64_t spin_ns)
{
    const struct trp_sched_options options = {.run = run,
        .rest = rest,
        .name = "test",
        .workers = workers,
        .spin_ns = spin_ns,
        .stack_bytes = 256 * 1024,
        .steal = true};

    memset(&sched, 0, sizeof sched);
    trp_heap_init(&heap, test_alloc, test_free, &alloc);
    cr_assert_eq(trp_sched_init(&sched, &heap, &options), TROUPE_OK);
    cr_assert_eq(trp_sched_start(&sched, &options), TROUPE_OK);
}

static void
close_sched(void)
{
    trp_sched_stop(&sched);
    trp_sched_stop(&sched); /* again: nothing */
    trp_sched_fini(&sched);
    cr_assert(test_alloc_is_empty(&alloc));
}

static uint32_t
parked(void)
{
    return trp_idle_parked(trp_load_acquire(&sched.idle.state));
}

Test(sched_idle, the_counts_are_parts_of_one_word)
{
    uint64_t state = 3 * TRP_IDLE_WAKEABLE + 5 * TRP_IDLE_SEARCHING +
                     4 * TRP_IDLE_WATCHER + 2 * TRP_IDLE_MUTED;

    cr_assert_eq(trp_idle_wakeable(state), 3);
    cr_assert_eq(trp_idle_parked(state), 5);
    cr_assert_eq(trp_idle_searching(state), 5);
    cr_assert_eq(trp_idle_watcher(state), 4);
    cr_assert_eq(trp_idle_parked(UINT16_MAX * TRP_IDLE_WAKEABLE), UINT16_MAX);
    cr_assert_eq(trp_idle_parked(UINT16_MAX * TRP_IDLE_MUTED), UINT16_MAX);
}

Test(sched_idle, starting_and_stopping_leaves_nothing_behind)
{
    struct test_census before = test_census();

    for (uint32_t workers = 1; workers <= 9; workers += 4) {
        open_sched(workers, 0);
        cr_assert_eq(test_census().threads, before.threads + workers);
        close_sched();
        cr_assert(test_census_is(before));
    }
}

Test(sched_idle, stopping_at_once_does_not_hang)
{
    for (int i = 0; i < 200; i++) {
        open_sched(4, 20000);
        close_sched();
    }
}

Test(sched_idle, everything_submitted_runs_once)
{
    for (uint32_t workers = 1; workers <= 8; workers *= 2) {
        total = 0;
        open_sched(workers, 20000);
        for (int i = 0; i < JOBS; i++) {
            jobs[i].runs = 0;
            trp_submit_foreign(&sched, &jobs[i].task);
        }
        cr_assert(test_await_at_least(&total, JOBS));
        cr_assert(trp_idle_await_quiet(&sched, FAR));
        for (int i = 0; i < JOBS; i++) {
            cr_assert_eq(jobs[i].runs, 1);
        }
        close_sched();
    }
}

Test(sched_idle, all_workers_park_when_there_is_nothing_to_do)
{
    open_sched(4, 1000);
    cr_assert(trp_idle_await_quiet(&sched, FAR));
    cr_assert_eq(parked(), 4);
    cr_assert_eq(trp_idle_searching(trp_load_acquire(&sched.idle.state)), 0);
    close_sched();
}

Test(sched_idle, a_worker_rests_before_it_sleeps)
{
    open_sched(2, 0);
    cr_assert(trp_idle_await_quiet(&sched, FAR));
    cr_assert_geq(rests, 2);
    close_sched();
}

/* The lost wake-up, tried many times: every post meets sleeping workers. */
static void
post_to_sleepers(uint32_t workers, uint64_t spin_ns, uint32_t rounds)
{
    open_sched(workers, spin_ns);
    for (uint32_t i = 0; i < rounds; i++) {
        if (i % 4 == 0) {
            cr_assert(trp_idle_await_quiet(&sched, FAR));
        }
        trp_submit_foreign(&sched, &jobs[0].task);
        cr_assert(test_await_at_least(&total, i + 1), "round %u", i);
    }
    close_sched();
}

Test(sched_idle, a_post_wakes_the_only_worker)
{
    post_to_sleepers(1, 0, 5000);
}

Test(sched_idle, a_post_wakes_one_of_many)
{
    post_to_sleepers(8, 0, 5000);
}

Test(sched_idle, a_post_reaches_a_worker_that_is_about_to_sleep)
{
    post_to_sleepers(2, 2000, 20000);
}

static _Atomic uint64_t is_inside;
static _Atomic uint64_t may_leave;

static void
stay(struct trp_worker *worker, struct job *job)
{
    (void)worker;
    (void)job;
    atomic_store(&is_inside, 1);
    (void)test_await_at_least(&may_leave, 1);
}

Test(sched_idle, await_quiet_gives_up_at_its_deadline)
{
    open_sched(2, 0);
    jobs[0].act = stay;
    trp_submit_foreign(&sched, &jobs[0].task);
    cr_assert(test_await_at_least(&is_inside, 1));
    cr_assert_not(trp_idle_await_quiet(&sched, trp_clock_ns() + 10000000));
    atomic_store(&may_leave, 1);
    cr_assert(trp_idle_await_quiet(&sched, FAR));
    close_sched();
}

/* Submits the next ones and stays inside until somebody else has run them. */
static void
submit_and_stay(struct trp_worker *worker, struct job *job)
{
    (void)job;
    for (int i = 1; i <= 100; i++) {
        trp_submit(worker, &jobs[i].task);
    }
    (void)test_await_at_least(&total, 100);
}

Test(sched_idle, what_a_busy_worker_leaves_is_stolen)
{
    uint64_t steals = 0;

    open_sched(2, 0);
    jobs[0].act = submit_and_stay;
    trp_submit_foreign(&sched, &jobs[0].task);
    cr_assert(test_await_at_least(&total, 101));
    cr_assert(trp_idle_await_quiet(&sched, FAR));
    for (uint32_t i = 0; i < sched.count; i++) {
        steals += trp_load_relaxed(&sched.workers[i].steals);
    }
    cr_assert_eq(steals, 100);
    close_sched();
}

/* Only the slot: nobody is woken for it, so somebody has to watch. */
static void
fill_the_slot_and_stay(struct trp_worker *worker, struct job *job)
{
    (void)job;
    trp_submit(worker, &jobs[1].task);
    (void)test_await_at_least(&total, 1);
}

Test(sched_idle, the_slot_of_a_stuck_worker_is_stolen)
{
    for (uint32_t workers = 2; workers <= 4; workers += 2) {
        for (int round = 0; round < 20; round++) {
            total = 0;
            open_sched(workers, round % 2 == 0 ? 0 : 20000);
            jobs[0].act = fill_the_slot_and_stay;
            cr_assert(trp_idle_await_quiet(&sched, FAR));
            trp_submit_foreign(&sched, &jobs[0].task);
            cr_assert(test_await_at_least(&total, 2));
            cr_assert(trp_idle_await_quiet(&sched, FAR));
            close_sched();
        }
    }
}

static void
submit_next(struct trp_worker *worker, struct job *job)
{
    ptrdiff_t next = job - jobs + 1;

    if (next < JOBS) {
        trp_submit(worker, &jobs[next].task);
    }
}

Test(sched_idle, a_chain_of_tasks_runs_to_its_end)
{
    for (uint32_t workers = 1; workers <= 4; workers *= 2) {
        total = 0;
        open_sched(workers, 0);
        for (int i = 0; i < JOBS; i++) {
            jobs[i].act = submit_next;
        }
        trp_submit_foreign(&sched, &jobs[0].task);
        cr_assert(test_await_at_least(&total, JOBS));
        close_sched();
    }
}

/* --- tasks that go round, from several foreign threads -------------------- */

#define POSTERS 3
#define POSTS 20000

static void *
post_own_job(void *user)
{
    struct job *job = user;

    for (uint64_t i = 1; i <= POSTS; i++) {
        trp_submit_foreign(&sched, &job->task);
        (void)test_await_at_least(&job->runs, i);
    }
    return NULL;
}

Test(sched_idle, posts_of_many_threads_all_arrive)
{
    pthread_t threads[POSTERS];

    open_sched(2, 5000);
    for (int i = 0; i < POSTERS; i++) {
        cr_assert_eq(
            pthread_create(&threads[i], NULL, post_own_job, &jobs[i]), 0);
    }
    for (int i = 0; i < POSTERS; i++) {
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
        cr_assert_eq(jobs[i].runs, POSTS);
    }
    cr_assert(trp_idle_await_quiet(&sched, FAR));
    close_sched();
}

Test(sched_idle, threads_that_cannot_be_started_are_an_error_and_leave_nothing)
{
    const struct trp_sched_options options = {.run = run,
        .name = "test",
        .workers = 3,
        .stack_bytes = (size_t)1 << 60,
        .steal = true};
    struct test_census before = test_census();

    trp_heap_init(&heap, test_alloc, test_free, &alloc);
    cr_assert_eq(trp_sched_init(&sched, &heap, &options), TROUPE_OK);
    cr_assert_eq(trp_sched_start(&sched, &options), TROUPE_E_SYSTEM);
    cr_assert_neq(troupe_last_error().os_error, 0);
    trp_sched_fini(&sched);
    cr_assert(test_alloc_is_empty(&alloc));
    cr_assert(test_census_is(before));
}
