/* SPDX-License-Identifier: MIT */
#include "support/system.h"

#include <troupe/inspect.h>

#include <criterion/criterion.h>

#include <string.h>

/*
 * An actor that is told, by numbers, what to begin and whether to await it. It
 * writes down what happens to it, in order: a message as its number, an end as
 * its status. Time is virtual.
 */

enum {
    SLEEP = 1,     /* 10 ms, and awaits it */
    SLEEP_ASIDE,   /* 5 ms, and goes on */
    AWAIT_ASK,     /* asks `other` and awaits it */
    AWAIT_DEAD,    /* asks the dead and awaits it */
    AWAIT_REFUSED, /* could not be begun */
    AWAIT_NOTHING, /* a ticket of nobody */
    AWAIT_FOREVER, /* a promise that nobody has */
    AWAIT_TWO,     /* the second of two that have ended */
    SLEEP_LONG,    /* 100 ms, and goes on; its ticket is kept */
    AWAIT_LONG,    /* the ticket that was kept */
    PLAIN = 100
};

static troupe_system *the_system;

static struct {
    uint32_t count;
    int64_t entry[256];
    troupe_ref other;
    troupe_ticket kept;
    troupe_ref client; /* whom the last continuation answers */
    bool again;        /* a continuation that awaits */
    bool done;         /* ... or stops */
    uint32_t stopped;
} life;

static void
note(int64_t what)
{
    life.entry[life.count++] = what;
}

/* What happened; then it is forgotten. */
#define expect_life(...)                                                       \
    do {                                                                       \
        const int64_t expected_[] = {__VA_ARGS__};                             \
        uint32_t count_ = sizeof expected_ / sizeof *expected_;                \
                                                                               \
        cr_assert_eq(life.count, count_, "%u of %u", life.count, count_);      \
        for (uint32_t i_ = 0; i_ < count_; i_++) {                             \
            cr_expect_eq(life.entry[i_], expected_[i_], "%u: %lld not %lld",   \
                i_, (long long)life.entry[i_], (long long)expected_[i_]);      \
        }                                                                      \
        life.count = 0;                                                        \
    } while (0)

static troupe_verdict
ended(troupe_self *self, void *state, const troupe_result *result, void *user)
{
    troupe_ticket ticket;

    (void)state;
    note((int64_t)result->status - (int64_t)(intptr_t)user * 1000);
    life.client = troupe_sender(self);
    if (life.again) {
        life.again = false;
        return troupe_await(self,
            troupe_sleep(
                self, TROUPE_MS(10), troupe_then(ended, (void *)1), &ticket),
            &ticket);
    }
    return life.done ? TROUPE_DONE : TROUPE_CONTINUE;
}

static troupe_verdict
begin(troupe_self *self, uint64_t what)
{
    troupe_continuation then = troupe_then(ended, (void *)(uintptr_t)what);
    troupe_ref promise;
    troupe_ticket ticket = {0}, second;

    switch (what) {
    case SLEEP:
        return troupe_await(
            self, troupe_sleep(self, TROUPE_MS(10), then, &ticket), &ticket);
    case SLEEP_ASIDE:
        return troupe_check(
            self, troupe_sleep(self, TROUPE_MS(5), then, &ticket));
    case AWAIT_DEAD:
    case AWAIT_ASK:
        return troupe_await(self,
            troupe_ask(self, life.other, &test_number, &what,
                TROUPE_TIMEOUT_DEFAULT, then, &ticket),
            &ticket);
    case AWAIT_REFUSED:
        return troupe_await(self,
            troupe_ask(
                self, TROUPE_NONE, &test_number, &what, 0, then, &ticket),
            &ticket);
    case AWAIT_NOTHING:
        return troupe_await(self, TROUPE_OK, &ticket);
    case AWAIT_FOREVER:
        return troupe_await(self,
            troupe_promise(self, TROUPE_FOREVER, then, &promise, &ticket),
            &ticket);
    case AWAIT_TWO:
        test_require(troupe_ask(self, life.other, &test_number, &what, 0, then,
                         &ticket) == TROUPE_OK);
        test_require(troupe_ask(self, life.other, &test_number, &what, 0,
                         troupe_then(ended, (void *)9), &second) == TROUPE_OK);
        return troupe_await(self, TROUPE_OK, &second);
    case SLEEP_LONG:
        return troupe_check(
            self, troupe_sleep(self, TROUPE_MS(100), then, &life.kept));
    case AWAIT_LONG:
        return troupe_await(self, TROUPE_OK, &life.kept);
    default:
        return TROUPE_CONTINUE;
    }
}

static troupe_verdict
receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    uint64_t what = *troupe_payload(msg, uint64_t);

    (void)state;
    note((int64_t)what);
    return begin(self, what);
}

static void
at_stop(troupe_self *self, void *state, const troupe_exit *why)
{
    (void)self;
    (void)state;
    (void)why;
    life.stopped++;
}

static const troupe_actor_type type = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "sleeper",
    .receive = receive,
    .stop = at_stop,
};

static void
setup(void)
{
    memset(&life, 0, sizeof life);
    the_system = test_open_driven(7);
}

static void
teardown(void)
{
    test_close(the_system);
}

TestSuite(await, .init = setup, .fini = teardown);

static troupe_ref
spawn_with(const troupe_spawn_options *options)
{
    troupe_ref ref;

    test_require(
        troupe_system_spawn(the_system, &type, options, &ref) == TROUPE_OK);
    return ref;
}

static troupe_ref
spawn(void)
{
    return spawn_with(NULL);
}

static void
tell(troupe_ref to, uint64_t what)
{
    test_post_number(the_system, to, what);
    test_run(the_system);
}

static void
advance_ms(uint64_t ms)
{
    cr_assert_eq(troupe_system_advance(the_system, TROUPE_MS(ms)), TROUPE_OK);
}

/* --- messages wait -------------------------------------------------------- */

static void
messages_wait(const troupe_spawn_options *options)
{
    troupe_ref actor = spawn_with(options);

    tell(actor, SLEEP);
    for (uint64_t i = 0; i < 20; i++) {
        tell(actor, PLAIN + i);
    }
    cr_expect_eq(troupe_depth(the_system, actor), 20);
    expect_life(SLEEP);
    advance_ms(10);
    cr_assert_eq(life.count, 21);
    cr_expect_eq(life.entry[0], -1000);
    for (uint32_t i = 0; i < 20; i++) {
        cr_expect_eq(life.entry[1 + i], PLAIN + i);
    }
    life.count = 0;
}

Test(await, lets_messages_wait_until_the_operation_has_ended)
{
    messages_wait(NULL);
}

Test(await, lets_messages_wait_whatever_the_mailbox)
{
    troupe_mailbox_options mailbox = TROUPE_INIT(troupe_mailbox_options);
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);

    options.mailbox = &mailbox;
    mailbox.capacity = 100;
    messages_wait(&options);
    mailbox.overflow = TROUPE_OVERFLOW_DROP_HEAD;
    messages_wait(&options);
}

Test(await, goes_on_with_what_was_queued_before)
{
    troupe_ref actor = spawn();

    test_post_number(the_system, actor, SLEEP);
    for (uint64_t i = 0; i < 100; i++) {
        test_post_number(the_system, actor, PLAIN + i);
    }
    test_run(the_system);
    expect_life(SLEEP);
    advance_ms(10);
    cr_expect_eq(life.count, 101);
    cr_expect_eq(life.entry[100], PLAIN + 99);
}

Test(await, can_follow_an_await)
{
    troupe_ref actor = spawn();

    life.again = true;
    tell(actor, SLEEP);
    tell(actor, PLAIN);
    expect_life(SLEEP);
    advance_ms(10);
    expect_life(-1000);
    advance_ms(9);
    cr_expect_eq(life.count, 0);
    advance_ms(1);
    expect_life(-1000, PLAIN);
}

Test(await, lets_other_continuations_wait_too)
{
    troupe_ref actor = spawn();

    tell(actor, SLEEP_ASIDE);
    tell(actor, SLEEP);
    advance_ms(5);
    expect_life(SLEEP_ASIDE, SLEEP);
    advance_ms(5);
    expect_life(-1000 * SLEEP, -1000 * SLEEP_ASIDE);
}

Test(await, of_one_that_has_ended_runs_its_continuation_first)
{
    troupe_ref actor = spawn();

    life.other = test_dead_actor(the_system);
    tell(actor, AWAIT_TWO);
    expect_life(
        AWAIT_TWO, TROUPE_E_DEAD - 9000, TROUPE_E_DEAD - 1000 * AWAIT_TWO);
    tell(actor, PLAIN);
    expect_life(PLAIN);
}

Test(await, of_an_operation_that_was_begun_before)
{
    troupe_ref actor = spawn();

    tell(actor, SLEEP_LONG);
    advance_ms(50);
    tell(actor, AWAIT_LONG);
    tell(actor, PLAIN);
    advance_ms(50);
    expect_life(SLEEP_LONG, AWAIT_LONG, -1000 * SLEEP_LONG, PLAIN);
}

Test(await, of_an_answer)
{
    troupe_ref actor = spawn();

    test_require(troupe_system_spawn(
                     the_system, &test_echo, NULL, &life.other) == TROUPE_OK);
    test_post_number(the_system, actor, AWAIT_ASK);
    test_post_number(the_system, actor, PLAIN);
    test_run(the_system);
    expect_life(AWAIT_ASK, -1000 * AWAIT_ASK, PLAIN);
    life.other = test_dead_actor(the_system);
    tell(actor, AWAIT_DEAD);
    expect_life(AWAIT_DEAD, TROUPE_E_DEAD - 1000 * AWAIT_DEAD);
}

/* --- mistakes ------------------------------------------------------------- */

Test(await, of_what_could_not_begin_fails_the_actor)
{
    troupe_ref actor = spawn();

    tell(actor, AWAIT_REFUSED);
    expect_life(AWAIT_REFUSED);
    cr_expect_eq(life.stopped, 1); /* and it was restarted */
}

Test(await, of_nothing_fails_the_actor)
{
    troupe_ref actor = spawn();

    tell(actor, AWAIT_NOTHING);
    expect_life(AWAIT_NOTHING);
    cr_expect_eq(life.stopped, 1); /* and it was restarted */
}

/* --- parked, and yet there ------------------------------------------------ */

Test(await, does_not_keep_a_stop_waiting)
{
    troupe_ref actor = spawn();

    tell(actor, AWAIT_FOREVER);
    tell(actor, PLAIN);
    cr_assert_eq(troupe_post_stop_now(the_system, actor), TROUPE_OK);
    test_run(the_system);
    expect_life(AWAIT_FOREVER, TROUPE_E_CANCELLED - 1000 * AWAIT_FOREVER);
    cr_expect_eq(life.stopped, 1);
    cr_expect_eq(test_letters.by_reason[TROUPE_DEAD_STOPPED], 1);
}

Test(await, lets_a_stop_in_line_wait)
{
    troupe_ref actor = spawn();

    tell(actor, SLEEP);
    tell(actor, PLAIN);
    cr_assert_eq(troupe_post_stop(the_system, actor), TROUPE_OK);
    test_run(the_system);
    cr_expect_eq(life.stopped, 0);
    advance_ms(10);
    expect_life(SLEEP, -1000, PLAIN);
    cr_expect_eq(life.stopped, 1);
}

Test(await, does_not_keep_a_system_from_stopping)
{
    tell(spawn(), AWAIT_FOREVER);
    cr_assert_eq(troupe_system_stop(the_system), TROUPE_OK);
    expect_life(AWAIT_FOREVER, TROUPE_E_CLOSED - 1000 * AWAIT_FOREVER);
    cr_expect_eq(life.stopped, 1);
}

Test(await, ends_the_actor_if_its_continuation_says_so)
{
    troupe_ref actor = spawn();

    life.done = true;
    tell(actor, SLEEP);
    tell(actor, PLAIN);
    advance_ms(10);
    expect_life(SLEEP, -1000);
    cr_expect_eq(life.stopped, 1);
}

/* A family whose members share their fate: the second one fails at once. */
static troupe_verdict
fail(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)state;
    (void)msg;
    return troupe_fail(self, 1);
}

static const troupe_actor_type failing = {
    .size = TROUPE_OPTIONS(troupe_actor_type),
    .name = "failing",
    .receive = fail,
};

static struct {
    troupe_ref parent, actor, sibling;
} family;

static troupe_verdict
have_children(troupe_self *self, const troupe_msg *msg, void *user)
{
    (void)msg;
    (void)user;
    test_require(troupe_spawn(self, &type, NULL, &family.actor) == TROUPE_OK);
    test_require(
        troupe_spawn(self, &failing, NULL, &family.sibling) == TROUPE_OK);
    return TROUPE_CONTINUE;
}

static void
make_family(troupe_directive directive)
{
    troupe_supervision all = TROUPE_INIT(troupe_supervision);
    troupe_spawn_options options = TROUPE_INIT(troupe_spawn_options);

    all.scope = TROUPE_SCOPE_ALL_FOR_ONE;
    all.otherwise = directive;
    options.children = &all;
    family.parent = test_spawn_doer_supervising(the_system, &options);
    test_do(the_system, family.parent, have_children, NULL);
}

Test(await, does_not_keep_a_restart_waiting)
{
    make_family(TROUPE_DIRECTIVE_RESTART);
    tell(family.actor, AWAIT_FOREVER);
    tell(family.actor, PLAIN);
    tell(family.sibling, 0);
    expect_life(
        AWAIT_FOREVER, TROUPE_E_CANCELLED - 1000 * AWAIT_FOREVER, PLAIN);
    cr_expect_eq(life.stopped, 1);
    cr_expect_eq(test_counters(the_system).asks, 0);
}

Test(await, goes_on_after_a_resume)
{
    make_family(TROUPE_DIRECTIVE_RESUME);
    tell(family.actor, SLEEP);
    tell(family.actor, PLAIN);
    tell(family.sibling, 0);
    expect_life(SLEEP);
    advance_ms(10);
    expect_life(SLEEP * -1000, PLAIN);
    cr_expect_eq(life.stopped, 0);
}

static bool
see_state(const troupe_actor_info *info, void *user)
{
    *(troupe_actor_state *)user = info->state;
    return true;
}

Test(await, shows)
{
    troupe_ref actor = spawn();
    troupe_actor_state state = TROUPE_STATE_STARTING;
    char path[64];

    (void)troupe_path(the_system, actor, path, sizeof path);
    tell(actor, SLEEP);
    cr_assert_eq(
        troupe_inspect(the_system, path, see_state, &state), TROUPE_OK);
    cr_expect_eq(state, TROUPE_STATE_AWAITING);
    advance_ms(10);
    cr_assert_eq(
        troupe_inspect(the_system, path, see_state, &state), TROUPE_OK);
    cr_expect_eq(state, TROUPE_STATE_RUNNING);
}
