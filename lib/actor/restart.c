/* SPDX-License-Identifier: MIT */
#include "actor/restart.h"

#include "actor/op.h"
#include "actor/rules.h"
#include "actor/stop.h"
#include "actor/supervise.h"
#include "actor/timers.h"

#include <string.h>

static struct trp_extra *
extra_of(struct troupe_self *self, struct trp_cell *cell)
{
    return trp_load_acquire(
        &trp_cold_of(self->core, cell)->extra); /* pairs: cell.extra */
}

static bool
keeps_children(struct troupe_self *self, struct trp_cell *cell)
{
    struct trp_extra *extra = extra_of(self, cell);

    return extra != NULL &&
           (extra->actor_flags & TROUPE_ACTOR_KEEP_CHILDREN) != 0;
}

void
trp_restart_begin(struct troupe_self *self, struct trp_cell *cell)
{
    trp_cell_set_flags(cell, trp_cell_flags(cell) | TRP_CELL_RESTARTING);
    trp_timers_end(self, cell);
    if (trp_rules_of(self->core, cell) != NULL) {
        trp_stash_bury(self, cell);
    }
    if (keeps_children(self, cell)) {
        trp_order_children(self->core, self->local, cell, TRP_ORDER_HOLD, 0);
    } else {
        trp_stop_children(self->core, self->local, cell);
    }
}

/* True: an alarm will make it look again. */
static bool
is_early(struct troupe_self *self, struct trp_cell *cell, uint64_t due_ns)
{
    struct trp_core *core = self->core;
    struct trp_rules *rules;

    if (due_ns <= trp_alarm_now(&core->sched)) {
        return false;
    }
    rules = trp_rules_own(self);
    if (rules == NULL) {
        const struct trp_life life = trp_life_of(
            core, cell, TROUPE_EXIT_FAILED, (int32_t)TROUPE_E_NOMEM);

        trp_failure_tell(self, &life);
        return false; /* too early rather than never */
    }
    trp_cell_set_flags(cell, trp_cell_flags(cell) | TRP_CELL_RULED);
    self->after |= TRP_AFTER_RULES;
    trp_rules_set_alarm(core, cell, rules, due_ns);
    return true;
}

static void
leave_state(
    struct troupe_self *self, struct trp_cell *cell, const troupe_exit *cause)
{
    /* relaxed: constant in a life. */
    const troupe_actor_type *type =
        trp_load_relaxed(&trp_cold_of(self->core, cell)->type);
    struct trp_extra *extra = extra_of(self, cell);

    self->current.msg = NULL;
    if ((trp_cell_flags(cell) & TRP_CELL_STARTED) != 0) {
        if (type->restart != NULL) {
            type->restart(self, trp_cell_state(cell), cause);
        } else if (type->stop != NULL) {
            type->stop(self, trp_cell_state(cell), cause);
        }
    }
    memset(trp_cell_state(cell), 0, type->state_bytes);
    cell->behaviour = self->behaviour = type->receive;
    if (extra != NULL) {
        extra->stack_used = 0;
    }
    trp_cell_set_flags(
        cell, (trp_cell_flags(cell) &
                  ~(uint32_t)(TRP_CELL_RESTARTING | TRP_CELL_FAILED |
                              TRP_CELL_STARTED)) |
                  (type->start != NULL ? TRP_CELL_STARTING : TRP_CELL_STARTED));
}

static void
tell(struct troupe_self *self, struct trp_cell *cell, const troupe_exit *cause)
{
    struct trp_core *core = self->core;

    trp_book(core, self->local, restarted, 1);
    /* relaxed: who subscribes meanwhile may miss one. */
    if (trp_load_relaxed(&core->life_listeners) != 0) {
        const struct trp_life life =
            trp_life_of(core, cell, cause->kind, cause->code);

        core->on_restarted(core, self->local, &life);
    }
}

void
trp_restart_continue(struct troupe_self *self, struct trp_cell *cell)
{
    struct trp_core *core = self->core;
    bool keeps = keeps_children(self, cell);
    troupe_exit cause;

    if (!trp_ops_end(self, cell)) {
        return; /* who is writing the answer sets L */
    }
    if (!keeps && trp_has_children(core, cell)) {
        return; /* the last one sets L */
    }
    if (is_early(self, cell, trp_restart_due(core, cell, &cause))) {
        return;
    }
    leave_state(self, cell, &cause);
    if (!keeps) {
        trp_family_forget(core, cell);
    } else if ((trp_cell_flags(cell) & TRP_CELL_HELD) == 0) {
        trp_order_children(
            core, self->local, cell, TRP_ORDER_RESUME, TRP_ORDER_HOLD);
    }
    tell(self, cell, &cause);
}
