/* SPDX-License-Identifier: MIT */
#include "actor/stop.h"

#include "actor/mailbox.h"
#include "actor/op.h"
#include "actor/rules.h"
#include "actor/timers.h"
#include "actor/watch.h"

#include <troupe/stop.h>

/* When a system stops: events about actors, and actors that wait for them. */
#define ERRORS_MOST 64
#define LISTENERS_MOST 64

/* --- requests ------------------------------------------------------------- */

static troupe_status
stop_in_line(struct trp_core *core, struct trp_local *local, troupe_ref whom)
{
    const struct trp_item item = {.mark = TRP_MARK_CONTROL};
    troupe_status status = trp_mailbox_deliver(core, local, whom, &item);

    if (status == TROUPE_OK) {
        trp_book(core, local, stops, 1);
    }
    return status == TROUPE_E_DEAD ? TROUPE_OK : status; /* stopped already */
}

/* What waits for tokens, or suspended, may wait for long: nobody does that. */
static bool
may_wait_long(struct trp_core *core, uint32_t index)
{
    struct trp_cell *cell = trp_cell_at(core, index);
    struct trp_rules *rules = trp_rules_of(core, cell);

    return (trp_cell_flags(cell) & TRP_CELL_SUSPENDED) != 0 ||
           /* relaxed: a look. */
           (rules != NULL && trp_load_relaxed(&rules->is_throttled) != 0);
}

/* Each child in turn, under the parent's lock: none comes or goes meanwhile. */
TRP_INLINE void
each_child(struct trp_core *core, struct trp_cell *cell,
    void (*what)(void *user, uint32_t index), void *user)
{
    struct trp_cold *cold = trp_cold_of(core, cell);
    uint32_t index;

    trp_lock_acquire(&cold->lock);
    index = trp_first_child_locked(cold);
    while (index != 0) {
        what(user, index);
        index = core->cold[index].next;
        if (index == trp_first_child_locked(cold)) {
            break;
        }
    }
    trp_lock_release(&cold->lock);
}

/* Who tells the children of an actor to stop. */
struct teller {
    struct trp_core *core;
    struct trp_local *local;
};

/* And what comes of it where they may drain. */
struct telling {
    struct teller by;
    uint32_t hurried; /* there was no memory to let them drain */
    struct trp_life errors[ERRORS_MOST]; /* the first of those */
    /* Those who hear of errors, as far as they are children: told last. */
    uint32_t listeners;
    troupe_ref listener[LISTENERS_MOST];
    bool is_child[LISTENERS_MOST];
};

static void
stop_child_now(void *user, uint32_t index)
{
    const struct teller *by = user;

    trp_mailbox_request(by->core, by->local,
        trp_cell_ref(by->core, trp_cell_at(by->core, index)), TRP_RING_KILL);
}

/* False: for want of memory it was told to stop now. */
static bool
stop_or_hurry(const struct teller *by, troupe_ref whom)
{
    bool hurries = false;

    if (!may_wait_long(by->core, whom.index)) {
        if (stop_in_line(by->core, by->local, whom) == TROUPE_OK) {
            return true;
        }
        hurries = true;
    }
    trp_mailbox_request(by->core, by->local, whom, TRP_RING_KILL);
    return !hurries;
}

static bool
is_held_back(struct telling *telling, troupe_ref child)
{
    for (uint32_t i = 0; i < telling->listeners; i++) {
        if (troupe_ref_equal(telling->listener[i], child)) {
            telling->is_child[i] = true;
            return true;
        }
    }
    return false;
}

static void
stop_child_in_line(void *user, uint32_t index)
{
    struct telling *telling = user;
    struct trp_core *core = telling->by.core;
    struct trp_cell *cell = trp_cell_at(core, index);
    troupe_ref child = trp_cell_ref(core, cell);

    if (is_held_back(telling, child) || stop_or_hurry(&telling->by, child)) {
        return;
    }
    if (telling->hurried < ERRORS_MOST) {
        telling->errors[telling->hurried] = trp_life_of(
            core, cell, TROUPE_EXIT_STOPPED, (int32_t)TROUPE_E_NOMEM);
    }
    telling->hurried++;
}

void
trp_stop_children(
    struct trp_core *core, struct trp_local *local, struct trp_cell *cell)
{
    struct teller by = {core, local};

    each_child(core, cell, stop_child_now, &by);
}

uint32_t
trp_stop_children_in_line(
    struct trp_core *core, struct trp_local *local, struct trp_cell *cell)
{
    struct telling telling = {.by = {core, local}};

    /* relaxed: who subscribes meanwhile may miss one. */
    if (trp_load_relaxed(&core->life_listeners) != 0) {
        telling.listeners =
            core->error_listeners(core, telling.listener, LISTENERS_MOST);
    }
    each_child(core, cell, stop_child_in_line, &telling);
    if (telling.listeners != 0) {
        for (uint32_t i = 0; i < telling.hurried && i < ERRORS_MOST; i++) {
            core->on_error(core, local, &telling.errors[i]);
        }
    }
    for (uint32_t i = 0; i < telling.listeners; i++) {
        if (telling.is_child[i] &&
            !stop_or_hurry(&telling.by, telling.listener[i])) {
            telling.hurried++;
        }
    }
    return telling.hurried;
}

/* --- the three steps ------------------------------------------------------ */

/* Before the ring is closed: T2 of timers.h. */
static void
leave_others(struct troupe_self *self, struct trp_cell *cell)
{
    struct trp_watching *watching = trp_watching_of(self->core, cell);

    if (watching != NULL) { /* first: the ends of its children are no news */
        trp_watch_leave(self->core, watching);
    }
    trp_timers_end(self, cell);
}

/*
 * Without the lock: an actor has only the children that it has spawned itself.
 * A guardian has those that others spawn, so what it sees is old without it.
 */
static bool
has_children(const struct trp_cell *cell, struct trp_cold *cold)
{
    bool has;

    if (TRP_LIKELY(trp_cell_kind(cell) != TRP_KIND_GUARDIAN)) {
        return trp_load_acquire(&cold->first) != 0; /* pairs: cell.first */
    }
    trp_lock_acquire(&cold->lock);
    has = trp_first_child_locked(cold) != 0;
    trp_lock_release(&cold->lock);
    return has;
}

bool
trp_has_children(struct trp_core *core, struct trp_cell *cell)
{
    return has_children(cell, trp_cold_of(core, cell));
}

/* From here on sends fail; the children are told to stop. */
TRP_INLINE void
begin(struct troupe_self *self, struct trp_cell *cell, struct trp_cold *cold,
    troupe_exit_kind kind, int32_t code)
{
    if (trp_load_relaxed(&cold->extra) != NULL) { /* relaxed: ours */
        leave_others(self, cell);
    }
    trp_cell_set_flags(
        cell, (trp_cell_flags(cell) & ~(uint32_t)TRP_CELL_SUSPENDED) |
                  TRP_CELL_STOPPING | (uint32_t)kind << TRP_CELL_EXIT_SHIFT);
    cold->code = code;
    trp_ring_close(&cell->ring);
    if (has_children(cell, cold)) {
        trp_stop_children(self->core, self->local, cell);
    }
}

/*
 * Gives S away until a child sets L. True: it was given away. Messages may
 * stay queued: X makes senders refuse before they look at S (ring.h I3).
 */
static bool
wait_for_children(struct trp_cell *cell, struct trp_cold *cold)
{
    uint64_t word = trp_and_acq_rel(&cell->ring.word, /* pairs: ring.claim */
                        ~(TRP_RING_SIGNAL | TRP_RING_KILL)) &
                    ~(TRP_RING_SIGNAL | TRP_RING_KILL);

    return has_children(cell, cold) &&
           trp_cas_acq_rel(&cell->ring.word, &word, /* pairs: ring.claim */
               word & ~TRP_RING_SCHEDULED);
}

static troupe_exit
exit_of(struct troupe_self *self, struct trp_cell *cell,
    const struct trp_cold *cold)
{
    troupe_exit exit;

    exit.actor = self->ref;
    exit.kind = (troupe_exit_kind)((trp_cell_flags(cell) & TRP_CELL_EXIT) >>
                                   TRP_CELL_EXIT_SHIFT);
    exit.code = cold->code;
    return exit;
}

static void
call_stop(struct troupe_self *self, struct trp_cell *cell,
    const struct trp_cold *cold, const troupe_exit *exit)
{
    /* relaxed: constant in a life. */
    const troupe_actor_type *type = trp_load_relaxed(&cold->type);
    uint32_t flags = trp_cell_flags(cell);

    trp_cell_set_flags(cell, flags | TRP_CELL_FINISHING);
    if ((flags & TRP_CELL_STARTED) != 0 && type != NULL && type->stop != NULL) {
        self->current.msg = NULL;
        type->stop(self, trp_cell_state(cell), exit);
    }
}

/* What is queued: dead letters. False: a claimed slot is not written yet. */
static bool
drain(struct troupe_self *self, struct trp_cell *cell,
    struct trp_cursor *cursor, troupe_ref ref)
{
    struct trp_core *core = self->core;
    struct trp_rules *rules = trp_rules_of(core, cell);
    struct trp_item item;

    if (TRP_UNLIKELY(rules != NULL)) {
        trp_stash_bury(self, cell);
    }
    for (;;) {
        while (rules != NULL ? trp_rules_pop(cell, rules, cursor, &item)
                             : trp_ring_pop(cursor, &cell->ring, &item)) {
            if ((item.mark & TRP_MARK_CONTROL) != 0) {
                trp_book(core, self->local, stops, UINT64_MAX);
            } else if ((item.mark & TRP_MARK_TIMER) != 0) {
                trp_timer_return(core, self->local, &item); /* it has ended */
            } else {
                trp_watch_bury(core, self->local, trp_watching_of(core, cell),
                    ref, &item, TROUPE_DEAD_STOPPED);
            }
        }
        if (trp_ring_is_drained(
                cursor, &core->segments, &self->local->segments, &cell->ring)) {
            if (rules != NULL) {
                trp_rules_tell(rules, cell, cursor->head, false);
            }
            return true;
        }
        if (!trp_ring_is_written(cursor)) {
            return false;
        }
    }
}

void
trp_stop_continue(
    struct troupe_self *self, struct trp_cell *cell, struct trp_cursor *cursor)
{
    struct trp_core *core = self->core;
    struct trp_cold *cold = trp_cold_of(core, cell);
    bool was_user;
    troupe_exit exit;

    trp_cursor_publish(cursor, &cell->ring);
    if (TRP_UNLIKELY(!trp_ops_end(self, cell))) {
        trp_submit_stalled(self->worker, &cell->task);
        return;
    }
    while (has_children(cell, cold)) {
        if (wait_for_children(cell, cold)) {
            return;
        }
    }
    exit = exit_of(self, cell, cold);
    if ((trp_cell_flags(cell) & TRP_CELL_FINISHING) == 0) {
        call_stop(self, cell, cold, &exit);
    }
    if (!drain(self, cell, cursor, exit.actor)) {
        trp_cursor_publish(cursor, &cell->ring);
        trp_submit_stalled(self->worker, &cell->task);
        return;
    }
    was_user = trp_cell_kind(cell) != TRP_KIND_ACTOR &&
               troupe_ref_equal(exit.actor, core->user);
    if (trp_cell_kind(cell) == TRP_KIND_ACTOR) {
        trp_count(&self->local->books.stopped, 1);
    }
    trp_cell_destroy(core, self->local, cell, &exit);
    if (was_user) {
        core->on_user_gone(core);
    }
}

void
trp_stop(struct troupe_self *self, struct trp_cell *cell,
    struct trp_cursor *cursor, troupe_exit_kind kind, int32_t code)
{
    begin(self, cell, trp_cold_of(self->core, cell), kind, code);
    trp_stop_continue(self, cell, cursor);
}

/* --- the calls ------------------------------------------------------------ */

troupe_status
trp_stop_check(struct trp_core *core, troupe_ref whom, const char *call)
{
    struct trp_cell *cell;
    uint8_t kind;

    if (troupe_ref_is_none(whom)) {
        return trp_refuse(TROUPE_E_INVALID, call, "whom",
            "must not be TROUPE_NONE", "TROUPE_NONE");
    }
    if (!trp_ref_is_possible(core, whom)) {
        return TROUPE_OK;
    }
    cell = trp_cell_at(core, whom.index);
    /*
     * One look at the kind, before the generation: an actor that ends between
     * two looks, and a port that takes its cell, are no mistake of the caller.
     */
    kind = trp_load_acquire(&cell->kind); /* pairs: cell.kind */
    if ((kind == TRP_KIND_PORT || kind == TRP_KIND_GUARDIAN) &&
        /* relaxed: not older than the kind above. */
        (trp_load_relaxed(&cell->generation) & TRP_LIFE_MASK) ==
            whom.generation) {
        return trp_refuse(TROUPE_E_STATE, call, "whom",
            "is a port or a guardian and not stopped this way", "%u",
            whom.index);
    }
    return TROUPE_OK;
}

static troupe_status
stop(struct trp_core *core, struct trp_local *local, troupe_ref whom, bool now,
    const char *call)
{
    troupe_status status = trp_stop_check(core, whom, call);

    if (status != TROUPE_OK) {
        return status;
    }
    if (now) {
        trp_mailbox_request(core, local, whom, TRP_RING_KILL);
        return TROUPE_OK;
    }
    return stop_in_line(core, local, whom);
}

troupe_status
troupe_stop(troupe_self *self, troupe_ref whom)
{
    if (self == NULL) {
        return trp_refuse(TROUPE_E_INVALID, "troupe_stop", "self",
            "must not be NULL", "NULL");
    }
    return stop(self->core, self->local, whom, false, "troupe_stop");
}

troupe_status
troupe_stop_now(troupe_self *self, troupe_ref whom)
{
    if (self == NULL) {
        return trp_refuse(TROUPE_E_INVALID, "troupe_stop_now", "self",
            "must not be NULL", "NULL");
    }
    return stop(self->core, self->local, whom, true, "troupe_stop_now");
}

static troupe_status
post_stop(troupe_system *system, troupe_ref whom, bool now, const char *call)
{
    struct trp_core *core = trp_core_of(system);

    if (system == NULL) {
        return trp_refuse(
            TROUPE_E_INVALID, call, "system", "must not be NULL", "NULL");
    }
    if (!trp_core_is_alive(core)) {
        return TROUPE_E_FORKED;
    }
    return stop(core, trp_local_here(core), whom, now, call);
}

troupe_status
troupe_post_stop(troupe_system *system, troupe_ref whom)
{
    return post_stop(system, whom, false, "troupe_post_stop");
}

troupe_status
troupe_post_stop_now(troupe_system *system, troupe_ref whom)
{
    return post_stop(system, whom, true, "troupe_post_stop_now");
}
