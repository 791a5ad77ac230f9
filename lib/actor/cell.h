/* SPDX-License-Identifier: MIT */
#ifndef TRP_ACTOR_CELL_H
#define TRP_ACTOR_CELL_H

/*
 * An actor's memory: 128 bytes that messages touch, 48 bytes that they do not,
 * and an `extra` for the few that have a name, a start argument, watchers or a
 * stack of behaviours.
 *
 *   cell   |ring 16|task 8|generation, flags 8|slot 32|  what senders touch
 *          |behaviour 8|batch, rules 8|state 16|slot 32|  what the actor does
 *   cold   |type|extra|parent prev next first|birth wraps|lock|code|
 *
 * Cells are type-stable: never unmapped, so any ref can be looked at. A ref is
 * {index, generation}; the generation changes when the actor has gone. A cell
 * is used again at once. That is safe without epochs or counts because tail of
 * its ring never repeats (ring.h I1): a sender reads the word, then the
 * generation, then does its CAS. If the CAS succeeds, nothing happened in
 * between, so the generation was that of the actor it reached
 * (docs/decisions/0003-no-qsbr.md).
 *
 * Invariants
 *   C1  A cell without an actor has X and S set, so nobody schedules it.
 *   C2  The generation of an actor never comes back while the system lives: a
 *       cell that has used them all up is not used again.
 *   C4  The top bit of the generation says that the mailbox has rules
 *       (actor/rules.h). Refs do not have it, so the claim of a plain send
 *       fails and leads to who knows the rules: others pay nothing for them.
 *   C3  Children go before parents: a parent's cell outlives its children's.
 *
 * Pairs
 *   cell.life   store of generation at the end -> load of generation by a
 *               reader that is not a sender (path, inspect): kind is gone. So
 *               who takes a ref from a cell reads generation, then kind.
 *   cell.cold_part
 *               store of parent, type, birth for a new life -> load of them by
 *               such a reader, who looks at generation again afterwards: what
 *               it read was of the life it looked for.
 *   cell.look   store of look after K or L -> load of look by the owner.
 *   cell.kind   store of kind at birth -> load of kind by such a reader: what
 *               the cold part says is of this life.
 *   cell.extra  store of extra -> load of extra by its owner: what is in it.
 *   cell.first  store of first by a child that leaves -> load of first by the
 *               owner, without the lock: the last child's end.
 *   cell.family store of family by a child that has failed -> load of family by
 *               the owner: what is in it.
 *   cell.cold   CAS of cold_committed -> load of it: the pages are usable.
 */

#include "actor/core.h"
#include "queue/fifo.h"
#include "queue/ring.h"

#include <troupe/mailbox.h>
#include <troupe/supervision.h>
#include <troupe/throttle.h>

enum {                              /* trp_cell.flags */
    TRP_CELL_STARTING = 1u << 0,    /* start() has not run */
    TRP_CELL_STARTED = 1u << 1,     /* stop() is due */
    TRP_CELL_STOPPING = 1u << 2,    /* X is set, children are going */
    TRP_CELL_FINISHING = 1u << 3,   /* children gone, stop() has run */
    TRP_CELL_BOXED_STATE = 1u << 4, /* state is a pointer to memory */
    TRP_CELL_THROUGHPUT = 1u << 5,  /* its own, in the extra */
    TRP_CELL_RULED = 1u << 6,       /* pop by actor/rules.h */
    TRP_CELL_FAILED = 1u << 7,      /* its parent has not said what to do */
    TRP_CELL_EXIT_SHIFT = 8,        /* troupe_exit_kind, 3 bits */
    TRP_CELL_EXIT = 7u << TRP_CELL_EXIT_SHIFT,
    TRP_CELL_HELD = 1u << 11,       /* one above it has failed */
    TRP_CELL_RESTARTING = 1u << 12, /* the old state is about to go */
    TRP_CELL_TIMEOUT = 1u << 13,    /* a receive timeout: actor/timers.h */
    TRP_CELL_AWAITING = 1u << 14,   /* an operation: actor/op.h */
    TRP_CELL_UNBORN = 1u << 15,     /* start() has never succeeded */
    /* handles no messages: see actor/supervise.h */
    TRP_CELL_SUSPENDED = TRP_CELL_FAILED | TRP_CELL_HELD | TRP_CELL_RESTARTING
};

#define TRP_LIFE_RULED (UINT32_C(1) << 31) /* C4 */
#define TRP_LIFE_MASK (TRP_LIFE_RULED - 1)

#define TRP_BATCH_FIRST 6u /* log2 of the messages of a first turn */
#define TRP_BATCH_MOST 12u

enum trp_cell_kind {
    TRP_KIND_NONE = 0, /* no actor */
    TRP_KIND_ACTOR = 1,
    TRP_KIND_PORT = 2,
    TRP_KIND_GUARDIAN = 3
};

struct trp_cell {
    struct trp_ring ring;
    /* whoever scheduled it */
    struct trp_task task;
    /* life: written when the actor ends, read by anybody */
    TRP_ATOMIC(uint32_t) generation;
    /* owner writes, others look; of a guardian: under its lock */
    TRP_ATOMIC(uint16_t) flags;
    TRP_ATOMIC(uint8_t) hint; /* class its ring grows to first */
    TRP_ATOMIC(uint8_t) kind; /* constant during a life; NONE outside */
    struct trp_slot slot0;

    /* owner of S, but for the slot: senders stay away while there is a segment
     */
    troupe_behaviour_fn behaviour;
    uint8_t batch;              /* messages per turn, log2; adapts */
    uint8_t used_up;            /* the last turn was as long as it may be */
    TRP_ATOMIC(uint8_t) park;   /* TRP_PARK_*: see actor/park.h */
    TRP_ATOMIC(uint8_t) orders; /* TRP_ORDER_*: from its parent */
    TRP_ATOMIC(uint32_t)
    rules; /* of the mailbox, a unit of core->rules; or 0 */
    TRP_ALIGNED(16) union {
        unsigned char bytes[16];
        void *memory;
        struct trp_notify *notify; /* of a port: its descriptor */
    } state;
    struct trp_slot slot1;
};

_Static_assert(sizeof(struct trp_cell) == 128, "two cache lines");
_Static_assert(offsetof(struct trp_cell, slot0) == TRP_RING_OWN_OFFSET &&
                   offsetof(struct trp_cell, slot1) ==
                       TRP_RING_OWN_OFFSET + (1 << TRP_RING_OWN_SHIFT),
    "ring.h finds the slots there");

/* Whom an actor or a port watches: actor/watch.h. */
struct trp_watching {
    struct trp_watch **slot; /* a table, by subject; NULL = free */
    uint32_t count, slots;
    struct trp_watch *shown; /* whose notice the behaviour has; or NULL */
};

/* How an actor failed, and what is to come of it; made when it first does. */
struct trp_failure {
    troupe_exit cause;
    uint64_t due_ns;          /* not to be restarted before */
    bool is_reported;         /* in the parent's list */
    uint32_t prev, next;      /* index; 0: the first one, the last one */
    struct trp_fifo restarts; /* when; if each child has a budget */
};

/* What a parent knows of its children's failures; made at the first one. */
struct trp_family {
    TRP_ATOMIC(uint32_t) first_failed; /* index; not yet answered */
    uint32_t last_failed;
    troupe_exit cause;        /* of the last restart of all of them */
    uint64_t due_ns;          /* of that */
    struct trp_fifo restarts; /* when; if they share a budget */
};

/* Freed under core->names, so that others may read the name under it. */
struct trp_extra {
    /* constant */
    char *name; /* NULL: generated */
    size_t name_bytes;
    void *arg;
    size_t arg_bytes;
    uint32_t throughput;
    /* under core->names */
    uint32_t index; /* of the cell */
    uint64_t hash;
    struct trp_extra *same_hash;
    /* under the cell's lock */
    struct trp_watch *watchers;
    struct trp_op *held; /* asks that it has handled and not answered */
    /* owner of S */
    struct trp_watching watching;
    struct trp_asker *asker;                /* actor/op.h; NULL: none yet */
    struct trp_subscription *subscriptions; /* system/events.h */
    struct trp_timers *timers;              /* actor/timers.h */
    troupe_behaviour_fn *stack;             /* below the current one */
    uint32_t stack_used, stack_capacity;
    /* supervision; see actor/supervise.h */
    uint32_t actor_flags;             /* TROUPE_ACTOR_*; constant */
    struct trp_supervision *children; /* constant; NULL: the default */
    struct trp_supervision *own;      /* constant; NULL: its parent's */
    struct trp_failure *failure;      /* its own; under the parent's lock */
    TRP_ATOMIC(struct trp_family *) family; /* its children's; under its lock */
};

struct trp_cold {
    TRP_ATOMIC(const troupe_actor_type *) type; /* constant during a life */
    TRP_ATOMIC(struct trp_extra *) extra;       /* set once, under lock */
    TRP_ATOMIC(uint32_t) parent;                /* constant during a life */
    uint32_t prev, next;        /* siblings; under the parent's lock */
    TRP_ATOMIC(uint32_t) first; /* child; its prev is the last; under lock */
    TRP_ATOMIC(uint32_t) birth; /* ticket of the first message; constant */
    TRP_ATOMIC(uint16_t) wraps; /* times that head passed 2^32 */
    TRP_ATOMIC(uint8_t) look;   /* K or L was set: for who reads no word */
    TRP_ATOMIC(uint8_t) warned; /* doublings of the depth that were told */
    struct trp_lock lock;       /* children, watchers, extra */
    int32_t code;               /* of the exit; owner */
};

_Static_assert(sizeof(struct trp_cold) == 48, "idle actors are small");

static inline struct trp_cell *
trp_cell_at(const struct trp_core *core, uint32_t index)
{
    return (struct trp_cell *)(void *)(core->cells.base +
                                       (size_t)index * sizeof(struct trp_cell));
}

static inline uint32_t
trp_cell_index(const struct trp_core *core, const struct trp_cell *cell)
{
    return (uint32_t)((size_t)((const char *)cell - core->cells.base) /
                      sizeof(struct trp_cell));
}

static inline struct trp_cold *
trp_cold_of(const struct trp_core *core, const struct trp_cell *cell)
{
    return &core->cold[trp_cell_index(core, cell)];
}

/* Whose index lies in memory: true for every ref of this system. */
static inline bool
trp_ref_is_possible(const struct trp_core *core, troupe_ref ref)
{
    return TRP_LIKELY(ref.index != 0 && ref.generation != 0 &&
                      ref.index < trp_load_acquire(/* pairs: pool.commit */
                                      &core->cells.class[0].committed));
}

/* Of an actor that the caller knows to live: its own, or one above it. */
static inline troupe_ref
trp_cell_ref(const struct trp_core *core, struct trp_cell *cell)
{
    troupe_ref ref;

    ref.index = trp_cell_index(core, cell);
    /* relaxed: the caller knows that the actor lives. */
    ref.generation = trp_load_relaxed(&cell->generation) & TRP_LIFE_MASK;
    return ref;
}

/* For who looks at every cell: from 1 on, all below this can be touched. */
static inline uint32_t
trp_cells_end(const struct trp_core *core)
{
    uint32_t end =
        trp_load_acquire(&core->cells.class[0].bump); /* pairs: pool.bump */
    uint32_t cold =
        trp_load_acquire(&core->cold_committed); /* pairs: cell.cold */

    return end < cold ? end : cold;
}

/* The life that the cell is in, for readers that are not senders. */
static inline uint32_t
trp_cell_life(const struct trp_cell *cell)
{
    return trp_load_acquire(&cell->generation) & /* pairs: cell.life */
           TRP_LIFE_MASK;
}

/*
 * A ref as one word, and back: copied whole, since a load of 8 bytes waits for
 * two stores of 4.
 */
static inline uint64_t
trp_ref_pack(troupe_ref ref)
{
    uint64_t packed;

    __builtin_memcpy(&packed, &ref, sizeof packed);
    return packed;
}

static inline troupe_ref
trp_ref_unpack(uint64_t packed)
{
    troupe_ref ref;

    __builtin_memcpy(&ref, &packed, sizeof ref);
    return ref;
}

static inline uint32_t
trp_cell_flags(const struct trp_cell *cell)
{
    /* relaxed: the owner's own, or a look from outside. */
    return trp_load_relaxed(&cell->flags);
}

static inline void
trp_cell_set_flags(struct trp_cell *cell, uint32_t flags)
{
    trp_store_relaxed(&cell->flags, (uint16_t)flags); /* relaxed: owner */
}

static inline uint32_t
trp_cell_kind(const struct trp_cell *cell)
{
    return trp_load_relaxed(&cell->kind); /* relaxed: constant in a life */
}

/* Somebody lives there, and all of the cold part is his. */
static inline bool
trp_cell_is_visible(const struct trp_cell *cell)
{
    return trp_load_acquire(&cell->kind) != TRP_KIND_NONE; /* pairs: cell.kind
                                                            */
}

/*
 * Whoever lives there, for readers that do not know: TROUPE_NONE is nobody, or
 * one whose spawn has not returned. It may end at once.
 */
static inline troupe_ref
trp_cell_resident(const struct trp_core *core, struct trp_cell *cell)
{
    troupe_ref ref;

    ref.index = trp_cell_index(core, cell);
    ref.generation = trp_cell_life(cell);
    return trp_cell_is_visible(cell) ? ref : TROUPE_NONE;
}

/* Does it still? Then what was read of the cold part was its own. */
static inline bool
trp_cell_lives(const struct trp_core *core, troupe_ref ref)
{
    return trp_cell_life(trp_cell_at(core, ref.index)) == ref.generation;
}

/* The same for a ref from anywhere. If so, its cold part can be touched. */
static inline bool
trp_ref_lives(const struct trp_core *core, troupe_ref ref)
{
    return trp_ref_is_possible(core, ref) && trp_cell_lives(core, ref);
}

static inline uint32_t
trp_cell_parent(const struct trp_core *core, uint32_t index)
{
    return trp_load_acquire(&core->cold[index].parent); /* pairs: cell.cold_part
                                                         */
}

/* The lock is held. */
static inline uint32_t
trp_first_child_locked(const struct trp_cold *cold)
{
    return trp_load_relaxed(&cold->first); /* relaxed: under the lock */
}

/* For an event. The caller's own cell, or a child's, with the lock held. */
static inline struct trp_life
trp_life_of(const struct trp_core *core, struct trp_cell *cell,
    troupe_exit_kind kind, int32_t code)
{
    uint32_t parent = trp_cell_parent(core, trp_cell_index(core, cell));

    return (struct trp_life){.exit = {trp_cell_ref(core, cell), kind, code},
        .parent = trp_cell_ref(core, trp_cell_at(core, parent)),
        .type = trp_load_relaxed(/* relaxed: constant in a life */
            &trp_cold_of(core, cell)->type)};
}

/* What an actor may have and most have not; all checked by the caller. */
struct trp_birth_options {
    const char *name; /* NULL: generated */
    const void *arg;
    size_t arg_bytes;
    uint32_t throughput;                     /* 0: the system's */
    bool has_rules;                          /* one of these four is set */
    bool is_router;                          /* actor/route.h */
    bool counts_handled;                     /* the same for `counter` */
    TRP_ATOMIC(uint32_t) * counter;          /* of what waits, or NULL */
    const troupe_mailbox_options *mailbox;   /* NULL: the default one */
    uint32_t stash_capacity;                 /* 0: the system's */
    const troupe_throttle_options *throttle; /* NULL: none; was checked */
    uint32_t flags;                          /* TROUPE_ACTOR_* */
    const troupe_supervision *children;      /* NULL: default; was checked */
    const troupe_supervision *own;           /* the same */
};

struct trp_birth {
    const troupe_actor_type *type; /* NULL: a port */
    enum trp_cell_kind kind;
    struct trp_notify *notify;               /* of a port */
    const struct trp_birth_options *options; /* NULL: none of them */
};

/*
 * A new cell below `parent` (TROUPE_NONE: a root). E_NOMEM, E_LIMIT, E_EXISTS,
 * E_STATE (parent is stopping); nothing exists then. It can be sent to at once;
 * start() runs in its first turn.
 */
troupe_status trp_cell_create(struct trp_core *core, struct trp_local *local,
    troupe_ref parent, const struct trp_birth *birth, troupe_ref *ref);

/*
 * Owner, ring closed and drained, children gone: frees the name, tells who
 * watches, gives the cell back. Nothing of it may be touched afterwards.
 */
void trp_cell_destroy(struct trp_core *core, struct trp_local *local,
    struct trp_cell *cell, const troupe_exit *exit);

/* The extra, made if need be; NULL: no memory. Takes the cell's lock. */
struct trp_extra *trp_cell_extra(struct trp_core *core, struct trp_cell *cell);
struct trp_extra *trp_cell_extra_locked(
    struct trp_core *core, struct trp_cold *cold);

/* Last of all, no thread is left: frees what cells still own. */
void trp_core_fini_cells(struct trp_core *core);

static inline void *
trp_cell_state(struct trp_cell *cell)
{
    return (trp_cell_flags(cell) & TRP_CELL_BOXED_STATE) != 0
               ? cell->state.memory
               : cell->state.bytes;
}

#endif /* TRP_ACTOR_CELL_H */
