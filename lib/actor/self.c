/* SPDX-License-Identifier: MIT */
#include "actor/cell.h"

#include <string.h>

/* What an actor says about itself. */

troupe_ref
troupe_self_ref(const troupe_self *self)
{
    return self != NULL ? self->ref : TROUPE_NONE;
}

troupe_system *
troupe_self_system(const troupe_self *self)
{
    return self != NULL ? trp_system_of(self->core) : NULL;
}

troupe_verdict
troupe_fail(troupe_self *self, int32_t code)
{
    if (self != NULL) {
        self->code = code;
        self->code_is_set = true;
    }
    return TROUPE_FAILED;
}

void
troupe_become(troupe_self *self, troupe_behaviour_fn next)
{
    if (self == NULL || next == NULL) {
        trp_refuse(TROUPE_E_INVALID, "troupe_become",
            self == NULL ? "self" : "next", "must not be NULL", "NULL");
        return;
    }
    self->cell->behaviour = self->behaviour = next;
}

static bool
grow_stack(struct trp_core *core, struct trp_extra *extra)
{
    uint32_t capacity =
        extra->stack_capacity != 0 ? 2 * extra->stack_capacity : 4;
    uint32_t old_capacity = extra->stack_capacity;
    troupe_behaviour_fn *old = extra->stack;
    troupe_behaviour_fn *stack =
        trp_heap_alloc(&core->heap, capacity * sizeof *stack);

    if (stack == NULL) {
        return false;
    }
    if (extra->stack_used != 0) {
        memcpy(stack, old, extra->stack_used * sizeof *stack);
    }
    /* In this order: a fork in between must not leave what was freed. */
    extra->stack = stack;
    extra->stack_capacity = capacity;
    trp_heap_free(&core->heap, old, old_capacity * sizeof *stack);
    return true;
}

troupe_status
troupe_become_push(troupe_self *self, troupe_behaviour_fn next)
{
    struct trp_extra *extra;

    if (self == NULL || next == NULL) {
        return trp_refuse(TROUPE_E_INVALID, "troupe_become_push",
            self == NULL ? "self" : "next", "must not be NULL", "NULL");
    }
    extra = trp_cell_extra(self->core, self->cell);
    if (extra == NULL || (extra->stack_used == extra->stack_capacity &&
                             !grow_stack(self->core, extra))) {
        return TROUPE_E_NOMEM;
    }
    extra->stack[extra->stack_used++] = self->behaviour;
    self->cell->behaviour = self->behaviour = next;
    return TROUPE_OK;
}

troupe_status
troupe_unbecome(troupe_self *self)
{
    struct trp_extra *extra;

    if (self == NULL) {
        return trp_refuse(TROUPE_E_INVALID, "troupe_unbecome", "self",
            "must not be NULL", "NULL");
    }
    extra = trp_load_acquire(
        &trp_cold_of(self->core, self->cell)->extra); /* pairs: cell.extra */
    if (extra == NULL || extra->stack_used == 0) {
        return trp_refuse(TROUPE_E_STATE, "troupe_unbecome", "behaviour",
            "is the last one", "%s", "1");
    }
    self->behaviour = extra->stack[--extra->stack_used];
    self->cell->behaviour = self->behaviour;
    return TROUPE_OK;
}
