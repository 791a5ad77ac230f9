/* SPDX-License-Identifier: MIT */
#ifndef TRP_SYSTEM_SYSTEM_H
#define TRP_SYSTEM_SYSTEM_H

#include <troupe/driven.h>
#include <troupe/system.h>
#include <troupe/timer.h>

#include "actor/core.h"
#include "system/dead_letters.h"
#include "system/events.h"
#include "system/log.h"
#include "system/metrics.h"
#include "system/shutdown.h"
#include "system/stock_metrics.h"
#include "system/tunables.h"

struct troupe_system {
    struct trp_core core; /* first: trp_core_of() */

    /* constant after creation */
    struct trp_tunables tunables;
    char name[64];
    uint64_t start_ns;  /* on the monotonic clock */
    bool is_simulation; /* driven with a seed: time is virtual */
    void *fork_page;    /* core.alive is in it */

    struct trp_log log;
    struct trp_dead_letters dead_letters;
    struct trp_events events;
    struct trp_shutdown shutdown;
    struct trp_metrics metrics;
    struct trp_stock stock;

    /* any thread */
    TRP_ALIGNED(64) TRP_ATOMIC(uint64_t) virtual_ns; /* driver writes */
    TRP_ATOMIC(uint32_t) ended; /* futex: /user has stopped */
    TRP_ATOMIC(uint32_t) open;  /* ports and what else forbids destroy */
    struct trp_lock stop_lock;  /* one thread joins the workers */
};

/* E_INVALID, E_FORKED, or TROUPE_OK. */
troupe_status trp_system_check(const troupe_system *system, const char *call);
/* E_CONTEXT inside a behaviour of this system, or TROUPE_OK. */
troupe_status trp_system_check_outside(
    const troupe_system *system, const char *call);

/* A line of the library's own. */
void trp_system_log(troupe_system *system, enum trp_log_kind kind,
    troupe_log_level level, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The same under the path of an actor, never held back. */
void trp_system_log_of(troupe_system *system, troupe_ref actor,
    troupe_log_level level, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The end of a shutdown: from here on new work is refused. Once. */
void trp_system_stop_actors(troupe_system *system);

/*
 * Driven: runs turns and tasks of a shutdown until nothing can run, at most
 * `turns` (0: all).
 */
uint32_t trp_system_turn(troupe_system *system, uint32_t turns);

/* Simulation: not back, since what is due late was due earlier. */
void trp_system_move_clock(troupe_system *system, uint64_t to_ns);

#endif /* TRP_SYSTEM_SYSTEM_H */
