/* SPDX-License-Identifier: MIT */
#include "actor/cell.h"

#include "actor/mailbox.h"
#include "actor/op.h"
#include "actor/registry.h"
#include "actor/route.h"
#include "actor/rules.h"
#include "actor/supervise.h"
#include "actor/timers.h"
#include "actor/watch.h"
#include "os/arena.h"

#include <string.h>

/*
 * Cold parts are made usable this many at a time: 48 pages of 4 KiB, later 3
 * large pages.
 */
#define COLD_STEP UINT32_C(4096)
#define COLD_LARGE_STEP UINT32_C(131072)

/* Makes the cold part of cell `index` usable. Idempotent: nobody waits. */
static bool
commit_cold(struct trp_core *core, uint32_t index)
{
    uint32_t from =
        trp_load_acquire(&core->cold_committed); /* pairs: cell.cold */
    uint32_t end, step, to;
    size_t bytes;

    if (TRP_LIKELY(index < from)) {
        return true;
    }
    end = (uint32_t)(core->cold_bytes / sizeof(struct trp_cold));
    step = from >= COLD_LARGE_STEP ? COLD_LARGE_STEP : COLD_STEP;
    to = (index / step + 1) * step;
    if (to > end) {
        to = end;
    }
    bytes = (size_t)(to - from) * sizeof(struct trp_cold);
    if (!trp_heap_may_grow(&core->heap) ||
        !trp_arena_commit(&core->cold[from], bytes)) {
        return false;
    }
    if (step == COLD_LARGE_STEP) {
        trp_arena_use_large_pages(&core->cold[from], bytes);
    }
    /* pairs: cell.cold */
    while (from < to && !trp_cas_acq_rel(&core->cold_committed, &from, to)) {
    }
    return true;
}

/* --- extras --------------------------------------------------------------- */

static void
free_extra(struct trp_core *core, struct trp_extra *extra)
{
    trp_asker_free(core, extra->asker);
    trp_heap_free(&core->heap, extra->name,
        extra->name != NULL ? extra->name_bytes + 1 : 0);
    trp_timers_free(core, extra->timers);
    trp_heap_free(&core->heap, extra->arg, extra->arg_bytes);
    trp_heap_free(&core->heap, extra->stack,
        extra->stack_capacity * sizeof(troupe_behaviour_fn));
    trp_supervision_release(core, extra->children);
    trp_supervision_release(core, extra->own);
    trp_failures_free(core, extra);
    trp_watch_fini(core, &extra->watching);
    trp_heap_free(&core->heap, extra, sizeof *extra);
}

static struct trp_extra *
new_extra(struct trp_core *core, const struct trp_birth_options *birth)
{
    struct trp_extra *extra = trp_heap_alloc(&core->heap, sizeof *extra);
    bool good = extra != NULL;

    if (good && birth->name != NULL) {
        extra->name_bytes = strlen(birth->name);
        extra->name = trp_heap_alloc(&core->heap, extra->name_bytes + 1);
        good = extra->name != NULL;
        if (good) {
            memcpy(extra->name, birth->name, extra->name_bytes);
        }
    }
    if (good && birth->arg_bytes != 0) {
        extra->arg = trp_heap_alloc(&core->heap, birth->arg_bytes);
        good = extra->arg != NULL;
        if (good) {
            extra->arg_bytes = birth->arg_bytes;
            memcpy(extra->arg, birth->arg, birth->arg_bytes);
        }
    }
    if (good && birth->children != NULL) {
        extra->children = trp_supervision_new(core, birth->children);
        good = extra->children != NULL;
    }
    if (good && birth->own != NULL) {
        extra->own = trp_supervision_new(core, birth->own);
        good = extra->own != NULL;
    }
    if (good) {
        extra->throughput = birth->throughput;
        extra->actor_flags = birth->flags;
        return extra;
    }
    if (extra != NULL) {
        free_extra(core, extra);
    }
    return NULL;
}

struct trp_extra *
trp_cell_extra_locked(struct trp_core *core, struct trp_cold *cold)
{
    static const struct trp_birth_options nothing = {0};
    /* relaxed: under lock. */
    struct trp_extra *extra = trp_load_relaxed(&cold->extra);

    if (extra == NULL) {
        extra = new_extra(core, &nothing);
        trp_store_release(&cold->extra, extra); /* pairs: cell.extra */
    }
    return extra;
}

struct trp_extra *
trp_cell_extra(struct trp_core *core, struct trp_cell *cell)
{
    struct trp_cold *cold = trp_cold_of(core, cell);
    struct trp_extra *extra;

    trp_lock_acquire(&cold->lock);
    extra = trp_cell_extra_locked(core, cold);
    trp_lock_release(&cold->lock);
    return extra;
}

/* --- the tree ------------------------------------------------------------- */

static void
set_first_locked(struct trp_cold *parent, uint32_t index)
{
    trp_store_release(&parent->first, index); /* pairs: cell.first */
}

/* Siblings in spawn order: a ring through prev and next, closed at first. */
static void
link_child_locked(
    struct trp_core *core, struct trp_cold *parent, uint32_t index)
{
    struct trp_cold *child = &core->cold[index];
    uint32_t first = trp_first_child_locked(parent);

    if (first == 0) {
        child->prev = child->next = index;
        set_first_locked(parent, index);
        return;
    }
    child->next = first;
    child->prev = core->cold[first].prev;
    core->cold[child->prev].next = index;
    core->cold[first].prev = index;
}

static void
unlink_child_locked(
    struct trp_core *core, struct trp_cold *parent, uint32_t index)
{
    struct trp_cold *child = &core->cold[index];

    if (child->next == index) {
        set_first_locked(parent, 0);
        return;
    }
    core->cold[child->prev].next = child->next;
    core->cold[child->next].prev = child->prev;
    if (trp_first_child_locked(parent) == index) {
        set_first_locked(parent, child->next);
    }
}

/* E_STATE: the parent is stopping or has gone; E_EXISTS: the name is taken. */
static troupe_status
join_tree(struct trp_core *core, troupe_ref parent, uint32_t index,
    struct trp_extra *extra)
{
    struct trp_cell *cell = trp_cell_at(core, parent.index);
    struct trp_cold *cold = &core->cold[parent.index];
    troupe_status status = TROUPE_OK;

    trp_lock_acquire(&cold->lock);
    if (trp_cell_life(cell) != parent.generation ||
        (trp_cell_flags(cell) & (TRP_CELL_STOPPING | TRP_CELL_RESTARTING)) !=
            0) {
        status = TROUPE_E_STATE;
    } else if (extra != NULL && extra->name != NULL) {
        trp_lock_acquire(&core->names);
        extra->index = index;
        if (trp_registry_find_locked(
                core, parent.index, extra->name, extra->name_bytes) != NULL) {
            status = TROUPE_E_EXISTS;
        } else if (!trp_registry_add_locked(core, parent.index, extra)) {
            status = TROUPE_E_NOMEM;
        }
        trp_lock_release(&core->names);
    }
    if (status == TROUPE_OK) {
        link_child_locked(core, cold, index);
    }
    trp_lock_release(&cold->lock);
    return status;
}

/* --- birth ---------------------------------------------------------------- */

static struct trp_pool_cache *
cells_of(struct trp_local *local)
{
    return local != NULL ? &local->cells : NULL;
}

/* State of more than 16 bytes: a block of the message pool, or of the heap. */
static bool
make_state(struct trp_core *core, struct trp_local *local,
    struct trp_cell *cell, size_t bytes)
{
    uint32_t unit = TRP_POOL_NONE;
    uint32_t class;

    memset(&cell->state, 0, sizeof cell->state);
    if (TRP_LIKELY(bytes <= sizeof cell->state)) {
        return true;
    }
    class = trp_log2_ceil((bytes + 63) / 64);
    if (class < core->messages.classes) {
        unit = trp_pool_take(
            &core->messages, local != NULL ? &local->messages : NULL, class);
    }
    if (unit != TRP_POOL_NONE) {
        cell->state.memory = trp_pool_address(&core->messages, unit);
        memset(cell->state.memory, 0, bytes);
    } else { /* too large, or the pool has no more of this class */
        cell->state.memory = trp_heap_alloc(&core->heap, bytes);
    }
    return cell->state.memory != NULL;
}

static bool
is_of_pool(const struct trp_pool *pool, const void *block)
{
    uintptr_t offset = (uintptr_t)block - (uintptr_t)pool->base;

    return offset < pool->reserved_bytes;
}

static void
free_state(struct trp_core *core, struct trp_local *local,
    struct trp_cell *cell, size_t bytes)
{
    if (bytes <= sizeof cell->state) {
        return;
    }
    if (is_of_pool(&core->messages, cell->state.memory)) {
        trp_pool_give(&core->messages, local != NULL ? &local->messages : NULL,
            trp_pool_unit(&core->messages, cell->state.memory));
    } else {
        trp_heap_free(&core->heap, cell->state.memory, bytes);
    }
}

static size_t
state_bytes(const troupe_actor_type *type)
{
    return type != NULL ? type->state_bytes : 0;
}

/* A cell whose ring is closed and empty; generation and tickets go on. */
static troupe_status
take_cell(struct trp_core *core, struct trp_local *local, uint32_t *index)
{
    uint32_t unit = trp_pool_take(&core->cells, cells_of(local), 0);

    if (unit == TRP_POOL_NONE) {
        /* relaxed: only to tell the two reasons apart. */
        if (trp_load_relaxed(&core->cells.class[0].bump) >=
            core->cells.class[0].end) {
            return TROUPE_E_LIMIT;
        }
        return TROUPE_E_NOMEM;
    }
    if (!commit_cold(core, unit)) {
        trp_pool_give(&core->cells, cells_of(local), unit);
        return TROUPE_E_NOMEM;
    }
    *index = unit;
    return TROUPE_OK;
}

/* Everything but the ring's word: nobody else can reach the cell yet. */
static void
fill_cell(struct trp_core *core, struct trp_cell *cell, struct trp_cold *cold,
    troupe_ref parent, const struct trp_birth *birth, struct trp_extra *extra)
{
    bool has_start = birth->type != NULL && birth->type->start != NULL;
    uint32_t flags =
        has_start ? TRP_CELL_STARTING | TRP_CELL_UNBORN : TRP_CELL_STARTED;
    /* relaxed: a dead cell's word changes only by stray flags. */
    uint32_t tail = trp_ring_tail(trp_load_relaxed(&cell->ring.word)) + 1;

    if (birth->kind == TRP_KIND_PORT) {
        cell->state.notify = birth->notify;
    }
    if (state_bytes(birth->type) > sizeof cell->state) {
        flags |= TRP_CELL_BOXED_STATE;
    }
    if (birth->options != NULL && birth->options->throughput != 0) {
        flags |= TRP_CELL_THROUGHPUT;
    }
    trp_cell_set_flags(cell, flags);
    /* relaxed, all of them: published with the word, or with the tree. */
    trp_store_relaxed(&cell->ring.head, tail);
    cell->ring.segment = TRP_POOL_NONE;
    trp_store_relaxed(&cell->hint, 0); /* relaxed: same */
    cell->batch = TRP_BATCH_FIRST;
    cell->used_up = 0;
    cell->behaviour = birth->type != NULL ? birth->type->receive : NULL;
    if (trp_load_relaxed(&cell->generation) == 0) { /* relaxed: same */
        trp_store_relaxed(
            &cell->generation, core->first_generation); /* relaxed: same */
    }
    trp_store_release(&cold->extra, extra); /* pairs: cell.extra */
    /* pairs: cell.cold_part */
    trp_store_release(&cold->type, birth->type);
    trp_store_release(&cold->parent, parent.index); /* pairs: cell.cold_part */
    trp_store_release(&cold->birth, tail);          /* pairs: cell.cold_part */
    trp_store_relaxed(&cold->first, 0);             /* relaxed: same */
    trp_store_relaxed(&cold->wraps, 0);             /* relaxed: same */
    trp_store_relaxed(&cold->warned, 0);            /* relaxed: same */
    trp_store_relaxed(&cold->look, 0);              /* relaxed: same */
    cold->code = 0;
    /* relaxed, both: same. */
    trp_store_relaxed(&cell->park, 0);
    trp_store_relaxed(&cell->orders, 0); /* relaxed: same */
}

/* A mailbox that is not the default one, before anybody can reach the cell. */
TRP_COLD static troupe_status
add_rules(struct trp_core *core, struct trp_cell *cell,
    const struct trp_birth_options *birth)
{
    struct trp_rules *rules;
    uint32_t unit;
    troupe_status status = trp_rules_new(core, birth->mailbox,
        birth->stash_capacity != 0 ? birth->stash_capacity
                                   : core->stash_capacity,
        &unit);

    if (status != TROUPE_OK) {
        return status;
    }
    rules = trp_rules_at(core, unit);
    if (birth->is_router && !trp_route_open(core, rules)) {
        trp_rules_free(core, unit);
        return TROUPE_E_NOMEM;
    }
    if (birth->throttle != NULL) {
        trp_throttle_start(core, rules, birth->throttle);
    }
    if (birth->counter != NULL) {
        trp_rules_count(rules, cell, birth->counter, birth->counts_handled);
    }
    trp_store_release(&cell->rules, unit); /* pairs: rules.life */
    trp_cell_set_flags(cell, trp_cell_flags(cell) | TRP_CELL_RULED);
    if (trp_rules_are_strict(rules)) {
        /* relaxed: published with the word, or with the tree. */
        trp_store_relaxed(&cell->generation, /* relaxed: same */
            trp_load_relaxed(&cell->generation) | TRP_LIFE_RULED);
    }
    return TROUPE_OK;
}

/* Has a turn before the first message comes. */
static bool
runs_at_once(struct trp_core *core, struct trp_cell *cell)
{
    uint32_t flags = trp_cell_flags(cell);

    if (TRP_LIKELY((flags & (TRP_CELL_STARTING | TRP_CELL_RULED)) == 0)) {
        return false;
    }
    /* Under a lock senders leave the word alone while S is set: so we look. */
    return (flags & TRP_CELL_STARTING) != 0 ||
           trp_rules_have_lock(trp_rules_of(core, cell));
}

static bool
needs_extra(const struct trp_birth_options *options)
{
    return options->name != NULL || options->arg_bytes != 0 ||
           (options->throughput | options->flags) != 0 ||
           options->children != NULL || options->own != NULL;
}

/* A cell without an actor has none; late senders may still look at them. */
static void
drop_rules(struct trp_core *core, struct trp_cell *cell)
{
    uint32_t unit = trp_load_relaxed(&cell->rules); /* relaxed: ours */

    if (TRP_UNLIKELY(unit != TRP_POOL_NONE)) {
        trp_store_release(&cell->rules, TRP_POOL_NONE); /* pairs: rules.life */
        trp_rules_free(core, unit);
    }
}

static void
abandon_cell(struct trp_core *core, struct trp_local *local,
    struct trp_cell *cell, const struct trp_birth *birth,
    struct trp_extra *extra)
{
    /* Who reads a path of the life before sees it until it looks again. */
    trp_lock_acquire(&core->names);
    trp_store_relaxed(
        &trp_cold_of(core, cell)->extra, NULL); /* relaxed: same */
    trp_lock_release(&core->names);
    /* relaxed: it never had a kind, so nobody has seen it. */
    trp_store_relaxed(&cell->generation, /* relaxed: same */
        trp_load_relaxed(&cell->generation) & TRP_LIFE_MASK);
    drop_rules(core, cell);
    free_state(core, local, cell, state_bytes(birth->type));
    if (extra != NULL) {
        free_extra(core, extra);
    }
    trp_pool_give(&core->cells, cells_of(local), trp_cell_index(core, cell));
}

/* Into the registry and below `parent`; a root has only a name. */
static troupe_status
place(struct trp_core *core, troupe_ref parent, uint32_t index,
    struct trp_extra *extra)
{
    troupe_status status = TROUPE_OK;

    if (parent.index != 0) {
        return join_tree(core, parent, index, extra);
    }
    extra->index = index;
    trp_lock_acquire(&core->names);
    if (!trp_registry_add_locked(core, 0, extra)) {
        status = TROUPE_E_NOMEM;
    }
    trp_lock_release(&core->names);
    return status;
}

static bool
has_life_listeners(const struct trp_core *core)
{
    /* relaxed: who subscribes meanwhile may miss one. */
    return TRP_UNLIKELY(trp_load_relaxed(&core->life_listeners) != 0);
}

troupe_status
trp_cell_create(struct trp_core *core, struct trp_local *local,
    troupe_ref parent, const struct trp_birth *birth, troupe_ref *ref)
{
    const struct trp_birth_options *options = birth->options;
    struct trp_extra *extra = NULL;
    struct trp_cell *cell;
    troupe_status status;
    uint32_t index = 0;
    uint64_t word;

    status = take_cell(core, local, &index);
    if (status != TROUPE_OK) {
        return status;
    }
    cell = trp_cell_at(core, index);
    if (!make_state(core, local, cell, state_bytes(birth->type))) {
        trp_pool_give(&core->cells, cells_of(local), index);
        return TROUPE_E_NOMEM;
    }
    if (options != NULL && needs_extra(options)) {
        extra = new_extra(core, options);
        if (extra == NULL) {
            abandon_cell(core, local, cell, birth, NULL);
            return TROUPE_E_NOMEM;
        }
    }
    fill_cell(core, cell, &core->cold[index], parent, birth, extra);
    if (options != NULL && options->has_rules) {
        status = add_rules(core, cell, options);
        if (status != TROUPE_OK) {
            abandon_cell(core, local, cell, birth, extra);
            return status;
        }
    }
    /*
     * Open, but S is ours until the end: once it is in the tree a stop must
     * reach it, and nobody may run it before it is complete.
     */
    word =
        trp_ring_word(trp_load_relaxed(&cell->ring.head), 0, /* relaxed: ours */
            TRP_RING_SCHEDULED);
    trp_store_release(&cell->ring.word, word); /* pairs: ring.claim */
    status = place(core, parent, index, extra);
    if (status != TROUPE_OK) {
        trp_ring_close(&cell->ring); /* C1 */
        abandon_cell(core, local, cell, birth, extra);
        return status;
    }
    if (birth->kind == TRP_KIND_ACTOR) {
        trp_book(core, local, started, 1); /* before it can be stopped */
        if (birth->type->start != NULL) {
            trp_book(core, local, unborn, 1);
        }
    }
    /* From here on it can be seen from outside. */
    trp_store_release(&cell->kind, (uint8_t)birth->kind); /* pairs: cell.kind */
    ref->index = index;
    /* relaxed: S is ours. */
    ref->generation = trp_load_relaxed(&cell->generation) & TRP_LIFE_MASK;
    if (has_life_listeners(core) && birth->kind == TRP_KIND_ACTOR) {
        const struct trp_life life = {{.actor = *ref}, parent, birth->type};

        core->on_started(core, local, &life);
    }
    if (runs_at_once(core, cell) ||
        !trp_cas_acq_rel(&cell->ring.word, &word, /* pairs: ring.claim */
            word & ~TRP_RING_SCHEDULED)) {
        trp_mailbox_wake(core, local, cell);
    }
    return TROUPE_OK;
}

/* --- death ---------------------------------------------------------------- */

/* From here on refs to it are dead. Returns who watches it, and whom it does.
 */
static struct trp_extra *
end_life(struct trp_core *core, struct trp_cell *cell, struct trp_cold *cold)
{
    struct trp_extra *extra;
    uint32_t generation;

    trp_lock_acquire(&cold->lock);
    extra = trp_load_relaxed(&cold->extra); /* relaxed: under lock */
    /* relaxed: ours. */
    generation = (trp_load_relaxed(&cell->generation) + 1) & TRP_LIFE_MASK;
    /* relaxed: published by life; whoever sees the new life sees no kind. */
    trp_store_relaxed(&cell->kind, TRP_KIND_NONE);
    trp_store_release(&cell->generation, /* pairs: cell.life */
        generation != 0 ? generation : 1);
    trp_lock_release(&cold->lock);
    if (extra != NULL) {
        trp_lock_acquire(&core->names);
        if (extra->name != NULL) {
            trp_registry_remove_locked(core, extra);
        }
        trp_store_relaxed(&cold->extra, NULL); /* relaxed: under names */
        trp_lock_release(&core->names);
    }
    return extra;
}

/* Out of the tree. The parent, if it waits for its last child; else none. */
static troupe_ref
leave_tree(struct trp_core *core, uint32_t parent, uint32_t index)
{
    struct trp_cold *cold = &core->cold[parent];
    struct trp_cell *cell = trp_cell_at(core, parent);
    troupe_ref waiting = TROUPE_NONE;

    trp_lock_acquire(&cold->lock);
    unlink_child_locked(core, cold, index);
    if (trp_first_child_locked(cold) == 0 &&
        (trp_cell_flags(cell) & (TRP_CELL_STOPPING | TRP_CELL_RESTARTING)) !=
            0) {
        waiting = trp_cell_ref(core, cell);
    }
    trp_lock_release(&cold->lock);
    return waiting;
}

void
trp_cell_destroy(struct trp_core *core, struct trp_local *local,
    struct trp_cell *cell, const troupe_exit *exit)
{
    struct trp_cold *cold = trp_cold_of(core, cell);
    uint32_t index = trp_cell_index(core, cell);
    /* relaxed: constant in a life, and ours. */
    uint32_t parent = trp_load_relaxed(&cold->parent);
    troupe_ref waiting = TROUPE_NONE;
    const troupe_actor_type *type = trp_load_relaxed(&cold->type); /* relaxed */
    bool is_told = false;
    struct trp_life life;
    struct trp_extra *extra;

    if (has_life_listeners(core) && trp_cell_kind(cell) == TRP_KIND_ACTOR) {
        is_told = true;
        life = (struct trp_life){.exit = *exit, .type = type};
        if (parent != 0) { /* C3: it lives still, but perhaps not for long */
            life.parent = trp_cell_ref(core, trp_cell_at(core, parent));
        }
    }
    free_state(core, local, cell, state_bytes(type));
    extra = trp_load_relaxed(&cold->extra); /* relaxed: ours */
    if (extra != NULL && TRP_UNLIKELY(extra->failure != NULL)) {
        trp_failure_forget(core, cell); /* it has failed once */
    }
    extra = end_life(core, cell, cold);
    drop_rules(core, cell);
    if (parent != 0) {
        waiting = leave_tree(core, parent, index);
    }
    if (extra != NULL) {
        trp_ops_bury(core, local, cold, extra);
        trp_watch_tell(core, local, cold, extra, exit);
        trp_watch_end(core, local, &extra->watching);
        if (extra->subscriptions != NULL) {
            core->on_subscriber_gone(core, extra->subscriptions);
        }
        free_extra(core, extra);
    }
    if (TRP_UNLIKELY(is_told)) {
        core->on_stopped(core, local, &life);
    }
    /* relaxed: ours until it is given back. */
    if (trp_load_relaxed(&cell->generation) != core->first_generation) {
        trp_pool_give(&core->cells, cells_of(local), index); /* else C2 */
    }
    if (waiting.index != 0) {
        trp_mailbox_request(core, local, waiting, TRP_RING_SIGNAL);
    }
}

/* --- the end of all ------------------------------------------------------- */

void
trp_core_fini_cells(struct trp_core *core)
{
    uint32_t committed;

    if (core->cold == NULL || core->cells.base == NULL) {
        return;
    }
    /* relaxed, all of them: no other thread is left. */
    committed = trp_load_relaxed(&core->cold_committed);
    for (uint32_t index = 1; index < trp_load_relaxed(/* relaxed: same */
                                         &core->cells.class[0].bump) &&
                             index < committed;
         index++) {
        struct trp_cell *cell = trp_cell_at(core, index);
        struct trp_cold *cold = &core->cold[index];
        struct trp_extra *extra = trp_load_relaxed(&cold->extra); /* relaxed:
                                                                     same */

        if (trp_cell_is_visible(cell)) {
            free_state(core, NULL, cell,
                state_bytes(trp_load_relaxed(&cold->type))); /* relaxed: same */
            if (trp_rules_of(core, cell) != NULL) { /* a forked child */
                trp_rules_of(core, cell)->box = NULL;
            }
            drop_rules(core, cell);
        }
        if (extra != NULL) {
            free_extra(core, extra);
            trp_store_relaxed(&cold->extra, NULL); /* relaxed: same */
        }
    }
}
