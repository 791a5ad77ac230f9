/* SPDX-License-Identifier: MIT */
#include "actor/rules.h"

#include "actor/mailbox.h"
#include "actor/op.h"
#include "actor/route.h"
#include "actor/timers.h"
#include "actor/watch.h"
#include "base/clock.h"

#include <math.h>
#include <string.h>

#define FIRST_SEQUENCE (UINT64_C(1) << 63)

/* --- made and freed ------------------------------------------------------- */

static enum trp_form
form_of(const troupe_mailbox_options *options)
{
    if (options == NULL) {
        return TRP_FORM_PLAIN;
    }
    if (options->custom != NULL) {
        return TRP_FORM_CUSTOM;
    }
    if (options->priority != NULL) {
        return TRP_FORM_ORDERED;
    }
    if (options->capacity != 0 || options->warn_depth != 0) {
        return options->overflow == TROUPE_OVERFLOW_DROP_HEAD
                   ? TRP_FORM_HEAD
                   : TRP_FORM_BOUNDED;
    }
    return TRP_FORM_PLAIN;
}

/* A mailbox that cannot become so deep never says so. */
static uint32_t
warn_of(const struct trp_core *core, const troupe_mailbox_options *options)
{
    uint32_t warn =
        options->warn_depth != 0 ? options->warn_depth : core->deep_from + 1;

    return warn > (uint32_t)INT32_MAX ||
                   (options->capacity != 0 && warn > options->capacity)
               ? UINT32_MAX
               : warn;
}

troupe_status
trp_rules_new(struct trp_core *core, const troupe_mailbox_options *options,
    uint32_t stash_capacity, uint32_t *result)
{
    static const troupe_mailbox_options nothing = {0};
    const troupe_mailbox_options *o = options != NULL ? options : &nothing;
    uint32_t unit = trp_pool_take(&core->rules, NULL, 0);
    struct trp_rules *rules;

    if (unit == TRP_POOL_NONE) {
        return TROUPE_E_NOMEM;
    }
    rules = trp_rules_at(core, unit);
    /* A late sender may hold the lock for a moment, and read: atomics only. */
    trp_store_release(&rules->bound.capacity, /* pairs: rules.life */
        o->capacity != 0 ? o->capacity : UINT32_MAX);
    trp_store_release(&rules->warn, warn_of(core, o)); /* pairs: rules.life */
    /* relaxed: known by the ticket, ring.front. */
    trp_store_relaxed(&rules->bound.front, 0);
    trp_store_relaxed(&rules->length, 0); /* relaxed: under the lock later */
    trp_store_release(&rules->route, TRP_POOL_NONE); /* pairs: rules.life */
    trp_store_release(&rules->counter, NULL);        /* pairs: rules.life */
    trp_store_relaxed(&rules->taken, 0);             /* relaxed: statistic */
    /* pairs: rules.life, all of them. */
    trp_store_release(&rules->form, (uint8_t)form_of(options));
    trp_store_release(
        &rules->overflow, (uint8_t)o->overflow); /* pairs: rules.life */
    trp_store_release(
        &rules->flags, (uint16_t)o->flags);             /* pairs: rules.life */
    trp_store_release(&rules->on_drop, o->on_drop);     /* pairs: rules.life */
    trp_store_release(&rules->drop_user, o->drop_user); /* pairs: rules.life */
    trp_store_release(&rules->priority, o->priority);   /* pairs: rules.life */
    trp_store_release(
        &rules->on_unrankable, o->on_unrankable); /* pairs: rules.life */
    trp_store_release(
        &rules->priority_user, o->priority_user);       /* pairs: rules.life */
    trp_store_release(&rules->ageing_ns, o->ageing_ns); /* pairs: rules.life */
    rules->stops = 0;
    rules->is_barren = false;
    rules->next = rules->first = FIRST_SEQUENCE;
    trp_fifo_init(&rules->queue, &core->heap);
    trp_fifo_init(&rules->kept_queue, &core->heap);
    trp_order_init(&rules->order, &core->heap);
    trp_order_init(&rules->kept_order, &core->heap);
    trp_fifo_init(&rules->stash, &core->heap);
    trp_fifo_init(&rules->replay, &core->heap);
    rules->stash_capacity = stash_capacity;
    trp_store_relaxed(&rules->stashed, 0);      /* relaxed: statistic */
    trp_store_relaxed(&rules->is_throttled, 0); /* relaxed: a look */
    rules->is_alarm_set = false;
    rules->custom = o->custom;
    rules->box = NULL;
    if (o->custom != NULL) {
        rules->box = o->custom->open(o->custom_user);
        if (rules->box == NULL) {
            trp_pool_give(&core->rules, NULL, unit);
            return TROUPE_E_FAILED;
        }
    }
    *result = unit;
    return TROUPE_OK;
}

void
trp_rules_count(struct trp_rules *rules, const struct trp_cell *cell,
    TRP_ATOMIC(uint32_t) * counter, bool counts_handled)
{
    /* relaxed: nobody can reach it. */
    if (trp_load_relaxed(&rules->form) != TRP_FORM_PLAIN) {
        return;
    }
    /* relaxed: the same. */
    rules->told = 0 - trp_load_relaxed(&cell->ring.head);
    rules->counts_handled = counts_handled;
    trp_store_release(&rules->counter, counter); /* pairs: rules.life */
}

void
trp_rules_free(struct trp_core *core, uint32_t unit)
{
    struct trp_rules *rules;

    if (unit == TRP_POOL_NONE) {
        return;
    }
    rules = trp_rules_at(core, unit);
    if (rules->box != NULL) {
        rules->custom->close(rules->box);
        rules->box = NULL;
    }
    trp_route_close(core, rules);
    trp_fifo_fini(&rules->queue);
    trp_fifo_fini(&rules->kept_queue);
    trp_order_fini(&rules->order);
    trp_order_fini(&rules->kept_order);
    trp_fifo_fini(&rules->stash);
    trp_fifo_fini(&rules->replay);
    trp_pool_give(&core->rules, NULL, unit);
}

struct trp_rules *
trp_rules_own(struct troupe_self *self)
{
    struct trp_rules *rules = trp_rules_of(self->core, self->cell);
    uint32_t unit;

    if (rules == NULL && trp_rules_new(self->core, NULL,
                             self->core->stash_capacity, &unit) == TROUPE_OK) {
        trp_store_release(&self->cell->rules, unit); /* pairs: rules.life */
        rules = trp_rules_at(self->core, unit);
    }
    return rules;
}

/* --- dropped -------------------------------------------------------------- */

void
trp_rules_read_drop(struct trp_rules *rules, struct trp_drop *drop)
{
    drop->fn = trp_load_acquire(&rules->on_drop);     /* pairs: rules.life */
    drop->user = trp_load_acquire(&rules->drop_user); /* pairs: rules.life */
    drop->dead_letter =
        (trp_load_acquire(&rules->flags) & /* pairs: rules.life */
            TROUPE_MAILBOX_DEAD_LETTER_DROPS) != 0;
}

void
trp_rules_discard(struct trp_core *core, struct trp_local *local,
    troupe_ref recipient, struct trp_item *item, troupe_drop_reason reason,
    const struct trp_drop *drop)
{
    troupe_msg view;

    if (TRP_UNLIKELY((item->mark & TRP_MARK_TIMER) != 0)) {
        trp_timer_return(core, local, item); /* a custom mailbox must not */
        return;
    }
    trp_item_view(item, &view);
    trp_book(core, local, dropped, 1);
    if (trp_ref_is_promise(view.sender)) {
        (void)trp_promise_fail(core, local, view.sender, TROUPE_E_FULL);
    }
    switch (reason) {
    case TROUPE_DROP_NEW:
        trp_book(core, local, dropped_new, 1);
        break;
    case TROUPE_DROP_HEAD:
        trp_book(core, local, dropped_head, 1);
        break;
    case TROUPE_DROP_THROTTLE:
        trp_book(core, local, dropped_throttle, 1);
        break;
    }
    /* relaxed: who is late by a drop is no matter. */
    if (TRP_UNLIKELY(trp_load_relaxed(&core->metered) != 0)) {
        core->on_dropped(core, recipient, reason);
    }
    if (drop->dead_letter) {
        trp_dead_letter_show(core, local, recipient, &view,
            trp_item_box_or_null(item), TROUPE_DEAD_DROPPED);
    }
    if (drop->fn != NULL && !trp_is_inside(trp_thread.in_drop, core)) {
        const struct trp_inside here = {core, trp_thread.in_drop};
        const void *route = trp_thread.in_route;

        trp_thread.in_drop = &here;
        trp_thread.in_route = NULL; /* what it sends is not on the way there */
        drop->fn(reason, &view, drop->user);
        trp_thread.in_route = route;
        trp_thread.in_drop = here.outer;
    }
    trp_item_release(local, item);
}

/* After an arrival; the life was checked by then. */
TRP_INLINE void
look_deep(struct trp_core *core, struct trp_rules *rules, struct trp_cell *cell)
{
    uint32_t warn = trp_load_acquire(&rules->warn); /* pairs: rules.life */

    if (TRP_UNLIKELY(warn != UINT32_MAX)) {
        uint64_t word;
        uint32_t depth =
            trp_rules_depth(rules, trp_ring_depth(&cell->ring, &word));

        if (TRP_UNLIKELY(depth >= warn)) {
            trp_mailbox_look_deep(core, cell, warn, depth);
        }
    }
}

/* --- arrivals: a limit on the ring ---------------------------------------- */

static bool
rejects(struct trp_rules *rules)
{
    return trp_load_acquire(&rules->overflow) == /* pairs: rules.life */
           TROUPE_OVERFLOW_REJECT;
}

/* As many wait as may. The rules are those of the life that said so. */
TRP_COLD static troupe_status
refuse_or_drop(struct trp_core *core, struct trp_local *local,
    struct trp_rules *rules, troupe_ref to, const struct trp_item *item)
{
    struct trp_item gone = *item;
    bool reject = rejects(rules);
    struct trp_drop drop;

    trp_rules_read_drop(rules, &drop);
    if (trp_load_acquire(&trp_cell_at(core, to.index)->generation) !=
        (to.generation | TRP_LIFE_RULED)) { /* pairs: cell.life */
        return TROUPE_E_DEAD;
    }
    if (reject) {
        return TROUPE_E_FULL;
    }
    trp_rules_discard(core, local, to, &gone, TROUPE_DROP_NEW, &drop);
    return TROUPE_OK;
}

TRP_COLD static enum trp_claim
push_slow(struct trp_core *core, struct trp_local *local, struct trp_cell *cell,
    uint32_t life, const struct trp_ring_bound *bound,
    const struct trp_item *item)
{
    struct trp_ring_way way = {
        .pool = &core->segments,
        .cache = local != NULL ? &local->segments : NULL,
        .life = &cell->generation,
        .expected = life,
        .hint = trp_load_relaxed(&cell->hint), /* relaxed: a hint */
    };

    return trp_ring_push_slow(&way, &cell->ring, bound, item);
}

TRP_INLINE troupe_status
deliver_bounded(struct trp_core *core, struct trp_local *local,
    struct trp_rules *rules, troupe_ref to, const struct trp_item *item)
{
    struct trp_cell *cell = trp_cell_at(core, to.index);
    uint32_t life = to.generation | TRP_LIFE_RULED;
    const struct trp_ring_bound *bound =
        trp_item_is_kept(item) ? NULL : &rules->bound;
    enum trp_claim claim = TRP_CLAIM_AGAIN;

    if (TRP_LIKELY(bound != NULL)) {
        claim = trp_ring_push_bounded(
            &core->segments, &cell->ring, &cell->generation, life, bound, item);
    }
    if (TRP_UNLIKELY(claim == TRP_CLAIM_AGAIN)) {
        claim = push_slow(core, local, cell, life, bound, item);
    }
    switch (claim) {
    case TRP_CLAIM_WAKE:
        trp_mailbox_wake(core, local, cell);
        return TROUPE_OK;
    case TRP_CLAIM_QUEUED:
        look_deep(core, rules, cell);
        return TROUPE_OK;
    case TRP_CLAIM_FULL:
        return TROUPE_E_NOMEM;
    case TRP_CLAIM_LIMIT:
        return refuse_or_drop(core, local, rules, to, item);
    case TRP_CLAIM_CLOSED:
    case TRP_CLAIM_AGAIN:
        break;
    }
    return TROUPE_E_DEAD;
}

/* --- arrivals: counted ---------------------------------------------------- */

troupe_status
trp_rules_deliver_counted(struct trp_core *core, struct trp_local *local,
    TRP_ATOMIC(uint32_t) * counter, troupe_ref to, const struct trp_item *item)
{
    struct trp_cell *cell = trp_cell_at(core, to.index);
    uint32_t life = to.generation | TRP_LIFE_RULED;
    enum trp_claim claim;

    /*
     * Before the push, or the owner could take it out first. If the counter
     * is that of another life, the push is refused, and it is right again.
     */
    trp_depth_add(counter, 1);
    claim = trp_ring_push(&core->segments, &cell->ring, &cell->generation, life,
        core->deep_from, item);
    if (TRP_UNLIKELY(claim == TRP_CLAIM_FULL)) {
        claim = trp_mailbox_push_deep(core, local, cell, life, item);
    }
    if (TRP_LIKELY(claim == TRP_CLAIM_QUEUED)) {
        return TROUPE_OK;
    }
    if (claim == TRP_CLAIM_WAKE) {
        trp_mailbox_wake(core, local, cell);
        return TROUPE_OK;
    }
    trp_depth_add(counter, UINT32_MAX);
    return claim == TRP_CLAIM_FULL ? TROUPE_E_NOMEM : TROUPE_E_DEAD;
}

/* --- arrivals: under the lock --------------------------------------------- */

struct arrival {
    struct trp_core *core;
    struct trp_local *local;
    struct trp_cell *cell;
    struct trp_rules *rules;
    troupe_ref to;
    struct trp_drop drop;
    struct trp_order_entry entry;
    bool kept;
    struct trp_route *route; /* of a router, unless it takes it anyway */
    bool parks;
    /* what comes of it */
    bool wake;
    bool has_victim;
    troupe_drop_reason reason;
    struct trp_item victim;
};

/* The life, after the rules were read. */
static bool
is_still(const struct arrival *arrival)
{
    return trp_load_acquire(
               &arrival->cell->generation) == /* pairs: cell.life */
           (arrival->to.generation | TRP_LIFE_RULED);
}

static bool
is_open(const struct arrival *arrival)
{
    return is_still(arrival) &&
           (trp_load_acquire(
                &arrival->cell->ring.word) & /* pairs: ring.claim */
               TRP_RING_CLOSED) == 0;
}

/* relaxed: only a look, or with the lock held, which orders it. */
#define LENGTH(rules) trp_load_relaxed(&(rules)->length)
#define CAPACITY(rules) trp_load_relaxed(&(rules)->bound.capacity)

void
trp_rules_add_length(struct trp_rules *rules, uint32_t more)
{
    /* relaxed: under the lock. */
    trp_store_relaxed(&rules->length, LENGTH(rules) + more);
}

static bool
is_full(struct trp_rules *rules)
{
    return LENGTH(rules) >= CAPACITY(rules);
}

/* R1. True: it was clear, so we wake the owner. */
static bool
schedule(struct trp_ring *ring)
{
    return (trp_or_acq_rel(&ring->word, TRP_RING_SCHEDULED) & /* pairs:
                                                                 ring.claim */
               TRP_RING_SCHEDULED) == 0;
}

static void
let_go(struct arrival *arrival, const struct trp_item *victim,
    troupe_drop_reason reason)
{
    arrival->has_victim = true;
    arrival->victim = *victim;
    arrival->reason = reason;
}

/* The oldest goes, if there is one that may. */
static troupe_status
admit_head(struct arrival *arrival)
{
    struct trp_rules *rules = arrival->rules;
    bool full = !arrival->kept && is_full(rules);
    struct trp_order_entry victim;

    if (!trp_fifo_push_last(arrival->kept ? &rules->kept_queue : &rules->queue,
            &arrival->entry)) {
        return TROUPE_E_NOMEM;
    }
    if (full && trp_fifo_length(&rules->queue) > 1 &&
        trp_fifo_take_first(&rules->queue, &victim)) {
        let_go(arrival, &victim.item, TROUPE_DROP_HEAD);
    }
    return TROUPE_OK;
}

/* The least important goes; the arrival itself if it is that. */
static troupe_status
admit_ordered(struct arrival *arrival)
{
    struct trp_rules *rules = arrival->rules;
    bool full = !arrival->kept && is_full(rules);
    struct trp_order_entry victim;

    if (!trp_order_push(arrival->kept ? &rules->kept_order : &rules->order,
            &arrival->entry)) {
        return TROUPE_E_NOMEM;
    }
    if (full && trp_order_take_last(&rules->order, &victim)) {
        let_go(arrival, &victim.item,
            victim.sequence == arrival->entry.sequence ? TROUPE_DROP_NEW
                                                       : TROUPE_DROP_HEAD);
    }
    return TROUPE_OK;
}

/* Takes what was made for a custom mailbox apart again. */
static void
disown(
    struct arrival *arrival, struct trp_box *box, const struct trp_item *before)
{
    if ((before->mark & TRP_MARK_BOXED) == 0 || box != trp_item_box(before)) {
        trp_box_forget(arrival->local, box);
    }
}

/* What comes out of a custom mailbox: all that it knows is the box. */
static void
from_custom(struct trp_item *item, troupe_msg *msg)
{
    struct trp_box *box = trp_box_of(msg);

    trp_item_from_box(item, box);
    /* relaxed: constant for a timer. */
    if (trp_load_relaxed(&box->refs) == TRP_BOX_TIMER) {
        item->mark = (item->mark | TRP_MARK_TIMER) & ~TRP_MARK_DROP;
    } else if (msg->type == &trp_notice_type) {
        item->mark |= TRP_MARK_NOTICE;
    }
}

static troupe_status
admit_custom(struct arrival *arrival)
{
    struct trp_rules *rules = arrival->rules;
    const troupe_custom_mailbox *custom = rules->custom;
    troupe_msg *evicted = NULL;
    troupe_status status;

    if ((arrival->entry.item.mark & TRP_MARK_CONTROL) != 0) {
        rules->stops++;
        return TROUPE_OK;
    }
    status = arrival->kept
                 ? custom->enqueue_undroppable(
                       rules->box, &trp_item_box(&arrival->entry.item)->msg)
                 : custom->enqueue(rules->box,
                       &trp_item_box(&arrival->entry.item)->msg, &evicted);
    if (status != TROUPE_OK) {
        return trp_rules_refusal(status);
    }
    if (evicted != NULL) {
        struct trp_item victim;

        from_custom(&victim, evicted);
        let_go(arrival, &victim,
            trp_item_box(&victim) == trp_item_box(&arrival->entry.item)
                ? TROUPE_DROP_NEW
                : TROUPE_DROP_HEAD);
    }
    return TROUPE_OK;
}

static troupe_status
admit(struct arrival *arrival, enum trp_form form)
{
    struct trp_rules *rules = arrival->rules;
    uint8_t overflow =
        trp_load_acquire(&rules->overflow); /* pairs: rules.life */

    if (form == TRP_FORM_CUSTOM) {
        return admit_custom(arrival);
    }
    arrival->entry.sequence = rules->next;
    if (form == TRP_FORM_HEAD) {
        rules->next++;
        return admit_head(arrival);
    }
    if (!arrival->kept && is_full(rules)) {
        if (overflow == TROUPE_OVERFLOW_REJECT) {
            return TROUPE_E_FULL;
        }
        if (overflow == TROUPE_OVERFLOW_DROP_NEW) {
            arrival->has_victim = true;
            arrival->victim = arrival->entry.item;
            arrival->reason = TROUPE_DROP_NEW;
            return TROUPE_OK;
        }
    }
    rules->next++;
    return admit_ordered(arrival);
}

/* The user's rank; older ones are ahead by what they have waited. */
static double
rank_of(struct arrival *arrival)
{
    struct trp_rules *rules = arrival->rules;
    /* pairs: rules.life, all of them. */
    troupe_priority_fn priority = trp_load_acquire(&rules->priority);
    troupe_unrankable_fn unrankable =
        trp_load_acquire(&rules->on_unrankable); /* pairs: rules.life */
    void *user =
        trp_load_acquire(&rules->priority_user); /* pairs: rules.life */
    uint64_t ageing_ns =
        trp_load_acquire(&rules->ageing_ns); /* pairs: rules.life */
    double rank;
    troupe_msg view;

    if (!is_still(arrival) ||
        (arrival->entry.item.mark & TRP_MARK_CONTROL) != 0) {
        return (double)NAN;
    }
    trp_item_view(&arrival->entry.item, &view);
    if (view.type->tag >= TROUPE_TAG_RESERVED) {
        return (double)NAN; /* the library's own */
    }
    rank = priority(&view, user);
    if (isnan(rank) && unrankable != NULL) {
        unrankable(&view, user);
    }
    if (ageing_ns != 0) {
        rank +=
            (double)arrival->core->now_ns(arrival->core) / (double)ageing_ns;
    }
    return rank;
}

/* A message that is refused or discarded anyway is not shown to the user. */
static bool
needs_rank(struct arrival *arrival)
{
    struct trp_rules *rules = arrival->rules;

    return arrival->kept || !is_full(rules) ||
           trp_load_acquire(&rules->overflow) == /* pairs: rules.life */
               TROUPE_OVERFLOW_DROP_LOWEST;
}

static troupe_status
deliver_locked(
    struct arrival *arrival, enum trp_form form, const struct trp_item *item)
{
    struct trp_rules *rules = arrival->rules;
    struct trp_box *box = NULL;
    bool asked = false;
    troupe_status status;

    arrival->entry.item = *item;
    if (form == TRP_FORM_ORDERED) {
        asked = needs_rank(arrival);
        arrival->entry.rank = asked ? rank_of(arrival) : (double)NAN;
    } else if (form == TRP_FORM_CUSTOM &&
               (item->mark & TRP_MARK_CONTROL) == 0) {
        box = trp_item_own(arrival->core, arrival->local, &arrival->entry.item);
        if (box == NULL) {
            return TROUPE_E_NOMEM;
        }
        box->msg.sender = trp_ref_unpack(item->sender);
        trp_item_from_box(&arrival->entry.item, box);
    }
    trp_lock_acquire(&rules->lock);
    if (!is_open(arrival)) {
        status = TROUPE_E_DEAD;
    } else if (form == TRP_FORM_ORDERED && !asked && !arrival->kept &&
               needs_rank(arrival)) {
        status = TROUPE_E_STATE; /* was full before, and is not now */
    } else if (arrival->route != NULL &&
               !trp_route_takes(arrival->route, arrival->parks)) {
        status = TROUPE_E_NO_ROUTE;
    } else {
        status = admit(arrival, form);
        rules->is_barren = rules->is_barren && status != TROUPE_OK;
        /* In one step, for those who read it without the lock. */
        if (status == TROUPE_OK && !arrival->has_victim) {
            trp_rules_add_length(rules, 1);
        }
        arrival->wake = status == TROUPE_OK && LENGTH(rules) != 0 &&
                        schedule(&arrival->cell->ring);
    }
    trp_lock_release(&rules->lock);
    if (status != TROUPE_OK && box != NULL) {
        disown(arrival, box, item);
    }
    return status;
}

/* Kinds with a lock. */
static troupe_status
deliver_sorted(
    struct arrival *arrival, enum trp_form form, const struct trp_item *item)
{
    struct trp_rules *rules = arrival->rules;
    troupe_status status;

    arrival->cell = trp_cell_at(arrival->core, arrival->to.index);
    arrival->kept = trp_item_is_kept(item);
    trp_rules_read_drop(rules, &arrival->drop);
    if (!is_still(arrival)) {
        return TROUPE_E_DEAD;
    }
    do {
        status = deliver_locked(arrival, form, item);
    } while (status == TROUPE_E_STATE);
    if (arrival->wake) {
        trp_mailbox_wake(arrival->core, arrival->local, arrival->cell);
    } else if (status == TROUPE_OK) {
        look_deep(arrival->core, rules, arrival->cell);
    }
    if (arrival->has_victim) {
        trp_rules_discard(arrival->core, arrival->local, arrival->to,
            &arrival->victim, arrival->reason, &arrival->drop);
    }
    return status;
}

troupe_status
trp_rules_enqueue(struct trp_core *core, struct trp_local *local,
    struct trp_rules *rules, troupe_ref to, const struct trp_item *item,
    enum trp_enqueue order)
{
    struct arrival arrival = {
        .core = core, .local = local, .rules = rules, .to = to};

    if (order != TRP_ENQUEUE_ALWAYS) {
        arrival.route = trp_route_of(core, rules);
        arrival.parks = order == TRP_ENQUEUE_PARK;
        if (arrival.route == NULL) {
            return TROUPE_E_DEAD; /* the rules are somebody else's by now */
        }
    }
    return deliver_sorted(&arrival, TRP_FORM_HEAD, item);
}

troupe_status
trp_rules_deliver(struct trp_core *core, struct trp_local *local, troupe_ref to,
    const struct trp_item *item)
{
    struct trp_cell *cell = trp_cell_at(core, to.index);
    TRP_ATOMIC(uint32_t) * counter;
    struct trp_rules *rules;
    enum trp_form form;

    if (trp_load_acquire(&cell->generation) != /* pairs: cell.life */
        (to.generation | TRP_LIFE_RULED)) {
        return TROUPE_E_DEAD;
    }
    rules = trp_rules_of(core, cell);
    if (rules == NULL) {
        return TROUPE_E_DEAD; /* the life has changed meanwhile */
    }
    form =
        (enum trp_form)trp_load_acquire(&rules->form); /* pairs: rules.life */
    switch (form) {
    case TRP_FORM_BOUNDED:
        return deliver_bounded(core, local, rules, to, item);
    case TRP_FORM_HEAD:
    case TRP_FORM_ORDERED:
    case TRP_FORM_CUSTOM:
        return deliver_sorted(
            &(struct arrival){
                .core = core, .local = local, .rules = rules, .to = to},
            form, item);
    case TRP_FORM_ROUTER:
        return trp_route_deliver(core, local, rules, to, item);
    case TRP_FORM_PLAIN:
        counter = trp_rules_counter(rules);
        if (counter != NULL) {
            return trp_rules_deliver_counted(core, local, counter, to, item);
        }
        break;
    }
    return TROUPE_E_DEAD; /* the rules are somebody else's by now */
}

/* --- the owner ------------------------------------------------------------ */

static enum trp_pop
popped(bool one)
{
    return one ? TRP_POP_ONE : TRP_POP_NONE;
}

/* Of the two the one that is first; `is_free`: or COSTS if that is droppable.
 */
static enum trp_pop
take_head(struct trp_rules *rules, struct trp_order_entry *entry, bool is_free)
{
    const struct trp_order_entry *drop = trp_fifo_first(&rules->queue);
    const struct trp_order_entry *keep = trp_fifo_first(&rules->kept_queue);

    if (keep != NULL && (drop == NULL || keep->sequence < drop->sequence)) {
        return popped(trp_fifo_take_first(&rules->kept_queue, entry));
    }
    return is_free && drop != NULL
               ? TRP_POP_COSTS
               : popped(trp_fifo_take_first(&rules->queue, entry));
}

static enum trp_pop
take_ordered(
    struct trp_rules *rules, struct trp_order_entry *entry, bool is_free)
{
    const struct trp_order_entry *drop = trp_order_first(&rules->order);
    const struct trp_order_entry *keep = trp_order_first(&rules->kept_order);

    if (keep != NULL && (drop == NULL || trp_order_is_before(keep, drop))) {
        return popped(trp_order_take_first(&rules->kept_order, entry));
    }
    return is_free && drop != NULL
               ? TRP_POP_COSTS
               : popped(trp_order_take_first(&rules->order, entry));
}

static bool
take_custom(struct trp_rules *rules, struct trp_order_entry *entry)
{
    troupe_msg *msg = rules->custom->dequeue(rules->box);

    if (msg != NULL) {
        from_custom(&entry->item, msg);
        return true;
    }
    if (rules->stops != 0) {
        rules->stops--;
        entry->item = (struct trp_item){.mark = TRP_MARK_CONTROL};
        return true;
    }
    return false;
}

static enum trp_pop
take(struct trp_rules *rules, struct trp_item *item, bool is_free)
{
    struct trp_order_entry entry = {0};
    enum trp_pop got = TRP_POP_NONE;

    trp_lock_acquire(&rules->lock);
    switch (
        (enum trp_form)trp_load_relaxed(&rules->form)) { /* relaxed: owner */
    case TRP_FORM_HEAD:
    case TRP_FORM_ROUTER:
        got = take_head(rules, &entry, is_free);
        break;
    case TRP_FORM_ORDERED:
        got = take_ordered(rules, &entry, is_free);
        break;
    case TRP_FORM_CUSTOM:
        got = popped(take_custom(rules, &entry));
        break;
    case TRP_FORM_PLAIN:
    case TRP_FORM_BOUNDED:
        break;
    }
    if (got == TRP_POP_ONE) {
        trp_rules_add_length(rules, UINT32_MAX);
        trp_rules_add_taken(rules, 1);
    }
    rules->is_barren = got == TRP_POP_NONE;
    trp_lock_release(&rules->lock);
    *item = entry.item;
    rules->rank = entry.rank;
    rules->sequence = entry.sequence;
    return got;
}

bool
trp_rules_pop_slow(struct trp_rules *rules, struct trp_item *item)
{
    struct trp_order_entry entry;

    if (trp_fifo_take_first(&rules->replay, &entry)) {
        trp_rules_add_front(rules, UINT32_MAX);
        trp_rules_add_taken(rules, 1);
        *item = entry.item;
        rules->rank = entry.rank;
        rules->sequence = entry.sequence;
        return true;
    }
    return take(rules, item, false) == TRP_POP_ONE;
}

/* What the user's mailbox gave waits for its token before all others. */
static enum trp_pop
take_custom_free(struct trp_rules *rules, struct trp_item *item)
{
    enum trp_pop got = take(rules, item, true);
    struct trp_order_entry entry = {rules->rank, rules->sequence, *item};

    if (got != TRP_POP_ONE || trp_item_is_kept(item) ||
        !trp_fifo_push_first(&rules->replay, &entry)) {
        return got;
    }
    trp_rules_add_front(rules, 1);
    trp_rules_add_taken(rules, UINT64_MAX);
    return TRP_POP_COSTS;
}

enum trp_pop
trp_rules_pop_free(struct trp_cell *cell, struct trp_rules *rules,
    struct trp_cursor *cursor, struct trp_item *item)
{
    if (trp_fifo_length(&rules->replay) != 0) {
        return trp_item_is_kept(&trp_fifo_first(&rules->replay)->item)
                   ? popped(trp_rules_pop_slow(rules, item))
                   : TRP_POP_COSTS;
    }
    if (trp_rules_have_lock(rules)) {
        return trp_load_relaxed(&rules->form) == TRP_FORM_CUSTOM /* relaxed:
                                                                    owner */
                   ? take_custom_free(rules, item)
                   : take(rules, item, true);
    }
    for (;;) {
        item->mark = trp_load_acquire(
            &trp_cursor_slot(cursor)->mark); /* pairs: ring.slot */
        if (item->mark != TRP_MARK_SKIP) {
            break;
        }
        trp_rules_note_skip(rules);
        (void)trp_ring_pop(cursor, &cell->ring, item);
        trp_cursor_publish(cursor, &cell->ring);
    }
    if (item->mark == 0) {
        return TRP_POP_NONE; /* what is written now may cost one */
    }
    if (!trp_item_is_kept(item)) {
        return TRP_POP_COSTS;
    }
    return popped(trp_rules_pop(cell, rules, cursor, item));
}

bool
trp_rules_idle(struct trp_cell *cell, struct trp_rules *rules)
{
    bool idle = false;

    trp_lock_acquire(&rules->lock);
    /* A custom one that forgets a message must not keep a worker busy. */
    if (LENGTH(rules) == 0 || rules->is_barren) {
        uint64_t word =
            trp_load_acquire(&cell->ring.word); /* pairs: ring.claim */

        idle = (word & TRP_RING_FLAGS) == TRP_RING_SCHEDULED &&
               trp_cas_acq_rel(&cell->ring.word, &word, /* pairs: ring.claim */
                   word & ~TRP_RING_SCHEDULED);
    }
    trp_lock_release(&rules->lock);
    return idle;
}

bool
trp_rules_skip(struct trp_core *core, struct trp_local *local,
    struct trp_cell *cell, struct trp_rules *rules)
{
    const struct trp_item skip = {.mark = TRP_MARK_SKIP};
    struct trp_ring_way way = {
        .pool = &core->segments,
        .cache = &local->segments,
        .life = &cell->generation,
        /* relaxed: our own life. */
        .expected = trp_load_relaxed(&cell->generation),
        .hint = trp_load_relaxed(&cell->hint), /* relaxed: a hint */
    };

    if (trp_ring_push_slow(&way, &cell->ring, NULL, &skip) !=
        TRP_CLAIM_QUEUED) {
        return false;
    }
    trp_rules_add_front(rules, UINT32_MAX); /* the ticket is no message */
    return true;
}

uint32_t
trp_rules_depth(struct trp_rules *rules, uint32_t ring_depth)
{
    /* pairs: ring.front */
    uint32_t depth = trp_load_acquire(&rules->bound.front) +
                     (trp_rules_have_lock(rules) ? LENGTH(rules) : ring_depth);

    /* The two were not read at one instant, and the front may be negative. */
    return (int32_t)depth < 0 ? 0 : depth;
}
