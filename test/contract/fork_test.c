/* SPDX-License-Identifier: MIT */
#include "support/system.h"

#include "support/await.h"

#include <troupe/port.h>

#include <criterion/criterion.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/*
 * A forked child has the memory of the system but not its threads: destroy is
 * OK there, every other call that has a status says E_FORKED, calls that
 * answer a value answer zero, and the parent's system goes on.
 */

enum { WATCHED = 20 };

static troupe_system *the_system;
static troupe_port *port;
static struct test_record record;
static troupe_ref ref;
static troupe_ref watched[WATCHED];

static int line_of_failure;

#define EXPECT(expr)                                                           \
    do {                                                                       \
        if (!(expr) && line_of_failure == 0) {                                 \
            line_of_failure = __LINE__;                                        \
            (void)fprintf(stderr, "fork_test.c:%d: %s\n", __LINE__, #expr);    \
        }                                                                      \
    } while (0)

static void (*child_does)(void);

static int
do_in_child(void)
{
    child_does();
    return line_of_failure == 0 ? 0 : 1;
}

/* Runs `what` in a child; its first failed EXPECT fails the test. */
static void
in_child(void (*what)(void))
{
    child_does = what;
    cr_assert_eq(test_in_child(do_in_child), 0);
}

static troupe_verdict
subscribe(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    (void)user;
    for (uint32_t i = 0; i < WATCHED; i++) {
        EXPECT(troupe_watch(self, watched[i]) == TROUPE_OK);
    }
    return troupe_check(
        self, troupe_subscribe(self, TEST_TAG_OTHER, NULL, NULL));
}

static troupe_status
task(troupe_system *system, const char *reason, void *user)
{
    (void)system;
    (void)reason;
    (void)user;
    return TROUPE_OK;
}

/*
 * With a subscription, a dead letter, and a task of a phase, so that there is
 * more to free.
 */
static void
setup(void)
{
    static const troupe_dead_letter_options letters = {
        .size = TROUPE_OPTIONS(troupe_dead_letter_options), .capacity = 10};
    static const troupe_phase_options phase = {
        .size = TROUPE_OPTIONS(troupe_phase_options), .name = "phase"};
    troupe_system_options options = test_options();

    options.workers = 2;
    options.dead_letter.fn = NULL;
    options.dead_letters = &letters;
    the_system = test_open(&options);
    for (uint32_t i = 0; i < WATCHED; i++) {
        watched[i] = test_spawn_doer(the_system, NULL);
    }
    test_do_later(
        the_system, test_spawn_doer(the_system, NULL), subscribe, NULL);
    troupe_post_tell(the_system, TROUPE_NONE, &test_bytes, NULL);
    cr_assert_eq(troupe_shutdown_add_phase(the_system, &phase), TROUPE_OK);
    cr_assert_eq(troupe_shutdown_add(the_system, "phase", "task", task, NULL),
        TROUPE_OK);
    ref = test_spawn_recorder(the_system, "r", &record);
    cr_assert_eq(troupe_port_open(the_system, NULL, &port), TROUPE_OK);
    cr_assert_eq(troupe_system_await_idle(the_system, TROUPE_S(60)), TROUPE_OK);
}

/* The parent does not notice. */
static void
teardown(void)
{
    uint32_t before = record.count;

    for (int i = 0; i < 100; i++) {
        test_post_number(the_system, ref, 1);
    }
    test_require(
        troupe_system_await_idle(the_system, TROUPE_S(60)) == TROUPE_OK);
    test_require(record.count == before + 100);
    troupe_port_close(port);
    test_close(the_system);
}

TestSuite(fork, .init = setup, .fini = teardown);

static void
destroy_it(void)
{
    EXPECT(troupe_system_destroy(the_system) == TROUPE_OK);
    EXPECT(test_memory.live_blocks == 1); /* the port is the parent's */
}

Test(fork, a_child_may_destroy_it)
{
    in_child(destroy_it);
}

static bool
visit(const troupe_actor_info *info, void *user)
{
    (void)info;
    (void)user;
    return true;
}

static bool
look(const troupe_dead_letter_entry *entry, void *user)
{
    (void)entry;
    (void)user;
    return true;
}

static void
call_everything(void)
{
    troupe_counters counters = TROUPE_INIT(troupe_counters);
    troupe_port *other = NULL;
    troupe_ref found = {9, 9};
    troupe_msg *msg = NULL;
    uint64_t n = 1;

    EXPECT(troupe_post(the_system, ref, &test_number, &n) == TROUPE_E_FORKED);
    EXPECT(troupe_post_bytes(the_system, ref, &test_bytes, "a", 1) ==
           TROUPE_E_FORKED);
    EXPECT(troupe_post_stop(the_system, ref) == TROUPE_E_FORKED);
    EXPECT(troupe_post_stop_now(the_system, ref) == TROUPE_E_FORKED);
    EXPECT(troupe_stop_wait(the_system, &ref, 1, 0) == TROUPE_E_FORKED);
    EXPECT(troupe_system_spawn(the_system, &test_recorder, NULL, &found) ==
           TROUPE_E_FORKED);
    EXPECT(found.index == 9);
    EXPECT(troupe_system_wait(the_system, 0) == TROUPE_E_FORKED);
    EXPECT(troupe_system_stop(the_system) == TROUPE_E_FORKED);
    EXPECT(troupe_system_await_idle(the_system, 0) == TROUPE_E_FORKED);
    EXPECT(troupe_system_run(the_system, 1, NULL) == TROUPE_E_FORKED);
    EXPECT(troupe_system_advance(the_system, 1) == TROUPE_E_FORKED);
    EXPECT(troupe_counters_read(the_system, &counters) == TROUPE_E_FORKED);
    EXPECT(troupe_inspect(the_system, NULL, visit, NULL) == TROUPE_E_FORKED);
    EXPECT(troupe_lookup(the_system, "/user/r", &found) == TROUPE_E_FORKED);
    EXPECT(troupe_port_open(the_system, NULL, &other) == TROUPE_E_FORKED);
    EXPECT(other == NULL);
    EXPECT(troupe_port_send(port, ref, &test_number, &n) == TROUPE_E_FORKED);
    EXPECT(troupe_port_watch(port, ref) == TROUPE_E_FORKED);
    EXPECT(troupe_port_take(port, &msg) == TROUPE_E_FORKED);
    EXPECT(troupe_dead_letters_list(the_system, NULL, look, NULL) ==
           TROUPE_E_FORKED);
    EXPECT(
        troupe_dead_letters_get(the_system, 1, look, NULL) == TROUPE_E_FORKED);
    EXPECT(troupe_dead_letters_replay(the_system, 1, TROUPE_NONE) ==
           TROUPE_E_FORKED);
    EXPECT(troupe_shutdown_add(the_system, TROUPE_PHASE_STOP, "more", task,
               NULL) == TROUPE_E_FORKED);
    EXPECT(troupe_shutdown_add_phase(the_system, NULL) == TROUPE_E_FORKED);
    EXPECT(troupe_explain(TROUPE_E_FORKED, NULL, 0) > 0);
}

Test(fork, every_call_with_a_status_says_forked)
{
    in_child(call_everything);
}

static void
ask_for_values(void)
{
    char text[64] = "x";
    troupe_ref busy;
    uint64_t n = 1;

    EXPECT(troupe_depth(the_system, ref) == 0);
    EXPECT(troupe_path(the_system, ref, text, sizeof text) == 0);
    EXPECT(text[0] == '\0');
    EXPECT(troupe_system_busy(the_system, &busy, 1) == 0);
    EXPECT(troupe_msg_new(the_system, &test_number, 0) == NULL);
    EXPECT(troupe_port_next(port) == NULL);
    EXPECT(troupe_dead_letters_clear(the_system) == 0);
    EXPECT(troupe_post_publish(the_system, &test_number, &n) == 0);
    troupe_post_tell(the_system, ref, &test_number, &n);
    troupe_post_failure(the_system, ref, 1);
    troupe_port_tell(port, ref, &test_number, &n);
    troupe_system_request_stop(the_system);
    troupe_shutdown_request(the_system, "x");
    EXPECT(troupe_shutdown_busy(the_system, text, sizeof text) == 0);
    troupe_system_log(the_system, TROUPE_LOG_ERROR, "x");
    troupe_dump(the_system, STDOUT_FILENO);
    troupe_port_close(port);
    EXPECT(test_letters.total == 0);
    EXPECT(troupe_system_destroy(the_system) == TROUPE_OK);
}

Test(fork, calls_without_a_status_answer_zero_and_do_nothing)
{
    in_child(ask_for_values);
}

static void
make_another(void)
{
    troupe_system_options options = test_options();
    static struct test_record mine;
    troupe_system *system = NULL;
    troupe_ref own;
    uint64_t n = 1;

    options.alloc = NULL;
    options.free = NULL;
    options.workers = 2;
    EXPECT(troupe_system_create(&options, &system) == TROUPE_OK);
    own = test_spawn_recorder(system, NULL, &mine);
    EXPECT(troupe_post(system, own, &test_number, &n) == TROUPE_OK);
    EXPECT(troupe_system_await_idle(system, TROUPE_S(60)) == TROUPE_OK);
    EXPECT(mine.count == 1);
    EXPECT(troupe_system_destroy(system) == TROUPE_OK);
    EXPECT(troupe_system_destroy(the_system) == TROUPE_OK);
}

Test(fork, a_child_may_have_its_own_system)
{
    in_child(make_another);
}

static void
leave(void)
{
}

static _Atomic uint64_t posting = 1;
static _Atomic uint64_t posted;

static void *
post_meanwhile(void *user)
{
    (void)user;
    while (atomic_load(&posting) != 0) {
        uint64_t n = 1;

        test_require(
            troupe_post(the_system, ref, &test_other, &n) == TROUPE_OK);
        atomic_fetch_add(&posted, 1);
        if (atomic_load(&posted) > 3000) {
            break;
        }
    }
    return NULL;
}

Test(fork, forking_while_workers_are_busy_harms_nobody)
{
    pthread_t thread;

    record.count = 0;
    cr_assert_eq(pthread_create(&thread, NULL, post_meanwhile, NULL), 0);
    for (int i = 0; i < 20; i++) {
        in_child(i % 2 == 0 ? leave : destroy_it);
    }
    atomic_store(&posting, 0);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    cr_assert_eq(troupe_system_await_idle(the_system, TROUPE_S(60)), TROUPE_OK);
    cr_assert_eq(record.count, posted);
    record.count = 0;
}

/* Descriptors of ours must not survive an exec. */
static void
look_at_descriptor(void)
{
    int flags = fcntl(troupe_port_fd(port), F_GETFD);

    EXPECT(flags >= 0 && (flags & FD_CLOEXEC) != 0);
}

Test(fork, the_descriptor_of_a_port_is_closed_by_an_exec)
{
    in_child(look_at_descriptor);
}

/* --- a mailbox of the user's own ------------------------------------------ */

static uint32_t closed;
static troupe_msg *kept;

static void *
open_box(void *user)
{
    return user;
}

static void
close_box(void *box)
{
    (void)box;
    closed++;
}

static troupe_status
enqueue(void *box, troupe_msg *msg, troupe_msg **evicted)
{
    (void)box;
    (void)evicted;
    if (kept != NULL) {
        return TROUPE_E_FULL;
    }
    kept = msg;
    return TROUPE_OK;
}

static troupe_status
enqueue_undroppable(void *box, troupe_msg *msg)
{
    return enqueue(box, msg, NULL);
}

static troupe_msg *
dequeue(void *box)
{
    troupe_msg *msg = kept;

    (void)box;
    kept = NULL;
    return msg;
}

static size_t
length(const void *box)
{
    (void)box;
    return kept != NULL;
}

static const troupe_custom_mailbox one = {
    .size = TROUPE_OPTIONS(troupe_custom_mailbox),
    .name = "one",
    .open = open_box,
    .close = close_box,
    .enqueue = enqueue,
    .enqueue_undroppable = enqueue_undroppable,
    .prepend = enqueue,
    .dequeue = dequeue,
    .length = length};

static void
destroy_with_box(void)
{
    EXPECT(troupe_system_destroy(the_system) == TROUPE_OK);
    EXPECT(closed == 0); /* it may have been in the middle of a call */
}

Test(fork, a_child_does_not_close_a_custom_mailbox)
{
    static struct test_record mine;
    troupe_mailbox_options mailbox = TROUPE_INIT(troupe_mailbox_options);

    mailbox.custom = &one;
    mailbox.custom_user = &kept;
    (void)test_spawn_recorder_with(the_system, &mailbox, &mine);
    cr_assert_eq(troupe_system_await_idle(the_system, TROUPE_S(60)), TROUPE_OK);
    in_child(destroy_with_box);
    cr_assert_eq(closed, 0);
}
