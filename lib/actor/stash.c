/* SPDX-License-Identifier: MIT */
#include <troupe/stash.h>

#include "actor/rules.h"
#include "actor/watch.h"
#include "base/error.h"

/* Put aside, and put back in front of what waits. On the actor's own turn. */

/* A message counts as handled when its behaviour begins; a stashed one is not.
 */
static void
unhandle(struct troupe_self *self)
{
    trp_count(&self->local->books.handled, UINT64_MAX);
    trp_count(&self->local->books.stashed, 1);
    trp_rules_add_taken(trp_rules_of(self->core, self->cell), UINT64_MAX);
}

static void
show_stashed(struct trp_rules *rules)
{
    /* relaxed: statistic. */
    trp_store_relaxed(&rules->stashed, trp_fifo_length(&rules->stash));
}

/* All that a custom mailbox takes back is a box; what a timer has shown may
 * have none, or one that the timer reads as well. */
static bool
box_up(struct troupe_self *self, struct trp_item *item)
{
    struct trp_box *box = trp_item_own(self->core, self->local, item);

    if (box == NULL) {
        return false;
    }
    box->msg.sender = trp_ref_unpack(item->sender);
    if ((item->mark & TRP_MARK_NOTICE) == 0) {
        trp_item_from_box(item, box);
    }
    return true;
}

troupe_status
troupe_stash(troupe_self *self)
{
    static const char call[] = "troupe_stash";
    struct trp_rules *rules;
    struct trp_order_entry entry;
    bool is_custom;

    if (self == NULL || self->current.msg == NULL || self->current.spent != 0 ||
        self->in_then) {
        return trp_refuse(TROUPE_E_STATE, call, "self",
            "has no message to stash", "%s",
            self == NULL || self->current.msg == NULL ? "none"
            : self->in_then                           ? "an answer"
                                                      : "given away");
    }
    rules = trp_rules_own(self);
    if (rules == NULL) {
        return TROUPE_E_NOMEM;
    }
    if (trp_fifo_length(&rules->stash) >= rules->stash_capacity) {
        return trp_refuse(TROUPE_E_LIMIT, call, "stash_capacity",
            "messages are there already", "%u", rules->stash_capacity);
    }
    entry = (struct trp_order_entry){
        rules->rank, rules->sequence, *self->current.item};
    /* relaxed: constant in the actor's life, and it is ours. */
    is_custom = trp_load_relaxed(&rules->form) == TRP_FORM_CUSTOM;
    if (!trp_fifo_reserve(&rules->stash, 1) ||
        !trp_watch_put_back(self, &entry.item, is_custom) ||
        (is_custom && !box_up(self, &entry.item))) {
        return TROUPE_E_NOMEM;
    }
    (void)trp_fifo_push_last(&rules->stash, &entry);
    self->current.spent |= TRP_SPENT_TAKEN | TRP_SPENT_AWAY;
    unhandle(self);
    show_stashed(rules);
    return TROUPE_OK;
}

uint32_t
troupe_stash_length(const troupe_self *self)
{
    struct trp_rules *rules =
        self != NULL ? trp_rules_of(self->core, self->cell) : NULL;

    return rules != NULL ? trp_fifo_length(&rules->stash) : 0;
}

/* False: it is empty. */
static bool
bury_oldest(
    struct troupe_self *self, struct trp_cell *cell, struct trp_rules *rules)
{
    struct trp_order_entry entry;

    if (!trp_fifo_take_first(&rules->stash, &entry)) {
        return false;
    }
    show_stashed(rules);
    trp_watch_bury(self->core, self->local, trp_watching_of(self->core, cell),
        trp_cell_ref(self->core, cell), &entry.item, TROUPE_DEAD_STASH);
    return true;
}

void
trp_stash_bury(struct troupe_self *self, struct trp_cell *cell)
{
    struct trp_rules *rules = trp_rules_of(self->core, cell);

    while (rules != NULL && bury_oldest(self, cell, rules)) {
    }
}

bool
trp_stash_make_room(struct troupe_self *self)
{
    struct trp_rules *rules = trp_rules_of(self->core, self->cell);

    return rules != NULL &&
           trp_fifo_length(&rules->stash) >= rules->stash_capacity &&
           bury_oldest(self, self->cell, rules);
}

void
troupe_stash_clear(troupe_self *self)
{
    if (self != NULL && self->cell != NULL) {
        trp_stash_bury(self, self->cell);
    }
}

/* --- put back ------------------------------------------------------------- */

/* What comes of the first `count` of the stash, one by one. */
struct batch {
    struct troupe_self *self;
    struct trp_rules *rules;
    uint32_t count;
    uint32_t capacity;
    enum trp_form form;
    troupe_overflow overflow;
    struct trp_fifo gone; /* rank: the reason for which it was dropped */
};

static bool
is_kept(const struct batch *batch, uint32_t i)
{
    return trp_item_is_kept(&trp_fifo_at(&batch->rules->stash, i)->item);
}

static uint32_t
droppable(const struct batch *batch)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < batch->count; i++) {
        count += is_kept(batch, i) ? 0 : 1;
    }
    return count;
}

/* With `waiting` there already: too many that may be refused? */
static bool
is_too_much(const struct batch *batch, uint32_t waiting)
{
    uint32_t count = droppable(batch);

    return batch->overflow == TROUPE_OVERFLOW_REJECT && count != 0 &&
           (waiting >= batch->capacity || count > batch->capacity - waiting);
}

/* It is not put back; `gone` has room for it. */
static void
give_up(struct batch *batch, struct trp_order_entry *entry,
    troupe_drop_reason reason)
{
    struct trp_order_entry gone = *entry;

    gone.rank = (double)reason;
    (void)trp_fifo_push_last(&batch->gone, &gone);
    entry->item.mark = 0;
}

static bool
is_given_up(const struct trp_order_entry *entry)
{
    return entry->item.mark == 0;
}

/* With `waiting` there already: what has no room is dropped, newest first. */
static void
fit(struct batch *batch, uint32_t waiting)
{
    uint32_t room = waiting < batch->capacity ? batch->capacity - waiting : 0;

    for (uint32_t i = 0; i < batch->count; i++) {
        if (!is_kept(batch, i) && room == 0) {
            give_up(
                batch, trp_fifo_at(&batch->rules->stash, i), TROUPE_DROP_NEW);
        } else if (room > 0) {
            room--;
        }
    }
}

static void
leave_stash(struct batch *batch, struct trp_order_entry *entry)
{
    trp_watch_unstash(
        trp_watching_of(batch->self->core, batch->self->cell), &entry->item);
}

/* Off the stash; then the dropped ones are reported, outside every lock. */
static void
finish(struct batch *batch)
{
    struct troupe_self *self = batch->self;
    struct trp_order_entry entry;
    struct trp_drop drop;

    for (uint32_t i = 0; i < batch->count; i++) {
        if (trp_fifo_take_first(&batch->rules->stash, &entry)) {
            leave_stash(batch, &entry);
        }
    }
    show_stashed(batch->rules);
    trp_cell_set_flags(self->cell, trp_cell_flags(self->cell) | TRP_CELL_RULED);
    self->after |= TRP_AFTER_RULES;
    trp_rules_read_drop(batch->rules, &drop);
    while (trp_fifo_take_first(&batch->gone, &entry)) {
        trp_rules_discard(self->core, self->local, self->ref, &entry.item,
            (troupe_drop_reason)entry.rank, &drop);
    }
}

/* To the replay, which has room: the newest first, so the oldest is in front.
 */
static uint32_t
to_replay(struct batch *batch)
{
    struct trp_rules *rules = batch->rules;
    uint32_t moved = 0;

    for (uint32_t i = batch->count; i > 0; i--) {
        struct trp_order_entry *entry = trp_fifo_at(&rules->stash, i - 1);

        if (!is_given_up(entry)) {
            (void)trp_fifo_push_first(&rules->replay, entry);
            moved++;
        }
    }
    return moved;
}

static troupe_status
put_back_plain(struct batch *batch)
{
    if (!trp_fifo_reserve(&batch->rules->replay, batch->count)) {
        return TROUPE_E_NOMEM;
    }
    trp_rules_add_front(batch->rules, to_replay(batch));
    finish(batch);
    return TROUPE_OK;
}

/*
 * First all of them are counted as waiting, and a ticket that holds no message
 * makes every claim fail that has not seen that. Then nobody else can come in
 * unless there is room, and what has none is taken out of the batch.
 */
static troupe_status
put_back_bounded(struct batch *batch)
{
    struct troupe_self *self = batch->self;
    struct trp_rules *rules = batch->rules;
    struct trp_ring *ring = &self->cell->ring;
    uint64_t word;
    uint32_t before = trp_rules_depth(rules, trp_ring_depth(ring, &word));
    uint32_t moved;

    if (is_too_much(batch, before)) {
        return TROUPE_E_FULL;
    }
    if (!trp_fifo_reserve(&rules->replay, batch->count) ||
        !trp_fifo_reserve(&batch->gone, batch->count)) {
        return TROUPE_E_NOMEM;
    }
    trp_rules_add_front(rules, batch->count);
    if (!trp_rules_skip(self->core, self->local, self->cell, rules)) {
        trp_rules_add_front(rules, 0 - batch->count);
        return TROUPE_E_NOMEM;
    }
    before = trp_rules_depth(rules, trp_ring_depth(ring, &word)) - batch->count;
    if (is_too_much(batch, before)) { /* somebody was faster */
        trp_rules_add_front(rules, 0 - batch->count);
        return TROUPE_E_FULL;
    }
    if (batch->overflow != TROUPE_OVERFLOW_REJECT) {
        fit(batch, before);
    }
    moved = to_replay(batch);
    trp_rules_add_front(rules, moved - batch->count);
    finish(batch);
    return TROUPE_OK;
}

/*
 * Room is made at the other end: the newest that were queued have to go.
 * Returns how many; what has no room even so is given up.
 */
static uint32_t
count_victims_locked(struct batch *batch)
{
    struct trp_rules *rules = batch->rules;
    uint32_t waiting = trp_rules_depth(rules, 0);
    uint32_t victims = 0;

    for (uint32_t i = 0; i < batch->count; i++) {
        if (is_kept(batch, i) || waiting < batch->capacity) {
            waiting++;
        } else if (victims < trp_fifo_length(&rules->queue)) {
            victims++;
        } else {
            give_up(batch, trp_fifo_at(&rules->stash, i), TROUPE_DROP_NEW);
        }
    }
    return victims;
}

static troupe_status
put_back_head(struct batch *batch)
{
    struct trp_rules *rules = batch->rules;
    struct trp_order_entry victim;
    uint32_t victims, length = 0;

    if (!trp_fifo_reserve(&batch->gone, batch->count)) {
        return TROUPE_E_NOMEM;
    }
    trp_lock_acquire(&rules->lock);
    if (!trp_fifo_reserve(&rules->queue, batch->count) ||
        !trp_fifo_reserve(&rules->kept_queue, batch->count)) {
        trp_lock_release(&rules->lock);
        return TROUPE_E_NOMEM;
    }
    victims = count_victims_locked(batch);
    /* All pushes before the first take: that may give the room back. */
    for (uint32_t i = batch->count; i > 0; i--) {
        struct trp_order_entry *entry = trp_fifo_at(&rules->stash, i - 1);

        if (!is_given_up(entry)) {
            entry->sequence = --rules->first;
            (void)trp_fifo_push_first(trp_item_is_kept(&entry->item)
                                          ? &rules->kept_queue
                                          : &rules->queue,
                entry);
            length++;
        }
    }
    for (; victims > 0; victims--, length--) {
        (void)trp_fifo_take_last(&rules->queue, &victim);
        give_up(batch, &victim, TROUPE_DROP_HEAD);
    }
    trp_rules_add_length(rules, length);
    trp_lock_release(&rules->lock);
    finish(batch);
    return TROUPE_OK;
}

/* They keep rank and sequence, and so the place that they had. */
static void
reorder_locked(struct batch *batch)
{
    struct trp_rules *rules = batch->rules;
    uint32_t waiting = trp_rules_depth(rules, 0);
    uint32_t length = 0;
    struct trp_order_entry victim;

    for (uint32_t i = 0; i < batch->count; i++) {
        struct trp_order_entry *entry = trp_fifo_at(&rules->stash, i);
        bool kept = trp_item_is_kept(&entry->item);

        /* Under reject there is room for all that need any: is_too_much(). */
        if (kept || waiting < batch->capacity ||
            batch->overflow == TROUPE_OVERFLOW_REJECT) {
            waiting++;
            length++;
        } else {
            const struct trp_order_entry *last = trp_order_last(&rules->order);

            if (batch->overflow == TROUPE_OVERFLOW_DROP_NEW || last == NULL ||
                trp_order_is_before(last, entry)) {
                give_up(batch, entry, TROUPE_DROP_NEW);
                continue;
            }
            /* From here on each push follows a take: there is room. */
            (void)trp_order_take_last(&rules->order, &victim);
            give_up(batch, &victim, TROUPE_DROP_HEAD);
        }
        (void)trp_order_push(kept ? &rules->kept_order : &rules->order, entry);
    }
    trp_rules_add_length(rules, length);
}

static troupe_status
put_back_ordered(struct batch *batch)
{
    struct trp_rules *rules = batch->rules;
    troupe_status status = TROUPE_OK;

    if (!trp_fifo_reserve(&batch->gone, batch->count)) {
        return TROUPE_E_NOMEM;
    }
    trp_lock_acquire(&rules->lock);
    if (is_too_much(batch, trp_rules_depth(rules, 0))) {
        status = TROUPE_E_FULL;
    } else if (!trp_order_reserve(&rules->order, batch->count) ||
               !trp_order_reserve(&rules->kept_order, batch->count)) {
        status = TROUPE_E_NOMEM;
    } else {
        reorder_locked(batch);
    }
    trp_lock_release(&rules->lock);
    if (status == TROUPE_OK) {
        finish(batch);
    }
    return status;
}

/* What was not taken stays, in order: it closes up with what was not asked for.
 */
static void
keep_rest(struct batch *batch)
{
    struct trp_fifo *stash = &batch->rules->stash;
    uint32_t gone = batch->count;

    for (uint32_t i = batch->count; i > 0; i--) {
        if (!is_given_up(trp_fifo_at(stash, i - 1))) {
            *trp_fifo_at(stash, --gone) = *trp_fifo_at(stash, i - 1);
        }
    }
    batch->count = gone;
}

/*
 * Kept ones first, oldest first, since the user's mailbox can only append them;
 * then the others to its front. What it does not take stays in the stash.
 */
static troupe_status
put_back_custom(struct batch *batch)
{
    struct trp_rules *rules = batch->rules;
    const troupe_custom_mailbox *custom = rules->custom;
    troupe_status status = TROUPE_OK;
    uint32_t length = 0;

    if (!trp_fifo_reserve(&batch->gone, batch->count)) {
        return TROUPE_E_NOMEM;
    }
    trp_lock_acquire(&rules->lock);
    for (uint32_t i = 0; i < batch->count && status == TROUPE_OK; i++) {
        struct trp_order_entry *entry = trp_fifo_at(&rules->stash, i);

        if (trp_item_is_kept(&entry->item)) {
            status = custom->enqueue_undroppable(
                rules->box, &trp_item_box(&entry->item)->msg);
            if (status == TROUPE_OK) {
                leave_stash(batch, entry);
                entry->item.mark = 0;
                length++;
            }
        }
    }
    for (uint32_t i = batch->count; i > 0 && status == TROUPE_OK; i--) {
        struct trp_order_entry *entry = trp_fifo_at(&rules->stash, i - 1);
        struct trp_box *box = trp_item_box(&entry->item);
        troupe_msg *evicted = NULL;

        if (is_given_up(entry)) {
            continue;
        }
        status = custom->prepend(rules->box, &box->msg, &evicted);
        if (status != TROUPE_OK) {
            break;
        }
        entry->item.mark = 0;
        length++;
        if (evicted != NULL) {
            struct trp_order_entry victim = {0};

            trp_item_from_box(&victim.item, trp_box_of(evicted));
            give_up(batch, &victim,
                trp_box_of(evicted) == box ? TROUPE_DROP_NEW
                                           : TROUPE_DROP_HEAD);
            length--;
        }
    }
    trp_rules_add_length(rules, length);
    rules->is_barren = false;
    trp_lock_release(&rules->lock);
    keep_rest(batch);
    finish(batch);
    return status == TROUPE_OK ? status : trp_rules_refusal(status);
}

static troupe_status
put_back(struct batch *batch)
{
    switch (batch->form) {
    case TRP_FORM_PLAIN:
        return put_back_plain(batch);
    case TRP_FORM_BOUNDED:
        return put_back_bounded(batch);
    case TRP_FORM_HEAD:
    case TRP_FORM_ROUTER:
        return put_back_head(batch);
    case TRP_FORM_ORDERED:
        return put_back_ordered(batch);
    case TRP_FORM_CUSTOM:
        return put_back_custom(batch);
    }
    return TROUPE_E_INVALID;
}

troupe_status
troupe_unstash(troupe_self *self, uint32_t limit)
{
    static const char call[] = "troupe_unstash";
    struct batch batch = {.self = self};
    troupe_status status;

    if (self == NULL || self->cell == NULL ||
        (trp_cell_flags(self->cell) & TRP_CELL_STOPPING) != 0) {
        return trp_refuse(TROUPE_E_STATE, call, "self",
            self == NULL ? "must not be NULL" : "is stopping", "%s", "self");
    }
    batch.count = troupe_stash_length(self);
    if (limit != 0 && limit < batch.count) {
        batch.count = limit;
    }
    if (batch.count == 0) {
        return TROUPE_OK;
    }
    batch.rules = trp_rules_of(self->core, self->cell);
    /* relaxed, all of them: constant in the actor's life, and it is ours. */
    batch.capacity = trp_load_relaxed(&batch.rules->bound.capacity);
    batch.form =
        (enum trp_form)trp_load_relaxed(&batch.rules->form); /* relaxed */
    batch.overflow =
        (troupe_overflow)trp_load_relaxed(&batch.rules->overflow); /* relaxed */
    trp_fifo_init(&batch.gone, &self->core->heap);
    status = put_back(&batch);
    trp_fifo_fini(&batch.gone);
    return status;
}
