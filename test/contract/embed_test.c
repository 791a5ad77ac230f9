/* SPDX-License-Identifier: MIT */
#include "support/system.h"

#include "support/await.h"
#include "support/census.h"

#include <criterion/criterion.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a host finds changed after it has used the library: nothing. */

static void
live_a_little(uint32_t workers)
{
    troupe_system *system = test_open_threads(workers);
    static struct test_record record;
    troupe_ref ref = test_spawn_recorder(system, NULL, &record);

    for (uint64_t i = 0; i < 100; i++) {
        test_post_number(system, ref, i);
    }
    cr_assert_eq(troupe_system_await_idle(system, TROUPE_S(60)), TROUPE_OK);
    record.count = 0;
    test_close(system);
}

Test(embed, the_signal_mask_of_the_caller_stays)
{
    sigset_t mine;
    sigset_t before;
    sigset_t after;

    sigemptyset(&mine);
    sigaddset(&mine, SIGUSR1);
    sigaddset(&mine, SIGTERM);
    cr_assert_eq(pthread_sigmask(SIG_SETMASK, &mine, &before), 0);
    live_a_little(3);
    cr_assert_eq(pthread_sigmask(SIG_SETMASK, &before, &after), 0);
    for (int i = 1; i <= SIGRTMAX; i++) {
        cr_assert_eq(sigismember(&mine, i), sigismember(&after, i), "%d", i);
    }
}

static void
signals_caught(char *text, size_t bytes)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];

    text[0] = '\0';
    cr_assert_not_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "SigCgt", 6) == 0) {
            (void)snprintf(text, bytes, "%s", line);
        }
    }
    (void)fclose(file);
    cr_assert_neq(text[0], '\0');
}

Test(embed, no_signal_handler_is_installed)
{
    char before[256];
    char after[256];
    troupe_system *system;

    signals_caught(before, sizeof before);
    system = test_open_threads(2);
    signals_caught(after, sizeof after);
    cr_assert_str_eq(before, after);
    test_close(system);
    signals_caught(after, sizeof after);
    cr_assert_str_eq(before, after);
}

static _Atomic uint64_t caught;
static pthread_t caught_by;

static void catch (int number)
{
    (void)number;
    caught_by = pthread_self();
    atomic_fetch_add(&caught, 1);
}

Test(embed, signals_of_the_process_reach_a_thread_of_the_host)
{
    static const int numbers[] = {SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2,
        SIGPIPE, SIGALRM, SIGTERM, SIGCHLD, SIGURG, SIGWINCH, SIGIO};
    struct sigaction action;
    troupe_system *system = test_open_threads(4);

    memset(&action, 0, sizeof action);
    action.sa_handler = catch;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        sigset_t one;

        cr_assert_eq(sigaction(numbers[i], &action, NULL), 0);
        sigemptyset(&one);
        sigaddset(&one, numbers[i]);
        cr_assert_eq(pthread_sigmask(SIG_UNBLOCK, &one, NULL), 0);
        cr_assert_eq(kill(getpid(), numbers[i]), 0);
        cr_assert(test_await_at_least(&caught, i + 1), "%d", numbers[i]);
    }
    test_close(system);
}

Test(embed, the_affinity_of_the_caller_stays)
{
    cpu_set_t before;
    cpu_set_t after;

    cr_assert_eq(sched_getaffinity(0, sizeof before, &before), 0);
    live_a_little(2);
    cr_assert_eq(sched_getaffinity(0, sizeof after, &after), 0);
    cr_assert(CPU_EQUAL(&before, &after));
}

struct posting {
    troupe_system *system;
    troupe_ref ref;
};

static void *
post_once(void *user)
{
    struct posting *posting = user;

    test_post_number(posting->system, posting->ref, 1);
    return NULL;
}

Test(embed, short_lived_foreign_threads_leave_nothing_behind)
{
    struct posting posting = {test_open_threads(2), TROUPE_NONE};
    static struct test_record record;
    struct test_census before;
    uint64_t bytes;

    posting.ref = test_spawn_recorder(posting.system, NULL, &record);
    cr_assert_eq(
        troupe_system_await_idle(posting.system, TROUPE_S(60)), TROUPE_OK);
    before = test_census();
    bytes = test_memory.live_bytes;
    for (int i = 0; i < 500; i++) {
        pthread_t thread;

        cr_assert_eq(pthread_create(&thread, NULL, post_once, &posting), 0);
        cr_assert_eq(pthread_join(thread, NULL), 0);
    }
    cr_assert_eq(
        troupe_system_await_idle(posting.system, TROUPE_S(60)), TROUPE_OK);
    cr_assert_eq(record.count, 500);
    cr_assert(test_census_is(before));
    cr_assert_eq(test_memory.live_bytes, bytes);
    test_close(posting.system);
}

Test(embed, many_systems_one_after_the_other_leave_nothing_behind)
{
    struct test_census before;

    live_a_little(2);
    before = test_census();
    for (int i = 0; i < 100; i++) {
        live_a_little(2);
    }
    cr_assert(test_census_is(before));
    cr_assert_leq(test_census().mappings, before.mappings + 8);
}

#ifndef __SANITIZE_ADDRESS__ /* looks for leaks while workers run */

/* --- the end of the process ----------------------------------------------- */

static int
status_of_child(void (*what)(void))
{
    int status;
    pid_t child = fork();

    cr_assert_geq(child, 0);
    if (child == 0) {
        (void)alarm(600);
        what();
        _exit(99);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status), "killed by signal %d", WTERMSIG(status));
    return WEXITSTATUS(status);
}

static troupe_verdict
exit_inside(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)self;
    (void)msg;
    (void)user;
    exit(7);
}

static void
let_a_behaviour_exit(void)
{
    troupe_system *system = test_open_threads(2);

    test_do_later(system, test_spawn_doer(system, NULL), exit_inside, NULL);
    (void)test_await_at_least(&caught, UINT64_MAX); /* does not come */
}

Test(embed, a_behaviour_may_end_the_process)
{
    cr_assert_eq(status_of_child(let_a_behaviour_exit), 7);
}

static void
return_without_stopping(void)
{
    (void)test_open_threads(2);
    exit(8);
}

Test(embed, the_process_may_end_without_a_stop)
{
    cr_assert_eq(status_of_child(return_without_stopping), 8);
}

#endif

/* --- stack ---------------------------------------------------------------- */

static troupe_verdict
use_stack(troupe_self *self, const troupe_msg *msg, void *user)
{
    volatile unsigned char large[512 * 1024];

    (void)self;
    (void)msg;
    for (size_t i = 0; i < sizeof large; i += 1024) {
        large[i] = (unsigned char)i;
    }
    *(_Atomic uint64_t *)user = large[1024] + UINT64_C(1);
    return TROUPE_CONTINUE;
}

Test(embed, a_behaviour_has_half_a_mebibyte_of_stack_by_default)
{
    troupe_system *system = test_open_threads(1);

    test_do_later(system, test_spawn_doer(system, NULL), use_stack, &caught);
    cr_assert(test_await_at_least(&caught, 1));
    test_close(system);
}
