/* SPDX-License-Identifier: MIT */

/*
 * lib/sched/sched.c in driven mode: a host that polls the descriptor, runs
 * turns and settles, and foreign threads that submit.
 *
 * Oracle: the host never sleeps in poll while something can run, every
 * submission is one run, and at the end the descriptor is not readable.
 */

#include "engine.h"
#include "interleave.h"

#include "base/error.h"
#include "os.h"
#include "runner.h"
#include "sched/submit.h"
#include "sched/worker.h"
#include "support.h"

#include <string.h>

#define JOBS 4

struct job {
    struct trp_task task; /* first */
    uint32_t left;        /* submissions of itself */
    uint32_t submitted;
    uint32_t runs;
};

static struct trp_sched sched;
static struct job jobs[JOBS];
static uint32_t turns_at_once; /* 0 = all that there are */
static bool is_over;

static void
run_job(struct trp_worker *worker, struct trp_task *task)
{
    struct job *job = (struct job *)(void *)task;

    job->runs++;
    model_note("runs job %u", (uint32_t)(job - jobs));
    MODEL_ASSERT(job->runs <= job->submitted);
    if (job->left > 0) {
        job->left--;
        job->submitted++;
        trp_submit_last(worker, task);
    }
}

static void
begin(void)
{
    const struct trp_sched_options options = {
        .run = run_job, .name = "model", .driven = true};

    model_heap_begin();
    model_os_begin();
    memset(&sched, 0, sizeof sched);
    memset(jobs, 0, sizeof jobs);
    turns_at_once = 0;
    is_over = false;
    MODEL_ASSERT(trp_sched_init(&sched, &model_heap, &options) == TROUPE_OK);
    model_name(&sched.inject.newest, "inject");
    model_name(&sched.raised, "raised");
}

/* As trp_system_turn() does it. */
static void
run_turns(void)
{
    struct trp_worker *worker = &sched.workers[0];
    uint32_t done = 0;

    trp_thread.worker = worker;
    while (turns_at_once == 0 || done < turns_at_once) {
        struct trp_task *task = trp_sched_next_driven(&sched);

        if (task == NULL) {
            break;
        }
        trp_worker_run(worker, task);
        done++;
    }
    trp_sched_settle(&sched);
    trp_thread.worker = NULL;
}

static void
host(void *user)
{
    (void)user;
    for (;;) {
        model_poll(trp_alert_fd(&sched.alert));
        if (is_over) {
            return;
        }
        run_turns();
    }
}

static void
submit_some(void *user)
{
    uint32_t first = (uint32_t)((uintptr_t)user >> 8);
    uint32_t count = (uint32_t)(uintptr_t)user & 0xff;

    for (uint32_t i = first; i < first + count; i++) {
        jobs[i].submitted++;
        model_note("submits job %u", i);
        trp_submit_foreign(&sched, &jobs[i].task);
    }
}

static void *
some(uint32_t first, uint32_t count)
{
    return (void *)(uintptr_t)((first << 8) | count);
}

static void
run(void)
{
    int h = model_spawn("host", host, NULL);
    int a = model_spawn("a", submit_some, some(0, 2));
    int b = model_spawn("b", submit_some, some(2, 2));

    model_join(a);
    model_join(b);
    model_await_sleep();
    for (uint32_t i = 0; i < JOBS; i++) {
        MODEL_CHECK(jobs[i].runs == jobs[i].submitted,
            "the host sleeps, and job %u ran %u of %u times", i, jobs[i].runs,
            jobs[i].submitted);
    }
    MODEL_ASSERT(!model_is_readable(trp_alert_fd(&sched.alert)));
    is_over = true;
    trp_notify_raise(&sched.alert.notify);
    model_join(h);
    trp_sched_fini(&sched);
    MODEL_ASSERT(model_heap_live() == 0);
}

static void
post(void)
{
    begin();
    run();
}

/* One turn for each poll: what is left keeps the descriptor readable. */
static void
one_turn(void)
{
    begin();
    turns_at_once = 1;
    jobs[0].left = 1;
    jobs[3].left = 2;
    run();
}

int
main(int argc, char **argv)
{
    static const struct model_scenario scenarios[] = {
        {"post", post, 100},
        {"one_turn", one_turn, 100},
    };

    model_thread_local(&trp_thread, sizeof trp_thread);
    return model_main(argc, argv, "driven", scenarios,
        sizeof scenarios / sizeof scenarios[0]);
}
