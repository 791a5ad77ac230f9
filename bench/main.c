/* SPDX-License-Identifier: MIT */

/* troupe-bench: what troupe's messages and actors cost on this machine. */

#include "options.h"
#include "report.h"
#include "runner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool
run_row(const struct bench_row *row, const struct bench_options *options,
    struct bench_result *results)
{
    for (uint32_t run = 0; run < options->runs; run++) {
        bool ok = false;

        bench_report_progress(row, run + 1, options->runs);
        ok = bench_runner_run(row, &options->settings, &results[run]);
        bench_report_progress_end();
        if (!ok) {
            return false;
        }
        if (options->csv) {
            bench_report_csv(row, &results[run]);
        }
    }
    if (!options->csv) {
        bench_report_row(row, results, options->runs);
    }
    return true;
}

/* Goes on after a row that failed: the others may tell why. */
static bool
run_rows(const struct bench_options *options)
{
    bool ok = true;
    size_t count =
        options->row_count != 0 ? options->row_count : bench_row_count;
    struct bench_result *results = calloc(options->runs, sizeof *results);

    if (results == NULL) {
        fputs("troupe-bench: out of memory\n", stderr);
        return false;
    }
    if (!options->csv) {
        bench_report_head();
    }
    for (size_t i = 0; i < count; i++) {
        const struct bench_row *row =
            &bench_rows[options->row_count != 0 ? options->rows[i] : i];

        ok = run_row(row, options, results) && ok;
    }
    free(results);
    return ok;
}

static int
act(enum bench_action action, const struct bench_options *options)
{
    switch (action) {
    case BENCH_ACTION_RUN:
        return run_rows(options) ? 0 : 1;
    case BENCH_ACTION_LIST:
        bench_report_list();
        return 0;
    case BENCH_ACTION_HELP:
        bench_options_help();
        return 0;
    case BENCH_ACTION_VERSION:
        printf("troupe-bench %s\n", troupe_version_text());
        return 0;
    case BENCH_ACTION_REFUSE:
        return 2;
    }
    return 2;
}

int
main(int argc, char **argv)
{
    struct bench_options options = {.runs = 0};
    int status = 0;

    if (argc > 1 && strcmp(argv[1], BENCH_RUNNER_CHILD) == 0) {
        return bench_runner_child(argc, argv);
    }
    options.rows = calloc((size_t)argc, sizeof options.rows[0]);
    if (options.rows == NULL) {
        fputs("troupe-bench: out of memory\n", stderr);
        return 1;
    }
    status = act(bench_options_parse(argc, argv, &options), &options);
    free(options.rows);
    if (fflush(stdout) != 0 || ferror(stdout) != 0) {
        perror("troupe-bench: cannot write");
        return 1;
    }
    return status;
}
