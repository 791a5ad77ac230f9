/* SPDX-License-Identifier: MIT */
#include "support/census.h"
#include "support/seed.h"
#include "support/system.h"

#include <troupe/testkit.h>

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * What callers get wrong: always a documented status, where it is a refusal of
 * the program with a record that names call, option, rule and value, and
 * nothing left behind.
 */

/* The record is about this, and a person can read it. */
static void
is_explained(troupe_status status, const char *call, const char *option,
    const char *value)
{
    troupe_error error = troupe_last_error();
    char text[300];
    char cut[8];
    size_t length = troupe_explain(status, text, sizeof text);

    cr_assert_eq(error.status, status, "%s", text);
    cr_assert_str_eq(error.call, call);
    cr_assert_str_eq(error.option, option, "%s", text);
    cr_assert_str_not_empty(error.rule);
    cr_assert_not_null(memchr(error.value, '\0', sizeof error.value));
    if (value != NULL) {
        cr_assert_str_eq(error.value, value, "%s", text);
    }
    cr_assert_lt(length, sizeof text);
    cr_assert_eq(strlen(text), length);
    cr_assert_not_null(strstr(text, call), "%s", text);
    cr_assert_not_null(strstr(text, option), "%s", text);
    cr_assert_not_null(strstr(text, error.rule), "%s", text);
    cr_assert_not_null(strstr(text, error.value), "%s", text);
    cr_assert_eq(troupe_explain(status, cut, sizeof cut), length);
    cr_assert_eq(strlen(cut), sizeof cut - 1);
    cr_assert_eq(strncmp(cut, text, sizeof cut - 1), 0);
    cr_assert_eq(troupe_explain(status, NULL, 0), length);
}

#define REFUSED(call_, status_, name, option, value)                           \
    do {                                                                       \
        cr_assert_eq((call_), (status_));                                      \
        is_explained((status_), (name), (option), (value));                    \
    } while (0)

/* --- creation ------------------------------------------------------------- */

static void
refused(const troupe_system_options *options, troupe_status status,
    const char *option, const char *value)
{
    struct test_census before = test_census();
    troupe_system *system = NULL;

    cr_assert_eq(troupe_system_create(options, &system), status, "%s %s",
        option, troupe_status_name(status));
    is_explained(status, "troupe_system_create", option, value);
    cr_assert_null(system, "untouched");
    cr_assert(test_alloc_is_empty(&test_memory));
    cr_assert(test_census_is(before));
}

Test(fault_input, no_place_for_the_system)
{
    troupe_system_options options = test_options();

    REFUSED(troupe_system_create(&options, NULL), TROUPE_E_INVALID,
        "troupe_system_create", "system", "NULL");
    REFUSED(troupe_system_create(NULL, NULL), TROUPE_E_INVALID,
        "troupe_system_create", "system", "NULL");
}

Test(fault_input, size_of_the_options)
{
    troupe_system_options options = test_options();
    struct {
        troupe_system_options known;
        unsigned char more[16];
    } newer = {.known = test_options()};
    troupe_system *system = NULL;

    options.size = 0;
    refused(&options, TROUPE_E_INVALID, "size", "0");
    options.size = 7;
    refused(&options, TROUPE_E_INVALID, "size", "7");
    newer.known.size = sizeof newer;
    newer.known.flags |= TROUPE_SYSTEM_DRIVEN;
    newer.more[15] = 1;
    refused(&newer.known, TROUPE_E_VERSION, "size", NULL);
    newer.more[15] = 0;
    cr_assert_eq(troupe_system_create(&newer.known, &system), TROUPE_OK);
    cr_assert_eq(troupe_system_destroy(system), TROUPE_OK);
}

/* Those of an older program: what it does not know is zero. */
Test(fault_input, options_that_are_shorter)
{
    troupe_system_options options = test_options();
    troupe_system *system = NULL;

    options.flags |= TROUPE_SYSTEM_DRIVEN;
    options.size = offsetof(troupe_system_options, log);
    /* Not read: it lies behind the end. */
    options.free = NULL;
    cr_assert_eq(troupe_system_create(&options, &system), TROUPE_OK);
    cr_assert_eq(test_memory.requests, 0);
    cr_assert_eq(troupe_system_destroy(system), TROUPE_OK);
}

Test(fault_input, values_of_the_options)
{
    troupe_system_options options = test_options();

#define BAD(member, bad, option, value)                                        \
    do {                                                                       \
        options = test_options();                                              \
        options.member = (bad);                                                \
        refused(&options, TROUPE_E_INVALID, option, value);                    \
    } while (0)
    BAD(workers, 100000, "workers", "100000");
    BAD(workers, 1025, "workers", "1025");
    BAD(workers, UINT32_MAX, "workers", "4294967295");
    BAD(throughput, 65537, "throughput", "65537");
    BAD(spin_us, 1000001, "spin_us", "1000001");
    BAD(steal, (troupe_steal)4, "steal", "4");
    BAD(max_actors, 16000001, "max_actors", "16000001");
    BAD(stop_grace_ns, TROUPE_S(3601), "stop_grace_ns", NULL);
    BAD(stop_grace_ns, UINT64_MAX, "stop_grace_ns", NULL);
    BAD(stack_bytes, SIZE_MAX, "stack_bytes", "18446744073709551615");
    BAD(flags, 1u << 3, "flags", "0x8");
    BAD(flags, UINT32_MAX, "flags", "0xffffffff");
    BAD(log.max_level, (troupe_log_level)6, "log.max_level", "6");
    BAD(log.format, (troupe_log_format)3, "log.format", "3");
    BAD(alloc, NULL, "alloc", "only free");
    BAD(free, NULL, "alloc", "only alloc");
    BAD(name, "", "name", "");
    BAD(name, "a/b", "name", "a/b");
    BAD(name, "a b", "name", "a b");
    BAD(name, "a\nb", "name", NULL);
    BAD(name,
        "0123456789012345678901234567890123456789012345678901234567890123",
        "name", NULL);
#undef BAD
}

Test(fault_input, values_of_the_environment)
{
    static const struct {
        const char *variable;
        const char *value;
    } bad[] = {
        {"TROUPE_WORKERS", "1025"},
        {"TROUPE_WORKERS", "-1"},
        {"TROUPE_WORKERS", " 2"},
        {"TROUPE_WORKERS", "2 "},
        {"TROUPE_WORKERS", "two"},
        {"TROUPE_WORKERS", "0x2"},
        {"TROUPE_WORKERS", "99999999999999999999999999999999999"},
        {"TROUPE_THROUGHPUT", "65537"},
        {"TROUPE_SPIN_US", "1000001"},
        {"TROUPE_STEAL", "yes"},
        {"TROUPE_STEAL", "1"},
        {"TROUPE_MAX_ACTORS", "0"},
        {"TROUPE_MAX_ACTORS", "16000001"},
        {"TROUPE_ASK_TIMEOUT_MS", "0"},
        {"TROUPE_STOP_GRACE_MS", "0"},
        {"TROUPE_STOP_GRACE_MS", "5s"},
        {"TROUPE_LOG", "loud"},
        {"TROUPE_LOG", "WARN"},
        {"TROUPE_LOG_FORMAT", "xml"},
        {"TROUPE_SEED", "18446744073709551616"},
    };
    troupe_system_options options = test_options();

    options.flags = 0;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char value[32];

        cr_assert_eq(setenv(bad[i].variable, bad[i].value, 1), 0);
        (void)snprintf(value, sizeof value, "%s", bad[i].value);
        refused(&options, TROUPE_E_ENV, bad[i].variable, value);
        cr_assert_eq(unsetenv(bad[i].variable), 0);
    }
    /* Whoever ignores the environment does not see it. */
    {
        troupe_system *system = NULL;

        cr_assert_eq(setenv("TROUPE_WORKERS", "many", 1), 0);
        options.flags = TROUPE_SYSTEM_IGNORE_ENV | TROUPE_SYSTEM_DRIVEN;
        cr_assert_eq(troupe_system_create(&options, &system), TROUPE_OK);
        cr_assert_eq(troupe_system_destroy(system), TROUPE_OK);
    }
}

/* --- spawn ---------------------------------------------------------------- */

Test(fault_input, spawn)
{
    static const char call[] = "troupe_system_spawn";
    static const char *const names[] = {
        "", ".", "..", "$1", "a/b", "a\\b", "a\nb", "\x7f"};
    troupe_system *system = test_open_driven(0);
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    struct {
        troupe_spawn_options known;
        uint64_t more;
    } newer = {.known = {.size = sizeof newer}, .more = 1};
    troupe_actor_type type = test_plain;
    troupe_ref ref = TROUPE_NONE;
    char name[300];

    REFUSED(troupe_system_spawn(NULL, &test_plain, NULL, &ref),
        TROUPE_E_INVALID, call, "system", "NULL");
    REFUSED(troupe_system_spawn(system, NULL, NULL, &ref), TROUPE_E_INVALID,
        call, "type", "NULL");
    REFUSED(troupe_system_spawn(system, &test_plain, NULL, NULL),
        TROUPE_E_INVALID, call, "result", "NULL");
    type.size = 0;
    REFUSED(troupe_system_spawn(system, &type, NULL, &ref), TROUPE_E_INVALID,
        call, "size", "0");
    type.size = 16;
    REFUSED(troupe_system_spawn(system, &type, NULL, &ref), TROUPE_E_INVALID,
        call, "type.size", "16");
    type = test_plain;
    type.receive = NULL;
    REFUSED(troupe_system_spawn(system, &type, NULL, &ref), TROUPE_E_INVALID,
        call, "type.receive", "NULL");
    type = test_plain;
    type.name = NULL;
    REFUSED(troupe_system_spawn(system, &type, NULL, &ref), TROUPE_E_INVALID,
        call, "type.name", "NULL");
    type = test_plain;
    type.state_bytes = SIZE_MAX;
    REFUSED(troupe_system_spawn(system, &type, NULL, &ref), TROUPE_E_INVALID,
        call, "type.state_bytes", NULL);
    options.size = 0;
    REFUSED(troupe_system_spawn(system, &test_plain, &options, &ref),
        TROUPE_E_INVALID, call, "size", "0");
    REFUSED(troupe_system_spawn(system, &test_plain, &newer.known, &ref),
        TROUPE_E_VERSION, call, "size", NULL);
    options = TROUPE_INIT(troupe_spawn_options);
    options.throughput = 65537;
    REFUSED(troupe_system_spawn(system, &test_plain, &options, &ref),
        TROUPE_E_INVALID, call, "throughput", "65537");
    options = TROUPE_INIT(troupe_spawn_options);
    options.arg = name;
    REFUSED(troupe_system_spawn(system, &test_plain, &options, &ref),
        TROUPE_E_INVALID, call, "arg_bytes", "0");
    options.arg_bytes = SIZE_MAX;
    REFUSED(troupe_system_spawn(system, &test_plain, &options, &ref),
        TROUPE_E_INVALID, call, "arg_bytes", NULL);
    options = TROUPE_INIT(troupe_spawn_options);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        options.name = names[i];
        REFUSED(troupe_system_spawn(system, &test_plain, &options, &ref),
            TROUPE_E_INVALID, call, "name", names[i]);
    }
    memset(name, 'a', sizeof name);
    name[256] = '\0';
    options.name = name;
    REFUSED(troupe_system_spawn(system, &test_plain, &options, &ref),
        TROUPE_E_INVALID, call, "name", NULL);
    cr_assert(troupe_ref_is_none(ref), "untouched");
    name[255] = '\0';
    cr_assert_eq(
        troupe_system_spawn(system, &test_plain, &options, &ref), TROUPE_OK);
    cr_assert_eq(test_counters(system).started, 1);
    test_close(system);
}

/* --- mailboxes ------------------------------------------------------------ */

static double
rank_none(const troupe_msg *msg, void *user)
{
    (void)msg;
    (void)user;
    return 0;
}

static void
tell_none(const troupe_msg *msg, void *user)
{
    (void)msg;
    (void)user;
}

static void *
open_none(void *user)
{
    return user;
}

static troupe_system *mailbox_system;

/* Refused with the option, and nothing exists afterwards. */
static void
refuse_mailbox(const troupe_mailbox_options *mailbox, const char *option,
    const char *value)
{
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);
    troupe_ref ref = TROUPE_NONE;

    options.mailbox = mailbox;
    REFUSED(troupe_system_spawn(mailbox_system, &test_plain, &options, &ref),
        TROUPE_E_INVALID, "troupe_system_spawn", option, value);
    cr_assert(troupe_ref_is_none(ref));
    cr_assert_eq(test_counters(mailbox_system).actors, 0);
}

Test(fault_input, mailbox_options)
{
    const troupe_mailbox_options nothing = TROUPE_INIT(troupe_mailbox_options);
    troupe_custom_mailbox custom = TROUPE_INIT(troupe_custom_mailbox);
    troupe_mailbox_options options = nothing;

    mailbox_system = test_open_driven(0);
    options.size = 0;
    refuse_mailbox(&options, "size", "0");
    options = nothing;
    options.capacity = 2000000000;
    refuse_mailbox(&options, "mailbox.capacity", "2000000000");
    options = nothing;
    options.overflow = TROUPE_OVERFLOW_DROP_NEW;
    refuse_mailbox(&options, "mailbox.overflow", "drop-new");
    options.capacity = 1;
    options.overflow = (troupe_overflow)9;
    refuse_mailbox(&options, "mailbox.overflow", "9");
    options.overflow = TROUPE_OVERFLOW_DROP_LOWEST;
    refuse_mailbox(&options, "mailbox.overflow", "drop-lowest");
    options.priority = rank_none;
    options.overflow = TROUPE_OVERFLOW_DROP_HEAD;
    refuse_mailbox(&options, "mailbox.overflow", "drop-head");
    options.capacity = 0;
    options.overflow = TROUPE_OVERFLOW_DROP_NEW;
    refuse_mailbox(&options, "mailbox.overflow", "drop-new");
    options.overflow = TROUPE_OVERFLOW_DROP_LOWEST;
    refuse_mailbox(&options, "mailbox.overflow", "drop-lowest");
    options = nothing;
    options.flags = 4;
    refuse_mailbox(&options, "mailbox.flags", "0x4");
    options = nothing;
    options.on_unrankable = tell_none;
    refuse_mailbox(&options, "mailbox.on_unrankable", NULL);
    options = nothing;
    options.ageing_ns = 7;
    refuse_mailbox(&options, "mailbox.ageing_ns", "7");
    options = nothing;
    options.custom = &custom;
    refuse_mailbox(&options, "mailbox.custom", "no name");
    custom.name = "half";
    custom.open = open_none;
    refuse_mailbox(&options, "mailbox.custom", "half");
    custom.size = 16;
    refuse_mailbox(&options, "mailbox.custom.size", "16");
    test_close(mailbox_system);
}

static void
close_none(void *box)
{
    (void)box;
}

static troupe_status
take_none(void *box, troupe_msg *msg, troupe_msg **evicted)
{
    (void)box;
    (void)msg;
    (void)evicted;
    return TROUPE_E_FULL;
}

static troupe_status
keep_none(void *box, troupe_msg *msg)
{
    (void)box;
    (void)msg;
    return TROUPE_E_NOMEM;
}

static troupe_msg *
give_none(void *box)
{
    (void)box;
    return NULL;
}

static size_t
count_none(const void *box)
{
    (void)box;
    return 0;
}

Test(fault_input, two_kinds_of_mailbox_at_once)
{
    static const troupe_custom_mailbox whole = {
        .size = sizeof whole,
        .name = "whole",
        .open = open_none,
        .close = close_none,
        .enqueue = take_none,
        .enqueue_undroppable = keep_none,
        .prepend = take_none,
        .dequeue = give_none,
        .length = count_none,
    };
    troupe_mailbox_options options = TROUPE_INIT(troupe_mailbox_options);

    mailbox_system = test_open_driven(0);
    options.custom = &whole;
    options.capacity = 1;
    refuse_mailbox(&options, "mailbox.custom", "whole");
    options.overflow = TROUPE_OVERFLOW_DROP_HEAD;
    refuse_mailbox(&options, "mailbox.custom", "whole");
    options.capacity = 0;
    options.overflow = TROUPE_OVERFLOW_REJECT;
    options.priority = rank_none;
    refuse_mailbox(&options, "mailbox.custom", "whole");
    test_close(mailbox_system);
}

Test(fault_input, more_actors_than_there_may_be)
{
    troupe_system_options options = test_options();
    troupe_system *system;
    static troupe_ref all[1000];
    troupe_ref ref = TROUPE_NONE;
    troupe_status status = TROUPE_OK;
    uint32_t made = 0;

    options.flags |= TROUPE_SYSTEM_DRIVEN;
    options.max_actors = 100;
    system = test_open(&options);
    while (made < 1000 && status == TROUPE_OK) {
        status = troupe_system_spawn(system, &test_plain, NULL, &all[made]);
        made += status == TROUPE_OK;
    }
    cr_assert_geq(made, 100);
    cr_assert_leq(made, 100 + 96);
    REFUSED(troupe_system_spawn(system, &test_plain, NULL, &ref),
        TROUPE_E_LIMIT, "troupe_system_spawn", "TROUPE_MAX_ACTORS", NULL);
    for (uint32_t i = 0; i < made; i++) {
        cr_assert_eq(troupe_post_stop_now(system, all[i]), TROUPE_OK);
    }
    test_run(system);
    for (uint32_t i = 0; i < 100; i++) {
        cr_assert_eq(
            troupe_system_spawn(system, &test_plain, NULL, &ref), TROUPE_OK);
    }
    test_close(system);
}

/* --- sending -------------------------------------------------------------- */

Test(fault_input, post)
{
    static const char call[] = "troupe_post";
    static struct test_record record;
    troupe_system *system = test_open_driven(0);
    troupe_ref to = test_spawn_recorder(system, NULL, &record);
    const uint64_t number = 1;
    troupe_msg_type type = test_number;

    REFUSED(troupe_post(NULL, to, &test_number, &number), TROUPE_E_INVALID,
        call, "system", "NULL");
    REFUSED(troupe_post(system, TROUPE_NONE, &test_number, &number),
        TROUPE_E_INVALID, call, "to", NULL);
    REFUSED(troupe_post(system, to, NULL, &number), TROUPE_E_INVALID, call,
        "type", "NULL");
    REFUSED(troupe_post(system, to, &test_number, NULL), TROUPE_E_INVALID, call,
        "payload", NULL);
    REFUSED(troupe_post(system, to, &test_empty, &number), TROUPE_E_INVALID,
        call, "payload", NULL);
    REFUSED(troupe_post_bytes(system, to, &test_number, &number, 7),
        TROUPE_E_INVALID, "troupe_post_bytes", "bytes", "7 of 8");
    REFUSED(troupe_post_bytes(system, to, &test_number, &number, 9),
        TROUPE_E_INVALID, "troupe_post_bytes", "bytes", "9 of 8");
    REFUSED(troupe_post_bytes(system, to, &test_bytes, NULL, 9),
        TROUPE_E_INVALID, "troupe_post_bytes", "payload", NULL);
    REFUSED(troupe_post_bytes(system, to, &test_bytes, &number, SIZE_MAX),
        TROUPE_E_INVALID, "troupe_post_bytes", "bytes", NULL);
    type.tag = 0;
    REFUSED(troupe_post(system, to, &type, &number), TROUPE_E_INVALID, call,
        "type.tag", "0");
    type.tag = TROUPE_TAG_RESERVED;
    REFUSED(troupe_post(system, to, &type, &number), TROUPE_E_INVALID, call,
        "type.tag", NULL);
    type.tag = TROUPE_TAG_DOWN;
    REFUSED(troupe_post(system, to, &type, &number), TROUPE_E_INVALID, call,
        "type.tag", NULL);
    type = test_number;
    type.flags = 1u << 3;
    REFUSED(troupe_post(system, to, &type, &number), TROUPE_E_INVALID, call,
        "type.flags", "0x8");
    type.flags = 1u << 31 | TROUPE_MSG_SHARED;
    REFUSED(troupe_post(system, to, &type, &number), TROUPE_E_INVALID, call,
        "type.flags", NULL);
    type = test_number;
    type.size = 0;
    REFUSED(troupe_post(system, to, &type, &number), TROUPE_E_INVALID, call,
        "type.size", "0");
    type.size = sizeof type - 1;
    REFUSED(troupe_post(system, to, &type, &number), TROUPE_E_INVALID, call,
        "type.size", NULL);
    cr_assert_eq(troupe_post_msg(system, to, NULL), TROUPE_E_NOMEM,
        "one check serves for both");
    cr_assert_null(troupe_msg_new(system, &test_number, 3));
    is_explained(TROUPE_E_INVALID, "troupe_msg_new", "bytes", "3");
    cr_assert_null(troupe_msg_new(system, NULL, 3));
    is_explained(TROUPE_E_INVALID, "troupe_msg_new", "type", "NULL");
    cr_assert_null(troupe_msg_new(NULL, &test_number, 0));
    is_explained(TROUPE_E_INVALID, "troupe_msg_new", "system", "NULL");
    cr_assert_null(troupe_msg_new(system, &test_bytes, SIZE_MAX));
    cr_assert_null(troupe_msg_copy(system, NULL));
    cr_assert_null(troupe_msg_copy(NULL, NULL));
    troupe_msg_free(NULL);
    test_run(system);
    cr_assert_eq(record.count, 0);
    cr_assert(troupe_books_balance(system));
    test_close(system);
}

/* A type without a name is the program's fault, and must not be ours. */
Test(fault_input, a_message_type_without_a_name)
{
    static struct test_record record;
    troupe_system *system = test_open_driven(0);
    troupe_ref to = test_spawn_recorder(system, NULL, &record);
    troupe_msg_type type = test_number;
    const uint64_t number = 1;
    troupe_status status;

    type.name = NULL;
    status = troupe_post(system, to, &type, &number);
    if (status == TROUPE_OK) {
        char text[300];
        troupe_msg *msg = troupe_msg_new(system, &type, 0);

        cr_assert_not_null(msg);
        cr_assert_null(troupe_payload(msg, struct test_pair));
        cr_assert_not_null(troupe_last_error().option, "never NULL");
        (void)troupe_explain(TROUPE_E_INVALID, text, sizeof text);
        cr_assert_null(strstr(text, "(null)"), "%s", text);
        troupe_msg_free(msg);
    } else {
        is_explained(TROUPE_E_INVALID, "troupe_post", "type.name", "NULL");
    }
    test_close(system);
}

static troupe_verdict
send_badly(troupe_self *self, const troupe_msg *msg, void *user)
{
    const troupe_ref *to = user;
    const uint64_t number = 1;
    struct test_large payload = {.owned = {NULL, 1}};
    troupe_ref two[2] = {*to, *to};
    troupe_msg *kept = NULL;
    troupe_ref child = TROUPE_NONE;

    (void)msg;
    REFUSED(troupe_send(NULL, *to, &test_number, &number), TROUPE_E_INVALID,
        "troupe_send", "self", "NULL");
    REFUSED(troupe_send(self, TROUPE_NONE, &test_number, &number),
        TROUPE_E_INVALID, "troupe_send", "to", NULL);
    REFUSED(troupe_send(self, *to, NULL, &number), TROUPE_E_INVALID,
        "troupe_send", "type", "NULL");
    REFUSED(troupe_send_bytes(self, *to, &test_number, &number, 1),
        TROUPE_E_INVALID, "troupe_send_bytes", "bytes", "1 of 8");
    cr_assert_eq(troupe_send_msg(self, *to, NULL), TROUPE_E_NOMEM);
    cr_assert_eq(troupe_tell_many(self, two, 2, &test_large, &payload), 0);
    is_explained(TROUPE_E_INVALID, "troupe_tell_many", "type", NULL);
    REFUSED(troupe_take(self, NULL), TROUPE_E_INVALID, "troupe_take", "msg",
        "NULL");
    REFUSED(troupe_take(NULL, &kept), TROUPE_E_INVALID, "troupe_take", "self",
        "NULL");
    cr_assert_eq(troupe_take(self, &kept), TROUPE_OK);
    troupe_msg_free(kept);
    REFUSED(
        troupe_take(self, &kept), TROUPE_E_STATE, "troupe_take", "self", NULL);
    REFUSED(troupe_become_push(self, NULL), TROUPE_E_INVALID,
        "troupe_become_push", "next", "NULL");
    REFUSED(troupe_become_push(NULL, test_ignore), TROUPE_E_INVALID,
        "troupe_become_push", "self", "NULL");
    REFUSED(troupe_unbecome(NULL), TROUPE_E_INVALID, "troupe_unbecome", "self",
        "NULL");
    REFUSED(troupe_unbecome(self), TROUPE_E_STATE, "troupe_unbecome",
        "behaviour", NULL);
    REFUSED(troupe_spawn(NULL, &test_plain, NULL, &child), TROUPE_E_INVALID,
        "troupe_spawn", "self", "NULL");
    REFUSED(troupe_stop(self, TROUPE_NONE), TROUPE_E_INVALID, "troupe_stop",
        "whom", NULL);
    REFUSED(troupe_stop_now(NULL, *to), TROUPE_E_INVALID, "troupe_stop_now",
        "self", "NULL");
    troupe_become(self, NULL);
    troupe_become(NULL, test_ignore);
    return TROUPE_CONTINUE;
}

Test(fault_input, send)
{
    static struct test_record record;
    troupe_system *system = test_open_driven(0);
    troupe_ref to = test_spawn_recorder(system, NULL, &record);
    troupe_ref doer = test_spawn_doer(system, NULL);

    test_do(system, doer, send_badly, &to);
    cr_assert_eq(record.count, 0);
    test_close(system);
}

static troupe_verdict
tell_badly(troupe_self *self, const troupe_msg *msg, void *user)
{
    const uint64_t number = 1;
    troupe_msg_type type = test_number;
    troupe_ref none[2] = {TROUPE_NONE, TROUPE_NONE};

    (void)msg;
    (void)user;
    troupe_tell(NULL, troupe_self_ref(self), &test_number, &number);
    troupe_tell(self, TROUPE_NONE, &test_number, &number);
    troupe_tell(self, troupe_self_ref(self), NULL, &number);
    troupe_tell(self, troupe_self_ref(self), &test_number, NULL);
    type.tag = 0;
    troupe_tell(self, troupe_self_ref(self), &type, &number);
    troupe_tell_bytes(self, troupe_self_ref(self), &test_number, &number, 3);
    troupe_tell_msg(self, troupe_self_ref(self), NULL);
    troupe_reply(NULL, &test_number, &number);
    troupe_reply(self, NULL, NULL);
    troupe_reply_msg(self, NULL);
    troupe_reply_failure(NULL, 1);
    troupe_forward(NULL, troupe_self_ref(self));
    cr_assert_eq(troupe_tell_many(self, NULL, 3, &test_number, &number), 0);
    cr_assert_eq(troupe_tell_many(NULL, none, 2, &test_number, &number), 0);
    cr_assert_eq(troupe_tell_many(self, none, 2, &test_number, &number), 0);
    cr_assert_eq(troupe_tell_many(self, none, 2, NULL, &number), 0);
    troupe_post_tell(NULL, troupe_self_ref(self), &test_number, &number);
    troupe_post_failure(NULL, troupe_self_ref(self), 1);
    return TROUPE_CONTINUE;
}

Test(fault_input, tell_returns_nothing_and_does_no_harm)
{
    troupe_system *system = test_open_driven(0);
    troupe_ref doer = test_spawn_doer(system, NULL);

    test_do(system, doer, tell_badly, NULL);
    test_close(system);
}

/* --- refs ----------------------------------------------------------------- */

static void
use_forged(troupe_system *system, troupe_ref forged, troupe_port *port)
{
    const uint64_t number = 1;
    char text[64];
    troupe_status status = troupe_post(system, forged, &test_number, &number);

    cr_assert(status == TROUPE_E_DEAD || status == TROUPE_E_INVALID, "%u:%u %s",
        forged.index, forged.generation, troupe_status_name(status));
    status = troupe_port_send(port, forged, &test_number, &number);
    cr_assert(status == TROUPE_E_DEAD || status == TROUPE_E_INVALID);
    troupe_post_tell(system, forged, &test_number, &number);
    cr_assert_eq(troupe_depth(system, forged), TROUPE_DEPTH_DEAD);
    cr_assert_eq(troupe_path(system, forged, text, sizeof text), 0);
    cr_assert_str_eq(text, "");
    status = troupe_post_stop(system, forged);
    cr_assert(status == TROUPE_OK || status == TROUPE_E_INVALID);
    status = troupe_post_stop_now(system, forged);
    cr_assert(status == TROUPE_OK || status == TROUPE_E_INVALID);
    status = troupe_port_watch(port, forged);
    cr_assert(status == TROUPE_OK || status == TROUPE_E_INVALID);
    status = troupe_stop_wait(system, &forged, 1, TROUPE_S(1));
    cr_assert(status == TROUPE_OK || status == TROUPE_E_INVALID, "%s",
        troupe_status_name(status));
    while (troupe_port_next(port) != NULL) {
    }
}

Test(fault_input, forged_refs)
{
    static const uint32_t corners[] = {0, 1, 2, 3, 4, 5, 100, 4095, 4096, 4097,
        16000000, 16777215, 16777216, 1u << 30, 1u << 31, UINT32_MAX - 1,
        UINT32_MAX};
    const uint32_t count = sizeof corners / sizeof corners[0];
    static struct test_record record;
    troupe_system *system = test_open_driven(0);
    troupe_ref real = test_spawn_recorder(system, NULL, &record);
    struct test_rng rng = {test_seed()};
    troupe_port *port = NULL;

    cr_assert_eq(troupe_port_open(system, NULL, &port), TROUPE_OK);
    for (uint32_t i = 0; i < count * count + 3000; i++) {
        troupe_ref forged;

        if (i < count * count) {
            forged.index = corners[i / count];
            forged.generation = corners[i % count];
        } else if (i % 3 == 0) { /* near what there is */
            forged.index = test_random_below(&rng, 10);
            forged.generation =
                real.generation + test_random_below(&rng, 9) - 4;
        } else {
            forged.index = (uint32_t)test_random(&rng);
            forged.generation = (uint32_t)test_random(&rng);
        }
        /* Not one that is right by chance; the guardians are somebody, too. */
        if ((forged.index <= real.index + 1 && forged.index != 0 &&
                forged.generation != 0) ||
            troupe_ref_is_none(forged)) {
            char text[8];

            if (troupe_path(system, forged, text, sizeof text) != 0 ||
                troupe_ref_is_none(forged)) {
                continue;
            }
        }
        use_forged(system, forged, port);
    }
    troupe_port_close(port);
    test_post_number(system, real, 1);
    test_run(system);
    cr_assert_eq(record.count, 1);
    test_close(system);
}

Test(fault_input, refs_of_another_system)
{
    static struct test_record record;
    troupe_system *system = test_open_driven(0);
    troupe_system_options options = test_options();
    troupe_system *other = NULL;
    troupe_port *port = NULL;
    troupe_msg *msg;
    uint32_t delivered = 0;

    options.flags |= TROUPE_SYSTEM_DRIVEN;
    cr_assert_eq(troupe_system_create(&options, &other), TROUPE_OK);
    cr_assert_eq(troupe_port_open(other, NULL, &port), TROUPE_OK);
    for (uint32_t i = 0; i < 20; i++) {
        troupe_ref ref = test_spawn_recorder(system, NULL, &record);

        /* Dead there, but for a chance of 1 in 2^31. */
        if (troupe_post(other, ref, &test_empty, NULL) == TROUPE_OK) {
            delivered++;
        }
    }
    cr_assert_eq(delivered, 0);
    msg = troupe_msg_new(system, &test_number, 0);
    cr_assert_not_null(msg);
    REFUSED(troupe_post_msg(other, troupe_port_ref(port), msg),
        TROUPE_E_INVALID, "troupe_post_msg", "msg", NULL);
    troupe_msg_free(msg);
    troupe_port_close(port);
    cr_assert_eq(troupe_system_destroy(other), TROUPE_OK);
    test_close(system);
}

/* --- the rest, without a system ------------------------------------------- */

static bool
visit(const troupe_actor_info *info, void *user)
{
    (void)info;
    (void)user;
    return true;
}

Test(fault_input, null_everywhere)
{
    troupe_system *system = test_open_driven(0);
    troupe_counters counters = TROUPE_INIT(troupe_counters);
    troupe_ref ref = TROUPE_NONE;
    troupe_port *port = NULL;
    troupe_msg *msg = NULL;
    char text[8] = "x";

    troupe_system_request_stop(NULL);
    cr_assert_eq(troupe_system_destroy(NULL), TROUPE_OK);
    REFUSED(troupe_system_stop(NULL), TROUPE_E_INVALID, "troupe_system_stop",
        "system", "NULL");
    REFUSED(troupe_system_wait(NULL, 0), TROUPE_E_INVALID, "troupe_system_wait",
        "system", "NULL");
    REFUSED(troupe_system_await_idle(NULL, 0), TROUPE_E_INVALID,
        "troupe_system_await_idle", "system", "NULL");
    REFUSED(troupe_system_run(NULL, 0, NULL), TROUPE_E_INVALID,
        "troupe_system_run", "system", "NULL");
    REFUSED(troupe_system_advance(NULL, 0), TROUPE_E_INVALID,
        "troupe_system_advance", "system", "NULL");
    REFUSED(troupe_port_open(NULL, NULL, &port), TROUPE_E_INVALID,
        "troupe_port_open", "system", "NULL");
    REFUSED(troupe_port_open(system, NULL, NULL), TROUPE_E_INVALID,
        "troupe_port_open", "port", "NULL");
    REFUSED(troupe_port_open(system, "a/b", &port), TROUPE_E_INVALID,
        "troupe_port_open", "name", "a/b");
    REFUSED(troupe_port_take(NULL, &msg), TROUPE_E_INVALID, "troupe_port_take",
        "port", "NULL");
    REFUSED(troupe_port_watch(NULL, ref), TROUPE_E_INVALID, "troupe_port_watch",
        "port", "NULL");
    REFUSED(troupe_port_send(NULL, ref, &test_empty, NULL), TROUPE_E_INVALID,
        "troupe_port_send", "port", "NULL");
    troupe_port_tell(NULL, ref, &test_empty, NULL);
    troupe_port_close(NULL);
    cr_assert_null(troupe_port_next(NULL));
    cr_assert_eq(troupe_port_fd(NULL), -1);
    cr_assert(troupe_ref_is_none(troupe_port_ref(NULL)));
    REFUSED(troupe_post_stop(NULL, ref), TROUPE_E_INVALID, "troupe_post_stop",
        "system", "NULL");
    REFUSED(troupe_post_stop(system, TROUPE_NONE), TROUPE_E_INVALID,
        "troupe_post_stop", "whom", NULL);
    cr_assert_eq(troupe_stop_wait(NULL, &ref, 1, 0), TROUPE_E_INVALID);
    cr_assert_eq(troupe_stop_wait(system, NULL, 1, 0), TROUPE_E_INVALID);
    cr_assert_eq(troupe_stop_wait(system, NULL, 0, 0), TROUPE_OK);
    cr_assert_eq(troupe_lookup(NULL, "/user", &ref), TROUPE_E_INVALID);
    REFUSED(troupe_lookup(system, NULL, &ref), TROUPE_E_INVALID,
        "troupe_lookup", "path", "NULL");
    REFUSED(troupe_lookup(system, "/user", NULL), TROUPE_E_INVALID,
        "troupe_lookup", "actor", "NULL");
    cr_assert_eq(troupe_lookup(system, "", &ref), TROUPE_E_MISSING);
    cr_assert_eq(troupe_lookup(system, "////", &ref), TROUPE_E_MISSING);
    cr_assert_eq(troupe_lookup(system, "troupe://", &ref), TROUPE_E_MISSING);
    cr_assert_eq(troupe_lookup(system, "/user//", &ref), TROUPE_E_MISSING);
    cr_assert_eq(troupe_inspect(NULL, NULL, visit, NULL), TROUPE_E_INVALID);
    cr_assert_eq(troupe_inspect(system, NULL, NULL, NULL), TROUPE_E_INVALID);
    cr_assert_eq(
        troupe_inspect(system, "/user/x", visit, NULL), TROUPE_E_MISSING);
    cr_assert_eq(troupe_counters_read(NULL, &counters), TROUPE_E_INVALID);
    cr_assert_eq(troupe_counters_read(system, NULL), TROUPE_E_INVALID);
    counters.size = 0;
    cr_assert_eq(troupe_counters_read(system, &counters), TROUPE_E_INVALID);
    counters.size = sizeof counters + 8;
    cr_assert_eq(troupe_counters_read(system, &counters), TROUPE_E_VERSION);
    (void)troupe_depth(NULL, ref);
    cr_assert_eq(troupe_path(NULL, ref, text, sizeof text), 0);
    cr_assert_eq(troupe_path(system, ref, NULL, 0), 0);
    cr_assert_eq(troupe_system_describe(NULL, text, sizeof text), 0);
    cr_assert_gt(troupe_system_describe(system, NULL, 0), 0);
    cr_assert_str_eq(troupe_system_name(NULL), "");
    cr_assert_eq(troupe_system_busy(NULL, NULL, 0), 0);
    cr_assert_eq(troupe_system_fd(NULL), -1);
    cr_assert_eq(troupe_system_seed(NULL), 0);
    (void)troupe_now_ns(NULL);
    troupe_dump(NULL, STDERR_FILENO);
    troupe_dump(system, -1);
    troupe_log(NULL, TROUPE_LOG_ERROR, "%s", "x");
    troupe_system_log(NULL, TROUPE_LOG_ERROR, "%s", "x");
    cr_assert_not(troupe_log_enabled(NULL, TROUPE_LOG_ERROR));
    cr_assert(troupe_ref_is_none(troupe_self_ref(NULL)));
    cr_assert_null(troupe_self_system(NULL));
    cr_assert(troupe_ref_is_none(troupe_parent(NULL)));
    cr_assert(troupe_ref_is_none(troupe_child(NULL, "a")));
    cr_assert_eq(troupe_children(NULL, NULL, 0), 0);
    cr_assert(troupe_ref_is_none(troupe_sender(NULL)));
    cr_assert_str_not_empty(troupe_status_text((troupe_status)-1000));
    cr_assert_str_not_empty(troupe_status_name((troupe_status)1));
    cr_assert_str_not_empty(troupe_dead_reason_name((troupe_dead_reason)77));
    test_close(system);
}

/* --- stopping ------------------------------------------------------------- */

static troupe_verdict
stop_from_inside(troupe_self *self, const troupe_msg *msg, void *user)
{
    troupe_system *system = troupe_self_system(self);
    troupe_ref me = troupe_self_ref(self);
    uint32_t *done = user;

    (void)msg;
    REFUSED(troupe_system_stop(system), TROUPE_E_CONTEXT, "troupe_system_stop",
        "thread", NULL);
    REFUSED(troupe_system_destroy(system), TROUPE_E_CONTEXT,
        "troupe_system_stop", "thread", NULL);
    REFUSED(troupe_system_await_idle(system, 0), TROUPE_E_CONTEXT,
        "troupe_system_await_idle", "thread", NULL);
    REFUSED(troupe_system_wait(system, 0), TROUPE_E_CONTEXT,
        "troupe_system_wait", "thread", NULL);
    REFUSED(troupe_stop_wait(system, &me, 1, 0), TROUPE_E_CONTEXT,
        "troupe_stop_wait", "thread", NULL);
    REFUSED(troupe_system_run(system, 0, NULL), TROUPE_E_CONTEXT,
        "troupe_system_run", "thread", NULL);
    troupe_system_request_stop(system);
    troupe_system_request_stop(system);
    (*done)++;
    return TROUPE_CONTINUE;
}

static void
stopped_is_stopped(troupe_system *system)
{
    const uint64_t number = 1;
    troupe_ref ref = TROUPE_NONE;
    troupe_port *port = NULL;

    cr_assert_eq(troupe_system_stop(system), TROUPE_OK);
    cr_assert_eq(troupe_system_stop(system), TROUPE_OK, "stopped already");
    troupe_system_request_stop(system);
    cr_assert_eq(
        troupe_system_spawn(system, &test_plain, NULL, &ref), TROUPE_E_CLOSED);
    cr_assert(troupe_ref_is_none(ref));
    cr_assert_eq(troupe_port_open(system, NULL, &port), TROUPE_E_CLOSED);
    cr_assert_null(port);
    ref.index = 3;
    ref.generation = 1;
    cr_assert_eq(
        troupe_post(system, ref, &test_number, &number), TROUPE_E_CLOSED);
    cr_assert_eq(troupe_system_await_idle(system, TROUPE_S(1)), TROUPE_OK);
    test_close(system);
}

Test(fault_input, stop_from_inside_a_driven_behaviour)
{
    troupe_system *system = test_open_driven(0);
    troupe_ref doer = test_spawn_doer(system, NULL);
    uint32_t done = 0;

    test_do(system, doer, stop_from_inside, &done);
    cr_assert_eq(done, 1);
    stopped_is_stopped(system);
}

Test(fault_input, stop_from_inside_a_worker)
{
    troupe_system *system = test_open_threads(2);
    troupe_ref doer = test_spawn_doer(system, NULL);
    uint32_t done = 0;

    test_do_later(system, doer, stop_from_inside, &done);
    cr_assert_eq(troupe_system_wait(system, TROUPE_S(60)), TROUPE_OK);
    cr_assert_eq(troupe_system_stop(system), TROUPE_OK);
    cr_assert_eq(done, 1);
    stopped_is_stopped(system);
}

Test(fault_input, destroyed_with_an_open_port)
{
    troupe_system *system = test_open_threads(1);
    troupe_port *port = NULL;

    cr_assert_eq(troupe_port_open(system, "left", &port), TROUPE_OK);
    REFUSED(troupe_system_destroy(system), TROUPE_E_STATE,
        "troupe_system_destroy", "system", "1 open");
    REFUSED(troupe_port_watch(port, troupe_port_ref(port)), TROUPE_E_INVALID,
        "troupe_port_watch", "whom", NULL);
    REFUSED(troupe_post_stop(system, troupe_port_ref(port)), TROUPE_E_STATE,
        "troupe_post_stop", "whom", NULL);
    {
        troupe_msg *msg = NULL;

        REFUSED(troupe_port_take(port, &msg), TROUPE_E_STATE,
            "troupe_port_take", "port", NULL);
    }
    troupe_port_close(port);
    stopped_is_stopped(system);
}

Test(fault_input, calls_for_the_other_kind_of_system)
{
    troupe_system *driven = test_open_driven(0);
    troupe_system_options options = test_options();
    troupe_system *threads = NULL;

    options.workers = 1;
    cr_assert_eq(troupe_system_create(&options, &threads), TROUPE_OK);
    REFUSED(troupe_system_run(threads, 0, NULL), TROUPE_E_STATE,
        "troupe_system_run", "system", NULL);
    REFUSED(troupe_system_advance(threads, 1), TROUPE_E_STATE,
        "troupe_system_advance", "system", NULL);
    REFUSED(troupe_system_wait(driven, 0), TROUPE_E_STATE, "troupe_system_wait",
        "system", NULL);
    cr_assert_eq(troupe_system_advance(driven, 1), TROUPE_E_STATE,
        "there is no virtual clock");
    cr_assert_eq(troupe_system_fd(threads), -1);
    cr_assert_eq(troupe_system_destroy(threads), TROUPE_OK);
    test_close(driven);
}
