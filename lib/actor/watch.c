/* SPDX-License-Identifier: MIT */
#include "actor/watch.h"

#include "actor/send.h"

static const troupe_msg_type down_type = {sizeof(troupe_msg_type), "down",
    sizeof(troupe_exit), TROUPE_TAG_DOWN, TROUPE_MSG_UNDROPPABLE, NULL};

_Static_assert(sizeof(troupe_exit) <= TRP_INLINE_BYTES, "needs no memory");

void
trp_watch_notify(struct trp_core *core, struct trp_local *local,
    troupe_ref watcher, const troupe_exit *exit)
{
    struct trp_item item = {0};
    troupe_status status;

    item.mark = (uint64_t)(uintptr_t)&down_type | (uint64_t)sizeof *exit
                                                      << TRP_MARK_LENGTH_SHIFT;
    trp_item_copy(&item, exit, sizeof *exit);
    trp_book(core, local, sent, 1);
    status = trp_mailbox_deliver(core, local, watcher, &item);
    if (status != TROUPE_OK) {
        troupe_msg view;

        trp_item_view(&item, &view);
        trp_dead_letter(core, local, watcher, &view, NULL,
            trp_send_reason(watcher, status));
    }
}

/*
 * Whether it watches already. Those who have gone since are moved to `gone`:
 * they have ended, or are ports that were closed.
 */
static bool
find_watcher_locked(struct trp_core *core, struct trp_extra *extra,
    troupe_ref watcher, struct trp_watcher **gone)
{
    struct trp_watcher **link = &extra->watchers;
    bool found = false;

    while (*link != NULL) {
        struct trp_watcher *entry = *link;

        if (!trp_cell_lives(core, entry->ref)) {
            *link = entry->next;
            entry->next = *gone;
            *gone = entry;
            continue;
        }
        found = found || troupe_ref_equal(entry->ref, watcher);
        link = &entry->next;
    }
    return found;
}

static void
free_watchers(struct trp_core *core, struct trp_watcher *list)
{
    while (list != NULL) {
        struct trp_watcher *entry = list;

        list = entry->next;
        trp_heap_free(&core->heap, entry, sizeof *entry);
    }
}

troupe_status
trp_watch_add(struct trp_core *core, struct trp_local *local,
    troupe_ref subject, troupe_ref watcher, bool *added)
{
    const troupe_exit gone = {.actor = subject, .kind = TROUPE_EXIT_UNKNOWN};
    struct trp_watcher *entry = NULL, *unused = NULL;
    struct trp_cell *cell;
    struct trp_cold *cold;
    struct trp_extra *extra;
    bool alive;

    if (added != NULL) {
        *added = true;
    }
    if (!trp_ref_lives(core, subject)) {
        trp_watch_notify(core, local, watcher, &gone);
        return TROUPE_OK;
    }
    cell = trp_cell_at(core, subject.index);
    cold = trp_cold_of(core, cell);
    entry = trp_heap_alloc(&core->heap, sizeof *entry);
    if (entry == NULL) {
        return TROUPE_E_NOMEM;
    }
    entry->ref = watcher;
    trp_lock_acquire(&cold->lock);
    alive =
        trp_cell_life(cell) == subject.generation && trp_cell_is_visible(cell);
    if (alive) {
        extra = trp_cell_extra_locked(core, cold);
        if (extra == NULL) {
            trp_lock_release(&cold->lock);
            trp_heap_free(&core->heap, entry, sizeof *entry);
            return TROUPE_E_NOMEM;
        }
        if (!find_watcher_locked(core, extra, watcher, &unused)) {
            entry->next = extra->watchers;
            extra->watchers = entry;
            entry = NULL;
        } else if (added != NULL) {
            *added = false;
        }
    }
    trp_lock_release(&cold->lock);
    trp_heap_free(&core->heap, entry, sizeof *entry);
    free_watchers(core, unused);
    if (!alive) {
        trp_watch_notify(core, local, watcher, &gone);
    }
    return TROUPE_OK;
}

void
trp_watch_remove(struct trp_core *core, troupe_ref subject, troupe_ref watcher)
{
    struct trp_watcher *found = NULL;
    struct trp_cell *cell;
    struct trp_cold *cold;
    struct trp_extra *extra;

    if (!trp_ref_lives(core, subject)) {
        return;
    }
    cell = trp_cell_at(core, subject.index);
    cold = trp_cold_of(core, cell);
    trp_lock_acquire(&cold->lock);
    extra = trp_load_relaxed(&cold->extra); /* relaxed: under lock */
    if (trp_cell_life(cell) == subject.generation && extra != NULL) {
        struct trp_watcher **link = &extra->watchers;

        while (*link != NULL && !troupe_ref_equal((*link)->ref, watcher)) {
            link = &(*link)->next;
        }
        found = *link;
        if (found != NULL) {
            *link = found->next;
        }
    }
    trp_lock_release(&cold->lock);
    trp_heap_free(&core->heap, found, sizeof *found);
}
