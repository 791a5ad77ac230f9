/* SPDX-License-Identifier: MIT */
#include "support/alloc.h"
#include "support/census.h"
#include "support/require.h"

#include <troupe/troupe.h>

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/timerfd.h>

/*
 * The system says no: calls of the library come here first (ld --wrap), and the
 * one whose turn it is fails.
 */

struct refusal {
    _Atomic uint32_t calls;
    _Atomic uint32_t nth; /* fails, counted from 1; 0 = none */
    bool and_later;       /* those after it, too */
    int error;
};

static struct refusal threads = {.error = EAGAIN};
static struct refusal descriptors = {.error = EMFILE};
static struct refusal mappings = {.error = ENOMEM};
static struct refusal protections = {.error = ENOMEM};

static bool
is_refused(struct refusal *refusal)
{
    uint32_t call = atomic_fetch_add(&refusal->calls, 1) + 1;
    uint32_t nth = atomic_load(&refusal->nth);

    return nth != 0 && (call == nth || (refusal->and_later && call > nth));
}

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
    void *(*run)(void *), void *user);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
    void *(*run)(void *), void *user);
int __real_eventfd(unsigned int value, int flags);
int __wrap_eventfd(unsigned int value, int flags);
int __real_timerfd_create(int clock, int flags);
int __wrap_timerfd_create(int clock, int flags);
int __real_epoll_create1(int flags);
int __wrap_epoll_create1(int flags);
int __real_epoll_ctl(
    int fd, int operation, int member, struct epoll_event *event);
int __wrap_epoll_ctl(
    int fd, int operation, int member, struct epoll_event *event);
void *__real_mmap64(
    void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap64(
    void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
int __real_mprotect(void *at, size_t bytes, int protection);
int __wrap_mprotect(void *at, size_t bytes, int protection);

int
__wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
    void *(*run)(void *), void *user)
{
    return is_refused(&threads)
               ? threads.error
               : __real_pthread_create(thread, attributes, run, user);
}

static bool
is_descriptor_refused(void)
{
    bool refused = is_refused(&descriptors);

    if (refused) {
        errno = descriptors.error;
    }
    return refused;
}

int
__wrap_eventfd(unsigned int value, int flags)
{
    return is_descriptor_refused() ? -1 : __real_eventfd(value, flags);
}

int
__wrap_timerfd_create(int clock, int flags)
{
    return is_descriptor_refused() ? -1 : __real_timerfd_create(clock, flags);
}

int
__wrap_epoll_create1(int flags)
{
    return is_descriptor_refused() ? -1 : __real_epoll_create1(flags);
}

int
__wrap_epoll_ctl(int fd, int operation, int member, struct epoll_event *event)
{
    return is_descriptor_refused()
               ? -1
               : __real_epoll_ctl(fd, operation, member, event);
}

void *
__wrap_mmap64(
    void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    if (is_refused(&mappings)) {
        errno = mappings.error;
        return MAP_FAILED;
    }
    return __real_mmap64(at, bytes, protection, flags, fd, offset);
}

int
__wrap_mprotect(void *at, size_t bytes, int protection)
{
    if (is_refused(&protections)) {
        errno = protections.error;
        return -1;
    }
    return __real_mprotect(at, bytes, protection);
}

static void
refuse(struct refusal *refusal, uint32_t nth)
{
    atomic_store(&refusal->calls, 0);
    atomic_store(&refusal->nth, nth);
}

/* --- what is left --------------------------------------------------------- */

static struct test_alloc memory;
static struct test_census before;

static troupe_system_options
options_of(uint32_t workers)
{
    troupe_system_options options = TROUPE_INIT(troupe_system_options);

    options.flags = TROUPE_SYSTEM_IGNORE_ENV;
    if (workers == 0) {
        options.flags |= TROUPE_SYSTEM_DRIVEN;
    }
    options.workers = workers;
    options.log.max_level = TROUPE_LOG_OFF;
    options.alloc = test_alloc;
    options.free = test_free;
    options.alloc_user = &memory;
    return options;
}

/* So that a first system has left what only the first one leaves. */
static void
set_up(void)
{
    troupe_system_options options = options_of(2);
    troupe_system *system = NULL;

    cr_assert_eq(troupe_system_create(&options, &system), TROUPE_OK);
    cr_assert_eq(troupe_system_destroy(system), TROUPE_OK);
    before = test_census();
}

static void
nothing_is_left(void)
{
    refuse(&threads, 0);
    refuse(&descriptors, 0);
    refuse(&mappings, 0);
    refuse(&protections, 0);
    test_require(test_alloc_is_empty(&memory));
    test_require(test_census_is(before));
}

static void
is_explained(troupe_status status, const char *call, int os_error)
{
    troupe_error error = troupe_last_error();
    char text[256];

    cr_assert_eq(error.status, status);
    cr_assert_str_eq(error.call, call);
    cr_assert_str_not_empty(error.option);
    cr_assert_str_not_empty(error.rule);
    cr_assert_eq(error.os_error, os_error, "%d", error.os_error);
    cr_assert_gt(troupe_explain(status, text, sizeof text), 0);
    cr_assert_not_null(strstr(text, call), "%s", text);
    cr_assert_not_null(strstr(text, error.rule), "%s", text);
}

static troupe_verdict
ignore(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)self;
    (void)state;
    (void)msg;
    return TROUPE_CONTINUE;
}

TROUPE_MSG_TYPE(number_type, uint64_t, 1);
static const troupe_actor_type actor_type = {.size = sizeof(troupe_actor_type),
    .name = "actor",
    .state_bytes = 5000,
    .receive = ignore};

/* Actors, messages and a port: it works. */
static void
works(troupe_system *system)
{
    troupe_counters counters = TROUPE_INIT(troupe_counters);
    troupe_ref ref = TROUPE_NONE;

    for (uint64_t i = 0; i < 100; i++) {
        cr_assert_eq(
            troupe_system_spawn(system, &actor_type, NULL, &ref), TROUPE_OK);
        cr_assert_eq(troupe_post(system, ref, &number_type, &i), TROUPE_OK);
    }
    cr_assert_eq(troupe_system_await_idle(system, TROUPE_S(60)), TROUPE_OK);
    cr_assert_eq(troupe_counters_read(system, &counters), TROUPE_OK);
    cr_assert_eq(counters.handled, 100);
}

/* --- threads -------------------------------------------------------------- */

Test(fault_os, no_thread, .init = set_up, .fini = nothing_is_left)
{
    troupe_system_options options = options_of(4);

    for (uint32_t nth = 1; nth <= 4; nth++) {
        troupe_system *system = NULL;

        refuse(&threads, nth);
        cr_assert_eq(troupe_system_create(&options, &system), TROUPE_E_SYSTEM);
        cr_assert_null(system);
        is_explained(TROUPE_E_SYSTEM, "troupe_system_create", EAGAIN);
        cr_assert(test_alloc_is_empty(&memory));
        cr_assert(test_census_is(before));
    }
}

Test(fault_os, fewer_threads, .init = set_up, .fini = nothing_is_left)
{
    troupe_system_options options = options_of(4);

    options.flags |= TROUPE_SYSTEM_FEWER_WORKERS;
    threads.and_later = true;
    for (uint32_t nth = 2; nth <= 4; nth++) {
        troupe_system *system = NULL;
        char text[1000];
        char wanted[32];

        refuse(&threads, nth);
        cr_assert_eq(troupe_system_create(&options, &system), TROUPE_OK);
        cr_assert_eq(test_census().threads, before.threads + nth - 1);
        (void)troupe_system_describe(system, text, sizeof text);
        (void)snprintf(wanted, sizeof wanted, "TROUPE_WORKERS=%u", nth - 1);
        cr_assert_not_null(strstr(text, wanted), "%s", text);
        works(system);
        cr_assert_eq(troupe_system_destroy(system), TROUPE_OK);
        cr_assert(test_alloc_is_empty(&memory));
        cr_assert(test_census_is(before));
    }
}

Test(fault_os, fewer_threads_but_one, .init = set_up, .fini = nothing_is_left)
{
    troupe_system_options options = options_of(4);
    troupe_system *system = NULL;

    options.flags |= TROUPE_SYSTEM_FEWER_WORKERS;
    threads.and_later = true;
    refuse(&threads, 1);
    cr_assert_eq(troupe_system_create(&options, &system), TROUPE_E_SYSTEM);
    cr_assert_null(system);
    is_explained(TROUPE_E_SYSTEM, "troupe_system_create", EAGAIN);
}

/* The name of a worker is in the log when one is missing. */
static void
count_line(const troupe_log_line *line, void *user)
{
    uint32_t *lines = user;

    if (strstr(line->text, "of 4 workers") != NULL) {
        (*lines)++;
    }
}

Test(
    fault_os, fewer_threads_are_logged, .init = set_up, .fini = nothing_is_left)
{
    troupe_system_options options = options_of(4);
    troupe_system *system = NULL;
    uint32_t lines = 0;

    options.flags |= TROUPE_SYSTEM_FEWER_WORKERS;
    options.log.max_level = TROUPE_LOG_WARN;
    options.log.write = count_line;
    options.log.user = &lines;
    refuse(&threads, 3);
    cr_assert_eq(troupe_system_create(&options, &system), TROUPE_OK);
    cr_assert_eq(troupe_system_destroy(system), TROUPE_OK);
    cr_assert_eq(lines, 1);
}

/* --- threads for a shutdown ----------------------------------------------- */

static struct {
    _Atomic uint32_t tasks;
    _Atomic uint32_t here; /* of those, on the thread of the test */
    pthread_t test;
} shutdown_seen;

static troupe_status
see_task(troupe_system *system, const char *reason, void *user)
{
    (void)reason;
    (void)user;
    atomic_fetch_add(&shutdown_seen.tasks, 1);
    atomic_fetch_add(&shutdown_seen.here,
        pthread_equal(pthread_self(), shutdown_seen.test) != 0);
    return troupe_system_stop(system) == TROUPE_E_CONTEXT ? TROUPE_OK
                                                          : TROUPE_E_FAILED;
}

/* Four tasks; threads fail from the nth on, the one that drives is the first.
 */
static void
stop_with_few_threads(uint32_t nth, bool and_later, bool with_request)
{
    static const char *const phases[] = {TROUPE_PHASE_SERVICE_UNBIND,
        TROUPE_PHASE_SERVICE_UNBIND, TROUPE_PHASE_SERVICE_UNBIND,
        TROUPE_PHASE_STOP};
    troupe_system_options options = options_of(2);
    troupe_system *system = NULL;

    memset(&shutdown_seen, 0, sizeof shutdown_seen);
    shutdown_seen.test = pthread_self();
    cr_assert_eq(troupe_system_create(&options, &system), TROUPE_OK);
    for (uint32_t i = 0; i < 4; i++) {
        const char name[2] = {(char)('a' + i), '\0'};

        cr_assert_eq(
            troupe_shutdown_add(system, phases[i], name, see_task, NULL),
            TROUPE_OK);
    }
    threads.and_later = and_later;
    refuse(&threads, nth);
    if (with_request) {
        troupe_system_request_stop(system);
        cr_assert_eq(troupe_system_wait(system, TROUPE_FOREVER), TROUPE_OK);
    }
    cr_assert_eq(troupe_system_destroy(system), TROUPE_OK);
    cr_assert_eq(shutdown_seen.tasks, 4);
    threads.and_later = false;
}

Test(fault_os, no_thread_for_a_task_of_the_shutdown, .init = set_up,
    .fini = nothing_is_left)
{
    for (uint32_t nth = 2; nth <= 5; nth++) {
        stop_with_few_threads(nth, false, false);
        stop_with_few_threads(nth, true, true);
        cr_assert_eq(shutdown_seen.here, 0, "who drives has a thread");
    }
}

/* The first to try is the request, the second the stop. */
Test(fault_os, no_thread_to_drive_the_shutdown, .init = set_up,
    .fini = nothing_is_left)
{
    for (uint32_t request = 0; request < 2; request++) {
        stop_with_few_threads(1, false, request != 0);
        cr_assert_eq(shutdown_seen.here, 0, "it could be started later");
        stop_with_few_threads(1, true, request != 0);
        cr_assert_eq(shutdown_seen.here, 4, "none at all: who stops does it");
    }
}

/* --- descriptors ---------------------------------------------------------- */

Test(fault_os, no_descriptor_for_a_driven_system, .init = set_up,
    .fini = nothing_is_left)
{
    troupe_system_options options = options_of(0);
    troupe_system *system = NULL;

    /* Tokens, a timer, a set, and each of the two into it. */
    for (uint32_t nth = 1; nth <= 5; nth++) {
        refuse(&descriptors, nth);
        cr_assert_eq(troupe_system_create(&options, &system), TROUPE_E_SYSTEM);
        cr_assert_null(system);
        is_explained(TROUPE_E_SYSTEM, "troupe_system_create", EMFILE);
        cr_assert(test_census_is(before));
    }
}

Test(
    fault_os, no_descriptor_for_a_port, .init = set_up, .fini = nothing_is_left)
{
    troupe_system_options options = options_of(1);
    troupe_system *system = NULL;
    troupe_port *port = NULL;

    cr_assert_eq(troupe_system_create(&options, &system), TROUPE_OK);
    refuse(&descriptors, 1);
    cr_assert_eq(troupe_port_open(system, "port", &port), TROUPE_E_SYSTEM);
    cr_assert_null(port);
    is_explained(TROUPE_E_SYSTEM, "troupe_port_open", EMFILE);
    cr_assert_eq(
        troupe_port_open(system, "port", &port), TROUPE_OK, "the name is free");
    troupe_port_close(port);
    cr_assert_eq(troupe_system_destroy(system), TROUPE_OK);
}

/* For real, without the wrapper. */
Test(fault_os, descriptors_run_out, .init = set_up, .fini = nothing_is_left)
{
    troupe_system_options options = options_of(1);
    troupe_system *system = NULL;
    troupe_port *ports[64];
    struct rlimit limit, few;
    uint32_t open = 0;
    troupe_status status = TROUPE_OK;

    cr_assert_eq(troupe_system_create(&options, &system), TROUPE_OK);
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    few = limit;
    few.rlim_cur = 30;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    while (open < 64 && status == TROUPE_OK) {
        status = troupe_port_open(system, NULL, &ports[open]);
        open += status == TROUPE_OK;
    }
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    cr_assert_eq(status, TROUPE_E_SYSTEM);
    cr_assert_gt(open, 0);
    is_explained(TROUPE_E_SYSTEM, "troupe_port_open", EMFILE);
    while (open > 0) {
        troupe_port_close(ports[--open]);
    }
    cr_assert_eq(troupe_system_destroy(system), TROUPE_OK);
}

/* --- address space -------------------------------------------------------- */

/* Each call in turn fails until the creation makes fewer of them. */
static void
create_failing(struct refusal *refusal, uint32_t workers, uint32_t least)
{
    troupe_system_options options = options_of(workers);
    troupe_status status = TROUPE_E_NOMEM;
    uint32_t nth;

    for (nth = 1; status != TROUPE_OK; nth++) {
        troupe_system *system = NULL;
        bool was_refused;

        refuse(refusal, nth);
        status = troupe_system_create(&options, &system);
        was_refused = atomic_load(&refusal->calls) >= nth;
        refuse(refusal, 0);
        if (status == TROUPE_OK) {
            cr_assert_not(was_refused, "call %u was refused unseen", nth);
            works(system);
            cr_assert_eq(troupe_system_destroy(system), TROUPE_OK);
        } else {
            cr_assert_eq(
                status, TROUPE_E_NOMEM, "%s", troupe_status_name(status));
            cr_assert_null(system);
        }
        cr_assert(test_alloc_is_empty(&memory), "call %u", nth);
        cr_assert(test_census_is(before), "call %u", nth);
    }
    cr_assert_gt(nth, least);
}

Test(fault_os, no_address_space, .init = set_up, .fini = nothing_is_left)
{
    create_failing(&mappings, 0, 4);
    create_failing(&mappings, 2, 4);
}

Test(fault_os, no_pages, .init = set_up, .fini = nothing_is_left)
{
    create_failing(&protections, 0, 1);
    create_failing(&protections, 2, 1);
}

/* A system that runs when the machine has no page left for it. */
Test(fault_os, no_pages_later, .init = set_up, .fini = nothing_is_left)
{
    for (uint32_t nth = 1; nth <= 8; nth++) {
        troupe_system_options options = options_of(0);
        troupe_counters counters = TROUPE_INIT(troupe_counters);
        troupe_system *system = NULL;
        uint32_t refused = 0;

        cr_assert_eq(troupe_system_create(&options, &system), TROUPE_OK);
        protections.and_later = nth % 2 == 0;
        refuse(&protections, nth);
        for (uint64_t i = 0; i < 4500; i++) {
            troupe_ref ref = TROUPE_NONE;
            troupe_status status =
                troupe_system_spawn(system, &actor_type, NULL, &ref);

            cr_assert(status == TROUPE_OK || status == TROUPE_E_NOMEM);
            refused += status != TROUPE_OK;
            for (uint32_t n = 0; status == TROUPE_OK && n < i % 40; n++) {
                troupe_status posted =
                    troupe_post(system, ref, &number_type, &i);

                cr_assert(posted == TROUPE_OK || posted == TROUPE_E_NOMEM);
                refused += posted != TROUPE_OK;
            }
        }
        /* A single one is done without: the next size has some. */
        cr_assert(nth != 2 || refused > 0, "there was always another page");
        cr_assert_eq(troupe_system_await_idle(system, TROUPE_S(60)), TROUPE_OK);
        cr_assert_eq(troupe_counters_read(system, &counters), TROUPE_OK);
        cr_assert_eq(counters.sent, counters.handled + counters.refused);
        cr_assert_eq(counters.queued, 0);
        cr_assert_eq(troupe_system_destroy(system), TROUPE_OK);
        refuse(&protections, 0);
        cr_assert(test_alloc_is_empty(&memory));
        cr_assert(test_census_is(before));
    }
}

/* --- a gather ------------------------------------------------------------- */

/* Of so many asks that the pool needs more pages, all to one actor. */
enum { MANY = 20000 };

static struct {
    troupe_ref whom[MANY];
    size_t count;
    uint64_t tail_delay_ns;
    troupe_status status; /* of the call */
    uint32_t ended;
    uint64_t before; /* sent before the call */
    uint64_t sent;   /* and in it */
    uint64_t asks;   /* open when it had returned */
} gather;

static troupe_counters
counters_of(const troupe_system *system)
{
    troupe_counters counters = TROUPE_INIT(troupe_counters);

    cr_assert_eq(troupe_counters_read(system, &counters), TROUPE_OK);
    return counters;
}

static troupe_verdict
on_gathered(
    troupe_self *self, void *state, const troupe_result *result, void *user)
{
    (void)self;
    (void)state;
    (void)user;
    cr_assert_eq(result->status, TROUPE_E_CANCELLED);
    gather.ended++;
    return TROUPE_CONTINUE;
}

/* Cancels it at once. */
static troupe_verdict
gather_many(troupe_self *self, void *state, const troupe_msg *msg)
{
    const troupe_gather_options options = {
        .size = sizeof options, .tail_delay_ns = gather.tail_delay_ns};
    troupe_counters counters;
    troupe_ticket ticket;

    (void)state;
    gather.status = troupe_gather(self, gather.whom, gather.count, msg->type,
        msg->payload, &options, troupe_then(on_gathered, NULL), &ticket);
    counters = counters_of(troupe_self_system(self));
    gather.sent = counters.sent - gather.before;
    gather.asks = counters.asks;
    if (gather.status == TROUPE_OK) {
        cr_assert_eq(troupe_cancel(self, ticket), TROUPE_OK);
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type gatherer = {.size = sizeof(troupe_actor_type),
    .name = "gatherer",
    .receive = gather_many};

/* With every request for pages refused from number `nth` on, or that one. */
static void
gather_without_pages(size_t count, uint32_t nth, bool and_later)
{
    troupe_system_options options = options_of(0);
    troupe_system *system = NULL;
    troupe_ref actors[2];
    uint64_t number = 1;

    cr_assert_eq(troupe_system_create(&options, &system), TROUPE_OK);
    cr_assert_eq(
        troupe_system_spawn(system, &gatherer, NULL, &actors[0]), TROUPE_OK);
    cr_assert_eq(
        troupe_system_spawn(system, &actor_type, NULL, &actors[1]), TROUPE_OK);
    for (size_t i = 0; i < count; i++) {
        gather.whom[i] = actors[1];
    }
    gather.count = 1; /* so that what every gather needs is there */
    cr_assert_eq(
        troupe_post(system, actors[0], &number_type, &number), TROUPE_OK);
    cr_assert_eq(troupe_system_await_idle(system, TROUPE_S(60)), TROUPE_OK);
    gather.ended = 0;
    gather.count = count;
    cr_assert_eq(
        troupe_post(system, actors[0], &number_type, &number), TROUPE_OK);
    gather.before = counters_of(system).sent;
    protections.and_later = and_later;
    refuse(&protections, nth);
    cr_assert_eq(troupe_system_await_idle(system, TROUPE_S(60)), TROUPE_OK);
    cr_assert_eq(counters_of(system).asks, 0);
    cr_assert_eq(troupe_system_destroy(system), TROUPE_OK);
    refuse(&protections, 0);
    cr_assert(test_alloc_is_empty(&memory));
    if (gather.status == TROUPE_OK) {
        cr_assert_eq(gather.ended, 1);
    } else { /* nobody was asked */
        cr_assert_eq(gather.status, TROUPE_E_NOMEM);
        cr_assert_eq(gather.ended, 0);
        cr_assert_eq(gather.sent, 0);
        cr_assert_eq(gather.asks, 0);
    }
}

Test(fault_os, no_pages_for_a_gather, .init = set_up, .fini = nothing_is_left)
{
    uint32_t refused = 0;

    for (uint32_t nth = 1; nth <= 8; nth++) {
        gather_without_pages(MANY, nth, nth % 2 == 0);
        refused += gather.status != TROUPE_OK;
    }
    cr_assert_gt(refused, 0, "there was always another page");
}

/*
 * Who is next is asked at once, until there is one: a question that finds no
 * room in the mailbox gives its operation back.
 */
Test(fault_os, no_pages_for_the_pause_of_a_gather, .init = set_up,
    .fini = nothing_is_left)
{
    const size_t most = 4096; /* operations before there are more pages */
    uint32_t at_once = 0;

    gather.tail_delay_ns = TROUPE_S(100);
    for (size_t count = most - 40; count < most; count++) {
        gather_without_pages(count, 1, true);
        at_once += gather.status == TROUPE_OK && gather.sent > 1;
    }
    cr_assert_gt(at_once, 0, "there was always another page");
}
