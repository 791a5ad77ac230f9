/* SPDX-License-Identifier: MIT */
#include "actor/turn.h"

#include "actor/mailbox.h"
#include "actor/meter.h"
#include "actor/rules.h"
#include "actor/turn_more.h"
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
 *
 * Whatever is rare is in turn_more.c.
 */

/* What a turn may take before its length is changed. */
#define SHORT_NS 5000
#define LONG_NS 20000
/* A counted mailbox tells its depth so often: every 16th message. */
#define TELL_MASK 15u
/* Rests for a sender between its claim and its write: about 1 us. */
#define STALL_RESTS 40

/* Looks up before the first message. */
#define UNUSUAL (TRP_CELL_STARTING | TRP_CELL_STOPPING | TRP_TURN_WAITING)
/* Has another loop than most. */
#define SLOWER (TRP_CELL_RULED | TRP_CELL_TIMEOUT)
/* Decided when their turn has come; may come to nothing. */
#define VOIDABLE (TRP_MARK_NOTICE | TRP_MARK_TIMER | TRP_MARK_ASK)

TRP_INLINE enum trp_next
handle(struct trp_turn *turn, struct trp_item *item)
{
    troupe_verdict verdict;
    troupe_msg view;

    trp_count(&turn->local->books.handled, 1);
    if (TRP_UNLIKELY((item->mark & TRP_MARK_SPECIAL) != 0)) {
        return trp_turn_handle_special(turn, item);
    }
    verdict = trp_turn_call(turn, item, &view);
    if (TRP_UNLIKELY(verdict != TROUPE_CONTINUE)) {
        return trp_turn_judge(turn, verdict, &view);
    }
    return TRP_NEXT_ON;
}

/* With metrics on: one that was drawn, or that a probe may be about. */
__attribute__((noinline)) static enum trp_next
handle_measured(struct trp_turn *turn, struct trp_item *item, bool is_drawn)
{
    troupe_verdict verdict;
    troupe_msg view;

    trp_meter_look(turn);
    if (!is_drawn) {
        return handle(turn, item);
    }
    trp_meter_weigh(turn);
    trp_count(&turn->local->books.handled, 1);
    if ((item->mark & TRP_MARK_SPECIAL) != 0) {
        return trp_turn_handle_special(turn, item);
    }
    verdict = trp_meter_call(turn, item, &view);
    return verdict == TROUPE_CONTINUE ? TRP_NEXT_ON
                                      : trp_turn_judge(turn, verdict, &view);
}

/* `is_metered` is a constant to who includes this. */
TRP_INLINE enum trp_next
handle_one(struct trp_turn *turn, struct trp_item *item, bool is_metered)
{
    if (is_metered) {
        bool is_drawn = trp_lot_draw(&turn->local->meter.messages);

        if (TRP_UNLIKELY(is_drawn || trp_meter_has_probe(turn))) {
            return handle_measured(turn, item, is_drawn);
        }
    }
    return handle(turn, item);
}

/* Nothing could be popped. TRP_NEXT_GONE: S was given away. */
TRP_INLINE enum trp_next
pause_turn(struct trp_turn *turn)
{
    struct trp_cell *cell = turn->cell;

    trp_turn_book(turn);
    cell->used_up = 0;
    if (TRP_UNLIKELY(turn->cursor.unit != TRP_POOL_NONE)) { /* was deep */
        trp_mailbox_rearm(turn->core, cell);
    }
    for (int rests = 0;; rests++) {
        switch (trp_ring_idle(&turn->cursor, &turn->core->segments,
            &turn->local->segments, &cell->ring, &cell->hint)) {
        case TRP_IDLE_DONE:
            return TRP_NEXT_GONE;
        case TRP_IDLE_MORE:
            return TRP_NEXT_ON;
        case TRP_IDLE_FLAGS:
            return trp_turn_look_up(turn);
        case TRP_IDLE_STALLED:
            if (rests == STALL_RESTS) {
                trp_submit_stalled(turn->self->worker, &cell->task);
                return TRP_NEXT_GONE;
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
makes_way(struct trp_turn *turn)
{
    return !trp_worker_is_alone(turn->self->worker);
}

/*
 * More than another turn's worth is waiting: a sink that many fill. It gets its
 * next turn after one of those who yielded, instead of after all of them, or
 * its queue would grow by what all of them send.
 */
static bool
is_behind(const struct trp_turn *turn)
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
wants_look(const struct trp_turn *turn)
{
    if (TRP_LIKELY(!trp_cursor_is_lazy(&turn->cursor))) {
        /* relaxed: a look; what it leads to acquires. */
        return (trp_load_relaxed(&turn->cell->ring.word) &
                   (TRP_RING_KILL | TRP_RING_SIGNAL)) != 0;
    }
    return trp_load_acquire(&turn->cold->look) != 0; /* pairs: cell.look */
}

/* The turn is used up, or makes way: that says nothing of its messages. */
static void
end_turn(struct trp_turn *turn, uint64_t began_ns)
{
    struct trp_cell *cell = turn->cell;

    trp_turn_book(turn);
    if (TRP_LIKELY(!turn->made_way)) {
        adapt(cell, began_ns);
    } else {
        cell->used_up = 0;
    }
    trp_mailbox_rearm(turn->core, cell);
    trp_cursor_publish(&turn->cursor, &cell->ring);
    trp_ring_shrink(&turn->cursor, &turn->core->segments,
        &turn->local->segments, &cell->ring);
    if (TRP_UNLIKELY(turn->local->meter.probe != NULL)) {
        trp_meter_yield(turn);
    }
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
look_after(struct trp_turn *turn, uint32_t left)
{
    uint32_t after = turn->self->after;

    turn->self->after = 0;
    if ((after & TRP_AFTER_OPS) != 0 &&
        trp_turn_look_up(turn) == TRP_NEXT_GONE) {
        return 0;
    }
    if ((after & TRP_AFTER_SELF) != 0 && makes_way(turn)) {
        turn->made_way = true;
        return 1;
    }
    return left;
}

/* Nothing could be popped; `rules` may be NULL. TRP_NEXT_GONE as above. */
static enum trp_next
pause_ruled(struct trp_turn *turn, struct trp_rules *rules)
{
    trp_turn_rest(turn);
    trp_mailbox_rearm(turn->core, turn->cell);
    if (rules == NULL) {
        return pause_turn(turn);
    }
    trp_rules_tell(rules, turn->cell, turn->cursor.head, false);
    if (!trp_rules_have_lock(rules)) {
        return pause_turn(turn);
    }
    trp_turn_book(turn);
    turn->cell->used_up = 0;
    if (trp_rules_idle(turn->cell, rules)) {
        return TRP_NEXT_GONE;
    }
    return wants_look(turn) ? trp_turn_look_up(turn) : TRP_NEXT_ON;
}

/* TRP_NEXT_GONE: it waits for a token. */
TRP_COLD static enum trp_next
await_token(struct trp_turn *turn, struct trp_rules *rules)
{
    trp_turn_rest(turn);
    trp_turn_book(turn);
    trp_rules_tell(rules, turn->cell, turn->cursor.head, false);
    trp_mailbox_rearm(turn->core, turn->cell);
    if (trp_throttle_park(turn->core, turn->cell, rules)) {
        return TRP_NEXT_GONE;
    }
    trp_throttle_begin(turn->core, turn->cell, rules);
    return wants_look(turn) ? trp_turn_look_up(turn) : TRP_NEXT_ON;
}

/* Beyond the throttle. */
TRP_COLD static void
drop_excess(
    struct trp_turn *turn, struct trp_rules *rules, struct trp_item *item)
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
pop_throttled(struct trp_turn *turn, struct trp_rules *rules,
    struct trp_item *item, bool *excess)
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
pop_ruled(struct trp_turn *turn, struct trp_rules *rules, struct trp_item *item,
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
begin_ruled(struct trp_turn *turn)
{
    struct trp_rules *rules = NULL;

    if ((trp_cell_flags(turn->cell) & TRP_CELL_RULED) != 0) {
        rules = trp_rules_of(turn->core, turn->cell);
        trp_throttle_begin(turn->core, turn->cell, rules);
    }
    return rules;
}

/* See run_ruled(). */
TRP_INLINE void
run_slower(
    struct trp_turn *turn, uint32_t left, uint64_t began_ns, bool is_metered)
{
    struct trp_rules *rules = begin_ruled(turn);
    uint32_t popped = 0;
    struct trp_item item;
    enum trp_pop got;

    for (; left > 0; left--) {
        bool excess = false;

        if (TRP_UNLIKELY(wants_look(turn))) {
            if (trp_turn_look_up(turn) == TRP_NEXT_GONE) {
                return;
            }
            rules = rules != NULL ? rules : begin_ruled(turn);
        }
        while ((got = pop_ruled(turn, rules, &item, &excess)) != TRP_POP_ONE) {
            if ((got == TRP_POP_COSTS
                        ? await_token(turn, rules)
                        : pause_ruled(turn, rules)) == TRP_NEXT_GONE) {
                return;
            }
            rules = rules != NULL ? rules : begin_ruled(turn);
        }
        if ((popped++ & TELL_MASK) == 0 && rules != NULL) {
            trp_rules_tell(rules, turn->cell, turn->cursor.head, true);
        }
        if (TRP_UNLIKELY(excess)) {
            drop_excess(turn, rules, &item);
            continue;
        }
        turn->active |= (item.mark & VOIDABLE) == 0;
        if (handle_one(turn, &item, is_metered) == TRP_NEXT_GONE) {
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
    trp_turn_rest(turn);
    if (rules != NULL) {
        trp_rules_tell(rules, turn->cell, turn->cursor.head, false);
    }
    end_turn(turn, began_ns);
}

/*
 * The same loop as in trp_turn(), where messages lie elsewhere as well, or a
 * receive timeout wants to know when the last one was handled.
 */
__attribute__((noinline)) static void
run_ruled(struct trp_turn *turn, uint32_t left, uint64_t began_ns)
{
    run_slower(turn, left, began_ns, false);
}

__attribute__((noinline)) static void
run_ruled_metered(struct trp_turn *turn, uint32_t left, uint64_t began_ns)
{
    run_slower(turn, left, began_ns, true);
}

TRP_INLINE void
go_on_ruled(
    struct trp_turn *turn, uint32_t left, uint64_t began_ns, bool is_metered)
{
    if (is_metered) {
        run_ruled_metered(turn, left, began_ns);
    } else {
        run_ruled(turn, left, began_ns);
    }
}

TRP_INLINE bool
is_slower(const struct trp_turn *turn)
{
    return TRP_UNLIKELY((trp_cell_flags(turn->cell) & SLOWER) != 0);
}

/* Its callbacks may give it rules that it had not: then that runs the rest. */
TRP_INLINE void
run(struct trp_turn *turn, uint32_t left, uint64_t began_ns, bool is_metered)
{
    struct trp_item item;

    for (; left > 0; left--) {
        if (TRP_UNLIKELY(wants_look(turn))) {
            if (trp_turn_look_up(turn) == TRP_NEXT_GONE) {
                return;
            }
            if (is_slower(turn)) {
                go_on_ruled(turn, left, began_ns, is_metered);
                return;
            }
        }
        while (!trp_ring_pop(&turn->cursor, &turn->cell->ring, &item)) {
            if (pause_turn(turn) == TRP_NEXT_GONE) {
                return;
            }
            if (is_slower(turn)) {
                go_on_ruled(turn, left, began_ns, is_metered);
                return;
            }
        }
        if (handle_one(turn, &item, is_metered) == TRP_NEXT_GONE) {
            return;
        }
        if (TRP_UNLIKELY(turn->self->after != 0)) {
            left = look_after(turn, left);
            if (left == 0) {
                return;
            }
            if (is_slower(turn)) {
                turn->active = true;
                go_on_ruled(turn, left - 1, began_ns, is_metered);
                return;
            }
        }
    }
    end_turn(turn, began_ns);
}

/* S of the cell is ours. */
TRP_INLINE struct trp_turn
begin_turn(struct trp_worker *worker, struct trp_cell *cell)
{
    struct trp_local *local = worker->local;
    struct trp_core *core = local->self.core;
    struct trp_turn turn = {.self = &local->self,
        .core = core,
        .local = local,
        .cell = cell,
        .cold = trp_cold_of(core, cell),
        .state = trp_cell_state(cell)};

    trp_cursor_load(&turn.cursor, &core->segments, &cell->ring);
    turn.first = turn.cursor.head;
    turn.self->cell = cell;
    turn.self->ref = trp_cell_ref(core, cell);
    turn.self->behaviour = cell->behaviour;
    turn.self->current.msg = NULL;
    turn.self->after = 0;
    return turn;
}

/* 0: nobody asks. */
TRP_INLINE uint64_t
begin_time(const struct trp_cell *cell)
{
    return TRP_UNLIKELY(cell->used_up) ? trp_clock_ns() : 0;
}

/* All of a turn. */
TRP_INLINE void
begin_and_run(struct trp_turn *turn, bool is_metered)
{
    uint32_t left = throughput_of(turn->core, turn->cell);
    uint64_t began_ns = begin_time(turn->cell);

    if (TRP_UNLIKELY((trp_cell_flags(turn->cell) & (UNUSUAL | SLOWER)) != 0)) {
        if (is_metered) {
            trp_meter_look_early(turn);
        }
        if ((trp_cell_flags(turn->cell) & UNUSUAL) != 0 &&
            trp_turn_look_up(turn) == TRP_NEXT_GONE) {
            return;
        }
        if (is_slower(turn)) {
            go_on_ruled(turn, left, began_ns, is_metered);
            return;
        }
    }
    run(turn, left, began_ns, is_metered);
}

void
trp_turn_metered(struct trp_worker *worker, struct trp_task *task)
{
    struct trp_turn turn =
        begin_turn(worker, TRP_CONTAINER_OF(task, struct trp_cell, task));

    if (TRP_UNLIKELY(!trp_meter_begin(&turn))) {
        trp_turn(worker, task); /* it does not see yet what was made for it */
        return;
    }
    begin_and_run(&turn, true);
    trp_meter_end(&turn);
}

void
trp_turn(struct trp_worker *worker, struct trp_task *task)
{
    struct trp_turn turn =
        begin_turn(worker, TRP_CONTAINER_OF(task, struct trp_cell, task));

    begin_and_run(&turn, false);
}
