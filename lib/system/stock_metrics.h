/* SPDX-License-Identifier: MIT */
#ifndef TRP_SYSTEM_STOCK_METRICS_H
#define TRP_SYSTEM_STOCK_METRICS_H

/*
 * The metrics that every system has: docs/metrics.md lists them. Most are read
 * from what is counted anyway when somebody asks. What is counted for them, and
 * only while metrics are on:
 *
 *   by class  actors that start, stop, restart, and drops. A class is the name
 *             of an actor type; who counts finds it by the type's address in a
 *             table that is read without a lock.
 *   letters   in the registry, by outcome and recipient
 *   times     actor/meter.h
 *
 * A survey is one pass over all cells, for what nobody counts: how many actors
 * a class has, how much waits for them, and who is deep. It is kept for a
 * second, for all who ask in that time.
 *
 * Invariants
 *   M1  A class stays until the system ends; its name is a copy.
 *   M2  A survey is freed by the last who reads it, or by who replaces it.
 *   M3  No lock is held while memory is asked for, nor while a pass is made.
 *
 * Pairs
 *   stock.class  store of a type, or of a link -> load of it: the class.
 */

#include "actor/core.h"
#include "system/metrics.h"

#define TRP_DEEP_FROM 10000u      /* a mailbox that gets a series */
#define TRP_SURVEY_NS 1000000000u /* is kept so long */
#define TRP_CLASS_SLOTS 512u      /* types that are found without a lock */

enum trp_class_count {
    TRP_CLASS_STARTED,
    TRP_CLASS_STOPPED,
    TRP_CLASS_RESTARTED,
    TRP_CLASS_DROPPED_NEW,
    TRP_CLASS_DROPPED_HEAD,
    TRP_CLASS_DROPPED_THROTTLE,
    TRP_CLASS_COUNTS
};

struct trp_class {
    TRP_ATOMIC(struct trp_class *) next; /* under lock; read by all */
    uint32_t index;
    uint32_t word; /* of the registry: the first of its counts */
    size_t bytes;
    const char *name;
};

struct trp_survey;

enum trp_letter_outcome {
    TRP_LETTER_CAPTURED,
    TRP_LETTER_REPLAYED,
    TRP_LETTER_REPLAY_FAILED,
    TRP_LETTER_OUTCOMES
};

struct trp_stock {
    /* constant after creation: those of recipients that nobody knows, or NULL
     */
    struct trp_series *letters[TRP_LETTER_OUTCOMES];

    /* The first one: who has no memory for another. */
    struct trp_class other;

    /* written under lock, read by all */
    struct {
        TRP_ATOMIC(const troupe_actor_type *) type;
        TRP_ATOMIC(struct trp_class *) class;
    } slot[TRP_CLASS_SLOTS];

    /* under lock */
    struct trp_lock lock;
    struct trp_class *last;
    uint32_t class_count;
    struct trp_survey *survey; /* the newest, or NULL */
};

/* False: no memory. After trp_metrics_init(). */
bool trp_stock_init(troupe_system *system);
/* Zeroed is allowed. */
void trp_stock_fini(troupe_system *system);

/* On or off; false: no memory for all that is measured, the rest is on. */
bool trp_stock_switch(troupe_system *system, bool on);

/* A metric of the library's is called so, or one of its samples. */
bool trp_stock_has_name(const char *name, troupe_metric_kind kind);

/* Of a type (NULL: a port), made if need be; never NULL. */
struct trp_class *trp_stock_class(
    troupe_system *system, const troupe_actor_type *type);
/* The one after it, in the order in which they were met; or NULL. */
struct trp_class *trp_stock_next_class(const struct trp_class *class);

/* For core.on_started and its like; nothing while metrics are off. */
void trp_stock_count_life(troupe_system *system, const troupe_actor_type *type,
    enum trp_class_count what);
/* core.on_dropped. */
void trp_stock_count_drop(
    struct trp_core *core, troupe_ref recipient, troupe_drop_reason reason);
/* Of the store; nothing while metrics are off. */
void trp_stock_count_letter(troupe_system *system, troupe_ref recipient,
    enum trp_letter_outcome outcome);

#endif /* TRP_SYSTEM_STOCK_METRICS_H */
