/* SPDX-License-Identifier: MIT */
#ifndef TRP_ACTOR_OP_H
#define TRP_ACTOR_OP_H

/*
 * An operation that ends later: an ask, a promise, a pause, a graceful stop. It
 * is also the one-shot address that answers are sent to: a ref whose index has
 * the top bit set names an operation, not a cell, so who sends finds out where
 * it would have found that there is no such cell, and pays nothing before.
 *
 *   asker (one per actor that has operations)
 *     soonest --> pairing heap of open operations, by deadline
 *     done -----> stack of those that somebody else has ended
 *     ended ----> those whose continuation is to run, in order
 *
 *            a message, a failure, the target's death: any thread
 *   PENDING -------------------------------------------> TAKEN
 *      |                                                   | answer written,
 *      | deadline, cancel, end of the asker, refusal:      | pushed onto done,
 *      | the owner of the asker's S                        | L requested
 *      v                                                   v
 *    ENDED ------------------> ended <------ look_up() of the asker's next turn
 *
 * One CAS on `word` decides; whoever wins it writes the outcome. The owner of
 * the asker then runs the continuation, in a turn of the asker, before its next
 * message and after the callback that is running.
 *
 * The deadlines of an asker share one alarm, which stays set when operations
 * end in time: it is moved when it has fired, not for every ask.
 *
 * An ask that its target has handled without an answer hangs in a list of that
 * target (`held`), under the lock of its cell, so that its death ends it.
 *
 * Operations and askers lie in pools that are never unmapped: a ref of any age
 * can be looked at, and an alarm that fires late. The
 * generation of a ref is a count of the block's uses that went
 * through a permutation with keys of the system: no generation comes twice, and
 * who has seen some cannot count on to the next. That keeps out guesses and
 * accidents; it is no cryptography.
 *
 * Invariants
 *   O1  An operation that is TAKEN is pushed onto `done` of its asker, which
 *       lives until then: its end waits for those (open counts them).
 *   O2  The block is given back by the owner of the asker's S alone, after it
 *       has been taken out of the heap and of the list of who holds it.
 *   O3  An operation is in a list of cell h <=> word says h, but for the time
 *       that the lock of h is held; and when h has died it is in none.
 *
 * Pairs
 *   op.word     store of PENDING -> CAS to TAKEN: asker, kind. CAS of the
 *               holder -> load of word by the owner, who then locks.
 *   op.done     CAS that pushes -> swap that takes them all: the answer.
 *   op.fired    store by the alarm -> load by the owner, after L.
 *   op.signal   store by who took it -> load by the thread that waits: the
 *               answer.
 */

#include <troupe/ask.h>

#include "actor/message.h"
#include "sched/alarm.h"

/* word: |generation 32|cell of the holder 24|state 8| */
#define TRP_OP_FREE UINT64_C(0)
#define TRP_OP_PENDING UINT64_C(1)
#define TRP_OP_TAKEN UINT64_C(2)
#define TRP_OP_ENDED UINT64_C(3)
#define TRP_OP_STATE UINT64_C(255)
#define TRP_OP_HOLDER_SHIFT 8
#define TRP_OP_HOLDER ((UINT64_C(1) << 24) - 1)

enum trp_op_kind {
    TRP_OP_ASK,   /* its deadline is E_TIMEOUT */
    TRP_OP_SLEEP, /* its deadline is what it is for */
    TRP_OP_STOP,  /* ends with E_DEAD; item.payload: of whom */
    TRP_OP_GATHER /* shows its parts, however it ends; actor/gather.h */
};

struct trp_op {
    TRP_ATOMIC(uint64_t) word;
    troupe_then_fn fn; /* owner; constant while it is open */
    /* who took it */
    struct trp_item item; /* the answer; mark 0 = none */
    /* owner */
    void *user;
    uint64_t sender; /* packed: whom the continuation answers */
    uint64_t start_ns, due_ns;
    /* under the lock of the holder's cell */
    struct trp_op *held_next;
    struct trp_op **held_link; /* NULL = in no list */
    /* owner: the heap, as units */
    uint32_t child, sibling, above;
    TRP_ATOMIC(uint32_t) link;  /* next of done, of ended; or the signal */
    TRP_ATOMIC(uint32_t) asker; /* unit; 0 = a thread waits; constant, open */
    uint32_t uses;              /* owner of the block */
    bool in_heap : 1;           /* owner, these three */
    bool awaited : 1;           /* its asker is parked until it ends */
    bool inner : 1;             /* part of one that may be awaited */
    uint8_t kind;               /* enum trp_op_kind; owner */
    int8_t status;              /* who ended it */
    int32_t code;               /* with status; the owner alone */
};

_Static_assert(sizeof(struct trp_op) == 128, "a block of the pool");

struct trp_asker {
    TRP_ATOMIC(uint64_t) ref; /* packed: whom to wake; constant in a life */
    struct trp_alarm alarm;
    TRP_ATOMIC(uint32_t) done; /* unit; any thread pushes, owner takes all */
    TRP_ATOMIC(uint32_t) fired;
    /* owner of the actor's S */
    uint64_t alarm_ns;          /* when it will fire; NEVER = not set */
    uint32_t soonest;           /* unit; root of the heap */
    uint32_t open;              /* operations that are not given back */
    uint32_t ended, ended_last; /* units */
    uint32_t first_last;        /* of those in `ended` that go first; or 0 */
    bool is_ending;             /* nothing can be started */
};

#define TRP_ASKER_SHIFT 7
_Static_assert(sizeof(struct trp_asker) <= 1 << TRP_ASKER_SHIFT, "a block");

static inline struct trp_op *
trp_op_at(const struct trp_core *core, uint32_t unit)
{
    return trp_pool_address(&core->ops, unit);
}

static inline uint32_t
trp_op_unit(const struct trp_core *core, const struct trp_op *op)
{
    return trp_pool_unit(&core->ops, op);
}

/* The address of an operation that is the caller's, packed and as it is. */
static inline uint64_t
trp_op_address(const struct trp_core *core, struct trp_op *op)
{
    /* relaxed: it does not change while it is ours. */
    return (trp_load_relaxed(&op->word) & ~(uint64_t)UINT32_MAX) |
           TRP_PROMISE_INDEX | trp_op_unit(core, op);
}

static inline uint64_t
trp_op_ticket(const struct trp_core *core, struct trp_op *op)
{
    return trp_op_address(core, op) & ~(uint64_t)TRP_PROMISE_INDEX;
}

static inline troupe_ref
trp_op_ref(const struct trp_core *core, struct trp_op *op)
{
    return trp_ref_unpack(trp_op_address(core, op));
}

/* --- any thread ----------------------------------------------------------- */

/*
 * Ends the operation that `to` names with this message, which is its then.
 * E_DEAD: there is none, or it has ended.
 */
troupe_status trp_promise_deliver(struct trp_core *core,
    struct trp_local *local, troupe_ref to, const struct trp_item *item);
/* The same without a message; false: there is none, or it has ended. */
bool trp_promise_fail(struct trp_core *core, struct trp_local *local,
    troupe_ref to, troupe_status status);

/* What a ref or a ticket may be about; look at word next. NULL: nothing. */
static inline struct trp_op *
trp_op_look(struct trp_core *core, uint32_t unit)
{
    return TRP_LIKELY(
               unit != 0 && unit < trp_load_acquire(/* pairs: pool.commit */
                                       &core->ops.class[0].committed))
               ? trp_op_at(core, unit)
               : NULL;
}

/* Somebody may still answer. */
static inline bool
trp_promise_is_open(struct trp_core *core, troupe_ref promise)
{
    struct trp_op *op = trp_op_look(core, promise.index & ~TRP_PROMISE_INDEX);
    uint64_t word =
        op != NULL ? trp_load_acquire(&op->word) : 0; /* pairs: op.word */

    return word >> 32 == promise.generation &&
           (word & TRP_OP_STATE) == TRP_OP_PENDING;
}

/*
 * A question whose asker has his outcome already, of a type that is not handled
 * then. A deadline that has passed counts when the asker has seen it: until
 * then the answer would still be his. Who owns the mailbox that it was in.
 */
static inline bool
trp_item_is_expired(struct trp_core *core, const struct trp_item *item)
{
    return (item->mark & TRP_MARK_ASK) != 0 &&
           TRP_UNLIKELY(
               (trp_mark_type(item->mark)->flags & TROUPE_MSG_EXPIRES) != 0) &&
           !trp_promise_is_open(core, trp_ref_unpack(item->sender));
}

/* --- the owner of S of the asker, or the thread that waits ---------------- */

/*
 * A new one, PENDING, for the actor that runs, with deadline `timeout_ns`; NULL
 * with `*status` = E_NOMEM, or E_STATE: the actor is ending.
 */
struct trp_op *trp_op_open(struct troupe_self *self, const char *call,
    uint64_t timeout_ns, troupe_continuation then, troupe_status *status);
/* One that a foreign thread waits for. NULL: no memory. */
struct trp_op *trp_op_open_foreign(struct trp_core *core);
/* Nobody has got its address: as if it had never been. */
void trp_op_discard(struct troupe_self *self, struct trp_op *op);
static inline bool
trp_op_is_pending(struct trp_op *op)
{
    return (trp_load_acquire(&op->word) & TRP_OP_STATE) == /* pairs: op.word */
           TRP_OP_PENDING;
}
/* PENDING -> ENDED. False: somebody has taken it. */
bool trp_op_end(struct trp_op *op);
/* The same, and its continuation is due after the present callback. */
bool trp_op_end_with(
    struct troupe_self *self, struct trp_op *op, troupe_status status);
/* Gives the block of a foreign thread back; its item was taken care of. */
void trp_op_close_foreign(
    struct trp_core *core, struct trp_local *local, struct trp_op *op);

/* An operation of the running actor that has not ended; or NULL. */
struct trp_op *trp_op_find(struct troupe_self *self, troupe_ticket ticket);

/* The actor is parked from its present callback on until this has ended. */
void trp_op_await(struct troupe_self *self, struct trp_op *op);
/* Its continuation may run while another one is awaited. */
void trp_op_make_inner(struct troupe_self *self, struct trp_op *op);

/*
 * What has ended since is put in line. The continuation at its head, taken out:
 * NULL: there is none, or the actor is parked for another one.
 */
struct trp_op *trp_op_next(
    struct troupe_self *self, struct trp_asker *asker, struct trp_cell *cell);

/* Nothing has ended; L says when there is more. Owner of S. */
static inline bool
trp_ops_are_quiet(const struct trp_asker *asker)
{
    /* relaxed, both: after L was seen, or a glance. */
    return asker->ended == 0 && trp_load_relaxed(&asker->done) == 0 &&
           trp_load_relaxed(&asker->fired) == 0;
}

/* NULL: the actor has never begun anything. */
static inline struct trp_asker *
trp_asker_of(const struct trp_core *core, struct trp_cell *cell)
{
    struct trp_extra *extra = trp_load_acquire(
        &trp_cold_of(core, cell)->extra); /* pairs: cell.extra */

    return extra != NULL ? extra->asker : NULL;
}

/* The one that trp_op_next() gave comes first the next time. */
void trp_op_not_yet(struct troupe_self *self, struct trp_op *op);

/*
 * A copy of what its continuation needs, so that the block can be used again
 * by what that starts.
 */
struct trp_outcome {
    troupe_then_fn fn;
    void *user;
    bool has_answer;
    troupe_msg *view; /* of the two below, what a dead letter shows */
    uint32_t spent;   /* TRP_SPENT_* */
    struct trp_item item;
    troupe_msg answer;  /* as it came */
    troupe_msg current; /* what calls about the current message see */
    troupe_result result;
};
/* `is_over`: the actor ends; an answer that came before that is not shown. */
void trp_op_finish(struct troupe_self *self, struct trp_op *op, bool is_over,
    struct trp_outcome *outcome);
/* Runs it as a callback of the actor. The caller judges the verdict. */
troupe_verdict trp_outcome_run(
    struct troupe_self *self, void *state, struct trp_outcome *outcome);
/* Of an actor that has begun some; else as trp_ops_end(). */
bool trp_ops_end_all(
    struct troupe_self *self, struct trp_cell *cell, struct trp_asker *asker);

/*
 * The actor ends, or restarts: all continuations run, those of what is open
 * with E_CANCELLED (E_CLOSED: with its system). False: an answer is just being
 * written; call again a little later.
 */
static inline bool
trp_ops_end(struct troupe_self *self, struct trp_cell *cell)
{
    struct trp_asker *asker = trp_asker_of(self->core, cell);

    return TRP_LIKELY(asker == NULL) || trp_ops_end_all(self, cell, asker);
}

/* It has gone. */
void trp_asker_free(struct trp_core *core, struct trp_asker *asker);

/* --- who answers ---------------------------------------------------------- */

/*
 * The death of `holder` ends the operation: it has handled a question and kept
 * it. Nothing if that has ended. E_DEAD: he has gone; E_NOMEM. Any thread.
 */
troupe_status trp_op_hold(
    struct trp_core *core, troupe_ref holder, troupe_ref promise);
/* It is handed to somebody else. */
void trp_op_unhold(struct trp_core *core, troupe_ref promise);
/* An actor has gone: what it held ends. Its cell's life is over. */
void trp_ops_bury(struct trp_core *core, struct trp_local *local,
    struct trp_cold *cold, struct trp_extra *extra);

#endif /* TRP_ACTOR_OP_H */
