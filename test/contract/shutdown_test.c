/* SPDX-License-Identifier: MIT */
#include "support/system.h"

#include "support/await.h"
#include "support/census.h"

#include <troupe/shutdown.h>

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* --- what happened, in order ---------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char trace[4096]; /* words */
static char lines[8192]; /* of the log */
static _Atomic uint64_t words;

static void
append(char *to, size_t bytes, const char *text, const char *end)
{
    size_t length;

    pthread_mutex_lock(&lock);
    length = strlen(to);
    (void)snprintf(to + length, bytes - length, "%s%s", text, end);
    pthread_mutex_unlock(&lock);
}

static void
note(const char *word)
{
    append(trace, sizeof trace, word, " ");
    atomic_fetch_add(&words, 1);
}

static void
keep_line(const troupe_log_line *line, void *user)
{
    (void)user;
    append(lines, sizeof lines, line->text, "\n");
}

#define IS_LOGGED(text) cr_assert_not_null(strstr(lines, text), "%s", lines)
#define IS_NOT_LOGGED(text) cr_assert_null(strstr(lines, text), "%s", lines)
#define HAPPENED(text) cr_assert_str_eq(trace, text)

/* --- systems -------------------------------------------------------------- */

static troupe_system *
open_logging(uint32_t workers, uint64_t seed, uint64_t grace_ns)
{
    troupe_system_options options = test_options();

    options.flags |= workers == 0 ? TROUPE_SYSTEM_DRIVEN : 0;
    options.workers = workers;
    options.seed = seed;
    options.stop_grace_ns = grace_ns;
    options.log.write = keep_line;
    options.log.max_level = TROUPE_LOG_INFO;
    return test_open(&options);
}

static troupe_status
say(troupe_system *system, const char *reason, void *user)
{
    (void)system;
    (void)reason;
    note(user);
    return TROUPE_OK;
}

static troupe_status
say_and_fail(troupe_system *system, const char *reason, void *user)
{
    (void)say(system, reason, user);
    return TROUPE_E_NO_ROUTE;
}

/* With a word of its own. */
static void
add(troupe_system *system, const char *phase, const char *word)
{
    cr_assert_eq(
        troupe_shutdown_add(system, phase, word, say, (void *)(uintptr_t)word),
        TROUPE_OK);
}

static void
add_fn(
    troupe_system *system, const char *phase, troupe_shutdown_fn fn, void *user)
{
    cr_assert_eq(
        troupe_shutdown_add(system, phase, "task", fn, user), TROUPE_OK);
}

struct names {
    const char *name[4];
};

static troupe_status
try_phase(troupe_system *system, const char *name, struct names after,
    struct names before)
{
    troupe_phase_options options = TROUPE_INIT(troupe_phase_options);

    options.name = name;
    options.after = after.name;
    options.before = before.name;
    return troupe_shutdown_add_phase(system, &options);
}

#define AFTER(...) ((struct names){{__VA_ARGS__}})
#define BEFORE(...) ((struct names){{__VA_ARGS__}})
#define NOBODY ((struct names){{NULL}})

/* With a task that says its name. */
static void
add_phase(troupe_system *system, const char *name, struct names after,
    struct names before)
{
    cr_assert_eq(try_phase(system, name, after, before), TROUPE_OK);
    add(system, name, name);
}

static void
add_built_in(troupe_system *system)
{
    add(system, TROUPE_PHASE_STOP, "stop");
    add(system, TROUPE_PHASE_BEFORE_STOP, "before-stop");
    add(system, TROUPE_PHASE_SERVICE_STOP, "service-stop");
    add(system, TROUPE_PHASE_SERVICE_REQUESTS_DONE, "service-requests-done");
    add(system, TROUPE_PHASE_SERVICE_UNBIND, "service-unbind");
}

static void
timed_phase(troupe_system *system, const char *name, uint64_t timeout_ns,
    uint32_t flags)
{
    static const char *const before[] = {TROUPE_PHASE_SERVICE_UNBIND, NULL};
    troupe_phase_options options = TROUPE_INIT(troupe_phase_options);

    options.name = name;
    options.before = before;
    options.timeout_ns = timeout_ns;
    options.flags = flags;
    cr_assert_eq(troupe_shutdown_add_phase(system, &options), TROUPE_OK);
}

static void
say_stopped(troupe_self *self, void *state, const troupe_exit *why)
{
    (void)self;
    (void)state;
    (void)why;
    note("actor");
}

static const troupe_actor_type saying_type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "saying",
    .receive = test_ignore,
    .stop = say_stopped,
};

/* Says that it stops; it has started. */
static void
spawn_saying(troupe_system *system)
{
    troupe_ref ref = TROUPE_NONE;

    cr_assert_eq(
        troupe_system_spawn(system, &saying_type, NULL, &ref), TROUPE_OK);
    cr_assert_eq(troupe_system_await_idle(system, TROUPE_S(60)), TROUPE_OK);
}

/* --- order ---------------------------------------------------------------- */

Test(shutdown, phases_run_in_order_and_then_the_actors_stop)
{
    troupe_system *system = test_open_driven(0);

    spawn_saying(system);
    add_built_in(system);
    troupe_system_request_stop(system);
    HAPPENED("");
    test_run(system);
    HAPPENED("service-unbind service-requests-done service-stop before-stop "
             "stop actor ");
    test_close(system);
}

Test(shutdown, stop_and_destroy_run_them_too)
{
    for (uint32_t workers = 0; workers < 3; workers++) {
        troupe_system *system = open_logging(workers, 0, 0);

        memset(trace, 0, sizeof trace);
        add_built_in(system);
        if (workers == 1) {
            cr_assert_eq(troupe_system_stop(system), TROUPE_OK);
        }
        cr_assert_eq(troupe_system_destroy(system), TROUPE_OK);
        HAPPENED("service-unbind service-requests-done service-stop "
                 "before-stop stop ");
    }
    cr_assert(test_alloc_is_empty(&test_memory));
}

Test(shutdown, tasks_of_a_driven_phase_run_in_the_order_of_adding)
{
    troupe_system *system = test_open_driven(7);

    add(system, TROUPE_PHASE_SERVICE_STOP, "z");
    add(system, TROUPE_PHASE_SERVICE_STOP, "a");
    add(system, TROUPE_PHASE_SERVICE_STOP, "m");
    troupe_system_request_stop(system);
    test_run(system);
    HAPPENED("z a m ");
    test_close(system);
}

Test(shutdown, a_phase_that_names_nobody_comes_after_before_stop)
{
    troupe_system *system = test_open_driven(0);

    add_phase(system, "a-early", NOBODY, NOBODY);
    cr_assert_eq(try_phase(system, "zz", NOBODY, NOBODY), TROUPE_OK);
    add(system, "zz", "zz");
    add_built_in(system);
    test_close(system);
    HAPPENED("service-unbind service-requests-done service-stop before-stop "
             "a-early zz stop ");
}

Test(shutdown, a_phase_runs_right_after_those_it_names)
{
    troupe_system *system = test_open_driven(0);

    add_built_in(system);
    add_phase(system, "flush-x", AFTER(TROUPE_PHASE_SERVICE_UNBIND), NOBODY);
    add_phase(system, "a", AFTER("flush-x", TROUPE_PHASE_SERVICE_STOP), NOBODY);
    add_phase(system, "zz", AFTER(TROUPE_PHASE_BEFORE_STOP), NOBODY);
    test_close(system);
    HAPPENED("service-unbind flush-x service-requests-done service-stop a "
             "before-stop zz stop ");
}

Test(shutdown, a_phase_with_before_only_runs_right_before_it)
{
    troupe_system *system = test_open_driven(0);

    add_built_in(system);
    add_phase(system, "zz", NOBODY, BEFORE(TROUPE_PHASE_SERVICE_UNBIND));
    add_phase(system, "y", NOBODY,
        BEFORE(TROUPE_PHASE_STOP, TROUPE_PHASE_SERVICE_STOP));
    add_phase(system, "x", NOBODY, BEFORE("y"));
    test_close(system);
    HAPPENED("zz service-unbind service-requests-done x y service-stop "
             "before-stop stop ");
}

/* Added later, it still goes between two that were independent. */
Test(shutdown, a_phase_between_two_puts_them_in_order)
{
    troupe_system *system = test_open_driven(0);

    add_phase(system, "x", AFTER(TROUPE_PHASE_SERVICE_UNBIND), NOBODY);
    add_phase(system, "y", AFTER(TROUPE_PHASE_SERVICE_UNBIND), NOBODY);
    add_phase(system, "later", AFTER("x"), NOBODY);
    add_phase(system, "between", AFTER("y"), BEFORE("x"));
    test_close(system);
    HAPPENED("y between x later ");
}

/* --- what is refused ------------------------------------------------------ */

static void
is_refused(troupe_status status, troupe_status wanted, const char *option,
    const char *value)
{
    troupe_error error = troupe_last_error();

    cr_assert_eq(status, wanted, "%s", troupe_status_name(status));
    cr_assert_eq(error.status, wanted);
    cr_assert_str_eq(error.option, option);
    if (value != NULL) {
        cr_assert_str_eq(error.value, value);
    }
}

TEST_DRIVEN_SUITE(shutdown_refusals);

Test(shutdown_refusals, cycles_name_both_ends)
{
    static const char both[] = "before and after";

    add_phase(the_system, "x", AFTER(TROUPE_PHASE_SERVICE_UNBIND), NOBODY);
    add_phase(the_system, "y", AFTER("x"), NOBODY);
    is_refused(try_phase(the_system, "z", AFTER("x"), BEFORE("x")),
        TROUPE_E_INVALID, both, "x, x");
    is_refused(try_phase(the_system, "z", AFTER("y"), BEFORE("x")),
        TROUPE_E_INVALID, both, "x, y");
    is_refused(
        try_phase(the_system, "z", AFTER(TROUPE_PHASE_SERVICE_UNBIND, "y"),
            BEFORE(TROUPE_PHASE_STOP, TROUPE_PHASE_SERVICE_UNBIND)),
        TROUPE_E_INVALID, both, "service-unbind, service-unbind");
    /* Nothing of it stays: */
    add_phase(the_system, "z", AFTER("x"), BEFORE("y"));
    add_phase(the_system, "first", NOBODY, BEFORE("x"));
    is_refused(try_phase(the_system, "w", AFTER("y"), BEFORE("first")),
        TROUPE_E_INVALID, both, "first, y");
    cr_assert_eq(troupe_system_stop(the_system), TROUPE_OK);
    HAPPENED("first x z y ");
}

Test(shutdown_refusals, unknown_and_taken_names)
{
    is_refused(try_phase(the_system, "x", AFTER("nobody"), NOBODY),
        TROUPE_E_MISSING, "after", "nobody");
    is_refused(try_phase(the_system, "x", NOBODY, BEFORE("nobody")),
        TROUPE_E_MISSING, "before", "nobody");
    is_refused(try_phase(the_system, "x", AFTER("x"), NOBODY), TROUPE_E_MISSING,
        "after", "x");
    is_refused(try_phase(the_system, "x", AFTER(TROUPE_PHASE_STOP), NOBODY),
        TROUPE_E_INVALID, "after", "stop");
    is_refused(try_phase(the_system, TROUPE_PHASE_STOP, NOBODY, NOBODY),
        TROUPE_E_EXISTS, "name", "stop");
    add_phase(the_system, "x", NOBODY, NOBODY);
    is_refused(try_phase(the_system, "x", NOBODY, NOBODY), TROUPE_E_EXISTS,
        "name", "x");
}

Test(shutdown_refusals, options_of_a_phase)
{
    troupe_phase_options options = TROUPE_INIT(troupe_phase_options);
    char long_name[65];

    memset(long_name, 'n', 64);
    long_name[64] = '\0';
    is_refused(troupe_shutdown_add_phase(the_system, &options),
        TROUPE_E_INVALID, "name", "NULL");
    options.name = "";
    is_refused(troupe_shutdown_add_phase(the_system, &options),
        TROUPE_E_INVALID, "name", "");
    options.name = long_name;
    is_refused(troupe_shutdown_add_phase(the_system, &options),
        TROUPE_E_INVALID, "name", NULL);
    options.name = &long_name[1];
    options.flags = 2;
    is_refused(troupe_shutdown_add_phase(the_system, &options),
        TROUPE_E_INVALID, "flags", "0x2");
    options.flags = 0;
    options.reserved = 3;
    is_refused(troupe_shutdown_add_phase(the_system, &options),
        TROUPE_E_INVALID, "reserved", "0x3");
    options.reserved = 0;
    cr_assert_eq(troupe_shutdown_add_phase(the_system, &options), TROUPE_OK);
    cr_assert_eq(troupe_shutdown_add_phase(the_system, NULL), TROUPE_E_INVALID);
    cr_assert_eq(troupe_shutdown_add_phase(NULL, &options), TROUPE_E_INVALID);
}

Test(shutdown_refusals, there_are_at_most_64_phases)
{
    char name[8];

    for (uint32_t i = 5; i < 64; i++) {
        (void)snprintf(name, sizeof name, "p%u", i);
        cr_assert_eq(try_phase(the_system, name, NOBODY, NOBODY), TROUPE_OK);
    }
    is_refused(try_phase(the_system, "one-more", NOBODY, NOBODY),
        TROUPE_E_LIMIT, "name", NULL);
    add(the_system, "p63", "last");
    add(the_system, TROUPE_PHASE_STOP, "stop");
    cr_assert_eq(troupe_system_stop(the_system), TROUPE_OK);
    HAPPENED("last stop ");
}

Test(shutdown_refusals, tasks)
{
    char name[65];

    memset(name, 'n', 64);
    name[64] = '\0';
    is_refused(troupe_shutdown_add(the_system, "nobody", "t", say, NULL),
        TROUPE_E_MISSING, "phase", "nobody");
    is_refused(troupe_shutdown_add(the_system, NULL, "t", say, NULL),
        TROUPE_E_INVALID, "phase", "NULL");
    is_refused(
        troupe_shutdown_add(the_system, TROUPE_PHASE_STOP, NULL, say, NULL),
        TROUPE_E_INVALID, "task", "NULL");
    is_refused(
        troupe_shutdown_add(the_system, TROUPE_PHASE_STOP, name, say, NULL),
        TROUPE_E_INVALID, "task", NULL);
    is_refused(
        troupe_shutdown_add(the_system, TROUPE_PHASE_STOP, "t", NULL, NULL),
        TROUPE_E_INVALID, "fn", "NULL");
    is_refused(troupe_shutdown_add(NULL, TROUPE_PHASE_STOP, "t", say, NULL),
        TROUPE_E_INVALID, "system", "NULL");
    add(the_system, TROUPE_PHASE_STOP, "t");
    is_refused(
        troupe_shutdown_add(the_system, TROUPE_PHASE_STOP, "t", say, NULL),
        TROUPE_E_EXISTS, "task", "t");
    add(the_system, TROUPE_PHASE_BEFORE_STOP, "t");
    cr_assert_eq(troupe_system_stop(the_system), TROUPE_OK);
    HAPPENED("t t ");
}

Test(shutdown_refusals, adding_once_a_stop_was_requested)
{
    troupe_system_request_stop(the_system);
    is_refused(
        troupe_shutdown_add(the_system, TROUPE_PHASE_STOP, "t", say, NULL),
        TROUPE_E_CLOSED, "system", NULL);
    is_refused(try_phase(the_system, "x", NOBODY, NOBODY), TROUPE_E_CLOSED,
        "system", NULL);
}

Test(shutdown_refusals, value_calls_take_null)
{
    troupe_shutdown_request(NULL, "reason");
    cr_assert_eq(troupe_shutdown_busy(NULL, NULL, 0), 0);
    cr_assert_eq(troupe_shutdown_busy(the_system, NULL, 5), 0);
}

/* --- the system meanwhile ------------------------------------------------- */

struct meanwhile {
    struct test_record record;
    troupe_ref recorder;
    troupe_status added, stopped, destroyed;
    uint32_t handled; /* inside a task */
    uint32_t done;
};

static troupe_status
work(troupe_system *system, const char *reason, void *user)
{
    static struct test_record other;
    struct meanwhile *meanwhile = user;
    troupe_ref ref;

    (void)reason;
    memset(&other, 0, sizeof other);
    ref = test_spawn_recorder(system, NULL, &other);
    test_post_number(system, ref, 1);
    test_post_number(system, meanwhile->recorder, 2);
    cr_assert_eq(troupe_system_await_idle(system, TROUPE_S(60)), TROUPE_OK);
    meanwhile->handled += other.count + meanwhile->record.count;
    cr_assert_eq(troupe_stop_wait(system, &ref, 1, TROUPE_S(60)), TROUPE_OK);
    meanwhile->handled += other.stopped;
    meanwhile->added =
        troupe_shutdown_add(system, TROUPE_PHASE_STOP, "more", say, NULL);
    troupe_system_request_stop(system);
    troupe_shutdown_request(system, "another reason");
    meanwhile->stopped = troupe_system_stop(system);
    meanwhile->destroyed = troupe_system_destroy(system);
    meanwhile->done++;
    return TROUPE_OK;
}

/* Posts, spawns and waits; asks again; and is told not to wait for itself. */
Test(shutdown, a_task_has_a_system_that_works)
{
    for (uint32_t workers = 0; workers < 3; workers++) {
        troupe_system *system = open_logging(workers, 0, 0);
        static struct meanwhile meanwhile;

        memset(&meanwhile, 0, sizeof meanwhile);
        meanwhile.recorder =
            test_spawn_recorder(system, NULL, &meanwhile.record);
        add_fn(system, TROUPE_PHASE_STOP, work, &meanwhile);
        cr_assert_eq(troupe_system_stop(system), TROUPE_OK);
        cr_assert_eq(meanwhile.done, 1);
        cr_assert_eq(meanwhile.handled, 3);
        cr_assert_eq(meanwhile.added, TROUPE_E_CLOSED);
        cr_assert_eq(meanwhile.stopped, TROUPE_E_CONTEXT);
        cr_assert_eq(meanwhile.destroyed, TROUPE_E_CONTEXT);
        cr_assert_eq(meanwhile.record.stopped, 1);
        IS_NOT_LOGGED("another reason");
        test_close(system);
    }
}

static troupe_status
stop_the_outer(troupe_system *system, const char *reason, void *user)
{
    (void)system;
    (void)reason;
    note(troupe_status_name(troupe_system_stop(user)));
    return TROUPE_OK;
}

static troupe_status
destroy_other(troupe_system *system, const char *reason, void *user)
{
    (void)reason;
    cr_assert_eq(troupe_system_destroy(user), TROUPE_OK);
    return troupe_system_stop(system) == TROUPE_E_CONTEXT ? TROUPE_OK
                                                          : TROUPE_E_FAILED;
}

Test(shutdown, a_task_may_stop_another_system)
{
    troupe_system *system = open_logging(0, 0, 0);
    troupe_system *other = open_logging(0, 0, 0);

    add_fn(other, TROUPE_PHASE_STOP, stop_the_outer, system);
    add_fn(system, TROUPE_PHASE_STOP, destroy_other, other);
    test_close(system);
    HAPPENED("TROUPE_E_CONTEXT ");
    IS_NOT_LOGGED("failed");
}

static troupe_status
leave_open(troupe_system *system, const char *reason, void *user)
{
    (void)reason;
    return troupe_port_open(system, NULL, user);
}

Test(shutdown, a_port_that_a_task_leaves_open_forbids_destroy)
{
    troupe_system *system = test_open_threads(1);
    troupe_port *port = NULL;

    add_fn(system, TROUPE_PHASE_SERVICE_STOP, leave_open, &port);
    cr_assert_eq(troupe_system_destroy(system), TROUPE_E_STATE);
    troupe_port_close(port);
    test_close(system);
}

/* --- results -------------------------------------------------------------- */

Test(shutdown, a_task_that_fails_is_logged_and_the_phases_go_on)
{
    for (uint32_t workers = 0; workers < 2; workers++) {
        troupe_system *system = open_logging(workers, 0, 0);

        memset(trace, 0, sizeof trace);
        memset(lines, 0, sizeof lines);
        cr_assert_eq(
            troupe_shutdown_add(system, TROUPE_PHASE_SERVICE_UNBIND, "listener",
                say_and_fail, (void *)(uintptr_t) "failing"),
            TROUPE_OK);
        add(system, TROUPE_PHASE_SERVICE_STOP, "next");
        test_close(system);
        HAPPENED("failing next ");
        IS_LOGGED("[shutdown] task listener of phase service-unbind failed: "
                  "TROUPE_E_NO_ROUTE");
    }
}

Test(shutdown, a_halting_phase_ends_the_phases_but_not_the_stop)
{
    for (uint32_t workers = 0; workers < 2; workers++) {
        troupe_system *system = open_logging(workers, 0, 0);

        memset(trace, 0, sizeof trace);
        memset(lines, 0, sizeof lines);
        spawn_saying(system);
        timed_phase(system, "going on", 0, 0);
        timed_phase(system, "first", TROUPE_FOREVER, TROUPE_PHASE_HALT);
        timed_phase(system, "halting", 0, TROUPE_PHASE_HALT);
        add_fn(system, "going on", say_and_fail, (void *)(uintptr_t) "failing");
        add(system, "first", "fine");
        add_fn(system, "halting", say_and_fail, (void *)(uintptr_t) "same");
        add(system, "halting", "same");
        add_built_in(system);
        test_close(system);
        HAPPENED("failing fine same same actor ");
        IS_LOGGED("phase halting has failed: the phases after it are left out");
    }
}

static troupe_status
take_reason(troupe_system *system, const char *reason, void *user)
{
    (void)system;
    (void)user;
    note(reason);
    return TROUPE_OK;
}

Test(shutdown, the_first_reason_is_kept_for_tasks_and_log)
{
    troupe_system *system = open_logging(0, 0, 0);

    add_fn(system, TROUPE_PHASE_STOP, take_reason, NULL);
    troupe_shutdown_request(system, "end of demo");
    troupe_shutdown_request(system, "too late");
    troupe_system_request_stop(system);
    test_close(system);
    HAPPENED("end of demo ");
    IS_LOGGED("[shutdown] begins: end of demo\n");
    IS_NOT_LOGGED("too late");
}

Test(shutdown, a_reason_may_be_missing_or_long)
{
    char reason[200];

    for (int i = 0; i < 3; i++) {
        troupe_system *system = open_logging(0, 0, 0);

        memset(trace, 0, sizeof trace);
        memset(reason, 'r', sizeof reason);
        reason[199] = '\0';
        add_fn(system, TROUPE_PHASE_STOP, take_reason, NULL);
        if (i == 0) {
            troupe_system_request_stop(system);
        } else {
            troupe_shutdown_request(system, i == 1 ? NULL : reason);
        }
        memset(reason, 0, sizeof reason); /* it is copied */
        test_close(system);
        if (i < 2) {
            HAPPENED("stop requested ");
        } else {
            cr_assert_eq(strspn(trace, "r"), 127);
        }
    }
}

Test(shutdown, a_failure_at_the_root_leads_there_too)
{
    static const troupe_supervision up = {
        .size = TROUPE_OPTIONS(troupe_supervision),
        .otherwise = TROUPE_DIRECTIVE_ESCALATE,
    };
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    troupe_system *system = open_logging(0, 0, 0);
    static struct test_record record = {.answer = TROUPE_FAILED};
    struct test_record *arg = &record;
    troupe_ref ref = TROUPE_NONE;

    options.name = "root";
    options.own = &up;
    options.arg = &arg;
    options.arg_bytes = sizeof arg;
    cr_assert_eq(
        troupe_system_spawn(system, &test_recorder, &options, &ref), TROUPE_OK);
    add_fn(system, TROUPE_PHASE_STOP, take_reason, NULL);
    test_post_number(system, ref, 1);
    test_run(system);
    HAPPENED("failed with code 0: troupe://troupe/user/root ");
    cr_assert_eq(record.stopped, 1);
    test_close(system);
}

/* --- late tasks, driven --------------------------------------------------- */

static troupe_status
take_time(troupe_system *system, const char *reason, void *user)
{
    const uint64_t *ns = user;

    (void)reason;
    cr_assert_eq(troupe_system_advance(system, *ns), TROUPE_OK);
    return TROUPE_OK;
}

Test(shutdown, time_is_virtual_in_a_simulation)
{
    static const uint64_t just = TROUPE_S(5), late = TROUPE_S(5) + 1;
    troupe_system *system = open_logging(0, 3, 0);

    add_fn(system, TROUPE_PHASE_SERVICE_UNBIND, take_time,
        (void *)(uintptr_t)&just);
    add_fn(
        system, TROUPE_PHASE_SERVICE_STOP, take_time, (void *)(uintptr_t)&late);
    add(system, TROUPE_PHASE_STOP, "goes on");
    test_close(system);
    HAPPENED("goes on ");
    IS_NOT_LOGGED("service-unbind timed out");
    IS_LOGGED("task task of phase service-stop timed out after 5000 ms");
}

Test(shutdown, a_late_task_halts_a_halting_phase)
{
    static const uint64_t late = TROUPE_MS(3);
    troupe_system *system = open_logging(0, 3, 0);

    timed_phase(system, "halting", TROUPE_MS(2), TROUPE_PHASE_HALT);
    add_fn(system, "halting", take_time, (void *)(uintptr_t)&late);
    add_built_in(system);
    test_close(system);
    HAPPENED("");
    IS_LOGGED("phase halting timed out after 2 ms");
}

/* --- driven: turns -------------------------------------------------------- */

Test(shutdown, each_task_is_a_turn)
{
    troupe_system *system = test_open_driven(0);
    troupe_run run;

    add_built_in(system);
    troupe_system_request_stop(system);
    for (uint32_t i = 1; i <= 4; i++) {
        cr_assert_eq(troupe_system_run(system, 1, &run), TROUPE_OK);
        cr_assert_eq(run.turns, 1);
        cr_assert_eq(run.runnable, 1);
        cr_assert_eq(words, i);
        cr_assert(test_is_readable(troupe_system_fd(system)));
    }
    cr_assert_eq(troupe_system_run(system, 1, &run), TROUPE_OK);
    cr_assert_eq(words, 5);
    cr_assert_eq(troupe_system_run(system, 0, &run), TROUPE_E_CLOSED);
    test_close(system);
}

static void *
request_outside(void *user)
{
    troupe_shutdown_request(user, "from outside");
    return NULL;
}

Test(shutdown, the_descriptor_says_that_a_task_waits)
{
    troupe_system *system = test_open_driven(0);
    pthread_t thread;

    add_built_in(system);
    test_run(system);
    cr_assert_not(test_is_readable(troupe_system_fd(system)));
    cr_assert_eq(pthread_create(&thread, NULL, request_outside, system), 0);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    cr_assert(test_is_readable(troupe_system_fd(system)));
    cr_assert_eq(troupe_system_run(system, 0, NULL), TROUPE_E_CLOSED);
    cr_assert_eq(words, 5);
    test_close(system);
}

static troupe_verdict
request_inside(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    troupe_shutdown_request(troupe_self_system(self), "from inside");
    note(user);
    return TROUPE_CONTINUE;
}

Test(shutdown, a_behaviour_may_request_it)
{
    troupe_system *system = test_open_driven(0);

    add_fn(system, TROUPE_PHASE_STOP, take_reason, NULL);
    test_do(system, test_spawn_doer(system, NULL), request_inside,
        (void *)(uintptr_t) "asked");
    HAPPENED("asked from inside ");
    test_close(system);
}

/* --- with threads --------------------------------------------------------- */

static _Atomic uint64_t inside;
static _Atomic uint64_t may_leave;

static troupe_status
stay(troupe_system *system, const char *reason, void *user)
{
    (void)system;
    (void)reason;
    (void)user;
    atomic_fetch_add(&inside, 1);
    return test_await_at_least(&may_leave, 1) ? TROUPE_OK : TROUPE_E_TIMEOUT;
}

Test(shutdown, without_tasks_a_stop_needs_no_thread_and_no_time)
{
    troupe_system *system = test_open_threads(2);
    struct test_census with_workers = test_census();
    troupe_ref ref = TROUPE_NONE;

    cr_assert_eq(
        try_phase(system, "empty", NOBODY, NOBODY), TROUPE_OK, "no task in it");
    troupe_system_request_stop(system);
    cr_assert_eq(troupe_system_spawn(system, &test_plain, NULL, &ref),
        TROUPE_E_CLOSED, "at once");
    cr_assert_leq(test_census().threads, with_workers.threads);
    test_close(system);
}

Test(shutdown, no_thread_is_there_before_a_stop_is_requested)
{
    troupe_system *system = test_open_threads(2);
    struct test_census with_workers = test_census();

    add_built_in(system);
    add_fn(system, TROUPE_PHASE_STOP, stay, NULL);
    cr_assert(test_census_is(with_workers));
    troupe_system_request_stop(system);
    cr_assert(test_await_at_least(&inside, 1));
    with_workers.threads += 2; /* who drives, and the task */
    cr_assert(test_census_is(with_workers));
    atomic_store(&may_leave, 1);
    test_close(system);
}

/* Each waits for the other. */
static troupe_status
meet(troupe_system *system, const char *reason, void *user)
{
    (void)system;
    (void)reason;
    (void)user;
    atomic_fetch_add(&inside, 1);
    return test_await_at_least(&inside, 3) ? TROUPE_OK : TROUPE_E_TIMEOUT;
}

Test(shutdown, tasks_of_a_phase_run_together)
{
    troupe_system *system = open_logging(1, 0, 0);
    static const char *const names[] = {"a", "b", "c"};

    timed_phase(system, "meeting", TROUPE_FOREVER, 0);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(
            troupe_shutdown_add(system, "meeting", names[i], meet, NULL),
            TROUPE_OK);
    }
    troupe_system_request_stop(system);
    cr_assert(test_await_at_least(&inside, 3));
    test_close(system);
    IS_NOT_LOGGED("failed");
}

static troupe_status
stay_and_say(troupe_system *system, const char *reason, void *user)
{
    troupe_status status = stay(system, reason, NULL);

    note(user);
    return status;
}

Test(shutdown, a_phase_begins_when_the_one_before_has_ended)
{
    troupe_system *system = test_open_threads(1);

    timed_phase(system, "slow", TROUPE_FOREVER, 0);
    add_fn(system, "slow", stay_and_say, (void *)(uintptr_t) "slow");
    add(system, "slow", "quick");
    add(system, TROUPE_PHASE_SERVICE_UNBIND, "next");
    troupe_system_request_stop(system);
    cr_assert(test_await_at_least(&inside, 1));
    cr_assert(test_await_at_least(&words, 1));
    HAPPENED("quick ");
    atomic_store(&may_leave, 1);
    test_close(system);
    HAPPENED("quick slow next ");
}

/* The one worker that asked goes on while the task waits for it. */
static troupe_verdict
request_and_go_on(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    (void)user;
    troupe_system_request_stop(troupe_self_system(self));
    cr_assert(test_await_at_least(&inside, 1));
    atomic_store(&may_leave, 1);
    return TROUPE_CONTINUE;
}

Test(shutdown, a_request_inside_a_behaviour_does_not_wait)
{
    troupe_system *system = open_logging(1, 0, 0);

    timed_phase(system, "slow", TROUPE_FOREVER, 0);
    add_fn(system, "slow", stay, NULL);
    test_do_later(
        system, test_spawn_doer(system, NULL), request_and_go_on, NULL);
    cr_assert_eq(troupe_system_wait(system, TROUPE_S(60)), TROUPE_OK);
    test_close(system);
    IS_NOT_LOGGED("failed");
}

Test(shutdown, wait_ends_with_the_request_and_not_with_the_phases)
{
    troupe_system *system = test_open_threads(1);

    timed_phase(system, "slow", TROUPE_FOREVER, 0);
    add_fn(system, "slow", stay, NULL);
    troupe_system_request_stop(system);
    cr_assert_eq(troupe_system_wait(system, TROUPE_FOREVER), TROUPE_OK);
    cr_assert_eq(inside <= 1, true);
    atomic_store(&may_leave, 1);
    test_close(system);
}

Test(shutdown, the_grace_covers_phases_and_who_runs_is_named)
{
    troupe_system *system = open_logging(2, 0, TROUPE_MS(20));
    struct test_record record = {0};
    troupe_ref ref = test_spawn_recorder(system, NULL, &record);
    char text[100];

    timed_phase(system, "slow", TROUPE_FOREVER, 0);
    add_fn(system, "slow", stay, NULL);
    cr_assert_eq(
        troupe_shutdown_add(system, "slow", "other", stay, NULL), TROUPE_OK);
    cr_assert_eq(troupe_shutdown_busy(system, text, sizeof text), 0);
    cr_assert_str_eq(text, "");
    troupe_system_request_stop(system);
    cr_assert(test_await_at_least(&inside, 2));
    cr_assert_eq(troupe_system_stop(system), TROUPE_E_TIMEOUT);
    IS_LOGGED("tasks of the shutdown still run after the grace period: "
              "slow/task, slow/other; 0 actors");
    cr_assert_eq(troupe_system_destroy(system), TROUPE_E_TIMEOUT);
    cr_assert_eq(troupe_shutdown_busy(system, text, sizeof text), 21);
    cr_assert_str_eq(text, "slow/task, slow/other");
    cr_assert_eq(troupe_shutdown_busy(system, text, 10), 21);
    cr_assert_str_eq(text, "slow/task");
    test_post_number(system, ref, 1); /* the actors were left alone */
    atomic_store(&may_leave, 1);
    while (troupe_system_stop(system) == TROUPE_E_TIMEOUT) {
    }
    cr_assert_eq(record.count, 1);
    cr_assert_eq(troupe_shutdown_busy(system, text, sizeof text), 0);
    test_close(system);
}

static bool
is_closed(void *user)
{
    return troupe_post(user, TROUPE_NONE, &test_empty, NULL) == TROUPE_E_CLOSED;
}

Test(shutdown, a_late_task_is_reported_left_and_waited_for_at_the_end)
{
    troupe_system *system = open_logging(1, 0, TROUPE_MS(20));
    char text[100];

    timed_phase(system, "slow", 1, 0);
    add_fn(system, "slow", stay_and_say, (void *)(uintptr_t) "late");
    add(system, TROUPE_PHASE_STOP, "next");
    spawn_saying(system);
    troupe_system_request_stop(system);
    cr_assert(test_await(is_closed, system), "the phases went on");
    cr_assert(test_await_at_least(&words, 2));
    HAPPENED("next actor ");
    IS_LOGGED("[shutdown] task task of phase slow timed out after 0 ms");
    cr_assert(test_await_at_least(&inside, 1));
    cr_assert_eq(troupe_system_stop(system), TROUPE_E_TIMEOUT);
    cr_assert_eq(troupe_system_destroy(system), TROUPE_E_TIMEOUT);
    cr_assert_gt(troupe_shutdown_busy(system, text, sizeof text), 0);
    cr_assert_str_eq(text, "slow/task");
    atomic_store(&may_leave, 1);
    while (troupe_system_stop(system) == TROUPE_E_TIMEOUT) {
    }
    test_close(system);
    HAPPENED("next actor late ");
}

static bool
is_named(void *user)
{
    char name[16];

    return pthread_getname_np(pthread_self(), name, sizeof name) == 0 &&
           strcmp(name, user) == 0;
}

/* Who starts a thread gives it its name when it may run already. */
static troupe_status
await_name(troupe_system *system, const char *reason, void *user)
{
    (void)system;
    (void)reason;
    note(test_await(is_named, user) ? "named" : "not named");
    return TROUPE_OK;
}

Test(shutdown, the_thread_of_a_task_has_its_name)
{
    troupe_system *system = test_open_threads(1);

    cr_assert_eq(troupe_shutdown_add(system, TROUPE_PHASE_STOP, "listener",
                     await_name, (void *)(uintptr_t) "troupe/listene"),
        TROUPE_OK);
    test_close(system);
    HAPPENED("named ");
}

Test(shutdown, many_requests_at_once_are_one)
{
    troupe_system *system = test_open_threads(2);
    pthread_t threads[8];

    add_built_in(system);
    for (int i = 0; i < 8; i++) {
        cr_assert_eq(
            pthread_create(&threads[i], NULL, request_outside, system), 0);
    }
    for (int i = 0; i < 8; i++) {
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
    }
    test_close(system);
    cr_assert_eq(words, 5);
}
