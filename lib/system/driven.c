/* SPDX-License-Identifier: MIT */
#include <troupe/driven.h>

#include "base/clock.h"
#include "sched/submit.h"
#include "system/system.h"

/* A system without threads: the caller's thread is its one worker. */

static troupe_status
check_driven(const troupe_system *system, const char *call)
{
    troupe_status status = trp_system_check_outside(system, call);

    if (status == TROUPE_OK && !system->core.sched.driven) {
        return trp_refuse(TROUPE_E_STATE, call, "system",
            "must have been created with TROUPE_SYSTEM_DRIVEN", "%s",
            system->name);
    }
    return status;
}

/* At most `most` cells. */
static uint32_t
run_cells(troupe_system *system, uint64_t most)
{
    struct trp_sched *sched = &system->core.sched;
    struct trp_worker *worker = &sched->workers[0];
    void *before = trp_thread.worker;
    struct trp_rng *rng_before = trp_thread.rng;
    uint32_t done = 0;

    trp_thread.worker = worker;
    trp_thread.rng = &worker->rng;
    (void)trp_alarm_fire_due(worker);
    while (done < most) {
        struct trp_task *task = trp_sched_next_driven(sched);

        if (task == NULL) {
            sched->rest(worker);
            break;
        }
        trp_worker_run(worker, task);
        done++;
    }
    trp_sched_settle(sched);
    trp_thread.worker = before;
    trp_thread.rng = rng_before;
    return done;
}

uint32_t
trp_system_turn(troupe_system *system, uint32_t turns)
{
    uint64_t most = turns != 0 ? turns : UINT64_MAX;
    uint32_t done = 0;

    do {
        while (done < most && trp_shutdown_step(system)) {
            done++;
        }
        done += run_cells(system, most - done);
    } while (done < most && trp_shutdown_is_due(system));
    if (trp_shutdown_is_due(system)) {
        trp_submit_raise(&system->core.sched);
    }
    return done;
}

/* From now on, as the system counts time. */
static uint64_t
until_next_alarm(troupe_system *system)
{
    struct trp_sched *sched = &system->core.sched;
    uint64_t next_ns = trp_alarm_next(sched);
    uint64_t now_ns = trp_alarm_now(sched);

    if (next_ns == TRP_ALARM_NEVER) {
        return TROUPE_FOREVER;
    }
    return next_ns > now_ns ? next_ns - now_ns : 0;
}

troupe_status
troupe_system_run(troupe_system *system, uint32_t turns, troupe_run *run)
{
    troupe_status status = check_driven(system, "troupe_system_run");
    troupe_run result = {0};

    if (status != TROUPE_OK) {
        return status;
    }
    result.turns = trp_system_turn(system, turns);
    result.runnable = trp_sched_runnable(&system->core.sched) +
                      (trp_shutdown_is_due(system) ? 1 : 0);
    result.next_timer_ns = until_next_alarm(system);
    if (run != NULL) {
        *run = result;
    }
    return trp_load_acquire(&system->ended) != 0 ? TROUPE_E_CLOSED
                                                 : TROUPE_OK; /* pairs:
                                                                 system.ended */
}

int
troupe_system_fd(const troupe_system *system)
{
    return system != NULL && trp_core_is_alive(&system->core)
               ? trp_alert_fd(&system->core.sched.alert)
               : -1;
}

void
trp_system_move_clock(troupe_system *system, uint64_t to_ns)
{
    /* relaxed, both: one driver writes; readers want some recent value. */
    if (to_ns > trp_load_relaxed(&system->virtual_ns)) {
        trp_store_relaxed(&system->virtual_ns, to_ns);
    }
}

troupe_status
troupe_system_advance(troupe_system *system, uint64_t by_ns)
{
    static const char call[] = "troupe_system_advance";
    troupe_status status = check_driven(system, call);
    uint64_t end_ns, next_ns;

    if (status != TROUPE_OK) {
        return status;
    }
    if (!system->is_simulation) {
        return trp_refuse(TROUPE_E_STATE, call, "seed",
            "must be set: only then is time virtual", "%d", 0);
    }
    trp_system_turn(system, 0);
    /* relaxed: one driver writes. */
    end_ns = trp_clock_after(trp_load_relaxed(&system->virtual_ns), by_ns);
    while ((next_ns = trp_alarm_next(&system->core.sched)) <= end_ns &&
           next_ns != TRP_ALARM_NEVER) {
        trp_system_move_clock(system, next_ns);
        trp_system_turn(system, 0);
    }
    trp_system_move_clock(system, end_ns);
    return TROUPE_OK;
}

uint64_t
troupe_system_seed(const troupe_system *system)
{
    return system != NULL ? system->tunables.value[TRP_TROUPE_SEED] : 0;
}

uint64_t
troupe_now_ns(const troupe_system *system)
{
    if (system == NULL) {
        return 0;
    }
    if (system->is_simulation) {
        /* relaxed: see troupe_system_advance(). */
        return trp_load_relaxed(&system->virtual_ns);
    }
    return trp_clock_ns() - system->start_ns;
}
