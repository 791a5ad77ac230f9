/* SPDX-License-Identifier: MIT */
#include "actor/turn_more.h"

#include "actor/mailbox.h"
#include "actor/meter.h"
#include "actor/op.h"
#include "actor/park.h"
#include "actor/restart.h"
#include "actor/rules.h"
#include "actor/stop.h"
#include "actor/supervise.h"
#include "actor/watch.h"

/* Continuations in a row before others have their turn. */
#define THEN_MOST 64u
/* Failures of children that are answered in one go. */
#define ANSWERS_MOST 64

static enum trp_next
end_actor(struct trp_turn *turn, troupe_exit_kind kind, int32_t code)
{
    trp_turn_book(turn);
    trp_stop(turn->self, turn->cell, &turn->cursor, kind, code);
    return TRP_NEXT_GONE;
}

static void
set_flag(struct trp_turn *turn, uint32_t flag, bool on)
{
    uint32_t flags = trp_cell_flags(turn->cell);

    trp_cell_set_flags(turn->cell, on ? flags | flag : flags & ~flag);
}

static bool
has_flag(const struct trp_turn *turn, uint32_t flag)
{
    return (trp_cell_flags(turn->cell) & flag) != 0;
}

/* Stopped by somebody; if it has failed before, that is what is told. */
static enum trp_next
end_stopped(struct trp_turn *turn)
{
    if (has_flag(turn, TRP_CELL_FAILED)) {
        const troupe_exit *cause = trp_failure_cause(turn->core, turn->cell);

        return end_actor(turn, cause->kind, cause->code);
    }
    return end_actor(turn, TROUPE_EXIT_STOPPED, 0);
}

/* Its parent decides; nobody left to decide, or no memory: it ends. */
static enum trp_next
mark_failed(struct trp_turn *turn, troupe_exit_kind kind, int32_t code)
{
    return trp_failure_report(turn->self, turn->cell, kind, code)
               ? TRP_NEXT_ON
               : end_actor(turn, kind, code);
}

static enum trp_next
start_actor(struct trp_turn *turn)
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
    if (has_flag(turn, TRP_CELL_UNBORN)) {
        set_flag(turn, TRP_CELL_UNBORN, false);
        trp_count(&turn->local->books.unborn, UINT64_MAX);
    }
    return TRP_NEXT_ON;
}

/* What its parent has told it. */
static enum trp_next
obey(struct trp_turn *turn)
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
    return TRP_NEXT_ON;
}

/*
 * The failures of its children, a few at a time: others have their turn, and a
 * stop is seen, while children fail for ever. An escalated one is its own,
 * unless what comes of it is on its way already.
 */
static enum trp_next
supervise(struct trp_turn *turn)
{
    troupe_exit cause;

    for (uint32_t i = 0; i < ANSWERS_MOST; i++) {
        switch (trp_failure_answer(turn->self, turn->cell, &cause)) {
        case TRP_ANSWER_NONE:
            return TRP_NEXT_ON;
        case TRP_ANSWER_GIVEN:
            break;
        case TRP_ANSWER_ESCALATE:
            if (trp_cell_kind(turn->cell) == TRP_KIND_GUARDIAN) {
                turn->core->on_root_failed(turn->core, &cause);
            } else if (!has_flag(turn, TRP_CELL_FAILED | TRP_CELL_RESTARTING) &&
                       mark_failed(turn, TROUPE_EXIT_FAILED, cause.code) ==
                           TRP_NEXT_GONE) {
                return TRP_NEXT_GONE;
            }
            break;
        }
    }
    return TRP_NEXT_ON;
}

/* All but requests to stop. TRP_NEXT_GONE: it has ended. */
static enum trp_next
look_at_family(struct trp_turn *turn)
{
    /* relaxed: a look; an order comes with L, after it. */
    if (trp_load_relaxed(&turn->cell->orders) != 0 ||
        has_flag(turn, TRP_CELL_HELD)) {
        if (obey(turn) == TRP_NEXT_GONE) {
            return TRP_NEXT_GONE;
        }
    }
    if (supervise(turn) == TRP_NEXT_GONE) {
        return TRP_NEXT_GONE;
    }
    if (has_flag(turn, TRP_CELL_RESTARTING)) {
        trp_restart_continue(turn->self, turn->cell);
    }
    if (has_flag(turn, TRP_CELL_STARTING) &&
        !has_flag(turn, TRP_CELL_SUSPENDED)) {
        return start_actor(turn);
    }
    return TRP_NEXT_ON;
}

/* R5 of rules.h, before S is given away. */
static void
tell_depth(struct trp_turn *turn)
{
    if (has_flag(turn, TRP_CELL_RULED)) {
        trp_rules_tell(trp_rules_of(turn->core, turn->cell), turn->cell,
            turn->cursor.head, false);
    }
}

/* The turn ends here; the next one begins with a look. */
static void
look_again_later(struct trp_turn *turn)
{
    trp_turn_book(turn);
    tell_depth(turn);
    trp_cursor_publish(&turn->cursor, &turn->cell->ring);
    (void)trp_mailbox_request(
        turn->core, turn->local, turn->self->ref, TRP_RING_SIGNAL);
    trp_submit_last(turn->self->worker, &turn->cell->task);
}

static enum trp_next run_ops(struct trp_turn *turn, struct trp_asker *asker);

enum trp_next
trp_turn_look_up(struct trp_turn *turn)
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
    /* K stays until X is there: who looks from outside sees one of them. */
    word =
        trp_and_acq_rel(&ring->word, ~TRP_RING_SIGNAL); /* pairs: ring.claim */
    flags = trp_cell_flags(turn->cell); /* after: L may be about them */
    if ((flags & TRP_CELL_STOPPING) != 0) {
        trp_turn_book(turn);
        if ((word & TRP_RING_CLOSED) == 0) { /* a guardian: others began it */
            trp_ring_close(ring);            /* and it has no rules */
        }
        trp_stop_continue(turn->self, turn->cell, &turn->cursor);
        return TRP_NEXT_GONE;
    }
    if ((word & TRP_RING_KILL) != 0) {
        return end_stopped(turn);
    }
    if (look_at_family(turn) == TRP_NEXT_GONE) {
        return TRP_NEXT_GONE;
    }
    if (trp_failures_wait(turn->core, turn->cell)) {
        look_again_later(turn);
        return TRP_NEXT_GONE;
    }
    if (!has_flag(turn, TRP_CELL_SUSPENDED)) {
        struct trp_asker *asker = trp_asker_of(turn->core, turn->cell);

        if (asker != NULL && run_ops(turn, asker) == TRP_NEXT_GONE) {
            return TRP_NEXT_GONE;
        }
    }
    if (!has_flag(turn, TRP_TURN_WAITING)) {
        return TRP_NEXT_ON;
    }
    trp_turn_rest(turn);
    trp_turn_book(turn);
    tell_depth(turn);
    trp_cursor_publish(&turn->cursor, ring);
    if (can_park && trp_park(turn->cell)) {
        return TRP_NEXT_GONE;
    }
    can_park = true; /* or it was told something meanwhile */
    goto again;
}

/* A message was one too many. */
static enum trp_next
fail(struct trp_turn *turn, int32_t code)
{
    return mark_failed(turn, TROUPE_EXIT_FAILED, code) == TRP_NEXT_GONE
               ? TRP_NEXT_GONE
               : trp_turn_look_up(turn);
}

/* An unhandled death notice, of one who wants to die of it. */
static bool
is_death_pact(const struct trp_turn *turn, const troupe_msg *view)
{
    struct trp_extra *extra;

    if (troupe_msg_tag(view) != TROUPE_TAG_DOWN) {
        return false;
    }
    extra = trp_load_acquire(&turn->cold->extra); /* pairs: cell.extra */
    return extra != NULL && (extra->actor_flags & TROUPE_ACTOR_DEATH_PACT) != 0;
}

static void
leave_unhandled(struct trp_turn *turn, const troupe_msg *view)
{
    struct troupe_self *self = turn->self;

    if ((self->current.spent & TRP_SPENT_TAKEN) == 0) {
        trp_count(&turn->local->books.handled, UINT64_MAX);
        trp_count(&turn->local->books.unhandled, 1);
        trp_dead_letter(turn->core, turn->local,
            trp_cell_ref(turn->core, turn->cell), view,
            trp_item_box_or_null(self->current.item), TROUPE_DEAD_UNHANDLED);
    }
}

enum trp_next
trp_turn_judge(
    struct trp_turn *turn, troupe_verdict verdict, const troupe_msg *view)
{
    struct troupe_self *self = turn->self;

    if ((uint32_t)verdict == TRP_VERDICT_AWAIT) {
        struct trp_op *op = trp_op_find(self, self->awaits);

        if (op != NULL) {
            trp_op_await(self, op);
            return TRP_NEXT_ON;
        }
    }
    switch (verdict) {
    case TROUPE_CONTINUE:
        return TRP_NEXT_ON;
    case TROUPE_UNHANDLED:
        if (is_death_pact(turn, view)) {
            return fail(turn, (int32_t)TROUPE_E_DEAD);
        }
        leave_unhandled(turn, view);
        return TRP_NEXT_ON;
    case TROUPE_DONE:
        if (self->is_lost) {
            self->is_lost = false;
            return end_actor(turn, TROUPE_EXIT_FAILED, self->code);
        }
        return end_actor(turn, TROUPE_EXIT_DONE, 0);
    case TROUPE_FAILED:
        return fail(turn, self->code_is_set ? self->code : 0);
    }
    return fail(turn, (int32_t)TROUPE_E_INVALID);
}

/* What the item holds goes, and the watch whose notice it is. */
static void
settle(
    struct trp_turn *turn, struct trp_item *item, struct trp_watching *watching)
{
    trp_item_settle(turn->local, item, turn->self->current.spent);
    if (watching != NULL) {
        trp_watch_settle(turn->core, turn->local, watching);
    }
}

/* It was not handled, so it has cost no token. What is kept never had one. */
static void
give_token_back(const struct trp_turn *turn, const struct trp_item *item)
{
    struct trp_rules *rules = trp_rules_of(turn->core, turn->cell);

    /* relaxed: the owner alone writes it. */
    if (rules != NULL && trp_load_relaxed(&rules->is_throttled) != 0 &&
        !trp_item_is_kept(item)) {
        trp_throttle_give(rules);
    }
}

/* Nobody waits for the answer, and its type says that this is its end. */
TRP_COLD static void
expire(struct trp_turn *turn, struct trp_item *item)
{
    give_token_back(turn, item);
    trp_item_bury(
        turn->core, turn->local, turn->self->ref, item, TROUPE_DEAD_EXPIRED);
}

/* False: what may come to nothing has done so, and was counted. */
static bool
show(struct trp_turn *turn, struct trp_item *item,
    struct trp_watching **watching, struct trp_timer **ticking)
{
    if ((item->mark & TRP_MARK_TIMER) != 0) {
        return trp_timer_begin(turn->self, item, turn->active, ticking);
    }
    if ((item->mark & TRP_MARK_NOTICE) != 0) {
        *watching = trp_watching_of(turn->core, turn->cell);
        return trp_watch_show(turn->core, turn->local, *watching, item);
    }
    if (trp_item_is_expired(turn->core, item)) {
        expire(turn, item);
        return false;
    }
    return true;
}

/* What is left of a message goes, and its handler's word is heeded. */
TRP_INLINE enum trp_next
conclude(struct trp_turn *turn, struct trp_item *item,
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
    return TRP_LIKELY(verdict == TROUPE_CONTINUE)
               ? TRP_NEXT_ON
               : trp_turn_judge(turn, verdict, view);
}

/*
 * Continuations of what has ended, before the next message. Called after L was
 * seen, and after a callback that has ended some itself.
 */
__attribute__((noinline)) static enum trp_next
run_ops(struct trp_turn *turn, struct trp_asker *asker)
{
    struct troupe_self *self = turn->self;
    struct trp_op *op;

    for (uint32_t left = THEN_MOST;
         (op = trp_op_next(self, asker, turn->cell)) != NULL; left--) {
        struct trp_outcome outcome;
        troupe_verdict verdict;

        if (TRP_UNLIKELY(left == 0)) {
            trp_op_not_yet(self, op);
            look_again_later(turn);
            return TRP_NEXT_GONE;
        }
        trp_op_finish(self, op, false, &outcome);
        verdict = trp_outcome_run(self, turn->state, &outcome);
        if (conclude(turn, &outcome.item, NULL, verdict, outcome.view) ==
            TRP_NEXT_GONE) {
            return TRP_NEXT_GONE;
        }
        if (trp_ops_are_quiet(asker)) {
            break;
        }
    }
    self->after &= (uint8_t)~TRP_AFTER_OPS;
    return TRP_NEXT_ON;
}

enum trp_next
trp_turn_handle_special(struct trp_turn *turn, struct trp_item *item)
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
        return TRP_NEXT_ON;
    }
    turn->active = true;
    verdict = TRP_UNLIKELY(turn->local->meter.weight != 0)
                  ? trp_meter_call(turn, item, &view)
                  : trp_turn_call(turn, item, &view);
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
