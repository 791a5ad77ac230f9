/* SPDX-License-Identifier: MIT */
#include "support/system.h"

#include <criterion/criterion.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

TEST_DRIVEN_SUITE(message);

/* --- owned messages ------------------------------------------------------- */

Test(message, a_new_one_is_zeroed_and_aligned)
{
    static const size_t sizes[] = {0, 1, 8, 16, 17, 64, 4096, 1 << 20};

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        troupe_msg *msg = troupe_msg_new(the_system, &test_bytes, sizes[i]);

        cr_assert_not_null(msg);
        cr_assert_eq(msg->type, &test_bytes);
        cr_assert_eq(msg->bytes, sizes[i]);
        cr_assert_eq((uintptr_t)msg->payload % 16, 0);
        cr_assert(troupe_ref_is_none(msg->sender));
        for (size_t k = 0; k < sizes[i]; k++) {
            cr_assert_eq(((unsigned char *)msg->payload)[k], 0);
        }
        memset(msg->payload != NULL ? msg->payload : (void *)&i,
            sizes[i] != 0 ? 0xff : (int)i, sizes[i] != 0 ? sizes[i] : 0);
        troupe_msg_free(msg);
    }
}

Test(message, a_new_one_is_zeroed_also_where_another_was_before)
{
    for (int round = 0; round < 100; round++) {
        troupe_msg *msg = troupe_msg_new(the_system, &test_bytes, 300);

        cr_assert_not_null(msg);
        for (size_t k = 0; k < 300; k++) {
            cr_assert_eq(((unsigned char *)msg->payload)[k], 0);
        }
        memset(msg->payload, 0xff, 300);
        troupe_msg_free(msg);
    }
}

Test(message, one_of_fixed_size_has_that_size)
{
    troupe_msg *msg = troupe_msg_new(the_system, &test_pair, 0);

    cr_assert_not_null(msg);
    cr_assert_eq(msg->bytes, sizeof(struct test_pair));
    cr_assert_not_null(troupe_payload(msg, struct test_pair));
    troupe_msg_free(msg);
}

Test(message, bytes_that_do_not_suit_the_type_give_null)
{
    cr_assert_null(troupe_msg_new(the_system, &test_pair, 15));
    cr_assert_null(troupe_msg_new(the_system, &test_number, 9));
}

Test(message, a_type_that_is_wrong_gives_null)
{
    troupe_msg_type type = test_number;

    cr_assert_null(troupe_msg_new(the_system, NULL, 0));
    cr_assert_null(troupe_msg_new(NULL, &test_number, 0));
    type.tag = 0;
    cr_assert_null(troupe_msg_new(the_system, &type, 0));
    type.tag = TROUPE_TAG_RESERVED;
    cr_assert_null(troupe_msg_new(the_system, &type, 0));
    type = test_number;
    type.size = 0;
    cr_assert_null(troupe_msg_new(the_system, &type, 0));
}

Test(message, more_than_there_is_gives_null)
{
    cr_assert_null(troupe_msg_new(the_system, &test_bytes, SIZE_MAX));
    cr_assert_null(troupe_msg_new(the_system, &test_bytes, SIZE_MAX - 4096));
    cr_assert_null(troupe_msg_new(the_system, &test_bytes, SIZE_MAX / 2));
}

Test(message, freeing_null_is_allowed)
{
    troupe_msg_free(NULL);
}

Test(message, freeing_drops_what_the_payload_owns)
{
    _Atomic uint64_t drops = 0;
    troupe_msg *msg = troupe_msg_new(the_system, &test_owned, 0);

    cr_assert_not_null(msg);
    troupe_payload_mut(msg, struct test_owned)->drops = &drops;
    troupe_msg_free(msg);
    cr_assert_eq(drops, 1);
}

Test(message, a_copy_has_the_same_bytes_and_its_own_memory)
{
    troupe_msg *msg = troupe_msg_new(the_system, &test_bytes, 1000);
    troupe_msg *copy;

    memset(msg->payload, 7, 1000);
    copy = troupe_msg_copy(the_system, msg);
    cr_assert_not_null(copy);
    cr_assert_neq(copy->payload, msg->payload);
    cr_assert_eq(copy->bytes, 1000);
    cr_assert_eq(copy->type, &test_bytes);
    cr_assert_eq(memcmp(copy->payload, msg->payload, 1000), 0);
    troupe_msg_free(msg);
    troupe_msg_free(copy);
}

Test(message, what_owns_something_is_not_copied)
{
    _Atomic uint64_t drops = 0;
    troupe_msg *msg = troupe_msg_new(the_system, &test_large, 0);

    troupe_payload_mut(msg, struct test_large)->owned.drops = &drops;
    cr_assert_null(troupe_msg_copy(the_system, msg));
    cr_assert_eq(drops, 0);
    troupe_msg_free(msg);
    cr_assert_eq(drops, 1);
}

/* --- reading a payload ---------------------------------------------------- */

struct aligned {
    _Alignas(32) unsigned char bytes[32];
};

Test(message, a_payload_is_read_as_what_it_is)
{
    troupe_msg *msg = troupe_msg_new(the_system, &test_pair, 0);

    troupe_payload_mut(msg, struct test_pair)->second = 9;
    cr_assert_eq(troupe_payload(msg, struct test_pair)->second, 9);
    troupe_msg_free(msg);
}

Test(message, a_size_that_does_not_fit_is_null)
{
    troupe_msg *msg = troupe_msg_new(the_system, &test_pair, 0);

    cr_assert_null(troupe_payload(msg, uint64_t));
    cr_assert_null(troupe_payload(msg, struct test_large));
    cr_assert_null(troupe_payload_mut(msg, uint32_t));
    troupe_msg_free(msg);
}

Test(message, an_alignment_that_does_not_fit_is_null)
{
    troupe_msg *msg = troupe_msg_new(the_system, &test_bytes, 64);

    cr_assert_null(troupe_payload(msg, struct aligned));
    troupe_msg_free(msg);
}

Test(message, one_of_variable_size_may_be_longer_than_what_is_read)
{
    troupe_msg *msg = troupe_msg_new(the_system, &test_bytes, 20);

    cr_assert_not_null(troupe_payload(msg, struct test_pair));
    cr_assert_not_null(troupe_payload(msg, uint64_t));
    cr_assert_null(troupe_payload(msg, struct test_large));
    troupe_msg_free(msg);
}

static char logged[512];
static uint32_t lines;
static uint32_t suppressed;

static void
keep_line(const troupe_log_line *line, void *user)
{
    (void)user;
    lines++;
    suppressed = line->suppressed;
    (void)strncpy(logged, line->line, sizeof logged - 1);
}

static troupe_verdict
read_wrongly(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)self;
    for (int i = 0; i < *(int *)user; i++) {
        cr_assert_null(troupe_payload(msg, struct test_large));
    }
    return TROUPE_CONTINUE;
}

Test(message, a_mismatch_logs_both_sizes_once_per_second)
{
    troupe_system_options options = test_options();
    troupe_system *system;
    troupe_ref doer;
    int reads = 1000;

    options.flags |= TROUPE_SYSTEM_DRIVEN;
    options.seed = 1;
    options.alloc = NULL;
    options.free = NULL;
    options.log.write = keep_line;
    options.log.max_level = TROUPE_LOG_DEBUG;
    system = test_open(&options);
    doer = test_spawn_doer(system, NULL);
    test_do(system, doer, read_wrongly, &reads);
    cr_assert_eq(lines, 1);
    cr_assert_eq(suppressed, 0);
    cr_assert_not_null(strstr(logged, "16"), "%s", logged);
    cr_assert_not_null(strstr(logged, "120"), "%s", logged);
    cr_assert_eq(sizeof(struct test_large), 120);
    cr_assert_eq(troupe_system_advance(system, TROUPE_S(1) - 1), TROUPE_OK);
    test_do(system, doer, read_wrongly, &reads);
    cr_assert_eq(lines, 1);
    cr_assert_eq(troupe_system_advance(system, 1), TROUPE_OK);
    test_do(system, doer, read_wrongly, &reads);
    cr_assert_eq(lines, 2);
    cr_assert_eq(suppressed, 1999);
    cr_assert_not_null(strstr(logged, "(1999 more like this)"), "%s", logged);
    cr_assert_eq(troupe_system_destroy(system), TROUPE_OK);
}

TROUPE_MSG_TYPE(same_again, uint64_t, TEST_TAG_NUMBER);

Test(message, two_descriptors_with_one_tag_are_the_same_type)
{
    struct test_record record = {0};
    troupe_ref to = test_spawn_recorder(the_system, NULL, &record);
    troupe_msg *msg = troupe_msg_new(the_system, &same_again, 0);
    uint64_t number = 5;

    cr_assert(troupe_msg_is(msg, &test_number));
    cr_assert_not(troupe_msg_is(msg, &test_other));
    cr_assert_eq(troupe_msg_tag(msg), TEST_TAG_NUMBER);
    troupe_msg_free(msg);
    cr_assert_eq(troupe_post(the_system, to, &same_again, &number), TROUPE_OK);
    test_run(the_system);
    cr_assert_eq(record.entry[0].tag, TEST_TAG_NUMBER);
    cr_assert_eq(record.entry[0].number, 5);
}

TROUPE_MSG_TYPE_WITH(
    with_all, struct test_owned, 77, TROUPE_MSG_SHARED, test_drop);
TROUPE_MSG_TYPE_EMPTY(with_nothing, 78);

Test(message, the_macros_fill_every_member)
{
    cr_assert_eq(with_all.size, sizeof(troupe_msg_type));
    cr_assert_str_eq(with_all.name, "with_all");
    cr_assert_eq(with_all.bytes, sizeof(struct test_owned));
    cr_assert_eq(with_all.tag, 77);
    cr_assert_eq(with_all.flags, TROUPE_MSG_SHARED);
    cr_assert_eq(with_all.drop, test_drop);
    cr_assert_str_eq(with_nothing.name, "with_nothing");
    cr_assert_eq(with_nothing.bytes, 0);
    cr_assert_eq(with_nothing.tag, 78);
    cr_assert_null(with_nothing.drop);
}

/* --- every size arrives whole --------------------------------------------- */

struct expectation {
    size_t bytes;
    uint32_t seen;
};

static unsigned char
pattern(size_t bytes, size_t at)
{
    return (unsigned char)(bytes * 31 + at * 7 + 1);
}

static troupe_status
start_expecting(troupe_self *self, void *state, const void *arg)
{
    (void)self;
    memcpy(state, arg, sizeof(struct expectation *));
    return TROUPE_OK;
}

static troupe_verdict
expect_pattern(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct expectation *expected = *(struct expectation **)state;

    (void)self;
    cr_assert_eq(msg->bytes, expected->bytes);
    if (msg->bytes != 0) {
        cr_assert_eq((uintptr_t)msg->payload % 16, 0);
    }
    for (size_t i = 0; i < msg->bytes; i++) {
        cr_assert_eq(
            ((const unsigned char *)msg->payload)[i], pattern(msg->bytes, i));
    }
    expected->seen++;
    return TROUPE_CONTINUE;
}

static const troupe_actor_type checker = {.size = sizeof(troupe_actor_type),
    .name = "checker",
    .state_bytes = sizeof(struct expectation *),
    .receive = expect_pattern,
    .start = start_expecting};

/* Behaviours keep the pointer to the type: one per size, for good. */
static void
send_size(size_t bytes, troupe_msg_type *fixed)
{
    struct expectation expected = {bytes, 0};
    struct expectation *pointer = &expected;
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    unsigned char *payload = malloc(bytes + 1);
    troupe_msg *owned;
    troupe_ref to;

    options.arg = &pointer;
    options.arg_bytes = sizeof pointer;
    cr_assert_eq(
        troupe_system_spawn(the_system, &checker, &options, &to), TROUPE_OK);
    for (size_t i = 0; i < bytes; i++) {
        payload[i] = pattern(bytes, i);
    }
    *fixed = test_bytes;
    fixed->bytes = bytes;
    cr_assert_eq(
        troupe_post(the_system, to, fixed, bytes != 0 ? payload : NULL),
        TROUPE_OK);
    cr_assert_eq(troupe_post_bytes(the_system, to, &test_bytes,
                     bytes != 0 ? payload : NULL, bytes),
        TROUPE_OK);
    owned = troupe_msg_new(the_system, &test_bytes, bytes);
    if (bytes != 0) {
        memcpy(owned->payload, payload, bytes);
    }
    cr_assert_eq(troupe_post_msg(the_system, to, owned), TROUPE_OK);
    troupe_post_tell(the_system, to, fixed, bytes != 0 ? payload : NULL);
    memset(payload, 0, bytes); /* it was copied */
    free(payload);
    test_run(the_system);
    cr_assert_eq(expected.seen, 4, "%zu bytes", bytes);
    cr_assert_eq(troupe_post_stop(the_system, to), TROUPE_OK);
    test_run(the_system);
}

Test(message, every_size_arrives_whole)
{
    static const size_t sizes[] = {0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63,
        64, 65, 127, 128, 1000, 2000, 2047, 2048, 2049, 4096, 65535, 65536,
        65537, 1 << 20};
    static troupe_msg_type fixed[sizeof sizes / sizeof *sizes];

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        send_size(sizes[i], &fixed[i]);
    }
}

Test(message, a_large_one_is_freed_at_once)
{
    uint64_t before = test_memory.live_bytes;
    troupe_ref to = test_spawn_doer(the_system, NULL);
    troupe_msg *msg = troupe_msg_new(the_system, &test_bytes, 10 << 20);

    cr_assert_geq(test_memory.live_bytes, before + (10 << 20));
    cr_assert_eq(troupe_post_msg(the_system, to, msg), TROUPE_OK);
    test_run(the_system);
    cr_assert_leq(test_memory.live_bytes, before);
}
