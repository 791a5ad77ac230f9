/* SPDX-License-Identifier: MIT */
#include "actor/turn.h"

#include "actor/mailbox.h"
#include "actor/op.h"
#include "actor/park.h"
#include "actor/restart.h"
#include "actor/rules.h"
#include "actor/stop.h"
#include "actor/supervise.h"
#include "actor/timers.h"
#include "actor/watch.h"
#include "base/clock.h"
#include "base/cpu.h"

/*
 * Data path 6 of 6: handle. From sched/worker.c; a send in a behaviour goes
 * back to actor/send.c.
 *
 * A turn belongs to one worker and has S of the cell. It handles messages until
 * the mailbox is empty (S is cleared by the CAS that finds it so), until the
 * throughput is used up (the cell goes to the end of the yield queue, S stays)
 * or until the actor stops. After S is given away nothing of the cell may be
 * touched: another worker may run it, or have freed it.
 */

/* Continuations in a row before others have their turn. */
#define THEN_MOST 64u
/* What a turn may take before its length is changed. */
#define SHORT_NS 5000
#define LONG_NS 20000
/* Rests for a sender between its claim and its write: about 1 us. */
#define STALL_RESTS 40
/* Failures of children that are answered in one go. */
#define ANSWERS_MOST 64

struct turn {
    struct troupe_self *self;
    struct trp_core *core;
    struct trp_local *local;
    struct trp_cell *cell;
    struct trp_cold *cold;
    void *state;
    struct trp_cursor cursor;
    uint32_t first; /* head at the beginning: whether it wrapped */
    bool active;    /* handled something; of an actor with a timeout */
};

enum next { NEXT_GO_ON, NEXT_GONE };

/* Handles no messages; what it waits for comes with L. */
#define WAITING (TRP_CELL_SUSPENDED | TRP_CELL_AWAITING)
/* Looks up before the first message. */
#define UNUSUAL (TRP_CELL_STARTING | TRP_CELL_STOPPING | WAITING)
/* Has another loop than most. */
#define SLOWER (TRP_CELL_RULED | TRP_CELL_TIMEOUT)
/* Decided when their turn has come; may come to nothing. */
#define VOIDABLE (TRP_MARK_NOTICE | TRP_MARK_TIMER)

/* Before S is given away: what others may read is brought up to date. */
static void
book(struct turn *turn)
{
    if (TRP_UNLIKELY(turn->cursor.head < turn->first)) {
        trp_count(&turn->cold->wraps, 1);
    }
    turn->first = turn->cursor.head;
}

/* Before S is given away: since when an actor with a timeout is silent. */
static void
rest(struct turn *turn)
{
    if (turn->active && (trp_cell_flags(turn->cell) & TRP_CELL_TIMEOUT) != 0) {
        trp_timers_rest(turn->core, turn->cell);
    }
    turn->active = false;
}

static enum next
end_actor(struct turn *turn, troupe_exit_kind kind, int32_t code)
{
    book(turn);
    trp_stop_begin(turn->self, turn->cell, kind, code);
    trp_stop_continue(turn->self, turn->cell, &turn->cursor);
    return NEXT_GONE;
}

static void
set_flag(struct turn *turn, uint32_t flag, bool on)
{
    uint32_t flags = trp_cell_flags(turn->cell);

    trp_cell_set_flags(turn->cell, on ? flags | flag : flags & ~flag);
}

static bool
has_flag(const struct turn *turn, uint32_t flag)
{
    return (trp_cell_flags(turn->cell) & flag) != 0;
}

/* Stopped by somebody; if it has failed before, that is what is told. */
static enum next
end_stopped(struct turn *turn)
{
    if (has_flag(turn, TRP_CELL_FAILED)) {
        const troupe_exit *cause = trp_failure_cause(turn->core, turn->cell);

        return end_actor(turn, cause->kind, cause->code);
    }
    return end_actor(turn, TROUPE_EXIT_STOPPED, 0);
}

/* Its parent decides; nobody left to decide, or no memory: it ends. */
static enum next
mark_failed(struct turn *turn, troupe_exit_kind kind, int32_t code)
{
    return trp_failure_report(turn->self, turn->cell, kind, code)
               ? NEXT_GO_ON
               : end_actor(turn, kind, code);
}

static enum next
start_actor(struct turn *turn)
{
    struct troupe_self *self = turn->self;
    struct trp_cold *cold = turn->cold;
    /* relaxed: constant in a life. */
    const troupe_actor_type *type = trp_load_relaxed(&cold->type);
    struct trp_extra *extra =
        trp_load_acquire(&cold->extra); /* pairs: cell.extra */
    troupe_status status;

    set_flag(turn, TRP_CELL_STARTING, false);
    self->code_is_set = false;
    status = type->start(self, turn->state, extra != NULL ? extra->arg : NULL);
    if (status != TROUPE_OK) {
        return mark_failed(turn, TROUPE_EXIT_START_FAILED,
            self->code_is_set ? self->code : (int32_t)status);
    }
    set_flag(turn, TRP_CELL_STARTED, true);
    return NEXT_GO_ON;
}

/* What its parent has told it. */
static enum next
obey(struct turn *turn)
{
    struct trp_cell *cell = turn->cell;
    uint8_t orders =
        trp_and_acq_rel(&cell->orders, TRP_ORDER_HOLD); /* pairs: cell.orders */
    bool held = (orders & TRP_ORDER_HOLD) != 0;

    if ((orders & TRP_ORDER_STOP) != 0) {
        return end_stopped(turn);
    }
    if ((orders & TRP_ORDER_RESTART) != 0) {
        trp_restart_begin(turn->self, cell);
    }
    if ((orders & TRP_ORDER_RESUME) != 0 &&
        !has_flag(turn, TRP_CELL_RESTARTING)) {
        if (has_flag(turn, TRP_CELL_FAILED) &&
            trp_failure_cause(turn->core, cell)->kind ==
                TROUPE_EXIT_START_FAILED) {
            return end_stopped(turn); /* no state that it could go on with */
        }
        set_flag(turn, TRP_CELL_FAILED, false);
    }
    if (held != has_flag(turn, TRP_CELL_HELD) ||
        (orders & TRP_ORDER_RESUME) != 0) {
        set_flag(turn, TRP_CELL_HELD, held);
        trp_order_children(turn->core, turn->local, cell,
            held ? TRP_ORDER_HOLD : TRP_ORDER_RESUME,
            held ? 0 : TRP_ORDER_HOLD);
    }
    return NEXT_GO_ON;
}

/*
 * The failures of its children, a few at a time: others have their turn, and a
 * stop is seen, while children fail for ever. An escalated one is its own,
 * unless what comes of it is on its way already.
 */
static enum next
supervise(struct turn *turn)
{
    troupe_exit cause;

    for (uint32_t i = 0; i < ANSWERS_MOST; i++) {
        switch (trp_failure_answer(turn->self, turn->cell, &cause)) {
        case TRP_ANSWER_NONE:
            return NEXT_GO_ON;
        case TRP_ANSWER_GIVEN:
            break;
        case TRP_ANSWER_ESCALATE:
            if (trp_cell_kind(turn->cell) == TRP_KIND_GUARDIAN) {
                turn->core->on_root_failed(turn->core, &cause);
            } else if (!has_flag(turn, TRP_CELL_FAILED | TRP_CELL_RESTARTING) &&
                       mark_failed(turn, TROUPE_EXIT_FAILED, cause.code) ==
                           NEXT_GONE) {
                return NEXT_GONE;
            }
            break;
        }
    }
    return NEXT_GO_ON;
}

/* All but requests to stop. NEXT_GONE: it has ended. */
static enum next
look_at_family(struct turn *turn)
{
    /* relaxed: a look; an order comes with L, after it. */
    if (trp_load_relaxed(&turn->cell->orders) != 0 ||
        has_flag(turn, TRP_CELL_HELD)) {
        if (obey(turn) == NEXT_GONE) {
            return NEXT_GONE;
        }
    }
    if (supervise(turn) == NEXT_GONE) {
        return NEXT_GONE;
    }
    if (has_flag(turn, TRP_CELL_RESTARTING)) {
        trp_restart_continue(turn->self, turn->cell);
    }
    if (has_flag(turn, TRP_CELL_STARTING) &&
        !has_flag(turn, TRP_CELL_SUSPENDED)) {
        return start_actor(turn);
    }
    return NEXT_GO_ON;
}

/* The turn ends here; the next one begins with a look. */
static void
look_again_later(struct turn *turn)
{
    book(turn);
    trp_cursor_publish(&turn->cursor, &turn->cell->ring);
    (void)trp_mailbox_request(
        turn->core, turn->local, turn->self->ref, TRP_RING_SIGNAL);
    trp_submit_last(turn->self->worker, &turn->cell->task);
}

static enum next run_ops(struct turn *turn, struct trp_asker *asker);

/*
 * K or L is set, or the actor is new, stopping, suspended or awaits something.
 * It goes on when it may handle messages.
 */
__attribute__((noinline)) static enum next
look_up(struct turn *turn)
{
    struct trp_ring *ring = &turn->cell->ring;
    bool can_park = false;
    uint32_t flags;
    uint64_t word;

again:
    if (can_park) {
        trp_park_look(turn->cell);
    }
    /*
     * relaxed: before the word is read, which orders it. A request that the
     * word does not show yet sets it again.
     */
    trp_store_relaxed(&turn->cold->look, 0);
    word = trp_and_acq_rel(&ring->word, /* pairs: ring.claim */
        ~(TRP_RING_KILL | TRP_RING_SIGNAL));
    flags = trp_cell_flags(turn->cell); /* after: L may be about them */
    if ((flags & TRP_CELL_STOPPING) != 0) {
        book(turn);
        if ((word & TRP_RING_CLOSED) == 0) { /* a guardian: others began it */
            trp_ring_close(ring);            /* and it has no rules */
        }
        trp_stop_continue(turn->self, turn->cell, &turn->cursor);
        return NEXT_GONE;
    }
    if ((word & TRP_RING_KILL) != 0) {
        return end_stopped(turn);
    }
    if (look_at_family(turn) == NEXT_GONE) {
        return NEXT_GONE;
    }
    if (trp_failures_wait(turn->core, turn->cell)) {
        look_again_later(turn);
        return NEXT_GONE;
    }
    if (!has_flag(turn, TRP_CELL_SUSPENDED)) {
        struct trp_asker *asker = trp_asker_of(turn->core, turn->cell);

        if (asker != NULL && run_ops(turn, asker) == NEXT_GONE) {
            return NEXT_GONE;
        }
    }
    if (!has_flag(turn, WAITING)) {
        return NEXT_GO_ON;
    }
    rest(turn);
    book(turn);
    trp_cursor_publish(&turn->cursor, ring);
    if (can_park && trp_park(turn->cell)) {
        return NEXT_GONE;
    }
    can_park = true; /* or it was told something meanwhile */
    goto again;
}

/* A message was one too many. */
static enum next
fail(struct turn *turn, int32_t code)
{
    return mark_failed(turn, TROUPE_EXIT_FAILED, code) == NEXT_GONE
               ? NEXT_GONE
               : look_up(turn);
}

/* An unhandled death notice, of one who wants to die of it. */
static bool
is_death_pact(const struct turn *turn, const troupe_msg *view)
{
    struct trp_extra *extra;

    if (troupe_msg_tag(view) != TROUPE_TAG_DOWN) {
        return false;
    }
    extra = trp_load_acquire(&turn->cold->extra); /* pairs: cell.extra */
    return extra != NULL && (extra->actor_flags & TROUPE_ACTOR_DEATH_PACT) != 0;
}

static void
leave_unhandled(struct turn *turn, const troupe_msg *view)
{
    struct troupe_self *self = turn->self;

    if ((self->current.spent & TRP_SPENT_TAKEN) == 0) {
        trp_count(&turn->local->books.handled, UINT64_MAX);
        trp_dead_letter(turn->core, turn->local,
            trp_cell_ref(turn->core, turn->cell), view,
            trp_item_box_or_null(self->current.item), TROUPE_DEAD_UNHANDLED);
    }
}

/* It may be the end: what the message held has gone, or owned nothing. */
TRP_COLD static enum next
judge(struct turn *turn, troupe_verdict verdict, const troupe_msg *view)
{
    struct troupe_self *self = turn->self;

    if ((uint32_t)verdict == TRP_VERDICT_AWAIT) {
        struct trp_op *op = trp_op_find(self, self->awaits);

        if (op != NULL) {
            trp_op_await(self, op);
            return NEXT_GO_ON;
        }
    }
    switch (verdict) {
    case TROUPE_CONTINUE:
        return NEXT_GO_ON;
    case TROUPE_UNHANDLED:
        if (is_death_pact(turn, view)) {
            return fail(turn, (int32_t)TROUPE_E_DEAD);
        }
        leave_unhandled(turn, view);
        return NEXT_GO_ON;
    case TROUPE_DONE:
        return end_actor(turn, TROUPE_EXIT_DONE, 0);
    case TROUPE_FAILED:
        return fail(turn, self->code_is_set ? self->code : 0);
    }
    return fail(turn, (int32_t)TROUPE_E_INVALID);
}

/* What the item holds goes, and the watch whose notice it is. */
static void
settle(struct turn *turn, struct trp_item *item, struct trp_watching *watching)
{
    trp_item_settle(turn->local, item, turn->self->current.spent);
    if (watching != NULL) {
        trp_watch_settle(turn->core, turn->local, watching);
    }
}

/* False: what may come to nothing has done so, and was counted. */
static bool
show(struct turn *turn, struct trp_item *item, struct trp_watching **watching,
    struct trp_timer **ticking)
{
    if ((item->mark & TRP_MARK_TIMER) != 0) {
        return trp_timer_begin(turn->self, item, turn->active, ticking);
    }
    if ((item->mark & TRP_MARK_NOTICE) != 0) {
        *watching = trp_watching_of(turn->core, turn->cell);
        return trp_watch_show(turn->core, turn->local, *watching, item);
    }
    return true;
}

/* What is left of a message goes, and its handler's word is heeded. */
TRP_INLINE enum next
conclude(struct turn *turn, struct trp_item *item,
    struct trp_watching *watching, troupe_verdict verdict, troupe_msg *view)
{
    if (TRP_UNLIKELY(
            verdict == TROUPE_UNHANDLED && !is_death_pact(turn, view))) {
        if ((turn->self->current.spent & TRP_SPENT_MOVED) != 0) {
            view->payload = NULL; /* somebody else's now */
            view->bytes = 0;
        }
        leave_unhandled(turn, view); /* shows the payload */
        verdict = TROUPE_CONTINUE;
    }
    if (TRP_UNLIKELY(watching != NULL ||
                     (item->mark & (TRP_MARK_BOXED | TRP_MARK_DROP)) != 0)) {
        settle(turn, item, watching);
    }
    return TRP_LIKELY(verdict == TROUPE_CONTINUE) ? NEXT_GO_ON
                                                  : judge(turn, verdict, view);
}

/*
 * Continuations of what has ended, before the next message. Called after L was
 * seen, and after a callback that has ended some itself.
 */
__attribute__((noinline)) static enum next
run_ops(struct turn *turn, struct trp_asker *asker)
{
    struct troupe_self *self = turn->self;
    struct trp_op *op;

    for (uint32_t left = THEN_MOST;
         (op = trp_op_next(turn->core, asker, turn->cell)) != NULL; left--) {
        struct trp_outcome outcome;
        troupe_verdict verdict;

        if (TRP_UNLIKELY(left == 0)) {
            trp_op_not_yet(self, op);
            look_again_later(turn);
            return NEXT_GONE;
        }
        trp_op_finish(self, op, false, &outcome);
        verdict = trp_outcome_run(self, turn->state, &outcome);
        if (conclude(turn, &outcome.item, NULL, verdict, outcome.view) ==
            NEXT_GONE) {
            return NEXT_GONE;
        }
        if (trp_ops_are_quiet(asker)) {
            break;
        }
    }
    self->after &= (uint8_t)~TRP_AFTER_OPS;
    return NEXT_GO_ON;
}

/*
 * A boxed or owning message, a question, a death notice, a timer, or a stop
 * that was in line.
 */
__attribute__((noinline)) static enum next
handle_special(struct turn *turn, struct trp_item *item)
{
    struct troupe_self *self = turn->self;
    struct trp_watching *watching = NULL; /* of a notice */
    struct trp_timer *ticking = NULL;     /* that goes on afterwards */
    troupe_verdict verdict;
    troupe_msg view;

    if ((item->mark & TRP_MARK_CONTROL) != 0) {
        trp_count(&turn->local->books.stops, UINT64_MAX);
        trp_count(&turn->local->books.handled,
            UINT64_MAX); /* not a message: in no column of the books */
        return end_actor(turn, TROUPE_EXIT_STOPPED, 0);
    }
    if (!show(turn, item, &watching, &ticking)) {
        trp_count(&turn->local->books.handled, UINT64_MAX);
        return NEXT_GO_ON;
    }
    turn->active = true;
    trp_item_view(item, &view);
    self->current.msg = &view;
    self->current.item = item;
    self->current.spent = 0;
    self->code_is_set = false;
    verdict = self->behaviour(self, turn->state, &view);
    self->current.msg = NULL;
    if (ticking != NULL) {
        trp_timer_ticked(self, ticking); /* before it can be stopped */
    }
    if ((item->mark & TRP_MARK_ASK) != 0 &&
        (self->current.spent & (TRP_SPENT_AWAY | TRP_SPENT_PASSED)) == 0 &&
        trp_promise_is_open(turn->core, view.sender)) {
        (void)trp_op_hold(turn->core, self->ref, view.sender);
    }
    return conclude(turn, item, watching, verdict, &view);
}

TRP_INLINE enum next
handle(struct turn *turn, struct trp_item *item)
{
    struct troupe_self *self = turn->self;
    troupe_verdict verdict;
    troupe_msg view;

    trp_count(&turn->local->books.handled, 1);
    if (TRP_UNLIKELY((item->mark & TRP_MARK_SPECIAL) != 0)) {
        return handle_special(turn, item);
    }
    trp_item_view(item, &view);
    self->current.msg = &view;
    self->current.item = item;
    self->current.spent = 0;
    self->code_is_set = false;
    verdict = self->behaviour(self, turn->state, &view);
    self->current.msg = NULL;
    if (TRP_UNLIKELY(verdict != TROUPE_CONTINUE)) {
        return judge(turn, verdict, &view);
    }
    return NEXT_GO_ON;
}

/* Nothing could be popped. NEXT_GONE: S was given away. */
TRP_INLINE enum next
pause_turn(struct turn *turn)
{
    struct trp_cell *cell = turn->cell;

    book(turn);
    cell->used_up = 0;
    if (TRP_UNLIKELY(turn->cursor.unit != TRP_POOL_NONE)) { /* was deep */
        trp_mailbox_rearm(turn->core, cell);
    }
    for (int rests = 0;; rests++) {
        switch (trp_ring_idle(&turn->cursor, &turn->core->segments,
            &turn->local->segments, &cell->ring, &cell->hint)) {
        case TRP_IDLE_DONE:
            return NEXT_GONE;
        case TRP_IDLE_MORE:
            return NEXT_GO_ON;
        case TRP_IDLE_FLAGS:
            return look_up(turn);
        case TRP_IDLE_STALLED:
            if (rests == STALL_RESTS) {
                trp_submit_stalled(turn->self->worker, &cell->task);
                return NEXT_GONE;
            }
            trp_cpu_relax();
            break;
        }
    }
}

static uint32_t
throughput_of(struct trp_core *core, struct trp_cell *cell)
{
    if (TRP_UNLIKELY((trp_cell_flags(cell) & TRP_CELL_THROUGHPUT) != 0)) {
        return trp_load_acquire(&trp_cold_of(core, cell)->extra)
            ->throughput; /* pairs: cell.extra */
    }
    return core->throughput != 0 ? core->throughput
                                 : UINT32_C(1) << cell->batch;
}

/*
 * Without a throughput of its own an actor gets as many messages per turn as
 * take 5 to 20 us: a sink of small messages keeps up with who fills it, and a
 * slow one does not keep others waiting. Only turns that follow one that was
 * used up are measured, so that it costs nothing per message.
 */
static void
adapt(struct trp_cell *cell, uint64_t began_ns)
{
    uint64_t ran_ns;

    cell->used_up = 1;
    if (began_ns == 0) {
        return;
    }
    ran_ns = trp_clock_ns() - began_ns;
    if (ran_ns < SHORT_NS && cell->batch < TRP_BATCH_MOST) {
        cell->batch++;
    }
    while (ran_ns > LONG_NS && cell->batch > 0) {
        cell->batch--;
        ran_ns /= 2;
    }
}

/*
 * Who sends to itself to go on later lets the others go first: what it does in
 * between may be long, and is not in the count of messages.
 */
static bool
makes_way(struct turn *turn)
{
    return !trp_worker_is_alone(turn->self->worker);
}

/*
 * More than another turn's worth is waiting: a sink that many fill. It gets its
 * next turn after one of those who yielded, instead of after all of them, or
 * its queue would grow by what all of them send.
 */
static bool
is_behind(const struct turn *turn)
{
    struct trp_cell *cell = turn->cell;
    /* relaxed: an estimate. */
    uint64_t word = trp_load_relaxed(&cell->ring.word);
    uint32_t depth = trp_ring_tail(word) - turn->cursor.head;

    if (TRP_UNLIKELY((trp_cell_flags(cell) & TRP_CELL_RULED) != 0)) {
        depth = trp_rules_depth(trp_rules_of(turn->core, cell), depth);
    }
    return depth > UINT32_C(1) << cell->batch;
}

/*
 * A request is seen before the next message. With a long queue the word's line
 * belongs to the senders: then a byte says so that nobody else writes.
 */
TRP_INLINE bool
wants_look(const struct turn *turn)
{
    if (TRP_LIKELY(!trp_cursor_is_lazy(&turn->cursor))) {
        /* relaxed: a look; what it leads to acquires. */
        return (trp_load_relaxed(&turn->cell->ring.word) &
                   (TRP_RING_KILL | TRP_RING_SIGNAL)) != 0;
    }
    return trp_load_acquire(&turn->cold->look) != 0; /* pairs: cell.look */
}

/* The turn is used up. */
static void
end_turn(struct turn *turn, uint64_t began_ns)
{
    struct trp_cell *cell = turn->cell;

    book(turn);
    adapt(cell, began_ns);
    trp_mailbox_rearm(turn->core, cell);
    trp_cursor_publish(&turn->cursor, &cell->ring);
    trp_ring_shrink(&turn->cursor, &turn->core->segments,
        &turn->local->segments, &cell->ring);
    if (is_behind(turn)) {
        trp_submit_deque(turn->self->worker, &cell->task);
    } else {
        trp_submit_last(turn->self->worker, &cell->task);
    }
}

/*
 * After a message: how many more this turn may handle, with that one; 0: the
 * cell is not ours any more.
 */
TRP_COLD static uint32_t
look_after(struct turn *turn, uint32_t left)
{
    uint32_t after = turn->self->after;

    turn->self->after = 0;
    if ((after & TRP_AFTER_OPS) != 0 && look_up(turn) == NEXT_GONE) {
        return 0;
    }
    return (after & TRP_AFTER_SELF) != 0 && makes_way(turn) ? 1 : left;
}

/* Nothing could be popped; `rules` may be NULL. NEXT_GONE as above. */
static enum next
pause_ruled(struct turn *turn, struct trp_rules *rules)
{
    rest(turn);
    trp_mailbox_rearm(turn->core, turn->cell);
    if (rules == NULL || !trp_rules_have_lock(rules)) {
        return pause_turn(turn);
    }
    book(turn);
    turn->cell->used_up = 0;
    if (trp_rules_idle(turn->cell, rules)) {
        return NEXT_GONE;
    }
    return wants_look(turn) ? look_up(turn) : NEXT_GO_ON;
}

/* NEXT_GONE: it waits for a token. */
TRP_COLD static enum next
await_token(struct turn *turn, struct trp_rules *rules)
{
    rest(turn);
    book(turn);
    trp_mailbox_rearm(turn->core, turn->cell);
    if (trp_throttle_park(turn->core, turn->cell, rules)) {
        return NEXT_GONE;
    }
    trp_throttle_begin(turn->core, turn->cell, rules);
    return wants_look(turn) ? look_up(turn) : NEXT_GO_ON;
}

/* Beyond the throttle. */
TRP_COLD static void
drop_excess(struct turn *turn, struct trp_rules *rules, struct trp_item *item)
{
    struct trp_drop drop;

    trp_rules_read_drop(rules, &drop);
    trp_rules_discard(turn->core, turn->local, turn->self->ref, item,
        TROUPE_DROP_THROTTLE, &drop);
}

/*
 * With a token if there is one; without, only what costs none, so that what has
 * to wait does so in its place. ONE and `*excess`: it is to be dropped.
 */
static enum trp_pop
pop_throttled(struct turn *turn, struct trp_rules *rules, struct trp_item *item,
    bool *excess)
{
    bool has_token = trp_throttle_take(turn->core, rules);
    bool may_cost = has_token || rules->drops_excess;
    enum trp_pop got;

    if (!may_cost) {
        return trp_rules_pop_free(turn->cell, rules, &turn->cursor, item);
    }
    got = trp_rules_pop(turn->cell, rules, &turn->cursor, item) ? TRP_POP_ONE
                                                                : TRP_POP_NONE;
    if (got == TRP_POP_NONE || trp_item_is_kept(item)) {
        if (has_token) {
            trp_throttle_give(rules);
        }
    } else {
        *excess = !has_token;
    }
    return got;
}

TRP_INLINE enum trp_pop
pop_ruled(struct turn *turn, struct trp_rules *rules, struct trp_item *item,
    bool *excess)
{
    if (rules == NULL) {
        return trp_ring_pop(&turn->cursor, &turn->cell->ring, item)
                   ? TRP_POP_ONE
                   : TRP_POP_NONE;
    }
    /* relaxed: the owner alone writes it. */
    if (TRP_UNLIKELY(trp_load_relaxed(&rules->is_throttled) != 0)) {
        return pop_throttled(turn, rules, item, excess);
    }
    return trp_rules_pop(turn->cell, rules, &turn->cursor, item) ? TRP_POP_ONE
                                                                 : TRP_POP_NONE;
}

/* The rules of the mailbox, NULL if it has none. A throttle begins its turn. */
static struct trp_rules *
begin_ruled(struct turn *turn)
{
    struct trp_rules *rules = NULL;

    if ((trp_cell_flags(turn->cell) & TRP_CELL_RULED) != 0) {
        rules = trp_rules_of(turn->core, turn->cell);
        trp_throttle_begin(turn->core, turn->cell, rules);
    }
    return rules;
}

/*
 * The same loop as in trp_turn(), where messages lie elsewhere as well, or a
 * receive timeout wants to know when the last one was handled.
 */
__attribute__((noinline)) static void
run_ruled(struct turn *turn, uint32_t left, uint64_t began_ns)
{
    struct trp_rules *rules = begin_ruled(turn);
    struct trp_item item;
    enum trp_pop got;

    for (; left > 0; left--) {
        bool excess = false;

        if (TRP_UNLIKELY(wants_look(turn))) {
            if (look_up(turn) == NEXT_GONE) {
                return;
            }
            rules = rules != NULL ? rules : begin_ruled(turn);
        }
        while ((got = pop_ruled(turn, rules, &item, &excess)) != TRP_POP_ONE) {
            if ((got == TRP_POP_COSTS
                        ? await_token(turn, rules)
                        : pause_ruled(turn, rules)) == NEXT_GONE) {
                return;
            }
            rules = rules != NULL ? rules : begin_ruled(turn);
        }
        if (TRP_UNLIKELY(excess)) {
            drop_excess(turn, rules, &item);
            continue;
        }
        turn->active |= (item.mark & VOIDABLE) == 0;
        if (handle(turn, &item) == NEXT_GONE) {
            return;
        }
        if (turn->self->after != 0) {
            left = look_after(turn, left);
            if (left == 0) {
                return;
            }
            if (rules == NULL) {
                rules = begin_ruled(turn);
            }
        }
    }
    rest(turn);
    end_turn(turn, began_ns);
}

/* A callback has given it rules that it had not: true if that ran the rest. */
static bool
goes_on_ruled(struct turn *turn, uint32_t left, uint64_t began_ns)
{
    if (TRP_LIKELY((trp_cell_flags(turn->cell) & SLOWER) == 0)) {
        return false;
    }
    run_ruled(turn, left, began_ns);
    return true;
}

void
trp_turn(struct trp_worker *worker, struct trp_task *task)
{
    struct trp_cell *cell = TRP_CONTAINER_OF(task, struct trp_cell, task);
    struct trp_local *local = worker->local;
    struct trp_core *core = local->self.core;
    struct turn turn = {.self = &local->self,
        .core = core,
        .local = local,
        .cell = cell,
        .cold = trp_cold_of(core, cell),
        .state = trp_cell_state(cell)};
    struct trp_item item;
    uint32_t left = throughput_of(core, cell);
    uint64_t began_ns = TRP_UNLIKELY(cell->used_up) ? trp_clock_ns() : 0;

    trp_cursor_load(&turn.cursor, &core->segments, &cell->ring);
    turn.first = turn.cursor.head;
    turn.self->cell = cell;
    turn.self->ref = trp_cell_ref(core, cell);
    turn.self->behaviour = cell->behaviour;
    turn.self->current.msg = NULL;
    turn.self->after = 0;
    if (TRP_UNLIKELY((trp_cell_flags(cell) & (UNUSUAL | SLOWER)) != 0)) {
        if ((trp_cell_flags(cell) & UNUSUAL) != 0 &&
            look_up(&turn) == NEXT_GONE) {
            return;
        }
        if ((trp_cell_flags(cell) & SLOWER) != 0) {
            run_ruled(&turn, left, began_ns);
            return;
        }
    }
    for (; left > 0; left--) {
        if (TRP_UNLIKELY(wants_look(&turn)) &&
            (look_up(&turn) == NEXT_GONE ||
                goes_on_ruled(&turn, left, began_ns))) {
            return;
        }
        while (!trp_ring_pop(&turn.cursor, &cell->ring, &item)) {
            if (pause_turn(&turn) == NEXT_GONE ||
                goes_on_ruled(&turn, left, began_ns)) {
                return;
            }
        }
        if (handle(&turn, &item) == NEXT_GONE) {
            return;
        }
        if (TRP_UNLIKELY(turn.self->after != 0)) {
            left = look_after(&turn, left);
            if (left == 0) {
                return;
            }
            if ((trp_cell_flags(cell) & SLOWER) != 0) {
                turn.active = true;
                run_ruled(&turn, left - 1, began_ns);
                return;
            }
        }
    }
    end_turn(&turn, began_ns);
}
