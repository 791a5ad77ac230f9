/* SPDX-License-Identifier: MIT */
#include "support/system.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>

#include <ctype.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define LINES 32

static struct kept {
    troupe_log_level level;
    size_t size;
    char source[128];
    char text[2048];
    char line[8192];
} kept[LINES];
static _Atomic uint32_t lines;
static _Atomic uint32_t inside_hook;

static void
keep(const troupe_log_line *line, void *user)
{
    struct kept *entry = &kept[atomic_load(&lines) % LINES];

    cr_assert_eq(atomic_fetch_add(&inside_hook, 1), 0, "one call at a time");
    cr_assert_eq(user, kept);
    entry->level = line->level;
    entry->size = line->size;
    (void)strncpy(entry->source, line->source, sizeof entry->source - 1);
    (void)strncpy(entry->text, line->text, sizeof entry->text - 1);
    (void)strncpy(entry->line, line->line, sizeof entry->line - 1);
    atomic_fetch_add(&lines, 1);
    atomic_fetch_sub(&inside_hook, 1);
}

static troupe_system *
open_logging(troupe_log_level level, troupe_log_format format)
{
    troupe_system_options options = test_options();

    options.flags |= TROUPE_SYSTEM_DRIVEN;
    options.name = "logs";
    options.log.write = keep;
    options.log.user = kept;
    options.log.max_level = level;
    options.log.format = format;
    return test_open(&options);
}

static troupe_verdict
log_as_actor(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    (void)user;
    troupe_log(self, TROUPE_LOG_WARN, "number %d of %s", 7, "nine");
    return TROUPE_CONTINUE;
}

Test(log, an_actor_logs_under_its_path)
{
    troupe_system *system = open_logging(TROUPE_LOG_WARN, 0);

    test_do(system, test_spawn_doer(system, "writer"), log_as_actor, NULL);
    cr_assert_eq(lines, 1);
    cr_assert_eq(kept[0].level, TROUPE_LOG_WARN);
    cr_assert_str_eq(kept[0].source, "troupe://logs/user/writer");
    cr_assert_str_eq(kept[0].text, "number 7 of nine");
    cr_assert_geq(kept[0].size, sizeof(troupe_log_line));
    test_close(system);
}

Test(log, the_system_logs_under_its_name)
{
    troupe_system *system = open_logging(TROUPE_LOG_INFO, 0);

    troupe_system_log(system, TROUPE_LOG_INFO, "hello %s", "there");
    cr_assert_eq(lines, 1);
    cr_assert_str_eq(kept[0].source, "logs");
    cr_assert_str_eq(kept[0].text, "hello there");
    test_close(system);
}

Test(log, a_finished_text_line_has_level_source_and_text)
{
    troupe_system *system = open_logging(TROUPE_LOG_INFO, 0);

    troupe_system_log(system, TROUPE_LOG_ERROR, "it broke");
    cr_assert_not_null(strstr(kept[0].line, "error"), "%s", kept[0].line);
    cr_assert_not_null(strstr(kept[0].line, "logs"));
    cr_assert_not_null(strstr(kept[0].line, "it broke"));
    cr_assert_null(strchr(kept[0].line, '\n'));
    test_close(system);
}

Test(log, lines_above_the_level_are_not_written)
{
    static const troupe_log_level levels[] = {TROUPE_LOG_ERROR, TROUPE_LOG_WARN,
        TROUPE_LOG_INFO, TROUPE_LOG_DEBUG, TROUPE_LOG_OFF};
    static const uint32_t expected[] = {1, 2, 3, 4, 0};

    for (int i = 0; i < 5; i++) {
        troupe_system *system = open_logging(levels[i], 0);

        lines = 0;
        for (int k = TROUPE_LOG_ERROR; k <= TROUPE_LOG_DEBUG; k++) {
            cr_assert_eq(troupe_log_enabled(system, (troupe_log_level)k),
                (uint32_t)k <= expected[i]);
            troupe_system_log(system, (troupe_log_level)k, "x");
        }
        cr_assert_eq(lines, expected[i]);
        test_close(system);
    }
    cr_assert_not(troupe_log_enabled(NULL, TROUPE_LOG_ERROR));
}

Test(log, the_default_level_is_warn)
{
    troupe_system *system = open_logging(TROUPE_LOG_DEFAULT, 0);

    cr_assert(troupe_log_enabled(system, TROUPE_LOG_WARN));
    cr_assert_not(troupe_log_enabled(system, TROUPE_LOG_INFO));
    test_close(system);
}

Test(log, longer_than_1000_bytes_is_cut)
{
    troupe_system *system = open_logging(TROUPE_LOG_INFO, 0);
    static char text[5000];

    memset(text, 'a', sizeof text - 1);
    troupe_system_log(system, TROUPE_LOG_INFO, "%s", text);
    cr_assert_eq(lines, 1);
    cr_assert_geq(strlen(kept[0].text), 1000);
    cr_assert_lt(strlen(kept[0].text), 1100);
    cr_assert_eq(kept[0].text[999], 'a');
    test_close(system);
}

/* --- JSON ----------------------------------------------------------------- */

/* Accepts exactly one JSON value (RFC 8259); NULL when it is none. */
static const char *json_value(const char *at);

static const char *
json_string(const char *at)
{
    if (at == NULL || *at++ != '"') {
        return NULL;
    }
    while (*at != '"') {
        if ((unsigned char)*at < 0x20) {
            return NULL; /* also the end of the text */
        }
        if (*at++ == '\\') {
            if (*at == 'u') {
                for (int i = 1; i <= 4; i++) {
                    if (!isxdigit((unsigned char)at[i])) {
                        return NULL;
                    }
                }
                at += 4;
            } else if (*at == '\0' || strchr("\"\\/bfnrt", *at) == NULL) {
                return NULL;
            }
            at++;
        }
    }
    return at + 1;
}

static const char *
json_number(const char *at)
{
    size_t digits = strspn(at, "0123456789");

    if (digits == 0 || (digits > 1 && *at == '0')) {
        return NULL;
    }
    at += digits;
    if (*at == '.') {
        digits = strspn(at + 1, "0123456789");
        return digits != 0 ? at + 1 + digits : NULL;
    }
    return at;
}

static const char *
json_object(const char *at)
{
    if (*at++ != '{') {
        return NULL;
    }
    for (;;) {
        at = json_string(at);
        if (at == NULL || *at++ != ':') {
            return NULL;
        }
        at = json_value(at);
        if (at == NULL) {
            return NULL;
        }
        if (*at == '}') {
            return at + 1;
        }
        if (*at++ != ',') {
            return NULL;
        }
    }
}

static const char *
json_value(const char *at)
{
    return *at == '{'   ? json_object(at)
           : *at == '"' ? json_string(at)
                        : json_number(at);
}

static void
expect_json(const char *text)
{
    const char *end;

    lines = 0;
    memset(kept, 0, sizeof kept[0]);
    end = NULL;
    {
        troupe_system *system =
            open_logging(TROUPE_LOG_INFO, TROUPE_LOG_FORMAT_JSON);

        troupe_system_log(system, TROUPE_LOG_INFO, "%s", text);
        test_close(system);
    }
    cr_assert_eq(lines, 1);
    cr_assert_eq(strncmp(kept[0].text, text, 1000), 0, "text stays as it is");
    end = json_object(kept[0].line);
    cr_assert_not_null(end, "%s", kept[0].line);
    cr_assert_eq(*end, '\0', "%s", kept[0].line);
}

Test(log, json_lines_are_json)
{
    static const char *const texts[] = {"plain", "", "\"quoted\"",
        "back\\slash", "new\nline", "tab\t", "\x01\x02\x1f", "\x7f", "{}",
        "\xc3\xa4", "100%"};

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        expect_json(texts[i]);
    }
}

Test(log, json_lines_are_json_however_long_the_text)
{
    static char text[3000];

    for (size_t length = 900; length < 2000; length += 37) {
        memset(text, '"', length);
        text[length] = '\0';
        expect_json(text);
        memset(text, 1, length);
        expect_json(text);
        memset(text, '\\', length);
        expect_json(text);
    }
}

Test(log, a_json_line_has_level_source_and_text)
{
    expect_json("it works");
    cr_assert_not_null(
        strstr(kept[0].line, "\"level\":\"info\""), "%s", kept[0].line);
    cr_assert_not_null(strstr(kept[0].line, "\"source\":\"logs\""));
    cr_assert_not_null(strstr(kept[0].line, "\"text\":\"it works\""));
}

/* --- the rest ------------------------------------------------------------- */

static void *
log_a_lot(void *user)
{
    for (int i = 0; i < 2000; i++) {
        troupe_system_log(user, TROUPE_LOG_INFO, "line %d", i);
    }
    return NULL;
}

Test(log, any_thread_may_log_and_the_hook_sees_one_call_at_a_time)
{
    troupe_system *system = open_logging(TROUPE_LOG_INFO, 0);
    pthread_t threads[4];

    for (int i = 0; i < 4; i++) {
        cr_assert_eq(pthread_create(&threads[i], NULL, log_a_lot, system), 0);
    }
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
    }
    cr_assert_eq(lines, 8000);
    test_close(system);
}

Test(log, null_is_survived)
{
    troupe_system *system = open_logging(TROUPE_LOG_INFO, 0);

    troupe_log(NULL, TROUPE_LOG_INFO, "x");
    troupe_system_log(NULL, TROUPE_LOG_INFO, "x");
    cr_assert_eq(lines, 0);
    test_close(system);
}

Test(log, without_a_hook_it_goes_to_stderr)
{
    troupe_system_options options = test_options();
    troupe_system *system;

    cr_redirect_stderr();
    options.flags |= TROUPE_SYSTEM_DRIVEN;
    options.log.max_level = TROUPE_LOG_WARN;
    options.name = "plain";
    system = test_open(&options);
    troupe_system_log(system, TROUPE_LOG_WARN, "to everybody");
    test_close(system);
    (void)fflush(stderr);
    {
        char text[512] = {0};
        FILE *said = cr_get_redirected_stderr();

        cr_assert_not_null(fgets(text, sizeof text, said));
        cr_assert_not_null(strstr(text, "plain"), "%s", text);
        cr_assert_not_null(strstr(text, "to everybody"), "%s", text);
        cr_assert_eq(text[strlen(text) - 1], '\n');
    }
}

static uint32_t quiet_lines;

static void
count_line(const troupe_log_line *line, void *user)
{
    (void)line;
    (void)user;
    quiet_lines++;
}

Test(log, a_good_life_is_silent)
{
    troupe_system_options options = test_options();
    struct test_record record = {0};
    troupe_system *system;

    options.workers = 2;
    options.log.write = count_line;
    options.log.max_level = TROUPE_LOG_WARN;
    system = test_open(&options);
    for (uint64_t i = 0; i < 100; i++) {
        test_post_number(system,
            i == 0 ? test_spawn_recorder(system, NULL, &record)
                   : test_spawn_doer(system, NULL),
            i);
    }
    test_close(system);
    cr_assert_eq(quiet_lines, 0);
}
