/* SPDX-License-Identifier: MIT */
#include "sched/submit.h"
#include "sched/worker.h"

#include "support/alloc.h"
#include "support/await.h"
#include "support/census.h"
#include "support/require.h"

#include <criterion/criterion.h>

/* The scheduler without threads: order, descriptor, seed. */

#define JOBS 400

struct job {
    struct trp_task task; /* first */
    uint32_t number;
    uint32_t runs;
};

static struct test_alloc alloc;
static struct trp_heap heap;
static struct trp_sched sched;
static struct job jobs[JOBS];
static uint32_t order[JOBS * 8];
static uint32_t turns;

static void
run(struct trp_worker *worker, struct trp_task *task)
{
    struct job *job = (struct job *)(void *)task;

    (void)worker;
    job->runs++;
    order[turns++] = job->number;
}

static void
open_sched(uint64_t seed)
{
    const struct trp_sched_options options = {.run = run,
        .name = "test",
        .workers = 7, /* means nothing: there are no threads */
        .driven = true,
        .seed = seed,
        .steal = true};

    trp_heap_init(&heap, test_alloc, test_free, &alloc);
    cr_assert_eq(trp_sched_init(&sched, &heap, &options), TROUPE_OK);
    cr_assert_eq(trp_sched_start(&sched, &options), TROUPE_OK);
    for (uint32_t i = 0; i < JOBS; i++) {
        jobs[i].number = i;
        jobs[i].runs = 0;
    }
    turns = 0;
}

static void
close_sched(void)
{
    trp_sched_stop(&sched);
    trp_sched_fini(&sched);
}

static void
run_all(void)
{
    for (struct trp_task *task = trp_sched_next_driven(&sched); task != NULL;
         task = trp_sched_next_driven(&sched)) {
        trp_worker_run(&sched.workers[0], task);
    }
}

static bool
is_readable(void)
{
    return test_is_readable(trp_alert_fd(&sched.alert));
}

static void
teardown(void)
{
    test_require(test_alloc_is_empty(&alloc));
}

TestSuite(sched_driven, .fini = teardown);

Test(sched_driven, it_has_one_worker_and_no_thread)
{
    struct test_census before = test_census();

    open_sched(0);
    cr_assert_eq(sched.count, 1);
    cr_assert_eq(test_census().threads, before.threads);
    close_sched();
    cr_assert(test_census_is(before));
}

Test(sched_driven, nothing_submitted_is_nothing_to_run)
{
    open_sched(0);
    cr_assert_null(trp_sched_next_driven(&sched));
    cr_assert_eq(trp_sched_runnable(&sched), 0);
    close_sched();
}

Test(sched_driven, what_foreign_threads_submit_runs_in_their_order)
{
    open_sched(0);
    for (uint32_t i = 0; i < JOBS; i++) {
        trp_submit_foreign(&sched, &jobs[i].task);
    }
    cr_assert_eq(trp_sched_runnable(&sched), JOBS);
    run_all();
    cr_assert_eq(turns, JOBS);
    /* The 16th dispatch and so on take the oldest of another queue. */
    for (uint32_t i = 0; i < JOBS; i++) {
        cr_assert_eq(order[i], i);
    }
    cr_assert_eq(trp_sched_runnable(&sched), 0);
    close_sched();
}

Test(sched_driven, every_way_in_counts_as_runnable)
{
    struct trp_worker *worker;

    open_sched(0);
    worker = &sched.workers[0];
    trp_submit(worker, &jobs[0].task);
    trp_submit(worker, &jobs[1].task);
    trp_submit_last(worker, &jobs[2].task);
    trp_submit_foreign(&sched, &jobs[3].task);
    cr_assert_eq(trp_sched_runnable(&sched), 4);
    run_all();
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(jobs[i].runs, 1);
    }
    close_sched();
}

Test(sched_driven, the_descriptor_is_readable_while_something_can_run)
{
    open_sched(0);
    trp_sched_settle(&sched);
    cr_assert_not(is_readable());
    trp_submit_foreign(&sched, &jobs[0].task);
    cr_assert(is_readable());
    trp_submit_foreign(&sched, &jobs[1].task);
    trp_worker_run(&sched.workers[0], trp_sched_next_driven(&sched));
    trp_sched_settle(&sched);
    cr_assert(is_readable());
    run_all();
    trp_sched_settle(&sched);
    cr_assert_not(is_readable());
    trp_submit_foreign(&sched, &jobs[0].task);
    cr_assert(is_readable());
    run_all();
    trp_sched_settle(&sched);
    cr_assert_not(is_readable());
    close_sched();
}

Test(sched_driven, what_a_turn_submits_makes_the_descriptor_readable)
{
    open_sched(0);
    trp_submit(&sched.workers[0], &jobs[0].task);
    trp_sched_settle(&sched);
    cr_assert(is_readable());
    run_all();
    trp_sched_settle(&sched);
    cr_assert_not(is_readable());
    close_sched();
}

Test(sched_driven, with_a_seed_there_is_no_descriptor)
{
    struct test_census before = test_census();

    open_sched(1);
    cr_assert_eq(trp_alert_fd(&sched.alert), -1);
    trp_sched_settle(&sched);
    cr_assert_eq(test_census().descriptors, before.descriptors);
    close_sched();
}

static uint32_t first_order[JOBS];

static void
run_with_seed(uint64_t seed)
{
    open_sched(seed);
    for (uint32_t i = 0; i < JOBS; i++) {
        trp_submit_foreign(&sched, &jobs[i].task);
    }
    run_all();
    cr_assert_eq(turns, JOBS);
    for (uint32_t i = 0; i < JOBS; i++) {
        cr_assert_eq(jobs[i].runs, 1);
    }
    close_sched();
}

Test(sched_driven, the_same_seed_gives_the_same_order)
{
    for (uint64_t seed = 1; seed < 20; seed++) {
        run_with_seed(seed);
        memcpy(first_order, order, sizeof first_order);
        run_with_seed(seed);
        cr_assert_eq(memcmp(first_order, order, sizeof first_order), 0);
    }
}

Test(sched_driven, another_seed_gives_another_order)
{
    run_with_seed(1);
    memcpy(first_order, order, sizeof first_order);
    for (uint64_t seed = 2; seed < 20; seed++) {
        run_with_seed(seed);
        cr_assert_neq(memcmp(first_order, order, sizeof first_order), 0);
    }
}

Test(sched_driven, a_seed_lets_any_task_go_first)
{
    bool was_first[8] = {false};

    for (uint64_t seed = 1; seed < 400; seed++) {
        open_sched(seed);
        for (uint32_t i = 0; i < 8; i++) {
            trp_submit_foreign(&sched, &jobs[i].task);
        }
        run_all();
        was_first[order[0]] = true;
        close_sched();
    }
    for (int i = 0; i < 8; i++) {
        cr_assert(was_first[i], "task %d never came first", i);
    }
}

Test(sched_driven, creation_without_memory_fails_and_leaves_nothing)
{
    const struct trp_sched_options options = {
        .run = run, .name = "test", .workers = 1, .driven = true};
    struct test_census before = test_census();
    troupe_status status = TROUPE_E_NOMEM;
    uint64_t nth;

    for (nth = 1; status != TROUPE_OK; nth++) {
        memset(&sched, 0, sizeof sched);
        trp_heap_init(&heap, test_alloc, test_free, &alloc);
        trp_store_relaxed(&heap.fail_at, nth);
        status = trp_sched_init(&sched, &heap, &options);
        cr_assert(status == TROUPE_OK || status == TROUPE_E_NOMEM);
        trp_sched_fini(&sched);
        cr_assert(test_alloc_is_empty(&alloc));
        cr_assert(test_census_is(before));
    }
    cr_assert_gt(nth, 3);
}
