/* SPDX-License-Identifier: MIT */
#include "actor/meter.h"

#include "actor/mailbox.h"
#include "base/bits.h"
#include "base/clock.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define S UINT64_C(1000000000)

const struct trp_tally_shape trp_tally_shapes[TRP_TALLIES] = {
    [TRP_TALLY_HANDLER] = {{5 * MS, 10 * MS, 25 * MS, 50 * MS, 100 * MS,
                               250 * MS, 500 * MS, S, 2500 * MS, 5 * S, 10 * S},
        11, 1000000000},
    [TRP_TALLY_DEPTH] = {{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000,
                             10000},
        13, 1},
    [TRP_TALLY_WAIT] = {{MS, 2 * MS, 5 * MS, 10 * MS, 20 * MS, 50 * MS,
                            100 * MS, 200 * MS, 500 * MS, S, 2 * S, 5 * S,
                            10 * S},
        13, 1000000000},
    [TRP_TALLY_DELAY] = {{10 * US, 50 * US, 100 * US, 500 * US, MS, 5 * MS,
                             10 * MS, 50 * MS, 100 * MS, 500 * MS, S, 5 * S,
                             10 * S},
        13, 1000000000},
};

static void
observe(struct trp_local *local, enum trp_tally_kind kind, uint64_t value,
    uint64_t weight)
{
    const struct trp_tally_shape *shape = &trp_tally_shapes[kind];
    struct trp_tally *tally = &local->tallies[kind];
    uint32_t bucket = 0;

    while (bucket < shape->count && value > shape->bounds[bucket]) {
        bucket++;
    }
    trp_count(&tally->bucket[bucket], weight);
    trp_count_double(
        &tally->sum, (double)value * (double)weight / (double)shape->per_unit);
}

/* In a simulation virtual, as everything there. */
static uint64_t
now_of(const struct trp_core *core, struct trp_local *local)
{
    if (core->sched.alarms.virtual_ns != NULL) {
        return core->now_ns(core);
    }
    return local != NULL ? trp_clock_quick(&local->clock) : trp_clock_ns();
}

/* The clock of one thread may be a little behind another's. */
static uint64_t
time_between(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? to_ns - from_ns : 0;
}

/* --- probes --------------------------------------------------------------- */

static struct trp_probe *
probe_of(const struct trp_core *core, uint32_t index)
{
    struct trp_probe *probes =
        trp_load_acquire(&core->probes); /* pairs: meter.probe */

    return probes != NULL ? &probes[2 * (index % TRP_PROBES)] : NULL;
}

/* P1. False: somebody else has it. */
static bool
claim(struct trp_probe *probe, uint64_t found)
{
    return found != TRP_PROBE_BUSY &&
           trp_cas_acq_rel(
               &probe->since, &found, TRP_PROBE_BUSY); /* pairs: meter.probe */
}

static void
release(struct trp_probe *probe, uint64_t since)
{
    trp_store_release(&probe->since, since); /* pairs: meter.probe */
}

/* What it is about has been popped, or was dropped, or has gone. */
static bool
is_stale(const struct trp_core *core, const struct trp_probe *probe)
{
    /* relaxed, both: who finds it so claims it, or finds it changed. */
    uint32_t index = trp_load_relaxed(&probe->cell);
    uint32_t ticket = trp_load_relaxed(&probe->ticket);
    /* relaxed: an older one makes it look fresh. */
    uint32_t head = trp_load_relaxed(&trp_cell_at(core, index)->ring.head);

    return (int32_t)(ticket - head) < 0;
}

/* False: it is in use, and stands for this one as well. */
static bool
take_probe(
    const struct trp_core *core, struct trp_probe *probe, uint32_t weight)
{
    uint64_t found = trp_load_acquire(&probe->since); /* pairs: meter.probe */

    if ((found != 0 && !is_stale(core, probe)) || !claim(probe, found)) {
        trp_add_relaxed(&probe->missed, weight); /* relaxed: statistic */
        return false;
    }
    return true;
}

static void
set_probe(struct trp_probe *probe, uint32_t index, uint32_t ticket,
    uint32_t weight, uint64_t since)
{
    /* relaxed, all of them: before since, which publishes them. */
    trp_store_relaxed(&probe->cell, index);
    trp_store_relaxed(&probe->ticket, ticket);
    trp_store_relaxed(&probe->weight, weight);
    trp_store_relaxed(&probe->missed, 0);

    release(probe, since);
}

static uint64_t
since_of(uint64_t now_ns, uint64_t flags)
{
    return (now_ns + 1) << 2 | flags;
}

static uint64_t
time_of(uint64_t since)
{
    return (since >> 2) - 1;
}

/* --- sends ---------------------------------------------------------------- */

/* The cell whose ring is about to give a ticket; NULL: none does. */
static struct trp_cell *
cell_of_tickets(const struct trp_core *core, troupe_ref to)
{
    struct trp_cell *cell;
    struct trp_rules *rules;

    if (!trp_ref_is_possible(core, to)) {
        return NULL;
    }
    cell = trp_cell_at(core, to.index);
    if (trp_cell_kind(cell) != TRP_KIND_ACTOR) {
        return NULL;
    }
    rules = trp_rules_of(core, cell);
    return rules == NULL || !trp_rules_have_lock(rules) ? cell : NULL;
}

/* Was not queued: refused, or dropped at once. Or somebody has it already. */
static void
take_back(struct trp_probe *probe, uint64_t since)
{
    (void)trp_cas_acq_rel(&probe->since, &since, 0); /* pairs: meter.probe */
}

static bool
is_router(const struct trp_core *core, troupe_ref to)
{
    struct trp_rules *rules =
        trp_ref_is_possible(core, to)
            ? trp_rules_of(core, trp_cell_at(core, to.index))
            : NULL;

    /* relaxed: a look. */
    return rules != NULL && trp_load_relaxed(&rules->form) == TRP_FORM_ROUTER;
}

static void
owe(struct trp_local *local)
{
    if (local != NULL) {
        trp_store_relaxed(&local->meter.sends_left, 1); /* relaxed: own */
        local->meter.sends.is_owed = 1;
    } else {
        trp_thread.sends.is_owed = 1;
    }
}

static uint32_t
weigh_send(struct trp_core *core, struct trp_local *local, uint64_t now_ns)
{
    uint32_t weight;

    if (local == NULL) {
        return trp_lot_weigh(&trp_thread.sends, now_ns);
    }
    weight = trp_lot_weigh(&local->meter.sends, now_ns);
    /* relaxed, both: switches. */
    if (trp_load_relaxed(&core->metered) != 0) {
        trp_store_relaxed(
            &local->meter.sends_left, local->meter.sends.left); /* relaxed */
    }
    return weight;
}

troupe_status
trp_meter_deliver(struct trp_core *core, struct trp_local *local, troupe_ref to,
    const struct trp_item *item)
{
    uint64_t now_ns, word, since;
    uint32_t weight;
    struct trp_cell *cell = cell_of_tickets(core, to);
    struct trp_probe *probe = cell != NULL ? probe_of(core, to.index) : NULL;
    troupe_status status;

    if (is_router(core, to)) {
        owe(local);
        return trp_mailbox_deliver_now(core, local, to, item);
    }
    now_ns = now_of(core, local);
    weight = weigh_send(core, local, now_ns);
    if (probe == NULL || !take_probe(core, probe, weight)) {
        return trp_mailbox_deliver_now(core, local, to, item);
    }
    word = trp_load_acquire(&cell->ring.word); /* pairs: ring.claim */
    since =
        since_of(now_ns, (word & TRP_RING_SCHEDULED) == 0 ? TRP_PROBE_WOKE : 0);
    set_probe(probe, to.index, trp_ring_tail(word), weight, since);
    status = trp_mailbox_deliver_now(core, local, to, item);
    /* pairs: ring.claim */
    if (trp_ring_tail(trp_load_acquire(&cell->ring.word)) ==
        trp_ring_tail(word)) { /* nobody has that ticket */
        take_back(probe, since);
    }
    return status;
}

/* --- turns ---------------------------------------------------------------- */

/* This cell's probe with this ticket next, claimed; 0: it has none. */
static uint64_t
claim_next(
    const struct trp_turn *turn, struct trp_probe *probe, uint32_t ticket)
{
    uint64_t since = trp_load_acquire(&probe->since); /* pairs: meter.probe */
    int32_t ahead;

    /* relaxed, both: published by since; claim() sees whether they changed. */
    if (since == 0 || since == TRP_PROBE_BUSY ||
        trp_load_relaxed(&probe->cell) != turn->self->ref.index) {
        return 0;
    }
    ahead = (int32_t)(trp_load_relaxed(&probe->ticket) - ticket);
    if (ahead > 0 || !claim(probe, since)) {
        return 0;
    }
    if (ahead < 0) { /* it was not popped in a turn that looked */
        release(probe, 0);
        return 0;
    }
    return since;
}

/* How long it took until now, and for how many that stands. */
static void
tell(struct trp_turn *turn, const struct trp_probe *probe, uint64_t since,
    enum trp_tally_kind kind, bool with_missed)
{
    /* relaxed, both: ours, and a statistic. */
    uint64_t weight = trp_load_relaxed(&probe->weight);
    uint64_t missed = with_missed ? trp_load_relaxed(&probe->missed) : 0;

    observe(turn->local, kind,
        time_between(time_of(since), now_of(turn->core, turn->local)),
        weight + missed);
}

void
trp_meter_look_again(struct trp_turn *turn)
{
    struct trp_probe *probe = turn->local->meter.probe + 1;
    uint64_t since = claim_next(turn, probe, turn->cursor.head);

    if (since != 0) {
        tell(turn, probe, since, TRP_TALLY_DELAY, true);
        release(probe, 0);
    }
}

void
trp_meter_look_early(struct trp_turn *turn)
{
    struct trp_probe *probe = turn->local->meter.probe;
    uint64_t since = claim_next(turn, probe, turn->cursor.head);

    if (since != 0) {
        if ((since & TRP_PROBE_WOKE) != 0) {
            tell(turn, probe, since, TRP_TALLY_DELAY, false);
        }
        release(probe, since & ~TRP_PROBE_WOKE);
    }
}

/* Who made the cell runnable has waited as long as the cell. */
void
trp_meter_look(struct trp_turn *turn)
{
    struct trp_probe *probe = turn->local->meter.probe;
    uint64_t since = claim_next(turn, probe, turn->cursor.head - 1);

    if (since == 0) {
        return;
    }
    if ((since & TRP_PROBE_WOKE) != 0) {
        tell(turn, probe, since, TRP_TALLY_DELAY, false);
    }
    tell(turn, probe, since, TRP_TALLY_WAIT, true);
    release(probe, 0);
}

/* What waits, with the message at hand. */
static uint32_t
depth_of(const struct trp_turn *turn)
{
    struct trp_rules *rules = trp_rules_of(turn->core, turn->cell);
    /* relaxed: a statistic. */
    uint64_t word = trp_load_relaxed(&turn->cell->ring.word);
    uint32_t depth = trp_ring_tail(word) - turn->cursor.head;

    return 1 + (rules != NULL ? trp_rules_depth(rules, depth) : depth);
}

void
trp_meter_weigh(struct trp_turn *turn)
{
    struct trp_meter *meter = &turn->local->meter;

    meter->weight =
        trp_lot_weigh(&meter->messages, now_of(turn->core, turn->local));
    /* relaxed, both: see struct trp_meter. */
    if (trp_load_relaxed(&meter->sends_left) == 0) {
        trp_store_relaxed(&meter->sends_left, 1);
    }
    observe(turn->local, TRP_TALLY_DEPTH, depth_of(turn), meter->weight);
}

void
trp_meter_yield(struct trp_turn *turn)
{
    struct trp_lot *lot = &turn->local->meter.yields;
    struct trp_probe *probe = turn->local->meter.probe + 1;
    uint32_t weight;
    uint64_t now_ns;

    if (!trp_lot_draw(lot)) {
        return;
    }
    now_ns = now_of(turn->core, turn->local);
    weight = trp_lot_weigh(lot, now_ns);
    if (take_probe(turn->core, probe, weight)) {
        set_probe(probe, turn->self->ref.index, turn->cursor.head, weight,
            since_of(now_ns, 0));
    }
}

troupe_verdict
trp_meter_call(struct trp_turn *turn, struct trp_item *item, troupe_msg *view)
{
    struct trp_local *local = turn->local;
    struct trp_core *core = turn->core;
    uint32_t weight = local->meter.weight;
    uint64_t began_ns = now_of(core, local);
    troupe_verdict verdict;

    local->meter.weight = 0;
    verdict = trp_turn_call(turn, item, view);
    observe(local, TRP_TALLY_HANDLER,
        time_between(began_ns, now_of(core, local)), weight);
    return verdict;
}
