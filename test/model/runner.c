/* SPDX-License-Identifier: MIT */
#include "runner.h"

#include "engine.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_SCHEDULES 20000
#define MAX_STEPS 20000
#define PATH_BYTES 4096

static const char *const mode_names[] = {"random", "pct", "dfs"};
#define MODES 3

/* What the command line asks for. */
static struct {
    const char *program;
    const char *model;
    const char *scenario; /* NULL = all */
    int mode;             /* -1 = all */
    uint64_t seed;
    uint64_t schedules;
    int deviations; /* -1: 0, then 1, then 2 ... */
    const char *path;
    bool sequential;
    bool trace;
    bool expect_failure;
} asked = {
    .mode = -1,
    .schedules = DEFAULT_SCHEDULES,
    .deviations = -1,
};

/* What runs now: also for the signal handler. */
static struct {
    const struct model_scenario *scenario;
    struct model_options options;
    struct model_result result;
    uint64_t schedules; /* of this scenario in this mode */
    uint64_t steps;
    uint64_t all_schedules, all_steps;
    uint32_t found; /* modes that found a failure */
    int searched;   /* dfs: all schedules with so many deviations; -1 none */
} now;

static bool
has_failed(void)
{
    return now.result.verdict != MODEL_PASSED;
}

/* --- reports -------------------------------------------------------------- */

static void
print_command(void)
{
    printf("    repeat: %s --scenario %s --mode %s --schedules 1",
        asked.program, now.scenario->name, mode_names[now.options.mode]);
    if (now.options.mode == MODEL_DFS) {
        static char path[PATH_BYTES];

        model_search_write(path, sizeof path);
        printf(" --deviations %u --path %s", now.options.deviations, path);
    } else {
        printf(" --seed %llu", (unsigned long long)now.options.seed);
    }
    printf("%s --trace\n", now.options.buffers ? "" : " --sc");
}

static void
report_failure(const char *text)
{
    printf("  %s/%s: %s in %s schedule %llu, %llu steps", asked.model,
        now.scenario->name, asked.expect_failure ? "found" : "FAILED",
        mode_names[now.options.mode], (unsigned long long)now.schedules,
        (unsigned long long)model_steps());
    if (now.options.mode == MODEL_DFS) {
        printf(", %u deviations", now.options.deviations);
    }
    printf("\n    %s\n", text);
    print_command();
    fflush(stdout);
}

/* A planted fault may well end in a wild pointer. */
static void
on_crash(int number)
{
    signal(number, SIG_DFL);
    report_failure(number == SIGABRT ? "abort" : "bad memory access");
    _exit(asked.expect_failure ? 0 : 1);
}

static void
catch_crashes(void)
{
    static char stack[65536];
    const stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_handler = on_crash;
    action.sa_flags = SA_ONSTACK;
    sigaltstack(&alternate, NULL);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        sigaction(numbers[i], &action, NULL);
    }
}

/* --- schedules ------------------------------------------------------------ */

static void
run_one(void)
{
    now.schedules++;
    model_run(&now.options, now.scenario->run, &now.result);
    now.steps += now.result.steps;
}

/* How long a schedule is in which nobody is interrupted. */
static uint32_t
measure(void)
{
    struct model_options options = now.options;
    struct model_result result;

    options.mode = MODEL_DFS;
    options.deviations = 0;
    options.trace = false;
    model_search_begin();
    model_run(&options, now.scenario->run, &result);
    return 2 * (uint32_t)result.steps;
}

static void
run_seeds(uint64_t schedules)
{
    for (uint64_t i = 0; i < schedules && !has_failed(); i++) {
        now.options.seed = asked.seed + i;
        run_one();
    }
}

/* True: all schedules with so many deviations have been run. */
static bool
run_search(uint64_t schedules)
{
    model_search_begin();
    do {
        if (now.schedules >= schedules) {
            return false;
        }
        run_one();
    } while (!has_failed() && model_search_next());
    return true;
}

static void
run_searches(uint64_t schedules)
{
    uint32_t first = asked.deviations >= 0 ? (uint32_t)asked.deviations : 0;

    for (uint32_t i = first; !has_failed(); i++) {
        now.options.deviations = i;
        if (!run_search(schedules)) {
            break;
        }
        now.searched = (int)i;
        if (asked.deviations >= 0) {
            break;
        }
    }
}

static void
run_path(void)
{
    if (!model_search_read(asked.path)) {
        fprintf(stderr, "%s: malformed --path\n", asked.program);
        exit(2);
    }
    now.options.deviations =
        asked.deviations >= 0 ? (uint32_t)asked.deviations : 0;
    run_one();
}

static void
run_mode(enum model_mode mode, uint64_t schedules)
{
    memset(&now.result, 0, sizeof now.result);
    now.schedules = now.steps = 0;
    now.searched = -1;
    now.options.mode = mode;
    if (mode != MODEL_DFS) {
        run_seeds(schedules);
    } else if (asked.path != NULL) {
        run_path();
    } else {
        run_searches(schedules);
    }
    now.all_schedules += now.schedules;
    now.all_steps += now.steps;
    if (has_failed()) {
        putchar('\n');
        report_failure(now.result.text);
        now.found++;
        return;
    }
    printf(" %s %llu", mode_names[mode], (unsigned long long)now.schedules);
    if (mode == MODEL_DFS && now.searched >= 0) {
        printf(" (all with %d deviations)", now.searched);
    }
    putchar(',');
}

static void
run_modes(uint64_t schedules)
{
    for (int mode = 0; mode < MODES; mode++) {
        if (asked.mode < 0 || asked.mode == mode) {
            run_mode((enum model_mode)mode, schedules);
        }
        fflush(stdout);
        if (asked.expect_failure && has_failed()) {
            return;
        }
    }
}

/* A planted fault: a few schedules in each mode, then more, until it shows. */
static void
hunt(void)
{
    for (uint64_t schedules = 500; !has_failed(); schedules *= 4) {
        if (schedules >= asked.schedules) {
            run_modes(asked.schedules);
            return;
        }
        run_modes(schedules);
    }
}

static void
run_scenario(const struct model_scenario *scenario)
{
    uint32_t percent = scenario->percent != 0 ? scenario->percent : 100;
    uint64_t steps = now.all_steps;
    uint32_t found = now.found;

    now.scenario = scenario;
    now.options = (struct model_options){
        .max_steps = MAX_STEPS,
        .buffers = !asked.sequential,
        .trace = asked.trace,
    };
    printf("%s/%s:", asked.model, scenario->name);
    now.options.horizon = measure();
    if (asked.expect_failure) {
        hunt();
    } else {
        run_modes((asked.schedules * percent + 99) / 100);
    }
    printf(" %.1f M steps: %s\n", (double)(now.all_steps - steps) / 1e6,
        now.found == found     ? "ok"
        : asked.expect_failure ? "found"
                               : "FAILED");
}

/* --- command line --------------------------------------------------------- */

static void
print_help(void)
{
    printf("usage: %s [--list] [--scenario NAME] [--schedules N]\n"
           "    [--mode random|pct|dfs] [--seed N] [--deviations N]\n"
           "    [--path STEP:CHOICE,...] [--sc] [--trace]\n"
           "    [--expect-failure]\n",
        asked.program);
}

static void
print_names(const struct model_scenario *scenarios, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        puts(scenarios[i].name);
    }
}

static int
mode_of(const char *name)
{
    for (int mode = 0; mode < MODES; mode++) {
        if (strcmp(mode_names[mode], name) == 0) {
            return mode;
        }
    }
    fprintf(stderr, "%s: no mode %s\n", asked.program, name);
    exit(2);
}

/* True: there is nothing to run. */
static bool
parse(
    int argc, char **argv, const struct model_scenario *scenarios, size_t count)
{
    static const struct option options[] = {
        {"help", no_argument, NULL, 'h'},
        {"list", no_argument, NULL, 'l'},
        {"scenario", required_argument, NULL, 'n'},
        {"mode", required_argument, NULL, 'm'},
        {"seed", required_argument, NULL, 's'},
        {"schedules", required_argument, NULL, 'c'},
        {"deviations", required_argument, NULL, 'd'},
        {"path", required_argument, NULL, 'w'},
        {"sc", no_argument, NULL, 'q'},
        {"trace", no_argument, NULL, 't'},
        {"expect-failure", no_argument, NULL, 'x'},
        {NULL, 0, NULL, 0},
    };
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'n':
            asked.scenario = optarg;
            break;
        case 'm':
            asked.mode = mode_of(optarg);
            break;
        case 's':
            asked.seed = strtoull(optarg, NULL, 10);
            break;
        case 'c':
            asked.schedules = strtoull(optarg, NULL, 10);
            break;
        case 'd':
            asked.deviations = (int)strtol(optarg, NULL, 10);
            break;
        case 'w':
            asked.path = optarg;
            break;
        case 'q':
            asked.sequential = true;
            break;
        case 't':
            asked.trace = true;
            break;
        case 'x':
            asked.expect_failure = true;
            break;
        case 'l':
            print_names(scenarios, count);
            return true;
        case 'h':
            print_help();
            return true;
        default:
            print_help();
            exit(2);
        }
    }
    return false;
}

int
model_main(int argc, char **argv, const char *model,
    const struct model_scenario *scenarios, size_t count)
{
    size_t run = 0;

    asked.program = argv[0];
    asked.model = model;
    if (parse(argc, argv, scenarios, count)) {
        return 0;
    }
    catch_crashes();
    for (size_t i = 0; i < count; i++) {
        if (asked.scenario == NULL ||
            strcmp(asked.scenario, scenarios[i].name) == 0) {
            run_scenario(&scenarios[i]);
            run++;
        }
    }
    if (run == 0) {
        fprintf(stderr, "%s: no such scenario\n", asked.program);
        return 2;
    }
    printf("%s: %llu schedules, %llu steps, %s\n", model,
        (unsigned long long)now.all_schedules,
        (unsigned long long)now.all_steps,
        now.found == 0 ? "no failure" : "failures");
    return (now.found != 0) == asked.expect_failure ? 0 : 1;
}
