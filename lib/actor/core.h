/* SPDX-License-Identifier: MIT */
#ifndef TRP_ACTOR_CORE_H
#define TRP_ACTOR_CORE_H

/*
 * What sends and turns need of a system. A troupe_system begins with one, so
 * the two have one address: trp_core_of() is the only place that knows.
 */

#include <troupe/ask.h>
#include <troupe/deadletter.h>
#include <troupe/mailbox.h>
#include <troupe/supervision.h>

#include "base/error.h"
#include "base/least.h"
#include "queue/ring.h"
#include "sched/worker.h"

struct trp_asker;
struct trp_box;
struct trp_cell;
struct trp_cold;
struct trp_op;
struct trp_probe;
struct trp_subscription;

/* What an event about an actor tells. */
struct trp_life {
    troupe_exit exit;
    troupe_ref parent;
    const troupe_actor_type *type;
};

/* X(name): one column of the books; see troupe/counters.h. */
#define TRP_BOOKS_MAP(X)                                                       \
    X(sent)                                                                    \
    X(refused)                                                                 \
    X(handled)                                                                 \
    X(dropped)                                                                 \
    X(dead)                                                                    \
    X(cancelled)                                                               \
    X(stops)   /* in line, less those taken out: in no public column */        \
    X(answers) /* that wait in operations: in no public column */              \
    X(started)                                                                 \
    X(stopped)                                                                 \
    X(restarted)                                                               \
    X(timers) /* pending, delayed messages included */                         \
    /* In a line of their own: dropped, by reason. */                          \
    X(dropped_new)                                                             \
    X(dropped_head)                                                            \
    X(dropped_throttle)                                                        \
    /* For metrics; in no public column. */                                    \
    X(unborn)    /* started, but start() has never succeeded */                \
    X(unhandled) /* a behaviour said so */                                     \
    X(stashed)   /* put aside */

#define TRP_DEAD_REASONS 9u

struct trp_books {
#define TRP_BOOKS_MEMBER(name) TRP_ATOMIC(uint64_t) name;
    TRP_BOOKS_MAP(TRP_BOOKS_MEMBER)
#undef TRP_BOOKS_MEMBER
    TRP_ATOMIC(uint64_t) letters[TRP_DEAD_REASONS]; /* by troupe_dead_reason */
};

/* A message that was lent to the user, and what he did with it. */
struct trp_current {
    const troupe_msg *msg; /* NULL: none */
    struct trp_item *item; /* the same as it lay in the ring */
    uint32_t spent;        /* TRP_SPENT_* */
};

#define TRP_SPENT_TAKEN 1u  /* the message is the user's, or another actor's */
#define TRP_SPENT_MOVED 2u  /* what the payload owned went elsewhere */
#define TRP_SPENT_AWAY 4u   /* taken, and not by the user: it may be freed */
#define TRP_SPENT_PASSED 8u /* taken, and sent to who is to answer it */

/* One callback at a time runs on a worker; this is its `self`. */
struct troupe_self {
    struct trp_core *core;
    struct trp_local *local;
    struct trp_worker *worker;
    struct trp_cell *cell;
    troupe_ref ref;                /* of the cell */
    troupe_behaviour_fn behaviour; /* the cell's, kept up with */
    struct trp_current current;    /* the message of this turn */
    int32_t code;                  /* of troupe_fail() */
    bool code_is_set;
    bool is_lost;  /* with TROUPE_DONE: it has failed, and nobody is asked */
    uint8_t after; /* TRP_AFTER_*: what the turn has to look at */
    bool in_then;  /* a continuation: what is current is no message */
    troupe_ticket awaits; /* of troupe_await() */
};

#define TRP_AFTER_SELF 1u  /* sent to itself */
#define TRP_AFTER_RULES 2u /* has rules or a timeout that it had not */
#define TRP_AFTER_OPS 4u   /* has ended an operation, or awaits one */

/* What troupe_await() returns: for the turn only. */
#define TRP_VERDICT_AWAIT 4u

/* What is measured while metrics are on: actor/meter.h. */
struct trp_meter {
    /* Sends until one is measured; 0: metrics are off. Others set and clear it:
       what is lost then is mended at the next message that is drawn. */
    TRP_ATOMIC(uint32_t) sends_left;
    uint32_t weight;         /* of the message at hand; 0: not measured */
    struct trp_probe *probe; /* of this turn's cell; NULL: metrics are off */
    struct trp_lot messages, yields, sends;
};

enum trp_tally_kind {
    TRP_TALLY_HANDLER, /* time of a behaviour */
    TRP_TALLY_DEPTH,   /* of the mailbox, with the message at hand */
    TRP_TALLY_WAIT,    /* of a message in its mailbox */
    TRP_TALLY_DELAY,   /* of an actor in a queue of runnable ones */
    TRP_TALLIES
};

#define TRP_TALLY_BUCKETS 14u

struct trp_tally {
    TRP_ATOMIC(uint64_t) bucket[TRP_TALLY_BUCKETS];
    TRP_ATOMIC(uint64_t) sum; /* a double */
};

/*
 * The actor layer's part of a worker. Its thread only, but for the books, the
 * tallies and the switch of the meter.
 */
struct trp_local {
    struct trp_worker *worker;
    struct troupe_self self;
    struct trp_meter meter;
    TRP_ALIGNED(64) struct trp_books books; /* this worker writes */
    struct trp_pool_cache segments;
    struct trp_pool_cache messages;
    struct trp_pool_cache cells;
    struct trp_pool_cache ops;
    struct trp_quick_clock clock;
    struct trp_tally tallies[TRP_TALLIES]; /* this worker writes */
};

struct trp_registry_table;

struct trp_core {
    /* constant while actors run */
    struct trp_pool cells;    /* kept: generations and tickets outlive actors */
    struct trp_pool segments; /* of rings; given back zeroed */
    struct trp_pool messages; /* boxes up to 2 KiB */
    struct trp_pool rules;    /* of mailboxes; kept: senders may come late */
    struct trp_pool routes;   /* of routers; kept: the same */
    struct trp_pool tables;   /* of routes; kept: the same */
    struct trp_pool depths;   /* of routees; kept: the same */
    struct trp_pool delayed;  /* messages; kept: ids outlive them */
    struct trp_pool ops;      /* kept: answers may come late; actor/op.h */
    struct trp_pool askers;   /* kept: so may their alarms */
    struct trp_cold *cold;    /* parallel to the cells */
    size_t cold_bytes;        /* reserved */
    struct trp_heap heap;
    struct trp_local *locals;       /* one per worker */
    struct trp_pool_cache **caches; /* four lists, one per pool */
    trp_least_fn least;             /* that is best here */
    uint32_t first_generation;
    uint32_t op_keys[4];
    uint64_t ask_timeout_ns;
    uint32_t throughput;
    uint32_t stash_capacity;
    uint32_t deep_from; /* at this depth one more message is worth a warning */
    const char *name;
    troupe_dead_letter_hook dead_letter;
    void (*on_deep)(struct trp_core *core, troupe_ref actor, uint32_t depth);
    void (*on_user_gone)(struct trp_core *core); /* /user has stopped */
    /* a message nobody handles; `box` is what it lies in, or NULL */
    void (*on_dead_letter)(struct trp_core *core, struct trp_local *local,
        const troupe_dead_letter *letter, struct trp_box *box);
    /*
     * While life_listeners is not 0. Before the first turn; after the last,
     * when the name is free again.
     */
    void (*on_started)(struct trp_core *core, struct trp_local *local,
        const struct trp_life *life);
    void (*on_stopped)(struct trp_core *core, struct trp_local *local,
        const struct trp_life *life);
    void (*on_restarted)(struct trp_core *core, struct trp_local *local,
        const struct trp_life *life);
    /* what was promised and could not be: exit.code says why */
    void (*on_error)(struct trp_core *core, struct trp_local *local,
        const struct trp_life *life);
    /* who hears of that; how many, and not more than `most` */
    uint32_t (*error_listeners)(
        struct trp_core *core, troupe_ref *refs, uint32_t most);
    /* answered; so many restarts were in the window before */
    void (*on_failed)(struct trp_core *core, const troupe_exit *cause,
        troupe_directive directive, uint32_t restarts);
    /* a failure came up to /user: the system is to stop */
    void (*on_root_failed)(struct trp_core *core, const troupe_exit *cause);
    /* While `metered` is not 0: a message of this one was dropped. */
    void (*on_dropped)(
        struct trp_core *core, troupe_ref recipient, troupe_drop_reason reason);
    /* Of an actor that has gone; they are freed. */
    void (*on_subscriber_gone)(
        struct trp_core *core, struct trp_subscription *first);
    uint64_t (*now_ns)(const struct trp_core *core); /* virtual, if it is */
    /* a behaviour asked for a payload of another size */
    void (*on_mismatch)(
        struct trp_core *core, const troupe_msg *msg, size_t bytes);
    const TRP_ATOMIC(uint32_t) * alive; /* 0 in a forked child */
    troupe_ref user;                    /* the guardians */
    troupe_ref ports;

    struct trp_sched sched;

    /* any thread */
    TRP_ALIGNED(64) TRP_ATOMIC(uint32_t) closing; /* a stop was requested */
    TRP_ATOMIC(uint32_t)
    life_listeners;                           /* subscriptions to such events; 1
                                                 more if metrics count them */
    TRP_ATOMIC(uint32_t) metered;             /* metrics are on */
    TRP_ATOMIC(struct trp_probe *) probes;    /* actor/meter.h; or NULL */
    TRP_ATOMIC(uint32_t) cold_committed;      /* cells with a cold part */
    struct trp_lock names;                    /* the registry, all extras */
    struct trp_registry_table *registry;      /* under names */
    TRP_ALIGNED(64) struct trp_books foreign; /* threads without a worker */
};

static inline struct trp_core *
trp_core_of(const troupe_system *system)
{
    return (struct trp_core *)(uintptr_t)system;
}

static inline troupe_system *
trp_system_of(struct trp_core *core)
{
    return (troupe_system *)(void *)core;
}

/* False in a child process: the threads and locks are the parent's. */
static inline bool
trp_core_is_alive(const struct trp_core *core)
{
    /* relaxed: written by the kernel, at fork. */
    return TRP_LIKELY(trp_load_relaxed(core->alive) != 0);
}

/* This thread's part of `core`, or NULL on a thread that is not its worker. */
static inline struct trp_local *
trp_local_here(const struct trp_core *core)
{
    struct trp_worker *worker = trp_thread.worker;

    return worker != NULL && worker->sched == &core->sched ? worker->local
                                                           : NULL;
}

/* Counts in one column of the books. `local` NULL: a foreign thread. */
#define trp_book(core, local, column, n)                                       \
    ((local) != NULL ? (void)trp_count(&(local)->books.column, (n))            \
                     : (void)trp_add_relaxed(&(core)->foreign.column,          \
                           (n)) /* relaxed: statistic */)

#endif /* TRP_ACTOR_CORE_H */
