/* SPDX-License-Identifier: MIT */
#include "system/shutdown.h"

#include "base/clock.h"
#include "base/options.h"
#include "os/thread.h"
#include "sched/submit.h"
#include "system/system.h"

#include <stdio.h>
#include <string.h>

/* Ordered shutdown: see shutdown.h. */

#define DEFAULT_TIMEOUT_NS UINT64_C(5000000000)
#define STOP_INDEX (TRP_PHASES_BUILT_IN - 1)

struct trp_shutdown_task {
    struct trp_shutdown_task *next;
    char name[TRP_PHASE_NAME_BYTES];
    troupe_shutdown_fn fn;
    void *user;
    troupe_system *system;

    TRP_ATOMIC(uint32_t) progress; /* WAITS, INSIDE, DONE */
    troupe_status status;          /* when it is DONE */
    bool has_thread;               /* who drives; then who stops */
    pthread_t thread;
};

enum { WAITS, INSIDE, DONE };

#define EACH_TASK(task, phase)                                                 \
    struct trp_shutdown_task *task = (phase)->first;                           \
    task != NULL;                                                              \
    task = task->next

/* --- phases and tasks ----------------------------------------------------- */

void
trp_shutdown_init(struct trp_shutdown *shutdown, size_t stack_bytes)
{
    static const char *const names[TRP_PHASES_BUILT_IN] = {
        TROUPE_PHASE_SERVICE_UNBIND, TROUPE_PHASE_SERVICE_REQUESTS_DONE,
        TROUPE_PHASE_SERVICE_STOP, TROUPE_PHASE_BEFORE_STOP, TROUPE_PHASE_STOP};

    for (uint32_t i = 0; i < TRP_PHASES_BUILT_IN; i++) {
        struct trp_phase *phase = &shutdown->built_in[i];

        strcpy(phase->name, names[i]);
        phase->timeout_ns = DEFAULT_TIMEOUT_NS;
        phase->after = (UINT64_C(1) << i) - 1;
        shutdown->phases[i] = phase;
    }
    shutdown->count = TRP_PHASES_BUILT_IN;
    shutdown->stack_bytes = stack_bytes;
}

void
trp_shutdown_fini(troupe_system *system)
{
    struct trp_shutdown *shutdown = &system->shutdown;

    for (uint32_t i = 0; i < shutdown->count; i++) {
        struct trp_phase *phase = shutdown->phases[i];

        while (phase->first != NULL) {
            struct trp_shutdown_task *task = phase->first;

            phase->first = task->next;
            trp_heap_free(&system->core.heap, task, sizeof *task);
        }
        if (i >= TRP_PHASES_BUILT_IN) {
            trp_heap_free(&system->core.heap, phase, sizeof *phase);
        }
    }
}

static troupe_status
check_name(const char *name, const char *call, const char *option)
{
    size_t length = name != NULL ? strlen(name) : 0;

    if (length == 0 || length >= TRP_PHASE_NAME_BYTES) {
        return trp_refuse(TROUPE_E_INVALID, call, option,
            "must have 1 to 63 bytes", "%.20s", name != NULL ? name : "NULL");
    }
    return TROUPE_OK;
}

static troupe_status
check_open_locked(const struct trp_shutdown *shutdown, const char *call)
{
    /* relaxed: who asks takes the lock afterwards, and sees what is added. */
    if (trp_load_relaxed(&shutdown->asked) != 0) {
        return trp_refuse(
            TROUPE_E_CLOSED, call, "system", "is stopping", "%s", "");
    }
    return TROUPE_OK;
}

/* UINT32_MAX: there is none. */
static uint32_t
find_phase(const struct trp_shutdown *shutdown, const char *name)
{
    for (uint32_t i = 0; i < shutdown->count; i++) {
        if (strcmp(shutdown->phases[i]->name, name) == 0) {
            return i;
        }
    }
    return UINT32_MAX;
}

/* A bit for each name, and with `indirect` for those that come before it. */
static troupe_status
find_all_locked(const struct trp_shutdown *shutdown, const char *const *names,
    const char *option, const char *call, bool indirect, uint64_t *mask)
{
    *mask = 0;
    for (; names != NULL && *names != NULL; names++) {
        uint32_t index = find_phase(shutdown, *names);

        if (index == UINT32_MAX) {
            return trp_refuse(TROUPE_E_MISSING, call, option,
                "names a phase that does not exist", "%.31s", *names);
        }
        if (indirect && index == STOP_INDEX) {
            return trp_refuse(TROUPE_E_INVALID, call, option,
                "must not name the last phase", "%s", *names);
        }
        *mask |= UINT64_C(1) << index |
                 (indirect ? shutdown->phases[index]->after : 0);
    }
    return TROUPE_OK;
}

/* Some name of `before` that comes before some name of `after`. */
static troupe_status
refuse_cycle_locked(const struct trp_shutdown *shutdown,
    const char *const *names, uint64_t before, const char *call)
{
    uint32_t later = 0, sooner = 0;

    for (; *names != NULL; names++) {
        uint64_t reached;

        later = find_phase(shutdown, *names);
        reached =
            (UINT64_C(1) << later | shutdown->phases[later]->after) & before;
        if (reached != 0) {
            sooner = (uint32_t)__builtin_ctzll(reached);
            break;
        }
    }
    return trp_refuse(TROUPE_E_INVALID, call, "before and after",
        "make a cycle", "%.14s, %.14s", shutdown->phases[sooner]->name,
        shutdown->phases[later]->name);
}

static troupe_status
link_phase_locked(struct trp_shutdown *shutdown, struct trp_phase *phase,
    const troupe_phase_options *options, const char *call)
{
    uint64_t before = 0, self = UINT64_C(1) << (shutdown->count & 63);
    troupe_status status = check_open_locked(shutdown, call);

    if (status == TROUPE_OK &&
        find_phase(shutdown, phase->name) != UINT32_MAX) {
        status = trp_refuse(TROUPE_E_EXISTS, call, "name",
            "is the name of another phase", "%.31s", phase->name);
    }
    if (status == TROUPE_OK && shutdown->count == TRP_PHASES_MAX) {
        status = trp_refuse(TROUPE_E_LIMIT, call, "name",
            "would be one phase too many", "%d", TRP_PHASES_MAX + 1);
    }
    if (status == TROUPE_OK) {
        status = find_all_locked(
            shutdown, options->after, "after", call, true, &phase->after);
    }
    if (status == TROUPE_OK) {
        status = find_all_locked(
            shutdown, options->before, "before", call, false, &before);
    }
    if (status == TROUPE_OK && (phase->after & before) != 0) {
        status = refuse_cycle_locked(shutdown, options->after, before, call);
    }
    if (status != TROUPE_OK) {
        return status;
    }
    before |= UINT64_C(1) << STOP_INDEX;
    for (uint32_t i = 0; i < shutdown->count; i++) {
        struct trp_phase *other = shutdown->phases[i];

        if (((other->after | UINT64_C(1) << i) & before) != 0) {
            other->after |= self | phase->after;
        }
    }
    phase->is_eager = phase->after != 0;
    shutdown->phases[shutdown->count++] = phase;
    return TROUPE_OK;
}

troupe_status
troupe_shutdown_add_phase(
    troupe_system *system, const troupe_phase_options *given)
{
    static const char call[] = "troupe_shutdown_add_phase";
    troupe_phase_options options = {0};
    struct trp_phase *phase;
    troupe_status status = trp_system_check(system, call);

    if (status == TROUPE_OK) {
        status = trp_options_copy(&options, sizeof options, given, call);
    }
    if (status == TROUPE_OK) {
        status = check_name(options.name, call, "name");
    }
    if (status == TROUPE_OK &&
        ((options.flags & ~(uint32_t)TROUPE_PHASE_HALT) != 0 ||
            options.reserved != 0)) {
        status = trp_refuse(TROUPE_E_INVALID, call,
            options.reserved != 0 ? "reserved" : "flags",
            options.reserved != 0 ? "must be 0" : "must be TROUPE_PHASE_*",
            "0x%x", options.reserved != 0 ? options.reserved : options.flags);
    }
    if (status != TROUPE_OK) {
        return status;
    }
    phase = trp_heap_alloc(&system->core.heap, sizeof *phase);
    if (phase == NULL) {
        return TROUPE_E_NOMEM;
    }
    strcpy(phase->name, options.name);
    phase->timeout_ns =
        options.timeout_ns != 0 ? options.timeout_ns : DEFAULT_TIMEOUT_NS;
    phase->flags = options.flags;
    trp_lock_acquire(&system->shutdown.lock);
    status = link_phase_locked(&system->shutdown, phase, &options, call);
    trp_lock_release(&system->shutdown.lock);
    if (status != TROUPE_OK) {
        trp_heap_free(&system->core.heap, phase, sizeof *phase);
    }
    return status;
}

static troupe_status
link_task_locked(struct trp_shutdown *shutdown, const char *phase,
    struct trp_shutdown_task *task, const char *call)
{
    troupe_status status = check_open_locked(shutdown, call);
    uint32_t index = find_phase(shutdown, phase);
    struct trp_shutdown_task **at;

    if (status != TROUPE_OK) {
        return status;
    }
    if (index == UINT32_MAX) {
        return trp_refuse(
            TROUPE_E_MISSING, call, "phase", "does not exist", "%.31s", phase);
    }
    for (at = &shutdown->phases[index]->first; *at != NULL; at = &(*at)->next) {
        if (strcmp((*at)->name, task->name) == 0) {
            return trp_refuse(TROUPE_E_EXISTS, call, "task",
                "is the name of another task of the phase", "%.31s",
                task->name);
        }
    }
    *at = task;
    return TROUPE_OK;
}

troupe_status
troupe_shutdown_add(troupe_system *system, const char *phase, const char *name,
    troupe_shutdown_fn fn, void *user)
{
    static const char call[] = "troupe_shutdown_add";
    struct trp_shutdown_task *task;
    troupe_status status = trp_system_check(system, call);

    if (status == TROUPE_OK) {
        status = check_name(phase, call, "phase");
    }
    if (status == TROUPE_OK) {
        status = check_name(name, call, "task");
    }
    if (status == TROUPE_OK && fn == NULL) {
        status = trp_refuse(
            TROUPE_E_INVALID, call, "fn", "must not be NULL", "NULL");
    }
    if (status != TROUPE_OK) {
        return status;
    }
    task = trp_heap_alloc(&system->core.heap, sizeof *task);
    if (task == NULL) {
        return TROUPE_E_NOMEM;
    }
    strcpy(task->name, name);
    task->fn = fn;
    task->user = user;
    task->system = system;
    trp_lock_acquire(&system->shutdown.lock);
    status = link_task_locked(&system->shutdown, phase, task, call);
    trp_lock_release(&system->shutdown.lock);
    if (status != TROUPE_OK) {
        trp_heap_free(&system->core.heap, task, sizeof *task);
    }
    return status;
}

/* --- one task ------------------------------------------------------------- */

static void
call_task(struct trp_shutdown_task *task)
{
    troupe_system *system = task->system;
    const struct trp_inside here = {&system->core, trp_thread.in_task};

    trp_thread.in_task = &here;
    task->status = task->fn(system, system->shutdown.reason, task->user);
    trp_thread.in_task = here.outer;
    trp_store_release(&task->progress, DONE); /* pairs: shutdown.done */
}

static bool
is_done(const struct trp_shutdown_task *task)
{
    return trp_load_acquire(&task->progress) == DONE; /* pairs: shutdown.done */
}

troupe_status
trp_shutdown_check_outside(const troupe_system *system, const char *call)
{
    return !trp_is_inside(trp_thread.in_task, &system->core)
               ? TROUPE_OK
               : trp_refuse(TROUPE_E_CONTEXT, call, "thread",
                     "must not be inside a task of the shutdown", "%s", "task");
}

static bool
report(troupe_system *system, const struct trp_phase *phase,
    const struct trp_shutdown_task *task, bool is_late)
{
    if (is_late) {
        trp_system_log(system, TRP_LOG_USER, TROUPE_LOG_WARN,
            "[shutdown] task %s of phase %s timed out after %llu ms",
            task->name, phase->name,
            (unsigned long long)(phase->timeout_ns / 1000000));
    } else if (task->status != TROUPE_OK) {
        trp_system_log(system, TRP_LOG_USER, TROUPE_LOG_WARN,
            "[shutdown] task %s of phase %s failed: %s", task->name,
            phase->name, troupe_status_name(task->status));
    }
    return !is_late && task->status == TROUPE_OK;
}

/* On this thread; it cannot be left at its deadline. */
static bool
run_here(troupe_system *system, const struct trp_phase *phase,
    struct trp_shutdown_task *task)
{
    uint64_t begin_ns = troupe_now_ns(system);

    trp_store_relaxed(&task->progress, INSIDE); /* relaxed: shown to people */
    call_task(task);
    return report(system, phase, task,
        troupe_now_ns(system) - begin_ns > phase->timeout_ns);
}

static void *
task_thread(void *user)
{
    struct trp_shutdown_task *task = user;
    struct trp_shutdown *shutdown = &task->system->shutdown;

    call_task(task);
    trp_sub_acq_rel(&shutdown->running, 1); /* pairs: shutdown.running */
    trp_futex_wake(&shutdown->running, INT32_MAX);
    return NULL;
}

static bool
start_thread(troupe_system *system, const char *name, pthread_t *thread,
    void *(*run)(void *), void *user)
{
    char text[16];

    snprintf(text, sizeof text, "%.7s/%.7s", system->name, name);
    return trp_thread_start(
        thread, text, system->shutdown.stack_bytes, run, user);
}

static void
start_task(troupe_system *system, struct trp_shutdown_task *task)
{
    struct trp_shutdown *shutdown = &system->shutdown;

    /* relaxed, both: the thread begins afterwards. */
    trp_store_relaxed(&task->progress, INSIDE);
    trp_add_relaxed(&shutdown->running, 1); /* relaxed: as above */
    task->has_thread =
        start_thread(system, task->name, &task->thread, task_thread, task);
    if (!task->has_thread) {
        /* relaxed, both: no thread saw it. */
        trp_store_relaxed(&task->progress, WAITS);
        trp_sub_relaxed(&shutdown->running, 1); /* relaxed: as above */
    }
}

/* --- the run of phases ---------------------------------------------------- */

/*
 * Of those whose predecessors have begun: first who wants to run at once, then
 * the oldest. NULL: all have. Each phase ends before the next one begins.
 */
static struct trp_phase *
next_phase(struct trp_shutdown *shutdown)
{
    uint32_t next = UINT32_MAX;

    for (uint32_t i = 0; i < shutdown->count; i++) {
        const struct trp_phase *phase = shutdown->phases[i];

        if ((shutdown->begun & UINT64_C(1) << i) == 0 &&
            (phase->after & ~shutdown->begun) == 0 &&
            (next == UINT32_MAX ||
                (phase->is_eager && !shutdown->phases[next]->is_eager))) {
            next = i;
        }
    }
    if (next == UINT32_MAX) {
        return NULL;
    }
    shutdown->begun |= UINT64_C(1) << next;
    return shutdown->phases[next];
}

/* After a phase: is it the last one to run? */
static bool
is_halted(troupe_system *system, const struct trp_phase *phase, bool has_failed)
{
    if (!has_failed || (phase->flags & TROUPE_PHASE_HALT) == 0) {
        return false;
    }
    trp_system_log(system, TRP_LOG_USER, TROUPE_LOG_WARN,
        "[shutdown] phase %s has failed: the phases after it are left out",
        phase->name);
    return true;
}

static void
end_phases(troupe_system *system)
{
    /* relaxed: only who drives moves it from RUNNING. */
    trp_store_relaxed(&system->shutdown.state, TRP_SHUTDOWN_OVER);
    trp_system_stop_actors(system);
}

/* Until a thread has left its task, NULL: all have; false: the deadline. */
static bool
await_task(struct trp_shutdown *shutdown, const struct trp_shutdown_task *task,
    uint64_t deadline_ns)
{
    bool in_time = true;

    for (;;) {
        uint32_t running =
            trp_load_acquire(&shutdown->running); /* pairs: shutdown.running */
        bool is_over = task != NULL ? is_done(task) : running == 0;

        if (is_over || !in_time) {
            return is_over;
        }
        in_time = trp_futex_wait(&shutdown->running, running, deadline_ns);
    }
}

static void
join_done(struct trp_shutdown_task *task)
{
    if (task->has_thread && is_done(task)) {
        trp_thread_join(task->thread);
        task->has_thread = false;
    }
}

/* False: a task has failed or is late. */
static bool
run_phase(troupe_system *system, struct trp_phase *phase)
{
    struct trp_shutdown *shutdown = &system->shutdown;
    uint64_t deadline_ns = trp_clock_after(trp_clock_ns(), phase->timeout_ns);
    bool is_fine = true;

    for (EACH_TASK(task, phase)) {
        start_task(system, task);
    }
    for (EACH_TASK(task, phase)) {
        if (!task->has_thread) {
            is_fine &= run_here(system, phase, task);
        }
    }
    for (EACH_TASK(task, phase)) {
        if (task->has_thread) {
            is_fine &= report(
                system, phase, task, !await_task(shutdown, task, deadline_ns));
            join_done(task);
        }
    }
    return is_fine;
}

static void *
drive(void *user)
{
    troupe_system *system = user;
    struct trp_phase *phase;

    while ((phase = next_phase(&system->shutdown)) != NULL &&
           !is_halted(system, phase, !run_phase(system, phase))) {
    }
    end_phases(system);
    return NULL;
}

/* False: somebody else does, or there is nothing to run. */
static bool
claim(struct trp_shutdown *shutdown)
{
    uint32_t found = TRP_SHUTDOWN_PENDING;

    return trp_cas_acq_rel(&shutdown->state, &found, /* pairs: shutdown.state */
        TRP_SHUTDOWN_RUNNING);
}

/* After claim(). */
static bool
start_driver(troupe_system *system)
{
    struct trp_shutdown *shutdown = &system->shutdown;
    bool has_driver;

    trp_lock_acquire(&shutdown->lock);
    has_driver = start_thread(system, "stop", &shutdown->driver, drive, system);
    shutdown->has_driver = has_driver;
    trp_lock_release(&shutdown->lock);
    return has_driver;
}

void
trp_shutdown_drive_late(troupe_system *system)
{
    if (!system->core.sched.driven && claim(&system->shutdown) &&
        !start_driver(system)) {
        (void)drive(system);
    }
}

/* --- driven --------------------------------------------------------------- */

bool
trp_shutdown_is_due(const troupe_system *system)
{
    /* pairs: shutdown.state */
    return trp_load_acquire(&system->shutdown.state) == TRP_SHUTDOWN_PENDING &&
           system->core.sched.driven;
}

/* Moves on to the task that runs next; false: there is none. */
static bool
find_task(troupe_system *system)
{
    struct trp_shutdown *shutdown = &system->shutdown;

    while (shutdown->task == NULL) {
        if (shutdown->phase != NULL &&
            is_halted(system, shutdown->phase, shutdown->has_failed)) {
            return false;
        }
        shutdown->phase = next_phase(shutdown);
        if (shutdown->phase == NULL) {
            return false;
        }
        shutdown->has_failed = false;
        shutdown->task = shutdown->phase->first;
    }
    return true;
}

bool
trp_shutdown_step(troupe_system *system)
{
    struct trp_shutdown *shutdown = &system->shutdown;

    if (!trp_shutdown_is_due(system) || !claim(shutdown)) {
        return false;
    }
    (void)find_task(system); /* the first time */
    if (!run_here(system, shutdown->phase, shutdown->task)) {
        shutdown->has_failed = true;
    }
    shutdown->task = shutdown->task->next;
    if (find_task(system)) {
        /* pairs: shutdown.state */
        trp_store_release(&shutdown->state, TRP_SHUTDOWN_PENDING);
    } else {
        end_phases(system);
    }
    return true;
}

/* --- the request ---------------------------------------------------------- */

static bool
has_tasks(const struct trp_shutdown *shutdown)
{
    for (uint32_t i = 0; i < shutdown->count; i++) {
        if (shutdown->phases[i]->first != NULL) {
            return true;
        }
    }
    return false;
}

static void
begin(troupe_system *system)
{
    struct trp_shutdown *shutdown = &system->shutdown;

    if (!has_tasks(shutdown)) {
        trp_system_stop_actors(system);
        return;
    }
    /* pairs: shutdown.state */
    trp_store_release(&shutdown->state, TRP_SHUTDOWN_PENDING);
    if (system->core.sched.driven) {
        trp_submit_raise(&system->core.sched);
    } else if (claim(shutdown) && !start_driver(system)) {
        /* pairs: shutdown.state */
        trp_store_release(&shutdown->state, TRP_SHUTDOWN_PENDING);
    }
}

void
trp_shutdown_ask(troupe_system *system, const char *reason)
{
    struct trp_shutdown *shutdown = &system->shutdown;
    uint32_t found = 0;

    if (!trp_cas_acq_rel(&shutdown->asked, &found, /* pairs: system.asked */
            TRP_ASKED_BEGUN)) {
        return;
    }
    trp_lock_acquire(&shutdown->lock); /* whoever is adding gets done */
    snprintf(shutdown->reason, sizeof shutdown->reason, "%s",
        reason != NULL ? reason : "stop requested");
    trp_lock_release(&shutdown->lock);
    if (reason != NULL) {
        trp_system_log(system, TRP_LOG_USER, TROUPE_LOG_INFO,
            "[shutdown] begins: %s", shutdown->reason);
    }
    begin(system);
    /*
     * The last access: who waits for it may destroy the system. The wake-up
     * needs the address only.
     */
    trp_store_release(&shutdown->asked, TRP_ASKED_DONE); /* pairs: system.asked
                                                          */
    trp_futex_wake(&shutdown->asked, INT32_MAX);
}

void
troupe_shutdown_request(troupe_system *system, const char *reason)
{
    if (trp_system_check(system, "troupe_shutdown_request") == TROUPE_OK) {
        trp_shutdown_ask(system, reason);
    }
}

/* --- the end -------------------------------------------------------------- */

/* What is left of the phases may take so long, by their own deadlines. */
static uint64_t
phases_ns(struct trp_shutdown *shutdown)
{
    uint64_t sum_ns = 0;

    /* relaxed: one that just ends is waited for no longer than before. */
    if (trp_load_relaxed(&shutdown->state) == TRP_SHUTDOWN_OVER) {
        return 0;
    }
    trp_lock_acquire(&shutdown->lock);
    for (uint32_t i = 0; i < shutdown->count; i++) {
        if (shutdown->phases[i]->first != NULL) {
            sum_ns = trp_clock_after(sum_ns, shutdown->phases[i]->timeout_ns);
        }
    }
    trp_lock_release(&shutdown->lock);
    return sum_ns;
}

static uint64_t
grace_ns(const troupe_system *system)
{
    return system->tunables.value[TRP_TROUPE_STOP_GRACE_MS] * UINT64_C(1000000);
}

/* Nobody chose it: then it begins when the phases have ended. */
static bool
is_grace_default(const troupe_system *system)
{
    return system->tunables.source[TRP_TROUPE_STOP_GRACE_MS] ==
           TRP_SOURCE_DEFAULT;
}

uint64_t
trp_shutdown_phases_until(troupe_system *system, uint64_t now_ns)
{
    uint64_t until_ns = trp_clock_after(now_ns, grace_ns(system));

    return is_grace_default(system)
               ? trp_clock_after(until_ns, phases_ns(&system->shutdown))
               : until_ns;
}

uint64_t
trp_shutdown_actors_until(
    const troupe_system *system, uint64_t phases_until_ns, uint64_t now_ns)
{
    return is_grace_default(system) ? trp_clock_after(now_ns, grace_ns(system))
                                    : phases_until_ns;
}

bool
trp_shutdown_await_tasks(troupe_system *system, uint64_t deadline_ns)
{
    return await_task(&system->shutdown, NULL, deadline_ns);
}

void
trp_shutdown_join(troupe_system *system)
{
    struct trp_shutdown *shutdown = &system->shutdown;
    bool had_driver;

    trp_lock_acquire(&shutdown->lock);
    had_driver = shutdown->has_driver;
    shutdown->has_driver = false;
    trp_lock_release(&shutdown->lock);
    if (had_driver) {
        trp_thread_join(shutdown->driver);
    }
    for (uint32_t i = 0; i < shutdown->count; i++) {
        for (EACH_TASK(task, shutdown->phases[i])) {
            join_done(task);
        }
    }
}

size_t
troupe_shutdown_busy(const troupe_system *system, char *text, size_t bytes)
{
    size_t length = 0;
    troupe_system *own = trp_system_of(trp_core_of(system));

    if (text == NULL) {
        bytes = 0;
    }
    if (bytes > 0) {
        text[0] = '\0';
    }
    if (trp_system_check(system, "troupe_shutdown_busy") != TROUPE_OK) {
        return 0;
    }
    trp_lock_acquire(&own->shutdown.lock);
    for (uint32_t i = 0; i < own->shutdown.count; i++) {
        const struct trp_phase *phase = own->shutdown.phases[i];

        for (EACH_TASK(task, phase)) {
            /* relaxed: shown to people. */
            if (trp_load_relaxed(&task->progress) == INSIDE) {
                length +=
                    (size_t)snprintf(length < bytes ? text + length : NULL,
                        length < bytes ? bytes - length : 0, "%s%s/%s",
                        length != 0 ? ", " : "", phase->name, task->name);
            }
        }
    }
    trp_lock_release(&own->shutdown.lock);
    return length;
}
