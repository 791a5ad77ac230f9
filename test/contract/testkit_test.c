/* SPDX-License-Identifier: MIT */
#include "support/system.h"

#include "support/await.h"

#include <troupe/testkit.h>

#include <criterion/criterion.h>
#include <criterion/redirect.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static troupe_system *the_system;
static troupe_probe *probe;
static troupe_ref at;

static void
open_probe(void)
{
    cr_assert_eq(troupe_probe_open(the_system, "probe", &probe), TROUPE_OK);
    at = troupe_probe_ref(probe);
}

static void
open_driven(void)
{
    the_system = test_open_driven(0);
    open_probe();
}

static void
open_simulation(void)
{
    the_system = test_open_driven(7);
    open_probe();
}

static void
open_threads(void)
{
    the_system = test_open_threads(2);
    open_probe();
}

static void
close_all(void)
{
    troupe_probe_close(probe);
    test_close(the_system);
}

/* --- what holds in all kinds of systems ----------------------------------- */

static uint64_t
number_in(const troupe_msg *msg)
{
    cr_assert_not_null(msg);
    return *troupe_payload(msg, uint64_t);
}

static void
expect_messages_in_order(void)
{
    test_post_numbers(the_system, at, 100);
    for (uint64_t i = 0; i < 100; i++) {
        cr_assert_eq(number_in(troupe_probe_next(probe, TROUPE_S(60))), i);
    }
    cr_assert_null(troupe_probe_next(probe, 0));
}

static void
expect_answer(void)
{
    troupe_ref to;
    uint64_t n = 77;

    cr_assert_eq(
        troupe_system_spawn(the_system, &test_echo, NULL, &to), TROUPE_OK);
    for (int i = 0; i < 100; i++) {
        const troupe_msg *msg;

        cr_assert_eq(troupe_probe_send(probe, to, &test_number, &n), TROUPE_OK);
        msg = troupe_probe_next(probe, TROUPE_S(60));
        cr_assert_eq(number_in(msg), 77);
        cr_assert(troupe_ref_equal(msg->sender, to));
    }
}

static void
expect_fishing(void)
{
    uint64_t n = 5;

    test_post_numbers(the_system, at, 10);
    cr_assert_eq(troupe_post(the_system, at, &test_other, &n), TROUPE_OK);
    test_post_number(the_system, at, 99);
    cr_assert_eq(
        number_in(troupe_probe_fish(probe, TEST_TAG_OTHER, TROUPE_S(60))), 5);
    cr_assert_eq(number_in(troupe_probe_next(probe, TROUPE_S(60))), 99);
    cr_assert_null(troupe_probe_fish(probe, TEST_TAG_OTHER, TROUPE_MS(1)));
}

static void
expect_silence(void)
{
    cr_assert(troupe_probe_silent(probe, TROUPE_MS(1)));
    test_post_number(the_system, at, 3);
    cr_assert_not(troupe_probe_silent(probe, TROUPE_S(60)));
    cr_assert_not(troupe_probe_silent(probe, TROUPE_S(60)));
    /* What broke the silence can be looked at. */
    cr_assert_eq(number_in(troupe_probe_next(probe, 0)), 3);
    cr_assert(troupe_probe_silent(probe, 0));
}

static void
expect_notice(void)
{
    troupe_ref doer = test_spawn_doer(the_system, NULL);
    const troupe_msg *msg;

    cr_assert_eq(troupe_probe_watch(probe, doer), TROUPE_OK);
    cr_assert_eq(troupe_post_stop(the_system, doer), TROUPE_OK);
    msg = troupe_probe_next(probe, TROUPE_S(60));
    cr_assert_not_null(msg);
    cr_assert_eq(troupe_msg_tag(msg), TROUPE_TAG_DOWN);
    cr_assert(troupe_ref_equal(troupe_down(msg)->actor, doer));
}

static void
expect_reply(void)
{
    static struct test_record record;
    troupe_ref asker = test_spawn_recorder(the_system, NULL, &record);
    uint64_t n = 9;

    cr_assert_eq(troupe_post_msg_from(the_system, at,
                     troupe_msg_new(the_system, &test_number, 0), asker),
        TROUPE_OK);
    cr_assert_not_null(troupe_probe_next(probe, TROUPE_S(60)));
    troupe_probe_reply(probe, &test_number, &n);
    cr_assert_eq(troupe_system_await_idle(the_system, TROUPE_S(60)), TROUPE_OK);
    cr_assert_eq(record.count, 1);
    cr_assert(troupe_ref_equal(record.entry[0].sender, at));
    cr_assert_eq(record.entry[0].number, 9);
}

#define IN_ALL_SYSTEMS(name)                                                   \
    Test(testkit, name##_driven, .init = open_driven, .fini = close_all)       \
    {                                                                          \
        expect_##name();                                                       \
    }                                                                          \
    Test(                                                                      \
        testkit, name##_simulated, .init = open_simulation, .fini = close_all) \
    {                                                                          \
        expect_##name();                                                       \
    }                                                                          \
    Test(                                                                      \
        testkit, name##_with_workers, .init = open_threads, .fini = close_all) \
    {                                                                          \
        expect_##name();                                                       \
    }

IN_ALL_SYSTEMS(messages_in_order)
IN_ALL_SYSTEMS(answer)
IN_ALL_SYSTEMS(fishing)
IN_ALL_SYSTEMS(silence)
IN_ALL_SYSTEMS(notice)
IN_ALL_SYSTEMS(reply)

/* --- probes --------------------------------------------------------------- */

Test(testkit, a_simulation_moves_its_clock_instead_of_waiting,
    .init = open_simulation, .fini = close_all)
{
    uint64_t before = troupe_now_ns(the_system);
    uint64_t real = test_clock_ns();

    cr_assert(troupe_probe_silent(probe, TROUPE_S(3600)));
    cr_assert_eq(troupe_now_ns(the_system), before + TROUPE_S(3600));
    cr_assert_lt(test_clock_ns() - real, TROUPE_S(60));
    cr_assert_null(troupe_probe_next(probe, TROUPE_S(10)));
    cr_assert_eq(troupe_now_ns(the_system), before + TROUPE_S(3610));
}

Test(testkit, waiting_for_ever_for_what_cannot_come_ends,
    .init = open_simulation, .fini = close_all)
{
    cr_assert_null(troupe_probe_next(probe, TROUPE_FOREVER));
    cr_assert_null(troupe_probe_fish(probe, 5, TROUPE_FOREVER));
    cr_assert(troupe_probe_silent(probe, TROUPE_FOREVER));
}

Test(testkit, an_open_probe_keeps_the_system, .init = open_driven,
    .fini = close_all)
{
    cr_assert_eq(troupe_system_destroy(the_system), TROUPE_E_STATE);
}

Test(testkit, a_probe_is_closed_by_who_opened_it, .init = open_driven,
    .fini = close_all)
{
    cr_assert_eq(troupe_post_stop(the_system, at), TROUPE_E_STATE);
}

Test(testkit, opening_what_cannot_be_opened_is_refused, .init = open_driven,
    .fini = close_all)
{
    troupe_probe *other = NULL;

    cr_assert_eq(
        troupe_probe_open(the_system, "probe", &other), TROUPE_E_EXISTS);
    cr_assert_eq(
        troupe_probe_open(the_system, "a/b", &other), TROUPE_E_INVALID);
    cr_assert_eq(troupe_probe_open(NULL, "x", &other), TROUPE_E_INVALID);
    cr_assert_eq(troupe_probe_open(the_system, "x", NULL), TROUPE_E_INVALID);
    cr_assert_null(other);
    troupe_probe_close(NULL);
}

Test(testkit, what_a_probe_did_not_look_at_is_in_the_books, .init = open_driven)
{
    test_post_number(the_system, at, 1);
    test_post_number(the_system, at, 2);
    cr_assert_not(troupe_probe_silent(probe, 0));
    troupe_probe_close(probe);
    cr_assert_eq(test_counters(the_system).handled, 1);
    cr_assert_eq(test_counters(the_system).dead, 1);
    test_close(the_system);
}

/* --- trials --------------------------------------------------------------- */

static uint64_t seeds[64];
static uint32_t runs;

static bool
note_seed(troupe_system *system, void *user)
{
    seeds[runs++] = troupe_system_seed(system);
    return user == NULL || troupe_system_seed(system) != *(uint64_t *)user;
}

static void
without_seed(void)
{
    cr_assert_eq(unsetenv("TROUPE_SEED"), 0);
    cr_redirect_stderr();
}

static char *
said(void)
{
    static char text[4096];
    FILE *file = cr_get_redirected_stderr();

    (void)fflush(stderr);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    return text;
}

Test(testkit, trials_run_each_seed_once, .init = without_seed)
{
    cr_assert_eq(troupe_trials(NULL, 10, 20, note_seed, NULL), 0);
    cr_assert_eq(runs, 20);
    for (uint64_t i = 0; i < 20; i++) {
        cr_assert_eq(seeds[i], 10 + i);
    }
}

Test(testkit, trials_stop_at_the_first_that_fails_and_print_its_seed,
    .init = without_seed)
{
    uint64_t bad = 14;

    cr_assert_eq(troupe_trials(NULL, 10, 20, note_seed, &bad), 14);
    cr_assert_eq(runs, 5);
    cr_assert_not_null(strstr(said(), "14"));
}

Test(testkit, seed_zero_is_no_seed, .init = without_seed)
{
    cr_assert_eq(troupe_trials(NULL, 0, 3, note_seed, NULL), 0);
    for (uint32_t i = 0; i < runs; i++) {
        cr_assert_neq(seeds[i], 0);
    }
}

Test(testkit, the_environment_chooses_one_seed, .init = without_seed)
{
    cr_assert_eq(setenv("TROUPE_SEED", "4711", 1), 0);
    cr_assert_eq(troupe_trials(NULL, 10, 20, note_seed, NULL), 0);
    cr_assert_eq(runs, 1);
    cr_assert_eq(seeds[0], 4711);
}

Test(testkit, a_bad_seed_in_the_environment_is_no_success, .init = without_seed)
{
    cr_assert_eq(setenv("TROUPE_SEED", "many", 1), 0);
    cr_assert_neq(troupe_trials(NULL, 10, 20, note_seed, NULL), 0);
    cr_assert_eq(runs, 0);
    cr_assert_not_null(strstr(said(), "TROUPE_SEED"));
}

static bool
check_options(troupe_system *system, void *user)
{
    (void)user;
    runs++;
    return strcmp(troupe_system_name(system), "trial") == 0 &&
           troupe_system_run(system, 0, NULL) == TROUPE_OK &&
           test_memory.live_blocks != 0;
}

Test(testkit, trials_use_the_options_but_for_flags_and_seed,
    .init = without_seed)
{
    troupe_system_options options = test_options();

    options.name = "trial";
    options.seed = 99;
    options.workers = 3;
    cr_assert_eq(troupe_trials(&options, 1, 5, check_options, NULL), 0);
    cr_assert_eq(runs, 5);
    cr_assert(test_alloc_is_empty(&test_memory));
}

Test(testkit, options_that_are_wrong_are_no_success, .init = without_seed)
{
    troupe_system_options options = test_options();

    options.size = 0;
    cr_assert_neq(troupe_trials(&options, 1, 5, check_options, NULL), 0);
    options = test_options();
    options.workers = 100000;
    cr_assert_neq(troupe_trials(&options, 1, 5, check_options, NULL), 0);
    cr_assert_eq(runs, 0);
}

static bool
forget_a_probe(troupe_system *system, void *user)
{
    return troupe_probe_open(system, NULL, user) == TROUPE_OK;
}

Test(testkit, a_trial_that_cannot_be_ended_is_no_success, .init = without_seed)
{
    cr_assert_eq(troupe_trials(NULL, 3, 5, forget_a_probe, &probe), 3);
    cr_assert_not_null(strstr(said(), "troupe_system_destroy"));
}

/* --- books and allocations ------------------------------------------------ */

Test(testkit, books_balance_at_every_quiet_moment, .init = open_driven,
    .fini = close_all)
{
    cr_assert(troupe_books_balance(the_system));
    test_post_number(the_system, at, 1);
    cr_assert(troupe_books_balance(the_system));
    cr_assert_not_null(troupe_probe_next(probe, 0));
    cr_assert(troupe_books_balance(the_system));
}

static bool is_looking;
static bool was_off;

/* In the middle of a tell: it is sent, and in no other column yet. */
static void *
look_at_books(size_t bytes, size_t align, void *user)
{
    if (is_looking) {
        is_looking = false;
        was_off = !troupe_books_balance(the_system);
    }
    return test_alloc(bytes, align, user);
}

static troupe_verdict
tell_large(troupe_self *self, const troupe_msg *msg, void *user)
{
    static const char large[10000];

    (void)msg;
    is_looking = true;
    troupe_tell_bytes(
        self, *(troupe_ref *)user, &test_bytes, large, sizeof large);
    return TROUPE_CONTINUE;
}

Test(testkit, books_that_are_off_say_so)
{
    struct test_record record = {0};
    troupe_system_options options = test_options();

    cr_redirect_stderr();
    options.flags |= TROUPE_SYSTEM_DRIVEN;
    options.alloc = look_at_books;
    the_system = test_open(&options);
    at = test_spawn_recorder(the_system, NULL, &record);
    test_do(the_system, test_spawn_doer(the_system, NULL), tell_large, &at);
    cr_assert_eq(record.count, 1);
    cr_assert(was_off);
    cr_assert_not_null(strstr(said(), "sent 2, but handled 1"));
    cr_assert(troupe_books_balance(the_system));
    test_close(the_system);
}

Test(testkit, the_nth_allocation_fails_once, .init = open_driven,
    .fini = close_all)
{
    for (uint64_t nth = 1; nth <= 3; nth++) {
        troupe_fail_allocation(the_system, nth);
        for (uint64_t i = 1; i <= 5; i++) {
            troupe_msg *msg = troupe_msg_new(the_system, &test_bytes, 100000);

            cr_assert_eq(msg == NULL, i == nth);
            troupe_msg_free(msg);
        }
    }
    troupe_fail_allocation(the_system, 1);
    troupe_fail_allocation(the_system, 0);
    {
        troupe_msg *msg = troupe_msg_new(the_system, &test_bytes, 100000);

        cr_assert_not_null(msg);
        troupe_msg_free(msg);
    }
}
