/* SPDX-License-Identifier: MIT */
#ifndef TROUPE_SYSTEM_H
#define TROUPE_SYSTEM_H

#include <troupe/deadletter.h>
#include <troupe/log.h>
#include <troupe/mailbox.h>

TROUPE_BEGIN_DECLS

enum {
    TROUPE_SYSTEM_IGNORE_ENV = 1u << 0,   /* read no TROUPE_* variable */
    TROUPE_SYSTEM_DRIVEN = 1u << 1,       /* no threads; see driven.h */
    TROUPE_SYSTEM_FEWER_WORKERS = 1u << 2 /* go on if threads run out */
};

typedef enum troupe_steal { /* may idle workers take work from busy ones? */
    TROUPE_STEAL_DEFAULT = 0,
    TROUPE_STEAL_ON = 1,   /* where it is measured to pay */
    TROUPE_STEAL_OFF = 2,  /* never: work stays where it was made runnable */
    TROUPE_STEAL_EAGER = 3 /* always */
} troupe_steal;

typedef enum troupe_switch { /* an option that is on or off */
    TROUPE_SWITCH_DEFAULT = 0,
    TROUPE_SWITCH_ON = 1,
    TROUPE_SWITCH_OFF = 2
} troupe_switch;

#define TROUPE_SPIN_NEVER UINT32_MAX

/*
 * Any thread; `align` is a power of two. free() gets what alloc() was asked.
 * They serve everything but cells, mailbox rings, and messages and actor states
 * up to 2 KiB: those live in address space that a system reserves once
 * (docs/memory.md).
 */
typedef void *(*troupe_alloc_fn)(
    size_t bytes, size_t align, void *user)TROUPE_NOEXCEPT;
typedef void (*troupe_free_fn)(
    void *block, size_t bytes, void *user) TROUPE_NOEXCEPT;

/* Per tunable: a member that is not 0, else the environment, else a default. */
typedef struct troupe_system_options {
    size_t size;
    /* Paths, threads, log; NULL = "troupe"; copied. 1 to 63 bytes, no space. */
    const char *name;
    uint32_t flags;      /* TROUPE_SYSTEM_* */
    uint32_t workers;    /* TROUPE_WORKERS; 0 = CPUs we may use */
    uint32_t throughput; /* TROUPE_THROUGHPUT; messages per turn; 0 = adapts */
    uint32_t spin_us;    /* TROUPE_SPIN_US; or TROUPE_SPIN_NEVER */
    troupe_steal steal;  /* TROUPE_STEAL */
    uint32_t max_actors; /* TROUPE_MAX_ACTORS; so many can live, at least */
    uint32_t mailbox_warn;   /* TROUPE_MAILBOX_WARN; or TROUPE_WARN_NEVER */
    uint32_t stash_capacity; /* TROUPE_STASH_CAPACITY */
    size_t stack_bytes;      /* of our threads; 0 = 1 MiB */
    uint64_t ask_timeout_ns; /* TROUPE_ASK_TIMEOUT_MS */
    uint64_t stop_grace_ns;  /* TROUPE_STOP_GRACE_MS; troupe_system_stop() */
    uint64_t seed;           /* TROUPE_SEED; driven: order of turns */
    const char *cgroup_root; /* for tests; NULL = /sys/fs/cgroup */
    troupe_log_hook log;
    troupe_dead_letter_hook dead_letter;
    const troupe_dead_letter_options *dead_letters; /* TROUPE_DEAD_LETTERS */
    troupe_alloc_fn alloc;                          /* both or neither */
    troupe_free_fn free;
    void *alloc_user;
    troupe_switch metrics; /* TROUPE_METRICS; off */
    uint32_t reserved;     /* 0 */
} troupe_system_options;

/* `options` may be NULL. On failure `*system` is untouched, nothing leaks. */
TROUPE_API TROUPE_NODISCARD troupe_status troupe_system_create(
    const troupe_system_options *options, troupe_system **system);

/*
 * Begins the stop and returns; any thread, also inside a behaviour. First the
 * phases of the shutdown (shutdown.h), if they have tasks: meanwhile all is as
 * before. Then spawn and post give TROUPE_E_CLOSED and every child of /user
 * gets a troupe_stop: it handles what was queued before, then stops, its
 * children first. Again: nothing.
 */
TROUPE_API void troupe_system_request_stop(troupe_system *system);

/*
 * Waits until somebody has requested a stop, not for what the stop does. For
 * main(). E_TIMEOUT when nobody did in time, E_CONTEXT inside a behaviour,
 * E_STATE for a driven system.
 */
TROUPE_API TROUPE_NODISCARD troupe_status troupe_system_wait(
    troupe_system *system, uint64_t timeout_ns);

/*
 * Requests the stop and waits for it: `stop_grace_ns` for everything, phases
 * included. If nobody has chosen that it is 5 s, and begins when the phases,
 * which have deadlines of their own (shutdown.h), have ended.
 * TROUPE_E_TIMEOUT: actors or tasks of the shutdown still run, the log,
 * troupe_system_busy() and troupe_shutdown_busy() name them, the call may be
 * repeated. Half-way through what the phases leave of the grace those who still
 * drain are told to stop now. TROUPE_E_CONTEXT inside a behaviour or a task of
 * the shutdown. Stopped already: TROUPE_OK.
 */
TROUPE_API TROUPE_NODISCARD troupe_status troupe_system_stop(
    troupe_system *system);

/* Actors inside a behaviour now, or with work; like troupe_children(). */
TROUPE_API size_t troupe_system_busy(
    const troupe_system *system, troupe_ref *actors, size_t capacity);

/*
 * troupe_system_stop() if that has not been done, then frees everything. Any
 * other status than TROUPE_OK is that of the stop, or E_STATE while a port, a
 * probe or a breaker is open, and nothing was freed; if one is open when it is
 * called, nothing was stopped either. NULL is allowed. Other
 * threads must have left all other calls on the system, but for requests of the
 * stop and tasks of the shutdown, which are waited for.
 */
TROUPE_API troupe_status troupe_system_destroy(troupe_system *system);

/*
 * Returns when no actor has work: for tests. TROUPE_E_TIMEOUT, E_CONTEXT inside
 * a behaviour. A driven system is run here until then, its virtual clock left
 * alone. Messages in ports are their owners' business and not waited for.
 *
 * A message counts as work once every thread that is posting to the same actor
 * has come back from its call; stop or join those threads first.
 */
TROUPE_API TROUPE_NODISCARD troupe_status troupe_system_await_idle(
    troupe_system *system, uint64_t timeout_ns);

/*
 * One line per tunable: name, value, where it came from. Terminates if `bytes`
 * > 0; returns the length needed, like snprintf.
 */
TROUPE_API size_t troupe_system_describe(
    const troupe_system *system, char *text, size_t bytes);

TROUPE_API const char *troupe_system_name(const troupe_system *system);

TROUPE_END_DECLS

#endif /* TROUPE_SYSTEM_H */
