/* SPDX-License-Identifier: MIT */
#include "support/system.h"

#include <criterion/criterion.h>

#include <string.h>

/* Mailboxes with a capacity, and what does not count against it. */

static troupe_system *the_system;

/* What on_drop was told, in order. */
static struct {
    uint32_t count;
    troupe_drop_reason reason[2048];
    uint64_t number[2048];
    void *user;
} drops;

static void
on_drop(troupe_drop_reason reason, const troupe_msg *msg, void *user)
{
    const uint64_t *number = troupe_payload(msg, uint64_t);

    drops.reason[drops.count] = reason;
    drops.number[drops.count++] = number != NULL ? *number : UINT64_MAX;
    drops.user = user;
}

static void
setup(void)
{
    memset(&drops, 0, sizeof drops);
    the_system = test_open_driven(0);
}

static void
teardown(void)
{
    test_close(the_system);
}

TestSuite(bounded, .init = setup, .fini = teardown);

TROUPE_MSG_TYPE_WITH(vital, uint64_t, 100, TROUPE_MSG_UNDROPPABLE, NULL);

static troupe_mailbox_options
bounded(uint32_t capacity, troupe_overflow overflow)
{
    troupe_mailbox_options options = TROUPE_INIT(troupe_mailbox_options);

    options.capacity = capacity;
    options.overflow = overflow;
    options.on_drop = on_drop;
    options.drop_user = &drops;
    return options;
}

static troupe_status
post(troupe_ref to, uint64_t number)
{
    return troupe_post(the_system, to, &test_number, &number);
}

static troupe_status
post_vital(troupe_ref to, uint64_t number)
{
    return troupe_post(the_system, to, &vital, &number);
}

static void
check_numbers(
    const struct test_record *record, const uint64_t *numbers, uint32_t count)
{
    cr_assert_eq(record->count, count, "%u messages", record->count);
    for (uint32_t i = 0; i < count; i++) {
        cr_assert_eq(record->entry[i].number, numbers[i], "the %uth is %u", i,
            (unsigned)record->entry[i].number);
    }
}

#define CHECK_NUMBERS(record, ...)                                             \
    check_numbers((record), (const uint64_t[]){__VA_ARGS__},                   \
        sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static const troupe_overflow policies[] = {TROUPE_OVERFLOW_REJECT,
    TROUPE_OVERFLOW_DROP_NEW, TROUPE_OVERFLOW_DROP_HEAD};

Test(bounded, the_capacity_is_exact_whatever_it_is)
{
    static const uint32_t capacities[] = {1, 2, 3, 7, 8, 9, 100, 1000};

    for (size_t p = 0; p < 3; p++) {
        for (size_t i = 0; i < sizeof capacities / sizeof *capacities; i++) {
            troupe_mailbox_options options =
                bounded(capacities[i], policies[p]);
            static struct test_record record;
            troupe_ref ref;
            uint32_t refused = 0;

            memset(&record, 0, sizeof record);
            memset(&drops, 0, sizeof drops);
            ref = test_spawn_recorder_with(the_system, &options, &record);
            for (uint32_t n = 0; n < capacities[i] + 5; n++) {
                refused += post(ref, n) == TROUPE_E_FULL ? 1 : 0;
                cr_assert_eq(troupe_depth(the_system, ref),
                    n < capacities[i] ? n + 1 : capacities[i]);
            }
            cr_assert_eq(refused + drops.count, 5);
            cr_assert_eq(
                refused, policies[p] == TROUPE_OVERFLOW_REJECT ? 5 : 0);
            test_run(the_system);
            cr_assert_eq(record.count, capacities[i]);
            cr_assert_eq(troupe_depth(the_system, ref), 0);
        }
    }
}

Test(bounded, reject_tells_the_sender_who_keeps_the_message)
{
    troupe_mailbox_options options = bounded(3, TROUPE_OVERFLOW_REJECT);
    struct test_record record = {0};
    troupe_ref ref = test_spawn_recorder_with(the_system, &options, &record);
    troupe_msg *msg = troupe_msg_new(the_system, &test_number, 0);
    troupe_counters before = test_counters(the_system);

    for (uint64_t i = 0; i < 3; i++) {
        cr_assert_eq(post(ref, i), TROUPE_OK);
    }
    cr_assert_eq(post(ref, 3), TROUPE_E_FULL);
    cr_assert_eq(troupe_post_msg(the_system, ref, msg), TROUPE_E_FULL);
    cr_assert_eq(test_counters(the_system).refused, before.refused + 2);
    cr_assert_eq(test_counters(the_system).dropped, 0);
    cr_assert_eq(drops.count, 0);
    test_run(the_system);
    CHECK_NUMBERS(&record, 0, 1, 2);
    cr_assert_eq(troupe_post_msg(the_system, ref, msg), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(record.count, 4);
}

Test(bounded, reject_is_the_default)
{
    troupe_mailbox_options options = TROUPE_INIT(troupe_mailbox_options);
    static struct test_record record;
    troupe_ref ref;

    options.capacity = 1;
    ref = test_spawn_recorder_with(the_system, &options, &record);
    cr_assert_eq(post(ref, 1), TROUPE_OK);
    cr_assert_eq(post(ref, 2), TROUPE_E_FULL);
    test_run(the_system);
    CHECK_NUMBERS(&record, 1);
}

Test(bounded, drop_new_discards_the_arrival)
{
    troupe_mailbox_options options = bounded(3, TROUPE_OVERFLOW_DROP_NEW);
    struct test_record record = {0};
    troupe_ref ref = test_spawn_recorder_with(the_system, &options, &record);

    for (uint64_t i = 0; i < 5; i++) {
        cr_assert_eq(post(ref, i), TROUPE_OK);
    }
    cr_assert_eq(drops.count, 2);
    cr_assert_eq(drops.reason[0], TROUPE_DROP_NEW);
    cr_assert_eq(drops.number[0], 3);
    cr_assert_eq(drops.number[1], 4);
    cr_assert_eq(drops.user, &drops);
    cr_assert_eq(test_counters(the_system).dropped, 2);
    cr_assert_eq(test_counters(the_system).dropped_new, 2);
    cr_assert_eq(test_counters(the_system).dropped_head, 0);
    test_run(the_system);
    CHECK_NUMBERS(&record, 0, 1, 2);
}

Test(bounded, drop_head_discards_the_oldest)
{
    troupe_mailbox_options options = bounded(3, TROUPE_OVERFLOW_DROP_HEAD);
    struct test_record record = {0};
    troupe_ref ref = test_spawn_recorder_with(the_system, &options, &record);

    for (uint64_t i = 0; i < 5; i++) {
        cr_assert_eq(post(ref, i), TROUPE_OK);
    }
    cr_assert_eq(drops.count, 2);
    cr_assert_eq(drops.reason[0], TROUPE_DROP_HEAD);
    cr_assert_eq(drops.number[0], 0);
    cr_assert_eq(drops.number[1], 1);
    cr_assert_eq(test_counters(the_system).dropped_head, 2);
    test_run(the_system);
    CHECK_NUMBERS(&record, 2, 3, 4);
}

Test(bounded, the_default_mailbox_drops_nothing)
{
    troupe_ref ref = test_spawn_doer(the_system, NULL);

    test_post_numbers(the_system, ref, 1000000);
    cr_assert_eq(troupe_depth(the_system, ref), 1000000);
    test_run(the_system);
    cr_assert_eq(test_counters(the_system).handled, 1000000);
    cr_assert_eq(test_counters(the_system).dropped, 0);
}

Test(bounded, undroppable_messages_are_exempt)
{
    for (size_t p = 0; p < 3; p++) {
        troupe_mailbox_options options = bounded(2, policies[p]);
        struct test_record record = {0};
        troupe_ref ref;

        memset(&drops, 0, sizeof drops);
        ref = test_spawn_recorder_with(the_system, &options, &record);
        for (uint64_t i = 0; i < 100; i++) {
            cr_assert_eq(post_vital(ref, i), TROUPE_OK);
        }
        cr_assert_eq(troupe_depth(the_system, ref), 100);
        cr_assert_eq(drops.count, 0);
        test_run(the_system);
        cr_assert_eq(record.count, 100);
    }
}

Test(bounded, undroppable_messages_keep_their_place_in_line)
{
    for (size_t p = 0; p < 3; p++) {
        troupe_mailbox_options options = bounded(4, policies[p]);
        struct test_record record = {0};
        troupe_ref ref =
            test_spawn_recorder_with(the_system, &options, &record);

        cr_assert_eq(post(ref, 0), TROUPE_OK);
        cr_assert_eq(post_vital(ref, 1), TROUPE_OK);
        cr_assert_eq(post(ref, 2), TROUPE_OK);
        cr_assert_eq(post_vital(ref, 3), TROUPE_OK);
        test_run(the_system);
        CHECK_NUMBERS(&record, 0, 1, 2, 3);
    }
}

Test(bounded, drop_head_steps_over_undroppable_messages)
{
    troupe_mailbox_options options = bounded(4, TROUPE_OVERFLOW_DROP_HEAD);
    struct test_record record = {0};
    troupe_ref ref = test_spawn_recorder_with(the_system, &options, &record);

    cr_assert_eq(post_vital(ref, 0), TROUPE_OK);
    cr_assert_eq(post(ref, 1), TROUPE_OK);
    cr_assert_eq(post_vital(ref, 2), TROUPE_OK);
    cr_assert_eq(post(ref, 3), TROUPE_OK);
    cr_assert_eq(post(ref, 4), TROUPE_OK);
    cr_assert_eq(drops.count, 1);
    cr_assert_eq(drops.number[0], 1);
    test_run(the_system);
    CHECK_NUMBERS(&record, 0, 2, 3, 4);
}

Test(bounded, one_full_of_undroppable_messages_rejects_or_overshoots)
{
    static const uint32_t depth[] = {3, 3, 4};

    for (size_t p = 0; p < 3; p++) {
        troupe_mailbox_options options = bounded(2, policies[p]);
        struct test_record record = {0};
        troupe_ref ref;

        memset(&drops, 0, sizeof drops);
        ref = test_spawn_recorder_with(the_system, &options, &record);
        for (uint64_t i = 0; i < 3; i++) {
            cr_assert_eq(post_vital(ref, i), TROUPE_OK);
        }
        cr_assert_eq(post(ref, 3),
            policies[p] == TROUPE_OVERFLOW_REJECT ? TROUPE_E_FULL : TROUPE_OK);
        cr_assert_eq(troupe_depth(the_system, ref), depth[p]);
        cr_assert_eq(
            drops.count, policies[p] == TROUPE_OVERFLOW_DROP_NEW ? 1 : 0);
        test_run(the_system);
        cr_assert_eq(record.count, depth[p]);
    }
}

Test(bounded, a_stop_in_line_fits_into_a_full_one_and_waits)
{
    for (size_t p = 0; p < 3; p++) {
        troupe_mailbox_options options = bounded(3, policies[p]);
        struct test_record record = {0};
        troupe_ref ref =
            test_spawn_recorder_with(the_system, &options, &record);

        for (uint64_t i = 0; i < 3; i++) {
            cr_assert_eq(post(ref, i), TROUPE_OK);
        }
        cr_assert_eq(troupe_post_stop(the_system, ref), TROUPE_OK);
        test_run(the_system);
        cr_assert_eq(record.count, 3);
        cr_assert_eq(record.stopped, 1);
        cr_assert_eq(post(ref, 1), TROUPE_E_DEAD);
    }
}

Test(bounded, what_is_queued_at_a_stop_now_becomes_dead_letters)
{
    for (size_t p = 0; p < 3; p++) {
        troupe_mailbox_options options = bounded(5, policies[p]);
        struct test_record record = {0};
        troupe_ref ref =
            test_spawn_recorder_with(the_system, &options, &record);
        uint64_t before = test_letters.total;

        for (uint64_t i = 0; i < 4; i++) {
            cr_assert_eq(post(ref, i), TROUPE_OK);
        }
        cr_assert_eq(post_vital(ref, 4), TROUPE_OK);
        cr_assert_eq(troupe_post_stop_now(the_system, ref), TROUPE_OK);
        test_run(the_system);
        cr_assert_eq(record.count, 0);
        cr_assert_eq(test_letters.total, before + 5);
        cr_assert_eq(test_letters.last.number, 4);
    }
}

Test(bounded, what_waits_for_a_start_counts)
{
    troupe_mailbox_options options = bounded(2, TROUPE_OVERFLOW_REJECT);
    struct test_record record = {0};
    troupe_ref ref = test_spawn_recorder_with(the_system, &options, &record);

    cr_assert_eq(record.started, 0);
    cr_assert_eq(post(ref, 0), TROUPE_OK);
    cr_assert_eq(post(ref, 1), TROUPE_OK);
    cr_assert_eq(post(ref, 2), TROUPE_E_FULL);
    test_run(the_system);
    CHECK_NUMBERS(&record, 0, 1);
}

static troupe_verdict
tell_full(troupe_self *self, const troupe_msg *msg, void *user)
{
    const troupe_ref *to = user;
    const uint64_t number = 77;

    (void)msg;
    troupe_tell(self, *to, &test_number, &number);
    return TROUPE_CONTINUE;
}

static troupe_verdict
forward_full(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    troupe_forward(self, *(const troupe_ref *)user);
    return TROUPE_CONTINUE;
}

Test(bounded, tell_and_forward_to_a_full_one_are_dead_letters)
{
    troupe_mailbox_options options = bounded(1, TROUPE_OVERFLOW_REJECT);
    struct test_record record = {0};
    troupe_ref ref = test_spawn_recorder_with(the_system, &options, &record);
    troupe_ref doer = test_spawn_doer(the_system, NULL);
    troupe_run run;

    test_run(the_system);
    test_do_later(the_system, doer, tell_full, &ref);
    test_do_later(the_system, doer, forward_full, &ref);
    cr_assert_eq(post(ref, 1), TROUPE_OK);
    cr_assert_eq(troupe_system_run(the_system, 1, &run), TROUPE_OK);
    cr_assert_eq(test_letters.by_reason[TROUPE_DEAD_REFUSED], 2);
    test_run(the_system);
    CHECK_NUMBERS(&record, 1);
}

static troupe_verdict
send_two(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    for (uint64_t i = 10; i < 12; i++) {
        cr_assert_eq(troupe_send(self, *(troupe_ref *)user, &test_number, &i),
            TROUPE_OK);
    }
    return TROUPE_CONTINUE;
}

Test(bounded, a_dead_letter_of_a_drop_names_sender_and_recipient)
{
    for (size_t p = 1; p < 3; p++) {
        troupe_mailbox_options options = bounded(1, policies[p]);
        struct test_record record = {0};
        troupe_ref ref;
        troupe_ref doer = test_spawn_doer(the_system, NULL);

        options.flags = TROUPE_MAILBOX_DEAD_LETTER_DROPS;
        ref = test_spawn_recorder_with(the_system, &options, &record);
        memset(&test_letters.last, 0, sizeof test_letters.last);
        test_do(the_system, doer, send_two, &ref);
        cr_assert_eq(test_letters.last.reason, TROUPE_DEAD_DROPPED);
        cr_assert_eq(test_letters.last.tag, TEST_TAG_NUMBER);
        cr_assert_eq(test_letters.last.number, p == 1 ? 11 : 10);
        cr_assert(troupe_ref_equal(test_letters.last.recipient, ref));
        cr_assert(troupe_ref_equal(test_letters.last.sender, doer));
    }
}

Test(bounded, drops_become_dead_letters_if_that_is_wanted)
{
    for (size_t p = 1; p < 3; p++) {
        troupe_mailbox_options options = bounded(1, policies[p]);
        struct test_record record = {0};
        uint64_t letters = test_letters.by_reason[TROUPE_DEAD_DROPPED];
        troupe_counters before = test_counters(the_system);
        troupe_ref ref;

        options.flags = TROUPE_MAILBOX_DEAD_LETTER_DROPS;
        ref = test_spawn_recorder_with(the_system, &options, &record);
        cr_assert_eq(post(ref, 10), TROUPE_OK);
        cr_assert_eq(post(ref, 11), TROUPE_OK);
        cr_assert_eq(test_letters.by_reason[TROUPE_DEAD_DROPPED], letters + 1);
        cr_assert_eq(test_letters.last.number, p == 1 ? 11 : 10);
        cr_assert(troupe_ref_equal(test_letters.last.recipient, ref));
        /* In one column only. */
        cr_assert_eq(test_counters(the_system).dead, before.dead);
        cr_assert_eq(test_counters(the_system).dropped, before.dropped + 1);
        test_run(the_system);
    }
}

static troupe_ref drop_target;

static void
send_more(troupe_drop_reason reason, const troupe_msg *msg, void *user)
{
    (void)msg;
    (void)user;
    drops.reason[drops.count++] = reason;
    cr_assert_eq(post(drop_target, 99), TROUPE_OK);
    cr_assert_eq(troupe_depth(the_system, drop_target), 2);
}

Test(bounded, on_drop_may_send_to_the_same_mailbox)
{
    for (size_t p = 1; p < 3; p++) {
        troupe_mailbox_options options = bounded(2, policies[p]);
        struct test_record record = {0};
        uint64_t before = test_counters(the_system).dropped;

        drops.count = 0;
        options.on_drop = send_more;
        drop_target = test_spawn_recorder_with(the_system, &options, &record);
        for (uint64_t i = 0; i < 3; i++) {
            cr_assert_eq(post(drop_target, i), TROUPE_OK);
        }
        /* What it dropped itself is counted and not told again. */
        cr_assert_eq(drops.count, 1);
        cr_assert_eq(test_counters(the_system).dropped, before + 2);
        test_run(the_system);
        cr_assert_eq(record.count, 2);
    }
}

static troupe_system *other_system;
static troupe_ref other_target;

static void
send_elsewhere(troupe_drop_reason reason, const troupe_msg *msg, void *user)
{
    (void)msg;
    (void)user;
    drops.reason[drops.count++] = reason;
    test_post_number(other_system, other_target, 1);
}

Test(bounded, on_drop_is_told_what_that_of_another_system_dropped)
{
    troupe_mailbox_options options = bounded(1, TROUPE_OVERFLOW_DROP_NEW);
    troupe_mailbox_options other = options;
    static struct test_record record, others;
    troupe_system_options driven = test_options();

    drops.count = 0;
    options.on_drop = send_elsewhere;
    drop_target = test_spawn_recorder_with(the_system, &options, &record);
    driven.flags |= TROUPE_SYSTEM_DRIVEN;
    other_system = test_open(&driven);
    other.on_drop = on_drop;
    other_target = test_spawn_recorder_with(other_system, &other, &others);
    test_post_number(other_system, other_target, 1);
    for (uint64_t i = 0; i < 3; i++) {
        cr_assert_eq(post(drop_target, i), TROUPE_OK);
    }
    cr_assert_eq(test_counters(the_system).dropped, 2);
    cr_assert_eq(test_counters(other_system).dropped, 2);
    cr_assert_eq(drops.count, 4);
    cr_assert_eq(troupe_system_destroy(other_system), TROUPE_OK);
}

static void
stop_it(troupe_drop_reason reason, const troupe_msg *msg, void *user)
{
    (void)reason;
    (void)msg;
    (void)user;
    cr_assert_eq(troupe_post_stop_now(the_system, drop_target), TROUPE_OK);
}

Test(bounded, on_drop_may_stop_the_actor)
{
    for (size_t p = 1; p < 3; p++) {
        troupe_mailbox_options options = bounded(2, policies[p]);
        struct test_record record = {0};

        options.on_drop = stop_it;
        drop_target = test_spawn_recorder_with(the_system, &options, &record);
        for (uint64_t i = 0; i < 3; i++) {
            cr_assert_eq(post(drop_target, i), TROUPE_OK);
        }
        test_run(the_system);
        cr_assert_eq(record.stopped, 0); /* it never started */
        cr_assert_eq(troupe_depth(the_system, drop_target), TROUPE_DEPTH_DEAD);
    }
}

Test(bounded, what_a_dropped_message_owned_is_freed_once)
{
    static const troupe_msg_type *const owning[] = {&test_owned, &test_large};

    for (size_t p = 1; p < 3; p++) {
        for (size_t t = 0; t < 2; t++) {
            troupe_mailbox_options options = bounded(2, policies[p]);
            struct test_record record = {0};
            _Atomic uint64_t freed = 0;
            troupe_ref ref;

            options.on_drop = NULL;
            ref = test_spawn_recorder_with(the_system, &options, &record);
            for (uint64_t i = 0; i < 5; i++) {
                struct test_large payload = {.owned = {&freed, i}};

                cr_assert_eq(troupe_post(the_system, ref, owning[t], &payload),
                    TROUPE_OK);
            }
            cr_assert_eq(freed, 3);
            test_run(the_system);
            cr_assert_eq(freed, 5);
        }
    }
}

Test(bounded, what_a_rejected_message_owns_is_the_senders)
{
    troupe_mailbox_options options = bounded(1, TROUPE_OVERFLOW_REJECT);
    static struct test_record record;
    _Atomic uint64_t freed = 0;
    struct test_large payload = {.owned = {&freed, 1}};
    troupe_ref ref = test_spawn_recorder_with(the_system, &options, &record);

    cr_assert_eq(post(ref, 1), TROUPE_OK);
    cr_assert_eq(
        troupe_post(the_system, ref, &test_large, &payload), TROUPE_E_FULL);
    cr_assert_eq(
        troupe_post(the_system, ref, &test_owned, &payload), TROUPE_E_FULL);
    test_run(the_system);
    cr_assert_eq(record.count, 1);
    cr_assert_eq(freed, 0);
}

Test(bounded, memory_is_back_after_a_burst)
{
    for (size_t p = 0; p < 3; p++) {
        troupe_mailbox_options options = bounded(50000, policies[p]);
        static struct test_record record;
        uint64_t before;
        troupe_ref ref;

        memset(&record, 0, sizeof record);
        options.on_drop = NULL;
        ref = test_spawn_recorder_with(the_system, &options, &record);
        test_run(the_system);
        before = test_counters(the_system).bytes;
        for (uint64_t i = 0; i < 60000; i++) {
            troupe_post_tell(the_system, ref, &test_number, &i);
        }
        cr_assert_eq(troupe_depth(the_system, ref), 50000);
        cr_assert_eq(troupe_post_stop_now(the_system, ref), TROUPE_OK);
        test_run(the_system);
        cr_assert_leq(test_counters(the_system).bytes, before + 4096);
    }
}

Test(bounded, rules_go_with_the_actor_and_not_with_its_cell)
{
    troupe_mailbox_options options = bounded(1, TROUPE_OVERFLOW_REJECT);
    struct test_record record = {0};

    for (int round = 0; round < 50; round++) {
        troupe_ref small =
            test_spawn_recorder_with(the_system, &options, &record);
        troupe_ref large;

        cr_assert_eq(troupe_post_stop_now(the_system, small), TROUPE_OK);
        test_run(the_system);
        large = test_spawn_recorder(the_system, NULL, &record);
        cr_assert_eq(post(small, 1), TROUPE_E_DEAD);
        test_post_numbers(the_system, large, 10);
        cr_assert_eq(troupe_depth(the_system, large), 10);
        cr_assert_eq(troupe_post_stop_now(the_system, large), TROUPE_OK);
        test_run(the_system);
    }
}

static troupe_verdict
fill_myself(troupe_self *self, const troupe_msg *msg, void *user)
{
    uint32_t *accepted = user;
    const uint64_t number = 1;

    (void)msg;
    while (troupe_send(self, troupe_self_ref(self), &test_number, &number) ==
           TROUPE_OK) {
        ++*accepted;
    }
    return TROUPE_CONTINUE;
}

static const troupe_mailbox_options seven = {
    .size = TROUPE_OPTIONS(troupe_mailbox_options),
    .capacity = 7};

/* It is not waiting any more. */
Test(bounded, the_message_being_handled_does_not_count)
{
    troupe_ref doer = test_spawn_doer_with(the_system, &seven);
    uint32_t accepted = 0;

    test_do(the_system, doer, fill_myself, &accepted);
    cr_assert_eq(accepted, 7);
}
