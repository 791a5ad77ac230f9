/* SPDX-License-Identifier: MIT */
#include <troupe/backoff_supervisor.h>
#include <troupe/log.h>
#include <troupe/stash.h>
#include <troupe/stop.h>
#include <troupe/timer.h>
#include <troupe/watch.h>

#include "actor/cell.h"
#include "actor/rules.h"
#include "actor/send.h"
#include "actor/supervise.h"
#include "actor/timers.h"
#include "base/backoff.h"
#include "base/options.h"
#include "pattern/child_plan.h"
#include "sched/alarm.h"
#include "system/spawn.h"
#include "system/system.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/*
 * An ordinary actor: a child that it watches, one timer, and its own stash.
 *
 *                         the child has ended
 *            +---------------------------------------------+
 *            v                 (tick: the delay)           |
 *     child NONE  -------------------------------->  child, not confirmed
 *            ^                                             |
 *            |            the child has ended              | tick: the grace
 *            +---------------------- child, confirmed <----+ period is over
 *
 * What it is to do is in its start argument, which the library keeps for it
 * over restarts: a `struct plan` with what has no fixed size behind it.
 *
 * Invariants
 *   B1  Unless there was no memory for it, the tick is set while there is no
 *       confirmed child. hold() sets it again.
 *   B2  It watches `child`, and nobody else: any other death notice is a
 *       message like others.
 *   B3  While a child is confirmed the stash is empty, or the child has gone
 *       and its notice is on the way.
 */

#define TICK_KEY 0
#define GRACE_MOST_NS UINT64_C(50000000)
#define STASH_CAPACITY 1000
#define NUMBER_BYTES 21 /* of "-18446744073709551615" */
#define CHILD_NAME_BYTES_MAX (255 - NUMBER_BYTES)

/* Nobody else can send one: its tag is the library's. */
static const troupe_msg_type tick_type = {
    sizeof(troupe_msg_type), "backoff_tick", 0, TROUPE_TAG_RESERVED, 0, NULL};

/* The pointers in here are what was given, and not followed: see child_of(). */
struct plan {
    troupe_backoff_options options; /* without defaults */
    troupe_backoff backoff;
    struct trp_child_plan child;
    /* the tail of `child`, its name with a NUL */
};

struct keeper {
    const struct plan *plan;
    troupe_ref child; /* TROUPE_NONE: there is none */
    bool is_confirmed;
    uint64_t number;          /* of the child: so many were spawned */
    uint64_t born_ns;         /* when it was */
    uint64_t failures;        /* in a row, for the policy */
    uint64_t evicted;         /* from the stash */
    struct trp_fifo restarts; /* when; of a window that ends */
};

/* --- the plan ------------------------------------------------------------- */

static const char *
name_of(const struct plan *plan)
{
    return (const char *)(plan + 1) + trp_child_plan_tail(&plan->child);
}

static troupe_status
check_child(const troupe_backoff_options *options, const char *call)
{
    static const troupe_spawn_options nothing = {.size = sizeof nothing};
    const troupe_spawn_options *given = options->child_options;
    troupe_spawn_options child = nothing;
    troupe_status status = TROUPE_OK;

    if (options->child == NULL) {
        return trp_refuse(
            TROUPE_E_INVALID, call, "child", "must not be NULL", "NULL");
    }
    if (given != NULL) {
        status = trp_options_copy(&child, sizeof child, given, call);
    }
    if (status == TROUPE_OK && child.own != NULL) {
        return trp_refuse(TROUPE_E_INVALID, call, "child_options.own",
            "must be NULL: how the child fails is not its own", "%p",
            (const void *)child.own);
    }
    if (status == TROUPE_OK && child.name != NULL) {
        return trp_refuse(TROUPE_E_INVALID, call, "child_options.name",
            "must be NULL: see child_name", "%.20s", child.name);
    }
    if (status == TROUPE_OK) {
        status = trp_spawn_check(options->child, given, call);
    }
    if (status == TROUPE_OK && options->child_name != NULL) {
        status = trp_spawn_check_name(options->child_name, "child_name", call);
        if (status == TROUPE_OK &&
            strlen(options->child_name) > CHILD_NAME_BYTES_MAX) {
            status = trp_refuse(TROUPE_E_INVALID, call, "child_name",
                "must have at most 234 bytes", "%zu",
                strlen(options->child_name));
        }
    }
    return status;
}

static troupe_status
check_numbers(const troupe_backoff_options *options, const char *call)
{
    if ((uint32_t)options->trigger > TROUPE_TRIGGER_STOP) {
        return trp_refuse(TROUPE_E_INVALID, call, "trigger",
            "must be TROUPE_TRIGGER_*", "%u", (unsigned)options->trigger);
    }
    if ((uint32_t)options->hold > TROUPE_HOLD_DROP) {
        return trp_refuse(TROUPE_E_INVALID, call, "hold",
            "must be TROUPE_HOLD_*", "%u", (unsigned)options->hold);
    }
    if ((uint32_t)options->give_up > TROUPE_GIVE_UP_ESCALATE) {
        return trp_refuse(TROUPE_E_INVALID, call, "give_up",
            "must be TROUPE_GIVE_UP_*", "%u", (unsigned)options->give_up);
    }
    if ((options->flags & ~(uint32_t)TROUPE_BACKOFF_FORWARD_EARLY) != 0) {
        return trp_refuse(TROUPE_E_INVALID, call, "flags",
            "must be TROUPE_BACKOFF_FORWARD_EARLY", "0x%x", options->flags);
    }
    return TROUPE_OK;
}

static void
set_defaults(struct plan *plan)
{
    troupe_backoff_options *options = &plan->options;
    uint64_t min_ns = plan->backoff.min_ns;

    if (options->reset_ns == 0) {
        options->reset_ns = min_ns;
    }
    if (options->grace_ns == 0) {
        options->grace_ns = min_ns < GRACE_MOST_NS ? min_ns : GRACE_MOST_NS;
    }
    if (options->window_ns == 0) {
        options->window_ns = TROUPE_FOREVER;
    }
    if (options->max_restarts == 0) {
        options->max_restarts = TROUPE_RESTARTS_UNLIMITED;
    } else if (options->max_restarts == TROUPE_RESTARTS_NONE) {
        options->max_restarts = 0;
    }
    if (options->stash_capacity == 0) {
        options->stash_capacity = STASH_CAPACITY;
    }
    if (options->child_name == NULL) {
        options->child_name = "child";
    }
}

/* All but what has no fixed size. */
static troupe_status
make_plan(
    struct plan *plan, const troupe_backoff_options *given, const char *call)
{
    troupe_status status =
        trp_options_copy(&plan->options, sizeof plan->options, given, call);

    if (status == TROUPE_OK) {
        status = check_child(&plan->options, call);
    }
    if (status == TROUPE_OK) {
        status = trp_backoff_copy(&plan->backoff, plan->options.backoff, call);
    }
    if (status == TROUPE_OK && plan->backoff.min_ns == 0) {
        status = trp_refuse(
            TROUPE_E_INVALID, call, "backoff.min_ns", "must be above 0", "0");
    }
    if (status == TROUPE_OK) {
        status = check_numbers(&plan->options, call);
    }
    if (status != TROUPE_OK) {
        return status;
    }
    set_defaults(plan);
    trp_child_plan_make(&plan->child, plan->options.child_options, call);
    return TROUPE_OK;
}

/* What the plan says of the child, with pointers into it. */
static void
child_of(const struct plan *plan, struct trp_child_parts *parts,
    troupe_spawn_options *child)
{
    static const troupe_supervision stop = {
        .size = sizeof stop, .otherwise = TROUPE_DIRECTIVE_STOP};

    trp_child_plan_options(&plan->child, plan + 1, parts, child);
    child->own = &stop;
}

/* --- the child ------------------------------------------------------------ */

static troupe_status
set_tick(troupe_self *self, uint64_t delay_ns)
{
    return trp_timer_start_own(
        self, TICK_KEY, &tick_type, delay_ns, "troupe_spawn_backoff");
}

static troupe_status
spawn_next(troupe_self *self, struct keeper *keeper)
{
    const struct plan *plan = keeper->plan;
    bool is_confirmed = plan->options.grace_ns == TROUPE_GRACE_NONE;
    struct trp_child_parts parts;
    troupe_spawn_options child;
    char name[CHILD_NAME_BYTES_MAX + NUMBER_BYTES + 1];
    troupe_ref ref;
    troupe_status status;

    keeper->number++;
    keeper->born_ns = trp_alarm_now(&self->core->sched);
    status = is_confirmed ? troupe_unstash(self, 0)
                          : set_tick(self, plan->options.grace_ns);
    if (status != TROUPE_OK) {
        return status;
    }
    child_of(plan, &parts, &child);
    (void)snprintf(
        name, sizeof name, "%s-%" PRIu64, name_of(plan), keeper->number);
    child.name = name;
    status = troupe_spawn(self, plan->options.child, &child, &ref);
    if (status != TROUPE_OK) {
        return status;
    }
    status = troupe_watch(self, ref);
    if (status != TROUPE_OK) {
        (void)troupe_stop_now(self, ref);
        return status;
    }
    keeper->child = ref;
    keeper->is_confirmed = is_confirmed;
    return TROUPE_OK;
}

/* One restart more. E_LIMIT: the budget is used up. */
static troupe_status
spend(struct troupe_self *self, struct keeper *keeper)
{
    const troupe_backoff_options *options = &keeper->plan->options;
    struct trp_order_entry entry = {
        .sequence = trp_alarm_now(&self->core->sched)};
    uint64_t before = keeper->number - 1; /* all but the first */

    if (options->max_restarts == TROUPE_RESTARTS_UNLIMITED) {
        return TROUPE_OK;
    }
    if (options->window_ns != TROUPE_FOREVER) {
        before = trp_restarts_count(
            &keeper->restarts, entry.sequence, options->window_ns);
    }
    if (before >= options->max_restarts) {
        return TROUPE_E_LIMIT;
    }
    return options->window_ns == TROUPE_FOREVER ||
                   trp_fifo_push_last(&keeper->restarts, &entry)
               ? TROUPE_OK
               : TROUPE_E_NOMEM;
}

/* There will not be another child: it ends as the last one did. */
static troupe_verdict
end(struct troupe_self *self, bool has_failed, int32_t code)
{
    self->is_lost = has_failed;
    self->code = code;
    return TROUPE_DONE;
}

/*
 * The tick is set before anything else can be decided: a supervisor that fails
 * and is resumed goes on with it.
 */
static troupe_verdict
bring_back(
    troupe_self *self, struct keeper *keeper, bool has_failed, int32_t code)
{
    uint64_t delay_ns =
        trp_backoff_delay_ns(&keeper->plan->backoff, keeper->failures++);
    troupe_status status = set_tick(self, delay_ns);

    if (status == TROUPE_OK) {
        status = spend(self, keeper);
    }
    if (status == TROUPE_E_LIMIT) {
        troupe_log(self, TROUPE_LOG_WARN,
            "child %" PRIu64 " has ended, code %d: given up", keeper->number,
            (int)code);
        return keeper->plan->options.give_up == TROUPE_GIVE_UP_ESCALATE
                   ? troupe_fail(self, code)
                   : end(self, has_failed, code);
    }
    if (status == TROUPE_OK) {
        troupe_log(self, TROUPE_LOG_INFO,
            "child %" PRIu64 " has ended, code %d: the next one in %" PRIu64
            " ms",
            keeper->number, (int)code, delay_ns / 1000000);
    }
    return troupe_check(self, status);
}

static troupe_verdict
child_ended(
    troupe_self *self, struct keeper *keeper, bool has_failed, int32_t code)
{
    const troupe_backoff_options *options = &keeper->plan->options;
    uint64_t lived_ns = trp_alarm_now(&self->core->sched) - keeper->born_ns;

    (void)troupe_unwatch(self, keeper->child);
    keeper->child = TROUPE_NONE;
    keeper->is_confirmed = false;
    if (options->trigger ==
        (has_failed ? TROUPE_TRIGGER_STOP : TROUPE_TRIGGER_FAILURE)) {
        troupe_log(self, TROUPE_LOG_INFO,
            "child %" PRIu64 " has %s, code %d: that ends the supervisor",
            keeper->number, has_failed ? "failed" : "stopped", (int)code);
        return end(self, has_failed, code);
    }
    if (lived_ns >= options->reset_ns) {
        keeper->failures = 0;
    }
    return bring_back(self, keeper, has_failed, code);
}

/*
 * Its start() has returned, and it has not failed since. If another actor has
 * the cell already, the child has gone, and what is forwarded to it comes back.
 */
static bool
is_well(const struct trp_core *core, troupe_ref child)
{
    return trp_ref_lives(core, child) &&
           (trp_cell_flags(trp_cell_at(core, child.index)) &
               (TRP_CELL_STARTED | TRP_CELL_FAILED)) == TRP_CELL_STARTED;
}

static troupe_verdict
tick(troupe_self *self, struct keeper *keeper)
{
    troupe_status status;

    if (troupe_ref_is_none(keeper->child)) {
        status = spawn_next(self, keeper);
        return status == TROUPE_OK
                   ? TROUPE_CONTINUE
                   : child_ended(self, keeper, true, (int32_t)status);
    }
    keeper->is_confirmed = is_well(self->core, keeper->child) &&
                           troupe_unstash(self, 0) == TROUPE_OK;
    return keeper->is_confirmed
               ? TROUPE_CONTINUE
               : troupe_check(
                     self, set_tick(self, keeper->plan->options.grace_ns));
}

/* --- messages ------------------------------------------------------------- */

static troupe_verdict
hold(troupe_self *self, struct keeper *keeper)
{
    if (!keeper->is_confirmed && !troupe_timer_is_active(self, TICK_KEY)) {
        (void)set_tick(self, keeper->plan->backoff.min_ns); /* B1 */
    }
    if (keeper->plan->options.hold == TROUPE_HOLD_DROP) {
        return TROUPE_UNHANDLED;
    }
    if (trp_stash_make_room(self)) {
        keeper->evicted++;
        if ((keeper->evicted & (keeper->evicted - 1)) == 0) { /* 1, 2, 4 .. */
            troupe_log(self, TROUPE_LOG_WARN,
                "%" PRIu64 " held messages lost: %u is all that can be held",
                keeper->evicted, keeper->plan->options.stash_capacity);
        }
    }
    return troupe_stash(self) == TROUPE_OK ? TROUPE_CONTINUE : TROUPE_UNHANDLED;
}

static troupe_verdict
receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    struct keeper *keeper = state;
    bool is_early =
        (keeper->plan->options.flags & TROUPE_BACKOFF_FORWARD_EARLY) != 0;

    if (msg->type == &tick_type) {
        return tick(self, keeper);
    }
    if (troupe_msg_tag(msg) == TROUPE_TAG_DOWN &&
        troupe_ref_equal(troupe_down(msg)->actor, keeper->child)) {
        const troupe_exit *exit = troupe_down(msg);

        return child_ended(self, keeper,
            exit->kind == TROUPE_EXIT_FAILED ||
                exit->kind == TROUPE_EXIT_START_FAILED,
            exit->code);
    }
    if (!troupe_ref_is_none(keeper->child) &&
        (keeper->is_confirmed || is_early) &&
        trp_forward_if_alive(self, keeper->child)) {
        return TROUPE_CONTINUE;
    }
    return hold(self, keeper);
}

/* A child that cannot be had now is tried for again in a turn, as any other. */
static troupe_status
start(troupe_self *self, void *state, const void *arg)
{
    struct keeper *keeper = state;

    keeper->plan = arg;
    trp_fifo_init(&keeper->restarts, &self->core->heap);
    return spawn_next(self, keeper) == TROUPE_OK ? TROUPE_OK
                                                 : set_tick(self, 0);
}

/* Before a restart, too: then the notice of the old child comes to nothing. */
static void
stop(troupe_self *self, void *state, const troupe_exit *why)
{
    struct keeper *keeper = state;

    (void)why;
    (void)troupe_unwatch(self, keeper->child);
    trp_fifo_fini(&keeper->restarts);
}

/* --- the calls ------------------------------------------------------------ */

static const troupe_actor_type keeper_type = {
    .size = sizeof keeper_type,
    .name = "backoff_supervisor",
    .state_bytes = sizeof(struct keeper),
    .receive = receive,
    .start = start,
    .stop = stop,
};

static troupe_status
spawn(struct trp_core *core, troupe_self *self,
    const troupe_backoff_options *given, troupe_ref *supervisor,
    const char *call)
{
    struct plan plan = {.options = {0}};
    troupe_spawn_options options = {.size = sizeof options};
    troupe_status status = make_plan(&plan, given, call);
    size_t name_bytes;
    char *block;

    if (status != TROUPE_OK) {
        return status;
    }
    name_bytes = strlen(plan.options.child_name) + 1;
    options.arg_bytes =
        sizeof plan + trp_child_plan_tail(&plan.child) + name_bytes;
    block = trp_heap_alloc(&core->heap, options.arg_bytes);
    if (block == NULL) {
        return TROUPE_E_NOMEM;
    }
    memcpy(block, &plan, sizeof plan);
    options.arg = block;
    trp_child_plan_pack(&plan.child, block + sizeof plan);
    memcpy(block + options.arg_bytes - name_bytes, plan.options.child_name,
        name_bytes);
    options.name = plan.options.name;
    options.stash_capacity = plan.options.stash_capacity;
    status = trp_spawn(core, self, call, &keeper_type, &options, supervisor);
    trp_heap_free(&core->heap, block, options.arg_bytes);
    return status;
}

troupe_status
troupe_spawn_backoff(troupe_self *self, const troupe_backoff_options *options,
    troupe_ref *supervisor)
{
    static const char call[] = "troupe_spawn_backoff";

    if (self == NULL) {
        return trp_refuse(
            TROUPE_E_INVALID, call, "self", "must not be NULL", "NULL");
    }
    return spawn(self->core, self, options, supervisor, call);
}

troupe_status
troupe_system_spawn_backoff(troupe_system *system,
    const troupe_backoff_options *options, troupe_ref *supervisor)
{
    static const char call[] = "troupe_system_spawn_backoff";
    troupe_status status = trp_system_check(system, call);

    return status == TROUPE_OK
               ? spawn(trp_core_of(system), NULL, options, supervisor, call)
               : status;
}
