/* SPDX-License-Identifier: MIT */
#ifndef MODEL_RUNNER_H
#define MODEL_RUNNER_H

/*
 * The main() of a model program: runs its scenarios in all modes, reports
 * schedules and steps, and prints the command that repeats a failure. A planted
 * fault is looked for in a few schedules of each mode, then in more, until one
 * shows it.
 *
 *     model_ring                            everything
 *     model_ring --list
 *     model_ring --scenario grow --schedules 1000000
 *     model_ring --scenario grow --mode pct --seed 1234 --schedules 1 --trace
 *     model_ring --scenario grow --mode dfs --deviations 1 --path 12:1 --trace
 *     model_ring --expect-failure           a planted fault: found = passed
 *     model_ring --sc                       without store buffers
 */

#include "engine.h"

struct model_scenario {
    const char *name;
    void (*run)(void); /* thread 0; starts and joins the others */
    uint32_t percent;  /* of the schedules asked for; 0 = 100 */
};

int model_main(int argc, char **argv, const char *model,
    const struct model_scenario *scenarios, size_t count);

#endif /* MODEL_RUNNER_H */
