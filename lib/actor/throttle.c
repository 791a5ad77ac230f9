/* SPDX-License-Identifier: MIT */
#include <troupe/throttle.h>

#include "actor/park.h"
#include "actor/rules.h"
#include "base/options.h"

#include <math.h>

/*
 * A token bucket in front of what may be dropped. An actor that waits for its
 * next token is parked; one alarm that it set, or a request, wakes it.
 *
 * The alarm lies in the rules, which are never unmapped. One that fires late,
 * when the actor has gone, tells whoever has the rules by now something that it
 * only looks at.
 */

static void
ring(struct trp_worker *worker, struct trp_alarm *alarm)
{
    struct trp_rules *rules = TRP_CONTAINER_OF(alarm, struct trp_rules, alarm);
    struct trp_local *local = worker->local;
    struct trp_core *core = local->self.core;

    /* relaxed: some cell, if they are another actor's by now. */
    trp_park_tell(
        core, local, trp_cell_at(core, trp_load_relaxed(&rules->cell)));
}

/* As many tokens as have come since the last time, and fit. */
static void
fill(struct trp_core *core, struct trp_rules *rules)
{
    uint64_t now_ns = trp_alarm_now(&core->sched);

    if (now_ns > rules->filled_ns) {
        rules->tokens +=
            (double)(now_ns - rules->filled_ns) * 1e-9 * rules->per_second;
        rules->filled_ns = now_ns;
        if (rules->tokens > rules->burst) {
            rules->tokens = rules->burst;
        }
    }
}

/* The clock is read once a turn, and when the tokens have run out. */
void
trp_throttle_begin(
    struct trp_core *core, struct trp_cell *cell, struct trp_rules *rules)
{
    /* relaxed: the owner alone writes it. */
    if (trp_load_relaxed(&rules->is_throttled) != 0) {
        fill(core, rules);
    }
    if (rules->is_alarm_set) {
        (void)trp_alarm_cancel(&core->sched, &rules->alarm);
        rules->is_alarm_set = false;
    }
    trp_park_look(cell);
}

void
trp_rules_set_alarm(struct trp_core *core, struct trp_cell *cell,
    struct trp_rules *rules, uint64_t due_ns)
{
    trp_store_relaxed(&rules->cell, /* relaxed: before the alarm is set */
        trp_cell_index(core, cell));
    if (rules->alarm.fire == NULL) {
        /* Once: the alarm of who had the rules before may be firing. */
        rules->alarm.fire = ring;
    }
    rules->is_alarm_set = true;
    (void)trp_alarm_set(&core->sched, &rules->alarm, due_ns);
}

bool
trp_throttle_park(
    struct trp_core *core, struct trp_cell *cell, struct trp_rules *rules)
{
    uint64_t now_ns = trp_alarm_now(&core->sched);
    double wait_ns = (1.0 - rules->tokens) / rules->per_second * 1e9 + 1;
    uint64_t due_ns = wait_ns < (double)(TRP_ALARM_NEVER - now_ns)
                          ? now_ns + (uint64_t)wait_ns
                          : TRP_ALARM_NEVER;

    trp_rules_set_alarm(core, cell, rules, due_ns);
    return trp_park(cell);
}

bool
trp_throttle_take(struct trp_core *core, struct trp_rules *rules)
{
    if (TRP_UNLIKELY(rules->tokens < 1)) {
        fill(core, rules);
        if (rules->tokens < 1) {
            return false;
        }
    }
    rules->tokens -= 1;
    return true;
}

void
trp_throttle_start(struct trp_core *core, struct trp_rules *rules,
    const troupe_throttle_options *options)
{
    rules->per_second = options->per_second;
    rules->burst = options->burst > 0 ? options->burst : options->per_second;
    if (rules->burst < 1) {
        rules->burst = 1; /* or no token would ever be whole */
    }
    rules->tokens = rules->burst;
    rules->filled_ns = trp_alarm_now(&core->sched);
    rules->drops_excess = options->on_excess == TROUPE_EXCESS_DROP;
    /* relaxed: others only look, or under the lock of is_late(). */
    trp_store_relaxed(&rules->is_throttled, 1);
}

troupe_status
trp_throttle_check(troupe_throttle_options *copy,
    const troupe_throttle_options *given, const char *call)
{
    troupe_status status = trp_options_copy(copy, sizeof *copy, given, call);

    if (status != TROUPE_OK) {
        return status;
    }
    if (!(copy->per_second > 0) || isinf(copy->per_second)) {
        return trp_refuse(TROUPE_E_INVALID, call, "throttle.per_second",
            "must be above 0 and finite", "%g", copy->per_second);
    }
    if (!(copy->burst >= 0) || isinf(copy->burst)) {
        return trp_refuse(TROUPE_E_INVALID, call, "throttle.burst",
            "must be at least 0 and finite", "%g", copy->burst);
    }
    if ((uint32_t)copy->on_excess > TROUPE_EXCESS_DROP || copy->reserved != 0) {
        return trp_refuse(TROUPE_E_INVALID, call,
            copy->reserved != 0 ? "throttle.reserved" : "throttle.on_excess",
            copy->reserved != 0 ? "must be 0" : "must be TROUPE_EXCESS_*", "%u",
            copy->reserved != 0 ? copy->reserved : (uint32_t)copy->on_excess);
    }
    return TROUPE_OK;
}

/*
 * A system that stops takes who is throttled out of the line. If it came to us
 * too early to see that we are, we see that it has begun: it looks under the
 * same lock. A parent of ours, other than /user, does so by itself.
 */
static bool
is_late(struct troupe_self *self)
{
    struct trp_core *core = self->core;
    /* relaxed: constant in a life, and ours. */
    uint32_t parent = trp_load_relaxed(&trp_cold_of(core, self->cell)->parent);
    struct trp_cold *cold = &core->cold[core->user.index];
    bool late;

    if (parent != core->user.index) {
        return false;
    }
    trp_lock_acquire(&cold->lock);
    late = trp_load_acquire(&core->closing) != 0; /* pairs: system.closing */
    trp_lock_release(&cold->lock);
    return late;
}

troupe_status
troupe_throttle(troupe_self *self, const troupe_throttle_options *options)
{
    static const char call[] = "troupe_throttle";
    troupe_throttle_options copy;
    troupe_status status = TROUPE_OK;
    struct trp_rules *rules;

    if (self == NULL || self->cell == NULL) {
        return trp_refuse(
            TROUPE_E_INVALID, call, "self", "must not be NULL", "NULL");
    }
    if (options != NULL) {
        status = trp_throttle_check(&copy, options, call);
    }
    if (status != TROUPE_OK) {
        return status;
    }
    if (options == NULL) {
        rules = trp_rules_of(self->core, self->cell);
        if (rules != NULL) {
            trp_store_relaxed(&rules->is_throttled, 0); /* relaxed: a look */
        }
        return TROUPE_OK;
    }
    rules = trp_rules_own(self);
    if (rules == NULL) {
        return TROUPE_E_NOMEM;
    }
    trp_throttle_start(self->core, rules, &copy);
    trp_cell_set_flags(self->cell, trp_cell_flags(self->cell) | TRP_CELL_RULED);
    self->after |= TRP_AFTER_RULES;
    if (is_late(self)) {
        trp_mailbox_request(self->core, self->local, self->ref, TRP_RING_KILL);
    }
    return TROUPE_OK;
}
