/* SPDX-License-Identifier: MIT */

/*
 * Alarms of one scheduler, set, moved and cancelled by threads and by their own
 * fire() while the workers sleep, work, or are about to do the other. What was
 * handed out comes back once, and then its memory is freed at once. None is
 * early; one that is waited for fires, though others are far away: the deadline
 * only says that it hangs.
 */
#include "stress.h"

#include "base/error.h"
#include "sched/submit.h"
#include "sched/worker.h"

#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 3, EACH = 40, TURNS = 300, JOBS = 8 };

struct group;

struct alarm {
    struct trp_alarm alarm; /* first */
    struct group *group;
    _Atomic uint64_t due_ns;    /* the earliest of those that were asked for */
    _Atomic uint64_t fired;     /* times */
    _Atomic int32_t out;        /* handed to the service, less what came back */
    _Atomic uint32_t set_again; /* so often by fire() */
};

struct job {
    struct trp_task task; /* first */
    _Atomic bool waits;
    uint64_t spin_ns;
    uint32_t again;
};

struct group {
    struct trp_heap heap;
    struct trp_sched sched;
    struct job jobs[JOBS];
    _Atomic uint64_t fired;
};

struct party {
    struct group *group;
    struct test_rng rng;
    struct alarm *alarms[EACH]; /* each in a block of its own */
    pthread_t thread;
};

static void
run_job(struct trp_worker *worker, struct trp_task *task)
{
    struct job *job = (struct job *)(void *)task;

    stress_spin_ns(job->spin_ns);
    if (job->again > 0) {
        job->again--;
        trp_submit_last(worker, task);
    } else {
        atomic_store(&job->waits, false);
    }
}

/* The job is ours if it did not wait. */
static struct job *
draw_job(struct group *group, uint64_t drawn)
{
    struct job *job = &group->jobs[drawn % JOBS];

    if (atomic_exchange(&job->waits, true)) {
        return NULL;
    }
    job->spin_ns = drawn / JOBS % 16 == 0 ? 1500000 : drawn / JOBS % 20000;
    job->again = (uint32_t)(drawn / JOBS % 300);
    if (job->spin_ns > 1000) {
        job->again %= 4;
    }
    return job;
}

static void
set(struct alarm *alarm, uint64_t due_ns)
{
    uint64_t before;

    if (atomic_load(&alarm->out) == 0) {
        atomic_store(&alarm->due_ns, UINT64_MAX); /* nobody else has it */
    }
    before = atomic_load(&alarm->due_ns);
    while (due_ns < before &&
           !atomic_compare_exchange_weak(&alarm->due_ns, &before, due_ns)) {
    }
    atomic_fetch_add(&alarm->out, 1);
    if (trp_alarm_set(&alarm->group->sched, &alarm->alarm, due_ns)) {
        atomic_fetch_sub(&alarm->out, 1);
    }
}

/* Its owner may write 0 meanwhile. */
static bool
takes_again(struct alarm *alarm)
{
    uint32_t left = atomic_load(&alarm->set_again);

    while (left > 0 &&
           !atomic_compare_exchange_weak(&alarm->set_again, &left, left - 1)) {
    }
    return left > 0;
}

static void
fire(struct trp_worker *worker, struct trp_alarm *fired)
{
    struct alarm *alarm = (struct alarm *)(void *)fired;
    struct group *group = alarm->group;
    uint64_t now_ns = trp_clock_ns();
    uint64_t count = atomic_fetch_add(&group->fired, 1);

    STRESS_CHECK(trp_thread.worker == worker, "fires on a stranger");
    STRESS_CHECK(now_ns >= atomic_load(&alarm->due_ns), "early by %" PRIu64,
        atomic_load(&alarm->due_ns) - now_ns);
    STRESS_CHECK(
        atomic_load(&alarm->out) > 0, "it fires and was not handed out");
    if (count % 3 == 0) {
        struct job *job = draw_job(group, now_ns);

        if (job != NULL) {
            trp_submit(worker, &job->task);
        }
    }
    if (takes_again(alarm)) {
        set(alarm, now_ns + now_ns % 500000);
    }
    atomic_fetch_add(&alarm->fired, 1);
    atomic_fetch_sub(&alarm->out, 1); /* last: the owner may free it */
}

static void
cancel(struct alarm *alarm)
{
    if (trp_alarm_cancel(&alarm->group->sched, &alarm->alarm)) {
        int32_t before = atomic_fetch_sub(&alarm->out, 1);

        STRESS_CHECK(before > 0, "cancelled, and was not handed out");
    }
}

static bool
is_back(void *user)
{
    struct alarm *alarm = user;

    return atomic_load(&alarm->out) == 0;
}

static void
await_back(struct alarm *alarm)
{
    if (!test_await(is_back, alarm)) {
        STRESS_CHECK(false, "an alarm was lost: out %d, fired %" PRIu64,
            atomic_load(&alarm->out), atomic_load(&alarm->fired));
    }
}

static struct alarm *
new_alarm(struct group *group)
{
    struct alarm *alarm = stress_zeroed(1, sizeof *alarm);

    alarm->alarm.fire = fire;
    alarm->group = group;
    atomic_store(&alarm->due_ns, UINT64_MAX);
    return alarm;
}

/* It is gone as soon as nobody has it. */
static void
end_alarm(struct alarm *alarm)
{
    atomic_store(&alarm->set_again, 0);
    cancel(alarm);
    while (atomic_load(&alarm->out) != 0) {
        sched_yield(); /* in fire(), which may have set it once more */
        cancel(alarm);
    }
    free(alarm);
}

static void
play(struct party *party, struct alarm **place)
{
    struct group *group = party->group;
    struct test_rng *rng = &party->rng;
    struct alarm *alarm = *place;
    uint64_t now_ns = trp_clock_ns();

    switch (test_random_below(rng, 8)) {
    case 0:
        set(alarm, now_ns + TROUPE_S(1000) + test_random_below(rng, 1000000));
        break;
    case 1:
        set(alarm, now_ns + test_random_below(rng, 3000000));
        break;
    case 2:
        atomic_store(&alarm->set_again, 3);
        set(alarm, now_ns + test_random_below(rng, 300000));
        break;
    case 3:
        cancel(alarm);
        break;
    case 4: /* nearer than all others, perhaps, and waited for */
        atomic_store(&alarm->set_again, 0);
        set(alarm, now_ns + test_random_below(rng, 1000000));
        await_back(alarm);
        break;
    case 5: {
        struct job *job = draw_job(group, test_random(rng));

        if (job != NULL) {
            trp_submit_foreign(&group->sched, &job->task);
        }
        break;
    }
    case 6:
        end_alarm(alarm);
        *place = new_alarm(group);
        break;
    default:
        set(alarm, TRP_ALARM_NEVER);
        break;
    }
}

static void *
play_often(void *user)
{
    struct party *party = user;

    for (uint32_t i = 0; i < TURNS; i++) {
        play(party, &party->alarms[test_random_below(&party->rng, EACH)]);
        stress_jitter(&party->rng);
    }
    return NULL;
}

static uint64_t
run(struct test_rng *rng)
{
    static const enum trp_steal steals[] = {
        TRP_STEAL_GATED, TRP_STEAL_OFF, TRP_STEAL_EAGER};
    struct group *group = aligned_alloc(64, sizeof *group);
    struct party parties[THREADS];
    uint32_t threads = stress_threads(rng, THREADS);
    const struct trp_sched_options options = {.run = run_job,
        .name = "alarm",
        .workers = stress_workers(rng),
        .spin_ns = test_random_below(rng, 2) * UINT64_C(20000),
        .stack_bytes = 256 * 1024,
        .steal = steals[test_random_below(rng, 3)]};
    bool leave_some = test_random_below(rng, 2) == 0;
    uint64_t fired;

    STRESS_CHECK(group != NULL, "out of memory");
    memset(group, 0, sizeof *group);
    trp_heap_init(&group->heap, NULL, NULL, NULL);
    STRESS_CHECK(
        trp_sched_init(&group->sched, &group->heap, &options) == TROUPE_OK &&
            trp_sched_start(&group->sched, &options) == TROUPE_OK,
        "start");
    for (uint32_t i = 0; i < threads; i++) {
        parties[i].group = group;
        parties[i].rng.state = test_random(rng);
        for (uint32_t k = 0; k < EACH; k++) {
            parties[i].alarms[k] = new_alarm(group);
        }
        stress_thread(&parties[i].thread, play_often, &parties[i]);
    }
    for (uint32_t i = 0; i < threads; i++) {
        stress_join(parties[i].thread);
    }
    STRESS_CHECK(trp_idle_await_quiet(
                     &group->sched, trp_clock_ns() + STRESS_DEADLINE_NS),
        "no quiet");
    if (leave_some) {
        trp_sched_stop(&group->sched); /* pending ones are still ours */
    }
    for (uint32_t i = 0; i < threads; i++) {
        for (uint32_t k = 0; k < EACH; k++) {
            end_alarm(parties[i].alarms[k]);
        }
    }
    trp_sched_stop(&group->sched);
    trp_sched_fini(&group->sched);
    fired = atomic_load(&group->fired);
    free(group);
    return fired;
}

int
main(int argc, char **argv)
{
    struct test_rng rng;
    uint64_t fired = 0;

    stress_begin(argc, argv);
    while (stress_more(&rng)) {
        fired += run(&rng);
    }
    return stress_end(fired, "alarms");
}
