/* SPDX-License-Identifier: MIT */
#include "options.h"

#include <troupe/version.h>

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

/* A number on the command line; its index is what getopt_long() returns. */
struct number {
    const char *option;
    uint64_t least;
    uint64_t most;
    uint64_t initial;
    size_t offset; /* in struct options */
    const char *help;
};

#define OPTION_NUMBER(name, option, least, most, initial, help)                \
    {option, least, most, initial, offsetof(struct options, name), help},
static const struct number numbers[] = {OPTION_MAP(OPTION_NUMBER)};
#undef OPTION_NUMBER

enum {
    NUMBERS = sizeof numbers / sizeof numbers[0],
    CODE_ADDRESS = NUMBERS, /* the codes after those of the numbers */
    CODE_ROUTING,
    CODE_HELP,
    CODE_VERSION,
    CODES,
    CODE_FIRST = 256 /* clear of '?' and ':' */
};

static const struct routing routings[] = {
    {"smallest", TROUPE_ROUTE_SMALLEST_MAILBOX},
    {"round-robin", TROUPE_ROUTE_ROUND_ROBIN},
    {"random", TROUPE_ROUTE_RANDOM},
    {"two-choices", TROUPE_ROUTE_TWO_CHOICES},
    {"least-in-flight", TROUPE_ROUTE_LEAST_IN_FLIGHT},
};

enum { ROUTINGS = sizeof routings / sizeof routings[0] };

/* "smallest, round-robin, .." */
static void
print_routings(FILE *out)
{
    for (size_t i = 0; i < ROUTINGS; i++) {
        fprintf(out, "%s%s", i > 0 ? ", " : "", routings[i].name);
    }
}

static uint64_t *
member(struct options *options, const struct number *number)
{
    return (uint64_t *)(void *)((char *)options + number->offset);
}

static void
print_help(FILE *out)
{
    fputs("Usage: http_server [options]\n"
          "An HTTP/1.1 server whose requests are answered by troupe actors.\n\n"
          "  --address A            IPv4 or IPv6 address (127.0.0.1)\n"
          "  --routing S            which actor gets a request; one of\n"
          "                         ",
        out);
    print_routings(out);
    fprintf(out, " (%s)\n", routings[0].name);
    for (size_t i = 0; i < NUMBERS; i++) {
        int pad = 19 - (int)strlen(numbers[i].option);

        fprintf(out, "  --%s %-*s %s (%" PRIu64 ")\n", numbers[i].option, pad,
            "N", numbers[i].help, numbers[i].initial);
    }
    fputs("  --help                 this text\n"
          "  --version              versions of this program's libraries\n\n"
          "GET /           a fixed text\n"
          "GET /work?us=N  N microseconds of CPU work, 0 to 1000000\n"
          "POST /hash      SHA-256 of the body, in hex\n"
          "GET /stats      counters as JSON\n\n"
          "SIGINT or SIGTERM: answer what has arrived, then exit. Again: exit "
          "at once.\nTROUPE_* variables tune the runtime.\n",
        out);
}

static bool
parse_address(struct options *options, const char *text, FILE *errors)
{
    struct sockaddr_storage *to = &options->socket_address;

    memset(to, 0, sizeof *to);
    if (uv_ip4_addr(text, 0, (struct sockaddr_in *)to) != 0 &&
        uv_ip6_addr(text, 0, (struct sockaddr_in6 *)to) != 0) {
        fprintf(errors,
            "http_server: --address must be an IPv4 or IPv6 address "
            "(got \"%s\")\n",
            text);
        return false;
    }
    options->address = text;
    return true;
}

static bool
parse_routing(struct options *options, const char *text, FILE *errors)
{
    for (size_t i = 0; i < ROUTINGS; i++) {
        if (strcmp(routings[i].name, text) == 0) {
            options->routing = &routings[i];
            return true;
        }
    }
    fputs("http_server: --routing must be one of ", errors);
    print_routings(errors);
    fprintf(errors, " (got \"%s\")\n", text);
    return false;
}

static bool
parse_number(struct options *options, const struct number *number,
    const char *text, FILE *errors)
{
    char *end = NULL;
    unsigned long long value = 0;

    errno = 0;
    if (isdigit((unsigned char)text[0])) {
        value = strtoull(text, &end, 10);
    }
    if (end == NULL || *end != '\0' || errno != 0 || value < number->least ||
        value > number->most) {
        fprintf(errors,
            "http_server: --%s must be a whole number from %" PRIu64
            " to %" PRIu64 " (got \"%s\")\n",
            number->option, number->least, number->most, text);
        return false;
    }
    *member(options, number) = value;
    return true;
}

static uint64_t
default_loops(void)
{
    unsigned cpus = uv_available_parallelism();

    return cpus > 1 ? cpus / 2 : 1;
}

static void
set_defaults(struct options *options)
{
    *options = (struct options){.routing = &routings[0]};
    for (size_t i = 0; i < NUMBERS; i++) {
        *member(options, &numbers[i]) = numbers[i].initial;
    }
}

static void
list_options(struct option list[CODES + 1])
{
    memset(list, 0, sizeof *list * (CODES + 1));
    for (int i = 0; i < NUMBERS; i++) {
        list[i] = (struct option){
            numbers[i].option, required_argument, NULL, CODE_FIRST + i};
    }
    list[CODE_ADDRESS] = (struct option){
        "address", required_argument, NULL, CODE_FIRST + CODE_ADDRESS};
    list[CODE_ROUTING] = (struct option){
        "routing", required_argument, NULL, CODE_FIRST + CODE_ROUTING};
    list[CODE_HELP] =
        (struct option){"help", no_argument, NULL, CODE_FIRST + CODE_HELP};
    list[CODE_VERSION] = (struct option){
        "version", no_argument, NULL, CODE_FIRST + CODE_VERSION};
}

/* What getopt_long() answered about argv; not a number. */
static enum options_result
other_code(
    struct options *options, int code, char **argv, FILE *out, FILE *errors)
{
    switch (code) {
    case CODE_FIRST + CODE_ADDRESS:
        return parse_address(options, optarg, errors) ? OPTIONS_RUN
                                                      : OPTIONS_BAD;
    case CODE_FIRST + CODE_ROUTING:
        return parse_routing(options, optarg, errors) ? OPTIONS_RUN
                                                      : OPTIONS_BAD;
    case CODE_FIRST + CODE_HELP:
        print_help(out);
        return OPTIONS_SHOWN;
    case CODE_FIRST + CODE_VERSION:
        fprintf(out, "http_server: troupe %s, libuv %s\n",
            troupe_version_text(), uv_version_string());
        return OPTIONS_SHOWN;
    case ':':
        fprintf(errors, "http_server: %s needs a value\n", argv[optind - 1]);
        return OPTIONS_BAD;
    default:
        fprintf(errors,
            "http_server: \"%s\" is not an option, or takes no value; see "
            "--help\n",
            argv[optind - 1]);
        return OPTIONS_BAD;
    }
}

enum options_result
options_parse(
    struct options *options, int argc, char **argv, FILE *out, FILE *errors)
{
    struct option list[CODES + 1];
    int code;

    set_defaults(options);
    list_options(list);
    opterr = 0;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): there are no threads yet */
    while ((code = getopt_long(argc, argv, "+:", list, NULL)) != -1) {
        enum options_result result;

        if (code >= CODE_FIRST && code < CODE_FIRST + NUMBERS) {
            result = parse_number(
                         options, &numbers[code - CODE_FIRST], optarg, errors)
                         ? OPTIONS_RUN
                         : OPTIONS_BAD;
        } else {
            result = other_code(options, code, argv, out, errors);
        }
        if (result != OPTIONS_RUN) {
            return result;
        }
    }
    if (optind < argc) {
        fprintf(errors, "http_server: \"%s\" is not an option; see --help\n",
            argv[optind]);
        return OPTIONS_BAD;
    }
    if (options->loops == 0) {
        options->loops = default_loops();
    }
    if (options->address == NULL) {
        return parse_address(options, "127.0.0.1", errors) ? OPTIONS_RUN
                                                           : OPTIONS_BAD;
    }
    return OPTIONS_RUN;
}
