/* SPDX-License-Identifier: MIT */
#ifndef BENCH_RUNNER_H
#define BENCH_RUNNER_H

/* Runs a row in a process of its own, so that its RSS is its own. */

#include "rows.h"

/* The first argument of such a process; not for people. */
#define BENCH_RUNNER_CHILD "--one-run"

/* False if the run failed; it has said why on stderr. */
bool bench_runner_run(const struct bench_row *row,
    const struct bench_settings *settings, struct bench_result *result);

/* main() of the child. */
int bench_runner_child(int argc, char **argv);

#endif /* BENCH_RUNNER_H */
