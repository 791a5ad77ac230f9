/* SPDX-License-Identifier: MIT */
#include "options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORKERS_MAX = 1024, RUNS_MAX = 1000, DEFAULT_RUNS = 5 };
#define SCALE_MAX 1000.0
#define QUICK_SCALE 0.05

/* Arguments on their way through: `value` is what followed a '='. */
struct cursor {
    int argc;
    char **argv;
    int at;
    const char *name;
    const char *value;
};

static bool
refuse(const char *option, const char *rule, const char *value)
{
    fprintf(stderr,
        "troupe-bench: %s %s (got \"%s\"); see troupe-bench --help\n", option,
        rule, value);
    return false;
}

/* The value of an option: after the '=', or the next argument. */
static const char *
value_of(struct cursor *cursor)
{
    if (cursor->value != NULL) {
        return cursor->value;
    }
    if (cursor->at + 1 < cursor->argc) {
        return cursor->argv[++cursor->at];
    }
    return "";
}

static bool
parse_count(
    struct cursor *cursor, uint32_t most, const char *rule, uint32_t *to)
{
    const char *text = value_of(cursor);
    char *end = NULL;
    unsigned long number = 0;

    errno = 0;
    number = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 ||
        number < 1 || number > most) {
        return refuse(cursor->name, rule, text);
    }
    *to = (uint32_t)number;
    return true;
}

static bool
parse_scale(struct cursor *cursor, double *to)
{
    const char *text = value_of(cursor);
    char *end = NULL;
    double number = strtod(text, &end);

    if (end == text || *end != '\0' || !isfinite(number) || number <= 0 ||
        number > SCALE_MAX) {
        return refuse(
            cursor->name, "must be a number above 0 and at most 1000", text);
    }
    *to = number;
    return true;
}

static bool
parse_row(const char *name, struct bench_options *options)
{
    const struct bench_row *row = bench_row_find(name);

    if (row == NULL) {
        return refuse("ROW", "must be one of those that --list prints", name);
    }
    options->rows[options->row_count++] = (size_t)(row - bench_rows);
    return true;
}

/* Options with a value. False: refused; `*known` tells whether it was one. */
static bool
parse_valued(struct cursor *cursor, struct bench_options *options, bool *known)
{
    *known = true;
    if (strcmp(cursor->name, "--workers") == 0) {
        return parse_count(cursor, WORKERS_MAX,
            "must be a whole number from 1 to 1024",
            &options->settings.workers);
    }
    if (strcmp(cursor->name, "--runs") == 0) {
        return parse_count(cursor, RUNS_MAX,
            "must be a whole number from 1 to 1000", &options->runs);
    }
    if (strcmp(cursor->name, "--scale") == 0) {
        return parse_scale(cursor, &options->settings.scale);
    }
    *known = false;
    return true;
}

/* Options without a value: a flag to set or something else to do. */
static bool
parse_plain(const struct cursor *cursor, struct bench_options *options,
    enum bench_action *action)
{
    const struct {
        const char *name;
        bool *flag;
        enum bench_action action;
    } plain[] = {
        {"--csv", &options->csv, BENCH_ACTION_RUN},
        {"--quick", &options->quick, BENCH_ACTION_RUN},
        {"--list", NULL, BENCH_ACTION_LIST},
        {"--help", NULL, BENCH_ACTION_HELP},
        {"-h", NULL, BENCH_ACTION_HELP},
        {"--version", NULL, BENCH_ACTION_VERSION},
    };

    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        if (strcmp(cursor->name, plain[i].name) != 0) {
            continue;
        }
        if (cursor->value != NULL) {
            return refuse(cursor->name, "takes no value", cursor->value);
        }
        if (plain[i].flag != NULL) {
            *plain[i].flag = true;
        } else {
            *action = plain[i].action;
        }
        return true;
    }
    return refuse("option", "must be one of those in --help", cursor->name);
}

static bool
parse_option(struct cursor *cursor, struct bench_options *options,
    enum bench_action *action)
{
    char *argument = cursor->argv[cursor->at];
    char *equals = strchr(argument, '=');
    bool known = false;

    cursor->name = argument;
    cursor->value = NULL;
    if (equals != NULL) {
        *equals = '\0';
        cursor->value = equals + 1;
    }
    if (!parse_valued(cursor, options, &known)) {
        return false;
    }
    return known || parse_plain(cursor, options, action);
}

enum bench_action
bench_options_parse(int argc, char **argv, struct bench_options *options)
{
    struct cursor cursor = {.argc = argc, .argv = argv};
    enum bench_action action = BENCH_ACTION_RUN;

    for (cursor.at = 1; cursor.at < argc; cursor.at++) {
        const char *argument = argv[cursor.at];
        bool ok = argument[0] == '-' ? parse_option(&cursor, options, &action)
                                     : parse_row(argument, options);

        if (!ok) {
            return BENCH_ACTION_REFUSE;
        }
    }
    if (options->runs == 0) {
        options->runs = options->quick ? 1 : DEFAULT_RUNS;
    }
    if (options->settings.scale <= 0) {
        options->settings.scale = options->quick ? QUICK_SCALE : 1;
    }
    return action;
}

void
bench_options_help(void)
{
    fputs(
        "usage: troupe-bench [ROW...] [--workers N] [--scale F] [--runs N]\n"
        "                    [--csv] [--list] [--quick] [--help] [--version]\n"
        "\n"
        "Runs the rows (all without ROW), each run in a process of its own,\n"
        "and prints medians. A run counts only if all its sums are right.\n"
        "\n"
        "  --workers N  worker threads; without it what the system chooses\n"
        "  --scale F    multiplies the counts of messages, except in fib,\n"
        "               skynet, memory, memwarm, nor depths; 1 = full size\n"
        "  --runs N     runs per row; 5 without it\n"
        "  --csv        one line per run, no header:\n"
        "               bench,peer,threads,seconds,messages,msgs_per_sec,"
        "rss_kb\n"
        "  --quick      --scale 0.05 --runs 1, a few seconds for all rows\n"
        "  --list       the rows and what they count\n"
        "\n"
        "RSS is the peak of the process; for memory and memwarm its growth.\n"
        "TROUPE_* environment variables apply. Exit status: 0 all is well,\n"
        "1 a run has failed, 2 bad arguments.\n",
        stdout);
}
