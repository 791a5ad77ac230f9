/* SPDX-License-Identifier: MIT */
#include "actor/watch.h"

#include "actor/send.h"
#include "queue/capacity.h"

#include <troupe/watch.h>

#include <string.h>

struct trp_watch {
    /* under the lock of the subject's cell */
    struct trp_watch *next;
    struct trp_watch **link; /* what points here; NULL: not on the list */
    /* constant */
    troupe_ref watcher;
    /* owner of the watcher */
    troupe_exit exit;        /* .actor: the subject; the rest when shown */
    struct trp_box *instead; /* comes instead of the notice; or NULL */
    bool was_listed;         /* it may still be; constant */
    bool is_stashed;         /* its notice is */
};

_Static_assert(sizeof(struct trp_watch) <= 64, "a block of class 0");
_Static_assert(sizeof(troupe_exit) <= TRP_INLINE_BYTES, "needs no memory");

const troupe_msg_type trp_notice_type = {sizeof(troupe_msg_type), "down",
    sizeof(troupe_exit), TROUPE_TAG_DOWN, TROUPE_MSG_UNDROPPABLE, NULL};

/* The same for those who see it. A forwarded one is a message like others. */
static const troupe_msg_type down_type = {sizeof(troupe_msg_type), "down",
    sizeof(troupe_exit), TROUPE_TAG_DOWN, TROUPE_MSG_UNDROPPABLE, NULL};

/* --- the table ------------------------------------------------------------ */

/*
 * Linear probing, at most three quarters full. The first one is a block of the
 * pool, as a watch is; larger ones are of the heap.
 */

_Static_assert(TRP_CAPACITY_FIRST * sizeof(struct trp_watch *) <= 64,
    "a block of class 0");

static struct trp_pool_cache *
cache_of(struct trp_local *local)
{
    return local != NULL ? &local->messages : NULL;
}

static void *
new_block(struct trp_core *core, struct trp_local *local)
{
    uint32_t unit = trp_pool_take(&core->messages, cache_of(local), 0);

    return unit != TRP_POOL_NONE ? trp_pool_address(&core->messages, unit)
                                 : NULL;
}

static void
free_block(struct trp_core *core, struct trp_local *local, void *block)
{
    trp_pool_give(&core->messages, cache_of(local),
        trp_pool_unit(&core->messages, block));
}

static struct trp_watch **
new_slots(struct trp_core *core, struct trp_local *local, uint32_t slots)
{
    struct trp_watch **slot = NULL;

    if (slots > TRP_CAPACITY_FIRST) {
        return trp_heap_alloc(&core->heap, slots * sizeof *slot);
    }
    slot = new_block(core, local);
    if (slot != NULL) {
        memset(slot, 0, slots * sizeof *slot);
    }
    return slot;
}

static void
free_slots(struct trp_core *core, struct trp_local *local,
    const struct trp_watching *watching)
{
    if (watching->slots > TRP_CAPACITY_FIRST) {
        trp_heap_free(&core->heap, watching->slot,
            watching->slots * sizeof *watching->slot);
    } else if (watching->slots != 0) {
        free_block(core, local, watching->slot);
    }
}

static uint32_t
home_of(const struct trp_watching *watching, troupe_ref subject)
{
    uint64_t hash = trp_ref_pack(subject) * UINT64_C(0x9e3779b97f4a7c15);

    return (uint32_t)(hash >> 32) & (watching->slots - 1);
}

/* Which of the watches of a subject: W3. */
enum which { ANY, STASHED, NOT_STASHED };

static struct trp_watch **
find(const struct trp_watching *watching, troupe_ref subject, enum which which)
{
    uint32_t at;

    if (watching == NULL || watching->count == 0) {
        return NULL;
    }
    for (at = home_of(watching, subject); watching->slot[at] != NULL;
         at = (at + 1) & (watching->slots - 1)) {
        const struct trp_watch *watch = watching->slot[at];

        if (troupe_ref_equal(watch->exit.actor, subject) &&
            (which == ANY || watch->is_stashed == (which == STASHED))) {
            return &watching->slot[at];
        }
    }
    return NULL;
}

/* There is room. */
static void
put(struct trp_watching *watching, struct trp_watch *watch)
{
    uint32_t at = home_of(watching, watch->exit.actor);

    while (watching->slot[at] != NULL) {
        at = (at + 1) & (watching->slots - 1);
    }
    watching->slot[at] = watch;
    watching->count++;
}

static bool
resize(struct trp_core *core, struct trp_local *local,
    struct trp_watching *watching, uint32_t slots)
{
    struct trp_watching old = *watching;
    struct trp_watch **slot = new_slots(core, local, slots);

    if (slot == NULL) {
        return false;
    }
    /* In this order: a fork in between must not leave what was freed. */
    watching->slot = slot;
    watching->slots = slots;
    watching->count = 0;
    for (uint32_t at = 0; at < old.slots; at++) {
        if (old.slot[at] != NULL) {
            put(watching, old.slot[at]);
        }
    }
    free_slots(core, local, &old);
    return true;
}

/* Room for one more. */
static bool
reserve(struct trp_core *core, struct trp_local *local,
    struct trp_watching *watching)
{
    uint32_t slots;

    if (watching->count + 1 <= watching->slots - watching->slots / 4) {
        return true;
    }
    slots = trp_capacity_above(watching->slots);
    return slots != 0 && resize(core, local, watching, slots);
}

/* Those behind it that it kept from their home move up. */
static struct trp_watch *
take_out(struct trp_core *core, struct trp_local *local,
    struct trp_watching *watching, struct trp_watch **place)
{
    struct trp_watch *watch = *place;
    struct trp_watch **slot = watching->slot;
    uint32_t mask = watching->slots - 1;
    uint32_t hole = (uint32_t)(place - slot);

    for (uint32_t at = (hole + 1) & mask; slot[at] != NULL;
         at = (at + 1) & mask) {
        uint32_t home = home_of(watching, slot[at]->exit.actor);

        if (((at - home) & mask) >= ((at - hole) & mask)) {
            slot[hole] = slot[at];
            hole = at;
        }
    }
    slot[hole] = NULL;
    watching->count--;
    if (trp_capacity_is_too_large(watching->slots, watching->count)) {
        (void)resize(
            core, local, watching, watching->slots / 2); /* else later */
    }
    return watch;
}

/* --- one watch ------------------------------------------------------------ */

static struct trp_watch *
new_watch(struct trp_core *core, struct trp_local *local, troupe_ref watcher,
    troupe_ref subject)
{
    struct trp_watch *watch = new_block(core, local);

    if (watch != NULL) {
        *watch = (struct trp_watch){.watcher = watcher, .exit.actor = subject};
    }
    return watch;
}

static void
change_form(
    struct trp_local *local, struct trp_watch *watch, troupe_msg *instead)
{
    if (watch->instead != NULL) {
        trp_box_release(local, watch->instead, true);
    }
    watch->instead = NULL;
    if (instead != NULL) {
        instead->sender = TROUPE_NONE;
        watch->instead = trp_box_of(instead);
    }
}

static void
unlink_locked(struct trp_watch *watch)
{
    *watch->link = watch->next;
    if (watch->next != NULL) {
        watch->next->link = watch->link;
    }
    watch->link = NULL;
}

/* E_DEAD: the subject has gone, and nothing was done. */
static troupe_status
enlist(struct trp_core *core, struct trp_watch *watch)
{
    troupe_ref subject = watch->exit.actor;
    troupe_status status = TROUPE_E_DEAD;
    struct trp_cell *cell;
    struct trp_cold *cold;

    if (!trp_ref_lives(core, subject)) {
        return status;
    }
    cell = trp_cell_at(core, subject.index);
    cold = trp_cold_of(core, cell);
    trp_lock_acquire(&cold->lock);
    if (trp_cell_life(cell) == subject.generation &&
        trp_cell_is_visible(cell)) {
        struct trp_extra *extra = trp_cell_extra_locked(core, cold);

        status = TROUPE_E_NOMEM;
        if (extra != NULL) {
            watch->next = extra->watchers;
            watch->link = &extra->watchers;
            if (watch->next != NULL) {
                watch->next->link = &watch->next;
            }
            extra->watchers = watch;
            watch->was_listed = true;
            status = TROUPE_OK;
        }
    }
    trp_lock_release(&cold->lock);
    return status;
}

static void
delist(struct trp_core *core, struct trp_watch *watch)
{
    if (watch->was_listed) { /* else the subject may have no cell at all */
        struct trp_lock *lock = &core->cold[watch->exit.actor.index].lock;

        trp_lock_acquire(lock);
        if (watch->link != NULL) {
            unlink_locked(watch);
        }
        trp_lock_release(lock);
    }
}

/* --- the watcher ---------------------------------------------------------- */

static void
make_item(struct trp_item *item, const troupe_msg_type *type, uint64_t flags,
    const troupe_exit *exit)
{
    item->mark = (uint64_t)(uintptr_t)type | flags |
                 (uint64_t)sizeof *exit << TRP_MARK_LENGTH_SHIFT;
    item->sender = trp_ref_pack(TROUPE_NONE);
    trp_item_copy(item, exit, sizeof *exit);
}

static troupe_status
send_notice(struct trp_core *core, struct trp_local *local, troupe_ref watcher,
    const troupe_exit *exit)
{
    struct trp_item item;

    make_item(&item, &trp_notice_type, TRP_MARK_NOTICE, exit);
    trp_book(core, local, sent, 1);
    return trp_mailbox_deliver(core, local, watcher, &item);
}

troupe_status
trp_watch_add(struct trp_core *core, struct trp_local *local,
    struct trp_watching *watching, troupe_ref watcher, troupe_ref subject,
    troupe_msg *instead)
{
    const troupe_exit gone = {.actor = subject, .kind = TROUPE_EXIT_UNKNOWN};
    struct trp_watch **known = find(watching, subject, ANY);
    struct trp_watch *watch;
    troupe_status status;

    if (known != NULL) {
        change_form(local, *known, instead);
        return TROUPE_OK;
    }
    watch = reserve(core, local, watching)
                ? new_watch(core, local, watcher, subject)
                : NULL;
    if (watch == NULL) {
        return TROUPE_E_NOMEM;
    }
    status = enlist(core, watch);
    if (status == TROUPE_E_DEAD) {
        status = send_notice(core, local, watcher, &gone);
        if (status != TROUPE_OK) {
            trp_book(core, local, refused, 1);
        }
    }
    if (status != TROUPE_OK) {
        free_block(core, local, watch);
        return status;
    }
    change_form(local, watch, instead);
    put(watching, watch);
    return TROUPE_OK;
}

void
trp_watch_remove(struct trp_core *core, struct trp_local *local,
    struct trp_watching *watching, troupe_ref subject)
{
    struct trp_watch **place;

    /* There may be two: one whose notice was stashed, and a later one. */
    while ((place = find(watching, subject, ANY)) != NULL) {
        struct trp_watch *watch = take_out(core, local, watching, place);

        delist(core, watch);
        change_form(local, watch, NULL);
        free_block(core, local, watch);
    }
}

static troupe_exit
exit_in(struct trp_item *item)
{
    troupe_exit exit;
    troupe_msg view;

    trp_item_view(item, &view);
    memcpy(&exit, view.payload, sizeof exit);
    return exit;
}

/* `which`: of what kind the notice is, W3. */
static bool
show(struct trp_core *core, struct trp_local *local,
    struct trp_watching *watching, struct trp_item *item, enum which which)
{
    troupe_exit exit = exit_in(item);
    struct trp_watch **place = find(watching, exit.actor, which);

    trp_item_release(local, item);
    if (place == NULL) {
        trp_book(core, local, cancelled, 1);
        return false;
    }
    watching->shown = take_out(core, local, watching, place);
    watching->shown->exit = exit;
    if (watching->shown->instead != NULL) {
        trp_item_from_box(item, watching->shown->instead);
    } else {
        make_item(item, &down_type, 0, &exit);
    }
    return true;
}

bool
trp_watch_show(struct trp_core *core, struct trp_local *local,
    struct trp_watching *watching, struct trp_item *item)
{
    return show(core, local, watching, item, NOT_STASHED);
}

void
trp_watch_settle(struct trp_core *core, struct trp_local *local,
    struct trp_watching *watching)
{
    if (watching->shown != NULL) {
        free_block(core, local, watching->shown);
        watching->shown = NULL;
    }
}

bool
trp_watch_put_back(struct troupe_self *self, struct trp_item *item, bool boxed)
{
    struct trp_core *core = self->core;
    struct trp_watching *watching = trp_watching_of(core, self->cell);
    struct trp_item notice;

    if (watching == NULL || watching->shown == NULL) {
        return true; /* a message like others */
    }
    make_item(
        &notice, &trp_notice_type, TRP_MARK_NOTICE, &watching->shown->exit);
    if (!reserve(core, self->local, watching)) {
        return false;
    }
    if (boxed) {
        struct trp_box *box = trp_item_own(core, self->local, &notice);

        if (box == NULL) {
            return false;
        }
        trp_item_from_box(&notice, box);
        notice.mark |= TRP_MARK_NOTICE;
    }
    watching->shown->is_stashed = true;
    put(watching, watching->shown);
    watching->shown = NULL;
    *item = notice;
    return true;
}

void
trp_watch_unstash(struct trp_watching *watching, struct trp_item *item)
{
    if ((item->mark & TRP_MARK_NOTICE) != 0) {
        struct trp_watch **place = find(watching, exit_in(item).actor, STASHED);

        if (place != NULL) {
            (*place)->is_stashed = false;
        }
    }
}

void
trp_watch_bury(struct trp_core *core, struct trp_local *local,
    struct trp_watching *watching, troupe_ref watcher, struct trp_item *item,
    troupe_dead_reason reason)
{
    bool is_notice = (item->mark & TRP_MARK_NOTICE) != 0;

    if (is_notice && !show(core, local, watching, item,
                         reason == TROUPE_DEAD_STASH ? STASHED : NOT_STASHED)) {
        return;
    }
    trp_item_bury(core, local, watcher, item, reason);
    if (is_notice) {
        trp_watch_settle(core, local, watching);
    }
}

void
trp_watch_leave(struct trp_core *core, struct trp_watching *watching)
{
    for (uint32_t at = 0; at < watching->slots; at++) {
        if (watching->slot[at] != NULL) {
            delist(core, watching->slot[at]);
        }
    }
}

void
trp_watch_end(struct trp_core *core, struct trp_local *local,
    struct trp_watching *watching)
{
    for (uint32_t at = 0; at < watching->slots; at++) {
        struct trp_watch *watch = watching->slot[at];

        if (watch != NULL) {
            change_form(local, watch, NULL);
            free_block(core, local, watch);
        }
    }
    free_slots(core, local, watching);
    *watching = (struct trp_watching){.slot = NULL};
}

void
trp_watch_fini(struct trp_core *core, struct trp_watching *watching)
{
    if (watching->slots > TRP_CAPACITY_FIRST) {
        free_slots(core, NULL, watching);
    }
}

/* --- the subject ---------------------------------------------------------- */

/* The first on the list, taken off it; TROUPE_NONE: nobody is. */
static troupe_ref
next_watcher(struct trp_cold *cold, struct trp_extra *extra)
{
    troupe_ref watcher = TROUPE_NONE;

    trp_lock_acquire(&cold->lock);
    if (extra->watchers != NULL) {
        watcher = extra->watchers->watcher;
        unlink_locked(extra->watchers); /* W1: it may be freed from here on */
    }
    trp_lock_release(&cold->lock);
    return watcher;
}

void
trp_watch_tell(struct trp_core *core, struct trp_local *local,
    struct trp_cold *cold, struct trp_extra *extra, const troupe_exit *exit)
{
    for (troupe_ref watcher = next_watcher(cold, extra);
         !troupe_ref_is_none(watcher); watcher = next_watcher(cold, extra)) {
        troupe_status status = send_notice(core, local, watcher, exit);

        if (status != TROUPE_OK) {
            troupe_exit copy = *exit;
            const troupe_msg view = {
                &down_type, &copy, sizeof copy, TROUPE_NONE};

            trp_dead_letter(core, local, watcher, &view, NULL,
                trp_send_reason(watcher, status));
        }
    }
}

/* --- the calls ------------------------------------------------------------ */

static troupe_status
watch(troupe_self *self, troupe_ref whom, troupe_msg *instead, const char *call)
{
    struct trp_extra *extra;

    if (troupe_ref_is_none(whom) || troupe_ref_equal(whom, self->ref)) {
        return trp_refuse(TROUPE_E_INVALID, call, "whom",
            "must not be TROUPE_NONE or the actor itself", "%u", whom.index);
    }
    if ((trp_cell_flags(self->cell) & TRP_CELL_STOPPING) != 0) {
        return trp_refuse(TROUPE_E_STATE, call, "self",
            "is stopping and gets no more messages", "%s", "stopping");
    }
    extra = trp_cell_extra(self->core, self->cell);
    return extra != NULL ? trp_watch_add(self->core, self->local,
                               &extra->watching, self->ref, whom, instead)
                         : TROUPE_E_NOMEM;
}

troupe_status
troupe_watch(troupe_self *self, troupe_ref whom)
{
    static const char call[] = "troupe_watch";

    if (self == NULL) {
        return trp_refuse(
            TROUPE_E_INVALID, call, "self", "must not be NULL", "NULL");
    }
    return watch(self, whom, NULL, call);
}

troupe_status
troupe_watch_with(troupe_self *self, troupe_ref whom, troupe_msg *notice)
{
    const struct trp_sending sending = {
        .core = self != NULL ? self->core : NULL, .call = "troupe_watch_with"};
    troupe_status status = trp_send_check_owned(&sending, notice);

    return status == TROUPE_OK ? watch(self, whom, notice, sending.call)
                               : status;
}

troupe_status
troupe_unwatch(troupe_self *self, troupe_ref whom)
{
    struct trp_watching *watching;

    if (self == NULL) {
        return trp_refuse(TROUPE_E_INVALID, "troupe_unwatch", "self",
            "must not be NULL", "NULL");
    }
    watching = trp_watching_of(self->core, self->cell);
    if (watching != NULL) {
        trp_watch_remove(self->core, self->local, watching, whom);
    }
    return TROUPE_OK;
}
