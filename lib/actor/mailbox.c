/* SPDX-License-Identifier: MIT */
#include "actor/mailbox.h"

#include "actor/rules.h"

void
trp_mailbox_wake_port(struct trp_cell *cell)
{
    trp_notify_raise(cell->state.notify); /* P1 of system/port.h */
}

troupe_status
trp_mailbox_deliver_ruled(struct trp_core *core, struct trp_local *local,
    troupe_ref to, const struct trp_item *item)
{
    /* pairs: cell.life */
    if (trp_load_acquire(&trp_cell_at(core, to.index)->generation) !=
        (to.generation | TRP_LIFE_RULED)) {
        return TROUPE_E_DEAD;
    }
    return trp_rules_deliver(core, local, to, item);
}

enum trp_claim
trp_mailbox_push_grow(struct trp_core *core, struct trp_local *local,
    struct trp_cell *cell, uint32_t generation, const struct trp_item *item)
{
    /* relaxed: a hint. */
    uint32_t hint = trp_load_relaxed(&cell->hint);

    return trp_ring_push_grow(&core->segments,
        local != NULL ? &local->segments : NULL, &cell->ring, &cell->generation,
        generation, hint, item);
}

bool
trp_mailbox_request(struct trp_core *core, struct trp_local *local,
    troupe_ref ref, uint64_t flag)
{
    struct trp_cell *cell;
    uint64_t word;

    if (!trp_ref_is_possible(core, ref)) {
        return false;
    }
    cell = trp_cell_at(core, ref.index);
    word = trp_load_acquire(&cell->ring.word); /* pairs: ring.claim */
    do {
        /* relaxed: between the word and the CAS, ring.h I1. */
        if ((trp_load_relaxed(&cell->generation) & TRP_LIFE_MASK) !=
                ref.generation ||
            (flag == TRP_RING_KILL && (word & TRP_RING_CLOSED) != 0)) {
            return false;
        }
    } while (!trp_cas_acq_rel(&cell->ring.word, /* pairs: ring.claim */
        &word, word | flag | TRP_RING_SCHEDULED));
    if ((word & TRP_RING_SCHEDULED) == 0) {
        trp_mailbox_wake(core, local, cell);
    } else {
        /*
         * An actor with a long queue does not read the word for every message.
         * If it has gone since, a stranger looks once for nothing.
         */
        trp_store_release(
            &trp_cold_of(core, cell)->look, 1); /* pairs: cell.look */
    }
    return true;
}

uint32_t
troupe_depth(const troupe_system *system, troupe_ref actor)
{
    struct trp_core *core = trp_core_of(system);
    struct trp_cell *cell;
    uint64_t word;
    uint32_t depth;

    if (system == NULL || !trp_core_is_alive(core)) {
        return 0;
    }
    if (!trp_ref_is_possible(core, actor)) {
        return TROUPE_DEPTH_DEAD;
    }
    cell = trp_cell_at(core, actor.index);
    depth = trp_ring_depth(&cell->ring, &word);
    if (TRP_UNLIKELY((trp_cell_flags(cell) & TRP_CELL_RULED) != 0)) {
        struct trp_rules *rules = trp_rules_of(core, cell);

        depth = rules != NULL ? trp_rules_depth(rules, depth) : depth;
    }
    if ((word & TRP_RING_CLOSED) != 0 ||
        trp_cell_life(cell) != actor.generation) {
        return TROUPE_DEPTH_DEAD;
    }
    return depth;
}
