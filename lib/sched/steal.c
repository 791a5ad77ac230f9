/* SPDX-License-Identifier: MIT */
#include "sched/steal.h"

#include "base/clock.h"

/*
 * When and what an idle worker takes from a busy one.
 *
 *   deque    half, at most 32, the oldest: they have waited longest and are the
 *            least likely to be in the victim's cache.
 *   yield    the oldest one.
 *   slot     only from a victim that has finished no turn for SLOT_STUCK_NS: it
 *            is in a long behaviour. Otherwise the slot runs sooner where it is.
 *
 * Victims are tried from a random one on, each once. A searcher comes here at
 * most once per microsecond (worker.c): reading a victim's lines costs the
 * victim more than it costs us.
 */

#define STEAL_MAX 32u
#define SLOT_STUCK_NS ((uint64_t)20 * 1000)

static struct trp_task *
steal_deque(struct trp_worker *thief, struct trp_deque *deque)
{
    uint32_t half = (trp_deque_length(deque) + 1) / 2;
    struct trp_task *first = trp_deque_steal(deque);
    uint32_t got;

    if (first == NULL) {
        return NULL;
    }
    if (half > STEAL_MAX) {
        half = STEAL_MAX;
    }
    for (got = 1; got < half; got++) {
        struct trp_task *task = trp_deque_steal(deque);

        if (task == NULL) {
            break;
        }
        if (!trp_deque_push(&thief->deque, task)) {
            trp_inject_push(&thief->sched->inject, &task->node);
        }
    }
    trp_count(&thief->steals, got);
    return first;
}

static bool
is_stuck(struct trp_worker *thief, struct trp_worker *victim, uint64_t now_ns)
{
    struct trp_seen *seen = &thief->seen[victim->index];
    /* relaxed: a number that moves or does not. */
    uint64_t turns = trp_load_relaxed(&victim->turns);

    if (turns != seen->turns || seen->since_ns == 0) {
        seen->turns = turns;
        seen->since_ns = now_ns;
        return false;
    }
    return now_ns - seen->since_ns >= SLOT_STUCK_NS;
}

static struct trp_task *
steal_slot(struct trp_worker *thief, struct trp_worker *victim)
{
    struct trp_task *task;

    /* relaxed: a look; the swap decides. */
    if (trp_load_relaxed(&victim->slot) == NULL ||
        !is_stuck(thief, victim, trp_clock_ns())) {
        return NULL;
    }
    task = trp_swap_acq_rel(&victim->slot, NULL); /* pairs: slot.task */
    if (task != NULL) {
        trp_count(&thief->steals, 1);
    }
    return task;
}

struct trp_task *
trp_steal(struct trp_worker *thief)
{
    struct trp_sched *sched = thief->sched;
    uint32_t start = trp_rng_below(&thief->rng, sched->count);

    if (!sched->steal) {
        return NULL;
    }
    for (uint32_t i = 0; i < sched->count; i++) {
        struct trp_worker *victim =
            &sched->workers[(start + i) % sched->count];
        struct trp_task *task;

        if (victim == thief) {
            continue;
        }
        task = steal_deque(thief, &victim->deque);
        if (task == NULL) {
            task = trp_deque_steal(&victim->yield);
            if (task != NULL) {
                trp_count(&thief->steals, 1);
            } else {
                task = steal_slot(thief, victim);
            }
        }
        if (task != NULL) {
            return task;
        }
    }
    trp_count(&thief->steal_misses, 1);
    return NULL;
}

bool
trp_steal_is_possible(struct trp_sched *sched, const struct trp_worker *except)
{
    if (!trp_inject_is_empty(&sched->inject)) {
        return true;
    }
    for (uint32_t i = 0; sched->steal && i < sched->count; i++) {
        struct trp_worker *worker = &sched->workers[i];

        if (worker != except && (trp_deque_length(&worker->deque) != 0 ||
                                    trp_deque_length(&worker->yield) != 0)) {
            return true;
        }
    }
    return false;
}

bool
trp_steal_sees_stuck(struct trp_worker *watcher)
{
    struct trp_sched *sched = watcher->sched;
    uint64_t now_ns = trp_clock_ns();
    bool stuck = false;

    for (uint32_t i = 0; sched->steal && i < sched->count; i++) {
        struct trp_worker *victim = &sched->workers[i];

        /* relaxed: a look, as in steal_slot(). */
        if (victim != watcher && is_stuck(watcher, victim, now_ns) &&
            trp_load_relaxed(&victim->slot) != NULL) { /* relaxed: same */
            stuck = true;
        }
    }
    return stuck;
}
