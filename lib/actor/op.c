/* SPDX-License-Identifier: MIT */
#include "actor/op.h"

#include "actor/gather.h"
#include "actor/mailbox.h"
#include "actor/stop.h"
#include "os/futex.h"

/* --- by deadline: a pairing heap ------------------------------------------ */

static struct trp_op *
op_at(const struct trp_core *core, uint32_t unit)
{
    return trp_op_at(core, unit);
}

/* Both are roots. */
static uint32_t
meld(const struct trp_core *core, uint32_t a, uint32_t b)
{
    uint32_t top = a, below = b;

    if (a == 0 || b == 0) {
        return a + b;
    }
    if (op_at(core, b)->due_ns < op_at(core, a)->due_ns) {
        top = b;
        below = a;
    }
    op_at(core, below)->above = top;
    op_at(core, below)->sibling = op_at(core, top)->child;
    if (op_at(core, top)->child != 0) {
        op_at(core, op_at(core, top)->child)->above = below;
    }
    op_at(core, top)->child = below;
    return top;
}

/* Siblings become one heap: in pairs, then one after the other. */
static uint32_t
meld_all(const struct trp_core *core, uint32_t first)
{
    uint32_t pairs = 0, root = 0;

    while (first != 0) {
        uint32_t a = first;
        uint32_t b = op_at(core, a)->sibling;

        first = b != 0 ? op_at(core, b)->sibling : 0;
        op_at(core, a)->sibling = op_at(core, a)->above = 0;
        if (b != 0) {
            op_at(core, b)->sibling = op_at(core, b)->above = 0;
            a = meld(core, a, b);
        }
        op_at(core, a)->sibling = pairs;
        pairs = a;
    }
    while (pairs != 0) {
        uint32_t next = op_at(core, pairs)->sibling;

        op_at(core, pairs)->sibling = 0;
        root = meld(core, root, pairs);
        pairs = next;
    }
    return root;
}

TRP_INLINE void
heap_add(struct trp_core *core, struct trp_asker *asker, struct trp_op *op)
{
    op->child = op->sibling = op->above = 0;
    op->in_heap = true;
    asker->soonest = TRP_LIKELY(asker->soonest == 0)
                         ? trp_op_unit(core, op)
                         : meld(core, asker->soonest, trp_op_unit(core, op));
}

static void
heap_remove(struct trp_core *core, struct trp_asker *asker, struct trp_op *op)
{
    uint32_t unit = trp_op_unit(core, op);

    op->in_heap = false;
    if (TRP_LIKELY(asker->soonest == unit)) {
        asker->soonest = op->child != 0 ? meld_all(core, op->child) : 0;
        return;
    }
    if (op_at(core, op->above)->child == unit) {
        op_at(core, op->above)->child = op->sibling;
    } else {
        op_at(core, op->above)->sibling = op->sibling;
    }
    if (op->sibling != 0) {
        op_at(core, op->sibling)->above = op->above;
    }
    asker->soonest = meld(core, asker->soonest, meld_all(core, op->child));
}

/* --- blocks --------------------------------------------------------------- */

/* A bijection; the keys are odd where they multiply. */
static uint32_t
generation_of(const struct trp_core *core, uint32_t unit, uint32_t uses)
{
    uint32_t x = uses + unit * UINT32_C(0x9e3779b9);

    x = (x ^ core->op_keys[0]) * (core->op_keys[1] | 1);
    x = (x ^ x >> 15) * (core->op_keys[2] | 1);
    return x ^ x >> 16 ^ core->op_keys[3];
}

static struct trp_pool_cache *
cache_of(struct trp_local *local)
{
    return local != NULL ? &local->ops : NULL;
}

static struct trp_op *
new_op(struct trp_core *core, struct trp_local *local, uint32_t asker)
{
    uint32_t unit = trp_pool_take(&core->ops, cache_of(local), 0);
    struct trp_op *op;

    if (TRP_UNLIKELY(unit == TRP_POOL_NONE)) {
        return NULL;
    }
    op = op_at(core, unit);
    op->uses++;
    op->item.mark = 0;
    op->held_link = NULL;
    op->kind = TRP_OP_ASK;
    op->awaited = op->inner = op->in_heap = false;
    op->code = 0;
    trp_store_relaxed(&op->link, 0);      /* relaxed: published by word */
    trp_store_relaxed(&op->asker, asker); /* relaxed: same */
    trp_store_release(&op->word,          /* pairs: op.word */
        (uint64_t)generation_of(core, unit, op->uses) << 32 | TRP_OP_PENDING);
    return op;
}

static void
unlink_held(struct trp_op *op)
{
    if (op->held_link != NULL) {
        *op->held_link = op->held_next;
        if (op->held_next != NULL) {
            op->held_next->held_link = op->held_link;
        }
        op->held_link = NULL;
    }
}

static uint32_t
holder_of(uint64_t word)
{
    return (uint32_t)(word >> TRP_OP_HOLDER_SHIFT & TRP_OP_HOLDER);
}

/* O2 */
static void
free_op(struct trp_core *core, struct trp_local *local, struct trp_op *op)
{
    uint64_t word = trp_load_acquire(&op->word); /* pairs: op.word */
    uint32_t holder = holder_of(word);

    if (TRP_UNLIKELY(holder != 0)) {
        struct trp_lock *lock = &core->cold[holder].lock;

        trp_lock_acquire(lock);
        unlink_held(op);
        trp_lock_release(lock);
    }
    /* relaxed: only its owner asks whether it is free. */
    trp_store_relaxed(&op->word, word >> 32 << 32 | TRP_OP_FREE);
    if (TRP_LIKELY(op->uses != UINT32_MAX)) { /* else: never again */
        trp_pool_give(&core->ops, cache_of(local), trp_op_unit(core, op));
    }
}

/* --- who ends it from outside --------------------------------------------- */

/* The caller is the one who ends it; NULL: there is none, or it has ended. */
static struct trp_op *
take(struct trp_core *core, troupe_ref to)
{
    struct trp_op *op = trp_ref_is_promise(to)
                            ? trp_op_look(core, to.index & ~TRP_PROMISE_INDEX)
                            : NULL;
    uint64_t word;

    if (op == NULL) {
        return NULL;
    }
    word = trp_load_acquire(&op->word); /* pairs: op.word */
    do {
        if ((word >> 32) != to.generation ||
            (word & TRP_OP_STATE) != TRP_OP_PENDING) {
            return NULL;
        }
    } while (!trp_cas_acq_rel(&op->word, /* pairs: op.word */
        &word, word ^ TRP_OP_PENDING ^ TRP_OP_TAKEN));
    return op;
}

/* TAKEN and written: to whoever has asked. */
static void
hand_over(struct trp_core *core, struct trp_local *local, struct trp_op *op)
{
    /* relaxed: constant while it is open. */
    uint32_t unit = trp_load_relaxed(&op->asker);
    struct trp_asker *asker;
    troupe_ref ref;
    uint32_t head;

    if (unit == 0) {
        trp_store_release(&op->link, 1); /* pairs: op.signal */
        trp_futex_wake(&op->link, 1);    /* may be another life: no harm */
        return;
    }
    asker = trp_pool_address(&core->askers, unit);
    /* relaxed: constant while it has operations; O1. */
    ref = trp_ref_unpack(trp_load_relaxed(&asker->ref));
    head = trp_load_relaxed(&asker->done); /* relaxed: the CAS tells */
    do {
        trp_store_relaxed(&op->link, head); /* relaxed: published by done */
    } while (!trp_cas_acq_rel(&asker->done, /* pairs: op.done */
        &head, trp_op_unit(core, op)));
    (void)trp_mailbox_request(core, local, ref, TRP_RING_SIGNAL);
}

troupe_status
trp_promise_deliver(struct trp_core *core, struct trp_local *local,
    troupe_ref to, const struct trp_item *item)
{
    /* A stop that waits in line is for actors. */
    struct trp_op *op =
        (item->mark & TRP_MARK_CONTROL) == 0 ? take(core, to) : NULL;

    if (op == NULL) {
        return TROUPE_E_DEAD;
    }
    trp_item_assign(&op->item, item);
    op->status = TROUPE_OK;
    trp_book(core, local, answers, 1);
    hand_over(core, local, op);
    return TROUPE_OK;
}

static void
fail(struct trp_core *core, struct trp_local *local, struct trp_op *op,
    troupe_status status)
{
    op->item.mark = 0;
    op->status = (int8_t)status;
    hand_over(core, local, op);
}

bool
trp_promise_fail(struct trp_core *core, struct trp_local *local, troupe_ref to,
    troupe_status status)
{
    struct trp_op *op = take(core, to);

    if (op != NULL) {
        fail(core, local, op, status);
    }
    return op != NULL;
}

/* --- who has the request -------------------------------------------------- */

void
trp_op_unhold(struct trp_core *core, troupe_ref promise)
{
    struct trp_op *op = trp_op_look(core, promise.index & ~TRP_PROMISE_INDEX);
    uint64_t word =
        op != NULL ? trp_load_acquire(&op->word) : 0; /* pairs: op.word */
    uint32_t holder = holder_of(word);
    struct trp_lock *lock = &core->cold[holder].lock;

    if (word >> 32 != promise.generation || holder == 0) {
        return;
    }
    trp_lock_acquire(lock);
    word = trp_load_acquire(&op->word); /* pairs: op.word */
    if (word >> 32 == promise.generation && holder_of(word) == holder &&
        (word & TRP_OP_STATE) == TRP_OP_PENDING) {
        /* While the word says holder nobody gives the block back without the
         * lock; when it does not any more, it is not ours to look at. */
        unlink_held(op);
        while (!trp_cas_acq_rel(&op->word, &word, /* pairs: op.word */
            word & ~(TRP_OP_HOLDER << TRP_OP_HOLDER_SHIFT))) {
        }
    }
    trp_lock_release(lock);
}

troupe_status
trp_op_hold(struct trp_core *core, troupe_ref holder, troupe_ref promise)
{
    struct trp_op *op = trp_op_look(core, promise.index & ~TRP_PROMISE_INDEX);
    troupe_status status = TROUPE_E_DEAD;
    struct trp_cell *cell;
    struct trp_cold *cold;
    uint64_t word;

    trp_op_unhold(core, promise);
    if (op == NULL || !trp_ref_lives(core, holder)) {
        return status;
    }
    cell = trp_cell_at(core, holder.index);
    cold = trp_cold_of(core, cell);
    trp_lock_acquire(&cold->lock);
    if (trp_cell_life(cell) == holder.generation && trp_cell_is_visible(cell)) {
        struct trp_extra *extra = trp_cell_extra_locked(core, cold);

        status = extra != NULL ? TROUPE_OK : TROUPE_E_NOMEM;
        word = trp_load_acquire(&op->word); /* pairs: op.word */
        while (extra != NULL && word >> 32 == promise.generation &&
               holder_of(word) == 0 &&
               (word & TRP_OP_STATE) == TRP_OP_PENDING) {
            if (trp_cas_acq_rel(&op->word, &word, /* pairs: op.word */
                    word | (uint64_t)holder.index << TRP_OP_HOLDER_SHIFT)) {
                op->held_next = extra->held;
                op->held_link = &extra->held;
                if (extra->held != NULL) {
                    extra->held->held_link = &op->held_next;
                }
                extra->held = op;
                break;
            }
        }
    }
    trp_lock_release(&cold->lock);
    return status;
}

void
trp_ops_bury(struct trp_core *core, struct trp_local *local,
    struct trp_cold *cold, struct trp_extra *extra)
{
    for (;;) {
        struct trp_op *op;
        bool is_ours = false;
        uint64_t word;

        trp_lock_acquire(&cold->lock);
        op = extra->held;
        if (op == NULL) {
            trp_lock_release(&cold->lock);
            return;
        }
        unlink_held(op);
        word = trp_load_acquire(&op->word); /* pairs: op.word */
        while (!is_ours && (word & TRP_OP_STATE) == TRP_OP_PENDING) {
            is_ours = trp_cas_acq_rel(&op->word, /* pairs: op.word */
                &word, word ^ TRP_OP_PENDING ^ TRP_OP_TAKEN);
        }
        trp_lock_release(&cold->lock);
        if (is_ours) {
            fail(core, local, op, TROUPE_E_DEAD);
        }
    }
}

/* --- the owner: begin ----------------------------------------------------- */

static void
ring(struct trp_worker *worker, struct trp_alarm *alarm)
{
    struct trp_asker *asker = TRP_CONTAINER_OF(alarm, struct trp_asker, alarm);
    struct trp_local *local = worker->local;

    trp_store_release(&asker->fired, 1); /* pairs: op.fired */
    /* relaxed: of whoever has it now; he looks once for nothing. */
    (void)trp_mailbox_request(local->self.core, local,
        trp_ref_unpack(trp_load_relaxed(&asker->ref)), TRP_RING_SIGNAL);
}

TRP_COLD static struct trp_asker *
make_asker(struct troupe_self *self)
{
    struct trp_core *core = self->core;
    struct trp_extra *extra = trp_cell_extra(core, self->cell);
    struct trp_asker *asker;
    uint32_t unit;

    if (extra == NULL) {
        return NULL;
    }
    unit = trp_pool_take(&core->askers, NULL, 0);
    if (unit == TRP_POOL_NONE) {
        return NULL;
    }
    asker = trp_pool_address(&core->askers, unit);
    /* relaxed, all of them: before the first operation, or a late alarm. */
    trp_store_relaxed(&asker->ref, trp_ref_pack(self->ref));
    trp_store_relaxed(&asker->done, 0);  /* relaxed: same */
    trp_store_relaxed(&asker->fired, 0); /* relaxed: same */
    asker->alarm.fire = ring;
    asker->alarm_ns = TRP_ALARM_NEVER;
    asker->soonest = asker->open = asker->ended = asker->ended_last = 0;
    asker->first_last = 0;
    asker->is_ending = false;
    extra->asker = asker;
    return asker;
}

void
trp_asker_free(struct trp_core *core, struct trp_asker *asker)
{
    if (asker != NULL) {
        if (asker->alarm_ns != TRP_ALARM_NEVER) {
            (void)trp_alarm_cancel(&core->sched, &asker->alarm);
        }
        trp_pool_give(&core->askers, NULL, trp_pool_unit(&core->askers, asker));
    }
}

/* As trp_alarm_now(), for what happens often. */
TRP_INLINE uint64_t
now(struct troupe_self *self)
{
    return TRP_UNLIKELY(self->core->sched.alarms.virtual_ns != NULL)
               ? trp_alarm_now(&self->core->sched)
               : trp_clock_quick(&self->local->clock);
}

/* Without a clock that could be a little behind, nothing is early. */
static uint64_t
due_after(const struct troupe_self *self, uint64_t start_ns, uint64_t delay_ns)
{
    uint64_t slack_ns =
        self->core->sched.alarms.virtual_ns == NULL ? TRP_QUICK_SLACK_NS : 0;

    return trp_clock_after(start_ns + slack_ns, delay_ns);
}

/* The alarm fires in time for the soonest one. */
static void
set_alarm(struct trp_core *core, struct trp_asker *asker, uint64_t due_ns)
{
    if (TRP_UNLIKELY(due_ns < asker->alarm_ns)) {
        asker->alarm_ns = due_ns;
        (void)trp_alarm_set(&core->sched, &asker->alarm, due_ns);
    }
}

struct trp_op *
trp_op_open(struct troupe_self *self, const char *call, uint64_t timeout_ns,
    troupe_continuation then, troupe_status *status)
{
    struct trp_core *core = self->core;
    struct trp_asker *asker = trp_asker_of(core, self->cell);
    struct trp_op *op;

    if (TRP_UNLIKELY(asker == NULL)) {
        asker = make_asker(self);
    }
    if (TRP_UNLIKELY((trp_cell_flags(self->cell) &
                         (TRP_CELL_STOPPING | TRP_CELL_RESTARTING)) != 0 ||
                     (asker != NULL && asker->is_ending))) {
        *status = trp_refuse(TROUPE_E_STATE, call, "self",
            "is stopping and cannot begin anything", "%u", self->ref.index);
        return NULL;
    }
    op = asker != NULL
             ? new_op(core, self->local, trp_pool_unit(&core->askers, asker))
             : NULL;
    if (TRP_UNLIKELY(op == NULL)) {
        *status = TROUPE_E_NOMEM;
        return NULL;
    }
    op->fn = then.fn;
    op->user = then.user;
    op->sender = trp_ref_pack(troupe_sender(self));
    op->start_ns = now(self);
    op->due_ns = due_after(self, op->start_ns,
        timeout_ns != TROUPE_TIMEOUT_DEFAULT ? timeout_ns
                                             : core->ask_timeout_ns);
    asker->open++;
    heap_add(core, asker, op);
    set_alarm(core, asker, op->due_ns);
    *status = TROUPE_OK;
    return op;
}

void
trp_op_discard(struct troupe_self *self, struct trp_op *op)
{
    struct trp_asker *asker = trp_asker_of(self->core, self->cell);

    heap_remove(self->core, asker, op);
    asker->open--;
    free_op(self->core, self->local, op);
}

struct trp_op *
trp_op_open_foreign(struct trp_core *core)
{
    return new_op(core, NULL, 0);
}

void
trp_op_close_foreign(
    struct trp_core *core, struct trp_local *local, struct trp_op *op)
{
    free_op(core, local, op);
}

/* --- the owner: end ------------------------------------------------------- */

bool
trp_op_end(struct trp_op *op)
{
    uint64_t word = trp_load_acquire(&op->word); /* pairs: op.word */

    while ((word & TRP_OP_STATE) == TRP_OP_PENDING) {
        if (trp_cas_acq_rel(&op->word, &word, /* pairs: op.word */
                word ^ TRP_OP_PENDING ^ TRP_OP_ENDED)) {
            return true;
        }
    }
    return false;
}

static uint32_t
next_of(struct trp_op *op)
{
    return trp_load_relaxed(&op->link); /* relaxed: the owner's by now */
}

/* Into the line, behind `before`; 0: as its head. */
static void
enter_line(struct trp_core *core, struct trp_asker *asker, struct trp_op *op,
    uint32_t before)
{
    uint32_t unit = trp_op_unit(core, op);
    uint32_t after = before != 0 ? next_of(op_at(core, before)) : asker->ended;

    trp_store_relaxed(&op->link, after); /* relaxed: the owner's */
    if (before != 0) {
        trp_store_relaxed(&op_at(core, before)->link, unit); /* relaxed: same */
    } else {
        asker->ended = unit;
    }
    if (after == 0) {
        asker->ended_last = unit;
    }
}

/*
 * Its continuation runs after those before it. One that is awaited, or part of
 * one that may be, goes before the others, but behind those of its kind.
 */
static void
put_in_line(struct trp_core *core, struct trp_asker *asker, struct trp_op *op)
{
    if (op->in_heap) {
        heap_remove(core, asker, op);
    }
    if (op->awaited || op->inner) {
        enter_line(core, asker, op, asker->first_last);
        asker->first_last = trp_op_unit(core, op);
    } else {
        enter_line(core, asker, op, asker->ended != 0 ? asker->ended_last : 0);
    }
}

/* Out of the middle of the line. False: it is not there. */
static bool
leave_line(struct trp_core *core, struct trp_asker *asker, struct trp_op *op)
{
    uint32_t unit = trp_op_unit(core, op);
    uint32_t before = 0, at = asker->ended;

    while (at != 0 && at != unit) {
        before = at;
        at = next_of(op_at(core, at));
    }
    if (at == 0) {
        return false;
    }
    if (before == 0) {
        asker->ended = next_of(op);
    } else {
        trp_store_relaxed(&op_at(core, before)->link, /* relaxed: owner's */
            next_of(op));
    }
    if (asker->ended_last == unit) {
        asker->ended_last = before;
    }
    if (asker->first_last == unit) {
        asker->first_last = before;
    }
    return true;
}

static bool
end_with(struct troupe_self *self, struct trp_asker *asker, struct trp_op *op,
    troupe_status status)
{
    if (!trp_op_end(op)) {
        return false; /* O1: it comes by way of done */
    }
    op->status = (int8_t)status;
    if (TRP_UNLIKELY(op->kind == TRP_OP_GATHER)) {
        trp_gather_end(self, op);
    }
    put_in_line(self->core, asker, op);
    return true;
}

bool
trp_op_end_with(
    struct troupe_self *self, struct trp_op *op, troupe_status status)
{
    self->after |= TRP_AFTER_OPS;
    return end_with(self, trp_asker_of(self->core, self->cell), op, status);
}

struct trp_op *
trp_op_find(struct troupe_self *self, troupe_ticket ticket)
{
    struct trp_core *core = self->core;
    struct trp_asker *asker = trp_asker_of(core, self->cell);
    struct trp_op *op = trp_op_look(core, (uint32_t)ticket.id);
    uint64_t word;

    if (op == NULL || asker == NULL ||
        /* relaxed: of an operation of this actor it is what it was. */
        trp_load_relaxed(&op->asker) != trp_pool_unit(&core->askers, asker)) {
        return NULL;
    }
    word = trp_load_acquire(&op->word); /* pairs: op.word */
    return word >> 32 == ticket.id >> 32 && (word & TRP_OP_STATE) != TRP_OP_FREE
               ? op
               : NULL;
}

void
trp_op_await(struct troupe_self *self, struct trp_op *op)
{
    struct trp_asker *asker = trp_asker_of(self->core, self->cell);

    op->awaited = true;
    trp_cell_set_flags(
        self->cell, trp_cell_flags(self->cell) | TRP_CELL_AWAITING);
    self->after |= TRP_AFTER_OPS;
    if (leave_line(self->core, asker, op)) {
        put_in_line(self->core, asker, op);
    }
}

void
trp_op_make_inner(struct troupe_self *self, struct trp_op *op)
{
    struct trp_asker *asker = trp_asker_of(self->core, self->cell);

    op->inner = true;
    if (leave_line(self->core, asker, op)) {
        put_in_line(self->core, asker, op);
    }
}

/* What others have ended, oldest first. */
static void
gather_done(struct trp_core *core, struct trp_asker *asker)
{
    uint32_t unit, first = 0;

    if (trp_load_relaxed(&asker->done) == 0) { /* relaxed: after L was seen */
        return;
    }
    unit = trp_swap_acq_rel(&asker->done, 0); /* pairs: op.done */
    while (unit != 0) {
        struct trp_op *op = op_at(core, unit);
        uint32_t next = next_of(op);

        trp_store_relaxed(&op->link, first); /* relaxed: the owner's */
        first = unit;
        unit = next;
    }
    while (first != 0) {
        struct trp_op *op = op_at(core, first);

        first = next_of(op);
        put_in_line(core, asker, op);
    }
}

/* The alarm has fired. */
TRP_COLD static void
gather_late(struct troupe_self *self, struct trp_asker *asker)
{
    struct trp_core *core = self->core;
    uint64_t now_ns = trp_alarm_now(&core->sched);

    trp_store_relaxed(&asker->fired, 0); /* relaxed: before the next is set */
    asker->alarm_ns = TRP_ALARM_NEVER;
    while (asker->soonest != 0) {
        struct trp_op *op = op_at(core, asker->soonest);

        if (op->due_ns > now_ns) {
            set_alarm(core, asker, op->due_ns);
            return;
        }
        if (!end_with(self, asker, op,
                op->kind == TRP_OP_SLEEP ? TROUPE_OK : TROUPE_E_TIMEOUT)) {
            heap_remove(core, asker, op);
        }
    }
}

struct trp_op *
trp_op_next(
    struct troupe_self *self, struct trp_asker *asker, struct trp_cell *cell)
{
    struct trp_core *core = self->core;
    struct trp_op *op;

    gather_done(core, asker);
    if (TRP_UNLIKELY(trp_load_acquire(&asker->fired) != 0)) { /* pairs:
                                                                 op.fired */
        gather_late(self, asker);
    }
    if (asker->ended == 0) {
        return NULL;
    }
    op = op_at(core, asker->ended);
    if (TRP_UNLIKELY((trp_cell_flags(cell) & TRP_CELL_AWAITING) != 0)) {
        if (!op->awaited && !op->inner) {
            return NULL;
        }
        if (op->awaited) {
            trp_cell_set_flags(
                cell, trp_cell_flags(cell) & ~(uint32_t)TRP_CELL_AWAITING);
        }
    }
    asker->ended = next_of(op);
    if (asker->first_last == trp_op_unit(core, op)) {
        asker->first_last = 0;
    }
    asker->open--;
    return op;
}

void
trp_op_not_yet(struct troupe_self *self, struct trp_op *op)
{
    struct trp_asker *asker = trp_asker_of(self->core, self->cell);

    asker->open++;
    enter_line(self->core, asker, op, 0);
    if (asker->first_last == 0 && (op->awaited || op->inner)) {
        asker->first_last = trp_op_unit(self->core, op);
    }
}

/* --- its continuation ----------------------------------------------------- */

/* Of a graceful stop. Gone is what it is to be. */
static void
finish_stop(struct troupe_self *self, struct trp_outcome *outcome)
{
    if (outcome->result.status == TROUPE_E_DEAD) {
        outcome->result.status = TROUPE_OK;
    } else if (outcome->result.status == TROUPE_E_TIMEOUT) {
        (void)trp_mailbox_request(self->core, self->local,
            trp_ref_unpack(outcome->item.payload[0]), TRP_RING_KILL);
    }
}

/* What the answer says. */
static void
read_answer(struct troupe_self *self, struct trp_outcome *outcome)
{
    trp_book(self->core, self->local, answers, UINT64_MAX);
    trp_item_view(&outcome->item, &outcome->answer);
    outcome->view = &outcome->answer;
    outcome->current.payload = outcome->answer.payload;
    outcome->current.bytes = outcome->answer.bytes;
    outcome->current.type = outcome->answer.type;
    outcome->spent = 0;
    if (TRP_LIKELY(outcome->answer.type->tag != TROUPE_TAG_FAILURE)) {
        outcome->result.msg = &outcome->answer;
    } else {
        const troupe_failure *failure = outcome->answer.payload;

        outcome->result.status = failure->status;
        outcome->result.code = failure->code;
    }
}

/* The quick clock may step back a little. */
static uint64_t
elapsed(uint64_t now_ns, uint64_t start_ns)
{
    return now_ns > start_ns ? now_ns - start_ns : 0;
}

static const troupe_msg_type no_type = {
    sizeof(troupe_msg_type), "", 0, TROUPE_TAG_RESERVED, 0, NULL};

/* What an asker that ends is told of what it has not got. */
static troupe_status
status_at_the_end(const struct trp_core *core)
{
    /* pairs: system.closing */
    return trp_load_acquire(&core->closing) != 0 ? TROUPE_E_CLOSED
                                                 : TROUPE_E_CANCELLED;
}

/* It has come, but nobody will look at it. */
static void
lose_answer(struct troupe_self *self, struct trp_outcome *outcome)
{
    trp_dead_letter(self->core, self->local, self->ref, &outcome->answer,
        trp_item_box_or_null(&outcome->item), TROUPE_DEAD_STOPPED);
    trp_item_release(self->local, &outcome->item);
    outcome->result.status = status_at_the_end(self->core);
    outcome->result.code = 0;
    outcome->result.msg = NULL;
    outcome->spent = TRP_SPENT_TAKEN;
}

void
trp_op_finish(struct troupe_self *self, struct trp_op *op, bool is_over,
    struct trp_outcome *outcome)
{
    struct trp_core *core = self->core;

    outcome->fn = op->fn;
    outcome->user = op->user;
    trp_item_assign(&outcome->item, &op->item);
    outcome->has_answer = op->item.mark != 0;
    outcome->view = &outcome->current;
    outcome->spent = TRP_SPENT_TAKEN; /* there is nothing to take */
    outcome->current =
        (troupe_msg){.type = &no_type, .sender = trp_ref_unpack(op->sender)};
    outcome->result = (troupe_result){.status = (troupe_status)op->status,
        .code = op->code,
        .elapsed_ns = elapsed(now(self), op->start_ns)};
    if (TRP_LIKELY(outcome->has_answer)) {
        read_answer(self, outcome);
        if (TRP_LIKELY(!is_over) || op->kind == TRP_OP_GATHER) {
            trp_book(core, self->local, handled, 1);
        } else {
            lose_answer(self, outcome);
        }
        if (TRP_UNLIKELY(is_over && outcome->result.status == TROUPE_OK)) {
            outcome->result.status = status_at_the_end(core);
        }
    }
    if (TRP_UNLIKELY(op->kind == TRP_OP_STOP)) {
        finish_stop(self, outcome);
    }
    free_op(core, self->local, op);
}

troupe_verdict
trp_outcome_run(
    struct troupe_self *self, void *state, struct trp_outcome *outcome)
{
    troupe_verdict verdict;

    self->current.msg = &outcome->current;
    self->current.item = &outcome->item;
    self->current.spent = outcome->spent;
    self->code_is_set = false;
    self->in_then = true;
    verdict = outcome->fn(self, state, &outcome->result, outcome->user);
    self->in_then = false;
    self->current.msg = NULL;
    outcome->spent = self->current.spent;
    return verdict;
}

/* --- the end of the asker ------------------------------------------------- */

bool
trp_ops_end_all(
    struct troupe_self *self, struct trp_cell *cell, struct trp_asker *asker)
{
    struct trp_core *core = self->core;
    struct trp_op *op;
    troupe_status over;

    asker->is_ending = true;
    trp_cell_set_flags(
        cell, trp_cell_flags(cell) & ~(uint32_t)TRP_CELL_AWAITING);
    over = status_at_the_end(core);
    while (asker->soonest != 0) {
        op = op_at(core, asker->soonest);
        if (!end_with(self, asker, op, over)) {
            heap_remove(core, asker, op);
        }
    }
    while ((op = trp_op_next(self, asker, cell)) != NULL) {
        struct trp_outcome outcome;

        trp_op_finish(self, op, true, &outcome);
        (void)trp_outcome_run(self, trp_cell_state(cell), &outcome);
        trp_item_settle(self->local, &outcome.item, outcome.spent);
    }
    if (asker->open != 0) {
        return false;
    }
    asker->is_ending = false;
    return true;
}
