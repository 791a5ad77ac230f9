/* SPDX-License-Identifier: MIT */
#include "sched/submit.h"
#include "sched/worker.h"

#include "support/alloc.h"
#include "support/require.h"

#include <criterion/criterion.h>

#include <stdlib.h>

/*
 * In what order one worker takes what it has: picked by hand, on this thread,
 * from a scheduler that has no threads.
 */

#define JOBS 300

struct job {
    struct trp_task task; /* first */
    uint32_t number;
    bool again; /* submits itself when it has run */
};

static struct test_alloc alloc;
static struct trp_heap heap;
static struct trp_sched sched;
static struct trp_worker *worker;
static struct job jobs[JOBS];

static void
run(struct trp_worker *here, struct trp_task *task)
{
    struct job *job = (struct job *)(void *)task;

    if (job->again) {
        trp_submit(here, &job->task);
    }
}

static void
setup(void)
{
    const struct trp_sched_options options = {
        .run = run, .name = "test", .workers = 1, .driven = true};

    trp_heap_init(&heap, test_alloc, test_free, &alloc);
    cr_assert_eq(trp_sched_init(&sched, &heap, &options), TROUPE_OK);
    worker = &sched.workers[0];
    for (uint32_t i = 0; i < JOBS; i++) {
        jobs[i].number = i;
    }
}

static void
teardown(void)
{
    trp_sched_fini(&sched);
    test_require(test_alloc_is_empty(&alloc));
}

TestSuite(sched_worker, .init = setup, .fini = teardown);

static uint32_t
pick(void)
{
    struct trp_task *task = trp_worker_pick(worker);

    return task != NULL ? ((struct job *)(void *)task)->number : UINT32_MAX;
}

Test(sched_worker, nothing_to_do_is_null)
{
    for (int i = 0; i < 200; i++) {
        cr_assert_null(trp_worker_pick(worker));
    }
}

Test(sched_worker, the_newest_submitted_runs_next)
{
    trp_submit(worker, &jobs[0].task);
    trp_submit(worker, &jobs[1].task);
    trp_submit(worker, &jobs[2].task);
    cr_assert_eq(pick(), 2);
    cr_assert_eq(pick(), 1);
    cr_assert_eq(pick(), 0);
    cr_assert_eq(pick(), UINT32_MAX);
}

Test(sched_worker, what_used_up_its_throughput_comes_after_the_others)
{
    trp_submit_last(worker, &jobs[0].task);
    trp_submit(worker, &jobs[1].task);
    cr_assert_eq(pick(), 1);
    cr_assert_eq(pick(), 0);
}

Test(sched_worker, those_that_used_up_theirs_take_turns)
{
    for (uint32_t i = 0; i < 10; i++) {
        trp_submit_last(worker, &jobs[i].task);
    }
    for (uint32_t i = 0; i < 10; i++) {
        cr_assert_eq(pick(), i);
    }
}

Test(sched_worker, nothing_is_lost_or_run_twice)
{
    bool seen[JOBS] = {false};

    for (uint32_t i = 0; i < JOBS; i++) {
        switch (i % 3) {
        case 0:
            trp_submit(worker, &jobs[i].task);
            break;
        case 1:
            trp_submit_last(worker, &jobs[i].task);
            break;
        default:
            trp_submit_foreign(&sched, &jobs[i].task);
        }
    }
    for (uint32_t i = 0; i < JOBS; i++) {
        uint32_t number = pick();

        cr_assert_lt(number, JOBS);
        cr_assert_not(seen[number]);
        seen[number] = true;
    }
    cr_assert_eq(pick(), UINT32_MAX);
}

/* Turns until `number` runs while job 0 hands itself the slot for ever. */
static uint32_t
turns_until(uint32_t number)
{
    for (uint32_t turn = 1; turn < 100000; turn++) {
        struct trp_task *task = trp_worker_pick(worker);

        if (task == &jobs[number].task) {
            return turn;
        }
        trp_worker_run(worker, task);
    }
    return UINT32_MAX;
}

Test(sched_worker, a_task_that_keeps_the_slot_does_not_starve_the_deque)
{
    jobs[0].again = true;
    trp_submit(worker, &jobs[1].task);
    trp_submit(worker, &jobs[0].task);
    cr_assert_leq(turns_until(1), 4);
}

Test(sched_worker, a_task_that_keeps_the_slot_does_not_starve_the_yielded)
{
    jobs[0].again = true;
    trp_submit_last(worker, &jobs[1].task);
    trp_submit(worker, &jobs[0].task);
    cr_assert_leq(turns_until(1), 8);
}

Test(sched_worker, a_foreign_post_is_seen_within_64_turns)
{
    jobs[0].again = true;
    trp_submit(worker, &jobs[0].task);
    for (int round = 0; round < 100; round++) {
        trp_submit_foreign(&sched, &jobs[1].task);
        /* Seen, not run: it may wait behind one more task then. */
        cr_assert_leq(turns_until(1), 64 + 8);
        for (int i = 0; i < round; i++) {
            trp_worker_run(worker, trp_worker_pick(worker));
        }
    }
}

/*
 * Two tasks that wake each other for ever keep the newest end of the deque
 * busy; what lies at the oldest end must run all the same.
 */
Test(sched_worker, a_runnable_task_starts_within_16_turns_per_runnable_task)
{
    uint32_t runnable = 60;

    jobs[0].again = jobs[1].again = true;
    for (uint32_t i = 2; i < runnable; i++) {
        trp_submit(worker, &jobs[i].task);
    }
    trp_submit(worker, &jobs[0].task);
    trp_submit(worker, &jobs[1].task);
    for (uint32_t turn = 0, left = runnable - 2; left > 0; turn++) {
        struct trp_task *task = trp_worker_pick(worker);

        cr_assert_leq(turn, 16 * runnable);
        cr_assert_not_null(task);
        left -= task != &jobs[0].task && task != &jobs[1].task;
        trp_worker_run(worker, task);
    }
}

Test(sched_worker, without_memory_for_the_deque_a_task_still_runs)
{
    uint32_t runs = 0;

    alloc.fail_above = 1;
    for (uint32_t i = 0; i < JOBS; i++) {
        trp_submit(worker, &jobs[i].task);
    }
    cr_assert_eq(trp_sched_runnable(&sched), JOBS);
    while (pick() != UINT32_MAX) {
        runs++;
    }
    cr_assert_eq(runs, JOBS);
}

Test(sched_worker, turns_are_counted_and_the_current_task_is_known)
{
    cr_assert_eq(trp_load_relaxed(&worker->turns), 0);
    for (int i = 0; i < 10; i++) {
        trp_submit(worker, &jobs[i].task);
        trp_worker_run(worker, trp_worker_pick(worker));
    }
    cr_assert_eq(trp_load_relaxed(&worker->turns), 10);
    cr_assert_null(trp_load_relaxed(&worker->current));
}

Test(sched_worker, what_was_injected_is_counted)
{
    for (int i = 0; i < 10; i++) {
        trp_submit_foreign(&sched, &jobs[i].task);
    }
    while (pick() != UINT32_MAX) {
    }
    cr_assert_eq(trp_load_relaxed(&worker->injected), 10);
}
