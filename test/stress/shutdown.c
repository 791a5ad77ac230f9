/* SPDX-License-Identifier: MIT */

/*
 * Threads and actors post, spawn, add tasks and request the stop, all at once;
 * tasks post, ask again and outlive their deadline. Each task that was accepted
 * runs exactly once, in the order of the phases, and before any actor is told
 * to stop.
 */
#include "stress.h"

#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 6, TASKS = 40, PHASES = 5 };

static const char *const phases[PHASES] = {TROUPE_PHASE_SERVICE_UNBIND,
    TROUPE_PHASE_SERVICE_REQUESTS_DONE, TROUPE_PHASE_SERVICE_STOP,
    TROUPE_PHASE_BEFORE_STOP, TROUPE_PHASE_STOP};

TROUPE_MSG_TYPE_EMPTY(go, 1);

struct task {
    struct race *race;
    uint32_t phase;
    bool is_slow; /* it may be late */
    uint64_t random;
    _Atomic uint32_t runs;
    bool is_accepted;
};

struct race {
    troupe_system *system;
    struct task tasks[THREADS][TASKS];
    troupe_ref actor;
    uint32_t request_from; /* a thread that requests, after so many tasks */
    uint32_t request_after;
    _Atomic uint32_t running[PHASES];
    _Atomic uint32_t requests;
    _Atomic uint32_t stopped; /* actors */
    _Atomic uint64_t total;
};

static void
request(struct race *race)
{
    char reason[32];

    (void)snprintf(reason, sizeof reason, "request %u",
        (unsigned)atomic_fetch_add(&race->requests, 1));
    troupe_shutdown_request(race->system, reason);
}

static troupe_status
run_task(troupe_system *system, const char *reason, void *user)
{
    struct task *task = user;
    struct race *race = task->race;
    struct test_rng rng = {task->random};
    troupe_status status;

    STRESS_CHECK(reason[0] == 'r' || reason[0] == 's', "%s", reason);
    STRESS_CHECK(atomic_fetch_add(&task->runs, 1) == 0, "it ran before");
    atomic_fetch_add(&race->total, 1);
    if (!task->is_slow) {
        atomic_fetch_add(&race->running[task->phase], 1);
        STRESS_CHECK(atomic_load(&race->stopped) == 0, "actors have stopped");
        for (uint32_t i = 0; i < PHASES; i++) {
            STRESS_CHECK(
                i == task->phase || atomic_load(&race->running[i]) == 0,
                "phases %u and %u at once", i, task->phase);
        }
        status = troupe_post(system, race->actor, &go, NULL);
        STRESS_CHECK(status == TROUPE_OK, "%s", troupe_status_name(status));
    } else {
        /* Not counted as one of its phase: that may have ended. */
        stress_spin_ns(test_random_below(&rng, 300000));
        status = troupe_post(system, race->actor, &go, NULL);
        STRESS_CHECK(status == TROUPE_OK || status == TROUPE_E_CLOSED ||
                         status == TROUPE_E_DEAD,
            "%s", troupe_status_name(status));
    }
    stress_jitter(&rng);
    request(race);
    STRESS_CHECK(
        troupe_system_stop(system) == TROUPE_E_CONTEXT, "it would hang");
    if (!task->is_slow) {
        atomic_fetch_sub(&race->running[task->phase], 1);
    }
    return test_random_below(&rng, 4) == 0 ? TROUPE_E_FAILED : TROUPE_OK;
}

static troupe_verdict
on_message(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct race *race = STRESS_STATE(struct race, state);

    (void)self;
    (void)msg;
    if (atomic_load(&race->requests) != 0) {
        request(race);
    }
    return TROUPE_CONTINUE;
}

static void
on_stop(troupe_self *self, void *state, const troupe_exit *why)
{
    struct race *race = STRESS_STATE(struct race, state);

    (void)self;
    (void)why;
    atomic_fetch_add(&race->stopped, 1);
}

static const troupe_actor_type actor_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "actor",
    .state_bytes = sizeof(void *),
    .start = stress_start,
    .receive = on_message,
    .stop = on_stop,
};

struct thread {
    struct race *race;
    uint32_t number;
    struct test_rng rng;
    pthread_t thread;
};

static void
add_task(struct race *race, struct thread *thread, uint32_t i)
{
    struct task *task = &race->tasks[thread->number][i];
    /* Of a phase that is always late, and of which nobody else is one. */
    const char *phase = "late";
    char name[32];
    troupe_status status;

    task->race = race;
    task->is_slow = test_random_below(&thread->rng, 8) == 0;
    task->random = test_random_below(&thread->rng, UINT32_MAX);
    task->phase = test_random_below(&thread->rng, PHASES);
    if (!task->is_slow) {
        phase = phases[task->phase];
    }
    (void)snprintf(name, sizeof name, "%u.%u", thread->number, i);
    status = troupe_shutdown_add(race->system, phase, name, run_task, task);
    STRESS_CHECK(status == TROUPE_OK || status == TROUPE_E_CLOSED, "%s",
        troupe_status_name(status));
    task->is_accepted = status == TROUPE_OK;
}

static void *
adding_thread(void *user)
{
    struct thread *thread = user;
    struct race *race = thread->race;
    char text[200];

    for (uint32_t i = 0; i < TASKS; i++) {
        if (thread->number == race->request_from && i == race->request_after) {
            request(race);
        }
        add_task(race, thread, i);
        troupe_post_tell(race->system, race->actor, &go, NULL);
        (void)troupe_shutdown_busy(race->system, text, sizeof text);
        stress_jitter(&thread->rng);
    }
    return NULL;
}

static void
count(const struct race *race, uint32_t threads)
{
    for (uint32_t n = 0; n < threads; n++) {
        for (uint32_t i = 0; i < TASKS; i++) {
            const struct task *task = &race->tasks[n][i];

            STRESS_CHECK(task->runs == (task->is_accepted ? 1 : 0),
                "task %u.%u ran %u times", n, i, (unsigned)task->runs);
        }
    }
}

static uint64_t
play(struct test_rng *round)
{
    static const char *const before[] = {TROUPE_PHASE_SERVICE_UNBIND, NULL};
    troupe_phase_options late = TROUPE_INIT(troupe_phase_options);
    troupe_system_options options = stress_options(stress_workers(round));
    struct race *race = stress_zeroed(1, sizeof *race);
    struct thread threads[THREADS] = {{0}};
    uint32_t count_of = stress_threads(round, THREADS);
    uint64_t total;

    race->system = stress_open(&options);
    late.name = "late";
    late.before = before;
    late.timeout_ns = 1;
    STRESS_CHECK(troupe_shutdown_add_phase(race->system, &late) == TROUPE_OK,
        "no phase");
    race->request_from = test_random_below(round, count_of + 1);
    race->request_after = test_random_below(round, TASKS);
    race->actor = stress_spawn(race->system, &actor_type, race);
    for (uint32_t i = 0; i < count_of; i++) {
        threads[i].race = race;
        threads[i].number = i;
        threads[i].rng.state = test_random_below(round, UINT32_MAX);
        stress_thread(&threads[i].thread, adding_thread, &threads[i]);
    }
    for (uint32_t i = 0; i < count_of; i++) {
        stress_join(threads[i].thread);
    }
    stress_close(race->system);
    count(race, count_of);
    STRESS_CHECK(atomic_load(&race->stopped) == 1, "one actor");
    total = race->total;
    free(race);
    return total;
}

int
main(int argc, char **argv)
{
    struct test_rng round;
    uint64_t total = 0;

    stress_begin(argc, argv);
    while (stress_more(&round)) {
        total += play(&round);
    }
    return stress_end(total, "tasks");
}
