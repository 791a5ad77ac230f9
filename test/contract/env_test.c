/* SPDX-License-Identifier: MIT */
#include "support/system.h"

#include "support/census.h"

#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The environment: per tunable an option that is not 0, else the variable,
 * else the default. A variable that is set must be good.
 */

static const char *const variables[] = {"TROUPE_WORKERS", "TROUPE_THROUGHPUT",
    "TROUPE_SPIN_US", "TROUPE_STEAL", "TROUPE_MAX_ACTORS",
    "TROUPE_ASK_TIMEOUT_MS", "TROUPE_STOP_GRACE_MS", "TROUPE_DEAD_LETTERS",
    "TROUPE_METRICS", "TROUPE_LOG", "TROUPE_LOG_FORMAT", "TROUPE_SEED"};

#define VARIABLES (sizeof variables / sizeof *variables)

extern char **environ;

static void
forget_all(void)
{
    for (size_t i = 0; i < VARIABLES; i++) {
        cr_assert_eq(unsetenv(variables[i]), 0);
    }
}

TestSuite(env, .init = forget_all);

static char logged[1024];
static uint32_t lines;

static void
keep(const troupe_log_line *line, void *user)
{
    (void)user;
    lines++;
    (void)strncpy(logged, line->text, sizeof logged - 1);
}

static troupe_system_options
reading_options(void)
{
    troupe_system_options options = test_options();

    options.flags = 0;
    options.log = (troupe_log_hook){.write = keep};
    return options;
}

/* The line of describe() for a variable, without the newline. */
static void
line_of(const troupe_system *system, const char *variable, char *line)
{
    char text[4096];
    const char *at;
    const char *end;

    (void)troupe_system_describe(system, text, sizeof text);
    at = strstr(text, variable);
    cr_assert_not_null(at);
    while (at != NULL && at[strlen(variable)] != '=') {
        at = strstr(at + 1, variable);
    }
    cr_assert_not_null(at);
    end = strchr(at, '\n');
    cr_assert_not_null(end);
    memcpy(line, at, (size_t)(end - at));
    line[end - at] = '\0';
}

static void
expect_line(const char *variable, const char *value, const char *expected)
{
    troupe_system_options options = reading_options();
    troupe_system *system;
    char line[256];

    cr_assert_eq(setenv(variable, value, 1), 0);
    system = test_open(&options);
    line_of(system, variable, line);
    cr_assert_str_eq(line, expected);
    while (troupe_system_stop(system) == TROUPE_E_TIMEOUT) {
        /* a grace of 1 ms may be too short here */
    }
    test_close(system);
    cr_assert_eq(unsetenv(variable), 0);
}

Test(env, good_values_are_taken)
{
    expect_line("TROUPE_WORKERS", "3", "TROUPE_WORKERS=3 (environment)");
    expect_line(
        "TROUPE_THROUGHPUT", "17", "TROUPE_THROUGHPUT=17 (environment)");
    expect_line("TROUPE_SPIN_US", "0", "TROUPE_SPIN_US=0 (environment)");
    expect_line("TROUPE_SPIN_US", "50", "TROUPE_SPIN_US=50 (environment)");
    expect_line("TROUPE_STEAL", "on", "TROUPE_STEAL=on (environment)");
    expect_line("TROUPE_STEAL", "off", "TROUPE_STEAL=off (environment)");
    expect_line("TROUPE_STEAL", "eager", "TROUPE_STEAL=eager (environment)");
    expect_line(
        "TROUPE_MAX_ACTORS", "1000", "TROUPE_MAX_ACTORS=1000 (environment)");
    expect_line("TROUPE_ASK_TIMEOUT_MS", "250",
        "TROUPE_ASK_TIMEOUT_MS=250 (environment)");
    expect_line("TROUPE_STOP_GRACE_MS", "250",
        "TROUPE_STOP_GRACE_MS=250 (environment)");
    expect_line(
        "TROUPE_DEAD_LETTERS", "off", "TROUPE_DEAD_LETTERS=off (environment)");
    expect_line("TROUPE_DEAD_LETTERS", "count",
        "TROUPE_DEAD_LETTERS=count (environment)");
    expect_line(
        "TROUPE_DEAD_LETTERS", "1", "TROUPE_DEAD_LETTERS=1 (environment)");
    expect_line("TROUPE_DEAD_LETTERS", "1000000",
        "TROUPE_DEAD_LETTERS=1000000 (environment)");
    expect_line("TROUPE_METRICS", "on", "TROUPE_METRICS=on (environment)");
    expect_line("TROUPE_METRICS", "off", "TROUPE_METRICS=off (environment)");
    expect_line("TROUPE_LOG", "error", "TROUPE_LOG=error (environment)");
    expect_line("TROUPE_LOG", "off", "TROUPE_LOG=off (environment)");
    expect_line(
        "TROUPE_LOG_FORMAT", "json", "TROUPE_LOG_FORMAT=json (environment)");
    expect_line("TROUPE_SEED", "18446744073709551615",
        "TROUPE_SEED=18446744073709551615 (environment)");
}

Test(env, workers_zero_means_the_default)
{
    troupe_system_options options = reading_options();
    troupe_system *system;
    troupe_system *other;
    char line[256];
    char plain[256];

    system = test_open(&options);
    line_of(system, "TROUPE_WORKERS", plain);
    *strchr(plain, ' ') = '\0';
    test_close(system);
    cr_assert_eq(setenv("TROUPE_WORKERS", "0", 1), 0);
    other = test_open(&options);
    line_of(other, "TROUPE_WORKERS", line);
    *strchr(line, ' ') = '\0';
    cr_assert_str_eq(line, plain);
    test_close(other);
}

Test(env, empty_means_unset)
{
    for (size_t i = 0; i < VARIABLES; i++) {
        troupe_system_options options = reading_options();
        troupe_system *system;
        char line[256];

        cr_assert_eq(setenv(variables[i], "", 1), 0);
        system = test_open(&options);
        line_of(system, variables[i], line);
        cr_assert_not_null(strstr(line, "(default)"), "%s", line);
        test_close(system);
        cr_assert_eq(unsetenv(variables[i]), 0);
    }
}

static troupe_system *const untouched = (troupe_system *)(uintptr_t)64;

static void
expect_bad(const char *variable, const char *value)
{
    struct test_census before = test_census();
    troupe_system_options options = reading_options();
    troupe_system *system = untouched;
    troupe_status status;
    troupe_error error;
    char text[256];

    cr_assert_eq(setenv(variable, value, 1), 0);
    status = troupe_system_create(&options, &system);
    cr_assert_eq(status, TROUPE_E_ENV, "%s='%s' gives %s", variable, value,
        troupe_status_name(status));
    cr_assert_eq(system, untouched);
    error = troupe_last_error();
    cr_assert_eq(error.status, TROUPE_E_ENV);
    cr_assert_str_eq(error.call, "troupe_system_create");
    cr_assert_str_eq(error.option, variable);
    cr_assert_neq(strlen(error.rule), 0);
    cr_assert_eq(strncmp(error.value, value, sizeof error.value - 1), 0);
    (void)troupe_explain(TROUPE_E_ENV, text, sizeof text);
    cr_assert_not_null(strstr(text, variable));
    cr_assert_not_null(strstr(text, error.rule));
    cr_assert(test_alloc_is_empty(&test_memory));
    cr_assert(test_census_is(before));
    cr_assert_eq(unsetenv(variable), 0);
}

Test(env, numbers_that_do_not_parse_are_refused)
{
    static const char *const bad[] = {"x", "-1", "+1", " 4 ", "4 ", " 4", "4x",
        "3.14", "1e3", "0x10", "99999999999999999999", "18446744073709551616",
        "on", "four", "1,5", "\n", "1\n", "--", "\xc2\xb2"};
    static const char *const numbers[] = {"TROUPE_WORKERS", "TROUPE_THROUGHPUT",
        "TROUPE_SPIN_US", "TROUPE_MAX_ACTORS", "TROUPE_ASK_TIMEOUT_MS",
        "TROUPE_STOP_GRACE_MS", "TROUPE_DEAD_LETTERS", "TROUPE_SEED"};

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
            expect_bad(numbers[i], bad[k]);
        }
    }
}

Test(env, words_that_are_not_known_are_refused)
{
    static const char *const bad[] = {
        "x", "1", "0", "ON", "On", "yes", "true", " on", "on ", "warning"};
    static const char *const words[] = {
        "TROUPE_STEAL", "TROUPE_METRICS", "TROUPE_LOG", "TROUPE_LOG_FORMAT"};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
            expect_bad(words[i], bad[k]);
        }
    }
    expect_bad("TROUPE_STEAL", "json");
    expect_bad("TROUPE_METRICS", "eager");
    expect_bad("TROUPE_LOG_FORMAT", "on");
    expect_bad("TROUPE_LOG", "text");
}

Test(env, numbers_out_of_range_are_refused)
{
    expect_bad("TROUPE_WORKERS", "1025");
    expect_bad("TROUPE_WORKERS", "100000");
    expect_bad("TROUPE_THROUGHPUT", "65537");
    expect_bad("TROUPE_SPIN_US", "1000001");
    expect_bad("TROUPE_MAX_ACTORS", "0");
    expect_bad("TROUPE_MAX_ACTORS", "16000001");
    expect_bad("TROUPE_ASK_TIMEOUT_MS", "0");
    expect_bad("TROUPE_ASK_TIMEOUT_MS", "3600001");
    expect_bad("TROUPE_STOP_GRACE_MS", "0");
    expect_bad("TROUPE_STOP_GRACE_MS", "3600001");
    expect_bad("TROUPE_DEAD_LETTERS", "0");
    expect_bad("TROUPE_DEAD_LETTERS", "1000001");
    expect_bad("TROUPE_DEAD_LETTERS", "18446744073709551615");
}

static bool
never(const troupe_dead_letter_entry *entry, void *user)
{
    (void)entry;
    (void)user;
    return true;
}

Test(env, a_store_of_dead_letters_comes_from_the_variable_or_the_option)
{
    static const troupe_dead_letter_options none = {sizeof none, 0, 0, 0};
    static const troupe_dead_letter_options five = {sizeof five, 5, 0, 0};
    troupe_system_options options = reading_options();
    troupe_system *system;
    char line[256];

    cr_assert_eq(setenv("TROUPE_DEAD_LETTERS", "17", 1), 0);
    system = test_open(&options);
    cr_assert_eq(
        troupe_dead_letters_list(system, NULL, never, NULL), TROUPE_OK);
    test_close(system);
    options.dead_letters = &none;
    system = test_open(&options);
    line_of(system, "TROUPE_DEAD_LETTERS", line);
    cr_assert_str_eq(line, "TROUPE_DEAD_LETTERS=count (option)");
    cr_assert_eq(
        troupe_dead_letters_list(system, NULL, never, NULL), TROUPE_E_STATE);
    test_close(system);
    cr_assert_eq(setenv("TROUPE_DEAD_LETTERS", "off", 1), 0);
    options.dead_letters = &five;
    system = test_open(&options);
    line_of(system, "TROUPE_DEAD_LETTERS", line);
    cr_assert_str_eq(line, "TROUPE_DEAD_LETTERS=5 (option)");
    cr_assert_eq(
        troupe_dead_letters_list(system, NULL, never, NULL), TROUPE_OK);
    test_close(system);
}

Test(env, the_rule_of_a_number_has_its_range)
{
    expect_bad("TROUPE_WORKERS", "1025");
    cr_assert_not_null(strstr(troupe_last_error().rule, "1024"), "%s",
        troupe_last_error().rule);
}

Test(env, a_long_bad_value_is_cut)
{
    char value[500];

    memset(value, '9', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    expect_bad("TROUPE_WORKERS", value);
}

Test(env, an_option_wins_over_the_variable)
{
    troupe_system_options options = reading_options();
    troupe_system *system;
    char line[256];

    cr_assert_eq(setenv("TROUPE_WORKERS", "3", 1), 0);
    options.workers = 2;
    system = test_open(&options);
    line_of(system, "TROUPE_WORKERS", line);
    cr_assert_str_eq(line, "TROUPE_WORKERS=2 (option)");
    test_close(system);
}

Test(env, a_bad_variable_is_fatal_even_if_the_option_is_given)
{
    troupe_system_options options = reading_options();
    troupe_system *system = untouched;

    cr_assert_eq(setenv("TROUPE_WORKERS", "many", 1), 0);
    options.workers = 2;
    cr_assert_eq(troupe_system_create(&options, &system), TROUPE_E_ENV);
    cr_assert_eq(system, untouched);
}

Test(env, it_can_be_ignored)
{
    troupe_system_options options = reading_options();

    options.flags = TROUPE_SYSTEM_IGNORE_ENV;
    cr_assert_eq(setenv("TROUPE_WROKERS", "3", 1), 0);
    for (size_t i = 0; i < VARIABLES; i++) {
        cr_assert_eq(setenv(variables[i], "nonsense", 1), 0);
    }
    test_close(test_open(&options));
    cr_assert_eq(lines, 0);
}

Test(env, spinning_can_be_switched_off_by_option)
{
    troupe_system_options options = reading_options();
    troupe_system *system;
    char line[256];

    cr_assert_eq(setenv("TROUPE_SPIN_US", "50", 1), 0);
    options.spin_us = TROUPE_SPIN_NEVER;
    system = test_open(&options);
    line_of(system, "TROUPE_SPIN_US", line);
    cr_assert_str_eq(line, "TROUPE_SPIN_US=0 (option)");
    test_close(system);
}

Test(env, an_unknown_variable_is_one_warning)
{
    troupe_system_options options = reading_options();

    cr_assert_eq(setenv("TROUPE_WROKERS", "3", 1), 0);
    test_close(test_open(&options));
    cr_assert_eq(lines, 1);
    cr_assert_not_null(strstr(logged, "TROUPE_WROKERS"), "%s", logged);
    lines = 0;
    cr_assert_eq(setenv("TROUPE_TYPO", "3", 1), 0);
    test_close(test_open(&options));
    cr_assert_eq(lines, 1, "one line for all of them");
}

Test(env, variables_of_others_are_none_of_our_business)
{
    troupe_system_options options = reading_options();

    cr_assert_eq(setenv("TROUPEX", "3", 1), 0);
    cr_assert_eq(setenv("TROUP_WORKERS", "3", 1), 0);
    cr_assert_eq(setenv("MY_TROUPE_WORKERS", "x", 1), 0);
    cr_assert_eq(setenv("troupe_workers", "x", 1), 0);
    test_close(test_open(&options));
    cr_assert_eq(lines, 0);
}

Test(env, known_variables_are_no_warning)
{
    troupe_system_options options = reading_options();

    for (size_t i = 0; i < VARIABLES; i++) {
        cr_assert_eq(setenv(variables[i], "", 1), 0);
    }
    test_close(test_open(&options));
    cr_assert_eq(lines, 0);
}

Test(env, the_seed_makes_a_simulation_of_a_driven_system)
{
    troupe_system_options options = reading_options();
    troupe_system *system;

    cr_assert_eq(setenv("TROUPE_SEED", "42", 1), 0);
    options.flags = TROUPE_SYSTEM_DRIVEN;
    system = test_open(&options);
    cr_assert_eq(troupe_system_seed(system), 42);
    cr_assert_eq(troupe_system_fd(system), -1);
    cr_assert_eq(troupe_system_advance(system, 1), TROUPE_OK);
    test_close(system);
}

Test(env, the_level_of_the_log_comes_from_it)
{
    troupe_system_options options = reading_options();
    troupe_system *system;

    cr_assert_eq(setenv("TROUPE_LOG", "debug", 1), 0);
    system = test_open(&options);
    cr_assert(troupe_log_enabled(system, TROUPE_LOG_DEBUG));
    test_close(system);
}

Test(env, the_grace_comes_from_it)
{
    expect_line(
        "TROUPE_STOP_GRACE_MS", "1", "TROUPE_STOP_GRACE_MS=1 (environment)");
    expect_line("TROUPE_STOP_GRACE_MS", "3600000",
        "TROUPE_STOP_GRACE_MS=3600000 (environment)");
}

/* --- how many workers ----------------------------------------------------- */

static void
put(const char *folder, const char *name, const char *text)
{
    char path[256];
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "w");
    cr_assert_not_null(file);
    cr_assert_geq(fputs(text, file), 0);
    cr_assert_eq(fclose(file), 0);
}

Test(env, workers_default_to_what_the_control_group_allows)
{
    char folder[] = "/tmp/troupe-env-XXXXXX";
    troupe_system_options options = reading_options();
    troupe_system *system;
    char line[256];
    char path[300];

    cr_assert_not_null(mkdtemp(folder));
    put(folder, "proc_self_cgroup", "0::/\n");
    put(folder, "cpu.max", "50000 100000\n");
    options.cgroup_root = folder;
    system = test_open(&options);
    line_of(system, "TROUPE_WORKERS", line);
    cr_assert_eq(strncmp(line, "TROUPE_WORKERS=1 ", 17), 0, "%s", line);
    test_close(system);
    (void)snprintf(path, sizeof path, "%s/cpu.max", folder);
    (void)remove(path);
    (void)snprintf(path, sizeof path, "%s/proc_self_cgroup", folder);
    (void)remove(path);
    (void)remove(folder);
}
