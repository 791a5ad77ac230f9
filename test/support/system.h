/* SPDX-License-Identifier: MIT */
#ifndef TEST_SUPPORT_SYSTEM_H
#define TEST_SUPPORT_SYSTEM_H

/*
 * What tests of the public API share: a system whose memory is counted and
 * whose dead letters are kept, an actor that records what it gets, and one
 * that does what it is told. One system at a time has this memory; a second
 * one of the same test is made from test_options() as well.
 */

#include "support/alloc.h"
#include "support/require.h"

#include <troupe/troupe.h>

/* --- the system ----------------------------------------------------------- */

extern struct test_alloc test_memory;

/* Ignores the environment, counts memory, keeps dead letters, logs nothing. */
troupe_system_options test_options(void);

/* Turns run in order on this thread; a seed makes a simulation of it. */
troupe_system *test_open_driven(uint64_t seed);
troupe_system *test_open_threads(uint32_t workers);

/* troupe_system_create() with these; ends the process if it fails. */
troupe_system *test_open(const troupe_system_options *options);

/* Until nothing can run. */
void test_run(troupe_system *system);

/*
 * Runs what is left, checks the books, destroys, and checks that no memory, no
 * thread and no descriptor is left. Ends the process if anything is wrong.
 */
void test_close(troupe_system *system);

/*
 * A suite whose tests have a driven system, `the_system`.
 */
#define TEST_DRIVEN_SUITE(name)                                                \
    static troupe_system *the_system;                                          \
    static void open_the_system(void)                                          \
    {                                                                          \
        the_system = test_open_driven(0);                                      \
    }                                                                          \
    static void close_the_system(void)                                         \
    {                                                                          \
        test_close(the_system);                                                \
    }                                                                          \
    TestSuite(name, .init = open_the_system, .fini = close_the_system)

/*
 * The answer of `what` in a forked child, or 128 + the signal that killed it.
 * A child that hangs is killed in the end.
 */
int test_in_child(int (*what)(void));

/* --- dead letters --------------------------------------------------------- */

struct test_letter {
    troupe_dead_reason reason;
    troupe_ref recipient;
    troupe_ref sender;
    troupe_tag tag;
    size_t bytes;
    bool has_payload;
    uint64_t number; /* the first 8 bytes of the payload */
};

struct test_letters {
    _Atomic uint64_t total;
    _Atomic uint64_t by_reason[16];
    struct test_letter last; /* for tests with one thread */
};

extern struct test_letters test_letters;
void test_dead_letter(troupe_system *system, const troupe_dead_letter *letter,
    void *user) TROUPE_NOEXCEPT;

/* --- messages ------------------------------------------------------------- */

enum {
    TEST_TAG_NUMBER = 1,
    TEST_TAG_PAIR,
    TEST_TAG_EMPTY,
    TEST_TAG_BYTES,
    TEST_TAG_OWNED,
    TEST_TAG_LARGE,
    TEST_TAG_SHARED,
    TEST_TAG_DO,
    TEST_TAG_OTHER
};

struct test_pair {
    uint64_t first;
    uint64_t second;
};

/* Owns one unit of *drops: dropping it adds 1. */
struct test_owned {
    _Atomic uint64_t *drops;
    uint64_t number;
};

struct test_large {
    struct test_owned owned;
    unsigned char more[100];
};

void test_drop(void *payload, size_t bytes) TROUPE_NOEXCEPT;

extern const troupe_msg_type test_number; /* uint64_t */
extern const troupe_msg_type test_pair;   /* struct test_pair */
extern const troupe_msg_type test_empty;
extern const troupe_msg_type test_bytes;  /* any length */
extern const troupe_msg_type test_owned;  /* struct test_owned, in the slot */
extern const troupe_msg_type test_large;  /* struct test_large, in a box */
extern const troupe_msg_type test_shared; /* struct test_large, shared */
extern const troupe_msg_type test_other;  /* uint64_t */

/* --- actors --------------------------------------------------------------- */

#define TEST_RECORDS 4096

/* What happened to a recorder, in order. Filled by its turns. */
struct test_record {
    uint32_t count;
    uint32_t started;
    uint32_t stopped;
    troupe_exit exit;
    struct {
        troupe_tag tag;
        troupe_ref sender;
        size_t bytes;
        uint64_t number; /* the first 8 bytes of the payload, 0 if shorter */
    } entry[TEST_RECORDS];
    troupe_verdict answer; /* of its behaviour; zero is TROUPE_CONTINUE */
};

/* A child of /user that records; `name` may be NULL. */
troupe_ref test_spawn_recorder(
    troupe_system *system, const char *name, struct test_record *record);
/* The same with a mailbox of its own. */
troupe_ref test_spawn_recorder_with(troupe_system *system,
    const troupe_mailbox_options *mailbox, struct test_record *record);
/* The same as a child of whoever calls. */
troupe_ref test_spawn_recorder_below(
    troupe_self *self, const char *name, struct test_record *record);
extern const troupe_actor_type test_recorder; /* arg: struct test_record * */

/* Calls a function inside an actor, in the turn of a message of its own. */
typedef troupe_verdict (*test_do_fn)(
    troupe_self *self, const troupe_msg *msg, void *user);

troupe_ref test_spawn_doer(troupe_system *system, const char *name);
troupe_ref test_spawn_doer_with(
    troupe_system *system, const troupe_mailbox_options *mailbox);
/* One that ends when it fails, instead of being restarted. */
troupe_ref test_spawn_mortal_doer(troupe_system *system);
troupe_ref test_spawn_mortal_recorder(
    troupe_system *system, struct test_record *record);
/* One that supervises its children as the options say. */
troupe_ref test_spawn_doer_supervising(
    troupe_system *system, const troupe_spawn_options *options);
troupe_ref test_spawn_doer_below(troupe_self *self, const char *name);
/* Posts it and runs the driven system until nothing can run. */
void test_do(
    troupe_system *system, troupe_ref doer, test_do_fn what, void *user);
/* Posts it only. */
void test_do_later(
    troupe_system *system, troupe_ref doer, test_do_fn what, void *user);

/* Ignores what it gets. */
troupe_verdict test_ignore(
    troupe_self *self, void *state, const troupe_msg *msg) TROUPE_NOEXCEPT;
extern const troupe_actor_type test_plain;

/* Answers with what it got. */
extern const troupe_actor_type test_echo;

/* A plain one with a stop(), started in a driven system; `name` may be NULL. */
typedef void (*test_stop_fn)(
    troupe_self *self, void *state, const troupe_exit *why) TROUPE_NOEXCEPT;
troupe_ref test_spawn_with_stop(
    troupe_system *system, const char *name, test_stop_fn stop);

/* One that has stopped. Runs the driven system. */
troupe_ref test_dead_actor(troupe_system *system);

/* For a doer: has a child, a doer named "child", and puts it in *user. */
troupe_verdict test_have_child(
    troupe_self *self, const troupe_msg *msg, void *user);

/* For a doer with threads: is inside until it may leave. */
extern _Atomic uint64_t test_inside;
extern _Atomic uint64_t test_may_leave;
troupe_verdict test_stay(troupe_self *self, const troupe_msg *msg, void *user);

/* A post of one number that has to work. */
void test_post_number(troupe_system *system, troupe_ref to, uint64_t number);

/* 0 .. count - 1, in this order. */
void test_post_numbers(troupe_system *system, troupe_ref to, uint64_t count);

troupe_counters test_counters(const troupe_system *system);

#endif /* TEST_SUPPORT_SYSTEM_H */
