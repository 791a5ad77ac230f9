/* SPDX-License-Identifier: MIT */
#include "support/system.h"

#include "support/await.h"
#include "support/census.h"

#include <criterion/criterion.h>

#include <dirent.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What a host finds changed after it has used the library: nothing. */

static void
live_a_little(uint32_t workers)
{
    troupe_system *system = test_open_threads(workers);
    static struct test_record record;
    troupe_ref ref = test_spawn_recorder(system, NULL, &record);

    test_post_numbers(system, ref, 100);
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

static const int numbers[] = {SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2,
    SIGPIPE, SIGALRM, SIGTERM, SIGCHLD, SIGURG, SIGWINCH, SIGIO};
static _Atomic uint64_t caught;

static void catch (int number)
{
    (void)number;
    atomic_fetch_add(&caught, 1);
}

/* The status of a thread if that is its name, else false. */
static bool
blocked_by(const char *task, const char *name, unsigned long long *mask)
{
    char path[300];
    char line[256];
    bool is_it = false;
    FILE *file;

    (void)snprintf(path, sizeof path, "/proc/self/task/%s/status", task);
    file = fopen(path, "r");
    if (file == NULL) {
        return false;
    }
    while (fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "Name:\t", 6) == 0) {
            is_it = strcmp(line + 6, name) == 0;
        } else if (strncmp(line, "SigBlk:\t", 8) == 0) {
            *mask = strtoull(line + 8, NULL, 16);
        }
    }
    (void)fclose(file);
    return is_it;
}

/* What the thread of this name blocks; there has to be one. */
static unsigned long long
blocked_by_thread(const char *name)
{
    unsigned long long mask = 0;
    bool found = false;
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;

    cr_assert_not_null(tasks);
    while (!found && (task = readdir(tasks)) != NULL) {
        found = task->d_name[0] != '.' && blocked_by(task->d_name, name, &mask);
    }
    (void)closedir(tasks);
    cr_assert(found, "no thread %s", name);
    return mask;
}

Test(embed, signals_of_the_process_reach_a_thread_of_the_host)
{
    struct sigaction action;
    troupe_system *system = test_open_threads(4);

    for (int i = 0; i < 4; i++) {
        unsigned long long mask;
        char name[16];

        (void)snprintf(name, sizeof name, "troupe/w%d", i);
        mask = blocked_by_thread(name);
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
            cr_assert_neq(
                mask >> (numbers[k] - 1) & 1, 0, "%s, %d", name, numbers[k]);
        }
    }
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

Test(embed, workers_are_named_after_their_system)
{
    troupe_system_options options = test_options();
    troupe_system *system;

    options.name = "warehouse"; /* cut to 7: Linux has 15 bytes */
    options.workers = 2;
    system = test_open(&options);
    (void)blocked_by_thread("warehou/w0");
    (void)blocked_by_thread("warehou/w1");
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

static troupe_verdict
exit_inside(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)self;
    (void)msg;
    (void)user;
    exit(7);
}

static int
let_a_behaviour_exit(void)
{
    troupe_system *system = test_open_threads(2);

    test_do_later(system, test_spawn_doer(system, NULL), exit_inside, NULL);
    (void)test_await_at_least(&caught, UINT64_MAX); /* does not come */
    return 99;
}

Test(embed, a_behaviour_may_end_the_process)
{
    cr_assert_eq(test_in_child(let_a_behaviour_exit), 7);
}

static int
return_without_stopping(void)
{
    (void)test_open_threads(2);
    exit(8);
}

Test(embed, the_process_may_end_without_a_stop)
{
    cr_assert_eq(test_in_child(return_without_stopping), 8);
}

#endif

/* --- stack ---------------------------------------------------------------- */

static _Atomic uint64_t stack_bytes;

static troupe_verdict
measure_stack(troupe_self *self, const troupe_msg *msg, void *user)
{
    pthread_attr_t attributes;
    void *address;
    size_t bytes = 0;

    (void)self;
    (void)msg;
    (void)user;
    test_require(pthread_getattr_np(pthread_self(), &attributes) == 0);
    test_require(pthread_attr_getstack(&attributes, &address, &bytes) == 0);
    test_require(pthread_attr_destroy(&attributes) == 0);
    atomic_store(&stack_bytes, bytes);
    return TROUPE_CONTINUE;
}

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

Test(embed, stacks_are_as_large_as_asked_for)
{
    troupe_system_options options = test_options();
    struct {
        uint64_t ask;
        uint64_t least;
    } sizes[] = {{1, (uint64_t)PTHREAD_STACK_MIN}, {3 << 20, 3 << 20}};

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        troupe_system *system;

        options.workers = 1;
        options.stack_bytes = sizes[i].ask;
        system = test_open(&options);
        atomic_store(&stack_bytes, 0);
        test_do_later(
            system, test_spawn_doer(system, NULL), measure_stack, NULL);
        cr_assert_eq(troupe_system_await_idle(system, TROUPE_S(60)), TROUPE_OK);
        cr_assert_geq(stack_bytes, sizes[i].least);
        cr_assert_lt(stack_bytes, sizes[i].least + (1 << 20));
        test_close(system);
    }
}

Test(embed, a_behaviour_has_half_a_mebibyte_of_stack_by_default)
{
    troupe_system *system = test_open_threads(1);

    test_do_later(system, test_spawn_doer(system, NULL), use_stack, &caught);
    cr_assert(test_await_at_least(&caught, 1));
    test_close(system);
}
