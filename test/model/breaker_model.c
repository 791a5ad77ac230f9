/* SPDX-License-Identifier: MIT */

/*
 * lib/pattern/breaker.c: callers, results that come late, operators and the
 * listener. The system is a clock, a heap and nothing else.
 *
 * Oracle: of probes one at a time is out, each with a permit of its own; so
 * many failures in a row open the breaker and nothing less does; a result of an
 * earlier state changes nothing; who is refused was not to go through; the
 * listener is told all changes in order, one at a time; each call is counted.
 */

#include "engine.h"
#include "interleave.h"

#include "base/error.h"
#include "pattern/breaker.h"
#include "runner.h"
#include "support.h"
#include "system/system.h"

#include <string.h>

#define PERMITS 16
#define RESET_NS 1000

static troupe_system rt;
static troupe_breaker *breaker;

/* Plain: looked at between two steps. */
static struct {
    uint32_t probes; /* that are out */
    uint64_t probe_ids[PERMITS];
    uint32_t probe_count;
    uint64_t entered;
    uint64_t refused;
    uint32_t inside; /* the listener */
    troupe_breaker_state last;
    uint64_t told;
} ledger;

static troupe_permit held;

static bool
counts(troupe_status status, int32_t code, void *user)
{
    (void)status;
    (void)user;
    return code != 404;
}

static void
listen(troupe_breaker *which, troupe_breaker_state state, void *user)
{
    (void)user;
    MODEL_ASSERT(which == breaker);
    MODEL_CHECK(ledger.inside++ == 0, "two listen at a time");
    model_note("is told of %d", (int)state);
    MODEL_CHECK(state != ledger.last, "told of %d twice", (int)state);
    ledger.last = state;
    ledger.told++;
    model_step("listens");
    ledger.inside--;
}

static void
begin(uint32_t max_failures)
{
    static uint32_t alive;
    const troupe_breaker_options options = {.size = sizeof options,
        .max_failures = max_failures,
        .reset_ns = RESET_NS,
        .counts = counts,
        .listen = listen};

    model_heap_begin();
    memset(&rt, 0, sizeof rt);
    memset(&ledger, 0, sizeof ledger);
    alive = 1;
    rt.core.heap = model_heap;
    rt.core.alive = &alive;
    rt.is_simulation = true;
    MODEL_ASSERT(troupe_breaker_create(&rt, &options, &breaker) == TROUPE_OK);
}

static void
finish(void)
{
    struct trp_breaker_counts was;

    trp_breaker_read(breaker, &was);
    MODEL_CHECK(
        was.succeeded + was.failed + was.uncounted + was.late == ledger.entered,
        "%u entered", (uint32_t)ledger.entered);
    MODEL_CHECK(was.refused == ledger.refused, "%u refused, %u counted",
        (uint32_t)ledger.refused, (uint32_t)was.refused);
    MODEL_CHECK(was.changes[0] + was.changes[1] + was.changes[2] == ledger.told,
        "told of %u", (uint32_t)ledger.told);
    MODEL_CHECK(ledger.last == troupe_breaker_state_now(breaker),
        "told of %d last, it is %d", (int)ledger.last,
        (int)troupe_breaker_state_now(breaker));
    troupe_breaker_destroy(breaker);
    MODEL_ASSERT(model_heap_live() == 0);
}

static bool
is_probe(troupe_permit permit)
{
    return permit.id % TRP_BREAKER_VERSION == TRP_BREAKER_PROBING;
}

static void
note_probe(uint64_t id)
{
    MODEL_CHECK(ledger.probes++ == 0, "two probes are out");
    for (uint32_t i = 0; i < ledger.probe_count; i++) {
        MODEL_CHECK(ledger.probe_ids[i] != id, "two probes have one permit");
    }
    MODEL_ASSERT(ledger.probe_count < PERMITS);
    ledger.probe_ids[ledger.probe_count++] = id;
}

static bool
enter(troupe_permit *permit)
{
    troupe_status status = troupe_breaker_enter(breaker, permit);

    if (status != TROUPE_OK) {
        MODEL_ASSERT(status == TROUPE_E_OPEN);
        ledger.refused++;
        return false;
    }
    ledger.entered++;
    if (is_probe(*permit)) {
        note_probe(permit->id);
    }
    model_note("enters with %u", (uint32_t)permit->id);
    return true;
}

/* 0 succeeds, 1 fails, 2 fails and does not count. */
static void
leave(troupe_permit permit, uint32_t how)
{
    if (is_probe(permit)) {
        ledger.probes--;
    }
    model_note("leaves %u with %u", (uint32_t)permit.id, how);
    troupe_breaker_leave(breaker, permit,
        how == 0 ? TROUPE_OK : TROUPE_E_FAILED, how == 2 ? 404 : 1);
}

static void
call(uint32_t how)
{
    troupe_permit permit;

    if (enter(&permit)) {
        model_step("calls");
        leave(permit, how);
    }
}

static void
is_in(troupe_breaker_state state)
{
    MODEL_CHECK(troupe_breaker_state_now(breaker) == state, "it is %d, not %d",
        (int)troupe_breaker_state_now(breaker), (int)state);
}

/* Runs the three, or two of them, and waits. */
static void
run(void (*a)(void *), void (*b)(void *), void (*c)(void *))
{
    int first = model_spawn("a", a, NULL);
    int second = model_spawn("b", b, NULL);
    int third = c != NULL ? model_spawn("c", c, NULL) : -1;

    model_join(first);
    model_join(second);
    if (c != NULL) {
        model_join(third);
    }
}

/* Open, and its time is up; nothing more takes so long. */
static void
open_and_wait(void)
{
    troupe_breaker_force(breaker, TROUPE_BREAKER_OPEN);
    rt.virtual_ns = RESET_NS;
}

/* --- a row of failures ---------------------------------------------------- */

static void
fail_once(void *user)
{
    (void)user;
    call(1);
}

static void
fail_twice(void *user)
{
    fail_once(user);
    fail_once(user);
}

static void
succeed_once(void *user)
{
    (void)user;
    call(0);
}

/* Each of them counts, and the last one opens. */
static void
row(void)
{
    begin(3);
    run(fail_once, fail_once, fail_once);
    is_in(TROUPE_BREAKER_OPEN);
    MODEL_ASSERT(ledger.told == 1);
    finish();
}

/* A success may come between, or not. It leaves nothing behind. */
static void
broken_row(void)
{
    begin(2);
    run(fail_twice, succeed_once, NULL);
    if (troupe_breaker_state_now(breaker) == TROUPE_BREAKER_CLOSED) {
        fail_twice(NULL);
    }
    is_in(TROUPE_BREAKER_OPEN);
    MODEL_ASSERT(ledger.told == 1);
    finish();
}

/* --- probes --------------------------------------------------------------- */

static void
call_somehow(void *user)
{
    (void)user;
    call(model_choose(3));
}

static void
call_somehow_twice(void *user)
{
    call_somehow(user);
    call_somehow(user);
}

static void
probe(void)
{
    begin(1);
    open_and_wait();
    run(call_somehow, call_somehow, call_somehow);
    finish();
}

static void
probe_again(void)
{
    begin(2);
    open_and_wait();
    run(call_somehow_twice, call_somehow_twice, NULL);
    finish();
}

/* Whoever goes through when a probe has closed it counts from nought. */
static void
fail_after_probe(void *user)
{
    troupe_permit permit;

    (void)user;
    while (!enter(&permit)) {
        model_relax("waits for the probe");
    }
    if (is_probe(permit)) {
        leave(permit, 0);
        return;
    }
    leave(permit, 1);
    is_in(TROUPE_BREAKER_OPEN);
}

static void
close_and_fail(void)
{
    begin(1);
    open_and_wait();
    run(fail_after_probe, fail_after_probe, NULL);
    finish();
}

/* --- late results --------------------------------------------------------- */

static void
leave_late(void *user)
{
    (void)user;
    leave(held, model_choose(2));
}

static void
probe_twice(void *user)
{
    troupe_permit permit;
    uint32_t how = model_choose(2);

    (void)user;
    for (uint32_t i = 0; i < 2; i++) {
        MODEL_CHECK(enter(&permit) && is_probe(permit), "refused");
        leave(permit, i == 0 ? 2 : how);
    }
    is_in(how == 0 ? TROUPE_BREAKER_CLOSED : TROUPE_BREAKER_OPEN);
}

/* What the late one does makes no difference to the other. */
static void
late(void)
{
    begin(1);
    MODEL_ASSERT(enter(&held));
    open_and_wait();
    run(leave_late, probe_twice, NULL);
    finish();
}

static void
leave_failed(void *user)
{
    (void)user;
    leave(held, 1);
}

static void
force_closed(void *user)
{
    (void)user;
    troupe_breaker_force(breaker, TROUPE_BREAKER_CLOSED);
}

/* The probe fails before that, or too late. */
static void
forced(void)
{
    begin(1);
    open_and_wait();
    MODEL_ASSERT(enter(&held) && is_probe(held));
    run(leave_failed, force_closed, NULL);
    is_in(TROUPE_BREAKER_CLOSED);
    finish();
}

/* --- refused -------------------------------------------------------------- */

static void
close_and_open(void *user)
{
    (void)user;
    troupe_breaker_force(breaker, TROUPE_BREAKER_CLOSED);
    troupe_breaker_force(breaker, TROUPE_BREAKER_OPEN);
}

/*
 * Until it is closed this one probes. Refused, it has seen the breaker opened
 * again: it cannot see it closed afterwards.
 */
static void
enter_twice(void *user)
{
    troupe_permit permit;

    (void)user;
    if (enter(&permit)) {
        leave(permit, 2);
        return;
    }
    MODEL_CHECK(
        !enter(&permit), "refused, then through with %u", (uint32_t)permit.id);
}

static void
refused(void)
{
    begin(1);
    open_and_wait();
    run(close_and_open, enter_twice, NULL);
    finish();
}

/* --- the listener --------------------------------------------------------- */

static void
force_open(void *user)
{
    (void)user;
    troupe_breaker_force(breaker, TROUPE_BREAKER_OPEN);
    troupe_breaker_force(breaker, TROUPE_BREAKER_CLOSED);
}

static void
force_half_open(void *user)
{
    (void)user;
    troupe_breaker_force(breaker, TROUPE_BREAKER_HALF_OPEN);
}

static void
told(void)
{
    begin(1);
    run(force_open, force_half_open, force_open);
    finish();
}

int
main(int argc, char **argv)
{
    static const struct model_scenario scenarios[] = {
        {"row", row, 50},
        {"broken_row", broken_row, 50},
        {"probe", probe, 100},
        {"probe_again", probe_again, 100},
        {"close_and_fail", close_and_fail, 50},
        {"late", late, 50},
        {"forced", forced, 20},
        {"refused", refused, 50},
        {"told", told, 50},
    };

    model_thread_local(&trp_thread, sizeof trp_thread);
    return model_main(argc, argv, "breaker", scenarios,
        sizeof scenarios / sizeof scenarios[0]);
}
