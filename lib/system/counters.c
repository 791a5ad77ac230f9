/* SPDX-License-Identifier: MIT */
#include <troupe/counters.h>

#include "actor/op.h"
#include "actor/rules.h"
#include "system/counters.h"
#include "system/system.h"

#include <string.h>

/* Sums of what workers and foreign threads have counted. */

#define SUM(core, column) sum_books(core, offsetof(struct trp_books, column))

static uint64_t
column_of(const struct trp_books *books, size_t offset)
{
    /* relaxed: statistics. */
    return trp_load_relaxed((const TRP_ATOMIC(
        uint64_t) *)(const void *)((const char *)books + offset));
}

static uint64_t
sum_books(const struct trp_core *core, size_t offset)
{
    uint64_t sum = column_of(&core->foreign, offset);

    for (uint32_t i = 0; i < core->sched.allocated; i++) {
        sum += column_of(&core->locals[i].books, offset);
    }
    return sum;
}

/* With what is put aside: it waits, too. */
static uint32_t
depth_of(const struct trp_core *core, struct trp_cell *cell)
{
    struct trp_rules *rules = trp_rules_of(core, cell);
    uint64_t word;
    uint32_t depth = trp_ring_depth(&cell->ring, &word);

    return rules == NULL ? depth
                         : trp_rules_depth(rules, depth) +
                               /* relaxed: statistic. */
                               trp_load_relaxed(&rules->stashed);
}

/*
 * Read from the mailboxes: what makes the equation a check. Stops that wait in
 * line are no messages, but lie there too.
 */
static uint64_t
count_queued(const struct trp_core *core)
{
    /* pairs: pool.bump */
    uint32_t end = trp_load_acquire(&core->cells.class[0].bump);
    uint64_t queued = 0;

    for (uint32_t index = 1; index < end; index++) {
        struct trp_cell *cell = trp_cell_at(core, index);

        if (trp_cell_is_visible(cell)) {
            queued += depth_of(core, cell);
        }
    }
    return queued;
}

/* What goes up in one place and down in another may be below 0 for a while. */
static uint64_t
not_negative(uint64_t sum)
{
    return sum <= INT64_MAX ? sum : 0;
}

/* The two were not read at one instant. */
static uint64_t
less(uint64_t all, uint64_t some)
{
    return all > some ? all - some : 0;
}

static void
add_workers(const struct trp_core *core, troupe_counters *sums)
{
    const struct trp_sched *sched = &core->sched;

    for (uint32_t i = 0; i < sched->allocated; i++) {
        struct trp_worker *worker = &sched->workers[i];

        /* relaxed, all of them: statistics. */
        sums->turns += trp_load_relaxed(&worker->turns);
        sums->injected += trp_load_relaxed(&worker->injected); /* relaxed */
        sums->steals += trp_load_relaxed(&worker->steals);     /* relaxed */
        /* relaxed: as above. */
        sums->steal_misses += trp_load_relaxed(&worker->steal_misses);
        sums->parks += trp_load_relaxed(&worker->parks); /* relaxed: same */
        sums->wakes += trp_load_relaxed(&worker->wakes); /* relaxed: same */
        sums->runnable += trp_deque_length(&worker->deque) +
                          trp_deque_length(&worker->yield) +
                          (trp_load_relaxed(&worker->slot) != NULL ? 1 : 0);
    }
    /* relaxed: as above. */
    sums->wakes += trp_load_relaxed(&sched->foreign_wakes);
}

void
trp_counters_sum(const struct trp_core *core, troupe_counters *sums)
{
    sums->refused = SUM(core, refused);
    sums->handled = SUM(core, handled);
    sums->dropped = SUM(core, dropped);
    sums->dropped_new = SUM(core, dropped_new);
    sums->dropped_head = SUM(core, dropped_head);
    sums->dropped_throttle = SUM(core, dropped_throttle);
    sums->dead = SUM(core, dead);
    sums->restarted = SUM(core, restarted);
    sums->cancelled = SUM(core, cancelled);
    sums->sent = SUM(core, sent); /* last: all of them were sent before */
    sums->asks = trp_pool_live_bytes(&core->ops) / sizeof(struct trp_op);
    sums->timers = not_negative(SUM(core, timers));
    sums->stopped = SUM(core, stopped); /* first: who stops has started */
    sums->started = SUM(core, started);
    sums->actors = less(sums->started, sums->stopped);
    /* relaxed: statistic. */
    sums->bytes =
        trp_load_relaxed(&core->heap.live_bytes) +
        trp_pool_live_bytes(&core->cells) +
        trp_pool_live_bytes(&core->segments) +
        trp_pool_live_bytes(&core->messages) +
        trp_pool_live_bytes(&core->rules) + trp_pool_live_bytes(&core->routes) +
        trp_pool_live_bytes(&core->tables) +
        trp_pool_live_bytes(&core->delayed) + trp_pool_live_bytes(&core->ops) +
        trp_pool_live_bytes(&core->askers);
    add_workers(core, sums);
}

uint64_t
trp_counters_extra(const struct trp_core *core, size_t offset)
{
    return not_negative(sum_books(core, offset));
}

troupe_status
troupe_counters_read(const troupe_system *system, troupe_counters *counters)
{
    static const char call[] = "troupe_counters_read";
    troupe_status status = trp_system_check(system, call);
    const struct trp_core *core = trp_core_of(system);
    troupe_counters sums = {.size = sizeof sums};

    if (status != TROUPE_OK) {
        return status;
    }
    if (counters == NULL || counters->size < sizeof(size_t)) {
        return trp_refuse(TROUPE_E_INVALID, call, "counters.size",
            "must be set with TROUPE_OPTIONS()", "%zu",
            counters != NULL ? counters->size : 0);
    }
    if (counters->size > sizeof sums) {
        return trp_refuse(TROUPE_E_VERSION, call, "counters.size",
            "is newer than this library", "%zu", counters->size);
    }
    trp_counters_sum(core, &sums);
    sums.queued = less(count_queued(core) + not_negative(SUM(core, answers)),
        not_negative(SUM(core, stops)));
    sums.size = counters->size;
    memcpy(counters, &sums, counters->size);
    return TROUPE_OK;
}
