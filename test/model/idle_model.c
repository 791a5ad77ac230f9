/* SPDX-License-Identifier: MIT */

/*
 * lib/sched: workers that search, sleep, watch, steal and hand back, and
 * foreign threads that submit. The threads are those of trp_sched_start().
 *
 * Oracle: every submission is one run. Whenever all workers sleep nothing waits
 * (a lost wake-up; deadlines do not count as a cure), and once no deadline is
 * left all of them are counted as parked, none as searching or watching.
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

#define JOBS 8

struct job {
    struct trp_task task; /* first */
    void (*act)(struct trp_worker *worker, struct job *job);
    uint32_t left; /* submissions of itself */
    uint32_t submitted;
    uint32_t runs;
};

static struct trp_sched sched;
static struct job jobs[JOBS];

static void
run_job(struct trp_worker *worker, struct trp_task *task)
{
    struct job *job = (struct job *)(void *)task;

    job->runs++;
    model_note("runs job %u", (uint32_t)(job - jobs));
    MODEL_CHECK(job->runs <= job->submitted, "job %u runs twice",
        (uint32_t)(job - jobs));
    if (job->act != NULL) {
        job->act(worker, job);
    }
}

/* To be called where the submission happens. */
static struct trp_task *
submitting(uint32_t number)
{
    jobs[number].submitted++;
    model_note("submits job %u", number);
    return &jobs[number].task;
}

static struct trp_sched_options
options_of(uint32_t workers, enum trp_steal steal)
{
    return (struct trp_sched_options){
        .run = run_job,
        .name = "model",
        .workers = workers,
        .steal = steal,
        .seed = 7,
    };
}

static void
begin(uint32_t workers, enum trp_steal steal)
{
    struct trp_sched_options options = options_of(workers, steal);

    model_heap_begin();
    model_os_begin();
    memset(&sched, 0, sizeof sched);
    memset(jobs, 0, sizeof jobs);
    MODEL_ASSERT(trp_sched_init(&sched, &model_heap, &options) == TROUPE_OK);
    model_name(&sched.idle.state, "state");
    model_name(&sched.idle.mask[0], "mask");
    model_name(&sched.idle.mask[1], "muted");
    model_name(&sched.idle.quiet, "quiet");
    model_name(&sched.inject.newest, "inject");
    for (uint32_t i = 0; i < workers; i++) {
        static const char *const names[3][4] = {
            {"w0.park", "w0.slot", "w0.bottom", "w0.inbox"},
            {"w1.park", "w1.slot", "w1.bottom", "w1.inbox"},
            {"w2.park", "w2.slot", "w2.bottom", "w2.inbox"},
        };

        model_name(&sched.workers[i].park, names[i][0]);
        model_name(&sched.workers[i].slot, names[i][1]);
        model_name(&sched.workers[i].deque.bottom, names[i][2]);
        model_name(&sched.workers[i].inbox.newest, names[i][3]);
    }
}

static void
start(void)
{
    struct trp_sched_options options = options_of(sched.count, sched.steal);

    MODEL_ASSERT(trp_sched_start(&sched, &options) == TROUPE_OK);
}

static void
check_runs(void)
{
    for (uint32_t i = 0; i < JOBS; i++) {
        MODEL_CHECK(jobs[i].runs == jobs[i].submitted,
            "all sleep, and job %u ran %u of %u times", i, jobs[i].runs,
            jobs[i].submitted);
    }
}

static void
check_counts(void)
{
    uint64_t state = sched.idle.state;
    uint64_t all = (UINT64_C(1) << sched.count) - 1;

    MODEL_CHECK(trp_idle_parked(state) == sched.count &&
                    trp_idle_searching(state) == 0 &&
                    trp_idle_watcher(state) == 0,
        "parked %u, searching %u, watching %u", trp_idle_parked(state),
        trp_idle_searching(state), trp_idle_watcher(state));
    MODEL_CHECK((sched.idle.mask[0][0] | sched.idle.mask[1][0]) == all &&
                    (sched.idle.mask[0][0] & sched.idle.mask[1][0]) == 0,
        "mask %llx, muted %llx", (unsigned long long)sched.idle.mask[0][0],
        (unsigned long long)sched.idle.mask[1][0]);
}

static void
finish(void)
{
    trp_sched_stop(&sched);
    trp_sched_fini(&sched);
    MODEL_CHECK(model_heap_live() == 0, "%llu bytes are left",
        (unsigned long long)model_heap_live());
}

/* After the foreign threads have ended. */
static void
check_rest(void)
{
    model_await_sleep();
    check_runs();
    model_await_rest();
    check_runs();
    check_counts();
    finish();
}

/* --- foreign threads ------------------------------------------------------ */

/* Submits jobs `first` to `first + count - 1`. */
static void
submit_some(void *user)
{
    uint32_t first = (uint32_t)((uintptr_t)user >> 8);
    uint32_t count = (uint32_t)(uintptr_t)user & 0xff;

    for (uint32_t i = first; i < first + count; i++) {
        trp_submit_foreign(&sched, submitting(i));
    }
}

static void *
some(uint32_t first, uint32_t count)
{
    return (void *)(uintptr_t)((first << 8) | count);
}

static void
run_foreign(uint32_t first, uint32_t second)
{
    int a, b;

    start();
    a = model_spawn("a", submit_some, some(0, first));
    b = model_spawn("b", submit_some, some(first, second));
    model_join(a);
    model_join(b);
    check_rest();
}

static void
foreign(void)
{
    begin(2, TRP_STEAL_EAGER);
    run_foreign(2, 1);
}

/* No stealing: nobody watches, only the injector is shared. */
static void
foreign_steal_off(void)
{
    begin(2, TRP_STEAL_OFF);
    run_foreign(2, 2);
}

/* The smallest one: two posts, one sleeper. */
static void
foreign_one_worker(void)
{
    begin(1, TRP_STEAL_OFF);
    run_foreign(1, 1);
}

static void
foreign_three_workers(void)
{
    begin(3, TRP_STEAL_EAGER);
    run_foreign(2, 2);
}

static void
run_list(struct trp_worker *worker, struct trp_node *node)
{
    while (node != NULL) {
        struct trp_node *next = trp_load_relaxed(&node->next);

        trp_worker_run(worker, TRP_CONTAINER_OF(node, struct trp_task, node));
        node = next;
    }
}

/*
 * A worker that does nothing but take from the injector and sleep: the loop of
 * worker.c without its other steps, so that more of what is left is tried.
 */
static void
take_or_park(void *user)
{
    struct trp_worker *worker = user;
    bool searching = false;

    trp_thread.worker = worker;
    while (trp_load_acquire(&sched.stopping) == 0) {
        struct trp_node *node = trp_inject_take(&sched.inject);

        if (node == NULL) {
            searching = trp_idle_park(worker, searching);
            continue;
        }
        if (searching) {
            trp_sub_acq_rel(&sched.idle.state, TRP_IDLE_SEARCHING);
            searching = false;
        }
        run_list(worker, node);
    }
}

static void
run_reduced(void (*second)(void *))
{
    int worker, a, b;

    begin(1, TRP_STEAL_OFF);
    worker = model_spawn("w0", take_or_park, &sched.workers[0]);
    a = model_spawn("a", submit_some, some(0, 1));
    b = model_spawn("b", second, some(1, 1));
    model_join(a);
    model_await_sleep();
    check_runs();
    check_counts();
    model_join(b);
    trp_store_release(&sched.stopping, 1);
    trp_idle_wake_all(&sched);
    model_join(worker);
    finish();
}

static void
park(void)
{
    run_reduced(submit_some);
}

static void
await_quiet(void *user)
{
    (void)user;
    submit_some(some(1, 1));
    MODEL_ASSERT(trp_idle_await_quiet(&sched, TRP_FUTEX_FOREVER));
    MODEL_CHECK(
        jobs[1].runs == 1, "quiet, and job 1 ran %u times", jobs[1].runs);
}

/* Whoever awaits quiet sees at least that its own jobs have run. */
static void
park_quiet(void)
{
    run_reduced(await_quiet);
}

/* They search for a while before they sleep. */
static void
foreign_spin(void)
{
    begin(2, TRP_STEAL_EAGER);
    sched.spin_ns = 100;
    run_foreign(2, 1);
}

/* --- submissions on workers ----------------------------------------------- */

static void
fork_three(struct trp_worker *worker, struct job *job)
{
    (void)job;
    trp_submit(worker, submitting(2));
    trp_submit(worker, submitting(3));
    trp_submit_last(worker, submitting(4));
}

/* A job submits three others while a foreign thread submits one. */
static void
fork_jobs(void)
{
    begin(2, TRP_STEAL_EAGER);
    jobs[0].act = fork_three;
    run_foreign(1, 1);
}

static void
again(struct trp_worker *worker, struct job *job)
{
    if (job->left > 0) {
        job->left--;
        trp_submit_last(worker, submitting((uint32_t)(job - jobs)));
    }
}

/* Two jobs that yield to each other, and may be stolen on the way. */
static void
yield(void)
{
    begin(2, TRP_STEAL_EAGER);
    jobs[0].act = jobs[1].act = again;
    jobs[0].left = 3;
    jobs[1].left = 2;
    run_foreign(1, 1);
}

/* The gate opens only when it was measured that it pays. */
static void
gated(void)
{
    begin(2, TRP_STEAL_GATED);
    jobs[0].act = jobs[1].act = again;
    jobs[0].left = 6;
    jobs[1].left = 6;
    run_foreign(1, 2);
}

static uint32_t released;

static void
hold_up(struct trp_worker *worker, struct job *job)
{
    (void)job;
    trp_submit(worker, submitting(1));
    while (trp_load_acquire(&released) == 0) {
        model_futex_wait(&released, 0, MODEL_FOREVER, MODEL_AT("long_turn"));
    }
}

static void
release(struct trp_worker *worker, struct job *job)
{
    (void)worker;
    (void)job;
    trp_store_release(&released, 1);
    model_futex_wake(&released, 1, MODEL_AT("release"));
}

/* A long behaviour waits for the job in its own slot: the watcher takes it. */
static void
stuck(void)
{
    int a;

    begin(2, model_choose(2) != 0 ? TRP_STEAL_EAGER : TRP_STEAL_GATED);
    released = 0;
    jobs[0].act = hold_up;
    jobs[1].act = release;
    start();
    a = model_spawn("a", submit_some, some(0, 1));
    model_join(a);
    model_await_rest();
    check_runs();
    check_counts();
    finish();
}

static void
hold_up_only(struct trp_worker *worker, struct job *job)
{
    (void)worker;
    (void)job;
    while (trp_load_acquire(&released) == 0) {
        model_futex_wait(&released, 0, MODEL_FOREVER, MODEL_AT("long_turn"));
    }
}

static void
release_all(struct trp_worker *worker, struct job *job)
{
    (void)worker;
    (void)job;
    trp_store_release(&released, 1);
    model_futex_wake(&released, 2, MODEL_AT("release"));
}

/*
 * Two workers get stuck, one of them perhaps as the watcher: the third has to
 * watch on for what is in the slot of the first.
 */
static void
watch_on(void)
{
    begin(3, TRP_STEAL_EAGER);
    released = 0;
    jobs[0].act = hold_up;
    jobs[1].act = release_all;
    jobs[2].act = hold_up_only;
    start();
    submit_some(some(0, 1));
    submit_some(some(2, 1));
    model_await_rest();
    check_runs();
    check_counts();
    finish();
}

static uint64_t released_ns;

static void
release_late(struct trp_worker *worker, struct job *job)
{
    released_ns = model_clock_ns();
    release(worker, job);
}

/* A muted worker watches as well as any other: no need to wait for its time. */
static void
stuck_muted(void)
{
    uint64_t begin_ns;

    begin(2, TRP_STEAL_GATED);
    begin_ns = model_clock_ns();
    released = 0;
    for (uint32_t i = 0; i < 2; i++) {
        sched.workers[i].gate.phase = TRP_GATE_REST;
        sched.workers[i].gate.until_ns = begin_ns + 1000000000;
    }
    jobs[0].act = hold_up;
    jobs[1].act = release_late;
    start();
    if (model_choose(2) != 0) {
        model_await_sleep(); /* all of them: then nobody watches at first */
    }
    submit_some(some(0, 1));
    model_await_rest();
    check_runs();
    check_counts();
    MODEL_CHECK(released_ns - begin_ns < 100000000, "it waited for %llu ms",
        (unsigned long long)(released_ns - begin_ns) / 1000000);
    finish();
}

static void
hold_up_inbox(struct trp_worker *worker, struct job *job)
{
    trp_submit_overflow(worker, submitting(1));
    hold_up_only(worker, job);
}

/* What had no place in the queues, or was handed back, is taken as well. */
static void
stuck_inbox(void)
{
    begin(2, model_choose(2) != 0 ? TRP_STEAL_EAGER : TRP_STEAL_GATED);
    released = 0;
    jobs[0].act = hold_up_inbox;
    jobs[1].act = release;
    start();
    submit_some(some(0, 1));
    model_await_rest();
    check_runs();
    check_counts();
    finish();
}

static void
hold_up_a_while(struct trp_worker *worker, struct job *job)
{
    static const uint32_t word = 0;
    uint64_t until_ns =
        model_clock_ns() + 2000000 + UINT64_C(40000) * model_choose(3);

    (void)job;
    trp_submit(worker, submitting(1));
    while (model_futex_wait(&word, 0, until_ns, MODEL_AT("long_turn"))) {
    }
}

/* A long behaviour ends just when the watcher takes what it held up. */
static void
almost_stuck(void)
{
    int a;

    begin(2, TRP_STEAL_EAGER);
    jobs[0].act = hold_up_a_while;
    start();
    a = model_spawn("a", submit_some, some(0, 1));
    model_join(a);
    model_await_rest();
    check_runs();
    check_counts();
    finish();
}

/* --- muted and handed back ------------------------------------------------ */

/* Worker 1 is muted for a while, as after a trial that did not pay. */
static void
muted(void)
{
    begin(2, TRP_STEAL_GATED);
    sched.workers[1].gate.phase = TRP_GATE_REST;
    sched.workers[1].gate.until_ns = model_clock_ns() + 100000;
    jobs[0].act = fork_three;
    run_foreign(1, 1);
}

/* Both are muted: a foreign post must wake one of them all the same. */
static void
all_muted(void)
{
    begin(2, TRP_STEAL_GATED);
    for (uint32_t i = 0; i < 2; i++) {
        sched.workers[i].gate.phase = TRP_GATE_REST;
        sched.workers[i].gate.until_ns = model_clock_ns() + 100000;
    }
    run_foreign(2, 1);
}

/* Worker 1 is at the end of a trial: after a turn it gives its work back. */
static void
hand_back(void)
{
    begin(2, TRP_STEAL_GATED);
    sched.workers[1].gate.phase = TRP_GATE_TRIAL;
    sched.workers[1].gate.solo_rate = UINT64_MAX / 200;
    sched.workers[1].tick = 6;
    jobs[0].act = fork_three;
    run_foreign(1, 1);
}

/* --- quiet and stop ------------------------------------------------------- */

static void
quiet(void)
{
    int a, b;

    begin(1 + model_choose(2), TRP_STEAL_EAGER);
    start();
    a = model_spawn("a", submit_some, some(0, 1));
    b = model_spawn("b", await_quiet, NULL);
    model_join(a);
    model_await_sleep();
    check_runs();
    model_join(b);
    model_await_rest();
    check_counts();
    finish();
}

static void
await_any_quiet(void *user)
{
    (void)user;
    (void)trp_idle_await_quiet(&sched, TRP_FUTEX_FOREVER);
}

/* Nobody parks any more: who awaits it must not wait for that. */
static void
quiet_stop(void)
{
    int a;

    begin(2, TRP_STEAL_EAGER);
    start();
    a = model_spawn("a", await_any_quiet, NULL);
    trp_sched_stop(&sched);
    model_join(a);
    trp_sched_fini(&sched);
}

/* Stopped while they start, search, go to sleep. */
static void
stop_at_once(void)
{
    begin(3, TRP_STEAL_EAGER);
    start();
    finish();
}

static void
stop_in_time(void)
{
    begin(2, TRP_STEAL_EAGER);
    start();
    submit_some(some(0, 2));
    MODEL_ASSERT(trp_idle_await_quiet(&sched, TRP_FUTEX_FOREVER));
    check_runs();
    finish();
}

int
main(int argc, char **argv)
{
    static const struct model_scenario scenarios[] = {
        {"park", park, 200},
        {"park_quiet", park_quiet, 100},
        {"foreign", foreign, 50},
        {"foreign_steal_off", foreign_steal_off, 50},
        {"foreign_one_worker", foreign_one_worker, 50},
        {"foreign_three_workers", foreign_three_workers, 25},
        {"foreign_spin", foreign_spin, 10},
        {"fork", fork_jobs, 25},
        {"yield", yield, 25},
        {"gated", gated, 10},
        {"stuck", stuck, 25},
        {"watch_on", watch_on, 25},
        {"stuck_muted", stuck_muted, 25},
        {"stuck_inbox", stuck_inbox, 25},
        {"almost_stuck", almost_stuck, 25},
        {"muted", muted, 25},
        {"all_muted", all_muted, 25},
        {"hand_back", hand_back, 25},
        {"quiet", quiet, 25},
        {"quiet_stop", quiet_stop, 25},
        {"stop_at_once", stop_at_once, 50},
        {"stop_in_time", stop_in_time, 50},
    };

    model_thread_local(&trp_thread, sizeof trp_thread);
    return model_main(
        argc, argv, "idle", scenarios, sizeof scenarios / sizeof scenarios[0]);
}
