/* SPDX-License-Identifier: MIT */
#include "support/system.h"

#include "support/await.h"

#include <troupe/testkit.h>

#include <criterion/criterion.h>

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

Test(deadletter, every_reason_has_a_name)
{
    cr_assert_str_eq(troupe_dead_reason_name(TROUPE_DEAD_STOPPED), "stopped");
    cr_assert_str_eq(troupe_dead_reason_name(TROUPE_DEAD_REFUSED), "refused");
    cr_assert_str_eq(
        troupe_dead_reason_name(TROUPE_DEAD_UNHANDLED), "unhandled");
    cr_assert_str_eq(troupe_dead_reason_name(TROUPE_DEAD_DROPPED), "dropped");
    cr_assert_str_eq(troupe_dead_reason_name(TROUPE_DEAD_NO_ROUTE), "no_route");
    cr_assert_str_eq(troupe_dead_reason_name(TROUPE_DEAD_STASH), "stash");
    cr_assert_str_eq(troupe_dead_reason_name(TROUPE_DEAD_LATE), "late");
    cr_assert_str_eq(troupe_dead_reason_name(TROUPE_DEAD_EXPIRED), "expired");
    cr_assert_str_eq(
        troupe_dead_reason_name(TROUPE_DEAD_NO_SENDER), "no_sender");
    cr_assert_not_null(troupe_dead_reason_name((troupe_dead_reason)99));
}

Test(deadletter, the_numbers_are_labels)
{
    cr_assert_eq(TROUPE_DEAD_STOPPED, 0);
    cr_assert_eq(TROUPE_DEAD_REFUSED, 1);
    cr_assert_eq(TROUPE_DEAD_DROPPED, 2);
    cr_assert_eq(TROUPE_DEAD_UNHANDLED, 3);
    cr_assert_eq(TROUPE_DEAD_NO_ROUTE, 4);
    cr_assert_eq(TROUPE_DEAD_STASH, 5);
    cr_assert_eq(TROUPE_DEAD_LATE, 6);
    cr_assert_eq(TROUPE_DEAD_EXPIRED, 7);
    cr_assert_eq(TROUPE_DEAD_NO_SENDER, 8);
}

TEST_DRIVEN_SUITE(deadletter_hook);

Test(deadletter_hook, shows_the_message_with_its_sender)
{
    troupe_ref dead = test_dead_actor(the_system);
    troupe_ref sender = test_spawn_doer(the_system, NULL);
    troupe_msg *msg = troupe_msg_new(the_system, &test_number, 0);
    troupe_ref alive = test_spawn_doer(the_system, NULL);

    *troupe_payload_mut(msg, uint64_t) = 31;
    cr_assert_eq(
        troupe_post_msg_from(the_system, alive, msg, sender), TROUPE_OK);
    cr_assert_eq(troupe_post_stop_now(the_system, alive), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(test_letters.total, 1);
    cr_assert_eq(test_letters.last.reason, TROUPE_DEAD_STOPPED);
    cr_assert(troupe_ref_equal(test_letters.last.sender, sender));
    cr_assert(troupe_ref_equal(test_letters.last.recipient, alive));
    cr_assert_eq(test_letters.last.number, 31);
    (void)dead;
}

/* --- a tell that cannot be stored ----------------------------------------- */

static troupe_verdict
tell_without_memory(troupe_self *self, const troupe_msg *msg, void *user)
{
    static const unsigned char bytes[5000] = {1};

    (void)msg;
    troupe_fail_allocation(the_system, 1);
    troupe_tell_bytes(
        self, *(troupe_ref *)user, &test_bytes, bytes, sizeof bytes);
    troupe_fail_allocation(the_system, 0);
    return TROUPE_CONTINUE;
}

Test(deadletter_hook, a_tell_that_could_not_be_stored_was_refused)
{
    struct test_record record = {0};
    troupe_ref to = test_spawn_recorder(the_system, NULL, &record);

    test_do(the_system, test_spawn_doer(the_system, NULL), tell_without_memory,
        &to);
    cr_assert_eq(record.count, 0);
    cr_assert_eq(test_letters.total, 1);
    cr_assert_eq(test_letters.last.reason, TROUPE_DEAD_REFUSED);
    cr_assert(troupe_ref_equal(test_letters.last.recipient, to));
    cr_assert_eq(test_counters(the_system).dead, 1);
}

/* --- the hook itself ------------------------------------------------------ */

static troupe_ref hook_target;
static uint32_t hook_calls;
static const troupe_system *hook_system;

static void
send_in_hook(
    troupe_system *system, const troupe_dead_letter *letter, void *user)
{
    uint64_t n = 1;

    (void)user;
    hook_calls++;
    hook_system = system;
    cr_assert_not_null(letter->msg);
    troupe_post_tell(system, hook_target, &test_number, &n);
}

static troupe_system *
open_with_hook(troupe_dead_letter_fn fn, void *user)
{
    troupe_system_options options = test_options();

    options.flags |= TROUPE_SYSTEM_DRIVEN;
    options.dead_letter.fn = fn;
    options.dead_letter.user = user;
    return test_open(&options);
}

Test(deadletter, the_hook_may_send)
{
    struct test_record record = {0};
    uint64_t n = 1;

    the_system = open_with_hook(send_in_hook, NULL);
    hook_target = test_spawn_recorder(the_system, NULL, &record);
    troupe_post_tell(the_system, test_dead_actor(the_system), &test_number, &n);
    test_run(the_system);
    cr_assert_eq(hook_calls, 1);
    cr_assert_eq(hook_system, the_system);
    cr_assert_eq(record.count, 1);
    test_close(the_system);
}

Test(deadletter, what_is_lost_in_the_hook_is_counted_and_not_shown_again)
{
    uint64_t n = 1;

    the_system = open_with_hook(send_in_hook, NULL);
    hook_target = test_dead_actor(the_system);
    troupe_post_tell(the_system, hook_target, &test_number, &n);
    cr_assert_eq(hook_calls, 1);
    cr_assert_eq(test_counters(the_system).dead, 2);
    troupe_post_tell(the_system, hook_target, &test_number, &n);
    cr_assert_eq(hook_calls, 2);
    cr_assert_eq(test_counters(the_system).dead, 4);
    test_close(the_system);
}

static troupe_system *other_system;
static uint32_t other_calls;

static void
lose_in_the_first(
    troupe_system *system, const troupe_dead_letter *letter, void *user)
{
    (void)letter;
    (void)user;
    other_calls++;
    cr_assert_eq(system, other_system);
    test_post_number(the_system, hook_target, 1);
    troupe_post_tell(the_system, TROUPE_NONE, &test_empty, NULL);
}

static void
lose_in_the_other(
    troupe_system *system, const troupe_dead_letter *letter, void *user)
{
    (void)letter;
    (void)user;
    hook_calls++;
    cr_assert_eq(system, the_system);
    troupe_post_tell(other_system, TROUPE_NONE, &test_empty, NULL);
}

Test(deadletter, a_hook_hears_of_what_the_hook_of_another_system_lost)
{
    struct test_record record = {0};

    the_system = open_with_hook(lose_in_the_other, NULL);
    other_system = open_with_hook(lose_in_the_first, NULL);
    hook_target = test_spawn_recorder(the_system, NULL, &record);
    for (uint32_t i = 1; i <= 2; i++) {
        troupe_post_tell(the_system, TROUPE_NONE, &test_empty, NULL);
        cr_assert_eq(hook_calls, i, "not of what was lost inside itself");
        cr_assert_eq(other_calls, i);
        cr_assert_eq(test_counters(the_system).dead, 2 * i);
        cr_assert_eq(test_counters(other_system).dead, i);
    }
    test_run(the_system);
    cr_assert_eq(record.count, 2);
    cr_assert_eq(troupe_system_destroy(other_system), TROUPE_OK);
    test_close(the_system);
}

static void
use_the_library(
    troupe_system *system, const troupe_dead_letter *letter, void *user)
{
    struct test_record *record = user;
    troupe_ref found;
    char text[256];

    (void)test_counters(system);
    (void)troupe_path(system, letter->recipient, text, sizeof text);
    cr_assert_eq(troupe_lookup(system, "/user/x", &found), TROUPE_E_MISSING);
    (void)troupe_depth(system, letter->recipient);
    (void)test_spawn_recorder(system, NULL, record);
    hook_calls++;
}

static troupe_verdict
queue_and_end(troupe_self *self, const troupe_msg *msg, void *user)
{
    uint64_t n = 1;

    (void)msg;
    (void)user;
    for (int i = 0; i < 10; i++) {
        troupe_tell(self, troupe_self_ref(self), &test_number, &n);
    }
    return TROUPE_DONE;
}

Test(deadletter, the_hook_is_outside_every_lock)
{
    struct test_record record = {0};

    the_system = open_with_hook(use_the_library, &record);
    test_do(the_system, test_spawn_doer(the_system, NULL), queue_and_end, NULL);
    cr_assert_eq(hook_calls, 10);
    cr_assert_eq(record.started, 10);
    test_close(the_system);
}

Test(deadletter, without_a_hook_they_are_counted)
{
    uint64_t n = 1;

    the_system = open_with_hook(NULL, NULL);
    troupe_post_tell(the_system, test_dead_actor(the_system), &test_number, &n);
    cr_assert_eq(test_counters(the_system).dead, 1);
    test_close(the_system);
}

/* --- with workers --------------------------------------------------------- */

static _Atomic uint64_t inside_hook;

/* Waits for another call of it, then uses the library. */
static void
meet_and_use_the_library(
    troupe_system *system, const troupe_dead_letter *letter, void *user)
{
    char text[256];
    troupe_ref found;
    uint64_t n = 1;

    atomic_fetch_add(&inside_hook, 1);
    test_require(test_await_at_least(&inside_hook, 2));
    test_require(test_counters(system).dead >= 1);
    (void)troupe_path(system, letter->recipient, text, sizeof text);
    test_require(troupe_lookup(system, "/user/x", &found) == TROUPE_E_MISSING);
    test_require(troupe_depth(system, letter->recipient) == TROUPE_DEPTH_DEAD);
    (void)test_spawn_doer(system, NULL);
    troupe_post_tell(system, *(troupe_ref *)user, &test_number, &n);
}

static troupe_verdict
tell_many_times(troupe_self *self, const troupe_msg *msg, void *user)
{
    uint64_t n = 1;

    (void)msg;
    for (int i = 0; i < 100; i++) {
        troupe_tell(self, *(troupe_ref *)user, &test_number, &n);
    }
    return TROUPE_CONTINUE;
}

Test(deadletter, the_hook_runs_on_many_threads_at_once)
{
    troupe_system_options options = test_options();
    static struct test_record record;
    troupe_ref dead;

    options.workers = 2;
    options.dead_letter.fn = meet_and_use_the_library;
    options.dead_letter.user = &hook_target;
    the_system = test_open(&options);
    hook_target = test_spawn_recorder(the_system, NULL, &record);
    dead = test_spawn_doer(the_system, NULL);
    cr_assert_eq(
        troupe_stop_wait(the_system, &dead, 1, TROUPE_S(60)), TROUPE_OK);
    for (int i = 0; i < 2; i++) {
        test_do_later(the_system, test_spawn_doer(the_system, NULL),
            tell_many_times, &dead);
    }
    cr_assert_eq(troupe_system_await_idle(the_system, TROUPE_S(60)), TROUPE_OK);
    cr_assert_eq(inside_hook, 200);
    cr_assert_eq(record.count, 200);
    test_close(the_system);
}
/* --- the store ------------------------------------------------------------ */

#define SEEN 64

/* What a visitor was shown. */
static struct seen {
    uint32_t count;
    uint32_t most; /* then it has seen enough; 0 = never */
    struct {
        uint64_t id;
        uint64_t when_ns;
        char recipient_path[512];
        char sender_path[512];
        troupe_ref recipient;
        troupe_ref sender;
        troupe_dead_reason reason;
        uint32_t replays;
        troupe_tag tag;
        size_t bytes;
        bool has_payload;
        uint64_t number;
    } entry[SEEN];
} seen;

static bool
look(const troupe_dead_letter_entry *entry, void *user)
{
    struct seen *into = user;
    const troupe_msg *msg = entry->letter.msg;

    cr_assert_geq(entry->size, sizeof *entry);
    cr_assert_lt(into->count, SEEN);
    into->entry[into->count].id = entry->id;
    into->entry[into->count].when_ns = entry->when_ns;
    (void)strncpy(into->entry[into->count].recipient_path,
        entry->recipient_path, sizeof into->entry[0].recipient_path - 1);
    (void)strncpy(into->entry[into->count].sender_path, entry->sender_path,
        sizeof into->entry[0].sender_path - 1);
    into->entry[into->count].recipient = entry->letter.recipient;
    into->entry[into->count].sender = msg->sender;
    into->entry[into->count].reason = entry->letter.reason;
    into->entry[into->count].replays = entry->letter.replays;
    into->entry[into->count].tag = troupe_msg_tag(msg);
    into->entry[into->count].bytes = msg->bytes;
    into->entry[into->count].has_payload = msg->payload != NULL;
    if (msg->payload != NULL && msg->bytes >= sizeof(uint64_t)) {
        memcpy(
            &into->entry[into->count].number, msg->payload, sizeof(uint64_t));
    }
    into->count++;
    return into->count != into->most;
}

/* All of them, into `seen`. */
static uint32_t
list_all(void)
{
    memset(&seen, 0, sizeof seen);
    cr_assert_eq(
        troupe_dead_letters_list(the_system, NULL, look, &seen), TROUPE_OK);
    return seen.count;
}

static uint32_t
list(troupe_dead_letter_filter filter)
{
    filter.size = sizeof filter;
    memset(&seen, 0, sizeof seen);
    cr_assert_eq(
        troupe_dead_letters_list(the_system, &filter, look, &seen), TROUPE_OK);
    return seen.count;
}

/* A simulation, so that time stands still unless a test moves it. */
static troupe_system *
open_store(troupe_dead_letter_options store)
{
    troupe_system_options options = test_options();

    store.size = sizeof store;
    options.flags |= TROUPE_SYSTEM_DRIVEN;
    options.name = "shop";
    options.seed = 7;
    options.dead_letters = &store;
    return test_open(&options);
}

static void
setup_store(void)
{
    the_system = open_store((troupe_dead_letter_options){.capacity = 10});
}

TestSuite(deadletter_store, .init = setup_store, .fini = close_the_system);

/* One that had stopped, told a number. */
static void
lose(uint64_t number)
{
    static troupe_ref dead;

    if (troupe_depth(the_system, dead) != TROUPE_DEPTH_DEAD) {
        dead = test_dead_actor(the_system);
    }
    troupe_post_tell(the_system, dead, &test_number, &number);
}

/* A child of /user that gets `number` and ends before it handles it. */
static troupe_ref
lose_in(const char *name, uint64_t number)
{
    troupe_ref ref = test_spawn_doer(the_system, name);

    test_run(the_system);
    cr_assert_eq(
        troupe_post(the_system, ref, &test_number, &number), TROUPE_OK);
    cr_assert_eq(troupe_post_stop_now(the_system, ref), TROUPE_OK);
    test_run(the_system);
    return ref;
}

static void
expect_no_store(void)
{
    cr_assert_eq(troupe_dead_letters_list(the_system, NULL, look, &seen),
        TROUPE_E_STATE);
    cr_assert_eq(
        troupe_dead_letters_get(the_system, 1, look, &seen), TROUPE_E_STATE);
    cr_assert_eq(
        troupe_dead_letters_replay(the_system, 1, TROUPE_NONE), TROUPE_E_STATE);
    cr_assert_eq(troupe_dead_letters_clear(the_system), 0);
    cr_assert_eq(seen.count, 0);
}

Test(deadletter, without_a_store_the_calls_say_so_and_letters_are_counted)
{
    the_system = test_open_driven(0);
    lose(1);
    expect_no_store();
    cr_assert_eq(test_counters(the_system).dead, 1);
    test_close(the_system);
    the_system = open_store((troupe_dead_letter_options){.capacity = 0});
    lose(1);
    expect_no_store();
    cr_assert_eq(test_counters(the_system).dead, 1);
    test_close(the_system);
}

static troupe_status
create_with(const troupe_dead_letter_options *store)
{
    troupe_system_options options = test_options();
    troupe_system *system = NULL;
    troupe_status status;

    options.flags |= TROUPE_SYSTEM_DRIVEN;
    options.dead_letters = store;
    status = troupe_system_create(&options, &system);
    if (status == TROUPE_OK) {
        (void)troupe_system_destroy(system);
    }
    cr_assert(test_alloc_is_empty(&test_memory));
    return status;
}

Test(deadletter, bad_options_of_the_store_are_refused)
{
    struct {
        troupe_dead_letter_options known;
        uint64_t more;
    } newer = {{sizeof newer, 5, 0, 0}, 0};
    troupe_dead_letter_options store = TROUPE_INIT(troupe_dead_letter_options);

    store.capacity = 1000001;
    cr_assert_eq(create_with(&store), TROUPE_E_INVALID);
    cr_assert_str_eq(troupe_last_error().option, "dead_letters");
    store.capacity = 1000000;
    cr_assert_eq(create_with(&store), TROUPE_OK);
    store.size = 0;
    cr_assert_eq(create_with(&store), TROUPE_E_INVALID);
    cr_assert_eq(create_with(&newer.known), TROUPE_OK);
    newer.more = 1;
    cr_assert_eq(create_with(&newer.known), TROUPE_E_VERSION);
}

Test(deadletter_store, keeps_the_newest_and_lists_them_first)
{
    for (uint64_t i = 0; i < 13; i++) {
        lose(i);
    }
    cr_assert_eq(list_all(), 10);
    for (uint32_t i = 0; i < 10; i++) {
        cr_assert_eq(seen.entry[i].number, 12 - i);
        cr_assert_eq(seen.entry[i].id, 13 - i);
    }
    cr_assert_eq(test_counters(the_system).dead, 13);
}

static troupe_verdict
tell_number(troupe_self *self, const troupe_msg *msg, void *user)
{
    uint64_t number = 41;

    (void)msg;
    troupe_tell(self, *(troupe_ref *)user, &test_number, &number);
    return TROUPE_CONTINUE;
}

Test(deadletter_store, an_entry_has_message_paths_time_and_reason)
{
    troupe_ref sender = test_spawn_doer(the_system, "asker");
    struct test_record record = {.answer = TROUPE_UNHANDLED};
    troupe_ref to = test_spawn_recorder(the_system, "clerk", &record);

    cr_assert_eq(troupe_system_advance(the_system, 1234), TROUPE_OK);
    test_do(the_system, sender, tell_number, &to);
    cr_assert_eq(troupe_post_stop(the_system, to), TROUPE_OK);
    cr_assert_eq(troupe_post_stop(the_system, sender), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(list_all(), 1);
    cr_assert_str_eq(seen.entry[0].recipient_path, "troupe://shop/user/clerk");
    cr_assert_str_eq(seen.entry[0].sender_path, "troupe://shop/user/asker");
    cr_assert_eq(seen.entry[0].when_ns, 1234);
    cr_assert_eq(seen.entry[0].reason, TROUPE_DEAD_UNHANDLED);
    cr_assert_eq(seen.entry[0].replays, 0);
    cr_assert_eq(seen.entry[0].number, 41);
    cr_assert_eq(seen.entry[0].tag, TEST_TAG_NUMBER);
    cr_assert(troupe_ref_equal(seen.entry[0].recipient, to));
    cr_assert(troupe_ref_equal(seen.entry[0].sender, sender));
}

Test(deadletter_store, who_had_gone_before_is_named_by_its_ref)
{
    troupe_ref dead = test_dead_actor(the_system);
    char name[64];

    troupe_post_tell(the_system, dead, &test_empty, NULL);
    cr_assert_eq(list_all(), 1);
    (void)snprintf(name, sizeof name, "$%x-%x", dead.index, dead.generation);
    cr_assert_str_eq(seen.entry[0].recipient_path, name);
}

Test(deadletter_store, nobody_has_an_empty_path)
{
    troupe_post_tell(the_system, TROUPE_NONE, &test_empty, NULL);
    cr_assert_eq(list_all(), 1);
    cr_assert_str_eq(seen.entry[0].recipient_path, "");
    cr_assert_str_eq(seen.entry[0].sender_path, "");
    cr_assert_eq(seen.entry[0].reason, TROUPE_DEAD_NO_SENDER);
}

static troupe_verdict
lose_in_a_child(troupe_self *self, const troupe_msg *msg, void *user)
{
    troupe_ref child = test_spawn_doer_below(self, "c");
    uint64_t number = 3;

    (void)msg;
    (void)user;
    troupe_tell(self, child, &test_number, &number);
    cr_assert_eq(troupe_stop_now(self, child), TROUPE_OK);
    return TROUPE_CONTINUE;
}

Test(deadletter_store, a_subtree_ends_where_a_name_ends)
{
    test_do(
        the_system, test_spawn_doer(the_system, "b"), lose_in_a_child, NULL);
    (void)lose_in("a", 1);
    (void)lose_in("ab", 2);
    lose(4);
    cr_assert_eq(list_all(), 4);
    cr_assert_eq(list((troupe_dead_letter_filter){.subtree = "/user/a"}), 1);
    cr_assert_eq(seen.entry[0].number, 1);
    cr_assert_eq(list((troupe_dead_letter_filter){.subtree = "/user/a/"}), 1);
    cr_assert_eq(
        list((troupe_dead_letter_filter){.subtree = "troupe://shop/user/ab"}),
        1);
    cr_assert_eq(seen.entry[0].number, 2);
    cr_assert_eq(list((troupe_dead_letter_filter){.subtree = "/user/b"}), 1);
    cr_assert_eq(seen.entry[0].number, 3);
    cr_assert_eq(list((troupe_dead_letter_filter){.subtree = "/user/b/c"}), 1);
    cr_assert_eq(list((troupe_dead_letter_filter){.subtree = "/user"}), 3);
    cr_assert_eq(list((troupe_dead_letter_filter){.subtree = "/"}), 3);
    cr_assert_eq(list((troupe_dead_letter_filter){.subtree = "/system"}), 0);
    cr_assert_eq(list((troupe_dead_letter_filter){.subtree = "/user/abc"}), 0);
}

Test(deadletter_store, a_filter_has_since_until_and_limit)
{
    for (uint64_t i = 0; i < 5; i++) {
        lose(i);
        cr_assert_eq(troupe_system_advance(the_system, 100), TROUPE_OK);
    }
    cr_assert_eq(list((troupe_dead_letter_filter){.since_ns = 300}), 2);
    cr_assert_eq(seen.entry[1].number, 3);
    cr_assert_eq(list((troupe_dead_letter_filter){.until_ns = 200}), 3);
    cr_assert_eq(seen.entry[0].number, 2);
    cr_assert_eq(
        list((troupe_dead_letter_filter){.since_ns = 101, .until_ns = 399}), 2);
    cr_assert_eq(list((troupe_dead_letter_filter){.limit = 2}), 2);
    cr_assert_eq(seen.entry[0].number, 4);
    cr_assert_eq(
        list((troupe_dead_letter_filter){.until_ns = 250, .limit = 1}), 1);
    cr_assert_eq(seen.entry[0].number, 2);
}

Test(deadletter_store, a_wrong_filter_or_visitor_is_refused)
{
    troupe_dead_letter_filter filter = TROUPE_INIT(troupe_dead_letter_filter);

    cr_assert_eq(troupe_dead_letters_list(the_system, NULL, NULL, NULL),
        TROUPE_E_INVALID);
    cr_assert_eq(
        troupe_dead_letters_list(NULL, NULL, look, &seen), TROUPE_E_INVALID);
    cr_assert_eq(
        troupe_dead_letters_get(NULL, 1, look, &seen), TROUPE_E_INVALID);
    cr_assert_eq(
        troupe_dead_letters_get(the_system, 1, NULL, NULL), TROUPE_E_INVALID);
    cr_assert_eq(
        troupe_dead_letters_replay(NULL, 1, TROUPE_NONE), TROUPE_E_INVALID);
    cr_assert_eq(troupe_dead_letters_clear(NULL), 0);
    filter.subtree = "user/a";
    cr_assert_eq(troupe_dead_letters_list(the_system, &filter, look, &seen),
        TROUPE_E_INVALID);
    cr_assert_str_eq(troupe_last_error().option, "subtree");
    filter.subtree = "troupe://shopping/user";
    cr_assert_eq(troupe_dead_letters_list(the_system, &filter, look, &seen),
        TROUPE_E_INVALID);
    filter.size = 0;
    cr_assert_eq(troupe_dead_letters_list(the_system, &filter, look, &seen),
        TROUPE_E_INVALID);
    cr_assert_eq(seen.count, 0);
}

Test(deadletter_store, a_visitor_may_have_seen_enough)
{
    for (uint64_t i = 0; i < 5; i++) {
        lose(i);
    }
    memset(&seen, 0, sizeof seen);
    seen.most = 2;
    cr_assert_eq(
        troupe_dead_letters_list(the_system, NULL, look, &seen), TROUPE_OK);
    cr_assert_eq(seen.count, 2);
}

static bool
use_the_store(const troupe_dead_letter_entry *entry, void *user)
{
    uint64_t number = 99;
    troupe_ref nobody = {entry->letter.recipient.index, 1};

    (void)user;
    seen.count = 0;
    cr_assert_eq(troupe_dead_letters_get(the_system, entry->id, look, &seen),
        seen.count == 1 ? TROUPE_OK : TROUPE_E_MISSING);
    (void)troupe_dead_letters_clear(the_system);
    troupe_post_tell(the_system, nobody, &test_number, &number);
    cr_assert_eq(entry->letter.msg->bytes, sizeof number);
    cr_assert_neq(*troupe_payload(entry->letter.msg, uint64_t), 99);
    return true;
}

Test(deadletter_store, a_visitor_may_use_the_store_it_is_shown)
{
    for (uint64_t i = 0; i < 5; i++) {
        lose(i);
    }
    cr_assert_eq(
        troupe_dead_letters_list(the_system, NULL, use_the_store, NULL),
        TROUPE_OK);
    cr_assert_eq(list_all(), 1, "the last one cleared the others");
}

Test(deadletter_store, one_can_be_got_by_its_id)
{
    lose(5);
    lose(6);
    (void)list_all();
    {
        uint64_t id = seen.entry[1].id;

        memset(&seen, 0, sizeof seen);
        cr_assert_eq(
            troupe_dead_letters_get(the_system, id, look, &seen), TROUPE_OK);
        cr_assert_eq(seen.count, 1);
        cr_assert_eq(seen.entry[0].number, 5);
        cr_assert_eq(seen.entry[0].id, id);
    }
    cr_assert_eq(
        troupe_dead_letters_get(the_system, 77, look, &seen), TROUPE_E_MISSING);
    cr_assert_eq(
        troupe_dead_letters_get(the_system, 0, look, &seen), TROUPE_E_MISSING);
}

Test(deadletter_store, clear_says_how_many_there_were)
{
    uint64_t bytes = test_counters(the_system).bytes;

    cr_assert_eq(troupe_dead_letters_clear(the_system), 0);
    for (uint64_t i = 0; i < 12; i++) {
        lose(i);
    }
    cr_assert_eq(troupe_dead_letters_clear(the_system), 10);
    cr_assert_eq(list_all(), 0);
    cr_assert_leq(test_counters(the_system).bytes, bytes + 256);
    lose(1);
    cr_assert_eq(list_all(), 1);
    cr_assert_eq(seen.entry[0].id, 13, "ids grow");
}

Test(deadletter, what_is_too_old_is_gone)
{
    the_system = open_store((troupe_dead_letter_options){
        .capacity = 10, .retention_ns = TROUPE_MS(5)});
    lose(1);
    cr_assert_eq(troupe_system_advance(the_system, TROUPE_MS(3)), TROUPE_OK);
    lose(2);
    cr_assert_eq(troupe_system_advance(the_system, TROUPE_MS(2)), TROUPE_OK);
    cr_assert_eq(list_all(), 2, "just as old as that");
    cr_assert_eq(troupe_system_advance(the_system, 1), TROUPE_OK);
    cr_assert_eq(
        troupe_dead_letters_get(the_system, 1, look, &seen), TROUPE_E_MISSING);
    cr_assert_eq(troupe_dead_letters_replay(the_system, 1, TROUPE_NONE),
        TROUPE_E_MISSING);
    cr_assert_eq(list_all(), 1);
    cr_assert_eq(seen.entry[0].number, 2);
    cr_assert_eq(troupe_system_advance(the_system, TROUPE_S(1)), TROUPE_OK);
    cr_assert_eq(troupe_dead_letters_clear(the_system), 0);
    test_close(the_system);
}

Test(deadletter, retention_is_an_hour_or_for_ever)
{
    the_system = open_store((troupe_dead_letter_options){.capacity = 10});
    lose(1);
    cr_assert_eq(troupe_system_advance(the_system, TROUPE_S(3600)), TROUPE_OK);
    cr_assert_eq(list_all(), 1);
    cr_assert_eq(troupe_system_advance(the_system, 1), TROUPE_OK);
    cr_assert_eq(list_all(), 0);
    test_close(the_system);
    the_system = open_store((troupe_dead_letter_options){
        .capacity = 10, .retention_ns = TROUPE_FOREVER});
    lose(1);
    cr_assert_eq(
        troupe_system_advance(the_system, TROUPE_S(10000000)), TROUPE_OK);
    cr_assert_eq(list_all(), 1);
    test_close(the_system);
}

/* --- replay --------------------------------------------------------------- */

static troupe_status
replay(uint64_t id, troupe_ref to)
{
    troupe_status status = troupe_dead_letters_replay(the_system, id, to);

    test_run(the_system);
    return status;
}

Test(deadletter_store, a_replay_reaches_the_recipient_from_the_sender)
{
    struct test_record record = {.answer = TROUPE_UNHANDLED};
    troupe_ref sender = test_spawn_doer(the_system, "asker");
    troupe_ref to = test_spawn_recorder(the_system, "clerk", &record);

    test_do(the_system, sender, tell_number, &to);
    cr_assert_eq(list_all(), 1);
    record.answer = TROUPE_CONTINUE;
    cr_assert_eq(replay(1, TROUPE_NONE), TROUPE_OK);
    cr_assert_eq(record.count, 2);
    cr_assert_eq(record.entry[1].number, 41);
    cr_assert_eq(record.entry[1].tag, TEST_TAG_NUMBER);
    cr_assert(troupe_ref_equal(record.entry[1].sender, sender));
    cr_assert_eq(list_all(), 0);
    cr_assert_eq(replay(1, TROUPE_NONE), TROUPE_E_MISSING);
}

Test(deadletter_store, a_replay_reaches_somebody_else)
{
    struct test_record record = {0};
    troupe_ref to = test_spawn_recorder(the_system, "heir", &record);

    lose(17);
    cr_assert_eq(replay(1, to), TROUPE_OK);
    cr_assert_eq(record.count, 1);
    cr_assert_eq(record.entry[0].number, 17);
    cr_assert(troupe_ref_is_none(record.entry[0].sender));
    cr_assert_eq(list_all(), 0);
}

Test(deadletter_store, failing_again_it_is_the_same_letter)
{
    struct test_record record = {.answer = TROUPE_UNHANDLED};
    troupe_ref to = test_spawn_recorder(the_system, "heir", &record);

    lose(1);
    lose(17);
    lose(3);
    cr_assert_eq(troupe_system_advance(the_system, 50), TROUPE_OK);
    cr_assert_eq(replay(2, to), TROUPE_OK);
    cr_assert_eq(list_all(), 3);
    cr_assert_eq(seen.entry[0].id, 2, "lost last");
    cr_assert_eq(seen.entry[0].when_ns, 50);
    cr_assert_eq(seen.entry[0].replays, 1);
    cr_assert_eq(seen.entry[0].number, 17);
    cr_assert_eq(seen.entry[0].reason, TROUPE_DEAD_UNHANDLED);
    cr_assert(troupe_ref_equal(seen.entry[0].recipient, to));
    cr_assert_str_eq(seen.entry[0].recipient_path, "troupe://shop/user/heir");
    record.answer = TROUPE_CONTINUE;
    cr_assert_eq(replay(2, TROUPE_NONE), TROUPE_OK);
    cr_assert_eq(record.count, 2, "to where it was sent last");
    cr_assert_eq(list_all(), 2);
}

Test(deadletter_store, dying_in_a_mailbox_it_is_the_same_letter)
{
    troupe_ref to = test_spawn_doer(the_system, "heir");

    lose(17);
    test_run(the_system);
    cr_assert_eq(troupe_dead_letters_replay(the_system, 1, to), TROUPE_OK);
    cr_assert_eq(list_all(), 0, "on its way");
    cr_assert_eq(troupe_post_stop_now(the_system, to), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(list_all(), 1);
    cr_assert_eq(seen.entry[0].id, 1);
    cr_assert_eq(seen.entry[0].replays, 1);
    cr_assert_eq(seen.entry[0].reason, TROUPE_DEAD_STOPPED);
}

static troupe_verdict
forward_to(troupe_self *self, void *state, const troupe_msg *msg)
{
    troupe_ref to;

    (void)msg;
    memcpy(&to, state, sizeof to);
    troupe_forward(self, to);
    return TROUPE_CONTINUE;
}

static troupe_verdict
take_and_tell(troupe_self *self, void *state, const troupe_msg *msg)
{
    troupe_msg *mine = NULL;
    troupe_ref to;

    (void)msg;
    memcpy(&to, state, sizeof to);
    cr_assert_eq(troupe_take(self, &mine), TROUPE_OK);
    troupe_tell_msg(self, to, mine);
    return TROUPE_CONTINUE;
}

static troupe_status
keep_ref(troupe_self *self, void *state, const void *arg)
{
    (void)self;
    memcpy(state, arg, sizeof(troupe_ref));
    return TROUPE_OK;
}

static troupe_ref
spawn_passing_on(troupe_behaviour_fn how, troupe_ref to)
{
    static troupe_actor_type type = {.size = sizeof type,
        .name = "passing on",
        .state_bytes = sizeof(troupe_ref),
        .start = keep_ref};
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    troupe_ref ref = TROUPE_NONE;

    type.receive = how;
    options.arg = &to;
    options.arg_bytes = sizeof to;
    test_require(
        troupe_system_spawn(the_system, &type, &options, &ref) == TROUPE_OK);
    test_run(the_system);
    return ref;
}

Test(deadletter_store, passed_on_it_is_the_same_letter)
{
    troupe_ref dead = test_dead_actor(the_system);

    lose(17);
    cr_assert_eq(replay(1, spawn_passing_on(forward_to, dead)), TROUPE_OK);
    cr_assert_eq(list_all(), 1);
    cr_assert_eq(seen.entry[0].id, 1);
    cr_assert_eq(seen.entry[0].replays, 1);
    cr_assert(troupe_ref_equal(seen.entry[0].recipient, dead));
    cr_assert_eq(replay(1, spawn_passing_on(take_and_tell, dead)), TROUPE_OK);
    cr_assert_eq(list_all(), 1);
    cr_assert_eq(seen.entry[0].id, 1);
    cr_assert_eq(seen.entry[0].replays, 2);
    cr_assert_eq(seen.entry[0].number, 17);
}

/* Forwards to nobody, then to `to` if there is one; else it is unhandled. */
static troupe_verdict
lose_and_go_on(troupe_self *self, void *state, const troupe_msg *msg)
{
    troupe_ref to;

    (void)msg;
    memcpy(&to, state, sizeof to);
    troupe_forward(self, TROUPE_NONE);
    if (troupe_ref_is_none(to)) {
        return TROUPE_UNHANDLED;
    }
    troupe_forward(self, to);
    return TROUPE_CONTINUE;
}

/* The newest is a new one; the one before is what it was. */
static void
expect_lost_twice(uint64_t id)
{
    static struct seen got;

    memset(&got, 0, sizeof got);
    cr_assert_eq(list_all(), 2);
    cr_assert_eq(seen.entry[0].id, id + 1);
    cr_assert_eq(seen.entry[1].id, id);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(seen.entry[i].number, 17);
        cr_assert_eq(
            troupe_dead_letters_get(the_system, seen.entry[i].id, look, &got),
            TROUPE_OK);
        cr_assert_eq(got.entry[i].reason, seen.entry[i].reason);
    }
}

Test(deadletter_store, lost_twice_in_one_turn_it_is_two_letters)
{
    lose(17);
    cr_assert_eq(
        replay(1, spawn_passing_on(lose_and_go_on, TROUPE_NONE)), TROUPE_OK);
    expect_lost_twice(1);
    cr_assert_eq(seen.entry[0].reason, TROUPE_DEAD_UNHANDLED);
    cr_assert_eq(seen.entry[1].reason, TROUPE_DEAD_NO_SENDER);
}

Test(deadletter_store, lost_and_then_passed_on_it_may_be_lost_again)
{
    static struct test_record record = {.answer = TROUPE_UNHANDLED};
    troupe_ref to = test_spawn_recorder(the_system, "heir", &record);

    lose(17);
    cr_assert_eq(replay(1, spawn_passing_on(lose_and_go_on, to)), TROUPE_OK);
    cr_assert_eq(record.count, 1);
    expect_lost_twice(1);
    cr_assert(troupe_ref_equal(seen.entry[0].recipient, to));
}

Test(deadletter_store, nobody_there_leaves_the_letter_as_it_was)
{
    lose(1);
    lose(2);
    cr_assert_eq(troupe_system_advance(the_system, 50), TROUPE_OK);
    for (int i = 0; i < 5; i++) {
        cr_assert_eq(replay(1, TROUPE_NONE), TROUPE_E_DEAD);
        cr_assert_eq(replay(1, test_dead_actor(the_system)), TROUPE_E_DEAD);
    }
    cr_assert_eq(list_all(), 2);
    cr_assert_eq(seen.entry[1].id, 1);
    cr_assert_eq(seen.entry[1].when_ns, 0);
    cr_assert_eq(seen.entry[1].replays, 0);
    cr_assert_eq(test_counters(the_system).dead, 2);
}

Test(deadletter_store, a_full_mailbox_leaves_the_letter_as_it_was)
{
    troupe_mailbox_options options = TROUPE_INIT(troupe_mailbox_options);
    static struct test_record record;
    troupe_ref to;

    options.capacity = 1;
    to = test_spawn_recorder_with(the_system, &options, &record);
    test_run(the_system);
    lose(1);
    test_post_number(the_system, to, 2);
    cr_assert_eq(troupe_dead_letters_replay(the_system, 1, to), TROUPE_E_FULL);
    cr_assert_eq(list_all(), 1);
    cr_assert_eq(seen.entry[0].id, 1);
    cr_assert_eq(seen.entry[0].replays, 0);
    cr_assert_not(troupe_ref_equal(seen.entry[0].recipient, to));
    test_run(the_system);
    cr_assert_eq(replay(1, to), TROUPE_OK);
    cr_assert_eq(record.count, 2);
}

static uint32_t
count_replays(troupe_ref to)
{
    uint32_t count = 0;
    troupe_status status;

    while ((status = replay(1, to)) == TROUPE_OK) {
        count++;
        cr_assert_lt(count, 100);
    }
    cr_assert_eq(status, TROUPE_E_LIMIT);
    return count;
}

Test(deadletter, so_often_and_no_more)
{
    static const uint32_t given[] = {0, 1, 5, TROUPE_REPLAYS_NONE};
    static const uint32_t expected[] = {3, 1, 5, 0};

    for (int i = 0; i < 4; i++) {
        struct test_record record = {.answer = TROUPE_UNHANDLED};
        struct test_record other = {0};
        troupe_ref to;

        the_system = open_store((troupe_dead_letter_options){
            .capacity = 10, .max_replays = given[i]});
        to = test_spawn_recorder(the_system, NULL, &record);
        lose(1);
        cr_assert_eq(count_replays(to), expected[i]);
        cr_assert_eq(record.count, expected[i]);
        cr_assert_eq(list_all(), 1);
        cr_assert_eq(seen.entry[0].replays, expected[i]);
        to = test_spawn_recorder(the_system, NULL, &other);
        cr_assert_eq(replay(1, to), TROUPE_E_LIMIT, "another does not help");
        cr_assert_eq(other.count, 0);
        test_close(the_system);
    }
}

static _Atomic uint64_t drops;

Test(deadletter, the_checks_of_a_replay_have_an_order)
{
    struct test_owned owned = {&drops, 5};

    the_system = open_store((troupe_dead_letter_options){
        .capacity = 10, .max_replays = TROUPE_REPLAYS_NONE});
    troupe_post_tell(the_system, TROUPE_NONE, &test_owned, &owned);
    lose(1);
    cr_assert_eq(replay(3, TROUPE_NONE), TROUPE_E_MISSING);
    cr_assert_eq(replay(1, TROUPE_NONE), TROUPE_E_INVALID);
    cr_assert_eq(replay(2, TROUPE_NONE), TROUPE_E_LIMIT);
    troupe_system_request_stop(the_system);
    cr_assert_eq(replay(3, TROUPE_NONE), TROUPE_E_CLOSED);
    test_close(the_system);
}

Test(deadletter_store, what_owns_something_is_kept_without_its_payload)
{
    struct test_large large = {.owned = {&drops, 5}};
    struct test_owned owned = {&drops, 6};

    troupe_post_tell(
        the_system, test_dead_actor(the_system), &test_large, &large);
    troupe_post_tell(
        the_system, test_dead_actor(the_system), &test_owned, &owned);
    cr_assert_eq(drops, 2, "dropped as ever");
    cr_assert_eq(list_all(), 2);
    for (int i = 0; i < 2; i++) {
        cr_assert_not(seen.entry[i].has_payload);
        cr_assert_eq(replay(seen.entry[i].id, TROUPE_NONE), TROUPE_E_INVALID);
    }
    cr_assert_eq(seen.entry[1].tag, TEST_TAG_LARGE);
    cr_assert_eq(seen.entry[1].bytes, sizeof large);
    cr_assert_eq(troupe_dead_letters_clear(the_system), 2);
    cr_assert_eq(drops, 2);
}

static troupe_verdict
share_with_all(troupe_self *self, const troupe_msg *msg, void *user)
{
    struct test_large payload = {.owned = {&drops, 8}};

    (void)msg;
    (void)troupe_tell_many(self, user, 3, &test_shared, &payload);
    return TROUPE_CONTINUE;
}

Test(deadletter_store, a_shared_payload_is_kept_and_dropped_once)
{
    struct test_record record = {0};
    troupe_ref all[3] = {test_dead_actor(the_system), TROUPE_NONE,
        test_spawn_recorder(the_system, "r", &record)};

    all[1] = test_dead_actor(the_system);
    test_do(the_system, test_spawn_doer(the_system, NULL), share_with_all, all);
    cr_assert_eq(record.count, 1);
    cr_assert_eq(drops, 0, "two letters have it");
    cr_assert_eq(list_all(), 2);
    cr_assert(seen.entry[0].has_payload);
    cr_assert_eq(replay(1, all[2]), TROUPE_OK);
    cr_assert_eq(record.count, 2);
    cr_assert_eq(drops, 0, "one letter has it");
    cr_assert_eq(replay(2, all[2]), TROUPE_OK);
    cr_assert_eq(record.count, 3);
    cr_assert_eq(drops, 1);
}

Test(deadletter_store, a_shared_payload_that_was_told_to_one_is_kept)
{
    struct test_large payload = {.owned = {&drops, 8}};

    troupe_post_tell(
        the_system, test_dead_actor(the_system), &test_shared, &payload);
    cr_assert_eq(drops, 0);
    cr_assert_eq(list_all(), 1);
    cr_assert(seen.entry[0].has_payload);
    cr_assert_eq(troupe_dead_letters_clear(the_system), 1);
    cr_assert_eq(drops, 1);
    troupe_post_tell(
        the_system, test_dead_actor(the_system), &test_shared, &payload);
    /* and the end of the system drops this one */
}

static const troupe_msg_type moved_type = {sizeof(troupe_msg_type), "moved",
    sizeof(struct test_large), TEST_TAG_OTHER, 0, test_drop};

static troupe_verdict
move_on(troupe_self *self, void *state, const troupe_msg *msg)
{
    troupe_ref to;

    memcpy(&to, state, sizeof to);
    cr_assert_eq(troupe_send(self, to, &moved_type, msg->payload), TROUPE_OK);
    return TROUPE_UNHANDLED;
}

Test(deadletter_store, a_shared_payload_that_was_moved_on_is_not_kept)
{
    struct test_large payload = {.owned = {&drops, 8}};
    static struct test_record record;
    troupe_ref to = test_spawn_recorder(the_system, "heir", &record);

    cr_assert_eq(troupe_post(the_system, spawn_passing_on(move_on, to),
                     &test_shared, &payload),
        TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(record.count, 1);
    cr_assert_eq(drops, 1, "by whom it was moved to");
    cr_assert_eq(list_all(), 1);
    cr_assert_not(seen.entry[0].has_payload);
    cr_assert_eq(troupe_dead_letters_clear(the_system), 1);
    cr_assert_eq(drops, 1);
}

/* Tells messages of `user` to an actor of this system. */
static troupe_verdict
tell_what_is_of(troupe_self *self, const troupe_msg *msg, void *user)
{
    static const troupe_msg_type *const types[] = {
        &test_number, &test_large, &test_shared};

    (void)msg;
    for (int i = 0; i < 3; i++) {
        troupe_msg *foreign = troupe_msg_new(user, types[i], 0);

        cr_assert_not_null(foreign);
        if (types[i]->drop != NULL) {
            *troupe_payload_mut(foreign, struct test_large) =
                (struct test_large){.owned = {&drops, 3}};
        } else {
            *troupe_payload_mut(foreign, uint64_t) = 3;
        }
        troupe_tell_msg(self, troupe_self_ref(self), foreign);
    }
    return TROUPE_CONTINUE;
}

Test(deadletter_store, a_tell_of_a_message_of_another_system_is_refused)
{
    troupe_system *other = test_open_driven(0);
    troupe_ref doer = test_spawn_doer(the_system, NULL);
    troupe_counters counters;

    test_run(the_system);
    counters = test_counters(the_system);
    test_do(the_system, doer, tell_what_is_of, other);
    cr_assert_eq(drops, 2);
    cr_assert_eq(test_counters(the_system).sent, counters.sent + 4);
    cr_assert_eq(test_counters(the_system).dead, 3);
    cr_assert_eq(test_counters(other).dead, 0);
    cr_assert_eq(troupe_system_destroy(other), TROUPE_OK);
    cr_assert_eq(list_all(), 3);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(seen.entry[i].reason, TROUPE_DEAD_REFUSED);
        cr_assert(troupe_ref_equal(seen.entry[i].recipient, doer));
        cr_assert(troupe_ref_equal(seen.entry[i].sender, doer));
        cr_assert_eq(seen.entry[i].has_payload, i == 2, "a copy");
    }
    cr_assert_eq(seen.entry[2].number, 3);
    cr_assert_eq(troupe_dead_letters_clear(the_system), 3);
    cr_assert_eq(drops, 2);
}

Test(deadletter_store, a_pointer_to_no_bytes_is_kept_as_an_empty_message)
{
    static struct test_record record;
    troupe_ref to = test_spawn_recorder(the_system, "r", &record);
    uint64_t number = 1;

    troupe_post_tell(the_system, to, &test_bytes, &number);
    cr_assert_eq(list_all(), 1);
    cr_assert_eq(seen.entry[0].bytes, 0);
    cr_assert_eq(replay(1, TROUPE_NONE), TROUPE_OK);
    cr_assert_eq(record.count, 1);
    cr_assert_eq(record.entry[0].bytes, 0);
}

static bool
try_to_copy(const troupe_dead_letter_entry *entry, void *user)
{
    (void)user;
    cr_assert_null(troupe_msg_copy(the_system, entry->letter.msg));
    cr_assert_null(troupe_payload(entry->letter.msg, uint64_t));
    return true;
}

Test(deadletter_store, a_message_that_was_never_good_is_not_replayed)
{
    troupe_ref to = test_spawn_doer(the_system, NULL);

    test_run(the_system);
    troupe_post_tell(the_system, to, &test_number, NULL);
    troupe_post_tell(the_system, to, NULL, NULL);
    cr_assert_eq(list_all(), 2);
    cr_assert_eq(replay(1, TROUPE_NONE), TROUPE_E_INVALID);
    cr_assert_eq(replay(2, TROUPE_NONE), TROUPE_E_INVALID);
    cr_assert_eq(
        troupe_dead_letters_get(the_system, 1, try_to_copy, NULL), TROUPE_OK);
}

Test(deadletter_store, messages_of_all_sizes_come_back)
{
    static const size_t sizes[] = {0, 1, 8, 16, 17, 100, 2000, 2049, 100000};
    static unsigned char bytes[100000];
    struct test_record record = {.answer = TROUPE_UNHANDLED};
    troupe_ref to = test_spawn_recorder(the_system, "r", &record);
    troupe_ref sink;
    struct test_record sunk = {0};

    memset(bytes, 0x5a, sizeof bytes);
    for (uint32_t i = 0; i < 9; i++) {
        cr_assert_eq(troupe_post_bytes(the_system, to, &test_bytes,
                         sizes[i] != 0 ? bytes : NULL, sizes[i]),
            TROUPE_OK);
    }
    test_run(the_system);
    sink = test_spawn_recorder(the_system, "sink", &sunk);
    for (uint32_t i = 0; i < 9; i++) {
        cr_assert_eq(replay(i + 1, sink), TROUPE_OK);
        cr_assert_eq(sunk.entry[i].bytes, sizes[i]);
        if (sizes[i] >= 8) {
            cr_assert_eq(sunk.entry[i].number, UINT64_C(0x5a5a5a5a5a5a5a5a));
        }
    }
    cr_assert_eq(list_all(), 0);
}

static uint32_t hook_replays;

static void
replay_in_hook(
    troupe_system *system, const troupe_dead_letter *letter, void *user)
{
    (void)user;
    hook_calls++;
    hook_replays = letter->replays;
    the_system = system;
    if (list_all() != 0) {
        cr_assert_eq(
            troupe_dead_letters_replay(system, seen.entry[0].id, TROUPE_NONE),
            hook_calls <= 3 ? TROUPE_OK : TROUPE_E_LIMIT);
    }
}

Test(deadletter, the_hook_sees_how_often_and_may_replay)
{
    troupe_dead_letter_options store = {sizeof store, 4, 0, 0};
    troupe_system_options options = test_options();
    struct test_record record = {.answer = TROUPE_UNHANDLED};

    options.flags |= TROUPE_SYSTEM_DRIVEN;
    options.dead_letter.fn = replay_in_hook;
    options.dead_letters = &store;
    the_system = test_open(&options);
    test_post_number(
        the_system, test_spawn_recorder(the_system, NULL, &record), 1);
    test_run(the_system);
    cr_assert_eq(record.count, 4);
    cr_assert_eq(hook_calls, 4);
    cr_assert_eq(hook_replays, 3);
    cr_assert_eq(list_all(), 1);
    test_close(the_system);
}

Test(deadletter, what_is_lost_in_the_hook_is_kept)
{
    troupe_dead_letter_options store = {sizeof store, 4, 0, 0};
    troupe_system_options options = test_options();

    options.flags |= TROUPE_SYSTEM_DRIVEN;
    options.dead_letter.fn = send_in_hook;
    options.dead_letters = &store;
    the_system = test_open(&options);
    hook_target = test_dead_actor(the_system);
    lose(5);
    cr_assert_eq(hook_calls, 1);
    cr_assert_eq(list_all(), 2);
    test_close(the_system);
}

/* --- the log -------------------------------------------------------------- */

static struct {
    uint32_t count;
    troupe_log_level level;
    uint32_t suppressed;
    char text[1024];
} logged;

static void
keep_line(const troupe_log_line *line, void *user)
{
    (void)user;
    logged.count++;
    logged.level = line->level;
    logged.suppressed = line->suppressed;
    (void)strncpy(logged.text, line->text, sizeof logged.text - 1);
}

static troupe_system *
open_logging(troupe_log_level level)
{
    troupe_system_options options = test_options();

    options.flags |= TROUPE_SYSTEM_DRIVEN;
    options.name = "shop";
    options.seed = 7;
    options.log.write = keep_line;
    options.log.max_level = level;
    return test_open(&options);
}

Test(deadletter, a_line_in_the_log_names_reason_type_and_both_ends)
{
    struct test_record record = {.answer = TROUPE_UNHANDLED};
    troupe_ref to;

    the_system = open_logging(TROUPE_LOG_WARN);
    to = test_spawn_recorder(the_system, "clerk", &record);
    test_do(the_system, test_spawn_doer(the_system, "asker"), tell_number, &to);
    cr_assert_eq(logged.count, 1);
    cr_assert_eq(logged.level, TROUPE_LOG_WARN);
    cr_assert_not_null(strstr(logged.text, "unhandled"), "%s", logged.text);
    cr_assert_not_null(strstr(logged.text, "test_number"));
    cr_assert_not_null(strstr(logged.text, "from troupe://shop/user/asker"));
    cr_assert_not_null(strstr(logged.text, "to troupe://shop/user/clerk"));
    test_close(the_system);
}

Test(deadletter, there_is_one_line_per_second_with_the_number_of_the_others)
{
    the_system = open_logging(TROUPE_LOG_WARN);
    for (uint64_t i = 0; i < 10; i++) {
        lose(i);
    }
    cr_assert_eq(logged.count, 1);
    cr_assert_eq(troupe_system_advance(the_system, TROUPE_S(1) - 1), TROUPE_OK);
    lose(10);
    cr_assert_eq(logged.count, 1);
    cr_assert_eq(troupe_system_advance(the_system, 1), TROUPE_OK);
    lose(11);
    cr_assert_eq(logged.count, 2);
    cr_assert_eq(logged.suppressed, 10);
    cr_assert_eq(troupe_system_advance(the_system, TROUPE_S(5)), TROUPE_OK);
    lose(12);
    cr_assert_eq(logged.count, 3);
    cr_assert_eq(logged.suppressed, 0);
    test_close(the_system);
}

Test(deadletter, without_memory_only_the_copy_is_lost)
{
    troupe_dead_letter_options store = {sizeof store, 4, 0, 0};
    troupe_system_options options = test_options();

    options.flags |= TROUPE_SYSTEM_DRIVEN;
    options.log.write = keep_line;
    options.log.max_level = TROUPE_LOG_WARN;
    options.dead_letters = &store;
    the_system = test_open(&options);
    (void)test_dead_actor(the_system);
    troupe_fail_allocation(the_system, 1);
    troupe_post_tell(the_system, TROUPE_NONE, &test_empty, NULL);
    troupe_fail_allocation(the_system, 0);
    cr_assert_eq(list_all(), 0);
    cr_assert_eq(test_letters.total, 1);
    cr_assert_eq(test_counters(the_system).dead, 1);
    cr_assert_eq(logged.count, 2, "that it was lost, and that it died");
    test_close(the_system);
}

static void
stop_with_a_queue(troupe_log_level level)
{
    uint64_t number = 1;
    troupe_ref to;

    the_system = open_logging(level);
    to = test_spawn_doer(the_system, NULL);
    test_run(the_system);
    cr_assert_eq(troupe_post_stop(the_system, to), TROUPE_OK);
    cr_assert_eq(troupe_post(the_system, to, &test_number, &number), TROUPE_OK);
    troupe_system_request_stop(the_system);
    test_close(the_system);
}

Test(deadletter, what_waited_when_the_system_stopped_is_no_warning)
{
    stop_with_a_queue(TROUPE_LOG_WARN);
    cr_assert_eq(logged.count, 0, "%s", logged.text);
    stop_with_a_queue(TROUPE_LOG_INFO);
    cr_assert_eq(logged.count, 1);
    cr_assert_eq(logged.level, TROUPE_LOG_INFO);
    cr_assert_eq(test_letters.total, 2);
}
