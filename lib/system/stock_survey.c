/* SPDX-License-Identifier: MIT */
#include "system/stock_survey.h"

#include "actor/cell.h"
#include "actor/registry.h"
#include "system/system.h"

#include <string.h>

#define PATH_BYTES 4096

/* A larger block for an array, what it holds copied; false: no memory. */
static bool
grow(struct trp_heap *heap, void **block, size_t size, size_t used,
    size_t *room, size_t least)
{
    size_t more = *room < 16 ? 16 : *room * 2;
    void *larger;

    more = more < least ? least : more;
    larger = trp_heap_alloc(heap, more * size);
    if (larger == NULL) {
        return false;
    }
    if (used != 0) {
        memcpy(larger, *block, used * size);
    }
    trp_heap_free(heap, *block, *room * size);
    *block = larger;
    *room = more;
    return true;
}

/* The place of a class; NULL: no memory. */
static struct trp_survey_class *
class_in(troupe_system *system, struct trp_survey *survey, uint32_t index)
{
    void *block = survey->classes;

    if (index >= survey->class_count) {
        if (!grow(&system->core.heap, &block, sizeof *survey->classes,
                survey->class_count, &survey->class_count, (size_t)index + 1)) {
            return NULL;
        }
        survey->classes = block;
    }
    return &survey->classes[index];
}

static bool
add_deep(troupe_system *system, struct trp_survey *survey,
    const struct trp_survey_deep *deep)
{
    void *block = survey->deep;

    if (survey->deep_count == TRP_SERIES_DEFAULT) {
        survey->deep_rest += deep->depth;
        return true;
    }
    if (survey->deep_count == survey->deep_room) {
        if (!grow(&system->core.heap, &block, sizeof *survey->deep,
                survey->deep_count, &survey->deep_room, 0)) {
            return false;
        }
        survey->deep = block;
    }
    survey->deep[survey->deep_count++] = *deep;
    return true;
}

/* One who lives in a cell, an actor or a port. False: no memory. */
static bool
look_at(troupe_system *system, struct trp_survey *survey, troupe_ref ref)
{
    /* pairs: cell.cold_part */
    const troupe_actor_type *type =
        trp_load_acquire(&system->core.cold[ref.index].type);
    uint32_t depth = troupe_depth(system, ref);
    struct trp_survey_deep deep = {.ref = ref, .depth = depth};
    struct trp_survey_class *sums;

    if (depth == TROUPE_DEPTH_DEAD) {
        return true; /* else the type is its own */
    }
    deep.class = trp_stock_class(system, type);
    sums = class_in(system, survey, deep.class->index);
    if (sums == NULL) {
        return false;
    }
    sums->actors++;
    sums->queued += depth;
    if (depth > sums->deepest) {
        sums->deepest = depth;
    }
    return depth < TRP_DEEP_FROM || add_deep(system, survey, &deep);
}

/*
 * After the pass, so that no two have the same path: a namesake in another cell
 * comes when the first has gone.
 */
static bool
name_deep(troupe_system *system, struct trp_survey *survey)
{
    char text[PATH_BYTES];

    for (size_t i = 0; i < survey->deep_count; i++) {
        struct trp_survey_deep *deep = &survey->deep[i];

        if (trp_registry_path(&system->core, deep->ref, text, sizeof text) !=
            0) {
            deep->path_bytes = strlen(text) + 1;
            deep->path = trp_heap_alloc(&system->core.heap, deep->path_bytes);
            if (deep->path == NULL) {
                return false;
            }
            strcpy(deep->path, text);
        }
    }
    return true;
}

static struct trp_survey *
make(troupe_system *system)
{
    struct trp_core *core = &system->core;
    struct trp_survey *survey = trp_heap_alloc(&core->heap, sizeof *survey);
    uint32_t end = trp_cells_end(core);
    bool has_memory = survey != NULL;

    for (uint32_t index = 1; has_memory && index < end; index++) {
        struct trp_cell *cell = trp_cell_at(core, index);
        troupe_ref ref = trp_cell_resident(core, cell);

        if (!troupe_ref_is_none(ref) &&
            trp_cell_kind(cell) != TRP_KIND_GUARDIAN) {
            has_memory = look_at(system, survey, ref);
        }
    }
    if (!has_memory || !name_deep(system, survey)) {
        trp_survey_free(system, survey);
        return NULL;
    }
    survey->at_ns = troupe_now_ns(system);
    return survey;
}

void
trp_survey_free(troupe_system *system, struct trp_survey *survey)
{
    struct trp_heap *heap = &system->core.heap;

    if (survey == NULL) {
        return;
    }
    for (size_t i = 0; i < survey->deep_count; i++) {
        trp_heap_free(heap, survey->deep[i].path, survey->deep[i].path_bytes);
    }
    trp_heap_free(heap, survey->deep, survey->deep_room * sizeof *survey->deep);
    trp_heap_free(
        heap, survey->classes, survey->class_count * sizeof *survey->classes);
    trp_heap_free(heap, survey, sizeof *survey);
}

/* One holder less. Returns it if it is to be freed, without the lock. */
static struct trp_survey *
let_go_locked(struct trp_survey *survey)
{
    return survey != NULL && --survey->holders == 0 ? survey : NULL;
}

troupe_status
trp_survey_hold(troupe_system *system, struct trp_survey **result)
{
    struct trp_stock *stock = &system->stock;
    struct trp_survey *survey, *gone;
    uint64_t now_ns = troupe_now_ns(system);

    trp_lock_acquire(&stock->lock);
    survey = stock->survey;
    if (survey != NULL && now_ns < survey->at_ns + TRP_SURVEY_NS) {
        survey->holders++;
    } else {
        survey = NULL;
    }
    trp_lock_release(&stock->lock);
    if (survey == NULL) {
        survey = make(system);
        if (survey == NULL) {
            return TROUPE_E_NOMEM;
        }
        survey->holders = 2;
        trp_lock_acquire(&stock->lock);
        gone = let_go_locked(stock->survey);
        stock->survey = survey;
        trp_lock_release(&stock->lock);
        trp_survey_free(system, gone);
    }
    *result = survey;
    return TROUPE_OK;
}

void
trp_survey_give(troupe_system *system, struct trp_survey *survey)
{
    struct trp_survey *gone;

    trp_lock_acquire(&system->stock.lock);
    gone = let_go_locked(survey);
    trp_lock_release(&system->stock.lock);
    trp_survey_free(system, gone);
}
