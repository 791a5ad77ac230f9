/* SPDX-License-Identifier: MIT */

/*
 * Operations of an actor, through the public calls: answers, failures, the
 * target's death, deadlines, cancels and the end of the asker race for each of
 * them. Workers are the real ones.
 *
 * Oracle: every continuation runs once; an answer that was accepted is shown to
 * one continuation, or is a dead letter; the address of an operation that has
 * ended reaches no other; an actor that is parked handles nothing, and wakes
 * up; at the end nothing is open and no memory is out.
 */

#include "engine.h"
#include "interleave.h"

#include "base/error.h"
#include "os.h"
#include "runner.h"
#include "support.h"

#include <troupe/troupe.h>

#include <string.h>

TROUPE_MSG_TYPE(command, uint32_t, 1);
TROUPE_MSG_TYPE(answer, uint32_t, 2);
TROUPE_MSG_TYPE_EMPTY(question, 3);
TROUPE_MSG_TYPE_EMPTY(plain, 4);

enum { PROMISE, AWAIT, ASK, CANCEL, DEADLINE, FIRST, BOTH, AGAIN };

static troupe_system *rt;
static troupe_ref asker, target;

static struct {
    uint32_t begun, ended;
    uint32_t shown;    /* answers in continuations, gathered ones, too */
    uint32_t accepted; /* by posts */
    uint32_t dead;     /* letters of answers */
    uint32_t plain;    /* messages handled by the asker */
    troupe_status last;
    troupe_ref promise; /* of the last operation */
    troupe_ref first;   /* of the one that was open when the threads began */
    troupe_ref kept;    /* what the target was asked from, last */
    troupe_ref before;  /* and before that */
    troupe_ticket ticket;
    bool is_parked;
} ledger;

static void
log_nothing(const troupe_log_line *line, void *user)
{
    (void)line;
    (void)user;
}

static void
bury(troupe_system *system, const troupe_dead_letter *letter, void *user)
{
    (void)system;
    (void)user;
    ledger.dead += troupe_msg_is(letter->msg, &answer) ? 1 : 0;
}

static troupe_verdict
then(troupe_self *self, void *state, const troupe_result *result, void *user)
{
    uint32_t number = (uint32_t)(uintptr_t)user;

    (void)self;
    (void)state;
    model_note("%u ends: %s", number, troupe_status_name(result->status));
    ledger.ended++;
    ledger.last = result->status;
    ledger.is_parked = false;
    if (result->msg != NULL &&
        troupe_msg_tag(result->msg) == TROUPE_TAG_GATHERED) {
        ledger.shown +=
            (uint32_t)troupe_payload(result->msg, troupe_gathered)->answered;
    } else if (result->msg != NULL) {
        MODEL_CHECK(*troupe_payload(result->msg, uint32_t) == number,
            "%u gets what is for %u", number,
            *troupe_payload(result->msg, uint32_t));
        ledger.shown++;
    }
    return TROUPE_CONTINUE;
}

static troupe_verdict
be_asker(troupe_self *self, void *state, const troupe_msg *msg)
{
    troupe_continuation next =
        troupe_then(then, (void *)(uintptr_t)ledger.begun);
    uint32_t what = AGAIN;

    (void)state;
    MODEL_CHECK(!ledger.is_parked, "it handles a message while it is parked");
    if (troupe_msg_is(msg, &plain)) {
        ledger.plain++;
        return TROUPE_CONTINUE;
    }
    what = *troupe_payload(msg, uint32_t);
    if (what == CANCEL) {
        (void)troupe_cancel(self, ledger.ticket);
        return TROUPE_CONTINUE;
    }
    if (what == FIRST || what == BOTH) {
        const troupe_ref whom[] = {target, target};
        const troupe_gather_options options = {.size = sizeof options,
            .policy = what == FIRST ? TROUPE_GATHER_FIRST : TROUPE_GATHER_ALL};

        MODEL_ASSERT(troupe_gather(self, whom, 2, &question, NULL, &options,
                         next, &ledger.ticket) == TROUPE_OK);
    } else if (what == ASK) {
        MODEL_ASSERT(troupe_ask(self, target, &question, NULL, TROUPE_FOREVER,
                         next, &ledger.ticket) == TROUPE_OK);
    } else {
        MODEL_ASSERT(troupe_promise(self,
                         what == DEADLINE ? TROUPE_MS(1) : TROUPE_FOREVER, next,
                         &ledger.promise, &ledger.ticket) == TROUPE_OK);
    }
    ledger.begun++;
    if (what == AWAIT) {
        ledger.is_parked = true;
        return troupe_await(self, TROUPE_OK, &ledger.ticket);
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type asker_type = {
    .size = sizeof(troupe_actor_type),
    .name = "asker",
    .receive = be_asker,
};

/* Keeps the question; answers when it is told to. */
static troupe_verdict
be_target(troupe_self *self, void *state, const troupe_msg *msg)
{
    uint32_t number = 0;

    (void)state;
    if (troupe_msg_is(msg, &question)) {
        ledger.before = ledger.kept;
        ledger.kept = troupe_sender(self);
    } else if (!troupe_ref_is_none(ledger.kept)) {
        ledger.accepted++;
        troupe_tell(self, ledger.kept, &answer, &number);
    }
    return TROUPE_CONTINUE;
}

static const troupe_actor_type target_type = {
    .size = sizeof(troupe_actor_type),
    .name = "target",
    .receive = be_target,
};

/* --- threads -------------------------------------------------------------- */

static void
post_command(uint32_t what)
{
    (void)!troupe_post(rt, asker, &command, &what);
}

/* To the operation that was open then. */
static void
post_answer(void *user)
{
    uint32_t number = 0;

    (void)user;
    if (troupe_post(rt, ledger.first, &answer, &number) == TROUPE_OK) {
        ledger.accepted++;
    }
}

static void
post_failure(void *user)
{
    (void)user;
    troupe_post_failure(rt, ledger.first, 1);
}

static void
cancel(void *user)
{
    (void)user;
    post_command(CANCEL);
}

static void
begin_another(void *user)
{
    (void)user;
    post_command(CANCEL);
    post_command(PROMISE);
}

static void
post_plain(void *user)
{
    (void)user;
    (void)!troupe_post(rt, asker, &plain, NULL);
    (void)!troupe_post(rt, asker, &plain, NULL);
}

static void
stop_asker(void *user)
{
    (void)user;
    MODEL_ASSERT(troupe_post_stop_now(rt, asker) == TROUPE_OK);
}

static void
stop_target(void *user)
{
    (void)user;
    MODEL_ASSERT(troupe_post_stop_now(rt, target) == TROUPE_OK);
}

/* To both questions of a gather. */
static void
post_both(void *user)
{
    uint32_t number = 0;

    (void)user;
    if (troupe_post(rt, ledger.kept, &answer, &number) == TROUPE_OK) {
        ledger.accepted++;
    }
    if (troupe_post(rt, ledger.before, &answer, &number) == TROUPE_OK) {
        ledger.accepted++;
    }
}

static void
tell_target(void *user)
{
    uint32_t what = 0;

    (void)user;
    (void)!troupe_post(rt, target, &command, &what);
}

/* --- scenarios ------------------------------------------------------------ */

/* Workers 0: a simulation, which a thread drives. */
static void
open_system(uint32_t workers)
{
    troupe_system_options options = {.size = sizeof options,
        .flags = TROUPE_SYSTEM_IGNORE_ENV |
                 (workers == 0 ? (uint32_t)TROUPE_SYSTEM_DRIVEN : 0),
        .seed = workers == 0 ? 1 : 0,
        .workers = workers,
        .spin_us = TROUPE_SPIN_NEVER,
        .steal = TROUPE_STEAL_EAGER,
        .max_actors = 64,
        .stop_grace_ns = TROUPE_S(3600),
        .log = {.write = log_nothing},
        .dead_letter = {.fn = bury}};

    model_heap_begin();
    model_os_begin();
    memset(&ledger, 0, sizeof ledger);
    options.alloc = model_heap.alloc;
    options.free = model_heap.free;
    MODEL_ASSERT(troupe_system_create(&options, &rt) == TROUPE_OK);
    MODEL_ASSERT(
        troupe_system_spawn(rt, &asker_type, NULL, &asker) == TROUPE_OK);
    MODEL_ASSERT(
        troupe_system_spawn(rt, &target_type, NULL, &target) == TROUPE_OK);
}

static void
begin(uint32_t workers, uint32_t what)
{
    open_system(workers);
    post_command(what);
    if (workers == 0) {
        MODEL_ASSERT(troupe_system_run(rt, 0, NULL) == TROUPE_OK);
    } else {
        model_await_sleep();
    }
    MODEL_ASSERT(ledger.begun == 1 && ledger.ended == 0);
    ledger.first = ledger.promise;
}

static void
run_three(void (*first)(void *), void (*second)(void *), void (*third)(void *))
{
    int a = model_spawn("a", first, NULL);
    int b = model_spawn("b", second, NULL);
    int c = third != NULL ? model_spawn("c", third, NULL) : -1;

    model_join(a);
    model_join(b);
    if (c >= 0) {
        model_join(c);
    }
}

static void
finish(void)
{
    troupe_counters books = {.size = sizeof books};

    MODEL_ASSERT(troupe_system_stop(rt) == TROUPE_OK);
    MODEL_ASSERT(troupe_counters_read(rt, &books) == TROUPE_OK);
    MODEL_CHECK(books.asks == 0, "%u are open", (uint32_t)books.asks);
    MODEL_CHECK(books.sent == books.handled + books.dropped + books.dead +
                                  books.refused + books.queued,
        "sent %u, handled %u, dead %u, refused %u, queued %u",
        (uint32_t)books.sent, (uint32_t)books.handled, (uint32_t)books.dead,
        (uint32_t)books.refused, (uint32_t)books.queued);
    MODEL_ASSERT(troupe_system_destroy(rt) == TROUPE_OK);
    MODEL_CHECK(ledger.ended == ledger.begun, "%u of %u ended", ledger.ended,
        ledger.begun);
    MODEL_CHECK(ledger.shown + ledger.dead == ledger.accepted,
        "of %u answers %u were shown and %u are dead", ledger.accepted,
        ledger.shown, ledger.dead);
    MODEL_CHECK(model_heap_live() == 0, "%llu bytes are left",
        (unsigned long long)model_heap_live());
    model_heap_check_freed();
}

/* An answer, a failure and a second answer, or the end of the asker. */
static void
answers(void)
{
    begin(1 + model_choose(2), PROMISE);
    run_three(post_answer, post_failure,
        model_choose(2) != 0 ? post_answer : stop_asker);
    model_await_sleep();
    MODEL_CHECK(ledger.ended == 1, "ended %u times", ledger.ended);
    finish();
}

/* An answer against a cancel; the block is used again for the next one. */
static void
cancels(void)
{
    begin(1, PROMISE);
    run_three(post_answer, model_choose(2) != 0 ? begin_another : cancel,
        post_answer);
    model_await_sleep();
    MODEL_CHECK(
        ledger.ended >= 1 && ledger.ended <= 2, "ended %u times", ledger.ended);
    finish();
}

static void
drive(void *user)
{
    (void)user;
    MODEL_ASSERT(troupe_system_run(rt, 0, NULL) == TROUPE_OK);
    MODEL_ASSERT(troupe_system_advance(rt, TROUPE_MS(1)) == TROUPE_OK);
}

/* An answer against the deadline. */
static void
deadline(void)
{
    begin(0, DEADLINE);
    run_three(post_answer, drive, post_answer);
    MODEL_ASSERT(troupe_system_run(rt, 0, NULL) == TROUPE_OK);
    MODEL_CHECK(ledger.ended == 1, "ended %u times", ledger.ended);
    finish();
}

/* The target has kept the question: its answer against its end. */
static void
target_dies(void)
{
    begin(1 + model_choose(2), ASK);
    run_three(tell_target, stop_target, model_choose(2) != 0 ? cancel : NULL);
    model_await_sleep();
    MODEL_CHECK(ledger.ended == 1, "ended %u times", ledger.ended);
    finish();
}

/* The question is on its way while the target stops. */
static void
target_is_dying(void)
{
    uint32_t what = ASK;

    open_system(2);
    MODEL_ASSERT(troupe_post(rt, asker, &command, &what) == TROUPE_OK);
    run_three(stop_target, tell_target, model_choose(2) != 0 ? cancel : NULL);
    model_await_sleep();
    MODEL_CHECK(ledger.ended == 1, "ended %u times", ledger.ended);
    finish();
}

/* Two answers of a gather: against the target's end, or that of the asker. */
static void
gathers(void)
{
    begin(1 + model_choose(2), model_choose(2) != 0 ? FIRST : BOTH);
    run_three(post_both, model_choose(2) != 0 ? stop_target : stop_asker,
        model_choose(2) != 0 ? cancel : NULL);
    model_await_sleep();
    MODEL_CHECK(ledger.ended == 1, "ended %u times", ledger.ended);
    finish();
}

/* Both ends at once. */
static void
both_die(void)
{
    begin(2, ASK);
    run_three(stop_asker, stop_target, tell_target);
    model_await_sleep();
    MODEL_CHECK(ledger.ended == 1, "ended %u times", ledger.ended);
    finish();
}

/* Parked: messages wait, and are handled after the answer. */
static void
await(void)
{
    begin(1 + model_choose(2), AWAIT);
    run_three(post_plain, post_answer, NULL);
    model_await_sleep();
    MODEL_CHECK(ledger.ended == 1 && ledger.plain == 2,
        "ended %u times, %u of 2 messages", ledger.ended, ledger.plain);
    finish();
}

/* It parks while it is answered, or stopped. */
static void
await_at_once(void)
{
    uint32_t what = AWAIT;

    open_system(2);
    MODEL_ASSERT(troupe_post(rt, asker, &command, &what) == TROUPE_OK);
    run_three(post_plain, stop_asker, NULL);
    model_await_sleep();
    MODEL_ASSERT(troupe_depth(rt, asker) == TROUPE_DEPTH_DEAD);
    MODEL_ASSERT(ledger.ended == ledger.begun);
    finish();
}

static void
wait_for_answer(void *user)
{
    troupe_answer answered;
    troupe_status status =
        troupe_ask_wait(rt, target, &question, NULL, TROUPE_FOREVER, &answered);

    (void)user;
    MODEL_CHECK(status == TROUPE_OK || status == TROUPE_E_DEAD, "%s",
        troupe_status_name(status));
    ledger.shown += answered.reply != NULL ? 1 : 0;
    troupe_msg_free(answered.reply);
}

/* A thread waits: for the answer, or the end of the target. */
static void
thread_waits(void)
{
    open_system(1);
    run_three(wait_for_answer, tell_target, stop_target);
    model_await_sleep();
    finish();
}

static const struct model_scenario scenarios[] = {
    {"answers", answers, 4},
    {"cancels", cancels, 4},
    {"deadline", deadline, 4},
    {"target_dies", target_dies, 4},
    {"target_is_dying", target_is_dying, 4},
    {"both_die", both_die, 4},
    {"gathers", gathers, 4},
    {"await", await, 4},
    {"await_at_once", await_at_once, 4},
    {"thread_waits", thread_waits, 4},
};

int
main(int argc, char **argv)
{
    model_thread_local(&trp_thread, sizeof trp_thread);
    return model_main(
        argc, argv, "ask", scenarios, sizeof scenarios / sizeof scenarios[0]);
}
