/* SPDX-License-Identifier: MIT */
#ifndef TROUPE_SHUTDOWN_H
#define TROUPE_SHUTDOWN_H

#include <troupe/types.h>

TROUPE_BEGIN_DECLS

/*
 * Ordered shutdown: phases in order, the tasks of a phase together. There are
 * "service-unbind", "service-requests-done", "service-stop", "before-stop" and
 * "stop"; the last one stops the actors when its tasks have been run. Whatever
 * requests the stop of a system runs the phases: troupe_system_request_stop(),
 * troupe_system_stop(), troupe_system_destroy(), troupe_shutdown_request(), a
 * failure that nobody decides. Until the actors are stopped the system takes
 * work as before. Phases without tasks cost nothing.
 */
#define TROUPE_PHASE_SERVICE_UNBIND "service-unbind"
#define TROUPE_PHASE_SERVICE_REQUESTS_DONE "service-requests-done"
#define TROUPE_PHASE_SERVICE_STOP "service-stop"
#define TROUPE_PHASE_BEFORE_STOP "before-stop"
#define TROUPE_PHASE_STOP "stop"

enum {
    /* A task that fails or is late ends the run of phases, after its own. */
    TROUPE_PHASE_HALT = 1u << 0
};

typedef struct troupe_phase_options {
    size_t size;
    const char *name;          /* required; copied; 1 to 63 bytes */
    const char *const *after;  /* names, NULL at the end; or NULL */
    const char *const *before; /* the same; a cycle is E_INVALID */
    uint64_t timeout_ns;       /* each task; 0 = 5 s */
    uint32_t flags;            /* TROUPE_PHASE_* */
    uint32_t reserved;
} troupe_phase_options;

/*
 * Any thread, before a stop is requested: E_CLOSED then. E_EXISTS: a phase has
 * that name. E_MISSING: no phase has a name in `after` or `before`. E_INVALID:
 * also for "stop" in `after`, everything comes before it. E_LIMIT: 64 phases.
 *
 * A phase with `after` runs as soon as those it names have run. One without
 * runs as late as its `before` lets it: with neither, after "before-stop". Ties
 * are in the order of adding.
 */
TROUPE_API TROUPE_NODISCARD troupe_status troupe_shutdown_add_phase(
    troupe_system *system, const troupe_phase_options *options);

/*
 * On a thread of its own, named after the task, so it may wait; driven: inside
 * troupe_system_run(), as one turn, where it may run the system itself. Not OK
 * is logged. At its deadline it is logged and not waited for any more, but by
 * troupe_system_stop(). `reason` is valid until it returns. Where no thread can
 * be started, and driven, it is found late only when it has returned.
 *
 * It may request the stop again, which does nothing. E_CONTEXT for
 * troupe_system_stop() and troupe_system_destroy(): they would wait for it.
 */
typedef troupe_status (*troupe_shutdown_fn)(
    troupe_system *system, const char *reason, void *user) TROUPE_NOEXCEPT;

/*
 * Any thread, before a stop is requested: E_CLOSED then. E_MISSING: no such
 * phase. E_EXISTS: the phase has a task of that name, of 1 to 63 bytes. Names
 * are copied.
 */
TROUPE_API TROUPE_NODISCARD troupe_status troupe_shutdown_add(
    troupe_system *system, const char *phase, const char *task,
    troupe_shutdown_fn fn, void *user);

/*
 * troupe_system_request_stop() with a reason for the log and the tasks: copied,
 * cut to 127 bytes; NULL = "stop requested". The first request has its reason
 * kept.
 */
TROUPE_API void troupe_shutdown_request(
    troupe_system *system, const char *reason);

/*
 * The tasks that are inside their function now: "phase/task, phase/task". Any
 * thread; terminates if `bytes` > 0; returns the length needed, like snprintf.
 */
TROUPE_API size_t troupe_shutdown_busy(
    const troupe_system *system, char *text, size_t bytes);

TROUPE_END_DECLS

#endif /* TROUPE_SHUTDOWN_H */
