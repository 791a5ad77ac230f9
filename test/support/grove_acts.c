/* SPDX-License-Identifier: MIT */
#include "support/grove_inside.h"

#include <stdlib.h>

/* --- a ledger of watches -------------------------------------------------- */

static struct due_notice *
due_of(struct node *node, troupe_ref whom)
{
    for (uint32_t i = 0; i < MOST_LEDGER; i++) {
        if (node->ledger[i].due != DUE_NO &&
            troupe_ref_equal(node->ledger[i].whom, whom)) {
            return &node->ledger[i];
        }
    }
    return NULL;
}

/* What has died with its stash was told, but is not heard of any more. */
static void
bury_stashed(struct node *node)
{
    for (uint32_t i = 0; i < MOST_LEDGER; i++) {
        if (node->ledger[i].due == DUE_STASHED) {
            node->ledger[i].due = DUE_NO;
        }
    }
}

static void
put_back_stashed(struct node *node, bool all)
{
    for (uint32_t i = 0; i < MOST_LEDGER; i++) {
        if (node->ledger[i].due == DUE_STASHED) {
            node->ledger[i].due = all ? DUE_YES : DUE_MAYBE;
        }
    }
}

void
grove_ledger_begin(struct being *being)
{
    struct node *node = being->node;

    if (node->ledger_key != troupe_ref_key(being->self)) {
        node->ledger_key = troupe_ref_key(being->self);
        for (uint32_t i = 0; i < MOST_LEDGER; i++) {
            node->ledger[i].due = DUE_NO;
        }
    }
}

void
grove_watch_one(troupe_self *self, struct being *being, troupe_ref whom)
{
    struct node *node = being->node;
    struct due_notice *due = due_of(node, whom);
    troupe_status status;

    for (uint32_t i = 0; due == NULL && i < MOST_LEDGER; i++) {
        due = node->ledger[i].due == DUE_NO ? &node->ledger[i] : NULL;
    }
    if (due == NULL) {
        return;
    }
    status = troupe_watch(self, whom);
    /* Itself, or one that has not been there. */
    CHECK(node->grove,
        (status == TROUPE_E_INVALID) ==
            (troupe_ref_is_none(whom) || troupe_ref_equal(whom, being->self)));
    CHECK(node->grove, status == TROUPE_OK || status == TROUPE_E_INVALID);
    if (status == TROUPE_OK && due->due == DUE_NO) {
        *due = (struct due_notice){whom, DUE_YES};
    }
}

static void
unwatch_one(troupe_self *self, struct being *being, troupe_ref whom)
{
    struct due_notice *due = due_of(being->node, whom);

    CHECK(being->grove, troupe_unwatch(self, whom) == TROUPE_OK);
    if (due != NULL) {
        due->due = DUE_NO;
    }
}

void
grove_hear(struct being *being, const troupe_exit *end)
{
    struct due_notice *due = due_of(being->node, end->actor);

    CHECK(being->grove, due != NULL);
    due->due = DUE_NO;
}

void
grove_check_ledger(const struct grove *grove, const struct node *node)
{
    for (uint32_t i = 0; i < MOST_LEDGER; i++) {
        CHECK(grove, node->ledger[i].due != DUE_YES ||
                         troupe_depth(grove->system, node->ledger[i].whom) !=
                             TROUPE_DEPTH_DEAD);
    }
}

void
grove_being_ends(struct being *being, bool restarts)
{
    /* All continuations have run. */
    CHECK(being->grove, being->open == 0 && !being->is_awaiting);
    if (restarts) {
        bury_stashed(being->node);
    }
}

/* --- the stash ------------------------------------------------------------ */

bool
grove_stash(troupe_self *self, struct being *being, const troupe_exit *notice)
{
    struct due_notice *due =
        notice != NULL ? due_of(being->node, notice->actor) : NULL;
    uint32_t before = troupe_stash_length(self);
    troupe_status status;

    CHECK(being->grove, notice == NULL || due != NULL);
    if (being->is_away) {
        return false;
    }
    status = troupe_stash(self);
    CHECK(being->grove, status == TROUPE_OK || status == TROUPE_E_LIMIT);
    CHECK(being->grove,
        troupe_stash_length(self) == before + (status == TROUPE_OK ? 1 : 0));
    being->is_away = status == TROUPE_OK;
    if (being->is_away && due != NULL) {
        due->due = DUE_STASHED;
    }
    return being->is_away;
}

static void
unstash(troupe_self *self, struct being *being, uint32_t limit)
{
    troupe_status status = troupe_unstash(self, limit);

    CHECK(being->grove, status == TROUPE_OK || status == TROUPE_E_FULL);
    CHECK(being->grove,
        status != TROUPE_OK || limit != 0 || troupe_stash_length(self) == 0);
    put_back_stashed(being->node, status == TROUPE_OK && limit == 0);
}

void
grove_drain_stash(troupe_self *self, struct being *being)
{
    /* After all others, in order of importance too. */
    const struct leaf again = {being->grove, AGAIN, UNRANKABLE};

    if (troupe_stash_length(self) == 0) {
        return;
    }
    /*
     * What is put back may be dropped for want of a token, or be a notice that
     * nobody waits for any more: a message that is handled says go on.
     */
    CHECK(being->grove, troupe_throttle(self, NULL) == TROUPE_OK);
    unstash(self, being, grove_draw(being->node, 2));
    if (troupe_stash_length(self) != 0 && !being->goes_on) {
        being->goes_on = true;
        atomic_fetch_add(&being->grove->made, 1);
        troupe_tell(self, being->self, &kept_type, &again);
    }
}

static void
clear_stash(troupe_self *self, struct being *being)
{
    troupe_stash_clear(self);
    CHECK(being->grove, troupe_stash_length(self) == 0);
    bury_stashed(being->node);
}

/* --- timers --------------------------------------------------------------- */

static uint64_t
draw_delay(struct node *node)
{
    static const uint64_t some[] = {
        0, TROUPE_US(10), TROUPE_US(100), TROUPE_US(700), TROUPE_MS(2)};

    return some[grove_draw(node, 5)];
}

/* What it brings is work, once. */
static void
start_working_timer(troupe_self *self, struct being *being, uint64_t key)
{
    struct cargo cargo =
        grove_load(being->node, WORK, grove_draw(being->node, 3));

    if (troupe_timer_once(self, key, cargo.type, &cargo.branch,
            draw_delay(being->node)) == TROUPE_OK) {
        being->timer[key].serial = 0;
    } else {
        grove_unload(being->grove);
    }
}

static void
start_ticking_timer(troupe_self *self, struct being *being, uint64_t key)
{
    struct node *node = being->node;
    const struct knell knell = {
        {1 + atomic_fetch_add(&being->grove->serials, 1), key}, {0}};
    const troupe_msg_type *type =
        grove_draw(node, 2) == 0 ? &tick_type : &knell_type;
    uint64_t delay_ns = draw_delay(node);
    struct clockwork set = {knell.tick.serial,
        troupe_now_ns(being->grove->system) + delay_ns,
        TROUPE_US(50) + draw_delay(node), true};
    troupe_status status;

    switch (grove_draw(node, 3)) {
    case 0:
        set.is_periodic = false;
        status = troupe_timer_once(self, key, type, &knell, delay_ns);
        break;
    case 1:
        status = troupe_timer_fixed_delay(
            self, key, type, &knell, delay_ns, set.interval_ns);
        break;
    default:
        status = troupe_timer_fixed_rate(
            self, key, type, &knell, delay_ns, set.interval_ns);
    }
    CHECK(being->grove, status == TROUPE_OK || status == TROUPE_E_STATE);
    if (status == TROUPE_OK) {
        being->timer[key] = set;
        CHECK(being->grove, troupe_timer_is_active(self, key));
    }
}

static void
cancel_timers(troupe_self *self, struct being *being, uint64_t key)
{
    if (grove_draw(being->node, 4) == 0) {
        troupe_timer_cancel_all(self);
        for (uint32_t i = 0; i < TIMER_KEYS; i++) {
            being->timer[i].serial = 0;
        }
    } else {
        (void)troupe_timer_cancel(self, key);
        being->timer[key].serial = 0;
    }
    CHECK(being->grove, !troupe_timer_is_active(self, key));
    CHECK(being->grove, !troupe_timer_cancel(self, key));
}

static void
change_timers(troupe_self *self, struct being *being)
{
    uint64_t key = grove_draw(being->node, TIMER_KEYS);

    switch (grove_draw(being->node, 4)) {
    case 0:
        start_working_timer(self, being, key);
        break;
    case 1:
        cancel_timers(self, being, key);
        break;
    default:
        start_ticking_timer(self, being, key);
    }
}

static void
set_timeout(troupe_self *self, struct being *being, uint64_t silence_ns)
{
    uint64_t now_ns = troupe_now_ns(being->grove->system);
    troupe_status status = troupe_receive_timeout(self, silence_ns);

    CHECK(being->grove, status == TROUPE_OK || status == TROUPE_E_STATE);
    if (status == TROUPE_OK) {
        being->silence_ns = silence_ns;
        being->active_ns = now_ns;
    }
}

static void
change_timeout(troupe_self *self, struct being *being)
{
    bool on = grove_draw(being->node, 3) != 0;

    set_timeout(self, being,
        on ? TROUPE_US(20) + draw_delay(being->node) : TROUPE_NEVER);
}

/* They go on for ever: enough of it. */
static bool
has_enough(struct being *being)
{
    return ++being->ticks > MOST_TICKS || atomic_load(&being->grove->is_calm);
}

troupe_verdict
grove_tick(troupe_self *self, struct being *being, const struct tick *tick)
{
    struct grove *grove = being->grove;
    struct clockwork *timer = &being->timer[tick->key];
    uint64_t now_ns = troupe_now_ns(grove->system);

    if (!being->node->stashes_ticks) {
        CHECK(grove, tick->serial == timer->serial);
        CHECK(grove, now_ns >= timer->due_ns);
        CHECK(grove,
            troupe_timer_is_active(self, tick->key) == timer->is_periodic);
    }
    timer->due_ns += timer->interval_ns;
    if (!timer->is_periodic) {
        timer->serial = 0;
    }
    if (has_enough(being)) {
        (void)troupe_timer_cancel(self, tick->key);
        timer->serial = 0;
        return TROUPE_CONTINUE;
    }
    if (being->node->stashes_ticks && grove_draw(being->node, 4) == 0) {
        (void)grove_stash(self, being, NULL);
    }
    return grove_draw(being->node, 24) == 0 ? TROUPE_FAILED : TROUPE_CONTINUE;
}

troupe_verdict
grove_silence(troupe_self *self, struct being *being)
{
    CHECK(being->grove, being->node->stashes_ticks ||
                            (being->silence_ns != TROUPE_NEVER &&
                                troupe_now_ns(being->grove->system) >=
                                    being->active_ns + being->silence_ns));
    if (has_enough(being)) {
        set_timeout(self, being, TROUPE_NEVER);
        return TROUPE_CONTINUE;
    }
    if (being->node->stashes_ticks && grove_draw(being->node, 4) == 0) {
        (void)grove_stash(self, being, NULL);
    }
    return grove_draw(being->node, 8) == 0 ? TROUPE_UNHANDLED : TROUPE_CONTINUE;
}

/* --- delayed messages ----------------------------------------------------- */

static void
send_later(troupe_self *self, struct being *being)
{
    struct node *node = being->node;
    struct grove *grove = being->grove;
    struct cargo cargo = grove_load(node, WORK, grove_draw(node, 3));
    troupe_delayed delayed = {0};
    troupe_status status = troupe_send_after(self, grove_anybody(node),
        cargo.type, &cargo.branch, draw_delay(node), &delayed);

    if (status != TROUPE_OK) {
        CHECK(grove, status == TROUPE_E_CLOSED || status == TROUPE_E_STATE ||
                         status == TROUPE_E_INVALID);
        grove_unload(grove);
        return;
    }
    atomic_store(&grove->delayed[grove_draw(node, MOST_DELAYED)], delayed.id);
}

/* --- operations ----------------------------------------------------------- */

struct question {
    struct grove *grove;
    struct being *being;
    uint64_t key;
    bool has_answer;
    bool is_awaited;
};

static bool
is_over(troupe_status status)
{
    return status == TROUPE_E_CANCELLED || status == TROUPE_E_CLOSED;
}

static bool
is_outcome(troupe_status status)
{
    return is_over(status) || status == TROUPE_OK ||
           status == TROUPE_E_FAILED || status == TROUPE_E_TIMEOUT ||
           status == TROUPE_E_DEAD || status == TROUPE_E_FULL;
}

static void
take_answer(troupe_self *self, struct being *being)
{
    troupe_msg *mine = NULL;

    switch (grove_draw(being->node, 4)) {
    case 0:
        troupe_forward(self, grove_anybody(being->node));
        break;
    case 1:
        if (troupe_take(self, &mine) == TROUPE_OK) {
            troupe_tell_msg(self, grove_anybody(being->node), mine);
        }
        break;
    default:
        break;
    }
}

static troupe_verdict
on_end(troupe_self *self, void *state, const troupe_result *result, void *user)
{
    struct being *being = state;
    struct question *question = user;
    struct grove *grove = question->grove;

    grove_check_state(self, being);
    CHECK(grove, question->being == being);
    CHECK(grove, question->key == troupe_ref_key(being->self));
    CHECK(grove, is_outcome(result->status));
    CHECK(grove, (result->msg != NULL) ==
                     (result->status == TROUPE_OK && question->has_answer));
    CHECK(grove, being->open > 0);
    being->open--;
    atomic_fetch_add(&grove->ended, 1);
    if (question->is_awaited) {
        CHECK(grove, being->is_awaiting);
        being->is_awaiting = false;
    }
    free(question);
    if (is_over(result->status) || atomic_load(&grove->is_calm)) {
        return TROUPE_CONTINUE;
    }
    if (result->msg != NULL) {
        CHECK(grove, grove_leaf_of(result->msg)->what == ANSWER);
        take_answer(self, being);
    }
    return grove_draw(being->node, 16) == 0 ? TROUPE_FAILED : TROUPE_CONTINUE;
}

static uint64_t
draw_timeout(struct node *node)
{
    /* Who may be stopped may wait for ever. */
    return node->grove->kind == GROVE_MORTAL && grove_draw(node, 4) == 0
               ? TROUPE_FOREVER
               : TROUPE_US(30) + draw_delay(node);
}

static troupe_status
begin(troupe_self *self, struct being *being, troupe_continuation then,
    struct question *question, troupe_ticket *ticket)
{
    struct node *node = being->node;
    /* Two that wait for each other would do so for ever. */
    bool is_sure = !question->is_awaited && grove_draw(node, 2) == 0;
    struct cargo cargo;
    troupe_status status;

    switch (grove_draw(node, being->grove->kind == GROVE_MORTAL ? 8 : 7)) {
    case 0:
        return troupe_sleep(self, draw_delay(node), then, ticket);
    case 7:
        return troupe_stop_gracefully(
            self, grove_anybody(node), draw_delay(node), then, ticket);
    default:
        question->has_answer = true;
        cargo = grove_load(node, is_sure ? SURE : ASK, grove_draw(node, 3));
        status =
            troupe_ask(self, grove_anybody(node), cargo.type, &cargo.branch,
                is_sure ? TROUPE_FOREVER : draw_timeout(node), then, ticket);
        if (status != TROUPE_OK) {
            grove_unload(being->grove);
        }
        return status;
    }
}

/* True: it awaits the answer. */
static bool
ask(troupe_self *self, struct being *being, troupe_verdict *verdict)
{
    struct question *question = malloc(sizeof *question);
    bool awaits = grove_draw(being->node, 3) == 0;
    troupe_ticket ticket = {0};
    troupe_status status;

    test_require(question != NULL);
    *question = (struct question){
        being->grove, being, troupe_ref_key(being->self), false, awaits};
    status =
        begin(self, being, troupe_then(on_end, question), question, &ticket);
    CHECK(being->grove, status == TROUPE_OK || status == TROUPE_E_STATE ||
                            status == TROUPE_E_INVALID);
    if (status == TROUPE_OK) {
        being->open++;
        being->ticket = ticket;
        being->is_awaiting = awaits;
        atomic_fetch_add(&being->grove->begun, 1);
    } else {
        free(question);
    }
    if (awaits) {
        *verdict = troupe_await(self, status, &ticket);
    }
    return awaits;
}

static void
cancel_last(troupe_self *self, struct being *being)
{
    troupe_status status = troupe_cancel(self, being->ticket);

    CHECK(being->grove, status == TROUPE_OK || status == TROUPE_E_MISSING ||
                            (status == TROUPE_E_INVALID && being->open == 0));
}

static void
send_on(troupe_self *self, struct being *being)
{
    troupe_ref sender = troupe_sender(self);
    troupe_msg *mine;

    if (troupe_take(self, &mine) != TROUPE_OK) {
        return;
    }
    being->is_away = true;
    if (troupe_send_msg_from(self, grove_anybody(being->node), mine, sender) !=
        TROUPE_OK) {
        troupe_msg_free(mine);
        troupe_post_failure(being->grove->system, sender, 1);
    }
}

void
grove_answer(
    troupe_self *self, struct being *being, uint32_t what, uint32_t hops)
{
    struct node *node = being->node;
    uint32_t how =
        atomic_load(&being->grove->is_calm) ? 7 : grove_draw(node, 8);
    struct cargo cargo;

    if (how == 0 && what == ASK) {
        return; /* never */
    }
    if (how == 1) {
        troupe_reply_failure(self, 1 + (int32_t)grove_draw(node, 4));
    } else if (how == 2) {
        troupe_forward(self, grove_anybody(node));
        being->is_away = true;
    } else if (how == 3 && hops > 0) {
        send_on(self, being);
    } else {
        cargo = grove_load(node, ANSWER, 0);
        troupe_reply(self, cargo.type, &cargo.branch);
    }
}

/* --- one of them ---------------------------------------------------------- */

static void
change_throttle(troupe_self *self, struct being *being)
{
    troupe_throttle_options options = TROUPE_INIT(troupe_throttle_options);
    struct node *node = being->node;
    troupe_status status;

    options.per_second = 2e4;
    options.burst = grove_draw(node, 3);
    options.on_excess =
        grove_draw(node, 2) == 0 ? TROUPE_EXCESS_PAUSE : TROUPE_EXCESS_DROP;
    status = troupe_throttle(self, grove_draw(node, 3) == 0 ? NULL : &options);
    CHECK(being->grove, status == TROUPE_OK);
}

static void
tell_some(troupe_self *self, struct being *being)
{
    const struct branch branch = {{being->grove, WORK, 0}, {0}};
    troupe_ref to[3];

    for (int i = 0; i < 3; i++) {
        to[i] = grove_anybody(being->node);
    }
    atomic_fetch_add(&being->grove->made, 1);
    (void)troupe_tell_many(self, to, 3, &shared_type, &branch);
}

static void
send_one(troupe_self *self, struct being *being, uint32_t hops)
{
    struct cargo cargo = grove_load(being->node, WORK, hops);
    troupe_status status = troupe_send(
        self, grove_anybody(being->node), cargo.type, &cargo.branch);

    if (status != TROUPE_OK) {
        CHECK(being->grove,
            status == TROUPE_E_FULL || status == TROUPE_E_DEAD ||
                status == TROUPE_E_CLOSED || status == TROUPE_E_INVALID);
        grove_unload(being->grove);
    }
}

bool
grove_act(troupe_self *self, struct being *being, uint32_t hops,
    troupe_verdict *verdict)
{
    struct node *node = being->node;

    switch (grove_draw(node, 16)) {
    case 0:
    case 1:
        change_timers(self, being);
        return false;
    case 2:
        change_timeout(self, being);
        return false;
    case 3:
        send_later(self, being);
        return false;
    case 4:
        (void)troupe_delayed_cancel(being->grove->system,
            (troupe_delayed){atomic_exchange(
                &being->grove->delayed[grove_draw(node, MOST_DELAYED)], 0)});
        return false;
    case 5:
    case 6:
        *verdict = grove_draw(node, 16) == 0 ? TROUPE_FAILED : TROUPE_CONTINUE;
        return grove_stash(self, being, NULL);
    case 7:
        unstash(self, being, grove_draw(node, 3));
        return false;
    case 8:
        if (grove_draw(node, 4) == 0) {
            clear_stash(self, being);
        }
        return false;
    case 9:
        change_throttle(self, being);
        return false;
    case 10:
    case 11:
        return ask(self, being, verdict);
    case 12:
        if (being->ticket.id != 0) {
            cancel_last(self, being);
        }
        return false;
    case 13:
        unwatch_one(self, being, grove_anybody(node));
        return false;
    case 14:
        tell_some(self, being);
        return false;
    default:
        send_one(self, being, hops);
        return false;
    }
}
