/* SPDX-License-Identifier: MIT */
#ifndef TRP_ACTOR_TURN_MORE_H
#define TRP_ACTOR_TURN_MORE_H

/*
 * The half of a turn that most turns do not need: what an actor looks at
 * besides its messages (requests, orders of its parent, failures of its
 * children, what it has asked for), messages that are not plain, and verdicts
 * that are not TROUPE_CONTINUE. The other half is actor/turn.c.
 */

#include "actor/message.h"
#include "actor/timers.h"

struct trp_turn {
    struct troupe_self *self;
    struct trp_core *core;
    struct trp_local *local;
    struct trp_cell *cell;
    struct trp_cold *cold;
    void *state;
    struct trp_cursor cursor;
    uint32_t first; /* head at the beginning: whether it wrapped */
    bool active;    /* handled something; of an actor with a timeout */
    bool made_way;  /* ends early: it has sent to itself */
};

enum trp_next { TRP_NEXT_ON, TRP_NEXT_GONE };

/* Handles no messages; what it waits for comes with L. */
#define TRP_TURN_WAITING (TRP_CELL_SUSPENDED | TRP_CELL_AWAITING)
/* Before S is given away: what others may read is brought up to date. */
static inline void
trp_turn_book(struct trp_turn *turn)
{
    if (TRP_UNLIKELY(turn->cursor.head < turn->first)) {
        trp_count(&turn->cold->wraps, 1);
    }
    turn->first = turn->cursor.head;
}

/* Before S is given away: since when an actor with a timeout is silent. */
static inline void
trp_turn_rest(struct trp_turn *turn)
{
    if (turn->active && (trp_cell_flags(turn->cell) & TRP_CELL_TIMEOUT) != 0) {
        trp_timers_rest(turn->core, turn->cell);
    }
    turn->active = false;
}

/* Shows the message to the behaviour. */
TRP_INLINE troupe_verdict
trp_turn_call(struct trp_turn *turn, struct trp_item *item, troupe_msg *view)
{
    struct troupe_self *self = turn->self;
    troupe_verdict verdict;

    trp_item_view(item, view);
    self->current.msg = view;
    self->current.item = item;
    self->current.spent = 0;
    self->code_is_set = false;
    verdict = self->behaviour(self, turn->state, view);
    self->current.msg = NULL;
    return verdict;
}

/*
 * K or L is set, or the actor is new, stopping, suspended or awaits something.
 * It goes on when it may handle messages.
 */
enum trp_next trp_turn_look_up(struct trp_turn *turn);

/* It may be the end: what the message held has gone, or owned nothing. */
enum trp_next trp_turn_judge(
    struct trp_turn *turn, troupe_verdict verdict, const troupe_msg *view);

/*
 * A boxed or owning message, a question, a death notice, a timer, or a stop
 * that was in line.
 */
enum trp_next trp_turn_handle_special(
    struct trp_turn *turn, struct trp_item *item);

#endif /* TRP_ACTOR_TURN_MORE_H */
