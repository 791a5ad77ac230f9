/* SPDX-License-Identifier: MIT */

/*
 * lib/sched/alarm.c and what sched/idle.c does for it: alarms that are set,
 * moved, cancelled and fired while workers go to sleep and wake up.
 *
 * Oracle: what was handed out comes back once, by a cancel or by fire(). None
 * is early, and none is late by more than threads may be off their core: a far
 * alarm is no cure for a near one that was lost. Once no deadline is left, all
 * have fired.
 */

#include "engine.h"
#include "interleave.h"

#include "base/clock.h"
#include "base/error.h"
#include "os.h"
#include "runner.h"
#include "sched/submit.h"
#include "sched/worker.h"
#include "support.h"

#include <string.h>

#define ALARMS 4
#define JOBS 4
/* Surprises wake sleepers up to 20 ms early, which is late for the others. */
#define TOLERANCE_NS (UINT64_C(200) * 1000000)
#define NEAR_NS (UINT64_C(1) * 1000000)
#define FAR_NS (UINT64_C(5000) * 1000000)

struct alarm {
    struct trp_alarm alarm; /* first */
    void (*act)(struct trp_worker *worker, struct alarm *alarm);
    uint64_t due_ns;
    uint64_t set_ns; /* when it was: it may be due already */
    uint32_t left;   /* settings of itself */
    uint32_t out;    /* handed to the service, less what came back */
    uint32_t fired;
    uint32_t cancelled;
};

struct job {
    struct trp_task task; /* first */
    void (*act)(struct trp_worker *worker, struct job *job);
    uint32_t submitted;
    uint32_t runs;
};

static struct trp_sched sched;
static struct alarm alarms[ALARMS];
static struct job jobs[JOBS];
static uint32_t released;
static uint32_t is_over;

static void
fire(struct trp_worker *worker, struct trp_alarm *fired)
{
    struct alarm *alarm = (struct alarm *)(void *)fired;
    uint64_t now_ns = model_clock_ns();
    uint64_t from_ns =
        alarm->due_ns > alarm->set_ns ? alarm->due_ns : alarm->set_ns;

    model_note("fires alarm %u", (uint32_t)(alarm - alarms));
    MODEL_CHECK(trp_thread.worker == worker, "fires on a stranger");
    MODEL_CHECK(alarm->out >= 1, "alarm %u fires and was not handed out",
        (uint32_t)(alarm - alarms));
    MODEL_CHECK(now_ns >= alarm->due_ns, "alarm %u fires early",
        (uint32_t)(alarm - alarms));
    MODEL_CHECK(now_ns - from_ns < TOLERANCE_NS, "alarm %u is %llu ns late",
        (uint32_t)(alarm - alarms), (unsigned long long)(now_ns - from_ns));
    alarm->out--;
    alarm->fired++;
    if (alarm->act != NULL) {
        alarm->act(worker, alarm);
    }
}

/* Due after `delay_ns`. One thread per alarm. */
static void
set(uint32_t number, uint64_t delay_ns)
{
    struct alarm *alarm = &alarms[number];
    uint64_t due_ns = trp_clock_after(model_clock_ns(), delay_ns);

    model_note("sets alarm %u", number);
    alarm->set_ns = model_clock_ns();
    alarm->due_ns = due_ns;
    alarm->out++; /* before it can fire */
    if (trp_alarm_set(&sched, &alarm->alarm, due_ns)) {
        alarm->out--;
    }
}

static void
cancel(uint32_t number)
{
    struct alarm *alarm = &alarms[number];

    model_note("cancels alarm %u", number);
    if (trp_alarm_cancel(&sched, &alarm->alarm)) {
        model_note("cancelled alarm %u", number);
        MODEL_CHECK(
            alarm->out == 1, "alarm %u was cancelled and fired", number);
        alarm->out--;
        alarm->cancelled++;
    }
}

static void
run_job(struct trp_worker *worker, struct trp_task *task)
{
    struct job *job = (struct job *)(void *)task;

    job->runs++;
    model_note("runs job %u", (uint32_t)(job - jobs));
    MODEL_ASSERT(job->runs <= job->submitted);
    if (job->act != NULL) {
        job->act(worker, job);
    }
}

static struct trp_task *
submitting(uint32_t number)
{
    jobs[number].submitted++;
    return &jobs[number].task;
}

static struct trp_sched_options
options_of(uint32_t workers, enum trp_steal steal, bool driven)
{
    return (struct trp_sched_options){
        .run = run_job,
        .name = "model",
        .workers = workers,
        .steal = steal,
        .driven = driven,
        .seed = driven ? 0 : 7,
    };
}

static void
begin_as(uint32_t workers, enum trp_steal steal, bool driven)
{
    struct trp_sched_options options = options_of(workers, steal, driven);
    static const char *const parks[] = {"w0.park", "w1.park", "w2.park"};

    model_heap_begin();
    model_os_begin();
    memset(&sched, 0, sizeof sched);
    memset(jobs, 0, sizeof jobs);
    memset(alarms, 0, sizeof alarms);
    released = is_over = 0;
    for (uint32_t i = 0; i < ALARMS; i++) {
        alarms[i].alarm.fire = fire;
    }
    MODEL_ASSERT(trp_sched_init(&sched, &model_heap, &options) == TROUPE_OK);
    model_name(&sched.idle.state, "state");
    model_name(&sched.idle.mask[0], "mask");
    model_name(&sched.idle.carrier, "carrier");
    model_name(&sched.inject.newest, "inject");
    model_name(&sched.alarms.next_due_ns, "next_due");
    model_name(&sched.alarms.lock, "lock");
    for (uint32_t i = 0; i < sched.count; i++) {
        model_name(&sched.workers[i].park, parks[i]);
    }
}

static void
begin(uint32_t workers, enum trp_steal steal)
{
    begin_as(workers, steal, false);
}

static void
start(void)
{
    struct trp_sched_options options =
        options_of(sched.count, sched.steal, false);

    MODEL_ASSERT(trp_sched_start(&sched, &options) == TROUPE_OK);
}

static void
finish(void)
{
    trp_sched_stop(&sched);
    trp_sched_fini(&sched);
    MODEL_ASSERT(model_heap_live() == 0);
}

/* No deadline is left. */
static void
check_rest(void)
{
    model_await_rest();
    for (uint32_t i = 0; i < ALARMS; i++) {
        MODEL_CHECK(alarms[i].out == 0 || alarms[i].due_ns == TRP_ALARM_NEVER,
            "alarm %u is lost", i);
    }
    for (uint32_t i = 0; i < JOBS; i++) {
        MODEL_CHECK(jobs[i].runs == jobs[i].submitted,
            "job %u ran %u of %u times", i, jobs[i].runs, jobs[i].submitted);
    }
    MODEL_CHECK(trp_idle_parked(sched.idle.state) == sched.count &&
                    trp_idle_searching(sched.idle.state) == 0 &&
                    trp_idle_watcher(sched.idle.state) == 0,
        "parked %u, searching %u, watching %u",
        trp_idle_parked(sched.idle.state), trp_idle_searching(sched.idle.state),
        trp_idle_watcher(sched.idle.state));
    MODEL_ASSERT(sched.alarms.next_due_ns == TRP_ALARM_NEVER);
    finish();
}

/* --- set, while workers go to sleep --------------------------------------- */

static void
set_near(void *user)
{
    set((uint32_t)(uintptr_t)user, NEAR_NS);
}

static void
set_far(void *user)
{
    set((uint32_t)(uintptr_t)user, FAR_NS);
}

/* After a few looks at the clock. */
static void
set_soon(void *user)
{
    set((uint32_t)(uintptr_t)user, 150);
}

static void
set_now(void *user)
{
    set((uint32_t)(uintptr_t)user, 0);
}

static void
submit(void *user)
{
    trp_submit_foreign(&sched, submitting((uint32_t)(uintptr_t)user));
}

static void
run_two(void (*first)(void *), void (*second)(void *))
{
    int a, b;

    start();
    a = model_spawn("a", first, (void *)(uintptr_t)0);
    b = model_spawn("b", second, (void *)(uintptr_t)1);
    model_join(a);
    model_join(b);
    check_rest();
}

/* The smallest one. */
static void
one_worker(void)
{
    begin(1, TRP_STEAL_OFF);
    run_two(set_near, set_far);
}

static void
set_and_submit(void)
{
    begin(2, TRP_STEAL_OFF);
    run_two(set_near, submit);
}

static void
two_set(void)
{
    begin(2, TRP_STEAL_EAGER);
    run_two(set_far, model_choose(2) != 0 ? set_near : set_now);
}

static void
set_two(void *user)
{
    (void)user;
    set(0, FAR_NS);
    set(2, NEAR_NS);
}

static void
three_workers(void)
{
    begin(3, TRP_STEAL_OFF);
    run_two(set_two, submit);
}

/* --- who carries on ------------------------------------------------------- */

static void
hold_up(struct trp_worker *worker, struct job *job)
{
    (void)worker;
    (void)job;
    while (trp_load_acquire(&released) == 0) {
        model_futex_wait(&released, 0, MODEL_FOREVER, MODEL_AT("long_turn"));
    }
}

static void
release(struct trp_worker *worker, struct alarm *alarm)
{
    (void)worker;
    (void)alarm;
    trp_store_release(&released, 1);
    model_futex_wake(&released, MODEL_THREADS_MAX, MODEL_AT("release"));
}

/* A long turn waits for the alarm: one who sleeps must fire it. */
static void
stuck(void)
{
    begin(2, TRP_STEAL_OFF);
    jobs[1].act = hold_up;
    alarms[0].act = release;
    run_two(set_near, submit);
}

static void
wake_second(void *user)
{
    (void)user;
    trp_idle_wake(&sched, 1);
}

/* The same, and somebody is woken for no reason. */
static void
stuck_three(void)
{
    int a, b, c;

    begin(3, TRP_STEAL_OFF);
    jobs[1].act = hold_up;
    alarms[0].act = release;
    start();
    a = model_spawn("a", set_near, (void *)(uintptr_t)0);
    b = model_spawn("b", submit, (void *)(uintptr_t)1);
    c = model_spawn("c", wake_second, NULL);
    model_join(a);
    model_join(b);
    model_join(c);
    check_rest();
}

static void
submit_hold_up(struct trp_worker *worker, struct alarm *alarm)
{
    (void)alarm;
    trp_submit(worker, submitting(1));
}

/* The first alarm brings a long turn, which waits for the second one. */
static void
fire_and_get_stuck(void)
{
    begin(2, TRP_STEAL_OFF);
    jobs[1].act = hold_up;
    alarms[0].act = submit_hold_up;
    alarms[1].act = release;
    start();
    set(0, NEAR_NS);
    set(1, 2 * NEAR_NS);
    check_rest();
}

static void
set_and_hold_up(struct trp_worker *worker, struct job *job)
{
    set(1, NEAR_NS);
    hold_up(worker, job);
}

/* A long turn sets the alarm itself. */
static void
stuck_setter(void)
{
    begin(2, model_choose(2) != 0 ? TRP_STEAL_OFF : TRP_STEAL_EAGER);
    jobs[1].act = set_and_hold_up;
    alarms[1].act = release;
    run_two(set_far, submit);
}

static void
go_round(struct trp_worker *worker, struct job *job)
{
    /* relaxed: the same thread, or one that does not sleep for it. */
    if (trp_load_relaxed(&released) == 0) {
        trp_submit_last(worker, submitting((uint32_t)(job - jobs)));
    }
}

/* All are busy: dispatches must see it. */
static void
busy(void)
{
    begin(1, TRP_STEAL_OFF);
    jobs[1].act = go_round;
    alarms[0].act = release;
    run_two(set_soon, submit);
}

static void
set_next(struct trp_worker *worker, struct alarm *alarm)
{
    (void)worker;
    set((uint32_t)(alarm - alarms) + 1, 2 * NEAR_NS);
}

/* Goes round until the first alarm, and then stays until the second one. */
static void
go_round_and_hold_up(struct trp_worker *worker, struct job *job)
{
    if (alarms[0].fired == 0) {
        trp_submit_last(worker, submitting((uint32_t)(job - jobs)));
    } else {
        hold_up(worker, job);
    }
}

/* A busy worker fires and sets the next one, and then it gets stuck. */
static void
busy_then_stuck(void)
{
    begin(2, TRP_STEAL_OFF);
    jobs[1].act = go_round_and_hold_up;
    alarms[0].act = set_next;
    alarms[1].act = release;
    run_two(set_soon, submit);
    MODEL_ASSERT(alarms[1].fired == 1);
}

/* --- from inside fire() --------------------------------------------------- */

static void
again(struct trp_worker *worker, struct alarm *alarm)
{
    (void)worker;
    if (alarm->left > 0) {
        alarm->left--;
        set((uint32_t)(alarm - alarms), NEAR_NS / 4);
    }
}

static void
periodic(void)
{
    begin(2, TRP_STEAL_EAGER);
    alarms[0].act = again;
    alarms[0].left = 3;
    run_two(set_near, set_now);
}

static void
submit_job(struct trp_worker *worker, struct alarm *alarm)
{
    (void)alarm;
    trp_submit(worker, submitting(0));
}

static void
fire_submits(void)
{
    begin(2, TRP_STEAL_EAGER);
    alarms[0].act = submit_job;
    run_two(set_now, submit);
}

/* --- cancel and move ------------------------------------------------------ */

static void
set_and_cancel(void *user)
{
    uint32_t number = (uint32_t)(uintptr_t)user;

    set(number, model_choose(2) != 0 ? 0 : NEAR_NS);
    if (model_choose(2) != 0) {
        model_step("wait");
    }
    cancel(number);
}

static void
cancel_one(void)
{
    begin(1, TRP_STEAL_OFF);
    run_two(set_and_cancel, set_near);
    MODEL_ASSERT(alarms[0].fired + alarms[0].cancelled == 1);
}

static void
cancel_first(void *user)
{
    (void)user;
    cancel(0);
    cancel(0);
}

/* Set by one thread, cancelled by another, fired by a third. */
static void
cancel_race(void)
{
    int b;

    begin(1, TRP_STEAL_OFF);
    start();
    set(0, model_choose(2) != 0 ? 0 : NEAR_NS);
    set(1, NEAR_NS);
    b = model_spawn("b", cancel_first, NULL);
    model_join(b);
    check_rest();
    MODEL_ASSERT(alarms[0].fired + alarms[0].cancelled == 1);
    MODEL_ASSERT(alarms[1].fired == 1);
}

static void
cancel_and_set(void *user)
{
    (void)user;
    cancel(0);
    set(1, NEAR_NS);
}

/*
 * The carrier wakes up for nothing. What it sleeps for next, and what it says
 * of that, must be the same.
 */
static void
cancel_set(void)
{
    int b;

    begin(1, TRP_STEAL_OFF);
    start();
    set(0, NEAR_NS);
    model_await_sleep();
    b = model_spawn("b", cancel_and_set, NULL);
    model_join(b);
    check_rest();
    MODEL_ASSERT(alarms[1].fired == 1);
}

static void
move(void *user)
{
    uint32_t number = (uint32_t)(uintptr_t)user;

    set(number, FAR_NS);
    set(number, NEAR_NS);
}

/* A far one becomes a near one. */
static void
move_near(void)
{
    begin(2, TRP_STEAL_OFF);
    run_two(move, submit);
    MODEL_ASSERT(alarms[0].fired == 1);
}

/* --- end ------------------------------------------------------------------ */

static void
await_quiet(void *user)
{
    (void)user;
    MODEL_ASSERT(trp_idle_await_quiet(&sched, TRP_FUTEX_FOREVER));
}

/* Pending alarms are nothing to wait for; stopped, they stay what they are. */
static void
stop_pending(void)
{
    int a;

    begin(2, TRP_STEAL_EAGER);
    start();
    set(0, TRP_ALARM_NEVER);
    set(1, FAR_NS);
    a = model_spawn("a", await_quiet, NULL);
    model_join(a);
    trp_sched_stop(&sched);
    cancel(0);
    cancel(1);
    MODEL_ASSERT(alarms[0].cancelled == 1);
    MODEL_ASSERT(alarms[1].cancelled + alarms[1].fired == 1);
    trp_sched_fini(&sched);
    MODEL_ASSERT(model_heap_live() == 0);
}

/* --- driven --------------------------------------------------------------- */

static void
run_turns(void)
{
    struct trp_worker *worker = &sched.workers[0];
    struct trp_task *task;

    trp_thread.worker = worker;
    while ((task = trp_sched_next_driven(&sched)) != NULL) {
        trp_worker_run(worker, task);
    }
    trp_sched_settle(&sched);
    trp_thread.worker = NULL;
}

/* Has no time-out of its own: the descriptor knows of alarms. */
static void
host(void *user)
{
    (void)user;
    while (trp_load_acquire(&is_over) == 0) {
        run_turns();
        model_poll(trp_alert_fd(&sched.alert));
    }
}

/* Somebody sets alarms, somebody submits; then the descriptor is silent. */
static void
drive(void (*set_some)(void *user))
{
    int h, a, b;

    h = model_spawn("host", host, NULL);
    a = model_spawn("a", set_some, NULL);
    b = model_spawn("b", submit, (void *)(uintptr_t)1);
    model_join(a);
    model_join(b);
    model_await_rest();
    MODEL_ASSERT(jobs[1].runs == 1);
    MODEL_ASSERT(!model_is_readable(trp_alert_fd(&sched.alert)));
    trp_store_release(&is_over, 1);
    trp_notify_raise(&sched.alert.notify);
    model_join(h);
}

static void
driven(void)
{
    begin_as(1, TRP_STEAL_OFF, true);
    drive(set_two);
    MODEL_ASSERT(alarms[0].fired == 1 && alarms[2].fired == 1);
    finish();
}

/* Those that are set inside a run. */
static void
driven_again(void)
{
    begin_as(1, TRP_STEAL_OFF, true);
    alarms[0].act = again;
    alarms[0].left = 3;
    drive(set_near);
    MODEL_ASSERT(alarms[0].fired == 4);
    finish();
}

int
main(int argc, char **argv)
{
    static const struct model_scenario scenarios[] = {
        {"one_worker", one_worker, 100},
        {"set_and_submit", set_and_submit, 100},
        {"two_set", two_set, 50},
        {"three_workers", three_workers, 25},
        {"stuck", stuck, 50},
        {"stuck_three", stuck_three, 50},
        {"fire_and_get_stuck", fire_and_get_stuck, 50},
        {"stuck_setter", stuck_setter, 50},
        {"busy", busy, 5},
        {"busy_then_stuck", busy_then_stuck, 5},
        {"periodic", periodic, 25},
        {"fire_submits", fire_submits, 25},
        {"cancel_one", cancel_one, 50},
        {"cancel_race", cancel_race, 50},
        {"cancel_set", cancel_set, 100},
        {"move_near", move_near, 50},
        {"stop_pending", stop_pending, 50},
        {"driven", driven, 50},
        {"driven_again", driven_again, 50},
    };

    model_thread_local(&trp_thread, sizeof trp_thread);
    return model_main(
        argc, argv, "alarm", scenarios, sizeof scenarios / sizeof scenarios[0]);
}
