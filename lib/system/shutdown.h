/* SPDX-License-Identifier: MIT */
#ifndef TRP_SYSTEM_SHUTDOWN_H
#define TRP_SYSTEM_SHUTDOWN_H

/*
 * What happens between the request of a stop and the stop of the actors.
 *
 *     request --+-- no task ----------------------------> actors are stopped
 *               |                                          (system.c)
 *               `-- PENDING --> RUNNING: one drives ------^
 *                      ^           |
 *                      '-----------'  driven: after each task
 *
 * Who drives: the thread `driver`, started by the request, which must not
 * block. If it cannot be started, the state stays PENDING and whoever calls
 * troupe_system_stop() drives. A driven system: troupe_system_run() and the
 * like, one task at a time; inside a task the state is RUNNING, so that runs
 * inside it run actors only.
 *
 * Invariants
 *   I1  Phases and tasks change under the lock and only while nobody has asked:
 *       from then on the lists are constant.
 *   I2  Who has moved PENDING to RUNNING is alone with cursor, statuses and
 *       thread handles until it is over: core.closing.
 *   I3  A task's thread touches nothing after it has left `running` but the
 *       address of the futex. It is joined by the driver at the end of its
 *       phase, or, if it is late, by who stops the system.
 *
 * Pairs
 *   shutdown.state    what the request wrote -> who drives
 *   shutdown.done     status of a task -> the driver, which reports it
 *   shutdown.running  the end of the last late task -> who stops the system
 *   system.asked      the request is over -> who stops the system
 */

#include <troupe/shutdown.h>

#include "os/futex.h"

#include <pthread.h>

#define TRP_PHASES_MAX 64 /* bits of a mask */
#define TRP_PHASES_BUILT_IN 5
#define TRP_PHASE_NAME_BYTES 64

struct trp_shutdown_task; /* shutdown.c */

struct trp_phase {
    char name[TRP_PHASE_NAME_BYTES];
    uint64_t timeout_ns;
    uint64_t after; /* bit per phase that runs before, also indirectly */
    uint32_t flags;
    bool is_eager; /* runs as soon as it may */
    struct trp_shutdown_task *first;
};

struct trp_shutdown {
    struct trp_lock lock;
    struct trp_phase built_in[TRP_PHASES_BUILT_IN];
    struct trp_phase *phases[TRP_PHASES_MAX];
    uint32_t count;
    size_t stack_bytes; /* of the threads; constant */

    char reason[128];
    TRP_ATOMIC(uint32_t) asked;   /* futex: 0, then TRP_ASKED_* */
    TRP_ATOMIC(uint32_t) state;   /* TRP_SHUTDOWN_* */
    TRP_ATOMIC(uint32_t) running; /* futex: threads inside a task */

    /* who drives */
    uint64_t begun; /* bit per phase */
    struct trp_phase *phase;
    struct trp_shutdown_task *task; /* driven: runs next */
    bool has_failed;                /* a task of this phase */
    bool has_driver;                /* under the lock, as `driver` */
    pthread_t driver;
};

#define TRP_ASKED_BEGUN 1u
#define TRP_ASKED_DONE 2u /* and whoever asked has left */

enum trp_shutdown_state {
    TRP_SHUTDOWN_NONE,
    TRP_SHUTDOWN_PENDING, /* there is a task, and nobody runs one */
    TRP_SHUTDOWN_RUNNING,
    TRP_SHUTDOWN_OVER
};

/* Of a zeroed one. */
void trp_shutdown_init(struct trp_shutdown *shutdown, size_t stack_bytes);
void trp_shutdown_fini(troupe_system *system);

/* The one way to a stop. Any thread; does not wait. NULL: no reason given. */
void trp_shutdown_ask(troupe_system *system, const char *reason);

/* Threads: if nobody drives yet somebody does, this thread if need be. */
void trp_shutdown_drive_late(troupe_system *system);

/*
 * How long a stop waits: until when for the phases and then, with that, for
 * actors and late tasks. A grace that somebody chose is for all of it; the
 * default one begins when the phases have ended, which have deadlines of their
 * own. So one late task does not use it up.
 */
uint64_t trp_shutdown_phases_until(troupe_system *system, uint64_t now_ns);
uint64_t trp_shutdown_actors_until(
    const troupe_system *system, uint64_t phases_until_ns, uint64_t now_ns);

/* Until no task runs; false: the deadline has passed. */
bool trp_shutdown_await_tasks(troupe_system *system, uint64_t deadline_ns);
/* All threads that are left; none is inside a task. Under stop_lock. */
void trp_shutdown_join(troupe_system *system);

/* E_CONTEXT inside a task of this system, or OK. */
troupe_status trp_shutdown_check_outside(
    const troupe_system *system, const char *call);

/* Driven: there is a task to run. */
bool trp_shutdown_is_due(const troupe_system *system);
/* Driven: runs one; false: there was none. */
bool trp_shutdown_step(troupe_system *system);

#endif /* TRP_SYSTEM_SHUTDOWN_H */
