/* SPDX-License-Identifier: MIT */
#include "sched/steal.h"

#include "base/clock.h"
#include "sched/submit.h"

/*
 * When an idle worker takes work, and when it gives it back.
 *
 * Two workers that pass small messages to each other are slower than one: each
 * message moves cache lines. Two workers with a microsecond of work per message
 * are twice as fast as one. Which of the two it is cannot be told from the
 * queues, so it is measured:
 *
 *     REST --somebody has a queue--> WATCH --watch_ns--> TRIAL --ok--> LICENCE
 *      ^                               |                   |              |
 *      |                         queue is gone          not worth it    is over
 *      +-------------------------------+-------------------+--------------+
 *
 *   WATCH    reads how much all workers get done per microsecond (messages
 *            handled and sent, actors started) while this one stays out of it.
 * The best rate seen counts, fading by 5 % with each look: a short window may
 *            fall into a slow phase.
 *   TRIAL    takes half a queue and measures again with this worker in, twice.
 *            Worth it: both times the rate grew by 40 % of what one more worker
 *            could give.
 *   LICENCE  steals at once, for some milliseconds; longer each time.
 *   not      all it could run goes to the last victim (its inbox), and it is
 *            muted: it does not even look, for twice as long each time.
 *
 * Two rules stand before that, because they need no measuring:
 *
 *   stuck    a worker that has made no progress for STUCK_NS is in a long
 *            behaviour: what it holds back is taken, its slot and inbox too.
 *   coarse   a worker that gets one thing done per COARSE_NS or less often:
 * half of its queue is taken at once.
 *
 * What was taken by these is on probation: if it turns out to be fine-grained
 * where it is now, it is handed back and has to pass the gate.
 *
 * The numbers are those of shared measurements on two processors, rounded
 * (docs/decisions/0004-steal-policy.md). Reading a victim's counters makes it
 * pay a cache miss, so they are read every LOOK_NS only.
 *
 * TROUPE_STEAL=eager: take whatever there is, at once.
 */

#define STEAL_MOST 256u
#define STEAL_TRIAL 32u
#define LOOK_NS ((uint64_t)8 * 1000)
#define STUCK_NS ((uint64_t)20 * 1000)
#define COARSE_NS ((uint64_t)800)
#define WATCH_NS ((uint64_t)25 * 1000)
#define WARM_NS ((uint64_t)10 * 1000) /* of a trial that is not measured */
#define TRIAL_NS ((uint64_t)50 * 1000)
#define PASSES 2u /* trials in a row: one may meet a burst */
#define PROBATION_NS ((uint64_t)200 * 1000)
#define COLD_NS ((uint64_t)30 * 1000) /* after a hand-back, before a watch */
#define MUTE_FIRST_NS ((uint64_t)60 * 1000)
#define MUTE_MOST_NS ((uint64_t)16 * 1000 * 1000)
#define SHORT_FIRST_NS ((uint64_t)15 * 1000)
#define SHORT_MOST_NS ((uint64_t)120 * 1000)
#define LICENCE_FIRST_NS ((uint64_t)2 * 1000 * 1000)
#define LICENCE_MOST_NS ((uint64_t)16 * 1000 * 1000)
#define GAIN_PERCENT 40u

/* --- taking --------------------------------------------------------------- */

/* To be run by the thief later. */
static void
keep(struct trp_worker *thief, struct trp_task *task)
{
    if (!trp_deque_push(&thief->deque, task)) {
        trp_inject_push(&thief->inbox, &task->node);
    }
}

/* Up to `most` and half of a queue, oldest first; the first is returned. */
static struct trp_task *
take_half(struct trp_worker *thief, struct trp_deque *deque, uint32_t most)
{
    uint32_t half = (trp_deque_length(deque) + 1) / 2;
    struct trp_task *first = trp_deque_steal(deque);
    uint32_t got;

    if (first == NULL) {
        return NULL;
    }
    if (half > most) {
        half = most;
    }
    for (got = 1; got < half; got++) {
        struct trp_task *task = trp_deque_steal(deque);

        if (task == NULL) {
            break;
        }
        keep(thief, task);
    }
    trp_count(&thief->steals, got);
    return first;
}

static struct trp_task *
take_slot_of(struct trp_worker *thief, struct trp_worker *victim)
{
    struct trp_task *task;

    /* relaxed: a look; the swap decides. */
    if (trp_load_relaxed(&victim->slot) == NULL) {
        return NULL;
    }
    task = trp_swap_acq_rel(&victim->slot, NULL); /* pairs: slot.task */
    if (task != NULL) {
        trp_count(&thief->steals, 1);
    }
    return task;
}

/* All of it: the first is returned. */
static struct trp_task *
take_inbox_of(struct trp_worker *thief, struct trp_inject *inbox)
{
    struct trp_node *list = trp_inject_take(inbox);
    uint64_t got = 0;

    if (list == NULL) {
        return NULL;
    }
    /* relaxed: ours since the inbox gave it. */
    for (struct trp_node *node = trp_load_relaxed(&list->next); node != NULL;
         got++) {
        struct trp_node *next = trp_load_relaxed(&node->next); /* relaxed */

        keep(thief, TRP_CONTAINER_OF(node, struct trp_task, node));
        node = next;
    }
    trp_count(&thief->steals, got + 1);
    return TRP_CONTAINER_OF(list, struct trp_task, node);
}

/* `stuck`: also what only the victim takes otherwise. */
static struct trp_task *
take_from(struct trp_worker *thief, struct trp_worker *victim, uint32_t most,
    bool stuck)
{
    struct trp_task *task = take_half(thief, &victim->deque, most);

    if (task == NULL) {
        task = take_half(thief, &victim->yield, most);
    }
    if (task == NULL && stuck) {
        task = take_slot_of(thief, victim);
    }
    if (task == NULL && stuck) {
        task = take_inbox_of(thief, &victim->inbox);
    }
    if (task == NULL && stuck) {
        task = take_inbox_of(thief, &victim->inbox_last);
    }
    if (task != NULL) {
        thief->gate.victim = victim->index;
    }
    return task;
}

static bool
has_queue(struct trp_worker *worker)
{
    return trp_deque_length(&worker->deque) != 0 ||
           trp_deque_length(&worker->yield) != 0;
}

/* What would wait if this worker did not return from a behaviour. */
static bool
holds_back(struct trp_worker *worker)
{
    return has_queue(worker) ||
           trp_load_relaxed(&worker->slot) != NULL || /* relaxed: a look */
           !trp_inject_is_empty(&worker->inbox) ||
           !trp_inject_is_empty(&worker->inbox_last);
}

/* --- measuring ------------------------------------------------------------ */

static uint64_t
work_of(const struct trp_worker *worker)
{
    /* relaxed: numbers that grow. */
    return trp_load_relaxed(worker->progress[0]) +
           trp_load_relaxed(worker->progress[1]) + /* relaxed: same */
           trp_load_relaxed(worker->progress[2]);  /* relaxed: same */
}

static uint64_t
work_of_all(const struct trp_sched *sched)
{
    uint64_t work = 0;

    for (uint32_t i = 0; i < sched->count; i++) {
        work += work_of(&sched->workers[i]);
    }
    return work;
}

/* Workers that are not parked. */
static uint64_t
active(struct trp_sched *sched)
{
    uint64_t state =
        trp_load_acquire(&sched->idle.state); /* pairs: idle.state */

    return sched->count - trp_idle_parked(state);
}

/* Done per millisecond since the gate's mark. */
static uint64_t
rate(const struct trp_worker *worker, uint64_t now_ns)
{
    uint64_t span_ns = now_ns - worker->gate.mark_ns;

    return (work_of_all(worker->sched) - worker->gate.mark_work) * 1000000 /
           (span_ns != 0 ? span_ns : 1);
}

static void
set_mark(struct trp_worker *worker, uint64_t now_ns)
{
    worker->gate.mark_ns = now_ns;
    worker->gate.mark_work = work_of_all(worker->sched);
}

enum pace { PACE_FINE, PACE_COARSE, PACE_STUCK };

/* What the thief knows of how the victim gets on; looks again when it is old.
 */
static enum pace
pace_of(struct trp_worker *thief, struct trp_worker *victim, uint64_t now_ns)
{
    struct trp_seen *seen = &thief->seen[victim->index];
    uint64_t work, span_ns;

    if (now_ns - seen->looked_ns < LOOK_NS) {
        return seen->pace;
    }
    work = work_of(victim);
    span_ns = now_ns - seen->moved_ns;
    if (now_ns - seen->looked_ns > 4 * STUCK_NS) {
        seen->pace = PACE_FINE; /* not looked at for long: begin anew */
        seen->moved_ns = now_ns;
    } else if (work == seen->work) {
        seen->pace = span_ns >= STUCK_NS ? PACE_STUCK : PACE_FINE;
    } else {
        seen->pace = span_ns / (work - seen->work) >= COARSE_NS ? PACE_COARSE
                                                                : PACE_FINE;
        seen->moved_ns = now_ns;
    }
    seen->work = work;
    seen->looked_ns = now_ns;
    return seen->pace;
}

/* --- the gate ------------------------------------------------------------- */

void
trp_steal_init(struct trp_worker *worker)
{
    worker->gate.mute_ns = MUTE_FIRST_NS;
    worker->gate.short_ns = SHORT_FIRST_NS;
    worker->gate.licence_ns = LICENCE_FIRST_NS;
}

static void
mute(struct trp_worker *worker, uint64_t now_ns)
{
    struct trp_gate *gate = &worker->gate;

    gate->phase = TRP_GATE_REST;
    gate->until_ns = now_ns + gate->mute_ns;
    gate->mute_ns =
        gate->mute_ns < MUTE_MOST_NS / 2 ? 2 * gate->mute_ns : MUTE_MOST_NS;
    gate->licence_ns = LICENCE_FIRST_NS;
}

/* Everything this worker could run goes to whom it robbed last. */
static void
hand_back(struct trp_worker *worker)
{
    struct trp_worker *victim = &worker->sched->workers[worker->gate.victim];
    struct trp_task *task;

    while ((task = trp_deque_steal(&worker->yield)) != NULL) {
        trp_inject_push(&victim->inbox_last, &task->node);
    }
    while ((task = trp_deque_steal(&worker->deque)) != NULL ||
           (task = take_slot_of(worker, worker)) != NULL) {
        trp_inject_push(&victim->inbox, &task->node);
    }
    trp_idle_wake(worker->sched, victim->index);
}

static struct trp_task *
begin_trial(
    struct trp_worker *thief, struct trp_worker *victim, uint64_t now_ns)
{
    struct trp_gate *gate = &thief->gate;
    uint64_t rate_now = rate(thief, now_ns);
    struct trp_task *task;

    gate->solo_rate -= gate->solo_rate / 20;
    if (rate_now > gate->solo_rate) {
        gate->solo_rate = rate_now;
    }
    if (gate->solo_rate == 0) {
        set_mark(thief, now_ns); /* nothing to compare with */
        return NULL;
    }
    gate->members = active(thief->sched) - 1;
    task = take_from(thief, victim, STEAL_TRIAL, false);
    if (task != NULL) {
        gate->phase = TRP_GATE_WARM;
        gate->passes = 0;
        gate->until_ns = now_ns + WARM_NS;
        set_mark(thief, now_ns);
    }
    return task;
}

/* Fine-grained work at `victim`: the steps of the gate. */
static struct trp_task *
pass_gate(struct trp_worker *thief, struct trp_worker *victim, uint64_t now_ns)
{
    struct trp_gate *gate = &thief->gate;

    switch (gate->phase) {
    case TRP_GATE_LICENCE:
        return take_from(thief, victim, STEAL_MOST, false);
    case TRP_GATE_WARM:
    case TRP_GATE_TRIAL:
        /* Out of work so soon: no verdict. A little later again. */
        gate->phase = TRP_GATE_REST;
        gate->until_ns = now_ns + gate->short_ns;
        gate->short_ns = gate->short_ns < SHORT_MOST_NS / 2 ? 2 * gate->short_ns
                                                            : SHORT_MOST_NS;
        return NULL;
    case TRP_GATE_PROBATION:
    case TRP_GATE_REST:
        if (now_ns >= gate->until_ns) {
            gate->phase = TRP_GATE_WATCH;
            set_mark(thief, now_ns);
        }
        return NULL;
    case TRP_GATE_WATCH:
        if (now_ns - gate->mark_ns > 4 * WATCH_NS) {
            set_mark(thief, now_ns); /* was asleep: begin anew */
            return NULL;
        }
        return now_ns - gate->mark_ns >= WATCH_NS
                   ? begin_trial(thief, victim, now_ns)
                   : NULL;
    }
    return NULL;
}

static void
begin_probation(struct trp_worker *worker, uint64_t now_ns)
{
    struct trp_gate *gate = &worker->gate;

    gate->phase = TRP_GATE_PROBATION;
    gate->until_ns = now_ns + PROBATION_NS;
    gate->mark_ns = now_ns;
    gate->mark_work = work_of(worker);
    gate->stuck_work = work_of(&worker->sched->workers[gate->victim]);
}

/* Taken without a trial: what it really is will show. */
static struct trp_task *
on_probation(struct trp_worker *thief, struct trp_task *task, uint64_t now_ns)
{
    if (task != NULL && thief->gate.phase <= TRP_GATE_PROBATION) {
        begin_probation(thief, now_ns);
    }
    return task;
}

/* Everything between two workers, at the first glance at a victim. */
static struct trp_task *
try_victim(struct trp_worker *thief, struct trp_worker *victim, uint64_t now_ns)
{
    bool queue = has_queue(victim);
    enum pace pace;

    if (!queue && !holds_back(victim)) {
        return NULL;
    }
    if (thief->sched->steal == TRP_STEAL_EAGER) {
        pace = pace_of(thief, victim, now_ns);
        return take_from(thief, victim, STEAL_TRIAL, pace == PACE_STUCK);
    }
    pace = pace_of(thief, victim, now_ns);
    if (pace == PACE_STUCK) {
        return on_probation(
            thief, take_from(thief, victim, STEAL_TRIAL, true), now_ns);
    }
    if (pace == PACE_COARSE && queue) {
        return on_probation(
            thief, take_from(thief, victim, STEAL_MOST, false), now_ns);
    }
    return queue ? pass_gate(thief, victim, now_ns) : NULL;
}

struct trp_task *
trp_steal(struct trp_worker *thief)
{
    struct trp_sched *sched = thief->sched;
    uint32_t start;
    uint64_t now_ns;

    if (sched->steal == TRP_STEAL_OFF) {
        return NULL;
    }
    now_ns = trp_clock_ns();
    start = trp_rng_below(&thief->rng, sched->count);
    for (uint32_t i = 0; i < sched->count; i++) {
        struct trp_worker *victim = &sched->workers[(start + i) % sched->count];
        struct trp_task *task =
            victim != thief ? try_victim(thief, victim, now_ns) : NULL;

        if (task != NULL) {
            return task;
        }
    }
    trp_count(&thief->steal_misses, 1);
    return NULL;
}

/* Grew by enough: 40 % of one worker's share. */
static bool
was_worth_it(const struct trp_gate *gate, uint64_t rate_now)
{
    uint64_t members = gate->members != 0 ? gate->members : 1;

    return rate_now * 100 >=
           gate->solo_rate * 100 + gate->solo_rate * GAIN_PERCENT / members;
}

/* What this worker does on probation. */
static bool
is_fine(const struct trp_worker *worker, uint64_t now_ns)
{
    const struct trp_gate *gate = &worker->gate;
    uint64_t work = work_of(worker) - gate->mark_work;

    return work != 0 && (now_ns - gate->mark_ns) / work < COARSE_NS;
}

void
trp_steal_review(struct trp_worker *worker)
{
    struct trp_gate *gate = &worker->gate;
    uint64_t now_ns;

    /* A trial must be short; a licence may last a few turns more. */
    if (gate->phase == TRP_GATE_LICENCE && worker->tick % 16 != 0) {
        return;
    }
    now_ns = trp_clock_ns();
    if (now_ns < gate->until_ns) {
        return;
    }
    switch (gate->phase) {
    case TRP_GATE_REST:
    case TRP_GATE_WATCH:
        return;
    case TRP_GATE_PROBATION:
        /* Not to one that is stuck still: it would wait there. */
        if (is_fine(worker, now_ns) &&
            work_of(&worker->sched->workers[gate->victim]) !=
                gate->stuck_work) {
            hand_back(worker);
            gate->phase = TRP_GATE_REST;
            gate->until_ns = now_ns + COLD_NS;
        } else {
            begin_probation(worker, now_ns);
        }
        return;
    case TRP_GATE_WARM:
        if (rate(worker, now_ns) < gate->solo_rate / 2) {
            hand_back(worker); /* much worse: no need to know by how much */
            mute(worker, now_ns);
            return;
        }
        gate->phase = TRP_GATE_TRIAL;
        gate->until_ns = now_ns + TRIAL_NS;
        set_mark(worker, now_ns);
        return;
    case TRP_GATE_TRIAL:
        if (!was_worth_it(gate, rate(worker, now_ns))) {
            hand_back(worker);
            mute(worker, now_ns);
        } else if (++gate->passes < PASSES) {
            gate->until_ns = now_ns + TRIAL_NS;
            set_mark(worker, now_ns);
        } else {
            gate->phase = TRP_GATE_LICENCE;
            gate->until_ns = now_ns + gate->licence_ns;
            gate->licence_ns = gate->licence_ns < LICENCE_MOST_NS / 2
                                   ? 2 * gate->licence_ns
                                   : LICENCE_MOST_NS;
            gate->mute_ns = MUTE_FIRST_NS;
            gate->short_ns = SHORT_FIRST_NS;
        }
        return;
    case TRP_GATE_LICENCE:
        hand_back(worker); /* and ask again: the work may have changed */
        gate->phase = TRP_GATE_REST;
        gate->until_ns = now_ns + COLD_NS;
        return;
    }
}

uint64_t
trp_steal_muted_until(const struct trp_worker *worker)
{
    const struct trp_gate *gate = &worker->gate;

    return worker->sched->steal == TRP_STEAL_GATED &&
                   gate->phase == TRP_GATE_REST && gate->until_ns != 0 &&
                   gate->until_ns > trp_clock_ns()
               ? gate->until_ns
               : 0;
}

bool
trp_steal_is_possible(struct trp_sched *sched, const struct trp_worker *except)
{
    if (!trp_inject_is_empty(&sched->inject)) {
        return true;
    }
    for (uint32_t i = 0; sched->steal != TRP_STEAL_OFF && i < sched->count;
         i++) {
        struct trp_worker *worker = &sched->workers[i];

        if (worker != except && has_queue(worker)) {
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

    for (uint32_t i = 0; sched->steal != TRP_STEAL_OFF && i < sched->count;
         i++) {
        struct trp_worker *victim = &sched->workers[i];
        struct trp_seen *seen = &watcher->seen[i];
        uint64_t work;

        if (victim == watcher) {
            continue;
        }
        work = work_of(victim);
        if (work != seen->work || seen->looked_ns == 0) {
            seen->work = work;
            seen->moved_ns = now_ns;
            seen->pace = PACE_FINE;
        } else if (now_ns - seen->moved_ns >= STUCK_NS) {
            seen->pace = PACE_STUCK;
            stuck = stuck || holds_back(victim);
        }
        seen->looked_ns = now_ns;
    }
    return stuck;
}
