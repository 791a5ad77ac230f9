/* SPDX-License-Identifier: MIT */
#ifndef TRP_SCHED_TASK_H
#define TRP_SCHED_TASK_H

/*
 * All the scheduler knows of what it runs. An actor's cell begins with one in
 * spirit: it embeds it, and the function that runs it is installed once per
 * system, so that a task costs one pointer.
 */

#include "queue/inject.h"

struct trp_worker;

struct trp_task {
    struct trp_node node; /* linked while it waits in the injector */
};

/* Runs one turn on `worker`; decides itself whether the task waits again. */
typedef void (*trp_run_fn)(struct trp_worker *worker, struct trp_task *task);

#endif /* TRP_SCHED_TASK_H */
