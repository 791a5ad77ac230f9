/* SPDX-License-Identifier: MIT */
#include "support/system.h"

#include "support/await.h"
#include "support/census.h"

#include <troupe/port.h>

#include <criterion/criterion.h>

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* --- create --------------------------------------------------------------- */

Test(system, null_options_are_defaults)
{
    struct test_census before = test_census();
    troupe_system *system = NULL;

    cr_assert_eq(troupe_system_create(NULL, &system), TROUPE_OK);
    cr_assert_not_null(system);
    cr_assert_str_eq(troupe_system_name(system), "troupe");
    cr_assert_eq(troupe_system_destroy(system), TROUPE_OK);
    cr_assert(test_census_is(before));
}

Test(system, it_has_as_many_workers_as_asked_for)
{
    struct test_census before = test_census();

    for (uint32_t workers = 1; workers <= 16; workers *= 2) {
        troupe_system *system = test_open_threads(workers);

        cr_assert_eq(test_census().threads, before.threads + workers);
        test_close(system);
    }
}

Test(system, it_has_a_name)
{
    troupe_system_options options = test_options();
    char name[] = "orders";
    troupe_system *system;

    options.flags |= TROUPE_SYSTEM_DRIVEN;
    options.name = name;
    system = test_open(&options);
    memset(name, 'x', sizeof name - 1); /* it was copied */
    cr_assert_str_eq(troupe_system_name(system), "orders");
    test_close(system);
    cr_assert_str_eq(troupe_system_name(NULL), "");
}

static troupe_system *const untouched = (troupe_system *)(uintptr_t)64;

/* Refused, with nothing left behind and the result untouched. */
static void
expect_refused(troupe_status expected, const troupe_system_options *options,
    const char *option)
{
    struct test_census before = test_census();
    troupe_system *system = untouched;

    cr_assert_eq(
        troupe_system_create(options, &system), expected, "%s", option);
    cr_assert_eq(system, untouched);
    cr_assert_eq(troupe_last_error().status, expected);
    cr_assert_str_eq(troupe_last_error().call, "troupe_system_create");
    cr_assert_str_eq(troupe_last_error().option, option);
    cr_assert_neq(strlen(troupe_last_error().rule), 0);
    cr_assert(test_alloc_is_empty(&test_memory));
    cr_assert(test_census_is(before));
}

Test(system, nowhere_to_put_it_is_refused)
{
    cr_assert_eq(troupe_system_create(NULL, NULL), TROUPE_E_INVALID);
}

Test(system, a_size_that_was_not_set_is_refused)
{
    troupe_system_options options = test_options();

    options.size = 0;
    expect_refused(TROUPE_E_INVALID, &options, "size");
    options.size = 4;
    expect_refused(TROUPE_E_INVALID, &options, "size");
}

struct newer {
    troupe_system_options known;
    uint64_t more[4];
};

Test(system, options_of_a_newer_header_are_fine_while_they_ask_for_nothing)
{
    struct newer options;
    troupe_system *system;

    memset(&options, 0, sizeof options);
    options.known = test_options();
    options.known.flags |= TROUPE_SYSTEM_DRIVEN;
    options.known.size = sizeof options;
    system = test_open(&options.known);
    test_close(system);
    options.more[3] = 1;
    expect_refused(TROUPE_E_VERSION, &options.known, "size");
}

Test(system, options_of_an_older_header_have_defaults_for_the_rest)
{
    troupe_system_options options = test_options();
    troupe_system *system = NULL;

    options.flags |= TROUPE_SYSTEM_DRIVEN;
    options.size = offsetof(troupe_system_options, workers);
    options.workers = 100000; /* this header does not have it */
    cr_assert_eq(troupe_system_create(&options, &system), TROUPE_OK);
    cr_assert_eq(troupe_system_destroy(system), TROUPE_OK);
}

Test(system, values_out_of_range_are_refused)
{
    troupe_system_options options = test_options();

    options.workers = 100000;
    expect_refused(TROUPE_E_INVALID, &options, "workers");
    options.workers = 1025;
    expect_refused(TROUPE_E_INVALID, &options, "workers");
    options = test_options();
    options.throughput = UINT32_MAX;
    expect_refused(TROUPE_E_INVALID, &options, "throughput");
    options = test_options();
    options.spin_us = UINT32_MAX - 1;
    expect_refused(TROUPE_E_INVALID, &options, "spin_us");
    options = test_options();
    options.steal = (troupe_steal)4;
    expect_refused(TROUPE_E_INVALID, &options, "steal");
    options = test_options();
    options.max_actors = UINT32_MAX;
    expect_refused(TROUPE_E_INVALID, &options, "max_actors");
    options = test_options();
    options.stop_grace_ns = TROUPE_S(3601);
    expect_refused(TROUPE_E_INVALID, &options, "stop_grace_ns");
    cr_assert_str_eq(troupe_last_error().rule,
        "must be between 1 and 3600000000000", "in ns, as the option is");
    cr_assert_str_eq(troupe_last_error().value, "3601000000000");
    options.stop_grace_ns = UINT64_MAX;
    expect_refused(TROUPE_E_INVALID, &options, "stop_grace_ns");
    options = test_options();
    options.log.max_level = (troupe_log_level)6;
    expect_refused(TROUPE_E_INVALID, &options, "log.max_level");
    options = test_options();
    options.log.format = (troupe_log_format)3;
    expect_refused(TROUPE_E_INVALID, &options, "log.format");
    options = test_options();
    options.stack_bytes = SIZE_MAX;
    expect_refused(TROUPE_E_INVALID, &options, "stack_bytes");
    options = test_options();
    options.flags = 1u << 31;
    expect_refused(TROUPE_E_INVALID, &options, "flags");
}

Test(system, allocator_hooks_come_in_pairs)
{
    troupe_system_options options = test_options();

    options.free = NULL;
    expect_refused(TROUPE_E_INVALID, &options, "alloc");
    options = test_options();
    options.alloc = NULL;
    expect_refused(TROUPE_E_INVALID, &options, "alloc");
}

Test(system, names_that_are_bad_are_refused)
{
    static const char *const bad[] = {"", "a/b", "\n", "a\\b"};
    troupe_system_options options = test_options();

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        options.name = bad[i];
        expect_refused(TROUPE_E_INVALID, &options, "name");
    }
}

/* Spawns until it is refused; at most `most`. */
static uint32_t
spawn_all(troupe_system *system, troupe_ref *refs, uint32_t most)
{
    uint32_t count = 0;
    troupe_status status = TROUPE_OK;

    while (count < most && status == TROUPE_OK) {
        troupe_ref ref = {3, 3};

        status = troupe_system_spawn(system, &test_plain, NULL, &ref);
        if (status == TROUPE_OK) {
            refs[count++] = ref;
        } else {
            cr_assert_eq(status, TROUPE_E_LIMIT);
            cr_assert_eq(ref.index, 3);
            cr_assert_eq(troupe_last_error().status, TROUPE_E_LIMIT);
        }
    }
    return count;
}

Test(system, as_many_actors_as_the_limit_says_can_live_whoever_came_before)
{
    static troupe_ref refs[1000];
    troupe_system_options options = test_options();
    troupe_system *system;

    options.flags |= TROUPE_SYSTEM_DRIVEN;
    options.max_actors = 100;
    system = test_open(&options);
    for (int round = 0; round < 5; round++) {
        uint32_t count = spawn_all(system, refs, 1000);

        cr_assert_geq(count, 100);
        cr_assert_lt(count, 1000, "there is a limit");
        while (count > 0) {
            cr_assert_eq(troupe_post_stop(system, refs[--count]), TROUPE_OK);
        }
        test_run(system);
    }
    test_close(system);
}

Test(system, two_systems_in_one_process_have_nothing_to_do_with_each_other)
{
    troupe_system_options options = test_options();
    static struct test_letters letters[2];
    static struct test_record records[2];
    troupe_system *systems[2];
    troupe_ref refs[2];

    options.flags |= TROUPE_SYSTEM_DRIVEN;
    for (int i = 0; i < 2; i++) {
        options.name = i == 0 ? "one" : "two";
        options.dead_letter.user = &letters[i];
        systems[i] = test_open(&options);
        refs[i] = test_spawn_recorder(systems[i], "same", &records[i]);
        test_post_number(systems[i], refs[i], (uint64_t)i);
    }
    test_run(systems[0]);
    cr_assert_eq(records[0].count, 1);
    cr_assert_eq(records[1].count, 0);
    cr_assert_eq(troupe_post_stop_now(systems[1], refs[1]), TROUPE_OK);
    test_run(systems[1]);
    cr_assert_eq(letters[0].total, 0);
    cr_assert_eq(letters[1].total, 1);
    cr_assert_eq(troupe_system_destroy(systems[0]), TROUPE_OK);
    test_close(systems[1]);
}

/* --- stop ----------------------------------------------------------------- */

Test(system, request_stop_handles_what_was_queued_before)
{
    troupe_system *system = test_open_driven(0);
    struct test_record record = {0};
    troupe_ref ref = test_spawn_recorder(system, NULL, &record);

    test_post_numbers(system, ref, 200);
    troupe_system_request_stop(system);
    troupe_system_request_stop(system); /* again: nothing */
    cr_assert_eq(troupe_post(system, ref, &test_empty, NULL), TROUPE_E_CLOSED);
    cr_assert_eq(record.count, 0, "it returns at once");
    test_run(system);
    cr_assert_eq(record.count, 200);
    cr_assert_eq(record.stopped, 1);
    test_close(system);
    troupe_system_request_stop(NULL);
}

static troupe_verdict
request_inside(troupe_self *self, const troupe_msg *msg, void *user)
{
    troupe_system *system = troupe_self_system(self);
    troupe_ref ref = {1, 1};

    (void)msg;
    (void)user;
    troupe_system_request_stop(system);
    cr_assert_eq(
        troupe_spawn(self, &test_recorder, NULL, &ref), TROUPE_E_CLOSED);
    cr_assert_eq(ref.index, 1);
    return TROUPE_CONTINUE;
}

Test(system, request_stop_inside_a_behaviour_is_fine)
{
    troupe_system *system = test_open_threads(2);

    test_do_later(system, test_spawn_doer(system, NULL), request_inside, NULL);
    cr_assert_eq(troupe_system_wait(system, TROUPE_S(60)), TROUPE_OK);
    test_close(system);
}

Test(system, wait_waits_until_a_stop_is_requested)
{
    troupe_system *system = test_open_threads(1);

    cr_assert_eq(troupe_system_wait(system, 0), TROUPE_E_TIMEOUT);
    cr_assert_eq(troupe_system_wait(system, TROUPE_MS(5)), TROUPE_E_TIMEOUT);
    troupe_system_request_stop(system);
    cr_assert_eq(troupe_system_wait(system, 0), TROUPE_OK);
    cr_assert_eq(troupe_system_wait(system, TROUPE_FOREVER), TROUPE_OK);
    test_close(system);
}

static void *
request_from_another_thread(void *user)
{
    troupe_system_request_stop(user);
    return NULL;
}

Test(system, wait_for_ever_ends_with_the_request_of_another_thread)
{
    for (int i = 0; i < 20; i++) {
        troupe_system *system = test_open_threads(1);
        pthread_t thread;

        cr_assert_eq(
            pthread_create(&thread, NULL, request_from_another_thread, system),
            0);
        cr_assert_eq(troupe_system_wait(system, TROUPE_FOREVER), TROUPE_OK);
        cr_assert_eq(pthread_join(thread, NULL), 0);
        test_close(system);
    }
}

static troupe_verdict
wait_inside(troupe_self *self, const troupe_msg *msg, void *user)
{
    troupe_system *system = troupe_self_system(self);
    troupe_status *seen = user;

    (void)msg;
    seen[0] = troupe_system_wait(system, 0);
    seen[1] = troupe_system_stop(system);
    seen[2] = troupe_system_await_idle(system, 0);
    seen[3] = troupe_system_destroy(system);
    return TROUPE_CONTINUE;
}

Test(system, what_blocks_is_refused_inside_a_behaviour)
{
    troupe_system *system = test_open_threads(1);
    troupe_status seen[4] = {TROUPE_OK, TROUPE_OK, TROUPE_OK, TROUPE_OK};
    troupe_ref doer = test_spawn_doer(system, NULL);

    test_do_later(system, doer, wait_inside, seen);
    cr_assert_eq(troupe_system_await_idle(system, TROUPE_S(60)), TROUPE_OK);
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(seen[i], TROUPE_E_CONTEXT, "%d", i);
    }
    cr_assert_eq(troupe_depth(system, doer), 0, "it goes on");
    test_close(system);
}

Test(system, wait_is_refused_by_a_driven_system)
{
    troupe_system *system = test_open_driven(0);

    cr_assert_eq(troupe_system_wait(system, 0), TROUPE_E_STATE);
    test_close(system);
}

Test(system, stopping_what_has_stopped_is_ok)
{
    struct test_census before = test_census();
    troupe_system *system = test_open_threads(4);

    for (int i = 0; i < 3; i++) {
        cr_assert_eq(troupe_system_stop(system), TROUPE_OK);
        cr_assert(test_census().threads <= before.threads + 4);
    }
    cr_assert_eq(
        troupe_system_spawn(system, &test_recorder, NULL, &(troupe_ref){0, 0}),
        TROUPE_E_CLOSED);
    test_close(system);
}

static troupe_system *
open_with_grace(uint64_t grace_ns)
{
    troupe_system_options options = test_options();

    options.workers = 2;
    options.stop_grace_ns = grace_ns;
    return test_open(&options);
}

static bool
has_one_actor(void *user)
{
    return test_counters(user).actors == 1;
}

Test(system, a_stuck_actor_is_named_and_the_stop_can_be_repeated)
{
    troupe_system *system = open_with_grace(TROUPE_MS(30));
    troupe_ref stuck = test_spawn_doer(system, "stuck");
    troupe_ref busy[4] = {{0, 0}};

    (void)test_spawn_doer(system, "idle");
    test_do_later(system, stuck, test_stay, NULL);
    cr_assert(test_await_at_least(&test_inside, 1));
    cr_assert_eq(troupe_system_stop(system), TROUPE_E_TIMEOUT);
    cr_assert(test_await(has_one_actor, system));
    cr_assert_eq(troupe_system_busy(system, busy, 4), 1);
    cr_assert(troupe_ref_equal(busy[0], stuck));
    cr_assert_eq(troupe_system_stop(system), TROUPE_E_TIMEOUT);
    cr_assert_eq(troupe_system_destroy(system), TROUPE_E_TIMEOUT);
    cr_assert_eq(
        troupe_post(system, stuck, &test_empty, NULL), TROUPE_E_CLOSED);
    atomic_store(&test_may_leave, 1);
    cr_assert_eq(troupe_system_await_idle(system, TROUPE_S(60)), TROUPE_OK);
    cr_assert_eq(troupe_system_stop(system), TROUPE_OK);
    cr_assert_eq(troupe_system_busy(system, busy, 4), 0);
    test_close(system);
}

Test(system, half_way_through_the_grace_those_who_drain_are_stopped_now)
{
    troupe_system *system = open_with_grace(TROUPE_MS(100));
    troupe_ref stuck = test_spawn_doer(system, NULL);

    for (int i = 0; i < 10; i++) {
        test_do_later(system, stuck, test_stay, NULL);
    }
    cr_assert(test_await_at_least(&test_inside, 1));
    cr_assert_eq(troupe_system_stop(system), TROUPE_E_TIMEOUT);
    atomic_store(&test_may_leave, 1);
    cr_assert_eq(troupe_system_await_idle(system, TROUPE_S(60)), TROUPE_OK);
    cr_assert_eq(test_inside, 1, "the other nine were not handled");
    cr_assert_eq(test_letters.by_reason[TROUPE_DEAD_STOPPED], 9);
    test_close(system);
}

Test(system, busy_names_those_inside_and_those_with_work)
{
    troupe_system *system = test_open_threads(1);
    troupe_ref refs[3];
    troupe_ref busy[8];
    size_t count;

    for (int i = 0; i < 3; i++) {
        refs[i] = test_spawn_doer(system, NULL);
    }
    cr_assert_eq(troupe_system_await_idle(system, TROUPE_S(60)), TROUPE_OK);
    cr_assert_eq(troupe_system_busy(system, NULL, 0), 0);
    test_do_later(system, refs[0], test_stay, NULL);
    cr_assert(test_await_at_least(&test_inside, 1));
    test_post_number(system, refs[1], 1);
    count = troupe_system_busy(system, busy, 8);
    cr_assert_eq(count, 2);
    cr_assert(troupe_ref_equal(busy[0], refs[0]) ||
              troupe_ref_equal(busy[1], refs[0]));
    cr_assert(troupe_ref_equal(busy[0], refs[1]) ||
              troupe_ref_equal(busy[1], refs[1]));
    cr_assert_eq(troupe_system_busy(system, busy, 1), 2);
    cr_assert_eq(troupe_system_busy(system, NULL, 0), 2);
    atomic_store(&test_may_leave, 1);
    test_close(system);
    cr_assert_eq(troupe_system_busy(NULL, busy, 8), 0);
}

Test(system, destroying_null_is_allowed)
{
    cr_assert_eq(troupe_system_destroy(NULL), TROUPE_OK);
}

static void *
stop_it(void *user)
{
    test_require(troupe_system_stop(user) == TROUPE_OK);
    return NULL;
}

Test(system, several_threads_may_stop_it)
{
    for (int round = 0; round < 20; round++) {
        troupe_system *system = test_open_threads(2);
        static struct test_record records[10];
        pthread_t threads[4];

        for (int i = 0; i < 10; i++) {
            test_post_number(
                system, test_spawn_recorder(system, NULL, &records[i]), 1);
        }
        for (int i = 0; i < 4; i++) {
            cr_assert_eq(pthread_create(&threads[i], NULL, stop_it, system), 0);
        }
        for (int i = 0; i < 4; i++) {
            cr_assert_eq(pthread_join(threads[i], NULL), 0);
        }
        test_close(system);
    }
}

Test(system, destroy_stops_first)
{
    struct test_census before = test_census();
    troupe_system *system = test_open_threads(2);
    struct test_record record = {0};
    troupe_ref ref = test_spawn_recorder(system, NULL, &record);

    test_post_numbers(system, ref, 10);
    cr_assert_eq(troupe_system_destroy(system), TROUPE_OK);
    cr_assert_eq(record.count, 10);
    cr_assert_eq(record.stopped, 1);
    cr_assert(test_alloc_is_empty(&test_memory));
    cr_assert(test_census_is(before));
}

/* --- idle ----------------------------------------------------------------- */

static troupe_verdict
pass_on(troupe_self *self, void *state, const troupe_msg *msg)
{
    uint64_t left = *troupe_payload(msg, uint64_t);

    (void)state;
    if (left > 0) {
        left--;
        troupe_tell(self, troupe_self_ref(self), &test_number, &left);
    } else {
        atomic_fetch_add(&test_inside, 1);
    }
    return TROUPE_CONTINUE;
}

Test(system, await_idle_returns_when_no_actor_has_work)
{
    static const troupe_actor_type type = {
        .size = sizeof type, .name = "t", .receive = pass_on};

    for (uint32_t workers = 1; workers <= 4; workers *= 2) {
        troupe_system *system = test_open_threads(workers);

        test_inside = 0;
        for (int i = 0; i < 50; i++) {
            troupe_ref ref;

            cr_assert_eq(
                troupe_system_spawn(system, &type, NULL, &ref), TROUPE_OK);
            test_post_number(system, ref, 1000);
        }
        cr_assert_eq(troupe_system_await_idle(system, TROUPE_S(60)), TROUPE_OK);
        cr_assert_eq(test_inside, 50);
        test_close(system);
    }
}

struct posting {
    troupe_system *system;
    troupe_ref ref;
    _Atomic uint64_t *done;
};

static void *
post_many(void *user)
{
    struct posting *posting = user;

    test_post_numbers(posting->system, posting->ref, 20000);
    atomic_fetch_add(posting->done, 1);
    return NULL;
}

Test(system, await_idle_may_be_called_while_threads_post)
{
    troupe_system *system = test_open_threads(2);
    _Atomic uint64_t done = 0;
    struct posting posting = {system, test_spawn_doer(system, NULL), &done};
    pthread_t threads[2];

    for (int i = 0; i < 2; i++) {
        cr_assert_eq(pthread_create(&threads[i], NULL, post_many, &posting), 0);
    }
    while (atomic_load(&done) < 2) {
        troupe_status status = troupe_system_await_idle(system, TROUPE_US(100));

        cr_assert(status == TROUPE_OK || status == TROUPE_E_TIMEOUT);
    }
    /* Both have come back: now everything they posted is work. */
    cr_assert_eq(troupe_system_await_idle(system, TROUPE_S(60)), TROUPE_OK);
    cr_assert_eq(test_counters(system).handled, 40000);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
    }
    test_close(system);
}

Test(system, await_idle_gives_up_at_the_deadline)
{
    troupe_system *system = test_open_threads(2);

    test_do_later(system, test_spawn_doer(system, NULL), test_stay, NULL);
    cr_assert_eq(
        troupe_system_await_idle(system, TROUPE_MS(10)), TROUPE_E_TIMEOUT);
    atomic_store(&test_may_leave, 1);
    cr_assert_eq(troupe_system_await_idle(system, TROUPE_FOREVER), TROUPE_OK);
    test_close(system);
}

Test(system, await_idle_does_not_wait_for_messages_in_ports)
{
    troupe_system *system = test_open_threads(1);
    troupe_port *port;

    cr_assert_eq(troupe_port_open(system, NULL, &port), TROUPE_OK);
    test_post_number(system, troupe_port_ref(port), 1);
    cr_assert_eq(troupe_system_await_idle(system, TROUPE_S(60)), TROUPE_OK);
    troupe_port_close(port);
    test_close(system);
}

/* --- describe ------------------------------------------------------------- */

static const char *const tunables[] = {"TROUPE_WORKERS", "TROUPE_THROUGHPUT",
    "TROUPE_SPIN_US", "TROUPE_STEAL", "TROUPE_MAX_ACTORS",
    "TROUPE_MAILBOX_WARN", "TROUPE_STASH_CAPACITY", "TROUPE_ASK_TIMEOUT_MS",
    "TROUPE_STOP_GRACE_MS", "TROUPE_DEAD_LETTERS", "TROUPE_METRICS",
    "TROUPE_LOG", "TROUPE_LOG_FORMAT", "TROUPE_SEED"};

Test(system, describe_has_a_line_per_tunable)
{
    troupe_system_options options = test_options();
    troupe_system *system;
    char text[4096];
    size_t lines = 0;

    options.workers = 3;
    options.throughput = 77;
    system = test_open(&options);
    cr_assert_eq(
        troupe_system_describe(system, text, sizeof text), strlen(text));
    for (const char *at = text; *at != '\0'; at++) {
        lines += *at == '\n';
    }
    cr_assert_eq(lines, sizeof tunables / sizeof *tunables);
    for (size_t i = 0; i < lines; i++) {
        cr_assert_not_null(strstr(text, tunables[i]), "%s", tunables[i]);
    }
    cr_assert_not_null(strstr(text, "TROUPE_WORKERS=3 (option)"), "%s", text);
    cr_assert_not_null(strstr(text, "TROUPE_THROUGHPUT=77 (option)"));
    cr_assert_not_null(strstr(text, "TROUPE_STEAL=on (default)"));
    cr_assert_not_null(strstr(text, "TROUPE_DEAD_LETTERS=count (default)"));
    test_close(system);
}

Test(system, describe_is_like_snprintf)
{
    troupe_system *system = test_open_driven(0);
    size_t length = troupe_system_describe(system, NULL, 0);
    char whole[4096];
    char text[4096];

    cr_assert_eq(troupe_system_describe(system, whole, sizeof whole), length);
    for (size_t room = 1; room < length + 10; room++) {
        memset(text, '#', sizeof text);
        cr_assert_eq(troupe_system_describe(system, text, room), length);
        cr_assert_eq(strlen(text), room > length ? length : room - 1);
        cr_assert_eq(strncmp(text, whole, strlen(text)), 0);
        cr_assert_eq(text[room], '#');
    }
    test_close(system);
}
