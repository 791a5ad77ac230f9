/* SPDX-License-Identifier: MIT */
#include "support/system.h"

#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

/* The warning that a mailbox gets deep. */

static troupe_system *the_system;

static struct {
    uint32_t count;
    uint32_t depth[32];
    char source[128];
    char text[256];
} lines;

static void
write_line(const troupe_log_line *line, void *user)
{
    (void)user;
    if (line->level != TROUPE_LOG_WARN || sscanf(line->text, "mailbox depth %u",
                                              &lines.depth[lines.count]) != 1) {
        return;
    }
    lines.count++;
    (void)snprintf(lines.source, sizeof lines.source, "%s", line->source);
    (void)snprintf(lines.text, sizeof lines.text, "%s", line->text);
}

static void
open_with(uint32_t mailbox_warn)
{
    troupe_system_options options = test_options();

    options.flags |= TROUPE_SYSTEM_DRIVEN;
    options.mailbox_warn = mailbox_warn;
    options.log.write = write_line;
    options.log.max_level = TROUPE_LOG_WARN;
    the_system = test_open(&options);
}

static void
setup(void)
{
    memset(&lines, 0, sizeof lines);
    open_with(0);
}

static void
teardown(void)
{
    test_close(the_system);
}

TestSuite(depth, .init = setup, .fini = teardown);

static void
check_depths(const uint32_t *depths, uint32_t count)
{
    cr_assert_eq(lines.count, count, "%u lines", lines.count);
    for (uint32_t i = 0; i < count; i++) {
        cr_assert_eq(lines.depth[i], depths[i], "%u", lines.depth[i]);
    }
}

#define CHECK_DEPTHS(...)                                                      \
    check_depths((const uint32_t[]){__VA_ARGS__},                              \
        sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

Test(depth, is_told_at_10000_and_at_each_doubling)
{
    troupe_ref ref = test_spawn_doer(the_system, "slow");

    test_post_numbers(the_system, ref, 9999);
    cr_assert_eq(lines.count, 0);
    test_post_numbers(the_system, ref, 40000);
    CHECK_DEPTHS(10000, 20000, 40000);
}

Test(depth, names_the_path_and_the_type)
{
    troupe_ref ref = test_spawn_doer(the_system, "slow");

    test_post_numbers(the_system, ref, 10000);
    cr_assert_str_eq(lines.source, "troupe://troupe/user/slow");
    cr_assert_not_null(strstr(lines.text, "(doer)"), "%s", lines.text);
}

Test(depth, is_told_again_after_it_was_below_half_of_the_mark)
{
    troupe_ref ref = test_spawn_doer(the_system, NULL);

    test_post_numbers(the_system, ref, 10000);
    test_run(the_system);
    test_post_numbers(the_system, ref, 10000);
    CHECK_DEPTHS(10000, 10000);
}

Test(depth, is_not_told_again_while_it_stays_above_half_of_the_mark)
{
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    static struct test_record record;
    struct test_record *where = &record;
    troupe_ref ref;
    troupe_run run;

    memset(&record, 0, sizeof record);
    options.arg = &where;
    options.arg_bytes = sizeof where;
    options.throughput = 1;
    cr_assert_eq(
        troupe_system_spawn(the_system, &test_recorder, &options, &ref),
        TROUPE_OK);
    test_post_numbers(the_system, ref, 10000);
    cr_assert_eq(troupe_system_run(the_system, 3000, &run), TROUPE_OK);
    test_post_numbers(the_system, ref, 5000);
    CHECK_DEPTHS(10000);
    cr_assert_eq(troupe_post_stop_now(the_system, ref), TROUPE_OK);
}

Test(depth, of_the_mark_is_an_option_of_the_system)
{
    test_close(the_system);
    open_with(3);
    test_post_numbers(the_system, test_spawn_doer(the_system, NULL), 7);
    CHECK_DEPTHS(3, 6);
}

Test(depth, may_be_told_never)
{
    test_close(the_system);
    open_with(TROUPE_WARN_NEVER);
    test_post_numbers(the_system, test_spawn_doer(the_system, NULL), 50000);
    cr_assert_eq(lines.count, 0);
}

static double
rank_none(const troupe_msg *msg, void *user)
{
    (void)msg;
    (void)user;
    return 0;
}

Test(depth, of_the_mark_is_an_option_of_the_mailbox)
{
    troupe_mailbox_options options = TROUPE_INIT(troupe_mailbox_options);

    options.warn_depth = 5;
    test_post_numbers(
        the_system, test_spawn_doer_with(the_system, &options), 11);
    CHECK_DEPTHS(5, 10);
    lines.count = 0;
    options.priority = rank_none;
    test_post_numbers(
        the_system, test_spawn_doer_with(the_system, &options), 11);
    CHECK_DEPTHS(5, 10);
    lines.count = 0;
    options.warn_depth = TROUPE_WARN_NEVER;
    test_post_numbers(
        the_system, test_spawn_doer_with(the_system, &options), 20000);
    cr_assert_eq(lines.count, 0);
}

Test(depth, of_a_low_mark_is_told_again_as_well)
{
    troupe_mailbox_options options = TROUPE_INIT(troupe_mailbox_options);

    for (uint32_t mark = 2; mark < 8; mark++) {
        for (int kind = 0; kind < 2; kind++) {
            troupe_ref ref;

            options.warn_depth = mark;
            options.priority = kind == 0 ? NULL : rank_none;
            ref = test_spawn_doer_with(the_system, &options);
            lines.count = 0;
            for (int i = 0; i < 3; i++) {
                test_post_numbers(the_system, ref, mark);
                test_run(the_system);
            }
            CHECK_DEPTHS(mark, mark, mark);
        }
    }
}

Test(depth, of_a_bounded_mailbox_below_the_mark_is_never_told)
{
    troupe_mailbox_options options = TROUPE_INIT(troupe_mailbox_options);

    options.capacity = 9999;
    options.overflow = TROUPE_OVERFLOW_DROP_NEW;
    test_post_numbers(
        the_system, test_spawn_doer_with(the_system, &options), 20000);
    cr_assert_eq(lines.count, 0);
    options.capacity = 10000;
    test_post_numbers(
        the_system, test_spawn_doer_with(the_system, &options), 20000);
    CHECK_DEPTHS(10000);
}
