/* SPDX-License-Identifier: MIT */
#include "actor/timers.h"

#include "actor/mailbox.h"
#include "actor/send.h"

#include <troupe/timer.h>

/* There was no memory to deliver it: once more, after so long. */
#define RETRY_NS UINT64_C(1000000)
#define TIMER_CLASS 1u /* of the pool of messages: 128 bytes */

static const troupe_msg_type idle_type = {
    sizeof(troupe_msg_type), "idle", 0, TROUPE_TAG_IDLE, 0, NULL};

/* --- one timer ------------------------------------------------------------ */

static struct trp_pool_cache *
cache_of(struct trp_local *local)
{
    return local != NULL ? &local->messages : NULL;
}

static bool
is_boxed(const struct trp_timer *timer)
{
    const void *payload = timer->box.msg.payload;

    return payload != NULL && payload != timer->of.words;
}

/* What is left of it, with its payload unless that was handed on. */
static void
free_timer(struct trp_core *core, struct trp_local *local,
    struct trp_timer *timer, bool with_payload)
{
    const troupe_msg *msg = &timer->box.msg;

    if (with_payload && is_boxed(timer)) {
        trp_box_release(local, timer->of.message, true);
    } else if (with_payload && msg->type->drop != NULL) {
        msg->type->drop(msg->payload, msg->bytes);
    }
    trp_pool_give(&core->messages, cache_of(local), timer->box.unit);
}

/* What lies in the mailbox. */
static struct trp_item
item_of(struct trp_timer *timer)
{
    return (struct trp_item){
        .mark = (uint64_t)(uintptr_t)timer->box.msg.type | TRP_MARK_BOXED |
                TRP_MARK_TIMER,
        .payload = {(uint64_t)(uintptr_t)timer},
    };
}

static struct trp_timer *
timer_of(const struct trp_item *item)
{
    return TRP_CONTAINER_OF(trp_item_box(item), struct trp_timer, box);
}

/* It was due and cannot be handled now. Whoever has it. */
static void
try_again(
    struct trp_core *core, struct trp_local *local, struct trp_timer *timer)
{
    uint64_t due_ns = timer->alarm.entry.time;
    uint64_t now_ns = trp_alarm_now(&core->sched);
    uint64_t tries = (now_ns > due_ns ? (now_ns - due_ns) / RETRY_NS : 0) + 1;

    due_ns = trp_clock_after(due_ns, tries * RETRY_NS);
    tries += timer->retries;
    timer->retries = (uint16_t)(tries < UINT16_MAX ? tries : UINT16_MAX);
    if (!trp_alarm_renew(&core->sched, &timer->alarm, due_ns, &timer->ended)) {
        free_timer(core, local, timer, true);
    }
}

/* From here on it is the mailbox's, or tries again. True: it is queued. */
static bool
deliver(struct trp_core *core, struct trp_local *local, struct trp_timer *timer)
{
    const struct trp_item item = item_of(timer);

    trp_book(core, local, sent, 1);
    if (trp_mailbox_deliver(core, local, timer->owner, &item) == TROUPE_OK) {
        return true;
    }
    trp_book(core, local, sent, UINT64_MAX); /* it has not become a message */
    try_again(core, local, timer);           /* T2 */
    return false;
}

static uint64_t
idle_due(const struct trp_timer *timer)
{
    return trp_clock_after(
        trp_load_relaxed(&timer->of.last_ns), /* relaxed: timer.last */
        timer->interval_ns);
}

static void
fire(struct trp_worker *worker, struct trp_alarm *alarm)
{
    struct trp_timer *timer = TRP_CONTAINER_OF(alarm, struct trp_timer, alarm);
    struct trp_local *local = worker->local;
    struct trp_core *core = local->self.core;

    if (trp_load_acquire(&timer->ended) != 0) { /* pairs: alarm.ended */
        free_timer(core, local, timer, true);
    } else if (timer->kind != TRP_TIMER_IDLE ||
               idle_due(timer) <= trp_alarm_now(&core->sched)) {
        (void)deliver(core, local, timer);
    } else if (!trp_alarm_renew(
                   &core->sched, alarm, idle_due(timer), &timer->ended)) {
        free_timer(core, local, timer, true);
    }
}

/* By the owner, who has it. */
static void
set_after(struct trp_core *core, struct trp_timer *timer, uint64_t from_ns,
    uint64_t delay_ns)
{
    timer->retries = 0;
    (void)trp_alarm_set(
        &core->sched, &timer->alarm, trp_clock_after(from_ns, delay_ns));
}

/* A timer without a message; NULL: no memory. */
static struct trp_timer *
new_timer(
    struct troupe_self *self, enum trp_timer_kind kind, uint64_t interval_ns)
{
    struct trp_core *core = self->core;
    uint32_t unit =
        trp_pool_take(&core->messages, cache_of(self->local), TIMER_CLASS);
    struct trp_timer *timer;

    if (unit == TRP_POOL_NONE) {
        return NULL;
    }
    timer = trp_pool_address(&core->messages, unit);
    *timer = (struct trp_timer){
        .box = {.msg = {.type = &idle_type}, .core = core, .unit = unit},
        .alarm = {.fire = fire},
        .kind = (uint8_t)kind,
        .owner = self->ref,
        .interval_ns = interval_ns,
    };
    /* relaxed: not shared yet. */
    trp_store_relaxed(&timer->box.refs, TRP_BOX_TIMER);
    trp_count(&self->local->books.timers, 1);
    return timer;
}

/* By the owner; it is not in the table any more. */
static void
end_timer(struct troupe_self *self, struct trp_timer *timer)
{
    trp_count(&self->local->books.timers, UINT64_MAX);
    if (trp_alarm_end(&self->core->sched, &timer->alarm, &timer->ended)) {
        free_timer(self->core, self->local, timer, true);
    }
}

/* --- all of an actor --------------------------------------------------------
 */

/* Of an actor, or NULL. Its owner. */
static struct trp_timers *
timers_of(const struct trp_core *core, const struct trp_cell *cell)
{
    struct trp_extra *extra =
        trp_load_acquire(&trp_cold_of(core, cell)->extra); /* pairs: cell.extra
                                                            */

    return extra != NULL ? extra->timers : NULL;
}

/* The same, made if need be; NULL: no memory. */
static struct trp_timers *
own_timers(struct troupe_self *self)
{
    struct trp_extra *extra = trp_cell_extra(self->core, self->cell);
    struct trp_timers *timers;

    if (extra == NULL || extra->timers != NULL) {
        return extra != NULL ? extra->timers : NULL;
    }
    timers = trp_heap_alloc(&self->core->heap, sizeof *timers);
    if (timers != NULL) {
        trp_timer_table_init(&timers->table);
        extra->timers = timers;
    }
    return timers;
}

static struct trp_timer *
find(struct trp_core *core, struct trp_timers *timers, uint64_t key)
{
    return trp_timer_table_find(&timers->table, &core->messages, key);
}

static void
take_out(
    struct trp_core *core, struct trp_timers *timers, struct trp_timer *timer)
{
    trp_timer_table_remove(&timers->table, &core->messages, &core->heap, timer);
}

void
trp_timers_free(struct trp_core *core, struct trp_timers *timers)
{
    uint32_t from = UINT32_MAX;
    struct trp_timer *timer;

    if (timers == NULL) {
        return;
    }
    while ((timer = trp_timer_table_next(
                &timers->table, &core->messages, &from)) != NULL) {
        take_out(core, timers, timer);
        if (is_boxed(timer)) {
            trp_box_release(NULL, timer->of.message, false);
        }
    }
    trp_timer_table_fini(&timers->table, &core->heap);
    trp_heap_free(&core->heap, timers, sizeof *timers);
}

/* --- popped, handled ------------------------------------------------------ */

static void
cancelled(struct troupe_self *self)
{
    trp_count(&self->local->books.cancelled, 1);
}

/* Not silent for long enough: looks again when it may be. */
static bool
is_silent(struct troupe_self *self, struct trp_timer *timer, bool active)
{
    uint64_t now_ns = trp_alarm_now(&self->core->sched);

    if (active) {
        trp_store_relaxed(&timer->of.last_ns, now_ns); /* relaxed: timer.last */
    } else if (idle_due(timer) <= now_ns) {
        return true;
    }
    set_after(self->core, timer, idle_due(timer), 0);
    return false;
}

/* A shared box may be that of a message that had a sender. */
static void
item_from_box(struct trp_item *item, struct trp_box *box)
{
    trp_item_from_box(item, box);
    item->sender = trp_ref_pack(TROUPE_NONE);
}

/* The message as an ordinary one; the timer keeps its own. False: no memory. */
static bool
copy_message(struct troupe_self *self, const struct trp_timer *timer,
    struct trp_item *item)
{
    const troupe_msg *msg = &timer->box.msg;
    struct trp_box *box;

    if (!is_boxed(timer)) {
        item->mark = (uint64_t)(uintptr_t)msg->type |
                     (uint64_t)msg->bytes << TRP_MARK_LENGTH_SHIFT;
        item->payload[0] = timer->of.words[0];
        item->payload[1] = timer->of.words[1];
        return true;
    }
    if ((msg->type->flags & TROUPE_MSG_SHARED) != 0) {
        box = timer->of.message;
        trp_add_relaxed(&box->refs, 1); /* relaxed: the timer holds one */
    } else {
        box = trp_box_new(self->core, self->local, msg->type, msg->bytes);
        if (box == NULL) {
            return false;
        }
        __builtin_memcpy(box->msg.payload, msg->payload, msg->bytes);
    }
    item_from_box(item, box);
    return true;
}

/* The same for the last time: the message is the item's. */
static void
move_message(
    struct troupe_self *self, struct trp_timer *timer, struct trp_item *item)
{
    if (is_boxed(timer)) {
        item_from_box(item, timer->of.message);
    } else {
        (void)copy_message(self, timer, item);
        item->mark |= timer->box.msg.type->drop != NULL ? TRP_MARK_DROP : 0;
    }
    take_out(self->core, timers_of(self->core, self->cell), timer);
    trp_count(&self->local->books.timers, UINT64_MAX);
    free_timer(self->core, self->local, timer, false);
}

/* At start + n * period; those that were missed are left out. */
static void
set_next_period(struct troupe_self *self, struct trp_timer *timer)
{
    uint64_t now_ns = trp_alarm_now(&self->core->sched);
    uint64_t due_ns = timer->alarm.entry.time - timer->retries * RETRY_NS;
    uint64_t late_ns =
        now_ns > due_ns ? (now_ns - due_ns) % timer->interval_ns : 0;

    set_after(self->core, timer, now_ns - late_ns, timer->interval_ns);
}

bool
trp_timer_begin(struct troupe_self *self, struct trp_item *item, bool active,
    struct trp_timer **ticking)
{
    struct trp_timer *timer = timer_of(item);
    enum trp_timer_kind kind = (enum trp_timer_kind)timer->kind;

    *ticking = NULL;
    /* relaxed: we have set it. */
    if (trp_load_relaxed(&timer->ended) != 0) {
        cancelled(self);
        free_timer(self->core, self->local, timer, true);
        return false;
    }
    if (kind == TRP_TIMER_IDLE && !is_silent(self, timer, active)) {
        cancelled(self);
        return false;
    }
    if (kind == TRP_TIMER_ONCE) {
        move_message(self, timer, item);
        return true;
    }
    if (!copy_message(self, timer, item)) {
        trp_timer_return(self->core, self->local, item);
        return false;
    }
    if (kind == TRP_TIMER_RATE) {
        set_next_period(self, timer); /* may be due before this is handled */
    } else {
        *ticking = timer;
    }
    return true;
}

void
trp_timer_ticked(struct troupe_self *self, struct trp_timer *timer)
{
    uint64_t now_ns = trp_alarm_now(&self->core->sched);

    /* relaxed: we have set it. */
    if (trp_load_relaxed(&timer->ended) != 0) {
        free_timer(self->core, self->local, timer, true);
        return;
    }
    if (timer->kind == TRP_TIMER_IDLE) {
        trp_store_relaxed(&timer->of.last_ns, now_ns); /* relaxed: timer.last */
    }
    set_after(self->core, timer, now_ns, timer->interval_ns);
}

void
trp_timer_return(
    struct trp_core *core, struct trp_local *local, struct trp_item *item)
{
    trp_book(core, local, cancelled, 1);
    try_again(core, local, timer_of(item));
}

void
trp_timers_rest(struct trp_core *core, struct trp_cell *cell)
{
    struct trp_timers *timers = timers_of(core, cell);

    if (timers != NULL && timers->idle != NULL) {
        trp_store_relaxed(&timers->idle->of.last_ns, /* relaxed: timer.last */
            trp_alarm_now(&core->sched));
    }
}

/* --- the calls ------------------------------------------------------------ */

static troupe_status
check_self(const troupe_self *self, const char *call)
{
    if (self == NULL || self->cell == NULL) {
        return trp_refuse(
            TROUPE_E_INVALID, call, "self", "must not be NULL", "NULL");
    }
    if ((trp_cell_flags(self->cell) &
            (TRP_CELL_STOPPING | TRP_CELL_RESTARTING)) != 0) {
        return trp_refuse(TROUPE_E_STATE, call, "self",
            "is about to stop or restart", "%u", self->ref.index);
    }
    return TROUPE_OK;
}

static struct trp_timers *
timers_of_self(const troupe_self *self)
{
    return self != NULL && self->cell != NULL
               ? timers_of(self->core, self->cell)
               : NULL;
}

bool
troupe_timer_cancel(troupe_self *self, uint64_t key)
{
    struct trp_timers *timers = timers_of_self(self);
    struct trp_timer *timer =
        timers != NULL ? find(self->core, timers, key) : NULL;

    if (timer != NULL) {
        take_out(self->core, timers, timer);
        end_timer(self, timer);
    }
    return timer != NULL;
}

bool
troupe_timer_is_active(const troupe_self *self, uint64_t key)
{
    struct trp_timers *timers = timers_of_self(self);

    return timers != NULL && find(self->core, timers, key) != NULL;
}

static void
cancel_all(struct troupe_self *self, struct trp_timers *timers)
{
    uint32_t from = UINT32_MAX;
    struct trp_timer *timer;

    while (timers != NULL && (timer = trp_timer_table_next(&timers->table,
                                  &self->core->messages, &from)) != NULL) {
        take_out(self->core, timers, timer);
        end_timer(self, timer);
    }
}

void
troupe_timer_cancel_all(troupe_self *self)
{
    cancel_all(self, timers_of_self(self));
}

static void
end_idle(struct troupe_self *self, struct trp_cell *cell)
{
    struct trp_timers *timers = timers_of(self->core, cell);

    if (timers != NULL && timers->idle != NULL) {
        struct trp_timer *idle = timers->idle;

        timers->idle = NULL;
        trp_cell_set_flags(
            cell, trp_cell_flags(cell) & ~(uint32_t)TRP_CELL_TIMEOUT);
        end_timer(self, idle);
    }
}

void
trp_timers_end(struct troupe_self *self, struct trp_cell *cell)
{
    cancel_all(self, timers_of(self->core, cell));
    end_idle(self, cell);
}

/* In place of what has the key. E_NOMEM: nothing was done, `item` is left. */
static troupe_status
replace(struct troupe_self *self, enum trp_timer_kind kind, uint64_t key,
    const troupe_msg_type *type, struct trp_item *item, uint64_t first_ns,
    uint64_t interval_ns)
{
    struct trp_timers *timers = own_timers(self);
    struct trp_timer *timer =
        timers != NULL ? new_timer(self, kind, interval_ns) : NULL;

    if (timer == NULL) {
        return TROUPE_E_NOMEM;
    }
    timer->box.msg.type = type;
    timer->box.msg.bytes = type->bytes;
    if ((item->mark & TRP_MARK_BOXED) != 0) {
        timer->of.message = trp_item_box(item);
        timer->box.msg.payload = timer->of.message->msg.payload;
    } else {
        timer->of.words[0] = item->payload[0];
        timer->of.words[1] = item->payload[1];
        timer->box.msg.payload = timer->of.words;
    }
    timer->key = key;
    (void)troupe_timer_cancel(self, key);
    trp_timer_table_add(
        &timers->table, &self->core->messages, &self->core->heap, timer);
    if (first_ns != 0) {
        set_after(
            self->core, timer, trp_alarm_now(&self->core->sched), first_ns);
    } else {
        timer->alarm.entry.time = trp_alarm_now(&self->core->sched);
        if (deliver(self->core, self->local, timer)) {
            self->after |= TRP_AFTER_SELF;
        }
    }
    return TROUPE_OK;
}

troupe_status
trp_timer_start_own(troupe_self *self, uint64_t key,
    const troupe_msg_type *type, uint64_t delay_ns, const char *call)
{
    troupe_status status = check_self(self, call);
    struct trp_item item = {0};

    return status != TROUPE_OK
               ? status
               : replace(self, TRP_TIMER_ONCE, key, type, &item, delay_ns, 0);
}

static troupe_status
start(troupe_self *self, const char *call, enum trp_timer_kind kind,
    uint64_t key, const troupe_msg_type *type, const void *payload,
    uint64_t first_ns, uint64_t interval_ns)
{
    struct trp_sending sending = {.call = call};
    troupe_status status = check_self(self, call);
    struct trp_item item;

    if (status != TROUPE_OK) {
        return status;
    }
    if (kind != TRP_TIMER_ONCE && interval_ns == 0) {
        return trp_refuse(TROUPE_E_INVALID, call,
            kind == TRP_TIMER_RATE ? "period_ns" : "delay_ns",
            "must be at least 1", "0");
    }
    if (kind != TRP_TIMER_ONCE && type != NULL && type->drop != NULL) {
        return trp_refuse(TROUPE_E_INVALID, call, "type",
            "owns something and cannot be repeated", "%s", trp_type_name(type));
    }
    sending.core = self->core;
    sending.local = self->local;
    status = trp_send_make(
        &sending, type, payload, type != NULL ? type->bytes : 0, &item);
    if (status != TROUPE_OK) {
        return status;
    }
    status = replace(self, kind, key, type, &item, first_ns, interval_ns);
    if (status != TROUPE_OK) {
        trp_send_unmake(&sending, &item);
        return status;
    }
    (void)trp_send_move_on(&sending, type, payload, type->bytes);
    return TROUPE_OK;
}

troupe_status
troupe_timer_once(troupe_self *self, uint64_t key, const troupe_msg_type *type,
    const void *payload, uint64_t delay_ns)
{
    return start(self, "troupe_timer_once", TRP_TIMER_ONCE, key, type, payload,
        delay_ns, 0);
}

troupe_status
troupe_timer_fixed_delay(troupe_self *self, uint64_t key,
    const troupe_msg_type *type, const void *payload, uint64_t first_ns,
    uint64_t delay_ns)
{
    return start(self, "troupe_timer_fixed_delay", TRP_TIMER_DELAY, key, type,
        payload, first_ns, delay_ns);
}

troupe_status
troupe_timer_fixed_rate(troupe_self *self, uint64_t key,
    const troupe_msg_type *type, const void *payload, uint64_t first_ns,
    uint64_t period_ns)
{
    return start(self, "troupe_timer_fixed_rate", TRP_TIMER_RATE, key, type,
        payload, first_ns, period_ns);
}

troupe_status
troupe_receive_timeout(troupe_self *self, uint64_t silence_ns)
{
    static const char call[] = "troupe_receive_timeout";
    troupe_status status = check_self(self, call);
    struct trp_timers *timers;
    struct trp_timer *timer;
    uint64_t now_ns;

    if (status != TROUPE_OK) {
        return status;
    }
    if (silence_ns == TROUPE_NEVER) {
        end_idle(self, self->cell);
        return TROUPE_OK;
    }
    timers = own_timers(self);
    timer = timers != NULL ? new_timer(self, TRP_TIMER_IDLE, silence_ns) : NULL;
    if (timer == NULL) {
        return TROUPE_E_NOMEM;
    }
    end_idle(self, self->cell);
    timers->idle = timer;
    trp_cell_set_flags(
        self->cell, trp_cell_flags(self->cell) | TRP_CELL_TIMEOUT);
    self->after |= TRP_AFTER_RULES;
    now_ns = trp_alarm_now(&self->core->sched);
    trp_store_relaxed(&timer->of.last_ns, now_ns); /* relaxed: timer.last */
    set_after(self->core, timer, now_ns, silence_ns);
    return TROUPE_OK;
}
