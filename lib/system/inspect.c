/* SPDX-License-Identifier: MIT */
#include <troupe/inspect.h>
#include <troupe/mailbox.h>
#include <troupe/tree.h>

#include "actor/registry.h"
#include "actor/rules.h"
#include "system/system.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Looking at cells from outside, without stopping them. */

struct seen {
    troupe_ref ref;
    troupe_ref parent;
    const troupe_actor_type *type;
    uint64_t handled;
    uint32_t depth;
    uint32_t level; /* 0: a root */
    troupe_actor_state state;
};

/* One cell, consistent in itself; false: nobody lives there. */
static bool
look(struct trp_core *core, uint32_t index, struct seen *seen)
{
    struct trp_cell *cell = trp_cell_at(core, index);
    struct trp_cold *cold = &core->cold[index];
    uint32_t flags, parent;
    uint64_t word;

    seen->ref = trp_cell_resident(core, cell);
    if (troupe_ref_is_none(seen->ref)) {
        return false;
    }
    flags = trp_cell_flags(cell);
    parent = trp_cell_parent(core, index);
    seen->parent = parent != 0
                       ? trp_cell_resident(core, trp_cell_at(core, parent))
                       : TROUPE_NONE;
    seen->type = trp_load_acquire(&cold->type); /* pairs: cell.cold_part */
    seen->depth = trp_ring_depth(&cell->ring, &word);
    seen->handled = 0;
    if ((flags & TRP_CELL_RULED) != 0) {
        struct trp_rules *rules = trp_rules_of(core, cell);

        seen->depth =
            rules != NULL ? trp_rules_depth(rules, seen->depth) : seen->depth;
        /* relaxed: statistic. */
        seen->handled = rules != NULL ? trp_load_relaxed(&rules->taken) : 0;
    }
    /* relaxed, both: statistics. */
    seen->handled += (((uint64_t)trp_load_relaxed(&cold->wraps) << 32) |
                         trp_load_relaxed(&cell->ring.head)) - /* relaxed */
                     trp_load_acquire(&cold->birth); /* pairs: cell.cold_part */
    seen->state = (flags & TRP_CELL_STOPPING) != 0    ? TROUPE_STATE_STOPPING
                  : (flags & TRP_CELL_SUSPENDED) != 0 ? TROUPE_STATE_SUSPENDED
                  : (flags & TRP_CELL_STARTING) != 0  ? TROUPE_STATE_STARTING
                  : (flags & TRP_CELL_AWAITING) != 0  ? TROUPE_STATE_AWAITING
                                                      : TROUPE_STATE_RUNNING;
    /* Still the same life: all of it belongs together. */
    return trp_cell_lives(core, seen->ref);
}

static const struct seen *
find(const struct seen *all, size_t count, troupe_ref ref)
{
    size_t low = 0, high = count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (all[middle].ref.index < ref.index) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < count && troupe_ref_equal(all[low].ref, ref) ? &all[low]
                                                              : NULL;
}

/* Steps to `top` (NONE: to a root); UINT32_MAX when it is not above. */
static uint32_t
level_of(const struct seen *all, size_t count, const struct seen *one,
    troupe_ref top)
{
    uint32_t level = 0;

    while (!troupe_ref_equal(one->ref, top)) {
        if (one->parent.index == 0) {
            return troupe_ref_is_none(top) ? level : UINT32_MAX;
        }
        one = find(all, count, one->parent);
        if (one == NULL || level++ > count) {
            return UINT32_MAX; /* the tree changed under us */
        }
    }
    return level;
}

static int
by_level(const void *a, const void *b)
{
    const struct seen *left = a, *right = b;

    if (left->level != right->level) {
        return left->level < right->level ? -1 : 1;
    }
    return left->ref.index < right->ref.index ? -1 : 1;
}

/* Shows one actor; false: the visitor has seen enough. */
static bool
show(struct trp_core *core, const struct seen *seen, troupe_inspect_fn visit,
    void *user)
{
    char path[4096];
    troupe_actor_info info = {.size = sizeof info,
        .actor = seen->ref,
        .parent = seen->parent,
        .state = seen->state,
        .depth = seen->depth,
        .handled = seen->handled,
        .path = path,
        .type = seen->type != NULL ? seen->type->name : ""};

    if (trp_registry_path(core, seen->ref, path, sizeof path) == 0) {
        return true; /* has gone since */
    }
    return visit(&info, user);
}

troupe_status
troupe_inspect(troupe_system *system, const char *subtree,
    troupe_inspect_fn visit, void *user)
{
    static const char call[] = "troupe_inspect";
    troupe_status status = trp_system_check(system, call);
    troupe_ref top = TROUPE_NONE;
    struct trp_core *core;
    struct seen *all;
    size_t bytes, count = 0, kept = 0;
    uint32_t end;

    if (status == TROUPE_OK && visit == NULL) {
        status = trp_refuse(
            TROUPE_E_INVALID, call, "visit", "must not be NULL", "NULL");
    }
    if (status == TROUPE_OK && subtree != NULL) {
        status = troupe_lookup(system, subtree, &top);
    }
    if (status != TROUPE_OK) {
        return status;
    }
    core = &system->core;
    end = trp_cells_end(core);
    bytes = end * sizeof *all;
    all = trp_heap_alloc(&core->heap, 2 * bytes);
    if (all == NULL) {
        return TROUPE_E_NOMEM;
    }
    for (uint32_t index = 1; index < end; index++) {
        if (look(core, index, &all[count])) {
            count++;
        }
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t level = level_of(all, count, &all[i], top);

        if (level != UINT32_MAX) {
            all[end + kept] = all[i];
            all[end + kept++].level = level;
        }
    }
    qsort(all + end, kept, sizeof *all, by_level);
    for (size_t i = 0; i < kept && show(core, &all[end + i], visit, user);
         i++) {
    }
    trp_heap_free(&core->heap, all, 2 * bytes);
    return TROUPE_OK;
}

/* --- busy ----------------------------------------------------------------- */

/* Sets `ref` to the actor that lives there and is scheduled or runs. */
static bool
is_busy(struct trp_core *core, struct trp_cell *cell, troupe_ref *ref)
{
    uint64_t word;

    *ref = trp_cell_resident(core, cell);
    word = trp_load_acquire(&cell->ring.word); /* pairs: ring.claim */
    return !troupe_ref_is_none(*ref) && trp_cell_kind(cell) == TRP_KIND_ACTOR &&
           (word & TRP_RING_SCHEDULED) != 0 && trp_cell_lives(core, *ref);
}

size_t
troupe_system_busy(
    const troupe_system *system, troupe_ref *actors, size_t capacity)
{
    struct trp_core *core = trp_core_of(system);
    size_t count = 0;
    uint32_t end;

    if (trp_system_check(system, "troupe_system_busy") != TROUPE_OK) {
        return 0;
    }
    end = trp_cells_end(core);
    for (uint32_t index = 1; index < end; index++) {
        troupe_ref ref;

        if (is_busy(core, trp_cell_at(core, index), &ref)) {
            if (actors != NULL && count < capacity) {
                actors[count] = ref;
            }
            count++;
        }
    }
    return count;
}

/* --- dump ----------------------------------------------------------------- */

#define DEEPEST 10

static void
write_all(int fd, const char *text, size_t bytes)
{
    while (bytes > 0) {
        ssize_t written = write(fd, text, bytes);

        if (written <= 0) {
            return;
        }
        text += written;
        bytes -= (size_t)written;
    }
}

static void
dump_workers(struct trp_core *core, int fd)
{
    char line[256];

    for (uint32_t i = 0; i < core->sched.count; i++) {
        struct trp_worker *worker = &core->sched.workers[i];
        /* relaxed, all of them: shown to people. */
        struct trp_task *task = trp_load_relaxed(&worker->current);
        uint32_t index =
            task != NULL ? trp_cell_index(core,
                               TRP_CONTAINER_OF(task, struct trp_cell, task))
                         : 0;
        int length = snprintf(line, sizeof line,
            "worker %u: %s cell %u, turns %llu, deque %u, yield %u, slot %d, "
            "steals %llu, parks %llu\n",
            i, task != NULL ? "runs" : "rests at", index,
            (unsigned long long)trp_load_relaxed(&worker->turns), /* relaxed */
            trp_deque_length(&worker->deque), trp_deque_length(&worker->yield),
            trp_load_relaxed(&worker->slot) != NULL, /* relaxed: same */
            (unsigned long long)trp_load_relaxed(&worker->steals), /* relaxed */
            (unsigned long long)trp_load_relaxed(&worker->parks)); /* relaxed */

        write_all(fd, line, (size_t)length);
    }
}

/* Keeps the deepest, deepest first. */
static void
insert(struct seen *list, uint32_t *used, const struct seen *one)
{
    uint32_t at = *used;

    while (at > 0 && list[at - 1].depth < one->depth) {
        at--;
    }
    if (at == DEEPEST) {
        return;
    }
    if (*used < DEEPEST) {
        ++*used;
    }
    memmove(&list[at + 1], &list[at], (*used - at - 1) * sizeof *list);
    list[at] = *one;
}

void
troupe_dump(const troupe_system *system, int fd)
{
    struct trp_core *core = trp_core_of(system);
    struct seen list[DEEPEST], one;
    uint32_t used = 0, actors = 0, end;
    char line[256];
    int length;

    if (trp_system_check(system, "troupe_dump") != TROUPE_OK) {
        return;
    }
    end = trp_cells_end(core);
    for (uint32_t index = 1; index < end; index++) {
        if (look(core, index, &one)) {
            actors++;
            if (one.depth != 0) {
                insert(list, &used, &one);
            }
        }
    }
    length = snprintf(line, sizeof line, "system %s: %u cells in use\n",
        system->name, actors);
    write_all(fd, line, (size_t)length);
    dump_workers(core, fd);
    for (uint32_t i = 0; i < used; i++) {
        length = snprintf(line, sizeof line,
            "cell %u-%x: type %.60s, depth %u, handled %llu\n",
            list[i].ref.index, list[i].ref.generation,
            list[i].type != NULL ? list[i].type->name : "port", list[i].depth,
            (unsigned long long)list[i].handled);
        write_all(fd, line, (size_t)length);
    }
}
