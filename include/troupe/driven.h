/* SPDX-License-Identifier: MIT */
#ifndef TROUPE_DRIVEN_H
#define TROUPE_DRIVEN_H

#include <troupe/types.h>

TROUPE_BEGIN_DECLS

/*
 * A system created with TROUPE_SYSTEM_DRIVEN has no threads: one thread calls
 * these, inside its loop or its test. Other threads may post. E_STATE for a
 * system with workers, E_CONTEXT from inside a behaviour.
 */

typedef struct troupe_run { /* frozen */
    uint32_t turns;         /* that were run */
    uint32_t runnable;      /* cells that wait, and 1 while a task does */
    uint64_t next_timer_ns; /* until the next one; TROUPE_FOREVER = none */
} troupe_run;

/*
 * At most `turns` turns; 0 = until nothing can run. `run` may be NULL. A task
 * of the shutdown (shutdown.h) is one turn, and comes before those of cells.
 * TROUPE_E_CLOSED once a requested stop has run to its end: leave the loop.
 */
TROUPE_API TROUPE_NODISCARD troupe_status troupe_system_run(
    troupe_system *system, uint32_t turns, troupe_run *run);

/*
 * Readable while a cell or a task of the shutdown can run and once
 * next_timer_ns has passed, so a loop needs no time-out of its own: poll it
 * with -1, never read it. What other threads change makes it readable too, and
 * may turn out to be nothing to run. -1 for a system with workers or with a
 * seed.
 */
TROUPE_API int troupe_system_fd(const troupe_system *system);

/*
 * With a seed the system is a simulation: the next cell is drawn from the seed,
 * time is virtual and moves only here, and the same seed gives the same run.
 * Runs until nothing can run, then moves the clock to each timer on the way and
 * runs what it wakes; saturates. E_STATE without a seed.
 */
TROUPE_API TROUPE_NODISCARD troupe_status troupe_system_advance(
    troupe_system *system, uint64_t by_ns);

/* The seed in use, to print when a test fails; 0 = none. */
TROUPE_API uint64_t troupe_system_seed(const troupe_system *system);

TROUPE_END_DECLS

#endif /* TROUPE_DRIVEN_H */
