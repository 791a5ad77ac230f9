/* SPDX-License-Identifier: MIT */
#include "system/system.h"

#include "actor/delayed.h"
#include "actor/mailbox.h"
#include "actor/op.h"
#include "actor/registry.h"
#include "actor/route.h"
#include "actor/rules.h"
#include "actor/stop.h"
#include "actor/turn.h"
#include "base/clock.h"
#include "base/options.h"
#include "os/arena.h"
#include "os/cpu_count.h"

#include <troupe/tree.h>

#include <stdio.h>
#include <string.h>

/* Create, stop, destroy. */

#define SWITCHED_ON ((uint64_t)TROUPE_SWITCH_ON)
#define LINE_PATH_BYTES 256 /* of a path in a line of the log */

/* core.closing: 0, then these. */
#define CLOSING_BEGUN 1u /* refuse what comes from outside */
#define CLOSING_TOLD 2u  /* and the actors have been told to stop */

static const char create_call[] = "troupe_system_create";

/* --- checks --------------------------------------------------------------- */

troupe_status
trp_system_check(const troupe_system *system, const char *call)
{
    if (system == NULL) {
        return trp_refuse(
            TROUPE_E_INVALID, call, "system", "must not be NULL", "NULL");
    }
    if (!trp_core_is_alive(&system->core)) {
        return trp_refuse(TROUPE_E_FORKED, call, "system",
            "belongs to the parent process", "%s", system->name);
    }
    return TROUPE_OK;
}

troupe_status
trp_system_check_outside(const troupe_system *system, const char *call)
{
    troupe_status status = trp_system_check(system, call);

    if (status == TROUPE_OK && trp_local_here(&system->core) != NULL) {
        return trp_refuse(TROUPE_E_CONTEXT, call, "thread",
            "must not be inside a behaviour", "%s", "worker");
    }
    return status;
}

void
trp_system_log(troupe_system *system, enum trp_log_kind kind,
    troupe_log_level level, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    trp_log_write(
        &system->log, troupe_now_ns(system), kind, level, NULL, format, args);
    va_end(args);
}

/* --- create --------------------------------------------------------------- */

static troupe_status
check_name(const char *name)
{
    size_t length = strlen(name);

    if (length == 0 || length > 63) {
        return trp_refuse(TROUPE_E_INVALID, create_call, "name",
            "must have 1 to 63 bytes", "%.20s", name);
    }
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)name[i];

        if (c <= 0x20 || c == 0x7f || c == '/' || c == '\\') {
            return trp_refuse(TROUPE_E_INVALID, create_call, "name",
                "must have no '/', '\\', space or control character", "%.20s",
                name);
        }
    }
    return TROUPE_OK;
}

static troupe_status
check_options(const troupe_system_options *options)
{
    const uint32_t known = TROUPE_SYSTEM_IGNORE_ENV | TROUPE_SYSTEM_DRIVEN |
                           TROUPE_SYSTEM_FEWER_WORKERS;

    if ((options->flags & ~known) != 0) {
        return trp_refuse(TROUPE_E_INVALID, create_call, "flags",
            "must be TROUPE_SYSTEM_*", "0x%x", options->flags);
    }
    if ((options->alloc == NULL) != (options->free == NULL)) {
        return trp_refuse(TROUPE_E_INVALID, create_call, "alloc",
            "and free must be given together", "%s",
            options->alloc == NULL ? "only free" : "only alloc");
    }
    if (options->stack_bytes > (size_t)1 << 32) {
        return trp_refuse(TROUPE_E_INVALID, create_call, "stack_bytes",
            "must be at most 4 GiB", "%zu", options->stack_bytes);
    }
    return options->name != NULL ? check_name(options->name) : TROUPE_OK;
}

static troupe_status
no_address_space(void)
{
    return TROUPE_E_NOMEM;
}

/* Address space for cells, rings and small messages. */
static troupe_status
make_pools(struct trp_core *core, uint32_t max_actors, uint32_t workers)
{
    const struct trp_pool_shape segments = {
        TRP_RING_UNIT_SHIFT, TRP_RING_REGION_SHIFT, TRP_POOL_CLASSES, 0, false};
    const struct trp_pool_shape messages = {6, 25, 6, 0, false};
    /*
     * The guardians are not the user's, and what lies free in the cache of a
     * worker cannot be had elsewhere. 4096 cells are committed at once.
     */
    uint32_t cells = max_actors + 2 + workers * TRP_POOL_CACHED_MOST;
    uint32_t shift = trp_log2_ceil((uint64_t)cells + 1);
    const struct trp_pool_shape shape = {
        7, shift < 12 ? 12 : shift, 1, cells, true};
    const struct trp_pool_shape ops = {
        trp_log2_ceil(sizeof(struct trp_op)), 24, 1, 0, true};
    const struct trp_pool_shape askers = {
        TRP_ASKER_SHIFT, shape.region_shift, 1, cells, true};
    const struct trp_pool_shape rules = {
        trp_log2_ceil(sizeof(struct trp_rules)), shape.region_shift, 1, cells,
        true};
    const struct trp_pool_shape routes = {
        trp_log2_ceil(sizeof(struct trp_route)), 20, 1, 0, true};
    const struct trp_pool_shape tables = {
        TRP_ROUTE_UNIT_SHIFT, 20, TRP_ROUTE_CLASSES, 0, true};
    const struct trp_pool_shape depths = {
        TRP_DEPTHS_UNIT_SHIFT, 20, TRP_DEPTHS_CLASSES, 0, true};
    const struct trp_pool_shape delayed = {
        trp_log2_ceil(sizeof(struct trp_delayed)), 24, 1, 0, true};

    if (!trp_pool_init(&core->segments, &core->heap, &segments) ||
        !trp_pool_init(&core->messages, &core->heap, &messages) ||
        !trp_pool_init(&core->cells, &core->heap, &shape)) {
        return no_address_space();
    }
    if (!trp_pool_init(&core->rules, &core->heap, &rules) ||
        !trp_pool_init(&core->routes, &core->heap, &routes) ||
        !trp_pool_init(&core->tables, &core->heap, &tables) ||
        !trp_pool_init(&core->depths, &core->heap, &depths) ||
        !trp_pool_init(&core->delayed, &core->heap, &delayed) ||
        !trp_pool_init(&core->ops, &core->heap, &ops) ||
        !trp_pool_init(&core->askers, &core->heap, &askers)) {
        return no_address_space();
    }
    core->cold_bytes = trp_round_up(
        sizeof(struct trp_cold) << shape.region_shift, TRP_ARENA_PAGE);
    if (!trp_heap_may_grow(&core->heap)) {
        return TROUPE_E_NOMEM;
    }
    core->cold = trp_arena_reserve(core->cold_bytes);
    return core->cold != NULL ? TROUPE_OK : no_address_space();
}

/* Each worker's part; the pools must know all caches to trim. */
static troupe_status
make_locals(struct trp_core *core)
{
    uint32_t count = core->sched.allocated;

    core->locals = trp_heap_alloc(&core->heap, count * sizeof *core->locals);
    core->caches =
        trp_heap_alloc(&core->heap, 4 * (size_t)count * sizeof *core->caches);
    if (core->locals == NULL || core->caches == NULL) {
        return TROUPE_E_NOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct trp_local *local = &core->locals[i];

        local->worker = &core->sched.workers[i];
        local->worker->local = local;
        local->self.core = core;
        local->self.local = local;
        local->self.worker = local->worker;
        local->worker->progress[0] = &local->books.sent;
        local->worker->progress[1] = &local->books.handled;
        local->worker->progress[2] = &local->books.started;
        core->caches[i] = &local->segments;
        core->caches[count + i] = &local->messages;
        core->caches[2 * count + i] = &local->cells;
        core->caches[3 * count + i] = &local->ops;
    }
    core->segments.caches = core->caches;
    core->messages.caches = core->caches + count;
    core->cells.caches = core->caches + 2 * (size_t)count;
    core->ops.caches = core->caches + 3 * (size_t)count;
    core->segments.cache_count = core->messages.cache_count =
        core->cells.cache_count = core->ops.cache_count = count;
    return TROUPE_OK;
}

/* A worker has nothing to do: it gives back what it does not need. */
static void
rest(struct trp_worker *worker)
{
    struct trp_local *local = worker->local;
    struct trp_core *core = local->self.core;
    uint64_t state =
        trp_load_acquire(&core->sched.idle.state); /* pairs: idle.state */
    bool all =
        core->sched.driven || trp_idle_parked(state) + 1 >= core->sched.count;

    trp_pool_trim(&core->segments, &local->segments, all);
    trp_pool_trim(&core->messages, &local->messages, all);
}

static troupe_verdict
guardian_receive(troupe_self *self, void *state, const troupe_msg *msg)
{
    (void)self;
    (void)state;
    (void)msg;
    return TROUPE_UNHANDLED;
}

static const troupe_actor_type guardian_type = {
    .size = sizeof(troupe_actor_type),
    .name = "",
    .receive = guardian_receive,
};

static troupe_status
make_guardians(struct trp_core *core)
{
    static const struct trp_birth_options user_name = {.name = "user"};
    static const struct trp_birth_options ports_name = {.name = "system"};
    const struct trp_birth user = {.type = &guardian_type,
        .kind = TRP_KIND_GUARDIAN,
        .options = &user_name};
    const struct trp_birth ports = {.type = &guardian_type,
        .kind = TRP_KIND_GUARDIAN,
        .options = &ports_name};
    troupe_status status =
        trp_cell_create(core, NULL, TROUPE_NONE, &user, &core->user);

    if (status == TROUPE_OK) {
        status = trp_cell_create(core, NULL, TROUPE_NONE, &ports, &core->ports);
    }
    return status;
}

static void
on_user_gone(struct trp_core *core)
{
    troupe_system *system = trp_system_of(core);

    trp_store_release(&system->ended, 1); /* pairs: system.ended */
    trp_futex_wake(&system->ended, INT32_MAX);
}

static void
on_mismatch(struct trp_core *core, const troupe_msg *msg, size_t bytes)
{
    trp_system_log(trp_system_of(core), TRP_LOG_MISMATCH, TROUPE_LOG_WARN,
        "troupe_payload: message %s has %zu bytes, not the %zu asked for",
        msg->type->name != NULL ? msg->type->name : "", msg->bytes, bytes);
}

/* Under the actor's path, as its own lines; doubling keeps them few. */
static void
on_deep(struct trp_core *core, troupe_ref actor, uint32_t depth)
{
    const troupe_actor_type *type = trp_load_acquire(
        &core->cold[actor.index].type); /* pairs: cell.cold_part */

    trp_system_log_of(trp_system_of(core), actor, TROUPE_LOG_WARN,
        "mailbox depth %u: this actor (%s) falls behind its senders; give it "
        "a capacity (mailbox.capacity) or slow them",
        depth, type != NULL ? type->name : "port");
}

/* While its child lives: in the parent's turn. */
static void
on_failed(struct trp_core *core, const troupe_exit *cause,
    troupe_directive directive, uint32_t restarts)
{
    static const char *const words[] = {
        "restarted", "resumed", "stopped", "left to the one above its parent"};
    troupe_system *system = trp_system_of(core);
    char path[LINE_PATH_BYTES];

    if (!trp_log_is_on(&system->log, TROUPE_LOG_WARN) ||
        !trp_log_is_due(&system->log, TRP_LOG_FAILED, troupe_now_ns(system))) {
        return;
    }
    troupe_path(system, cause->actor, path, sizeof path);
    trp_system_log(system, TRP_LOG_FAILED, TROUPE_LOG_WARN,
        "%s %s with code %d: %s (%u restarts before)", path,
        cause->kind == TROUPE_EXIT_START_FAILED ? "did not start"
                                                : "has failed",
        (int)cause->code, words[directive], (unsigned)restarts);
}

static void
on_root_failed(struct trp_core *core, const troupe_exit *cause)
{
    troupe_system *system = trp_system_of(core);
    char path[LINE_PATH_BYTES], reason[LINE_PATH_BYTES + 40];

    troupe_path(system, cause->actor, path, sizeof path);
    trp_system_log(system, TRP_LOG_STOP, TROUPE_LOG_ERROR,
        "stops, since %s has failed with code %d and nobody above it decides",
        path, (int)cause->code);
    snprintf(reason, sizeof reason, "failed with code %d: %s", (int)cause->code,
        path);
    trp_shutdown_ask(system, reason);
}

static uint64_t
now_ns(const struct trp_core *core)
{
    return troupe_now_ns((const troupe_system *)(const void *)core);
}

/* Everything but the threads. */
static troupe_status
make_system(troupe_system *system, const troupe_system_options *options,
    const struct trp_sched_options *sched)
{
    struct trp_core *core = &system->core;
    struct trp_rng rng = {trp_clock_ns() ^ (uint64_t)(uintptr_t)system};
    troupe_status status;

    strcpy(system->name, options->name != NULL ? options->name : "troupe");
    system->start_ns = trp_clock_ns();
    system->is_simulation = sched->driven && sched->seed != 0;
    system->log.hook = options->log;
    system->log.hook.max_level =
        (troupe_log_level)system->tunables.value[TRP_TROUPE_LOG];
    system->log.hook.format =
        (troupe_log_format)system->tunables.value[TRP_TROUPE_LOG_FORMAT];
    system->log.name = system->name;
    core->name = system->name;
    trp_shutdown_init(&system->shutdown, sched->stack_bytes);
    core->throughput = (uint32_t)system->tunables.value[TRP_TROUPE_THROUGHPUT];
    core->stash_capacity =
        (uint32_t)system->tunables.value[TRP_TROUPE_STASH_CAPACITY];
    core->deep_from =
        (uint32_t)system->tunables.value[TRP_TROUPE_MAILBOX_WARN] - 1;
    core->ask_timeout_ns =
        system->tunables.value[TRP_TROUPE_ASK_TIMEOUT_MS] * UINT64_C(1000000);
    core->now_ns = now_ns;
    core->on_deep = on_deep;
    core->on_failed = on_failed;
    core->on_root_failed = on_root_failed;
    core->dead_letter = options->dead_letter;
    core->on_dead_letter = trp_dead_letters_arrive;
    core->on_user_gone = on_user_gone;
    core->on_mismatch = on_mismatch;
    trp_events_init(system);
    core->least = trp_least_best();
    core->on_dropped = trp_stock_count_drop;
    core->first_generation =
        system->is_simulation
            ? 1
            : ((uint32_t)trp_rng_next(&rng) & TRP_LIFE_MASK) | 1;
    for (size_t i = 0; i < 4; i++) {
        core->op_keys[i] =
            system->is_simulation ? 0 : (uint32_t)trp_rng_next(&rng);
    }
    if (trp_heap_may_grow(&core->heap)) {
        system->fork_page = trp_arena_fork_page();
    }
    if (system->fork_page == NULL) {
        return TROUPE_E_NOMEM;
    }
    *(uint32_t *)system->fork_page = 1;
    core->alive = system->fork_page;
    status = make_pools(core,
        (uint32_t)system->tunables.value[TRP_TROUPE_MAX_ACTORS],
        sched->workers);
    if (status == TROUPE_OK) {
        status = trp_sched_init(&core->sched, &core->heap, sched);
        core->sched.alarms.virtual_ns =
            system->is_simulation ? &system->virtual_ns : NULL;
    }
    if (status == TROUPE_OK) {
        status = make_locals(core);
    }
    if (status == TROUPE_OK) {
        status = make_guardians(core);
    }
    if (status == TROUPE_OK &&
        !trp_dead_letters_init(system, options->dead_letters,
            system->tunables.value[TRP_TROUPE_DEAD_LETTERS])) {
        status = TROUPE_E_NOMEM;
    }
    if (status == TROUPE_OK &&
        (!trp_metrics_init(&system->metrics, core, core->sched.allocated,
             (uint32_t)trp_rng_next(&rng) | 1) ||
            !trp_stock_init(system))) {
        status = TROUPE_E_NOMEM;
    }
    if (status == TROUPE_OK &&
        !trp_stock_switch(system,
            system->tunables.value[TRP_TROUPE_METRICS] == SWITCHED_ON)) {
        status = TROUPE_E_NOMEM;
    }
    return status;
}

/* The one teardown path: also of a system that was made only in part. */
static void
free_system(troupe_system *system)
{
    struct trp_core *core = &system->core;
    struct trp_heap heap = core->heap;
    uint32_t count = core->sched.allocated;

    trp_shutdown_fini(system);
    trp_dead_letters_fini(system);
    trp_events_fini(system);
    trp_core_fini_cells(core);
    trp_delayed_fini(core);
    trp_stock_fini(system); /* drop functions may have counted until now */
    trp_metrics_fini(&system->metrics);
    trp_heap_free(&core->heap, core->locals, count * sizeof *core->locals);
    trp_heap_free(
        &core->heap, core->caches, 4 * (size_t)count * sizeof *core->caches);
    trp_sched_fini(&core->sched);
    trp_registry_fini(core);
    trp_pool_fini(&core->askers);
    trp_pool_fini(&core->ops);
    trp_pool_fini(&core->delayed);
    trp_pool_fini(&core->depths);
    trp_pool_fini(&core->tables);
    trp_pool_fini(&core->routes);
    trp_pool_fini(&core->rules);
    trp_pool_fini(&core->cells);
    trp_pool_fini(&core->messages);
    trp_pool_fini(&core->segments);
    trp_arena_release(core->cold, core->cold_bytes);
    trp_arena_release(system->fork_page, TRP_ARENA_PAGE);
    trp_heap_free(&heap, system, sizeof *system);
}

static void
warn_of_unknown_variables(troupe_system *system)
{
    size_t length;
    const char *name = trp_tunables_unknown(0, &length);

    if (name != NULL) {
        size_t more = 0;
        size_t other;

        while (trp_tunables_unknown(more + 1, &other) != NULL) {
            more++;
        }
        trp_system_log(system, TRP_LOG_START, TROUPE_LOG_WARN,
            "unknown variable %.*s in the environment%s", (int)length, name,
            more != 0 ? ", and others" : "");
    }
}

static struct trp_sched_options
sched_options(
    const troupe_system_options *options, struct trp_tunables *tunables)
{
    struct trp_sched_options sched = {
        .run = trp_turn,
        .rest = rest,
        .name = options->name != NULL ? options->name : "troupe",
        .workers = (uint32_t)tunables->value[TRP_TROUPE_WORKERS],
        .spin_ns = tunables->value[TRP_TROUPE_SPIN_US] * 1000,
        .stack_bytes = options->stack_bytes != 0 ? options->stack_bytes
                                                 : (size_t)1024 * 1024,
        .steal = (enum trp_steal)tunables->value[TRP_TROUPE_STEAL],
        .driven = (options->flags & TROUPE_SYSTEM_DRIVEN) != 0,
        .fewer_workers = (options->flags & TROUPE_SYSTEM_FEWER_WORKERS) != 0,
        .seed = tunables->value[TRP_TROUPE_SEED],
    };

    if (sched.driven) {
        sched.workers = 1;
    } else if (sched.workers == 0) {
        sched.workers = trp_cpu_count(options->cgroup_root);
        if (sched.workers > TRP_WORKERS_MAX) {
            sched.workers = TRP_WORKERS_MAX;
        }
    }
    return sched;
}

troupe_status
troupe_system_create(const troupe_system_options *given, troupe_system **result)
{
    troupe_system_options options = {0};
    troupe_dead_letter_options letters;
    struct trp_tunables tunables;
    struct trp_sched_options sched;
    struct trp_heap heap;
    troupe_system *system;
    troupe_status status = TROUPE_OK;

    if (result == NULL) {
        return trp_refuse(TROUPE_E_INVALID, create_call, "system",
            "must not be NULL", "NULL");
    }
    if (given != NULL) {
        status = trp_options_copy(&options, sizeof options, given, create_call);
    }
    if (status == TROUPE_OK && options.dead_letters != NULL) {
        status = trp_options_copy(
            &letters, sizeof letters, options.dead_letters, create_call);
        options.dead_letters = &letters;
    }
    if (status == TROUPE_OK) {
        status = check_options(&options);
    }
    if (status == TROUPE_OK) {
        status = trp_tunables_read(&tunables, &options);
    }
    if (status != TROUPE_OK) {
        return status;
    }
    sched = sched_options(&options, &tunables);
    trp_heap_init(&heap, options.alloc, options.free, options.alloc_user);
    system = trp_heap_alloc(&heap, sizeof *system);
    if (system == NULL) {
        return TROUPE_E_NOMEM;
    }
    system->core.heap = heap;
    system->tunables = tunables;
    status = make_system(system, &options, &sched);
    if (status == TROUPE_OK) {
        status = trp_sched_start(&system->core.sched, &sched);
    }
    if (status != TROUPE_OK) {
        free_system(system);
        return status;
    }
    if (system->core.sched.count < sched.workers) {
        trp_system_log(system, TRP_LOG_WORKERS, TROUPE_LOG_WARN,
            "%u of %u workers could be started", system->core.sched.count,
            sched.workers);
    }
    system->tunables.value[TRP_TROUPE_WORKERS] = system->core.sched.count;
    if ((options.flags & TROUPE_SYSTEM_IGNORE_ENV) == 0) {
        warn_of_unknown_variables(system);
    }
    *result = system;
    return TROUPE_OK;
}

/* --- stop ----------------------------------------------------------------- */

void
trp_system_stop_actors(troupe_system *system)
{
    struct trp_core *core = &system->core;
    struct trp_local *local = trp_local_here(core);
    struct trp_cell *user = trp_cell_at(core, core->user.index);
    struct trp_cold *cold = trp_cold_of(core, user);
    uint32_t hurried;

    trp_store_release(&core->closing, CLOSING_BEGUN); /* pairs: system.closing
                                                       */
    /* Under the lock: from here on /user takes no child. */
    trp_lock_acquire(&cold->lock);
    trp_cell_set_flags(user, trp_cell_flags(user) | TRP_CELL_STOPPING |
                                 TROUPE_EXIT_STOPPED << TRP_CELL_EXIT_SHIFT);
    trp_lock_release(&cold->lock);
    hurried = trp_stop_children_in_line(core, local, user);
    if (hurried != 0) {
        trp_system_log(system, TRP_LOG_STOP, TROUPE_LOG_WARN,
            "no memory to let %u actor%s drain: what is queued is lost",
            hurried, hurried == 1 ? "" : "s");
    }
    trp_mailbox_request(core, local, core->user, TRP_RING_SIGNAL);
    trp_store_release(&core->closing, CLOSING_TOLD); /* pairs: system.closing */
    trp_futex_wake(&core->closing, INT32_MAX);
}

void
troupe_system_request_stop(troupe_system *system)
{
    if (trp_system_check(system, "troupe_system_request_stop") == TROUPE_OK) {
        trp_shutdown_ask(system, NULL);
    }
}

/*
 * Until one of the words that the stop counts up has come so far; false: the
 * deadline has passed.
 */
static bool
await_stage(TRP_ATOMIC(uint32_t) * word, uint32_t stage, uint64_t deadline_ns)
{
    bool in_time = true;

    for (;;) {
        /* pairs: system.asked, system.closing, system.ended */
        uint32_t now = trp_load_acquire(word); /* pairs: system.asked */

        if (now >= stage || !in_time) {
            return now >= stage;
        }
        in_time = trp_futex_wait(word, now, deadline_ns);
    }
}

troupe_status
troupe_system_wait(troupe_system *system, uint64_t timeout_ns)
{
    static const char call[] = "troupe_system_wait";
    troupe_status status = trp_system_check_outside(system, call);

    if (status != TROUPE_OK) {
        return status;
    }
    if (system->core.sched.driven) {
        return trp_refuse(TROUPE_E_STATE, call, "system",
            "is driven: nobody else could run it", "%s", system->name);
    }
    return await_stage(&system->shutdown.asked, TRP_ASKED_DONE,
               trp_clock_after(trp_clock_ns(), timeout_ns))
               ? TROUPE_OK
               : TROUPE_E_TIMEOUT;
}

/*
 * After the phases. Waits half of the time that is left for those who drain,
 * then tells them to stop now.
 */
static bool
await_actors(troupe_system *system, uint64_t deadline_ns)
{
    uint64_t now_ns = trp_clock_ns();
    uint64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;

    if (await_stage(&system->ended, 1, now_ns + left_ns / 2)) {
        return true;
    }
    trp_stop_children(&system->core, NULL,
        trp_cell_at(&system->core, system->core.user.index));
    return await_stage(&system->ended, 1, deadline_ns);
}

static bool
has_ended(troupe_system *system)
{
    return trp_load_acquire(&system->ended) != 0; /* pairs: system.ended */
}

/* After the request: phases, actors, late tasks. False: not in time. */
static bool
await_end(troupe_system *system)
{
    uint64_t deadline_ns = trp_shutdown_phases_until(system, trp_clock_ns());

    if (system->core.sched.driven) {
        trp_system_turn(system, 0);
        if (!has_ended(system) &&
            trp_load_acquire(&system->core.closing) == CLOSING_TOLD) { /* pairs:
                                                              system.closing */
            trp_stop_children(&system->core, NULL, /* awaits in vain */
                trp_cell_at(&system->core, system->core.user.index));
            trp_system_turn(system, 0);
        }
        return has_ended(system);
    }
    trp_shutdown_drive_late(system);
    if (!await_stage(&system->core.closing, CLOSING_TOLD, deadline_ns)) {
        return false;
    }
    deadline_ns =
        trp_shutdown_actors_until(system, deadline_ns, trp_clock_ns());
    return await_actors(system, deadline_ns) &&
           trp_shutdown_await_tasks(system, deadline_ns);
}

static void
log_busy(troupe_system *system)
{
    size_t actors = troupe_system_busy(system, NULL, 0);
    char tasks[512];

    if (troupe_shutdown_busy(system, tasks, sizeof tasks) == 0) {
        trp_system_log(system, TRP_LOG_STOP, TROUPE_LOG_WARN,
            "%zu actors are still busy after the grace period", actors);
    } else {
        trp_system_log(system, TRP_LOG_STOP, TROUPE_LOG_WARN,
            "tasks of the shutdown still run after the grace period: %s; %zu "
            "actors are busy",
            tasks, actors);
    }
}

troupe_status
troupe_system_stop(troupe_system *system)
{
    static const char call[] = "troupe_system_stop";
    troupe_status status = trp_system_check_outside(system, call);

    if (status == TROUPE_OK) {
        status = trp_shutdown_check_outside(system, call);
    }
    if (status != TROUPE_OK) {
        return status;
    }
    trp_shutdown_ask(system, NULL);
    (void)await_stage(
        &system->shutdown.asked, TRP_ASKED_DONE, TRP_FUTEX_FOREVER);
    if (!await_end(system)) {
        log_busy(system);
        return TROUPE_E_TIMEOUT;
    }
    trp_lock_acquire(&system->stop_lock);
    trp_shutdown_join(system);
    trp_sched_stop(&system->core.sched);
    trp_lock_release(&system->stop_lock);
    return TROUPE_OK;
}

/* E_STATE while something of the user's is open. */
static troupe_status
check_open(troupe_system *system)
{
    uint32_t open = trp_load_acquire(&system->open); /* pairs: system.open */

    return open == 0 ? TROUPE_OK
                     : trp_refuse(TROUPE_E_STATE, "troupe_system_destroy",
                           "system", "must have no open port, probe or breaker",
                           "%u open", open);
}

troupe_status
troupe_system_destroy(troupe_system *system)
{
    troupe_status status;

    if (system == NULL) {
        return TROUPE_OK;
    }
    if (!trp_core_is_alive(&system->core)) {
        free_system(system); /* a forked child: threads are the parent's */
        return TROUPE_OK;
    }
    status = check_open(system);
    if (status == TROUPE_OK) {
        status = troupe_system_stop(system);
    }
    if (status == TROUPE_OK) {
        status = check_open(system); /* a task may have left one */
    }
    if (status == TROUPE_OK) {
        free_system(system);
    }
    return status;
}

/* --- others --------------------------------------------------------------- */

troupe_status
troupe_system_await_idle(troupe_system *system, uint64_t timeout_ns)
{
    troupe_status status =
        trp_system_check_outside(system, "troupe_system_await_idle");

    if (status != TROUPE_OK) {
        return status;
    }
    if (system->core.sched.driven) {
        trp_system_turn(system, 0);
        return TROUPE_OK;
    }
    return trp_idle_await_quiet(
               &system->core.sched, trp_clock_after(trp_clock_ns(), timeout_ns))
               ? TROUPE_OK
               : TROUPE_E_TIMEOUT;
}

size_t
troupe_system_describe(const troupe_system *system, char *text, size_t bytes)
{
    if (system == NULL) {
        if (text != NULL && bytes > 0) {
            text[0] = '\0';
        }
        return 0;
    }
    return trp_tunables_describe(&system->tunables, text, bytes);
}

const char *
troupe_system_name(const troupe_system *system)
{
    return system != NULL ? system->name : "";
}

/* For libtroupe-testkit: troupe_fail_allocation(). */
TROUPE_API void troupe_private_fail_allocation(
    troupe_system *system, uint64_t nth);

void
troupe_private_fail_allocation(troupe_system *system, uint64_t nth)
{
    if (system != NULL) {
        /* relaxed: set by the thread that runs the system. */
        trp_store_relaxed(&system->core.heap.fail_at, nth);
    }
}
