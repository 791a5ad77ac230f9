/* SPDX-License-Identifier: MIT */
#include "runner.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static bool
complain(const char *row, const char *what)
{
    char text[128];

    snprintf(text, sizeof text, "troupe-bench: %s: %s", row, what);
    perror(text);
    return false;
}

/* In the child: its stdout is the pipe. Does not return. */
static void
become_run(const struct bench_row *row, const struct bench_settings *settings,
    int pipe_fd)
{
    char workers[16];
    char scale[32];

    snprintf(workers, sizeof workers, "%u", settings->workers);
    snprintf(scale, sizeof scale, "%.17g", settings->scale);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* ends with whoever started us */
    if (dup2(pipe_fd, STDOUT_FILENO) >= 0) {
        execl("/proc/self/exe", "troupe-bench", BENCH_RUNNER_CHILD, row->name,
            workers, scale, (char *)NULL);
    }
    complain(row->name, "cannot start a process");
    _exit(1);
}

static bool
read_result(int fd, struct bench_result *result)
{
    char *at = (char *)result;
    size_t left = sizeof *result;

    while (left > 0) {
        ssize_t got = read(fd, at, left);

        if (got <= 0) {
            return false;
        }
        at += got;
        left -= (size_t)got;
    }
    return true;
}

static bool
collect(const char *row, pid_t child, bool complete)
{
    int status = 0;

    if (waitpid(child, &status, 0) < 0) {
        return complain(row, "cannot wait for a process");
    }
    if (WIFSIGNALED(status)) {
        fprintf(stderr, "troupe-bench: %s: ended by signal %d\n", row,
            WTERMSIG(status));
        return false;
    }
    if (WEXITSTATUS(status) != 0 || !complete) {
        fprintf(stderr, "troupe-bench: %s: the run has failed (exit %d)\n", row,
            WEXITSTATUS(status));
        return false;
    }
    return true;
}

bool
bench_runner_run(const struct bench_row *row,
    const struct bench_settings *settings, struct bench_result *result)
{
    int ends[2];
    pid_t child = 0;
    bool complete = false;

    if (pipe(ends) != 0) {
        return complain(row->name, "cannot open a pipe");
    }
    fflush(NULL);
    child = fork();
    if (child == 0) {
        close(ends[0]);
        become_run(row, settings, ends[1]);
    }
    close(ends[1]);
    if (child < 0) {
        close(ends[0]);
        return complain(row->name, "cannot start a process");
    }
    complete = read_result(ends[0], result);
    close(ends[0]);
    return collect(row->name, child, complete);
}

int
bench_runner_child(int argc, char **argv)
{
    struct bench bench;
    struct bench_settings settings = {0, 1};
    const struct bench_row *row = argc == 5 ? bench_row_find(argv[2]) : NULL;

    if (row == NULL) {
        fprintf(
            stderr, "troupe-bench: %s is not for people\n", BENCH_RUNNER_CHILD);
        return 2;
    }
    settings.workers = (uint32_t)strtoul(argv[3], NULL, 10);
    settings.scale = strtod(argv[4], NULL);
    bench_init(&bench, &settings);
    row->run(&bench);
    if (bench.result.rss_kb == 0) {
        bench.result.rss_kb = bench_status_kb("VmHWM");
    }
    bench_fini(&bench);
    if (write(STDOUT_FILENO, &bench.result, sizeof bench.result) !=
        (ssize_t)sizeof bench.result) {
        return 1;
    }
    return 0;
}
