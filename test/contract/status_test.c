/* SPDX-License-Identifier: MIT */
#include "support/system.h"

#include <criterion/criterion.h>

#include <string.h>

/* The numbers are a promise: they are written down here a second time. */
static const struct {
    troupe_status status;
    int number;
    const char *name;
    const char *text;
} promised[] = {
    {TROUPE_OK, 0, "TROUPE_OK", "success"},
    {TROUPE_E_INVALID, -1, "TROUPE_E_INVALID", "invalid argument"},
    {TROUPE_E_NOMEM, -2, "TROUPE_E_NOMEM", "out of memory"},
    {TROUPE_E_FULL, -3, "TROUPE_E_FULL", "mailbox is full"},
    {TROUPE_E_DEAD, -4, "TROUPE_E_DEAD", "actor has stopped"},
    {TROUPE_E_CLOSED, -5, "TROUPE_E_CLOSED", "system is shutting down"},
    {TROUPE_E_TIMEOUT, -6, "TROUPE_E_TIMEOUT", "deadline passed"},
    {TROUPE_E_CANCELLED, -7, "TROUPE_E_CANCELLED", "operation was cancelled"},
    {TROUPE_E_STATE, -8, "TROUPE_E_STATE", "not allowed in this state"},
    {TROUPE_E_CONTEXT, -9, "TROUPE_E_CONTEXT", "not allowed on this thread"},
    {TROUPE_E_EXISTS, -10, "TROUPE_E_EXISTS", "name is taken"},
    {TROUPE_E_MISSING, -11, "TROUPE_E_MISSING", "not found"},
    {TROUPE_E_ENV, -12, "TROUPE_E_ENV", "environment variable has a bad value"},
    {TROUPE_E_VERSION, -13, "TROUPE_E_VERSION",
        "options are newer than this library"},
    {TROUPE_E_SYSTEM, -14, "TROUPE_E_SYSTEM", "operating system error"},
    {TROUPE_E_FAILED, -15, "TROUPE_E_FAILED",
        "the other side reported a failure"},
    {TROUPE_E_OPEN, -16, "TROUPE_E_OPEN", "circuit breaker is open"},
    {TROUPE_E_NO_ROUTE, -17, "TROUPE_E_NO_ROUTE", "router has no live routee"},
    {TROUPE_E_LIMIT, -18, "TROUPE_E_LIMIT", "limit reached"},
    {TROUPE_E_FORKED, -19, "TROUPE_E_FORKED",
        "system belongs to the parent process"},
};

Test(status, every_code_has_its_number_name_and_text)
{
    size_t count = 0;

#define COUNT(name, value, text) count++;
    TROUPE_STATUS_MAP(COUNT)
#undef COUNT
    cr_assert_eq(count, sizeof promised / sizeof *promised);
    for (size_t i = 0; i < count; i++) {
        cr_assert_eq((int)promised[i].status, promised[i].number);
        cr_assert_str_eq(
            troupe_status_name(promised[i].status), promised[i].name);
        cr_assert_str_eq(
            troupe_status_text(promised[i].status), promised[i].text);
    }
}

Test(status, an_unknown_code_still_has_a_name_and_a_text)
{
    static const int unknown[] = {1, -20, 1000, -1000};

    for (size_t i = 0; i < 4; i++) {
        cr_assert_not_null(troupe_status_name((troupe_status)unknown[i]));
        cr_assert_neq(strlen(troupe_status_text((troupe_status)unknown[i])), 0);
    }
}

Test(status, nothing_is_recorded_before_the_first_refusal)
{
    cr_assert_str_eq(troupe_last_error().call, "");
    cr_assert_str_eq(troupe_last_error().option, "");
    cr_assert_str_eq(troupe_last_error().value, "");
}

static void
refuse_something(void)
{
    troupe_system_options options = test_options();
    troupe_system *system = NULL;

    options.workers = 100000;
    cr_assert_eq(troupe_system_create(&options, &system), TROUPE_E_INVALID);
}

Test(status, a_refusal_is_recorded_with_call_option_rule_and_value)
{
    troupe_error error;

    refuse_something();
    error = troupe_last_error();
    cr_assert_eq(error.status, TROUPE_E_INVALID);
    cr_assert_str_eq(error.call, "troupe_system_create");
    cr_assert_str_eq(error.option, "workers");
    cr_assert_not_null(strstr(error.rule, "between"));
    cr_assert_str_eq(error.value, "100000");
    cr_assert_eq(error.os_error, 0);
}

Test(status, explain_is_one_line_for_people)
{
    char text[200];

    refuse_something();
    cr_assert_eq(
        troupe_explain(TROUPE_E_INVALID, text, sizeof text), strlen(text));
    cr_assert_eq(strncmp(text, "troupe_system_create: workers must ", 35), 0);
    cr_assert_not_null(strstr(text, "(got 100000)"));
    cr_assert_null(strchr(text, '\n'));
}

Test(status, success_does_not_clear_the_record)
{
    troupe_system *system;

    refuse_something();
    system = test_open_driven(0);
    test_post_number(system, test_spawn_doer(system, NULL), 1);
    test_run(system);
    test_close(system);
    cr_assert_str_eq(troupe_last_error().option, "workers");
}

Test(status, a_refusal_of_traffic_is_not_recorded)
{
    troupe_system *system = test_open_driven(0);
    troupe_ref doer = test_spawn_doer(system, NULL);

    cr_assert_eq(troupe_post_stop(system, doer), TROUPE_OK);
    test_run(system);
    refuse_something();
    cr_assert_eq(
        troupe_post(system, doer, &test_number, &(uint64_t){1}), TROUPE_E_DEAD);
    cr_assert_str_eq(troupe_last_error().option, "workers");
    cr_assert_eq(troupe_last_error().status, TROUPE_E_INVALID);
    test_close(system);
}

static troupe_verdict
fail_inside(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    cr_assert_eq(
        troupe_send(self, TROUPE_NONE, &test_empty, NULL), TROUPE_E_INVALID);
    *(troupe_error *)user = troupe_last_error();
    return TROUPE_CONTINUE;
}

Test(status, it_works_inside_behaviours)
{
    troupe_system *system = test_open_threads(2);
    troupe_error error;

    memset(&error, 0, sizeof error);
    test_do_later(system, test_spawn_doer(system, NULL), fail_inside, &error);
    cr_assert_eq(troupe_system_await_idle(system, TROUPE_S(60)), TROUPE_OK);
    cr_assert_eq(error.status, TROUPE_E_INVALID);
    cr_assert_str_eq(error.call, "troupe_send");
    /* It happened on another thread. */
    cr_assert_str_eq(troupe_last_error().call, "");
    test_close(system);
}
