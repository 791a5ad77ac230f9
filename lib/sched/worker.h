/* SPDX-License-Identifier: MIT */
#ifndef TRP_SCHED_WORKER_H
#define TRP_SCHED_WORKER_H

/* The scheduler of one system: its workers and what they share. */

#include "base/align.h"
#include "base/heap.h"
#include "base/rng.h"
#include "os/alert.h"
#include "queue/deque.h"
#include "sched/alarm.h"
#include "sched/idle.h"
#include "sched/task.h"

#include <pthread.h>

enum trp_steal { TRP_STEAL_GATED = 1, TRP_STEAL_OFF = 2, TRP_STEAL_EAGER = 3 };

/* What a searching worker remembers of another one: see sched/steal.c. */
struct trp_seen {
    uint64_t work;
    uint64_t looked_ns; /* when it was read */
    uint64_t moved_ns;  /* when it had grown last */
    uint32_t pace;
    uint32_t reserved;
};

/* Whether stealing pays: see sched/steal.c. */
struct trp_gate {
    enum {
        TRP_GATE_REST,
        TRP_GATE_WATCH,
        TRP_GATE_PROBATION,
        TRP_GATE_WARM,
        TRP_GATE_TRIAL,
        TRP_GATE_LICENCE
    } phase;
    uint32_t victim;     /* of the last steal */
    uint32_t passes;     /* windows of this trial that were worth it */
    uint64_t until_ns;   /* end of this phase, or of the mute */
    uint64_t mark_ns;    /* begin of what is measured */
    uint64_t mark_work;  /* done by all until then */
    uint64_t stuck_work; /* done by the victim when it was robbed */
    uint64_t solo_rate;  /* without this worker */
    uint64_t members;    /* workers that made it */
    uint64_t mute_ns;    /* after the next failure */
    uint64_t short_ns;   /* after the next trial without a verdict */
    uint64_t licence_ns; /* after the next success */
};

struct trp_worker {
    /* set before start, then constant */
    struct trp_sched *sched;
    void *local; /* the actor layer's part */
    struct trp_seen *seen;
    const TRP_ATOMIC(uint64_t) * progress[3]; /* of the actor layer: work */
    pthread_t thread;
    uint32_t index;
    bool started;
    bool is_robbed; /* others take from its slot and its queues */

    /* this worker only */
    uint32_t tick;      /* dispatches */
    uint32_t slot_runs; /* from the slot in a row */
    uint32_t credit;    /* turns of the deque before the next yielder's */
    struct trp_gate gate;
    struct trp_rng rng;

    /* this worker writes, thieves take */
    TRP_ALIGNED(64) TRP_ATOMIC(struct trp_task *) slot; /* runs next */
    struct trp_deque deque; /* newest first; thieves from the other end */
    struct trp_deque yield; /* oldest first: used up their throughput */

    /* this worker writes, anybody reads */
    TRP_ALIGNED(64) TRP_ATOMIC(uint64_t) turns;
    TRP_ATOMIC(uint64_t) injected;
    TRP_ATOMIC(uint64_t) steals;
    TRP_ATOMIC(uint64_t) steal_misses;
    TRP_ATOMIC(uint64_t) parks;
    TRP_ATOMIC(uint64_t) wakes;
    TRP_ATOMIC(struct trp_task *) current; /* running now, or NULL */

    /* others write: see sched/idle.h, and who hands work back */
    TRP_ALIGNED(64) TRP_ATOMIC(uint32_t) park;
    struct trp_inject inbox;      /* to the deque */
    struct trp_inject inbox_last; /* to the yield queue */
};

struct trp_sched_options {
    trp_run_fn run;
    void (*rest)(struct trp_worker *worker);
    const char *name;
    uint32_t workers;
    uint64_t spin_ns;
    size_t stack_bytes;
    enum trp_steal steal;
    bool driven;        /* one worker, no thread: the caller runs the turns */
    bool fewer_workers; /* go on with those that could be started */
    uint64_t seed;      /* driven: 0 = in order */
};

struct trp_sched {
    /* any thread changes it; a worker sees that at some later turn */
    TRP_ATOMIC(trp_run_fn) run;

    /* set before start, then constant */
    void (*rest)(struct trp_worker *worker); /* before it sleeps */
    struct trp_heap *heap;
    struct trp_worker *workers;
    uint32_t count;
    uint32_t allocated;
    uint64_t spin_ns;
    enum trp_steal steal;
    bool driven;
    bool ordered; /* driven without a seed */

    /* any thread */
    TRP_ALIGNED(64) struct trp_idle idle;
    TRP_ALIGNED(64) struct trp_alarms alarms;
    TRP_ALIGNED(64) struct trp_inject inject;
    TRP_ATOMIC(uint32_t) stopping;
    TRP_ATOMIC(uint32_t) go; /* futex: all threads are there, or none will be */
    TRP_ATOMIC(uint64_t) foreign_wakes; /* wakes by threads without a worker */

    /* driven: what the host polls; see trp_sched_settle() */
    TRP_ATOMIC(uint32_t) raised; /* somebody puts a token in, or has */
    struct trp_alert alert;
};

/* Workers without threads. On failure the zeroed parts can be given to fini. */
troupe_status trp_sched_init(struct trp_sched *sched, struct trp_heap *heap,
    const struct trp_sched_options *options);
/* Starts the threads. E_SYSTEM: none is left running. */
troupe_status trp_sched_start(
    struct trp_sched *sched, const struct trp_sched_options *options);
/* Ends and joins the threads; nothing must be runnable. Again: nothing. */
void trp_sched_stop(struct trp_sched *sched);
void trp_sched_fini(struct trp_sched *sched);

/* Everything of this worker that can run, or what was injected; or NULL. */
struct trp_task *trp_worker_pick(struct trp_worker *worker);
/* What was injected goes to the end of the yield queue. */
void trp_worker_gather(struct trp_worker *worker);
/* Runs one task here and now. */
void trp_worker_run(struct trp_worker *worker, struct trp_task *task);
/* The loop of a worker's thread. */
void *trp_worker_thread(void *worker);

/* driven: the next task, drawn from the seed if there is one; or NULL. */
struct trp_task *trp_sched_next_driven(struct trp_sched *sched);
/* driven: how many wait. */
uint32_t trp_sched_runnable(struct trp_sched *sched);
/* driven: makes the descriptor say whether something can run, or when. */
void trp_sched_settle(struct trp_sched *sched);

#endif /* TRP_SCHED_WORKER_H */
