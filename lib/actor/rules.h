/* SPDX-License-Identifier: MIT */
#ifndef TRP_ACTOR_RULES_H
#define TRP_ACTOR_RULES_H

/*
 * A mailbox that is not the default one, or an actor that stashes or throttles:
 *
 *   form      where messages wait             how they come in
 *   PLAIN     the ring of the cell            as if there were no rules, or
 *                                             counted before
 *   BOUNDED   the ring                        a CAS that knows the limit
 *   HEAD      two queues: droppable, kept     under the lock
 *   ORDERED   two orders: droppable, kept     under the lock
 *   CUSTOM    the user's own                  under the lock
 *   ROUTER    as HEAD, without a limit        not at all: actor/route.h
 *
 *         stash          replay            ring, queues, orders, the user's
 *     [ put aside ] -> [ put back ] -> [ ................................ ]
 *        owner only      owner only       senders, owner
 *
 * Kept are the messages that no rule applies to: death notices, timers, types
 * with TROUPE_MSG_UNDROPPABLE, and a troupe_stop() that waits in line.
 *
 * Rules live in blocks that are never unmapped and used again. A sender that
 * comes late may look at those of the next actor; so it checks the life of its
 * cell after it has read them: in the claim of a bounded ring, or under the
 * lock, which the end of the actor takes before its life changes.
 *
 * Counted: the actor is a routee of a pool that sends to the shortest mailbox,
 * and what waits is told to a slot of queue/depths.h as well. Senders add 1
 * before they push; the owner adds now and then by what its own numbers differ
 * from those that it has told last: R5.
 *
 * Under the lock nothing of the user's runs but the functions of a custom
 * mailbox. Why a lock: docs/decisions/0008-mailboxes-with-a-lock.md.
 *
 * Invariants
 *   R1  With the lock held: S is set if anything waits; only the owner clears
 *       S, with the lock held and nothing waiting. What a custom mailbox counts
 *       and does not give is not waiting until the next arrival (is_barren).
 *   R2  X is set before the owner's last look under the lock: an arrival is in
 *       before that look, or refused.
 *   R3  What the owner has put back keeps S set: it does not go idle.
 *   R4  A bounded ring never holds more droppable messages than its limit; kept
 *       ones may exceed it.
 *   R5  Of a counted mailbox: what senders have added less what the head of the
 *       ring has passed, and what was put back, is in the slot whenever S is
 *       given away, unless it is stopping; that is what waits. When it has
 *       gone, and before its death is told, it is 0.
 *
 * Pairs
 *   rules.life  store of the rules for a new life -> load of them by a sender,
 *               who checks the life afterwards.
 */

#include "actor/message.h"
#include "queue/depths.h"
#include "queue/fifo.h"
#include "queue/order.h"
#include "sched/alarm.h"

#include <troupe/throttle.h>

enum trp_form {
    TRP_FORM_PLAIN,
    TRP_FORM_BOUNDED,
    TRP_FORM_HEAD,
    TRP_FORM_ORDERED,
    TRP_FORM_CUSTOM,
    TRP_FORM_ROUTER
};

/* What drops a message, and who is told. Read before the life is checked. */
struct trp_drop {
    troupe_on_drop_fn fn;
    void *user;
    bool dead_letter;
};

struct trp_rules {
    /* constant in a life (rules.life), but for bound.front */
    struct trp_ring_bound bound; /* of all forms: capacity, UINT32_MAX = none */
    TRP_ATOMIC(uint8_t) form;
    TRP_ATOMIC(uint8_t) overflow;
    TRP_ATOMIC(uint16_t) flags;
    TRP_ATOMIC(uint32_t) length; /* of the locked forms; under the lock */
    TRP_ATOMIC(uint32_t) route;  /* of a router: unit of core->routes, or 0 */
    TRP_ATOMIC(TRP_ATOMIC(uint32_t) *) counter; /* of a counted one, or NULL */
    /* handled less what the head of the ring says, modulo 2^64; owner */
    TRP_ATOMIC(uint64_t) taken;
    TRP_ATOMIC(uint32_t) warn; /* depth; UINT32_MAX = never */
    TRP_ATOMIC(troupe_on_drop_fn) on_drop;
    TRP_ATOMIC(void *) drop_user;
    TRP_ATOMIC(troupe_priority_fn) priority;
    TRP_ATOMIC(troupe_unrankable_fn) on_unrankable;
    TRP_ATOMIC(void *) priority_user;
    TRP_ATOMIC(uint64_t) ageing_ns;

    /* of a counted one; owner */
    uint32_t told;       /* R5, modulo 2^32 */
    bool counts_handled; /* what is being handled as well */

    /* under the lock */
    struct trp_lock lock;
    uint32_t stops; /* CUSTOM: they wait until it is empty */
    bool is_barren; /* CUSTOM: gave nothing since the last arrival */
    uint64_t next;  /* sequence of the next arrival */
    uint64_t first; /* of what was put back before all others, counts down */
    struct trp_fifo queue, kept_queue;
    struct trp_order order, kept_order;
    const troupe_custom_mailbox *custom;
    void *box;

    /* owner of S */
    struct trp_fifo stash;
    struct trp_fifo replay;
    uint32_t stash_capacity;
    TRP_ATOMIC(uint32_t) stashed; /* length of the stash, for others */
    double rank;                  /* of the current message ... */
    uint64_t sequence;            /* ... for the stash */

    /* the throttle: see actor/throttle.c; owner of S but for the atomics */
    TRP_ATOMIC(uint8_t) is_throttled;
    bool drops_excess;
    bool is_alarm_set;
    TRP_ATOMIC(uint32_t) cell; /* index: whom the alarm wakes */
    uint64_t filled_ns;
    double per_second, burst, tokens;
    struct trp_alarm alarm;
};

static inline struct trp_rules *
trp_rules_at(const struct trp_core *core, uint32_t unit)
{
    return trp_pool_address(&core->rules, unit);
}

/* Of a cell, or NULL. Its owner, or who checks the life afterwards. */
static inline struct trp_rules *
trp_rules_of(const struct trp_core *core, const struct trp_cell *cell)
{
    uint32_t unit = trp_load_acquire(&cell->rules); /* pairs: rules.life */

    return unit != TRP_POOL_NONE ? trp_rules_at(core, unit) : NULL;
}

/* No rule applies to it. Not for TRP_MARK_SKIP. */
static inline bool
trp_item_is_kept(const struct trp_item *item)
{
    return (item->mark & (TRP_MARK_CONTROL | TRP_MARK_TIMER)) != 0 ||
           (trp_mark_type(item->mark)->flags & TROUPE_MSG_UNDROPPABLE) != 0;
}

/*
 * Rules for a cell that nobody can reach yet; `options` NULL: PLAIN. `*unit` is
 * written on success. E_NOMEM, or E_FAILED: the custom mailbox did not open.
 */
troupe_status trp_rules_new(struct trp_core *core,
    const troupe_mailbox_options *options, uint32_t stash_capacity,
    uint32_t *unit);
/* Starts the throttle; `options` were checked. Owner of S, or not yet born. */
void trp_throttle_start(struct trp_core *core, struct trp_rules *rules,
    const troupe_throttle_options *options);
/* A complete copy of what can be carried out; refusals name the option. */
troupe_status trp_throttle_check(troupe_throttle_options *copy,
    const troupe_throttle_options *given, const char *call);
/* The cell's life has ended, or never began; everything in them is gone. */
void trp_rules_free(struct trp_core *core, uint32_t unit);

/* Where messages wait under the lock: all but the two lock-free forms. */
static inline bool
trp_rules_have_lock(const struct trp_rules *rules)
{
    /* relaxed: the owner, or a look. */
    return trp_load_relaxed(&rules->form) >= TRP_FORM_HEAD;
}

/* Owner. What it has put back, one way or the other; modulo 2^32. */
static inline void
trp_rules_add_front(struct trp_rules *rules, uint32_t more)
{
    trp_store_release(&rules->bound.front, /* pairs: ring.front */
        /* relaxed: the owner alone writes it. */
        trp_load_relaxed(&rules->bound.front) + more);
}

/* Owner. For troupe_inspect(): so many that the head of the ring misses. */
static inline void
trp_rules_add_taken(struct trp_rules *rules, uint64_t more)
{
    /* relaxed, both: a statistic that the owner alone writes. */
    trp_store_relaxed(&rules->taken, trp_load_relaxed(&rules->taken) + more);
}

/* What a custom mailbox says when it does not keep a message. */
static inline troupe_status
trp_rules_refusal(troupe_status status)
{
    return status == TROUPE_E_NOMEM ? status : TROUPE_E_FULL;
}

static inline TRP_ATOMIC(uint32_t) *
    trp_rules_counter(const struct trp_rules *rules)
{
    return trp_load_acquire(&rules->counter); /* pairs: rules.life */
}

/* Senders must come here: not for PLAIN, unless it is counted. */
static inline bool
trp_rules_are_strict(const struct trp_rules *rules)
{
    return trp_load_acquire(&rules->form) != /* pairs: rules.life */
               TRP_FORM_PLAIN ||
           trp_rules_counter(rules) != NULL;
}

/*
 * Of a new life that nobody can reach: it is counted if it is PLAIN. The slot
 * is never unmapped.
 */
void trp_rules_count(struct trp_rules *rules, const struct trp_cell *cell,
    TRP_ATOMIC(uint32_t) * counter, bool counts_handled);

/*
 * The other half of trp_mailbox_deliver(): if the life of `to` has rules they
 * decide, with E_FULL as well, and TROUPE_OK may also mean dropped.
 */
troupe_status trp_rules_deliver(struct trp_core *core, struct trp_local *local,
    troupe_ref to, const struct trp_item *item);

/* The same where the counter of `to` is known already; E_DEAD: it has gone. */
troupe_status trp_rules_deliver_counted(struct trp_core *core,
    struct trp_local *local, TRP_ATOMIC(uint32_t) * counter, troupe_ref to,
    const struct trp_item *item);

/*
 * The mailbox of a router takes a message. `order`: only if it is parked, or
 * (PARK) it is from now on; E_NO_ROUTE: it is not, and nothing has happened.
 */
enum trp_enqueue { TRP_ENQUEUE_ALWAYS, TRP_ENQUEUE_PARKED, TRP_ENQUEUE_PARK };
troupe_status trp_rules_enqueue(struct trp_core *core, struct trp_local *local,
    struct trp_rules *rules, troupe_ref to, const struct trp_item *item,
    enum trp_enqueue order);

/* Counts and reports a message that a rule has discarded, and releases it. */
void trp_rules_discard(struct trp_core *core, struct trp_local *local,
    troupe_ref recipient, struct trp_item *item, troupe_drop_reason reason,
    const struct trp_drop *drop);
void trp_rules_read_drop(struct trp_rules *rules, struct trp_drop *drop);

/* Owner of S, from here on. */

/*
 * R5; the cursor's head is `head`. `handling`: a message was popped and is not
 * handled yet.
 */
static inline void
trp_rules_tell(struct trp_rules *rules, const struct trp_cell *cell,
    uint32_t head, bool handling)
{
    TRP_ATOMIC(uint32_t) *counter = trp_rules_counter(rules);
    uint32_t now;

    if (counter == NULL) {
        return;
    }
    /* relaxed: the owner alone writes it. */
    now = trp_load_relaxed(&rules->bound.front) - head;
    if (rules->counts_handled &&
        (handling || (trp_cell_flags(cell) & TRP_CELL_AWAITING) != 0)) {
        now++;
    }
    if (now != rules->told) {
        trp_depth_add(counter, now - rules->told);
        rules->told = now;
    }
}

/* What is popped next is a ticket without a message. */
static inline void
trp_rules_note_skip(struct trp_rules *rules)
{
    trp_rules_add_front(rules, 1); /* before its ticket is free */
    trp_rules_add_taken(rules, UINT64_MAX);
}

/* Of what was put back, or from under the lock. False: none now. */
bool trp_rules_pop_slow(struct trp_rules *rules, struct trp_item *item);

/* The next message: what was put back, then the others. False: none now. */
TRP_INLINE bool
trp_rules_pop(struct trp_cell *cell, struct trp_rules *rules,
    struct trp_cursor *cursor, struct trp_item *item)
{
    if (trp_fifo_length(&rules->replay) != 0 || trp_rules_have_lock(rules)) {
        return trp_rules_pop_slow(rules, item);
    }
    for (;;) {
        uint64_t mark = trp_load_acquire(
            &trp_cursor_slot(cursor)->mark); /* pairs: ring.slot */

        if (TRP_UNLIKELY(mark == TRP_MARK_SKIP)) {
            trp_rules_note_skip(rules);
        }
        if (!trp_ring_pop(cursor, &cell->ring, item)) {
            return false;
        }
        if (trp_cursor_is_lazy(cursor)) { /* R4: not only now and then */
            trp_cursor_publish(cursor, &cell->ring);
        }
        if (TRP_LIKELY(mark != TRP_MARK_SKIP)) {
            return true;
        }
    }
}

enum trp_pop { TRP_POP_NONE, TRP_POP_ONE, TRP_POP_COSTS };

/*
 * The same without a token: COSTS, the next one needs one, and stays where it
 * is. Only a CUSTOM one has to be asked for it first; then it comes before all
 * others, or is ONE after all if there is no memory: too early, but not lost.
 */
enum trp_pop trp_rules_pop_free(struct trp_cell *cell, struct trp_rules *rules,
    struct trp_cursor *cursor, struct trp_item *item);

/*
 * A turn begins. A token was taken, or there is none. Waits for one: true, the
 * cell is not ours any more; false, somebody has told it something.
 */
void trp_throttle_begin(
    struct trp_core *core, struct trp_cell *cell, struct trp_rules *rules);
bool trp_throttle_take(struct trp_core *core, struct trp_rules *rules);
/* The token is not needed after all. */
static inline void
trp_throttle_give(struct trp_rules *rules)
{
    rules->tokens += 1;
}
/* The owner's one alarm: it looks again then. Cancelled by the next turn. */
void trp_rules_set_alarm(struct trp_core *core, struct trp_cell *cell,
    struct trp_rules *rules, uint64_t due_ns);
bool trp_throttle_park(
    struct trp_core *core, struct trp_cell *cell, struct trp_rules *rules);

/* Nothing could be popped. True: S is clear, the cell is not ours any more. */
bool trp_rules_idle(struct trp_cell *cell, struct trp_rules *rules);
/* With the lock held. */
void trp_rules_add_length(struct trp_rules *rules, uint32_t more);
/*
 * Takes a ticket of a bounded ring for nothing: claims that have not seen the
 * front as it is now fail. False: no memory.
 */
bool trp_rules_skip(struct trp_core *core, struct trp_local *local,
    struct trp_cell *cell, struct trp_rules *rules);
/* The rules of the running actor, made if need be; NULL: no memory. */
struct trp_rules *trp_rules_own(struct troupe_self *self);

/* What is in the stash becomes dead letters. */
void trp_stash_bury(struct troupe_self *self, struct trp_cell *cell);
/* Of the running actor's, if it is full, the oldest does. True: it was full. */
bool trp_stash_make_room(struct troupe_self *self);

/* How many wait, apart from the stash; stale. Any thread. */
uint32_t trp_rules_depth(struct trp_rules *rules, uint32_t ring_depth);

#endif /* TRP_ACTOR_RULES_H */
