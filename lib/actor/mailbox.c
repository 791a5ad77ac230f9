/* SPDX-License-Identifier: MIT */
#include "actor/mailbox.h"

#include "actor/park.h"
#include "actor/rules.h"

void
trp_mailbox_wake_port(struct trp_cell *cell)
{
    trp_notify_raise(cell->state.notify); /* P1 of system/port.h */
}

enum trp_claim
trp_mailbox_push_deep(struct trp_core *core, struct trp_local *local,
    struct trp_cell *cell, uint32_t generation, const struct trp_item *item)
{
    /* relaxed: a hint. */
    uint32_t hint = trp_load_relaxed(&cell->hint);
    enum trp_claim claim = trp_ring_push_grow(&core->segments,
        local != NULL ? &local->segments : NULL, &cell->ring, &cell->generation,
        generation, hint, item);

    if (claim == TRP_CLAIM_QUEUED) {
        uint64_t word;
        uint32_t depth = trp_ring_depth(&cell->ring, &word);

        if (TRP_UNLIKELY(depth > core->deep_from)) {
            trp_mailbox_look_deep(core, cell, core->deep_from + 1, depth);
        }
    }
    return claim;
}

void
trp_mailbox_look_deep(
    struct trp_core *core, struct trp_cell *cell, uint32_t warn, uint32_t depth)
{
    struct trp_cold *cold = trp_cold_of(core, cell);
    /* relaxed: who adds to it says so; nothing else hangs on it. */
    uint8_t warned = trp_load_relaxed(&cold->warned);
    uint8_t next = warned;

    while (depth >= (uint64_t)warn << next) {
        next++;
    }
    if (next > warned &&
        /* relaxed: as above. */
        trp_cas_relaxed(&cold->warned, &warned, next)) {
        core->on_deep(core, trp_cell_ref(core, cell), depth);
    }
}

void
trp_mailbox_rearm(struct trp_core *core, struct trp_cell *cell)
{
    struct trp_cold *cold = trp_cold_of(core, cell);
    struct trp_rules *rules;
    uint32_t depth, warn;
    uint64_t word;

    /* relaxed: see trp_mailbox_look_deep(). */
    if (TRP_LIKELY(trp_load_relaxed(&cold->warned) == 0)) {
        return;
    }
    rules = trp_rules_of(core, cell);
    depth = trp_ring_depth(&cell->ring, &word);
    warn = core->deep_from + 1;
    if (rules != NULL) {
        depth = trp_rules_depth(rules, depth);
        /* relaxed: constant in a life. */
        warn = trp_load_relaxed(&rules->warn);
    }
    /* Half of it, rounded up. */
    if (depth < warn - warn / 2) {
        trp_store_relaxed(&cold->warned, 0); /* relaxed: as above */
    }
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
        trp_park_tell(core, local, cell);
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
