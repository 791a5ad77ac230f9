/* SPDX-License-Identifier: MIT */
#include "base/error.h"

#include <criterion/criterion.h>

#include <errno.h>
#include <pthread.h>
#include <string.h>

/* troupe_last_error() and troupe_explain() of what trp_refuse() recorded. */

Test(base_error, a_new_thread_has_nothing_recorded)
{
    troupe_error error = troupe_last_error();

    cr_assert_eq(error.status, TROUPE_OK);
    cr_assert_eq(error.os_error, 0);
    cr_assert_str_eq(error.call, "");
    cr_assert_str_eq(error.option, "");
    cr_assert_str_eq(error.rule, "");
    cr_assert_str_eq(error.value, "");
}

Test(base_error, refuse_returns_its_status_and_records_all_parts)
{
    troupe_error error;

    cr_assert_eq(trp_refuse(TROUPE_E_INVALID, "troupe_x", "y",
                     "must be at least 1", "%d", 0),
        TROUPE_E_INVALID);
    error = troupe_last_error();
    cr_assert_eq(error.status, TROUPE_E_INVALID);
    cr_assert_str_eq(error.call, "troupe_x");
    cr_assert_str_eq(error.option, "y");
    cr_assert_str_eq(error.rule, "must be at least 1");
    cr_assert_str_eq(error.value, "0");
    cr_assert_eq(error.os_error, 0);
}

Test(base_error, a_long_value_is_cut_and_terminated)
{
    char text[100];
    troupe_error error;

    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    (void)trp_refuse(TROUPE_E_ENV, "c", "o", "r", "%s", text);
    error = troupe_last_error();
    cr_assert_eq(strlen(error.value), sizeof error.value - 1);
}

Test(base_error, errno_is_kept_for_system_errors_only)
{
    errno = EMFILE;
    (void)trp_refuse(TROUPE_E_SYSTEM, "c", "o", "r", "v");
    cr_assert_eq(troupe_last_error().os_error, EMFILE);
    errno = EMFILE;
    (void)trp_refuse(TROUPE_E_STATE, "c", "o", "r", "v");
    cr_assert_eq(troupe_last_error().os_error, 0);
}

Test(base_error, explain_says_call_option_rule_and_value)
{
    char text[100];
    size_t length;

    (void)trp_refuse(TROUPE_E_INVALID, "troupe_spawn", "mailbox.capacity",
        "must be at least 1", "%d", 0);
    length = troupe_explain(TROUPE_E_INVALID, text, sizeof text);
    cr_assert_str_eq(
        text, "troupe_spawn: mailbox.capacity must be at least 1 (got 0)");
    cr_assert_eq(length, strlen(text));
}

Test(base_error, explain_without_value_leaves_out_the_brackets)
{
    char text[100];

    (void)trp_refuse(
        TROUPE_E_STATE, "troupe_stop", "actor", "is a port", "%s", "");
    (void)troupe_explain(TROUPE_E_STATE, text, sizeof text);
    cr_assert_str_eq(text, "troupe_stop: actor is a port");
}

Test(base_error, explain_of_a_system_error_says_what_the_system_said)
{
    char text[200];

    errno = EMFILE;
    (void)trp_refuse(TROUPE_E_SYSTEM, "c", "o", "r", "v");
    (void)troupe_explain(TROUPE_E_SYSTEM, text, sizeof text);
    cr_assert_not_null(strstr(text, "Too many open files"), "%s", text);
}

Test(base_error, a_stale_record_does_not_mislead)
{
    char text[100];

    (void)trp_refuse(TROUPE_E_INVALID, "troupe_spawn", "x", "y", "z");
    (void)troupe_explain(TROUPE_E_DEAD, text, sizeof text);
    cr_assert_str_eq(text, "actor has stopped");
    (void)troupe_explain(TROUPE_OK, text, sizeof text);
    cr_assert_str_eq(text, "success");
}

Test(base_error, explain_cuts_and_still_says_the_length)
{
    char text[8];
    size_t length = troupe_explain(TROUPE_E_DEAD, NULL, 0);

    cr_assert_eq(length, strlen("actor has stopped"));
    cr_assert_eq(troupe_explain(TROUPE_E_DEAD, text, sizeof text), length);
    cr_assert_str_eq(text, "actor h");
    text[0] = 'x';
    cr_assert_eq(troupe_explain(TROUPE_E_DEAD, text, 0), length);
    cr_assert_eq(text[0], 'x');
    cr_assert_eq(troupe_explain(TROUPE_E_DEAD, text, 1), length);
    cr_assert_eq(text[0], '\0');
}

static void *
look(void *user)
{
    *(troupe_error *)user = troupe_last_error();
    return NULL;
}

Test(base_error, each_thread_has_its_own_record)
{
    troupe_error other;
    pthread_t thread;

    (void)trp_refuse(TROUPE_E_INVALID, "c", "o", "r", "v");
    cr_assert_eq(pthread_create(&thread, NULL, look, &other), 0);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    cr_assert_eq(other.status, TROUPE_OK);
    cr_assert_str_eq(other.call, "");
}
